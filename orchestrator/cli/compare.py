"""``goldwatch compare``."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Tuple

import click

from ..errors import UsageError
from ..metrics.class_and_box_agreement import AGREEMENT_METRICS
from ..processes.pool import default_jobs
from ..run.compare_folders import compare_folders
from ..run.comparison_options import AUTO, EACH, LEAST_SAMPLE, ONE, ComparisonOptions
from ..run.tensors_of_two_files import is_file_pair
from ..run.torchair_graphs import graphs_beside
from .command import (
    CLUSTER,
    LIMITS,
    MODEL,
    OUTPUT,
    SPEED,
    WHAT,
    command,
    format_option,
    option_group,
    topic,
    verbosity_options,
)
from .limits import LimitArguments, limit_options, read_limits
from .option_values import parse_metrics, parse_range, parse_select, parse_time
from .output_file_checks import out_option
from .printing import say, say_note
from .progress import ProgressBar
from .report_files import (
    Reports,
    no_earlier_reports,
    none_left_on_error,
    planned_reports,
    report_options,
)
from .result_text import ResultArguments, print_result, table_option
from .user_code_options import CustomArguments, custom_options, user_code

if TYPE_CHECKING:
    from ..cluster.address import ClusterAddress
    from ..config.dump_plan import DumpPlan
    from ..run.result import RunResult


comparison_options = option_group(
    topic(
        WHAT,
        click.option(
            "--range",
            "op_range",
            metavar="START,END[,STEP]",
            help="Only ops with these OpSequence numbers (json ids).",
        ),
        click.option(
            "--select",
            multiple=True,
            metavar="3,7-9",
            help="Only ops with these OpSequence numbers.",
        ),
        click.option(
            "--time",
            metavar="T|all",
            help="The time folder that counts.  [default: the newest of each device and model]",
        ),
        click.option(
            "--check-addresses",
            is_flag=True,
            help="Report tensors that overlap in memory while both are needed.",
        ),
    ),
    topic(
        MODEL,
        click.option(
            "-f",
            "--model",
            metavar="OM.json",
            help="The model: json of an om (atc --mode=1), or GE's text graph; or a folder of "
            "them, one for each model_name.",
        ),
        click.option(
            "--golden-steps",
            type=click.Choice([AUTO, ONE, EACH]),
            default=AUTO,
            show_default=True,
            help="One golden set for all steps, or GOLDEN/{step}/ for each; auto: each where the "
            "folders are numbers.",
        ),
        click.option(
            "--quant-json",
            "quantisation",
            metavar="JSON",
            help="The quantisation json: a quantised model (without -f: its npy or quant files) "
            "against the net before.",
        ),
        click.option(
            "--unfused-om",
            "unfused",
            metavar="JSON",
            help="The model of a build without fusion, whose dumps GOLDEN holds.",
        ),
        click.option(
            "--original",
            metavar="MODEL",
            help="The original model (.prototxt, .pb, .onnx), by which operators are computed "
            "again.  [default: the one that golden data were made of]",
        ),
    ),
    topic(
        LIMITS,
        limit_options,
        click.option("--allow-missing", is_flag=True, help="Accept missing golden or dump files."),
        click.option(
            "--strict",
            is_flag=True,
            help="End with 1 when everything passes but an operator is suspect.",
        ),
        click.option(
            "--metrics",
            metavar="NAME,…",
            help="The metrics to show, in this order; all: the ten, and those of --custom.  "
            "[default: all]",
        ),
        custom_options,
    ),
    topic(
        OUTPUT,
        click.option("--overflow", is_flag=True, help="Add the OverFlow column."),
        click.option(
            "--mapping", is_flag=True, help="Also write the table of files, mapping_{time}.csv."
        ),
        click.option("--force", is_flag=True, help="Discard other results in OUT."),
        report_options,
        table_option,
        format_option,
        verbosity_options,
    ),
    topic(
        SPEED,
        click.option(
            "--jobs",
            type=click.IntRange(1, 1024),
            metavar="N",
            help="Processes that compare, at most.  [default: all processors]",
        ),
        click.option(
            "--recompute",
            type=click.Choice(["auto", "all", "none"]),
            default="auto",
            show_default=True,
            help="Which operators are computed again from the device's own inputs; auto: those "
            "that fail or are suspect, and a sample of the others, for a fifth of the time that "
            "comparing takes.",
        ),
        click.option(
            "--max-elements",
            type=click.IntRange(LEAST_SAMPLE),
            metavar="N",
            help="Of larger tensors compare a sample of at most N elements.  [default: all "
            "elements]",
        ),
    ),
)
"""The options that ``compare``, ``watch`` and ``run`` share."""


@dataclass(frozen=True)
class ComparisonArguments(ResultArguments, CustomArguments, LimitArguments):
    """The values of :data:`comparison_options`."""

    model: Optional[str]
    op_range: Optional[str]
    select: Tuple[str, ...]
    time: Optional[str]
    check_addresses: bool
    golden_steps: str
    quantisation: Optional[str]
    unfused: Optional[str]
    original: Optional[str]
    allow_missing: bool
    strict: bool
    metrics: Optional[str]
    overflow: bool
    mapping: bool
    force: bool
    jobs: Optional[int]
    recompute: str
    max_elements: Optional[int]


plan_option = topic(
    MODEL,
    click.option(
        "--acl",
        "plan",
        metavar="FILE",
        help="What the device was given: acl.json, npu settings, their script, or a dump plan. "
        "What it leaves out is not missing (needs -f).",
    ),
)
"""The option of ``compare`` and ``watch``; ``run`` knows what its program is given."""


def dumped_plan(path: Optional[str]) -> Optional[DumpPlan]:
    """Return the dump plan in the file at ``path``; None without a path."""
    if path is None:
        return None
    from ..config.ops_of_dump_plan import read_requested_plan

    return read_requested_plan(path)


def make_options(
    target: str,
    golden: str,
    out: str,
    arguments: ComparisonArguments,
    plan: Optional[DumpPlan] = None,
    outputs: Optional[Tuple[str, ...]] = None,
    boxes: Tuple[str, ...] = (),
    exact: bool = False,
) -> ComparisonOptions:
    """Return the checked options of a comparison.

    ``plan``: what the device was asked to dump.
    """
    code, metric_arguments = user_code(arguments)
    custom_metrics = (*code.names, *(AGREEMENT_METRICS if outputs is not None else ()))
    if exact and (arguments.limit_texts or arguments.limits_name or arguments.metrics):
        raise UsageError("--exact compares bytes: --limit, --limits and --metrics are for numbers")
    return ComparisonOptions(
        target=target,
        golden=golden,
        out=out,
        model=arguments.model or (None if arguments.quantisation else graphs_beside(target)),
        metrics=parse_metrics(arguments.metrics, custom_metrics),
        limits=read_limits(arguments.limits_name, arguments.limit_texts, custom_metrics),
        op_range=parse_range(arguments.op_range),
        select=parse_select(arguments.select),
        overflow=arguments.overflow,
        mapping=arguments.mapping,
        allow_missing=arguments.allow_missing,
        strict=arguments.strict,
        time=parse_time(arguments.time),
        golden_steps=arguments.golden_steps,
        quantisation=arguments.quantisation,
        unfused=arguments.unfused,
        check_addresses=arguments.check_addresses,
        custom=arguments.custom,
        metric_arguments=metric_arguments,
        max_elements=arguments.max_elements or 0,
        original=arguments.original,
        recompute=arguments.recompute,
        plan=plan,
        exact=exact,
        outputs=outputs,
        boxes=boxes,
    )


@dataclass(frozen=True)
class CompareArguments(ComparisonArguments):
    """The arguments of ``goldwatch compare``."""

    target: str
    golden: str
    out: str
    outputs: Tuple[str, ...]
    boxes: Tuple[str, ...]
    exact: bool
    plan: Optional[str]
    cluster: Optional[str]
    tls_ca_file: Optional[str]
    tls_cert: Optional[str]
    tls_key: Optional[str]
    insecure: bool


@command(arguments=CompareArguments, first=("out", "model", "limit_texts", "html_file", "plan"))
@click.argument("target")
@click.argument("golden")
@out_option("Folder of the store and the result files.", required=True)
@topic(
    WHAT,
    click.option(
        "--outputs",
        multiple=True,
        metavar="NAME=FILE[:DTYPE:SHAPE]",
        help="TARGET holds outputs of the network, no dumps; this file is that of an op, or of a "
        "number. "
        "[default: found by their names]",
    ),
    click.option(
        "--boxes",
        multiple=True,
        metavar="OUTPUT[=COLUMN,…]",
        help="An output that holds boxes, and what its columns are: x1,y1,x2,y2 or cx,cy,w,h, "
        "score, class, _.",
    ),
    click.option(
        "--exact",
        is_flag=True,
        help="Compare two runs of one model bit for bit: GOLDEN is the other run.",
    ),
)
@comparison_options
@plan_option
@topic(
    CLUSTER,
    click.option(
        "--cluster",
        metavar="URL",
        help="Let a Dask cluster compare: tcp://HOST:PORT, tls://HOST:PORT, or local[:N].",
    ),
    click.option(
        "--tls-ca-file",
        metavar="FILE",
        help="Certificate authority of the cluster, in PEM.  [default: as Dask is configured]",
    ),
    click.option("--tls-cert", metavar="FILE", help="Our certificate for the cluster."),
    click.option("--tls-key", metavar="FILE", help="Its key.  [default: in the same file]"),
    click.option("--insecure", is_flag=True, help="Allow tcp:// to another machine."),
)
def compare(arguments: CompareArguments) -> int:
    """Compare the dumps of a network or a training with golden data, or two dumps of one model.

    TARGET is a dump tree or any folder in it, of tensors or of statistics (dump_data stats); GOLDEN
    holds .npy, .pb or .quant files, or another dump tree; or both are single files. Exit code: 0
    all rows pass, 1 a row is outside its limits, 3 something could not be compared, 4 bad input.

    With --exact: which op is the first that makes other bytes of equal inputs.

    Example: goldwatch compare dump/20260102030405 golden -f model.json -o out --limit
    CosineSimilarity=0.999
    """
    target, golden, out = arguments.target, arguments.golden, arguments.out
    planned = planned_reports(arguments, out)
    with none_left_on_error(planned):
        outputs = output_texts(arguments)
        plan = dumped_plan(arguments.plan)
        options = make_options(
            target, golden, out, arguments, plan, outputs, arguments.boxes, arguments.exact
        )
        cluster = cluster_address(arguments)
        # Neither a missing path nor a special file is one of two files: the folders' checks name
        # them.
        plain = [os.path.isfile(path) or os.path.isdir(path) for path in (target, golden)]
        files = all(plain) and is_file_pair(target, golden)
        if cluster is not None and files:
            raise UsageError("--cluster is for folders: two files are compared here")
        if cluster is not None and options.quantisation and not options.model:
            raise UsageError(
                "--cluster compares a device's dumps: a quantised net's own files are compared here"
            )
    with no_earlier_reports(planned, out, arguments.force):
        return _compare(arguments, options, planned, cluster, _how_to_compare(options, files))


def _compare(
    arguments: CompareArguments,
    options: ComparisonOptions,
    planned: Reports,
    cluster: Optional[ClusterAddress],
    compare_them: Callable[..., RunResult],
) -> int:
    """Compare and print the result; return the exit code."""
    with ProgressBar("comparing", arguments.quiet) as bar, comparers(cluster, bar) as elsewhere:
        result = compare_them(
            options,
            arguments.jobs or default_jobs(),
            arguments.force,
            on_progress=lambda progress: bar.show(progress.stage, *progress.steps),
            **elsewhere,
        )
    for note in result.notes:
        say_note(note, arguments.quiet)
    for text in result.left_out:
        say("warning: " + text)
    print_result(result, arguments, planned)
    return result.exit_code


def output_texts(arguments: CompareArguments) -> Optional[Tuple[str, ...]]:
    """Return the values of ``--output``, none where TARGET is a folder of output files, or None
    where it holds dumps.
    """
    if not arguments.outputs and os.path.isdir(arguments.target):
        from ..run.compare_final_outputs import holds_outputs

        if holds_outputs(arguments.target):
            return ()
    if not arguments.outputs and arguments.boxes:
        raise UsageError(
            "--boxes is for the outputs of a network: TARGET holds none",
            hint="--outputs NAME=FILE names them",
        )
    return arguments.outputs or None


def _how_to_compare(options: ComparisonOptions, files: bool) -> Callable[..., RunResult]:
    if options.outputs is not None:
        from ..run.compare_final_outputs import compare_outputs

        return compare_outputs
    if files:
        from ..run.compare_two_files import compare_files

        return compare_files
    if options.model or not options.quantisation:
        return compare_folders
    from ..run.compare_quantised_files import compare_quantised_files

    return compare_quantised_files


def cluster_address(arguments: CompareArguments) -> Optional[ClusterAddress]:
    """Return the address of the cluster that compares; None for this machine."""
    files = arguments.tls_ca_file, arguments.tls_cert, arguments.tls_key
    if arguments.cluster is not None:
        from ..cluster.address import parse_cluster

        return parse_cluster(arguments.cluster, arguments.insecure, *files)
    if arguments.insecure or any(files):
        raise UsageError("--insecure and certificates are for a cluster: they need --cluster")
    return None


@contextlib.contextmanager
def comparers(cluster: Optional[ClusterAddress], bar: ProgressBar) -> Iterator[Dict[str, Any]]:
    """Yield the keyword arguments of a comparison that say who compares, once the cluster
    answered.
    """
    if cluster is None:
        yield {}
        return
    from ..cluster.comparers import cluster_comparers

    bar.show("asking the cluster", 0, 0)
    with cluster_comparers(cluster, say=bar.say) as cluster_workers:
        yield {"comparers": cluster_workers}
