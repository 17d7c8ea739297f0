"""Protobuf's wire format, read and written without messages: for files that are walked over where
they lie, and for small headers.

Source: the Protocol Buffers encoding guide (varints, tag = field number << 3 | wire type).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Iterator, Tuple, Union

from .errors import FormatError
from .filesystem.safe_reading import read_at

if TYPE_CHECKING or sys.version_info >= (3, 8):
    from typing import Protocol
else:
    Protocol = object

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}


class Buffer(Protocol):
    """Anything whose bytes can be asked for one by one: bytes, a memory map, a window of a file."""

    def __getitem__(self, position: int) -> int:
        """Return one byte."""


class CutShort(FormatError):
    """The message goes on beyond the end of its bytes.

    Attributes
    ----------
    needed
        Offset up to which the bytes must at least go.
    """

    def __init__(self, needed: int) -> None:
        super().__init__("no protobuf message: it goes on to byte %d, behind its end" % needed)
        self.needed = needed


class Window:
    """A file as a :class:`Buffer`: the bytes near the place of the walk, read 64 KiB at a time.

    Raises
    ------
    CutShort
        The file ends before a byte that is asked for.
    InputError
        It cannot be read.
    """

    SIZE = 65536

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.start = 0
        self.data = b""

    def __getitem__(self, position: int) -> int:
        """Return one byte."""
        relative = position - self.start
        if not 0 <= relative < len(self.data):
            self.start, relative = position, 0
            self.data = read_at(self.descriptor, position, self.SIZE, self.path)
            if not self.data:
                raise CutShort(position + 1)
        return self.data[relative]

    def piece(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` to ``stop``, fewer only where the file ends."""
        relative = start - self.start
        if relative >= 0 and stop - self.start <= len(self.data):
            return self.data[relative : stop - self.start]
        return read_at(self.descriptor, start, stop - start, self.path)


def fields_of(data: Buffer, start: int, end: int) -> Iterator[Tuple[int, int, int, int]]:
    """Yield ``(field number, wire type, first, last)`` of each field between ``start`` and ``end``.

    ``first`` to ``last`` is where its value lies; of a varint ``first`` is the value itself. The
    next field begins at ``last``.

    Raises
    ------
    CutShort
        A field goes on beyond ``end``.
    FormatError
        The bytes are no message.
    """
    at = start
    while at < end:
        key, first = read_varint(data, at, end)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise FormatError("byte %d: not a protobuf field" % at)
        if wire == VARINT:
            first, last = read_varint(data, first, end)
        elif wire == BYTES:
            size, first = read_varint(data, first, end)
            last = first + size
        elif wire in _FIXED:
            last = first + _FIXED[wire]
        else:
            raise FormatError("byte %d: wire type %d is not used" % (at, wire))
        if last > end:
            raise CutShort(last)
        yield number, wire, first, last
        at = last


def read_varint(data: Buffer, at: int, end: int) -> Tuple[int, int]:
    """Return the number at ``at`` and the offset behind it.

    Raises
    ------
    CutShort
        It goes on beyond ``end``.
    FormatError
        It is longer than 64 bits.
    """
    value = shift = 0
    first = at
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, at
        shift += 7
        if shift > 63:
            break
    else:
        raise CutShort(at + 1)
    raise FormatError("byte %d: a number longer than 64 bits" % first)


def read_varints(data: Buffer, start: int, end: int) -> Iterator[int]:
    """Yield the numbers of a packed field. Raises as :func:`read_varint`."""
    at = start
    while at < end:
        value, at = read_varint(data, at, end)
        yield value


def varint(value: int) -> bytes:
    """Return a number from 0 to 2**64 - 1 as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: Union[int, bytes]) -> bytes:
    """Return one field: a number as a varint, bytes with their length before them."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    return varint(number << 3 | BYTES) + varint(len(value)) + value
