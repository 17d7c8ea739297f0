"""How a file looks from outside: when it looks the same, what was found in it still holds."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple, Optional

from ..dumps.statistics_csv import rows_signature

OUTDATED = "outdated"
DELETED_PREFIX = "deleted "


class Signature(NamedTuple):
    """A regular file's size in bytes, times in nanoseconds and inode.

    The time of the last change of the inode (ctime) tells a file that was overwritten in place and
    whose mtime was put back.
    """

    size_bytes: int
    mtime_ns: int
    inode: int
    ctime_ns: int

    @property
    def text(self) -> str:
        """The signature as the store keeps it in column ``state`` of table ``file``."""
        return "%d:%d:%d:%d" % self

    def is_file(self, other: Optional[Signature]) -> bool:
        """Tell whether ``other`` is the same file under another name: a rename changes the ctime
        only.
        """
        return other is not None and self[:3] == other[:3]


def look_at(path: str) -> Optional[Signature]:
    """Return the signature of a regular file (links are followed); None when it is not there, or is
    none.

    Of an op in a table of statistics it is that of the op's rows, whatever is appended for others.
    """
    try:
        status = os.stat(path)
    except NotADirectoryError:
        mark = rows_signature(path)
        return None if mark is None else Signature(mark[0], 0, mark[2], mark[1])
    except OSError:
        return None
    return (
        Signature(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)
        if stat.S_ISREG(status.st_mode)
        else None
    )
