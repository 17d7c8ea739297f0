"""The metrics of two tensors, and how sums become metrics and remarks; formulas and corner cases:
docs/reference/metrics.md.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..base.fast_dataclasses import changed, dataclass
from .differing_elements import Difference
from .exact_sums import NonFinite
from .pair_sums import PairSums
from .row import FAIL, PASS
from .worst_slice import WorstSlice

DISTANCE = "RelativeEuclideanDistance"
SPREAD = "StandardDeviation"


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
        They are without the elements that :func:`goldwatch.metrics.differing_elements.masked_apart`
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
        """Return :func:`goldwatch.base.fast_dataclasses.changed` of the result."""
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


def values_of(sums: Any) -> Dict[str, Any]:
    """Return all metrics but the divergence, of one pair's sums as numbers or of those of many as
    arrays; StandardDeviation as the numbers that :func:`spread_of` takes.
    """
    n, identical = sums.n, np.equal(sums.max_ad, 0.0)
    with np.errstate(all="ignore"):
        lengths = np.sqrt(sums.xx) * np.sqrt(sums.yy)
        cosine = np.where(lengths > 0.0, np.clip(sums.xy / lengths, -1.0, 1.0), math.nan)
        # Roots first: the quotient of the squares may leave float64's range where theirs does not.
        distance = np.ldexp(np.sqrt(sums.dd) / np.sqrt(sums.yy), sums.ed - sums.ey)
        return {
            "CosineSimilarity": np.where(identical, 1.0, cosine),
            "MaxAbsoluteError": sums.max_ad,
            "AccumulatedRelativeError": sums.rel,
            "RelativeEuclideanDistance": np.where(
                identical, 0.0, np.where(np.equal(sums.yy, 0.0), math.inf, distance)
            ),
            "StandardDeviation": (
                sums.x_base + sums.x_mean,
                np.ldexp(np.sqrt(sums.x_m2 / n), sums.ex),
                sums.y_base + sums.y_mean,
                np.ldexp(np.sqrt(sums.y_m2 / n), sums.ey),
            ),
            "MeanAbsoluteError": np.ldexp(sums.ad / n, sums.ed),
            "RootMeanSquareError": np.ldexp(np.sqrt(sums.dd / n), sums.ed),
            "MaxRelativeError": sums.max_rel,
            "MeanRelativeError": sums.rel / n,
        }


def spread_of(*numbers: float) -> Dict[str, Dict[str, float]]:
    """Return StandardDeviation of mean and standard deviation of the target, then of the golden."""
    x_mean, x_std, y_mean, y_std = map(float, numbers)
    return {"target": {"mean": x_mean, "std": x_std}, "golden": {"mean": y_mean, "std": y_std}}


def notes_on_shape(shape: Sequence[int]) -> List[str]:
    """Return the note on a golden tensor of one element."""
    if any(size != 1 for size in shape):
        return []
    return [
        "the tensor has one element, shape %s" % list(shape) if shape else "the tensor is a scalar"
    ]
