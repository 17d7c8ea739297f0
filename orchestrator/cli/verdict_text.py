"""Warnings, the outcome of each model and device, and suspects, as text for the terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence

from ..dumps.place import NOWHERE, Place
from ..judging.limits import DEFAULTS
from ..run.comparison_options import AUTO, ComparisonOptions
from ..text.wording import plural
from .printing import sentence_lines
from .shell_words import command_words, shell_lines, shell_word

if TYPE_CHECKING:
    from ..diagnosis.summary import Summary
    from ..diagnosis.suspects import Suspect
    from ..run.result import RunResult

NARROW_RADIUS = 3
"""How far from the first divergence tensors are dumped after statistics: docs/design/trials.md
tells how often that holds the culprit.
"""
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
        lines += sentence_lines("warning: " + warning, width)
    for text in [model.sentence for model in summary.models if len(summary.models) > 1] + _devices(
        summary
    ):
        lines += sentence_lines(text, width)
    for host in summary.hosts or ():
        lines += sentence_lines(_host(host), width)
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
        lines += sentence_lines("culprit: %s" % culprit["op"], width)
        lines += _closer(result, culprit["op"], NOWHERE, width)
    return lines


def _closer(result: RunResult, op: str, place: Place, width: Optional[int]) -> List[str]:
    words = closer_words(result.options, op, place)
    return shell_lines("  look closer:", words, width or 10**9) if words else []


def closer_words(
    options: ComparisonOptions,
    op: str,
    place: Place,
    unmodelled: bool = False,
    folder: Optional[str] = None,
) -> List[str]:
    """Return the words of the command that shows an op element by element; none where it would need
    more than one model file or place.

    Parameters
    ----------
    folder
        Where that is written; None: ``detail`` in the run's own folder.
    unmodelled
        Also for a comparison without a model, and of two files.
    """
    if place.host is not None:
        # The dumps are on that host.
        return []
    if options.model is None and (not unmodelled or options.quantisation is not None):
        return []
    target = _folder_of(options.target, place)
    # Without the dumps, or with them on another machine, rely on what the run recorded.
    known = os.path.isdir(target) or not os.path.exists(options.target)
    if options.model is not None and os.path.isdir(options.model) and not (place.step and known):
        return []
    golden = os.path.join(options.golden, place.step or "")
    operands = [
        target if known else options.target,
        golden if place.step and os.path.isdir(golden) else options.golden,
    ]
    operands += [] if os.path.isfile(options.target) else [op]
    named = (
        ("-f", options.model),
        ("--quant-json", options.quantisation),
        ("--unfused-om", options.unfused),
    )
    model = [word for option, path in named if path for word in (option, path)]
    words = command_words(
        ["goldwatch", "compare-op"],
        operands,
        [*model, "-o", folder or os.path.join(options.out, "detail")],
    )
    return [shell_word(word) for word in words]


def narrow_words(options: ComparisonOptions) -> List[str]:
    """Return the words of the command that writes a configuration which dumps the tensors around
    the first divergence of a comparison of statistics.
    """
    words = ["--narrow", options.out, "--radius", str(NARROW_RADIUS), "--data", "tensor"]
    words += [
        "--dump-path",
        options.target.rstrip(os.sep) + "_tensors",
        "-o",
        os.path.join(options.out, "acl.json"),
    ]
    return [shell_word(word) for word in command_words(["goldwatch", "config", "new"], [], words)]


def default_words(options: ComparisonOptions, missed: Sequence[str]) -> List[str]:
    """Return the words of the comparison without some limits; none where it has options beyond
    those reproduced here.
    """
    files = (
        ("-f", "model"),
        ("--quant-json", "quantisation"),
        ("--unfused-om", "unfused"),
        ("--original", "original"),
    )
    known = {
        name: getattr(options, name)
        for name in (*(name for _, name in files), "limits", "metrics", "recompute")
    }
    changed = [limit for limit in options.limits.entries if limit not in DEFAULTS]
    replaced = {limit.metric for limit in DEFAULTS if limit not in options.limits.entries}
    again = ComparisonOptions(options.target, options.golden, options.out, **known)
    if again != options or not replaced <= {limit.metric for limit in changed}:
        return []
    words = [word for option, name in files if known[name] for word in (option, known[name])]
    words += [
        word for limit in changed if str(limit) not in missed for word in ("--limit", str(limit))
    ]
    words += ["--recompute", options.recompute] if options.recompute != AUTO else []
    words += ["-o", os.path.join(options.out, "default")]
    return [
        shell_word(word)
        for word in command_words(["goldwatch", "compare"], [options.target, options.golden], words)
    ]


def _folder_of(target: str, place: Place) -> str:
    """Return the folder of a place's dumps; TARGET may be that folder or an ancestor of it."""
    parts, target_parts = (
        [part for part in place if part is not None],
        os.path.abspath(target).split(os.sep),
    )
    shared = next(
        count
        for count in range(len(parts), -1, -1)
        if parts[:count] == target_parts[len(target_parts) - count :]
    )
    return os.path.join(target, *parts[shared:])


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


def _host(host: Mapping[str, Any]) -> str:
    counts = (
        (host["passed"], "pass"),
        (host["failed"], "fail"),
        (host["not_compared"], "not compared"),
    )
    counts_text = ", ".join(
        "%d %s" % count for count in counts if count[0] or count[1] != "not compared"
    )
    state = "" if host["state"] == "finished" else " (%s)" % host["state"]
    return "host %s%s: %s, %d rows: %s" % (
        host["host"],
        state,
        host["verdict"],
        host["rows"],
        counts_text,
    )


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
