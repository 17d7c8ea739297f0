"""Normalisations by own statistics against onnxruntime, OpenCV and formulas, and their errors."""

from __future__ import annotations

import caffe_formulas
import cv2
import numpy as np
import pytest
from operator_references import (
    EXACT,
    arrays,
    assert_equals_onnxruntime,
    assert_error_matches_spread,
    assert_near,
    run_onnxruntime,
    with_error,
)

from goldwatch.operators import Arithmetic, CannotCompute, Node, Value, compute


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X = tensor(0, 2, 4, 5, 6)


@pytest.mark.parametrize("axis", [None, 1, 2, -1, -2])
@pytest.mark.parametrize("biased", [False, True])
def test_layer_normalization_equals_onnxruntime(axis, biased):
    entries = {"epsilon": 1e-3} if axis is None else {"axis": axis}
    shape = X.shape[-1 if axis is None else axis :]
    inputs = [X, tensor(1, *shape)] + ([tensor(2, *shape)] if biased else [])
    assert_equals_onnxruntime("LayerNormalization", inputs, entries, 17, 3)


def test_instance_group_and_lp_normalization_equal_onnxruntime():
    assert_equals_onnxruntime(
        "InstanceNormalization", [X, tensor(1, 4), tensor(2, 4)], {"epsilon": 1e-3}
    )
    assert_equals_onnxruntime(
        "GroupNormalization", [X, tensor(1, 4), tensor(2, 4)], {"num_groups": 2}, 21
    )
    made = arrays(
        Node("onnx", "GroupNormalization", {"num_groups": 2}, version=18),
        [X, tensor(1, 2), tensor(2, 2)],
    )[0]
    repeated = [np.repeat(tensor(number, 2), 2) for number in (1, 2)]
    assert_near(
        made,
        arrays(Node("onnx", "GroupNormalization", {"num_groups": 2}, version=21), [X, *repeated])[
            0
        ],
    )
    assert_equals_onnxruntime("MeanVarianceNormalization", [X], {}, 13)
    assert_equals_onnxruntime("MeanVarianceNormalization", [X], {"axes": [1, 2, 3]}, 13)
    assert_equals_onnxruntime(
        "SimplifiedLayerNormalization", [X, tensor(1, 6)], {"axis": -1, "epsilon": 1e-3}, 13
    )
    for axis in (1, -1):
        for power in (1, 2):
            assert_equals_onnxruntime("LpNormalization", [X], {"axis": axis, "p": power}, 13)
    x = X.copy()
    x[0, :, 0, 0] = 0.0
    assert_equals_onnxruntime("LpNormalization", [x], {"axis": 1}, 13)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_lrn_equals_onnxruntime_and_the_caffe_formula(size):
    entries = {"alpha": 0.3, "beta": 0.6, "bias": 1.5, "size": size}
    assert_equals_onnxruntime("LRN", [X], entries, 13)
    wanted = caffe_formulas.lrn(X, size, 0.3, 0.6, False)
    caffe = {"local_size": size, "alpha": 0.3, "beta": 0.6}
    assert_near(arrays(Node("caffe", "LRN", caffe), [X])[0], wanted)
    within = {**caffe, "norm_region": "WITHIN_CHANNEL"}
    assert_near(
        arrays(Node("caffe", "LRN", within), [X])[0], caffe_formulas.lrn(X, size, 0.3, 0.6, True)
    )
    other = {"depth_radius": size // 2, "alpha": 0.3 / size, "beta": 0.6, "bias": 1.0}
    assert_near(arrays(Node("ascend", "LRN", other), [X])[0], wanted)
    turned = np.moveaxis(X, 1, -1)
    assert_near(
        arrays(Node("ascend", "LRN", other, layouts=("NHWC",)), [turned])[0],
        np.moveaxis(wanted, 1, -1),
    )
    assert_near(arrays(Node("tensorflow", "LRN", other), [turned])[0], np.moveaxis(wanted, 1, -1))


def by_opencv(layer):
    text = (
        'input: "data" input_dim: 2 input_dim: 4 input_dim: 5 input_dim: 6 layer { bottom: '
        '"data" top: "top" name: "one" %s }' % layer
    )
    net = cv2.dnn.readNetFromCaffe(np.frombuffer(text.encode(), np.uint8))
    net.setInput(X)
    return net.forward()


def test_caffe_lrn_and_mvn_equal_opencv():
    layer = 'type: "LRN" lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 }'
    assert_near(
        arrays(Node("caffe", "LRN", {"local_size": 3, "alpha": 0.5, "beta": 0.6}), [X])[0],
        by_opencv(layer),
    )
    layer = (
        'type: "LRN" lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 norm_region: WITHIN_CHANNEL }'
    )
    entries = {"local_size": 3, "alpha": 0.5, "beta": 0.6, "norm_region": "WITHIN_CHANNEL"}
    assert_near(arrays(Node("caffe", "LRN", entries), [X])[0], by_opencv(layer))
    for across in (True, False):
        for divide in (True, False):
            layer = 'type: "MVN" mvn_param { across_channels: %s normalize_variance: %s }' % (
                str(across).lower(),
                str(divide).lower(),
            )
            made = arrays(
                Node("caffe", "MVN", {"across_channels": across, "normalize_variance": divide}), [X]
            )[0]
            assert_near(made, by_opencv(layer))
            made = arrays(
                Node("ascend", "MVN", {"across_channels": across, "normalize_variance": divide}),
                [X],
            )[0]
            assert_near(made, by_opencv(layer))


@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_ssd_normalize_equals_the_formula(across, shared):
    factor = tensor(1, 1 if shared else 4)
    axes = (1, 2, 3) if across else (1,)
    wanted = X / np.sqrt(np.sum(np.square(X, dtype=np.float64), axes, keepdims=True) + 1e-3)
    wanted = wanted * factor.reshape(1, -1, 1, 1)
    entries = {"across_spatial": across, "channel_shared": shared, "eps": 1e-3}
    assert_near(arrays(Node("caffe", "Normalize", entries), [X, factor])[0], wanted)
    made = arrays(
        Node("ascend", "Normalize", entries, layouts=("NHWC", "ND")),
        [np.moveaxis(X, 1, -1), factor],
    )[0]
    assert_near(made, np.moveaxis(wanted, 1, -1))


def test_ascend_layer_norm_equals_the_onnx_one():
    x, gamma, beta = tensor(0, 3, 4, 8), tensor(1, 8), tensor(2, 8)
    right = arrays(Node("onnx", "LayerNormalization", {"epsilon": 1e-3}), [x, gamma, beta])
    entries = {"begin_norm_axis": -1, "begin_params_axis": -1, "epsilon": 1e-3}
    for axis in (-1, 2):
        entries["begin_norm_axis"] = entries["begin_params_axis"] = axis
        made = arrays(Node("ascend", "LayerNorm", entries), [x, gamma, beta])
        assert_near(made[0], right[0])
        assert_near(made[1], right[1])
        assert_near(made[2], np.var(x, -1, np.float64, keepdims=True))
        made = arrays(Node("ascend", "LayerNormV3", entries), [x, gamma, beta])
        assert_near(made[0], right[0])
        assert_near(made[2], right[2])
    made = arrays(Node("ascend", "LayerNormV4", {"epsilon": 1e-3}), [x, np.array([8]), gamma, beta])
    assert_near(made[0], right[0])
    made = arrays(Node("ascend", "RmsNorm", {"epsilon": 1e-3}), [x, gamma])
    rstd = 1 / np.sqrt(np.mean(np.square(x, dtype=np.float64), -1, keepdims=True) + 1e-3)
    assert_near(made[0], x * rstd * gamma)
    assert_near(made[1], rstd)
    assert_near(
        arrays(Node("onnx", "RMSNormalization", {"epsilon": 1e-3}), [x, gamma])[0], x * rstd * gamma
    )
    made = arrays(Node("ascend", "L2Normalize", {"axis": [1], "eps": 1e-4}), [x])[0]
    assert_near(
        made,
        x / np.sqrt(np.maximum(np.sum(np.square(x, dtype=np.float64), 1, keepdims=True), 1e-4)),
    )


def test_ascend_instance_and_group_norm_equal_the_onnx_ones():
    inputs = [X, tensor(1, 1, 4, 1, 1), tensor(2, 1, 4, 1, 1)]
    right = arrays(
        Node("onnx", "InstanceNormalization", {"epsilon": 1e-3}),
        [X, inputs[1].reshape(4), inputs[2].reshape(4)],
    )[0]
    made = arrays(Node("ascend", "InstanceNorm", {"data_format": "NCHW", "epsilon": 1e-3}), inputs)
    assert_near(made[0], right)
    assert_near(made[1], X.mean((2, 3), np.float64, keepdims=True))
    turned = [np.moveaxis(array, 1, -1) for array in inputs]
    made = arrays(Node("ascend", "InstanceNorm", {"data_format": "NHWC", "epsilon": 1e-3}), turned)
    assert_near(np.moveaxis(made[0], -1, 1), right)
    inputs = [X, tensor(1, 4), tensor(2, 4)]
    right = arrays(
        Node("onnx", "GroupNormalization", {"num_groups": 2, "epsilon": 1e-3}, version=21), inputs
    )[0]
    made = arrays(
        Node("ascend", "GroupNorm", {"num_groups": 2, "eps": 1e-3, "data_format": "NCHW"}), inputs
    )
    assert_near(made[0], right)
    with pytest.raises(CannotCompute, match="num_groups"):
        compute(Node("ascend", "GroupNorm", {"data_format": "NCHW"}), inputs)


@pytest.mark.parametrize("biased", [False, True])
def test_skip_layer_normalization_equals_onnxruntime(biased):
    x, skip, gamma, beta, bias = (
        tensor(0, 2, 3, 8),
        tensor(1, 2, 3, 8),
        tensor(2, 8),
        tensor(3, 8),
        tensor(4, 8),
    )
    inputs = [x, skip, gamma, beta] + ([bias] if biased else [])
    assert_first_and_last("SkipLayerNormalization", inputs)
    assert_first_and_last(
        "SkipSimplifiedLayerNormalization", [x, skip, gamma] + ([bias] if biased else [])
    )
    if not biased:
        made = arrays(Node("ascend", "AddRmsNorm", {"epsilon": 1e-3}), [x, skip, gamma])
        right = arrays(Node("ascend", "RmsNorm", {"epsilon": 1e-3}), [x + skip, gamma])
        for one, other in zip(made, [*right, x + skip]):
            assert_near(one, other)


def assert_first_and_last(kind, inputs):
    """The mean and the deviation in between are onnxruntime's for training."""
    right = run_onnxruntime(kind, inputs, {"epsilon": 1e-3}, 17, 4, domain="com.microsoft")
    made = arrays(Node("onnx", "com.microsoft." + kind, {"epsilon": 1e-3}), inputs)
    assert_near(made[0], right[0])
    assert_near(made[3], right[3])


NODES = [
    (Node("onnx", "LayerNormalization"), [6, 6]),
    (Node("onnx", "InstanceNormalization"), [4, 4]),
    (Node("onnx", "GroupNormalization", {"num_groups": 2}, version=21), [4, 4]),
    (Node("onnx", "SimplifiedLayerNormalization"), [6]),
    (Node("onnx", "MeanVarianceNormalization"), []),
    (Node("onnx", "LpNormalization"), []),
    (Node("onnx", "LRN", {"size": 3, "alpha": 1.0}), []),
    (Node("caffe", "Normalize", {"channel_shared": False}), [4]),
    (Node("ascend", "L2Normalize", {"axis": [1]}), []),
]


@pytest.mark.parametrize("node, sizes", NODES, ids=lambda entry: getattr(entry, "type", ""))
def test_input_errors_reach_the_output_of_normalisations(node, sizes):
    generator = np.random.default_rng(6)
    x = with_error(X, 1e-3)
    others = [tensor(number + 1, size) + np.float32(3.0) for number, size in enumerate(sizes)]
    assert_error_matches_spread(node, [x, *others], generator)
    for number, other in enumerate(others):
        assert_error_matches_spread(
            node, [X, *others[:number], with_error(other), *others[number + 1 :]], generator
        )


def half(array):
    return np.asarray(array, np.float64).astype(np.float16).astype(np.float64)


@pytest.mark.parametrize("shift", [0.0, 10.0, 100.0])
def test_float16_roundings_between_steps_are_estimated(shift):
    # A device that hands float16 from step to step; where the mean is far from zero, what is left
    # of x less its mean is coarse.
    x = half(np.random.default_rng(7).standard_normal((100, 64)) + shift)
    center = half(x.mean(1, keepdims=True))
    less = half(x - center)
    variance = half(half(less**2).mean(1, keepdims=True))
    device = less * half(1 / np.sqrt(variance + 1e-5))
    made = compute(
        Node("onnx", "LayerNormalization"), [x, np.ones(64)], Arithmetic(intermediate=2.0**-11)
    )[0]
    gone, said = (np.sqrt(np.mean(np.square(array))) for array in (device - made.array, made.error))
    assert said / 3 < gone < 3 * said


def test_a_tiny_variance_makes_the_estimated_error_large():
    generator = np.random.default_rng(8)
    x = 5.0 + 1e-3 * generator.standard_normal((10, 64))
    node = Node("onnx", "LayerNormalization", {"epsilon": 1e-12})
    made = compute(node, [Value(x, np.full(x.shape, 1e-3)), np.ones(64)], EXACT)[0]
    # The input's error is as large as what is divided by: of the output nothing is known.
    assert np.median(made.error) > 0.5
    wide = compute(node, [Value(1000 * (x - 5.0), np.full(x.shape, 1e-3)), np.ones(64)], EXACT)[0]
    assert np.median(wide.error) < 0.01
