"""`GoldenWriter`: golden files with reserved names, written atomically, and their manifest."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Dict, Iterable, List, Optional, Tuple, Type

import numpy as np

from ..base.atomic_writing import (
    remove_leftovers,
    remove_quietly,
    require_own_file,
    write_atomically,
)
from ..base.errors import FormatError, InputError, UsageError
from ..base.manifest import FILE_MODE, MANIFEST_FILE, read_manifest, write_manifest
from ..base.naming import (
    MAPPING_FILE,
    TIMESTAMP_DIGITS,
    mapping_line,
    parse_golden_name,
    printable,
    read_mapping,
    sanitise_golden,
)
from .file_headers import container_header, npy_header
from .golden_folder import JOURNAL_FILE, golden_files, refuse_golden
from .golden_names import GoldenNames, Key
from .nonfinite import NOT_FINITE, count_not_finite
from .write_and_hash import HashingWriter

_OWN_HASH = re.compile(r"[0-9]{1,20}\.(?:npy|quant)\Z")


class GoldenWriter:
    """Writes ``{op}.{output_index}.{16-digit µs}.npy`` files and, when closed, manifest.json and
    mapping.csv.

    All names are checked by :meth:`reserve` before the model runs. An op whose sanitised name
    another op shares is parked: each of its files has a hash name, which mapping.csv lists as
    ``{op}-parked-{N}.{index}.{timestamp}.npy``, so that no reader takes it for either op. A name
    longer than 255 bytes has a hash name that mapping.csv resolves to the long one.

    Parameters
    ----------
    out
        The folder; made when missing.
    backend, backend_version
        What computes the tensors, such as ``onnxruntime`` and ``1.20.0``.
    source
        What they are computed from: hexadecimal SHA-256 sums by role.
    force
        Replace the golden files of an earlier run in ``out`` instead of refusing.
    suffix
        ``npy``, or ``quant`` for dump containers that tell a quantised net's tensors from a plain
        net's.
    provisional
        The manifest never says ``complete``: a parent process adds that once this one has ended
        well (it may yet crash).

    Raises
    ------
    GoldenExists
        ``out`` already holds golden files and ``force`` is not set.
    UsageError
        Another run is writing there.

    Attributes
    ----------
    names
        The files' names; see :class:`GoldenNames`.
    extra
        Further fields of the manifest, such as ``notes``.
    """

    def __init__(
        self,
        out: str,
        backend: str,
        backend_version: str,
        source: Dict[str, Any],
        force: bool = False,
        suffix: str = "npy",
        provisional: bool = False,
    ) -> None:
        self.out = os.path.abspath(out)
        self.backend = backend
        self.backend_version = backend_version
        self.source = source
        self.provisional = provisional
        self.tensors: List[Dict[str, Any]] = []
        self.skipped: List[Dict[str, str]] = []
        self.names = GoldenNames(suffix)
        self.extra: Dict[str, Any] = {}
        self._futures: List[Tuple[Dict[str, Any], Future[str]]] = []
        self._mapping: Dict[str, str] = {}
        self._last: Dict[Key, int] = {}
        self._count = 0
        self._n_parked = 0
        self._n_hashed = 0
        self._begun = ""
        self._closed = False
        self._made = _make_folder(self.out)
        refuse_golden(self.out, force)
        self._journal = _open_journal(self.out)
        try:
            self._base_us = max(int(time.time() * 1000000), self._clear() + 1)
        except BaseException:
            self._journal.close()
            raise
        self._files = HashingWriter(self.out)

    def reserve(self, names: Iterable[Tuple[Any, ...]]) -> None:
        """Reserve all names before the run.

        Parameters
        ----------
        names
            Every ``(original op name, output index)`` that will be written, or ``(original op name,
            output index, identity)`` where several ops have the same name (Caffe allows that): any
            text that tells them apart; such ops collide and are parked. May be called again with
            further names until the first write.

        Raises
        ------
        InputError
            A name is empty, or the same op and index is named twice (two tensors would be one
            file).
        """
        if self.tensors:
            raise ValueError("names must be reserved before the first tensor is written")
        self.names.reserve(names)

    @property
    def collisions(self) -> Dict[str, List[str]]:
        """``{sanitised name: original names}`` of the ops that are parked."""
        return self.names.collisions

    @property
    def too_long(self) -> List[Tuple[str, int]]:
        """Every ``(original name, output index)`` whose file name is over 255 bytes."""
        return self.names.too_long

    @property
    def counts(self) -> Dict[str, int]:
        """Files written, tensors skipped, and of the written ones those parked for a collision and
        those hashed for their length.
        """
        return {
            "written": len(self.tensors),
            "skipped": len(self.skipped),
            "parked": self._n_parked,
            "hashed": self._n_hashed,
        }

    def write(
        self,
        original_name: str,
        output_index: int,
        array: np.ndarray,
        timestamp: Optional[int] = None,
        identity: str = "",
        **extra: Any,
    ) -> str:
        """Write one tensor and return its file's name.

        Parameters
        ----------
        array
            Any numeric or bool array; written in C order. Its sum is taken later, so it must not
            change until :meth:`close`.
        timestamp
            Microseconds; by default the run's start plus a counter. Several dumps of one output
            keep their order: a timestamp that is not later than the one before becomes one more
            than that.
        identity
            As it was reserved.
        extra
            Further fields of the manifest entry, such as ``layer``, ``top`` and ``type``.

        Raises
        ------
        InputError
            The array holds objects or text.
        ValueError
            The name was not reserved, or the timestamp does not fit 16 digits.
        """
        owner = (original_name, identity)
        key = (owner, output_index)
        if key not in self.names:
            raise ValueError("%s:%d was not reserved" % (original_name, output_index))
        array = np.asarray(array, order="C")
        if array.dtype.kind not in "biufc":
            raise InputError(
                "%s:%d holds %s, not numbers"
                % (printable(original_name), output_index, array.dtype)
            )
        stamp = self._stamp(key, timestamp)
        chosen = self.names.file_name(owner, output_index, stamp, self._mapping)
        name = chosen.file
        self._journal.write(name + "\n")
        if chosen.hashed:
            # Add one line. Readers use whole lines only (naming.read_mapping), so a kill in the
            # middle loses nothing else.
            self._mapping[name] = chosen.listed
            with os.fdopen(
                _open_own(os.path.join(self.out, MAPPING_FILE), os.O_APPEND | os.O_WRONLY), "wb"
            ) as stream:
                stream.write(mapping_line(name, chosen.listed).encode("utf-8", "surrogateescape"))
        header = (
            npy_header(array)
            if self.names.suffix == "npy"
            else container_header(array, sanitise_golden(original_name), stamp)
        )
        body: Any = array.reshape(-1).view(np.uint8).data if array.size else b""
        entry: Dict[str, Any] = {
            "file": name,
            "op": sanitise_golden(original_name),
            "original_name": original_name,
            "output_index": output_index,
            "timestamp": stamp,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "sha256": "",
        }
        entry.update(extra)
        nan, infinite = count_not_finite(array)
        if nan or infinite:
            entry[NOT_FINITE] = {"nan": nan, "inf": infinite}
        self._begun = name
        self._futures.append((entry, self._files.write(name, header, body)))
        self.tensors.append(entry)
        self._n_parked += chosen.parked
        self._n_hashed += chosen.hashed and not chosen.parked
        return name

    def catch_up(self) -> None:
        """Wait until the arrays written so far are no longer needed."""
        self._files.catch_up()

    def skip(self, tensor: str, reason: str) -> None:
        """Record in the manifest that ``tensor`` is not saved, and why."""
        self.skipped.append({"tensor": tensor, "reason": reason})

    def close(self, complete: bool = True) -> Dict[str, Any]:
        """Write manifest.json and return the manifest.

        Parameters
        ----------
        complete
            False when the run was interrupted: the manifest then says so and lists what is usable.
        """
        self._settle()
        document: Dict[str, Any] = {
            "backend": self.backend,
            "backend_version": self.backend_version,
            "source": self.source,
            "complete": complete and not self.provisional,
            "tensors": self.tensors,
            "skipped": self.skipped,
        }
        document.update(self.extra)
        if self._closed:
            return document
        write_manifest(self.out, document)
        self._closed = True
        remove_quietly(os.path.join(self.out, JOURNAL_FILE))
        self._journal.close()
        return document

    def abandon(self) -> None:
        """End a run that wrote nothing: no manifest, and no trace in the folder."""
        if not self._closed:
            self._closed = True
            self._settle()
            remove_quietly(os.path.join(self.out, JOURNAL_FILE))
            self._journal.close()
            if self._made:
                with contextlib.suppress(OSError):
                    os.rmdir(self.out)

    def __enter__(self) -> GoldenWriter:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if (
            kind is not None
            and not issubclass(kind, Exception)
            and all(entry["file"] != self._begun for entry in self.tensors[-1:])
        ):
            # Ctrl-C came after the last file was renamed and before it was recorded.
            remove_quietly(os.path.join(self.out, self._begun))
        if kind is not None and not self.tensors:
            self.abandon()
        else:
            self.close(complete=kind is None)

    def _stamp(self, key: Key, timestamp: Optional[int]) -> int:
        if timestamp is None:
            stamp = self._base_us + self._count
            self._count += 1
        else:
            stamp = int(timestamp)
        stamp = max(stamp, self._last.get(key, -1) + 1)
        if stamp < 0 or len(str(stamp)) > TIMESTAMP_DIGITS:
            raise ValueError("timestamp %d does not fit %d digits" % (stamp, TIMESTAMP_DIGITS))
        self._last[key] = stamp
        return stamp

    def _write_mapping(self) -> None:
        lines = "".join(mapping_line(name, listed) for name, listed in self._mapping.items())
        write_atomically(
            os.path.join(self.out, MAPPING_FILE),
            lines.encode("utf-8", "surrogateescape"),
            FILE_MODE,
        )

    def _settle(self) -> None:
        self._files.close()
        for entry, future in self._futures:
            entry["sha256"] = future.result()
        self._futures = []

    def _clear(self) -> int:
        """Remove the files of an earlier run (temporary files; with force its golden files) and
        return the latest timestamp that remains.
        """
        doomed = set(self._journal.earlier)
        try:
            manifest = read_manifest(self.out)
        except FormatError:
            manifest = None
        if manifest is not None:
            doomed.update(
                str(entry.get("file")) for entry in manifest["tensors"] if isinstance(entry, dict)
            )
        mapping: Dict[str, str] = {}
        if os.path.exists(os.path.join(self.out, MAPPING_FILE)):
            mapping = read_mapping(os.path.join(self.out, MAPPING_FILE))
        remove_leftovers(self.out)
        for name in doomed.intersection(os.listdir(self.out)):
            if parse_golden_name(name) or _OWN_HASH.match(name):
                remove_quietly(os.path.join(self.out, name))
        if manifest is not None:
            remove_quietly(os.path.join(self.out, MANIFEST_FILE))
        staying = set(os.listdir(self.out))
        self._mapping = {
            name: listed
            for name, listed in mapping.items()
            if name in staying or name + "." + self.names.suffix in staying
        }
        if mapping and not self._mapping:
            remove_quietly(os.path.join(self.out, MAPPING_FILE))
        elif len(self._mapping) < len(mapping):
            self._write_mapping()
        stamps = [
            parsed.timestamp_us
            for parsed in map(parse_golden_name, golden_files(self.out))
            if parsed is not None
        ]
        return max([stamp for stamp in stamps if len(str(stamp)) <= TIMESTAMP_DIGITS] or [0])


class _Journal:
    """The list of files of an unfinished run; locked while the run lives, so that two runs never
    share a folder.
    """

    def __init__(self, path: str) -> None:
        descriptor = _open_own(path, os.O_RDWR)
        self._stream = os.fdopen(descriptor, "r+", encoding="utf-8", errors="surrogateescape")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._stream.close()
            raise
        except OSError:
            # A file system without locks: the refusal of non-empty folders must do.
            pass
        self.earlier = self._stream.read().split()

    def write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()


def _open_own(path: str, flags: int) -> int:
    """Return a descriptor of a file that is written in place, created if needed; links are never
    followed.
    """
    require_own_file(path)
    return os.open(
        path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, FILE_MODE
    )


def _open_journal(out: str) -> _Journal:
    try:
        return _Journal(os.path.join(out, JOURNAL_FILE))
    except BlockingIOError as error:
        message = "%s: another run is writing golden files there" % printable(out)
        raise UsageError(message, hint="wait for it, or choose another folder") from error


def _make_folder(out: str) -> bool:
    """Make the folder; tell whether it was missing."""
    if os.path.lexists(out) and not os.path.isdir(out):
        raise UsageError(
            "%s is not a folder" % printable(out),
            hint="give a folder, existing or new, for the golden files",
        )
    missing = not os.path.isdir(out)
    os.makedirs(out, exist_ok=True)
    return missing
