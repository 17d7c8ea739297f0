"""``goldwatch watch``."""

from __future__ import annotations

import sys
from typing import Any, Callable, TypeVar

import click

from ..compare.workers import default_jobs
from ..watch.arriving_goldens import EACH, ONE
from ..watch.ends import Signals
from ..watch.options import KEEP_ALL, KEEP_FAILED, KEEP_NONE, WatchOptions, parse_size
from ..watch.watch import Watch
from .common import say, set_up_logging
from .compare import comparison_options, make_options, print_outcome
from .live_display import LiveDisplay

F = TypeVar("F", bound=Callable[..., Any])


def watch_options(function: F) -> F:
    """Add the options that ``watch`` and ``run`` share, those of ``compare`` included."""
    for option in reversed(
        [
            click.option("--golden-steps", type=click.Choice([ONE, EACH]), default=ONE, show_default=True,
                         help="One golden set for all steps, or GOLDEN/{step}/ for each."),
            click.option("--until-idle", type=float, metavar="SECONDS", help="End when nothing changed in TARGET and GOLDEN so long."),
            click.option("--pid", type=int, help="End when this process, which makes the dumps, has ended."),
            click.option("--expect-all", is_flag=True, help="End when every op of the json that can dump has come (needs -f)."),
            click.option("--keep", type=click.Choice([KEEP_ALL, KEEP_FAILED, KEEP_NONE]), default=KEEP_ALL, show_default=True,
                         help="Which dumps stay after their comparison."),
            click.option("--min-free", metavar="SIZE", help="Delete (as --keep says) only while less is free, such as 20G; warn as well."),
            click.option("--poll", type=float, metavar="SECONDS", help="List the folders so often instead of asking the kernel."),
            click.option("--on-divergence", metavar="CMD", help="Run CMD once, with the first failing row as JSON on its stdin."),
            click.option("--stop-on-divergence", is_flag=True, help="End at the first failing row."),
        ]
    ):  # fmt: skip
        function = option(function)
    return comparison_options(function)


def make_watch_options(given: Any) -> WatchOptions:
    """Return the checked options of a watch from what click parsed."""
    return WatchOptions(
        golden_steps=given["golden_steps"],
        until_idle_s=given["until_idle"],
        pid=given["pid"],
        expect_all=given["expect_all"],
        keep=given["keep"],
        min_free_bytes=parse_size(given["min_free"]),
        poll_s=given["poll"],
        on_divergence=given["on_divergence"],
        stop_on_divergence=given["stop_on_divergence"],
    )


@click.command()
@click.argument("target")
@click.argument("golden")
@click.option("-o", "--out", required=True, metavar="OUT", help="Folder of the store and the result files.")
@watch_options
def watch(target: str, golden: str, out: str, **given: Any) -> int:
    """Compare dumps with golden data as they arrive.

    TARGET may be missing so far, GOLDEN may be empty. Ctrl-C once: what has come is compared and judged; twice: stop now. Exit code: 0 all
    rows pass, 1 some row is outside its limits, 3 something could not be compared, 4 bad input, or nothing came.

    Example: goldwatch watch dump golden -f model.json -o out --until-idle 60
    """
    quiet = given["quiet"]
    set_up_logging(quiet, given["verbose"])
    options = make_options(target, golden, out, given)
    chosen = make_watch_options(given)
    chosen.check(options)
    with LiveDisplay(quiet) as display:
        run = Watch(options, given["jobs"] or default_jobs(), given["force"], display.on_row, watch=chosen, say=display.say,
                    on_file=display.on_file, on_standing=display.on_standing)  # fmt: skip
        with Signals(lambda name: _stop(run, display, name)), run:
            run.follow()
            display.clear()
            outcome = run.finish()
            print_result(run, outcome, given)
            return outcome.exit_code


def _stop(run: Watch, display: LiveDisplay, name: str) -> None:
    run.stop(name)


def print_result(run: Watch, outcome: Any, given: Any) -> None:
    """Print the document of result.json, or the table and the summary."""
    if given["output_format"] == "json":
        for chunk in run.document(outcome.summary):
            sys.stdout.write(chunk)
    else:
        print_outcome(run, outcome, given["verbose"])
    if run.keeper.deleted:
        say("%d dump files were deleted after their comparison (%d bytes)" % (run.keeper.deleted, run.keeper.deleted_bytes), given["quiet"])
