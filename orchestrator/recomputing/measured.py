"""How far an output is from what its operator makes of the device's own inputs, in units of what rounding explains."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional

import numpy as np

from ..operators import Value
from ..tensors.rounding import ROUNDING, ulp

Array = Any

_PIECE = 1 << 20


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
    x, y = np.asarray(actual, np.float64), np.asarray(expected.array, np.float64)
    with np.errstate(all="ignore"):
        unit = explained_error(y, expected.error, dtype)
        both = np.isfinite(x) & np.isfinite(y)
        odd = _odd(x, y, unit, dtype)
        off = np.where(both, np.abs(x - y), 0.0)
        unit = np.where(both & np.isfinite(unit), unit, 0.0)
        size = np.where(both, y, 0.0)
        count = int(np.count_nonzero(both))
        squares = (float(np.sum(np.square(off))), float(np.sum(np.square(unit))), float(np.sum(np.square(size))))
        whole = math.sqrt(squares[1] / count) if count else 0.0
        share = np.where(off > 0, off / np.maximum(np.hypot(unit, whole), 5e-324), 0.0)
        at = int(np.argmax(share)) if share.size else 0
        worst = float(share.reshape(-1)[at]) if share.size else 0.0
        dot = float(np.sum(np.where(both, x, 0.0) * size))
        slice_ratio = _worst_slice(off, unit, 0.1 * whole)
    return OwnError(
        distance=_root(squares[0], squares[2]),
        ratio=_root(squares[0], squares[1]),
        slice_ratio=slice_ratio,
        worst=worst,
        worst_at=at,
        odd=odd,
        unequal=0,
        factor=dot / squares[2] if squares[2] else math.nan,
        explained=_root(squares[1], squares[2]),
        elements=count,
    )


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


def explained_error(values: Array, error: Optional[Array], dtype: str) -> Array:
    """Return the standard deviation of the error that a right output may have: of its rounding (ulp/√12), and what came from within."""
    unit = ulp(values, dtype) / math.sqrt(12.0)
    return unit if error is None else np.hypot(unit, np.asarray(error, np.float64))


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
    """Return the largest root of the mean square error of a slice along any axis, over that of what rounding explains there."""
    worst = 0.0
    off, unit = np.square(off), np.square(unit) + granted**2
    for axis in range(off.ndim):
        if 1 < off.shape[axis] < off.size:
            rest = tuple(other for other in range(off.ndim) if other != axis)
            upper, lower = off.sum(axis=rest), unit.sum(axis=rest)
            with np.errstate(all="ignore"):
                found = np.sqrt(upper / np.maximum(lower, 1e-300))
            worst = max(worst, float(np.max(np.where(upper > 0, found, 0.0))))
    return worst
