"""Python's binding of the compiled kernel."""

from __future__ import annotations

import math
from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np

REVISION = 4
"""Of what is agreed with the C source; changes with it."""

Scaling = Tuple[float, float, float, float, float, float]
"""low, factor and floor of the target, then of the golden: a value v becomes ``max((v - low) *
factor, floor)``.
"""

_NONE = (None, None)


class KernelSums(NamedTuple):
    """What one pass over a block found, named as in
    :class:`goldwatch.metrics.pair_sums.PairSums`.
    """

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


class Terms(NamedTuple):
    """Sums over the elements of a block: of p, of q, of p − q, of q·((1+u)·ln(1+u) − u) with u =
    p/q − 1, and of p·ln(p/q).
    """

    p: float
    q: float
    difference: float
    g: float
    p_log: float


class Table(NamedTuple):
    """Where sums of squares of a block go that is seen as rows of ``length`` elements, in C order:
    float64, zeros before.

    Attributes
    ----------
    length
        Divides the block's size.
    rows, columns
        Each a pair for the golden and for the difference, of as many elements as there are rows or
        columns; None: not wanted.
    """

    length: int
    rows: Optional[Tuple[np.ndarray, np.ndarray]] = None
    columns: Optional[Tuple[np.ndarray, np.ndarray]] = None


_NO_TABLE = Table(1)
_UNKNOWN = (math.nan,) * len(KernelSums._fields)


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
    ) -> Optional[KernelSums]:
        """Return the sums of one block, or None where it is empty or an element type is none that
        is computed with.

        Nothing is to be trusted where ``xx``, ``yy`` or ``dd`` are not finite, or an element leaves
        :func:`goldwatch.metrics.numpy_kernel.load_limit`.

        Parameters
        ----------
        x, y
            Target and golden, of one shape, any strides and alignment; two bytes of no type are a
            bfloat16. Those of foreign byte order are not computed with.
        relative, spread
            Whether the relative errors, and means and variances, are wanted; without they are 0.
        table
            Sums of squares that are wanted too.
        keep
            Contiguous float64 arrays of the block's size, to which the golden and the magnitudes of
            the difference are written.

        Raises
        ------
        ValueError
            The shapes differ, or an array to be written to does not fit.
        """
        numbers = self._sums(
            x,
            y,
            relative,
            spread,
            table.length,
            *(table.rows or _NONE),
            *(table.columns or _NONE),
            *(keep or _NONE),
        )
        return None if numbers is None else KernelSums(*numbers)

    def sums_of_each(
        self, x: np.ndarray, y: np.ndarray, relative: bool, spread: bool, length: int, *wanted: bool
    ) -> Tuple[np.ndarray, List[Tuple[Optional[np.ndarray], Optional[np.ndarray]]]]:
        """Return the sums of n small blocks, and their sums of squares.

        Parameters
        ----------
        x, y
            Target and golden elements, [n, ...]; types as for :meth:`sums`.
        length
            Of the rows that each block is seen as.
        wanted
            Whether the sums of squares of the rows, and of the columns, are.

        Returns
        -------
        (sums, [squares of golden, squares of difference])
            float64, [n, len(KernelSums)], NaN of what is not computed with; squares of rows and of
            columns, [n, rows] and [n, length], None where not wanted.
        """
        n, size = len(x), x[0].size
        shapes = [(n, size // length), (n, length)]
        rows, columns = (
            [np.zeros(shape), np.zeros(shape)] if is_wanted else [None, None]
            for is_wanted, shape in zip(wanted, shapes)
        )
        outputs = [*rows, *columns]
        sums_of_one, found = self._sums, []
        for at in range(n):
            into = [None if output is None else output[at] for output in outputs]
            numbers = sums_of_one(x[at], y[at], relative, spread, length, *into, *_NONE)
            found.append(_UNKNOWN if numbers is None else numbers)
        return np.array(found), list(zip(rows, columns))

    def divergence(self, x: np.ndarray, y: np.ndarray, scaling: Scaling) -> Optional[Terms]:
        """Return the sums of the divergence's terms over one block; None as :meth:`sums`.

        Parameters
        ----------
        x, y
            As for :meth:`sums`, finite throughout.

        Raises
        ------
        ValueError
            The shapes differ.
        """
        numbers = self._divergence(x, y, scaling)
        return None if numbers is None else Terms(*numbers)
