"""Every operator's own error, estimated from the rows of a run."""

from __future__ import annotations

import math
from functools import lru_cache
from operator import attrgetter
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ...dumps.place import Place
from ...elements import element_count
from ...recomputing.by_golden import only_moves
from ...recomputing.decisions import ORDER
from ..inputs import BAD, Inputs, joined
from ..observations import Observations, ObservedOp
from ..seen import FACTOR_SHARE, Observation
from .chance import scatter
from .estimated import ALL, FACTOR, HIGHEST_SCORE, SLICE, Estimate, Estimates, Plain, Shown
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
from .feeding import Feeding, Found, Kind, distance_by
from .scoring import Outputs, Way, scores

Array = Any
Decides = Callable[[str, Optional[str]], bool]

_ALIKE = 1e-6
_HALF_A_STEP = math.sqrt(3.0)
"""The most that rounding to the nearest changes, in units of its root mean square."""


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


class Estimator:
    """Estimates the operators of one run.

    Parameters
    ----------
    seen
        The run's rows.
    inputs
        Finds the inputs of its operators.
    decides
        Tells of a type whether its operators decide (ArgMax, comparisons, casts to integers …):
        with inputs that differ by rounding only their outputs may differ.
    """

    def __init__(self, seen: Observations, inputs: Inputs, decides: Decides) -> None:
        self._seen = seen
        self._inputs = inputs
        self._decides = lru_cache(maxsize=1024)(decides)
        self._normal: List[Normals] = []

    def run(self) -> Estimates:
        """Return an estimate of every compared output, in execution order."""
        feeding = Feeding(self._seen, self._inputs)
        smooth = ~feeding.spoiled & (feeding.of_kinds(self._is_smooth) > 0)
        numbers = np.flatnonzero(smooth)
        self._normal = [
            Normals(measured, one.spread)
            for one, measured in zip(_MEASURES, _measured(feeding, numbers))
        ]
        some = numbers[feeding.of_kinds(lambda kind: only_moves(kind.op_type))[numbers] == 0]
        plain = self._plain(feeding, some)
        special = {
            number: self._estimate(feeding.found(number))
            for number in np.flatnonzero(np.isnan(plain.score)).tolist()
        }
        return Estimates(self._of_other_input(), feeding, plain, special)

    def _is_smooth(self, kind: Kind) -> bool:
        """Tell whether an output's distance is a number like any other, where it is one."""
        return not kind.whole and (
            kind.op_type.lower() in ORDER or not self._decides(kind.op_type, kind.dtype)
        )

    def _plain(self, feeding: Feeding, some: Array) -> Plain:
        """Return the estimates of outputs of which there is nothing to be said, most of all; all at
        once.

        Parameters
        ----------
        some
            Numbers of outputs that may be such.
        """
        score, expected, inherited = (np.full(len(feeding.ops), np.nan) for _ in range(3))
        used, kind = np.unique(feeding.kind[some], return_inverse=True)
        kinds = [feeding.kinds[number] for number in used]
        type_sums = feeding.of_kinds(lambda kind: type_noise(kind.op_type, kind.dtype))[some]
        alone = feeding.of_kinds(lambda kind: scatter(element_count(kind.shape)))[some]
        outputs = Outputs(
            kind,
            feeding.values[some],
            feeding.fed_by[some],
            feeding.rounded[some],
            feeding.sums[some],
            type_sums,
            alone,
        )
        ways = [
            Way(
                one.rounding,
                one.rare,
                one.name == SLICE,
                [self._normal[number].of(kind.op, kind.op_type) for kind in kinds],
            )
            for number, one in enumerate(_MEASURES)
        ]
        scored = scores(
            outputs, ways, [self._normal[0].of_other_types(kind.op_type) for kind in kinds]
        )
        plain = some[scored.plain]
        for column, found in zip((score, expected, inherited), scored):
            column[plain] = found[scored.plain]
        return Plain(score, expected, inherited, dict(zip(used.tolist(), ways[0].normals)))

    def _of_other_input(self) -> List[Estimate]:
        """Return an estimate for each place where the network's own input differs: device and
        golden run were fed with other data.
        """
        made: Dict[Place, Estimate] = {}
        for op in self._seen.ordered():
            if op.place in made:
                continue
            for state in self._inputs.of_network(op):
                row = state.seen
                if row is None or state.state != BAD or not (row.different or row.distance > 0):
                    continue
                shown, normal = Shown(ALL, row.distance, 0.0, 0.0), Normal(1.0, 0.0, 1.0, 0, True)
                made[op.place] = Estimate(
                    op,
                    row,
                    (state,),
                    True,
                    row.distance,
                    0.0,
                    0.0,
                    0.0,
                    HIGHEST_SCORE,
                    shown,
                    False,
                    normal,
                    fed_otherwise=True,
                )
                break
        return list(made.values())

    def _estimate(self, found: Found) -> Estimate:
        op, output, (distance, fed) = found.op, found.output, found.sizes[0]
        normal, sums = self._normal[0].of(op.name, op.type), found.sums
        expected, inherited = normal.most(fed, found.rounded, sums), normal.expected(fed, 0.0)
        score, shown, whole_type = 0.0, Shown(ALL, distance, found.fed, expected), False
        decides = self._is_decision(op, output) and not output.spoiled
        if output.spoiled:
            came_in = any(state.seen is not None and state.seen.spoiled for state in found.inputs)
            score = HIGHEST_SCORE if not came_in and found.fed < HOPELESS else 0.0
        elif decides or output.whole:
            score = (
                HIGHEST_SCORE
                if output.different and found.known and self._equal_inputs(found)
                else 0.0
            )
        elif fed < HOPELESS and not _moved(found):
            score, shown, whole_type = self._scored(found, normal)
        score = min(score, HIGHEST_SCORE)
        distances = (distance, found.fed, expected, inherited)
        return Estimate(
            op,
            output,
            found.inputs,
            found.known,
            *distances,
            score,
            shown,
            whole_type,
            normal,
            decides,
        )

    def _scored(self, found: Found, normal: Normal) -> Tuple[float, Shown, bool]:
        """Return the score by the measure that shows an error best, that measure, and whether it
        takes other types to see it.
        """
        scored = [self._by(found, number) for number in range(len(_MEASURES))]
        score = max(one for one, _ in scored)
        # Of several that show it the plainest is told.
        shown = next(
            (numbers for one, numbers in scored if one > min(score, SUSPECT_SCORE)), scored[0][1]
        )
        if score > SUSPECT_SCORE or normal.rare:
            return score, shown, False
        (distance, fed), sums = found.sizes[0], type_noise(found.op.type, found.output.dtype)
        others = self._normal[0].of_other_types(found.op.type)
        alike = others.score(distance, fed, found.rounded, sums, _scatter(found))
        if alike <= SUSPECT_SCORE:
            return score, shown, False
        return alike, Shown(ALL, distance, found.fed, others.most(fed, found.rounded, sums)), True

    def _by(self, found: Found, number: int) -> Tuple[float, Shown]:
        """Return the score of an output by one measure, and its numbers."""
        measure, (value, came_in) = _MEASURES[number], found.sizes[number]
        least = value if measure.name == SLICE else found.output.distance
        normal = self._normal[number].of(found.op.name, found.op.type)
        rounded, sums = measure.rounding * found.rounded, measure.rounding * found.sums
        # Golden values that are only rounded accuse nobody, and of one element rounding is a common
        # factor.
        judged = least > _HALF_A_STEP * found.rounded and (measure.rare or not normal.rare)
        expected = normal.most(came_in, rounded, sums)
        score = normal.beyond(value, expected, _scatter(found)) if judged else 0.0
        fed = joined(
            [distance_by(state.seen, number) for state in found.inputs if state.seen is not None]
        )
        return score, Shown(measure.name, value, fed, expected)

    def _is_decision(self, op: ObservedOp, output: Observation) -> bool:
        """Tell whether an output is a decision; the values of TopK are numbers like any others."""
        return self._decides(op.type, output.dtype) and (
            output.whole or op.type.lower() not in ORDER
        )

    @staticmethod
    def _equal_inputs(found: Found) -> bool:
        """Tell whether every input that was compared is equal to golden data."""
        return not any(
            state.seen.different or state.seen.distance > 0
            for state in found.inputs
            if state.seen is not None
        )


def _moved(found: Found) -> bool:
    """Tell whether an operator that only moves its input has exactly its input's error: other
    slices hold it then, no more of it.
    """
    rows = [state.seen for state in found.inputs if state.seen is not None]
    if not only_moves(found.op.type) or len(rows) != 1:
        return False
    return math.isclose(found.output.distance, rows[0].distance, rel_tol=_ALIKE)


def _scatter(found: Found) -> float:
    return scatter(element_count(found.output.shape))


def _measured(feeding: Feeding, some: Array) -> Iterator[Measured]:
    """Yield outputs as each of :data:`_MEASURES` sees them, those of them that teach something."""
    names = [
        np.array(list(map(attrgetter(name), feeding.kinds)), object) for name in ("op", "op_type")
    ]
    for number, measure in enumerate(_MEASURES):
        values, fed = feeding.values[some, number], feeding.fed_by[some, number]
        with np.errstate(all="ignore"):
            telling = (values > 0) & (values < np.inf) & (fed < HOPELESS)
        kept = some[telling]
        rounded, sums = (
            measure.rounding * feeding.rounded[kept],
            measure.rounding * feeding.sums[kept],
        )
        yield Measured(
            names[0][feeding.kind[kept]],
            names[1][feeding.kind[kept]],
            values[telling],
            fed[telling],
            rounded,
            sums,
        )
