"""``goldwatch golden tf dump``: parse, start the job, show what was done."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Dict, List, Optional, Tuple

import click

from goldwatch.adapters.tensorflow.dump_command import (
    GraphJob,
    JobResult,
    ScriptJob,
    dump_graph,
    run_script,
)
from goldwatch.adapters.tensorflow.dump_command import list_runs as listed_runs

from ..base.errors import EXIT_FAIL, InputError, UsageError
from ..base.naming import printable
from ..base.wording import listed
from . import output_file_checks
from .command import command, format_option, quiet_option, topic
from .golden_messages import golden_words
from .printing import print_json, put, say
from .progress import ProgressBar
from .step_lists import run_numbers
from .what_was_given import GOLDEN, refuse_place

_SHOWN = 20
_NAMES = 8

_out_option = output_file_checks.out_option(
    "The golden folder; made when missing.", "--output", "out"
)
out_option = output_file_checks.out_option(
    "The golden folder; made when missing.", "--output", "out", required=True
)
python_option = click.option(
    "--python", metavar="PATH", help="The Python that has TensorFlow (default: found)."
)
force_option = click.option(
    "--force", is_flag=True, help="Replace golden files that are already there."
)
without_npu_option = click.option(
    "--without-npu",
    is_flag=True,
    help="Give the script a stand-in for npu_bridge that changes nothing.",
)
words_argument = click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="[-- python SCRIPT ARGS…]"
)


def _steps(_: click.Context, __: click.Parameter, value: Optional[str]) -> Optional[List[int]]:
    return None if value is None else run_numbers(value)


def _named_files(
    _: click.Context, __: click.Parameter, values: Tuple[str, ...]
) -> List[Tuple[str, str]]:
    pairs: List[Tuple[str, str]] = []
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or not name or not path:
            raise click.BadParameter("%r is not NAME=FILE" % value)
        if name in [pair[0] for pair in pairs]:
            raise click.BadParameter("%s is given twice" % name)
        pairs.append((name, os.path.abspath(path)))
    return pairs


@command(first=("out", "pb", "saved_model", "inputs", "steps"))
@_out_option
@topic(
    "Runs of a script",
    click.option(
        "--list-runs",
        is_flag=True,
        help="Save nothing: show the script's own runs with their numbers, fetches and feeds.",
    ),
    click.option(
        "--run-index",
        type=click.IntRange(min=0),
        metavar="N",
        help="Which of the script's own runs, from 0 (default: 0).",
    ),
    click.option(
        "--steps", callback=_steps, metavar="0|5-9", help="Several runs, each into OUT/{step}/."
    ),
    click.option(
        "--estimator",
        is_flag=True,
        help="Count only the steps of Estimators and MonitoredSessions.",
    ),
    without_npu_option,
    click.option(
        "--twice",
        is_flag=True,
        help="Run the script twice and report what is not reproducible (exit code 1).",
    ),
)
@topic(
    "A model",
    click.option("--pb", metavar="FROZEN.pb", help="Run a frozen graph instead of a script."),
    click.option("--saved-model", metavar="DIR", help="Run a SavedModel instead of a script."),
    click.option(
        "-i",
        "--inputs",
        multiple=True,
        callback=_named_files,
        metavar="NAME=FILE",
        help="A model's input (.npy); repeat for more.",
    ),
    click.option(
        "--outputs",
        multiple=True,
        metavar="NAME",
        help="An output of the model (default: the signature's, or all sinks).",
    ),
    click.option(
        "--tags", default="serve", show_default=True, metavar="A,B", help="The SavedModel's tags."
    ),
    click.option("--signature", metavar="NAME", help="The SavedModel's signature."),
)
@topic("What runs it", python_option)
@force_option
@format_option
@quiet_option
@words_argument
def dump(
    out: Optional[str],
    list_runs: bool,
    run_index: Optional[int],
    steps: Optional[List[int]],
    estimator: bool,
    without_npu: bool,
    twice: bool,
    pb: Optional[str],
    saved_model: Optional[str],
    inputs: List[Tuple[str, str]],
    outputs: Tuple[str, ...],
    tags: str,
    signature: Optional[str],
    python: Optional[str],
    force: bool,
    output_format: str,
    quiet: bool,
    words: Tuple[str, ...],
) -> int:
    """Run an unmodified TensorFlow 1.15 script and save every tensor of one of its runs as golden
    data.

    Grappler and graph optimisation are off, so that each op of the graph runs as itself. Runs are
    counted from 0 over the script's own ones; initialisers, set-up, lone assignments and counters
    do not count. Instead of a script: --pb or --saved-model with --inputs.

    Examples: goldwatch golden tf dump --list-runs -- python infer.py;
    goldwatch golden tf dump -o golden -- python infer.py --batch 1;
    goldwatch golden tf dump -o golden --pb frozen.pb --inputs input=image.npy
    """
    if run_index is not None and steps is not None:
        raise UsageError("--run-index and --steps exclude each other")
    if list_runs:
        if out or twice or pb or saved_model or run_index is not None or steps is not None:
            raise UsageError(
                "--list-runs saves nothing: it goes with --estimator, --without-npu and a "
                "script alone"
            )
        common = _common(python, force, output_format, quiet)
        with golden_words():
            runs = listed_runs(
                ScriptJob({}, list(words), estimator, without_npu=without_npu, **common)
            )
        return _print_runs(runs, output_format)
    if not out:
        raise UsageError(
            "no folder for the golden files",
            hint="give -o OUT, or --list-runs to look at the script's runs first",
        )
    refuse_place(out, GOLDEN)
    common = _common(python, force, output_format, quiet)
    if pb is not None or saved_model is not None:
        _refuse_script_options(
            words, pb, saved_model, run_index, steps, estimator or without_npu, signature
        )
        job = GraphJob(
            out,
            pb or saved_model or "",
            pb is None,
            inputs,
            list(outputs),
            tags.split(","),
            signature,
            **common,
        )
        result = _dump_with_bar(job, twice, quiet)
    else:
        common["without_npu"] = without_npu
        if inputs or outputs or signature:
            raise UsageError("--inputs, --outputs and --signature belong to --pb and --saved-model")
        folders = (
            {step: os.path.join(out, str(step)) for step in steps}
            if steps is not None
            else {run_index or 0: out}
        )
        with golden_words():
            result = run_script(ScriptJob(folders, list(words), estimator, **common), twice)
    if output_format != "json":
        _show(result)
    if result.failure is not None:
        with golden_words():
            raise result.failure
    refused = sum(len(entry["refusals"]) for entry in result.done)
    if refused:
        counted = "1 dump" if refused == 1 else "%d dumps" % refused
        raise InputError(
            "%s could not be used; the others are saved (manifest.json tells which)" % counted
        )
    if output_format == "json":
        print_json(result.document())
    return EXIT_FAIL if result.differences else 0


def _dump_with_bar(job: GraphJob, twice: bool, quiet: bool) -> JobResult:
    """Run a model and show how many of its tensors are saved."""
    with golden_words(), ProgressBar("tensors", quiet) as bar:

        def above(text: str) -> None:
            bar.clear()
            say(text, quiet)

        return dump_graph(replace(job, say=above, progress=bar.update), twice)


def _common(python: Optional[str], force: bool, output_format: str, quiet: bool) -> Dict[str, Any]:
    return {
        "python": python,
        "force": force,
        "own_stdout": output_format == "json",
        "say": lambda text: say(text, quiet),
    }


def _refuse_script_options(
    words: Tuple[str, ...],
    pb: Optional[str],
    saved_model: Optional[str],
    run_index: Optional[int],
    steps: Optional[List[int]],
    estimator: bool,
    signature: Optional[str],
) -> None:
    if pb is not None and saved_model is not None:
        raise UsageError("--pb and --saved-model exclude each other")
    if words:
        raise UsageError("--pb and --saved-model need no script behind --")
    if run_index is not None or steps is not None or estimator:
        raise UsageError(
            "--run-index, --steps, --estimator and --without-npu belong to a script; a model "
            "is run once"
        )
    if pb is not None and signature is not None:
        raise UsageError("--signature belongs to --saved-model")


def _print_runs(result: JobResult, output_format: str) -> int:
    if output_format != "json":
        for entry in result.listed:
            first, last = entry["first"], entry["last"]
            put("run %d" % first if first == last else "runs %d to %d" % (first, last))
            put("  fetches %s" % _names(entry["fetches"]))
            put("  feeds   %s" % _names(entry["feeds"]))
    if result.failure is not None:
        with golden_words():
            raise result.failure
    if output_format == "json":
        print_json(
            {"python": result.python.path, "tensorflow": result.version, "runs": result.listed}
        )
    return 0


def _names(names: List[str]) -> str:
    return listed([printable(name) for name in names], _NAMES) if names else "nothing"


def _show(result: JobResult) -> None:
    for entry in result.done:
        parts = [
            "%d saved" % entry["saved"],
            "%d skipped" % entry["skipped"],
            "%d refused" % entry["refused"],
        ]
        put(
            "%s: run %d, %d dumps: %s"
            % (entry["out"], entry["run"], entry["dumps"], ", ".join(parts))
        )
        for refusal in entry["refusals"]:
            say("error: %s: %s" % (refusal["tensor"], refusal["reason"]))
        for note in entry["notes"]:
            say("warning: " + note)
    if result.twice:
        _show_differences(result)


def _show_differences(result: JobResult) -> None:
    if not result.differences:
        put("reproducible: both runs gave the same %d tensors" % result.same)
        return
    put(
        "not reproducible: %d of %d tensors"
        % (len(result.differences), len(result.differences) + result.same)
    )
    for difference in result.differences[:_SHOWN]:
        put("  %s (%s): %s" % (difference.tensor, difference.op_type, difference.reason))
    if len(result.differences) > _SHOWN:
        put("  … and %d more (manifest.json lists them)" % (len(result.differences) - _SHOWN))
    for line in result.advice:
        put("advice: " + line)
