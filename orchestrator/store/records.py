"""Lines of the store's small tables."""

from __future__ import annotations

from typing import NamedTuple

EXPECTED = "expected"
"""The fact of table ``run`` that tells how much there is to compare, where that is known
beforehand: ``{"files", "bytes"}``.
"""

OPS = "ops"
"""The fact of table ``run`` that tells of how many ops a watch has compared the dumps, and of how
many they will come, in the places that it has seen: ``{"come", "expected"}``; null where no model
tells.
"""

PROVISIONAL = "provisional"
"""The fact of table ``run`` that tells which failing rows others may change while the run goes on:
``{"upto", "ids"}``.

Those with the ids, and all with ids above ``upto``, of which nothing has been found out.
"""

VOID = "void"
"""The fact of table ``run`` that tells the highest id given to a row when rows were last removed,
renumbered or discarded.
"""


class FileRecord(NamedTuple):
    """One line of table ``file``: size in bytes, modification time in nanoseconds, state."""

    size_bytes: int
    mtime_ns: int
    state: str
