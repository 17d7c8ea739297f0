"""The mount of a path, and the type of its file system."""

from __future__ import annotations

import contextlib
import os
import re
from typing import List, NamedTuple, Optional

from ..errors import InputError
from .safe_reading import open_input

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
