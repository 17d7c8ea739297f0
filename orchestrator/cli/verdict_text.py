"""Suspects and warnings as the terminal shows them."""

from __future__ import annotations

from typing import List, Optional, Sequence

from ..verdict.summary import Summary
from ..verdict.suspects import Suspect
from .common import wrapped

_MOST_SHOWN = 5
_MOST_EXPLANATIONS = 2
_ALIKE = 0.02


def verdict_lines(summary: Summary, width: Optional[int], said: Sequence[str] = ()) -> List[str]:
    """Return the warnings and the suspects, best first, each with what its error looks like and what to do next.

    Parameters
    ----------
    width
        Of the terminal, in columns; None: no line is too long.
    said
        Warnings that were shown already.
    """
    lines: List[str] = []
    for warning in [warning for warning in summary.warnings if warning not in said]:
        lines += wrapped("warning: " + warning, width)
    for number, suspect in enumerate(summary.suspects[:_MOST_SHOWN], 1):
        lines += _suspect(number, suspect, width)
    if len(summary.suspects) > _MOST_SHOWN:
        lines.append("  and %d more suspects, see result.json" % (len(summary.suspects) - _MOST_SHOWN))
    return lines


def _suspect(number: int, suspect: Suspect, width: Optional[int]) -> List[str]:
    head = "suspect %d: %s (%s), score %.0f, confidence %s: %s" % (
        number, suspect.op, suspect.op_type, suspect.score, suspect.confidence, suspect.evidence,
    )  # fmt: skip
    lines = wrapped(head, width)
    least = max((entry.share for entry in suspect.explanations), default=0.0) - _ALIKE
    for entry in [entry for entry in suspect.explanations if entry.share >= least][:_MOST_EXPLANATIONS]:
        share = " (%.0f %% of its error)" % (100 * entry.share) if entry.share else ""
        lines += wrapped("  %s%s: %s" % (entry.kind, share, entry.sentence), width, "    ")
        lines += wrapped("    next: " + entry.next, width, "    ")
    return lines
