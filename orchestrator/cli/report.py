"""``goldwatch report``."""

from __future__ import annotations

import os
from typing import Tuple

import click

from ..base.errors import UsageError
from ..base.fast_dataclasses import dataclass
from ..base.wording import size_text
from ..reports.report_formats import REPORT_FORMATS
from .command import command, verbosity_options
from .printing import say
from .progress import ProgressBar
from .report_files import ReportArguments, planned_reports, report_options, write_reports
from .what_was_given import require_result


@dataclass(frozen=True)
class _Arguments(ReportArguments):
    """What ``goldwatch report`` is given."""

    out: str
    quiet: bool
    about: Tuple[str, ...]


@command(arguments=_Arguments)
@click.argument("out")
@report_options
@click.option(
    "--about",
    multiple=True,
    metavar="NAME=TEXT",
    help='Say this under the page\'s "What was compared", such as build=1234.',
)
@verbosity_options
def report(arguments: _Arguments) -> int:
    """Write files about a run for people and programs, from its store alone.

    OUT is the folder that compare, watch, run or replay wrote, wherever it is now; its run may go
    on still, and its inputs may be gone. Exit code: 0 the files are written, whatever the verdict;
    4 no store that can be read.

    Example: goldwatch report out --csv rows.csv
    """
    require_result(arguments.out, "OUT")
    planned = planned_reports(arguments, arguments.out)
    if not planned:
        raise UsageError(
            "nothing is asked for",
            hint="name a file with %s" % " or ".join("--" + name for name in REPORT_FORMATS),
        )
    about = [tuple(entry.split("=", 1)) for entry in arguments.about]
    for entry, pair in zip(arguments.about, about):
        if len(pair) < 2 or not all(pair):
            raise UsageError("--about %s: not NAME=TEXT" % entry)
    with ProgressBar("writing", arguments.quiet) as bar:
        bar.update(0, 0)
        write_reports(
            arguments.out,
            planned,
            on_progress=bar.update,
            about=[(name, told) for name, told in about],
        )
    for path in planned:
        say("%s: %s" % (path, size_text(os.path.getsize(path))), arguments.quiet)
    return 0
