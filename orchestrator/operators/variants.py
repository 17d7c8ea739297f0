"""What an operator may compute instead: each attribute, order of inputs, weights or function that a
converter may have read otherwise.

Each module declares, beside its formulas, what its operators may read otherwise (:func:`declare`).
A variant is a node that can be computed like any other.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from .registry import ASCEND, ONNX, Inputs, Node, compute
from .value_with_error import Arithmetic, Value

Array = Any
Alternatives = Union[Sequence[Any], Callable[[Node, Inputs], Iterable[Any]]]
"""The values of an attribute or input that keep the shape of the output, or what tells them."""

_MOST_ORDERED = 4
"""Of up to so many inputs or outputs each order is a variant; of more only two exchanged, or all
reversed."""


class Variant(NamedTuple):
    """One thing that an operator may have read otherwise.

    Attributes
    ----------
    name
        What it is: an attribute, an input; empty: the function itself.
    device, model
        What the device would have taken, and what the model says.
    node
        What is computed then.
    inputs, outputs
        What becomes of the node's inputs before, and of its outputs behind; None: nothing.
    """

    name: str
    device: str
    model: str
    node: Node
    inputs: Optional[Callable[[List[Optional[Value]]], List[Optional[Value]]]] = None
    outputs: Optional[Callable[[List[Value]], List[Value]]] = None

    def compute(self, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
        """Compute it; raises as :func:`goldwatch.operators.compute`."""
        given = list(inputs) if self.inputs is None else self.inputs(list(inputs))
        outputs = compute(self.node, given, arithmetic)
        return outputs if self.outputs is None else self.outputs(outputs)


class Reading(NamedTuple):
    """What of an operator may be read otherwise.

    Attributes
    ----------
    name, shown
        What it is, and its alternatives in words.
    variants
        Yields those of a node.
    """

    name: str
    shown: str
    variants: Callable[[Node, Inputs], Iterator[Variant]]


_READINGS: Dict[Tuple[str, str], Tuple[Reading, ...]] = {}


def declare(types: str, *readings: Reading, dialect: str = ONNX) -> None:
    """Declare what operators of some types (separated by blanks) may read otherwise, the commonest
    first.
    """
    for kind in types.split():
        _READINGS[dialect, kind] = _READINGS.get((dialect, kind), ()) + readings


def variants_of(node: Node, inputs: Inputs) -> Iterator[Variant]:
    """Yield what a node may compute instead.

    Parameters
    ----------
    inputs
        Of the node, as they are computed.
    """
    for reading in _READINGS.get((node.dialect, node.type), ()):
        yield from reading.variants(node, inputs)


def declared() -> Mapping[Tuple[str, str], Sequence[Reading]]:
    """Return all readings by dialect and type."""
    return _READINGS


def text_of(value: Any) -> str:
    """Return an attribute's value as a message shows it."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[%s]" % ", ".join(text_of(entry) for entry in np.asarray(value).ravel().tolist())
    if isinstance(value, float):
        return "%.6g" % value
    return str(value)


def _alternatives(alternatives: Alternatives, node: Node, inputs: Inputs) -> Iterable[Any]:
    return alternatives(node, inputs) if callable(alternatives) else alternatives


def _shown(alternatives: Alternatives) -> str:
    return (
        (alternatives.__doc__ or "others that fit").strip()
        if callable(alternatives)
        else ", ".join(map(text_of, alternatives))
    )


def attribute(name: str, alternatives: Alternatives, default: Any = None) -> Reading:
    """Declare an attribute with alternatives.

    Parameters
    ----------
    default
        What the dialect takes where it is not there: a value, or a function of node and inputs;
        None: then there is nothing to read otherwise.
    """

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        own = node.attributes.get(name, default(node, inputs) if callable(default) else default)
        if own is None:
            return
        for value in _alternatives(alternatives, node, inputs):
            if text_of(value) != text_of(own):
                changed = replace(node, attributes={**node.attributes, name: value})
                yield Variant(name, text_of(value), text_of(own), changed)

    return Reading(name, _shown(alternatives), variants)


def whole_input(number: int, name: str, alternatives: Callable[[Node, Inputs], Any]) -> Reading:
    """Declare an input of numbers that an attribute was in earlier versions, with alternatives."""

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        own = inputs[number] if number < len(inputs) else None
        for value in () if own is None else alternatives(node, inputs):
            array = np.asarray(value, own.array.dtype).reshape(own.array.shape)  # type: ignore[union-attr]
            if np.array_equal(array, own.array):  # type: ignore[union-attr]
                continue

            def taken(given: List[Optional[Value]], array: Array = array) -> List[Optional[Value]]:
                return [*given[:number], Value(array), *given[number + 1 :]]

            yield Variant(name, text_of(array), text_of(own.array), node, taken)  # type: ignore[union-attr]

    return Reading(name, _shown(alternatives), variants)


def changed_input(
    number: int, name: str, changes: Sequence[Tuple[str, Callable[[Array], Optional[Array]]]]
) -> Reading:
    """Declare an input (weights, mostly) that may be taken in other ways.

    Parameters
    ----------
    changes
        In words, and as a function of the array; of what cannot be it returns None.
    """

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        value = inputs[number] if number < len(inputs) else None
        if value is None:
            return
        for words, change in changes:
            array = change(value.array)
            if array is None or (
                array.shape == value.array.shape and np.array_equal(array, value.array)
            ):
                continue

            def taken(
                given: List[Optional[Value]], change: Callable[[Array], Array] = change
            ) -> List[Optional[Value]]:
                own = given[number]
                assert own is not None
                error = None
                # Errors go along where values are only moved.
                if own.error is not None and not np.any(change(np.zeros(own.array.shape))):
                    error = np.abs(change(np.broadcast_to(own.error, own.array.shape)))
                return [*given[:number], Value(change(own.array), error), *given[number + 1 :]]

            own_words = (
                text_of(value.array.reshape(())[()].item()) if value.array.size == 1 else "as it is"
            )
            yield Variant(name, words, own_words, node, taken)

    return Reading(name, ", ".join(words for words, _ in changes), variants)


def other_number(number: int, name: str, numbers: Sequence[float], most: float = np.inf) -> Reading:
    """Declare an input of one number for all, whose magnitude is at most ``most``, with
    alternatives.
    """

    def filled(value: float) -> Callable[[Array], Optional[Array]]:
        def change(array: Array) -> Optional[Array]:
            is_one = array.size == 1 and abs(float(array.reshape(-1)[0])) <= most
            return np.full_like(array, value) if is_one else None

        return change

    return changed_input(number, name, [("%g" % value, filled(value)) for value in numbers])


def missing_input(number: int, name: str) -> Reading:
    """Declare an optional input (a bias, an initial state) that may be left out."""

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        value = inputs[number] if number < len(inputs) else None
        if value is not None and np.any(value.array):
            nothing = Value(np.zeros_like(value.array))

            def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
                return [*given[:number], nothing, *given[number + 1 :]]

            yield Variant(name, "missing", "as it is", node, taken)

    return Reading(name, "missing", variants)


def _orders(count: int) -> Iterator[Tuple[int, ...]]:
    own = tuple(range(count))
    if count <= _MOST_ORDERED:
        yield from (order for order in permutations(own) if order != own)
        return
    yield own[::-1]
    for first in range(count):
        for second in range(first + 1, count):
            order = list(own)
            order[first], order[second] = order[second], order[first]
            yield tuple(order)


def input_order(first: int = 0, last: Optional[int] = None) -> Reading:
    """Declare inputs that may be taken in another order."""

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        chosen = [
            number
            for number in range(first, len(inputs) if last is None else min(last, len(inputs)))
            if inputs[number] is not None
        ]
        own = text_of(chosen)
        for order in _orders(len(chosen)):
            numbers = [chosen[place] for place in order]

            def taken(
                given: List[Optional[Value]], numbers: Sequence[int] = numbers
            ) -> List[Optional[Value]]:
                ordered = list(given)
                for place, number in zip(chosen, numbers):
                    ordered[place] = given[number]
                return ordered

            yield Variant("the order of its inputs", text_of(numbers), own, node, taken)

    return Reading("the order of its inputs", "each other order", variants)


def output_order() -> Reading:
    """Declare outputs that may be written in another order."""

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        for order in _orders(node.outputs):

            def written(outputs: List[Value], order: Sequence[int] = order) -> List[Value]:
                return [outputs[number] for number in order if number < len(outputs)]

            yield Variant(
                "the order of its outputs",
                text_of(list(order)),
                text_of(list(range(node.outputs))),
                node,
                None,
                written,
            )

    return Reading("the order of its outputs", "each other order", variants)


class Function(NamedTuple):
    """A function that may be computed in place of another; ``kind`` empty: none is."""

    kind: str
    attributes: Mapping[str, Any] = {}
    dialect: str = ONNX
    words: str = ""

    @property
    def text(self) -> str:
        """Its name, with its attributes."""
        shown = ", ".join("%s %s" % (key, text_of(value)) for key, value in self.attributes.items())
        return self.words or (self.kind + (" (%s)" % shown if shown else "")) or "no function"


def other_function(*functions: Function, keeps: bool = False) -> Reading:
    """Declare other functions of a node's inputs.

    Parameters
    ----------
    keeps
        They take all of the node's inputs and attributes, and not the first input alone.
    """

    def variants(node: Node, given_inputs: Inputs) -> Iterator[Variant]:
        for entry in functions:
            if entry.kind == node.type and (keeps or not entry.attributes):
                continue
            instead = Node(
                entry.dialect,
                entry.kind or "Identity",
                {**(node.attributes if keeps else {}), **entry.attributes},
                node.name,
                node.version if keeps else (20 if entry.dialect == ONNX else 0),
                node.outputs,
            )

            first_alone = not (keeps and entry.kind) and len(given_inputs) > 1
            yield Variant(
                "",
                entry.text,
                node.type,
                instead,
                (lambda given: given[:1]) if first_alone else None,
            )

    return Reading("the function", ", ".join(entry.text for entry in functions), variants)


def other_node(
    name: str, change: Callable[[Node, Inputs], Iterable[Tuple[str, str, Node]]]
) -> Reading:
    """Declare what changes several attributes of a node at once: yields what the device would have
    taken, what the model says, and the node.
    """

    def variants(node: Node, inputs: Inputs) -> Iterator[Variant]:
        for device, model, changed in change(node, inputs):
            yield Variant(name, device, model, changed)

    return Reading(name, (change.__doc__ or "").strip(), variants)


def each_axis(node: Node, inputs: Inputs) -> List[int]:
    """each other axis"""
    first = inputs[0]
    count = 0 if first is None else first.array.ndim
    own = int(np.ravel(node.get("axis", 0))[0])
    # In the way that the node counts, from behind or from the front.
    return [axis - count if own < 0 else axis for axis in range(count - 1, -1, -1)]


ACTIVATIONS = (
    Function("", words="no activation"),
    Function("Relu"),
    Function("Relu6", dialect=ASCEND),
    Function("LeakyRelu", {"alpha": 0.01}),
    Function("LeakyRelu", {"alpha": 0.1}),
    Function("LeakyRelu", {"alpha": 0.2}),
    Function("Sigmoid"),
    Function("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    Function("HardSigmoid", {"alpha": 1.0 / 6.0, "beta": 0.5}),
    Function("Tanh"),
    Function("Gelu", {"approximate": "none"}),
    Function("Gelu", {"approximate": "tanh"}),
    Function("FastGelu", dialect=ASCEND, words="Gelu by a sigmoid (x * sigmoid(1.702 x))"),
    Function("Swish"),
    Function("HardSwish"),
    Function("Mish"),
    Function("Elu", {"alpha": 1.0}),
    Function("Selu"),
    Function("Softplus"),
    Function("Softsign"),
)
"""Activations that stand for each other."""

EPSILONS = (1e-3, 1e-5, 1e-6, 1e-12, 0.0)
"""What normalisations add to the variance."""
