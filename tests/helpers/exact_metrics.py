"""The metrics by their definitions (docs/reference/metrics.md), in whole numbers and fractions.

Nothing of goldwatch computes here.

Every number of a tensor is a whole multiple of 2**-1074, float64's smallest: so it is held, and
sums of products are exact. Only the last steps are rounded: quotients of two elements to 2**-2400,
roots and logarithms to 60 digits.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

from goldwatch.metrics.row import MEASURES, WORST_SLICE

BITS = 1074
CONTEXT = decimal.Context(prec=60, Emin=-99999, Emax=99999)
#: Bits of exponent and fraction; V2 is bfloat16.
FLOATS = {"V2": (8, 7), "f2": (5, 10), "f4": (8, 23), "f8": (11, 52)}
QUOTIENT_BITS = 2400
LEAST_GOLDEN = Fraction(2.220446e-16)
KL_FLOOR = Fraction(1.1920929e-07)
LARGEST = float(np.finfo("f8").max)
#: Their reference is in tests/metrics/test_worst_slice.py: places of elements decide about them.
ELSEWHERE = (WORST_SLICE,)


def number(code, exponent_bits, fraction_bits):
    """What a code of IEEE 754's form stands for, as a multiple of 2**-1074; NaN and Inf as
    floats.
    """
    largest = (1 << exponent_bits) - 1
    fraction, exponent = code & ((1 << fraction_bits) - 1), code >> fraction_bits & largest
    sign = -1 if code >> fraction_bits >> exponent_bits else 1
    if exponent == largest:
        return math.nan if fraction else sign * math.inf
    if exponent:
        fraction |= 1 << fraction_bits
    return sign * fraction << max(exponent, 1) - (largest >> 1) - fraction_bits + BITS


def codes_of(array):
    return np.ascontiguousarray(array).view("u%d" % array.dtype.itemsize)


def numbers(array):
    """Each element of a 1-D array; bool as 0 and 1."""
    key = array.dtype.str[1:]
    if key not in FLOATS:
        return [int(value) << BITS for value in array]
    codes, places = np.unique(codes_of(array), return_inverse=True)
    table = [number(int(code), *FLOATS[key]) for code in codes]
    return [table[place] for place in places]


def paired(x, y):
    """The elements of two arrays, each pair once, and how often it comes: (target, golden, count).
    Complex: real and imaginary parts.
    """
    x, y = (side.reshape(-1) for side in (x, y))
    if x.dtype.kind == "c" or y.dtype.kind == "c":
        x, y = (np.stack([side.real, side.imag], axis=1).reshape(-1) for side in (x, y))
    codes = [np.unique(codes_of(side), return_index=True, return_inverse=True) for side in (x, y)]
    left, right = (numbers(side[first]) for side, (_, first, _) in zip((x, y), codes))
    found, counts = np.unique(
        codes[0][2].astype(np.int64) * max(1, len(right)) + codes[1][2], return_counts=True
    )
    return [
        (left[place // len(right)], right[place % len(right)], int(count))
        for place, count in zip(found.tolist(), counts)
    ]


def dec(fraction):
    return CONTEXT.divide(Decimal(fraction.numerator), Decimal(fraction.denominator))


def root(fraction):
    return CONTEXT.sqrt(dec(fraction))


def rounded_once(fraction):
    """A float; infinite beyond the largest."""
    try:
        return float(fraction)
    except OverflowError:
        return math.inf


def scaled(values):
    low, high = min(values), max(values)
    return [
        max(Fraction(v - low, high - low), KL_FLOOR) if low < high else Fraction(1) for v in values
    ]


def divergence(pairs):
    """Of finite pairs, in 60 digits."""
    x, y, counts = zip(*pairs)
    p, q = scaled(x), scaled(y)
    sp, sq = (dec(sum(v * count for v, count in zip(side, counts))) for side in (p, q))
    total = Decimal(0)
    for a, b, count in zip(p, q, counts):
        a, b = CONTEXT.divide(dec(a), sp), CONTEXT.divide(dec(b), sq)
        total = CONTEXT.add(
            total,
            CONTEXT.multiply(CONTEXT.multiply(Decimal(count), a), CONTEXT.ln(CONTEXT.divide(a, b))),
        )
    return total


class Exact:
    """What the metrics of two arrays must be.

    Attributes
    ----------
    nan, inf
        How many there are of the target and of the golden.
    agree, inf_differs
        Whether all stand at the same places, Inf with the same signs; whether an Inf does not.
    count, finite_count
        Elements, and those that are finite on both sides.
    values
        Of the finite elements, rounded to floats; empty where there is none. StandardDeviation has
        (mean, deviation) of ``target`` and of ``golden``.
    """

    def __init__(self, x, y):
        pairs = paired(x, y)
        self.nan = {
            "target": self._of(pairs, 0, math.isnan),
            "golden": self._of(pairs, 1, math.isnan),
        }
        self.inf = {
            "target": self._of(pairs, 0, math.isinf),
            "golden": self._of(pairs, 1, math.isinf),
        }
        finite = [pair for pair in pairs if not is_odd(pair[0]) and not is_odd(pair[1])]
        apart = [
            (a, b)
            for a, b, _ in pairs
            if (is_odd(a) or is_odd(b)) and not (a == b or a != a and b != b)
        ]
        self.agree, self.inf_differs = (
            not apart,
            any(v in (math.inf, -math.inf) for pair in apart for v in pair),
        )
        self.count, self.finite_count = (
            sum(count for _, _, count in which) for which in (pairs, finite)
        )
        self.values = self._values(finite) if finite else {}
        if finite:
            self.values["KullbackLeiblerDivergence"] = float(divergence(finite))
        self.largest = rounded_once(
            Fraction(max((abs(v) for pair in finite for v in pair[:2]), default=0), 1 << BITS)
        )

    @staticmethod
    def _of(pairs, side, what):
        return sum(pair[2] for pair in pairs if is_odd(pair[side]) and what(pair[side]))

    def _values(self, pairs):
        n, unit = self.finite_count, 1 << BITS
        xx, yy, xy, dd = (
            Fraction(sum(term(a, b) * count for a, b, count in pairs), unit * unit)
            for term in (
                lambda a, b: a * a,
                lambda a, b: b * b,
                lambda a, b: a * b,
                lambda a, b: (a - b) ** 2,
            )
        )
        least = LEAST_GOLDEN * unit
        quotients = [
            ((abs(a - b) << QUOTIENT_BITS) // abs(b), count)
            for a, b, count in pairs
            if abs(b) > least
        ]
        relative = Fraction(
            sum(quotient * count for quotient, count in quotients), 1 << QUOTIENT_BITS
        )
        if xx and yy:
            cosine = float(CONTEXT.divide(dec(xy), CONTEXT.multiply(root(xx), root(yy))))
        else:
            cosine = math.nan if xx or yy else 1.0
        return {
            "CosineSimilarity": cosine,
            "MaxAbsoluteError": rounded_once(Fraction(max(abs(a - b) for a, b, _ in pairs), unit)),
            "AccumulatedRelativeError": rounded_once(relative),
            "RelativeEuclideanDistance": float(root(dd / yy)) if yy else (math.inf if dd else 0.0),
            "StandardDeviation": {
                name: self._moments([(pair[side], pair[2]) for pair in pairs], n)
                for side, name in enumerate(("target", "golden"))
            },
            "MeanAbsoluteError": rounded_once(
                Fraction(sum(abs(a - b) * count for a, b, count in pairs), n * unit)
            ),
            "RootMeanSquareError": float(root(dd / n)),
            "MaxRelativeError": rounded_once(
                Fraction(
                    max((quotient for quotient, _ in quotients), default=0), 1 << QUOTIENT_BITS
                )
            ),
            "MeanRelativeError": rounded_once(relative / n),
            "DifferentElements": sum(count for a, b, count in pairs if a != b) / n,
        }

    @staticmethod
    def _moments(side, n):
        total, squares = (
            sum(v * count for v, count in side),
            sum(v * v * count for v, count in side),
        )
        # n**2 times the variance.
        return rounded_once(Fraction(total, n << BITS)), float(
            root(Fraction(n * squares - total * total, n * n << 2 * BITS))
        )


def is_odd(value):
    """NaN or Inf; numbers are ints."""
    return isinstance(value, float)


def assert_exact(result, exact):
    """Assert that a MetricResult of all measures of two arrays is what it must be, within 1e-12 of
    the natural scale.
    """
    assert (result.count, result.nan, result.inf, result.positions_agree) == (
        exact.count,
        exact.nan,
        exact.inf,
        exact.agree,
    )
    if not exact.agree:
        assert (
            result.outcome == "fail"
            and (result.values["MaxAbsoluteError"] == math.inf) == exact.inf_differs
        )
        assert all(
            result.values[name] is None or math.isnan(result.values[name])
            for name in MEASURES
            if name != "MaxAbsoluteError"
        )
        return
    assert result.finite_count == exact.finite_count
    for name in MEASURES:
        if name in ELSEWHERE:
            continue
        assert name in exact.values or not exact.values, "%s has no reference" % name
        # A sum that is infinite has no finite mean.
        total = exact.values.get(
            "AccumulatedRelativeError" if name == "MeanRelativeError" else name
        )
        got, want = result.values[name], exact.values.get(name) if total != math.inf else math.inf
        if name in result.not_applicable or want is None:
            assert got is None or math.isnan(got)
        elif name == "StandardDeviation":
            for side, (mean, deviation) in want.items():
                assert close(got[side]["mean"], mean, exact.largest), (name, got, want)
                assert close(got[side]["std"], deviation, exact.largest), (name, got, want)
        else:
            assert close(
                got,
                want,
                {"CosineSimilarity": 1.0, "KullbackLeiblerDivergence": 1.0}.get(name, abs(want)),
            ), (name, got, want)


def close(got, want, scale):
    # The largest float and what is rounded to Inf are neighbours.
    got, want = (min(max(v, -LARGEST), LARGEST) if abs(v) == math.inf else v for v in (got, want))
    # Half of the smallest float rounds either way.
    return (
        got == want
        or abs(got - want) <= max(1e-12 * scale, 5e-324)
        or (math.isnan(got) and math.isnan(want))
    )
