"""Writes files atomically, under another name at first, and computes their SHA-256 in the
background.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, List, Tuple

from ..base.atomic_writing import create_new, renamed_on_success
from ..base.manifest import FILE_MODE

PENDING_LIMIT_BYTES = 256 * 1024 * 1024
# Hashing so little takes less time than handing it to a thread: with one, 2,400 small files
# made 7,000 switches between threads, without it 1,900.
AT_ONCE_BYTES = 65536


class HashingWriter:
    """Writes files into one folder; a thread computes their hashes.

    Parameters
    ----------
    folder
        Where the files go.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._sums = ThreadPoolExecutor(max_workers=1)
        self._pending: List[Tuple[Future[str], int]] = []
        self._pending_bytes = 0

    def write(self, name: str, header: bytes, body: Any) -> Future[str]:
        """Write ``name`` from two buffers and return the future of its SHA-256; the buffers must
        not change before that is done.

        Raises
        ------
        OSError
            The file cannot be written, or one of that name is there.
        """
        path = os.path.join(self._folder, name)
        with renamed_on_success(path, new=True) as aside:
            descriptor = create_new(aside, FILE_MODE)
            try:
                _write_all(descriptor, header, body)
            finally:
                os.close(descriptor)
        return self._sum(header, body)

    def _sum(self, header: bytes, body: Any) -> Future[str]:
        size = len(header) + len(body)
        if size <= AT_ONCE_BYTES:
            done: Future[str] = Future()
            done.set_result(_sha256(header, body))
            return done
        while self._pending and self._pending_bytes + size > PENDING_LIMIT_BYTES:
            earlier, earlier_size = self._pending.pop(0)
            self._pending_bytes -= earlier_size
            earlier.result()
        future = self._sums.submit(_sha256, header, body)
        self._pending.append((future, size))
        self._pending_bytes += size
        return future

    def catch_up(self) -> None:
        """Wait for all hashes so far: the arrays written may then be freed."""
        for earlier, _ in self._pending:
            earlier.result()
        self._pending.clear()
        self._pending_bytes = 0

    def close(self) -> None:
        """Wait for the hashes."""
        self._sums.shutdown(wait=True)


def _sha256(header: bytes, body: Any) -> str:
    digest = hashlib.sha256(header)
    digest.update(body)
    return digest.hexdigest()


def _write_all(descriptor: int, header: bytes, body: Any) -> None:
    done = os.writev(descriptor, [header, body])
    whole = len(header) + len(body)
    while done < whole:
        rest = (
            memoryview(header)[done:]
            if done < len(header)
            else memoryview(body)[done - len(header) :]
        )
        done += os.write(descriptor, rest)
