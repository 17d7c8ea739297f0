"""Comparison bit for bit, against numpy element by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.base.errors import NotComparable
from goldwatch.dumps.golden_set import GoldenEntry
from goldwatch.metrics import bitwise
from goldwatch.metrics.bitwise import LEAST_DESCRIBED, Bits, compare_bits
from goldwatch.metrics.pair_task import PairTask
from goldwatch.metrics.row import FAIL, PASS, Row
from goldwatch.tensors.dtypes import decode, dtype_by_name, nbytes
from goldwatch.tensors.tensor import MemorySource, Tensor

FLOATS = (
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e8m0fnu",
    "hifloat8",
)
TYPES = (
    *FLOATS,
    "int8",
    "uint8",
    "int16",
    "uint32",
    "int64",
    "uint64",
    "int4",
    "uint1",
    "int2",
    "bool",
    "complex64",
    "complex32",
)
ROW = Row(
    index=0,
    op="op",
    op_type="Relu",
    tensor="op:output:0",
    kind="output",
    verdict=PASS,
    tensor_index=0,
)


def tensor(raw, name, shape, format="ND", **fields):
    return Tensor(
        dtype_by_name(name),
        tuple(shape),
        format,
        MemorySource(np.frombuffer(bytes(raw), np.uint8)),
        **fields,
    )


def row(mine, theirs):
    return compare_bits(
        PairTask(ROW, mine, GoldenEntry("", "", "op", 0, 0, "npu"), as_stored=True), theirs, None
    )


def bits_of(raw, dtype, count):
    """Each element's bits as one number."""
    if dtype.bits >= 8:
        size = dtype.bits // 8
        return [int.from_bytes(raw[at * size : (at + 1) * size], "little") for at in range(count)]
    return [int(value) for value in decode(np.frombuffer(raw, np.uint8), dtype, count)]


@np.errstate(invalid="ignore")
def steps(x, y, dtype):
    """Steps between two numbers of a type, counted in the sorted list of all its numbers; None
    beside a NaN.
    """
    raw = np.arange(1 << dtype.bits, dtype="<u%d" % (dtype.bits // 8)).view(np.uint8)
    every = decode(raw, dtype, 1 << dtype.bits).astype(np.float64)
    if np.isnan(x) or np.isnan(y):
        return None
    known = sorted(set(every[~np.isnan(every)].tolist()))
    return abs(known.index(float(x)) - known.index(float(y)))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(TYPES),
    st.lists(st.integers(1, 5), min_size=0, max_size=3),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_differing_elements_are_counted_as_numpy_counts_them(name, shape, random, data):
    dtype = dtype_by_name(name)
    count = int(np.prod(shape, dtype=int))
    size = nbytes(dtype, count)
    mine = bytearray(random.getrandbits(8) for _ in range(size))
    theirs = bytearray(mine)
    for at in data.draw(st.lists(st.integers(0, size - 1), max_size=6)):
        theirs[at] = random.getrandbits(8)
    found = row(tensor(mine, name, shape), tensor(theirs, name, shape))
    differ = [
        x != y
        for x, y in zip(bits_of(bytes(mine), dtype, count), bits_of(bytes(theirs), dtype, count))
    ]
    assert found.verdict == (FAIL if any(differ) else PASS)
    assert found.metrics["DifferentCount"] == sum(differ)
    assert found.metrics["DifferentElements"] == sum(differ) / count
    assert found.metrics["DifferentStretches"] == sum(key for key, _ in itertools.groupby(differ))
    if any(differ):
        first = differ.index(True)
        assert found.metrics["FirstDifferent"] == first
        index = [int(axis) for axis in np.unravel_index(first, shape)] if shape else []
        assert "the first at %s: " % index in found.reason


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([name for name in FLOATS if name not in ("float32", "float64")]),
    st.integers(0),
    st.integers(0),
)
def test_steps_between_floats_are_counted_in_the_sorted_list_of_all_values(name, x, y):
    dtype = dtype_by_name(name)
    raws = [(value % (1 << dtype.bits)).to_bytes(dtype.bits // 8, "little") for value in (x, y)]
    values = [decode(np.frombuffer(raw, np.uint8), dtype, 1)[0] for raw in raws]
    found = row(*(tensor(raw, name, [1]) for raw in raws))
    if raws[0] == raws[1]:
        assert found.verdict == PASS
        return
    wanted = steps(*values, dtype)
    ulps = found.metrics["LargestUlps"]
    assert np.isnan(ulps) if wanted is None else ulps == wanted, (values, ulps, wanted)
    assert ("with a NaN" in found.reason) == (wanted is None)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["int8", "uint8", "int32", "int64", "uint64"]), st.integers(), st.integers())
def test_steps_between_integers_are_their_difference(name, x, y):
    kind = np.iinfo(name)
    x, y = (kind.min + value % (int(kind.max) - int(kind.min) + 1) for value in (x, y))
    mine, theirs = (np.array([value], name) for value in (x, y))
    assert row(tensor(mine.tobytes(), name, [1]), tensor(theirs.tobytes(), name, [1])).metrics[
        "LargestUlps"
    ] == float(abs(x - y))


@settings(max_examples=20, deadline=None)
@given(st.floats(width=32, allow_nan=False), st.integers(1, 20), st.booleans())
def test_steps_between_floats_equal_calls_of_nextafter(x, count, up):
    y = np.float32(x)
    for _ in range(count):
        y = np.nextafter(y, np.float32(np.inf if up else -np.inf), dtype=np.float32)
    taken = abs(count) if np.isfinite(y) else None
    found = row(*(tensor(np.float32(value).tobytes(), "float32", [1]) for value in (x, y)))
    if taken is not None:
        assert found.metrics["LargestUlps"] == taken


def test_zeros_of_different_sign_differ_by_0_steps_but_fail():
    found = row(
        *(
            tensor(np.array(values, "f4").tobytes(), "float32", [2])
            for values in ([0.0, 1], [-0.0, 1])
        )
    )
    assert (found.verdict, found.metrics["LargestUlps"]) == (FAIL, 0)
    assert "only signs of zeros" in found.reason


def test_nan_equals_only_its_own_bits():
    same, other = (np.array(bits, "u4").tobytes() for bits in ([0x7FC00000, 1], [0x7FC00001, 1]))
    assert row(tensor(same, "float32", [2]), tensor(same, "float32", [2])).verdict == PASS
    found = row(tensor(same, "float32", [2]), tensor(other, "float32", [2]))
    assert (
        found.verdict == FAIL
        and "1 with a NaN" in found.reason
        and np.isnan(found.metrics["LargestUlps"])
    )


def test_undecoded_types_are_compared_by_their_bytes():
    mine, theirs = bytes(6), bytes([0, 0, 0, 0, 8, 0])
    assert (
        row(tensor(mine, "float6_e3m2fn", [8]), tensor(mine, "float6_e3m2fn", [8])).verdict == PASS
    )
    found = row(tensor(mine, "float6_e3m2fn", [8]), tensor(theirs, "float6_e3m2fn", [8]))
    assert found.verdict == FAIL and found.reason.startswith(
        "1 of 6 bytes differ, the first at byte 4: 0 for 8"
    )


def test_bits_behind_the_last_packed_element_are_ignored():
    assert (
        row(tensor(b"\x21\x03", "int4", [3]), tensor(b"\x21\xf3", "int4", [3])).metrics[
            "DifferentCount"
        ]
        == 0
    )


def test_tensors_of_different_type_shape_or_layout_are_not_compared():
    half, whole = tensor(bytes(8), "float16", [4]), tensor(bytes(8), "float32", [2])
    for mine, theirs in (
        (half, whole),
        (half, tensor(bytes(8), "float16", [2, 2])),
        (half, tensor(bytes(8), "float16", [4], "NCHW")),
    ):
        with pytest.raises(NotComparable, match="not stored alike.*float16 ND \\[4\\] against"):
            row(mine, theirs)


@pytest.mark.parametrize(
    "format, stored, original, at, place",
    [
        ("NC1HWC0", (1, 2, 3, 4, 16), (1, 20, 3, 4), (0, 1, 2, 3, 2), "[0, 18, 2, 3]"),
        ("NC1HWC0", (1, 2, 3, 4, 16), (1, 20, 3, 4), (0, 1, 2, 3, 9), "padding"),
        ("FRACTAL_NZ", (2, 3, 16, 16), (40, 30), (1, 2, 5, 7), "[37, 23]"),
    ],
)
def test_the_first_difference_is_given_in_the_axes_of_the_original_layout(
    format, stored, original, at, place
):
    mine, theirs = np.zeros(stored, np.float16), np.zeros(stored, np.float16)
    theirs[at] = 1
    sides = [
        tensor(side.tobytes(), "float16", stored, format, original_shape=original)
        for side in (mine, theirs)
    ]
    assert "the first at %s (%s %s): 0 for 1" % (place, format, list(at)) in row(*sides).reason


def shape_of(mask, **options):
    x = np.zeros(mask.shape, np.float32)
    found = Bits(dtype_by_name("float32"), mask.shape)
    found.add(
        x.reshape(-1).view(np.uint8), np.where(mask, np.float32(1), x).reshape(-1).view(np.uint8), 0
    )
    return found


def test_differences_in_blocks_are_distinguished_from_chance():
    random = np.random.default_rng(1)
    called = [
        shape_of(random.random((16, 64)) < share).in_blocks
        for share in (0.02, 0.1, 0.3, 0.7, 0.95)
        for _ in range(40)
    ]
    assert called.count(True) == 0
    tile, channel = np.zeros((32, 32), bool), np.zeros((4, 8, 16), bool)
    tile[8:16, 16:32], channel[:, 3] = True, True
    column = np.zeros((64, 16), bool)
    column[:, 5] = True
    for mask in (tile, channel, column):
        assert shape_of(mask).in_blocks
    few = np.zeros(64, bool)
    few[: LEAST_DESCRIBED - 1] = True
    assert shape_of(few).in_blocks is None and shape_of(np.ones(64, bool)).in_blocks is None


def test_a_tensor_read_in_pieces_is_measured_as_one(monkeypatch):
    monkeypatch.setattr(bitwise, "_PIECE_BYTES", 24)
    x = np.arange(40, dtype=np.float32)
    y = x.copy()
    y[5:8] += 1
    found = row(*(tensor(side.tobytes(), "float32", [4, 10]) for side in (x, y)))
    assert [
        found.metrics[name] for name in ("DifferentCount", "FirstDifferent", "DifferentStretches")
    ] == [3, 5, 1]
    assert found.metrics["LargestUlps"] == (y.view("u4") - x.view("u4")).astype("i8").max()


@pytest.mark.parametrize(
    "name, mine, theirs, said",
    [
        (
            "float32",
            b"\x01\0\xc0\x7f",
            b"\0\0\xc0\x7f",
            "nan (0x7fc00001) for nan (0x7fc00000), 1 with a NaN",
        ),
        ("bool", b"\x02", b"\x01", "True (0x02) for True (0x01)"),
        (
            "float64",
            np.float64(1 + 2**-52).tobytes(),
            np.float64(1).tobytes(),
            "1.0000000000000002 for 1, by at most 1 ulp",
        ),
    ],
)
def test_two_different_values_are_never_printed_alike(name, mine, theirs, said):
    assert row(tensor(mine, name, (1,)), tensor(theirs, name, (1,))).reason.endswith(
        "the first at [0]: " + said
    )
