"""Corner cases of the metrics: zeros, NaN and Inf, bool, empty tensors, strides, merging,
pickling.
"""

from __future__ import annotations

import math
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.base.errors import NotComparable, UsageError
from goldwatch.metrics.accumulator import Accumulator, overflow
from goldwatch.metrics.compare_blocks import KLPass, compare_blocks
from goldwatch.metrics.row import BOOL_METRICS, FAIL, METRICS, PASS


def run(x, y, metrics=METRICS):
    return compare_blocks(lambda: [(np.asarray(x), np.asarray(y))], metrics)


def all_nan(values, but=()):
    return all(v is None or math.isnan(v) for name, v in values.items() if name not in but)


def test_metrics_come_in_the_order_asked_for_and_unknown_names_are_refused():
    assert tuple(run([1.0], [2.0]).values) == METRICS
    chosen = ("MeanRelativeError", "CosineSimilarity")
    assert tuple(run([1.0], [2.0], chosen).values) == chosen
    assert run([1.0, 2.0], [2.0, 2.0], chosen).values["MeanRelativeError"] == 0.25
    with pytest.raises(UsageError) as error:
        Accumulator(["Cosine"])
    assert "CosineSimilarity" in error.value.hint


def test_zero_elements_pass_with_a_note():
    for make in (list, lambda: [(np.zeros((0, 3), "f2"), np.zeros((0, 3), "f4"))]):
        result = compare_blocks(make)
        assert (
            result.outcome == PASS
            and result.count == 0
            and result.notes == ["zero elements on both sides"]
        )
        assert all_nan(result.values)


def test_all_zero_on_both_sides_gives_perfect_metrics():
    result = run(np.zeros(5, "f2"), np.zeros(5, "f4"))
    assert result.values["CosineSimilarity"] == 1.0
    assert result.values["RelativeEuclideanDistance"] == 0.0
    assert result.values["KullbackLeiblerDivergence"] == 0.0
    assert result.outcome is None and result.identical
    assert not result.reasons


def test_all_zero_golden_fails_with_a_reason():
    result = run(np.array([0, 2], "f2"), np.zeros(2, "f4"))
    assert result.outcome == FAIL
    assert math.isnan(result.values["CosineSimilarity"])
    assert result.values["RelativeEuclideanDistance"] == math.inf
    assert (
        result.values["MaxRelativeError"]
        == result.values["AccumulatedRelativeError"]
        == result.values["MeanRelativeError"]
        == 0.0
    )
    assert result.values["MaxAbsoluteError"] == 2.0
    assert "golden is all zero" in result.reasons[0]


def test_all_zero_target_has_no_cosine():
    result = run(np.zeros(2, "f2"), np.array([0, 2], "f4"))
    assert (
        math.isnan(result.values["CosineSimilarity"]) and "target is all zero" in result.reasons[0]
    )
    assert result.values["RelativeEuclideanDistance"] == 1.0
    assert result.outcome is None


def test_identical_tensors_give_perfect_metrics():
    x = np.random.RandomState(0).randn(70000).astype("f2")
    result = run(x, x.astype("f4"))
    assert result.identical
    assert result.values["CosineSimilarity"] == 1.0
    assert result.values["KullbackLeiblerDivergence"] == 0.0
    assert result.values["MaxAbsoluteError"] == result.values["RelativeEuclideanDistance"] == 0.0


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("n", [6, 70000])
def test_nan_and_inf_at_the_same_positions_are_left_out_of_the_metrics(dtype, n):
    rng = np.random.RandomState(1)
    x = rng.randn(n).astype(dtype)
    y = rng.randn(n).astype("f4")
    for i, value in ((1, np.nan), (3, np.inf), (5, -np.inf)):
        x[i] = y[i] = value
    good = np.isfinite(x)
    result, rest = run(x, y), run(x[good], y[good])
    assert result.positions_agree and result.outcome is None
    assert result.nan == {"target": 1, "golden": 1} and result.inf == {"target": 2, "golden": 2}
    assert result.count == n and result.finite_count == n - 3
    assert "1 NaN and 2 Inf" in result.notes[0] and not result.reasons
    for name in METRICS:
        if name == "StandardDeviation":
            assert result.values[name]["golden"]["std"] == pytest.approx(
                rest.values[name]["golden"]["std"], rel=1e-12
            )
        else:
            assert result.values[name] == pytest.approx(rest.values[name], rel=1e-12)


@pytest.mark.parametrize(
    "x, y, max_abs",
    [
        ([1, np.nan], [1, 2], math.nan),
        ([1, 2], [1, np.nan], math.nan),
        ([1, np.inf], [1, 2], math.inf),
        ([1, 2], [-np.inf, 2], math.inf),
        ([1, np.inf], [1, -np.inf], math.inf),
        ([np.nan, 1], [1, np.nan], math.nan),
    ],
)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_nan_and_inf_at_different_positions_fail(x, y, max_abs, dtype):
    x, y = np.array(x, dtype), np.array(y, "f4")
    result = run(x, y)
    assert result.outcome == FAIL and not result.positions_agree
    assert all_nan(result.values, but=("MaxAbsoluteError",))
    assert (
        result.values["MaxAbsoluteError"] == max_abs
        or math.isnan(max_abs)
        and math.isnan(result.values["MaxAbsoluteError"])
    )
    text = "target %d NaN, %d Inf; golden %d NaN, %d Inf" % (
        np.isnan(x).sum(),
        np.isinf(x).sum(),
        np.isnan(y).sum(),
        np.isinf(y).sum(),
    )
    assert text in result.reasons[0]


def test_one_nan_among_many_elements_fails():
    x = np.ones(100000, "f2")
    y = np.ones(100000, "f4")
    x[77777] = np.nan
    assert run(x, y).outcome == FAIL
    assert all_nan(run(x, y).values)


def test_tensors_without_finite_values_pass_with_a_note():
    result = run(np.full(3, np.nan, "f2"), np.full(3, np.nan, "f4"))
    assert result.outcome == PASS and result.finite_count == 0 and result.notes
    assert not result.identical


def test_nan_against_an_integer_golden_fails():
    assert run(np.array([np.nan, 1], "f2"), np.array([0, 1], "i4")).outcome == FAIL


def test_bool_against_bool_has_two_metrics():
    result = run(np.array([True, False, True, True]), np.array([True, True, True, False]))
    assert result.values["CosineSimilarity"] == pytest.approx(2 / 3, rel=1e-12)
    assert result.values["RelativeEuclideanDistance"] == pytest.approx(math.sqrt(2 / 3), rel=1e-12)
    assert all_nan(result.values, but=BOOL_METRICS)
    assert set(result.not_applicable) == set(METRICS) - set(BOOL_METRICS)
    assert "bool" in result.reasons[0] and not result.needs_second_pass


def test_bool_against_another_type_counts_as_zero_and_one():
    result = run(np.array([True, False]), np.array([1.0, 0.5], "f4"))
    assert result.values["MaxAbsoluteError"] == 0.5 and not result.not_applicable
    assert result.values["MeanRelativeError"] == 0.5


def test_relative_errors_ignore_golden_elements_up_to_the_floor():
    y = np.array([2.220446e-16, -2.220446e-16, 2.3e-16, 0.0, 4.0])
    x = np.array([1.0, 1.0, 4.6e-16, 7.0, 5.0])
    values = run(x, y).values
    assert values["AccumulatedRelativeError"] == pytest.approx(1.25, rel=1e-12)
    assert values["MeanRelativeError"] == pytest.approx(0.25, rel=1e-12)
    assert values["MaxRelativeError"] == pytest.approx(1.0, rel=1e-12)


def test_tensors_of_different_shapes_are_not_compared():
    with pytest.raises(NotComparable) as error:
        run(np.zeros((2, 3)), np.zeros((3, 2)))
    assert "[2, 3]" in str(error.value) and "[3, 2]" in str(error.value)


@pytest.mark.parametrize("dtype", ["O", "U3", "M8[s]", "V4"])
def test_types_without_numbers_are_not_compared(dtype):
    with pytest.raises(NotComparable):
        run(np.zeros(2, dtype), np.zeros(2, "f4"))


def test_strides_and_byte_order_do_not_change_metrics():
    rng = np.random.RandomState(2)
    x = rng.randn(30, 40, 16).astype("f2")
    y = np.ascontiguousarray(rng.randn(16, 30, 40).astype("f4"))
    want = run(np.ascontiguousarray(x.transpose(2, 0, 1)), y).values
    views = [
        (x.transpose(2, 0, 1), y),
        (x.transpose(2, 0, 1).astype(">f2"), y.astype(">f4")),
        (np.asfortranarray(x.transpose(2, 0, 1)), np.asfortranarray(y)),
        (x.transpose(2, 0, 1)[::-1, :, ::-1], y[::-1, :, ::-1]),
        (x.transpose(2, 0, 1).astype("f8"), y),
    ]
    for a, b in views:
        got = run(a, b).values
        for name in METRICS:
            if name != "StandardDeviation":
                assert got[name] == pytest.approx(want[name], rel=1e-12), name


def test_long_axes_and_scalars_are_compared():
    x, y = np.ones((2, 70001), "f2")[:, ::1].T, np.full((70001, 2), 2, "f4")
    assert run(x, y).values["MeanAbsoluteError"] == 1.0
    wide = np.ones((2, 140002), "f4")[:, ::2]
    assert run(wide, wide + 1).values["MeanAbsoluteError"] == 1.0
    assert run(np.float16(5), np.float32(-7)).values["CosineSimilarity"] == -1.0


def test_unaligned_and_read_only_arrays_give_the_same_metrics():
    rng = np.random.RandomState(7)
    for dtype in ("f2", "f4", "f8", "i8", "c8"):
        x, y = rng.randn(40000).astype(dtype), rng.randn(40000)
        raw = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(dtype)
        assert not raw.flags.aligned or x.itemsize == 1
        assert run(raw, y).values == run(x, y).values


def test_compared_arrays_are_not_changed():
    rng = np.random.RandomState(3)
    for dtype in ("f2", "f4", "f8", "i8", "c16"):
        x, y = rng.randn(500).astype(dtype), rng.randn(500)
        before = x.copy(), y.copy()
        x.flags.writeable = y.flags.writeable = False
        run(x, y)
        assert (x == before[0]).all() and (y == before[1]).all()


def test_blocks_may_reuse_one_buffer():
    rng = np.random.RandomState(4)
    x, y = rng.randn(4, 1000), rng.randn(4, 1000)
    bx, by = np.empty(1000), np.empty(1000)

    def blocks():
        for i in range(4):
            bx[:], by[:] = x[i], y[i]
            yield bx, by

    kl = "KullbackLeiblerDivergence"
    assert compare_blocks(blocks).values[kl] == pytest.approx(run(x, y).values[kl], rel=1e-12)


def test_blocks_are_read_twice_only_when_the_divergence_is_asked_for():
    x, y = np.zeros((3, 2000000), "f2"), np.ones((3, 2000000), "f4")
    x[0, 0] = y[0, 1] = 3
    reads = []

    def blocks():
        reads.append(1)
        return zip(x, y)

    compare_blocks(blocks, ["CosineSimilarity"])
    assert len(reads) == 1
    compare_blocks(blocks)
    assert len(reads) == 3
    y[:] = x
    reads.clear()
    compare_blocks(blocks)
    assert len(reads) == 1


def test_pickled_accumulators_merge_to_the_same_metrics():
    rng = np.random.RandomState(5)
    x, y = rng.randn(1000).astype("f2"), rng.randn(1000).astype("f4")
    parts = []
    for half in (slice(0, 400), slice(400, 1000)):
        acc = Accumulator()
        acc.update(x[half], y[half])
        parts.append(pickle.loads(pickle.dumps(acc)))
    parts[0].merge(parts[1])
    first = pickle.loads(pickle.dumps(parts[0].result()))
    assert first.needs_second_pass
    seconds = []
    for half in (slice(0, 400), slice(400, 1000)):
        second = KLPass(first)
        second.update(x[half], y[half])
        seconds.append(pickle.loads(pickle.dumps(second)))
    seconds[0].merge(seconds[1])
    got, want = seconds[0].result(), run(x, y)
    assert not got.needs_second_pass
    for name in METRICS:
        if name != "StandardDeviation":
            assert got.values[name] == pytest.approx(want.values[name], rel=1e-12)


def test_merging_keeps_common_and_differing_nan_apart():
    a, b = Accumulator(), Accumulator()
    a.update(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]))
    b.update(np.array([np.inf, 1.0]), np.array([2.0, 1.0]))
    a.merge(b)
    result = a.result()
    assert (
        result.outcome == FAIL
        and result.values["MaxAbsoluteError"] == math.inf
        and result.count == 4
    )
    a = Accumulator()
    a.merge(b)
    assert a.result().values["MaxAbsoluteError"] == math.inf


def test_threads_compute_the_same_metrics_as_one():
    rng = np.random.RandomState(6)
    pairs = [(rng.randn(200000).astype("f2"), rng.randn(200000).astype("f4")) for _ in range(4)]
    want = [run(*pair).values for pair in pairs]
    got = [None] * 4

    def work(i):
        got[i] = run(*pairs[i]).values

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == want


@pytest.mark.parametrize(
    "values, dtype, expected",
    [
        ([1, 65503], "f2", False),  # rounds to 65504
        ([1, 65472], "f2", False),
        ([1, -65504], "f2", True),
        ([1, 65504], "f2", True),
        ([1, np.nan], "f2", True),
        ([1, -np.inf], "f2", True),
        ([], "f2", False),
        ([1, 3e38], "f4", False),
        ([1, np.inf], "f4", True),
        ([1, -np.nan], "f8", True),
        ([1, np.nan], "c8", True),
        ([1, 2], "c8", False),
        ([127], "i1", None),
        ([1], "?", None),
    ],
)
def test_overflow_is_seen_at_the_largest_values_of_a_type(values, dtype, expected):
    x = np.array(values, dtype)
    if values == [1, 65503]:
        expected = bool(x[1] == 65504)
    assert overflow(x) is expected
    assert overflow(x.astype(x.dtype.newbyteorder(">"))) is expected
    assert overflow(np.repeat(x, 2)[::2]) is expected
    golden = np.nan_to_num(x).astype(x.dtype)
    assert run(x, golden).overflow is (expected if expected is None or x.size else False)


def test_every_float16_is_loaded_exactly():
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    result = run(x, x.astype(np.float64))
    assert result.identical and result.overflow is True
    for value in (6e-8, 65504, -65504, 0.0):
        one = np.array([value], np.float16)
        assert run(one, one.astype("f8")).values["MaxAbsoluteError"] == 0.0


SPECIAL = [0.0, 1.0, -2.5, math.nan, math.inf, -math.inf]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(SPECIAL), st.sampled_from(SPECIAL)), max_size=8),
    st.integers(0, 8),
)
def test_any_mixture_of_nan_inf_and_numbers_is_judged_by_position(pairs, cut):
    x, y = np.array([p[0] for p in pairs], "f2"), np.array([p[1] for p in pairs], "f4")
    result = compare_blocks(lambda: [(x[:cut], y[:cut]), (x[cut:], y[cut:])])
    agree = all(
        a == b or (math.isnan(a) and math.isnan(b))
        for a, b in pairs
        if not (math.isfinite(a) and math.isfinite(b))
    )
    assert result.positions_agree == agree
    assert result.nan == {"target": int(np.isnan(x).sum()), "golden": int(np.isnan(y).sum())}
    assert result.inf == {"target": int(np.isinf(x).sum()), "golden": int(np.isinf(y).sum())}
    if not agree:
        assert (
            result.outcome == FAIL
            and all_nan(result.values, but=("MaxAbsoluteError",))
            and result.reasons
        )
    elif result.finite_count:
        finite = np.isfinite(x)
        assert result.values["MaxAbsoluteError"] == np.abs(x[finite].astype("f8") - y[finite]).max()
