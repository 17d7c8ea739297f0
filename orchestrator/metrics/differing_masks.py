"""Elements that are masked on both sides, but by different numbers: −inf here, the lowest number of
the type there.

Attention scores get −inf, the lowest float32 or −1e9 where a token must not look. A float16 device
stores that as −65504 or −inf. Neither is a value that anything computes with: behind a softmax all
are 0.
"""

from __future__ import annotations

import math
from typing import Tuple

import numpy as np

from .exact_sums import NonFinite, exact_sums, finite_part
from .pair_sums import PairSums

LOWEST = tuple(float(np.finfo(name).min) for name in ("float16", "float32", "float64"))
"""One side must be −inf or next to one of these (bfloat16's lowest number is next to float32's):
nothing is lower in its type …
"""

NO_VALUE = -1e8
"""… and the other side must be so too, or at or below this: overflow of values that a network
computes with is above.
"""

MASKED = -65000.0
"""Whatever is above is no mask."""

NEXT_TO = 64.0
"""Numbers are next to each other when they differ by less than a part in so many."""

APART = 32.0
"""Masks that differ by less than a part in so many are compared as values."""

REST = 8.0
"""They are masks when every other golden element is smaller than the least of them by this factor
at least.
"""


def may_be_masked_apart(sums: PairSums) -> bool:
    """Tell whether a block with these sums may hold elements of :func:`masked_apart` that
    :meth:`MaskedSums.are_masks` takes for masks.
    """
    low, high = sorted((float(sums.x_low), float(sums.y_low)))
    return (
        high <= MASKED
        and low < 2 * MASKED
        and sums.max_ad * APART > -high
        and float(sums.y_high) * REST <= -high
    )


def masked_apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Tell which elements may be masked on both sides by different numbers.

    Parameters
    ----------
    x, y
        1-D arrays of real dtypes.

    Returns
    -------
    ndarray
        bool, of their size.
    """
    if x.dtype.kind != "f" or y.dtype.kind != "f":
        return np.zeros(x.size, np.bool_)
    x64, y64 = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        masked = (x64 <= MASKED) & (y64 <= MASKED)
        places = np.flatnonzero(masked)
        if places.size:
            x64, y64 = x64[places], y64[places]
            apart = np.absolute(x64 - y64) * APART > -np.maximum(x64, y64)
            ends = _is_lowest(x64), _is_lowest(y64)
            masked[places] = apart & (
                (ends[0] & (ends[1] | (y64 <= NO_VALUE))) | (ends[1] & (x64 <= NO_VALUE))
            )
    return masked


def _is_lowest(values: np.ndarray) -> np.ndarray:
    is_masked: np.ndarray = np.isneginf(values)
    for lowest in LOWEST:
        is_masked |= np.absolute(values / lowest - 1.0) * NEXT_TO < 1.0
    return is_masked


class MaskedSums:
    """What :func:`masked_apart` picked out of a tensor; picklable, mergeable.

    Attributes
    ----------
    count
        Number of elements.
    sums, odd
        Of those that are finite on both sides, and of the others.
    """

    def __init__(self) -> None:
        self.count = 0
        self.sums = PairSums()
        self.odd = NonFinite()
        self._least = math.inf
        self._lowest = (0.0, 0.0)
        self._all_lowest = True

    def add(self, x: np.ndarray, y: np.ndarray) -> None:
        """Add elements: 1-D, at least one."""
        self.count += x.size
        lows, highs = zip(*((float(a.min()), float(a.max())) for a in (x, y)))
        self._all_lowest &= bool(all(_is_lowest(a.astype(np.float64)).all() for a in (x, y)))
        self._note((lows[0], lows[1]), -max(highs))
        x, y, odd = finite_part(x, y)
        if odd is not None:
            self.odd.add(odd)
        if x.size:
            self.sums.add(exact_sums(x, y))

    def _note(self, lowest: Tuple[float, float], least: float) -> None:
        self._lowest = min(self._lowest[0], lowest[0]), min(self._lowest[1], lowest[1])
        self._least = min(self._least, least)

    def merge(self, other: MaskedSums) -> None:
        """Add those of other elements of the same tensors."""
        self.count += other.count
        self.sums.add(other.sums)
        self.odd.add(other.odd)
        self._all_lowest &= other._all_lowest
        self._note(other._lowest, other._least)

    def are_masks(self, rest: PairSums) -> bool:
        """Tell whether they are masks, given the sums of all other elements; where there are none,
        each must be the lowest of its type.
        """
        if not self.count or not rest.n:
            return self.count > 0 and self._all_lowest
        return max(-float(rest.y_low), float(rest.y_high)) * REST <= self._least

    def sentence(self) -> str:
        """Return what was left out, as a phrase."""
        elements = "1 element is" if self.count == 1 else "%d elements are" % self.count
        text = "%s masked on both sides and left out (target %.6g, golden %.6g)"
        return text % (elements, *self._lowest)
