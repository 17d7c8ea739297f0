"""Limits of the metrics and the judgement of one tensor's metrics against them.

Source of the default limits: the usual thresholds of the vendor's public documents on dump comparison.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Collection, Dict, Mapping, Optional, Sequence, Tuple

from ..compare.row import METRICS
from ..errors import InputError, UsageError
from ..naming import nearest_names

LARGER = ">"
SMALLER = "<"
LIMITED = tuple(name for name in METRICS if name != "StandardDeviation")

_FORM = re.compile(r"\s*(?P<metric>[^=<>]*?)\s*(?P<sign>[=<>])(?P<value>.*)\Z", re.DOTALL)
_FORMS_HINT = "write METRIC=VALUE, 'METRIC<VALUE' or 'METRIC>VALUE', for example --limit CosineSimilarity=0.999"
_NON_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class Limit:
    """One metric's limit: the metric must be strictly larger (``>``) or strictly smaller (``<``) than ``value``."""

    metric: str
    comparison: str
    value: float

    def met(self, value: float) -> bool:
        """Tell whether ``value`` is within the limit; NaN never is."""
        return value > self.value if self.comparison == LARGER else value < self.value

    def __str__(self) -> str:
        return "%s %s %.9g" % (self.metric, self.comparison, self.value)


def natural_comparison(metric: str) -> str:
    """Return ``>`` for CosineSimilarity, ``<`` for every other metric."""
    return LARGER if metric == "CosineSimilarity" else SMALLER


DEFAULTS = (
    Limit("CosineSimilarity", LARGER, 0.99),
    Limit("RelativeEuclideanDistance", SMALLER, 0.05),
    Limit("KullbackLeiblerDivergence", SMALLER, 0.005),
    Limit("RootMeanSquareError", SMALLER, 1.0),
    Limit("MeanRelativeError", SMALLER, 1.0),
)


@dataclass(frozen=True)
class Limits:
    """The limits of a run, at most one a metric, in the order of the result table's columns."""

    entries: Tuple[Limit, ...] = DEFAULTS

    @property
    def metrics(self) -> Tuple[str, ...]:
        """The limited metrics: these are computed and judged whatever columns are shown."""
        return tuple(limit.metric for limit in self.entries)

    def get(self, metric: str) -> Optional[Limit]:
        """Return the limit of ``metric``, or None."""
        for limit in self.entries:
            if limit.metric == metric:
                return limit
        return None

    def replaced(self, limit: Limit) -> Limits:
        """Return the same limits with that one metric's limit put in the place of any it had."""
        entries = {entry.metric: entry for entry in self.entries}
        entries[limit.metric] = limit
        return Limits(tuple(entries[name] for name in LIMITED if name in entries))

    def document(self) -> Dict[str, Any]:
        """Return ``{metric: {">" or "<": value}}``, as result.json shows it (schemas/limits.schema.json)."""
        return {limit.metric: {limit.comparison: _plain(limit.value)} for limit in self.entries}

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> Limits:
        """Return the limits that :meth:`document` made the document of.

        Raises
        ------
        InputError
            The document is not of that form.
        """
        limits = Limits(())
        for metric, entry in document.items():
            if metric not in LIMITED or not isinstance(entry, Mapping) or len(entry) != 1 or set(entry) - {LARGER, SMALLER}:
                raise InputError("limits: %r: %r is not a limit" % (metric, entry), hint="schemas/limits.schema.json describes the form")
            ((comparison, value),) = entry.items()
            try:
                number = float(_NON_FINITE.get(value, value) if isinstance(value, str) else value)
            except (TypeError, ValueError):
                raise InputError("limits: %s: %r is not a number" % (metric, value)) from None
            limits = limits.replaced(Limit(metric, comparison, number))
        return limits


def _plain(value: float) -> Any:
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def parse_limits(texts: Sequence[str]) -> Limits:
    """Return the default limits with those of ``--limit`` put in their places.

    Parameters
    ----------
    texts
        Each ``METRIC=VALUE`` (CosineSimilarity must be larger, all others smaller), ``METRIC>VALUE`` or ``METRIC<VALUE``; of several for
        one metric the last holds. Limits are strict: a metric equal to its limit is outside it.

    Raises
    ------
    UsageError
        Another form, an unknown metric, StandardDeviation (which is no single number), or a value that is no number.
    """
    limits = Limits()
    for text in texts:
        limits = limits.replaced(_parse_limit(text))
    return limits


def _parse_limit(text: str) -> Limit:
    match = _FORM.match(text)
    if match is None:
        if text.strip() in METRICS:
            raise UsageError(
                "--limit %s: the value is missing" % text.strip(),
                hint="quote it, the shell takes < and > for itself: --limit '%s%s0.9', or write %s=0.9"
                % (text.strip(), natural_comparison(text.strip()), text.strip()),
            )
        raise UsageError("--limit %s: not a limit" % text, hint=_FORMS_HINT)
    metric, sign, value = match.group("metric"), match.group("sign"), match.group("value").strip()
    _check_metric(metric, text)
    number = _parse_number(value)
    if number is None:
        raise UsageError("--limit %s: %r is not a number" % (text, value), hint=_FORMS_HINT)
    return Limit(metric, natural_comparison(metric) if sign == "=" else sign, number)


def _check_metric(metric: str, text: str) -> None:
    if metric == "StandardDeviation":
        raise UsageError(
            "--limit %s: StandardDeviation is four numbers and cannot be limited" % text, hint="metrics with limits: " + ", ".join(LIMITED)
        )
    if metric in LIMITED:
        return
    near = nearest_names(metric, LIMITED, 1, 0.5)
    hint = "did you mean %s?" % near[0] if near else "metrics with limits: " + ", ".join(LIMITED)
    raise UsageError("--limit %s: unknown metric %r" % (text, metric), hint=hint)


def _parse_number(text: str) -> Optional[float]:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) or "_" in text else number


@dataclass(frozen=True)
class Judgement:
    """What the limits say about one tensor.

    Attributes
    ----------
    passed
        True when every limit holds.
    metric, value, limit
        The first metric outside its limit, in the order of the columns; a number outside its limit comes before a NaN. None when passed.
    text
        One phrase, such as ``CosineSimilarity 0.912345 is not > 0.99``; empty when passed.
    """

    passed: bool
    metric: Optional[str] = None
    value: Optional[float] = None
    limit: Optional[Limit] = None
    text: str = ""


def judge(values: Mapping[str, Any], limits: Limits, not_applicable: Collection[str] = ()) -> Judgement:
    """Judge one tensor's metrics.

    Parameters
    ----------
    values
        Metric name to number. Names without a limit (and StandardDeviation) are not looked at.
    limits
        What is allowed.
    not_applicable
        Metrics that make no sense for this tensor (all but two for bool against bool): they neither pass nor fail. Any other metric that
        is NaN or was not computed fails: NaN or Inf at different positions, and a golden of zeros against other values, come out as such.
    """
    undefined: Optional[Limit] = None
    for limit in limits.entries:
        if limit.metric in not_applicable:
            continue
        value = metric_number(values.get(limit.metric))
        if math.isnan(value):
            undefined = undefined or limit
        elif not limit.met(value):
            text = "%s %s is not %s %.9g" % (limit.metric, short_text(value), limit.comparison, limit.value)
            return Judgement(False, limit.metric, value, limit, text)
    if undefined is None:
        return Judgement(True)
    text = "%s is NaN, limit %s %.9g" % (undefined.metric, undefined.comparison, undefined.value)
    return Judgement(False, undefined.metric, math.nan, undefined, text)


def metric_number(value: Any) -> float:
    """Return a metric's value as a float; NaN for None and for what is no number."""
    if value is None or isinstance(value, dict):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def number_text(value: float) -> str:
    """Return a metric as the tables print it: ``%.6f``, ``%.6e`` where six decimals would hide it, ``NaN``, ``inf``."""
    if math.isnan(value):
        return "NaN"
    return "%.6e" % value if 0 < abs(value) < 1e-4 else "%.6f" % value


def short_text(value: float) -> str:
    """Return a metric for a sentence or a terminal: as :func:`number_text`, but ``%.6e`` from 1e12 on too."""
    return "%.6e" % value if 1e12 <= abs(value) < math.inf else number_text(value)
