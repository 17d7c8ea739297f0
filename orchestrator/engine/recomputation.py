"""A run's operators computed again at its end: which, in what order, and for how long."""

from __future__ import annotations

import time
from functools import partial
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..adapters.manifest import read_manifest
from ..dumps.golden import GoldenSet
from ..dumps.place import Place
from ..dumps.tree import Combo, DumpTree
from ..errors import GoldwatchError
from ..judging.computed import Judged, judged
from ..recomputing.nearby import model_near
from ..recomputing.original import NotComputable, Original
from ..recomputing.recomputed import Recomputed
from ..recomputing.recomputer import Recomputer
from ..tensors.tensor import Tensor
from ..verdict.observations import ObservedOp
from .engine import Engine

AUTO, ALL, NONE = "auto", "all", "none"

Key = Tuple[Place, str, int]
"""A place, an op's name, and which of its outputs."""

LEAST_SECONDS = 2.0
"""What ``auto`` may take of however short a comparison."""
SHARE = 0.5
"""Of the time that comparing took, what ``auto`` may take."""


class Recomputation:
    """Computes operators of a run again, each once.

    Parameters
    ----------
    engine
        The run's.
    how
        ``auto``, ``all`` or ``none``.
    original
        The original model's path; None: it is looked for.
    budget_s
        Seconds that ``auto`` may take for what is not urgent.

    Attributes
    ----------
    notes
        What could not be used, as sentences.
    """

    def __init__(self, engine: Engine, how: str, original: Optional[str], budget_s: float) -> None:
        self._engine = engine
        self._how = how
        self._given = original
        self._budget_s = budget_s
        self._computed: Dict[Key, Recomputed] = {}
        self._done: Dict[Tuple[Place, str], bool] = {}
        self._combos: Optional[Dict[Place, Combo]] = None
        self._originals: Dict[str, Optional[Original]] = {}
        self._recomputers: Dict[Place, Optional[Recomputer]] = {}
        self.notes: List[str] = []
        self.seconds = 0.0

    def recompute(self, urgent: Sequence[ObservedOp], others: Sequence[ObservedOp]) -> Mapping[Key, Judged]:
        """Compute operators, and judge all that were computed so far.

        Parameters
        ----------
        urgent
            Computed whatever it takes.
        others
            Computed as far as the time allows, or all where that was asked for.
        """
        if self._how == NONE:
            return {}
        begin = time.monotonic()
        for op in urgent:
            self._compute(op)
        for op in self._cheapest_first(others):
            if self._how != ALL and self.seconds + time.monotonic() - begin > self._budget_s:
                break
            self._compute(op)
        self.seconds += time.monotonic() - begin
        return judged(self._computed)

    @property
    def computed(self) -> Mapping[Key, Recomputed]:
        """All that was computed, and what could not be."""
        return self._computed

    def _cheapest_first(self, ops: Sequence[ObservedOp]) -> List[ObservedOp]:
        return ops if self._how == ALL else sorted(ops, key=lambda op: self._cost(op))

    def _cost(self, op: ObservedOp) -> float:
        recomputer = self._recomputer(op.place)
        return recomputer.cost(op.name) if recomputer is not None else 0.0

    def _compute(self, op: ObservedOp) -> None:
        if (op.place, op.name) in self._done:
            return
        self._done[op.place, op.name] = True
        recomputer = self._recomputer(op.place)
        if recomputer is None or not recomputer.knows(op.name):
            return
        for found in recomputer.recompute(op.name):
            self._computed[op.place, op.name, found.number] = found

    def _recomputer(self, place: Place) -> Optional[Recomputer]:
        if place not in self._recomputers:
            self._recomputers[place] = self._opened(place)
        return self._recomputers[place]

    def _opened(self, place: Place) -> Optional[Recomputer]:
        graph = self._engine.graphs.of(place.model)
        combo = self._combo(place)
        if graph is None or combo is None:
            return None
        original = self._original(graph.path or "")
        if original is None:
            return None
        try:
            golden = self._engine.goldens.of(place)
            shapes = golden_shapes(self._engine.options.golden)
            return Recomputer(combo, graph, original, shapes, partial(_network_input, golden))
        except NotComputable as error:
            self.notes.append("operators are not computed again: %s" % error)
        except GoldwatchError as error:
            self.notes.append("operators are not computed again: %s" % error.message)
        return None

    def _combo(self, place: Place) -> Optional[Combo]:
        if self._combos is None:
            options = self._engine.options
            try:
                self._combos = {combo.place: combo for combo in DumpTree(options.target, time=options.time).combos}
            except GoldwatchError:
                self._combos = {}
        return self._combos.get(place)

    def _original(self, model: str) -> Optional[Original]:
        path = self._given or (model_near(model, self._engine.options.golden) if model else None)
        if path is None:
            return None
        if path not in self._originals:
            try:
                self._originals[path] = Original(path)
            except GoldwatchError as error:
                if self._given is not None:
                    raise
                self.notes.append("operators are not computed again: %s" % error.message)
                self._originals[path] = None
        return self._originals[path]


def _network_input(golden: GoldenSet, name: str, index: int) -> Optional[Tensor]:
    """Return golden data's input of the network; None where it was not saved or cannot be read."""
    entry = golden.find(name, index)
    if entry is None or entry.kind == "npu":
        return None
    try:
        return golden.tensor(entry)
    except (GoldwatchError, OSError):
        return None


def golden_shapes(golden: str) -> Dict[Tuple[str, int], Tuple[int, ...]]:
    """Return the shapes of the golden values by their exact names, as the manifest of GOLDEN tells them; empty without one."""
    try:
        tensors = (read_manifest(golden) or {}).get("tensors", [])
        return {(entry["original_name"], int(entry["output_index"])): tuple(entry["shape"]) for entry in tensors}
    except (GoldwatchError, OSError, AttributeError, KeyError, TypeError, ValueError):
        return {}
