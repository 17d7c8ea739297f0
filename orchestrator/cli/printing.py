"""Printing on stdout and stderr, for every command: documents, lines, messages and the log.

Names of ops, files and types come from files that anybody may have made: here is the only place
that prints.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import sys
from typing import Any, Iterable, List, Optional, Sequence

from ..base.naming import printable
from ..base.notes import Note
from ..base.safe_reading import open_input
from ..base.shortening import cut, shorten_within, width_of, wrap
from .shell_words import shell_lines

_WINDOW_BYTES = 1 << 20
_COLUMNS = 80


def set_up_logging(quiet: bool, verbose: int, timed: bool = False) -> None:
    """Send the ``goldwatch`` logger to stderr at the level the user chose; ``timed``: each line
    with its time.
    """
    level = (
        logging.ERROR if quiet else (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Escaped(
            "%(asctime)s %(levelname)s: %(message)s" if timed else "%(levelname)s: %(message)s"
        )
    )
    logging.basicConfig(handlers=[handler], level=level)


class _Escaped(logging.Formatter):
    """A log formatter that escapes control characters and writes times in ISO 8601."""

    def formatTime(self, record: logging.LogRecord, datefmt: Optional[str] = None) -> str:
        """Return the time of a record."""
        return (
            datetime.datetime.fromtimestamp(record.created)
            .astimezone()
            .isoformat(timespec="milliseconds")
        )

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return "\n".join(printable(line) for line in super().format(record).split("\n"))


def print_json(document: Any, indent: Optional[int] = 1) -> None:
    """Print exactly one JSON document on stdout; numbers that are not finite must already be
    strings.
    """
    print_document([json.dumps(document, ensure_ascii=True, allow_nan=False, indent=indent), "\n"])


def print_document(chunks: Iterable[str]) -> None:
    """Print the pieces of a JSON document on stdout, unchanged: they are pure ASCII already."""
    for chunk in chunks:
        sys.stdout.write(chunk)


def print_result_file(path: str) -> None:
    """Print result.json, which is pure ASCII, on stdout in pieces."""
    with open_input(path) as stream:
        print_document(
            piece.decode("ascii") for piece in iter(lambda: stream.read(_WINDOW_BYTES), b"")
        )


def put(text: str = "") -> None:
    """Print a line on stdout, control characters as escapes."""
    sys.stdout.write(printable(text) + "\n")


def put_cells(cells: Iterable[str]) -> None:
    """Print a line of cells with tabs between them on stdout."""
    sys.stdout.write("\t".join(printable(cell) for cell in cells) + "\n")


def put_escaped(lines: Iterable[str]) -> None:
    """Print lines on stdout whose names are escaped already: they contain our colours, or are
    commands to copy.
    """
    for line in lines:
        sys.stdout.write(line + "\n")


def say_escaped(lines: Iterable[str]) -> None:
    """Print lines on stderr whose names are escaped already: they are commands to copy."""
    for line in lines:
        sys.stderr.write(line + "\n")
    sys.stderr.flush()


def put_file(text: str) -> None:
    """Print the text of a file on stdout: unchanged to a pipe or a file, escaped on a terminal."""
    lines = text.splitlines(True) if sys.stdout.isatty() else ()
    sys.stdout.write(
        "".join(printable(line.rstrip("\n")) + "\n" * line.endswith("\n") for line in lines)
        if lines
        else text
    )


def say(message: str, quiet: bool = False) -> None:
    """Print a message of progress or advice on stderr, wrapped on a terminal."""
    if not quiet:
        sys.stderr.write(
            "\n".join(wrapped(message, columns_of(sys.stderr), _hanging_indent(message))) + "\n"
        )
        sys.stderr.flush()


def _hanging_indent(line: str) -> str:
    """Return the indent of a line's continuation: two columns more than its own."""
    return " " * (len(line) - len(line.lstrip()) + 2)


def columns_of(stream: Any) -> Optional[int]:
    """Return the width of a terminal in columns (COLUMNS takes precedence); None for pipes and
    files, where lines are never wrapped.
    """
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    except (OSError, ValueError):
        return _COLUMNS


def wrapped(text: str, width: Optional[int], indent: str = "  ") -> List[str]:
    """Return the lines of a text, control characters escaped, of at most ``width`` columns each;
    one line for None.
    """
    text = printable(text)
    if width is None or width_of(text) <= width:
        return [text]
    return wrap(text, max(len(indent) + 16, width), indent)


def sentence_lines(text: str, width: Optional[int], indent: str = "  ") -> List[str]:
    """Return the :func:`wrapped` lines of a sentence about ops, the longest names shortened in the
    middle.
    """
    return wrapped(shorten_within(printable(text)), width, indent)


def command_lines(head: str, words: Sequence[str], stream: Any) -> List[str]:
    """Return a long command of another program in lines that a shell takes as one, as wide as the
    terminal; of 80 columns in files, where it is read and copied, too.
    """
    return shell_lines(head, words, columns_of(stream) or _COLUMNS)


def put_wrapped(text: str, indent: str = "  ") -> None:
    """Print a text on stdout, wrapped at :func:`columns_of` stdout."""
    for line in wrapped(text, columns_of(sys.stdout), indent):
        put(line)


def put_line(line: str) -> None:
    """Print one line on stdout; on a terminal it is wrapped, continuation lines indented."""
    put_wrapped(line, _hanging_indent(line))


def is_warning(text: str) -> bool:
    """Tell whether a message is a warning, which is printed when a command is quiet too."""
    return isinstance(text, Note) and text.warns


def marked(text: str) -> str:
    """Return a message as it is printed: a note behind what it is."""
    if not isinstance(text, Note):
        return text
    return ("warning: " if text.warns else "note: ") + text


def say_note(text: str, quiet: bool = False) -> None:
    """Print a note on stderr, behind what it is."""
    say(marked(text) if isinstance(text, Note) else "note: " + text, quiet and not is_warning(text))


def say_now(message: str) -> None:
    """Print one line on stderr from a signal handler, which may have interrupted a write to the
    stream.
    """
    with contextlib.suppress(OSError, ValueError):
        os.write(
            sys.stderr.fileno(),
            ("\n" + printable(message) + "\n").encode("utf-8", "backslashreplace"),
        )


def show_status(text: str) -> None:
    """Replace the last line of the terminal on stderr by as much of ``text`` as fits; an empty text
    removes it.
    """
    width = columns_of(sys.stderr)
    shown = printable(text)
    sys.stderr.write("\r\x1b[K" + (shown if width is None else cut(shown, width - 1)))
    sys.stderr.flush()


def is_terminal(stream: Any) -> bool:
    """Tell whether a stream is a terminal that can show colours and whose last line can be
    replaced.
    """
    return bool(hasattr(stream, "isatty") and stream.isatty() and os.environ.get("TERM") != "dumb")


def use_colour(stream: Any) -> bool:
    """Tell whether colours may be used on ``stream``: only on a terminal that knows them, and never
    with NO_COLOR.
    """
    return not os.environ.get("NO_COLOR") and is_terminal(stream)
