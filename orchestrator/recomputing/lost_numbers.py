"""Numbers of the model that a device's type cannot hold, where the output shows it: an epsilon or a
constant that is 0 there, or Inf.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from ..operators import Value
from ..operators.variants import Variant, replaced
from .piece import EXACT, Key, Piece, rounded

Array = Any

_EPSILONS = ("epsilon", "eps")


class LostNumber(NamedTuple):
    """A number that the device does not have as the model has it.

    Attributes
    ----------
    number, fate
        Which it is, and what it is in the device's type, as the parts of a sentence around the
        operator's name.
    shown
        [shape of the output], which elements are 0, or NaN or Inf, by that alone; None where the
        operator was not dumped.
    """

    number: str
    fate: str
    shown: Optional[Array]


def lost_number(
    piece: Piece, incoming: Mapping[Key, Array], output: Key, actual: Array, dtype: str
) -> Optional[LostNumber]:
    """Return the number whose loss makes those elements of an output 0, or those NaN or Inf, that
    are so on the device; None where there is none.

    Parameters
    ----------
    piece
        With the model's own weights, which are not rounded.
    incoming
        What the device's operator read.
    actual, dtype
        The device's output, in the shape of the computed one, and its type.
    """
    base = piece.values(incoming, EXACT)
    for number, variant in _losing(piece, base, dtype):
        made = piece.with_variant(number, variant).values(incoming, EXACT)[output].array
        made = rounded(np.asarray(made), dtype)
        for mark in (_not_finite, _zero):
            device, lost, own = map(mark, (actual, made, base[output].array))
            if device.any() and np.array_equal(device, lost) and not (own & device).any():
                return LostNumber(variant.name, variant.device, device)
    return None


def lost_constant(arguments: Iterable[Any], dtype: str) -> Optional[LostNumber]:
    """Return the one number that a node holds and its type cannot, whatever that comes to; None
    where there is none. Of many numbers some are 0 in any network.
    """
    for array in arguments:
        if isinstance(array, np.ndarray) and array.size == 1 and array.dtype.kind == "f":
            for which, becomes in _lost(array, rounded(array, dtype)):
                if which.any():
                    return LostNumber(_named(array, which), "is %s in %s" % (becomes, dtype), None)
    return None


def _lost(array: Array, made: Array) -> Iterator[Tuple[Array, str]]:
    """Yield which numbers become what in a narrower type."""
    yield (array != 0) & (made == 0), "0"
    yield np.isfinite(array) & np.isinf(made), "Inf"


def _not_finite(array: Array) -> Array:
    return ~np.isfinite(array)


def _zero(array: Array) -> Array:
    return np.equal(array, 0)


def _losing(piece: Piece, base: Mapping[Key, Value], dtype: str) -> Iterator[Tuple[int, Variant]]:
    """Yield nodes without one of their numbers, each as a variant that says so."""
    held_as = partial(rounded, dtype=dtype)
    for number, node, inputs, held in piece.held(base):
        for name in _EPSILONS:
            own = node.get(name, 0.0)
            if isinstance(own, float) and own > 0:
                is_0 = held_as(np.array(own)) == 0
                how = "is 0 in %s, or was lost" % dtype if is_0 else "was lost"
                changed = replace(node, attributes={**node.attributes, name: 0.0})
                yield number, Variant("the epsilon %.3g" % own, how, "", changed)
        for place, value in enumerate(inputs):
            if not held[place] or value is None or not value.is_float:
                continue
            array = value.array
            for which, becomes in _lost(array, held_as(array)):
                if which.any():
                    one = array.size == 1
                    how = "%s %s in %s" % ("is" if one else "are", becomes, dtype)
                    taken = replaced(place, held_as)
                    yield number, Variant(_named(array, which), how, "", node, taken)


def _named(array: Array, which: Array) -> str:
    first = array[which].reshape(-1)[0]
    if array.size == 1:
        return "the constant %.3g" % first
    return "the constants (%d of %d numbers, %.3g say)" % (
        np.count_nonzero(which),
        array.size,
        first,
    )
