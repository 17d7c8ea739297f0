"""What tfdbg's ``lt > FILE`` wrote: one row per dump."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from ...base.errors import FormatError
from ...base.fast_dataclasses import dataclass

_ROW = re.compile(
    r"\[(?P<ms>\d{1,15}\.\d{1,9})\]\s+(?P<size>\S+)\s+(?P<type>\S+)\s+(?P<node>\S+):(?P<slot>\d{1,9})\Z"
)
_COUNT = re.compile(r"(\d{1,12}) dumped tensor\(s\)( passing filter)?")
_ANY_ROW = re.compile(r"\[\d+\.\d+\]\s")


@dataclass(frozen=True)
class ListedDump:
    """One row of the listing.

    Attributes
    ----------
    time_ms
        Milliseconds since the first dump of the run.
    op_type, node, slot
        As tfdbg names them: a feed is ``_arg_…``.
    """

    time_ms: float
    op_type: str
    node: str
    slot: int

    @property
    def tensor(self) -> str:
        """The tensor's name for tfdbg's commands."""
        return "%s:%d" % (self.node, self.slot)


@dataclass(frozen=True)
class Listing:
    """A listing's rows, in the order of time, and what is odd about it."""

    rows: Tuple[ListedDump, ...]
    notes: Tuple[str, ...]


def parse_listing(text: str, name: str) -> Listing:
    """Read the rows of a listing; header lines, filter lines and prompts are passed over.

    Parameters
    ----------
    name
        The file's name in messages.

    Raises
    ------
    FormatError
        There is no row in it.
    """
    rows: List[ListedDump] = []
    declared: Optional[int] = None
    notes: List[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        match = _ROW.match(line)
        if match is not None:
            rows.append(
                ListedDump(
                    float(match.group("ms")),
                    match.group("type"),
                    match.group("node"),
                    int(match.group("slot")),
                )
            )
            continue
        count = _COUNT.match(line)
        if count is not None:
            declared = (declared or 0) + int(count.group(1))
            if count.group(2):
                text = (
                    "line %d: filtered by value, but dump numbers (-n) count all dumps of a "
                    "tensor: those of loops may be wrong"
                )
                notes.append(text % number)
        elif _ANY_ROW.match(line):
            notes.append("line %d looks like a row but is not one: %s" % (number, line[:200]))
    if not rows:
        raise FormatError(
            "no row of a tfdbg listing in it",
            name,
            hint="write one at tfdbg's run-end prompt: lt > tensor_name",
        )
    if declared is not None and declared != len(rows):
        notes.append(
            "the listing announces %d dumps, %d rows could be read: it may be incomplete"
            % (declared, len(rows))
        )
    # Listings can be sorted otherwise (lt -s, lt -r), but tfdbg numbers the dumps of a tensor by
    # time.
    return Listing(tuple(sorted(rows, key=lambda row: row.time_ms)), tuple(notes))
