"""Convolutions and their transposes, against onnxruntime, OpenCV and slow formulas."""

from __future__ import annotations

import itertools

import caffe_formulas
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from operator_references import (
    EXACT,
    arrays,
    assert_equals_onnxruntime,
    assert_error_matches_spread,
    assert_near,
    with_error,
)

from goldwatch.operators import Arithmetic, CannotCompute, Node, Value, compute


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@settings(max_examples=60)
@given(st.data())
def test_onnx_convolutions_equal_onnxruntime(data):
    axes = data.draw(st.integers(1, 3))

    def draw(low, high):
        return data.draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes))

    groups, per_group, multiplier = (data.draw(st.integers(1, 3)) for _ in range(3))
    kernel, strides, dilations, sizes = draw(1, 3), draw(1, 3), draw(1, 2), draw(3, 9)
    attributes = {
        "strides": strides,
        "dilations": dilations,
        "group": groups,
        "kernel_shape": kernel,
    }
    mode = data.draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    pads = draw(0, 2) + draw(0, 2)
    if mode == "NOTSET":
        attributes["pads"] = pads
    else:
        # onnxruntime has no SAME with dilation.
        assume(mode == "VALID" or dilations == [1] * axes)
        # Where a stride leaves elements out, onnxruntime of Python 3.7's time crops the input.
        assume(
            mode == "VALID"
            or all((-(-s // t) - 1) * t + k >= s for s, t, k in zip(sizes, strides, kernel))
        )
        attributes["auto_pad"] = mode
        pads = [0] * len(pads)
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations)]
    assume(
        mode.startswith("SAME")
        or all(r <= s + b + e for r, s, b, e in zip(reach, sizes, pads, pads[axes:]))
    )
    x = tensor(0, data.draw(st.integers(1, 2)), groups * per_group, *sizes)
    w = tensor(1, groups * multiplier, per_group, *kernel)
    bias = [tensor(2, len(w))] if data.draw(st.booleans()) else []
    assert_equals_onnxruntime("Conv", [x, w, *bias], attributes)


@settings(max_examples=60)
@given(st.data())
def test_onnx_transposed_convolutions_equal_onnxruntime(data):
    axes = data.draw(st.integers(1, 2))

    def draw(low, high):
        return data.draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes))

    groups, per_group, multiplier = (data.draw(st.integers(1, 2)) for _ in range(3))
    kernel, strides, dilations, sizes = draw(1, 4), draw(1, 3), draw(1, 2), draw(2, 6)
    attributes = {"strides": strides, "dilations": dilations, "group": groups}
    extra = [data.draw(st.integers(0, stride - 1)) for stride in strides]
    full = [
        s * (n - 1) + (k - 1) * d + 1 + e
        for s, n, k, d, e in zip(strides, sizes, kernel, dilations, extra)
    ]
    way = data.draw(st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER", "shape"]))
    attributes["output_padding"] = extra
    if way == "pads":
        attributes["pads"] = draw(0, 1) + draw(0, 1)
        assume(all(size > 2 for size in full))
    elif way == "shape":
        attributes["output_shape"] = [max(1, size - data.draw(st.integers(0, 2))) for size in full]
    else:
        assume(all(size >= stride * length for size, stride, length in zip(full, strides, sizes)))
        attributes["auto_pad"] = way
    x = tensor(0, 1, groups * per_group, *sizes)
    w = tensor(1, groups * per_group, multiplier, *kernel)
    assert_equals_onnxruntime("ConvTranspose", [x, w, tensor(2, groups * multiplier)], attributes)


def slow_convolution(x, w, strides, dilations, pads):
    """Convolve [N, H, W, C] with [h, w, C, O], as TensorFlow writes it down, with SAME or VALID."""
    kernel = w.shape[:2]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    if pads == "SAME":
        sizes = [-(-n // s) for n, s in zip(x.shape[1:3], strides)]
        total = [
            max((o - 1) * s + r - n, 0) for o, s, r, n in zip(sizes, strides, reach, x.shape[1:3])
        ]
        x = np.pad(x, [(0, 0)] + [(t // 2, t - t // 2) for t in total] + [(0, 0)])
    else:
        sizes = [-(-(n - r + 1) // s) for n, r, s in zip(x.shape[1:3], reach, strides)]
    out = np.zeros((x.shape[0], *sizes, w.shape[3]))
    for row, column in itertools.product(*map(range, sizes)):
        for i, j in itertools.product(*map(range, kernel)):
            out[:, row, column] += (
                x[:, row * strides[0] + i * dilations[0], column * strides[1] + j * dilations[1]]
                @ w[i, j]
            )
    return out


def last(array):
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def first(array):
    return np.ascontiguousarray(np.moveaxis(array, -1, 1))


@pytest.mark.parametrize("pads", ["SAME", "VALID"])
@pytest.mark.parametrize(
    "strides, dilations", [((1, 1), (1, 1)), ((2, 3), (1, 1)), ((1, 1), (2, 1))]
)
def test_tensorflow_and_ascend_convolutions_equal_plain_loops(pads, strides, dilations):
    x, w = tensor(0, 2, 7, 8, 4), tensor(1, 3, 2, 4, 5)
    right = slow_convolution(x, w, strides, dilations, pads)
    for layout, turn, back in (
        ("NHWC", lambda array: array, lambda array: array),
        ("NCHW", first, last),
    ):
        entries = {"data_format": layout, "padding": pads}
        for name, numbers in (("strides", strides), ("dilations", dilations)):
            entries[name] = [1, *numbers, 1] if layout == "NHWC" else [1, 1, *numbers]
        made = arrays(Node("tensorflow", "Conv2D", entries), [turn(x), w])[0]
        assert_near(back(made), right)
        # Of Ascend IR the filter of a TensorFlow network is HWCN in either layout; without formats
        # its layout follows x.
        made = arrays(Node("ascend", "Conv2D", entries, layouts=(layout, "HWCN")), [turn(x), w])[0]
        assert_near(back(made), right)
        filters = w if layout == "NHWC" else np.transpose(w, (3, 2, 0, 1))
        assert_near(back(arrays(Node("ascend", "Conv2D", entries), [turn(x), filters])[0]), right)
        # Depthwise: channel c's products are the outputs c * multiplier + m.
        depth = np.zeros((3, 2, 4, 20), np.float32)
        for channel in range(4):
            depth[:, :, channel, channel * 5 : channel * 5 + 5] = w[:, :, channel]
        right_depth = slow_convolution(x, depth, strides, dilations, pads)
        assert_near(
            back(arrays(Node("tensorflow", "DepthwiseConv2dNative", entries), [turn(x), w])[0]),
            right_depth,
        )
        made = arrays(
            Node("ascend", "DepthwiseConv2D", entries, layouts=(layout, "HWCN")), [turn(x), w]
        )[0]
        assert_near(back(made), right_depth)


def test_ascend_pads_are_ordered_top_bottom_left_right():
    x, w = tensor(0, 1, 3, 6, 5), tensor(1, 4, 3, 3, 2)
    right = arrays(Node("onnx", "Conv", {"strides": [2, 1], "pads": [1, 0, 2, 3]}), [x, w])[0]
    entries = {"strides": [1, 1, 2, 1], "pads": [1, 2, 0, 3], "data_format": "NCHW"}
    assert_near(arrays(Node("ascend", "Conv2D", entries), [x, w])[0], right)


def test_explicit_paddings_and_transposed_convolutions_of_tensorflow_are_computed():
    x, w = tensor(0, 2, 7, 8, 4), tensor(1, 3, 2, 4, 5)
    entries = {
        "strides": [1, 2, 2, 1],
        "padding": "EXPLICIT",
        "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0],
    }
    right = slow_convolution(
        np.pad(x, [(0, 0), (1, 2), (0, 1), (0, 0)]), w, (2, 2), (1, 1), "VALID"
    )
    assert_near(arrays(Node("tensorflow", "Conv2D", entries), [x, w])[0], right)
    # The transpose t(y) of a convolution c(x) is what holds y · c(x) = t(y) · x for all x and y.
    for pads in ("SAME", "VALID"):
        entries = {"strides": [1, 2, 2, 1], "padding": pads, "data_format": "NHWC"}
        forward = arrays(Node("tensorflow", "Conv2D", entries), [x.astype(np.float64), w])[0]
        y = tensor(3, *forward.shape).astype(np.float64)
        node = Node("tensorflow", "Conv2DBackpropInput", entries)
        back = arrays(node, [np.array(x.shape, np.int32), w, y])[0]
        assert back.shape == x.shape
        np.testing.assert_allclose(np.sum(back * x), np.sum(y * forward))
        # Ascend IR: the same filter, input_size as an input or an attribute.
        formats = ("NHWC", "HWCN")
        made = arrays(
            Node(
                "ascend",
                "Conv2DTransposeD",
                {**entries, "input_size": list(x.shape)},
                layouts=formats,
            ),
            [y, w],
        )[0]
        assert_near(made, back)
        made = arrays(
            Node("ascend", "Conv2DTranspose", entries), [np.array(x.shape, np.int32), y, w]
        )[0]
        assert_near(made, back)
        made = arrays(
            Node("ascend", "Conv2DBackpropInputD", {**entries, "input_size": list(x.shape)}), [w, y]
        )[0]
        assert_near(made, back)


@pytest.mark.parametrize(
    "stride, pad, dilation, group", [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1), (3, 1, 1, 4)]
)
def test_caffe_convolutions_and_deconvolutions_equal_the_formula(stride, pad, dilation, group):
    x, w = tensor(0, 2, 4, 8, 7), tensor(1, 8, 4 // group, 3, 3)
    entries = {
        "num_output": 8,
        "kernel_size": [3],
        "stride": [stride],
        "pad": [pad],
        "dilation": [dilation],
    }
    entries.update(group=group, bias_term=False)
    right = caffe_formulas.conv(x, w, (stride,) * 2, (pad,) * 2, (dilation,) * 2, group)
    assert_near(arrays(Node("caffe", "Convolution", entries), [x, w])[0], right)
    for name in ("kernel", "stride", "pad"):
        value = entries.pop("kernel_size" if name == "kernel" else name)[0]
        entries[name + "_h"], entries[name + "_w"] = value, value
    bias = tensor(2, 8)
    made = arrays(Node("caffe", "Convolution", {**entries, "bias_term": True}), [x, w, bias])[0]
    assert_near(made, right + bias.reshape(1, 8, 1, 1))
    if dilation == 1:
        w = tensor(1, 4, 8 // group, 3, 3)
        right = caffe_formulas.deconv(x, w, stride, pad, group)
        assert_near(arrays(Node("caffe", "Deconvolution", entries), [x, w])[0], right)
        pads = {"strides": [stride, stride], "pads": [pad] * 4, "groups": group}
        assert_near(arrays(Node("ascend", "Deconvolution", pads), [x, w])[0], right)


def test_a_caffe_convolution_of_two_bottoms_gives_two_tops():
    first_x, second_x, w, bias = (
        tensor(0, 1, 2, 5, 5),
        tensor(1, 1, 2, 4, 6),
        tensor(2, 3, 2, 3, 3),
        tensor(3, 3),
    )
    made = arrays(Node("caffe", "Convolution", {"kernel_size": [3]}), [first_x, second_x, w, bias])
    assert [array.shape for array in made] == [(1, 3, 3, 3), (1, 3, 2, 4)]


def test_ascend_conv3d_equals_the_onnx_convolution():
    x, w = tensor(0, 1, 4, 5, 6, 3), tensor(1, 2, 3, 1, 3, 4)
    entries = {"strides": [1, 1, 2, 1, 1], "pads": [0, 1, 2, 0, 0, 0], "dilations": [1] * 5}
    made = arrays(Node("ascend", "Conv3D", entries), [x, w])[0]
    wanted = {"strides": [1, 2, 1], "pads": [0, 2, 0, 1, 0, 0]}
    right = arrays(
        Node("onnx", "Conv", wanted),
        [first(x), np.ascontiguousarray(np.transpose(w, (4, 3, 0, 1, 2)))],
    )[0]
    assert_near(first(made), right)


def test_convolutions_of_integers_are_exact():
    generator = np.random.default_rng(0)
    x = generator.integers(-128, 128, (1, 64, 9, 9)).astype(np.int8)
    w = generator.integers(-128, 128, (8, 64, 3, 3)).astype(np.int8)
    bias = generator.integers(-(2**20), 2**20, 8).astype(np.int32)
    entries = {"strides": [1, 1, 1, 1], "pads": [1, 1, 1, 1], "data_format": "NCHW"}
    made = compute(Node("ascend", "Conv2D", entries), [x, w, bias])[0]
    assert made.array.dtype == np.int32 and made.error is None
    right = caffe_formulas.conv(x, w, (1, 1), (1, 1), (1, 1), 1) + bias.reshape(1, -1, 1, 1)
    np.testing.assert_array_equal(made.array, right)


@pytest.mark.parametrize(
    "node, inputs, says",
    [
        (Node("ascend", "Conv2D", {"pads": [0, 0, 0, 0], "data_format": "NCHW"}), 2, "strides"),
        (Node("ascend", "Conv2D", {"strides": [1, 1, 1, 1], "data_format": "NCHW"}), 2, "pads"),
        (
            Node(
                "ascend",
                "Conv2D",
                {"strides": [1, 1, 1, 1], "pads": [-1, -1, -1, -1], "data_format": "NCHW"},
            ),
            2,
            "pads",
        ),
        (Node("ascend", "Conv2D", {"strides": [1, 1, 2, 2], "pads": [0, 0, 0, 0]}), 2, "strides"),
        (
            Node(
                "ascend",
                "Conv2D",
                {"strides": [1] * 4, "pads": [0] * 4, "data_format": "NCHW", "offset_x": 3},
            ),
            2,
            "offset_x",
        ),
        (
            Node("ascend", "Conv2D", {"strides": [1] * 4, "pads": [0] * 4, "data_format": "NCHW"}),
            1,
            "filter",
        ),
        (Node("onnx", "Conv", {"group": 3}), 2, "groups"),
        (Node("tensorflow", "Conv2D", {"strides": [1] * 4}), 2, "padding"),
        (Node("caffe", "Convolution", {}), 2, "bias"),
    ],
)
def test_convolutions_with_unknown_attributes_are_refused(node, inputs, says):
    with pytest.raises(CannotCompute, match=says):
        compute(node, [tensor(0, 1, 4, 6, 6), tensor(1, 4, 4, 3, 3)][:inputs])


CASES = {
    "convolution": (
        Node("onnx", "Conv", {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
        (1, 6, 8, 8),
        (4, 6, 3, 3),
    ),
    "depthwise": (Node("onnx", "Conv", {"group": 6}), (1, 6, 8, 8), (12, 1, 3, 3)),
    "transposed": (Node("onnx", "ConvTranspose", {"strides": [2, 2]}), (1, 6, 5, 5), (6, 4, 3, 3)),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_input_errors_reach_the_output_of_convolutions(name):
    node, *shapes = CASES[name]
    generator = np.random.default_rng(5)
    x, w = (with_error(generator.standard_normal(shape)) for shape in shapes)
    assert_error_matches_spread(node, [x, w], generator)
    assert_error_matches_spread(node, [x, w.array], generator)
    assert_error_matches_spread(node, [x.array, w], generator)
    bias = with_error(generator.standard_normal(12 if name == "depthwise" else 4), 0.1)
    assert_error_matches_spread(node, [x.array, w.array, bias], generator)


def test_a_convolution_of_exact_values_has_no_error():
    x, w = tensor(0, 1, 4, 6, 6), tensor(1, 4, 4, 3, 3)
    assert compute(Node("onnx", "Conv"), [x, w], EXACT)[0].error is None


def test_the_accumulators_error_grows_with_what_cancels():
    # The device adds up products one after another in float16.
    generator = np.random.default_rng(6)
    x = generator.standard_normal((400, 64)).astype(np.float16)
    w = generator.standard_normal(64).astype(np.float16)
    total = np.zeros(400, np.float16)
    for column in range(64):
        total = (total + (x[:, column].astype(np.float32) * w[column]).astype(np.float16)).astype(
            np.float16
        )
    made = compute(
        Node("onnx", "Conv"),
        [x.reshape(400, 64, 1), w.reshape(1, 64, 1)],
        Arithmetic(accumulator=2.0**-11),
    )[0]
    gone = np.sqrt(np.mean(np.square(total - made.array.reshape(-1))))
    said = np.sqrt(np.mean(np.square(made.error)))
    assert said / 3 < gone < 3 * said
    # Twice the same values of other signs cancel; what they lost does not.
    x = np.concatenate([x, -x], axis=1).astype(np.float32)
    cancelled = compute(
        Node("onnx", "Conv"),
        [x.reshape(400, 128, 1), np.concatenate([w, w]).reshape(1, 128, 1)],
        Arithmetic(),
    )[0]
    assert np.all(np.abs(cancelled.array) < 1e-4) and np.all(cancelled.error > 1e-8)


def test_rounding_of_factors_to_hf32_is_estimated():
    generator = np.random.default_rng(7)
    x, w = (
        generator.standard_normal((50, 64, 1)).astype(np.float32),
        generator.standard_normal((8, 64, 1)).astype(np.float32),
    )

    def shortened(array):
        # HF32: 11 bits behind the point's.
        mantissa, exponent = np.frexp(array)
        return np.ldexp(np.round(mantissa * 2**12) / 2**12, exponent).astype(np.float32)

    node = Node("onnx", "Conv")
    made = compute(node, [x, w], Arithmetic(factors=2.0**-12))[0]
    gone = np.sqrt(np.mean(np.square(arrays(node, [shortened(x), shortened(w)])[0] - made.array)))
    said = np.sqrt(np.mean(np.square(made.error)))
    assert said / 3 < gone < 3 * said


def test_errors_of_huge_values_stay_finite():
    x = Value(tensor(0, 1, 4, 6, 6) * np.float32(1e25), np.float32(1e20))
    made = compute(Node("onnx", "Conv"), [x, tensor(1, 4, 4, 3, 3) * np.float32(1e-20)])[0]
    assert np.all(np.isfinite(made.error)) and np.all(made.error > 0)


def test_a_large_input_computed_in_slices_gives_the_same_output(monkeypatch):
    from goldwatch.operators import convolution_arrays

    x, w = tensor(0, 2, 6, 11, 9), tensor(1, 4, 3, 3, 3)
    node = Node("onnx", "Conv", {"group": 2, "strides": [2, 1], "pads": [1, 1, 1, 1]})
    right = arrays(node, [x, w])[0]
    monkeypatch.setattr(convolution_arrays, "SCRATCH_BYTES", 1)
    assert_near(arrays(node, [x, w])[0], right, 1e-6)
