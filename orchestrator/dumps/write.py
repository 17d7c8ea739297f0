"""Writes dump files byte for byte as a device or a golden tool does."""

from __future__ import annotations

import struct
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from ..base.atomic_writing import atomic_writer
from ..base.errors import InputError
from ..base.fast_dataclasses import dataclass
from ..proto import load_messages
from ..tensors.dtypes import DType, dtype_by_code, dtype_by_name, dtype_by_numpy, nbytes
from ..tensors.storage_layouts import format_code
from ..tensors.tensor import WINDOW_BYTES

_HEADER_VERSIONS = {1: "1.0", 2: "2.0"}


@dataclass(frozen=True)
class TensorData:
    """One input or output to write.

    Attributes
    ----------
    data
        An array, or bytes. Arrays of numpy types are written little-endian in C order; other types
        as their stored bytes.
    dtype
        DataType-column name, enumerator, OutputDataType code or :class:`DType`; None takes the
        array's own.
    format
        Layout name or OutputFormat code.
    shape
        As stored; None takes the array's shape (bytes: the number of whole elements).
    size_bytes
        The header's ``size``; None takes the data's. Anything else makes a damaged file, for tests.
    original_name, original_index
        Op and output of the original model (outputs only).
    """

    data: Any
    dtype: Union[None, int, str, DType] = None
    format: Union[int, str] = "ND"
    shape: Optional[Sequence[int]] = None
    original_shape: Optional[Sequence[int]] = None
    sub_format: int = 0
    address: int = 0
    size_bytes: Optional[int] = None
    original_name: Optional[str] = None
    original_index: int = 0


Part = Union[bytes, memoryview]


def write_dump(
    path: str,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    buffers: Sequence[bytes] = (),
    spaces: Sequence[bytes] = (),
    version: int = 2,
    op_name: str = "",
    dump_time: int = 0,
    header_version: Optional[str] = None,
    attrs: Sequence[Tuple[str, str]] = (),
) -> int:
    """Write one dump file and return its size in bytes. Written atomically by rename.

    Parameters
    ----------
    inputs, outputs
        :class:`TensorData`, or arrays (layout ND, their own type and shape).
    buffers, spaces
        Raw bytes.
    version
        2: length, header, payload. 1: one message with the bytes inside.
    header_version
        The header's version text; None takes ``2.0`` or ``1.0``.
    attrs
        Names and values of the header's attributes.

    Raises
    ------
    InputError
        A type or layout is not known, or data and shape disagree.
    OSError
        The file cannot be written.
    """
    parts = dump_parts(
        inputs, outputs, buffers, spaces, version, op_name, dump_time, header_version, attrs
    )
    size = 0
    with atomic_writer(path) as stream:
        for part in parts:
            size += len(part)
            stream.write(part)
    return size


def dump_parts(
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    buffers: Sequence[bytes] = (),
    spaces: Sequence[bytes] = (),
    version: int = 2,
    op_name: str = "",
    dump_time: int = 0,
    header_version: Optional[str] = None,
    attrs: Sequence[Tuple[str, str]] = (),
) -> Iterator[Part]:
    """Yield the bytes of a dump file in pieces of at most 16 MiB (the header is one piece);
    parameters as for :func:`write_dump`.
    """
    if version not in _HEADER_VERSIONS:
        raise InputError("container version %r is not known, expected 1 or 2" % version)
    header = load_messages().DumpData(
        version=header_version or _HEADER_VERSIONS[version], dump_time=dump_time, op_name=op_name
    )
    for name, value in attrs:
        header.attr.add(name=name, value=value)
    payload: List[memoryview] = []
    for fields, tensors in ((header.input, inputs), (header.output, outputs)):
        for number, entry in enumerate(tensors):
            tensor = entry if isinstance(entry, TensorData) else TensorData(entry)
            data = _fill_tensor(
                fields.add(), tensor, "tensor %d of %s" % (number, op_name or "the dump")
            )
            payload.append(data)
            if version == 1:
                fields[-1].data = data.tobytes()
    for fields, regions in ((header.buffer, buffers), (header.space, spaces)):
        for region in regions:
            fields.add(size=len(region), data=bytes(region) if version == 1 else b"")
            payload.append(memoryview(region))
    message = header.SerializeToString(deterministic=True)
    return _pieces(message, payload if version == 2 else None)


def _pieces(message: bytes, payload: Optional[Iterable[memoryview]]) -> Iterator[Part]:
    if payload is None:
        yield message
        return
    yield struct.pack("<Q", len(message)) + message
    for data in payload:
        for start in range(0, len(data), WINDOW_BYTES):
            yield data[start : start + WINDOW_BYTES]


def _fill_tensor(field: Any, tensor: TensorData, where: str) -> memoryview:
    """Fill one OpInput or OpOutput and return the bytes of its payload."""
    dtype, array = _storage(tensor, where)
    data = memoryview(array.view(np.uint8))
    shape = _shape(tensor, dtype, len(data))
    count = 1
    for dim in shape:
        count *= dim
    if dtype.bits and tensor.size_bytes is None and nbytes(dtype, count) != len(data):
        raise InputError(
            "%s: %s%s needs %d bytes, got %d"
            % (where, dtype.name, list(shape), nbytes(dtype, count), len(data))
        )
    field.data_type = dtype.code
    field.format = _format_code(tensor.format, where)
    field.shape.dim.extend(shape)
    field.size = len(data) if tensor.size_bytes is None else tensor.size_bytes
    if tensor.original_shape is not None:
        field.original_shape.dim.extend(int(dim) for dim in tensor.original_shape)
    field.sub_format, field.address = tensor.sub_format, tensor.address
    if tensor.original_name is not None:
        field.original_op.name, field.original_op.output_index = (
            tensor.original_name,
            tensor.original_index,
        )
    return data


def _storage(tensor: TensorData, where: str) -> Tuple[DType, Any]:
    """Return the element type and the stored bytes as a flat contiguous array."""
    if isinstance(tensor.data, (bytes, bytearray, memoryview)):
        flat = np.frombuffer(tensor.data, np.uint8)
        return (
            _dtype(tensor.dtype, where) if tensor.dtype is not None else dtype_by_numpy(np.uint8)
        ), flat
    array = np.asarray(tensor.data)
    dtype = dtype_by_numpy(array.dtype) if tensor.dtype is None else _dtype(tensor.dtype, where)
    if dtype.code < 0:
        raise InputError("%s: numpy type %s has no code in a dump file" % (where, array.dtype))
    return dtype, np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)


def _dtype(code_or_name: Union[int, str, DType], where: str) -> DType:
    if isinstance(code_or_name, DType):
        return code_or_name
    dtype = (
        dtype_by_code(code_or_name)
        if isinstance(code_or_name, int)
        else dtype_by_name(code_or_name)
    )
    if dtype is None:
        raise InputError("%s: data type %r is not known" % (where, code_or_name))
    return dtype


def _format_code(code_or_name: Union[int, str], where: str) -> int:
    code = code_or_name if isinstance(code_or_name, int) else format_code(code_or_name)
    if code is None:
        raise InputError("%s: format %r is not known" % (where, code_or_name))
    return code


def _shape(tensor: TensorData, dtype: DType, size: int) -> Tuple[int, ...]:
    if tensor.shape is not None:
        return tuple(int(dim) for dim in tensor.shape)
    if isinstance(tensor.data, (bytes, bytearray, memoryview)):
        return (size * 8 // dtype.bits if dtype.bits else size,)
    return tuple(int(dim) for dim in np.asarray(tensor.data).shape)
