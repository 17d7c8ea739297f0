"""What is known of one file below TARGET, and how that changes."""

from __future__ import annotations

import os
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, NamedTuple, Optional, Tuple

from ..base.naming import parse_dump_name
from ..dumps.folder_listing import DumpEntry, Signature
from ..dumps.place import Place
from ..metrics.pair_task import PairTask
from ..metrics.row import Row
from ..model.row_plan import DumpedOp

if TYPE_CHECKING:
    from .tensor_planner import FilePlan

OUTDATED = "outdated"
DELETED_PREFIX = "deleted "


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

# Four integers of 64 bits, the third without sign: a third of the memory that the tuple takes.
_SIGNATURE = struct.Struct("qqQq")

# What a file has pending whose pairs are all compared: one for all, for there may be a hundred
# thousand of them. Never filled.
NOTHING: Dict[TensorKey, PairTask] = {}


class FileFolder(NamedTuple):
    """What the files of one folder have in common.

    Attributes
    ----------
    path
        Absolute.
    rel
        Relative to TARGET; empty for TARGET itself.
    shown
        As messages name it, beginning with TARGET as the user named it.
    base
        The folder that stands for the place: of a place's files with equal ``op`` the newest
        counts.
    place
        As its name and those above it say.
    """

    path: str
    rel: str
    shown: str
    base: str
    place: Place


class TargetFile:
    """One dump file below TARGET, in one of eight states. There may be a hundred thousand, so what
    many share is kept once.

    "any of five" are the states that are looked at: ``growing settling unreadable held planned``.

    ========== =========================== ======================================================
    transition from                        to
    ========== =========================== ======================================================
    change     any but ``earlier``         ``growing``: not looked into so far
    grow       any of five                 ``growing``: not whole so far
    doubt      any of five                 ``settling``: counts once it has stayed as it is
    refuse     any of five                 ``unreadable``: this user may not read it
    hold       any of five                 ``held``: planned at the end (L1 fusion groups), or when
                                           its place turns out to be the model's
    release    ``held earlier``            ``growing``: looked at anew
    plan       any of five, ``earlier``    ``planned``: its pairs are queued or compared
    supersede  any                         ``earlier``: a newer dump of the op counts
    vanish     any but ``deleted``         ``gone``: not there any more
    delete     ``planned``                 ``deleted``: removed after its comparison
    remember   ``growing``                 ``deleted``: so says the store
    ========== =========================== ======================================================

    Attributes
    ----------
    folder, name
        Where it lies, and its own name there.
    full_name
        The name that mapping.csv gives; None for a file that has its own.
    op
        (op_type, op_name, task_type, context_id, thread_id, device_id): of a place's files with
        equal ones the newest counts.
    timestamp_us
        By its name.
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
        (number, how many) where every dump of the op is compared with golden data of its own; None:
        the newest counts.
    has_rows
        Whether the store may hold rows of it.
    slices
        The files of its op's other slices, where it stands for them all.
    regions
        (kind, index, address, bytes) of its tensors, noted before it was deleted; None else.
    """

    __slots__ = (
        "folder",
        "name",
        "full_name",
        "op",
        "timestamp_us",
        "_signature",
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
        self,
        folder: FileFolder,
        name: str,
        full_name: Optional[str],
        op: Tuple[Any, ...],
        timestamp_us: int,
    ) -> None:
        self.folder = folder
        self.name = name
        self.full_name = full_name
        self.op = op
        self.timestamp_us = timestamp_us
        self._signature: Optional[bytes] = None
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

    def change(self, signature: Signature) -> None:
        """Record that the file has arrived, or has changed."""
        self._move("change")
        before, self.signature = self.signature, signature
        if (
            before is None
            or signature.inode != before.inode
            or signature.size_bytes < before.size_bytes
        ):
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
        """Its tensors are planned: ``pending`` are to be compared, ``missing`` wait for golden
        data.
        """
        self._move("plan")
        self.expected_bytes, self.tensors = (
            _shared(plan.expected_bytes),
            _shared((plan.n_inputs, plan.n_outputs)),
        )
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
        """It was compared by an earlier start and is no longer there, because we deleted it or for
        another reason.
        """
        self._move("remember" if deleted else "vanish")
        self.has_rows = True

    @property
    def there(self) -> bool:
        """Whether its rows, present or to come, belong to the run."""
        return self.has_rows or self.state != GONE

    @property
    def signature(self) -> Optional[Signature]:
        """How it looked when it was last looked at; None before."""
        return (
            None if self._signature is None else Signature._make(_SIGNATURE.unpack(self._signature))
        )

    @signature.setter
    def signature(self, signature: Optional[Signature]) -> None:
        self._signature = None if signature is None else _SIGNATURE.pack(*signature)

    @property
    def path(self) -> str:
        """The absolute path."""
        return _inside(self.folder.path, self.name)

    @property
    def rel(self) -> str:
        """The path relative to TARGET."""
        return _inside(self.folder.rel, self.name)

    @property
    def place(self) -> Place:
        """The file's place in the dump tree."""
        return self.folder.place

    @property
    def order(self) -> Tuple[int, str]:
        """Sorts the dumps of one op: the newest is the largest."""
        return self.timestamp_us, self.path

    @property
    def op_name(self) -> str:
        """The op's name, as in the file's name."""
        return str(self.op[1])

    def dumped(self) -> DumpedOp:
        """Return the file as the pairing sees it."""
        op_type, op_name, _, context, thread, _ = self.op
        part = None if context is None or thread is None else (int(context), int(thread))
        return DumpedOp(str(op_name), str(op_type), self.timestamp_us, *self.tensors, slice=part)

    def entry(self) -> DumpEntry:
        """Return the file as the planner takes it."""
        name = parse_dump_name(self.full_name or self.name)
        assert name is not None
        return DumpEntry(
            os.path.join(self.folder.shown, self.name),
            self.rel,
            name,
            self.name if self.full_name else None,
        )


def _inside(folder: str, name: str) -> str:
    """Return what ``os.path.join`` does for a plain name, several times as fast."""
    return "%s/%s" % (folder, name) if folder and folder[-1] != "/" else folder + name


@lru_cache(maxsize=4096)
def _shared(value: Any) -> Any:
    """Return an equal value that all files share."""
    return value


def tensor_key(row: Row) -> TensorKey:
    """Return what a row of one file is about."""
    return row.kind, row.tensor_index
