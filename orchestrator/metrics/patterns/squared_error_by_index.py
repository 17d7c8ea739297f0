"""The squared error of a pair at each index of each axis, over all of its elements."""

from __future__ import annotations

import math
from typing import Any, List, Sequence, Tuple

import numpy as np

Array = Any


class SquaredErrorByIndex:
    """The squared error by the index along each axis.

    Parameters
    ----------
    sizes
        Of the axes.
    unit
        A power of two near the largest error: squares of very large and of very small numbers must
        stay numbers.
    """

    def __init__(self, sizes: Sequence[int], unit: float) -> None:
        self.sizes = tuple(sizes)
        self.unit = unit
        self.sums = [np.zeros(size) for size in self.sizes]
        self.energy = [np.zeros(size) for size in self.sizes]
        self.target_energy = [np.zeros(size) for size in self.sizes]
        self._fourth = 0.0

    def update(
        self, ranges: Sequence[Tuple[int, int]], signed: Array, golden: Array, target: Array
    ) -> None:
        """Add the errors of a window, and the elements of both sides; what is not finite counts
        0.
        """
        shape = tuple(high - low for low, high in ranges)
        for values, sums in (
            (signed, self.sums),
            (golden, self.energy),
            (target, self.target_energy),
        ):
            part = values / self.unit
            squares = part * part
            if not math.isfinite(float(squares.sum())):
                squares[~np.isfinite(squares)] = 0.0
            self._add(squares.reshape(shape), ranges, sums)
            if sums is self.energy:
                # Not by BLAS, whose threads would wait for each other.
                self._fourth += float(np.einsum("i,i->", squares.reshape(-1), squares.reshape(-1)))

    @staticmethod
    def _add(squares: Array, ranges: Sequence[Tuple[int, int]], sums: List[Array]) -> None:
        # From the innermost axis outwards, and each time only what is left of the outer ones is
        # summed again.
        rest = squares
        for axis in reversed(range(rest.ndim)):
            low, high = ranges[axis]
            sums[axis][low:high] += rest.sum(axis=tuple(range(axis)))
            rest = rest.sum(axis=axis)

    @property
    def elements(self) -> float:
        """How many golden elements of one size would have these sums of squares and of fourth
        powers; 0 where that is not known.
        """
        return self.elements_without(np.zeros(0))

    def elements_without(self, squares: Array) -> float:
        """Return :attr:`elements` of all but some golden elements; 0 where that is not known.

        Parameters
        ----------
        squares
            Of the elements left out, in units of the unit's square, [n].
        """
        energy = (float(self.energy[0].sum()) if self.energy else 0.0) - float(squares.sum())
        fourth = self._fourth - float(np.square(squares).sum())
        measurable = 0.0 < fourth < math.inf and energy > 0.0 and energy * energy < math.inf
        return energy * energy / fourth if measurable else 0.0

    @property
    def total(self) -> float:
        """The sum of all squares, in units of the unit's square."""
        return float(self.sums[0].sum()) if self.sums else 0.0


def reals(values: Array) -> Array:
    """Return elements as float64, complex ones as real and imaginary parts side by side."""
    if values.dtype.kind == "c":
        return np.ascontiguousarray(values).view(values.real.dtype).astype(np.float64)
    return values.astype(np.float64)
