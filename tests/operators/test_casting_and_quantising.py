"""Casts and quantisation against onnxruntime and plain loops; integers near a tie may go either
way.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.defs import onnx_opset_version
from operator_references import EXACT, arrays, assert_equals_onnxruntime, run_onnxruntime

from goldwatch.operators import Arithmetic, CannotCompute, Node, Value, check, compute

TYPES = ["float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"]
ONNX_CODE = {
    "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8, "int16": TensorProto.INT16, "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL, "bfloat16": TensorProto.BFLOAT16,
}  # fmt: skip
# TensorFlow's types.proto and GE's enumeration of data types, written down once more.
TENSORFLOW_CODE = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "int64": 9,
    "bool": 10,
    "float16": 19,
}
GE_CODE = {
    "float32": 0,
    "float16": 1,
    "int8": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 6,
    "int64": 9,
    "float64": 11,
    "bool": 12,
}


EDGES = [0, -0.0, 448, 464, 465, -500, 1e9, np.inf, -np.inf, np.nan, 240, 248, 57344, 61440, 61441,
         2.0**-9, 2.0**-10, 3 * 2.0**-11, 3e38, 1.5 * 2.0**-127, 3.0, 1.5]  # fmt: skip


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("target", [
    "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "up", "down", "nearest",
])  # fmt: skip
def test_casts_to_floats_of_8_bits_equal_the_reference(target, saturate):
    reference = pytest.importorskip("onnx.reference").ReferenceEvaluator
    random = np.random.default_rng(0)
    x = random.standard_normal(2000) * 10.0 ** random.uniform(-6, 6, 2000)
    x = np.concatenate([x, EDGES]).astype(np.float32)
    attributes = {"saturate": saturate}
    if target.islower():
        x, attributes["round_mode"], target = np.abs(x), target, "FLOAT8E8M0"
    if not hasattr(TensorProto, target):
        pytest.skip("this onnx has no " + target)
    attributes["to"] = int(getattr(TensorProto, target))
    ends = [helper.make_tensor_value_info(name, kind, x.shape)
            for name, kind in (("x", 1), ("y", attributes["to"]))]  # fmt: skip
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], **attributes)], "g",
                              ends[:1], ends[1:])  # fmt: skip
    opset = 24 if "round_mode" in attributes else 19
    try:
        run = reference(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))
        (right,) = run.run(None, {"x": x})
    except (NotImplementedError, RuntimeError, ValueError):
        # onnx for Python 3.7 ends at opset 19; from opset 24 on all of these are there.
        if onnx_opset_version() >= 24:
            raise
        pytest.skip("this onnx does not compute it")
    if onnx_opset_version() < 24 and (right.dtype.names or right.dtype.kind == "u"):
        pytest.skip("this onnx has no type of 8-bit floats and gives their codes")
    right = right.astype(np.float32)
    np.testing.assert_array_equal(arrays(Node("onnx", "Cast", attributes), [x])[0], right)
    for value in (1, 0):
        wrong = np.where(np.arange(x.size) < value, 3e4, right)
        node = Node("onnx", "Cast", attributes)
        assert int(check(node, [x], [wrong])[0].sum()) == value


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_casts_equal_onnxruntime(source, target):
    unsigned = "uint8" in (source, target)
    x = (np.random.default_rng(0).uniform(0 if unsigned else -100, 100, 500)).astype(source)
    assert_equals_onnxruntime("Cast", [x], {"to": ONNX_CODE[target]}, 13, tolerance=0)
    right = arrays(Node("onnx", "Cast", {"to": ONNX_CODE[target]}), [x])[0]
    for node in (
        Node("tensorflow", "Cast", {"DstT": TENSORFLOW_CODE[target]}),
        Node("ascend", "Cast", {"dst_type": GE_CODE[target]}),
        Node("ascend", "Cast", {"dst_type": target}),
        Node(
            "onnx",
            "Cast",
            {"to": target.upper().replace("FLOAT32", "FLOAT").replace("FLOAT64", "DOUBLE")},
            version=1,
        ),
    ):
        made = arrays(node, [x])[0]
        np.testing.assert_array_equal(made, right)
        assert made.dtype == right.dtype
        assert not check(node, [x], [made])[0].any()


def test_casts_to_float16_and_bfloat16_round_to_nearest():
    x = np.float32([1 + 2.0**-11, 1 + 3 * 2.0**-11, 1e6, np.nan, -1e-9])
    made = arrays(Node("onnx", "Cast", {"to": TensorProto.FLOAT16}), [x])[0]
    np.testing.assert_array_equal(made, np.float32([1, 1 + 2.0**-9, np.inf, np.nan, -0.0]))
    x = np.float32([1 + 2.0**-8, 1 + 3 * 2.0**-8, np.nan, np.inf, 3.0])
    made = arrays(Node("ascend", "Cast", {"dst_type": 27}), [x])[0]
    np.testing.assert_array_equal(made, np.float32([1, 1 + 2.0**-6, np.nan, np.inf, 3.0]))


def test_casts_to_unknown_types_are_refused():
    for node in (
        Node("ascend", "Cast", {"dst_type": 35}),
        Node("tensorflow", "Cast", {"DstT": "complex64"}),
        Node("ascend", "Cast"),
    ):
        with pytest.raises(CannotCompute):
            compute(node, [np.ones(3)])
    with pytest.raises(CannotCompute, match="cuts fractions off"):
        compute(Node("tensorflow", "Cast", {"DstT": 19, "Truncate": True}), [np.ones(3)])


def test_casts_near_a_tie_may_round_either_way():
    node = Node("ascend", "Cast", {"dst_type": 3})
    x = np.float32([1.999, 3.0, 2.5])
    erring = Value(x, np.full(3, 1e-3))
    assert check(node, [erring], [np.array([2, 2, 2])])[0].tolist() == [False, False, False]
    assert check(node, [erring], [np.array([1, 3, 3])])[0].tolist() == [False, False, True]
    assert check(node, [x], [np.array([2, 3, 2])])[0].tolist() == [True, False, False]


def test_values_that_a_type_cannot_hold_may_become_anything():
    node = Node("ascend", "Cast", {"dst_type": 2})
    x = np.float32([300, np.nan, -np.inf, 127.5, 128])
    assert (
        check(node, [x], [np.array([44, 0, -128, 127, -128], np.int8)])[0].tolist() == [False] * 5
    )
    assert check(node, [x], [np.array([44, 0, -128, 126, -128], np.int8)])[0].tolist() == [
        False,
        False,
        False,
        True,
        False,
    ]
    whole = np.array([300, 5], np.int32)
    assert check(node, [whole], [np.array([0, 5], np.int8)])[0].tolist() == [False, False]
    assert check(node, [whole], [np.array([0, 4], np.int8)])[0].tolist() == [False, True]


def test_casts_to_bool_near_zero_may_go_either_way():
    node = Node("ascend", "Cast", {"dst_type": 12})
    x = np.float32([0, 1e-5, 1])
    assert check(node, [x], [np.array([0, 1, 1])])[0].tolist() == [False] * 3
    assert check(node, [x], [np.array([1, 0, 0])])[0].tolist() == [True] * 3
    assert check(node, [Value(x, np.full(3, 1e-5))], [np.array([1, 0, 0])])[0].tolist() == [
        False,
        False,
        True,
    ]


def test_a_cast_of_an_inexact_input_to_a_narrower_float_may_round_either_way():
    node = Node("ascend", "Cast", {"dst_type": 1})
    x = np.float32([1 + 2.0**-11 - 1e-6, 2.0])
    up = np.float32([1 + 2.0**-10, 2.0])
    assert check(node, [x], [up])[0].tolist() == [True, False]
    assert check(node, [Value(x, np.full(2, 1e-6))], [up])[0].tolist() == [False, False]


def test_the_error_of_a_cast_to_integers_is_their_spread():
    generator = np.random.default_rng(0)
    x = generator.uniform(-5, 5, 300)
    node = Node("onnx", "Cast", {"to": TensorProto.INT32})
    stated = compute(node, [Value(x, np.full(300, 0.2))], EXACT)[0]
    results = np.array(
        [arrays(node, [x + 0.2 * generator.standard_normal(300)])[0] for _ in range(300)], float
    )
    rms = np.sqrt(np.mean((results - stated.array) ** 2))
    assert rms / 2 < np.sqrt(np.mean(stated.error**2)) < rms * 2


def test_the_error_of_a_cast_to_a_narrower_float_includes_one_rounding():
    x = np.float32([1.0, 3.0])
    node = Node("onnx", "Cast", {"to": TensorProto.FLOAT16})
    assert compute(node, [x])[0].error is None
    made = compute(node, [Value(x, np.full(2, 1e-9))])[0]
    np.testing.assert_allclose(made.error, x * 2.0**-11 / np.sqrt(3), rtol=1e-3)


@settings(max_examples=40)
@given(st.data())
def test_linear_quantisation_equals_onnxruntime(data):
    dtype = data.draw(st.sampled_from(["int8", "uint8"]))
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    many = data.draw(st.booleans())
    generator = np.random.default_rng(data.draw(st.integers(0, 999)))
    x = generator.uniform(-20, 20, shape).astype(np.float32)
    scale = generator.uniform(0.01, 0.5, shape[axis] if many else ()).astype(np.float32)
    zero = generator.integers(0, 100, scale.shape).astype(dtype)
    scale, zero = (np.asarray(one) for one in (scale, zero))
    attributes = {"axis": axis}
    assert_equals_onnxruntime("QuantizeLinear", [x, scale, zero], attributes, 13, tolerance=0)
    node = Node("onnx", "QuantizeLinear", attributes, version=13)
    whole = arrays(node, [x, scale, zero])[0]
    assert whole.dtype == dtype and not check(node, [x, scale, zero], [whole])[0].any()
    assert check(node, [x, scale, zero], [whole ^ 1])[0].all()
    assert_equals_onnxruntime(
        "DequantizeLinear", [whole, scale, zero], attributes, 13, tolerance=1e-6
    )


def test_linear_quantisation_needs_no_zero_point():
    x, scale = np.float32([0.1, 3, 300]), np.array(0.5, np.float32)
    assert_equals_onnxruntime("QuantizeLinear", [x, scale], {}, 13, tolerance=0)
    with pytest.raises(CannotCompute, match="scales of the shape"):
        compute(Node("onnx", "QuantizeLinear", {"block_size": 2}, version=21), [x, scale])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("length", [6, 5])
def test_linear_quantisation_in_blocks_equals_onnxruntime(axis, length):
    generator = np.random.default_rng(0)
    shape, blocks = [2, 2, 2], [2, 2, 2]
    shape[axis], blocks[axis] = length, 2
    x = generator.uniform(-20, 20, shape).astype(np.float32)
    scale = generator.uniform(0.1, 0.5, blocks).astype(np.float32)
    zero = generator.integers(0, 100, blocks).astype(np.uint8)
    attributes = {"axis": axis, "block_size": 3}
    assert_equals_onnxruntime("QuantizeLinear", [x, scale, zero], attributes, 21, tolerance=0)
    node = Node("onnx", "QuantizeLinear", attributes, version=21)
    whole = arrays(node, [x, scale, zero])[0]
    assert_equals_onnxruntime(
        "DequantizeLinear", [whole, scale, zero], attributes, 21, tolerance=1e-6
    )


def test_linear_quantisation_near_a_tie_may_round_either_way():
    node, scale = Node("onnx", "QuantizeLinear", version=13), np.array(1, np.float32)
    x = np.float32([2.4999, 2.25])
    up = np.array([3, 3], np.uint8)
    assert check(node, [x, scale], [up])[0].tolist() == [True, True]
    assert check(node, [Value(x, np.full(2, 1e-4)), scale], [up])[0].tolist() == [False, True]
    in_half = Arithmetic(intermediate=2.0**-11)
    assert check(node, [x, scale], [up], in_half)[0].tolist() == [False, True]


@pytest.mark.parametrize("low, high", [(-3, 5), (1, 4), (-4, -1)])
def test_dynamic_quantisation_equals_onnxruntime(low, high):
    x = np.random.default_rng(0).uniform(low, high, 100).astype(np.float32)
    right = run_onnxruntime("DynamicQuantizeLinear", [x], {}, 11, 3)
    node = Node("onnx", "DynamicQuantizeLinear", version=11, outputs=3)
    made = arrays(node, [x])
    assert np.mean(made[0] != right[0]) < 0.05 and made[2] == right[2]
    np.testing.assert_allclose(made[1], right[1], rtol=1e-6)
    assert not any(np.any(one) for one in check(node, [x], right))
    other = [right[0] ^ 1, right[1] * np.float32(1.01), right[2] ^ 1]
    assert all(np.all(one) for one in check(node, [x], [other[0], other[1], right[2]])[:2])
    assert np.all(check(node, [x], [None, None, other[2]])[2])
    with pytest.raises(CannotCompute, match="zeros"):
        compute(node, [np.zeros_like(x)])


def slow_fake_quant(x, low, high, bits, narrow):
    """TensorFlow's rule for one value: the range is moved so that 0 is one of the steps."""
    first, last = (1 if narrow else 0), 2**bits - 1
    step = (high - low) / (last - first)
    zero = min(max(first - low / step, first), last)
    zero = int(zero + 0.5)
    bottom, top = (first - zero) * step, (last - zero) * step
    return int((min(max(x, bottom), top) - bottom) / step + 0.5) * step + bottom


@pytest.mark.parametrize("dialect", ["tensorflow", "ascend"])
@pytest.mark.parametrize("bits, narrow", [(8, False), (8, True), (4, False)])
def test_fake_quantisation_equals_plain_loops(dialect, bits, narrow):
    x = np.random.default_rng(0).uniform(-4, 6, 200).astype(np.float32)
    attributes = {"num_bits": bits, "narrow_range": narrow}
    right = np.array([slow_fake_quant(float(one), -2.5, 5.0, bits, narrow) for one in x])
    for node, inputs in (
        (Node(dialect, "FakeQuantWithMinMaxArgs", {**attributes, "min": -2.5, "max": 5.0}), [x]),
        (
            Node(dialect, "FakeQuantWithMinMaxVars", attributes),
            [x, np.float32(-2.5), np.float32(5)],
        ),
        (
            Node(dialect, "FakeQuantWithMinMaxVarsPerChannel", attributes),
            [x[:, None], np.float32([-2.5]), np.float32([5])],
        ),
    ):
        np.testing.assert_allclose(arrays(node, inputs)[0].ravel(), right, rtol=0, atol=1e-6)
        made = right.astype(np.float32).reshape(inputs[0].shape)
        assert not check(node, inputs, [made])[0].any()
        assert check(node, inputs, [made + np.float32(7.5 / 2**bits / 3)])[0].all()


@pytest.mark.parametrize(
    "mode, right",
    [
        ("Round", [2, 2, -2, 3]),
        ("Floor", [1, 2, -3, 2]),
        ("Ceil", [2, 3, -2, 3]),
        ("Truncate", [1, 2, -2, 2]),
    ],
)
def test_ascend_quant_rounds_by_its_mode(mode, right):
    x = np.float32([1.5, 2.5, -2.5, 2.75])
    for attributes in (
        {"scale": 1.0, "offset": 0.0},
        {"scale": -1.0, "offset": 0.0, "sqrt_mode": True},
    ):
        node = Node("ascend", "AscendQuant", {**attributes, "round_mode": mode})
        made = arrays(node, [x])[0]
        assert made.dtype == np.int8 and made.tolist() == right
        assert check(node, [x], [np.array(right) + 2])[0].all()


def test_ascend_quant_saturates_at_the_bounds_of_its_type():
    x = np.float32([1000, -1000, 3.2])
    assert arrays(Node("ascend", "AscendQuant", {"scale": 2.0, "offset": 1.0}), [x])[
        0
    ].tolist() == [127, -128, 7]
    assert arrays(
        Node("ascend", "AscendQuant", {"scale": 2.0, "offset": 1.0, "dst_type": 29}), [x]
    )[0].tolist() == [7, -8, 7]
    for wrong in (
        {"scale": 2.0},
        {"scale": 1.0, "offset": 0.0, "round_mode": "Hybrid"},
        {"scale": 1.0, "offset": 0.0, "dst_type": 34},
    ):
        with pytest.raises(CannotCompute):
            compute(Node("ascend", "AscendQuant", wrong), [x])


def test_quantisation_computed_in_float16_is_not_called_wrong():
    x = np.random.default_rng(0).uniform(-1, 1, 3000).astype(np.float16)
    scale, offset = np.float16(97.0), np.float16(3)
    made = np.clip(np.rint((x * scale).astype(np.float16) + offset), -128, 127)
    node = Node("ascend", "AscendQuant", {"scale": float(scale), "offset": float(offset)})
    assert not check(node, [x], [made], Arithmetic(intermediate=2.0**-11))[0].any()
    assert 0 < check(node, [x], [made], Arithmetic(intermediate=2.0**-24))[0].mean() < 0.1
    assert check(node, [x], [made + 1], Arithmetic(intermediate=2.0**-11))[0].mean() > 0.9


def test_ascend_dequant_multiplies_by_its_scales():
    x = np.arange(-12, 12, dtype=np.int32).reshape(2, 3, 4)
    scale = np.float32([0.5, 1.5, 0.25])
    right = x * scale[:, None].astype(np.float64)
    as_words = scale.view(np.uint32).astype(np.uint64)
    filled = np.concatenate([scale, np.zeros(13, np.float32)]).reshape(1, 1, 1, 1, 16)
    for scales in (scale, as_words, filled):
        np.testing.assert_array_equal(
            arrays(Node("ascend", "AscendDequant"), [x, scales])[0], right
        )
    np.testing.assert_array_equal(
        arrays(Node("ascend", "AscendDequant"), [x, scale[:1]])[0], x * 0.5
    )
    made = arrays(
        Node("ascend", "AscendDequant", {"sqrt_mode": True, "relu_flag": True}), [x, scale]
    )[0]
    np.testing.assert_array_equal(made, np.maximum(x * scale[:, None].astype(np.float64) ** 2, 0))
    last = Node("ascend", "AscendDequant", layouts=("NHWC",))
    np.testing.assert_array_equal(
        arrays(last, [np.moveaxis(x, 1, -1), scale])[0], np.moveaxis(right, 1, -1)
    )
    for scales in (as_words + np.uint64(1 << 32), scale[:2], np.array([1], np.int32)):
        with pytest.raises(CannotCompute):
            compute(Node("ascend", "AscendDequant"), [x, scales])
