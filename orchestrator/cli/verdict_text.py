"""Warnings, what became of each model and device, and suspects, as the terminal shows them."""

from __future__ import annotations

from typing import List, Optional, Sequence

from ..verdict.summary import Summary
from ..verdict.suspects import Suspect
from .common import wrapped

_MOST_SHOWN = 5
_MOST_EXPLANATIONS = 2
_ALIKE = 0.02


def verdict_lines(summary: Summary, width: Optional[int], said: Sequence[str] = ()) -> List[str]:
    """Return the warnings, a line for each of several models, and the suspects, each with what its error looks like and what to do next.

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
    for text in [model.sentence for model in summary.models if len(summary.models) > 1] + _devices(summary):
        lines += wrapped(text, width)
    for number, suspect in enumerate(summary.suspects[:_MOST_SHOWN], 1):
        lines += _suspect(number, suspect, width)
    if len(summary.suspects) > _MOST_SHOWN:
        lines.append("  and %d more suspects, see result.json" % (len(summary.suspects) - _MOST_SHOWN))
    return lines


def _devices(summary: Summary) -> List[str]:
    """Return whether several devices agree."""
    if summary.devices_agree is None:
        return []
    apart = [model for model in summary.models if model.difference is not None]
    if not apart:
        return ["all devices agree: every tensor has the same verdict on each"]
    named = ["" if model.name is None else " (model %s)" % model.name for model in apart]
    return ["the devices do not agree%s: %s" % (of, model.difference.sentence) for of, model in zip(named, apart) if model.difference]


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
