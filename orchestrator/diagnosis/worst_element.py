"""The element that tells most about two arrays that are not close."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

import numpy as np

from ..metrics.masks import masked_apart
from ..tensors.dtypes import plain_floats

_PIECE = 1 << 20


def worst_element(target: np.ndarray, golden: np.ndarray, masked: bool = False) -> Optional[str]:
    """Return in words where two arrays differ most: the first place where only one is NaN or that
    Inf, else the largest difference.

    Parameters
    ----------
    target, golden
        Of real or complex numbers, the same size, any shape; read in pieces of 1 Mi elements in the
        order of the indices.
    masked
        Pass over elements that are masked on both sides by different numbers.

    Returns
    -------
    str or None
        Its index in the golden and both values; None where nothing differs.
    """
    worst, worst_at = 0.0, -1
    for first, x, y in _pieces(target, golden):
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(x - y)
        finite = np.isfinite(x) & np.isfinite(y)
        wanted = ~masked_apart(x, y) if masked else np.ones(x.size, np.bool_)
        odd = np.flatnonzero(wanted & ~finite & (x != y) & ~(np.isnan(x) & np.isnan(y)))
        if odd.size:
            return "the first NaN or Inf that differs is at " + _told(
                target, golden, first + int(odd[0])
            )
        apart[~(finite & wanted)] = 0
        at = int(apart.argmax()) if apart.size else 0
        if apart.size and apart[at] > worst:
            worst, worst_at = float(apart[at]), first + at
    return (
        None if worst_at < 0 else "the largest difference is at " + _told(target, golden, worst_at)
    )


def _pieces(target: np.ndarray, golden: np.ndarray) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
    for first in range(0, golden.size, _PIECE):
        yield (
            first,
            _wide(target.flat[first : first + _PIECE]),
            _wide(golden.flat[first : first + _PIECE]),
        )


def _wide(values: np.ndarray) -> np.ndarray:
    values = plain_floats(values)
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _told(target: np.ndarray, golden: np.ndarray, at: int) -> str:
    index = [int(number) for number in np.unravel_index(at, golden.shape)]
    return "%s: target %s, golden %s" % (index, target.flat[at], golden.flat[at])
