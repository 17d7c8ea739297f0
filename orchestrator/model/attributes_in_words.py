"""All attributes of a model's ops as text to display."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple

from .graph_builder import clean_name

Parameters = List[Tuple[str, str]]

_MOST_LETTERS = 300


def parameters_of(tree: Dict[str, Any]) -> List[Parameters]:
    """Return the attributes of each op of a tree that a graph could be built from, GE's own
    (``_…``) last.
    """
    ops = [op for graph in tree["graph"] for op in graph.get("op") or ()]
    return [sorted(_parameters(op), key=lambda entry: entry[0].startswith("_")) for op in ops]


def _parameters(op: Dict[str, Any]) -> Parameters:
    entries = [
        entry
        for entry in op.get("attr") or ()
        if isinstance(entry, dict) and isinstance(entry.get("key"), str)
    ]
    return [(clean_name(entry["key"]), _cut(_words(entry.get("value")))) for entry in entries]


def _words(value: Any) -> str:
    """Return a value without the name of its form: ``{"i": 3}`` is 3, ``{"list": {"i": [1, 2]}}``
    is [1, 2].
    """
    if isinstance(value, dict) and len(value) == 1:
        form, inner = next(iter(value.items()))
        if form == "list" and isinstance(inner, dict):
            lists = {key: entry for key, entry in inner.items() if key != "val_type"}
            return _words(lists) if len(lists) == 1 else _json(lists) if lists else "[]"
        return _words(inner)
    if isinstance(value, list):
        return "[%s]" % ", ".join(map(_words, value))
    if value is None or value == {}:
        return ""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    rest = len(text) - _MOST_LETTERS
    return clean_name(
        text if rest <= 0 else "%s … (%d letters more)" % (text[:_MOST_LETTERS], rest)
    )
