"""What the difference of two tensors looks like: a scale, a shift, exchanged axes, one channel only
… (docs/reference/verdict.md lists the kinds).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.lazy_imports import imported_when_used
from .aligned_pair import MOST_ELEMENTS, AlignedPair, align

if TYPE_CHECKING:
    from .finding import KINDS, Finding
    from .full_walk import Walked, walk
    from .pattern_search import best_of_each, find_patterns, spoiled_sentence
    from .region_patterns import fewest, region_of
    from .value_patterns import distinct_values, lattice_step, within_rounding

__all__ = [
    "KINDS", "MOST_ELEMENTS", "AlignedPair", "Finding", "Walked", "align", "best_of_each",
    "distinct_values", "fewest", "find_patterns",
    "lattice_step", "region_of", "spoiled_sentence", "walk", "within_rounding",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = imported_when_used(
        __name__,
        finding=("KINDS", "Finding"),
        full_walk=("Walked", "walk"),
        pattern_search=("best_of_each", "find_patterns", "spoiled_sentence"),
        region_patterns=("fewest", "region_of"),
        value_patterns=("distinct_values", "lattice_step", "within_rounding"),
    )
