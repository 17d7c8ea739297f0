"""The metrics of a target tensor and its golden tensor, as accumulators over blocks.

Formulas and corner cases: docs/metrics.md. All sums are float64, whatever the tensors' types; differences of integers
are exact. The divergence needs a second pass (:class:`KLPass`); :func:`compare_blocks` runs both.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from ..errors import UsageError
from .differences import Difference, Differences
from .exact import NonFinite, exact_sums, finite_part, zero_filled
from .kernel import Visit, as_reals, fast_sums, load, load_limit, pieces, workspace
from .kullback_leibler import DivergenceSums, known_divergence
from .row import DIFFERENT, FAIL, MEASURES, METRICS, PASS, WORST_SLICE
from .slices import SliceAxis, SliceSums, Where, WorstSlice
from .sums import PairSums, ldexp

Blocks = Iterable[Tuple[Any, ...]]

BOOL_METRICS = ("CosineSimilarity", "RelativeEuclideanDistance")
"""The metrics that mean something between two bool tensors."""

_KL = "KullbackLeiblerDivergence"
_RELATIVE = ("AccumulatedRelativeError", "MaxRelativeError", "MeanRelativeError")
_WHOLE_TYPES = "?bBhHiIlLqQpP"
_HALF_MAX = 65504.0
_KEEP_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class MetricResult:
    """What was measured between a target tensor and its golden tensor.

    Attributes
    ----------
    values
        Metric name to float, in the order asked for. NaN where there is no result; StandardDeviation is
        ``{"target": {"mean", "std"}, "golden": {"mean", "std"}}``, or None where there is no result.
    nan, inf
        ``{"target": count, "golden": count}``.
    positions_agree
        NaN and Inf stand at the same positions, Inf with the same signs (also True when there are none).
    count, finite_count
        Number of elements (a complex one counts twice) and of those that are finite on both sides.
    notes, reasons
        Remarks that do not spoil the result, and why values are missing or misleading.
    worst_slice
        The slice with the largest distance; None where that is 0, not known, or the tensor has one slice only.
    differing, differences
        How many elements differ and the first of them, where DifferentElements applies.
    nothing_finite
        There are elements and none is finite, on both sides alike.
    outcome
        ``pass`` or ``fail`` where the values do not decide (zero elements; NaN and Inf that differ; an all-zero golden
        under another target), else None: the limits decide.
    not_applicable
        Metrics that mean nothing for these types; their NaN is no failure.
    identical, target_all_zero, golden_all_zero
        All elements are equal; all are zero (False without elements).
    overflow
        The target overflows: a float16 magnitude of 65504 or more, NaN or Inf. None for types that cannot.
    needs_second_pass
        The divergence was asked for and is not known yet; its value is NaN until KLPass has run.
    first
        The sums behind the values, for KLPass.
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
    target_all_zero: bool = False
    golden_all_zero: bool = False
    overflow: Optional[bool] = None
    needs_second_pass: bool = False
    first: Optional[PairSums] = field(default=None, repr=False, compare=False)


class Accumulator:
    """Collects blocks of a target tensor x and a golden tensor y.

    Picklable; accumulators of separate parts of one tensor can be merged in any order.

    Parameters
    ----------
    metrics
        The metrics that are wanted; what none of them needs is not computed.
    axes
        The golden's axes along which slices are told apart (:func:`goldwatch.comparing.slices.slice_axes`), for WorstSliceDistance; without
        any the whole tensor is one slice.

    Raises
    ------
    UsageError
        A metric's name is unknown.
    """

    def __init__(self, metrics: Sequence[str] = METRICS, axes: Sequence[SliceAxis] = ()) -> None:
        unknown = [name for name in metrics if name not in MEASURES]
        if unknown:
            raise UsageError("unknown metric %s" % ", ".join(map(repr, unknown)), hint="the metrics are %s" % ", ".join(MEASURES))
        self.metrics = tuple(metrics)
        self.count = 0
        self._relative = any(name in _RELATIVE for name in metrics)
        self._spread = "StandardDeviation" in metrics
        self._slices = SliceSums(axes) if axes and WORST_SLICE in metrics else None
        self._differences: Optional[Differences] = Differences() if DIFFERENT in metrics else None
        self._sums = PairSums()
        self._odd = NonFinite()
        self._kinds: Optional[Tuple[str, str]] = None

    def update(self, x: np.ndarray, y: np.ndarray, start: int = 0, strides: Optional[Tuple[int, ...]] = None) -> None:
        """Add one block.

        Parameters
        ----------
        x, y
            Target and golden elements: arrays of one shape, any strides, any size, any real, complex or bool dtype.
        start, strides
            Where the block lies in the golden, as :class:`goldwatch.tensors.blocks.Block` tells; needed for slices and for the places of
            differing elements. Such a block has at most ``BLOCK`` real numbers.

        Raises
        ------
        NotComparable
            The shapes differ, or a dtype is not numeric.
        """
        if self._kinds is None:
            self._begin(x.dtype.char, y.dtype.char)
        where = None if strides is None else Where(x.shape, start, strides)
        if where is not None and (x.dtype.kind == "c" or y.dtype.kind == "c"):
            # Real and imaginary parts lie side by side, in one slice.
            where = Where(x.shape + (2,), start, where.strides + (0,))
        x, y = as_reals(x, y)
        self.count += x.size
        work = workspace()
        limits = load_limit(x.dtype), load_limit(y.dtype)
        with np.errstate(all="ignore"):
            for xp, yp in pieces(x, y):
                x64, y64 = load(xp, work.x, work.bits), load(yp, work.y, work.bits)
                visit = self._visitor(xp, yp, where)
                sums = fast_sums(x64, y64, limits, work, self._relative, self._spread, visit)
                if sums is None:
                    self._update_exact(xp.reshape(-1), yp.reshape(-1), where)
                else:
                    self._sums.add(sums)

    def _begin(self, x_char: str, y_char: str) -> None:
        self._kinds = (x_char, y_char)
        if x_char not in _WHOLE_TYPES or y_char in "FDG":
            self._differences = None
        if self._kinds == ("?", "?"):
            self._slices = None

    def _visitor(self, x: np.ndarray, y: np.ndarray, where: Optional[Where]) -> Optional[Visit]:
        """Return what else is to be done with a block while it is at hand."""
        slices, differences = self._slices, self._differences
        if where is None:
            slices = None
        if slices is None and differences is None:
            return None

        def visit(y64: np.ndarray, d: Optional[np.ndarray], sums: PairSums) -> None:
            work = workspace()
            if differences is not None:
                differences.add(x, y, np.zeros(0) if d is None else d, where)
            if slices is None or where is None:
                return
            if slices.may_mask(float(sums.x_low), float(sums.y_low), float(sums.y_high)):
                x64 = load(x, work.a, work.bits)
                slices.add_careful(x64, y64, np.zeros(y64.size) if d is None else d, (0, 0), where)
            else:
                slices.add(y64, d, (float(sums.y_low), float(sums.y_high)), where)

        return visit

    def _update_exact(self, x: np.ndarray, y: np.ndarray, where: Optional[Where]) -> None:
        if self._differences is not None or (self._slices is not None and where is not None):
            x64, y64, d, units, good = zero_filled(x, y)
            if self._differences is not None:
                self._differences.add(x, y, d, where)
            if self._slices is not None and where is not None:
                self._slices.add_careful(x64, y64, d, units, where, None if good.all() else good)
        x, y, odd = finite_part(x, y)
        if odd is not None:
            self._odd.add(odd)
        if x.size:
            self._sums.add(exact_sums(x, y))

    def merge(self, other: Accumulator) -> None:
        """Add what another accumulator collected from other elements of the same two tensors."""
        if self._kinds is None and other._kinds is not None:
            self._begin(*other._kinds)
        self.count += other.count
        self._sums.add(other._sums)
        self._odd.add(other._odd)
        if self._slices is not None and other._slices is not None:
            self._slices.merge(other._slices)
        if self._differences is not None and other._differences is not None:
            self._differences.merge(other._differences)

    def result(self) -> MetricResult:
        """Return the metrics of everything collected so far."""
        sums, odd = self._sums, self._odd
        notes, reasons, outcome = _remarks(self.count, sums, odd)
        values: Dict[str, Any] = {name: None if name == "StandardDeviation" else math.nan for name in MEASURES}
        if not odd.agree:
            if odd.inf_differs:
                values["MaxAbsoluteError"] = math.inf
        elif sums.n:
            values.update(_values(sums))
        worst = self._worst(values)
        whole = self._differences if self._compares_whole_numbers() else None
        if whole is not None:
            values[DIFFERENT] = whole.count / self.count
        known, divergence = known_divergence(sums)
        values[_KL] = divergence if odd.agree else math.nan
        not_applicable = [] if whole is not None else [DIFFERENT]
        if self._kinds == ("?", "?"):
            not_applicable += [name for name in (*METRICS, WORST_SLICE) if name not in BOOL_METRICS]
            reasons.append("both tensors are bool: only %s and %s are defined" % BOOL_METRICS)
        for name in not_applicable:
            values[name] = None if name == "StandardDeviation" else math.nan
        return MetricResult(
            values={name: values[name] for name in self.metrics},
            nan={"target": odd.target_nan, "golden": odd.golden_nan},
            inf={"target": odd.target_inf, "golden": odd.golden_inf},
            positions_agree=odd.agree,
            count=self.count,
            finite_count=sums.n,
            notes=notes,
            reasons=reasons,
            worst_slice=worst,
            differing=whole.count if whole is not None else 0,
            differences=tuple(whole.first) if whole is not None else (),
            nothing_finite=self.count > 0 and not sums.n and odd.agree,
            outcome=outcome,
            not_applicable=tuple(name for name in not_applicable if name in self.metrics),
            identical=odd.agree and sums.n > 0 and sums.max_ad == 0.0,
            target_all_zero=sums.n > 0 and sums.x_low == sums.x_high == 0 and not odd.total,
            golden_all_zero=sums.n > 0 and sums.y_low == sums.y_high == 0 and not odd.total,
            overflow=self._overflow(),
            needs_second_pass=_KL in self.metrics and not known and odd.agree and _KL not in not_applicable,
            first=sums,
        )

    def _worst(self, values: Dict[str, Any]) -> Optional[WorstSlice]:
        """Fill in WorstSliceDistance; return where it is."""
        values[WORST_SLICE] = values["RelativeEuclideanDistance"]
        if self._slices is None or not self._odd.agree or not self._sums.n:
            return None
        worst = self._slices.worst()
        if worst is None:
            return None
        values[WORST_SLICE] = worst.distance
        return worst if worst.distance > 0.0 else None

    def _compares_whole_numbers(self) -> bool:
        """Tell whether DifferentElements applies: integers or bools on both sides, or integers against floats that are all whole."""
        return self._differences is not None and self.count > 0 and self._odd.agree and self._differences.whole

    def _overflow(self) -> Optional[bool]:
        if self._kinds is None or self._kinds[0] not in "efdgFDG":
            return None
        if self._odd.target_nan or self._odd.target_inf:
            return True
        return self._kinds[0] == "e" and self._sums.n > 0 and max(-self._sums.x_low, self._sums.x_high) >= _HALF_MAX


class KLPass:
    """The second pass: the Kullback-Leibler divergence, over the same blocks in any order or partition.

    Parameters
    ----------
    first
        The complete first pass (all parts merged), as accumulator or as its result.
    """

    def __init__(self, first: Union[Accumulator, MetricResult]) -> None:
        self._first = first.result() if isinstance(first, Accumulator) else first
        self._sums: Optional[DivergenceSums] = None
        if self._first.needs_second_pass and self._first.first is not None:
            self._sums = DivergenceSums(self._first.first)
        self._plain = self._sums is not None and self._sums.plain
        self._finite = self._first.finite_count == self._first.count

    @property
    def needed(self) -> bool:
        """Whether any block has to be seen; without, ``result`` is complete at once."""
        return self._sums is not None

    def update(self, x: np.ndarray, y: np.ndarray) -> None:
        """Add one block, as in Accumulator.update."""
        if self._sums is None:
            return
        x, y = as_reals(x, y)
        work = workspace()
        with np.errstate(all="ignore"):
            for xp, yp in pieces(x, y):
                if self._plain and (self._finite or bool(np.isfinite(xp).all() and np.isfinite(yp).all())):
                    self._sums.add_fast(xp, yp, work)
                else:
                    self._sums.add_exact(xp.reshape(-1), yp.reshape(-1))

    def merge(self, other: KLPass) -> None:
        """Add what another second pass, made from the same first one, collected."""
        if self._sums is not None and other._sums is not None:
            self._sums.add(other._sums)

    def result(self) -> MetricResult:
        """Return the first pass's result with the divergence filled in."""
        if self._sums is None:
            return self._first
        values = dict(self._first.values)
        values[_KL] = self._sums.value()
        return dataclasses.replace(self._first, values=values, needs_second_pass=False)


def compare_blocks(make_blocks: Callable[[], Blocks], metrics: Sequence[str] = METRICS, axes: Sequence[SliceAxis] = ()) -> MetricResult:
    """Compute the metrics over blocks, reading them twice only where the divergence needs it.

    Parameters
    ----------
    make_blocks
        Called once or twice; each time it yields the same pairs (target, golden) of equally shaped arrays, for slices with their place
        behind: :class:`goldwatch.tensors.blocks.Block`. Blocks may be views of a buffer that the next block overwrites: small tensors are
        copied to spare the second reading.
    metrics, axes
        As for :class:`Accumulator`.
    """
    first = Accumulator(metrics, axes)
    kept: Optional[List[Tuple[np.ndarray, np.ndarray]]] = [] if _KL in metrics else None
    kept_bytes = 0
    for x, y, *place in make_blocks():
        if kept is not None:
            kept_bytes += x.nbytes + y.nbytes
            if kept_bytes > _KEEP_BYTES:
                kept = None
            else:
                # C order: whatever strides the block has are walked once, not in both passes.
                x, y = x.copy(), y.copy()
                kept.append((x, y))
        first.update(x, y, *place)
    result = first.result()
    second = KLPass(result)
    if not second.needed:
        return result
    for x, y, *_ in make_blocks() if kept is None else kept:
        second.update(x, y)
    return second.result()


def overflow(x: np.ndarray) -> Optional[bool]:
    """Tell whether a block of a tensor overflows: a float16 magnitude from 65504 on, or any NaN or Inf.

    Parameters
    ----------
    x
        Array of any shape and dtype.

    Returns
    -------
    None for integers and bool, which do not overflow visibly.
    """
    if x.dtype.kind not in "fc":
        return None
    if not x.size:
        return False
    if x.dtype.char == "e" and x.dtype.isnative:
        # As codes: 0x7BFF is 65504, above it are Inf and NaN; the sign bit is the highest.
        positive, negative = int(x.view(np.int16).max()), int(x.view(np.uint16).max())
        return positive >= 0x7BFF or negative >= 0xFBFF
    if x.dtype.char == "e":
        return overflow(x.astype(np.float16))
    return not bool(np.isfinite(x).all())


def _remarks(count: int, sums: PairSums, odd: NonFinite) -> Tuple[List[str], List[str], Optional[str]]:
    """Return notes, reasons and the outcome where the values do not decide."""
    if not count:
        return ["zero elements on both sides"], [], PASS
    if not odd.agree:
        text = "NaN or Inf differ between the two sides: target %d NaN, %d Inf; golden %d NaN, %d Inf"
        text %= odd.target_nan, odd.target_inf, odd.golden_nan, odd.golden_inf
        signs = " (%s)" % odd.signs() if odd.signs() else ""
        nothing = "; the golden is NaN throughout" if odd.golden_nan == count else ""
        return [], [text + signs + nothing], FAIL
    notes: List[str] = []
    reasons: List[str] = []
    outcome: Optional[str] = None
    if odd.total:
        infinities = odd.signs().split(", ")[0].replace("target", "") if odd.target_inf else ""
        signs = " (%s)" % infinities.strip() if infinities else ""
        text = "%d NaN and %d Inf%s at the same positions on both sides" % (odd.target_nan, odd.target_inf, signs)
        if not sums.n:
            notes.append("%s: no element is finite, so nothing was compared" % text)
            return notes, reasons, PASS
        notes.append("%s; the metrics are of the %d finite elements of %d" % (text, sums.n, count))
    target_zero, golden_zero = sums.x_low == sums.x_high == 0, sums.y_low == sums.y_high == 0
    if golden_zero and not target_zero:
        reasons.append(
            "the golden is all zero and the target is not: RelativeEuclideanDistance is infinite, CosineSimilarity undefined"
            " and the relative errors, 0 by their formula, say nothing"
        )
        outcome = FAIL
    elif target_zero and not golden_zero:
        reasons.append("the target is all zero and the golden is not: CosineSimilarity is undefined")
    return notes, reasons, outcome


def _values(sums: PairSums) -> Dict[str, Any]:
    """Return all metrics but the divergence."""
    n = sums.n
    identical = sums.max_ad == 0.0
    if identical:
        cosine, distance = 1.0, 0.0
    else:
        lengths = math.sqrt(sums.xx) * math.sqrt(sums.yy)
        cosine = max(-1.0, min(1.0, sums.xy / lengths)) if lengths else math.nan
        # Roots first: the quotient of the squares may leave float64's range where theirs does not.
        distance = ldexp(math.sqrt(sums.dd) / math.sqrt(sums.yy), sums.ed - sums.ey) if sums.yy else math.inf
    return {
        "CosineSimilarity": cosine,
        "MaxAbsoluteError": sums.max_ad,
        "AccumulatedRelativeError": sums.rel,
        "RelativeEuclideanDistance": distance,
        "StandardDeviation": {
            "target": {"mean": float(sums.x_base + sums.x_mean), "std": ldexp(math.sqrt(sums.x_m2 / n), sums.ex)},
            "golden": {"mean": float(sums.y_base + sums.y_mean), "std": ldexp(math.sqrt(sums.y_m2 / n), sums.ey)},
        },
        "MeanAbsoluteError": ldexp(sums.ad / n, sums.ed),
        "RootMeanSquareError": ldexp(math.sqrt(sums.dd / n), sums.ed),
        "MaxRelativeError": sums.max_rel,
        "MeanRelativeError": sums.rel / n,
    }
