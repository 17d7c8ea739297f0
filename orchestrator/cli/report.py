"""``goldwatch report``."""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from ..errors import UsageError
from ..reports.report_formats import REPORT_FORMATS
from ..text.wording import size_text
from .command import command, verbosity_options
from .printing import say
from .progress import ProgressBar
from .report_files import ReportArguments, planned_reports, report_options, write_reports


@dataclass(frozen=True)
class _Arguments(ReportArguments):
    """What ``goldwatch report`` is given."""

    out: str
    quiet: bool


@command(arguments=_Arguments)
@click.argument("out")
@report_options
@verbosity_options
def report(arguments: _Arguments) -> int:
    """Write files about a run for people and programs, from its store alone.

    OUT is the folder that compare, watch, run or replay wrote, wherever it is now; its run may go
    on still, and its inputs may be gone. Exit code: 0 the files are written, whatever the verdict;
    4 no store that can be read.

    Example: goldwatch report out --csv rows.csv
    """
    planned = planned_reports(arguments, arguments.out)
    if not planned:
        raise UsageError(
            "nothing is asked for",
            hint="name a file with %s" % " or ".join("--" + name for name in REPORT_FORMATS),
        )
    with ProgressBar("writing", arguments.quiet) as bar:
        bar.update(0, 0)
        write_reports(arguments.out, planned, on_progress=bar.update)
    for path in planned:
        say("%s: %s" % (path, size_text(os.path.getsize(path))), arguments.quiet)
    return 0
