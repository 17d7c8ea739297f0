"""Judges a row by the measurement of its pair; other rows may change the verdict
(:mod:`.by_other_rows`).
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..base.element_types import element_count
from ..base.fast_dataclasses import dataclass
from ..metrics.differing_elements import sentence
from ..metrics.metric_result import DISTANCE
from ..metrics.overwriting_and_cancellation import CANCELLED, OVERWRITTEN, may_cancel
from ..metrics.pair_task import Measurement
from ..metrics.rounding_slack import slack_text
from ..metrics.row import (
    CANCELS_INPUTS,
    DIFFERENT,
    ELEMENTS_DIFFER,
    EXPECTED_ABSENT,
    FAIL,
    MASKED,
    PASS,
    WORST_SLICE,
    Row,
)
from ..metrics.worst_slice import BY_CHANCE, MUCH_LARGER
from .by_limits import (
    Judgement,
    all_met,
    judge,
    only_decision_limit_missed,
    only_slice_limit_missed,
)
from .limits import Limit, Limits, Subject

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
    LogicalNot LogicalXor Where NonZero AscendQuant Quantize QuantizeV2
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
