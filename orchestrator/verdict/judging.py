"""A compared row's verdict under the limits."""

from __future__ import annotations

from dataclasses import replace
from typing import FrozenSet

from ..compare.row import FAIL, METRICS, PASS, Row
from .limits import Limits, judge

BOOL_METRICS = ("CosineSimilarity", "RelativeEuclideanDistance")

_NOT_FOR_BOOL = frozenset(METRICS) - frozenset(BOOL_METRICS)


def not_applicable(row: Row) -> FrozenSet[str]:
    """Return the metrics that make no sense for a row: all without elements, all but two for bool against bool."""
    if row.shape is not None and 0 in row.shape:
        return frozenset(METRICS)
    return _NOT_FOR_BOOL if row.target_dtype == "bool" and row.golden_dtype == "bool" else frozenset()


def judge_row(row: Row, limits: Limits) -> Row:
    """Return a compared row with its verdict under ``limits``; the first limit that does not hold joins the reason.

    Parameters
    ----------
    row
        As the comparison left it. ``fail`` (NaN, Inf, a golden of zeros) and every verdict of a row without numbers stay.
    limits
        What is allowed.
    """
    if row.verdict != PASS:
        return row
    judgement = judge(row.metrics, limits, not_applicable(row))
    if judgement.passed:
        return row
    return replace(row, verdict=FAIL, reason="; ".join(text for text in (judgement.text, row.reason) if text))
