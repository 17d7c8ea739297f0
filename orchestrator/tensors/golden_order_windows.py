"""Windows in the golden's order: corresponding pieces of target and golden in the golden's C order.

:mod:`.aligned_blocks` reads in the cheapest order; listing elements with their coordinates needs
this one.
"""

from __future__ import annotations

from itertools import product
from typing import Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ..base.element_types import element_count
from .aligned_blocks import element_bytes, fetch
from .dtypes import Array, require_decodable
from .geometry import Geometry
from .storage_layouts import unpack
from .strided_boxes import boxes_within, steps
from .tensor import Tensor

WINDOW_ELEMENTS = 1 << 16
"""Limit of one window: the gaps between a channel's elements on the device are read too, sixteen
times as many bytes.
"""

Ranges = Tuple[Tuple[int, int], ...]


class Window(NamedTuple):
    """Elements ``start`` to ``start + x.size`` of the golden, in C order over
    :attr:`Geometry.sizes`, with the target's.

    Attributes
    ----------
    start
        Number of the first element.
    ranges
        (first, end) of the index along each axis of :attr:`Geometry.letters`.
    x, y
        Elements of the target and of the golden, decoded; their shape is that of the ranges.
    """

    start: int
    ranges: Ranges
    x: Array
    y: Array


def ordered_windows(
    target: Tensor,
    golden: Tensor,
    geometry: Geometry,
    start: int = 0,
    stop: Optional[int] = None,
    most: int = WINDOW_ELEMENTS,
) -> Iterator[Window]:
    """Yield windows that cover, in order, the elements ``start`` to ``stop`` and possibly more at
    either end.

    Parameters
    ----------
    geometry
        Of :func:`goldwatch.tensors.geometry.match_layouts` for these two.
    start, stop
        In elements of the golden; all by default.
    most
        Limit of elements in one window.

    Raises
    ------
    NotComparable
        An element type is not decoded.
    FormatError
        A source holds fewer bytes than its shape needs.
    """
    require_decodable(target.dtype)
    require_decodable(golden.dtype)
    sizes = geometry.sizes
    stop = geometry.count if stop is None else stop
    plain: Optional[Array] = None
    if geometry.layout.groups > 1:
        # Filters with groups have many tiny boxes, and are small.
        plain = unpack(target.array(), geometry.layout, geometry.dims, geometry.letters).reshape(
            sizes
        )
    for ranges in _all_ranges(sizes, start, stop, most):
        first = sum(low * step for (low, _), step in zip(ranges, steps(sizes, "C")))
        y = _plain_part(golden, sizes, ranges, first)
        x = (
            _target_part(target, geometry, ranges, first)
            if plain is None
            else plain[tuple(slice(*pair) for pair in ranges)]
        )
        yield Window(first, ranges, x, y)


def _all_ranges(sizes: Tuple[int, ...], start: int, stop: int, most: int) -> Iterator[Ranges]:
    if start >= stop or 0 in sizes:
        return
    inner, axis = 1, len(sizes)
    while axis > 0 and inner * sizes[axis - 1] <= most:
        axis -= 1
        inner *= sizes[axis]
    if axis == 0:
        yield tuple((0, size) for size in sizes)
        return
    rows = max(1, most // inner)
    whole = tuple((0, size) for size in sizes[axis:])
    cut = sizes[axis - 1]
    pieces: List[Tuple[int, int]] = [(low, min(low + rows, cut)) for low in range(0, cut, rows)]
    strides = steps(sizes, "C")
    for outer in product(
        *(range(low, high) for low, high in _outer_ranges(sizes[: axis - 1], strides, start, stop))
    ):
        base = sum(at * step for at, step in zip(outer, strides))
        for low, high in pieces:
            if base + high * inner > start and base + low * inner < stop:
                yield tuple((at, at + 1) for at in outer) + ((low, high), *whole)


def _outer_ranges(
    sizes: Tuple[int, ...], strides: List[int], start: int, stop: int
) -> List[Tuple[int, int]]:
    """Return the index ranges of the axes that contain elements ``start`` to ``stop``: only the
    first axis with more than one index is cut.
    """
    ranges = [(0, size) for size in sizes]
    for axis, stride in zip(range(len(sizes)), strides):
        low, high = start // stride % sizes[axis], (stop - 1) // stride % sizes[axis]
        if start // (stride * sizes[axis]) != (stop - 1) // (stride * sizes[axis]):
            break
        ranges[axis] = (low, high + 1)
        if low != high:
            break
    return ranges


def _plain_part(golden: Tensor, sizes: Tuple[int, ...], ranges: Ranges, first: int) -> Array:
    shape = tuple(high - low for low, high in ranges)
    if golden.order == "C":
        return golden.elements(first, first + element_count(shape)).reshape(shape)
    strides = tuple(steps(sizes, golden.order))
    begin = sum(low * step for (low, _), step in zip(ranges, strides))
    return fetch(golden, begin, strides, (0,) * len(shape), shape, element_bytes(golden))


def _target_part(target: Tensor, geometry: Geometry, ranges: Ranges, first: int) -> Array:
    shape = tuple(high - low for low, high in ranges)
    width = element_bytes(target)
    values: Optional[Array] = None
    count = element_count(shape)
    for box in boxes_within(geometry, dict(zip(geometry.letters, ranges)), target.order):
        part = fetch(
            target, box.target_start, box.target_strides, (0,) * len(box.sizes), box.sizes, width
        )
        if part.size == count and box.golden_strides == tuple(steps(box.sizes, "C")):
            return part.reshape(shape)
        if values is None:
            values = np.empty(count, part.dtype)
        item = part.dtype.itemsize
        strides = tuple(step * item for step in box.golden_strides)
        np.ndarray(box.sizes, part.dtype, values.data, (box.golden_start - first) * item, strides)[
            ...
        ] = part
    assert values is not None
    return values.reshape(shape)
