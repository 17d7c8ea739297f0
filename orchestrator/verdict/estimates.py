"""Every operator's own error, estimated from the rows of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from ..dumps.place import Place
from .inputs import UNKNOWN, Inputs, InputState, joined
from .observations import FACTOR_SHARE, Observation, Observations, ObservedOp
from .own_error import SMALLEST_SLICE_SPREAD, SMALLEST_SPREAD, SUSPECT_SCORE, Measured, Normal, fit, rounding

HIGHEST_SCORE = 99.0
"""The score of what needs no estimate: NaN out of finite inputs, other integers out of equal ones."""

HOPELESS = 0.1
"""Inputs that are wrong by this much hide whatever an operator adds."""

Decides = Callable[[str, Optional[str]], bool]


ALL, SLICE, FACTOR = "all", "slice", "factor"


class _Measure(NamedTuple):
    """One way to measure how far a tensor is from golden data.

    Attributes
    ----------
    name
        ``all`` elements; the worst ``slice``; a common ``factor`` of all elements.
    of
        From a row to the distance.
    rounding
        The share of rounding that this measure sees.
    spread
        The smallest spread that is believed.
    rare
        Whether operators whose types are rare can be judged by it.
    """

    name: str
    of: Callable[[Observation], float]
    rounding: float
    spread: float
    rare: bool


_MEASURES = (
    _Measure(ALL, lambda row: row.distance, 1.0, SMALLEST_SPREAD, True),
    _Measure(SLICE, lambda row: row.distance if math.isnan(row.slice_distance) else row.slice_distance, 1.0, SMALLEST_SLICE_SPREAD, True),
    _Measure(FACTOR, lambda row: row.factor_distance, FACTOR_SHARE, SMALLEST_SLICE_SPREAD, False),
)

_Sizes = Tuple[Tuple[float, float], ...]
"""For each measure the output's distance, and its inputs' together (root of the sum of squares)."""


class Shown(NamedTuple):
    """A measure that shows an error: its name, the output's distance, the inputs', and what those and rounding explain."""

    measure: str
    value: float
    inputs: float
    expected: float


@dataclass(frozen=True)
class Estimate:
    """What one output of one operator says about its operator.

    Attributes
    ----------
    op, output, inputs
        The operator, the output's row, and the operator's data inputs.
    known
        Whether every data input was compared; else ``inputs_distance`` is that of what lies nearest before them.
    distance, inputs_distance, expected
        Relative distances over all elements: the output's, that of its inputs together, and what inputs and rounding explain.
    score
        Of the own error by the measure that shows it best; above :data:`SUSPECT_SCORE` it makes a suspect.
    shown
        The plainest measure whose score makes a suspect.
    whole_type
        The operator is like the others of its type, but unlike those of other types.
    normal
        What is normal for the operator's type, over all elements.
    """

    op: ObservedOp
    output: Observation
    inputs: Tuple[InputState, ...]
    known: bool
    distance: float
    inputs_distance: float
    expected: float
    score: float
    shown: Shown
    whole_type: bool
    normal: Normal

    @property
    def suspect(self) -> bool:
        """Whether the operator is wrong by itself, as far as can be told."""
        return self.score > SUSPECT_SCORE


class _Found(NamedTuple):
    op: ObservedOp
    output: Observation
    inputs: Tuple[InputState, ...]
    known: bool
    sizes: _Sizes


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
    """

    def __init__(self, seen: Observations, inputs: Inputs, decides: Decides) -> None:
        self._seen = seen
        self._inputs = inputs
        self._decides = decides
        self._before: Dict[Place, List[float]] = {}
        self._normal: List[Dict[str, Normal]] = []

    def run(self) -> List[Estimate]:
        """Return an estimate of every compared output, in execution order."""
        found = [self._find(op, output) for op in self._seen.ordered() for _, output in sorted(op.outputs.items()) if output.compared]
        smooth = [entry for entry in found if not whole(entry.output.dtype) and not entry.output.spoiled]
        self._normal = [
            fit([_measured(entry, number, measure) for entry in smooth], measure.spread) for number, measure in enumerate(_MEASURES)
        ]
        return [self._estimate(entry) for entry in found]

    def _find(self, op: ObservedOp, output: Observation) -> _Found:
        """Return an output with what feeds its operator."""
        states = tuple(self._inputs.of(op))
        rows = [state.seen for state in states if state.seen is not None]
        known = bool(states) and all(state.state != UNKNOWN for state in states)
        if not known:
            rows += self._inputs.behind(op)
        before = self._before.setdefault(op.place, [0.0] * len(_MEASURES))
        # Where nothing tells what feeds the operator, it may be the worst that ran before.
        nothing = not rows and self._inputs.node(op) is None
        fed = list(before) if nothing else [joined([measure.of(row) for row in rows]) for measure in _MEASURES]
        made = [measure.of(output) for measure in _MEASURES]
        before[:] = [max(worst, value) if value < math.inf else worst for worst, value in zip(before, made)]
        return _Found(op, output, states, known, tuple(zip(made, fed)))

    def _estimate(self, found: _Found) -> Estimate:
        op, output, (distance, fed) = found.op, found.output, found.sizes[0]
        normal, rounded = self._of_type(0, op.type), rounding(output.dtype)
        expected = normal.expected(fed, rounded)
        score, shown, whole_type = 0.0, Shown(ALL, distance, fed, expected), False
        if output.spoiled:
            score = 0.0 if any(state.seen is not None and state.seen.spoiled for state in found.inputs) else HIGHEST_SCORE
        elif whole(output.dtype):
            score = HIGHEST_SCORE if self._wrong_integers(found) else 0.0
        elif fed < HOPELESS:
            scored = [self._by(found, number) for number in range(len(_MEASURES))]
            score = max(one for one, _ in scored)
            # Of several that show it the plainest is told.
            shown = next((numbers for one, numbers in scored if one > min(score, SUSPECT_SCORE)), scored[0][1])
            alike = self._normal[0][""].score(distance, fed, rounded)
            if score <= SUSPECT_SCORE < alike and not normal.rare:
                score, whole_type = alike, True
                shown = Shown(ALL, distance, fed, self._normal[0][""].expected(fed, rounded))
        score = min(score, HIGHEST_SCORE)
        return Estimate(op, output, found.inputs, found.known, distance, fed, expected, score, shown, whole_type, normal)

    def _of_type(self, number: int, op_type: str) -> Normal:
        return self._normal[number].get(op_type, self._normal[number][""])

    def _by(self, found: _Found, number: int) -> Tuple[float, Shown]:
        """Return the score of an output by one measure, and its numbers."""
        measure, (value, fed) = _MEASURES[number], found.sizes[number]
        normal, rounded = self._of_type(number, found.op.type), measure.rounding * rounding(found.output.dtype)
        score = normal.score(value, fed, rounded) if measure.rare or not normal.rare else 0.0
        return score, Shown(measure.name, value, fed, normal.expected(fed, rounded))

    def _wrong_integers(self, found: _Found) -> bool:
        """Tell whether integers differ although nothing that feeds them does."""
        if not found.output.different or not found.known or not found.sizes[0][1] < HOPELESS:
            return False
        rows = [state.seen for state in found.inputs if state.seen is not None]
        differing = [row for row in rows if row.different or row.distance > 0]
        if any(whole(row.dtype) for row in differing):
            return False
        return not differing or not self._decides(found.op.type, found.output.dtype)


def _measured(found: _Found, number: int, measure: _Measure) -> Measured:
    value, fed = found.sizes[number]
    return Measured(found.op.name, found.op.type, value, fed, measure.rounding * rounding(found.output.dtype))


def whole(dtype: str) -> bool:
    """Tell whether a type holds whole numbers or truth values: equal or not."""
    return dtype.startswith(("int", "uint", "bool"))


def first_of(estimates: List[Estimate], op: str, place: Place) -> Optional[Estimate]:
    """Return the estimate of an operator's worst output at a place."""
    found = [entry for entry in estimates if entry.op.name == op and entry.op.place == place]
    return max(found, key=lambda entry: entry.score, default=None)
