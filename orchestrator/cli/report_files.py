"""The report files of a command: the options that name them, earlier ones removed, and the new ones
written.
"""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
)

import click

from ..base.errors import EnvironmentProblem, UsageError
from ..base.fast_dataclasses import dataclass
from ..reports.report_formats import REPORT_FORMATS
from ..reports.result_json import RESULT_FILE
from ..store.opening import STORE_FILE
from .command import option_group
from .next_commands import closer_commands
from .output_file_checks import make_room, own_files, refuse_foreign, require_room

if TYPE_CHECKING:
    from ..reports.report_context import ReportFile

Reports = Dict[str, "Type[ReportFile]"]


def _report_option(name: str, content: str) -> Callable[[Any], Any]:
    def put_path(context: click.Context, parameter: click.Parameter, path: Optional[str]) -> None:
        paths = context.params.setdefault("report_files", {})
        if path is not None:
            paths[name] = path

    return click.option(
        "--" + name,
        name + "_file",
        metavar="FILE",
        expose_value=False,
        callback=put_path,
        help="%s%s." % (content[0].upper(), content[1:]),
    )


report_options = option_group(
    *[_report_option(name, each.content) for name, each in REPORT_FORMATS.items()]
)
"""The options that name the files of a report."""


@dataclass(frozen=True)
class ReportArguments:
    """The values of :data:`report_options`: paths by the name of the format."""

    report_files: Mapping[str, str]


def planned_reports(arguments: ReportArguments, out: str) -> Reports:
    """Return the report files to write, by path.

    Raises
    ------
    UsageError
        Two options name one file, or one names the store, the lock or (but for JSON) the
        result.json of the run, or something else that is no earlier report of this kind.
    EnvironmentProblem, MissingPath
        A file could not appear there: before the work begins, not after it.
    """
    planned: Reports = {}
    named: Dict[str, str] = {}
    for name, each in REPORT_FORMATS.items():
        path = arguments.report_files.get(name)
        if path is None:
            continue
        place = os.path.realpath(path)
        if place in named:
            raise UsageError("--%s and --%s name the same file, %s" % (named[place], name, path))
        is_same = name == "json" and place == os.path.realpath(os.path.join(out, RESULT_FILE))
        if place in own_files(out) and not is_same:
            raise UsageError(
                "--%s %s: that is a file of the run itself" % (name, path), hint="name another file"
            )
        require_room("--%s %s" % (name, path), path)
        refuse_foreign("--" + name, path, name)
        named[place] = name
        planned[path] = _writer(each.writer)
    return planned


def _writer(home: str) -> Type[ReportFile]:
    module, _, name = home.rpartition(".")
    writer: Type[ReportFile] = getattr(import_module("..." + module, __name__), name)
    return writer


@contextlib.contextmanager
def none_left_on_error(planned: Iterable[str]) -> Iterator[None]:
    """Remove earlier reports where the rest of the command line, or a file that it names, is
    refused inside: a CI system would take them for this command's.
    """
    try:
        yield
    except BaseException:
        remove_earlier(planned)
        raise


@contextlib.contextmanager
def no_earlier_reports(planned: Reports, out: str, force: bool = False) -> Iterator[None]:
    """Have the reports that are to be written be no earlier run's, whatever happens inside.

    Where OUT holds another run that is not discarded, they may be that run's, for which this one
    is refused: then they go when this one fails for another reason.
    """
    if os.path.isdir(out):
        # Of a new folder nothing is asked: kinds of files are not loaded.
        from .what_was_given import RESULT, refuse_place

        refuse_place(out, RESULT)
    if force or not os.path.lexists(os.path.join(out, STORE_FILE)):
        remove_earlier(planned)
        yield
        return
    before = {path: _identity(path) for path in planned}
    try:
        yield
    except UsageError:
        raise
    except BaseException:
        remove_earlier([path for path, was in before.items() if _identity(path) == was])
        raise


def remove_earlier(paths: Iterable[str]) -> None:
    """Remove earlier reports; :func:`planned_reports` has seen that they are such.

    Raises
    ------
    EnvironmentProblem
        One cannot be removed.
    """
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise EnvironmentProblem(
                "%s: the earlier report cannot be removed: %s" % (path, error.strerror),
                hint="name another file",
            ) from error


def _identity(path: str) -> Optional[Tuple[int, int]]:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def write_reports(
    out: str,
    planned: Reports,
    exit_code: Optional[int] = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    about: Sequence[Tuple[str, str]] = (),
) -> None:
    """Write the files of a report about the run whose store is in ``out``; raises as
    :func:`goldwatch.run.write_report.write_report`.

    Parameters
    ----------
    exit_code
        With which the command ends, where it is another than the store's.
    about
        What pages say of the run besides, as names and texts.
    """
    if planned:
        from ..run.write_report import write_report

        for path in planned:
            make_room(path)
        write_report(out, planned, closer_commands, exit_code, on_progress, about)
