"""What became of each device × model × step: a line each, the worst first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Counter as Counts
from typing import Iterable, Iterator, List, Optional, Sequence

from ..dumps.place import Place
from ..metrics.row import FAIL, NOT_COMPARED, PASS
from ..naming import printable
from ..text.shortening import LONGEST, shorten_all
from ..text.width import cut, padded, width_of, wrap
from .place_names import place_names
from .terminal_table import COLOURS, WORDS

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


def worst_first(places: Iterable[PlaceCounts]) -> List[PlaceCounts]:
    """Return the places with the most failing rows first, then those with rows that were not
    compared; alike as they were.
    """
    return sorted(places, key=lambda one: (-one.counts[FAIL], -one.counts[NOT_COMPARED]))


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
    names = place_names([one.place for one in places])
    if only_bad:
        places = [one for one in places if one.verdict != PASS]
        names = {one.place: names[one.place] for one in places}
    longest = max(map(width_of, names.values()), default=0)
    most = max((len(WORDS[one.verdict]) for one in places), default=0)
    room = None if width is None else width - 2 - most
    rests = [
        "  %s  %s" % (padded(names[one.place], longest), _counts_text(one))
        for one in places[:_MOST_LINES]
    ]
    rooms = [LONGEST if room is None else room - width_of(rest) - len(_FIRST) for rest in rests]
    # The first tensors of all places are cut to the same length, so that different ones stay
    # different.
    least = min((each for each in rooms if each >= _LEAST_NAME), default=LONGEST)
    firsts = shorten_all(
        (printable(one.first) for one in places[:_MOST_LINES] if one.first is not None), least
    )
    for one, rest, room_of_name in zip(places, rests, rooms):
        word = WORDS[one.verdict].ljust(most)
        if one.first is not None and room_of_name >= _LEAST_NAME:
            rest += _FIRST + firsts[printable(one.first)]
        word = "\x1b[%sm%s\x1b[0m" % (COLOURS[one.verdict], word) if colour else word
        yield "  " + word + (rest if room is None else cut(rest, room))
    others = places[_MOST_LINES:]
    if others:
        more = "  ... and %d more, %d of them with failing rows" % (
            len(others),
            sum(one.verdict == FAIL for one in others),
        )
        yield from [more] if width is None else wrap(more, width, "    ")


def _counts_text(one: PlaceCounts) -> str:
    total, counts = sum(one.counts.values()), one.counts
    parts = ["%d of %d fail" % (counts[FAIL], total) if counts[FAIL] else "%d rows" % total]
    if counts[NOT_COMPARED]:
        parts.append("%d not compared" % counts[NOT_COMPARED])
    return ", ".join(parts)
