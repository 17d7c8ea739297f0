"""Softmax against onnxruntime, and its errors."""

from __future__ import annotations

import caffe_formulas
import numpy as np
import pytest
from operator_references import (
    EXACT,
    arrays,
    assert_equals_onnxruntime,
    assert_error_matches_spread,
    assert_near,
)

from goldwatch.operators import Arithmetic, CannotCompute, Node, Value, compute


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# Opset 1 has no negative axes.
AXES = [
    (opset, axis)
    for opset in (1, 11, 12, 13)
    for axis in (None, 0, 1, 2, -1)
    if (opset, axis) != (1, -1)
]


@pytest.mark.parametrize("opset, axis", AXES)
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_onnx_softmax_equals_onnxruntime(kind, opset, axis):
    assert_equals_onnxruntime(
        kind, [3 * tensor(0, 2, 3, 4)], {} if axis is None else {"axis": axis}, opset
    )


def test_softmax_without_opset_is_computed_on_the_last_axis_only():
    x = tensor(0, 2, 3, 4)
    assert_near(arrays(Node("onnx", "Softmax", {"axis": 2}), [x])[0], caffe_formulas.softmax(x, 2))
    with pytest.raises(CannotCompute, match="opset"):
        compute(Node("onnx", "Softmax", {"axis": 1}), [x])


@pytest.mark.parametrize(
    "node, axis",
    [
        (Node("caffe", "Softmax"), 1),
        (Node("caffe", "Softmax", {"axis": -1}), 2),
        (Node("tensorflow", "Softmax"), 2),
        (Node("ascend", "SoftmaxV2"), 2),
        (Node("ascend", "SoftmaxV2", {"axes": [1]}), 1),
        (Node("ascend", "SoftmaxV2", {"axes": [1, 2]}), (1, 2)),
    ],
)
def test_softmax_of_other_dialects_equals_the_formula(node, axis):
    x = tensor(0, 2, 3, 4)
    assert_near(arrays(node, [x])[0], caffe_formulas.softmax(x, axis))
    if node.type == "SoftmaxV2":
        logarithm = arrays(Node("ascend", "LogSoftmaxV2", node.attributes), [x])[0]
        assert_near(logarithm, np.log(caffe_formulas.softmax(x, axis)))


def test_softmax_of_an_axis_that_does_not_exist_is_refused():
    with pytest.raises(CannotCompute, match="fit"):
        compute(Node("caffe", "Softmax", {"axis": 3}), [tensor(0, 2, 3)])


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("peak", [0.0, 3.0, 12.0])
def test_input_errors_reach_the_output_of_softmax(kind, peak):
    generator = np.random.default_rng(3)
    x = generator.standard_normal((6, 20))
    x[:, 4] += peak
    assert_error_matches_spread(
        Node("onnx", kind, version=13), [Value(x, np.full(x.shape, 1e-3))], generator, floor=1e-12
    )
    # Only one is not known well.
    own = np.zeros(x.shape)
    own[:, 7] = 1e-3
    assert_error_matches_spread(
        Node("onnx", kind, version=13), [Value(x, own)], generator, floor=1e-12
    )


def test_a_softmax_output_near_1_has_a_small_error():
    x = np.zeros((1, 10))
    x[0, 0] = 15.0
    made = compute(Node("onnx", "Softmax", version=13), [Value(x, np.full(x.shape, 0.01))], EXACT)[
        0
    ]
    # The largest errs as far as what it leaves to the others does, not by one per cent.
    assert made.array[0, 0] > 0.99999 and made.error[0, 0] < 1e-7
    np.testing.assert_allclose(made.error[0, 1:], 0.01 * made.array[0, 1:] * np.sqrt(2), rtol=0.02)


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_float16_roundings_between_steps_are_estimated(kind):
    # A device that hands float16 from step to step.
    def half(array):
        return np.asarray(array).astype(np.float16).astype(np.float64)

    x = half(np.random.default_rng(4).standard_normal((200, 32)) * 3)
    less = half(x - x.max(1, keepdims=True))
    exponentials = half(np.exp(less))
    total = half(exponentials.sum(1, keepdims=True))
    device = exponentials / total if kind == "Softmax" else less - half(np.log(total))
    made = compute(Node("onnx", kind, version=13), [x], Arithmetic(intermediate=2.0**-11))[0]
    gone, said = (np.sqrt(np.mean(np.square(array))) for array in (device - made.array, made.error))
    assert said / 3 < gone < 3 * said


def test_softmax_of_inf_and_nan_gives_nan_where_it_should():
    x = np.array([[1.0, np.inf, 0.0], [1.0, -np.inf, 0.0], [np.nan, 1.0, 1.0]])
    made = compute(Node("onnx", "Softmax", version=13), [x])[0].array
    assert np.isnan(made[0]).all() and np.isnan(made[2]).all()
    np.testing.assert_allclose(made[1], [np.e / (1 + np.e), 0.0, 1 / (1 + np.e)])
