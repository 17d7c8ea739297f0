"""The result table for a terminal: plain aligned text, the rows that matter first."""

from __future__ import annotations

import heapq
from itertools import accumulate
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple

from ..columns import cut, padded, shorten, width_of
from ..comparing.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from ..dumps.place import Place
from ..naming import printable
from ..verdict.judging import metric_number, short_text
from ..wording import plural
from .placenames import place_names

SHOWN_ROWS = 20
_METRICS = {"CosineSimilarity": "cosine", "RelativeEuclideanDistance": "rel. Euclid", "MaxAbsoluteError": "max abs"}
WORDS = {PASS: "pass", FAIL: "FAIL", NOT_COMPARED: "not compared", EXPECTED_ABSENT: "absent"}
_URGENCY = {FAIL: 0, NOT_COMPARED: 1, PASS: 2, EXPECTED_ABSENT: 3}
COLOURS = {FAIL: "31", NOT_COMPARED: "33", PASS: "32", EXPECTED_ABSENT: "2"}
_TENSOR_WIDTH = 44
_LEAST_TENSOR = 18
_LEAST_REASON = 24
_BELOW = "     "


def render_table(
    blocks: Sequence[Iterable[Row]],
    total: Optional[int] = None,
    file: str = "",
    first_tensor: Optional[str] = None,
    colour: bool = False,
    width: Optional[int] = None,
    places: Sequence[Place] = (),
) -> Iterator[str]:
    """Yield the lines of the table.

    Parameters
    ----------
    blocks
        Rows in the order they shall be shown, kept in memory; between two blocks stands ``...``.
    total
        How many there are in all; None: these are all.
    file
        Where all rows are; named in the line that tells how many were left out.
    first_tensor
        The tensor of the first divergence; marked with ``>``.
    colour
        Colour the verdicts with ANSI escapes.
    width
        Columns of the terminal: names and reasons are cut to fit; where there is hardly room for reasons, they go below their rows.
        None: no line is too long.
    places
        All places of the run, where some may have no row here: of several, each stands above its rows.
    """
    parts_of = [list(rows) for rows in blocks]
    chosen = [row for rows in parts_of for row in rows]
    ends = set(accumulate(map(len, parts_of))) - {len(chosen)}
    table = [_line(row, first_tensor) for row in chosen]
    names = place_names(list(dict.fromkeys(places or [row.place for row in chosen])))
    last = ""
    headings = ["", "verdict", "tensor", *_METRICS.values(), "reason"]
    widths = [max(width_of(line[column]) for line in [headings, *table]) for column in range(len(headings))]
    shown, below = _fitted(widths, width)
    for number, line in enumerate([headings, *table]):
        if number and len(names) > 1 and names[chosen[number - 1].place] != last:
            last = names[chosen[number - 1].place]
            yield _cut(" %s:" % last, width)
        line[2] = shorten(line[2], widths[2])
        parts = [padded(cell, size) for cell, size in zip(line[:3], widths)]
        parts += [cell.rjust(size) for cell, size in zip(line[3:shown], widths[3:])]
        if colour and number:
            parts[1] = "\x1b[%sm%s\x1b[0m" % (COLOURS[chosen[number - 1].verdict], parts[1])
        if not below:
            parts.append(_cut(line[-1], None if width is None else width - sum(widths[:shown]) - 2 * shown))
        yield "  ".join(parts).rstrip()
        if below and number and line[-1]:
            yield _BELOW + _cut(line[-1], None if width is None else width - len(_BELOW))
        if number in ends:
            yield "   ..."
    if total is not None and total > len(chosen):
        others = total - len(chosen)
        yield _cut("... %s%s" % (plural(others, "more row"), " in " + printable(file) if file else ""), width)


def _fitted(widths: List[int], width: Optional[int]) -> Tuple[int, bool]:
    """Make the tensors' column as narrow as need be; return how many columns are shown before the reason, and whether that goes below."""
    shown = len(widths) - 1
    if width is None:
        return shown, False
    room = width - sum(widths[:shown]) - 2 * shown
    if room >= min(_LEAST_REASON, widths[-1]):
        return shown, False
    least = min(_LEAST_TENSOR, widths[2])
    while shown > 3 and sum(widths[:shown]) - widths[2] + least + 2 * (shown - 1) > width:
        shown -= 1
    others = sum(widths[:shown]) - widths[2] + 2 * (shown - 1)
    widths[2] = max(least, min(widths[2], width - others))
    return shown, True


class Chosen:
    """The rows that matter first, of any number: failing ones before those not compared, before the others; earlier before later.

    Parameters
    ----------
    most
        Keep at most so many.

    Attributes
    ----------
    total
        How many rows were seen.
    """

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._heap: List[Tuple[int, int, int]] = []

    def add_all(self, verdicts: Sequence[str], numbers: Sequence[int]) -> None:
        """See more rows, by the numbers that the store has them under, in the order of the table."""
        if self._heap and len(self._heap) == self._most and all(-_URGENCY[verdict] <= self._heap[0][0] for verdict in set(verdicts)):
            self.total += len(verdicts)
            return
        for verdict, number in zip(verdicts, numbers):
            self.add(verdict, number)

    def add(self, verdict: str, number: int) -> None:
        """See one more row."""
        urgency = -_URGENCY[verdict]
        self.total += 1
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, (urgency, -self.total, number))
        elif self._heap and urgency > self._heap[0][0]:
            heapq.heapreplace(self._heap, (urgency, -self.total, number))

    @property
    def numbers(self) -> List[int]:
        """The numbers of the rows that were kept, in their order."""
        return [number for _, _, number in sorted(self._heap, key=lambda entry: -entry[1])]


def _line(row: Row, first_tensor: Optional[str]) -> List[str]:
    values = [row.metrics.get(name) for name in _METRICS]
    numbers = ["-" if value is None else short_text(metric_number(value)) for value in values]
    mark = ">" if first_tensor is not None and row.tensor == first_tensor and row.verdict == FAIL else ""
    return [mark, WORDS[row.verdict], shorten(printable(row.tensor), _TENSOR_WIDTH), *numbers, printable(row.reason)]


def _cut(text: str, room: Optional[int]) -> str:
    return text if room is None else cut(text, room)
