"""Operators that order values along an axis: which is largest, which come first.

Ties may be broken in any order: what a device decided is looked at by the values that it chose, as
in :mod:`.comparing_and_rounding`, which also names the sources.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .comparing_and_rounding import is_nan, reach, wrong_where_reshaped
from .error_propagation import moved
from .registry import ASCEND, ONNX, CannotCompute, Inputs, Node, axis_of, input_at, operator, whole
from .splittable_axes import Along, Parts, Shape, Values, Window
from .value_with_error import Arithmetic, Value
from .variants import (
    Function,
    attribute,
    computed_instead,
    declare,
    each_axis,
    other_function,
)

Array = Any


def _arg(node: Node, inputs: Inputs) -> Tuple[Value, Array, int]:
    """Return the values, the same with 1 or -1 as their sign, and the axis."""
    x = input_at(inputs, 0)
    if node.dialect == ONNX:
        axis = int(node.get("axis", 0))
    elif node.type.endswith("WithValue") or node.type.endswith("D"):
        axis = int(node.get("dimension"))
    else:
        axis = (
            int(node.get("dimension"))
            if "dimension" in node.attributes and len(inputs) < 2
            else whole(inputs, 1)[0]
        )
    signed = np.asarray(x.array, np.float64 if x.array.dtype.kind == "f" else np.int64)
    return x, -signed if "Min" in node.type else signed, axis_of(axis, x.array.ndim)


def _keeps_dims(node: Node) -> bool:
    return (
        bool(node.get("keepdims", 1))
        if node.dialect == ONNX
        else bool(node.get("keep_dims", False))
    )


def _check_arg(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    x, signed, axis = _arg(node, inputs)
    shape = tuple(1 if number == axis else size for number, size in enumerate(x.array.shape))
    found_wrong = [
        wrong_where_reshaped(
            outputs[0],
            lambda actual: outside_order(x, signed, actual, axis, True),
            shape,
        )
    ]
    if len(outputs) > 1:
        indices = (
            None
            if outputs[0] is None or np.size(outputs[0]) != int(np.prod(shape))
            else np.reshape(outputs[0], shape)
        )
        found_wrong.append(
            wrong_where_reshaped(
                outputs[1],
                lambda actual: _other_values(x, signed, actual, indices, axis),
                shape,
            )
        )
    return found_wrong


def outside_order(x: Value, signed: Array, actual: Array, axis: int, ordered: bool) -> Array:
    """Return a mask of the indices that cannot be those of the largest values along an axis, in
    order.

    The p-th largest of values that may be off by r lies between the p-th largest of x - r and of x
    + r. An index may stand once. Rows that hold NaN are not judged.

    Parameters
    ----------
    signed
        The values, negative where the smallest are wanted.
    actual
        Indices, of the values' shape but along the axis.
    ordered
        Each index stands at its own place; else only as a set.
    """
    size, count = signed.shape[axis], actual.shape[axis]
    tolerance = np.broadcast_to(reach(x), signed.shape)
    at = np.clip(np.nan_to_num(np.asarray(actual, np.float64), nan=-1.0), -1, size).astype(np.int64)
    inside = (at >= 0) & (at < size) & (at == actual)
    at = np.clip(at, 0, size - 1)
    got, room = np.take_along_axis(signed, at, axis), np.take_along_axis(tolerance, at, axis)
    lowest, highest = (
        _largest(bound, count, axis) for bound in (signed - tolerance, signed + tolerance)
    )
    high, low = got + room, got - room
    if not ordered:
        order = np.argsort(-got, axis, kind="stable")
        high = np.take_along_axis(high, order, axis)
        back = np.argsort(order, axis, kind="stable")
        fits = np.take_along_axis(high >= lowest, back, axis)
    else:
        fits = (high >= lowest) & (low <= highest)
    wrong = ~inside | ~fits | repeated(at, axis)
    return wrong & ~np.any(is_nan(signed), axis=axis, keepdims=True)


def _largest(values: Array, count: int, axis: int) -> Array:
    """Return the largest values along an axis in falling order."""
    return np.flip(
        np.take(np.sort(values, axis), range(values.shape[axis] - count, values.shape[axis]), axis),
        axis,
    )


def repeated(indices: Array, axis: int) -> Array:
    """Return a mask of the indices that occur earlier along an axis."""
    order = np.argsort(indices, axis, kind="stable")
    ordered = np.take_along_axis(indices, order, axis)
    again = np.zeros(indices.shape, bool)
    rest = [slice(None)] * indices.ndim
    rest[axis] = slice(1, None)
    again[tuple(rest)] = np.diff(ordered, axis=axis) == 0
    flags = np.empty_like(again)
    np.put_along_axis(flags, order, again, axis)
    return flags


def _other_values(
    x: Value, signed: Array, actual: Array, indices: Optional[Array], axis: int
) -> Array:
    """Return a mask of the values that are not those at their indices; without indices, which
    cannot be the largest of the signed ones.
    """
    tolerance = np.broadcast_to(reach(x), x.array.shape)
    spoilt = np.any(is_nan(signed), axis=axis, keepdims=True)
    if indices is None:
        sign = 1 if np.all((signed == x.array) | is_nan(signed)) else -1
        made_signed = actual * sign
        lowest, highest = (
            _largest(bound, actual.shape[axis], axis)
            for bound in (signed - tolerance, signed + tolerance)
        )
        return ~((made_signed >= lowest) & (made_signed <= highest)) & ~spoilt
    at = np.clip(np.nan_to_num(np.asarray(indices, np.float64)), 0, x.array.shape[axis] - 1).astype(
        np.int64
    )
    right = np.take_along_axis(x.array, at, axis)
    return (
        ~(np.abs(actual - right) <= np.take_along_axis(tolerance, at, axis))
        & (actual != right)
        & ~spoilt
    )


def _beside_axis(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Parts of ONNX's and TensorFlow's ArgMax with a constant axis: along all others."""
    x = shapes[0] if shapes else None
    if node.dialect == ONNX:
        axis_value = node.get("axis", 0)
    else:
        axis_value = values[1] if len(values) > 1 else None
    if x is None or axis_value is None:
        return None
    reduced_axis = axis_of(int(np.asarray(axis_value).reshape(-1)[0]), len(x))
    output_axes = [axis for axis in range(len(x)) if _keeps_dims(node) or axis != reduced_axis]
    axes: Dict[int, Along] = {
        place: (Window(axis), *(None,) * (len(shapes) - 1))
        for place, axis in enumerate(output_axes)
        if axis != reduced_axis
    }
    return Parts(tuple(1 if axis == reduced_axis else x[axis] for axis in output_axes), axes)


_ARG_ASCEND = tuple(
    "Arg%s%s" % (which, form) for which in ("Max", "Min") for form in ("", "V2", "D", "WithValue")
)


@operator(
    onnx=("ArgMax", "ArgMin"), tensorflow=("ArgMax", "ArgMin"),
    ascend=tuple(kind for kind in _ARG_ASCEND if kind != "ArgMinV2"),
    decides=True, check=_check_arg, parts=_beside_axis,
)  # fmt: skip
def arg(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the index of the largest or smallest value along an axis, of equal ones the first (or
    last, where ONNX asks for it).
    """
    x, signed, axis = _arg(node, inputs)
    size = signed.shape[axis]
    last = node.dialect == ONNX and bool(node.get("select_last_index", 0))
    index = size - 1 - np.argmax(np.flip(signed, axis), axis) if last else np.argmax(signed, axis)
    index = np.expand_dims(index, axis)
    values = [Value(index)]
    if node.type.endswith("WithValue"):
        error = (
            None
            if x.error is None
            else np.take_along_axis(np.broadcast_to(x.error, x.array.shape), index, axis)
        )
        values.append(Value(np.take_along_axis(x.array, index, axis), error))
    return values if _keeps_dims(node) else [_without_axis(value, axis) for value in values]


def _without_axis(value: Value, axis: int) -> Value:
    return Value(
        np.squeeze(value.array, axis),
        None if value.error is None else np.squeeze(value.error, axis),
    )


# The first ones in an order


def _order(node: Node, inputs: Inputs) -> Tuple[Value, Array, int, int, bool]:
    """Return the values, the same with 1 or -1 as their sign, the axis, how many are taken along
    it, and whether they are in order.
    """
    x = input_at(inputs, 0)
    axis, largest, ordered = -1, True, bool(node.get("sorted", True))
    if node.dialect == ONNX:
        axis, largest = int(node.get("axis", -1)), bool(node.get("largest", 1))
    elif node.type == "Sort":
        axis, largest, ordered = (
            int(node.get("axis", -1)),
            bool(node.get("descending", False)),
            True,
        )
    elif node.dialect == ASCEND:
        axis, largest = int(node.get("dim", -1)), bool(node.get("largest", True))
    axis = axis_of(axis, x.array.ndim)
    if node.type == "Sort":
        count = x.array.shape[axis]
    elif "k" in node.attributes:
        count = int(node.get("k"))
    else:
        count = whole(inputs, 1)[0]
    if not 0 <= count <= x.array.shape[axis]:
        raise CannotCompute("it takes %d of %d" % (count, x.array.shape[axis]))
    signed = np.asarray(x.array, np.float64 if x.array.dtype.kind == "f" else np.int64)
    return x, signed if largest else -signed, axis, count, ordered


def _check_order(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    x, signed, axis, count, ordered = _order(node, inputs)
    shape = tuple(count if number == axis else size for number, size in enumerate(x.array.shape))
    values, indices = outputs[0], outputs[1] if len(outputs) > 1 else None
    at = (
        None
        if indices is None or np.size(indices) != int(np.prod(shape))
        else np.reshape(indices, shape)
    )
    # Without the indices, values that are in no order are looked at in theirs.
    if at is None and not ordered:
        raise CannotCompute("values without an order cannot be looked at without their indices")
    found_wrong = [
        wrong_where_reshaped(
            values,
            lambda actual: _other_values(x, signed, actual, at, axis),
            shape,
        )
    ]
    if len(outputs) > 1:
        found_wrong.append(
            wrong_where_reshaped(
                indices,
                lambda actual: outside_order(x, signed, actual, axis, ordered),
                shape,
            )
        )
    return found_wrong


@operator(
    onnx=("TopK",), tensorflow=("TopK", "TopKV2"),
    ascend=("TopK", "TopKV2", "TopKD", "TopKV2D", "Sort"), decides=True, check=_check_order,
)  # fmt: skip
def top_k(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the largest or smallest values along an axis in order, and their indices; of equal
    ones the first comes first.
    """
    x, signed, axis, count, _ = _order(node, inputs)
    size = signed.shape[axis]
    order = np.flip(size - 1 - np.argsort(np.flip(signed, axis), axis, kind="stable"), axis)
    index = np.take(order, range(count), axis)
    error = (
        None
        if x.error is None
        else np.take_along_axis(np.broadcast_to(x.error, x.array.shape), index, axis)
    )
    return [Value(np.take_along_axis(x.array, index, axis), error), Value(index)]


# Caffe's ArgMax


def _caffe_rows(node: Node, inputs: Inputs) -> Tuple[Value, int, int]:
    """Return the values, the axis along which is chosen, and how many; without an axis all but the
    first are taken together.
    """
    x, count = input_at(inputs, 0), int(node.get("top_k", 1))
    if "axis" in node.attributes:
        return x, axis_of(int(node.get("axis")), x.array.ndim), count
    rows = x.array.reshape((x.array.shape[0], -1))
    return (
        Value(
            rows,
            None
            if x.error is None
            else np.broadcast_to(x.error, x.array.shape).reshape(rows.shape),
        ),
        1,
        count,
    )


def _check_caffe_arg(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    x, axis, count = _caffe_rows(node, inputs)
    signed = np.asarray(x.array, np.float64)
    with_values, named = bool(node.get("out_max_val", False)), "axis" in node.attributes
    shape = tuple(count if number == axis else size for number, size in enumerate(x.array.shape))

    def both(actual: Array) -> Array:
        indices, values = actual[:, 0], actual[:, 1]
        return np.stack(
            [
                outside_order(x, signed, indices, 1, True),
                _other_values(x, signed, values, indices, 1),
            ],
            1,
        )

    if with_values and not named:
        return [wrong_where_reshaped(outputs[0], both, (shape[0], 2, count))]
    if with_values:
        return [
            wrong_where_reshaped(
                outputs[0], lambda actual: _other_values(x, signed, actual, None, axis), shape
            )
        ]
    return [
        wrong_where_reshaped(
            outputs[0], lambda actual: outside_order(x, signed, actual, axis, True), shape
        )
    ]


@operator(caffe=("ArgMax",), decides=True, check=_check_caffe_arg)
def arg_max_layer(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the indices of the ``top_k`` largest values as floats, with ``out_max_val`` their
    values too, or (along an axis) instead.
    """
    x, axis, count = _caffe_rows(node, inputs)
    order = np.argsort(-np.asarray(x.array, np.float64), axis, kind="stable")
    index = np.take(order, range(count), axis)
    values = np.take_along_axis(x.array, index, axis)
    with_values = bool(node.get("out_max_val", False))
    if "axis" in node.attributes:
        return [Value(values if with_values else index.astype(np.float32))]
    parts = (
        np.stack([index.astype(np.float32), values], 1)
        if with_values
        else index.astype(np.float32)[:, None]
    )
    return [Value(parts.reshape((*parts.shape, *(1,) * (input_at(inputs, 0).array.ndim - 3))))]


def _hardmax_rows(node: Node, inputs: Inputs) -> Tuple[Value, int]:
    """Return the values and the axis: before opset 13 all from the axis on are one."""
    x = input_at(inputs, 0)
    if node.version >= 13:
        return x, axis_of(int(node.get("axis", -1)), x.array.ndim)
    first = axis_of(int(node.get("axis", 1)), x.array.ndim)
    rows = x.array.reshape((int(np.prod(x.array.shape[:first])), -1))
    return Value(
        rows,
        None if x.error is None else np.broadcast_to(x.error, x.array.shape).reshape(rows.shape),
    ), 1


def _check_hardmax(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    x, axis = _hardmax_rows(node, inputs)

    def wrong(actual: Array) -> Array:
        has_single_one = np.sum(actual == 1, axis, keepdims=True) == 1
        chosen = np.expand_dims(np.argmax(actual, axis), axis)
        misplaced = outside_order(x, np.asarray(x.array, np.float64), chosen, axis, True)
        return (misplaced | ~has_single_one) | ~np.isin(actual, (0, 1))

    return [wrong_where_reshaped(outputs[0], wrong, x.array.shape)]


@operator(onnx=("Hardmax",), decides=True, check=_check_hardmax)
def hardmax(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put 1 at the first of the largest values, 0 elsewhere."""
    x, axis = _hardmax_rows(node, inputs)
    ones = np.zeros_like(x.array)
    np.put_along_axis(ones, np.expand_dims(np.argmax(x.array, axis), axis), 1, axis)
    return [Value(ones.reshape(input_at(inputs, 0).array.shape))]


@operator(onnx=("Unique",), decides=True, counts=True)
def unique(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the different values (along ``axis`` the different slices), sorted or as they come
    first, where each is first, which of them each value is, and how often each is there.
    """
    x = input_at(inputs, 0)
    if x.error is not None or (x.is_float and np.isnan(x.array).any()):
        raise CannotCompute("which of its values are equal is not known")
    axis = node.get("axis", None)
    if axis is not None:
        axis = axis_of(int(axis), x.array.ndim)
    values, first, which, counts = np.unique(
        x.array, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    which = which.reshape(-1)
    if not int(node.get("sorted", 1)):
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, which = first[order], counts[order], np.argsort(order)[which]
    return [Value(values), *(Value(entry.astype(np.int64)) for entry in (first, which, counts))]


declare("Unique", attribute("sorted", (0, 1), 1))
declare(
    "ArgMax ArgMin",
    attribute("select_last_index", (0, 1), 0),
    attribute("axis", each_axis, 0),
    other_function(Function("ArgMax"), Function("ArgMin"), keeps=True),
)


def _in_no_order(node: Node, inputs: Inputs) -> Iterator[Any]:
    """Yield what a TopK that does not sort may leave: places as they are in the input, or the last
    first.
    """
    if not int(node.get("sorted", 1)):
        return
    axis = int(node.get("axis", -1))
    orders: Sequence[Tuple[str, Callable[[Array], Array]]] = (
        ("0 (in the order of its input)", lambda index: np.argsort(index, axis)),
        ("0 (the last first)", lambda index: np.flip(np.indices(index.shape)[axis], axis)),
    )
    for words, order_of in orders:

        def made(
            given: Inputs, arithmetic: Arithmetic, order_of: Callable[[Array], Array] = order_of
        ) -> List[Value]:
            values, index = top_k(node, given, arithmetic)
            order = order_of(index.array)
            return [
                moved(lambda array: np.take_along_axis(array, order, axis), one)
                for one in (values, index)
            ]

        yield words, "1", made


declare(
    "TopK",
    attribute("largest", (0, 1), 1),
    computed_instead("sorted", "0: in the order of its input, the last first", _in_no_order),
    attribute("axis", each_axis, -1),
)
declare("Hardmax", attribute("axis", each_axis, -1))
