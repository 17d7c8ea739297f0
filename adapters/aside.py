"""Files written aside and renamed, a few at a time: no reader ever sees half of one, and making them does not hold up the model."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, List, Optional, Tuple

from .manifest import FILE_MODE, TEMPORARY_PREFIX, remove_quietly

PENDING_LIMIT_BYTES = 256 * 1024 * 1024


class AsideFiles:
    """Writes files into one folder with a few threads.

    Making an empty file costs more than filling it (measured: 0.1 to 0.6 ms), so empty ones can be made ahead by :meth:`prepare`.

    Parameters
    ----------
    folder
        Where the files go.
    workers
        Number of threads.
    """

    def __init__(self, folder: str, workers: int) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(max_workers=workers)
        self._spares: List[str] = []
        self._lock = threading.Lock()
        self._count = 0
        self._pending: List[Tuple["Future[str]", int]] = []
        self._pending_bytes = 0
        self._stopped = False

    def prepare(self, count: int) -> None:
        """Begin to make ``count`` empty files; returns at once."""
        for _ in range(count):
            self._pool.submit(self._prepare_one)

    def _prepare_one(self) -> None:
        if self._stopped:
            return
        try:
            spare = self._make()
        except OSError:
            # Whoever writes next meets the same error and tells it.
            return
        with self._lock:
            self._spares.append(spare)

    def _make(self) -> str:
        with self._lock:
            self._count += 1
            number = self._count
        path = os.path.join(self._folder, "%s%d-%x.tmp" % (TEMPORARY_PREFIX, os.getpid(), number))
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE))
        return path

    def write(self, name: str, header: bytes, body: Any) -> "Future[str]":
        """Write ``name`` from two buffers, which must not change until it is done; the result is the SHA-256 of the file's bytes."""
        size = len(header) + len(body)
        while self._pending and self._pending_bytes + size > PENDING_LIMIT_BYTES:
            earlier, earlier_size = self._pending.pop(0)
            self._pending_bytes -= earlier_size
            earlier.exception()
        future = self._pool.submit(self._write_one, name, header, body)
        self._pending.append((future, size))
        self._pending_bytes += size
        return future

    def _write_one(self, name: str, header: bytes, body: Any) -> str:
        with self._lock:
            temporary: Optional[str] = self._spares.pop() if self._spares else None
        if temporary is None:
            temporary = self._make()
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                _write_all(descriptor, header, body)
            finally:
                os.close(descriptor)
            digest = hashlib.sha256(header)
            digest.update(body)
            path = os.path.join(self._folder, name)
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            os.rename(temporary, path)
        except BaseException:
            remove_quietly(temporary)
            raise
        return digest.hexdigest()

    def close(self) -> None:
        """Wait for what is being written and remove the spare files."""
        self._stopped = True
        self._pool.shutdown(wait=True)
        for spare in self._spares:
            remove_quietly(spare)
        self._spares = []


def _write_all(descriptor: int, header: bytes, body: Any) -> None:
    done = os.writev(descriptor, [header, body])
    whole = len(header) + len(body)
    while done < whole:
        rest = memoryview(header)[done:] if done < len(header) else memoryview(body)[done - len(header) :]
        done += os.write(descriptor, rest)
