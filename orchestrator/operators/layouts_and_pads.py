"""Layouts of operators: where the channels and the window's axes of a tensor stand, and the strides
and pads of attributes that are written in that order.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .error_propagation import moved
from .registry import CannotCompute, Node
from .value_with_error import Value

CHANNELS_FIRST = ("NCHW", "NCDHW", "NCW", "NCL")
CHANNELS_LAST = ("NHWC", "NDHWC", "NWC", "NLC")


def is_last(layout: str) -> bool:
    """Return whether the channels stand last.

    Raises
    ------
    CannotCompute
        The layout is neither of the two kinds.
    """
    if layout in CHANNELS_LAST:
        return True
    if layout in CHANNELS_FIRST:
        return False
    raise CannotCompute("its data_format %r is not known" % (layout,))


def channels_first(value: Value, layout: str) -> Value:
    """Return a tensor [N, C, ...] of one in ``layout``."""
    return moved(lambda array: np.moveaxis(array, -1, 1), value) if is_last(layout) else value


def as_given(value: Value, layout: str) -> Value:
    """Return a tensor in ``layout`` of one [N, C, ...]."""
    return moved(lambda array: np.moveaxis(array, 1, -1), value) if is_last(layout) else value


def of_input(node: Node, number: int, data_format: str) -> str:
    """Return the layout of an input: its original format where that names axes, else what
    data_format says.
    """
    layout = node.layouts[number] if number < len(node.layouts) else ""
    return layout if len(layout) == len(data_format) else data_format


def spatial(numbers: Any, layout: str, name: str) -> List[int]:
    """Return the window's entries of an attribute that has one number for each axis of ``layout``,
    or for each axis of the window.

    Raises
    ------
    CannotCompute
        It has another length, or steps over N or C.
    """
    values = [int(number) for number in np.atleast_1d(numbers)]
    axes = len(layout) - 2
    if len(values) == axes:
        return values
    if len(values) == 1:
        return values * axes
    if len(values) != axes + 2:
        raise CannotCompute("its attribute %s=%s does not fit %s" % (name, values, layout))
    channel = -1 if is_last(layout) else 1
    if values[0] != 1 or values[channel] != 1:
        raise CannotCompute("its attribute %s=%s goes over N or C of %s" % (name, values, layout))
    return values[1:-1] if is_last(layout) else values[2:]


def ascend_pads(numbers: Any, axes: int) -> Tuple[List[int], List[int]]:
    """Return the pads before and behind each axis of [top, bottom, left, right] or [front, back,
    top, bottom, left, right].

    Raises
    ------
    CannotCompute
        There are not two for each axis, or one is negative.
    """
    pads = [int(number) for number in np.atleast_1d(numbers)]
    if len(pads) != 2 * axes or min(pads) < 0:
        raise CannotCompute("its attribute pads=%s is not known" % pads)
    return pads[0::2], pads[1::2]


def same_pads(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    upper: bool = True,
) -> Tuple[List[int], List[int]]:
    """Return the pads with which an output has ⌈size / stride⌉ elements: of an odd number one more
    behind (``upper``) or before.

    Source: ONNX Conv, auto_pad; TensorFlow, tf.nn: notes on padding.
    """
    begin, end = [], []
    for size, reach, stride, dilation in zip(sizes, kernel, strides, dilations):
        total = max((-(-size // stride) - 1) * stride + (reach - 1) * dilation + 1 - size, 0)
        less, more = total // 2, total - total // 2
        begin.append(less if upper else more)
        end.append(more if upper else less)
    return begin, end


def window_pads(
    mode: str,
    explicit: Optional[Tuple[Sequence[int], Sequence[int]]],
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Tuple[List[int], List[int]]:
    """Return the pads before and behind each axis that a padding mode of any dialect means.

    Raises
    ------
    CannotCompute
        The mode is not known, or needs pads that are not given.
    """
    if mode in ("SAME", "SAME_UPPER", "SAME_LOWER"):
        return same_pads(sizes, kernel, strides, dilations, mode != "SAME_LOWER")
    if mode == "VALID":
        return [0] * len(sizes), [0] * len(sizes)
    if mode in ("NOTSET", "EXPLICIT", "CALCULATED", ""):
        if explicit is None or len(explicit[0]) != len(sizes) or len(explicit[1]) != len(sizes):
            raise CannotCompute("its pads are not known")
        return list(explicit[0]), list(explicit[1])
    raise CannotCompute("its padding %r is not known" % (mode,))
