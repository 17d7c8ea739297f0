"""Constants that a device had instead of the model's: as the dump holds them, or solved from the
output, which is a sum of them times what comes in.
"""

from __future__ import annotations

import re
from itertools import permutations
from operator import itemgetter
from typing import (
    Any,
    Callable,
    FrozenSet,
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

from ..operators import CannotCompute, Node, Value
from ..operators.inputs_otherwise import changed_inputs
from ..operators.variants import AS_IT_IS, Variant, input_name, text_of
from .formulas_fitted_to_golden import unit_of
from .piece import EXACT, Key, Piece
from .piece_variants import Siblings
from .variant_trials import BITS_OF_A_DIGIT, OF_DUMP

Array = Any

MOST_LISTED = 16
"""Whole numbers (starts, indices, axes) of which a sentence names each. Chosen, no trial."""
_DIGITS = (1, 2, 3, 4)
_MOSTLY = 0.95
"""Of the values of a constant that was rounded to 8 bits, how many at least are the nearest:
of 194 networks with one thing exchanged 0.475 and 0.9 change nothing."""
_SHOWN = 4
"""Numbers of a constant that a sentence names each. Chosen, no trial."""
_PARTS = (2, 3, 4)
"""Into how many parts a constant is cut whose order may be another: gates, or halves."""
SOLVED_BITS = 11.0
"""That a constant takes which is solved from the output: it is told to about as many."""
FEWEST_WEIGHTS = 16
"""Numbers of a constant of which some are another model's; fewer may be a parameter of one
operator, read otherwise. Chosen, no trial."""
EIGHT_BITS = "rounded to 8 bits"
"""What a dump's constant is told to be that was quantised."""
SOLVED = "other than the model's"
"""How constants are told that are solved from the output."""
MOST_SOLVED = 512
"""Weights of one filter or column that are solved: so many equations at least take below 0.2 s."""
_ROWS, _LEAST_ROWS = 4, 1 << 12
"""Equations for each weight, and for all of a filter at least, of those that there are."""
_MOST_ALONE = 1 << 31
"""Products of solving each filter by itself, where a function behind hides other elements of each:
about a second."""
_FEWEST_ROWS = 1.5
"""Below so many for each weight, any output would be such a sum but for a few elements."""
_AS_NEAR = 2.0
"""Times the distance that is left by the solved ones, what the model's may be off to be kept."""
_HANDED_ON = 0.1
"""Of the elements, what a function behind hands on as they are at least."""
LEAST_TOLD = 8
"""Elements of a filter that tell its factor, at least. Chosen; no trial."""
NEAR = 2.0**-8
"""Of the largest value, up to which a filter of a dump is another one times a factor: bfloat16
rounds by half of it."""
_TOLD = 4.0
"""Standard deviations of a solved number by which it is another than the model's at least."""
_STEPS = 4.0
"""Of float16, by which a solved number may be off the model's and be taken for it."""


def filter_axes(node: Node) -> Optional[Tuple[int, int]]:
    """Return the axis of a node's weights by filter or column, and that of the output; None where
    it has none such.
    """
    kind = node.type.rpartition(".")[2]
    if kind == "Gemm":
        return 1 - int(node.get("transB", 0)), -1
    if kind == "ConvTranspose":
        return (1, 1) if int(node.get("group", 1)) == 1 else None
    return {"Conv": (0, 1), "FusedConv": (0, 1), "MatMul": (1, -1)}.get(kind)


class DumpedOtherwise(NamedTuple):
    """Nodes with constants as a dump holds them, where they are not the model's.

    Attributes
    ----------
    variants
        As of :func:`goldwatch.recomputing.piece_variants.variants`.
    others
        Those of them whose numbers are most not the model's, nor these in another order.
    all_equal
        Whether all that the dump holds are the model's.
    confirmed
        The constants that the dump holds as the model does, by node and input.
    other_shape
        A sentence where its weights have another number of elements than the model's; else empty.
    """

    variants: List[Tuple[int, Node, Variant]]
    others: List[Variant]
    all_equal: bool
    other_shape: str
    confirmed: FrozenSet[Tuple[int, int]]


def dumped_otherwise(
    piece: Piece,
    base: Mapping[Key, Value],
    dumped: Sequence[Tuple[int, Array]],
    unit: float,
    siblings: Siblings,
) -> DumpedOtherwise:
    """Return the nodes of a piece with constants as the device's dump holds them, where they are
    not the model's.

    Parameters
    ----------
    base
        All values of the piece.
    dumped
        The op's constant inputs, by number.
    unit
        Half a step of the device's type.
    siblings
        As of :func:`goldwatch.recomputing.piece_variants.other_constants`.
    """
    held = [
        (number, node, place, value.array, inputs)
        for number, node, inputs, held_places in piece.held(base)
        for place, value in enumerate(inputs)
        if held_places[place] and value is not None and value.array.dtype.kind in "fiu"
    ]
    left, confirmed = [], []
    for at, array in dumped:
        same = next((entry for entry in held if _is_model(array, entry[3], unit)), None)
        if same is not None:
            held.remove(same)
            confirmed.append((same[0], same[2]))
        elif array.dtype.kind in "fiu":
            left.append((at, array))
    found: List[Tuple[int, Node, Variant]] = []
    others = []
    for number, node, place, own, inputs in held:
        for at, array in left:
            for given in in_shape(array, own):
                variant, is_other = _held_instead(
                    node, place, at, given, inputs, unit, siblings(node, place)
                )
                found.append((number, node, variant))
                others += [variant] if is_other else []
    for number, node, variant, is_other in _together(
        [entry[:4] for entry in held], left, siblings, unit
    ):
        found.append((number, node, variant))
        others += [variant] if is_other else []
    weights = [
        [array for array in some if array.size >= FEWEST_WEIGHTS and array.dtype.kind == "f"]
        for some in ([entry[3] for entry in held], [array for _, array in left])
    ]
    shapes = ""
    # Of several the device may hold one that joins them.
    if all(len(some) == 1 for some in weights) and len({some[0].size for some in weights}) > 1:
        own, given = (list(some[0].shape) for some in weights)
        shapes = "its weights have the shape %s, the model's %s" % (given, own)
    all_equal = bool(dumped) and not left
    return DumpedOtherwise(found, others, all_equal, shapes, frozenset(confirmed))


def _held_instead(
    node: Node,
    place: int,
    at: int,
    given: Array,
    inputs: Sequence[Optional[Value]],
    unit: float,
    siblings: Iterable[Tuple[str, Array]],
) -> Tuple[Variant, bool]:
    """Return a node with a constant as the dump holds it as input ``at``, and whether its numbers
    are another model's.
    """
    own = inputs[place].array  # type: ignore[union-attr]
    # Several nodes that are one op on the device count their inputs otherwise.
    of_dump = OF_DUMP + " (input %d%s" % (at, "" if at == place else " of the op")
    if own.size <= (_SHOWN if own.dtype.kind == "f" else MOST_LISTED):
        words = "%s): %s" % (of_dump, _listed(given))
        return _with_constant(node, place, given, words)._replace(model=_listed(own)), False
    apart = _apart(given, own, unit)
    sibling = _sibling_with(given, siblings, unit)
    order = _in_parts(given, own, unit) or _in_order(given, node, place, inputs, unit)
    if sibling:
        words = "%s): those of its sibling %s, not the model's" % (of_dump, sibling)
    elif not np.ptp(given):
        words = "%s): %s throughout" % (of_dump, text_of(given.flat[0].item() or 0))
    elif order:
        words = "%s): the model's %s" % (of_dump, order)
    else:
        numbers = _by_one_number(given, own, unit) or _but_zeros(given, own, apart)
        words = (
            "%s): the model's%s" % (of_dump, numbers)
            if numbers
            else of_dump + _which_differ(node, given, own, apart)
        )
    is_other = not sibling and _is_of_another(given, own, unit)
    return _with_constant(node, place, given, words), is_other


def _apart(given: Array, own: Array, unit: float) -> Array:
    """Tell which numbers of a constant are not the model's."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(given - own) > (4.0 * unit * np.abs(own) if own.dtype.kind == "f" else 0)
    # Infinity is a number like others: that of a mask.
    return np.where(np.isinf(own), given != own, apart)


def _is_of_another(given: Array, own: Array, unit: float) -> bool:
    """Tell whether most numbers of a constant are another model's: not one number throughout, as of
    a scale or bias that was left out, nor the model's in other places.
    """
    return bool(
        own.dtype.kind == "f"
        and own.size >= FEWEST_WEIGHTS
        and 2 * np.count_nonzero(_apart(given, own, unit)) > own.size
        and np.ptp(given)
        and not _is_model(np.sort(given, axis=None), np.sort(own, axis=None), unit)
    )


def _by_one_number(given: Array, own: Array, unit: float) -> str:
    """Return in words by which factor, offset or scale of 8 bits a constant comes of the model's;
    empty where it does not.
    """
    squares = float(np.square(own, dtype=np.float64).sum())
    if own.dtype.kind != "f" or not np.isfinite(given).all() or not 0 < squares < np.inf:
        return ""
    factor = float(np.sum(given * own, dtype=np.float64)) / squares
    offset = float(np.mean(given - own, dtype=np.float64))
    for digits in _DIGITS:
        by, plus = (float("%.*g" % (digits, one)) for one in (factor, offset))
        if by and by != 1.0 and _is_model(given, own * by, unit):
            return " times %g" % by
        if plus and _is_model(given, own + plus, unit):
            return " plus %g" % plus
    axes = [None, *(range(own.ndim) if own.ndim > 1 else ())]
    for axis in axes if own.size >= FEWEST_WEIGHTS and np.ptp(own) else ():
        others = None if axis is None else tuple(at for at in range(own.ndim) if at != axis)
        step = np.abs(own).max(others, keepdims=True) / 127.0
        off = np.abs(given - np.rint(own / np.where(step > 0, step, 1.0)) * step)
        near = 4.0 * unit * np.abs(own).max()
        # The scale was rounded, too: a tie may have gone the other way.
        if (off <= near + step).all() and np.mean(off <= near) >= _MOSTLY:
            each = "" if axis is None else ", by a scale for each index of axis %d" % axis
            return " " + EIGHT_BITS + each
    return ""


def _but_zeros(given: Array, own: Array, apart: Array) -> str:
    """Return in words which indices of an axis of a constant are 0, in one stretch, where all
    others are the model's; empty where that is not so.
    """
    for axis in range(own.ndim) if own.ndim > 1 else ():
        here = np.flatnonzero(apart.any(tuple(at for at in range(own.ndim) if at != axis)))
        is_stretch = 1 < here.size < own.shape[axis] and here[-1] - here[0] + 1 == here.size
        if is_stretch and not np.take(given, here, axis).any():
            return ", but for 0 in indices %d to %d of axis %d" % (here[0], here[-1], axis)
    return ""


def _which_differ(node: Node, given: Array, own: Array, apart: Array) -> str:
    """Return in words which values of a constant are not the model's, and by which factor where it
    is one: of a few indices of an axis their numbers, else how many.
    """
    counts = format(int(np.count_nonzero(apart)), ","), format(own.size, ",")
    for axis in range(own.ndim) if own.ndim > 1 else ():
        here = np.flatnonzero(apart.any(tuple(at for at in range(own.ndim) if at != axis)))
        changed, model = (np.take(side, here, axis) for side in (given, own))
        if 2 * here.size > own.shape[axis] or here.size > _SHOWN:
            continue
        places = _indices_of(node, own, axis, here)
        factor = float((changed * model).sum() / max(np.square(model).sum(), 1e-30))
        scale = float(np.abs(changed).max())
        if own.dtype.kind == "f" and np.abs(changed - factor * model).max() <= NEAR * scale:
            return "): the model's, but for %s times %.4g" % (places, factor)
        return "; %s %s not the model's)" % (places, "is" if here.size == 1 else "are")
    return "; %s of %s values are not the model's)" % counts


def _indices_of(node: Node, own: Array, axis: int, numbers: Array) -> str:
    """Return a few indices of an axis of a constant in words."""
    axes, several = filter_axes(node), len(numbers) > 1
    shown = _enumerated([str(number) for number in numbers])
    if axes is None or axis != axes[0]:
        kind = "indices" if several else "index"
        return "%s %s of axis %d (of %d)" % (kind, shown, axis, own.shape[axis])
    kind = "column" if own.ndim == 2 else "filter"
    return "%s%s %s of %d" % (kind, "s" if several else "", shown, own.shape[axis])


def _enumerated(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _listed(array: Array) -> str:
    return text_of(array.flat[0].item() if array.size == 1 else array)


def says_which(variant: Variant) -> bool:
    """Tell whether a constant of a dump is told in words, so that nothing else is to be named."""
    return variant.device.startswith(OF_DUMP) and ": " in variant.device


def _together(
    held: Sequence[Tuple[int, Node, int, Array]],
    left: Sequence[Tuple[int, Array]],
    siblings: Siblings,
    unit: float,
) -> Iterator[Tuple[int, Node, Variant, bool]]:
    """Yield nodes with several constants as a dump holds them, in the order of its inputs, each
    with whether the numbers of one are another model's.
    """
    for number in dict.fromkeys(number for number, _, _, _ in held):
        own = [(node, place, array) for of, node, place, array in held if of == number]
        taken: List[Tuple[int, int, Array]] = []
        for _, place, array in sorted(own, key=itemgetter(1)):
            after = taken[-1][1] if taken else -1
            fitting = [
                (at, given)
                for at, other in left
                if at > after
                for given in in_shape(other, array)[:1]
            ]
            taken += [(place, *fitting[0])] if fitting else []
        of_model = {place: array for _, place, array in own}
        # What is the model's but for the type that it is held in needs no telling.
        taken = [
            entry
            for entry in taken
            if entry[2].dtype.kind != "f"
            or not _is_model(entry[2], of_model[entry[0]], max(unit, unit_of(entry[2])))
        ]
        if len(taken) < 2:
            continue
        node = own[0][0]
        names = [re.sub("^(the|its) ", "", input_name(node, place)) for place, _, _ in taken]

        def given_all(
            given: List[Optional[Value]], taken: List[Tuple[int, int, Array]] = taken
        ) -> List[Optional[Value]]:
            changed = {place: Value(array) for place, _, array in taken}
            return [changed.get(place, value) for place, value in enumerate(given)]

        words = OF_DUMP + " (inputs %s)" % " and ".join(str(at) for _, at, _ in taken)
        is_other = any(
            _is_of_another(array, of_model[place], unit)
            and not _sibling_with(array, siblings(node, place), unit)
            for place, _, array in taken
        )
        owners = {_sibling_with(array, siblings(node, place), unit) for place, _, array in taken}
        sibling = owners.pop() if len(owners) == 1 else ""
        words += (
            ": those of its sibling %s, not the model's" % sibling
            if sibling
            else ", which are not the model's" + _each_for(own, taken)
        )
        name = "the " + " and ".join(names)
        yield number, node, Variant(name, words, AS_IT_IS, node, given_all), is_other


def _each_for(
    own: Sequence[Tuple[Node, int, Array]], taken: Sequence[Tuple[int, int, Array]]
) -> str:
    """Return whole numbers of a dump beside the model's, as an insertion; none where they are many
    or fractions.
    """
    of_model = {place: array for _, place, array in own}
    if any(one.dtype.kind == "f" or one.size > MOST_LISTED for _, _, one in taken):
        return ""
    pairs = ((text_of(given), text_of(of_model[place])) for place, _, given in taken)
    return ": " + ", ".join("%s for %s" % pair for pair in pairs)


def _in_parts(given: Array, own: Array, unit: float) -> str:
    """Return in words in which order parts of the model's constant stand in another one (gates of a
    recurrent layer, say); empty where they do not.
    """
    for axis in reversed(range(own.ndim)):
        for count in _PARTS:
            if own.shape[axis] % count or own.shape[axis] < 2 * count:
                continue
            parts = np.split(own, count, axis)
            for order in permutations(range(count)):
                if order != tuple(range(count)) and _is_model(
                    given, np.concatenate([parts[number] for number in order], axis), unit
                ):
                    numbers = ", ".join(map(str, order))
                    return "%d parts along axis %d in the order %s" % (
                        count, axis, numbers,
                    )  # fmt: skip
    return ""


def _in_order(
    given: Array, node: Node, place: int, inputs: Sequence[Optional[Value]], unit: float
) -> str:
    """Return in words in which order, or how changed, the model's constant is another one; empty
    where it is not.
    """
    alone = [value if at == place else None for at, value in enumerate(inputs)]
    for variant in changed_inputs(node, alone):
        made = variant.inputs(alone)[place] if variant.inputs is not None else None
        if made is not None and _is_model(given, made.array, unit):
            return variant.device
    return ""


def _sibling_with(given: Array, siblings: Iterable[Tuple[str, Array]], unit: float) -> str:
    """Return the name of the node that has a constant; empty where none has."""
    return next(
        (
            name
            for name, other in siblings
            if np.shape(other) == given.shape and _is_model(given, np.asarray(other), unit)
        ),
        "",
    )


def _is_model(array: Array, own: Array, unit: float) -> bool:
    if own.dtype.kind != "f":
        return any(np.array_equal(given, own) for given in in_shape(array, own))
    size = np.abs(own)
    largest = float(np.max(size, where=np.isfinite(size), initial=0.0))
    return any(
        np.allclose(given, own, rtol=4.0 * unit, atol=largest * unit)
        for given in in_shape(array, own)
    )


def in_shape(array: Array, own: Array) -> List[Array]:
    """Return an array in the shape of another one of its kind: as it is, and matrices also as they
    are stored transposed.
    """
    if (array.dtype.kind == "f") != (own.dtype.kind == "f"):
        return []
    long, wanted = ([size for size in one if size > 1] for one in (array.shape, own.shape))
    ways = [array.reshape(own.shape)] if long == wanted else []
    if len(wanted) == 2 and long == wanted[::-1]:
        ways.append(array.reshape(long).T.reshape(own.shape))
    return ways


def _with_constant(node: Node, place: int, array: Array, words: str) -> Variant:
    def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
        return [*given[:place], Value(array), *given[place + 1 :]]

    return Variant(input_name(node, place), words, AS_IT_IS, node, taken)


class Solved(NamedTuple):
    """A node with constants that come of the output.

    Attributes
    ----------
    number, node, variant
        As of :func:`goldwatch.recomputing.piece_variants.variants`.
    bits
        What they could have been, which the output has to tell.
    share
        Of the numbers of the constant, how many are others.
    """

    number: int
    node: Node
    variant: Variant
    bits: float
    share: float = 0.0


def solved(
    piece: Piece,
    base: Mapping[Key, Value],
    before: Mapping[int, Mapping[Key, Array]],
    value: Key,
    actual: Array,
    has_time: Callable[[int], bool],
    known_of_dump: FrozenSet[Tuple[int, int]],
    is_explained: Callable[[], bool],
) -> Iterator[Solved]:
    """Yield the nodes of a piece with other constants, so that the output comes out: where it is a
    sum of these, times what comes in, and has more elements than there are constants.

    Parameters
    ----------
    base, before
        All values; what is known before each node.
    value, actual
        The output, and the device's.
    has_time
        Tells whether the piece may be computed so many times.
    known_of_dump
        Constants that are the model's, by node and input.
    is_explained
        Tells whether what was yielded explains the output.
    """
    level, known = _before_limits(piece, value, actual, base)
    wanted = np.asarray(actual, np.float64).reshape(base[level].array.shape)
    if actual.dtype.kind != "f":
        return
    for number, node, inputs, held in piece.held(base):
        for place in (at for at, one in enumerate(inputs) if held[at] and one is not None):
            own = inputs[place].array  # type: ignore[union-attr]
            if own.dtype.kind != "f" or not own.size or (number, place) in known_of_dump:
                continue

            def made(array: Array, at: int = place, of: int = number, by: Node = node) -> Array:
                changed = piece.with_variant(of, _with_constant(by, at, array, ""))
                values = changed.values(before[of], EXACT)
                return np.asarray(values[level].array, np.float64)

            try:
                if own.ndim > 1 and own.size > max(own.shape):
                    axes = filter_axes(node)
                    if axes is not None and wanted.ndim > 1 and has_time(1):
                        ends = wanted, known, made(np.zeros_like(own)), base[level].array
                        by_factors = _by_factors(number, node, place, own, axes, *ends)
                        if by_factors is not None:
                            yield by_factors
                        if is_explained():
                            continue
                    numbers = _of_filters(axes, node, own, wanted, known, made, has_time)
                else:
                    numbers = _of_each(own, wanted, known, made, has_time)
            except (CannotCompute, np.linalg.LinAlgError, ValueError):
                continue
            if numbers is None:
                continue
            apart = np.abs(numbers - own) > _STEPS * 2.0**-11 * np.abs(own)
            nothing = np.abs(numbers) <= 2.0**-12 * np.abs(own).max()
            numbers = np.where(nothing, 0.0, np.where(apart, numbers, own)).astype(np.float32)
            places = np.argwhere(apart)
            if not len(places):
                continue
            first = tuple(int(n) for n in places[0])
            words = SOLVED + " in %s of %s values (the first is %s: %s for %s)" % (
                format(len(places), ","), format(own.size, ","), list(first),
                text_of(float(numbers[first])), text_of(float(own[first])),
            )  # fmt: skip
            variant = _with_constant(node, place, numbers, words)
            share = len(places) / own.size
            yield Solved(number, node, variant, SOLVED_BITS * len(places), share)


def _before_limits(
    piece: Piece, value: Key, actual: Array, base: Mapping[Key, Value]
) -> Tuple[Key, Array]:
    """Return the value before a Relu or Clip at the end, which hands on some elements as they are,
    or the output itself; and where the device's output tells it.
    """
    computed = np.asarray(base[value].array)
    for number, _ in piece.calls:
        own = base.get((number, 0))
        if own is None or own.array.size != computed.size or (number, 0) == value:
            continue
        before = own.array.reshape(computed.shape)
        kept = before == computed
        if kept.mean() >= _HANDED_ON:
            made = np.asarray(actual, np.float64).reshape(computed.shape)
            known = np.isfinite(made)
            if not kept.all():
                low, high = float(computed[~kept].min()), float(computed[~kept].max())
                # Above all that it changes (Relu, LeakyRelu), or between the least and the largest
                # of what it changes to (Clip).
                known &= (
                    made > high if high <= 0 else (made > low) & ((made < high) | (low == high))
                )
            return (number, 0), known.reshape(own.array.shape)
    return value, np.isfinite(np.asarray(actual, np.float64)).reshape(computed.shape)


def _by_factors(
    number: int,
    node: Node,
    place: int,
    own: Array,
    axes: Tuple[int, int],
    wanted: Array,
    known: Array,
    without: Array,
    computed: Array,
) -> Optional[Solved]:
    """Return a node with filters or columns of its weights times a number each, where what is added
    to their sums is not; None where none has such, or nothing is added.

    Parameters
    ----------
    axes
        As of :func:`filter_axes`.
    wanted, known
        The output, and where it is told.
    without, computed
        What is made without the weights, and with them.
    """
    count = own.shape[axes[0]]
    target, usable, added, made = (
        np.moveaxis(np.broadcast_to(side, wanted.shape), axes[1], 0).reshape(count, -1)
        for side in (wanted, known, without, computed)
    )
    off = np.where(usable, target - added, 0.0)
    slope = np.where(usable, np.float64(made) - added, 0.0)
    squares = np.square(slope).sum(1)
    with np.errstate(all="ignore"):
        factors = np.where(squares > 0, (off * slope).sum(1) / squares, 1.0)
        rest = np.square(off - factors[:, None] * slope).sum(1)
        changed = np.square(off - slope).sum(1) > _AS_NEAR * rest
        unsure = np.sqrt(rest / np.maximum(1, usable.sum(1)) / squares)
    least = np.maximum(_TOLD * unsure, _STEPS * 2.0**-11)
    changed &= (usable.sum(1) >= LEAST_TOLD) & (np.abs(factors - 1.0) > least)
    here = np.flatnonzero(changed)
    # What is 0 is told as what is left, and all of an output by a factor as that.
    if not here.size or not np.any(added[here]) or _times_one(target, made, usable, rest):
        return None
    short, bits = np.ones(count), 0.0
    for at in here:
        digits = next(
            (n for n in range(1, 4) if abs(float("%.*g" % (n, factors[at])) - factors[at])
             <= _TOLD * unsure[at]), 4,
        )  # fmt: skip
        short[at] = float("%.*g" % (digits, factors[at]))
        bits += BITS_OF_A_DIGIT * (1 + digits) + np.log2(count)
    if not short[here].all():
        return None
    numbers = list(dict.fromkeys("%.4g" % one for one in short[here]))
    if here.size <= _SHOWN:
        words = "of %s times %s" % (_indices_of(node, own, axes[0], here), _enumerated(
            ["%.4g" % one for one in short[here]] if len(numbers) > 1 else numbers
        ))  # fmt: skip
    elif len(numbers) == 1 and here.size == count:
        words = "times " + numbers[0]
    else:
        least, most = short[here].min(), short[here].max()
        kind = "columns" if own.ndim == 2 else "filters"
        words = "of %d of %d %s times %.4g to %.4g" % (here.size, count, kind, least, most)
    wide = [1] * own.ndim
    wide[axes[0]] = count
    scaled = (own * short.reshape(wide)).astype(own.dtype)
    variant = _with_constant(node, place, scaled, words + ", what is added as it is")
    return Solved(number, node, variant, bits)


def _times_one(target: Array, made: Array, usable: Array, rest: Array) -> bool:
    """Tell whether all of an output is what is computed times one factor, as near as a factor for
    each filter, which leaves ``rest``, comes to it.
    """
    target, made = (np.where(usable, side, 0.0) for side in (target, made))
    squares = float(np.square(made).sum())
    factor = float((target * made).sum()) / squares if squares else 1.0
    return bool(np.square(target - factor * made).sum() <= _AS_NEAR * rest.sum())


def _of_each(
    own: Array,
    wanted: Array,
    known: Array,
    made: Callable[[Array], Array],
    has_time: Callable[[int], bool],
) -> Optional[Array]:
    """Return one number for all, or one for each index of an axis: scale, offset, slope."""
    if not has_time(2):
        return None
    without = made(np.zeros_like(own))
    slope = made(np.ones_like(own)) - without
    off = np.where(known, wanted - without, 0.0)
    slope = np.where(known & np.isfinite(slope), slope, 0.0)
    axes = [axis for axis in range(wanted.ndim) if wanted.shape[axis] == own.size]
    best: Optional[Tuple[float, Array]] = None
    for axis in axes if own.size > 1 else [None]:
        over = tuple(other for other in range(wanted.ndim) if other != axis)
        weight = np.square(slope).sum(over, keepdims=True)
        with np.errstate(all="ignore"):
            found = (off * slope).sum(over, keepdims=True) / weight
        # A number that a single element tells is whatever that element is.
        telling = np.count_nonzero(slope, over, keepdims=True) >= _FEWEST_ROWS
        found = np.where((weight > 0) & telling, found, own.reshape(found.shape))
        left = np.square(off - found * slope).sum(over, keepdims=True)
        before = np.square(off - own.reshape(found.shape) * slope).sum(over, keepdims=True)
        found = np.where(before > _AS_NEAR * left, found, own.reshape(found.shape))
        distance = float(np.square(off - found * slope).sum())
        if best is None or distance < best[0]:
            best = distance, found.reshape(own.shape)
    return None if best is None else best[1]


def _of_filters(
    axes: Optional[Tuple[int, int]],
    node: Node,
    own: Array,
    wanted: Array,
    known: Array,
    made: Callable[[Array], Array],
    has_time: Callable[[int], bool],
) -> Optional[Array]:
    """Return weights of which each output channel sums those of its own filter or column.

    What a channel sums is seen with filters that are 1 at one place and 0 elsewhere: as many at
    once as there are filters.
    """
    if axes is None or wanted.ndim < 2:
        return None
    filters = np.moveaxis(own, axes[0], 0)
    shape, count = filters.shape, filters.shape[0]
    each = filters.size // count
    if each > MOST_SOLVED or not has_time(-(-each // count) + 1):
        return None
    rows = np.moveaxis(wanted, axes[1], 0).reshape(count, -1)
    usable = np.moveaxis(known, axes[1], 0).reshape(count, -1)
    if rows.shape[1] < _FEWEST_ROWS * each:
        return None
    without = np.moveaxis(made(np.zeros_like(own)), axes[1], 0).reshape(count, -1)
    chosen = np.arange(rows.shape[1])
    most = max(_ROWS * each, _LEAST_ROWS)
    if rows.shape[1] > most:
        chosen = np.random.RandomState(0).permutation(chosen)[:most]
    # All filters of a group sum the same.
    groups = int(node.get("group", 1))
    in_group = count // groups
    design = np.zeros((groups, each, chosen.size))
    for begin in range(0, each, in_group):
        probe = np.zeros((groups, in_group, each), own.dtype)
        numbers = np.arange(begin, min(each, begin + in_group))
        probe[:, numbers - begin, numbers] = 1.0
        seen = made(np.moveaxis(probe.reshape(shape), 0, axes[0]))
        seen = np.moveaxis(seen, axes[1], 0).reshape(count, -1) - without
        design[:, numbers] = seen.reshape(groups, in_group, -1)[:, : numbers.size, chosen]
    off = (rows - without)[:, chosen]
    flat = np.array(filters.reshape(count, each), np.float64)
    alone = not usable[:, chosen].all()
    if alone and count * chosen.size * each**2 > _MOST_ALONE:
        return None
    found = [
        np.linalg.lstsq(terms.T, targets.T, rcond=None)[0].T
        for terms, targets in zip(design, off.reshape(groups, in_group, -1)) if not alone
    ]  # fmt: skip
    for channel in range(count):
        here = usable[channel, chosen]
        if np.count_nonzero(here) < _FEWEST_ROWS * each:
            continue
        terms, target = design[channel // in_group][:, here], off[channel, here]
        before = np.square(target - flat[channel] @ terms).sum()
        one = (
            np.linalg.lstsq(terms.T, target, rcond=None)[0]
            if alone
            else found[channel // in_group][channel % in_group]
        )
        # A fit leaves less than rounding makes: each of its numbers takes one equation.
        rest = np.square(target - one @ terms).sum() * here.sum() / (here.sum() - each)
        if before > _AS_NEAR * rest:
            variances = np.diag(np.linalg.pinv(terms @ terms.T)) * rest / here.sum()
            told = np.square(one - flat[channel]) > _TOLD**2 * np.abs(variances)
            flat[channel] = np.where(told, one, flat[channel])
    return np.moveaxis(flat.reshape(shape), 0, axes[0])
