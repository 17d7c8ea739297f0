"""Estimates of own errors: one of each output of a run, most of them kept as numbers in arrays."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ....base.fast_dataclasses import dataclass
from ....base.wording import percent
from ....dumps.place import Place
from ...by_recomputation import RecomputationVerdict
from ..observed_ops import ObservedOp
from ..op_input_states import BAD, InputState, root_sum_squares
from ..row_digest import Observation
from .distance_table import DistanceTable
from .normal_error import HOPELESS, SUSPECT_SCORE, Normal, NormalColumns

Array = Any

HIGHEST_SCORE = 99.0
"""The score of what is certain: NaN out of finite inputs, other integers out of equal inputs."""

ALL, SLICE, FACTOR = "all", "slice", "factor"
"""Measures: all elements; the worst slice; a common factor of all elements."""


class TensorEvidence(NamedTuple):
    """What makes an output a suspect besides its distances: a sentence, and the kind of explanation
    (:data:`goldwatch.judging.diagnosis.explanations.KINDS`) or an empty text.
    """

    sentence: str
    kind: str = ""


class ShownBy(NamedTuple):
    """The measure that shows an error: its name, the output's distance by it, the inputs' distance,
    and the distance that inputs and rounding explain.
    """

    measure: str
    value: float
    inputs: float
    expected: float


@dataclass(frozen=True)
class Estimate:
    """The estimated own error of an operator by one of its outputs.

    Attributes
    ----------
    op, output, inputs
        The operator, the output's row, and the operator's data inputs.
    known
        Whether every data input was compared; else ``inputs_distance`` is that of what lies nearest
        before them.
    distance, inputs_distance, expected, inherited
        Relative distances over all elements: the output's, that of its inputs together, what inputs
        and rounding explain, and what the inputs alone do.
    score
        Of the own error by the measure that shows it best; above :data:`SUSPECT_SCORE` it makes a
        suspect.
    shown
        The plainest measure whose score makes a suspect.
    whole_type
        The operator is like the others of its type, but unlike those of other types.
    normal
        What is normal for the operator's type, over all elements.
    decides
        The output is made of decisions (ArgMax, comparisons, casts to integers): no distance tells
        of them.
    fed_otherwise
        The output is no output but an input of the network, which differs from golden data itself.
    told
        What :mod:`.tensor_checks` or :mod:`.recomputed_estimates` found; None where distances
        decide.
    follows
        The output was computed again from the device's own inputs and is right.
    computed
        The verdict on an output that was computed again and is wrong; else None.
    inherits
        The output follows from the device's own inputs, and golden data from golden data: what
        differs came in with the inputs.
    rounds
        How far a right output is from what is computed of the device's own inputs, where that is
        most of its distance from golden data; else 0.
    golden_wrong
        The output is what its operator makes of the device's own inputs, but golden data do not
        follow from golden data.
    in_training
        Golden data are of an operator in training mode, which no om computes: nothing is known of
        the device's.
    """

    op: ObservedOp
    output: Observation
    inputs: Tuple[InputState, ...]
    known: bool
    distance: float
    inputs_distance: float
    expected: float
    inherited: float
    score: float
    shown: ShownBy
    whole_type: bool
    normal: Normal
    decides: bool = False
    fed_otherwise: bool = False
    evidence: Optional[TensorEvidence] = None
    follows: bool = False
    computed: Optional[RecomputationVerdict] = None
    golden_wrong: bool = False
    in_training: bool = False
    inherits: bool = False
    rounds: float = 0.0

    @property
    def suspect(self) -> bool:
        """Whether the operator is wrong by itself, as far as can be told."""
        return self.score > SUSPECT_SCORE

    @property
    def of_shape(self) -> bool:
        """Whether what is wrong is the shape in which it reads or makes its values."""
        return self.computed is not None and self.computed.of_shape

    @property
    def as_fed(self) -> bool:
        """Whether the inputs were as far off as the output is, by the digits that are shown."""
        return (
            self.known
            and not self.output.spoiled
            and (
                self.inputs_distance > self.distance
                or percent(self.inputs_distance) == percent(self.distance)
            )
        )

    @property
    def hands_on_infinities(self) -> bool:
        """Whether an input holds NaN or Inf on both sides alike, and nothing that was computed of
        the inputs is too large for the type.
        """
        error = self.computed.own_error if self.computed is not None else None
        return (error is None or not error.overflowed) and any(
            state.observation is not None
            and not state.observation.spoiled
            and state.observation.nan[0] + state.observation.inf[0] > 0
            for state in self.inputs
        )

    @property
    def left_range(self) -> bool:
        """Whether the output holds NaN or Inf though it follows from the device's own inputs, of
        which all that were compared are right: a constant left the range of the device's type.
        """
        return (
            self.inherits
            and self.output.spoiled
            and not self.output.golden_alone
            and not any(state.state == BAD for state in self.inputs)
        )


class PlainEstimates(NamedTuple):
    """Estimates of outputs for which these numbers are enough.

    Attributes
    ----------
    score
        [n], as that of :class:`Estimate`; NaN for outputs that are not plain.
    normal
        What is normal for each of their kinds, by its number.
    """

    score: Array
    normal: Mapping[int, Normal]


class Estimates(Sequence[Estimate]):
    """The estimates of all compared outputs of a run, in execution order, behind those apart.

    Attributes
    ----------
    apart
        One for each input of the network that differs at a place; outputs that nothing is compared
        with and that are wrong by computing again.
    table
        The compared outputs. The numbers below count them.
    special
        The estimates that are not plain, by number.
    scores
        [n], of all outputs.
    """

    def __init__(
        self,
        apart: Sequence[Estimate],
        table: DistanceTable,
        plain: PlainEstimates,
        special: Mapping[int, Estimate],
    ) -> None:
        self.apart = list(apart)
        self.table = table
        self.special = special
        self._plain = plain
        self.scores = plain.score
        self.scores[list(special)] = [entry.score for entry in special.values()]

    def changed(self, changes: Mapping[int, Estimate]) -> Estimates:
        """Return the same with other estimates of some outputs; the scores are shared, for the sake
        of memory: these estimates are not to be used any more.
        """
        return Estimates(self.apart, self.table, self._plain, {**self.special, **changes})

    def with_apart(self, more: Sequence[Estimate]) -> Estimates:
        """Return the same with more estimates that are apart."""
        apart = [*self.apart, *more]
        return Estimates(apart, self.table, self._plain, self.special)

    def of_output(self, number: int) -> Estimate:
        """Return the estimate of one output."""
        estimate = self.special.get(number)
        return self._made(number) if estimate is None else estimate

    def _made(self, number: int) -> Estimate:
        entry, plain = self.table.entry(number), self._plain
        distance, inputs_distance = entry.sizes[0][0], entry.fed
        if not entry.inputs_known and inputs_distance < HOPELESS:
            inputs_distance = root_sum_squares(
                [
                    state.observation.distance
                    for state in entry.inputs
                    if state.observation is not None
                ]
            )
        score, normal = plain.score[number].item(), plain.normal[int(self.table.kind[number])]
        # As all were scored together, to the last bit.
        columns = NormalColumns([normal], np.zeros(1, np.int64))
        fed, rounded, sums = (np.array([one]) for one in (entry.fed, entry.rounded, entry.sums))
        with np.errstate(all="ignore"):
            expected = columns.most(fed, rounded, sums).item()
            inherited = columns.expected(fed, 0.0, 0.0).item()
        shown = ShownBy(ALL, distance, inputs_distance, expected)
        distances = (distance, entry.fed, expected, inherited)
        return Estimate(
            entry.op,
            entry.output,
            entry.inputs,
            entry.inputs_known,
            *distances,
            score,
            shown,
            False,
            normal,
        )

    def marked(self, mark: Callable[[Estimate], bool]) -> Array:
        """Return which outputs' estimates are marked, [n]; no plain one is."""
        marks = np.zeros(len(self.scores), bool)
        marks[[number for number, entry in self.special.items() if mark(entry)]] = True
        return marks

    def suspects(self) -> Iterator[Estimate]:
        """Yield the estimates that make suspects."""
        yield from (entry for entry in self.apart if entry.suspect)
        yield from map(self.of_output, np.flatnonzero(self.scores > SUSPECT_SCORE).tolist())

    def of_type(self, op_type: str) -> Iterator[Estimate]:
        """Yield the estimates of the outputs of a type of operators."""
        kinds = [number for number, kind in enumerate(self.table.kinds) if kind.op_type == op_type]
        yield from map(self.of_output, np.flatnonzero(np.isin(self.table.kind, kinds)).tolist())

    def count(self, op_type: str) -> int:
        """Return how many operators of a type there are."""
        others = {entry.op.name for entry in self.apart if entry.op.type == op_type}
        return len(others.union(kind.op for kind in self.table.kinds if kind.op_type == op_type))

    def places(self) -> List[Place]:
        """Return all places that there are estimates of."""
        return list(
            dict.fromkeys([*(entry.op.place for entry in self.apart), *self.table.places()])
        )

    def worst_of(self, op: str, place: Place) -> Optional[Estimate]:
        """Return the estimate of an operator's worst output at a place; None where none was
        compared.
        """
        numbers = self.table.outputs_of(place, op)
        return max(map(self.of_output, numbers), key=lambda entry: entry.score, default=None)

    def __len__(self) -> int:
        return len(self.apart) + len(self.scores)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        others = len(self.apart)
        return self.apart[number] if number < others else self.of_output(number - others)
