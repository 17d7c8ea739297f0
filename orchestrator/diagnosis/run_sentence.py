"""The last line of a run: why it is incomplete, which operator is wrong, how many rows were
forgiven.
"""

from __future__ import annotations

from typing import Sequence

from ..text.notes import NOT_JUDGED_BY_NAMES, Note
from .summary import INCOMPLETE, Summary


def run_sentence(summary: Summary, unmatched: Sequence[Note] = ()) -> str:
    """Return the run's last sentences.

    Parameters
    ----------
    unmatched
        What did not find its counterpart at large; the first is the reason why nothing was
        compared.
    """
    if summary.unpaired:
        why = unmatched[0] if unmatched else "no tensor of TARGET has a golden one"
        return (
            "Incomplete: no output was compared. Not one tensor has its counterpart: %s"
            % _ended(why)
        )
    if not summary.outputs and summary.first is None:
        return "Incomplete: no output was compared.%s" % _instead(summary)
    by_name = [
        _ended(said[0].upper() + said[1:]) for said in unmatched if said.code == NOT_JUDGED_BY_NAMES
    ]
    sentences = [_incomplete(summary), *(by_name or [summary.sentence]), _forgiven(summary)]
    return " ".join(filter(None, sentences))


def _instead(summary: Summary) -> str:
    """Return what is known where no output was compared."""
    text = ""
    if summary.empty:
        tensors = "1 tensor has" if summary.empty == 1 else "%d tensors have" % summary.empty
        text = " %s no finite element on either side (NaN or Inf alike)." % tensors
    compared = summary.passed > summary.empty
    return text + (
        " The inputs that were compared are within their limits."
        if compared
        else " Nothing is known about any operator."
    )


def _incomplete(summary: Summary) -> str:
    if not summary.outputs:
        return "No output was compared."
    count, steps = summary.not_compared - summary.forgiven, len(summary.steps_without_golden)
    if summary.verdict != INCOMPLETE:
        return ""
    rows_text = "%d %s could not be compared" % (count, "row" if count == 1 else "rows")
    steps_text = "%d %s no golden data" % (steps, "step has" if steps == 1 else "steps have")
    why = ", ".join(text for number, text in ((count, rows_text), (steps, steps_text)) if number)
    return "Incomplete: %s." % why if why else ""


def _forgiven(summary: Summary) -> str:
    if not summary.forgiven:
        return ""
    return "%d %s forgiven." % (
        summary.forgiven,
        "row without its file was" if summary.forgiven == 1 else "rows without their file were",
    )


def _ended(text: str) -> str:
    return text if text.endswith(("?", ")")) else text + "."
