"""Limits, pass or fail per row, the first divergence, suspects and explanations."""

from __future__ import annotations

from .first_divergence import FirstDivergence, first_divergence
from .judging import not_applicable
from .limits import Judgement, Limit, Limits, judge, number_text, parse_limits, short_text
from .observations import execution_key
from .sentences import explain
from .summary import Summary, exit_code, summarise
from .suspects import Suspect

__all__ = [
    "FirstDivergence",
    "Judgement",
    "Limit",
    "Limits",
    "Summary",
    "Suspect",
    "execution_key",
    "exit_code",
    "explain",
    "first_divergence",
    "judge",
    "not_applicable",
    "number_text",
    "parse_limits",
    "short_text",
    "summarise",
]
