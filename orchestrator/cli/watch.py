"""``goldwatch watch``, of one host's dumps or of several hosts' runs."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import fields
from typing import TYPE_CHECKING, Tuple

import click

from ..base.errors import UsageError
from ..base.naming import printable
from ..base.option_fields import HOSTS, Given, given, option, options_class
from ..base.pool import default_jobs
from ..base.shortening import cut, shorten
from ..reports.report_formats import REPORT_FORMATS
from ..run.merging.options import MergeOptions
from ..run.stop_signals import Signals
from ..run.watch import Watch
from ..run.watch_options import WatchOptions
from .command import command, option_group, options_of
from .compare import (
    ComparisonArguments,
    PlanArguments,
    comparison_options,
    dumped_plan,
    make_options,
)
from .notify_option import Notify
from .output_file_checks import out_option
from .printing import columns_of, say
from .report_files import no_earlier_reports, none_left_on_error, planned_reports
from .result_text import print_result
from .watch_display import LiveDisplay, stop

if TYPE_CHECKING:
    from ..run.merging.merge import MergeProgress


@options_class
class WaitingArguments(ComparisonArguments):
    """What ``watch`` and ``run`` are given alike."""

    waiting: Given[WatchOptions] = given(WatchOptions)


watch_options = option_group(options_of(WaitingArguments), comparison_options())
"""The options of :class:`WaitingArguments`, those of ``compare`` behind them."""


@options_class
class WatchArguments(WaitingArguments, PlanArguments):
    """The arguments of ``goldwatch watch``."""

    folders: Tuple[str, ...]
    out: str
    merge: bool = option(
        "--merge",
        topic=HOSTS,
        help="Merge the runs in these OUT folders, one a host, while they go on.",
        default=False,
    )
    merging: Given[MergeOptions] = given(MergeOptions)


@command(
    "watch",
    arguments=WatchArguments,
    first=("out", "model", "until_idle_s", "expect_all", "html_file"),
)
@click.argument("folders", nargs=-1, metavar="TARGET GOLDEN")
@out_option("Folder of the store and the result files.", required=True)
@watch_options
@options_of(PlanArguments, WatchArguments)
def watch_command(arguments: WatchArguments) -> int:
    """Compare dumps with golden data as they arrive; or merge what the watches of several hosts
    find.

    TARGET need not exist yet, GOLDEN may be empty. Ctrl-C once: compare and judge what has
    arrived, then end; twice: stop at once. Exit code: 0 all rows pass, 1 a row is outside its
    limits, 3 something could not be compared, 4 bad input, or no dump arrived.

    With --merge the arguments are the OUT folders of watches, one per host; they need not exist
    yet.

    Example: goldwatch watch dump golden -f model.json -o out --until-idle 60
    """
    if arguments.merge:
        return _merge(arguments)
    quiet, out = arguments.quiet, arguments.out
    planned = planned_reports(arguments, out)
    with none_left_on_error(planned):
        if arguments.merging.values["max_rows"] is not None:
            raise UsageError("--max-rows is about the rows of several hosts: it needs --merge")
        target, golden = two_folders(arguments.folders)
        options = make_options(target, golden, out, arguments, dumped_plan(arguments.plan))
        waiting = arguments.waiting.make()
        waiting.check(options)
    with no_earlier_reports(planned, out, arguments.force), LiveDisplay(quiet) as display, Notify(
        waiting.notify, "watch", out, display.say
    ) as notify:
        watch = Watch(
            options,
            waiting,
            arguments.jobs or default_jobs(),
            arguments.force,
            display.say,
            notify.on_divergence,
        )
        with Signals(lambda name: stop(watch, name)), watch:
            with closing(watch.turns()) as turns:
                for turn in turns:
                    display.show_turn(turn)
            display.clear()
            result = watch.finish(on_stage=display.on_stage)
            display.clear()
            notify.end(result)
            print_deleted(watch, quiet)
            print_result(result, arguments, planned, stopped_words(watch))
            return result.exit_code


def stopped_words(watch: Watch, program: bool = False) -> str:
    """Return what a signal that ended a watch leaves open; empty where none did.

    Parameters
    ----------
    program
        The program that writes the dumps was running, and was ended too.
    """
    if watch.stopped_by in ("", "divergence"):
        return ""
    what = "program before its own end" if program else "watch"
    return "%s ended the %s: what had not been dumped by then is not judged." % (
        watch.stopped_by,
        what,
    )


def two_folders(folders: Tuple[str, ...]) -> Tuple[str, str]:
    """Return TARGET and GOLDEN; raises UsageError unless there are exactly two."""
    if len(folders) > 2:
        extra = " ".join(folders[2:])
        raise UsageError(
            "watch: got unexpected extra argument (%s)" % extra,
            hint="--merge takes the OUT folders of several hosts",
        )
    if len(folders) < 2:
        raise UsageError(
            "watch: %s is missing" % ("GOLDEN" if folders else "TARGET"),
            hint="write goldwatch watch [OPTIONS] TARGET GOLDEN",
        )
    return folders[0], folders[1]


def print_deleted(watch: Watch, quiet: bool) -> None:
    """Print what a watch has deleted."""
    keeper = watch.keeper
    if keeper.deleted:
        say(
            "%d dump files were deleted after their comparison (%d bytes)"
            % (keeper.deleted, keeper.deleted_bytes),
            quiet,
        )


TAKEN_BY_MERGE = {
    "folders", "merge", "notify", "force", "table", "output_format", "quiet",
    *(field.name for field in fields(MergeOptions)),
    *(name + "_file" for name in REPORT_FORMATS),
}  # fmt: skip
"""Of the parameters of ``watch`` those that a merge takes."""

_LEAST_NAME = 12


def _merge(arguments: WatchArguments) -> int:
    """Merge the runs of several hosts; return the exit code."""
    from ..run.merging.merge import Merge

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
        if name in TAKEN_BY_MERGE or name not in context.params:
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
