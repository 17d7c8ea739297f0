"""The first operator outside its limits, in execution order, and whether its error is its own or inherited."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ..compare.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from ..dumps.place import NOWHERE, Place
from .judging import judge_row, short_text
from .limits import Limit, Limits

GOOD = "good"
BAD = "bad"
UNKNOWN = "unknown"

Producers = Callable[[str], Sequence[Tuple[str, int]]]

_KIND_RANK = {"output": 0, "op": 1, "input": 2}


@dataclass(frozen=True)
class FirstDivergence:
    """The first operator outside its limits.

    Attributes
    ----------
    op, op_type
        The operator.
    tensor
        Its first failing output; its first failing input where no output fails (the producer was not dumped, or the op hides the error).
    metric, value, limit
        What is outside: the metric, its value, its limit. None where the row failed without a metric.
    inputs
        ``good``: every input that can be compared passes. ``bad``: one fails. ``unknown``: neither is shown by rows.
    bad_input
        The failing input (or producer's output), when ``inputs`` is ``bad``.
    place
        (time, device, model, model_id, step) of the rows; all None outside a tree.
    reason
        The row's reason.
    """

    op: str
    tensor: str
    metric: Optional[str]
    value: Optional[float]
    limit: Optional[Limit]
    inputs: str
    op_type: str = ""
    bad_input: Optional[str] = None
    place: Place = NOWHERE
    reason: str = ""

    def document(self) -> Dict[str, Any]:
        """Return the fields of result.json's ``first_divergence``; numbers that are not finite stay floats."""
        limit = None if self.limit is None else self.limit.value
        return {"op": self.op, "tensor": self.tensor, "metric": self.metric, "value": self.value, "limit": limit, "inputs": self.inputs}


def place_of(row: Row) -> Place:
    """Return the folder names that tell steps, devices and models apart: (time, device, model, model_id, step)."""
    return row.place


def execution_key(row: Row) -> Tuple[Any, ...]:
    """Return a sort key for the execution order.

    Steps come in numeric order. Within a step (graph, id) of the json decide, with equal ids the json's order; without a json the
    timestamp. Of one op's rows the outputs come first.
    """
    position = row.group.index(row.op) if row.op in row.group else 0
    if row.op_sequence is None:
        order: Tuple[int, ...] = (row.timestamp_us, row.index)
    else:
        order = (row.graph_index, row.op_sequence, row.index, position, row.timestamp_us)
    number = -1 if row.tensor_index is None else row.tensor_index
    places = (row.device or "", row.model or "", row.model_id or "", row.target_file or "")
    return (row.time or "", _step(row.step), order, places, _KIND_RANK.get(row.kind, 3), number)


def _step(step: Optional[str]) -> Tuple[int, str]:
    if step is None:
        return -1, ""
    try:
        return int(step), step
    except ValueError:
        return 0, step


def first_divergence(rows: Iterable[Row], limits: Limits, producers: Optional[Producers] = None) -> Optional[FirstDivergence]:
    """Return the first operator with a failing row, or None.

    Parameters
    ----------
    rows
        All rows; walked twice, so an iterator is kept in a list first (a store's ``rows()`` can be walked again and is not).
    limits
        The limits the rows were judged by.
    producers
        From an op's name to the (op, output index) that feed its inputs, constants left out; used where inputs were not dumped.
    """
    if iter(rows) is rows:
        rows = list(rows)
    first: Optional[Row] = None
    first_key: Tuple[Any, ...] = ()
    for row in rows:
        if row.verdict == FAIL:
            key = execution_key(row)
            if first is None or key < first_key:
                first, first_key = row, key
    if first is None:
        return None
    inputs, bad_input = _state_of_inputs(rows, first, tuple(producers(first.op)) if producers else ())
    judgement = judge_row(first, limits)
    return FirstDivergence(
        op=first.op,
        op_type=first.op_type,
        tensor=first.tensor,
        metric=judgement.metric,
        value=judgement.value,
        limit=judgement.limit,
        inputs=inputs,
        bad_input=bad_input,
        place=place_of(first),
        reason=first.reason,
    )


def _state_of_inputs(rows: Iterable[Row], first: Row, feeds: Sequence[Tuple[str, int]]) -> Tuple[str, Optional[str]]:
    """Tell whether the inputs of ``first``'s op were good, and name a bad one.

    The op's own input rows decide. An input that was not compared, or not dumped at all, is as good as its producer's output row says;
    an expected absence (a constant) says nothing either way.
    """
    place, feeding = place_of(first), {op for op, _ in feeds}
    own: Set[str] = set()
    produced: Dict[Tuple[str, Optional[int]], Set[str]] = {}
    absent: Set[str] = set()
    bad: List[Row] = []
    for row in rows:
        if place_of(row) != place:
            continue
        if row.op == first.op and row.kind == "input" and row.target_file == first.target_file:
            own.add(row.verdict)
            if row.verdict == FAIL:
                bad.append(row)
        elif row.op in feeding and row.kind == "output":
            produced.setdefault((row.op, row.tensor_index), set()).add(row.verdict)
            if row.verdict == FAIL and (row.op, row.tensor_index) in feeds:
                bad.append(row)
        elif row.op in feeding and row.verdict == EXPECTED_ABSENT and row.kind == "op":
            absent.add(row.op)
    if FAIL in own:
        return BAD, next(row.tensor for row in bad if row.op == first.op)
    if PASS in own and NOT_COMPARED not in own:
        return GOOD, None
    return _state_of_feeds(feeds, produced, absent, own, bad)


def _state_of_feeds(
    feeds: Sequence[Tuple[str, int]], produced: Dict[Tuple[str, Optional[int]], Set[str]], absent: Set[str], own: Set[str], bad: List[Row]
) -> Tuple[str, Optional[str]]:
    """Tell from the producers' output rows whether an op's inputs were good."""
    if bad:
        return BAD, bad[0].tensor
    seen = [produced.get((op, index), {EXPECTED_ABSENT} if op in absent else {NOT_COMPARED}) for op, index in feeds]
    if any(NOT_COMPARED in verdicts for verdicts in seen):
        return UNKNOWN, None
    if any(PASS in verdicts for verdicts in seen):
        return GOOD, None
    return UNKNOWN, None


def explain(first: Optional[FirstDivergence], compared: bool = True) -> str:
    """Return one sentence that names the broken operator and says whether its error is its own or inherited.

    Parameters
    ----------
    compared
        Whether any tensor was compared at all.
    """
    if not compared:
        return "No tensor was compared, so nothing is known about any operator."
    if first is None:
        return "No operator is outside its limits."
    step = "" if first.place.step is None else " in step %s" % first.place.step
    device = "" if first.place.device is None else " on device %s" % first.place.device
    head = "%s (%s) is the first operator outside its limits%s%s: %s" % (first.op, first.op_type, step, device, _finding(first))
    if first.inputs == GOOD:
        return head + "; its inputs are within their limits, so the error is its own."
    if first.inputs == BAD:
        if first.bad_input in (None, first.tensor):
            return head + "; the error came in through this input, so it is inherited from what feeds the operator."
        return head + "; %s was already outside its limits, so the error is inherited." % first.bad_input
    return head + "; no row shows whether its inputs were good, so the error may be its own or inherited."


def _finding(first: FirstDivergence) -> str:
    if first.metric is None or first.value is None or first.limit is None:
        return "%s failed (%s)" % (first.tensor, first.reason)
    if math.isnan(first.value):
        return "%s has no usable %s (%s)" % (first.tensor, first.metric, first.reason or "NaN")
    value, limit = short_text(first.value), first.limit
    return "%s has %s %s, limit %s %.9g" % (first.tensor, first.metric, value, limit.comparison, limit.value)
