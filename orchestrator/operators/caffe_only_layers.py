"""Layers that only Caffe and its branches have, and that are made of others' operators or move
values.

Sources: the layers of the same names of BVLC Caffe; bn_layer.cpp and upsample_layer.cpp of SegNet
(alexgkendall) and ENet, bn_layer.cpp of PSPNet (hszhao); selu_layer.cpp of caffe_latte (fireae);
upsample_layer.cpp of the YOLOv3 branches (eric612); reorg_layer.cpp of caffe-yolov2 (gklz1982),
which is darknet's; DenseBlock_layer.cpp of DenseNet's Caffe (Tongcheng).
"""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from .convolution_operators import caffe_pair
from .detection import plain
from .error_propagation import elementwise, moved
from .mean_and_variance import mean
from .registry import CAFFE, CannotCompute, Inputs, Node, find, input_at, operator
from .resizing import ascend_upsample
from .splittable_axes import broadcast, rows
from .value_with_error import Arithmetic, Value

Array = Any


def _layer(kind: str, attributes: Dict[str, Any], inputs: Inputs, arithmetic: Arithmetic) -> Value:
    """Return the first top of another layer."""
    operator = find(CAFFE, kind)
    assert operator is not None
    return operator.compute(Node(CAFFE, kind, attributes), inputs, arithmetic)[0]


@operator(caffe=("Reorg",), moves=True, parts=rows)
def reorg(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Move blocks of places into channels as darknet does: it reads the input as if it were that
    many times larger already.
    """
    x = input_at(inputs, 0)
    stride, back = int(node.get("stride", 2)), bool(node.get("reverse", False))
    batch, channels, height, width = x.array.shape
    if channels % (stride * stride) or (not back and (height % stride or width % stride)):
        raise CannotCompute("its input %s does not go into blocks of %d" % (x.array.shape, stride))
    inner = channels // (stride * stride)

    def forth(array: Array) -> Array:
        spread = array.reshape(batch, inner, height, stride, width, stride).transpose(
            0, 3, 5, 1, 2, 4
        )
        return spread.reshape(batch, channels * stride * stride, height // stride, width // stride)

    def reverse(array: Array) -> Array:
        spread = array.reshape(batch, stride, stride, inner, height, width).transpose(
            0, 3, 4, 1, 5, 2
        )
        return spread.reshape(batch, inner, height * stride, width * stride)

    return [moved(reverse if back else forth, x)]


@operator(caffe=("Upsample",), moves=True, parts=rows)
def upsample(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Repeat each value in a block; with a second input, the places of a pooling, put it there and
    leave the rest 0.

    ``scale`` is the block's size, but a factor where a stride is given, as in the caffe.proto of
    ATC.
    """
    x = input_at(inputs, 0)
    if len(inputs) == 1:
        names = ("stride_h", "stride_w")
        if {"stride", *names} & set(node.attributes):
            strides = {name: int(node.get(name, node.get("stride", 2))) for name in names}
            return ascend_upsample(
                Node(CAFFE, "Upsample", dict(strides, scale=node.get("scale", 1.0)), node.name),
                inputs,
                arithmetic,
            )
        axes = int(node.get("dims_num", 4)) - 2
        if axes not in (1, 2) or x.array.ndim != axes + 2:
            raise CannotCompute(
                "its dims_num %d does not fit an input %s" % (axes + 2, x.array.shape)
            )
        scale = int(node.get("scale"))
        for axis in range(2, 2 + axes):
            x = moved(lambda array, axis=axis: array.repeat(scale, axis), x)  # type: ignore[misc]
        return [x]
    if "upsample_h" in node.attributes and "upsample_w" in node.attributes:
        sizes = int(node.get("upsample_h")), int(node.get("upsample_w"))
    else:
        scales = [int(node.get(name, node.get("scale", 2))) for name in ("scale_h", "scale_w")]
        cut = [int(bool(node.get(name, False))) for name in ("pad_out_h", "pad_out_w")]
        sizes = x.array.shape[2] * scales[0] - cut[0], x.array.shape[3] * scales[1] - cut[1]
    if input_at(inputs, 1).array.shape != x.array.shape:
        raise CannotCompute("its second input, the places, has another shape than the first")
    places = (
        np.trunc(input_at(inputs, 1).array)
        .astype(np.int64)
        .reshape(x.array.shape[0] * x.array.shape[1], -1)
    )
    if places.min() < 0 or places.max() >= sizes[0] * sizes[1]:
        raise CannotCompute("a place of its second input is outside of %s" % (sizes,))

    def function(array: Array) -> Array:
        out = np.zeros((len(places), sizes[0] * sizes[1]), array.dtype)
        # Of values for one place the last stays, as in the layer's loop.
        out[np.arange(len(places))[:, None], places] = array.reshape(places.shape)
        return out.reshape(x.array.shape[:2] + sizes)

    return [moved(function, x)]


@operator(caffe=("BN",))
def segnet_or_pspnet_bn(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """BN of SegNet and ENet (blobs scale, shift) or of PSPNet (slope, bias, mean, variance), told
    by the number of blobs.

    SegNet's with bn_mode LEARN, the default, normalises by the batch's own statistics in TEST too.
    """
    x = input_at(inputs, 0)
    shape = (1, -1) + (1,) * (x.array.ndim - 2)
    blobs = [
        moved(lambda array: array.reshape(shape), input_at(inputs, number))
        for number in range(1, len(inputs))
    ]
    if len(blobs) == 2:
        if str(node.get("bn_mode", "LEARN")) == "INFERENCE":
            return [
                elementwise(
                    lambda x, scale, shift: x * scale + shift,
                    x,
                    *blobs,
                    steps=arithmetic.intermediate,
                )
            ]
        axes = tuple(axis for axis in range(x.array.ndim) if axis != 1)
        centre = mean(x, axes, arithmetic)
        variance = mean(
            elementwise(lambda x, centre: np.square(x - centre), x, centre), axes, arithmetic
        )
        epsilon, statistics = 1e-9, [centre, variance]
    elif len(blobs) == 4:
        epsilon, statistics = float(node.get("eps", 1e-5)), blobs[2:]
    else:
        raise CannotCompute("it has %d blobs instead of 2 (SegNet's) or 4 (PSPNet's)" % len(blobs))
    output = elementwise(
        lambda x, centre, variance, scale, shift: (x - centre) / np.sqrt(variance + epsilon) * scale
        + shift,
        x,
        *statistics,
        *blobs[:2],
        steps=arithmetic.intermediate,
    )
    return [output, statistics[0], statistics[1]]


@operator(caffe=("SeLu",), parts=broadcast)
def selu(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Multiply by lambda, or make lambda · alpha · (exp(x) - 1) of what is below 0."""
    alpha, scale = (
        np.float32(node.get("alpha", 1.67326324)),
        np.float32(node.get("lambda", 1.050700987)),
    )

    def function(x: Array) -> Array:
        values: Array = scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))
        return values

    return [elementwise(function, input_at(inputs, 0), steps=arithmetic.intermediate)]


@operator(caffe=("SPP",))
def spatial_pyramid_pooling(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Pool a picture into 1, 2 × 2, 4 × 4 … windows, one level behind the other."""
    x = input_at(inputs, 0)
    levels: List[Value] = []
    height = int(node.get("pyramid_height"))
    for level in range(height):
        attributes = {"pool": node.get("pool", "MAX")}
        for name, size in zip("hw", x.array.shape[2:]):
            kernel = -(-size // 2**level)
            pad = (kernel * 2**level - size + 1) // 2
            attributes.update(
                {"kernel_" + name: kernel, "stride_" + name: kernel, "pad_" + name: pad}
            )
        levels.append(_layer("Pooling", attributes, [x], arithmetic))
    if height == 1:
        return levels
    return [
        _layer(
            "Concat",
            {},
            [_layer("Flatten", {}, [value], arithmetic) for value in levels],
            arithmetic,
        )
    ]


@operator(caffe=("Im2col",), moves=True, parts=rows)
def image_to_columns(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Lay out the windows of a convolution: [N, C · window, windows]."""
    x = input_at(inputs, 0)
    axes = x.array.ndim - 2
    kernel = caffe_pair(node, "kernel_size", axes, [], "kernel")
    strides, pads = caffe_pair(node, "stride", axes, [1]), caffe_pair(node, "pad", axes, [0])
    dilations = caffe_pair(node, "dilation", axes, [1])

    def function(array: Array) -> Array:
        padded = np.pad(array, [(0, 0), (0, 0)] + [(pad, pad) for pad in pads], mode="constant")
        counts = [
            (size - ((reach - 1) * dilation + 1)) // stride + 1
            for size, reach, dilation, stride in zip(padded.shape[2:], kernel, dilations, strides)
        ]
        parts = []
        for place in np.ndindex(*kernel):
            key = tuple(
                slice(step * dilation, step * dilation + (count - 1) * stride + 1, stride)
                for step, dilation, count, stride in zip(place, dilations, counts, strides)
            )
            parts.append(padded[(slice(None), slice(None)) + key])
        return np.stack(parts, 2).reshape((array.shape[0], -1) + tuple(counts))

    return [moved(function, x)]


@operator(caffe=("BatchReindex",), moves=True)
def batch_reindex(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take rows of the first axis by the second input's numbers."""
    places = np.trunc(input_at(inputs, 1).array).astype(np.int64).reshape(-1)
    if places.size and (places.min() < 0 or places.max() >= len(input_at(inputs, 0).array)):
        raise CannotCompute("a number of its second input is no row of the first")
    return [moved(lambda array: array[places], input_at(inputs, 0))]


@operator(caffe=("Filter",), decides=True)
def filtered(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Keep the rows of all inputs but the last where that is not 0."""
    arrays = plain(inputs, arithmetic)
    selected = arrays[-1].reshape(-1) != 0
    if not selected.any():
        raise CannotCompute("not one row is left")
    return [Value(array[selected]) for array in arrays[:-1]]


@operator(caffe=("Embed",))
def embed(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take rows of a matrix by the input's numbers, and add the bias."""
    places = np.trunc(input_at(inputs, 0).array).astype(np.int64)
    matrix = input_at(inputs, 1)
    if places.min() < 0 or places.max() >= len(matrix.array):
        raise CannotCompute("a number of its input is none of its %d rows" % len(matrix.array))
    rows = moved(lambda array: array[places], matrix)
    if not bool(node.get("bias_term", True)):
        return [rows]
    return [elementwise(np.add, rows, input_at(inputs, 2), steps=arithmetic.intermediate)]


@operator(caffe=("Parameter",), moves=True)
def parameter(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the layer's own weights."""
    return [input_at(inputs, 0)]


@operator(caffe=("DenseBlock",), multiplies=True)
def dense_block(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Append growthRate channels, numTransition times: BatchNorm, ReLU and a 3 x 3 convolution of
    all channels so far.

    With use_BC a 1 x 1 convolution to 4 · growthRate channels, BatchNorm and ReLU stand before it.
    Blobs, each numTransition times: filters, scales, shifts, means, variances; with use_BC five
    more, the 1 x 1 filters among them; and one factor of all statistics.
    """
    x, blobs = input_at(inputs, 0), inputs[1:]
    count = int(node.get("numTransition"))
    # With use_BC the BatchNorm of the first five blobs stands before the filter of the second five,
    # and the other way round.
    steps = ((0, 5), (5, 0)) if bool(node.get("use_BC", False)) else ((0, 0),)
    if len(blobs) != 5 * len(steps) * count + 1:
        raise CannotCompute(
            "it has %d blobs instead of %d" % (len(blobs), 5 * len(steps) * count + 1)
        )
    for number in range(count):
        new = x
        for norm, filters in steps:
            scale, shift, centre, variance = (
                input_at(blobs, (norm + part) * count + number) for part in (1, 2, 3, 4)
            )
            weights = input_at(blobs, filters * count + number)
            new = _layer(
                "BatchNorm",
                {},
                [new, centre, variance, input_at(blobs, len(blobs) - 1)],
                arithmetic,
            )
            new = _layer(
                "Scale",
                {"bias_term": True},
                [new, moved(np.ravel, scale), moved(np.ravel, shift)],
                arithmetic,
            )
            pad = weights.array.shape[-1] // 2
            new = _layer(
                "Convolution",
                {"bias_term": False, "pad": pad},
                [_layer("ReLU", {}, [new], arithmetic), weights],
                arithmetic,
            )
        x = _layer("Concat", {}, [x, new], arithmetic)
    return [x]
