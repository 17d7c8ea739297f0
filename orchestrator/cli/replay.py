"""``goldwatch replay``."""

from __future__ import annotations

from typing import Optional

import click

from ..base.option_fields import Given, given, options_class, same_option
from ..base.pool import default_jobs
from ..run.replay.options import ReplayOptions
from ..run.replay.run import replay as run_replay
from .command import command, format_option, options_of, verbosity_options
from .compare import ComparisonArguments
from .golden_messages import golden_words
from .printing import say_note
from .progress import ProgressBar
from .report_files import (
    no_earlier_reports,
    none_left_on_error,
    planned_reports,
    report_options,
)
from .result_text import ResultArguments, print_result
from .user_code_options import read_limit_texts
from .what_was_given import require_order


@options_class
class _Arguments(ResultArguments):
    """The arguments of ``goldwatch replay``."""

    target: str
    original: str
    replaying: Given[ReplayOptions] = given(ReplayOptions)
    jobs: Optional[int] = same_option(ComparisonArguments, "jobs")
    force: bool = same_option(ComparisonArguments, "force")


@command(arguments=_Arguments, first=("model", "out", "result", "ops", "html_file"))
@click.argument("target")
@click.argument("original", metavar="MODEL")
@options_of(_Arguments)
@report_options
@options_of(ResultArguments)
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
    out = arguments.replaying.values["out"]
    planned = planned_reports(arguments, out)
    require_order("replay", arguments.target, arguments.original)
    with none_left_on_error(planned):
        options = arguments.replaying.make(
            target=arguments.target,
            original=arguments.original,
            limits=read_limit_texts(arguments.replaying.values["limits"]),
        )
    with no_earlier_reports(planned, out, arguments.force):
        with golden_words(), ProgressBar("replaying", arguments.quiet) as bar:
            result = run_replay(
                options,
                arguments.jobs or default_jobs(),
                arguments.force,
                lambda progress: bar.show(progress.stage, *progress.steps),
            )
        for note in result.notes:
            say_note(note, arguments.quiet)
        print_result(result, arguments, planned)
        return result.exit_code
