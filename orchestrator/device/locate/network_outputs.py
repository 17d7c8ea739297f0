"""The network's outputs beside the dumps of the run that wrote them: there what made them was
judged, too.
"""

from __future__ import annotations

from typing import Dict, Optional

from ...judging.by_other_rows import alike
from ...metrics.row import DECIDED_OTHERWISE, FAIL, FOLLOWS, PASS, WORST_SLICE, Row
from ...run.result import RunResult

_WORDS = {PASS: "within their limits", FAIL: "outside their limits"}


def passing_in_dumps(run: Optional[RunResult], final: RunResult) -> Dict[str, Row]:
    """Return the row of the dumps that passes and holds the values of an output outside its limits,
    by the output's tensor.
    """
    outputs = list(final.rows(FAIL))
    found: Dict[str, Row] = {}
    for row in run.rows(PASS) if run is not None and outputs else ():
        if row.kind == "output":
            # An output's slices are measured otherwise than an operator's.
            found.update(
                (output.tensor, row) for output in outputs if alike(output, row, (WORST_SLICE,))
            )
    return found


def outputs_words(run: Optional[RunResult], final: RunResult) -> str:
    """Return what is said of the outputs."""
    verdict = final.summary.verdict
    if verdict == FAIL and not final.summary.not_compared:
        rows = passing_in_dumps(run, final).values()
        behind = [row for row in rows if row.warning == DECIDED_OTHERWISE]
        # Not right for that: what the om computes otherwise may hide behind a decision.
        if len(behind) == final.summary.failed:
            return "outside their limits, behind decisions near a tie"
    return _WORDS.get(verdict, verdict)


def first_decision(run: RunResult) -> Optional[Row]:
    """Return the row of the first operator that decided otherwise than golden data near a tie."""
    rows = (row for row in run.rows(PASS) if FOLLOWS in row.reason_codes.split("; "))
    return next(rows, None)
