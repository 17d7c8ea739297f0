"""Reads values of an ONNX model as arrays: initializers, constants, attributes of nodes.

Source of the field numbers and of how values are packed: onnx.proto (TensorProto, AttributeProto).
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Optional

import numpy as np

from ..errors import FormatError
from ..filesystem.safe_reading import open_input
from ..protowire import BYTES, FIXED32, FIXED64, VARINT
from .onnx_external_data import external_range
from .onnx_model import OnnxModel, OnnxNode
from .onnx_types import TYPES
from .onnx_value_headers import OnnxTensor, read_tensor
from .protobuf_file import Span, WireFile, numbers_of, signed

Array = Any

_FLOATS, _INT32S, _INT64S, _DOUBLES, _UINT64S = 4, 5, 7, 10, 11
_BFLOAT16 = "bfloat16"


def tensor_array(model: OnnxModel, file: WireFile, tensor: OnnxTensor) -> Array:
    """Return the values of a tensor, in its shape; bfloat16 as float32.

    Raises
    ------
    FormatError, InputError, MissingPath
        Its type has no numpy type, its data are truncated, or at a forbidden location.
    """
    kind = TYPES.get(tensor.dtype)
    if kind is None or (kind.numpy is None and kind.name != _BFLOAT16):
        name = tensor.name or "in an attribute"
        raise FormatError(
            "tensor %s is of type %d, which numpy has not" % (name, tensor.dtype), model.path
        )
    if kind.name == _BFLOAT16:
        bits = _stored(model, file, tensor, np.dtype("<u2"), kind.name)
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(tensor.dims)
    return _stored(model, file, tensor, np.dtype(kind.numpy or "u1"), kind.name).reshape(
        tensor.dims
    )


def _stored(model: OnnxModel, file: WireFile, tensor: OnnxTensor, dtype: Any, name: str) -> Array:
    """Return the values as they are stored, [n]."""
    if tensor.external is not None:
        place = external_range(model.path, tensor)
        with open_input(place.path) as stream:
            stream.seek(place.offset)
            return _of_bytes(stream.read(place.length), tensor, dtype, model.path)
    if tensor.raw is not None:
        return _of_bytes(file.window.piece(*tensor.raw), tensor, dtype, model.path)
    if name in ("float32", "complex64"):
        values = _fixed(file, tensor.span, _FLOATS, np.dtype("<f4")).view(dtype)
    elif name in ("float64", "complex128"):
        values = _fixed(file, tensor.span, _DOUBLES, np.dtype("<f8")).view(dtype)
    elif name == "int64":
        values = np.array(numbers_of(file, tensor.span, _INT64S), np.int64)
    elif name in ("uint32", "uint64"):
        values = np.array(
            [value & 0xFFFFFFFFFFFFFFFF for value in numbers_of(file, tensor.span, _UINT64S)],
            np.uint64,
        )
    else:
        numbers = np.array(numbers_of(file, tensor.span, _INT32S), np.int64)
        # 16-bit floats are stored as the numbers that their bits are.
        values = (
            numbers.astype(np.uint16).view(dtype) if name in ("float16", _BFLOAT16) else numbers
        )
    if values.size != tensor.elements:
        raise _wrong_size(tensor, values.size, model.path)
    return values.astype(dtype)


def _of_bytes(data: bytes, tensor: OnnxTensor, dtype: Any, path: str) -> Array:
    if len(data) != tensor.elements * dtype.itemsize:
        raise _wrong_size(tensor, len(data) // dtype.itemsize, path)
    return np.frombuffer(data, dtype)


def _wrong_size(tensor: OnnxTensor, count: int, path: str) -> FormatError:
    message = "tensor %s has %d values, its shape %s needs %d"
    return FormatError(
        message % (tensor.name or "in an attribute", count, list(tensor.dims), tensor.elements),
        path,
    )


def _fixed(file: WireFile, span: Span, field: int, dtype: Any) -> Array:
    """Return the numbers of a repeated field of fixed size, packed or not."""
    spans = [
        (first, last)
        for number, wire, first, last in file.inside(*span)
        if number == field and wire in (BYTES, FIXED32, FIXED64)
    ]
    pieces = [file.window.piece(first, last) for first, last in spans]
    return np.frombuffer(b"".join(pieces), dtype)


def attributes_of(model: OnnxModel, file: WireFile, node: OnnxNode) -> Dict[str, Any]:
    """Return the attributes of a node: int, float, str, lists of these, arrays; graphs are left
    out.

    Raises
    ------
    FormatError, InputError, MissingPath
        As of :func:`tensor_array`.
    """
    attributes = {
        name: _value(model, file, span)
        for name, span in node.attrs.items()
        if name not in node.graphs
    }
    return {name: value for name, value in attributes.items() if value is not None}


_FLOAT, _INT, _STRING, _TENSOR, _MANY_FLOATS, _MANY_INTS, _MANY_STRINGS = 1, 2, 3, 4, 6, 7, 8
_TYPE_FIELD = 20


def _value(model: OnnxModel, file: WireFile, span: Span) -> Any:
    kind: Optional[int] = None
    single: Any = None
    floats: List[float] = []
    strings: List[str] = []
    for number, wire, first, last in file.inside(*span):
        if number == _TYPE_FIELD and wire == VARINT:
            kind = first
        elif number == 2 and wire == FIXED32:
            single = struct.unpack("<f", file.window.piece(first, last))[0]
        elif number == 3 and wire == VARINT:
            single = signed(first)
        elif number == 4 and wire == BYTES:
            single = file.text(first, last)
        elif number == 5 and wire == BYTES:
            single = tensor_array(model, file, read_tensor(file, (first, last)))
        elif number == 7 and wire in (BYTES, FIXED32):
            piece = file.window.piece(first, last)
            floats += struct.unpack("<%df" % (len(piece) // 4), piece)
        elif number == 9 and wire == BYTES:
            strings.append(file.text(first, last))
    if kind == _MANY_FLOATS or (kind is None and floats):
        return floats
    if kind == _MANY_STRINGS or (kind is None and strings):
        return strings
    ints = numbers_of(file, span, 8)
    if kind == _MANY_INTS or (kind is None and ints):
        return ints
    if single is None and kind in (_FLOAT, _INT, _STRING):
        # proto3 leaves out what is zero.
        return {_FLOAT: 0.0, _INT: 0, _STRING: ""}[kind]
    return single
