"""Reads the header of a dump file, detects the file's version and checks its size.

If the first eight bytes are a length that fits into the file, that many bytes after them are a
DumpData, and file size = 8 + header + sum of all sizes, it is version 2. Otherwise, if the whole
file is one DumpData whose data fields have the stated sizes, it is version 1. Otherwise it is a
damaged file of the version whose header could be read.
"""

from __future__ import annotations

import itertools
import os
import struct
from typing import Any, Dict, List, Optional, Tuple

from ..base.element_types import BY_CODE
from ..base.errors import FormatError, TruncatedFile
from ..base.fast_dataclasses import changed, dataclass
from ..base.protowire import CutShort
from ..base.safe_reading import open_regular, read_at
from ..proto import load_messages
from .dump_data_fields import MAX_HEADER_BYTES, MAX_REGIONS, NANO_MAGIC, Scan, scan_dump_data
from .file_source import START_BYTES

LENGTH_BYTES = 8
# A bigger header is reduced by scan_dump_data before it is parsed.
PLAIN_HEADER_BYTES = 65536
MAX_RANK = 32

COMPLETE, SHORT, LONG, HEADERLESS = "complete", "short", "long", "headerless"


@dataclass
class Header:
    """A header as read by :func:`load_header`."""

    state: str
    actual_bytes: int
    expected_bytes: Optional[int] = None
    version: int = 2
    message: Any = None
    header_bytes: int = 0
    # Version 1: position of each data field.
    scan: Optional[Scan] = None
    # Tensors with a null address count in the header's sizes but were not written.
    nulls_left_out: bool = False
    # The header gives size 0 for tensors whose size follows from dims and dtype.
    sizes_implied: bool = False
    # The size by the header, including those tensors.
    law_bytes: Optional[int] = None
    # The first bytes of the file.
    start: bytes = b""
    error: Optional[FormatError] = None
    dump_time: int = 0
    # What is made of the message, by the reader; headers that differ in their time alone share it.
    described: Optional[Dict[str, Any]] = None


def size_error(path: str, state: str, expected: int, actual: int) -> FormatError:
    """Return the error for a file that is shorter or longer than its header says."""
    if state == SHORT:
        return TruncatedFile(
            "the file is cut short: expected %d bytes, got %d" % (expected, actual),
            path,
            expected,
            actual,
        )
    message = (
        "the file is longer than its header says: expected %d bytes, got %d (written twice?)"
        % (expected, actual)
    )
    return FormatError(message, path, hint="compare another dump of this op")


def load_header(path: str) -> Header:
    """Read and check the header of ``path``; damage is reported in ``state`` and ``error``.

    Raises
    ------
    MissingPath, InputError
        The file cannot be opened or read.
    """
    descriptor, size = open_regular(path)
    try:
        start = read_at(descriptor, 0, min(size, START_BYTES), path)
        key, dump_time = _without_time(start, size)
        known = None if key is None else _known.get(key)
        if known is not None:
            return changed(known, start=start, dump_time=dump_time)
        header = _load_version_2(descriptor, start, size, path)
        header.start = start
        header.dump_time = 0 if header.message is None else header.message.dump_time
        if key is not None and header.state == COMPLETE and header.dump_time == dump_time:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            header.described = {}
            _known[key] = changed(header, start=b"")
        if header.state != COMPLETE:
            older = _load_version_1(descriptor, size, path)
            if older is not None and (
                header.state == HEADERLESS or older.state == COMPLETE and _sizes_agree(older)
            ):
                older.dump_time = 0 if older.message is None else older.message.dump_time
                return older
        # A header has MAX_HEADER_BYTES at most: the last four bytes of its length are 0, no text.
        if header.state == HEADERLESS or LENGTH_BYTES // 2 < size < LENGTH_BYTES:
            from ..kinds.wrong_kind_advice import not_a_dump

            advice = not_a_dump(path)
            if advice is not None:
                header.error = FormatError(
                    "not a dump file: %s" % advice.words, path, hint=advice.hint
                )
        return header
    finally:
        os.close(descriptor)


HeaderKey = Tuple[int, bytes, bytes]

# Headers by size of the file and all bytes but the time: an op's are the same in each step, and
# parsing one costs as much as comparing a tiny tensor. At most 4 KiB each.
_known: Dict[HeaderKey, Header] = {}
_MOST_KNOWN = 1024


def _without_time(start: bytes, size: int) -> Tuple[Optional[HeaderKey], int]:
    """Return all that a header tells but its time, and the time, where a header begins as devices
    write it: the version, then the time; (None, 0) for any other.
    """
    end = LENGTH_BYTES + int.from_bytes(start[:LENGTH_BYTES], "little")
    first = start[LENGTH_BYTES:end][:2]
    if end > len(start) or len(first) < 2 or first[0] != 0x0A or first[1] >= 0x80:
        return None, 0
    begin = behind = LENGTH_BYTES + 2 + first[1]
    dump_time = 0
    if start[begin : begin + 1] == b"\x10":
        behind, shift = begin + 1, 0
        while behind < end and shift < 63:
            dump_time |= (start[behind] & 0x7F) << shift
            behind, shift = behind + 1, shift + 7
            if start[behind - 1] < 0x80:
                break
        else:
            return None, 0
    return ((size, start[:begin], start[behind:end]), dump_time) if behind <= end else (None, 0)


def _load_version_2(descriptor: int, start: bytes, size: int, path: str) -> Header:
    if len(start) < LENGTH_BYTES:
        what = "the file is empty" if not start else "the file ends inside the header length"
        message = "%s: expected at least %d bytes, got %d" % (what, LENGTH_BYTES, len(start))
        return Header(
            SHORT, size, None, error=TruncatedFile(message, path, LENGTH_BYTES, len(start))
        )
    length = struct.unpack_from("<Q", start)[0]
    if not 0 < length <= MAX_HEADER_BYTES:
        message = (
            "not a dump file: the header length is %d bytes, expected 1 to %d; the file has %d"
            % (length, MAX_HEADER_BYTES, size)
        )
        return Header(HEADERLESS, size, error=FormatError(message, path))
    if LENGTH_BYTES + length > size:
        expected = LENGTH_BYTES + length
        message = "the file ends inside the header: expected at least %d bytes, got %d" % (
            expected,
            size,
        )
        return Header(SHORT, size, expected, error=TruncatedFile(message, path, expected, size))
    try:
        whole = LENGTH_BYTES + length <= len(start)
        message_read = (
            _parse_message(start[LENGTH_BYTES : LENGTH_BYTES + length], path)
            if whole
            else _parse(descriptor, length, path)
        )
    except FormatError as error:
        return Header(HEADERLESS, size, error=error)
    return _judge_size(path, size, length, message_read)


def _parse(descriptor: int, length: int, path: str) -> Any:
    """Parse the DumpData of ``length`` bytes that follows the length field."""
    if (
        length <= PLAIN_HEADER_BYTES
        or read_at(descriptor, LENGTH_BYTES, len(NANO_MAGIC), path) == NANO_MAGIC
    ):
        data = read_at(descriptor, LENGTH_BYTES, length, path)
        if len(data) < length:
            raise TruncatedFile(
                "the file ended while its header was read",
                path,
                LENGTH_BYTES + length,
                LENGTH_BYTES + len(data),
            )
    else:
        try:
            data = bytes(
                scan_dump_data(descriptor, LENGTH_BYTES, LENGTH_BYTES + length, path).header
            )
        except CutShort as cut:
            message = "the header is damaged: a field goes on to byte %d, the header ends at %d" % (
                cut.needed,
                LENGTH_BYTES + length,
            )
            raise FormatError(message, path) from None
        except FormatError as error:
            raise error if error.path else FormatError(error.message, path) from None
    return _parse_message(data, path)


def _parse_message(data: bytes, path: str) -> Any:
    if data.startswith(NANO_MAGIC):
        from .nano_header import read_nano_header

        try:
            return read_nano_header(data)
        except FormatError as error:
            raise FormatError(
                "a dump of a nano device, whose header is damaged: %s" % error.message, path
            ) from None
    # Imported here: a failing import is not the file's fault.
    messages = load_messages()
    try:
        message = messages.DumpData.FromString(data)
    except Exception as error:  # the pure Python implementation raises more than DecodeError
        raise FormatError(
            "the header of %d bytes is not a DumpData message (%s)"
            % (len(data), type(error).__name__),
            path,
        ) from None
    if not message.ListFields():
        raise FormatError(
            "the header of %d bytes has none of the fields of a dump file" % len(data), path
        )
    for kind, regions in regions_of(message):
        if len(regions) > MAX_REGIONS:
            raise FormatError("more than %d %ss" % (MAX_REGIONS, kind), path)
    return message


def regions_of(message: Any) -> Tuple[Tuple[str, Any], ...]:
    """Return the message's repeated fields in the order of the payload."""
    return (
        ("input", message.input),
        ("output", message.output),
        ("buffer", message.buffer),
        ("space", message.space),
    )


def _judge_size(path: str, size: int, length: int, message: Any) -> Header:
    payload = sum(region.size for _, regions in regions_of(message) for region in regions)
    expected = LENGTH_BYTES + length + payload
    header = Header(COMPLETE, size, expected, 2, message, length, law_bytes=expected)
    if size == expected:
        return header
    written = expected - sum(tensor.size for tensor in _null_tensors(message))
    if size == written != expected:
        header.nulls_left_out, header.expected_bytes = True, written
        return header
    implied = expected + sum(
        implied_bytes(tensor) for tensor in itertools.chain(message.input, message.output)
    )
    if implied > expected and size > expected:
        # The vendor's converter from npy writes 0 for every size.
        header.sizes_implied, expected = True, implied
        header.expected_bytes = header.law_bytes = implied
    if size != expected:
        header.state = SHORT if size < expected else LONG
        header.error = size_error(path, header.state, expected, size)
    return header


def implied_bytes(tensor: Any) -> int:
    """Return the size in bytes by dims and dtype if the header says 0; else 0."""
    element = BY_CODE.get(tensor.data_type)
    if tensor.size or element is None or len(tensor.shape.dim) > MAX_RANK:
        return 0
    count = 1
    for dim in tensor.shape.dim:
        count *= dim
    return (count * element.bits + 7) // 8


def _null_tensors(message: Any) -> List[Any]:
    """Return the tensors with a null address; none if no tensor has an address (older files)."""
    tensors = list(message.input) + list(message.output)
    if not any(tensor.address for tensor in tensors):
        return []
    return [tensor for tensor in tensors if not tensor.address]


def _load_version_1(descriptor: int, size: int, path: str) -> Optional[Header]:
    """Return the header of a version 1 file, complete or truncated; None if it is no such file."""
    scan = Scan()
    try:
        scan_dump_data(descriptor, 0, size, path, scan)
        message = _parse_message(bytes(scan.header), path)
    except CutShort as cut:
        # What ends inside its own records was not cut.
        if scan.top_records == 0 or cut.needed <= size:
            return None
        text = "the file (version 1) is cut short: expected at least %d bytes, got %d" % (
            cut.needed,
            size,
        )
        return Header(SHORT, size, cut.needed, 1, error=TruncatedFile(text, path, cut.needed, size))
    except FormatError:
        return None
    if not any(extent for extents in scan.extents.values() for extent in extents):
        return None
    return Header(COMPLETE, size, size, 1, message, size, scan)


def _sizes_agree(header: Header) -> bool:
    """Return whether every data field of a version 1 file has the size that the message gives."""
    if header.scan is None:
        return False
    return all(
        place_in_message(region.size, header.scan.extents[kind][index])[2] is None
        for kind, regions in regions_of(header.message)
        for index, region in enumerate(regions)
    )


def place_in_message(
    size: int, extent: Optional[Tuple[int, int]]
) -> Tuple[int, int, Optional[str]]:
    """Return offset, size and problem of a region of a version 1 file."""
    offset, length = extent if extent is not None else (0, 0)
    if size and length != size:
        return (
            offset,
            length,
            "its size is %d bytes by the header, its data field has %d" % (size, length),
        )
    return offset, length, None
