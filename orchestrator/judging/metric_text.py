"""The value of a metric as text: in tables, in sentences, and beside its limit."""

from __future__ import annotations

import math
from typing import Any

from .limits import Limit


def metric_number(value: Any) -> float:
    """Return a metric's value as a float; NaN for None and for what is no number."""
    if type(value) is float:
        return value
    if value is None or isinstance(value, dict):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def number_text(value: float) -> str:
    """Return a metric as the tables print it: ``%.6f``, ``%.6e`` where six decimals would hide it,
    ``NaN``, ``inf``.
    """
    if math.isnan(value):
        return "NaN"
    return "%.6e" % value if 0 < abs(value) < 1e-4 else "%.6f" % value


def beside_limit(value: float, limit: Limit) -> str:
    """Return a metric as :func:`short_text`, with as many digits as it takes to see on which side
    of its limit it is.
    """
    text = short_text(value)
    for digits in (9, 12, 17):
        if math.isnan(value) or limit.met(float(text)) == limit.met(value):
            break
        text = "%.*g" % (digits, value)
    return text


def short_text(value: float) -> str:
    """Return a metric for a sentence or a terminal: as :func:`number_text`, but ``%.6e`` from 1e12
    on too.
    """
    return "%.6e" % value if 1e12 <= abs(value) < math.inf else number_text(value)
