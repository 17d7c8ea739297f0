"""The batch of tfdbg's ``pt`` commands that saves every tensor of a listing under a golden name."""

from __future__ import annotations

import fnmatch
from typing import Dict, List, Sequence, Set, Tuple

from ...base.errors import InputError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import TIMESTAMP_DIGITS
from ..golden_names import GoldenNames
from .golden_rules import feed_of, handle_enters, left_out
from .tfdbg_listing import ListedDump, Listing

ALL, FIRST, LAST = "all", "first", "last"


@dataclass(frozen=True)
class PrintCommand:
    """One ``pt`` command.

    Attributes
    ----------
    tensor
        The name that tfdbg knows (``_arg_…`` for a feed).
    op, output_index
        The graph's own name of the tensor.
    op_type
        The type of the op that was dumped.
    number
        Which dump of the tensor, from 0: a loop's iterations.
    file, listed
        The file's name and, where it is a hash, what mapping.csv resolves it to.
    """

    tensor: str
    op: str
    output_index: int
    op_type: str
    number: int
    timestamp_us: int
    file: str
    listed: str

    @property
    def text(self) -> str:
        """The line to type at tfdbg's prompt."""
        return "pt %s -n %d -w %s" % (self.tensor, self.number, self.file)


@dataclass(frozen=True)
class CommandPlan:
    """The commands of a listing and everything that has none.

    Attributes
    ----------
    left_out
        ``(tensor, reason, dumps)``; together with the commands they account for every selected row.
    mapping
        The lines of mapping.csv: ``{file: listed name}``.
    collisions
        ``{sanitised name: original names}`` of the ops that had to be parked under hash names.
    """

    commands: Tuple[PrintCommand, ...]
    left_out: Tuple[Tuple[str, str, int], ...]
    mapping: Dict[str, str]
    collisions: Dict[str, List[str]]


def plan_commands(
    listing: Listing, timestamp_us: int, select: Sequence[str] = (), which: str = ALL
) -> CommandPlan:
    """Return the commands that save the listed tensors.

    Parameters
    ----------
    timestamp_us
        The timestamp of dump 0 of each tensor; dump k gets ``timestamp_us + k``.
    select
        Patterns (``*`` also spans ``/``) for ops or ``op:index``; empty takes all. A feed counts
        under its op's name.
    which
        ``all`` dumps of a tensor, or only the ``first`` or the ``last`` one.

    Raises
    ------
    InputError
        No row matches ``select``.
    UsageError
        A timestamp would have more than 16 digits, which no golden file has.
    """
    entries = _numbered(listing.rows)
    chosen = [entry for entry in entries if _selected(entry[2], select)]
    if not chosen:
        raise InputError(
            "no tensor of the listing matches %s" % ", ".join(select),
            hint="* also spans /; quote the pattern in the shell",
        )
    fed = {key for row, _, key in entries if feed_of(row.node, row.op_type)}
    saved, left = _split(chosen, fed)
    names = GoldenNames()
    # Ops that are not selected collide all the same: their golden files may be made another time.
    names.reserve(sorted({key for _, _, key in _split(entries, fed)[0]}))
    last = {row.tensor: number for row, number, _ in saved}
    if which == FIRST:
        saved = [entry for entry in saved if entry[1] == 0]
    elif which == LAST:
        saved = [entry for entry in saved if entry[1] == last[entry[0].tensor]]
    latest = timestamp_us + max([number for _, number, _ in saved] or [0])
    if len(str(latest)) > TIMESTAMP_DIGITS:
        message = "timestamp %d has more than %d digits" % (latest, TIMESTAMP_DIGITS)
        raise UsageError(message, hint="give microseconds since 1970, such as 1700000000000000")
    mapping: Dict[str, str] = {}
    commands: List[PrintCommand] = []
    for row, number, (op, index) in saved:
        name = names.file_name((op, ""), index, timestamp_us + number, mapping)
        if name.hashed:
            mapping[name.file] = name.listed
        commands.append(
            PrintCommand(
                row.tensor,
                op,
                index,
                row.op_type,
                number,
                timestamp_us + number,
                name.file,
                name.listed,
            )
        )
    return CommandPlan(tuple(commands), tuple(left), mapping, names.collisions)


Entry = Tuple[ListedDump, int, Tuple[str, int]]


def _numbered(rows: Sequence[ListedDump]) -> List[Entry]:
    """Return ``(row, its number among the dumps of the tensor, (op, output index))``."""
    counts: Dict[str, int] = {}
    entries: List[Entry] = []
    for row in rows:
        number = counts.get(row.tensor, 0)
        counts[row.tensor] = number + 1
        entries.append((row, number, feed_of(row.node, row.op_type) or (row.node, row.slot)))
    return entries


def _selected(key: Tuple[str, int], select: Sequence[str]) -> bool:
    names = (key[0], "%s:%d" % key)
    return not select or any(
        fnmatch.fnmatchcase(name, pattern) for pattern in select for name in names
    )


def _split(
    entries: Sequence[Entry], fed: Set[Tuple[str, int]]
) -> Tuple[List[Entry], List[Tuple[str, str, int]]]:
    saved: List[Entry] = []
    left: Dict[Tuple[str, str], int] = {}
    handles = handle_enters((row.node, row.op_type) for row, _, _ in entries)
    with_gradient = any(row.op_type.startswith("FusedBatchNormGrad") for row, _, _ in entries)
    for row, number, key in entries:
        feed = feed_of(row.node, row.op_type) is not None
        reason = None if feed else left_out(row.op_type, row.slot, with_gradient)
        if reason is None and row.node in handles:
            reason = "%s carries a handle into a loop, not numbers" % row.op_type
        if reason is None and not feed and key in fed:
            reason = "the value that was fed replaces the computed one"
        if reason is None:
            saved.append((row, number, key))
        else:
            left[(row.tensor, reason)] = left.get((row.tensor, reason), 0) + 1
    return saved, [(tensor, reason, dumps) for (tensor, reason), dumps in left.items()]
