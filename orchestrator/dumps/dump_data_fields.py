"""Scans a serialised DumpData for the positions of its data fields without reading them.

Files of version 1 hold the tensors inside the message; a protobuf parser would copy them into
memory. Oversized headers of either version are reduced the same way before they are parsed: a
two-byte record costs a parser a hundred bytes and more.
"""

from __future__ import annotations

from dataclasses import field
from typing import Dict, Iterator, List, Optional, Tuple

from ..base.errors import FormatError
from ..base.fast_dataclasses import dataclass
from ..base.protowire import BYTES, VARINT, Window, fields_of, varint

NANO_MAGIC = b"\x5a\x5a\x5a\x5a"
"""What a nano device's header begins with."""

MAX_HEADER_BYTES = 16 * 1024 * 1024
MAX_RECORDS = 262144
MAX_REGIONS = 16384

# Top-level field: (kind, its data field, the fields that are kept).
_REGIONS = {
    3: ("output", 5, frozenset((1, 2, 3, 4, 6, 7, 8, 9, 11))),
    4: ("input", 4, frozenset((1, 2, 3, 5, 6, 7, 8, 9))),
    5: ("buffer", 2, frozenset((1, 3))),
    8: ("space", 2, frozenset((1, 3))),
}
_SCALARS = {1: BYTES, 2: VARINT, 6: BYTES}
_KNOWN = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 9))


@dataclass
class Scan:
    """The result of a scan.

    Attributes
    ----------
    header
        A DumpData without data fields, attributes and unknown fields.
    extents
        For each kind (``input``, ``output``, ``buffer``, ``space``) the (offset, nbytes) of every
        data field; None where it is absent.
    records, top_records
        Number of records scanned, including those inside tensors; number of complete top-level
        records.
    """

    header: bytearray = field(default_factory=bytearray)
    extents: Dict[str, List[Optional[Tuple[int, int]]]] = field(
        default_factory=lambda: {"input": [], "output": [], "buffer": [], "space": []}
    )
    records: int = 0
    top_records: int = 0


def scan_dump_data(
    descriptor: int, start: int, end: int, path: str, scan: Optional[Scan] = None
) -> Scan:
    """Scan the DumpData between the file offsets ``start`` and ``end``.

    Parameters
    ----------
    scan
        Filled as far as the scan gets, for callers that need it after a CutShort; None: a new one.

    Raises
    ------
    CutShort
        A record goes on beyond ``end``.
    FormatError
        The bytes are not a DumpData, or it has more records than :data:`MAX_RECORDS` or more than
        :data:`MAX_HEADER_BYTES` beside the data.
    """
    window = Window(descriptor, path)
    scan = Scan() if scan is None else scan
    for number, wire, at, value_at, after in _records(window, start, end, scan):
        if number in _REGIONS and wire == BYTES:
            _scan_region(window, scan, number, value_at, after)
        elif _SCALARS.get(number) == wire:
            _keep(scan.header, window, at, after)
        elif number in _REGIONS or number in _SCALARS or number not in _KNOWN:
            raise FormatError(
                "byte %d: field %d of wire type %d is not one of a dump file's header"
                % (at, number, wire),
                path,
            )
        scan.top_records += 1
    return scan


def _scan_region(window: Window, scan: Scan, number: int, start: int, end: int) -> None:
    """Add one tensor, buffer or workspace to the header without its data."""
    kind, data_field, scalars = _REGIONS[number]
    if len(scan.extents[kind]) >= MAX_REGIONS:
        raise FormatError("more than %d %ss" % (MAX_REGIONS, kind), window.path)
    extent: Optional[Tuple[int, int]] = None
    body = bytearray()
    for inner, wire, at, value_at, after in _records(window, start, end, scan):
        if inner == data_field and wire == BYTES:
            extent = (value_at, after - value_at)
        elif inner in scalars:
            _keep(body, window, at, after)
    scan.extents[kind].append(extent)
    scan.header += varint(number << 3 | BYTES) + varint(len(body)) + body
    _check_size(scan.header, window)


def _keep(header: bytearray, window: Window, start: int, stop: int) -> None:
    if stop - start > MAX_HEADER_BYTES:
        raise FormatError(
            "byte %d: a header field of %d bytes" % (start, stop - start), window.path
        )
    header += window.piece(start, stop)
    _check_size(header, window)


def _check_size(header: bytearray, window: Window) -> None:
    if len(header) > MAX_HEADER_BYTES:
        raise FormatError(
            "the header has more than %d bytes beside its data" % MAX_HEADER_BYTES, window.path
        )


def _records(
    window: Window, start: int, end: int, scan: Scan
) -> Iterator[Tuple[int, int, int, int, int]]:
    """Yield (field number, wire type, start, start of the value, end) of each record."""
    position = start
    for number, wire, first, after in fields_of(window, start, end):
        scan.records += 1
        if scan.records > MAX_RECORDS:
            raise FormatError("the header has more than %d records" % MAX_RECORDS, window.path)
        yield number, wire, position, first, after
        position = after
