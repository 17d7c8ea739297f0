"""The mount of a path, the type of its file system, and the space that is free there."""

from __future__ import annotations

import contextlib
import os
import re
from typing import List, NamedTuple, Optional

from .errors import EnvironmentProblem, InputError
from .naming import printable
from .safe_reading import open_input
from .wording import size_text

NETWORK_FILE_SYSTEMS = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "fuse.sshfs",
)

_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    """A mount point and the kind of its file system, such as ``ext4`` or ``nfs4``."""

    point: str
    kind: str


def mounts() -> List[Mount]:
    """Return the mounts that this process sees, in order of creation; empty if unknown.

    Source of the form: proc(5), /proc/self/mountinfo; blanks, tabs, newlines, backslashes and ``#``
    are octal escapes of three digits.
    """
    mounted: List[Mount] = []
    with contextlib.suppress(InputError, OSError), open_input(_MOUNTS) as lines:
        for line in lines:
            left, _, right = line.partition(b" - ")
            fields, kinds = left.split(b" "), right.split(b" ")
            if len(fields) > 4 and kinds[0]:
                mounted.append(Mount(_unescaped(fields[4]), os.fsdecode(kinds[0])))
    return mounted


def _unescaped(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match.group(1), 8) & 0xFF]), field))


def mount_of(path: str) -> Optional[Mount]:
    """Return the mount of ``path`` (links followed; the topmost of stacked mounts), or None."""
    real, best = os.path.realpath(path), None
    for mount in mounts():
        inside = (real + "/").startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def file_system(folder: str) -> str:
    """Return the file system type of ``folder``, such as ``ext4`` or ``nfs4``; empty if unknown."""
    mount = mount_of(folder)
    return "" if mount is None else mount.kind


def reports_all_changes(kind: str) -> bool:
    """Return whether the kernel reports every change on a file system of this type; on others some
    changes are made by other hosts or programs.
    """
    return kind not in NETWORK_FILE_SYSTEMS and not kind.startswith("fuse")


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
