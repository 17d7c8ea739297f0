"""Steps as users write them on the command line: ``0|5-9``, or the same with commas."""

from __future__ import annotations

import re
from typing import List

import click

from ..config.dump_steps import step_fix, step_problems

# A folder each: more than these is a slip.
MAX_RUNS = 10000


def written_steps(text: str) -> str:
    """Return ``text`` as every consumer of dump_step takes it: ``0-3, 7`` becomes ``0-3|7``."""
    return re.sub(r"\s*,\s*", "|", text)


def run_numbers(text: str) -> List[int]:
    """Return the numbers that ``text`` names, sorted, each once.

    Raises
    ------
    click.BadParameter
        It is no list of steps, or names more than :data:`MAX_RUNS`.
    """
    written = written_steps(text.strip())
    for rule, message, fix in step_problems(written):
        if rule != "step-equal":
            raise click.BadParameter("%s; write %s" % (message, step_fix(fix)))
    bounds = [[int(bound) for bound in part.split("-")] for part in written.split("|") if part]
    if not bounds:
        raise click.BadParameter("no step is named; write a form such as 0|5-10")
    count = sum(pair[-1] - pair[0] + 1 for pair in bounds)
    if count > MAX_RUNS:
        raise click.BadParameter("%d runs, at most %d can be saved at once" % (count, MAX_RUNS))
    return sorted({number for pair in bounds for number in range(pair[0], pair[-1] + 1)})
