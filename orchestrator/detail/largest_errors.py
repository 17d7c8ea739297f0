"""The elements with the largest errors, of two or more passes' worth of windows, ties by
position.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

Array = Any

MOST = 10000


class Top:
    """Keeps the ``n`` elements of the largest keys.

    Parameters
    ----------
    n
        How many, at most :data:`MOST`.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.positions: Array = np.zeros(0, np.int64)
        self.x: Optional[Array] = None
        self.y: Optional[Array] = None
        self._keys: Optional[Array] = None

    def update(self, start: int, keys: Array, x: Array, y: Array) -> None:
        """Add elements ``start`` and following.

        Parameters
        ----------
        keys
            float64 or uint64; NaN is not ranked.
        """
        if keys.dtype.kind == "f":
            larger = ~np.isnan(keys)
        else:
            larger = np.ones(keys.shape, np.bool_)
        if self._keys is not None and self._keys.size == self.n:
            # A later element must be larger to come before one that is kept.
            larger &= keys > self._keys[-1]
        chosen = np.flatnonzero(larger)
        if chosen.size > 2 * self.n:
            least = np.partition(keys[chosen], chosen.size - self.n)[chosen.size - self.n]
            above, equal = chosen[keys[chosen] > least], chosen[keys[chosen] == least]
            chosen = np.concatenate([above, equal[: self.n - above.size]])
        if not chosen.size:
            return
        parts = [(keys[chosen], start + chosen, x[chosen], y[chosen])]
        if self._keys is not None:
            parts.insert(0, (self._keys, self.positions, self.x, self.y))
        columns = [np.concatenate(column) for column in zip(*parts)]
        falling = -columns[0] if columns[0].dtype.kind == "f" else ~columns[0]
        order = np.lexsort((columns[1], falling))[: self.n]
        self._keys, self.positions, self.x, self.y = (column[order] for column in columns)
