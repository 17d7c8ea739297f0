"""Runs a command of the command line to its exit code: each error is reported, in the words of the
command line, and none leaves a traceback that is no bug.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, List, NoReturn, Optional, Sequence, Tuple

import click

from ..errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_USAGE, GoldwatchError, UsageError
from ..interrupts import caused_by_interrupt, uninterrupted
from .old_tool_commands import new_spelling, refuse_old_options
from .printing import print_json, say
from .standard_streams import OutputGone, guard_streams

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

        message, hint = usage_problem(error)
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
