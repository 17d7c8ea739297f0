"""What became of each device × model × step: a line each, the worst first; of a run with several
steps a line each, the first that diverges first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import Counter as Counts
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from ..base.fast_dataclasses import dataclass
from ..base.naming import printable
from ..base.shortening import LONGEST, cut, padded, shorten_all, width_of, wrap
from ..base.wording import listed, plural
from ..dumps.place import Place, name_order
from ..metrics.row import FAIL, NOT_COMPARED, PASS
from .terminal_table import COLOURS, WORDS, place_names

_MOST_LINES = 100
_MOST_STEPS = 5
_MOST_NAMED = 4
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


def step_lines(
    places: Sequence[PlaceCounts], colour: bool = False, width: Optional[int] = None
) -> Iterator[str]:
    """Yield a line for each step with rows that do not pass, the earliest first; of many steps the
    first ones. A last line counts the others. Parameters as for :func:`place_lines`.
    """
    by_step: Dict[Optional[str], List[PlaceCounts]] = {}
    for one in places:
        by_step.setdefault(one.place.step, []).append(one)
    steps = sorted(by_step, key=name_order)
    bad = [step for step in steps if any(one.verdict != PASS for one in by_step[step])]
    bad.sort(key=lambda step: (not _fails(by_step[step]), name_order(step)))
    if not bad:
        word = "\x1b[%sm%s\x1b[0m" % (COLOURS[PASS], WORDS[PASS]) if colour else WORDS[PASS]
        yield "  %s  all rows of %s" % (word, plural(len(steps), "step"))
        return
    several = len({one.place.device_name for one in places}) > 1
    shown = [_step_text(step, by_step[step], several) for step in bad[:_MOST_STEPS]]
    most = max([len(WORDS[verdict]) for verdict, _, _ in shown] + [len(WORDS[PASS])])
    firsts = [first for _, _, first in shown if first is not None]
    rooms = [
        LONGEST if width is None else width - 4 - most - width_of(rest) - len(_FIRST)
        for _, rest, _ in shown
    ]
    # As in place_lines: different tensors stay different.
    least = min((room for room in rooms if room >= _LEAST_NAME), default=LONGEST)
    short = shorten_all(map(printable, firsts), least)
    for (verdict, rest, first), room in zip(shown, rooms):
        if first is not None and room >= _LEAST_NAME:
            rest += _FIRST + short[printable(first)]
        word = WORDS[verdict].ljust(most)
        word = "\x1b[%sm%s\x1b[0m" % (COLOURS[verdict], word) if colour else word
        yield "  %s  %s" % (word, rest if width is None else cut(rest, width - 4 - most))
    others = bad[_MOST_STEPS:]
    passing = len(steps) - len(bad)
    counted = []
    if others:
        failing = sum(_fails(by_step[step]) for step in others)
        counted.append(
            "%s, %d of them with failing rows" % (plural(len(others), "more step"), failing)
        )
    if passing:
        counted.append("all rows of %s pass" % plural(passing, "other step"))
    if counted:
        text = "  ... " + "; ".join(counted)
        yield from [text] if width is None else wrap(text, width, "    ")


def _fails(places: Sequence[PlaceCounts]) -> bool:
    return any(one.counts[FAIL] for one in places)


def _step_text(
    step: Optional[str], places: Sequence[PlaceCounts], several: bool
) -> Tuple[str, str, Optional[str]]:
    """Return a step's verdict, its counts with the devices that they are of, and its first failing
    tensor.
    """
    total = sum(sum(one.counts.values()) for one in places)
    counts = {
        verdict: sum(one.counts[verdict] for one in places) for verdict in (FAIL, NOT_COMPARED)
    }
    verdict = FAIL if counts[FAIL] else NOT_COMPARED
    which = [one for one in places if one.counts[verdict]]
    devices = sorted({one.place.device_name or "?" for one in which}, key=name_order)
    text = "step %s  " % printable(step or "?")
    text += (
        "%d of %d fail" % (counts[FAIL], total)
        if counts[FAIL]
        else "%d of %d not compared" % (counts[NOT_COMPARED], total)
    )
    if counts[FAIL] and counts[NOT_COMPARED]:
        text += ", %d not compared" % counts[NOT_COMPARED]
    if several:
        word = "device" if len(devices) == 1 else "devices"
        text += " on %s %s" % (word, listed(list(map(printable, devices)), _MOST_NAMED))
    first = min(
        (one for one in which if one.first is not None),
        key=lambda one: one.place.order(),
        default=None,
    )
    return verdict, text, None if first is None else first.first


def _counts_text(one: PlaceCounts) -> str:
    total, counts = sum(one.counts.values()), one.counts
    parts = ["%d of %d fail" % (counts[FAIL], total) if counts[FAIL] else "%d rows" % total]
    if counts[NOT_COMPARED]:
        parts.append("%d not compared" % counts[NOT_COMPARED])
    return ", ".join(parts)
