"""A piece: the original nodes of one device op, computed from the device's own inputs and the
original model's weights, whole or in parts.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import (
    Callable,
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
from ..operators.inputs_otherwise import (
    coarser_inside,
    of_sibling,
    of_siblings,
    other_inputs,
    without_tail,
)
from ..operators.registry import ONNX
from ..operators.splittable_axes import Parts, Window
from ..operators.variants import (
    ACTIVATIONS,
    AS_IT_IS,
    Fit,
    Variant,
    fits_of,
    input_name,
    variants_of,
)
from ..tensors.type_precision import ROUNDING, ulp
from .original_nodes import Array, Call, Nodes
from .recomputed_output import NotComputable
from .submodel.cut_definition import Cut

EXACT = Arithmetic(0.0, 0.0, 0.0, 0.0)
"""Arithmetic without rounding inside: values without errors."""
FROM_OTHER = "from "
"""Before the name of another tensor that a node may have read."""
CHAIN = "the chain "
"""Before the types of several nodes that are told as one."""
Shape = Tuple[Optional[int], ...]

_FACTORS = frozenset(
    "Mul Div BatchNormalization BatchNorm Scale FusedBatchNorm FusedBatchNormV2 "
    "FusedBatchNormV3 RealDiv".split()
)
"""Nodes that the compiler folds into the filter of the convolution or MatMul before them."""
_SCALED = ("Resize", "Upsample")
"""Nodes whose constants are no weights: their scales."""
_VERSION = 20
"""The opset of ONNX's Gelu."""
_CURVED = frozenset(
    "Erf Tanh Sigmoid HardSigmoid Exp Softplus Clip Relu Gelu Swish HardSwish Mish Elu Selu "
    "Softsign".split()
)
_ACTIVATIONS = _CURVED.union(entry.kind for entry in ACTIVATIONS)
_POINTWISE = _CURVED | frozenset("Add Sub Mul Div Pow Sqrt Neg Max Min Reciprocal Log".split())

Key = Tuple[int, int]
"""A value: its node, and which of its outputs."""


Siblings = Callable[[Node, int], Iterator[Tuple[str, Array]]]
"""Yields, for a node and the place of an input, other nodes of its type by name, each with the
constant that it has there."""


class Curve(NamedTuple):
    """An output that is a function of one value, element by element.

    Attributes
    ----------
    read, source
        That value.
    node
        Which makes the output.
    types
        Of all nodes that do.
    """

    read: Key
    source: Value
    node: Node
    types: List[str]

    @staticmethod
    def others() -> Iterator[Tuple[str, Node]]:
        """Yield all activations, by name, as nodes that read the value."""
        for entry in ACTIVATIONS:
            kind = entry.kind or "Identity"
            yield entry.text, Node(entry.dialect, kind, entry.attributes, "", _VERSION)


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
        self._dtype = dtype
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
        return any(self._is(call.node, "sums") for _, call in self.calls)

    @property
    def multiplies(self) -> bool:
        """Whether one of its nodes adds products."""
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

    @property
    def counts(self) -> bool:
        """Whether it is one node, the length of whose outputs depends on values."""
        computed = [
            call.node
            for number, call in self.calls
            if number not in self._constants and call.constant is None
        ]
        return len(computed) == 1 and self._is(computed[0], "counts")

    @property
    def writes_otherwise(self) -> bool:
        """Whether what its node of :meth:`with_variant` makes is not what a node of its type
        makes."""
        return any(
            variant.outputs is not None or variant.instead is not None
            for variant in self._exchanged.values()
        )

    @staticmethod
    def _is(node: Node, mark: str) -> bool:
        operator = operators.find(node.dialect, node.type)
        return operator is not None and bool(getattr(operator, mark))

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
            if exchanged is not None and isinstance(exchanged.inputs, _Reads):
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
                    if number in self._constants or self._is(call.node, "moves")
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
                    values_by_key[number, 0] = self._constant(number, -1, call.constant, exact)
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

    def variants(
        self, values_by_key: Mapping[Key, Value], together: bool = False
    ) -> Iterator[Tuple[int, Node, Variant]]:
        """Yield what its nodes may compute instead, those of the last node first, each with the
        number of the node and the node.

        Parameters
        ----------
        values_by_key
            All values inside, as :meth:`values` returns them.
        together
            As of :func:`goldwatch.operators.variants.variants_of`.
        """
        for number, call in reversed(self.calls):
            if call.constant is None and number not in self._constants:
                inputs = self._inputs(number, call, values_by_key, EXACT, None)
                for variant in variants_of(call.node, inputs, together):
                    yield number, call.node, variant

    def fits(self, values_by_key: Mapping[Key, Value]) -> Iterator[Tuple[int, Node, Fit]]:
        """Yield the numbers that its nodes may have taken otherwise; as :meth:`variants`."""
        for number, call in reversed(self.calls):
            if call.constant is None and number not in self._constants:
                inputs = self._inputs(number, call, values_by_key, EXACT, None)
                for fit in fits_of(call.node, inputs):
                    yield number, call.node, fit

    def other_constants(
        self, values_by_key: Mapping[Key, Value], siblings: Siblings
    ) -> Iterator[Tuple[int, Node, Variant]]:
        """Yield its nodes with constants of others of the same type, and with values that are
        rounded to narrower types; as :meth:`variants`.

        Parameters
        ----------
        siblings
            Yields other nodes of the type by name, each with the constant at the place of an input.
        """
        for number, node, inputs, held in self.held(values_by_key):
            as_is = number in self._folds()
            by_sibling: Dict[str, Dict[int, Array]] = {}
            for place, value in enumerate(inputs):
                if held[place] and value is not None:
                    others = {
                        name: self._as_held(np.asarray(other), as_is, True).array
                        for name, other in siblings(node, place)
                        if np.shape(other) == value.array.shape
                    }
                    for variant in of_siblings(node, place, value.array, others.items()):
                        yield number, node, variant
                    for name, array in others.items():
                        by_sibling.setdefault(name, {})[place] = array
            most = max(map(len, by_sibling.values()), default=0)
            for count in (most, *range(2, most)) if most > 1 else ():
                for name, arrays in by_sibling.items():
                    for places in combinations(arrays, count):
                        taken = {place: arrays[place] for place in places}
                        yield number, node, of_sibling(node, name, taken)
            if self._is(node, "multiplies") or self._dtype == "float32":
                for variant in coarser_inside(node, inputs, held):
                    yield number, node, variant

    def tails(self, values_by_key: Mapping[Key, Value]) -> Iterator[Tuple[int, Node, Variant]]:
        """Yield its nodes that sum, each without the last of what it sums."""
        for number, node, inputs, _ in self.held(values_by_key):
            if self._is(node, "sums"):
                for variant in without_tail(node, inputs):
                    yield number, node, variant

    def held(
        self, values_by_key: Mapping[Key, Value]
    ) -> Iterator[Tuple[int, Node, List[Optional[Value]], List[bool]]]:
        """Yield its nodes, the last first, each with its number, its inputs, and which of these the
        model holds.
        """
        for number, call in reversed(self.calls):
            if call.constant is None and number not in self._constants:
                inputs = self._inputs(number, call, values_by_key, EXACT, None)
                held = [
                    isinstance(argument, np.ndarray)
                    or (isinstance(argument, tuple) and argument[0] in self._constants)
                    for argument in call.arguments
                ]
                yield number, call.node, inputs, held

    def chains(
        self, values_by_key: Mapping[Key, Value], output: Key
    ) -> Iterator[Tuple[int, Node, Variant]]:
        """Yield other activations in place of an output that several nodes make of one value,
        element by element, with one number each: of Gelu by Erf. As :meth:`variants`.
        """
        curve = self.curve(values_by_key, output)
        if curve is None or len(curve.types) < 2:
            return
        own = AS_IT_IS
        node, others = replace(curve.node, type=CHAIN + ", ".join(curve.types)), []
        for text, other in curve.others():
            (computed,) = operators.compute(other, [curve.source], EXACT)
            if np.allclose(computed.array, values_by_key[output].array, 1e-5, 1e-6):
                own = text
            else:
                others.append((text, other))
        for text, other in others:
            reads = _Reads(output[0], Call(other, [curve.read]))
            yield output[0], node, Variant("", text, own, other, reads)

    def left_out(self, values_by_key: Mapping[Key, Value]) -> Iterator[Tuple[int, Node, Variant]]:
        """Yield each of several nodes as one that does nothing; as :meth:`variants`."""
        nodes = list(self.held(values_by_key))
        for number, node, inputs, held in nodes if len(nodes) > 1 else ():
            first, made = inputs[0] if inputs else None, values_by_key[number, 0]
            if first is not None and not held[0] and first.array.shape == made.array.shape:
                nothing = Node(ONNX, "Identity", {}, node.name, _VERSION)
                words = "nothing (its input as it is)"
                yield number, node, Variant("", words, node.type, nothing, lambda given: given[:1])

    def early_activations(self, output: Key) -> Iterator[Tuple[int, Node, Variant]]:
        """Yield the activation that makes an output on each input of the node before it: Relu
        before the Add behind a convolution. As :meth:`variants`.
        """
        calls = {number: call for number, call in self.calls if number not in self._constants}
        last = calls.get(output[0])
        if last is None or last.node.type not in _ACTIVATIONS:
            return
        first = last.arguments[0]
        if not isinstance(first, tuple) or first[0] not in calls:
            return
        before = calls[first[0]]
        reads, kind = _Reads(first[0], before), before.node.type
        places = [
            place
            for place, argument in enumerate(before.arguments)
            if isinstance(argument, tuple) and argument[0] not in self._constants
        ]
        for place in places:
            words = "before %s%s" % (kind, ", on its input %d" % place if len(places) > 1 else "")
            instead = partial(_on_input, place, last.node, before.node)
            early = Variant("its place", words, "behind " + kind, last.node, reads, None, instead)
            yield output[0], last.node, early

    def curve(self, values_by_key: Mapping[Key, Value], output: Key) -> Optional[Curve]:
        """Return of which value an output is a function, element by element, with one number each
        for all; None where it is of none.
        """
        calls = [
            (number, call)
            for number, call in self.calls
            if call.constant is None and number not in self._constants
        ]
        last = next((call.node for number, call in calls if number == output[0]), None)
        for source, value in values_by_key.items():
            made = values_by_key[output].array
            if last is None or source == output or value.array.shape != made.shape:
                continue
            inside = {source: ""}
            for number, call in calls:
                kind = call.node.type.rpartition(".")[2]
                known = [
                    argument is None
                    or (isinstance(argument, np.ndarray) and argument.size == 1)
                    or (isinstance(argument, tuple) and argument in inside)
                    or (
                        isinstance(argument, tuple)
                        and argument[0] in self._constants
                        and values_by_key[argument].array.size == 1
                    )
                    for argument in call.arguments
                ]
                if kind in _POINTWISE and all(known):
                    inside[number, 0] = kind
            curved = _CURVED.intersection(inside.values())
            if output in inside and curved and value.is_float:
                return Curve(source, value, last, [kind for kind in inside.values() if kind])
        return None

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

    def other_inputs(
        self, values_by_key: Mapping[Key, Value]
    ) -> Iterator[Tuple[int, Node, Variant]]:
        """Yield its nodes with their inputs taken otherwise; as :meth:`variants`."""
        for number, call in reversed(self.calls):
            if call.constant is None and number not in self._constants:
                inputs = self._inputs(number, call, values_by_key, EXACT, None)
                for variant in other_inputs(call.node, inputs):
                    yield number, call.node, variant

    def fed_from_others(
        self, incoming: Mapping[Key, Array], others: Callable[[int], Iterator[Tuple[str, Array]]]
    ) -> Iterator[Tuple[int, Node, Variant]]:
        """Yield its nodes with another tensor of the run in place of one that comes in; as
        :meth:`variants`.

        Parameters
        ----------
        incoming
            The values that come in.
        others
            Yields other tensors of so many elements by name, the nearest first.
        """
        sources = {entry.value: (entry.producer, entry.output_index) for entry in self.cut.inputs}
        for number, call in reversed(self.calls):
            for place, value in enumerate(call.arguments):
                if not isinstance(value, tuple) or value not in sources:
                    continue
                own = incoming[value]
                name, says = input_name(call.node, place), "from %s (output %d)" % sources[value]
                for text, other in others(own.size):
                    array = other.reshape(own.shape).astype(own.dtype)
                    if other.dtype.kind == own.dtype.kind and not np.array_equal(array, own):
                        taken = partial(_with_input, place, array)
                        instead = Variant(name, FROM_OTHER + text, says, call.node, taken)
                        yield number, call.node, instead

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
        if all(one.size != 1 or np.array_equal(rounded(one, self._dtype), one) for one in numbers):
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
        sums = [number for number, call in self.calls if self._is(call.node, "sums")]
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
        if (as_is and array.ndim > 1) or (self._rounds_numbers and array.size == 1):
            return Value(rounded(array, self._dtype))
        values = array.astype(np.float32)
        if exact:
            return Value(values)
        if values.size == 1 and not self.adds:
            return Value(values, _off_by_rounding(values, self._dtype))
        return Value(values, np.abs(values) * np.float32(unit / np.sqrt(3.0)))


class _Reads:
    """The inputs of a node that reads what another one does."""

    def __init__(self, number: int, call: Call) -> None:
        self.number, self.call = number, call

    def __call__(self, given: List[Optional[Value]]) -> List[Optional[Value]]:
        return given


def _with_input(place: int, array: Array, given: List[Optional[Value]]) -> List[Optional[Value]]:
    return [*given[:place], Value(array), *given[place + 1 :]]


def _on_input(
    place: int,
    function: Node,
    node: Node,
    given: Sequence[Optional[Value]],
    arithmetic: Arithmetic,
) -> List[Value]:
    """Compute a node, one of whose inputs goes through a function before."""
    (made,) = operators.compute(function, [given[place]], arithmetic)
    return operators.compute(node, [*given[:place], made, *given[place + 1 :]], arithmetic)


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
