"""Rules about the size of the dump that a configuration asks for: its estimate, held against the
free space.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..filesystem.free_space import free_bytes
from ..model.absent_ops import largest_of_one_run
from ..model.graph import ModelGraph
from ..model.op_node import OpNode, execution_key
from ..text.wording import size_text
from .acl_rules import items_of, model_entries, strings_of
from .bytes_per_step import Estimate, estimate, skipped_positions, step_count
from .dump_steps import step_problems
from .finding import WARNING, Findings, Path
from .models import Models, dumpable

_Key = Tuple[int, int]


def check_size(
    findings: Findings, size: Optional[Estimate], step: Any, folder: Optional[str], path: Path
) -> None:
    """Add the estimate of a dump's size, held against the free space of its folder."""
    if size is None or not size.ops:
        return
    free = free_bytes(folder) if folder else None
    valid = isinstance(step, str) and not any(
        rule != "step-equal" for rule, _, _ in step_problems(step)
    )
    steps = step_count(step) if valid else None
    text = size.text() + (
        "; %d steps: %s" % (steps, size_text(size.size_bytes * steps))
        if steps and steps > 1
        else ""
    )
    text += "; free: %s" % size_text(free) if free is not None else ""
    consumer = "chunks that do not fit are dropped with a log line; files get holes"
    if free is not None and size.size_bytes * (steps or 1) > free:
        fix = "dump fewer layers or steps, or statistics first (dump_data stats)"
        findings.environment(
            WARNING, "disk-space", path, "the dump does not fit: " + text, consumer, fix
        )
    else:
        fix = "dump fewer layers or steps if that is too much"
        findings.note("dump-size", path, "the dump takes " + text, "written without asking", fix)


def acl_size(document: Any, models: Models) -> Estimate:
    """Return what one step of a valid acl.json takes, over all models that were named."""
    dump = document["dump"]
    choices: Dict[int, Choice] = {}
    skips = []
    for entry in model_entries(document):
        name = entry.get("model_name")
        graphs = models.named(name) if isinstance(name, str) and name else models.graphs
        for graph in graphs:
            choices.setdefault(id(graph), Choice(models, graph)).add(entry)
        for field in ("optype_blacklist", "opname_blacklist"):
            for item in items_of(entry.get(field)):
                if isinstance(item, dict) and isinstance(item.get("name"), str):
                    skips.append(
                        (item["name"], [text for text in strings_of(item.get("pos")) if text])
                    )
    mode, data = dump.get("dump_mode", "output"), dump.get("dump_data", "tensor")
    skipped = skipped_positions(skips)

    def of(ops: Sequence[OpNode]) -> Estimate:
        return estimate(ops, str(mode), str(data), skipped)

    return of([op for choice in choices.values() for op in choice.largest_of_one_run(of)])


def npu_size(values: Mapping[str, Any], models: Models) -> Estimate:
    """Return what one step of npu settings takes."""
    layers = values.get("dump_layer")
    entry = {"layer": layers.split()} if isinstance(layers, str) and layers.strip() else {}
    mode, data = str(values.get("dump_mode") or "output"), str(values.get("dump_data") or "tensor")

    def of(ops: Sequence[OpNode]) -> Estimate:
        return estimate(ops, mode, data)

    chosen: List[OpNode] = []
    for graph in models.graphs:
        choice = Choice(models, graph)
        choice.add(entry)
        chosen += choice.largest_of_one_run(of)
    return of(chosen)


class Choice:
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
