"""Operators that only move, copy or place values: their outputs hold their inputs' values bit for bit.

Sources: the ONNX operator list of each opset; caffe.proto of BVLC and of the SSD branch; TensorFlow 1.15's op definitions; the operator
prototypes of Ascend IR.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .parting import Along, Parts, Shape, Values, Window, rows
from .primitives import moved
from .registry import ASCEND, CAFFE, ONNX, TENSORFLOW, CannotCompute, Inputs, Node, given, listed, operator, whole
from .value import Arithmetic, Value

Array = Any


def axis_of(axis: int, ndim: int) -> int:
    """Return an axis that may count from behind as one that does not.

    Raises
    ------
    CannotCompute
        There is no such axis.
    """
    if not -ndim <= axis < max(1, ndim):
        raise CannotCompute("it has no axis %d among %d" % (axis, ndim))
    return axis % ndim if ndim else 0


def _scalar(inputs: Inputs, number: int) -> int:
    found = whole(inputs, number)
    if len(found) != 1:
        raise CannotCompute("its input %d has %d numbers instead of one" % (number, len(found)))
    return found[0]


def _has(inputs: Inputs, number: int) -> bool:
    return number < len(inputs) and inputs[number] is not None


def channel_axis(node: Node, ndim: int) -> int:
    """Return the axis of the channels: the last one of NHWC and NDHWC, else the second."""
    return ndim - 1 if node.layouts and node.layouts[0] in ("NHWC", "NDHWC") else 1


# As it is


@operator(
    onnx=("Identity",), caffe=("Split", "Dropout", "SpatialDropout", "SeLuDropout"),
    tensorflow=("Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot"),
    ascend=("Identity", "IdentityN", "TransData", "StopGradient"), moves=True, parts=rows,
)  # fmt: skip
def identity(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the inputs as they are; Caffe's Split its one input many times."""
    if node.type == "Split":
        return [given(inputs, 0)] * node.outputs
    return [given(inputs, number) for number in range(max(1, len(inputs)))]


@operator(onnx=("Dropout",), moves=True, parts=rows)
def dropout(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the input as it is, and a mask of what was kept: all; in training it is random."""
    if (_has(inputs, 2) and bool(given(inputs, 2).array)) or (0 < node.version < 7 and not node.get("is_test", 0)):
        raise CannotCompute("in training it is random")
    x = given(inputs, 0)
    return [x, Value(np.ones(x.array.shape, bool))][: max(1, node.outputs)]


# Shapes


def reshaped(value: Value, shape: Sequence[int]) -> Value:
    """Return a value with another shape; -1 stands for what is left."""
    return moved(lambda array: array.reshape(tuple(shape)), value)


def _shape_with_zeros(shape: Sequence[int], given_shape: Sequence[int]) -> List[int]:
    """Return a shape in which 0 stands for the input's size there."""
    return [given_shape[number] if size == 0 else size for number, size in enumerate(shape)]


@operator(onnx=("Reshape",), caffe=("Reshape",), tensorflow=("Reshape",), ascend=("Reshape",), moves=True)
def reshape(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Give another shape: 0 copies a size (not in TensorFlow), -1 is what is left; of Caffe and Ascend IR from ``axis`` on."""
    x = given(inputs, 0)
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
    """Make two axes of all, split at ``axis``; of Caffe one of those from ``axis`` to ``end_axis``."""
    x = given(inputs, 0)
    shape, first = x.array.shape, int(node.get("axis", 1))
    if node.dialect == CAFFE or node.type == "FlattenV2":
        first, last = axis_of(first, len(shape)), axis_of(int(node.get("end_axis", -1)), len(shape))
        return [reshaped(x, (*shape[:first], int(np.prod(shape[first : last + 1])), *shape[last + 1 :]))]
    first = first + len(shape) if first < 0 else first
    return [reshaped(x, (int(np.prod(shape[:first])), int(np.prod(shape[first:]))))]


def _axes(node: Node, inputs: Inputs, *names: str) -> Optional[List[int]]:
    """Return axes from an attribute or the second input; None where neither is there."""
    for name in names:
        if name in node.attributes:
            return listed(node.get(name))
    return whole(inputs, 1) if _has(inputs, 1) else None


@operator(onnx=("Squeeze",), tensorflow=("Squeeze",), ascend=("Squeeze", "SqueezeV2"), moves=True)
def squeeze(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Leave axes of size 1 out: those that are named, else all."""
    x = given(inputs, 0)
    axes = _axes(node, inputs, "axes", "squeeze_dims", "axis")
    gone = {axis_of(axis, x.array.ndim) for axis in axes} if axes else {axis for axis, size in enumerate(x.array.shape) if size == 1}
    if any(x.array.shape[axis] != 1 for axis in gone):
        raise CannotCompute("it squeezes the axes %s of the shape %s" % (sorted(gone), x.array.shape))
    return [reshaped(x, [size for axis, size in enumerate(x.array.shape) if axis not in gone])]


@operator(onnx=("Unsqueeze",), tensorflow=("ExpandDims",), ascend=("Unsqueeze", "UnsqueezeV2", "ExpandDims"), moves=True)
def unsqueeze(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put in axes of size 1; they are counted in the output."""
    x = given(inputs, 0)
    axes = _axes(node, inputs, "axes", "axis", "dim")
    if not axes:
        raise CannotCompute("its axes are not known")
    ndim = x.array.ndim + len(axes)
    new = {axis_of(axis, ndim) for axis in axes}
    rest = iter(x.array.shape)
    return [reshaped(x, [1 if axis in new else next(rest) for axis in range(ndim)])]


@operator(onnx=("Expand",), tensorflow=("BroadcastTo",), ascend=("BroadcastTo", "BroadcastToD", "Expand", "ExpandD"), moves=True)
def expand(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Broadcast to a shape; in Expand a size of 1 keeps the input's, in Ascend IR -1 does too."""
    x = given(inputs, 0)
    shape = listed(node.get("shape")) if node.type.endswith("D") else whole(inputs, 1)
    own = (1,) * (len(shape) - x.array.ndim) + x.array.shape
    if node.dialect == ASCEND:
        shape = [mine if size == -1 else size for size, mine in zip(shape, own[-len(shape) :] if shape else ())]
    if node.dialect == ONNX or node.type.startswith("Expand"):
        shape = list(np.broadcast(np.empty(own), np.empty(shape)).shape) if 0 not in shape else shape
    return [moved(lambda array: np.broadcast_to(array, tuple(shape)), x)]


# Order


def _turned(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Of a Transpose whose order the model tells: along all axes."""
    x = shapes[0] if shapes else None
    if x is None or not (node.attributes or node.dialect == ONNX or len(values) > 1 and values[1] is not None):
        return None
    order = _order(node, range(len(x)), [None, *(None if value is None else Value(np.asarray(value)) for value in values[1:])])
    axes: Dict[int, Along] = {axis: (Window(source), *(None,) * (len(shapes) - 1)) for axis, source in enumerate(order)}
    return Parts(tuple(x[axis] for axis in order), axes)


@operator(
    onnx=("Transpose",), caffe=("Permute", "Transpose"), tensorflow=("Transpose",), ascend=("Transpose", "TransposeD", "Permute"),
    moves=True, parts=_turned,
)  # fmt: skip
def transpose(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Reorder the axes; those that Caffe's order does not name follow as they were."""
    x = given(inputs, 0)
    order = _order(node, range(x.array.ndim), inputs)
    return [moved(lambda array: np.transpose(array, order), x)]


def _order(node: Node, axes: Sequence[int], inputs: Inputs) -> List[int]:
    if node.dialect == CAFFE or node.type == "Permute":
        order = listed(node.get("order", node.get("dim", ())))
        return [*order, *(axis for axis in axes if axis not in order)]
    if node.dialect == ONNX:
        return listed(node.get("perm", list(reversed(axes))))
    return listed(node.get("perm")) if node.type == "TransposeD" or "perm" in node.attributes else whole(inputs, 1)


@operator(caffe=("Reverse",), tensorflow=("ReverseV2",), ascend=("ReverseV2", "ReverseV2D"), moves=True)
def reverse(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Turn axes around."""
    if node.dialect == CAFFE:
        axes = listed(node.get("axis", [0]))
    else:
        axes = listed(node.get("axis")) if node.type.endswith("D") else whole(inputs, 1)
    return [moved(lambda array: np.flip(array, tuple(axes)), given(inputs, 0))]


@operator(onnx=("ReverseSequence",), tensorflow=("ReverseSequence",), ascend=("ReverseSequence",), moves=True)
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

    return [moved(function, given(inputs, 0))]


@operator(tensorflow=("Roll",), ascend=("Roll",), moves=True)
def roll(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Shift along axes; what leaves at one end comes in at the other."""
    if node.dialect == TENSORFLOW:
        shifts, axes = whole(inputs, 1), whole(inputs, 2)
    else:
        shifts, axes = listed(node.get("shifts")), listed(node.get("dims", ()))
    if not axes:
        return [moved(lambda array: np.roll(array, shifts[0]), given(inputs, 0))]
    return [moved(lambda array: np.roll(array, tuple(shifts), tuple(axes)), given(inputs, 0))]


@operator(caffe=("ShuffleChannel",), ascend=("ShuffleChannel",), moves=True, parts=rows)
def shuffle_channel(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the channels of all groups in turn."""
    group = int(node.get("group") if node.dialect == CAFFE else node.get("group", 1))

    def function(array: Array) -> Array:
        axis = channel_axis(node, array.ndim)
        front = np.moveaxis(array, axis, 0)
        split = front.reshape((group, front.shape[0] // group, *front.shape[1:]))
        return np.moveaxis(np.swapaxes(split, 0, 1).reshape(front.shape), 0, axis)

    return [moved(function, given(inputs, 0))]


def _blocks(node: Node) -> Tuple[int, bool, bool]:
    """Return the block's size, whether channels are last, and whether its place is the outer part of the channels (DCR)."""
    size = int(node.get("blocksize" if node.dialect == ONNX else "block_size"))
    layout = "NCHW" if node.dialect == ONNX else str(node.get("data_format", "NHWC"))
    mode = "DCR" if node.dialect == TENSORFLOW else str(node.get("mode", "DCR"))
    if layout not in ("NCHW", "NHWC") or mode not in ("DCR", "CRD"):
        raise CannotCompute("its layout %s or mode %s is not known" % (layout, mode))
    return size, layout == "NHWC", mode == "DCR"


@operator(onnx=("DepthToSpace",), tensorflow=("DepthToSpace",), ascend=("DepthToSpace",), moves=True, parts=rows)
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

    return [moved(function, given(inputs, 0))]


@operator(onnx=("SpaceToDepth",), tensorflow=("SpaceToDepth",), ascend=("SpaceToDepth",), moves=True, parts=rows)
def space_to_depth(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Gather blocks of places in channels."""
    size, last, _ = _blocks(node)

    def function(array: Array) -> Array:
        array = np.moveaxis(array, -1, 1) if last else array
        n, c, h, w = array.shape
        array = array.reshape(n, c, h // size, size, w // size, size).transpose(0, 3, 5, 1, 2, 4)
        array = array.reshape(n, c * size * size, h // size, w // size)
        return np.moveaxis(array, 1, -1) if last else array

    return [moved(function, given(inputs, 0))]


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

    return [moved(function, given(inputs, 0))]


@operator(tensorflow=("BatchToSpaceND",), ascend=("BatchToSpaceND", "BatchToSpaceNDD"), moves=True)
def batch_to_space(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Spread the batch over blocks of places, and crop."""
    block, crops = _blocks_and_borders(node, inputs, "crops")

    def function(array: Array) -> Array:
        count, places, tail = len(block), array.shape[1 : 1 + len(block)], array.shape[1 + len(block) :]
        array = array.reshape((*block, -1, *places, *tail))
        order = [count]
        for number in range(count):
            order += [count + 1 + number, number]
        array = array.transpose((*order, *range(2 * count + 1, array.ndim)))
        array = array.reshape((-1, *(size * step for size, step in zip(places, block)), *tail))
        kept = [slice(int(low), size - int(high)) for (low, high), size in zip(crops, array.shape[1:])]
        return array[(slice(None), *kept)]

    return [moved(function, given(inputs, 0))]


# Parts


def _together(function: Callable[[List[Array]], Array], values: Sequence[Value]) -> Value:
    """Move several values to one, and their errors with them."""
    made = function([value.array for value in values])
    if all(value.error is None for value in values):
        return Value(made)
    errors = [np.broadcast_to(0.0 if value.error is None else value.error, value.array.shape) for value in values]
    return Value(made, function(errors))


def _joined_beside(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Of a Concat whose axis is an attribute, or the last input: along all other axes."""
    told = node.attributes.get("axis", node.attributes.get("concat_dim", 1 if node.dialect == CAFFE else None))
    joined = list(shapes)
    if told is None and node.type == "ConcatV2" and values[-1] is not None:
        told, joined = values[-1], joined[:-1]
    if told is None or any(shape is None or len(shape) != len(joined[0] or ()) for shape in joined) or not joined:
        return None
    first = joined[0] or ()
    axis = axis_of(int(np.asarray(told).reshape(-1)[0]), len(first))
    sizes = [shape[axis] for shape in joined if shape is not None]
    size = None if None in sizes else sum(size for size in sizes if size is not None)
    rest: Along = (None,) * (len(shapes) - len(joined))
    along: Dict[int, Along] = {other: (Window(other),) * len(joined) + rest for other in range(len(first)) if other != axis}
    return Parts((*first[:axis], size, *first[axis + 1 :]), along)


@operator(
    onnx=("Concat",),
    caffe=("Concat",),
    tensorflow=("Concat", "ConcatV2"),
    ascend=("Concat", "ConcatV2", "ConcatD", "ConcatV2D"),
    moves=True,
    parts=_joined_beside,
)
def concat(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Join inputs along an axis: an attribute, or the first (Concat) or last input (ConcatV2)."""
    if node.dialect == CAFFE:
        axis = int(node.get("axis", node.get("concat_dim", 1)))
    elif node.dialect == ONNX:
        axis = int(node.get("axis", 1) if 0 < node.version < 4 else node.get("axis"))
    elif node.type.endswith("D") or "concat_dim" in node.attributes:
        axis = int(node.get("concat_dim"))
    elif node.type == "Concat":
        axis, inputs = _scalar(inputs, 0), inputs[1:]
    else:
        axis, inputs = _scalar(inputs, len(inputs) - 1), inputs[:-1]
    return [_together(lambda arrays: np.concatenate(arrays, axis), [given(inputs, number) for number in range(len(inputs))])]


@operator(tensorflow=("Pack",), ascend=("Pack",), moves=True)
def pack(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Join inputs along a new axis."""
    axis = int(node.get("axis", 0))
    return [_together(lambda arrays: np.stack(arrays, axis), [given(inputs, number) for number in range(len(inputs))])]


@operator(tensorflow=("Unpack",), ascend=("Unpack",), moves=True)
def unpack(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Give each part along an axis, without it."""
    x = given(inputs, 0)
    axis = axis_of(int(node.get("axis", 0)), x.array.ndim)
    return [_taken(x, axis, number) for number in range(x.array.shape[axis])]


def _taken(x: Value, axis: int, number: int) -> Value:
    return moved(lambda array: np.take(array, number, axis), x)


@operator(onnx=("Split",), tensorflow=("Split", "SplitV"), ascend=("Split", "SplitD", "SplitV", "SplitVD"), moves=True)
def split(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Cut along an axis, into equal parts or such of given sizes (of which one may be -1: what is left)."""
    x, axis, sizes, count = _split_of(node, inputs)
    axis = axis_of(axis, x.array.ndim)
    length = x.array.shape[axis]
    if sizes is None:
        each = -(-length // count)
        if length % count and not (node.dialect == ONNX and "num_outputs" in node.attributes):
            raise CannotCompute("it splits %d into %d equal parts" % (length, count))
        sizes = [min(each, max(0, length - each * number)) for number in range(count)]
    sizes = [length - sum(size for size in sizes if size >= 0) if size == -1 else size for size in sizes]
    if sum(sizes) != length:
        raise CannotCompute("it splits %d into %s" % (length, sizes))
    return _cut(x, axis, [sum(sizes[:number]) for number in range(1, len(sizes))])


def _split_of(node: Node, inputs: Inputs) -> Tuple[Value, int, Optional[List[int]], int]:
    """Return what is split, along which axis, into which sizes or how many parts."""
    if node.dialect == ONNX:
        sizes = listed(node.get("split")) if "split" in node.attributes else whole(inputs, 1) if _has(inputs, 1) else None
        return given(inputs, 0), int(node.get("axis", 0)), sizes, int(node.get("num_outputs", node.outputs))
    if node.type == "Split":
        return given(inputs, 1), _scalar(inputs, 0), None, int(node.get("num_split"))
    if node.type == "SplitD":
        return given(inputs, 0), int(node.get("split_dim")), None, int(node.get("num_split"))
    if node.type == "SplitV":
        return given(inputs, 0), _scalar(inputs, 2), whole(inputs, 1), 0
    return given(inputs, 0), int(node.get("split_dim")), listed(node.get("size_splits")), 0


def _cut(x: Value, axis: int, places: Sequence[int]) -> List[Value]:
    arrays = np.split(x.array, places, axis)
    if x.error is None:
        return [Value(array) for array in arrays]
    return [Value(array, error) for array, error in zip(arrays, np.split(np.broadcast_to(x.error, x.array.shape), places, axis))]


@operator(onnx=("Slice",), caffe=("Slice",), tensorflow=("Slice",), ascend=("Slice", "SliceD"), moves=True)
def slice_(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take a part along axes; Caffe's Slice cuts one axis into several outputs."""
    x = given(inputs, 0)
    if node.dialect == CAFFE:
        return _caffe_slice(node, x)
    if node.dialect == ONNX:
        if "starts" in node.attributes:
            starts, ends = listed(node.get("starts")), listed(node.get("ends"))
            axes, steps = listed(node.get("axes", range(len(starts)))), [1] * len(starts)
        else:
            starts, ends = whole(inputs, 1), whole(inputs, 2)
            axes = whole(inputs, 3) if _has(inputs, 3) else list(range(len(starts)))
            steps = whole(inputs, 4) if _has(inputs, 4) else [1] * len(starts)
        return [_sliced(x, axes, starts, ends, steps)]
    if node.type == "SliceD":
        starts, sizes = listed(node.get("offsets")), listed(node.get("size"))
    else:
        starts, sizes = whole(inputs, 1), whole(inputs, 2)
    index = tuple(slice(start, None if size == -1 else start + size) for start, size in zip(starts, sizes))
    return [moved(lambda array: array[index], x)]


def _caffe_slice(node: Node, x: Value) -> List[Value]:
    axis = axis_of(int(node.get("axis", node.get("slice_dim", 1))), x.array.ndim)
    points, length = listed(node.get("slice_point", ())), x.array.shape[axis]
    if not points:
        if length % node.outputs:
            raise CannotCompute("it cuts %d into %d equal parts" % (length, node.outputs))
        points = list(range(length // node.outputs, length, length // node.outputs))
    return _cut(x, axis, points)


def _sliced(x: Value, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> Value:
    index = [slice(None)] * x.array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        if step < 0 and end in (2**31 - 1, 2**63 - 1):
            raise CannotCompute("it goes backwards to the largest number, which runtimes understand differently")
        size = x.array.shape[axis_of(axis, x.array.ndim)]
        start, end = (number + size if number < 0 else number for number in (start, end))
        if step > 0:
            part = slice(min(max(start, 0), size), min(max(end, 0), size), step)
        else:
            last = min(max(end, -1), size - 1)
            part = slice(min(max(start, 0), size - 1), None if last < 0 else last, step)
        index[axis_of(axis, x.array.ndim)] = part
    return moved(lambda array: array[tuple(index)], x)


@operator(tensorflow=("StridedSlice",), ascend=("StridedSlice", "StridedSliceD"), moves=True)
def strided_slice(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take parts by begin, end and stride, with TensorFlow's five masks."""
    if node.type.endswith("D"):
        begins, ends = listed(node.get("begin")), listed(node.get("end"))
        strides = listed(node.get("strides", [1] * len(begins)))
    else:
        begins, ends = whole(inputs, 1), whole(inputs, 2)
        strides = whole(inputs, 3) if _has(inputs, 3) else [1] * len(begins)
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    begin_mask, end_mask, ellipsis_mask, new_mask, shrink_mask = (int(node.get(name, 0)) for name in names)
    index: List[Any] = []
    for number, (begin, end, stride) in enumerate(zip(begins, ends, strides)):
        bit = 1 << number
        if ellipsis_mask & bit:
            index.append(Ellipsis)
        elif new_mask & bit:
            index.append(np.newaxis)
        elif shrink_mask & bit:
            index.append(begin)
        else:
            index.append(slice(None if begin_mask & bit else begin, None if end_mask & bit else end, stride))
    return [moved(lambda array: array[tuple(index)], given(inputs, 0))]


@operator(ascend=("StridedSliceV2",), moves=True)
def strided_slice_of_axes(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take parts by begin, end, and optionally axes and strides, as ONNX's Slice does."""
    if any(node.get(name, 0) for name in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")):
        raise CannotCompute("how its masks and axes go together is not known")
    starts, ends = whole(inputs, 1), whole(inputs, 2)
    axes = whole(inputs, 3) if _has(inputs, 3) else list(range(len(starts)))
    steps = whole(inputs, 4) if _has(inputs, 4) else [1] * len(starts)
    return [_sliced(given(inputs, 0), axes, starts, ends, steps)]


@operator(caffe=("Crop",), ascend=("Crop",), moves=True)
def crop(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Crop the axes from ``axis`` on to the second input's shape."""
    x, size = given(inputs, 0), given(inputs, 1).array.shape
    axis = axis_of(int(node.get("axis", 2)), x.array.ndim)
    offsets = listed(node.get("offset" if node.dialect == CAFFE else "offsets", ()))
    index = [slice(None)] * x.array.ndim
    for number in range(axis, x.array.ndim):
        offset = 0 if not offsets else offsets[0] if len(offsets) == 1 else offsets[number - axis]
        if offset + size[number] > x.array.shape[number]:
            raise CannotCompute("it crops %d from %d on of %d" % (size[number], offset, x.array.shape[number]))
        index[number] = slice(offset, offset + size[number])
    return [moved(lambda array: array[tuple(index)], x)]


@operator(onnx=("Trilu",), tensorflow=("MatrixBandPart",), ascend=("MatrixBandPart", "Tril", "Triu"), moves=True)
def band(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Keep the values of matrices around the diagonal, or on one side of it, and put 0 elsewhere."""
    x = given(inputs, 0)
    rows, columns = x.array.shape[-2:]
    off = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    if node.type == "MatrixBandPart":
        lower, upper = _scalar(inputs, 1), _scalar(inputs, 2)
        kept = ((off >= -lower) | (lower < 0)) & ((off <= upper) | (upper < 0))
    else:
        if node.dialect == ONNX:
            diagonal, above = (_scalar(inputs, 1) if _has(inputs, 1) else 0), bool(node.get("upper", 1))
        else:
            diagonal, above = int(node.get("diagonal", 0)), node.type == "Triu"
        kept = off >= diagonal if above else off <= diagonal
    return [moved(lambda array: np.where(kept, array, array.dtype.type(0)), x)]


# Copies


@operator(onnx=("Tile",), caffe=("Tile",), tensorflow=("Tile",), ascend=("Tile", "TileD", "TileWithAxis"), moves=True)
def tile(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Repeat along axes."""
    x = given(inputs, 0)
    if node.dialect == CAFFE or node.type == "TileWithAxis" or (node.dialect == ONNX and 0 < node.version < 6):
        if node.dialect == ONNX:
            count, axis = _scalar(inputs, 1), _scalar(inputs, 2)
        else:
            count, axis = int(node.get("tiles")), int(node.get("axis", 1))
        repeats = [1] * x.array.ndim
        repeats[axis_of(axis, x.array.ndim)] = count
    else:
        repeats = listed(node.get("multiples")) if node.type == "TileD" else whole(inputs, 1)
    return [moved(lambda array: np.tile(array, repeats), x)]


def padded(x: Value, pads: Sequence[Tuple[int, int]], mode: str, constant: Any = 0) -> Value:
    """Return a value with so much added (negative: taken away) at both ends of each axis.

    Parameters
    ----------
    mode
        ``constant``, ``edge``, ``reflect`` (without the border's own value), ``symmetric`` (with it) or ``wrap``.
    """
    kept = tuple(slice(max(0, -low), size - max(0, -high)) for (low, high), size in zip(pads, x.array.shape))
    added = [(max(0, low), max(0, high)) for low, high in pads]

    def function(array: Array, value: Any) -> Array:
        array = array[kept]
        return np.pad(array, added, mode, constant_values=value) if mode == "constant" else np.pad(array, added, mode)  # type: ignore[call-overload]

    made = function(x.array, x.array.dtype.type(constant) if mode == "constant" else 0)
    return Value(made, None if x.error is None else function(np.broadcast_to(x.error, x.array.shape), 0.0))


def _pairs(begins_and_ends: Sequence[int], contiguous: bool) -> List[Tuple[int, int]]:
    pads = np.reshape(np.asarray(begins_and_ends, int), (-1, 2) if contiguous else (2, -1))
    return [(int(low), int(high)) for low, high in (pads if contiguous else pads.T)]


@operator(onnx=("Pad",), moves=True)
def pad(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Pad as ONNX does: all begins, then all ends; attributes before opset 11, inputs since."""
    x = given(inputs, 0)
    mode, constant = str(node.get("mode", "constant")), node.get("value", 0.0)
    if "pads" in node.attributes or "paddings" in node.attributes:
        pads = _pairs(listed(node.get("pads", node.attributes.get("paddings"))), False)
    else:
        pads = _pairs(whole(inputs, 1), False)
        constant = given(inputs, 2).array.reshape(()) if _has(inputs, 2) and given(inputs, 2).array.size else 0
    if _has(inputs, 3):
        every = [(0, 0)] * x.array.ndim
        for axis, pair in zip(whole(inputs, 3), pads):
            every[axis_of(axis, x.array.ndim)] = pair
        pads = every
    if mode not in ("constant", "reflect", "edge", "wrap") or len(pads) != x.array.ndim:
        raise CannotCompute("its mode %s with %d pairs of pads for %d axes is not known" % (mode, len(pads), x.array.ndim))
    return [padded(x, pads, mode, constant)]


@operator(tensorflow=("Pad", "PadV2"), ascend=("Pad", "PadD", "PadV2", "PadV2D", "PadV3", "PadV3D"), moves=True)
def pad_pairs(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Pad as TensorFlow and Ascend IR do: pairs of begin and end for each axis."""
    x = given(inputs, 0)
    of_attributes = node.type.endswith("D")
    numbers = listed(node.get("paddings")) if of_attributes else whole(inputs, 1)
    contiguous = bool(node.get("paddings_contiguous", True)) if node.type.startswith("PadV3") else True
    mode = str(node.get("mode", "constant")) if node.type.startswith("PadV3") else "constant"
    if mode not in ("constant", "reflect", "edge"):
        raise CannotCompute("its mode %s is not known" % mode)
    return [padded(x, _pairs(numbers, contiguous), mode, _pad_constant(node, inputs))]


def _pad_constant(node: Node, inputs: Inputs) -> Any:
    if node.type == "PadV3D":
        return node.get("constant_values", 0)
    where = {"PadV2": 2, "PadV2D": 1, "PadV3": 2}.get(node.type)
    if where is None or (node.type == "PadV3" and not _has(inputs, 2)):
        return 0
    return given(inputs, where).array.reshape(())


@operator(tensorflow=("MirrorPad",), ascend=("MirrorPad",), moves=True)
def mirror_pad(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Pad with what lies behind the border, with (SYMMETRIC) or without (REFLECT) the border itself."""
    mode = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}.get(str(node.get("mode")))
    if mode is None:
        raise CannotCompute("its mode %s is not known" % node.get("mode"))
    return [padded(given(inputs, 0), _pairs(whole(inputs, 1), True), mode)]


# By indices


def _gathered(x: Value, indices: Array, axis: int, batch: int = 0) -> Value:
    axis = axis_of(axis, x.array.ndim)
    if not batch:
        return moved(lambda array: np.take(array, indices, axis), x)

    def function(array: Array) -> Array:
        lead = array.shape[:batch]
        if indices.shape[:batch] != lead:
            raise CannotCompute("its indices %s and values %s have other batches" % (indices.shape, array.shape))
        flat, chosen = array.reshape((-1, *array.shape[batch:])), indices.reshape((-1, *indices.shape[batch:]))
        rows = np.stack([np.take(row, which, axis - batch) for row, which in zip(flat, chosen)])
        return rows.reshape((*lead, *rows.shape[1:]))

    return moved(function, x)


def _indices(inputs: Inputs, number: int) -> Array:
    array = given(inputs, number).array
    if array.dtype.kind not in "iu":
        if not np.array_equal(array, np.rint(array)):
            raise CannotCompute("its indices are no whole numbers")
        array = array.astype(np.int64)
    return array


@operator(onnx=("Gather",), tensorflow=("Gather", "GatherV2"), ascend=("Gather", "GatherV2", "GatherV2D"), moves=True)
def gather(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take slices along an axis (the first one in Gather of TensorFlow and Ascend IR, an input in GatherV2)."""
    if node.type == "GatherV2":
        axis = _scalar(inputs, 2)
    elif node.type == "GatherV2D":
        axis = int(node.get("axis"))
    else:
        axis = int(node.get("axis", 0) if node.dialect == ONNX else node.get("batch_dims", 0))
    return [_gathered(given(inputs, 0), _indices(inputs, 1), axis, int(node.get("batch_dims", 0)))]


@operator(onnx=("GatherElements",), ascend=("GatherElements", "GatherD"), moves=True)
def gather_elements(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take for each element of the indices the value at this index along an axis."""
    if node.type == "GatherD" and len(inputs) > 2:
        axis, where = _scalar(inputs, 1), 2
    else:
        axis, where = int(node.get("axis", 0) if node.dialect == ONNX else node.get("dim")), 1
    indices, x = _indices(inputs, where), given(inputs, 0)
    axis = axis_of(axis, x.array.ndim)
    indices = np.where(indices < 0, indices + x.array.shape[axis], indices)
    kept = tuple(slice(None) if number == axis else slice(size) for number, size in enumerate(indices.shape))
    return [moved(lambda array: np.take_along_axis(array[kept], indices, axis), x)]


@operator(onnx=("GatherND",), tensorflow=("GatherNd",), ascend=("GatherNd",), moves=True)
def gather_nd(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the slices at indices of several axes, which the last axis of the indices holds."""
    indices, batch = _indices(inputs, 1), int(node.get("batch_dims", 0))

    def function(array: Array) -> Array:
        if not batch:
            return array[tuple(np.moveaxis(indices, -1, 0))]
        lead = array.shape[:batch]
        flat, chosen = array.reshape((-1, *array.shape[batch:])), indices.reshape((-1, *indices.shape[batch:]))
        rows = np.stack([row[tuple(np.moveaxis(which, -1, 0))] for row, which in zip(flat, chosen)])
        return rows.reshape((*lead, *rows.shape[1:]))

    return [moved(function, given(inputs, 0))]


_REDUCTIONS = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _placed(x: Value, index: Tuple[Array, ...], updates: Value, reduction: str) -> Value:
    """Put updates at places, or add them, multiply by them, take the larger or smaller."""
    if reduction not in _REDUCTIONS:
        raise CannotCompute("its reduction %s is not known" % reduction)
    how = _REDUCTIONS[reduction]
    made = x.array.astype(np.float64 if how is not None and x.is_float else x.array.dtype)
    error: Optional[Array] = None
    if x.error is not None or updates.error is not None:
        if reduction not in ("none", "add"):
            raise CannotCompute("errors of its inputs through the reduction %s are not known" % reduction)
        error = np.square(np.broadcast_to(0.0 if x.error is None else x.error, x.array.shape)).copy()
        moves = np.square(np.broadcast_to(0.0 if updates.error is None else updates.error, updates.array.shape))
        if how is None:
            error[index] = moves
        else:
            np.add.at(error, index, moves)
        error = np.sqrt(error)
    if how is None:
        made[index] = updates.array
    else:
        how.at(made, index, updates.array)
    return Value(made, error)


@operator(onnx=("ScatterElements", "Scatter"), ascend=("ScatterElements",))
def scatter_elements(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put each update at its index along an axis."""
    x, indices, updates = given(inputs, 0), _indices(inputs, 1), given(inputs, 2)
    axis = axis_of(int(node.get("axis", 0)), x.array.ndim)
    index = list(np.indices(indices.shape))
    index[axis] = np.where(indices < 0, indices + x.array.shape[axis], indices)
    return [_placed(x, tuple(index), updates, str(node.get("reduction", "none")))]


@operator(
    onnx=("ScatterND",), tensorflow=("TensorScatterUpdate", "ScatterNdUpdate"),
    ascend=("TensorScatterUpdate", "ScatterNdUpdate"),
)  # fmt: skip
def scatter_nd(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put each slice of the updates at its index, which the last axis of the indices holds."""
    index = tuple(np.moveaxis(_indices(inputs, 1), -1, 0))
    return [_placed(given(inputs, 0), index, given(inputs, 2), str(node.get("reduction", "none")))]


@operator(tensorflow=("ScatterNd",), ascend=("ScatterNd",))
def scatter_nd_to_zeros(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add each slice of the updates to zeros at its index."""
    updates = given(inputs, 1)
    zeros = Value(np.zeros(whole(inputs, 2), updates.array.dtype))
    return [_placed(zeros, tuple(np.moveaxis(_indices(inputs, 0), -1, 0)), updates, "add")]


@operator(tensorflow=("ScatterUpdate",), ascend=("ScatterUpdate",))
def scatter_update(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put slices of the updates at indices of the first axis."""
    return [_placed(given(inputs, 0), (_indices(inputs, 1),), given(inputs, 2), "none")]


@operator(onnx=("OneHot",), tensorflow=("OneHot",), ascend=("OneHot", "OneHotD"))
def one_hot(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put one value at an index along a new axis, another elsewhere; ONNX's negative indices count from behind."""
    indices, axis = _indices(inputs, 0), int(node.get("axis", -1))
    if node.dialect == ONNX:
        depth, values = _scalar(inputs, 1), given(inputs, 2)
        off, on = values.array.ravel()
        indices = np.where(indices < 0, indices + depth, indices)
    elif node.type == "OneHotD":
        depth = int(node.get("depth"))
        on, off = given(inputs, 1).array.reshape(()), given(inputs, 2).array.reshape(())
    else:
        depth = _scalar(inputs, 1)
        on, off = given(inputs, 2).array.reshape(()), given(inputs, 3).array.reshape(())
    axis = axis_of(axis, indices.ndim + 1)
    classes = np.arange(depth).reshape((depth,) + (1,) * (indices.ndim - axis))
    return [Value(np.where(np.expand_dims(indices, axis) == classes, on, off))]


# Made from shapes and constants

_SHAPE_TYPES: Mapping[str, Tuple[str, type]] = {TENSORFLOW: ("out_type", np.int32), ASCEND: ("dtype", np.int32)}


@operator(onnx=("Shape",), tensorflow=("Shape",), ascend=("Shape",))
def shape_of(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the shape, of ONNX from ``start`` to ``end``."""
    shape = given(inputs, 0).array.shape
    if node.dialect == ONNX:
        shape = shape[int(node.get("start", 0)) : int(node.get("end", len(shape)))]
    return [Value(np.asarray(shape, np.int64 if node.dialect == ONNX else np.int32))]


@operator(onnx=("Size",), tensorflow=("Size",), ascend=("Size",))
def size_of(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the number of elements."""
    return [Value(np.asarray(given(inputs, 0).array.size, np.int64 if node.dialect == ONNX else np.int32))]


@operator(tensorflow=("Rank",), ascend=("Rank",))
def rank_of(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the number of axes."""
    return [Value(np.asarray(given(inputs, 0).array.ndim, np.int32))]


@operator(onnx=("Range",), tensorflow=("Range",), ascend=("Range",))
def range_of(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return start, start + delta … below the limit."""
    start, limit, delta = (given(inputs, number).array.reshape(()) for number in range(3))
    count = max(0, int(np.ceil((limit - start) / delta)))
    return [Value(start + np.arange(count).astype(start.dtype) * delta)]


@operator(onnx=("ConstantOfShape",))
def constant_of_shape(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return an array of one value."""
    value = np.ravel(node.get("value", np.zeros(1, np.float32)))[0]
    return [Value(np.full(whole(inputs, 0), value))]


@operator(tensorflow=("Fill",), ascend=("Fill", "FillD"))
def fill(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return an array of one value, which is an input."""
    if node.type == "FillD":
        return [Value(np.full(listed(node.get("dims")), given(inputs, 0).array.reshape(())))]
    return [Value(np.full(whole(inputs, 0), given(inputs, 1).array.reshape(())))]


@operator(ascend=("Fills",))
def fill_like(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the attribute ``value`` in the input's shape and type."""
    return [Value(np.full_like(given(inputs, 0).array, float(node.get("value"))))]


@operator(tensorflow=("ZerosLike", "OnesLike"), ascend=("ZerosLike", "OnesLike"))
def filled_like(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return zeros or ones of the input's shape and type."""
    return [Value(np.full_like(given(inputs, 0).array, node.type == "OnesLike"))]


@operator(onnx=("Constant",), tensorflow=("Const",), ascend=("Const", "Constant"))
def constant(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the attribute that holds the values."""
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    for name, kind in kinds.items():
        if node.dialect == ONNX and name in node.attributes:
            return [Value(np.asarray(node.get(name), kind))]
    found: Union[Array, Any] = np.asarray(node.get("value"))
    return [Value(found)]
