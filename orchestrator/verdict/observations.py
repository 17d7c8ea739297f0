"""What judging a run needs of its rows, in little memory: one walk over the rows, then operators in execution order."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ..comparing.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from ..dumps.place import Place, name_order
from ..model.row_plan import DEQUANTISED_MARK
from ..tensors.axes import element_count
from .judging import metric_number

COSINE = "CosineSimilarity"
DISTANCE = "RelativeEuclideanDistance"
SLICE_DISTANCE = "WorstSliceDistance"
DIFFERENT = "DifferentElements"
SPREAD = "StandardDeviation"
_LEAST_TOLD = 1e-6
"""Below this distance the cosine's own rounding (some 1e-16 of 1 − d²/2) is no longer small against the square of the distance."""
_MASK_RULES = 5.0
_MASKS_DIFFER = 2.0
FACTOR_SHARE = 0.2
"""Of the distance, what counts as an error of the common factor too: noise has a small part along the golden values, now and then none."""

_KIND_RANK = {"output": 0, "op": 1, "input": 2}


class Observation(NamedTuple):
    """One row, as little of it as judging and explaining need.

    Attributes
    ----------
    number
        The tensor's index; -1 for a row about the whole op.
    position
        The row's number in the json's order.
    distance, slice_distance
        RelativeEuclideanDistance and WorstSliceDistance; NaN where there is none. Masked elements (−1e4 among attention scores) rule the
        norm of a tensor, and leave a small distance where everything else is wrong; slices leave them out. Where the worst slice alone
        would make several times the distance, were all slices of one norm, it is that. Masks of another size (the smallest number of
        either type) make a distance that no slice has.
    masked
        The distance is not that of all elements, for one of these reasons: rms tells nothing of the elements it is of.
    factor_distance
        How far a common factor of all elements is from 1, with a fifth of the distance: a·y is the part of the target x along the golden y,
        and with cosine c and distance d, (a − 1)² is d² − (1 − c²) but for terms of higher order. NaN where the cosine was not
        computed, or the distance is too small for it.
    factor
        a itself: c·‖x‖/‖y‖. NaN where cosine or standard deviations were not computed.
    rms, deviation
        Root mean square and standard deviation of the golden elements; NaN where they were not computed.
    different
        Whether any element differs (a distance of 0 may hide none).
    whole
        Whole numbers or truth values on both sides: equal or not.
    share
        Of whole numbers and truth values, the share that differs; NaN of other types.
    spoiled
        NaN or Inf stand on one side only.
    cosine
        CosineSimilarity; NaN where there is none.
    dtype, shape
        As the row has them.
    address
        On the device; None where the dump does not tell it.
    golden, golden_file
        The golden tensor's name and file.
    worst_slice
        (axis, index), or None.
    nan, inf
        How many elements of target and golden are NaN, and how many are infinite.
    """

    kind: str
    number: int
    position: int
    tensor: str
    verdict: str
    distance: float
    slice_distance: float
    masked: bool
    factor_distance: float
    factor: float
    rms: float
    deviation: float
    different: bool
    whole: bool
    share: float
    spoiled: bool
    cosine: float
    dtype: str
    shape: Tuple[int, ...]
    address: Optional[int]
    golden: str
    golden_file: Optional[str]
    worst_slice: Optional[Tuple[int, int]]
    nan: Tuple[int, int]
    inf: Tuple[int, int]

    @property
    def compared(self) -> bool:
        """Whether both tensors were there and could be compared."""
        return self.verdict in (PASS, FAIL)

    @property
    def golden_spoiled(self) -> bool:
        """Whether golden data are NaN or Inf throughout, and the target's are numbers: what computed them says nothing of the device."""
        count = element_count(self.shape)
        return self.spoiled and not (self.nan[0] or self.inf[0]) and self.nan[1] + self.inf[1] == count


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
    lacking
        One of its outputs should have been compared and was not.
    """

    __slots__ = ("file", "inputs", "key", "lacking", "name", "outputs", "place", "type")

    def __init__(self, row: Row) -> None:
        self.name = row.op
        self.type = row.op_type
        self.place = row.place
        self.file = row.target_file or ""
        self.key = execution_key(row)
        self.outputs: Dict[int, Observation] = {}
        self.inputs: Dict[int, Observation] = {}
        self.lacking = False

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
        if DEQUANTISED_MARK in row.reason:
            # Rounding to integers is what the op is for: it says nothing of the op's own error.
            row = row.but(verdict=EXPECTED_ABSENT, metrics={})
        op.lacking |= row.verdict == NOT_COMPARED and row.kind != "input"
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
    count, cosine = metric_number(row.metrics.get(DIFFERENT)), metric_number(row.metrics.get(COSINE))
    (target, _), (rms, deviation) = _spreads(row.metrics.get(SPREAD))
    nan, inf = _counts(row.nan), _counts(row.inf)
    unmasked = _unmasked(distance, slices, max(row.shape or (1,)))
    return Observation(
        kind=row.kind,
        number=-1 if row.tensor_index is None else row.tensor_index,
        position=row.index,
        tensor=row.tensor,
        verdict=row.verdict,
        distance=unmasked,
        slice_distance=slices,
        masked=unmasked != distance and not math.isnan(distance),
        factor_distance=_along(distance, cosine),
        factor=cosine * target / rms if rms > 0 else math.nan,
        rms=rms,
        deviation=deviation,
        different=count > 0 or (math.isnan(count) and distance != 0),
        whole=_is_whole(row.target_dtype) and (not math.isnan(count) or _is_whole(row.golden_dtype)),
        share=count,
        # Where NaN or Inf stand alike on both sides, the finite rest has a distance.
        spoiled=row.verdict == FAIL and math.isnan(distance) and any(nan + inf),
        cosine=cosine,
        dtype=row.target_dtype or "",
        shape=row.shape or (),
        address=row.address,
        golden=row.golden,
        golden_file=row.golden_file,
        worst_slice=row.worst_slice,
        nan=nan,
        inf=inf,
    )


def _is_whole(dtype: Optional[str]) -> bool:
    return dtype is not None and dtype.startswith(("int", "uint", "bool"))


_NONE = (0, 0)
_NO_SPREADS = ((math.nan, math.nan), (math.nan, math.nan))


def _counts(counts: Optional[Mapping[str, int]]) -> Tuple[int, int]:
    return _NONE if not counts else (counts.get("target", 0), counts.get("golden", 0))


def _spreads(value: Any) -> Tuple[Tuple[float, float], Tuple[float, float]]:
    """Return root mean square and standard deviation of target and golden, from means and standard deviations."""
    if not isinstance(value, Mapping):
        return _NO_SPREADS
    found = []
    for side in ("target", "golden"):
        mean, deviation = (metric_number(value.get(side, {}).get(name)) for name in ("mean", "std"))
        found.append((math.hypot(mean, deviation), deviation))
    return found[0], found[1]


def _along(distance: float, cosine: float) -> float:
    """Return the distance of a tensor's common factor from 1."""
    if math.isnan(cosine) or not distance < math.inf or distance < _LEAST_TOLD:
        return math.nan
    return math.sqrt(max(distance * distance - (1.0 - cosine) * (1.0 + cosine), 0.0) + (FACTOR_SHARE * distance) ** 2)


def _unmasked(distance: float, slices: float, count: int) -> float:
    least = slices / math.sqrt(max(count, 1))
    if distance > _MASKS_DIFFER * slices:
        return slices
    return least if least > _MASK_RULES * distance else distance


def execution_key(row: Row) -> Tuple[Any, ...]:
    """Return a sort key for the execution order.

    Steps by number come first, then devices, those of one number by host, then time. Within a place (graph, id) of
    the json decide, with equal ids the json's order; without a json the timestamp. Of one op's rows the outputs come first.
    """
    position = row.group.index(row.op) if row.op in row.group else 0
    if row.op_sequence is None:
        order: Tuple[int, ...] = (row.timestamp_us, row.index)
    else:
        order = (row.graph_index, row.op_sequence, row.index, position, row.timestamp_us)
    number = -1 if row.tensor_index is None else row.tensor_index
    places = tuple(name_order(name) for name in (row.step, row.device, row.host, row.time, row.model, row.model_id))
    return (*places, order, row.target_file or "", _KIND_RANK.get(row.kind, 3), number)
