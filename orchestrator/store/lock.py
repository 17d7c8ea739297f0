"""One writer for one OUT: a lock that ends with the process that holds it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
import weakref
from typing import Any, List, Optional

from ..base.atomic_writing import require_own_file
from ..base.errors import EnvironmentProblem
from ..base.notes import Note, note

LOCK_FILE = "run.lock"

_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_PATIENCE_S = 0.5
_held: weakref.WeakSet[Any] = weakref.WeakSet()


class OutLock:
    """The lock on OUT/run.lock (``flock``), which names its holder's pid and host.

    The file stays when the lock is given back: only the kernel's lock counts, so a file that a
    killed process left is no obstacle.

    Parameters
    ----------
    out
        The folder; it exists.

    Attributes
    ----------
    note
        Why there is no real lock, where the file system has none; else empty.

    Raises
    ------
    EnvironmentProblem
        Another process holds the lock, or the lock file cannot be made.
    """

    def __init__(self, out: str) -> None:
        self.path = os.path.join(out, LOCK_FILE)
        self.notes: List[Note] = []
        self._fd: Optional[int] = None
        require_own_file(self.path)
        try:
            fd = os.open(
                self.path,
                os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
                0o666,
            )
        except OSError as error:
            raise EnvironmentProblem(
                "%s: cannot be written: %s" % (self.path, error.strerror)
            ) from error
        try:
            _lock(fd)
        except OSError as error:
            if error.errno in _BUSY:
                holder = _holder(fd)
                os.close(fd)
                raise EnvironmentProblem(
                    "%s: another goldwatch%s is writing here" % (out, holder),
                    hint="wait until it ends, or choose another folder for the results",
                ) from error
            self.notes = [note("no-locks", error.strerror or error)]
        self._fd = fd
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid(), "host": os.uname().nodename}).encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _lock(fd: int) -> None:
    """Take the lock; a holder that is just ending (a killed process whose child has not yet let go)
    is given a moment.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in _BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _holder(fd: int) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        holder = json.loads(os.pread(fd, 4096, 0).decode("utf-8", "replace"))
        return " (pid %d on host %s)" % (int(holder["pid"]), str(holder["host"])[:255])
    return ""


def _forget_in_child() -> None:
    # A forked worker that outlives its killed parent must not keep the parent's lock: flock ends
    # with the last copy of the descriptor.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_forget_in_child)
