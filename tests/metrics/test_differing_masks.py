"""Elements that both sides mask by different numbers are left out; other large values are not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from goldwatch.dumps.golden_set import GoldenEntry
from goldwatch.judging.limits import Limits
from goldwatch.judging.row_judge import RowJudge
from goldwatch.metrics.accumulator import Accumulator
from goldwatch.metrics.compare_blocks import KLPass, compare_blocks
from goldwatch.metrics.compare_pair import compare_tensors
from goldwatch.metrics.pair_task import PairTask, Settings
from goldwatch.metrics.row import MEASURES, METRICS, PASS, Row
from goldwatch.metrics.worst_slice import slice_axes
from goldwatch.tensors.tensor import Tensor

SCORES = np.random.RandomState(3).standard_normal((2, 3, 8, 8)).astype(np.float32)
HIDDEN = np.triu(np.ones((8, 8), bool), 1)
LOWEST = float(np.finfo(np.float32).min)


def judged(x, y):
    settings = Settings(MEASURES, False, RowJudge(Limits()))
    task = PairTask(
        Row(index=0, op="a", op_type="Softmax", tensor="a:output:0", kind="output", verdict=PASS),
        Tensor.from_array(x),
        GoldenEntry("", "", "", 0, 0, "npy"),
    )
    return compare_tensors(task, Tensor.from_array(y), None, settings)


def masked(number, dtype, values=SCORES):
    return np.where(HIDDEN, dtype(number), values.astype(dtype))


@pytest.mark.parametrize("target", [(-65504, np.float16), (-65504, np.float32), (-1e9, np.float32)])
@pytest.mark.parametrize("golden", [LOWEST, -np.inf])
def test_elements_masked_on_both_sides_are_left_out(target, golden):
    row = judged(masked(*target), masked(golden, np.float32))
    assert (
        row.verdict == "pass"
        and "168 elements are masked on both sides and left out (target " in row.reason
    )
    rest = compare_blocks(lambda: [(SCORES[..., ~HIDDEN].astype(target[1]), SCORES[..., ~HIDDEN])])
    for name in METRICS:
        if name != "StandardDeviation":
            assert row.metrics[name] == pytest.approx(rest.values[name], rel=1e-6, abs=1e-12), name


@pytest.mark.parametrize("target, golden", [(-65504, -1e9), (-np.inf, -1e9), (-65504, -1e9 - 1e9)])
def test_a_golden_mask_that_float16_cannot_hold_passes(target, golden):
    assert judged(masked(target, np.float16), masked(golden, np.float32)).verdict == "pass"


def test_wrong_scores_do_not_hide_behind_masks():
    wrong = SCORES.copy()
    wrong[:, 1, 5] = 0
    row = judged(masked(-65504, np.float16, wrong), masked(LOWEST, np.float32))
    assert row.verdict == "fail" and row.worst_slice is not None


def test_a_mask_on_one_side_only_fails():
    x = masked(-65504, np.float16)
    x[0, 0, 0, 1] = 0.5
    assert judged(x, masked(LOWEST, np.float32)).verdict == "fail"
    x = masked(-65504, np.float16)
    x[0, 0, 1, 0] = -65504
    assert judged(x, masked(LOWEST, np.float32)).verdict == "fail"


def test_a_mask_tensor_itself_passes_where_both_sides_mask():
    zeros = np.zeros_like(SCORES)
    assert (
        judged(masked(-65504, np.float16, zeros), masked(LOWEST, np.float32, zeros)).verdict
        == "pass"
    )
    row = judged(np.full((4, 4), -65504, np.float16), np.full((4, 4), -np.inf, np.float32))
    assert (
        row.verdict == "pass"
        and row.warning == "nothing_finite"
        and "nothing was compared" in row.reason
    )


@pytest.mark.parametrize(
    "x, y",
    [
        ([0.5, -np.inf], [0.5, -70000.0]),
        ([0.5, -65504.0], [0.5, -2e6]),
        ([-65504.0], [-1e9]),
        ([0.5, -1e9], [0.5, -2e9]),
        ([20000.0, -65504.0], [20000.0, -3.4e38]),
        ([0.5, np.inf], [0.5, 3.4e38]),
        ([0.5, -np.inf], [0.5, np.inf]),
    ],
    ids=[
        "overflow",
        "saturation",
        "one value",
        "two values",
        "not far below the rest",
        "not negative",
        "other sign",
    ],
)
def test_values_that_only_look_like_masks_fail(x, y):
    assert judged(np.array(x, np.float32), np.array(y, np.float32)).verdict == "fail"


def test_masked_blocks_merge_in_any_order():
    x, y = masked(-65504, np.float16), masked(LOWEST, np.float32)
    whole = compare_blocks(lambda: [(x, y)], MEASURES)
    parts = [Accumulator(MEASURES) for _ in range(4)]
    blocks = [(x[..., row, :], y[..., row, :]) for row in (6, 0, 7, 3, 1, 2, 5, 4)]
    for number, block in enumerate(blocks):
        parts[number % 4].update(*block)
    for part in parts[1:]:
        parts[0].merge(part)
    second = KLPass(parts[0])
    for block in blocks:
        second.update(*block)
    for name, value in second.result().values.items():
        if isinstance(value, float) and not math.isnan(value):
            assert value == pytest.approx(whole.values[name], rel=1e-9), name


def test_masked_elements_are_left_out_of_slices():
    x, y = masked(-65504, np.float16), masked(-1e9, np.float32)
    y[1, 2, 4] *= 1.5
    axes = slice_axes(y.shape)
    sums = Accumulator(MEASURES, axes)
    strides = tuple(stride // y.itemsize for stride in y.strides)
    sums.update(x, y, 0, strides)
    seen = np.where(HIDDEN, 0, y.astype(np.float64)), np.where(HIDDEN, 0, x.astype(np.float64))
    worst = 0.0
    for axis in range(4):
        others = tuple(number for number in range(4) if number != axis)
        norms = np.sqrt((seen[0] ** 2).sum(others))
        filled = norms[
            np.moveaxis(~HIDDEN[None, None] & np.ones(y.shape, bool), axis, 0)
            .reshape(y.shape[axis], -1)
            .any(1)
        ]
        worst = max(
            worst,
            (
                np.sqrt(((seen[0] - seen[1]) ** 2).sum(others)) / np.maximum(norms, filled.mean())
            ).max(),
        )
    assert sums.result().values["WorstSliceDistance"] == pytest.approx(worst, rel=1e-9)
