"""``goldwatch compare``."""

from __future__ import annotations

import shutil
import sys
from typing import Any, Callable, Optional, Tuple, TypeVar

import click

from ..compare.workers import default_jobs
from ..engine.comparison import Outcome, Run
from ..engine.options import ComparisonOptions, parse_metrics, parse_range, parse_select
from ..results.table import render_table
from .common import format_option, say, set_up_logging, use_colour, verbosity_options
from .limits import limit_options, read_limits
from .progress import ProgressBar

F = TypeVar("F", bound=Callable[..., Any])


def comparison_options(function: F) -> F:
    """Add the options that ``compare``, ``watch`` and ``run`` share."""
    for option in reversed(
        [
            click.option("-f", "--model", metavar="OM.json", help="The model: json of an om (atc --mode=1), or GE's text graph."),
            click.option("--jobs", type=click.IntRange(1, 1024), help="Processes that compare.  [default: all processors]"),
            click.option("--metrics", metavar="NAME,…", help="The metrics to show, in this order.  [default: all ten]"),
            click.option("--range", "op_range", metavar="START,END[,STEP]", help="Only ops with these OpSequence numbers (json ids)."),
            click.option("--select", multiple=True, metavar="3,7-9", help="Only ops with these OpSequence numbers."),
            click.option("--overflow", is_flag=True, help="Add the OverFlow column."),
            click.option("--mapping", is_flag=True, help="Write the table of files besides: mapping_{time}.csv."),
            limit_options,
            click.option("--allow-missing", is_flag=True, help="Forgive absent golden or dump files."),
            click.option("--force", is_flag=True, help="Discard other results in OUT."),
            format_option,
        ]
    ):
        function = option(function)
    return verbosity_options(function)


def make_options(target: str, golden: str, out: str, given: Any) -> ComparisonOptions:
    """Return the checked options of a comparison from what click parsed."""
    return ComparisonOptions(
        target=target,
        golden=golden,
        out=out,
        model=given["model"],
        metrics=parse_metrics(given["metrics"]),
        limits=read_limits(given["limits_name"], given["limit_texts"]),
        op_range=parse_range(given["op_range"]),
        select=parse_select(given["select"]),
        overflow=given["overflow"],
        mapping=given["mapping"],
        allow_missing=given["allow_missing"],
    )


@click.command()
@click.argument("target")
@click.argument("golden")
@click.option("-o", "--out", required=True, metavar="OUT", help="Folder of the store and the result files.")
@comparison_options
def compare(target: str, golden: str, out: str, **given: Any) -> int:
    """Compare the dumps of a network with golden data, or two dumps of one model.

    TARGET is a dump tree or any folder in it; GOLDEN holds .npy, .pb or .quant files, or another dump tree. Exit code: 0 all rows pass,
    1 some row is outside its limits, 3 something could not be compared, 4 bad input.

    Example: goldwatch compare dump/20260102030405 golden -f model.json -o out --limit CosineSimilarity=0.999
    """
    quiet, as_json = given["quiet"], given["output_format"] == "json"
    set_up_logging(quiet, given["verbose"])
    options = make_options(target, golden, out, given)
    with Run(options, given["jobs"] or default_jobs(), given["force"]) as run:
        with ProgressBar("comparing", quiet) as bar:
            run.compare_all(lambda progress: bar.update(progress.pairs_done, progress.pairs))
        for note in run.notes:
            say("note: " + note, quiet)
        outcome = run.finish()
        if as_json:
            for chunk in run.document(outcome.summary):
                sys.stdout.write(chunk)
        else:
            print_outcome(run, outcome, given["verbose"])
        return outcome.exit_code


def print_outcome(run: Run, outcome: Outcome, verbose: int) -> None:
    """Print the table, the summary line and the sentence that names the broken operator."""
    first = outcome.summary.first
    width = shutil.get_terminal_size((140, 24)).columns
    most: Optional[int] = None if verbose else 40
    table = outcome.files[0] if outcome.files else run.options.out
    lines = render_table(
        run.store.rows("index"), most, table, first.tensor if first else None, colour=use_colour(sys.stdout), width=max(width, 100)
    )
    for line in lines:
        click.echo(line)
    click.echo("")
    click.echo(summary_line(outcome))
    click.echo(outcome.sentence)


def summary_line(outcome: Outcome) -> str:
    """Return the counts in one line."""
    found = outcome.summary
    parts: Tuple[Tuple[int, str], ...] = (
        (found.passed, "pass"),
        (found.failed, "fail"),
        (found.not_compared, "not compared"),
        (found.expected_absent, "absent as expected"),
    )
    counts = ", ".join("%d %s" % part for part in parts)
    where = ", ".join(outcome.files[-2:])
    return "%s: %d ops, %d rows: %s. Results: %s" % (found.verdict, found.ops, found.rows, counts, where)
