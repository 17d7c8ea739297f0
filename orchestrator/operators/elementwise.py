"""Operators on each element: arithmetic, powers, exponentials, angles, choices; with broadcasting
as the dialect has it.

Sources: the ONNX operator list of each opset; caffe.proto and the layers of BVLC Caffe; TensorFlow
1.15's op definitions; the operator prototypes of Ascend IR.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, Callable, Iterator, List, Optional, Sequence

import numpy as np

from .error_propagation import by_blocks, elementwise
from .registry import (
    ASCEND,
    CAFFE,
    ONNX,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    input_at,
    operator,
)
from .splittable_axes import broadcast, first
from .value_with_error import FLOAT32_ROUNDING, Arithmetic, Value, joined_errors
from .variants import (
    ANY,
    EPSILONS,
    Fit,
    Function,
    Reading,
    Variant,
    along_other_axis,
    attribute,
    changed_input,
    declare,
    factor_of_input,
    input_order,
    missing_input,
    other_function,
    other_number,
    replaced,
    text_of,
)

Array = Any

# erf by a Taylor series about the nearest of 1,024 nodes a unit, four terms: 1.1e-14 off math.erf
# at most (measured on 400,001 points); beyond 6 it is 1 in float64.
_NODES = 1024
_FURTHEST = 6
_TERMS = 4


def each(
    name: str,
    function: Callable[..., Array],
    inputs: int = 1,
    curve: bool = False,
    up_to_one: bool = False,
    **spellings: Sequence[str],
) -> None:
    """Register a function of each element that has no attributes.

    Parameters
    ----------
    curve
        The device computes it in several steps (exponentials, roots), so that its result is rounded
        once more.
    up_to_one
        Its values lie between -1 and 1 and go to their ends: libraries compute it to within
        float32's rounding of 1, so that next to nothing remains of the values near 0 at its ends.
    """

    def compute(node: Node, given_inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
        values = [input_at(given_inputs, number) for number in range(inputs)]
        single, steps = (
            not (arithmetic.intermediate or curve),
            arithmetic.intermediate if curve else 0.0,
        )
        result = by_blocks(function, *broadcast_of(node, values), steps=steps, single=single)
        return [with_absolute(result) if up_to_one else result]

    compute.__name__ = name
    operator(parts=broadcast, **spellings)(compute)  # type: ignore[arg-type]


def with_absolute(value: Value) -> Value:
    """Return a value that is known to within float32's rounding of 1."""
    return Value(
        value.array, joined_errors(value.error, np.full(value.array.shape, FLOAT32_ROUNDING))
    )


def broadcast_of(node: Node, values: List[Value]) -> List[Value]:
    """Of ONNX before opset 7: the second input's axes begin at the attribute ``axis`` of the first
    one's.
    """
    if node.dialect != ONNX or len(values) != 2 or not 0 < node.version < 7:
        return values
    first, second = values
    if not node.get("broadcast", 0):
        if first.array.shape != second.array.shape:
            raise CannotCompute(
                "its inputs have the shapes %s and %s, and it does not broadcast"
                % (first.array.shape, second.array.shape)
            )
        return values
    if "axis" not in node.attributes:
        return values
    return [first, aligned(second, int(node.get("axis")), first.array.ndim)]


def aligned(value: Value, axis: int, ndim: int) -> Value:
    """Return a value whose axes begin at an axis (negative: from behind) of a tensor with ``ndim``
    axes, to be broadcast to it.
    """
    axis = axis + ndim if axis < 0 else axis
    trailing = ndim - axis - value.array.ndim
    if axis < 0 or trailing < 0:
        raise CannotCompute(
            "an input of the shape %s does not fit at axis %d of %d"
            % (value.array.shape, axis, ndim)
        )
    shape = value.array.shape + (1,) * trailing
    error = value.error
    return Value(
        value.array.reshape(shape),
        None if error is None else np.broadcast_to(error, value.array.shape).reshape(shape),
    )


# Arithmetic of two inputs


def _truncated_division(a: Array, b: Array) -> Array:
    if np.result_type(a, b).kind == "f":
        return a / b
    _nonzero(b)
    quotient = np.floor_divide(np.abs(a), np.abs(b))
    return (np.where((a < 0) != (b < 0), -quotient, quotient)).astype(np.result_type(a, b))


def _nonzero(divisors: Array) -> None:
    if np.asarray(divisors).dtype.kind in "iu" and not np.all(divisors):
        raise CannotCompute("it divides whole numbers by 0")


def _floor_division(a: Array, b: Array) -> Array:
    _nonzero(b)
    return np.floor_divide(a, b)


def _floor_remainder(a: Array, b: Array) -> Array:
    _nonzero(b)
    return np.mod(a, b)


def _remainder(a: Array, b: Array) -> Array:
    _nonzero(b)
    return np.fmod(a, b)


def _zero_where(
    rule: Callable[[Array, Array], Array], function: Callable[[Array, Array], Array]
) -> Callable[[Array, Array], Array]:
    def computed(a: Array, b: Array) -> Array:
        return np.where(rule(a, b), 0, function(a, b))

    return computed


def _power(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind in "iu":
        if np.asarray(b).dtype.kind == "f":
            return np.power(np.asarray(a, np.float64), b).astype(a.dtype)
        if np.any(np.asarray(b) < 0):
            raise CannotCompute("it raises whole numbers to negative powers")
        return np.power(a, b).astype(a.dtype)
    return np.power(a, b)


_ADD = ("Add", "AddV2")
each("add", np.add, 2, onnx=("Add",), tensorflow=_ADD, ascend=_ADD)
each("subtract", np.subtract, 2, onnx=("Sub",), tensorflow=("Sub",), ascend=("Sub",))
each("multiply", np.multiply, 2, onnx=("Mul",), tensorflow=("Mul",), ascend=("Mul",))
each("real_division", np.true_divide, 2, tensorflow=("RealDiv",), ascend=("RealDiv",))
each("floor_division", _floor_division, 2, tensorflow=("FloorDiv",), ascend=("FloorDiv",))
each(
    "truncated_division",
    lambda a, b: np.trunc(_truncated_division(a, b)),
    2,
    tensorflow=("TruncateDiv",),
    ascend=("TruncateDiv",),
)
each("floor_remainder", _floor_remainder, 2, tensorflow=("FloorMod",), ascend=("FloorMod",))
each("remainder", _remainder, 2, tensorflow=("Mod", "TruncateMod"), ascend=("TruncateMod",))
_divided_or_zero = _zero_where(lambda a, b: b == 0, np.true_divide)
each("division_no_nan", _divided_or_zero, 2, tensorflow=("DivNoNan",), ascend=("DivNoNan",))
each(
    "product_no_nan",
    _zero_where(lambda a, b: b == 0, np.multiply),
    2,
    tensorflow=("MulNoNan",),
    ascend=("MulNoNan",),
)
_logarithm_times = _zero_where(lambda a, b: a == 0, lambda a, b: a * np.log(b))
each("logarithm_times", _logarithm_times, 2, True, tensorflow=("Xlogy",), ascend=("Xlogy",))
_divided_unless_zero = _zero_where(lambda a, b: a == 0, np.true_divide)
each("divided_unless_zero", _divided_unless_zero, 2, tensorflow=("Xdivy",), ascend=("Xdivy",))
_squared_difference = ("SquaredDifference",)
each(
    "squared_difference",
    lambda a, b: np.square(a - b),
    2,
    tensorflow=_squared_difference,
    ascend=_squared_difference,
)
each("maximum", np.maximum, 2, tensorflow=("Maximum",), ascend=("Maximum",))
each("minimum", np.minimum, 2, tensorflow=("Minimum",), ascend=("Minimum",))
each("angle_of_two", np.arctan2, 2, True, tensorflow=("Atan2",), ascend=("Atan2",))
each("power", _power, 2, True, onnx=("Pow",), tensorflow=("Pow",), ascend=("Pow",))


@operator(onnx=("Div",), tensorflow=("Div",), ascend=("Div",), parts=broadcast)
def division(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Divide; whole numbers are divided towards zero in ONNX and TensorFlow, in Ascend IR it is not
    known how.
    """
    values = [input_at(inputs, 0), input_at(inputs, 1)]
    if node.dialect == ASCEND and not any(value.is_float for value in values):
        raise CannotCompute("how Ascend's Div rounds whole numbers is not known")
    return [elementwise(_truncated_division, *broadcast_of(node, values))]


@operator(onnx=("Mod",), ascend=("Mod",), parts=broadcast)
def modulus(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the remainder: of ONNX with the divisor's sign or (``fmod``) the dividend's, as Ascend
    IR does.
    """
    towards_zero = node.dialect == ASCEND or bool(node.get("fmod", 0))
    if not towards_zero and input_at(inputs, 0).is_float:
        raise CannotCompute("of floats it is defined with fmod = 1 only")
    return [
        elementwise(
            _remainder if towards_zero else _floor_remainder,
            input_at(inputs, 0),
            input_at(inputs, 1),
        )
    ]


# Any number of inputs


@operator(
    onnx=("Sum",),
    tensorflow=("AddN", "AccumulateNV2"),
    ascend=("AddN", "AccumulateNV2"),
    parts=broadcast,
)
def total(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add all inputs."""
    return [_weighted_sum(_required_inputs(inputs), (), arithmetic)]


@operator(onnx=("Mean",), parts=broadcast)
def mean_of_inputs(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add all inputs and divide by their number."""
    summed = _weighted_sum(_required_inputs(inputs), (), arithmetic).with_step(
        arithmetic.intermediate
    )
    return [elementwise(lambda x: x / len(inputs), summed)]


@operator(onnx=("Max",), parts=broadcast)
def maximum_of_inputs(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the largest of all inputs."""
    return [elementwise(lambda *arrays: reduce(np.maximum, arrays), *_required_inputs(inputs))]


@operator(onnx=("Min",), parts=broadcast)
def minimum_of_inputs(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the smallest of all inputs."""
    return [elementwise(lambda *arrays: reduce(np.minimum, arrays), *_required_inputs(inputs))]


@operator(caffe=("Eltwise",), ascend=("Eltwise",), parts=broadcast)
def eltwise(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Multiply all inputs, add them, each times its coefficient, or take the largest."""
    if node.dialect == CAFFE:
        operation = node.get("operation", "SUM")
    else:
        operation = {0: "PROD", 1: "SUM", 2: "MAX"}.get(int(node.get("mode", 1)))
    values = _required_inputs(inputs)
    if operation == "SUM":
        weights = [float(entry) for entry in np.ravel(node.get("coeff", ()))]
        if weights and len(weights) != len(values):
            raise CannotCompute(
                "it has %d coefficients and %d inputs" % (len(weights), len(values))
            )
        return [_weighted_sum(values, weights, arithmetic)]
    if operation not in ("PROD", "MAX"):
        raise CannotCompute("its operation %s is not known" % operation)
    function = np.multiply if operation == "PROD" else np.maximum
    return [elementwise(lambda *arrays: reduce(function, arrays), *values)]


def _required_inputs(inputs: Inputs) -> List[Value]:
    values = [input_at(inputs, number) for number in range(len(inputs))]
    if not values:
        raise CannotCompute("it has no inputs")
    return values


def _weighted_sum(
    values: Sequence[Value], weights: Sequence[float], arithmetic: Arithmetic
) -> Value:
    def summed(*arrays: Array) -> Array:
        return reduce(
            np.add,
            [weight * array for weight, array in zip(weights, arrays)] if weights else arrays,
        )

    total = elementwise(summed, *values)
    if not total.is_float or len(values) < 3:
        return total
    parts = [
        np.abs(summed(*(value.array for value in values[:count])))
        for count in range(2, len(values))
    ]
    return Value(
        total.array,
        joined_errors(
            total.error, *(part * (arithmetic.intermediate / math.sqrt(3.0)) for part in parts)
        ),
    )


# With constants


@operator(ascend=("Adds",), parts=broadcast)
def add_constant(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add the attribute ``value``."""
    return [_with_constant(np.add, node, inputs)]


@operator(ascend=("Muls",), parts=broadcast)
def multiply_constant(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Multiply by the attribute ``value``."""
    return [_with_constant(np.multiply, node, inputs)]


def _with_constant(function: Callable[[Array, Array], Array], node: Node, inputs: Inputs) -> Value:
    constant, value = float(node.get("value")), input_at(inputs, 0)
    if not value.is_float and constant != int(constant):
        raise CannotCompute("it takes whole numbers and %s together" % constant)
    return elementwise(lambda x: function(x, x.dtype.type(constant)), value)


@operator(caffe=("Power",), ascend=("Power",), parts=broadcast)
def power_layer(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Raise ``shift + scale * x`` to a power."""
    power, scale, shift = (
        float(node.get(name, default))
        for name, default in (("power", 1.0), ("scale", 1.0), ("shift", 0.0))
    )

    def function(x: Array) -> Array:
        inner = shift + scale * x
        return inner if power == 1.0 else np.power(inner, power)

    steps = arithmetic.intermediate if power != 1.0 or (scale != 1.0 and shift != 0.0) else 0.0
    return [elementwise(function, input_at(inputs, 0), steps=steps)]


@operator(onnx=("Exp",), caffe=("Exp",), tensorflow=("Exp",), ascend=("Exp",), parts=broadcast)
def exponential(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Raise e, or of Caffe and Ascend IR the attribute ``base``, to ``shift + scale * x``."""
    base, scale, shift = _base(node)
    return [
        by_blocks(
            lambda x: np.exp((shift + scale * x) * math.log(base)),
            input_at(inputs, 0),
            steps=arithmetic.intermediate,
        )
    ]


@operator(onnx=("Log",), caffe=("Log",), tensorflow=("Log",), ascend=("Log",), parts=broadcast)
def logarithm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the logarithm to the base e, or of Caffe and Ascend IR to the attribute ``base``, of
    ``shift + scale * x``.
    """
    base, scale, shift = _base(node)
    return [
        by_blocks(
            lambda x: np.log(shift + scale * x) / math.log(base),
            input_at(inputs, 0),
            steps=arithmetic.intermediate,
        )
    ]


def _base(node: Node) -> Any:
    if node.dialect in (ONNX, TENSORFLOW):
        return math.e, 1.0, 0.0
    base, scale, shift = (
        float(node.get(name, default))
        for name, default in (("base", -1.0), ("scale", 1.0), ("shift", 0.0))
    )
    if base == -1.0:
        return math.e, scale, shift
    if base <= 0.0:
        raise CannotCompute("its base %s is not positive" % base)
    return base, scale, shift


@operator(caffe=("Axpy",), ascend=("Axpy",))
def axpy(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add a multiple: of Ascend IR ``x1 + alpha * x2``; of the Caffe layer of SENet ``a * x + y``,
    a for each channel.
    """
    if node.dialect == ASCEND:
        alpha = float(node.get("alpha"))
        if not input_at(inputs, 0).is_float:
            raise CannotCompute("how it rounds whole numbers is not known")
        return [
            elementwise(
                lambda a, b: a + alpha * b,
                input_at(inputs, 0),
                input_at(inputs, 1),
                steps=arithmetic.intermediate,
            )
        ]
    factors, x, y = (input_at(inputs, number) for number in range(3))
    channels = x.array.shape[:2]
    if factors.array.size != int(np.prod(channels)):
        raise CannotCompute("it has %d factors for %s" % (factors.array.size, channels))
    error = (
        None
        if factors.error is None
        else np.broadcast_to(factors.error, factors.array.shape).reshape(channels)
    )
    spread = aligned(Value(factors.array.reshape(channels), error), 0, x.array.ndim)
    return [elementwise(lambda a, b, c: a * b + c, spread, x, y, steps=arithmetic.intermediate)]


@operator(tensorflow=("BiasAdd",), ascend=("BiasAdd",), parts=first)
def bias_add(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add a bias to each channel: the last axis, or the second one where ``data_format`` begins
    with NC.
    """
    layout = str(node.get("data_format", "NHWC"))
    x, bias = input_at(inputs, 0), input_at(inputs, 1)
    if layout not in ("NHWC", "NCHW", "NDHWC", "NCDHW", "ND"):
        raise CannotCompute("its data_format %s is not known" % layout)
    return [
        elementwise(np.add, x, aligned(bias, 1 if layout.startswith("NC") else -1, x.array.ndim))
    ]


@operator(tensorflow=("BiasAddV1",), parts=broadcast)
def bias_add_last(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add a bias to the last axis."""
    return [elementwise(np.add, input_at(inputs, 0), input_at(inputs, 1))]


@operator(caffe=("Bias",), ascend=("Bias",), parts=first)
def bias_layer(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add a bias whose axes begin at ``axis``."""
    x = input_at(inputs, 0)
    return [
        elementwise(np.add, x, aligned(input_at(inputs, 1), int(node.get("axis", 1)), x.array.ndim))
    ]


# One input


def erf(x: Array) -> Array:
    """Return the error function, within 1e-13: its Taylor series around the next of nodes that lie
    1/1024 apart.
    """
    coefficients = _erf_coefficients()
    near = np.clip(np.nan_to_num(x), -_FURTHEST, _FURTHEST)
    node = np.rint(near * _NODES)
    h = near - node / _NODES
    at = node.astype(np.int64) + _FURTHEST * _NODES
    result = coefficients[_TERMS - 1][at]
    for order in range(_TERMS - 2, -1, -1):
        result = result * h + coefficients[order][at]
    return np.where(np.isnan(x), np.nan, result)


_ERF: List[Array] = []


def _erf_coefficients() -> List[Array]:
    """Return the Taylor coefficients of erf at each node, by order; derivatives by the recurrence
    of Hermite polynomials.
    """
    if not _ERF:
        nodes = np.arange(-_FURTHEST * _NODES, _FURTHEST * _NODES + 1) / _NODES
        coefficients = [np.array([math.erf(node) for node in nodes])]
        first = 2.0 / math.sqrt(math.pi) * np.exp(-np.square(nodes))
        before, derivative = np.zeros_like(first), first
        for order in range(1, _TERMS):
            coefficients.append(derivative / math.factorial(order))
            before, derivative = derivative, -2.0 * nodes * derivative - 2.0 * (order - 1) * before
        _ERF.extend(coefficients)
    return _ERF


each("absolute", np.abs, onnx=("Abs",), caffe=("AbsVal",), tensorflow=("Abs",), ascend=("Abs",))
each("negative", np.negative, onnx=("Neg",), tensorflow=("Neg",), ascend=("Neg",))
each("square", np.square, tensorflow=("Square",), ascend=("Square",))
each("square_root", np.sqrt, curve=True, onnx=("Sqrt",), tensorflow=("Sqrt",), ascend=("Sqrt",))
each(
    "reciprocal_root",
    lambda x: 1.0 / np.sqrt(x),
    curve=True,
    tensorflow=("Rsqrt",),
    ascend=("Rsqrt",),
)
_INVERSES = ("Reciprocal", "Inv")
each(
    "reciprocal",
    lambda x: 1.0 / x,
    curve=True,
    onnx=("Reciprocal",),
    tensorflow=_INVERSES,
    ascend=_INVERSES,
)
each("logarithm_of_one_more", np.log1p, curve=True, tensorflow=("Log1p",), ascend=("Log1p",))
each("exponential_minus_one", np.expm1, curve=True, tensorflow=("Expm1",), ascend=("Expm1",))
each(
    "error_function",
    erf,
    curve=True,
    up_to_one=True,
    onnx=("Erf",),
    tensorflow=("Erf",),
    ascend=("Erf",),
)
each(
    "error_function_left",
    lambda x: 1.0 - erf(x),
    curve=True,
    up_to_one=True,
    tensorflow=("Erfc",),
    ascend=("Erfc",),
)
for _name, _function in (
    ("Sin", np.sin), ("Cos", np.cos), ("Tan", np.tan), ("Asin", np.arcsin), ("Acos", np.arccos),
    ("Atan", np.arctan),
    ("Sinh", np.sinh), ("Cosh", np.cosh), ("Asinh", np.arcsinh), ("Acosh", np.arccosh),
    ("Atanh", np.arctanh),
):  # fmt: skip
    each(_name.lower(), _function, curve=True, onnx=(_name,), tensorflow=(_name,), ascend=(_name,))


# Several inputs, as PyTorch has them


@operator(ascend=("AxpyV2",), parts=broadcast)
def axpy_of_input(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add a multiple: ``x1 + alpha * x2``; alpha is an input."""
    values = [input_at(inputs, number) for number in range(3)]
    return [
        elementwise(
            lambda a, b, alpha: a + alpha * b,
            *values,
            steps=arithmetic.intermediate if values[0].is_float else 0.0,
        )
    ]


@operator(ascend=("Addcmul", "Addcdiv"), parts=broadcast)
def add_product(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add the product or quotient of two inputs, times the last one."""
    values = [input_at(inputs, number) for number in range(4)]
    if not all(value.is_float for value in values):
        raise CannotCompute("how it rounds whole numbers is not known")
    function = np.multiply if node.type == "Addcmul" else np.true_divide
    return [
        elementwise(
            lambda x, a, b, value: x + value * function(a, b),
            *values,
            steps=arithmetic.intermediate,
        )
    ]


@operator(ascend=("Lerp",), parts=broadcast)
def between(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return start + weight · (end - start)."""
    values = [input_at(inputs, number) for number in range(3)]
    return [
        elementwise(
            lambda a, b, weight: a + weight * (b - a), *values, steps=arithmetic.intermediate
        )
    ]


# Choices


@operator(ascend=("MaskedFill",), parts=broadcast)
def masked_fill(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put one value where the mask is true."""
    x, mask, value = (input_at(inputs, number) for number in range(3))
    return [_selected(mask, Value(value.array.astype(x.array.dtype).reshape(()), value.error), x)]


@operator(onnx=("Where",), tensorflow=("SelectV2",), ascend=("SelectV2",), parts=broadcast)
def choice(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the second input where the first is true, else the third."""
    return [_selected(*(input_at(inputs, number) for number in range(3)))]


@operator(tensorflow=("Select",), ascend=("Select",))
def choice_by_row(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the second input where the first, which may have one value a row, is true, else the
    third.
    """
    condition, first, second = (input_at(inputs, number) for number in range(3))
    if condition.array.ndim == 1 and first.array.ndim > 1:
        condition = aligned(condition, 0, first.array.ndim)
    return [_selected(condition, first, second)]


def _selected(condition: Value, first: Value, second: Value) -> Value:
    where = condition.array.astype(bool)
    error: Optional[Array] = None
    if first.error is not None or second.error is not None:
        error = np.where(
            where, *(0.0 if value.error is None else value.error for value in (first, second))
        )
    return Value(np.where(where, first.array, second.array), error)


_TWO = tuple(Function(kind) for kind in ("Add", "Sub", "Mul", "Div", "Pow"))
declare("Sub Div Pow Mod", input_order())


def _inverted(node: Node, inputs: Inputs) -> Iterator[Variant]:
    for number, value in enumerate(inputs[:2]):
        if value is None or value.array.size != 1 or not value.is_float or not value.array.any():
            continue
        own = value.array.reshape(-1)[0]
        instead = np.array(-own if node.type in ("Add", "Sub") else 1 / own, value.array.dtype)

        def taken(
            given: List[Optional[Value]], at: int = number, instead: Array = instead
        ) -> List[Optional[Value]]:
            before = given[at]
            assert before is not None
            # As exactly known as the model's: else the function alone would seem nearer.
            turned = Value(np.full_like(before.array, instead), before.error)
            return [*given[:at], turned, *given[at + 1 :]]

        if instead != own:
            shown = text_of(instead.item()), text_of(own.item())
            yield Variant("its constant", *shown, node, taken)


declare(
    "Add Sub Mul Div",
    Reading("its constant", "of the other sign (Add, Sub), its reciprocal (Mul, Div)", _inverted),
    other_function(*_TWO, keeps=True),
)
declare(
    "Div",
    other_function(
        Function("FloorDiv", dialect=TENSORFLOW, words="Div, rounded down"),
        Function("TruncateDiv", dialect=TENSORFLOW, words="Div, rounded towards zero"),
        keeps=True,
    ),
)
declare("Add Sub Mul Div Pow Max Min Sum Mean Where Mod", along_other_axis())
declare(
    "Add",
    other_number(1, "its constant", EPSILONS, most=0.1),
    missing_input(1, "its input 1"),
    missing_input(0, "its input 0"),
)
declare("Sub", missing_input(1, "its input 1"))
declare("Add Sub", factor_of_input(0), factor_of_input(1))
declare("Mul Div", missing_input(1, "its input 1", 1.0))
declare("Mul", missing_input(0, "its input 0", 1.0))
declare(
    "Max Min Sum Mean",
    other_function(Function("Max"), Function("Min"), Function("Sum"), Function("Mean"), keeps=True),
)
declare(
    "Add Sub Mul Div Pow",
    other_number(1, "its constant", ()),
    other_number(0, "its constant", ()),
)
_CONDITION = changed_input(
    0, "its condition", [("true throughout", np.ones_like), ("false throughout", np.zeros_like)]
)
declare(
    "Where",
    input_order(1, 3),
    _CONDITION,
    other_number(1, "its constant", ()),
    other_number(2, "its constant", ()),
)
declare("Select SelectV2", input_order(1, 3), _CONDITION, dialect=TENSORFLOW)
declare(
    "Mod",
    attribute("fmod", (0, 1), 0),
    other_number(1, "its divisor", (1, 2, 3, 4, 5, 7, 8, 10, 0.5, 1.5, 0.1, 0.25, -1, -2)),
    other_function(
        Function("FloorMod", dialect=TENSORFLOW, words="Mod with fmod 0 (the divisor's sign)"),
        Function("Mod", dialect=TENSORFLOW, words="Mod with fmod 1 (the dividend's sign)"),
        keeps=True,
    ),
)
_OF_ONE = (
    "Exp Log Sqrt Reciprocal Abs Neg Erf Sin Cos Tan Atan Asin Acos Sinh Cosh Asinh Acosh Atanh "
    "Sign"
)
declare(
    _OF_ONE + " Softplus Softsign",
    other_function(
        Function(""),
        *(Function(kind) for kind in (_OF_ONE + " Tanh Sigmoid Softplus Softsign Relu").split()),
        *(
            Function(kind, dialect=TENSORFLOW)
            for kind in ("Square", "Rsqrt", "Expm1", "Log1p", "Erfc")
        ),
    ),
    factor_of_input(),
)


def _beta_of_softplus(node: Node, inputs: Inputs) -> Iterator[Fit]:
    def variant(beta: float) -> Variant:
        def divided(outputs: List[Value]) -> List[Value]:
            return [
                Value(value.array / beta, None if value.error is None else value.error / abs(beta))
                for value in outputs
            ]

        taken = replaced(0, lambda array: array * array.dtype.type(beta))
        return Variant("beta", text_of(beta), "1", node, taken, divided)

    yield Fit("beta", 1.0, variant, least=0.0)


declare("Softplus", Reading("beta", ANY[2:], lambda node, inputs: iter(()), _beta_of_softplus))

declare("Eltwise", attribute("operation", ("SUM", "PROD", "MAX"), "SUM"), dialect=CAFFE)
_OF_ONE_TF = (
    "Exp Expm1 Log Log1p Sqrt Rsqrt Square Reciprocal Abs Neg Erf Erfc Sin Cos Tan Atan Sign"
)
declare(
    _OF_ONE_TF,
    other_function(
        Function(""),
        *(
            Function(kind, dialect=TENSORFLOW)
            for kind in (_OF_ONE_TF + " Tanh Sigmoid Softplus Relu").split()
        ),
    ),
    factor_of_input(),
    dialect=TENSORFLOW,
)
declare("Add AddV2 Sub Mul RealDiv Maximum Minimum", along_other_axis(), dialect=TENSORFLOW)
declare(
    "FloorDiv TruncateDiv FloorMod Mod",
    other_function(
        *(
            Function(kind, dialect=TENSORFLOW)
            for kind in ("FloorDiv", "TruncateDiv", "FloorMod", "Mod")
        ),
        keeps=True,
    ),
    dialect=TENSORFLOW,
)
declare("Sub RealDiv Div Pow FloorDiv FloorMod", input_order(), dialect=TENSORFLOW)
declare(
    "Add AddV2 Sub Mul RealDiv Maximum Minimum",
    other_function(
        *(
            Function(kind, dialect=TENSORFLOW)
            for kind in ("Add", "Sub", "Mul", "RealDiv", "Maximum", "Minimum")
        ),
        keeps=True,
    ),
    other_number(1, "its constant", ()),
    dialect=TENSORFLOW,
)
declare("Add AddV2 BiasAdd", missing_input(1, "its input 1 (the bias)"), dialect=TENSORFLOW)
