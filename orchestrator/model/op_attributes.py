"""The attributes of a model's ops as Python values, for computing the ops again."""

from __future__ import annotations

import os
from typing import Any, Dict, List

from ..errors import GoldwatchError
from ..filesystem.safe_reading import open_input
from .omjson import parse_json
from .read_model import read_tree

Attributes = Dict[str, Any]

_GE = ("_", "OwnerGraphIsUnknown", "INPUT_IS_VAR", "OUTPUT_IS_VAR")
_FORMS = {"s": str, "i": int, "f": float, "b": bool, "dt": str}
MOST_BYTES = 512 << 20
"""A larger json is not read a second time for its attributes."""


def attributes_by_position(path: str) -> List[Attributes]:
    """Return the attributes of each op of a model json, in the file's order over all graphs; empty
    where they cannot be read.

    Numbers, str, bool and lists of these; tensors, graphs and GE's own attributes (``_…``) are left
    out.
    """
    try:
        if os.path.getsize(path) > MOST_BYTES:
            return []
        with open_input(path) as stream:
            tree, _ = parse_json(stream.read(), path, every=True)
        return [_attributes(op) for op in _ops(tree)]
    except (GoldwatchError, OSError, AttributeError, TypeError):
        return []


def attributes_by_name(path: str) -> Dict[str, Attributes]:
    """Return the same for an original graph of TorchAir, whose op names are unique."""
    try:
        return {op["name"]: _attributes(op) for op in _ops(read_tree(path, True)[0])}
    except (GoldwatchError, OSError, AttributeError, TypeError, KeyError):
        return {}


def _ops(tree: Dict[str, Any]) -> List[Dict[str, Any]]:
    return [op for graph in tree.get("graph") or () for op in graph.get("op") or ()]


def _attributes(op: Dict[str, Any]) -> Attributes:
    attributes: Attributes = {}
    for entry in op.get("attr") or ():
        key, value = entry.get("key"), entry.get("value")
        if isinstance(key, str) and not key.startswith(_GE) and isinstance(value, dict):
            read = _value(value)
            if read is not None:
                attributes[key] = read
    return attributes


def _value(value: Dict[str, Any]) -> Any:
    """Return an attribute as number, bool, str or list of these; None for any other form."""
    for form, inner in value.items():
        try:
            if form == "list" and isinstance(inner, dict):
                forms = [name for name in inner if name in _FORMS]
                return [_FORMS[forms[0]](one) for one in inner[forms[0]]] if forms else []
            if form in _FORMS:
                return _FORMS[form](inner)
        except (TypeError, ValueError):
            return None
    return None
