"""How element types round, against all their numbers."""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.tensors.dtypes import decode, dtype_by_name
from goldwatch.tensors.type_precision import rounding_of, ulp


def numbers(dtype):
    """Return all positive finite numbers of an 8 or 16 bit type, in order."""
    kind = dtype_by_name(dtype)
    count = 2**kind.bits
    codes = np.arange(count, dtype=np.uint8 if kind.bits == 8 else np.uint16)
    with np.errstate(invalid="ignore"):
        values = decode(codes, kind, count).astype(np.float64)
    return np.unique(values[np.isfinite(values) & (values > 0)])


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8"]
)
def test_ulp_is_the_distance_to_the_next_number(dtype):
    values = numbers(dtype)
    assert rounding_of(dtype).step == values[0] and rounding_of(dtype).largest == values[-1]
    found = ulp(values[:-1], dtype)
    # hifloat8's numbers below 2**-15 are powers of two.
    normal = (
        slice(0, None)
        if dtype != "hifloat8"
        else slice(int(np.searchsorted(values, 2.0**-15)), None)
    )
    np.testing.assert_array_equal(found[normal], np.diff(values)[normal])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ulp_of_the_types_that_numpy_knows(dtype):
    values = np.array([1.0, 3.0, 1e-3, 1e30, float(np.finfo(dtype).tiny), 0.0]).astype(dtype)
    np.testing.assert_array_equal(
        ulp(values.astype(np.float64), dtype), np.spacing(values).astype(np.float64)
    )
    limits = np.finfo(dtype)
    assert rounding_of(dtype) == (limits.nmant, np.spacing(values[-1]), limits.tiny, limits.max)


def test_integers_do_not_round():
    assert rounding_of("int32").step == 0 and not ulp(np.ones(3), "int8").any()
