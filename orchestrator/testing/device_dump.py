"""One file that a device writes: where it lies, what it is called, which bytes it holds.

Source of the forms: the vendor's public documents and public device code on dump files (CANN 20.x
to 9.x).
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..base.errors import UsageError
from ..base.fast_dataclasses import dataclass
from ..base.naming import (
    MAPPING_FILE,
    DumpName,
    compose_dump_name,
    fits,
    hash_digits,
    sanitise_device,
)
from ..dumps.write import Part, TensorData, dump_parts
from ..tensors.tensor import WINDOW_BYTES

Bytes = Callable[[], Iterator[Part]]
GENERATIONS = ("task", "stream", "ffts+")

STATISTICS_HEADER = (
    "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,"
    "Count,Nan Count,Negative Inf Count,Positive Inf Count"
)
_OVERFLOW_BYTES = 2048


@dataclass(frozen=True)
class Place:
    """The folders of one combination of time, device, model and step.

    Attributes
    ----------
    time
        ``YYYYMMDDhhmmss``, or None where a device wrote no such folder.
    model, model_id, step
        None for a run of single ops: the files then lie in the device's folder.
    op
        Older runs of single ops have a folder named like the op below the device's.
    """

    time: Optional[str] = "20260102030405"
    device: int = 0
    model: Optional[str] = None
    model_id: int = 1
    step: int = 0
    op: Optional[str] = None

    def folder(self) -> str:
        """Return the folder, relative to dump_path; model and op are sanitised as on the device."""
        parts = [self.time] if self.time is not None else []
        parts.append(str(self.device))
        if self.model is not None:
            parts += [sanitise_device(self.model), str(self.model_id), str(self.step)]
        if self.op is not None:
            parts.append(sanitise_device(self.op))
        return os.path.join(*parts)


@dataclass(frozen=True)
class DeviceDump:
    """One file, not yet written.

    Attributes
    ----------
    folder
        Relative to dump_path.
    name
        The file name that the device composes; it may be longer than a file system allows.
    inputs, outputs
        The tensors of a dump file (:class:`goldwatch.dumps.write.TensorData` or arrays).
    buffers, spaces
        Raw bytes behind them.
    version
        2: length, header, payload. 1: one message with the bytes inside.
    op_name, dump_time, attrs
        As in the header.
    source
        Makes the whole file's bytes instead, in pieces; for files that are no containers, and for
        replays.
    """

    folder: str
    name: str
    inputs: Sequence[Any] = ()
    outputs: Sequence[Any] = ()
    buffers: Sequence[bytes] = ()
    spaces: Sequence[bytes] = ()
    version: int = 2
    op_name: str = ""
    dump_time: int = 0
    attrs: Sequence[Tuple[str, str]] = ()
    source: Optional[Bytes] = None

    def parts(self) -> Iterator[Part]:
        """Yield the file's bytes in pieces of at most 16 MiB (a header is one piece)."""
        if self.source is not None:
            return self.source()
        return dump_parts(
            self.inputs,
            self.outputs,
            self.buffers,
            self.spaces,
            self.version,
            self.op_name,
            self.dump_time,
            attrs=self.attrs,
        )

    def content(self) -> bytes:
        """Return all bytes of the file."""
        return b"".join(bytes(part) for part in self.parts())

    def file_name(self) -> str:
        """Return the name that the file gets: its own, or the decimal hash of one of more than 255
        bytes.
        """
        return self.name if fits(self.name) else hash_digits(self.name)

    def path(self) -> str:
        """Return the file's path relative to dump_path."""
        return os.path.join(self.folder, self.file_name())

    def only(self, mode: str) -> DeviceDump:
        """Return the dump as dump_mode ``input``, ``output`` or ``all`` makes it."""
        if mode == "input":
            return replace(self, outputs=())
        return replace(self, inputs=()) if mode == "output" else self

    def flipped(self, tensor: str, bits: Mapping[int, int]) -> DeviceDump:
        """Return the dump with other bits in one tensor, as a run has them that does not repeat.

        Parameters
        ----------
        tensor
            ``input:N`` or ``output:N``; its data are an array of a type of numpy.
        bits
            For numbers of elements, as they are stored, the bits to be changed: 1 is the lowest
            one.

        Raises
        ------
        UsageError
            There is no such tensor or element.
        """
        kind, given, number = self._tensor(tensor, "changed")
        entry = (
            given[number] if isinstance(given[number], TensorData) else TensorData(given[number])
        )
        if isinstance(entry.data, (bytes, bytearray, memoryview)):
            raise UsageError(
                "%s of %s is raw bytes: bits are changed in arrays" % (tensor, self.name)
            )
        data = np.array(entry.data)
        units = data.reshape(-1).view("u%d" % data.dtype.itemsize)
        if not all(0 <= element < units.size for element in bits):
            raise UsageError(
                "%s of %s has the elements 0 to %d" % (tensor, self.name, units.size - 1)
            )
        for element, mask in bits.items():
            units[element] ^= units.dtype.type(mask)
        given[number] = replace(entry, data=data)
        return replace(self, inputs=given) if kind == "input" else replace(self, outputs=given)

    def _tensor(self, tensor: str, what: str) -> Tuple[str, List[Any], int]:
        """Return kind, tensors of that kind, and number of ``input:N`` or ``output:N``; UsageError
        where there is none such.
        """
        kind, _, index = tensor.partition(":")
        given = list(self.inputs if kind == "input" else self.outputs)
        if (
            kind not in ("input", "output")
            or not index.isdigit()
            or int(index) >= len(given)
            or self.source
        ):
            raise UsageError(
                "%s has no tensor %s that could be %s" % (self.name, tensor, what),
                hint="for example output:0",
            )
        return kind, given, int(index)

    def without(self, tensor: str) -> DeviceDump:
        """Return the dump with the null address in one tensor: it counts in the header's sizes but
        is not written.

        Parameters
        ----------
        tensor
            ``input:N`` or ``output:N``.

        Raises
        ------
        UsageError
            There is no such tensor, or the file is not made of tensors.
        """
        kind, given, number = self._tensor(tensor, "left out")
        if self.version != 2:
            raise UsageError("%s is of version 1, whose sizes are those of its data" % self.name)
        given[number] = _unwritten(given[number])
        return replace(self, inputs=given) if kind == "input" else replace(self, outputs=given)


def _unwritten(entry: Any) -> TensorData:
    """Return the tensor with its sizes and without its bytes."""
    tensor = entry if isinstance(entry, TensorData) else TensorData(entry)
    data = tensor.data
    raw = isinstance(data, (bytes, bytearray, memoryview))
    shape = tensor.shape if raw or tensor.shape is not None else data.shape
    dtype = tensor.dtype if raw or tensor.dtype is not None else str(data.dtype)
    if raw and shape is None:
        raise UsageError("a tensor of raw bytes needs its shape before it can be left out")
    return replace(
        tensor,
        data=b"",
        dtype=dtype,
        shape=shape,
        size_bytes=len(data) if raw else data.nbytes,
        address=0,
    )


def dump_name(
    op_type: str,
    op_name: str,
    task_id: int,
    timestamp_us: int,
    generation: str = "stream",
    stream_id: int = 0,
    context_id: int = 0,
    thread_id: int = 0,
    device_id: Optional[int] = None,
    stats: bool = False,
) -> str:
    """Return the name of an op's file.

    Parameters
    ----------
    generation
        ``task``: ``type.name.task.timestamp`` (CANN up to about 5.0); ``stream``: with the stream
        id behind the task (since 5.1); ``ffts+``: also ``.4.{context_id}.{thread_id}`` and, unless
        None, ``.{device_id}``.
    stats
        The name of a statistics file: ``.csv`` behind it.

    Raises
    ------
    UsageError
        An unknown generation.
    """
    if generation not in GENERATIONS:
        raise UsageError(
            "generation %r of file names is not known" % generation,
            hint="one of " + ", ".join(GENERATIONS),
        )
    name = DumpName(op_type, op_name, task_id, timestamp_us, kind="stats" if stats else "dump")
    if generation != "task":
        name = replace(name, stream_id=stream_id)
    if generation == "ffts+":
        name = replace(
            name, task_type=4, context_id=context_id, thread_id=thread_id, device_id=device_id
        )
    return compose_dump_name(name)


def overflow_record(
    place: Place, task_id: int, timestamp_us: int, stream_id: Optional[int] = 0, data: bytes = b""
) -> DeviceDump:
    """Return the record that a device writes beside the dumps of an op that overflowed: a container
    with 2048 bytes in it.

    Parameters
    ----------
    task_id
        The record's own task, not the op's.
    data
        At most 2048 bytes; zeros follow.
    """
    name = compose_dump_name(DumpName("Opdebug", "Node_OpDebug", task_id, timestamp_us, stream_id))
    payload = TensorData(
        data[:_OVERFLOW_BYTES].ljust(_OVERFLOW_BYTES, b"\0"), "uint8", shape=(_OVERFLOW_BYTES,)
    )
    return DeviceDump(place.folder(), name, outputs=[payload], op_name="Node_OpDebug")


def statistics(
    folder: str, name: str, rows: Sequence[Sequence[Any]], header: str = STATISTICS_HEADER
) -> DeviceDump:
    """Return a statistics file (``dump_data`` ``stats``) with the given rows.

    Parameters
    ----------
    name
        Of :func:`dump_name` with ``stats``.
    header
        The vendor's thirteen columns by default.
    """
    lines = [header] + [",".join(str(cell) for cell in row) for row in rows]
    data = ("\n".join(lines) + "\n").encode("utf-8")
    return DeviceDump(folder, name, source=lambda: iter([data]))


def write_files(root: str, dumps: Iterable[DeviceDump]) -> List[str]:
    """Write whole files below ``root``, one after another, with mapping.csv where a name is too
    long; return their paths.

    :class:`goldwatch.testing.DumpServer` writes as a device does, in chunks.

    Raises
    ------
    FileExistsError
        A file is there already.
    """
    paths = []
    for dump in dumps:
        folder = os.path.join(root, dump.folder)
        path = os.path.join(root, dump.path())
        os.makedirs(folder, exist_ok=True)
        with open(path, "xb") as stream:
            stream.writelines(dump.parts())
        if dump.file_name() != dump.name:
            with open(
                os.path.join(folder, MAPPING_FILE), "a", encoding="utf-8", errors="surrogateescape"
            ) as lines:
                lines.write("%s,%s\n" % (dump.file_name(), dump.name))
        paths.append(path)
    return paths


def recorded(root: str) -> Iterator[DeviceDump]:
    """Yield the files of a tree that a device or a stand-in wrote, byte for byte, in the order of
    their timestamps.

    A file with a hash name keeps its original name, if the folder's mapping.csv tells it.

    Raises
    ------
    MissingPath
        ``root`` is no folder that can be listed.
    """
    from ..dumps.folder_listing import walk

    recordings: List[Tuple[int, str, str, str]] = []
    for listing in walk(root, "the recorded tree"):
        for entry in [*listing.dumps, *listing.overflow, *listing.stats]:
            name = (
                compose_dump_name(entry.name) if entry.hash_name else os.path.basename(entry.path)
            )
            recordings.append((entry.name.timestamp_us, listing.rel, name, entry.path))
    for _, folder, name, path in sorted(recordings):
        yield DeviceDump(folder, name, source=partial(_read, path))


def _read(path: str) -> Iterator[Part]:
    with open(path, "rb") as stream:
        yield from iter(lambda: stream.read(WINDOW_BYTES), b"")
