"""Digests of rows: the few numbers and marks of a row that suspects and explanations need.

They are a form of a row of their own, packed where the row is made and unpacked when a run ends,
for the sake of memory: of 300,000 rows each takes 3.9 KiB as a :class:`Row`, 1.8 KiB as a digest,
and 1.0 KiB as one that was unpacked so that rows share what they have in common. Digests that are
pickled as they are take 2.3 KiB once they are read again, and a sixth more time. Rows that are read
from the store take ten times as long.
"""

from __future__ import annotations

import math
import pickle
import struct
from functools import lru_cache
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from ...base.element_types import element_count
from ...base.fast_dataclasses import cached_by_object
from ...dumps.place import Place, name_order
from ...dumps.tensor_statistics import NOT_FINITE
from ...metrics.row import (
    BY_ROUNDING,
    CORRUPT,
    DECIDED_OTHERWISE,
    DEQUANTISED,
    EXPECTED_ABSENT,
    FAIL,
    MISSING_CAUSES,
    NOT_COMPARED,
    NOTHING_FINITE,
    PASS,
    SAMPLED,
    SHARED,
    Row,
    shared_columns,
)
from ..metric_text import metric_number

COSINE = "CosineSimilarity"
DISTANCE = "RelativeEuclideanDistance"
SLICE_DISTANCE = "WorstSliceDistance"
DIFFERENT = "DifferentElements"
SPREAD = "StandardDeviation"
_LEAST_DISTANCE = 1e-6
"""Below this distance the cosine's own rounding (some 1e-16 of 1 − d²/2) is no longer small against
the square of the distance.
"""
# The worst slice alone makes the whole this many times as far off as it is where large elements
# (masks) rule the whole's norm; the whole is this many times as far off as the worst slice where
# such elements differ. Chosen, no trial.
_MASK_RULES = 5.0
_MASKS_DIFFER = 2.0
FACTOR_SHARE = 0.2
"""Of the distance, what counts as an error of the common factor too: noise has a small part along
the golden values, now and then none.
"""

COMPARED = (PASS, FAIL)
"""Verdicts of tensors that were there on both sides and could be compared."""
_KIND_RANK = {"output": 0, "op": 1, "input": 2}

OUTPUT_MISSING, OUTPUT_COMPARED, PAIRED, READABLE, LACKS_FILE = 1, 2, 4, 8, 16
EMPTY, WITH_NAN, GOLDEN_NAN, SAMPLE, OTHERWISE, GOLDEN_ALONE, ROUNDED, STATISTICAL = (
    32,
    64,
    128,
    256,
    512,
    1024,
    2048,
    4096,
)
REMARKABLE = (
    EMPTY | WITH_NAN | GOLDEN_NAN | SAMPLE | OTHERWISE | GOLDEN_ALONE | ROUNDED | STATISTICAL
)
"""Marks of a row, see :class:`RowDigest`."""


class Observation(NamedTuple):
    """One tensor's part of a digest: first what is mostly the same on all devices and in all steps,
    then what was measured, then what differs from row to row.

    Attributes
    ----------
    number
        The tensor's index; -1 for a row about the whole op.
    position
        The row's number in the json's order.
    dtype, shape
        As the row has them.
    golden, golden_file
        The golden tensor's name and file.
    nan, inf
        How many elements of target and golden are NaN, and how many are infinite.
    otherwise
        Decisions near a tie, or what follows from such: the device is right, and golden data do not
        fit.
    distance, slice_distance
        RelativeEuclideanDistance and WorstSliceDistance; NaN where there is none. Masked elements
        (−1e4 among attention scores) rule the norm of a tensor, and leave a small distance where
        everything else is wrong; slices leave them out. Where the worst slice alone would make
        several times the distance, were all slices of one norm, it is that. Masks of another size
        (the smallest number of either type) make a distance that no slice has.
    masked
        The distance is not that of all elements, for one of these reasons: rms tells nothing of the
        elements it is of.
    factor_distance
        How far a common factor of all elements is from 1, with a fifth of the distance: a·y is the
        part of the target x along the golden y, and with cosine c and distance d, (a − 1)² is d² −
        (1 − c²) but for terms of higher order. NaN where the cosine was not computed, or the
        distance is too small for it.
    factor
        a itself: c·‖x‖/‖y‖. NaN where cosine or standard deviations were not computed.
    rms, deviation
        Root mean square and standard deviation of the golden elements; NaN where they were not
        computed.
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
    address
        On the device; None where the dump does not tell it.
    worst_slice
        (axis, index), or None.
    """

    kind: str
    number: int
    position: int
    tensor: str
    verdict: str
    dtype: str
    shape: Tuple[int, ...]
    golden: str
    golden_file: Optional[str]
    nan: Tuple[int, int]
    inf: Tuple[int, int]
    otherwise: bool
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
    address: Optional[int]
    worst_slice: Optional[Tuple[int, int]]

    @property
    def compared(self) -> bool:
        """Whether both tensors were there and could be compared."""
        return self.verdict in COMPARED

    @property
    def golden_alone(self) -> bool:
        """Whether NaN or Inf stand in golden data alone, all of the target's elements being
        numbers.
        """
        return (
            self.spoiled and not (self.nan[0] or self.inf[0]) and bool(self.nan[1] or self.inf[1])
        )

    @property
    def golden_spoiled(self) -> bool:
        """Whether golden data are NaN or Inf throughout, and the target's are numbers: what
        computed them says nothing of the device.
        """
        return self.golden_alone and self.nan[1] + self.inf[1] == element_count(self.shape)


class RowDigest(NamedTuple):
    """The digest of one row; picklable, small.

    Attributes
    ----------
    verdict
        The row's.
    place, op, op_type
        As the row has them.
    file
        The target file; empty where there is none.
    order
        Sorts the ops of a place by execution.
    marks
        Bits: the op lacks this output (``OUTPUT_MISSING``); ``OUTPUT_COMPARED``; the tensor has a
        counterpart (``PAIRED``); its file could be read (``READABLE``); a file is missing
        (``LACKS_FILE``); nothing finite on either side (``EMPTY``); it passes beside NaN
        (``WITH_NAN``); its golden data are NaN throughout (``GOLDEN_NAN``), or hold NaN or Inf, and
        the target none (``GOLDEN_ALONE``); only a sample was compared (``SAMPLE``); it was decided
        otherwise near a tie (``OTHERWISE``); it is outside its limits by rounding alone
        (``ROUNDED``); it was compared by statistics alone (``STATISTICAL``).
    observation
        The tensor's part.
    """

    verdict: str
    place: Place
    op: str
    op_type: str
    file: str
    order: Tuple[int, ...]
    marks: int
    observation: Observation

    @property
    def key(self) -> Tuple[Any, ...]:
        """Sorts rows by execution, as :func:`execution_key` does."""
        return (
            *place_key(self.place),
            *key_at_place(self.order, self.file, self.observation.kind, self.observation.number),
        )


_MEASURED, _OWN = map(Observation._fields.index, ("distance", "address"))
_LENGTHS = struct.Struct("=II")
"""Of what is pickled of the place, and of what rows have in common."""
_MEASURES = struct.Struct("=dd? dddd ??d?d")
"""What was measured, from distance to cosine."""
_HEAD_BYTES = _LENGTHS.size + _MEASURES.size


def row_digest(row: Row) -> RowDigest:
    """Return the digest of a row."""
    part = _shared_digest(
        shared_columns(row.__dict__),
        _counts(row.nan),
        _counts(row.inf),
        row.target_file is None,
        NOT_FINITE in row.metrics,
    )
    distance, measured, share = _measures(
        {} if part.is_dequantised else row.metrics, part.is_empty, part.longest
    )
    observation = (
        *part.observed,
        *measured[:-1],
        share > 0 or (share != share and distance != 0),
        part.is_whole[0] and (share == share or part.is_whole[1]),
        share,
        # Where NaN or Inf stand alike on both sides, the finite rest has a distance.
        part.is_spoiled and distance != distance,
        measured[-1],
        row.address,
        row.worst_slice,
    )
    # As the class's own __new__ does, half as fast.
    observed: Observation = tuple.__new__(Observation, observation)
    return RowDigest(
        row.verdict,
        row.place,
        row.op,
        row.op_type,
        row.target_file or "",
        _order(row),
        part.marks,
        observed,
    )


class _SharedDigest(NamedTuple):
    """What digests of rows share: marks, the observation before what was measured, and how the
    metrics are to be seen.
    """

    marks: int
    observed: Tuple[Any, ...]
    is_dequantised: bool
    is_empty: bool
    is_spoiled: bool
    is_whole: Tuple[bool, bool]
    longest: int


@lru_cache(maxsize=512)
def _shared_digest(
    shared: Tuple[Any, ...],
    nan: Optional[Tuple[int, int]],
    inf: Optional[Tuple[int, int]],
    lacks_file: bool,
    is_statistical: bool,
) -> _SharedDigest:
    row = Row(
        **dict(zip(SHARED, shared)),
        nan=None if nan is None else dict(zip(_SIDES, nan)),
        inf=None if inf is None else dict(zip(_SIDES, inf)),
        target_file=None if lacks_file else "",
        metrics={NOT_FINITE: 1} if is_statistical else {},
    )
    # Rounding to integers is what the op is for: it says nothing of the op's own error.
    is_dequantised = row.code_value(DEQUANTISED) is not None
    judged = row.but(verdict=EXPECTED_ABSENT) if is_dequantised else row
    shape = row.shape or ()
    observed = (
        row.kind,
        -1 if row.tensor_index is None else row.tensor_index,
        row.index,
        row.tensor,
        judged.verdict,
        row.target_dtype or "",
        shape,
        row.golden,
        row.golden_file,
        nan or _NONE,
        inf or _NONE,
        row.warning == DECIDED_OTHERWISE,
    )
    return _SharedDigest(
        _marks(row, judged),
        observed,
        is_dequantised,
        judged.verdict == PASS and (row.warning == NOTHING_FINITE or 0 in shape),
        judged.verdict == FAIL and any((nan or _NONE) + (inf or _NONE)),
        (_is_whole(row.target_dtype), _is_whole(row.golden_dtype)),
        max(shape or (1,)),
    )


def packed_digest(row: RowDigest) -> bytes:
    """Return a digest as bytes, a third of the memory; :func:`unpacked_digest` is the inverse."""
    observation = tuple(row.observation)
    place = _pickled(tuple(row.place))
    shared_part = _pickled((row.verdict, row.op, row.op_type, row.marks, observation[:_MEASURED]))
    row_part = pickle.dumps((row.file, row.order, *observation[_OWN:]), protocol=4)
    return b"".join(
        (
            _LENGTHS.pack(len(place), len(shared_part)),
            _MEASURES.pack(*observation[_MEASURED:_OWN]),
            place,
            shared_part,
            row_part,
        )
    )


@lru_cache(maxsize=512)
def _pickled(parts: Tuple[Any, ...]) -> bytes:
    """Return what many rows have in common as bytes."""
    return pickle.dumps(parts, protocol=4)


def packed_place(data: bytes) -> bytes:
    """Return the part of a packed digest that is equal for rows of one place."""
    return data[_HEAD_BYTES : _HEAD_BYTES + _LENGTHS.unpack_from(data)[0]]


def unpacked_digest(data: bytes, shared: Dict[Any, Any]) -> RowDigest:
    """Return the digest that :func:`packed_digest` packed; bytes behind it are ignored. The data
    are unpickled: they must be goldwatch's own.

    Parameters
    ----------
    shared
        Kept between calls: what rows have in common is unpickled once, and is one object.
    """
    place_bytes, shared_bytes = _LENGTHS.unpack_from(data)
    begin = _HEAD_BYTES + place_bytes
    end = begin + shared_bytes
    place, shared_part = shared.get(data[_HEAD_BYTES:begin]), shared.get(data[begin:end])
    if place is None:
        place = shared[data[_HEAD_BYTES:begin]] = Place._make(pickle.loads(data[_HEAD_BYTES:begin]))
    if shared_part is None:
        shared_part = shared[data[begin:end]] = _with_shared_texts(
            pickle.loads(data[begin:end]), shared
        )
    verdict, op, op_type, marks, leading_fields = shared_part
    file, order, address, worst_slice = pickle.loads(data[end:])
    fields = (
        leading_fields
        + _MEASURES.unpack_from(data, _LENGTHS.size)
        + (address, shared.setdefault(worst_slice, worst_slice))
    )
    # As the classes' own __new__ do, half as fast.
    return tuple.__new__(
        RowDigest,
        (verdict, place, op, op_type, file, order, marks, tuple.__new__(Observation, fields)),
    )


def _with_shared_texts(parts: Tuple[Any, ...], shared: Dict[Any, Any]) -> Tuple[Any, ...]:
    """Return a tuple, and those in it, with one object for equal texts."""
    shared_object = shared.setdefault
    # A list on the way: it is made faster than a generator is asked.
    return tuple(
        [
            shared_object(part, part)
            if type(part) is str
            else _with_shared_texts(part, shared)
            if type(part) is tuple
            else part
            for part in parts
        ]
    )


def _marks(row: Row, judged: Row) -> int:
    verdict, kind = row.verdict, row.kind
    marks = 0
    if row.warning == NOTHING_FINITE:
        marks = EMPTY
    elif verdict == PASS and row.nan is not None and row.nan["target"]:
        marks = WITH_NAN
    elif verdict == FAIL and _golden_is_nan(row):
        marks = GOLDEN_NAN
    elif (
        verdict == FAIL
        and row.nan is not None
        and row.inf is not None
        and not (row.nan["target"] or row.inf["target"])
    ):
        marks = GOLDEN_ALONE if row.nan["golden"] or row.inf["golden"] else 0
    if row.warning == SAMPLED:
        marks |= SAMPLE
    if NOT_FINITE in row.metrics:
        marks |= STATISTICAL
    if row.warning == BY_ROUNDING:
        marks |= ROUNDED
    if row.warning == DECIDED_OTHERWISE:
        marks |= OTHERWISE
    if judged.verdict == NOT_COMPARED and kind != "input":
        marks |= OUTPUT_MISSING
    if kind == "output" and (
        verdict == FAIL or (verdict == PASS and row.warning != NOTHING_FINITE)
    ):
        marks |= OUTPUT_COMPARED
    if verdict in (PASS, FAIL) or (kind != "op" and row.golden_file is not None):
        marks |= PAIRED
    if row.target_file is not None and row.cause != CORRUPT:
        marks |= READABLE
    if verdict == NOT_COMPARED and row.cause in MISSING_CAUSES:
        marks |= LACKS_FILE
    return marks


def _golden_is_nan(row: Row) -> bool:
    return (
        row.nan is not None
        and row.shape is not None
        and row.nan["golden"] == element_count(row.shape)
        and not row.nan["target"]
    )


@cached_by_object
def _measures(
    metrics: Mapping[str, Any], is_empty: bool, longest: int
) -> Tuple[float, Tuple[Any, ...], float]:
    """Return RelativeEuclideanDistance; distance, slice_distance, masked, factor_distance, factor,
    rms, deviation and cosine as :class:`Observation` has them; and DifferentElements.

    Parameters
    ----------
    is_empty
        The two tensors are alike, element by element, or without elements.
    longest
        The largest dim.
    """
    distance, slices = (
        _held(_number(metrics.get(DISTANCE))),
        _held(_number(metrics.get(SLICE_DISTANCE))),
    )
    if is_empty:
        distance = slices = 0.0
    cosine = _number(metrics.get(COSINE))
    (target, _), (rms, deviation) = _spreads(metrics.get(SPREAD))
    unmasked = _unmasked(distance, slices, longest)
    measured = (
        unmasked,
        slices,
        unmasked != distance and distance == distance,
        _along(distance, cosine),
        cosine * target / rms if rms > 0 else math.nan,
        rms,
        deviation,
        cosine,
    )
    return distance, measured, _number(metrics.get(DIFFERENT))


def _number(value: Any) -> float:
    return value if type(value) is float else metric_number(value)


def _held(value: float) -> float:
    """Return a number clipped to a range whose squares stay finite."""
    if _LARGEST < value < math.inf:
        return _LARGEST
    return 1.0 / _LARGEST if 0.0 < value < 1.0 / _LARGEST else value


def _is_whole(dtype: Optional[str]) -> bool:
    return dtype is not None and dtype.startswith(("int", "uint", "bool"))


# Larger distances are one: squares of them must stay finite in float64.
_LARGEST = 1e100
_SIDES, _NONE = ("target", "golden"), (0, 0)
_NO_SPREADS = ((math.nan, math.nan), (math.nan, math.nan))


def _counts(counts: Optional[Mapping[str, int]]) -> Optional[Tuple[int, int]]:
    return None if counts is None else (counts.get("target", 0), counts.get("golden", 0))


def _spreads(value: Any) -> Tuple[Tuple[float, float], Tuple[float, float]]:
    """Return (root mean square, standard deviation) of target and golden, from means and standard
    deviations.
    """
    return (
        (_spread(value.get("target", {})), _spread(value.get("golden", {})))
        if isinstance(value, dict)
        else _NO_SPREADS
    )


def _spread(side: Mapping[str, Any]) -> Tuple[float, float]:
    mean, deviation = _number(side.get("mean")), _number(side.get("std"))
    return _held(math.hypot(mean, deviation)), _held(deviation)


def _along(distance: float, cosine: float) -> float:
    """Return the distance of a tensor's common factor from 1."""
    if cosine != cosine or not distance < math.inf or distance < _LEAST_DISTANCE:
        return math.nan
    return math.sqrt(
        max(distance * distance - (1.0 - cosine) * (1.0 + cosine), 0.0)
        + (FACTOR_SHARE * distance) ** 2
    )


def _unmasked(distance: float, slices: float, count: int) -> float:
    least = slices / math.sqrt(max(count, 1))
    if distance > _MASKS_DIFFER * slices:
        return slices
    return least if least > _MASK_RULES * distance else distance


def execution_key(row: Row) -> Tuple[Any, ...]:
    """Return a sort key for the execution order.

    Steps by number come first, then devices, those of one number by host, then time. Within a place
    (graph, id) of the json decide, with equal ids the json's order; without a json the timestamp.
    Of one op's rows the outputs come first.
    """
    number = -1 if row.tensor_index is None else row.tensor_index
    return (
        *place_key(row.place),
        *key_at_place(_order(row), row.target_file or "", row.kind, number),
    )


def key_at_place(order: Tuple[int, ...], file: str, kind: str, number: int) -> Tuple[Any, ...]:
    """Return that part of an :func:`execution_key` in which rows of one place differ: order, file,
    kind and index of the tensor.
    """
    return order, file, _KIND_RANK.get(kind, 3), number


@lru_cache(maxsize=1024)
def place_key(place: Place) -> Tuple[Any, ...]:
    """Return that part of an :func:`execution_key` which rows of one place share."""
    return tuple(
        name_order(name)
        for name in (place.step, place.device, place.host, place.time, place.model, place.model_id)
    )


def _order(row: Row) -> Tuple[int, ...]:
    if row.op_sequence is None:
        return (row.timestamp_us, row.index)
    position = row.group.index(row.op) if row.op in row.group else 0
    return (row.graph_index, row.op_sequence, row.index, position, row.timestamp_us)
