"""A summary as a lossless JSON value, for the store; result.json leaves some fields out and rounds
numbers.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional, Union, get_type_hints

import numpy as np

from .summary import Summary


def summary_tree(summary: Summary) -> Any:
    """Return a summary as a JSON value; numbers that are not finite stay floats."""
    return _tree(summary)


def summary_of(tree: Any) -> Optional[Summary]:
    """Return what :func:`summary_tree` made the value of; None where it is no such value, as of
    another version.
    """
    try:
        summary = _read(Summary, tree)
    except (TypeError, ValueError, KeyError, AttributeError):
        return None
    return summary if isinstance(summary, Summary) else None


def _tree(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {
            field.name: _tree(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): _tree(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tree(entry) for entry in value]
    return value.item() if isinstance(value, np.generic) else value


def _read(kind: Any, tree: Any) -> Any:
    """Return a value of a type as an annotation names it; Mappings stay as they are."""
    origin: Any = getattr(kind, "__origin__", None)
    inner: Any = getattr(kind, "__args__", ())
    if origin is Union:
        return None if tree is None else _read(inner[0], tree)
    if origin is tuple:
        kinds = [inner[0]] * len(tree) if inner[1:] == (...,) else inner
        return tuple(_read(*pair) for pair in zip(kinds, tree))
    if dataclasses.is_dataclass(kind):
        make: Any = kind
        kinds = get_type_hints(kind)
        return make(**{name: _read(kinds[name], entry) for name, entry in tree.items()})
    if hasattr(kind, "_fields"):
        return kind(*map(_read, get_type_hints(kind).values(), tree))
    return tree
