"""What became of each device × model × step: a line each, the worst first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Counter as Counts
from typing import Dict, Iterator, List, Optional, Sequence

from ..columns import cut, padded, shorten, width_of
from ..comparing.row import FAIL, NOT_COMPARED, PASS, Row
from ..dumps.place import Place
from ..naming import printable
from .table import COLOURS, WORDS

_MOST_LINES = 100
_SHORT_NAME = 11
_LEAST_NAME = 8
_FIRST = ", first "
_ORDER = ("device", "step", "model", "model_id", "time")


@dataclass
class PlaceCounts:
    """The rows of one place by verdict, and the first failing tensor."""

    place: Place
    counts: Counts[str] = field(default_factory=Counter)
    first: Optional[str] = None

    @property
    def verdict(self) -> str:
        """The worst that there is."""
        return next((verdict for verdict in (FAIL, NOT_COMPARED) if self.counts[verdict]), PASS)


class ByPlace:
    """Counts rows by place as they are added in the order of the table."""

    def __init__(self) -> None:
        self._found: Dict[Place, PlaceCounts] = {}
        self._last = PlaceCounts(Place())

    def add(self, row: Row) -> None:
        """Count a row."""
        place = row.place
        if self._last.place != place or not self._found:
            self._last = self._found.setdefault(place, PlaceCounts(place))
        self._last.counts[row.verdict] += 1
        if row.verdict == FAIL and self._last.first is None:
            self._last.first = row.tensor

    @property
    def worst_first(self) -> List[PlaceCounts]:
        """The places: those with the most failing rows first, then those with rows that were not compared; alike as in the table."""
        return sorted(self._found.values(), key=lambda found: (-found.counts[FAIL], -found.counts[NOT_COMPARED]))


def place_lines(places: Sequence[PlaceCounts], colour: bool = False, width: Optional[int] = None) -> Iterator[str]:
    """Yield a line for each of several places; of a great many the first, and how many more there are.

    Parameters
    ----------
    colour
        Colour the verdicts with ANSI escapes.
    width
        Columns of the terminal; None: no line is too long.
    """
    labels = _labels([found.place for found in places])
    longest = max(map(width_of, labels), default=0)
    for found, label in list(zip(places, labels))[:_MOST_LINES]:
        word = "\x1b[%sm%s\x1b[0m" % (COLOURS[found.verdict], WORDS[found.verdict]) if colour else WORDS[found.verdict]
        room = None if width is None else width - 2 - len(WORDS[NOT_COMPARED])
        rest = "  %s  %s" % (padded(label, longest), _said(found))
        if found.first is not None:
            name, left = printable(found.first), width_of(rest) + len(_FIRST)
            rest += _FIRST + (name if room is None else shorten(name, max(_LEAST_NAME, room - left)))
        blanks = " " * (len(WORDS[NOT_COMPARED]) - len(WORDS[found.verdict]))
        yield ("  " + word + blanks + (rest if room is None else cut(rest, room))).rstrip()
    others = places[_MOST_LINES:]
    if others:
        yield "  ... and %d more, %d of them with failing rows" % (len(others), sum(found.verdict == FAIL for found in others))


def _labels(places: Sequence[Place]) -> List[str]:
    """Return what tells the places apart: device and step, and no more than need be; long names cut where that leaves them different."""
    labels: List[str] = []
    for most in (_SHORT_NAME, None):
        for count in range(2, len(_ORDER) + 1):
            names = [name for name in _ORDER[:count] if len({getattr(place, name) for place in places}) > 1]
            labels = [_label(place, names, most) for place in places]
            if len(set(labels)) == len(labels):
                return labels
    return labels


def _label(place: Place, names: Sequence[str], most: Optional[int]) -> str:
    parts = ((name, getattr(place, name)) for name in names)
    known = ((name, printable(part)) for name, part in parts if part is not None)
    return ", ".join("%s %s" % (name, part if most is None else shorten(part, most)) for name, part in known) or "no folder of a step"


def _said(found: PlaceCounts) -> str:
    total, counts = sum(found.counts.values()), found.counts
    parts = ["%d of %d rows fail" % (counts[FAIL], total) if counts[FAIL] else "%d rows" % total]
    if counts[NOT_COMPARED]:
        parts.append("%d not compared" % counts[NOT_COMPARED])
    return ", ".join(parts)
