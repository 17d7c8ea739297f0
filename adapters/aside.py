"""Files written aside and renamed, so that no reader ever sees half of one; empty ones are made ahead, and sums are taken behind.

Measured: making an empty file takes 0.1 to 0.6 ms, more than filling a small one; the kernel needs five times as long to find memory
for a file's pages as to copy into pages that it has; SHA-256 takes about as long as both.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, List, Sequence, Tuple

from .manifest import FILE_MODE, TEMPORARY_PREFIX, remove_quietly

FILL_LIMIT_BYTES = 256 * 1024 * 1024
PENDING_LIMIT_BYTES = 256 * 1024 * 1024
_SPARES_LIMIT = 4096
_SUM_THREADS = 2
# Files are filled ahead only where that cannot be what fills the disk.
_FREE_FACTOR = 4
_ZEROS = bytes(1024 * 1024)


class AsideFiles:
    """Writes files into one folder; one thread makes empty ones (or fills them ahead), others take sums.

    Parameters
    ----------
    folder
        Where the files go.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._sums = ThreadPoolExecutor(max_workers=_SUM_THREADS)
        self._makers: List[threading.Thread] = []
        self._prepared = 0
        self._spares: List[str] = []
        self._filled: Dict[int, List[str]] = {}
        self._lock = threading.Lock()
        self._count = 0
        self._pending: List[Tuple[Future[str], int]] = []
        self._pending_bytes = 0
        self._stopped = False

    def prepare(self, count: int, sizes: Sequence[int] = ()) -> None:
        """Begin to make files until ``count`` have been made in all (bounded); returns at once.

        Parameters
        ----------
        sizes
            The bytes of some of the files to come: they are filled with zeros (bounded, and only on a disk with much more room), so that
            writing them later is a mere copy.
        """
        more = min(count, _SPARES_LIMIT) - self._prepared
        if more <= 0:
            return
        self._prepared += more
        if sum(sizes) * _FREE_FACTOR > _free_bytes(self._folder):
            sizes = ()
        maker = threading.Thread(target=self._make_spares, args=(more, list(sizes)[:more]), daemon=True)
        self._makers.append(maker)
        maker.start()

    def _make_spares(self, count: int, sizes: Sequence[int]) -> None:
        total = 0
        for number in range(count):
            if self._stopped:
                return
            try:
                spare = self._make()
            except OSError:
                # Whoever writes next meets the same error and tells it.
                return
            size = sizes[number] if number < len(sizes) else 0
            total += size
            filled = bool(size) and total <= FILL_LIMIT_BYTES and self._fill(spare, size)
            with self._lock:
                (self._filled.setdefault(size, []) if filled else self._spares).append(spare)

    def _fill(self, path: str, size: int) -> bool:
        """Fill a file with zeros; tell whether that was done (else it is empty again)."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            done = 0
            while done < size and not self._stopped:
                done += os.write(descriptor, memoryview(_ZEROS)[: size - done])
        except OSError:
            done = -1
        try:
            if done < size:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)
        return done >= size

    def _take(self, size: int) -> str:
        """Return a spare file: one filled to this very size, else an empty one."""
        with self._lock:
            same = self._filled.get(size)
            spare = same.pop() if same else self._spares.pop() if self._spares else ""
        return spare or self._make()

    def _make(self) -> str:
        with self._lock:
            self._count += 1
            number = self._count
        path = os.path.join(self._folder, "%s%d-%x.tmp" % (TEMPORARY_PREFIX, os.getpid(), number))
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE))
        return path

    def write(self, name: str, header: bytes, body: Any) -> Future[str]:
        """Write ``name`` from two buffers and return its coming SHA-256; the buffers must not change before that has come.

        Raises
        ------
        OSError
            The file cannot be written, or one of that name is there.
        """
        temporary = self._take(len(header) + len(body))
        path = os.path.join(self._folder, name)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                _write_all(descriptor, header, body)
            finally:
                os.close(descriptor)
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            os.rename(temporary, path)
        except BaseException as error:
            remove_quietly(temporary)
            if isinstance(error, OSError) and error.filename is None:
                # A write names no file.
                error.filename = path
            raise
        return self._sum(header, body)

    def _sum(self, header: bytes, body: Any) -> Future[str]:
        size = len(header) + len(body)
        while self._pending and self._pending_bytes + size > PENDING_LIMIT_BYTES:
            earlier, earlier_size = self._pending.pop(0)
            self._pending_bytes -= earlier_size
            earlier.result()
        future = self._sums.submit(_sha256, header, body)
        self._pending.append((future, size))
        self._pending_bytes += size
        return future

    def close(self) -> None:
        """Wait for the sums and remove the spare files."""
        self._stopped = True
        self._sums.shutdown(wait=True)
        for maker in self._makers:
            maker.join()
        for spare in self._spares + [path for paths in self._filled.values() for path in paths]:
            remove_quietly(spare)
        self._spares, self._filled = [], {}


def _free_bytes(folder: str) -> int:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


def _sha256(header: bytes, body: Any) -> str:
    digest = hashlib.sha256(header)
    digest.update(body)
    return digest.hexdigest()


def _write_all(descriptor: int, header: bytes, body: Any) -> None:
    done = os.writev(descriptor, [header, body])
    whole = len(header) + len(body)
    while done < whole:
        rest = memoryview(header)[done:] if done < len(header) else memoryview(body)[done - len(header) :]
        done += os.write(descriptor, rest)
