"""What the difference of two tensors looks like: a scale, a shift, exchanged axes, one channel only
… (docs/reference/verdict.md lists the kinds).
"""

from __future__ import annotations

from .find import best_of_each, find_patterns, spoiled_sentence
from .finding import KINDS, Finding
from .pair import MOST_ELEMENTS, AlignedPair, align
from .region import fewest, region_of
from .values import distinct_values, lattice_step, within_rounding
from .whole import Walked, walk

__all__ = [
    "KINDS", "MOST_ELEMENTS", "AlignedPair", "Finding", "Walked", "align", "best_of_each",
    "distinct_values", "fewest", "find_patterns",
    "lattice_step", "region_of", "spoiled_sentence", "walk", "within_rounding",
]  # fmt: skip
