"""``goldwatch compare``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Sequence, Tuple

import click

from ..base.errors import UsageError
from ..base.option_fields import CLUSTER, MODEL, Given, given, jobs_option, option, options_class
from ..base.pool import default_jobs
from ..dumps.dump_index import DumpIndex, indexes_of, single_dumps
from ..metrics.row import AGREEMENT_METRICS
from ..model.graphs_of_run import graphs_beside
from ..run import compare_all
from ..run.comparison_options import ComparisonOptions
from .command import (
    by_topic,
    command,
    format_option,
    options_of,
    verbosity_options,
)
from .output_file_checks import out_option
from .printing import say_note
from .progress import ProgressBar
from .report_files import (
    Reports,
    no_earlier_reports,
    none_left_on_error,
    planned_reports,
    report_options,
)
from .result_text import ResultArguments, print_result
from .user_code_options import (
    CustomArguments,
    LimitArguments,
    parse_metrics,
    read_limits,
    user_code,
)

if TYPE_CHECKING:
    from ..cluster.address import ClusterAddress
    from ..config.dump_plan import DumpPlan


@options_class
class ComparisonArguments(ResultArguments, CustomArguments, LimitArguments):
    """What ``compare``, ``watch`` and ``run`` are given alike."""

    jobs: Optional[int] = jobs_option(" that compare, at most")
    comparison: Given[ComparisonOptions] = given(ComparisonOptions)
    force: bool = option("--force", help="Discard other results in OUT.", default=False)


def comparison_options(
    without: Sequence[str] = ("outputs", "boxes", "exact"),
) -> Callable[[Any], Any]:
    """Return the decorator that adds the options of :class:`ComparisonArguments`; those of some
    fields are for ``compare`` alone.
    """
    return by_topic(
        options_of(LimitArguments, ComparisonArguments, CustomArguments, without=without),
        report_options,
        options_of(ResultArguments),
        format_option,
        verbosity_options,
    )


@options_class
class PlanArguments:
    """What the device was asked to dump, for ``compare`` and ``watch``; ``run`` knows what its
    program is given.
    """

    plan: Optional[str] = option(
        "--acl",
        metavar="FILE",
        topic=MODEL,
        help="What the device was given: acl.json, npu settings, their script, or a dump plan. "
        "What it leaves out is not missing (needs -f).",
    )


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
    indexes: Tuple[DumpIndex, ...] = (),
) -> ComparisonOptions:
    """Return the checked options of a comparison.

    ``plan``: what the device was asked to dump.
    """
    code, metric_arguments = user_code(arguments)
    custom_metrics = (*code.names, *(AGREEMENT_METRICS if outputs is not None else ()))
    given_values = arguments.comparison.values
    metrics, model = given_values["metrics"], given_values["model"]
    if given_values.get("exact") and (arguments.limit_texts or arguments.limits_name or metrics):
        raise UsageError(
            "--exact compares bytes: --limit, --limits and --metrics are for numbers",
            hint="leave them out, or leave --exact out to compare numbers with limits",
        )
    return arguments.comparison.make(
        target=target,
        golden=golden,
        out=out,
        model=model or (None if given_values["quantisation"] else graphs_beside(target)),
        metrics=parse_metrics(metrics, custom_metrics),
        limits=read_limits(arguments.limits_name, arguments.limit_texts, custom_metrics),
        custom=arguments.custom,
        metric_arguments=metric_arguments,
        plan=plan,
        outputs=outputs,
        indexes=indexes,
    )


@options_class
class ClusterArguments:
    """The options about a cluster that compares."""

    cluster: Optional[str] = option(
        "--cluster",
        metavar="URL",
        topic=CLUSTER,
        help="Let a Dask cluster compare: tcp://HOST:PORT, tls://HOST:PORT, or local[:N].",
    )
    tls_ca_file: Optional[str] = option(
        "--tls-ca-file",
        metavar="FILE",
        topic=CLUSTER,
        help="Certificate authority of the cluster, in PEM.  [default: as Dask is configured]",
    )
    tls_cert: Optional[str] = option(
        "--tls-cert", metavar="FILE", topic=CLUSTER, help="Our certificate for the cluster."
    )
    tls_key: Optional[str] = option(
        "--tls-key",
        metavar="FILE",
        topic=CLUSTER,
        help="Its key.  [default: in the same file]",
    )
    insecure: bool = option(
        "--insecure", topic=CLUSTER, help="Allow tcp:// to another machine.", default=False
    )


@options_class
class CompareArguments(ComparisonArguments, PlanArguments, ClusterArguments):
    """The arguments of ``goldwatch compare``."""

    target: str
    golden: str
    out: str


@command(arguments=CompareArguments, first=("out", "model", "limit_texts", "html_file", "plan"))
@click.argument("target")
@click.argument("golden")
@out_option("Folder of the store and the result files.", required=True)
@comparison_options(without=())
@options_of(PlanArguments, ClusterArguments)
def compare(arguments: CompareArguments) -> int:
    """Compare the dumps of a network or a training with golden data, or two dumps of one model.

    TARGET is a dump tree or any folder in it, of tensors or of statistics (dump_data stats); GOLDEN
    holds .npy, .pb or .quant files, or another dump tree; or both are single files. Exit code: 0
    all rows pass, 1 a row is outside its limits, 3 something could not be compared, 4 bad input.

    With --exact: which op is the first that makes other bytes of equal inputs.

    Example: goldwatch compare dump/20260102030405 golden -f model.json -o out --limit
    CosineSimilarity=0.999
    """
    out = arguments.out
    planned = planned_reports(arguments, out)
    with none_left_on_error(planned):
        indexes = indexes_of(arguments.target, arguments.golden)
        outputs = output_texts(arguments, indexes[0])
        indexes = single_dumps(indexes)
        target, golden = (index.root for index in indexes)
        plan = dumped_plan(arguments.plan)
        options = make_options(target, golden, out, arguments, plan, outputs, indexes)
        cluster = cluster_address(arguments)
        if options.are_files and cluster is not None:
            raise UsageError("--cluster is for folders: two files are compared here")
        if cluster is not None and options.quantisation and not options.model:
            raise UsageError(
                "--cluster compares a device's dumps: a quantised net's own files are compared here"
            )
    with no_earlier_reports(planned, out, arguments.force):
        return _compare(arguments, options, planned, cluster)


def _compare(
    arguments: CompareArguments,
    options: ComparisonOptions,
    planned: Reports,
    cluster: Optional[ClusterAddress],
) -> int:
    """Compare and print the result; return the exit code."""
    with ProgressBar("comparing", arguments.quiet) as bar, comparers(cluster, bar) as elsewhere:
        result = compare_all(
            options,
            arguments.jobs or default_jobs(),
            arguments.force,
            on_progress=lambda progress: bar.show(progress.stage, *progress.steps),
            **elsewhere,
        )
    for said in (*result.notes, *result.left_out):
        say_note(said, arguments.quiet)
    print_result(result, arguments, planned)
    return result.exit_code


def output_texts(arguments: CompareArguments, target: DumpIndex) -> Optional[Tuple[str, ...]]:
    """Return the values of ``--output``, none where TARGET is a folder of output files, or None
    where it holds dumps.
    """
    given_values = arguments.comparison.values
    outputs: Tuple[str, ...] = given_values["outputs"]
    if not outputs and target.holds_outputs:
        return ()
    if not outputs and given_values["boxes"]:
        raise UsageError(
            "--boxes is for the outputs of a network: TARGET holds none",
            hint="--outputs NAME=FILE names them",
        )
    return outputs or None


def cluster_address(arguments: ClusterArguments) -> Optional[ClusterAddress]:
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
