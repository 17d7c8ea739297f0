"""How far an output is from what its operator makes of the device's own inputs, in units of what rounding explains."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

from ..operators import Value
from ..tensors.rounding import ROUNDING, ulp

Array = Any

_BLOCK = 1 << 15
"""Elements that are measured at once: they stay in the cache."""


class OwnError(NamedTuple):
    """The error that an operator adds by itself.

    Attributes
    ----------
    distance
        ‖x − y‖ / ‖y‖ of the device's output x and the computed one y, over what is finite in both.
    ratio
        The root mean square of x − y over that of the error which rounding explains.
    slice_ratio
        The largest ``ratio`` of any slice along any axis; a tenth of the whole's error is granted to each, so that slices next to
        nothing do not rule.
    worst
        The largest of (x − y) / (the error that rounding explains there, and of the whole).
    worst_at
        Where that is, as an index into the output in its original layout.
    odd
        How many elements are finite on one side only, or infinite with another sign.
    unequal
        Of whole numbers and bool how many elements do not follow.
    factor
        a, for which ‖x − a·y‖ is smallest; NaN where y is zero.
    explained
        The relative distance that rounding explains.
    elements
        How many elements were compared.
    """

    distance: float
    ratio: float
    slice_ratio: float
    worst: float
    worst_at: int
    odd: int
    unequal: int
    factor: float
    explained: float
    elements: int

    @property
    def doubtful(self) -> bool:
        """Whether a coarser arithmetic inside of the operator is worth a look: the error is not that of one rounding."""
        return self.ratio > 1.1 or self.slice_ratio > 2.0 or self.worst > 3.0


def own_error(actual: Array, expected: Value, dtype: str) -> OwnError:
    """Measure a floating-point output.

    Parameters
    ----------
    actual
        The device's, in the shape of the computed one.
    expected
        What was computed; NaN in it tells nothing.
    dtype
        The output's element type on the device, as in the DataType column.
    """
    if dtype == "float64":
        # Its squares may be too large or too small for it.
        actual, expected = _scaled(actual, expected)
    shape = np.shape(actual)
    x, y, error = np.reshape(actual, -1), np.reshape(expected.array, -1), _flat_error(expected, shape)
    # Squares of the differences and of what rounding explains.
    off, unit = np.empty(x.size), np.empty(x.size)
    sums, dot, odd, count = np.zeros(3), 0.0, 0, 0
    with np.errstate(all="ignore"):
        for start in range(0, x.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            a, b = x[part].astype(np.float64), y[part].astype(np.float64)
            squares = np.square(ulp(b, dtype)) / 12.0
            if error is not None:
                squares += np.square(error if error.ndim == 0 else error[part], dtype=np.float64)
            apart = a - b
            if not (np.isfinite(apart).all() and np.isfinite(squares).all()):
                both = np.isfinite(a) & np.isfinite(b)
                odd += _odd(a, b, np.sqrt(squares), dtype)
                squares = np.where(both & np.isfinite(squares), squares, 0.0)
                a, b, apart = (np.where(both, side, 0.0) for side in (a, b, apart))
                count += int(np.count_nonzero(both))
            else:
                count += a.size
            unit[part] = squares
            np.multiply(apart, apart, out=off[part])
            sums += float(off[part].sum()), float(squares.sum()), float(np.dot(b, b))
            dot += float(np.dot(a, b))
        squared_off, explained, size = (float(value) for value in sums)
        whole = math.sqrt(explained / count) if count else 0.0
        worst, at = _worst_element(off, unit, whole)
        slice_ratio = _worst_slice(off.reshape(shape), unit.reshape(shape), 0.1 * whole)
    return OwnError(
        distance=_root(squared_off, size),
        ratio=_root(squared_off, explained),
        slice_ratio=slice_ratio,
        worst=worst,
        worst_at=at,
        odd=odd,
        unequal=0,
        factor=dot / size if size else math.nan,
        explained=_root(explained, size),
        elements=count,
    )


def _flat_error(expected: Value, shape: Tuple[int, ...]) -> Optional[Array]:
    """Return the error of the values in a row, or one for all."""
    if expected.error is None or np.size(expected.error) == 1:
        return None if expected.error is None else np.asarray(expected.error).reshape(())
    return np.broadcast_to(expected.error, np.shape(expected.array)).reshape(-1)


def _worst_element(off: Array, unit: Array, whole: float) -> Tuple[float, int]:
    """Return the largest difference over what rounding explains there and of the whole, and where it is; arrays are of squares."""
    worst, at = 0.0, 0
    for start in range(0, off.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        share = off[part] / np.maximum(unit[part] + whole * whole, 1e-300)
        place = int(np.argmax(share))
        if share[place] > worst:
            worst, at = float(share[place]), start + place
    return math.sqrt(worst), at


def _scaled(actual: Array, expected: Value) -> Tuple[Array, Value]:
    """Return the same by a power of two that brings the largest value near 1: nothing else in the result changes by it."""
    finite = np.abs(expected.array[np.isfinite(expected.array)])
    _, exponent = np.frexp(np.max(finite, initial=0.0))
    error = None if expected.error is None else np.ldexp(np.asarray(expected.error, np.float64), -exponent)
    with np.errstate(all="ignore"):
        x, y = (np.ldexp(np.asarray(side, np.float64), -exponent) for side in (actual, expected.array))
    return x, Value(y, error)


def decided_error(wrong: Array) -> OwnError:
    """Return the error of decisions: how many do not follow.

    Parameters
    ----------
    wrong
        For each element of the output whether it does not follow.
    """
    flags = np.asarray(wrong)
    count = int(np.count_nonzero(flags))
    at = int(np.argmax(flags)) if flags.size else 0
    infinite = math.inf if count else 0.0
    share = count / flags.size if flags.size else 0.0
    return OwnError(share, infinite, infinite, infinite, at, 0, count, math.nan, 0.0, int(flags.size))


def _odd(x: Array, y: Array, unit: Array, dtype: str) -> int:
    """Return how many elements are finite on one side only, or infinite with another sign; where y is NaN nothing can be told.

    What lies within the error of the type's largest number may overflow or not.
    """
    alike = (x == y) | np.isnan(y) | (np.isfinite(x) & np.isfinite(y))
    largest = ROUNDING[dtype].largest if dtype in ROUNDING else math.inf
    reach = np.abs(y) + 4.0 * np.where(np.isfinite(unit), unit, 0.0)
    near = (np.sign(x) == np.sign(y)) & (reach >= largest) & (np.abs(x) >= largest * 0.98)
    beyond = near & np.isfinite(x)
    rounded_up = near & np.isinf(x) & (np.abs(y) <= largest * 1.02)
    return int(np.count_nonzero(~(alike | beyond | rounded_up)))


def _root(upper: float, lower: float) -> float:
    if lower > 0:
        return math.sqrt(upper / lower)
    return math.inf if upper > 0 else 0.0


def _worst_slice(off: Array, unit: Array, granted: float) -> float:
    """Return the largest root of the mean square error of a slice along any axis, over that of what rounding explains there.

    ``off`` and ``unit`` are squares.
    """
    worst = 0.0
    for axis in range(off.ndim):
        if 1 < off.shape[axis] < off.size:
            rest = tuple(other for other in range(off.ndim) if other != axis)
            upper, lower = off.sum(axis=rest), unit.sum(axis=rest) + granted**2 * (off.size / off.shape[axis])
            with np.errstate(all="ignore"):
                found = np.sqrt(upper / np.maximum(lower, 1e-300))
            worst = max(worst, float(np.max(np.where(upper > 0, found, 0.0))))
    return worst
