"""Batch normalisation and Scale against onnxruntime, OpenCV and formulas."""

from __future__ import annotations

import numpy as np
import pytest
from operator_references import (
    arrays,
    assert_equals_onnxruntime,
    assert_error_matches_spread,
    assert_near,
    with_error,
)

from goldwatch.operators import Arithmetic, CannotCompute, Node, Value, compute


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X = tensor(0, 2, 3, 4, 5)
SCALE, OFFSET, MEAN = tensor(1, 3), tensor(2, 3), tensor(3, 3)
VARIANCE = np.square(tensor(4, 3)) + np.float32(0.1)


def channels(array):
    return array.reshape(1, 3, 1, 1)


def right(epsilon, scale=SCALE, offset=OFFSET):
    whitened = (X - channels(MEAN)) / np.sqrt(channels(VARIANCE).astype(np.float64) + epsilon)
    return whitened * channels(scale) + channels(offset)


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("epsilon", [None, 1e-3])
def test_onnx_batch_normalisation_equals_onnxruntime(opset, epsilon):
    entries = {} if epsilon is None else {"epsilon": epsilon}
    assert_equals_onnxruntime(
        "BatchNormalization", [X, SCALE, OFFSET, MEAN, VARIANCE], entries, opset
    )
    assert_equals_onnxruntime(
        "BatchNormalization", [X[:, :, 0, 0], SCALE, OFFSET, MEAN, VARIANCE], entries, opset
    )


def test_batch_normalisation_in_training_is_refused():
    inputs = [X, SCALE, OFFSET, MEAN, VARIANCE]
    nodes = [
        Node("onnx", "BatchNormalization", {"training_mode": 1}, version=15),
        Node("onnx", "BatchNormalization", version=6),
    ]
    for node in [*nodes, Node("tensorflow", "FusedBatchNormV3"), Node("ascend", "BatchNorm")]:
        with pytest.raises(CannotCompute, match="training"):
            compute(node, inputs)
    assert_near(
        arrays(Node("onnx", "BatchNormalization", {"is_test": 1}, version=6), inputs)[0],
        right(1e-5),
    )


@pytest.mark.parametrize("factor", [1.0, 250.0, 0.0])
def test_caffe_batch_norm_divides_by_its_scale_factor(factor):
    blobs = [
        MEAN * np.float32(factor),
        VARIANCE * np.float32(factor),
        np.array([factor], np.float32),
    ]
    made = arrays(Node("caffe", "BatchNorm", {"eps": 1e-3}), [X, *blobs])[0]
    if factor:
        assert_near(made, right(1e-3, np.ones(3), np.zeros(3)))
    else:
        assert_near(made, X / np.sqrt(1e-3))
    assert_near(arrays(Node("ascend", "BNInference", {"epsilon": 1e-3}), [X, *blobs])[0], made)


def test_caffe_batch_norm_uses_the_batchs_statistics_when_asked():
    made = arrays(Node("caffe", "BatchNorm", {"use_global_stats": False}), [X])[0]
    wide = X.astype(np.float64)
    assert_near(
        made,
        (wide - wide.mean((0, 2, 3), keepdims=True))
        / np.sqrt(wide.var((0, 2, 3), keepdims=True) + 1e-5),
    )


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_tensorflow_and_ascend_batch_normalisation_equals_the_formula(layout):
    x = np.moveaxis(X, 1, -1) if layout == "NHWC" else X
    wanted = np.moveaxis(right(1e-3), 1, -1) if layout == "NHWC" else right(1e-3)
    entries = {"is_training": False, "epsilon": 1e-3, "data_format": layout}
    for dialect, kind in (
        ("tensorflow", "FusedBatchNormV3"),
        ("tensorflow", "FusedBatchNorm"),
        ("ascend", "BatchNorm"),
    ):
        made = arrays(Node(dialect, kind, entries), [x, SCALE, OFFSET, MEAN, VARIANCE])
        assert_near(made[0], wanted)
        np.testing.assert_array_equal(made[1], MEAN)
    node = Node("ascend", "BNInfer", {"epsilon": 1e-3}, layouts=(layout,))
    assert_near(arrays(node, [x, SCALE, OFFSET, MEAN, VARIANCE])[0], wanted)
    node = Node("ascend", "BNInference", {"epsilon": 1e-3}, layouts=(layout,))
    one = np.ones(1, np.float32)
    assert_near(arrays(node, [x, MEAN, VARIANCE, one, SCALE, OFFSET])[0], wanted)
    with pytest.raises(CannotCompute, match="momentum"):
        compute(node, [x, MEAN, VARIANCE, 2 * one, SCALE, OFFSET])
    # What the host has folded: the negative mean, and the reciprocal of the deviation.
    folded = [-MEAN, (1 / np.sqrt(VARIANCE + 1e-3)).astype(np.float32), SCALE, OFFSET]
    assert_near(arrays(Node("ascend", "BNInferenceD", layouts=(layout,)), [x, *folded])[0], wanted)
    plain = arrays(Node("ascend", "BNInferenceD", layouts=(layout,)), [x, *folded[:2]])[0]
    assert_near(
        plain if layout == "NCHW" else np.moveaxis(plain, -1, 1),
        right(1e-3, np.ones(3), np.zeros(3)),
    )


@pytest.mark.parametrize("dialect", ["caffe", "ascend"])
def test_scale_multiplies_channels_and_adds_the_bias(dialect):
    entries = {"bias_term": True}
    assert_near(
        arrays(Node(dialect, "Scale", entries), [X, SCALE, OFFSET])[0],
        X * channels(SCALE) + channels(OFFSET),
    )
    assert_near(arrays(Node(dialect, "Scale"), [X, SCALE])[0], X * channels(SCALE))
    assert_near(
        arrays(Node(dialect, "Scale", {"axis": 2}), [X, tensor(1, 4)])[0],
        X * tensor(1, 4).reshape(4, 1),
    )
    assert_near(
        arrays(Node(dialect, "Scale", {"axis": -1}), [X, tensor(1, 5)])[0], X * tensor(1, 5)
    )
    assert_near(
        arrays(Node(dialect, "Scale", {"axis": 0}), [X, tensor(1, 2, 3)])[0],
        X * tensor(1, 2, 3)[:, :, None, None],
    )
    assert_near(arrays(Node(dialect, "Scale"), [X, channels(SCALE)])[0], X * channels(SCALE))
    if dialect == "caffe":
        with pytest.raises(CannotCompute, match="bias"):
            compute(Node("caffe", "Scale", entries), [X, SCALE])


def test_input_errors_reach_the_output_of_batch_normalisation():
    generator = np.random.default_rng(5)
    x = with_error(X, 1e-2)
    for scale, offset in ((SCALE, OFFSET), (with_error(SCALE), with_error(OFFSET))):
        inputs = [x, scale, offset, MEAN, VARIANCE]
        assert_error_matches_spread(Node("onnx", "BatchNormalization"), inputs, generator)
        assert_error_matches_spread(Node("caffe", "Scale"), [x, scale, offset], generator)
    statistics = [with_error(MEAN, 1e-3), with_error(VARIANCE, 1e-3)]
    assert_error_matches_spread(
        Node("onnx", "BatchNormalization"), [X, SCALE, OFFSET, *statistics], generator
    )
    assert_error_matches_spread(Node("caffe", "BatchNorm"), [x, *statistics, np.ones(1)], generator)


def test_roundings_of_folded_factors_count_though_they_cancel():
    # x is near a mean far from zero: x · a and b, each rounded to float16, cancel.
    generator = np.random.default_rng(6)
    x = (100.0 + generator.standard_normal((1, 1, 50, 50))).astype(np.float16)
    inputs = [x, *(np.array([value], np.float32) for value in (0.37, 0.0, 100.0, 1.0))]
    made = compute(Node("onnx", "BatchNormalization"), inputs, Arithmetic(intermediate=2.0**-11))[0]
    a = np.float16(0.37 / np.sqrt(1 + 1e-5))
    device = ((x * a).astype(np.float16) + np.float16(-100.0 * a)).astype(np.float64)
    gone, said = (np.sqrt(np.mean(np.square(array))) for array in (device - made.array, made.error))
    assert said / 3 < gone < 3 * said
    # In float32 nothing of it is seen.
    assert compute(Node("onnx", "BatchNormalization"), inputs)[0].error.max() < 1e-4


def test_float32_roundings_of_folded_factors_are_estimated():
    # The offset nearly is the mean times the factor: what is left of both is coarse.
    generator = np.random.default_rng(7)
    factor, center = (generator.uniform(1, 2, 2000).astype(np.float32) for _ in range(2))
    offset = (factor * center).astype(np.float32) + np.float32(1e-6)
    x = np.zeros((1, 2000), np.float32)
    inputs = [x, factor, offset, center, np.ones(2000, np.float32)]
    made = compute(Node("onnx", "BatchNormalization", {"epsilon": 0.0}), inputs)[0]
    device = offset - (center * factor).astype(np.float32)
    gone, said = (
        np.sqrt(np.mean(np.square(array, dtype=np.float64)))
        for array in (device - made.array[0], made.error)
    )
    assert said / 3 < gone < 3 * said


def test_a_scale_of_exact_values_has_no_error():
    made = compute(Node("caffe", "Scale"), [Value(X), SCALE])[0]
    assert made.error is None
