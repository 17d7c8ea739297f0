"""`goldwatch golden onnx`: golden data from ONNX models."""

from __future__ import annotations

import os
from typing import Any, Collection, Dict, Optional, Tuple

import click

from ..adapters.onnx.dump import BACKENDS, DumpOptions
from ..adapters.onnx.dump import dump as run_dump
from ..base.errors import InputError, NotComparable, UsageError
from ..base.option_fields import SPEED
from ..model.atc_options import atc_inputs
from .command import HelpfulGroup, format_option, topic, verbosity_options
from .golden_messages import (
    counted,
    golden_words,
    input_option,
    random_option,
    replace_option,
)
from .output_file_checks import out_option
from .printing import print_json, put_wrapped, say
from .progress import ProgressBar
from .what_was_given import GOLDEN, refuse_place


@click.group(cls=HelpfulGroup)
def onnx() -> None:
    """Golden data from ONNX models.

    Example: goldwatch golden onnx dump model.onnx --input x=input.npy -o golden
    """


@onnx.command(first=("inputs", "out", "oms", "seed", "backend"))
@click.argument("model", type=click.Path(readable=False))
@topic(
    "Inputs",
    input_option,
    click.option(
        "--inputs",
        "folder",
        type=click.Path(readable=False),
        metavar="FOLDER",
        help="A folder with a file for each input.",
    ),
    random_option,
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="NAME=1,3,224,224",
        help="The shape of an input; repeatable.",
    ),
    click.option(
        "--feed",
        "feeds",
        multiple=True,
        metavar="NODE[:i]=FILE",
        help="Give a node's output instead of computing it; repeatable.",
    ),
)
@topic(
    "What is saved",
    click.option(
        "-f",
        "--om",
        "oms",
        multiple=True,
        metavar="OM.json",
        help="The compiled model: shapes, and which tensors are needed.",
    ),
    click.option(
        "--all",
        "everything",
        is_flag=True,
        help="With -f: save every tensor, not only those that a row needs.",
    ),
)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default=BACKENDS[0],
    show_default=True,
    help="What runs the model.",
)
@topic(
    SPEED,
    click.option(
        "--memory",
        "memory_mib",
        type=click.IntRange(1),
        metavar="MB",
        help="For values; more is done in slices.  [default: half of what is free]",
    ),
    click.option(
        "--threads",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Threads of one node's computation.  [default: the processors]",
    ),
)
@topic(
    "What runs the model",
    click.option("--python", metavar="PATH", help="The Python that has onnxruntime (or onnx)."),
)
@out_option(
    "The folder of the golden files.",
    required=True,
    type=click.Path(readable=False),
    metavar="PATH",
)
@replace_option
@format_option
@verbosity_options
def dump(
    output_format: str, quiet: bool, oms: Tuple[str, ...], everything: bool, **options: Any
) -> None:
    """Run an ONNX model once, optimisation off, and save every node's outputs as golden files.

    \b
    An input is one of
      NAME=FILE.npy, .npz, .pb    an array (.npz: of key NAME), or a TensorProto
      NAME=FILE.bin[,dtype=…]     raw elements; dtype if it is not the model's
      NAME=dump:FILE              output 0 of a device's dump, such as AIPP's

    OUT/inputs holds what was fed, as .npy and as .bin for the device's run.

    Example: goldwatch golden onnx dump model.onnx --input x=input.npy -f model.json -o golden
    """
    if everything and not oms:
        raise UsageError("--all goes with -f: without it every tensor is saved")
    refuse_place(options["out"], GOLDEN)
    chosen = DumpOptions(**options, **(_from_om(oms, everything) if oms else {}), decode=_decode)
    with golden_words(), ProgressBar("tensors", quiet) as progress:
        progress.update(0, 0)
        result = run_dump(chosen, progress.update)
    for warning in result["warnings"]:
        say("warning: " + warning)
    if output_format == "json":
        print_json(result)
        return
    put_wrapped(counted(result, result["backend"], result["backend_version"]))
    if result["inputs"]:
        paths = [os.path.join(result["out"], entry["bin"]) for entry in result["inputs"]]
        say("inputs for the device's run: %s" % ", ".join(paths), quiet)


def _from_om(paths: Collection[str], everything: bool) -> Dict[str, Any]:
    """Return what the json of compiled models says, as fields of :class:`DumpOptions`."""
    # Imported late: it imports numpy.
    from ..model.needed_goldens import needed_goldens
    from ..model.read_model import load_model

    graphs = [load_model(path) for path in paths]
    compiled_inputs = [atc_inputs(graph.command) for graph in graphs]
    return {
        "model_shapes": {
            name: shape for shapes, _ in compiled_inputs for name, shape in shapes.items()
        },
        "halves": tuple(dict.fromkeys(name for _, halves in compiled_inputs for name in halves)),
        "select": None
        if everything
        else lambda available: {
            key for graph in graphs for key in needed_goldens(graph, available)
        },
    }


def _decode(path: str, shape: Optional[Tuple[int, ...]], npy: str) -> None:
    import numpy as np

    from ..tools.convert.convert_tensor import dumped_output

    try:
        array = dumped_output(path, shape)
    except NotComparable as error:
        raise InputError(
            "%s: %s" % (path, error.message),
            hint="convert it with goldwatch convert, and give the .npy",
        ) from error
    np.save(npy, array)
