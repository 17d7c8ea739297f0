"""Which boxes stay, against onnxruntime; nothing is said where the choice is open."""

from __future__ import annotations

import numpy as np
import pytest
from operator_references import run_onnxruntime

from goldwatch.operators import Arithmetic, CannotCompute, Node, Value, compute


def given(seed):
    random = np.random.default_rng(seed)
    boxes = random.uniform(0, 1, (2, 30, 4)).astype(np.float32)
    return boxes, random.uniform(0, 1, (2, 3, 30)).astype(np.float32)


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("limits", [(30, 0.4, 0.2), (4, 0.1, 0.5), (5, 0.6, 0.0), (0, 0.5, 0.0)])
@pytest.mark.parametrize("seed", range(3))
def test_boxes_that_stay_equal_onnxruntime(seed, limits, center):
    most, overlap, least = limits
    inputs = [*given(seed), np.array([most]), np.float32([overlap]), np.float32([least])]
    attributes = {"center_point_box": center}
    (right,) = run_onnxruntime("NonMaxSuppression", inputs, attributes, 11)
    (made,) = compute(Node("onnx", "NonMaxSuppression", attributes), inputs)
    np.testing.assert_array_equal(made.array, right)


@pytest.mark.parametrize(
    "scores, overlap, least, reason",
    [
        ([0.9, 0.9], 0.5, 0.0, "same score"),
        ([0.9, 0.8], 1 / 3, 0.0, "overlap is at its threshold"),
        ([0.9, 0.8], 0.5, 0.8, "at its threshold"),
        ([0.9, np.nan], 0.5, 0.0, "NaN"),
    ],
)
def test_a_choice_that_roundings_decide_is_open(scores, overlap, least, reason):
    boxes = np.float32([[[0, 0, 1, 1], [0, 0.5, 1, 1.5]]])
    inputs = [boxes, np.float32([[scores]]), np.array([2]), np.float32([overlap, 0])[:1]]
    node = Node("onnx", "NonMaxSuppression")
    with pytest.raises(CannotCompute, match=reason):
        compute(node, [*inputs, np.float32([least])])


def test_scores_that_a_coarser_arithmetic_takes_as_equal_leave_the_choice_open():
    boxes = np.float32([[[0, 0, 1, 1], [2, 2, 3, 3]]])
    inputs = [boxes, np.float32([[[0.9, 0.8999]]]), np.array([2]), np.float32([0.5])]
    node = Node("onnx", "NonMaxSuppression")
    assert compute(node, inputs)[0].array.tolist() == [[0, 0, 0], [0, 0, 1]]
    with pytest.raises(CannotCompute, match="same score"):
        compute(node, inputs, Arithmetic(intermediate=2.0**-11))
    with pytest.raises(CannotCompute, match="inputs may be off"):
        compute(node, [Value(boxes, np.full(boxes.shape, 1e-3)), *inputs[1:]])
