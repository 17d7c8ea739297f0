"""Searches what a device computed in place of an operator that is wrong: an attribute read
otherwise, another tensor's values, a part that was not written.
"""

from __future__ import annotations

import math
import re
import zlib
from dataclasses import replace
from itertools import combinations
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from .. import operators
from ..operators import Arithmetic, CannotCompute, Node, Value
from ..operators.value_with_error import FLOAT32_ROUNDING
from ..operators.variants import AS_IT_IS, Fit, Variant, text_of
from ..tensors.type_precision import rounding_of, ulp
from .formulas_by_type import LOOSE, TIGHT
from .other_constants import dumped_otherwise, solved
from .output_error import OwnError, own_error
from .piece import EXACT, Key, Part, Piece, Siblings, rounded

Array = Any

_BUDGET_S = 0.4
"""What the variants of one operator may take, as :meth:`Recomputer.cost_s` estimates it: of 416 MB
of convolutions with one that nothing explains the whole comparison then takes 1.2 times as long
(scripts/bench recompute --culprit; with 1 s 1.5 times)."""
_PART_ELEMENTS = 1 << 17
"""Elements of an output by which a variant is told not to be the one, before all are computed."""
# Chosen. Tried are _NEARER from 0.35 to 0.95, _AS_GOOD from 1.1 to 3, MOST_AGREE from 0.8 to 0.99,
# _AGREES from 2 to 8, _STEPS from 4 to 16 and _NARROWED from 6 to 24, one at a time: each of
# attribute_trial --quick --dtype float16 --form all is named with its value all the same, and
# --lot 1 40 --null finds nothing.
_NEARER = 0.7
"""Of the model's distance from the device's output, what a variant's may be to be looked at."""
_BY_ROUNDING = 1.0
"""Times what rounding explains, above which numbers are fitted although a variant agrees."""
_AS_GOOD = 1.5
"""Of the best variant's error, what that of another may be which explains as much."""
MOST_AGREE = 0.95
"""The share of elements that agree with a variant at least: NaN is compared with nothing."""
_AGREES = 4.0
"""Standard deviations of rounding by which elements that agree may differ."""
_FUNCTION_ULPS = 4.0
"""The standard deviation of a function of float32, in units in the last place: Tanh of onnxruntime
is off by 5, that of its RNN by 12 (1.32, beside float64).
"""
_FAR, _HALVED = 1024.0, 16
"""A number beyond which none is looked for that makes an output one value, and how often what lies
between is halved for the least."""
_STEPS = 8
"""Of fitting a number; each halves an error many times, or it is no fit."""
_ROUNDS, _MOST_PAIRED = 6, 4
"""Of fitting two numbers by turns; and numbers of a node of which two are fitted together."""
# Chosen for the length of a sentence.
_MOST_NAMED = 4
"""Values of one attribute that agree equally well, of which a message names each."""
_ROUND = (0.0, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, -1.0)
"""Numbers that are tried before others are fitted, and the model's own by these factors."""
_FACTORS = (2.0, 0.5, 4.0, 0.25, 10.0, 0.1, -1.0, 0.75, 1.25, 0.9, 1.1)
_NARROWED = 12
"""Times that the numbers on both sides of the best one are brought nearer to it, where no slope
tells more: of a threshold."""
CHANCE_BITS = 7.0
"""Of agreeing by chance, what is left after all that was tried: 1 of 128; of what no attribute says
(an input in another order), _UNLIKELY_BITS more. attribute_trial --null finds none then; with 0
bits one in 40 (--lot 1 40)."""
_UNLIKELY_BITS = 10.0
# Not measured from here on, but for log2(10).
BITS_OF_A_DIGIT = 3.3
_SOLVED_BITS = 11.0
"""That a constant takes which is solved from the output: it is told to about as many."""
MOST_BITS = 20.0
"""That one element can tell."""
_FACTORS_WITHIN = 2.0 * math.log(10.0)
"""Of a factor that a variant makes by chance: its logarithm is as likely up to ten times either
way."""
_MOST_COUNTED = 1 << 14
"""Elements by which it is told how frequent a number is."""
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


class Output(NamedTuple):
    """What is to be explained.

    Attributes
    ----------
    value
        Which value of the piece the output is.
    actual
        The device's, in the shape of the computed one.
    computed
        What the model makes of the device's inputs.
    dtype
        Of the output on the device.
    others
        The operator's other outputs that were dumped: what explains one has to agree with all.
    """

    value: Key
    actual: Array
    computed: Value
    dtype: str
    others: Tuple[Output, ...] = ()


class Explained(NamedTuple):
    """What reproduces an output.

    Attributes
    ----------
    sentence
        What the device computed, and what the model says.
    name
        What was read otherwise (an attribute); empty where it is no attribute.
    node
        The original node that has it.
    device, model
        What the device computed and what the model says, as text.
    agree, model_agree, elements
        How many elements agree with it, with the model, and how many there are.
    """

    sentence: str
    name: str
    node: Node
    device: str
    model: str
    agree: int
    model_agree: int
    elements: int


class VariantSearch(NamedTuple):
    """What came of a search.

    Attributes
    ----------
    explained
        What reproduces the output, the best first.
    tried
        What was tried, in words.
    left_out
        How many variants were not tried because they would have taken too long.
    instead
        What was written instead, where no variant explains it.
    too_few
        What the elements are too few to tell.
    possible
        What agrees, as so few elements may do by chance.
    other_weights
        Whether it is weights that the dump holds, and the model does not.
    """

    explained: List[Explained]
    tried: List[str]
    left_out: int = 0
    instead: Optional[Instead] = None
    too_few: Sequence[str] = ()
    possible: Sequence[Explained] = ()
    other_weights: bool = False


class Instead(NamedTuple):
    """What was written instead of an operator's output.

    Attributes
    ----------
    kind
        ``other-tensor``, ``not-written``, ``activation``, ``layout``, ``scale``, ``bias``,
        ``rounding`` or ``overflow``.
    sentence, next
        What was found, and what to do next.
    several
        Whether it is several numbers, of which some constant may tell more.
    agree
        Of one factor or offset for all elements, how many agree with it.
    """

    kind: str
    sentence: str
    next: str
    several: bool = False
    agree: int = 0


class _Accepted(NamedTuple):
    ratio: float
    agree: int
    node: Node
    variant: Variant
    fitted: bool = False
    # Whether its output has the model's shape: another one may be the same in memory.
    in_shape: bool = True
    # Of what it makes, in the output's type.
    digest: int = 0


def search_variants(
    piece: Piece,
    incoming: Mapping[Key, Array],
    output: Output,
    judge: Callable[[OwnError, bool], float],
    cost_s: float,
    siblings: Siblings,
    dumped: Sequence[Tuple[int, Array]] = (),
) -> VariantSearch:
    """Compute everything that the nodes of a piece may have read otherwise: attributes and orders,
    constants of others, narrower arithmetic, then numbers that may be any.

    Parameters
    ----------
    incoming
        The values that come in.
    judge
        Returns by how many times an error exceeds what is allowed.
    cost_s
        Roughly what computing the piece once takes.
    siblings
        As of :meth:`Piece.other_constants`.
    dumped
        Constants as the dump of the op holds them, by the number of its input.
    """
    search = _Search(piece, incoming, output, judge, cost_s)
    base = piece.values(incoming, EXACT)
    unit = rounding_of(output.dtype).half_unit if output.actual.dtype.kind == "f" else 0.0
    held = dumped_otherwise(piece, base, dumped, unit, siblings)
    search.try_all(held.variants)
    if held.all_equal:
        search.tried["the constants of its own dump (they are the model's)"] = None
    held_otherwise, search.accepted = search.accepted, []
    other_weights = any(entry.variant is other for entry in held_otherwise for other in held.others)
    # Weights that are not the model's at all explain it alone.
    if not other_weights:
        search.try_model(base, siblings)
        if not search.accepted and not held_otherwise and not piece.counts:
            search.solve(base)
    search.accepted = [*held_otherwise, *search.accepted]
    found = search.accepted or search.possible
    best = min((entry.ratio for entry in found), default=0.0)
    as_good = [entry for entry in found if entry.ratio <= _AS_GOOD * best + 0.05]
    as_good = [entry for entry in as_good if entry.in_shape] or as_good
    model_agree = int(np.count_nonzero(agreeing(output, output.computed)))
    explained = _in_words(as_good, output, model_agree, not search.accepted)
    return VariantSearch(
        explained if search.accepted else [],
        list(search.tried),
        search.left_out,
        possible=[] if search.accepted else explained[:_MOST_NAMED],
        other_weights=other_weights,
    )


def is_another_curve(piece: Piece, values: Mapping[Key, Value], output: Output) -> bool:
    """Tell whether an output is, but for one rounding, what another activation makes of the value
    that the model's is made of: no coarser arithmetic comes so near.

    Parameters
    ----------
    values
        All values of the piece.
    """
    curve = piece.curve(values, output.value)
    if curve is None:
        return False
    size = output.actual.size
    places = slice(None, None, size // _MOST_COUNTED + 1)
    actual, model = (
        np.reshape(side, -1)[places] for side in (output.actual, output.computed.array)
    )
    source = Value(np.reshape(curve.source.array, -1)[places])
    arithmetic = TIGHT.get(output.dtype, Arithmetic())
    for _, node in curve.others():
        (value,) = operators.compute(node, [source], arithmetic)
        # What is nearer than one rounding to the model's tells nothing.
        if (
            own_error(model, value, output.dtype).doubtful
            and not own_error(actual, value, output.dtype).doubtful
        ):
            return True
    return False


class _Search:
    """Variants that are tried within a budget; what is accepted, what was tried, what left out.

    Parameters
    ----------
    piece, incoming, output, judge, cost_s
        As of :func:`search_variants`.
    """

    def __init__(
        self,
        piece: Piece,
        incoming: Mapping[Key, Array],
        output: Output,
        judge: Callable[[OwnError, bool], float],
        cost_s: float,
    ) -> None:
        self._piece, self._incoming, self._output = piece, incoming, output
        self._judge, self._cost_s = judge, cost_s
        self._before = _values_before(piece, incoming, piece.values(incoming, EXACT))
        self._model_distance = _distance(output.actual, output.computed.array)
        self._spent_s = 0.0
        self.accepted: List[_Accepted] = []
        self.tried: Dict[str, None] = {}
        self.possible: List[_Accepted] = []
        self.left_out = 0
        self._computed = 0

    def has_time(self, words: str) -> bool:
        """Tell whether the budget allows for another; in ``words`` what it is."""
        if self._spent_s > _BUDGET_S:
            self.left_out += 1
            return False
        self.tried.setdefault(words)
        return True

    def try_all(self, variants: Iterable[Tuple[int, Node, Variant]], bits: float = 0.0) -> None:
        """Compute variants as far as the budget allows.

        Parameters
        ----------
        bits
            How much less likely they are than others.
        """
        for number, node, variant in variants:
            if self.has_time("%s of %s" % (variant.name or "another function", node.type)):
                self._try(number, node, variant, bits)

    def try_model(self, base: Mapping[Key, Value], siblings: Siblings) -> None:
        """Try what the model's nodes may have read otherwise, but constants that are solved.

        Parameters
        ----------
        base
            All values of the piece.
        siblings
            As of :meth:`Piece.other_constants`.
        """
        piece = self._piece
        self.try_all(piece.variants(base))
        if not self.accepted:
            self.try_all(piece.chains(base, self._output.value))
            self.try_all(piece.variants(base, together=True))
        if not self.accepted:
            self.try_all(piece.other_constants(base, siblings))
        # What is farther off than rounding may only resemble what a number makes: of few elements
        # an unbiased variance does an epsilon.
        if min((entry.ratio for entry in self.accepted), default=np.inf) > _BY_ROUNDING:
            for number, node, fit in piece.fits(base):
                if self.has_time("%s of %s, fitted" % (fit.name, node.type)):
                    self.fit(number, node, fit)
        # Twice a weight is what twice a factor is; half a threshold what any about as large is.
        if all(entry.fitted and not piece.counts for entry in self.accepted):
            self.try_all(piece.other_inputs(base), _UNLIKELY_BITS)
        if not self.accepted:
            self._fit_pairs(base)

    def _try(
        self, number: int, node: Node, variant: Variant, bits: float = 0.0, fitted: bool = False
    ) -> None:
        output, changed = self._output, self._piece.with_variant(number, variant)
        self._computed += 1
        try:
            part = _part_of(changed, variant, self._incoming, output)
            if part is not None:
                shown, given, piece_part = part
                self._spent_s += self._cost_s * shown.actual.size / output.actual.size
                value = changed.values(given, EXACT, piece_part)[output.value]
                distance = _distance(shown.actual, shown.computed.array)
                if not _is_nearer(shown, value, distance):
                    return
            self._spent_s += self._cost_s
            value = changed.values(self._before[number], EXACT)[output.value]
            if changed.counts:
                # Whether it follows is told without a computed output, which may be longer.
                value = Value(output.actual)
            if not _is_nearer(output, value, self._model_distance):
                return
            found = _judged(changed, self._before[number], output, value, self._judge)
            if found is not None and output.others:
                self._spent_s += self._cost_s
                values = changed.values(self._before[number], EXACT)
                for other in output.others:
                    made = values[other.value]
                    if made.array.size != other.actual.size or None is _judged(
                        changed, self._before[number], other, made, self._judge
                    ):
                        return
        except (CannotCompute, KeyError):
            return
        if found is None:
            return
        ratio, agree, told = found
        if not fitted:
            told = min(told, _bits_beside_a_factor(output, value, max(1.0, ratio)))
            if told < 0.0:
                return
        told_enough = told >= CHANCE_BITS + bits + np.log2(self._computed)
        chosen = self.accepted if told_enough else self.possible
        in_shape = value.array.shape == output.computed.array.shape
        digest = zlib.crc32(np.ascontiguousarray(rounded(value.array, output.dtype)).tobytes())
        chosen.append(_Accepted(ratio, agree, node, variant, fitted, in_shape, digest))

    def solve(self, base: Mapping[Key, Value]) -> None:
        """Try constants that are solved from the output, each of which it has to tell."""
        output = self._output

        def has_time(times: int) -> bool:
            self._spent_s += times * self._cost_s
            return self.has_time("constants that may be any")

        for number, node, variant, count in solved(
            self._piece, base, self._before, output.value, output.actual, has_time
        ):
            self._try(number, node, variant, _SOLVED_BITS * count, True)

    def _off_by(self, number: int, fit: Fit, value: float) -> Optional[Array]:
        """Return how far the output is from what a number makes, flat; None where it cannot be
        taken, or the time is over.
        """
        if value < fit.least or self._spent_s > _BUDGET_S:
            return None
        changed = self._piece.with_variant(number, fit.variant(value))
        self._spent_s += self._cost_s
        actual = np.asarray(self._output.actual, np.float64).reshape(-1)
        try:
            if changed.counts:
                wrong = _not_following(changed, self._before[number], self._output)
                return np.full(actual.size, math.sqrt(np.count_nonzero(wrong) / actual.size))
            values = changed.values(self._before[number], EXACT)[self._output.value].array
        except (CannotCompute, KeyError):
            return None
        if values.size != actual.size:
            return None
        values = np.asarray(values, np.float64).reshape(-1)
        with np.errstate(all="ignore"):
            off = actual - values
        same = (values == actual) | (np.isnan(values) & np.isnan(actual))
        # What is not finite on one side alone is as far off as if nothing were there.
        size = np.where(np.isfinite(actual), np.abs(actual), 0.0)
        full = np.where(size > 0, size, max(1.0, float(size.max(initial=0.0))))
        return np.where(same, 0.0, np.where(np.isfinite(off), off, full))

    def fit(self, number: int, node: Node, fit: Fit) -> None:
        """Find the number by which a node comes nearest to the output: the best of the usual ones,
        from there by Gauss and Newton's steps; and try the shortest one that is as near within what
        chance makes of it.
        """
        if not np.any(self._output.actual != self._output.actual.flat[0]):
            # One value throughout tells no number but 0, or from which on; 0 is not written.
            if self._output.actual.flat[0]:
                self._fit_to_one_value(number, node, fit)
            return
        at, off = fit.own, self._off_by(number, fit, fit.own)
        if off is None:
            return
        begin = float(off @ off)
        known = {at: begin}
        for value in dict.fromkeys((*_ROUND, *(fit.own * factor for factor in _FACTORS))):
            value = float(np.rint(value)) if fit.whole else value
            nearer = self._off_by(number, fit, value) if value != fit.own else None
            if nearer is not None:
                known[value] = float(nearer @ nearer)
                if known[value] < off @ off:
                    at, off = value, nearer
        before = len(self.accepted)
        if off @ off < _NEARER**2 * begin:
            self._try_fitted(number, node, fit, at)
            if len(self.accepted) > before:
                return
        at, off = self._descended(number, fit, known, at, off)
        at, off = self._narrowed(number, fit, known, at, off)
        self._try_shortest(number, node, fit, at, off)
        if len(self.accepted) > before or fit.whole:
            return
        best = at
        for value in self._shown_numbers():
            nearer = self._off_by(number, fit, value)
            if nearer is not None and float(nearer @ nearer) < float(off @ off):
                at, off = value, nearer
        if at != best:
            at, off = self._descended(number, fit, known, at, off)
            self._try_shortest(number, node, fit, at, off)

    def _fit_to_one_value(self, number: int, node: Node, fit: Fit) -> None:
        """Try 0, or from where on a number makes all of an output one value: a bound, an offset."""
        if fit.least <= 0.0 != fit.own:
            count = len(self.accepted) + len(self.possible)
            self._try_fitted(number, node, fit, 0.0)
            if len(self.accepted) + len(self.possible) > count:
                return
        for beyond, words in ((_FAR, "or more"), (-_FAR, "or less")):
            inside, off = fit.own, self._off_by(number, fit, beyond)
            if off is None or off.any():
                continue
            for _ in range(_HALVED):
                between = (inside + beyond) / 2.0
                off = self._off_by(number, fit, between)
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
                self._try(number, node, variant, np.inf)
                return

    def _fit_pairs(self, base: Mapping[Key, Value]) -> None:
        """Find two numbers of a node that were both taken otherwise: alpha and beta, two bounds."""
        if not np.any(self._output.actual != self._output.actual.flat[0]):
            return
        by_node: Dict[int, Tuple[Node, List[Fit]]] = {}
        for number, node, fit in self._piece.fits(base):
            by_node.setdefault(number, (node, []))[1].append(fit)
        for number, (node, fits) in by_node.items():
            for pair in combinations(fits[:_MOST_PAIRED], 2):
                names = "%s and %s" % (pair[0].name, pair[1].name)
                if pair[0].name != pair[1].name and self.has_time(
                    "%s of %s, fitted together" % (names, node.type)
                ):
                    self._fit_pair(number, node, pair)

    def _fit_pair(self, number: int, node: Node, pair: Tuple[Fit, Fit]) -> None:
        actual = np.asarray(self._output.actual, np.float64)
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
            before = len(self.accepted)
            self._try(number, node, beside(0, values).variant(values[0]), bits, True)
            return len(self.accepted) > before

        begin = self._off_by(number, beside(0, own), own[0])
        if begin is None:
            return
        at, off = list(own), begin
        # Some numbers an output shows as they are: its least and its largest.
        for digits in (2, 3, 17):
            shown = [float("%.*g" % (digits, value)) for value in bounds]
            nearer = self._off_by(number, beside(0, shown), shown[0])
            if nearer is not None and float(nearer @ nearer) < _NEARER**2 * float(begin @ begin):
                if try_both(shown):
                    return
                at, off = shown, nearer
        for _ in range(_ROUNDS):
            before = float(off @ off)
            for side in (0, 1):
                at[side], off = self._descended(number, beside(side, at), {}, at[side], off)
            if not float(off @ off) < before * _IMPROVES:
                break
        if not float(off @ off) < _NEARER**2 * float(begin @ begin):
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
            beside = self._off_by(number, fit, shorter)
            if beside is not None and float(beside @ beside) <= granted:
                break
        if shorter * fit.own < 0:
            # A Mod with fmod does not see the sign.
            beside = self._off_by(number, fit, -shorter)
            if beside is not None and float(beside @ beside) <= granted:
                shorter = -shorter
        return shorter

    def _shown_numbers(self) -> Iterator[float]:
        """Yield numbers that an output may show as they are, and rounded: its least and largest
        (bounds), the least magnitude (a threshold), what all steps from an input are times a whole
        number (a divisor).
        """
        actual = np.asarray(self._output.actual, np.float64).reshape(-1)
        shown = [float(actual.min()), float(actual.max())]
        sizes = np.abs(actual)
        largest = float(sizes.max())
        unit = float(ulp(np.array(largest), self._output.dtype))
        told = sizes > _NOTHING * largest
        shown += [float(sizes[told].min())] if told.any() else []
        for array in self._incoming.values():
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
        self._try(number, node, fit.variant(value), bits, True)

    def _descended(
        self, number: int, fit: Fit, known: Dict[float, float], at: float, off: Array
    ) -> Tuple[float, Array]:
        """Return a number that is nearer, by Gauss and Newton's steps, and how far it is off."""
        for _ in range(_STEPS):
            step = max(1.0 if fit.whole else 0.0, 1e-3 * abs(at)) or 1e-3
            beside = self._off_by(number, fit, at + step)
            slope = None if beside is None else (off - beside) / step
            if slope is None or not slope.any():
                break
            move, distance = float(slope @ off) / float(slope @ slope), float(off @ off)
            for _ in range(_STEPS):
                # Rounding inside leaves no step to a whole number exactly.
                to = float(np.rint(at + move)) if fit.whole else at + move
                nearer = self._off_by(number, fit, to)
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
                nearer = self._off_by(number, fit, between)
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


def _part_of(
    piece: Piece, variant: Variant, incoming: Mapping[Key, Array], output: Output
) -> Optional[Tuple[Output, Dict[Key, Array], Part]]:
    """Return a part of a large output by which most variants are told to be none, what comes in for
    it, and what is to be computed; None where it cannot be cut.
    """
    size = output.actual.size
    if size <= _PART_ELEMENTS or variant.inputs is not None or variant.outputs is not None:
        return None
    shapes = {value: tuple(array.shape) for value, array in incoming.items()}
    axis, cuts = max(
        piece.cuts(output.value, shapes).items(),
        key=lambda entry: entry[1].length,
        default=(0, None),
    )
    if cuts is None or output.actual.ndim <= axis or output.actual.shape[axis] != cuts.length:
        return None
    length = max(1, cuts.length * _PART_ELEMENTS // size)
    first = (cuts.length - length) // 2
    part = cuts.part(first, first + length)

    def along(array: Array, cut_axis: Optional[int], begin: int, end: int) -> Array:
        return (
            array if cut_axis is None else array[(slice(None),) * cut_axis + (slice(begin, end),)]
        )

    given = {
        value: along(array, cuts.inputs.get(value), *part.ranges.get(value, (0, 0)))
        for value, array in incoming.items()
    }
    shown = output._replace(
        actual=along(output.actual, axis, first, first + length),
        computed=Value(along(output.computed.array, axis, first, first + length)),
    )
    return shown, given, part


def _values_before(
    piece: Piece, incoming: Mapping[Key, Array], base: Mapping[Key, Value]
) -> Dict[int, Dict[Key, Array]]:
    """Return for each node what is known without it: what comes in, and what nodes before make."""
    before: Dict[int, Dict[Key, Array]] = {}
    known = dict(incoming)
    for number, _ in piece.calls:
        before[number] = dict(known)
        known.update({key: value.array for key, value in base.items() if key[0] == number})
    return before


def _distance(actual: Array, computed: Array) -> float:
    """Return ‖x − y‖² over what is finite in both; of whole numbers and bool how many differ."""
    if actual.dtype.kind != "f" or computed.dtype.kind != "f":
        return float(np.count_nonzero(actual != computed))
    with np.errstate(all="ignore"):
        off = np.subtract(actual, computed, dtype=np.float64)
    off = off[np.isfinite(off)]
    return float(np.dot(off, off))


def _is_nearer(output: Output, value: Value, model_distance: float) -> bool:
    if value.array.size != output.actual.size:
        return False
    computed = value.array.reshape(output.actual.shape)
    finite = np.isfinite(output.actual)
    model_finite = np.isfinite(output.computed.array.reshape(finite.shape))
    return (
        _distance(output.actual, computed) < _NEARER**2 * model_distance
        or (
            not np.array_equal(model_finite, finite)
            and np.array_equal(np.isfinite(computed), finite)
        )
        or _is_nearer_in_roundings(output, computed)
    )


def _is_nearer_in_roundings(output: Output, computed: Array) -> bool:
    """Tell whether values are nearer than the model's where each element counts by its own
    rounding: small ones that are wrong do not show beside the rounding of large ones.
    """
    if output.actual.dtype.kind != "f" or computed.dtype.kind != "f":
        return False
    places = slice(None, None, output.actual.size // _MOST_COUNTED + 1)
    actual, values, model = (
        np.reshape(side, -1)[places] for side in (output.actual, computed, output.computed.array)
    )
    some = output._replace(actual=actual, computed=Value(model))
    unit = np.sqrt(_squares_by_rounding(some, some.computed))
    with np.errstate(all="ignore"):
        device, variant, own = (np.float64(side) / unit for side in (actual, values, model))
    return _distance(device, variant) < _NEARER**2 * _distance(device, own)


def _judged(
    piece: Piece,
    incoming: Mapping[Key, Array],
    output: Output,
    exact: Value,
    judge: Callable[[OwnError, bool], float],
) -> Optional[Tuple[float, int, float]]:
    """Return the error of a variant that the device may have computed, how many elements agree, and
    by how many bits that is no chance; None of another.
    """
    # A quantiser decides which of the few numbers of its type it takes.
    decides = piece.decides and "float8" in output.dtype
    if decides or output.actual.dtype.kind != "f" or output.computed.array.dtype.kind != "f":
        count = int(np.count_nonzero(_not_following(piece, incoming, output)))
        return None if count else (0.0, output.actual.size, told_bits(output, exact))
    ways = [
        TIGHT.get(output.dtype, Arithmetic()),
        *([LOOSE[output.dtype]] if output.dtype in LOOSE else []),
    ]
    for arithmetic in ways:
        try:
            value = piece.values(incoming, arithmetic)[output.value]
        except CannotCompute:
            # Errors do not go through it: it has to be the next number then.
            value = exact
        value = Value(
            value.array.reshape(output.actual.shape),
            None
            if value.error is None
            else np.broadcast_to(value.error, value.array.shape).reshape(output.actual.shape),
        )
        error = own_error(output.actual, value, output.dtype)
        if judge(error, piece.moves) > 1.0:
            continue
        agree = int(np.count_nonzero(agreeing(output, value, max(1.0, error.ratio))))
        if agree >= MOST_AGREE * output.actual.size:
            return error.ratio, agree, told_bits(output, value, max(1.0, error.ratio))
    return None


def _not_following(piece: Piece, incoming: Mapping[Key, Array], output: Output) -> Array:
    """Return which elements of whole numbers or bool do not follow from what comes in."""
    values = piece.values(incoming, EXACT)
    follows = piece.decides and not piece.writes_otherwise
    if follows and piece.calls[-1][0] == output.value[0]:
        node, inputs = piece.inputs_of_last(values, None)
        given: List[Optional[Array]] = [None] * (output.value[1] + 1)
        given[-1] = output.actual
        wrong = operators.check(node, inputs, given)[-1]
        if wrong is not None:
            return wrong
    return output.actual != values[output.value].array.reshape(output.actual.shape)


def told_bits(output: Output, value: Value, times: float = 1.0) -> float:
    """Return by how many bits it is no chance that elements agree with a value where they do not
    agree with the model.

    A number that nothing of the model is tells how near it is among all that could be; each further
    element of this number, and one that the model has elsewhere (0, or values in another order),
    as much as one element is by chance that is so frequent; and which elements they are.
    """
    telling = agreeing(output, value, times) & ~agreeing(output, output.computed, times)
    places = np.flatnonzero(telling.reshape(-1))
    if not places.size:
        return 0.0
    places = places[:: places.size // _MOST_COUNTED + 1]
    actual, model = (
        np.asarray(side, np.float64).reshape(-1) for side in (output.actual, output.computed.array)
    )
    told, step = actual[places], (actual.size // _MOST_COUNTED + 1) | 1
    reach = np.zeros(places.size)
    if output.actual.dtype.kind == "f":
        reach = _AGREES * times * np.sqrt(_squares_by_rounding(output, value).reshape(-1)[places])
    ordered, counted = np.sort(model[::step]), np.sort(actual[::step])
    with np.errstate(invalid="ignore"):
        least, most = told - reach, told + reach
    held = np.searchsorted(ordered, most, "right") - np.searchsorted(ordered, least)
    often = np.searchsorted(counted, told, "right") - np.searchsorted(counted, told)
    each = -np.log2(np.maximum(np.maximum(often, held), 1) / counted.size)
    _, first = np.unique(told, return_index=True)
    first = first[held[first] == 0]
    finite = np.concatenate([side[np.isfinite(side)] for side in (counted, ordered)])
    spread = float(np.ptp(finite)) if finite.size else 0.0
    with np.errstate(all="ignore"):
        near = np.log2(spread / (2.0 * np.where(reach > 0, reach, 0.5))[first])
    each[first] = np.clip(np.nan_to_num(near, nan=0.0), 0.0, MOST_BITS)
    # Which elements differ is no chance either.
    size, apart = telling.size, int(np.count_nonzero(telling))
    ways = math.lgamma(size + 1) - math.lgamma(apart + 1) - math.lgamma(size - apart + 1)
    return float(np.sum(each)) + ways / math.log(2.0)


def _bits_beside_a_factor(output: Output, value: Value, times: float) -> float:
    """Return by how many bits a value is no chance where the output is also what the model computes
    times one factor: this number alone is told then, however many elements there are; and where the
    factor comes nearer, by how much less likely that is of the value.
    """
    x, y, made = (
        np.asarray(side, np.float64).reshape(-1)
        for side in (output.actual, output.computed.array, value.array)
    )
    squares = float(np.dot(y, y))
    if not 0.0 < squares < np.inf or not np.isfinite(made).all() or not np.isfinite(x).all():
        return np.inf
    device, variant = float(np.dot(x, y)) / squares, float(np.dot(made, y)) / squares
    error = output.computed.error
    by_factor = Value(
        device * output.computed.array, None if error is None else abs(device) * error
    )
    agree = np.count_nonzero(agreeing(output, by_factor, times))
    if not device or agree < MOST_AGREE * x.size:
        return np.inf
    rounding = _squares_by_rounding(output, Value(value.array)).reshape(-1)
    deviation = math.sqrt(float(np.dot(rounding, y * y))) / squares
    near = max(abs(variant - device), _AGREES * deviation) / abs(device)
    # What is left of n elements by a fitted number, of what is left without: Beta's tail.
    left = float(np.square(x - device * y).sum() + rounding.sum())
    left /= float(np.square(x - made).sum() + rounding.sum())
    return (
        math.log2(_FACTORS_WITHIN / (2.0 * near)) + (x.size - 1) / 2.0 * math.log2(min(1.0, left))
        if near and left
        else np.inf
    )


def _squares_by_rounding(output: Output, value: Value) -> Array:
    """Return the squares of what rounding explains of each element."""
    computed = value.array.reshape(output.actual.shape)
    with np.errstate(all="ignore"):
        wide = computed.astype(np.float64)
        # Sums inside are rounded by their own size, which that of all elements stands for.
        finite = wide[np.isfinite(wide)]
        usual = float(np.dot(finite, finite)) / max(1, finite.size)
        squares = np.square(ulp(wide, output.dtype)) / 12.0 + usual * FLOAT32_ROUNDING**2 / 3.0
        if output.dtype == "float32":
            squares = squares + np.square(_FUNCTION_ULPS * ulp(wide, output.dtype))
        if value.error is not None:
            squares = squares + np.square(
                np.broadcast_to(value.error, value.array.shape).reshape(computed.shape)
            )
        return squares


def agreeing(output: Output, value: Value, times: float = 1.0) -> Array:
    """Return which elements agree with a value within so many times what rounding explains."""
    computed = value.array.reshape(output.actual.shape)
    if output.actual.dtype.kind != "f" or computed.dtype.kind != "f":
        return output.actual == computed
    with np.errstate(all="ignore"):
        squares = _squares_by_rounding(output, value)
        off = np.subtract(output.actual, computed, dtype=np.float64)
        both = np.isnan(computed) & np.isnan(output.actual)
        return (
            (np.square(off) <= (_AGREES * times) ** 2 * squares)
            | (output.actual == computed)
            | both
        )


def _in_words(
    accepted: Sequence[_Accepted], output: Output, model_agree: int, by_chance: bool
) -> List[Explained]:
    """Return what was accepted, values of one attribute together."""
    by_name: Dict[Tuple[str, str, str], List[_Accepted]] = {}
    for entry in accepted:
        by_name.setdefault((entry.node.name, entry.node.type, entry.variant.name), []).append(entry)
    explained = []
    # What makes the same of these inputs is one thing: nothing tells which of them it was.
    alike: Dict[int, List[List[_Accepted]]] = {}
    for entries in by_name.values():
        entries.sort(key=lambda entry: entry.ratio)
        alike.setdefault(entries[0].digest, []).append(entries)
    for groups in alike.values():
        groups.sort(key=lambda entries: entries[0].variant.device == "missing")
        first = groups[0][0]
        own = first.variant.model
        others = [_shown(entries)[0] for entries in groups[1:_MOST_NAMED]]
        what, device = _shown(groups[0])
        sentence = "the device %scomputed %s; %s (%s%s)%s" % (
            "may have " if by_chance else "",
            what,
            "the model has it as it is" if own == AS_IT_IS else "the model says " + own,
            agreement(first.agree, model_agree, output.actual.size),
            ": so few may do so by chance" if by_chance else "",
            "; the same is " + ", or ".join(others) if others else "",
        )
        explained.append(
            Explained(
                sentence,
                first.variant.name,
                first.node,
                device,
                first.variant.model,
                first.agree,
                model_agree,
                output.actual.size,
            )
        )
    # That an input is missing is also what an output that is the other input looks like.
    return sorted(explained, key=lambda entry: (-entry.agree, entry.device == "missing"))


def _shown(entries: Sequence[_Accepted]) -> Tuple[str, str]:
    """Return what was computed, and what the device took, of values of one attribute."""
    first = entries[0]
    values = list(dict.fromkeys(entry.variant.device for entry in entries))
    device = " or ".join(values[:_MOST_NAMED])
    if len(values) > _MOST_NAMED:
        device += " (and %d more)" % (len(values) - _MOST_NAMED)
    if first.variant.name:
        return "%s with %s %s" % (first.node.type, first.variant.name, device), device
    return "%s for %s" % (device, first.node.type), device


def agreement(agree: int, model_agree: int, elements: int) -> str:
    """Return how many elements agree with an explanation and with the model, in words."""
    share = 100.0 * model_agree / max(1, elements)
    return "%s of %s elements agree, with the model's %.2g %%" % (
        format(agree, ","),
        format(elements, ","),
        share,
    )
