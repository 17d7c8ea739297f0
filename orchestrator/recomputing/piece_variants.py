"""What the nodes of a piece may have computed in place of what the model says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import (
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from .. import operators
from ..operators import Arithmetic, Node, Value, inputs_otherwise
from ..operators.inputs_otherwise import coarser_inside, of_sibling, of_siblings, without_tail
from ..operators.registry import ONNX
from ..operators.variants import (
    ACTIVATIONS,
    AS_IT_IS,
    Fit,
    Variant,
    fits_of,
    input_name,
    variants_of,
)
from .original_nodes import Argument, Array, Call
from .piece import EXACT, Key, Piece, Reads, is_marked

FROM_OTHER = "from "
"""Before the name of another tensor that a node may have read."""
CHAIN = "the chain "
"""Before the types of several nodes that are told as one."""
_VERSION = 20
"""The opset of ONNX's Gelu."""
_CURVED = frozenset(
    "Erf Tanh Sigmoid HardSigmoid Exp Softplus Clip Relu Gelu Swish HardSwish Mish Elu Selu "
    "Softsign".split()
)
_ACTIVATIONS = _CURVED.union(entry.kind for entry in ACTIVATIONS)
_POINTWISE = _CURVED | frozenset("Add Sub Mul Div Pow Sqrt Neg Max Min Reciprocal Log".split())

Variants = Iterator[Tuple[int, Node, Variant]]
"""Variants, each with the number of its node and the node."""
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


def variants(piece: Piece, values_by_key: Mapping[Key, Value], together: bool = False) -> Variants:
    """Yield what its nodes may compute instead, those of the last node first, each with the
    number of the node and the node.

    Parameters
    ----------
    values_by_key
        All values inside, as :meth:`goldwatch.recomputing.piece.Piece.values` returns them.
    together
        As of :func:`goldwatch.operators.variants.variants_of`.
    """
    for number, node, inputs, _ in piece.held(values_by_key):
        for variant in variants_of(node, inputs, together):
            yield number, node, variant


def fits(piece: Piece, values_by_key: Mapping[Key, Value]) -> Iterator[Tuple[int, Node, Fit]]:
    """Yield the numbers that its nodes may have taken otherwise; as :func:`variants`."""
    for number, node, inputs, _ in piece.held(values_by_key):
        for fit in fits_of(node, inputs):
            yield number, node, fit


def other_constants(
    piece: Piece, values_by_key: Mapping[Key, Value], siblings: Siblings
) -> Variants:
    """Yield its nodes with constants of others of the same type, and with values that are
    rounded to narrower types; as :func:`variants`.

    Parameters
    ----------
    siblings
        Yields other nodes of the type by name, each with the constant at the place of an input.
    """
    for number, node, inputs, held in piece.held(values_by_key):
        by_sibling: Dict[str, Dict[int, Array]] = {}
        for place, value in enumerate(inputs):
            if held[place] and value is not None:
                others = {
                    name: piece.weights_as_held(number, np.asarray(other))
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
        if is_marked(node, "multiplies") or piece.dtype == "float32":
            for variant in coarser_inside(node, inputs, held):
                yield number, node, variant


def tails(piece: Piece, values_by_key: Mapping[Key, Value]) -> Variants:
    """Yield its nodes that sum, each without the last of what it sums."""
    for number, node, inputs, _ in piece.held(values_by_key):
        if is_marked(node, "sums"):
            for variant in without_tail(node, inputs):
                yield number, node, variant


def chains(piece: Piece, values_by_key: Mapping[Key, Value], output: Key) -> Variants:
    """Yield other activations in place of an output that several nodes make of one value,
    element by element, with one number each: of Gelu by Erf. As :func:`variants`.
    """
    own_curve = curve(piece, values_by_key, output)
    if own_curve is None or len(own_curve.types) < 2:
        return
    own = AS_IT_IS
    node, others = replace(own_curve.node, type=CHAIN + ", ".join(own_curve.types)), []
    for text, other in own_curve.others():
        (computed,) = operators.compute(other, [own_curve.source], EXACT)
        if np.allclose(computed.array, values_by_key[output].array, 1e-5, 1e-6):
            own = text
        else:
            others.append((text, other))
    for text, other in others:
        reads = Reads(output[0], Call(other, [own_curve.read]))
        yield output[0], node, Variant("", text, own, other, reads)


def left_out(piece: Piece, values_by_key: Mapping[Key, Value]) -> Variants:
    """Yield each of several nodes as one that does nothing; as :func:`variants`."""
    nodes = list(piece.held(values_by_key))
    for number, node, inputs, held in nodes if len(nodes) > 1 else ():
        first, made = inputs[0] if inputs else None, values_by_key[number, 0]
        if first is not None and not held[0] and first.array.shape == made.array.shape:
            nothing = Node(ONNX, "Identity", {}, node.name, _VERSION)
            words = "nothing (its input as it is)"
            yield number, node, Variant("", words, node.type, nothing, lambda given: given[:1])


def early_activations(piece: Piece, output: Key) -> Variants:
    """Yield the activation that makes an output on each input of the node before it: Relu
    before the Add behind a convolution. As :func:`variants`.
    """
    calls = dict(piece.computed)
    last = calls.get(output[0])
    if last is None or last.node.type not in _ACTIVATIONS:
        return
    first = last.arguments[0]
    if not isinstance(first, tuple) or first[0] not in calls:
        return
    before = calls[first[0]]
    reads, kind = Reads(first[0], before), before.node.type
    places = [
        place
        for place, argument in enumerate(before.arguments)
        if isinstance(argument, tuple) and not piece.holds(argument)
    ]
    for place in places:
        words = "before %s%s" % (kind, ", on its input %d" % place if len(places) > 1 else "")
        instead = partial(_on_input, place, last.node, before.node)
        early = Variant("its place", words, "behind " + kind, last.node, reads, None, instead)
        yield output[0], last.node, early


def curve(piece: Piece, values_by_key: Mapping[Key, Value], output: Key) -> Optional[Curve]:
    """Return of which value an output is a function, element by element, with one number each
    for all; None where it is of none.
    """

    def size_of(argument: Argument) -> int:
        array = values_by_key[argument].array if isinstance(argument, tuple) else argument
        return np.asarray(array).size

    last = next((call.node for number, call in piece.computed if number == output[0]), None)
    for source, value in values_by_key.items():
        made = values_by_key[output].array
        if last is None or source == output or value.array.shape != made.shape:
            continue
        inside = {source: ""}
        for number, call in piece.computed:
            kind = call.node.type.rpartition(".")[2]
            known = [
                argument is None
                or (isinstance(argument, tuple) and argument in inside)
                or (piece.holds(argument) and size_of(argument) == 1)
                for argument in call.arguments
            ]
            if kind in _POINTWISE and all(known):
                inside[number, 0] = kind
        curved = _CURVED.intersection(inside.values())
        if output in inside and curved and value.is_float:
            return Curve(source, value, last, [kind for kind in inside.values() if kind])
    return None


def other_inputs(piece: Piece, values_by_key: Mapping[Key, Value]) -> Variants:
    """Yield its nodes with their inputs taken otherwise; as :func:`variants`."""
    for number, node, inputs, _ in piece.held(values_by_key):
        for variant in inputs_otherwise.other_inputs(node, inputs):
            yield number, node, variant


def fed_from_others(
    piece: Piece,
    incoming: Mapping[Key, Array],
    others: Callable[[int], Iterator[Tuple[str, Array]]],
) -> Variants:
    """Yield its nodes with another tensor of the run in place of one that comes in; as
    :func:`variants`.

    Parameters
    ----------
    incoming
        The values that come in.
    others
        Yields other tensors of so many elements by name, the nearest first.
    """
    sources = {entry.value: (entry.producer, entry.output_index) for entry in piece.cut.inputs}
    for number, call in reversed(piece.calls):
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
