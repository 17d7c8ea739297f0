"""Reads values of an ONNX model as arrays: initializers, constants, attributes of nodes.

Source of the field numbers and of how values are packed: onnx.proto (TensorProto, AttributeProto).
"""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from ..base.errors import FormatError
from ..base.protowire import FIXED32, FIXED64, Fields, each, fixed, integer, unsigned
from ..base.safe_reading import open_input
from .narrow_types import BFLOAT16, decode, held_as, is_narrow, values_of_codes
from .onnx_external_data import external_range
from .onnx_model import ATTRIBUTE, OnnxModel, OnnxNode
from .onnx_types import BY_NAME, type_name
from .onnx_value_headers import OnnxTensor, read_tensor
from .protobuf_file import Span, WireFile

Array = Any

_FLOATS = Fields(values=fixed(4, FIXED32))
_DOUBLES = Fields(values=fixed(10, FIXED64))
_INT32S = Fields(values=each(integer(5)))
_LISTS = {
    "float32": _FLOATS,
    "complex64": _FLOATS,
    "float64": _DOUBLES,
    "complex128": _DOUBLES,
    "int64": Fields(values=each(integer(7))),
    "uint32": Fields(values=each(unsigned(11))),
    "uint64": Fields(values=each(unsigned(11))),
}
# TensorProto.int32_data: types of less than six bits lie there a byte at a time.
_CODES_IN_BYTES = ("int4", "uint4", "int2", "uint2", "float4e2m1")


def tensor_array(path: str, file: WireFile, tensor: OnnxTensor) -> Array:
    """Return the values of a tensor of the model at ``path``, in its shape; of a type that numpy
    lacks as :func:`.narrow_types.held_as` says.

    Raises
    ------
    FormatError, InputError, MissingPath
        It holds no numbers, its data are truncated, or at a forbidden location.
    """
    name = type_name(tensor.dtype)
    title = "tensor " + (tensor.name or "in an attribute")
    if held_as(name) is None:
        raise FormatError("%s is of type %d, which numpy has not" % (title, tensor.dtype), path)
    if tensor.external is not None or tensor.raw is not None:
        if tensor.external is not None:
            place = external_range(path, tensor)
            with open_input(place.path) as stream:
                stream.seek(place.offset)
                data = stream.read(place.length)
        else:
            data = file.window.piece(*(tensor.raw or (0, 0)))
        if len(data) != tensor.nbytes:
            raise FormatError(
                "%s has %d bytes of data, %s of shape %s needs %d"
                % (title, len(data), name, list(tensor.dims), tensor.nbytes),
                path,
            )
        values = _of_bytes(data, name, tensor.elements)
    else:
        values = _of_list(file, tensor, name)
    if values.size != tensor.elements:
        raise FormatError(
            "%s has %d values, its shape %s needs %d"
            % (title, values.size, list(tensor.dims), tensor.elements),
            path,
        )
    return values.reshape(tensor.dims)


def _of_bytes(data: bytes, name: str, elements: int) -> Array:
    if is_narrow(name):
        return decode(np.frombuffer(data, np.uint8), name, elements)
    return np.frombuffer(data, BY_NAME[name].numpy)


def _of_list(file: WireFile, tensor: OnnxTensor, name: str) -> Array:
    """Return the values that lie in one of the lists of a TensorProto."""
    values = file.read(_LISTS.get(name, _INT32S), *tensor.span).values
    if name in ("float32", "complex64", "float64", "complex128"):
        data = b"".join(file.window.piece(*place) for place in values)
        dtype = np.dtype(BY_NAME[name].numpy)
        return np.frombuffer(data, dtype, len(data) // dtype.itemsize)
    # Of narrow types and of float16 the numbers are the stored bits.
    if name in _CODES_IN_BYTES:
        return decode(np.array([value & 0xFF for value in values], np.uint8), name, tensor.elements)
    if name in (BFLOAT16, "float16"):
        bits = np.array([value & 0xFFFF for value in values], "<u2")
        return _of_bytes(bits.tobytes(), name, bits.size)
    if is_narrow(name):
        codes = (1 << BY_NAME[name].bits) - 1
        return values_of_codes(np.array([value & codes for value in values], np.intp), name)
    stored = np.array(values, np.uint64 if name.startswith("uint") and name in _LISTS else np.int64)
    return stored.astype(BY_NAME[name].numpy)


def attributes_of(model: OnnxModel, file: WireFile, node: OnnxNode) -> Dict[str, Any]:
    """Return the attributes of a node: int, float, str, lists of these, arrays; graphs are left
    out.

    Raises
    ------
    FormatError, InputError, MissingPath
        As of :func:`tensor_array`.
    """
    attributes = {
        name: _value(model.path, file, span)
        for name, span in node.attrs.items()
        if name not in node.graphs
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _value(path: str, file: WireFile, span: Span) -> Any:
    attr = file.read(ATTRIBUTE, *span)
    for kind, listed in ((6, attr.floats), (7, attr.integers), (8, attr.strings)):
        if attr.kind == kind or (attr.kind is None and listed):
            return listed
    if attr.tensor is not None:
        return tensor_array(path, file, read_tensor(file, attr.tensor))
    for value in (attr.string, attr.integer, attr.floating):
        if value is not None:
            return value
    # proto3 leaves out what is zero.
    return {1: 0.0, 2: 0, 3: ""}.get(attr.kind)
