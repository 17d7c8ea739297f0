"""Operators of whole numbers and bits, against onnxruntime and the package onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.operators import ONNX, Node, check, compute

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

RANDOM = np.random.RandomState(3)


def of_runtime(kind, opset, inputs, given):
    import onnxruntime

    names = ["x%d" % at if value is not None else "" for at, value in enumerate(inputs)]
    feeds = {name: value for name, value in zip(names, inputs) if name}
    node = onnx.helper.make_node(kind, names, ["y"], **given)
    told = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
    ]
    graph = onnx.helper.make_graph([node], "one", told, [onnx.ValueInfoProto(name="y")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(["y"], feeds)[0]


def whole(low, high, shape, dtype):
    return RANDOM.randint(low, high, shape).astype(dtype)


BYTES, SIGNED = whole(0, 255, (2, 3, 5), np.uint8), whole(-128, 127, (2, 3, 5), np.int8)
IMAGE, FILTERS = whole(0, 255, (2, 4, 7, 6), np.uint8), whole(0, 255, (6, 2, 3, 2), np.uint8)
POINT = np.array(131, np.uint8)


@pytest.mark.parametrize(
    "kind, opset, inputs, given",
    [
        ("BitShift", 11, [BYTES, BYTES % 8], {"direction": "LEFT"}),
        ("BitShift", 11, [BYTES, BYTES[:, :1] % 8], {"direction": "RIGHT"}),
        ("BitwiseAnd", 18, [SIGNED, SIGNED[0, 0]], {}),
        ("BitwiseOr", 18, [SIGNED, SIGNED[:1]], {}),
        ("BitwiseXor", 18, [SIGNED, SIGNED[:, :1]], {}),
        ("BitwiseNot", 18, [SIGNED], {}),
        # Of uint8 by int8 its sums of pairs end at 16 bits on processors without VNNI.
        ("MatMulInteger", 10, [BYTES, BYTES.swapaxes(1, 2), POINT, np.array(7, np.uint8)], {}),
        (
            "MatMulInteger",
            10,
            [BYTES[0], BYTES[1].T, None, np.array([1, 255, 3], np.uint8)],
            {},
        ),
        ("MatMulInteger", 10, [BYTES[0], BYTES[1].T], {}),
        (
            "ConvInteger",
            10,
            [IMAGE, FILTERS, POINT, np.array(117, np.uint8)],
            {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]},
        ),
        ("ConvInteger", 10, [IMAGE, FILTERS], {"group": 2, "auto_pad": "SAME_LOWER"}),
        ("Compress", 11, [SIGNED, np.array([True, False, True])], {"axis": 1}),
        ("Compress", 11, [SIGNED, np.array([False, True])], {"axis": -3}),
        ("Compress", 11, [SIGNED.astype(np.float32), np.array([True, False, True, True])], {}),
        ("EyeLike", 9, [np.zeros((3, 5), np.float32)], {}),
        ("EyeLike", 9, [np.zeros((4, 3), np.int32)], {"k": -1, "dtype": 7}),
    ],
)
def test_results_are_those_of_onnxruntime_to_the_last_bit(kind, opset, inputs, given):
    (made,) = compute(Node(ONNX, kind, given, "n", opset), inputs)
    right = of_runtime(kind, opset, inputs, given)
    assert made.array.dtype == right.dtype and made.error is None
    np.testing.assert_array_equal(made.array, right)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_a_running_product_is_the_loops(exclusive, reverse):
    x = RANDOM.uniform(0.5, 1.5, (2, 5)).astype(np.float32)
    given = {"exclusive": exclusive, "reverse": reverse}
    (made,) = compute(Node(ONNX, "CumProd", given, "n", 26), [x, np.array(1)])
    right = np.ones((2, 5))
    for row in range(2):
        for at in range(5):
            taken = range(at + exclusive, 5) if reverse else range(at + 1 - exclusive)
            for other in taken:
                right[row, at] *= x[row, other]
    np.testing.assert_allclose(made.array, right, rtol=1e-6)


SCALES = [np.array(value, np.float32) for value in (0.03, 0.013, 0.9)]


@pytest.mark.parametrize(
    "kind, x, w, point, scales, more, given",
    [
        ("QLinearMatMul", BYTES[0], BYTES[1].T, POINT, SCALES[1], [], {}),
        (
            "QLinearMatMul",
            BYTES[0],
            BYTES[1].T,
            np.array([3, 250, 118], np.uint8),
            np.float32([0.01, 0.2, 0.05]),
            [],
            {},
        ),
        ("QLinearConv", IMAGE, FILTERS, POINT, SCALES[1], [], {"group": 2, "pads": [1, 0, 2, 1]}),
        (
            "QLinearConv",
            IMAGE,
            FILTERS,
            np.full(6, 131, np.uint8),
            np.linspace(0.01, 0.03, 6, dtype=np.float32),
            [whole(-9000, 9000, (6,), np.int32)],
            {"group": 2, "strides": [2, 1]},
        ),
    ],
)
def test_quantised_products_are_those_of_onnxruntime(kind, x, w, point, scales, more, given):
    inputs = [x, SCALES[0], POINT, w, scales, point, SCALES[2], np.array(97, np.uint8), *more]
    node = Node(ONNX, kind, given, "n", 10)
    (made,) = compute(node, inputs)
    right = of_runtime(kind, 10, inputs, given)
    assert made.array.dtype == right.dtype == np.uint8 and len(np.unique(right)) > 3
    np.testing.assert_array_equal(made.array, right)
    assert not check(node, inputs, [right])[0].any()
    # Next to a half, scales that are held in float16 take the other number.
    assert check(node, inputs, [right ^ 1])[0].mean() > 0.9
