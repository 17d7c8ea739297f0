"""How many elements of two tensors of whole numbers differ, and where the first ones are."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple, Union

import numpy as np

from ..tensors.type_precision import ulp
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
