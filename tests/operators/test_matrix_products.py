"""Products of matrices, against onnxruntime and numpy."""

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
    with_error,
)

from goldwatch.operators import CannotCompute, Node, Value, compute


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "left, right",
    [
        ((4, 5), (5, 3)),
        ((5,), (5, 3)),
        ((4, 5), (5,)),
        ((5,), (5,)),
        ((2, 1, 4, 5), (3, 5, 6)),
        ((2, 4, 5), (5, 6)),
    ],
)
def test_onnx_matmul_equals_onnxruntime(left, right):
    assert_equals_onnxruntime("MatMul", [tensor(0, *left), tensor(1, *right)])


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("second", [0, 1])
def test_fused_matmul_equals_onnxruntime(first, second):
    x, w = tensor(0, 2, 4, 5), tensor(1, 2, 5, 6)
    inputs = [
        np.ascontiguousarray(array.swapaxes(-1, -2)) if turn else array
        for array, turn in ((x, first), (w, second))
    ]
    assert_equals_onnxruntime(
        "FusedMatMul",
        inputs,
        {"transA": first, "transB": second, "alpha": 0.3},
        domain="com.microsoft",
    )


@settings(max_examples=40)
@given(
    st.booleans(),
    st.booleans(),
    st.sampled_from([1.0, 0.5, -2.0]),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.sampled_from([None, (), (3,), (1, 3), (4, 1), (4, 3)]),
)
def test_onnx_gemm_equals_onnxruntime(first, second, alpha, beta, added):
    x = tensor(0, *((5, 4) if first else (4, 5)))
    w = tensor(1, *((3, 5) if second else (5, 3)))
    inputs = [x, w] + ([] if added is None else [tensor(2, *added)])
    assert_equals_onnxruntime(
        "Gemm",
        inputs,
        {"transA": int(first), "transB": int(second), "alpha": alpha, "beta": beta},
        opset=13,
    )


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize(
    "dialect, kind, names, batched",
    [
        ("tensorflow", "MatMul", ("transpose_a", "transpose_b"), False),
        ("tensorflow", "BatchMatMulV2", ("adj_x", "adj_y"), True),
        ("ascend", "MatMul", ("transpose_x1", "transpose_x2"), False),
        ("ascend", "MatMulV2", ("transpose_x1", "transpose_x2"), False),
        ("ascend", "BatchMatMul", ("adj_x1", "adj_x2"), True),
        ("ascend", "BatchMatMulV2", ("adj_x1", "adj_x2"), True),
    ],
)
def test_transposed_operands_of_other_dialects_are_transposed(
    dialect, kind, names, batched, first, second
):
    batch = (2, 3) if batched else ()
    x, w = tensor(0, *batch, 4, 5), tensor(1, *batch, 5, 6)
    turned = [
        array.swapaxes(-1, -2) if turn else array for array, turn in ((x, first), (w, second))
    ]
    made = arrays(Node(dialect, kind, dict(zip(names, (first, second)))), turned)[0]
    assert_near(made, x.astype(np.float64) @ w)


def test_ascend_matmul_and_gemm_add_the_bias():
    x, w, bias = tensor(0, 4, 5), tensor(1, 5, 6), tensor(2, 6)
    assert_near(
        arrays(Node("ascend", "MatMulV2"), [x, w, bias])[0], x.astype(np.float64) @ w + bias
    )
    made = arrays(
        Node("ascend", "GEMM"), [x, w, tensor(3, 4, 6), np.float32([2.0]), np.float32([0.5])]
    )[0]
    assert_near(made, 2.0 * (x.astype(np.float64) @ w) + 0.5 * tensor(3, 4, 6))


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_fully_connected_layers_equal_numpy(axis):
    x = tensor(0, 2, 3, 4, 5)
    inner = int(np.prod(x.shape[axis:]))
    w, bias = tensor(1, 7, inner), tensor(2, 7)
    right = x.reshape(x.shape[:axis] + (inner,)).astype(np.float64) @ w.T + bias
    entries = {"num_output": 7, "axis": axis}
    assert_near(arrays(Node("caffe", "InnerProduct", entries), [x, w, bias])[0], right)
    assert_near(arrays(Node("ascend", "FullyConnection", entries), [x, w, bias])[0], right)
    entries.update(transpose=True, bias_term=False)
    assert_near(
        arrays(Node("caffe", "InnerProduct", entries), [x, np.ascontiguousarray(w.T)])[0],
        right - bias,
    )
    # Old files have four axes.
    assert_near(
        arrays(
            Node("caffe", "InnerProduct", {"num_output": 7, "axis": axis}),
            [x, w.reshape(1, 1, 7, inner), bias],
        )[0],
        right,
    )


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,jk", [(2, 3, 4), (4, 5)]),
        ("ij,ij->", [(3, 4), (3, 4)]),
        ("ijk->kij", [(3, 4, 5)]),
        ("ijk->i", [(3, 4, 5)]),
        ("bik,kj,bjl->bil", [(2, 3, 4), (4, 5), (2, 5, 6)]),
        ("...i,ij,j,k", [(2, 3, 4), (4, 5), (5,), (6,)]),
        ("i,j,k->kj", [(3,), (4,), (5,)]),
    ],
)
def test_einsum_equals_onnxruntime(equation, shapes):
    assert_equals_onnxruntime(
        "Einsum",
        [tensor(number, *shape) for number, shape in enumerate(shapes)],
        {"equation": equation},
    )


def test_matrix_products_that_cannot_be_computed_are_refused():
    with pytest.raises(CannotCompute, match="twice"):
        compute(Node("onnx", "Einsum", {"equation": "ii->i"}), [tensor(0, 3, 3)])
    with pytest.raises(CannotCompute, match="for 2 inputs, not for 1"):
        compute(Node("onnx", "Einsum", {"equation": "ij,jk"}), [tensor(0, 3, 3)])
    with pytest.raises(CannotCompute, match="num_output"):
        compute(Node("caffe", "InnerProduct", {}), [tensor(0, 2, 3), tensor(1, 4, 3), tensor(2, 4)])
    with pytest.raises(CannotCompute, match="outputs"):
        compute(
            Node("caffe", "InnerProduct", {"num_output": 5}),
            [tensor(0, 2, 3), tensor(1, 4, 3), tensor(2, 4)],
        )
    with pytest.raises(CannotCompute, match="of the shapes"):
        compute(Node("onnx", "MatMul"), [tensor(0, 2, 3), tensor(1, 4, 3)])


def test_input_errors_reach_the_output_of_matrix_products():
    generator = np.random.default_rng(3)
    x, w, bias = (
        with_error(generator.standard_normal(shape)) for shape in ((5, 40), (40, 6), (6,))
    )
    for inputs in ([x, w], [x, w.array], [x.array, w]):
        assert_error_matches_spread(Node("onnx", "MatMul"), inputs, generator)
    assert_error_matches_spread(
        Node("onnx", "Gemm", {"alpha": -2.0, "beta": 30.0}), [x.array, w.array, bias], generator
    )
    assert_error_matches_spread(Node("onnx", "Einsum", {"equation": "ij->i"}), [x], generator)
    chain = Node("onnx", "Einsum", {"equation": "ij,jk,k->i"})
    assert_error_matches_spread(chain, [x, w, bias], generator)
    w = Value(np.ascontiguousarray(w.array.T), w.error.T)
    assert_error_matches_spread(
        Node("caffe", "InnerProduct", {"num_output": 6}), [x, w, bias], generator
    )


def test_determinants_equal_onnxruntime():
    for shape in ((3, 3), (2, 4, 5, 5)):
        assert_equals_onnxruntime("Det", [tensor(1, *shape)], {}, 11)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("attributes", [{}, {"inverse": 1}, {"onesided": 1}])
@pytest.mark.parametrize("length", [6, 7])
def test_fourier_transforms_equal_a_plain_sum(parts, attributes, length):
    if attributes.get("onesided") and parts == 2:
        return
    x = tensor(1, 2, length, 3, parts).astype(np.float64)
    sign = 1 if attributes.get("inverse") else -1
    turns = np.outer(np.arange(length), np.arange(length)) / length
    factors = np.exp(sign * 2j * np.pi * turns) / (length if sign == 1 else 1)
    given_numbers = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    right = np.einsum("kn,bnc->bkc", factors, given_numbers)
    if attributes.get("onesided"):
        right = right[:, : length // 2 + 1]
    node = Node("onnx", "DFT", attributes, version=17)
    np.testing.assert_allclose(
        compute(node, [x])[0].array, np.stack([right.real, right.imag], -1), atol=1e-12
    )
    node = Node("onnx", "DFT", attributes, version=20)
    np.testing.assert_allclose(
        compute(node, [x, None, np.array(1)])[0].array,
        np.stack([right.real, right.imag], -1),
        atol=1e-12,
    )


@pytest.mark.parametrize("length", [6, 7])
def test_a_one_sided_spectrum_gives_its_signal_back(length):
    x = tensor(1, 2, length, 1).astype(np.float64)
    spectrum = compute(Node("onnx", "DFT", {"onesided": 1}, version=17), [x])[0].array
    node = Node("onnx", "DFT", {"onesided": 1, "inverse": 1}, version=17)
    np.testing.assert_allclose(compute(node, [spectrum, np.array(length)])[0].array, x, atol=1e-12)


@pytest.mark.parametrize("attributes", [{}, {"inverse": 1}])
def test_the_error_of_a_fourier_transform_is_that_of_its_input(attributes):
    node = Node("onnx", "DFT", attributes, version=17)
    assert_error_matches_spread(node, [with_error(tensor(1, 2, 64, 2))], np.random.default_rng(5))


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("windowed", [False, True])
def test_short_fourier_transforms_equal_onnxruntime(onesided, windowed):
    random = np.random.default_rng(2)
    signal = random.standard_normal((2, 37, 1)).astype(np.float32)
    window = np.hanning(8).astype(np.float32) if windowed else None
    inputs = [signal, np.array(5, np.int64), window, np.array(8, np.int64)]
    assert_equals_onnxruntime("STFT", inputs, {"onesided": onesided}, 17)


def test_inputs_that_do_not_fit_are_told_by_their_shapes():
    given = [np.ones(shape, np.float32) for shape in ((1, 8), (16, 10))]
    with pytest.raises(CannotCompute) as caught:
        compute(Node("onnx", "MatMul"), given)
    assert (
        str(caught.value) == "MatMul cannot be computed of inputs of the shapes [1, 8] and [16, 10]"
    )
