"""What is known of one file below TARGET, and how that changes."""

from __future__ import annotations

import os
from typing import Any, Dict, FrozenSet, Optional, Tuple

from ..comparing.file_plan import FilePlan
from ..comparing.pair_task import PairTask
from ..comparing.row import Row
from ..dumps.listing import DumpEntry
from ..dumps.place import Place
from ..model.row_plan import DumpedOp
from ..naming import parse_dump_name
from .signature import Signature

TensorKey = Tuple[str, Optional[int]]
Region = Tuple[str, int, int, int]

GROWING, SETTLING, UNREADABLE, HELD = "growing", "settling", "unreadable", "held"
PLANNED, EARLIER, GONE, DELETED = "planned", "earlier", "gone", "deleted"
WAITING = frozenset([GROWING, SETTLING, UNREADABLE])

_LOOKED_AT = WAITING | {HELD, PLANNED}
_MOVES: Dict[str, Tuple[FrozenSet[str], str]] = {
    "change": (_LOOKED_AT | {GONE, DELETED}, GROWING),
    "grow": (_LOOKED_AT, GROWING),
    "doubt": (_LOOKED_AT, SETTLING),
    "refuse": (_LOOKED_AT, UNREADABLE),
    "hold": (_LOOKED_AT, HELD),
    "release": (frozenset([HELD, EARLIER]), GROWING),
    "plan": (_LOOKED_AT | {EARLIER}, PLANNED),
    "supersede": (_LOOKED_AT | {EARLIER, GONE, DELETED}, EARLIER),
    "vanish": (_LOOKED_AT | {EARLIER, GONE}, GONE),
    "delete": (frozenset([PLANNED]), DELETED),
    "remember": (frozenset([GROWING]), DELETED),
}

# What a file has pending whose pairs are all compared: one for all, for there may be a hundred thousand of them. Never filled.
NOTHING: Dict[TensorKey, PairTask] = {}


class TargetFile:
    """One dump file below TARGET, in one of eight states.

    ========== ================================================== ==========================================
    transition from                                               to
    ========== ================================================== ==========================================
    change     any but ``earlier``                                ``growing``: not looked into so far
    grow       any that is looked at (the five of ``doubt``)      ``growing``: not whole so far
    doubt      ``growing settling unreadable held planned``       ``settling``: believed once it stays as it is
    refuse     the same                                           ``unreadable``: not to be read by this user
    hold       the same                                           ``held``: planned at the end (L1 fusion groups), or
                                                                  when its place turns out to be the model's
    release    ``held earlier``                                   ``growing``: looked at anew
    plan       as ``doubt``, and ``earlier`` (loops)              ``planned``: its pairs are queued or compared
    supersede  any                                                ``earlier``: a newer dump of the op counts
    vanish     any but ``deleted``                                ``gone``: not there any more
    delete     ``planned``                                        ``deleted``: removed after its comparison
    remember   ``growing``                                        ``deleted``: so says the store
    ========== ================================================== ==========================================

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
    place, group
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
    iteration
        (number, how many) where every dump of the op is compared with golden data of its own; None: the newest counts.
    has_rows
        Whether the store may hold rows of it.
    slices
        The files of its op's other slices, where it stands for them all.
    regions
        (kind, index, address, bytes) of its tensors, noted before it was deleted; None else.
    """

    __slots__ = (
        "path",
        "root_length",
        "shown",
        "full_name",
        "place",
        "group",
        "order",
        "signature",
        "state",
        "expected_bytes",
        "pending",
        "missing",
        "choice",
        "tensors",
        "iteration",
        "has_rows",
        "slices",
        "regions",
    )

    def __init__(
        self, path: str, root_length: int, shown: str, full_name: Optional[str], place: Place, group: Any, order: Tuple[int, str]
    ) -> None:
        self.path = path
        self.root_length = root_length
        self.shown = shown
        self.full_name = full_name
        self.place = place
        self.group = group
        self.order = order
        self.signature: Optional[Signature] = None
        self.state = GROWING
        self.expected_bytes = 0
        self.pending: Dict[TensorKey, PairTask] = NOTHING
        self.missing = 0
        self.choice = 0
        self.tensors = (0, 0)
        self.iteration: Optional[Tuple[int, int]] = None
        self.has_rows = False
        self.slices: Tuple[TargetFile, ...] = ()
        self.regions: Optional[Tuple[Region, ...]] = None

    def _move(self, name: str) -> None:
        sources, target = _MOVES[name]
        if self.state not in sources:
            raise ValueError("%s: a file that is %s cannot %s" % (self.rel, self.state, name))
        self.state = target
        self.pending = NOTHING

    def change(self, found: Signature) -> None:
        """Take note that the file has come, or is another than before."""
        self._move("change")
        before, self.signature = self.signature, found
        if before is None or found.inode != before.inode or found.size_bytes < before.size_bytes:
            self.expected_bytes = 0

    def doubt(self) -> None:
        """It looks finished but odd, or changed while it was read."""
        self._move("doubt")

    def refuse(self) -> None:
        """It cannot be read."""
        self._move("refuse")

    def grow(self, expected_bytes: int) -> None:
        """It is not whole so far; its header, where there is one, tells its size."""
        self._move("grow")
        self.expected_bytes = expected_bytes

    def hold(self) -> None:
        """Keep it for the end."""
        self._move("hold")

    def release(self) -> None:
        """Look at it anew."""
        self._move("release")
        self.signature = None

    def plan(self, plan: FilePlan, missing: int, pending: Dict[TensorKey, PairTask]) -> None:
        """Its tensors are planned: ``pending`` are to be compared, ``missing`` wait for golden data."""
        self._move("plan")
        self.expected_bytes, self.tensors = plan.expected_bytes, (plan.n_inputs, plan.n_outputs)
        self.missing, self.pending = missing, pending or NOTHING

    def supersede(self) -> None:
        """A newer dump of the op has come."""
        self._move("supersede")

    def vanish(self) -> None:
        """It is not there any more."""
        self._move("vanish")

    def delete(self) -> None:
        """It was removed after its comparison."""
        self._move("delete")

    def remember(self, deleted: bool) -> None:
        """It was compared by an earlier start and is no longer there, because we deleted it or for another reason."""
        self._move("remember" if deleted else "vanish")
        self.has_rows = True

    @property
    def there(self) -> bool:
        """Whether its rows, present or to come, belong to the run."""
        return self.has_rows or self.state != GONE

    @property
    def rel(self) -> str:
        """The path relative to TARGET."""
        return self.path[self.root_length + 1 :]

    @property
    def op_name(self) -> str:
        """The op's name, as in the file's name."""
        return str(self.group[2])

    def dumped(self) -> DumpedOp:
        """Return the file as the pairing sees it."""
        _, op_type, op_name, _, context, thread = self.group[:6]
        part = None if context is None or thread is None else (int(context), int(thread))
        return DumpedOp(str(op_name), str(op_type), self.order[0], *self.tensors, slice=part)

    def entry(self) -> DumpEntry:
        """Return the file as the planner takes it."""
        own = os.path.basename(self.path)
        name = parse_dump_name(self.full_name or own)
        assert name is not None
        return DumpEntry(os.path.join(self.shown, self.rel), self.rel, name, own if self.full_name else None)


def tensor_key(row: Row) -> TensorKey:
    """Return what a row of one file is about."""
    return row.kind, row.tensor_index
