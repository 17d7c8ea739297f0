"""What is known of one file below TARGET."""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, Optional, Tuple

from ..compare.pair import PairTask
from ..dumps.listing import DumpEntry
from ..dumps.place import Place
from ..model.row_plan import DumpedOp
from ..naming import parse_dump_name

Signature = Tuple[int, int, int]
TensorKey = Tuple[str, Optional[int]]

# Not whole so far; to be believed once it has not changed for a while; not to be read by this user; planned, its pairs compared or not;
# to be planned at the end (L1 fusion groups); another dump of the op is newer; not there any more; removed by --keep.
GROWING, SETTLING, UNREADABLE, PLANNED, HELD = "growing", "settling", "unreadable", "planned", "held"
EARLIER, GONE, DELETED = "earlier", "gone", "deleted"

OUTDATED = "outdated"
DELETED_PREFIX = "deleted "


def look_at(path: str) -> Optional[Signature]:
    """Return a regular file's size in bytes, modification time (ns) and inode; None when it is not there (or no regular file)."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def signature_text(found: Signature) -> str:
    """Return a signature as the store keeps it; the text of :func:`goldwatch.engine.session.signature`."""
    return "%d:%d:%d" % found


# What a file has pending whose pairs are all compared: one for all, for there may be a hundred thousand of them. Never filled.
NOTHING: Dict[TensorKey, PairTask] = {}


class TargetFile:
    """One dump file below TARGET.

    Attributes
    ----------
    path
        Absolute.
    root_length
        Characters of TARGET in it.
    shown
        TARGET as the user named it, for messages.
    full_name
        The name that mapping.csv gives; None for a file that has its own.
    identity, group
        Its place; and (folder, op_type, op_name, …): of the files of one group the newest counts.
    order
        (timestamp in µs, path): the newest is the largest.
    signature
        As last looked at; None before.
    state
        One of this module's.
    expected_bytes
        Its size by its header; 0 when unknown.
    pending
        The pairs that are queued or being compared, by (kind, tensor index).
    missing
        How many of its tensors wait for golden data.
    choice
        Stands for the golden files its tensors were paired with.
    tensors
        (inputs, outputs) of its header.
    has_rows
        Whether the store may hold rows of it.
    changed_at
        When it was last seen to change (monotonic seconds).
    """

    __slots__ = (
        "path",
        "root_length",
        "shown",
        "full_name",
        "identity",
        "group",
        "order",
        "signature",
        "state",
        "expected_bytes",
        "pending",
        "missing",
        "choice",
        "tensors",
        "has_rows",
        "changed_at",
    )

    def __init__(
        self, path: str, root_length: int, shown: str, full_name: Optional[str], identity: Place, group: Any, order: Tuple[int, str]
    ) -> None:
        self.path = path
        self.root_length = root_length
        self.shown = shown
        self.full_name = full_name
        self.identity = identity
        self.group = group
        self.order = order
        self.signature: Optional[Signature] = None
        self.state = GROWING
        self.expected_bytes = 0
        self.pending: Dict[TensorKey, PairTask] = NOTHING
        self.missing = 0
        self.choice = 0
        self.tensors = (0, 0)
        self.has_rows = False
        self.changed_at = 0.0

    @property
    def rel(self) -> str:
        """Return the path relative to TARGET."""
        return self.path[self.root_length + 1 :]

    @property
    def op_name(self) -> str:
        """The op's name, as in the file's name."""
        return str(self.group[2])

    def dumped(self) -> DumpedOp:
        """Return the file as the pairing sees it."""
        return DumpedOp(self.op_name, str(self.group[1]), self.order[0], *self.tensors)

    def entry(self) -> DumpEntry:
        """Return the file as the planner takes it."""
        own = os.path.basename(self.path)
        name = parse_dump_name(self.full_name or own)
        assert name is not None
        return DumpEntry(os.path.join(self.shown, self.rel), self.rel, name, own if self.full_name else None)
