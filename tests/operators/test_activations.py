"""Activation functions, against onnxruntime and plain formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_references import (
    arrays,
    assert_equals_onnxruntime,
    assert_error_matches_spread,
    assert_near,
    with_error,
)

from goldwatch.operators import Arithmetic, CannotCompute, Node, Value, compute


def tensor(seed, *shape):
    return (3 * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ONNX = [
    ("Relu", [], 17), ("Sigmoid", [], 17), ("Tanh", [], 17), ("Softplus", [], 17),
    ("Softsign", [], 17), ("HardSwish", [], 17),
    ("Mish", [], 18), ("LeakyRelu", ["alpha"], 16), ("Elu", ["alpha"], 17),
    ("Selu", ["alpha", "gamma"], 17), ("Celu", ["alpha"], 17),
    ("HardSigmoid", ["alpha", "beta"], 17), ("ThresholdedRelu", ["alpha"], 17),
    ("Shrink", ["lambd", "bias"], 17), ("Gelu", [], 20),
    ("LeakyRelu", ["alpha"], 7), ("Selu", ["alpha", "gamma"], 7),
]  # fmt: skip


@settings(max_examples=15)
@given(st.data())
@pytest.mark.parametrize("kind, names, opset", ONNX)
def test_onnx_activations_equal_onnxruntime(kind, names, opset, data):
    attributes = {
        name: data.draw(st.floats(0.0625, 2, width=32))
        for name in names
        if data.draw(st.booleans())
    }
    assert_equals_onnxruntime(
        kind, [tensor(data.draw(st.integers(0, 999)), 4, 30)], attributes, opset, tolerance=2e-6
    )


@pytest.mark.parametrize("how", ["none", "tanh"])
def test_gelu_is_computed_exactly_and_by_tanh(how):
    assert_equals_onnxruntime("Gelu", [tensor(1, 100)], {"approximate": how}, 20, tolerance=2e-6)
    with pytest.raises(CannotCompute, match="sigmoid"):
        compute(Node("onnx", "Gelu", {"approximate": "sigmoid"}, version=20), [tensor(1, 3)])


@settings(max_examples=30)
@given(st.data())
def test_prelu_equals_onnxruntime(data):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    slopes = [size if data.draw(st.booleans()) else 1 for size in shape]
    slopes = slopes[data.draw(st.integers(0, len(slopes) - 1)) :]
    assert_equals_onnxruntime(
        "PRelu",
        [tensor(1, *shape), tensor(2, *slopes)],
        {},
        data.draw(st.sampled_from([9, 16])),
        tolerance=1e-6,
    )


@settings(max_examples=30)
@given(st.data())
def test_clip_equals_onnxruntime(data):
    low, high = (data.draw(st.none() | st.floats(-4, 4, width=32)) for _ in range(2))
    if low is not None and high is not None and low > high:
        low, high = high, low
    opset = data.draw(st.sampled_from([7, 10, 11, 13]))
    if opset < 11:
        given_bounds = {
            name: bound for name, bound in (("min", low), ("max", high)) if bound is not None
        }
        assert_equals_onnxruntime("Clip", [tensor(1, 50)], given_bounds, opset, tolerance=0)
    else:
        bounds = [None if bound is None else np.asarray(bound, np.float32) for bound in (low, high)]
        while bounds and bounds[-1] is None:
            bounds.pop()
        assert_equals_onnxruntime("Clip", [tensor(1, 50), *bounds], {}, opset, tolerance=0)


def test_clip_of_caffe_tensorflow_and_ascend_equals_numpy():
    x = tensor(1, 50)
    right = np.clip(x, -1, 2)
    assert_near(arrays(Node("caffe", "Clip", {"min": -1.0, "max": 2.0}), [x])[0], right, 0)
    with pytest.raises(CannotCompute, match="max"):
        compute(Node("caffe", "Clip", {"min": -1.0}), [x])
    for dialect in ("tensorflow", "ascend"):
        assert_near(
            arrays(Node(dialect, "ClipByValue"), [x, np.float32(-1), np.float32(2)])[0], right, 0
        )
        with pytest.raises(CannotCompute, match="bounds"):
            compute(Node(dialect, "ClipByValue"), [x, np.float32(-1)])
    assert arrays(Node("ascend", "ClipByValue"), [np.arange(5), np.int64(1), np.int64(3)])[
        0
    ].tolist() == [1, 1, 2, 3, 3]


OTHERS = [
    ("caffe", "ReLU", {}, lambda x: np.maximum(x, 0)),
    ("caffe", "ReLU", {"negative_slope": 0.1}, lambda x: np.where(x > 0, x, 0.1 * x)),
    ("caffe", "ReLU6", {}, lambda x: np.clip(x, 0, 6)),
    ("caffe", "ELU", {}, lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)),
    ("caffe", "ELU", {"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * (np.exp(np.minimum(x,
    0)) - 1))),
    ("caffe", "Sigmoid", {}, sigmoid),
    ("caffe", "TanH", {}, np.tanh),
    ("caffe", "BNLL", {}, lambda x: np.log(1 + np.exp(x))),
    ("caffe", "Swish", {"beta": 2.0}, lambda x: x * sigmoid(2 * x)),
    ("tensorflow", "Relu6", {}, lambda x: np.clip(x, 0, 6)),
    ("tensorflow", "LeakyRelu", {}, lambda x: np.where(x > 0, x, 0.2 * x)),
    ("tensorflow", "LeakyRelu", {"alpha": 0.3}, lambda x: np.where(x > 0, x, 0.3 * x)),
    ("tensorflow", "Elu", {}, lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)),
    ("tensorflow", "Selu", {}, lambda x: 1.0507009873554805 * np.where(x > 0, x,
    1.6732632423543772 * (np.exp(np.minimum(x, 0)) - 1))),
    ("ascend", "LeakyRelu", {}, lambda x: np.maximum(x, 0)),
    ("ascend", "LeakyRelu", {"negative_slope": 0.1}, lambda x: np.where(x > 0, x, 0.1 * x)),
    ("ascend", "Relu6D", {"scale": 0.5}, lambda x: np.clip(x, 0, 3)),
    ("ascend", "Elu", {"alpha": 0.5, "scale": 2.0, "input_scale": 0.5},
    lambda x: np.where(x > 0, 2 * x, np.expm1(0.5 * np.minimum(x, 0)))),
    ("ascend", "Celu", {"alpha": 2.0}, lambda x: np.maximum(x, 0) + np.minimum(0,
    2 * np.expm1(x / 2))),
    ("ascend", "HardSigmoid", {}, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    ("ascend", "HardSwish", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("ascend", "Mish", {}, lambda x: x * np.tanh(np.log(1 + np.exp(x)))),
    ("ascend", "Swish", {}, lambda x: x * sigmoid(x)),
    ("ascend", "Swish", {"scale": 2.0}, lambda x: x * sigmoid(2 * x)),
    ("ascend", "Gelu", {},
    lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    ("ascend", "FastGelu", {},
    lambda x: x * np.exp(0.851 * (x - np.abs(x))) / (1 + np.exp(-1.702 * np.abs(x)))),
    ("ascend", "LogSigmoid", {}, lambda x: -np.log(1 + np.exp(-x))),
    ("ascend", "SoftplusV2", {"beta": 2.0}, lambda x: np.log(1 + np.exp(2 * x)) / 2),
    ("ascend", "ThresholdedRelu", {}, lambda x: np.where(x > 1, x, 0)),
    ("ascend", "ThresholdV2D", {"threshold": 0.5, "value": -1.0},
    lambda x: np.where(x > 0.5, x, -1)),
    ("ascend", "HardShrink", {}, lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    ("ascend", "SoftShrink", {"lambd": 1.0}, lambda x: np.sign(x) * np.maximum(np.abs(x) - 1, 0)),
]  # fmt: skip


@pytest.mark.parametrize("dialect, kind, attributes, right", OTHERS)
def test_activations_of_other_dialects_equal_their_formulas(dialect, kind, attributes, right):
    x = tensor(1, 3, 40)
    assert_near(arrays(Node(dialect, kind, attributes), [x])[0], right(x.astype(np.float64)), 1e-6)


def test_activations_of_onnxruntimes_domain_equal_their_formulas():
    x, bias = tensor(1, 2, 30), tensor(2, 30)
    exact = np.vectorize(lambda value: 0.5 * value * (1 + math.erf(value / math.sqrt(2))))

    def by_tanh(value):
        return 0.5 * value * (1 + np.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)))

    assert_near(arrays(Node("onnx", "com.microsoft.FastGelu"), [x])[0], by_tanh(x), 1e-6)
    assert_near(
        arrays(Node("onnx", "com.microsoft.FastGelu"), [x, bias])[0], by_tanh(x + bias), 1e-6
    )
    assert_near(arrays(Node("onnx", "com.microsoft.BiasGelu"), [x, bias])[0], exact(x + bias), 1e-6)
    assert_near(
        arrays(Node("onnx", "com.microsoft.QuickGelu"), [x])[0], x * sigmoid(1.702 * x), 1e-6
    )


def test_slopes_of_prelu_apply_to_channels_in_every_layout():
    x, slope = tensor(1, 2, 3, 4, 5), np.array([0.1, 0.2, 0.3], np.float32)
    right = np.where(x > 0, x, x * slope[:, None, None])
    for dialect, kind in (("caffe", "PReLU"), ("ascend", "PRelu")):
        assert_near(arrays(Node(dialect, kind), [x, slope])[0], right, 1e-6)
        assert_near(
            arrays(Node(dialect, kind), [x, slope[:1]])[0], np.where(x > 0, x, x * 0.1), 1e-6
        )
        with pytest.raises(CannotCompute, match="2 slopes"):
            compute(Node(dialect, kind), [x, slope[:2]])
    last = Node("ascend", "PRelu", layouts=("NHWC", "ND"))
    assert_near(arrays(last, [np.moveaxis(x, 1, -1), slope])[0], np.moveaxis(right, 1, -1), 1e-6)
    assert_near(arrays(Node("onnx", "PRelu", version=6), [x, slope])[0], right, 1e-6)


def test_threshold_v2_takes_threshold_and_value_as_inputs():
    x = tensor(1, 20)
    assert_near(
        arrays(Node("ascend", "ThresholdV2"), [x, np.float32([0.5]), np.float32([2])])[0],
        np.where(x > 0.5, x, 2),
        0,
    )
    assert_near(
        arrays(Node("ascend", "ThresholdV2"), [x, np.float32([0.5])])[0], np.where(x > 0.5, x, 0), 0
    )


def test_activations_with_unknown_attributes_are_refused():
    with pytest.raises(CannotCompute, match="three alphas"):
        compute(Node("ascend", "Celu", {"alpha1": 1.0}), [tensor(1, 3)])
    with pytest.raises(CannotCompute, match="threshold"):
        compute(Node("ascend", "ThresholdV2D", {"value": 1.0}), [tensor(1, 3)])


@pytest.mark.parametrize(
    "kind",
    ["Relu", "Sigmoid", "Tanh", "Mish", "HardSwish", "Gelu", "Elu", "Softplus", "HardSigmoid"],
)
def test_errors_reach_the_output(kind):
    assert_error_matches_spread(
        Node("onnx", kind, version=20),
        [with_error(tensor(1, 60))],
        np.random.default_rng(0),
        floor=1e-5,
    )


def test_input_errors_at_the_kink_of_relu_reach_the_output():
    value = Value(np.zeros(3, np.float32), np.full(3, 0.5))
    assert compute(Node("onnx", "Relu", version=17), [value])[0].error.tolist() == [0.5] * 3


def half(x):
    return np.asarray(x, np.float64).astype(np.float16).astype(np.float64)


IN_HALF = {
    "HardSwish": lambda x: half(half(x * half(np.clip(half(x + 3), 0, 6))) / 6),
    "Gelu": lambda x: half(
        half(0.5 * x) * half(1 + half(np.vectorize(math.erf)(half(x * math.sqrt(0.5)))))
    ),
    "Mish": lambda x: half(x * half(np.tanh(half(np.log(half(1 + half(np.exp(x)))))))),
    "Softplus": lambda x: half(np.log(half(1 + half(np.exp(x))))),
    "Elu": lambda x: np.where(
        x > 0, x, half(np.exp(np.minimum(x, 0))) - 1
    ),  # the last rounding is that of the output's type
    "Sigmoid": lambda x: half(1 / half(1 + half(np.exp(-x)))),
}


@pytest.mark.parametrize("kind", IN_HALF)
def test_a_device_that_computes_in_float16_stays_within_the_estimated_error(kind):
    """A device that rounds each step to float16 is about as far off as is said, where values are
    large and where they are small.
    """
    x = half(np.random.default_rng(0).uniform(-4, 4, 4000))
    stated = compute(
        Node("onnx", kind, version=20), [x.astype(np.float32)], Arithmetic(intermediate=2.0**-11)
    )[0]
    off = np.abs(IN_HALF[kind](x) - stated.array)
    assert (
        np.sqrt(np.mean(off**2))
        < 3 * np.sqrt(np.mean(stated.error**2))
        < 9 * np.sqrt(np.mean(off**2))
    )
    assert np.all(off <= 8 * stated.error + 2e-7)
