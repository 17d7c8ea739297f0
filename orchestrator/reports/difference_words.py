"""A difference of two results in words: single changes, the last sentence, a comment in
Markdown.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate
from typing import Dict, List, Mapping, Optional

from ..base.naming import printable
from ..base.shortening import shorten_all
from ..judging.diagnosis.culprit_sentence import where_words
from ..judging.metric_text import metric_number
from ..metrics.row import PASS
from .difference import BETTER, KINDS, WORSE, Change, ComparedRun, Difference, Side, place_of
from .markdown import code, plain
from .row_distances import COSINE_DISTANCE

MOST_CHARACTERS = 60000
_SHOWN = 10
_MOST_NAMES = 2000
_FOR_THE_END = 300
_FOR_A_FRAME = 150
_WORDS = {"fail": "FAIL", "not_compared": "not compared"}
_MAIN = (
    "RelativeEuclideanDistance",
    COSINE_DISTANCE,
    "DifferentElements",
    "RootMeanSquareError",
    "MaxAbsoluteError",
)


def place_words(side: Side) -> str:
    """Return device, model and step as words; empty outside a tree."""
    parts = (
        ("host", side.place.host),
        ("device", side.place.device),
        ("model", side.place.model),
        ("step", side.place.step),
    )
    return ", ".join("%s %s" % part for part in parts if part[1] is not None)


def change_words(change: Change) -> str:
    """Return what changed: ``pass -> FAIL, RelativeEuclideanDistance 0.0002 -> 0.3``."""
    first, second = change.first, change.second
    if first is None or second is None:
        return _verdict(change.side) + _reason(change.side)
    metric = change.metric or next(
        (name for name in _MAIN if _apart(first.distances.get(name), second.distances.get(name))),
        None,
    )
    if metric not in first.distances or metric not in second.distances:
        metric = None
    values = (
        ""
        if metric is None
        else "%s %s -> %s"
        % (metric, number(first.distances[metric]), number(second.distances[metric]))
    )
    if first.verdict == second.verdict:
        return values + factor_words(change.factor)
    words = "%s -> %s" % (_verdict(first), _verdict(second))
    return words + (", " + values if values else _reason(second))


def _apart(first: Optional[float], second: Optional[float]) -> bool:
    """Tell whether a metric has two values that are told apart; NaN is no other value than NaN."""
    return first != second and not (first != first and second != second)


def _verdict(side: Side) -> str:
    return _WORDS.get(side.verdict, side.verdict)


def _reason(side: Side) -> str:
    return " (%s)" % side.reason if side.reason else ""


def factor_words(factor: Optional[float]) -> str:
    """Return a factor that tells something: `` (12 times)``, `` (a 12th)`` is told by the values
    themselves.
    """
    return " (%s times)" % number(factor) if factor is not None and 1 < factor < math.inf else ""


def number(value: float) -> str:
    """Return a distance with three digits that count."""
    return "NaN" if math.isnan(value) else "%.3g" % value


def counts_words(difference: Difference) -> str:
    """Return the last sentence."""
    return "; ".join(filter(None, (_counts(difference), unfinished_words(difference))))


def unfinished_words(difference: Difference) -> str:
    """Return which run is not finished, and what to do; empty where both are."""
    runs = [run.out for run in difference.unfinished]
    if not runs:
        return ""
    return "%s not finished, so rows may be missing: compare %s to the end, then compare again" % (
        " and ".join(runs) + (" is" if len(runs) == 1 else " are"),
        "it" if len(runs) == 1 else "them",
    )


def _counts(difference: Difference) -> str:
    if not difference.same_model:
        words = (
            "not the same model: of the tensors of the run that has fewer, less than half are in "
            "the other one"
        )
        return (
            words
            if difference.first.rows and difference.second.rows
            else "nothing to compare: one of the runs has no rows"
        )
    if difference.apart:
        return "not comparable, no row of one run has its like in the other: %s" % difference.apart
    counts = ", ".join("%d %s" % (len(difference.changes[kind]), kind) for kind in KINDS)
    same = difference.joined - len(difference.changes[WORSE]) - len(difference.changes[BETTER])
    return "%s; %d of %d are as before" % (counts, same, difference.joined)


def head_words(difference: Difference) -> str:
    """Return what it comes to in a few words: the second run's own verdict and what became worse,
    the bad news first.
    """
    if difference.comparable and difference.changes[WORSE] and difference.second.verdict == PASS:
        return "%s (the run itself passes)" % worse_words(difference)
    return "%s; %s" % (verdict_words(difference.second), worse_words(difference))


def worse_words(difference: Difference) -> str:
    """Return how much became worse, in a few words."""
    if not difference.comparable:
        return "not comparable" if difference.same_model else "not the same model"
    worse = len(difference.changes[WORSE])
    words = "%d worse than before" % worse if worse else "nothing is worse than before"
    return words + (" so far, a run is not finished" if difference.unfinished else "")


def verdict_words(run: ComparedRun) -> str:
    """Return a run's own verdict."""
    verdict = _WORDS.get(run.verdict, run.verdict)
    return verdict if run.finished else "%s so far" % verdict


def first_words(run: ComparedRun) -> str:
    """Return where a run is outside its limits first, or why nothing is said of it."""
    first = run.first_divergence
    if first is None:
        return (
            "no operator is outside its limits"
            if run.verdict == PASS
            else "no operator is known to be outside its limits"
        )
    numbers = [
        "%.6g" % metric_number(first[name])
        for name in ("value", "limit")
        if first[name] is not None
    ]
    limit_words = ": %s %s, limit %s" % (first["metric"], *numbers) if len(numbers) == 2 else ""
    return "the first operator outside its limits is %s%s (%s%s)" % (
        first["op"],
        where_words(place_of(first)),
        first["tensor"],
        limit_words,
    )


def run_words(run: ComparedRun) -> str:
    """Return the verdict of a run and where it is outside its limits first, as the end of a
    line.
    """
    return "%s: %s" % (verdict_words(run), first_words(run))


def markdown(difference: Difference) -> str:
    """Return a comment of at most 60,000 characters: counts, the ten worst changes, the rest
    folded; what is left out is counted.
    """
    parts = ["## goldwatch diff: %s\n" % head_words(difference)]
    for name, run in (("before", difference.first), ("after", difference.second)):
        parts.append("- %s %s %s\n" % (name, code(run.out), plain(run_words(run))))
    parts.append(plain(counts_words(difference)) + "\n")
    parts += [plain(difference.raised.sentence) + "\n"] if difference.raised is not None else []
    parts += ["- %s\n" % plain(note) for note in difference.notes]
    lines = {kind: _lines(difference.changes[kind]) for kind in KINDS if difference.changes[kind]}
    room = (
        MOST_CHARACTERS
        - sum(len(part) + 1 for part in parts)
        - _FOR_THE_END
        - len(lines) * _FOR_A_FRAME
    )
    shown = _shared(lines, room)
    for kind, table in lines.items():
        text = "\n".join([_HEADING, *table[: shown[kind]]])
        frame = _PLAIN if kind == WORSE and shown[kind] <= _SHOWN else _FOLDED
        parts.append(frame % (len(difference.changes[kind]), kind, text))
    left = [
        "%d %s" % (len(difference.changes[kind]) - shown[kind], kind)
        for kind in lines
        if shown[kind] < len(difference.changes[kind])
    ]
    if left:
        parts.append(
            "Left out for want of room: %s. The JSON document has everything.\n" % ", ".join(left)
        )
    return "\n".join(parts)


_HEADING = "| tensor | place | change |\n|---|---|---|"
_PLAIN = "### %d %s\n\n%s\n"
_FOLDED = "<details>\n<summary>%d %s</summary>\n\n%s\n\n</details>\n"


def _lines(changes: List[Change]) -> List[str]:
    """Return the lines of a table, more than there can be room for."""
    changes = changes[:_MOST_NAMES]
    names = shorten_all(printable(change.side.tensor) for change in changes)
    return ["| %s | %s | %s |" % (
        code(names[printable(change.side.tensor)], table=True), plain(place_words(change.side)),
        plain(change_words(change)),
    ) for change in changes]  # fmt: skip


def _shared(lines: Mapping[str, List[str]], room: int) -> Dict[str, int]:
    """Return how many lines of each kind there is room for: each kind has its share, and the first
    ones what others leave over.
    """
    needed = {kind: sum(len(line) + 1 for line in table) for kind, table in lines.items()}
    width = {kind: min(needed[kind], room // len(lines)) for kind in lines}
    shown = {}
    for kind, table in lines.items():
        spare = room - sum(width.values())
        used = list(accumulate(len(line) + 1 for line in table))
        shown[kind] = bisect_right(used, width[kind] + spare)
        width[kind] = used[shown[kind] - 1] if shown[kind] else 0
    return shown
