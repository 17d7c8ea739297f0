"""Integers as the numbers that they stand for: x = (q − offset) / scale, computed in float64 as
they are read.

Source of the formula: the vendor's description of the operator AscendQuant, q = round(x · scale +
offset).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Tuple

import numpy as np

from ..tensors.dtypes import Array, DType
from ..tensors.tensor import Tensor

_BYTES = 8


class _Numbers:
    """The bytes of the numbers; picklable."""

    def __init__(self, stored: Tensor, scale: float, offset: float) -> None:
        self._stored, self._scale, self._offset = stored, scale, offset

    @property
    def nbytes(self) -> int:
        """Bytes that can be read."""
        return _BYTES * (self._stored.source.nbytes * 8 // self._stored.dtype.bits)

    def read(self, offset: int, nbytes: int) -> Array:
        """Return bytes as :class:`goldwatch.tensors.tensor.ByteSource` does; whole numbers of
        them.
        """
        first, last = offset // _BYTES, (offset + nbytes) // _BYTES
        numbers = (
            self._stored.elements(first, last).astype(np.float64) - self._offset
        ) / self._scale
        raw: Array = numbers.view(np.uint8)
        return raw


def is_integer(dtype: DType) -> bool:
    """Tell whether elements are integers, which stand for other numbers in a quantised net."""
    return dtype.kind in ("i", "u")


def not_integers(dtype: DType) -> str:
    """Return why what a quantising op wrote in a type that is no integer's is not compared."""
    return (
        "quantised data, stored as %s: nothing says whether they are still integers, so they "
        "are not dequantised" % dtype.name
    )


def dequantised(stored: Tensor, quantisation: Tuple[float, float]) -> Tensor:
    """Return a tensor of integers as float64 numbers that are still called what they are stored as:
    limits go by that.

    Parameters
    ----------
    quantisation
        (scale, offset).
    """
    dtype = stored.dtype
    return replace(
        stored,
        dtype=DType(dtype.code, dtype.name, 8 * _BYTES, "f", "<f8"),
        source=_Numbers(stored, *quantisation),
    )
