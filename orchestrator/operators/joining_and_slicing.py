"""Operators that join, cut, repeat and pad: Concat, Split, Slice, Crop, Tile, Pad …

Sources: the ONNX operator list of each opset; caffe.proto of BVLC and of the SSD branch; TensorFlow
1.15's op definitions; the operator prototypes of Ascend IR.
"""

from __future__ import annotations

from itertools import chain, combinations, permutations, product
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .error_propagation import moved
from .registry import (
    CAFFE,
    ONNX,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    axis_of,
    has_input,
    input_at,
    listed,
    operator,
    scalar,
    whole,
)
from .splittable_axes import Along, Parts, Shape, Values, Window
from .value_with_error import Arithmetic, Value
from .variants import (
    Reading,
    Variant,
    attribute,
    computed_instead,
    declare,
    each_axis,
    input_order,
    other_number,
    output_order,
    pad_shares,
    text_of,
    whole_input,
)

Array = Any

_MODES = ("constant", "edge", "reflect", "wrap", "symmetric")
"""Of a Pad; the last one is none of ONNX's, but of TensorFlow's and some kernels'."""
_MOST_PLACES = 256
"""Starts of two axes that are tried in turn. Chosen by time, no trial."""


def _joined_with_errors(function: Callable[[List[Array]], Array], values: Sequence[Value]) -> Value:
    """Move several values to one, and their errors with them."""
    array = function([value.array for value in values])
    if all(value.error is None for value in values):
        return Value(array)
    errors = [
        np.broadcast_to(0.0 if value.error is None else value.error, value.array.shape)
        for value in values
    ]
    return Value(array, function(errors))


def _joined_beside(
    node: Node, shapes: Sequence[Optional[Shape]], values: Values
) -> Optional[Parts]:
    """Of a Concat whose axis is an attribute, or the last input: along all other axes."""
    axis_value = node.attributes.get(
        "axis", node.attributes.get("concat_dim", 1 if node.dialect == CAFFE else None)
    )
    joined = list(shapes)
    if axis_value is None and node.type == "ConcatV2" and values[-1] is not None:
        axis_value, joined = values[-1], joined[:-1]
    if (
        axis_value is None
        or any(shape is None or len(shape) != len(joined[0] or ()) for shape in joined)
        or not joined
    ):
        return None
    first = joined[0] or ()
    axis = axis_of(int(np.asarray(axis_value).reshape(-1)[0]), len(first))
    sizes = [shape[axis] for shape in joined if shape is not None]
    size = None if None in sizes else sum(size for size in sizes if size is not None)
    rest: Along = (None,) * (len(shapes) - len(joined))
    along: Dict[int, Along] = {
        other_axis: (Window(other_axis),) * len(joined) + rest
        for other_axis in range(len(first))
        if other_axis != axis
    }
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
        axis, inputs = scalar(inputs, 0), inputs[1:]
    else:
        axis, inputs = scalar(inputs, len(inputs) - 1), inputs[:-1]
    return [
        _joined_with_errors(
            lambda arrays: np.concatenate(arrays, axis),
            [input_at(inputs, number) for number in range(len(inputs))],
        )
    ]


@operator(tensorflow=("Pack",), ascend=("Pack",), moves=True)
def pack(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Join inputs along a new axis."""
    axis = int(node.get("axis", 0))
    return [
        _joined_with_errors(
            lambda arrays: np.stack(arrays, axis),
            [input_at(inputs, number) for number in range(len(inputs))],
        )
    ]


@operator(tensorflow=("Unpack",), ascend=("Unpack",), moves=True)
def unpack(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Give each part along an axis, without it."""
    x = input_at(inputs, 0)
    axis = axis_of(int(node.get("axis", 0)), x.array.ndim)
    return [_at_index(x, axis, number) for number in range(x.array.shape[axis])]


def _at_index(x: Value, axis: int, number: int) -> Value:
    return moved(lambda array: np.take(array, number, axis), x)


@operator(
    onnx=("Split",),
    tensorflow=("Split", "SplitV"),
    ascend=("Split", "SplitD", "SplitV", "SplitVD"),
    moves=True,
)
def split(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Cut along an axis, into equal parts or such of given sizes (of which one may be -1: what is
    left).
    """
    x, axis, sizes, count = _split_of(node, inputs)
    axis = axis_of(axis, x.array.ndim)
    length = x.array.shape[axis]
    if sizes is None:
        each = -(-length // count)
        if length % count and not (node.dialect == ONNX and "num_outputs" in node.attributes):
            raise CannotCompute("it splits %d into %d equal parts" % (length, count))
        sizes = [min(each, max(0, length - each * number)) for number in range(count)]
    sizes = [
        length - sum(size for size in sizes if size >= 0) if size == -1 else size for size in sizes
    ]
    if sum(sizes) != length:
        raise CannotCompute("it splits %d into %s" % (length, sizes))
    return _split_at(x, axis, [sum(sizes[:number]) for number in range(1, len(sizes))])


def _split_of(node: Node, inputs: Inputs) -> Tuple[Value, int, Optional[List[int]], int]:
    """Return what is split, along which axis, into which sizes or how many parts."""
    if node.dialect == ONNX:
        sizes = None
        if "split" in node.attributes:
            sizes = listed(node.get("split"))
        elif has_input(inputs, 1):
            sizes = whole(inputs, 1)
        return (
            input_at(inputs, 0),
            int(node.get("axis", 0)),
            sizes,
            int(node.get("num_outputs", node.outputs)),
        )
    if node.type == "Split":
        return input_at(inputs, 1), scalar(inputs, 0), None, int(node.get("num_split"))
    if node.type == "SplitD":
        return (input_at(inputs, 0), int(node.get("split_dim")), None, int(node.get("num_split")))
    if node.type == "SplitV":
        return input_at(inputs, 0), scalar(inputs, 2), whole(inputs, 1), 0
    return input_at(inputs, 0), int(node.get("split_dim")), listed(node.get("size_splits")), 0


def _split_at(x: Value, axis: int, places: Sequence[int]) -> List[Value]:
    arrays = np.split(x.array, places, axis)
    if x.error is None:
        return [Value(array) for array in arrays]
    return [
        Value(array, error)
        for array, error in zip(
            arrays, np.split(np.broadcast_to(x.error, x.array.shape), places, axis)
        )
    ]


@operator(
    onnx=("Slice",), caffe=("Slice",), tensorflow=("Slice",), ascend=("Slice", "SliceD"), moves=True
)
def slice_(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take a part along axes; Caffe's Slice cuts one axis into several outputs."""
    x = input_at(inputs, 0)
    if node.dialect == CAFFE:
        return _caffe_slice(node, x)
    if node.dialect == ONNX:
        return [_sliced(x, *_bounds(node, inputs))]
    if node.type == "SliceD":
        starts, sizes = listed(node.get("offsets")), listed(node.get("size"))
    else:
        starts, sizes = whole(inputs, 1), whole(inputs, 2)
    index = tuple(
        slice(start, None if size == -1 else start + size) for start, size in zip(starts, sizes)
    )
    return [moved(lambda array: array[index], x)]


def _bounds(node: Node, inputs: Inputs) -> Tuple[List[int], List[int], List[int], List[int]]:
    """Return axes, starts, ends and steps of ONNX's Slice."""
    if "starts" in node.attributes:
        starts, ends = listed(node.get("starts")), listed(node.get("ends"))
        return listed(node.get("axes", range(len(starts)))), starts, ends, [1] * len(starts)
    starts, ends = whole(inputs, 1), whole(inputs, 2)
    axes = whole(inputs, 3) if has_input(inputs, 3) else list(range(len(starts)))
    steps = whole(inputs, 4) if has_input(inputs, 4) else [1] * len(starts)
    return axes, starts, ends, steps


def _caffe_slice(node: Node, x: Value) -> List[Value]:
    axis = axis_of(int(node.get("axis", node.get("slice_dim", 1))), x.array.ndim)
    points, length = listed(node.get("slice_point", ())), x.array.shape[axis]
    if not points:
        if length % node.outputs:
            raise CannotCompute("it cuts %d into %d equal parts" % (length, node.outputs))
        points = list(range(length // node.outputs, length, length // node.outputs))
    return _split_at(x, axis, points)


def _sliced(
    x: Value, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
) -> Value:
    index = [slice(None)] * x.array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        if step < 0 and end in (2**31 - 1, 2**63 - 1):
            raise CannotCompute(
                "it goes backwards to the largest number, which runtimes understand differently"
            )
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
        strides = whole(inputs, 3) if has_input(inputs, 3) else [1] * len(begins)
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    begin_mask, end_mask, ellipsis_mask, new_mask, shrink_mask = (
        int(node.get(name, 0)) for name in names
    )
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
            index.append(
                slice(None if begin_mask & bit else begin, None if end_mask & bit else end, stride)
            )
    return [moved(lambda array: array[tuple(index)], input_at(inputs, 0))]


@operator(ascend=("StridedSliceV2",), moves=True)
def strided_slice_of_axes(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take parts by begin, end, and optionally axes and strides, as ONNX's Slice does."""
    if any(
        node.get(name, 0)
        for name in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    ):
        raise CannotCompute("how its masks and axes go together is not known")
    starts, ends = whole(inputs, 1), whole(inputs, 2)
    axes = whole(inputs, 3) if has_input(inputs, 3) else list(range(len(starts)))
    steps = whole(inputs, 4) if has_input(inputs, 4) else [1] * len(starts)
    return [_sliced(input_at(inputs, 0), axes, starts, ends, steps)]


@operator(caffe=("Crop",), ascend=("Crop",), moves=True)
def crop(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Crop the axes from ``axis`` on to the second input's shape."""
    x, size = input_at(inputs, 0), input_at(inputs, 1).array.shape
    axis = axis_of(int(node.get("axis", 2)), x.array.ndim)
    offsets = listed(node.get("offset" if node.dialect == CAFFE else "offsets", ()))
    index = [slice(None)] * x.array.ndim
    for number in range(axis, x.array.ndim):
        offset = 0
        if offsets:
            offset = offsets[0] if len(offsets) == 1 else offsets[number - axis]
        if offset + size[number] > x.array.shape[number]:
            raise CannotCompute(
                "it crops %d from %d on of %d" % (size[number], offset, x.array.shape[number])
            )
        index[number] = slice(offset, offset + size[number])
    return [moved(lambda array: array[tuple(index)], x)]


@operator(
    onnx=("Trilu",),
    tensorflow=("MatrixBandPart",),
    ascend=("MatrixBandPart", "Tril", "Triu"),
    moves=True,
)
def band(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Keep the values of matrices around the diagonal, or on one side of it, and put 0
    elsewhere.
    """
    x = input_at(inputs, 0)
    rows, columns = x.array.shape[-2:]
    off = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    if node.type == "MatrixBandPart":
        lower, upper = scalar(inputs, 1), scalar(inputs, 2)
        inside = ((off >= -lower) | (lower < 0)) & ((off <= upper) | (upper < 0))
    else:
        if node.dialect == ONNX:
            diagonal, above = (
                (scalar(inputs, 1) if has_input(inputs, 1) else 0),
                bool(node.get("upper", 1)),
            )
        else:
            diagonal, above = int(node.get("diagonal", 0)), node.type == "Triu"
        inside = off >= diagonal if above else off <= diagonal
    return [moved(lambda array: np.where(inside, array, array.dtype.type(0)), x)]


@operator(
    onnx=("Tile",),
    caffe=("Tile",),
    tensorflow=("Tile",),
    ascend=("Tile", "TileD", "TileWithAxis"),
    moves=True,
)
def tile(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Repeat along axes."""
    x = input_at(inputs, 0)
    if (
        node.dialect == CAFFE
        or node.type == "TileWithAxis"
        or (node.dialect == ONNX and 0 < node.version < 6)
    ):
        if node.dialect == ONNX:
            count, axis = scalar(inputs, 1), scalar(inputs, 2)
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
        ``constant``, ``edge``, ``reflect`` (without the border's own value), ``symmetric`` (with
        it) or ``wrap``.
    """
    kept_ranges = tuple(
        slice(max(0, -low), size - max(0, -high)) for (low, high), size in zip(pads, x.array.shape)
    )
    added = [(max(0, low), max(0, high)) for low, high in pads]

    def function(array: Array, value: Any) -> Array:
        array = array[kept_ranges]
        fill = {"constant_values": value} if mode == "constant" else {}
        return np.pad(array, added, mode, **fill)  # type: ignore[call-overload]

    padded_array = function(x.array, x.array.dtype.type(constant) if mode == "constant" else 0)
    return Value(
        padded_array,
        None if x.error is None else function(np.broadcast_to(x.error, x.array.shape), 0.0),
    )


def _pairs(begins_and_ends: Sequence[int], contiguous: bool) -> List[Tuple[int, int]]:
    pads = np.reshape(np.asarray(begins_and_ends, int), (-1, 2) if contiguous else (2, -1))
    return [(int(low), int(high)) for low, high in (pads if contiguous else pads.T)]


@operator(onnx=("Pad",), moves=True)
def pad(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Pad as ONNX does: all begins, then all ends; attributes before opset 11, inputs since."""
    x = input_at(inputs, 0)
    mode, constant = str(node.get("mode", "constant")), node.get("value", 0.0)
    if "pads" in node.attributes or "paddings" in node.attributes:
        pads = _pairs(listed(node.get("pads", node.attributes.get("paddings"))), False)
    else:
        pads = _pairs(whole(inputs, 1), False)
        constant = (
            input_at(inputs, 2).array.reshape(())
            if has_input(inputs, 2) and input_at(inputs, 2).array.size
            else 0
        )
    if has_input(inputs, 3):
        every = [(0, 0)] * x.array.ndim
        for axis, pair in zip(whole(inputs, 3), pads):
            every[axis_of(axis, x.array.ndim)] = pair
        pads = every
    # ONNX has no mode "symmetric": a device's kernel may.
    if (
        mode not in ("constant", "reflect", "edge", "wrap", "symmetric")
        or len(pads) != x.array.ndim
    ):
        raise CannotCompute(
            "its mode %s with %d pairs of pads for %d axes is not known"
            % (mode, len(pads), x.array.ndim)
        )
    return [padded(x, pads, mode, constant)]


@operator(
    tensorflow=("Pad", "PadV2"),
    ascend=("Pad", "PadD", "PadV2", "PadV2D", "PadV3", "PadV3D"),
    moves=True,
)
def pad_pairs(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Pad as TensorFlow and Ascend IR do: pairs of begin and end for each axis."""
    x = input_at(inputs, 0)
    of_attributes = node.type.endswith("D")
    numbers = listed(node.get("paddings")) if of_attributes else whole(inputs, 1)
    contiguous = (
        bool(node.get("paddings_contiguous", True)) if node.type.startswith("PadV3") else True
    )
    mode = str(node.get("mode", "constant")) if node.type.startswith("PadV3") else "constant"
    if mode not in ("constant", "reflect", "edge"):
        raise CannotCompute("its mode %s is not known" % mode)
    return [padded(x, _pairs(numbers, contiguous), mode, _pad_constant(node, inputs))]


def _pad_constant(node: Node, inputs: Inputs) -> Any:
    if node.type == "PadV3D":
        return node.get("constant_values", 0)
    where = {"PadV2": 2, "PadV2D": 1, "PadV3": 2}.get(node.type)
    if where is None or (node.type == "PadV3" and not has_input(inputs, 2)):
        return 0
    return input_at(inputs, where).array.reshape(())


@operator(tensorflow=("MirrorPad",), ascend=("MirrorPad",), moves=True)
def mirror_pad(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Pad with what lies behind the border, with (SYMMETRIC) or without (REFLECT) the border
    itself.
    """
    mode = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}.get(str(node.get("mode")))
    if mode is None:
        raise CannotCompute("its mode %s is not known" % node.get("mode"))
    return [padded(input_at(inputs, 0), _pairs(whole(inputs, 1), True), mode)]


declare("Concat", attribute("axis", each_axis), input_order())


def _joined_in_turn(node: Node, inputs: Inputs) -> Iterator[Any]:
    shapes = {one.array.shape for one in inputs if one is not None}
    axis = int(node.get("axis"))

    def joined(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
        at = axis % given[0].array.ndim  # type: ignore[union-attr]
        made = np.stack([one.array for one in given], at + 1)  # type: ignore[union-attr]
        shape = list(given[0].array.shape)  # type: ignore[union-attr]
        shape[at] *= len(given)
        return [Value(made.reshape(shape))]

    if len(shapes) == 1 and len(inputs) > 1:
        yield "one index of each input in turn", "one input after the other", joined


declare("Concat", computed_instead("the order of its indices", "in turn", _joined_in_turn))


def _other_sizes(node: Node, inputs: Inputs) -> List[List[int]]:
    """in each other order"""
    own = (
        node.get("split", ())
        if "split" in node.attributes
        else inputs[1].array
        if len(inputs) > 1 and inputs[1] is not None
        else ()
    )
    sizes = listed(own)
    return (
        [list(order) for order in sorted(set(permutations(sizes)))]
        if len(sizes) <= 4
        else [sizes[::-1]]
    )


def _split_in_turn(node: Node, inputs: Inputs) -> Iterator[Any]:
    x, axis, count = inputs[0], int(node.get("axis", 0)), node.outputs

    def parts(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
        array = given[0].array  # type: ignore[union-attr]
        places = np.arange(array.shape[axis])
        return [Value(np.take(array, places[number::count], axis)) for number in range(count)]

    if x is not None and count > 1 and x.array.shape[axis] % count == 0:
        yield "one index for each output in turn", "one output after the other", parts


declare(
    "Split",
    output_order(),
    attribute("axis", each_axis, 0),
    attribute("split", _other_sizes),
    whole_input(1, "split", _other_sizes),
    computed_instead("the order of its indices", "in turn", _split_in_turn),
)


def _other_pads(node: Node, inputs: Inputs) -> List[List[int]]:
    """begin for end, pairs of an axis, axes reversed, each other share of begin and end"""
    pads = listed(node.get("pads")) if "pads" in node.attributes else whole(inputs, 1)
    axes = len(pads) // 2
    begin, end = pads[:axes], pads[axes:]
    pairs = [pads[n // axes + 2 * (n % axes)] for n in range(2 * axes)] if axes else []
    unpaired = [pads[axes * (n % 2) + n // 2] for n in range(2 * axes)]
    usual = [end + begin, pairs, unpaired, begin[::-1] + end[::-1], end[::-1] + begin[::-1]]
    return [*usual, *pad_shares(begin, end)]


declare(
    "Pad",
    attribute("mode", _MODES, "constant"),
    attribute("pads", _other_pads),
    whole_input(1, "pads", _other_pads),
    attribute("value", (0.0, 1.0, -1.0), 0.0),
    other_number(2, "constant_value", (0.0, 1.0, -1.0)),
)


def _repeated_each(node: Node, inputs: Inputs) -> Iterator[Variant]:
    repeats = whole(inputs, 1)

    def written(outputs: List[Value]) -> List[Value]:
        def regrouped(array: Array) -> Array:
            for axis, times in enumerate(repeats):
                size = array.shape[axis]
                order = np.arange(size).reshape(times, -1).T.reshape(-1)
                array = np.take(array, order, axis)
            return array

        return [moved(regrouped, outputs[0])]

    yield Variant(
        "the order of its copies",
        "each element in a row",
        "the whole in a row",
        node,
        None,
        written,
    )


def _other_diagonals(node: Node, inputs: Inputs) -> Iterator[Variant]:
    x, own = inputs[0], 0
    if x is None or x.array.ndim < 2:
        return
    if len(inputs) > 1 and inputs[1] is not None:
        own = int(inputs[1].array.reshape(-1)[0])
    rows, columns = x.array.shape[-2:]
    others = [k for k in range(max(-rows, own - 64), min(columns, own + 64) + 1) if k != own]
    for k in sorted(others, key=lambda other: abs(other - own)):

        def taken(given: List[Optional[Value]], k: int = k) -> List[Optional[Value]]:
            return [given[0], Value(np.array(k, np.int64))]

        yield Variant("k", text_of(k), text_of(own), node, taken)


declare(
    "Tile",
    Reading("the order of its copies", "each element in a row", _repeated_each),
    whole_input(1, "repeats", lambda node, inputs: [whole(inputs, 1)[::-1]]),
)
declare(
    "Trilu",
    attribute("upper", (0, 1), 1),
    Reading("k", "each that is next to the model's, to 64 places off", _other_diagonals),
)


_MOST_STARTS = 128
"""Starts next to the model's (half on each side) of which each is tried. Chosen; no trial."""


def _sliced_otherwise(node: Node, inputs: Inputs) -> Iterator[Any]:
    """Yield slices of the same sizes from other places on, by other steps, of other axes."""
    x = input_at(inputs, 0).array
    axes, *bounds = _bounds(node, inputs)
    steps = dict(zip((axis % x.ndim for axis in axes), bounds[2]))
    ranges = {
        axis % x.ndim: _sliced(
            Value(np.arange(x.shape[axis])), [0], *([one] for one in bound)
        ).array.tolist()
        for axis, *bound in zip(axes, *bounds)
    }

    def taken(places: Mapping[int, Sequence[int]]) -> Callable[..., List[Value]]:
        def cut(array: Array) -> Array:
            for axis, indices in places.items():
                array = np.take(array, indices, axis)
            return array

        return lambda given, arithmetic: [moved(cut, given[0])]

    for axis, own in ranges.items():
        length, size, of_axis = len(own), x.shape[axis], "start %d and step %d of axis %d"
        begins = [*own[:1], *(one + by for one in own[:1] for by in (1, -1)), 0, size - length]
        first = own[0] if own else 0
        near = range(max(0, first - _MOST_STARTS // 2), min(size, first + _MOST_STARTS // 2))
        ways = chain(
            product([*begins, size - 1, *own[-1:]], (steps[axis], 1, -steps[axis], -1, 2)),
            ((begin, steps[axis]) for begin in near),
        )
        for begin, step in dict.fromkeys(ways):
            indices = [begin + step * n for n in range(length)]
            if indices != own and length and min(indices) >= 0 and max(indices) < size:
                yield (
                    of_axis % (begin, step, axis),
                    of_axis % (own[0], steps[axis], axis),
                    taken({**ranges, axis: indices}),
                )
    for one, other in combinations(ranges, 2):
        lengths = len(ranges[one]), len(ranges[other])
        begins = [
            range(x.shape[axis] - steps[axis] * (length - 1)) if steps[axis] > 0 else ()
            for axis, length in zip((one, other), lengths)
        ]
        if min(lengths) and len(begins[0]) * len(begins[1]) <= _MOST_PLACES:
            own_two = ranges[one][0], ranges[other][0]
            of_two = "start %%d of axis %d and start %%d of axis %d" % (one, other)
            for two in product(*begins):
                moved_to = {
                    axis: [n + first - ranges[axis][0] for n in ranges[axis]]
                    for axis, first in zip((one, other), two)
                }
                if two[0] != own_two[0] and two[1] != own_two[1]:
                    yield of_two % two, of_two % own_two, taken({**ranges, **moved_to})
    if len(ranges) > 1:
        (first, one), (second, other) = list(ranges.items())[:2]
        words = "its axes in the order [%d, %d]"
        yield (
            words % (second, first),
            words % (first, second),
            taken({**ranges, first: other, second: one}),
        )


declare(
    "Slice",
    computed_instead(
        "its places",
        "other starts (the 128 next to the model's, of two axes too), steps of other size or sign, "
        "axes exchanged",
        _sliced_otherwise,
    ),
)

declare("Concat", attribute("axis", each_axis, 1), input_order(), dialect=CAFFE)
declare("ConcatV2 Pack", input_order(), dialect=TENSORFLOW)
declare("MirrorPad", attribute("mode", ("REFLECT", "SYMMETRIC")), dialect=TENSORFLOW)
declare("Slice", output_order(), dialect=CAFFE)
declare("Split SplitV Unpack", output_order(), dialect=TENSORFLOW)
