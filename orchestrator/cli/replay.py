"""``goldwatch replay``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

import click

from ..processes.pool import default_jobs
from ..replay.options import AUTO, BACKENDS, ReplayOptions
from ..replay.run import replay as run_replay
from .command import LIMITS, MODEL, SPEED, WHAT, command, format_option, topic, verbosity_options
from .golden_messages import golden_words
from .limits import read_limit_texts
from .option_values import parse_time
from .output_file_checks import out_option
from .printing import say_note
from .progress import ProgressBar
from .report_files import (
    no_earlier_reports,
    none_left_on_error,
    planned_reports,
    report_options,
)
from .result_text import ResultArguments, print_result, table_option


@dataclass(frozen=True)
class _Arguments(ResultArguments):
    """The arguments of ``goldwatch replay``."""

    target: str
    original: str
    weights: Optional[str]
    model: str
    out: str
    backend: str
    python: Optional[str]
    layer_files: Tuple[str, ...]
    ops: Tuple[str, ...]
    limit_texts: Tuple[str, ...]
    result: Optional[str]
    time: Optional[str]
    jobs: Optional[int]
    force: bool


@command(arguments=_Arguments, first=("model", "out", "result", "ops", "html_file"))
@click.argument("target")
@click.argument("original", metavar="MODEL")
@topic(
    MODEL,
    click.option(
        "--weights",
        metavar="FILE",
        help="Weights of a prototxt.  [default: the .caffemodel of its name beside it]",
    ),
    click.option(
        "-f",
        "--model",
        required=True,
        metavar="OM.json",
        help="The json of the om that ran (atc --mode=1), or GE's text graph.",
    ),
)
@out_option("Folder of the store, the result files and the computed values.", required=True)
@topic(
    "How it is replayed",
    click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        default=AUTO,
        show_default=True,
        help="What runs the original's layers.",
    ),
    click.option(
        "--python",
        metavar="EXE",
        help="The Python that has the framework.  [default: it is looked for]",
    ),
    click.option(
        "--layer",
        "layer_files",
        multiple=True,
        metavar="TYPE=FILE.py",
        help="Compute a prototxt's layers of a type yourself.",
    ),
)
@topic(
    WHAT,
    click.option("--op", "ops", multiple=True, metavar="GLOB", help="Only these ops; repeatable."),
)
@topic(
    LIMITS,
    click.option(
        "--limit",
        "limit_texts",
        multiple=True,
        metavar="[dtype=T:|type=T:|op=N:]METRIC=VALUE",
        help="Replace a limit; repeatable.",
    ),
    click.option(
        "--result",
        metavar="OUT",
        help="What compare made of the same dumps: whether it fails goes into the last sentence.",
    ),
)
@topic(
    WHAT,
    click.option("--time", metavar="T", help="The time folder that counts.  [default: the newest]"),
)
@topic(
    SPEED,
    click.option(
        "--jobs",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Processes that compare, at most.  [default: all processors]",
    ),
)
@click.option("--force", is_flag=True, help="Discard other results in OUT.")
@report_options
@table_option
@format_option
@verbosity_options
def replay(arguments: _Arguments) -> int:
    """Run every operator of a device again on the CPU with the inputs that the DEVICE recorded:
    only errors of its own show.

    TARGET is a dump tree or any folder in it, with one step; MODEL is the original: a prototxt, a
    frozen TensorFlow graph (.pb) or an ONNX model. No device is needed. Exit code: 0 no operator
    has an error of its own, 1 some have, 3 none was found but something could not be replayed, 4
    bad input.

    Example: goldwatch replay dump net.prototxt -f model.json -o replay --result out
    """
    planned = planned_reports(arguments, arguments.out)
    with none_left_on_error(planned):
        options = ReplayOptions(
            arguments.target,
            arguments.original,
            arguments.model,
            arguments.out,
            arguments.weights,
            arguments.backend,
            arguments.python,
            arguments.ops,
            read_limit_texts(arguments.limit_texts),
            arguments.result,
            parse_time(arguments.time),
            arguments.layer_files,
        )
    with no_earlier_reports(planned, arguments.out, arguments.force):
        with golden_words(), ProgressBar("replaying", arguments.quiet) as bar:
            result = run_replay(
                options, arguments.jobs or default_jobs(), arguments.force, bar.show
            )
        for note in result.notes:
            say_note(note, arguments.quiet)
        print_result(result, arguments, planned)
        return result.exit_code
