"""Fits the numbers that a device took in place of an operator's own: an epsilon, two bounds."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import combinations
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..operators import Node, Value
from ..operators.variants import Fit, Variant, text_of
from ..tensors.type_precision import ulp
from . import piece_variants
from .piece import Key
from .variant_trials import BITS_OF_A_DIGIT, NEARER, VariantTrials

Array = Any

# Chosen. Tried are _STEPS from 4 to 16 and _NARROWED from 6 to 24, one at a time: each of
# attribute_trial --quick --dtype float16 --form all is named with its value all the same.
_STEPS = 8
"""Of fitting a number; each halves an error many times, or it is no fit."""
_NARROWED = 12
"""Times that the numbers on both sides of the best one are brought nearer to it, where no slope
tells more: of a threshold."""
_FAR, _HALVED = 1024.0, 16
"""A number beyond which none is looked for that makes an output one value, and how often what lies
between is halved for the least."""
_ROUNDS, _MOST_PAIRED = 6, 4
"""Of fitting two numbers by turns; and numbers of a node of which two are fitted together."""
_ROUND = (0.0, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, -1.0)
"""Numbers that are tried before others are fitted, and the model's own by these factors."""
_FACTORS = (2.0, 0.5, 4.0, 0.25, 10.0, 0.1, -1.0, 0.75, 1.25, 0.9, 1.1)
# Not measured from here on.
_FIT_DEVIATIONS = 3.0
"""Standard deviations by which a shorter number may be off the best one."""
_INSIDE = 1.25
"""Of the square of the best one's distance, what a shorter number's may be besides."""
_NOTHING = 1e-3
"""Of the largest of some numbers, what is none but rounding."""
_IMPROVES = 0.999
"""Of the distance before, what a step of fitting leaves at most."""
_MOST_PARTS, _MEASURED = 512, 64
"""Of the least step from an input to an output, into which the divisor of a Mod is looked for; and
steps that are looked at."""


class NumberFitting:
    """Numbers of the nodes of a piece that are fitted to an output.

    Parameters
    ----------
    trials
        Where they are tried.
    """

    def __init__(self, trials: VariantTrials) -> None:
        self._trials = trials

    def fit(self, number: int, node: Node, fit: Fit) -> None:
        """Find the number by which a node comes nearest to the output: the best of the usual ones,
        from there by Gauss and Newton's steps; and try the shortest one that is as near within what
        chance makes of it.
        """
        if not np.any(self._trials.output.actual != self._trials.output.actual.flat[0]):
            # One value throughout tells no number but 0, or from which on; 0 is not written.
            if self._trials.output.actual.flat[0]:
                self._fit_to_one_value(number, node, fit)
            return
        at, off = fit.own, self._trials.off_by(number, fit, fit.own)
        if off is None:
            return
        begin = float(off @ off)
        known = {at: begin}
        for value in dict.fromkeys((*_ROUND, *(fit.own * factor for factor in _FACTORS))):
            value = float(np.rint(value)) if fit.whole else value
            nearer = self._trials.off_by(number, fit, value) if value != fit.own else None
            if nearer is not None:
                known[value] = float(nearer @ nearer)
                if known[value] < off @ off:
                    at, off = value, nearer
        before = len(self._trials.accepted)
        if off @ off < NEARER**2 * begin:
            self._try_fitted(number, node, fit, at)
            if len(self._trials.accepted) > before:
                return
        at, off = self._descended(number, fit, known, at, off)
        at, off = self._narrowed(number, fit, known, at, off)
        self._try_shortest(number, node, fit, at, off)
        if len(self._trials.accepted) > before or fit.whole:
            return
        best = at
        for value in self._shown_numbers():
            nearer = self._trials.off_by(number, fit, value)
            if nearer is not None and float(nearer @ nearer) < float(off @ off):
                at, off = value, nearer
        if at != best:
            at, off = self._descended(number, fit, known, at, off)
            self._try_shortest(number, node, fit, at, off)

    def fit_pairs(self, base: Mapping[Key, Value]) -> None:
        """Find two numbers of a node that were both taken otherwise: alpha and beta, two bounds."""
        if not np.any(self._trials.output.actual != self._trials.output.actual.flat[0]):
            return
        by_node: Dict[int, Tuple[Node, List[Fit]]] = {}
        for number, node, fit in piece_variants.fits(self._trials.piece, base):
            by_node.setdefault(number, (node, []))[1].append(fit)
        for number, (node, fits) in by_node.items():
            for pair in combinations(fits[:_MOST_PAIRED], 2):
                names = "%s and %s" % (pair[0].name, pair[1].name)
                if pair[0].name != pair[1].name and self._trials.has_time(
                    "%s of %s, fitted together" % (names, node.type)
                ):
                    self._fit_pair(number, node, pair)

    def _fit_to_one_value(self, number: int, node: Node, fit: Fit) -> None:
        """Try 0, or from where on a number makes all of an output one value: a bound, an offset."""
        if fit.least <= 0.0 != fit.own:
            count = len(self._trials.accepted) + len(self._trials.possible)
            self._try_fitted(number, node, fit, 0.0)
            if len(self._trials.accepted) + len(self._trials.possible) > count:
                return
        for beyond, words in ((_FAR, "or more"), (-_FAR, "or less")):
            inside, off = fit.own, self._trials.off_by(number, fit, beyond)
            if off is None or off.any():
                continue
            for _ in range(_HALVED):
                between = (inside + beyond) / 2.0
                off = self._trials.off_by(number, fit, between)
                if off is None:
                    break
                if off.any():
                    inside = between
                else:
                    beyond = between
            else:
                rounded_away = math.copysign(math.ceil(abs(beyond) * 10.0) / 10.0, beyond)
                variant = fit.variant(rounded_away)
                variant = variant._replace(device="%g %s" % (rounded_away, words))
                # It may be of one value for another reason.
                self._trials.try_variant(number, node, variant, np.inf)
                return

    def _fit_pair(self, number: int, node: Node, pair: Tuple[Fit, Fit]) -> None:
        actual = np.asarray(self._trials.output.actual, np.float64)
        own, bounds = [fit.own for fit in pair], [float(actual.min()), float(actual.max())]

        def beside(side: int, values: Sequence[float]) -> Fit:
            """Return the fit of one number where the other is another one."""
            other = pair[1 - side].variant(values[1 - side])

            def variant(value: float) -> Variant:
                both = pair[side].variant(value), other
                return _both(node, *(both if side == 0 else both[::-1]))

            return pair[side]._replace(variant=variant)

        def try_both(values: Sequence[float]) -> bool:
            if values[0] == own[0] or values[1] == own[1]:
                return False
            bits = BITS_OF_A_DIGIT * sum(1 + _digits(value) for value in values)
            before = len(self._trials.accepted)
            self._trials.try_variant(number, node, beside(0, values).variant(values[0]), bits, True)
            return len(self._trials.accepted) > before

        begin = self._trials.off_by(number, beside(0, own), own[0])
        if begin is None:
            return
        at, off = list(own), begin
        # Some numbers an output shows as they are: its least and its largest.
        for digits in (2, 3, 17):
            shown = [float("%.*g" % (digits, value)) for value in bounds]
            nearer = self._trials.off_by(number, beside(0, shown), shown[0])
            if nearer is not None and float(nearer @ nearer) < NEARER**2 * float(begin @ begin):
                if try_both(shown):
                    return
                at, off = shown, nearer
        for _ in range(_ROUNDS):
            before = float(off @ off)
            for side in (0, 1):
                at[side], off = self._descended(number, beside(side, at), {}, at[side], off)
            if not float(off @ off) < before * _IMPROVES:
                break
        if not float(off @ off) < NEARER**2 * float(begin @ begin):
            return
        for side in (0, 1):
            at[side] = self._shortest(number, beside(side, at), at[side], off)
        try_both(at)

    def _try_shortest(self, number: int, node: Node, fit: Fit, at: float, off: Array) -> None:
        """Try the shortest number that is as near as one from which the output is ``off``."""
        shorter = self._shortest(number, fit, at, off)
        if shorter != fit.own and shorter >= fit.least:
            self._try_fitted(number, node, fit, shorter)

    def _shortest(self, number: int, fit: Fit, at: float, off: Array) -> float:
        """Return the shortest number that is as near as one from which the output is ``off``."""
        least, shorter = float(off @ off), at
        # Rounding inside is no chance: it may lie nearer to a longer number.
        granted = least * _INSIDE + _FIT_DEVIATIONS**2 * max(least / off.size, 1e-30)
        for digits in range(1, 8):
            shorter = float(np.rint(at)) if fit.whole else float("%.*g" % (digits, at))
            beside = self._trials.off_by(number, fit, shorter)
            if beside is not None and float(beside @ beside) <= granted:
                break
        if shorter * fit.own < 0:
            # A Mod with fmod does not see the sign.
            beside = self._trials.off_by(number, fit, -shorter)
            if beside is not None and float(beside @ beside) <= granted:
                shorter = -shorter
        return shorter

    def _shown_numbers(self) -> Iterator[float]:
        """Yield numbers that an output may show as they are, and rounded: its least and largest
        (bounds), the least magnitude (a threshold), what all steps from an input are times a whole
        number (a divisor).
        """
        actual = np.asarray(self._trials.output.actual, np.float64).reshape(-1)
        shown = [float(actual.min()), float(actual.max())]
        sizes = np.abs(actual)
        largest = float(sizes.max())
        unit = float(ulp(np.array(largest), self._trials.output.dtype))
        told = sizes > _NOTHING * largest
        shown += [float(sizes[told].min())] if told.any() else []
        for array in self._trials.incoming.values():
            if array.size == actual.size and array.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    steps = np.abs(np.asarray(array, np.float64).reshape(-1) - actual)
                shown += _common_measure(steps, largest, unit)
        for number in shown:
            for value in (float("%.2g" % number), float("%.3g" % number), float(number)):
                if np.isfinite(value):
                    yield from (value, -value)

    def _try_fitted(self, number: int, node: Node, fit: Fit, value: float) -> None:
        """Try a number, each digit of which the output has to tell."""
        bits = BITS_OF_A_DIGIT * (1 + _digits(value))
        self._trials.try_variant(number, node, fit.variant(value), bits, True)

    def _descended(
        self, number: int, fit: Fit, known: Dict[float, float], at: float, off: Array
    ) -> Tuple[float, Array]:
        """Return a number that is nearer, by Gauss and Newton's steps, and how far it is off."""
        for _ in range(_STEPS):
            step = max(1.0 if fit.whole else 0.0, 1e-3 * abs(at)) or 1e-3
            beside = self._trials.off_by(number, fit, at + step)
            slope = None if beside is None else (off - beside) / step
            if slope is None or not slope.any():
                break
            move, distance = float(slope @ off) / float(slope @ slope), float(off @ off)
            for _ in range(_STEPS):
                # Rounding inside leaves no step to a whole number exactly.
                to = float(np.rint(at + move)) if fit.whole else at + move
                nearer = self._trials.off_by(number, fit, to)
                if nearer is not None and float(nearer @ nearer) < distance * _IMPROVES:
                    at, off = to, nearer
                    known[at] = float(nearer @ nearer)
                    break
                move /= 4.0
            else:
                break
        return at, off

    def _narrowed(
        self, number: int, fit: Fit, known: Dict[float, float], at: float, off: Array
    ) -> Tuple[float, Array]:
        """Return a number that is nearer, and how far the output is off then, found between its
        neighbours among those that were tried: a threshold has no slope.
        """
        for _ in range(0 if fit.whole else _NARROWED):
            places = sorted(known)
            place = places.index(at)
            sides = [places[n] for n in (place - 1, place + 1) if 0 <= n < len(places)]
            tried = {}
            for side in sides:
                between = (at + side) / 2.0
                nearer = self._trials.off_by(number, fit, between)
                if nearer is not None:
                    known[between] = float(nearer @ nearer)
                    tried[between] = nearer
            best = min(tried, key=lambda value: known[value], default=at)
            if known.get(best, np.inf) < float(off @ off):
                at, off = best, tried[best]
        return at, off


def _digits(value: float) -> int:
    shown = text_of(value).partition("e")[0]
    return len(re.sub(r"\D", "", shown).strip("0"))


def _both(node: Node, first: Variant, second: Variant) -> Variant:
    """Return a node that takes two numbers otherwise at once."""
    changed = {
        name: value
        for name, value in second.node.attributes.items()
        if name not in node.attributes or value is not node.attributes[name]
    }

    def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
        for one in (first, second):
            given = given if one.inputs is None else one.inputs(given)
        return given

    return first._replace(
        device="%s and %s %s" % (first.device, second.name, second.device),
        model="%s %s and %s %s" % (first.name, first.model, second.name, second.model),
        node=replace(first.node, attributes={**first.node.attributes, **changed}),
        inputs=taken,
    )


def _common_measure(steps: Array, largest: float, unit: float) -> List[float]:
    """Return the number of which all steps are whole multiples, where it is told: a part of it,
    whose multiples they are as well, is larger than no rest.

    Parameters
    ----------
    largest, unit
        Of the rests, and its step in the output's type.
    """
    steps = np.unique(steps[steps > _NOTHING * steps.max(initial=0.0)])
    steps = steps[:: steps.size // _MEASURED + 1]
    if not steps.size or not np.isfinite(steps[-1]):
        return []
    for parts in range(1, _MOST_PARTS + 1):
        measure = float(steps[0]) / parts
        for step in steps:
            # The further ones tell it the more exactly.
            measure = float(step) / max(1.0, float(np.rint(step / measure)))
            if abs(steps[0] - parts * measure) > unit:
                break
        if np.abs(steps - measure * np.rint(steps / measure)).max() <= unit:
            return [measure] if largest >= measure / 2.0 else []
    return []
