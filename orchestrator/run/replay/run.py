"""A replay from its inputs to its result files."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from ...base.atomic_writing import remove_inside
from ...base.errors import InputError
from ...base.naming import parse_golden_name, printable
from ...base.notes import Note, note
from ...base.safe_reading import open_input
from ...dumps.dump_index import indexes_of
from ...dumps.dump_tree import StepFolder
from ...dumps.folder_listing import look_at
from ...judging.by_recomputation import RIGHT, WRONG, judge_recomputed
from ...judging.diagnosis.own_error.recomputed_estimates import sentence_of
from ...judging.diagnosis.replay_summary import replay_summary
from ...judging.diagnosis.summary import REPLAY, exit_code, summarise
from ...judging.limits import AT_MOST, SMALLER, Limit, Limits
from ...judging.metric_text import metric_number
from ...metrics.row import DIFFERENT, EXPECTED_ABSENT, FAIL, PASS, WORST_SLICE, Row
from ...model.graph import ModelGraph
from ...model.graphs_of_run import ModelGraphs, load_models
from ...model.never_dumped import CONSTANT_TYPES, EVERYTHING, DumpRequest
from ...model.op_groups import FOLLOWING_TYPES
from ...model.op_node import OpNode, TensorDesc, desc_at
from ...recomputing.original_cuts import Original
from ...recomputing.recomputed_output import Recomputed
from ...recomputing.recomputer import Recomputer
from ...recomputing.replay_plan import ReplayPlan
from ...recomputing.step_ops import StepOps
from ...reports.result_files import ResultFiles
from ...store.facts_and_events import FileRecord
from ...store.store import RunStore
from ...store.stored_networks import GRAPHS, SUMMARY, network_document
from ...tensors.type_precision import rounding_of, shortened
from ..compare_folders import require_dumps
from ..compare_given_pairs import compare_given_pairs
from ..comparison_options import ONE, ComparisonOptions
from ..engine import Engine
from ..golden_files import Goldens
from ..mismatch_warnings import with_other_original
from ..result import RunResult
from ..run_status import keep_judgement
from ..workers import Workers
from .backends import runner_for
from .model_pieces import Pieces
from .options import ReplayOptions

_PIECE_BYTES = 1 << 20


def golden_fails(result: Optional[str], step_folder: StepFolder) -> bool:
    """Tell whether a comparison of a step's dumps fails; False without one.

    Parameters
    ----------
    result
        The folder of its results.

    Raises
    ------
    InputError
        It is a replay's, or of other dumps: no file of the step is in it, or one was another then.
        Dumps that were moved or copied since are the same.
    MissingPath, FormatError, EnvironmentProblem
        There is no result, or it cannot be read.
    """
    if result is None:
        return False
    with RunStore.open(result) as store:
        inputs = store.get("inputs") or {}
        if inputs.get("comparison") == REPLAY:
            raise InputError(
                "%s is the result of a replay, not of a comparison with golden data"
                % printable(result),
                hint="give that",
            )
        _require_same_dumps(store, result, str(inputs.get("target", "")), step_folder)
        summary = store.get(SUMMARY)
        return summary["verdict"] == FAIL if summary else bool(store.counted.all().get(FAIL))


def dump_request_of(
    result: Optional[str], graph: ModelGraph, step_folder: StepFolder
) -> DumpRequest:
    """Return what the device was asked to dump, as a comparison was told; errors of
    :func:`golden_fails`.
    """
    if result is None:
        return EVERYTHING
    with RunStore.open(result) as store:
        plan = (store.get("inputs") or {}).get("plan")
    if plan is None:
        return EVERYTHING
    # Few runs have a dump request.
    from ...config.dump_plan import DumpPlan
    from ...config.ops_of_dump_plan import requested_ops_of

    return requested_ops_of(DumpPlan.from_document(plan), graph, step_folder.place.model)


def _require_same_dumps(store: RunStore, result: str, target: str, step_folder: StepFolder) -> None:
    records, compared = store.files(), _compared(store, target)
    known = [entry.path for entry in step_folder.files if os.path.basename(entry.path) in compared]
    differing = [
        path
        for path in known
        if not any(
            _same(path, then, records.get(then)) for then in compared[os.path.basename(path)]
        )
    ]
    if differing or not known:
        why = (
            "%s was another file then" % os.path.basename(differing[0])
            if differing
            else "none of its files was compared"
        )
        raise InputError(
            "%s is the comparison of other dumps: of those in %s, while %s is replayed (%s)"
            % tuple(printable(text) for text in (result, target, step_folder.folder, why)),
            hint="compare these dumps, and give the result of that",
        )


def _compared(store: RunStore, target: str) -> Dict[str, List[str]]:
    """Return the paths of the files that were compared, by their names."""
    compared: Dict[str, List[str]] = {}
    for rel in store.table.target_files():
        if rel is not None:
            compared.setdefault(os.path.basename(rel), []).append(
                os.path.normpath(os.path.join(target, rel))
            )
    return compared


def _same(path: str, then: str, record: Optional[FileRecord]) -> bool:
    """Tell whether a dump is the file that was compared, which was at ``then``."""
    look = look_at(path)
    assert look is not None
    if record is not None and record.size_bytes and record.size_bytes != look.size_bytes:
        return False
    if os.path.realpath(path) == os.path.realpath(then):
        return record is None or not record.mtime_ns or record.mtime_ns == look.mtime_ns
    return look_at(then) is None or _equal(path, then)


def _equal(path: str, other: str) -> bool:
    with open_input(path) as mine, open_input(other) as theirs:
        while True:
            piece = mine.read(_PIECE_BYTES)
            if piece != theirs.read(_PIECE_BYTES):
                return False
            if not piece:
                return True


DISTANCE = "RelativeEuclideanDistance"

# Five half units, a quarter more for each root of the terms, slices 2.5 times that, and no output
# passes that is 2 % off: measured in docs/replay.md (limits).
_BASE, _GROWTH, _SLICE = 5.0, 0.25, 2.5
_MOST = {"float16": (0.01, 0.018), "bfloat16": (0.018, 0.019)}
_FEW = 16


def own_error_limits(terms: Iterable[int], dtype: str) -> List[float]:
    """Return the largest relative distance of the whole, and of a slice, for the largest of some
    numbers of terms.

    Parameters
    ----------
    terms
        How many products or summands each element is the sum of.
    dtype
        The output's element type.
    """
    unit = shortened(dtype).half_unit
    whole, of_slice = _MOST.get(dtype, _MOST["float16"])
    count = max([1, *terms])
    distance = unit * (_BASE + (_GROWTH * math.sqrt(count) if count > _FEW else 0.0))
    return [min(distance, whole), min(_SLICE * distance, of_slice)]


def limits_for(graph: ModelGraph, ops: Sequence[OpNode]) -> Limits:
    """Return the limits for the own errors of some ops: one for each type, and one for each op that
    sums many terms.
    """
    entries = [Limit(DIFFERENT, AT_MOST, 0.0)]
    for selector, dtype in (("", ""), ("dtype", "bfloat16")):
        entries += _pair(own_error_limits([], dtype), selector, dtype)
    for op in ops:
        count = terms_of(graph, op)
        if count > _FEW:
            dtype = (
                "bfloat16"
                if any(desc.dtype == "DT_BF16" for desc in op.output_descs)
                else "float16"
            )
            entries += _pair(own_error_limits([count], dtype), "op", op.name)
    return Limits(tuple(entries))


def _pair(values: Sequence[float], selector: str, pattern: str) -> List[Limit]:
    return [
        Limit(metric, SMALLER, float("%.3g" % value), selector, pattern)
        for metric, value in zip((DISTANCE, WORST_SLICE), values)
    ]


def terms_of(graph: ModelGraph, op: OpNode) -> int:
    """Return how many terms each element of an op's output sums, as far as the om json tells: 1
    where it sums none.

    A filter or matrix has as many elements for each output channel; where a whole axis is reduced,
    it is the ratio of the sizes.
    """
    output = desc_at(op.output_descs, 0)
    size = _count(output)
    most = 1
    for index, source in enumerate(op.inputs):
        desc = desc_at(op.input_descs, index)
        producer = graph.producer(op, source[0]) if source is not None else None
        fixed = producer is not None and producer.type in CONSTANT_TYPES
        if fixed and len(desc.origin_shape or ()) >= 2:
            most = max(most, _count(desc) // max(1, _channels(output)))
        elif not fixed and size:
            most = max(most, _count(desc) // size)
    return most


def _count(desc: TensorDesc) -> int:
    shape = desc.origin_shape if desc.origin_shape is not None else desc.shape
    total = 1
    for dim in shape:
        total *= max(1, dim)
    return total


def _channels(desc: TensorDesc) -> int:
    shape = desc.origin_shape or desc.shape
    if len(shape) < 2:
        return _count(desc)
    return max(
        1,
        shape[1]
        if desc.origin_format in ("NCHW", "NCDHW", "ND", None) and len(shape) != 3
        else shape[-1],
    )


FOLDER = "replayed"
"""Where in OUT the computed values are kept, as golden files."""

OnProgress = Callable[[str, int, int], None]
_SHOWN = 8
_EXPLAINED = "no more than the operator's arithmetic explains"
_ASIDE = ".replay-"


def replay(
    options: ReplayOptions,
    jobs: int = 1,
    force: bool = False,
    on_progress: OnProgress = lambda what, done, total: None,
) -> RunResult:
    """Run every operator of a device again on the CPU with the inputs that the device recorded, and
    judge what each adds by itself.

    Parameters
    ----------
    jobs
        Processes that compare.
    force
        Discard other results in OUT.
    on_progress
        Called with (``replaying`` or ``comparing``, done, in all) several times a second.

    Raises
    ------
    InputError
        The model, the om json or the dumps cannot be used, or do not belong together.
    EnvironmentProblem
        There is no framework to run the model.
    UsageError
        OUT holds the results of other inputs, or the options do not fit the model.
    Interrupted
        Ctrl-C.
    """
    step_folder, notes = _step(options)
    graph = _graph(options, step_folder)
    original = Original(options.original)
    _require_kinship(graph, original)
    runner = runner_for(options, original)
    fails = golden_fails(options.result, step_folder)
    plan = ReplayPlan(
        step_folder,
        graph,
        original,
        options.ops,
        request=dump_request_of(options.result, graph, step_folder),
    )
    limits = limits_for(graph, [planned.op for planned in plan.ops]).overlaid(options.limits)
    folder = os.path.join(options.out, FOLDER)
    compared = ComparisonOptions(
        options.target, folder, options.out, options.model, limits=limits, time=options.time
    )
    with RunStore.begin(options.out, {**compared.identity(), **options.identity()}, force) as store:
        _restart(store, graph)
        _clear(options.out, folder)
        with tempfile.TemporaryDirectory(prefix=_ASIDE, dir=options.out) as temporary:
            pieces = Pieces(plan, original, folder, temporary)
            failed = runner.run(
                pieces.all, temporary, lambda done, total: on_progress("replaying", done, total)
            )
            recomputer = Recomputer(StepOps(plan, graph, original, None, options.weights))
            failed = pieces.compute(failed, recomputer)
        tasks = pieces.tasks(failed)
        with Workers(jobs, compared.settings()) as workers:
            engine = Engine(
                compared,
                ModelGraphs.of_all(graph),
                store,
                workers,
                Goldens(folder, ONE, store, options.target),
            )
            compare_given_pairs(
                engine,
                tasks,
                [*plan.rows, *pieces.rows],
                lambda progress: on_progress("comparing", progress.pairs_done, len(tasks)),
                {},
            )
            if not options.limits:
                with store.transaction():
                    engine.put_rows(_judged_rows(store.rows(), recomputer))
        all_notes = (*notes, *(note("replayed", text) for text in runner.notes), *store.notes)
        model = os.path.splitext(os.path.basename(str(options.original)))[0]
        return _finish(store, compared, graph, fails, bool(options.ops), all_notes, model)


def _finish(
    store: RunStore,
    compared: ComparisonOptions,
    graph: ModelGraph,
    earlier_failed: bool,
    some_ops: bool,
    notes: Tuple[Note, ...],
    model: str,
) -> RunResult:
    """Judge the operators and write all result files.

    Parameters
    ----------
    earlier_failed
        Whether the comparison with golden data fails.
    some_ops
        Whether only some of the operators were run again.
    model
        The name of the original model's file, without its ending.
    """
    limits = compared.limits
    with ResultFiles(store, compared.columns(False), None, compared.metrics) as results:
        results.write_tables()
        judged = summarise(results.rows, len(graph.ops), limits, graph=graph, whole=results.whole)
        summary = replay_summary(judged, store.rows("index"), limits, earlier_failed, some_ops)
        summary = with_other_original(summary, store.rows("index"), graph, model)
        code = exit_code(summary)
        how = {"comparison": REPLAY, "golden_fails": earlier_failed}
        keep_judgement(store, how, summary, code, summary.sentence, notes)
        files = results.finish(summary, limits, REPLAY)
    return RunResult(
        compared,
        summary,
        code,
        summary.sentence,
        tuple(files),
        notes,
        (),
        results.shown,
        results.places,
    )


def _step(options: ReplayOptions) -> Tuple[StepFolder, List[Note]]:
    """Return the only step in TARGET."""
    indexes = indexes_of(options.target, "")
    tree = indexes[0].tree(options.time)
    require_dumps(indexes, tree, options.time)
    if len(tree.step_folders) > 1:
        named = ", ".join(step_folder.label() for step_folder in tree.step_folders[:_SHOWN]) + (
            " …" if len(tree.step_folders) > _SHOWN else ""
        )
        raise InputError(
            "TARGET holds %d steps: %s" % (len(tree.step_folders), named),
            hint="one is replayed at a time: name its folder",
        )
    return tree.step_folders[0], tree.notes + tree.left_notes


def _graph(options: ReplayOptions, step_folder: StepFolder) -> ModelGraph:
    graphs = load_models(options.model)
    graphs.require([step_folder.place.model])
    graph = graphs.of(step_folder.place.model)
    if graph is None:
        raise InputError(
            "%s holds no model of the dumps in %s" % (options.model, step_folder.label()),
            hint="name the om json of this model",
        )
    return graph


def _require_kinship(graph: ModelGraph, original: Original) -> None:
    """Raise InputError where the om json is of another model than the original: fewer than half of
    the layers that it names are there.
    """
    made = {
        name
        for op in graph.ops
        if op.original_names and op.type not in CONSTANT_TYPES
        for name in op.originals
    }
    known = [name for name in made if original.knows(name)]
    if 2 * len(known) < len(made):
        near = sorted(made - set(known))[0]
        message = "%s names %d original layers, of which %s has %d (%s is not there)"
        raise InputError(
            message % (graph.path, len(made), original.path, len(known), near),
            hint="give the original of the model that was dumped",
        )


def _restart(store: RunStore, graph: ModelGraph) -> None:
    """Remove the rows of an earlier replay."""
    with store.transaction():
        store.table.remove(store.table.keys(), "replayed again")
        store.set(GRAPHS, [network_document(graph)])


def _clear(out: str, folder: str) -> None:
    """Make the folder of computed values, and remove those of an earlier replay and what a killed
    one left aside.
    """
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(out):
        if name.startswith(_ASIDE):
            shutil.rmtree(os.path.join(out, name), ignore_errors=True)
    for name in os.listdir(folder):
        if parse_golden_name(name) is not None:
            remove_inside(folder, name)


def _judged_rows(rows: Iterable[Row], recomputer: Recomputer) -> List[Row]:
    """Return the rows whose verdict is another than the limits': an operator is wrong beyond what
    its arithmetic explains; a Cast or TransData, which nothing is replayed for, beyond its input.
    """
    outputs = [row for row in rows if row.kind == "output"]
    compared = [
        row
        for row in outputs
        if row.verdict in (PASS, FAIL)
        or (row.verdict == EXPECTED_ABSENT and row.op_type in FOLLOWING_TYPES)
    ]
    computed: Dict[Tuple[str, int], Recomputed] = {}
    for op in dict.fromkeys(row.op for row in compared):
        if recomputer.knows(op):
            computed.update(((op, one.number), one) for one in recomputer.recompute(op))
    verdicts = judge_recomputed(computed)
    changed = []
    for row in compared:
        one = verdicts.get((row.op, row.tensor_index or 0))
        if one is None or one.own_error is None:
            continue
        if one.state == RIGHT and row.verdict == FAIL:
            changed.append(
                row.but(verdict=PASS, reason="%s, but %s" % (row.reason, _EXPLAINED), decided_by="")
            )
        elif one.state == WRONG and row.verdict == EXPECTED_ABSENT:
            changed.append(row.but(verdict=FAIL, reason=sentence_of(one), decided_by=""))
        elif one.state == WRONG and row.verdict == PASS and not _reproduced(row):
            changed.append(
                row.but(
                    verdict=FAIL,
                    reason="; ".join(filter(None, (sentence_of(one), row.reason))),
                    decided_by="",
                )
            )
    return changed


def _reproduced(row: Row) -> bool:
    """Tell whether the values that the framework computes are those of the device but for their
    rounding, in each slice too: nothing else that is computed can call the operator wrong.
    """
    distances = [metric_number(row.metrics.get(name)) for name in (DISTANCE, WORST_SLICE)]
    return all(value <= rounding_of(row.target_dtype or "").half_unit for value in distances)
