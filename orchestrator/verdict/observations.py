"""What judging a run needs of its rows, in little memory: one walk over the rows, then operators in execution order."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ..comparing.row import FAIL, PASS, Row
from ..dumps.place import Place, name_order
from .judging import metric_number

COSINE = "CosineSimilarity"
DISTANCE = "RelativeEuclideanDistance"
SLICE_DISTANCE = "WorstSliceDistance"
DIFFERENT = "DifferentElements"
_MASK_RULES = 5.0
FACTOR_SHARE = 0.2
"""Of the distance, what counts as an error of the common factor too: noise has a small part along the golden values, now and then none."""

_KIND_RANK = {"output": 0, "op": 1, "input": 2}


class Observation(NamedTuple):
    """One row, as little of it as judging needs.

    Attributes
    ----------
    number
        The tensor's index; -1 for a row about the whole op.
    distance, slice_distance
        RelativeEuclideanDistance and WorstSliceDistance; NaN where there is none. Masked elements (−1e4 among attention scores) rule the
        norm of a tensor, and leave a small distance where everything else is wrong; slices leave them out. Where the worst slice alone
        would make several times the distance, were all slices of one norm, it is that.
    factor_distance
        How far a common factor of all elements is from 1, with a fifth of the distance: a·y is the part of the target x along the golden y,
        and with cosine c and distance d, (a − 1)² is d² − (1 − c²) but for terms of higher order. NaN where the cosine was not computed.
    different
        Whether any element differs (a distance of 0 may hide none).
    spoiled
        NaN or Inf stand on one side only.
    address
        On the device; None where the dump does not tell it.
    """

    kind: str
    number: int
    tensor: str
    verdict: str
    distance: float
    slice_distance: float
    factor_distance: float
    different: bool
    spoiled: bool
    dtype: str
    address: Optional[int]

    @property
    def compared(self) -> bool:
        """Whether both tensors were there and could be compared."""
        return self.verdict in (PASS, FAIL)


class ObservedOp:
    """One execution of one operator: what its dump file's rows say.

    Attributes
    ----------
    place
        Where in the dump tree it was dumped.
    key
        Sorts operators by execution (:func:`execution_key`).
    outputs, inputs
        By index.
    """

    __slots__ = ("file", "inputs", "key", "name", "outputs", "place", "type")

    def __init__(self, row: Row) -> None:
        self.name = row.op
        self.type = row.op_type
        self.place = row.place
        self.file = row.target_file or ""
        self.key = execution_key(row)
        self.outputs: Dict[int, Observation] = {}
        self.inputs: Dict[int, Observation] = {}

    def in_place(self, number: int) -> bool:
        """Tell whether an input lies where an output of the same op lies: its dumped bytes may be the output's."""
        seen = self.inputs.get(number)
        return seen is not None and bool(seen.address) and any(seen.address == other.address for other in self.outputs.values())


class Observations:
    """The rows of one run, by operator.

    Attributes
    ----------
    ops
        In the order in which their first rows came; :meth:`ordered` sorts them by execution.
    counts
        Rows by verdict.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.ops: Dict[Tuple[Place, str, str], ObservedOp] = {}
        self.counts: Dict[str, int] = {}
        self._newest: Dict[Tuple[Place, str], ObservedOp] = {}
        self._ordered: Optional[List[ObservedOp]] = None
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Take one row."""
        self.counts[row.verdict] = self.counts.get(row.verdict, 0) + 1
        place = row.place
        key = (place, row.op, row.target_file or "")
        op = self.ops.get(key)
        if op is None:
            op = self.ops[key] = ObservedOp(row)
            other = self._newest.get(key[:2])
            if other is None or other.key < op.key:
                self._newest[key[:2]] = op
            self._ordered = None
        if row.kind == "output" and row.tensor_index is not None:
            op.outputs[row.tensor_index] = _observe(row)
        elif row.kind == "input" and row.tensor_index is not None:
            op.inputs[row.tensor_index] = _observe(row)

    def find(self, place: Place, name: str) -> Optional[ObservedOp]:
        """Return an operator's (last) execution at a place."""
        return self._newest.get((place, name))

    def ordered(self) -> List[ObservedOp]:
        """Return the operators in execution order."""
        if self._ordered is None:
            self._ordered = sorted(self.ops.values(), key=lambda op: op.key)
        return self._ordered


def _observe(row: Row) -> Observation:
    distance, slices = metric_number(row.metrics.get(DISTANCE)), metric_number(row.metrics.get(SLICE_DISTANCE))
    count = metric_number(row.metrics.get(DIFFERENT))
    return Observation(
        kind=row.kind,
        number=-1 if row.tensor_index is None else row.tensor_index,
        tensor=row.tensor,
        verdict=row.verdict,
        distance=_unmasked(distance, slices, max(row.shape or (1,))),
        slice_distance=slices,
        factor_distance=_along(distance, metric_number(row.metrics.get(COSINE))),
        different=count > 0 or (math.isnan(count) and distance != 0),
        spoiled=row.verdict == FAIL and _differ(row.nan, row.inf, distance),
        dtype=row.target_dtype or "",
        address=row.address,
    )


def _along(distance: float, cosine: float) -> float:
    """Return the distance of a tensor's common factor from 1."""
    if math.isnan(cosine) or not distance < math.inf:
        return math.nan
    return math.sqrt(max(distance * distance - (1.0 - cosine) * (1.0 + cosine), 0.0) + (FACTOR_SHARE * distance) ** 2)


def _unmasked(distance: float, slices: float, count: int) -> float:
    least = slices / math.sqrt(max(count, 1))
    return least if least > _MASK_RULES * distance else distance


def _differ(nan: Optional[Mapping[str, int]], inf: Optional[Mapping[str, int]], distance: float) -> bool:
    """Tell whether NaN or Inf spoil the metrics: where they stand alike on both sides, the finite rest has a distance."""
    return any(count for counts in (nan, inf) for count in (counts or {}).values()) and math.isnan(distance)


def execution_key(row: Row) -> Tuple[Any, ...]:
    """Return a sort key for the execution order.

    Steps by number come first, then devices, then time. Within a place (graph, id) of the json decide, with equal ids the json's order;
    without a json the timestamp. Of one op's rows the outputs come first.
    """
    position = row.group.index(row.op) if row.op in row.group else 0
    if row.op_sequence is None:
        order: Tuple[int, ...] = (row.timestamp_us, row.index)
    else:
        order = (row.graph_index, row.op_sequence, row.index, position, row.timestamp_us)
    number = -1 if row.tensor_index is None else row.tensor_index
    places = tuple(name_order(name) for name in (row.step, row.device, row.time, row.model, row.model_id))
    return (*places, order, row.target_file or "", _KIND_RANK.get(row.kind, 3), number)
