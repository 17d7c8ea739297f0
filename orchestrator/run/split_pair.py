"""One huge pair compared in shares, by several processes at once: the calls for each pass, and its
row in the end.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Dict, List, Optional, Tuple

from ..base.fast_dataclasses import dataclass
from ..metrics.accumulator import Accumulator
from ..metrics.compare_blocks import KLPass
from ..metrics.compare_pair import divergence_of, in_its_memory, parts_of, row_of, sums_of
from ..metrics.metric_result import MetricResult
from ..metrics.pair_alignment import Part, geometry_of, open_counterpart, require_zero_padding
from ..metrics.pair_task import PairTask, Settings
from ..metrics.row import Row
from ..metrics.unchanged_files import FileStates, file_states, unless_changed


def first_pass(task: PairTask, settings: Settings, part: Part) -> Tuple[int, Accumulator]:
    """Return the sums of one share of the pair; errors as those of
    :func:`goldwatch.metrics.compare_pair.compare_pair`'s parts.
    """
    golden, _ = open_counterpart(task)
    geometry = geometry_of(task, golden)
    if part[0] == 0:
        require_zero_padding(task, geometry)
    return part[0], sums_of(task, golden, geometry, settings, part)


def second_pass(
    task: PairTask, first: MetricResult, settings: Settings, part: Part
) -> Tuple[int, KLPass]:
    """Return one share of the divergence."""
    golden, _ = open_counterpart(task)
    return part[0], divergence_of(task, golden, geometry_of(task, golden), first, settings, part)


def last_pass(task: PairTask, result: MetricResult, settings: Settings) -> Tuple[int, MetricResult]:
    """Return a pair's result with the user's metrics, which take a tensor as a whole."""
    from ..metrics.user_metrics import with_user_metrics

    return 0, with_user_metrics(task, result, settings)


@dataclass
class SplitPair:
    """The progress of one pair that is compared in shares.

    A caller runs :meth:`calls`, hands each result to :meth:`take`, and starts over until
    :attr:`row` is there. ``abandoned`` is for the caller: no further result is wanted.
    """

    task: PairTask
    settings: Settings
    row: Optional[Row] = None
    abandoned: bool = False
    _first: Optional[MetricResult] = None
    _result: Optional[MetricResult] = None
    _taken: Dict[int, Any] = field(default_factory=dict)
    _before: FileStates = field(init=False)

    def __post_init__(self) -> None:
        self._before = file_states(self.task)

    @property
    def parts(self) -> int:
        """Number of shares."""
        return parts_of(self.task, self.settings)

    def calls(self) -> List[Tuple[Any, ...]]:
        """Return the calls of the current pass, each as (function, argument, …)."""
        if self._result is not None:
            return [(last_pass, self.task, self._result, self.settings)]
        parts = self.parts
        # Neighbours one after the other, not at once: the system reads ahead beyond a share's end.
        shares = [
            (number, parts)
            for number in sorted(range(parts), key=lambda number: number % max(1, parts // 2))
        ]
        if self._first is None:
            return [(first_pass, self.task, self.settings, share) for share in shares]
        return [(second_pass, self.task, self._first, self.settings, share) for share in shares]

    def take(self, result: Tuple[int, Any]) -> bool:
        """Take one result; tell whether the pass is complete (then :attr:`row` is there, or another
        pass is needed).
        """
        number, sums = result
        if self._result is not None:
            self._finish(sums)
            return True
        self._taken[number] = sums
        if len(self._taken) < self.parts:
            return False
        merged, *others = (self._taken[number] for number in range(self.parts))
        self._taken = {}
        for other in others:
            merged.merge(other)
        measured = merged.result()
        if self._first is None and measured.needs_second_pass:
            self._first = measured
        elif self.settings.user_metrics or self.settings.agreement is not None:
            self._result = measured
        else:
            self._finish(measured)
        return True

    def _finish(self, result: MetricResult) -> None:
        golden, address = open_counterpart(self.task)
        row = row_of(
            self.task, golden, address, geometry_of(self.task, golden), result, self.settings
        )
        self.row = unless_changed(
            self.task, self._before, in_its_memory(self.task, row, self.settings)
        )
