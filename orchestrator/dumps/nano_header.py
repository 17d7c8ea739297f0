"""Reads the header of a nano device's dump file: type-length-value records instead of the DumpData
message.

``u64 header length``, header, payload (inputs, then outputs), and the same size law as version 2.
All numbers are little-endian, nothing is aligned. Header: u32 magic 0x5a5a5a5a, u32 version, then
record 4 (inputs) and record 5 (outputs); a record is u32 tag, u32 length, value. Either value is
u32 count and so many descriptions: i32 dtype, i32 format, i32 kind of address, (outputs: i32
original index, i32 original dtype, i32 original format,) u64 address, u64 offset, u64 size, u32
length of a list of records: 0 dims (u64 each), 1 original dims, 2 original name. Types have GE's
numbers, not those of the containers.

Source: the vendor's public reader of these files.
"""

from __future__ import annotations

import struct
from typing import Any, Tuple

from ..base.element_types import BY_GE_NAME
from ..base.errors import FormatError
from ..proto import load_messages
from .dump_data_fields import NANO_MAGIC

_INPUTS, _OUTPUTS = 4, 5
_DIMS, _ORIGINAL_DIMS, _ORIGINAL_NAME = 0, 1, 2
_HEAD = struct.Struct("<3i")
_ORIGINAL = struct.Struct("<3i")
_TAIL = struct.Struct("<3QI")
_WORD = struct.Struct("<I")
_MAX_TENSORS = 16384
_MAX_DIMS_BYTES = 8 * 1024
# GE's enumeration of data types, from 0.
_GE_TYPES = (
    "FLOAT FLOAT16 INT8 INT32 UINT8 - INT16 UINT16 UINT32 INT64 UINT64 DOUBLE BOOL STRING "
    "DUAL_SUB_INT8 DUAL_SUB_UINT8 COMPLEX64 "
    "COMPLEX128 QINT8 QINT16 QINT32 QUINT8 QUINT16 RESOURCE STRING_REF DUAL VARIANT BF16 "
    "UNDEFINED INT4 UINT1 INT2 UINT2"
).split()
# Shown for a type without a number in the containers: "unknown(1005)".
_UNKNOWN = 1000


class _Cursor:
    """A read position in the header; reading past the end is a FormatError."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self.data, self.at, self.end = data, start, end

    def take(self, form: struct.Struct) -> Tuple[Any, ...]:
        if self.at + form.size > self.end:
            raise FormatError("byte %d of the header: it ends inside a record" % self.at)
        values = form.unpack_from(self.data, self.at)
        self.at += form.size
        return values

    def record(self) -> Tuple[int, _Cursor]:
        """Return the next record's tag and its value."""
        (tag,), (length,) = self.take(_WORD), self.take(_WORD)
        if self.at + length > self.end:
            raise FormatError(
                "byte %d of the header: record %d of %d bytes goes on beyond the end"
                % (self.at, tag, length)
            )
        value = _Cursor(self.data, self.at, self.at + length)
        self.at += length
        return tag, value

    def part(self, length: int) -> _Cursor:
        """Return the next ``length`` bytes."""
        if self.at + length > self.end:
            raise FormatError(
                "byte %d of the header: a list of %d bytes goes on beyond the end"
                % (self.at, length)
            )
        self.at += length
        return _Cursor(self.data, self.at - length, self.at)


def read_nano_header(data: bytes) -> Any:
    """Return the header as a DumpData message.

    Raises
    ------
    FormatError
        The records are not those of a nano dump.
    """
    message = load_messages().DumpData()
    cursor = _Cursor(data, len(NANO_MAGIC), len(data))
    message.version = "nano %d" % cursor.take(_WORD)[0]
    while cursor.at < cursor.end:
        tag, value = cursor.record()
        if tag in (_INPUTS, _OUTPUTS):
            (count,) = value.take(_WORD)
            if count > _MAX_TENSORS:
                raise FormatError("more than %d tensors" % _MAX_TENSORS)
            for _ in range(count):
                _read_tensor(
                    value,
                    message.output.add() if tag == _OUTPUTS else message.input.add(),
                    tag == _OUTPUTS,
                )
    return message


def _read_tensor(cursor: _Cursor, field: Any, is_output: bool) -> None:
    dtype, field.format, _ = cursor.take(_HEAD)
    field.data_type = _code(dtype)
    if is_output:
        field.original_op.output_index = cursor.take(_ORIGINAL)[0] & 0xFFFFFFFF
    field.address, field.offset, field.size, length = cursor.take(_TAIL)
    records = cursor.part(length)
    while records.at < records.end:
        tag, value = records.record()
        content = value.data[value.at : value.end]
        if tag in (_DIMS, _ORIGINAL_DIMS):
            if len(content) % 8 or len(content) > _MAX_DIMS_BYTES:
                raise FormatError(
                    "byte %d of the header: dims of %d bytes" % (value.at, len(content))
                )
            dims = struct.unpack("<%dQ" % (len(content) // 8), content)
            (field.shape if tag == _DIMS else field.original_shape).dim.extend(dims)
        elif tag == _ORIGINAL_NAME and is_output:
            field.original_op.name = content.rstrip(b"\0").decode("utf-8", "replace")


def _code(ge_type: int) -> int:
    name = _GE_TYPES[ge_type] if 0 <= ge_type < len(_GE_TYPES) else "-"
    return BY_GE_NAME["DT_" + name].code if name != "-" else _UNKNOWN + ge_type % _UNKNOWN
