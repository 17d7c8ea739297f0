"""A TensorProto in a file of its own (.pb), such as the test data of the ONNX model zoo, as an
array.

Source of the field numbers: onnx.proto (TensorProto).
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

from ...errors import FormatError
from ...netfiles.onnx_types import TYPES, type_name
from ...netfiles.onnx_value_headers import OnnxTensor, read_tensor
from ...netfiles.protobuf_file import WireFile, numbers_of
from ...protowire import BYTES, FIXED32, FIXED64
from .narrow_types import decode, held_as, is_narrow

HINT = "give a TensorProto, or an .npy file"
# Fields of packed floats and doubles; all other types lie in lists of varints.
_FLOATS = {
    "float32": (4, FIXED32, "<f4"),
    "complex64": (4, FIXED32, "<f4"),
    "float64": (10, FIXED64, "<f8"),
    "complex128": (10, FIXED64, "<f8"),
}
_VARINTS = {"int64": 7, "uint32": 11, "uint64": 11}


def read_tensorproto(path: str) -> Tuple[np.ndarray, str]:
    """Return the values (of a type that numpy lacks, as :func:`.narrow_types.held_as` says) and the
    name of their type.

    Raises
    ------
    MissingPath, FormatError
        It is not there, no TensorProto, or damaged.
    """
    with WireFile(path, "input", HINT) as file:
        tensor = read_tensor(file, (0, file.size))
        dtype = held_as(type_name(tensor.dtype))
        if dtype is None:
            raise FormatError(
                "not a TensorProto of numbers: its element type is %s" % type_name(tensor.dtype),
                path,
                hint=HINT,
            )
        if tensor.external is not None:
            raise FormatError("a TensorProto whose data lies in another file", path, hint=HINT)
        name = TYPES[tensor.dtype].name
        values = _values(file, tensor, name)
    if values.size != tensor.elements:
        raise FormatError("%d values for the shape %s" % (values.size, list(tensor.dims)), path)
    return values.astype(dtype.newbyteorder("=")).reshape(tensor.dims), name


def _values(file: WireFile, tensor: OnnxTensor, name: str) -> np.ndarray:
    if tensor.raw is not None:
        raw = np.frombuffer(file.window.piece(*tensor.raw), np.uint8)
        if raw.size != tensor.nbytes:
            raise FormatError(
                "%d bytes for %s of shape %s" % (raw.size, name, list(tensor.dims)), file.path
            )
        return (
            decode(raw, name, tensor.elements)
            if is_narrow(name)
            else raw.view(np.dtype(TYPES[tensor.dtype].numpy))
        )
    if name in _FLOATS:
        number, fixed, form = _FLOATS[name]
        pieces = [
            file.window.piece(first, last)
            for inner, wire, first, last in file.inside(*tensor.span)
            if inner == number and wire in (BYTES, fixed)
        ]
        values = np.frombuffer(b"".join(pieces), form)
        return (
            values.view("<c8" if form == "<f4" else "<c16")
            if name.startswith("complex")
            else values
        )
    numbers = numbers_of(file, tensor.span, _VARINTS.get(name, 5))
    if is_narrow(name):
        # Types of four bits lie two in a number.
        width = "<u2" if TYPES[tensor.dtype].bits == 16 else np.uint8
        return decode(
            np.asarray([value & 0xFFFF for value in numbers]).astype(width).view(np.uint8),
            name,
            tensor.elements,
        )
    if name == "float16":
        return np.asarray([value & 0xFFFF for value in numbers], "<u2").view("<f2")
    return (
        np.asarray([value & (1 << 64) - 1 for value in numbers], np.uint64)
        .view(np.int64)
        .astype(TYPES[tensor.dtype].numpy)
    )
