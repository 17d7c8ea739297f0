"""Activation functions, and what clips, shrinks or thresholds each element.

Sources: the ONNX operator list of each opset and ONNX Runtime's own operators; caffe.proto;
TensorFlow 1.15's op definitions; the operator prototypes of Ascend IR and the formulas in their
comments.
"""

from __future__ import annotations

import math
from typing import Any, Callable, List

import numpy as np

from .elementwise import aligned, each, erf
from .error_propagation import by_blocks, elementwise, roundings
from .registry import (
    ASCEND,
    CAFFE,
    ONNX,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    channel_axis,
    input_at,
    operator,
)
from .splittable_axes import broadcast, first
from .value_with_error import FLOAT32_ROUNDING, Arithmetic, Value
from .variants import (
    ACTIVATIONS,
    Function,
    along_other_axis,
    attribute,
    changed_input,
    declare,
    factor_of_input,
    input_order,
    other_function,
    other_number,
)

Array = Any

_SELU_ALPHA, _SELU_GAMMA = 1.6732632423543772, 1.0507009873554805


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _softplus_in_steps(x: Array, inner: Array) -> Array:
    """Return softplus; ``inner`` is the rounding of 1 + exp(x), of which the logarithm is taken."""
    return softplus(x) + (inner - 1.0)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _leaky(x: Array, slope: Array) -> Array:
    return np.where(x < 0, slope * x, x)


def _elu(x: Array, inner: Array, alpha: float) -> Array:
    """Return x or alpha·(exp(x) - 1); ``inner`` is the rounding of exp(x)."""
    below = np.minimum(x, 0.0)
    return np.where(x > 0, x, alpha * (np.expm1(below) + (inner - 1.0) * np.exp(below)))


def _hard_swish(x: Array, inner: Array) -> Array:
    return x * np.clip((x + 3.0) * inner, 0.0, 6.0) / 6.0


def _mish(x: Array, inner: Array) -> Array:
    return x * np.tanh(_softplus_in_steps(x, inner))


def gelu(x: Array, inner: Array) -> Array:
    """Return x·Φ(x); ``inner`` is the rounding of erf."""
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)) * inner)


def gelu_by_tanh(x: Array, inner: Array) -> Array:
    """Return GELU by the formula with tanh; ``inner`` is the rounding of tanh."""
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)) * inner)


def _curve(name: str, function: Callable[..., Array], **spellings: Any) -> None:
    """Register an activation of which one step inside is rounded, as the function's second
    argument, and the result once more.
    """

    def compute(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
        return [_stepwise(function, input_at(inputs, 0), arithmetic)]

    compute.__name__ = name
    operator(parts=broadcast, **spellings)(compute)


def _stepwise(function: Callable[..., Array], x: Value, arithmetic: Arithmetic) -> Value:
    return by_blocks(
        function, x, *roundings(1, arithmetic.intermediate), steps=arithmetic.intermediate
    )


each("relu", _relu, onnx=("Relu",), tensorflow=("Relu",), ascend=("Relu",))
each(
    "relu6", lambda x: np.clip(x, 0, 6), caffe=("ReLU6",), tensorflow=("Relu6",), ascend=("Relu6",)
)
_SIGMOID = ("Sigmoid",)
each(
    "sigmoid_activation",
    sigmoid,
    curve=True,
    up_to_one=True,
    onnx=_SIGMOID,
    caffe=_SIGMOID,
    tensorflow=_SIGMOID,
    ascend=_SIGMOID,
)
each(
    "tanh",
    np.tanh,
    curve=True,
    up_to_one=True,
    onnx=("Tanh",),
    caffe=("TanH",),
    tensorflow=("Tanh",),
    ascend=("Tanh",),
)
_curve("log_sigmoid", lambda x, inner: -_softplus_in_steps(-x, inner), ascend=("LogSigmoid",))
_SOFTPLUS = ("Softplus",)
_curve(
    "softplus_activation",
    _softplus_in_steps,
    onnx=_SOFTPLUS,
    caffe=("BNLL",),
    tensorflow=_SOFTPLUS,
    ascend=(*_SOFTPLUS, "BNLL"),
)
_SOFTSIGN = ("Softsign",)
each(
    "softsign",
    lambda x: x / (1.0 + np.abs(x)),
    curve=True,
    onnx=_SOFTSIGN,
    tensorflow=_SOFTSIGN,
    ascend=_SOFTSIGN,
)
_curve("hard_swish", _hard_swish, onnx=("HardSwish",), ascend=("HardSwish",))
_curve("mish", _mish, onnx=("Mish",), caffe=("Mish",), ascend=("Mish",))


@operator(
    caffe=("ReLU",),
    onnx=("LeakyRelu",),
    tensorflow=("LeakyRelu",),
    ascend=("LeakyRelu",),
    parts=broadcast,
)
def leaky_relu(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Multiply negative values by a slope, which each dialect gives another default."""
    name, default = {
        CAFFE: ("negative_slope", 0.0),
        ASCEND: ("negative_slope", 0.0),
        ONNX: ("alpha", 0.01),
    }.get(node.dialect, ("alpha", 0.2))
    slope = float(node.get(name, default))
    return [by_blocks(lambda x: _leaky(x, slope), input_at(inputs, 0))]


@operator(onnx=("PRelu",), caffe=("PReLU",), ascend=("PRelu",), parts=first)
def p_relu(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Multiply negative values by a slope for each channel, or that broadcasts (of ONNX)."""
    x, slope = input_at(inputs, 0), input_at(inputs, 1)
    per_channel = node.dialect != ONNX or (0 < node.version < 7 and slope.array.ndim == 1)
    if slope.array.size == 1:
        slope = Value(
            slope.array.reshape(()), None if slope.error is None else np.reshape(slope.error, ())
        )
    elif per_channel and (slope.array.ndim == 1 or slope.array.shape != x.array.shape):
        slope = _by_channel(slope, x, channel_axis(node, x.array.ndim))
    return [elementwise(_leaky, x, slope)]


def _by_channel(slope: Value, x: Value, axis: int) -> Value:
    if x.array.ndim < 2 or slope.array.size != x.array.shape[axis]:
        raise CannotCompute("it has %d slopes for the shape %s" % (slope.array.size, x.array.shape))
    error = None if slope.error is None else np.broadcast_to(slope.error, slope.array.shape).ravel()
    return aligned(Value(slope.array.ravel(), error), axis, x.array.ndim)


@operator(onnx=("Elu",), caffe=("ELU",), tensorflow=("Elu",), ascend=("Elu",), parts=broadcast)
def elu(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x, or alpha·(exp(x) - 1) below 0; of Ascend IR also with ``scale`` and ``input_scale``."""
    alpha = float(node.get("alpha", 1.0))
    scale, inner = (
        float(node.get(name, 1.0)) if node.dialect == ASCEND else 1.0
        for name in ("scale", "input_scale")
    )

    def function(x: Array, once: Array) -> Array:
        values: Array = np.where(x > 0, x, _elu(np.minimum(x, 0.0) * inner, once, alpha))
        return scale * values

    return [by_blocks(function, input_at(inputs, 0), *roundings(1, arithmetic.intermediate))]


@operator(onnx=("Selu",), tensorflow=("Selu",), ascend=("Selu",), parts=broadcast)
def selu(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Scaled ELU; alpha and gamma are attributes of ONNX alone."""
    alpha, gamma = _SELU_ALPHA, _SELU_GAMMA
    if node.dialect == ONNX and 0 < node.version < 6:
        alpha, gamma = 1.6732, 1.0507
    if node.dialect == ONNX:
        alpha, gamma = float(node.get("alpha", alpha)), float(node.get("gamma", gamma))
    return [
        elementwise(
            lambda x, inner: gamma * _elu(x, inner, alpha),
            input_at(inputs, 0),
            *roundings(1, arithmetic.intermediate),
        )
    ]


@operator(onnx=("Celu",), ascend=("Celu",), parts=broadcast)
def celu(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x, or alpha·(exp(x / alpha) - 1) below 0."""
    if any(name in node.attributes for name in ("alpha1", "alpha2", "alpha3")):
        raise CannotCompute("how its three alphas are used is not known")
    alpha = float(node.get("alpha", 1.0))

    def function(x: Array, inner: Array) -> Array:
        return np.maximum(x, 0.0) + _elu(np.minimum(x, 0.0) / alpha, inner, alpha)

    return [by_blocks(function, input_at(inputs, 0), *roundings(1, arithmetic.intermediate))]


@operator(onnx=("HardSigmoid",), ascend=("HardSigmoid",), parts=broadcast)
def hard_sigmoid(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """alpha·x + beta, between 0 and 1."""
    alpha = float(node.get("alpha", 0.16666666 if node.dialect == ASCEND else 0.2))
    beta = float(node.get("beta", 0.5))
    return [
        _stepwise(
            lambda x, inner: np.clip(alpha * x * inner + beta, 0.0, 1.0),
            input_at(inputs, 0),
            arithmetic,
        )
    ]


@operator(onnx=("Swish",), caffe=("Swish",), ascend=("Swish",), parts=broadcast)
def swish(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x · sigmoid(beta·x)."""
    beta = float(node.get({ONNX: "alpha", CAFFE: "beta"}.get(node.dialect, "scale"), 1.0))
    return [_times_sigmoid(input_at(inputs, 0), beta, arithmetic)]


@operator(onnx=("com.microsoft.QuickGelu",), parts=broadcast)
def quick_gelu(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x · sigmoid(alpha·x)."""
    return [_times_sigmoid(input_at(inputs, 0), float(node.get("alpha", 1.702)), arithmetic)]


@operator(ascend=("FastGelu",), parts=broadcast)
def fast_gelu_by_sigmoid(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x · sigmoid(1.702·x); Ascend IR writes it x·exp(0.851·(x - |x|)) / (1 + exp(-1.702·|x|))."""
    return [_times_sigmoid(input_at(inputs, 0), 1.702, arithmetic)]


@operator(onnx=("SwiGLU",), parts=broadcast)
def swiglu(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """a · sigmoid(alpha · a) · b."""
    gate = _times_sigmoid(input_at(inputs, 0), float(node.get("alpha", 1.0)), arithmetic)
    return [elementwise(np.multiply, gate.with_step(arithmetic.intermediate), input_at(inputs, 1))]


def _times_sigmoid(x: Value, beta: float, arithmetic: Arithmetic) -> Value:
    absolute = Value(np.zeros(()), np.asarray(FLOAT32_ROUNDING))
    inner = roundings(1, arithmetic.intermediate)
    product = elementwise(
        lambda array, once, off: array * (sigmoid(beta * array) * once + off), x, *inner, absolute
    )
    return product.with_step(arithmetic.intermediate)


@operator(onnx=("Gelu",), ascend=("GeluV2",), parts=broadcast)
def gelu_activation(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x·Φ(x), exactly or (``approximate`` is ``tanh``) by the formula with tanh."""
    how = str(node.get("approximate", "none"))
    if how not in ("none", "tanh"):
        raise CannotCompute("its approximate %s is not known" % how)
    return [_stepwise(gelu if how == "none" else gelu_by_tanh, input_at(inputs, 0), arithmetic)]


@operator(ascend=("Gelu",), parts=broadcast)
def gelu_of_ascend(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x·Φ(x) by the formula with tanh, as the operator of TensorFlow that it stands for."""
    return [_stepwise(gelu_by_tanh, input_at(inputs, 0), arithmetic)]


@operator(onnx=("com.microsoft.FastGelu", "com.microsoft.BiasGelu"), parts=broadcast)
def gelu_with_bias(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """GELU of the sum of input and bias: FastGelu by the formula with tanh (its bias is optional),
    BiasGelu exactly.
    """
    x = input_at(inputs, 0)
    if node.type.endswith("BiasGelu") or (len(inputs) > 1 and inputs[1] is not None):
        x = elementwise(np.add, x, input_at(inputs, 1), steps=arithmetic.intermediate)
    return [_stepwise(gelu if node.type.endswith("BiasGelu") else gelu_by_tanh, x, arithmetic)]


@operator(ascend=("SoftplusV2",), parts=broadcast)
def softplus_of_torch(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """log(1 + exp(beta·x)) / beta, x itself where beta·x is above a threshold."""
    beta, threshold = float(node.get("beta", 1.0)), float(node.get("threshold", 20.0))

    def function(x: Array, inner: Array) -> Array:
        return np.where(beta * x > threshold, x, _softplus_in_steps(beta * x, inner) / beta)

    return [_stepwise(function, input_at(inputs, 0), arithmetic)]


@operator(onnx=("ThresholdedRelu",), ascend=("ThresholdedRelu",), parts=broadcast)
def thresholded_relu(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x above alpha, else 0."""
    alpha = float(node.get("alpha", 1.0))
    return [elementwise(lambda x: np.where(x > alpha, x, 0.0), input_at(inputs, 0))]


@operator(ascend=("ThresholdV2", "ThresholdV2D"), parts=broadcast)
def threshold_of_torch(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x above a threshold, else a value; both are inputs or (D) attributes."""
    if node.type.endswith("D"):
        threshold, value = float(node.get("threshold")), float(node.get("value"))
    else:
        threshold = float(input_at(inputs, 1).array.reshape(()))
        value = (
            float(input_at(inputs, 2).array.reshape(()))
            if len(inputs) > 2 and inputs[2] is not None
            else 0.0
        )
    return [
        elementwise(lambda x: np.where(x > threshold, x, x.dtype.type(value)), input_at(inputs, 0))
    ]


@operator(ascend=("Relu6D",), parts=broadcast)
def relu6_scaled(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x, between 0 and 6 times ``scale``."""
    highest = 6.0 * float(node.get("scale", 1.0))
    return [elementwise(lambda x: np.clip(x, 0.0, highest), input_at(inputs, 0))]


@operator(onnx=("Shrink",), ascend=("Shrink",), parts=broadcast)
def shrink(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x + bias below -lambd, x - bias above lambd, else 0."""
    border, bias = float(node.get("lambd", 0.5)), float(node.get("bias", 0.0))
    return [
        elementwise(
            lambda x: np.where(x < -border, x + bias, np.where(x > border, x - bias, 0.0)),
            input_at(inputs, 0),
        )
    ]


@operator(ascend=("HardShrink", "SoftShrink"), parts=broadcast)
def shrink_of_torch(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """0 between -lambd and lambd; else x (hard), or what it is beyond them (soft)."""
    border = float(node.get("lambd", 0.5))
    bias = border if node.type == "SoftShrink" else 0.0
    return [
        elementwise(
            lambda x: np.where(x < -border, x + bias, np.where(x > border, x - bias, 0.0)),
            input_at(inputs, 0),
        )
    ]


@operator(
    onnx=("Clip",),
    caffe=("Clip",),
    tensorflow=("ClipByValue",),
    ascend=("ClipByValue", "ClipByValueV2"),
    parts=broadcast,
)
def clip(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Bound values from below and above; bounds are attributes in ONNX before opset 11 and in
    Caffe, else inputs.
    """
    x = input_at(inputs, 0)
    low, high = _bounds(node, inputs)
    if low is not None:
        x = by_blocks(lambda array, bound: np.maximum(array, bound), x, Value(low))
    if high is not None:
        x = by_blocks(lambda array, bound: np.minimum(array, bound), x, Value(high))
    return [x]


def _bounds(node: Node, inputs: Inputs) -> List[Array]:
    if node.dialect == CAFFE:
        return [np.float64(node.get("min")), np.float64(node.get("max"))]
    if (
        node.dialect == ONNX
        and node.version < 11
        and ("min" in node.attributes or "max" in node.attributes or node.version)
    ):
        return [
            np.float64(node.get(name)) if name in node.attributes else None
            for name in ("min", "max")
        ]
    bounds = [inputs[number] if number < len(inputs) else None for number in (1, 2)]
    arrays = [None if bound is None else bound.array for bound in bounds]
    if node.dialect != ONNX and None in [entry if entry is None else 0 for entry in arrays]:
        raise CannotCompute("its bounds are not known")
    return arrays


declare(
    "Clip",
    *(
        other_number(number, name, bounds)
        for number, name, bounds in (
            (1, "min", (-np.inf, 0.0, -1.0)),
            (2, "max", (np.inf, 6.0, 1.0)),
        )
    ),
    attribute("min", (-np.inf, 0.0, -1.0), fitted=True),
    attribute("max", (np.inf, 6.0, 1.0), fitted=True),
)
declare(
    "LeakyRelu", attribute("alpha", (0.01, 0.1, 0.2, 0.3, 0.05, 0.25, 0.0, 1.0), 0.01, fitted=True)
)
declare(
    "Elu Celu ThresholdedRelu",
    attribute("alpha", (1.0, 0.1, 0.5, 2.0, 0.0), 1.0, fitted=True),
)
declare(
    "Selu",
    attribute("alpha", (1.6732632, 1.0), _SELU_ALPHA, fitted=True),
    attribute("gamma", (1.0507010, 1.0), _SELU_GAMMA, fitted=True),
)
declare(
    "HardSigmoid",
    attribute("alpha", (0.2, 1.0 / 6.0), 0.2, fitted=True),
    attribute("beta", (0.5, 0.0), 0.5, fitted=True),
)
declare("Gelu", attribute("approximate", ("none", "tanh"), "none"))
declare("Swish", attribute("alpha", (1.0, 1.702), 1.0, fitted=True))
declare("SwiGLU", attribute("alpha", (1.0, 1.702), 1.0, fitted=True), input_order(0, 1))
declare(
    "Shrink",
    attribute("lambd", (0.5, 0.0, 1.0), 0.5, fitted=True),
    attribute("bias", (0.0, 0.5), 0.0, fitted=True),
)
declare(
    "Elu Celu LeakyRelu ThresholdedRelu",
    other_function(
        *(Function(kind) for kind in ("Elu", "Celu", "LeakyRelu", "ThresholdedRelu")), keeps=True
    ),
)
declare(
    "Relu LeakyRelu PRelu Elu Celu Selu ThresholdedRelu HardSigmoid Sigmoid Tanh Gelu Swish "
    "com.microsoft.QuickGelu HardSwish Mish Softplus Softsign Clip Erf Shrink Identity Atan",
    other_function(*ACTIVATIONS, Function("Atan"), Function("Erf"), Function("Abs")),
)
declare("Sigmoid Tanh Gelu HardSwish Mish Softplus Softsign Erf Elu Selu", factor_of_input())
declare("PRelu", along_other_axis())
declare(
    "PRelu",
    changed_input(
        1,
        "the slope",
        [
            ("reversed", lambda array: array.reshape(-1)[::-1].reshape(array.shape)),
            ("its first value for all", lambda array: np.full_like(array, array.reshape(-1)[0])),
            ("of the other sign", np.negative),
        ],
    ),
)

declare(
    "ReLU ReLU6 PReLU ELU Sigmoid TanH BNLL Swish Mish",
    other_function(*ACTIVATIONS),
    dialect=CAFFE,
)
declare(
    "ReLU",
    attribute("negative_slope", (0.0, 0.01, 0.1, 0.2, 1.0), 0.0, fitted=True),
    dialect=CAFFE,
)
declare("ELU", attribute("alpha", (1.0, 0.1, 0.5), 1.0, fitted=True), dialect=CAFFE)
declare(
    "Relu Relu6 LeakyRelu Elu Selu Sigmoid Tanh Softplus Softsign",
    other_function(*ACTIVATIONS),
    dialect=TENSORFLOW,
)
declare("LeakyRelu", attribute("alpha", (0.01, 0.1, 0.2), 0.2, fitted=True), dialect=TENSORFLOW)
