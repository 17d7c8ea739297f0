"""Elements of a Fortran-ordered file in C order, with bounded memory."""

from __future__ import annotations

import threading
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from ..errors import FormatError
from ..tensors.tensor import ByteSource

BLOCK_BYTES = 16 * 1024 * 1024
SLAB_BYTES = 4 * 1024 * 1024
# Copied, never computed with; faster than void elements.
_ELEMENTS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}


class FortranSource:
    """The bytes of ``source`` (elements in Fortran order) as if they were in C order.

    One block of at most :data:`BLOCK_BYTES` in C order is kept; it is gathered from slabs that are contiguous in the file, of at most
    :data:`SLAB_BYTES`. A read in order passes over the file once per block.

    Parameters
    ----------
    source
        The bytes as stored.
    shape
        The array's shape.
    itemsize
        Bytes of one element: 1, 2, 4, 8 or 16.
    """

    def __init__(self, source: ByteSource, shape: Tuple[int, ...], itemsize: int, block_bytes: int = BLOCK_BYTES) -> None:
        self._source = source
        self._shape = shape
        self._itemsize = itemsize
        self._block_bytes = block_bytes
        self._axis = _split_axis(shape, block_bytes // itemsize)
        self._row = _product(shape[self._axis + 1 :])
        self._rows = max(1, block_bytes // itemsize // max(1, self._row))
        self._block: Optional[Tuple[int, np.ndarray[Any, Any]]] = None
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes that can be read."""
        return self._source.nbytes

    def __getstate__(self) -> Dict[str, Any]:
        return {"source": self._source, "shape": self._shape, "itemsize": self._itemsize, "block_bytes": self._block_bytes}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__init__(state["source"], state["shape"], state["itemsize"], state["block_bytes"])  # type: ignore[misc]

    def read(self, offset: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Return ``nbytes`` bytes from ``offset`` on, in C order; see :class:`goldwatch.tensors.tensor.ByteSource`."""
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise FormatError("bytes %d to %d lie outside the tensor's %d bytes" % (offset, offset + nbytes, self.nbytes))
        pieces = []
        with self._lock:
            while nbytes > 0:
                start, block = self._block_at(offset // self._itemsize)
                begin = offset - start * self._itemsize
                piece = block[begin : begin + nbytes]
                pieces.append(piece)
                offset += piece.size
                nbytes -= piece.size
        if not pieces:
            return np.empty(0, np.uint8)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _block_at(self, element: int) -> Tuple[int, np.ndarray[Any, Any]]:
        """Return the first element's number and the bytes of the block that holds ``element``."""
        if self._block is not None and self._block[0] <= element < self._block[0] + self._block[1].size // self._itemsize:
            return self._block
        self._block = None
        length = self._shape[self._axis]
        outer, inner = divmod(element, length * self._row)
        first = inner // self._row // self._rows * self._rows
        last = min(first + self._rows, length)
        lead = _unravel(outer, self._shape[: self._axis])
        block = self._gather(lead, first, last)
        self._block = (outer * length * self._row + first * self._row, block)
        return self._block

    def _gather(self, lead: Tuple[int, ...], first: int, last: int) -> np.ndarray[Any, Any]:
        """Return the elements [lead, first:last, …] in C order as bytes."""
        element = np.dtype(_ELEMENTS[self._itemsize])
        out = np.empty((last - first,) + self._shape[self._axis + 1 :], element)
        wanted: List[Tuple[int, int]] = [(index, index + 1) for index in lead] + [(first, last)]
        wanted += [(0, dim) for dim in self._shape[self._axis + 1 :]]
        target = out.reshape((1,) * len(lead) + out.shape)
        for start, ranges in _slabs(self._shape, SLAB_BYTES // self._itemsize):
            cut = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(wanted, ranges)]
            if any(a >= b for a, b in cut):
                continue
            dims = tuple(b - a for a, b in ranges)
            raw = self._source.read(start * self._itemsize, _product(dims) * self._itemsize)
            slab = raw.view(element).reshape(dims, order="F")
            inside = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(cut, ranges))
            place = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(cut, wanted))
            target[place] = slab[inside]
            del raw, slab
        return out.reshape(-1).view(np.uint8)


def _product(dims: Tuple[int, ...]) -> int:
    product = 1
    for dim in dims:
        product *= dim
    return product


def _split_axis(shape: Tuple[int, ...], elements: int) -> int:
    """Return the first axis whose single index holds at most ``elements`` elements."""
    for axis in range(len(shape)):
        if _product(shape[axis + 1 :]) <= elements:
            return axis
    return len(shape) - 1


def _unravel(number: int, shape: Tuple[int, ...]) -> Tuple[int, ...]:
    indices = []
    for dim in reversed(shape):
        number, index = divmod(number, dim)
        indices.append(index)
    return tuple(reversed(indices))


def _slabs(shape: Tuple[int, ...], elements: int) -> Iterator[Tuple[int, List[Tuple[int, int]]]]:
    """Yield (first element, index range per axis) of pieces that are contiguous in Fortran order, at most ``elements`` each."""
    axis, inner = 0, 1
    while axis < len(shape) - 1 and inner * shape[axis] <= elements:
        inner *= shape[axis]
        axis += 1
    step = max(1, elements // inner)
    whole = [(0, dim) for dim in shape[:axis]]
    start = 0
    for outer in range(_product(shape[axis + 1 :])):
        tail = []
        for dim in shape[axis + 1 :]:
            outer, index = divmod(outer, dim)
            tail.append((index, index + 1))
        for first in range(0, shape[axis], step):
            last = min(first + step, shape[axis])
            yield start, whole + [(first, last)] + tail
            start += (last - first) * inner
