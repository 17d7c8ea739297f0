"""A replay from its inputs to its result files."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from ...base.atomic_writing import remove_inside
from ...base.errors import InputError
from ...base.naming import parse_golden_name, printable
from ...base.notes import Note, note
from ...base.wording import listed
from ...dumps.dump_index import indexes_of
from ...dumps.dump_tree import StepFolder
from ...judging.by_recomputation import RIGHT, WRONG, judge_recomputed
from ...judging.diagnosis.own_error.recomputed_estimates import sentence_of
from ...judging.diagnosis.replay_limits import limits_for
from ...judging.diagnosis.row_digest import DISTANCE
from ...judging.metric_text import metric_number
from ...metrics.row import DUMP_MISSING, EXPECTED_ABSENT, FAIL, PASS, WORST_SLICE, Row
from ...model.graph import ModelGraph
from ...model.graphs_of_run import ModelGraphs, load_models
from ...model.never_dumped import CONSTANT_TYPES
from ...model.op_groups import FOLLOWING_TYPES
from ...recomputing.original_cuts import Original
from ...recomputing.recomputed_output import Recomputed
from ...recomputing.recomputer import Recomputer
from ...recomputing.replay_plan import ReplayPlan
from ...recomputing.step_ops import StepOps
from ...tensors.type_precision import rounding_of
from ..compare_folders import require_dumps
from ..compare_given_pairs import compare_given_pairs
from ..comparison_options import ComparisonOptions
from ..mismatch_warnings import of_other_original, unknown_ops
from ..progress import OnProgress
from ..result import RunResult
from ..whole_run import Run, Source, compare_from
from .backends import runner_for
from .earlier_result import dump_request_of, golden_fails
from .model_pieces import Pieces
from .options import ReplayOptions

FOLDER = "replayed"
"""Where in OUT the computed values are kept, as golden files."""

_SHOWN = 8
_EXPLAINED = "no more than the operator's arithmetic explains"
_ASIDE = ".replay-"


def replay(
    options: ReplayOptions,
    jobs: int = 1,
    force: bool = False,
    on_progress: Optional[OnProgress] = None,
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
        Called several times a second.

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
    return compare_from(_Replay(options, on_progress), jobs, force)


class _Replay(Source):
    """The dumps of one step, with what a framework computes of the inputs in them.

    Errors as those of :func:`replay`.
    """

    def __init__(self, options: ReplayOptions, on_progress: Optional[OnProgress]) -> None:
        self._asked = options
        step_folder, self._notes = _step(options)
        graph = _graph(options, step_folder)
        self._original = Original(options.original)
        _require_kinship(graph, self._original)
        self._runner = runner_for(options, self._original)
        self._golden_fails = golden_fails(options.result, step_folder)
        self._plan = ReplayPlan(
            step_folder,
            graph,
            self._original,
            options.ops,
            request=dump_request_of(options.result, graph, step_folder),
        )
        limits = limits_for(graph, [planned.op for planned in self._plan.ops])
        compared = ComparisonOptions(
            options.target,
            os.path.join(options.out, FOLDER),
            options.out,
            options.model,
            limits=limits.overlaid(options.limits),
            time=options.time,
        )
        super().__init__(compared, on_progress)
        self.graphs = ModelGraphs.of_all(graph)
        self.inputs = {**compared.identity(), **options.identity()}

    def look(self, graphs: ModelGraphs) -> ModelGraphs:
        """Return the model: all was looked at before."""
        return graphs

    def feed(self, run: Run) -> None:
        """Compute all operators, compare and judge them."""
        plan, folder, (graph,) = self._plan, run.options.golden, run.graphs.graphs
        _clear(run.options.out, folder)
        run.tables_when_interrupted = False
        run.golden_fails = self._golden_fails
        with run.store.transaction():
            run.store.table.remove(run.store.table.keys(), "replayed again")
        with tempfile.TemporaryDirectory(prefix=_ASIDE, dir=run.options.out) as temporary:
            pieces = Pieces(plan, self._original, folder, temporary)
            failed = self._runner.run(
                pieces.all,
                temporary,
                lambda done, total: self.on_progress(
                    run.engine.progress.at("replaying", done, total)
                ),
            )
            recomputer = Recomputer(StepOps(plan, graph, self._original, None, self._asked.weights))
            failed = pieces.compute(failed, recomputer)
        run.notes += [*self._notes, *(note("replayed", text) for text in self._runner.notes)]
        tasks, rows = pieces.tasks(failed), [*plan.rows, *pieces.rows]
        compare_given_pairs(run.engine, tasks, rows, self.on_progress, {})
        if not self._asked.limits:
            with run.store.transaction():
                run.engine.put_rows(_judged_rows(run.store.rows(), recomputer))
        model = os.path.splitext(os.path.basename(self._asked.original))[0]
        run.unmatched = [
            *_of_another_build(graph, list(run.store.rows())),
            *of_other_original(run.store.rows(), graph, model),
        ]


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


def _of_another_build(graph: ModelGraph, rows: Sequence[Row]) -> List[Note]:
    """Say it where the json may be of another build than the om that was dumped: it lacks operators
    that were dumped, or has one behind an operator that is wrong, of which there is no dump.
    """
    names = {row.op: graph.op(row.op) is not None for row in rows if row.target_file}
    lost = {row.op for row in rows if row.cause == DUMP_MISSING and not row.target_file}
    behind = {}
    for row in rows:
        op = graph.op(row.op) if row.verdict == FAIL else None
        readers = [] if op is None else graph.consumers(op, 0)
        if len(readers) == 1 and readers[0].name in lost:
            behind[row.op] = readers[0].name
    pairs = ["%s behind %s" % (printable(reader), printable(op)) for op, reader in behind.items()]
    fused = [note("perhaps-fused", listed(pairs, _SHOWN))] if pairs else []
    return [*unknown_ops(graph, names), *fused]


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
