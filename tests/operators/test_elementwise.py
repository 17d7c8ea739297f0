"""Arithmetic of each element, against onnxruntime, OpenCV's Caffe layers and plain formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_references import (
    EXACT,
    arrays,
    assert_equals_onnxruntime,
    assert_error_matches_spread,
    assert_near,
    with_error,
)

from goldwatch.operators import Arithmetic, CannotCompute, Node, Value, compute, error_propagation
from goldwatch.operators.elementwise import erf


def tensor(seed, *shape):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


def drawn_shapes(data):
    """Return two shapes that broadcast to each other."""
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    other = [size if data.draw(st.booleans()) else 1 for size in shape]
    return shape, other[data.draw(st.integers(0, len(other))) :]


@settings(max_examples=100)
@given(st.data())
def test_operators_of_two_inputs_equal_onnxruntime(data):
    kind = data.draw(
        st.sampled_from(["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean"])
    )
    first, second = drawn_shapes(data)
    seed = data.draw(st.integers(0, 2**16))
    a, b = tensor(seed, *first), tensor(seed + 1, *second)
    if data.draw(st.booleans()):
        first, second = second, first
        a, b = b, a
    assert_equals_onnxruntime(
        kind, [np.asarray(np.abs(a)) if kind == "Pow" else a, b], tolerance=1e-6
    )


@settings(max_examples=60)
@given(st.data())
def test_arithmetic_of_integers_equals_onnxruntime(data):
    kind, attributes = data.draw(
        st.sampled_from(
            [
                ("Add", {}),
                ("Sub", {}),
                ("Mul", {}),
                ("Div", {}),
                ("Mod", {}),
                ("Mod", {"fmod": 1}),
                ("Max", {}),
                ("Min", {}),
            ]
        )
    )
    dtype = data.draw(st.sampled_from(["int32", "int64"]))
    numbers = st.integers(-20, 20)
    a = np.array(data.draw(st.lists(numbers, min_size=4, max_size=4)), dtype)
    b = np.array(data.draw(st.lists(numbers.filter(bool), min_size=4, max_size=4)), dtype)
    assert_equals_onnxruntime(kind, [a, b], attributes, tolerance=0)


UNARY = (
    "Abs Neg Exp Log Sqrt Reciprocal Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh "
        "Erf".split()
)  # fmt: skip


@pytest.mark.parametrize("kind", UNARY)
def test_operators_of_one_input_equal_onnxruntime(kind):
    x = tensor(1, 3, 50)
    if kind in ("Log", "Sqrt", "Acosh"):
        x = np.abs(x) + (1 if kind == "Acosh" else 0)
    if kind in ("Asin", "Acos", "Atanh"):
        x = np.tanh(x)
    assert_equals_onnxruntime(kind, [x], tolerance=1e-6)


def test_powers_of_integers_equal_onnxruntime():
    assert_equals_onnxruntime("Pow", [np.array([1, 2, 3], np.int64), np.array([3, 2, 1], np.int64)])
    assert_equals_onnxruntime(
        "Pow", [np.array([1, 2, 3], np.int32), np.array([0.5, 2.5, 1.5], np.float32)]
    )


def test_the_error_function_is_exact_and_keeps_nan():
    x = np.concatenate([np.linspace(-8, 8, 100001), [np.inf, -np.inf]])
    np.testing.assert_allclose(erf(x), [math.erf(value) for value in x], rtol=0, atol=1e-13)
    assert np.isnan(erf(np.array([np.nan]))).all()


def test_older_onnx_broadcasts_from_an_axis():
    a, b = tensor(1, 2, 3, 4), tensor(2, 3)
    made = arrays(Node("onnx", "Mul", {"broadcast": 1, "axis": 1}, version=6), [a, b])[0]
    assert_near(made, a * b[None, :, None], 1e-6)
    with pytest.raises(CannotCompute, match="does not broadcast"):
        compute(Node("onnx", "Mul", {}, version=6), [a, b])
    assert_near(
        arrays(Node("onnx", "Mul", {}, version=7), [a, tensor(2, 4)])[0], a * tensor(2, 4), 1e-6
    )


@pytest.mark.parametrize("dialect", ["tensorflow", "ascend"])
def test_divisions_of_integers_round_as_documented(dialect):
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    expected = {
        "FloorDiv": [3, -4, -4, 3],
        "FloorMod": [1, 1, -1, -1],
        "TruncateDiv": [3, -3, -3, 3],
        "TruncateMod": [1, -1, 1, -1],
    }
    for kind, right in expected.items():
        assert arrays(Node(dialect, kind), [a, b])[0].tolist() == right, kind
        with pytest.raises(CannotCompute, match="by 0"):
            compute(Node(dialect, kind), [a, np.zeros_like(b)])


def test_ascend_division_of_integers_is_refused():
    a, b = np.array([7], np.int32), np.array([2], np.int32)
    assert arrays(Node("tensorflow", "Div"), [a, b])[0].tolist() == [3]
    with pytest.raises(CannotCompute, match="rounds whole numbers"):
        compute(Node("ascend", "Div"), [a, b])
    assert arrays(Node("ascend", "Div"), [a.astype(np.float32), b.astype(np.float32)])[
        0
    ].tolist() == [3.5]


def test_nan_free_operators_give_0_for_0_times_infinity():
    zero, far = np.zeros(2, np.float32), np.array([np.inf, 1], np.float32)
    for dialect in ("tensorflow", "ascend"):
        assert arrays(Node(dialect, "MulNoNan"), [far, zero])[0].tolist() == [0, 0]
        assert arrays(Node(dialect, "DivNoNan"), [far, zero])[0].tolist() == [0, 0]
        assert arrays(Node(dialect, "Xlogy"), [zero, zero])[0].tolist() == [0, 0]
        assert arrays(Node(dialect, "Xdivy"), [zero, zero])[0].tolist() == [0, 0]


CAFFE_ONE = [
    ("Power", {"power": 2.0, "scale": 0.5, "shift": 3.0}, lambda x: (3 + 0.5 * x) ** 2),
    ("Power", {}, lambda x: x),
    ("Exp", {"base": 2.0, "scale": 0.5, "shift": 1.0}, lambda x: 2 ** (1 + 0.5 * x)),
    ("Exp", {}, np.exp),
    ("Log", {"base": 10.0, "scale": 0.1, "shift": 9.0}, lambda x: np.log10(9 + 0.1 * x)),
]


@pytest.mark.parametrize("dialect", ["caffe", "ascend"])
@pytest.mark.parametrize("kind, attributes, right", CAFFE_ONE)
def test_caffe_layers_apply_scale_and_shift(dialect, kind, attributes, right):
    x = tensor(1, 2, 5)
    assert_near(arrays(Node(dialect, kind, attributes), [x])[0], right(x.astype(np.float64)), 1e-6)


def test_a_base_that_is_not_positive_is_refused():
    with pytest.raises(CannotCompute, match="base"):
        compute(Node("caffe", "Exp", {"base": -2.0}), [tensor(1, 2)])


@pytest.mark.parametrize("dialect", ["caffe", "ascend"])
def test_eltwise_combines_inputs_with_coefficients(dialect):
    inputs = [tensor(seed, 2, 3) for seed in range(3)]
    a, b, c = (one.astype(np.float64) for one in inputs)

    def made(operation, coeff=()):
        value = operation if dialect == "caffe" else {"PROD": 0, "SUM": 1, "MAX": 2}[operation]
        attributes = {"operation" if dialect == "caffe" else "mode": value, "coeff": list(coeff)}
        return arrays(Node(dialect, "Eltwise", attributes), inputs)[0]

    assert_near(made("PROD"), a * b * c, 1e-6)
    assert_near(made("SUM"), a + b + c, 1e-6)
    assert_near(made("SUM", [0.5, -1, 0]), 0.5 * a - b, 1e-6)
    assert_near(made("MAX"), np.maximum(np.maximum(a, b), c), 1e-6)
    assert_near(arrays(Node(dialect, "Eltwise"), inputs)[0], a + b + c, 1e-6)
    with pytest.raises(CannotCompute, match="2 coefficients and 3 inputs"):
        made("SUM", [1, 2])


def test_an_unknown_eltwise_operation_is_refused():
    with pytest.raises(CannotCompute, match="operation"):
        compute(Node("ascend", "Eltwise", {"mode": 3}), [tensor(1, 2), tensor(2, 2)])


def test_ascend_adds_and_muls_apply_their_constant():
    x = tensor(1, 3)
    assert_near(arrays(Node("ascend", "Adds", {"value": 1.5}), [x])[0], x + 1.5, 1e-6)
    assert_near(arrays(Node("ascend", "Muls", {"value": -2.0}), [x])[0], x * -2, 1e-6)
    assert arrays(Node("ascend", "Muls", {"value": 2.0}), [np.array([3], np.int32)])[
        0
    ].tolist() == [6]
    with pytest.raises(CannotCompute, match="value is not known"):
        compute(Node("ascend", "Adds"), [x])
    with pytest.raises(CannotCompute, match="whole numbers"):
        compute(Node("ascend", "Adds", {"value": 0.5}), [np.array([3], np.int32)])


def test_biases_are_added_along_the_channel_axis():
    x, bias = tensor(1, 2, 3, 4, 3), tensor(2, 3)
    along = {"NHWC": bias, "NCHW": bias[:, None, None]}
    for dialect in ("tensorflow", "ascend"):
        for layout, right in along.items():
            assert_near(
                arrays(Node(dialect, "BiasAdd", {"data_format": layout}), [x, bias])[0],
                x + right,
                1e-6,
            )
        assert_near(arrays(Node(dialect, "BiasAdd"), [x, bias])[0], x + bias, 1e-6)
        with pytest.raises(CannotCompute, match="data_format"):
            compute(Node(dialect, "BiasAdd", {"data_format": "CHWN"}), [x, bias])
    for dialect in ("caffe", "ascend"):
        assert_near(arrays(Node(dialect, "Bias"), [x, bias])[0], x + bias[:, None, None], 1e-6)
        assert_near(arrays(Node(dialect, "Bias", {"axis": -1}), [x, bias])[0], x + bias, 1e-6)
        with pytest.raises(CannotCompute, match="does not fit"):
            compute(Node(dialect, "Bias", {"axis": 4}), [x, bias])


def test_axpy_adds_multiples():
    a, b = tensor(1, 2, 3), tensor(2, 2, 3)
    assert_near(arrays(Node("ascend", "Axpy", {"alpha": 0.5}), [a, b])[0], a + 0.5 * b, 1e-6)
    with pytest.raises(CannotCompute, match="alpha"):
        compute(Node("ascend", "Axpy"), [a, b])
    factors, x, y = tensor(3, 2, 3, 1, 1), tensor(4, 2, 3, 4, 5), tensor(5, 2, 3, 4, 5)
    for shape in ((2, 3, 1, 1), (2, 3)):
        assert_near(
            arrays(Node("caffe", "Axpy"), [factors.reshape(shape), x, y])[0], factors * x + y, 1e-6
        )


def test_ascend_operators_of_three_inputs_equal_pytorchs_formulas():
    a, b, c = (tensor(seed, 2, 3) + 3 for seed in range(3))
    half = np.float32([0.5])
    assert_near(arrays(Node("ascend", "AxpyV2"), [a, b, half])[0], a + 0.5 * b, 1e-6)
    assert_near(arrays(Node("ascend", "Addcmul"), [a, b, c, half])[0], a + 0.5 * b * c, 1e-6)
    assert_near(arrays(Node("ascend", "Addcdiv"), [a, b, c, half])[0], a + 0.5 * b / c, 1e-6)
    assert_near(arrays(Node("ascend", "Lerp"), [a, b, half])[0], (a + b) / 2, 1e-6)
    made = arrays(Node("ascend", "MaskedFill"), [a, b > 3, np.float32(-1e4)])[0]
    np.testing.assert_array_equal(made, np.where(b > 3, np.float32(-1e4), a))


def test_where_and_select_keep_values_bit_for_bit():
    condition = np.array([[True, False, True]])
    a, b = tensor(1, 2, 3), tensor(2, 2, 1)
    assert_equals_onnxruntime("Where", [condition, a, b], tolerance=0)
    assert_equals_onnxruntime("Where", [condition, np.arange(3), np.arange(3) - 9], tolerance=0)
    rows = np.array([True, False])
    for dialect in ("tensorflow", "ascend"):
        made = arrays(Node(dialect, "Select"), [rows, a, -a])[0]
        assert made.dtype == np.float32
        np.testing.assert_array_equal(made, np.where(rows[:, None], a, -a))
        np.testing.assert_array_equal(
            arrays(Node(dialect, "SelectV2"), [condition, a, b])[0], np.where(condition, a, b)
        )


def test_the_error_of_a_selected_value_is_its_source_s():
    a, b = Value(np.zeros(2, np.float32), np.array([1.0, 2.0])), Value(np.zeros(2, np.float32))
    made = compute(Node("onnx", "Where", version=16), [np.array([False, True]), a, b])[0]
    assert made.error.tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    "kind, inputs",
    [
        ("Add", 2), ("Mul", 2), ("Div", 2), ("Sub", 2), ("Max", 3), ("Mean", 3), ("Sum", 3),
        ("Exp", 1), ("Sqrt", 1), ("Sin", 1),
        ("Erf", 1), ("Reciprocal", 1),
    ],
)  # fmt: skip
def test_errors_reach_the_output(kind, inputs):
    values = [with_error(np.abs(tensor(seed, 40)) + 0.5) for seed in range(inputs)]
    assert_error_matches_spread(Node("onnx", kind, version=17), values, np.random.default_rng(0))


@pytest.mark.parametrize(
    "kind, right",
    [
        ("Mul", lambda x, e: 2 * np.abs(x) * e),
        ("Sub", lambda x, e: 0 * x),
        ("Add", lambda x, e: 2 * e + 0 * x),
    ],
)
def test_two_inputs_that_are_the_same_tensor_err_together(kind, right):
    value = with_error(tensor(1, 50))
    node = Node("onnx", kind, version=17)
    made = compute(node, [value, value], EXACT)[0]
    np.testing.assert_allclose(made.error, right(value.array, value.error), rtol=1e-2, atol=1e-5)
    # Two that are equal, but not one, know nothing of each other.
    apart = compute(node, [value, Value(value.array.copy(), value.error.copy())], EXACT)[0]
    assert not np.allclose(apart.error, made.error, rtol=1e-2)


def test_sums_accumulated_in_float16_have_the_error_of_each_partial_sum():
    inputs = [tensor(seed, 2000) for seed in range(6)]
    stated = compute(Node("tensorflow", "AddN"), inputs, Arithmetic(intermediate=2.0**-11))[0]
    summed = inputs[0].astype(np.float16)
    for one in inputs[1:-1]:
        summed = (summed + one).astype(np.float16)
    rms = np.sqrt(np.mean((summed.astype(np.float64) + inputs[-1] - stated.array) ** 2))
    assert rms / 3 < np.sqrt(np.mean(stated.error**2)) < rms * 3


@pytest.mark.parametrize("kind", ["Mul", "Greater", "Pow"])
@pytest.mark.parametrize("one_error", [False, True])
def test_large_tensors_computed_in_blocks_give_the_same_values_and_errors(kind, one_error):
    shape = (3, 50, 777)
    assert 3 * error_propagation._BLOCK < 3 * 50 * 777
    values = [np.abs(tensor(seed, *shape)) + 1 for seed in range(2)]
    first = Value(values[0], np.full(1 if one_error else shape, 1e-3))
    for second in (values[1], np.float32([[2.0]]), values[1][:1], first):
        whole = error_propagation.elementwise(
            getattr(np, {"Mul": "multiply", "Greater": "greater", "Pow": "power"}[kind]),
            first,
            as_value(second),
        )
        made = error_propagation.by_blocks(
            getattr(np, {"Mul": "multiply", "Greater": "greater", "Pow": "power"}[kind]),
            first,
            as_value(second),
        )
        np.testing.assert_array_equal(made.array, whole.array)
        assert (made.error is None) == (whole.error is None)
        if whole.error is not None:
            np.testing.assert_array_equal(made.error, np.broadcast_to(whole.error, shape))


def as_value(entry):
    return entry if isinstance(entry, Value) else Value(np.asarray(entry))
