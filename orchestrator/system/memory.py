"""Memory: what the machine has, what a control group allows, what of it the page cache may take.
``root`` is where proc and sys are.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, Optional, Tuple

from .proc_files import control_groups, fields_of, text_of

_NO_LIMIT = 1 << 60
# A group's limit, its use, and the lines of memory.stat that are the pages of files: version 2 of
# control groups, and version 1.
_FORMS = (
    ("memory.max", "memory.current", ("inactive_file", "active_file")),
    (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
)


def memory(root: str = "/") -> Dict[str, Optional[int]]:
    """Return in bytes what the machine has, what is free there, and the limit of the control group;
    None what cannot be told.
    """
    lines = dict(fields_of(os.path.join(root, "proc/meminfo")))

    def size(name: str) -> Optional[int]:
        kilobytes = _number(lines.get(name, "").replace("kB", ""))
        return None if kilobytes is None else kilobytes * 1024

    limit = min((limit for limit, _ in _limits(root)), default=None)
    return {
        "total_bytes": size("MemTotal"),
        "free_bytes": size("MemAvailable"),
        "limit_bytes": limit,
    }


def cache_room(root: str = "/") -> Optional[int]:
    """Return how many bytes of files the page cache could hold for this process if it held nothing
    else; None where it cannot be told.
    """
    rooms = [memory(root)["free_bytes"], *(max(0, limit - taken) for limit, taken in _limits(root))]
    return min((size for size in rooms if size is not None), default=None)


def _limits(root: str) -> Iterator[Tuple[int, int]]:
    """Yield the limit of each control group that has one, and what is taken of it that are no pages
    of files.
    """
    for folder in control_groups(root, "memory"):
        for limit, use, of_files in _FORMS:
            most = _number(text_of(os.path.join(folder, limit)))
            if most is not None and most < _NO_LIMIT:
                lines = dict(
                    line.split(" ", 1)
                    for line in text_of(os.path.join(folder, "memory.stat")).splitlines()
                    if " " in line
                )
                pages = sum(_number(lines.get(name, "")) or 0 for name in of_files)
                yield most, max(0, (_number(text_of(os.path.join(folder, use))) or 0) - pages)


def _number(text: str) -> Optional[int]:
    text = text.strip()
    return int(text) if text.isdigit() else None
