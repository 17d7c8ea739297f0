"""A replay from its inputs to its result files."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Callable, Dict, Iterable, List, Tuple

from ..diagnosis.own_error.recomputed_estimates import sentence_of
from ..diagnosis.replay_summary import REPLAY, replay_summary
from ..diagnosis.summary import exit_code, summarise
from ..dumps.dump_tree import DumpTree, StepFolder
from ..errors import InputError, require_folder
from ..filesystem.atomic_writing import remove_inside
from ..judging.by_recomputation import RIGHT, WRONG, judge_recomputed
from ..judging.metric_text import metric_number
from ..metrics.row import FAIL, PASS, WORST_SLICE, Row
from ..model.graph import ModelGraph
from ..model.graphs_of_run import ModelGraphs, load_models
from ..model.never_dumped import CONSTANT_TYPES
from ..naming import parse_golden_name
from ..recomputing.original_cuts import Original
from ..recomputing.recomputed_output import Recomputed
from ..recomputing.recomputer import Recomputer
from ..recomputing.replay_plan import ReplayPlan
from ..reports.result_files import ResultFiles
from ..run.compare_folders import no_dumps
from ..run.compare_given_pairs import compare_given_pairs
from ..run.comparison_options import ONE, ComparisonOptions
from ..run.dump_catalogue import Catalogue
from ..run.engine import Engine
from ..run.golden_files import Goldens
from ..run.result import RunResult
from ..run.run_status import keep_judgement
from ..run.workers import Workers
from ..store.store import RunStore
from ..store.stored_networks import GRAPHS, network_document
from ..tensors.type_precision import rounding_of
from ..text.notes import Note, note
from .backends import runner_for
from .earlier_comparison import dump_request_of, golden_fails
from .model_pieces import Pieces
from .options import ReplayOptions
from .own_error_limits import DISTANCE, limits_for

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
            recomputer = Recomputer(plan, graph, original, None, options.weights)
            failed = pieces.compute(failed, recomputer)
        tasks = pieces.tasks(failed)
        with Workers(jobs, compared.settings()) as workers:
            engine = Engine(
                compared,
                ModelGraphs.of_all(graph),
                store,
                workers,
                Catalogue(options.target),
                Goldens(folder, ONE, store, dumps_too=False),
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
        return _finish(store, compared, graph, fails, bool(options.ops), all_notes)


def _finish(
    store: RunStore,
    compared: ComparisonOptions,
    graph: ModelGraph,
    earlier_failed: bool,
    some_ops: bool,
    notes: Tuple[Note, ...],
) -> RunResult:
    """Judge the operators and write all result files.

    Parameters
    ----------
    earlier_failed
        Whether the comparison with golden data fails.
    some_ops
        Whether only some of the operators were run again.
    """
    limits = compared.limits
    with ResultFiles(store, compared.columns(False), None, compared.metrics) as results:
        results.write_tables()
        judged = summarise(results.rows, len(graph.ops), limits, graph=graph, whole=results.whole)
        summary = replay_summary(judged, store.rows("index"), limits, earlier_failed, some_ops)
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
    require_folder(options.target, "TARGET")
    tree = DumpTree(options.target, time=options.time)
    if not tree.step_folders and tree.left:
        times = ", ".join(
            sorted({str(step_folder.place.time) for step_folder in tree.left})[:_SHOWN]
        )
        raise InputError(
            "TARGET: %s: there is no time folder %s" % (options.target, options.time),
            hint="there are %s" % times,
        )
    if not tree.step_folders:
        raise no_dumps(options.target, "", tree)
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
    its arithmetic explains.
    """
    compared = [row for row in rows if row.kind == "output" and row.verdict in (PASS, FAIL)]
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
