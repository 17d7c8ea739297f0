"""Judges the metrics of one tensor by its limits."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Collection, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..dumps import tensor_statistics as statistics
from ..metrics.row import BOOL_METRICS, DIFFERENT, FAIL, MEASURES, WORST_SLICE, Row
from .limits import ANY, COMPARISONS, DEFAULTS, Limit, Limits, Subject, for_statistics
from .metric_text import beside_limit, metric_number

DISTANCES = ("CosineSimilarity", "RelativeEuclideanDistance", WORST_SLICE)
"""The metrics whose place DifferentElements takes where it applies."""

_BY_CHANCE = frozenset(str(limit) for limit in DEFAULTS if limit.metric == WORST_SLICE)

_DEFAULTS = frozenset(map(str, DEFAULTS))
_BY_DECISION = frozenset(str(limit) for limit in DEFAULTS if limit.metric == DIFFERENT)

_WHERE_MEASURED = frozenset((DIFFERENT, *statistics.MEASURES))
"""Metrics whose limits say nothing of a row without them."""

_NOT_FOR_BOOL = frozenset(MEASURES) - frozenset(BOOL_METRICS)


def not_applicable(row: Row) -> FrozenSet[str]:
    """Return the metrics that make no sense for a row: all without elements, all but three for bool
    against bool.
    """
    if row.shape is not None and 0 in row.shape:
        return frozenset(MEASURES)
    return (
        _NOT_FOR_BOOL if row.target_dtype == "bool" and row.golden_dtype == "bool" else frozenset()
    )


class Judgement(NamedTuple):
    """The judgement on one tensor by its limits.

    Attributes
    ----------
    passed
        True when every limit holds.
    metric, value, limit
        The first metric outside its limit, in the order of the columns; a number outside its limit
        comes before a NaN. None when passed.
    text
        One phrase, such as ``CosineSimilarity 0.912345 is not > 0.99``; empty when passed.
    decided_by
        The limits that are not met, when passed those that were looked at; in the form of
        :func:`goldwatch.judging.limit_parsing.parse_limit`, joined by ``; ``.
    """

    passed: bool
    metric: Optional[str] = None
    value: Optional[float] = None
    limit: Optional[Limit] = None
    text: str = ""
    decided_by: str = ""


def judge(
    values: Mapping[str, Any],
    limits: Limits,
    not_applicable: Collection[str] = (),
    subject: Subject = ANY,
) -> Judgement:
    """Judge one tensor's metrics.

    Parameters
    ----------
    values
        Metric name to number. Names without a limit (and StandardDeviation) are not looked at.
        Where DifferentElements is a number and limited, it takes the place of the limits of the
        three distances, but for those that were asked for a type or an op: whole numbers are equal
        or they are not.
    limits
        What is allowed.
    not_applicable
        Metrics that make no sense for this tensor (most for bool against bool): they neither pass
        nor fail. Any other metric that is NaN or was not computed fails, but for DifferentElements,
        which is NaN wherever it does not apply: NaN or Inf at different positions, and a golden of
        zeros against other values, come out as such. Statistics are judged by the limits of their
        own.
    subject
        Which limits hold for the tensor.
    """
    if values.get(statistics.NOT_FINITE) is not None:
        limits = for_statistics(limits)
    return _judged_by(values, limits.for_subject(subject), not_applicable)


def _judged_by(
    values: Mapping[str, Any], entries: Sequence[Limit], not_applicable: Collection[str]
) -> Judgement:
    whole = not math.isnan(metric_number(values.get(DIFFERENT))) and any(
        limit.metric == DIFFERENT for limit in entries
    )
    looked_at: List[Limit] = []
    missed: List[Tuple[bool, Limit, float]] = []
    for limit in entries:
        value = metric_number(values.get(limit.metric))
        undefined = math.isnan(value)
        if limit.metric in not_applicable or (undefined and limit.metric in _WHERE_MEASURED):
            continue
        if whole and limit.metric in DISTANCES and (not limit.selector or limit in DEFAULTS):
            continue
        looked_at.append(limit)
        if undefined or not limit.met(value):
            missed.append((undefined, limit, value))
    if not missed:
        return Judgement(True, decided_by=_joined(tuple(looked_at)))
    undefined, limit, value = min(missed, key=lambda entry: entry[0])
    if undefined:
        value_text = values.get(limit.metric)
        # A metric of the user's own may be a text.
        shown = (
            "the text %.40r" % value_text
            if isinstance(value_text, str) and value_text != "NaN"
            else "NaN"
        )
        text = "%s is %s, limit %s %.9g" % (limit.metric, shown, limit.comparison, limit.value)
    else:
        text = "%s %s is not %s %.9g" % (
            limit.metric,
            beside_limit(value, limit),
            limit.comparison,
            limit.value,
        )
    return Judgement(
        False, limit.metric, value, limit, text, _joined(tuple(entry[1] for entry in missed))
    )


def all_met(entries: Sequence[Limit], values: Mapping[str, Any]) -> Tuple[Any, str]:
    """Tell which of n tensors of floating point numbers are within all limits, bool, [n], and the
    limits that were looked at; ``values``: by metric, [n].
    """
    looked_at = tuple(limit for limit in entries if limit.metric not in _WHERE_MEASURED)
    met = np.ones(len(next(iter(values.values()))), np.bool_)
    for limit in looked_at:
        met &= (
            COMPARISONS[limit.comparison](values[limit.metric], limit.value)
            if limit.metric in values
            else False
        )
    return met, _joined(looked_at)


@lru_cache(maxsize=1024)
def _joined(limits: Tuple[Limit, ...]) -> str:
    return "; ".join(map(str, limits))


def subject_of(row: Row) -> Subject:
    """Return what the limits may tell a row by."""
    return Subject(row.target_dtype or "", row.op_type, row.op)


def judge_row(row: Row, limits: Limits) -> Judgement:
    """Judge a finished row's metrics again; of a failing row, by the limits that decided (others
    may be missed by rounding alone).
    """
    statistical = statistics.NOT_FINITE in row.metrics
    inapplicable = () if statistical else not_applicable(row)
    if row.verdict == FAIL and row.decided_by:
        names = row.decided_by.split("; ")
        known = for_statistics(limits) if statistical else limits
        # They held for the type that its values went through, which the row does not tell.
        deciding = [limit for limit in known.entries if str(limit) in names]
        if deciding:
            return _judged_by(row.metrics, deciding, inapplicable)
    return judge(row.metrics, limits, inapplicable, subject_of(row))


def only_slice_limit_missed(decided_by: str) -> bool:
    """Tell whether a row misses only a default limit of the worst slice."""
    return decided_by in _BY_CHANCE


def only_decision_limit_missed(decided_by: str) -> bool:
    """Tell whether a failing row misses only the default limit of DifferentElements."""
    return decided_by in _BY_DECISION


def only_default_limits_missed(decided_by: str) -> bool:
    """Tell whether a failing row misses only default limits."""
    return all(limit in _DEFAULTS for limit in decided_by.split("; "))
