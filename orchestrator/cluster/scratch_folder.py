"""A folder that goes with its process; that of one that was killed goes when the next is made."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from typing import Iterator, Optional, Tuple

from ..filesystem.atomic_writing import create_new

_PREFIX = "goldwatch-cluster-"
_MARK = ".goldwatch-scratch"
_HELD = {_MARK, "dask-scratch-space", "dask-worker-space"}
"""What lies in a folder of ours: any other is somebody's own, whatever it is called."""


@contextlib.contextmanager
def scratch_folder(parent: Optional[str]) -> Iterator[str]:
    """Yield a folder that is removed at the end; what killed processes of this user left there is
    removed before.

    Parameters
    ----------
    parent
        Where; None: the system's folder for temporary files.

    Raises
    ------
    OSError
        It cannot be made.
    """
    parent = os.path.abspath(parent or tempfile.gettempdir())
    _remove_left(parent)
    folder, lock = _made(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _made(parent: str) -> Tuple[str, Optional[int]]:
    while True:
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        try:
            lock = _lock(folder)
            os.close(create_new(os.path.join(folder, _MARK)))
            return folder, lock
        except (BlockingIOError, FileNotFoundError):
            # Another one has taken it for left before it was locked, and removes it.
            continue
        except OSError:
            # The file system has no locks: it is not removed.
            return folder, None


def _lock(folder: str) -> int:
    """Return what holds a folder's lock, which the kernel gives back with its process; raises
    OSError where it cannot be had.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(folder)):
            raise FileNotFoundError(folder)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_left(parent: str) -> None:
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_ours(entry.path)


def _remove_ours(folder: str) -> None:
    """Remove a folder that a goldwatch of this user made, and that no process has locked."""
    lock = _lock(folder)
    try:
        names = set(os.listdir(folder))
        if os.fstat(lock).st_uid == os.geteuid() and _MARK in names and names <= _HELD:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
