"""Limits, pass or fail per row, the first divergence."""

from __future__ import annotations

from .deciding import decides
from .first_divergence import FirstDivergence, execution_key, explain, first_divergence, place_of
from .judging import Judgement, RowJudge, judge, judge_row, not_applicable, number_text, short_text
from .limits import VENDOR, Limit, Limits, Subject, parse_limit, parse_limits
from .summary import Summary, exit_code, summarise

__all__ = [
    "FirstDivergence",
    "Judgement",
    "Limit",
    "Limits",
    "RowJudge",
    "Subject",
    "Summary",
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
    "place_of",
    "summarise",
]
