"""Two arrays in memory, compared and judged like a tensor of a run."""

from __future__ import annotations

import os
import warnings
from dataclasses import field
from math import isnan, nan
from typing import (
    Any,
    Collection,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from ...base.errors import InputError, TypeNotComparable, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import nearest_names
from ...dumps.golden_set import GoldenEntry
from ...metrics.compare_pair import compare_tensors
from ...metrics.differing_elements import masked_apart
from ...metrics.pair_task import PairTask, Settings
from ...metrics.row import (
    DIFFERENT,
    MASKED,
    MEASURES,
    METRICS,
    NOT_COMPARED,
    PASS,
    WORST_SLICE,
    Row,
)
from ...tensors.dtypes import (
    BFLOAT16,
    DType,
    dtype_by_name,
    dtype_by_numpy,
    plain_floats,
    require_decodable,
)
from ...tensors.tensor import MemorySource, Tensor
from ..limits import Limits, fault_of, limits_with, named_limits, parse_limits
from ..metric_text import metric_number, short_text
from ..row_judge import RowJudge

# Elements that are float64 at once: 8 MiB of each side.
_PIECE = 1 << 20


def worst_element(target: np.ndarray, golden: np.ndarray, masked: bool = False) -> Optional[str]:
    """Return in words where two arrays differ most: the first place where only one is NaN or that
    Inf, else the largest difference.

    Parameters
    ----------
    target, golden
        Of real or complex numbers, the same size, any shape; read in pieces of 1 Mi elements in the
        order of the indices.
    masked
        Pass over elements that are masked on both sides by different numbers.

    Returns
    -------
    str or None
        Its index in the golden and both values; None where nothing differs.
    """
    worst, worst_at = 0.0, -1
    for first, x, y in _pieces(target, golden):
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(x - y)
        finite = np.isfinite(x) & np.isfinite(y)
        counted = ~masked_apart(x, y) if masked else np.ones(x.size, np.bool_)
        nonfinite = np.flatnonzero(counted & ~finite & (x != y) & ~(np.isnan(x) & np.isnan(y)))
        if nonfinite.size:
            return "the first NaN or Inf that differs is at " + _both_values(
                target, golden, first + int(nonfinite[0])
            )
        distance[~(finite & counted)] = 0
        index = int(distance.argmax()) if distance.size else 0
        if distance.size and distance[index] > worst:
            worst, worst_at = float(distance[index]), first + index
    return (
        None
        if worst_at < 0
        else "the largest difference is at " + _both_values(target, golden, worst_at)
    )


def _pieces(target: np.ndarray, golden: np.ndarray) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
    for first in range(0, golden.size, _PIECE):
        yield (
            first,
            _wide(target.flat[first : first + _PIECE]),
            _wide(golden.flat[first : first + _PIECE]),
        )


def _wide(values: np.ndarray) -> np.ndarray:
    values = plain_floats(values)
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _both_values(target: np.ndarray, golden: np.ndarray, at: int) -> str:
    index = [int(number) for number in np.unravel_index(at, golden.shape)]
    return "%s: target %s, golden %s" % (index, target.flat[at], golden.flat[at])


_HINTS = {
    "Tensor": "its method array() gives the numbers",
    "PosixPath": "numpy.load reads a .npy file",
}
_IN_MEMORY = GoldenEntry("", "", "", 0, 0, "npy")

LimitsLike = Union[None, str, Limits, Mapping[str, Any], Sequence[str]]


@dataclass(frozen=True)
class TensorResult:
    """The result of comparing two arrays.

    Attributes
    ----------
    verdict
        ``pass``, ``fail``, or ``not_compared`` where shapes do not allow it.
    reason
        Why: what is outside its limit, where the arrays differ, and remarks; may be empty.
    reason_codes
        Codes of parts of the reason, joined by ``; ``, as rows of result.json have them.
    metrics
        Metric name to float, NaN where there is no result. StandardDeviation is
        ``{"target": {"mean", "std"}, "golden": {"mean", "std"}}``, None where there is no result.
    worst_slice
        ``{"axis", "index"}`` of the slice with the largest distance; None where nothing differs or
        there is one slice only.
    decided_by
        The limits that decided, joined by ``; ``.
    nan, inf
        ``{"target": count, "golden": count}``; None when not compared.
    warning
        Empty, or ``nothing_finite`` for arrays without a finite element, of which a pass says
        nothing.
    shape
        The golden's.
    target_dtype, golden_dtype
        Names of the element types.
    """

    verdict: str
    reason: str
    reason_codes: str = ""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    worst_slice: Optional[Dict[str, int]] = None
    decided_by: str = ""
    nan: Optional[Dict[str, int]] = None
    inf: Optional[Dict[str, int]] = None
    warning: str = ""
    shape: Tuple[int, ...] = ()
    target_dtype: str = ""
    golden_dtype: str = ""

    @property
    def passed(self) -> bool:
        """Whether the verdict is ``pass``."""
        return self.verdict == PASS


def compare_arrays(
    target: Any,
    golden: Any,
    *,
    limits: LimitsLike = None,
    metrics: Union[None, str, Sequence[str]] = None,
) -> TensorResult:
    """Compare two arrays and judge them.

    Parameters
    ----------
    target, golden
        Arrays of any shape and numeric dtype, numpy's own or bfloat16 and the 8-bit floats of other
        packages; memory maps in C order are read in pieces, lists of equal length are made arrays.
        Shapes must agree but for dims of size 1.
    limits
        What is allowed: ``None`` or ``"default"``, ``"vendor"``, a text or texts such as
        ``"RelativeEuclideanDistance<0.01"`` that change the default limits, a mapping of the form
        of a limits file, or :class:`goldwatch.judging.limits.Limits`.
    metrics
        Names of the metrics (or one name) that are computed_metrics besides those with limits, []
        for those alone; None: the ten of the documented table.

    Returns
    -------
    TensorResult

    Raises
    ------
    UsageError
        A limit or the name of a metric is none.
    InputError
        A mapping of limits has another form; a side is no array of numbers (of text, times, long
        doubles …), or a masked one.
    """
    table = as_limits(limits)
    shown = (
        METRICS if metrics is None else _checked([metrics] if isinstance(metrics, str) else metrics)
    )
    target, golden = _array(target, "target"), _array(golden, "golden")
    computed_metrics = tuple(name for name in MEASURES if name in shown or name in table.metrics)
    task = PairTask(
        Row(index=0, op="", op_type="", tensor="", kind="output", verdict=PASS),
        _tensor(target),
        _IN_MEMORY,
    )
    row = compare_tensors(
        task, _tensor(golden), None, Settings(computed_metrics, False, RowJudge(table))
    )
    return TensorResult(
        verdict=row.verdict,
        reason=row.reason,
        reason_codes=row.reason_codes,
        metrics=row.metrics,
        worst_slice=None
        if row.worst_slice is None
        else dict(zip(("axis", "index"), row.worst_slice)),
        decided_by=row.decided_by,
        nan=row.nan,
        inf=row.inf,
        warning=row.warning,
        shape=tuple(np.shape(golden)),
        target_dtype=row.target_dtype or "",
        golden_dtype=row.golden_dtype or "",
    )


def assert_close(target: Any, golden: Any, *, limits: LimitsLike = None) -> None:
    """Raise AssertionError, with a message that tells what is wrong where, unless two arrays are
    within the limits.

    Parameters
    ----------
    target, golden, limits
        As for :func:`compare_arrays`.

    Raises
    ------
    AssertionError
        A limit is missed, the shapes do not fit, or no element of them is finite.
    UsageError, InputError
        As :func:`compare_arrays`.
    """
    __tracebackhide__ = True
    target, golden = _array(target, "target"), _array(golden, "golden")
    result = compare_arrays(
        target, golden, limits=limits, metrics=("CosineSimilarity", "MaxAbsoluteError", WORST_SLICE)
    )
    if result.passed and not result.warning:
        return
    sides = result.target_dtype, list(target.shape), result.golden_dtype, list(result.shape)
    lines = ["target %s %s is not close to golden %s %s" % sides]
    lines.append("  " + result.reason)
    if result.verdict != NOT_COMPARED:
        # Of integers the reason tells the first that differs.
        masked = MASKED in result.reason_codes.split("; ")
        worst = (
            worst_element(target, golden, masked)
            if isnan(result.metrics.get(DIFFERENT, nan))
            else None
        )
        lines += ["  " + str(worst)] * bool(worst)
        numbers = [(name, metric_number(value)) for name, value in result.metrics.items()]
        shown = ["%s %s" % (name, short_text(value)) for name, value in numbers if value == value]
        lines += ["  " + ", ".join(shown)] * bool(shown)
    raise AssertionError("\n".join(lines))


def as_limits(limits: LimitsLike, others: Collection[str] = ()) -> Limits:
    """Return the limits that the argument of :func:`compare_arrays` stands for; raises as that
    does. ``others``: the user's own metrics.
    """
    if isinstance(limits, Limits):
        for limit in limits.entries:
            fault = fault_of(limit)
            if fault is not None:
                raise UsageError("limits: %s: %s" % (limit, fault.message), hint=fault.hint)
        return limits
    if isinstance(limits, (bytes, os.PathLike)) or (
        isinstance(limits, str) and limits.endswith((".json", ".yaml", ".yml"))
    ):
        hint = (
            "pass what a limits file holds: limits=json.loads(pathlib.Path(%r).read_text())"
            % os.fsdecode(limits)
        )
        raise UsageError(
            "limits: %r is a path; a mapping, texts, a name or goldwatch.Limits were expected"
            % (limits,),
            hint=hint,
        )
    if isinstance(limits, str) and any(sign in limits for sign in "<>="):
        limits = [limits]
    if limits is None or isinstance(limits, str):
        return named_limits(limits or "default")
    if isinstance(limits, Mapping):
        return limits_with(limits, others)
    texts = list(limits) if isinstance(limits, Iterable) else [limits]
    if not all(isinstance(text, str) for text in texts):
        hint = "or a mapping as a limits file holds it, 'default', 'vendor' or goldwatch.Limits"
        raise UsageError(
            "limits: texts such as 'RelativeEuclideanDistance<0.01' were expected, got %r"
            % (limits,),
            hint=hint,
        )
    return parse_limits(texts, others=others)


def _checked(metrics: Sequence[str]) -> Tuple[str, ...]:
    if not isinstance(metrics, Iterable):
        raise UsageError(
            "metrics: names of metrics were expected, got %r" % (metrics,),
            hint="metrics: " + ", ".join(MEASURES),
        )
    names = tuple(metrics)
    for name in names:
        if name not in MEASURES:
            near = nearest_names(str(name), MEASURES, 1, 0.4)
            hint = "did you mean %s?" % near[0] if near else "metrics: " + ", ".join(MEASURES)
            raise UsageError("unknown metric %r" % (name,), hint=hint)
    return names


# One check after the other, each with its own message.
def _array(values: Any, side: str) -> np.ndarray:
    """Return one side as an array; InputError where it is none that can be compared."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        text = "%s: %d of %d elements are masked" % (
            side,
            int(np.ma.getmaskarray(values).sum()),
            values.size,
        )
        raise InputError(
            text,
            hint="leave them out on both sides (array[~mask]), or fill both alike "
            "(array.filled(0))",
        )
    if values is None or isinstance(values, (str, bytes)):
        raise InputError(
            "%s: an array was expected, got %r" % (side, values),
            hint="numpy.load reads a .npy file",
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getattr(np, "VisibleDeprecationWarning", Warning))
            array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError, Warning) as error:
        # What an array of another package says (a tensor on a GPU, one that requires a gradient)
        # tells what to do.
        hint = (
            "all rows must be of one length"
            if isinstance(values, (list, tuple))
            else "give a numpy array of its values"
        )
        raise InputError("%s: no array can be made of it: %s" % (side, error), hint=hint) from None
    if array.dtype.names:
        hint = "compare one field: array[%r]" % array.dtype.names[0]
        raise InputError(
            "%s: an array of records holds several numbers per element" % side, hint=hint
        )
    if array.dtype == object:
        if array.ndim:
            text, hint = (
                "an array of Python objects holds no numbers that can be compared",
                "array.astype(numpy.float32)",
            )
        else:
            kind = type(values).__name__
            text, hint = (
                "an array was expected, got a %s" % kind,
                _HINTS.get(kind, "give a numpy array or a list of numbers"),
            )
        raise InputError("%s: %s" % (side, text), hint=hint)
    try:
        require_decodable(_dtype(array))
    except TypeNotComparable as error:
        wide = {"f": "array.astype(numpy.float64)", "c": "array.astype(numpy.complex128)"}.get(
            array.dtype.kind, "give an array of numbers"
        )
        raise InputError("%s: %s" % (side, error.message), hint=wide) from None
    return array


def _tensor(data: np.ndarray) -> Tensor:
    return Tensor(_dtype(data), tuple(data.shape), "ND", MemorySource(data))


def _dtype(data: np.ndarray) -> DType:
    dtype = dtype_by_numpy(data.dtype)
    # Two bytes without a name are bfloat16, as in npy files.
    named = (
        None
        if dtype.decodable
        else dtype_by_name("bfloat16" if data.dtype == BFLOAT16 else dtype.name)
    )
    if named is not None and named.decodable and named.bits == 8 * data.dtype.itemsize:
        # bfloat16 and its like, which numpy knows only by another package.
        return named
    return dtype
