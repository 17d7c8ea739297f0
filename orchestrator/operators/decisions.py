"""Operators that decide: which is largest, which comes first, which value is larger, which whole
number is next.

A decision may go either way where the values are equal, or where they differ by no more than the
error that their inputs may have (:class:`~.value.Value`). What a device decided is looked at by the
values that it chose, so that it may break ties in any order. Sources: the ONNX operator list of
each opset; caffe.proto and the layers of BVLC Caffe; TensorFlow 1.15's op definitions; the operator
prototypes of Ascend IR.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .computing_in_parts import Along, Parts, Shape, Values, Window, broadcast
from .elementwise import broadcast_of
from .registry import ASCEND, ONNX, CannotCompute, Inputs, Node, axis_of, input_at, operator, whole
from .value import Arithmetic, Value

Array = Any

_CHANCE = 1e-6

# Nodes (in standard deviations) and weights of the Gauss-Hermite quadrature of five points, for a
# mean over normally distributed errors.
_QUADRATURE = (
    (1.3556261799742657, 0.22207592200561266),
    (2.8569700138728056, 0.011257411327720688),
)


def reach(value: Value) -> Array:
    """Return how far each element may be off, at most: 0 where a value is exact.

    The largest of n normally distributed errors is beyond √(2·ln(n/p)) standard deviations with a
    chance of p = 10⁻⁶.
    """
    if value.error is None:
        return np.zeros(())
    return value.error * math.sqrt(2.0 * math.log(max(1, value.array.size) / _CHANCE))


def spread(function: Callable[[Array], Array], value: Value, result: Array) -> Optional[Array]:
    """Return the standard deviation that a value's error leaves in a step function of it; None
    where the value is exact.

    The mean of the squared changes over a normal distribution, by Gauss-Hermite quadrature.
    """
    if value.error is None:
        return None
    total = np.zeros(np.shape(result))
    right = np.asarray(result, np.float64)
    for node, weight in _QUADRATURE:
        for sign in (1.0, -1.0):
            moved = np.asarray(function(value.array + sign * node * value.error), np.float64)
            total = total + weight * np.square(np.nan_to_num(moved - right, nan=0.0))
    return np.sqrt(total)


def stepped(function: Callable[[Array], Array], value: Value) -> Value:
    """Apply a step function to each element; see :func:`spread` for its error."""
    wide = value if not value.is_float else Value(np.asarray(value.array, np.float64), value.error)
    result = np.asarray(function(wide.array))
    return Value(result, spread(function, wide, result))


def outside_steps(
    function: Callable[[Array], Array],
    value: Value,
    actual: Array,
    room: Array = 0.0,
    slack: Array = 0.0,
) -> Array:
    """Return a mask of the elements that a monotonic step function cannot make of a value
    and its error.

    Parameters
    ----------
    room
        How far a value may be off besides, at most: roundings inside of the operator.
    slack
        How far a result may be off: of results that are no whole numbers.
    """
    wide = np.asarray(value.array, np.float64) if value.is_float else value.array
    tolerance = reach(value) + room
    right = function(wide)
    sides = [
        np.asarray(bound, np.float64)
        for bound in (function(wide - tolerance), function(wide + tolerance))
    ]
    actual = np.asarray(actual)
    agrees = (
        (actual == right)
        | ((actual >= np.minimum(*sides) - slack) & (actual <= np.maximum(*sides) + slack))
        | (_is_nan(actual) & _is_nan(right))
    )
    return ~agrees


def _is_nan(array: Array) -> Array:
    array = np.asarray(array)
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


# The next whole number


def _check_steps(function: Callable[[Array], Array]) -> Any:
    def check(
        node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
    ) -> List[Optional[Array]]:
        return [
            wrong_where_reshaped(
                outputs[0],
                lambda actual: outside_steps(function, input_at(inputs, 0), actual),
                input_at(inputs, 0).array.shape,
            )
        ]

    return check


def wrong_where_reshaped(
    actual: Optional[Array], wrong: Callable[[Array], Array], shape: Tuple[int, ...]
) -> Optional[Array]:
    """Judge an output in the shape that is expected, where it has as many elements; else every
    element of it is wrong.
    """
    if actual is None:
        return None
    actual = np.asarray(actual)
    if actual.size != int(np.prod(shape)):
        return np.ones(actual.shape, bool)
    return np.asarray(wrong(actual.reshape(shape))).reshape(actual.shape)


def _step(name: str, function: Callable[[Array], Array], **spellings: Sequence[str]) -> None:
    """Register a step function that never falls."""

    def compute(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
        if node.get("decimals", 0):
            raise CannotCompute("how it rounds to %s decimals is not known" % node.get("decimals"))
        return [stepped(function, input_at(inputs, 0))]

    compute.__name__ = name
    check = _check_steps(function)
    operator(
        onnx=spellings.get("onnx", ()),
        tensorflow=spellings.get("tensorflow", ()),
        ascend=spellings.get("ascend", ()),
        decides=True,
        parts=broadcast,
        check=check,
    )(compute)


_ROUND = ("Round", "Rint")
_step("round_to_even", np.rint, onnx=("Round",), tensorflow=_ROUND, ascend=_ROUND)
_step("floor", np.floor, onnx=("Floor",), tensorflow=("Floor",), ascend=("Floor",))
_step("ceil", np.ceil, onnx=("Ceil",), tensorflow=("Ceil",), ascend=("Ceil",))
_step("trunc", np.trunc, ascend=("Trunc",))
_step("sign", np.sign, onnx=("Sign",), tensorflow=("Sign",), ascend=("Sign",))


# Which value is larger

_COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "Greater": np.greater, "GreaterEqual": np.greater_equal, "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal, "LessOrEqual": np.less_equal, "Equal": np.equal,
    "NotEqual": np.not_equal,
}  # fmt: skip
_OF_ALL = ("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual")


def _compared(node: Node, inputs: Inputs) -> Tuple[Value, Value, Array]:
    first, second = broadcast_of(node, [input_at(inputs, 0), input_at(inputs, 1)])
    return first, second, _COMPARISONS[node.type](first.array, second.array)


def _check_comparison(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    first, second, right = _compared(node, inputs)
    near = _order_in_doubt(first, second)
    return [
        wrong_where_reshaped(
            outputs[0], lambda actual: ((actual != 0) != right) & ~near, right.shape
        )
    ]


def _order_in_doubt(first: Value, second: Value) -> Array:
    """Return a mask of where two values may be in another order, or equal: none where both are
    exact.
    """
    tolerance = reach(first) + reach(second)
    if not np.any(tolerance):
        return np.zeros(np.broadcast(first.array, second.array).shape, bool)
    return (np.abs(np.asarray(first.array, np.float64) - second.array) <= tolerance) & (
        tolerance > 0
    )


@operator(
    onnx=("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"), tensorflow=_OF_ALL,
    ascend=_OF_ALL,
    decides=True, parts=broadcast, check=_check_comparison,
)  # fmt: skip
def comparison(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Compare two values."""
    return [Value(_compared(node, inputs)[2])]


def _threshold_of(node: Node) -> Value:
    return Value(np.float64(node.get("threshold", 0.0)))


def _check_threshold(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    x, border = input_at(inputs, 0), _threshold_of(node)
    right, near = x.array > border.array, _order_in_doubt(x, border)
    return [
        wrong_where_reshaped(
            outputs[0],
            lambda actual: (actual != right) & ~(near & np.isin(actual, (0, 1))),
            right.shape,
        )
    ]


@operator(
    caffe=("Threshold",),
    ascend=("Threshold",),
    decides=True,
    parts=broadcast,
    check=_check_threshold,
)
def threshold_layer(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """1 above a threshold, else 0."""
    return [
        stepped(lambda x: (x > _threshold_of(node).array).astype(np.float64), input_at(inputs, 0))
    ]


# Truth and kinds of numbers


def _logic(
    name: str, function: Callable[..., Array], count: int, as_bool: bool, **spellings: Sequence[str]
) -> None:
    def compute(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
        values = broadcast_of(node, [input_at(inputs, number) for number in range(count)])
        return [
            Value(
                function(
                    *(value.array.astype(bool) if as_bool else value.array for value in values)
                )
            )
        ]

    compute.__name__ = name
    operator(
        onnx=spellings.get("onnx", ()),
        tensorflow=spellings.get("tensorflow", ()),
        ascend=spellings.get("ascend", ()),
        decides=True,
        parts=broadcast,
    )(compute)


for _word, _function, _count in (
    ("And", np.logical_and, 2),
    ("Or", np.logical_or, 2),
    ("Not", np.logical_not, 1),
):
    _logic(
        "logical_%s" % _word.lower(),
        _function,
        _count,
        True,
        onnx=(_word,),
        tensorflow=("Logical" + _word,),
        ascend=("Logical" + _word,),
    )
_logic("logical_xor", np.logical_xor, 2, True, onnx=("Xor",))
for _word, _bits in (
    ("BitwiseAnd", np.bitwise_and),
    ("BitwiseOr", np.bitwise_or),
    ("BitwiseXor", np.bitwise_xor),
):
    _logic(_word.lower(), _bits, 2, False, onnx=(_word,), tensorflow=(_word,), ascend=(_word,))
_logic("is_nan", np.isnan, 1, False, onnx=("IsNaN",), tensorflow=("IsNan",), ascend=("IsNan",))
_logic("is_infinite", np.isinf, 1, False, tensorflow=("IsInf",), ascend=("IsInf",))
_logic("is_finite", np.isfinite, 1, False, tensorflow=("IsFinite",), ascend=("IsFinite",))


@operator(onnx=("IsInf",), decides=True, parts=broadcast)
def is_infinite_of_sign(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return which values are infinite with one of the selected signs."""
    x = input_at(inputs, 0).array
    positive, negative = bool(node.get("detect_positive", 1)), bool(node.get("detect_negative", 1))
    return [Value((np.isposinf(x) & positive) | (np.isneginf(x) & negative))]


@operator(onnx=("NonZero",), tensorflow=("Where",), ascend=("Where",), decides=True)
def places(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the indices of values that are not 0: of ONNX a column each, else a row."""
    indices = np.array(np.nonzero(input_at(inputs, 0).array), np.int64)
    return [Value(indices if node.dialect == ONNX else indices.T)]


# The largest


class _Arg(NamedTuple):
    """The largest or smallest along an axis: the values with 1 or -1 as their sign, and the
    axis.
    """

    x: Value
    signed: Array
    axis: int


def _arg(node: Node, inputs: Inputs) -> _Arg:
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
    return _Arg(x, -signed if "Min" in node.type else signed, axis_of(axis, x.array.ndim))


def _keeps_dims(node: Node) -> bool:
    return (
        bool(node.get("keepdims", 1))
        if node.dialect == ONNX
        else bool(node.get("keep_dims", False))
    )


def _check_arg(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    arg = _arg(node, inputs)
    shape = tuple(1 if axis == arg.axis else size for axis, size in enumerate(arg.x.array.shape))
    found_wrong = [
        wrong_where_reshaped(
            outputs[0],
            lambda actual: outside_order(arg.x, arg.signed, actual, arg.axis, True),
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
                lambda actual: _other_values(arg.x, arg.signed, actual, indices, arg.axis),
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
    return wrong & ~np.any(_is_nan(signed), axis=axis, keepdims=True)


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
    spoilt = np.any(_is_nan(signed), axis=axis, keepdims=True)
    if indices is None:
        sign = 1 if np.all((signed == x.array) | _is_nan(signed)) else -1
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


class _Order(NamedTuple):
    """The largest or smallest ones along an axis, in order."""

    x: Value
    signed: Array
    axis: int
    number: int
    ordered: bool


def _order(node: Node, inputs: Inputs) -> _Order:
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
    return _Order(x, signed if largest else -signed, axis, count, ordered)


def _check_order(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    order = _order(node, inputs)
    shape = tuple(
        order.number if axis == order.axis else size
        for axis, size in enumerate(order.x.array.shape)
    )
    values, indices = outputs[0], outputs[1] if len(outputs) > 1 else None
    at = (
        None
        if indices is None or np.size(indices) != int(np.prod(shape))
        else np.reshape(indices, shape)
    )
    # Without the indices, values that are in no order are looked at in theirs.
    if at is None and not order.ordered:
        raise CannotCompute("values without an order cannot be looked at without their indices")
    found_wrong = [
        wrong_where_reshaped(
            values,
            lambda actual: _other_values(order.x, order.signed, actual, at, order.axis),
            shape,
        )
    ]
    if len(outputs) > 1:
        found_wrong.append(
            wrong_where_reshaped(
                indices,
                lambda actual: outside_order(
                    order.x, order.signed, actual, order.axis, order.ordered
                ),
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
