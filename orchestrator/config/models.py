"""The models that a configuration is written for or checked against: their names, their ops, and
what of them can be dumped.
"""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from ..base.errors import UsageError
from ..base.naming import nearest_names
from ..model import graphs_of_run as model_graphs
from ..model.graph import ModelGraph, computational_graphs
from ..model.never_dumped import no_dump_reason
from ..model.op_node import OpNode
from ..schemas.documents import MAX_SUGGESTIONS
from .dump_plan import PlanError

MAX_ALTERNATIVES = 3
#: How many names all searches for the nearest may look at together.
_NAMES_SEARCHED = 200000
_SEARCH_RADIUS = 5


class Models:
    """Several models, looked up by the names that dump_list can use.

    Parameters
    ----------
    graphs
        The models, each with the file it was read from in ``path``.
    om_names
        What their .om files are called, without folder and suffix; as many as there are models, in
        their order, or for all of them.
    """

    def __init__(self, graphs: Sequence[ModelGraph], om_names: Sequence[str] = ()) -> None:
        self.graphs = list(graphs)
        self.om_names = [_stem(name) for name in om_names]
        self._tables: Dict[int, Dict[str, List[OpNode]]] = {}
        self._names: Dict[Tuple[int, ...], List[str]] = {}
        self._searches_left = MAX_SUGGESTIONS
        self._names_left = _NAMES_SEARCHED

    def named(self, model_name: str) -> List[ModelGraph]:
        """Return the models that GE would match: by the .om file's name if told, by their own or a
        graph's, else by the json's.
        """
        if model_name in self.om_names:
            if len(self.om_names) != len(self.graphs):
                return self.graphs
            return [graph for graph, name in zip(self.graphs, self.om_names) if name == model_name]
        graphs = [
            graph
            for graph in self.graphs
            if model_name == graph.name or model_name in graph.graph_names
        ]
        if self.om_names:
            return graphs
        return graphs or [graph for graph in self.graphs if model_name in file_names(graph)]

    def names(self) -> List[str]:
        """Return the name of every model."""
        return [graph.name for graph in self.graphs]

    def exact(self, name: str, graphs: Optional[Sequence[ModelGraph]] = None) -> List[OpNode]:
        """Return the ops of exactly this name."""
        ops: List[OpNode] = []
        for graph in self._of(graphs):
            table = self._tables.get(id(graph)) or self._table(graph)
            if name in table:
                ops += table[name]
        return ops

    def from_original(
        self, name: str, graphs: Optional[Sequence[ModelGraph]] = None
    ) -> List[OpNode]:
        """Return the ops that came from the original op of this name."""
        return [op for graph in self._of(graphs) for op in graph.ops_from(name)]

    def nearest(self, name: str, graphs: Optional[Sequence[ModelGraph]] = None) -> Optional[str]:
        """Return the op or original name that is most like ``name``; only for the first twenty,
        fewer in big models: it takes time.
        """
        if self._searches_left <= 0 or self._names_left <= 0:
            return None
        chosen = self._of(graphs)
        for graph in chosen:
            op = graph.op(name)
            if op is not None:
                return op.name
        key = tuple(id(graph) for graph in chosen)
        if key not in self._names:
            names = (
                known
                for graph in chosen
                for op in graph.ops
                for known in (op.name,) + tuple(op.originals)
            )
            self._names[key] = list(dict.fromkeys(known for known in names if known))
        self._searches_left -= 1
        self._names_left -= len(self._names[key])
        return next(iter(nearest_names(name, self._names[key])), None)

    def alternatives(self, op: OpNode) -> List[str]:
        """Return the nearest ops that can be dumped instead of one that never is: downstream first,
        for the output node upstream.
        """
        graph = next(
            (graph for graph in self.graphs if op in self._table(graph).get(op.name, ())), None
        )
        if graph is None:
            return []
        ways = [graph.successors, graph.predecessors]
        for way in ways[::-1] if op.type == "NetOutput" else ways:
            for radius in range(1, _SEARCH_RADIUS + 1):
                names = [
                    other.name for other in way(op.name, radius) if no_dump_reason(other) is None
                ]
                if names:
                    return names[:MAX_ALTERNATIVES]
        return []

    def instead(self, op: OpNode) -> str:
        """Return the advice what to choose instead of an op that never dumps."""
        names = self.alternatives(op)
        return "choose %s" % ", ".join(names) if names else "leave it out"

    def _of(self, graphs: Optional[Sequence[ModelGraph]]) -> Sequence[ModelGraph]:
        return self.graphs if graphs is None else graphs

    def _table(self, graph: ModelGraph) -> Dict[str, List[OpNode]]:
        table = self._tables.get(id(graph))
        if table is None:
            table = self._tables[id(graph)] = {}
            for op in graph.ops:
                table.setdefault(op.name, []).append(op)
        return table


def file_names(graph: ModelGraph) -> List[str]:
    """Return what the om file of this json may be called, without suffix."""
    stem = os.path.basename(graph.path or "")
    names = []
    for suffix in (".json", ".txt", ".om"):
        if stem.endswith(suffix):
            stem = stem[: -len(suffix)]
            names.append(stem)
    return names


def _stem(name: str) -> str:
    """Return the name of an .om file without folder and suffix."""
    base = os.path.basename(name)
    return base[:-3] if base.endswith(".om") and base != ".om" else base


def dumpable(ops: Iterable[OpNode]) -> List[OpNode]:
    """Return the ops that leave dump files."""
    return [op for op in ops if no_dump_reason(op) is None]


def load_models(paths: Sequence[str], om_names: Sequence[str] = ()) -> Models:
    """Read every named model once; a folder stands for the models in it.

    Raises
    ------
    MissingPath, InputError
        A file is missing, or is no model.
    """
    graphs = [graph for path in paths for graph in model_graphs.load_models(path).graphs]
    return Models(list({graph.path: graph for graph in graphs}.values()), om_names)


def models_to_dump(every: Models, om_names: Sequence[str] = ()) -> Models:
    """Return the models that a configuration is written for; among several GE graph files only the
    one that reads training data.

    Raises
    ------
    UsageError
        Several GE graph files read training data, or none does.
    """
    graphs = every.graphs
    several = [
        graph for graph in graphs if os.path.basename(graph.path or "").startswith("ge_proto")
    ]
    if len(several) < 2:
        return every
    models = computational_graphs(several)
    if len(models) != 1:
        names = ", ".join(str(graph.path) for graph in models)
        message = (
            "several GE graph files read training data: %s" % names
            if models
            else "none of the GE graph files has an iterator op"
        )
        raise UsageError(
            message, hint="name the one file whose first graph is the computational graph"
        )
    others = [graph for graph in graphs if graph not in several]
    return Models(others + models, om_names)


def require_models(models: Models, what: str) -> None:
    """Raise UsageError when something needs a model and none was named."""
    if not models.graphs:
        raise PlanError(
            "%s needs a model" % what,
            hint="name the model's json, which atc --mode=1 makes",
            field="om",
        )
