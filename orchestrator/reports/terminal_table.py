"""The result table for a terminal: plain aligned text, the rows that matter first."""

from __future__ import annotations

from itertools import accumulate
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Sequence

import numpy as np

from ..base.naming import printable
from ..base.shortening import LONGEST, broken, cut, padded, shorten, shorten_all, width_of, wrap
from ..base.wording import plural
from ..dumps.place import Place
from ..dumps.tensor_statistics import LEAST, MEAN, NOT_FINITE, RANGE
from ..judging.metric_text import metric_number, short_text
from ..metrics.row import (
    COUNT,
    EXPECTED_ABSENT,
    FAIL,
    IOU,
    MATCHED,
    NOT_COMPARED,
    PASS,
    STRETCHES,
    TOP1,
    TOP5,
    ULPS,
    VERDICTS,
    Row,
)

_SHORT_NAME = 11
_ORDER = ("host", "device", "step", "model", "model_id", "time")


def place_names(places: Sequence[Place]) -> Dict[Place, str]:
    """Return for each place host, device and step, and no more than need be; long names cut where
    that leaves them different.
    """
    labels: List[str] = []
    for most in (_SHORT_NAME, None):
        for count in range(3, len(_ORDER) + 1):
            names = [
                name
                for name in _ORDER[:count]
                if len({getattr(place, name) for place in places}) > 1
            ]
            labels = [_label(place, names, most) for place in places]
            if len(set(labels)) == len(labels):
                return dict(zip(places, labels))
    return dict(zip(places, labels))


def _label(place: Place, names: Sequence[str], most: Optional[int]) -> str:
    parts = ((name, getattr(place, name)) for name in names)
    known = ((name, printable(part)) for name, part in parts if part is not None)
    return (
        ", ".join(
            "%s %s" % (name, part if most is None else shorten(part, most)) for name, part in known
        )
        or "no folder of a step"
    )


SHOWN_ROWS = 20
_METRICS = {
    "CosineSimilarity": "cosine",
    "RelativeEuclideanDistance": "rel. Euclid",
    "MaxAbsoluteError": "max abs",
}
_OF_STATISTICS = {LEAST: "least dist.", MEAN: "mean", RANGE: "range"}
_AGREEMENT = {TOP1: "top-1", TOP5: "top-5", MATCHED: "boxes", IOU: "IoU"}
_EXACT_METRICS = {COUNT: "differ", ULPS: "ulps", STRETCHES: "stretches"}
WORDS = {PASS: "pass", FAIL: "FAIL", NOT_COMPARED: "not compared", EXPECTED_ABSENT: "absent"}
COLOURS = {FAIL: "31", NOT_COMPARED: "33", PASS: "32", EXPECTED_ABSENT: "2"}
_NAME_LINES = _REASON_LINES = 3
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
        Columns of the terminal: reasons take up to three lines; where there is hardly room for
        them, they go below their rows, and where there is none for the names, these have lines of
        their own. None: no line is too long.
    places
        All places of the run, where some may have no row here: of several, each stands above its
        rows.
    """
    parts_of = [list(rows) for rows in blocks]
    chosen = [row for rows in parts_of for row in rows]
    ends = set(accumulate(map(len, parts_of))) - {len(chosen)}
    metrics = shown_metrics(chosen)
    table = [_line(row, first_tensor, metrics) for row in chosen]
    names = place_names(list(dict.fromkeys(places or [row.place for row in chosen])))
    last = ""
    headings = ["", "verdict", "tensor", *metrics.values(), "reason"]
    layout = _Layout([headings, *table], width)
    for number, line in enumerate([headings, *table]):
        if number and len(names) > 1 and names[chosen[number - 1].place] != last:
            last = names[chosen[number - 1].place]
            yield _cut(" %s:" % last, width)
        yield from layout.lines(
            line,
            COLOURS[chosen[number - 1].verdict] if colour and number else None,
            heading=not number,
        )
        if number in ends:
            yield "   ..."
    if total is not None and total > len(chosen):
        others = total - len(chosen)
        yield _cut(
            "... %s%s" % (plural(others, "more row"), " in " + printable(file) if file else ""),
            width,
        )


def shown_metrics(rows: Sequence[Row]) -> Mapping[str, str]:
    """Return the metrics that tell most about rows, each with its heading."""
    names = {name for row in rows for name in row.metrics}
    agreement = {name: heading for name, heading in _AGREEMENT.items() if name in names}
    return (
        _EXACT_METRICS
        if COUNT in names
        else _OF_STATISTICS
        if NOT_FINITE in names
        else {**_METRICS, **agreement}
    )


class _Layout:
    """How a table's cells (mark, verdict, name, numbers, reason) stand in the columns there are.

    Names are whole, but for those of hundreds of letters: one that is wider than its column has a
    line of its own, or several.
    """

    def __init__(self, table: Sequence[Sequence[str]], width: Optional[int]) -> None:
        self._width = width
        self._names = shorten_all(line[2] for line in table)
        columns = zip(*([*line[:2], self._names[line[2]], *line[3:]] for line in table))
        self._widths = [max(map(width_of, column)) for column in columns]
        self._shown = len(self._widths) - 1
        self._below = (
            width is not None and self._before() + min(_LEAST_REASON, self._widths[-1]) > width
        )
        self._indent = sum(self._widths[:2]) + 4
        if width is None or not self._below:
            return
        longest = self._widths[2]
        self._widths[2] = min(_LEAST_TENSOR, longest)
        while self._shown > 3 and self._before() - 2 > width:
            self._shown -= 1
        self._widths[2] = max(
            self._widths[2], min(longest, width - self._before() + 2 + self._widths[2])
        )
        self._room = max(_LEAST_TENSOR, width - self._indent)
        self._names = shorten_all(
            (line[2] for line in table),
            max(self._widths[2], min(LONGEST, _NAME_LINES * self._room)),
        )

    def _before(self) -> int:
        """Return the columns of a line before the reason."""
        return sum(self._widths[: self._shown]) + 2 * self._shown

    def lines(self, line: Sequence[str], colour: Optional[str], heading: bool) -> Iterator[str]:
        """Yield the lines of a row, or of the headings, of which that of a reason that stands below
        is left out.
        """
        parts = [
            padded(cell, size)
            for cell, size in zip([*line[:2], self._names[line[2]]], self._widths)
        ]
        if colour is not None:
            parts[1] = "\x1b[%sm%s\x1b[0m" % (colour, parts[1])
        if width_of(parts[2]) > self._widths[2]:
            first, *others = broken(parts[2], self._room)
            last = others.pop() if others and width_of(others[-1]) <= self._widths[2] else ""
            yield "  ".join([*parts[:2], first])
            for piece in others:
                yield " " * self._indent + piece
            parts = [" " * self._indent + padded(last, self._widths[2])]
        parts += [cell.rjust(size) for cell, size in zip(line[3 : self._shown], self._widths[3:])]
        indent = len(_BELOW) if self._below else self._before()
        reason = _few_lines(line[-1], None if self._width is None else self._width - indent)
        if not self._below:
            parts.append(reason.pop(0))
        yield "  ".join(parts).rstrip()
        for piece in reason if line[-1] and not heading else []:
            yield " " * indent + piece


def most_urgent(verdicts: np.ndarray, most: int) -> np.ndarray:
    """Return where the rows that matter first stand, int64, at most so many, rising: failing ones
    before those not compared, before the others; earlier before later.

    Parameters
    ----------
    verdicts
        Numbers in :data:`goldwatch.metrics.row.VERDICTS`, [n].
    """
    codes = map(VERDICTS.index, (FAIL, NOT_COMPARED, PASS, EXPECTED_ABSENT))
    at = np.concatenate([np.flatnonzero(verdicts == code) for code in codes])
    return np.sort(at[:most])


def _line(row: Row, first_tensor: Optional[str], metrics: Mapping[str, str]) -> List[str]:
    values = [(name, row.metrics.get(name)) for name in metrics]
    numbers = [
        "-" if value is None else _number(name, metric_number(value)) for name, value in values
    ]
    mark = (
        ">"
        if first_tensor is not None and row.tensor == first_tensor and row.verdict == FAIL
        else ""
    )
    return [mark, WORDS[row.verdict], printable(row.tensor), *numbers, printable(row.reason)]


def _number(name: str, value: float) -> str:
    """Return a metric as :func:`short_text`, one that counts without a point."""
    return "%d" % value if name in _EXACT_METRICS and value == value else short_text(value)


def _few_lines(text: str, room: Optional[int]) -> List[str]:
    """Return a text in lines, of which the last is cut where there would be more than some."""
    if room is None:
        return [text]
    lines = wrap(text, room, "")
    return (
        lines
        if len(lines) <= _REASON_LINES
        else [*lines[: _REASON_LINES - 1], cut(" ".join(lines[_REASON_LINES - 1 :]), room)]
    )


def _cut(text: str, room: Optional[int]) -> str:
    return text if room is None else cut(text, room)
