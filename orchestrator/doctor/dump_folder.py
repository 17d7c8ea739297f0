"""A folder that dumps are in, or will be: its file system, its free space, the folders below it,
and how many of them inotify watches for one user.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional

from ..errors import MissingPath
from ..filesystem.mounts import NETWORK_FILE_SYSTEMS, mount_of, reports_all_changes
from ..system.proc_files import text_of

_WATCHES = "proc/sys/fs/inotify/max_user_watches"
_EVERY = 1000

Tick = Callable[[int], None]


def place(path: str, tick: Tick = lambda count: None) -> Dict[str, Any]:
    """Return what is known of a path; of a file, of the folder that it is in.

    Parameters
    ----------
    tick
        Called with the number of folders found, now and then.

    Raises
    ------
    MissingPath
        It does not exist, or this user cannot get there.
    """
    try:
        os.stat(path)
        here = os.path.abspath(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise MissingPath(
            "PATH: %s: %s" % (path, why), hint="check the path; it is read from the current folder"
        ) from None
    folder = path if os.path.isdir(path) else os.path.dirname(here)
    mount = mount_of(folder)
    kind = mount.kind if mount is not None else ""
    room = os.statvfs(folder)
    visited = 0
    unlisted: List[OSError] = []
    for _ in os.walk(folder, onerror=unlisted.append) if folder == path else ():
        visited += 1
        if visited % _EVERY == 0:
            tick(visited)
    return {
        "path": here,
        "file_system": kind or None,
        "mount_point": None if mount is None else mount.point,
        "watched_by": "inotify" if reports_all_changes(kind) else "listing",
        "wal": kind not in NETWORK_FILE_SYSTEMS,
        "writable": os.access(folder, os.W_OK | os.X_OK),
        "free_bytes": room.f_bavail * room.f_frsize if room.f_blocks else None,
        "total_bytes": room.f_blocks * room.f_frsize or None,
        "folders": max(0, visited + len(unlisted) - 1),
        "folders_not_listed": len(unlisted),
    }


def most_watches(root: str = "/") -> Optional[int]:
    """Return how many folders inotify watches for one user (inotify(7)); None where that cannot be
    told. ``root`` is where proc is.
    """
    text = text_of(os.path.join(root, _WATCHES)).strip()
    return int(text) if text.isdigit() else None
