"""Recurrent layers of ONNX: LSTM, GRU, RNN."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .convolution_operators import named_input, optional
from .error_propagation import elementwise, moved
from .recurrent_cells import (
    Step,
    Weights,
    activations,
    added,
    chosen,
    part,
    projected,
    quarters,
    rounded_to_stored_type,
    stacked,
    turned,
    zeros,
)
from .registry import CannotCompute, Inputs, Node, compute, operator
from .value_with_error import Arithmetic, Value
from .variants import (
    ANY,
    Fit,
    Reading,
    Variant,
    attribute,
    changed_input,
    declare,
    input_name,
    missing_input,
    missing_inputs,
    other_node,
    output_order,
    text_of,
)

Array = Any
States = List[Value]
Advance = Callable[[Value, States], States]


def _run(
    x: Value,
    states: States,
    advance: Advance,
    lengths: Optional[Array],
    backwards: bool,
    arithmetic: Arithmetic,
) -> Tuple[Value, States]:
    """Run a cell over [steps, batch, ...]; return its first state at each step [steps, batch,
    hidden] and the last states.

    A sequence that is shorter keeps its states and shows zeros behind its end; backwards it begins
    at its own end.
    """
    steps, batch = x.array.shape[:2]
    ends = np.full(batch, steps) if lengths is None else np.asarray(lengths).reshape(-1)
    if len(ends) != batch or np.any(ends < 0) or np.any(ends > steps):
        raise CannotCompute(
            "its sequence lengths %s do not fit %d steps of %d sequences"
            % (ends.tolist(), steps, batch)
        )
    order = np.arange(steps)[:, None] + np.zeros(batch, np.int64)
    if backwards:
        order = np.where(order < ends, ends - 1 - order, order)
    sequences = np.arange(batch)
    ordered = moved(lambda array: array[order, sequences], x)
    hidden_states = []
    for step in range(steps):
        going = (step < ends)[:, None]
        new_states = advance(
            part(ordered, step), rounded_to_stored_type(states, arithmetic) if step else states
        )
        if lengths is not None:
            hidden_states.append(chosen(going, new_states[0], Value(np.zeros(()))))
            new_states = [chosen(going, new, old) for new, old in zip(new_states, states)]
        else:
            hidden_states.append(new_states[0])
        states = new_states
    # The order is its own inverse.
    return moved(lambda array: array[order, sequences], stacked(hidden_states)), states


class _Onnx:
    """What ONNX's three layers have in common: directions, layouts, initial states, activations."""

    def __init__(self, node: Node, inputs: Inputs, gates: int, defaults: Sequence[str]) -> None:
        self.batch_first = bool(node.get("layout", 0))
        x = named_input(inputs, 0, "input")
        self.x = moved(lambda array: array.swapaxes(0, 1), x) if self.batch_first else x
        self.w, self.r, self.b = (
            named_input(inputs, 1, "W"),
            named_input(inputs, 2, "R"),
            optional(inputs, 3),
        )
        direction = str(node.get("direction", "forward"))
        directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        if direction not in directions:
            raise CannotCompute("its direction %s is not known" % direction)
        self.backwards = directions[direction]
        self.hidden = self.r.array.shape[2]
        shapes = (len(self.backwards), gates * self.hidden)
        if (
            self.x.array.ndim != 3
            or self.w.array.shape[:2] != shapes
            or self.r.array.shape[:2] != shapes
        ):
            raise CannotCompute(
                "its W %s and R %s do not fit %s" % (self.w.array.shape, self.r.array.shape, shapes)
            )
        if int(node.get("hidden_size", self.hidden)) != self.hidden:
            raise CannotCompute("its hidden_size is not that of R, %d" % self.hidden)
        names = [
            str(name) for name in node.get("activations", list(defaults) * len(self.backwards))
        ]
        if len(names) != len(defaults) * len(self.backwards):
            raise CannotCompute(
                "its activations %s are not %d for each direction" % (names, len(defaults))
            )
        self._functions = activations(
            names, node.get("activation_alpha", []), node.get("activation_beta", [])
        )
        self._count = len(defaults)
        self.clip = float(node.get("clip", 0.0))
        lengths = optional(inputs, 4)
        self.lengths = None if lengths is None else lengths.array
        self._inputs = inputs

    def step(self, direction: int, arithmetic: Arithmetic) -> Step:
        first = direction * self._count
        return Step(tuple(self._functions[first : first + self._count]), arithmetic, self.clip)

    def initial(self, number: int, direction: int) -> Value:
        value = optional(self._inputs, number)
        if value is None:
            return zeros(self.x.array.shape[1], self.hidden)
        return part(value, (slice(None), direction) if self.batch_first else direction)

    def biases(self, direction: int, gates: int) -> Tuple[Optional[Value], Optional[Value]]:
        """Return the biases of W and of R."""
        if self.b is None:
            return None, None
        middle = gates * self.hidden
        return part(self.b, (direction, slice(0, middle))), part(
            self.b, (direction, slice(middle, None))
        )

    def outputs(self, of_directions: Sequence[Tuple[Value, States]]) -> List[Value]:
        """Return Y and the last states of both directions."""
        whole = stacked([shown for shown, _ in of_directions], 1)
        last = [
            stacked([states[number] for _, states in of_directions], 0)
            for number in range(len(of_directions[0][1]))
        ]
        if not self.batch_first:
            return [whole, *last]
        first = moved(lambda array: array.transpose(2, 0, 1, 3), whole)
        return [first, *(moved(lambda array: array.swapaxes(0, 1), value) for value in last)]


def _sum(first: Optional[Value], second: Optional[Value]) -> Optional[Value]:
    return None if first is None or second is None else added(first, second)


@operator(onnx=["LSTM"], multiplies=True)
def onnx_lstm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX LSTM: Y, Y_h, Y_c; gates stand in the order i, o, f, c."""
    layer = _Onnx(node, inputs, 4, ("Sigmoid", "Tanh", "Tanh"))
    coupled = bool(node.get("input_forget", 0))
    peepholes = optional(inputs, 7)
    i, f, g, o = quarters(layer.hidden, "iofg")
    of_directions = []
    for number, backwards in enumerate(layer.backwards):
        step = layer.step(number, arithmetic)
        bias = _sum(*layer.biases(number, 4))
        weights = Weights(turned(part(layer.r, number)), arithmetic)
        peephole = None if peepholes is None else _peephole(peepholes, number, layer.hidden)

        def advance(
            now: Value,
            states: States,
            step: Step = step,
            weights: Weights = weights,
            peephole: Optional[List[Value]] = peephole,
        ) -> States:
            hidden_state, cell = states
            total = added(now, weights.product(hidden_state))

            def gate(key: slice, gate_number: int, state: Value) -> Value:
                value = part(total, (slice(None), key))
                if peephole is not None:
                    value = added(value, elementwise(np.multiply, peephole[gate_number], state))
                return step.activated(0, value)

            take = gate(i, 0, cell)
            forget = elementwise(lambda array: 1.0 - array, take) if coupled else gate(f, 2, cell)
            candidate = step.activated(1, part(total, (slice(None), g)))
            cell = step.cell_state(forget, cell, take, candidate)
            return [step.hidden_state(gate(o, 1, cell), cell), cell]

        x = projected(layer.x, turned(part(layer.w, number)), bias, arithmetic)
        of_directions.append(
            _run(
                x,
                [layer.initial(5, number), layer.initial(6, number)],
                advance,
                layer.lengths,
                backwards,
                arithmetic,
            )
        )
    return layer.outputs(of_directions)


def _peephole(peepholes: Value, direction: int, hidden: int) -> List[Value]:
    """Return the peephole weights of the gates i, o and f of one direction."""
    return [part(peepholes, (direction, slice(n * hidden, (n + 1) * hidden))) for n in range(3)]


@operator(onnx=["GRU"], multiplies=True)
def onnx_gru(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX GRU: Y, Y_h; gates stand in the order z, r, h."""
    layer = _Onnx(node, inputs, 3, ("Sigmoid", "Tanh"))
    hidden = layer.hidden
    after = bool(node.get("linear_before_reset", 0))
    z, r, n = (slice(number * hidden, (number + 1) * hidden) for number in range(3))
    of_directions = []
    for number, backwards in enumerate(layer.backwards):
        step = layer.step(number, arithmetic)
        of_input, of_state = layer.biases(number, 3)
        matrix = turned(part(layer.r, number))
        gates = Weights(part(matrix, (slice(None), slice(0, 2 * hidden))), arithmetic)
        last = Weights(part(matrix, (slice(None), n)), arithmetic)
        of_gates = None if of_state is None else part(of_state, slice(0, 2 * hidden))
        of_last = Value(np.zeros(hidden)) if of_state is None else part(of_state, n)

        def advance(
            now: Value, states: States, step: Step = step, gates: Weights = gates,
            last: Weights = last,
            of_gates: Optional[Value] = of_gates, of_last: Value = of_last,
        ) -> States:  # fmt: skip
            before = states[0]
            total = added(part(now, (slice(None), slice(0, 2 * hidden))), gates.product(before))
            if of_gates is not None:
                total = added(total, of_gates)
            keep, reset = (step.activated(0, part(total, (slice(None), key))) for key in (z, r))
            if after:
                recurrent = elementwise(
                    np.multiply,
                    reset,
                    added(last.product(before), of_last),
                    steps=arithmetic.intermediate,
                )
            else:
                recurrent = added(
                    last.product(
                        elementwise(np.multiply, reset, before, steps=arithmetic.intermediate)
                    ),
                    of_last,
                )
            candidate = step.activated(1, added(part(now, (slice(None), n)), recurrent))
            return [step.mixed(keep, before, candidate)]

        x = projected(layer.x, turned(part(layer.w, number)), of_input, arithmetic)
        of_directions.append(
            _run(x, [layer.initial(5, number)], advance, layer.lengths, backwards, arithmetic)
        )
    return layer.outputs(of_directions)


@operator(onnx=["RNN"], multiplies=True)
def onnx_rnn(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX RNN: Y, Y_h."""
    layer = _Onnx(node, inputs, 1, ("Tanh",))
    of_directions = []
    for number, backwards in enumerate(layer.backwards):
        step = layer.step(number, arithmetic)
        weights = Weights(turned(part(layer.r, number)), arithmetic)

        def advance(
            now: Value, states: States, step: Step = step, weights: Weights = weights
        ) -> States:
            return [step.activated(0, added(now, weights.product(states[0])))]

        bias = _sum(*layer.biases(number, 1))
        x = projected(layer.x, turned(part(layer.w, number)), bias, arithmetic)
        of_directions.append(
            _run(x, [layer.initial(5, number)], advance, layer.lengths, backwards, arithmetic)
        )
    return layer.outputs(of_directions)


def _gate_orders(node: Node, inputs: Inputs) -> Iterator[Variant]:
    gates = {"LSTM": "iofc", "GRU": "zrh"}[node.type]
    count = len(gates)
    for order in permutations(range(count)):
        if order == tuple(range(count)):
            continue

        def taken(
            given: List[Optional[Value]], order: Sequence[int] = order
        ) -> List[Optional[Value]]:
            def regrouped(array: Array) -> Array:
                # W and R hold the gates once, B twice.
                times = count if array.ndim > 2 else 2 * count
                parts = np.split(array, times, 1)
                places = [*order, *(n + count for n in order)][:times]
                return np.concatenate([parts[place] for place in places], 1)

            weights = [None if value is None else moved(regrouped, value) for value in given[1:4]]
            return [given[0], *weights, *given[4:]]

        held = "%s, read as %s" % ("".join(gates[n] for n in order), gates)
        yield Variant("the order of its weights' gates", held, gates, node, taken)


_LAYERS = Reading("the order of its weights' gates", "each other order", _gate_orders)


def _gates_by_rows(array: Array) -> Optional[Array]:
    """Return weights [directions, gates · size, inputs] as if each row had stood for all gates."""
    if array.ndim != 3 or array.shape[1] % 4 and array.shape[1] % 3:
        return None
    gates = 4 if array.shape[1] % 4 == 0 else 3
    return (
        array.reshape(array.shape[0], -1, gates, array.shape[2]).swapaxes(1, 2).reshape(array.shape)
    )


def _other_activations(node: Node, inputs: Inputs) -> List[List[str]]:
    """Sigmoid, HardSigmoid, Tanh and Relu for each other"""
    own = [str(name) for name in node.get("activations", _activations_of(node))]
    names = ("Sigmoid", "HardSigmoid", "Tanh", "Relu", "Softsign")
    of_one = [[at] for at in range(len(own))]
    # Of both directions the same one, as a compiler exchanges it.
    half = len(own) // 2 if str(node.get("direction", "")) == "bidirectional" else 0
    of_both = [[at, at + half] for at in range(half)]
    made = []
    for places in of_both + of_one:
        for instead in names:
            changed = [instead if at in places else name for at, name in enumerate(own)]
            if changed != own and changed not in made:
                made.append(changed)
    return made


def _activations_of(node: Node, inputs: Inputs = ()) -> List[str]:
    defaults = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
    return defaults[node.type] * (1 + (str(node.get("direction", "")) == "bidirectional"))


def _without_half(second: bool) -> Callable[[Array], Optional[Array]]:
    """Return what makes the first or second half of a bias [directions, 2 · gates · size] zero."""

    def without(array: Array) -> Array:
        array = np.array(array)
        half = array.shape[-1] // 2
        array[..., half if second else 0 : None if second else half] = 0
        return array

    return without


declare("LSTM GRU", _LAYERS)
declare("GRU", attribute("linear_before_reset", (0, 1), 0))
declare(
    "LSTM GRU RNN",
    attribute("direction", ("forward", "reverse"), "forward"),
    missing_input(5, "initial_h"),
    missing_input(6, "initial_c"),
    missing_inputs({5: 0.0, 6: 0.0}, "initial_h and initial_c"),
    missing_input(3, "the bias B"),
    missing_input(4, "sequence_lens"),
    output_order(),
    attribute("activations", _other_activations, _activations_of),
)
declare("LSTM", attribute("input_forget", (0, 1), 0))
declare(
    "LSTM GRU RNN",
    changed_input(
        3,
        "the bias B",
        (
            ("without its recurrent half Rb", _without_half(True)),
            ("without its half Wb", _without_half(False)),
        ),
    ),
)


def _clips(node: Node, inputs: Inputs) -> Iterator[Tuple[str, str, Node]]:
    """none, 0.1 to 10"""
    own = text_of(node.attributes.get("clip", "none"))
    kept = {name: value for name, value in node.attributes.items() if name != "clip"}
    if "clip" in node.attributes:
        yield "none", own, replace(node, attributes=kept)
    for value in (0.1, 0.3, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0, 10.0):
        if node.attributes.get("clip") != value:
            yield text_of(value), own, replace(node, attributes={**kept, "clip": value})


_CLIPS = other_node("clip", _clips)


def _clip_of_any_number(node: Node, inputs: Inputs) -> Iterator[Fit]:
    own = node.attributes.get("clip")

    def variant(value: float) -> Variant:
        changed = replace(node, attributes={**node.attributes, "clip": value})
        return Variant("clip", text_of(value), "none" if own is None else text_of(own), changed)

    # Where the model has none, from about what activations reach.
    yield Fit("clip", 1.0 if own is None else float(own), variant, least=0.0)


def _each_gate_transposed(array: Array) -> Optional[Array]:
    """Return weights [directions, gates · size, size] with those of each gate transposed."""
    if array.ndim != 3 or array.shape[1] % array.shape[2]:
        return None
    parts = array.reshape(array.shape[0], -1, array.shape[2], array.shape[2])
    return parts.swapaxes(2, 3).reshape(array.shape)


declare(
    "LSTM GRU RNN",
    Reading("clip", _CLIPS.shown + ANY, _CLIPS.variants, _clip_of_any_number),
    *(
        changed_input(
            number,
            input_name(Node("onnx", "LSTM"), number),
            (
                ("of each gate transposed", _each_gate_transposed),
                ("of the gates one after the other by rows", _gates_by_rows),
            ),
        )
        for number in (1, 2)
    ),
)


def _exchanged_directions(node: Node, inputs: Inputs) -> Iterator[Variant]:
    if str(node.get("direction", "forward")) != "bidirectional":
        return

    def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
        weights = [
            None if value is None else moved(lambda array: array[::-1], value)
            for value in given[1:4]
        ]
        return [given[0], *weights, *given[4:]]

    def written(outputs: List[Value]) -> List[Value]:
        return [
            moved(lambda array: array[:, ::-1] if array.ndim == 4 else array[::-1], value)
            for value in outputs
        ]

    yield Variant(
        "the order of its directions", "reverse first (weights)", "forward first", node, taken
    )
    yield Variant(
        "the order of its directions",
        "reverse first (outputs)",
        "forward first",
        node,
        None,
        written,
    )


def _taken_at(value: Value, axis: int, index: int) -> Value:
    return moved(lambda array: array.take(index, axis), value)


def _of_backwards(node: Node, inputs: Inputs) -> Iterator[Variant]:
    direction = str(node.get("direction", "forward"))
    # With lengths of their own the sequences are turned each by itself.
    if direction == "forward" or (len(inputs) > 4 and inputs[4] is not None):
        return
    steps, of = (1, 2) if node.get("layout", 0) else (0, 1)

    def turned_in_time(array: Array) -> Array:
        """Return what the backward direction made of each step in the reverse order."""
        last = [slice(None)] * array.ndim
        last[of] = slice(-1, None)
        array = np.array(array)
        array[tuple(last)] = np.flip(array[tuple(last)], steps)
        return array

    def as_made(outputs: List[Value]) -> List[Value]:
        return [moved(turned_in_time, outputs[0]), *outputs[1:]]

    def forward(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
        x = given[0]
        assert x is not None
        # Over its steps in the reverse order the backward direction runs forward.
        reverse = [moved(lambda array: np.flip(array, steps), x), *given[1:]]
        backwards = as_made(compute(node, reverse, arithmetic))
        if direction == "reverse":
            return backwards
        # The last states have no axis of steps.
        axes = [of, *[of - 1] * len(backwards)]
        return [
            stacked([_taken_at(one, axis, 0), _taken_at(other, axis, 1)], axis)
            for axis, one, other in zip(axes, compute(node, given, arithmetic), backwards)
        ]

    name, own = "the backward direction", "from the last step on"
    as_it_ran = "written in the order in which it ran"
    yield Variant(name, as_it_ran, "in the order of the input", node, None, as_made)
    yield Variant(name, "from the first step on", own, node, None, None, forward)


declare(
    "LSTM GRU RNN",
    Reading("the order of its directions", "reverse first", _exchanged_directions),
    Reading(
        "the backward direction",
        "written in the order in which it ran, from the first step on",
        _of_backwards,
    ),
)
