"""The command line: one file per command; this one names them."""

from __future__ import annotations

import os
from typing import NoReturn

import click

from .. import __version__
from .command import CONTEXT, LazyGroup
from .error_handling import run_command
from .printing import put


def _note_verbose(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[__name__] = value


def _show_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if not value:
        return
    put("goldwatch, version %s" % __version__)
    if context.meta.get(__name__):
        import platform

        import numpy

        from ..metrics.compiled.choice import about_kernel

        put(
            "Python %s, numpy %s, %s"
            % (platform.python_version(), numpy.__version__, platform.machine())
        )
        put(about_kernel())
    context.exit()


@click.group(
    cls=LazyGroup,
    context_settings=CONTEXT,
    lazy={
        "config": (".", "config", "Write and check dump configurations (acl.json, npu_bridge)."),
        "golden": (
            ".",
            "golden",
            "Make golden data from Caffe, TensorFlow, ONNX or PyTorch models.",
        ),
        "compare": (
            ".compare",
            "compare",
            "Compare a network's dumps with golden data, or two dumps of one model.",
        ),
        "watch": (".watch", "watch_command", "Compare dumps as they arrive."),
        "locate": (
            ".locate",
            "locate",
            "From two models to the operator that goes wrong: all steps in one command.",
        ),
        "run": (".run", "run", "Configure, run a program, watch its dumps and judge them."),
        "replay": (
            ".replay",
            "replay",
            "Run each operator again with the device's inputs: only errors of its own show.",
        ),
        "cure": (
            ".cure",
            "cure",
            "Find the operators that must stay in float32, as the compiler's file.",
        ),
        "report": (
            ".report",
            "report",
            "Write files about a run: for CI, spreadsheets and programs.",
        ),
        "compare-op": (
            ".compare_op",
            "command_compare_op",
            "Look at one operator element by element.",
        ),
        "diff": (".diff", "diff", "Compare two results: what got better, what got worse."),
        "repeat": (
            ".repeat",
            "repeat",
            "Run a program several times: which operators do not repeat bit for bit.",
        ),
        "graph": (
            ".graph",
            "graph",
            "Draw a network as a page to look at and to choose a part on.",
        ),
        "submodel": (
            ".submodel",
            "submodel",
            "Cut a part out of the original model with its dumps and inputs.",
        ),
        "convert": (
            ".convert",
            "convert",
            "Convert dumps to npy, raw elements or text, and npy to dumps.",
        ),
        "inspect": (".inspect", "inspect", "Show what is in files and folders."),
        "serve": (".serve", "serve", "Serve runs as live pages and an API."),
        "submit": (".submit", "submit", "Have a service run a command, and wait for it."),
        "status": (".submit", "status", "Show the runs of a service."),
        "limits": (".limits", "limits", "Print the limits in force."),
        "doctor": (".doctor", "doctor", "Check this installation and machine."),
        "completion": (
            ".completion",
            "completion",
            "Let the shell complete commands and options.",
        ),
    },
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option(
    "-v", "verbose", is_flag=True, is_eager=True, expose_value=False, callback=_note_verbose,
    help="With --version: also what computes the metrics here, and why.",
)  # fmt: skip
def goldwatch() -> None:
    """Find the operator that went wrong first on an Ascend NPU.

    Example: goldwatch compare DUMP_TREE GOLDEN_FOLDER -f model.json -o OUT
    """


@click.group(
    cls=LazyGroup,
    lazy={
        "new": (".config_new", "new", "Write a dump configuration."),
        "check": (".config_check", "check", "Check a dump configuration as its real consumers do."),
    },
)
def config() -> None:
    """Write and check dump configurations.

    Example: goldwatch config check acl.json --om model.json
    """


@click.group(
    cls=LazyGroup,
    lazy={
        "caffe": (".golden_caffe", "caffe", "Golden data from Caffe models."),
        "tf": (".golden_tf", "tf", "Golden data from TensorFlow models."),
        "onnx": (".golden_onnx", "onnx", "Golden data from ONNX models."),
        "fx": (".golden_fx", "fx", "Golden data from PyTorch models, for TorchAir."),
    },
)
def golden() -> None:
    """Make golden data of the same model.

    Example: goldwatch golden caffe dump net.prototxt net.caffemodel -i data=input.npy -o golden
    """


def main() -> NoReturn:
    """Run the command line and exit."""
    if "_GOLDWATCH_COMPLETE" in os.environ:
        from .completion import answer_shells

        answer_shells()
    run_command(goldwatch)
