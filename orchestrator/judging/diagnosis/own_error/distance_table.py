"""How far each output of a run and the inputs of its operator are from golden data, in arrays."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from ....dumps.place import Place
from ..observed_ops import ObservedOp, ObservedOps
from ..op_input_states import Inputs, InputState
from ..row_digest import COMPARED, Observation
from .normal_error import rounding, sum_noise

Array = Any

MEASURED = ("distance", "slice_distance", "factor_distance")
"""How far a tensor is from golden data: all its elements, its worst slice (where there is none, all
again), its common factor.
"""


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
    ops, outputs, inputs
        Of each output its operator, its row, and its operator's data inputs.
    kinds, kind
        The kinds that there are, and which each output is of, [n].
    inputs_known, spoiled
        [n], whether every data input was compared; the rows' own.
    distances, input_distances
        [n, 3], by each of :data:`MEASURED`: the output's, and its inputs' together.
    fed, rounded, sums
        [n], as of :class:`TableEntry`.
    """

    def __init__(self, observed: ObservedOps, inputs: Inputs) -> None:
        self._inputs = inputs
        self.ops: List[ObservedOp] = []
        self.outputs: List[Observation] = []
        self.inputs: List[Tuple[InputState, ...]] = []
        self._known: List[bool] = []
        # Of each tensor that feeds an output: its row, and the output's number.
        self._rows: List[Observation] = []
        self._feeds: List[int] = []
        # Outputs of which nothing tells what feeds them.
        self._unfed: List[int] = []
        for op in observed.ordered():
            outputs = op.outputs
            for number in sorted(outputs) if len(outputs) > 1 else outputs:
                if outputs[number].verdict in COMPARED:
                    self._add(op, outputs[number])
        numbers: Dict[Tuple[Any, ...], int] = {}
        pairs = zip(self.ops, self.outputs)
        kind = [
            numbers.setdefault((op.name, op.type, row.dtype, row.shape, row.whole), len(numbers))
            for op, row in pairs
        ]
        self.kinds, self.kind = list(map(OutputKind._make, numbers)), np.array(kind, np.intp)
        self.inputs_known, self.spoiled = (
            np.array(self._known, bool),
            np.array([output.spoiled for output in self.outputs], bool),
        )
        self.distances, self.input_distances = self._measured()
        self.fed = self.input_distances[:, 0]
        self.rounded = np.array([rounding(output.dtype, output.rms) for output in self.outputs])
        self.sums = self.by_kind(lambda kind: sum_noise(kind.dtype))
        self._known, self._rows, self._feeds = [], [], []

    def _add(self, op: ObservedOp, output: Observation) -> None:
        states, inputs = self._inputs.of(op), self._inputs
        rows = [state.observation for state in states if state.observation is not None]
        known = 0 < len(states) == len(rows)
        number = len(self.ops)
        if not known:
            rows += inputs.behind(op)
            if not rows and inputs.node(op) is None:
                self._unfed.append(number)
        self.ops.append(op)
        self.outputs.append(output)
        self.inputs.append(states)
        self._known.append(known)
        self._rows += rows
        self._feeds += [number] * len(rows)

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
            self.ops[number],
            self.outputs[number],
            self.inputs[number],
            known,
            fed,
            sizes,
            rounded,
            sums,
        )

    def _measured(self) -> Tuple[Array, Array]:
        """Return the distances of outputs, [n, 3], and their inputs'."""
        distances, rows = _distances_of(self.outputs), _distances_of(self._rows)
        for number, (op, row) in enumerate(zip(self.ops, self.outputs)):
            if self._inputs.is_final(op, row.number):
                # Its slices are measured by their own size, those of its inputs are not.
                distances[number, 1] = distances[number, 0]
        with np.errstate(all="ignore"):
            input_distances = _distances_together(
                rows, np.array(self._feeds, np.intp), len(distances)
            )
            if self._unfed:
                input_distances[self._unfed] = self._worst_before(distances)[self._unfed]
        return distances, input_distances

    def _worst_before(self, distances: Array) -> Array:
        """Return the largest distances of what ran before each output at its place, [n, 3]: any of
        it may feed an output whose inputs are not known.
        """
        by_place: Dict[Place, List[int]] = {}
        for number, op in enumerate(self.ops):
            by_place.setdefault(op.place, []).append(number)
        before = np.zeros_like(distances)
        finite = np.where(distances < np.inf, distances, 0.0)
        for numbers in by_place.values():
            before[numbers[1:]] = np.maximum.accumulate(finite[numbers], axis=0)[:-1]
        return before


def distance_by(row: Observation, number: int) -> float:
    """Return the distance of a tensor by one of :data:`MEASURED`."""
    distance: float = getattr(row, MEASURED[number])
    return row.distance if number == 1 and distance != distance else distance


def _distances_of(rows: Sequence[Observation]) -> Array:
    """Return the distance of tensors by each of :data:`MEASURED`, [n, 3]."""
    distances = np.empty((len(rows), len(MEASURED)))
    for number, name in enumerate(MEASURED):
        distances[:, number] = np.fromiter(map(attrgetter(name), rows), np.float64, len(rows))
    distances[:, 1] = np.where(np.isnan(distances[:, 1]), distances[:, 0], distances[:, 1])
    return distances


def _distances_together(rows: Array, feeds: Array, count: int) -> Array:
    """Return the root of the sum of squares of the distances that feed each output, [n, 3]."""
    joined = np.sqrt(
        np.stack(
            [np.bincount(feeds, rows[:, number] ** 2, count) for number in range(len(MEASURED))],
            axis=1,
        )
    )
    return np.where(np.isnan(joined), np.inf, joined)
