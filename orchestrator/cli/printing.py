"""What every command shares: error reports, printing, verbosity.

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
import traceback
from typing import Any, Iterable, List, NoReturn, Optional, Sequence, Tuple

import click

from ..errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_USAGE, GoldwatchError, UsageError
from ..filesystem.safe_reading import open_input
from ..interrupts import caused_by_interrupt, uninterrupted
from ..naming import printable
from ..text.shortening import shorten_within
from ..text.terminal_width import cut, width_of, wrap
from .old_tool_commands import new_spelling, refuse_old_options
from .standard_streams import OutputGone, guard_streams

_WINDOW_BYTES = 1 << 20
_COLUMNS = 80
_OPTIONS = {
    "other_results": "-o names another folder, --force discards them",
    "damaged_store": "-o names another folder, --force discards it",
    "foreign_store": "-o names another folder",
    "unknown_shape": "--golden, --om, --dump, or --shape",
    "unauthorised": "--token-file",
    "needs_om": "--om model.json",
    "unknown_node": "--list",
    "unencrypted": "--insecure allows it",
    "needs_token": "--token-file FILE",
    "open_token": "--tls-cert FILE --tls-key FILE, or --public-url https://HOST",
    "no_certificates": "--tls-ca-file, --tls-cert and --tls-key",
}
"""What the hints of these kinds of error are called on the command line."""


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


def put_wrapped(text: str, indent: str = "  ") -> None:
    """Print a text on stdout, wrapped at :func:`columns_of` stdout."""
    for line in wrapped(text, columns_of(sys.stdout), indent):
        put(line)


def put_line(line: str) -> None:
    """Print one line on stdout; on a terminal it is wrapped, continuation lines indented."""
    put_wrapped(line, _hanging_indent(line))


def say_note(note: str, quiet: bool = False) -> None:
    """Print a note on stderr; one that starts with ``warning`` also when the command is quiet."""
    warning = note.startswith("warning")
    say(note if warning else "note: " + note, quiet and not warning)


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


def wants_json(argv: Any) -> bool:
    """Tell from the raw arguments whether ``--format json`` was asked for (errors may come before
    parsing ends).
    """
    words = list(argv)
    if "--" in words:
        words = words[: words.index("--")]
    return "--format=json" in words or any(
        a == "--format" and b == "json" for a, b in zip(words, words[1:])
    )


def report_error(kind: str, message: str, hint: Optional[str], as_json: bool) -> None:
    """Print one error: a JSON document on stdout, or a line (and a hint) on stderr."""
    if as_json:
        print_json({"error": {"kind": kind, "message": message, "hint": hint}})
        return
    say("goldwatch: " + message)
    if hint:
        say("  hint: " + hint)


def run_command(
    command: click.Command, argv: Optional[Any] = None, name: str = "goldwatch"
) -> NoReturn:
    """Run ``command``, called ``name`` by the user, and exit with the documented code; no traceback
    for a user's mistake.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = wants_json(words)
    with uninterrupted():
        # Interrupted halfway it would leave no stream to report on.
        guard_streams()
    try:
        try:
            code = _exit_code(command, words, name, as_json)
            sys.stdout.flush()
            problem = getattr(sys.stdout, "problem", None)
            if problem is not None:
                raise problem
        except OutputGone as error:
            report_error(error.kind, error.message, error.hint, False)
            code = error.exit_code
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.exit(code)


def _exit_code(command: click.Command, words: List[str], name: str, as_json: bool) -> int:
    """Run ``command`` and return its exit code, with errors reported; raises OutputGone where
    stdout cannot be written.
    """
    try:
        if words:
            refuse_old_options(words)
        code = command.main(args=words, prog_name=name, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as error:
        return int(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _interrupted(as_json)
    except click.ClickException as error:
        from .usage_errors import usage_problem

        message, hint = usage_problem(error)
        report_error("usage", message, _as_written_here(words) or hint, as_json)
        return EXIT_USAGE
    except OutputGone:
        raise
    except GoldwatchError as error:
        hint = _as_written_here(words) if isinstance(error, UsageError) else None
        report_error(error.kind, error.message, hint or _with_options(error), as_json)
        return error.exit_code
    except (Exception, SystemExit) as error:
        if caused_by_interrupt(error):
            return _interrupted(as_json)
        from ..doctor.packages import broken_package

        broken = broken_package(error)
        if broken is not None:
            report_error(broken.kind, broken.message, broken.hint, as_json)
            return broken.exit_code
        if isinstance(error, SystemExit):
            raise
        report_error(*_trouble(error), as_json)
        return EXIT_BAD_INPUT


def _trouble(error: Exception) -> Tuple[str, str, Optional[str]]:
    """Return kind, message and hint of an unexpected error; print the traceback of a bug of
    ours.
    """
    if isinstance(error, OSError):
        return "environment", _os_error_text(error), None
    if isinstance(error, MemoryError):
        return (
            "environment",
            "not enough memory",
            "ulimit -v and control groups say how much this process may have",
        )
    for line in "".join(
        traceback.format_exception(type(error), error, error.__traceback__)
    ).splitlines():
        say(line)
    # Not exit code 1: that is a verdict.
    return (
        "internal",
        "%s: %s" % (type(error).__name__, error),
        "this is a fault of goldwatch: please report it with the lines above",
    )


def _interrupted(as_json: bool) -> int:
    report_error(
        "interrupted",
        "interrupted",
        "nothing is lost: the same command begins anew, or goes on with what OUT holds",
        as_json,
    )
    return EXIT_INTERRUPTED


def _as_written_here(words: Sequence[str]) -> Optional[str]:
    """Return a hint with our spelling of a command line for an older tool; None for any other."""
    spelling = new_spelling(words)
    return None if spelling is None else "here this is: " + spelling


def _with_options(error: GoldwatchError) -> Optional[str]:
    """Return an error's hint with the options it proposes: the library does not know them."""
    option = _OPTIONS.get(error.kind)
    return "%s: %s" % (error.hint, option) if error.hint and option else error.hint


def _os_error_text(error: OSError) -> str:
    where = "%s: " % os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
    return where + (error.strerror or str(error))
