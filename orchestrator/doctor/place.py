"""A folder that dumps are in, or will be: its file system, its room, the folders below it, and what
the kernel tells of changes there.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Dict, Optional, Tuple

from ..errors import MissingPath
from ..filesystem.mounts import NETWORK_FILE_SYSTEMS, mount_of, told_of_changes
from ..system.kernel_files import text_of

_SYSCTL = "proc/sys/fs/inotify"
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
    below, unlisted = count_folders(folder, tick) if folder == path else (0, 0)
    return {
        "path": here,
        "file_system": kind or None,
        "mount_point": None if mount is None else mount.point,
        "watched_by": "inotify" if told_of_changes(kind) else "listing",
        "wal": kind not in NETWORK_FILE_SYSTEMS,
        "writable": os.access(folder, os.W_OK | os.X_OK),
        **_room(folder),
        "folders": below,
        "folders_not_listed": unlisted,
    }


def _room(folder: str) -> Dict[str, Optional[int]]:
    """Return what this user may still write: bytes, and files where the file system has a number of
    them.
    """
    names = ("free_bytes", "total_bytes", "free_inodes", "total_inodes")
    try:
        found = os.statvfs(folder)
    except OSError:
        return dict.fromkeys(names)
    if not found.f_blocks:  # Such as /proc: nothing is kept there.
        return dict.fromkeys(names)
    inodes = (found.f_favail, found.f_files) if found.f_files else (None, None)
    return dict(
        zip(names, (found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, *inodes))
    )


def count_folders(folder: str, tick: Tick = lambda count: None) -> Tuple[int, int]:
    """Return how many folders are below one (links to folders are not followed), and how many of
    all could not be listed.
    """
    waiting, found, unlisted = [folder], 0, 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            unlisted += 1
            continue
        if found // _EVERY != (found + len(below)) // _EVERY:
            tick(found + len(below))
        found += len(below)
        waiting += below
    return found, unlisted


def inotify(root: str = "/") -> Dict[str, Optional[int]]:
    """Return the limits of inotify for a user, and how much of them this user's processes are known
    to use; None what cannot be told.

    Sources: inotify(7); proc(5), /proc/PID/fdinfo.
    """
    found: Dict[str, Optional[int]] = {}
    for name in ("max_user_watches", "max_user_instances", "max_queued_events"):
        text = text_of(os.path.join(root, _SYSCTL, name)).strip()
        found[name] = int(text) if text.isdigit() else None
    found["watches_in_use"], found["instances_in_use"] = _in_use(os.path.join(root, "proc"))
    return found


def _in_use(proc: str) -> Tuple[Optional[int], Optional[int]]:
    try:
        processes = [os.path.join(proc, name) for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return None, None
    watches = instances = 0
    for process in processes:
        # Processes end meanwhile, and some of a user's own do not show their files.
        with contextlib.suppress(OSError):
            if os.stat(process).st_uid != os.getuid():
                continue
            for name in os.listdir(os.path.join(process, "fd")):
                with contextlib.suppress(OSError):
                    if os.readlink(os.path.join(process, "fd", name)) == "anon_inode:inotify":
                        instances += 1
                        lines = text_of(os.path.join(process, "fdinfo", name)).splitlines()
                        watches += sum(line.startswith("inotify ") for line in lines)
    return watches, instances
