"""Estimates the own error of every operator from the rows of a run."""

from __future__ import annotations

import math
from functools import lru_cache
from operator import attrgetter
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ....base.element_types import element_count
from ....dumps.place import Place
from ....recomputing.formulas_by_type import only_moves
from ....recomputing.repeated_decisions import ORDER
from ..observed_ops import ObservedOp, ObservedOps
from ..op_input_states import BAD, Inputs, root_sum_squares
from ..row_digest import FACTOR_SHARE, Observation
from .distance_table import DistanceTable, OutputKind, TableEntry, distance_by
from .estimate import (
    ALL,
    FACTOR,
    HIGHEST_SCORE,
    SLICE,
    Estimate,
    Estimates,
    PlainEstimates,
    ShownBy,
)
from .normal_error import (
    HOPELESS,
    SMALLEST_SLICE_SPREAD,
    SMALLEST_SPREAD,
    SUSPECT_SCORE,
    Measured,
    Normal,
    Normals,
    rounding,
    scatter,
    type_noise,
)

_AT_ONCE = 1 << 14
"""Outputs whose scores are computed at once, for the sake of memory."""
_MARGIN = 1e-6
"""How much scores from arrays may differ from :class:`.Normal`'s by rounding: outputs that come so
near to the threshold are estimated one by one.
"""


class Outputs(NamedTuple):
    """Numbers of n outputs; float64 but for ``op``.

    Attributes
    ----------
    op
        [n], which operator's (a number from 0).
    values, fed
        [n, measures], the outputs' distances and their inputs' together.
    rounded, sums, type_sums, scatter
        [n], as :mod:`.normal_error` has them.
    """

    op: Array
    values: Array
    fed: Array
    rounded: Array
    sums: Array
    type_sums: Array
    scatter: Array


class Scores(NamedTuple):
    """Of n outputs the score, the distance that inputs and rounding explain, the distance that the
    inputs alone explain (float64), and whether these numbers are enough (bool).
    """

    score: Array
    expected: Array
    inherited: Array
    plain: Array


class Measure(NamedTuple):
    """A measure: the share of rounding that it sees, whether rare types are judged by it, whether
    it is of slices; what is normal for each operator.
    """

    rounding: float
    rare: bool
    of_slices: bool
    normals: Sequence[Normal]


def scores(outputs: Outputs, measures: Sequence[Measure], others: Sequence[Normal]) -> Scores:
    """Return the scores of outputs.

    Parameters
    ----------
    measures
        The measures, that of all elements first.
    others
        What is normal for the operators of all other types, by op.
    """
    score = np.full(len(outputs.op), -np.inf)
    of_first_measure: List[Tuple[Array, Array]] = []
    with np.errstate(all="ignore"):
        for number, measure in enumerate(measures):
            normal = _Normals(measure.normals, outputs.op)
            value, fed = outputs.values[:, number], outputs.fed[:, number]
            expected = normal.most(
                fed, measure.rounding * outputs.rounded, measure.rounding * outputs.sums
            )
            least = value if measure.of_slices else outputs.values[:, 0]
            judged = (least > _HALF_A_STEP * outputs.rounded) & (measure.rare | ~normal.rare)
            score = np.maximum(
                score, np.where(judged, normal.beyond(value, expected, outputs.scatter), 0.0)
            )
            if not number:
                of_first_measure.append((expected, normal.expected(fed, 0.0, 0.0)))
                common = ~normal.rare
        other_types = _Normals(others, outputs.op)
        most = other_types.most(outputs.fed[:, 0], outputs.rounded, outputs.type_sums)
        apart = common & ~(
            other_types.beyond(outputs.values[:, 0], most, outputs.scatter)
            <= SUSPECT_SCORE - _MARGIN
        )
        hopeless = ~(outputs.fed[:, 0] < HOPELESS)
    score[hopeless] = 0.0
    return Scores(
        score, *of_first_measure[0], hopeless | (~apart & (score <= SUSPECT_SCORE - _MARGIN))
    )


class _Normals:
    """What is normal for each of many outputs, in arrays:
    :class:`goldwatch.judging.diagnosis.own_error.normal_error.Normal`.
    """

    def __init__(self, normals: Sequence[Normal], op: Array) -> None:
        table = np.array(
            [
                (normal.gain, normal.noise, normal.spread, normal.largest_inputs, normal.rare)
                for normal in normals
            ]
        ).reshape(-1, 5)[op]
        self._gain, self._noise, self._spread, self._largest_fed = table.T[:4]
        self.rare = table[:, 4] != 0
        groups: Dict[int, Tuple[Array, List[int]]] = {}
        for number, normal in enumerate(normals):
            if normal.alternatives is not None:
                groups.setdefault(id(normal.alternatives), (normal.alternatives, []))[1].append(
                    number
                )
        self._alternatives = [
            (squares, np.flatnonzero(np.isin(op, ops_of_group)))
            for squares, ops_of_group in groups.values()
        ]

    def expected(self, fed: Array, rounded: Array, sums: Array) -> Array:
        noise = np.where(self.rare, np.maximum(self._noise, sums), self._noise)
        gain = np.where(fed <= self._largest_fed, self._gain, np.maximum(self._gain, 1.0))
        return np.sqrt(gain**2 * (fed**2 + rounded**2) + noise**2)

    def most(self, fed: Array, rounded: Array, sums: Array) -> Array:
        usual = self.expected(fed, rounded, sums)
        carried = fed**2 + rounded**2
        for squares, outputs_of_group in self._alternatives:
            largest = np.zeros(len(outputs_of_group))
            for gain, noise in squares:
                np.maximum(largest, gain * carried[outputs_of_group] + noise, out=largest)
            usual[outputs_of_group] = np.where(
                usual[outputs_of_group] < np.inf,
                np.maximum(usual[outputs_of_group], np.sqrt(largest)),
                usual[outputs_of_group],
            )
        return usual

    def beyond(self, value: Array, expected: Array, scatter: Array) -> Array:
        score = np.log(value / expected) / np.hypot(self._spread, scatter)
        score = np.where((expected == 0) | np.isinf(value), np.inf, score)
        return np.where((value <= 0) | np.isnan(value) | np.isinf(expected), 0.0, score)


Array = Any
_NEARLY_EXACT = 0.004
"""What inputs are off at most where they may be golden data's, rounded to bfloat16."""
_COMMON_FACTOR, _FACTOR_ELEMENTS = 0.95, 16
"""The share of an error along the golden values, of so many elements at least, that noise does not
reach: of 16 not once in 10^8.
"""
Decides = Callable[[str, Optional[str]], bool]

# What only moves values has its input's distance but for the rounding of two sums of squares,
# which this is far above.
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
    """Estimates the own errors of the operators of one run.

    Parameters
    ----------
    observed
        The run's rows.
    inputs
        Finds the inputs of its operators.
    decides
        Tells of a type whether its operators decide (ArgMax, comparisons, casts to integers …):
        with inputs that differ by rounding only their outputs may differ.
    """

    def __init__(self, observed: ObservedOps, inputs: Inputs, decides: Decides) -> None:
        self._observed_ops = observed
        self._inputs = inputs
        self._decides = lru_cache(maxsize=1024)(decides)
        self._normal: List[Normals] = []

    def run(self) -> Estimates:
        """Return an estimate of every compared output, in execution order."""
        table = DistanceTable(self._observed_ops, self._inputs)
        smooth = ~table.spoiled & (table.by_kind(self._is_smooth) > 0)
        numbers = np.flatnonzero(smooth)
        self._normal = [
            Normals(measured, measure.spread, by_others=measure is _MEASURES[0])
            for measure, measured in zip(_MEASURES, _measured(table, numbers))
        ]
        may_be_plain = numbers[table.by_kind(lambda kind: only_moves(kind.op_type))[numbers] == 0]
        plain = self._plain(table, may_be_plain)
        plain.score[smooth & _off_by_a_factor(table)] = np.nan
        special = {
            number: self._estimate(table.entry(number))
            for number in np.flatnonzero(np.isnan(plain.score)).tolist()
        }
        return Estimates(self._of_other_input(), table, plain, special)

    def _is_smooth(self, kind: OutputKind) -> bool:
        """Tell whether outputs of a kind have meaningful distances: they are no decisions."""
        return not kind.whole and (
            kind.op_type.lower() in ORDER or not self._decides(kind.op_type, kind.dtype)
        )

    def _plain(self, table: DistanceTable, candidates: Array) -> PlainEstimates:
        """Return the estimates of outputs that are no suspects, computed for all ``candidates``
        (numbers of outputs) at once.
        """
        score, expected, inherited = (np.full(len(table), np.nan) for _ in range(3))
        used, kind = np.unique(table.kind[candidates], return_inverse=True)
        kinds = [table.kinds[number] for number in used]
        type_sums = table.by_kind(lambda kind: type_noise(kind.op_type, kind.dtype))
        scatters = table.by_kind(lambda kind: scatter(element_count(kind.shape)))
        measures = [
            Measure(
                measure.rounding,
                measure.rare,
                measure.name == SLICE,
                [self._normal[number].of(kind.op, kind.op_type) for kind in kinds],
            )
            for number, measure in enumerate(_MEASURES)
        ]
        others = [self._normal[0].of_other_types(kind.op_type) for kind in kinds]
        for begin in range(0, len(candidates), _AT_ONCE):
            some = candidates[begin : begin + _AT_ONCE]
            outputs = Outputs(
                kind[begin : begin + _AT_ONCE],
                table.distances[some],
                table.input_distances[some],
                table.rounded[some],
                table.sums[some],
                type_sums[some],
                scatters[some],
            )
            scored = scores(outputs, measures, others)
            plain = some[scored.plain]
            for column, column_scores in zip((score, expected, inherited), scored):
                column[plain] = column_scores[scored.plain]
        return PlainEstimates(
            score, expected, inherited, dict(zip(used.tolist(), measures[0].normals))
        )

    def _of_other_input(self) -> List[Estimate]:
        """Return an estimate for each place where the network's own input differs: device and
        golden run were fed with other data.
        """
        estimates: Dict[Place, Estimate] = {}
        for op in map(self._observed_ops.op, self._inputs.readers_of_network().tolist()):
            if op.place in estimates:
                continue
            for state in self._inputs.of_network(op):
                row = state.observation
                if row is None or state.state != BAD or not (row.different or row.distance > 0):
                    continue
                if _is_rounded(row):
                    # It fails by a limit that its own type cannot keep, or by a user's metric.
                    continue
                shown, normal = ShownBy(ALL, row.distance, 0.0, 0.0), Normal(1.0, 0.0, 1.0, 0, True)
                estimates[op.place] = Estimate(
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
        return list(estimates.values())

    def _estimate(self, entry: TableEntry) -> Estimate:
        op, output, (distance, fed) = entry.op, entry.output, entry.sizes[0]
        normal, sums = self._normal[0].of(op.name, op.type), entry.sums
        expected, inherited = normal.most(fed, entry.rounded, sums), normal.expected(fed, 0.0)
        score, shown, whole_type = 0.0, ShownBy(ALL, distance, entry.fed, expected), False
        decides = self._is_decision(op, output) and not output.spoiled
        if output.spoiled:
            came_in = any(
                state.observation is not None and state.observation.spoiled
                for state in entry.inputs
            )
            score = HIGHEST_SCORE if not came_in and entry.fed < HOPELESS else 0.0
        elif decides or output.whole:
            score = (
                HIGHEST_SCORE
                if output.different and entry.inputs_known and self._equal_inputs(entry)
                else 0.0
            )
        elif fed < HOPELESS and not _only_moves_error(entry):
            score, shown, whole_type = self._scored(entry, normal)
            of_factor = _by_factor_alone(entry)
            if score <= SUSPECT_SCORE < of_factor[0]:
                score, shown = of_factor
        score = min(score, HIGHEST_SCORE)
        distances = (distance, entry.fed, expected, inherited)
        return Estimate(
            op,
            output,
            entry.inputs,
            entry.inputs_known,
            *distances,
            score,
            shown,
            whole_type,
            normal,
            decides,
        )

    def _scored(self, entry: TableEntry, normal: Normal) -> Tuple[float, ShownBy, bool]:
        """Return the highest score of all measures, the measure that shows the error, and whether
        it shows beside operators of other types only.
        """
        scored = [self._by(entry, number) for number in range(len(_MEASURES))]
        score = max(measure_score for measure_score, _ in scored)
        # The first measure that shows it is the plainest.
        shown = next(
            (
                numbers
                for measure_score, numbers in scored
                if measure_score > min(score, SUSPECT_SCORE)
            ),
            scored[0][1],
        )
        if score > SUSPECT_SCORE or normal.rare:
            return score, shown, False
        (distance, fed), sums = entry.sizes[0], type_noise(entry.op.type, entry.output.dtype)
        others = self._normal[0].of_other_types(entry.op.type)
        other_types_score = others.score(distance, fed, entry.rounded, sums, _scatter(entry))
        if other_types_score <= SUSPECT_SCORE:
            return score, shown, False
        return (
            other_types_score,
            ShownBy(ALL, distance, entry.fed, others.most(fed, entry.rounded, sums)),
            True,
        )

    def _by(self, entry: TableEntry, number: int) -> Tuple[float, ShownBy]:
        """Return the score of an output by one measure, and its numbers."""
        measure, (value, came_in) = _MEASURES[number], entry.sizes[number]
        least = value if measure.name == SLICE else entry.output.distance
        normal = self._normal[number].of(entry.op.name, entry.op.type)
        rounded, sums = measure.rounding * entry.rounded, measure.rounding * entry.sums
        # Golden values that are only rounded are no evidence, and of one element rounding is a
        # common factor.
        judged = least > _HALF_A_STEP * entry.rounded and (measure.rare or not normal.rare)
        expected = normal.most(came_in, rounded, sums)
        score = normal.beyond(value, expected, _scatter(entry)) if judged else 0.0
        fed = root_sum_squares(
            [
                distance_by(state.observation, number)
                for state in entry.inputs
                if state.observation is not None
            ]
        )
        return score, ShownBy(measure.name, value, fed, expected)

    def _is_decision(self, op: ObservedOp, output: Observation) -> bool:
        """Tell whether an output is a decision; the values of TopK are numbers like any others."""
        return self._decides(op.type, output.dtype) and (
            output.whole or op.type.lower() not in ORDER
        )

    @staticmethod
    def _equal_inputs(entry: TableEntry) -> bool:
        """Tell whether every input that was compared is equal to golden data."""
        return not any(
            state.observation.different or state.observation.distance > 0
            for state in entry.inputs
            if state.observation is not None
        )


def _off_by_a_factor(table: DistanceTable) -> Array:
    """Return which outputs may be suspects by :func:`_by_factor_alone`, [n]: nearly exact inputs,
    and one factor of all elements as their error, larger than rounding makes.
    """
    distance, factor = table.distances[:, 0], np.abs(table.measured("factor") - 1.0)
    spread = table.by_kind(
        lambda kind: math.hypot(SMALLEST_SLICE_SPREAD, scatter(element_count(kind.shape)))
    )
    with np.errstate(all="ignore"):
        exact = table.inputs_known & (table.fed <= _NEARLY_EXACT)
        score = np.log(factor / np.hypot(table.rounded, table.sums)) / spread
        off: Array = exact & (factor >= _COMMON_FACTOR * distance) & (distance > 0)
    return off & (score > SUSPECT_SCORE - _MARGIN)


def _by_factor_alone(entry: TableEntry) -> Tuple[float, ShownBy]:
    """Return the score of one factor of all elements where the inputs are golden data's, rounded:
    it is no noise that others of the type show, whose inputs have that factor; 0 else.
    """
    output, rows = entry.output, [state.observation for state in entry.inputs]
    factor, expected = abs(output.factor - 1.0), math.hypot(entry.rounded, entry.sums)
    shown = ShownBy(FACTOR, factor, entry.fed, expected)
    exact = entry.inputs_known and entry.fed <= _NEARLY_EXACT
    exact = exact and all(row is not None and _is_rounded(row) for row in rows)
    if not exact or not is_common_factor(output) or not expected:
        return 0.0, shown
    return math.log(factor / expected) / math.hypot(SMALLEST_SLICE_SPREAD, _scatter(entry)), shown


def _only_moves_error(entry: TableEntry) -> bool:
    """Tell whether an operator only moves its input and has exactly its input's error, which may be
    in other slices.
    """
    rows = [state.observation for state in entry.inputs if state.observation is not None]
    if not only_moves(entry.op.type) or len(rows) != 1:
        return False
    return math.isclose(entry.output.distance, rows[0].distance, rel_tol=_ALIKE)


def is_common_factor(output: Observation) -> bool:
    """Tell whether one factor for all elements explains an output's error: no cancelling sum has
    such an error.
    """
    return (
        element_count(output.shape) >= _FACTOR_ELEMENTS
        and abs(output.factor - 1.0) >= _COMMON_FACTOR * output.distance > 0.0
    )


def _is_rounded(row: Observation) -> bool:
    """Tell whether a tensor is no further from golden data than rounding to its type takes it, each
    of its slices too.
    """
    most = _HALF_A_STEP * rounding(row.dtype, row.rms)
    return row.distance <= most and not row.slice_distance > most


def _scatter(entry: TableEntry) -> float:
    return scatter(element_count(entry.output.shape))


def _measured(table: DistanceTable, outputs: Array) -> Iterator[Measured]:
    """Yield, for each of :data:`_MEASURES`, the outputs that :class:`Normals` can be fitted to."""
    names = [
        np.array(list(map(attrgetter(name), table.kinds)), object) for name in ("op", "op_type")
    ]
    for number, measure in enumerate(_MEASURES):
        values, fed = table.distances[outputs, number], table.input_distances[outputs, number]
        with np.errstate(all="ignore"):
            informative = (values > 0) & (values < np.inf) & (fed < HOPELESS)
        informative_outputs = outputs[informative]
        rounded, sums = (
            measure.rounding * table.rounded[informative_outputs],
            measure.rounding * table.sums[informative_outputs],
        )
        yield Measured(
            names[0][table.kind[informative_outputs]],
            names[1][table.kind[informative_outputs]],
            values[informative],
            fed[informative],
            rounded,
            sums,
        )
