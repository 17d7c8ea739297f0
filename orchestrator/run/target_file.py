"""What is known of one file below TARGET, and how that changes."""

from __future__ import annotations

from array import array
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

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

STATES = (GROWING, SETTLING, UNREADABLE, HELD, PLANNED, EARLIER, GONE, DELETED)
CODES = {state: code for code, state in enumerate(STATES)}
_MOST = (1 << 63) - 1
# Columns grow by so many lines at once.
_LINES = 1024

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


class FileColumns:
    """What is known of files below TARGET, in columns: there may be a million, and an object with
    its texts takes four times as much.

    Attributes
    ----------
    folders, ops, counts
        What ``folder``, ``op`` and ``tensors`` number.
    names, ends
        The files' own names in UTF-8, one behind the other, and where each ends.
    folder, op, timestamp_us, state, expected_bytes, missing, choice, tensors, has_rows,
    from_before
        Of each file, as :class:`TargetFile` tells.
    signature
        The four columns of :class:`Signature`; where there is none the first is -1.
    rare
        By name, and by the file's number, what few files have or have long.
    """

    def __init__(self) -> None:
        self.folders: List[FileFolder] = []
        self.ops, self.counts = _Numbered(), _Numbered()
        self.names, self.ends = bytearray(), array("q")
        self.folder, self.op, self.timestamp_us = array("I"), array("I"), array("q")
        self.state, self.has_rows, self.from_before = array("B"), array("B"), array("B")
        self.missing, self.tensors = array("I"), array("I")
        self.expected_bytes, self.choice = array("q"), array("q")
        self.signature = tuple(array(code) for code in "qqQq")
        self.rare: Dict[str, Dict[int, Any]] = {}
        self.counts.number((0, 0))

    def add(
        self,
        folder: int,
        name: str,
        full_name: Optional[str],
        op: Tuple[Any, ...],
        timestamp_us: int,
    ) -> TargetFile:
        """Add a file, ``growing``; parameters as the attributes of :class:`TargetFile`, its folder
        by its number.
        """
        file = TargetFile(self, len(self.ends))
        self.names += name.encode("utf-8", "surrogatepass")
        self.ends.append(len(self.names))
        self.folder.append(folder)
        self.op.append(self.ops.number(op))
        self.timestamp_us.append(min(timestamp_us, _MOST))
        if file.number == len(self.state):
            self._lengthen()
        if timestamp_us >= _MOST:
            self.rare.setdefault("timestamp_us", {})[file.number] = timestamp_us
        file.full_name = full_name
        return file

    def _lengthen(self) -> None:
        """Append lines of which nothing is known."""
        others = (self.state, self.has_rows, self.from_before, self.missing, self.tensors)
        sizes, *more = self.signature
        sizes.extend([-1] * _LINES)
        for column in (*others, self.expected_bytes, self.choice, *more):
            column.frombytes(bytes(_LINES * column.itemsize))


class _Numbered(List[Any]):
    """Values that many files share, each once; the first is that of new files."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: Dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value."""
        known = self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self)
            self.append(value)
        return known


def _column(name: str, most: int = _MOST) -> Any:
    """Return a property that stands in a column; larger numbers are ``most``."""
    column = attrgetter(name)

    def put(file: TargetFile, value: int) -> None:
        column(file.columns)[file.number] = min(value, most)

    return property(lambda file: column(file.columns)[file.number], put)


def _rare(name: str, default: Any = None) -> Any:
    """Return a property that few files have another value of than the default."""

    def get(file: TargetFile) -> Any:
        values = file.columns.rare.get(name)
        return default if values is None else values.get(file.number, default)

    def put(file: TargetFile, value: Any) -> None:
        if value is not default:
            file.columns.rare.setdefault(name, {})[file.number] = value
        elif name in file.columns.rare:
            file.columns.rare[name].pop(file.number, None)

    return property(get, put)


class TargetFile:
    """One dump file below TARGET, in one of eight states: a line of :class:`FileColumns`.

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
    columns, number
        What is known of all files, and which of these it is.
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
    from_before
        Whether these are of an earlier start, and were not asked for so far.
    slices
        The files of its op's other slices, where it stands for them all.
    regions
        (kind, index, address, bytes) of its tensors, noted before it was deleted; None else.
    """

    __slots__ = ("columns", "number")

    def __init__(self, columns: FileColumns, number: int) -> None:
        self.columns, self.number = columns, number

    expected_bytes = _column("expected_bytes")
    missing = _column("missing")
    choice = _column("choice")
    full_name = _rare("full_name")
    pending = _rare("pending", NOTHING)
    iteration = _rare("iteration")
    slices = _rare("slices", ())
    regions = _rare("regions")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TargetFile)
            and self.number == other.number
            and self.columns is other.columns
        )

    def __hash__(self) -> int:
        return self.number

    @property
    def folder(self) -> FileFolder:
        """Where it lies."""
        folder: FileFolder = self.columns.folders[self.columns.folder[self.number]]
        return folder

    @property
    def name(self) -> str:
        """Its own name."""
        columns, number = self.columns, self.number
        begin = columns.ends[number - 1] if number else 0
        return columns.names[begin : columns.ends[number]].decode("utf-8", "surrogatepass")

    @property
    def op(self) -> Tuple[Any, ...]:
        """What tells its op."""
        op: Tuple[Any, ...] = self.columns.ops[self.columns.op[self.number]]
        return op

    @property
    def timestamp_us(self) -> int:
        """When it was dumped, by its name."""
        time = self.columns.timestamp_us[self.number]
        return time if time < _MOST else int(self.columns.rare["timestamp_us"][self.number])

    @property
    def state(self) -> str:
        """One of this module's."""
        return STATES[self.columns.state[self.number]]

    @state.setter
    def state(self, state: str) -> None:
        self.columns.state[self.number] = CODES[state]

    @property
    def tensors(self) -> Tuple[int, int]:
        """How many inputs and outputs its header has."""
        counts: Tuple[int, int] = self.columns.counts[self.columns.tensors[self.number]]
        return counts

    @property
    def has_rows(self) -> bool:
        """Whether the store may hold rows of it."""
        return bool(self.columns.has_rows[self.number])

    @has_rows.setter
    def has_rows(self, has_rows: bool) -> None:
        self.columns.has_rows[self.number] = has_rows

    @property
    def from_before(self) -> bool:
        """Whether these rows are of an earlier start, and were not asked for so far."""
        return bool(self.columns.from_before[self.number])

    @from_before.setter
    def from_before(self, from_before: bool) -> None:
        self.columns.from_before[self.number] = from_before

    def _move(self, name: str) -> None:
        sources, target = _MOVES[name]
        if self.state not in sources:
            raise ValueError("%s: a file that is %s cannot %s" % (self.rel, self.state, name))
        self.state = target
        self.pending = NOTHING

    def change(self, signature: Signature) -> None:
        """Record that the file has arrived, or has changed."""
        self._move("change")
        before = self.signature if self.looked_at else None
        self.signature = signature
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
        counts = self.columns.counts.number((plan.n_inputs, plan.n_outputs))
        self.expected_bytes, self.columns.tensors[self.number] = plan.expected_bytes, counts
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
    def looked_at(self) -> bool:
        """Whether its signature is known."""
        return bool(self.columns.signature[0][self.number] >= 0)

    @property
    def signature(self) -> Optional[Signature]:
        """How it looked when it was last looked at; None before."""
        signature = Signature._make([column[self.number] for column in self.columns.signature])
        return None if signature.size_bytes < 0 else signature

    @signature.setter
    def signature(self, signature: Optional[Signature]) -> None:
        for column, value in zip(self.columns.signature, signature or (-1, 0, 0, 0)):
            column[self.number] = value

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
        folder, own_name, full_name = self.folder, self.name, self.full_name
        name = parse_dump_name(full_name or own_name)
        assert name is not None
        return DumpEntry(
            _inside(folder.shown, own_name),
            _inside(folder.rel, own_name),
            name,
            own_name if full_name else None,
        )


def _inside(folder: str, name: str) -> str:
    """Return what ``os.path.join`` does for a plain name, several times as fast."""
    return "%s/%s" % (folder, name) if folder and folder[-1] != "/" else folder + name


def tensor_key(row: Row) -> TensorKey:
    """Return what a row of one file is about."""
    return row.kind, row.tensor_index
