"""The error that is normal for an operator, by its inputs, its rounding, and what the other
operators of the network add.

Of every operator's output the distance d (relative to the golden's norm) is compared with what its
inputs and its rounding explain:

    expected² = g²·(Σ d_in² + r²) + n²

r is the rounding of the output's type, ulp/√12. How an operator passes errors on (g) and what it
adds itself (n) are fitted, robustly, per type of operator over the other operators of this very
network: a healthy network decides what is normal, and no operator has a say in what is normal for
itself. z = ln(d / expected) in units of the type's own spread. Where there are few others, g and n
stay near what devices do: g = 1, n = the noise of a sum in the device's arithmetic.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ....base.fast_dataclasses import dataclass
from ....metrics.worst_slice import median
from ....tensors.type_precision import ROUNDING

Array = Any

SUSPECT_SCORE = 4.5
"""Scores above this make a suspect: 1.5 times the measured score of healthy operators
(docs/design/verdict.md).
"""

HOPELESS = 0.1
"""The relative distance of inputs that hides whatever an operator adds."""

# Spreads of ln(d / expected): the smallest that healthy networks show (docs/design/verdict.md).
SMALLEST_SPREAD = 0.15
SMALLEST_SLICE_SPREAD = 0.2
RARE_SPREAD = 0.4
PRIOR_SPREAD = 0.6
"""Of ln(d / expected) of an operator of which nothing but its inputs and its output type is
known.
"""
ENOUGH = 3
"""Other operators of a type from which on the type is judged by itself; chosen, no trial
of it alone (docs/design/verdict.md).
"""

# How many operators a prior counts as; above so many, one does not move the fit; of more a sample
# is fitted, by its time. Chosen, no trial.
_PRIOR_WEIGHT = 4
_FEW = 40
_MOST_FITTED = 400
# What a fit pays for a gain other than 1 and for noise beside rounding, in mean absolute
# deviations: it decides only where gain and noise explain the same. Chosen, no trial; that of
# noise had no effect on the networks of scripts/verdict_trial.
_DEAR_GAIN = 0.01
_DEAR_NOISE = 0.01
# Near float32's rounding, 6e-8: the noise's cost is measured by it where outputs round less.
_LEAST_ROUNDING = 1e-7
# More than any fit costs: such noise is not chosen.
_NOT_KNOWN = 1e3
# Rounding of the gains of the grid below.
_ROUNDED = 1e-9
_NEARLY = 3.0
"""Logarithm of the likelihood by which another g and n may fit worse (95 % of chi² with 2 degrees
of freedom, halved).
"""
_LEAST_DEVIATION = 0.03
"""Mean absolute deviation of ln(d / expected) of operators that do all alike; chosen, no trial."""
# Keeps the logarithm of a zero finite; squares of distances are larger.
_LEAST_CARRIED = 1e-30
# Inputs up to so many times the median ones are like those that the type was seen with; chosen,
# no trial.
_BEYOND = 3.0
# The grid of a fit: gains 16 % apart, noises 40 % apart; chosen, no trial.
_GAINS = np.exp(np.linspace(math.log(0.05), math.log(20.0), 41))
_NOISES = np.concatenate([[0.0], np.exp(np.linspace(math.log(1e-8), math.log(0.5), 54))])
# Root mean square of what rounding changes: of a number relatively, of the smallest ones
# absolutely.
_ROUNDINGS = {
    dtype: (2.0**-kind.fraction_bits / math.sqrt(12.0), kind.step / math.sqrt(12.0))
    for dtype, kind in ROUNDING.items()
}
# What healthy simulated devices add in sums of products (docs/design/verdict.md).
_SUM_NOISE = {
    "float16": 1e-3,
    "bfloat16": 4e-3,
    "float32": 6e-4,
    "complex64": 6e-4,
    "complex32": 1e-3,
    "int8": 0.02,
    "uint8": 0.02,
}

_PRODUCTS = ("conv", "matmul", "fullyconnection", "gemm", "innerproduct", "dense")


def rounding(dtype: str, rms: float = math.nan) -> float:
    """Return the root mean square of a type's relative rounding error, ulp/√12; 0 for types that do
    not round.

    Parameters
    ----------
    dtype
        As in the DataType column.
    rms
        Root mean square of the values, where known: near the type's smallest number the steps no
        longer shrink with the values.
    """
    usual, least = _ROUNDINGS.get(dtype, (0.0, 0.0))
    return math.hypot(usual, least / rms) if rms > 0 else usual


def least_rounding(dtype: str) -> float:
    """Return the root mean square of what rounding changes in a type's smallest numbers."""
    return _ROUNDINGS.get(dtype, (0.0, 0.0))[1]


def sum_noise(dtype: str) -> float:
    """Return the relative distance that an operator of unknown arithmetic may add: by float16 sums,
    or by float32 inputs shortened to float16 (docs/design/verdict.md).
    """
    return _SUM_NOISE.get(dtype, 0.0)


@lru_cache(maxsize=1024)
def type_noise(op_type: str, dtype: str) -> float:
    """Return the relative distance that right operators of a type may all add: products of matrices
    may have factors of 8 bits.
    """
    return max(sum_noise(dtype), _SUM_NOISE["int8"]) if multiplies(op_type) else sum_noise(dtype)


def multiplies(op_type: str) -> bool:
    """Tell whether operators of a type add products: convolutions, products of matrices."""
    return any(word in op_type.lower() for word in _PRODUCTS)


class Measured(NamedTuple):
    """Outputs, [n] each, of the kinds that there are.

    Attributes
    ----------
    names
        Operator and its type, of each kind.
    kind
        The number of each output's kind.
    distance, inputs, rounding
        Its distance, the inputs' joined distance, its rounding; float64.
    sums
        A sum's noise, of each kind; float64.
    """

    names: Sequence[Tuple[str, str]]
    kind: Array
    distance: Array
    inputs: Array
    rounding: Array
    sums: Array


@dataclass(frozen=True)
class Normal:
    """What is normal for a type of operator in this network.

    Attributes
    ----------
    gain, noise
        g and n of the formula.
    spread
        Of ln(d / expected), as a standard deviation.
    ops
        The number of operators it was fitted to.
    rare
        Fitted over other types, because there are too few of this one.
    largest_inputs
        The largest distance of inputs that g and n were fitted to, in effect.
    alternatives
        Squares of g and n, [k, 2], that fit the operators nearly as well: of every such g the
        largest n. Where the inputs of all lie about alike, g and n cannot be told apart: of an
        operator whose inputs are far smaller (the first one's are exact) either may be true.
    """

    gain: float
    noise: float
    spread: float
    ops: int
    rare: bool = False
    largest_inputs: float = math.inf
    alternatives: Optional[np.ndarray] = None

    def most(self, inputs: float, rounded: float, sums: float = 0.0) -> float:
        """Return the largest distance that inputs and rounding explain, as far as g and n are
        known.
        """
        usual = self.expected(inputs, rounded, sums)
        if self.alternatives is None or not usual < math.inf:
            return usual
        carried = inputs**2 + rounded**2
        return max(
            usual,
            math.sqrt(float((self.alternatives[:, 0] * carried + self.alternatives[:, 1]).max())),
        )

    def expected(self, inputs: float, rounded: float, sums: float = 0.0) -> float:
        """Return the distance that inputs and rounding explain; of rare types it may be the noise
        of sums at least.

        Inputs whose error is larger than others of the type had come from an operator that is
        wrong: it need not cancel as noise does.
        """
        noise = max(self.noise, sums) if self.rare else self.noise
        gain = self.gain if inputs <= self.largest_inputs else max(self.gain, 1.0)
        return math.sqrt(gain**2 * (inputs**2 + rounded**2) + noise**2)

    def score(
        self,
        distance: float,
        inputs: float,
        rounded: float,
        sums: float = 0.0,
        scatter: float = 0.0,
    ) -> float:
        """Return ln(distance / expected) in units of the spread and an output's own ``scatter``; 0
        for no distance.
        """
        return self.beyond(distance, self.most(inputs, rounded, sums), scatter)

    def beyond(self, distance: float, expected: float, scatter: float = 0.0) -> float:
        """Return :meth:`score` where what :meth:`most` says is known."""
        if distance <= 0 or math.isnan(distance) or math.isinf(expected):
            return 0.0
        if expected == 0 or math.isinf(distance):
            return math.inf
        return math.log(distance / expected) / math.hypot(self.spread, scatter)


class NormalColumns:
    """What is normal for each of many outputs, in arrays: :class:`Normal`.

    Parameters
    ----------
    normals, op
        What is normal for some operators, and which of these each output is of, [n].
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

    def expected(self, fed: Array, rounded: Any, sums: Any) -> Array:
        """Return :meth:`Normal.expected` of each."""
        noise = np.where(self.rare, np.maximum(self._noise, sums), self._noise)
        gain = np.where(fed <= self._largest_fed, self._gain, np.maximum(self._gain, 1.0))
        return np.sqrt(gain**2 * (fed**2 + rounded**2) + noise**2)

    def most(self, fed: Array, rounded: Array, sums: Array) -> Array:
        """Return :meth:`Normal.most` of each."""
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
        """Return :meth:`Normal.beyond` of each."""
        score = np.log(value / expected) / np.hypot(self._spread, scatter)
        score = np.where((expected == 0) | np.isinf(value), np.inf, score)
        return np.where((value <= 0) | np.isnan(value) | np.isinf(expected), 0.0, score)


class Normals:
    """What is normal for each operator, fitted to the others.

    Parameters
    ----------
    measured
        Outputs of all operators. Those whose inputs are wrong by 10 % or more teach nothing: what
        they add cannot be seen.
    smallest
        A type's spread is taken to be at least this.
    by_others
        Whether :meth:`of_other_types` is asked.
    among
        Which outputs may teach, [n]; None: all.
    """

    def __init__(
        self,
        measured: Measured,
        smallest: float = SMALLEST_SPREAD,
        by_others: bool = True,
        among: Optional[Array] = None,
    ) -> None:
        self._smallest = smallest
        usable = (
            (measured.distance > 0) & (measured.distance < np.inf) & (measured.inputs < HOPELESS)
        )
        outputs = np.flatnonzero(usable if among is None else usable & among).astype(np.int32)
        codes: Dict[str, int] = {}
        of_kind = [codes.setdefault(op_type, len(codes)) for _, op_type in measured.names]
        types = np.array(of_kind, np.int32)[measured.kind[outputs]]
        there = set(np.unique(types).tolist())
        least = _GAINS[_GAINS >= 0.999]
        self._types = {
            name: _Fit(measured, outputs[types == code], _GAINS)
            for name, code in codes.items()
            if code in there
        }
        self._over_all = _Fit(measured, outputs, least)
        self._but_type = {
            name: _Fit(measured, outputs[types != codes[name]], least)
            for name in (self._types if by_others else ())
        }
        self._known: Dict[Tuple[str, str], Normal] = {}
        self._other_types: Dict[str, Normal] = {}

    def of(self, op: str, op_type: str) -> Normal:
        """Return what is normal for an operator, fitted to the others of its type, or to all others
        where those are few.
        """
        normal = self._known.get((op, op_type))
        if normal is None:
            normal = self._known[op, op_type] = self._learnt(op, op_type)
        return normal

    def _learnt(self, op: str, op_type: str) -> Normal:
        type_fit = self._types.get(op_type)
        others = type_fit.others(op) if type_fit is not None else 0
        if type_fit is not None and others >= ENOUGH:
            fitted = type_fit.without(op)
            # The spread of few says little.
            weight = float(others * others)
            spread = (weight * max(self._smallest, fitted.spread) + ENOUGH**2 * RARE_SPREAD) / (
                weight + ENOUGH**2
            )
            return Normal(
                fitted.gain,
                fitted.noise,
                spread,
                others,
                False,
                fitted.largest_inputs,
                fitted.alternatives,
            )
        return self._rare(self._over_all, op)

    def of_other_types(self, op_type: str) -> Normal:
        """Return what is normal for the operators of all other types."""
        normal = self._other_types.get(op_type)
        if normal is None:
            rest = self._but_type.get(op_type, self._over_all)
            normal = self._other_types[op_type] = self._rare(rest, None)
        return normal

    @staticmethod
    def _rare(fit: _Fit, op: Optional[str]) -> Normal:
        others = fit.others(op)
        if not others:
            return Normal(1.0, 0.0, PRIOR_SPREAD, 0, True)
        fitted = fit.without(op)
        spread = (others * max(RARE_SPREAD, fitted.spread) + _PRIOR_WEIGHT * PRIOR_SPREAD) / (
            others + _PRIOR_WEIGHT
        )
        return Normal(
            fitted.gain, fitted.noise, max(RARE_SPREAD, spread), others, True, fitted.largest_inputs
        )


class _Fitted(NamedTuple):
    gain: float
    noise: float
    spread: float
    largest_inputs: float = math.inf
    alternatives: Optional[np.ndarray] = None


class _Fit:
    """g and n by the smallest sum of absolute deviations of ln(d / expected), which outliers (wrong
    operators) do not change.
    """

    def __init__(self, measured: Measured, outputs: Array, gains: np.ndarray) -> None:
        self._gains = gains
        names, kind = measured.names, measured.kind
        self._ops = {names[number][0] for number in np.unique(kind[outputs]).tolist()}
        sample = outputs[:: max(1, -(-len(outputs) // _MOST_FITTED))]
        self._names = np.array([names[number][0] for number in kind[sample].tolist()], object)
        roundings, inputs = measured.rounding[sample], measured.inputs[sample]
        self._logs, self._carried = (
            np.log(measured.distance[sample]),
            np.maximum(inputs**2 + roundings**2, _LEAST_CARRIED),
        )
        rounded = max(median(roundings), _LEAST_ROUNDING) if len(sample) else _LEAST_ROUNDING
        # Where every operator's inputs are about alike, g and n explain each other: an operator is
        # rather taken to pass errors on.
        self._dear = (
            _DEAR_NOISE * np.log1p(_NOISES / rounded) + _DEAR_GAIN * np.abs(np.log(gains))[:, None]
        )
        # Few operators cannot tell noise that devices do not have.
        if len(self._ops) <= _PRIOR_WEIGHT:
            most = max(measured.sums[kind[sample]].tolist(), default=0.0)
            self._dear = self._dear + np.where(max(10.0 * rounded, most) < _NOISES, _NOT_KNOWN, 0.0)
        self._total: Optional[np.ndarray] = None
        self._fitted_without: Dict[Optional[str], _Fitted] = {}

    def others(self, op: Optional[str]) -> int:
        return len(self._ops) - (op in self._ops)

    def without(self, op: Optional[str]) -> _Fitted:
        """Return g, n, the spread and the largest inputs of all operators but one (of many
        operators one does not count).
        """
        left_out = op if op in self._ops and len(self._ops) <= _FEW else None
        if left_out not in self._fitted_without:
            self._fitted_without[left_out] = self._fitted(left_out)
        return self._fitted_without[left_out]

    def _fitted(self, op: Optional[str]) -> _Fitted:
        if self._total is None:
            self._total = self._costs(slice(None))
        costs, rest = self._total, np.ones(len(self._names), bool)
        if op is not None:
            own_entries = np.flatnonzero(self._names == op)
            rest[own_entries] = False
            costs = costs - self._costs(own_entries)
        if not rest.any():
            return _Fitted(1.0, 0.0, PRIOR_SPREAD)
        costs = costs / rest.sum()
        best = np.unravel_index(int(np.argmin(costs + self._dear)), costs.shape)
        others = len(set(self._names[rest]))
        # Operators seldom make errors smaller: else an error of the first one, which all others
        # have, would be taken for what all add.
        likely = (self._dear < _NOT_KNOWN) & (
            self._gains >= min(1.0, self._gains[best[0]]) - _ROUNDED
        )[:, None]
        alike = likely & (
            costs <= max(_LEAST_DEVIATION, float(costs[likely].min())) * math.exp(_NEARLY / others)
        )
        gain, noise = float(self._gains[best[0]]), float(_NOISES[best[1]])
        off = self._logs[rest] - 0.5 * np.log(gain**2 * self._carried[rest] + noise**2)
        # Of those with the same g the largest n explains most.
        gains_that_fit = alike.any(axis=1)
        alternatives = np.stack(
            [
                self._gains[gains_that_fit] ** 2,
                np.where(alike, _NOISES**2, 0.0).max(axis=1)[gains_that_fit],
            ],
            axis=1,
        )
        spread = 1.4826 * median(np.abs(off - median(off)))
        return _Fitted(
            gain, noise, spread, _BEYOND * math.sqrt(median(self._carried[rest])), alternatives
        )

    def _costs(self, selection: object) -> np.ndarray:
        """Return, for each g and n, the sum of absolute deviations of some entries."""
        logs, carried = self._logs[selection], self._carried[selection]
        costs = np.empty((len(self._gains), len(_NOISES)))
        for number, gain in enumerate(self._gains):
            with np.errstate(divide="ignore"):
                costs[number] = np.abs(
                    logs - 0.5 * np.log(gain**2 * carried + _NOISES[:, None] ** 2)
                ).sum(axis=1)
        return costs


# From here on the series of the trigamma function below is right to 1e-6.
_ASYMPTOTIC = 8.0


@lru_cache(maxsize=1024)
def scatter(count: int) -> float:
    """Return the standard deviation of ln(d) by chance alone, for an output of ``count`` elements.

    d is ‖error‖ / ‖values‖. Where both are normally distributed, ln‖·‖ of ``count`` elements has
    the variance ψ′(count / 2) / 4, with the trigamma function ψ′.
    """
    half, variance = max(count, 1) / 2.0, 0.0
    while half < _ASYMPTOTIC:
        variance, half = variance + 1.0 / half**2, half + 1.0
    return math.sqrt((variance + 1.0 / half + 0.5 / half**2 + 1.0 / (6.0 * half**3)) / 2.0)


def independent_values(values: np.ndarray) -> int:
    """Return how many independent normal numbers a tensor's values are worth: fewer than its
    elements where most are near 0 or rows are alike.

    The product of two participation ratios tr(K)² / tr(K²): of the products of rows, and of the
    columns' sums of squares. Of n normal numbers in one row the second is about n / 3, in many
    rows n.
    """
    rows = np.asarray(values, np.float64).reshape(len(values) if values.ndim > 1 else 1, -1)
    rows = np.where(np.isfinite(rows), rows, 0.0)
    largest = float(np.abs(rows).max(initial=0.0))
    if not largest:
        return 1
    # The ratios are the same in any unit; in this one no square leaves the range.
    rows /= largest
    products, squares = rows @ rows.T, (rows**2).sum(axis=0)
    ratio = np.trace(products) ** 2 / (products**2).sum() * squares.sum() ** 2 / (squares**2).sum()
    return max(1, round(float(ratio) * (1.0 + 2.0 / len(rows))))
