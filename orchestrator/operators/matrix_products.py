"""Products of matrices: MatMul, Gemm, fully connected layers, Einsum."""

from __future__ import annotations

from itertools import permutations
from typing import Any, Dict, List, Optional

import numpy as np

from .convolution_operators import named_input, optional
from .error_propagation import elementwise, moved, sum_of_products
from .registry import (
    CAFFE,
    ONNX,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    axis_of,
    has_input,
    input_at,
    operator,
    scalar,
)
from .splittable_axes import connected, products
from .value_with_error import Arithmetic, Value
from .variants import (
    MOST_ORDERED,
    attribute,
    changed_input,
    declare,
    input_order,
    missing_input,
)

Array = Any


def product(x: Value, w: Value, arithmetic: Arithmetic, bias: Optional[Value] = None) -> Value:
    """Multiply matrices as numpy.matmul does (vectors, batches that broadcast)."""
    return sum_of_products(np.matmul, x, w, x.array.shape[-1], arithmetic, bias)


def _turned(value: Value, turn: Any) -> Value:
    return moved(lambda array: array.swapaxes(-1, -2), value) if turn else value


@operator(onnx=["MatMul", "com.microsoft.FusedMatMul"], multiplies=True, parts=products)
def onnx_matmul(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX MatMul, as numpy's; onnxruntime's fused one swaps the last two axes of factors and
    multiplies by alpha.
    """
    if node.get("transBatchA", 0) or node.get("transBatchB", 0):
        raise CannotCompute("what its transBatchA and transBatchB do is not known")
    first = _turned(named_input(inputs, 0, "first factor"), node.get("transA", 0))
    second = _turned(named_input(inputs, 1, "second factor"), node.get("transB", 0))
    return [_times(product(first, second, arithmetic), float(node.get("alpha", 1.0)))]


_FIRST = ("transpose_a", "transpose_x1", "adj_x", "adj_x1")
_SECOND = ("transpose_b", "transpose_x2", "adj_y", "adj_x2")


@operator(
    tensorflow=["MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"],
    ascend=["MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"],
    multiplies=True,
    parts=products,
)
def matmul(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """TensorFlow and Ascend IR: the last two axes of a factor are swapped where its attribute says
    so.
    """
    first = _turned(
        named_input(inputs, 0, "first factor"), any(node.get(name, False) for name in _FIRST)
    )
    second = _turned(
        named_input(inputs, 1, "second factor"), any(node.get(name, False) for name in _SECOND)
    )
    if int(node.get("offset_x", 0)):
        raise CannotCompute("what its offset_x=%s does is not known" % node.get("offset_x"))
    return [
        product(
            first, second, arithmetic, optional(inputs, 2) if node.dialect == "ascend" else None
        )
    ]


@operator(onnx=["Gemm"], multiplies=True, parts=products)
def gemm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """ONNX Gemm: alpha · A' · B' + beta · C."""
    return [_scaled_product(node, inputs, ("transA", "transB"), arithmetic)]


def _scaled_product(node: Node, inputs: Inputs, names: Any, arithmetic: Arithmetic) -> Value:
    alpha, beta = float(node.get("alpha", 1.0)), float(node.get("beta", 1.0))
    first, second = (
        _turned(named_input(inputs, side, "factor"), node.get(names[side], 0)) for side in (0, 1)
    )
    result = product(first, second, arithmetic)
    added = optional(inputs, 2)
    result = _times(result, alpha)
    if added is None or not beta:
        return result
    return elementwise(np.add, result, _times(added, beta))


def _times(value: Value, factor: float) -> Value:
    if factor == 1.0:
        return value
    error = None if value.error is None else np.abs(factor) * value.error
    return Value(value.array * factor, error)


def _connected(
    x: Value,
    w: Value,
    bias: Optional[Value],
    axis: int,
    turned: bool,
    outputs: Optional[int],
    arithmetic: Arithmetic,
) -> Value:
    """Multiply x, flattened from ``axis`` on, with a filter [outputs, K] (``turned``: [K,
    outputs]).
    """
    axis = axis + x.array.ndim if axis < 0 else axis
    lead = x.array.shape[:axis]
    flat = moved(lambda array: array.reshape((int(np.prod(lead)), -1)), x)
    inner = flat.array.shape[1]
    shape = (inner, -1) if turned else (-1, inner)
    matrix = moved(lambda array: array.reshape(shape) if turned else array.reshape(shape).T, w)
    if outputs is not None and matrix.array.shape[1] != outputs:
        raise CannotCompute(
            "its filter %s is not for %d outputs of %d inputs" % (w.array.shape, outputs, inner)
        )
    if bias is not None:
        bias = moved(lambda array: array.reshape(1, -1), bias)
    result = product(flat, matrix, arithmetic, bias)
    return moved(lambda array: array.reshape(lead + (-1,)), result)


@operator(caffe=["InnerProduct"], multiplies=True, parts=connected)
def inner_product(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Caffe InnerProduct."""
    biased = bool(node.get("bias_term", True))
    bias = named_input(inputs, 2, "bias") if biased else None
    x, w = named_input(inputs, 0, "input"), named_input(inputs, 1, "filter")
    outputs = int(node.get("num_output"))
    return [
        _connected(
            x,
            w,
            bias,
            int(node.get("axis", 1)),
            bool(node.get("transpose", False)),
            outputs,
            arithmetic,
        )
    ]


@operator(ascend=["FullyConnection"], multiplies=True, parts=connected)
def fully_connection(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR FullyConnection, which is Caffe's InnerProduct; a device's output may have axes of
    one element behind.
    """
    if int(node.get("offset_x", 0)):
        raise CannotCompute("what its offset_x=%s does is not known" % node.get("offset_x"))
    x, w = named_input(inputs, 0, "input"), named_input(inputs, 1, "filter")
    outputs = int(node.get("num_output"))
    turned = bool(node.get("transpose", False))
    return [
        _connected(
            x, w, optional(inputs, 2), int(node.get("axis", 1)), turned, outputs or None, arithmetic
        )
    ]


@operator(ascend=["GEMM"], multiplies=True)
def ascend_gemm(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Ascend IR GEMM: alpha · a · b + beta · c, the last two as inputs."""
    alpha, beta = named_input(inputs, 3, "alpha"), named_input(inputs, 4, "beta")
    first = _turned(named_input(inputs, 0, "a"), node.get("transpose_a", False))
    second = _turned(named_input(inputs, 1, "b"), node.get("transpose_b", False))
    result = product(first, second, arithmetic)
    return [
        elementwise(
            lambda result, added, alpha, beta: alpha.reshape(-1)[0] * result
            + beta.reshape(-1)[0] * added,
            result,
            named_input(inputs, 2, "c"),
            alpha,
            beta,
        )
    ]


@operator(onnx=["Einsum"], tensorflow=["Einsum"], ascend=["Einsum"], multiplies=True)
def einsum(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Einsum of inputs none of which names an axis twice, two at a time, from the first on."""
    equation = str(node.get("equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    operands = left.split(",")
    if len(operands) != len(inputs):
        raise CannotCompute(
            "its equation %s is for %d inputs, not for %d" % (equation, len(operands), len(inputs))
        )
    letters = [term.replace("...", "") for term in operands]
    if any(len(set(term)) != len(term) for term in letters):
        raise CannotCompute("its equation %s names an axis of one input twice" % equation)
    values = [
        named_input(inputs, number, "input %d" % (number + 1)) for number in range(len(inputs))
    ]
    if not arrow:
        named = "".join(letters)
        once = "".join(sorted(letter for letter in set(named) if named.count(letter) == 1))
        right = ("..." if "..." in left else "") + once
        equation = left + "->" + right
    sizes: Dict[str, int] = {}
    for term, value in zip(operands, values):
        before, dots, trailing = term.partition("...")
        shape = value.array.shape
        sizes.update(zip(before, shape))
        if dots and trailing:
            sizes.update(zip(trailing, shape[-len(trailing) :]))
    if len(values) == 1:
        terms = int(np.prod([size for letter, size in sizes.items() if letter not in right] or [1]))
        if terms == 1 and set(letters[0]) <= set(right):
            return [moved(lambda array: np.einsum(equation, array), values[0])]
        ones = Value(np.ones((), values[0].array.dtype))
        return [
            sum_of_products(
                lambda x, unit: np.einsum(equation, x) * unit, values[0], ones, terms, arithmetic
            )
        ]
    made, term = values[0], operands[0]
    for place in range(1, len(values)):
        both, after = term + operands[place], operands[place + 1 :]
        dots = "..." if "..." in both else ""
        kept = [letter for letter in dict.fromkeys(both.replace(".", ""))
                if any(letter in other for other in (right, *after))]  # fmt: skip
        to = dots + "".join(kept) if after else right
        product_of_two = "%s,%s->%s" % (term, operands[place], to)
        summed = [sizes[letter] for letter in set(both) - set(to) - {"."}]
        made = sum_of_products(
            lambda x, w, by=product_of_two: np.einsum(by, x, w, optimize=True),  # type: ignore[misc]
            made,
            values[place],
            int(np.prod(summed or [1])),
            arithmetic,
        )
        term, made = to, made.with_step(arithmetic.intermediate) if after else made
    return [made]


def _square_turned(array: Array) -> Optional[Array]:
    square = array.ndim > 1 and array.shape[-1] == array.shape[-2]
    return np.swapaxes(array, -1, -2) if square else None


def _stored_turned(array: Array) -> Optional[Array]:
    """Return a matrix as it comes out where its memory is read as that of the transposed one."""
    if array.ndim < 2 or array.shape[-1] == array.shape[-2]:
        return None
    shape = (*array.shape[:-2], array.shape[-1], array.shape[-2])
    return np.swapaxes(array.reshape(shape), -1, -2)


_MATRIX = (("transposed", _square_turned), ("read as if it were stored transposed", _stored_turned))
declare("Gemm", attribute("transB", (0, 1), 0), attribute("transA", (0, 1), 0))
declare(
    "MatMul com.microsoft.FusedMatMul Gemm",
    changed_input(1, "its input 1 (transB, the weights)", _MATRIX),
    changed_input(0, "its input 0 (transA)", _MATRIX),
    input_order(0, 2),
)
declare(
    "Gemm",
    missing_input(2, "the bias C"),
    changed_input(
        2, "the bias C", [("along axis 0", lambda c: c.reshape(-1, 1) if c.size > 1 else None)]
    ),
    attribute("alpha", (1.0,), 1.0, fitted=True),
    attribute("beta", (1.0, 0.0), 1.0, fitted=True),
)


def _other_equations(node: Node, inputs: Inputs) -> List[str]:
    """operands exchanged, and the output's axes or those of an operand in each other order"""
    equation = str(node.get("equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    operands = left.split(",")
    others = permutations(operands) if len(operands) <= MOST_ORDERED else [operands[::-1]]
    instead = [",".join(order) + arrow + right for order in others]
    for place, labels in enumerate([*operands, right]):
        for order in permutations(labels) if 1 < len(labels) <= 5 and "." not in labels else ():
            parts = [*operands, right]
            parts[place] = "".join(order)
            instead.append(",".join(parts[:-1]) + arrow + parts[-1])
    return instead


@operator(onnx=("Det",), sums=True)
def determinant(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the determinants of matrices in the last two axes.

    Elimination errs by roundings of products of one element of each row: at most the product of
    the rows' lengths (Hadamard).
    """
    x = input_at(inputs, 0)
    if x.error is not None:
        raise CannotCompute("how far errors of its input move it is not known")
    array = np.asarray(x.array, np.float64)
    most = np.prod(np.sqrt(np.sum(np.square(array), axis=-1)), axis=-1)
    step = max(arithmetic.intermediate, arithmetic.accumulator)
    made = np.linalg.det(array)
    return [Value(made.astype(x.array.dtype), most * (step * array.shape[-1]))]


@operator(onnx=("DFT",), sums=True)
def fourier(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Transform along an axis; the last axis holds real numbers, or real and imaginary ones.

    Each step of a fast transform rounds, and so do its factors: the error is that of one rounding
    of the values' root of the sum of squares, for each of log2(length) steps.
    """
    x = input_at(inputs, 0)
    if has_input(inputs, 2):
        axis = scalar(inputs, 2)
    else:
        axis = int(node.get("axis", 1)) if node.version < 20 else -2
    axis = axis_of(axis, x.array.ndim)
    inverse, onesided = bool(node.get("inverse", 0)), bool(node.get("onesided", 0))
    parts = np.asarray(x.array, np.float64)
    if axis == parts.ndim - 1 or parts.shape[-1] not in (1, 2):
        raise CannotCompute("it transforms axis %d of %s" % (axis, parts.shape))
    if inverse and onesided:
        length = scalar(inputs, 1) if has_input(inputs, 1) else 2 * (parts.shape[axis] - 1)
    else:
        length = scalar(inputs, 1) if has_input(inputs, 1) else parts.shape[axis]
    given = parts[..., 0] + (1j * parts[..., 1] if parts.shape[-1] == 2 else 0)
    if inverse and onesided:
        made = np.fft.irfft(given, length, axis)[..., None]
    else:
        made = (np.fft.ifft if inverse else np.fft.fft)(given, length, axis)
        if onesided:
            made = np.take(made, np.arange(length // 2 + 1), axis)
        made = np.stack([made.real, made.imag], -1)

    def size_of(array: Array) -> Array:
        squares = np.sum(np.square(array), axis=(axis, array.ndim - 1), keepdims=True)
        # A half of the places stands for the other, too.
        return np.sqrt((2.0 if inverse and onesided else 1.0) * squares)

    step = max(arithmetic.intermediate, arithmetic.accumulator) * (1 + np.log2(max(2, length)))
    error = size_of(parts) * step
    if x.error is not None:
        error = np.hypot(error, size_of(np.broadcast_to(x.error, parts.shape)))
    error = np.broadcast_to(error / (length if inverse else 1), made.shape)
    return [Value(made.astype(x.array.dtype), error)]


@operator(onnx=("STFT",), sums=True)
def short_fourier(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Transform the frames of a signal, each times a window (signal, step, window, length)."""
    signal, step = input_at(inputs, 0), scalar(inputs, 1)
    window = input_at(inputs, 2) if has_input(inputs, 2) else None
    length = scalar(inputs, 3) if has_input(inputs, 3) else 0
    length = length or (0 if window is None else window.array.size)
    if not 0 < length <= signal.array.shape[1]:
        raise CannotCompute("frames of %d of %d" % (length, signal.array.shape[1]))
    starts = np.arange(0, signal.array.shape[1] - length + 1, step)
    frames = moved(lambda array: array[:, starts[:, None] + np.arange(length)], signal)
    if window is not None:
        by_place = moved(lambda array: array.reshape(-1, 1), window)
        frames = elementwise(np.multiply, frames, by_place, steps=arithmetic.intermediate)
    onesided = int(node.get("onesided", 1))
    transform = Node(ONNX, "DFT", {"onesided": onesided}, node.name, 20)
    return fourier(transform, [frames, None, Value(np.asarray(2))], arithmetic)


declare("DFT", attribute("inverse", (0, 1), 0))
declare("STFT", attribute("onesided", (0, 1), 1), missing_input(2, "the window", 1.0))
declare("Einsum", attribute("equation", _other_equations), input_order())

declare(
    "InnerProduct",
    changed_input(1, "the weights", _MATRIX),
    missing_input(2, "the bias"),
    dialect=CAFFE,
)
declare(
    "MatMul",
    attribute("transpose_b", (False, True), False),
    attribute("transpose_a", (False, True), False),
    input_order(0, 2),
    dialect=TENSORFLOW,
)
declare(
    "BatchMatMul BatchMatMulV2 BatchMatMulV3",
    attribute("adj_y", (False, True), False),
    attribute("adj_x", (False, True), False),
    input_order(0, 2),
    dialect=TENSORFLOW,
)
