"""Operators computed again before the files go that it takes: where a watch deletes dumps after their comparison."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Set, Tuple

from ..dumps.place import Place
from ..dumps.tree import Combo
from ..judging.computed import beyond
from ..model.graph import ModelGraph
from ..model.never import no_dump_reason
from ..model.nodes import OpNode
from ..recomputing.recomputed import MOVE, Recomputed
from .engine import Engine
from .recomputation import Recomputation
from .target_file import DELETED, PLANNED, TargetFile

_BEHIND = 64
"""After so many later files of its place a file is waited for no longer: the device was not asked for it."""
_LEAST, _SHARE = 16, 8
"""Files are computed together from this number on, or from so many of those that are there: all are looked at each time."""


class Ahead:
    """Computes the operators of files that are to be deleted, and of what reads their outputs where the dumps hold no inputs.

    Parameters
    ----------
    engine
        The watch's.
    recomputation
        Takes the results to the end of the run.
    """

    def __init__(self, engine: Engine, recomputation: Recomputation) -> None:
        self._engine, self._recomputation = engine, recomputation

    def ready(self, files: Sequence[TargetFile], last: bool) -> List[TargetFile]:
        """Return those of some files that no operator still to come is computed of; none where there are too few to look at them all.

        Parameters
        ----------
        last
            Nothing more comes.
        """
        there = sum(file.state == PLANNED for file in self._engine.catalogue.files.each())
        if last:
            return list(files)
        found = [file for file in files if self._is_read(file)] if len(files) >= min(_LEAST, 1 + there // _SHARE) else []
        return found if len(found) >= min(_LEAST, 1 + there // _SHARE) else []

    def compute(self, files: Sequence[TargetFile]) -> List[TargetFile]:
        """Compute the operators of some files; return those whose operators are right, or cannot be computed."""
        wanted: Dict[Place, Dict[str, TargetFile]] = {}
        needed: Dict[Tuple[Place, str], List[str]] = {}
        for file in files:
            names = [file.op_name, *(() if file.tensors[0] else (op.name for op in self._readers(file)))]
            needed[file.place, file.op_name] = names
            known = self._by_name(file.place)
            wanted.setdefault(file.place, {}).update({name: known[name] for name in names if name in known})
        wrong: Set[Tuple[Place, str]] = set()
        for place, of in wanted.items():
            there = [file.entry() for file in self._by_name(place).values() if file.state == PLANNED]
            left = [name for name, file in of.items() if file.state == PLANNED and not self._recomputation.has(place, name, file.signature)]
            made = self._recomputation.of_files(Combo(place, "", files=there), left) if left else {}
            for name, found in made.items():
                self._recomputation.keep(place, name, found, of[name].signature)
            wrong.update((place, name) for name in of if _is_wrong(self._recomputation.found(place, name)))
        return [file for file in files if not any((file.place, name) in wrong for name in needed[file.place, file.op_name])]

    def _is_read(self, file: TargetFile) -> bool:
        """Tell whether all that reads a file's outputs has come, or holds its inputs itself."""
        if file.tensors[0]:
            return True
        known = self._by_name(file.place)
        come = [known.get(op.name) for op in self._readers(file)]
        if all(other is not None and (other.state == DELETED or (other.state == PLANNED and not other.pending)) for other in come):
            return True
        return sum(other.timestamp_us > file.timestamp_us for other in known.values()) >= _BEHIND

    def _readers(self, file: TargetFile) -> List[OpNode]:
        """Return the operators with a dump that read an output of a file's, by way of those without one too."""
        graph, node = self._node(file)
        found: List[OpNode] = []
        waiting, seen = graph.consumers(node) if graph is not None and node is not None else [], set()
        while waiting and graph is not None:
            at = waiting.pop()
            if at.position in seen:
                continue
            seen.add(at.position)
            if no_dump_reason(at) is None:
                found.append(at)
            else:
                waiting += graph.consumers(at)
        return found

    def _node(self, file: TargetFile) -> Tuple[Optional[ModelGraph], Optional[OpNode]]:
        graph = self._engine.graphs.of(file.place.model)
        named = graph.ops_named(file.op_name) if graph is not None else []
        return graph, next((node for node in named if node.type == file.op[0]), named[0] if named else None)

    def _by_name(self, place: Place) -> Dict[str, TargetFile]:
        files = self._engine.catalogue.by_place().get(place, [])
        return {file.op_name: file for file in files if file.there}


def _is_wrong(found: Sequence[Recomputed]) -> bool:
    """Tell whether an output is not explained by any arithmetic that a device may compute in."""
    errors = [(one.kind == MOVE, [error for error in (one.tight, one.loose) if error is not None]) for one in found]
    return any(own and all(beyond(error, moves) > 1.0 for error in own) for moves, own in errors)
