"""The bytes of a file, read in windows.

Plain positioned reads, not a memory map: mapped pages would count as resident memory, and a file
that shrinks while it is mapped ends the process with SIGBUS instead of an error.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from typing import Any, Deque, Dict, Optional

import numpy as np

from ..base.errors import FormatError, InputError, TruncatedFile
from ..base.safe_reading import open_regular
from ..tensors.tensor import WINDOW_BYTES, ByteSource, HeldBytes

MAX_OPEN_FILES = 16

START_BYTES = 4096
"""Bytes read from the start of a file: enough for nearly every header, and for the whole of a small
file.
"""

_HELD_BYTES = 1024

_opened: Deque[Any] = deque()


def source_of(path: str, start: bytes, offset: int, nbytes: int) -> ByteSource:
    """Return a byte range of a file whose first bytes are ``start``; a range inside them needs no
    second open.
    """
    if nbytes <= _HELD_BYTES and offset + nbytes <= len(start):
        return HeldBytes(start[offset : offset + nbytes])
    return FileSource(path, offset, nbytes)


class FileSource:
    """A byte range of a file: a :class:`goldwatch.tensors.tensor.ByteSource`.

    The file is opened at the first read; at most :data:`MAX_OPEN_FILES` sources of a process hold
    an open file. Picklable: a copy opens the file itself.

    Parameters
    ----------
    path
        The file.
    offset, nbytes
        The range, in bytes from the file's start.
    """

    def __init__(self, path: str, offset: int, nbytes: int) -> None:
        self.path = path
        self.offset = offset
        self._nbytes = nbytes
        self._descriptor: Optional[int] = None
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes that can be read."""
        return self._nbytes

    def __repr__(self) -> str:
        return "FileSource(%r, %d, %d)" % (self.path, self.offset, self._nbytes)

    def __getstate__(self) -> Dict[str, Any]:
        return {"path": self.path, "offset": self.offset, "nbytes": self._nbytes}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__init__(state["path"], state["offset"], state["nbytes"])  # type: ignore[misc]

    def read(self, offset: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Return ``nbytes`` bytes at ``offset`` (within the range) as a new 1-D uint8 array.

        Raises
        ------
        FormatError
            The request leaves the range.
        TruncatedFile
            The file has become shorter than the range.
        InputError
            The file cannot be opened or read.
        """
        if offset < 0 or nbytes < 0 or offset + nbytes > self._nbytes:
            raise FormatError(
                "bytes %d to %d lie outside the tensor's %d bytes"
                % (offset, offset + nbytes, self._nbytes),
                self.path,
            )
        data: np.ndarray[Any, Any] = np.empty(nbytes, np.uint8)
        with self._lock:
            opened = self._descriptor is None
            if self._descriptor is None:
                self._descriptor = open_regular(self.path)[0]
            self._fill(self._descriptor, data, self.offset + offset)
        # Outside of the lock: it closes other files, each under its own, and two threads that did
        # so would wait for each other.
        if opened:
            _limit_open_files(self)
        return data

    def _fill(self, descriptor: int, data: Any, start: int) -> None:
        done = 0
        while done < data.size:
            try:
                got = os.preadv(descriptor, [data[done : done + WINDOW_BYTES]], start + done)
            except OSError as error:
                raise InputError(
                    "%s: byte %d cannot be read: %s" % (self.path, start + done, error.strerror)
                ) from None
            if got == 0:
                expected, actual = self.offset + self._nbytes, start + done
                message = "the file ends at byte %d inside a tensor, expected at least %d bytes" % (
                    actual,
                    expected,
                )
                raise TruncatedFile(message, self.path, expected, actual)
            done += got

    def drop(self, offset: int, nbytes: int) -> None:
        """Ask the system to drop bytes that were read from the page cache."""
        with self._lock, contextlib.suppress(AttributeError, OSError):
            if self._descriptor is not None:
                os.posix_fadvise(
                    self._descriptor, self.offset + offset, nbytes, os.POSIX_FADV_DONTNEED
                )

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)


def _limit_open_files(source: FileSource) -> None:
    """Register a source with an open file and close the files opened longest ago. Deque operations
    are atomic.
    """
    _opened.append(weakref.ref(source))
    while len(_opened) > MAX_OPEN_FILES:
        try:
            oldest = _opened.popleft()()
        except IndexError:
            return
        if oldest is not None and oldest is not source:
            oldest.close()
