"""Converts one tensor to another layout and element type, as an array of stored elements."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

from ...base.errors import GoldwatchError, NotComparable, UsageError
from ...base.notes import Note, note
from ...dumps.dump_file import DumpFile
from ...tensors.dtypes import Array, DType, decode, dtype_by_code, dtype_by_numpy, require_decodable
from ...tensors.geometry import match_layouts
from ...tensors.layout_conversion import convert
from ...tensors.storage_layouts import unpack
from ...tensors.tensor import Tensor
from ...tensors.user_conversions import UserConversions
from .options import ORIGINAL, ConvertOptions

_LOW_FIRST = {"int4": True, "int2": True, "uint2": True, "uint1": False}


class Encoded(NamedTuple):
    """Stored elements, and how many the type could not represent.

    Attributes
    ----------
    raw
        Flat uint8: the bytes as a file holds them.
    overflowed
        Finite numbers that became infinite or NaN, or that were cut to an integer type's range.
    vanished
        Numbers other than zero that became zero.
    """

    raw: Array
    overflowed: int
    vanished: int


def encode(values: Array, dtype: DType) -> Encoded:
    """Return numbers as the stored bytes of an element type.

    Parameters
    ----------
    values
        Any shape, a numeric numpy type; encoded in C order.
    dtype
        Floats are rounded to nearest, ties to even; what is beyond a float type's range becomes
        infinite (NaN where the type has no infinity). To integers, numbers are rounded likewise and
        cut to the type's range; NaN becomes 0 and counts as overflowed.

    Raises
    ------
    NotComparable
        The type is not known well enough to be written, or complex numbers are to become real.
    """
    require_decodable(dtype)
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype.kind == "c" and dtype.kind != "c":
        raise NotComparable("complex numbers cannot become %s" % dtype.name)
    stored = _stored(flat, dtype)
    raw = np.ascontiguousarray(stored).view(np.uint8).reshape(-1)
    return Encoded(raw, *_losses(flat, decode(raw, dtype, flat.size)))


def _stored(flat: Array, dtype: DType) -> Array:
    """Return the elements in storage units."""
    if dtype.name in _LOW_FIRST:
        return _packed(_rounded(flat, *_packed_range(dtype)), dtype)
    if dtype.name == "bfloat16":
        # The upper halves of float32 values, rounded; float64 is rounded once, not by way of
        # float32.
        single = _cast(flat, np.dtype(np.float32))
        if flat.dtype.itemsize > 4:
            single = _to_odd(flat.astype(np.float64), single)
        bits = single.view(np.uint32)
        nan = np.isnan(single)
        upper = (
            (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        ).astype("<u2")
        upper[nan] = (bits[nan] >> np.uint32(16)).astype("<u2") | np.uint16(0x40)
        return upper
    if dtype.name == "complex32":
        with np.errstate(over="ignore"):
            halves: Array = _cast(flat, np.dtype(np.complex64)).view(np.float32).astype("<f2")
        return halves
    if dtype.kind == "f" and dtype.bits == 8:
        return _by_table(flat, dtype)
    if dtype.kind == "b":
        truth: Array = (flat != 0).astype(np.uint8)
        return truth
    plain = np.dtype(dtype.storage)
    if plain.kind in "iu":
        limits = np.iinfo(plain)
        whole: Array = _rounded(flat, int(limits.min), int(limits.max)).astype(plain)
        return whole
    return _cast(flat, plain)


def _cast(flat: Array, plain: Any) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        cast: Array = flat.astype(plain)
        return cast


def _rounded(flat: Array, low: int, high: int) -> Array:
    """Return numbers as integers within a range; integers stay exact."""
    if flat.dtype.kind in "iub":
        whole = flat.astype(np.uint8) if flat.dtype.kind == "b" else flat
        bounds = np.iinfo(whole.dtype)
        clipped: Array = whole.clip(max(low, int(bounds.min)), min(high, int(bounds.max)))
        return clipped
    # The largest float64 below 2**63 and 2**64: the limit itself rounds up and would wrap.
    top = np.nextafter(float(high), 0.0) if float(high) > high else float(high)
    rounded = np.rint(
        np.nan_to_num(flat.astype(np.float64), nan=0.0, posinf=float(top), neginf=float(low))
    )
    whole = rounded.clip(float(low), float(top)).astype(np.uint64 if low >= 0 else np.int64)
    exact: Array = np.where(rounded >= float(high), np.asarray(high, whole.dtype), whole)
    return exact


def _to_odd(exact: Array, single: Array) -> Array:
    """Return float32 values rounded to odd, so that a second rounding to a narrower type is right
    (Boldo and Melquiond, 2008).
    """
    back = single.astype(np.float64)
    bits = single.view(np.int32).copy()
    wrong = np.isfinite(exact) & (back != exact) & ((bits & 1) == 0)
    # One step towards the exact value; the magnitude grows with the bits.
    step = np.where(np.abs(exact) > np.abs(back), 1, -1).astype(np.int32)
    bits[wrong] += step[wrong]
    odd: Array = bits.view(np.float32)
    return odd


def _by_table(flat: Array, dtype: DType) -> Array:
    """Return the bytes of an 8-bit float: the nearest of its values, of two equally near the one
    with an even code.
    """
    codes = np.arange(256, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        table, number = decode(codes, dtype, 256).astype(np.float64), flat.astype(np.float64)
    known = np.isfinite(table)
    values, first = np.unique(table[known], return_index=True)
    order = codes[known][first]
    at = np.searchsorted(values, np.where(np.isfinite(number), number, 0.0)).clip(
        1, values.size - 1
    )
    below, above = values[at - 1], values[at]
    gap_low, gap_high = number - below, above - number
    with np.errstate(invalid="ignore"):
        upper = (gap_high < gap_low) | ((gap_high == gap_low) & ((order[at] & 1) == 0))
    stored = np.where(upper, order[at], order[at - 1])
    zero = codes[(table == 0) & (codes < 128)]
    if zero.size:
        stored = np.where(
            np.signbit(number) & (values[np.where(upper, at, at - 1)] == 0) & (table[128] == 0),
            128,
            stored,
        )
    return _special(stored.astype(np.uint8), number, values, table)


def _special(stored: Array, number: Array, values: Array, table: Array) -> Array:
    """Set what is infinite, NaN or beyond the range."""
    nan_codes, infinities = np.flatnonzero(np.isnan(table)), np.flatnonzero(np.isinf(table))
    nan = int(nan_codes[0])
    up = next((int(code) for code in infinities if table[code] > 0), nan)
    down = next((int(code) for code in infinities if table[code] < 0), nan)
    half = (values[-1] - values[-2]) / 2
    negative_half = (values[1] - values[0]) / 2
    with np.errstate(invalid="ignore"):
        stored[number >= values[-1] + half] = up
        if values[0] < 0:
            stored[number <= values[0] - negative_half] = down
        else:
            stored[number < 0] = nan
    stored[np.isnan(number)] = nan
    return stored


def _packed_range(dtype: DType) -> Tuple[int, int]:
    return (
        (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1)
        if dtype.kind == "i"
        else (0, (1 << dtype.bits) - 1)
    )


def _packed(whole: Array, dtype: DType) -> Array:
    """Return integers of less than a byte, packed as the device packs them; the last byte is filled
    with zeros.
    """
    per_byte = 8 // dtype.bits
    units = np.zeros(-(-whole.size // per_byte) * per_byte, np.uint8)
    units[: whole.size] = (whole.astype(np.int64) & ((1 << dtype.bits) - 1)).astype(np.uint8)
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    if not _LOW_FIRST[dtype.name]:
        shifts = shifts[::-1]
    packed: Array = np.bitwise_or.reduce(units.reshape(-1, per_byte) << shifts, axis=1).astype(
        np.uint8
    )
    return packed


def _losses(before: Array, after: Array) -> Tuple[int, int]:
    """Count what the stored type could not hold."""
    if after.dtype.kind == "c":
        # Real numbers become complex ones with an imaginary part of zero.
        before = before if before.dtype.kind == "c" else before.astype(np.complex128)
        before, after = before.view(before.real.dtype), after.view(after.real.dtype)
    vanished = int(np.count_nonzero((before != 0) & (after == 0) & ~_is_nan(before)))
    if after.dtype.kind == "f":
        return int(np.count_nonzero(_is_finite(before) & ~np.isfinite(after))), vanished
    if after.dtype.kind == "b":
        return 0, vanished
    with np.errstate(invalid="ignore"):
        off = np.abs(before.astype(np.float64) - after.astype(np.float64))
    return int(
        np.count_nonzero(~(off <= 0.5 + np.abs(after.astype(np.float64)) * 2.0**-52))
    ), vanished


def _is_nan(values: Array) -> Array:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)


def _is_finite(values: Array) -> Array:
    return np.isfinite(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)


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
    notes: Tuple[Note, ...] = ()

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
    notes += tuple(note("lost-values", count, values.size, what) for count, what in lost if count)
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
    if dtype.bits < 8:
        count = int(np.prod(shape, dtype=np.int64))
        return decode(raw, dtype, count).reshape(shape)
    units: Array = raw.view(np.dtype(dtype.storage))
    return units.reshape((*shape, 2) if dtype.name == "complex32" else shape)


def _laid_out(
    tensor: Tensor, options: ConvertOptions, user: UserConversions
) -> Tuple[Array, str, Tuple[Note, ...]]:
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
            (note("no-layout", len(tensor.shape)),),
        )
    converted = convert(
        stored, tensor.format, layout, tensor.shape, options.shape, max(1, tensor.sub_format)
    )
    padded = options.shape is None and not _is_plain(tensor.format) and _is_plain(layout)
    return (
        converted,
        layout,
        (note("kept-padding"),) if padded else (),
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
) -> Tuple[Array, str, Tuple[Note, ...]]:
    """Undo the device's layout: the container tells the original shape, not which letter each of
    its dims is.
    """
    original = shape if shape is not None else tensor.original_shape
    if original is None:
        if _is_plain(tensor.format):
            return (
                stored,
                tensor.format,
                (note("plain-layout-kept"),),
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
        taken = note("shape-taken-as", list(original), layout)
        return (
            convert(
                unpack(stored, match.layout, match.dims, match.letters),
                layout,
                target_layout,
                original,
            ),
            target_layout,
            (*match.notes, taken),
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
