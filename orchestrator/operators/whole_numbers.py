"""Operators of whole numbers and bits, whose results are exact: products of quantised tensors,
bits, choices by a mask.

Source: the ONNX operator list of each opset.
"""

from __future__ import annotations

from typing import Any, List

import numpy as np

from .casting_and_quantising import element_type
from .convolution_operators import onnx_convolution
from .registry import CannotCompute, Inputs, Node, axis_of, input_at, operator
from .splittable_axes import broadcast
from .value_with_error import Arithmetic, Value

Array = Any


@operator(onnx=("BitwiseNot",), tensorflow=("Invert",), ascend=("Invert",), parts=broadcast)
def inverted(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Exchange all bits."""
    return [Value(np.invert(input_at(inputs, 0).array))]


@operator(onnx=("BitShift",), parts=broadcast)
def bit_shift(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Move the bits to the left or right, as ``direction`` says."""
    function = np.left_shift if node.get("direction") == "LEFT" else np.right_shift
    return [Value(function(input_at(inputs, 0).array, input_at(inputs, 1).array))]


def _without_zero(inputs: Inputs, at: int, zero: int, axis: int) -> Value:
    """Return quantised numbers without their zero point, exact in float64; a zero point of several
    numbers lies along an axis.
    """
    numbers = np.asarray(input_at(inputs, at).array, np.float64)
    given = inputs[zero] if len(inputs) > zero else None
    if given is None:
        return Value(numbers)
    point = np.asarray(given.array, np.float64)
    if point.ndim == 1 and point.size > 1:
        shape = [1] * numbers.ndim
        shape[axis] = point.size
        point = point.reshape(shape)
    return Value(numbers - (point.reshape(()) if point.size == 1 else point))


_EXACT = Arithmetic(0.0, 0.0, 0.0, 0.0)


@operator(onnx=("MatMulInteger",), multiplies=True)
def integer_product(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Multiply matrices without their zero points: one of each row of the first, of each column of
    the second, or of all.
    """
    first, second = _without_zero(inputs, 0, 2, -2), _without_zero(inputs, 1, 3, -1)
    return [Value(np.matmul(first.array, second.array).astype(np.int32))]


@operator(onnx=("ConvInteger",), multiplies=True)
def integer_convolution(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Convolve without the zero points: one of the input, one of each filter or of all."""
    x, w = _without_zero(inputs, 0, 2, 1), _without_zero(inputs, 1, 3, 0)
    (made,) = onnx_convolution(node, [x, w], _EXACT)
    return [Value(np.rint(made.array).astype(np.int32))]


@operator(onnx=("Compress",), moves=True)
def compress(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Take the slices, or of all elements in a row those, for which a mask is true."""
    x, mask = input_at(inputs, 0), np.asarray(input_at(inputs, 1).array, bool)
    axis = node.get("axis", None)
    axis = None if axis is None else axis_of(int(axis), x.array.ndim)

    def taken(array: Array) -> Array:
        return np.compress(mask, array, axis)

    error = None if x.error is None else taken(np.broadcast_to(x.error, x.array.shape))
    return [Value(taken(x.array), error)]


@operator(onnx=("EyeLike",))
def eye_like(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Put ones into the diagonal ``k`` of zeros."""
    x = input_at(inputs, 0).array
    if x.ndim != 2:
        raise CannotCompute("its input has %d axes, not 2" % x.ndim)
    dtype = element_type(node, node.get("dtype", x.dtype))
    return [Value(np.eye(x.shape[0], x.shape[1], int(node.get("k", 0))).astype(_held(dtype)))]


def _held(name: str) -> str:
    """Return the type in which values of a type are held here: floats as float32 or float64."""
    return "float32" if name in ("float16", "bfloat16") else name
