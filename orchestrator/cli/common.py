"""What every command shares: error reporting, JSON output, verbosity."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any, Callable, Dict, NoReturn, Optional, TypeVar

import click

from ..errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_USAGE, GoldwatchError
from ..naming import printable

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = {
    "other_results": "-o names another folder, --force discards them",
    "damaged_store": "-o names another folder, --force discards it",
    "golden_exists": "--force replaces them",
    "foreign_store": "-o names another folder",
}
"""What the hints of these kinds of error are called on the command line."""

format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the result is printed on stdout.",
)


def verbosity_options(function: F) -> F:
    """Add ``-q`` and ``-v``; the command gets ``quiet`` (bool) and ``verbose`` (int)."""
    function = click.option("-q", "--quiet", is_flag=True, help="No progress, only errors and the result.")(function)
    return click.option("-v", "--verbose", count=True, help="More log on stderr; twice for debugging.")(function)


def set_up_logging(quiet: bool, verbose: int) -> None:
    """Send the ``goldwatch`` logger to stderr at the level the user chose."""
    level = logging.ERROR if quiet else (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s: %(message)s")


def print_json(document: Any) -> None:
    """Print exactly one JSON document on stdout; numbers that are not finite must already be strings."""
    click.echo(json.dumps(document, ensure_ascii=True, allow_nan=False, indent=1))


def say(message: str, quiet: bool = False) -> None:
    """Print one line of progress or advice on stderr."""
    if not quiet:
        click.echo(printable(message), err=True)


def use_colour(stream: Any) -> bool:
    """Tell whether colours may be used on ``stream``: only on a terminal and never with NO_COLOR."""
    return bool(not os.environ.get("NO_COLOR") and hasattr(stream, "isatty") and stream.isatty())


def wants_json(argv: Any) -> bool:
    """Tell from the raw arguments whether ``--format json`` was asked for (errors may come before parsing ends)."""
    words = list(argv)
    if "--" in words:
        words = words[: words.index("--")]
    return "--format=json" in words or any(a == "--format" and b == "json" for a, b in zip(words, words[1:]))


def report_error(kind: str, message: str, hint: Optional[str], as_json: bool) -> None:
    """Print one error: a JSON document on stdout, or a line (and a hint) on stderr."""
    if as_json:
        print_json({"error": {"kind": kind, "message": message, "hint": hint}})
        return
    click.echo("goldwatch: " + printable(message), err=True)
    if hint:
        click.echo("  hint: " + printable(hint), err=True)


def run_command(command: click.Command, argv: Optional[Any] = None) -> NoReturn:
    """Run ``command`` and exit with the documented code; a user's mistake never shows a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = wants_json(words)
    _bounded_stdout()
    try:
        code = command.main(args=words, prog_name="goldwatch", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        report_error("interrupted", "interrupted", "nothing is lost: the same command begins anew, or goes on with what OUT holds", as_json)
        sys.exit(EXIT_INTERRUPTED)
    except click.UsageError as error:
        if as_json:
            report_error("usage", error.format_message(), None, True)
        else:
            error.show()
        sys.exit(EXIT_USAGE)
    except click.ClickException as error:
        report_error("usage", error.format_message(), None, as_json)
        sys.exit(error.exit_code)
    except GoldwatchError as error:
        report_error(error.kind, error.message, _with_options(error), as_json)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our stdout (head, less) went away: nothing is left to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_BAD_INPUT)
    except OSError as error:
        report_error("environment", _os_error_text(error), None, as_json)
        sys.exit(EXIT_BAD_INPUT)


def _with_options(error: GoldwatchError) -> Optional[str]:
    """Return an error's hint with the options that do what it proposes: the library knows none."""
    option = _OPTIONS.get(error.kind)
    return "%s: %s" % (error.hint, option) if error.hint and option else error.hint


def _os_error_text(error: OSError) -> str:
    where = "%s: " % os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
    return where + (error.strerror or str(error))


def _bounded_stdout() -> None:
    """Let names with undecodable bytes or characters outside the locale print as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


class LazyGroup(click.Group):
    """A group whose commands are imported only when they are called, so that ``--help`` stays fast.

    Parameters
    ----------
    lazy
        ``{command name: (module below goldwatch.cli, attribute, one-line help)}``.
    """

    def __init__(self, *args: Any, lazy: Optional[Dict[str, Any]] = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy: Dict[str, Any] = lazy or {}

    def list_commands(self, ctx: click.Context) -> Any:
        """Return the command names in the order of the work flow."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        """Import and return one command, or None."""
        if cmd_name not in self.lazy:
            return None
        import importlib

        module, attribute, _ = self.lazy[cmd_name]
        command: click.Command = getattr(importlib.import_module(("goldwatch.cli." + module).rstrip(".")), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the one-line helps, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in self.lazy.items()])
