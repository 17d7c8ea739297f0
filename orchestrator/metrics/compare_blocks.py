"""Both passes over the blocks of two tensors: the metrics, then the divergence, whose scaling needs
the whole.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from ..tensors.dtypes import plain_floats
from .accumulator import DIVERGENCE, Accumulator
from .differing_elements import masked_apart
from .kullback_leibler import DivergenceSums
from .metric_result import MetricResult
from .numpy_kernel import as_reals, pieces, workspace
from .rounding_slack import NO_ROUNDING, Slack
from .row import METRICS
from .slice_squares import SliceAxis

Blocks = Iterable[Tuple[Any, ...]]

# What a second pass reads again is kept up to here: it stays in the cache of most processors.
_KEEP_BYTES = 4 * 1024 * 1024


class KLPass:
    """The second pass: the Kullback-Leibler divergence, over the same blocks in any order or
    partition.

    Parameters
    ----------
    first
        The complete first pass (all parts merged), as accumulator or as its result.
    """

    def __init__(self, first: Union[Accumulator, MetricResult]) -> None:
        self._first = first.result() if isinstance(first, Accumulator) else first
        self._sums: Optional[DivergenceSums] = None
        if self._first.needs_second_pass and self._first.first is not None:
            self._sums = DivergenceSums(self._first.first)
        self._plain = self._sums is not None and self._sums.plain
        self._finite = self._first.finite_count == self._first.count

    @property
    def needed(self) -> bool:
        """Whether any block has to be seen; without, ``result`` is complete at once."""
        return self._sums is not None

    def update(self, x: np.ndarray, y: np.ndarray) -> None:
        """Add one block, as in Accumulator.update."""
        if self._sums is None:
            return
        x, y = as_reals(x, y)
        work = workspace()
        plain = self._plain and self._finite
        with np.errstate(all="ignore"):
            for xp, yp in pieces(x, y):
                if not plain:
                    xp, yp = plain_floats(xp), plain_floats(yp)
                if self._first.masks_left_out:
                    xp, yp = xp.reshape(-1), yp.reshape(-1)
                    rest = ~masked_apart(xp, yp)
                    self._sums.add_exact(xp[rest], yp[rest])
                elif self._plain and (
                    self._finite or bool(np.isfinite(xp).all() and np.isfinite(yp).all())
                ):
                    self._sums.add_fast(xp, yp, work)
                else:
                    self._sums.add_exact(xp.reshape(-1), yp.reshape(-1))

    def merge(self, other: KLPass) -> None:
        """Add what another second pass, made from the same first one, collected."""
        if self._sums is not None and other._sums is not None:
            self._sums.add(other._sums)

    def result(self) -> MetricResult:
        """Return the first pass's result with the divergence filled in."""
        if self._sums is None:
            return self._first
        values = dict(self._first.values)
        values[DIVERGENCE] = self._sums.value()
        return self._first.but(values=values, needs_second_pass=False)


def compare_blocks(
    make_blocks: Callable[[], Blocks],
    metrics: Sequence[str] = METRICS,
    axes: Sequence[SliceAxis] = (),
    slack: Slack = NO_ROUNDING,
    again: Optional[Callable[[], Blocks]] = None,
    sampled: bool = False,
) -> MetricResult:
    """Compute the metrics over blocks, reading them twice only where the divergence needs it.

    Parameters
    ----------
    make_blocks
        Called once or twice; each time it yields the same pairs (target, golden) of equally shaped
        arrays, for slices with their place behind: :class:`goldwatch.tensors.aligned_blocks.Block`.
        Blocks may be views of a buffer that the next block overwrites: small tensors are copied to
        spare the second reading.
    metrics, axes, slack, sampled
        As for :class:`Accumulator`.
    again
        Makes the blocks of the second reading, which needs no slices; None: as the first.
    """
    first = Accumulator(metrics, axes, slack, sampled)
    blocks_kept: Optional[List[Tuple[np.ndarray, np.ndarray]]] = (
        [] if DIVERGENCE in metrics else None
    )
    kept_bytes = 0
    for x, y, *place in make_blocks():
        if blocks_kept is not None:
            kept_bytes += x.nbytes + y.nbytes
            if kept_bytes > _KEEP_BYTES:
                blocks_kept = None
            else:
                # C order: whatever strides the block has are walked once, not in both passes.
                x, y = x.copy(), y.copy()
                blocks_kept.append((x, y))
        first.update(x, y, *place)
    result = first.result()
    second = KLPass(result)
    if not second.needed:
        return result
    for x, y, *_ in (again or make_blocks)() if blocks_kept is None else blocks_kept:
        second.update(x, y)
    return second.result()
