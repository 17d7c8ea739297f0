"""What became of each device × model × step: a line each, the worst first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Counter as Counts
from typing import Dict, Iterator, List, Optional, Sequence

from ..diagnosis.row_digest import RowDigest
from ..dumps.place import Place
from ..metrics.row import FAIL, NOT_COMPARED, PASS
from ..naming import printable
from ..text.columns import cut, padded, width_of, wrap
from ..text.shortening import LONGEST, shorten_all
from .placenames import place_names
from .table import COLOURS, WORDS

_MOST_LINES = 100
_LEAST_NAME = 12
_FIRST = ", first "


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

    def add_all(self, place: Place, rows: Sequence[RowDigest]) -> None:
        """Count rows of one place."""
        found = self._found.setdefault(place, PlaceCounts(place))
        found.counts.update([row.verdict for row in rows])
        if found.first is None and found.counts[FAIL]:
            found.first = next(row.observation.tensor for row in rows if row.verdict == FAIL)

    @property
    def worst_first(self) -> List[PlaceCounts]:
        """The places: those with the most failing rows first, then those with rows that were not
        compared; alike as in the table.
        """
        return sorted(
            self._found.values(),
            key=lambda found: (-found.counts[FAIL], -found.counts[NOT_COMPARED]),
        )


def place_lines(
    places: Sequence[PlaceCounts],
    colour: bool = False,
    width: Optional[int] = None,
    only_bad: bool = False,
) -> Iterator[str]:
    """Yield a line for each of several places; of a great many the first, and how many more there
    are.

    Parameters
    ----------
    colour
        Colour the verdicts with ANSI escapes.
    width
        Columns of the terminal; None: no line is too long.
    only_bad
        Leave out those of which all rows pass.
    """
    names = place_names([found.place for found in places])
    if only_bad:
        places = [found for found in places if found.verdict != PASS]
        names = {found.place: names[found.place] for found in places}
    longest = max(map(width_of, names.values()), default=0)
    most = max((len(WORDS[found.verdict]) for found in places), default=0)
    room = None if width is None else width - 2 - most
    rests = [
        "  %s  %s" % (padded(names[found.place], longest), _said(found))
        for found in places[:_MOST_LINES]
    ]
    rooms = [LONGEST if room is None else room - width_of(rest) - len(_FIRST) for rest in rests]
    # The first tensors of all places are cut to the same length, so that different ones stay
    # different.
    least = min((each for each in rooms if each >= _LEAST_NAME), default=LONGEST)
    firsts = shorten_all(
        (printable(found.first) for found in places[:_MOST_LINES] if found.first is not None), least
    )
    for found, rest, own in zip(places, rests, rooms):
        word = WORDS[found.verdict].ljust(most)
        if found.first is not None and own >= _LEAST_NAME:
            rest += _FIRST + firsts[printable(found.first)]
        word = "\x1b[%sm%s\x1b[0m" % (COLOURS[found.verdict], word) if colour else word
        yield "  " + word + (rest if room is None else cut(rest, room))
    others = places[_MOST_LINES:]
    if others:
        more = "  ... and %d more, %d of them with failing rows" % (
            len(others),
            sum(found.verdict == FAIL for found in others),
        )
        yield from [more] if width is None else wrap(more, width, "    ")


def _said(found: PlaceCounts) -> str:
    total, counts = sum(found.counts.values()), found.counts
    parts = ["%d of %d fail" % (counts[FAIL], total) if counts[FAIL] else "%d rows" % total]
    if counts[NOT_COMPARED]:
        parts.append("%d not compared" % counts[NOT_COMPARED])
    return ", ".join(parts)
