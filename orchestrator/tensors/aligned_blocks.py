"""Aligned blocks: corresponding elements of a target and its golden in pieces that fit the
processor's cache.

A box (:mod:`.strided_boxes`) is cut into slabs, each read from both sources in few long reads of
bounded size; a slab is cut into blocks, which are strided views of the bytes read. Bytes are copied
only if a slab is not contiguous in a file.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import FrozenSet, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from .dtypes import Array, decode, require_decodable
from .geometry import Geometry, match_layouts, match_stored
from .storage_layouts import unpack
from .strided_boxes import Box, Ints, boxes, padding_boxes, steps
from .tensor import WINDOW_BYTES, Tensor

__all__ = ["Block", "Geometry", "aligned_blocks", "match_layouts", "match_stored", "placed_blocks"]

# Both sides of one slab, decoded. While one is read the one before may still be in use.
SLAB_BYTES = WINDOW_BYTES // 2
SMALL_BYTES = 1024 * 1024
# Reading over a gap costs its bytes, another read costs a call: gaps up to here are read over,
# where they are small or no longer than what lies between them. Bytes that another slab reads too
# cost more: they may have to come from the disk again.
_GAP_BYTES, _SMALL_GAP_BYTES = 16 * 1024, 2 * 1024
_READ_NS, _BYTE_NS, _AGAIN_NS, _SLAB_NS = 2000.0, 0.1, 1.0, 15000.0
_GOOD_NS = 0.3
_RUN = 64
# A sample is taken from so many places at least, in pieces of so many elements at least where it
# allows them.
_SAMPLE_SLABS, _LEAST_SLAB = 64, 16
_GOLDEN_RATIO = 0.6180339887498949
_WHOLE_BYTES = 4 * 1024 * 1024


class Block(NamedTuple):
    """Equally shaped pieces of a target and its golden, and their position in the golden.

    Attributes
    ----------
    x, y
        Elements of the target and of the golden.
    start
        Offset of the first element in the golden's storage, in elements.
    strides
        Steps in the golden's storage along each axis of the block, in elements.
    """

    x: Array
    y: Array
    start: int
    strides: Ints


def aligned_blocks(
    target: Tensor,
    golden: Tensor,
    geometry: Geometry,
    max_elements: int = 32768,
    part: Tuple[int, int] = (0, 1),
    few: bool = False,
) -> Iterator[Tuple[Array, Array]]:
    """Yield the arrays of :func:`placed_blocks`: pairs of equally shaped blocks that hold the same
    elements of target and golden.
    """
    for block in placed_blocks(target, golden, geometry, max_elements, part, few=few):
        yield block.x, block.y


def placed_blocks(
    target: Tensor,
    golden: Tensor,
    geometry: Geometry,
    max_elements: int = 32768,
    part: Tuple[int, int] = (0, 1),
    borders: FrozenSet[int] = frozenset(),
    most: int = 0,
    halves: bool = False,
    few: bool = False,
) -> Iterator[Block]:
    """Yield equally shaped blocks of corresponding elements of target and golden.

    Parameters
    ----------
    geometry
        Of :func:`goldwatch.tensors.geometry.match_layouts` for these two.
    max_elements
        Of one block.
    part
        ``(k, n)``: only the k-th of n shares of the work, k from 0. The shares are disjoint and
        cover everything; the split depends only on the arguments. A small tensor is not split: some
        shares are then empty.
    borders
        As for :func:`goldwatch.tensors.strided_boxes.boxes`.
    most
        Limit of elements: of a larger golden only a sample is read, contiguous pieces from all over
        the tensor, deterministic for the same borders. 0: everything. A small filter with groups is
        never sampled.
    halves
        bfloat16 may be yielded as stored (:data:`goldwatch.tensors.dtypes.BFLOAT16`).
    few
        Only the first blocks will be used: each is read by itself. The blocks are the same.

    Yields
    ------
    Block
        Decoded, native byte order, equal shape of any rank, usually strided views. Every element of
        the golden (or of the sample) occurs exactly once, the target's padding never. Valid until
        the next block is requested.

    Raises
    ------
    NotComparable
        An element type is not decoded.
    FormatError
        A source holds fewer bytes than its shape needs.
    ValueError
        The geometry belongs to other shapes.
    """
    if golden.shape != geometry.shape:
        raise ValueError(
            "geometry for a golden %s, got %s" % (list(geometry.shape), list(golden.shape))
        )
    require_decodable(target.dtype)
    require_decodable(golden.dtype)
    widths = element_bytes(target), element_bytes(golden)
    if geometry.layout.groups > 1 and target.count * widths[0] <= _WHOLE_BYTES:
        if part[0] == 0:
            yield from _unpacked(target, golden, geometry, max_elements)
        return
    most = most if golden.count > most else 0
    planned, only = _planned(geometry, target.order, golden.order, borders, widths, part[1], most)
    for box, starts, sizes in only if only and part == (0, 1) else _share(planned, part, most):
        for at, extents, order in (
            _read_singly(box, starts, sizes, widths, max_elements)
            if few
            else ((starts, sizes, ()),)
        ):
            left = fetch(
                target, box.target_start, box.target_strides, at, extents, widths[0], halves
            )
            right = fetch(
                golden, box.golden_start, box.golden_strides, at, extents, widths[1], halves
            )
            first = box.golden_start + sum(
                place * stride for place, stride in zip(at, box.golden_strides)
            )
            if order:
                yield Block(
                    left.transpose(order),
                    right.transpose(order),
                    first,
                    tuple(box.golden_strides[axis] for axis in order),
                )
            else:
                yield from _cut(left, right, max_elements, first, box.golden_strides)


def _read_singly(
    box: Box, starts: Ints, sizes: Ints, widths: Tuple[int, int], max_elements: int
) -> Iterator[Tuple[Ints, Ints, Ints]]:
    """Yield (starts, sizes, axis order) of the blocks that :func:`_cut` makes of a slab; () if the
    slab must be cut there.
    """
    if len(sizes) <= 1 or element_count(sizes) <= 1:
        for at in range(0, element_count(sizes), max_elements):
            yield (
                tuple(start + at for start in starts),
                tuple(min(size - at, max_elements) for size in sizes),
                (),
            )
        return
    target, golden = (
        _laid_out(sizes, strides, width)[2]
        for strides, width in zip((box.target_strides, box.golden_strides), widths)
    )
    order, windows = _windows(sizes, target, golden, max_elements)
    for window in windows:
        of_axis = dict(zip(order, window))
        ranges = [of_axis[axis] for axis in range(len(sizes))]
        yield (
            tuple(start + low for start, (low, _) in zip(starts, ranges)),
            tuple(high - low for low, high in ranges),
            order,
        )


def padding_blocks(target: Tensor, geometry: Geometry) -> Iterator[Array]:
    """Yield the target's elements that are padding by :attr:`Geometry.padded`, decoded, in pieces
    of bounded size.

    Raises
    ------
    NotComparable, FormatError
        As :func:`placed_blocks`.
    """
    width = element_bytes(target)
    for box in padding_boxes(geometry):
        for starts, sizes in _slabs(_grid(box, (width, width), 1)):
            yield fetch(target, box.target_start, box.target_strides, starts, sizes, width)


def _slabs(grid: List[List[int]]) -> Iterator[Tuple[Ints, Ints]]:
    """Yield (starts, sizes) of all slabs of a box, whose axes are cut there."""
    for place in product(*(range(len(cuts) - 1) for cuts in grid)):
        yield (
            tuple(cuts[index] for cuts, index in zip(grid, place)),
            tuple(cuts[index + 1] - cuts[index] for cuts, index in zip(grid, place)),
        )


def _unpacked(
    target: Tensor, golden: Tensor, geometry: Geometry, max_elements: int
) -> Iterator[Block]:
    """Yield the blocks of a small filter with groups, unpacked as a whole: its boxes would be many
    and tiny.
    """
    plain = unpack(target.array(), geometry.layout, geometry.dims, geometry.letters)
    other = golden.array().reshape(plain.shape)
    yield from _cut(
        np.ascontiguousarray(plain), other, max_elements, 0, tuple(steps(plain.shape, golden.order))
    )


def element_bytes(tensor: Tensor) -> int:
    """Return the bytes in memory for each element read: stored plus, if that is another array,
    decoded."""
    dtype = tensor.dtype
    if dtype.bits < 8:
        return 2
    stored = dtype.bits // 8
    decoded = {"bfloat16": 4, "complex32": 8, "bool": 1, "hifloat8": 4}.get(
        dtype.name, 4 if dtype.name.startswith("float8") else 0
    )
    swapped = dtype.storage is not None and not np.dtype(dtype.storage).isnative
    return stored + (decoded or (stored if swapped else 0))


_Slab = Tuple[Box, Ints, Ints]
_Planned = Tuple[Tuple[Box, List[List[int]]], ...]


@lru_cache(maxsize=128)
def _planned(
    geometry: Geometry,
    target_order: str,
    golden_order: str,
    borders: FrozenSet[int],
    widths: Tuple[int, int],
    parts: int,
    most: int,
) -> Tuple[_Planned, Tuple[_Slab, ...]]:
    """Return a geometry's boxes, each with the starts of its slabs (:func:`_grid`), and the slab if
    there is only one. Cached: a network has few geometries and many tensors, most of them small.
    """
    planned = tuple(
        (box, _grid(box, widths, parts, most))
        for box in boxes(geometry, target_order, golden_order, borders)
    )
    single = len(planned) == 1 and all(len(cuts) == 2 for cuts in planned[0][1])
    return planned, tuple(_share(planned, (0, 1), most)) if single else ()


def _share(planned: _Planned, part: Tuple[int, int], most: int) -> Iterator[_Slab]:
    """Yield the slabs ``(box, starts, sizes)`` of one share: adjacent ones, for sequential
    reads."""
    number, parts = part
    sizes_of = [element_count([len(cuts) - 1 for cuts in grid]) for _, grid in planned]
    total = sum(sizes_of)
    numbers: Sequence[int] = range(total)
    if most:
        longest = max((_longest(grid) for _, grid in planned), default=1)
        numbers = _spread(total, max(1, most // longest))
    share = iter(numbers[number * len(numbers) // parts : (number + 1) * len(numbers) // parts])
    at = 0
    slab = next(share, total)
    for (box, grid), size in zip(planned, sizes_of):
        while slab < at + size:
            place = slab - at
            starts, sizes = [], []
            for cuts in reversed(grid):
                place, index = divmod(place, len(cuts) - 1)
                starts.append(cuts[index])
                sizes.append(cuts[index + 1] - cuts[index])
            yield box, tuple(reversed(starts)), tuple(reversed(sizes))
            slab = next(share, total)
        at += size


def _longest(grid: List[List[int]]) -> int:
    """Return the elements of the largest slab."""
    return element_count(
        [max(after - before for before, after in zip(cuts, cuts[1:])) for cuts in grid]
    )


def _spread(total: int, count: int) -> Sequence[int]:
    """Return ``count`` of ``total`` numbers in order, one from each equal interval, at positions
    that do not align with a period of the data.
    """
    if count >= total:
        return range(total)
    borders = [number * total // count for number in range(count + 1)]
    return [
        low + int(number * _GOLDEN_RATIO % 1.0 * (high - low))
        for number, (low, high) in enumerate(zip(borders, borders[1:]))
    ]


def _grid(box: Box, widths: Tuple[int, int], parts: int, most: int = 0) -> List[List[int]]:
    """Return for each axis of the box the starts of its slabs followed by its size; small slabs for
    a sample, whatever the parts.
    """
    largest = max(_LEAST_SLAB, most // _SAMPLE_SLABS) if most else 0
    tile = _slab(
        box.sizes, box.target_strides, box.golden_strides, widths, 2 if most else parts, largest
    )
    return [_cuts(size, step) for size, step in zip(box.sizes, tile)]


def _cuts(size: int, step: int) -> List[int]:
    """Return the borders of nearly equal pieces of at most ``step``."""
    pieces = -(-size // step)
    return [size * index // pieces for index in range(pieces + 1)]


@lru_cache(maxsize=512)
def _slab(
    sizes: Ints, target: Ints, golden: Ints, widths: Tuple[int, int], parts: int, largest: int = 0
) -> Ints:
    """Return the slab's size along each axis: the cheapest to read of those that fit into memory
    and hold at most ``largest`` elements.

    A candidate covers a number of elements along the target's innermost axes and a number along the
    golden's.
    """
    whole = _cost(sizes, sizes, target, golden, widths)
    if parts == 1 and whole[1] <= SMALL_BYTES or not sizes:
        return sizes
    best: Tuple[float, Ints] = (float("inf"), (1,) * len(sizes))
    exponents = (16, 18, 14, 20, 12, 10, 8, 6, 4, 2)
    pairs = [(p, p) for p in exponents] + [(p, q) for p in exponents for q in exponents if p != q]
    for p, q in pairs:
        tile = tuple(map(max, _prefix(sizes, target, 1 << p), _prefix(sizes, golden, 1 << q)))
        cost, memory_bytes = _cost(tile, sizes, target, golden, widths)
        if (
            memory_bytes <= SLAB_BYTES
            and cost < best[0]
            and (not largest or element_count(tile) <= largest)
        ):
            best = cost, tile
            if cost <= _GOOD_NS:
                break
    return best[1]


def _prefix(sizes: Ints, strides: Ints, elements: int) -> List[int]:
    """Return the tile of at most this many elements along the axes of the smallest strides."""
    tile = [1] * len(sizes)
    for axis in sorted(range(len(sizes)), key=strides.__getitem__):
        tile[axis] = max(1, min(sizes[axis], elements))
        elements //= tile[axis]
    return tile


def _cost(
    tile: Ints, sizes: Ints, target: Ints, golden: Ints, widths: Tuple[int, int]
) -> Tuple[float, int]:
    """Return nanoseconds per element that reading a slab of a box costs besides its own bytes, and
    the bytes that it holds in memory.
    """
    spent, memory_bytes, elements = _SLAB_NS, 0, element_count(tile)
    share = elements / max(1, element_count(sizes))
    for strides, width in ((target, widths[0]), (golden, widths[1])):
        extent, reads = _reads(tile, strides, width)
        total = extent * reads * width
        # Share of the bytes between the box's first and last element, if none is read twice.
        stored = (1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))) * width
        spent += (
            reads * _READ_NS
            + (total - elements * width) * _BYTE_NS
            + max(0.0, total - share * stored) * _AGAIN_NS
        )
        memory_bytes += total
    return spent / max(1, elements), memory_bytes


def _reads(tile: Ints, strides: Ints, width: int) -> Tuple[int, int]:
    """Return the elements of one read and the number of reads of a tile."""
    extent, reads = 1, 1
    for axis in sorted(range(len(tile)), key=strides.__getitem__):
        extent, reads = _grow(tile[axis], strides[axis], extent, reads, width)
    return extent, reads


def _grow(size: int, stride: int, extent: int, reads: int, width: int) -> Tuple[int, int]:
    """Return extent and number of reads with one more axis, whose gaps are read if they are
    small."""
    if size == 1:
        return extent, reads
    wider = (size - 1) * stride + extent
    if reads == 1 and (
        wider == size * extent
        or (wider * width <= _GAP_BYTES * size and wider * width <= SLAB_BYTES)
    ):
        gap = stride - extent
        if gap <= extent or gap * width <= _SMALL_GAP_BYTES:
            return wider, 1
    return extent, reads * size


def fetch(
    tensor: Tensor,
    start: int,
    strides: Ints,
    starts: Ints,
    sizes: Ints,
    width: int,
    halves: bool = False,
) -> Array:
    """Read one slab and return it as a strided array of shape ``sizes``; ``halves`` as for
    :func:`placed_blocks`.
    """
    first = start + sum(at * stride for at, stride in zip(starts, strides))
    extent, outer, steps = _laid_out(sizes, strides, width)
    if not outer:
        data = tensor.elements(first, first + extent, halves)
    else:
        data = _gather(
            tensor, [first + offset for offset in _offsets(sizes, strides, outer)], extent, halves
        )
    item = data.itemsize
    if data.ndim != 1 or data.strides != (item,):
        data = np.ascontiguousarray(data)
    return np.ndarray(sizes, data.dtype, data, 0, tuple(step * item for step in steps))


@lru_cache(maxsize=512)
def _laid_out(sizes: Ints, strides: Ints, width: int) -> Tuple[int, Ints, Ints]:
    """Return the elements of one read, the axes along which reads repeat, and the strides of the
    result."""
    steps = [0] * len(sizes)
    extent, reads = 1, 1
    outer: List[int] = []
    for axis in sorted(range(len(sizes)), key=strides.__getitem__):
        extent, after = _grow(sizes[axis], strides[axis], extent, reads, width)
        if after == reads:
            steps[axis] = strides[axis]
        else:
            outer.append(axis)
        reads = after
    step = extent
    for axis in outer:
        steps[axis] = step
        step *= sizes[axis]
    return extent, tuple(outer), tuple(steps)


def _offsets(sizes: Ints, strides: Ints, outer: Ints) -> Iterator[int]:
    """Yield the offset of each read; earlier axes of ``outer`` vary faster."""
    for place in product(*(range(sizes[axis]) for axis in reversed(outer))):
        yield sum(at * strides[axis] for at, axis in zip(place, reversed(outer)))


def _gather(tensor: Tensor, firsts: List[int], extent: int, halves: bool) -> Array:
    bits = tensor.dtype.bits
    if bits < 8:
        return np.concatenate([tensor.elements(first, first + extent) for first in firsts])
    tensor.require_bytes()
    size = bits // 8
    length = extent * size
    raw: Array = np.empty((len(firsts), length), np.uint8)
    read = tensor.source.read
    for row, first in zip(raw, firsts):
        row[:] = read(first * size, length)
    return decode(raw.reshape(-1), tensor.dtype, len(firsts) * extent, halves=halves)


def _cut(
    left: Array, right: Array, max_elements: int, first: int, strides: Ints
) -> Iterator[Block]:
    """Yield a slab's blocks: both sides cut alike, in the axis order with the longest inner loops.

    Parameters
    ----------
    first, strides
        Position of the slab in the golden, as in :class:`Block`.
    """
    if left.ndim <= 1 or left.size <= 1:
        left, right, step = left.reshape(-1), right.reshape(-1), strides[-1] if left.size > 1 else 1
        for at in range(0, left.size, max_elements):
            yield Block(
                left[at : at + max_elements],
                right[at : at + max_elements],
                first + at * step,
                (step,),
            )
        return
    order, windows = _windows(left.shape, left.strides, right.strides, max_elements)
    left, right, strides = (
        left.transpose(order),
        right.transpose(order),
        tuple(strides[axis] for axis in order),
    )
    for window in windows:
        part = tuple(slice(low, high) for low, high in window)
        yield Block(
            left[part],
            right[part],
            first + sum(low * step for (low, _), step in zip(window, strides)),
            strides,
        )


def _windows(
    sizes: Ints, target: Ints, golden: Ints, max_elements: int
) -> Tuple[Ints, Iterator[Tuple[Ints, ...]]]:
    """Return the order of a slab's axes, and (low, high) along each of them, in that order, of each
    of its blocks.

    Parameters
    ----------
    target, golden
        The strides of the slab in memory.
    """
    order = _axis_order(sizes, target, golden)
    sizes, target, golden = (
        tuple(values[axis] for axis in order) for values in (sizes, target, golden)
    )
    cuts = [
        _cuts(size, step) for size, step in zip(sizes, _block(sizes, target, golden, max_elements))
    ]
    return order, product(*(list(zip(axis, axis[1:])) for axis in cuts))


def _axis_order(sizes: Ints, target: Ints, golden: Ints) -> Ints:
    """Return the axes by the strides, outermost first, of the side whose innermost axis is the
    longer one.
    """
    orders = [
        tuple(sorted(range(len(sizes)), key=[-stride for stride in side].__getitem__))
        for side in (golden, target)
    ]
    return max(orders, key=lambda order: sizes[order[-1]])


def _block(sizes: Ints, target: Ints, golden: Ints, max_elements: int) -> List[int]:
    """Return the block's size along each axis: runs of both sides that fill cache lines first, then
    whole inner axes.
    """
    tile = list(map(max, _prefix(sizes, target, _RUN), _prefix(sizes, golden, _RUN)))
    for axis in reversed(range(len(sizes))):
        others = element_count(tile) // tile[axis]
        tile[axis] = max(tile[axis], min(sizes[axis], max_elements // others))
    while element_count(tile) > max_elements:
        axis = tile.index(max(tile))
        tile[axis] = max(1, tile[axis] // 2)
    return tile
