"""Reductions along axes, and running sums and products.

Sources: the ONNX operator list of each opset; caffe.proto and the Reduction layer of BVLC Caffe;
TensorFlow 1.15's op definitions; the operator prototypes of Ascend IR.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .error_propagation import elementwise
from .registry import (
    ASCEND,
    CAFFE,
    ONNX,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    axis_of,
    input_at,
    listed,
    operator,
    whole,
)
from .splittable_axes import Along, Parts, Shape, Values, Window
from .value_with_error import Arithmetic, Value, joined_errors
from .variants import (
    Function,
    attribute,
    computed_instead,
    declare,
    each_axis,
    other_function,
    other_node,
    text_of,
    whole_input,
)

Array = Any
Reduce = Callable[[Value, Arithmetic], Value]


def _floats_as_float64(array: Array) -> Array:
    return np.asarray(array, np.float64) if array.dtype.kind == "f" else array


def _error_of(x: Value) -> Array:
    return np.broadcast_to(0.0 if x.error is None else x.error, x.array.shape)


# Each reduces the last axis.


def added(x: Value, arithmetic: Arithmetic) -> Value:
    """Add along the last axis; errors add as squares, and the accumulator's as of
    :func:`.error_propagation.sum_of_products`.

    Adding the same number again is rounded the same way again: such roundings do not add as
    squares, but like numbers.
    """
    array = _floats_as_float64(x.array)
    if not x.is_float:
        return Value(np.sum(array, axis=-1, dtype=array.dtype))
    result = np.sum(array, axis=-1)
    parts = []
    if x.error is not None:
        parts.append(np.sqrt(np.sum(np.square(_error_of(x)), axis=-1)))
    if arithmetic.accumulator:
        size = np.sqrt(np.sum(np.square(array), axis=-1) + np.square(result))
        parts.append(arithmetic.accumulator * math.sqrt(array.shape[-1] / 6.0) * size)
        parts.append(
            arithmetic.accumulator * _repeated(x.array) / 12.0 * np.sum(np.abs(array), axis=-1)
        )
    return Value(result, joined_errors(*parts))


def _repeated(array: Array) -> Array:
    """Count along the last axis the elements, other than 0, that another has before it."""
    ordered = np.sort(array, axis=-1)
    again = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] != 0)
    return np.count_nonzero(again, axis=-1)


def _mean(x: Value, arithmetic: Arithmetic) -> Value:
    if not x.is_float:
        raise CannotCompute("how it rounds the mean of whole numbers is not known")
    count = x.array.shape[-1]
    return elementwise(
        lambda array: array / count, added(x, arithmetic).with_step(arithmetic.intermediate)
    )


def _product(x: Value, arithmetic: Arithmetic) -> Value:
    array = _floats_as_float64(x.array)
    if not x.is_float:
        return Value(np.prod(array, axis=-1, dtype=array.dtype))
    result = np.prod(array, axis=-1)
    parts = [
        np.abs(result) * (arithmetic.intermediate * math.sqrt(max(0, array.shape[-1] - 2) / 3.0))
    ]
    if x.error is not None:
        ones = np.ones((*array.shape[:-1], 1))
        before = np.cumprod(np.concatenate([ones, array[..., :-1]], -1), -1)
        after = np.cumprod(np.concatenate([ones, array[..., :0:-1]], -1), -1)[..., ::-1]
        parts.append(np.sqrt(np.sum(np.square(before * after * _error_of(x)), axis=-1)))
    return Value(result, joined_errors(*parts))


def _extreme(function: Callable[..., Array]) -> Reduce:
    def reduced(x: Value, arithmetic: Arithmetic) -> Value:
        result = function(x.array, axis=-1)
        if x.error is None:
            return Value(result)
        moved = [
            np.abs(function(x.array + sign * x.error, axis=-1) - result) for sign in (1.0, -1.0)
        ]
        return Value(result, np.nan_to_num(np.maximum(*moved), nan=0.0))

    return reduced


def _of_each(before: Callable[[Array], Array], rounded: bool) -> Reduce:
    def reduced(x: Value, arithmetic: Arithmetic) -> Value:
        return added(
            elementwise(before, x, steps=arithmetic.intermediate if rounded else 0.0), arithmetic
        )

    return reduced


def _and_then(reduce: Reduce, after: Callable[[Array], Array]) -> Reduce:
    def reduced(x: Value, arithmetic: Arithmetic) -> Value:
        return elementwise(after, reduce(x, arithmetic), steps=arithmetic.intermediate)

    return reduced


def _log_sum_exp(x: Value, arithmetic: Arithmetic) -> Value:
    highest = np.max(_floats_as_float64(x.array), axis=-1, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    powers = elementwise(lambda array: np.exp(array - highest), x, steps=arithmetic.intermediate)
    logarithm = elementwise(np.log, added(powers, arithmetic), steps=arithmetic.intermediate)
    return Value(logarithm.array + highest[..., 0], logarithm.error)


def _logical(function: Callable[..., Array]) -> Reduce:
    return lambda x, arithmetic: Value(function(x.array.astype(bool), axis=-1))


_squares = _of_each(np.square, True)
_RULES: Mapping[str, Reduce] = {
    "Sum": added, "Mean": _mean, "Prod": _product, "Max": _extreme(np.max), "Min": _extreme(np.min),
    "L1": _of_each(np.abs, False), "L2": _and_then(_squares, np.sqrt), "SumSquare": _squares,
    "EuclideanNorm": _and_then(_squares, np.sqrt),
    "LogSum": _and_then(added, np.log), "LogSumExp": _log_sum_exp, "All": _logical(np.all),
    "Any": _logical(np.any),
}  # fmt: skip
_TENSORFLOW = ("Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm")
_ASCEND = ("Sum", "Mean", "Prod", "Max", "Min", "All", "Any")
_OF_ASCEND = (
    *("Reduce%s%s" % (name, form) for name in _ASCEND for form in ("", "D")),
    "ReduceLogSum", "ReduceLogSumExp", "EuclideanNorm", "EuclideanNormD",
)  # fmt: skip
_OF_ONNX = tuple(
    "Reduce" + name
    for name in (
        "Sum",
        "Mean",
        "Prod",
        "Max",
        "Min",
        "L1",
        "L2",
        "SumSquare",
        "LogSum",
        "LogSumExp",
    )
)


def along(
    reduce: Reduce, x: Value, axes: Sequence[int], keep: bool, arithmetic: Arithmetic
) -> Value:
    """Reduce axes, in one, by a function of the last axis."""
    ndim = x.array.ndim
    reduced_axes = sorted({axis_of(axis, ndim) for axis in axes})
    other_axes = [axis for axis in range(ndim) if axis not in reduced_axes]
    shape = x.array.shape
    count = int(np.prod([shape[axis] for axis in reduced_axes], dtype=np.int64))

    def last(array: Array) -> Array:
        return np.transpose(array, (*other_axes, *reduced_axes)).reshape(
            (*(shape[axis] for axis in other_axes), count)
        )

    reduced = reduce(
        Value(last(x.array), None if x.error is None else last(_error_of(x))), arithmetic
    )
    if not keep:
        return reduced
    whole_shape = tuple(1 if axis in reduced_axes else size for axis, size in enumerate(shape))
    error = (
        None
        if reduced.error is None
        else np.broadcast_to(reduced.error, reduced.array.shape).reshape(whole_shape)
    )
    return Value(reduced.array.reshape(whole_shape), error)


def _parts_of_kept_axes(
    node: Node, shapes: Sequence[Optional[Shape]], values: Values
) -> Optional[Parts]:
    """Parts of reductions with constant axes: along the other axes."""
    x, axes_value = (
        shapes[0] if shapes else None,
        node.get("axes", values[1] if len(values) > 1 else None),
    )
    if x is None or axes_value is None or not np.size(axes_value):
        return None
    reduced_axes = {axis_of(axis, len(x)) for axis in listed(axes_value)}
    keep = bool(node.get("keepdims", 1) if node.dialect == ONNX else node.get("keep_dims", False))
    output_axes = [axis for axis in range(len(x)) if keep or axis not in reduced_axes]
    axes: Dict[int, Along] = {
        place: (Window(axis), *(None,) * (len(shapes) - 1))
        for place, axis in enumerate(output_axes)
        if axis not in reduced_axes
    }
    return Parts(tuple(1 if axis in reduced_axes else x[axis] for axis in output_axes), axes)


@operator(
    onnx=_OF_ONNX, tensorflow=_TENSORFLOW, ascend=_OF_ASCEND, sums=True, parts=_parts_of_kept_axes
)
def reduction(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Reduce axes, which are an attribute or an input; ONNX reduces all where none are named,
    TensorFlow none.
    """
    x = input_at(inputs, 0)
    name = node.type
    if name not in _RULES:
        name = name[len("Reduce") :]
        name = name if name in _RULES else name[:-1]
    if node.type == "EuclideanNormD":
        name = "EuclideanNorm"
    axes = _axes(node, inputs)
    if axes is None or (not axes and node.dialect == ONNX):
        if node.get("noop_with_empty_axes", 0):
            return [
                along(
                    _RULES[name], Value(x.array[..., None], _with_axis(x)), [-1], False, arithmetic
                )
            ]
        axes = list(range(x.array.ndim))
    if not axes and node.dialect == ASCEND and x.array.ndim:
        raise CannotCompute("whether it reduces all axes or none where none are named is not known")
    if not axes and node.dialect == TENSORFLOW and name == "EuclideanNorm":
        # TensorFlow returns what it is not to reduce as it is, negative values too.
        return [x]
    keep = bool(node.get("keepdims", 1) if node.dialect == ONNX else node.get("keep_dims", False))
    return [along(_RULES[name], x, axes, keep, arithmetic)]


def _with_axis(x: Value) -> Optional[Array]:
    return None if x.error is None else _error_of(x)[..., None]


def _axes(node: Node, inputs: Inputs) -> Optional[List[int]]:
    """Return the axes; None where none are named."""
    if "axes" in node.attributes:
        return listed(node.get("axes"))
    if node.dialect == ASCEND and node.type.endswith("D"):
        return listed(node.get("axes"))
    if node.dialect == ONNX and (len(inputs) < 2 or inputs[1] is None):
        return None
    return whole(inputs, 1)


@operator(tensorflow=("L2Loss",), ascend=("L2Loss",), sums=True)
def half_of_squares(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add all squares and halve the sum."""
    x = input_at(inputs, 0)
    total = along(_squares, x, range(x.array.ndim), False, arithmetic)
    return [elementwise(lambda array: array / 2.0, total)]


@operator(caffe=("Reduction",), ascend=("Reduction",), sums=True)
def reduction_layer(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Reduce all axes from ``axis`` on: the sum, that of magnitudes or of squares, or the mean,
    times ``coeff``.
    """
    x = input_at(inputs, 0)
    operation = node.get("operation", "SUM" if node.dialect == CAFFE else 1)
    operation = {1: "SUM", 2: "ASUM", 3: "SUMSQ", 4: "MEAN"}.get(operation, operation)
    rule = {"SUM": "Sum", "ASUM": "L1", "SUMSQ": "SumSquare", "MEAN": "Mean"}.get(operation)
    if rule is None:
        raise CannotCompute("its operation %s is not known" % operation)
    first, coeff = axis_of(int(node.get("axis", 0)), x.array.ndim), float(node.get("coeff", 1.0))
    reduced = along(_RULES[rule], x, range(first, x.array.ndim), False, arithmetic)
    return [
        reduced
        if coeff == 1.0
        else elementwise(lambda array: array * coeff, reduced, steps=arithmetic.intermediate)
    ]


@operator(
    onnx=("CumSum", "CumProd"),
    tensorflow=("Cumsum", "Cumprod"),
    ascend=("Cumsum", "CumsumD", "Cumprod", "CumprodD"),
    sums=True,
)
def running(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Add or multiply up along an axis, without each element itself (``exclusive``), from behind
    (``reverse``).
    """
    x = input_at(inputs, 0)
    axes = listed(node.get("axis")) if node.type.endswith("D") else whole(inputs, 1)
    axis = axis_of(axes[0], x.array.ndim)
    turned, product = bool(node.get("reverse", 0)), "prod" in node.type.lower()
    start = 1 if product else 0

    def run(array: Array, function: Callable[..., Array], first: Any) -> Array:
        front = np.moveaxis(array, axis, -1)
        front = front[..., ::-1] if turned else front
        if node.get("exclusive", 0):
            front = np.concatenate([np.full_like(front[..., :1], first), front[..., :-1]], -1)
        front = function(front, axis=-1, dtype=front.dtype)
        return np.moveaxis(front[..., ::-1] if turned else front, -1, axis)

    result = run(_floats_as_float64(x.array), np.cumprod if product else np.cumsum, start)
    if not x.is_float:
        return [Value(result)]
    if product:
        if x.error is not None:
            raise CannotCompute("how errors of its input reach a running product is not known")
        number = run(np.ones(x.array.shape), np.cumsum, 0.0)
        return [Value(result, np.abs(result) * arithmetic.intermediate * np.sqrt(number / 3.0))]
    # Each partial sum is rounded once.
    parts: List[Array] = []
    if arithmetic.accumulator:
        parts.append(arithmetic.accumulator * np.sqrt(_running_squares(result, axis, turned) / 3.0))
    if x.error is not None:
        parts.append(np.sqrt(run(np.square(_error_of(x)), np.cumsum, 0.0)))
    return [Value(result, joined_errors(*parts))]


def _running_squares(partial: Array, axis: int, turned: bool) -> Array:
    squares = np.moveaxis(np.square(partial), axis, -1)
    squares = np.cumsum(squares[..., ::-1] if turned else squares, axis=-1)
    return np.moveaxis(squares[..., ::-1] if turned else squares, -1, axis)


def _other_axes(node: Node, inputs: Inputs) -> List[List[int]]:
    """each other axes"""
    x, axes = inputs[0], _axes(node, inputs)
    if x is None or axes is None:
        return []
    negative = any(axis < 0 for axis in axes)
    counts = [*range(len(axes), 0, -1)] if "axes" in node.attributes else [len(axes)]
    return [
        [axis - x.array.ndim if negative else axis for axis in chosen]
        for count in counts
        for chosen in combinations(range(x.array.ndim), count)
        if {axis % x.array.ndim for axis in axes} != set(chosen)
    ]


_REDUCTIONS = (
    "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp ReduceSumSquare"
)
declare(
    _REDUCTIONS,
    attribute("axes", _other_axes),
    whole_input(1, "axes", _other_axes),
    other_function(*(Function(kind) for kind in _REDUCTIONS.split()), keeps=True),
)


def _other_means(node: Node, inputs: Inputs) -> Iterator[Any]:
    """Yield functions that are no operator of their own."""
    means: Sequence[Tuple[str, Reduce]] = (
        ("the median", _extreme(np.median)),
        ("the mean of squares", _and_means(np.square, np.abs)),
        ("the root of the mean of squares", _and_means(np.square, np.sqrt)),
        ("the mean of magnitudes", _and_means(np.abs, np.abs)),
    )
    for words, reduce in means:

        def made(given: Inputs, arithmetic: Arithmetic, reduce: Reduce = reduce) -> List[Value]:
            x = input_at(given, 0)
            if node.type == "GlobalAveragePool":
                return [along(reduce, x, range(2, x.array.ndim), True, arithmetic)]
            axes = _axes(node, given) or range(x.array.ndim)
            return [along(reduce, x, axes, bool(node.get("keepdims", 1)), arithmetic)]

        yield words, node.type, made


def _and_means(before: Callable[[Array], Array], after: Callable[[Array], Array]) -> Reduce:
    def reduced(x: Value, arithmetic: Arithmetic) -> Value:
        each = elementwise(before, x, steps=arithmetic.intermediate)
        return elementwise(after, _mean(each, arithmetic), steps=arithmetic.intermediate)

    return reduced


declare(
    "ReduceMean GlobalAveragePool",
    computed_instead(
        "",
        "the median, the mean of squares or its root, that of magnitudes",
        _other_means,
    ),
)


def _both_exchanged(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """both otherwise"""
    own = [int(node.get(name, 0)) for name in ("exclusive", "reverse")]
    other = [1 - flag for flag in own]
    attributes = {**node.attributes, "exclusive": other[0], "reverse": other[1]}
    yield text_of(other), text_of(own), replace(node, attributes=attributes)


declare(
    "CumSum CumProd",
    attribute("exclusive", (0, 1), 0),
    attribute("reverse", (0, 1), 0),
    whole_input(1, "axis", each_axis),
    other_node("exclusive and reverse", _both_exchanged),
)

declare(
    "Mean Sum Max Min Prod",
    whole_input(1, "axes", _other_axes),
    other_function(
        *(Function(kind, dialect=TENSORFLOW) for kind in ("Mean", "Sum", "Max", "Min", "Prod")),
        keeps=True,
    ),
    dialect=TENSORFLOW,
)
declare("Reduction", attribute("operation", ("SUM", "ASUM", "SUMSQ", "MEAN"), "SUM"), dialect=CAFFE)
declare(
    "Cumsum Cumprod",
    whole_input(1, "axis", each_axis),
    attribute("exclusive", (False, True), False),
    attribute("reverse", (False, True), False),
    dialect=TENSORFLOW,
)
