"""The nodes of a cut computed one after the other, from the device's own inputs and the original
model's weights.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from .. import operators
from ..operators import Arithmetic, CannotCompute, Node, Value
from ..operators.parting import Parts, Window
from ..submodel.cut import Cut
from ..tensors.rounding import ROUNDING, ulp
from .nodes import Array, Call, Nodes
from .original import NotComputable

EXACT = Arithmetic(0.0, 0.0, 0.0, 0.0)
"""Nothing is rounded inside: values without their errors."""
Shape = Tuple[Optional[int], ...]

_FACTORS = frozenset(
    "Mul Div BatchNormalization BatchNorm Scale FusedBatchNorm FusedBatchNormV2 "
    "FusedBatchNormV3 RealDiv".split()
)
"""Nodes that the compiler folds into the filter of the convolution or MatMul before them."""


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
    """What is cut where an output is computed in parts along one of its axes.

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
        """Return what a node needs of one of its inputs."""
        read, window = (
            self.cuts.calls[number].inputs[place] if number in self.cuts.calls else (None, None)
        )
        if window is None:
            return value
        size = value.array.shape[window.axis] if read is None else self.cuts.sizes[read]
        begin, end = self.cuts.needed(number, self.ranges[number, 0], window, size)
        there = 0 if read is None else self.ranges[read][0]
        return _along(value, window.axis, begin - there, end - there)

    def of_output(self, number: int, value: Value) -> Value:
        """Return what is wanted of a node's first output: behind windows it is more, and false at
        its borders.
        """
        if number not in self.cuts.calls:
            return value
        call, (first, last) = self.cuts.calls[number], self.ranges[number, 0]
        for read, window in call.inputs:
            if window is not None and read is not None and window != Window(window.axis):
                begin, _ = self.cuts.needed(number, (first, last), window, self.cuts.sizes[read])
                return _along(
                    value, call.axis, first - begin // window.stride, last - begin // window.stride
                )
        return value


def _along(value: Value, axis: int, first: int, last: int) -> Value:
    """Return a part of a value along an axis."""
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
        kept = {entry.value[0] for entry in cut.inputs if entry.kept}
        self.calls: List[Tuple[int, Call]] = [
            (number, nodes.call(number)) for number in order if number in inside - kept
        ]
        self._dtype = dtype
        self._constants = set(cut.pulled)
        # What the model holds, as the device has it: by node, input (-1: the node is a constant),
        # and whether with its error.
        self._held: Dict[Tuple[int, int, bool], Value] = {}
        self._pulled: Dict[bool, Dict[Tuple[int, int], Value]] = {}
        for _, call in self.calls:
            if call.constant is None and operators.find(call.node.dialect, call.node.type) is None:
                raise NotComputable("%s is no operator that can be computed here" % call.node.type)

    @property
    def largest_constant(self) -> float:
        """The largest finite magnitude of what the model holds for it, as it is held."""
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
        """Whether a node of it adds products or many values."""
        return any(self._is(call.node, "sums") for _, call in self.calls)

    @property
    def multiplies(self) -> bool:
        """Whether a node of it adds products."""
        return any(self._is(call.node, "multiplies") for _, call in self.calls)

    @property
    def moves(self) -> bool:
        """Whether all its nodes only move values."""
        return all(
            self._is(call.node, "moves")
            for number, call in self.calls
            if number not in self._constants and call.constant is None
        )

    @property
    def decides(self) -> bool:
        """Whether its last node decides."""
        return bool(self.calls) and self._is(self.calls[-1][1].node, "decides")

    @staticmethod
    def _is(node: Node, mark: str) -> bool:
        found = operators.find(node.dialect, node.type)
        return found is not None and bool(getattr(found, mark))

    def values(
        self,
        fed: Mapping[Tuple[int, int], Array],
        arithmetic: Arithmetic,
        part: Optional[Part] = None,
    ) -> Dict[Tuple[int, int], Value]:
        """Compute all values inside.

        Parameters
        ----------
        fed
            The values that come in; of a part theirs.
        part
            Which part of the output is computed; None: all.

        Raises
        ------
        CannotCompute
            An attribute is not known, or the shapes do not fit.
        """
        made: Dict[Tuple[int, int], Value] = {value: Value(array) for value, array in fed.items()}
        made.update(self._of_constants(arithmetic))
        for number, call in self.calls:
            if (number, 0) in made:
                continue
            outputs = operators.compute(
                call.node, self._inputs(number, call, made, arithmetic, part), arithmetic
            )
            for index, value in enumerate(outputs):
                value = value if part is None or index else part.of_output(number, value)
                made[number, index] = (
                    value if number in self._constants else value.with_step(arithmetic.intermediate)
                )
        return made

    def _of_constants(self, arithmetic: Arithmetic) -> Dict[Tuple[int, int], Value]:
        """Return what is computed of constants alone, once for all parts."""
        exact = arithmetic == EXACT
        if exact not in self._pulled:
            made: Dict[Tuple[int, int], Value] = {}
            for number, call in self.calls:
                if call.constant is not None:
                    made[number, 0] = self._constant(number, -1, call.constant, exact)
                elif number in self._constants and all(
                    value in made for value in call.arguments if isinstance(value, tuple)
                ):
                    # Others are of shapes that are known only with the values that come in.
                    outputs = operators.compute(
                        call.node, self._inputs(number, call, made, arithmetic, None), arithmetic
                    )
                    made.update({(number, index): value for index, value in enumerate(outputs)})
            self._pulled[exact] = made
        return self._pulled[exact]

    def inputs_of_last(
        self, made: Mapping[Tuple[int, int], Value], part: Optional[Part]
    ) -> Tuple[Node, List[Optional[Value]]]:
        """Return the last node and its inputs, once all values are computed."""
        number, call = self.calls[-1]
        return call.node, self._inputs(number, call, made, Arithmetic(), part)

    def _inputs(
        self,
        number: int,
        call: Call,
        made: Mapping[Tuple[int, int], Value],
        arithmetic: Arithmetic,
        part: Optional[Part],
    ) -> List[Optional[Value]]:
        inputs: List[Optional[Value]] = []
        for place, argument in enumerate(call.arguments):
            if argument is None:
                inputs.append(None)
                continue
            if isinstance(argument, tuple):
                if argument not in made:
                    raise CannotCompute("the value %s is not there" % (argument,))
                value = made[argument]
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
        known: Dict[Key, Optional[Shape]] = dict(shapes)
        fixed = self._of_constants(EXACT) if self.calls else {}
        known.update({value: tuple(one.array.shape) for value, one in fixed.items()})
        parted: Dict[int, Optional[Parts]] = {}
        for number, call in self.calls:
            if (number, 0) in fixed:
                continue
            given = [
                None
                if argument is None
                else known.get(argument)
                if isinstance(argument, tuple)
                else tuple(np.shape(argument))
                for argument in call.arguments
            ]
            values = [
                fixed[argument].array if isinstance(argument, tuple) and argument in fixed
                else None if isinstance(argument, tuple) else argument
                for argument in call.arguments
            ]  # fmt: skip
            unknown = any(
                argument is not None and shape is None
                for argument, shape in zip(call.arguments, given)
            )
            found = operators.find(call.node.dialect, call.node.type)
            try:
                parted[number] = (
                    None
                    if found is None or found.parts is None or unknown
                    else found.parts(call.node, given, values)
                )
            except (CannotCompute, IndexError, ValueError):
                parted[number] = None
            made = parted[number]
            known[number, 0] = None if made is None else made.shape
        shape = known.get(output)
        ways = {
            axis: self._cut(output, axis, parted, set(fixed), known, shapes)
            for axis in range(len(shape) if shape else 0)
        }
        return {axis: way for axis, way in ways.items() if way is not None}

    def _cut(
        self,
        output: Key,
        axis: int,
        parted: Mapping[int, Optional[Parts]],
        fixed: Set[Key],
        known: Mapping[Key, Optional[Shape]],
        shapes: Mapping[Key, Tuple[int, ...]],
    ) -> Optional[Cuts]:
        """Return what is cut where an output is cut along an axis; None where that cannot be."""
        wanted: Dict[Key, Optional[int]] = {output: axis}
        calls: Dict[int, CutCall] = {}
        for number, call in reversed(self.calls):
            if number not in parted or (number, 0) not in wanted:
                if number in parted and any(value[0] == number for value in wanted):
                    return None
                continue
            made, along = parted[number], wanted[number, 0]
            if made is None or along is None or along not in made.axes:
                return None
            inputs: List[Tuple[Optional[Key], Optional[Window]]] = []
            for argument, window in zip(call.arguments, made.axes[along]):
                own = None if window is None else window.axis
                read = argument if isinstance(argument, tuple) and argument not in fixed else None
                if read is None and window is not None and window != Window(window.axis):
                    return None
                if read is not None and wanted.setdefault(read, own) != own:
                    return None
                inputs.append((read, window))
            calls[number] = CutCall(along, tuple(inputs))
        sizes = {}
        for value, own in wanted.items():
            shape = known.get(value)
            if own is not None:
                size = shape[own] if shape is not None and own < len(shape) else None
                if size is None:
                    return None
                sizes[value] = size
        return Cuts(output, {value: wanted.get(value) for value in shapes}, calls, sizes)

    def _folds(self) -> FrozenSet[int]:
        """Return the nodes whose weights a device holds as they are, but for one rounding: those of
        a sum that nothing is folded into.
        """
        sums = [number for number, call in self.calls if self._is(call.node, "sums")]
        types = {call.node.type for number, call in self.calls if number not in self._constants}
        return frozenset(sums if len(sums) == 1 and not types & _FACTORS else ())

    @property
    def rounds_once(self) -> bool:
        """Whether nothing but the output's rounding need be off: weights are as the device holds
        them.
        """
        return not self.multiplies or bool(self._folds())

    def _constant(self, number: int, place: int, array: Array, exact: bool) -> Value:
        """Return weights as the device holds them: rounded to its type.

        Where the compiler may have folded others into them, or keeps them in float32, nobody knows
        the rounded values: they may be off by one rounding; but for ``exact``.
        """
        key = (number, place, exact)
        if key not in self._held:
            self._held[key] = self._as_held(
                np.asarray(array),
                number in self._folds() or (place >= 0 and number in self._constants),
                exact,
            )
        return self._held[key]

    def _as_held(self, array: Array, as_is: bool, exact: bool) -> Value:
        if array.dtype.kind != "f" or self._dtype not in ROUNDING:
            return Value(array)
        unit = ROUNDING[self._dtype].half_unit
        if as_is and array.ndim > 1:
            return Value(rounded(array, self._dtype))
        values = array.astype(np.float32)
        return (
            Value(values)
            if exact
            else Value(values, np.abs(values) * np.float32(unit / np.sqrt(3.0)))
        )


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
        found = np.where(np.isfinite(wide), np.rint(wide / step) * step, wide)
        found = np.where(np.abs(found) > ROUNDING[dtype].largest, np.copysign(np.inf, found), found)
    return found.astype(np.float32)
