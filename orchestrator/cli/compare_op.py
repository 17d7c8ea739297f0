"""``goldwatch compare-op``."""

from __future__ import annotations

import os
from typing import List, Optional, Sequence

import click

from ..base.errors import UsageError
from ..base.naming import printable
from ..base.option_fields import MODEL, WHAT, jobs_option, option, options_class, same_option
from ..base.pool import default_jobs
from ..base.wording import listed
from ..dumps.dump_index import are_files, indexes_of
from ..judging.row_judge import RowJudge
from ..metrics.pair_task import Settings
from ..metrics.row import FAIL, MEASURES, METRICS, NOT_COMPARED
from ..model.graphs_of_run import graphs_beside
from ..model.row_plan import INPUT, OUTPUT
from ..run.comparison_options import ComparisonOptions, parse_time
from ..tools.detail.compare_op import OpDetail, compare_op
from ..tools.detail.element_files import MOST_ROWS
from ..tools.detail.tensor_detail import ALL, BAD, DEFAULT_TOP, MOST, NONE, DetailSettings
from ..tools.detail.tensor_pairs import OpPairs, TensorChoice, pairs_in_files, pairs_in_folders
from .command import (
    PrintArguments,
    command,
    format_option,
    options_of,
    verbosity_options,
)
from .output_file_checks import out_option
from .printing import print_json, put_line, put_wrapped, say, say_note
from .progress import ProgressBar
from .user_code_options import CustomArguments, LimitArguments, read_limits, user_code

_MOST_INPUTS = 3


@options_class
class _TensorArguments:
    """Which tensors are looked at, and what is written of each."""

    model: Optional[str] = option(
        "-f",
        "--model",
        metavar="OM.json",
        topic=MODEL,
        help="The model: json of an om (atc --mode=1), or GE's text graph; or a folder of them.",
    )
    quantisation: Optional[str] = option(
        "--quant-json",
        metavar="JSON",
        topic=MODEL,
        help="The quantisation json, as compare takes it.",
    )
    unfused: Optional[str] = option(
        "--unfused-om",
        metavar="JSON",
        topic=MODEL,
        help="The model of a build without fusion, as compare takes it.",
    )
    input_index: Optional[int] = option(
        "--input", least=0, metavar="I", topic=WHAT, help="Only this input."
    )
    output_index: Optional[int] = option(
        "--output", least=0, metavar="I", topic=WHAT, help="Only this output."
    )
    top: int = option(
        "--top",
        least=1,
        most=MOST,
        metavar="N",
        help="Length of the top-n lists.",
        default=DEFAULT_TOP,
        show_default=True,
    )
    max_rows: int = option(
        "--max-rows",
        least=1,
        most=MOST_ROWS,
        metavar="N",
        help="Rows of one element file at most.",
        default=MOST_ROWS,
        show_default=True,
    )
    rows: str = option(
        "--rows",
        choices=(ALL, BAD, NONE),
        help="Which elements are listed; bad: off by more than the target type's rounding.",
        default=ALL,
        show_default=True,
    )
    time: Optional[str] = same_option(ComparisonOptions, "time", parse=None)
    jobs: Optional[int] = jobs_option(" that write")


@options_class
class _Arguments(_TensorArguments, CustomArguments, LimitArguments, PrintArguments):
    """The arguments of ``goldwatch compare-op``."""

    target: str
    golden: str
    op: Optional[str]
    allow_missing: bool = same_option(ComparisonOptions, "allow_missing")
    out: str


@command(
    "compare-op",
    arguments=_Arguments,
    first=("out", "model", "output_index", "input_index", "limit_texts"),
)
@click.argument("target")
@click.argument("golden")
@click.argument("op", required=False)
@options_of(_TensorArguments, CustomArguments, LimitArguments, _Arguments)
@out_option("Folder of the files that are written.", required=True)
@format_option
@verbosity_options
def command_compare_op(arguments: _Arguments) -> int:
    """Look at one operator element by element: where its error is and what it looks like.

    TARGET and GOLDEN are folders as for compare, and OP is the device's op name or one of its
    original names; or two single files (dump, npy, pb, quant), without OP. Exit code: 0 all its
    tensors pass, 1 some is outside its limits, 3 something could not be compared, 4 bad input.

    Example: goldwatch compare-op dump golden conv1 -f model.json -o detail
    """
    quiet, out = arguments.quiet, arguments.out
    code, _ = user_code(arguments)
    limits = read_limits(arguments.limits_name, arguments.limit_texts, code.names)
    tensors = _which_tensors(arguments)
    pairs = _pairs(arguments, tensors)
    for note in pairs.notes:
        say_note(note, quiet)
    compared = tuple(name for name in MEASURES if name in METRICS or name in limits.metrics)
    compare = Settings(compared, False, RowJudge(limits), code.metrics, code.conversions)
    settings = DetailSettings(
        out=out,
        rows=arguments.rows,
        max_rows=arguments.max_rows,
        top=arguments.top,
        compare=compare,
    )
    with ProgressBar("comparing", quiet) as bar:
        detail = compare_op(
            pairs, settings, arguments.jobs or default_jobs(), arguments.allow_missing, bar.update
        )
    if arguments.output_format == "json":
        print_json(detail.document())
    else:
        _print_detail(detail, code.names)
        say("%s: %d files written" % (out, len(detail.files)), quiet)
    return detail.exit_code


def _which_tensors(arguments: _Arguments) -> TensorChoice:
    if arguments.input_index is not None and arguments.output_index is not None:
        raise UsageError("--input and --output exclude each other")
    if arguments.input_index is not None:
        return TensorChoice("input", arguments.input_index)
    return (
        TensorChoice("output", arguments.output_index)
        if arguments.output_index is not None
        else TensorChoice()
    )


def _pairs(arguments: _Arguments, tensors: TensorChoice) -> OpPairs:
    target, golden, op = arguments.target, arguments.golden, arguments.op
    indexes = indexes_of(target, golden)
    if are_files(indexes):
        if op is not None:
            raise UsageError("OP %s: two single files are one op's already" % op)
        if arguments.quantisation or arguments.unfused:
            raise UsageError("--quant-json and --unfused-om are for folders, not for two files")
        return pairs_in_files(target, golden, arguments.model, tensors)
    for index in indexes:
        index.require()
    if op is None:
        raise UsageError(
            "OP is missing: of two folders one op is looked at",
            hint="goldwatch compare tells which",
        )
    second = arguments.quantisation, arguments.unfused
    if any(second) and (arguments.model is None or os.path.isdir(arguments.model)):
        raise UsageError(
            "--quant-json and --unfused-om lead on the names of one model: they need -f with "
            "its file"
        )
    if all(second):
        raise UsageError("--quant-json and --unfused-om exclude each other")
    return pairs_in_folders(
        indexes,
        op,
        arguments.model or graphs_beside(target),
        tensors,
        arguments.time and parse_time(arguments.time),
        *second,
    )


def _print_detail(detail: OpDetail, custom_metrics: Sequence[str]) -> None:
    bad_inputs = _bad_inputs(detail)
    for tensor in detail.tensors:
        row, document = tensor.row, tensor.document
        put_line(
            "%s: %s%s"
            % (row.tensor, row.verdict.replace("_", " "), ": " + row.reason if row.reason else "")
        )
        if row.verdict == NOT_COMPARED or not document.get("count"):
            continue
        for name in custom_metrics:
            value = row.metrics.get(name)
            put_line("  %s %s" % (name, "%.9g" % value if isinstance(value, float) else value))
        put_line(
            "  %d of %d elements are off by more than the rounding of %s"
            % (document["bad"], document["count"], row.target_dtype)
        )
        for finding in document["findings"]:
            put_line("  %s (explains %.1f %% of the error)" % (finding["sentence"],
            100 * finding["share"])
                     if finding["kind"] != "healthy" else "  " + finding["sentence"])  # fmt: skip
        if not document["findings"]:
            put_line("  no pattern explains 90 % of the error")
        if row.kind == OUTPUT and row.verdict == FAIL and bad_inputs:
            put_wrapped(
                "  %s %s outside %s limits already: this error may have come in; goldwatch compare "
                "tells whose it is"
                % (
                    listed(bad_inputs, _MOST_INPUTS),
                    "is" if len(bad_inputs) == 1 else "are",
                    "its" if len(bad_inputs) == 1 else "their",
                )
            )


def _bad_inputs(detail: OpDetail) -> List[str]:
    """Return the inputs outside their limits, but for those that hold the bytes of an output, which
    was written over them.
    """
    rows = [tensor.row for tensor in detail.tensors]
    written = {row.address for row in rows if row.kind == OUTPUT and row.address}
    return [
        printable(row.tensor)
        for row in rows
        if row.kind == INPUT and row.verdict == FAIL and row.address not in written
    ]
