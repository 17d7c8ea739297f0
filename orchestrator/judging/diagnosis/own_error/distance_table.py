"""How far each output of a run and the inputs of its operator are from golden data, in arrays."""

from __future__ import annotations

import math
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ....dumps.place import Place
from ..observed_ops import OUTPUT, ObservedOp, ObservedOps, among
from ..op_input_states import GOOD_STATE, Inputs, InputState
from ..row_digest import SPOILED, WHOLE, Observation
from .normal_error import least_rounding, rounding, sum_noise

Array = Any

MEASURED = ("distance", "slice_distance", "factor_distance")
"""How far a tensor is from golden data: all its elements, its worst slice (where there is none, all
again), its common factor.
"""


# So many outputs' inputs are joined at once, for the sake of memory.
_AT_ONCE = 1 << 14
_DTYPE, _VERDICT = map(Observation._fields.index, ("dtype", "verdict"))


class OutputKind(NamedTuple):
    """What an output has in common with those of the same operator at other places; ``whole`` as in
    :class:`Observation`.
    """

    op: str
    op_type: str
    dtype: str
    shape: Tuple[int, ...]
    whole: bool


class TableEntry(NamedTuple):
    """One output of the table, with its operator's inputs.

    Attributes
    ----------
    op, output, inputs
        The operator, the output's row, and the operator's data inputs.
    inputs_known
        Whether every data input was compared.
    fed
        The inputs' distance together.
    sizes
        For each of :data:`MEASURED` the output's distance, and its inputs' together (root of the
        sum of squares).
    rounded, sums
        The output's rounding, and the noise of a sum of its type.
    """

    op: ObservedOp
    output: Observation
    inputs: Tuple[InputState, ...]
    inputs_known: bool
    fed: float
    sizes: Sequence[Sequence[float]]
    rounded: float
    sums: float


class DistanceTable:
    """The compared outputs of a run in execution order, with the distances of outputs and inputs.

    Attributes
    ----------
    op, row, number
        Of each output its operator (by its number), its row among the digests, its index, [n].
    kinds, kind
        The kinds that there are, and which each output is of, [n].
    inputs_known, spoiled
        [n], whether every data input was compared; the rows' own.
    fed_inputs
        The inputs of all operators.

    What was measured is read when it is asked for: of a million outputs it is 8 MB a column.
    """

    def __init__(self, observed: ObservedOps, inputs: Inputs) -> None:
        self._observed, self._inputs = observed, inputs
        tensors = observed.tensors
        outputs = np.flatnonzero((tensors.kind == OUTPUT) & observed.compared[tensors.row])
        outputs = outputs[
            np.lexsort((tensors.number[outputs], observed.ranks[tensors.op[outputs]]))
        ]
        self.op, self.row, self.number = (
            column[outputs] for column in (tensors.op, tensors.row, tensors.number)
        )
        self.fed_inputs = inputs.in_columns()
        self.kinds, self.kind = self._kinds()
        self._roundings = tuple(
            np.array([value_of(one.dtype) for one in self.kinds], np.float64)
            for value_of in (rounding, least_rounding)
        )
        numbers = observed.digests.numbers
        self.spoiled = numbers["bits"][self.row] & SPOILED != 0
        # The slices of an output of the network are measured by their own size, those of its inputs
        # are not.
        self._is_final = self._final()
        self._more, self._unfed = self._feeding()
        self._before = (
            np.stack(
                [self._worst_before(number)[self._unfed] for number in range(len(MEASURED))], axis=1
            )
            if len(self._unfed)
            else np.empty((0, len(MEASURED)))
        )

    def __len__(self) -> int:
        return len(self.row)

    def distance(self, number: int, outputs: Optional[Array] = None) -> Array:
        """Return the distances of the outputs, or of some of them, by one of :data:`MEASURED`,
        [n].
        """
        some: Any = slice(None) if outputs is None else outputs
        rows, final = self.row[some], self._is_final[some]
        distances = self._of_rows(number, rows)
        if number == 1:
            distances[final] = self._of_rows(0, rows[final])
        return distances

    def fed_by(self, number: int) -> Array:
        """Return the distance of each output's inputs together (root of the sum of squares) by one
        of :data:`MEASURED`, [n].
        """
        joined = np.empty(len(self.row))
        with np.errstate(all="ignore"):
            for begin in range(0, len(joined), _AT_ONCE):
                some = slice(begin, begin + _AT_ONCE)
                rows, feeds = self._fed_rows(self.op[some])
                squares = self._of_rows(number, rows) ** 2
                joined[some] = np.bincount(feeds, squares, len(self.op[some]))
            rows, outputs = self._more
            np.add.at(joined, outputs, self._of_rows(number, rows) ** 2)
            np.sqrt(joined, out=joined)
        joined[np.isnan(joined)] = np.inf
        joined[self._unfed] = self._before[:, number]
        return joined

    @property
    def fed(self) -> Array:
        """The distance of each output's inputs together, [n]."""
        return self.fed_by(0)

    @property
    def rounded(self) -> Array:
        """The :func:`rounding` of each output, [n]."""
        return self.rounded_of(slice(None))

    def rounded_of(self, outputs: Any) -> Array:
        """Return the :func:`rounding` of some outputs, [n]."""
        return self._rounded(self.kind[outputs], self.measured("rms", self.row[outputs]))

    @property
    def sums(self) -> Array:
        """The noise of a sum of each kind's type, [kinds]."""
        return np.array([sum_noise(kind.dtype) for kind in self.kinds], np.float64)

    def _rounded(self, kind: Array, sizes: Array) -> Array:
        rounded, least = (of_kinds[kind] for of_kinds in self._roundings)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(sizes > 0, np.hypot(rounded, least / sizes), rounded)

    def _of_rows(self, number: int, rows: Array) -> Array:
        """Return the distance of some rows by one of :data:`MEASURED`, [n]."""
        distances = self.measured(MEASURED[number], rows)
        if number == 1:
            lacking = np.isnan(distances)
            distances[lacking] = self.measured(MEASURED[0], rows[lacking])
        return distances

    def _kinds(self) -> Tuple[List[OutputKind], Array]:
        digests, whole = self._observed.digests, self._observed.digests.numbers["bits"] & WHOLE != 0
        # The op's type is that of its first row.
        first = digests.numbers["shared"][self._observed.first_row[self.op]].astype(np.int64)
        count = len(digests.shared) + 1
        shared = digests.numbers["shared"][self.row].astype(np.int64)
        keys = (first * count + shared) * 2 + whole[self.row]
        _, at, same = np.unique(keys, return_index=True, return_inverse=True)
        codes: Dict[OutputKind, int] = {}
        of_key = np.zeros(len(at), np.int32)
        # Numbered as they come.
        for key in np.argsort(at).tolist():
            number = int(at[key])
            op, output = (digests.shared[column[number]] for column in (first, shared))
            dtype, shape = output.observed[_DTYPE : _DTYPE + 2]
            kind = OutputKind(op.op, op.op_type, dtype, shape, bool(whole[self.row[number]]))
            of_key[key] = codes.setdefault(kind, len(codes))
        return list(codes), of_key[same.reshape(-1)]

    def _feeding(self) -> Tuple[Tuple[Array, Array], Array]:
        """Return the rows that feed outputs through operators without rows, and which output each
        feeds, [m] both; and of which outputs nothing tells what feeds them, [k].
        """
        fed = self.fed_inputs
        counts, known_rows = np.diff(fed.begins), fed.row >= 0
        sums = np.zeros(len(known_rows) + 1, np.int32)
        np.cumsum(known_rows, out=sums[1:])
        compared = sums[fed.begins[1:]] - sums[fed.begins[:-1]]
        self.inputs_known = ((counts > 0) & (compared == counts))[self.op]
        known, number = self._inputs.model_ops()
        without_node = np.array([model_op.node is None for model_op in known], bool)
        more: List[Tuple[int, int]] = []
        unfed: List[int] = []
        for output in np.flatnonzero(~self.inputs_known).tolist():
            op = int(self.op[output])
            if not without_node[number[op]]:
                more += [(row, output) for row in self._inputs.rows_behind(op)]
            elif not compared[op]:
                unfed.append(output)
        columns = np.array(more, np.int64).reshape(-1, 2).T
        return (columns[0], columns[1]), np.array(unfed, np.int64)

    def _fed_rows(self, ops: Array) -> Tuple[Array, Array]:
        """Return the rows of the compared inputs of some operators, and whose each is (its position
        among these), [m] both.
        """
        fed = self.fed_inputs
        begins = fed.begins[ops].astype(np.int64)
        counts = fed.begins[ops.astype(np.int64) + 1] - begins
        feeds = np.repeat(np.arange(len(ops)), counts)
        starts = np.cumsum(counts) - counts
        rows = fed.row[np.repeat(begins - starts, counts) + np.arange(len(feeds))]
        return rows[rows >= 0], feeds[rows >= 0]

    def _final(self) -> Array:
        """Return which outputs are outputs of the network, [n]."""
        known, number = self._inputs.model_ops()
        if not any(model_op.node is not None for model_op in known) or not len(self.op):
            return np.zeros(len(self.op), bool)
        keys = number[self.op].astype(np.int64) * (int(self.number.max()) + 1) + self.number
        _, at, same = np.unique(keys, return_index=True, return_inverse=True)
        final = [
            self._inputs.is_final(int(self.op[one]), int(self.number[one])) for one in at.tolist()
        ]
        return np.array(final, bool)[same.reshape(-1)]

    def inputs_of(self, number: int) -> Tuple[InputState, ...]:
        """Return the data inputs of an output's operator."""
        return self._inputs.of(self.op_of(number))

    def op_of(self, number: int) -> ObservedOp:
        """Return the operator of an output."""
        return self._observed.op(int(self.op[number]))

    def output(self, number: int) -> Observation:
        """Return the row of an output."""
        return self._observed.digests.observation(int(self.row[number]))

    def places(self) -> List[Place]:
        """Return the places of the outputs, in their order."""
        places = self._observed.place_of[self.op]
        codes, first = np.unique(places, return_index=True)
        return [self._observed.digests.places[code] for code in codes[np.argsort(first)].tolist()]

    def of_ops(self, ops: Iterable[Tuple[Place, str]]) -> Array:
        """Return which outputs are of one of some operators, by place and name, [n]."""
        keys = [self._observed.key(place, name) for place, name in ops]
        return among(self._observed.same_op(self.op), keys)

    @property
    def repeated(self) -> Array:
        """Which outputs are of operators that have several executions among these, [n]."""
        return self._observed.repeated(self.op)

    def outputs_of(self, place: Place, name: str) -> List[int]:
        """Return the numbers of the outputs of an operator at a place."""
        ops = self._observed.numbers_at(place)
        ops = ops[self._observed.name_of[ops] == self._observed.name_code(name)]
        numbers: List[int] = np.flatnonzero(np.isin(self.op, ops)).tolist()
        return numbers

    def measured(self, name: str, rows: Optional[Array] = None) -> Array:
        """Return what was measured of all outputs, or of some rows (-1: any number), by the name
        that :class:`Observation` has for it, [n].
        """
        rows = self.row if rows is None else np.maximum(rows, 0)
        return self._observed.digests.column(name, rows)

    def has_verdict(self, verdict: str) -> Array:
        """Return which outputs have a verdict, [n]."""
        shared = [part.observed[_VERDICT] == verdict for part in self._observed.digests.shared]
        return self._observed.digests.shared_column(shared, bool)[self.row]

    def all_inputs_good(self) -> Array:
        """Return which outputs' operators have no input that is bad or unknown, [n]."""
        fed = self.fed_inputs
        others = np.concatenate([[0], np.cumsum(fed.state != GOOD_STATE)])
        counts = others[fed.begins[1:]] - others[fed.begins[:-1]]
        good: Array = (counts == 0)[self.op]
        return good

    def single_inputs(self) -> Array:
        """Return the row of the only input of each output's operator, [n]; -1 where there is not
        one, or none compares it.
        """
        fed = self.fed_inputs
        begins = fed.begins[:-1][self.op]
        single = np.diff(fed.begins)[self.op] == 1
        if not len(fed.row):
            return np.full(len(self.op), -1, np.int64)
        return np.where(single, fed.row[np.minimum(begins, len(fed.row) - 1)], -1)

    def by_kind(self, value_of: Callable[[OutputKind], float]) -> Array:
        """Return a function's value for each output, [n]; called once for each kind."""
        return np.array([value_of(kind) for kind in self.kinds], np.float64)[self.kind]

    def entry(self, number: int) -> TableEntry:
        """Return an output by its number."""
        own, *feeding = self._sizes([int(self.row[number]), *self._rows_feeding(number)])
        if self._is_final[number]:
            own = (own[0], own[0], own[2])
        at = int(np.searchsorted(self._unfed, number))
        together: Sequence[float] = (
            self._before[at].tolist()
            if at < len(self._unfed) and self._unfed[at] == number
            else list(map(_together, zip(*feeding))) or [0.0] * len(MEASURED)
        )
        kind, row = self.kind[[number]], self._observed.digests.numbers[int(self.row[number])]
        rounded = self._rounded(kind, np.array([row["rms"]], np.float64)).item()
        return TableEntry(
            self.op_of(number),
            self.output(number),
            self.inputs_of(number),
            bool(self.inputs_known[number]),
            together[0],
            list(zip(own, together)),
            rounded,
            sum_noise(self.kinds[int(kind[0])].dtype),
        )

    def _rows_feeding(self, number: int) -> List[int]:
        """Return the rows that feed an output."""
        rows, _ = self._fed_rows(self.op[[number]])
        more, outputs = self._more
        begin, end = np.searchsorted(outputs, (number, number + 1)).tolist()
        found: List[int] = [*rows.tolist(), *more[begin:end].tolist()]
        return found

    def _sizes(self, rows: Sequence[int]) -> List[Tuple[float, ...]]:
        """Return the distances of rows by each of :data:`MEASURED`."""
        numbers = self._observed.digests.numbers
        sizes: List[Tuple[float, ...]] = []
        for row in rows:
            record = numbers[row]
            all_elements, slices, factor = (float(record[name]) for name in MEASURED)
            sizes.append((all_elements, all_elements if slices != slices else slices, factor))
        return sizes

    def _worst_before(self, number: int) -> Array:
        """Return the largest distance, by one of :data:`MEASURED`, of what ran before each output
        at its place, [n]: any of it may feed an output whose inputs are not known.
        """
        finite = self.distance(number)
        finite[~(finite < np.inf)] = 0.0
        before = np.zeros(len(finite))
        places = self._observed.place_of[self.op]
        order = np.argsort(places, kind="stable")
        for numbers in np.split(order, np.flatnonzero(np.diff(places[order])) + 1):
            before[numbers[1:]] = np.maximum.accumulate(finite[numbers])[:-1]
        return before


def distance_by(row: Observation, number: int) -> float:
    """Return the distance of a tensor by one of :data:`MEASURED`."""
    distance: float = getattr(row, MEASURED[number])
    return row.distance if number == 1 and distance != distance else distance


def _together(distances: Iterable[float]) -> float:
    """Return the root of the sum of squares, added one after the other as in columns; infinite
    where one is no number.
    """
    squares = 0.0
    for distance in distances:
        squares += distance * distance
    return math.sqrt(squares) if squares == squares else math.inf
