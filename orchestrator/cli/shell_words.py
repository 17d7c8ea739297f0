"""Commands to copy: words quoted for a shell, in lines that fit and together are one command."""

from __future__ import annotations

import shlex
from typing import List, Sequence

from ..base.naming import printable
from ..base.shortening import left, width_of

_INDENT = 4


def shell_word(word: str) -> str:
    """Return a word quoted for bash and zsh; control characters are written as ``$'\x0a'``."""
    if printable(word) == word:
        return shlex.quote(word)
    shown = {"\\": "\\\\", "'": "\\'"}
    for letter in {letter for letter in word if printable(letter) != letter}:
        shown[letter] = "".join(
            "\\x%02x" % byte for byte in letter.encode("utf-8", "surrogateescape")
        )
    return "$'%s'" % "".join(shown.get(letter, letter) for letter in word)


def command_words(
    names: Sequence[str], operands: Sequence[str], options: Sequence[str]
) -> List[str]:
    """Return the words of a command, unquoted: options last, or before ``--`` where an operand
    looks like an option.
    """
    if any(operand.startswith("-") for operand in operands):
        return [*names, *options, "--", *operands]
    return [*names, *operands, *options]


def shell_lines(head: str, words: Sequence[str], width: int) -> List[str]:
    """Return a command in lines that a shell takes as one, none longer than ``width`` except for
    long quoted words.

    An option stays with its value, and a path that takes more than a line is broken behind a ``/``
    where it can.

    Parameters
    ----------
    words
        Unquoted.
    """
    width = max(width, _INDENT + 2)  # otherwise the line would not become shorter
    lines: List[str] = []
    for part in [head, *_parts(list(map(shell_word, words)), width - 2 - _INDENT)]:
        if lines and width_of(lines[-1]) + 1 + width_of(part) <= width - 2:
            lines[-1] += " " + part
            continue
        if lines:
            lines[-1] += " \\"
        lines.append(" " * _INDENT * bool(lines) + part)
        # A head without a path is a word or two.
        breaks = "'" not in part and (len(lines) > 1 or "/" in part)
        while breaks and width_of(lines[-1]) > width - 2:
            # A backslash within a word: the next line must begin with the rest of it.
            begin = left(lines[-1], width - 1)
            begin = begin[: begin.rfind("/", len(begin) // 2) + 1] or begin
            lines[-1:] = [begin + "\\", lines[-1][len(begin) :]]
    return lines


def _parts(words: Sequence[str], most: int) -> List[str]:
    """Return the words, an option joined with its value where both fit on a line."""
    parts: List[str] = []
    for before, word in zip(["", *words], words):
        joined, option = "%s %s" % (before, word), before.startswith("-") and before != "--"
        if (
            parts
            and parts[-1] == before
            and option
            and not word.startswith("-")
            and width_of(joined) <= most
        ):
            parts[-1] = joined
        else:
            parts.append(word)
    return parts
