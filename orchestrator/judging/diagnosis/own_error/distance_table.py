"""How far each output of a run and the inputs of its operator are from golden data, in arrays."""

from __future__ import annotations

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
from ..observed_ops import OUTPUT, ObservedOp, ObservedOps
from ..op_input_states import GOOD_STATE, Inputs, InputState
from ..row_digest import SPOILED, WHOLE, Observation
from .normal_error import least_rounding, rounding, sum_noise

Array = Any

MEASURED = ("distance", "slice_distance", "factor_distance")
"""How far a tensor is from golden data: all its elements, its worst slice (where there is none, all
again), its common factor.
"""


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
    distances, input_distances
        [n, 3], by each of :data:`MEASURED`: the output's, and its inputs' together.
    fed, rounded, sums
        [n], as of :class:`TableEntry`.
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
        numbers = observed.digests.numbers
        self.spoiled = numbers["bits"][self.row] & SPOILED != 0
        rows, feeds, unfed = self._feeding_rows()
        distances = self._distances_of(self.row)
        # The slices of an output of the network are measured by their own size, those of its inputs
        # are not.
        final = self._final()
        distances[final, 1] = distances[final, 0]
        self.distances = distances
        with np.errstate(all="ignore"):
            self.input_distances = _distances_together(
                self._distances_of(rows), feeds, len(distances)
            )
            if unfed.any():
                self.input_distances[unfed] = self._worst_before(distances)[unfed]
        self.fed = self.input_distances[:, 0]
        self.rounded = self._rounded()
        self.sums = self.by_kind(lambda kind: sum_noise(kind.dtype))

    def __len__(self) -> int:
        return len(self.row)

    def _rounded(self) -> Array:
        """Return :func:`rounding` of all outputs, [n]."""
        rounded = self.by_kind(lambda kind: rounding(kind.dtype))
        least = self.by_kind(lambda kind: least_rounding(kind.dtype))
        sizes = self.measured("rms")
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(sizes > 0, np.hypot(rounded, least / sizes), rounded)

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

    def _feeding_rows(self) -> Tuple[Array, Array, Array]:
        """Return the rows that feed outputs, and which output each feeds, [m] both; and of which
        outputs nothing tells what feeds them, [n].
        """
        fed = self.fed_inputs
        counts, known_rows = np.diff(fed.begins), fed.row >= 0
        sums = np.concatenate([[0], np.cumsum(known_rows)])
        compared = sums[fed.begins[1:]] - sums[fed.begins[:-1]]
        self.inputs_known = ((counts > 0) & (compared == counts))[self.op]
        of_output = counts[self.op]
        feeds = np.repeat(np.arange(len(self.op), dtype=np.int32), of_output)
        starts = np.cumsum(of_output) - of_output
        at = np.repeat(fed.begins[:-1][self.op] - starts, of_output) + np.arange(len(feeds))
        rows = fed.row[at]
        rows, feeds = rows[rows >= 0], feeds[rows >= 0]
        unfed = np.zeros(len(self.op), bool)
        known, number = self._inputs.model_ops()
        without_node = np.array([model_op.node is None for model_op in known], bool)
        more: List[Tuple[int, int]] = []
        for output in np.flatnonzero(~self.inputs_known).tolist():
            op = int(self.op[output])
            if without_node[number[op]]:
                unfed[output] = not compared[op]
            else:
                more += [(row, output) for row in self._inputs.rows_behind(op)]
        if more:
            columns = np.array(more, np.int64).T
            rows, feeds = (np.concatenate(pair) for pair in zip((rows, feeds), columns))
        return rows, feeds, unfed

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

    def _distances_of(self, rows: Array) -> Array:
        """Return the distance of tensors by each of :data:`MEASURED`, [n, 3]."""
        numbers = self._observed.digests.numbers
        distances = np.stack([numbers[name][rows] for name in MEASURED], axis=1)
        distances[:, 1] = np.where(np.isnan(distances[:, 1]), distances[:, 0], distances[:, 1])
        return distances

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
        own: Array = np.isin(self._observed.same_op(self.op), np.array(keys, np.int64))
        return own

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
        """Return what was measured of all outputs, or of some rows, by the name that
        :class:`Observation` has for it, [n].
        """
        measured: Array = self._observed.digests.numbers[name][self.row if rows is None else rows]
        return measured

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
        sizes = list(zip(self.distances[number].tolist(), self.input_distances[number].tolist()))
        known, fed, rounded, sums = (
            column[number].item()
            for column in (self.inputs_known, self.fed, self.rounded, self.sums)
        )
        return TableEntry(
            self.op_of(number),
            self.output(number),
            self.inputs_of(number),
            known,
            fed,
            sizes,
            rounded,
            sums,
        )

    def _worst_before(self, distances: Array) -> Array:
        """Return the largest distances of what ran before each output at its place, [n, 3]: any of
        it may feed an output whose inputs are not known.
        """
        before = np.zeros_like(distances)
        finite = np.where(distances < np.inf, distances, 0.0)
        places = self._observed.place_of[self.op]
        order = np.argsort(places, kind="stable")
        for numbers in np.split(order, np.flatnonzero(np.diff(places[order])) + 1):
            before[numbers[1:]] = np.maximum.accumulate(finite[numbers], axis=0)[:-1]
        return before


def distance_by(row: Observation, number: int) -> float:
    """Return the distance of a tensor by one of :data:`MEASURED`."""
    distance: float = getattr(row, MEASURED[number])
    return row.distance if number == 1 and distance != distance else distance


def _distances_together(rows: Array, feeds: Array, count: int) -> Array:
    """Return the root of the sum of squares of the distances that feed each output, [n, 3]."""
    joined = np.sqrt(
        np.stack(
            [np.bincount(feeds, rows[:, number] ** 2, count) for number in range(len(MEASURED))],
            axis=1,
        )
    )
    return np.where(np.isnan(joined), np.inf, joined)
