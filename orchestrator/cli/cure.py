"""``goldwatch cure``: which operators to compute in float32, as the file that the compiler
takes.
"""

from __future__ import annotations

import os
import sys
from typing import List, Optional

import click

from ..base.errors import UsageError
from ..base.naming import printable
from ..base.shortening import shorten_all, shorten_within
from ..base.wording import plural
from ..device.cure.choosing_ops import UNBOUNDED
from ..device.cure.compiler_precision_options import FILES, KEEP_DTYPE, MODES
from ..device.cure.precision_causes import ROUNDED
from ..device.cure.run import DOCUMENT, Budget, Cure, Ranked
from ..device.cure.run import cure as run_cure
from .command import command, format_option, verbosity_options
from .output_file_checks import out_option, refuse_replacing
from .printing import command_lines, print_json, put, put_escaped, put_line, say_note
from .progress import ProgressBar
from .what_was_given import require_result

_SHOWN = 10
_FAR = 1e3
_LITTLE = 0.1
_BETWEEN = "between others that are raised"
"""Cause of an operator whose own error comes to less than this: what it reads must not be
rounded.
"""


@command()
@click.argument("result", metavar="RESULT")
@click.option(
    "-f",
    "--model",
    required=True,
    metavar="OM.json",
    help="The json of the om that ran (atc --mode=1).",
)
@out_option("Folder of the compiler's file and of cure.json.", required=True, metavar="DIR")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default=KEEP_DTYPE,
    show_default=True,
    help="The compiler's option that the file is for.",
)
@click.option(
    "--budget",
    metavar="N|PERCENT",
    help="The fewest operators that bring the outputs within their limits, and at most so many.",
)
@click.option(
    "--original",
    metavar="MODEL",
    help="The model that the om was made from.  [default: that of the golden data]",
)
@format_option
@verbosity_options
def cure(
    result: str,
    model: str,
    out: str,
    mode: str,
    budget: Optional[str],
    original: Optional[str],
    output_format: str,
    quiet: bool,
) -> int:
    """Find the operators to compute in float32; write the compiler's file for them, and print the
    command that uses it.

    RESULT is a folder that compare, watch, run, merge or replay wrote; its dumps must still be
    there. Operators that rounding, overflow, cancelling or a coarse approximation make wrong are
    ranked by what their errors come to in the network's outputs. Those that are wrong otherwise
    (layout, stale memory, attributes, weights) are not raised, and named. Exit code: 0 by the
    estimate the outputs are within their limits then, 1 they are not, 3 nothing to raise or dumps
    that would tell are deleted, 4 bad input.

    Example: goldwatch cure out -f model.json -o cure
    """
    most = _budget(budget)
    require_result(result, "RESULT")
    for name in (DOCUMENT, FILES[mode]) if os.path.isdir(out) else ():
        refuse_replacing("-o", os.path.join(out, name), {"-f": model, "--original": original}, [])
    with ProgressBar("computing again", quiet) as bar:
        cure_result = run_cure(result, model, out, mode, most, original, bar.show)
    for note in cure_result.notes:
        say_note(note, quiet)
    if output_format == "json":
        print_json(cure_result.document())
    else:
        _print(cure_result)
    return cure_result.exit_code


def _budget(text: Optional[str]) -> Optional[Budget]:
    """Return a number of operators, or a share of them."""
    if text is None:
        return None
    words = text.strip()
    try:
        if words.endswith("%"):
            share = float(words[:-1]) / 100.0
            if 0.0 < share <= 1.0:
                return Budget(share=share)
        elif int(words) > 0:
            return Budget(int(words))
    except ValueError:
        pass
    raise UsageError(
        "--budget: %r is neither a number of operators nor a percentage of them" % text,
        hint="such as 5 or 10%",
    )


def _print(cure_result: Cure) -> None:
    shown = _shown(cure_result)
    names = shorten_all(printable(one.facts.name) for one in shown)
    if shown:
        put_line(
            "operators by what their own errors come to in the network's outputs (1: what "
            "limits allow):"
        )
    for one in shown:
        facts = one.facts
        mark = "raise" if one.raised else "     "
        own_error = "Inf" if facts.own >= UNBOUNDED else "%.2g" % facts.own
        description = "%s %s (%s): %s, own error %s" % (
            mark,
            names[printable(facts.name)],
            facts.type,
            ("beyond all limits" if one.contribution >= _FAR else "%.2g" % one.contribution),
            own_error,
        )
        cause = (
            _BETWEEN
            if one.raised and facts.cause == ROUNDED and one.contribution < _LITTLE
            else facts.cause
        )
        put_line(
            "  "
            + shorten_within(
                printable(
                    "%s, %s%s" % (description, cause, ", estimated" if facts.estimated else "")
                )
            )
        )
    left = len(cure_result.ranked) - len(shown)
    if left > 0:
        put("  and %s with less" % plural(left, "operator"))
    shown_names = {one.facts.name for one in shown if not one.raised}
    for one_other in [other for other in cure_result.others if other.wrong][:_SHOWN]:
        put_line(
            shorten_within(
                "  not raised: %s (%s) is wrong otherwise: %s"
                % (one_other.name, one_other.type, one_other.sentence)
            )
        )
    for name, reason in [
        (name, reason) for name, reason in cure_result.refused.items() if name in shown_names
    ][:_SHOWN]:
        put_line(shorten_within("  not raised: %s: %s" % (printable(name), reason)))
    if cure_result.file is not None:
        put("wrote %s" % cure_result.file)
        words = cure_result.command.words
        if words and "…" not in words:
            put_escaped(command_lines("  " + words[0], words[1:], sys.stdout))
        else:
            for line in cure_result.command.lines:
                put("  " + line)
    put_line(cure_result.sentence)


def _shown(cure_result: Cure) -> List[Ranked]:
    """Return the operators that are raised, and the largest of the others."""
    raised = [one for one in cure_result.ranked if one.raised]
    others = [one for one in cure_result.ranked if not one.raised]
    return (
        [*raised, *others[: max(0, _SHOWN - len(raised))]]
        if len(raised) < _SHOWN
        else raised[: 2 * _SHOWN]
    )
