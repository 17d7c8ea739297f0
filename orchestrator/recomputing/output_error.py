"""The own error of a recomputed output: its difference from the computed values, relative to the
error that rounding explains.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ..base.element_types import element_count
from ..metrics.differing_elements import masked_apart
from ..operators import Value
from ..tensors.type_precision import ROUNDING, ulp

Array = Any

MOST_FACTOR = 2.0
"""By how many half steps of the type one factor of all elements may differ from 1: a constant may
be off by one, and values that are cut off, not rounded, shrink by another. By so many times what
others of the kind differ, too: where sums are cut off, all shrink. None grows: of the outputs of 90
healthy networks in float16 and bfloat16, summed in float32, in float16 and cut off, by at most 0.04
half steps beyond its noise; they shrink by up to 2.1 (networks of attribute_trial --lot).
"""
_BLOCK = 1 << 17
"""Elements that are measured at once, to fit the cache."""
_OPEN = 1e4
"""Squares of the errors of elements that are open are larger than those of others by this at
least: nearest places on a border in float16 by 10⁶."""
_OTHERWISE = 0.03
"""Part of the value that the error of an open element exceeds: half a step of bfloat16 is 0.002,
neighbours of a picture differ by a tenth. With 0 a learnt factor of each channel is accused beside
zeros; from 0.003 to 0.3 the tests of whose error it is, of variants and of borders come out alike.
"""
_SAMPLED = 1024
"""Elements by which the usual error of a block is told; chosen by time, no trial."""
# Of the whole's error, to each slice: see OwnError.slice_ratio; chosen, no trial of its own
# (healthy slices reach 4.1 with it, docs/design/verdict.md).
_GRANTED = 0.1
_BEYOND = 1.02
"""Times the type's largest number up to which what is computed may be rounded to it, or not."""
# No zero to divide by.
_LEAST = 1e-300


class OwnError(NamedTuple):
    """The error that an operator adds by itself.

    Attributes
    ----------
    distance
        ‖x − y‖ / ‖y‖ of the device's output x and the computed one y, over what is finite in both.
    ratio
        The root mean square of x − y over that of the error which rounding explains.
    slice_ratio
        The largest ``ratio`` of any slice along any axis; a tenth of the whole's error is granted
        to each, so that slices next to nothing do not rule.
    worst
        The largest of (x − y) / (the error that rounding explains there, and of the whole).
    worst_at
        Where that is, as an index into the output in its original layout.
    not_finite
        Number of elements that are finite on one side only, infinite with another sign, or cut at
        the type's largest number.
    unequal
        Of whole numbers and bool how many elements do not follow.
    factor
        a, for which ‖x − a·y‖ is smallest; NaN where y is zero.
    factor_deviation
        The standard deviation of a where the error of each element is what rounding explains there,
        by itself.
    explained
        The relative distance that rounding explains.
    elements
        How many elements were compared.
    rms
        The root mean square of y.
    overflowed
        How many of ``not_finite`` are infinite, or cut, where y is finite and beyond the type's
        largest number.
    counts
        Of an output whose length depends on values: how long it is on the device, and what is
        computed. ``unequal`` of ``elements`` count what is on one side alone, of what is on either.
    """

    distance: float
    ratio: float
    slice_ratio: float
    worst: float
    worst_at: int
    not_finite: int
    unequal: int
    factor: float
    factor_deviation: float
    explained: float
    elements: int
    rms: float
    overflowed: int = 0
    counts: Tuple[int, int] = (0, 0)

    @property
    def doubtful(self) -> bool:
        """Whether a coarser arithmetic inside the operator should be tried: the error exceeds one
        rounding."""
        return self.ratio > 1.1 or self.slice_ratio > 2.0 or self.worst > 3.0


def own_error(actual: Array, expected: Value, dtype: str) -> OwnError:
    """Measure a floating-point output that is whole; parameters as of :meth:`Measure.add`,
    ``dtype`` as of :class:`Measure`.
    """
    measure = Measure(np.shape(expected.array), dtype)
    measure.add(np.reshape(actual, np.shape(expected.array)), expected)
    return measure.result()


class Measure:
    """The error of an output that is computed in parts; what it comes to does not depend on the
    parts.

    Parameters
    ----------
    shape
        Of the whole output.
    dtype
        The output's element type on the device, as in the DataType column.
    """

    def __init__(self, shape: Tuple[int, ...], dtype: str) -> None:
        self._shape, self._dtype = tuple(shape) or (1,), dtype
        self._exponent: Optional[int] = None
        # Squares of the differences, and of what rounding explains, at each index of each axis, and
        # of all.
        self._axes = [np.zeros((2, size)) for size in self._shape]
        self._off = self._unit = self._size = self._dot = self._along = 0.0
        self._not_finite = self._overflowed = self._count = 0
        # Elements of which one is the worst, whatever the error of the whole comes to: (difference,
        # explained, index).
        self._worst: List[Tuple[float, float, int]] = []

    def add(self, actual: Array, expected: Value, first: Optional[Tuple[int, ...]] = None) -> None:
        """Measure a part.

        Parameters
        ----------
        actual
            The device's, in the shape of the computed one.
        expected
            The computed values; NaN elements are not compared.
        first
            Where the part begins in the whole; None: at its beginning.
        """
        if self._dtype == "float64":
            # Its squares may be too large or too small for it.
            actual, expected = self._scaled(actual, expected)
        x, y, error = np.atleast_1d(actual), np.atleast_1d(expected.array), expected.error
        if error is not None:
            error = (
                np.reshape(error, ()) if np.size(error) == 1 else np.broadcast_to(error, y.shape)
            )
        begin = first or (0,) * y.ndim
        with np.errstate(all="ignore"):
            for part in _blocks(y.shape):
                at = tuple(start + entry.start for start, entry in zip(begin, part))
                self._block(
                    x[part], y[part], error if error is None or error.ndim == 0 else error[part], at
                )

    def _block(self, x: Array, y: Array, error: Optional[Array], at: Tuple[int, ...]) -> None:
        # For float16, single precision is enough if the squares are finite.
        narrow = (
            self._dtype == "float16"
            and x.dtype.itemsize <= 4
            and (error is None or y.dtype == np.float32)
        )
        a, b, off, unit = _squares(x, y, error, self._dtype, np.float32 if narrow else np.float64)
        all_off, all_unit = off, unit
        a, off, unit = _without_open(a, b, off, unit, error)
        sums = [_axis_sums(side) for side in (off, unit)]
        # What is cut is off by this at least.
        cut = (_BEYOND - 1.0) * _largest(self._dtype)
        if not np.isfinite(sums[0][1] + sums[1][1]) or sums[0][1] >= cut * cut:
            a, b, off, unit = _squares(x, y, error, self._dtype, np.float64)
            a = _cut_to_infinity(a, b, self._dtype)
            finite = np.isfinite(a) & np.isfinite(b)
            not_finite, overflowed = _count_not_finite(a, b, np.sqrt(unit), self._dtype)
            self._not_finite += not_finite
            self._overflowed += overflowed
            unit = np.where(finite & np.isfinite(unit), unit, 0.0)
            a, b, off = (np.where(finite, side, 0.0) for side in (a, b, off))
            self._count += int(np.count_nonzero(finite))
            all_off, all_unit = off, unit
            a, off, unit = _without_open(a, b, off, unit, error)
            sums = [_axis_sums(side) for side in (off, unit)]
        else:
            self._count += a.size
        for side, (axis_sums, _) in enumerate(sums):
            for axis, values in enumerate(axis_sums):
                self._axes[axis][side, at[axis] : at[axis] + values.size] += values
        self._off += sums[0][1]
        self._unit += sums[1][1]
        flat = b.reshape(-1)
        self._size += float(np.dot(flat, flat))
        self._dot += float(np.dot(a.reshape(-1), flat))
        self._along += float(np.dot(unit.reshape(-1), flat * flat))
        if all_off.any():
            self._find_worst(all_off, all_unit, at)

    def _find_worst(self, off: Array, unit: Array, at: Tuple[int, ...]) -> None:
        """Keep the elements of a block that may be the worst: off / (unit + w²) is largest there
        for some w² that the whole may have.

        w² is what is explained of the whole, at least what is known of it. Where that is least, one
        element is worst; with more, only one with a larger difference may be.
        """
        least = self._unit / max(1, element_count(self._shape))
        # Not 0, nor what float32 does not have.
        least = max(least, 1e-37 if off.dtype == np.float32 else _LEAST)
        share = (off / (unit + off.dtype.type(least))).reshape(-1)
        place = int(np.argmax(share))
        flat, explained, indices = off.reshape(-1), unit.reshape(-1), None
        while True:
            number = place if indices is None else int(indices[place])
            index = np.unravel_index(number, off.shape)
            whole = int(
                np.ravel_multi_index([start + int(n) for start, n in zip(at, index)], self._shape)
            )
            self._worst.append((float(flat[place]), float(explained[place]), whole))
            larger = np.flatnonzero(flat > flat[place])
            if not larger.size:
                return
            indices = larger if indices is None else indices[larger]
            flat, explained, share = flat[larger], explained[larger], share[larger]
            place = int(np.argmax(share))

    def result(self) -> OwnError:
        """Return the error of all parts that were measured."""
        explained = self._unit / self._count if self._count else 0.0
        worst, at = 0.0, 0
        for off, unit, index in self._worst:
            share = off / max(unit + explained, _LEAST)
            if share > worst or (share == worst and index < at):
                worst, at = share, index
        return OwnError(
            distance=_root(self._off, self._size),
            ratio=_root(self._off, self._unit),
            slice_ratio=self._worst_slice(explained),
            worst=math.sqrt(worst),
            worst_at=at,
            not_finite=self._not_finite,
            unequal=0,
            factor=self._dot / self._size if self._size else math.nan,
            factor_deviation=math.sqrt(self._along) / self._size if self._size else math.nan,
            explained=_root(self._unit, self._size),
            elements=self._count,
            rms=math.ldexp(_root(self._size, self._count), self._exponent or 0),
            overflowed=self._overflowed,
        )

    def _worst_slice(self, explained: float) -> float:
        """Return the largest root of the mean square error of a slice along any axis, over that of
        what rounding explains there.
        """
        worst, size = 0.0, element_count(self._shape)
        for length, (upper, lower) in zip(self._shape, self._axes):
            if 1 < length < size:
                allowance = _GRANTED**2 * explained * (size / length)
                with np.errstate(all="ignore"):
                    ratios = np.sqrt(upper / np.maximum(lower + allowance, _LEAST))
                worst = max(worst, float(np.max(np.where(upper > 0, ratios, 0.0))))
        return worst

    def _scaled(self, actual: Array, expected: Value) -> Tuple[Array, Value]:
        """Return the same by a power of two that brings the first part's largest near 1: nothing
        else in the result changes by it.
        """
        if self._exponent is None:
            finite = np.abs(expected.array[np.isfinite(expected.array)])
            self._exponent = int(np.frexp(np.max(finite, initial=0.0))[1])
        error = (
            None
            if expected.error is None
            else np.ldexp(np.asarray(expected.error, np.float64), -self._exponent)
        )
        with np.errstate(all="ignore"):
            x, y = (
                np.ldexp(np.asarray(side, np.float64), -self._exponent)
                for side in (actual, expected.array)
            )
        return x, Value(y, error)


def _axis_sums(values: Array) -> Tuple[List[Array], float]:
    """Return the sums of an array at each index of each axis, and of all: two passes, as each axis
    that was added up is gone.
    """
    axes: List[Array] = [values.reshape(-1)] * values.ndim
    remaining = values.reshape(-1)
    for axis in range(values.ndim - 1, -1, -1):
        length = values.shape[axis]
        rows = remaining.reshape(-1, length)
        axes[axis] = remaining if len(rows) == 1 else np.dot(_ones(len(rows), rows.dtype), rows)
        remaining = (
            rows[:, 0]
            if length == 1
            else np.dot(rows, _ones(length, rows.dtype)).astype(np.float64)
        )
    return axes, float(remaining.sum())


@lru_cache(maxsize=64)
def _ones(count: int, dtype: Any) -> Array:
    return np.ones(count, dtype)


def _blocks(shape: Tuple[int, ...]) -> Iterator[Tuple[slice, ...]]:
    """Yield the parts of an array, one after the other in its order, none with more than _BLOCK
    elements.
    """
    axis, inner_size = len(shape), 1
    while axis and inner_size * shape[axis - 1] <= _BLOCK:
        axis -= 1
        inner_size *= shape[axis]
    if not axis:
        if inner_size:
            yield tuple(slice(0, size) for size in shape)
        return
    step, size = max(1, _BLOCK // inner_size), shape[axis - 1]
    rest = tuple(slice(0, length) for length in shape[axis:])
    for outer in np.ndindex(*shape[: axis - 1]):
        before = tuple(slice(number, number + 1) for number in outer)
        for start in range(0, size, step):
            yield (*before, slice(start, min(start + step, size)), *rest)


def _squares(
    x: Array, y: Array, error: Optional[Array], dtype: str, wide: Any
) -> Tuple[Array, Array, Array, Array]:
    """Return both sides, the squares of their differences and those of what rounding explains, in
    single or double precision.
    """
    a, b = (floats(side, wide) for side in (x, y))
    off = a - b
    off *= off
    unit = _step_squares(b) if wide == np.float32 else np.square(ulp(b, dtype)) / 12.0
    if error is not None:
        unit += np.square(error, dtype=wide)
    return a, b, off, unit


def _without_open(
    actual: Array, values: Array, off: Array, unit: Array, error: Optional[Array]
) -> Tuple[Array, Array, Array]:
    """Return what the device has, squares of differences and of what rounding explains without the
    elements that may come out quite otherwise (a nearest place on a border), which are taken for
    right: what is granted to them excuses no others.

    Their error is far more than one rounding of their own, far more than that of a tenth of the
    others, and a part of the value itself: sums that cancel have the first alone, large values the
    second, and a constant that is not known better than to a step of float16 both beside zeros.
    """
    if error is None or error.ndim == 0 or not unit.size:
        return actual, off, unit
    # An odd step, so that it takes no column alone.
    sample = unit.reshape(-1)[:: (unit.size // _SAMPLED) | 1]
    # Elements that are not finite have none.
    sample = sample[sample > 0]
    if not sample.size:
        return actual, off, unit
    usual = float(np.partition(sample, sample.size // 10)[sample.size // 10])
    if not unit.max() > _OPEN * usual:
        return actual, off, unit
    squares = np.square(error, dtype=unit.dtype)
    is_open = (unit > _OPEN * usual) & (squares > _OPEN * (unit - squares))
    is_open &= squares > np.square(_OTHERWISE * values)
    actual = np.where(is_open, values, actual)
    return actual, np.where(is_open, 0, off), np.where(is_open, 0, unit)


def _step_squares(values: Array) -> Array:
    """Return the squares of float16's steps at float32 values, over 12."""
    power: Array = (np.ascontiguousarray(values).view(np.int32) & np.int32(0x7F800000)).view(
        np.float32
    )
    np.maximum(power, np.float32(2.0**-14), out=power)
    power *= np.float32(2.0**-10 / math.sqrt(12.0))
    power *= power
    return power


def floats(values: Array, wide: Any = np.float32) -> Array:
    """Return numbers as float32 or float64; of float16 faster than numpy, which takes its values
    one by one.
    """
    values = np.asarray(values)
    if values.dtype != np.float16 or not values.size:
        return values.astype(wide, copy=False)
    # Sign and fraction where float32 has them; the exponents differ by 112.
    bits = np.ascontiguousarray(values).view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)
    wide_values: Array = bits.view(np.float32)
    wide_values *= np.float32(2.0**112)
    if float(wide_values.max()) >= 65536.0 or float(wide_values.min()) <= -65536.0:
        return values.astype(wide)
    return wide_values if wide == np.float32 else wide_values.astype(wide)


def decided_error(wrong: int, count: int, first: int = 0) -> OwnError:
    """Return the error of decisions: how many do not follow.

    Parameters
    ----------
    wrong, count
        How many elements of the output do not follow, of how many.
    first
        Where the first of them is.
    """
    infinite = math.inf if wrong else 0.0
    share = wrong / count if count else 0.0
    return OwnError(
        share,
        infinite,
        infinite,
        infinite,
        first,
        0,
        wrong,
        math.nan,
        math.nan,
        0.0,
        count,
        math.nan,
    )


def _largest(dtype: str) -> float:
    return ROUNDING[dtype].largest if dtype in ROUNDING else math.inf


def _cut_to_infinity(x: Array, y: Array, dtype: str) -> Array:
    """Return x with infinity where a device that knows none wrote the type's largest number."""
    largest = _largest(dtype)
    is_cut = (np.abs(x) == largest) & (np.abs(y) > _BEYOND * largest) & (np.sign(x) == np.sign(y))
    return np.where(is_cut, np.copysign(math.inf, x), x)


def _count_not_finite(x: Array, y: Array, unit: Array, dtype: str) -> Tuple[int, int]:
    """Return how many elements are finite on one side only, or infinite with another sign, and how
    many of them overflowed; where y is NaN nothing can be told.

    What lies within the error of the type's largest number may overflow or not.
    """
    agree = (x == y) | np.isnan(y) | (np.isfinite(x) & np.isfinite(y))
    largest = _largest(dtype)
    reach = np.abs(y) + 4.0 * np.where(np.isfinite(unit), unit, 0.0)
    near = (np.sign(x) == np.sign(y)) & (reach >= largest) & (np.abs(x) >= largest * 0.98)
    beyond = near & np.isfinite(x)
    rounded_up = near & np.isinf(x) & (np.abs(y) <= largest * _BEYOND)
    differing = np.flatnonzero(~(agree | beyond | rounded_up))
    x, y = x.reshape(-1)[differing], y.reshape(-1)[differing]
    # A mask of -1e9 that float16 stores as -Inf is no overflow.
    counted = ~masked_apart(x, y)
    overflowed = counted & np.isinf(x) & (np.sign(x) == np.sign(y)) & (np.abs(y) > largest)
    return int(np.count_nonzero(counted)), int(np.count_nonzero(overflowed))


def _root(upper: float, lower: float) -> float:
    if lower > 0:
        return math.sqrt(upper / lower)
    return math.inf if upper > 0 else 0.0
