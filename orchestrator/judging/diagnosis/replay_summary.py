"""The summary of a replay: the operators with an error of their own, the worst first, and the
sentence about them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Dict, Iterable, List, Optional, Tuple

from ...base.fast_dataclasses import dataclass
from ...base.wording import listed, plural
from ...metrics.row import FAIL, NOT_COMPARED, PASS, Row
from ...operators.registry import InTraining
from ..limits import Limit, Limits
from ..metric_text import beside_limit
from ..row_judge import judge_row
from .summary import Summary

_ALL_RIGHT = (
    "The golden comparison fails but no operator has an error of its own: whose error it is is "
    "not known; compare the inputs and their producers' outputs. goldwatch cure tells whether "
    "float32 mends it: small errors may have grown."
)
"""With its own inputs each operator is right; where a value overflowed in one, golden data and
device agree here.
"""
_SHOWN = 5
OTHER_MODEL = "model-of-another-file"


@dataclass(frozen=True)
class OpWithOwnError:
    """An operator with an error of its own.

    Attributes
    ----------
    op, op_type, tensor
        The operator and its worst output.
    metric, value, limit
        What is outside; None where the row failed without a metric.
    reason
        The row's.
    """

    op: str
    op_type: str
    tensor: str
    metric: Optional[str]
    value: Optional[float]
    limit: Optional[Limit]
    reason: str = ""

    @property
    def badness(self) -> float:
        """How many times its limit the value is; infinite where that cannot be said."""
        if self.value is None or self.limit is None or not math.isfinite(self.value):
            return math.inf
        distance, most = (
            (1 - self.value, 1 - self.limit.value)
            if self.limit.wants_large
            else (self.value, self.limit.value)
        )
        return distance / most if most else math.inf

    def document(self) -> Dict[str, Any]:
        """Return an entry of result.json's ``culprits``."""
        limit = None if self.limit is None else self.limit.value
        return {
            "op": self.op,
            "tensor": self.tensor,
            "metric": self.metric,
            "value": self.value,
            "limit": limit,
        }


def replay_summary(
    summary: Summary,
    rows: Iterable[Row],
    limits: Limits,
    golden_fails: bool,
    selected: bool = False,
) -> Summary:
    """Return the summary of a replay's rows with its culprits and its sentence, and without
    suspects: every row judges one operator alone.

    Parameters
    ----------
    golden_fails
        Whether the comparison with golden data fails, as far as that is known.
    selected
        Whether only some of the operators were asked for: then the rest may be guilty, and nothing
        is said of the network.
    """
    worst: Dict[str, OpWithOwnError] = {}
    not_replayed: List[str] = []
    in_training: List[str] = []
    undefined: List[str] = []
    replayed_ops = set()
    for row in rows:
        if row.verdict in (PASS, FAIL):
            replayed_ops.add(row.op)
            nan = row.nan or {"golden": 0, "target": 0}
            if nan["golden"] and not nan["target"] and row.op not in undefined:
                undefined.append(row.op)
        if row.verdict == FAIL:
            judgement = judge_row(row, limits)
            culprit = OpWithOwnError(
                row.op,
                row.op_type,
                row.tensor,
                judgement.metric,
                judgement.value,
                judgement.limit,
                row.reason,
            )
            if row.op not in worst or culprit.badness > worst[row.op].badness:
                worst[row.op] = culprit
        elif row.verdict == NOT_COMPARED:
            others = in_training if row.reason_codes == InTraining.code else not_replayed
            if row.op not in others:
                others.append(row.op)
    culprits = tuple(sorted(worst.values(), key=lambda culprit: -culprit.badness))
    parts = [_sentence(culprits, not_replayed, golden_fails, len(replayed_ops), selected)]
    if golden_fails and undefined and not culprits:
        if parts == [_ALL_RIGHT]:
            parts[0] = "The golden comparison fails but no operator has an error of its own."
        parts.append(
            "The original model makes NaN of the device's own inputs in %s, where the device has "
            "numbers: golden data are undefined there." % listed(undefined, _SHOWN)
        )
    if in_training:
        if golden_fails and replayed_ops and not (culprits or not_replayed or selected):
            parts[0] = "No operator that was replayed has an error of its own."
        parts.append(
            "The original model has %s in training mode (the statistics of the batch, a random "
            "mask): golden data say nothing of the device there. Export the model with "
            "model.eval(), and make golden data again." % listed(in_training, _SHOWN)
        )
    parts += [
        "But no operator with weights computes what MODEL says: %s." % warning
        for warning in summary.warnings
        if warning.code == OTHER_MODEL
    ]
    sentence = " ".join(parts)
    return replace(
        summary,
        suspects=(),
        unpaired=False,
        lacks_computing=False,
        culprits=tuple(entry.document() for entry in culprits),
        sentence=sentence,
    )


def _sentence(
    culprits: Tuple[OpWithOwnError, ...],
    not_replayed: List[str],
    golden_fails: bool,
    ran: int,
    selected: bool,
) -> str:
    rest = ""
    if not_replayed:
        rest = "stays" if len(not_replayed) == 1 else "stay"
        rest = " %s could not be replayed and %s suspect: %s." % (
            plural(len(not_replayed), "operator"),
            rest,
            listed(not_replayed, _SHOWN),
        )
    if not ran:
        return ("Nothing was replayed." + rest).strip()
    if culprits:
        return _accused(culprits) + rest
    if selected:
        whose = "selected operator" + (" that was replayed" if not_replayed else "")
        head = "The golden comparison fails; no" if golden_fails else "No"
        return (
            "%s %s has an error of its own (%d replayed); nothing is known of the others."
            % (head, whose, ran)
            + rest
        )
    if golden_fails and not not_replayed:
        return _ALL_RIGHT
    if golden_fails:
        return (
            "The golden comparison fails but no operator that was replayed has an error of its own."
            + rest
        )
    return (
        "No operator%s has an error of its own." % (" that was replayed" if not_replayed else "")
        + rest
    )


def _accused(culprits: Tuple[OpWithOwnError, ...]) -> str:
    first = culprits[0]
    head = "%s (%s) has an error of its own: " % (first.op, first.op_type)
    if len(culprits) > 1:
        head = "%d operators have an error of their own, the worst is %s (%s): " % (
            len(culprits),
            first.op,
            first.op_type,
        )
    if (
        first.metric is None
        or first.value is None
        or first.limit is None
        or math.isnan(first.value)
    ):
        finding = "%s (%s)" % (first.tensor, first.reason)
    else:
        value = beside_limit(first.value, first.limit)
        finding = "%s has %s %s, limit %s %.9g" % (
            first.tensor,
            first.metric,
            value,
            first.limit.comparison,
            first.limit.value,
        )
    others = (
        "; then %s" % listed([culprit.op for culprit in culprits[1:]], _SHOWN)
        if len(culprits) > 1
        else ""
    )
    return head + finding + others + "."
