"""Limits, pass or fail per row, the first divergence, suspects and explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import imported_when_used

if TYPE_CHECKING:
    from .deciding import decides
    from .first_divergence import FirstDivergence
    from .judging import Judgement, RowJudge, judge, judge_row, not_applicable, number_text, short_text
    from .limits import VENDOR, Limit, Limits, Subject, parse_limit, parse_limits
    from .seen import execution_key
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
    "judge",
    "judge_row",
    "not_applicable",
    "number_text",
    "parse_limit",
    "parse_limits",
    "short_text",
    "summarise",
]

if not TYPE_CHECKING:
    __getattr__ = imported_when_used(
        __name__,
        deciding=("decides",),
        first_divergence=("FirstDivergence",),
        judging=("Judgement", "RowJudge", "judge", "judge_row", "not_applicable", "number_text", "short_text"),
        limits=("VENDOR", "Limit", "Limits", "Subject", "parse_limit", "parse_limits"),
        seen=("execution_key",),
        sentences=("explain",),
        summary=("Summary", "exit_code", "summarise"),
        suspects=("Suspect",),
    )
