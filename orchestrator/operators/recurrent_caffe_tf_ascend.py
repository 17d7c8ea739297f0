"""Recurrent layers of Caffe and Ascend IR, and TensorFlow's recurrent cells."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .activations import sigmoid
from .convolution_operators import named_input, optional
from .error_propagation import elementwise, moved, sum_of_products
from .recurrent_cells import (
    Step,
    Weights,
    added,
    part,
    projected,
    quarters,
    rounded_to_stored_type,
    stacked,
    turned,
    zeros,
)
from .registry import CannotCompute, Inputs, Node, operator
from .value_with_error import Arithmetic, Value

Array = Any
States = List[Value]

_LSTM = (sigmoid, np.tanh, np.tanh)


def _caffe_inputs(
    node: Node, inputs: Inputs, blobs: int, states: int, arithmetic: Arithmetic
) -> Tuple[Value, Value, Optional[Value], States, List[Value]]:
    """Return a Caffe layer's x, cont, the static input times its matrix, initial states, and the
    other blobs.

    Bottoms are x, cont, [static], [states]; blobs W_x, b, [W_static], and the rest.
    """
    exposed = states if bool(node.get("expose_hidden", False)) else 0
    extra = len(inputs) - 2 - exposed - blobs
    if extra not in (0, 2):
        expected = len(inputs) - extra
        raise CannotCompute(
            "it has %d inputs with its weights, expected %d or %d"
            % (len(inputs), expected, expected + 2)
        )
    values = [named_input(inputs, number, "input %d" % number) for number in range(len(inputs))]
    bottoms, weights = values[: 2 + extra // 2 + exposed], values[2 + extra // 2 + exposed :]
    static = None
    if extra:
        flat = moved(lambda array: array.reshape(len(array), -1), bottoms[2])
        static = sum_of_products(
            np.matmul, flat, turned(weights[2]), flat.array.shape[1], arithmetic
        )
        weights = weights[:2] + weights[3:]
    initial = [part(value, 0) for value in bottoms[len(bottoms) - exposed :]] if exposed else []
    return bottoms[0], bottoms[1], static, initial, weights


def _caffe_projected(
    x: Value, static: Optional[Value], weights: Sequence[Value], arithmetic: Arithmetic
) -> Value:
    flat = moved(lambda array: array.reshape(array.shape[:2] + (-1,)), x)
    product = projected(
        flat, turned(weights[0]), moved(lambda array: array.reshape(1, -1), weights[1]), arithmetic
    )
    return product if static is None else added(product, static)


def _with_cont(now: Value, cont: Value, step: int) -> Value:
    return elementwise(np.multiply, now, moved(lambda array: array[step].reshape(-1, 1), cont))


@operator(caffe=["LSTM"], multiplies=True)
def caffe_lstm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe LSTM: gates stand in the order i, f, o, g; where cont is 0 a sequence begins anew.

    Source: lstm_layer.cpp, lstm_unit_layer.cpp.
    """
    x, cont, static, initial, weights = _caffe_inputs(node, inputs, 3, 2, arithmetic)
    total = _caffe_projected(x, static, weights, arithmetic)
    matrix = Weights(turned(weights[2]), arithmetic)
    hidden, batch = weights[2].array.shape[1], x.array.shape[1]
    i, f, g, o = quarters(hidden, "ifog")
    step = Step(_LSTM, arithmetic)
    hidden_state, cell = initial or [zeros(batch, hidden), zeros(batch, hidden)]
    steps_made = []
    for number in range(x.array.shape[0]):
        sums = added(part(total, number), matrix.product(_with_cont(hidden_state, cont, number)))
        take, forget, out = (step.activated(0, part(sums, (slice(None), key))) for key in (i, f, o))
        candidate = step.activated(1, part(sums, (slice(None), g)))
        cell = step.cell_state(_with_cont(forget, cont, number), cell, take, candidate)
        hidden_state = step.hidden_state(out, cell)
        steps_made.append(hidden_state)
        last, (hidden_state, cell) = (
            [hidden_state, cell],
            rounded_to_stored_type([hidden_state, cell], arithmetic),
        )
    return [stacked(steps_made)] + ([stacked([state]) for state in last] if initial else [])


@operator(caffe=["RNN"], multiplies=True)
def caffe_rnn(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe RNN: tanh of the state, and tanh of what is shown of it. Source: rnn_layer.cpp."""
    x, cont, static, initial, weights = _caffe_inputs(node, inputs, 5, 1, arithmetic)
    total = _caffe_projected(x, static, weights, arithmetic)
    matrix, out = Weights(turned(weights[2]), arithmetic), Weights(turned(weights[3]), arithmetic)
    offset = moved(lambda array: array.reshape(1, -1), weights[4])
    step = Step((np.tanh,), arithmetic)
    state = initial[0] if initial else zeros(x.array.shape[1], weights[2].array.shape[1])
    steps_made = []
    for number in range(x.array.shape[0]):
        state = step.activated(
            0, added(part(total, number), matrix.product(_with_cont(state, cont, number)))
        )
        steps_made.append(step.activated(0, added(out.product(state), offset)))
        last, (state,) = state, rounded_to_stored_type([state], arithmetic)
    return [stacked(steps_made)] + ([stacked([last])] if initial else [])


def _concatenated(x: Value, state: Value) -> Value:
    """Return inputs and state side by side."""
    result = np.concatenate([x.array, state.array], 1)
    if x.error is None and state.error is None:
        return Value(result)
    errors = [
        np.broadcast_to(0.0 if value.error is None else value.error, value.array.shape)
        for value in (x, state)
    ]
    return Value(result, np.concatenate(errors, 1))


@operator(tensorflow=["LSTMBlockCell"], multiplies=True)
def tensorflow_lstm_cell(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow LSTMBlockCell: i, cs, f, o, ci, co, h; gates stand in the order i, ci, f, o.
    Source: lstm_ops.h.
    """
    if bool(node.get("use_peephole", False)):
        raise CannotCompute("its use_peephole is not known")
    x, cell, hidden_state, matrix = (
        named_input(inputs, number, "input %d" % number) for number in range(4)
    )
    bias = named_input(inputs, 7, "bias")
    sums = sum_of_products(
        np.matmul, _concatenated(x, hidden_state), matrix, matrix.array.shape[0], arithmetic, bias
    )
    i, f, g, o = quarters(cell.array.shape[1], "igfo")
    step = Step(_LSTM, arithmetic)
    forget_bias = Value(np.asarray(float(node.get("forget_bias", 1.0))))
    take, out = (step.activated(0, part(sums, (slice(None), key))) for key in (i, o))
    forget = step.activated(0, added(part(sums, (slice(None), f)), forget_bias))
    candidate = step.activated(1, part(sums, (slice(None), g)))
    cell = step.cell_state(forget, cell, take, candidate)
    clip = float(node.get("cell_clip", 3.0))
    if clip > 0:
        cell = elementwise(lambda array: np.clip(array, -clip, clip), cell)
    tanh = step.activated(2, cell)
    return [take, cell, forget, out, candidate, tanh, step.hidden_state(out, cell)]


@operator(tensorflow=["GRUBlockCell"], multiplies=True)
def tensorflow_gru_cell(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow GRUBlockCell: r, u, c, h. Source: gru_ops.h."""
    x, state, gates, last, of_gates, of_last = (
        named_input(inputs, number, "input %d" % number) for number in range(6)
    )
    step = Step((sigmoid, np.tanh), arithmetic)
    sums = sum_of_products(
        np.matmul, _concatenated(x, state), gates, gates.array.shape[0], arithmetic, of_gates
    )
    hidden = state.array.shape[1]
    reset, keep = (
        step.activated(0, part(sums, (slice(None), slice(n * hidden, (n + 1) * hidden))))
        for n in range(2)
    )
    gated_state = elementwise(np.multiply, reset, state, steps=arithmetic.intermediate)
    candidate = step.activated(
        1,
        sum_of_products(
            np.matmul, _concatenated(x, gated_state), last, last.array.shape[0], arithmetic, of_last
        ),
    )
    return [reset, keep, candidate, step.mixed(keep, state, candidate)]


_ONLY = (
    ("cell_depth", 1),
    ("keep_prob", 1.0),
    ("num_proj", 0),
    ("time_major", True),
    ("activation", "tanh"),
)


def _ascend_layer(
    node: Node, inputs: Inputs, only: Sequence[Tuple[str, Any]], orders: Sequence[str], lengths: int
) -> Tuple[str, bool]:
    """Return a layer's gate_order, and whether it runs backwards.

    Raises
    ------
    CannotCompute
        An attribute, or sequence lengths (input ``lengths``) that are shorter than the steps, make
        of it what is not known here.
    """
    for name, value in only:
        if node.get(name, value) != value:
            raise CannotCompute("its %s=%s is not known" % (name, node.get(name)))
    order, direction = (
        str(node.get("gate_order", orders[0])),
        str(node.get("direction", "UNIDIRECTIONAL")),
    )
    if (
        order not in orders
        or direction not in ("UNIDIRECTIONAL", "REDIRECTIONAL")
        or float(node.get("cell_clip", -1.0)) > 0
    ):
        raise CannotCompute(
            "its gate_order=%s, direction=%s or cell_clip is not known" % (order, direction)
        )
    ends = optional(inputs, lengths)
    if ends is not None and not (
        ends.array.ndim == 1
        and np.all(ends.array >= named_input(inputs, 0, "input").array.shape[0])
    ):
        raise CannotCompute("what its seq_length does is not known")
    return order, direction == "REDIRECTIONAL"


def _initial(inputs: Inputs, number: int, batch: int, hidden: int) -> Value:
    value = optional(inputs, number)
    return (
        zeros(batch, hidden)
        if value is None
        else moved(lambda array: array.reshape(batch, hidden), value)
    )


def _by_output(of_steps: List[States], backwards: bool) -> List[Value]:
    """Return each output [steps, batch, hidden] of the outputs of each step, in the order in which
    they were made.
    """
    if backwards:
        of_steps = of_steps[::-1]
    return [stacked([entry[number] for entry in of_steps]) for number in range(len(of_steps[0]))]


@operator(ascend=["DynamicRNN"], multiplies=True)
def ascend_dynamic_rnn(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR DynamicRNN, an LSTM: y, output_h, output_c, i, j, f, o, tanhc, each at every step.

    The matrix has the inputs' rows first, then the state's; gates stand in gate_order.
    """
    order, backwards = _ascend_layer(
        node, inputs, (*_ONLY, ("cell_type", "LSTM"), ("use_peephole", False)), ("ijfo", "ifjo"), 3
    )
    x, matrix, bias = (named_input(inputs, number, "input %d" % number) for number in range(3))
    steps, batch, size = x.array.shape
    hidden = matrix.array.shape[1] // 4
    total = projected(x, part(matrix, slice(0, size)), bias, arithmetic)
    weights = Weights(part(matrix, slice(size, None)), arithmetic)
    i, f, g, o = quarters(hidden, order.replace("j", "g"))
    step = Step(_LSTM, arithmetic)
    forget_bias = Value(np.asarray(float(node.get("forget_bias", 0.0))))
    hidden_state, cell = _initial(inputs, 4, batch, hidden), _initial(inputs, 5, batch, hidden)
    of_steps: List[States] = []
    for number in range(steps)[:: -1 if backwards else 1]:
        sums = added(part(total, number), weights.product(hidden_state))
        take, out = (step.activated(0, part(sums, (slice(None), key))) for key in (i, o))
        forget = step.activated(0, added(part(sums, (slice(None), f)), forget_bias))
        candidate = step.activated(1, part(sums, (slice(None), g)))
        cell = step.cell_state(forget, cell, take, candidate)
        hidden_state = step.hidden_state(out, cell)
        of_steps.append(
            [
                hidden_state,
                hidden_state,
                cell,
                take,
                candidate,
                forget,
                out,
                step.activated(2, cell),
            ]
        )
        hidden_state, cell = rounded_to_stored_type([hidden_state, cell], arithmetic)
    return _by_output(of_steps, backwards)


@operator(ascend=["DynamicGRUV2"], multiplies=True)
def ascend_dynamic_gru(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR DynamicGRUV2 that resets after the product: y, output_h, update, reset, new,
    hidden_new, each at every step.
    """
    order, backwards = _ascend_layer(
        node, inputs, (*_ONLY, ("reset_after", True)), ("zrh", "rzh"), 5
    )
    x, matrix, recurrent = (named_input(inputs, number, "input %d" % number) for number in range(3))
    steps, batch, _ = x.array.shape
    hidden = recurrent.array.shape[0]
    total = projected(x, matrix, optional(inputs, 3), arithmetic)
    weights = Weights(recurrent, arithmetic)
    z, r, n = (
        slice(order.index(gate) * hidden, (order.index(gate) + 1) * hidden) for gate in "zrh"
    )
    step = Step((sigmoid, np.tanh), arithmetic)
    offset = optional(inputs, 4)
    hidden_state = _initial(inputs, 6, batch, hidden)
    of_steps: List[States] = []
    for number in range(steps)[:: -1 if backwards else 1]:
        now, before = part(total, number), weights.product(hidden_state)
        if offset is not None:
            before = added(before, offset)
        keep, reset = (
            step.activated(0, added(*(part(value, (slice(None), key)) for value in (now, before))))
            for key in (z, r)
        )
        recurrent_part = part(before, (slice(None), n))
        gated_state = elementwise(np.multiply, reset, recurrent_part, steps=arithmetic.intermediate)
        candidate = step.activated(1, added(part(now, (slice(None), n)), gated_state))
        hidden_state = step.mixed(keep, hidden_state, candidate)
        of_steps.append([hidden_state, hidden_state, keep, reset, candidate, recurrent_part])
        (hidden_state,) = rounded_to_stored_type([hidden_state], arithmetic)
    return _by_output(of_steps, backwards)
