"""The metrics of a target tensor and its golden tensor, as accumulators over blocks.

Formulas and corner cases: docs/reference/metrics.md. All sums are float64, whatever the tensors'
types; differences of integers are exact. The divergence needs a second pass
(:mod:`goldwatch.metrics.compare_blocks`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..base.errors import UsageError
from ..tensors.dtypes import BFLOAT16, plain_floats
from .compiled.binding import CompiledKernel, KernelSums, Table
from .compiled.choice import compiled_kernel
from .differing_elements import Differences, MaskedSums, masked_apart, may_be_masked_apart
from .exact_sums import NonFinite, exact_sums, finite_part, zero_filled
from .kullback_leibler import known_divergence
from .metric_result import (
    SPREAD,
    MetricResult,
    added_counts,
    notes_and_outcome,
    spread_of,
    values_of,
)
from .numpy_kernel import Visit, as_reals, fast_sums, load, load_limit, pieces, workspace
from .pair_sums import SAFE_BIG, SAFE_SMALL, PairSums
from .rounding_slack import NO_ROUNDING, Slack, distances_without_slack
from .row import BOOL_METRICS, DIFFERENT, MEASURES, METRICS, WORST_SLICE
from .slice_squares import NO_NEEDS, Needs, SliceAxis, Tables, Where, needs_of
from .worst_slice import SliceSums, WorstSlice

_NOTHING = np.zeros(0)


class CompiledSums(NamedTuple):
    """The sums of one pass over a block.

    Attributes
    ----------
    sums
        Of all elements.
    y, d
        The golden's elements and the magnitudes of the difference, 1-D in the block's C order, in
        this thread's work arrays; empty where nobody needs them.
    y_tables, d_tables
        Their sums of squares.
    """

    sums: PairSums
    y: np.ndarray
    d: np.ndarray
    y_tables: Tables
    d_tables: Tables


def fused_sums(
    kernel: CompiledKernel,
    x: np.ndarray,
    y: np.ndarray,
    relative: bool,
    spread: bool,
    needs: Needs = NO_NEEDS,
) -> Optional[CompiledSums]:
    """Return the sums of one pass, or None when the block needs :mod:`.exact_sums`.

    Parameters
    ----------
    x, y
        Target and golden as :func:`goldwatch.metrics.numpy_kernel.as_reals` returns them: of one
        shape, any strides, 1 to BLOCK elements.
    relative, spread
        As for :func:`goldwatch.metrics.numpy_kernel.fast_sums`.
    needs
        What the slices need; ``values`` also for whoever needs the elements themselves.
    """
    size = x.size
    rows = (np.zeros(size // needs.length), np.zeros(size // needs.length)) if needs.rows else None
    columns = (np.zeros(needs.length), np.zeros(needs.length)) if needs.columns else None
    work = workspace() if needs.values else None
    # The slices use work.d themselves.
    keep = (work.y[:size], work.x[:size]) if work is not None else None
    numbers = kernel.sums(x, y, relative, spread, Table(needs.length, rows, columns), keep)
    if numbers is None or not are_ordinary(numbers, load_limit(x.dtype), load_limit(y.dtype)):
        return None
    y_rows, d_rows = rows or (None, None)
    y_columns, d_columns = columns or (None, None)
    y_kept, d_kept = keep or (_NOTHING, _NOTHING)
    sums = _as_sums(numbers, size, spread)
    return CompiledSums(
        sums,
        y_kept,
        d_kept,
        Tables(y_rows, y_columns, numbers.yy),
        Tables(d_rows, d_columns, numbers.dd),
    )


def are_ordinary(sums: Any, x_limit: float, y_limit: float) -> Any:
    """Tell whether sums of the compiled kernel can be trusted, as
    :func:`goldwatch.metrics.numpy_kernel.fast_sums` does; of arrays of them for each.
    """
    # The smallest and the largest overlook NaN, sums of squares do not.
    x_is_zero, y_is_zero = (
        (square == 0.0) & (low == 0.0) & (high == 0.0)
        for square, low, high in (
            (sums.xx, sums.x_low, sums.x_high),
            (sums.yy, sums.y_low, sums.y_high),
        )
    )
    return (
        ((sums.xx > SAFE_SMALL) & (sums.xx < SAFE_BIG) | x_is_zero)
        & ((sums.yy > SAFE_SMALL) & (sums.yy < SAFE_BIG) | y_is_zero)
        & (-sums.x_low <= x_limit)
        & (sums.x_high <= x_limit)
        & (-sums.y_low <= y_limit)
        & (sums.y_high <= y_limit)
        & ((sums.dd > SAFE_SMALL) & (sums.dd < SAFE_BIG) | (sums.dd == 0.0) & (sums.max_ad == 0.0))
    )


def _as_sums(numbers: KernelSums, size: int, spread: bool) -> PairSums:
    sums = PairSums()
    sums.n = size
    sums.x_low, sums.x_high, sums.y_low, sums.y_high = numbers[:4]
    sums.xx, sums.yy, sums.xy, sums.dd, sums.ad, sums.max_ad, sums.rel, sums.max_rel = numbers[4:12]
    if spread:
        sums.x_base, sums.x_mean, sums.x_m2 = _spread(numbers[12:15], sums.x_low, sums.x_high)
        sums.y_base, sums.y_mean, sums.y_m2 = _spread(numbers[15:18], sums.y_low, sums.y_high)
    return sums


def _spread(moments: Tuple[float, ...], low: float, high: float) -> Tuple[float, ...]:
    # The sums of equal elements are rounded; their mean and variance are not.
    return (low, 0.0, 0.0) if low == high else moments


DIVERGENCE = "KullbackLeiblerDivergence"
_RELATIVE = ("AccumulatedRelativeError", "MaxRelativeError", "MeanRelativeError")
_WHOLE_TYPES = "?bBhHiIlLqQpP"
_COMPLEX_TYPES = "FDG"
# The largest number of float16.
HALF_MAX = 65504.0
_NO_VALUES: Dict[str, Any] = {
    name: None if name == "StandardDeviation" else math.nan for name in MEASURES
}
_NOT_OF_BOOLS = [name for name in MEASURES if name not in BOOL_METRICS]
_BOOLS_ONLY = "both tensors are bool: only %s are defined" % " and ".join(
    name for name in METRICS if name in BOOL_METRICS
)


def _char(values: np.ndarray) -> str:
    return "f" if values.dtype == BFLOAT16 else values.dtype.char


@lru_cache(maxsize=64)
def needed_parts(metrics: Tuple[str, ...]) -> Tuple[bool, bool]:
    """Tell whether any of the metrics needs the relative errors, and the variances; UsageError
    where one is unknown.
    """
    unknown = [name for name in metrics if name not in MEASURES]
    if unknown:
        raise UsageError(
            "unknown metric %s" % ", ".join(map(repr, unknown)),
            hint="the metrics are %s" % ", ".join(MEASURES),
        )
    return any(name in _RELATIVE for name in metrics), "StandardDeviation" in metrics


class Accumulator:
    """Collects blocks of a target tensor x and a golden tensor y.

    Picklable; accumulators of separate parts of one tensor can be merged in any order.

    Parameters
    ----------
    metrics
        The metrics that are wanted; what none of them needs is not computed.
    axes
        The golden's axes along which slices are told apart
        (:func:`goldwatch.metrics.worst_slice.slice_axes`), for WorstSliceDistance; without any the
        whole tensor is one slice.
    slack
        What rounding alone may change.
    sampled
        The blocks are a sample of the tensor.

    Raises
    ------
    UsageError
        A metric's name is unknown.
    """

    def __init__(
        self,
        metrics: Sequence[str] = METRICS,
        axes: Sequence[SliceAxis] = (),
        slack: Slack = NO_ROUNDING,
        sampled: bool = False,
    ) -> None:
        self.metrics = tuple(metrics)
        self._relative, self._spread = needed_parts(self.metrics)
        self.count = 0
        self._slices = SliceSums(axes) if axes and WORST_SLICE in metrics else None
        self._differences: Optional[Differences] = (
            Differences(slack.dtype) if DIFFERENT in metrics else None
        )
        self._slack = slack.distance
        self._sampled = sampled
        self._masked = MaskedSums()
        self._sums = PairSums()
        self._odd = NonFinite()
        self._kinds: Optional[Tuple[str, str]] = None

    def update(
        self,
        x: np.ndarray,
        y: np.ndarray,
        start: int = 0,
        strides: Optional[Tuple[int, ...]] = None,
    ) -> None:
        """Add one block.

        Parameters
        ----------
        x, y
            Target and golden elements: arrays of one shape, any strides, any size, any real,
            complex or bool dtype, or :data:`goldwatch.tensors.dtypes.BFLOAT16`.
        start, strides
            Where the block lies in the golden, as :class:`goldwatch.tensors.aligned_blocks.Block`
            tells; needed for slices and for the places of differing elements. Such a block has at
            most ``BLOCK`` real numbers.

        Raises
        ------
        NotComparable
            The shapes differ, or a dtype is not numeric.
        """
        if self._kinds is None:
            self._begin(_char(x), _char(y))
        where = None if strides is None else Where(x.shape, start, strides)
        if where is not None and (x.dtype.kind == "c" or y.dtype.kind == "c"):
            # Real and imaginary parts lie side by side, in one slice.
            where = Where(x.shape + (2,), start, where.strides + (0,))
        x, y = as_reals(x, y)
        self.count += x.size
        kernel = compiled_kernel()
        for xp, yp in pieces(x, y):
            if kernel is None or not self._add_compiled(kernel, xp, yp, where):
                with np.errstate(all="ignore"):
                    self._add_by_numpy(xp, yp, where)

    def _add_compiled(
        self, kernel: CompiledKernel, x: np.ndarray, y: np.ndarray, where: Optional[Where]
    ) -> bool:
        """Add one piece by the compiled kernel; False where that does not do, then nothing is
        added.
        """
        slices = None if where is None else self._slices
        needs = NO_NEEDS if slices is None or where is None else needs_of(slices.axes, where)
        if self._differences is not None:
            needs = needs._replace(values=True)
        compiled_sums = fused_sums(kernel, x, y, self._relative, self._spread, needs)
        if compiled_sums is None:
            return False
        sums = compiled_sums.sums
        x_low, y_low, y_high = float(sums.x_low), float(sums.y_low), float(sums.y_high)
        if may_be_masked_apart(sums) or (
            slices is not None and slices.may_mask(x_low, y_low, y_high)
        ):
            return False
        if self._differences is not None:
            self._differences.add(plain_floats(x), plain_floats(y), compiled_sums.d, where)
        if slices is not None and where is not None:
            slices.add(
                compiled_sums.y,
                compiled_sums.d if sums.max_ad else None,
                (y_low, y_high),
                where,
                (compiled_sums.y_tables, compiled_sums.d_tables),
            )
        self._take(sums)
        return True

    def _take(self, sums: PairSums) -> None:
        """Add the sums of one piece, which is not used afterwards."""
        if self._sums.n:
            self._sums.add(sums)
        else:
            self._sums = sums

    def _add_by_numpy(self, x: np.ndarray, y: np.ndarray, where: Optional[Where]) -> None:
        x, y = plain_floats(x), plain_floats(y)
        work = workspace()
        x64, y64 = load(x, work.x, work.bits), load(y, work.y, work.bits)
        limits = load_limit(x.dtype), load_limit(y.dtype)
        sums = fast_sums(
            x64, y64, limits, work, self._relative, self._spread, self._visitor(x, y, where)
        )
        if sums is None:
            self._update_exact(x.reshape(-1), y.reshape(-1), where)
        elif may_be_masked_apart(sums):
            self._add_exact(x.reshape(-1), y.reshape(-1))
        else:
            self._take(sums)

    def _begin(self, x_char: str, y_char: str) -> None:
        self._kinds = (x_char, y_char)
        whole = x_char in _WHOLE_TYPES or y_char in _WHOLE_TYPES
        if not whole or x_char in _COMPLEX_TYPES or y_char in _COMPLEX_TYPES:
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
        self._add_exact(x, y)

    def _add_exact(self, x: np.ndarray, y: np.ndarray) -> None:
        masked = masked_apart(x, y)
        if masked.any():
            self._masked.add(x[masked], y[masked])
            x, y = x[~masked], y[~masked]
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
        self._masked.merge(other._masked)
        if self._slices is not None and other._slices is not None:
            self._slices.merge(other._slices)
        if self._differences is not None and other._differences is not None:
            self._differences.merge(other._differences)

    def result(self) -> MetricResult:
        """Return the metrics of everything collected so far."""
        sums, odd = self._sums, self._odd
        counted = added_counts(odd, self._masked.odd) if self._masked.count else odd
        masks = self._masked.are_masks(sums)
        if self._masked.count and not masks:
            sums, odd = sums.plus(self._masked.sums), counted
        notes, reasons, outcome = notes_and_outcome(
            self.count, sums, odd, self._masked.sentence() if masks else ""
        )
        whole = self._differences if self._compares_whole_numbers() else None
        values = self._values(sums, odd, whole)
        worst = self._worst(values, sums, odd, masks)
        judged, nearer = self._judged(sums, odd, masks)
        is_known, divergence = known_divergence(sums)
        values[DIVERGENCE] = divergence if odd.agree else math.nan
        not_applicable = [] if whole is not None else [DIFFERENT]
        if self._kinds == ("?", "?"):
            not_applicable += _NOT_OF_BOOLS
            reasons.append(_BOOLS_ONLY)
        for name in not_applicable:
            values[name] = _NO_VALUES[name]
        return MetricResult(
            values={name: values[name] for name in self.metrics},
            nan={"target": counted.target_nan, "golden": counted.golden_nan},
            inf={"target": counted.target_inf, "golden": counted.golden_inf},
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
            overflow=self._overflow(sums, counted, masks),
            needs_second_pass=DIVERGENCE in self.metrics
            and not is_known
            and odd.agree
            and DIVERGENCE not in not_applicable,
            first=sums,
            judged={name: value for name, value in judged.items() if name in self.metrics},
            beyond_chance=None if worst is None else (nearer or worst).beyond_chance,
            masks_left_out=masks,
            unmasked_distance=self._slices.unmasked_distance(masks)
            if self._slices is not None and odd.agree and sums.n
            else None,
        )

    def _values(
        self, sums: PairSums, odd: NonFinite, whole: Optional[Differences]
    ) -> Dict[str, Any]:
        """Return the metrics that follow from the sums, and from the differing whole numbers."""
        values = dict(_NO_VALUES)
        if not odd.agree:
            if odd.inf_differs:
                values["MaxAbsoluteError"] = math.inf
        elif sums.n:
            for name, value in values_of(sums).items():
                values[name] = spread_of(*value) if name == SPREAD else float(value)
        if whole is not None:
            values[DIFFERENT] = whole.count / self.count
        return values

    def _worst(
        self, values: Dict[str, Any], sums: PairSums, odd: NonFinite, masks: bool
    ) -> Optional[WorstSlice]:
        """Fill in WorstSliceDistance; return where it is."""
        values[WORST_SLICE] = values["RelativeEuclideanDistance"]
        if self._slices is None or not odd.agree or not sums.n:
            return None
        worst = self._slices.worst(sums.n, masks, sampled=self._sampled)
        if worst is None:
            return None
        values[WORST_SLICE] = worst.distance
        return worst if worst.distance > 0.0 else None

    def _judged(
        self, sums: PairSums, odd: NonFinite, masks: bool
    ) -> Tuple[Dict[str, float], Optional[WorstSlice]]:
        """Return the distances without what rounding near zero explains, empty where that is next
        to nothing, and the worst slice then.
        """
        distances = distances_without_slack(sums, self._slack) if odd.agree and sums.n else {}
        if not distances:
            return {}, None
        worst = (
            None
            if self._slices is None
            else self._slices.worst(sums.n, masks, self._slack, self._sampled)
        )
        distances[WORST_SLICE] = (
            distances["RelativeEuclideanDistance"] if worst is None else worst.distance
        )
        return distances, worst

    def _compares_whole_numbers(self) -> bool:
        """Tell whether DifferentElements applies: integers or bools on both sides, or integers
        against floats that are all whole.
        """
        return (
            self._differences is not None
            and self.count > 0
            and self._odd.agree
            and self._differences.whole
        )

    def _overflow(self, sums: PairSums, odd: NonFinite, masks: bool) -> Optional[bool]:
        if self._kinds is None or self._kinds[0] not in "efdgFDG":
            return None
        if odd.target_nan or odd.target_inf:
            return True
        if masks:
            sums = sums.plus(self._masked.sums)
        return self._kinds[0] == "e" and sums.n > 0 and max(-sums.x_low, sums.x_high) >= HALF_MAX


def overflow(x: np.ndarray) -> Optional[bool]:
    """Tell whether a block of a tensor overflows: a float16 magnitude from 65504 on, or any NaN or
    Inf.

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
