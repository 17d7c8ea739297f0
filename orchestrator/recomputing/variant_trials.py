"""One variant of an operator against the output of a device: whether the device may have computed
it, and by how much that is no chance.
"""

from __future__ import annotations

import math
import zlib
from operator import itemgetter
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from .. import operators
from ..operators import Arithmetic, CannotCompute, Node, Value
from ..operators.value_with_error import FLOAT32_ROUNDING
from ..operators.variants import Fit, Variant
from ..tensors.type_precision import rounding_of, ulp
from .formulas_by_type import LOOSE, TIGHT
from .output_error import MOST_FACTOR, OwnError, own_error
from .piece import EXACT, Cuts, Key, Part, Piece, rounded

Array = Any

_BUDGET_S = 0.4
"""What the variants of one operator may take, as :meth:`Recomputer.cost_s` estimates it: of 416 MB
of convolutions with one that nothing explains the whole comparison then takes 1.2 times as long
(scripts/bench recompute --culprit; with 1 s 1.5 times)."""
_PART_ELEMENTS = 1 << 16
"""Elements of an output by which a variant is told not to be the one, before all are computed."""
# Chosen. Tried are NEARER from 0.35 to 0.95, MOST_AGREE from 0.8 to 0.99 and _AGREES from 2 to 8,
# one at a time: each of attribute_trial --quick --dtype float16 --form all is named with its value
# all the same, and --lot 1 40 --null finds nothing.
NEARER = 0.35
"""Of the model's distance from the device's output, what a variant's may be to be looked at."""
MOST_AGREE = 0.95
"""The share of elements that agree with a variant at least: NaN is compared with nothing."""
_AGREES = 4.0
"""Standard deviations of rounding by which elements that agree may differ."""
_FUNCTION_ULPS = 4.0
"""The standard deviation of a function of float32, in units in the last place: Tanh of onnxruntime
is off by 5, that of its RNN by 12 (1.32, beside float64).
"""
CHANCE_BITS = 7.0
"""Of agreeing by chance, what is left after all that was tried: 1 of 128; of what no attribute says
(an input in another order), more is asked. attribute_trial --null finds none then; with 0
bits one in 40 (--lot 1 40)."""
# Not measured from here on, but for log2(10).
BITS_OF_A_DIGIT = 3.3
MOST_BITS = 20.0
"""That one element can tell."""
_FACTORS_WITHIN = 2.0 * math.log(10.0)
"""Of a factor that a variant makes by chance: its logarithm is as likely up to ten times either
way."""
OF_DUMP = "of its own dump"
"""How constants are told that the operator's dump holds."""
MOST_COUNTED = 1 << 14
"""Elements by which it is told how frequent a number is."""


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


class Accepted(NamedTuple):
    """A variant that agrees with the output."""

    ratio: float
    agree: int
    node: Node
    variant: Variant
    fitted: bool = False
    # Whether no attribute says it.
    unlikely: bool = False
    # Whether its output has the model's shape: another one may be the same in memory.
    in_shape: bool = True
    # Of what it makes, in the output's type.
    digest: int = 0


class VariantTrials:
    """Variants that are tried within a budget; what is accepted, what was tried, what left out.

    Parameters
    ----------
    piece
        The nodes, as the model says.
    incoming
        The values that come in.
    output
        What is to be explained.
    judge
        Returns by how many times an error exceeds what is allowed, of values that are only moved
        (True) or not.
    cost_s
        Roughly what computing the piece once takes.
    """

    def __init__(
        self,
        piece: Piece,
        incoming: Mapping[Key, Array],
        output: Output,
        judge: Callable[[OwnError, bool], float],
        cost_s: float,
    ) -> None:
        self.piece, self.incoming, self.output = piece, incoming, output
        self._judge, self.cost_s = judge, cost_s
        self.before = _values_before(piece, incoming, piece.values(incoming, EXACT))
        self._model_distance = _distance(output.actual, output.computed.array)
        self.spent_s = 0.0
        self.accepted: List[Accepted] = []
        self.tried: Dict[str, None] = {}
        self.possible: List[Accepted] = []
        self.left_out = 0
        self._computed = 0

    def has_time(self, words: str) -> bool:
        """Tell whether the budget allows for another; in ``words`` what it is."""
        if self.spent_s > _BUDGET_S:
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
                self.try_variant(number, node, variant, bits)

    def try_variant(
        self, number: int, node: Node, variant: Variant, bits: float = 0.0, fitted: bool = False
    ) -> None:
        """Compute a variant, and keep it where it agrees with the output. ``bits`` is how much less
        likely it is than another, ``fitted`` whether it was fitted to the output.
        """
        output, changed = self.output, self.piece.with_variant(number, variant)
        self._computed += 1
        try:
            part = _part_of(changed, variant, self.incoming, output)
            if part is not None:
                shown, given, piece_part = part
                self.spent_s += self.cost_s * shown.actual.size / output.actual.size
                value = changed.values(given, EXACT, piece_part)[output.value]
                distance = _distance(shown.actual, shown.computed.array)
                if not _is_nearer(shown, value, distance):
                    return
            self.spent_s += self.cost_s
            value = changed.values(self.before[number], EXACT)[output.value]
            if changed.counts:
                # Whether it follows is told without a computed output, which may be longer.
                value = Value(output.actual)
            if not _is_nearer(output, value, self._model_distance):
                return
            # Nodes before it have errors of their own, which come in with their values.
            found = _judged(changed, self.incoming, output, value, self._judge, self._follows_model)
            if found is not None and output.others:
                self.spent_s += self.cost_s
                values = changed.values(self.before[number], EXACT)
                for other in output.others:
                    made = values[other.value]
                    if made.array.size != other.actual.size or None is _judged(
                        changed, self.incoming, other, made, self._judge, self._follows_model
                    ):
                        return
        except (CannotCompute, KeyError):
            return
        if found is None:
            return
        ratio, agree, told = found
        if not fitted:
            told = min(told, _bits_beside_a_factor(output, value, max(1.0, ratio)))
            if told < 0.0 or _lacks_a_factor(output, value):
                return
        told_enough = told >= CHANCE_BITS + bits + np.log2(self._computed)
        if output.actual.size > 1 and np.all(output.actual == output.actual.flat[0]):
            # One value throughout is what many readings make; the operator's dump tells which.
            told_enough &= variant.device.startswith(OF_DUMP)
        chosen = self.accepted if told_enough else self.possible
        unlikely = bits > 0 and not fitted
        in_shape = value.array.shape == output.computed.array.shape
        digest = zlib.crc32(np.ascontiguousarray(rounded(value.array, output.dtype)).tobytes())
        chosen.append(Accepted(ratio, agree, node, variant, fitted, unlikely, in_shape, digest))

    def _follows_model(self, output: Output) -> Array:
        """Tell which decisions follow from what comes in as the model decides."""
        return ~_not_following(self.piece, self.incoming, output)

    def off_by(self, number: int, fit: Fit, value: float) -> Optional[Array]:
        """Return how far the output is from what a number makes, flat; None where it cannot be
        taken, or the time is over.
        """
        if value < fit.least or self.spent_s > _BUDGET_S:
            return None
        changed = self.piece.with_variant(number, fit.variant(value))
        self.spent_s += self.cost_s
        actual = np.asarray(self.output.actual, np.float64).reshape(-1)
        try:
            if changed.counts:
                wrong = _not_following(changed, self.before[number], self.output)
                return np.full(actual.size, math.sqrt(np.count_nonzero(wrong) / actual.size))
            values = changed.values(self.before[number], EXACT)[self.output.value].array
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


def _part_of(
    piece: Piece, variant: Variant, incoming: Mapping[Key, Array], output: Output
) -> Optional[Tuple[Output, Dict[Key, Array], Part]]:
    """Return a part of a large output by which most variants are told to be none, what comes in for
    it, and what is to be computed; None where it cannot be cut.
    """
    size = output.actual.size
    changes = (variant.inputs, variant.outputs, variant.instead)
    if size <= _PART_ELEMENTS or any(change is not None for change in changes):
        return None
    shapes = {value: tuple(array.shape) for value, array in incoming.items()}

    def needed_whole(cuts: Cuts) -> int:
        return sum(
            array.size for value, array in incoming.items() if cuts.inputs.get(value) is None
        )

    known = piece.cuts(output.value, shapes)
    made = int(np.prod([cuts.length for cuts in known.values()]))
    if len(known) == output.computed.array.ndim and made != size:
        raise CannotCompute("its output has %d elements" % made)
    # A convolution in parts of its filters lays out all windows each time, in parts of its samples
    # those of a few; and these have all borders.
    fitting = [
        (needed_whole(cuts), axis, cuts)
        for axis, cuts in known.items()
        if cuts.length * _PART_ELEMENTS >= size
    ]
    _, axis, cuts = min(fitting, key=itemgetter(0, 1), default=(0, 0, None))
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
        _distance(output.actual, computed) < NEARER**2 * model_distance
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
    places = slice(None, None, output.actual.size // MOST_COUNTED + 1)
    actual, values, model = (
        np.reshape(side, -1)[places] for side in (output.actual, computed, output.computed.array)
    )
    some = output._replace(actual=actual, computed=Value(model))
    unit = np.sqrt(_squares_by_rounding(some, some.computed))
    with np.errstate(all="ignore"):
        device, variant, own = (np.float64(side) / unit for side in (actual, values, model))
    return _distance(device, variant) < NEARER**2 * _distance(device, own)


def _judged(
    piece: Piece,
    incoming: Mapping[Key, Array],
    output: Output,
    exact: Value,
    judge: Callable[[OwnError, bool], float],
    follows_model: Callable[[Output], Array],
) -> Optional[Tuple[float, int, float]]:
    """Return the error of a variant that the device may have computed, how many elements agree, and
    by how many bits that is no chance; None of another. ``follows_model`` tells which decisions
    follow from what comes in as the model decides.
    """
    # A quantiser decides which of the few numbers of its type it takes.
    decides = piece.decides and "float8" in output.dtype
    if decides or output.actual.dtype.kind != "f" or output.computed.array.dtype.kind != "f":
        wrong = _not_following(piece, incoming, output)
        if (
            wrong.any()
            and piece.writes_otherwise
            and not piece.counts
            and exact.array.dtype.kind != "f"
        ):
            # Near a tie it may decide either way where it decides as the model does; how long the
            # output is by values is told as a whole.
            as_model = exact.array.reshape(wrong.shape) == output.computed.array.reshape(
                wrong.shape
            )
            wrong = wrong & ~(as_model & follows_model(output))
        return None if wrong.any() else (0.0, output.actual.size, told_bits(output, exact))
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
        if value.array.size != output.actual.size:
            # How many elements there are may hang on values, as of Compress.
            continue
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
    places = places[:: places.size // MOST_COUNTED + 1]
    actual, model = (
        np.asarray(side, np.float64).reshape(-1) for side in (output.actual, output.computed.array)
    )
    told, step = actual[places], (actual.size // MOST_COUNTED + 1) | 1
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


def _lacks_a_factor(output: Output, value: Value) -> bool:
    """Tell whether most of what a variant leaves is one factor of all elements, larger than sums
    that are cut off make one: coarser arithmetic is not why an output is larger by 1 %.
    """
    x, made = (np.asarray(side, np.float64).reshape(-1) for side in (output.actual, value.array))
    squares = float(np.dot(made, made))
    if output.actual.dtype.kind != "f" or not 0.0 < squares < np.inf or not np.isfinite(x).all():
        return False
    factor = float(np.dot(x, made)) / squares
    off, left = (float(np.linalg.norm(x - by * made)) for by in (1.0, factor))
    granted = MOST_FACTOR * rounding_of(output.dtype).half_unit
    return abs(factor - 1.0) > granted and left < NEARER * off


def _bits_beside_a_factor(output: Output, value: Value, times: float) -> float:
    """Return by how many bits a value is no chance where the output is also what the model computes
    times one factor: this number alone is told then, however many elements there are; and where the
    factor comes nearer, by how much less likely that is of the value.
    """
    x, y, made = (
        np.asarray(side, np.float64).reshape(-1)
        for side in (output.actual, output.computed.array, value.array)
    )
    if not np.any(y) or not all(np.isfinite(side).all() for side in (x, y, made)):
        return np.inf
    # Each by its own rounding: else a factor fits that of the few largest.
    unit = np.sqrt(_squares_by_rounding(output, Value(value.array)).reshape(-1))
    x, y, made = (side / np.where(unit > 0, unit, 1.0) for side in (x, y, made))
    squares = float(np.dot(y, y))
    device, variant = float(np.dot(x, y)) / squares, float(np.dot(made, y)) / squares
    error = output.computed.error
    by_factor = Value(
        device * output.computed.array, None if error is None else abs(device) * error
    )
    agree = np.count_nonzero(agreeing(output, by_factor, times))
    if not device or agree < MOST_AGREE * x.size:
        return np.inf
    near = max(abs(variant - device), _AGREES / math.sqrt(squares)) / abs(device)
    # What is left of n elements by a fitted number, of what is left without: Beta's tail.
    left = float(np.square(x - device * y).sum()) + x.size
    left /= float(np.square(x - made).sum()) + x.size
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
