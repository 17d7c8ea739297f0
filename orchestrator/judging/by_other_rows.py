"""Failing rows that pass because of other rows: inputs that are right outputs, and outputs that
follow from inputs decided otherwise near a tie.

A remark in the reason and its code say why; :func:`as_first_judged` takes them back.
"""

from __future__ import annotations

import math
from typing import Collection

from ..metrics.overwriting_and_cancellation import CANCELLED
from ..metrics.row import (
    AS_OUTPUT,
    BEHIND,
    CANCELS_INPUTS,
    DECIDED_OTHERWISE,
    DEQUANTISED_LATER,
    ELEMENTS_DIFFER,
    FAIL,
    FOLLOWS,
    PASS,
    Row,
)
from .metric_text import metric_number

REMARKS = {
    # An output, though decisions of it are others than golden ones.
    FOLLOWS: "every decision follows from the device's own inputs, which are within their limits "
    "(near a tie rounding rules, of equal values their order)",
    # An output, though it is another than the golden one.
    BEHIND: "it is inherited: the operator makes it of the device's own inputs, of which one was "
    "decided otherwise near a tie",
    # Quantised numbers, though they are others than golden ones: their operator could not be
    # computed again.
    DEQUANTISED_LATER: "it need not be wrong: its inputs were decided otherwise near a tie, and "
    "what is dequantised of it is within its limits",
    # An input, because its producer's output does, whose remarks follow.
    AS_OUTPUT: "judged like the output that it is: ",
}
"""What is remarked on rows that pass, by its code."""


def passing_row(row: Row, code: str) -> Row:
    """Return a failing row as one that passes, with why, a code of :data:`REMARKS`; AS_OUTPUT: the
    output is behind a decision.
    """
    text = REMARKS[code] + (REMARKS[BEHIND] if code == AS_OUTPUT else "")
    return row.noted(text, code, verdict=PASS, warning=DECIDED_OTHERWISE)


def as_first_judged(row: Row) -> Row:
    """Return a row as it was before other rows let it pass."""
    if row.verdict != PASS or not row.reason_codes:
        return row
    codes = row.reason_codes.split("; ")
    found = next((number for number, code in enumerate(codes) if code in REMARKS), None)
    if found is None:
        return row
    reason = row.reason.partition(REMARKS[codes[found]])[0]
    return row.but(
        verdict=FAIL,
        reason=reason[: -len("; ")],
        reason_codes="; ".join(codes[:found]),
        warning="",
    )


def lets_inputs_pass(row: Row) -> bool:
    """Tell of an output's row whether rows of inputs that are this output pass because it does: it
    was judged by its own inputs.
    """
    return row.verdict == PASS and (
        row.warning == DECIDED_OTHERWISE or row.code_value(CANCELS_INPUTS) is not None
    )


def judged_like_output(row: Row, output: Row) -> Row:
    """Return the failing row of an input as one that passes, because it is an output that
    :func:`lets_inputs_pass`.
    """
    remarks = [REMARKS[code] for code in output.reason_codes.split("; ") if code in REMARKS]
    if output.code_value(CANCELS_INPUTS) is not None:
        remarks.append(CANCELLED % output.op_type)
    text = REMARKS[AS_OUTPUT] + "; ".join(remarks)
    return row.noted(text, AS_OUTPUT, verdict=PASS, warning=output.warning)


def alike(row: Row, other: Row, but: Collection[str] = ()) -> bool:
    """Tell whether two rows of one golden tensor are of equal target tensors, as far as rows tell:
    all they measured is equal, ``but`` for some metrics.
    """
    first = row.code_value(ELEMENTS_DIFFER), other.code_value(ELEMENTS_DIFFER)
    if row.shape == other.shape and first[0] != first[1]:
        return False
    names = [
        name
        for name in other.metrics
        if name not in but and not isinstance(other.metrics[name], dict)
    ]
    mine, theirs = (
        [metric_number(compared.metrics.get(name)) for name in names] for compared in (row, other)
    )
    pairs = list(zip(mine, theirs))
    same = all(
        x == y or (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=1e-9)
        for x, y in pairs
    )
    return same and not all(math.isnan(x) for x in mine)
