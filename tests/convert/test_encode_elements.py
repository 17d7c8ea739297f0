"""Numbers encoded as stored elements and decoded, against slow references."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from goldwatch.base.errors import NotComparable
from goldwatch.tensors.dtypes import decode, dtype_by_name
from goldwatch.tools.convert.convert_tensor import encode

EIGHT_BITS = ("float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu", "hifloat8")
PACKED = ("int4", "int2", "uint2", "uint1")


def numbers(count=600):
    random = np.random.default_rng(7)
    return np.concatenate(
        [
            random.standard_normal(count) * 10.0 ** random.uniform(-12, 12, count),
            [0.0, -0.0, 1.0, -1.0],
        ]
    )


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_every_byte_of_an_8_bit_float_survives_encoding(name):
    dtype, codes = dtype_by_name(name), np.arange(256, dtype=np.uint8)
    values = decode(codes, dtype, 256)
    again = encode(values, dtype).raw
    same = again == codes
    assert (same | np.isnan(values)).all() and np.isnan(
        decode(again, dtype, 256)[np.isnan(values)]
    ).all()


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_8_bit_floats_are_encoded_to_nearest_with_ties_to_even(name):
    dtype = dtype_by_name(name)
    table = decode(np.arange(256, dtype=np.uint8), dtype, 256)
    finite = sorted({float(value) for value in table if math.isfinite(value)})
    ties = [(low + high) / 2 for low, high in zip(finite, finite[1:])]
    for value, code in zip(
        ties + numbers(200).tolist(),
        encode(np.array(ties + numbers(200).tolist()), dtype).raw.tolist(),
    ):
        stored = float(table[code])
        if not math.isfinite(stored):
            step = Fraction(finite[-1]) - Fraction(finite[-2])
            assert value < finite[0] or abs(Fraction(value)) >= Fraction(finite[-1]) + step / 2
            continue
        best = min(abs(Fraction(near) - Fraction(value)) for near in finite)
        assert abs(Fraction(stored) - Fraction(value)) == best
        equal = [near for near in finite if abs(Fraction(near) - Fraction(value)) == best]
        assert len(equal) == 1 or code % 2 == 0


def test_bfloat16_is_rounded_once():
    dtype = dtype_by_name("bfloat16")
    # Just above half way between two bfloat16 numbers: by way of float32 this would be a tie.
    tricky = np.array(
        [1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40, 1 + 2.0**-8, np.nan, 1e39, -np.inf]
    )
    found = encode(tricky, dtype)
    back = decode(found.raw, dtype, tricky.size)
    assert (
        back[:3].tolist() == [1 + 2.0**-7, 1 + 2.0**-7, 1.0]
        and np.isnan(back[3])
        and back[4] == np.inf
        and back[5] == -np.inf
    )
    assert found.overflowed == 1
    for value, code in zip(numbers(), encode(numbers(), dtype).raw.view("<u2").tolist()):
        around = np.array([max(code - 1, 0), code, code + 1], "<u2")
        below, own, above = (float(near) for near in decode(around.view(np.uint8), dtype, 3))
        for other in (near for near in (below, above) if math.isfinite(near)):
            assert abs(Fraction(own) - Fraction(value)) <= abs(Fraction(other) - Fraction(value))


@pytest.mark.parametrize("name", PACKED)
def test_packed_integers_survive_encoding(name):
    dtype, raw = dtype_by_name(name), np.random.default_rng(3).integers(0, 256, 50, dtype=np.uint8)
    count = 50 * 8 // dtype.bits
    assert (encode(decode(raw, dtype, count), dtype).raw == raw).all()


def test_overflowed_and_vanished_values_are_counted():
    found = encode(
        np.array([70000.0, 1e-9, 1.0, 0.0, np.nan, np.inf], np.float32), dtype_by_name("float16")
    )
    assert (found.overflowed, found.vanished) == (1, 1)
    found = encode(np.array([300, -1, 5]), dtype_by_name("uint8"))
    assert found.raw.tolist() == [255, 0, 5] and (found.overflowed, found.vanished) == (2, 1)
    found = encode(np.array([2.0**63, -(2.0**70), 2.5, np.nan]), dtype_by_name("int64"))
    assert found.raw.view("<i8").tolist() == [2**63 - 1, -(2**63), 2, 0] and found.overflowed >= 2
    assert encode(np.array([2**64 - 1], np.uint64), dtype_by_name("int64")).overflowed == 1


def test_complex_numbers_stay_complex():
    with pytest.raises(NotComparable, match="complex"):
        encode(np.array([1j]), dtype_by_name("float32"))
    found = encode(np.array([1 + 2j], np.complex64), dtype_by_name("complex32"))
    assert found.raw.view("<f2").tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", ["complex32", "complex64", "complex128"])
@pytest.mark.filterwarnings("error")
def test_real_numbers_become_complex(name):
    encoded = encode(
        np.array([1.5, -2.0, 1e300 if name != "complex128" else 3.0]), dtype_by_name(name)
    )
    assert encoded.overflowed == (name != "complex128") and encoded.vanished == 0
