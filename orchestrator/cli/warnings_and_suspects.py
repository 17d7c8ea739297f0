"""The warnings, the outcome of each model, device and host, and the suspects of a run, as text for
the terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Mapping, Optional

from ..dumps.place import NOWHERE, Place
from ..store.host_facts import host_sentence
from ..text.wording import plural
from .next_commands import closer_words
from .printing import marked, sentence_lines
from .shell_words import shell_lines

if TYPE_CHECKING:
    from ..diagnosis.summary import Summary
    from ..diagnosis.suspects import Suspect
    from ..run.result import RunResult

_MOST_SHOWN = 5
_MOST_EXPLANATIONS = 2
_ALIKE = 0.02


def verdict_lines(result: RunResult, width: Optional[int]) -> List[str]:
    """Return the warnings, a line for each of several models, and the suspects, each with its
    explanation and the advice that goes with it.

    Parameters
    ----------
    width
        Of the terminal, in columns; None: lines are not wrapped.
    """
    summary = result.summary
    lines: List[str] = []
    for warning in [warning for warning in summary.warnings if warning not in result.left_out]:
        lines += sentence_lines(marked(warning), width)
    for text in [model.sentence for model in summary.models if len(summary.models) > 1] + _devices(
        summary
    ):
        lines += sentence_lines(text, width)
    for host in summary.hosts or ():
        lines += sentence_lines(host_sentence(host), width)
    if summary.recomputed is not None:
        lines += sentence_lines(_recomputed(summary.recomputed), width)
    for number, suspect in enumerate(summary.suspects[:_MOST_SHOWN], 1):
        lines += _suspect(number, suspect, width)
        if suspect.explanations:
            lines += _closer(result, suspect.op, suspect.place, width)
    if len(summary.suspects) > _MOST_SHOWN:
        lines.append(
            "  and %d more suspects, see result.json" % (len(summary.suspects) - _MOST_SHOWN)
        )
    for culprit in (summary.culprits or ())[:_MOST_SHOWN]:
        lines += sentence_lines("suspect: %s" % culprit["op"], width)
        lines += _closer(result, culprit["op"], NOWHERE, width)
    return lines


def _closer(result: RunResult, op: str, place: Place, width: Optional[int]) -> List[str]:
    words = closer_words(result.options, op, place)
    return shell_lines("  look closer:", words, width or 10**9) if words else []


def _recomputed(recomputed: Mapping[str, Any]) -> str:
    """Return how many operators were computed again, and how many are right and wrong."""
    left = recomputed["not_computed"]
    counts = (
        "%s: %d right, %d wrong"
        % (plural(recomputed["ops"], "op"), recomputed["right"], recomputed["wrong"])
        if recomputed["ops"]
        else "no op"
    )
    assumed = (
        "; %d otherwise of golden data's input, the device's was not dumped" % recomputed["assumed"]
        if recomputed.get("assumed")
        else ""
    )
    why = "; %d could not be (%s: %s%s)" % (
        len(left), left[0]["op"], left[0]["reason"],
        "; more in result.json" if len(left) > 1 else ""
    ) if left else ""  # fmt: skip
    rest = (
        "; %d left out for the time they take (--recompute all)" % recomputed["left_out"]
        if recomputed.get("left_out")
        else ""
    )
    return "computed again from the device's own inputs: %s%s%s%s" % (counts, assumed, why, rest)


def _devices(summary: Summary) -> List[str]:
    """Return whether several devices agree."""
    if summary.devices_agree is None:
        return []
    apart = [model for model in summary.models if model.difference is not None]
    if not apart:
        return ["all devices agree: every tensor has the same verdict on each"]
    named = ["" if model.name is None else " (model %s)" % model.name for model in apart]
    return [
        "the devices do not agree%s: %s" % (of, model.difference.sentence)
        for of, model in zip(named, apart)
        if model.difference
    ]


def _suspect(number: int, suspect: Suspect, width: Optional[int]) -> List[str]:
    named = "%s (%s)" % (suspect.op, suspect.op_type) if suspect.op_type else suspect.op
    head = "suspect %d: %s, score %.0f, confidence %s: %s" % (
        number,
        named,
        suspect.score,
        suspect.confidence,
        suspect.evidence,
    )
    lines = sentence_lines(head, width)
    least = max((entry.share for entry in suspect.explanations), default=0.0) - _ALIKE
    for entry in [entry for entry in suspect.explanations if entry.share >= least][
        :_MOST_EXPLANATIONS
    ]:
        share = " (%.0f %% of its error)" % (100 * entry.share) if entry.share else ""
        lines += sentence_lines("  %s%s: %s" % (entry.kind, share, entry.sentence), width, "    ")
        lines += sentence_lines("    next: " + entry.next, width, "    ")
    return lines
