"""Sums of squares per slice of a tensor: an error in one channel of a thousand must not hide in the whole tensor's sums.

A slice is all elements with one index along an axis of the golden. Blocks come with their place in the golden, so each block adds its sums
to the slices that it touches: no copy of the tensor, a few per cent of the kernel's time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..tensors.axes import element_count
from .kernel import DOT_MAX, dot, workspace
from .sums import common_unit

Ints = Tuple[int, ...]

MOST_SLICES = 1 << 18
"""Axes that are longer than this are not sliced: the sums of their slices would grow into a copy of the tensor."""

MASK = -5000.0
"""Values at or below this on both sides may be a mask (attention scores get -1e4 and less where a token must not look)."""

_REST = 8.0
"""They are one when every other golden element is smaller than a mask's least magnitude by this factor at least."""


class SliceAxis(NamedTuple):
    """An axis of the golden along which slices are taken.

    Attributes
    ----------
    axis
        Its number.
    size
        Number of slices.
    inner
        Elements from one slice to the next, as the golden is stored.
    """

    axis: int
    size: int
    inner: int


def slice_axes(shape: Sequence[int], channel: Optional[int] = None, order: str = "C") -> Tuple[SliceAxis, ...]:
    """Return the axes along which a golden of this shape is sliced: the channel axis, or all that are longer than 1.

    Parameters
    ----------
    channel
        Number of the channel axis; None where there is none. One of size 1 counts as none.
    order
        ``C`` or ``F``: how the golden is stored.
    """
    wanted = range(len(shape)) if channel is None or shape[channel] == 1 else (channel,)
    found, inner = [], 1
    for axis in range(len(shape)) if order == "F" else reversed(range(len(shape))):
        if axis in wanted and 1 < shape[axis] <= MOST_SLICES:
            found.append(SliceAxis(axis, shape[axis], inner))
        inner *= shape[axis]
    return tuple(sorted(found))


def borders(axes: Sequence[SliceAxis]) -> frozenset[int]:
    """Return the golden strides at which blocks must not merge axes (:func:`goldwatch.tensors.blocks.placed_blocks`)."""
    return frozenset(stride for axis in axes for stride in (axis.inner, axis.inner * axis.size))


@dataclass(frozen=True)
class WorstSlice:
    """The largest relative distance of any slice, the golden's axis and the index along it."""

    distance: float
    axis: int
    index: int


@dataclass(frozen=True)
class _Plan:
    """How the elements of a block shape belong to slices of one axis.

    Attributes
    ----------
    on
        The block's axes along which the slice changes; all others stay inside one slice.
    offsets
        Slice numbers, counted from the block's first, of what :func:`_reduce` returns; None where they are 0, 1, 2, …
    inner_extent, on_extent
        How far the block reaches inside a slice, and in slices, from its first element.
    crosses
        An axis of the block crosses slices (a flattened golden): its elements are told apart one by one.
    """

    on: Ints
    offsets: Optional[np.ndarray]
    inner_extent: int
    on_extent: int
    crosses: bool = False


@lru_cache(maxsize=64)
def _plan(axis: SliceAxis, shape: Ints, strides: Ints) -> _Plan:
    period = axis.inner * axis.size
    moving = [number for number, size in enumerate(shape) if size > 1]
    on = tuple(number for number in moving if axis.inner <= strides[number] < period)
    inner = [number for number in moving if strides[number] < axis.inner]
    outer = [number for number in moving if strides[number] >= period]
    inner_extent = sum((shape[number] - 1) * strides[number] for number in inner)
    on_extent = sum((shape[number] - 1) * strides[number] for number in on)
    apart = not any(strides[number] % axis.inner for number in on) and not any(strides[number] % period for number in outer)
    if not apart or inner_extent >= axis.inner or on_extent >= period:
        return _Plan((), None, 0, 0, True)
    offsets = _sums_of_axes(shape, strides, on) // axis.inner
    in_order = bool(np.array_equal(offsets, np.arange(offsets.size)))
    return _Plan(on, None if in_order else offsets, inner_extent, on_extent // axis.inner)


def _sums_of_axes(shape: Ints, strides: Ints, axes: Sequence[int]) -> np.ndarray:
    """Return ``sum(index * stride)`` for all places along the axes, 1-D, the last axis fastest."""
    found: np.ndarray = np.zeros(1, np.int64)
    for number in axes:
        found = (found[:, None] + np.arange(shape[number], dtype=np.int64) * strides[number]).reshape(-1)
    return found


class _Side:
    """Sums of squares per slice of one vector, in units of ``2**(2*unit)``."""

    __slots__ = ("unit", "empty", "sums")

    def __init__(self, axes: Sequence[SliceAxis]) -> None:
        self.unit = 0
        self.empty = True
        self.sums = [np.zeros(axis.size) for axis in axes]

    def rescale(self, unit: int) -> None:
        if unit != self.unit:
            for sums in self.sums:
                np.ldexp(sums, 2 * (self.unit - unit), out=sums)
            self.unit = unit

    def merge(self, other: _Side) -> None:
        if other.empty:
            return
        unit = common_unit(self.unit, other.unit, self.empty, other.empty)
        self.rescale(unit)
        shift = 2 * (other.unit - unit)
        for mine, theirs in zip(self.sums, other.sums):
            mine += np.ldexp(theirs, shift) if shift else theirs
        self.empty = False

    def plus(self, other: _Side) -> _Side:
        both = _Side(())
        both.sums = [np.zeros(sums.size) for sums in self.sums]
        both.merge(self)
        both.merge(other)
        return both

    def __getstate__(self) -> List[Any]:
        # Shares of a huge tensor travel between processes: only the slices that they touched.
        touched = []
        for sums in self.sums:
            used = np.flatnonzero(sums)
            low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
            touched.append((sums.size, low, sums[low:high].copy()))
        return [self.unit, self.empty, touched]

    def __setstate__(self, state: List[Any]) -> None:
        self.unit, self.empty, touched = state
        self.sums = []
        for size, low, part in touched:
            sums = np.zeros(size)
            sums[low : low + part.size] = part
            self.sums.append(sums)


class SliceSums:
    """Sums of squares of the golden and of the difference, per slice of each axis; picklable, mergeable.

    Elements that may be a mask are collected apart, because only the whole tensor tells whether they are one.
    """

    def __init__(self, axes: Sequence[SliceAxis]) -> None:
        self.axes = tuple(axes)
        self._y, self._d = _Side(axes), _Side(axes)
        self._masked: Optional[Tuple[_Side, _Side]] = None
        self._left_out: Optional[_Side] = None
        self._rest_high = 0.0
        self._mask_low = math.inf

    def add(self, y: np.ndarray, d: Optional[np.ndarray], y_span: Tuple[float, float], where: Where) -> None:
        """Add one block of ordinary numbers.

        Parameters
        ----------
        y, d
            Golden and difference (the sign does not matter), contiguous float64 of one size in the block's C order; None: no difference.
        y_span
            Smallest and largest value of ``y``.
        """
        self._rest_high = max(self._rest_high, -y_span[0], y_span[1])
        if d is not None:
            self._add(self._d, d, where, 0)
        if y_span != (0.0, 0.0):
            self._add(self._y, y, where, 0)

    def may_mask(self, x_low: float, y_low: float, y_high: float) -> bool:
        """Tell whether a block with these extremes may hold a mask: it goes to :meth:`add_careful`."""
        return y_low <= MASK and x_low <= MASK and y_high * _REST <= -MASK

    def add_careful(
        self, x: np.ndarray, y: np.ndarray, d: np.ndarray, units: Tuple[int, int], where: Where, good: Optional[np.ndarray] = None
    ) -> None:
        """Add one block of any finite numbers, those that may be a mask apart.

        Parameters
        ----------
        x, y, d
            Target, golden and difference as float64, not finite elements as 0.
        units
            Binary exponents by which ``y`` and ``d`` are divided before they are squared; 0 for ordinary numbers.
        good
            Which elements are finite on both sides; None: all.
        """
        if good is not None:
            if self._left_out is None:
                self._left_out = _Side(self.axes)
            self._add(self._left_out, (~good).astype(np.float64), where, 0)
        scaled = [np.ldexp(values, -unit) for values, unit in zip((y, d), units)]
        low = y <= MASK
        masked = low & (x <= MASK)
        if not low.all():
            self._rest_high = max(self._rest_high, float(np.max(np.absolute(y), where=~low, initial=0.0)))
        if masked.any():
            self._mask_low = min(self._mask_low, -float(np.max(y, where=masked, initial=-math.inf)))
            if self._masked is None:
                self._masked = (_Side(self.axes), _Side(self.axes))
            for side, values, unit in zip(self._masked, scaled, units):
                self._add(side, values * masked, where, unit)
                values *= ~masked
        for side, values, unit in zip((self._y, self._d), scaled, units):
            self._add(side, values, where, unit)

    def _add(self, side: _Side, values: np.ndarray, where: Where, unit: int) -> None:
        if unit or side.unit:
            if not values.any():
                return
            fresh = _Side(self.axes)
            fresh.unit, fresh.empty = unit, False
            _add_slices(fresh.sums, self.axes, values, where)
            side.merge(fresh)
        else:
            side.empty = False
            _add_slices(side.sums, self.axes, values, where)

    def merge(self, other: SliceSums) -> None:
        """Add the sums of other elements of the same tensor."""
        self._y.merge(other._y)
        self._d.merge(other._d)
        if other._masked is not None:
            if self._masked is None:
                self._masked = (_Side(self.axes), _Side(self.axes))
            for mine, theirs in zip(self._masked, other._masked):
                mine.merge(theirs)
        if other._left_out is not None:
            if self._left_out is None:
                self._left_out = _Side(self.axes)
            self._left_out.merge(other._left_out)
        self._rest_high = max(self._rest_high, other._rest_high)
        self._mask_low = min(self._mask_low, other._mask_low)

    def worst(self) -> Optional[WorstSlice]:
        """Return the slice with the largest distance (of several the first), None without axes.

        The distance of a slice is ‖x − y‖ over the larger of ‖y‖ and the arithmetic mean of all slices' ‖y‖; infinite where that is 0
        and x differs. Slices of which every element is masked or not finite do not count.
        """
        y, d = self._y, self._d
        hiding = [] if self._left_out is None else [self._left_out]
        if self._masked is not None:
            if 0.0 < self._rest_high * _REST <= self._mask_low:
                hiding.append(self._masked[0])
            else:
                y, d = y.plus(self._masked[0]), d.plus(self._masked[1])
        found: Optional[WorstSlice] = None
        for number, (axis, yy, dd) in enumerate(zip(self.axes, y.sums, d.sums)):
            norms = np.sqrt(yy)
            counted = norms.size - (_hidden(norms, [side.sums[number] for side in hiding]) if hiding else 0)
            floor = float(np.add.reduce(norms)) / max(1, counted)
            distances = np.sqrt(dd)
            if floor > 0.0:
                distances /= np.maximum(norms, floor)
            else:
                distances[distances > 0.0] = math.inf
            index = int(distances.argmax())
            with np.errstate(over="ignore"):
                distance = float(np.ldexp(distances[index], d.unit - y.unit))
            if found is None or distance > found.distance:
                found = WorstSlice(distance, axis.axis, index)
        return found


def _hidden(norms: np.ndarray, hiding: Sequence[np.ndarray]) -> int:
    """Return how many slices have elements that hide behind a mask, and no other."""
    hidden = np.zeros(norms.size, np.bool_)
    for sums in hiding:
        hidden |= sums > 0.0
    return int(np.count_nonzero(hidden & (norms == 0.0)))


class Where(NamedTuple):
    """Where a block lies in its golden: its shape, and start and strides as in :class:`goldwatch.tensors.blocks.Block`."""

    shape: Ints
    start: int
    strides: Ints


def _add_slices(totals: Sequence[np.ndarray], axes: Sequence[SliceAxis], values: np.ndarray, where: Where) -> None:
    """Add the squares of a block's values (1-D, in the block's C order) to the totals of their slices, for each axis."""
    shape, start, strides = where
    last = len(shape) - 1
    rows: Optional[np.ndarray] = None
    squares: Optional[np.ndarray] = None
    for total, axis in zip(totals, axes):
        plan = _plan(axis, shape, strides)
        first = start // axis.inner % axis.size
        if plan.crosses or start % axis.inner + plan.inner_extent >= axis.inner or first + plan.on_extent >= axis.size:
            places = _sums_of_axes(shape, strides, range(len(shape))) + start
            total += np.bincount(places // axis.inner % axis.size, _squares(values), axis.size)
            continue
        if not plan.on:
            total[first] += dot(values, values)
            continue
        if last in plan.on:
            lead = element_count(shape[: plan.on[0]])
            sums = _kept(_column_squares(values, lead) if squares is None else _column_sums(squares, lead), shape, plan.on)
        else:
            if rows is None:
                squares = _squares(values) if shape[last] < _DOT_ROWS else None
                rows = _row_squares(values, shape[last]) if squares is None else _row_sums(squares, shape[last])
            tail = element_count(shape[plan.on[-1] + 1 : last])
            sums = _kept(_column_sums(_row_sums(rows, tail), element_count(shape[: plan.on[0]])), shape, plan.on)
        if plan.offsets is None:
            total[first : first + sums.size] += sums
        else:
            total[first + plan.offsets] += sums


def _kept(sums: np.ndarray, shape: Ints, on: Ints) -> np.ndarray:
    """Sum what is left of a block between the first and the last axis in ``on`` over those of them that are not in it."""
    between = shape[on[0] : on[-1] + 1]
    if len(on) < len(between):
        off = tuple(number for number in range(len(between)) if number + on[0] not in on)
        sums = np.add.reduce(sums.reshape(between), axis=off).reshape(-1)
    return sums


# Measured: which way is the cheapest by the length of the rows. None writes another array of the block's size but for short rows.
_DOT_ROWS, _EINSUM_COLUMNS = 48, 32


def _squares(values: np.ndarray) -> np.ndarray:
    """Return the squares, in the work array that the kernel does not need now."""
    squares: np.ndarray = np.multiply(values, values, out=workspace().d[: values.size])
    return squares


def _row_squares(values: np.ndarray, length: int) -> np.ndarray:
    """Return the sum of squares of each row of ``length`` elements."""
    if length > DOT_MAX:
        return np.array([dot(row, row) for row in values.reshape(-1, length)])
    rows = values.size // length
    found: np.ndarray = np.matmul(values.reshape(rows, 1, length), values.reshape(rows, length, 1)).reshape(-1)
    return found


def _column_squares(values: np.ndarray, rows: int) -> np.ndarray:
    """Return the sums of squares over ``rows`` rows of equal length."""
    length = values.size // rows
    if rows > 1 and length >= _EINSUM_COLUMNS:
        table = values.reshape(rows, length)
        found: np.ndarray = np.einsum("ij,ij->j", table, table)
        return found
    return _column_sums(_squares(values), rows)


def _row_sums(values: np.ndarray, length: int) -> np.ndarray:
    """Return the sums of rows of ``length`` elements, by products with ones that are too short for a second thread."""
    if length == 1:
        return values
    rows = values.size // length
    if length > DOT_MAX:
        long: np.ndarray = np.add.reduce(values.reshape(rows, length), axis=1)
        return long
    ones = _ONES[:length]
    batch = min(rows, DOT_MAX // length)
    whole = rows // batch * batch
    sums: np.ndarray = np.matmul(values[: whole * length].reshape(-1, batch, length), ones).reshape(-1)
    if whole < rows:
        sums = np.concatenate([sums, values[whole * length :].reshape(-1, length).dot(ones)])
    return sums


def _column_sums(values: np.ndarray, rows: int) -> np.ndarray:
    """Return the sums over ``rows`` rows of equal length, as :func:`_row_sums`."""
    if rows == 1:
        return values
    length = values.size // rows
    if length > DOT_MAX:
        long: np.ndarray = np.add.reduce(values.reshape(rows, length), axis=0)
        return long
    batch = min(rows, DOT_MAX // length)
    whole = rows // batch * batch
    sums: np.ndarray = np.add.reduce(np.matmul(_ONES[:batch], values[: whole * length].reshape(-1, batch, length)), axis=0)
    if whole < rows:
        sums = sums + _ONES[: rows - whole].dot(values[whole * length :].reshape(-1, length))
    return sums


_ONES = np.ones(DOT_MAX)
