"""The operators that a run has rows of: in columns, each made an object with its inputs and outputs
when it is asked for.
"""

from __future__ import annotations

from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import numpy as np

from ...base.element_types import element_count
from ...dumps.place import Place
from ...metrics.row import FAIL, Row
from .row_digest import (
    COMPARED,
    OUTPUT_MISSING,
    Observation,
    RowDigests,
    digests_of_all,
    place_key,
    row_digests,
)

Array = Any

OUTPUT, INPUT = range(2)
"""Kinds of tensors in :class:`Tensors`."""
_KINDS = {"output": OUTPUT, "input": INPUT}
_VERDICT, _SHAPE, _OTHERWISE = map(Observation._fields.index, ("verdict", "shape", "otherwise"))
_COMPARED = ("distance", "cosine", "slice_distance")
_NONE = np.empty(0, np.int32)
# Rows that are looked at together, for the sake of memory.
_TOGETHER = 1 << 16


class ObservedOp:
    """One execution of one operator: what the verdict sees of its dump file's rows.

    Attributes
    ----------
    at
        Its number among the run's.
    place
        Where in the dump tree it was dumped.
    file
        Its dump; empty where there is none.
    outputs, inputs
        By index.
    misses_output
        One of its outputs should have been compared and was not.
    key_at_place
        Sorts operators of one place by execution.
    """

    __slots__ = (
        "at",
        "file",
        "inputs",
        "key_at_place",
        "misses_output",
        "name",
        "outputs",
        "place",
        "type",
    )

    def __init__(self, at: int, digests: RowDigests, first: int, misses_output: bool) -> None:
        numbers = digests.numbers[first]
        part = digests.shared[int(numbers["shared"])]
        self.at = at
        self.place = digests.places[int(numbers["place"])]
        self.name, self.type, self.file = part.op, part.op_type, digests.file(first)
        self.key_at_place = digests.key_at_place(first)
        self.outputs: Dict[int, Observation] = {}
        self.inputs: Dict[int, Observation] = {}
        self.misses_output = misses_output

    @property
    def key(self) -> Tuple[Any, ...]:
        """Sorts operators by execution
        (:func:`goldwatch.judging.diagnosis.row_digest.execution_key`).
        """
        return (*place_key(self.place), *self.key_at_place)

    def in_place(self, number: int) -> bool:
        """Tell whether an input lies where an output of the same op lies: its dumped bytes may be
        the output's.
        """
        row = self.inputs.get(number)
        return (
            row is not None
            and bool(row.address)
            and any(row.address == other.address for other in self.outputs.values())
        )


class Tensors(NamedTuple):
    """The rows of inputs and outputs, [n] each, sorted by op, kind and number; of several rows of
    one tensor the last.

    Attributes
    ----------
    row
        Its number among the digests.
    op
        The operator's number.
    kind, number
        :data:`OUTPUT` or :data:`INPUT`, and the tensor's index.
    """

    row: Array
    op: Array
    kind: Array
    number: Array


class SomeOps(Sequence[ObservedOp]):
    """Some operators of a run, by their numbers.

    Attributes
    ----------
    observed
        The run's operators.
    numbers
        [n]
    """

    def __init__(self, observed: ObservedOps, numbers: Array) -> None:
        self.observed = observed
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: Any) -> Any:
        return self.observed.op(int(self.numbers[at]))

    def only(self, some: Array) -> SomeOps:
        """Return some of them, by their positions or a mask."""
        return SomeOps(self.observed, self.numbers[some])

    def _tensors(self) -> Iterator[Tuple[Array, Array]]:
        """Yield the rows of their inputs and outputs, some at a time, and which operator's each is
        (its position among these), outputs first.
        """
        position = np.full(len(self.observed), -1, np.int32)
        position[self.numbers] = np.arange(len(self.numbers))
        tensors = self.observed.tensors
        for begin in range(0, len(tensors.row), _TOGETHER):
            of_op = position[tensors.op[begin : begin + _TOGETHER]]
            there = of_op >= 0
            yield tensors.row[begin : begin + _TOGETHER][there], of_op[there]

    def size(self) -> Tuple[int, int]:
        """Return how many inputs and outputs have rows, and how many elements these have."""
        digests = self.observed.digests
        counts = np.zeros(len(digests.shared), np.int64)
        for rows, _ in self._tensors():
            counts += np.bincount(digests.column("shared", rows), minlength=len(counts))
        shapes = (part.observed[_SHAPE] for part in digests.shared)
        elements = sum(
            count * element_count(shape) for count, shape in zip(counts.tolist(), shapes) if count
        )
        return int(counts.sum()), elements

    def largest_distances(self) -> Array:
        """Return the largest distance of each operator's outputs, [n]; 0 where there is none."""
        digests = self.observed.digests
        kinds = [part.observed[0] == "output" for part in digests.shared]
        largest = np.zeros(len(self.numbers))
        for rows, of_op in self._tensors():
            outputs = digests.shared_column(kinds, bool, rows)
            np.fmax.at(largest, of_op[outputs], digests.column("distance", rows[outputs]))
        return largest

    def alike(self) -> Tuple[Array, Array]:
        """Return a number for each operator, [n], the same for those of a name and type, counted as
        they come; and whether it is the first of these whose rows hold its numbers (NaN is never
        the same).
        """
        sums, is_first = self._sums_of_rows()
        group = self._kinds_as_they_come()
        # Kind by kind, for the sake of memory.
        in_groups = np.argsort(group, kind="stable").astype(np.int32)
        for some in np.split(in_groups, np.cumsum(np.bincount(group))[:-1]):
            is_first[some[np.unique(sums[some], return_index=True)[1]]] = True
        return group, is_first

    def _sums_of_rows(self) -> Tuple[Array, Array]:
        """Return 64 bits of the numbers of each operator's rows, and whether one is NaN, [n]."""
        digests = self.observed.digests
        verdicts: Dict[str, int] = {}
        told = [
            (
                _KINDS.get(part.observed[0], 2),
                part.observed[1],
                verdicts.setdefault(part.observed[_VERDICT], len(verdicts)),
            )
            for part in digests.shared
        ]
        sums, has_nan = (np.zeros(len(self.numbers), kind) for kind in (np.uint64, bool))
        shared_columns = [np.array(values, np.int64) for values in zip(*told)]
        for rows, of_op in self._tensors():
            part = digests.numbers[rows]
            mixed, alone = np.zeros(len(rows), np.uint64), np.zeros(len(rows), bool)
            for values in shared_columns:
                mixed = _mixed(mixed ^ values[part["shared"]].view(np.uint64))
            for name in _COMPARED:
                column = part[name] + 0.0
                mixed, alone = _mixed(mixed ^ column.view(np.uint64)), alone | np.isnan(column)
            np.add.at(sums, of_op, mixed)
            has_nan[of_op[alone]] = True
        return sums, has_nan

    def _kinds_as_they_come(self) -> Array:
        """Return a number for each operator, int32, [n], the same for those of a name and type,
        counted as they come.
        """
        kinds: Dict[Tuple[str, str], int] = {}
        shared = self.observed.digests.shared
        codes = [kinds.setdefault((part.op, part.op_type), len(kinds)) for part in shared]
        kind = self.observed.digests.shared_column(
            *narrow(codes), self.observed.first_row[self.numbers]
        )
        first = np.full(len(kinds), len(kind), np.int32)
        # The last one that is written stays.
        first[kind[::-1]] = np.arange(len(kind) - 1, -1, -1, dtype=np.int32)
        counted = np.empty(len(kinds), np.int32)
        counted[np.argsort(first, kind="stable")] = np.arange(len(kinds), dtype=np.int32)
        return counted[kind]

    def but(self, ops: Iterable[Tuple[Place, str]]) -> SomeOps:
        """Return those that are not among some, by place and name."""
        keys = [self.observed.key(place, name) for place, name in ops]
        some = among(self.observed.same_op(self.numbers), keys)
        return self.only(~some)

    def but_named(self, names: Iterable[str]) -> SomeOps:
        """Return those that do not bear one of some names."""
        codes = [self.observed.name_code(name) for name in names]
        some = among(self.observed.name_of[self.numbers], codes)
        return self.only(~some)

    def executed_once(self) -> SomeOps:
        """Return those of which the run has no other execution at their place."""
        once = ~self.observed.repeated(np.arange(len(self.observed)))
        return SomeOps(self.observed, self.numbers[once[self.numbers]])


def _mixed(values: Array) -> Array:
    """Return 64-bit numbers whose bits all depend on all bits of others (the finaliser of
    SplitMix64).
    """
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = values ^ (values >> np.uint64(31))
    return mixed


def among(values: Array, some: Sequence[int]) -> Array:
    """Return which of many whole numbers are among few others, [n] (``np.isin`` sorts the many)."""
    sought = np.unique(np.array(some, np.int64))
    found = np.zeros(len(values), bool)
    for begin in range(0, len(values) if len(sought) else 0, _TOGETHER):
        part = values[begin : begin + _TOGETHER]
        at = np.minimum(np.searchsorted(sought, part), len(sought) - 1)
        found[begin : begin + _TOGETHER] = sought[at] == part
    return found


def _changes(columns: Sequence[Array]) -> Array:
    """Return which lines differ from the one before, [n]; the first does."""
    changes = np.ones(len(columns[0]), bool)
    changes[1:] = False
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return changes


def _operators(columns: Sequence[Array]) -> Tuple[Array, Array]:
    """Return the operator of each row, [n], numbered place by place in the order in which the first
    rows of each came, and the first row of each.

    Parameters
    ----------
    columns
        Place, name and file of each row.
    """
    # Rows of one op mostly follow one another: what is unique is found among the first of each.
    heads = np.flatnonzero(_changes(columns)).astype(np.int32)
    lengths = np.diff(np.append(heads, len(columns[0])))
    place, name, file = (column[heads] for column in columns)
    in_order = np.lexsort((file, name, place))
    changes = _changes([column[in_order] for column in (place, name, file)])
    first, op = in_order[changes], np.empty(len(heads), np.int32)
    op[in_order] = np.cumsum(changes) - 1
    seen, first_at, ranks = np.unique(place, return_index=True, return_inverse=True)
    place_rank = np.argsort(np.argsort(first_at))[ranks.reshape(-1)]
    order = np.lexsort((first, place_rank[first]))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    return np.repeat(rank[op], lengths), heads[first[order]]


def _places_together(place: Array) -> List[slice]:
    """Return parts of all rows with whole places in each, some ten thousand rows or one place;
    where the rows of a place do not follow one another all rows are one part.
    """
    begins = np.flatnonzero(_changes([place]))
    if len(begins) > len(np.unique(place[begins])):
        return [slice(0, len(place))]
    parts, start = [], 0
    for begin in [*begins[1:].tolist(), len(place)]:
        if begin - start >= _TOGETHER or begin == len(place):
            parts.append(slice(start, begin))
            start = begin
    return parts if len(place) else []


def _narrowed(values: Array) -> Array:
    """Return whole numbers, none negative, with the smallest type that holds them."""
    return values.astype(np.min_scalar_type(values.max(initial=0)))


def narrow(values: Sequence[int]) -> Tuple[Sequence[int], Any]:
    """Return whole numbers with the smallest type that holds them."""
    ends = min(values, default=0), max(values, default=0)
    return values, np.promote_types(*map(np.min_scalar_type, ends))


class ObservedOps:
    """The operators of one run's rows, numbered place by place in the order in which their first
    rows came.

    Attributes
    ----------
    digests
        The rows.
    counts
        Rows by verdict.
    op_of_row
        The operator of each row, [rows].
    first_row
        Of each operator, [n].
    place_of, name_of, type_of
        The number of its place, name and type, [n].
    names, types
        What these count.
    """

    def __init__(self, rows: Union[RowDigests, Iterable[Row]] = ()) -> None:
        self.digests = digests = rows if isinstance(rows, RowDigests) else digests_of_all(rows)
        shared, numbers = digests.shared, digests.numbers
        codes: Dict[str, int] = {}
        name_of_shared = [codes.setdefault(part.op, len(codes)) for part in shared]
        self.names = list(codes)
        self._codes = codes
        counts = np.bincount(numbers["shared"], minlength=len(shared)).tolist()
        self.counts: Dict[str, int] = {}
        for part, count in zip(shared, counts):
            if count:
                self.counts[part.verdict] = self.counts.get(part.verdict, 0) + count
        self.op_of_row = np.empty(len(numbers), np.int32)
        found: List[Tuple[Array, Array, Array]] = []
        count = 0
        names_of_shared = np.array(*narrow(name_of_shared))
        for some in _places_together(numbers["place"]):
            part = numbers[some]
            place, shared_codes = part["place"], part["shared"]
            ops, first = _operators(
                [place, names_of_shared[shared_codes], digests.file_numbers(some)]
            )
            self.op_of_row[some] = ops + count
            first_names = names_of_shared[shared_codes[first]]
            found.append((first + some.start, place[first], first_names))
            count += len(first)
        columns = [np.concatenate(parts) for parts in zip(*found)] if found else [_NONE] * 3
        self.first_row = columns[0].astype(np.int32)
        self.place_of, self.name_of = _narrowed(columns[1]), _narrowed(columns[2])
        seen, first_at = np.unique(self.place_of, return_index=True)
        self._places = [digests.places[code] for code in seen[np.argsort(first_at)].tolist()]
        types: Dict[str, int] = {}
        of_shared = [types.setdefault(part.op_type, len(types)) for part in shared]
        self.types = list(types)
        self.type_of = digests.shared_column(*narrow(of_shared), self.first_row)
        misses = digests.marked(OUTPUT_MISSING)
        self._misses = np.zeros(len(self.first_row), bool)
        self._misses[self.op_of_row[misses]] = True
        self._place_codes = {place: code for code, place in enumerate(digests.places)}
        self._made: Dict[int, ObservedOp] = {}
        self._tensors: Optional[Tensors] = None
        self._ranks: Optional[Array] = None
        self._found: Dict[Tuple[int, int], Optional[ObservedOp]] = {}
        self._newest: Optional[Tuple[Array, Array]] = None

    def __len__(self) -> int:
        return len(self.first_row)

    @property
    def places(self) -> List[Place]:
        """The places that have rows, in the order in which these came."""
        return self._places

    @property
    def compared(self) -> Array:
        """Which rows were there on both sides and could be compared, [rows]."""
        return self._judged(COMPARED)

    @property
    def bad(self) -> Array:
        """Which rows do not let what they feed be judged by its inputs: outside their limits, or
        decided otherwise than golden data, [rows].
        """
        shared = self.digests.shared
        return self._judged((FAIL,)) | self.digests.shared_column(
            [part.observed[_OTHERWISE] for part in shared], bool
        )

    def _judged(self, verdicts: Sequence[str]) -> Array:
        shared = self.digests.shared
        return self.digests.shared_column(
            [part.observed[_VERDICT] in verdicts for part in shared], bool
        )

    @property
    def tensors(self) -> Tensors:
        """The rows of inputs and outputs."""
        if self._tensors is None:
            shared, column = self.digests.shared, self.digests.shared_column
            kind = column([_KINDS.get(part.observed[0], -1) for part in shared], np.int8)
            number = column(*narrow([part.observed[1] for part in shared]))
            rows = np.flatnonzero((kind >= 0) & (number >= 0)).astype(np.int32)
            kind, number, op = kind[rows], number[rows], self.op_of_row[rows]
            order = np.lexsort((rows, number, kind, op))
            # The last of each: where another one begins behind it.
            last = _changes([column[order] for column in (op, kind, number)])
            order = order[np.append(last[1:], True)] if len(order) else order
            self._tensors = Tensors(rows[order], op[order], kind[order], number[order])
        return self._tensors

    def tensor_rows(self, ops: Array, kind: int, numbers: Array) -> Array:
        """Return the rows of tensors of some ops, int32, [n]; -1 where there is none."""
        tensors = self.tensors
        if not len(tensors.row):
            return np.full(len(ops), -1, np.int32)
        size = max(int(tensors.number.max()), int(numbers.max(initial=0))) + 1
        dtype: Any = np.int64 if (len(self) + 1) * 2 * size > np.iinfo(np.int32).max else np.int32
        keys = (tensors.op.astype(dtype) * 2 + tensors.kind) * size + tensors.number
        wanted = (ops.astype(dtype) * 2 + kind) * size + numbers.astype(dtype)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((keys[at] == wanted) & (ops >= 0), tensors.row[at], -1)

    @property
    def ranks(self) -> Array:
        """Where each operator stands in the order of execution, int32, [n]."""
        if self._ranks is None:
            digests, self._ranks = self.digests, np.empty(len(self), np.int32)
            keys = [place_key(place) for place in digests.places]
            in_order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int32)
            counts = np.bincount(self.place_of, minlength=len(keys))
            begins = np.empty(len(keys), np.int64)
            begins[in_order] = np.cumsum(counts[in_order]) - counts[in_order]
            alike = len(set(keys)) < len(keys)
            for some in [slice(0, len(self))] if alike else _places_together(self.place_of):
                rows = self.first_row[some]
                by_row = np.argsort(rows)
                ops = by_row[np.searchsorted(rows[by_row], digests.by_execution(rows))] + some.start
                if alike:
                    self._ranks[ops] = np.arange(len(ops))
                    continue
                place = self.place_of[ops]
                heads = np.flatnonzero(_changes([place]))
                at = np.arange(len(ops)) - np.repeat(heads, np.diff(np.append(heads, len(ops))))
                self._ranks[ops] = begins[place] + at
        return self._ranks

    def last_executions(self, places: Array, names: Array) -> Array:
        """Return the last execution of operators at places (by their numbers; -1: none), int32,
        [n]; -1 where there is none.
        """
        count = len(self.names) + 1
        if self._newest is None:
            key = self.place_of.astype(np.int64) * count + self.name_of
            order = np.lexsort((self.ranks, key)).astype(np.int32)
            # The last of each: where another one begins behind it.
            order = order[np.append(_changes([key[order]])[1:], True)] if len(order) else order
            self._newest = key[order], order
        keys, ops = self._newest
        if not len(keys):
            return np.full(len(names), -1, np.int32)
        wanted = places.astype(np.int64) * count + names
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((keys[at] == wanted) & (names >= 0), ops[at], -1)

    def name_code(self, name: Optional[str]) -> int:
        """Return the number of an operator's name; -1 where no row bears it."""
        return -1 if name is None else self._codes.get(name, -1)

    def op(self, at: int) -> ObservedOp:
        """Return an operator by its number; always the same object."""
        op = self._made.get(at)
        if op is None:
            first, misses = int(self.first_row[at]), bool(self._misses[at])
            op = self._made[at] = ObservedOp(at, self.digests, first, misses)
            tensors = self.tensors
            # Of another type than the operators' it would make a copy of them all.
            ends = np.array((at, at + 1), tensors.op.dtype)
            begin, end = np.searchsorted(tensors.op, ends).tolist()
            for row, kind, number in zip(
                *(
                    column[begin:end].tolist()
                    for column in (tensors.row, tensors.kind, tensors.number)
                )
            ):
                (op.inputs if kind == INPUT else op.outputs)[number] = self.digests.observation(row)
        return op

    def update(self, row: Row) -> None:
        """Take a row that is judged otherwise now; the columns stay as they are."""
        digests = row_digests([row])
        op = self.of_file(row.place, row.op, row.target_file or "")
        if digests.shared[0].marks & OUTPUT_MISSING:
            op.misses_output = True
        observation = digests.observation(0)
        if observation.number >= 0 and observation.kind in _KINDS:
            (op.inputs if observation.kind == "input" else op.outputs)[observation.number] = (
                observation
            )

    @property
    def ops(self) -> Iterator[ObservedOp]:
        """The operators, place by place in the order in which their first rows came;
        :meth:`ordered` sorts them by execution.
        """
        return map(self.op, range(len(self)))

    def ordered(self) -> Iterator[ObservedOp]:
        """Yield the operators in execution order."""
        return map(self.op, np.argsort(self.ranks).tolist())

    def numbers_at(self, place: Place) -> Array:
        """Return the numbers of the operators at a place."""
        return np.flatnonzero(self.place_of == self._place_codes.get(place, -1))

    def named(self, name: str, step: Optional[str]) -> Iterator[ObservedOp]:
        """Yield the executions of an operator in a step, on all devices."""
        for at in np.flatnonzero(self.name_of == self.name_code(name)).tolist():
            if self.place(at).step == step:
                yield self.op(at)

    def at_place(self, place: Place, verdict: Optional[str] = None) -> List[ObservedOp]:
        """Return the operators of a place in execution order: all, or those with an output of a
        verdict.
        """
        there = self.numbers_at(place)
        if verdict is None:
            numbers = there[np.argsort(self.ranks[there])]
        else:
            numbers = self.with_verdict(verdict, OUTPUT)
            numbers = numbers[np.isin(numbers, there)]
        return list(map(self.op, numbers.tolist()))

    def with_verdict(self, verdict: str, kind: int) -> Array:
        """Return the numbers of the operators that have an input or output of a verdict, in
        execution order.
        """
        tensors = self.tensors
        alike = self._judged((verdict,))[tensors.row]
        ops = np.unique(tensors.op[(tensors.kind == kind) & alike])
        in_order: Array = ops[np.argsort(self.ranks[ops])]
        return in_order

    def of_file(self, place: Place, name: str, file: str) -> ObservedOp:
        """Return the operator that rows are about."""
        there = self.numbers_at(place)
        for at in there[self.name_of[there] == self.name_code(name)].tolist():
            if self.digests.file(int(self.first_row[at])) == file:
                return self.op(at)
        raise KeyError((place, name, file))

    def find(self, place: Place, name: str) -> Optional[ObservedOp]:
        """Return an operator's (last) execution at a place."""
        key = self._place_codes.get(place, -1), self.name_code(name)
        if min(key) < 0:
            return None
        if key not in self._found:
            at = int(self.last_executions(*(np.array([code]) for code in key))[0])
            self._found[key] = None if at < 0 else self.op(at)
        return self._found[key]

    def key(self, place: Place, name: str) -> int:
        """Return the number that :meth:`same_op` has for an operator at a place; a negative one
        where there is none.
        """
        code, name_code = self._place_codes.get(place, -1), self.name_code(name)
        return code * (len(self.names) + 1) + name_code if min(code, name_code) >= 0 else -1

    def same_op(self, ops: Array) -> Array:
        """Return a number for each of some operators, [n], the same for those that are executions
        of one at a place.
        """
        number: Array = self.place_of[ops].astype(np.int64) * (len(self.names) + 1)
        number += self.name_of[ops]
        return number

    def uncompared(self) -> Array:
        """Return the numbers of the operators with an output that nothing is compared with, in
        execution order.
        """
        tensors = self.tensors
        ops = np.unique(tensors.op[(tensors.kind == OUTPUT) & ~self.compared[tensors.row]])
        in_order: Array = ops[np.argsort(self.ranks[ops])]
        return in_order

    def repeated(self, ops: Array) -> Array:
        """Return which of some operators have several executions among them at their place, [n]."""
        seen = np.zeros(len(self), bool)
        seen[ops] = True
        keys = self.same_op(np.flatnonzero(seen))
        keys.sort()
        return among(self.same_op(ops), keys[1:][keys[1:] == keys[:-1]])

    def first_of_each(self, ops: Array) -> Array:
        """Return some operators without the later ones of those that are executions of one at a
        place.
        """
        keys = self.same_op(ops)
        order = np.argsort(keys, kind="stable").astype(np.int32)
        first: Array = ops[np.sort(order[_changes([keys[order]])])] if len(order) else ops
        return first

    def executed_repeatedly(self) -> Set[Tuple[Place, str]]:
        """Return the place and name of each operator that has several executions."""
        several = np.flatnonzero(self.repeated(np.arange(len(self)))).tolist()
        return {(self.place(at), self.names[self.name_of[at]]) for at in several}

    def place(self, at: int) -> Place:
        """Return the place of an operator, by its number."""
        return self.digests.places[int(self.place_of[at])]

    def type(self, at: int) -> str:
        """Return the type of an operator, by its number."""
        return self.types[int(self.type_of[at])]

    def first_at_places(self) -> Array:
        """Return the first operator of each place, by execution."""
        order = np.argsort(self.ranks)
        _, first = np.unique(self.place_of[order], return_index=True)
        ops: Array = order[np.sort(first)]
        return ops
