"""How many elements of two tensors of whole numbers differ, and where the first ones are; elements
that are masked on both sides, but by different numbers: −inf here, the lowest number of the type
there.

Attention scores get −inf, the lowest float32 or −1e9 where a token must not look. A float16 device
stores that as −65504 or −inf. Neither is a value that anything computes with: behind a softmax all
are 0.
"""

from __future__ import annotations

import math
from typing import List, NamedTuple, Optional, Tuple, Union

import numpy as np

from ..tensors.type_precision import ulp
from .exact_sums import NonFinite, exact_sums, finite_part
from .pair_sums import PairSums
from .slice_squares import Where

Number = Union[int, float]

SHOWN = 3
"""So many differing elements are kept, the first ones as the golden is stored."""


class Difference(NamedTuple):
    """One element that differs: its place in the golden as it is stored, and both values."""

    place: int
    target: Number
    golden: Number


class Differences:
    """Collects the differing elements of blocks; picklable, mergeable.

    Parameters
    ----------
    rounded_to
        The float type of one side, where the other holds integers: those that it cannot hold are
        equal to what they are rounded to.

    Attributes
    ----------
    count
        Elements that differ.
    first
        The first :data:`SHOWN` of them; empty where blocks came without their places.
    whole
        Every golden value so far is a whole number.
    """

    def __init__(self, rounded_to: str = "") -> None:
        self._rounded_to = rounded_to
        self.count = 0
        self.first: List[Difference] = []
        self.whole = True

    def add(self, x: np.ndarray, y: np.ndarray, differ: np.ndarray, where: Optional[Where]) -> None:
        """Add one block.

        Parameters
        ----------
        x, y
            Target and golden elements in the block's shape.
        differ
            Which of them differ: bool or numbers that are not 0, 1-D in the block's C order.
        """
        if y.dtype.kind == "f" and self.whole:
            self.whole = bool((np.rint(y) == y).all())
        indices_of_differing = np.flatnonzero(differ)
        if (
            indices_of_differing.size
            and self._rounded_to
            and (x.dtype.kind == "f") != (y.dtype.kind == "f")
        ):
            floats = (
                (x if x.dtype.kind == "f" else y)
                .reshape(-1)[indices_of_differing]
                .astype(np.float64)
            )
            indices_of_differing = indices_of_differing[
                2.0 * np.absolute(differ.reshape(-1)[indices_of_differing])
                > ulp(floats, self._rounded_to)
            ]
        self.count += int(indices_of_differing.size)
        if where is None or not indices_of_differing.size or not self.whole:
            return
        indices = np.unravel_index(indices_of_differing, where.shape)
        places = np.full(indices_of_differing.size, where.start, np.int64)
        for index, stride in zip(indices, where.strides):
            places += index * stride
        for number in np.argsort(places, kind="mergesort")[:SHOWN]:
            at = tuple(index[number] for index in indices)
            self.first.append(
                Difference(
                    int(places[number]),
                    x.reshape(where.shape)[at].item(),
                    y.reshape(where.shape)[at].item(),
                )
            )
        self._cut()

    def merge(self, other: Differences) -> None:
        """Add the counts of other elements of the same tensors."""
        self.count += other.count
        self.first += other.first
        self.whole = self.whole and other.whole
        self._cut()

    def _cut(self) -> None:
        self.first = sorted(self.first)[:SHOWN]


def sentence(
    count: int, total: int, first: List[Difference], shape: Tuple[int, ...], order: str = "C"
) -> str:
    """Return how many of ``total`` elements differ, in per cent, and the first with their values
    and their indices in ``shape``.
    """
    text = "%d of %d elements differ (%.3g %%)" % (count, total, 100.0 * count / total)
    if not first:
        return text
    shown = []
    for place, target, golden in first:
        sizes = shape[::-1] if order == "F" else shape
        index = [int(number) for number in np.unravel_index(place, sizes)] if shape else []
        index = index[::-1] if order == "F" else index
        shown.append("%s: %s for %s" % (index, target, golden))
    return "%s, the first at %s" % (text, "; ".join(shown).replace(";", ","))


LOWEST = tuple(float(np.finfo(name).min) for name in ("float16", "float32", "float64"))
"""One side must be −inf or next to one of these (bfloat16's lowest number is next to float32's):
nothing is lower in its type …
"""

NO_VALUE = -1e8
"""… and the other side must be so too, or at or below this: overflow of values that a network
computes with is above.
"""

MASKED = -65000.0
"""Whatever is above is no mask: float16's lowest number is -65504."""

# These three and NO_VALUE are chosen, no trial: a step of bfloat16 is a part in 128 to 256.
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
