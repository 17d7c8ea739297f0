"""``goldwatch watch``."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Tuple

import click

from ..errors import UsageError
from ..processes.pool import default_jobs
from ..run.ends import Signals
from ..run.watch import Watch
from ..run.watch_options import KEEP_ALL, KEEP_FAILED, KEEP_NONE, WatchOptions
from .common import option_group, say
from .compare import asked_option, asked_plan, comparison_options, make_options
from .live_display import LiveDisplay, stop
from .merge import merge_command, merge_options
from .notify_option import Notify, notify_option
from .report_options import planned_reports
from .result_text import print_result
from .sizes import parse_size

watch_options = option_group(
    click.option("--until-idle", type=float, metavar="SECONDS",
                 help="End when nothing changed in TARGET and GOLDEN so long, from the first dump "
                     "on."),
    click.option("--pid", type=int, metavar="PID", help="End when this process, which makes "
        "the dumps, has ended."),
    click.option("--expect-all", is_flag=True, help="End when every op of the json that can "
        "dump has come (needs -f)."),
    click.option("--keep", type=click.Choice([KEEP_ALL, KEEP_FAILED, KEEP_NONE]), default=KEEP_ALL,
    show_default=True,
                 help="Which dumps stay after their comparison."),
    click.option("--min-free", metavar="SIZE", help="Delete (as --keep says) only while less "
        "is free, such as 20G; warn as well."),
    click.option("--poll", type=float, metavar="SECONDS", help="List the folders so often "
        "instead of asking the kernel."),
    click.option("--on-divergence", metavar="CMD", help="Run CMD once, with the first final "
        "failing row as JSON on its stdin."),
    click.option("--stop-on-divergence", is_flag=True,
    help="End at the first failing row that is final."),
    notify_option,
    comparison_options,
)  # fmt: skip
"""The options that ``watch`` and ``run`` share, those of ``compare`` behind them."""


def make_watch_options(given: Any) -> WatchOptions:
    """Return the checked options of a watch from what click parsed."""
    for option, value in (("--until-idle", given["until_idle"]), ("--poll", given["poll"])):
        if value is not None and not 0 < value < 1e7:
            raise UsageError("%s %g: expected seconds, more than 0" % (option, value))
    if given["pid"] is not None and given["pid"] <= 0:
        raise UsageError("--pid %d: not a process" % given["pid"])
    if given["expect_all"] and given["model"] is None:
        raise UsageError(
            "--expect-all: which ops are expected is known from the model's json only",
            hint="name it with -f",
        )
    if given["quantisation"] and given["model"] is None:
        raise UsageError("--quant-json leads on the names of a model: it needs -f")
    return WatchOptions(
        until_idle_s=given["until_idle"],
        pid=given["pid"],
        expect_all=given["expect_all"],
        keep=given["keep"],
        min_free_bytes=parse_size(given["min_free"]),
        poll_s=given["poll"],
        on_divergence=given["on_divergence"],
        stop_on_divergence=given["stop_on_divergence"],
        notifies=given["notify"] is not None,
    )


@click.command("watch")
@click.argument("folders", nargs=-1, metavar="TARGET GOLDEN")
@click.option(
    "-o", "--out", required=True, metavar="OUT", help="Folder of the store and the result files."
)
@merge_options
@watch_options
@asked_option
def watch_command(folders: Tuple[str, ...], out: str, **given: Any) -> int:
    """Compare dumps with golden data as they arrive; or merge what the watches of several hosts
    find.

    TARGET may be missing so far, GOLDEN may be empty. Ctrl-C once: what has come is compared and
    judged; twice: stop now. Exit code: 0 all rows pass, 1 some row is outside its limits, 3
    something could not be compared, 4 bad input, or nothing came.

    With --merge the arguments are the OUT folders of watches, one a host; they may be missing so
    far.

    Example: goldwatch watch dump golden -f model.json -o out --until-idle 60
    """
    if given.pop("merge"):
        return merge_command(folders, out, given)
    if given.pop("max_rows") is not None:
        raise UsageError("--max-rows is about the rows of several hosts: it needs --merge")
    target, golden = two_folders(folders)
    quiet = given["quiet"]
    options = make_options(target, golden, out, given, asked_plan(given))
    chosen, planned = make_watch_options(given), planned_reports(given, out)
    with LiveDisplay(quiet) as display, Notify(
        given["notify"], "watch", out, display.say
    ) as notify:
        watch = Watch(options, chosen, given["jobs"] or default_jobs(), given["force"], display.say)
        with Signals(lambda name: stop(watch, name)), watch:
            with closing(watch.turns()) as turns:
                for turn in turns:
                    display.show_turn(turn)
                    notify.divergence(turn.divergence)
            display.clear()
            result = watch.finish(on_stage=display.on_stage)
            display.clear()
            notify.end(result)
            tell_deleted(watch, given["quiet"])
            print_result(result, given, planned)
            return result.exit_code


def two_folders(folders: Tuple[str, ...]) -> Tuple[str, str]:
    """Return TARGET and GOLDEN; raises UsageError unless there are just these."""
    if len(folders) > 2:
        extra = " ".join(folders[2:])
        raise UsageError(
            "got unexpected extra argument (%s)" % extra,
            hint="--merge takes the OUT folders of several hosts",
        )
    if len(folders) < 2:
        raise UsageError("missing argument '%s'" % ("GOLDEN" if folders else "TARGET"))
    return folders[0], folders[1]


def tell_deleted(watch: Watch, quiet: bool) -> None:
    """Say what a watch has deleted."""
    keeper = watch.keeper
    if keeper.deleted:
        say(
            "%d dump files were deleted after their comparison (%d bytes)"
            % (keeper.deleted, keeper.deleted_bytes),
            quiet,
        )
