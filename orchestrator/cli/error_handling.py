"""Runs a command of the command line to its exit code: each error is reported, in the words of the
command line, and none leaves a traceback that is no bug.

Standard streams may be closed or full: a failing stdout ends the command with an error, a failing
stderr is ignored. A descriptor that is closed at the start would be given to the next file that is
opened, and messages would end up in it; so each of the three is occupied first.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from typing import Any, List, NoReturn, Optional, Sequence, Tuple

import click

from ..base.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EnvironmentProblem,
    GoldwatchError,
    UsageError,
)
from ..base.interrupts import caused_by_interrupt, uninterrupted
from .old_tool_commands import new_spelling, refuse_old_options
from .printing import print_json, say

_GONE = (errno.EPIPE, errno.EBADF, errno.EIO)


class OutputGone(EnvironmentProblem):
    """Nothing more can be printed on stdout (exit code 4)."""

    kind = "output"


class Output(io.TextIOWrapper):
    """stdout: a failing write raises :class:`OutputGone`, once; what is still buffered is
    discarded.

    Attributes
    ----------
    problem
        That error, for callers that swallowed it; None while all is well.
    """

    problem: Optional[OutputGone] = None

    def write(self, text: str) -> int:
        """Write text; raises OutputGone."""
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Flush; raises OutputGone."""
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if self.problem is not None:
            return
        why = "it was closed" if error.errno in _GONE else error.strerror or str(error)
        self.problem = OutputGone(
            "stdout: not everything could be printed: %s" % why,
            hint="files that the command writes are complete",
        )
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
        raise self.problem from error


class Messages(io.TextIOWrapper):
    """stderr: what cannot be written is lost silently."""

    def write(self, text: str) -> int:
        """Write text, if possible."""
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if possible."""
        with contextlib.suppress(OSError):
            super().flush()


class _Closed(io.RawIOBase):
    """The raw stream of a descriptor that was closed when the command started."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def guard_streams() -> None:
    """Guard stdout and stderr of this process; streams that a test or a notebook put there are left
    alone.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # open() takes the lowest free descriptor: this one.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (it lives as long as the process)
    sys.stdout = _guarded(sys.stdout, 1, Output)
    sys.stderr = _guarded(sys.stderr, 2, Messages)


def _guarded(stream: Any, descriptor: int, kind: Any) -> Any:
    """Return the guarded stream; undecodable bytes, and characters that the locale cannot encode,
    print as escapes.
    """
    if stream is None:
        return kind(
            io.BufferedWriter(_Closed(descriptor)),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )
    if type(stream) is not io.TextIOWrapper:
        return stream
    encoding, lines, through = (
        stream.encoding,
        stream.line_buffering or descriptor == 2,
        getattr(stream, "write_through", False),
    )
    binary = stream.detach()
    if isinstance(binary, io.RawIOBase):
        # PYTHONUNBUFFERED, as in many containers: nobody would write what a pipe did not take at
        # once, nor see that it was closed.
        binary, lines = io.BufferedWriter(binary), True
    return kind(
        binary,
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=lines,
        write_through=through,
    )


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

        message, hint = usage_problem(error, words)
        report_error("usage", message, _as_written_here(command, words) or hint, as_json)
        return EXIT_USAGE
    except OutputGone:
        raise
    except GoldwatchError as error:
        hint = _as_written_here(command, words) if isinstance(error, UsageError) else None
        report_error(error.kind, error.message, hint or _with_options(error), as_json)
        return error.exit_code
    except (Exception, SystemExit) as error:
        if caused_by_interrupt(error):
            return _interrupted(as_json)
        from ..tools.doctor.packages import broken_package

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


def _as_written_here(root: click.Command, words: Sequence[str]) -> Optional[str]:
    """Return a hint with our spelling of a command line for an older tool; None for any other."""

    def options_of(name: str) -> List[str]:
        group = root if isinstance(root, click.Group) else None
        found = None if group is None else group.get_command(click.Context(group), name)
        return [
            option
            for parameter in ([] if found is None else found.params)
            for option in (*parameter.opts, *parameter.secondary_opts)
        ] + ["-h", "--help", "--help-all"]

    spelling = new_spelling(words, options_of)
    return None if spelling is None else "here this is: " + spelling


def _with_options(error: GoldwatchError) -> Optional[str]:
    """Return an error's hint with the options it proposes: the library does not know them."""
    option = _OPTIONS.get(error.kind)
    return "%s: %s" % (error.hint, option) if error.hint and option else error.hint


def _os_error_text(error: OSError) -> str:
    where = "%s: " % os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
    return where + (error.strerror or str(error))
