"""Operators of whole numbers and bits, whose results are exact: products of quantised tensors,
bits, choices by a mask; and what is quantised of such products.

Source: the ONNX operator list of each opset.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Optional

import numpy as np

from .casting_and_quantising import QuantisedSteps, element_type, outside_quantised
from .comparing_and_rounding import stepped
from .convolution_operators import onnx_convolution
from .registry import CannotCompute, Inputs, Node, axis_of, input_at, operator
from .splittable_axes import broadcast
from .value_with_error import Arithmetic, Value
from .variants import ANY, Fit, Reading, Variant, declare, other_number, text_of

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


def _requantised(
    inputs: Inputs, arithmetic: Arithmetic, product: Array, channels: int
) -> QuantisedSteps:
    """Return the steps of whole sums of products, whose factors have their scales at 1 and 4, and
    which are quantised by the scale at 6 with the zero point at 7. The scale of the second factor
    lies along an axis of the sums, where it is none for all.
    """
    scales = [np.asarray(input_at(inputs, at).array, np.float64) for at in (1, 4, 6)]
    for number, scale in enumerate(scales):
        if scale.size == 1:
            scales[number] = scale.reshape(())
        elif number == 1 and scale.ndim == 1 and scale.size == product.shape[channels]:
            shape = [1] * product.ndim
            shape[channels] = scale.size
            scales[number] = scale.reshape(shape)
        else:
            raise CannotCompute("scales of the shape %s are not known" % (scale.shape,))
    zero = input_at(inputs, 7).array
    if zero.size != 1 or zero.dtype.kind not in "iu":
        raise CannotCompute("its output's zero point is no single whole number")
    scaled = Value(product * (scales[0] * scales[1] / scales[2]))
    # Each of the scales may be held in float16, whatever type the numbers have.
    roundings = 3.0 * max(arithmetic.intermediate, 2.0**-11)
    return QuantisedSteps.of(scaled, roundings, zero.dtype.name, int(zero.reshape(())))


def _quantised_product(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> QuantisedSteps:
    first, second = _without_zero(inputs, 0, 2, -2), _without_zero(inputs, 3, 5, -1)
    product = np.matmul(first.array, second.array)
    return _requantised(inputs, arithmetic, product, -1)


@operator(
    onnx=("QLinearMatMul",),
    decides=True,
    check=lambda node, inputs, arithmetic, outputs: outside_quantised(
        _quantised_product(node, inputs, arithmetic), outputs
    ),
)
def quantised_product(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Multiply matrices without their zero points, and quantise the sums by the scale and the zero
    point of the output.
    """
    steps = _quantised_product(node, inputs, arithmetic)
    return [stepped(steps.function, steps.scaled)]


def _quantised_convolution(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> QuantisedSteps:
    x, w = _without_zero(inputs, 0, 2, 1), _without_zero(inputs, 3, 5, 0)
    (made,) = onnx_convolution(node, [x, w], _EXACT)
    sums = np.rint(made.array)
    if len(inputs) > 8 and inputs[8] is not None:
        # The bias is of the sums' own scale.
        bias = np.asarray(input_at(inputs, 8).array, np.float64)
        sums = sums + bias.reshape((-1,) + (1,) * (sums.ndim - 2))
    return _requantised(inputs, arithmetic, sums, 1)


@operator(
    onnx=("QLinearConv",),
    decides=True,
    check=lambda node, inputs, arithmetic, outputs: outside_quantised(
        _quantised_convolution(node, inputs, arithmetic), outputs
    ),
)
def quantised_convolution(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Convolve without the zero points, and quantise the sums by the scale and the zero point of
    the output.
    """
    steps = _quantised_convolution(node, inputs, arithmetic)
    return [stepped(steps.function, steps.scaled)]


_SCALES = "the quotient of its scales (of the input, times of the weights, by of the output)"


def _other_scales(node: Node, inputs: Inputs) -> Iterator[Fit]:
    """Yield the quotient of single scales: of which the device had another one does not show."""
    scales = [float(one.array.reshape(-1)[0]) for one in _single_scales(inputs)]
    if len(scales) < 3 or not all(scales):
        return
    own = scales[0] * scales[1] / scales[2]

    def variant(instead: float) -> Variant:
        def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
            other = Value(np.full_like(input_at(inputs, 4).array, scales[1] * instead / own))
            return [*given[:4], other, *given[5:]]

        return Variant(_SCALES, text_of(instead), text_of(own), node, taken)

    yield Fit(_SCALES, own, variant)


def _single_scales(inputs: Inputs) -> List[Value]:
    scales = [input_at(inputs, at) for at in (1, 4, 6)]
    return [scale for scale in scales if scale.array.size == 1]


declare(
    "QLinearConv QLinearMatMul",
    Reading(_SCALES, ANY[2:], lambda node, inputs: iter(()), _other_scales),
    other_number(7, "the zero point of the output", ()),
    other_number(2, "the zero point of its input", ()),
    other_number(5, "the zero point of the weights", ()),
)
declare(
    "ConvInteger MatMulInteger",
    other_number(2, "the zero point of its input", ()),
    other_number(3, "the zero point of the weights", ()),
)


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
