"""Indices by which a Gather's output came of its table, where these are not the model's."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, FrozenSet, Iterator, Mapping, Tuple

import numpy as np

from ..operators import Value
from ..operators.variants import Variant, input_name, replaced, text_of
from .other_constants import MOST_LISTED, Solved
from .piece import Key, Piece
from .variant_trials import Output, agreeing

Array = Any

_MOST_COMPARED = 1 << 24
"""Elements of the table that are compared with indices of the output, all in all: a tenth of a
second."""


def found_indices(
    piece: Piece,
    base: Mapping[Key, Value],
    output: Output,
    has_time: Callable[[int], bool],
    known_of_dump: FrozenSet[Tuple[int, int]],
) -> Iterator[Solved]:
    """Yield the Gather that makes an output, with the index of its table that is nearest to each
    index of the output.

    Parameters
    ----------
    base
        All values of the piece.
    has_time
        Tells whether the piece may be computed so many times.
    known_of_dump
        Constants that the dump holds as the model does, by node and input.
    """
    for number, node, inputs, _ in piece.held(base):
        is_last = node.type == "Gather" and (number, 0) == output.value
        if not is_last or (number, 1) in known_of_dump or None in inputs[:2]:
            continue
        table, own = (value.array for value in inputs[:2])  # type: ignore[union-attr]
        axis = int(node.get("axis", 0)) % table.ndim
        if node.get("batch_dims", 0) or table.dtype.kind != "f" or not own.size:
            continue
        rows = np.moveaxis(np.asarray(table, np.float64), axis, 0).reshape(table.shape[axis], -1)

        def by_index(array: Array, axis: int = axis, own: Array = own) -> Array:
            across = tuple(range(axis, axis + own.ndim))
            moved = np.moveaxis(array, across, range(own.ndim))
            return moved.reshape(own.size, -1)

        shape = base[output.value].array.shape
        made = by_index(np.asarray(output.actual, np.float64).reshape(shape))
        right = by_index(agreeing(output, output.computed).reshape(shape)).all(1)
        wrong = np.flatnonzero(~right)
        if wrong.size * rows.size > _MOST_COMPARED or not np.isfinite(made[wrong]).all():
            continue
        found = np.array(own).reshape(-1)
        for at in wrong:
            found[at] = int(np.argmin(np.nan_to_num(np.square(rows - made[at])).sum(1)))
        if np.array_equal(found, np.arange(len(rows))):
            continue  # its output is its input, which is told as such
        found = found.reshape(own.shape)
        device, model = text_of(found), text_of(own)
        if own.size > MOST_LISTED:
            first = int(wrong[0])
            device, model = (
                "%d at %d (%d of %d are others)"
                % (found.reshape(-1)[first], first, wrong.size, own.size),
                "%d there" % own.reshape(-1)[first],
            )
        variant = Variant(
            input_name(node, 1), device, model, node, replaced(1, partial(_in_its_place, found))
        )
        if has_time(1):
            yield Solved(number, node, variant, wrong.size * float(np.log2(len(rows))))


def _in_its_place(found: Array, own: Array) -> Array:
    return found
