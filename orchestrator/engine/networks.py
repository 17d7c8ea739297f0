"""The networks of a run in its store, from its first row on: what is known of a run that was killed is known from the store alone."""

from __future__ import annotations

from typing import Iterable, List

from ..dumps.place import Place
from ..model.graph import ModelGraph
from ..model.graphs import ModelGraphs
from ..results.network import GRAPHS, network_document
from ..results.store import RunStore


class Networks:
    """Keeps the models of all places that have rows in the store; each is written once, with the first of its places."""

    def __init__(self, graphs: ModelGraphs, store: RunStore) -> None:
        self._graphs = graphs
        self._store = store
        self._kept: List[ModelGraph] = []

    def keep(self, places: Iterable[Place], coming: Iterable[Place] = ()) -> None:
        """Store the models of some places before their rows; where one is new, those of places that rows are coming for as well."""
        if len(self._kept) < len(self._graphs) and any(graph not in self._kept for graph in self._graphs.seen(places)):
            self._keep([*self._store.places(), *coming, *places])

    def keep_only(self, places: Iterable[Place]) -> None:
        """Store the models of some places and no others."""
        if self._graphs and self._graphs.seen(places) != self._kept:
            self._keep(places)

    def _keep(self, places: Iterable[Place]) -> None:
        self._kept = self._graphs.seen(places)
        self._store.set(GRAPHS, [network_document(graph) for graph in self._kept])
