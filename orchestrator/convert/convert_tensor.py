"""Converts one tensor to another layout and element type, as an array of stored elements."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import numpy as np

from ..dumps.dump_file import DumpFile
from ..errors import GoldwatchError, NotComparable, UsageError
from ..tensors.dtypes import Array, DType, decode, dtype_by_code, dtype_by_numpy
from ..tensors.geometry import match_layouts
from ..tensors.layout_conversion import convert
from ..tensors.storage_layouts import unpack
from ..tensors.tensor import Tensor
from ..tensors.user_conversions import UserConversions
from .encode_elements import encode
from .options import ORIGINAL, ConvertOptions

_PLAIN = ("NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN", "DHWNC", "ND", "RESERVED")

_LEAST_RANK = 2


class Converted(NamedTuple):
    """A tensor after its conversion.

    Attributes
    ----------
    units
        In its new shape: stored units (uint16 for bfloat16, uint8 for 8-bit floats), or numbers for
        types of less than a byte.
    dtype
        Its element type.
    layout
        Its layout's name; ``original`` was found out.
    notes
        What was assumed or lost.
    """

    units: Array
    dtype: DType
    layout: str
    notes: Tuple[str, ...] = ()

    def numbers(self) -> Array:
        """Return the elements as numbers of the nearest numpy type."""
        if self.dtype.bits < 8:
            return self.units
        flat = np.ascontiguousarray(self.units).reshape(-1)
        return decode(
            flat.view(np.uint8),
            self.dtype,
            flat.size // (2 if self.dtype.name == "complex32" else 1),
        ).reshape(self.shape)

    def raw(self) -> Array:
        """Return the bytes as a file holds them, flat uint8."""
        if self.dtype.bits < 8:
            return encode(self.units, self.dtype).raw
        return np.ascontiguousarray(self.units).reshape(-1).view(np.uint8)

    @property
    def shape(self) -> Tuple[int, ...]:
        """The tensor's shape in its layout."""
        return self.units.shape[:-1] if self.dtype.name == "complex32" else self.units.shape


def convert_tensor(tensor: Tensor, options: ConvertOptions, user: UserConversions) -> Converted:
    """Convert a tensor to the layout, shape and element type of the options.

    Raises
    ------
    UsageError, FormatError, NotComparable
        There is no such conversion, the shapes do not agree, or the type has no numbers.
    """
    units, layout, notes = _laid_out(tensor, options, user)
    dtype = tensor.dtype
    if foreign_order(dtype):
        units, dtype = units.astype(units.dtype.newbyteorder("<")), dtype_by_code(dtype.code)
    if options.dtype is None or options.dtype.name == dtype.name:
        return Converted(units, dtype, layout, notes)
    values = Converted(units, dtype, layout).numbers()
    encoded = encode(values, options.dtype)
    lost = [(encoded.overflowed, "overflowed"), (encoded.vanished, "became zero")]
    notes += tuple(
        "%d of %d elements %s" % (count, values.size, what) for count, what in lost if count
    )
    return Converted(_units(encoded.raw, options.dtype, values.shape), options.dtype, layout, notes)


def dumped_output(path: str, shape: Optional[Tuple[int, ...]] = None) -> Array:
    """Return the first output of a dump file.

    Parameters
    ----------
    shape
        In the original model; None: the shape in the file.

    Raises
    ------
    MissingPath, FormatError, NotComparable
        There is no such file or output, it is damaged, or it cannot be brought to that shape.
    """
    tensor = DumpFile.open(path).tensor("output", 0)
    return convert_tensor(
        tensor, ConvertOptions(layout=ORIGINAL, shape=shape), UserConversions()
    ).numbers()


def foreign_order(dtype: DType) -> bool:
    """Return whether elements are big-endian, as only npy files may have them."""
    return dtype.storage is not None and np.dtype(dtype.storage).newbyteorder("<") != np.dtype(
        dtype.storage
    )


def _units(raw: Array, dtype: DType, shape: Tuple[int, ...]) -> Array:
    """Return stored bytes as units in a shape."""
    if dtype.bits < 8:
        count = int(np.prod(shape, dtype=np.int64))
        return decode(raw, dtype, count).reshape(shape)
    units: Array = raw.view(np.dtype(dtype.storage))
    return units.reshape((*shape, 2) if dtype.name == "complex32" else shape)


def _laid_out(
    tensor: Tensor, options: ConvertOptions, user: UserConversions
) -> Tuple[Array, str, Tuple[str, ...]]:
    size = tensor.source.nbytes
    tensor.require_bytes()
    try:
        stored = _units(np.array(tensor.source.read(0, size)), tensor.dtype, tensor.shape)
    except ValueError:  # without elements a dim may be larger than any array's
        raise NotComparable("numpy has no array of shape %s" % list(tensor.shape)) from None
    layout = options.layout
    if layout is None:
        shape = options.shape
        if shape is not None:
            return stored.reshape(_same_count(stored, shape)), tensor.format, ()
        return stored, tensor.format, ()
    if layout != ORIGINAL and user.has(tensor.format, layout):
        shape = options.shape if options.shape is not None else _shape_in(tensor, stored, layout)
        return user.convert(tensor.format, layout, tensor.shape, shape, stored), layout, ()
    if tensor.dtype.name == "complex32":
        raise NotComparable("complex32 is converted in its own layout only")
    if layout == ORIGINAL or (
        options.shape is None and tensor.original_shape is not None and _is_plain(layout)
    ):
        return _to_original(tensor, stored, layout, options.shape)
    if layout == tensor.format and options.shape in (None, tensor.shape):
        return stored, layout, ()
    if options.shape is None and len(tensor.shape) < _LEAST_RANK and _is_plain(tensor.format):
        return (
            stored,
            tensor.format,
            ("a tensor of %d dims has no layout, and was kept" % len(tensor.shape),),
        )
    converted = convert(
        stored, tensor.format, layout, tensor.shape, options.shape, max(1, tensor.sub_format)
    )
    padded = options.shape is None and not _is_plain(tensor.format) and _is_plain(layout)
    return (
        converted,
        layout,
        ("no original shape is known: what fills the last blocks is kept",) if padded else (),
    )


def _shape_in(tensor: Tensor, stored: Array, layout: str) -> Optional[Tuple[int, ...]]:
    """Return the tensor's shape in a plain layout, as far as the container's original shape tells
    it.
    """
    original = tensor.original_shape
    if original is None or tensor.dtype.name == "complex32" or not _is_plain(layout):
        return None
    try:
        match = match_layouts(_as_stored(tensor, stored), original, None, original, None)
    except GoldwatchError:
        return None
    sizes = dict(zip(match.letters, match.sizes))
    return (
        tuple(sizes[letter] for letter in layout)
        if sorted(sizes) == sorted(layout)
        else tuple(original)
    )


def _same_count(stored: Array, shape: Tuple[int, ...]) -> Tuple[int, ...]:
    if int(np.prod(shape, dtype=np.int64)) != stored.size:
        raise UsageError(
            "shape %s has another number of elements than %s" % (list(shape), list(stored.shape))
        )
    return shape


def _is_plain(layout: str) -> bool:
    return layout in _PLAIN


def _to_original(
    tensor: Tensor, stored: Array, layout_wanted: str, shape: Optional[Tuple[int, ...]]
) -> Tuple[Array, str, Tuple[str, ...]]:
    """Undo the device's layout: the container tells the original shape, not which letter each of
    its dims is.
    """
    original = shape if shape is not None else tensor.original_shape
    if original is None:
        if _is_plain(tensor.format):
            return (
                stored,
                tensor.format,
                ("the container tells no original shape; the layout is a plain one and was kept",),
            )
        raise NotComparable(
            "the container tells no original shape of its %s %s"
            % (tensor.format, list(tensor.shape))
        )
    target_layout = None if layout_wanted == ORIGINAL else layout_wanted
    match = match_layouts(
        _as_stored(tensor, stored), original, target_layout, original, target_layout
    )
    letters = "".join(match.letters)
    layout = letters if letters in _PLAIN else "ND"
    if (
        target_layout is not None
        and layout not in (target_layout, "ND")
        and target_layout not in ("ND", "RESERVED")
    ):
        text = "the original shape %s is taken as %s" % (list(original), layout)
        return (
            convert(
                unpack(stored, match.layout, match.dims, match.letters),
                layout,
                target_layout,
                original,
            ),
            target_layout,
            (*match.notes, text),
        )
    return (
        unpack(stored, match.layout, match.dims, match.letters).reshape(match.shape),
        target_layout or layout,
        tuple(match.notes),
    )


def _as_stored(tensor: Tensor, stored: Array) -> Tensor:
    dtype = tensor.dtype if tensor.dtype.bits >= 8 else dtype_by_numpy(stored.dtype)
    return Tensor(
        dtype, tensor.shape, tensor.format, tensor.source, tensor.sub_format, tensor.original_shape
    )
