"""Whole-array conversion between any two layouts, for the convert command, tests and small
tensors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import FormatError, NotComparable, UsageError
from .dtypes import Array, nbytes
from .geometry import match_layouts
from .storage_layouts import (
    Dims,
    Layout,
    default_c0,
    device_layout,
    format_code,
    layout_of,
    pack,
    padded_dims,
    unpack,
)
from .tensor import MemorySource, Tensor


def original_array(tensor: Tensor) -> Array:
    """Return the whole tensor, decoded, in its original shape and without padding.

    Raises
    ------
    NotComparable
        Its original shape is not known (and its layout is not a plain one), or does not fit what is
        stored.
    """
    shape = tensor.original_shape
    if shape is None:
        layout = layout_of(tensor.format, tensor.shape)
        if layout is None or layout.blocks:
            raise NotComparable(
                "the original shape of %s %s is not known" % (tensor.format, list(tensor.shape))
            )
        return tensor.array()
    geometry = match_layouts(tensor, shape, None, shape)
    return unpack(tensor.array(), geometry.layout, geometry.dims, geometry.letters).reshape(
        geometry.shape
    )


def plain_tensor(
    tensor: Tensor,
    origin_format: Optional[str] = None,
    origin_shape: Optional[Sequence[int]] = None,
) -> Tensor:
    """Return the tensor in memory in its original layout and shape without padding; the tensor
    itself if its layout is plain.

    Parameters
    ----------
    origin_format, origin_shape
        From the model; else the container's original shape is used, with a layout inferred from it.

    Raises
    ------
    NotComparable
        The layout is not supported, or there is no original shape that fits.
    FormatError
        The source has fewer bytes than the elements need.
    """
    layout = layout_of(
        tensor.format,
        tensor.shape,
        max(1, tensor.sub_format) if tensor.format == "FRACTAL_Z" else 1,
    )
    if layout is not None and not layout.blocks:
        return tensor
    known = (
        origin_shape
        if origin_shape is not None and min(origin_shape, default=0) >= 0
        else tensor.original_shape
    )
    if known is None:
        raise NotComparable(
            "the original shape of %s %s is not known" % (tensor.format, list(tensor.shape))
        )
    geometry = match_layouts(tensor, known, origin_format, known)
    if tensor.dtype.bits < 8:
        stored = tensor.array()
    else:
        tensor.require_bytes()
        # Units of the element's size, never computed with: complex32 and bfloat16 stay as they are.
        stored = (
            tensor.source.read(0, nbytes(tensor.dtype, tensor.count))
            .view("V%d" % (tensor.dtype.bits // 8))
            .reshape(tensor.shape)
        )
    plain = unpack(stored, geometry.layout, geometry.dims, geometry.letters).reshape(geometry.shape)
    letters = "".join(geometry.letters)
    format = letters if format_code(letters) is not None else "ND"
    if tensor.dtype.bits < 8:
        return Tensor.from_array(plain, format)
    return replace(
        tensor,
        shape=geometry.shape,
        format=format,
        source=MemorySource(plain),
        sub_format=0,
        original_shape=None,
    )


def convert(
    array: Array,
    format_from: str,
    format_to: str,
    shape_from: Sequence[int],
    shape_to: Optional[Sequence[int]] = None,
    groups: int = 1,
) -> Array:
    """Return a tensor in another layout; the inverse is the same call with the formats and shapes
    exchanged.

    Parameters
    ----------
    array
        The elements in ``format_from``, flat or in ``shape_from``.
    shape_to
        The result's shape. Required if the stored shape does not determine the dims (from FRACTAL_Z
        and FRACTAL_NZ); otherwise it determines the padding to remove, and without it the padding
        stays. To a device layout its last dim gives C0 (default: 16, for 8-bit elements 32).
    groups
        Groups of a FRACTAL_Z filter.

    Raises
    ------
    UsageError
        There is no such conversion, or ``shape_to`` is required and missing.
    FormatError
        Shapes, layouts and the number of elements do not agree.
    """
    stored = np.asarray(array)
    size = element_count(shape_from)
    if stored.size != size:
        raise FormatError(
            "shape %s has %d elements, the array %d" % (list(shape_from), size, stored.size)
        )
    if (
        format_from == "FRACTAL_NZ"
        and len(shape_from) == 4
        and shape_to is not None
        and len(shape_to) == 4
    ):
        matrix = convert(stored, format_from, "ND", shape_from, _as_matrix(shape_to, shape_from))
        return matrix.reshape(tuple(shape_to))
    if (
        format_to == "FRACTAL_NZ"
        and len(shape_from) == 4
        and shape_to is not None
        and len(shape_to) == 4
    ):
        return convert(stored, "ND", format_to, _as_matrix(shape_from, shape_to), shape_to)
    source = _require(layout_of(format_from, shape_from, groups), format_from)
    target = _target(format_to, shape_to, stored.dtype.itemsize, source, groups)
    source, target = _same_letters(source, target, shape_from)
    dims = _dims(source, tuple(shape_from), target, shape_to)
    if source.stored_shape(dims) != tuple(shape_from):
        raise _mismatch(format_from, shape_from, format_to, shape_to)
    letters = target.letters if source.blocks else source.letters
    plain = unpack(stored.reshape(tuple(shape_from)), source, dims, letters)
    result = pack(plain, letters, target)
    if shape_to is not None and result.shape != tuple(shape_to):
        if [size for size in result.shape if size != 1] != [size for size in shape_to if size != 1]:
            raise _mismatch(format_from, shape_from, format_to, shape_to)
        result = result.reshape(tuple(shape_to))
    return result


def _as_matrix(shape: Sequence[int], stored: Sequence[int]) -> Tuple[int, int]:
    """Return the dims of the matrix in a FRACTAL_NZ of four dims: [N, C·H·W] of a fully connected
    op's [N, C, H, W], else [H, W].
    """
    flat = shape[0], shape[1] * shape[2] * shape[3]
    blocks = -(-flat[1] // max(1, stored[3])), -(-flat[0] // max(1, stored[2]))
    return (
        (shape[2], shape[3]) if tuple(shape[:2]) == (1, 1) and blocks != tuple(stored[:2]) else flat
    )


def _mismatch(
    format_from: str, shape_from: Sequence[int], format_to: str, shape_to: Optional[Sequence[int]]
) -> FormatError:
    return FormatError(
        "%s %s cannot be laid out as %s %s"
        % (format_from, list(shape_from), format_to, list(shape_to or ()))
    )


def _require(layout: Optional[Layout], format: str) -> Layout:
    if layout is None:
        raise UsageError(
            "layout %s is not supported" % format, hint="a user conversion can be given for it"
        )
    return layout


def _target(
    format_to: str, shape_to: Optional[Sequence[int]], itemsize: int, source: Layout, groups: int
) -> Layout:
    """Return the layout to convert to, with default rank and block sizes if no shape is given."""
    if shape_to is not None:
        return _require(layout_of(format_to, shape_to, groups), format_to)
    layout = _require(
        device_layout(format_to, len(source.letters), default_c0(8 * itemsize), groups), format_to
    )
    if (
        layout.letters[:1] == ("0",)
        and len(layout.letters) > 1
        and set(format_to) <= set("NCDHW")
        and format_to not in ("ND", "NC", "CN")
    ):
        raise UsageError(
            "there is no conversion from %s with %d dims to %s"
            % (source.name, len(source.letters), format_to)
        )
    return layout


def _dims(
    source: Layout, shape_from: Tuple[int, ...], target: Layout, shape_to: Optional[Sequence[int]]
) -> Dims:
    if not source.blocks:
        return dict(zip(source.letters, shape_from))
    if not target.blocks and shape_to is not None:
        fitting = source.fits(shape_to, target.letters, shape_from)
        if not fitting:
            raise _mismatch(source.name, shape_from, target.name, shape_to)
        return fitting[0]
    dims = padded_dims(source, shape_from) if source.name != "FRACTAL_NZ" else None
    if dims is None and shape_to is not None:
        dims = padded_dims(target, shape_to)
    if dims is None:
        what = "%s %s does not tell the shape in %s" % (source.name, list(shape_from), target.name)
        raise UsageError(what, hint="give the target shape, such as 1,1000")
    return dims


def _same_letters(
    source: Layout, target: Layout, shape_from: Sequence[int]
) -> Tuple[Layout, Layout]:
    """Return the two layouts with the same letters; unnamed dims take the letters of the other side
    by position.
    """
    if sorted(source.letters) == sorted(target.letters):
        return source, target
    free_source = not source.blocks and (
        source.letters[:1] == ("0",) or target.name == "FRACTAL_NZ"
    )
    free_target = not target.blocks and (
        target.letters[:1] == ("0",) or source.name == "FRACTAL_NZ"
    )
    if free_target:
        return source, _plain(target.name, source.letters)
    if free_source and len(source.letters) == len(target.letters):
        return _plain(source.name, target.letters), target
    raise UsageError(
        "there is no conversion from %s %s to %s" % (source.name, list(shape_from), target.name)
    )


def _plain(name: str, letters: Tuple[str, ...]) -> Layout:
    return Layout(name, tuple((letter, "") for letter in letters), (1,) * len(letters))
