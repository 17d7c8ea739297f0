"""Which metrics count for a row."""

from __future__ import annotations

from typing import FrozenSet

from ..compare.row import METRICS, Row

BOOL_METRICS = ("CosineSimilarity", "RelativeEuclideanDistance")

_NOT_FOR_BOOL = frozenset(METRICS) - frozenset(BOOL_METRICS)


def not_applicable(row: Row) -> FrozenSet[str]:
    """Return the metrics that make no sense for a row: all without elements, all but two for bool against bool."""
    if row.shape is not None and 0 in row.shape:
        return frozenset(METRICS)
    return _NOT_FOR_BOOL if row.target_dtype == "bool" and row.golden_dtype == "bool" else frozenset()
