"""Operators that decide, against onnxruntime; equal values and near ties may go either way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_references import arrays, assert_equals_onnxruntime, run_onnxruntime

from goldwatch.operators import CannotCompute, Node, Value, check, compute
from goldwatch.operators.comparing_and_rounding import reach


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(*numbers):
    return np.array(numbers, np.int64)


def wrong(node, inputs, *outputs):
    """Return for each output which elements do not follow, as lists."""
    return [None if one is None else one.tolist() for one in check(node, inputs, list(outputs))]


COMPARISONS = ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"]


@pytest.mark.parametrize("kind", COMPARISONS)
def test_comparisons_equal_onnxruntime(kind):
    a = np.float32([1, 2, 3, np.nan, 5])
    assert_equals_onnxruntime(kind, [a, np.float32([[1], [3]])], tolerance=0)
    assert_equals_onnxruntime(kind, [np.array([1, 2, 3]), np.array([1, 3, 2])], tolerance=0)


@pytest.mark.parametrize("dialect", ["tensorflow", "ascend"])
def test_tensorflow_and_ascend_comparisons_equal_numpy(dialect):
    a, b = np.float32([1, 2, 3]), np.float32([2, 2, 2])
    right = {
        "Greater": a > b,
        "GreaterEqual": a >= b,
        "Less": a < b,
        "LessEqual": a <= b,
        "Equal": a == b,
        "NotEqual": a != b,
    }
    for kind, expected in right.items():
        assert arrays(Node(dialect, kind), [a, b])[0].tolist() == expected.tolist()


def test_comparisons_near_a_tie_are_not_called_wrong():
    node = Node("ascend", "GreaterEqual")
    a, b = np.float32([1, 1.001, 2]), np.float32([1, 1, 1])
    assert wrong(node, [a, b], np.array([0, 0, 0])) == [[True, True, True]]
    assert wrong(node, [a, b], np.array([1, 1, 1])) == [[False] * 3]
    erring = Value(a, np.full(3, 1e-3))
    assert wrong(node, [erring, b], np.array([0, 0, 0])) == [[False, False, True]]
    assert wrong(node, [a, Value(b, np.full(3, 1e-3))], np.array([0, 0, 0])) == [
        [False, False, True]
    ]
    assert wrong(Node("onnx", "Equal", version=13), [erring, b], np.array([0, 1, 1])) == [
        [False, False, True]
    ]


def test_an_output_of_another_size_is_wrong_throughout():
    assert wrong(Node("ascend", "Less"), [tensor(1, 3), tensor(2, 3)], np.array([1, 0])) == [
        [True, True]
    ]
    assert wrong(Node("ascend", "Less"), [tensor(1, 3), tensor(2, 3)], None) == [None]


@pytest.mark.parametrize("dialect", ["caffe", "ascend"])
def test_threshold_decides_and_near_ties_are_not_called_wrong(dialect):
    node = Node(dialect, "Threshold", {"threshold": 0.5})
    x = np.float32([0.4, 0.5, 0.6])
    assert arrays(node, [x])[0].tolist() == [0, 0, 1]
    assert wrong(node, [x], np.float32([1, 0, 1])) == [[True, False, False]]
    assert wrong(node, [Value(x, np.full(3, 0.01))], np.float32([1, 1, 0.5])) == [
        [True, False, True]
    ]


@pytest.mark.parametrize("kind", ["Round", "Floor", "Ceil", "Sign"])
def test_rounding_operators_equal_onnxruntime(kind):
    assert_equals_onnxruntime(kind, [np.float32([-2.5, -1.5, -0.2, 0, 0.5, 1.5, 2.7])], tolerance=0)


@pytest.mark.parametrize("kind", ["Round", "Floor", "Ceil", "Sign"])
def test_rounding_operators_near_a_tie_are_not_called_wrong(kind):
    near = {"Round": 2.499, "Floor": 2.999, "Ceil": 3.001, "Sign": 1e-3}[kind]
    sides = {"Round": (2, 3), "Floor": (2, 3), "Ceil": (3, 4), "Sign": (0, 1)}[kind]
    node, x = Node("ascend", kind), np.float32([near, near, 2.25])
    own = float(arrays(node, [x])[0][0])
    settled = float(arrays(node, [np.float32([2.25])])[0][0])
    for side in sides:
        assert wrong(node, [x], np.float32([side, side, settled]))[0] == [
            side != own,
            side != own,
            False,
        ]
        assert wrong(node, [Value(x, np.full(3, 1e-3))], np.float32([side, side, settled + 1]))[
            0
        ] == [False, False, True]


def test_rounding_to_decimals_is_refused():
    with pytest.raises(CannotCompute, match="2 decimals"):
        compute(Node("ascend", "Round", {"decimals": 2}), [tensor(1, 3)])


def test_logical_operators_and_tests_for_nan_and_inf_equal_onnxruntime():
    a, b = np.array([True, True, False]), np.array([[True], [False]])
    for kind in ("And", "Or", "Xor"):
        assert_equals_onnxruntime(kind, [a, b], tolerance=0)
    assert_equals_onnxruntime("Not", [a], tolerance=0)
    x = np.float32([1, np.nan, np.inf, -np.inf])
    assert_equals_onnxruntime("IsNaN", [x], tolerance=0)
    assert_equals_onnxruntime("IsInf", [x], tolerance=0)
    assert_equals_onnxruntime("IsInf", [x], {"detect_negative": 0}, tolerance=0)
    for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        assert_equals_onnxruntime(
            kind, [np.array([6, 5], np.int32), np.array([3, 3], np.int32)], {}, 18, tolerance=0
        )
    for dialect in ("tensorflow", "ascend"):
        assert arrays(Node(dialect, "LogicalAnd"), [a, b])[0].tolist() == (a & b).tolist()
        assert arrays(Node(dialect, "LogicalNot"), [a])[0].tolist() == (~a).tolist()
        assert arrays(Node(dialect, "IsFinite"), [x])[0].tolist() == [True, False, False, False]
    y = np.float32([[0, 1], [2, 0]])
    assert_equals_onnxruntime("NonZero", [y], tolerance=0)
    assert arrays(Node("tensorflow", "Where"), [y])[0].tolist() == [[0, 1], [1, 0]]


@settings(max_examples=60)
@given(st.data())
def test_arg_max_and_arg_min_equal_onnxruntime(data):
    kind = data.draw(st.sampled_from(["ArgMax", "ArgMin"]))
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    attributes = {
        "axis": data.draw(st.integers(-len(shape), len(shape) - 1)),
        "keepdims": data.draw(st.integers(0, 1)),
        "select_last_index": data.draw(st.integers(0, 1)),
    }
    x = (
        np.random.default_rng(data.draw(st.integers(0, 999)))
        .integers(0, 4, shape)
        .astype(data.draw(st.sampled_from(["float32", "int32"])))
    )
    assert_equals_onnxruntime(kind, [x], attributes, 13, tolerance=0)
    # Equal values may be chosen in any order, whatever is asked for.
    node = Node("onnx", kind, attributes, version=13)
    other = run_onnxruntime(
        kind, [x], {**attributes, "select_last_index": 1 - attributes["select_last_index"]}, 13
    )[0]
    assert not check(node, [x], [other])[0].any()


def test_arg_max_near_a_tie_is_not_called_wrong():
    node = Node("onnx", "ArgMax", {"axis": 1, "keepdims": 0}, version=13)
    x = np.float32([[1, 3, 2.999], [3, 1, 2]])
    assert wrong(node, [x], whole(1, 0)) == [[False, False]]
    assert wrong(node, [x], whole(2, 2)) == [[True, True]]
    assert wrong(node, [Value(x, np.full((2, 3), 1e-3))], whole(2, 2)) == [[False, True]]
    assert wrong(node, [x], whole(3, -1)) == [[True, True]]
    smallest = Node("onnx", "ArgMin", {"axis": 1}, version=13)
    assert wrong(smallest, [-x], whole(1, 0)) == [[False, False]]
    assert wrong(smallest, [Value(-x, np.full((2, 3), 1e-3))], whole(2, 2)) == [[False, True]]


def test_arg_max_of_rows_with_nan_is_not_judged():
    node = Node("onnx", "ArgMax", {"axis": 1, "keepdims": 0}, version=13)
    assert wrong(node, [np.float32([[1, np.nan], [1, 2]])], whole(0, 0)) == [[False, True]]


def test_tensorflow_and_ascend_arg_max_equals_numpy():
    x = tensor(1, 2, 5)
    right = x.argmax(1)
    for node, inputs in (
        (Node("tensorflow", "ArgMax"), [x, whole(1)]),
        (Node("ascend", "ArgMaxV2"), [x, whole(1)]),
        (Node("ascend", "ArgMaxD", {"dimension": 1}), [x]),
    ):
        assert arrays(node, inputs)[0].tolist() == right.tolist()
        assert not check(node, inputs, [right])[0].any()
    index, value = arrays(
        Node("ascend", "ArgMinWithValue", {"dimension": 1, "keep_dims": True}), [x]
    )
    assert (
        index.tolist() == x.argmin(1)[:, None].tolist()
        and value.tolist() == x.min(1)[:, None].tolist()
    )
    node = Node("ascend", "ArgMinWithValue", {"dimension": 1})
    assert wrong(node, [x], x.argmin(1), x.min(1)) == [[False] * 2] * 2
    assert wrong(node, [x], x.argmin(1), x.max(1)) == [[False] * 2, [True] * 2]
    assert wrong(node, [x], None, x.max(1)) == [None, [True] * 2]
    with pytest.raises(CannotCompute, match="dimension"):
        compute(Node("ascend", "ArgMaxD"), [x])


@settings(max_examples=60)
@given(st.data())
def test_top_k_equals_onnxruntime(data):
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    count = data.draw(st.integers(1, shape[axis]))
    attributes = {"axis": axis, "largest": data.draw(st.integers(0, 1)), "sorted": 1}
    x = (
        np.random.default_rng(data.draw(st.integers(0, 999)))
        .integers(0, 5, shape)
        .astype(np.float32)
    )
    assert_equals_onnxruntime("TopK", [x, whole(count)], attributes, 11, 2, tolerance=0)
    node = Node("onnx", "TopK", attributes, version=11)
    assert not any(
        one.any() for one in check(node, [x, whole(count)], arrays(node, [x, whole(count)]))
    )


def test_top_k_of_older_opsets_and_tensorflow_equals_the_new_one():
    x = tensor(1, 3, 5)
    right = arrays(Node("onnx", "TopK", {"axis": 1}, version=11), [x, whole(2)])
    for node, inputs in (
        (Node("onnx", "TopK", {"axis": 1, "k": 2}, version=1), [x]),
        (Node("tensorflow", "TopKV2"), [x, whole(2)]),
        (Node("tensorflow", "TopK", {"k": 2}), [x]),
        (Node("ascend", "TopKD", {"k": 2}), [x, np.zeros(10)]),
        (Node("ascend", "TopKV2D"), [x, whole(2), np.zeros(10)]),
    ):
        for one, other in zip(arrays(node, inputs), right):
            np.testing.assert_array_equal(one, other)
    values, indices = arrays(Node("ascend", "Sort", {"axis": 0}), [x])
    np.testing.assert_array_equal(values, np.sort(x, 0))
    np.testing.assert_array_equal(np.take_along_axis(x, indices, 0), values)
    with pytest.raises(CannotCompute, match="takes 6 of 5"):
        compute(Node("tensorflow", "TopKV2"), [x, whole(6)])


def test_top_k_may_order_equal_values_in_any_way():
    node, inputs = Node("ascend", "TopKV2"), [np.float32([3, 1, 3, 2, 2]), whole(3)]
    assert wrong(node, inputs, np.float32([3, 3, 2]), whole(2, 0, 4)) == [[False] * 3, [False] * 3]
    assert wrong(node, inputs, np.float32([3, 3, 2]), whole(0, 0, 3)) == [
        [False] * 3,
        [False, True, False],
    ]
    assert wrong(node, inputs, np.float32([3, 3, 1]), whole(0, 2, 1)) == [
        [False] * 3,
        [False, False, True],
    ]
    assert wrong(node, inputs, np.float32([3, 2, 3]), whole(0, 3, 2)) == [
        [False] * 3,
        [False, True, True],
    ]
    assert wrong(node, inputs, np.float32([3, 3, 2]), None) == [[False] * 3, None]
    assert wrong(node, inputs, np.float32([3, 2, 2]), None) == [[False, True, False], None]


def test_top_k_values_must_belong_to_their_indices():
    node, inputs = Node("ascend", "TopKV2"), [np.float32([3, 1, 3.5, 2]), whole(2)]
    assert wrong(node, inputs, np.float32([3, 3.5]), whole(2, 0)) == [[True, True], [False, False]]
    assert wrong(node, inputs, np.float32([3.5, 3]), whole(2, 0)) == [
        [False, False],
        [False, False],
    ]


def test_top_k_near_a_tie_is_not_called_wrong():
    x = np.float32([3, 2.999, 1, 0])
    node, k = Node("ascend", "TopKV2"), whole(2)
    swapped = [np.float32([2.999, 3]), whole(1, 0)]
    assert wrong(node, [x, k], *swapped) == [[False, False], [True, True]]
    assert wrong(node, [Value(x, np.full(4, 1e-3)), k], *swapped) == [
        [False, False],
        [False, False],
    ]
    assert wrong(node, [Value(x, np.full(4, 1e-3)), k], np.float32([3, 1]), whole(0, 2)) == [
        [False, False],
        [False, True],
    ]


def test_unsorted_top_k_is_judged_as_a_set():
    node, inputs = (
        Node("tensorflow", "TopKV2", {"sorted": False}),
        [np.float32([3, 1, 4, 2]), whole(2)],
    )
    assert wrong(node, inputs, np.float32([3, 4]), whole(0, 2)) == [[False, False], [False, False]]
    assert wrong(node, inputs, np.float32([2, 4]), whole(3, 2)) == [[False, False], [True, False]]
    with pytest.raises(CannotCompute, match="without their indices"):
        check(node, inputs, [np.float32([3, 4]), None])


def slow_caffe_arg_max(x, top_k, out_max_val, axis):
    """The loops of BVLC Caffe's ArgMax layer."""
    if axis is None:
        rows = x.reshape(len(x), -1)
        order = [
            sorted(range(rows.shape[1]), key=lambda j, row=row: (-row[j], j))[:top_k]
            for row in rows
        ]
        if out_max_val:
            return np.array(
                [[indices, [row[j] for j in indices]] for row, indices in zip(rows, order)]
            )
        return np.array(order, float)[:, None]
    moved = np.moveaxis(x, axis, -1)
    made = np.zeros((*moved.shape[:-1], top_k))
    for place in np.ndindex(*moved.shape[:-1]):
        order = sorted(range(moved.shape[-1]), key=lambda j, row=moved[place]: (-row[j], j))[:top_k]
        made[place] = moved[place][order] if out_max_val else order
    return np.moveaxis(made, -1, axis)


@pytest.mark.parametrize("axis", [None, 1, -1])
@pytest.mark.parametrize("out_max_val", [False, True])
@pytest.mark.parametrize("top_k", [1, 3])
def test_caffe_arg_max_equals_plain_loops(axis, out_max_val, top_k):
    x = tensor(1, 2, 5, 4)
    attributes = {
        "top_k": top_k,
        "out_max_val": out_max_val,
        **({} if axis is None else {"axis": axis}),
    }
    node = Node("caffe", "ArgMax", attributes)
    right = slow_caffe_arg_max(x, top_k, out_max_val, axis)
    made = arrays(node, [x])[0]
    assert made.shape == right.shape
    np.testing.assert_array_equal(made, right.astype(np.float32))
    assert not check(node, [x], [made])[0].any()
    assert check(node, [x], [np.roll(made, 1, 0)])[0].any()


@pytest.mark.parametrize("opset", [11, 13])
def test_hardmax_equals_onnxruntime(opset):
    x = np.random.default_rng(0).integers(0, 4, (2, 3, 4)).astype(np.float32)
    assert_equals_onnxruntime("Hardmax", [x], {}, opset, tolerance=0)
    assert_equals_onnxruntime("Hardmax", [x], {"axis": 1}, opset, tolerance=0)
    node = Node("onnx", "Hardmax", version=opset)
    made = arrays(node, [x])[0]
    assert not check(node, [x], [made])[0].any()
    assert (
        check(node, [x], [np.roll(made, 1, -1)])[0].any() and check(node, [x], [made * 2])[0].all()
    )


def test_hardmax_near_a_tie_is_not_called_wrong():
    node, x = Node("onnx", "Hardmax", version=13), np.float32([[1, 1.001, 0]])
    other = np.float32([[1, 0, 0]])
    assert check(node, [x], [other])[0].all()
    assert not check(node, [Value(x, np.full((1, 3), 1e-3))], [other])[0].any()


@settings(max_examples=25)
@given(st.integers(0, 2**16))
def test_outputs_that_follow_from_inputs_within_their_errors_are_not_called_wrong(seed):
    """What follows from inputs that err by their errors is not called wrong; what is far from it
    is.
    """
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((4, 50))
    value = Value(x, np.full(x.shape, 0.05))
    erring = x + 0.05 * generator.standard_normal(x.shape)
    other = generator.standard_normal(x.shape)
    for node, more in (
        (Node("onnx", "ArgMax", {"axis": 1}, version=13), []),
        (Node("onnx", "TopK", {"axis": 1}, version=11), [whole(10)]),
        (Node("onnx", "Round", version=11), []),
        (Node("onnx", "Greater", version=13), [np.zeros((4, 50))]),
        (Node("onnx", "Cast", {"to": 6}, version=13), []),
    ):
        made = check(node, [value, *more], arrays(node, [erring, *more]))
        assert not made[-1].any(), node.type
        assert check(node, [value, *more], arrays(node, [other, *more]))[-1].any(), node.type


def test_the_largest_likely_error_grows_with_the_number_of_values():
    assert reach(Value(np.zeros(3))) == 0
    x = np.random.default_rng(0).standard_normal(1000000)
    far = reach(Value(np.zeros(1000000), np.ones(1)))
    assert np.abs(x).max() < far < 8
