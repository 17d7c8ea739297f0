"""The elements that patterns are looked for in: all of a small tensor, of a large one several
samples that keep their places.
"""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from ...element_types import element_count
from ...tensors.golden_order_windows import Window
from .aligned_pair import AlignedPair
from .squared_error_by_index import reals

Array = Any

FULL_ELEMENTS = 1 << 18
"""Larger tensors are sampled."""

PARTS = "part"
"""The axis of real and imaginary parts."""

_SAMPLE_ELEMENTS = 1 << 16
_LEAST = 8


class Sample:
    """The elements at chosen indices of each axis.

    Parameters
    ----------
    indices
        Of each axis, ascending.
    """

    def __init__(self, indices: Sequence[Array]) -> None:
        self.indices = [np.asarray(entry) for entry in indices]
        self.shape = tuple(len(entry) for entry in self.indices)
        self._x: Any = None
        self._y: Any = None

    def update(self, window: Window) -> None:
        """Take a window's elements."""
        here, there = [], []
        for entry, (low, high) in zip(self.indices, window.ranges):
            first, last = np.searchsorted(entry, [low, high])
            if first == last:
                return
            here.append(slice(int(first), int(last)))
            there.append(entry[first:last] - low)
        if self._x is None:
            self._x, self._y = (
                np.zeros(self.shape, window.x.dtype),
                np.zeros(self.shape, window.y.dtype),
            )
        chosen = np.ix_(*there) if there else ()
        self._x[tuple(here)], self._y[tuple(here)] = window.x[chosen], window.y[chosen]

    def pair(self, dtype: str, letters: Tuple[str, ...], total: int = 0) -> AlignedPair:
        """Return the elements side by side; complex ones with their two parts along one more
        axis.
        """
        x, y = _parts(self._x, self._y)
        return AlignedPair(
            x,
            y,
            dtype,
            letters if x.ndim == len(self.shape) else (*letters, PARTS),
            total or x.size,
        )


def _parts(x: Array, y: Array) -> Tuple[Array, Array]:
    """Return two sides as they are; where one is complex, the real and imaginary parts of both
    along one more axis.
    """
    if "c" not in (x.dtype.kind, y.dtype.kind):
        return x, y
    made = [
        reals(side.astype(np.complex128).reshape(-1)).reshape((*side.shape, 2)) for side in (x, y)
    ]
    return made[0], made[1]


class EvenSample:
    """Elements spread evenly over a tensor, without their places."""

    def __init__(self, count: int) -> None:
        # An odd step meets every index of axes whose sizes are powers of two.
        self._step = -(-count // FULL_ELEMENTS) | 1
        self._x: List[Array] = []
        self._y: List[Array] = []

    def update(self, window: Window) -> None:
        """Take a window's elements."""
        first = -window.start % self._step
        self._x.append(window.x.reshape(-1)[first :: self._step].copy())
        self._y.append(window.y.reshape(-1)[first :: self._step].copy())

    def pair(self, dtype: str, total: int) -> AlignedPair:
        """Return the elements side by side."""
        x, y = _parts(np.concatenate(self._x), np.concatenate(self._y))
        return AlignedPair(x.reshape(-1), y.reshape(-1), dtype, (), total * x.ndim)


def samples_of(sizes: Sequence[int]) -> List[Sample]:
    """Return the samples of a tensor: itself where it is small; else one that has both ends of
    every axis, alike for axes of one size, and one for each axis with all of its indices.
    """
    if element_count(sizes) <= FULL_ELEMENTS:
        return [Sample([np.arange(size) for size in sizes])]
    samples = [_shrunk(sizes, None)]
    samples += [
        _shrunk(sizes, axis)
        for axis, size in enumerate(sizes)
        if 2 * _LEAST < size <= _SAMPLE_ELEMENTS // 4
    ]
    return samples


def _shrunk(sizes: Sequence[int], selection: Any) -> Sample:
    """Return a sample of bounded size that keeps one axis whole (None: none), the longest axes cut
    first, equal ones alike.
    """
    lengths = list(sizes)
    while element_count(lengths) > _SAMPLE_ELEMENTS:
        longest = max(lengths[axis] for axis in range(len(lengths)) if axis != selection)
        if longest <= 1:
            break
        same = [
            axis for axis in range(len(lengths)) if lengths[axis] == longest and axis != selection
        ]
        for axis in same:
            lengths[axis] = max(1, longest // 2)
    return Sample([_ends(size, length) for size, length in zip(sizes, lengths)])


def _ends(size: int, length: int) -> Array:
    """Return so many indices from both ends: they run backwards to themselves."""
    if length >= size:
        return np.arange(size)
    half = max(1, length // 2)
    return np.concatenate([np.arange(half), np.arange(size - half, size)])
