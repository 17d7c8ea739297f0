"""Protobuf's wire format, read and written without messages: for files that are walked over where
they lie, and for small headers.

Source: the Protocol Buffers encoding guide (varints, tag = field number << 3 | wire type).
"""

from __future__ import annotations

import struct
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, NamedTuple, Tuple, Union

from .errors import FormatError
from .safe_reading import read_at

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
        if stop - start > self.SIZE:
            return read_at(self.descriptor, start, stop - start, self.path)
        relative = start - self.start
        if relative < 0 or stop - self.start > len(self.data):
            self.start, relative = start, 0
            self.data = read_at(self.descriptor, start, self.SIZE, self.path)
        return self.data[relative : stop - self.start]


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
    near, base = data, 0
    if isinstance(data, Window) and end - start <= Window.SIZE:
        # Most messages are small: one call for all their bytes, not one for each.
        near, base = data.piece(start, end), start
        if len(near) < end - start:
            near, base = data, 0
    at = start
    while at < end:
        key = near[at - base]
        first = at + 1
        if key > 0x7F:
            key, first = read_varint(data, at, end)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise FormatError("byte %d: not a protobuf field" % at)
        if wire in (VARINT, BYTES):
            value = near[first - base] if first < end else 0x80
            if value > 0x7F:
                value, first = read_varint(data, first, end)
            else:
                first += 1
            last = first + value if wire == BYTES else first
        elif wire in _FIXED:
            last = first + _FIXED[wire]
        else:
            raise FormatError("byte %d: wire type %d is not used" % (at, wire))
        if last > end:
            raise CutShort(last)
        yield number, wire, value if wire == VARINT else first, last
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


class Fields:
    """The fields of a message that are read, the table of :func:`read`: what each is called, and
    its number and form by one of the functions below. All others are passed over, also those of a
    listed number in another wire type.
    """

    def __init__(self, **forms: Form) -> None:
        self.single = {name: form.default for name, form in forms.items() if not form.repeated}
        self.repeated = [name for name, form in forms.items() if form.repeated]
        self.by_tag = {
            (form.number, wire): (name, value_of, form.repeated, wire == BYTES and form.packed)
            for name, form in forms.items()
            for wire, value_of in form.values.items()
        }


class Form(NamedTuple):
    """One field of a table: for each wire type that it may have the function that returns its
    value from the bytes, ``first`` and ``last``; where it is packed, a list.
    """

    number: int
    values: Dict[int, Callable[[Any, int, int], Any]]
    default: Any = None
    repeated: bool = False
    packed: bool = False


def read(data: Any, start: int, end: int, fields: Fields) -> Any:
    """Return an object that has the fields of the message between ``start`` and ``end`` as
    attributes: repeated ones as lists, of others the last; their default where there is none.

    Raises
    ------
    CutShort, FormatError
        As :func:`fields_of`.
    """
    values = dict(fields.single)
    for name in fields.repeated:
        values[name] = []
    for number, wire, first, last in fields_of(data, start, end):
        entry = fields.by_tag.get((number, wire))
        if entry is not None:
            name, value_of, repeated, packed = entry
            if not repeated:
                values[name] = value_of(data, first, last)
            elif packed:
                values[name] += value_of(data, first, last)
            else:
                values[name].append(value_of(data, first, last))
    return SimpleNamespace(**values)


def unsigned(number: int, default: Any = 0) -> Form:
    """Return the form of an unsigned number."""
    return Form(number, {VARINT: lambda data, first, last: first}, default)


def integer(number: int, default: Any = 0) -> Form:
    """Return the form of a number that may be negative."""
    return Form(number, {VARINT: lambda data, first, last: signed(first)}, default)


def floating(number: int) -> Form:
    """Return the form of a float; None where there is none."""
    return Form(
        number,
        {FIXED32: lambda data, first, last: struct.unpack("<f", piece(data, first, last))[0]},
    )


def text(number: int, default: Any = "") -> Form:
    """Return the form of a string; bytes that are not UTF-8 become surrogates."""
    return Form(number, {BYTES: read_text}, default)


def span(number: int) -> Form:
    """Return the form of bytes or a message of which only the place is wanted: ``(first, last)``;
    None where there is none.
    """
    return Form(number, {BYTES: lambda data, first, last: (first, last)})


def message(number: int, fields: Fields) -> Form:
    """Return the form of a message; None where there is none."""
    return Form(number, {BYTES: lambda data, first, last: read(data, first, last, fields)})


def each(form: Form) -> Form:
    """Return the form of a repeated field, each as ``form`` says; numbers packed or not."""
    ((wire, value_of),) = form.values.items()
    values = {wire: value_of}
    if wire == VARINT:
        values[BYTES] = lambda data, first, last: [
            value_of(data, value, last) for value in read_varints(data, first, last)
        ]
    elif wire == FIXED32:
        values[BYTES] = lambda data, first, last: [
            value_of(data, at, at + 4) for at in range(first, last - 3, 4)
        ]
    return Form(form.number, values, repeated=True, packed=wire != BYTES)


def fixed(number: int, wire: int) -> Form:
    """Return the form of repeated numbers of fixed size, packed or not: the places where their
    bytes lie.
    """
    place = span(number).values[BYTES]
    return Form(number, {BYTES: place, wire: place}, repeated=True)


def signed(value: int) -> int:
    """Return the number that a varint of 64 bits stands for."""
    return value - (1 << 64) if value >> 63 else value


def piece(data: Any, first: int, last: int) -> bytes:
    """Return bytes of a window, a memory map or bytes."""
    part: bytes = data.piece(first, last) if isinstance(data, Window) else data[first:last]
    return part


def read_text(data: Any, first: int, last: int) -> str:
    """Return the bytes of a string; those that are not UTF-8 as surrogates."""
    return str(piece(data, first, last), "utf-8", "surrogateescape")


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
