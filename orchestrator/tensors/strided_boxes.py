"""Boxes: a geometry as dense blocks of elements that both sides address by strides.

Of a dim that is split into blocks, the full blocks are one box and the partly filled last block is
another, so no box contains padding. The element at index ``i`` of a box is at
``start + sum(i * stride)`` of each side's storage, in elements.
"""

from __future__ import annotations

from itertools import product
from typing import Dict, FrozenSet, Iterator, List, Tuple

from ..base.fast_dataclasses import dataclass
from .geometry import Geometry
from .storage_layouts import INNER, OUTER, Dims, GroupedFilter, Layout

Ints = Tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """A dense block of elements.

    Attributes
    ----------
    sizes
        Sizes of its axes, merged where possible; none is 1, and empty only for a single element.
    target_strides, golden_strides
        In elements, one per axis.
    target_start, golden_start
        In elements from the start of each storage.
    """

    sizes: Ints
    target_strides: Ints
    golden_strides: Ints
    target_start: int
    golden_start: int


def boxes(
    geometry: Geometry,
    target_order: str = "C",
    golden_order: str = "C",
    borders: FrozenSet[int] = frozenset(),
) -> Iterator[Box]:
    """Yield boxes that cover every element of the geometry once, without padding.

    Parameters
    ----------
    target_order, golden_order
        Of the two tensors (:attr:`goldwatch.tensors.tensor.Tensor.order`); a target in Fortran
        order has a plain layout.
    borders
        Golden strides at which axes are not merged. To accumulate along one dim of the golden, give
        the strides of that dim and of the next outer one: each axis of a box is then inside, along
        or outside that dim.
    """
    if geometry.count == 0:
        return
    layout, dims = geometry.layout, geometry.dims
    golden = dict(zip(geometry.letters, steps(geometry.sizes, golden_order)))
    if layout.groups > 1:
        yield from _grouped(layout, dims, golden, borders)
        return
    sizes = layout.axis_sizes(dims)
    storage = dict(zip(layout.axes, steps(sizes, target_order)))
    yield from _split_boxes(
        layout, {letter: (0, size) for letter, size in dims.items()}, storage, golden, 0, 0, borders
    )


def boxes_within(
    geometry: Geometry, ranges: Dict[str, Tuple[int, int]], target_order: str = "C"
) -> Iterator[Box]:
    """Yield boxes that cover the elements of a part of a golden in C order.

    Parameters
    ----------
    ranges
        (start, stop) of the index of each letter.
    """
    layout = geometry.layout
    golden = dict(zip(geometry.letters, steps(geometry.sizes, "C")))
    storage = dict(zip(layout.axes, steps(layout.axis_sizes(geometry.dims), target_order)))
    yield from _split_boxes(layout, ranges, storage, golden, 0, 0, frozenset())


def padding_boxes(geometry: Geometry) -> Iterator[Box]:
    """Yield boxes that cover every element once that is in :attr:`Geometry.padded` but not in the
    golden."""
    if geometry.padded is None:
        return
    golden = dict(zip(geometry.letters, steps(geometry.padded, "C")))
    sizes = geometry.layout.axis_sizes(dict(zip(geometry.letters, geometry.padded)))
    storage = dict(zip(geometry.layout.axes, steps(sizes, "C")))
    for at, letter in enumerate(geometry.letters):
        if geometry.sizes[at] < geometry.padded[at]:
            ranges = {
                name: (0, size)
                for name, size in zip(geometry.letters, geometry.sizes[:at] + geometry.padded[at:])
            }
            ranges[letter] = (geometry.sizes[at], geometry.padded[at])
            yield from _split_boxes(geometry.layout, ranges, storage, golden, 0, 0, frozenset())


def _grouped(
    layout: Layout, dims: Dims, golden: Dict[str, int], borders: FrozenSet[int]
) -> Iterator[Box]:
    """Yield the boxes of a FRACTAL_Z filter with groups, group by group: each is a corner of the
    pack's block diagonal.
    """
    sizes = GroupedFilter.of(dims, dict(layout.blocks), layout.groups)
    stored = sizes.stored_shape
    pack_elements = stored[0] // sizes.packs * stored[1] * stored[2] * stored[3]
    shape = (sizes.c1, sizes.height, sizes.width, sizes.n1, sizes.n0, sizes.c0)
    storage = dict(zip(layout.axes, steps(shape, "C")))
    for group in range(sizes.groups):
        number, place = divmod(group, sizes.pack)
        ranges = {
            "N": (place * sizes.cout, (place + 1) * sizes.cout),
            "C": (place * sizes.cin, (place + 1) * sizes.cin),
            "H": (0, sizes.height),
            "W": (0, sizes.width),
        }
        # In the box, channels count from the pack's first; in the golden from the filter's
        # first, and C from the group's first.
        shift = (group - place) * sizes.cout * golden["N"] - place * sizes.cin * golden["C"]
        yield from _split_boxes(
            layout, ranges, storage, golden, number * pack_elements, shift, borders
        )


def _split_boxes(
    layout: Layout,
    ranges: Dict[str, Tuple[int, int]],
    storage: Dict[Tuple[str, str], int],
    golden: Dict[str, int],
    target_start: int,
    golden_start: int,
    borders: FrozenSet[int],
) -> Iterator[Box]:
    """Yield one box for each combination of full and partly filled blocks of the dims' ranges."""
    blocks = dict(layout.blocks)
    choices = [_pieces(*ranges[letter], blocks.get(letter, 0)) for letter in layout.letters]
    for pieces in product(*choices):
        by_letter = dict(zip(layout.letters, pieces))
        axes: List[Tuple[int, int, int]] = []
        start, golden_at = target_start, golden_start
        for letter, part in layout.axes:
            first, outer, inner_first, inner = by_letter[letter]
            stride, block = storage[letter, part], blocks.get(letter, 1)
            if part == OUTER:
                size, begin, step = outer, first, block
            elif part == INNER:
                size, begin, step = inner, inner_first, 1
            else:
                size, begin, step = outer, first, 1
            start += begin * stride
            golden_at += begin * step * golden[letter]
            axes.append((size, stride, step * golden[letter]))
        yield _merged(axes, start, golden_at, borders)


def _pieces(low: int, high: int, block: int) -> List[Tuple[int, int, int, int]]:
    """Return ``(first block, blocks, first place, places)`` of the pieces of a range: a partly used
    block, full ones, a partly used last one. Without blocks (``block`` 0) it is one piece.
    """
    if not block:
        return [(low, high - low, 0, 1)]
    pieces = []
    if low % block:
        stop = min(high, (low // block + 1) * block)
        pieces.append((low // block, 1, low % block, stop - low))
        low = stop
    if high // block > low // block:
        pieces.append((low // block, high // block - low // block, 0, block))
        low = high // block * block
    if high > low:
        pieces.append((low // block, 1, 0, high - low))
    return pieces


def steps(sizes: Ints, order: str) -> List[int]:
    """Return the strides in elements of an array of that shape and order."""
    if order == "F":
        return steps(sizes[::-1], "C")[::-1]
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return strides[::-1]


def _merged(
    axes: List[Tuple[int, int, int]], target_start: int, golden_start: int, borders: FrozenSet[int]
) -> Box:
    """Return the box without axes of size 1 and with axes merged that are contiguous on both sides,
    except at a border.
    """
    merged: List[Tuple[int, int, int]] = []
    # Sorted by the target's strides: in Fortran order its axes are reversed.
    for size, target, golden in sorted(axes, key=lambda axis: -axis[1]):
        if size == 1:
            continue
        if (
            merged
            and merged[-1][1] == target * size
            and merged[-1][2] == golden * size
            and merged[-1][2] not in borders
        ):
            merged[-1] = (merged[-1][0] * size, target, golden)
        else:
            merged.append((size, target, golden))
    columns = list(zip(*merged)) or [(), (), ()]
    return Box(tuple(columns[0]), tuple(columns[1]), tuple(columns[2]), target_start, golden_start)
