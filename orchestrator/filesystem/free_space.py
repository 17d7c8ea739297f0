"""Free space where a path is or will be."""

from __future__ import annotations

import os
from typing import Optional

from ..errors import EnvironmentProblem
from ..naming import printable
from ..text.wording import size_text

_NEXT_TO_NOTHING = 64 << 10


def free_bytes(path: str) -> Optional[int]:
    """Return the free bytes for this user where ``path`` is (or will be); None if unknown."""
    folder = nearest_folder(path)
    try:
        status = os.statvfs(folder) if folder is not None else None
    except OSError:
        return None
    return None if status is None else status.f_bavail * status.f_frsize


def is_full(path: str) -> bool:
    """Return whether the disk of ``path`` is full: less than 64 KiB or no inode left."""
    try:
        status = os.statvfs(nearest_folder(path) or os.curdir)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _NEXT_TO_NOTHING or (
        status.f_files > 0 and status.f_favail == 0
    )


def nearest_folder(path: str) -> Optional[str]:
    """Return the absolute ``path`` if it is a folder, else its nearest existing parent; None for an
    invalid path.
    """
    if "\0" in path:
        return None
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def require_space(path: str, size_bytes: int) -> None:
    """Raise EnvironmentProblem unless the file system that holds (or will hold) ``path`` has
    ``size_bytes`` free.

    Parameters
    ----------
    path
        A folder that may not exist yet; its nearest existing parent decides.
    """
    free = free_bytes(path)
    if free is not None and free < size_bytes:
        raise EnvironmentProblem(
            "%s: %s are needed, %s are free"
            % (printable(path), size_text(size_bytes), size_text(free)),
            hint="free some space, choose another folder, or save fewer tensors",
        )
