"""Batch normalisation by known statistics, and Scale, of all dialects."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional

import numpy as np

from .convolution_operators import named_input, optional
from .elementwise import aligned
from .error_propagation import elementwise, moved
from .layouts_and_pads import of_input
from .mean_and_variance import centred, mean
from .registry import (
    CAFFE,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    InTraining,
    Node,
    channel_axis,
    operator,
)
from .splittable_axes import first
from .value_with_error import FLOAT32_ROUNDING, Arithmetic, Value, joined_errors
from .variants import (
    EPSILONS,
    Reading,
    Variant,
    attribute,
    declare,
    input_order,
    missing_input,
    missing_inputs,
)

Array = Any

_ONE = Value(np.ones((), np.float32))
_ZERO = Value(np.zeros((), np.float32))


def _by_statistics(
    x: Value,
    center: Value,
    variance: Value,
    epsilon: float,
    scale: Optional[Value],
    offset: Optional[Value],
    arithmetic: Arithmetic,
) -> Value:
    """Return (x - mean) / √(variance + ε) · scale + offset; all but x broadcast to it.

    Devices fold it to x · a + b, so one rounding of each of both counts: where they cancel that is
    a large error. What is folded is known before anything runs, and in float32 at least.
    """
    scale, offset = scale or _ONE, offset or _ZERO

    def factor(variance: Array, scale: Array) -> Array:
        return scale / np.sqrt(variance + epsilon)

    def normalised(x: Array, center: Array, variance: Array, scale: Array, offset: Array) -> Array:
        return (x - center) * factor(variance, scale) + offset

    output = elementwise(normalised, x, center, variance, scale, offset)
    step = arithmetic.intermediate / np.sqrt(3.0)
    if not step:
        return output
    wide = [np.asarray(value.array, np.float64) for value in (center, variance, scale, offset)]
    times = factor(wide[1], wide[2])
    folded = min(step, FLOAT32_ROUNDING / np.sqrt(3.0)) * np.abs(wide[0] * times)
    return Value(
        output.array,
        joined_errors(
            output.error,
            step * np.abs(x.array * times),
            step * np.abs(wide[3] - wide[0] * times),
            folded,
        ),
    )


def _channel(value: Optional[Value], axis: int, x: Value) -> Optional[Value]:
    """Return statistics of channels, of whatever shape, to be broadcast to x."""
    if value is None:
        return None
    if value.array.size not in (1, x.array.shape[axis]):
        raise CannotCompute(
            "statistics %s do not fit axis %d of %s" % (value.array.shape, axis, x.array.shape)
        )
    shape = [1] * x.array.ndim
    shape[axis] = value.array.size
    return moved(lambda array: array.reshape(shape), value)


def _normalised(
    x: Value,
    axis: int,
    epsilon: float,
    center: Value,
    variance: Value,
    scale: Optional[Value],
    offset: Optional[Value],
    arithmetic: Arithmetic,
) -> Value:
    parts = [_channel(value, axis, x) for value in (center, variance, scale, offset)]
    return _by_statistics(
        x, parts[0] or _ZERO, parts[1] or _ONE, epsilon, parts[2], parts[3], arithmetic
    )


@operator(onnx=["BatchNormalization"], parts=first)
def onnx_batch_normalization(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX BatchNormalization (x, scale, bias, mean, variance) for inference."""
    if bool(node.get("training_mode", 0)) or (0 < node.version < 7 and not node.get("is_test", 0)):
        raise InTraining()
    x = named_input(inputs, 0, "input")
    scale, offset, center, variance = (
        named_input(inputs, number, "input %d" % number) for number in (1, 2, 3, 4)
    )
    epsilon = float(node.get("epsilon", 1e-5))
    if bool(node.get("spatial", 1)):
        return [_normalised(x, 1, epsilon, center, variance, scale, offset, arithmetic)]
    return [_by_statistics(x, center, variance, epsilon, scale, offset, arithmetic)]


@operator(caffe=["BatchNorm"])
def caffe_batch_norm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe BatchNorm: blobs are a sum of means, one of variances, and how much they are sums of;
    or the batch's own statistics.
    """
    x = named_input(inputs, 0, "input")
    epsilon = float(node.get("eps", 1e-5))
    if not bool(node.get("use_global_stats", True)):
        axes = tuple(axis for axis in range(x.array.ndim) if axis != 1)
        center = mean(x, axes, arithmetic)
        variance = mean(elementwise(np.square, centred(x, center, arithmetic)), axes, arithmetic)
        return [_by_statistics(x, center, variance, epsilon, None, None, arithmetic)]
    total, variance, factor = (
        named_input(inputs, number, "blob %d" % (number - 1)) for number in (1, 2, 3)
    )
    return [_caffe_normalised(x, total, variance, factor, epsilon, arithmetic)]


def _caffe_normalised(
    x: Value, center: Value, variance: Value, factor: Value, epsilon: float, arithmetic: Arithmetic
) -> Value:
    divisor = float(factor.array.reshape(-1)[0])
    part = 0.0 if divisor == 0 else 1.0 / divisor
    scaled = [elementwise(lambda array: array * part, value) for value in (center, variance)]
    return _normalised(x, 1, epsilon, scaled[0], scaled[1], None, None, arithmetic)


@operator(
    tensorflow=["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"],
    ascend=["BatchNorm"],
    parts=first,
)
def fused_batch_norm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow's and Ascend IR's (x, scale, offset, mean, variance) for inference; mean and
    variance are outputs too.
    """
    if bool(node.get("is_training", True)):
        raise InTraining()
    x = named_input(inputs, 0, "input")
    scale, offset, center, variance = (
        named_input(inputs, number, "input %d" % number) for number in (1, 2, 3, 4)
    )
    layout = str(node.get("data_format", "NHWC"))
    if node.dialect == "ascend":
        layout = of_input(node, 0, layout)
    axis = x.array.ndim - 1 if layout.endswith("C") else 1
    output = _normalised(
        x, axis, float(node.get("epsilon", 1e-4)), center, variance, scale, offset, arithmetic
    )
    return [output, center, variance]


@operator(ascend=["BNInfer"], parts=first)
def ascend_batch_norm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR BNInfer (x, scale, offset, mean, variance)."""
    x = named_input(inputs, 0, "input")
    scale, offset, center, variance = (
        named_input(inputs, number, "input %d" % number) for number in (1, 2, 3, 4)
    )
    axis = channel_axis(node, x.array.ndim)
    return [
        _normalised(
            x, axis, float(node.get("epsilon")), center, variance, scale, offset, arithmetic
        )
    ]


@operator(ascend=["BNInference"], parts=first)
def ascend_caffe_batch_norm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR BNInference (x, mean, variance, momentum, scale, offset): Caffe's BatchNorm, or
    with scale and offset both.

    The momentum is Caffe's third blob. With scale and offset it is not looked at, so one that is
    not 1 is refused.
    """
    if int(node.get("mode", 1)) != 1 or not bool(node.get("use_global_stats", True)):
        raise CannotCompute("its mode=%s is not known" % node.get("mode", 1))
    x, center, variance, momentum = (
        named_input(inputs, number, "input %d" % number) for number in (0, 1, 2, 3)
    )
    scale, offset = optional(inputs, 4), optional(inputs, 5)
    epsilon = float(node.get("epsilon", 1e-5))
    if scale is None and offset is None:
        return [_caffe_normalised(x, center, variance, momentum, epsilon, arithmetic)]
    if scale is None or offset is None or float(momentum.array.reshape(-1)[0]) != 1.0:
        raise CannotCompute("what its momentum does beside a scale or an offset is not known")
    return [
        _normalised(
            x,
            channel_axis(node, x.array.ndim),
            epsilon,
            center,
            variance,
            scale,
            offset,
            arithmetic,
        )
    ]


@operator(ascend=["BNInferenceD"], parts=first)
def ascend_folded_batch_norm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR BNInferenceD (x, mean, variance, scale, b) of what the host has folded: variance ·
    (x + mean) · scale + b.
    """
    x = named_input(inputs, 0, "input")
    axis = channel_axis(node, x.array.ndim)
    parts = [_channel(optional(inputs, number), axis, x) for number in (1, 2, 3, 4)]
    if parts[0] is None or parts[1] is None:
        raise CannotCompute("its mean or variance is not known")
    shifted = elementwise(np.add, x, parts[0], steps=arithmetic.intermediate)
    output = elementwise(np.multiply, shifted, parts[1])
    if parts[2] is not None:
        output = elementwise(np.multiply, output.with_step(arithmetic.intermediate), parts[2])
    if parts[3] is not None:
        output = elementwise(np.add, output.with_step(arithmetic.intermediate), parts[3])
    return [output]


@operator(caffe=["Scale"], ascend=["Scale"], parts=first)
def scale(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe's and Ascend IR's Scale (x, scale, bias): scale and bias begin at an axis (1) of x."""
    x, factor = named_input(inputs, 0, "input"), named_input(inputs, 1, "scale")
    offset = optional(inputs, 2)
    if node.dialect == "caffe" and bool(node.get("bias_term", False)) and offset is None:
        raise CannotCompute("its bias is not known")
    axis = int(node.get("axis", 1))
    output = elementwise(np.multiply, x, _broadcast_from_axis(factor, axis, x))
    if offset is None:
        return [output]
    return [
        elementwise(
            np.add, output.with_step(arithmetic.intermediate), _broadcast_from_axis(offset, axis, x)
        )
    ]


def _broadcast_from_axis(value: Value, axis: int, x: Value) -> Value:
    """Return a factor to be broadcast to x: it begins at an axis, has all axes already, or is one
    number.
    """
    if value.array.size == 1:
        return moved(lambda array: array.reshape(()), value)
    if value.array.ndim == x.array.ndim and axis not in (0, -x.array.ndim):
        return value
    return aligned(value, axis, x.array.ndim)


def _of_the_batch(node: Node, inputs: Inputs) -> Iterator[Variant]:
    x = inputs[0]
    if x is None or x.array.ndim < 2:
        return
    axes = tuple(axis for axis in range(x.array.ndim) if axis != 1)

    def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
        values = given[0].array  # type: ignore[union-attr]
        return [*given[:3], Value(values.mean(axes)), Value(values.var(axes)), *given[5:]]

    yield Variant(
        "the statistics", "those of the batch (training mode)", "the stored ones", node, taken
    )


def _deviation(node: Node, inputs: Inputs) -> Iterator[Variant]:
    """Yield it with the variance in place of its root: as a deviation that is stored, and with
    epsilon added to it.
    """
    epsilon = float(node.get("epsilon", 1e-4 if node.dialect == TENSORFLOW else 1e-5))
    for added, words in (
        (0.0, "taken for the deviation"),
        (epsilon, "taken for the deviation, with epsilon"),
    ):

        def taken(given: List[Optional[Value]], added: float = added) -> List[Optional[Value]]:
            variance = np.float64(given[4].array) + added  # type: ignore[union-attr]
            return [*given[:4], Value(np.square(variance) - added), *given[5:]]

        yield Variant("the variance", words, "the variance", node, taken)


declare(
    "BatchNormalization",
    attribute("epsilon", EPSILONS, 1e-5, fitted=True),
    Reading("the statistics", "those of the batch", _of_the_batch),
    missing_input(2, "the bias"),
    missing_input(1, "the scale (gamma)", 1.0),
    missing_input(3, "the mean"),
    missing_input(4, "the variance", 1.0),
    missing_inputs({1: 1.0, 2: 0.0}, "the scale and the bias"),
    missing_inputs({3: 0.0, 4: 1.0}, "the mean and the variance"),
    input_order(1, 5),
    Reading("the variance", "taken for the deviation, with and without epsilon", _deviation),
)

declare("BatchNorm", attribute("eps", EPSILONS, 1e-5, fitted=True), dialect=CAFFE)
declare(
    "Scale",
    missing_input(2, "the bias"),
    missing_input(1, "the scale (gamma)", 1.0),
    dialect=CAFFE,
)
declare(
    "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3",
    attribute("epsilon", EPSILONS, 1e-4, fitted=True),
    missing_input(2, "the bias"),
    missing_input(1, "the scale (gamma)", 1.0),
    missing_input(3, "the mean"),
    missing_input(4, "the variance", 1.0),
    Reading("the variance", "taken for the deviation, with and without epsilon", _deviation),
    dialect=TENSORFLOW,
)
