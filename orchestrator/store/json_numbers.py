"""Numbers that are not finite in JSON, which has none: NaN and infinities as texts, and back."""

from __future__ import annotations

import math
from typing import Any

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def plain_number(value: Any) -> Any:
    """Return a number as int or float, or as ``"NaN"``, ``"Infinity"``, ``"-Infinity"``; None and
    text stay.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return int(value)
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def plain_tree(value: Any) -> Any:
    """Return nested mappings and lists with every number that is not finite as its text."""
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, dict):
        return {str(key): plain_tree(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_tree(entry) for entry in value]
    return value if isinstance(value, bool) else plain_number(value)


def finite_tree(value: Any) -> Any:
    """Return the inverse of :func:`plain_tree`."""
    if isinstance(value, dict):
        return {key: finite_tree(entry) for key, entry in value.items()}
    return NON_FINITE.get(value, value) if isinstance(value, str) else value
