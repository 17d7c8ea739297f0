"""The compiled passes as Python sees them: the only caller of the C code.

It hands over numpy's own arrays, of types that the code knows, as addresses with shape and strides; what does not fit is refused here.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

REVISION = 1
"""Of what is agreed with the C source; changes with it."""

# The numbers of the C source for element types.
_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
_CODES: Dict[str, int] = {
    char: _TYPES.index("%s%d" % (np.dtype(char).kind, np.dtype(char).itemsize)) for char in "bBhHiIlLqQefd"
}  # fmt: skip


class Found(NamedTuple):
    """What one pass over a block found, named as in :class:`goldwatch.comparing.sums.PairSums`."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    xx: float
    yy: float
    xy: float
    dd: float
    ad: float
    max_ad: float
    rel: float
    max_rel: float
    x_base: float
    x_mean: float
    x_m2: float
    y_base: float
    y_mean: float
    y_m2: float


class Table(NamedTuple):
    """Where sums of squares of a block go that is seen as rows of ``length`` elements, in C order: float64, zeros before.

    Attributes
    ----------
    length
        Divides the block's size.
    rows, columns
        Each a pair for the golden and for the difference, of as many elements as there are rows or columns; None: not wanted.
    """

    length: int
    rows: Optional[Tuple[np.ndarray, np.ndarray]] = None
    columns: Optional[Tuple[np.ndarray, np.ndarray]] = None


_NO_TABLE = Table(1)


class CompiledKernel:
    """The compiled passes.

    Parameters
    ----------
    module
        The extension module.
    """

    def __init__(self, module: Any) -> None:
        self._sums = module.sums
        self._divergence = module.divergence
        self.instruction_set: str = module.instruction_set()

    def sums(
        self,
        x: np.ndarray,
        y: np.ndarray,
        relative: bool = True,
        spread: bool = True,
        table: Table = _NO_TABLE,
        keep: Optional[Tuple[np.ndarray, np.ndarray]] = None,
    ) -> Optional[Found]:
        """Return the sums of one block, or None where an element type is none that is computed with.

        Nothing is to be trusted where ``xx``, ``yy`` or ``dd`` are not finite, or an element leaves
        :func:`goldwatch.comparing.kernel.load_limit`.

        Parameters
        ----------
        x, y
            Target and golden, native byte order, of one shape with at least one element, any strides.
        relative, spread
            Whether the relative errors, and means and variances, are wanted; without they are 0.
        table
            Sums of squares that are wanted too.
        keep
            Contiguous float64 vectors of the block's size, to which the golden and the magnitudes of the difference are written.

        Raises
        ------
        ValueError
            The shapes differ, or an array to be written to does not fit.
        """
        codes = self._codes(x, y)
        if codes is None:
            return None
        size = x.size
        if size % table.length:
            raise ValueError("rows of %d elements in a block of %d" % (table.length, size))
        rows, columns = _pointers(table.rows, size // table.length), _pointers(table.columns, table.length)
        found = self._sums(*codes, int(relative), int(spread), table.length, *rows, *columns, *_pointers(keep, size))
        return Found(*found)

    def divergence(
        self, x: np.ndarray, y: np.ndarray, scaling: Tuple[float, float, float, float, float, float]
    ) -> Optional[Tuple[float, float, float]]:
        """Return the sums of p, p − q and q·((1+u)·ln(1+u) − u) with u = p/q − 1 over one block; None as :meth:`sums`.

        Parameters
        ----------
        x, y
            As for :meth:`sums`, finite throughout.
        scaling
            low, factor and floor of the target, then of the golden: a value v becomes ``max((v - low) * factor, floor)``.
        """
        codes = self._codes(x, y)
        if codes is None:
            return None
        found: Tuple[float, float, float] = self._divergence(*codes, *scaling)
        return found

    @staticmethod
    def _codes(x: np.ndarray, y: np.ndarray) -> Optional[Tuple[Any, ...]]:
        if x.shape != y.shape:
            raise ValueError("blocks of shapes %s and %s" % (x.shape, y.shape))
        types = _CODES.get(x.dtype.char), _CODES.get(y.dtype.char)
        if None in types or not (x.dtype.isnative and y.dtype.isnative) or x.ndim > 32:
            return None
        return _address(x), types[0], _address(y), types[1], x.shape, x.strides, y.strides


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _pointers(arrays: Optional[Tuple[np.ndarray, np.ndarray]], size: int) -> Tuple[int, int]:
    """Return the addresses of two arrays that are written to; 0 for none."""
    if arrays is None:
        return 0, 0
    for array in arrays:
        if array.dtype != np.float64 or array.size != size or not array.flags.carray:
            raise ValueError("%d contiguous float64 elements are needed, got %s %s" % (size, array.dtype, array.shape))
    return _address(arrays[0]), _address(arrays[1])
