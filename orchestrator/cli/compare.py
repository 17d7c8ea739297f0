"""``goldwatch compare``."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Tuple

import click

from ..errors import UsageError
from ..metrics.agreement import AGREEMENT_METRICS
from ..processes.pool import default_jobs
from ..run.file_pair import is_file_pair
from ..run.listed import compare_folders
from ..run.options import AUTO, EACH, LEAST_SAMPLE, ONE, ComparisonOptions
from ..run.torchair import graphs_beside
from .common import format_option, option_group, say, say_note, verbosity_options
from .custom import custom_options, user_code
from .limits import limit_options, read_limits
from .option_values import parse_metrics, parse_range, parse_select, parse_time
from .progress import ProgressBar
from .report_options import planned_reports, report_options
from .result_text import print_result, table_option

if TYPE_CHECKING:
    from ..cluster.address import ClusterAddress
    from ..config.plan import DumpPlan
    from ..run.result import RunResult


comparison_options = option_group(
    click.option("-f", "--model", metavar="OM.json",
                 help="The model: json of an om (atc --mode=1), or GE's text graph; or a folder of "
                     "them, one for each model_name."),
    limit_options,
    click.option("--allow-missing", is_flag=True, help="Forgive absent golden or dump files."),
    click.option("--strict", is_flag=True, help="End with 1 when everything passes but an "
        "operator is suspect."),
    click.option("--quant-json", "quantisation", metavar="JSON",
                 help="The quantisation json: a quantised model (without -f: its npy or quant "
                     "files) against the net before."),
    click.option("--unfused-om", "unfused", metavar="JSON",
                 help="The model of a build without fusion, whose dumps GOLDEN holds."),
    click.option("--original", metavar="MODEL",
                 help="The original model (.prototxt, .pb, .onnx), by which operators are computed "
                     "again.  [default: the one that "
                      "golden data were made of]"),
    click.option("--recompute", type=click.Choice(["auto", "all", "none"]), default="auto",
    show_default=True,
                 help="Which operators are computed again from the device's own inputs; auto: "
                     "those that fail or are suspect, and others "
                      "for half of the time that comparing takes."),
    click.option("--jobs", type=click.IntRange(1, 1024), metavar="N",
                 help="Processes that compare, at most.  [default: all processors]"),
    click.option("--metrics", metavar="NAME,…",
                 help="The metrics to show, in this order; all: the ten, and those of --custom.  "
                     "[default: all]"),
    custom_options,
    click.option("--range", "op_range", metavar="START,END[,STEP]", help="Only ops with these "
        "OpSequence numbers (json ids)."),
    click.option("--select", multiple=True, metavar="3,7-9",
    help="Only ops with these OpSequence numbers."),
    click.option("--time", metavar="T|all", help="The time folder that counts.  [default: "
        "the newest of each device and model]"),
    click.option("--golden-steps", type=click.Choice([AUTO, ONE, EACH]), default=AUTO,
    show_default=True,
                 help="One golden set for all steps, or GOLDEN/{step}/ for each; auto: each where "
                     "the folders are numbers."),
    click.option("--max-elements", type=click.IntRange(LEAST_SAMPLE), metavar="N",
                 help="Of larger tensors compare a sample of at most N elements.  [default: all "
                     "elements]"),
    click.option("--overflow", is_flag=True, help="Add the OverFlow column."),
    click.option("--check-addresses", is_flag=True, help="Report tensors that overlap in "
        "memory while both are needed."),
    click.option("--mapping", is_flag=True, help="Write the table of files besides: "
        "mapping_{time}.csv."),
    click.option("--force", is_flag=True, help="Discard other results in OUT."),
    report_options,
    table_option,
    format_option,
    verbosity_options,
)  # fmt: skip
"""The options that ``compare``, ``watch`` and ``run`` share."""


asked_option = click.option(
    "--acl",
    metavar="FILE",
    help="What the device was given: acl.json, npu settings, their script, or a dump plan. "
    "What it leaves out is not missing (needs -f).",
)
"""The option of ``compare`` and ``watch``; ``run`` knows what its program is given."""


def asked_plan(given: Any) -> Optional[DumpPlan]:
    """Return what the device was asked to dump; None where nobody says."""
    if given["acl"] is None:
        return None
    if given["model"] is None:
        raise UsageError("--acl leaves out ops that only the model knows: it needs -f")
    from ..config.requested_ops import read_asked

    return read_asked(given["acl"])


def make_options(
    target: str, golden: str, out: str, given: Any, plan: Optional[DumpPlan] = None
) -> ComparisonOptions:
    """Return the checked options of a comparison from what click parsed.

    ``plan``: what the device was asked to dump.
    """
    if (given["op_range"] or given["select"]) and given["model"] is None:
        raise UsageError("--range and --select count by the json's OpSequence: they need -f")
    if given["op_range"] and given["select"]:
        raise UsageError("--range and --select exclude each other")
    if given["unfused"] and given["model"] is None:
        raise UsageError("--unfused-om leads on the names of a model: it needs -f")
    if given["check_addresses"] and given["model"] is None:
        raise UsageError(
            "--check-addresses needs -f: until when a tensor is needed is known by the model only"
        )
    if given["quantisation"] and given["unfused"]:
        raise UsageError("--quant-json and --unfused-om exclude each other")
    code, arguments = user_code(given)
    outputs = given.get("outputs")
    own = (*code.names, *(AGREEMENT_METRICS if outputs is not None else ()))
    exact = bool(given.get("exact"))
    if exact and (given["limit_texts"] or given["limits_name"] or given["metrics"]):
        raise UsageError("--exact compares bytes: --limit, --limits and --metrics are for numbers")
    return ComparisonOptions(
        target=target,
        golden=golden,
        out=out,
        model=given["model"] or (None if given["quantisation"] else graphs_beside(target)),
        metrics=parse_metrics(given["metrics"], own),
        limits=read_limits(given["limits_name"], given["limit_texts"], own),
        op_range=parse_range(given["op_range"]),
        select=parse_select(given["select"]),
        overflow=given["overflow"],
        mapping=given["mapping"],
        allow_missing=given["allow_missing"],
        strict=given["strict"],
        time=parse_time(given["time"]),
        golden_steps=given["golden_steps"],
        quantisation=given["quantisation"],
        unfused=given["unfused"],
        check_addresses=given["check_addresses"],
        custom=given["custom"],
        metric_arguments=arguments,
        max_elements=given["max_elements"] or 0,
        original=given["original"],
        recompute=given["recompute"],
        plan=plan,
        exact=exact,
        outputs=outputs,
        boxes=tuple(given.get("boxes") or ()),
    )


@click.command()
@click.argument("target")
@click.argument("golden")
@click.option(
    "-o", "--out", required=True, metavar="OUT", help="Folder of the store and the result files."
)
@click.option(
    "--cluster",
    metavar="URL",
    help="Let a Dask cluster compare: tcp://HOST:PORT, tls://HOST:PORT, or local[:N].",
)
@click.option(
    "--tls-ca-file",
    metavar="FILE",
    help="Certificate authority of the cluster, in PEM.  [default: as Dask is configured]",
)
@click.option("--tls-cert", metavar="FILE", help="Our certificate for the cluster.")
@click.option("--tls-key", metavar="FILE", help="Its key.  [default: in the same file]")
@click.option("--insecure", is_flag=True, help="Allow tcp:// to another machine.")
@comparison_options
@asked_option
@click.option(
    "--outputs",
    multiple=True,
    metavar="NAME=FILE[:DTYPE:SHAPE]",
    help="TARGET holds outputs of the network, no dumps; this file is that of an op, or of a "
    "number. "
    "[default: found by their names]",
)
@click.option(
    "--boxes",
    multiple=True,
    metavar="OUTPUT[=COLUMN,…]",
    help="An output that holds boxes, and what its columns are: x1,y1,x2,y2 or cx,cy,w,h, score, "
    "class, _.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Compare two runs of one model bit for bit: GOLDEN is the other run.",
)
def compare(target: str, golden: str, out: str, **given: Any) -> int:
    """Compare the dumps of a network or a training with golden data, or two dumps of one model.

    TARGET is a dump tree or any folder in it, of tensors or of statistics (dump_data stats); GOLDEN
    holds .npy, .pb or .quant files, or another dump tree; or both are single files. Exit code: 0
    all rows pass, 1 some row is outside its limits, 3 something could not be compared, 4 bad input.

    With --exact: which op is the first that makes other bytes of equal inputs.

    Example: goldwatch compare dump/20260102030405 golden -f model.json -o out --limit
    CosineSimilarity=0.999
    """
    quiet = given["quiet"]
    given["outputs"] = output_texts(given, target)
    options = make_options(target, golden, out, given, asked_plan(given))
    cluster = cluster_address(given)
    planned = planned_reports(given, out)
    # Neither a missing path nor a special file is one of two files: the folders' checks name them.
    plain = [os.path.isfile(path) or os.path.isdir(path) for path in (target, golden)]
    files = all(plain) and is_file_pair(target, golden)
    if cluster is not None and files:
        raise UsageError("--cluster is for folders: two files are compared here")
    if cluster is not None and options.quantisation and not options.model:
        raise UsageError(
            "--cluster compares a device's dumps: a quantised net's own files are compared here"
        )
    compare_them = _how_to_compare(options, files)
    with ProgressBar("comparing", quiet) as bar, comparers(cluster, bar, given) as elsewhere:
        result = compare_them(
            options,
            given["jobs"] or default_jobs(),
            given["force"],
            on_progress=lambda found: bar.show(found.stage, *found.steps),
            **elsewhere,
        )
    for note in result.notes:
        say_note(note, quiet)
    for text in result.left_out:
        say("warning: " + text)
    print_result(result, given, planned)
    return result.exit_code


def output_texts(given: Any, target: str) -> Optional[Tuple[str, ...]]:
    """Return the outputs that were named, none where TARGET is full of such files, or None where it
    holds dumps.
    """
    found: Tuple[str, ...] = tuple(given["outputs"])
    if not found and os.path.isdir(target):
        from ..run.final_outputs import holds_outputs

        if holds_outputs(target):
            return ()
    if not found and given["boxes"]:
        raise UsageError(
            "--boxes is for the outputs of a network: TARGET holds none",
            hint="--outputs NAME=FILE names them",
        )
    return found or None


def _how_to_compare(options: ComparisonOptions, files: bool) -> Callable[..., RunResult]:
    if options.outputs is not None:
        from ..run.final_outputs import compare_outputs

        return compare_outputs
    if files:
        from ..run.two_files import compare_files

        return compare_files
    if options.model or not options.quantisation:
        return compare_folders
    from ..run.quantised_files import compare_quantised_files

    return compare_quantised_files


def cluster_address(given: Any) -> Optional[ClusterAddress]:
    """Return the cluster that is to compare; None for this machine."""
    files = {name: given[name] for name in ("tls_ca_file", "tls_cert", "tls_key")}
    if given["cluster"] is not None:
        from ..cluster.address import parse_cluster

        return parse_cluster(given["cluster"], given["insecure"], **files)
    if given["insecure"] or any(files.values()):
        raise UsageError("--insecure and certificates are for a cluster: they need --cluster")
    return None


@contextlib.contextmanager
def comparers(
    cluster: Optional[ClusterAddress], bar: ProgressBar, given: Any
) -> Iterator[Dict[str, Any]]:
    """Yield what tells a comparison who compares, once the cluster has been asked."""
    if cluster is None:
        yield {}
        return
    from ..cluster.comparers import cluster_comparers

    bar.show("asking the cluster", 0, 0)
    with cluster_comparers(cluster, tell=bar.say) as elsewhere:
        yield {"comparers": elsewhere}
