"""Text of others in Markdown as GitHub and GitLab read it: nothing in it becomes markup, a link, a
mention or a reference.
"""

from __future__ import annotations

import re
from typing import Match

from ..naming import printable
from ..text.shortening import shorten_within

_BREAK = "&#8203;"
"""A space of no width: what stands before it and behind it is not read as one word."""

_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&$@#!%:^]|www\.|^[-+=]|^[0-9]+[.)]|GH-(?=[0-9])")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "`": "&#96;"}
_REFERENCES = "@#!%~$&^"
_HARMLESS = "@#!%^"
_OURS = re.compile(r":(?:input|output):")
_EMOJI = re.compile(r":[\w+-]+:")
_BACKTICKS = re.compile("`+")
_MOST = 2000


def plain(text: str) -> str:
    """Return text as a part of a paragraph, a list's entry or a table's cell."""
    return _SPECIAL.sub(_escaped, _clipped(shorten_within(printable(text))))


def _escaped(match: Match[str]) -> str:
    character, text = match.group(), match.string
    after = text[match.end() : match.end() + 1]
    if character == "GH-":
        return character + _BREAK
    if len(character) > 1:
        return character[:-1] + (_BREAK if character == "www." else "\\") + character[-1]
    if character == ":":
        named = _EMOJI.match(text, match.start()) and not _OURS.match(text, match.start())
        return ":" + _BREAK if named or after == "/" else ":"
    safe = character if character in _HARMLESS else _ENTITIES.get(character, "\\" + character)
    return (
        safe + _BREAK
        if character in _REFERENCES and after and (after.isalnum() or after in '"_')
        else safe
    )


def code(text: str, table: bool = False) -> str:
    """Return text as code; ``table``: in a table's cell, where a bar ends it even so."""
    text = printable(_clipped(text))
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    room = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) or not text else ""
    return fence + room + (text.replace("|", "\\|") if table else text) + room + fence


def block(text: str) -> str:
    """Return a command in a block of its own, to be copied."""
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return "%ssh\n%s\n%s\n" % (fence, printable(text), fence)


def _clipped(text: str) -> str:
    return (
        text
        if len(text) <= _MOST
        else "%s… (%d characters more)" % (text[:_MOST], len(text) - _MOST)
    )
