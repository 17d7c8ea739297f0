"""The order of the list of runs."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple

Document = Dict[str, Any]

_VERDICTS = {"fail": 0, "incomplete": 1, None: 2, "pass": 3}


def _count(name: str) -> Callable[[Document], Any]:
    return lambda document: len(document[name])


def _text(name: str) -> Callable[[Document], Any]:
    return lambda document: document[name] or ""


SORTS: Mapping[str, Callable[[Document], Any]] = {
    "verdict": lambda document: _VERDICTS.get(document["verdict"], 2),
    "run": _text("path"),
    "model": _text("model"),
    "first": lambda document: (document["first_divergence"] or {}).get("op", ""),
    "devices": _count("devices"),
    "steps": _count("steps"),
    "rows": lambda document: document["rows"],
    "fail": lambda document: document["failed"],
    "progress": lambda document: -1.0 if document["progress"] is None else document["progress"],
    "started": _text("started"),
    "host": _text("host"),
}
"""By what runs can be sorted."""

ORDERS: Tuple[str, ...] = ("asc", "desc")


def in_order(documents: List[Document], sort: str, order: str) -> List[Document]:
    """Return runs, given newest first, in another order; the sort is stable."""
    if not sort:
        return documents
    return sorted(documents, key=SORTS[sort], reverse=order == "desc")
