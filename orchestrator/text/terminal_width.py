"""How many columns of a terminal a text takes, and text made to fit: Chinese, Japanese and Korean
characters take two.
"""

from __future__ import annotations

import re
import unicodedata
from typing import List

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
