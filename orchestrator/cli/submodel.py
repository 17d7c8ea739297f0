"""``goldwatch submodel``: a part of the original model with its dumps, inputs and golden data."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Tuple

import click

from ..base.errors import EXIT_PASS, InputError, MissingPath, UsageError
from ..base.naming import printable
from ..base.notes import Note, note
from ..base.option_fields import MODEL, CommonOptions
from ..base.safe_reading import read_input
from ..recomputing.submodel.cut_proposals import Proposal, Searcher, read_outcome, require_op
from ..recomputing.submodel.export_document import FILE, contents, document_of, log_lines
from ..recomputing.submodel.export_plan import (
    Plan,
    Sources,
    SubmodelOptions,
    make_plan,
    open_sources,
)
from ..recomputing.submodel.incoming_values import GOLDEN, TARGET
from ..recomputing.submodel.input_file_plan import BINS, FLOAT16
from ..recomputing.submodel.node_listing import ListedNode, list_nodes
from ..recomputing.submodel.node_names import chosen_nodes
from ..recomputing.submodel.write_export import write_export
from ..schemas.documents import read_document
from .command import command, format_option, option_of, topic, verbosity_options
from .output_file_checks import out_option
from .printing import columns_of, print_json, put, put_cells, say, say_note
from .progress import ProgressBar
from .shell_words import command_words, shell_lines

_SOC = "--soc_version=<as before>"
_FRAMEWORKS = {"caffe": 0, "tensorflow": 3, "onnx": 5}
# Placeholders for what only the user knows.
_DEVICE, _WEIGHTS, _INPUT = "DUMP_OF_THE_SUBMODEL", "WEIGHTS.caffemodel", "INPUT.npy"
_GOLDEN, _OUT, _OM = "golden_of_submodel", "compared", "dump.json"


def next_steps(done: Plan) -> Dict[str, Any]:
    """Return ``{"atc", "golden", "compare", "replay": [words …], "notes": [note …]}``, paths
    relative to the export's folder.
    """
    kind, model = done.original.kind, done.original.file_name
    ends = ";".join(
        "%s:%d" % (output.op, output.output_index) for output in done.cut.outputs if output.is_end
    )
    atc = ["atc", "--framework=%d" % _FRAMEWORKS[kind], "--model=" + model]
    # atc takes no Caffe model without weights; layers find theirs by name in those of the whole
    # net, too.
    weights = [_WEIGHTS if done.weights is None else "dump.caffemodel"] if kind == "caffe" else []
    atc += ["--weight=" + file for file in weights]
    atc += ["--output=dump", _SOC]
    atc += ["--input_format=NHWC"] if kind == "tensorflow" else []
    atc += ["--input_fp16_nodes=" + ";".join(done.halves)] if done.halves else []
    # The outputs of an ONNX model already are its ends.
    atc += ["--out_nodes=" + ends] if ends and kind != "onnx" else []
    words = []
    for border, file in done.inputs():
        name = border.entry.tensor if kind == "caffe" else border.entry.name
        words += [
            "-i" if kind != "onnx" else "--input",
            "%s=%s" % (name, _INPUT if file is None else file.npy),
        ]
    golden = {"caffe": ["caffe", model, *weights], "onnx": ["onnx", model], "tensorflow": ["tf"]}[
        kind
    ]
    own_model = ["--pb", model] if kind == "tensorflow" else []
    own_weights = ["--weights", *weights] if weights else []
    return {
        "atc": atc,
        "golden": command_words(
            ["goldwatch", "golden", golden[0], "dump"],
            golden[1:],
            [*own_model, *words, "-o", _GOLDEN],
        ),
        "compare": ["goldwatch", "compare", _DEVICE, _GOLDEN, "-f", _OM, "-o", _OUT],
        "replay": command_words(
            ["goldwatch", "replay"], [_DEVICE, model], [*own_weights, "-f", _OM, "-o", "replayed"]
        ),
        "notes": [said.document() for said in _notes(done)],
    }


def _notes(done: Plan) -> List[Note]:
    notes = [
        note("same-options"),
        note("make-om-json", _OM),
    ]
    recorded = [border.entry.name for border in done.borders if border.entry.unchanged]
    if recorded:
        notes.append(note("own-input", printable(", ".join(recorded))))
    else:
        notes.append(note("no-own-input"))
    if done.halves:
        notes.append(note("float16-inputs"))
    if any(border.origin == TARGET for border in done.borders):
        notes.append(note("inputs-of-device"))
    if done.borders and all(border.origin == GOLDEN for border in done.borders):
        notes.append(note("inputs-are-golden"))
    return notes


_LIMIT_BYTES = 256 << 20


def require_one_choice(
    options: SubmodelOptions,
    from_result: Optional[str],
    ladder: bool,
    narrow: Optional[str],
    result: Optional[str],
) -> None:
    """Raise UsageError for options that exclude one another."""
    ways = (
        ("--start/--end", options.starts or options.ends),
        ("--from-result", from_result),
        ("--narrow", narrow),
    )
    used = [name for name, value in ways if value]
    if len(used) > 1:
        raise UsageError(
            "%s exclude one another" % " and ".join(used), hint="each says by itself what is cut"
        )
    if (narrow is None) != (result is None):
        raise UsageError(
            "--narrow and --result belong together",
            hint="--narrow PREVIOUS_EXPORT --result OUT_OF_ITS_COMPARISON",
        )
    if ladder and narrow is not None:
        raise UsageError("--ladder and --narrow exclude one another")


def chosen_cuts(
    options: SubmodelOptions,
    sources: Sources,
    from_result: Optional[str],
    ladder: bool,
    narrow: Optional[str],
    result: Optional[str],
) -> List[Optional[Proposal]]:
    """Return the cuts to make, in order; None stands for the one from the given start to the given
    end.
    """
    if narrow is not None and result is not None:
        return [Searcher(sources).next(_previous(narrow, sources), read_outcome(result))]
    if from_result is not None:
        outcome = read_outcome(from_result)
        op = require_op(outcome, from_result)
        searcher = Searcher(sources)
        return (
            list(searcher.ladder(searcher.nodes_of(op)))
            if ladder
            else [searcher.of_outcome(outcome, op)]
        )
    if ladder:
        return list(
            Searcher(sources).ladder(
                chosen_nodes(sources.original, options.starts, options.ends)[2]
            )
        )
    return [None]


def _previous(folder: str, sources: Sources) -> Dict[str, Any]:
    """Return the document of an earlier export from the same model."""
    path = os.path.join(folder, FILE) if os.path.isdir(folder) else folder
    if not os.path.isfile(path):
        raise MissingPath(
            "--narrow %s: no %s there" % (folder, FILE),
            hint="name the folder of an earlier export, dump_result_…",
        )
    document: Dict[str, Any] = read_document(read_input(path, _LIMIT_BYTES), "submodel", path)
    kind = document["model"]["kind"]
    if kind != sources.original.kind:
        raise InputError(
            "%s is of a %s model, MODEL is of %s" % (path, kind, sources.original.kind)
        )
    return document


_MOST_DIGITS = 19
_STAMP = "%Y-%m-%d %H:%M:%S  "


@command(first=("starts", "ends", "out", "om", "from_result"))
@click.argument("model", type=click.Path(readable=False))
@click.option(
    "--start",
    "starts",
    multiple=True,
    metavar="NAME",
    help="The first node of the cut, nearest to the input; repeatable.",
)
@click.option(
    "--end", "ends", multiple=True, metavar="NAME", help="The last node of the cut; repeatable."
)
@out_option("Where the folder dump_result_TIME is made; DIR is made when missing.", metavar="DIR")
@topic(
    MODEL,
    option_of(CommonOptions, "weights"),
    click.option(
        "--om",
        metavar="JSON",
        help="The json of the om (atc --mode=1): which op of the device computes which nodes.",
    ),
    click.option(
        "--dump",
        metavar="DIR",
        help="The device's dumps of the whole model; those of the cut are copied.",
    ),
    click.option(
        "--golden",
        metavar="DIR",
        help="Golden data of the whole model; those of the cut are copied.",
    ),
)
@topic(
    "Inputs of the cut",
    click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=FILE",
        help="The values of an input of the cut (.npy); repeatable.",
    ),
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="NAME=1,64,112,112",
        help="The shape of an input, if neither data nor model have it; repeatable.",
    ),
)
@topic(
    "The cut",
    click.option(
        "--whole-ops",
        is_flag=True,
        help="Let the cut grow until no op of the device lies across its border (needs --om).",
    ),
)
@topic(
    "Inputs of the cut",
    click.option(
        "--input-from",
        type=click.Choice(["target", "golden"]),
        help="Whose values the inputs are.  [default: target's if there]",
    ),
    click.option(
        "--bin",
        type=click.Choice(BINS),
        default=FLOAT16,
        show_default=True,
        help="The type of floats in the .bin files.",
    ),
)
@topic(
    "The cut",
    click.option(
        "--from-result",
        metavar="OUT",
        help="Cut what a comparison's first divergence, or a replay's suspect, stands for.",
    ),
    click.option(
        "--ladder",
        is_flag=True,
        help="Growing cuts, a folder each: the op; with its neighbours; up to the next single "
        "values.",
    ),
    click.option(
        "--narrow",
        metavar="PREVIOUS",
        help="The next cut after the export PREVIOUS was run on the device (needs --result).",
    ),
    click.option(
        "--result", metavar="OUT", help="With --narrow: the comparison of the run of PREVIOUS."
    ),
)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="List the nodes; with --start and --end those of the cut are marked. Writes nothing.",
)
@click.option("--dry-run", is_flag=True, help="List what the folder would hold; writes nothing.")
@format_option
@verbosity_options
def submodel(
    model: str,
    out: Optional[str],
    inputs: Tuple[str, ...],
    shapes: Tuple[str, ...],
    from_result: Optional[str],
    ladder: bool,
    narrow: Optional[str],
    result: Optional[str],
    listing: bool,
    dry_run: bool,
    output_format: str,
    quiet: bool,
    **options: Any,
) -> int:
    """Cut a part out of MODEL (a prototxt, a frozen .pb, an .onnx) with its dumps, inputs and
    golden data. No framework is needed.

    The folder's path goes to stdout. Exit code: 0 all there, 3 the cut is made, but a dump, an
    input or golden data is missing, 4 bad input.

    Example: goldwatch submodel net.prototxt --start pool1 --end res2a --om net.json --dump dump
    --golden golden -o cuts
    """
    began_s = time.time()
    cut = SubmodelOptions(model, inputs=_files(inputs), shapes=_shapes(shapes), **options)
    require_one_choice(cut, from_result, ladder, narrow, result)
    as_json = output_format == "json"
    if not listing and not dry_run and out is None:
        raise UsageError(
            "-o is needed: where shall the folder be?",
            hint="--dry-run and --list write nothing and need none",
        )
    with ProgressBar("reading", quiet) as bar:
        bar.update(0, 0)
        sources = open_sources(cut)
    if listing:
        _print_list(list_nodes(cut, sources), as_json)
        return 0
    proposals = chosen_cuts(cut, sources, from_result, ladder, narrow, result)
    documents: List[Dict[str, Any]] = []
    codes = [EXIT_PASS]
    for proposal in proposals:
        if proposal is not None:
            if proposal.starts:
                say("%s%s" % (proposal.reason, _range(proposal)), quiet)
            else:
                if not as_json:
                    put("%s%s" % (proposal.reason, _range(proposal)))
                documents.append({"folder": None, "search": dict(proposal.search, ended=True)})
                continue
            cut = replace(
                cut, starts=proposal.starts, ends=proposal.ends, whole_ops=sources.ops is not None
            )
        plan = make_plan(cut, sources, None if proposal is None else proposal.search)
        document = document_of(plan, next_steps(plan))
        folder = None
        if not dry_run and out is not None:
            with ProgressBar("copying", quiet) as bar:
                bar.update(0, 0)
                folder = write_export(plan, document, out, began_s)
        _print_report(plan, document, folder, quiet)
        documents.append(dict(document, folder=folder))
        codes.append(plan.exit_code)
        if not as_json:
            for line in [folder] if folder is not None else contents(plan):
                put(line)
    if as_json:
        print_json({"ladder": documents} if ladder else documents[0])
    return max(codes)


def _range(proposal: Proposal) -> str:
    if not proposal.starts:
        return " (%s … %s)" % (
            ", ".join(proposal.search["start"]),
            ", ".join(proposal.search["end"]),
        )
    return ": %s … %s" % (", ".join(proposal.starts), ", ".join(proposal.ends))


def _files(texts: Tuple[str, ...]) -> Dict[str, str]:
    files: Dict[str, str] = {}
    for text in texts:
        name, equals, path = text.rpartition("=")
        if not equals or not name or not path:
            raise UsageError(
                "--input %s: expected NAME=FILE" % text, hint="for example conv1=border.npy"
            )
        files[name] = path
    return files


def _shapes(texts: Tuple[str, ...]) -> Mapping[str, Tuple[int, ...]]:
    shapes: Dict[str, Tuple[int, ...]] = {}
    for text in texts:
        name, equals, dims = text.rpartition("=")
        parts = dims.split(",") if dims else []
        if (
            not equals
            or not name
            or not all(part.strip().isdigit() and len(part) < _MOST_DIGITS for part in parts)
        ):
            raise UsageError(
                "--shape %s: expected NAME and whole numbers" % text,
                hint="for example conv1=1,64,112,112; a scalar: conv1=",
            )
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def _print_report(plan: Plan, document: Dict[str, Any], folder: Optional[str], quiet: bool) -> None:
    """Report on stderr: the log, what is missing or doubtful, the next commands."""
    stamp = time.strftime(_STAMP)
    for entry in log_lines(plan, folder or "dump_result_TIME"):
        for number, line in enumerate(entry.rstrip("\n").split("\n")):
            say((stamp if not number else "") + line, quiet)
    for said in plan.notes:
        say_note(said, quiet)
    for message in plan.warnings:
        say("warning: " + message)
    for entry in document["missing"]:
        say("missing: %s: %s" % (entry["what"], entry["reason"]))
    say("Next%s:" % (", in %s" % folder if folder else ""), quiet)
    for name in ("atc", "golden", "compare", "replay"):
        command, *words = document["next"][name]
        for line in shell_lines("  " + command, words, columns_of(sys.stderr) or 10**9):
            say(line, quiet)
    for entry in document["next"]["notes"]:
        say("  " + entry["sentence"], quiet)


def _print_list(nodes: List[ListedNode], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                dict(
                    vars(node),
                    shape=None if node.shape is None else list(node.shape),
                    ops=list(node.ops),
                )
                for node in nodes
            ]
        )
        return
    put_cells(["cut", "name", "type", "shape", "ops", "dump"])
    for node in nodes:
        shape = "" if node.shape is None else "x".join(str(dim) for dim in node.shape) or "scalar"
        dumped = "" if node.dumped is None else "yes" if node.dumped else "no"
        put_cells([node.mark, node.name, node.type, shape, ", ".join(node.ops), dumped])
