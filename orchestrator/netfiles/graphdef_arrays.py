"""Reads the attributes of a GraphDef's nodes as Python values, and its constants as arrays.

Source of the field numbers and of how values are packed: attr_value.proto, tensor.proto,
tensor_shape.proto.
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from ..errors import FormatError
from ..protowire import BYTES, FIXED32, VARINT, read_varints
from .graphdef import GraphFile, GraphNode, shape_at
from .protobuf_file import Span, WireFile, signed
from .tf_op_outputs import DTYPES

Array = Any

_FIELDS = {
    "float32": (5, "<f4"),
    "float64": (6, "<f8"),
    "complex64": (9, "<f4"),
    "complex128": (12, "<f8"),
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
    attributes: Dict[str, Any] = {}
    for name, span in node.attrs.items():
        for number, wire, first, last in file.inside(*span):
            if number == 1 and wire == BYTES:
                attributes[name] = _list(file, graph.path, (first, last))
            elif number != 10:
                attributes[name] = _single(file, graph.path, number, wire, first, last)
    return attributes


def _single(file: WireFile, path: str, number: int, wire: int, first: int, last: int) -> Any:
    if number == 2 and wire == BYTES:
        return file.text(first, last)
    if number == 3 and wire == VARINT:
        return signed(first)
    if number == 4 and wire == FIXED32:
        return struct.unpack("<f", file.window.piece(first, last))[0]
    if number == 5 and wire == VARINT:
        return bool(first)
    if number == 6 and wire == VARINT:
        return DTYPES.get(first % 100, "type %d" % first)
    if number == 7 and wire == BYTES:
        return shape_at(file, first, last)
    if number == 8 and wire == BYTES:
        return tensor_array(file, path, (first, last))
    raise FormatError("an attribute with the field %d" % number, path)


def _list(file: WireFile, path: str, span: Span) -> List[Any]:
    values: List[Any] = []
    for number, wire, first, last in file.inside(*span):
        if wire == BYTES and number in (3, 5, 6):
            values += (
                _single(file, path, number, VARINT, value, value)
                for value in read_varints(file.window, first, last)
            )
        elif wire == BYTES and number == 4:
            values += np.frombuffer(file.window.piece(first, last), "<f4").tolist()
        else:
            values.append(_single(file, path, number, wire, first, last))
    return values


def tensor_array(file: WireFile, path: str, span: Span) -> Array:
    """Return the values of the TensorProto at ``span`` in its shape; as TensorFlow does, a list
    that is too short is filled with its last.

    Raises
    ------
    FormatError
        Its type has no numpy type (string, resource …), or its data do not fit its shape.
    """
    dtype, content = "", None
    shape: Tuple[int, ...] = ()
    pieces: Dict[int, List[bytes]] = {}
    numbers: Dict[int, List[int]] = {}
    for number, wire, first, last in file.inside(*span):
        if number == 1 and wire == VARINT:
            dtype = DTYPES.get(first % 100, str(first))
        elif number == 2 and wire == BYTES:
            shape = shape_at(file, first, last) or ()
        elif number == 4 and wire == BYTES:
            content = file.window.piece(first, last)
        elif wire == VARINT:
            numbers.setdefault(number, []).append(signed(first))
        elif number in (5, 6, 9, 12):
            pieces.setdefault(number, []).append(file.window.piece(first, last))
        elif wire == BYTES and number in (7, 10, 11, 13, 16, 17):
            numbers.setdefault(number, []).extend(
                signed(value) for value in read_varints(file.window, first, last)
            )
    values = _values(dtype, content, pieces, numbers)
    if values is None:
        raise FormatError("a constant of type %s, which numpy has not" % dtype, path)
    count = int(np.prod(shape, dtype=np.int64))
    if values.size < count and content is None:
        filling = values[-1:] if values.size else np.zeros(1, values.dtype)
        values = np.concatenate([values, np.repeat(filling, count - values.size)])
    if values.size != count:
        raise FormatError(
            "a constant of shape %s with %d values" % (list(shape), values.size), path
        )
    return values.reshape(shape)


def _values(
    dtype: str,
    content: Optional[bytes],
    pieces: Dict[int, List[bytes]],
    numbers: Dict[int, List[int]],
) -> Optional[Array]:
    """Return the values that a TensorProto holds, [n]; bfloat16 as float32."""
    if dtype == "bfloat16":
        bits = (
            np.frombuffer(content, "<u2")
            if content is not None
            else np.array(numbers.get(13, ()), np.uint16)
        )
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    try:
        kind = (
            np.dtype(dtype.lstrip("q")) if dtype not in ("string", "resource", "variant") else None
        )
    except TypeError:
        kind = None
    if kind is None:
        return None
    if content is not None:
        return np.frombuffer(content, kind)
    if dtype in _FIELDS:
        field, stored = _FIELDS[dtype]
        return np.frombuffer(b"".join(pieces.get(field, ())), stored).view(kind)
    if dtype == "float16":
        return np.array(numbers.get(13, ()), np.uint16).view(np.float16)
    field = {"int64": 10, "bool": 11, "uint32": 16, "uint64": 17}.get(dtype, 7)
    return np.array(numbers.get(field, ()), np.int64).astype(kind)
