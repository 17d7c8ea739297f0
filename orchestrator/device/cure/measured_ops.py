"""What a result tells of the precision of each operator of one place: its own error, why it has it,
and how it passes on the errors of others.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from functools import partial
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import numpy as np

from ...base.element_types import BY_GE_NAME
from ...base.errors import GoldwatchError, InputError
from ...base.naming import parse_dump_name
from ...base.notes import Note, note
from ...base.wording import listed
from ...dumps.place import Place
from ...judging.by_recomputation import RecomputationVerdict
from ...judging.diagnosis.observed_ops import ObservedOp, ObservedOps
from ...judging.diagnosis.op_input_states import Inputs
from ...judging.diagnosis.summary import REPLAY
from ...judging.limits import Subject
from ...metrics.row import FAIL
from ...model.graph import ModelGraph
from ...model.never_dumped import FIXED_TYPES, INPUT_TYPES
from ...model.op_groups import FOLLOWING_TYPES
from ...model.op_node import OpNode, TensorDesc, desc_at, execution_key
from ...operators import CannotCompute
from ...recomputing.input_feeds import Feed
from ...recomputing.piece import rounded
from ...recomputing.recomputed_output import NotComputable, OutputBesideGolden
from ...recomputing.recorded_tensor import RecordedTensor
from ...run.comparison_options import ONE, ComparisonOptions
from ...run.engine import Engine
from ...run.golden_files import Goldens
from ...run.recomputation import ALL, Recomputation
from ...run.run_status import stored_options
from ...run.tensor_reader import RunReader
from ...run.workers import Workers
from ...store.host_facts import host_summaries
from ...store.store import RunStore
from .choosing_ops import ErrorNetwork
from .error_propagation import ErrorPropagation
from .output_limits import worst_ratio
from .own_errors import NARROW, OutputErrors, finite_distance, output_errors
from .precision_causes import Causes, OpPrecision, with_refined_causes
from .simulated_cure import MOST_ELEMENTS, Rehearsal, rehearsed


class OpenedResult(NamedTuple):
    """One place of a result, with what its tensors are read by.

    Attributes
    ----------
    engine
        The run's engine, with its dumps and golden data.
    place, graph
        Where the first failing row is, and the model of that place.
    original
        The model that the om was made from; None where neither the caller nor the result names it.
    is_replay
        The result is a replay's, which knows no golden data but each operator's own.
    """

    engine: Engine
    place: Place
    graph: ModelGraph
    original: Optional[str]
    is_replay: bool


@contextlib.contextmanager
def opened_result(result: str, model: str, original: Optional[str]) -> Iterator[OpenedResult]:
    """Open a result; of a merged one that of the host where the first failing operator is.

    Parameters
    ----------
    result
        A folder that compare, run, watch, merge or replay wrote.
    model
        The json of the om.
    original
        The model that it was made from; None: it is looked for where the result's golden data say.

    Raises
    ------
    InputError
        The result is of something that tells nothing of operators, or its dumps are gone.
    GoldwatchError
        The store or a model cannot be read.
    """
    with contextlib.ExitStack() as opened:
        store = opened.enter_context(RunStore.open(result))
        while store.has_hosts:
            result = _host_folder(store, result)
            store = opened.enter_context(RunStore.open(result))
        options, inputs = stored_options(result, False, store.get), store.get("inputs") or {}
        is_replay = inputs.get("comparison") == REPLAY
        _require_tensors(options, result)
        options = replace(
            options,
            model=model,
            original=original or (inputs.get("original") if is_replay else None),
        )
        place = _place(store, result)
        graph = options.graphs().of(place.model)
        if graph is None:
            text = "%s holds no model of the dumps in %s" % (model, place.label() or options.target)
            raise InputError(text, hint="the json of the om that ran is needed")
        workers = opened.enter_context(Workers(1, options.settings()))
        golden_steps = ONE if is_replay else options.golden_steps
        goldens = Goldens(options.golden, golden_steps, store, options.target)
        goldens.take(options.golden_index.golden())
        engine = Engine(options, options.graphs(), store, workers, goldens)
        yield OpenedResult(engine, place, graph, original or options.original, is_replay)


def _host_folder(store: RunStore, result: str) -> str:
    """Return the folder of the host's own result where the first failing operator of a merged one
    is.
    """
    failing = next(iter(store.rows("arrival", verdict=FAIL)), None)
    context = host_summaries(store)
    host = (
        failing.place.host
        if failing is not None and failing.place.host in context
        else next(iter(context), None)
    )
    folder = context[host].get("folder") if host is not None else None
    if not isinstance(folder, str):
        raise InputError(
            "%s: a merged result that does not say where its hosts' own results are" % result
        )
    return folder


def _require_tensors(options: ComparisonOptions, result: str) -> None:
    hint = "compare dumps with golden data, then cure that result"
    if options.outputs is not None:
        what = "it is of final outputs, which tell nothing of single operators"
    elif options.exact:
        what = "it is of bytes, which tell nothing of precision"
    elif (
        not os.path.exists(options.target)
        or not options.target_index.tree(options.time).step_folders
    ):
        what = "the dumps that it is of are not there any more (%s)" % options.target
        hint = "dump again and keep all dumps (watch, run and locate delete some), compare them, "
        hint += "then cure that result"
    else:
        return
    raise InputError("%s: %s" % (result, what), hint=hint)


def _place(store: RunStore, result: str) -> Place:
    """Return where the first failing row is; the first place where none fails."""
    places = store.places()
    if not places:
        raise InputError("%s holds no rows" % result, hint="compare dumps with golden data first")
    failing = (
        {row.place for row in store.rows("arrival", verdict=FAIL)} if len(places) > 1 else set()
    )
    return min(failing or places, key=Place.order)


Array = Any

OnProgress = Callable[[str, int, int], None]


class Measured(NamedTuple):
    """What a result tells of one place (one device, one step).

    Attributes
    ----------
    network
        How errors are passed on.
    ops
        By name, in the order of execution.
    place, graph
        The place, and its model.
    outputs_fail
        How many outputs of the network are outside their limits, of how many.
    nodes
        The names of the original model's nodes; None where it is not known.
    rehearsal
        The network as it is computed here; None where something is missing for that.
    elements
        Of all its tensors.
    gone
        Operators that could not be computed again because their dumps are deleted.
    notes
        What the user must know.
    """

    network: ErrorNetwork
    ops: Mapping[str, OpPrecision]
    place: Place
    graph: ModelGraph
    outputs_fail: Tuple[int, int]
    nodes: Optional[Set[str]]
    rehearsal: Optional[Rehearsal]
    elements: int
    gone: Tuple[str, ...]
    notes: Tuple[Note, ...]


def measure(
    result: str,
    model: str,
    original: Optional[str] = None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Measured:
    """Compute every operator of a result again, and return what that tells; parameters and errors
    as those of :func:`goldwatch.device.cure.measured_ops.opened_result`.
    """
    with opened_result(result, model, original) as opened:
        return _Measuring(opened, on_progress).measured()


class _Measuring:
    """Measures one place."""

    def __init__(self, opened: OpenedResult, on_progress: OnProgress) -> None:
        engine = opened.engine
        self._engine, self._place, self._graph = engine, opened.place, opened.graph
        self._is_replay, self._on_progress = opened.is_replay, on_progress
        self._seen = ObservedOps(engine.store.rows("index", opened.place))
        self._inputs = Inputs(self._seen, engine.graphs)
        self._recomputation = Recomputation(engine, ALL, opened.original)
        self._reader = RunReader(engine, self._recomputation)
        self._causes = Causes(self._seen, self._inputs, self._reader)
        self._propagation = ErrorPropagation(
            opened.place,
            opened.graph,
            self._seen,
            self._inputs,
            None if opened.is_replay else self._recomputation,
        )
        # Have the files of the place known, so that they can be read again.
        for rel in sorted({op.file for op in self._seen.ops if op.file}):
            self._engine.meet(self._path(rel))
        self._engine.places.settled = True
        self._judged: Mapping[Tuple[Place, str, int], RecomputationVerdict] = {}
        self._ops: Dict[str, OpPrecision] = {}
        self._added: Dict[Tuple[str, int], Array] = {}
        self._elements = 0

    def measured(self) -> Measured:
        nodes = [
            node
            for node in sorted(self._graph.ops, key=execution_key)
            if (
                node.type not in FOLLOWING_TYPES
                and node.type not in INPUT_TYPES
                and node.type not in FIXED_TYPES
            )
        ]
        self._require_its_model()
        ops = [self._op(node) for node in nodes]
        observed = [op for op in ops if op is not None]
        self._on_progress("computing again", 0, len(observed))
        self._judged = self._reader.recompute(self._inputs, observed)
        for node, op in zip(nodes, ops):
            if op is not None:
                self._measure(node, op)
            self._on_progress("measuring", len(self._ops), len(observed))
        fails = self._propagation.set_limits(self._engine.options.limits)
        network = self._propagation.network
        self._ops = with_refined_causes(self._ops, network)
        return Measured(
            network,
            self._ops,
            self._place,
            self._graph,
            fails,
            self._recomputation.nodes,
            None if self._is_replay else self._rehearsal(nodes),
            self._elements,
            tuple(
                op.name
                for op in observed
                if op.name in self._ops
                and self._ops[op.name].estimated
                and op.file
                and not os.path.exists(self._path(op.file))
            ),
            tuple(self._notes()),
        )

    def _require_its_model(self) -> None:
        """Raise InputError where the model is that of another om than the result's."""
        planner = self._engine.places.planner(self._place)
        files = {op.file for op in self._seen.ops if op.file}
        names = filter(None, (parse_dump_name(os.path.basename(file)) for file in sorted(files)))
        unknown = [name.op_name for name in names if not planner.knows(name.op_name)]
        if unknown:
            raise InputError(
                "%s is not the json of the om that was dumped: it lacks %d of the %d operators of "
                "the result (%s)"
                % (self._graph.path, len(unknown), len(files), listed(unknown, 3)),
                hint="give the json of that om",
            )

    def _path(self, rel: str) -> str:
        root = self._engine.catalogue.root
        return rel if rel.startswith("/") else "%s/%s" % (root, rel)

    def _notes(self) -> List[Note]:
        notes = list(dict.fromkeys(self._recomputation.notes))
        estimated = [one.name for one in self._ops.values() if one.estimated]
        if estimated:
            values = len(estimated), len(self._ops), estimated[0]
            notes.append(note("estimated-operators", *values))
        if self._is_replay:
            notes.append(note("own-errors-alone"))
        return notes

    def _op(self, node: OpNode) -> Optional[ObservedOp]:
        op = self._seen.find(self._place, node.name)
        return op if op is not None and op.outputs else None

    def _measure(self, node: OpNode, op: ObservedOp) -> None:
        """Add the tensors of one op, and what is known of it."""
        beside = {one.number: one for one in self._beside(op)}
        kinds = [_dtype(node, number) for number in op.outputs]
        dtype = next((kind for kind in (*NARROW[::-1], "float32", "float64") if kind in kinds), "")
        if not dtype:
            return
        self._propagation.begin(node.name, dtype not in NARROW)
        reads = self._propagation.reads(node, op)
        incoming = self._propagation.distances(reads)
        errors: Dict[int, OutputErrors] = {}
        for number, row in sorted(op.outputs.items()):
            kind = _dtype(node, number)
            if kind and row.compared | row.spoiled:
                narrow = kind if kind in NARROW else "float16"
                one = output_errors(row, beside.get(number), narrow, incoming, self._is_replay)
                errors[number] = one
                self._propagation.add(node, number, one, reads)
                self._add_difference(node.name, number, kind, one)
        self._ops[node.name] = self._causes.of(
            node,
            op,
            dtype,
            errors,
            {number: self._judged.get((self._place, op.name, number)) for number in op.outputs},
            {
                number: self._recomputation.one(self._place, op.name, number)
                for number in op.outputs
            },
        )

    def _beside(self, op: ObservedOp) -> List[OutputBesideGolden]:
        try:
            return self._recomputation.outputs_beside_golden(self._place, op.name)
        except (CannotCompute, GoldwatchError, MemoryError):
            return []

    def _add_difference(self, name: str, number: int, dtype: str, errors: OutputErrors) -> None:
        """Keep what an output differs by from one rounding, for the rehearsal."""
        self._elements += errors.elements
        beside = errors.beside
        if self._elements > MOST_ELEMENTS or beside is None or errors.spoiled:
            return
        held = rounded(beside.stored, dtype)
        with np.errstate(all="ignore"):
            off = np.asarray(beside.actual, np.float32) - np.asarray(held, np.float32)
        if finite_distance(beside.actual, held) > errors.rounding:
            self._added[name, number] = np.where(np.isfinite(off), off, np.float32(0.0))

    def _rehearsal(self, nodes: Sequence[OpNode]) -> Optional[Rehearsal]:
        """Return the network as it is computed here; None where something is missing, or it does
        not fit into memory.
        """
        if self._elements > MOST_ELEMENTS:
            return None
        names = []
        for node in nodes:
            one = self._ops.get(node.name)
            narrow = one.dtype if one is not None and one.dtype in NARROW else ""
            names.append((node.name, narrow, one is not None, one is not None and one.wrong))
        judges = self._judges()
        if not judges:
            return None

        def golden(name: str, index: int) -> Optional[Array]:
            tensor = self._recomputation.golden(self._place, name, index)
            return None if tensor is None else RecordedTensor(Feed(tensor, TensorDesc())).wide()

        def judge(values: Mapping[Tuple[int, int], Array], slices: bool) -> float:
            return max((one(slices, values[value]) for value, one in judges.items()), default=0.0)

        step = partial(self._recomputation.op_function, self._place)
        return rehearsed(names, step, self._added, golden, judge)

    def _judges(self) -> Dict[Tuple[int, int], Callable[[bool, Array], float]]:
        """Return what judges each output of the network that has limits, by its value; nothing
        where one of them cannot be.
        """
        judges: Dict[Tuple[int, int], Callable[[bool, Array], float]] = {}
        for name, output, errors in self._propagation.limited():
            try:
                step = self._recomputation.op_function(self._place, name)
            except (NotComputable, GoldwatchError):
                return {}
            value = next((value for value, index in step.outputs if index == output), None)
            beside, op = errors.beside, self._seen.find(self._place, name)
            if value is None or beside is None or beside.golden is None or op is None:
                return {}
            limits = self._engine.options.limits.for_subject(
                Subject(op.outputs[output].dtype, op.type, op.name)
            )
            judges[value] = partial(worst_ratio, beside.golden, beside.dtype, limits)
        return judges


def _dtype(node: OpNode, number: int) -> str:
    """Return the type of an output whose errors can be measured; empty of others."""
    entry = BY_GE_NAME.get(desc_at(node.output_descs, number).dtype)
    return entry.name if entry is not None and entry.name in (*NARROW, "float32", "float64") else ""
