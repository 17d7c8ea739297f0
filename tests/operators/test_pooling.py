"""Pooling against onnxruntime, OpenCV and the loops of Caffe and TensorFlow."""

from __future__ import annotations

import caffe_formulas
import cv2
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from operator_references import (
    arrays,
    assert_equals_onnxruntime,
    assert_error_matches_spread,
    assert_near,
    with_error,
)

from goldwatch.operators import CannotCompute, Node, Value, compute


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@settings(max_examples=80)
@given(st.data())
def test_onnx_pooling_equals_onnxruntime(data):
    axes = data.draw(st.integers(1, 3))

    def draw(low, high):
        return data.draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes))

    kind = data.draw(st.sampled_from(["MaxPool", "AveragePool", "LpPool"]))
    kernel, strides, sizes = draw(1, 3), draw(1, 3), draw(3, 8)
    attributes = {"kernel_shape": kernel, "strides": strides}
    outputs = 1
    opset = 19 if kind != "LpPool" else 11
    if kind == "MaxPool":
        attributes["dilations"] = dilations = draw(1, 2)
        outputs = data.draw(st.integers(1, 2))
        attributes["storage_order"] = (
            data.draw(st.integers(0, 1)) if outputs == 2 and axes == 2 else 0
        )
    else:
        dilations = [1] * axes
    if kind == "AveragePool":
        attributes["count_include_pad"] = data.draw(st.integers(0, 1))
    if kind == "LpPool":
        attributes["p"] = data.draw(st.integers(1, 3))
    else:
        attributes["ceil_mode"] = data.draw(st.integers(0, 1))
    mode = data.draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    pads = [0] * (2 * axes)
    if mode == "NOTSET":
        pads = [data.draw(st.integers(0, size - 1)) for size in kernel * 2]
        attributes["pads"] = pads
    else:
        assume(dilations == [1] * axes and not attributes.get("ceil_mode"))
        # onnxruntime pads by less than nothing there, or refuses to.
        assume(mode == "VALID" or all(size >= stride for size, stride in zip(kernel, strides)))
        attributes["auto_pad"] = mode
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations)]
    assume(all(r <= s for r, s in zip(reach, sizes)))
    assert_equals_onnxruntime(kind, [tensor(0, 2, 3, *sizes)], attributes, opset, outputs)


@pytest.mark.parametrize(
    "kind, entries", [("GlobalMaxPool", {}), ("GlobalAveragePool", {}), ("GlobalLpPool", {"p": 3})]
)
def test_global_pooling_equals_onnxruntime_in_every_layout(kind, entries):
    x = tensor(0, 2, 3, 5, 4)
    assert_equals_onnxruntime(kind, [x], entries)
    if kind == "GlobalAveragePool":
        right = x.mean((2, 3), keepdims=True)
        assert_near(arrays(Node("ascend", kind), [x])[0], right)
        turned = np.moveaxis(x, 1, -1)
        assert_near(
            arrays(Node("ascend", kind, layouts=("NHWC",)), [turned])[0], np.moveaxis(right, 1, -1)
        )
        assert_near(
            arrays(Node("caffe", "Pooling", {"pool": "AVE", "global_pooling": True}), [x])[0], right
        )
        assert_near(
            arrays(Node("ascend", "Pooling", {"mode": 1, "global_pooling": True}), [x])[0], right
        )
        assert_near(
            arrays(
                Node(
                    "ascend",
                    "AvgPoolV2",
                    {"ksize": [1] * 4, "strides": [1] * 4, "global_pooling": True},
                ),
                [x],
            )[0],
            right,
        )


WINDOWS = [
    ((3, 3), (2, 2), (0, 0)),
    ((3, 2), (2, 3), (1, 1)),
    ((2, 2), (2, 2), (1, 0)),
    ((5, 5), (3, 2), (2, 2)),
]


@pytest.mark.parametrize("kind", ["MAX", "AVE"])
@pytest.mark.parametrize("kernel, strides, pads", WINDOWS)
@pytest.mark.parametrize("sizes", [(7, 8), (10, 6), (8, 9)])
def test_caffe_and_ascend_pooling_equal_caffes_loops(kind, kernel, strides, pads, sizes):
    x = tensor(0, 2, 3, *sizes)
    right, mask = caffe_formulas.pool(x, kernel, strides, pads, kind)
    entries = {"pool": kind}
    for name, numbers in (("kernel", kernel), ("stride", strides), ("pad", pads)):
        entries[name + "_h"], entries[name + "_w"] = numbers
    made = arrays(Node("caffe", "Pooling", entries, outputs=2), [x])
    assert_near(made[0], right)
    if kind == "MAX":
        np.testing.assert_array_equal(made[1], mask)
    ascend = {
        "mode": int(kind == "AVE"),
        "window": list(kernel),
        "stride": list(strides),
        "pad": [pads[0]] * 2 + [pads[1]] * 2,
    }
    assert_near(arrays(Node("ascend", "Pooling", ascend), [x])[0], right)
    # Rounded down, as forks of Caffe may.
    for more in ({"round_mode": "FLOOR"}, {"ceil_mode": False}):
        made = arrays(Node("caffe", "Pooling", {**entries, **more}), [x])[0]
        counts = tuple(
            (size + 2 * pad - reach) // stride + 1
            for size, pad, reach, stride in zip(sizes, pads, kernel, strides)
        )
        assert made.shape[2:] == counts
        assert_near(made, right[:, :, : counts[0], : counts[1]])


@pytest.mark.parametrize("kind", ["MAX", "AVE"])
@pytest.mark.parametrize("kernel, stride, pad", [(3, 2, 0), (3, 2, 1), (2, 2, 0), (2, 2, 1)])
def test_caffe_pooling_equals_opencv(kind, kernel, stride, pad):
    x = tensor(0, 1, 3, 8, 8)
    text = """input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
    layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
            pooling_param { pool: %s kernel_size: %d stride: %d pad: %d } }""" % (
        kind,
        kernel,
        stride,
        pad,
    )
    net = cv2.dnn.readNetFromCaffe(np.frombuffer(text.encode(), np.uint8))
    net.setInput(x)
    entries = {"pool": kind, "kernel_size": [kernel], "stride": [stride], "pad": [pad]}
    made = arrays(Node("caffe", "Pooling", {**entries, "kernel_size": kernel}), [x])[0]
    assert_near(made, net.forward())


def slow_tensorflow(x, kernel, strides, pads, mean):
    """Pool [N, H, W, C] window by window."""
    if pads == "SAME":
        sizes = [-(-n // s) for n, s in zip(x.shape[1:3], strides)]
        before = [
            max((o - 1) * s + k - n, 0) // 2
            for o, s, k, n in zip(sizes, strides, kernel, x.shape[1:3])
        ]
    else:
        sizes, before = (
            [-(-(n - k + 1) // s) for n, k, s in zip(x.shape[1:3], kernel, strides)],
            [0, 0],
        )
    out = np.zeros((x.shape[0], *sizes, x.shape[3]))
    for row in range(sizes[0]):
        for column in range(sizes[1]):
            top, left = row * strides[0] - before[0], column * strides[1] - before[1]
            window = x[:, max(0, top) : top + kernel[0], max(0, left) : left + kernel[1]]
            out[:, row, column] = window.mean((1, 2), np.float64) if mean else window.max((1, 2))
    return out


@pytest.mark.parametrize("pads", ["SAME", "VALID"])
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("kernel, strides", [((3, 3), (2, 2)), ((2, 3), (1, 2)), ((1, 1), (2, 2))])
def test_tensorflow_pooling_equals_plain_loops(pads, mean, kernel, strides):
    x = tensor(0, 2, 7, 8, 3)
    right = slow_tensorflow(x, kernel, strides, pads, mean)
    first = np.moveaxis(x, -1, 1)
    entries = {"ksize": [1, *kernel, 1], "strides": [1, *strides, 1], "padding": pads}
    turned = {
        "ksize": [1, 1, *kernel],
        "strides": [1, 1, *strides],
        "padding": pads,
        "data_format": "NCHW",
    }
    for dialect in ("tensorflow", "ascend"):
        kind = "AvgPool" if mean else "MaxPool"
        assert_near(arrays(Node(dialect, kind, entries), [x])[0], right)
        assert_near(arrays(Node(dialect, kind, turned), [first])[0], np.moveaxis(right, -1, 1))
    kind = "AvgPoolV2" if mean else "MaxPoolV3"
    assert_near(
        arrays(Node("ascend", kind, {**turned, "padding_mode": pads}), [first])[0],
        np.moveaxis(right, -1, 1),
    )
    if not mean:
        inputs = [
            x,
            np.array(entries.pop("ksize"), np.int32),
            np.array(entries.pop("strides"), np.int32),
        ]
        assert_near(arrays(Node("tensorflow", "MaxPoolV2", entries), inputs)[0], right)


@pytest.mark.parametrize("ceil", [0, 1])
def test_ascend_pooling_with_onnx_pads_equals_onnxruntime(ceil):
    x = tensor(0, 1, 3, 8, 9)
    onnx = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1], "ceil_mode": ceil}
    ascend = {
        "ksize": [1, 1, 3, 3],
        "strides": [1, 1, 2, 2],
        "pads": [1, 1, 0, 1],
        "ceil_mode": bool(ceil),
    }
    assert_near(
        arrays(Node("ascend", "MaxPoolV3", ascend), [x])[0],
        arrays(Node("onnx", "MaxPool", onnx), [x])[0],
    )
    for included in (0, 1):
        onnx["count_include_pad"], ascend["exclusive"] = included, not included
        right = arrays(Node("onnx", "AveragePool", onnx, version=19), [x])[0]
        assert_near(arrays(Node("ascend", "AvgPoolV2", ascend), [x])[0], right)
    ascend["divisor_override"] = 4
    inner = arrays(Node("ascend", "AvgPoolV2", ascend), [x])[0][:, :, 1:3, 1:3]
    assert_near(inner, right[:, :, 1:3, 1:3] * 9 / 4)


@pytest.mark.parametrize(
    "node, says",
    [
        (Node("ascend", "MaxPoolV3", {"ksize": [1, 1, 2, 2]}), "strides"),
        (
            Node("tensorflow", "MaxPool", {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1]}),
            "padding",
        ),
        (Node("caffe", "Pooling", {"pool": "MEDIAN", "kernel_size": 2}), "MEDIAN"),
        (Node("caffe", "Pooling", {}), "kernel_size"),
        (Node("onnx", "MaxPool", {"kernel_shape": [9, 9]}), "fit"),
        # The third window of one element begins behind the input.
        (Node("caffe", "Pooling", {"kernel_size": 1, "stride": [3]}), "outside"),
    ],
)
def test_pooling_with_unknown_attributes_is_refused(node, says):
    with pytest.raises(CannotCompute, match=says):
        compute(node, [tensor(0, 1, 2, 5, 5)])


@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), (7, 9), (8, 10)])
def test_adaptive_average_pooling_equals_plain_loops(sizes):
    x = tensor(0, 2, 3, 7, 9)
    made = arrays(Node("ascend", "AdaptiveAvgPool2d", {"output_size": list(sizes)}), [x])[0]
    for row in range(sizes[0]):
        for column in range(sizes[1]):
            top, bottom = row * 7 // sizes[0], int(np.ceil((row + 1) * 7 / sizes[0]))
            left, right = column * 9 // sizes[1], int(np.ceil((column + 1) * 9 / sizes[1]))
            assert_near(made[:, :, row, column], x[:, :, top:bottom, left:right].mean((2, 3)))


def test_max_pooling_of_integers_stays_integer():
    x = np.arange(-50, 50, dtype=np.int8).reshape(1, 1, 10, 10)
    made = arrays(Node("onnx", "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}), [x])[0]
    assert made.dtype == np.int8 and made[0, 0, 0, 0] == -39


def test_nan_reaches_only_windows_that_hold_it():
    x = tensor(0, 1, 1, 4, 4)
    x[0, 0, 1, 1] = np.nan
    for kind in ("MaxPool", "AveragePool"):
        made = arrays(Node("onnx", kind, {"kernel_shape": [2, 2], "strides": [2, 2]}), [x])[0]
        np.testing.assert_array_equal(np.isnan(made[0, 0]), [[True, False], [False, False]])


def test_input_errors_reach_the_output_of_pooling():
    generator = np.random.default_rng(4)
    x = with_error(generator.standard_normal((2, 3, 9, 9)))
    window = {"kernel_shape": [3, 3], "strides": [2, 2]}
    assert_error_matches_spread(Node("onnx", "MaxPool", window), [x], generator)
    assert_error_matches_spread(
        Node("onnx", "AveragePool", {**window, "pads": [1] * 4, "count_include_pad": 1}),
        [x],
        generator,
    )
    for power in (1, 2, 3):
        assert_error_matches_spread(Node("onnx", "LpPool", {**window, "p": power}), [x], generator)
    assert_error_matches_spread(Node("onnx", "GlobalAveragePool"), [x], generator)
    assert_error_matches_spread(Node("onnx", "GlobalMaxPool"), [x], generator)
    assert_error_matches_spread(Node("onnx", "GlobalLpPool"), [x], generator)
    # One of four values that is not known well, and nearly the largest.
    array = np.zeros((1, 1, 2, 2))
    array[0, 0] = [[1.0, 0.99], [0.0, 0.0]]
    own = np.zeros((1, 1, 2, 2))
    own[0, 0, 0, 1] = 0.1
    for pads in ([0, 0, 0, 0], [1, 0, 0, 0]):
        made = compute(
            Node("onnx", "MaxPool", {"kernel_shape": [2, 2], "pads": pads}), [Value(array, own)]
        )[0]
        assert made.array[0, 0, -1, 0] == 1.0 and made.error[0, 0, -1, 0] == 0.1
