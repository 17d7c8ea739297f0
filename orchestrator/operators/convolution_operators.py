"""Convolutions and their transposes, of all dialects."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import convolution_arrays
from .error_propagation import moved, sum_of_products
from .joining_and_slicing import padded
from .layouts_and_pads import (
    as_given,
    ascend_pads,
    channels_first,
    is_last,
    of_input,
    spatial,
    window_pads,
)
from .registry import (
    CAFFE,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    compute,
    operator,
)
from .splittable_axes import Parts, Shape, Values, Window, filters
from .value_with_error import Arithmetic, Value
from .variants import (
    OTHER_LAYOUT,
    Reading,
    Variant,
    attribute,
    changed_input,
    computed_instead,
    declare,
    missing_input,
    other_node,
    pad_shares,
    text_of,
)

Array = Any

Pads = Tuple[Sequence[int], Sequence[int]]


def named_input(inputs: Inputs, number: int, what: str) -> Value:
    """Return an input that must be there.

    Raises
    ------
    CannotCompute
        It is not.
    """
    value = optional(inputs, number)
    if value is None:
        raise CannotCompute("its %s is not known" % what)
    return value


def optional(inputs: Inputs, number: int) -> Optional[Value]:
    """Return an input; None where it is not there."""
    return inputs[number] if number < len(inputs) else None


class _Convolution(NamedTuple):
    """A convolution as all dialects have it.

    Attributes
    ----------
    x, w
        [N, C, ...] and [O, C / groups, ...].
    layout
        In which x is given, and the output wanted; empty: [N, C, ...].
    strides, dilations, pads, groups
        Of each axis of the window, pads before and behind.
    """

    x: Value
    w: Value
    layout: str
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Pads
    groups: int

    def computed(self, bias: Optional[Value], arithmetic: Arithmetic) -> Value:
        """Return the output."""
        terms = int(np.prod(self.w.array.shape[1:]))

        def multiply(left: Array, right: Array) -> Array:
            return convolution_arrays.convolve(
                left, right, self.strides, self.dilations, self.pads[0], self.pads[1], self.groups
            )

        output = sum_of_products(
            multiply, self.x, self.w, terms, arithmetic, _per_channel(bias, self.x.array.ndim)
        )
        return as_given(output, self.layout) if self.layout else output

    def windows(self) -> Tuple[Shape, Dict[int, Window]]:
        """Return the output's shape, and how the window's axes of the output go along with those of
        x.
        """
        kernel, sizes = self.w.array.shape[2:], self.x.array.shape[2:]
        sizes = tuple(size + before + after for size, before, after in zip(sizes, *self.pads))
        counts = convolution_arrays.window_counts(sizes, kernel, self.strides, self.dilations)
        last = bool(self.layout) and is_last(self.layout)
        lead, filters = self.x.array.shape[:1], self.w.array.shape[:1]
        shape = (*lead, *counts, *filters) if last else (*lead, *filters, *counts)
        windows_by_axis = {}
        for axis, (stride, reach, dilation, before, after) in enumerate(
            zip(self.strides, kernel, self.dilations, *self.pads), 1 if last else 2
        ):
            if min(before, after) >= 0:
                windows_by_axis[axis] = Window(axis, stride, (reach - 1) * dilation + 1, before)
        return shape, windows_by_axis


def _parts(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Return along which axes a convolution can be computed in parts: pictures, filters, and the
    rows and columns of its output.
    """
    parts = filters(node, shapes, values)
    if (
        parts is None
        or any(shape is None or None in shape for shape in shapes[:2])
        or node.type in ("ConvTranspose", "Deconvolution")
    ):
        return parts
    # Of arrays without memory.
    x, w = (Value(np.broadcast_to(np.float32(0), shape)) for shape in shapes[:2])  # type: ignore[arg-type]
    return parts.with_windows(*_READ[node.dialect](node, x, w).windows(), len(shapes))


_READ: Dict[str, Callable[[Node, Value, Value], _Convolution]] = {}


def _transposed(
    x: Value,
    w: Value,
    bias: Optional[Value],
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[int],
    sizes: Sequence[int],
    groups: int,
    arithmetic: Arithmetic,
) -> Value:
    """Transposed convolution of [N, C, ...] with [C, O / groups, ...]."""
    places = [-(-reach // stride) for reach, stride in zip(w.array.shape[2:], strides)]
    terms = max(1, w.array.shape[0] // groups * int(np.prod(places)))

    def multiply(left: Array, right: Array) -> Array:
        return convolution_arrays.transposed(left, right, strides, dilations, begin, sizes, groups)

    return sum_of_products(multiply, x, w, terms, arithmetic, _per_channel(bias, x.array.ndim))


def _per_channel(bias: Optional[Value], dimensions: int) -> Optional[Value]:
    if bias is None:
        return None
    return moved(lambda array: array.reshape((1, -1) + (1,) * (dimensions - 2)), bias)


def integers(node: Node, name: str, default: Any = None) -> List[int]:
    """Return an attribute of whole numbers, one or a list; it must be there where there is no
    default.
    """
    value = node.get(name) if default is None else node.get(name, default)
    return [int(number) for number in np.atleast_1d(value)]


def _onnx_window(
    node: Node, x: Value, w: Value
) -> Tuple[List[int], List[int], str, Optional[Pads]]:
    kernel = list(w.array.shape[2:])
    if x.array.ndim != w.array.ndim or not kernel:
        raise CannotCompute("x %s and filter %s do not fit" % (x.array.shape, w.array.shape))
    if integers(node, "kernel_shape", kernel) != kernel:
        raise CannotCompute("its kernel_shape is not the filter's, %s" % kernel)
    axes = len(kernel)
    pads = integers(node, "pads", [0] * (2 * axes))
    mode = str(node.get("auto_pad", "NOTSET"))
    return (
        integers(node, "strides", [1] * axes),
        integers(node, "dilations", [1] * axes),
        mode,
        (pads[:axes], pads[axes:]),
    )


@operator(onnx=["Conv"], multiplies=True, parts=_parts)
def onnx_convolution(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX Conv, all opsets."""
    x, w = named_input(inputs, 0, "input"), named_input(inputs, 1, "filter")
    return [_of_onnx(node, x, w).computed(optional(inputs, 2), arithmetic)]


def _of_onnx(node: Node, x: Value, w: Value) -> _Convolution:
    strides, dilations, mode, explicit = _onnx_window(node, x, w)
    pads = window_pads(mode, explicit, x.array.shape[2:], w.array.shape[2:], strides, dilations)
    return _Convolution(x, w, "", strides, dilations, pads, int(node.get("group", 1)))


@operator(onnx=["ConvTranspose"], multiplies=True, parts=_parts)
def onnx_transposed(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX ConvTranspose: pads from output_shape or auto_pad are split with the odd one behind for
    SAME_UPPER, else before.
    """
    x, w = named_input(inputs, 0, "input"), named_input(inputs, 1, "filter")
    strides, dilations, mode, explicit = _onnx_window(node, x, w)
    extra = integers(node, "output_padding", [0] * len(strides))
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(w.array.shape[2:], dilations)]
    full = [
        stride * (size - 1) + more + length
        for stride, size, more, length in zip(strides, x.array.shape[2:], extra, reach)
    ]
    output_sizes = (
        integers(node, "output_shape", [])[-len(strides) :]
        if "output_shape" in node.attributes
        else []
    )
    if not output_sizes and mode in ("SAME_UPPER", "SAME_LOWER"):
        output_sizes = [size * stride for size, stride in zip(x.array.shape[2:], strides)]
    if output_sizes:
        total = [max(0, size - target) for size, target in zip(full, output_sizes)]
        begin = [number // 2 if mode == "SAME_UPPER" else number - number // 2 for number in total]
        sizes = output_sizes
    else:
        begin, end = window_pads(
            mode, explicit, x.array.shape[2:], w.array.shape[2:], strides, dilations
        )
        sizes = [size - before - after for size, before, after in zip(full, begin, end)]
    groups = int(node.get("group", 1))
    return [
        _transposed(x, w, optional(inputs, 2), strides, dilations, begin, sizes, groups, arithmetic)
    ]


def caffe_pair(node: Node, name: str, axes: int, default: Any, prefix: str = "") -> List[int]:
    """Return a window's attribute: ``name`` repeated, or ``name_h`` and ``name_w``
    (``kernel_h``).
    """
    stem = prefix or name
    if stem + "_h" in node.attributes or stem + "_w" in node.attributes:
        if axes != 2:
            raise CannotCompute("its %s_h is for two axes, not %d" % (stem, axes))
        # Of a pad one alone may be written.
        missing = {"default": 0} if stem == "pad" else {}
        return [int(node.get(stem + "_h", **missing)), int(node.get(stem + "_w", **missing))]
    values = integers(node, name, default)
    if len(values) == 1:
        return values * axes
    if len(values) != axes:
        raise CannotCompute("its %s=%s does not fit %d axes" % (name, values, axes))
    return values


def _caffe_bottoms(node: Node, inputs: Inputs) -> Tuple[List[Value], Value, Optional[Value]]:
    """Return the layer's bottoms, filter and bias: blobs stand behind the bottoms."""
    biased = bool(node.get("bias_term", True))
    blobs = 2 if biased else 1
    if len(inputs) <= blobs:
        raise CannotCompute("its filter%s not known" % (" or bias is" if biased else " is"))
    bottoms = [named_input(inputs, number, "input") for number in range(len(inputs) - blobs)]
    bias = named_input(inputs, len(inputs) - 1, "bias") if biased else None
    return bottoms, named_input(inputs, len(bottoms), "filter"), bias


@operator(
    caffe=["Convolution", "DepthwiseConvolution", "ConvolutionDepthwise", "Deconvolution"],
    multiplies=True,
    parts=_parts,
)
def caffe_convolution(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe Convolution and Deconvolution; the depthwise layers of branches have as many groups as
    channels.
    """
    bottoms, w, bias = _caffe_bottoms(node, inputs)
    results = []
    for x in bottoms:
        layer = _of_caffe(node, x, w)
        if node.type != "Deconvolution":
            results.append(layer.computed(bias, arithmetic))
            continue
        sizes = [
            stride * (size - 1) + (reach - 1) * dilation + 1 - 2 * pad
            for stride, size, reach, dilation, pad in zip(
                layer.strides, x.array.shape[2:], w.array.shape[2:], layer.dilations, layer.pads[0]
            )
        ]
        results.append(
            _transposed(
                x,
                w,
                bias,
                layer.strides,
                layer.dilations,
                layer.pads[0],
                sizes,
                layer.groups,
                arithmetic,
            )
        )
    return results


def _of_caffe(node: Node, x: Value, w: Value) -> _Convolution:
    if int(node.get("axis", 1)) not in (1, 1 - x.array.ndim):
        raise CannotCompute("its axis is not 1")
    axes = x.array.ndim - 2
    strides = caffe_pair(node, "stride", axes, [1])
    pads = caffe_pair(node, "pad", axes, [0])
    dilations = caffe_pair(node, "dilation", axes, [1])
    kernel = caffe_pair(node, "kernel_size", axes, list(w.array.shape[2:]), "kernel")
    if kernel != list(w.array.shape[2:]):
        raise CannotCompute("its kernel_size is not the filter's, %s" % (w.array.shape[2:],))
    groups = (
        int(node.get("group", 1))
        if node.type in ("Convolution", "Deconvolution")
        else x.array.shape[1]
    )
    return _Convolution(x, w, "", strides, dilations, (pads, pads), groups)


def _tensorflow_explicit(node: Node, layout: str) -> Optional[Pads]:
    """Return TensorFlow's explicit_paddings: two numbers for each axis of the layout."""
    numbers = integers(node, "explicit_paddings", [])
    if len(numbers) != 2 * len(layout):
        return None
    return spatial(
        np.array(numbers[0::2]) + [int(axis in "NC") for axis in layout],
        layout,
        "explicit_paddings",
    ), spatial(
        np.array(numbers[1::2]) + [int(axis in "NC") for axis in layout],
        layout,
        "explicit_paddings",
    )


@operator(tensorflow=["Conv2D", "Conv3D", "DepthwiseConv2dNative"], multiplies=True, parts=_parts)
def tensorflow_convolution(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow's convolutions: filters are [..., C, O] (depthwise: [H, W, C, multiplier]) for
    both data formats.
    """
    return [
        _of_tensorflow(
            node, named_input(inputs, 0, "input"), named_input(inputs, 1, "filter")
        ).computed(None, arithmetic)
    ]


def _of_tensorflow(node: Node, x: Value, w: Value) -> _Convolution:
    layout = str(node.get("data_format", "NDHWC" if node.type == "Conv3D" else "NHWC"))
    x, w = channels_first(x, layout), _filter_first(w)
    groups = 1
    if node.type == "DepthwiseConv2dNative":
        w, groups = _depthwise_filter(w)
    elif w.array.shape[1]:
        groups = x.array.shape[1] // w.array.shape[1]
    strides = spatial(node.get("strides"), layout, "strides")
    dilations = spatial(node.get("dilations", [1] * len(layout)), layout, "dilations")
    kernel = w.array.shape[2:]
    pads = window_pads(
        str(node.get("padding")),
        _tensorflow_explicit(node, layout),
        x.array.shape[2:],
        kernel,
        strides,
        dilations,
    )
    return _Convolution(x, w, layout, strides, dilations, pads, groups)


def _filter_first(w: Value) -> Value:
    """Return a filter [O, C, ...] of one [..., C, O]."""
    return moved(lambda array: np.moveaxis(array, (-1, -2), (0, 1)), w)


def _depthwise_filter(w: Value) -> Tuple[Value, int]:
    """Return a filter [C * multiplier, 1, ...] of one [multiplier, C, ...], and C."""
    channels = w.array.shape[1]
    return moved(lambda array: array.swapaxes(0, 1).reshape((-1, 1) + array.shape[2:]), w), channels


@operator(tensorflow=["Conv2DBackpropInput", "Conv3DBackpropInputV2"], multiplies=True)
def tensorflow_transposed(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow's transposed convolutions: (sizes of the output, filter [..., O, C], x); the
    padding is the convolution's.
    """
    layout = str(node.get("data_format", "NHWC" if node.type == "Conv2DBackpropInput" else "NDHWC"))
    x = channels_first(named_input(inputs, 2, "input"), layout)
    w = _filter_first(named_input(inputs, 1, "filter"))
    strides = spatial(node.get("strides"), layout, "strides")
    dilations = spatial(node.get("dilations", [1] * len(layout)), layout, "dilations")
    sizes = _output_sizes(named_input(inputs, 0, "output's shape").array, layout)
    kernel = w.array.shape[2:]
    begin, _ = window_pads(
        str(node.get("padding")),
        _tensorflow_explicit(node, layout),
        sizes,
        kernel,
        strides,
        dilations,
    )
    return [
        as_given(_transposed(x, w, None, strides, dilations, begin, sizes, 1, arithmetic), layout)
    ]


def _output_sizes(numbers: Array, layout: str) -> List[int]:
    """Return the window's axes of an output's shape."""
    shape = [int(number) for number in np.atleast_1d(numbers)]
    if len(shape) == len(layout) - 2:
        return shape
    if len(shape) != len(layout):
        raise CannotCompute("its output's shape %s does not fit %s" % (shape, layout))
    return [size for size, axis in zip(shape, layout) if axis not in "NC"]


def _ascend_filter(node: Node, w: Value, number: int, layout: str) -> Value:
    """Return a filter [O, C, ...].

    Where its own format is not known it is NCHW with x in NCHW and HWCN with NHWC, the pairs that
    Ascend IR takes.
    """
    axes = len(layout) - 2
    names = "DHW"[-axes:]
    filter_layout = node.layouts[number] if number < len(node.layouts) else ""
    last = layout.endswith("C")
    if filter_layout not in ("NC" + names, names + "CN", "N" + names + "C"):
        filter_layout = names + "CN" if last else "NC" + names
    if w.array.ndim != axes + 2:
        raise CannotCompute("its filter %s does not fit %s" % (w.array.shape, layout))
    if filter_layout == names + "CN":
        return _filter_first(w)
    return channels_first(w, filter_layout) if filter_layout.endswith("C") else w


def _ascend_window(
    node: Node, x: Value, w: Value, layout: str, strides: List[int], dilations: List[int]
) -> Pads:
    """Return the pads of an Ascend convolution: by its padding or auto_pad (of ONNX), else by its
    pads.
    """
    axes = len(layout) - 2
    mode = str(node.get("auto_pad", "") or "NOTSET")
    if mode == "NOTSET" and str(node.get("padding", "")) in ("SAME", "VALID"):
        mode = str(node.get("padding"))
    explicit = ascend_pads(node.get("pads"), axes) if mode == "NOTSET" else None
    return window_pads(mode, explicit, x.array.shape[2:], w.array.shape[2:], strides, dilations)


def _without_offset(node: Node) -> None:
    if int(node.get("offset_x", 0)) or int(node.get("offset_a", 0)):
        raise CannotCompute(
            "what its offset_x=%s does is not known" % node.get("offset_x", node.get("offset_a", 0))
        )


@operator(
    ascend=["Conv2D", "Conv3D", "DepthwiseConv2D", "DepthwiseConv2DD"],
    multiplies=True,
    parts=_parts,
)
def ascend_convolution(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR: attributes have one number for each axis of data_format, pads are [top, bottom,
    left, right].
    """
    layer = _of_ascend(node, named_input(inputs, 0, "input"), named_input(inputs, 1, "filter"))
    return [layer.computed(optional(inputs, 2), arithmetic)]


def _of_ascend(node: Node, x: Value, w: Value) -> _Convolution:
    data_format = str(node.get("data_format", "NDHWC" if node.type == "Conv3D" else "NHWC"))
    layout = of_input(node, 0, data_format)
    _without_offset(node)
    x, w = channels_first(x, layout), _ascend_filter(node, w, 1, layout)
    groups = int(node.get("groups", 1))
    if node.type.startswith("Depthwise"):
        w, groups = _depthwise_filter(w)
    strides = spatial(node.get("strides"), data_format, "strides")
    dilations = spatial(node.get("dilations", [1] * len(data_format)), data_format, "dilations")
    pads = _ascend_window(node, x, w, data_format, strides, dilations)
    return _Convolution(x, w, layout, strides, dilations, pads, groups)


@operator(
    ascend=[
        "Deconvolution",
        "Conv2DTranspose",
        "Conv2DTransposeD",
        "Conv3DTranspose",
        "Conv3DTransposeD",
        "Conv2DBackpropInput",
        "Conv2DBackpropInputD",
    ],
    multiplies=True,
)
def ascend_transposed(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR's transposed convolutions; the filter is the convolution's of which x is the
    output.
    """
    volume = node.type.startswith("Conv3D")
    plain = node.type == "Deconvolution"
    usual_format = "NDHWC" if volume else "NHWC"
    data_format = str(node.get("data_format", "NCHW" if plain else usual_format))
    _without_offset(node)
    names = {"Backprop": ("size", "w", "x"), "Transpose": ("size", "x", "w", "bias")}
    order = (
        ("x", "w", "bias")
        if plain
        else names["Backprop" if "Backprop" in node.type else "Transpose"]
    )
    if node.type.endswith("D"):
        order = order[1:]
    at = {name: number for number, name in enumerate(order)}
    layout = of_input(node, at["x"], data_format)
    x = channels_first(named_input(inputs, at["x"], "input"), layout)
    w = _ascend_filter(node, named_input(inputs, at["w"], "filter"), at["w"], layout)
    strides = spatial(
        node.get("strides", [1, 1]) if plain else node.get("strides"), data_format, "strides"
    )
    dilations = spatial(node.get("dilations", [1] * len(data_format)), data_format, "dilations")
    sizes = _ascend_sizes(node, inputs, at, data_format)
    kernel = w.array.shape[2:]
    if not plain and str(node.get("padding", "")) in ("SAME", "VALID") and sizes:
        begin, end = window_pads(str(node.get("padding")), None, sizes, kernel, strides, dilations)
    else:
        default = [0] * (2 * len(strides))
        begin, end = ascend_pads(
            node.get("pads", default) if plain else node.get("pads"), len(strides)
        )
    if not sizes:
        extra = [0] * len(strides)
        if "output_padding" in node.attributes:
            numbers = np.array(integers(node, "output_padding", [])) + [
                int(axis in "NC") for axis in data_format
            ]
            extra = spatial(numbers, data_format, "output_padding")
        sizes = [
            stride * (size - 1) + (reach - 1) * dilation + 1 + more - before - after
            for stride, size, reach, dilation, more, before, after in zip(
                strides, x.array.shape[2:], kernel, dilations, extra, begin, end
            )
        ]
    bias = optional(inputs, at["bias"]) if "bias" in at else None
    output = _transposed(
        x, w, bias, strides, dilations, begin, sizes, int(node.get("groups", 1)), arithmetic
    )
    return [as_given(output, layout)]


def _ascend_sizes(node: Node, inputs: Inputs, at: Any, layout: str) -> List[int]:
    """Return the output's sizes that input_size says; empty where it is not there or all zero."""
    if "size" in at:
        numbers = named_input(inputs, at["size"], "input_size").array
    else:
        numbers = np.array(integers(node, "input_size", []))
    return _output_sizes(numbers, layout) if np.any(numbers) else []


_READ.update(onnx=_of_onnx, caffe=_of_caffe, tensorflow=_of_tensorflow, ascend=_of_ascend)


def pads_instead(node: Node, inputs: Inputs) -> List[List[int]]:
    """begin for end, those of another axis, each other share of begin and end, the larger at both,
    one more or less where windows leave a rest"""
    pads = integers(node, "pads", [0] * 2 * max(0, _window_axes(inputs)))
    axes = len(pads) // 2
    begin, end = pads[:axes], pads[axes:]
    both = [first + last for first, last in zip(begin, end)]
    alternatives = [
        end + begin,
        [0] * axes + both,
        both + [0] * axes,
        [both[n] // 2 for n in range(axes)] + [-(-both[n] // 2) for n in range(axes)],
        [-(-both[n] // 2) for n in range(axes)] + [both[n] // 2 for n in range(axes)],
        begin[::-1] + end[::-1],
        # Pairs of begin and end for each axis.
        [pads[n // axes + 2 * (n % axes)] if axes == 2 else pads[n] for n in range(2 * axes)],
        [max(pair) for pair in zip(begin, end)] * 2,
    ]
    one_more = [
        [*pads[:n], pads[n] + step, *pads[n + 1 :]] for n in range(2 * axes) for step in (1, -1)
    ]
    found = alternatives + pad_shares(begin, end) + one_more
    if not node.type.endswith("Pool"):
        return found
    # A window of pads alone is none.
    kernel = integers(node, "kernel_shape", [max(pads, default=0) + 2] * axes)
    return [each for each in found if all(pad < size for pad, size in zip(each, kernel * 2))]


def other_first_position(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """one place earlier or later"""
    pads = integers(node, "pads", [0] * 2 * max(0, _window_axes(inputs)))
    axes = len(pads) // 2
    for step, words in ((-1, "later"), (1, "earlier")):
        moved_pads = [n + step for n in pads[:axes]] + [n - step for n in pads[axes:]]
        changed = replace(node, attributes={**node.attributes, "pads": moved_pads})
        yield "%s (one place %s)" % (text_of(moved_pads), words), text_of(pads), changed


def _window_axes(inputs: Inputs) -> int:
    return 0 if inputs[0] is None else inputs[0].array.ndim - 2


def _without_pads(node: Node, inputs: Inputs) -> List[int]:
    return [0] * 2 * _window_axes(inputs)


def other_steps(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """1 to 4 for each axis, where the output keeps its size, or with pads that keep it"""
    if str(node.get("auto_pad", "NOTSET")) not in ("NOTSET", ""):
        return
    weights = inputs[1] if len(inputs) > 1 else None
    shape = [] if weights is None else list(weights.array.shape[2:])
    kernel = integers(node, "kernel_shape", shape)
    axes = len(kernel)
    own, strides = (integers(node, name, [1] * axes) for name in ("dilations", "strides"))
    pads = integers(node, "pads", [0] * 2 * axes)
    sizes = [] if inputs[0] is None else inputs[0].array.shape[2:]
    rooms = [size + pads[n] + pads[axes + n] - 1 for n, size in enumerate(sizes)]
    all_steps = product((1, 2, 3, 4), repeat=axes) if axes < 3 else zip(*[(1, 2, 3, 4)] * axes)
    for steps in sorted(all_steps, key=lambda each: len(set(each))):
        more = [(step - one) * (size - 1) for step, one, size in zip(steps, own, kernel)]
        if not any(more):
            continue
        changed = [pads[n] + more[n] // 2 for n in range(axes)]
        changed += [pads[axes + n] + more[n] - more[n] // 2 for n in range(axes)]
        # All at one end: of a convolution that looks back alone.
        totals = [pads[n] + pads[axes + n] + more[n] for n in range(axes)]
        nothing = [0] * axes
        ways = [
            way
            for way in (changed, totals + nothing, nothing + totals)
            if min(way) >= 0 and node.type != "ConvTranspose"
        ] or [changed] * (min(changed) >= 0)
        counts = [
            [(room - one * (size - 1)) // stride for room, one, size, stride in
             zip(rooms, each, kernel, strides)]
            for each in (own, steps)
        ]  # fmt: skip
        if node.type != "ConvTranspose" and counts[0] == counts[1]:
            ways.insert(0, pads)
        for each in ways:
            attributes = {**node.attributes, "dilations": list(steps), "pads": each}
            shown, said = text_of(list(steps)), text_of(own)
            if each[:axes] != pads[:axes] and each not in (pads, changed):
                shown += " and pads " + text_of(each)
                said += " and pads " + text_of(pads)
            yield shown, said, replace(node, attributes=attributes)


def _padding_before(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Any]]:
    """Yield a transposed convolution whose output_padding, which nothing reaches, stands first."""
    axes = _window_axes(inputs)
    extra = integers(node, "output_padding", [0] * axes)
    plain = str(node.get("auto_pad", "NOTSET")) in ("NOTSET", "")
    if any(extra) and plain and not any(integers(node, "pads", [0])) and axes == len(extra):
        over = tuple(range(2, 2 + axes))

        def instead(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
            (made,) = onnx_transposed(node, given, arithmetic)
            error = made.error
            if error is not None:
                error = np.roll(np.broadcast_to(error, made.array.shape), extra, over)
            return [Value(np.roll(made.array, extra, over), error)]

        yield text_of(extra) + " at the begin", text_of(extra), instead


def exchanged_axes(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """strides, pads, dilations and kernel_shape with both axes exchanged"""
    if _window_axes(inputs) != 2:
        return
    orders = {"strides": (1, 0), "pads": (1, 0, 3, 2), "dilations": (1, 0)}
    if len(inputs) < 2 or inputs[1] is None:
        orders["kernel_shape"] = (1, 0)
    changed = {}
    for name, order in orders.items():
        own = integers(node, name, [])
        other = [own[place] for place in order] if len(own) == len(order) else own
        if other != own:
            changed[name] = own, other
    if changed:
        words = [
            " and ".join("%s %s" % (name, text_of(sides[side])) for name, sides in changed.items())
            for side in (1, 0)
        ]
        attributes = {**node.attributes, **{name: other for name, (_, other) in changed.items()}}
        yield words[0], words[1], replace(node, attributes=attributes)


def _padded_otherwise(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Any]]:
    pads, axes = integers(node, "pads", []), _window_axes(inputs)
    if len(pads) != 2 * axes or not any(pads) or min(pads) < 0:
        return
    pairs = [(0, 0), (0, 0), *((pads[n], pads[axes + n]) for n in range(axes))]
    bare = replace(node, attributes={**node.attributes, "pads": [0] * len(pads)})
    for mode, words in (("edge", "the edge"), ("reflect", "what lies inside, reflected")):

        def instead(given: Inputs, arithmetic: Arithmetic, mode: str = mode) -> List[Value]:
            x = padded(named_input(given, 0, "input"), pairs, mode)
            return compute(bare, [x, *given[1:]], arithmetic)

        yield words, "0", instead


def other_windows(node: Node, inputs: Inputs) -> List[List[int]]:
    """1 to 4 for each axis"""
    axes = _window_axes(inputs)
    return [list(sizes) for sizes in product((1, 2, 3, 4), repeat=axes)] if axes < 4 else []


def _as_filters(function: Callable[[Array], Array]) -> Callable[[Array], Optional[Array]]:
    """Return a change of filters that is none where their shape would change."""

    def change(array: Array) -> Optional[Array]:
        if array.ndim < 3:
            return None
        changed = function(array)
        return changed if changed.shape == array.shape else None

    return change


def _by_pairs(moves: Array) -> Array:
    return moves.reshape((len(moves), -1, 2) + moves.shape[2:])


def _by_halves(moves: Array) -> Array:
    halves = moves.reshape((len(moves), 2, -1) + moves.shape[2:])
    return halves.swapaxes(1, 2).reshape(moves.shape)


def _half_channels(array: Array) -> Optional[Array]:
    return array[:, ::-1] if array.ndim > 2 and array.shape[1] > 1 else None


def _groups_last(node: Node, inputs: Inputs) -> Iterator[Variant]:
    groups = int(node.get("group", 1))
    filters = inputs[1].array.shape[0] if len(inputs) > 1 and inputs[1] is not None else 0
    if groups < 2 or filters % groups or filters == groups:
        return

    def written(outputs: List[Value]) -> List[Value]:
        def shuffled(array: Array) -> Array:
            shape = array.shape
            parts = array.reshape((shape[0], groups, -1) + shape[2:])
            return parts.swapaxes(1, 2).reshape(shape)

        return [moved(shuffled, outputs[0])]

    yield Variant(
        "the order of its output channels", "groups last", "groups first", node, None, written
    )


_FILTERS = changed_input(
    1,
    "the filters",
    (
        (
            "flipped along all axes of the window",
            _as_filters(lambda w: w[(slice(None),) * 2 + (slice(None, None, -1),) * (w.ndim - 2)]),
        ),
        ("with the axes of the window exchanged", _as_filters(lambda w: np.swapaxes(w, -1, -2))),
        (
            "transposed (input and output channels exchanged)",
            _as_filters(lambda w: np.swapaxes(w, 0, 1)),
        ),
        ("with their input channels reversed", _as_filters(lambda w: w[:, ::-1])),
        (
            "read as channels last",
            _as_filters(
                lambda w: np.moveaxis(w.reshape((w.shape[0], *w.shape[2:], w.shape[1])), -1, 1)
            ),
        ),
    ),
)
_PADS = attribute("pads", pads_instead, _without_pads)
_AUTO_PAD = attribute("auto_pad", ("SAME_UPPER", "SAME_LOWER", "VALID"), says="pads")
STRIDES = attribute(
    "strides", other_windows, lambda node, inputs: [1] * max(0, _window_axes(inputs))
)
declare(
    "ConvTranspose",
    attribute("output_padding", (0, 1)),
    computed_instead("output_padding", "at the begin", _padding_before),
)
declare(
    "Conv ConvTranspose",
    _PADS,
    _AUTO_PAD,
    other_node("the first position of its windows (strides, pads)", other_first_position),
    missing_input(2, "the bias"),
    other_node("dilations", other_steps),
    STRIDES,
    other_node("its window", exchanged_axes)._replace(together=True),
    _FILTERS,
    Reading("the order of its output channels", "groups last", _groups_last),
    changed_input(
        0,
        "its input",
        (
            *OTHER_LAYOUT,
            ("with its channels reversed", _half_channels),
        ),
    ),
)
declare(
    "Conv",
    computed_instead("pads that hold", "the edge, or what lies inside, reflected",
                     _padded_otherwise),
)  # fmt: skip
declare("QLinearConv ConvInteger", _PADS, _AUTO_PAD)
declare(
    "DeformConv",
    _PADS,
    STRIDES,
    attribute("dilations", other_windows, [1, 1]),
    attribute("offset_group", (1, 2, 4), 1),
    missing_input(3, "the bias"),
    missing_input(4, "the mask", 1.0),
    _FILTERS,
    changed_input(
        2,
        "its offsets",
        (
            ("x and y exchanged", lambda moves: _by_pairs(moves)[:, :, ::-1].reshape(moves.shape)),
            ("all y before all x", lambda moves: _by_halves(moves)),
            ("missing (0)", np.zeros_like),
        ),
    ),
)

declare(
    "Convolution DepthwiseConvolution ConvolutionDepthwise Deconvolution",
    missing_input(2, "the bias"),
    _FILTERS,
    changed_input(0, "its input", OTHER_LAYOUT),
    dialect=CAFFE,
)
declare(
    "Conv2D DepthwiseConv2dNative",
    attribute("padding", ("SAME", "VALID")),
    changed_input(
        1,
        "the filters",
        (
            ("flipped along both axes of the window", lambda w: w[::-1, ::-1]),
            ("with the axes of the window exchanged", _as_filters(lambda w: np.swapaxes(w, 0, 1))),
            (
                "transposed (input and output channels exchanged)",
                _as_filters(lambda w: np.swapaxes(w, -1, -2)),
            ),
            ("with their input channels reversed", lambda w: w[:, :, ::-1]),
        ),
    ),
    dialect=TENSORFLOW,
)
