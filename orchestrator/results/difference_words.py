"""A difference of two results in words: single changes, the last sentence, a comment in Markdown."""

from __future__ import annotations

import math
from typing import List, Mapping, Optional

from ..naming import printable
from ..shortening import shorten_all
from .difference import BETTER, KINDS, VANISHED, WORSE, Change, Difference, Side
from .distances import COSINE_DISTANCE
from .mdtext import code, plain

MOST_CHARACTERS = 60000
_SHOWN = 10
_MOST_NAMES = 2000
_WORDS = {"fail": "FAIL", "not_compared": "not compared"}
_MAIN = ("RelativeEuclideanDistance", COSINE_DISTANCE, "DifferentElements", "RootMeanSquareError", "MaxAbsoluteError")


def place_words(side: Side) -> str:
    """Return device, model and step as words; empty outside a tree."""
    parts = (("host", side.place.host), ("device", side.place.device), ("model", side.place.model), ("step", side.place.step))
    return ", ".join("%s %s" % part for part in parts if part[1] is not None)


def change_words(change: Change) -> str:
    """Return what changed: ``pass -> FAIL, RelativeEuclideanDistance 0.0002 -> 0.3``."""
    first, second = change.first, change.second
    if first is None or second is None:
        return _verdict(change.side) + _reason(change.side)
    metric = change.metric or next((name for name in _MAIN if first.distances.get(name) != second.distances.get(name, math.nan)), None)
    if metric not in first.distances or metric not in second.distances:
        metric = None
    values = "" if metric is None else "%s %s -> %s" % (metric, number(first.distances[metric]), number(second.distances[metric]))
    if first.verdict == second.verdict:
        return values + factor_words(change.factor)
    words = "%s -> %s" % (_verdict(first), _verdict(second))
    return words + (", " + values if values else _reason(second))


def _verdict(side: Side) -> str:
    return _WORDS.get(side.verdict, side.verdict)


def _reason(side: Side) -> str:
    return " (%s)" % side.reason if side.reason else ""


def factor_words(factor: Optional[float]) -> str:
    """Return a factor that tells something: `` (12 times)``, `` (a 12th)`` is told by the values themselves."""
    return " (%s times)" % number(factor) if factor is not None and 1 < factor < math.inf else ""


def number(value: float) -> str:
    """Return a distance with three digits that count."""
    return "NaN" if math.isnan(value) else "%.3g" % value


def counts_words(found: Difference) -> str:
    """Return the last sentence."""
    if not found.same_model:
        words = "not the same model: of the tensors of the run that has fewer, less than half are in the other one"
        return words if found.first.rows and found.second.rows else "nothing to compare: one of the runs has no rows"
    if found.apart:
        return "not comparable, no row of one run has its like in the other: %s" % found.apart
    counts = ", ".join("%d %s" % (len(found.changes[kind]), kind) for kind in KINDS)
    same = found.joined - len(found.changes[WORSE]) - len(found.changes[BETTER])
    return "%s; %d of %d are as before" % (counts, same, found.joined)


def head_words(found: Difference) -> str:
    """Return what it comes to in a few words."""
    if not found.comparable:
        return "not comparable" if found.same_model else "not the same model"
    worse = len(found.changes[WORSE])
    return "%d worse" % worse if worse else "nothing is worse"


def markdown(found: Difference) -> str:
    """Return a comment of at most 60,000 characters: counts, the ten worst changes, the rest folded; what is left out is counted."""
    parts = ["## goldwatch diff: %s\n" % head_words(found)]
    parts += ["%s compared with %s.\n" % (code(found.second.out), code(found.first.out)), plain(counts_words(found)) + "\n"]
    parts += ["- %s\n" % plain(note) for note in found.notes]
    room = MOST_CHARACTERS - sum(map(len, parts)) - 500
    left: List[str] = []
    for kind in KINDS:
        changes = found.changes[kind]
        names = shorten_all(printable(change.side.tensor) for change in changes[:_MOST_NAMES])
        shown = _table(changes[:_MOST_NAMES], names, room // 2 if kind != VANISHED else room)
        if not changes:
            continue
        title = "%d %s" % (len(changes), kind)
        table = "\n".join([_HEADING, *shown])
        folded = kind != WORSE or len(shown) > _SHOWN
        parts.append(
            "<details>\n<summary>%s</summary>\n\n%s\n\n</details>\n" % (title, table) if folded else "### %s\n\n%s\n" % (title, table)
        )
        room -= len(parts[-1])
        if len(shown) < len(changes):
            left.append("%d %s" % (len(changes) - len(shown), kind))
    if left:
        parts.append("Left out for want of room: %s. The JSON document has everything.\n" % ", ".join(left))
    return "\n".join(parts)


_HEADING = "| tensor | place | change |\n|---|---|---|"


def _table(changes: List[Change], names: Mapping[str, str], room: int) -> List[str]:
    lines = []
    for change in changes:
        side = change.side
        line = "| %s | %s | %s |" % (code(names[printable(side.tensor)], table=True), plain(place_words(side)), plain(change_words(change)))
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return lines
