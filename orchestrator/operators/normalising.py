"""Normalisations by statistics of the tensor itself: layers, groups, instances, norms; all
dialects.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .convolution_operators import integers, named_input, optional
from .error_propagation import elementwise, moved
from .layouts_and_pads import as_given, channels_first, of_input
from .mean_and_variance import centred, mean, mean_square, reciprocal_root
from .registry import (
    CAFFE,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    operator,
)
from .splittable_axes import Parts, Shape, Values, Window, along_all_but, rows
from .value_with_error import Arithmetic, Value
from .variants import (
    EPSILONS,
    Reading,
    Variant,
    attribute,
    computed_instead,
    declare,
    each_axis,
    missing_input,
    missing_inputs,
    other_node,
    text_of,
)

Array = Any
Axes = Tuple[int, ...]

_MOST_AXES = 5
"""Of a tensor over each set of whose axes a normalisation is tried: 31 sets."""


def _whitened(
    x: Value, axes: Axes, epsilon: float, arithmetic: Arithmetic
) -> Tuple[Value, Value, Value, Value]:
    """Return (x - mean) / √(variance + ε), the mean, the variance and 1 / √(variance + ε)."""
    center = mean(x, axes, arithmetic)
    less = centred(x, center, arithmetic)
    variance = mean_square(less, axes, arithmetic)
    reciprocal = reciprocal_root(variance, epsilon, arithmetic)
    return (
        elementwise(np.multiply, less, reciprocal, steps=arithmetic.intermediate),
        center,
        variance,
        reciprocal,
    )


def _scaled(
    x: Value, scale: Optional[Value], offset: Optional[Value], arithmetic: Arithmetic
) -> Value:
    """Return x · scale + offset, which broadcast to x."""
    if scale is not None:
        x = elementwise(np.multiply, x, scale)
    if offset is not None:
        x = elementwise(
            np.add, x.with_step(arithmetic.intermediate) if scale is not None else x, offset
        )
    return x


def _axes_from(axis: int, dimensions: int) -> Axes:
    axis = axis + dimensions if axis < 0 else axis
    if not 0 <= axis < dimensions:
        raise CannotCompute("its axis %d does not fit %d axes" % (axis, dimensions))
    return tuple(range(axis, dimensions))


def _normalised(node: Node, ndim: int) -> Optional[Axes]:
    """Return the axes that LayerNorm normalises by its attributes."""
    if node.type == "LayerNormV4":
        return None
    return _axes_from(
        int(node.get("axis", -1) if node.dialect == "onnx" else node.get("begin_norm_axis", 0)),
        ndim,
    )


_OUTER = along_all_but(_normalised)


def _broadcast_to_axes(value: Optional[Value], x: Value, axes: Axes) -> Optional[Value]:
    """Return a scale that has the axes that are normalised (or the same number of elements), to be
    broadcast to x.
    """
    if value is None or value.array.size == 1:
        return value
    shape = tuple(x.array.shape[axis] for axis in axes)
    if value.array.size == int(np.prod(shape)):
        return moved(lambda array: array.reshape(shape), value)
    np.broadcast_to(value.array, x.array.shape)
    return value


@operator(onnx=["LayerNormalization"], parts=_OUTER)
def onnx_layer_normalization(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX LayerNormalization: Y, the mean, and 1 / √(variance + ε)."""
    x = named_input(inputs, 0, "input")
    axes = _axes_from(int(node.get("axis", -1)), x.array.ndim)
    output, center, _, reciprocal = _whitened(x, axes, float(node.get("epsilon", 1e-5)), arithmetic)
    scale, offset = (
        _broadcast_to_axes(optional(inputs, 1), x, axes),
        _broadcast_to_axes(optional(inputs, 2), x, axes),
    )
    return [_scaled(output, scale, offset, arithmetic), center, reciprocal]


@operator(ascend=["LayerNorm", "LayerNormV3", "LayerNormV4"], parts=_OUTER)
def ascend_layer_norm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR: the third output is the variance, of later versions 1 / √(variance + ε)."""
    x = named_input(inputs, 0, "input")
    parts = [
        optional(inputs, number) for number in ((2, 3) if node.type == "LayerNormV4" else (1, 2))
    ]
    if node.type == "LayerNormV4":
        axes = _axes_from(-int(named_input(inputs, 1, "normalized_shape").array.size), x.array.ndim)
    else:
        axes = _axes_from(int(node.get("begin_norm_axis", 0)), x.array.ndim)
    epsilon = float(node.get("epsilon", 1e-7 if node.type == "LayerNorm" else 1e-5))
    output, center, variance, reciprocal = _whitened(x, axes, epsilon, arithmetic)
    if node.type == "LayerNorm":
        first = int(node.get("begin_params_axis", 0))
        of_scale = _axes_from(first, x.array.ndim)
    else:
        of_scale = axes
    output = _scaled(
        output,
        _broadcast_to_axes(parts[0], x, of_scale),
        _broadcast_to_axes(parts[1], x, of_scale),
        arithmetic,
    )
    return [output, center, variance if node.type == "LayerNorm" else reciprocal]


@operator(
    onnx=[
        "com.microsoft.SkipLayerNormalization",
        "com.microsoft.SkipSimplifiedLayerNormalization",
    ]
)
def skip_layer_normalization(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """onnxruntime's (x, skip, gamma, [beta], bias): normalise x + skip + bias along the last axis;
    the fourth output is the sum.

    The simplified one has no beta, and divides by the root mean square.
    """
    simple = "Simplified" in node.type
    x, skip, scale = (named_input(inputs, number, "input %d" % number) for number in range(3))
    total, bias = elementwise(np.add, x, skip), optional(inputs, 3 if simple else 4)
    if bias is not None:
        total = elementwise(np.add, total.with_step(arithmetic.intermediate), bias)
    axes, epsilon = (x.array.ndim - 1,), float(node.get("epsilon", 1e-5 if simple else 1e-12))
    inner = total.with_step(arithmetic.intermediate)
    if simple:
        output, reciprocal = _by_root_mean_square(inner, axes, epsilon, scale, arithmetic)
        center = mean(inner, axes, arithmetic)
    else:
        output, center, _, reciprocal = _whitened(inner, axes, epsilon, arithmetic)
        output = _scaled(output, scale, optional(inputs, 3), arithmetic)
    return [output, center, reciprocal, total]


@operator(ascend=["AddRmsNorm"])
def ascend_add_rms_norm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR AddRmsNorm (x1, x2, gamma): y and 1 / √(mean square + ε) of x1 + x2, and the
    sum.
    """
    total, scale = (
        elementwise(np.add, named_input(inputs, 0, "x1"), named_input(inputs, 1, "x2")),
        named_input(inputs, 2, "gamma"),
    )
    axes = _axes_from(-scale.array.ndim, total.array.ndim)
    inner = total.with_step(arithmetic.intermediate)
    return [
        *_by_root_mean_square(inner, axes, float(node.get("epsilon", 1e-6)), scale, arithmetic),
        total,
    ]


def _by_root_mean_square(
    x: Value, axes: Axes, epsilon: float, scale: Optional[Value], arithmetic: Arithmetic
) -> List[Value]:
    reciprocal = reciprocal_root(mean_square(x, axes, arithmetic), epsilon, arithmetic)
    output = elementwise(
        np.multiply, x, reciprocal, steps=arithmetic.intermediate if scale is not None else 0.0
    )
    return [_scaled(output, scale, None, arithmetic), reciprocal]


@operator(onnx=["RMSNormalization", "SimplifiedLayerNormalization"], parts=rows)
def onnx_rms_normalization(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX RMSNormalization, and onnxruntime's older name of it."""
    x = named_input(inputs, 0, "input")
    axes = _axes_from(int(node.get("axis", -1)), x.array.ndim)
    outputs = _by_root_mean_square(
        x,
        axes,
        float(node.get("epsilon", 1e-5)),
        _broadcast_to_axes(optional(inputs, 1), x, axes),
        arithmetic,
    )
    return outputs[:1] if node.type == "RMSNormalization" else outputs


@operator(ascend=["RmsNorm"], parts=rows)
def ascend_rms_norm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR RmsNorm: over the axes of gamma; y and 1 / √(mean square + ε)."""
    x, scale = named_input(inputs, 0, "input"), named_input(inputs, 1, "gamma")
    axes = _axes_from(-scale.array.ndim, x.array.ndim)
    return _by_root_mean_square(x, axes, float(node.get("epsilon", 1e-6)), scale, arithmetic)


def _of_channels(value: Optional[Value], x: Value) -> Optional[Value]:
    """Return a scale of channels, to be broadcast to x [N, C, ...]."""
    if value is None:
        return None
    if value.array.size != x.array.shape[1]:
        raise CannotCompute("its scale %s does not fit %s" % (value.array.shape, x.array.shape))
    return moved(lambda array: array.reshape((1, -1) + (1,) * (x.array.ndim - 2)), value)


def _channels(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Of what computes each channel of each picture by itself: along both; of Ascend IR, which
    gives more than that, along pictures.
    """
    x = shapes[0] if shapes else None
    if not x or node.dialect == "ascend":
        return rows(node, shapes, values)
    return Parts(x, {0: (Window(0), None, None), 1: (Window(1), Window(0), Window(0))})


@operator(onnx=["InstanceNormalization"], ascend=["InstanceNorm"], parts=_channels)
def instance_norm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Normalise each channel of each picture; Ascend IR: the mean and the variance too."""
    layout, epsilon = "NCHW", 1e-5
    if node.dialect == "ascend":
        layout, epsilon = of_input(node, 0, str(node.get("data_format", "NDHWC"))), 1e-6
    x = channels_first(named_input(inputs, 0, "input"), layout)
    scale, offset = (
        _of_channels(named_input(inputs, number, "input %d" % number), x) for number in (1, 2)
    )
    axes = tuple(range(2, x.array.ndim))
    output, center, variance, _ = _whitened(
        x, axes, float(node.get("epsilon", epsilon)), arithmetic
    )
    output = _scaled(output, scale, offset, arithmetic)
    if node.dialect == "onnx":
        return [output]
    return [as_given(value, layout) for value in (output, center, variance)]


@operator(onnx=["GroupNormalization"], ascend=["GroupNorm"], parts=rows)
def group_norm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Normalise groups of channels; in ONNX before opset 21 scale and bias are of groups."""
    layout = (
        "NCHW"
        if node.dialect == "onnx"
        else of_input(node, 0, str(node.get("data_format", "NHWC")))
    )
    x = channels_first(named_input(inputs, 0, "input"), layout)
    groups = int(node.get("num_groups"))
    shape = x.array.shape
    if groups < 1 or shape[1] % groups:
        raise CannotCompute("its num_groups=%d does not divide %d channels" % (groups, shape[1]))
    epsilon = float(node.get("epsilon", 1e-5) if node.dialect == "onnx" else node.get("eps", 1e-4))
    grouped = moved(lambda array: array.reshape((shape[0], groups, -1)), x)
    output, center, variance, _ = _whitened(grouped, (2,), epsilon, arithmetic)
    output = moved(lambda array: array.reshape(shape), output)
    parts = [named_input(inputs, number, "input %d" % number) for number in (1, 2)]
    if node.dialect == "onnx" and any(value.array.size == groups != shape[1] for value in parts):
        parts = [
            moved(lambda array: np.repeat(array.reshape(-1), shape[1] // groups), value)
            for value in parts
        ]
    output = as_given(
        _scaled(output, _of_channels(parts[0], x), _of_channels(parts[1], x), arithmetic), layout
    )
    if node.dialect == "onnx":
        return [output]
    return [output] + [
        moved(lambda array: array.reshape(-1), value) for value in (center, variance)
    ]


def _normed(
    x: Value,
    axes: Axes,
    power: float,
    arithmetic: Arithmetic,
    plus: float = 0.0,
    least: float = 0.0,
) -> Value:
    """Return x divided by its p-norm: by √(max(Σ x² + plus, least)) for p = 2."""
    count = int(np.prod([x.array.shape[axis] for axis in axes]))
    parts = elementwise(np.square if power == 2 else np.abs, x, steps=arithmetic.intermediate)
    total = elementwise(lambda array: array * count, mean(parts, axes, arithmetic))
    norm = elementwise(
        lambda array: np.maximum(array + plus, least) ** (1.0 / power),
        elementwise(lambda array: np.maximum(array, 0.0), total),
    )
    return elementwise(np.divide, x, norm.with_step(arithmetic.intermediate))


@operator(onnx=["LpNormalization"])
def onnx_lp_normalization(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX LpNormalization, p = 1 or 2; of nothing but zeros it makes zeros."""
    x = named_input(inputs, 0, "input")
    power = int(node.get("p", 2))
    if power not in (1, 2):
        raise CannotCompute("its p=%d is not known" % power)
    axes = _axes_from(int(node.get("axis", -1)), x.array.ndim)[:1]
    output = _normed(x, axes, power, arithmetic)
    nothing = np.broadcast_to(np.all(x.array == 0, axis=axes, keepdims=True), x.array.shape)
    return [elementwise(lambda array: np.where(nothing, 0.0, array), output)]


@operator(caffe=["Normalize"], ascend=["Normalize"], parts=rows)
def caffe_normalize(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Normalize of Caffe's SSD branch: by the 2-norm of a picture, or of each place's channels,
    times a scale.
    """
    layout = node.layouts[0] if node.layouts and len(node.layouts[0]) > 2 else "NCHW"
    x, factor = (
        channels_first(named_input(inputs, 0, "input"), layout),
        named_input(inputs, 1, "scale"),
    )
    axes = tuple(range(1, x.array.ndim)) if bool(node.get("across_spatial", True)) else (1,)
    output = _normed(x, axes, 2, arithmetic, plus=float(node.get("eps", 1e-10)))
    if bool(node.get("channel_shared", True)):
        placed = moved(lambda array: array.reshape(-1)[:1].reshape((1,) * x.array.ndim), factor)
    else:
        placed = _of_channels(factor, x) or factor
    return [
        as_given(
            _scaled(output.with_step(arithmetic.intermediate), placed, None, arithmetic), layout
        )
    ]


@operator(ascend=["L2Normalize"])
def ascend_l2_normalize(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR L2Normalize: x / √(max(Σ x², eps)) along ``axis``."""
    x = named_input(inputs, 0, "input")
    axes = tuple(axis + x.array.ndim if axis < 0 else axis for axis in integers(node, "axis"))
    return [_normed(x, axes, 2, arithmetic, least=float(node.get("eps", 1e-4)))]


@operator(onnx=["MeanVarianceNormalization"])
def onnx_mean_variance(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX: (x - mean) / (√variance + 1e-9), as its function is written."""
    x = named_input(inputs, 0, "input")
    axes = tuple(
        axis + x.array.ndim if axis < 0 else axis for axis in integers(node, "axes", [0, 2, 3])
    )
    return [_mean_variance(x, axes, 1e-9, True, arithmetic)]


@operator(caffe=["MVN"], ascend=["MVN"], parts=rows)
def caffe_mean_variance(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe's and Ascend IR's MVN: within each channel of a picture, or across them."""
    x = named_input(inputs, 0, "input")
    if node.dialect == "caffe" and x.array.ndim != 4:
        if x.array.ndim > 4:
            raise CannotCompute("Caffe takes four axes at most, it has %d" % x.array.ndim)
        # Its output has four axes whatever the input has.
        shape = x.array.shape + (1,) * (4 - x.array.ndim)
        x = moved(lambda array: array.reshape(shape), x)
    axes = tuple(range(1 if bool(node.get("across_channels", False)) else 2, x.array.ndim))
    return [
        _mean_variance(
            x,
            axes,
            float(node.get("eps", 1e-9)),
            bool(node.get("normalize_variance", True)),
            arithmetic,
        )
    ]


def _mean_variance(
    x: Value, axes: Axes, epsilon: float, divide: bool, arithmetic: Arithmetic
) -> Value:
    less = centred(x, mean(x, axes, arithmetic), arithmetic)
    if not divide:
        return less
    variance = mean_square(less, axes, arithmetic)
    deviation = elementwise(
        lambda array: np.sqrt(np.maximum(array, 0.0)) + epsilon,
        variance,
        steps=arithmetic.intermediate,
    )
    return elementwise(np.divide, less, deviation)


def _neighbours(x: Value, axes: Sequence[int], before: int, after: int) -> Value:
    """Return the sum of each element and its neighbours along axes; errors add as squares."""

    def added(array: Array) -> Array:
        for axis in axes:
            pads = [(0, 0)] * array.ndim
            pads[axis] = (before, after)
            padded, length = np.pad(array, pads, mode="constant"), array.shape[axis]
            parts = [
                np.take(padded, range(start, start + length), axis)
                for start in range(before + after + 1)
            ]
            array = np.sum(parts, axis=0)
        return array

    if x.error is None:
        return Value(added(x.array))
    return Value(added(x.array), np.sqrt(added(np.square(np.broadcast_to(x.error, x.array.shape)))))


def _local_response(
    x: Value,
    axes: Sequence[int],
    window: Tuple[int, int],
    bias: float,
    alpha: float,
    beta: float,
    arithmetic: Arithmetic,
) -> Value:
    """Return x / (bias + alpha · Σ x²)^beta, summed over a window of (before, behind) elements
    along axes.
    """
    total = _neighbours(
        elementwise(np.square, x, steps=arithmetic.intermediate), axes, *window
    ).with_step(arithmetic.intermediate)
    factor = elementwise(
        lambda array: (bias + alpha * np.maximum(array, 0.0)) ** -beta,
        total,
        steps=arithmetic.intermediate,
    )
    return elementwise(np.multiply, x, factor)


def _running_response(x: Array, size: int, bias: float, alpha: float, beta: float) -> Value:
    """Return LRN across channels as Caffe has it: a running sum in float32, one square in and one
    out, which keeps what rounding leaves.

    Source: BVLC Caffe, lrn_layer.cpp, LRNLayer::CrossChannelForward_cpu.
    """
    half = (size - 1) // 2
    pads = [(0, 0), (half, half)] + [(0, 0)] * (x.ndim - 2)
    squares = np.float32(alpha / size) * np.pad(
        np.square(np.asarray(x, np.float32)), pads, mode="constant"
    )
    total = np.full(squares[:, 0].shape, bias, np.float32)
    for number in range(size):
        total += squares[:, number]
    totals = [total]
    for number in range(1, x.shape[1]):
        total = total + squares[:, number + size - 1] - squares[:, number - 1]
        totals.append(total)
    return Value(x * np.stack(totals, 1).astype(np.float64) ** -beta)


def _of_response(node: Node, dimensions: int) -> Sequence[int]:
    """Return the axes along which an LRN looks at others: of Caffe's within a channel all but the
    first two.
    """
    if (
        node.dialect == "caffe"
        and str(node.get("norm_region", "ACROSS_CHANNELS")) != "ACROSS_CHANNELS"
    ):
        return range(2, dimensions)
    return (1, dimensions - 1) if node.dialect in ("tensorflow", "ascend") else (1,)


@operator(
    onnx=["LRN"],
    caffe=["LRN"],
    tensorflow=["LRN"],
    ascend=["LRN"],
    parts=along_all_but(_of_response),
)
def local_response_normalization(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """LRN across channels; of Caffe also within one, where the bias is 1 whatever k says.

    ONNX and Caffe divide alpha by the number of elements in the window, TensorFlow and Ascend IR do
    not.
    """
    x = named_input(inputs, 0, "input")
    if node.dialect in ("tensorflow", "ascend"):
        if str(node.get("norm_region", "ACROSS_CHANNELS")) != "ACROSS_CHANNELS":
            raise CannotCompute("its norm_region %s is not known" % node.get("norm_region"))
        radius = int(node.get("depth_radius", 5))
        constants = [
            float(node.get(name, default))
            for name, default in (("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))
        ]
        layout = node.layouts[0] if node.layouts and len(node.layouts[0]) == 4 else "NCHW"
        axis = 3 if node.dialect == "tensorflow" or layout == "NHWC" else 1
        return [
            _local_response(
                x, [axis], (radius, radius), constants[0], constants[1], constants[2], arithmetic
            )
        ]
    if node.dialect == "onnx":
        size = int(node.get("size"))
        alpha, beta, bias = (
            float(node.get(name, value))
            for name, value in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
        )
    else:
        size = int(node.get("local_size", 5))
        alpha, beta, bias = (
            float(node.get(name, value))
            for name, value in (("alpha", 1.0), ("beta", 0.75), ("k", 1.0))
        )
        region = str(node.get("norm_region", "ACROSS_CHANNELS"))
        if region not in ("ACROSS_CHANNELS", "WITHIN_CHANNEL") or not size % 2:
            raise CannotCompute("its norm_region %s or local_size=%d is not known" % (region, size))
        if region == "WITHIN_CHANNEL":
            axes = range(2, x.array.ndim)
            return [
                _local_response(
                    x,
                    axes,
                    (size // 2, size // 2),
                    1.0,
                    alpha / size ** len(axes),
                    beta,
                    arithmetic,
                )
            ]
        if x.error is None and not arithmetic.accumulator:
            return [_running_response(x.array, size, bias, alpha, beta)]
    return [
        _local_response(x, [1], ((size - 1) // 2, size // 2), bias, alpha / size, beta, arithmetic)
    ]


def _not_divided(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """not divided by size, or once more"""
    alpha, size = float(node.get("alpha", 1e-4)), int(node.get("size"))
    for made, words in ((alpha * size, "not divided by size"), (alpha / size, "divided twice")):
        instead = replace(node, attributes={**node.attributes, "alpha": made})
        yield "%s (%s for %s)" % (words, text_of(made), text_of(alpha)), "divided by size", instead


_STATISTICS = {
    "unbiased": ("the unbiased variance (n - 1)", "the biased one (n)"),
    "no root": ("the variance taken for the deviation (no root)", "its root"),
    "summed": ("the sum of squares", "their mean"),
    "of nothing": ("a variance of 0 (epsilon alone)", "the variance"),
    "beside the root": ("epsilon added to the deviation", "to the variance"),
    "centred": ("the mean subtracted", "no mean subtracted"),
    "not centred": ("no mean subtracted", "the mean subtracted"),
}
"""Ways to normalise otherwise, with what the device would have taken, and what the model says."""

_BLOCKS = (8, 16, 32, 64, 128, 256)
"""Elements of a block that a kernel may read whole, beside the next power of two. Chosen, no
trial."""


def _by_statistics(x: Value, axes: Axes, epsilon: float, way: str, arithmetic: Arithmetic) -> Value:
    """Return x normalised over axes in one of ``_STATISTICS``, or as usual, with its mean
    subtracted."""
    count = int(np.prod([x.array.shape[axis] for axis in axes]))
    less = x if way.startswith("not centred") else centred(x, mean(x, axes, arithmetic), arithmetic)
    variance = mean_square(less, axes, arithmetic)
    if way == "unbiased" and count > 1:
        variance = elementwise(lambda array: array * (count / (count - 1.0)), variance)
    if way.endswith("of nothing"):
        variance = elementwise(np.zeros_like, variance)
    if way.endswith("summed"):
        variance = elementwise(lambda array: array * count, variance)
    if way.endswith("beside the root"):
        factor = elementwise(lambda array: 1.0 / (np.sqrt(array) + epsilon), variance)
    else:
        factor = reciprocal_root(variance, epsilon, arithmetic)
    if way.endswith("no root"):
        factor = elementwise(np.square, factor)
    return elementwise(np.multiply, less, factor, steps=arithmetic.intermediate)


def _with_zeros_behind(
    x: Value, axes: Axes, epsilon: float, padded: int, subtracts: bool, arithmetic: Arithmetic
) -> Value:
    """Return x normalised by the statistics of so many elements, of which those behind its own are
    0: a kernel's whole blocks.
    """
    share = int(np.prod([x.array.shape[axis] for axis in axes])) / padded
    middle = elementwise(lambda array: array * (share * subtracts), mean(x, axes, arithmetic))
    less = centred(x, middle, arithmetic)
    variance = elementwise(
        lambda square, at: square * share + (1.0 - share) * np.square(at),
        mean_square(less, axes, arithmetic),
        middle,
    )
    factor = reciprocal_root(variance, epsilon, arithmetic)
    return elementwise(np.multiply, less, factor, steps=arithmetic.intermediate)


def _whole_blocks(count: int) -> List[int]:
    """Return up to which numbers of elements a kernel may fill its last block."""
    blocks = [-(-count // size) * size for size in _BLOCKS] + [1 << (count - 1).bit_length()]
    return sorted(set(blocks) - {count})


class _Usual(NamedTuple):
    """What a normalisation of the model is.

    Attributes
    ----------
    axes, groups
        Over which it goes; groups are 0 where it has none.
    subtracts
        Whether it subtracts the mean.
    epsilon
        The model's.
    """

    axes: Axes
    of_channels: bool
    groups: int
    subtracts: bool
    epsilon: float

    @classmethod
    def of(cls, node: Node, x: Value) -> _Usual:
        """Return that of a node whose input is x."""
        kind, ndim = node.type, x.array.ndim
        of_channels = kind.startswith(("Instance", "Group"))
        own = tuple(range(2 if of_channels else int(node.get("axis", -1)) % ndim, ndim))
        if kind.startswith("Mean"):
            own = tuple(sorted(axis % ndim for axis in integers(node, "axes", [0, 2, 3])))
        return cls(
            own,
            of_channels,
            int(node.get("num_groups", 1)) if kind == "GroupNormalization" else 0,
            not kind.startswith(("RMS", "Simplified")),
            float(node.get("epsilon", 1e-9 if kind.startswith("Mean") else 1e-5)),
        )

    def scaled(self, output: Value, given: Inputs, arithmetic: Arithmetic) -> List[Value]:
        """Return the normalised values times scale, plus bias."""
        x = named_input(given, 0, "input")
        return [
            _scaled(output, self._broadcast(given, 1, x), self._broadcast(given, 2, x), arithmetic)
        ]

    def _broadcast(self, given: Inputs, number: int, x: Value) -> Optional[Value]:
        value = optional(given, number)
        if not self.of_channels or value is None:
            return _broadcast_to_axes(value, x, self.axes)
        channels = x.array.shape[1]
        if value.array.size == self.groups != channels:
            value = moved(lambda array: np.repeat(array, channels // self.groups), value)
        return _of_channels(value, x)


def _normalised_otherwise(
    node: Node, inputs: Inputs, epsilon: Optional[float] = None
) -> Iterator[Any]:
    """Yield normalisations over other axes or groups, and by other statistics, with the model's
    epsilon or another one; scale and bias as the model says.
    """
    x = named_input(inputs, 0, "input")
    shape, ndim = x.array.shape, x.array.ndim
    model = _Usual.of(node, x)
    own, groups = model.axes, model.groups
    inside = model.epsilon if epsilon is None else epsilon
    usual = "" if model.subtracts else "not centred"

    def applied(axes: Axes, way: str, parts: int = 0) -> Callable[..., List[Value]]:
        def made(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
            data, over = named_input(given, 0, "input"), axes
            if parts:
                data = moved(lambda array: array.reshape((shape[0], parts, -1)), data)
                over = (2,)
            output = moved(
                lambda array: array.reshape(shape),
                _by_statistics(data, over, inside, way, arithmetic),
            )
            return model.scaled(output, given, arithmetic)

        return made

    own_words = "%d groups" % groups if groups else _axes_in_words(own)
    # Of GroupNormalization the groups are an attribute.
    for parts in range(1, shape[1] + 1) if model.of_channels and not groups else ():
        if shape[1] % parts == 0 and parts != groups:
            yield "%d groups" % parts, own_words, applied(own, usual, parts)
    for count in range(1, ndim + 1) if ndim <= _MOST_AXES else ():
        for axes in combinations(range(ndim), count):
            # Of one element nothing is left but the bias, as where a variance overflows.
            several = any(shape[axis] > 1 for axis in axes)
            if (axes != own or groups) and several:
                yield _axes_in_words(axes), own_words, applied(axes, usual)
    for way, (device, own_way) in _STATISTICS.items():
        if way != (usual or "centred"):
            together = way if "centred" in way or not usual else "%s %s" % (usual, way)
            yield device, own_way, applied(own, together, groups)


def _with_whole_blocks(node: Node, inputs: Inputs) -> Iterator[Any]:
    """Yield normalisations by the statistics of whole blocks."""
    x = named_input(inputs, 0, "input")
    model = _Usual.of(node, x)
    count = int(np.prod([x.array.shape[axis] for axis in model.axes]))

    def of_blocks(padded: int) -> Callable[..., List[Value]]:
        def made(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
            data = named_input(given, 0, "input")
            output = _with_zeros_behind(
                data, model.axes, model.epsilon, padded, model.subtracts, arithmetic
            )
            return model.scaled(output, given, arithmetic)

        return made

    for padded in () if model.groups else _whole_blocks(count):
        device = "those of %d elements, zeros behind its %d" % (padded, count)
        yield device, "those of its %d" % count, of_blocks(padded)


def _axes_in_words(axes: Axes) -> str:
    return "axis %d" % axes if len(axes) == 1 else "axes %s" % text_of(list(axes))


def _with_other_epsilon(node: Node, inputs: Inputs) -> Iterator[Any]:
    for epsilon in EPSILONS:
        for device, model, function in _normalised_otherwise(node, inputs, epsilon):
            yield "%s with epsilon %s" % (device, text_of(epsilon)), model, function


def _root_of_squares_and(more: float) -> Callable[[Array, Axes], Array]:
    return lambda array, axes: np.sqrt(np.square(array).sum(axes, keepdims=True) + more)


def _norms_otherwise(node: Node, inputs: Inputs) -> Iterator[Any]:
    """Yield x divided by norms of other powers and over other axes."""
    x = named_input(inputs, 0, "input")
    ndim = x.array.ndim
    own = int(node.get("axis", -1)) % ndim
    power = int(node.get("p", 2))

    def applied(axes: Axes, size: Callable[[Array, Axes], Array]) -> Callable[..., List[Value]]:
        def made(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
            return [elementwise(lambda array: array / size(array, axes), given[0])]  # type: ignore[arg-type]

        return made

    sizes: Dict[str, Callable[[Array, Axes], Array]] = {
        "p infinity (the largest magnitude)": lambda a, at: np.abs(a).max(at, keepdims=True),
        "p 1": lambda a, at: np.abs(a).sum(at, keepdims=True),
        "p 2": lambda a, at: np.sqrt(np.square(a).sum(at, keepdims=True)),
        "p 2 without the root": lambda a, at: np.square(a).sum(at, keepdims=True),
        "the root of the mean square": lambda a, at: np.sqrt(np.square(a).mean(at, keepdims=True)),
        "the sum (without signs taken off)": lambda a, at: a.sum(at, keepdims=True),
    }
    model = "p %d over axis %d" % (power, own)
    for epsilon in filter(None, EPSILONS if power == 2 else ()):
        for times, where in ((1, "the sum of squares"), (x.array.shape[own], "their mean")):
            yield (
                "an epsilon of %s added to %s" % (text_of(epsilon), where),
                "none",
                applied((own,), _root_of_squares_and(epsilon * times)),
            )
    for words, size in sizes.items():
        for count in range(1, ndim + 1) if ndim <= _MOST_AXES else ():
            for axes in combinations(range(ndim), count):
                if words != "p %d" % power or axes != (own,):
                    yield (
                        "%s over axes %s" % (words, text_of(list(axes))),
                        model,
                        applied(axes, size),
                    )


def _within_channels(node: Node, inputs: Inputs) -> Iterator[Any]:
    size = int(node.get("size"))
    values = [
        float(node.get(name, value))
        for name, value in (("bias", 1), ("alpha", 1e-4), ("beta", 0.75))
    ]
    bias, alpha, beta = values

    def made(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
        x = named_input(given, 0, "input")
        axes, window = range(2, x.array.ndim), ((size - 1) // 2, size // 2)
        share = alpha / size ** len(axes)
        return [_local_response(x, axes, window, bias, share, beta, arithmetic)]

    yield "the neighbours within a channel", "those of other channels", made


def _other_group_counts(node: Node, inputs: Inputs) -> Iterator[Variant]:
    channels, own = named_input(inputs, 0, "input").array.shape[1], int(node.get("num_groups"))

    def of_channels(given: List[Optional[Value]]) -> List[Optional[Value]]:
        """Return the inputs with scale and bias, which may be those of groups, of channels."""
        return [given[0]] + [
            moved(lambda array: np.repeat(array.reshape(-1), channels // array.size), value)
            for value in given[1:]
            if value is not None
        ]

    for count in range(1, channels + 1):
        if channels % count == 0 and count != own:
            instead = replace(node, attributes={**node.attributes, "num_groups": count})
            yield Variant("num_groups", text_of(count), text_of(own), instead, of_channels)


_EPSILON = attribute("epsilon", EPSILONS, 1e-5, fitted=True)
declare(
    "LayerNormalization RMSNormalization SimplifiedLayerNormalization",
    _EPSILON,
    attribute("axis", each_axis, -1),
)
declare(
    "InstanceNormalization GroupNormalization com.microsoft.SkipLayerNormalization "
    "com.microsoft.SkipSimplifiedLayerNormalization",
    _EPSILON,
)
declare(
    "GroupNormalization",
    Reading("num_groups", "each other that divides the channels", _other_group_counts),
)
declare(
    "LayerNormalization InstanceNormalization GroupNormalization",
    missing_input(2, "the bias"),
    missing_inputs({1: 1.0, 2: 0.0}, "the scale and the bias"),
)
declare(
    "LayerNormalization InstanceNormalization GroupNormalization RMSNormalization "
    "SimplifiedLayerNormalization",
    missing_input(1, "the scale (gamma)", 1.0),
)
declare(
    "LayerNormalization RMSNormalization SimplifiedLayerNormalization InstanceNormalization "
    "GroupNormalization MeanVarianceNormalization",
    computed_instead(
        "its statistics",
        "over each other set of axes or number of groups; the variance unbiased, without its root, "
        "a sum or 0; epsilon beside the root; with or without the mean",
        _normalised_otherwise,
    ),
    computed_instead(
        "its statistics",
        "of whole blocks (a multiple of 8 to 256, a power of two) with zeros behind the elements",
        _with_whole_blocks,
    ),
    computed_instead("its statistics", "these and another epsilon", _with_other_epsilon)._replace(
        together=True
    ),
)
declare(
    "LpNormalization",
    attribute("axis", each_axis, -1),
    attribute("p", (1, 2), 2),
    computed_instead(
        "its norm",
        "p 1, 2, infinity, mean squares, over each set of axes; an epsilon added",
        _norms_otherwise,
    ),
)
declare(
    "LRN",
    attribute("size", range(1, 12)),
    computed_instead("its neighbours", "those within a channel", _within_channels),
    other_node("alpha", _not_divided),
    attribute("alpha", (1e-4, 1e-3), 1e-4, fitted=True),
    attribute("beta", (0.75, 0.5), 0.75, fitted=True),
    attribute("bias", (1.0, 2.0), 1.0, fitted=True),
)

declare(
    "MVN",
    attribute("across_channels", (False, True), False),
    attribute("normalize_variance", (False, True), True),
    dialect=CAFFE,
)
declare("Normalize", attribute("across_spatial", (False, True), True), dialect=CAFFE)
declare(
    "LRN",
    attribute("norm_region", ("ACROSS_CHANNELS", "WITHIN_CHANNEL"), "ACROSS_CHANNELS"),
    attribute("local_size", (3, 5, 7), 5),
    attribute("alpha", (1e-4, 1e-3), 1.0, fitted=True),
    attribute("beta", (0.75, 0.5), 0.75, fitted=True),
    attribute("k", (1.0, 2.0), 1.0, fitted=True),
    dialect=CAFFE,
)
declare(
    "LRN",
    attribute("depth_radius", (1, 2, 3, 5), 5),
    attribute("alpha", (1e-4, 1e-3), 1.0, fitted=True),
    attribute("beta", (0.75, 0.5), 0.5, fitted=True),
    attribute("bias", (1.0, 2.0), 1.0, fitted=True),
    dialect=TENSORFLOW,
)
