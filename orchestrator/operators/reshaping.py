"""Operators that keep all values of their input and give them another shape or order: Reshape,
Transpose, DepthToSpace …

Sources: the ONNX operator list of each opset; caffe.proto of BVLC and of the SSD branch; TensorFlow
1.15's op definitions; the operator prototypes of Ascend IR.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import permutations
from operator import itemgetter
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .error_propagation import moved
from .registry import (
    ASCEND,
    CAFFE,
    ONNX,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    InTraining,
    Node,
    axis_of,
    channel_axis,
    has_input,
    input_at,
    listed,
    operator,
    whole,
)
from .splittable_axes import Along, Parts, Shape, Values, Window, rows
from .value_with_error import Arithmetic, Value
from .variants import (
    OTHER_LAYOUT,
    Reading,
    Variant,
    attribute,
    changed_input,
    declare,
    other_node,
    whole_input,
)

Array = Any


@operator(
    onnx=("Identity", "OptionalGetElement"),
    caffe=("Split", "Dropout", "SpatialDropout", "SeLuDropout"),
    tensorflow=("Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot"),
    ascend=("Identity", "IdentityN", "TransData", "StopGradient"), moves=True, parts=rows,
)  # fmt: skip
def identity(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the inputs as they are; Caffe's Split its one input many times."""
    if node.type == "Split":
        return [input_at(inputs, 0)] * node.outputs
    return [input_at(inputs, number) for number in range(max(1, len(inputs)))]


@operator(onnx=("Dropout",), moves=True, parts=rows)
def dropout(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the input as it is, and a mask of what was kept: all; in training it is random."""
    if (has_input(inputs, 2) and bool(input_at(inputs, 2).array)) or (
        0 < node.version < 7 and not node.get("is_test", 0)
    ):
        raise InTraining(more=", so random")
    x = input_at(inputs, 0)
    return [x, Value(np.ones(x.array.shape, bool))][: max(1, node.outputs)]


def reshaped(value: Value, shape: Sequence[int]) -> Value:
    """Return a value with another shape; -1 stands for what is left."""
    return moved(lambda array: array.reshape(tuple(shape)), value)


def _shape_with_zeros(shape: Sequence[int], given_shape: Sequence[int]) -> List[int]:
    """Return a shape in which 0 stands for the input's size there."""
    return [given_shape[number] if size == 0 else size for number, size in enumerate(shape)]


@operator(
    onnx=("Reshape",), caffe=("Reshape",), tensorflow=("Reshape",), ascend=("Reshape",), moves=True
)
def reshape(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Give another shape: 0 copies a size (not in TensorFlow), -1 is what is left; of Caffe and
    Ascend IR from ``axis`` on.
    """
    x = input_at(inputs, 0)
    before = x.array.shape
    if node.dialect == CAFFE or "shape" in node.attributes:
        shape = node.get("shape")
        shape = listed(shape.get("dim", []) if isinstance(shape, Mapping) else shape)
    else:
        shape = whole(inputs, 1)
    if node.dialect in (CAFFE, ASCEND):
        first = int(node.get("axis", 0))
        first = first + len(before) + 1 if first < 0 else first
        count = int(node.get("num_axes", -1))
        last = len(before) if count == -1 else first + count
        # A size is copied from its own axis, whether that one is replaced or not.
        inner = _shape_with_zeros(shape, before[first:])
        return [reshaped(x, (*before[:first], *inner, *before[last:]))]
    if node.dialect == ONNX and not node.get("allowzero", 0):
        shape = _shape_with_zeros(shape, before)
    return [reshaped(x, shape)]


@operator(onnx=("Flatten",), caffe=("Flatten",), ascend=("Flatten", "FlattenV2"), moves=True)
def flatten(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Make two axes of all, split at ``axis``; of Caffe one of those from ``axis`` to
    ``end_axis``.
    """
    x = input_at(inputs, 0)
    shape, first = x.array.shape, int(node.get("axis", 1))
    if node.dialect == CAFFE or node.type == "FlattenV2":
        first, last = axis_of(first, len(shape)), axis_of(int(node.get("end_axis", -1)), len(shape))
        return [
            reshaped(x, (*shape[:first], int(np.prod(shape[first : last + 1])), *shape[last + 1 :]))
        ]
    first = first + len(shape) if first < 0 else first
    return [reshaped(x, (int(np.prod(shape[:first])), int(np.prod(shape[first:]))))]


def _axes(node: Node, inputs: Inputs, *names: str) -> Optional[List[int]]:
    """Return axes from an attribute or the second input; None where neither is there."""
    for name in names:
        if name in node.attributes:
            return listed(node.get(name))
    return whole(inputs, 1) if has_input(inputs, 1) else None


@operator(onnx=("Squeeze",), tensorflow=("Squeeze",), ascend=("Squeeze", "SqueezeV2"), moves=True)
def squeeze(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Leave axes of size 1 out: those that are named, else all."""
    x = input_at(inputs, 0)
    axes = _axes(node, inputs, "axes", "squeeze_dims", "axis")
    squeezed = (
        {axis_of(axis, x.array.ndim) for axis in axes}
        if axes
        else {axis for axis, size in enumerate(x.array.shape) if size == 1}
    )
    if any(x.array.shape[axis] != 1 for axis in squeezed):
        raise CannotCompute(
            "it squeezes the axes %s of the shape %s" % (sorted(squeezed), x.array.shape)
        )
    return [reshaped(x, [size for axis, size in enumerate(x.array.shape) if axis not in squeezed])]


@operator(
    onnx=("Unsqueeze",),
    tensorflow=("ExpandDims",),
    ascend=("Unsqueeze", "UnsqueezeV2", "ExpandDims"),
    moves=True,
)
def unsqueeze(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put in axes of size 1; they are counted in the output."""
    x = input_at(inputs, 0)
    axes = _axes(node, inputs, "axes", "axis", "dim")
    if not axes:
        raise CannotCompute("its axes are not known")
    ndim = x.array.ndim + len(axes)
    new = {axis_of(axis, ndim) for axis in axes}
    rest = iter(x.array.shape)
    return [reshaped(x, [1 if axis in new else next(rest) for axis in range(ndim)])]


@operator(
    onnx=("Expand",),
    tensorflow=("BroadcastTo",),
    ascend=("BroadcastTo", "BroadcastToD", "Expand", "ExpandD"),
    moves=True,
)
def expand(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Broadcast to a shape; in Expand a size of 1 keeps the input's, in Ascend IR -1 does too."""
    x = input_at(inputs, 0)
    shape = listed(node.get("shape")) if node.type.endswith("D") else whole(inputs, 1)
    aligned_shape = (1,) * (len(shape) - x.array.ndim) + x.array.shape
    if node.dialect == ASCEND:
        shape = [
            input_size if size == -1 else size
            for size, input_size in zip(shape, aligned_shape[-len(shape) :] if shape else ())
        ]
    if node.dialect == ONNX or node.type.startswith("Expand"):
        shape = (
            list(np.broadcast(np.empty(aligned_shape), np.empty(shape)).shape)
            if 0 not in shape
            else shape
        )
    return [moved(lambda array: np.broadcast_to(array, tuple(shape)), x)]


def _parts_of_transpose(
    node: Node, shapes: Sequence[Optional[Shape]], values: Values
) -> Optional[Parts]:
    """Parts of a Transpose with a constant order: along all axes."""
    x = shapes[0] if shapes else None
    if x is None or not (
        node.attributes or node.dialect == ONNX or len(values) > 1 and values[1] is not None
    ):
        return None
    order = _order(
        node,
        range(len(x)),
        [None, *(None if value is None else Value(np.asarray(value)) for value in values[1:])],
    )
    axes: Dict[int, Along] = {
        axis: (Window(source), *(None,) * (len(shapes) - 1)) for axis, source in enumerate(order)
    }
    return Parts(tuple(x[axis] for axis in order), axes)


@operator(
    onnx=("Transpose",), caffe=("Permute", "Transpose"), tensorflow=("Transpose",),
    ascend=("Transpose", "TransposeD", "Permute"),
    moves=True, parts=_parts_of_transpose,
)  # fmt: skip
def transpose(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Reorder the axes; those that Caffe's order does not name follow as they were."""
    x = input_at(inputs, 0)
    order = _order(node, range(x.array.ndim), inputs)
    return [moved(lambda array: np.transpose(array, order), x)]


def _order(node: Node, axes: Sequence[int], inputs: Inputs) -> List[int]:
    if node.dialect == CAFFE or node.type == "Permute":
        order = listed(node.get("order", node.get("dim", ())))
        return [*order, *(axis for axis in axes if axis not in order)]
    if node.dialect == ONNX:
        return listed(node.get("perm", list(reversed(axes))))
    return (
        listed(node.get("perm"))
        if node.type == "TransposeD" or "perm" in node.attributes
        else whole(inputs, 1)
    )


@operator(
    caffe=("Reverse",), tensorflow=("ReverseV2",), ascend=("ReverseV2", "ReverseV2D"), moves=True
)
def reverse(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Turn axes around."""
    if node.dialect == CAFFE:
        axes = listed(node.get("axis", [0]))
    else:
        axes = listed(node.get("axis")) if node.type.endswith("D") else whole(inputs, 1)
    return [moved(lambda array: np.flip(array, tuple(axes)), input_at(inputs, 0))]


@operator(
    onnx=("ReverseSequence",),
    tensorflow=("ReverseSequence",),
    ascend=("ReverseSequence",),
    moves=True,
)
def reverse_sequence(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Turn the first so many steps of each sequence around."""
    lengths = whole(inputs, 1)
    if node.dialect == ONNX:
        batch, time = int(node.get("batch_axis", 1)), int(node.get("time_axis", 0))
    else:
        batch, time = int(node.get("batch_dim", 0)), int(node.get("seq_dim"))

    def function(array: Array) -> Array:
        result = np.array(array)
        turned = np.moveaxis(result, (batch, time), (0, 1))
        for row, length in zip(turned, lengths):
            row[:length] = row[:length][::-1].copy()
        return result

    return [moved(function, input_at(inputs, 0))]


@operator(tensorflow=("Roll",), ascend=("Roll",), moves=True)
def roll(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Shift along axes; what leaves at one end comes in at the other."""
    if node.dialect == TENSORFLOW:
        shifts, axes = whole(inputs, 1), whole(inputs, 2)
    else:
        shifts, axes = listed(node.get("shifts")), listed(node.get("dims", ()))
    if not axes:
        return [moved(lambda array: np.roll(array, shifts[0]), input_at(inputs, 0))]
    return [moved(lambda array: np.roll(array, tuple(shifts), tuple(axes)), input_at(inputs, 0))]


@operator(caffe=("ShuffleChannel",), ascend=("ShuffleChannel",), moves=True, parts=rows)
def shuffle_channel(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the channels of all groups in turn."""
    group = int(node.get("group") if node.dialect == CAFFE else node.get("group", 1))

    def function(array: Array) -> Array:
        axis = channel_axis(node, array.ndim)
        front = np.moveaxis(array, axis, 0)
        split = front.reshape((group, front.shape[0] // group, *front.shape[1:]))
        return np.moveaxis(np.swapaxes(split, 0, 1).reshape(front.shape), 0, axis)

    return [moved(function, input_at(inputs, 0))]


def _blocks(node: Node) -> Tuple[int, bool, bool]:
    """Return the block's size, whether channels are last, and whether its place is the outer part
    of the channels (DCR).
    """
    size = int(node.get("blocksize" if node.dialect == ONNX else "block_size"))
    layout = "NCHW" if node.dialect == ONNX else str(node.get("data_format", "NHWC"))
    mode = "DCR" if node.dialect == TENSORFLOW else str(node.get("mode", "DCR"))
    if layout not in ("NCHW", "NHWC") or mode not in ("DCR", "CRD"):
        raise CannotCompute("its layout %s or mode %s is not known" % (layout, mode))
    return size, layout == "NHWC", mode == "DCR"


@operator(
    onnx=("DepthToSpace",),
    tensorflow=("DepthToSpace",),
    ascend=("DepthToSpace",),
    moves=True,
    parts=rows,
)
def depth_to_space(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Spread channels over blocks of places."""
    size, last, outer = _blocks(node)

    def function(array: Array) -> Array:
        array = np.moveaxis(array, -1, 1) if last else array
        n, c, h, w = array.shape
        inner = c // (size * size)
        if outer:
            array = array.reshape(n, size, size, inner, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            array = array.reshape(n, inner, size, size, h, w).transpose(0, 1, 4, 2, 5, 3)
        array = array.reshape(n, inner, h * size, w * size)
        return np.moveaxis(array, 1, -1) if last else array

    return [moved(function, input_at(inputs, 0))]


@operator(
    onnx=("SpaceToDepth",),
    tensorflow=("SpaceToDepth",),
    ascend=("SpaceToDepth",),
    moves=True,
    parts=rows,
)
def space_to_depth(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Gather blocks of places in channels."""
    size, last, outer = _blocks(node)

    def function(array: Array) -> Array:
        array = np.moveaxis(array, -1, 1) if last else array
        n, c, h, w = array.shape
        array = array.reshape(n, c, h // size, size, w // size, size)
        array = array.transpose((0, 3, 5, 1, 2, 4) if outer else (0, 1, 3, 5, 2, 4))
        array = array.reshape(n, c * size * size, h // size, w // size)
        return np.moveaxis(array, 1, -1) if last else array

    return [moved(function, input_at(inputs, 0))]


def _blocks_and_borders(node: Node, inputs: Inputs, border: str) -> Tuple[List[int], Array]:
    if node.type.endswith("D") and not node.type.endswith("ND"):
        return listed(node.get("block_shape")), np.reshape(node.get(border), (-1, 2)).astype(int)
    return whole(inputs, 1), np.reshape(whole(inputs, 2), (-1, 2))


@operator(tensorflow=("SpaceToBatchND",), ascend=("SpaceToBatchND", "SpaceToBatchNDD"), moves=True)
def space_to_batch(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Pad, and gather blocks of places in the batch."""
    block, pads = _blocks_and_borders(node, inputs, "paddings")

    def function(array: Array) -> Array:
        rest = array.ndim - 1 - len(block)
        array = np.pad(array, [(0, 0), *map(tuple, pads), *[(0, 0)] * rest])
        shape: List[int] = [array.shape[0]]
        for size, step in zip(array.shape[1:], block):
            shape += [size // step, step]
        tail = array.shape[1 + len(block) :]
        array = array.reshape((*shape, *tail))
        steps, places = range(2, 2 * len(block) + 1, 2), range(1, 2 * len(block), 2)
        array = array.transpose((*steps, 0, *places, *range(2 * len(block) + 1, array.ndim)))
        return array.reshape((-1, *shape[1::2], *tail))

    return [moved(function, input_at(inputs, 0))]


@operator(tensorflow=("BatchToSpaceND",), ascend=("BatchToSpaceND", "BatchToSpaceNDD"), moves=True)
def batch_to_space(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Spread the batch over blocks of places, and crop."""
    block, crops = _blocks_and_borders(node, inputs, "crops")

    def function(array: Array) -> Array:
        count, places, tail = (
            len(block),
            array.shape[1 : 1 + len(block)],
            array.shape[1 + len(block) :],
        )
        array = array.reshape((*block, -1, *places, *tail))
        order = [count]
        for number in range(count):
            order += [count + 1 + number, number]
        array = array.transpose((*order, *range(2 * count + 1, array.ndim)))
        array = array.reshape((-1, *(size * step for size, step in zip(places, block)), *tail))
        cropped = [
            slice(int(low), size - int(high)) for (low, high), size in zip(crops, array.shape[1:])
        ]
        return array[(slice(None), *cropped)]

    return [moved(function, input_at(inputs, 0))]


_MOST_AXES, _ANY_ORDER = 6, 5
"""Of a tensor whose axes are tried in other orders, and in each; chosen by time, no trial."""


def _other_orders(node: Node, inputs: Inputs) -> List[List[int]]:
    """each other order, those that keep the output's shape first; of more than five axes those"""
    x = inputs[0]
    ndim = 0 if x is None else x.array.ndim
    if x is None or not 1 < ndim <= _MOST_AXES:
        return [list(range(ndim))[::-1], list(range(ndim))]
    own = listed(node.get("perm", list(range(ndim))[::-1]))
    shape = [x.array.shape[axis] for axis in own]
    inverse = [own.index(axis) for axis in range(ndim)]
    orders = [inverse, *(list(order) for order in permutations(range(ndim)))]
    others = [[x.array.shape[axis] for axis in order] != shape for order in orders]
    if ndim > _ANY_ORDER:
        return [order for order, is_other in zip(orders, others) if not is_other]
    return [order for _, order in sorted(zip(others, orders), key=itemgetter(0))]


declare(
    "Transpose",
    attribute(
        "perm",
        _other_orders,
        lambda node, inputs: list(range(inputs[0].array.ndim))[::-1]
        if inputs[0] is not None
        else None,
    ),
)
declare(
    "Reshape Flatten",
    changed_input(0, "its input", OTHER_LAYOUT),
)


def _blocks_by_columns(node: Node, inputs: Inputs) -> Iterator[Variant]:
    size, _, own_outer = _blocks(node)
    spreads = node.type == "DepthToSpace"

    def turned(outer: bool, array: Array) -> Array:
        n, c, h, w = array.shape
        if spreads:
            parts, axes = (n, c, h // size, size, w // size, size), (3, 5)
        elif outer:
            parts, axes = (n, size, size, c // size**2, h, w), (1, 2)
        else:
            parts, axes = (n, c // size**2, size, size, h, w), (2, 3)
        return array.reshape(parts).swapaxes(*axes).reshape(array.shape)

    for mode in ("DCR", "CRD"):
        change = partial(turned, mode == "DCR")

        def written(outputs: List[Value], change: Callable[[Array], Array] = change) -> List[Value]:
            return [moved(change, outputs[0])]

        is_own = (mode == "DCR") == own_outer
        instead = replace(node, attributes={**node.attributes, "mode": mode})
        yield Variant(
            "its blocks",
            "by columns" if is_own else "by columns, and mode %s" % mode,
            "by rows" if is_own else "by rows, and mode %s" % ("DCR" if own_outer else "CRD"),
            instead,
            None,
            written,
        )


declare(
    "DepthToSpace SpaceToDepth",
    attribute("mode", ("DCR", "CRD"), "DCR"),
    Reading("its blocks", "by columns, with either mode", _blocks_by_columns),
)


def _other_axes_of_sequence(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """exchanged"""
    own = int(node.get("time_axis", 0)), int(node.get("batch_axis", 1))
    changed = replace(
        node, attributes={**node.attributes, "time_axis": own[1], "batch_axis": own[0]}
    )
    yield "%d and batch_axis %d" % own[::-1], "%d and batch_axis %d" % own, changed


def _whole_sequences(node: Node, inputs: Inputs) -> List[Array]:
    """ignored: the whole length"""
    length = input_at(inputs, 0).array.shape[int(node.get("time_axis", 0))]
    return [np.full_like(input_at(inputs, 1).array, length)]


declare(
    "ReverseSequence",
    other_node("time_axis", _other_axes_of_sequence),
    whole_input(1, "its sequence_lens", _whole_sequences),
)
