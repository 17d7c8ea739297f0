"""The metrics against exact ones, by each path through the code."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from exact_metrics import Exact, assert_exact, divergence, paired
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from goldwatch.metrics.accumulator import Accumulator
from goldwatch.metrics.compare_blocks import KLPass, compare_blocks
from goldwatch.metrics.differing_elements import masked_apart
from goldwatch.metrics.row import MEASURES

FLOATS = ("f2", "f4", "f8")
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


def close(got, want, scale, relative=1e-9):
    if math.isnan(want):
        return math.isnan(got)
    return got == want or abs(got - want) <= max(relative * abs(want), 1e-12 * scale)


def check(result, x, y):
    assert result.values["KullbackLeiblerDivergence"] >= 0.0
    assert_exact(result, Exact(x, y))


def run(x, y, metrics=MEASURES):
    return compare_blocks(lambda: [(x, y)], metrics)


def data(rng, dtype, n, kind):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.rand(n) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if kind == "wide":
            raw = rng.randint(0, 256, n * dtype.itemsize).astype(np.uint8)
            return raw.view(dtype).copy()
        return rng.randint(max(info.min, -100), 100, n).astype(dtype)
    if dtype.kind == "c":
        part = "f4" if dtype.itemsize == 8 else "f8"
        return (data(rng, part, n, kind) + 1j * data(rng, part, n, kind)).astype(dtype)
    v = rng.randn(n)
    if kind == "wide":
        span = {2: 3, 4: 25, 8: 30}[dtype.itemsize]
        v = v * 10.0 ** rng.uniform(-span, span, n)
    elif kind == "tiny":
        v = v * {2: 1e-6, 4: 1e-41, 8: 1e-30}[dtype.itemsize]
    elif kind == "offset":
        v = v * 1e-2 + 1000.0
    elif kind == "half_zero":
        v = np.where(rng.rand(n) < 0.5, 0.0, v)
    return v.astype(dtype)


def near(rng, x, dtype):
    """Another tensor close to x, as a golden is."""
    y = x if x.dtype.kind in "iubc" else x.astype("f8") * (1 + 1e-3 * rng.randn(x.size))
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        y = np.clip(
            np.nan_to_num(np.real(y).astype("f8")), float(info.min) / 2, float(info.max) / 2
        )
    return y.astype(dtype)


@pytest.mark.parametrize("kind", ["plain", "wide", "tiny", "offset", "half_zero"])
@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("golden", FLOATS)
def test_metrics_of_floats_are_accurate(target, golden, kind):
    rng = np.random.RandomState(len(kind) * 7 + int(target[1]) * 31 + int(golden[1]))
    for n in (1, 2, 7, 100):
        x = data(rng, target, n, kind)
        with np.errstate(over="ignore", invalid="ignore"):
            y = near(rng, x, golden)
        y[~np.isfinite(y)] = 1
        check(run(x, y), x, y)
        z = data(rng, golden, n, kind)
        check(run(x, z), x, z)


@pytest.mark.parametrize("kind", ["plain", "wide"])
@pytest.mark.parametrize("target", INTEGERS + ("f2", "f4", "f8", "?"))
@pytest.mark.parametrize("golden", INTEGERS)
def test_metrics_of_integers_are_accurate(target, golden, kind):
    rng = np.random.RandomState(5)
    for n in (1, 40):
        x, y = data(rng, target, n, kind), data(rng, golden, n, kind)
        check(run(x, y), x, y)
        check(run(y, x), y, x)


@pytest.mark.parametrize(
    "pair", [("c8", "c8"), ("c16", "c16"), ("c8", "c16"), ("c8", "f4"), ("f2", "c8"), ("i8", "c16")]
)
def test_metrics_of_complex_numbers_are_accurate(pair):
    rng = np.random.RandomState(6)
    x, y = data(rng, pair[0], 50, "plain"), data(rng, pair[1], 50, "plain")
    result = run(x, y)
    assert result.count == 100
    check(result, x, y)


@pytest.mark.parametrize("base", [2**53, 2**60, -(2**62), 2**63 - 1000, -(2**63)])
def test_int64_differences_are_exact(base):
    x = np.array([base + i for i in (0, 1, 3, 999)], np.int64)
    y = np.array([base + i for i in (1, 1, 5, 0)], np.int64)
    result = run(x, y)
    assert result.values["MaxAbsoluteError"] == 999
    assert result.values["MeanAbsoluteError"] == (1 + 0 + 2 + 999) / 4
    check(result, x, y)


@pytest.mark.parametrize("golden", ["i8", "u8"])
def test_the_first_integers_that_float64_cannot_hold_are_told_apart(golden):
    x, y = np.array([2**53, 2**53 + 1, 0], np.int64), np.array([2**53, 2**53, 0]).astype(golden)
    assert run(x, y, ("MaxAbsoluteError", "DifferentElements")).values == {
        "MaxAbsoluteError": 1.0,
        "DifferentElements": 1 / 3,
    }
    check(run(x, y), x, y)


def test_int64_and_uint64_differ_exactly():
    x = np.array([-(2**63), 2**63 - 1, 5], np.int64)
    y = np.array([2**64 - 1, 2**63 + 1, 2**63], np.uint64)
    result = run(x, y)
    assert result.values["MaxAbsoluteError"] == float(2**64 - 1 + 2**63)
    check(result, x, y)
    x, y = np.array([2**63 - 1, 7], np.int64), np.array([2**63 + 1, 7], np.uint64)
    assert run(x, y).values["MaxAbsoluteError"] == 2


def test_int64_against_float64_keeps_the_low_bits():
    x, y = np.array([2**60 + 1, -1, 0], np.int64), np.array([float(2**60), -1.000000001, 1e-9])
    assert run(x, y).values["MaxAbsoluteError"] == 1.0
    check(run(x, y), x, y)


def test_unsigned_differences_do_not_wrap_around():
    assert run(np.array([3], np.uint8), np.array([5], np.uint8)).values["MaxAbsoluteError"] == 2


@pytest.mark.parametrize(
    "magnitude", [1e-320, 1e-300, 1e-200, 1e-130, 1e-30, 1e30, 1e130, 1e200, 1e300]
)
def test_metrics_near_the_ends_of_float64s_range_are_accurate(magnitude):
    rng = np.random.RandomState(8)
    x = rng.randn(50) * magnitude
    y = x * (1 + 1e-3 * rng.randn(50)) if magnitude > 1e-310 else np.roll(x, 1)
    check(run(x, y), x, y)
    acc = Accumulator(MEASURES)
    for part in (slice(0, 20), slice(20, 50)):
        acc.update(x[part], y[part])
    acc.update(np.array([1e-5]), np.array([2e-5]))
    check(
        with_divergence(acc, [(x, y), (np.array([1e-5]), np.array([2e-5]))]),
        np.append(x, 1e-5),
        np.append(y, 2e-5),
    )


def with_divergence(acc, blocks):
    second = KLPass(acc)
    for x, y in blocks:
        second.update(x, y)
    return second.result()


def test_squares_beyond_float32s_range_are_summed_right():
    for magnitude in (1e-30, 1e22, 1e30):
        x = np.array([1, -2, 3, 4], np.float32) * np.float32(magnitude)
        y = x * np.float32(1.001)
        check(run(x, y), x, y)
        check(run(-x, x), -x, x)
    assert run(-x, x).values["CosineSimilarity"] == -1.0


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9, 1e12])
def test_a_small_spread_around_a_large_mean_is_accurate(offset):
    rng = np.random.RandomState(9)
    x, y = offset + rng.randn(200), offset + rng.randn(200)
    acc = Accumulator()
    for i in range(0, 200, 50):
        acc.update(x[i : i + 50], y[i : i + 50])
    want = Exact(x, y).values
    got = acc.result().values["StandardDeviation"]
    for side in ("target", "golden"):
        assert close(got[side]["std"], want["StandardDeviation"][side][1], 0.0)
        assert close(got[side]["mean"], want["StandardDeviation"][side][0], 0.0)


@pytest.mark.parametrize("step", [1e-2, 1e-4, 1e-6, 1e-8])
def test_divergence_of_nearly_equal_tensors_keeps_its_digits(step):
    rng = np.random.RandomState(10)
    x = rng.rand(300)
    y = x * (1 + step * rng.randn(300))
    want = float(divergence(paired(x, y)))
    got = run(x, y).values["KullbackLeiblerDivergence"]
    assert abs(got - want) <= 1e-6 * want + 1e-22


def test_the_divergence_is_right_where_one_side_is_constant():
    x = np.array([3.0, 3.0, 3.0, 3.0])
    y = np.array([1.0, 2.0, 3.0, 40.0])
    check(run(x, y), x, y)
    check(run(y, x), y, x)
    assert run(x, x + 5).values["KullbackLeiblerDivergence"] == 0.0


def test_the_divergence_of_a_skewed_tensor_is_accurate():
    x = np.zeros(3000, np.float32)
    x[7] = 1e4
    y = np.random.RandomState(3).rand(3000).astype("f4")
    check(run(x, y), x, y)


finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
finite16 = st.floats(width=16, allow_nan=False, allow_infinity=False)
finite64 = st.floats(min_value=-1e150, max_value=1e150, allow_nan=False)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(finite16, finite32), min_size=1, max_size=12))
def test_any_float16_against_any_float32_is_accurate(pairs):
    x, y = np.array([p[0] for p in pairs], np.float16), np.array([p[1] for p in pairs], np.float32)
    assume(not masked_apart(x, y).any())
    check(run(x, y), x, y)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(finite64, finite64), min_size=1, max_size=12))
def test_any_float64_values_give_accurate_metrics(pairs):
    x, y = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    assume(not masked_apart(x, y).any())
    check(run(x, y), x, y)


@pytest.mark.parametrize(
    ("x", "y"),
    [(3.381604657984812e58, 2.522115975746447e-96), (1e100, 1e100 * (1 + 2e-16)), (2e-96, 3e58)],
)
def test_distances_whose_squares_overflow_are_accurate(x, y):
    check(run(np.array([x]), np.array([y])), np.array([x]), np.array([y]))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)),
        min_size=1,
        max_size=12,
    )
)
def test_any_int64_against_any_uint64_is_accurate(pairs):
    x, y = np.array([p[0] for p in pairs], np.int64), np.array([p[1] for p in pairs], np.uint64)
    check(run(x, y), x, y)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(0, 2**31 - 1), st.data())
def test_any_partition_into_blocks_gives_the_same_metrics(n, seed, draw):
    rng = np.random.RandomState(seed)
    kind = draw.draw(st.sampled_from(["plain", "wide", "half_zero", "offset"]))
    x = data(rng, draw.draw(st.sampled_from(["f2", "f4", "f8", "i8"])), n, kind)
    y = data(rng, draw.draw(st.sampled_from(["f4", "f8"])), n, kind)
    cuts = sorted(draw.draw(st.lists(st.integers(0, n), max_size=4)))
    parts = [slice(a, b) for a, b in zip([0] + cuts, cuts + [n])]
    accumulators = []
    for part in parts:
        acc = Accumulator(MEASURES)
        acc.update(x[part], y[part])
        accumulators.append(acc)
    order = draw.draw(st.permutations(accumulators))
    whole = Accumulator(MEASURES)
    for acc in order:
        whole.merge(acc)
    seconds = []
    for part in parts:
        second = KLPass(whole.result())
        second.update(x[part], y[part])
        seconds.append(second)
    total = seconds[0]
    for second in seconds[1:]:
        total.merge(second)
    check(total.result(), x, y)


def fsum_reference(x, y):
    x, y = x.astype("f8"), y.astype("f8")
    n = x.size
    d = np.abs(x - y)
    counted = np.abs(y) > 2.220446e-16
    rel = d[counted] / np.abs(y[counted])
    p = np.maximum((x - x.min()) / (x.max() - x.min()), 1.1920929e-07)
    q = np.maximum((y - y.min()) / (y.max() - y.min()), 1.1920929e-07)
    p, q = p / math.fsum(p), q / math.fsum(q)
    xx, yy, dd = math.fsum(x * x), math.fsum(y * y), math.fsum(d * d)
    return {
        "CosineSimilarity": math.fsum(x * y) / math.sqrt(xx) / math.sqrt(yy),
        "MaxAbsoluteError": d.max(),
        "AccumulatedRelativeError": math.fsum(rel),
        "RelativeEuclideanDistance": math.sqrt(dd / yy),
        "KullbackLeiblerDivergence": math.fsum(p * np.log(p / q)),
        "MeanAbsoluteError": math.fsum(d) / n,
        "RootMeanSquareError": math.sqrt(dd / n),
        "MaxRelativeError": rel.max(),
        "MeanRelativeError": math.fsum(rel) / n,
    }


SIZES = [8191, 8193, 16385, 65536, 65537]
KINDS = ["plain", "half_zero", "offset"]


@pytest.mark.parametrize(
    "n, target, kind",
    [
        *itertools.product(SIZES, ["f2", "f4"], KINDS),
        (100003, "f2", "half_zero"),
        (1200001, "f2", "offset"),
        (1200001, "f4", "plain"),
    ],
)
def test_metrics_around_the_size_of_a_block_are_accurate(n, target, kind):
    rng = np.random.RandomState(n)
    y = data(rng, "f4", n, kind)
    x = (y * (1 + 1e-3 * rng.randn(n))).astype(target)
    got, want = run(x, y).values, fsum_reference(x, y)
    for name, value in want.items():
        assert close(got[name], value, 1.0 if name == "KullbackLeiblerDivergence" else 0.0), (
            name,
            got[name],
            value,
        )


def test_metrics_of_fifty_million_elements_are_accurate():
    """Float32 sums lose digits here: the known sums of a repeated block are the reference."""
    rng = np.random.RandomState(1)
    y = rng.rand(1 << 16).astype("f4") + np.float32(0.5)
    x = (y * np.float32(1.01)).astype("f2")
    times = 763
    got = compare_blocks(lambda: ((x, y) for _ in range(times))).values
    one = fsum_reference(x, y)
    for name, value in one.items():
        want = value * times if name == "AccumulatedRelativeError" else value
        assert close(got[name], want, 0.0), (name, got[name], want)
