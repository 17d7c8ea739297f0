from __future__ import annotations

import math
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldwatch.base.errors import FormatError, NotComparable
from goldwatch.tensors.dtypes import (
    bfloat16_to_float32,
    decode,
    dtype_by_code,
    dtype_by_name,
    dtype_by_numpy,
    nbytes,
    require_decodable,
)
from goldwatch.tensors.storage_layouts import FORMATS, format_code, format_name, split_format
from goldwatch.tensors.tensor import MemorySource, Tensor

ALL_BYTES = np.arange(256, dtype=np.uint8)


def bits_of(code):
    return [(code >> place) & 1 for place in range(7, -1, -1)]


def number(bits):
    return int("".join(map(str, bits)) or "0", 2)


def slow_e4m3fn(code):
    sign, exponent, fraction = (
        (-1.0 if code & 128 else 1.0),
        number(bits_of(code)[1:5]),
        number(bits_of(code)[5:]),
    )
    if exponent == 15 and fraction == 7:
        return math.nan
    return sign * (
        fraction / 8 * 2.0**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)
    )


def slow_e5m2(code):
    sign, exponent, fraction = (
        (-1.0 if code & 128 else 1.0),
        number(bits_of(code)[1:6]),
        number(bits_of(code)[6:]),
    )
    if exponent == 31:
        return math.nan if fraction else sign * math.inf
    return sign * (
        fraction / 4 * 2.0**-14 if exponent == 0 else (1 + fraction / 4) * 2.0 ** (exponent - 15)
    )


def slow_e8m0(code):
    return math.nan if code == 255 else 2.0 ** (code - 127)


def slow_hifloat8(code):
    if code in (0x80, 0x6F, 0xEF):
        return {0x80: math.nan, 0x6F: math.inf, 0xEF: -math.inf}[code]
    bits = bits_of(code)
    sign, text = (-1.0 if bits[0] else 1.0), "".join(map(str, bits[1:]))
    prefix = next(p for p in ("11", "10", "01", "001", "0001", "0000") if text.startswith(p))
    rest = text[len(prefix) :]
    if prefix == "0000":
        m = int(rest, 2)
        return sign * 2.0 ** (m - 23) if m else 0.0
    width = {"11": 4, "10": 3, "01": 2, "001": 1, "0001": 0}[prefix]
    field, fraction = rest[:width], rest[width:]
    exponent = 0
    if width:
        exponent = int("1" + field[1:], 2) * (-1 if field[0] == "1" else 1)
    return sign * 2.0**exponent * (1 + int(fraction, 2) / 2 ** len(fraction))


@pytest.mark.parametrize(
    "name, slow",
    [
        ("float8_e4m3fn", slow_e4m3fn),
        ("float8_e5m2", slow_e5m2),
        ("float8_e8m0fnu", slow_e8m0),
        ("hifloat8", slow_hifloat8),
    ],
)
def test_every_8_bit_float_decodes_by_its_definition(name, slow):
    got = decode(ALL_BYTES, dtype_by_name(name), 256)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.array([slow(code) for code in range(256)], np.float32))
    assert math.copysign(1, slow(0x81) if name != "float8_e8m0fnu" else 1) == math.copysign(
        1, got[0x81]
    )


def test_hifloat8_decodes_to_its_known_values():
    got = decode(ALL_BYTES, dtype_by_code(33), 256)
    assert (
        got[0x08] == 1.0
        and got[0x6E] == 2.0**15
        and got[0x01] == 2.0**-22
        and got[0x07] == 2.0**-16
    )
    assert np.isnan(got[0x80]) and got[0x6F] == np.inf and got[0xEF] == -np.inf and got[0] == 0


def test_every_bfloat16_decodes_by_its_definition():
    codes = np.arange(65536, dtype=np.uint16)
    got = decode(codes.view(np.uint8), dtype_by_code(27), 65536)
    want = np.array(
        [struct.unpack("<f", b"\0\0" + struct.pack("<H", code))[0] for code in range(65536)],
        np.float32,
    )
    np.testing.assert_array_equal(got.view(np.uint32), codes.astype(np.uint32) << 16)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(
        bfloat16_to_float32(codes.reshape(256, 256)[:, ::2]), want.reshape(256, 256)[:, ::2]
    )


def slow_packed(data, name, count):
    """Unpack by text: low bits first, uint1 highest bit first."""
    bits = int(name[-1])
    out = []
    for byte in data:
        pieces = [(byte >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
        out += pieces[::-1] if name == "uint1" else pieces
    if name.startswith("int"):
        out = [value - (1 << bits) if value >= 1 << (bits - 1) else value for value in out]
    return out[:count]


@pytest.mark.parametrize("name", ["int4", "int2", "uint2", "uint1"])
@given(
    data=st.binary(min_size=1, max_size=40),
    numbers=st.tuples(st.integers(0, 400), st.integers(0, 400)),
)
def test_packed_types_decode_with_odd_counts_and_windows(name, data, numbers):
    dtype = dtype_by_name(name)
    held = len(data) * 8 // dtype.bits
    start, stop = sorted(value % (held + 1) for value in numbers)
    want = slow_packed(data, name, held)
    raw = np.frombuffer(data, np.uint8)
    got = decode(raw, dtype, stop - start, start)
    assert got.dtype == (np.int8 if name.startswith("int") else np.uint8)
    assert got.tolist() == want[start:stop]
    tensor = Tensor(dtype, (held,), "ND", MemorySource(raw))
    assert tensor.elements(start, stop).tolist() == want[start:stop]
    if name == "uint1":
        assert want == np.unpackbits(raw).tolist()


@pytest.mark.parametrize("code", [code for code in range(41) if dtype_by_code(code).decodable])
def test_every_decodable_type_decodes_in_parts_as_in_whole(code):
    dtype = dtype_by_code(code)
    count = 13
    raw = np.random.RandomState(code).randint(0, 256, nbytes(dtype, count + 3)).astype(np.uint8)
    whole = decode(raw, dtype, count + 3)
    assert whole.shape == (count + 3,) and whole.dtype.isnative and whole.dtype.kind in "fiubc"
    part = decode(raw, dtype, count, 2)
    assert part.tobytes() == whole[2 : 2 + count].tobytes()
    assert (
        Tensor(dtype, (count + 3,), "ND", MemorySource(raw)).elements(2, 2 + count).tobytes()
        == part.tobytes()
    )
    assert pickle.loads(pickle.dumps(dtype)) == dtype
    with pytest.raises(FormatError):
        decode(raw[:-1], dtype, count + 3)


@pytest.mark.parametrize(
    "code, kind",
    [
        (0, "i1"),
        (23, "i8"),
        (14, "i1"),
        (15, "u1"),
        (18, "i1"),
        (19, "i2"),
        (20, "i4"),
        (21, "u1"),
        (22, "u2"),
        (12, "f8"),
        (17, "c16"),
    ],
)
def test_plain_types_are_read_as_numpy_types_without_a_copy(code, kind):
    raw = np.arange(48, dtype=np.uint8)
    want = raw.view("<" + kind)
    got = decode(raw, dtype_by_code(code), want.size)
    assert (
        got.dtype == want.dtype
        and got.tobytes() == want.tobytes()
        and dtype_by_code(code).name == want.dtype.name
    )
    assert np.shares_memory(got, raw)


def test_complex32_decodes_as_pairs_of_float16():
    halves = np.array([1.5, -2, 0, 65504], np.float16)
    got = decode(halves.view(np.uint8), dtype_by_code(32), 2)
    assert got.dtype == np.complex64 and got.tolist() == [1.5 - 2j, 65504j]


def test_bool_is_true_for_any_byte_but_0():
    assert decode(np.array([0, 1, 2, 255], np.uint8), dtype_by_code(11), 4).tolist() == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    "code, text",
    [
        (13, "string"),
        (26, "variant"),
        (37, "float6_e3m2fn"),
        (39, "float4_e2m1fn"),
        (77, "77"),
        (-3, "-3"),
    ],
)
def test_undecoded_types_are_refused_by_name(code, text):
    dtype = dtype_by_code(code)
    assert not dtype.decodable and dtype.kind == ""
    with pytest.raises(NotComparable, match=text):
        decode(np.zeros(8, np.uint8), dtype, 1)
    with pytest.raises(NotComparable, match=text):
        Tensor(dtype, (1,), "ND", MemorySource(np.zeros(8, np.uint8))).array()


def test_numpy_types_map_to_element_types_and_others_are_refused():
    for kind in (
        "f2",
        "f4",
        "f8",
        "i1",
        "i2",
        "i4",
        "i8",
        "u1",
        "u2",
        "u4",
        "u8",
        "?",
        "c8",
        "c16",
    ):
        dtype = dtype_by_numpy(kind)
        assert (
            dtype.name == np.dtype(kind).name
            and dtype.bits == 8 * np.dtype(kind).itemsize
            and dtype.decodable
        )
        assert dtype == dtype_by_code(dtype.code)
    for kind in ("U3", "S3", "O", "V2", "M8[s]", [("a", "i4")]):
        dtype = dtype_by_numpy(kind)
        assert not dtype.decodable
        with pytest.raises(NotComparable, match="cannot be compared"):
            decode(np.zeros(64, np.uint8), dtype, 1)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i4", "u8", "c8"])
def test_big_endian_values_become_native(kind):
    values = np.arange(-5, 6).astype(kind)
    tensor = Tensor.from_array(values.astype(np.dtype(kind).newbyteorder(">")))
    got = tensor.elements(2, 9)
    assert got.dtype.isnative and got.dtype == values.dtype and got.tolist() == values[2:9].tolist()
    assert tensor.dtype.name == values.dtype.name


def test_a_tensor_reads_only_its_window_and_reports_missing_bytes():
    class Watched(MemorySource):
        def read(self, offset, nbytes):
            reads.append((offset, nbytes))
            return super().read(offset, nbytes)

    reads = []
    tensor = Tensor(dtype_by_code(2), (100,), "ND", Watched(np.arange(100, dtype=np.float16)))
    assert tensor.elements(40, 42).tolist() == [40, 41] and reads == [(80, 4)]
    short = Tensor(dtype_by_code(2), (10, 11), "ND", MemorySource(np.arange(100, dtype=np.float16)))
    with pytest.raises(FormatError, match=r"float16 \[10, 11\] needs 220 bytes, got 200"):
        short.array()
    scalar = Tensor.from_array(np.float32(3))
    assert scalar.count == 1 and scalar.array() == 3 and scalar.shape == ()
    assert pickle.loads(
        pickle.dumps(tensor.__class__.from_array(np.arange(3)))
    ).array().tolist() == [0, 1, 2]


def test_element_types_and_formats_are_known_by_name_and_code():
    assert (
        dtype_by_name("BF16") == dtype_by_code(27) == dtype_by_name("bfloat16")
        and dtype_by_name("no such") is None
    )
    assert (
        dtype_by_code(2).enumerator == "FLOAT16" and dtype_by_code(99).enumerator == "unknown(99)"
    )
    for code in (-1, 99):
        with pytest.raises(NotComparable, match="data type code %d is not known" % code):
            require_decodable(dtype_by_code(code))
    assert (
        nbytes(dtype_by_code(28), 5) == 3
        and nbytes(dtype_by_code(29), 9) == 2
        and nbytes(dtype_by_code(1), 7) == 28
    )
    assert len(FORMATS) == 51 and [FORMATS[code] for code in (3, 29, 49, 255)] == [
        "NC1HWC0",
        "FRACTAL_NZ",
        "C1HWC0",
        "MAX",
    ]
    assert (
        format_code("fractal_z") == 4
        and format_code("nonsense") is None
        and format_name(77) == "unknown(77)"
    )
    assert split_format(4 | 32 << 8 | 5 << 24) == ("FRACTAL_Z", 32) and split_format(
        4 | 32 << 8, 2
    ) == ("FRACTAL_Z", 2)
    assert split_format(3) == ("NC1HWC0", 0)
