"""What the difference of two tensors looks like: a scale, a shift, exchanged axes, one channel only … (docs/verdict.md lists the kinds)."""

from __future__ import annotations

from .find import find_patterns
from .finding import KINDS, Finding
from .pair import AlignedPair, align

__all__ = ["KINDS", "AlignedPair", "Finding", "align", "find_patterns"]
