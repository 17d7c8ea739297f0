"""A model as its file describes it: the ops in the file's order, found by any of their names."""

from __future__ import annotations

import os
from collections import deque
from typing import Callable, Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple

from ..base.naming import find_collisions, sanitise_device, sanitise_golden, whole_name
from ..base.notes import Note, note
from ..base.wording import plural
from .atc_options import atc_options
from .never_dumped import ITERATOR_TYPES
from .op_node import OpNode


class ModelGraph:
    """All graphs of one model.

    Parameters
    ----------
    name
        The model's name: the file's, or the first graph's where the file has none.
    graph_names
        The graphs' names; the first is the main one.
    ops
        In the file's order, all graphs in a row.
    notes
        Oddities in the file that were tolerated.
    path
        The file.
    command
        The command line that made the model, as its attribute ``atc_cmdline`` has it; empty where
        it has none.
    fx
        Whether it is an original graph that TorchAir passed to GE: the compiler may have fused,
        removed and inserted ops since.
    unfused
        Whether its originals are the ops of a build without fusion, whose dumps are the golden
        data.
    in_both
        The names of the ops that the build given as a second model has as well, of the same type
        and originals.
    as_built
        The model with the original names of its own file, where ops of a second build have taken
        their place; else None.
    """

    def __init__(
        self,
        name: str,
        graph_names: Sequence[str],
        ops: Sequence[OpNode],
        notes: Sequence[Note] = (),
        path: Optional[str] = None,
        command: str = "",
        fx: bool = False,
        unfused: bool = False,
        in_both: FrozenSet[str] = frozenset(),
        as_built: Optional[ModelGraph] = None,
    ) -> None:
        self.name = name
        self.graph_names = tuple(graph_names)
        self.ops = tuple(ops)
        self.path = path
        self.command = command
        self.fx = fx
        self.unfused = unfused
        self.in_both = in_both
        self.as_built = as_built
        self._by_name: Dict[str, List[OpNode]] = _index(self.ops, lambda op: [op.name])
        self._by_device: Optional[Dict[str, List[OpNode]]] = None
        self._by_golden: Optional[Dict[str, List[OpNode]]] = None
        self._by_original: Optional[Dict[str, List[OpNode]]] = None
        self._colliding: Optional[Dict[str, List[str]]] = None
        self._in_graph: Dict[Tuple[int, str], OpNode] = {}
        for op in self.ops:
            self._in_graph.setdefault((op.graph_index, op.name), op)
        self._consumers: Optional[Dict[Tuple[int, Optional[int]], List[OpNode]]] = None
        self.notes = tuple(notes)
        repeated = [name for name, ops in self._by_name.items() if len(ops) > 1]
        if repeated:
            shown = ", ".join(repeated[:5]) + (" …" if len(repeated) > 5 else "")
            self.notes += (note("repeated-names", len(repeated), shown),)

    def __repr__(self) -> str:
        return "ModelGraph(%r, %s)" % (self.name, plural(len(self.ops), "op"))

    @property
    def compiled_from(self) -> str:
        """The name, without its ending, of the file that the model was compiled from; empty where
        the command line does not tell it.
        """
        file = atc_options(self.command).get("model", "")
        return os.path.splitext(os.path.basename(file))[0]

    def ops_named(self, name: str) -> List[OpNode]:
        """Return the ops of this name: raw, else as in dump files, else as in golden files."""
        if not name:
            return []
        ops = self._by_name.get(name)
        if ops is None:
            if self._by_device is None:
                self._by_device = _index(self.ops, lambda op: [sanitise_device(op.name)])
            ops = self._by_device.get(sanitise_device(name))
        if ops is None:
            if self._by_golden is None:
                self._by_golden = _index(self.ops, lambda op: [sanitise_golden(op.name)])
            ops = self._by_golden.get(sanitise_golden(name))
        return list(ops or ())

    def ops_dumped_as(self, name: str) -> List[OpNode]:
        """Return the ops whose dump files have this name (``a/b``, ``a.b`` and ``a_b`` are all
        written ``a_b``), else as :meth:`ops_named`.
        """
        if self._by_device is None:
            self._by_device = _index(self.ops, lambda op: [sanitise_device(op.name)])
        # The keys are sanitised: a raw name that differs is never among them.
        ops = self._by_device.get(name)
        return self.ops_named(name) if ops is None else list(ops)

    def whole_op(self, op_name: str) -> Optional[str]:
        """Return the op that a file's op name ``{op}_lxslice{N}`` is a slice of; None where the
        model does not say so.
        """
        name, number = whole_name(op_name)
        if number is None or self.ops_named(op_name) or not self.ops_named(name):
            return None
        return name

    def sharing_golden_name(self, original: str) -> List[str]:
        """Return all original ops whose golden files would have the same name as this one's; empty
        if the name is unique.
        """
        if self._colliding is None:
            self._colliding = find_collisions(name for op in self.ops for name in op.originals)
        return self._colliding.get(sanitise_golden(original), [])

    def op(self, name: str) -> Optional[OpNode]:
        """Return the first op of :meth:`ops_named`, or None."""
        ops = self.ops_named(name)
        return ops[0] if ops else None

    def ops_from(self, original: str) -> List[OpNode]:
        """Return the ops made from the original op of this name, in the file's order."""
        if self._by_original is None:
            self._by_original = _index(self.ops, lambda op: op.originals)
        return list(self._by_original.get(original, ()))

    def producer(self, op: OpNode, name: str) -> Optional[OpNode]:
        """Return the op named ``name`` in the inputs of ``op``: of the same graph, else of any; or
        None.
        """
        producer = self._in_graph.get((op.graph_index, name))
        if producer is None and name in self._by_name:
            producer = self._by_name[name][0]
        return producer

    def consumers(self, op: OpNode, index: Optional[int] = None) -> List[OpNode]:
        """Return the ops that read output ``index`` of ``op`` (None: any output), in the file's
        order.
        """
        if self._consumers is None:
            self._consumers = {}
            for other in self.ops:
                for source in other.inputs:
                    producer = self.producer(other, source[0]) if source is not None else None
                    if source is not None and producer is not None:
                        for key in ((producer.position, source[1]), (producer.position, None)):
                            consumers = self._consumers.setdefault(key, [])
                            if not consumers or consumers[-1] is not other:
                                consumers.append(other)
        return list(self._consumers.get((op.position, index), ()))

    def predecessors(self, name: str, radius: int = 1) -> List[OpNode]:
        """Return the ops whose data reaches the op within ``radius`` edges, nearest first, without
        the op itself.
        """
        return self._around(name, radius, self._producers)

    def successors(self, name: str, radius: int = 1) -> List[OpNode]:
        """Return the ops that the op's data reaches within ``radius`` edges, nearest first, without
        the op itself.
        """
        return self._around(name, radius, self.consumers)

    @property
    def is_computational(self) -> bool:
        """Whether the graph reads training data (an IteratorV2, Iterator or GetNext op): the one
        whose folder holds a training's dumps.
        """
        return any(op.type in ITERATOR_TYPES for op in self.ops)

    def _producers(self, op: OpNode) -> List[OpNode]:
        producers = [self.producer(op, source[0]) for source in op.inputs if source is not None]
        return list(
            {producer.position: producer for producer in producers if producer is not None}.values()
        )

    def _around(
        self, name: str, radius: int, neighbours: Callable[[OpNode], Iterable[OpNode]]
    ) -> List[OpNode]:
        start = self.op(name)
        if start is None:
            return []
        visited = {start.position}
        queue = deque([(start, 0)])
        reached: List[OpNode] = []
        while queue:
            op, distance = queue.popleft()
            if distance == radius:
                continue
            for other in neighbours(op):
                if other.position not in visited:
                    visited.add(other.position)
                    reached.append(other)
                    queue.append((other, distance + 1))
        return reached


def _index(
    ops: Sequence[OpNode], keys: Callable[[OpNode], Iterable[str]]
) -> Dict[str, List[OpNode]]:
    table: Dict[str, List[OpNode]] = {}
    for op in ops:
        for key in keys(op):
            if key:
                table.setdefault(key, []).append(op)
    return table


def computational_graphs(models: Iterable[ModelGraph]) -> List[ModelGraph]:
    """Return the models that read training data. The name of their first graph is the dump's
    model_name folder.
    """
    return [model for model in models if model.is_computational]
