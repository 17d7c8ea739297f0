"""The summary of a network's final outputs that were compared without dumps: whether the network is
wrong, not which operator; and of an array that a framework, maybe, computed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Callable, List

from ...base.errors import GoldwatchError
from ...base.manifest import read_manifest
from ...base.naming import parse_dump_name, parse_golden_name
from ...metrics.row import FAIL, IOU, MATCHED, Row
from ..metric_text import beside_limit, metric_number
from .first_divergence import FirstDivergence
from .summary import Summary

OTHER_FILE = "golden-of-another-file"
_OTHER = "other-outputs"
_TOLD = ("outputs-exchanged", _OTHER)
_DUMP = (
    "Which operator is wrong, or whether the device got another input than golden data, a dump "
    "tells: goldwatch config new, then compare the dumps."
)


def outputs_summary(summary: Summary, row_of: Callable[[int], Row]) -> Summary:
    """Return the summary of the rows of final outputs: no operator is suspect, for none was looked
    at.

    Parameters
    ----------
    row_of
        Returns a row by its number.
    """
    first = summary.first
    if first is None:
        sentence = (
            "The network is right as far as its outputs tell: %s within limits."
            % _are_within(summary.passed)
        )
        for warning in summary.warnings:
            if warning.code == _OTHER:
                sentence = "%s But %s." % (sentence, str(warning).rstrip("."))
        return replace(summary, suspects=(), culprit=None, sentence=sentence)
    ious = _same_boxes(summary, row_of)
    if ious:
        sentence = (
            "Outside limits are only outputs whose boxes all match golden data's by class and "
            "place, with a mean intersection over union of %.6f at least: what differs is their "
            "order, or their scores. %s has %s, and limits of the elements decide: widen them "
            "where the boxes are to." % (min(ious), first.tensor, _value(first))
        )
        return replace(summary, suspects=(), culprit=None, sentence=sentence)
    total = summary.passed + summary.failed
    what = (
        "its output is"
        if total == 1
        else "%d of %d outputs %s" % (summary.failed, total, "is" if summary.failed == 1 else "are")
    )
    told = {one.code: str(one).rstrip(".") for one in summary.warnings}
    others = told.get(OTHER_FILE, "")
    sentence = "The network is wrong: %s outside limits; %s has %s. %s%s" % (
        what,
        first.tensor,
        _value(first),
        others and "%s%s. " % (others[0].upper(), others[1:]),
        "" if any(code in told for code in _TOLD) else _DUMP,
    )
    return replace(summary, suspects=(), culprit=None, sentence=sentence.rstrip())


def _same_boxes(summary: Summary, row_of: Callable[[int], Row]) -> List[float]:
    """Return the mean intersection over union of each failing output where all boxes of all of them
    match; empty where they do not, or are none.
    """
    failing = [row for row in map(row_of, range(summary.rows)) if row.verdict == FAIL]
    if any(metric_number(row.metrics.get(MATCHED)) != 1.0 for row in failing):
        return []
    return [metric_number(row.metrics[IOU]) for row in failing]


def array_summary(summary: Summary, target: str, golden: str) -> Summary:
    """Return the summary of one array against a golden tensor of a framework: if another framework
    computed the array, the question is whether the model was exported right, not which operator of
    a device is wrong. Others are returned as they are: of a file that a device or a golden run
    named, and where no manifest tells the golden tensor's model.
    """
    name = os.path.basename(target)
    if not name.endswith((".npy", ".pt", ".pth")):
        return summary
    if parse_dump_name(name) is not None or parse_golden_name(name) is not None:
        return summary
    try:
        manifest = read_manifest(os.path.dirname(golden) or ".") or {}
        model = os.path.basename(manifest["original"]["model"]["path"])
    except (GoldwatchError, OSError, LookupError, TypeError):
        return summary
    computed = "what %s computes of %s" % (manifest.get("backend", "the golden run"), model)
    first = summary.first
    if first is None:
        if not summary.passed:
            return summary
        said = "%s is %s, within limits: if the training framework computed it of the same "
        said += "input, the exported model is right for this input."
        return replace(summary, suspects=(), culprit=None, sentence=said % (name, computed))
    looks = [entry.sentence for suspect in summary.suspects for entry in suspect.explanations[:1]]
    said = "%s is not %s: %s%s. If the training framework computed it of the same input, the "
    said += "exported model is wrong, and no device is concerned: compare the outputs of single "
    said += "layers in the same way. If a device wrote it, goldwatch locate names the operator."
    said %= (name, computed, _value(first), "".join("; " + look for look in looks[:1]))
    return replace(summary, suspects=(), culprit=None, sentence=said)


def _value(first: FirstDivergence) -> str:
    """Return the metric outside its limit, and the limit; the reason where there is none."""
    if first.metric is None or first.value is None or first.limit is None:
        return first.reason
    value = beside_limit(first.value, first.limit)
    return "%s %s, limit %s %.9g" % (first.metric, value, first.limit.comparison, first.limit.value)


def _are_within(count: int) -> str:
    return "its output is" if count == 1 else "all %d that were compared are" % count
