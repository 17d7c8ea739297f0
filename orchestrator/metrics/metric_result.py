"""The metrics of two tensors, and how sums become metrics and remarks; formulas and corner cases:
docs/reference/metrics.md.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..fast_dataclasses import changed, dataclass
from .differing_elements import Difference
from .exact_sums import NonFinite
from .pair_sums import PairSums, ldexp
from .row import FAIL, PASS
from .worst_slice import WorstSlice

DISTANCE = "RelativeEuclideanDistance"


@dataclass(frozen=True)
class MetricResult:
    """The metrics of a target tensor and its golden tensor.

    Attributes
    ----------
    values
        Metric name to float, in the order asked for. NaN where there is no result;
        StandardDeviation is ``{"target": {"mean", "std"}, "golden": {"mean", "std"}}``, or None
        where there is no result.
    judged
        The values by which limits decide, of the metrics where they are others: without what
        rounding near zero explains (:mod:`goldwatch.metrics.rounding_slack`).
    nan, inf
        ``{"target": count, "golden": count}``.
    positions_agree
        NaN and Inf stand at the same positions, Inf with the same signs (also True when there are
        none).
    count, finite_count
        Number of elements (a complex one counts twice) and of those that are finite on both sides.
    notes, reasons
        Remarks that do not spoil the result, and why values are missing or misleading.
    worst_slice
        The slice with the largest distance; None where that is 0, not known, or the tensor has one
        slice only.
    differing, differences
        How many elements differ and the first of them, where DifferentElements applies.
    nothing_finite
        There are elements, and each is not finite or masked, on both sides alike.
    outcome
        ``pass`` or ``fail`` where the values do not decide (zero elements; NaN and Inf that differ;
        an all-zero golden under another target), else None: the limits decide.
    not_applicable
        Metrics that mean nothing for these types; their NaN is no failure.
    identical
        All elements are equal (False without elements).
    overflow
        The target overflows: a float16 magnitude of 65504 or more, NaN or Inf. None for types that
        cannot.
    needs_second_pass
        The divergence was asked for and is not known yet; its value is NaN until KLPass has run.
    first
        The sums behind the values, for KLPass.
    beyond_chance
        :attr:`goldwatch.metrics.worst_slice.WorstSlice.beyond_chance` of the value that is judged;
        None where there are no slices.
    masks_left_out
        They are without the elements that :func:`goldwatch.metrics.differing_masks.masked_apart`
        finds.
    unmasked_distance
        RelativeEuclideanDistance without masked elements, where there are some: their norm would
        hide what is wrong beside them.
    """

    values: Dict[str, Any]
    nan: Dict[str, int]
    inf: Dict[str, int]
    positions_agree: bool
    count: int
    finite_count: int
    notes: List[str] = field(default_factory=list)
    reasons: List[str] = field(default_factory=list)
    worst_slice: Optional[WorstSlice] = None
    differing: int = 0
    differences: Tuple[Difference, ...] = ()
    nothing_finite: bool = False
    outcome: Optional[str] = None
    not_applicable: Tuple[str, ...] = ()
    identical: bool = False
    overflow: Optional[bool] = None
    needs_second_pass: bool = False
    first: Optional[PairSums] = field(default=None, repr=False, compare=False)
    judged: Mapping[str, float] = field(default_factory=dict)
    beyond_chance: Optional[float] = None
    masks_left_out: bool = False
    unmasked_distance: Optional[float] = None

    @property
    def deciding(self) -> Dict[str, Any]:
        """The values that limits are held against."""
        values = {**self.values, **self.judged}
        if self.hides_behind_masks:
            values[DISTANCE] = self.unmasked_distance
        return values

    @property
    def hides_behind_masks(self) -> bool:
        """Whether the norm of masked elements makes RelativeEuclideanDistance smaller than it is
        without them.
        """
        without = self.unmasked_distance
        return (
            without is not None
            and DISTANCE not in self.judged
            and self.values.get(DISTANCE, math.inf) < without
        )

    def but(self, **changes: Any) -> MetricResult:
        """Return :func:`goldwatch.fast_dataclasses.changed` of the result."""
        return changed(self, **changes)


def added_counts(odd: NonFinite, other: NonFinite) -> NonFinite:
    """Return the counts of two sets of elements together."""
    counts = NonFinite()
    counts.add(odd)
    counts.add(other)
    return counts


def notes_and_outcome(
    count: int, sums: PairSums, odd: NonFinite, masked: str = ""
) -> Tuple[List[str], List[str], Optional[str]]:
    """Return notes, reasons and the outcome where the values do not decide; ``masked`` tells which
    elements were left out as masks.
    """
    if not count:
        return ["zero elements on both sides"], [], PASS
    if not odd.agree:
        text = (
            "NaN or Inf differ between the two sides: target %d NaN, %d Inf; golden %d NaN, %d Inf"
        )
        text %= odd.target_nan, odd.target_inf, odd.golden_nan, odd.golden_inf
        signs = " (%s)" % odd.signs() if odd.signs() else ""
        nothing = "; the golden is NaN throughout" if odd.golden_nan == count else ""
        if not (odd.target_nan or odd.target_inf or nothing):
            nothing = "; the golden file alone holds them"
        return [], [text + signs + nothing], FAIL
    notes: List[str] = []
    reasons: List[str] = []
    outcome: Optional[str] = None
    left_out = [masked] if masked else []
    if odd.total:
        infinities = odd.signs().split(", ")[0].replace("target", "") if odd.target_inf else ""
        signs = " (%s)" % infinities.strip() if infinities else ""
        left_out.append(
            "%d NaN and %d Inf%s at the same positions on both sides"
            % (odd.target_nan, odd.target_inf, signs)
        )
    if left_out and not sums.n:
        notes.append(
            "%s: no element is finite%s, so nothing was compared"
            % ("; ".join(left_out), " and not masked" * bool(masked))
        )
        return notes, reasons, PASS
    if left_out:
        notes.append(
            "%s; the metrics are of the %d finite elements of %d"
            % ("; ".join(left_out), sums.n, count)
        )
    target_zero, golden_zero = sums.x_low == sums.x_high == 0, sums.y_low == sums.y_high == 0
    if golden_zero and not target_zero:
        reasons.append(
            "the golden is all zero and the target is not: RelativeEuclideanDistance is "
            "infinite, CosineSimilarity undefined"
            " and the relative errors, 0 by their formula, say nothing"
        )
        outcome = FAIL
    elif target_zero and not golden_zero:
        reasons.append(
            "the target is all zero and the golden is not: CosineSimilarity is undefined"
        )
    return notes, reasons, outcome


def values_of(sums: PairSums) -> Dict[str, Any]:
    """Return all metrics but the divergence."""
    n = sums.n
    identical = sums.max_ad == 0.0
    if identical:
        cosine, distance = 1.0, 0.0
    else:
        lengths = math.sqrt(sums.xx) * math.sqrt(sums.yy)
        cosine = max(-1.0, min(1.0, sums.xy / lengths)) if lengths else math.nan
        # Roots first: the quotient of the squares may leave float64's range where theirs does not.
        distance = (
            ldexp(math.sqrt(sums.dd) / math.sqrt(sums.yy), sums.ed - sums.ey)
            if sums.yy
            else math.inf
        )
    return {
        "CosineSimilarity": cosine,
        "MaxAbsoluteError": sums.max_ad,
        "AccumulatedRelativeError": sums.rel,
        "RelativeEuclideanDistance": distance,
        "StandardDeviation": {
            "target": {
                "mean": float(sums.x_base + sums.x_mean),
                "std": ldexp(math.sqrt(sums.x_m2 / n), sums.ex),
            },
            "golden": {
                "mean": float(sums.y_base + sums.y_mean),
                "std": ldexp(math.sqrt(sums.y_m2 / n), sums.ey),
            },
        },
        "MeanAbsoluteError": ldexp(sums.ad / n, sums.ed),
        "RootMeanSquareError": ldexp(math.sqrt(sums.dd / n), sums.ed),
        "MaxRelativeError": sums.max_rel,
        "MeanRelativeError": sums.rel / n,
    }
