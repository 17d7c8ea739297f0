"""One dump file: its header, and its tensors as windows of the file.

Version 2: ``u64 little-endian header length``, a DumpData message, then the payload: every input, output, buffer and space, in this order,
each as long as the message's ``size`` says. Version 1: the whole file is one DumpData with the bytes inside its ``data`` fields.

Which version a file has: if the first eight bytes are a length that fits into the file, those bytes are a DumpData and the size law
(file size = 8 + header + sum of all sizes) holds, it is version 2. Otherwise, if the whole file is one DumpData whose data fields
have the sizes that it says, it is version 1. Otherwise it is a damaged file of the version whose header could be read.

Source of the format: the vendor's public documents on dump files and the device software's behaviour.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from ..errors import FormatError, NotComparable, TruncatedFile
from ..proto import load_messages
from ..tensors.dtypes import DType, dtype_by_code, nbytes
from ..tensors.formats import split_format
from ..tensors.tensor import Tensor
from .source import FileSource, open_regular, read_at
from .wire import MAX_HEADER_BYTES, MAX_REGIONS, CutShort, Scan, scan_dump_data

LENGTH_BYTES = 8
# Up to here a header is parsed as it stands; a bigger one is thinned out first.
PLAIN_HEADER_BYTES = 65536
MAX_RANK = 32
MAX_ELEMENTS = 2**63 - 1
KINDS = ("input", "output", "buffer", "space")

COMPLETE, SHORT, LONG, HEADERLESS = "complete", "short", "long", "headerless"


@dataclass(frozen=True)
class TensorInfo:
    """What the header says about one input or output.

    Attributes
    ----------
    kind, index
        ``input`` or ``output``, and its number.
    shape
        As stored, in ``format``; empty for a scalar.
    original_shape
        Before the device's layout was applied; None when absent.
    address
        Device address; None when absent.
    size_bytes, file_offset
        The tensor's bytes in the file.
    format_code
        The number that the header gives for the format.
    original_name, original_index
        Op and output of the original model, where the header names them.
    problem
        Why the tensor cannot be read although the file can; None when it can.
    """

    kind: str
    index: int
    dtype: DType
    format: str
    shape: Tuple[int, ...]
    original_shape: Optional[Tuple[int, ...]]
    sub_format: int
    address: Optional[int]
    size_bytes: int
    file_offset: int
    format_code: int = 0
    original_name: Optional[str] = None
    original_index: Optional[int] = None
    problem: Optional[str] = None


@dataclass(frozen=True)
class RegionInfo:
    """A buffer or workspace: raw bytes of the file."""

    kind: str
    index: int
    type_code: int
    size_bytes: int
    file_offset: int
    problem: Optional[str] = None


@dataclass(frozen=True)
class DumpFile:
    """One dump file whose header has been read.

    Attributes
    ----------
    version
        2, or 1 for the older kind with the data inside the message.
    header_version
        The header's own version text, such as ``2.0``.
    op_name
        As in the header; often empty.
    dump_time
        As in the header, 0 when absent.
    header_bytes
        Length of the serialised message (version 1: the file's size).
    state
        ``complete``; with ``open(partial=True)`` also ``short`` or ``long``.
    expected_bytes, actual_bytes
        The file's size by its header, and as it is.
    """

    path: str
    version: int
    header_version: str
    op_name: str
    dump_time: int
    header_bytes: int
    inputs: Tuple[TensorInfo, ...]
    outputs: Tuple[TensorInfo, ...]
    buffers: Tuple[RegionInfo, ...]
    spaces: Tuple[RegionInfo, ...]
    state: str
    expected_bytes: int
    actual_bytes: int

    @classmethod
    def open(cls, path: str, partial: bool = False) -> DumpFile:
        """Read the header of ``path``.

        Parameters
        ----------
        partial
            Also accept a file that is shorter or longer than its header says; see :attr:`state`. Its tensors cannot be read.

        Raises
        ------
        MissingPath
            The file does not exist, is not a regular file or cannot be read.
        TruncatedFile
            It ends inside the length, the header or the payload.
        FormatError
            It is not a dump file, or is longer than its header says.
        """
        found = load_header(path)
        if found.error is not None and not (partial and found.message is not None):
            raise found.error
        return _build(path, found)

    def info(self, kind: str, index: int) -> TensorInfo:
        """Return what the header says about one tensor; NotComparable when there is no such one."""
        tensors = {"input": self.inputs, "output": self.outputs}.get(kind, ())
        if not 0 <= index < len(tensors):
            raise NotComparable("%s has no %s %d (%d %ss)" % (self.path, kind, index, len(tensors), kind))
        return tensors[index]

    def tensor(self, kind: str, index: int) -> Tensor:
        """Return one tensor; its bytes stay in the file.

        Raises
        ------
        NotComparable
            There is no such tensor, or it cannot be read (:attr:`TensorInfo.problem`).
        TruncatedFile, FormatError
            The file was opened although its size is wrong.
        """
        info = self.info(kind, index)
        if info.problem is not None:
            raise NotComparable("%s %d of %s: %s" % (kind, index, self.path, info.problem))
        return Tensor(
            dtype=info.dtype,
            shape=info.shape,
            format=info.format,
            source=self.source(kind, index),
            sub_format=info.sub_format,
            original_shape=info.original_shape,
        )

    def source(self, kind: str, index: int) -> FileSource:
        """Return the raw bytes of an input, output, buffer or space."""
        if self.state != COMPLETE:
            raise size_error(self.path, self.state, self.expected_bytes, self.actual_bytes)
        regions: Dict[str, Tuple[Any, ...]] = {"buffer": self.buffers, "space": self.spaces, "input": self.inputs, "output": self.outputs}
        found = regions.get(kind, ())
        if not 0 <= index < len(found):
            raise NotComparable("%s has no %s %d (%d %ss)" % (self.path, kind, index, len(found), kind))
        return FileSource(self.path, found[index].file_offset, found[index].size_bytes)


@dataclass
class Header:
    """A header as read from a file, before tensors are made of it; see :func:`load_header`."""

    state: str
    actual_bytes: int
    expected_bytes: Optional[int] = None
    version: int = 2
    message: Any = None
    header_bytes: int = 0
    # Version 1: where each data field lies.
    scan: Optional[Scan] = None
    # Tensors with a null address count in the header's sizes but were not written.
    nulls_left_out: bool = False
    error: Optional[FormatError] = None


def size_error(path: str, state: str, expected: int, actual: int) -> FormatError:
    """Return the error for a file that is shorter or longer than its header says."""
    if state == SHORT:
        return TruncatedFile("the file is cut short: expected %d bytes, got %d" % (expected, actual), path, expected, actual)
    message = "the file is longer than its header says: expected %d bytes, got %d (written twice?)" % (expected, actual)
    return FormatError(message, path, hint="compare another dump of this op")


def load_header(path: str) -> Header:
    """Read and judge the header of ``path``; a damaged file is told by ``state`` and ``error``.

    Raises
    ------
    MissingPath, InputError
        The file cannot be opened or read.
    """
    descriptor, size = open_regular(path)
    try:
        found = _load_version_2(descriptor, size, path)
        if found.state != COMPLETE:
            older = _load_version_1(descriptor, size, path)
            if older is not None and (found.state == HEADERLESS or older.state == COMPLETE and _sizes_agree(older)):
                return older
        return found
    finally:
        os.close(descriptor)


def _load_version_2(descriptor: int, size: int, path: str) -> Header:
    start = read_at(descriptor, 0, LENGTH_BYTES, path)
    if len(start) < LENGTH_BYTES:
        what = "the file is empty" if not start else "the file ends inside the header length"
        message = "%s: expected at least %d bytes, got %d" % (what, LENGTH_BYTES, len(start))
        return Header(SHORT, size, None, error=TruncatedFile(message, path, LENGTH_BYTES, len(start)))
    length = struct.unpack("<Q", start)[0]
    if not 0 < length <= MAX_HEADER_BYTES:
        message = "not a dump file: the header length is %d bytes, expected 1 to %d; the file has %d" % (length, MAX_HEADER_BYTES, size)
        return Header(HEADERLESS, size, error=FormatError(message, path))
    if LENGTH_BYTES + length > size:
        expected = LENGTH_BYTES + length
        message = "the file ends inside the header: expected at least %d bytes, got %d" % (expected, size)
        return Header(SHORT, size, expected, error=TruncatedFile(message, path, expected, size))
    try:
        message_read = _parse(descriptor, length, path)
    except FormatError as error:
        return Header(HEADERLESS, size, error=error)
    return _judge_size(path, size, length, message_read)


def _parse(descriptor: int, length: int, path: str) -> Any:
    """Return the DumpData of ``length`` bytes behind the length."""
    if length <= PLAIN_HEADER_BYTES:
        data = read_at(descriptor, LENGTH_BYTES, length, path)
        if len(data) < length:
            raise TruncatedFile("the file ended while its header was read", path, LENGTH_BYTES + length, LENGTH_BYTES + len(data))
    else:
        try:
            data = bytes(scan_dump_data(descriptor, LENGTH_BYTES, LENGTH_BYTES + length, path).header)
        except CutShort as cut:
            message = "the header is damaged: a field goes on to byte %d, the header ends at %d" % (cut.needed, LENGTH_BYTES + length)
            raise FormatError(message, path) from None
    return _parse_message(data, path)


def _parse_message(data: bytes, path: str) -> Any:
    try:
        message = load_messages().DumpData.FromString(data)
    except Exception as error:  # the pure Python implementation raises more than DecodeError
        raise FormatError("the header of %d bytes is not a DumpData message (%s)" % (len(data), type(error).__name__), path) from None
    if not message.ListFields():
        raise FormatError("the header of %d bytes has none of the fields of a dump file" % len(data), path)
    for kind, regions in _regions(message):
        if len(regions) > MAX_REGIONS:
            raise FormatError("more than %d %ss" % (MAX_REGIONS, kind), path)
    return message


def _regions(message: Any) -> Tuple[Tuple[str, Any], ...]:
    """Return the message's repeated fields in the order of the payload."""
    return (("input", message.input), ("output", message.output), ("buffer", message.buffer), ("space", message.space))


def _judge_size(path: str, size: int, length: int, message: Any) -> Header:
    """Apply the size law."""
    payload = sum(region.size for _, regions in _regions(message) for region in regions)
    expected = LENGTH_BYTES + length + payload
    found = Header(COMPLETE, size, expected, 2, message, length)
    if size == expected:
        return found
    written = expected - sum(tensor.size for tensor in _null_tensors(message))
    if size == written != expected:
        found.nulls_left_out, found.expected_bytes = True, written
        return found
    found.state = SHORT if size < expected else LONG
    found.error = size_error(path, found.state, expected, size)
    return found


def _null_tensors(message: Any) -> List[Any]:
    """Return the tensors with a null address, none when no tensor has an address (older files do not tell it)."""
    tensors = list(message.input) + list(message.output)
    if not any(tensor.address for tensor in tensors):
        return []
    return [tensor for tensor in tensors if not tensor.address]


def _load_version_1(descriptor: int, size: int, path: str) -> Optional[Header]:
    """Return the header of a version 1 file, complete or cut short; None when it is no such file."""
    try:
        scan = scan_dump_data(descriptor, 0, size, path)
        message = _parse_message(bytes(scan.header), path)
    except CutShort as cut:
        if cut.records == 0:
            return None
        text = "the file (version 1) is cut short: expected at least %d bytes, got %d" % (cut.needed, size)
        return Header(SHORT, size, cut.needed, 1, error=TruncatedFile(text, path, cut.needed, size))
    except FormatError:
        return None
    if not any(extent for extents in scan.extents.values() for extent in extents):
        return None
    return Header(COMPLETE, size, size, 1, message, size, scan)


def _sizes_agree(found: Header) -> bool:
    """Tell whether every data field of a version 1 file has the size that the message gives."""
    if found.scan is None:
        return False
    return all(
        _inside_message(region.size, found.scan.extents[kind][index])[2] is None
        for kind, regions in _regions(found.message)
        for index, region in enumerate(regions)
    )


def _build(path: str, found: Header) -> DumpFile:
    """Turn a header into a :class:`DumpFile`: lay the regions out one behind the other (version 2) or take the data fields' places."""
    message = found.message
    position = LENGTH_BYTES + found.header_bytes
    infos: Dict[str, List[Any]] = {kind: [] for kind in KINDS}
    for kind, regions in _regions(message):
        for index, region in enumerate(regions):
            offset, size, problem = position, region.size, None
            if found.scan is not None:
                offset, size, problem = _inside_message(region.size, found.scan.extents[kind][index])
            elif found.nulls_left_out and kind in ("input", "output") and not region.address:
                size, problem = 0, "the device wrote no data for it (null address, %d bytes by the header)" % region.size
            else:
                position += size
            if kind in ("input", "output"):
                infos[kind].append(_tensor_info(kind, index, region, offset, size, problem))
            else:
                code = region.buffer_type if kind == "buffer" else region.type
                infos[kind].append(RegionInfo(kind, index, code, size, offset, problem))
    return DumpFile(
        path=path,
        version=found.version,
        header_version=message.version,
        op_name=message.op_name,
        dump_time=message.dump_time,
        header_bytes=found.header_bytes,
        inputs=tuple(infos["input"]),
        outputs=tuple(infos["output"]),
        buffers=tuple(infos["buffer"]),
        spaces=tuple(infos["space"]),
        state=found.state,
        expected_bytes=found.expected_bytes or 0,
        actual_bytes=found.actual_bytes,
    )


def _inside_message(size: int, extent: Optional[Tuple[int, int]]) -> Tuple[int, int, Optional[str]]:
    """Return offset, size and problem of a region of a version 1 file."""
    offset, length = extent if extent is not None else (0, 0)
    if size and length != size:
        return offset, length, "its size is %d bytes by the header, its data field has %d" % (size, length)
    return offset, length, None


def _tensor_info(kind: str, index: int, region: Any, offset: int, size: int, problem: Optional[str]) -> TensorInfo:
    dtype = dtype_by_code(region.data_type)
    layout, sub_format = split_format(region.format, region.sub_format)
    shape, shape_problem = _dims(region.shape.dim, "shape")
    original, _ = _dims(region.original_shape.dim, "original shape")
    problem = problem or shape_problem or _size_problem(dtype, shape, size)
    original_op = region.original_op if kind == "output" and region.HasField("original_op") else None
    return TensorInfo(
        kind=kind,
        index=index,
        dtype=dtype,
        format=layout,
        shape=shape,
        original_shape=original if region.HasField("original_shape") and region.original_shape.dim else None,
        sub_format=sub_format,
        address=region.address or None,
        size_bytes=size,
        file_offset=offset,
        format_code=region.format,
        original_name=original_op.name or None if original_op is not None else None,
        original_index=original_op.output_index if original_op is not None else None,
        problem=problem,
    )


def _dims(dims: Any, what: str) -> Tuple[Tuple[int, ...], Optional[str]]:
    if len(dims) > MAX_RANK:
        return (), "its %s has %d dims, at most %d can be read" % (what, len(dims), MAX_RANK)
    return tuple(dims), None


def _size_problem(dtype: DType, shape: Tuple[int, ...], size: int) -> Optional[str]:
    """Tell when dims and element size disagree with the tensor's bytes; Python's integers do not overflow."""
    count = 1
    for dim in shape:
        count *= dim
    if count > MAX_ELEMENTS:
        return "the product of its dims %s overflows, it has %d bytes" % (list(shape), size)
    if dtype.bits == 0:
        return None
    needed = nbytes(dtype, count)
    if needed != size:
        return "%s%s needs %d bytes, the header says %d" % (dtype.name, list(shape), needed, size)
    return None
