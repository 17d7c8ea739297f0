"""Both kernels against exact fractions: all element types, any bits, any size up to 200,003,
wherever the bytes lie.
"""

from __future__ import annotations

import numpy as np
import pytest
from exact_metrics import FLOATS, Exact, assert_exact, close
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import KERNELS, rounded, using

from goldwatch.metrics.accumulator import Accumulator
from goldwatch.metrics.compare_blocks import KLPass
from goldwatch.metrics.row import MEASURES
from goldwatch.metrics.worst_slice import borders, slice_axes
from goldwatch.tensors.aligned_blocks import match_layouts, placed_blocks
from goldwatch.tensors.dtypes import dtype_by_name, dtype_by_numpy
from goldwatch.tensors.tensor import MemorySource, Tensor

TYPES = ("f2", "V2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")
#: Around vectors, chunks and blocks of the kernel, of numpy's dot products, and of a comparison.
BORDERS = (
    0,
    1,
    7,
    8,
    9,
    63,
    64,
    65,
    1023,
    1024,
    1025,
    2047,
    8191,
    8193,
    32767,
    32769,
    65535,
    65536,
    65537,
    131071,
    131073,
    200001,
    200003,
)
SIZES = st.one_of(st.integers(0, 24), st.sampled_from(BORDERS), st.integers(0, 200003))
#: Both sides at or below this by different numbers may be masks, which have tests of their own.
MASKED = -65000.0


@pytest.fixture(scope="module", autouse=True)
def kernel():
    """Each test computes with all."""


def bits_of(dtype):
    return 8 * np.dtype(dtype).itemsize


def special_codes(dtype):
    """Zeros, ones, the ends of the normal and the subnormal range, infinities, NaN with and without
    a payload; of integers the ends.
    """
    bits = bits_of(dtype)
    if dtype not in FLOATS:
        codes = [
            0,
            1,
            3,
            (1 << bits - 1) - 1,
            1 << bits - 1,
            (1 << bits) - 1,
            1 << min(bits - 1, 53),
            (1 << min(bits - 1, 53)) + 1,
        ]
        return [code % 2 for code in codes] if dtype == "?" else codes
    exponent_bits, fraction_bits = FLOATS[dtype]
    one, infinite = (
        ((1 << exponent_bits - 1) - 1) << fraction_bits,
        ((1 << exponent_bits) - 1) << fraction_bits,
    )
    normal, quiet = 1 << fraction_bits, 1 << fraction_bits - 1
    codes = [
        0,
        1,
        normal - 1,
        normal,
        one - 1,
        one,
        one + 1,
        infinite - 1,
        infinite,
        infinite + 1,
        infinite + quiet,
    ]
    return codes + [code | 1 << bits - 1 for code in codes]


def tamed(code, dtype, finite):
    """The code; where only finite ones are wanted NaN and Inf with a smaller exponent, and no
    float64 whose differences are infinite.
    """
    if dtype not in FLOATS:
        return code
    exponent_bits, fraction_bits = FLOATS[dtype]
    largest = (1 << exponent_bits) - 1
    exponent = code >> fraction_bits & largest
    if exponent == largest and finite or exponent == 2046 and dtype == "f8":
        return code ^ 3 << fraction_bits
    return code


def made_of(codes, dtype):
    return np.array(codes, "u%d" % np.dtype(dtype).itemsize).view(dtype)


def odd_codes(dtype):
    """NaN and both infinities."""
    exponent_bits, fraction_bits = FLOATS[dtype]
    infinite = ((1 << exponent_bits) - 1) << fraction_bits
    return (
        infinite + (1 << fraction_bits - 1),
        infinite,
        infinite | 1 << exponent_bits + fraction_bits,
    )


@st.composite
def any_bits(draw, types, k):
    odd, sides = draw(st.sampled_from(["none", "anywhere", "at the same places"])), []
    for dtype in types:
        anything = st.integers(0, 1) if dtype == "?" else st.integers(0, 2 ** bits_of(dtype) - 1)
        codes = draw(
            st.lists(
                st.one_of(st.sampled_from(special_codes(dtype)), anything), min_size=k, max_size=k
            )
        )
        sides.append([tamed(code, dtype, odd != "anywhere") for code in codes])
    if odd == "at the same places" and set(types) <= set(FLOATS):
        for place, kind in enumerate(
            draw(st.lists(st.sampled_from([0, 1, 2, 3, 3, 3]), min_size=k, max_size=k))
        ):
            for codes, dtype in zip(sides, types):
                codes[place] = odd_codes(dtype)[kind] if kind < 3 else codes[place]
    return [made_of(codes, dtype) for codes, dtype in zip(sides, types)]


@st.composite
def close_values(draw, types, k):
    """What networks hold: values around a mean, the target next to the golden."""
    rng = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    spread, mean = draw(st.sampled_from([1e-6, 1.0, 30.0])), draw(st.sampled_from([0.0, 50.0]))
    y = np.abs(mean + spread * rng.standard_normal(k))
    return [
        rounded(side, dtype)
        for side, dtype in zip(
            (y * (1 + draw(st.sampled_from([0, 1e-3])) * rng.standard_normal(k)), y), types
        )
    ]


def without_masks(x, y):
    low = np.ones(x.size, bool)
    with np.errstate(all="ignore"):
        for side in (x, y):
            values = (
                (side.view("u2").astype("u4") << 16).view("f4") if side.dtype.kind == "V" else side
            )
            low &= values <= MASKED
    return x[~low], y[~low]


def placed(values, shift, order):
    """The same elements from a byte that no type is aligned to; every other one, or from the last
    to the first.
    """
    step = {"plain": 1, "every other": 2, "backwards": -1}[order]
    raw = np.zeros(values.nbytes * abs(step) + 64, np.uint8)
    room = raw[shift : shift + values.nbytes * abs(step)].view(values.dtype)[::step]
    room[...] = values
    return room


@st.composite
def elements(draw, target, n):
    """Two arrays of n elements: few different pairs, so that fractions are exact in a moment; up to
    24 elements are all different.
    """
    types = (target, draw(st.one_of(st.sampled_from(TYPES), st.sampled_from(sorted(FLOATS)))))
    k = n if n <= 24 else draw(st.sampled_from([1, 2, 24, 150]))
    x, y = without_masks(*draw(draw(st.sampled_from([any_bits, close_values]))(types, k)))
    if n <= 24 and x.size == n:
        return x, y
    if not x.size:
        return np.zeros(n, types[0]), np.zeros(n, types[1])
    if draw(st.booleans()):
        which = np.random.RandomState(draw(st.integers(0, 2**32 - 1))).randint(0, x.size, n)
    else:
        which = np.zeros(n, int)
        which[draw(st.sampled_from([0, n // 2, n - 1]))] = x.size - 1
    return x[which], y[which]


@st.composite
def pairs(draw, target):
    """Two arrays wherever they may lie, and where they are cut into blocks."""
    n = draw(SIZES)
    x, y = draw(elements(target, n))
    orders = st.sampled_from(["plain", "plain", "every other", "backwards"])
    x, y = (placed(side, draw(st.integers(0, 63)), draw(orders)) for side in (x, y))
    return x, y, sorted(draw(st.lists(st.integers(0, x.size), max_size=3)))


def measured(blocks, axes=()):
    """Both passes over blocks as they lie there: arguments of Accumulator.update."""
    first = Accumulator(MEASURES, axes)
    for block in blocks():
        first.update(*block)
    second = KLPass(first.result())
    for block in blocks() if second.needed else ():
        second.update(*block[:2])
    return second.result()


def agreed(results):
    """All kernels say the same, each instruction set with the same bits."""
    numpys, others = results[0], results[1:]
    for other in others:
        assert repr(other.values) == repr(others[0].values)
        for key in (
            "nan",
            "inf",
            "positions_agree",
            "count",
            "finite_count",
            "outcome",
            "reasons",
            "notes",
            "overflow",
            "identical",
        ):
            assert getattr(other, key) == getattr(numpys, key), key
        assert (other.differing, other.not_applicable) == (numpys.differing, numpys.not_applicable)
        worst = [result.values["WorstSliceDistance"] for result in (other, numpys)]
        assert close(*worst, abs(worst[1]))


def check(blocks, x, y, axes=()):
    results = []
    for name in KERNELS:
        with using(name):
            results.append(measured(blocks, axes))
    agreed(results)
    exact = Exact(x, y)
    for result in results[:2]:
        assert_exact(result, exact)


@pytest.mark.parametrize("target", TYPES)
def test_metrics_of_any_bits_and_sizes_equal_exact_fractions(target):
    @settings(max_examples=50)
    @given(pairs(target))
    def run(case):
        x, y, cuts = case
        parts = [slice(*ends) for ends in zip([0, *cuts], [*cuts, x.size])]
        check(lambda: [(x[part], y[part]) for part in parts], x, y)

    run()


@pytest.mark.parametrize("value", [3080789, 3.0000001, 1e5])
@pytest.mark.parametrize("n", [1024, 65536, 131073, 200003])
def test_one_differing_element_among_equal_ones_gives_exact_metrics(n, value):
    """The squares are many times their sum of deviations, and an older numpy adds them with fewer
    digits.
    """
    x = np.full(n, value)
    x[0] = 0
    check(lambda: [(x, x[::-1])], x, x[::-1])


def as_stored(x, form, c0, padding):
    """A plain array as the device stores it, padded with what nobody may read."""
    if form == "NC1HWC0":
        n, c, h, w = x.shape
        room = np.full((n, -(-c // c0) * c0, h, w), padding, x.dtype)
        room[:, :c] = x
        return np.ascontiguousarray(room.reshape(n, -1, c0, h, w).transpose(0, 1, 3, 4, 2))
    rows, columns = (-(-size // 16) for size in x.shape)
    room = np.full((rows * 16, columns * 16), padding, x.dtype)
    room[: x.shape[0], : x.shape[1]] = x
    return np.ascontiguousarray(room.reshape(rows, 16, columns, 16).transpose(2, 0, 1, 3))


def dtype_of(array):
    return dtype_by_name("bfloat16") if array.dtype.kind == "V" else dtype_by_numpy(array.dtype)


@pytest.mark.parametrize("form", ["NC1HWC0", "FRACTAL_NZ"])
@settings(max_examples=150)
@given(data=st.data())
def test_blocks_of_device_layouts_give_exact_metrics(form, data):
    """From bytes that are not aligned, bfloat16 as it is stored, blocks with their places."""
    target = data.draw(st.sampled_from(["f2", "f2", "V2", "V2", "f4", "i1", "u1", "i4", "f8"]))
    bounds = [(1, 3), (1, 70), (1, 12), (1, 12)] if form == "NC1HWC0" else [(1, 90), (1, 90)]
    shape = tuple(data.draw(st.integers(*bound)) for bound in bounds)
    x, y = (side.reshape(shape) for side in data.draw(elements(target, int(np.prod(shape)))))
    poison = made_of([odd_codes(target)[0] if target in FLOATS else 77], target)[0]
    stored = as_stored(x, form, 32 if x.itemsize == 1 else 16, poison)
    raw = np.zeros(stored.nbytes + 64, np.uint8)
    shift = data.draw(st.integers(0, 63))
    raw[shift : shift + stored.nbytes] = stored.reshape(-1).view(np.uint8)
    sides = (
        Tensor(
            dtype_of(stored),
            stored.shape,
            form,
            MemorySource(raw[shift : shift + stored.nbytes]),
            original_shape=shape,
        ),
        Tensor(dtype_of(y), shape, "ND", MemorySource(y)),
    )
    plain, channel = ("NCHW", 1) if form == "NC1HWC0" else ("ND", None)
    geometry, axes = match_layouts(sides[0], shape, plain, shape), slice_axes(shape, channel)
    most = data.draw(st.sampled_from([100, 1000, 32768]))
    check(
        lambda: placed_blocks(*sides, geometry, most, borders=borders(axes), halves=True),
        x,
        y,
        axes,
    )
