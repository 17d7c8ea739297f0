"""Operators that take or place values by indices: Gather, Scatter, OneHot …

Sources: the ONNX operator list of each opset; caffe.proto of BVLC and of the SSD branch; TensorFlow
1.15's op definitions; the operator prototypes of Ascend IR.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Tuple

import numpy as np

from .error_propagation import moved
from .registry import (
    ONNX,
    CannotCompute,
    Inputs,
    Node,
    axis_of,
    has_input,
    input_at,
    operator,
    scalar,
    whole,
)
from .value_with_error import Arithmetic, Value
from .variants import (
    Reading,
    Variant,
    attribute,
    changed_input,
    declare,
    each_axis,
    replaced,
)

Array = Any


def _gathered(x: Value, indices: Array, axis: int, batch: int = 0) -> Value:
    axis = axis_of(axis, x.array.ndim)
    if not batch:
        return moved(lambda array: np.take(array, indices, axis), x)

    def function(array: Array) -> Array:
        lead = array.shape[:batch]
        if indices.shape[:batch] != lead:
            raise CannotCompute(
                "its indices %s and values %s have other batches" % (indices.shape, array.shape)
            )
        flat, chosen = (
            array.reshape((-1, *array.shape[batch:])),
            indices.reshape((-1, *indices.shape[batch:])),
        )
        rows = np.stack([np.take(row, which, axis - batch) for row, which in zip(flat, chosen)])
        return rows.reshape((*lead, *rows.shape[1:]))

    return moved(function, x)


def _indices(inputs: Inputs, number: int) -> Array:
    array = input_at(inputs, number).array
    if array.dtype.kind not in "iu":
        if not np.array_equal(array, np.rint(array)):
            raise CannotCompute("its indices are no whole numbers")
        array = array.astype(np.int64)
    return array


@operator(
    onnx=("Gather",),
    tensorflow=("Gather", "GatherV2"),
    ascend=("Gather", "GatherV2", "GatherV2D"),
    moves=True,
)
def gather(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take slices along an axis (the first one in Gather of TensorFlow and Ascend IR, an input in
    GatherV2).
    """
    if node.type == "GatherV2":
        axis = scalar(inputs, 2)
    elif node.type == "GatherV2D":
        # Ascend IR has a list of one.
        (axis,) = np.atleast_1d(node.get("axis")).astype(int).tolist()
    else:
        axis = int(node.get("axis", 0) if node.dialect == ONNX else node.get("batch_dims", 0))
    return [
        _gathered(input_at(inputs, 0), _indices(inputs, 1), axis, int(node.get("batch_dims", 0)))
    ]


@operator(onnx=("GatherElements",), ascend=("GatherElements", "GatherD"), moves=True)
def gather_elements(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take for each element of the indices the value at this index along an axis."""
    if node.type == "GatherD" and len(inputs) > 2:
        axis, where = scalar(inputs, 1), 2
    else:
        axis, where = int(node.get("axis", 0) if node.dialect == ONNX else node.get("dim")), 1
    indices, x = _indices(inputs, where), input_at(inputs, 0)
    axis = axis_of(axis, x.array.ndim)
    indices = np.where(indices < 0, indices + x.array.shape[axis], indices)
    common = tuple(
        slice(None) if number == axis else slice(size) for number, size in enumerate(indices.shape)
    )
    return [moved(lambda array: np.take_along_axis(array[common], indices, axis), x)]


@operator(onnx=("GatherND",), tensorflow=("GatherNd",), ascend=("GatherNd",), moves=True)
def gather_nd(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the slices at indices of several axes, which the last axis of the indices holds."""
    indices, batch = _indices(inputs, 1), int(node.get("batch_dims", 0))

    def function(array: Array) -> Array:
        if not batch:
            return array[tuple(np.moveaxis(indices, -1, 0))]
        lead = array.shape[:batch]
        flat, chosen = (
            array.reshape((-1, *array.shape[batch:])),
            indices.reshape((-1, *indices.shape[batch:])),
        )
        rows = np.stack([row[tuple(np.moveaxis(which, -1, 0))] for row, which in zip(flat, chosen)])
        return rows.reshape((*lead, *rows.shape[1:]))

    return [moved(function, input_at(inputs, 0))]


_REDUCTIONS = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _scattered(x: Value, index: Tuple[Array, ...], updates: Value, reduction: str) -> Value:
    """Put updates at places, or add them, multiply by them, take the larger or smaller."""
    if reduction not in _REDUCTIONS:
        raise CannotCompute("its reduction %s is not known" % reduction)
    how = _REDUCTIONS[reduction]
    array = x.array.astype(np.float64 if how is not None and x.is_float else x.array.dtype)
    error: Optional[Array] = None
    if x.error is not None or updates.error is not None:
        if reduction == "mul":
            raise CannotCompute("errors of its inputs through the reduction mul are not known")
        error = np.square(
            np.broadcast_to(0.0 if x.error is None else x.error, x.array.shape)
        ).copy()
        moves = np.square(
            np.broadcast_to(0.0 if updates.error is None else updates.error, updates.array.shape)
        )
        if how is None:
            error[index] = moves
        else:
            # The largest, or least, moves at most as far as all of them do.
            np.add.at(error, index, moves)
        error = np.sqrt(error)
    if how is None:
        array[index] = updates.array
    else:
        how.at(array, index, updates.array)
    return Value(array, error)


@operator(onnx=("ScatterElements", "Scatter"), ascend=("ScatterElements",))
def scatter_elements(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put each update at its index along an axis."""
    x, indices, updates = input_at(inputs, 0), _indices(inputs, 1), input_at(inputs, 2)
    axis = axis_of(int(node.get("axis", 0)), x.array.ndim)
    index = list(np.indices(indices.shape))
    index[axis] = np.where(indices < 0, indices + x.array.shape[axis], indices)
    return [_scattered(x, tuple(index), updates, str(node.get("reduction", "none")))]


@operator(
    onnx=("ScatterND",), tensorflow=("TensorScatterUpdate", "ScatterNdUpdate"),
    ascend=("TensorScatterUpdate", "ScatterNdUpdate"),
)  # fmt: skip
def scatter_nd(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put each slice of the updates at its index, which the last axis of the indices holds."""
    index = tuple(np.moveaxis(_indices(inputs, 1), -1, 0))
    return [
        _scattered(
            input_at(inputs, 0), index, input_at(inputs, 2), str(node.get("reduction", "none"))
        )
    ]


@operator(tensorflow=("ScatterNd",), ascend=("ScatterNd",))
def scatter_nd_to_zeros(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add each slice of the updates to zeros at its index."""
    updates = input_at(inputs, 1)
    zeros = Value(np.zeros(whole(inputs, 2), updates.array.dtype))
    return [_scattered(zeros, tuple(np.moveaxis(_indices(inputs, 0), -1, 0)), updates, "add")]


@operator(tensorflow=("ScatterUpdate",), ascend=("ScatterUpdate",))
def scatter_update(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put slices of the updates at indices of the first axis."""
    return [_scattered(input_at(inputs, 0), (_indices(inputs, 1),), input_at(inputs, 2), "none")]


@operator(onnx=("OneHot",), tensorflow=("OneHot",), ascend=("OneHot", "OneHotD"))
def one_hot(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put one value at an index along a new axis, another elsewhere; ONNX's negative indices count
    from behind.
    """
    indices, axis = _indices(inputs, 0), int(node.get("axis", -1))
    if node.dialect == ONNX:
        depth, values = scalar(inputs, 1), input_at(inputs, 2)
        off, on = values.array.ravel()
        indices = np.where(indices < 0, indices + depth, indices)
    elif node.type == "OneHotD":
        depth = int(node.get("depth"))
        on, off = (input_at(inputs, 1).array.reshape(()), input_at(inputs, 2).array.reshape(()))
    else:
        depth = scalar(inputs, 1)
        on, off = (input_at(inputs, 2).array.reshape(()), input_at(inputs, 3).array.reshape(()))
    axis = axis_of(axis, indices.ndim + 1)
    classes = np.arange(depth).reshape((depth,) + (1,) * (indices.ndim - axis))
    return [Value(np.where(np.expand_dims(indices, axis) == classes, on, off))]


_REDUCTION = attribute("reduction", ("none", "add", "mul", "max", "min"), "none")
_INDICES = changed_input(
    1,
    "its indices",
    [
        ("one more", lambda array: array + 1),
        ("0 for what is negative", lambda array: np.maximum(array, 0)),
        ("one less", lambda array: np.where(array == 0, 0, array - 1).astype(array.dtype)),
        ("reversed", lambda array: array.reshape(-1)[::-1].reshape(array.shape)),
        ("all 0", lambda array: np.zeros_like(array) if np.any(array > 0) else None),
    ],
)


@operator(onnx=("TensorScatter",), moves=True)
def tensor_scatter(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Write an update into a cache from a place of each sample on (cache, update, places); in
    ``circular`` mode beyond the end from the beginning.
    """
    cache, update = input_at(inputs, 0), input_at(inputs, 1)
    axis = axis_of(int(node.get("axis", -2)), cache.array.ndim)
    length, size = update.array.shape[axis], cache.array.shape[axis]
    starts = _indices(inputs, 2) if has_input(inputs, 2) else np.zeros(len(cache.array), np.int64)
    places = starts.reshape(-1, 1) + np.arange(length)
    if str(node.get("mode", "linear")) == "circular":
        places = places % size
    if np.any(places < 0) or np.any(places >= size):
        raise CannotCompute("it writes beyond the cache")

    def written(old: Array, new: Array) -> Array:
        made = np.array(np.broadcast_to(old, cache.array.shape))
        for sample, where in enumerate(places):
            along = np.moveaxis(made[sample], axis - 1, 0)
            along[where] = np.moveaxis(
                np.broadcast_to(new, update.array.shape)[sample], axis - 1, 0
            )
        return made

    array = written(cache.array, update.array)
    if cache.error is None and update.error is None:
        return [Value(array)]
    errors = [np.zeros(()) if value.error is None else value.error for value in (cache, update)]
    return [Value(array, written(*errors))]


@operator(onnx=("CenterCropPad",), moves=True)
def center_crop_pad(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Cut out the middle, or pad with zeros around it; where a half is left, one more behind."""
    x, sizes = input_at(inputs, 0), whole(inputs, 1)
    axes = [axis_of(int(axis), x.array.ndim) for axis in node.get("axes", range(x.array.ndim))]

    def placed(array: Array) -> Array:
        for axis, size in zip(axes, sizes):
            more = size - array.shape[axis]
            if more > 0:
                ends = [(0, 0)] * array.ndim
                ends[axis] = (more // 2, more - more // 2)
                array = np.pad(array, ends)
            else:
                array = np.take(array, np.arange(size) + (-more) // 2, axis)
        return array

    return [moved(placed, x)]


_MOST_PADDING = 8
"""Indices of which each may be that of padding; chosen by time, no trial."""


def _padding(node: Node, inputs: Inputs) -> Iterator[Variant]:
    table = input_at(inputs, 0).array
    axis = axis_of(int(node.get("axis", 0)), table.ndim)
    indices = _indices(inputs, 1)
    used, counts = np.unique(indices, return_counts=True)
    # The first and the last one, then the commonest.
    order = sorted(
        range(used.size), key=lambda at: (used[at] not in (0, table.shape[axis] - 1), -counts[at])
    )
    for index in used[order[:_MOST_PADDING]].tolist():

        def without(array: Array, index: int = index) -> Array:
            array = np.array(array)
            np.moveaxis(array, axis, 0)[index] = 0
            return array

        yield Variant("its padding index", str(index), "none", node, replaced(0, without))


declare("Gather GatherElements", attribute("axis", each_axis, 0), _INDICES)
declare("Gather", Reading("its padding index", "each of those that are commonest", _padding))
declare(
    "GatherND",
    attribute("batch_dims", (0, 1, 2), 0),
    changed_input(
        0,
        "its table",
        [("its first index of axis 0 for all", lambda x: np.repeat(x[:1], len(x), 0))],
    ),
    changed_input(
        1, "its indices", [("with their last axis reversed", lambda array: array[..., ::-1])]
    ),
)
declare("ScatterND", _REDUCTION)
declare("ScatterElements", attribute("axis", each_axis, 0), _REDUCTION)


def _axes_of_one_hot(node: Node, inputs: Inputs) -> List[int]:
    """each other axis"""
    return list(range(0 if inputs[0] is None else inputs[0].array.ndim + 1))


declare(
    "OneHot",
    attribute("axis", _axes_of_one_hot, -1),
    changed_input(2, "its values", [("exchanged", lambda array: array[::-1])]),
)
declare("TensorScatter", attribute("mode", ("linear", "circular"), "linear"))
