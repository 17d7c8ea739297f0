"""What feeds every output of a run, measured for all of them at once: one walk over the operators,
then arrays.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from ...dumps.place import Place
from ..inputs import Inputs, InputState
from ..observations import Observations, ObservedOp
from ..seen import COMPARED, Observation
from .expected import rounding, sum_noise

Array = Any

MEASURED = ("distance", "slice_distance", "factor_distance")
"""How far a tensor is from golden data: all its elements, its worst slice (where there is none, all
again), its common factor.
"""


class Kind(NamedTuple):
    """What an output has in common with those of the same operator at other places; ``whole`` as
    its row has it.
    """

    op: str
    op_type: str
    dtype: str
    shape: Tuple[int, ...]
    whole: bool


class Found(NamedTuple):
    """One output with what feeds its operator.

    Attributes
    ----------
    op, output, inputs
        The operator, the output's row, and the operator's data inputs.
    known
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
    known: bool
    fed: float
    sizes: Sequence[Sequence[float]]
    rounded: float
    sums: float


class Feeding:
    """The compared outputs of a run in execution order, with what feeds their operators.

    Attributes
    ----------
    ops, outputs, inputs
        Of each output its operator, its row, and its operator's data inputs.
    kinds, kind
        The kinds that there are, and which each output is of, [n].
    known, spoiled
        [n], whether every data input was compared; the rows' own.
    values, fed_by
        [n, 3], ``sizes`` of each: the output's distances, and its inputs'.
    fed, rounded, sums
        [n], as of :class:`Found`.
    """

    def __init__(self, seen: Observations, inputs: Inputs) -> None:
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
        for op in seen.ordered():
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
        self.kinds, self.kind = list(map(Kind._make, numbers)), np.array(kind, np.intp)
        self.known, self.spoiled = (
            np.array(self._known, bool),
            np.array([output.spoiled for output in self.outputs], bool),
        )
        self.values, self.fed_by = self._measured()
        self.fed = self.fed_by[:, 0]
        self.rounded = np.array([rounding(output.dtype, output.rms) for output in self.outputs])
        self.sums = self.of_kinds(lambda kind: sum_noise(kind.dtype))
        self._known, self._rows, self._feeds = [], [], []

    def _add(self, op: ObservedOp, output: Observation) -> None:
        states, inputs = self._inputs.of(op), self._inputs
        rows = [state.seen for state in states if state.seen is not None]
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

    def of_kinds(self, told: Callable[[Kind], float]) -> Array:
        """Return what is told of each output's kind, [n]: asked once of each kind."""
        return np.array([told(kind) for kind in self.kinds], np.float64)[self.kind]

    def found(self, number: int) -> Found:
        """Return an output with what feeds it."""
        sizes = list(zip(self.values[number].tolist(), self.fed_by[number].tolist()))
        known, fed, rounded, sums = (
            column[number].item() for column in (self.known, self.fed, self.rounded, self.sums)
        )
        return Found(
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
        made, rows = _distances(self.outputs), _distances(self._rows)
        with np.errstate(all="ignore"):
            fed = _together(rows, np.array(self._feeds, np.intp), len(made))
            if self._unfed:
                fed[self._unfed] = self._worst_before(made)[self._unfed]
        return made, fed

    def _worst_before(self, made: Array) -> Array:
        """Return the worst that ran before each output at its place, [n, 3]: it may be what feeds
        it where nothing else tells that.
        """
        by_place: Dict[Place, List[int]] = {}
        for number, op in enumerate(self.ops):
            by_place.setdefault(op.place, []).append(number)
        before = np.zeros_like(made)
        finite = np.where(made < np.inf, made, 0.0)
        for some in by_place.values():
            before[some[1:]] = np.maximum.accumulate(finite[some], axis=0)[:-1]
        return before


def distance_by(row: Observation, number: int) -> float:
    """Return the distance of a tensor by one of :data:`MEASURED`."""
    found: float = getattr(row, MEASURED[number])
    return row.distance if number == 1 and found != found else found


def _distances(rows: Sequence[Observation]) -> Array:
    """Return the distance of tensors by each of :data:`MEASURED`, [n, 3]."""
    made = np.empty((len(rows), len(MEASURED)))
    for number, name in enumerate(MEASURED):
        made[:, number] = np.fromiter(map(attrgetter(name), rows), np.float64, len(rows))
    made[:, 1] = np.where(np.isnan(made[:, 1]), made[:, 0], made[:, 1])
    return made


def _together(rows: Array, feeds: Array, count: int) -> Array:
    """Return :func:`goldwatch.diagnosis.inputs.joined` of the tensors that feed each output, by
    each measure.
    """
    joined = np.sqrt(
        np.stack(
            [np.bincount(feeds, rows[:, number] ** 2, count) for number in range(len(MEASURED))],
            axis=1,
        )
    )
    return np.where(np.isnan(joined), np.inf, joined)
