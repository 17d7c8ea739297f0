"""What operators may read otherwise: the declarations fit the formulas, and the page shows them."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from goldwatch.operators import CAFFE, ONNX, TENSORFLOW, Arithmetic, Node, Value, find
from goldwatch.operators.inputs_otherwise import other_inputs
from goldwatch.operators.variants import declared, fits_of, variants_of

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "variant_table")


def test_each_declared_type_is_computed():
    assert [key for key in declared() if find(*key) is None] == []


def test_the_page_shows_what_is_declared():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr


NAMES = (
    "axis",
    "the order of its inputs",
    "perm",
    "its input 1 (transB, the weights)",
    "negative_slope",
    "operation",
    "transpose_b",
)


def variants(node, *arrays):
    inputs = [Value(np.asarray(array)) for array in arrays]
    return {
        (one.name, one.device): one.compute(inputs, Arithmetic())[0].array
        for one in variants_of(node, inputs)
        if one.name in NAMES
    }


X = np.arange(16.0, dtype=np.float32).reshape(4, 4) / 16


@pytest.mark.parametrize(
    "node, arrays, what, right",
    [
        (Node(ONNX, "Sub", {}, "", 17), (X, X.T), ("the order of its inputs", "[1, 0]"), X.T - X),
        (Node(ONNX, "Gather", {"axis": 0}, "", 17), (X, [2, 0]), ("axis", "1"), X[:, [2, 0]]),
        (Node(ONNX, "Transpose", {"perm": [1, 0]}, "", 17), (X,), ("perm", "[0, 1]"), X),
        (
            Node(ONNX, "MatMul", {}, "", 17),
            (X, X[::-1]),
            ("its input 1 (transB, the weights)", "transposed"),
            X @ X[::-1].T,
        ),
        (
            Node(CAFFE, "ReLU", {}),
            (X - 0.5,),
            ("negative_slope", "0.1"),
            np.where(X > 0.5, X - 0.5, 0.1 * (X - 0.5)),
        ),
        (Node(CAFFE, "Eltwise", {}), (X, X.T), ("operation", "PROD"), X * X.T),
        (Node(TENSORFLOW, "MatMul", {}), (X, X[::-1]), ("transpose_b", "True"), X @ X[::-1].T),
        (Node(TENSORFLOW, "Sub", {}), (X, X.T), ("the order of its inputs", "[1, 0]"), X.T - X),
    ],
)
def test_a_variant_computes_what_it_says(node, arrays, what, right):
    np.testing.assert_allclose(variants(node, *arrays)[what], right, rtol=1e-6)


@pytest.mark.parametrize(
    "node, arrays, name, number",
    [
        (Node(ONNX, "LeakyRelu", {"alpha": 0.1}, "", 17), (X - 0.5,), "alpha", 0.37),
        (Node(ONNX, "LayerNormalization", {}, "", 17), (X, np.ones(4, "f")), "epsilon", 0.02),
        (Node(ONNX, "Mul", {}, "", 17), (X, np.float32([2.0])), "its constant", 2.5),
    ],
)
def test_a_number_may_be_any(node, arrays, name, number):
    inputs = [Value(np.asarray(array)) for array in arrays]
    fit = next(fit for fit in fits_of(node, inputs) if fit.name == name)
    changed = fit.variant(number)
    assert (changed.device, changed.model) == ("%g" % number, "%.6g" % fit.own)
    made, own = (
        one.compute(inputs, Arithmetic())[0].array for one in (changed, fit.variant(fit.own))
    )
    assert not np.allclose(made, own)


def test_an_activation_of_both_directions_is_exchanged_at_once():
    node = Node(ONNX, "LSTM", {"direction": "bidirectional", "hidden_size": 2}, "", 14)
    data = np.zeros((3, 1, 2), np.float32), *np.zeros((2, 2, 8, 2), np.float32)
    inputs = [Value(array) for array in data]
    devices = {one.device for one in variants_of(node, inputs) if one.name == "activations"}
    assert "[HardSigmoid, Tanh, Tanh, HardSigmoid, Tanh, Tanh]" in devices
    assert "[HardSigmoid, Tanh, Tanh, Sigmoid, Tanh, Tanh]" in devices


def test_other_counts_of_heads_divide_the_size():
    node = Node(ONNX, "com.microsoft.MultiHeadAttention", {"num_heads": 2}, "", 1)
    inputs = [Value(np.ones((1, 3, 8), np.float32))] * 3
    found = [one for one in variants_of(node, inputs) if one.name == "num_heads"]
    assert [(one.device, one.model) for one in found] == [("1", "2"), ("4", "2"), ("8", "2")]


@pytest.mark.parametrize("dtype, words", [(np.uint8, "read as int8"), (np.int8, "read as uint8")])
def test_bytes_may_be_read_with_or_without_their_sign(dtype, words):
    node = Node(ONNX, "DequantizeLinear", {}, "", 17)
    array = np.array([1, 200, 127, 128]).astype(dtype)
    other = {np.uint8: np.int8, np.int8: np.uint8}[dtype]
    inputs = [Value(array), Value(np.array(0.5, np.float32))]
    (made,) = [one for one in variants_of(node, inputs) if one.device == words]
    right = array.astype(other).astype(np.float32) / 2
    np.testing.assert_array_equal(made.compute(inputs, Arithmetic())[0].array, right)


IMAGE = np.linspace(-2, 2, 96, dtype=np.float32).reshape(1, 6, 4, 4)
WHOLE = np.arange(16, dtype=np.uint8).reshape(4, 4)


@pytest.mark.parametrize(
    "kind, attributes, array, what, right",
    [
        ("IsInf", {}, np.float32([-np.inf, 1, np.inf]), ("detect_negative", "0"), [0, 0, 1]),
        ("IsInf", {}, np.float32([-np.inf, 1, np.inf]), ("detect_positive", "0"), [1, 0, 0]),
        (
            "LRN",
            {"size": 1, "alpha": 0.5, "beta": 1.0},
            IMAGE,
            ("alpha", "not divided by size (0.5 for 0.5)"),
            IMAGE / (1 + 0.5 * IMAGE**2),
        ),
    ],
)
def test_what_one_input_tells_is_computed_otherwise(kind, attributes, array, what, right):
    node, inputs = Node(ONNX, kind, attributes, "", 17), [Value(array)]
    found = {(one.name, one.device): one for one in variants_of(node, inputs)}
    made = found[what].compute(inputs, Arithmetic())[0].array
    np.testing.assert_allclose(made, right, 1e-6)


def test_a_product_of_whole_numbers_may_have_another_zero_point():
    node = Node(ONNX, "MatMulInteger", {}, "", 10)
    zero = np.array(3, np.uint8)
    inputs = [Value(WHOLE), Value(WHOLE), Value(zero), Value(zero)]
    fits = {one.name: one for one in fits_of(node, inputs)}
    assert set(fits) == {"the zero point of its input", "the zero point of the weights"}
    fit = fits["the zero point of its input"]
    made = fit.variant(5.0).compute(inputs, Arithmetic())[0].array
    np.testing.assert_array_equal(made, (WHOLE.astype(int) - 5) @ (WHOLE.astype(int) - 3))


def test_an_input_of_another_kind_is_not_taken_in_the_place_of_one():
    node = Node(ONNX, "QLinearMatMul", {}, "", 10)
    scale, zero = Value(np.array(0.5, np.float32)), Value(np.array(3, np.uint8))
    inputs = [Value(WHOLE), scale, zero, Value(WHOLE), scale, zero, scale, zero]
    said = [(one.name, one.device) for one in other_inputs(node, inputs)]
    placed = [entry for entry in said if "in its place" in entry[1]]
    assert placed and not [
        name for name, device in placed if ("scale" in name) != ("scale" in device)
    ]
