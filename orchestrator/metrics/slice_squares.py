"""The squares of one block, added to the slices of a tensor in which they lie: no copy of the
block, two readings at most for all axes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.fast_dataclasses import dataclass
from .numpy_kernel import DOT_MAX, dot, workspace

Ints = Tuple[int, ...]


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
    by_own_size
        Each slice is measured by its own size, not by that of much larger ones: of an output of the
        network, where pixels and scores may lie side by side.
    """

    axis: int
    size: int
    inner: int
    by_own_size: bool = False


class Where(NamedTuple):
    """Where a block lies in its golden: its shape, and start and strides as in
    :class:`goldwatch.tensors.aligned_blocks.Block`.
    """

    shape: Ints
    start: int
    strides: Ints


class Needs(NamedTuple):
    """What :func:`add_squares` needs of a block that is seen as rows of ``length`` elements, in C
    order.

    Attributes
    ----------
    rows, columns
        Whether the sums of squares of the rows, and of the columns, are needed.
    values
        Whether the elements themselves are.
    """

    length: int
    rows: bool
    columns: bool
    values: bool


NO_NEEDS = Needs(1, False, False, False)


class Tables(NamedTuple):
    """Sums of squares of a block's rows and columns as :class:`Needs` tells, 1-D; None where not
    needed. ``whole``: of all elements.
    """

    rows: Optional[np.ndarray]
    columns: Optional[np.ndarray]
    whole: float


@dataclass(frozen=True)
class _Plan:
    """How the elements of a block shape belong to slices of one axis.

    Attributes
    ----------
    on
        The block's axes along which the slice changes; all others stay inside one slice.
    offsets
        Slice numbers, counted from the block's first, of what :func:`_sum_over_others` returns;
        None where they are 0, 1, 2, …
    inner_extent, on_extent
        How far the block reaches inside a slice, and in slices, from its first element.
    crosses
        An axis of the block crosses slices (a flattened golden): its elements are told apart one by
        one.
    """

    on: Ints
    offsets: Optional[np.ndarray]
    inner_extent: int
    on_extent: int
    crosses: bool = False


def _plan(axis: SliceAxis, shape: Ints, strides: Ints) -> _Plan:
    period = axis.inner * axis.size
    moving = [number for number, size in enumerate(shape) if size > 1]
    on = tuple(number for number in moving if axis.inner <= strides[number] < period)
    inner = [number for number in moving if strides[number] < axis.inner]
    outer = [number for number in moving if strides[number] >= period]
    inner_extent = sum((shape[number] - 1) * strides[number] for number in inner)
    on_extent = sum((shape[number] - 1) * strides[number] for number in on)
    apart = not any(strides[number] % axis.inner for number in on) and not any(
        strides[number] % period for number in outer
    )
    if not apart or inner_extent >= axis.inner or on_extent >= period:
        return _Plan((), None, 0, 0, True)
    offsets = _sums_of_axes(shape, strides, on) // axis.inner
    in_order = bool(np.array_equal(offsets, np.arange(offsets.size)))
    return _Plan(on, None if in_order else offsets, inner_extent, on_extent // axis.inner)


def _sums_of_axes(shape: Ints, strides: Ints, axes: Sequence[int]) -> np.ndarray:
    """Return ``sum(index * stride)`` for all places along the axes, 1-D, the last axis fastest."""
    sums: np.ndarray = np.zeros(1, np.int64)
    for number in axes:
        sums = (sums[:, None] + np.arange(shape[number], dtype=np.int64) * strides[number]).reshape(
            -1
        )
    return sums


def needs_of(axes: Tuple[SliceAxis, ...], where: Where) -> Needs:
    """Return what :func:`add_squares` needs of a block at this place."""
    shape, start, strides = where
    plans, split = _plans(axes, shape, strides)
    rows = columns = values = False
    for axis, plan in zip(axes, plans):
        if _crosses(axis, plan, start):
            values = True
        elif plan.on:
            front, behind = plan.on[-1] < split, plan.on[0] >= split
            rows, columns, values = (
                rows or front,
                columns or behind,
                values or not (front or behind),
            )
    return Needs(max(1, element_count(shape[split:])), rows, columns, values)


def _crosses(axis: SliceAxis, plan: _Plan, start: int) -> bool:
    """Tell whether the elements of a block that starts there have to be told apart one by one."""
    first = start // axis.inner % axis.size
    return (
        plan.crosses
        or start % axis.inner + plan.inner_extent >= axis.inner
        or first + plan.on_extent >= axis.size
    )


def add_squares(
    totals: Sequence[np.ndarray],
    axes: Tuple[SliceAxis, ...],
    values: np.ndarray,
    where: Where,
    tables: Optional[Tables] = None,
) -> None:
    """Add the squares of a block's values (1-D, in the block's C order) to the totals of their
    slices, for each axis.

    The values are read once for all axes that lie in front in the block, and once for all behind;
    not at all, and may be empty, where the tables that :func:`needs_of` asks for are there and it
    asks for no values.
    """
    shape, start, strides = where
    plans, split = _plans(axes, shape, strides)
    front: Optional[np.ndarray] = None if tables is None else tables.rows
    behind: Optional[np.ndarray] = None if tables is None else tables.columns
    inside: List[Tuple[np.ndarray, int]] = []
    for total, axis, plan in zip(totals, axes, plans):
        first = start // axis.inner % axis.size
        if _crosses(axis, plan, start):
            places = _sums_of_axes(shape, strides, range(len(shape))) + start
            total += np.bincount(places // axis.inner % axis.size, _squares(values), axis.size)
            continue
        if not plan.on:
            inside.append((total, first))
            continue
        if plan.on[-1] < split:
            front = _row_squares(values, element_count(shape[split:])) if front is None else front
            sums = _sum_over_others(front, shape[:split], plan.on)
        elif plan.on[0] >= split:
            behind = (
                _column_squares(values, element_count(shape[:split])) if behind is None else behind
            )
            sums = _sum_over_others(
                behind, shape[split:], tuple(number - split for number in plan.on)
            )
        else:
            sums = _sum_over_others(_squares(values), shape, plan.on)
        if plan.offsets is None:
            total[first : first + sums.size] += sums
        else:
            total[first + plan.offsets] += sums
    if inside:
        table = behind if front is None else front
        if tables is not None:
            whole = tables.whole
        else:
            whole = dot(values, values) if table is None else float(np.add.reduce(table))
        for total, first in inside:
            total[first] += whole


def add_squares_of_each(
    totals: List[np.ndarray],
    axes: Tuple[SliceAxis, ...],
    where: Where,
    rows: Optional[np.ndarray],
    columns: Optional[np.ndarray],
    wholes: np.ndarray,
) -> None:
    """Add the squares of n blocks that lie alike to the totals of their slices, [n, slices] for
    each axis; given are those of their rows and columns, [n, ...], and of all elements, [n].
    """
    are_rows = _tables_are_squares(axes, where)
    if are_rows is not None:
        totals[:] = [rows if is_row else columns for is_row in are_rows]  # type: ignore[misc]
        return
    for at, whole in enumerate(wholes.tolist()):
        tables = Tables(
            None if rows is None else rows[at], None if columns is None else columns[at], whole
        )
        add_squares([total[at] for total in totals], axes, _NO_VALUES, where, tables)


@lru_cache(maxsize=64)
def _tables_are_squares(axes: Tuple[SliceAxis, ...], where: Where) -> Optional[Tuple[bool, ...]]:
    """Tell for each axis whether its slices' squares are those of the rows (True) or the columns of
    a block at this place that :func:`needs_of` asks for; None where an axis has neither.
    """
    shape, start, strides = where
    plans, split = _plans(axes, shape, strides)
    are_rows = []
    for axis, plan in zip(axes, plans):
        is_front = bool(plan.on) and plan.on[-1] < split
        table = shape[:split] if is_front else shape[split:]
        on = [shape[number] for number in plan.on]
        if (
            _crosses(axis, plan, start)
            or start // axis.inner % axis.size
            or plan.offsets is not None
            or not plan.on
            or not (is_front or plan.on[0] >= split)
            or element_count(on) != axis.size
            or element_count(table) != axis.size
        ):
            return None
        are_rows.append(is_front)
    return tuple(are_rows)


@lru_cache(maxsize=64)
def _plans(
    axes: Tuple[SliceAxis, ...], shape: Ints, strides: Ints
) -> Tuple[Tuple[_Plan, ...], int]:
    """Return the plan of each axis, and the block's axis at which a table of its values is cheapest
    for all.
    """
    plans = tuple(_plan(axis, shape, strides) for axis in axes)
    ons = [plan.on for plan in plans if plan.on]

    def cost(split: int) -> float:
        length = element_count(shape[split:])
        rows, columns = any(on[-1] < split for on in ons), any(on[0] >= split for on in ons)
        torn = sum(on[0] < split <= on[-1] for on in ons)
        # A single row is no table: all squares would have to be summed for each axis.
        return (
            rows * (1 + _SHORT / length)
            + columns * (2 + _SHORT / length + 6 * (element_count(shape[:split]) == 1))
            + 9 * torn
        )

    return plans, min(range(len(shape) + 1), key=cost)


def _sum_over_others(table: np.ndarray, shape: Ints, on: Ints) -> np.ndarray:
    """Sum a table of this shape, given as one row, over its axes that are not in ``on``."""
    off = tuple(number for number in range(len(shape)) if number not in on)
    sums: np.ndarray = np.add.reduce(table.reshape(shape), axis=off).reshape(-1) if off else table
    return sums


# Measured: which way is the cheapest by the length of the rows. None writes another array of the
# block's size but for short rows.
_DOT_ROWS, _EINSUM_COLUMNS = 48, 32
_SHORT = 64.0
"""Rows of this length cost twice what long ones do."""


def _squares(values: np.ndarray) -> np.ndarray:
    """Return the squares, in the work array that the kernel does not need now."""
    squares: np.ndarray = np.multiply(values, values, out=workspace().d[: values.size])
    return squares


def _row_squares(values: np.ndarray, length: int) -> np.ndarray:
    if length > DOT_MAX:
        return np.array([dot(row, row) for row in values.reshape(-1, length)])
    if length < _DOT_ROWS:
        return _row_sums(_squares(values), length)
    rows = values.size // length
    squares: np.ndarray = np.matmul(
        values.reshape(rows, 1, length), values.reshape(rows, length, 1)
    ).reshape(-1)
    return squares


def _column_squares(values: np.ndarray, rows: int) -> np.ndarray:
    """Return the sums of squares over ``rows`` rows of equal length."""
    length = values.size // rows
    if rows > 1 and length >= _EINSUM_COLUMNS:
        table = values.reshape(rows, length)
        squares: np.ndarray = np.einsum("ij,ij->j", table, table)
        return squares
    return _column_sums(_squares(values), rows)


def _row_sums(values: np.ndarray, length: int) -> np.ndarray:
    """Return the sums of rows of ``length`` elements, by products with ones that are too short for
    a second thread.
    """
    if length == 1:
        return values
    rows = values.size // length
    if length > DOT_MAX:
        long: np.ndarray = np.add.reduce(values.reshape(rows, length), axis=1)
        return long
    ones = _ONES[:length]
    batch = min(rows, DOT_MAX // length)
    whole = rows // batch * batch
    sums: np.ndarray = np.matmul(values[: whole * length].reshape(-1, batch, length), ones).reshape(
        -1
    )
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
    sums: np.ndarray = np.add.reduce(
        np.matmul(_ONES[:batch], values[: whole * length].reshape(-1, batch, length)), axis=0
    )
    if whole < rows:
        sums = sums + _ONES[: rows - whole].dot(values[whole * length :].reshape(-1, length))
    return sums


_ONES = np.ones(DOT_MAX)
_NO_VALUES = np.zeros(0)
