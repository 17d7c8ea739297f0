"""Checks of output files before the work begins: they can be written and replace no input."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Callable, Iterable, List, Mapping, Optional

import click

from ..base.errors import EnvironmentProblem, MissingPath, UsageError
from ..base.safe_reading import open_input
from ..reports.report_formats import REPORT_FORMATS
from ..reports.result_json import RESULT_FILE
from ..store.lock import LOCK_FILE
from ..store.opening import SIDE_FILES, STORE_FILE

_ENDINGS = {
    **{each.ending: "--" + name for name, each in REPORT_FORMATS.items()},
    **dict.fromkeys((".txt", ".xlsx", ".npy", ".npz", ".bin", ".log", ".db"), ""),
}
"""Endings of file names, and the report option that writes such a file."""


def out_option(help_text: str, *names: str, **settings: Any) -> Callable[[Any], Any]:
    """Return the option ``-o OUT`` of a command whose results are a folder."""
    return click.option(
        "-o",
        *(names or ("--out",)),
        metavar=settings.pop("metavar", "OUT"),
        help=help_text,
        callback=folder_meant,
        **settings,
    )


def folder_meant(context: click.Context, parameter: click.Parameter, out: Any) -> Any:
    """Return the output folder; ask back for a name that looks like a file's."""
    stem, ending = os.path.splitext(out or "")
    if context.resilient_parsing or ending.lower() not in _ENDINGS or os.path.isdir(out):
        return out
    option = _ENDINGS[ending.lower()]
    if any(option in each.opts for each in context.command.params):
        instead = "-o %s %s %s writes that file" % (stem, option, out)
    else:
        instead = "-o %s" % stem
    raise UsageError(
        "-o %s: is a file meant? %s is a folder" % (out, parameter.metavar or "OUT"),
        hint="%s; -o %s/ makes a folder of this name" % (instead, out),
    )


def refuse_replacing(
    option: str, path: str, inputs: Mapping[str, Optional[str]], runs: Iterable[Optional[str]] = ()
) -> None:
    """Raise where a file to be written cannot appear, is one of the inputs, or is one of a run's
    own.

    Parameters
    ----------
    inputs
        Paths by their names on the command line; None for those not given.
    runs
        Output folders of runs.

    Raises
    ------
    UsageError
        It would be replaced.
    MissingPath, EnvironmentProblem
        As :func:`require_room`.
    """
    require_room("%s %s" % (option, path), path)
    place = os.path.realpath(path)
    for name, file in inputs.items():
        if file is not None and os.path.realpath(file) == place:
            raise UsageError(
                "%s %s: that is the file of %s" % (option, path, name), hint="name another file"
            )
    for out in runs:
        if out is not None and place in own_files(out):
            raise UsageError(
                "%s %s: that is a result of %s itself" % (option, path, out),
                hint="name another file",
            )


def refuse_foreign(option: str, path: str, kind: str) -> None:
    """Raise UsageError where the existing file is not an earlier report of this kind, but a model,
    say.
    """
    try:
        with open_input(path) as stream:
            head = stream.read(64)
    except MissingPath:
        if os.path.lexists(path):
            raise
        return
    if head and not head.startswith(REPORT_FORMATS[kind].heads):
        message = (
            "%s %s: a file that is no earlier report of this kind is there; it is not replaced"
            % (option, path)
        )
        raise UsageError(message, hint="name another file, or remove that one")


def own_files(out: str) -> List[str]:
    """Return the resolved paths of a run's result.json, lock and store."""
    return [
        os.path.realpath(os.path.join(out, name))
        for name in (RESULT_FILE, LOCK_FILE, *(STORE_FILE + suffix for suffix in SIDE_FILES))
    ]


def make_room(path: str) -> None:
    """Create the folder of a file to be written."""
    folder = os.path.dirname(path) or os.curdir
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(
            "%s: the folder cannot be made: %s" % (folder, error.strerror),
            hint="name a file elsewhere",
        ) from error


def require_room(what: str, path: str) -> None:
    """Raise where the file at ``path`` could not be replaced by a rename, before the work;
    :func:`make_room` creates its folder afterwards.

    Parameters
    ----------
    what
        The option and the path, as the user gave them.

    Raises
    ------
    UsageError, MissingPath, EnvironmentProblem
        It is no name of a file; there is a folder of this name, or no folder can be there; a link,
        a device or no permission is there.
    """
    if not path or path == "-":
        raise UsageError("%s: expected the name of a file" % what)
    folder = os.path.dirname(path) or os.curdir
    if os.path.isdir(path) or not os.path.basename(path):
        raise MissingPath("%s: is a folder" % what, hint="name a file in it")
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        kind = "a link" if os.path.islink(path) else "no regular file"
        raise EnvironmentProblem(
            "%s: is %s: goldwatch does not write through it" % (what, kind),
            hint="name another file",
        )
    from ..base.mounts import nearest_folder

    nearest = nearest_folder(folder)
    below = os.path.relpath(os.path.abspath(folder), nearest).split(os.sep)[0] if nearest else ""
    in_the_way = os.path.join(nearest or "", below)
    if nearest is None or (not os.path.isdir(folder) and os.path.lexists(in_the_way)):
        raise MissingPath(
            "%s: there can be no folder %s" % (what, folder),
            hint="%s is no folder" % in_the_way if nearest else "name a file elsewhere",
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise EnvironmentProblem(
            "%s: this user cannot write in %s"
            % (what, folder if os.path.isdir(folder) else nearest),
            hint="name a file elsewhere",
        )


def try_writing(what: str, path: str) -> None:
    """Raise EnvironmentProblem where the folder of a file to be written, or the nearest one that
    there is, takes no new file: permissions do not show it of /proc, or of root on a read-only
    mount.
    """
    from ..base.mounts import nearest_folder

    folder = nearest_folder(os.path.dirname(path) or os.curdir) or os.curdir
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise EnvironmentProblem(
            "%s: no file can be made in %s: %s" % (what, folder, error.strerror),
            hint="name a file elsewhere",
        ) from error
