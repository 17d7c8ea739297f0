"""Searches what a device computed in place of an operator that is wrong: an attribute read
otherwise, another tensor's values, a part that was not written.
"""

from __future__ import annotations

from typing import (
    Any,
    Callable,
    Dict,
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
from ..operators.variants import Variant
from ..tensors.type_precision import ulp
from .device_arithmetic import LOOSE, TIGHT
from .original_cuts import NotComputable
from .output_error import OwnError, own_error
from .piece import EXACT, Key, Part, Piece

Array = Any

_BUDGET_S = 0.3
"""What the variants of one operator may take, as :meth:`Recomputer.cost_s` estimates it."""
_LEAST_TRIED = 12
"""So many are tried in any case, the commonest first."""
_PART_ELEMENTS = 1 << 17
"""Elements of an output by which a variant is told not to be the one, before all are computed."""
_NEARER = 0.7
"""Of the model's distance from the device's output, what a variant's may be to be looked at."""
_AS_GOOD = 1.5
"""Of the best variant's error, what that of another may be which explains as much."""
_MOST_AGREE = 0.95
"""The share of elements that agree with a variant at least: NaN is compared with nothing."""
_AGREES = 4.0
"""Standard deviations of rounding by which elements that agree may differ."""


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
    """

    value: Key
    actual: Array
    computed: Value
    dtype: str


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
    model
        What the model says, as text.
    agree, model_agree, elements
        How many elements agree with it, with the model, and how many there are.
    """

    sentence: str
    name: str
    node: Node
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
    """

    explained: List[Explained]
    tried: List[str]
    left_out: int = 0
    instead: Optional[Instead] = None


class Instead(NamedTuple):
    """What was written instead of an operator's output.

    Attributes
    ----------
    kind
        ``other-tensor``, ``not-written`` or ``activation``.
    sentence, next
        What was found, and what to do next.
    """

    kind: str
    sentence: str
    next: str


class _Accepted(NamedTuple):
    ratio: float
    agree: int
    node: Node
    variant: Variant


def search_variants(
    piece: Piece,
    incoming: Mapping[Key, Array],
    output: Output,
    judge: Callable[[OwnError, bool], float],
    cost_s: float,
) -> VariantSearch:
    """Compute everything that the nodes of a piece may have read otherwise.

    Parameters
    ----------
    incoming
        The values that come in.
    judge
        Returns by how many times an error exceeds what is allowed.
    cost_s
        Roughly what computing the piece once takes.
    """
    base = piece.values(incoming, EXACT)
    model_agree = int(np.count_nonzero(agreeing(output, output.computed)))
    model_distance = _distance(output.actual, output.computed.array)
    accepted: List[_Accepted] = []
    tried: Dict[str, None] = {}
    count = left_out = 0
    spent_s = 0.0
    before = _values_before(piece, incoming, base)
    for number, node, variant in piece.variants(base):
        tried.setdefault("%s of %s" % (variant.name or "another function", node.type))
        if count >= _LEAST_TRIED and spent_s > _BUDGET_S:
            left_out += 1
            continue
        count += 1
        changed = piece.with_variant(number, variant)
        try:
            part = _part_of(changed, variant, incoming, output)
            if part is not None:
                shown, given, piece_part = part
                spent_s += cost_s * shown.actual.size / output.actual.size
                value = changed.values(given, EXACT, piece_part)[output.value]
                distance = _distance(shown.actual, shown.computed.array)
                if not _is_nearer(shown, value, distance):
                    continue
            spent_s += cost_s
            value = changed.values(before[number], EXACT)[output.value]
            if not _is_nearer(output, value, model_distance):
                continue
            found = _judged(changed, before[number], output, judge)
        except (CannotCompute, NotComputable, KeyError):
            continue
        if found is not None:
            accepted.append(_Accepted(found[0], found[1], node, variant))
    best = min((entry.ratio for entry in accepted), default=0.0)
    as_good = [entry for entry in accepted if entry.ratio <= _AS_GOOD * best + 0.05]
    return VariantSearch(_in_words(as_good, output, model_agree), list(tried), left_out)


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
    model_finite = np.isfinite(output.computed.array).sum()
    return (
        _distance(output.actual, computed) < _NEARER**2 * model_distance
        or model_finite != np.isfinite(output.actual).sum() == np.isfinite(computed).sum()
    )


def _judged(
    piece: Piece,
    incoming: Mapping[Key, Array],
    output: Output,
    judge: Callable[[OwnError, bool], float],
) -> Optional[Tuple[float, int]]:
    """Return the error of a variant that the device may have computed, and how many elements agree;
    None of another.
    """
    if output.actual.dtype.kind != "f" or output.computed.array.dtype.kind != "f":
        values = piece.values(incoming, EXACT)
        wrong = output.actual != values[output.value].array.reshape(output.actual.shape)
        if piece.decides and piece.calls[-1][0] == output.value[0]:
            node, inputs = piece.inputs_of_last(values, None)
            given: List[Optional[Array]] = [None] * (output.value[1] + 1)
            given[-1] = output.actual
            wrong = operators.check(node, inputs, given)[-1]
        count = int(np.count_nonzero(wrong))
        return None if count else (0.0, output.actual.size)
    ways = [
        TIGHT.get(output.dtype, Arithmetic()),
        *([LOOSE[output.dtype]] if output.dtype in LOOSE else []),
    ]
    for arithmetic in ways:
        value = piece.values(incoming, arithmetic)[output.value]
        value = Value(
            value.array.reshape(output.actual.shape),
            None
            if value.error is None
            else np.broadcast_to(value.error, value.array.shape).reshape(output.actual.shape),
        )
        error = own_error(output.actual, value, output.dtype)
        agree = int(np.count_nonzero(agreeing(output, value)))
        if judge(error, piece.moves) <= 1.0 and agree >= _MOST_AGREE * output.actual.size:
            return error.ratio, agree
    return None


def agreeing(output: Output, value: Value) -> Array:
    """Return which elements agree with a value within rounding."""
    computed = value.array.reshape(output.actual.shape)
    if output.actual.dtype.kind != "f" or computed.dtype.kind != "f":
        return output.actual == computed
    with np.errstate(all="ignore"):
        squares = np.square(ulp(computed.astype(np.float64), output.dtype)) / 12.0
        if value.error is not None:
            squares = squares + np.square(
                np.broadcast_to(value.error, value.array.shape).reshape(computed.shape)
            )
        off = np.subtract(output.actual, computed, dtype=np.float64)
        both = np.isnan(computed) & np.isnan(output.actual)
        return (np.square(off) <= _AGREES**2 * squares) | (output.actual == computed) | both


def _in_words(accepted: Sequence[_Accepted], output: Output, model_agree: int) -> List[Explained]:
    """Return what was accepted, values of one attribute together."""
    by_name: Dict[Tuple[str, str, str], List[_Accepted]] = {}
    for entry in accepted:
        by_name.setdefault((entry.node.name, entry.node.type, entry.variant.name), []).append(entry)
    explained = []
    for entries in by_name.values():
        entries.sort(key=lambda entry: entry.ratio)
        first = entries[0]
        device = " or ".join(dict.fromkeys(entry.variant.device for entry in entries[:4]))
        if first.variant.name:
            what = "%s with %s %s" % (first.node.type, first.variant.name, device)
        else:
            what = "%s for %s" % (device, first.node.type)
        sentence = "the device computed %s; the model says %s (%s)" % (
            what,
            first.variant.model,
            agreement(first.agree, model_agree, output.actual.size),
        )
        explained.append(
            Explained(
                sentence,
                first.variant.name,
                first.node,
                first.variant.model,
                first.agree,
                model_agree,
                output.actual.size,
            )
        )
    return sorted(explained, key=lambda entry: -entry.agree)


def agreement(agree: int, model_agree: int, elements: int) -> str:
    """Return how many elements agree with an explanation and with the model, in words."""
    share = 100.0 * model_agree / max(1, elements)
    return "%s of %s elements agree, with the model's %.2g %%" % (
        format(agree, ","),
        format(elements, ","),
        share,
    )
