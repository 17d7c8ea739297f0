"""What a result tells of the precision of each operator: its own error, why it has it, and how it
passes on the errors of others.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
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

from ..diagnosis.compare_arrays import compare_arrays
from ..diagnosis.explain_suspects import with_explanations
from ..diagnosis.observed_ops import ObservedOp, ObservedOps
from ..diagnosis.op_inputs import Inputs
from ..diagnosis.own_error.estimate import ALL as ALL_ELEMENTS
from ..diagnosis.own_error.estimate import HIGHEST_SCORE, Estimate, ShownBy
from ..diagnosis.own_error.normal_error import Normal
from ..diagnosis.replay_summary import REPLAY
from ..diagnosis.row_digest import COSINE, DISTANCE, Observation
from ..diagnosis.suspects import HIGH, Suspect
from ..dumps.golden import GoldenSet
from ..dumps.place import Place
from ..dumps.tree import DumpTree
from ..elements import BY_GE_NAME
from ..errors import GoldwatchError, InputError, NotComparable
from ..judging.by_recomputation import RIGHT, WRONG, RecomputationVerdict, excess
from ..judging.limits import Limit, Limits, Subject
from ..metrics.row import FAIL, WORST_SLICE
from ..model.graph import ModelGraph
from ..model.never_dumped import FIXED_TYPES, INPUT_TYPES
from ..model.op_groups import FOLLOWING_TYPES
from ..model.op_node import OpNode, TensorDesc, desc_at, execution_key
from ..operators import CannotCompute, Value
from ..recomputing.input_feeds import Feed
from ..recomputing.original import NotComputable
from ..recomputing.output_error import own_error
from ..recomputing.piece import rounded
from ..recomputing.recomputed_output import PRODUCT, OutputBesideGolden, Recomputed
from ..recomputing.recorded_tensor import RecordedTensor
from ..run.catalogue import Catalogue
from ..run.engine import Engine
from ..run.goldens import Goldens
from ..run.options import ONE, ComparisonOptions
from ..run.recomputation import ALL, Recomputation
from ..run.run_status import stored_options
from ..run.tensor_reader import RunReader
from ..run.workers import Workers
from ..store.hosts import host_summaries
from ..store.store import RunStore
from ..tensors.rounding import ROUNDING
from .choosing import LINEAR, UNBOUNDED, Network, Read, TensorError
from .rehearsing import MOST_ELEMENTS, Rehearsal, rehearsed

Array = Any

NARROW = ("float16", "bfloat16")
"""Types from which an operator can be raised to float32."""
ROUNDED, CANCELLING, OVERFLOW, COARSE_SUMS, APPROXIMATE, UNDERFLOW, SHORTENED = (
    "rounding", "cancelling", "overflow", "coarse sums", "approximation", "underflow",
    "shortened factors",
)  # fmt: skip
"""Why an operator's output is off that float32 would mend."""

_BY_PRECISION = {"rounding": ROUNDED, "overflow": OVERFLOW, "flush-to-zero": UNDERFLOW}
"""Kinds of explanations (docs/reference/verdict.md) that float32 mends."""
_APPROXIMATED = (
    "exp", "log", "tanh", "sigmoid", "gelu", "erf", "sqrt", "pow", "softmax", "norm", "swish",
    "silu", "mish", "elu", "softplus", "div",
    "reciprocal", "sin", "cos", "atan", "lstm", "gru", "rnn",
)  # fmt: skip
"""Words in the types of operators whose kernels approximate a function."""
_APPROXIMATE_MOST = 0.2
"""Up to this distance an error that no explanation fits may be an approximation's."""
_NEARLY_ONE = 2.0**-8
"""A common factor nearer to 1 than this is rounding toward zero, no wrong scale."""
_SUMS = ("add", "sub", "eltwise", "bias", "accumulate")
"""Words in the types of operators whose output is a sum of their inputs."""
_JOINS = ("concat", "pack")
"""The same of those whose output holds them side by side."""
_FLOOR = 2.0**-22
"""Relative error of float32 itself: golden data and what is computed are no closer than that."""
_AMPLIFIED = 8.0
"""An error that comes out so many times as large was part of a difference that cancels."""
_LARGE = 0.1
"""Errors of inputs up to this pass on as smaller ones do."""
_MOST_STEPS_BACK = 32
_MASK = 1e30
"""Constants of this magnitude stand for infinity."""

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class OpFacts:
    """What is known of one operator.

    Attributes
    ----------
    name, type, originals
        The device's op, its Ascend IR type, and the original nodes that it was made from (empty:
        the compiler put it in).
    dtype
        The coarsest element type of its outputs.
    own
        Its own error: relative distance of its output from what float32 makes of its inputs.
    cause
        Why float32 would mend it, one of the causes above; empty where it would not.
    sentence
        What was found.
    wrong
        Whether it is wrong beyond the rounding of its type.
    estimated
        It could not be computed: its error is what its inputs' do not explain.
    product
        It adds products.
    """

    name: str
    type: str
    originals: Tuple[str, ...]
    dtype: str
    own: float
    cause: str
    sentence: str = ""
    wrong: bool = False
    estimated: bool = False
    product: bool = False


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
    notes
        What the user must know.
    """

    network: Network
    ops: Mapping[str, OpFacts]
    place: Place
    graph: ModelGraph
    outputs_fail: Tuple[int, int]
    nodes: Optional[Set[str]]
    rehearsal: Optional[Rehearsal]
    elements: int
    notes: Tuple[str, ...]


def measure(
    result: str,
    model: str,
    original: Optional[str] = None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Measured:
    """Compute every operator of a result again, and return what that tells.

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
    with RunStore.open(result) as store:
        if store.has_hosts:
            return measure(_host_folder(store, result), model, original, on_progress)
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
        with Workers(1, options.settings()) as workers:
            goldens = Goldens(
                options.golden, ONE if is_replay else options.golden_steps, store, dumps_too=False
            )
            goldens.take(GoldenSet.open(options.golden))
            engine = Engine(
                options, options.graphs(), store, workers, Catalogue(options.target), goldens
            )
            return _Measuring(
                engine, place, graph, original or options.original, is_replay, on_progress
            ).measured()


def _ratio(limit: Limit, value: float) -> float:
    """Return a metric's value in units of its limit, as a distance; 0 where it was not measured."""
    if value != value:
        return 0.0
    if limit.wants_large:
        return (
            math.sqrt(max(1.0 - value, 0.0) / max(1.0 - limit.value, 1e-12))
            if limit.metric == COSINE
            else 0.0
        )
    return value / limit.value if limit.value > 0 else 0.0


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
    if options.outputs is not None:
        what = "it is of final outputs, which tell nothing of single operators"
    elif options.exact:
        what = "it is of bytes, which tell nothing of precision"
    elif (
        not os.path.exists(options.target)
        or not DumpTree(options.target, time=options.time).step_folders
    ):
        what = "the dumps that it is of are not there any more (%s)" % options.target
    else:
        return
    raise InputError(
        "%s: %s" % (result, what), hint="compare dumps with golden data, then cure that result"
    )


def _place(store: RunStore, result: str) -> Place:
    """Return where the first failing row is; the first place where none fails."""
    places = store.places()
    if not places:
        raise InputError("%s holds no rows" % result, hint="compare dumps with golden data first")
    failing = (
        {row.place for row in store.rows("arrival", verdict=FAIL)} if len(places) > 1 else set()
    )
    return min(failing or places, key=Place.order)


class _MeasuredOutput(NamedTuple):
    """An output as it was measured: relative distances, and its size."""

    beside: Optional[OutputBesideGolden]
    own: float
    rounding: float
    inherited: float
    distance: float
    norm: float
    elements: int
    spoiled: bool


class _Measuring:
    """Measures one place."""

    def __init__(
        self,
        engine: Engine,
        place: Place,
        graph: ModelGraph,
        original: Optional[str],
        is_replay: bool,
        on_progress: OnProgress,
    ) -> None:
        self._engine, self._place, self._graph, self._is_replay = engine, place, graph, is_replay
        self._seen = ObservedOps(engine.store.rows("index", place))
        self._inputs = Inputs(self._seen, engine.graphs)
        self._recomputation = Recomputation(engine, ALL, original)
        self._reader = RunReader(engine, self._recomputation)
        self._on_progress = on_progress
        self._meet()
        self._judged: Mapping[Tuple[Place, str, int], RecomputationVerdict] = {}
        self._numbers: Dict[Tuple[str, int], int] = {}
        self._tensors: List[TensorError] = []
        self._found: List[_MeasuredOutput] = []
        self._facts: Dict[str, OpFacts] = {}
        self._wide: Set[str] = set()
        self._added: Dict[Tuple[str, int], Array] = {}
        self._elements = 0

    def _meet(self) -> None:
        """Have the files of the place known, so that they can be read again."""
        root = self._engine.catalogue.root
        for rel in sorted({op.file for op in self._seen.ops if op.file}):
            self._engine.meet(rel if rel.startswith("/") else "%s/%s" % (root, rel))
        self._engine.places.settled = True

    def measured(self) -> Measured:
        nodes = [
            node for node in sorted(self._graph.ops, key=execution_key) if self._is_computed(node)
        ]
        ops = [self._op(node) for node in nodes]
        observed = [op for op in ops if op is not None]
        self._on_progress("computing again", 0, len(observed))
        self._judged = self._reader.recompute(self._inputs, observed, [])
        for node, op in zip(nodes, ops):
            if op is not None:
                self._measure(node, op)
            self._on_progress("measuring", len(self._facts), len(observed))
        fails = self._set_limits(nodes)
        self._tell_causes()
        notes = list(dict.fromkeys(self._recomputation.notes))
        estimated = [facts.name for facts in self._facts.values() if facts.estimated]
        if estimated:
            text = (
                "%d of %d operators could not be computed again (%s …): of their errors, what "
                "their inputs do not explain counts"
            )
            notes.append(text % (len(estimated), len(self._facts), estimated[0]))
        if self._is_replay:
            notes.append(
                "a replay knows own errors only: they are taken as passed on unchanged; the "
                "result of compare tells more"
            )
        network, original = Network(self._tensors, self._wide), self._recomputation.nodes
        rehearsal = None if self._is_replay else self._rehearsal(nodes)
        return Measured(
            network,
            self._facts,
            self._place,
            self._graph,
            fails,
            original,
            rehearsal,
            self._elements,
            tuple(notes),
        )

    def _rehearsal(self, nodes: Sequence[OpNode]) -> Optional[Rehearsal]:
        """Return the network as it is computed here; None where something is missing, or it does
        not fit into memory.
        """
        if self._elements > MOST_ELEMENTS:
            return None
        names = []
        for node in nodes:
            facts = self._facts.get(node.name)
            narrow = facts.dtype if facts is not None and facts.dtype in NARROW else ""
            names.append((node.name, narrow, facts is not None, facts is not None and facts.wrong))
        outputs = [
            (key, number)
            for key, number in self._numbers.items()
            if self._tensors[number].limit is not None
        ]

        def golden(name: str, index: int) -> Optional[Array]:
            tensor = self._recomputation.golden(self._place, name, index)
            return None if tensor is None else RecordedTensor(Feed(tensor, TensorDesc())).wide()

        judges: Dict[Tuple[int, int], Callable[[bool, Array], float]] = {}
        for (name, output), number in outputs:
            try:
                step = self._recomputation.step(self._place, name)
            except (NotComputable, NotComparable, GoldwatchError):
                return None
            value = next((value for value, index in step.outputs if index == output), None)
            beside = self._found[number].beside
            op = self._seen.find(self._place, name)
            if value is None or beside is None or beside.golden is None or op is None:
                return None
            limits = self._engine.options.limits.for_subject(
                Subject(op.outputs[output].dtype, op.type, op.name)
            )
            judges[value] = partial(_worst_ratio, beside.golden, beside.dtype, limits)

        def judge(values: Mapping[Tuple[int, int], Array], slices: bool) -> float:
            return max((one(slices, values[value]) for value, one in judges.items()), default=0.0)

        return (
            rehearsed(
                names, partial(self._recomputation.step, self._place), self._added, golden, judge
            )
            if judges
            else None
        )

    def _tell_causes(self) -> None:
        """Tell of ops that round rightly whose values are beyond the type, and whose rounding what
        is behind them multiplies.
        """
        network = Network(self._tensors, self._wide)
        beyond_type = {one.op for one in self._tensors if one.rounding >= UNBOUNDED}
        for name, one in self._facts.items():
            if one.cause == ROUNDED and name in beyond_type:
                self._facts[name] = replace(one, cause=OVERFLOW)
            elif one.cause == ROUNDED and network.amplification(name) > _AMPLIFIED:
                self._facts[name] = replace(one, cause=CANCELLING)

    def _is_computed(self, node: OpNode) -> bool:
        return (
            node.type not in FOLLOWING_TYPES
            and node.type not in INPUT_TYPES
            and node.type not in FIXED_TYPES
        )

    def _op(self, node: OpNode) -> Optional[ObservedOp]:
        op = self._seen.find(self._place, node.name)
        return op if op is not None and op.outputs else None

    def _measure(self, node: OpNode, op: ObservedOp) -> None:
        """Add the tensors and the facts of one op."""
        beside = {one.number: one for one in self._recomputed(op)}
        kinds = [_dtype(desc_at(node.output_descs, number).dtype) for number in op.outputs]
        dtype = next((kind for kind in (*NARROW[::-1], "float32", "float64") if kind in kinds), "")
        if not dtype:
            return
        if dtype not in NARROW:
            self._wide.add(node.name)
        reads = self._reads(node, op)
        first = len(self._tensors)
        for number, row in sorted(op.outputs.items()):
            if _dtype(desc_at(node.output_descs, number).dtype) and row.compared | row.spoiled:
                self._add(node, number, row, beside.get(number), reads)
        self._facts[node.name] = self._facts_of(node, op, dtype, range(first, len(self._tensors)))

    def _recomputed(self, op: ObservedOp) -> List[OutputBesideGolden]:
        try:
            return self._recomputation.beside(self._place, op.name)
        except (NotComputable, CannotCompute, NotComparable, GoldwatchError, MemoryError):
            return []

    def _add(
        self,
        node: OpNode,
        number: int,
        row: Observation,
        beside: Optional[OutputBesideGolden],
        reads: Sequence[Tuple[int, float]],
    ) -> None:
        """Add one output."""
        dtype = _dtype(desc_at(node.output_descs, number).dtype)
        narrow = dtype if dtype in NARROW else "float16"
        incoming = [self._tensors[tensor] for tensor, _ in reads]
        measured = self._measured(row, beside, narrow, [entry.measured for entry in incoming])
        read = []
        for tensor, _ in reads:
            before = self._found[tensor]
            read.append(
                Read(
                    tensor,
                    _weight(
                        node.type, before.norm, before.elements, measured.norm, measured.elements
                    ),
                )
            )
        gain = self._gain(node, number, measured, read)
        self._elements += measured.elements
        if self._elements <= MOST_ELEMENTS and beside is not None and not measured.spoiled:
            held = rounded(beside.stored, dtype)
            with np.errstate(all="ignore"):
                off = np.asarray(beside.actual, np.float32) - np.asarray(held, np.float32)
            if _plain_distance(beside.actual, held) > measured.rounding:
                self._added[node.name, number] = np.where(np.isfinite(off), off, np.float32(0.0))
        self._numbers[node.name, number] = len(self._tensors)
        self._tensors.append(
            TensorError(
                node.name,
                measured.own,
                measured.rounding,
                gain,
                tuple(read),
                None,
                measured.distance,
            )
        )
        self._found.append(measured)

    def _gain(
        self, node: OpNode, number: int, measured: _MeasuredOutput, read: Sequence[Read]
    ) -> float:
        """Return by what an op multiplies the error of what it reads, by how that came out; by a
        smaller one where it was too large.
        """
        if not read or self._is_replay:
            return 1.0
        arriving = [_arriving(self._tensors[entry.tensor], self._wide, node.name) for entry in read]
        if max(arriving) <= _LARGE and not measured.spoiled and math.isfinite(measured.inherited):
            return measured.inherited / math.hypot(
                math.sqrt(sum((w.weight * off) ** 2 for w, off in zip(read, arriving))), _FLOOR
            )
        passed = self._recomputation.passed(self._place, node.name)
        if passed is None or number not in passed.outputs:
            return 1.0
        weighted = (
            off * _weight(node.type, norm, count, measured.norm, measured.elements)
            for off, norm, count in passed.inputs
        )
        came = math.sqrt(sum(off**2 for off in weighted))
        return passed.outputs[number] / math.hypot(came, _FLOOR)

    def _measured(
        self,
        row: Observation,
        beside: Optional[OutputBesideGolden],
        narrow: str,
        incoming: Sequence[float],
    ) -> _MeasuredOutput:
        distance = row.distance if math.isfinite(row.distance) else UNBOUNDED
        if beside is None:
            came = math.sqrt(sum(min(one, UNBOUNDED) ** 2 for one in incoming if one == one))
            inherited = min(came, distance)
            rounding = ROUNDING[narrow].half_unit / math.sqrt(3.0)
            own_part = math.sqrt(max(distance**2 - inherited**2, rounding**2))
            return _MeasuredOutput(
                None,
                own_part,
                rounding,
                inherited,
                distance,
                0.0,
                0,
                distance >= UNBOUNDED and came >= UNBOUNDED,
            )
        exact, golden = beside.exact, beside.golden
        truth = golden if golden is not None and not self._is_replay else exact
        rounding = _distance(rounded(truth, narrow), truth, narrow)
        spoiled = golden is not None and _is_spoiled(exact, golden, rounding, beside.dtype)
        norm = float(np.linalg.norm(np.where(np.isfinite(truth), truth, 0.0).astype(np.float64)))
        if spoiled:
            return _MeasuredOutput(
                beside, rounding, rounding, math.nan, UNBOUNDED, norm, exact.size, True
            )
        own_part = _distance(beside.actual, exact, beside.dtype)
        inherited = math.nan if golden is None else _plain_distance(exact, golden)
        if golden is not None:
            distance = min(_plain_distance(beside.actual, golden), UNBOUNDED)
            distance = (
                UNBOUNDED if (np.isfinite(golden) & ~np.isfinite(beside.actual)).any() else distance
            )
        if self._is_replay:
            distance = min(
                math.sqrt(
                    own_part**2 + sum(min(one, UNBOUNDED) ** 2 for one in incoming if one == one)
                ),
                UNBOUNDED,
            )
        return _MeasuredOutput(
            beside, own_part, rounding, inherited, distance, norm, exact.size, False
        )

    def _reads(self, node: OpNode, op: ObservedOp) -> List[Tuple[int, float]]:
        """Return the tensors that an op reads: past Casts, TransDatas, and what was not
        compared.
        """
        gains: Dict[int, float] = {}
        states = {state.number: state for state in self._inputs.of(op)}
        for number, source in enumerate(node.inputs):
            for tensor in self._sources(node, source, 0):
                if isinstance(tensor, int):
                    gains.setdefault(tensor, 1.0)
                    continue
                state = states.get(number)
                off = (
                    state.observation.distance
                    if state is not None and state.observation is not None
                    else 0.0
                )
                gains.setdefault(self._network_input(tensor, off), 1.0)
        return list(gains.items())

    def _sources(
        self, node: OpNode, source: Optional[Tuple[str, int]], steps: int
    ) -> Iterator[Any]:
        """Yield the numbers of the tensors behind an input; the names of inputs of the network."""
        producer = self._graph.producer(node, source[0]) if source is not None else None
        if (
            producer is None
            or source is None
            or producer.type in FIXED_TYPES
            or steps > _MOST_STEPS_BACK
        ):
            return
        if producer.type in INPUT_TYPES:
            yield producer.name
            return
        number = self._numbers.get((producer.name, source[1]))
        if number is not None:
            yield number
            return
        if producer.name in self._facts:
            return  # whole numbers, which carry no such error
        for behind in producer.inputs:
            yield from self._sources(producer, behind, steps + 1)

    def _network_input(self, name: str, distance: float) -> int:
        """Return the number of an input of the network; what is off by a rounding is float32 where
        who reads it is raised.
        """
        if (name, -1) not in self._numbers:
            self._numbers[name, -1] = len(self._tensors)
            distance = distance if math.isfinite(distance) else UNBOUNDED
            rounds = distance <= 2.0 * ROUNDING["bfloat16"].half_unit
            own_part, rounding = (0.0, distance) if rounds else (distance, 0.0)
            self._tensors.append(TensorError("", own_part, rounding, measured=distance))
            self._found.append(
                _MeasuredOutput(None, own_part, rounding, 0.0, distance, 0.0, 0, False)
            )
        return self._numbers[name, -1]

    def _facts_of(self, node: OpNode, op: ObservedOp, dtype: str, numbers: range) -> OpFacts:
        largest = max((self._tensors[number].own for number in numbers), default=0.0)
        originals = tuple(node.originals) if node.original_names != () else ()
        plain = OpFacts(node.name, node.type, originals, dtype, largest, ROUNDED)
        states = {number: self._judged.get((self._place, op.name, number)) for number in op.outputs}
        computed = {
            number: self._recomputation.one(self._place, op.name, number) for number in op.outputs
        }
        plain = replace(
            plain, product=any(one is not None and one.kind == PRODUCT for one in computed.values())
        )
        known = [one for one in states.values() if one is not None and one.own_error is not None]
        wrong = [number for number, one in states.items() if one is not None and one.state == WRONG]
        if wrong:
            return self._cause(plain, op, wrong[0], states[wrong[0]], computed[wrong[0]])
        if known and all(one.state == RIGHT for one in known):
            return plain
        roundings = max((self._tensors[number].rounding for number in numbers), default=0.0)
        beyond_type = any(
            facts.rounding >= UNBOUNDED and facts.own >= UNBOUNDED
            for facts in (self._found[number] for number in numbers)
        )
        if beyond_type:
            return replace(
                plain, cause=OVERFLOW, sentence=_BEYOND % dtype, wrong=True, estimated=True
            )
        spoiled = any(self._found[number].spoiled for number in numbers)
        if spoiled or largest <= 4.0 * roundings:
            return replace(plain, estimated=True)
        reason = next(
            (one.reason for one in states.values() if one is not None and one.reason),
            "it could not be computed again",
        )
        return replace(plain, cause="", sentence=reason, estimated=True)

    def _cause(
        self,
        plain: OpFacts,
        op: ObservedOp,
        number: int,
        state: Optional[RecomputationVerdict],
        computed: Optional[Recomputed],
    ) -> OpFacts:
        """Return the facts of an op that is wrong: whether it is so by lack of precision, or
        otherwise.
        """
        facts = (
            self._found[self._numbers[op.name, number]]
            if (op.name, number) in self._numbers
            else None
        )
        beside = facts.beside if facts is not None else None
        if beside is not None and _is_overflow(beside):
            return replace(plain, cause=OVERFLOW, sentence=_BEYOND % beside.dtype, wrong=True)
        if (
            beside is not None
            and beside.dtype in NARROW
            and ROUNDING[beside.dtype].largest < beside.inner < _MASK
        ):
            return replace(
                plain, cause=OVERFLOW, sentence=_INSIDE % (beside.inner, beside.dtype), wrong=True
            )
        if computed is not None and computed.loose is not None and excess(computed.loose) <= 1.0:
            cause = SHORTENED if beside is not None and beside.dtype not in NARROW else COARSE_SUMS
            sentence = (
                "it is what its arithmetic makes where it rounds inside of the operator too, "
                "which others of its kind do not"
            )
            return replace(plain, cause=cause, sentence=sentence, wrong=True)
        entries = self._explanations(op, number, state)
        for entry in entries:
            if entry.kind in _BY_PRECISION or (entry.kind == "scale" and _is_truncation(beside)):
                return replace(
                    plain,
                    cause=_BY_PRECISION.get(entry.kind, ROUNDED),
                    sentence=entry.sentence,
                    wrong=True,
                )
            if entry.kind == "saturation" and beside is not None and _is_cut_at_the_largest(beside):
                return replace(plain, cause=OVERFLOW, sentence=entry.sentence, wrong=True)
            if entry.share > 0:
                return replace(
                    plain, cause="", sentence="%s: %s" % (entry.kind, entry.sentence), wrong=True
                )
        approximates = any(
            word in name.lower()
            for name in (plain.type, *plain.originals)
            for word in _APPROXIMATED
        )
        if approximates and plain.own <= _APPROXIMATE_MOST:
            sentence = "off by %.2g, which nothing but a coarse approximation explains" % plain.own
            return replace(plain, cause=APPROXIMATE, sentence=sentence, wrong=True)
        sentence = entries[0].sentence if entries else "what its error looks like is not known"
        return replace(plain, cause="", sentence=sentence, wrong=True)

    def _explanations(
        self, op: ObservedOp, number: int, state: Optional[RecomputationVerdict]
    ) -> Sequence[Any]:
        row = op.outputs[number]
        shown, normal = (
            ShownBy(ALL_ELEMENTS, row.distance, 0.0, 0.0),
            Normal(1.0, 0.0, 1.0, 0, True),
        )
        states = self._inputs.of(op)
        estimate = Estimate(
            op,
            row,
            states,
            True,
            row.distance,
            0.0,
            0.0,
            0.0,
            HIGHEST_SCORE,
            shown,
            False,
            normal,
            computed=state,
        )
        suspect = Suspect(op.name, op.type, row.tensor, op.place, HIGHEST_SCORE, HIGH, "")
        return with_explanations([(suspect, estimate)], self._seen, self._inputs, self._reader)[
            0
        ].explanations

    def _set_limits(self, nodes: Sequence[OpNode]) -> Tuple[int, int]:
        """Give the outputs of the network their limits; return how many are outside, of how
        many.
        """
        read = {entry.tensor for one in self._tensors for entry in one.reads}
        last: Set[int] = {
            number for number, one in enumerate(self._tensors) if one.op and number not in read
        }
        for node in self._graph.ops:
            if node.type == "NetOutput":
                for source in node.inputs:
                    last.update(
                        entry for entry in self._sources(node, source, 0) if isinstance(entry, int)
                    )
        names = {number: key for key, number in self._numbers.items()}
        failing = 0
        for number in sorted(last):
            name, output = names[number]
            op = self._seen.find(self._place, name)
            row = op.outputs.get(output) if op is not None else None
            if op is None or row is None:
                continue
            distance = self._tensors[number].measured
            self._tensors[number] = replace(
                self._tensors[number], limit=_limit(self._engine.options.limits, op, row, distance)
            )
            failing += row.verdict == FAIL
        return failing, len(last)


_INSIDE = "a constant or a value inside of it comes to %.3g, beyond the largest number of %s"
_BEYOND = "values beyond the largest number of %s became Inf or were cut off"


def _limit(limits: Limits, op: ObservedOp, row: Observation, distance: float) -> float:
    """Return the distance up to which an output is within its limits, as far as these speak of the
    whole tensor or its slices.
    """
    bounds = [math.inf]
    for limit in limits.for_subject(Subject(row.dtype or "", op.type, op.name)):
        if limit.metric == DISTANCE:
            bounds.append(limit.value)
        elif limit.metric == COSINE and limit.value < 1.0:
            bounds.append(math.sqrt(2.0 * (1.0 - limit.value)))
        elif limit.metric == WORST_SLICE and row.slice_distance > 0 and 0 < distance <= LINEAR:
            bounds.append(limit.value * min(1.0, distance / row.slice_distance))
    best = min(bounds)
    return best if math.isfinite(best) and best > 0 else 0.03


def _worst_ratio(
    golden: Array, dtype: str, limits: Sequence[Limit], slices: bool, values: Array
) -> float:
    """Return how far values are from golden data in units of what is allowed of a type."""
    with np.errstate(over="ignore"):
        values = np.asarray(values, np.float16 if dtype == "float16" else np.float32).reshape(
            golden.shape
        )
    limits = [limit for limit in limits if slices or limit.metric != WORST_SLICE]
    plain = Limits(tuple(replace(limit, selector="", pattern="") for limit in limits))
    comparison = compare_arrays(values, golden, limits=plain, metrics=[])
    ratios = [
        _ratio(limit, float(comparison.metrics.get(limit.metric, math.nan))) for limit in limits
    ]
    if comparison.inf is not None and comparison.nan is not None and not comparison.passed:
        odd = any(side["target"] > side["golden"] for side in (comparison.inf, comparison.nan))
        ratios.append(UNBOUNDED if odd else 0.0)
    return max([0.0 if comparison.passed else 1.0, *ratios])


def _dtype(ge_name: str) -> str:
    entry = BY_GE_NAME.get(ge_name)
    return entry.name if entry is not None and entry.name in (*NARROW, "float32", "float64") else ""


def _weight(op_type: str, norm: float, count: int, made: float, of: int) -> float:
    """Return the share of an input in the output of a sum, by their Euclidean norms and counts of
    elements; 1 of other operators.

    What is smaller than the output is broadcast: it is added to each part of it.
    """
    words = op_type.lower()
    if not norm > 0 or not made > 0 or not any(word in words for word in (*_SUMS, *_JOINS)):
        return 1.0
    times = max(1.0, of / count) if count and any(word in words for word in _SUMS) else 1.0
    return min(math.sqrt(times) * norm / made, UNBOUNDED)


def _arriving(tensor: TensorError, wide: Set[str], reader: str) -> float:
    """Return the error with which a tensor arrives at an operator: what is stored in float32 is
    rounded where float16 reads it.
    """
    measured = min(tensor.measured if tensor.measured == tensor.measured else 0.0, UNBOUNDED)
    stored_wide = bool(tensor.op) and tensor.op in wide and reader not in wide
    return math.hypot(measured, tensor.rounding) if stored_wide else measured


def _distance(actual: Array, expected: Array, dtype: str) -> float:
    """Return the relative distance; UNBOUNDED where values are Inf or NaN on one side, but for
    masks.
    """
    distance = own_error(np.asarray(actual), Value(expected), dtype)
    return (
        UNBOUNDED
        if distance.odd
        else min(distance.distance if distance.distance == distance.distance else 0.0, UNBOUNDED)
    )


def _is_spoiled(exact: Array, golden: Array, rounding: float, dtype: str) -> bool:
    """Tell whether what comes in makes an output that golden data do not: NaN, or values beyond the
    type where golden ones are not.
    """
    if (np.isfinite(golden) & ~np.isfinite(exact)).any():
        return True
    largest = ROUNDING[dtype].largest if dtype in NARROW else math.inf
    return rounding < UNBOUNDED and float(np.abs(exact).max(initial=0.0)) > largest >= float(
        np.abs(golden).max(initial=0.0)
    )


def _plain_distance(actual: Array, expected: Array) -> float:
    """Return the relative distance over what is finite in both."""
    x, y = (np.asarray(side, np.float64) for side in (actual, expected))
    both = np.isfinite(x) & np.isfinite(y)
    off, size = float(np.linalg.norm(x[both] - y[both])), float(np.linalg.norm(y[both]))
    return off / size if size > 0 else (0.0 if off == 0 else UNBOUNDED)


def _is_overflow(beside: OutputBesideGolden) -> bool:
    """Tell whether all that is wrong are values beyond the type's largest number."""
    largest = ROUNDING[beside.dtype].largest if beside.dtype in NARROW else math.inf
    with np.errstate(all="ignore"):
        x, y = (np.asarray(side, np.float64) for side in (beside.actual, beside.exact))
        beyond_largest = np.abs(y) > largest
        odd = ~np.isfinite(x) & np.isfinite(y)
        cut = beyond_largest & np.isfinite(x) & (np.abs(x) >= 0.98 * largest)
        if not (odd & beyond_largest).any() and not cut.any():
            return False
        rest = ~beyond_largest & np.isfinite(x) & np.isfinite(y)
        off = float(np.linalg.norm((x - y)[rest]))
    return not (odd & ~beyond_largest).any() and off <= 0.1 * max(
        float(np.linalg.norm(y[rest])), largest
    )


def _is_cut_at_the_largest(beside: OutputBesideGolden) -> bool:
    largest = ROUNDING[beside.dtype].largest if beside.dtype in NARROW else math.inf
    return bool(np.abs(beside.actual).max(initial=0.0) >= 0.98 * largest)


def _is_truncation(beside: Optional[OutputBesideGolden]) -> bool:
    """Tell whether an output is off by a factor as near to 1 as rounding toward zero makes it."""
    if beside is None:
        return False
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (beside.actual, beside.exact))
    size = float(y @ y)
    return size > 0 and abs(float(x @ y) / size - 1.0) <= _NEARLY_ONE * (
        8.0 if beside.dtype == "bfloat16" else 1.0
    )
