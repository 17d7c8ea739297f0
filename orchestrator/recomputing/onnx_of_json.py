"""An op of the model's json as a node of ONNX: what its attributes say there, since all that may be
read otherwise is declared of ONNX's operators.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy as np

from ..operators import ONNX, Arithmetic, CannotCompute, Node, Value, compute, find
from ..operators.registry import UNFIT
from ..operators.variants import ACTIVATIONS
from .formulas_by_type import NodeFormula

if TYPE_CHECKING:
    from .attributes_and_constants import AttributesAndConstants

Array = Any

_VERSION, _AXES_VERSION = 17, 11
"""The opset of the nodes; of a reduction whose axes are an attribute."""
_RECURRENT = {"dynamicrnn": "LSTM", "dynamicgruv2": "GRU"}
_STATE = 5
"""The input of a recurrent layer that is its first state: a json has no place for inputs between
that are not there."""
_DIGITS = (1, 2, 3, 4)


def as_onnx(op_type: str, facts: AttributesAndConstants) -> Optional[NodeFormula]:
    """Return an op as the node of ONNX that computes the same by other attributes; None where there
    is no such.
    """
    translate = _TRANSLATED.get(op_type.lower())
    try:
        return None if translate is None else translate(facts)
    except UNFIT:
        return None


def as_named(op_type: str, facts: AttributesAndConstants) -> Iterator[NodeFormula]:
    """Yield the node of ONNX that an op may be by its type's name, with attributes and inputs of
    ONNX's: golden data show whether it is.
    """
    name = op_type.lower()
    constants: Dict[int, Optional[Array]] = dict(facts.constants)
    kind = _NAMED.get(name, op_type)
    if find(ONNX, kind) is None:
        return
    if kind == "Resize":
        # Its roi is left out: scales are numbers, sizes whole ones.
        (given,) = constants.values() if len(constants) == 1 else (None,)
        if given is not None:
            of_scales = given.dtype.kind == "f"
            constants = {1: None, 2: given} if of_scales else {1: None, 2: None, 3: given}
    elif kind in _RECURRENT.values() and _STATE not in constants:
        own = sorted(facts.constants.items())
        before = {at: one for at, one in own if one.ndim < 3 or at < _STATE - 2}
        states = [one for at, one in own if at not in before]
        missing = dict.fromkeys(range(1, _STATE)) if states else {}
        constants = {**missing, **before, **{_STATE + at: one for at, one in enumerate(states)}}
    version = (
        _AXES_VERSION if kind.startswith("Reduce") and "axes" in facts.attributes else _VERSION
    )
    yield NodeFormula(_node(kind, facts.attributes, version), constants=constants)


def with_activation(
    formula: NodeFormula, inputs: Sequence[Value], made: Array
) -> Optional[NodeFormula]:
    """Return a formula with the activation behind it by which it comes nearest to what was made of
    inputs, where there is one that comes nearer than without; else None.
    """
    try:
        with np.errstate(all="ignore"):
            before = formula(inputs, Arithmetic()).array
            if before.size != made.size or made.dtype.kind != "f":
                return None
            actual = np.asarray(made, np.float64).reshape(before.shape)
            nearest, chosen = float(np.linalg.norm(before - actual)), None
            for node in _activations(before, actual):
                value = compute(node, [Value(before)], Arithmetic())[0].array
                off = float(np.linalg.norm(value - actual))
                if off < nearest:
                    nearest, chosen = off, node
    except (CannotCompute, MemoryError, *UNFIT):
        return None
    return None if chosen is None else replace(formula, then=(chosen,))


def _activations(before: Array, made: Array) -> Iterator[Node]:
    for entry in ACTIVATIONS:
        if entry.kind:
            version = 20 if entry.dialect == ONNX else 0
            yield Node(entry.dialect, entry.kind, dict(entry.attributes), "", version)
    below = before < 0
    squares = float(np.square(before[below]).sum())
    if squares:
        slope = float((before[below] * made[below]).sum()) / squares
        for digits in _DIGITS:
            yield _node("LeakyRelu", {"alpha": float("%.*g" % (digits, slope))})


def _node(kind: str, attributes: Mapping[str, Any], version: int = _VERSION) -> Node:
    return Node(ONNX, kind, dict(attributes), "", version)


def _convolution(kind: str) -> Callable[[AttributesAndConstants], Optional[NodeFormula]]:
    def translated(facts: AttributesAndConstants) -> Optional[NodeFormula]:
        weights, told = facts.constants.get(1), facts.attributes
        if weights is None or not _is_channels_first(facts) or "auto_pad" in told:
            return None
        axes = weights.ndim - 2
        attributes = {
            "strides": _along(told["strides"], axes),
            "dilations": _along(told.get("dilations", [1] * axes), axes),
            "pads": _pads(told["pads"], axes),
            "group": int(told.get("groups", 1)),
            "kernel_shape": list(weights.shape[2:]),
        }
        if any(told.get("output_padding", ())) or told.get("offset_x"):
            return None
        return NodeFormula(_node(kind, attributes), constants=facts.constants)

    return translated


def _pooling(kind: str) -> Callable[[AttributesAndConstants], Optional[NodeFormula]]:
    def translated(facts: AttributesAndConstants) -> Optional[NodeFormula]:
        told = facts.attributes
        if (
            not _is_channels_first(facts)
            or told.get("global_pooling")
            or told.get("divisor_override")
            or told.get("padding_mode", "CALCULATED") != "CALCULATED"
        ):
            return None
        attributes: Dict[str, Any] = {
            "kernel_shape": _along(told["ksize"], 2),
            "strides": _along(told["strides"], 2),
            "pads": _pads(told.get("pads", [0, 0, 0, 0]), 2),
            "ceil_mode": int(told.get("ceil_mode", False)),
        }
        if kind == "AveragePool":
            attributes["count_include_pad"] = int(not told.get("exclusive", True))
        return NodeFormula(_node(kind, attributes), constants=facts.constants)

    return translated


def _product(facts: AttributesAndConstants) -> Optional[NodeFormula]:
    told, weights = facts.attributes, facts.constants.get(1)
    first, second = (
        int(any(told.get(name, False) for name in names))
        for names in (_FIRST_TURNED, _SECOND_TURNED)
    )
    if weights is None or told.get("offset_x"):
        return None
    if not (first or second or 2 in facts.constants):
        return NodeFormula(_node("MatMul", {}), constants=facts.constants)
    if weights.ndim != 2:
        return None
    turned = {"transA": first, "transB": second}
    return NodeFormula(_node("Gemm", turned), constants=facts.constants)


_FIRST_TURNED = ("transpose_a", "transpose_x1", "adj_x", "adj_x1")
_SECOND_TURNED = ("transpose_b", "transpose_x2", "adj_y", "adj_x2")


def _is_channels_first(facts: AttributesAndConstants) -> bool:
    return facts.attributes.get("data_format") == "NCHW" and not any(
        layout in ("NHWC", "HWCN", "NDHWC", "DHWCN") for layout in facts.layouts
    )


def _along(numbers: Sequence[int], axes: int) -> List[int]:
    """Return the numbers of the last axes."""
    return [int(number) for number in numbers[-axes:]]


def _pads(numbers: Sequence[int], axes: int) -> List[int]:
    """Return pairs of begin and end as ONNX has them: all begins, then all ends."""
    own = [int(number) for number in numbers[-2 * axes :]]
    return own[0::2] + own[1::2]


_TRANSLATED: Mapping[str, Callable[[AttributesAndConstants], Optional[NodeFormula]]] = {
    "conv2d": _convolution("Conv"),
    "conv2dtransposed": _convolution("ConvTranspose"),
    "maxpoolv3": _pooling("MaxPool"),
    "avgpoolv2": _pooling("AveragePool"),
    **dict.fromkeys("matmul matmulv2 matmulv3 batchmatmul batchmatmulv2".split(), _product),
}
_NAMED: Mapping[str, str] = {
    **_RECURRENT,
    "bninference": "BatchNormalization",
    "resized": "Resize",
    "padv3": "Pad",
    "argmaxv2": "ArgMax",
    "gatherv2": "Gather",
    "splitv": "Split",
    "instancenorm": "InstanceNormalization",
    "lessequal": "LessOrEqual",
    "greaterequal": "GreaterOrEqual",
}
"""Types whose inputs or attributes converters hand on as ONNX has them."""
