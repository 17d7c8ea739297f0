"""Softmax and its logarithm, of all dialects."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any, Iterator, List, Optional, Tuple

import numpy as np

from .convolution_operators import integers, named_input
from .error_propagation import moved
from .registry import (
    CAFFE,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    operator,
)
from .splittable_axes import along_all_but
from .value_with_error import Arithmetic, Value, joined_errors
from .variants import (
    Function,
    attribute,
    computed_instead,
    declare,
    each_axis,
    factor_of_input,
    other_function,
    other_node,
    text_of,
)

Array = Any
Axes = Tuple[int, ...]


def _exponents(
    x: Value, axes: Axes, arithmetic: Arithmetic
) -> Tuple[Array, Array, Optional[Array], Optional[Array]]:
    """Return x less its largest, the exponentials' shares of their sum, the errors of exponents,
    and the relative error of the sum.

    What is taken off does not matter to the result, nor does its error. The exponent's error is
    that of x and of one rounding; the exponential is rounded too, which is the same as an error of
    the exponent.
    """
    array = np.asarray(x.array, np.float64)
    less = array - np.max(array, axis=axes, keepdims=True)
    exponentials = np.exp(less)
    total = np.sum(exponentials, axis=axes, keepdims=True)
    shares = exponentials / total
    error = None if x.error is None else np.broadcast_to(x.error, array.shape)
    step = arithmetic.intermediate / np.sqrt(3.0)
    if step:
        less_error = np.where(np.isfinite(less), np.abs(less), 0.0) * step
        error = joined_errors(error, less_error, np.full(array.shape, step))
    terms = array.size // max(1, total.size)
    summed = None
    if arithmetic.accumulator:
        spread = np.sqrt(np.sum(np.square(shares), axis=axes, keepdims=True) + 1.0)
        summed = arithmetic.accumulator * np.sqrt(terms / 6.0) * spread
    return less, shares, error, summed


def _sum_of_others(shares: Array, error: Array, axes: Axes) -> Tuple[Array, Array]:
    """Return, for each element, the sum of all other shares, and the root of the sum of squares of
    what the others' errors move.
    """
    rest = np.sum(shares, axis=axes, keepdims=True) - shares
    # A share of nearly 1 leaves nothing but rounding there: the others are added up without it.
    top = shares >= np.max(shares, axis=axes, keepdims=True)
    below = np.sum(np.where(top, 0.0, shares), axis=axes, keepdims=True) + shares * (
        np.sum(top, axis=axes, keepdims=True) - 1
    )
    parts = np.square(shares * error)
    parts_below = np.sum(np.where(top, 0.0, parts), axis=axes, keepdims=True)
    parts_rest = np.sum(parts, axis=axes, keepdims=True) - parts
    ties = np.sum(np.where(top, parts, 0.0), axis=axes, keepdims=True) - parts
    return np.where(top, below, rest), np.sqrt(
        np.maximum(np.where(top, parts_below + ties, parts_rest), 0.0)
    )


def softmax(x: Value, axes: Axes, arithmetic: Arithmetic) -> Value:
    """Return exp(x) / Σ exp(x) along ``axes``; the errors are those of d(y_i) = y_i · ((1 - y_i) ·
    d(x_i) - Σ' y_j · d(x_j)).
    """
    _, shares, error, summed = _exponents(x, axes, arithmetic)
    parts = []
    if error is not None:
        rest, others = _sum_of_others(shares, error, axes)
        # An exponent that errs by more than 1 moves the exponential by more than its slope says, up
        # to the whole.
        parts.append(
            np.minimum(shares * rest * np.expm1(np.minimum(error, 500.0)), np.maximum(rest, shares))
        )
        parts.append(shares * np.minimum(others, 1.0))
    if summed is not None:
        parts.append(shares * summed)
    return Value(shares, joined_errors(*parts))


def log_softmax(x: Value, axes: Axes, arithmetic: Arithmetic) -> Value:
    """Return x less log Σ exp(x) along ``axes``."""
    less, shares, error, summed = _exponents(x, axes, arithmetic)
    logarithm = np.log(np.sum(np.exp(less), axis=axes, keepdims=True))
    parts = [np.broadcast_to(summed, less.shape)] if summed is not None else []
    if error is not None:
        rest, others = _sum_of_others(shares, error, axes)
        parts += [rest * error, others]
    if arithmetic.intermediate:
        parts.append(
            np.broadcast_to(
                np.abs(logarithm) * (arithmetic.intermediate / np.sqrt(3.0)), less.shape
            )
        )
    return Value(less - logarithm, joined_errors(*parts))


def _softmax_of_dialect(node: Node, x: Value, axes: Axes, arithmetic: Arithmetic) -> Value:
    if not x.is_float:
        x = Value(x.array.astype(np.float32))
    axes = tuple(axis + x.array.ndim if axis < 0 else axis for axis in axes)
    if not axes or any(not 0 <= axis < x.array.ndim for axis in axes):
        raise CannotCompute("its axes %s do not fit %s" % (list(axes), x.array.shape))
    return (log_softmax if node.type.startswith("Log") else softmax)(x, axes, arithmetic)


def _along(node: Node, ndim: int) -> List[int]:
    """Return the axes whose elements are divided by their sum."""
    if node.dialect == "onnx" and node.version < 13:
        axis = int(node.get("axis", 1))
        return list(range(axis + ndim if axis < 0 else axis, ndim))
    if node.dialect == "ascend":
        return integers(node, "axes", integers(node, "axis", [-1]))
    return [
        -1
        if node.dialect == "tensorflow"
        else int(node.get("axis", -1 if node.dialect == "onnx" else 1))
    ]


@operator(onnx=["Softmax", "LogSoftmax"], parts=along_all_but(_along))
def onnx_softmax(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX: from opset 13 on along one axis (the last), before over everything from an axis (1)
    on.
    """
    x = named_input(inputs, 0, "input")
    dimensions = x.array.ndim
    if node.version >= 13:
        return [_softmax_of_dialect(node, x, (int(node.get("axis", -1)),), arithmetic)]
    axis = int(node.get("axis", 1))
    axis = axis + dimensions if axis < 0 else axis
    if not node.version and axis != dimensions - 1:
        raise CannotCompute(
            "its opset is not known, of which the meaning of axis=%d depends" % axis
        )
    shape = (int(np.prod(x.array.shape[:axis])), int(np.prod(x.array.shape[axis:])))
    result = _softmax_of_dialect(
        node, moved(lambda array: array.reshape(shape), x), (1,), arithmetic
    )
    return [moved(lambda array: array.reshape(x.array.shape), result)]


@operator(
    caffe=["Softmax"],
    tensorflow=["Softmax", "LogSoftmax"],
    ascend=["Softmax", "SoftmaxV2", "LogSoftmax", "LogSoftmaxV2"],
    parts=along_all_but(_along),
)
def other_softmax(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe along its axis (1), TensorFlow along the last, Ascend IR along ``axes`` (the last)
    together.
    """
    x = named_input(inputs, 0, "input")
    return [_softmax_of_dialect(node, x, tuple(_along(node, x.array.ndim)), arithmetic)]


def _earlier_meaning(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """over all axes from it on, as before opset 13, or over it alone"""
    default = -1 if node.version >= 13 else 1
    own = int(node.get("axis", default))
    for axis in dict.fromkeys((own, 1)):
        attributes = {**node.attributes, "axis": axis}
        alone = (text_of(axis), "over all axes from %d on" % axis)
        first, second = (
            (alone[1], "%d alone" % own)
            if node.version >= 13
            else ("%d alone" % axis, "over all axes from %d on" % own)
        )
        yield (
            first,
            second,
            replace(node, version=11 if node.version >= 13 else 13, attributes=attributes),
        )


def _over_other_axes(node: Node, inputs: Inputs) -> Iterator[Any]:
    function = log_softmax if node.type.startswith("Log") else softmax
    ndim = named_input(inputs, 0, "input").array.ndim
    own = text_of(node.get("axis", -1 if node.version >= 13 else 1))
    for count in range(2, ndim + 1) if ndim <= 5 else ():
        for axes in combinations(range(ndim), count):

            def made(given: Inputs, arithmetic: Arithmetic, axes: Axes = axes) -> List[Value]:
                return [function(named_input(given, 0, "input"), axes, arithmetic)]

            yield "%s together" % text_of(list(axes)), own, made


declare(
    "Softmax LogSoftmax",
    attribute("axis", each_axis, lambda node, inputs: -1 if node.version >= 13 else 1),
    other_node("axis", _earlier_meaning),
    computed_instead("axis", "each set of axes together", _over_other_axes),
)
declare(
    "Softmax LogSoftmax Hardmax",
    other_function(
        *(Function(kind) for kind in ("Softmax", "LogSoftmax", "Hardmax")),
        Function("", words="none"),
        keeps=True,
    ),
    other_function(Function("Sigmoid"), Function("Exp")),
)
declare("Softmax LogSoftmax", factor_of_input())

declare("Softmax", attribute("axis", each_axis, 1), dialect=CAFFE)
declare(
    "Softmax LogSoftmax",
    other_function(
        *(Function(kind, dialect=TENSORFLOW) for kind in ("Softmax", "LogSoftmax")),
        Function("", words="none"),
        keeps=True,
    ),
    dialect=TENSORFLOW,
)
