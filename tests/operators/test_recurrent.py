"""Recurrent layers against onnxruntime and their formulas, and their errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_references import (
    arrays,
    assert_equals_onnxruntime,
    assert_error_matches_spread,
    assert_near,
    run_onnxruntime,
    with_error,
)

from goldwatch.operators import Arithmetic, CannotCompute, Node, compute


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


STEPS, BATCH, SIZE, HIDDEN = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
FUNCTIONS = {
    "LSTM": ["HardSigmoid", "Softsign", "Relu"],
    "GRU": ["HardSigmoid", "ScaledTanh"],
    "RNN": ["LeakyRelu"],
}


def layer(kind, directions, biased=True, lengths=None, states=True, holes=False):
    gates = GATES[kind]
    inputs = [
        tensor(0, STEPS, BATCH, SIZE),
        tensor(1, directions, gates * HIDDEN, SIZE),
        tensor(2, directions, gates * HIDDEN, HIDDEN) / 2,
    ]
    inputs += [tensor(3, directions, 2 * gates * HIDDEN) if biased else None, lengths]
    inputs += [tensor(4, directions, BATCH, HIDDEN) if states else None]
    if kind == "LSTM":
        inputs += [tensor(5, directions, BATCH, HIDDEN) if states else None]
        inputs += [tensor(6, directions, 3 * HIDDEN) if holes else None]
    return inputs


def test_a_small_tanh_has_the_rounding_of_the_sums_near_1_that_it_is_made_of():
    inputs = layer("RNN", 1, biased=False, states=False)
    for clip in (0.01, 0.1):
        entries = {"hidden_size": HIDDEN, "clip": clip}
        right = run_onnxruntime("RNN", inputs, entries)[0]
        made = compute(Node("onnx", "RNN", entries, version=17), inputs, Arithmetic())[0]
        off = right.astype(np.float64) - made.array
        assert np.sqrt(np.mean(off**2)) > 2.0**-26
        assert np.all(np.abs(off) <= 4 * made.error)


@settings(max_examples=80)
@given(
    st.sampled_from(sorted(GATES)),
    st.sampled_from(sorted(DIRECTIONS)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0.5, 2.0]),
    st.sampled_from([None, [5, 2, 4], [1, 5, 3]]),
    st.booleans(),
)
def test_onnx_recurrent_layers_equal_onnxruntime(
    kind, direction, biased, states, holes, other, clip, lengths, special
):
    count = DIRECTIONS[direction]
    entries = {"hidden_size": HIDDEN, "direction": direction}
    if clip is not None:
        entries["clip"] = clip
    if other:
        entries["activations"] = FUNCTIONS[kind] * count
        if kind == "GRU":
            entries["activation_alpha"] = [0.3, 0.8] * count
            entries["activation_beta"] = [0.4, 1.2] * count
        elif kind == "RNN":
            entries["activation_alpha"] = [0.1] * count
    if kind == "GRU":
        entries["linear_before_reset"] = int(special)
    if kind == "LSTM" and not other:
        entries["input_forget"] = int(special)
    inputs = layer(
        kind, count, biased, None if lengths is None else np.array(lengths, np.int32), states, holes
    )
    while inputs[-1] is None:
        inputs.pop()
    assert_equals_onnxruntime(
        kind, inputs, entries, 14, 3 if kind == "LSTM" else 2, constants=(1, 2, 3, 7)
    )


@pytest.mark.parametrize("kind", sorted(GATES))
def test_layout_1_puts_the_batch_first(kind):
    inputs = layer(kind, 2)
    plain = arrays(Node("onnx", kind, {"direction": "bidirectional"}, version=14), inputs)
    turned = [
        inputs[0].swapaxes(0, 1),
        *inputs[1:5],
        *(array.swapaxes(0, 1) for array in inputs[5:7] if array is not None),
    ]
    made = arrays(
        Node("onnx", kind, {"direction": "bidirectional", "layout": 1}, version=14), turned
    )
    assert_near(made[0], plain[0].transpose(2, 0, 1, 3))
    for one, other in zip(made[1:], plain[1:]):
        assert_near(one, other.swapaxes(0, 1))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("exposed", [False, True])
def test_caffe_lstm_equals_plain_loops(static, exposed):
    x, cont = tensor(0, STEPS, BATCH, SIZE), np.ones((STEPS, BATCH), np.float32)
    cont[0], cont[3, 1] = 0, 0
    w, bias, r, fixed = (
        tensor(1, 4 * HIDDEN, SIZE),
        tensor(2, 4 * HIDDEN),
        tensor(3, 4 * HIDDEN, HIDDEN),
        tensor(4, 4 * HIDDEN, 2),
    )
    still = tensor(5, BATCH, 2)
    h, c = tensor(6, 1, BATCH, HIDDEN), tensor(7, 1, BATCH, HIDDEN)
    if exposed:
        cont[0] = 1
    inputs = [x, cont] + ([still] if static else []) + ([h, c] if exposed else [])
    inputs += [w, bias] + ([fixed] if static else []) + [r]
    made = arrays(Node("caffe", "LSTM", {"num_output": HIDDEN, "expose_hidden": exposed}), inputs)
    h, c = (h[0], c[0]) if exposed else (np.zeros((BATCH, HIDDEN)), np.zeros((BATCH, HIDDEN)))
    shown = []
    for step in range(STEPS):
        begun = cont[step][:, None]
        total = (
            x[step] @ w.T.astype(np.float64)
            + bias
            + (h * begun) @ r.T
            + (still @ fixed.T if static else 0)
        )
        i, f, o, g = np.split(total, 4, 1)
        c = begun * sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        shown.append(h)
    assert_near(made[0], np.array(shown))
    if exposed:
        assert_near(made[1], h[None])
        assert_near(made[2], c[None])


def test_caffe_rnn_equals_plain_loops():
    x, cont = tensor(0, STEPS, BATCH, SIZE), np.ones((STEPS, BATCH), np.float32)
    cont[0], cont[2, 0] = 0, 0
    w, bias, r = tensor(1, HIDDEN, SIZE), tensor(2, HIDDEN), tensor(3, HIDDEN, HIDDEN)
    out, offset = tensor(4, HIDDEN, HIDDEN), tensor(5, HIDDEN)
    made = arrays(Node("caffe", "RNN", {"num_output": HIDDEN}), [x, cont, w, bias, r, out, offset])[
        0
    ]
    h, shown = np.zeros((BATCH, HIDDEN)), []
    for step in range(STEPS):
        h = np.tanh(x[step] @ w.T.astype(np.float64) + bias + (h * cont[step][:, None]) @ r.T)
        shown.append(np.tanh(h @ out.T + offset))
    assert_near(made, np.array(shown))
    with pytest.raises(CannotCompute, match="inputs"):
        compute(Node("caffe", "RNN", {"num_output": HIDDEN}), [x, cont, w, bias, r])


@pytest.mark.parametrize("order", ["ijfo", "ifjo"])
@pytest.mark.parametrize("direction", ["UNIDIRECTIONAL", "REDIRECTIONAL"])
@pytest.mark.parametrize("states", [False, True])
def test_ascend_dynamic_rnn_equals_the_onnx_lstm(order, direction, states):
    # The same layer as ONNX's, whose gates stand in the order i, o, f, c.
    inputs = layer("LSTM", 1, states=states)
    way = "forward" if direction == "UNIDIRECTIONAL" else "reverse"
    right = run_onnxruntime(
        "LSTM",
        inputs[:7] if states else inputs[:4],
        {"hidden_size": HIDDEN, "direction": way},
        14,
        3,
    )
    places = {"i": 0, "o": 1, "f": 2, "j": 3}

    def turned(matrix):
        parts = np.split(matrix, 4)
        return np.concatenate([parts[places[gate]] for gate in order])

    w = np.concatenate([turned(inputs[1][0]).T, turned(inputs[2][0]).T])
    bias = turned(inputs[3][0, : 4 * HIDDEN] + inputs[3][0, 4 * HIDDEN :])
    node = Node("ascend", "DynamicRNN", {"gate_order": order, "direction": direction})
    made = arrays(node, [inputs[0], w, bias, None, inputs[5], inputs[6]])
    assert len(made) == 8
    assert_near(made[0], right[0][:, 0])
    last = -1 if direction == "UNIDIRECTIONAL" else 0
    assert_near(made[2][last], right[2][0])
    assert_near(made[1], made[6] * made[7])
    for says, value in (("cell_clip", 1.0), ("direction", "BIDIRECTIONAL"), ("cell_type", "GRU")):
        with pytest.raises(CannotCompute, match=says):
            compute(Node("ascend", "DynamicRNN", {says: value}), [inputs[0], w, bias])


@pytest.mark.parametrize("order", ["zrh", "rzh"])
@pytest.mark.parametrize("direction", ["UNIDIRECTIONAL", "REDIRECTIONAL"])
def test_ascend_dynamic_gru_equals_the_onnx_gru(order, direction):
    inputs = layer("GRU", 1)
    way = "forward" if direction == "UNIDIRECTIONAL" else "reverse"
    entries = {"hidden_size": HIDDEN, "direction": way, "linear_before_reset": 1}
    right = run_onnxruntime("GRU", inputs[:4] + inputs[4:6], entries, 14, 2)

    def turned(matrix):
        parts = np.split(matrix, 3)
        return np.concatenate([parts["zrh".index(gate)] for gate in order])

    biases = [turned(part) for part in np.split(inputs[3][0], 2)]
    node = Node("ascend", "DynamicGRUV2", {"gate_order": order, "direction": direction})
    given_inputs = [
        inputs[0],
        turned(inputs[1][0]).T,
        turned(inputs[2][0]).T,
        *biases,
        None,
        inputs[5],
    ]
    made = arrays(node, given_inputs)
    assert_near(made[0], right[0][:, 0])
    # What is new is mixed with what was before.
    before = np.concatenate(
        [inputs[5], made[1][:-1]] if way == "forward" else [made[1][1:], inputs[5]]
    )
    assert_near(made[1], (1 - made[2]) * made[4] + made[2] * before)
    with pytest.raises(CannotCompute, match="reset_after"):
        compute(Node("ascend", "DynamicGRUV2", {"reset_after": False}), given_inputs)
    with pytest.raises(CannotCompute, match="seq_length"):
        compute(node, [*given_inputs[:5], np.array([STEPS, 2, STEPS]), inputs[5]])


def test_tensorflow_block_cells_equal_their_formulas():
    x, h, c = tensor(0, BATCH, SIZE), tensor(1, BATCH, HIDDEN), tensor(2, BATCH, HIDDEN) * 4
    w, bias = tensor(3, SIZE + HIDDEN, 4 * HIDDEN), tensor(4, 4 * HIDDEN)
    peep = np.zeros(HIDDEN, np.float32)
    made = arrays(
        Node("tensorflow", "LSTMBlockCell", {"cell_clip": 3.0, "forget_bias": 0.5}),
        [x, c, h, w, peep, peep, peep, bias],
    )
    total = np.concatenate([x, h], 1).astype(np.float64) @ w + bias
    i, g, f, o = np.split(total, 4, 1)
    state = np.clip(sigmoid(f + 0.5) * c + sigmoid(i) * np.tanh(g), -3, 3)
    for one, other in zip(
        made, [sigmoid(i), state, sigmoid(f + 0.5), sigmoid(o), np.tanh(g), np.tanh(state)]
    ):
        assert_near(one, other)
    assert_near(made[6], sigmoid(o) * np.tanh(state))
    gates, last = tensor(5, SIZE + HIDDEN, 2 * HIDDEN), tensor(6, SIZE + HIDDEN, HIDDEN)
    made = arrays(
        Node("tensorflow", "GRUBlockCell"),
        [x, h, gates, last, tensor(7, 2 * HIDDEN), tensor(8, HIDDEN)],
    )
    r, u = np.split(
        sigmoid(np.concatenate([x, h], 1).astype(np.float64) @ gates + tensor(7, 2 * HIDDEN)), 2, 1
    )
    fresh = np.tanh(np.concatenate([x, r * h], 1) @ last + tensor(8, HIDDEN))
    for one, other in zip(made, [r, u, fresh, (1 - u) * fresh + u * h]):
        assert_near(one, other)


@pytest.mark.parametrize(
    "entries, says",
    [({"activations": ["Sigmoid", "Tanh"]}, "activations"),
    ({"activations": ["Cosh", "Tanh", "Tanh"]}, "Cosh"),
     ({"activations": ["Affine", "Tanh", "Tanh"]}, "Affine"), ({"direction": "both"}, "direction"),
     ({"hidden_size": 7}, "hidden_size")],
)  # fmt: skip
def test_recurrent_layers_with_unknown_attributes_are_refused(entries, says):
    with pytest.raises(CannotCompute, match=says):
        compute(Node("onnx", "LSTM", entries, version=14), layer("LSTM", 1))


@pytest.mark.parametrize("kind", sorted(GATES))
@pytest.mark.parametrize("holes", [False, True])
def test_input_errors_reach_the_output_of_recurrent_layers(kind, holes):
    generator = np.random.default_rng(9)
    entries = {"linear_before_reset": int(holes)} if kind == "GRU" else {}
    inputs = layer(kind, 1, holes=holes and kind == "LSTM")
    node = Node("onnx", kind, entries, version=14)
    for number in (0, 1, 2, 3, 5):
        erring = [
            with_error(array, 1e-3) if number == at and array is not None else array
            for at, array in enumerate(inputs)
        ]
        # One error of a weight or a state reaches an output by many ways, and they are added up as
        # if they knew nothing of each other.
        assert_error_matches_spread(node, erring, generator, each=8.0)


def test_float16_roundings_between_steps_are_estimated():
    def half(array):
        return np.asarray(array, np.float64).astype(np.float16).astype(np.float64)

    generator = np.random.default_rng(10)
    x = half(generator.standard_normal((8, 50, 16)))
    w, r = (
        half(generator.standard_normal((1, 4 * 16, 16)) / 4),
        half(generator.standard_normal((1, 4 * 16, 16)) / 4),
    )
    h, c, shown = np.zeros((50, 16)), np.zeros((50, 16)), []
    for step in range(8):
        i, o, f, g = np.split(x[step] @ w[0].T + h @ r[0].T, 4, 1)
        i, o, f, g = half(sigmoid(i)), half(sigmoid(o)), half(sigmoid(f)), half(np.tanh(g))
        c = half(half(f * c) + half(i * g))
        h = half(o * half(np.tanh(c)))
        shown.append(h)
    made = compute(Node("onnx", "LSTM", version=14), [x, w, r], Arithmetic(intermediate=2.0**-11))[
        0
    ]
    gone, said = (
        np.sqrt(np.mean(np.square(array)))
        for array in (np.array(shown) - made.array[:, 0], made.error)
    )
    assert said / 3 < gone < 3 * said


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_rounding_of_states_handed_on_in_float16_is_estimated(kind):
    def half(array):
        return array.astype(np.float16).astype(np.float64)

    generator = np.random.default_rng(11)
    # Gates that keep the state: what one step rounds away the next steps do not forget.
    x, bias = half(generator.standard_normal((40, 8, 16))), np.zeros((1, 2 * GATES[kind] * 16))
    bias[0, 32:48] = bias[0, 0:16] = 3.0
    w, r = (half(generator.standard_normal((1, GATES[kind] * 16, 16)) / 4) for _ in range(2))
    node = Node("onnx", kind, {"linear_before_reset": 1} if kind == "GRU" else {}, version=14)
    states = [np.zeros((1, 8, 16))] * (2 if kind == "LSTM" else 1)
    # The layer itself, a step at a time, is the device.
    for step in range(40):
        states = [
            half(array)
            for array in arrays(node, [x[step : step + 1], w, r, bias, None, *states])[1:]
        ]
    single, said = (
        compute(node, [x, w, r, bias], Arithmetic(states=unit))[1:] for unit in (2.0**-24, 2.0**-11)
    )
    for state, coarse, fine in zip(states, said, single):
        gone = np.sqrt(np.mean(np.square(state - coarse.array)))
        assert gone / 2 < np.sqrt(np.mean(np.square(coarse.error))) < 2 * gone
        assert np.sqrt(np.mean(np.square(fine.error))) < gone / 100
