"""Limits, pass or fail per row, the first divergence, suspects and explanations."""

from __future__ import annotations

from .deciding import decides
from .first_divergence import FirstDivergence, first_divergence
from .judging import Judgement, RowJudge, judge, judge_row, not_applicable, number_text, short_text
from .limits import VENDOR, Limit, Limits, Subject, parse_limit, parse_limits
from .observations import execution_key
from .sentences import explain
from .summary import Summary, exit_code, summarise
from .suspects import Suspect

__all__ = [
    "FirstDivergence",
    "Judgement",
    "Limit",
    "Limits",
    "RowJudge",
    "Subject",
    "Summary",
    "Suspect",
    "VENDOR",
    "decides",
    "execution_key",
    "exit_code",
    "explain",
    "first_divergence",
    "judge",
    "judge_row",
    "not_applicable",
    "number_text",
    "parse_limit",
    "parse_limits",
    "short_text",
    "summarise",
]
