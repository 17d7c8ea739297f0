"""Opens the dump of an op, and joins the slices of its tensors (FFTS+), each in its own dump file,
along the axes that were cut.

Source: the vendor's reader, which uses the header's first attribute; ``dim_range`` if that is
absent.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

import numpy as np

from ..base.element_types import element_count
from ..base.errors import GoldwatchError, NotComparable
from ..base.fast_dataclasses import dataclass
from ..tensors.dtypes import Array, nbytes
from ..tensors.tensor import ByteSource, Tensor
from .dump_file import DumpFile, TensorInfo
from .dump_header import COMPLETE, size_error
from .file_source import FileSource
from .folder_listing import DumpEntry

if TYPE_CHECKING:
    from .statistics_dump import StatisticsDump

_MOST_SLICES = 4096

_Part = TypeVar("_Part")

# Of one tensor in one slice: (lower, higher) along each axis.
Ranges = Tuple[Tuple[int, int], ...]


def by_number(
    parts: Sequence[_Part],
    numbers: Callable[[_Part], Tuple[Optional[int], Optional[int], Optional[int]]],
) -> Dict[int, _Part]:
    """Return the files of one op's slices keyed by the first kind of number that distinguishes them
    all, in order.

    Parameters
    ----------
    parts
        Sorted by context and thread, then time: the order that is used if no number distinguishes
        them.
    numbers
        Returns (N of ``_lxslice{N}``, thread, context) of a file; None for parts that its name
        lacks.
    """
    for which in range(3):
        numbered = {numbers(part)[which]: part for part in parts}
        if None not in numbered and len(numbered) == len(parts):
            return {
                key: numbered[key]
                for key in sorted(numbered, key=lambda key: key or 0)
                if key is not None
            }
    return dict(enumerate(parts))


def files_by_number(files: Iterable[DumpEntry]) -> Dict[int, DumpEntry]:
    """Return the files of one op's slices as :func:`by_number` does."""
    parts = sorted(
        files,
        key=lambda entry: (
            entry.name.context_id or 0,
            entry.name.thread_id or 0,
            entry.name.timestamp_us,
        ),
    )
    return by_number(parts, lambda entry: entry.name.slice_numbers)


@dataclass(frozen=True)
class Cut:
    """How an op was cut into slices.

    Attributes
    ----------
    slices
        Number of slices.
    inputs, outputs
        Ranges by slice and tensor; empty if unknown.
    input_pieces, output_pieces
        By tensor: into how many pieces each axis is cut; empty if unknown.
    """

    slices: int
    inputs: Tuple[Tuple[Ranges, ...], ...]
    outputs: Tuple[Tuple[Ranges, ...], ...]
    input_pieces: Tuple[Tuple[int, ...], ...] = ()
    output_pieces: Tuple[Tuple[int, ...], ...] = ()


def cut_of(dump: DumpFile) -> Optional[Cut]:
    """Return how the op was cut by a file's header; None if the header has no usable entry."""
    for _, text in dump.attrs[:1]:
        try:
            description = json.loads(text)
            count = int(description["slice_instance_num"])
            sides = [
                _ranges(description.get(side + "_tensor_slice") or ())
                for side in ("input", "output")
            ]
            pieces = [
                _pieces(description.get(side + "CutList") or ()) for side in ("input", "output")
            ]
            cut = Cut(count, sides[0], sides[1], pieces[0], pieces[1])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return cut if 0 < count <= _MOST_SLICES else None
    return None


def declared_slices(path: str) -> Optional[int]:
    """Return the number of slices of the op by a file's header, or None."""
    try:
        cut = cut_of(DumpFile.open(path, partial=True))
    except (GoldwatchError, OSError):
        return None
    return cut.slices if cut is not None else None


def _ranges(side: Any) -> Tuple[Tuple[Ranges, ...], ...]:
    return tuple(
        tuple(tuple((int(axis["lower"]),
        int(axis["higher"])) for axis in tensor) for tensor in slice_) for slice_ in side
    )  # fmt: skip


def _pieces(side: Any) -> Tuple[Tuple[int, ...], ...]:
    return tuple(tuple(int(number) for number in tensor) for tensor in side)


class JoinedDump:
    """The files of one op's slices, read as one dump file.

    Parameters
    ----------
    files
        By the number of the slice (thread, or N of ``_lxslice{N}``).

    Attributes
    ----------
    path, state, expected_bytes, actual_bytes, nulls_left_out
        As those of :class:`DumpFile`; of the first file that is damaged, else of the first.
    inputs, outputs
        The whole tensors; ``problem`` is why the slices of one cannot be joined.
    """

    def __init__(self, files: Dict[int, DumpFile]) -> None:
        self._files = dict(sorted(files.items()))
        first = next(
            (file for file in self._files.values() if file.state != COMPLETE),
            next(iter(self._files.values())),
        )
        self.path, self.state, self.nulls_left_out = first.path, first.state, first.nulls_left_out
        self.expected_bytes, self.actual_bytes = first.expected_bytes, first.actual_bytes
        self._cut = next(
            (cut for cut in map(cut_of, self._files.values()) if cut is not None), None
        )
        self._parts: Dict[Tuple[str, int], List[Tuple[Ranges, FileSource]]] = {}
        self.inputs = self._infos("input", [file.inputs for file in self._files.values()])
        self.outputs = self._infos("output", [file.outputs for file in self._files.values()])

    @property
    def slices(self) -> int:
        """Number of files."""
        return len(self._files)

    def _infos(self, kind: str, sides: Sequence[Tuple[TensorInfo, ...]]) -> Tuple[TensorInfo, ...]:
        return tuple(
            self._info(kind, index, [side[index] for side in sides if index < len(side)])
            for index in range(len(sides[0]))
        )

    def _info(self, kind: str, index: int, infos: Sequence[TensorInfo]) -> TensorInfo:
        first = infos[0]
        if len(self._files) == 1 and (self._cut is None or self._cut.slices == 1):
            return first
        try:
            ranges = self._places(kind, index, infos)
            shape = _require_whole(ranges)
            sources = [
                _source(file, info, place)
                for file, info, place in zip(self._files.values(), infos, ranges)
            ]
        except NotComparable as error:
            return replace(first, problem="its slices cannot be joined: %s" % error.message)
        self._parts[kind, index] = list(zip(ranges, sources))
        return replace(
            first, shape=shape, size_bytes=nbytes(first.dtype, element_count(shape)), problem=None
        )

    def _places(self, kind: str, index: int, infos: Sequence[TensorInfo]) -> List[Ranges]:
        """Return the ranges of each slice in the whole tensor."""
        if len(infos) < len(self._files):
            raise NotComparable("not every slice has %s %d" % (kind, index))
        if (
            len(
                {(info.dtype.name, info.format, info.sub_format, len(info.shape)) for info in infos}
            )
            > 1
        ):
            raise NotComparable("they differ in dtype or layout")
        if self._cut is None:
            return [_range_from_dim_range(info) for info in infos]
        missing = [number for number in range(self._cut.slices) if number not in self._files]
        if missing:
            shown = ", ".join(str(number) for number in missing[:8])
            raise NotComparable("of %d slices, %s is not there" % (self._cut.slices, shown))
        cut = self._cut
        ranges, pieces = (
            (cut.inputs, cut.input_pieces) if kind == "input" else (cut.outputs, cut.output_pieces)
        )
        if not ranges and index < len(pieces):
            return _consecutive_ranges(pieces[index], infos)
        try:
            return [ranges[number][index] for number in self._files]
        except IndexError:
            raise NotComparable("the header tells the cut of fewer slices or %ss" % kind) from None

    def info(self, kind: str, index: int) -> TensorInfo:
        """Return the description of one whole tensor."""
        return (self.inputs if kind == "input" else self.outputs)[index]

    def tensor(self, kind: str, index: int) -> Tensor:
        """Return one whole tensor; its bytes stay in the files.

        Raises
        ------
        NotComparable
            Its slices cannot be joined.
        TruncatedFile, FormatError
            A file is damaged.
        """
        if self.state != COMPLETE:
            raise size_error(self.path, self.state, self.expected_bytes, self.actual_bytes)
        info = self.info(kind, index)
        if info.problem is not None:
            raise NotComparable("%s %d: %s" % (kind, index, info.problem))
        parts = self._parts.get((kind, index))
        if parts is None:
            return next(iter(self._files.values())).tensor(kind, index)
        source = join(parts, info.shape, info.dtype.bits // 8)
        return Tensor(
            info.dtype, info.shape, info.format, source, info.sub_format, info.original_shape
        )


def _consecutive_ranges(pieces: Tuple[int, ...], infos: Sequence[TensorInfo]) -> List[Ranges]:
    """Return the ranges of each slice if only the number of pieces along each axis is known: they
    follow one another along the cut axis.
    """
    axes = [axis for axis, number in enumerate(pieces) if number != 1]
    alike = {
        tuple(size for axis, size in enumerate(info.shape) if axis not in axes) for info in infos
    }
    if (
        len(pieces) != len(infos[0].shape)
        or len(axes) > 1
        or len(alike) > 1
        or (axes and pieces[axes[0]] != len(infos))
    ):
        raise NotComparable(
            "the header tells a cut into %s pieces, which %d slices are not"
            % (list(pieces), len(infos))
        )
    at, ranges = 0, []
    for info in infos:
        low, at = at, at + (info.shape[axes[0]] if axes else 0)
        ranges.append(
            tuple((low, at) if axis in axes else (0, size) for axis, size in enumerate(info.shape))
        )
    return ranges


def _range_from_dim_range(info: TensorInfo) -> Ranges:
    """Return the ranges of a slice by its ``dim_range``, whose ends are inclusive or exclusive,
    whichever fits the slice's shape.
    """
    dim_range = info.dim_range
    if dim_range is None or len(dim_range) != len(info.shape):
        raise NotComparable("the header does not tell how the op was cut")
    if any(
        size not in (end - start, end - start + 1)
        for (start, end), size in zip(dim_range, info.shape)
    ):
        raise NotComparable(
            "dim_range %s does not fit the shape %s" % (list(dim_range), list(info.shape))
        )
    return tuple((start, start + size) for (start, _), size in zip(dim_range, info.shape))


def _source(file: DumpFile, info: TensorInfo, place: Ranges) -> FileSource:
    if len(place) != len(info.shape):
        raise NotComparable(
            "the cut has %d axes, %s %d has %d"
            % (len(place), info.kind, info.index, len(info.shape))
        )
    if info.dtype.bits % 8 or not info.dtype.bits:
        raise NotComparable("%s elements are no whole bytes" % info.dtype.name)
    shape = [high - low for low, high in place]
    needed = nbytes(info.dtype, element_count(shape)) if min(shape, default=1) >= 0 else -1
    if needed != info.size_bytes:
        raise NotComparable(
            "the slice %s of %s %d needs %d bytes, it has %d"
            % (shape, info.kind, info.index, needed, info.size_bytes)
        )
    return FileSource(file.path, info.file_offset, needed)


def _require_whole(places: Sequence[Ranges]) -> Tuple[int, ...]:
    """Return the whole tensor's shape; raises NotComparable if the slices leave a gap or are no
    grid.
    """
    if len({len(place) for place in places}) > 1:
        raise NotComparable("they differ in rank")
    shape = []
    for ranges in zip(*places):
        at = 0
        for low, high in sorted(set(ranges)):
            if low > at or low < 0 or high < low:
                raise NotComparable("they leave a gap at %d of an axis" % at)
            at = max(at, high)
        shape.append(at)
    cuts = [len(set(ranges)) for ranges in zip(*places)]
    if element_count(cuts) != len(set(places)):
        raise NotComparable(
            "they do not fill the tensor: %d of %d are there"
            % (len(set(places)), element_count(cuts))
        )
    return tuple(shape)


def join(
    parts: Sequence[Tuple[Ranges, ByteSource]], shape: Sequence[int], itemsize: int, axis: int = 0
) -> ByteSource:
    """Return the bytes of a whole tensor from parts that hold a range along each axis; overlaps are
    read from the first part.

    Parameters
    ----------
    parts
        A grid of ranges without gaps, each with its bytes in C order.
    axis
        The axes before this one are not cut in ``parts``.
    """
    while axis < len(shape) and len({place[axis] for place, _ in parts}) == 1:
        axis += 1
    if axis == len(shape):
        return parts[0][1]
    rows: Dict[Tuple[int, int], List[Tuple[Ranges, ByteSource]]] = {}
    for place, source in parts:
        rows.setdefault(place[axis], []).append((place, source))
    inner = element_count(shape[axis + 1 :]) * itemsize
    first = parts[0][0]
    outer = element_count([high - low for low, high in first[:axis]])
    pieces = [
        (span, join(members, shape, itemsize, axis + 1))
        for span, members in sorted(rows.items(), key=lambda item: item[0])
    ]
    return JoinedSource(outer, inner, pieces)


class JoinedSource:
    """Byte ranges side by side: a :class:`goldwatch.tensors.tensor.ByteSource`. Only the requested
    bytes are read.

    Parameters
    ----------
    outer
        Number of rows, each a concatenation of one run of bytes from every piece.
    inner
        Bytes of one index along the cut axis.
    pieces
        ((lower, higher) along that axis, the bytes of ``outer`` × (higher − lower) steps), sorted.
    """

    def __init__(
        self, outer: int, inner: int, pieces: Sequence[Tuple[Tuple[int, int], ByteSource]]
    ) -> None:
        self._outer = outer
        # (start, stop in a row; bytes to skip and bytes of a row in the piece's source; source),
        # without overlaps.
        self._pieces: List[Tuple[int, int, int, int, ByteSource]] = []
        at = 0
        for (low, high), source in pieces:
            if high > at:
                self._pieces.append(
                    (at * inner, high * inner, (at - low) * inner, (high - low) * inner, source)
                )
                at = high
        self._row = at * inner

    @property
    def nbytes(self) -> int:
        """Bytes that can be read."""
        return self._outer * self._row

    @property
    def sources(self) -> List[ByteSource]:
        """The bytes of each piece."""
        return [source for *_, source in self._pieces]

    def read(self, offset: int, nbytes: int) -> Array:
        """Return ``nbytes`` bytes at ``offset``; see
        :class:`goldwatch.tensors.tensor.ByteSource`."""
        end = offset + nbytes
        parts: List[Array] = []
        while offset < end:
            row, start = divmod(offset, self._row)
            rows = (end - offset) // self._row
            if start or not rows:
                stop = min(self._row, start + end - offset)
                parts += self._within(row, start, stop)
                offset += stop - start
            else:
                parts.append(self._rows(row, rows))
                offset += rows * self._row
        return (
            parts[0]
            if len(parts) == 1
            else np.concatenate(parts)
            if parts
            else np.empty(0, np.uint8)
        )

    def _within(self, row: int, start: int, stop: int) -> List[Array]:
        """Return a part of one row, piece by piece."""
        parts = []
        for low, high, skipped, row_bytes, source in self._pieces:
            first, last = max(start, low), min(stop, high)
            if first < last:
                parts.append(source.read(row * row_bytes + skipped + first - low, last - first))
        return parts

    def _rows(self, first: int, count: int) -> Array:
        whole = np.empty((count, self._row), np.uint8)
        for low, high, skipped, row_bytes, source in self._pieces:
            whole[:, low:high] = source.read(first * row_bytes, count * row_bytes).reshape(
                count, row_bytes
            )[:, skipped : skipped + high - low]
        return whole.reshape(-1)


if TYPE_CHECKING:
    AnyDump = Union[DumpFile, JoinedDump, StatisticsDump]


def open_dump(entry: DumpEntry, slices: Optional[Mapping[int, DumpEntry]]) -> AnyDump:
    """Open a dump file, or the files of an op's slices (by slice number) as one; raises as
    :meth:`DumpFile.open`.
    """
    if entry.name.kind == "stats":
        from .statistics_dump import StatisticsDump

        return StatisticsDump(entry.path)
    if slices is None:
        return DumpFile.open(entry.path, partial=True)
    return JoinedDump(
        {number: DumpFile.open(part.path, partial=True) for number, part in slices.items()}
    )


def is_overwritten(dump: AnyDump, info: TensorInfo) -> bool:
    """Return whether an input has the address of an output of the same op (an in-place op)."""
    return (
        info.kind == "input"
        and bool(info.address)
        and any(output.address == info.address for output in dump.outputs)
    )
