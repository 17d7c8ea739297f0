"""Comparisons, logic, roundings and signs: operators that decide which value is larger, which whole
number is next, which values are not 0.

A decision may go either way where the values are equal, or where they differ by no more than the
error that their inputs may have (:class:`~.value_with_error.Value`). Sources: the ONNX operator
list of each opset; caffe.proto and the layers of BVLC Caffe; TensorFlow 1.15's op definitions; the
operator prototypes of Ascend IR.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .elementwise import broadcast_of
from .registry import ONNX, TENSORFLOW, CannotCompute, Inputs, Node, input_at, operator
from .splittable_axes import broadcast
from .value_with_error import Arithmetic, Value
from .variants import (
    Function,
    Reading,
    Variant,
    attribute,
    declare,
    other_function,
)

Array = Any

# The farthest of n normally distributed errors is beyond the bound this seldom.
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
        | (is_nan(actual) & is_nan(right))
    )
    return ~agrees


def is_nan(array: Array) -> Array:
    """Return which elements are NaN; of whole numbers none is."""
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

COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "Greater": np.greater, "GreaterEqual": np.greater_equal, "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal, "LessOrEqual": np.less_equal, "Equal": np.equal,
    "NotEqual": np.not_equal,
}  # fmt: skip
_OF_ALL = ("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual")


def _compared(node: Node, inputs: Inputs) -> Tuple[Value, Value, Array]:
    first, second = broadcast_of(node, [input_at(inputs, 0), input_at(inputs, 1)])
    return first, second, COMPARISONS[node.type](first.array, second.array)


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


@operator(onnx=("NonZero",), tensorflow=("Where",), ascend=("Where",), decides=True, counts=True)
def places(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the indices of values that are not 0: of ONNX a column each, else a row."""
    indices = np.array(np.nonzero(input_at(inputs, 0).array), np.int64)
    return [Value(indices if node.dialect == ONNX else indices.T)]


ROUNDINGS: Sequence[Tuple[str, Callable[[Array], Array]]] = (
    ("half to even", np.rint),
    ("half away from zero", lambda array: np.copysign(np.floor(np.abs(array) + 0.5), array)),
    ("half up", lambda array: np.floor(array + 0.5)),
    ("half towards zero", lambda array: np.copysign(np.ceil(np.abs(array) - 0.5), array)),
    ("floor", np.floor),
    ("ceil", np.ceil),
    ("truncated (towards zero)", np.trunc),
)
"""Ways to whole numbers."""


def other_rounding(own: str) -> Reading:
    """Declare the rule by which values become whole numbers."""

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        value = inputs[0]
        if value is None or not value.is_float:
            return
        for words, rule in ROUNDINGS:
            if words == own:
                continue

            def taken(
                given: List[Optional[Value]], rule: Callable[[Array], Array] = rule
            ) -> List[Optional[Value]]:
                return [Value(rule(given[0].array)), *given[1:]]  # type: ignore[union-attr]

            yield Variant("rounding", words, own, node, taken)

    return Reading("rounding", ", ".join(words for words, _ in ROUNDINGS if words != own), variants)


declare(
    "Round Floor Ceil", other_function(*(Function(kind) for kind in ("Round", "Floor", "Ceil", "")))
)
declare("Round", other_rounding("half to even"))
declare("Floor", other_rounding("floor"))
declare("Ceil", other_rounding("ceil"))
declare(
    "Greater GreaterOrEqual Less LessOrEqual Equal",
    other_function(
        *(Function(kind) for kind in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")),
        Function("NotEqual", dialect=TENSORFLOW),
        keeps=True,
    ),
)
declare(
    "And Or Xor",
    other_function(*(Function(kind) for kind in ("And", "Or", "Xor")), keeps=True),
)
declare("IsInf", attribute("detect_negative", (0, 1), 1), attribute("detect_positive", (0, 1), 1))
declare("Not", other_function(Function("", words="no function (Identity)")))
declare(
    "BitwiseAnd BitwiseOr BitwiseXor",
    other_function(
        *(Function(kind) for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")), keeps=True
    ),
)
declare("BitShift", attribute("direction", ("LEFT", "RIGHT")))
for _types in ("Greater GreaterEqual Less LessEqual Equal NotEqual", "LogicalAnd LogicalOr"):
    declare(
        _types,
        other_function(
            *(Function(kind, dialect=TENSORFLOW) for kind in _types.split()), keeps=True
        ),
        dialect=TENSORFLOW,
    )
