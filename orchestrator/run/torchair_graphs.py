"""The original graphs of TorchAir, with the ops that were dumped."""

from __future__ import annotations

import fnmatch
import os
import re
from typing import Dict, List, Optional, Sequence, Tuple

from ..dumps.dump_file import DumpFile
from ..dumps.dump_tree import DumpTree
from ..dumps.folder_listing import DumpEntry
from ..dumps.golden_set import GoldenSet
from ..errors import GoldwatchError
from ..model.graph import ModelGraph
from ..model.graphs_of_run import GRAPH_FILES, ModelGraphs
from ..naming import sanitise_golden

_RANK = re.compile(r"worldsize[0-9]+_global_rank[0-9]+\Z")
_IN_TREE = re.compile(r"[0-9]+\Z|graph_[0-9]+(_[0-9]+)?\Z|worldsize[0-9]+_global_rank[0-9]+\Z")


def graphs_beside(target: str) -> Optional[str]:
    """Return the folder where TorchAir wrote its original graphs; None where there are none.

    They lie beside the folders of times or ranks at or above TARGET, or in the ranks' folders below
    it: the first one's count then.
    """
    folder = target
    while True:
        names = _listed(folder)
        if _has_graphs(names):
            return folder
        below = [os.path.join(folder, name) for name in names if _RANK.match(name)]
        folder_below = next((path for path in below if _has_graphs(_listed(path))), None)
        if folder_below is not None:
            return folder_below
        folder = os.path.abspath(folder)
        if _IN_TREE.match(os.path.basename(folder)) is None:
            return None
        folder = os.path.dirname(folder)


def _listed(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _has_graphs(names: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in GRAPH_FILES)


def graphs_of_dumped_ops(graphs: ModelGraphs, tree: DumpTree, golden: GoldenSet) -> ModelGraphs:
    """Return the models, TorchAir's original graphs with the fused ops of a tree in their members'
    place.

    Dumps for golden data are of a build without fusion where they lack an op of the tree, else of
    the same build.
    """
    dumped: Dict[ModelGraph, Dict[str, DumpEntry]] = {}
    for step_folder in tree.step_folders:
        graph = graphs.of(step_folder.place.model)
        if graph is not None and graph.fx:
            dumped.setdefault(graph, {}).update(
                (entry.name.op_name, entry) for entry in step_folder.files
            )
    if not dumped:
        return graphs
    theirs = set(golden.dumps)
    unfused = golden.kind == "npu" and any(
        sanitise_golden(name) not in theirs for names in dumped.values() for name in names
    )

    from ..model.torchair_fused_ops import with_fused_ops

    def with_dumps(graph: ModelGraph) -> ModelGraph:
        entries = dumped.get(graph)
        if entries is None:
            return graph
        ran = {
            name: (entry.name.op_type, entry.name.timestamp_us) for name, entry in entries.items()
        }
        return with_fused_ops(graph, ran, lambda name: _held(entries[name]), unfused)

    return graphs.changed(with_dumps)


def _held(entry: DumpEntry) -> Optional[Tuple[int, int]]:
    """Return how many inputs and outputs a dump holds; None where its header cannot be read."""
    try:
        dump = DumpFile.open(entry.path)
    except (GoldwatchError, OSError):
        return None
    return len(dump.inputs), len(dump.outputs)
