"""Estimates the own error of every operator from the rows of a run."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

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
    NormalColumns,
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
_BY_INDICES = ("gather", "scatter", "select", "where", "onehot", "embedding")
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


class _Outputs(NamedTuple):
    """Numbers of outputs, [n] each: their kinds, distances by one measure, their inputs' together,
    their rounding.
    """

    kind: Array
    value: Array
    fed: Array
    rounded: Array


class _OfKinds(NamedTuple):
    """Noise of a sum, noise of the type, and scatter of each kind, [kinds], as :mod:`.normal_error`
    has them.
    """

    sums: Array
    type_sums: Array
    scatter: Array


def _scores(
    outputs: _Outputs, measure: _Measure, normal: NormalColumns, least: Array, of_kinds: _OfKinds
) -> Array:
    """Return the scores of outputs by one measure, [n]; ``least``: what must be more than rounding
    makes.
    """
    with np.errstate(all="ignore"):
        expected = normal.most(
            outputs.fed,
            measure.rounding * outputs.rounded,
            measure.rounding * of_kinds.sums[outputs.kind],
        )
        judged = (least > _HALF_A_STEP * outputs.rounded) & (measure.rare | ~normal.rare)
        beyond = normal.beyond(outputs.value, expected, of_kinds.scatter[outputs.kind])
        return np.where(judged, beyond, 0.0)


def _like_other_types(
    outputs: _Outputs, rare: Array, others: NormalColumns, of_kinds: _OfKinds
) -> Array:
    """Return which outputs are of rare types, or no suspects beside operators of other types,
    [n].
    """
    with np.errstate(all="ignore"):
        most = others.most(outputs.fed, outputs.rounded, of_kinds.type_sums[outputs.kind])
        beyond = others.beyond(outputs.value, most, of_kinds.scatter[outputs.kind])
        alike: Array = rare | (beyond <= SUSPECT_SCORE - _MARGIN)
        return alike


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
        numbers = np.flatnonzero(smooth).astype(np.int32)
        self._normal = [
            Normals(_measured(table, number), measure.spread, measure is _MEASURES[0], smooth)
            for number, measure in enumerate(_MEASURES)
        ]
        may_be_plain = numbers[table.by_kind(lambda kind: only_moves(kind.op_type))[numbers] == 0]
        plain = self._plain(table, may_be_plain)
        off = _off_by_a_factor(table)
        plain.score[off[smooth[off]]] = np.nan
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
        (numbers of outputs) at once: the scores of the rest are NaN.
        """
        of_candidates = table.kind[candidates]
        used = np.flatnonzero(np.bincount(of_candidates, minlength=len(table.kinds)))
        among_used = np.full(len(table.kinds), -1, np.int32)
        among_used[used] = np.arange(len(used))
        kind = among_used[of_candidates]
        kinds = [table.kinds[number] for number in used]
        of_kinds = _OfKinds(
            table.sums[used],
            np.array([type_noise(one.op_type, one.dtype) for one in kinds], np.float64),
            np.array([scatter(element_count(one.shape)) for one in kinds], np.float64),
        )
        score = np.full(len(candidates), -np.inf)
        usual: Dict[int, Normal] = {}
        for number, measure in enumerate(_MEASURES):
            normals = [self._normal[number].of(one.op, one.op_type) for one in kinds]
            fed = table.fed_by(number)[candidates]
            if not number:
                usual = dict(zip(used.tolist(), normals))
                others = [self._normal[0].of_other_types(one.op_type) for one in kinds]
                enough = np.empty(len(candidates), bool)
                hopeless = ~(fed < HOPELESS)
            for begin in range(0, len(candidates), _AT_ONCE):
                some = slice(begin, begin + _AT_ONCE)
                numbers = candidates[some]
                value = distance = table.distance(0, numbers)
                if number:
                    value = table.distance(number, numbers)
                outputs = _Outputs(kind[some], value, fed[some], table.rounded_of(numbers))
                least = value if measure.name == SLICE else distance
                normal = NormalColumns(normals, kind[some])
                beyond = _scores(outputs, measure, normal, least, of_kinds)
                score[some] = np.maximum(score[some], beyond)
                if not number:
                    enough[some] = _like_other_types(
                        outputs, normal.rare, NormalColumns(others, kind[some]), of_kinds
                    )
        score[hopeless] = 0.0
        plain = hopeless | (enough & (score <= SUSPECT_SCORE - _MARGIN))
        scores = np.full(len(table), np.nan)
        scores[candidates[plain]] = score[plain]
        return PlainEstimates(scores, usual)

    def _of_other_input(self) -> List[Estimate]:
        """Return an estimate for each input of the network that differs at a place: device and
        golden run were fed with other data.
        """
        estimates: Dict[Tuple[Place, object], Estimate] = {}
        for op in map(self._observed_ops.op, self._inputs.readers_of_network().tolist()):
            for state in self._inputs.of_network(op):
                row = state.observation
                # What an AIPP makes of an input is compared with the same golden tensor.
                source = op.place, None if row is None else row.golden_file
                if (
                    source in estimates
                    or row is None
                    or state.state != BAD
                    or not (row.different or row.distance > 0)
                ):
                    continue
                if _is_rounded(row):
                    # It fails by a limit that its own type cannot keep, or by a user's metric.
                    continue
                shown, normal = ShownBy(ALL, row.distance, 0.0, 0.0), Normal(1.0, 0.0, 1.0, 0, True)
                estimates[source] = Estimate(
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
                if output.different
                and not (output.near_ties and not decides)
                and entry.inputs_known
                and self._equal_inputs(entry)
                else 0.0
            )
        elif fed < HOPELESS and not _only_moves_error(entry) and not _reads_other_indices(entry):
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
    """Return the outputs that may be suspects by :func:`_by_factor_alone`, by their numbers: nearly
    exact inputs, and one factor of all elements as their error, larger than rounding makes.
    """
    distance, factor = table.distance(0), np.abs(table.measured("factor") - 1.0)
    with np.errstate(all="ignore"):
        off = table.inputs_known & (factor >= _COMMON_FACTOR * distance) & (distance > 0)
        outputs = np.flatnonzero(off)
        outputs = outputs[table.fed[outputs] <= _NEARLY_EXACT]
        factor, kind = factor[outputs], table.kind[outputs]
        spread, sums = (
            np.array(of_kinds, np.float64)[kind]
            for of_kinds in (
                [
                    math.hypot(SMALLEST_SLICE_SPREAD, scatter(element_count(one.shape)))
                    for one in table.kinds
                ],
                table.sums,
            )
        )
        score = np.log(factor / np.hypot(table.rounded[outputs], sums)) / spread
    return outputs[score > SUSPECT_SCORE - _MARGIN]


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


def _reads_other_indices(entry: TableEntry) -> bool:
    """Tell whether whole numbers that say which values an output takes (indices, a condition) are
    others than in golden data: one of them may bring any value, and no distance tells which.
    """
    return entry.op.type.lower().startswith(_BY_INDICES) and any(
        state.observation is not None and state.observation.whole and state.observation.different
        for state in entry.inputs
    )


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


def _measured(table: DistanceTable, number: int) -> Measured:
    """Return what :class:`Normals` is fitted to, by one of :data:`_MEASURES`."""
    share = _MEASURES[number].rounding
    return Measured(
        [(kind.op, kind.op_type) for kind in table.kinds],
        table.kind,
        table.distance(number),
        table.fed_by(number),
        share * table.rounded,
        share * table.sums,
    )
