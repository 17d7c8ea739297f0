"""Every operator's own error, estimated from the rows of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...dumps.place import Place
from ...records import quickly_made
from ...tensors.axes import element_count
from ..inputs import BAD, Inputs, InputState, joined
from ..observations import Observations, ObservedOp
from ..seen import FACTOR_SHARE, Observation
from .chance import scatter
from .decisions import Decision, Redone, decided, orders
from .expected import (
    HOPELESS,
    SMALLEST_SLICE_SPREAD,
    SMALLEST_SPREAD,
    SUSPECT_SCORE,
    Measured,
    Normal,
    Normals,
    type_noise,
)
from .feeding import Feeding, Found, distance_by
from .recomputing import only_moves
from .scoring import Outputs, Way, scores

HIGHEST_SCORE = 99.0
"""The score of what needs no estimate: NaN out of finite inputs, other integers out of equal ones."""

Decides = Callable[[str, Optional[str]], bool]
Redo = Callable[[ObservedOp, Observation, Sequence[InputState]], Optional[Redone]]
"""Makes the decisions of an output once more, from its operator's inputs."""

_MOST_REDONE = 24
_ALIKE = 1e-6
_HALF_A_STEP = math.sqrt(3.0)
"""The most that rounding to the nearest changes, in units of its root mean square."""


class Told(NamedTuple):
    """What the tensors of an output told: in a sentence, and the kind of explanation that it is (empty where it is none)."""

    sentence: str
    kind: str = ""


ALL, SLICE, FACTOR = "all", "slice", "factor"


class _Measure(NamedTuple):
    """One way to measure how far a tensor is from golden data.

    Attributes
    ----------
    name
        ``all`` elements; the worst ``slice``; a common ``factor`` of all elements.
    rounding
        The share of rounding that this measure sees.
    spread
        The smallest spread that is believed.
    rare
        Whether operators whose types are rare can be judged by it.
    """

    name: str
    rounding: float
    spread: float
    rare: bool


_MEASURES = (
    _Measure(ALL, 1.0, SMALLEST_SPREAD, True),
    _Measure(SLICE, 1.0, SMALLEST_SLICE_SPREAD, True),
    _Measure(FACTOR, FACTOR_SHARE, SMALLEST_SLICE_SPREAD, False),
)


class Shown(NamedTuple):
    """A measure that shows an error: its name, the output's distance, the inputs', and what those and rounding explain."""

    measure: str
    value: float
    inputs: float
    expected: float


@quickly_made
@dataclass(frozen=True)
class Estimate:
    """What one output of one operator says about its operator.

    Attributes
    ----------
    op, output, inputs
        The operator, the output's row, and the operator's data inputs.
    known
        Whether every data input was compared; else ``inputs_distance`` is that of what lies nearest before them.
    distance, inputs_distance, expected, inherited
        Relative distances over all elements: the output's, that of its inputs together, what inputs and rounding explain, and what the
        inputs alone do.
    score
        Of the own error by the measure that shows it best; above :data:`SUSPECT_SCORE` it makes a suspect.
    shown
        The plainest measure whose score makes a suspect.
    whole_type
        The operator is like the others of its type, but unlike those of other types.
    normal
        What is normal for the operator's type, over all elements.
    decision
        Of operators that decide.
    fed_otherwise
        The output is no output but an input of the network, which differs from golden data itself.
    told
        What the tensors told where the distances did not (:mod:`.second_look`).
    follows
        The output was computed once more from the device's own inputs: it is what they make.
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
    shown: Shown
    whole_type: bool
    normal: Normal
    decision: Optional[Decision] = None
    fed_otherwise: bool = False
    told: Optional[Told] = None
    follows: bool = False

    @property
    def suspect(self) -> bool:
        """Whether the operator is wrong by itself, as far as can be told."""
        return self.score > SUSPECT_SCORE


class Estimator:
    """Estimates the operators of one run.

    Parameters
    ----------
    seen
        The run's rows.
    inputs
        Finds the inputs of its operators.
    decides
        Tells of a type whether its operators decide (ArgMax, comparisons, casts to integers …): with inputs that differ by rounding only
        their outputs may differ.
    redo
        Makes decisions once more; None: the share of those that differ is all there is.
    """

    def __init__(self, seen: Observations, inputs: Inputs, decides: Decides, redo: Optional[Redo] = None) -> None:
        self._redo = redo
        self._redone = 0
        self._seen = seen
        self._inputs = inputs
        self._decides = lru_cache(maxsize=1024)(decides)
        self._normal: List[Normals] = []

    def run(self) -> List[Estimate]:
        """Return an estimate of every compared output, in execution order."""
        feeding = Feeding(self._seen, self._inputs)
        found = feeding.found
        smooth = [number for number, entry in enumerate(found) if self._is_smooth(entry)]
        self._normal = [Normals(measured, one.spread) for one, measured in zip(_MEASURES, _measured(feeding, smooth))]
        plain = self._plain(feeding, [number for number in smooth if not only_moves(found[number].op.type)])
        return self._of_other_input() + [plain.get(number) or self._estimate(entry) for number, entry in enumerate(found)]

    def _is_smooth(self, found: Found) -> bool:
        """Tell whether an output's distance is a number like any other."""
        output = found.output
        return not output.whole and not output.spoiled and not self._is_decision(found.op, output)

    def _plain(self, feeding: Feeding, some: Sequence[int]) -> Dict[int, Estimate]:
        """Return the estimates of outputs of which there is nothing to be said, most of all, by number; all at once."""
        if not some:
            return {}
        entries = [feeding.found[number] for number in some]
        numbers: Dict[Tuple[str, str], int] = {}
        ops = np.array([numbers.setdefault((entry.op.name, entry.op.type), len(numbers)) for entry in entries])
        columns = [(entry.rounded, entry.sums, type_noise(entry.op.type, entry.output.dtype), _scatter(entry)) for entry in entries]
        outputs = Outputs(ops, feeding.values[some], feeding.grown[some], *np.array(columns).T)
        ways = [
            Way(one.rounding, one.rare, one.name == SLICE, [self._normal[number].of(*op) for op in numbers])
            for number, one in enumerate(_MEASURES)
        ]
        scored = scores(outputs, ways, [self._normal[0].of_other_types(op_type) for _, op_type in numbers])
        made = {}
        for number, entry, op, score, expected, inherited, plain in zip(some, entries, ops, *(part.tolist() for part in scored)):
            if plain:
                (distance, grown), fed = entry.sizes[0], entry.fed
                if not entry.known and grown < HOPELESS:
                    fed = joined([state.seen.distance for state in entry.inputs if state.seen is not None])
                shown, normal = Shown(ALL, distance, fed, expected), ways[0].normals[op]
                distances = (distance, entry.fed, expected, inherited)
                made[number] = Estimate(entry.op, entry.output, entry.inputs, entry.known, *distances, score, shown, False, normal)
        return made

    def _of_other_input(self) -> List[Estimate]:
        """Return an estimate for each place where the network's own input differs: device and golden run were fed with other data."""
        made: Dict[Place, Estimate] = {}
        for op in self._seen.ordered():
            if op.place in made:
                continue
            for state in self._inputs.of_network(op):
                row = state.seen
                if row is None or state.state != BAD:
                    continue
                shown, normal = Shown(ALL, row.distance, 0.0, 0.0), Normal(1.0, 0.0, 1.0, 0, True)
                made[op.place] = Estimate(
                    op, row, (state,), True, row.distance, 0.0, 0.0, 0.0, HIGHEST_SCORE, shown, False, normal, fed_otherwise=True
                )
                break
        return list(made.values())

    def _estimate(self, found: Found) -> Estimate:
        op, output, (distance, grown) = found.op, found.output, found.sizes[0]
        normal, sums = self._normal[0].of(op.name, op.type), found.sums
        expected, inherited = normal.most(grown, found.rounded, sums), normal.expected(grown, 0.0)
        score, shown, whole_type = 0.0, Shown(ALL, distance, found.fed, expected), False
        decision = self._decision(found) if self._is_decision(op, output) and not output.spoiled else None
        if output.spoiled:
            came_in = any(state.seen is not None and state.seen.spoiled for state in found.inputs)
            score = HIGHEST_SCORE if not came_in and found.fed < HOPELESS else 0.0
        elif decision is not None:
            score = decision.score
        elif output.whole:
            score = HIGHEST_SCORE if output.different and found.known and self._equal_inputs(found) else 0.0
        elif grown < HOPELESS and not _moved(found):
            score, shown, whole_type = self._scored(found, normal)
        score = min(score, HIGHEST_SCORE)
        distances = (distance, found.fed, expected, inherited)
        return Estimate(op, output, found.inputs, found.known, *distances, score, shown, whole_type, normal, decision)

    def _scored(self, found: Found, normal: Normal) -> Tuple[float, Shown, bool]:
        """Return the score by the measure that shows an error best, that measure, and whether it takes other types to see it."""
        scored = [self._by(found, number) for number in range(len(_MEASURES))]
        score = max(one for one, _ in scored)
        # Of several that show it the plainest is told.
        shown = next((numbers for one, numbers in scored if one > min(score, SUSPECT_SCORE)), scored[0][1])
        if score > SUSPECT_SCORE or normal.rare:
            return score, shown, False
        (distance, grown), sums = found.sizes[0], type_noise(found.op.type, found.output.dtype)
        others = self._normal[0].of_other_types(found.op.type)
        alike = others.score(distance, grown, found.rounded, sums, _scatter(found))
        if alike <= SUSPECT_SCORE:
            return score, shown, False
        return alike, Shown(ALL, distance, found.fed, others.most(grown, found.rounded, sums)), True

    def _by(self, found: Found, number: int) -> Tuple[float, Shown]:
        """Return the score of an output by one measure, and its numbers."""
        measure, (value, grown) = _MEASURES[number], found.sizes[number]
        least = value if measure.name == SLICE else found.output.distance
        normal = self._normal[number].of(found.op.name, found.op.type)
        rounded, sums = measure.rounding * found.rounded, measure.rounding * found.sums
        # Golden values that are only rounded accuse nobody, and of one element rounding is a common factor.
        judged = least > _HALF_A_STEP * found.rounded and (measure.rare or not normal.rare)
        expected = normal.most(grown, rounded, sums)
        score = normal.beyond(value, expected, _scatter(found)) if judged else 0.0
        fed = joined([distance_by(state.seen, number) for state in found.inputs if state.seen is not None])
        return score, Shown(measure.name, value, fed, expected)

    def _is_decision(self, op: ObservedOp, output: Observation) -> bool:
        """Tell whether an output is a decision; the values of TopK are numbers like any others."""
        return self._decides(op.type, output.dtype) and (output.whole or not orders(op.type))

    def _decision(self, found: Found) -> Decision:
        """Judge the decisions of an output, from the tensors where they can be read."""
        rows = [state.seen for state in found.inputs if state.seen is not None]
        if not found.output.different or not found.known or not found.fed < HOPELESS:
            return Decision(found.output.share, math.nan, 0.0)
        if self._equal_inputs(found):
            return Decision(found.output.share, 0.0, HIGHEST_SCORE)
        if any(row.whole and row.different for row in rows):
            return Decision(found.output.share, math.nan, 0.0)
        made = decided(found.op.type, found.output, rows, found.fed)
        if self._redo is not None and self._redone < _MOST_REDONE:
            self._redone += 1
            redone = self._redo(found.op, found.output, found.inputs)
            if redone is not None:
                return made._replace(score=HIGHEST_SCORE if redone.wrong else 0.0, redone=redone)
        return made

    @staticmethod
    def _equal_inputs(found: Found) -> bool:
        """Tell whether every input that was compared is equal to golden data."""
        return not any(state.seen.different or state.seen.distance > 0 for state in found.inputs if state.seen is not None)


def _moved(found: Found) -> bool:
    """Tell whether an operator that only moves its input has exactly its input's error: other slices hold it then, no more of it."""
    rows = [state.seen for state in found.inputs if state.seen is not None]
    if not only_moves(found.op.type) or len(rows) != 1:
        return False
    return math.isclose(found.output.distance, rows[0].distance, rel_tol=_ALIKE)


def _scatter(found: Found) -> float:
    return scatter(element_count(found.output.shape))


def _measured(feeding: Feeding, some: Sequence[int]) -> Iterator[List[Measured]]:
    """Yield outputs as each of :data:`_MEASURES` sees them, those of them that teach something."""
    rounded = np.array([(entry.rounded, entry.sums) for entry in feeding.found]).reshape(-1, 2)
    numbers = np.array(some, np.intp)
    for number, measure in enumerate(_MEASURES):
        values, fed = feeding.values[numbers, number], feeding.grown[numbers, number]
        with np.errstate(all="ignore"):
            telling = numbers[(values > 0) & (values < np.inf) & (fed < HOPELESS)].tolist()
        ops = [feeding.found[one].op for one in telling]
        columns = (feeding.values[telling, number], feeding.grown[telling, number], *(measure.rounding * rounded[telling]).T)
        names = ([op.name for op in ops], [op.type for op in ops])
        yield list(map(Measured._make, zip(*names, *(column.tolist() for column in columns))))


def first_of(estimates: List[Estimate], op: str, place: Place) -> Optional[Estimate]:
    """Return the estimate of an operator's worst output at a place."""
    found = [entry for entry in estimates if entry.op.name == op and entry.op.place == place and not entry.fed_otherwise]
    return max(found, key=lambda entry: entry.score, default=None)
