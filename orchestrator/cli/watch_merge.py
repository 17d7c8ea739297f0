"""``goldwatch watch --merge``."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ..merging.merge import Merge, MergeProgress
from ..merging.options import MergeOptions
from ..naming import printable
from ..reports.report_formats import REPORT_FORMATS
from ..run.stop_signals import Signals
from ..text.shortening import cut, shorten
from .notify_option import Notify
from .printing import columns_of
from .report_files import no_earlier_reports, none_left_on_error, planned_reports
from .result_text import print_result
from .watch_display import LiveDisplay, stop

if TYPE_CHECKING:
    from .watch import WatchArguments

TAKEN = {
    "folders", "merge", "notify", "force", "table", "output_format", "quiet",
    *(field.name for field in fields(MergeOptions)),
    *(name + "_file" for name in REPORT_FORMATS),
}  # fmt: skip
"""Of the parameters of ``watch`` those that a merge takes."""

_LEAST_NAME = 12


def merge_command(arguments: WatchArguments) -> int:
    """Merge the runs of several hosts; return the exit code."""
    out = arguments.out
    planned = planned_reports(arguments, out)
    with none_left_on_error(planned):
        _refuse_others()
        given_values = {**arguments.comparison.values, **arguments.waiting.values}
        names = [field.name for field in fields(MergeOptions) if field.name in given_values]
        options = arguments.merging.make(
            sources=arguments.folders,
            out=out,
            **{name: given_values[name] for name in names if given_values[name] is not None},
        )
    with no_earlier_reports(planned, out, arguments.force), LiveDisplay(
        arguments.quiet
    ) as display, Notify(given_values["notify"], "watch", out, display.say) as notify:
        merge = Merge(
            options,
            arguments.force,
            display.say,
            display.on_row,
            lambda progress: display.show(_live_line(progress)),
            notify.on_divergence,
        )
        with Signals(lambda name: stop(merge, name)), merge:
            merge.follow()
            display.clear()
            result = merge.finish(display.on_stage)
            display.clear()
            notify.end(result)
            print_result(result, arguments, planned)
            return result.exit_code


def _refuse_others() -> None:
    """Refuse options of a comparison: they belong to the watch of each host."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in TAKEN or name not in context.params:
            continue
        if context.params[name] not in (parameter.get_default(context), None, False, ()):
            option = next(text for text in reversed(parameter.opts) if text.startswith("--"))
            raise UsageError(
                "%s does not go with --merge" % option,
                hint="give it to the watch of each host, which compares",
            )


def _live_line(progress: MergeProgress) -> str:
    """Return the progress of the merge as one line of a terminal."""
    states = ", ".join("%d %s" % (count, state) for state, count in progress.states.items())
    text = "%d rows, %d failed; hosts: %s" % (progress.rows, progress.failed, states)
    width = (columns_of(sys.stderr) or 100) - 1
    if progress.first is not None:
        room = width - len(text) - len("; first ")
        text += "; first " + shorten(printable(progress.first.tensor), max(_LEAST_NAME, room))
    return cut(text, width)
