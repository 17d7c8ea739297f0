"""Operators that make values from shapes, ranges and constants: Shape, Range, Fill, Constant …

Sources: the ONNX operator list of each opset; caffe.proto of BVLC and of the SSD branch; TensorFlow
1.15's op definitions; the operator prototypes of Ascend IR.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Tuple, Union

import numpy as np

from .registry import (
    ASCEND,
    ONNX,
    TENSORFLOW,
    Inputs,
    Node,
    input_at,
    listed,
    operator,
    scalar,
    whole,
)
from .value_with_error import Arithmetic, Value

Array = Any


# Made from shapes and constants

_SHAPE_TYPES: Mapping[str, Tuple[str, type]] = {
    TENSORFLOW: ("out_type", np.int32),
    ASCEND: ("dtype", np.int32),
}


@operator(onnx=("Shape",), tensorflow=("Shape",), ascend=("Shape",))
def shape_of(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the shape, of ONNX from ``start`` to ``end``."""
    shape = input_at(inputs, 0).array.shape
    if node.dialect == ONNX:
        shape = shape[int(node.get("start", 0)) : int(node.get("end", len(shape)))]
    return [Value(np.asarray(shape, np.int64 if node.dialect == ONNX else np.int32))]


@operator(onnx=("Size",), tensorflow=("Size",), ascend=("Size",))
def size_of(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the number of elements."""
    return [
        Value(
            np.asarray(
                input_at(inputs, 0).array.size, np.int64 if node.dialect == ONNX else np.int32
            )
        )
    ]


@operator(onnx=("OptionalHasElement",))
def has_element(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Tell whether there is an input at all."""
    return [Value(np.asarray(bool(inputs) and inputs[0] is not None))]


@operator(tensorflow=("Rank",), ascend=("Rank",))
def rank_of(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the number of axes."""
    return [Value(np.asarray(input_at(inputs, 0).array.ndim, np.int32))]


@operator(onnx=("Range",), tensorflow=("Range",), ascend=("Range",))
def range_of(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return start, start + delta … below the limit."""
    start, limit, delta = (input_at(inputs, number).array.reshape(()) for number in range(3))
    count = max(0, int(np.ceil((limit - start) / delta)))
    return [Value(start + np.arange(count).astype(start.dtype) * delta)]


@operator(onnx=("ConstantOfShape",))
def constant_of_shape(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return an array of one value."""
    value = np.ravel(node.get("value", np.zeros(1, np.float32)))[0]
    return [Value(np.full(whole(inputs, 0), value))]


@operator(tensorflow=("Fill",), ascend=("Fill", "FillD"))
def fill(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return an array of one value, which is an input."""
    if node.type == "FillD":
        return [Value(np.full(listed(node.get("dims")), input_at(inputs, 0).array.reshape(())))]
    return [Value(np.full(whole(inputs, 0), input_at(inputs, 1).array.reshape(())))]


@operator(ascend=("Fills",))
def fill_like(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the attribute ``value`` in the input's shape and type."""
    return [Value(np.full_like(input_at(inputs, 0).array, float(node.get("value"))))]


@operator(tensorflow=("ZerosLike", "OnesLike"), ascend=("ZerosLike", "OnesLike"))
def filled_like(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return zeros or ones of the input's shape and type."""
    return [Value(np.full_like(input_at(inputs, 0).array, node.type == "OnesLike"))]


@operator(onnx=("Constant",), tensorflow=("Const",), ascend=("Const", "Constant"))
def constant(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return the attribute that holds the values."""
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for name, kind in kinds.items():
        if node.dialect == ONNX and name in node.attributes:
            return [Value(np.asarray(node.get(name), kind))]
    array: Union[Array, Any] = np.asarray(node.get("value"))
    return [Value(array)]


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25.0 / 46.0, 21.0 / 46.0, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@operator(onnx=tuple(_WINDOWS))
def window(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """a - b · cos(2πn / N) + c · cos(4πn / N), with N one less where it is not ``periodic``."""
    size = scalar(inputs, 0)
    turns = np.arange(size) * (2 * np.pi / (size if bool(node.get("periodic", 1)) else size - 1))
    a, b, c = _WINDOWS[node.type]
    kind = np.float64 if int(node.get("output_datatype", 1)) == 11 else np.float32
    made = (a - b * np.cos(turns) + c * np.cos(2 * turns)).astype(kind)
    # The angle is rounded, too, and near 0 what is subtracted cancels.
    return [Value(made, np.full(made.shape, arithmetic.intermediate * np.pi))]
