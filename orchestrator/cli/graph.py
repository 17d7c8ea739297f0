"""``goldwatch graph``: a network as one page to look at, and to choose a part of it on."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple

import click

from ..base.atomic_writing import atomic_text_writer
from ..base.errors import GoldwatchError, UsageError, require_file
from ..recomputing.submodel.read_original import read_original
from ..reports.pages.graph_page import Commands, graph_page
from ..reports.pages.graph_result import doubt, read_result
from ..reports.pages.read_page_model import OM, PageModel, read_page_model, within
from .command import command, verbosity_options
from .output_file_checks import make_room, refuse_replacing
from .printing import put, say
from .progress import ProgressBar
from .what_was_given import require_model

_ORIGINALS = (".prototxt", ".pb", ".onnx")
_OM_JSON = "OM.json"
"""Stands for the json of an om that nobody named."""
_CUTS = "cuts"


@command()
@click.argument("model", type=click.Path(readable=False))
@click.option(
    "-o", "--output", metavar="FILE", required=True, help="The page to write, such as net.html."
)
@click.option(
    "--result",
    metavar="OUT",
    help="What compare, watch, run or replay wrote: verdicts and shapes are shown.",
)
@click.option(
    "--model",
    "original",
    metavar="FILE",
    help="With an om's json: the original model, to be shown beside it and cut.",
)
@click.option(
    "--om", metavar="JSON", help="With an original model: the om's json, for the submodel command."
)
@click.option(
    "--dump",
    metavar="DIR",
    help="The device's dumps, for the submodel command.  [default: those of OUT]",
)
@click.option(
    "--golden",
    metavar="DIR",
    help="Golden data, for the submodel command.  [default: those of OUT]",
)
@verbosity_options
def graph(
    model: str,
    output: str,
    result: Optional[str],
    original: Optional[str],
    om: Optional[str],
    dump: Optional[str],
    golden: Optional[str],
    quiet: bool,
) -> None:
    """Draw MODEL as one HTML page that needs no network and no server.

    MODEL is the json of an om (atc --mode=1), a prototxt, a frozen .pb or an .onnx. On the page ops
    are found by name, type, original name and parameter, and with a start and an end chosen it
    shows the command that cuts the part out, or dumps only it. Beside the network of an om stands
    that of its original model, if that is known (--model, or a file of the same stem), with what
    was fused into what.

    Example: goldwatch graph model.json --result out -o net.html
    """
    require_model(model)
    refuse_replacing("-o", output, {"MODEL": model, "--model": original, "--om": om}, [result])
    with ProgressBar("drawing", quiet) as bar:
        bar.update(0, 0)
        count, doubtful = _write(
            model, output, result, original, {"--om": om, "--dump": dump, "--golden": golden}
        )
    if doubtful:
        say("warning: %s: %s" % (result, doubtful))
    put("wrote %s (%d ops)" % (output, count))


def _write(
    model: str,
    output: str,
    result: Optional[str],
    original: Optional[str],
    paths: Dict[str, Optional[str]],
) -> Tuple[int, str]:
    """Write the page; return the number of its ops, and why the result may belong to another
    model.
    """
    compared = None if result is None else read_result(result)
    inputs = {} if compared is None else compared.inputs
    page_model = read_page_model(model, paths["--golden"])
    beside = dict(
        paths,
        **{
            "--dump": paths["--dump"] or inputs.get("target"),
            "--golden": paths["--golden"] or inputs.get("golden"),
        },
    )
    if page_model.kind != OM and str(inputs.get("model")).endswith(".json"):
        beside["--om"] = beside["--om"] or inputs["model"]
    commands = _commands(page_model, original, beside)
    source = None
    if commands.submodel is not None and page_model.kind == OM:
        try:
            page_model = within(page_model, read_original(commands.submodel[0][-1]))
            source = read_page_model(commands.submodel[0][-1], paths["--golden"])
        except GoldwatchError as error:
            if original is not None:
                raise
            commands = commands._replace(submodel=None, no_submodel=str(error))
    page = graph_page(page_model, commands, compared, source)
    make_room(output)
    with atomic_text_writer(output) as stream:
        stream.write(page)
    return len(page_model.ops), "" if compared is None else doubt(page_model, compared)


def _commands(
    model: PageModel, original: Optional[str], beside: Dict[str, Optional[str]]
) -> Commands:
    path = os.path.abspath(model.path)
    if model.kind != OM:
        if original is not None:
            raise UsageError(
                "--model goes with the json of an om; %s is an original model itself" % model.path
            )
        given = beside["--om"]
        config = _dump_only(os.path.abspath(given) if given is not None else _OM_JSON)
        told = bool(given or beside["--golden"])
        return Commands(_submodel(path, beside), "", config, told, "" if given else _OM_JSON)
    if beside["--om"] is not None:
        raise UsageError(
            "--om goes with an original model; %s is the json of an om itself" % model.path
        )
    config = _dump_only(path)
    if original is not None:
        require_file(original, "--model")
    source = original or _beside(path)
    if source is None:
        return Commands(
            None, "the original model is not known (goldwatch graph --model names it)", config, True
        )
    return Commands(
        _submodel(os.path.abspath(source), dict(beside, **{"--om": path})), "", config, True
    )


def _dump_only(om_json: str) -> Tuple[List[str], List[str]]:
    """Return the command that writes a configuration for some layers, without these."""
    head = ["goldwatch", "config", "new", "--om", om_json]
    return head, ["--dump-path", ".", "--mode", "all"]


def _submodel(path: str, beside: Dict[str, Optional[str]]) -> List[List[str]]:
    options = [
        word
        for name, value in beside.items()
        if value is not None
        for word in (name, os.path.abspath(value))
    ]
    return [["goldwatch", "submodel", path], [*options, "-o", _CUTS]]


def _beside(path: str) -> Optional[str]:
    """Return the original model next to an om json, with the same stem."""
    stem = path[: -len(".json")] if path.endswith(".json") else os.path.splitext(path)[0]
    stem = stem[: -len(".om")] if stem.endswith(".om") else stem
    return next((stem + ending for ending in _ORIGINALS if os.path.isfile(stem + ending)), None)
