"""The ops of one model that the entries of a dump_list dump together."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..model.absent_ops import largest_of_one_run
from ..model.graph import ModelGraph
from ..model.op_node import OpNode, execution_key
from .acl_rules import items_of, strings_of
from .bytes_per_step import Estimate
from .models import Models, dumpable

_Key = Tuple[int, int]


class DumpListOps:
    """The ops of one model that the entries of dump_list dump together.

    The whole model is walked at the end only.

    Attributes
    ----------
    whole
        An entry names no ops: all are dumped.
    """

    def __init__(self, models: Models, graph: ModelGraph) -> None:
        self._models = models
        self._graph = graph
        self.whole = False
        self._named: Dict[int, OpNode] = {}
        self._intervals: List[Tuple[_Key, _Key]] = []

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add what one entry dumps."""
        layers = [layer for layer in strings_of(entry.get("layer")) if layer]
        ranges = [item for item in items_of(entry.get("opname_range")) if isinstance(item, dict)]
        intervals = [interval for interval in map(self._interval, ranges) if interval]
        if layers:
            inside = _Inside(intervals) if ranges else None
            for layer in layers:
                ops = self._models.exact(layer, [self._graph]) or self._models.from_original(
                    layer, [self._graph]
                )
                self._named.update(
                    (id(op), op) for op in dumpable(ops) if inside is None or inside.holds(op)
                )
        elif ranges:
            self._intervals += intervals
        else:
            self.whole = True

    def ops(self) -> List[OpNode]:
        """Return all of them, each once."""
        if self.whole:
            return dumpable(self._graph.ops)
        chosen = dict(self._named)
        if self._intervals:
            inside = _Inside(self._intervals)
            chosen.update((id(op), op) for op in dumpable(self._graph.ops) if inside.holds(op))
        return list(chosen.values())

    def largest_of_one_run(
        self, estimate_of: Callable[[Sequence[OpNode]], Estimate]
    ) -> List[OpNode]:
        """Return those that one run dumps at most: of gears and branches the largest."""
        return largest_of_one_run(self._graph, self.ops(), lambda ops: estimate_of(ops).size_bytes)

    def _interval(self, item: Mapping[str, Any]) -> Optional[Tuple[_Key, _Key]]:
        """Return the ends of a range in execution order; None when the model lacks one."""
        ends = [
            self._models.exact(str(item.get(field)), [self._graph]) for field in ("begin", "end")
        ]
        return (execution_key(ends[0][0]), execution_key(ends[1][0])) if all(ends) else None


class _Inside:
    """Tells whether an op lies in one of many closed intervals."""

    def __init__(self, intervals: Sequence[Tuple[_Key, _Key]]) -> None:
        self._firsts: List[_Key] = []
        self._lasts: List[_Key] = []
        for first, last in sorted(interval for interval in intervals if interval[0] <= interval[1]):
            if self._lasts and first <= self._lasts[-1]:
                self._lasts[-1] = max(self._lasts[-1], last)
            else:
                self._firsts.append(first)
                self._lasts.append(last)

    def holds(self, op: OpNode) -> bool:
        key = execution_key(op)
        place = bisect_right(self._firsts, key) - 1
        return place >= 0 and key <= self._lasts[place]
