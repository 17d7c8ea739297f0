"""`goldwatch golden caffe`: prototxt files without in-place layers, and golden data from Caffe models."""

from __future__ import annotations

from typing import Optional, Tuple

import click

from ..adapters.caffe.deinplace import Deinplaced, deinplace_file
from ..naming import printable
from .common import format_option, print_json, say, set_up_logging, verbosity_options


@click.group()
def caffe() -> None:
    """Golden data from Caffe models.

    Example: goldwatch golden caffe dump net.prototxt net.caffemodel -i data=input.npy -o golden
    """


@caffe.command()
@click.argument("model", type=click.Path())
@click.option("-o", "--output", type=click.Path(), help="The new file; by default new_NAME beside the model.")
@click.option("--phase", type=click.Choice(["TEST", "TRAIN"], case_sensitive=False), default="TEST", show_default=True, help="The phase.")
@click.option("--level", type=int, help="The net state's level for min_level and max_level rules.")
@click.option("--stage", "stages", multiple=True, metavar="S", help="A stage of the net state; repeatable.")
@click.option("--keep-dropout/--drop-dropout", default=True, help="Keep Dropout layers (default), or drop those that do nothing at TEST.")
@click.option("--report", type=click.Path(), help="Write what was done to this JSON file.")
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
    verbose: int,
) -> None:
    """Write MODEL again with a blob of its own for every in-place layer.

    Only the names of tops and bottoms change, and layers of the other phase go; every other byte stays.

    Example: goldwatch golden caffe deinplace net.prototxt -o net_for_dump.prototxt --report changes.json
    """
    set_up_logging(quiet, verbose)
    path, done = deinplace_file(model, output, phase.upper(), level, stages, not keep_dropout, force, report)
    if output_format == "json":
        print_json(dict(done.report(), output=path))
        return
    _tell(path, done, quiet)


def _tell(path: str, done: Deinplaced, quiet: bool) -> None:
    """Print what was done, for people."""
    for entry in done.renamed:
        click.echo("renamed  %s: top %s -> %s" % tuple(printable(entry[key] or "(unnamed)") for key in ("layer", "old", "new")))
    for name in done.removed:
        click.echo("removed  %s" % printable(name or "(unnamed)"))
    for entry in done.changed_outputs:
        click.echo("output   %s is now %s" % (printable(entry["old"]), printable(entry["new"])))
    for entry in done.warnings:
        say("warning: layer %s %s" % (entry["layer"] or "(unnamed)", entry["message"]))
    if not done.renamed and not done.removed:
        say("nothing to change: the copy is identical", quiet)
    counts = (len(done.renamed), len(done.removed), len(done.warnings))
    click.echo("%s: %d tops renamed, %d layers removed, %d warnings" % ((printable(path),) + counts))
