"""Reductions and running sums, against onnxruntime and numpy; their errors against simulated
accumulators.
"""

from __future__ import annotations

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

KINDS = ["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(*numbers):
    return np.array(numbers, np.int64)


@settings(max_examples=120)
@given(st.data())
def test_onnx_reductions_equal_onnxruntime(data):
    kind = data.draw(st.sampled_from(KINDS))
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    axes = data.draw(st.none() | st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    axes = axes and [axis - len(shape) if data.draw(st.booleans()) else axis for axis in axes]
    keep = {"keepdims": data.draw(st.integers(0, 1))} if data.draw(st.booleans()) else {}
    x = tensor(data.draw(st.integers(0, 999)), *shape)
    x = np.abs(x) + np.float32(0.1) if kind == "LogSum" else x
    # Of sums that cancel onnxruntime, which adds in float32, keeps fewer digits than are compared.
    x = x + np.float32(3) if kind in ("Sum", "Mean") else x
    if data.draw(st.booleans()):
        assert_equals_onnxruntime(
            "Reduce" + kind, [x] if axes is None else [x, whole(*axes)], keep, 18, tolerance=3e-6
        )
    else:
        attributes = keep if axes is None else {**keep, "axes": axes}
        assert_equals_onnxruntime("Reduce" + kind, [x], attributes, 11, tolerance=3e-6)


def test_empty_axes_reduce_nothing_when_asked():
    x = tensor(1, 2, 3)
    for inputs in ([x], [x, np.zeros(0, np.int64)]):
        assert_near(
            arrays(Node("onnx", "ReduceSum", {"noop_with_empty_axes": 1}, version=13), inputs)[0],
            x,
            0,
        )
    assert_near(arrays(Node("tensorflow", "Sum"), [x, np.zeros(0, np.int32)])[0], x, 0)
    with pytest.raises(CannotCompute, match="all axes or none"):
        compute(Node("ascend", "ReduceSumD", {"axes": []}), [x])


PLAIN = {"Sum": np.sum, "Mean": np.mean, "Prod": np.prod, "Max": np.max, "Min": np.min}


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("keep", [False, True])
def test_reductions_of_other_dialects_equal_numpy(kind, keep):
    x = tensor(1, 2, 3, 4)
    right = PLAIN[kind](x.astype(np.float64), axis=(0, 2), keepdims=keep)
    kept = {"keep_dims": keep} if keep else {}
    for node, inputs in (
        (Node("tensorflow", kind, kept), [x, whole(0, 2)]),
        (Node("ascend", "Reduce" + kind, kept), [x, whole(0, -1)]),
        (Node("ascend", "Reduce%sD" % kind, {"axes": [0, 2], **kept}), [x]),
    ):
        assert_near(arrays(node, inputs)[0], right, 1e-6)
    with pytest.raises(CannotCompute, match="axes"):
        compute(Node("ascend", "Reduce%sD" % kind), [x])
    with pytest.raises(CannotCompute, match="input 1"):
        compute(Node("tensorflow", kind), [x])
    with pytest.raises(CannotCompute, match="no axis 3"):
        compute(Node("tensorflow", kind), [x, whole(3)])


def test_reductions_of_integers_and_bools_keep_their_type():
    x = np.array([[1, 2], [3, 200]], np.uint8)
    made = arrays(Node("tensorflow", "Sum"), [x, whole(1)])[0]
    assert made.dtype == np.uint8 and made.tolist() == [3, 203]
    assert arrays(Node("tensorflow", "Max"), [x, whole(0)])[0].tolist() == [3, 200]
    with pytest.raises(CannotCompute, match="mean of whole numbers"):
        compute(Node("tensorflow", "Mean"), [x, whole(1)])
    flags = np.array([[True, False], [True, True]])
    for all_of, any_of in (("All", "Any"), ("ReduceAll", "ReduceAny")):
        dialect = "tensorflow" if all_of == "All" else "ascend"
        assert arrays(Node(dialect, all_of), [flags, whole(1)])[0].tolist() == [False, True]
        assert arrays(Node(dialect, any_of), [flags, whole(1)])[0].tolist() == [True, True]


def test_norms_and_log_sum_exp_equal_their_formulas():
    x = tensor(1, 3, 4)
    right = np.sqrt((x.astype(float) ** 2).sum(1))
    assert_near(arrays(Node("tensorflow", "EuclideanNorm"), [x, whole(1)])[0], right, 1e-6)
    assert_near(arrays(Node("ascend", "EuclideanNormD", {"axes": [1]}), [x])[0], right, 1e-6)
    assert_near(
        arrays(Node("tensorflow", "L2Loss"), [x])[0], (x.astype(float) ** 2).sum() / 2, 1e-6
    )
    assert_near(
        arrays(Node("ascend", "ReduceLogSumExp"), [x, whole(1)])[0],
        np.log(np.exp(x.astype(float)).sum(1)),
        1e-6,
    )


@pytest.mark.parametrize(
    "operation, right",
    [("SUM", lambda x: x), ("ASUM", np.abs), ("SUMSQ", np.square), ("MEAN", lambda x: x / 12)],
)
def test_caffe_reduction_applies_operation_and_coefficient(operation, right):
    x = tensor(1, 2, 3, 4)
    expected = 0.5 * right(x.astype(float)).sum((1, 2))
    code = ["SUM", "ASUM", "SUMSQ", "MEAN"].index(operation) + 1
    assert_near(
        arrays(Node("caffe", "Reduction", {"operation": operation, "axis": 1, "coeff": 0.5}), [x])[
            0
        ],
        expected,
        1e-6,
    )
    assert_near(
        arrays(Node("ascend", "Reduction", {"operation": code, "axis": -2, "coeff": 0.5}), [x])[0],
        expected,
        1e-6,
    )
    with pytest.raises(CannotCompute, match="operation"):
        compute(Node("ascend", "Reduction", {"operation": 5}), [x])


def test_caffe_reduction_gives_one_number_by_default():
    x = tensor(1, 2, 3)
    assert arrays(Node("caffe", "Reduction"), [x])[0].shape == ()


@settings(max_examples=40)
@given(st.data())
def test_cumulative_sums_equal_onnxruntime(data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    attributes = {
        "exclusive": data.draw(st.integers(0, 1)),
        "reverse": data.draw(st.integers(0, 1)),
    }
    x = tensor(1, *shape)
    assert_equals_onnxruntime("CumSum", [x, np.array(axis)], attributes, tolerance=1e-6)
    right = arrays(Node("onnx", "CumSum", attributes), [x, np.array(axis)])[0]
    assert_near(arrays(Node("ascend", "CumsumD", {**attributes, "axis": axis}), [x])[0], right, 0)
    assert_near(arrays(Node("tensorflow", "Cumsum", attributes), [x, np.array(axis)])[0], right, 0)


def test_cumulative_products_equal_numpy():
    x = tensor(1, 2, 4)
    assert_near(arrays(Node("tensorflow", "Cumprod"), [x, whole(1)])[0], np.cumprod(x, 1), 1e-6)
    made = arrays(
        Node("tensorflow", "Cumprod", {"exclusive": True, "reverse": True}), [x, whole(1)]
    )[0]
    assert_near(made[:, 0], np.prod(x[:, 1:], 1), 1e-6)
    assert made[:, -1].tolist() == [1, 1]
    with pytest.raises(CannotCompute, match="running product"):
        compute(Node("tensorflow", "Cumprod"), [with_error(x), whole(1)])


@pytest.mark.parametrize("kind", KINDS)
def test_errors_reach_the_output(kind):
    x = np.abs(tensor(1, 6, 20)) + 0.5
    assert_error_matches_spread(
        Node("onnx", "Reduce" + kind, version=18),
        [with_error(x), whole(1)],
        np.random.default_rng(0),
    )


def test_the_error_of_a_product_with_one_zero_is_finite_and_right():
    x = Value(np.array([0.0, 2.0, 3.0]), np.array([0.5, 0.1, 0.1]))
    assert compute(Node("onnx", "ReduceProd", version=18), [x], Arithmetic(0, 0, 0))[0].error == 3.0


def test_input_errors_reach_cumulative_sums():
    assert_error_matches_spread(
        Node("onnx", "CumSum", version=14),
        [with_error(tensor(1, 5, 20)), np.array(1)],
        np.random.default_rng(0),
    )


def half(x):
    return np.asarray(x).astype(np.float16).astype(np.float64)


@pytest.mark.parametrize("kind", ["Sum", "Mean", "CumSum"])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_error_of_a_float16_accumulator_is_estimated(kind, shift):
    x = half(np.random.default_rng(0).standard_normal((2000, 60)) + shift)
    partial = np.zeros(2000)
    sums = []
    for column in x.T:
        partial = half(partial + column)
        sums.append(partial)
    made = np.array(sums).T if kind == "CumSum" else partial / (60 if kind == "Mean" else 1)
    node = Node(
        "onnx",
        kind if kind == "CumSum" else "Reduce" + kind,
        {} if kind == "CumSum" else {"keepdims": 0},
        version=18,
    )
    stated = compute(node, [x.astype(np.float32), np.array([1])], Arithmetic(0.0, 2.0**-11, 0.0))[0]
    off, error = (np.sqrt(np.mean(np.square(one))) for one in (made - stated.array, stated.error))
    assert off / 3 < error < off * 3


def test_repeated_values_added_in_float16_have_the_larger_correlated_error():
    few = half(np.random.default_rng(0).random((500, 4)) + 1.0)
    x = few[:, np.random.default_rng(1).integers(0, 4, 200)]
    partial = np.zeros(500)
    for column in x.T:
        partial = half(partial + column)
    node = Node("onnx", "ReduceSum", {"keepdims": 0}, version=18)
    stated = compute(node, [x.astype(np.float32), np.array([1])], Arithmetic(0.0, 2.0**-11, 0.0))
    off, error = (
        np.sqrt(np.mean(np.square(one))) for one in (partial - stated[0].array, stated[0].error)
    )
    independent = 2.0**-11 * np.sqrt(200 / 6.0) * np.sqrt(np.mean(np.square(np.sum(x, axis=1))))
    assert off / 3 < error < off * 3 and off > independent
