"""Long names made shorter so that different ones stay different, alone, in tables and in
sentences.
"""

from __future__ import annotations

import re
from os.path import commonprefix
from typing import Dict, Iterable, List, Optional, Sequence

from .terminal_width import BREAKS, ELLIPSIS, left, right, shorten, width_of

LONGEST = 200
"""So many columns of a name are shown; the whole name stands in the files that are read by
programs.
"""

_WORD = re.compile(r"\S+")
_MARKS = 3
_BEFORE = 16
_BEHIND = 8
_LEAST_END = 6


def shorten_all(names: Iterable[str], most: int = LONGEST) -> Dict[str, str]:
    """Return for each name one of at most so many columns, and no two alike.

    A longer name has an ellipsis in its middle. Where others would then read the same, what differs
    is kept and ellipses stand around it: ``.../layer_4/...norm/add_1``. Where even that is too
    long, the name's number among them all stands behind it: `` #3``.
    """
    known = list(dict.fromkeys(names))
    shortened = {name: shorten(name, most) for name in known}
    heads: Dict[str, List[str]] = {}
    for name in known:
        if shortened[name] != name:
            heads.setdefault(left(name, most // 3), []).append(name)
    clashing = {name for group in _alike(shortened) for name in group}
    for group in heads.values():
        if not clashing.isdisjoint(group):
            front = len(commonprefix([min(group), max(group)]))
            shortened.update(
                (name, _window(name, front, front + 1, most) or shortened[name]) for name in group
            )
    for group in _alike(shortened):
        shortened.update(_around(group, most))
    numbers = {name: number for number, name in enumerate(known, 1)}
    for group in _alike(shortened):
        for name in group:
            tag = " #%d" % numbers[name]
            shortened[name] = shorten(name, most - len(tag)) + tag
    return shortened


def shorten_within(text: str, most: int = LONGEST) -> str:
    """Return a text in which no word, such as a name, takes more than so many columns; different
    words stay different.
    """
    words = _WORD.findall(text)
    if not any(len(word) > most // 2 for word in words):
        return text
    shortened = shorten_all(map(_name, words), most)
    return _WORD.sub(
        lambda match: match.group().replace(
            _name(match.group()), shortened[_name(match.group())], 1
        ),
        text,
    )


def _name(word: str) -> str:
    """Return a word without the mark before it and the few behind it, of which a hostile name may
    consist.
    """
    return word[word.startswith("(") : -_MARKS] + word[-_MARKS:].rstrip(".,;:)")


def _alike(windows: Dict[str, str]) -> List[List[str]]:
    """Return the names that were cut and read like others, together; one that is whole stays."""
    groups: Dict[str, List[str]] = {}
    for name, short in windows.items():
        groups.setdefault(short, []).append(name)
    return [
        [name for name in group if windows[name] != name]
        for group in groups.values()
        if len(group) > 1
    ]


def _around(group: Sequence[str], most: int) -> Dict[str, str]:
    """Return each of these names with all that tells it from the others in sight, where there is
    room for that.
    """
    ordered = sorted(group)
    alike = [0, *(len(commonprefix(pair)) for pair in zip(ordered, ordered[1:])), 0]
    front = len(commonprefix([ordered[0], ordered[-1]]))
    windows = (
        (name, _window(name, front, 1 + max(alike[at : at + 2]), most))
        for at, name in enumerate(ordered)
    )
    return {name: short for name, short in windows if short is not None}


def _window(name: str, first: int, last: int, most: int) -> Optional[str]:
    """Return a name of which the letters from ``first`` to ``last`` and the end are in sight; None
    where these take too much room.
    """
    nearest = (name.rfind(marks, max(0, first - _BEFORE), first + 1) for marks in ("/", *BREAKS))
    mark = next((at for at in nearest if at >= 0), first - 4)
    start = mark if mark > len(ELLIPSIS) else 0
    end = next(
        (at for at in range(last, min(len(name), last + _BEHIND)) if not name[at].isalnum()), last
    )
    head = (ELLIPSIS if start else "") + name[start:end]
    room = most - width_of(head) - len(ELLIPSIS)
    if width_of(name[end:]) <= room + len(ELLIPSIS):
        return head + name[end:]
    return head + ELLIPSIS + right(name[end:], room) if room >= _LEAST_END else None
