"""Scores of many outputs at once, in arrays: the same numbers as those of :class:`.Normal`, for the
many outputs that are no suspects.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from .normal_error import HOPELESS, SUSPECT_SCORE, Normal

Array = Any

_MARGIN = 1e-6
"""How much scores from arrays may differ from :class:`.Normal`'s by rounding: outputs that come so
near to the threshold are estimated one by one.
"""
_HALF_A_STEP = 3.0**0.5


class Outputs(NamedTuple):
    """Numbers of n outputs; float64 but for ``op``.

    Attributes
    ----------
    op
        [n], which operator's (a number from 0).
    values, fed
        [n, measures], the outputs' distances and their inputs' together.
    rounded, sums, type_sums, scatter
        [n], as :mod:`.normal_error` and :mod:`.small_output_scatter` have them.
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
    :class:`goldwatch.diagnosis.own_error.normal_error.Normal`.
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
