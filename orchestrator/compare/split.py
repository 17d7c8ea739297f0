"""One huge pair as several pieces of work, for several processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, List, Optional, Tuple

from ..dumps.golden import open_golden
from ..tensors.blocks import aligned_blocks
from .kernel import BLOCK
from .metrics import Accumulator, KLPass, MetricResult
from .pair import PairTask, Settings, geometry_of, row_of
from .row import Row

SPLIT_BYTES = 16 << 20
"""Target tensors of this size on are worth being split."""

Part = Tuple[int, int]


def first_pass(task: PairTask, settings: Settings, part: Part) -> Accumulator:
    """Return the sums of one share of the pair; errors as those of :func:`goldwatch.compare.pair.compare_pair`'s parts."""
    golden, _ = open_golden(task.golden)
    sums = Accumulator(settings.metrics)
    for x, y in aligned_blocks(task.target, golden, geometry_of(task, golden), BLOCK, part):
        sums.update(x, y)
    return sums


def second_pass(task: PairTask, first: MetricResult, part: Part) -> KLPass:
    """Return one share of the divergence."""
    golden, _ = open_golden(task.golden)
    sums = KLPass(first)
    for x, y in aligned_blocks(task.target, golden, geometry_of(task, golden), BLOCK, part):
        sums.update(x, y)
    return sums


@dataclass
class SplitPair:
    """The progress of one pair that is compared in ``parts`` shares.

    A caller runs :meth:`calls`, hands each result to :meth:`take`, and starts over until :attr:`row` is there. ``abandoned`` is for the
    caller: no further result is wanted.
    """

    task: PairTask
    settings: Settings
    parts: int
    row: Optional[Row] = None
    abandoned: bool = False
    _first: Optional[MetricResult] = None
    _taken: List[Any] = field(default_factory=list)

    def calls(self) -> List[Tuple[Any, ...]]:
        """Return the calls of the current pass, each as (function, argument, …)."""
        shares = [(number, self.parts) for number in range(self.parts)]
        if self._first is None:
            return [(first_pass, self.task, self.settings, share) for share in shares]
        return [(second_pass, self.task, self._first, share) for share in shares]

    def take(self, result: Any) -> bool:
        """Take one result; tell whether the pass is complete (then :attr:`row` is there, or another pass is needed)."""
        self._taken.append(result)
        if len(self._taken) < self.parts:
            return False
        merged, *others = self._taken
        self._taken = []
        for other in others:
            merged.merge(other)
        found = merged.result()
        if self._first is None and found.needs_second_pass:
            self._first = found
        else:
            golden, address = open_golden(self.task.golden)
            self.row = row_of(self.task, golden, address, geometry_of(self.task, golden), found, self.settings)
        return True
