"""A walk over a serialised DumpData that finds where its data fields lie without reading them.

Files of version 1 hold the tensors inside the message; a protobuf parser would copy them into memory. Oversized headers of either version
are thinned out the same way before they are parsed: a two-byte record costs a parser a hundred bytes and more.

Wire format: the Protocol Buffers encoding guide (varints, tag = field number << 3 | wire type).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional, Tuple

from ..errors import FormatError
from .source import read_at

MAX_HEADER_BYTES = 16 * 1024 * 1024
MAX_RECORDS = 262144
MAX_REGIONS = 16384

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}

# Top-level field: (kind, its data field, the fields that are kept).
_REGIONS = {
    3: ("output", 5, frozenset((1, 2, 3, 4, 6, 7, 8, 9, 11))),
    4: ("input", 4, frozenset((1, 2, 3, 5, 6, 7, 8, 9))),
    5: ("buffer", 2, frozenset((1, 3))),
    8: ("space", 2, frozenset((1, 3))),
}
_SCALARS = {1: _BYTES, 2: _VARINT, 6: _BYTES}
_KNOWN = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 9))


class CutShort(Exception):
    """The message goes on beyond the end of its bytes.

    Attributes
    ----------
    needed
        Offset up to which the file must at least go.
    records
        Complete top-level records before the cut.
    """

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed
        self.records = 0


@dataclass
class Scan:
    """What the walk found.

    Attributes
    ----------
    header
        A DumpData without data fields, attributes and unknown fields.
    extents
        Per kind (``input``, ``output``, ``buffer``, ``space``) the (offset, nbytes) of each one's data field, None where it has none.
    records
        Records that were walked over, those inside tensors included.
    """

    header: bytearray = field(default_factory=bytearray)
    extents: Dict[str, List[Optional[Tuple[int, int]]]] = field(
        default_factory=lambda: {"input": [], "output": [], "buffer": [], "space": []}
    )
    records: int = 0


class _Window:
    """Bytes of a file near the place of the walk, read 64 KiB at a time."""

    SIZE = 65536

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.start = 0
        self.data = b""

    def byte(self, position: int) -> int:
        relative = position - self.start
        if not 0 <= relative < len(self.data):
            self.start, relative = position, 0
            self.data = read_at(self.descriptor, position, self.SIZE, self.path)
            if not self.data:
                raise CutShort(position + 1)
        return self.data[relative]

    def piece(self, start: int, stop: int) -> bytes:
        relative = start - self.start
        if relative >= 0 and stop - self.start <= len(self.data):
            return self.data[relative : stop - self.start]
        return read_at(self.descriptor, start, stop - start, self.path)


def scan_dump_data(descriptor: int, start: int, end: int, path: str) -> Scan:
    """Walk over the DumpData between the file offsets ``start`` and ``end``.

    Raises
    ------
    FormatError
        The bytes are not a DumpData, or it has more records than :data:`MAX_RECORDS` or more than :data:`MAX_HEADER_BYTES` beside the data.
    CutShort
        A record goes on beyond ``end``.
    """
    window = _Window(descriptor, path)
    scan = Scan()
    top = 0
    try:
        for number, wire, at, value_at, after in _records(window, start, end, scan):
            if number in _REGIONS and wire == _BYTES:
                _scan_region(window, scan, number, value_at, after)
            elif _SCALARS.get(number) == wire:
                _keep(scan.header, window, at, after)
            elif number in _REGIONS or number in _SCALARS or number not in _KNOWN:
                raise FormatError("byte %d: field %d of wire type %d is not one of a dump file's header" % (at, number, wire), path)
            top += 1
    except CutShort as cut:
        cut.records = top
        raise
    return scan


def _scan_region(window: _Window, scan: Scan, number: int, start: int, end: int) -> None:
    """Keep one tensor, buffer or workspace without its data."""
    kind, data_field, kept = _REGIONS[number]
    if len(scan.extents[kind]) >= MAX_REGIONS:
        raise FormatError("more than %d %ss" % (MAX_REGIONS, kind), window.path)
    extent: Optional[Tuple[int, int]] = None
    body = bytearray()
    for inner, wire, at, value_at, after in _records(window, start, end, scan):
        if inner == data_field and wire == _BYTES:
            extent = (value_at, after - value_at)
        elif inner in kept:
            _keep(body, window, at, after)
    scan.extents[kind].append(extent)
    scan.header += _varint_bytes(number << 3 | _BYTES) + _varint_bytes(len(body)) + body
    _check_size(scan.header, window)


def _keep(header: bytearray, window: _Window, start: int, stop: int) -> None:
    if stop - start > MAX_HEADER_BYTES:
        raise FormatError("byte %d: a header field of %d bytes" % (start, stop - start), window.path)
    header += window.piece(start, stop)
    _check_size(header, window)


def _check_size(header: bytearray, window: _Window) -> None:
    if len(header) > MAX_HEADER_BYTES:
        raise FormatError("the header has more than %d bytes beside its data" % MAX_HEADER_BYTES, window.path)


def _records(window: _Window, start: int, end: int, scan: Scan) -> Iterator[Tuple[int, int, int, int, int]]:
    """Yield (field number, wire type, start, start of the value, end) of each record."""
    position = start
    while position < end:
        scan.records += 1
        if scan.records > MAX_RECORDS:
            raise FormatError("the header has more than %d records" % MAX_RECORDS, window.path)
        tag, value_at = _varint(window, position, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise FormatError("byte %d: not a protobuf record" % position, window.path)
        if wire == _VARINT:
            after = _varint(window, value_at, end)[1]
        elif wire == _BYTES:
            length, value_at = _varint(window, value_at, end)
            after = value_at + length
        elif wire in _FIXED:
            after = value_at + _FIXED[wire]
        else:
            raise FormatError("byte %d: wire type %d is not used in dump files" % (position, wire), window.path)
        if after > end:
            raise CutShort(after)
        yield number, wire, position, value_at, after
        position = after


def _varint(window: _Window, position: int, end: int) -> Tuple[int, int]:
    """Return a varint's value and the offset behind it."""
    value = shift = 0
    first = position
    while True:
        if position >= end:
            raise CutShort(position + 1)
        byte = window.byte(position)
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise FormatError("byte %d: a number longer than 64 bits" % first, window.path)


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
