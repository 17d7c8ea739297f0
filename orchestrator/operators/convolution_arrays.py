"""Convolutions and their transposes of arrays [N, C, ...], with bounded scratch memory."""

from __future__ import annotations

from itertools import product
from typing import Any, List, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .registry import CannotCompute

Array = Any

SCRATCH_BYTES = 2 << 20
"""How much a slice of the input may grow to when its windows are laid out.

Seven convolutions of usual networks took least time with 0.5 to 2 MiB (a core's cache: 1 MiB), 15
to 50 % more with 16 MiB.
"""


def convolve(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    groups: int,
) -> Array:
    """Return the convolution [N, O, ...] (cross-correlation) of ``x`` [N, C, ...] with ``w`` [O, C
    / groups, ...], padded with zeros.

    Parameters
    ----------
    strides, dilations, begin, end
        One for each axis of the window; pads before and behind.

    Raises
    ------
    ValueError
        The shapes do not fit.
    """
    filters, per_group = w.shape[:2]
    if groups < 1 or x.ndim != w.ndim or x.shape[1] != per_group * groups or filters % groups:
        raise CannotCompute(
            "its input %s and filter %s do not fit in %d groups" % (x.shape, w.shape, groups)
        )
    kernel = w.shape[2:]
    x = _padded(x, begin, end)
    sizes = window_counts(x.shape[2:], kernel, strides, dilations)
    dtype = np.result_type(x, w)
    if per_group == 1 and groups > 1:
        return _depthwise(x, w, strides, dilations, sizes, groups, dtype)
    out = np.empty((x.shape[0], groups, filters // groups) + sizes, dtype)
    flat = np.ascontiguousarray(w.reshape(groups, filters // groups, -1))
    if set(kernel) == set(strides) == {1}:
        # Nothing needs to be laid out.
        for image in range(x.shape[0]):
            plain = x[image].reshape(groups, per_group, -1).astype(dtype, copy=False)
            np.matmul(
                flat.astype(dtype, copy=False),
                plain,
                out=out[image].reshape(groups, filters // groups, -1),
            )
        return out.reshape((x.shape[0], filters) + sizes)
    row_bytes = max(1, x.shape[1] * int(np.prod(kernel)) * int(np.prod(sizes[1:])) * dtype.itemsize)
    rows = max(1, SCRATCH_BYTES // row_bytes)
    for image in range(x.shape[0]):
        grouped = x[image].reshape((groups, per_group) + x.shape[2:])
        windows = _windows(grouped, kernel, strides, dilations, sizes)
        for first in range(0, sizes[0], rows):
            part = windows[
                (slice(None), slice(None))
                + (slice(None),) * len(kernel)
                + (slice(first, first + rows),)
            ]
            laid = np.ascontiguousarray(part, dtype).reshape(groups, flat.shape[2], -1)
            target = out[image][:, :, first : first + rows]
            target[...] = np.matmul(flat, laid).reshape(target.shape)
    return out.reshape((x.shape[0], filters) + sizes)


def window_counts(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Tuple[int, ...]:
    """Return how many windows fit along each axis of a padded tensor.

    Raises
    ------
    ValueError
        Not one fits along some axis.
    """
    counts = tuple(
        (size - (reach - 1) * dilation - 1) // stride + 1
        for size, reach, stride, dilation in zip(sizes, kernel, strides, dilations)
    )
    if (
        not counts
        or min(counts) < 1
        or not len(sizes) == len(kernel) == len(strides) == len(dilations)
    ):
        raise CannotCompute("a window %s does not fit into %s" % (list(kernel), list(sizes)))
    return counts


def transposed(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[int],
    sizes: Sequence[int],
    groups: int,
) -> Array:
    """Return the transposed convolution [N, O, *sizes] of ``x`` [N, C, ...] with ``w`` [C, O /
    groups, ...].

    Each element of ``x`` adds its window to the output at ``stride`` times its place less
    ``begin``; what lies outside of ``sizes`` is dropped, what no window reaches is 0.

    Raises
    ------
    ValueError
        The shapes do not fit.
    """
    channels, per_group = w.shape[:2]
    if (
        groups < 1
        or x.ndim != w.ndim
        or x.shape[1] != channels
        or channels % groups
        or len(sizes) != x.ndim - 2
    ):
        raise CannotCompute(
            "its input %s and filter %s do not fit in %d groups" % (x.shape, w.shape, groups)
        )
    dtype = np.result_type(x, w)
    out = np.zeros((x.shape[0], groups, per_group) + tuple(sizes), dtype)
    grouped = x.reshape((x.shape[0], groups, channels // groups) + x.shape[2:])
    turned = w.reshape((groups, channels // groups, per_group) + w.shape[2:]).swapaxes(1, 2)
    for place in product(*(range(reach) for reach in w.shape[2:])):
        sources: List[slice] = []
        targets: List[slice] = []
        for step, stride, dilation, before, size, length in zip(
            place, strides, dilations, begin, sizes, x.shape[2:]
        ):
            offset = step * dilation - before
            first = max(0, -(offset // stride))
            last = min(length, (size - 1 - offset) // stride + 1)
            sources.append(slice(first, last))
            targets.append(slice(offset + first * stride, offset + (last - 1) * stride + 1, stride))
        if any(source.start >= source.stop for source in sources):
            continue
        part = grouped[(slice(None),) * 3 + tuple(sources)]
        laid = np.ascontiguousarray(part).reshape(part.shape[:3] + (-1,))
        products = np.matmul(turned[(slice(None),) * 3 + place], laid)
        out[(slice(None),) * 3 + tuple(targets)] += products.reshape(
            products.shape[:3] + part.shape[3:]
        )
    return out.reshape((x.shape[0], groups * per_group) + tuple(sizes))


def _padded(x: Array, begin: Sequence[int], end: Sequence[int]) -> Array:
    """Return it contiguous, with zeros around; negative pads cut."""
    if min(list(begin) + list(end)) < 0:
        cut = tuple(
            slice(max(0, -before), size - max(0, -after))
            for before, after, size in zip(begin, end, x.shape[2:])
        )
        x = x[(slice(None), slice(None)) + cut]
    pads = [(max(0, before), max(0, after)) for before, after in zip(begin, end)]
    if not any(before or after for before, after in pads):
        return np.ascontiguousarray(x)
    out = np.zeros(
        x.shape[:2]
        + tuple(size + before + after for size, (before, after) in zip(x.shape[2:], pads)),
        x.dtype,
    )
    inner = tuple(slice(before, before + size) for size, (before, _) in zip(x.shape[2:], pads))
    out[(slice(None), slice(None)) + inner] = x
    return out


def _windows(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    sizes: Sequence[int],
) -> Array:
    """Return a view [..., *kernel, *sizes] of all windows of ``x`` [..., *axes]."""
    axes = len(kernel)
    steps = x.strides[-axes:]
    return as_strided(
        x,
        x.shape[:-axes] + tuple(kernel) + tuple(sizes),
        x.strides[:-axes]
        + tuple(step * dilation for step, dilation in zip(steps, dilations))
        + tuple(step * stride for step, stride in zip(steps, strides)),
        writeable=False,
    )


def _depthwise(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    sizes: Tuple[int, ...],
    groups: int,
    dtype: Any,
) -> Array:
    """Add up the products of each place in the window: nothing is laid out."""
    multiplier = w.shape[0] // groups
    out = np.zeros((x.shape[0], groups, multiplier) + sizes, dtype)
    weights = w.reshape((groups, multiplier) + w.shape[2:]).astype(dtype)
    axes = len(sizes)
    # Some channels at a time, so that what is added to stays in a cache.
    chunk = max(1, (1 << 20) // max(1, multiplier * int(np.prod(sizes)) * dtype.itemsize))
    for image in range(x.shape[0]):
        for first in range(0, groups, chunk):
            chunk_channels = slice(first, first + chunk)
            target = out[image, chunk_channels]
            scratch = np.empty_like(target)
            for place in product(*(range(reach) for reach in w.shape[2:])):
                window = tuple(
                    slice(step * dilation, step * dilation + (size - 1) * stride + 1, stride)
                    for step, dilation, stride, size in zip(place, dilations, strides, sizes)
                )
                part = x[(image, chunk_channels, None) + window]
                np.multiply(
                    part,
                    weights[(chunk_channels, slice(None)) + place].reshape(
                        (-1, multiplier) + (1,) * axes
                    ),
                    out=scratch,
                )
                target += scratch
    return out.reshape((x.shape[0], groups * multiplier) + sizes)
