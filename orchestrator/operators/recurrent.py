"""Recurrent layers: ONNX LSTM, GRU and RNN; Caffe LSTM and RNN; TensorFlow's cells; Ascend IR DynamicRNN."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from .activations import sigmoid
from .cells import Step, Weights, activations, added, chosen, part, stacked
from .primitives import elementwise, moved, sum_of_products
from .registry import CannotCompute, Inputs, Node, operator
from .sums import given, optional
from .value import Arithmetic, Value

Array = Any
States = List[Value]
Advance = Callable[[Value, States], States]

_LSTM = (sigmoid, np.tanh, np.tanh)


def _projected(x: Value, matrix: Value, bias: Optional[Value], arithmetic: Arithmetic) -> Value:
    """Return x [steps, batch, inputs] times a matrix [inputs, outputs], for all steps at once."""
    steps, batch = x.array.shape[:2]
    flat = moved(lambda array: array.reshape((steps * batch, -1)), x)
    made = sum_of_products(np.matmul, flat, matrix, matrix.array.shape[0], arithmetic, bias)
    return moved(lambda array: array.reshape((steps, batch, -1)), made)


def _turned(value: Value) -> Value:
    return moved(lambda array: array.T, value)


def _run(x: Value, states: States, advance: Advance, lengths: Optional[Array], backwards: bool) -> Tuple[Value, States]:
    """Run a cell over [steps, batch, ...]; return its first state at each step [steps, batch, hidden] and the last states.

    A sequence that is shorter keeps its states and shows zeros behind its end; backwards it begins at its own end.
    """
    steps, batch = x.array.shape[:2]
    ends = np.full(batch, steps) if lengths is None else np.asarray(lengths).reshape(-1)
    if len(ends) != batch or np.any(ends < 0) or np.any(ends > steps):
        raise CannotCompute("its sequence lengths %s do not fit %d steps of %d sequences" % (ends.tolist(), steps, batch))
    order = np.arange(steps)[:, None] + np.zeros(batch, np.int64)
    if backwards:
        order = np.where(order < ends, ends - 1 - order, order)
    sequences = np.arange(batch)
    turned = moved(lambda array: array[order, sequences], x)
    shown = []
    for step in range(steps):
        going = (step < ends)[:, None]
        fresh = advance(part(turned, step), states)
        if lengths is not None:
            shown.append(chosen(going, fresh[0], Value(np.zeros(()))))
            fresh = [chosen(going, new, old) for new, old in zip(fresh, states)]
        else:
            shown.append(fresh[0])
        states = fresh
    # The order is its own inverse.
    return moved(lambda array: array[order, sequences], stacked(shown)), states


def _zeros(batch: int, hidden: int) -> Value:
    return Value(np.zeros((batch, hidden)))


class _Onnx:
    """What ONNX's three layers have in common: directions, layouts, initial states, activations."""

    def __init__(self, node: Node, inputs: Inputs, gates: int, defaults: Sequence[str]) -> None:
        self.batch_first = bool(node.get("layout", 0))
        x = given(inputs, 0, "input")
        self.x = moved(lambda array: array.swapaxes(0, 1), x) if self.batch_first else x
        self.w, self.r, self.b = given(inputs, 1, "W"), given(inputs, 2, "R"), optional(inputs, 3)
        direction = str(node.get("direction", "forward"))
        known = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        if direction not in known:
            raise CannotCompute("its direction %s is not known" % direction)
        self.backwards = known[direction]
        self.hidden = self.r.array.shape[2]
        shapes = (len(self.backwards), gates * self.hidden)
        if self.x.array.ndim != 3 or self.w.array.shape[:2] != shapes or self.r.array.shape[:2] != shapes:
            raise CannotCompute("its W %s and R %s do not fit %s" % (self.w.array.shape, self.r.array.shape, shapes))
        if int(node.get("hidden_size", self.hidden)) != self.hidden:
            raise CannotCompute("its hidden_size is not that of R, %d" % self.hidden)
        names = [str(name) for name in node.get("activations", list(defaults) * len(self.backwards))]
        if len(names) != len(defaults) * len(self.backwards):
            raise CannotCompute("its activations %s are not %d for each direction" % (names, len(defaults)))
        self._functions = activations(names, node.get("activation_alpha", []), node.get("activation_beta", []))
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
            return _zeros(self.x.array.shape[1], self.hidden)
        return part(value, (slice(None), direction) if self.batch_first else direction)

    def biases(self, direction: int, gates: int) -> Tuple[Optional[Value], Optional[Value]]:
        """Return the biases of W and of R."""
        if self.b is None:
            return None, None
        middle = gates * self.hidden
        return part(self.b, (direction, slice(0, middle))), part(self.b, (direction, slice(middle, None)))

    def outputs(self, made: Sequence[Tuple[Value, States]]) -> List[Value]:
        """Return Y and the last states of both directions."""
        whole = stacked([shown for shown, _ in made], 1)
        last = [stacked([states[number] for _, states in made], 0) for number in range(len(made[0][1]))]
        if not self.batch_first:
            return [whole, *last]
        turned = moved(lambda array: array.transpose(2, 0, 1, 3), whole)
        return [turned, *(moved(lambda array: array.swapaxes(0, 1), value) for value in last)]


def _sum(first: Optional[Value], second: Optional[Value]) -> Optional[Value]:
    return None if first is None or second is None else added(first, second)


def _quarters(hidden: int, order: str) -> List[slice]:
    """Return where the gates i, f, g (what is taken up) and o stand in a matrix of this order."""
    return [slice(order.index(gate) * hidden, (order.index(gate) + 1) * hidden) for gate in "ifgo"]


@operator(onnx=["LSTM"], sums=True)
def onnx_lstm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX LSTM: Y, Y_h, Y_c; gates stand in the order i, o, f, c."""
    layer = _Onnx(node, inputs, 4, ("Sigmoid", "Tanh", "Tanh"))
    coupled = bool(node.get("input_forget", 0))
    holes = optional(inputs, 7)
    i, f, g, o = _quarters(layer.hidden, "iofg")
    made = []
    for number, backwards in enumerate(layer.backwards):
        step = layer.step(number, arithmetic)
        bias = _sum(*layer.biases(number, 4))
        weights = Weights(_turned(part(layer.r, number)), arithmetic)
        hole = None if holes is None else [part(holes, (number, slice(n * layer.hidden, (n + 1) * layer.hidden))) for n in range(3)]

        def advance(now: Value, states: States, step: Step = step, weights: Weights = weights, hole: Any = hole) -> States:
            shown, cell = states
            total = added(now, weights.product(shown))

            def gate(key: slice, which: int, state: Value) -> Value:
                value = part(total, (slice(None), key))
                if hole is not None:
                    value = added(value, elementwise(np.multiply, hole[which], state))
                return step.activated(0, value)

            take = gate(i, 0, cell)
            forget = elementwise(lambda array: 1.0 - array, take) if coupled else gate(f, 2, cell)
            fresh = step.activated(1, part(total, (slice(None), g)))
            cell = step.cell_state(forget, cell, take, fresh)
            return [step.shown(gate(o, 1, cell), cell), cell]

        x = _projected(layer.x, _turned(part(layer.w, number)), bias, arithmetic)
        made.append(_run(x, [layer.initial(5, number), layer.initial(6, number)], advance, layer.lengths, backwards))
    return layer.outputs(made)


@operator(onnx=["GRU"], sums=True)
def onnx_gru(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX GRU: Y, Y_h; gates stand in the order z, r, h."""
    layer = _Onnx(node, inputs, 3, ("Sigmoid", "Tanh"))
    hidden = layer.hidden
    after = bool(node.get("linear_before_reset", 0))
    z, r, n = (slice(number * hidden, (number + 1) * hidden) for number in range(3))
    made = []
    for number, backwards in enumerate(layer.backwards):
        step = layer.step(number, arithmetic)
        of_input, of_state = layer.biases(number, 3)
        matrix = _turned(part(layer.r, number))
        gates = Weights(part(matrix, (slice(None), slice(0, 2 * hidden))), arithmetic)
        last = Weights(part(matrix, (slice(None), n)), arithmetic)
        of_gates = None if of_state is None else part(of_state, slice(0, 2 * hidden))
        of_last = Value(np.zeros(hidden)) if of_state is None else part(of_state, n)

        def advance(
            now: Value, states: States, step: Step = step, gates: Weights = gates, last: Weights = last,
            of_gates: Optional[Value] = of_gates, of_last: Value = of_last,
        ) -> States:  # fmt: skip
            before = states[0]
            total = added(part(now, (slice(None), slice(0, 2 * hidden))), gates.product(before))
            if of_gates is not None:
                total = added(total, of_gates)
            keep, reset = (step.activated(0, part(total, (slice(None), key))) for key in (z, r))
            if after:
                recurrent = elementwise(np.multiply, reset, added(last.product(before), of_last), steps=arithmetic.intermediate)
            else:
                recurrent = added(last.product(elementwise(np.multiply, reset, before, steps=arithmetic.intermediate)), of_last)
            fresh = step.activated(1, added(part(now, (slice(None), n)), recurrent))
            return [step.mixed(keep, before, fresh)]

        x = _projected(layer.x, _turned(part(layer.w, number)), of_input, arithmetic)
        made.append(_run(x, [layer.initial(5, number)], advance, layer.lengths, backwards))
    return layer.outputs(made)


@operator(onnx=["RNN"], sums=True)
def onnx_rnn(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX RNN: Y, Y_h."""
    layer = _Onnx(node, inputs, 1, ("Tanh",))
    made = []
    for number, backwards in enumerate(layer.backwards):
        step = layer.step(number, arithmetic)
        weights = Weights(_turned(part(layer.r, number)), arithmetic)

        def advance(now: Value, states: States, step: Step = step, weights: Weights = weights) -> States:
            return [step.activated(0, added(now, weights.product(states[0])))]

        bias = _sum(*layer.biases(number, 1))
        x = _projected(layer.x, _turned(part(layer.w, number)), bias, arithmetic)
        made.append(_run(x, [layer.initial(5, number)], advance, layer.lengths, backwards))
    return layer.outputs(made)


def _caffe_inputs(
    node: Node, inputs: Inputs, blobs: int, states: int, arithmetic: Arithmetic
) -> Tuple[Value, Value, Optional[Value], States, List[Value]]:
    """Return a Caffe layer's x, cont, the static input times its matrix, initial states, and the other blobs.

    Bottoms are x, cont, [static], [states]; blobs W_x, b, [W_static], and the rest.
    """
    exposed = states if bool(node.get("expose_hidden", False)) else 0
    extra = len(inputs) - 2 - exposed - blobs
    if extra not in (0, 2):
        wanted = len(inputs) - extra
        raise CannotCompute("it has %d inputs with its weights, expected %d or %d" % (len(inputs), wanted, wanted + 2))
    values = [given(inputs, number, "input %d" % number) for number in range(len(inputs))]
    bottoms, weights = values[: 2 + extra // 2 + exposed], values[2 + extra // 2 + exposed :]
    static = None
    if extra:
        flat = moved(lambda array: array.reshape(len(array), -1), bottoms[2])
        static = sum_of_products(np.matmul, flat, _turned(weights[2]), flat.array.shape[1], arithmetic)
        weights = weights[:2] + weights[3:]
    initial = [part(value, 0) for value in bottoms[len(bottoms) - exposed :]] if exposed else []
    return bottoms[0], bottoms[1], static, initial, weights


def _caffe_projected(x: Value, static: Optional[Value], weights: Sequence[Value], arithmetic: Arithmetic) -> Value:
    flat = moved(lambda array: array.reshape(array.shape[:2] + (-1,)), x)
    made = _projected(flat, _turned(weights[0]), moved(lambda array: array.reshape(1, -1), weights[1]), arithmetic)
    return made if static is None else added(made, static)


def _with_cont(now: Value, cont: Value, step: int) -> Value:
    return elementwise(np.multiply, now, moved(lambda array: array[step].reshape(-1, 1), cont))


@operator(caffe=["LSTM"], sums=True)
def caffe_lstm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe LSTM: gates stand in the order i, f, o, g; where cont is 0 a sequence begins anew.

    Source: lstm_layer.cpp, lstm_unit_layer.cpp.
    """
    x, cont, static, initial, weights = _caffe_inputs(node, inputs, 3, 2, arithmetic)
    total = _caffe_projected(x, static, weights, arithmetic)
    matrix = Weights(_turned(weights[2]), arithmetic)
    hidden, batch = weights[2].array.shape[1], x.array.shape[1]
    i, f, g, o = _quarters(hidden, "ifog")
    step = Step(_LSTM, arithmetic)
    shown, cell = initial or [_zeros(batch, hidden), _zeros(batch, hidden)]
    made = []
    for number in range(x.array.shape[0]):
        sums = added(part(total, number), matrix.product(_with_cont(shown, cont, number)))
        take, forget, out = (step.activated(0, part(sums, (slice(None), key))) for key in (i, f, o))
        fresh = step.activated(1, part(sums, (slice(None), g)))
        cell = step.cell_state(_with_cont(forget, cont, number), cell, take, fresh)
        shown = step.shown(out, cell)
        made.append(shown)
    return [stacked(made)] + ([stacked([shown]), stacked([cell])] if initial else [])


@operator(caffe=["RNN"], sums=True)
def caffe_rnn(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe RNN: tanh of the state, and tanh of what is shown of it. Source: rnn_layer.cpp."""
    x, cont, static, initial, weights = _caffe_inputs(node, inputs, 5, 1, arithmetic)
    total = _caffe_projected(x, static, weights, arithmetic)
    matrix, out = Weights(_turned(weights[2]), arithmetic), Weights(_turned(weights[3]), arithmetic)
    offset = moved(lambda array: array.reshape(1, -1), weights[4])
    step = Step((np.tanh,), arithmetic)
    state = initial[0] if initial else _zeros(x.array.shape[1], weights[2].array.shape[1])
    made = []
    for number in range(x.array.shape[0]):
        state = step.activated(0, added(part(total, number), matrix.product(_with_cont(state, cont, number))))
        made.append(step.activated(0, added(out.product(state), offset)))
    return [stacked(made)] + ([stacked([state])] if initial else [])


def _beside(x: Value, state: Value) -> Value:
    """Return inputs and state side by side."""
    result = np.concatenate([x.array, state.array], 1)
    if x.error is None and state.error is None:
        return Value(result)
    errors = [np.broadcast_to(0.0 if value.error is None else value.error, value.array.shape) for value in (x, state)]
    return Value(result, np.concatenate(errors, 1))


@operator(tensorflow=["LSTMBlockCell"], sums=True)
def tensorflow_lstm_cell(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow LSTMBlockCell: i, cs, f, o, ci, co, h; gates stand in the order i, ci, f, o. Source: lstm_ops.h."""
    if bool(node.get("use_peephole", False)):
        raise CannotCompute("its use_peephole is not known")
    x, cell, shown, matrix = (given(inputs, number, "input %d" % number) for number in range(4))
    bias = given(inputs, 7, "bias")
    sums = sum_of_products(np.matmul, _beside(x, shown), matrix, matrix.array.shape[0], arithmetic, bias)
    i, f, g, o = _quarters(cell.array.shape[1], "igfo")
    step = Step(_LSTM, arithmetic)
    forget_bias = Value(np.asarray(float(node.get("forget_bias", 1.0))))
    take, out = (step.activated(0, part(sums, (slice(None), key))) for key in (i, o))
    forget = step.activated(0, added(part(sums, (slice(None), f)), forget_bias))
    fresh = step.activated(1, part(sums, (slice(None), g)))
    cell = step.cell_state(forget, cell, take, fresh)
    clip = float(node.get("cell_clip", 3.0))
    if clip > 0:
        cell = elementwise(lambda array: np.clip(array, -clip, clip), cell)
    tanh = step.activated(2, cell)
    return [take, cell, forget, out, fresh, tanh, step.shown(out, cell)]


@operator(tensorflow=["GRUBlockCell"], sums=True)
def tensorflow_gru_cell(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow GRUBlockCell: r, u, c, h. Source: gru_ops.h."""
    x, state, gates, last, of_gates, of_last = (given(inputs, number, "input %d" % number) for number in range(6))
    step = Step((sigmoid, np.tanh), arithmetic)
    sums = sum_of_products(np.matmul, _beside(x, state), gates, gates.array.shape[0], arithmetic, of_gates)
    hidden = state.array.shape[1]
    reset, keep = (step.activated(0, part(sums, (slice(None), slice(n * hidden, (n + 1) * hidden)))) for n in range(2))
    left = elementwise(np.multiply, reset, state, steps=arithmetic.intermediate)
    fresh = step.activated(1, sum_of_products(np.matmul, _beside(x, left), last, last.array.shape[0], arithmetic, of_last))
    return [reset, keep, fresh, step.mixed(keep, state, fresh)]


_ASCEND_ONLY = (
    ("cell_type", "LSTM"), ("cell_depth", 1), ("use_peephole", False), ("keep_prob", 1.0), ("num_proj", 0), ("time_major", True),
    ("activation", "tanh"),
)  # fmt: skip


@operator(ascend=["DynamicRNN"], sums=True)
def ascend_dynamic_rnn(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR DynamicRNN, an LSTM: y, output_h, output_c, i, j, f, o, tanhc, each at every step.

    The matrix has the inputs' rows first, then the state's; gates stand in gate_order.
    """
    for name, only in _ASCEND_ONLY:
        if node.get(name, only) != only:
            raise CannotCompute("its %s=%s is not known" % (name, node.get(name)))
    order, direction = str(node.get("gate_order", "ijfo")), str(node.get("direction", "UNIDIRECTIONAL"))
    if order not in ("ijfo", "ifjo") or direction not in ("UNIDIRECTIONAL", "REDIRECTIONAL") or float(node.get("cell_clip", -1.0)) > 0:
        raise CannotCompute("its gate_order=%s, direction=%s or cell_clip is not known" % (order, direction))
    x, matrix, bias = (given(inputs, number, "input %d" % number) for number in range(3))
    lengths = optional(inputs, 3)
    if lengths is not None and not (lengths.array.ndim == 1 and np.all(lengths.array >= x.array.shape[0])):
        raise CannotCompute("what its seq_length does is not known")
    size, hidden = x.array.shape[2], matrix.array.shape[1] // 4
    total = _projected(x, part(matrix, slice(0, size)), bias, arithmetic)
    weights = Weights(part(matrix, slice(size, None)), arithmetic)
    i, f, g, o = _quarters(hidden, order.replace("j", "g"))
    step = Step(_LSTM, arithmetic)
    forget_bias = Value(np.asarray(float(node.get("forget_bias", 0.0))))
    states = []
    for number in (4, 5):
        value = optional(inputs, number)
        states.append(_zeros(x.array.shape[1], hidden) if value is None else moved(lambda array: array.reshape(-1, hidden), value))
    shown, cell = states
    made: List[States] = []
    numbers = range(x.array.shape[0])
    for number in numbers if direction == "UNIDIRECTIONAL" else reversed(numbers):
        sums = added(part(total, number), weights.product(shown))
        take, out = (step.activated(0, part(sums, (slice(None), key))) for key in (i, o))
        forget = step.activated(0, added(part(sums, (slice(None), f)), forget_bias))
        fresh = step.activated(1, part(sums, (slice(None), g)))
        cell = step.cell_state(forget, cell, take, fresh)
        shown = step.shown(out, cell)
        made.append([shown, shown, cell, take, fresh, forget, out, step.activated(2, cell)])
    if direction != "UNIDIRECTIONAL":
        made.reverse()
    return [stacked([entry[number] for entry in made]) for number in range(8)]
