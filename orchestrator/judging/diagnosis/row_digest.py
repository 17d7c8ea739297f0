"""Digests of rows: the few numbers and marks of a row that suspects and explanations need, in
columns.

They are made where the row is, a batch at a time, and kept until a run ends: a row takes 105 bytes
in a file or in arrays, and what rows have in common (names, types, shapes, golden files) is there
once. As an object whose texts are shared each takes 1.0 KiB, and as a :class:`Row` 3.9 KiB.
"""

from __future__ import annotations

import math
import struct
from abc import abstractmethod
from array import array
from functools import lru_cache
from itertools import islice
from sys import intern
from typing import (
    Any,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ...base.element_types import element_count
from ...base.fast_dataclasses import cached_by_object
from ...base.record_file import RecordFile, SomeRecords
from ...dumps.place import Place, name_order
from ...dumps.tensor_statistics import NOT_FINITE
from ...metrics.row import (
    BY_ROUNDING,
    CORRUPT,
    DECIDED_OTHERWISE,
    DEQUANTISED,
    EXPECTED_ABSENT,
    FAIL,
    KEPT_FORMS,
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
_MOST_TIES = 0.05
"""The share of whole numbers that rounding may take to the next one: of 8 bits, in float16, a
thirtieth where they are even; chosen from that."""
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
"""Marks of a row, see :class:`SharedDigest`."""

Array = Any


class Observation(NamedTuple):
    """What the verdict sees of one tensor.

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
    def near_ties(self) -> bool:
        """Whether few whole numbers differ, each by 1, as where a quotient that is rounded to one
        lies near the middle of two.
        """
        squares = (self.distance * self.rms) ** 2
        return (
            self.whole
            and 0.0 < self.share <= _MOST_TIES
            and math.isclose(squares, self.share, rel_tol=1e-6)
        )

    @property
    def golden_spoiled(self) -> bool:
        """Whether golden data are NaN or Inf throughout, and the target's are numbers: what
        computed them says nothing of the device.
        """
        return self.golden_alone and self.nan[1] + self.inf[1] == element_count(self.shape)


class SharedDigest(NamedTuple):
    """What rows have in common, mostly on all devices and in all steps.

    Attributes
    ----------
    verdict
        The row's.
    op, op_type
        As the row has them.
    order
        Sorts the ops of a place by execution: the json's graph, its id, the row's index, the op's
        place in its group; without a json the time of the dump comes first, then the index.
    marks
        Bits: the op lacks this output (``OUTPUT_MISSING``); ``OUTPUT_COMPARED``; the tensor has a
        counterpart (``PAIRED``); its file could be read (``READABLE``); a file is missing
        (``LACKS_FILE``); nothing finite on either side (``EMPTY``); it passes beside NaN
        (``WITH_NAN``); its golden data are NaN throughout (``GOLDEN_NAN``), or hold NaN or Inf, and
        the target none (``GOLDEN_ALONE``); only a sample was compared (``SAMPLE``); it was decided
        otherwise near a tie (``OTHERWISE``); it is outside its limits by rounding alone
        (``ROUNDED``); it was compared by statistics alone (``STATISTICAL``).
    observed
        The first fields of its :class:`Observation`, up to ``otherwise``.
    """

    verdict: str
    op: str
    op_type: str
    order: Tuple[int, ...]
    marks: int
    observed: Tuple[Any, ...]


MASKED, DIFFERS, WHOLE, SPOILED, HAS_ADDRESS = 1, 2, 4, 8, 16
_FLOATS = (
    *("distance", "slice_distance", "factor_distance", "factor", "rms", "deviation"),
    *("share", "cosine"),
)
_COLUMNS = (
    *(("shared", "u4", "I"), ("place", "u4", "I"), ("file", "i4", "i"), ("time", "i8", "q")),
    *((name, "f8", "d") for name in _FLOATS),
    *(("address", "u8", "Q"), ("slice_axis", "i4", "i"), ("slice_index", "i8", "q")),
    ("bits", "u1", "B"),
)
NUMBERS = np.dtype([(name, kind) for name, kind, _ in _COLUMNS])
"""A row's own numbers: which shared digest, place and file (-1: none) it has, the time of its dump,
then as :class:`Observation` has them; no worst slice has the axis -1.
"""
_PACK = struct.Struct("=" + "".join(letter for _, _, letter in _COLUMNS)).pack
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_ADDRESSES = (1 << 64) - 1
_PAGE_ROWS = 1024


class RowDigests(NamedTuple):
    """Digests of rows; picklable.

    Attributes
    ----------
    shared, places, files
        What the numbers count.
    numbers
        :data:`NUMBERS`, [n]: an array, or a part of a file.
    """

    shared: Sequence[SharedDigest]
    places: Sequence[Place]
    files: Sequence[str]
    numbers: Array

    def some(self, rows: Any) -> RowDigests:
        """Return those of some rows, by a list of their numbers or a mask."""
        return self._replace(numbers=self.numbers[rows])

    def marked(self, mark: int) -> Array:
        """Return which rows have one of some marks, [n]."""
        marks = self.shared_column([part.marks for part in self.shared], np.uint16)
        some: Array = marks & mark != 0
        return some

    def shared_column(
        self, values: Sequence[Any], dtype: Any, rows: Optional[Array] = None
    ) -> Array:
        """Return a value for each row, or for some, [n], from one for each shared digest."""
        shared = self.numbers["shared"] if rows is None else self.column("shared", rows)
        column: Array = np.array(values, dtype)[shared]
        return column

    def column(self, name: str, rows: Any) -> Array:
        """Return a field of some rows, [n]; of a file no more is read than lies between them."""
        numbers: Any = self.numbers
        column: Array = (
            numbers[name][rows] if isinstance(numbers, np.ndarray) else numbers[rows][name]
        )
        return column

    def observation(self, row: int) -> Observation:
        """Return what the verdict sees of a row."""
        values = self.numbers[row].item()
        share, cosine, address, axis, index, bits = values[10:]
        return Observation._make(
            (
                *self.shared[values[0]].observed,
                *values[4:6],
                bool(bits & MASKED),
                *values[6:10],
                bool(bits & DIFFERS),
                bool(bits & WHOLE),
                share,
                bool(bits & SPOILED),
                cosine,
                address if bits & HAS_ADDRESS else None,
                None if axis < 0 else (axis, index),
            )
        )

    def file(self, row: int) -> str:
        """Return the target file of a row; empty where there is none."""
        code = int(self.numbers[row]["file"])
        return "" if code < 0 else self.files[code]

    def file_numbers(self, rows: Any) -> Array:
        """Return a number for the file of each of some rows, [n], the same for those of one name;
        -1 where there is none.
        """
        numbers, files = self.column("file", rows), self.files
        return files.first_numbers(numbers) if isinstance(files, NumberedFiles) else numbers

    def key(self, row: int) -> Tuple[Any, ...]:
        """Return a row's :func:`execution_key`."""
        return (*place_key(self.places[self.numbers[row]["place"]]), *self.key_at_place(row))

    def key_at_place(self, row: int) -> Tuple[Any, ...]:
        """Return that part of a row's :func:`execution_key` in which rows of a place differ."""
        numbers = self.numbers[row]
        part = self.shared[numbers["shared"]]
        order = _timed(part.order, int(numbers["time"]))
        return key_at_place(order, self.file(row), *part.observed[:2])

    def by_execution(self, rows: Array) -> Array:
        """Return some rows, int64, [n], sorted as :func:`execution_key` sorts them."""
        place, time = (self.column(name, rows) for name in ("place", "time"))
        file = self.file_numbers(rows)
        keys = [place_key(place) for place in self.places]
        ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
        orders = self.shared_column([part.order for part in self.shared], np.int64, rows)
        orders = orders.reshape(-1, 4)
        # As _timed makes them: (time, index) or (graph, id, index, position, time).
        by_time = orders[:, 2] == _LEAST
        columns = [
            np.array([ranks[key] for key in keys], np.int64)[place],
            np.where(by_time, time, orders[:, 0]),
            *orders.T[1:],
            np.where(by_time, _LEAST, time),
        ]
        last = [
            self.shared_column(
                [_KIND_RANK.get(part.observed[0], 3) for part in self.shared], np.int64, rows
            ),
            self.shared_column([part.observed[1] for part in self.shared], np.int64, rows),
        ]
        order = np.lexsort((*last[::-1], *columns[::-1]))
        tied = np.ones(max(len(order) - 1, 0), bool)
        for column in columns:
            tied &= np.diff(column[order]) == 0
        if (tied & (np.diff(file[order]) != 0)).any():
            # Of these the names of their files decide.
            codes = set(file[order[1:][tied]].tolist())
            codes.update(file[order[:-1][tied]].tolist())
            names = sorted(("" if code < 0 else self.files[code], code) for code in codes)
            places = {code: at for at, (_, code) in enumerate(names)}
            file = np.array([places.get(code, 0) for code in file.tolist()], np.int64)
            order = np.lexsort((*last[::-1], file, *columns[::-1]))
        return rows[order]


def row_digests(rows: Sequence[Row]) -> RowDigests:
    """Return the digests of some rows."""
    # A shared digest is told by its object: of those in use none has the number of another.
    shared: Dict[int, Tuple[int, _SharedDigest]] = {}
    places: Dict[Place, int] = {}
    files: Dict[str, int] = {}
    lines = []
    for row in rows:
        part = _shared_digest(
            shared_columns(row.__dict__),
            _counts(row.nan),
            _counts(row.inf),
            row.target_file is None,
            NOT_FINITE in row.metrics,
        )
        code, _ = shared.setdefault(id(part), (len(shared), part))
        distance, measured, bits = _measures(
            {} if part.is_dequantised else row.metrics, part.is_empty, part.longest, part.is_whole
        )
        # Where NaN or Inf stand alike on both sides, the finite rest has a distance.
        if part.is_spoiled and distance != distance:
            bits |= SPOILED
        address, file = row.address, row.target_file
        lines.append(
            _PACK(
                code,
                places.setdefault(row.place, len(places)),
                files.setdefault(file, len(files)) if file else -1,
                min(row.timestamp_us, _MOST),
                *measured,
                (address or 0) & _ADDRESSES,
                *(row.worst_slice or (-1, 0)),
                bits if address is None else bits | HAS_ADDRESS,
            )
        )
    parts = [part.digest for _, part in shared.values()]
    numbers = np.frombuffer(b"".join(lines), NUMBERS) if lines else np.empty(0, NUMBERS)
    return RowDigests(parts, list(places), list(files), numbers)


class DigestColumns:
    """The digests of all rows of a run, as they come.

    Parameters
    ----------
    file
        Holds their numbers; None: they are in memory.
    files
        Numbers the files that they are about; None: their names are kept here.
    """

    def __init__(
        self, file: Optional[RecordFile] = None, files: Optional[NumberedFiles] = None
    ) -> None:
        self._shared: Dict[SharedDigest, int] = {}
        self._places: Dict[Place, int] = {}
        self._files = FileNames() if files is None else files
        self._file, self._numbers = file, bytearray()

    def add(self, some: RowDigests) -> Array:
        """Return the numbers of digests as :meth:`append` takes them."""
        numbers, shared = some.numbers.copy(), self._shared
        codes = [
            shared[part] if part in shared else shared.setdefault(_interned(part), len(shared))
            for part in some.shared
        ]
        numbers["shared"] = np.array(codes, np.uint32)[numbers["shared"]]
        codes = [self._places.setdefault(place, len(self._places)) for place in some.places]
        numbers["place"] = np.array(codes, np.uint32)[numbers["place"]]
        # The last one is that of no file.
        codes = [*self._files.add(some.files), -1]
        numbers["file"] = np.array(codes, np.int32)[numbers["file"]]
        return numbers

    def append(self, numbers: Array) -> None:
        """Take digests behind the others; raises OSError where the file cannot be written."""
        if self._file is None:
            self._numbers += numbers.tobytes()
        else:
            self._file.append(numbers)

    def digests(self, rows: Optional[Array] = None) -> RowDigests:
        """Return all, or those of some rows, by the numbers in which they came."""
        numbers: Any
        if self._file is None:
            every = self._numbers
            numbers = np.frombuffer(every, NUMBERS) if every else np.empty(0, NUMBERS)
            numbers = numbers if rows is None else numbers[rows]
        elif rows is None:
            numbers = self._file
        else:
            try:
                numbers = self._file.in_order(rows)
            except OSError:
                # The disk is full: it takes longer.
                numbers = SomeRecords(self._file, rows)
        return RowDigests(list(self._shared), list(self._places), self._files, numbers)


def digests_of_all(rows: Iterable[Row]) -> RowDigests:
    """Return the digests of any number of rows, walked once."""
    columns, waiting = DigestColumns(), iter(rows)
    page = list(islice(waiting, _PAGE_ROWS))
    while page:
        columns.append(columns.add(row_digests(page)))
        page = list(islice(waiting, _PAGE_ROWS))
    return columns.digests()


class NumberedFiles(Sequence[str]):
    """Names of files by numbers."""

    @abstractmethod
    def add(self, files: Sequence[str]) -> List[int]:
        """Add files, as far as they are not known; return their numbers."""

    def first_numbers(self, numbers: Array) -> Array:
        """Return for the numbers of files (-1: none) the first of the same name."""
        return numbers


class FileNames(NumberedFiles):
    """Names of files in little memory; one that was added several times has several numbers."""

    def __init__(self) -> None:
        self._folders: Dict[str, int] = {}
        self._folder_names: List[str] = []
        self._names = bytearray()
        self._ends = array("q")
        self._in_folder = array("l")
        self._hashes = array("q")
        self._recent: Dict[str, int] = {}
        self._firsts: Optional[Tuple[int, Optional[Array]]] = None

    def add(self, files: Sequence[str]) -> List[int]:
        """Add files; return their numbers."""
        folders, recent = self._folders, self._recent
        for file in files:
            if file in recent:
                continue
            recent[file] = len(self._ends)
            folder, _, name = file.rpartition("/")
            if folder not in folders:
                folders[folder] = len(folders)
                self._folder_names.append(folder)
            self._names += name.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._names))
            self._in_folder.append(folders[folder])
            self._hashes.append(hash(file))
        # The tensors of a file mostly follow one another.
        self._recent = {file: recent[file] for file in files}
        return [recent[file] for file in files]

    def first_numbers(self, numbers: Array) -> Array:
        """Return for the numbers of files (-1: none) the first of the same name."""
        if self._firsts is None or self._firsts[0] != len(self._hashes):
            self._firsts = len(self._hashes), self._first_of_each()
        first = self._firsts[1]
        return numbers if first is None else np.where(numbers < 0, -1, first[numbers])

    def _first_of_each(self) -> Optional[Array]:
        """Return the first number of each name; None where no name has several."""
        hashes = np.array(self._hashes, np.int64)
        if np.diff(np.sort(hashes)).all():
            return None
        _, first, same = np.unique(hashes, return_index=True, return_inverse=True)
        one: Array = first[same.reshape(-1)].astype(np.int32)
        for number in np.flatnonzero(one != np.arange(len(one))).tolist():
            if self[number] != self[int(one[number])]:
                one[number] = number
        return one

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: Any) -> Any:
        begin = self._ends[number - 1] if number else 0
        name = self._names[begin : self._ends[number]].decode("utf-8", "surrogatepass")
        folder = self._folder_names[self._in_folder[number]]
        return "%s/%s" % (folder, name) if folder else name


def _interned(part: SharedDigest) -> SharedDigest:
    """Return the same with one object for equal texts."""
    return SharedDigest._make(
        tuple([intern(field) if type(field) is str else field for field in fields])
        if type(fields) is tuple
        else intern(fields)
        if type(fields) is str
        else fields
        for fields in part
    )


class _SharedDigest(NamedTuple):
    """What digests of rows share, and how their metrics are to be seen."""

    digest: SharedDigest
    is_dequantised: bool
    is_empty: bool
    is_spoiled: bool
    is_whole: Tuple[bool, bool]
    longest: int


@lru_cache(maxsize=KEPT_FORMS)
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
        SharedDigest(row.verdict, row.op, row.op_type, _order(row), _marks(row, judged), observed),
        is_dequantised,
        judged.verdict == PASS and (row.warning == NOTHING_FINITE or 0 in shape),
        judged.verdict == FAIL and any((nan or _NONE) + (inf or _NONE)),
        (_is_whole(row.target_dtype), _is_whole(row.golden_dtype)),
        max(shape or (1,)),
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
    metrics: Mapping[str, Any], is_empty: bool, longest: int, is_whole: Tuple[bool, bool]
) -> Tuple[float, Tuple[float, ...], int]:
    """Return RelativeEuclideanDistance; what was measured, from ``distance`` to ``cosine``; and
    bits of :data:`NUMBERS`.

    Parameters
    ----------
    is_empty
        The two tensors are alike, element by element, or without elements.
    longest
        The largest dim.
    is_whole
        Whether target and golden are of whole numbers or truth values.
    """
    distance, slices = (
        _held(_number(metrics.get(DISTANCE))),
        _held(_number(metrics.get(SLICE_DISTANCE))),
    )
    if is_empty:
        distance = slices = 0.0
    cosine, share = _number(metrics.get(COSINE)), _number(metrics.get(DIFFERENT))
    (target, _), (rms, deviation) = _spreads(metrics.get(SPREAD))
    unmasked = _unmasked(distance, slices, longest)
    bits = MASKED if unmasked != distance and distance == distance else 0
    if share > 0 or (share != share and distance != 0):
        bits |= DIFFERS
    if is_whole[0] and (share == share or is_whole[1]):
        bits |= WHOLE
    measured = (
        unmasked,
        slices,
        _along(distance, cosine),
        cosine * target / rms if rms > 0 else math.nan,
        rms,
        deviation,
        share,
        cosine,
    )
    return distance, measured, bits


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
        *key_at_place(
            _timed(_order(row), min(row.timestamp_us, _MOST)),
            row.target_file or "",
            row.kind,
            number,
        ),
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
    """Return :attr:`SharedDigest.order`; the third number of an op that no json tells of is the
    least.
    """
    if row.op_sequence is None:
        return (0, row.index, _LEAST, _LEAST)
    position = row.group.index(row.op) if row.op in row.group else 0
    # Numbers in files may be of any size.
    return (row.graph_index, max(min(row.op_sequence, _MOST), _LEAST + 1), row.index, position)


def _timed(order: Tuple[int, ...], time: int) -> Tuple[int, ...]:
    """Return what sorts the ops of a place."""
    return (time, order[1]) if order[2] == _LEAST else (*order, time)
