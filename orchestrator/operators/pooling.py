"""Pooling by windows and over whole pictures, of all dialects."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .convolution_operators import caffe_pair, integers, named_input
from .error_propagation import elementwise, moved
from .layouts_and_pads import (
    as_given,
    ascend_pads,
    channels_first,
    is_last,
    of_input,
    spatial,
    window_pads,
)
from .mean_and_variance import mean
from .recurrent_cells import part, stacked
from .registry import CannotCompute, Inputs, Node, operator
from .splittable_axes import Parts, Shape, Values, Window, planes
from .value_with_error import Arithmetic, Value, joined_errors

Array = Any


@dataclass(frozen=True)
class _Windows:
    """Which windows a pooling operator looks at: one number for each axis of the window.

    Attributes
    ----------
    sizes, counts
        Of the input, and of the windows.
    begin, end
        Pads before and behind.
    """

    sizes: Tuple[int, ...]
    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    begin: Sequence[int]
    end: Sequence[int]
    counts: Tuple[int, ...]

    def places(self) -> Iterator[Tuple[Tuple[slice, ...], Tuple[slice, ...], Tuple[int, ...]]]:
        """Yield, for each place within the window, the windows that have it inside of the input,
        where it is there, and the place.
        """
        for place in product(*(range(reach) for reach in self.kernel)):
            outputs, inputs = [], []
            for step, size, stride, dilation, before, count in zip(
                place, self.sizes, self.strides, self.dilations, self.begin, self.counts
            ):
                offset = step * dilation - before
                first = max(0, -(offset // stride))
                last = min(count, (size - 1 - offset) // stride + 1)
                outputs.append(slice(first, last))
                inputs.append(
                    slice(offset + first * stride, offset + (last - 1) * stride + 1, stride)
                )
            if all(entry.start < entry.stop for entry in outputs):
                yield tuple(outputs), tuple(inputs), place

    @property
    def whole(self) -> bool:
        """Whether there is one window, which is the whole input."""
        padded = any(list(self.begin) + list(self.end))
        one = tuple(self.kernel) == tuple(self.sizes) and set(self.counts) == {1}
        return one and not padded and set(self.dilations) == {1}

    def inside(self, padded: bool) -> Array:
        """Return how many places of each window [*counts] lie in the input, or in it and its pads
        (``padded``).
        """
        total = np.ones((), np.int64)
        for size, reach, stride, dilation, before, after, count in zip(
            self.sizes, self.kernel, self.strides, self.dilations, self.begin, self.end, self.counts
        ):
            starts = np.arange(count) * stride - before
            at = starts[:, None] + np.arange(reach) * dilation
            low, high = (-before, size + after) if padded else (0, size)
            total = total[..., None] * np.sum((at >= low) & (at < high), axis=1)
        return total


def _largest(x: Value, windows: _Windows) -> Value:
    """Return the largest value in each window of [N, C, ...], with its own error."""
    if x.error is not None:
        return _largest_and_place(x, windows)[0]
    if windows.whole:
        return Value(np.max(x.array, axis=tuple(range(2, x.array.ndim)), keepdims=True))
    best = _lowest(x, windows)
    for outputs, inputs, _ in windows.places():
        target = best[(Ellipsis,) + outputs]
        np.maximum(target, x.array[(Ellipsis,) + inputs], out=target)
    return Value(best)


def _largest_of_all(x: Value, counts: Tuple[int, ...]) -> Tuple[Value, Array]:
    lead = x.array.shape[:2]
    flat = x.array.reshape(lead + (-1,))
    where = np.argmax(flat, axis=2)
    best = np.take_along_axis(flat, where[..., None], 2)
    error = None
    if x.error is not None:
        errors = np.broadcast_to(x.error, x.array.shape).reshape(flat.shape)
        near = best - flat <= np.hypot(errors, np.take_along_axis(errors, where[..., None], 2))
        error = np.max(np.where(near, errors, 0.0), axis=2).reshape(lead + counts)
    return Value(best.reshape(lead + counts), error), where.reshape(lead + counts)


def _lowest(x: Value, windows: _Windows) -> Array:
    if not np.all(windows.inside(False)):
        raise CannotCompute("one of its windows lies outside of its input")
    lowest = -np.inf if x.is_float else np.iinfo(x.array.dtype).min
    return np.full(x.array.shape[:2] + windows.counts, lowest, x.array.dtype)


def _largest_and_place(x: Value, windows: _Windows) -> Tuple[Value, Array]:
    """Return the largest values of :func:`_largest` and their places in the flattened axes of the
    window.

    A value that another one equals up to its error has the larger error of both: either may have
    won.
    """
    lead = x.array.shape[:2]
    if windows.whole:
        return _largest_of_all(x, windows.counts)
    best = _lowest(x, windows)
    where = np.full(lead + windows.counts, -1, np.int64)
    errors = None if x.error is None else np.broadcast_to(x.error, x.array.shape)
    error = None if errors is None else np.zeros(lead + windows.counts)
    numbers = np.arange(int(np.prod(windows.sizes))).reshape(windows.sizes)
    for outputs, inputs, _ in windows.places():
        target, part = (Ellipsis,) + outputs, x.array[(Ellipsis,) + inputs]
        before = best[target]
        larger = (part > before) | np.isnan(part) | (where[target] < 0)
        if error is not None and errors is not None:
            rival, now = errors[(Ellipsis,) + inputs], error[target]
            near = np.isfinite(before) & (np.abs(part - before) <= np.hypot(rival, now))
            error[target] = np.where(near, np.maximum(rival, now), np.where(larger, rival, now))
        best[target] = np.where(np.isnan(before), before, np.where(larger, part, before))
        where[target] = np.where(larger & ~np.isnan(before), numbers[inputs], where[target])
    return Value(best, error), where


def _total(x: Value, windows: _Windows, power: float = 0.0) -> Tuple[Array, Optional[Array], Array]:
    """Return the sums of each window in double precision, of |x|^power where there is one; their
    errors; and the sums of squares.
    """
    array = np.asarray(x.array, np.float64)
    slopes: Any = 1.0
    if power:
        slopes = power * np.abs(array) ** (power - 1.0)
        array = np.abs(array) ** power
    error_squares = (
        None if x.error is None else np.square(slopes * np.broadcast_to(x.error, x.array.shape))
    )
    if windows.whole:
        axes = tuple(range(2, array.ndim))
        sums = [
            None if part is None else np.sum(part, axis=axes, keepdims=True)
            for part in (array, np.square(array), error_squares)
        ]
        return sums[0], None if sums[2] is None else np.sqrt(sums[2]), sums[1]
    shape = x.array.shape[:2] + windows.counts
    total, squares, error = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for outputs, inputs, _ in windows.places():
        target, source = (Ellipsis,) + outputs, (Ellipsis,) + inputs
        total[target] += array[source]
        squares[target] += np.square(array[source])
        if error_squares is not None:
            error[target] += error_squares[source]
    return total, None if error_squares is None else np.sqrt(error), squares


def _average(x: Value, windows: _Windows, divisor: Array, arithmetic: Arithmetic) -> Value:
    """Return the windows' sums divided by ``divisor``; the accumulator's error is as of
    :func:`primitives.sum_of_products`.
    """
    if not np.all(divisor):
        raise CannotCompute("one of its windows lies outside of its input")
    total, error, squares = _total(x, windows)
    terms = max(1, int(np.prod(windows.kernel)))
    rounding = None
    if arithmetic.accumulator and x.is_float:
        rounding = (
            arithmetic.accumulator * np.sqrt(terms / 6.0) * np.sqrt(squares + np.square(total))
        )
    both = joined_errors(error, rounding)
    return Value(total / divisor, None if both is None else both / divisor)


def _counts(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    ceil: bool,
    clip: bool,
) -> Tuple[int, ...]:
    """Return how many windows there are.

    ``ceil``: the last may be a part; ``clip``: unless it begins behind the input and the pad
    before.
    """
    counts = []
    for size, reach, stride, dilation, before, after in zip(
        sizes, kernel, strides, dilations, begin, end
    ):
        room = size + before + after - ((reach - 1) * dilation + 1)
        count = (-(-room // stride) if ceil else room // stride) + 1
        if clip and (count - 1) * stride >= size + before:
            count -= 1
        if count < 1:
            raise CannotCompute("its window %s does not fit into %s" % (list(kernel), list(sizes)))
        counts.append(count)
    return tuple(counts)


def _windows(
    x: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Tuple[Sequence[int], Sequence[int]],
    dilations: Optional[Sequence[int]] = None,
    ceil: bool = False,
    clip: bool = True,
) -> _Windows:
    sizes = x.array.shape[2:]
    dilations = dilations or [1] * len(kernel)
    if (
        not len(sizes)
        == len(kernel)
        == len(strides)
        == len(dilations)
        == len(pads[0])
        == len(pads[1])
        or not sizes
    ):
        raise CannotCompute("its window %s does not fit into %s" % (list(kernel), x.array.shape))
    counts = _counts(sizes, kernel, strides, dilations, pads[0], pads[1], ceil, ceil and clip)
    return _Windows(sizes, kernel, strides, dilations, pads[0], pads[1], counts)


def _everything(x: Value) -> _Windows:
    sizes = x.array.shape[2:]
    ones, zeros = [1] * len(sizes), [0] * len(sizes)
    return _Windows(sizes, sizes, ones, ones, zeros, zeros, tuple(ones))


def _onnx_windows(node: Node, x: Value) -> _Windows:
    """ONNX's attributes; with ceil_mode a window that would begin in the pads behind is left out.

    Opset 19 says so; runtimes do it before.
    """
    if node.type.startswith("Global"):
        return _everything(x)
    kernel = integers(node, "kernel_shape")
    axes = len(kernel)
    strides, dilations = (
        integers(node, "strides", [1] * axes),
        integers(node, "dilations", [1] * axes),
    )
    pads = integers(node, "pads", [0] * (2 * axes))
    mode = str(node.get("auto_pad", "NOTSET"))
    ceil = bool(node.get("ceil_mode", 0))
    begin, end = window_pads(
        mode, (pads[:axes], pads[axes:]), x.array.shape[2:], kernel, strides, dilations
    )
    return _windows(x, kernel, strides, (begin, end), dilations, ceil)


def _parts(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Return along which axes pooling can be computed in parts: pictures, channels, and the rows
    and columns of its output.
    """
    parts, x = planes(node, shapes, values), shapes[0] if shapes else None
    if parts is None or x is None or None in x or node.type == "MaxPoolV2":
        # The windows of MaxPoolV2 are an input.
        return parts
    # Of an array without memory.
    value = Value(np.broadcast_to(np.float32(0), x))  # type: ignore[arg-type]
    windows, layout = _READ[node.dialect](node, value)
    if windows.whole:
        return parts
    last = bool(layout) and is_last(layout)
    axes = {
        axis: Window(axis, stride, (reach - 1) * dilation + 1, before)
        for axis, (stride, reach, dilation, before, after) in enumerate(
            zip(windows.strides, windows.kernel, windows.dilations, windows.begin, windows.end),
            1 if last else 2,
        )
        if min(before, after) >= 0
    }
    shape = (x[0], *windows.counts, x[-1]) if last else (*x[:2], *windows.counts)
    return parts.with_windows(shape, axes, len(shapes))


_READ: Dict[str, Callable[[Node, Value], Tuple[_Windows, str]]] = {}
"""Return the windows of a node of a dialect, and the layout in which its input is given; empty: [N,
C, ...].
"""


@operator(onnx=["MaxPool"], parts=_parts)
def onnx_max_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX MaxPool; the second output counts through the whole input, N and C too."""
    x = named_input(inputs, 0, "input")
    windows = _onnx_windows(node, x)
    if node.outputs < 2:
        return [_largest(x, windows)]
    best, where = _largest_and_place(x, windows)
    if int(node.get("storage_order", 0)):
        turned = np.arange(int(np.prod(windows.sizes))).reshape(windows.sizes[::-1]).T.reshape(-1)
        where = turned[where]
    planes = np.arange(int(np.prod(x.array.shape[:2]))).reshape(
        x.array.shape[:2] + (1,) * len(windows.sizes)
    )
    return [best, Value(where + planes * int(np.prod(windows.sizes)))]


@operator(onnx=["AveragePool"], sums=True, parts=_parts)
def onnx_average_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX AveragePool; pads count where count_include_pad says so, what lies behind them
    (ceil_mode) never.
    """
    x = named_input(inputs, 0, "input")
    windows = _onnx_windows(node, x)
    return [
        _average(x, windows, windows.inside(bool(node.get("count_include_pad", 0))), arithmetic)
    ]


def _norm(x: Value, windows: _Windows, power: float, arithmetic: Arithmetic) -> Value:
    """Return the p-norm of each window."""
    total, error, squares = _total(x, windows, power)
    terms = max(1, int(np.prod(windows.kernel)))
    rounding = (
        arithmetic.accumulator * np.sqrt(terms / 6.0) * np.sqrt(squares + np.square(total))
        if arithmetic.accumulator
        else None
    )
    both = joined_errors(error, rounding)
    result = total ** (1.0 / power)
    if both is None:
        return Value(result)
    return Value(result, (total + both) ** (1.0 / power) - result).with_step(
        arithmetic.intermediate
    )


@operator(onnx=["LpPool", "GlobalLpPool"], sums=True, parts=_parts)
def onnx_norm_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX LpPool and GlobalLpPool: the p-norm, by default p = 2."""
    x = named_input(inputs, 0, "input")
    return [_norm(x, _onnx_windows(node, x), float(node.get("p", 2)), arithmetic)]


@operator(onnx=["GlobalMaxPool"], parts=planes)
def global_max_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Compute the largest of each channel of [N, C, ...]."""
    x = named_input(inputs, 0, "input")
    return [_largest(x, _everything(x))]


@operator(onnx=["GlobalAveragePool"], ascend=["GlobalAveragePool"], sums=True, parts=planes)
def global_average_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Compute the mean of each channel of [N, C, ...]."""
    layout = node.layouts[0] if node.layouts and len(node.layouts[0]) > 2 else "NCHW"
    x = channels_first(named_input(inputs, 0, "input"), layout)
    windows = _everything(x)
    return [as_given(_average(x, windows, windows.inside(False), arithmetic), layout)]


@operator(caffe=["Pooling"], sums=True, parts=_parts)
def caffe_pooling(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe Pooling: counts of windows round up, and one that begins behind the input and its pad
    is left out, if there is a pad.

    The mean of a window is over what lies in the input and its pads. Stochastic pooling is the mean
    at TEST, each value weighted by itself. Sources: BVLC Caffe, pooling_layer.cpp,
    pooling_layer.cu.
    """
    x = named_input(inputs, 0, "input")
    modes = {"MAX": True, "AVE": False, "STOCHASTIC": False}
    mode = str(node.get("pool", "MAX"))
    if mode not in modes:
        raise CannotCompute("its pool %s is not known" % mode)
    windows = _caffe_windows(node, x)
    if mode == "STOCHASTIC":
        return _weighted_by_itself(x, windows, arithmetic)
    if x.error is None and not arithmetic.accumulator:
        has_infinities = modes[mode] and not np.min(x.array) > -np.inf
        if has_infinities or not np.all(windows.inside(False)):
            return _as_caffes_loops(x, windows, modes[mode])
    if not modes[mode]:
        return [_average(x, windows, windows.inside(True), arithmetic)]
    if node.outputs < 2:
        return [_largest(x, windows)]
    best, where = _largest_and_place(x, windows)
    return [best, Value(where.astype(np.float32))]


def _caffe_windows(node: Node, x: Value) -> _Windows:
    if bool(node.get("global_pooling", False)):
        return _everything(x)
    axes = x.array.ndim - 2
    if not {"kernel_size", "kernel_h"} & set(node.attributes):
        raise CannotCompute("its attribute kernel_size is not known")
    kernel = caffe_pair(node, "kernel_size", axes, [], "kernel")
    strides, pads = caffe_pair(node, "stride", axes, [1]), caffe_pair(node, "pad", axes, [0])
    rounds = str(node.get("round_mode", "CEIL"))
    if rounds not in ("CEIL", "FLOOR"):
        raise CannotCompute("its round_mode %s is not known" % rounds)
    ceil = rounds == "CEIL" and bool(node.get("ceil_mode", True))
    counts = _counts(x.array.shape[2:], kernel, strides, [1] * axes, pads, pads, ceil, any(pads))
    return _Windows(x.array.shape[2:], kernel, strides, [1] * axes, pads, pads, counts)


def _weighted_by_itself(x: Value, windows: _Windows, arithmetic: Arithmetic) -> List[Value]:
    """Return Σ x² / Σ x over each window, 0 where Σ x is not above 0. The layer has no pads."""
    if any(windows.begin):
        raise CannotCompute("stochastic pooling has no pad")
    ones = np.ones((), np.int64)
    squares, total = (
        _average(value, windows, ones, arithmetic) for value in (elementwise(np.square, x), x)
    )

    def divided(a: Array, b: Array) -> Array:
        return np.where(b > 0, a / np.where(b > 0, b, 1.0), 0.0)

    return [elementwise(divided, squares, total, steps=arithmetic.intermediate)]


def _as_caffes_loops(x: Value, windows: _Windows, largest: bool) -> List[Value]:
    """Return what Caffe's loops make of NaN, -inf and windows that lie outside.

    A maximum begins at -FLT_MAX without a place, and no comparison with NaN is true; a mean is
    divided by an area that may be 0 or less.
    """
    if largest:
        best = np.full(x.array.shape[:2] + windows.counts, np.finfo(np.float32).min, x.array.dtype)
        where = np.full(best.shape, -1.0, np.float32)
        numbers = np.arange(int(np.prod(windows.sizes))).reshape(windows.sizes)
        for outputs, inputs, _ in windows.places():
            target, values = (Ellipsis,) + outputs, x.array[(Ellipsis,) + inputs]
            larger = values > best[target]
            best[target] = np.where(larger, values, best[target])
            where[target] = np.where(larger, numbers[inputs], where[target])
        return [Value(best), Value(where)]
    area = np.ones((), np.int64)
    for size, reach, stride, before, after, count in zip(
        windows.sizes, windows.kernel, windows.strides, windows.begin, windows.end, windows.counts
    ):
        starts = np.arange(count) * stride - before
        area = area[..., None] * (np.minimum(starts + reach, size + after) - starts)
    return [Value(_total(x, windows)[0] / area)]


def _of_layout(
    node: Node, x: Value, default: str, ksize: Any, strides: Any
) -> Tuple[str, str, List[int], List[int]]:
    """Return the layout of x, that of attributes, the window and its strides."""
    data_format = str(node.get("data_format", default))
    layout = of_input(node, 0, data_format) if node.dialect == "ascend" else data_format
    if x.array.ndim != len(layout):
        raise CannotCompute("its input %s does not fit %s" % (x.array.shape, layout))
    return (
        layout,
        data_format,
        spatial(ksize, data_format, "ksize"),
        spatial(strides, data_format, "strides"),
    )


_FRAMEWORK_MAX = ["MaxPool", "MaxPool3D"]
_FRAMEWORK_MEAN = ["AvgPool", "AvgPool3D"]


@operator(tensorflow=_FRAMEWORK_MAX + ["MaxPoolV2"], ascend=["MaxPool"], parts=_parts)
def tensorflow_max_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow's, and Ascend IR's of the same name, with padding SAME or VALID."""
    x, windows, layout = _tensorflow_windows(node, inputs)
    return [as_given(_largest(x, windows), layout)]


@operator(tensorflow=_FRAMEWORK_MEAN, ascend=["AvgPool"], sums=True, parts=_parts)
def tensorflow_average_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow's, and Ascend IR's of the same name: pads do not count."""
    x, windows, layout = _tensorflow_windows(node, inputs)
    return [as_given(_average(x, windows, windows.inside(False), arithmetic), layout)]


def _tensorflow_windows(node: Node, inputs: Inputs) -> Tuple[Value, _Windows, str]:
    x = named_input(inputs, 0, "input")
    if node.type == "MaxPoolV2":
        ksize, strides = (
            named_input(inputs, 1, "ksize").array,
            named_input(inputs, 2, "strides").array,
        )
    else:
        ksize, strides = node.get("ksize"), node.get("strides")
    default = "NDHWC" if node.type.endswith("3D") else "NHWC"
    layout, _, kernel, steps = _of_layout(node, x, default, ksize, strides)
    x = channels_first(x, layout)
    mode = str(node.get("padding"))
    if mode not in ("SAME", "VALID"):
        raise CannotCompute("its padding %r is not known" % mode)
    ones = [1] * len(kernel)
    return (
        x,
        _windows(x, kernel, steps, window_pads(mode, None, x.array.shape[2:], kernel, steps, ones)),
        layout,
    )


@operator(ascend=["MaxPoolV3"], parts=_parts)
def ascend_max_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR MaxPoolV3."""
    x, windows, layout = _ascend_windows(node, inputs)
    return [as_given(_largest(x, windows), layout)]


@operator(ascend=["AvgPoolV2"], sums=True, parts=_parts)
def ascend_average_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR AvgPoolV2: ``exclusive`` leaves pads out of the count, divisor_override is the
    count.
    """
    x, windows, layout = _ascend_windows(node, inputs)
    divisor = windows.inside(not bool(node.get("exclusive", True)))
    if int(node.get("divisor_override", 0)):
        divisor = np.full_like(divisor, int(node.get("divisor_override")))
    return [as_given(_average(x, windows, divisor, arithmetic), layout)]


def _ascend_windows(node: Node, inputs: Inputs) -> Tuple[Value, _Windows, str]:
    x = named_input(inputs, 0, "input")
    layout, _, kernel, strides = _of_layout(node, x, "NCHW", node.get("ksize"), node.get("strides"))
    x = channels_first(x, layout)
    if bool(node.get("global_pooling", False)):
        return x, _everything(x), layout
    mode = str(node.get("padding_mode", "CALCULATED"))
    explicit = (
        ascend_pads(node.get("pads", [0, 0, 0, 0]), len(kernel)) if mode == "CALCULATED" else None
    )
    pads = window_pads(mode, explicit, x.array.shape[2:], kernel, strides, [1] * len(kernel))
    return (
        x,
        _windows(
            x,
            kernel,
            strides,
            pads,
            ceil=mode == "CALCULATED" and bool(node.get("ceil_mode", False)),
        ),
        layout,
    )


@operator(ascend=["Pooling"], sums=True, parts=_parts)
def ascend_pooling(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR Pooling, of Caffe's networks: mode 0 is the largest, 1 the mean; ceil_mode 0 rounds
    counts up, 1 down.
    """
    x, windows, layout = _pooling_windows(node, inputs)
    mode = int(node.get("mode", 0))
    output = (
        _average(x, windows, windows.inside(True), arithmetic) if mode else _largest(x, windows)
    )
    return [as_given(output, layout)]


def _pooling_windows(node: Node, inputs: Inputs) -> Tuple[Value, _Windows, str]:
    layout = of_input(node, 0, str(node.get("data_format", "NCHW")))
    x = channels_first(named_input(inputs, 0, "input"), layout)
    mode, rounds = int(node.get("mode", 0)), int(node.get("ceil_mode", 0))
    if (
        mode not in (0, 1)
        or rounds not in (0, 1)
        or any(number != 1 for number in integers(node, "dilation", [1]))
    ):
        raise CannotCompute("its mode=%s, ceil_mode=%s or dilation is not known" % (mode, rounds))
    if bool(node.get("global_pooling", False)):
        return x, _everything(x), layout
    kernel, strides = integers(node, "window", [1, 1]), integers(node, "stride", [1, 1])
    begin, end = ascend_pads(node.get("pad", [0, 0, 0, 0]), len(kernel))
    sizes = x.array.shape[2:]
    counts = _counts(
        sizes,
        kernel,
        strides,
        [1] * len(kernel),
        begin,
        end,
        not rounds,
        any(list(begin) + list(end)),
    )
    return x, _Windows(sizes, kernel, strides, [1] * len(kernel), begin, end, counts), layout


@operator(ascend=["AdaptiveAvgPool2d"], sums=True, parts=planes)
def ascend_adaptive_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR AdaptiveAvgPool2d, which is PyTorch's: output i is the mean from ⌊i·n/m⌋ to before
    ⌈(i + 1)·n/m⌉ of n elements.
    """
    x = named_input(inputs, 0, "input")
    sizes = integers(node, "output_size")
    if len(sizes) != 2 or min(sizes) < 1 or x.array.ndim != 4:
        raise CannotCompute("its output_size %s does not fit %s" % (sizes, x.array.shape))
    spans = [
        [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
        for n, m in zip(x.array.shape[2:], sizes)
    ]
    cells = []
    for top, bottom in spans[0]:
        for left, right in spans[1]:
            cells.append(
                mean(
                    part(x, (slice(None), slice(None), slice(top, bottom), slice(left, right))),
                    (2, 3),
                    arithmetic,
                )
            )
    shape = x.array.shape[:2] + tuple(sizes)
    return [moved(lambda array: np.moveaxis(array, 0, 2).reshape(shape), stacked(cells))]


def _of_ascend(node: Node, x: Value) -> Tuple[_Windows, str]:
    read = {
        "Pooling": _pooling_windows,
        "MaxPool": _tensorflow_windows,
        "AvgPool": _tensorflow_windows,
    }
    return read.get(node.type, _ascend_windows)(node, [x])[1:]


_READ["onnx"] = lambda node, x: (_onnx_windows(node, x), "")
_READ["caffe"] = lambda node, x: (_caffe_windows(node, x), "")
_READ["tensorflow"] = lambda node, x: _tensorflow_windows(node, [x])[1:]
_READ["ascend"] = _of_ascend
