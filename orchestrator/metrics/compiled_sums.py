"""One block through the compiled kernel: the same sums as
:func:`goldwatch.metrics.numpy_kernel.fast_sums`, with what slices need of it.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import numpy as np

from .compiled.binding import CompiledKernel, KernelSums, Table
from .numpy_kernel import load_limit, workspace
from .pair_sums import SAFE_BIG, SAFE_SMALL, PairSums
from .slice_squares import NO_NEEDS, Needs, Tables

_NOTHING = np.zeros(0)


class CompiledSums(NamedTuple):
    """The sums of one pass over a block.

    Attributes
    ----------
    sums
        Of all elements.
    y, d
        The golden's elements and the magnitudes of the difference, 1-D in the block's C order, in
        this thread's work arrays; empty where nobody needs them.
    y_tables, d_tables
        Their sums of squares.
    """

    sums: PairSums
    y: np.ndarray
    d: np.ndarray
    y_tables: Tables
    d_tables: Tables


def fused_sums(
    kernel: CompiledKernel,
    x: np.ndarray,
    y: np.ndarray,
    relative: bool,
    spread: bool,
    needs: Needs = NO_NEEDS,
) -> Optional[CompiledSums]:
    """Return the sums of one pass, or None when the block needs :mod:`.exact_sums`.

    Parameters
    ----------
    x, y
        Target and golden as :func:`goldwatch.metrics.numpy_kernel.as_reals` returns them: of one
        shape, any strides, 1 to BLOCK elements.
    relative, spread
        As for :func:`goldwatch.metrics.numpy_kernel.fast_sums`.
    needs
        What the slices need; ``values`` also for whoever needs the elements themselves.
    """
    size = x.size
    rows = (np.zeros(size // needs.length), np.zeros(size // needs.length)) if needs.rows else None
    columns = (np.zeros(needs.length), np.zeros(needs.length)) if needs.columns else None
    work = workspace() if needs.values else None
    # The slices use work.d themselves.
    keep = (work.y[:size], work.x[:size]) if work is not None else None
    numbers = kernel.sums(x, y, relative, spread, Table(needs.length, rows, columns), keep)
    if numbers is None or not _ordinary(numbers, load_limit(x.dtype), load_limit(y.dtype)):
        return None
    y_rows, d_rows = rows or (None, None)
    y_columns, d_columns = columns or (None, None)
    y_kept, d_kept = keep or (_NOTHING, _NOTHING)
    sums = _as_sums(numbers, size, spread)
    return CompiledSums(
        sums,
        y_kept,
        d_kept,
        Tables(y_rows, y_columns, numbers.yy),
        Tables(d_rows, d_columns, numbers.dd),
    )


def _ordinary(sums: KernelSums, x_limit: float, y_limit: float) -> bool:
    """Tell whether the sums can be trusted, as :func:`goldwatch.metrics.numpy_kernel.fast_sums`
    does.
    """
    # The smallest and the largest overlook NaN, sums of squares do not.
    if not (SAFE_SMALL < sums.xx < SAFE_BIG or sums.xx == sums.x_low == sums.x_high == 0.0):
        return False
    if not (SAFE_SMALL < sums.yy < SAFE_BIG or sums.yy == sums.y_low == sums.y_high == 0.0):
        return False
    if max(-sums.x_low, sums.x_high) > x_limit or max(-sums.y_low, sums.y_high) > y_limit:
        return False
    return sums.dd == sums.max_ad == 0.0 or SAFE_SMALL < sums.dd < SAFE_BIG


def _as_sums(numbers: KernelSums, size: int, spread: bool) -> PairSums:
    sums = PairSums()
    sums.n = size
    sums.x_low, sums.x_high, sums.y_low, sums.y_high = numbers[:4]
    sums.xx, sums.yy, sums.xy, sums.dd, sums.ad, sums.max_ad, sums.rel, sums.max_rel = numbers[4:12]
    if spread:
        sums.x_base, sums.x_mean, sums.x_m2 = _spread(numbers[12:15], sums.x_low, sums.x_high)
        sums.y_base, sums.y_mean, sums.y_m2 = _spread(numbers[15:18], sums.y_low, sums.y_high)
    return sums


def _spread(moments: Tuple[float, ...], low: float, high: float) -> Tuple[float, ...]:
    # The sums of equal elements are rounded; their mean and variance are not.
    return (low, 0.0, 0.0) if low == high else moments
