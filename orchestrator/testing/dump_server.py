"""A dump server: brings dump files to the disk as a device's host process does.

Source: the public host code. One writer thread takes chunks of at most 128 MiB from one queue; for
each the file is opened in append mode, written and closed. There is no temporary name, no rename,
no fsync and no end marker. Chunks of one file keep their order; files of different ops and devices
interleave. Before a chunk is written the free space is looked at: with less than the chunk, or at
most 1 MiB, the chunk is dropped. When writing fails, the file is removed; the chunks that follow
make it again. A name of more than 255 bytes becomes a hash, and each of its chunks adds a line to
mapping.csv.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import field
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..base.atomic_writing import remove_quietly
from ..base.errors import UsageError
from ..base.fast_dataclasses import dataclass
from ..base.mounts import free_bytes
from ..base.naming import MAPPING_FILE
from .device_dump import DeviceDump
from .write_faults import Fault

CHUNK_BYTES = 128 * 1024 * 1024
RESERVE_BYTES = 1024 * 1024

_PACED_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Event:
    """What became of one chunk.

    Attributes
    ----------
    what
        ``written``, ``dropped`` (a fault), ``disk_full``, ``write_error``, ``refused`` (not opened)
        or ``stopped`` (cut in the middle).
    path
        Relative to the dump server's root.
    chunk
        Its number in the file, from 0 (a twin's go on counting).
    size_bytes
        The chunk's size.
    """

    what: str
    path: str
    chunk: int
    size_bytes: int


@dataclass
class Report:
    """What a dump server did.

    Attributes
    ----------
    events
        One per chunk, in the order of writing.
    files, bytes_written
        Files that were begun; bytes that reached the disk (mapping.csv not counted).
    finished
        False while it runs, and after a stop.
    """

    events: List[Event] = field(default_factory=list)
    files: int = 0
    bytes_written: int = 0
    finished: bool = False

    def counts(self) -> Dict[str, int]:
        """Return how many chunks had each fate."""
        return dict(Counter(event.what for event in self.events))


class _Active:
    """A file whose chunks are on their way."""

    def __init__(self, dump: DeviceDump, chunk_bytes: int, faults: List[Fault]) -> None:
        for fault in faults:
            if fault.kind == "null_address":
                dump = dump.without(fault.tensor)
        self.dump, self.path = dump, dump.path()
        self.faults = faults
        self.number = 0
        copies = 1 + sum(fault.kind == "twin" for fault in faults)
        self.chunks = (chunk for _ in range(copies) for chunk in cut(dump.parts(), chunk_bytes))

    def has(self, kind: str) -> bool:
        """Tell whether a fault of this kind hits the chunk that is due."""
        return any(
            fault.kind == kind
            and (fault.chunk == self.number or kind in ("refuse_open", "unreadable"))
            for fault in self.faults
        )


def cut(parts: Iterable[Any], chunk_bytes: int) -> Iterator[List[memoryview]]:
    """Yield a file's bytes as chunks of ``chunk_bytes`` (the last may be shorter), each a list of
    pieces; nothing is copied.
    """
    chunk: List[memoryview] = []
    room = chunk_bytes
    for part in parts:
        rest = memoryview(part)
        while len(rest):
            piece, rest = rest[:room], rest[room:]
            chunk.append(piece)
            room -= len(piece)
            if not room:
                yield chunk
                chunk, room = [], chunk_bytes
    if chunk:
        yield chunk


def _with_op_faults(device: Any, op_faults: Mapping[str, Any]) -> Iterable[DeviceDump]:
    if not hasattr(device, "with_op_faults"):
        raise UsageError(
            "faults of ops need a network that is computed here: these dumps are what they are",
            hint="goldwatch.testing.CaffeNetwork is one",
        )
    dumps: Iterable[DeviceDump] = device.with_op_faults(op_faults).model().dumps()
    return dumps


class DumpServer:
    """Writes dumps as a device does.

    Use :meth:`run` in the calling thread, or :meth:`start` and :meth:`join` (or a ``with`` block)
    for a thread of its own. For a program of its own see ``python -m goldwatch.testing serve
    --help``.

    Parameters
    ----------
    root
        dump_path; made when the first file comes.
    devices
        One iterable of :class:`DeviceDump` per device, each in the order in which the device sends
        them. They may be generators, or networks that the stand-in computes
        (:class:`goldwatch.testing.CaffeNetwork`).
    chunk_bytes
        Largest chunk (128 MiB on a device).
    seed
        Decides how files interleave; the same seed gives the same order of chunks.
    open_files
        How many files of one device may be on their way at once.
    bytes_per_s
        Average rate; None writes as fast as the disk takes it. A chunk is then written in pieces of
        at most 1 MiB, spread over time.
    delay_s
        A pause after every chunk.
    faults
        What goes wrong with the files.
    op_faults
        What ops of the networks compute wrong: op name to a text such as ``scale:1.05``
        (:data:`goldwatch.testing.op_faults.KINDS`); what stands behind is computed from that.
    late_mapping
        The lines of mapping.csv come after all files.
    free_bytes
        Tells the space left; None asks the file system. :func:`goldwatch.testing.quota` makes a
        small disk.
    file_mode, folder_mode
        Permissions of what it makes (the umask applies).
    on_event
        Called after every chunk, in the writer's thread.

    Attributes
    ----------
    report
        What was done so far.

    Raises
    ------
    UsageError
        A number that is not positive; ``op_faults`` for dumps that are not computed here, or that
        do not fit the network.
    """

    def __init__(
        self,
        root: str,
        *devices: Iterable[DeviceDump],
        chunk_bytes: int = CHUNK_BYTES,
        seed: int = 0,
        open_files: int = 2,
        bytes_per_s: Optional[float] = None,
        delay_s: float = 0.0,
        faults: Sequence[Fault] = (),
        op_faults: Optional[Mapping[str, Any]] = None,
        late_mapping: bool = False,
        free_bytes: Optional[Callable[[], int]] = None,
        file_mode: int = 0o640,
        folder_mode: int = 0o750,
        on_event: Optional[Callable[[Event], None]] = None,
    ) -> None:
        if (
            chunk_bytes < 1
            or open_files < 1
            or delay_s < 0
            or (bytes_per_s is not None and bytes_per_s <= 0)
        ):
            raise UsageError(
                "chunk_bytes, open_files and bytes_per_s must be positive, delay_s not negative"
            )
        self.root = root
        self.report = Report()
        self._devices = (
            tuple(_with_op_faults(device, op_faults) for device in devices)
            if op_faults
            else devices
        )
        self._chunk_bytes, self._open_files = chunk_bytes, open_files
        self._random = random.Random(seed)
        self._bytes_per_s, self._delay_s = bytes_per_s, delay_s
        self._faults = tuple(faults)
        self._late_mapping = late_mapping
        self._held_lines: List[Tuple[str, str]] = []
        self._free_bytes = free_bytes or self._disk_free
        self._file_mode, self._folder_mode = file_mode, folder_mode
        self._on_event = on_event
        self._stopping = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._error: Optional[BaseException] = None
        self._began = 0.0
        self._paced = 0

    def run(self) -> Report:
        """Write everything, in this thread, and return the report. What goes wrong with a file is
        an event, never an exception.
        """
        self._began = time.monotonic()
        queues = [iter(dumps) for dumps in self._devices]
        active: List[List[_Active]] = [[] for _ in queues]
        waiting: List[Optional[_Active]] = [None] * len(queues)
        while not self._stopping.is_set():
            for device, queue in enumerate(queues):
                self._admit(queue, active[device], waiting, device)
            choice = [(device, entry) for device, entries in enumerate(active) for entry in entries]
            if not choice:
                break
            device, entry = choice[self._random.randrange(len(choice))]
            chunk = next(entry.chunks, None)
            if chunk is None:
                active[device].remove(entry)
                continue
            self._write(entry, chunk)
            entry.number += 1
        for folder, line in [] if self._stopping.is_set() else self._held_lines:
            self._append_mapping(folder, line)
        self.report.finished = not self._stopping.is_set()
        return self.report

    def _admit(
        self,
        queue: Iterator[DeviceDump],
        active: List[_Active],
        waiting: List[Optional[_Active]],
        device: int,
    ) -> None:
        """Fill a device's set of files on their way; a second file of one name waits until the
        first is done.
        """
        while len(active) < self._open_files:
            entry = waiting[device]
            if entry is None:
                dump = next(queue, None)
                if dump is None:
                    return
                entry = _Active(
                    dump,
                    self._chunk_bytes,
                    [fault for fault in self._faults if fault.concerns(dump)],
                )
                self.report.files += 1
            waiting[device] = None
            if any(other.path == entry.path for other in active):
                waiting[device] = entry
                return
            active.append(entry)

    def _write(self, entry: _Active, chunk: List[memoryview]) -> None:
        size = sum(len(piece) for piece in chunk)
        what = self._put(entry, chunk, size)
        event = Event(what, entry.path, entry.number, size)
        self.report.events.append(event)
        if self._on_event is not None:
            self._on_event(event)
        if self._delay_s:
            self._stopping.wait(self._delay_s)

    def _put(self, entry: _Active, chunk: List[memoryview], size: int) -> str:
        if entry.has("drop_chunk"):
            return "dropped"
        free = self._free_bytes()
        if free <= RESERVE_BYTES or free < size:
            return "disk_full"
        folder = os.path.join(self.root, entry.dump.folder)
        path = os.path.join(self.root, entry.path)
        try:
            os.makedirs(folder, self._folder_mode, exist_ok=True)
            if entry.has("refuse_open"):
                return "refused"
            descriptor = os.open(path, os.O_APPEND | os.O_RDWR | os.O_CREAT, self._file_mode)
        except OSError:
            return "refused"
        try:
            if entry.has("unreadable"):
                os.fchmod(descriptor, 0)
            self._note_hash(entry, folder)
            complete = self._write_pieces(descriptor, chunk)
            if entry.has("write_error"):
                raise OSError("a fault of the disk")
        except OSError:
            remove_quietly(path)
            return "write_error"
        finally:
            os.close(descriptor)
        return "written" if complete else "stopped"

    def _write_pieces(self, descriptor: int, chunk: List[memoryview]) -> bool:
        """Write a chunk piece by piece at the wanted rate; False when stopped in between."""
        for piece in chunk:
            rest = piece
            while len(rest):
                if self._stopping.is_set():
                    return False
                done = os.write(descriptor, rest[:_PACED_BYTES] if self._bytes_per_s else rest)
                rest = rest[done:]
                self.report.bytes_written += done
                self._paced += done
                if self._bytes_per_s:
                    ahead = self._began + self._paced / self._bytes_per_s - time.monotonic()
                    if ahead > 0:
                        self._stopping.wait(ahead)
        return True

    def _note_hash(self, entry: _Active, folder: str) -> None:
        name = os.path.basename(entry.path)
        if name == entry.dump.name:
            return
        line = "%s,%s\n" % (name, entry.dump.name)
        if self._late_mapping:
            self._held_lines.append((folder, line))
        else:
            self._append_mapping(folder, line)

    def _append_mapping(self, folder: str, line: str) -> None:
        descriptor = os.open(
            os.path.join(folder, MAPPING_FILE),
            os.O_APPEND | os.O_WRONLY | os.O_CREAT,
            self._file_mode,
        )
        try:
            os.write(descriptor, line.encode("utf-8", "surrogateescape"))
        finally:
            os.close(descriptor)

    def _disk_free(self) -> int:
        free = free_bytes(self.root)
        return sys.maxsize if free is None else free

    def start(self) -> DumpServer:
        """Begin to write, in a thread."""
        if self._thread is not None:
            raise UsageError("this dump server was started already")
        self._thread = threading.Thread(target=self._run_in_thread, name="dump-server", daemon=True)
        self._thread.start()
        return self

    def _run_in_thread(self) -> None:
        try:
            self.run()
        except BaseException as error:  # given to join()
            self._error = error

    @property
    def running(self) -> bool:
        """Whether the thread still writes."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Stop between two writes, as a process that is killed: files stay as they are."""
        self._stopping.set()

    def join(self, timeout_s: Optional[float] = None) -> Report:
        """Wait for the end and return the report; an error of the thread is raised here.

        Raises
        ------
        TimeoutError
            It still writes after ``timeout_s``.
        """
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                raise TimeoutError("the dump server still writes after %s s" % timeout_s)
        if self._error is not None:
            raise self._error
        return self.report

    def __enter__(self) -> DumpServer:
        return self.start()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None:
            self.stop()
        self.join()
