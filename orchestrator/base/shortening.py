"""Long names made shorter so that different ones stay different, alone, in tables and in
sentences.
"""

from __future__ import annotations

import re
import unicodedata
from os.path import commonprefix
from typing import Dict, Iterable, List, Optional, Sequence

ELLIPSIS = "..."
BREAKS = "/_.:-"
"""Behind these a name is broken rather than elsewhere."""

_WORD = re.compile(r"\s*(?:limit [<>]=? |[<>]=? )?\S+(?: %\S*)?")


def width_of(text: str) -> int:
    """Return the columns that a text without control characters takes."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def left(text: str, most: int) -> str:
    """Return as much of the beginning of a text as fits into so many columns."""
    if text.isascii():
        return text[: max(0, most)]
    used = 0
    for number, character in enumerate(text):
        used += _width(character)
        if used > most:
            return text[:number]
    return text


def right(text: str, most: int) -> str:
    """Return as much of the end of a text as fits into so many columns."""
    return left(text[::-1], most)[::-1]


def cut(text: str, most: int) -> str:
    """Return a text of at most so many columns; a longer one ends with an ellipsis."""
    return (
        text
        if width_of(text) <= most
        else left(text, most - len(ELLIPSIS)) + ELLIPSIS[: max(0, most)]
    )


def shorten(name: str, most: int) -> str:
    """Return a name of at most so many columns; a longer one has an ellipsis in the middle, as its
    end tells the tensor.
    """
    if width_of(name) <= most:
        return name
    head = left(name, most // 3)
    return head + ELLIPSIS + right(name, most - width_of(head) - len(ELLIPSIS))


def broken(name: str, most: int) -> List[str]:
    """Return a name in lines of at most so many columns, broken behind ``/``, or another of
    :data:`BREAKS`, where that fills a third.
    """
    lines = []
    while width_of(name) > most:
        piece = left(name, most) or name[:1]
        ends = (1 + max(map(piece.rfind, marks)) for marks in ("/", BREAKS))
        lines.append(piece[: next((end for end in ends if end > most // 3), None)])
        name = name[len(lines[-1]) :]
    return [*lines, name] if name or not lines else lines


def padded(text: str, width: int) -> str:
    """Return a text with blanks behind it up to so many columns."""
    return text + " " * (width - width_of(text))


def wrap(text: str, width: int, indent: str) -> List[str]:
    """Return a text in lines of at most so many columns, broken at blanks; those behind the first
    are indented. A longer word is broken.
    """
    width = max(width, width_of(indent) + 2)  # or a line would never grow shorter
    lines, line = [], ""
    for word in _WORD.findall(text):
        if width_of(line) + width_of(word) <= width:
            line += word
            continue
        if line:
            lines.append(line)
            word = indent + word.lstrip()
        line = word
        while width_of(line) > width:
            piece = left(line, width)
            lines.append(piece)
            line = indent + line[len(piece) :]
    return [*lines, line] if line or not lines else lines


LONGEST = 200
"""So many columns of a name are shown; the whole name stands in the files that are read by
programs.
"""

_NO_SPACE = re.compile(r"\S+")
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
    words = _NO_SPACE.findall(text)
    if not any(len(word) > most // 2 for word in words):
        return text
    shortened = shorten_all(map(_name, words), most)
    return _NO_SPACE.sub(
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
