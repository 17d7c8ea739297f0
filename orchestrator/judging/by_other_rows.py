"""Failing rows that pass because of other rows: inputs that are right outputs, and outputs that
follow from inputs decided otherwise near a tie.

A remark in the reason says why; :func:`as_first_judged` takes it back.
"""

from __future__ import annotations

import math
import re
from typing import List

from ..metrics.overwriting_and_cancellation import CANCELLED
from ..metrics.row import DECIDED_OTHERWISE, FAIL, PASS, Row
from .metric_text import metric_number

FOLLOWS = (
    "it is inherited: every decision follows from the device's own inputs, which are within their "
    "limits (near a tie rounding rules)"
)
"""Remark on an output that passes though decisions of it are others than golden ones."""
BEHIND = (
    "it is inherited: the operator makes it of the device's own inputs, of which one was decided "
    "otherwise near a tie"
)
"""Remark on an output that passes though it is another than the golden one."""
DEQUANTISED = (
    "it is inherited: its inputs were decided otherwise near a tie, and what is dequantised of it "
    "is within its limits"
)
"""Remark on quantised numbers that pass though they are others than golden ones: their operator
could not be computed again.
"""
AS_OUTPUT = "judged like the output that it is: "
"""How the remark begins on an input that passes because its producer's output does; that one's
follows.
"""

_REMARKS = tuple(
    re.compile("(?:^|; )" + re.escape(remark))
    for remark in (FOLLOWS, BEHIND, DEQUANTISED, AS_OUTPUT)
)
_CANCELLED = CANCELLED.partition("%s")[2]
_DIFFER = re.compile(r"\d+ of \d+ elements differ [^;]*")


def passing_row(row: Row, remark: str, warning: str = DECIDED_OTHERWISE) -> Row:
    """Return a failing row as one that passes, with why."""
    return row.but(
        verdict=PASS, reason="; ".join(filter(None, (row.reason, remark))), warning=warning
    )


def as_first_judged(row: Row) -> Row:
    """Return a row as it was before other rows let it pass."""
    if row.verdict != PASS:
        return row
    starts = [
        match.start()
        for match in (remark.search(row.reason) for remark in _REMARKS)
        if match is not None
    ]
    return row.but(verdict=FAIL, reason=row.reason[: min(starts)], warning="") if starts else row


def lets_inputs_pass(verdict: str, warning: str, reason: str) -> bool:
    """Tell of an output's row whether rows of inputs that are this output pass because it does: it
    was judged by its own inputs.
    """
    return verdict == PASS and (warning == DECIDED_OTHERWISE or _CANCELLED in reason)


def judged_like_output(row: Row, output: Row) -> Row:
    """Return the failing row of an input, passing where it is an output that
    :func:`lets_inputs_pass`, as far as rows tell.
    """
    if not alike(row, output):
        return row
    remarks = [
        part
        for part in output.reason.split("; ")
        if part in (FOLLOWS, BEHIND, DEQUANTISED) or _CANCELLED in part
    ]
    return passing_row(row, AS_OUTPUT + "; ".join(remarks), output.warning)


def alike(row: Row, other: Row) -> bool:
    """Tell whether two rows of one golden tensor are of equal target tensors, as far as rows tell:
    all they measured is equal.
    """
    if row.shape == other.shape and _differing(row) != _differing(other):
        return False
    names = [name for name in other.metrics if not isinstance(other.metrics[name], dict)]
    mine, theirs = (
        [metric_number(compared.metrics.get(name)) for name in names] for compared in (row, other)
    )
    pairs = list(zip(mine, theirs))
    same = all(
        x == y or (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=1e-9)
        for x, y in pairs
    )
    return same and not all(math.isnan(x) for x in mine)


def _differing(row: Row) -> List[str]:
    """Return the phrases that tell which elements of whole numbers differ."""
    return _DIFFER.findall(row.reason)
