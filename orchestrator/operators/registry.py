"""Operators by dialect and type: a function that computes each, and what kind of operator it is."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import field
from importlib import import_module
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ..base.fast_dataclasses import dataclass
from .splittable_axes import Parting, Parts, Shape, Values
from .value_with_error import Arithmetic, Value

ONNX, CAFFE, TENSORFLOW, ASCEND = "onnx", "caffe", "tensorflow", "ascend"

Array = Any
Inputs = Sequence[Optional[Value]]
Compute = Callable[["Node", Inputs, Arithmetic], List[Value]]
Check = Callable[["Node", Inputs, Arithmetic, Sequence[Optional[Array]]], List[Optional[Array]]]

_REQUIRED: Any = object()


class CannotCompute(Exception):
    """Why an operator cannot be computed; its text is shown behind the operator's name.

    Attributes
    ----------
    code
        By which programs recognise the reason; mostly empty.
    """

    code = ""


class InTraining(CannotCompute):
    """It learns (the statistics of the batch, a random mask): an om has no such operator."""

    code = "in_training"

    def __init__(self, operator: str = "it", more: str = "") -> None:
        super().__init__("%s is in training mode%s" % (operator, more))


@dataclass(frozen=True)
class Node:
    """An operator of a model, as a dialect describes it.

    Attributes
    ----------
    dialect
        ``onnx``, ``caffe``, ``tensorflow`` or ``ascend`` (Ascend IR).
    type
        As the dialect spells it: ``Conv``, ``Convolution``, ``Conv2D``.
    attributes
        By the dialect's names. Numbers, str, lists of these, ndarrays. Of Caffe the fields of the
        layer's own parameter message, enums as their names, repeated fields always as lists.
    name
        For messages.
    version
        Of ONNX the opset of the node's domain; else 0.
    outputs
        How many outputs are wanted.
    layouts
        Of Ascend IR and TensorFlow the original formats (``NCHW``, ``NHWC``, ``HWCN``, ``ND``) of
        the inputs as they are given; empty where not known.
    """

    dialect: str
    type: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    version: int = 0
    outputs: int = 1
    layouts: Tuple[str, ...] = ()

    def get(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return an attribute.

        Raises
        ------
        CannotCompute
            It is not there and there is no default: what an operator does without it would be a
            guess.
        """
        if name in self.attributes:
            return self.attributes[name]
        if default is _REQUIRED:
            raise CannotCompute("its attribute %s is not known" % name)
        return default


@dataclass(frozen=True)
class Operator:
    """How an operator is computed.

    Attributes
    ----------
    name
        The function's, for messages and tests.
    compute
        Returns the outputs of a node, each a :class:`Value`.
    moves
        It only moves or copies its first input's values (Transpose, Reshape, Concat, Slice, Pad …):
        its output is exact.
    decides
        Its output is a decision (ArgMax, TopK, comparisons, casts to whole numbers, rounding),
        which may go either way near a tie.
    sums
        It adds products or many values (convolutions, MatMul, pooling by average, reductions): its
        error depends on the accumulator.
    multiplies
        What it adds are products, whose factors a cube unit may shorten (convolutions, products of
        matrices, recurrent layers).
    counts
        Its output is a decision whose length depends on values, too (NonZero, Unique,
        NonMaxSuppression).
    parts
        Along which axes its first output can be computed in parts; None: it is computed whole.
    check
        Of an operator that decides: tells which elements of a device's outputs do not follow from
        its inputs. None: unequal ones.
    """

    name: str
    compute: Compute
    moves: bool = False
    decides: bool = False
    sums: bool = False
    multiplies: bool = False
    counts: bool = False
    parts: Optional[Parting] = None
    check: Optional[Check] = None


_OPERATORS: Dict[Tuple[str, str], Operator] = {}

_MODULES = (
    "elementwise",
    "activations",
    "convolution_operators",
    "matrix_products",
    "normalising",
    "reshaping",
    "softmax",
    "reducing",
    "joining_and_slicing",
    "pooling",
    "batch_normalisation",
    "casting_and_quantising",
    "indexing",
    "comparing_and_rounding",
    "ordering",
    "resizing",
    "shapes_and_constants",
    "whole_numbers",
    "attention",
    "recurrent_onnx",
    "recurrent_caffe_tf_ascend",
    "detection",
    "box_suppression",
    "sampling",
    "caffe_only_layers",
    "caffe_losses",
)
"""The modules that register operators, those of which networks have most first: they are imported
until a type is found."""


def operator(
    onnx: Sequence[str] = (),
    caffe: Sequence[str] = (),
    tensorflow: Sequence[str] = (),
    ascend: Sequence[str] = (),
    *,
    moves: bool = False,
    decides: bool = False,
    sums: bool = False,
    multiplies: bool = False,
    counts: bool = False,
    parts: Optional[Parting] = None,
    check: Optional[Check] = None,
) -> Callable[[Compute], Compute]:
    """Register a function as the computation of operators with these spellings; see
    :class:`Operator` for the rest. What multiplies also sums.
    """

    def register(function: Compute) -> Compute:
        entry = Operator(
            function.__name__,
            function,
            moves=moves,
            decides=decides,
            sums=sums or multiplies,
            multiplies=multiplies,
            counts=counts,
            parts=parts,
            check=check,
        )
        for dialect, types in (
            (ONNX, onnx),
            (CAFFE, caffe),
            (TENSORFLOW, tensorflow),
            (ASCEND, ascend),
        ):
            for spelling in types:
                key = (dialect, spelling)
                if key in _OPERATORS:
                    raise ValueError(
                        "%s %s is registered twice: %s, %s"
                        % (*key, _OPERATORS[key].name, entry.name)
                    )
                _OPERATORS[key] = entry
        return function

    return register


_REGISTERING = threading.RLock()


def find(dialect: str, kind: str) -> Optional[Operator]:
    """Return the operator of a type; None if it cannot be computed."""
    register_operators((dialect, kind))
    return _OPERATORS.get((dialect, kind))


def register_operators(until: Optional[Tuple[str, str]] = None) -> None:
    """Import the modules that register operators: all, or until there is one of a dialect and
    type.
    """
    # Another thread may have imported half of a module, whose operators call its other half.
    with _REGISTERING:
        for name in _MODULES:
            if until in _OPERATORS:
                break
            import_module("." + name, __package__)


def parts_of(node: Node, shapes: Sequence[Optional[Shape]], values: Values) -> Optional[Parts]:
    """Return how a node can be computed in parts whose inputs have these shapes (None: no such
    input) and, where the model holds them, values; None where in none, or that is not known.
    """
    entry = find(node.dialect, node.type)
    try:
        return None if entry is None or entry.parts is None else entry.parts(node, shapes, values)
    except (CannotCompute, IndexError, ValueError):
        return None


def spellings(dialect: str) -> List[str]:
    """Return all types of a dialect that can be computed, sorted."""
    register_operators()
    return sorted(kind for known_dialect, kind in _OPERATORS if known_dialect == dialect)


def same_operator(kind: str) -> Tuple[str, str]:
    """Return the dialect and type of ONNX or TensorFlow that a type of Ascend IR computes as well;
    its own where there is none.
    """
    register_operators()
    entry = _OPERATORS.get((ASCEND, kind))
    alike = [
        key for key, other in _OPERATORS.items() if other is entry and key[0] in (ONNX, TENSORFLOW)
    ]

    def far(key: Tuple[str, str]) -> Tuple[bool, bool]:
        return not kind.lower().startswith(key[1].lower()), key[0] != ONNX

    return min(alike, key=far, default=(ASCEND, kind))


UNFIT = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
"""What a formula raises for inputs or attributes that do not fit: those of a damaged model, and
those that a variant changes on purpose."""


def compute(
    node: Node, inputs: Sequence[Union[Value, Array, None]], arithmetic: Optional[Arithmetic] = None
) -> List[Value]:
    """Compute a node.

    Parameters
    ----------
    inputs
        In the dialect's order: arrays in the layout that the node's attributes speak of, None for
        an optional input that is not there. Floats narrower than float32 are widened.

    Returns
    -------
    list of Value
        As many outputs as the operator has; None never.

    Raises
    ------
    CannotCompute
        The operator is not known, an attribute is missing or has a value that is not known, or the
        inputs do not fit.
    """
    entry = _require(node)
    try:
        with np.errstate(all="ignore"):
            return entry.compute(node, _values(inputs), arithmetic or Arithmetic())
    except UNFIT as error:
        raise _misfit(node, inputs, error) from error


def check(
    node: Node,
    inputs: Sequence[Union[Value, Array, None]],
    outputs: Sequence[Optional[Array]],
    arithmetic: Optional[Arithmetic] = None,
) -> List[Optional[Array]]:
    """Tell, of an operator that decides, which elements of its outputs do not follow from its
    inputs.

    Parameters
    ----------
    outputs
        The device's; None where one is not known.

    Returns
    -------
    list
        For each output an array of bool, True where an element does not follow; None where the
        output was not given. Of an operator whose output has another length on the device, flat:
        what is on one side alone.

    Raises
    ------
    CannotCompute
        As of :func:`compute`.
    """
    entry = _require(node)
    values = _values(inputs)
    try:
        with np.errstate(all="ignore"):
            if entry.check is not None:
                return entry.check(node, values, arithmetic or Arithmetic(), outputs)
            right = entry.compute(node, values, arithmetic or Arithmetic())
            return [
                None
                if actual is None
                else _on_one_side_alone(np.asarray(actual), value.array)
                if entry.counts and np.shape(actual) != value.array.shape
                else np.asarray(actual) != value.array
                for actual, value in zip(outputs, right)
            ]
    except UNFIT as error:
        raise _misfit(node, values, error) from error


def _misfit(
    node: Node, inputs: Sequence[Union[Value, Array, None]], error: Exception
) -> CannotCompute:
    """Return in our own words that a formula cannot be computed of inputs; another fault than one
    of shapes is told as Python tells it.
    """
    if not isinstance(error, ValueError):
        return CannotCompute("%s: %s" % (type(error).__name__, " ".join(str(error).split())[:200]))
    values = (value for value in _values(inputs) if value is not None)
    shapes = " and ".join(str(list(value.array.shape)) for value in values)
    return CannotCompute("%s cannot be computed of inputs of the shapes %s" % (node.type, shapes))


def _on_one_side_alone(actual: Array, computed: Array) -> Array:
    """Return, of two outputs of other lengths, for each entry of either whether only one of them
    has it; bool, flat.

    Where a device's buffer for the most that there can be begins with what is computed, in the
    order of its memory or along the axis, what stands behind it says nothing.
    """
    sizes = enumerate(zip(actual.shape, computed.shape))
    apart = [axis for axis, (own, other) in sizes if own != other]
    if actual.ndim != computed.ndim or len(apart) != 1:
        raise CannotCompute(
            "its output has the shape %s, what is computed %s"
            % (list(actual.shape), list(computed.shape))
        )
    mine, theirs = (
        np.moveaxis(side, apart[0], 0).reshape(side.shape[apart[0]], -1).astype(np.float64)
        for side in (actual, computed)
    )
    if np.array_equal(mine[: len(theirs)], theirs) or np.array_equal(
        actual.reshape(-1)[: computed.size], computed.reshape(-1)
    ):
        return np.zeros(len(theirs), bool)
    counted = [Counter(map(bytes, side)) for side in (mine, theirs)]
    alone = sum(((counted[0] - counted[1]) + (counted[1] - counted[0])).values())
    common = sum((counted[0] & counted[1]).values())
    # Of the same entries in another order at least one is elsewhere.
    return np.arange(alone + common) < max(1, alone)


def _require(node: Node) -> Operator:
    entry = find(node.dialect, node.type)
    if entry is None:
        raise CannotCompute("%s is no operator that can be computed here" % node.type)
    return entry


def input_at(inputs: Inputs, number: int) -> Value:
    """Return an input that an operator cannot do without.

    Raises
    ------
    CannotCompute
        It is not there.
    """
    value = inputs[number] if number < len(inputs) else None
    if value is None:
        raise CannotCompute("its input %d is not known" % number)
    return value


def whole(inputs: Inputs, number: int) -> List[int]:
    """Return the whole numbers that an input holds (axes, shapes, sizes), flat.

    Raises
    ------
    CannotCompute
        The input is not there or does not hold whole numbers.
    """
    array = input_at(inputs, number).array
    if not np.array_equal(array, np.rint(array)):
        raise CannotCompute("its input %d holds no whole numbers" % number)
    return [int(entry) for entry in array.ravel()]


def scalar(inputs: Inputs, number: int) -> int:
    """Return the one whole number that an input holds; raises CannotCompute where it holds none or
    several.
    """
    numbers = whole(inputs, number)
    if len(numbers) != 1:
        raise CannotCompute("its input %d has %d numbers instead of one" % (number, len(numbers)))
    return numbers[0]


def has_input(inputs: Inputs, number: int) -> bool:
    """Return whether an optional input is there."""
    return number < len(inputs) and inputs[number] is not None


def listed(value: Any) -> List[int]:
    """Return an attribute that is a whole number or several of them as a list."""
    return [int(entry) for entry in np.asarray(value).ravel()]


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


def channel_axis(node: Node, ndim: int) -> int:
    """Return the axis of the channels: the last one of NHWC and NDHWC, else the second."""
    return ndim - 1 if node.layouts and node.layouts[0] in ("NHWC", "NDHWC") else 1


def _values(inputs: Sequence[Union[Value, Array, None]]) -> List[Optional[Value]]:
    """Return inputs as values; one object that is given twice stays one object."""
    converted: Dict[int, Optional[Value]] = {}
    for entry in inputs:
        if id(entry) not in converted:
            converted[id(entry)] = _value(entry)
    return [converted[id(entry)] for entry in inputs]


def _value(entry: Union[Value, Array, None]) -> Optional[Value]:
    if entry is None:
        return None
    value = entry if isinstance(entry, Value) else Value(np.asarray(entry))
    array = value.array
    if array.dtype.kind == "f" and array.dtype.itemsize < 4:
        return Value(array.astype(np.float32), value.error)
    return value
