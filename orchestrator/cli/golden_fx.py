"""``goldwatch golden fx``: golden data from PyTorch, under the names of TorchAir's FX dump."""

from __future__ import annotations

from typing import List, Optional, Tuple

import click

from goldwatch.adapters.fx.dump_command import FxJob, run_fx

from ..base.wording import plural
from .command import HelpfulGroup, format_option, quiet_option
from .golden_messages import golden_words
from .golden_tf_dump import force_option, out_option, words_argument
from .printing import print_json, put, say
from .step_lists import run_numbers
from .what_was_given import GOLDEN, refuse_place


@click.group(cls=HelpfulGroup)
def fx() -> None:
    """Golden data from PyTorch models that are compiled for TorchAir.

    Example: goldwatch golden fx dump -o golden -- python infer.py
    """


def _tokens(_: click.Context, __: click.Parameter, value: Optional[str]) -> Optional[List[int]]:
    return None if value is None else run_numbers(value)


@fx.command()
@out_option
@click.option(
    "--tokens",
    callback=_tokens,
    metavar="0|5-9",
    help="Which calls of each compiled graph, from 0.  [default: all]",
)
@click.option("--python", metavar="PATH", help="The Python that has PyTorch (default: found).")
@force_option
@format_option
@quiet_option
@words_argument
def dump(
    out: str,
    tokens: Optional[List[int]],
    python: Optional[str],
    force: bool,
    output_format: str,
    quiet: bool,
    words: Tuple[str, ...],
) -> int:
    """Run a script on the CPU and save what each node of its compiled graphs computes, in the form
    of TorchAir's FX dump.

    Whatever backend the script gives to torch.compile, its graphs run node by node; torch_npu and
    torchair need not be there, and devices npu and cuda are the CPU. `compare` takes OUT for GOLDEN
    of a dump tree that TorchAir's GE graphs wrote.

    Example: goldwatch golden fx dump -o golden --tokens 0 -- python infer.py --prompt hello
    """
    refuse_place(out, GOLDEN)
    job = FxJob(
        out,
        list(words),
        tokens,
        python,
        force,
        output_format == "json",
        lambda text: say(text, quiet),
    )
    with golden_words():
        report = run_fx(job)
    if output_format == "json":
        print_json(report)
        return 0
    graphs, calls, files = (
        plural(report["graphs"], "graph"),
        plural(report["kept"], "call"),
        plural(report["files"], "golden file"),
    )
    put(
        "%s: %s of %s, %s, by PyTorch %s"
        % (report["folder"], calls, graphs, files, report["version"])
    )
    return 0
