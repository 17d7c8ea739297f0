"""`goldwatch golden caffe`: prototxt files without in-place layers, and golden data from Caffe
models.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import click

from ..adapters.caffe.deinplace import deinplace_file
from ..adapters.caffe.dump import DumpOptions
from ..adapters.caffe.dump import dump as run_dump
from ..base.option_fields import parse_size
from .command import HelpfulGroup, format_option, topic, verbosity_options
from .golden_messages import (
    counted,
    golden_words,
    input_option,
    random_option,
    replace_option,
)
from .output_file_checks import out_option
from .printing import print_json, put, put_wrapped, say
from .progress import ProgressBar
from .what_was_given import GOLDEN, refuse_place


@click.group(cls=HelpfulGroup)
def caffe() -> None:
    """Golden data from Caffe models.

    Example: goldwatch golden caffe dump net.prototxt net.caffemodel -i data=input.npy -o golden
    """


_level_option = click.option(
    "--level",
    type=int,
    metavar="N",
    help="The net state's level for min_level and max_level rules.",
)
_stage_option = click.option(
    "--stage", "stages", multiple=True, metavar="S", help="A stage of the net state; repeatable."
)


@caffe.command()
@click.argument("model", type=click.Path(readable=False))
@click.option(
    "-o",
    "--output",
    type=click.Path(readable=False),
    help="The new file; by default new_NAME beside the model.",
)
@click.option(
    "--phase",
    type=click.Choice(["TEST", "TRAIN"], case_sensitive=False),
    default="TEST",
    show_default=True,
    help="The phase.",
)
@_level_option
@_stage_option
@click.option(
    "--keep-dropout/--drop-dropout",
    default=True,
    help="Keep Dropout layers (default), or drop those that do nothing at TEST.",
)
@click.option(
    "--report", type=click.Path(readable=False), help="Write what was done to this JSON file."
)
@click.option("--force", is_flag=True, help="Replace an existing output (never the model itself).")
@format_option
@verbosity_options
def deinplace(
    model: str,
    output: Optional[str],
    phase: str,
    level: Optional[int],
    stages: Tuple[str, ...],
    keep_dropout: bool,
    report: Optional[str],
    force: bool,
    output_format: str,
    quiet: bool,
) -> None:
    """Write MODEL again with a blob of its own for every in-place layer.

    Only the names of tops and bottoms change, and layers of the other phase go; every other byte
    stays.

    Example: goldwatch golden caffe deinplace net.prototxt -o net_for_dump.prototxt --report
    changes.json
    """
    with golden_words():
        path, done = deinplace_file(
            model, output, phase.upper(), level, stages, not keep_dropout, force, report
        )
    if output_format == "json":
        print_json(dict(done.report(), output=path))
        return
    for entry in done.renamed:
        put(
            "renamed  %s: top %s -> %s"
            % tuple(entry[key] or "(unnamed)" for key in ("layer", "old", "new"))
        )
    for name in done.removed:
        put("removed  %s" % (name or "(unnamed)"))
    for entry in done.changed_outputs:
        put("output   %s is now %s" % (entry["old"], entry["new"]))
    for entry in done.warnings:
        say("warning: layer %s %s" % (entry["layer"] or "(unnamed)", entry["message"]))
    if not done.renamed and not done.removed:
        say("nothing to change: the copy is identical", quiet)
    counts = (len(done.renamed), len(done.removed), len(done.warnings))
    put("%s: %d tops renamed, %d layers removed, %d warnings" % ((path,) + counts))


@caffe.command(first=("inputs", "out", "backend", "layers", "random_weights"))
@click.argument("prototxt", type=click.Path(readable=False))
@click.argument("weights", type=click.Path(readable=False), required=False)
@input_option
@out_option(
    "The folder of the golden files.",
    required=True,
    type=click.Path(readable=False),
    metavar="PATH",
)
@topic(
    "What runs the model",
    click.option(
        "--backend",
        type=click.Choice(["auto", "caffe", "numpy"]),
        default="auto",
        show_default=True,
        help="What runs the model.",
    ),
    click.option(
        "--random-weights",
        type=click.IntRange(0, 2**32 - 1),
        metavar="SEED",
        help="Make up the weights that no file gives.",
    ),
    click.option(
        "--layer",
        "layer_files",
        multiple=True,
        metavar="TYPE=FILE.py",
        help="Compute layers of a type yourself; repeatable.",
    ),
    click.option(
        "--check-backend",
        type=click.Choice(["caffe", "numpy"]),
        help="Run this backend too and tell how far they differ.",
    ),
)
@click.option(
    "--layers",
    multiple=True,
    metavar="GLOB",
    help="Save only these layers; repeatable, or separated by commas.",
)
@topic(
    "What runs the model",
    click.option("--python", metavar="PATH", help="The Python that has pycaffe."),
    click.option(
        "--caffe-root",
        type=click.Path(readable=False),
        metavar="DIR",
        help="The folder of a Caffe that you built.",
    ),
)
@topic(
    "Inputs",
    click.option(
        "--max-input",
        default="4GiB",
        show_default=True,
        metavar="SIZE",
        help="Memory that one input may need, decoded.",
    ),
    random_option,
)
@topic(
    "The net's state",
    _level_option,
    _stage_option,
)
@topic(
    "Inputs",
    click.option(
        "--mean",
        metavar="VALUES|FILE",
        help="For images: 104,117,123, or a file (.npy, .binaryproto); else transform_param.",
    ),
    click.option(
        "--scale", type=float, metavar="N", help="For images: factor after the mean is subtracted."
    ),
    click.option(
        "--channel-order",
        type=click.Choice(["BGR", "RGB"], case_sensitive=False),
        help="For images; BGR by default, as in Caffe.",
    ),
)
@click.option(
    "--quantised",
    is_flag=True,
    help="The net is quantised: write .quant containers under its own layer names.",
)
@replace_option
@format_option
@verbosity_options
def dump(output_format: str, quiet: bool, max_input: str, **options: Any) -> None:
    """Run a Caffe model once and save every layer's tops as golden files.

    \b
    An input is one of
      NAME=FILE.npy, FILE.npz     of an npz the key is NAME
      FILE.npz                    its keys are the names
      NAME=FILE:float32:1,3,8,8   a raw binary file with dtype and shape
      NAME=FILE.jpg               an image (png, bmp, … too), resized to the input
      NAME=FOLDER                 one file per batch; batch K goes to OUT/K

    Backend caffe runs the original prototxt in a Caffe of yours; numpy needs no Caffe and computes
    each layer by Caffe's rules. By default it is caffe where one is found, else numpy. WEIGHTS may
    be left out with --random-weights.

    Example: goldwatch golden caffe dump net.prototxt net.caffemodel -i data=input.npy -o golden
    """
    refuse_place(options["out"], GOLDEN)
    with golden_words(), ProgressBar("tensors", quiet) as progress:
        progress.update(0, 0)
        result = run_dump(
            DumpOptions(max_input_bytes=parse_size(max_input, "--max-input"), **options),
            progress.update,
        )
    for note in result["notes"]:
        say(note, quiet)
    for warning in result["warnings"]:
        say("warning: " + warning)
    if output_format == "json":
        print_json(result)
        return
    for run in result["runs"]:
        put_wrapped(counted(run, result["backend"], result["backend_version"]))
