"""Judges a row by the measurement of its pair; other rows may change the verdict
(:mod:`.by_other_rows`).
"""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from functools import lru_cache
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    FrozenSet,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ..base.element_types import element_count
from ..base.fast_dataclasses import dataclass
from ..dumps import tensor_statistics as statistics
from ..metrics.differing_elements import sentence
from ..metrics.metric_result import DISTANCE
from ..metrics.overwriting_and_cancellation import CANCELLED, OVERWRITTEN, may_cancel
from ..metrics.pair_task import Measurement
from ..metrics.rounding_slack import slack_text
from ..metrics.row import (
    BOOL_METRICS,
    CANCELS_INPUTS,
    DIFFERENT,
    ELEMENTS_DIFFER,
    EXPECTED_ABSENT,
    FAIL,
    MASKED,
    MEASURES,
    PASS,
    WORST_SLICE,
    Row,
)
from ..metrics.worst_slice import BY_CHANCE, MUCH_LARGER
from .limits import ANY, COMPARISONS, DEFAULTS, Limit, Limits, Subject, for_statistics
from .metric_text import beside_limit, metric_number

# Ops whose output is a decision: a difference of their inputs by rounding alone may turn into
# another answer.
_DECIDING = frozenset(
    """
    ArgMax ArgMaxV2 ArgMaxD ArgMaxWithK ArgMaxWithValue ArgMin ArgMinV2 ArgMinD ArgMinWithValue
    TopK TopKV2 TopKD TopKPQDistance InTopK InTopKD Sort SortV2 Argsort Unique UniqueV2
    UniqueWithCounts Multinomial NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3
    NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionV6 NMSWithMask
    BatchMultiClassNonMaxSuppression RotatedNMS DecodeBboxV2 ProposalD Proposal RpnProposals
    YoloV3DetectionOutput SSDDetectionOutput FSRDetectionOutput Equal NotEqual Greater
    GreaterEqual Less LessEqual ApproximateEqual IsClose Round Rint Floor Ceil Trunc Sign FloorDiv
    FloorMod Mod TruncateDiv TruncateMod Bucketize SearchSorted OneHot LogicalAnd LogicalOr
    LogicalNot LogicalXor Where NonZero AscendQuant AscendQuantV2 Quantize
    QuantizeV2
    """.lower().split()
)
_ROUNDING = frozenset("round rint floor ceil trunc floordiv truncatediv sign".split())
_CASTS = frozenset(("cast", "castd", "todtype"))
_WHOLE = ("int", "uint", "bool")


def rounds_to_whole(op_type: str) -> bool:
    """Tell whether all that an op puts out is whole numbers, as floats too: one that differs was
    rounded to another.
    """
    return op_type.lower() in _ROUNDING


def decides(op_type: str, output_dtype: Optional[str] = None) -> bool:
    """Tell whether an op decides: ArgMax, TopK, NMS, comparisons, rounding, and casts to integers
    or bool.

    Parameters
    ----------
    op_type
        In any case.
    output_dtype
        Name as in the DataType column; only for casts.
    """
    name = op_type.lower()
    return name in _DECIDING or (
        name in _CASTS and output_dtype is not None and output_dtype.startswith(_WHOLE)
    )


_DECIDES = (
    ", but %s decides: inputs that differ by rounding may change what it gives out, which "
    "statistics do not tell"
)


class _Outcome(NamedTuple):
    """A verdict with what is outside its limit, the limits that decided, remarks, and the code of
    one.
    """

    verdict: str
    outside: str = ""
    decided_by: str = ""
    remarks: Sequence[str] = ()
    code: str = ""


@dataclass(frozen=True)
class RowJudge:
    """Judges rows as they are made; picklable.

    Attributes
    ----------
    limits
        What is allowed.
    """

    limits: Limits

    def __call__(self, measured: Measurement) -> Row:
        """Return the finished row of a pair that could be compared."""
        row, result = measured.row, measured.result
        verdict, outside, decided_by, remarks, code = self._decided(measured)
        remarks = [*remarks, *_behind_a_cast(row.target_dtype, measured.limited_as, decided_by)]
        places = _places(measured, decided_by if verdict == FAIL else "")
        reasons = [
            outside,
            *places,
            *result.reasons,
            row.reason,
            *result.notes,
            *measured.notes,
            *remarks,
        ]
        differ = ""
        if result.differing:
            first = zlib.crc32(repr(result.differences).encode())
            differ = "%s=%d:%08x" % (ELEMENTS_DIFFER, result.differing, first)
        codes = (differ, row.reason_codes, MASKED if result.masks_left_out else "", code)
        return row.but(
            verdict=verdict,
            reason="; ".join(filter(None, reasons)),
            reason_codes="; ".join(filter(None, codes)) if any(codes) else "",
            decided_by=decided_by,
        )

    def passing(
        self,
        values: Mapping[str, Any],
        rows: Sequence[Row],
        dtype: str,
        limited_as: str,
    ) -> List[Optional[Tuple[str, str]]]:
        """Return the limits that were looked at, and a remark, of each pair that passes."""
        behind = limited_as if limited_as != dtype else ""
        judged: Dict[Tuple[Limit, ...], List[Optional[Tuple[str, str]]]] = {}
        passing = []
        for at, row in enumerate(rows):
            limits = self.limits.for_subject(Subject(dtype, row.op_type, row.op, behind))
            if limits not in judged:
                met, decided_by = all_met(limits, values)
                remark = "; ".join(_behind_a_cast(dtype, limited_as, decided_by))
                judged[limits] = [(decided_by, remark) if one else None for one in met.tolist()]
            passing.append(judged[limits][at])
        return passing

    def of_input(self, planned: Row, row: Row, overwritten: Callable[[], bool]) -> Row:
        """Return the row of an input that fails and holds what the op wrote as one that has no
        counterpart; any other as it is.
        """
        if row.verdict != FAIL or row.kind != "input" or not overwritten():
            return row
        changes = {
            "target_dtype": row.target_dtype,
            "overflow": row.overflow,
            "verdict": EXPECTED_ABSENT,
            "golden_file": None,
        }
        return planned.noted(OVERWRITTEN, "", **changes)

    def of_statistics(self, row: Row, dtype: str, whole: bool) -> Row:
        """Return the finished row of a tensor of which only statistics are known: what decides may
        give out others by rounding alone.
        """
        judgement = judge(row.metrics, self.limits, (), _subject(row, dtype))
        remarks = _behind_a_cast(row.target_dtype, dtype, judgement.decided_by)
        if not judgement.text:
            return row.noted("; ".join(remarks), decided_by=judgement.decided_by)
        if whole and row.kind == "output" and decides(row.op_type, dtype):
            return row.noted(judgement.text + _DECIDES % row.op_type)
        reason = "; ".join(filter(None, (judgement.text, row.reason, *remarks)))
        return row.but(verdict=FAIL, reason=reason, decided_by=judgement.decided_by, warning="")

    def alike(self, row: Row) -> Tuple[Limit, ...]:
        """Return what tells rows of equal findings apart: those of ops with the same answer are
        judged alike.
        """
        return self.limits.for_op(row.op_type, row.op)

    def _judge(self, measured: Measurement, values: Mapping[str, Any]) -> Judgement:
        """Judge metrics of a row; of an op that decides the text says so."""
        row, dtype = measured.row, measured.limited_as
        judgement = judge(values, self.limits, measured.result.not_applicable, _subject(row, dtype))
        if judgement.metric == DIFFERENT and row.kind == "output" and decides(row.op_type, dtype):
            return judgement._replace(
                text="%s (%s decides: inputs that differ by rounding may change it)"
                % (judgement.text, row.op_type)
            )
        return judgement

    def _decided(self, measured: Measurement) -> _Outcome:
        result = measured.result
        outcome = self._measured(measured)
        verdict, outside, decided_by = outcome[:3]
        cancelled = self._cancelled(measured, outcome)
        if cancelled is not None:
            return cancelled
        if outside and result.beyond_chance is not None and only_slice_limit_missed(decided_by):
            rest = self._judge(measured, {**result.deciding, WORST_SLICE: result.beyond_chance})
            if not rest.text:
                return _Outcome(PASS, "", rest.decided_by, [outside + BY_CHANCE])
        if not result.judged or result.outcome is not None:
            return outcome
        missed = outside or self._judge(measured, result.values).text
        return _Outcome(
            verdict,
            outside,
            decided_by,
            [slack_text(missed, measured.slack, verdict == PASS)] if missed else [],
        )

    def _measured(self, measured: Measurement) -> _Outcome:
        """Return what the numbers of the pair alone decide."""
        result = measured.result
        if result.outcome is None:
            judgement = self._judge(measured, result.deciding)
            outside = judgement.text
            if result.hides_behind_masks and judgement.metric == DISTANCE:
                outside += " (without the masked elements)"
            return _Outcome(FAIL if outside else PASS, outside, judgement.decided_by)
        decided_by = ""
        if result.outcome == FAIL and result.differing:
            # Golden data of zeros leave nothing to the limits, but decisions among them are like
            # any others.
            limits = self._judge(measured, result.deciding).decided_by
            decided_by = limits if only_decision_limit_missed(limits) else ""
        return _Outcome(result.outcome, "", decided_by)

    def _cancelled(self, measured: Measurement, outcome: _Outcome) -> Optional[_Outcome]:
        """Return that an output passes whose error is small beside its inputs, which nearly cancel
        out in it; None where that is not so.
        """
        row = measured.row
        if (
            outcome.verdict != FAIL
            or row.kind != "output"
            or not measured.result.positions_agree
            or not may_cancel(row.op_type)
        ):
            return None
        again = measured.against_inputs()
        if again is None:
            return None
        forgiven = self._judge(replace(measured, result=again), again.deciding)
        if forgiven.text:
            return None
        remarks = [outcome.outside + ", but no more than that explains"] * bool(outcome.outside)
        remarks.insert(0, CANCELLED % row.op_type)
        return _Outcome(PASS, "", forgiven.decided_by, remarks, CANCELS_INPUTS)


def _subject(row: Row, behind: str) -> Subject:
    """Return what the limits may tell a row by; ``behind``: the coarsest type that its values went
    through.
    """
    dtype = row.target_dtype or behind
    return Subject(dtype, row.op_type, row.op, behind if behind != dtype else "")


def _behind_a_cast(dtype: Optional[str], behind: str, decided_by: str) -> List[str]:
    """Return as a remark that limits of another type than the row's decided."""
    if behind == dtype or "dtype=%s:" % behind not in decided_by:
        return []
    return ["limits of %s, which its values went through" % behind]


def _places(measured: Measurement, missed: str) -> List[str]:
    """Return where the tensors differ, as phrases: the worst slice where its limit is missed, the
    elements of whole numbers.
    """
    phrases = []
    result, shape = measured.result, measured.row.shape or ()
    if result.worst_slice is not None and WORST_SLICE in missed:
        axis, index = result.worst_slice.axis, result.worst_slice.index
        if element_count(shape) == shape[axis]:
            place = [index if number == axis else 0 for number in range(len(shape))]
            phrases.append("for its size the element at %s is off most" % place)
        else:
            times = result.worst_slice.times_smaller
            size = ", %.3g times smaller than the largest" % times if times > MUCH_LARGER else ""
            phrases.append("the worst slice is %d of axis %d%s" % (index, axis, size))
    if result.differing:
        phrases.append(
            sentence(
                result.differing, result.count, list(result.differences), shape, measured.order
            )
        )
    return phrases


DISTANCES = ("CosineSimilarity", "RelativeEuclideanDistance", WORST_SLICE)
"""The metrics whose place DifferentElements takes where it applies."""

_BY_CHANCE = frozenset(str(limit) for limit in DEFAULTS if limit.metric == WORST_SLICE)

_DEFAULTS = frozenset(map(str, DEFAULTS))
_BY_DECISION = frozenset(str(limit) for limit in DEFAULTS if limit.metric == DIFFERENT)

_WHERE_MEASURED = frozenset((DIFFERENT, *statistics.MEASURES))
"""Metrics whose limits say nothing of a row without them."""

_NOT_FOR_BOOL = frozenset(MEASURES) - frozenset(BOOL_METRICS)


def not_applicable(row: Row) -> FrozenSet[str]:
    """Return the metrics that make no sense for a row: all without elements, all but three for bool
    against bool.
    """
    if row.shape is not None and 0 in row.shape:
        return frozenset(MEASURES)
    return (
        _NOT_FOR_BOOL if row.target_dtype == "bool" and row.golden_dtype == "bool" else frozenset()
    )


class Judgement(NamedTuple):
    """The judgement on one tensor by its limits.

    Attributes
    ----------
    passed
        True when every limit holds.
    metric, value, limit
        The first metric outside its limit, in the order of the columns; a number outside its limit
        comes before a NaN. None when passed.
    text
        One phrase, such as ``CosineSimilarity 0.912345 is not > 0.99``; empty when passed.
    decided_by
        The limits that are not met, when passed those that were looked at; in the form of
        :func:`goldwatch.judging.limits.parse_limit`, joined by ``; ``.
    """

    passed: bool
    metric: Optional[str] = None
    value: Optional[float] = None
    limit: Optional[Limit] = None
    text: str = ""
    decided_by: str = ""


def judge(
    values: Mapping[str, Any],
    limits: Limits,
    not_applicable: Collection[str] = (),
    subject: Subject = ANY,
) -> Judgement:
    """Judge one tensor's metrics.

    Parameters
    ----------
    values
        Metric name to number. Names without a limit (and StandardDeviation) are not looked at.
        Where DifferentElements is a number and limited, it takes the place of the limits of the
        three distances, but for those that were asked for a type or an op: whole numbers are equal
        or they are not.
    limits
        What is allowed.
    not_applicable
        Metrics that make no sense for this tensor (most for bool against bool): they neither pass
        nor fail. Any other metric that is NaN or was not computed fails, but for DifferentElements,
        which is NaN wherever it does not apply: NaN or Inf at different positions, and a golden of
        zeros against other values, come out as such. Statistics are judged by the limits of their
        own.
    subject
        Which limits hold for the tensor.
    """
    if values.get(statistics.NOT_FINITE) is not None:
        limits = for_statistics(limits)
    return _judged_by(values, limits.for_subject(subject), not_applicable)


def _judged_by(
    values: Mapping[str, Any], entries: Sequence[Limit], not_applicable: Collection[str]
) -> Judgement:
    whole = not math.isnan(metric_number(values.get(DIFFERENT))) and any(
        limit.metric == DIFFERENT for limit in entries
    )
    looked_at: List[Limit] = []
    missed: List[Tuple[bool, Limit, float]] = []
    for limit in entries:
        value = metric_number(values.get(limit.metric))
        undefined = math.isnan(value)
        if limit.metric in not_applicable or (undefined and limit.metric in _WHERE_MEASURED):
            continue
        if whole and limit.metric in DISTANCES and (not limit.selector or limit in DEFAULTS):
            continue
        looked_at.append(limit)
        if undefined or not limit.met(value):
            missed.append((undefined, limit, value))
    if not missed:
        return Judgement(True, decided_by=_joined(tuple(looked_at)))
    undefined, limit, value = min(missed, key=lambda entry: entry[0])
    if undefined:
        value_text = values.get(limit.metric)
        # A metric of the user's own may be a text.
        shown = (
            "the text %.40r" % value_text
            if isinstance(value_text, str) and value_text != "NaN"
            else "NaN"
        )
        text = "%s is %s, limit %s %.9g" % (limit.metric, shown, limit.comparison, limit.value)
    else:
        text = "%s %s is not %s %.9g" % (
            limit.metric,
            beside_limit(value, limit),
            limit.comparison,
            limit.value,
        )
    return Judgement(
        False, limit.metric, value, limit, text, _joined(tuple(entry[1] for entry in missed))
    )


def all_met(entries: Sequence[Limit], values: Mapping[str, Any]) -> Tuple[Any, str]:
    """Tell which of n tensors of floating point numbers are within all limits, bool, [n], and the
    limits that were looked at; ``values``: by metric, [n].
    """
    looked_at = tuple(limit for limit in entries if limit.metric not in _WHERE_MEASURED)
    met = np.ones(len(next(iter(values.values()))), np.bool_)
    for limit in looked_at:
        met &= (
            COMPARISONS[limit.comparison](values[limit.metric], limit.value)
            if limit.metric in values
            else False
        )
    return met, _joined(looked_at)


@lru_cache(maxsize=1024)
def _joined(limits: Tuple[Limit, ...]) -> str:
    return "; ".join(map(str, limits))


def subject_of(row: Row) -> Subject:
    """Return what the limits may tell a row by."""
    return Subject(row.target_dtype or "", row.op_type, row.op)


def judge_row(row: Row, limits: Limits) -> Judgement:
    """Judge a finished row's metrics again; of a failing row, by the limits that decided (others
    may be missed by rounding alone), if any did.
    """
    if row.verdict == FAIL and not row.metrics:
        return Judgement(False, text=row.reason)
    statistical = statistics.NOT_FINITE in row.metrics
    inapplicable = () if statistical else not_applicable(row)
    if row.verdict == FAIL and row.decided_by:
        names = row.decided_by.split("; ")
        known = for_statistics(limits) if statistical else limits
        # They held for the type that its values went through, which the row does not tell.
        deciding = [limit for limit in known.entries if str(limit) in names]
        if deciding:
            return _judged_by(row.metrics, deciding, inapplicable)
    return judge(row.metrics, limits, inapplicable, subject_of(row))


def only_slice_limit_missed(decided_by: str) -> bool:
    """Tell whether a row misses only a default limit of the worst slice."""
    return decided_by in _BY_CHANCE


def only_decision_limit_missed(decided_by: str) -> bool:
    """Tell whether a failing row misses only the default limit of DifferentElements."""
    return decided_by in _BY_DECISION


def only_default_limits_missed(decided_by: str) -> bool:
    """Tell whether a failing row misses only default limits."""
    return all(limit in _DEFAULTS for limit in decided_by.split("; "))
