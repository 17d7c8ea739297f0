"""The summary of a network's final outputs that were compared without dumps: whether the network is
wrong, not which operator.
"""

from __future__ import annotations

from dataclasses import replace

from ..metric_text import beside_limit
from .summary import Summary

_DUMP = "Which operator is wrong a dump tells: goldwatch config new, then compare the dumps."


def outputs_summary(summary: Summary) -> Summary:
    """Return the summary of the rows of final outputs: no operator is suspect, for none was looked
    at.
    """
    first = summary.first
    if first is None:
        sentence = (
            "The network is right as far as its outputs tell: %s within limits."
            % _are_within(summary.passed)
        )
        return replace(summary, suspects=(), culprit=None, sentence=sentence)
    value = first.reason
    if first.metric is not None and first.value is not None and first.limit is not None:
        value = "%s %s, limit %s %.9g" % (
            first.metric,
            beside_limit(first.value, first.limit),
            first.limit.comparison,
            first.limit.value,
        )
    total = summary.passed + summary.failed
    what = (
        "its output is"
        if total == 1
        else "%d of %d outputs %s" % (summary.failed, total, "is" if summary.failed == 1 else "are")
    )
    sentence = "The network is wrong: %s outside limits; %s has %s. %s" % (
        what,
        first.tensor,
        value,
        _DUMP,
    )
    return replace(summary, suspects=(), culprit=None, sentence=sentence)


def _are_within(count: int) -> str:
    return "its output is" if count == 1 else "all %d that were compared are" % count
