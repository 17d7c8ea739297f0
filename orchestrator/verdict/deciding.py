"""Operators that decide."""

from __future__ import annotations


def decides(op_type: str) -> bool:
    """x."""
    return op_type in ("ArgMaxV2", "ArgMaxD", "ArgMax", "TopK", "TopKD")
