"""Casts and quantisation, against onnxruntime and plain loops; whole numbers that are near a tie may go either way."""

from __future__ import annotations

import numpy as np
import pytest


from operating import EXACT, arrays, like_onnxruntime
from onnx import TensorProto

from goldwatch.operators import CannotCompute, Node, Value, check, compute

TYPES = ["float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"]
ONNX_CODE = {
    "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE, "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8, "int16": TensorProto.INT16, "int32": TensorProto.INT32, "int64": TensorProto.INT64, "bool": TensorProto.BOOL,
    "bfloat16": TensorProto.BFLOAT16,
}  # fmt: skip
# TensorFlow's types.proto and GE's enumeration of data types, written down once more.
TENSORFLOW_CODE = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "int64": 9, "bool": 10, "float16": 19}
GE_CODE = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "int64": 9, "float64": 11, "bool": 12}


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_casts_as_by_onnxruntime(source, target):
    unsigned = "uint8" in (source, target)
    x = (np.random.default_rng(0).uniform(0 if unsigned else -100, 100, 500)).astype(source)
    like_onnxruntime("Cast", [x], {"to": ONNX_CODE[target]}, 13, tolerance=0)
    right = arrays(Node("onnx", "Cast", {"to": ONNX_CODE[target]}), [x])[0]
    for node in (
        Node("tensorflow", "Cast", {"DstT": TENSORFLOW_CODE[target]}),
        Node("ascend", "Cast", {"dst_type": GE_CODE[target]}),
        Node("ascend", "Cast", {"dst_type": target}),
        Node("onnx", "Cast", {"to": target.upper().replace("FLOAT32", "FLOAT").replace("FLOAT64", "DOUBLE")}, version=1),
    ):
        made = arrays(node, [x])[0]
        np.testing.assert_array_equal(made, right)
        assert made.dtype == right.dtype
        assert not check(node, [x], [made])[0].any()


def test_float16_and_bfloat16_are_rounded_to_the_nearest():
    x = np.float32([1 + 2.0**-11, 1 + 3 * 2.0**-11, 1e6, np.nan, -1e-9])
    made = arrays(Node("onnx", "Cast", {"to": TensorProto.FLOAT16}), [x])[0]
    np.testing.assert_array_equal(made, np.float32([1, 1 + 2.0**-9, np.inf, np.nan, -0.0]))
    x = np.float32([1 + 2.0**-8, 1 + 3 * 2.0**-8, np.nan, np.inf, 3.0])
    made = arrays(Node("ascend", "Cast", {"dst_type": 27}), [x])[0]
    np.testing.assert_array_equal(made, np.float32([1, 1 + 2.0**-6, np.nan, np.inf, 3.0]))


def test_an_element_type_that_is_not_known_is_refused():
    for node in (Node("ascend", "Cast", {"dst_type": 35}), Node("tensorflow", "Cast", {"DstT": "complex64"}), Node("ascend", "Cast")):
        with pytest.raises(CannotCompute):
            compute(node, [np.ones(3)])
    with pytest.raises(CannotCompute, match="cuts fractions off"):
        compute(Node("tensorflow", "Cast", {"DstT": 19, "Truncate": True}), [np.ones(3)])


def test_casts_near_a_tie_go_either_way():
    node = Node("ascend", "Cast", {"dst_type": 3})
    x = np.float32([1.999, 3.0, 2.5])
    erring = Value(x, np.full(3, 1e-3))
    assert check(node, [erring], [np.array([2, 2, 2])])[0].tolist() == [False, False, False]
    assert check(node, [erring], [np.array([1, 3, 3])])[0].tolist() == [False, False, True]
    assert check(node, [x], [np.array([2, 3, 2])])[0].tolist() == [True, False, False]


def test_what_a_type_cannot_hold_may_become_anything():
    node = Node("ascend", "Cast", {"dst_type": 2})
    x = np.float32([300, np.nan, -np.inf, 127.5, 128])
    assert check(node, [x], [np.array([44, 0, -128, 127, -128], np.int8)])[0].tolist() == [False] * 5
    assert check(node, [x], [np.array([44, 0, -128, 126, -128], np.int8)])[0].tolist() == [False, False, False, True, False]
    whole = np.array([300, 5], np.int32)
    assert check(node, [whole], [np.array([0, 5], np.int8)])[0].tolist() == [False, False]
    assert check(node, [whole], [np.array([0, 4], np.int8)])[0].tolist() == [False, True]


def test_casts_to_bool_near_zero():
    node = Node("ascend", "Cast", {"dst_type": 12})
    x = np.float32([0, 1e-5, 1])
    assert check(node, [x], [np.array([0, 1, 1])])[0].tolist() == [False] * 3
    assert check(node, [x], [np.array([1, 0, 0])])[0].tolist() == [True] * 3
    assert check(node, [Value(x, np.full(3, 1e-5))], [np.array([1, 0, 0])])[0].tolist() == [False, False, True]


def test_a_narrower_float_may_be_rounded_the_other_way_where_the_input_errs():
    node = Node("ascend", "Cast", {"dst_type": 1})
    x = np.float32([1 + 2.0**-11 - 1e-6, 2.0])
    up = np.float32([1 + 2.0**-10, 2.0])
    assert check(node, [x], [up])[0].tolist() == [True, False]
    assert check(node, [Value(x, np.full(2, 1e-6))], [up])[0].tolist() == [False, False]


def test_the_error_of_whole_numbers_is_their_spread():
    generator = np.random.default_rng(0)
    x = generator.uniform(-5, 5, 300)
    node = Node("onnx", "Cast", {"to": TensorProto.INT32})
    stated = compute(node, [Value(x, np.full(300, 0.2))], EXACT)[0]
    results = np.array([arrays(node, [x + 0.2 * generator.standard_normal(300)])[0] for _ in range(300)], float)
    rms = np.sqrt(np.mean((results - stated.array) ** 2))
    assert rms / 2 < np.sqrt(np.mean(stated.error**2)) < rms * 2


def test_the_error_of_a_narrower_float_holds_one_rounding():
    x = np.float32([1.0, 3.0])
    node = Node("onnx", "Cast", {"to": TensorProto.FLOAT16})
    assert compute(node, [x])[0].error is None
    made = compute(node, [Value(x, np.full(2, 1e-9))])[0]
    np.testing.assert_allclose(made.error, x * 2.0**-11 / np.sqrt(3), rtol=1e-3)
