"""Reads the attributes of a GraphDef's nodes as Python values, and its constants as arrays.

Source of the field numbers and of how values are packed: tensor.proto.
"""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from ..base.errors import FormatError
from ..base.protowire import FIXED32, FIXED64, Fields, each, fixed, integer
from .graphdef import ATTR_VALUE, TENSOR, GraphFile, GraphNode, attr_values, shape_of
from .protobuf_file import Span, WireFile
from .tf_op_outputs import DTYPES

Array = Any

_HALVES, _INTS = each(integer(13)), each(integer(7))
_FLOATS, _DOUBLES = fixed(5, FIXED32), fixed(6, FIXED64)
_LISTS = {
    "float32": _FLOATS,
    "float64": _DOUBLES,
    "complex64": fixed(9, FIXED32),
    "complex128": fixed(12, FIXED64),
    "bfloat16": _HALVES,
    "float16": _HALVES,
    "int64": each(integer(10)),
    "bool": each(integer(11)),
    "uint32": each(integer(16)),
    "uint64": each(integer(17)),
}


def attributes_of(graph: GraphFile, file: WireFile, node: GraphNode) -> Dict[str, Any]:
    """Return the attributes of a node: int, float, bool, str, names of types, shapes as tuples
    (None: unknown), lists of these, arrays.

    Functions are left out.

    Raises
    ------
    FormatError
        A tensor is broken, or of a type that numpy has not.
    """

    def of_tensor(span: Span) -> Array:
        return tensor_array(graph.path, file, span)

    attributes: Dict[str, Any] = {}
    for name, span in node.attrs.items():
        attr = file.read(ATTR_VALUE, *span)
        if attr.list is not None:
            attributes[name] = attr_values(attr.list, of_tensor)
        elif attr.placeholder is not None:
            raise FormatError("attribute %s is left to a function's caller" % name, graph.path)
        else:
            for value in attr_values(attr, of_tensor):
                attributes[name] = value
    return attributes


def tensor_array(path: str, file: WireFile, span: Span) -> Array:
    """Return the values of the TensorProto at ``span`` in its shape, bfloat16 as float32; as
    TensorFlow does, a list that is too short is filled with its last.

    Raises
    ------
    FormatError
        Its type has no numpy type (string, resource …), or its data do not fit its shape.
    """
    tensor = file.read(TENSOR, *span)
    dtype = DTYPES.get(tensor.dtype % 100, str(tensor.dtype))
    shape = shape_of(tensor.shape) or ()
    stored = {"bfloat16": "uint16", "string": None, "resource": None, "variant": None}.get(
        dtype, dtype.lstrip("q")
    )
    if stored is None or dtype not in DTYPES.values():
        raise FormatError("a constant of type %s, which numpy has not" % dtype, path)
    kind = np.dtype(stored)
    if tensor.content is not None:
        data = file.window.piece(*tensor.content)
        values = np.frombuffer(data, kind, len(data) // kind.itemsize)
    else:
        listed = file.read(Fields(values=_LISTS.get(dtype, _INTS)), *span).values
        if kind.kind in "fc" and dtype != "float16":
            data = b"".join(file.window.piece(*place) for place in listed)
            values = np.frombuffer(data, kind, len(data) // kind.itemsize)
        elif dtype in ("bfloat16", "float16"):
            values = np.array(listed, np.int64).astype(np.uint16).view(kind)
        else:
            values = np.array(listed, np.int64).astype(kind)
    if dtype == "bfloat16":
        values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    count = int(np.prod(shape, dtype=np.int64))
    if values.size < count and tensor.content is None:
        filling = values[-1:] if values.size else np.zeros(1, values.dtype)
        values = np.concatenate([values, np.repeat(filling, count - values.size)])
    if values.size != count:
        raise FormatError(
            "a constant of shape %s with %d values" % (list(shape), values.size), path
        )
    return values.reshape(shape)
