"""The error of each element, exactly for whole numbers, and whether it is within the rounding of
the target's type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .value_patterns import within_rounding

Array = Any

_WHOLE = "iub"


class Errors(NamedTuple):
    """The errors of some elements.

    Attributes
    ----------
    absolute
        abs(x - y): uint64 between whole numbers, else float64. NaN where one side is NaN, 0 where
        both are, or are the same infinity.
    relative
        ``absolute`` / abs(y), float64; NaN where y is 0, or as above.
    signed
        x - y, float64; for complex numbers the magnitude of the difference.
    """

    absolute: Array
    relative: Array
    signed: Array


def errors_of(x: Array, y: Array) -> Errors:
    """Return the errors of target elements ``x`` against golden elements ``y``: one-dimensional
    arrays of any numeric types.
    """
    with np.errstate(all="ignore"):
        if x.dtype.kind in _WHOLE and y.dtype.kind in _WHOLE:
            absolute, negative = _whole_distance(x, y)
            wide = absolute.astype(np.float64)
            signed = np.where(negative, -wide, wide)
            size = np.abs(y.astype(np.float64))
        else:
            wide_type = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
            left, right = x.astype(wide_type), y.astype(wide_type)
            signed = left - right
            absolute = wide = np.abs(signed)
            if wide_type is np.complex128:
                signed = wide
            size = np.abs(right)
            odd = ~np.isfinite(wide)
            if odd.any():
                same = odd & ((left == right) | (np.isnan(left) & np.isnan(right)))
                wide[same] = 0.0
                signed[same] = 0.0
        relative = np.where(size > 0, wide / size, np.nan)
        relative[(wide == 0) & (size > 0)] = 0.0
    return Errors(absolute, relative, signed)


def _whole_distance(x: Array, y: Array) -> Any:
    """Return abs(x - y) as uint64, and where x is the smaller: exactly, also between int64 and
    uint64.
    """
    if (x.dtype.kind == "u" and x.dtype.itemsize == 8) != (
        y.dtype.kind == "u" and y.dtype.itemsize == 8
    ):
        # Both as offsets from the least int64, in halves: what uint64 has beyond int64 does not fit
        # one type with negative numbers.
        return _mixed_distance(x, y)
    wide = np.uint64 if x.dtype.kind == "u" and x.dtype.itemsize == 8 else np.int64
    left, right = x.astype(wide), y.astype(wide)
    negative = left < right
    # Modulo 2^64 the difference of the larger and the smaller one is right whatever the sign.
    a, b = left.view(np.uint64), right.view(np.uint64)
    return np.where(negative, b - a, a - b), negative


def _mixed_distance(x: Array, y: Array) -> Any:
    """Return the same between uint64 and a signed type; a distance beyond uint64 becomes its
    largest number.
    """
    most = (1 << 64) - 1
    pairs = list(zip(x.tolist(), y.tolist()))
    absolute = np.array([min(abs(a - b), most) for a, b in pairs], np.uint64)
    return absolute, np.array([a < b for a, b in pairs], np.bool_)


def is_bad(x: Array, y: Array, dtype: str) -> Array:
    """Return which elements are off by more than the rounding of the target's type (named as in the
    DataType column).
    """
    bad: Array = ~within_rounding(x, y, dtype)
    return bad
