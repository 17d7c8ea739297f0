"""``goldwatch watch``."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Optional, Tuple

import click

from ..errors import UsageError
from ..merging.options import MOST_ROWS
from ..processes.pool import default_jobs
from ..run.stop_signals import Signals
from ..run.watch import Watch
from ..run.watch_options import KEEP_ALL, KEEP_FAILED, KEEP_NONE, WatchOptions
from .byte_sizes import parse_size
from .command import WAITING, command, option_group, topic
from .compare import ComparisonArguments, comparison_options, dumped_plan, make_options, plan_option
from .notify_option import Notify, notify_option
from .output_file_checks import out_option
from .printing import say
from .report_files import no_earlier_reports, none_left_on_error, planned_reports
from .result_text import print_result
from .watch_display import LiveDisplay, stop

watch_options = option_group(
    topic(
        WAITING,
        click.option(
            "--until-idle",
            "until_idle_s",
            type=float,
            metavar="SECONDS",
            help="End when TARGET and GOLDEN have not changed for so long, from the first dump on.",
        ),
        click.option(
            "--pid",
            type=int,
            metavar="PID",
            help="End when this process, which makes the dumps, has ended.",
        ),
        click.option(
            "--expect-all",
            is_flag=True,
            help="End when every op of the json that can dump has come (needs -f).",
        ),
        click.option(
            "--stop-on-divergence", is_flag=True, help="End at the first failing row that is final."
        ),
        click.option(
            "--on-divergence",
            metavar="CMD",
            help="Run CMD once, with the first final failing row as JSON on its stdin.",
        ),
        notify_option,
        click.option(
            "--keep",
            type=click.Choice([KEEP_ALL, KEEP_FAILED, KEEP_NONE]),
            default=KEEP_ALL,
            show_default=True,
            help="Which dumps stay after their comparison.",
        ),
        click.option(
            "--min-free",
            metavar="SIZE",
            help="Delete (as --keep says) only while less is free, such as 20G; warn as well.",
        ),
        click.option(
            "--poll",
            "poll_s",
            type=float,
            metavar="SECONDS",
            help="List the folders at this interval instead of asking the kernel.",
        ),
    ),
    comparison_options,
)
"""The options that ``watch`` and ``run`` share, those of ``compare`` behind them."""


@dataclass(frozen=True)
class WaitingArguments(ComparisonArguments):
    """The values of :data:`watch_options`."""

    until_idle_s: Optional[float]
    pid: Optional[int]
    expect_all: bool
    stop_on_divergence: bool
    on_divergence: Optional[str]
    notify: Optional[str]
    keep: str
    min_free: Optional[str]
    poll_s: Optional[float]

    def watch_options(self) -> WatchOptions:
        """Return the options of the wait for files."""
        return WatchOptions(
            until_idle_s=self.until_idle_s,
            pid=self.pid,
            expect_all=self.expect_all,
            keep=self.keep,
            min_free_bytes=parse_size(self.min_free),
            poll_s=self.poll_s,
            on_divergence=self.on_divergence,
            stop_on_divergence=self.stop_on_divergence,
        )


@dataclass(frozen=True)
class WatchArguments(WaitingArguments):
    """The arguments of ``goldwatch watch``."""

    folders: Tuple[str, ...]
    out: str
    plan: Optional[str]
    merge: bool
    max_rows: Optional[int]


@command(
    "watch",
    arguments=WatchArguments,
    first=("out", "model", "until_idle_s", "expect_all", "html_file"),
)
@click.argument("folders", nargs=-1, metavar="TARGET GOLDEN")
@out_option("Folder of the store and the result files.", required=True)
@watch_options
@plan_option
@topic(
    "Several hosts",
    click.option(
        "--merge",
        is_flag=True,
        help="Merge the runs in these OUT folders, one a host, while they go on.",
    ),
    click.option(
        "--max-rows",
        type=click.IntRange(1),
        metavar="N",
        help="With --merge: keep at most N of the rows that did not pass.  [default: %d]"
        % MOST_ROWS,
    ),
)
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
        from .watch_merge import merge_command

        return merge_command(arguments)
    quiet, out = arguments.quiet, arguments.out
    planned = planned_reports(arguments, out)
    with none_left_on_error(planned):
        if arguments.max_rows is not None:
            raise UsageError("--max-rows is about the rows of several hosts: it needs --merge")
        target, golden = two_folders(arguments.folders)
        options = make_options(target, golden, out, arguments, dumped_plan(arguments.plan))
        waiting = arguments.watch_options()
        waiting.check(options)
    with no_earlier_reports(planned, out, arguments.force), LiveDisplay(quiet) as display, Notify(
        arguments.notify, "watch", out, display.say
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
