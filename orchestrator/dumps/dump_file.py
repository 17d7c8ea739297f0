"""One dump file: its header, and its tensors as windows of the file.

Version 2: ``u64 little-endian header length``, a DumpData message, then the payload: every input,
output, buffer and space, in this order, each as long as the message's ``size`` says. Version 1: the
whole file is one DumpData with the bytes inside its ``data`` fields.

How the version is detected: :mod:`goldwatch.dumps.dump_header`.

Source of the format: the vendor's public documents on dump files and the device software's
behaviour.
"""

from __future__ import annotations

import operator
from dataclasses import field
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from ..base.errors import NotThere, TypeNotComparable, UsageError
from ..base.fast_dataclasses import dataclass
from ..base.safe_reading import AnyPath, path_text
from ..tensors.dtypes import Array, DType, dtype_by_code, nbytes
from ..tensors.storage_layouts import split_format
from ..tensors.tensor import ByteSource, Tensor
from .dump_header import (
    COMPLETE,
    LENGTH_BYTES,
    MAX_RANK,
    Header,
    implied_bytes,
    load_header,
    place_in_message,
    regions_of,
    size_error,
)
from .file_source import source_of

if TYPE_CHECKING:
    from typing import SupportsIndex

MAX_ELEMENTS = 2**63 - 1
KINDS = ("input", "output", "buffer", "space")


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
        Why the tensor cannot be read although the file can; None if it can.
    dim_range
        Of an output that is a slice: (start, stop) along each dim of the whole tensor; None when
        absent.
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
    dim_range: Optional[Tuple[Tuple[int, int], ...]] = None


_FORM_OF_TENSOR = operator.attrgetter(
    "dtype.name",
    "format",
    "format_code",
    "sub_format",
    "shape",
    "original_shape",
    "size_bytes",
    "original_name",
    "original_index",
    "problem",
    "dim_range",
)


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
    """One dump file; the header is read at once, tensors on demand.

    Parameters
    ----------
    path
        The file.
    partial
        Also accept a file that is shorter or longer than its header says; see :attr:`state`. Its
        tensors cannot be read.

    Raises
    ------
    MissingPath
        The file does not exist, is not a regular file or cannot be read.
    TruncatedFile
        It ends inside the length, the header or the payload.
    FormatError
        It is not a dump file, or is longer than its header says.

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
        The file's size by its header, and its actual size.
    nulls_left_out
        The header lists tensors with a null address that were not written; ``expected_bytes`` does
        not count them.
    attrs
        Names and values of the header's attributes; empty for version 1 or an oversized header.
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
    nulls_left_out: bool = False
    attrs: Tuple[Tuple[str, str], ...] = ()
    _start: bytes = field(default=b"", repr=False, compare=False)

    def __init__(self, path: AnyPath, partial: bool = False) -> None:
        path = path_text(path, "a dump file")
        header = load_header(path)
        if header.error is not None and not (partial and header.message is not None):
            raise header.error
        # The class is frozen for its users.
        if header.described:
            self.__dict__.update(header.described)
        else:
            self.__dict__.update(_attributes(header))
            if header.described is not None:
                header.described.update(self.__dict__)
        self.__dict__.update(path=path, dump_time=header.dump_time, _start=header.start)

    @property
    def form(self) -> Tuple[Any, ...]:
        """All that the header tells of the tensors that is the same in all steps and on all
        devices; of their addresses only which inputs lie where an output does. Hashable.
        """
        addresses = {info.address for info in self.outputs if info.address}
        return (
            tuple(map(_FORM_OF_TENSOR, self.inputs)),
            tuple(map(_FORM_OF_TENSOR, self.outputs)),
            tuple([info.address in addresses for info in self.inputs]),
            self.nulls_left_out,
        )

    @classmethod
    def open(cls, path: str, partial: bool = False) -> DumpFile:
        """Return ``DumpFile(path, partial)``."""
        return cls(path, partial)

    def array(
        self, kind: str = "output", index: SupportsIndex = 0, original: bool = False
    ) -> Array:
        """Read one whole tensor as an array.

        Parameters
        ----------
        kind, index
            ``input`` or ``output``, and its number.
        original
            True: in the shape before the device's layout was applied, without padding; False: as
            stored on the device.

        Raises
        ------
        NotComparable
            There is no such tensor, it cannot be read, or the file lacks its original shape.
        UsageError
            ``kind`` or ``index`` is invalid.
        """
        tensor = self.tensor(kind, self.info(kind, index).index)
        from ..tensors.layout_conversion import original_array

        return original_array(tensor) if original else tensor.array()

    def info(self, kind: str, index: SupportsIndex) -> TensorInfo:
        """Return the header's entry for one tensor; NotComparable if there is none."""
        tensors = {"input": self.inputs, "output": self.outputs}.get(kind)
        if tensors is None:
            raise UsageError("a tensor's kind is input or output, got %r" % (kind,))
        try:
            number = operator.index(index)
        except TypeError:
            raise UsageError("a tensor's index is a whole number, got %r" % (index,)) from None
        if not 0 <= number < len(tensors):
            raise NotThere(
                "%s has no %s %d (%d %ss)" % (self.path, kind, number, len(tensors), kind)
            )
        return tensors[number]

    def tensor(self, kind: str, index: int) -> Tensor:
        """Return one tensor; its bytes stay in the file.

        Raises
        ------
        NotComparable
            There is no such tensor, or it cannot be read (:attr:`TensorInfo.problem`).
        TruncatedFile, FormatError
            The file was opened although its size is wrong.
        """
        made: Dict[Tuple[str, int], Tensor] = self.__dict__.setdefault("_tensors", {})
        if (kind, index) not in made:
            made[kind, index] = self._tensor(kind, index)
        return made[kind, index]

    def _tensor(self, kind: str, index: int) -> Tensor:
        info = self.info(kind, index)
        if info.problem is not None:
            fault = NotThere if info.dtype.decodable else TypeNotComparable
            raise fault(info.problem, path="%s %d of %s" % (kind, index, self.path))
        return Tensor(
            dtype=info.dtype,
            shape=info.shape,
            format=info.format,
            source=self.source(kind, index),
            sub_format=info.sub_format,
            original_shape=info.original_shape,
        )

    def source(self, kind: str, index: int) -> ByteSource:
        """Return the raw bytes of an input, output, buffer or space."""
        if self.state != COMPLETE:
            raise size_error(self.path, self.state, self.expected_bytes, self.actual_bytes)
        regions: Dict[str, Tuple[Any, ...]] = {
            "buffer": self.buffers,
            "space": self.spaces,
            "input": self.inputs,
            "output": self.outputs,
        }
        infos = regions.get(kind, ())
        if not 0 <= index < len(infos):
            raise NotThere("%s has no %s %d (%d %ss)" % (self.path, kind, index, len(infos), kind))
        return source_of(self.path, self._start, infos[index].file_offset, infos[index].size_bytes)


def _attributes(header: Header) -> Dict[str, Any]:
    """Return the attributes of a :class:`DumpFile` but for path and time: regions follow one
    another (version 2) or are where the data fields are (version 1).
    """
    message = header.message
    position = LENGTH_BYTES + header.header_bytes
    infos: Dict[str, List[Any]] = {kind: [] for kind in KINDS}
    for kind, regions in regions_of(message):
        for index, region in enumerate(regions):
            offset, size, problem = position, region.size, None
            if header.sizes_implied and kind in ("input", "output"):
                size = size or implied_bytes(region)
            if header.scan is not None:
                offset, size, problem = place_in_message(
                    region.size, header.scan.extents[kind][index]
                )
            elif header.nulls_left_out and kind in ("input", "output") and not region.address:
                size, problem = (
                    0,
                    "the device wrote no data for it (null address, %d bytes by the header)"
                    % region.size,
                )
            else:
                position += size
            if kind in ("input", "output"):
                infos[kind].append(_tensor_info(kind, index, region, offset, size, problem))
            else:
                code = region.buffer_type if kind == "buffer" else region.type
                infos[kind].append(RegionInfo(kind, index, code, size, offset, problem))
    return {
        "version": header.version,
        "header_version": message.version,
        "op_name": message.op_name,
        "header_bytes": header.header_bytes,
        "inputs": tuple(infos["input"]),
        "outputs": tuple(infos["output"]),
        "buffers": tuple(infos["buffer"]),
        "spaces": tuple(infos["space"]),
        "state": header.state,
        "expected_bytes": header.expected_bytes or 0,
        "actual_bytes": header.actual_bytes,
        "nulls_left_out": header.nulls_left_out,
        "attrs": tuple((attr.name, attr.value) for attr in message.attr),
    }


def _tensor_info(
    kind: str, index: int, region: Any, offset: int, size: int, problem: Optional[str]
) -> TensorInfo:
    dtype = dtype_by_code(region.data_type)
    layout, sub_format = split_format(region.format, region.sub_format)
    shape, shape_problem = _dims(region.shape.dim, "shape")
    original, _ = _dims(region.original_shape.dim, "original shape")
    problem = problem or shape_problem or _size_problem(dtype, shape, size)
    original_op = (
        region.original_op if kind == "output" and region.HasField("original_op") else None
    )
    return TensorInfo(
        kind=kind,
        index=index,
        dtype=dtype,
        format=layout,
        shape=shape,
        original_shape=original
        if region.HasField("original_shape") and region.original_shape.dim
        else None,
        sub_format=sub_format,
        address=region.address or None,
        size_bytes=size,
        file_offset=offset,
        format_code=region.format,
        original_name=original_op.name or None if original_op is not None else None,
        original_index=original_op.output_index if original_op is not None else None,
        problem=problem,
        dim_range=_dim_range(region) if kind == "output" else None,
    )


def _dim_range(region: Any) -> Optional[Tuple[Tuple[int, int], ...]]:
    return tuple((span.dim_start, span.dim_end) for span in region.dim_range[:MAX_RANK]) or None


def _dims(dims: Any, what: str) -> Tuple[Tuple[int, ...], Optional[str]]:
    if len(dims) > MAX_RANK:
        return (), "its %s has %d dims, at most %d can be read" % (what, len(dims), MAX_RANK)
    return tuple(dims), None


def _size_problem(dtype: DType, shape: Tuple[int, ...], size: int) -> Optional[str]:
    """Return how dims and element size contradict the tensor's bytes, or None."""
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
