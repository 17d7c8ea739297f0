"""A recorded tensor in the original model's layout, read whole or in parts."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

import numpy as np

from ..base.element_types import element_count
from ..tensors.dtypes import decode, nbytes
from ..tensors.geometry import Geometry, match_layouts
from ..tensors.storage_layouts import layout_of, unpack
from .input_feeds import Feed, original_shape, original_values
from .output_error import floats
from .piece import rounded

Array = Any
Shape = Tuple[int, ...]


class RecordedTensor:
    """A recorded tensor in the shape and layout of the original model.

    Parameters
    ----------
    feed
        The tensor and its form by the model.
    original_shape_known
        Its shape in the original model; None: unknown.
    fit_shape
        Adapts a shape to the form of the original model.
    dtype
        Type to which values are rounded; empty: no rounding.

    Attributes
    ----------
    shape
        In the original layout; None if known only after reading the tensor.
    axis
        Axis along which parts can be read without the rest; None: none.
    """

    def __init__(
        self,
        feed: Feed,
        original_shape_known: Optional[Shape] = None,
        fit_shape: Callable[[Shape], Shape] = lambda shape: shape,
        dtype: str = "",
    ) -> None:
        self._feed, self._original_shape, self._fit_shape, self._dtype = (
            feed,
            original_shape_known,
            fit_shape,
            dtype,
        )
        self._whole: Optional[Array] = None
        self._wide: Optional[Array] = None
        # The axis along which it is read in parts, and of how many indices these are; how it lies
        # in blocks.
        self._read: Optional[Tuple[int, int]] = None
        self._geometry: Optional[Geometry] = None
        self.shape: Optional[Shape] = None
        self._find_shape_and_axis()

    @property
    def axis(self) -> Optional[int]:
        """The axis along which parts are read without the rest; None: along none."""
        return None if self._read is None else self._read[0]

    @property
    def block(self) -> int:
        """Parts along :attr:`axis` start at multiples of this many indices."""
        return 1 if self._read is None else self._read[1]

    @property
    def stored_bytes(self) -> int:
        """Bytes of the whole tensor as it is recorded."""
        return nbytes(self._feed.tensor.dtype, self._feed.tensor.count)

    @property
    def name(self) -> str:
        """The element type, as in the DataType column: that to which values are rounded, if any."""
        return self._dtype or self._feed.tensor.dtype.name

    def _find_shape_and_axis(self) -> None:
        """Set the shape, and the axis along which it can be read in parts: the first stored axis
        with more than one element.
        """
        tensor, desc = self._feed.tensor, self._feed.desc
        layout = layout_of(
            tensor.format,
            tensor.shape,
            max(1, tensor.sub_format) if tensor.format == "FRACTAL_Z" else 1,
        )
        if layout is None or tensor.order != "C" or tensor.dtype.bits % 8 or self._feed.reshaped:
            return
        if not layout.blocks:
            base, block = tensor.shape, 1
            transposed = (
                desc.origin_format is not None
                and desc.origin_format != tensor.format
                and len(base) == 4
            )
        else:
            original = (
                desc.origin_shape
                if desc.origin_shape is not None and min(desc.origin_shape, default=0) >= 0
                else tensor.original_shape
            )
            if original is None or tensor.format not in ("NC1HWC0", "NDC1HWC0"):
                return
            base, block = tuple(original), tensor.shape[-1]
            transposed = False
        axis = next((number for number, size in enumerate(tensor.shape) if size > 1), None)
        channels = bool(layout.blocks) and axis == 1
        if channels and (
            tensor.format != "NC1HWC0" or desc.origin_format not in (None, "NCHW") or len(base) != 4
        ):
            axis = None
        if layout.blocks and axis is not None and axis > 1:
            axis = None
        shape = original_shape(base, self._original_shape, self._feed.shape)
        if transposed or shape is None:
            return
        self.shape = self._fit_shape(shape)
        if axis is None or any(
            len(dims) <= axis or dims[:axis] != (1,) * axis for dims in (base, self.shape)
        ):
            return
        if base[axis] != self.shape[axis] or (not channels and tensor.shape[axis] != base[axis]):
            return
        if layout.blocks:
            self._geometry = match_layouts(tensor, base, desc.origin_format, base)
            if self._geometry.shape != base:
                return
        self._read = axis, block if channels else 1

    def part(self, axis: int, first: int, last: int) -> Array:
        """Return a part along an axis, as recorded: floats that are narrower than float32 stay
        so.
        """
        if (
            self._read is None
            or axis != self._read[0]
            or first % self._read[1]
            or self.shape is None
        ):
            return self.whole()[(slice(None),) * axis + (slice(first, last),)]
        tensor = self._feed.tensor
        size = nbytes(tensor.dtype, tensor.count) // tensor.shape[axis]
        begin, end = first // self._read[1], -(-last // self._read[1])
        raw = tensor.source.read(begin * size, (end - begin) * size)
        if self._geometry is not None:
            geometry = self._geometry
            stored = raw.view("V%d" % (tensor.dtype.bits // 8)).reshape(
                tensor.shape[:axis] + (end - begin,) + tensor.shape[axis + 1 :]
            )
            raw = (
                unpack(
                    stored,
                    geometry.layout,
                    {**geometry.dims, geometry.letters[axis]: last - first},
                    geometry.letters,
                )
                .reshape(-1)
                .view(np.uint8)
            )
        shape = self.shape[:axis] + (last - first,) + self.shape[axis + 1 :]
        return self._rounded(decode(raw, tensor.dtype, element_count(shape)).reshape(shape))

    def whole(self) -> Array:
        """Return all values as recorded; cached."""
        if self._whole is None:
            values = original_values(self._feed, self._original_shape)
            self._whole = self._rounded(values.reshape(self._fit_shape(values.shape)))
            self.shape = self._whole.shape
        return self._whole

    def wide(self) -> Array:
        """Return all values, floats as float32 or wider; cached."""
        if self._wide is None:
            self._wide = widened(self.whole())
        return self._wide

    def _rounded(self, values: Array) -> Array:
        return rounded(values, self._dtype) if self._dtype else values


def widened(values: Array) -> Array:
    """Return floats as float32 at least."""
    return floats(values) if values.dtype.kind == "f" and values.dtype.itemsize < 4 else values


def count_of(shape: Optional[Shape]) -> int:
    """Return the number of elements of a shape; 0 where it is not known."""
    return 0 if shape is None else element_count(shape)
