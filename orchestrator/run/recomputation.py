"""A run's operators computed again at its end: which, in what order, and for how long."""

from __future__ import annotations

import contextlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Collection,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import numpy as np

from ..base.element_types import element_count
from ..base.errors import GoldwatchError
from ..base.manifest import read_manifest
from ..base.naming import sanitise_device
from ..base.notes import ORIGINAL_CHANGED, Note, note
from ..dumps.dump_tree import StepFolder
from ..dumps.folder_listing import Signature
from ..dumps.golden_set import GoldenSet
from ..dumps.place import Place
from ..judging.by_recomputation import (
    RIGHT,
    UNKNOWN,
    WRONG,
    RecomputationVerdict,
    excess,
    judge_recomputed,
    only_overflows,
)
from ..judging.diagnosis.observed_ops import ObservedOp, SomeOps
from ..metrics.row import FUSED_BEHIND
from ..model.atc_options import atc_options
from ..model.graph import ModelGraph
from ..model.op_node import OpNode
from ..model.pairing import Pairing
from ..model.row_plan import OUTPUT
from ..recomputing.attributes_and_constants import (
    AttributesAndConstants,
    attributes_and_constants,
    attributes_by_name,
    attributes_by_position,
)
from ..recomputing.find_original import OriginalModelFile, find_original_model
from ..recomputing.recomputed_output import (
    ComputedPair,
    ErrorTransfer,
    NotComputable,
    OpFunction,
    OutputBesideGolden,
    Recomputed,
)
from ..recomputing.recorded_dumps import RecordedStep
from ..tensors.tensor import Tensor
from .engine import Engine
from .target_file import DELETED, GONE

if TYPE_CHECKING:
    from ..recomputing.beside_golden import BesideGolden
    from ..recomputing.lost_numbers import LostNumber
    from ..recomputing.original_cuts import Original
    from ..recomputing.recomputer import Recomputer
    from ..recomputing.variant_search import VariantSearch

Array = Any

AUTO, ALL, NONE = "auto", "all", "none"

ByGolden = Callable[[ObservedOp, Optional[AttributesAndConstants]], List[Recomputed]]
Key = Tuple[Place, str, int]
"""A place, an op's name, and which of its outputs."""

_ASSUMED = "assumed"
_NOT_BY_GOLDEN = "golden data do not follow from golden data by what is computed"
_OTHER_BUILD = "the json is not of the om that was dumped, whose operator may be another one"

_TOGETHER, _MOST_THREADS = 1 << 22, 4
"""Operators with so few elements are computed at the same time, each in 256 MiB at most, in so many
threads at most.
"""

LEAST_COST_S = 0.22
"""What ``auto`` may take of however short a comparison, as :meth:`StepOps.cost_s` estimates
it.
"""
SHARE = 0.2
"""Of the time that comparing takes, what ``auto`` may take."""
ROW_S, ELEMENT_S = 3e-4, 4e-9
"""Seconds that comparing a row takes, and each of its elements: estimates, so that a run computes
the same operators whenever it is made again (scripts/bench rows).
"""
_MOST_ELSEWHERE = 4
"""Other steps, devices and models whose output a wrong one is compared with."""
_RIGHT_ELSEWHERE = 0.1
"""How far off what is computed an output at another place is at most, of how far the wrong one is,
for its own values to be taken: they are nearer to a copy of them than what is computed. A choice;
without it the computed ones are taken, within one rounding of them.
"""
OP_S = 1e-3
"""Seconds that computing an operator takes, however small its tensors are."""


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

    Attributes
    ----------
    notes
        What could not be used, as sentences.
    """

    def __init__(self, engine: Engine, how: str, original: Optional[str] = None) -> None:
        self._engine = engine
        self._how = how
        self._original_path = original
        self._computed: Dict[Key, Recomputed] = {}
        self._done: Set[Tuple[Place, str]] = set()
        self._computed_signatures: Dict[Tuple[Place, str], Optional[Signature]] = {}
        self._step_folders: Dict[Place, Optional[StepFolder]] = {}
        self._originals: Dict[str, Optional[Original]] = {}
        # Whether the original model that was named is of a model of the device, by its path.
        self._fitting: Dict[str, bool] = {}
        # The original model's outputs that no op of the om makes, by the json's path.
        self._ends: Dict[str, List[Tuple[str, str]]] = {}
        self._recomputers: Dict[Place, Optional[Recomputer]] = {}
        self._attributes: Dict[str, List[Dict[str, Any]]] = {}
        self._by_name: Dict[str, Dict[str, Dict[str, Any]]] = {}
        self._fits: Dict[Optional[str], bool] = {}
        self._recorded: Dict[Place, Optional[RecordedStep]] = {}
        self._golden_follows: Dict[Key, Optional[bool]] = {}
        self._known: List[SomeOps] = []
        self._not_computable: Set[str] = set()
        self.notes: List[Note] = []

    def recompute(
        self, urgent: Sequence[ObservedOp], others: Optional[SomeOps], by_golden: ByGolden
    ) -> Mapping[Key, RecomputationVerdict]:
        """Compute operators, and judge all that were computed so far.

        Parameters
        ----------
        urgent
            Computed whatever it takes.
        others
            Computed as far as the time allows, or all where that was asked for: each at the place
            where its output is furthest from golden data, then at the next.
        by_golden
            Computes an operator by what golden data tell, where the original model does not.
        """
        if self._how == NONE:
            return self._in_training(urgent)
        self._compute(urgent, by_golden)
        if others is None:
            return self.verdicts()
        self._known.append(others)
        if self._how == ALL:
            self._compute(others, by_golden)
            return self.verdicts()
        rows, elements = others.size()
        for op in urgent:
            shapes = [row.shape for some in (op.outputs, op.inputs) for row in some.values()]
            rows, elements = rows + len(shapes), elements + sum(map(element_count, shapes))
        most_s = max(LEAST_COST_S, SHARE * (ROW_S * rows + ELEMENT_S * elements))
        spent_s = 0.0
        for sample, again in _samples(others):
            limit_s = LEAST_COST_S if again else most_s
            if spent_s + OP_S > limit_s:
                break
            # Where an operator cannot be computed, it cannot be at its other places either.
            sample = sample.but_named(self._not_computable)
            costs = [(self._cost_s(op), op) for op in sample]
            costs.sort(key=itemgetter(0))
            chosen = []
            for cost_s, op in costs:
                spent_s += cost_s
                if spent_s > limit_s:
                    break
                chosen.append(op)
            self._compute(chosen, by_golden)
            if len(chosen) < len(costs):
                break
        return self.verdicts()

    def _in_training(self, ops: Sequence[ObservedOp]) -> Dict[Key, RecomputationVerdict]:
        """Return of which outputs golden data say nothing, because the original model has their
        nodes in training mode; nothing is computed for it.
        """
        verdicts: Dict[Key, RecomputationVerdict] = {}
        originals: Dict[str, Optional[Original]] = {}
        notes = len(self.notes)
        for op in ops:
            graph = self._graph(op.place)
            node = None if graph is None else graph.op(op.name)
            if graph is None or node is None:
                continue
            path = graph.path or ""
            if path not in originals:
                opened = self._original(path, op.place)
                originals[path] = None if opened is None else opened[0]
            original = originals[path]
            if original is None:
                continue
            numbers = [number for name in node.originals for number in original.model.numbers(name)]
            trained = original.training(numbers)
            if trained is not None:
                verdict = RecomputationVerdict(UNKNOWN, reason=str(trained), code=trained.code)
                verdicts.update({(op.place, op.name, number): verdict for number in op.outputs})
        # Where there is no original model, nobody asked for one.
        del self.notes[notes:]
        return verdicts

    def of_files(
        self, step_folder: StepFolder, names: Sequence[str]
    ) -> Dict[str, List[Recomputed]]:
        """Compute operators by the original model from some files of a step that are there now;
        those that it does not tell are left out.

        Parameters
        ----------
        names
            Of the ops.
        """
        place = step_folder.place
        recomputer = self._opened(place, step_folder, names) if self._how != NONE else None
        return (
            {}
            if recomputer is None
            else {name: recomputer.recompute(name) for name in names if recomputer.knows(name)}
        )

    def keep(
        self, place: Place, op: str, results: Sequence[Recomputed], signature: Optional[Signature]
    ) -> None:
        """Take what was computed of an op while its file, which looked so, was there."""
        if any(one.tight is not None for one in results):
            self._computed_signatures[place, op] = signature
            self._done.add((place, op))
            self._computed.update({(place, op, one.number): one for one in results})

    def has(self, place: Place, op: str, signature: Optional[Signature]) -> bool:
        """Tell whether :meth:`keep` was given what a file comes to."""
        return (place, op) in self._computed_signatures and self._computed_signatures[
            place, op
        ] == signature

    def wrong(self) -> Set[Tuple[Place, str]]:
        """Return the ops that are wrong by what was computed so far."""
        return {
            (place, op)
            for (place, op, _), one in judge_recomputed(self._computed).items()
            if one.state == WRONG
        }

    def drop_outdated(self, now: Callable[[Place, str], Optional[Signature]]) -> None:
        """Forget what was computed of files that were replaced since.

        Parameters
        ----------
        now
            Returns how the file of an op looks, or looked before it was deleted.
        """
        for key, signature in list(self._computed_signatures.items()):
            if now(*key) != signature:
                del self._computed_signatures[key]
                self._done.discard(key)
                self._computed = {
                    one: made for one, made in self._computed.items() if one[:2] != key
                }

    def stored(self, places: Collection[Place]) -> List[List[Any]]:
        """Return the results at some places, as a document for a merge of several hosts
        (:mod:`.verdict_over_hosts`).
        """
        verdicts = ((key, one) for key, one in self.verdicts().items() if key[0] in places)
        return [
            [list(place), op, number, one.state, one.own_error and list(one.own_error), *one[2:]]
            for (place, op, number), one in verdicts
        ]

    def verdicts(self) -> Dict[Key, RecomputationVerdict]:
        """Judge all that was computed.

        Where golden data do not follow from golden data by the same computation either, it is not
        what the operator computes, or golden data are wrong: nobody is convicted by it. Nor where
        an output overflows because another wrong operator made its inputs large, nor where the
        model is of another build than the dump.
        """
        verdicts = judge_recomputed(self._computed)
        wrong = [key for key, one in verdicts.items() if one.state == WRONG]
        rounded = {}
        for key in [key for key in wrong if key not in self._golden_follows]:
            self._golden_follows[key] = self.golden_follows(*key)
            recomputer = self._recomputer(key[0]) if self._how != NONE else None
            if recomputer and self._beside_golden(recomputer, key[0]).is_of_bfloat16(*key[1:]):
                again = recomputer.recompute_in_bfloat16(*key[1:])
                if again is not None:
                    rounded[key] = again
        if rounded:
            self._computed.update(rounded)
            return self.verdicts()
        for key in wrong:
            if self._golden_follows[key] is False:
                verdicts[key] = RecomputationVerdict(UNKNOWN, None, 0.0, _NOT_BY_GOLDEN)
            elif self._is_of_other_build(key[0], key[1]):
                verdicts[key] = RecomputationVerdict(UNKNOWN, None, 0.0, _OTHER_BUILD)
        for key, one in self._overflowed_behind(verdicts).items():
            verdicts[key] = one._replace(state=RIGHT, times=1.0)
        return verdicts

    def _overflowed_behind(
        self, verdicts: Mapping[Key, RecomputationVerdict]
    ) -> Dict[Key, RecomputationVerdict]:
        """Return the wrong outputs that only overflow, where an operator before them is wrong
        otherwise and golden data fit into the type.
        """
        wrong = {key: one for key, one in verdicts.items() if one.state == WRONG}
        overflowed = {
            key: one
            for key, one in wrong.items()
            if one.own_error is not None and only_overflows(one.own_error)
        }
        others = {(place, op) for place, op, _ in wrong.keys() - overflowed.keys()}
        behind = {}
        for (place, op, number), one in overflowed.items():
            graph = self._graph(place)
            if graph is None or not any(
                (place, before.name) in others for before in graph.predecessors(op, len(graph.ops))
            ):
                continue
            recomputer = self._recomputer(place)
            if recomputer is None or not self._beside_golden(recomputer, place).overflows(
                op, number
            ):
                behind[place, op, number] = one
        return behind

    def _graph(self, place: Place) -> Optional[ModelGraph]:
        """Return the model of a place, with the original names of its own file."""
        graph = self._engine.graphs.of(place.model)
        return graph and (graph.as_built or graph)

    def _is_of_other_build(self, place: Place, op: str) -> bool:
        """Tell whether TARGET is not of the build that the json is of: the op's output is that of
        another one of the json, which has no dump; of two builds' dumps also where TARGET has ops
        that the json lacks. Against golden data these make suspects little sure.
        """
        graph, rows = self._graph(place), list(self._engine.store.rows(place=place, op=op))
        if graph is None or any(row.code_value(FUSED_BEHIND) for row in rows):
            return graph is not None
        if self._engine.goldens.kind != "npu":
            return False
        dumped = {file.op_name for file in self._engine.catalogue.by_place().get(place, ())}
        knows = self._engine.places.planner(place).knows
        if not all(map(knows, dumped)):
            return True
        from .outputs_of_builds import other_name

        others = (other_name(row).rsplit(":", 2)[0] for row in rows if row.kind == OUTPUT)
        return any(
            sanitise_device(other.name) not in dumped
            for name in others
            if name
            for other in graph.ops_named(name)
        )

    def pair(self, place: Place, op: str, number: int) -> Optional[ComputedPair]:
        """Return an output side by side with what is computed of the device's own inputs; None
        where it cannot be computed.
        """
        recomputer = self._recomputer(place) if self._how != NONE else None
        return None if recomputer is None else recomputer.pair(op, number)

    def search_variants(self, place: Place, op: str, number: int) -> Optional[VariantSearch]:
        """Return what the device may have computed in place of an output that is wrong; None where
        that cannot be computed.
        """
        recomputer = self._recomputer(place) if self._how != NONE else None
        return (
            None
            if recomputer is None
            else recomputer.search_variants(
                op, number, excess, partial(self._elsewhere, place, op, number)
            )
        )

    def learns(self, place: Place, op: str) -> bool:
        """Tell whether golden data alone show what an op computes: the original model does not tell
        it.
        """
        if self._how == NONE:
            return False
        recomputer = self._recomputer(place)
        return recomputer is None or not recomputer.knows(op)

    def _elsewhere(self, place: Place, op: str, number: int) -> Iterator[Tuple[str, Array]]:
        """Yield an output at the nearest other places, those of the same device and model first."""

        def far(other: Place) -> Tuple[bool, int]:
            steps = [
                int(one.step) if one.step and one.step.isdigit() else 0 for one in (place, other)
            ]
            same = other._replace(step=None, time=None) == place._replace(step=None, time=None)
            return not same, abs(steps[0] - steps[1])

        known = sorted(self._engine.catalogue.by_place(), key=Place.order)
        others = sorted((other for other in known if other != place), key=far)
        here = self.pair(place, op, number) if others else None
        if here is None:
            return
        for other in others[:_MOST_ELSEWHERE]:
            there = self.pair(other, op, number)
            if there is not None:
                # What is as wrong there as here is not what the operator computed there.
                right = _off(there) < _RIGHT_ELSEWHERE * _off(here)
                values = there.actual if right else there.computed
                yield "%s (output %d) at %s" % (op, number, other.label()), values

    def one(self, place: Place, op: str, number: int) -> Optional[Recomputed]:
        """Return the recomputed output, if there is one so far."""
        return self._computed.get((place, op, number))

    def outputs_beside_golden(self, place: Place, op: str) -> List[OutputBesideGolden]:
        """Return the outputs of an op beside what float32 makes of its inputs and golden data;
        raises as :meth:`BesideGolden.outputs`.
        """
        recomputer = self._recomputer(place)
        if recomputer is None:
            raise NotComputable("; ".join(self.notes) or "the original model is not known")
        return self._beside_golden(recomputer, place).outputs(op)

    def error_transfer(self, place: Place, op: str) -> Optional[ErrorTransfer]:
        """Return how small errors of an op's inputs come out; as
        :meth:`BesideGolden.error_transfer`."""
        recomputer = self._recomputer(place)
        return (
            None
            if recomputer is None
            else self._beside_golden(recomputer, place).error_transfer(op)
        )

    def op_function(self, place: Place, op: str) -> OpFunction:
        """Return how an op computes its outputs; raises as :meth:`Recomputer.op_function`."""
        recomputer = self._recomputer(place)
        if recomputer is None:
            raise NotComputable("; ".join(self.notes) or "the original model is not known")
        return recomputer.op_function(op)

    def _beside_golden(self, recomputer: Recomputer, place: Place) -> BesideGolden:
        from ..recomputing.beside_golden import BesideGolden

        return BesideGolden(recomputer.step, partial(_golden, self._engine.goldens.of(place)))

    def golden(self, place: Place, name: str, index: int) -> Optional[Tensor]:
        """Return a golden tensor by its original name and output; None where it was not saved or
        cannot be read.
        """
        return _golden(self._engine.goldens.of(place), name, index)

    @property
    def nodes(self) -> Optional[Set[str]]:
        """The names of the nodes of the original models; None where none is known."""
        originals = [original for original in self._originals.values() if original is not None]
        return (
            {name for original in originals for name in original.model.names} if originals else None
        )

    def golden_follows(self, place: Place, op: str, number: int) -> Optional[bool]:
        """Tell whether a golden output follows from golden inputs; None where that cannot be
        computed.
        """
        if self._golden_follows.get((place, op, number)):
            return True
        recomputer = self._recomputer(place) if self._how != NONE else None
        return (
            None
            if recomputer is None
            else self._beside_golden(recomputer, place).follows(op, number)
        )

    def lost_number(self, place: Place, op: str, number: int) -> Optional[LostNumber]:
        """Return the number of the model that an output shows the device not to have; None where
        it shows none.
        """
        recomputer = self._recomputer(place) if self._how != NONE else None
        return None if recomputer is None else recomputer.lost_number(op, number)

    def golden_variants(self, place: Place, op: str, number: int) -> Optional[VariantSearch]:
        """Return by what a golden output may have been made in place of what the model says; None
        where that cannot be computed.
        """
        recomputer = self._recomputer(place)
        return (
            None
            if recomputer is None
            else self._beside_golden(recomputer, place).variants(op, number, excess)
        )

    def document(self) -> Optional[Dict[str, Any]]:
        """Return ``summary.recomputed`` of result.json; None where there is nothing to tell.

        ``model`` is None where the original model is not known. ``ops`` are those that were
        computed, ``left_out`` those that were not for the time that they take; an op that ran at
        several places counts at each. ``assumed`` are those that come out otherwise of an input
        that golden data hold, since the device's was not dumped: they may be right, and the device
        fed with other data.
        """
        if not self._computed:
            return None
        states: Dict[Tuple[Place, str], str] = {}
        reasons: Dict[str, Dict[str, str]] = {}
        for (place, name, _), one in self.verdicts().items():
            if one.state == UNKNOWN:
                code = {"code": one.code} if one.code else {}
                reasons.setdefault(name, {"op": name, "reason": one.reason, **code})
            elif states.get((place, name)) != WRONG:
                states[place, name] = _ASSUMED if one.state == WRONG and one.assumed else one.state
        counts = Counter(states.values())
        ends = [
            {"output": output, "node": node}
            for each in self._ends.values()
            for output, node in each
        ]
        return {
            "model": ", ".join(
                path
                for path, original in self._originals.items()
                if original is not None and (not self._fitting or any(self._fitting.values()))
            )
            or None,
            "ops": len(states),
            "right": counts[RIGHT],
            "wrong": counts[WRONG],
            "assumed": counts[_ASSUMED],
            "left_out": sum(
                len(some.but_named(self._not_computable).but(self._done)) for some in self._known
            ),
            "not_computed": list(reasons.values()),
            **({"outputs_of_no_op": ends} if ends else {}),
        }

    def _cost_s(self, op: ObservedOp) -> float:
        recomputer = self._recomputer(op.place)
        return OP_S + (recomputer.step.cost_s(op.name) if recomputer is not None else 0.0)

    def _compute(self, ops: Sequence[ObservedOp], by_golden: ByGolden) -> None:
        ops = [op for op in ops if (op.place, op.name) not in self._done]
        self._done.update((op.place, op.name) for op in ops)
        for op, results in zip(ops, self._by_original(ops)):
            recomputer = self._recomputer(op.place)
            if not results or all(one.tight is None for one in results):
                # The original model tells more, but not of every op.
                results = [
                    one
                    for one in by_golden(op, self.attributes_and_constants(op))
                    if one.tight is not None or not results
                ] or results
                why = (
                    recomputer.step.why_not_computable(op.name)
                    if recomputer is not None and not recomputer.knows(op.name)
                    else None
                )
                if why is not None and not results:
                    # Nothing tells of it otherwise: it is said to be left out.
                    results = [Recomputed(op.name, op.type, number) for number in op.outputs]
                results = [
                    one
                    if why is None or one.tight is not None
                    else replace(one, reason=str(why), code=why.code)
                    for one in results
                ]
                # What golden data show of an operator they follow themselves.
                self._golden_follows.update(
                    {
                        (op.place, op.name, one.number): True
                        for one in results
                        if one.tight is not None
                    }
                )
            for one in results:
                self._computed[op.place, op.name, one.number] = one
            if all(one.tight is None for one in results):
                self._not_computable.add(op.name)

    def _by_original(self, ops: Sequence[ObservedOp]) -> List[List[Recomputed]]:
        """Compute operators by the original model, several at once; large ones one after the other,
        so that memory stays bounded.
        """
        known = [(op, self._recomputer(op.place)) for op in ops]
        tasks: List[Callable[[], List[Recomputed]]] = [
            partial(one.recompute, op.name) if one is not None and one.knows(op.name) else list
            for op, one in known
        ]
        small = [one is not None and one.step.elements(op.name) <= _TOGETHER for op, one in known]
        threads = min(self._engine.workers.jobs, sum(small), _MOST_THREADS)
        if threads < 2:
            return [task() for task in tasks]
        with ThreadPoolExecutor(threads) as pool:
            # numpy computes without holding the interpreter.
            waiting = [
                pool.submit(task) if together else None for task, together in zip(tasks, small)
            ]
            try:
                results = [None if one is None else one.result() for one in waiting]
            except BaseException:
                for one in waiting:
                    if one is not None:
                        one.cancel()
                raise
        return [task() if made is None else made for task, made in zip(tasks, results)]

    def attributes_and_constants(self, op: ObservedOp) -> Optional[AttributesAndConstants]:
        """Return what the model's json and the dump tell of an op; None where that is not known."""
        graph = self._graph(op.place)
        named = graph.ops_named(op.name) if graph is not None else ()
        node = next((node for node in named if node.type == op.type), None)
        if graph is None or node is None:
            return None
        if op.place.model not in self._fits:
            self._fits[op.place.model] = self._recorded_step(op.place, graph) is not None
        if not self._fits[op.place.model] or not self._has_files(op.place):
            return None
        # Most ops have no constants: a whole step, of which there may be thousands, is not listed
        # for them.
        step = partial(self._recorded_step, op.place, graph)
        return attributes_and_constants(node, graph, step, self._attributes_of(graph, node))

    def _has_files(self, place: Place) -> bool:
        """Tell whether a dump of a place is still there."""
        files = self._engine.catalogue.by_place().get(place, ())
        return any(file.state not in (GONE, DELETED) for file in files)

    def _recorded_step(self, place: Place, graph: ModelGraph) -> Optional[RecordedStep]:
        """Open the dumps of a step; None where there are none, or they are of another model than
        the json: the comparison says so.
        """
        if place not in self._recorded:
            step_folder, self._recorded[place] = self._step_folder(place), None
            with contextlib.suppress(GoldwatchError):
                if step_folder is not None:
                    self._recorded[place] = RecordedStep(
                        step_folder, graph, Pairing(graph, lambda op, index: True)
                    )
        return self._recorded[place]

    def _attributes_of(self, graph: ModelGraph, node: OpNode) -> Dict[str, Any]:
        path = graph.path or ""
        if graph.fx:
            if path not in self._by_name:
                self._by_name[path] = attributes_by_name(path)
            return self._by_name[path].get(node.name, {})
        if path not in self._attributes:
            self._attributes[path] = attributes_by_position(path)
        attributes = self._attributes[path]
        return attributes[node.position] if node.position < len(attributes) else {}

    def _recomputer(self, place: Place) -> Optional[Recomputer]:
        if place not in self._recomputers:
            self._recomputers[place] = self._opened(place)
        return self._recomputers[place]

    def _opened(
        self, place: Place, files: Optional[StepFolder] = None, names: Sequence[str] = ()
    ) -> Optional[Recomputer]:
        """Open a step, or of its ops those that are wanted; None where the original model does not
        tell of them, or no file is there.

        Parameters
        ----------
        files
            Those of the step; None: all that are there.
        """
        if files is None and not self._has_files(place):
            return None
        graph = self._graph(place)
        if graph is None:
            return None
        opened = self._original(graph.path or "", place)
        if opened is None:
            return None
        original, weights = opened
        # Only here: of thousands of places all files are much memory.
        step_folder = files or self._step_folder(place)
        if step_folder is None:
            return None
        # What cuts a model and computes its parts is needed where there is one.
        from ..recomputing.recomputer import Recomputer
        from ..recomputing.replay_plan import ReplayPlan
        from ..recomputing.step_ops import StepOps

        if self._original_path is not None and not self._is_of(original, graph):
            return None
        path = graph.path or ""
        if path not in self._ends:
            told = "out_nodes" in atc_options(graph.command)
            self._ends[path] = [] if told else original.outputs_of_no_op(graph)
            self.notes += [note("output-of-no-op", *end) for end in self._ends[path]]
        try:
            golden = self._engine.goldens.of(place)
            shapes = golden_shapes(self._engine.goldens.folder_of(place))
            plan = ReplayPlan(
                step_folder, graph, original, names, partial(_golden, golden), by_edges=True
            )
            return Recomputer(StepOps(plan, graph, original, shapes, weights))
        except NotComputable as error:
            self.notes.append(note("without-original", error))
        except GoldwatchError as error:
            self.notes.append(note("without-original", error.message))
        return None

    def _step_folder(self, place: Place) -> Optional[StepFolder]:
        if place not in self._step_folders:
            files = self._engine.catalogue.by_place().get(place, ())
            there = [file.entry() for file in files if file.state not in (GONE, DELETED)]
            self._step_folders[place] = StepFolder(place, "", files=there) if there else None
        return self._step_folders[place]

    def _is_of(self, original: Original, graph: ModelGraph) -> bool:
        """Tell whether the original model that was named has a node of a model of the device; note
        where it has none.
        """
        path = graph.path or "the device's model"
        if path not in self._fitting:
            from ..recomputing.submodel.device_ops import held_nodes

            held = [entry for _, each in held_nodes(graph, original.model) for entry in each]
            self._fitting[path] = not held or any(held)
            if not self._fitting[path]:
                what = self._original_path, len(held), path
                self.notes.append(note("original-of-another-model", *what))
        return self._fitting[path]

    def _original(self, model: str, place: Place) -> Optional[Tuple[Original, Optional[str]]]:
        """Return the original of a model of the device, and the path of its weights where those lie
        apart.
        """
        near = OriginalModelFile(self._original_path)
        # That of golden data of another model is another one, too.
        of_others = self._engine.goldens.folders_of_others(place.model)
        if self._original_path is None and model and not of_others:
            near = find_original_model(model, self._engine.goldens.folder_of(place))
        if near.note:
            self.notes.append(note("without-original", near.note))
        if near.changed:
            self.notes.append(note(ORIGINAL_CHANGED, near.changed))
        if near.path is None:
            return None
        if near.path not in self._originals:
            try:
                from ..recomputing.original_cuts import Original

                self._originals[near.path] = Original(near.path)
            except GoldwatchError as error:
                if self._original_path is not None:
                    raise
                self.notes.append(note("without-original", error.message))
                self._originals[near.path] = None
        original = self._originals[near.path]
        return None if original is None else (original, near.weights)


def _off(pair: ComputedPair) -> float:
    """Return the distance of an output from what is computed."""
    sides = (np.asarray(side, np.float64) for side in (pair.actual, pair.computed))
    return float(np.linalg.norm(np.subtract(*sides)))


def _golden(golden: GoldenSet, name: str, index: int) -> Optional[Tensor]:
    """Return a golden tensor by its original name; None where it was not saved or cannot be
    read.
    """
    entry = golden.find(name, index)
    if entry is None or entry.kind == "npu":
        return None
    try:
        return golden.tensor(entry)
    except (GoldwatchError, OSError):
        return None


def _samples(ops: SomeOps) -> Iterator[Tuple[SomeOps, bool]]:
    """Yield operators: each of another name, where its output is furthest from golden data, then
    where it is next, and so on; last, and marked so, those whose rows hold the same numbers as at
    another place.
    """
    group, is_first = ops.alike()
    different = np.flatnonzero(is_first)
    group = group[different]
    in_groups = np.lexsort((different, -ops.largest_distances()[different], group))
    sizes = np.unique(group, return_counts=True)[1]
    rank = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    in_turn = in_groups[np.lexsort((group[in_groups], rank))]
    for end, count in zip(np.cumsum(np.bincount(rank)).tolist(), np.bincount(rank).tolist()):
        yield ops.only(different[in_turn[end - count : end]]), False
    yield ops.only(~is_first), True


def golden_shapes(golden: str) -> Dict[Tuple[str, int], Tuple[int, ...]]:
    """Return the shapes of the golden values by their exact names, as the manifest of GOLDEN tells
    them; empty without one.
    """
    try:
        tensors = (read_manifest(golden) or {}).get("tensors", [])
        return {
            (entry["original_name"], int(entry["output_index"])): tuple(entry["shape"])
            for entry in tensors
        }
    except (GoldwatchError, OSError, AttributeError, KeyError, TypeError, ValueError):
        return {}
