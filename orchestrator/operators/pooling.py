"""The pooling operators of all dialects, by windows and over whole pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .convolution_operators import (
    STRIDES,
    caffe_pair,
    exchanged_axes,
    integers,
    named_input,
    other_first_position,
    other_steps,
    other_windows,
    pads_instead,
)
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
from .pooling_windows import (
    Windows,
    average,
    largest,
    largest_and_place,
    norm,
    whole_picture,
    window_counts,
    window_sums,
    windows_of,
)
from .recurrent_cells import part, stacked
from .registry import (
    CAFFE,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    compute,
    operator,
)
from .splittable_axes import Parts, Shape, Values, Window, planes
from .value_with_error import Arithmetic, Value
from .variants import (
    OTHER_LAYOUT,
    Function,
    attribute,
    changed_input,
    computed_instead,
    declare,
    other_function,
    other_node,
    text_of,
)

Array = Any


def _onnx_windows(node: Node, x: Value) -> Windows:
    """ONNX's attributes; with ceil_mode a window that would begin in the pads behind is left out.

    Opset 19 says so; runtimes do it before.
    """
    if node.type.startswith("Global"):
        return whole_picture(x)
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
    return windows_of(x, kernel, strides, (begin, end), dilations, ceil)


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


_READ: Dict[str, Callable[[Node, Value], Tuple[Windows, str]]] = {}
"""Return the windows of a node of a dialect, and the layout in which its input is given; empty: [N,
C, ...].
"""


@operator(onnx=["MaxPool"], parts=_parts)
def onnx_max_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX MaxPool; the second output counts through the whole input, N and C too."""
    x = named_input(inputs, 0, "input")
    windows = _onnx_windows(node, x)
    if node.outputs < 2:
        return [largest(x, windows)]
    best, where = largest_and_place(x, windows)
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
    return [average(x, windows, windows.inside(bool(node.get("count_include_pad", 0))), arithmetic)]


@operator(onnx=["LpPool", "GlobalLpPool"], sums=True, parts=_parts)
def onnx_norm_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX LpPool and GlobalLpPool: the p-norm, by default p = 2."""
    x = named_input(inputs, 0, "input")
    return [norm(x, _onnx_windows(node, x), float(node.get("p", 2)), arithmetic)]


@operator(onnx=["GlobalMaxPool"], parts=planes)
def global_max_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Compute the largest of each channel of [N, C, ...]."""
    x = named_input(inputs, 0, "input")
    return [largest(x, whole_picture(x))]


@operator(onnx=["GlobalAveragePool"], ascend=["GlobalAveragePool"], sums=True, parts=planes)
def global_average_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Compute the mean of each channel of [N, C, ...]."""
    layout = node.layouts[0] if node.layouts and len(node.layouts[0]) > 2 else "NCHW"
    x = channels_first(named_input(inputs, 0, "input"), layout)
    windows = whole_picture(x)
    return [as_given(average(x, windows, windows.inside(False), arithmetic), layout)]


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
        return [average(x, windows, windows.inside(True), arithmetic)]
    if node.outputs < 2:
        return [largest(x, windows)]
    best, where = largest_and_place(x, windows)
    return [best, Value(where.astype(np.float32))]


def _caffe_windows(node: Node, x: Value) -> Windows:
    if bool(node.get("global_pooling", False)):
        return whole_picture(x)
    axes = x.array.ndim - 2
    if not {"kernel_size", "kernel_h"} & set(node.attributes):
        raise CannotCompute("its attribute kernel_size is not known")
    kernel = caffe_pair(node, "kernel_size", axes, [], "kernel")
    strides, pads = caffe_pair(node, "stride", axes, [1]), caffe_pair(node, "pad", axes, [0])
    rounds = str(node.get("round_mode", "CEIL"))
    if rounds not in ("CEIL", "FLOOR"):
        raise CannotCompute("its round_mode %s is not known" % rounds)
    ceil = rounds == "CEIL" and bool(node.get("ceil_mode", True))
    counts = window_counts(
        x.array.shape[2:], kernel, strides, [1] * axes, pads, pads, ceil, any(pads)
    )
    return Windows(x.array.shape[2:], kernel, strides, [1] * axes, pads, pads, counts)


def _weighted_by_itself(x: Value, windows: Windows, arithmetic: Arithmetic) -> List[Value]:
    """Return Σ x² / Σ x over each window, 0 where Σ x is not above 0. The layer has no pads."""
    if any(windows.begin):
        raise CannotCompute("stochastic pooling has no pad")
    ones = np.ones((), np.int64)
    squares, total = (
        average(value, windows, ones, arithmetic) for value in (elementwise(np.square, x), x)
    )

    def divided(a: Array, b: Array) -> Array:
        return np.where(b > 0, a / np.where(b > 0, b, 1.0), 0.0)

    return [elementwise(divided, squares, total, steps=arithmetic.intermediate)]


def _as_caffes_loops(x: Value, windows: Windows, maximum: bool) -> List[Value]:
    """Return what Caffe's loops make of NaN, -inf and windows that lie outside.

    A maximum begins at -FLT_MAX without a place, and no comparison with NaN is true; a mean is
    divided by an area that may be 0 or less.
    """
    if maximum:
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
    return [Value(window_sums(x, windows)[0] / area)]


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
    return [as_given(largest(x, windows), layout)]


@operator(tensorflow=_FRAMEWORK_MEAN, ascend=["AvgPool"], sums=True, parts=_parts)
def tensorflow_average_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow's, and Ascend IR's of the same name: pads do not count."""
    x, windows, layout = _tensorflow_windows(node, inputs)
    return [as_given(average(x, windows, windows.inside(False), arithmetic), layout)]


def _tensorflow_windows(node: Node, inputs: Inputs) -> Tuple[Value, Windows, str]:
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
        windows_of(
            x, kernel, steps, window_pads(mode, None, x.array.shape[2:], kernel, steps, ones)
        ),
        layout,
    )


@operator(ascend=["MaxPoolV3"], parts=_parts)
def ascend_max_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR MaxPoolV3."""
    x, windows, layout = _ascend_windows(node, inputs)
    return [as_given(largest(x, windows), layout)]


@operator(ascend=["AvgPoolV2"], sums=True, parts=_parts)
def ascend_average_pool(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR AvgPoolV2: ``exclusive`` leaves pads out of the count, divisor_override is the
    count.
    """
    x, windows, layout = _ascend_windows(node, inputs)
    divisor = windows.inside(not bool(node.get("exclusive", True)))
    if int(node.get("divisor_override", 0)):
        divisor = np.full_like(divisor, int(node.get("divisor_override")))
    return [as_given(average(x, windows, divisor, arithmetic), layout)]


def _ascend_windows(node: Node, inputs: Inputs) -> Tuple[Value, Windows, str]:
    x = named_input(inputs, 0, "input")
    layout, _, kernel, strides = _of_layout(node, x, "NCHW", node.get("ksize"), node.get("strides"))
    x = channels_first(x, layout)
    if bool(node.get("global_pooling", False)):
        return x, whole_picture(x), layout
    mode = str(node.get("padding_mode", "CALCULATED"))
    explicit = (
        ascend_pads(node.get("pads", [0, 0, 0, 0]), len(kernel)) if mode == "CALCULATED" else None
    )
    pads = window_pads(mode, explicit, x.array.shape[2:], kernel, strides, [1] * len(kernel))
    return (
        x,
        windows_of(
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
    output = average(x, windows, windows.inside(True), arithmetic) if mode else largest(x, windows)
    return [as_given(output, layout)]


def _pooling_windows(node: Node, inputs: Inputs) -> Tuple[Value, Windows, str]:
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
        return x, whole_picture(x), layout
    kernel, strides = integers(node, "window", [1, 1]), integers(node, "stride", [1, 1])
    begin, end = ascend_pads(node.get("pad", [0, 0, 0, 0]), len(kernel))
    sizes = x.array.shape[2:]
    counts = window_counts(
        sizes,
        kernel,
        strides,
        [1] * len(kernel),
        begin,
        end,
        not rounds,
        any(list(begin) + list(end)),
    )
    return x, Windows(sizes, kernel, strides, [1] * len(kernel), begin, end, counts), layout


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


def _of_ascend(node: Node, x: Value) -> Tuple[Windows, str]:
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


def _with_zeros_beyond(node: Node, inputs: Inputs) -> Iterator[Any]:
    x = named_input(inputs, 0, "input")
    windows = _onnx_windows(node, x)
    pads = [
        (first, max(0, (count - 1) * stride + (reach - 1) * dilation + 1 - size - first))
        for first, count, stride, reach, dilation, size in zip(
            windows.begin, windows.counts, windows.strides, windows.kernel, windows.dilations,
            windows.sizes,
        )
    ]  # fmt: skip
    if node.type == "LpPool" or not any(map(any, pads)) or min(map(min, pads)) < 0:
        return
    attributes = {
        name: value
        for name, value in node.attributes.items()
        if name not in ("pads", "auto_pad", "ceil_mode")
    }

    def made(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
        def padded(array: Array) -> Array:
            return np.pad(array, [(0, 0), (0, 0), *pads])

        wide = moved(padded, named_input(given, 0, "input"))
        return compute(replace(node, attributes=attributes), [wide], arithmetic)

    words = "not counted" if node.type == "AveragePool" else "lower than all"
    yield "0, also in a last window that is partial", words, made


def _windows_of_other_size(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """1 to 4 for each axis, with pads that keep the output's size"""
    own = integers(node, "kernel_shape")
    axes = len(own)
    pads = integers(node, "pads", [0] * 2 * axes)
    for sizes in other_windows(node, inputs):
        more = [size - one for size, one in zip(sizes, own)]
        changed = [pads[n] + more[n] // 2 for n in range(axes)]
        changed += [pads[axes + n] + more[n] - more[n] // 2 for n in range(axes)]
        if any(more) and min(changed) >= 0:
            attributes = {**node.attributes, "kernel_shape": sizes, "pads": changed}
            words = "%s (with pads %s)" % (text_of(sizes), text_of(changed))
            yield words, text_of(own), replace(node, attributes=attributes)


declare(
    "AveragePool MaxPool LpPool",
    attribute("count_include_pad", (0, 1), 0),
    attribute(
        "pads", pads_instead, lambda node, inputs: [0] * 2 * len(integers(node, "kernel_shape"))
    ),
    attribute("auto_pad", ("SAME_UPPER", "SAME_LOWER", "VALID"), says="pads"),
    other_node("the first position of its windows (strides, pads)", other_first_position),
    attribute("ceil_mode", (0, 1), 0),
    computed_instead(
        "what its pads hold (count_include_pad, ceil_mode)",
        "0, also in a last window that is partial",
        _with_zeros_beyond,
    ),
    other_node("dilations", other_steps),
    STRIDES,
    attribute("kernel_shape", other_windows),
    other_node("kernel_shape", _windows_of_other_size),
    other_node("its window", exchanged_axes)._replace(together=True),
    attribute(
        "p",
        (1, 2, 3, 4, 5, 6),
        lambda node, inputs: 2 if node.type == "LpPool" else None,
        fitted=True,
    ),
    other_function(Function("MaxPool"), Function("AveragePool"), keeps=True),
    changed_input(0, "its input", OTHER_LAYOUT),
)


def _not_divided(node: Node, inputs: Inputs) -> Iterator[Any]:
    def made(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
        x = given[0]
        (output,) = compute(node, given, arithmetic)
        count = float(np.prod(x.array.shape[2:]))  # type: ignore[union-attr]
        return [elementwise(lambda array: array * count, output)]

    if node.type == "GlobalAveragePool":
        yield "not divided by the number of elements", "divided", made


declare(
    "GlobalAveragePool GlobalMaxPool",
    other_function(Function("GlobalAveragePool"), Function("GlobalMaxPool")),
    computed_instead("its sum", "not divided", _not_divided),
)

declare("GlobalLpPool", attribute("p", (1, 2, 3, 4, 5, 6), 2, fitted=True))
declare(
    "Pooling",
    attribute("pool", ("MAX", "AVE"), "MAX"),
    attribute("round_mode", ("CEIL", "FLOOR"), "CEIL"),
    dialect=CAFFE,
)
declare(
    "MaxPool AvgPool",
    attribute("padding", ("SAME", "VALID")),
    other_function(
        *(Function(kind, dialect=TENSORFLOW) for kind in ("MaxPool", "AvgPool")), keeps=True
    ),
    dialect=TENSORFLOW,
)
