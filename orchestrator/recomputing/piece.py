"""A piece: the original nodes of one device op, computed from the device's own inputs and the
original model's weights, whole or in parts.
"""

from __future__ import annotations

import copy
from typing import (
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import numpy as np

from .. import operators
from ..operators import Arithmetic, CannotCompute, Node, Value
from ..operators.comparing_and_rounding import COMPARISONS
from ..operators.splittable_axes import Parts, Window
from ..operators.variants import (
    Variant,
)
from ..tensors.type_precision import ROUNDING, ulp
from .original_nodes import Argument, Array, Call, Nodes
from .recomputed_output import NotComputable
from .submodel.cut_definition import Cut

EXACT = Arithmetic(0.0, 0.0, 0.0, 0.0)
"""Arithmetic without rounding inside: values without errors."""
Shape = Tuple[Optional[int], ...]

_FACTORS = frozenset(
    "Mul Div BatchNormalization BatchNorm Scale FusedBatchNorm FusedBatchNormV2 "
    "FusedBatchNormV3 RealDiv".split()
)
"""Nodes that the compiler folds into the filter of the convolution or MatMul before them."""
_SCALED = ("Resize", "Upsample")
"""Nodes whose constants are no weights: their scales."""
Key = Tuple[int, int]
"""A value: its node, and which of its outputs."""


class CutCall(NamedTuple):
    """How a node is computed in parts: along which axis of its output, and for each of its inputs
    which value it is and how it goes along.

    The value is None of what the model holds; the window of what is needed whole.
    """

    axis: int
    inputs: Tuple[Tuple[Optional[Key], Optional[Window]], ...]


class Cuts(NamedTuple):
    """How values are cut to compute an output in parts along one of its axes.

    Attributes
    ----------
    output
        What is computed.
    inputs
        Of each value that comes in the axis that is cut; None: it is needed whole.
    calls
        By node, each before all that it reads.
    sizes
        Of each value that is cut: of its axis.
    """

    output: Key
    inputs: Mapping[Key, Optional[int]]
    calls: Mapping[int, CutCall]
    sizes: Mapping[Key, int]

    @property
    def length(self) -> int:
        """Of the output's axis."""
        return self.sizes[self.output]

    def part(self, first: int, last: int) -> Part:
        """Return the part of the output from ``first`` to before ``last``."""
        ranges = {self.output: (first, last)}
        for number, call in self.calls.items():
            for value, window in call.inputs:
                if window is not None and value is not None:
                    begin, end = self.needed(number, ranges[number, 0], window, self.sizes[value])
                    before = ranges.get(value, (begin, end))
                    ranges[value] = min(begin, before[0]), max(end, before[1])
        return Part(self, first, last, ranges)

    def needed(
        self, number: int, outputs: Tuple[int, int], window: Window, size: int
    ) -> Tuple[int, int]:
        """Return what a node needs of an input for some outputs."""
        return window.needed(outputs[0], outputs[1], self.sizes[number, 0], size)


class Part(NamedTuple):
    """A part of an output: from ``first`` to before ``last`` along the axis that ``cuts`` is for;
    ``ranges``: of each value that is cut.
    """

    cuts: Cuts
    first: int
    last: int
    ranges: Mapping[Key, Tuple[int, int]]

    def of_input(self, number: int, place: int, value: Value) -> Value:
        """Return the part of an input that a node needs."""
        key, window = (
            self.cuts.calls[number].inputs[place] if number in self.cuts.calls else (None, None)
        )
        if window is None:
            return value
        size = value.array.shape[window.axis] if key is None else self.cuts.sizes[key]
        begin, end = self.cuts.needed(number, self.ranges[number, 0], window, size)
        offset = 0 if key is None else self.ranges[key][0]
        return _slice_along(value, window.axis, begin - offset, end - offset)

    def of_output(self, number: int, value: Value) -> Value:
        """Return the part of a node's first output to compute: larger before windows, and invalid
        at its borders.
        """
        if number not in self.cuts.calls:
            return value
        call, (first, last) = self.cuts.calls[number], self.ranges[number, 0]
        for key, window in call.inputs:
            if window is not None and key is not None and window != Window(window.axis):
                begin, _ = self.cuts.needed(number, (first, last), window, self.cuts.sizes[key])
                return _slice_along(
                    value, call.axis, first - begin // window.stride, last - begin // window.stride
                )
        return value


def _slice_along(value: Value, axis: int, first: int, last: int) -> Value:
    if (first, last) == (0, value.array.shape[axis]):
        return value
    at = (slice(None),) * axis + (slice(first, last),)
    return Value(
        value.array[at],
        None if value.error is None else np.broadcast_to(value.error, value.array.shape)[at],
    )


class Piece:
    """The nodes that one device op was made from.

    Parameters
    ----------
    cut
        The nodes and what crosses their border.
    nodes
        The original model's nodes.
    order
        Numbers of its nodes, each behind all that it reads.
    dtype
        The element type in which the device computes, as in the DataType column.

    Raises
    ------
    NotComputable
        An operator is not known.
    """

    def __init__(self, cut: Cut, nodes: Nodes, order: Sequence[int], dtype: str) -> None:
        self.cut = cut
        inside = set(cut.layers)
        kept_nodes = {entry.value[0] for entry in cut.inputs if entry.unchanged}
        self.calls: List[Tuple[int, Call]] = [
            (number, nodes.call(number)) for number in order if number in inside - kept_nodes
        ]
        self.dtype = dtype
        self._exchanged: Dict[int, Variant] = {}
        self._constants = set(cut.pulled)
        # What the model holds, as the device has it: by node, input (-1: the node is a constant),
        # and whether with its error.
        self._held: Dict[Tuple[int, int, bool], Value] = {}
        self._rounds_numbers = False
        self._pulled: Dict[bool, Dict[Tuple[int, int], Value]] = {}
        for _, call in self.calls:
            if call.constant is None and operators.find(call.node.dialect, call.node.type) is None:
                raise NotComputable("%s is no operator that can be computed here" % call.node.type)

    @property
    def computed(self) -> List[Tuple[int, Call]]:
        """Its nodes but for those that are constants, or computed of constants alone."""
        return [
            (number, call)
            for number, call in self.calls
            if call.constant is None and number not in self._constants
        ]

    @property
    def largest_constant(self) -> float:
        """The largest finite magnitude of its constants as the device holds them."""
        arrays = [
            entry
            for _, call in self.calls
            for entry in (call.constant, *call.arguments)
            if isinstance(entry, np.ndarray)
        ]
        sizes = [np.abs(entry) for entry in arrays if entry.dtype.kind == "f" and entry.size]
        return max(
            (float(np.max(size, where=np.isfinite(size), initial=0.0)) for size in sizes),
            default=0.0,
        )

    @property
    def adds(self) -> bool:
        """Whether one of its nodes adds products or many values."""
        return any(is_marked(call.node, "sums") for _, call in self.calls)

    @property
    def multiplies(self) -> bool:
        """Whether one of its nodes adds products."""
        return any(is_marked(call.node, "multiplies") for _, call in self.calls)

    @property
    def moves(self) -> bool:
        """Whether all its nodes only move values."""
        return all(is_marked(call.node, "moves") for _, call in self.computed)

    @property
    def decides(self) -> bool:
        """Whether its last node decides."""
        return bool(self.calls) and is_marked(self.calls[-1][1].node, "decides")

    @property
    def counts(self) -> bool:
        """Whether it is one node, the length of whose outputs depends on values."""
        nodes = [call.node for _, call in self.computed]
        return len(nodes) == 1 and is_marked(nodes[0], "counts")

    @property
    def writes_otherwise(self) -> bool:
        """Whether what its node of :meth:`with_variant` makes is not what a node of its type
        makes."""
        return any(
            variant.outputs is not None or variant.instead is not None
            for variant in self._exchanged.values()
        )

    def values(
        self,
        incoming: Mapping[Tuple[int, int], Array],
        arithmetic: Arithmetic,
        part: Optional[Part] = None,
    ) -> Dict[Tuple[int, int], Value]:
        """Compute all values inside.

        Parameters
        ----------
        incoming
            The values that come in; of a part theirs.
        part
            Which part of the output is computed; None: all.

        Raises
        ------
        CannotCompute
            An attribute is not known, or the shapes do not fit.
        """
        values_by_key: Dict[Tuple[int, int], Value] = {
            value: Value(array) for value, array in incoming.items()
        }
        values_by_key.update(self._of_constants(arithmetic))
        for number, call in self.calls:
            if (number, 0) in values_by_key:
                continue
            inputs = self._inputs(number, call, values_by_key, arithmetic, part)
            exchanged = self._exchanged.get(number)
            if exchanged is not None and isinstance(exchanged.inputs, Reads):
                reads = exchanged.inputs
                inputs = self._inputs(reads.number, reads.call, values_by_key, arithmetic, part)
            outputs = (
                operators.compute(call.node, inputs, arithmetic)
                if exchanged is None
                else exchanged.compute(inputs, arithmetic)
            )
            for index, value in enumerate(outputs):
                value = value if part is None or index else part.of_output(number, value)
                values_by_key[number, index] = (
                    value
                    if number in self._constants or is_marked(call.node, "moves")
                    else value.with_step(arithmetic.intermediate)
                )
        return values_by_key

    def _of_constants(self, arithmetic: Arithmetic) -> Dict[Tuple[int, int], Value]:
        """Return what is computed of constants alone, once for all parts."""
        exact = arithmetic == EXACT
        if exact not in self._pulled:
            values_by_key: Dict[Tuple[int, int], Value] = {}
            for number, call in self.calls:
                if call.constant is not None:
                    readers = self._readers(number)
                    as_is = readers <= self._folds() | self._constants
                    compared = all(map(self._only_compares, readers))
                    held = self._as_held(call.constant, as_is, exact, compared)
                    values_by_key[number, 0] = held
                elif number in self._constants and all(
                    value in values_by_key for value in call.arguments if isinstance(value, tuple)
                ):
                    # Others are of shapes that are known only with the values that come in.
                    outputs = operators.compute(
                        call.node,
                        self._inputs(number, call, values_by_key, arithmetic, None),
                        arithmetic,
                    )
                    values_by_key.update(
                        {(number, index): value for index, value in enumerate(outputs)}
                    )
            self._pulled[exact] = values_by_key
        return self._pulled[exact]

    def inputs_of_last(
        self, values_by_key: Mapping[Tuple[int, int], Value], part: Optional[Part]
    ) -> Tuple[Node, List[Optional[Value]]]:
        """Return the last node and its inputs, once all values are computed."""
        number, call = self.calls[-1]
        inputs = self._inputs(number, call, values_by_key, Arithmetic(), part)
        exchanged = self._exchanged.get(number)
        if exchanged is None:
            return call.node, inputs
        return exchanged.node, inputs if exchanged.inputs is None else exchanged.inputs(inputs)

    def held(
        self, values_by_key: Mapping[Key, Value]
    ) -> Iterator[Tuple[int, Node, List[Optional[Value]], List[bool]]]:
        """Yield its nodes, the last first, each with its number, its inputs, and which of these the
        model holds.
        """
        for number, call in reversed(self.computed):
            inputs = self._inputs(number, call, values_by_key, EXACT, None)
            yield number, call.node, inputs, [self.holds(argument) for argument in call.arguments]

    def holds(self, argument: Argument) -> bool:
        """Tell whether the model holds what a node reads."""
        return isinstance(argument, np.ndarray) or (
            isinstance(argument, tuple) and argument[0] in self._constants
        )

    def zeros_of(self, incoming: Mapping[Key, Array], output: Key) -> str:
        """Return what makes zeros of an output where it is 0, in words; empty where nothing does.

        Parameters
        ----------
        incoming
            The values that come in.
        """
        for _, node, inputs, held in self.held(self.values(incoming, EXACT)):
            is_float = (one is not None and one.is_float for one in inputs)
            if any(map(all, zip(held, is_float))) and node.type not in _SCALED:
                return "weights or inputs"
        zeros = {value: np.zeros_like(array) for value, array in incoming.items()}
        try:
            made = self.values(zeros, EXACT)[output].array
        except (CannotCompute, KeyError):
            return "inputs"
        return "" if np.any(made) else "inputs"

    def with_variant(self, number: int, variant: Variant) -> Piece:
        """Return the piece with one of its nodes computed otherwise."""
        changed = copy.copy(self)
        changed._exchanged = {number: variant}
        return changed

    def with_rounded_numbers(self) -> Optional[Piece]:
        """Return the piece with each constant of one number rounded to the device's type: all
        elements share what that changes. None where it changes none.
        """
        numbers = (
            entry
            for _, call in self.calls
            for entry in (call.constant, *call.arguments)
            if isinstance(entry, np.ndarray)
        )
        if all(one.size != 1 or np.array_equal(rounded(one, self.dtype), one) for one in numbers):
            return None
        changed = copy.copy(self)
        changed._held, changed._pulled, changed._rounds_numbers = {}, {}, True
        return changed

    def _inputs(
        self,
        number: int,
        call: Call,
        values_by_key: Mapping[Tuple[int, int], Value],
        arithmetic: Arithmetic,
        part: Optional[Part],
    ) -> List[Optional[Value]]:
        inputs: List[Optional[Value]] = []
        for place, argument in enumerate(call.arguments):
            if argument is None:
                inputs.append(None)
                continue
            if isinstance(argument, tuple):
                if argument not in values_by_key:
                    raise CannotCompute("the value %s is not there" % (argument,))
                value = values_by_key[argument]
            else:
                value = self._constant(number, place, argument, arithmetic == EXACT)
            inputs.append(value if part is None else part.of_input(number, place, value))
        return inputs

    def cuts(
        self, output: Tuple[int, int], shapes: Mapping[Tuple[int, int], Tuple[int, ...]]
    ) -> Dict[int, Cuts]:
        """Return the axes of an output along which it can be computed in parts, each with what is
        cut for it.

        Parameters
        ----------
        shapes
            Of the values that come in.
        """
        shape_of: Dict[Key, Optional[Shape]] = dict(shapes)
        fixed = self._of_constants(EXACT) if self.calls else {}
        shape_of.update({value: tuple(constant.array.shape) for value, constant in fixed.items()})
        parted: Dict[int, Optional[Parts]] = {}
        for number, call in self.calls:
            if (number, 0) in fixed:
                continue
            argument_shapes: List[Optional[Shape]] = []
            values: List[Optional[Array]] = []
            for argument in call.arguments:
                if isinstance(argument, tuple):
                    argument_shapes.append(shape_of.get(argument))
                    values.append(fixed[argument].array if argument in fixed else None)
                else:
                    argument_shapes.append(None if argument is None else np.shape(argument))
                    values.append(argument)
            unknown = any(
                argument is not None and shape is None
                for argument, shape in zip(call.arguments, argument_shapes)
            )
            exchanged = self._exchanged.get(number)
            node = call.node if exchanged is None else exchanged.node
            parted[number] = None if unknown else operators.parts_of(node, argument_shapes, values)
            parts = parted[number]
            shape_of[number, 0] = None if parts is None else parts.shape
        shape = shape_of.get(output)
        cuts_by_axis = {
            axis: self._cut(output, axis, parted, set(fixed), shape_of, shapes)
            for axis in range(len(shape) if shape else 0)
        }
        return {axis: cuts for axis, cuts in cuts_by_axis.items() if cuts is not None}

    def _cut(
        self,
        output: Key,
        axis: int,
        parted: Mapping[int, Optional[Parts]],
        fixed: Set[Key],
        shape_of: Mapping[Key, Optional[Shape]],
        shapes: Mapping[Key, Tuple[int, ...]],
    ) -> Optional[Cuts]:
        """Return what is cut where an output is cut along an axis; None where that cannot be."""
        cut_axes: Dict[Key, Optional[int]] = {output: axis}
        calls: Dict[int, CutCall] = {}
        for number, call in reversed(self.calls):
            if number not in parted or (number, 0) not in cut_axes:
                if number in parted and any(value[0] == number for value in cut_axes):
                    return None
                continue
            parts, along = parted[number], cut_axes[number, 0]
            if parts is None or along is None or along not in parts.axes:
                return None
            inputs: List[Tuple[Optional[Key], Optional[Window]]] = []
            for argument, window in zip(call.arguments, parts.axes[along]):
                input_axis = None if window is None else window.axis
                key = argument if isinstance(argument, tuple) and argument not in fixed else None
                if key is None and window is not None and window != Window(window.axis):
                    return None
                if key is not None and cut_axes.setdefault(key, input_axis) != input_axis:
                    return None
                inputs.append((key, window))
            calls[number] = CutCall(along, tuple(inputs))
        sizes = {}
        for value, input_axis in cut_axes.items():
            shape = shape_of.get(value)
            if input_axis is not None:
                size = shape[input_axis] if shape is not None and input_axis < len(shape) else None
                if size is None:
                    return None
                sizes[value] = size
        return Cuts(output, {value: cut_axes.get(value) for value in shapes}, calls, sizes)

    def _folds(self) -> FrozenSet[int]:
        """Return the nodes whose weights a device holds as they are, but for one rounding: those of
        a sum that nothing is folded into.
        """
        sums = [number for number, call in self.calls if is_marked(call.node, "sums")]
        types = {call.node.type for number, call in self.calls if number not in self._constants}
        return frozenset(sums if len(sums) == 1 and not types & _FACTORS else ())

    @property
    def rounds_once(self) -> bool:
        """Whether only the output's rounding causes an error: weights are as the device holds
        them."""
        return not self.multiplies or bool(self._folds())

    def _constant(self, number: int, place: int, array: Array, exact: bool) -> Value:
        """Return weights as the device holds them: rounded to its type.

        Where the compiler may have folded others into them, or keeps them in float32, nobody knows
        the rounded values: they may be off by one rounding; but for ``exact``, and for numbers that
        its type holds and that are only compared.
        """
        key = (number, place, exact)
        if key not in self._held:
            self._held[key] = self._as_held(
                np.asarray(array),
                number in self._folds() or number in self._constants,
                exact,
                self._only_compares(number),
            )
        return self._held[key]

    def _readers(self, constant: int) -> Set[int]:
        """Return the nodes that read a node Constant."""
        return {
            number
            for number, call in self.calls
            for argument in call.arguments
            if isinstance(argument, tuple) and argument[0] == constant
        }

    def _only_compares(self, number: int) -> bool:
        """Tell whether a node compares what it reads, as it is: nothing is folded into that."""
        return any(at == number and call.node.type in COMPARISONS for at, call in self.calls)

    def weights_as_held(self, number: int, array: Array) -> Array:
        """Return weights as the device holds them where they are those of a node."""
        return self._as_held(array, number in self._folds(), True).array

    def _as_held(self, array: Array, as_is: bool, exact: bool, compared: bool = False) -> Value:
        if array.dtype.kind != "f" or self.dtype not in ROUNDING:
            return Value(array)
        unit = ROUNDING[self.dtype].half_unit
        if (as_is and array.ndim > 1) or (self._rounds_numbers and array.size == 1):
            return Value(rounded(array, self.dtype))
        values = array.astype(np.float32)
        if exact or (compared and np.array_equal(rounded(values, self.dtype), values)):
            return Value(values)
        if values.size == 1 and not self.adds:
            return Value(values, _off_by_rounding(values, self.dtype))
        return Value(values, np.abs(values) * np.float32(unit / np.sqrt(3.0)))


def is_marked(node: Node, mark: str) -> bool:
    """Tell whether the operator of a node is known and has a property, by its name."""
    operator = operators.find(node.dialect, node.type)
    return operator is not None and bool(getattr(operator, mark))


class Reads:
    """The inputs of a node that reads what another one does."""

    def __init__(self, number: int, call: Call) -> None:
        self.number, self.call = number, call

    def __call__(self, given: List[Optional[Value]]) -> List[Optional[Value]]:
        """Return what was read instead."""
        return given


def _off_by_rounding(values: Array, dtype: str) -> Array:
    """Return how far a number may be off that is held in float32 or rounded to a type, it or its
    reciprocal.
    """
    with np.errstate(all="ignore"):
        reciprocal = np.float32(1.0) / rounded(np.float32(1.0) / values, dtype)
    off = [np.abs(held - values) for held in (rounded(values, dtype), reciprocal)]
    return np.max([np.where(np.isfinite(each), each, 0.0) for each in off], 0)


def rounded(values: Array, dtype: str) -> Array:
    """Return floats rounded to a type's nearest numbers, ties to even, as float32 (float64 stays);
    other types' values as they are.

    Values beyond the range become infinite.
    """
    values = np.asarray(values)
    if values.dtype.kind != "f" or dtype not in ROUNDING or dtype == "float64":
        return values
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    if dtype == "float32":
        with np.errstate(over="ignore"):
            return values.astype(np.float32)
    wide = values.astype(np.float64)
    step = ulp(wide, dtype)
    with np.errstate(invalid="ignore"):
        nearest = np.where(np.isfinite(wide), np.rint(wide / step) * step, wide)
        nearest = np.where(
            np.abs(nearest) > ROUNDING[dtype].largest, np.copysign(np.inf, nearest), nearest
        )
    return nearest.astype(np.float32)
