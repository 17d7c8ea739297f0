"""``goldwatch replay``."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import click

from ..processes.pool import default_jobs
from ..replay.options import AUTO, BACKENDS, ReplayOptions
from ..replay.run import replay as run_replay
from .common import format_option, say_note, verbosity_options
from .golden_words import golden_words
from .limits import read_limit_texts
from .option_values import parse_time
from .progress import ProgressBar
from .report_options import planned_reports, report_options
from .result_text import print_result, table_option


@click.command()
@click.argument("target")
@click.argument("original", metavar="MODEL")
@click.option(
    "--weights",
    metavar="FILE",
    help="Of a prototxt.  [default: the .caffemodel of its name beside it]",
)
@click.option(
    "-f",
    "--model",
    required=True,
    metavar="OM.json",
    help="The json of the om that ran (atc --mode=1), or GE's text graph.",
)
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="OUT",
    help="Folder of the store, the result files and the computed values.",
)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default=AUTO,
    show_default=True,
    help="What runs the original's layers.",
)
@click.option(
    "--python",
    metavar="EXE",
    help="The Python that has the framework.  [default: it is looked for]",
)
@click.option(
    "--layer",
    "layer_files",
    multiple=True,
    metavar="TYPE=FILE.py",
    help="Compute a prototxt's layers of a type yourself.",
)
@click.option("--op", "ops", multiple=True, metavar="GLOB", help="Only these ops; repeatable.")
@click.option(
    "--limit",
    "limit_texts",
    multiple=True,
    metavar="[dtype=T:|type=T:|op=N:]METRIC=VALUE",
    help="In the place of a limit; repeatable.",
)
@click.option(
    "--result",
    metavar="OUT",
    help="What compare made of the same dumps: whether it fails goes into the last sentence.",
)
@click.option("--time", metavar="T", help="The time folder that counts.  [default: the newest]")
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Processes that compare, at most.  [default: all processors]",
)
@click.option("--force", is_flag=True, help="Discard other results in OUT.")
@report_options
@table_option
@format_option
@verbosity_options
def replay(
    target: str,
    original: str,
    weights: Optional[str],
    model: str,
    out: str,
    backend: str,
    python: Optional[str],
    layer_files: Tuple[str, ...],
    ops: Tuple[str, ...],
    limit_texts: Tuple[str, ...],
    result: Optional[str],
    time: Optional[str],
    jobs: Optional[int],
    force: bool,
    **given: Any,
) -> int:
    """Run every operator of a device again on the CPU with the inputs that the DEVICE recorded:
    only errors of its own show.

    TARGET is a dump tree or any folder in it, with one step; MODEL is the original: a prototxt, a
    frozen TensorFlow graph (.pb) or an ONNX model. No device is needed. Exit code: 0 no operator
    has an error of its own, 1 some have, 3 none was found but something could not be replayed, 4
    bad input.

    Example: goldwatch replay dump net.prototxt -f model.json -o replay --result out
    """
    quiet = given["quiet"]
    options = ReplayOptions(
        target,
        original,
        model,
        out,
        weights,
        backend,
        python,
        ops,
        read_limit_texts(limit_texts),
        result,
        parse_time(time),
        layer_files,
    )
    planned = planned_reports(given, out)
    with golden_words(), ProgressBar("replaying", quiet) as bar:
        found = run_replay(options, jobs or default_jobs(), force, bar.show)
    for note in found.notes:
        say_note(note, quiet)
    print_result(found, given, planned)
    return found.exit_code
