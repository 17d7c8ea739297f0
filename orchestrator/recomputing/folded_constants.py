"""Products with the weights and the bias of a dump into which the compiler has folded what scales
and shifts each channel behind them: a normalisation, say.
"""

from __future__ import annotations

from functools import partial
from itertools import product as pairs_of
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..operators import Arithmetic, Node, Value, compute
from ..operators.variants import AS_IT_IS, Variant
from .original_nodes import Call
from .other_constants import (
    LEAST_TOLD,
    NEAR,
    SOLVED,
    SOLVED_BITS,
    filter_axes,
    in_shape,
)
from .piece import EXACT, Key, Piece, Reads
from .variant_trials import OF_DUMP

Array = Any

_NORMALISING = frozenset("BatchNormalization BatchNorm Scale".split())
_FOLDED = _NORMALISING | frozenset("Mul Div Add Sub".split())
"""Types of nodes that a compiler folds into the product before them."""
_VERSION = 13


class Folded(NamedTuple):
    """A product with constants of the dump, in place of the last node that is folded into it.

    Attributes
    ----------
    number, node, variant
        As of :func:`goldwatch.recomputing.piece_variants.variants`.
    by_filters
        Whether the weights are the model's but for a factor of each filter: then what is folded
        into them is another one, or was folded wrongly.
    """

    number: int
    node: Node
    variant: Variant
    by_filters: bool


def is_folded(node: Node) -> bool:
    """Tell whether a compiler may fold a node into the product before it."""
    return node.type in _NORMALISING


def folded_constants(
    piece: Piece, base: Mapping[Key, Value], dumped: Sequence[Tuple[int, Array]]
) -> Iterator[Folded]:
    """Yield products of a piece with the weights and the bias of the device's dump in place of
    their own and of all that is folded into these.

    Parameters
    ----------
    base, dumped
        As of :func:`goldwatch.recomputing.other_constants.dumped_otherwise`.
    """
    calls = dict(piece.computed)
    values = {number: (node, inputs) for number, node, inputs, _ in piece.held(base)}
    for number, call in calls.items():
        product = _product_before(piece, calls, call)
        if product is None or product not in values:
            continue
        node, inputs = values[product]
        axes = filter_axes(node)
        own = inputs[1].array if axes is not None and len(inputs) > 1 and inputs[1] else None
        if axes is None or own is None or not piece.holds(calls[product].arguments[1]):
            continue
        for at, array in dumped:
            biases = [
                (of, one)
                for of, one in dumped
                if of > at and one.dtype.kind == "f" and one.size == own.shape[axes[0]]
            ]
            for (of, bias), given in pairs_of(biases[:1], in_shape(array, own)):
                by_filters = _is_by_filters(given, own, axes[0])
                words = OF_DUMP + (
                    " (inputs %d and %d), with the %s behind it in these, which are not the model's"
                    % (at, of, call.node.type)
                )
                words += " but for a factor of each filter" if by_filters else ""
                made = partial(_product, node, Value(given), Value(bias.reshape(-1)))
                reads = Reads(product, calls[product])
                name = "the weights and bias"
                variant = Variant(name, words, AS_IT_IS, node, reads, None, made)
                yield Folded(number, node, variant, by_filters)


def refitted(
    piece: Piece,
    base: Mapping[Key, Value],
    dumped: Sequence[Tuple[int, Array]],
    value: Key,
    actual: Array,
) -> Iterator[Tuple[Folded, float]]:
    """Yield products of a piece, with weights of the model or of the dump, and with a factor and an
    offset for each channel, which the output tells, in place of what is folded into them; each with
    the bits that the output has to tell.

    Parameters
    ----------
    value, actual
        The output, and the device's.
    """
    calls = dict(piece.computed)
    level, product = next(
        (
            ((number, 0), before)
            for number, call in reversed(piece.computed)
            for before in [_product_before(piece, calls, call)]
            if before is not None and call.node.type in _NORMALISING
        ),
        (None, None),
    )
    if level is None or product is None or actual.dtype.kind != "f":
        return
    inverse = _undone(base[level].array, base[value].array, actual)
    if inverse is None:
        return
    before, known = inverse
    node, inputs = next(
        (node, inputs) for number, node, inputs, _ in piece.held(base) if number == product
    )
    axes = filter_axes(node)
    if axes is None or len(inputs) < 2 or inputs[1] is None:
        return
    own = inputs[1].array
    others = [
        given for _, array in dumped for given in in_shape(array, own) if array.dtype.kind == "f"
    ]
    if any(_is_folded_as_told(given, own, axes, piece, base, level, product) for given in others):
        return
    for given in (own, *others):
        weights = Value(given)
        (made,) = compute(node, [inputs[0], weights, *inputs[2:]], EXACT)
        channels = made.array.shape[axes[1]]
        shape = [1] * made.array.ndim
        shape[axes[1]] = channels
        rows, wanted, usable = (
            np.moveaxis(np.asarray(side).reshape(made.array.shape), axes[1], 0).reshape(
                channels, -1
            )
            for side in (made.array, before, known)
        )
        told = usable.sum(1)
        if told.max() < LEAST_TOLD:
            continue
        ends = [_line(*sides) for sides in zip(rows, wanted, usable)]
        factor, offset = (np.asarray(side, np.float32).reshape(shape) for side in zip(*ends))
        words = ": a factor and an offset for each of %d channels" % channels
        words += "" if given is own else ", beside the weights of its own dump"
        scaled = partial(_scaled, node, weights, factor, offset)
        name = "its " + calls[level[0]].node.type
        reads = Reads(product, calls[product])
        variant = Variant(name, SOLVED + words, AS_IT_IS, node, reads, None, scaled)
        yield Folded(level[0], node, variant, given is own), 2 * SOLVED_BITS * int((told > 0).sum())


def _is_folded_as_told(
    given: Array,
    own: Array,
    axes: Tuple[int, int],
    piece: Piece,
    base: Mapping[Key, Value],
    level: Key,
    product: int,
) -> bool:
    """Tell whether weights of the dump are the model's with what stands behind them folded in: then
    it is not these that are wrong.
    """
    if not _is_by_filters(given, own, axes[0]):
        return False
    sides = (base[product, 0].array, base[level].array)
    made, behind = (
        np.moveaxis(side.reshape(sides[0].shape), axes[1], 0).reshape(own.shape[axes[0]], -1)
        for side in sides
    )
    told = np.array([_line(*each)[0] for each in zip(made, behind, np.ones(made.shape, bool))])
    shape = [1] * own.ndim
    shape[axes[0]] = len(told)
    folded = own * told.reshape(shape)
    return bool((np.abs(given - folded) <= NEAR * np.abs(folded).max()).all())


def _undone(before: Array, after: Array, actual: Array) -> Optional[Tuple[Array, Array]]:
    """Return what the device had before an activation, by the model's values on both of its sides,
    and where these tell it: not where it makes the same of many. None where it does not rise.
    """
    actual = np.asarray(actual, np.float64)
    if after.size != before.size or actual.size != after.size:
        return None
    order = np.argsort(before, axis=None, kind="stable")
    given, made = (np.asarray(side, np.float64).reshape(-1)[order] for side in (before, after))
    if not np.isfinite(given).all() or np.any(np.diff(made) < 0):
        return None
    made, firsts, counts = np.unique(made, return_index=True, return_counts=True)
    # Where it makes the same of many: their last, of the largest of all the first.
    ends = given[np.append((firsts + counts - 1)[:-1], firsts[-1])]
    with np.errstate(invalid="ignore"):
        known = (actual > made[0]) & (actual < made[-1])
        # What is handed on as it is may be larger than all of the model's.
        above = np.isfinite(actual) & (actual >= made[-1]) & (made[-1] == ends[-1])
    undone = np.where(above, actual, np.interp(actual, made, ends))
    return undone.reshape(before.shape), (known | above).reshape(before.shape)


def _line(made: Array, wanted: Array, usable: Array) -> Tuple[float, float]:
    """Return the factor and the offset by which a channel comes of the product; of one that a Relu
    behind them hides throughout what it hands on.
    """
    if not usable.any():
        return 0.0, float(wanted.max())
    terms = np.stack([made[usable], np.ones(np.count_nonzero(usable))], 1).astype(np.float64)
    factor, offset = np.linalg.lstsq(terms, wanted[usable].astype(np.float64), rcond=None)[0]
    return float(factor), float(offset)


def _scaled(
    node: Node,
    weights: Value,
    factor: Array,
    offset: Array,
    given: Sequence[Optional[Value]],
    by: Arithmetic,
) -> List[Value]:
    """Return a product with other weights, and each channel times and plus a number."""
    made = compute(node, [given[0], weights, *given[2:]], by)[0]
    for kind, number in (("Mul", factor), ("Add", offset)):
        step = Node("onnx", kind, name=node.name, version=_VERSION)
        made = compute(step, [made, Value(number)], by)[0]
    return [made]


def _product_before(piece: Piece, calls: Dict[int, Call], call: Call) -> Optional[int]:
    """Return the number of the node of whose output a node and those between scale and shift each
    channel, by constants of the model; None where it does not.
    """
    number = None
    while call.node.type in _FOLDED:
        read = [one for one in call.arguments if one is not None and not piece.holds(one)]
        if len(read) != 1 or not isinstance(read[0], tuple) or read[0][0] not in calls:
            return None
        number = read[0][0]
        call = calls[number]
    return number


def _product(
    node: Node, weights: Value, bias: Value, given: Sequence[Optional[Value]], by: Arithmetic
) -> List[Value]:
    """Return a product with other weights and bias; that of matrices adds none by itself."""
    if node.type.rpartition(".")[2] != "MatMul":
        return compute(node, [given[0], weights, bias], by)
    (made,) = compute(node, [given[0], weights], by)
    return compute(Node("onnx", "Add", name=node.name, version=_VERSION), [made, bias], by)


def _is_by_filters(given: Array, own: Array, axis: int) -> bool:
    """Tell whether weights are the model's times a number for each filter or column."""
    sides = (np.moveaxis(side, axis, 0).reshape(own.shape[axis], -1) for side in (given, own))
    changed, model = (side.astype(np.float64) for side in sides)
    squares = np.square(model).sum(1, keepdims=True)
    factors = (changed * model).sum(1, keepdims=True) / np.where(squares > 0, squares, 1.0)
    largest = np.abs(changed).max(1, keepdims=True)
    return bool((np.abs(changed - factors * model) <= NEAR * largest).all())
