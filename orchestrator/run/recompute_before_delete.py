"""Operators computed again before the files go that it takes: where a watch deletes dumps after
their comparison.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from ..dumps.dump_tree import StepFolder
from ..dumps.folder_listing import Signature
from ..dumps.place import Place
from ..model.never_dumped import no_dump_reason
from ..model.op_node import OpNode
from ..model.pairing import Pairing
from .engine import Engine
from .recomputation import Recomputation
from .target_file import DELETED, EARLIER, PLANNED, TargetFile

_BEHIND = 64
"""After so many later files of its place a file is waited for no longer: the device was not asked
for it.
"""
_LEAST, _SHARE = 16, 8
"""Files are computed together from this number on, or from so many of those that are there: all are
looked at each time.
"""


class EarlyRecomputation:
    """Computes the operators of files that are to be deleted, and of what reads their outputs where
    the dumps hold no inputs.

    Parameters
    ----------
    engine
        The watch's.
    recomputation
        Takes the results to the end of the run.
    """

    def __init__(self, engine: Engine, recomputation: Recomputation) -> None:
        self._engine, self._recomputation = engine, recomputation
        self._pairings: Dict[Optional[str], Pairing] = {}
        self._known: Dict[Place, Tuple[int, Dict[str, TargetFile]]] = {}

    def ready(self, files: Sequence[TargetFile], last: bool) -> List[TargetFile]:
        """Return those of some files that no operator still to come is computed of; none where
        there are too few to look at them all.

        Parameters
        ----------
        last
            Nothing more comes.
        """
        there = len(self._engine.catalogue.in_state(PLANNED))
        if last:
            return list(files)
        ready = (
            [file for file in files if self._is_read(file)]
            if len(files) >= min(_LEAST, 1 + there // _SHARE)
            else []
        )
        return ready if len(ready) >= min(_LEAST, 1 + there // _SHARE) else []

    def compute(self, files: Sequence[TargetFile]) -> List[TargetFile]:
        """Compute the operators of some files; return those whose operators are right, or cannot be
        computed.
        """
        needed: List[Tuple[TargetFile, List[str]]] = []
        files_of: Dict[Place, Dict[str, TargetFile]] = {}
        for file in files:
            node, known = self._node(file), self._files(file.place)
            names = (
                []
                if node is None
                else [
                    node.name,
                    *(() if file.tensors[0] else (op.name for op in self._readers(file))),
                ]
            )
            needed.append((file, names))
            files_of.setdefault(file.place, {}).update(
                {name: known[name] for name in names if name in known}
            )
        for place, of in files_of.items():
            there = [
                file.entry()
                for file in self._engine.catalogue.by_place()[place]
                if file.state == PLANNED
            ]
            left = [
                name
                for name, file in of.items()
                if file.state == PLANNED
                and not self._recomputation.has(place, name, file.signature)
            ]
            made = (
                self._recomputation.of_files(StepFolder(place, "", files=there), left)
                if left
                else {}
            )
            for name, results in made.items():
                self._recomputation.keep(place, name, results, of[name].signature)
        wrong = self._recomputation.wrong()
        return [
            file for file, names in needed if not any((file.place, name) in wrong for name in names)
        ]

    def close(self) -> None:
        """Nothing more comes: forget what was computed of files that others replaced."""
        self._recomputation.drop_outdated(self._signature)

    def _signature(self, place: Place, op: str) -> Optional[Signature]:
        file = self._files(place).get(op)
        return None if file is None else file.signature

    def _is_read(self, file: TargetFile) -> bool:
        """Tell whether all that reads a file's outputs has come, or holds its inputs itself."""
        if file.tensors[0]:
            return True
        known = self._files(file.place)
        come = [known.get(op.name) for op in self._readers(file)]
        if all(
            other is not None
            and (other.state == DELETED or (other.state == PLANNED and not other.pending))
            for other in come
        ):
            return True
        return sum(other.timestamp_us > file.timestamp_us for other in known.values()) >= _BEHIND

    def _readers(self, file: TargetFile) -> List[OpNode]:
        """Return the operators with a dump that read an output of a file's, by way of those without
        one too.
        """
        graph, node = self._engine.graphs.of(file.place.model), self._node(file)
        readers: List[OpNode] = []
        waiting, seen = (
            graph.consumers(node) if graph is not None and node is not None else [],
            set(),
        )
        while waiting and graph is not None:
            at = waiting.pop()
            if at.position in seen:
                continue
            seen.add(at.position)
            if no_dump_reason(at) is None:
                readers.append(at)
            else:
                waiting += graph.consumers(at)
        return readers

    def _node(self, file: TargetFile) -> Optional[OpNode]:
        graph = self._engine.graphs.of(file.place.model)
        if graph is None:
            return None
        if graph.path not in self._pairings:
            self._pairings[graph.path] = Pairing(graph, lambda op, index: True)
        return self._pairings[graph.path].find(file.dumped())

    def _files(self, place: Place) -> Dict[str, TargetFile]:
        """Return the files of a place that count by the names of their operators in the model."""
        revision = self._engine.catalogue.files.revision
        if self._known.get(place, (-1,))[0] != revision:
            files = [
                file
                for file in self._engine.catalogue.by_place().get(place, [])
                if file.there and file.state != EARLIER
            ]
            nodes = ((self._node(file), file) for file in files)
            self._known[place] = (
                revision,
                {node.name: file for node, file in nodes if node is not None},
            )
        return self._known[place][1]
