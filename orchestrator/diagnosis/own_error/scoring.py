"""Scores of many outputs at once, in arrays: most of a network's outputs are nobody's suspects, and
nothing more is asked of them.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from .expected import HOPELESS, SUSPECT_SCORE, Normal

Array = Any

_MARGIN = 1e-6
"""By so much a score of arrays may differ from that of one output: what comes so near is looked at
by itself.
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
        [n], as :mod:`.expected` and :mod:`.chance` have them.
    """

    op: Array
    values: Array
    fed: Array
    rounded: Array
    sums: Array
    type_sums: Array
    scatter: Array


class Scores(NamedTuple):
    """What outputs come to, [n]: the score, what inputs and rounding explain, what the inputs alone
    do; that this is all to be said.
    """

    score: Array
    expected: Array
    inherited: Array
    plain: Array


class Way(NamedTuple):
    """A measure: the share of rounding that it sees, whether rare types are judged by it, whether
    it is of slices; what is normal by op.
    """

    rounding: float
    rare: bool
    of_slices: bool
    normals: Sequence[Normal]


def scores(outputs: Outputs, ways: Sequence[Way], others: Sequence[Normal]) -> Scores:
    """Return the scores of outputs.

    Parameters
    ----------
    ways
        The measures, that of all elements first.
    others
        What is normal for the operators of all other types, by op.
    """
    score = np.full(len(outputs.op), -np.inf)
    kept: List[Tuple[Array, Array]] = []
    with np.errstate(all="ignore"):
        for number, way in enumerate(ways):
            normal = _Normals(way.normals, outputs.op)
            value, fed = outputs.values[:, number], outputs.fed[:, number]
            expected = normal.most(fed, way.rounding * outputs.rounded, way.rounding * outputs.sums)
            least = value if way.of_slices else outputs.values[:, 0]
            judged = (least > _HALF_A_STEP * outputs.rounded) & (way.rare | ~normal.rare)
            score = np.maximum(
                score, np.where(judged, normal.beyond(value, expected, outputs.scatter), 0.0)
            )
            if not number:
                kept.append((expected, normal.expected(fed, 0.0, 0.0)))
                common = ~normal.rare
        alike = _Normals(others, outputs.op)
        most = alike.most(outputs.fed[:, 0], outputs.rounded, outputs.type_sums)
        apart = common & ~(
            alike.beyond(outputs.values[:, 0], most, outputs.scatter) <= SUSPECT_SCORE - _MARGIN
        )
        hopeless = ~(outputs.fed[:, 0] < HOPELESS)
    score[hopeless] = 0.0
    return Scores(score, *kept[0], hopeless | (~apart & (score <= SUSPECT_SCORE - _MARGIN)))


class _Normals:
    """What is normal for each of many outputs, in arrays:
    :class:`goldwatch.diagnosis.own_error.expected.Normal`.
    """

    def __init__(self, normals: Sequence[Normal], op: Array) -> None:
        table = np.array(
            [(one.gain, one.noise, one.spread, one.seen, one.rare) for one in normals]
        ).reshape(-1, 5)[op]
        self._gain, self._noise, self._spread, self._seen = table.T[:4]
        self.rare = table[:, 4] != 0
        groups: Dict[int, Tuple[Array, List[int]]] = {}
        for number, one in enumerate(normals):
            if one.alternatives is not None:
                groups.setdefault(id(one.alternatives), (one.alternatives, []))[1].append(number)
        self._alternatives = [
            (squares, np.flatnonzero(np.isin(op, some))) for squares, some in groups.values()
        ]

    def expected(self, fed: Array, rounded: Array, sums: Array) -> Array:
        noise = np.where(self.rare, np.maximum(self._noise, sums), self._noise)
        gain = np.where(fed <= self._seen, self._gain, np.maximum(self._gain, 1.0))
        return np.sqrt(gain**2 * (fed**2 + rounded**2) + noise**2)

    def most(self, fed: Array, rounded: Array, sums: Array) -> Array:
        usual = self.expected(fed, rounded, sums)
        carried = fed**2 + rounded**2
        for squares, some in self._alternatives:
            largest = np.zeros(len(some))
            for gain, noise in squares:
                np.maximum(largest, gain * carried[some] + noise, out=largest)
            usual[some] = np.where(
                usual[some] < np.inf, np.maximum(usual[some], np.sqrt(largest)), usual[some]
            )
        return usual

    def beyond(self, value: Array, expected: Array, scatter: Array) -> Array:
        score = np.log(value / expected) / np.hypot(self._spread, scatter)
        score = np.where((expected == 0) | np.isinf(value), np.inf, score)
        return np.where((value <= 0) | np.isnan(value) | np.isinf(expected), 0.0, score)
