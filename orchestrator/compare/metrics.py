"""The ten metrics of a target tensor and its golden tensor, as accumulators over blocks.

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
from .exact import NonFinite, exact_sums, finite_part
from .kernel import as_reals, fast_sums, load, load_limit, pieces, workspace
from .kullback_leibler import DivergenceSums, known_divergence
from .row import FAIL, METRICS, PASS
from .sums import PairSums, ldexp

Blocks = Iterable[Tuple[np.ndarray, np.ndarray]]

BOOL_METRICS = ("CosineSimilarity", "RelativeEuclideanDistance")
"""The metrics that mean something between two bool tensors."""

_KL = "KullbackLeiblerDivergence"
_RELATIVE = ("AccumulatedRelativeError", "MaxRelativeError", "MeanRelativeError")
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
        The metrics that are wanted; the relative errors cost extra.

    Raises
    ------
    UsageError
        A metric's name is unknown.
    """

    def __init__(self, metrics: Sequence[str] = METRICS) -> None:
        unknown = [name for name in metrics if name not in METRICS]
        if unknown:
            raise UsageError("unknown metric %s" % ", ".join(map(repr, unknown)), hint="the metrics are %s" % ", ".join(METRICS))
        self.metrics = tuple(metrics)
        self.count = 0
        self._relative = any(name in _RELATIVE for name in metrics)
        self._sums = PairSums()
        self._odd = NonFinite()
        self._kinds: Optional[Tuple[str, str]] = None

    def update(self, x: np.ndarray, y: np.ndarray) -> None:
        """Add one block.

        Parameters
        ----------
        x, y
            Target and golden elements: arrays of one shape, any strides, any size, any real, complex or bool dtype.

        Raises
        ------
        NotComparable
            The shapes differ, or a dtype is not numeric.
        """
        if self._kinds is None:
            self._kinds = (x.dtype.char, y.dtype.char)
        x, y = as_reals(x, y)
        self.count += x.size
        work = workspace()
        x_limit, y_limit = load_limit(x.dtype), load_limit(y.dtype)
        with np.errstate(all="ignore"):
            for xp, yp in pieces(x, y):
                x64, y64 = load(xp, work.x, work.bits), load(yp, work.y, work.bits)
                sums = fast_sums(x64, y64, x_limit, y_limit, self._relative, work)
                if sums is None:
                    self._update_exact(xp.reshape(-1), yp.reshape(-1))
                else:
                    self._sums.add(sums)

    def _update_exact(self, x: np.ndarray, y: np.ndarray) -> None:
        x, y, odd = finite_part(x, y)
        if odd is not None:
            self._odd.add(odd)
        if x.size:
            self._sums.add(exact_sums(x, y))

    def merge(self, other: Accumulator) -> None:
        """Add what another accumulator collected from other elements of the same two tensors."""
        if self._kinds is None:
            self._kinds = other._kinds
        self.count += other.count
        self._sums.add(other._sums)
        self._odd.add(other._odd)

    def result(self) -> MetricResult:
        """Return the metrics of everything collected so far."""
        sums, odd = self._sums, self._odd
        notes, reasons, outcome = _remarks(self.count, sums, odd)
        values: Dict[str, Any] = {name: None if name == "StandardDeviation" else math.nan for name in METRICS}
        if not odd.agree:
            if odd.inf_differs:
                values["MaxAbsoluteError"] = math.inf
        elif sums.n:
            values.update(_values(sums))
        known, divergence = known_divergence(sums)
        values[_KL] = divergence if odd.agree else math.nan
        not_applicable: Tuple[str, ...] = ()
        if self._kinds == ("?", "?"):
            not_applicable = tuple(name for name in METRICS if name not in BOOL_METRICS)
            for name in not_applicable:
                values[name] = None if name == "StandardDeviation" else math.nan
            reasons.append("both tensors are bool: only %s and %s are defined" % BOOL_METRICS)
        return MetricResult(
            values={name: values[name] for name in self.metrics},
            nan={"target": odd.target_nan, "golden": odd.golden_nan},
            inf={"target": odd.target_inf, "golden": odd.golden_inf},
            positions_agree=odd.agree,
            count=self.count,
            finite_count=sums.n,
            notes=notes,
            reasons=reasons,
            outcome=outcome,
            not_applicable=tuple(name for name in not_applicable if name in self.metrics),
            identical=odd.agree and sums.n > 0 and sums.max_ad == 0.0,
            target_all_zero=sums.n > 0 and sums.x_low == sums.x_high == 0 and not odd.total,
            golden_all_zero=sums.n > 0 and sums.y_low == sums.y_high == 0 and not odd.total,
            overflow=self._overflow(),
            needs_second_pass=_KL in self.metrics and not known and odd.agree and not not_applicable,
            first=sums,
        )

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


def compare_blocks(make_blocks: Callable[[], Blocks], metrics: Sequence[str] = METRICS) -> MetricResult:
    """Compute the metrics over blocks, reading them twice only where the divergence needs it.

    Parameters
    ----------
    make_blocks
        Called once or twice; each time it yields the same pairs (target, golden) of equally shaped arrays. Blocks may
        be views of a buffer that the next block overwrites: small tensors are copied to spare the second reading.
    metrics
        The metrics that are wanted.
    """
    first = Accumulator(metrics)
    kept: Optional[List[Tuple[np.ndarray, np.ndarray]]] = [] if _KL in metrics else None
    kept_bytes = 0
    for x, y in make_blocks():
        if kept is not None:
            kept_bytes += x.nbytes + y.nbytes
            if kept_bytes > _KEEP_BYTES:
                kept = None
            else:
                # C order: whatever strides the block has are walked once, not in both passes.
                x, y = x.copy(), y.copy()
                kept.append((x, y))
        first.update(x, y)
    result = first.result()
    second = KLPass(result)
    if not second.needed:
        return result
    for x, y in make_blocks() if kept is None else kept:
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
        return [], [text % (odd.target_nan, odd.target_inf, odd.golden_nan, odd.golden_inf)], FAIL
    notes: List[str] = []
    reasons: List[str] = []
    outcome: Optional[str] = None
    if odd.total:
        text = "%d NaN and %d Inf at the same positions on both sides; the metrics are of the %d finite elements of %d"
        notes.append(text % (odd.target_nan, odd.target_inf, sums.n, count))
        if not sums.n:
            return notes, reasons, PASS
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
