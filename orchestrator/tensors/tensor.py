"""A stored tensor: element type, shape, layout, and a source of its bytes that is read in
windows."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import FormatError, NotComparable
from ..base.fast_dataclasses import dataclass
from .dtypes import Array, DType, decode, dtype_by_numpy, nbytes, require_decodable

if TYPE_CHECKING or sys.version_info >= (3, 8):
    from typing import Protocol
else:
    Protocol = object


WINDOW_BYTES = 16 * 1024 * 1024
"""Limit of bytes read from a file, or held of a tensor, at once."""

PIECE_BYTES = 1 << 20
"""Bytes read at once in a single pass that may end early: they fit the processor's cache.
"""


class ByteSource(Protocol):
    """Source of a tensor's bytes: a range of a file, or memory."""

    @property
    def nbytes(self) -> int:
        """Bytes that can be read."""

    def read(self, offset: int, nbytes: int) -> Array:
        """Return ``nbytes`` bytes at ``offset`` as a 1-D uint8 array, possibly a read-only view."""


class MemorySource:
    """The bytes of an array in memory (copied only if the array is not C-contiguous)."""

    def __init__(self, array: Any) -> None:
        self._bytes: Array = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes that can be read."""
        return int(self._bytes.size)

    def read(self, offset: int, nbytes: int) -> Array:
        """Return a view of the bytes; see :class:`ByteSource`."""
        return self._bytes[offset : offset + nbytes]


class HeldBytes:
    """The bytes of a small tensor: a :class:`ByteSource` that is cheap to make, compare and
    pickle."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> Tuple[Any, ...]:
        return HeldBytes, (self.data,)

    @property
    def nbytes(self) -> int:
        """Bytes that can be read."""
        return len(self.data)

    def read(self, offset: int, nbytes: int) -> Array:
        """Return a read-only view of the bytes; see :class:`ByteSource`."""
        return np.frombuffer(self.data, np.uint8, nbytes, offset)


@dataclass(frozen=True)
class Tensor:
    """A tensor whose bytes are read on demand. Picklable if its source is.

    Attributes
    ----------
    shape
        As stored, in ``format`` (``(1, 4, 56, 56, 16)`` for NC1HWC0), C order.
    format
        Layout name of :mod:`goldwatch.tensors.storage_layouts`; ``ND`` if none applies.
    source
        The bytes.
    sub_format
        Groups of a FRACTAL_Z filter; 0 and 1 mean none.
    original_shape
        The shape before the device's layout was applied, from the container; None when absent.
    order
        ``C``: the last dim is contiguous; ``F``: the first dim is (some npy files).
    """

    dtype: DType
    shape: Tuple[int, ...]
    format: str
    source: ByteSource
    sub_format: int = 0
    original_shape: Optional[Tuple[int, ...]] = None
    order: str = "C"

    @property
    def count(self) -> int:
        """Number of elements, padding included; a scalar has one."""
        return element_count(self.shape)

    def elements(self, start: int, stop: int, halves: bool = False) -> Array:
        """Return elements ``start`` to ``stop`` in storage order, decoded, one-dimensional; only
        their bytes are read.

        ``halves``: as for :func:`goldwatch.tensors.dtypes.decode`.

        Raises
        ------
        NotComparable
            The element type is not decoded.
        FormatError
            The source has fewer bytes than the elements need.
        """
        require_decodable(self.dtype)
        bits = self.dtype.bits
        offset = start * bits // 8
        end = nbytes(self.dtype, stop)
        if end > self.source.nbytes:
            self.require_bytes()
            raise FormatError(
                "elements %d to %d are behind the end of %s %s"
                % (start, stop, self.dtype.name, list(self.shape))
            )
        return decode(
            self.source.read(offset, end - offset),
            self.dtype,
            stop - start,
            (start * bits - offset * 8) // bits,
            halves,
        )

    def require_bytes(self) -> None:
        """Raise FormatError unless the source has the bytes of all elements."""
        needed = nbytes(self.dtype, self.count)
        if needed > self.source.nbytes:
            text = "%s %s needs %d bytes, got %d" % (
                self.dtype.name,
                list(self.shape),
                needed,
                self.source.nbytes,
            )
            raise FormatError(getattr(self.source, "lacking", text))

    def array(self) -> Array:
        """Return the whole tensor, decoded, in its stored shape (for small tensors and
        conversions).

        Raises
        ------
        NotComparable
            The element type is not decoded, or numpy has no array of such dims.
        FormatError
            The source has fewer bytes than the elements need.
        """
        self.require_bytes()
        flat = self.elements(0, self.count)
        try:
            return flat.reshape(self.shape, order="F" if self.order == "F" else "C")
        except ValueError:  # without elements a dim may be larger than any array's
            raise NotComparable("numpy has no array of shape %s" % list(self.shape)) from None

    def in_c_order(self) -> Tensor:
        """Return the tensor, or an in-memory copy in C order if it is in Fortran order.

        Raises
        ------
        NotComparable
            The element type is not decoded.
        FormatError
            The source has fewer bytes than the elements need.
        """
        return self if self.order == "C" else self.transposed(tuple(range(len(self.shape))))

    def transposed(self, axes: Sequence[int]) -> Tensor:
        """Return an in-memory copy in C order with the axes in another order, as
        :func:`numpy.transpose`; raises as :meth:`in_c_order`.
        """
        require_decodable(self.dtype)
        self.require_bytes()
        # Units of the element's size, never computed with: complex32, bfloat16 and swapped bytes
        # stay as they are.
        units = self.source.read(0, nbytes(self.dtype, self.count)).view(
            "V%d" % (self.dtype.bits // 8)
        )
        moved = units.reshape(self.shape, order="F" if self.order == "F" else "C").transpose(axes)
        source = MemorySource(moved.reshape(-1, order="C").view(np.uint8))
        return replace(self, shape=moved.shape, source=source, order="C")

    @classmethod
    def from_array(cls, array: Any, format: str = "ND", **fields: Any) -> Tensor:
        """Return a tensor over an array in memory; ``fields`` are further attributes."""
        data = np.asarray(array)
        return cls(
            dtype_by_numpy(data.dtype), tuple(data.shape), format, MemorySource(data), **fields
        )
