"""Selects the tensors to compare: all of one op in two folders, or those of two files."""

from __future__ import annotations

import os
from typing import Any, List, Optional, Sequence, Tuple, cast

from ...base.errors import InputError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import nearest_names, parse_golden_name, sanitise_device, sanitise_golden
from ...dumps.dump_index import Indexes
from ...dumps.dump_tree import DumpTree, StepFolder, newest_files
from ...dumps.folder_listing import DumpEntry
from ...dumps.slices import files_by_number
from ...metrics.pair_task import PairTask
from ...metrics.row import Row
from ...model.graph import ModelGraph
from ...model.graphs_of_run import ModelGraphs, load_models
from ...model.outputs_in_readers import ListedDumps
from ...model.torchair_fused_ops import graphs_of_dumped_ops
from ...run.compare_folders import require_dumps
from ...run.comparison_options import AUTO, read_graphs
from ...run.file_planner import Planner
from ...run.golden_files import Goldens
from ...run.tensors_of_two_files import pair_files
from .better_golden import files_beside, golden_files

_SHOWN = 5


@dataclass(frozen=True)
class TensorChoice:
    """Which tensors of an op are compared.

    Attributes
    ----------
    kind, index
        ``input`` or ``output``, and its number; None for all.
    """

    kind: Optional[str] = None
    index: Optional[int] = None

    def has(self, row: Row) -> bool:
        """Return whether a row's tensor is selected."""
        return self.kind is None or (row.kind == self.kind and row.tensor_index == self.index)


@dataclass(frozen=True)
class OpPairs:
    """The tensors of one op.

    Attributes
    ----------
    op
        The target's op name, as its file has it.
    tasks
        What can be compared.
    rows
        Tensors that cannot, with the reason.
    notes
        What was used and what was assumed.
    others
        The golden tensors, another of which than its own may be a tensor's right one.
    """

    op: str
    tasks: Tuple[PairTask, ...]
    rows: Tuple[Row, ...] = ()
    notes: Tuple[str, ...] = ()
    others: Any = ()


def pairs_in_folders(
    indexes: Indexes,
    op: str,
    model: Optional[str],
    choice: Optional[TensorChoice] = None,
    time: Optional[str] = None,
    quantisation: Optional[str] = None,
    unfused: Optional[str] = None,
) -> OpPairs:
    """Return the tensors of one op below TARGET with their counterparts below GOLDEN.

    Parameters
    ----------
    op
        The op's name on the device, or one of its original names.
    model
        om json or GE graph, a folder of them, or None.
    time, quantisation, unfused
        As :class:`goldwatch.run.comparison_options.ComparisonOptions` has them.

    Raises
    ------
    InputError
        There is no dump of the op, or no such tensor.
    UsageError
        Several devices, models or steps have one.
    """
    choice = choice or TensorChoice()
    target, golden = (index.root for index in indexes)
    graphs = read_graphs(model, quantisation, unfused)
    tree, golden_set = indexes[0].tree(time), indexes[1].golden()
    require_dumps(indexes, tree, time)
    graphs = graphs_of_dumped_ops(graphs, tree, golden_set)
    step_folder, ops = _files_of(tree, op, graphs)
    # Only the store's records of golden files are not kept: nothing is stored here.
    goldens = Goldens(
        golden,
        AUTO,
        cast(Any, None),
        target,
        graphs,
    )
    goldens.take(golden_set)
    around = ListedDumps(step_folder.files)
    graph = graphs.of(step_folder.place.model)
    by_model = unfused is not None or (graph is not None and graph.unfused)
    planner = Planner(
        step_folder.place,
        goldens.of(step_folder.place),
        graph,
        by_model=by_model,
        neighbours=around,
    )
    tasks: List[PairTask] = []
    rows: List[Row] = []
    for files in ops:
        if planner.joins(files[0]):
            parts = files_by_number(files)
            plans = [planner.plan(next(iter(parts.values())), slices=parts)]
        else:
            plans = [planner.plan(entry) for entry in files]
        for plan in plans:
            tasks += [task for task in plan.tasks if choice.has(task.row)]
            rows += [row for row in (*plan.rows, *plan.waiting) if choice.has(row)]
    _require_some(op, choice, tasks, rows, target)
    reasons = [task.row.reason for task in tasks if task.row.reason]
    notes = (*tree.notes, *reasons, *tree.left_notes)
    other = golden_files(goldens.of(step_folder.place)) if tasks else ()
    op_name = planner.whole_op(ops[0][0].name.op_name) or ops[0][0].name.op_name
    return OpPairs(op_name, tuple(tasks), tuple(rows), notes, tuple(other))


def _require_some(
    op: str, choice: TensorChoice, tasks: Sequence[PairTask], rows: Sequence[Row], where: str
) -> None:
    if tasks or rows:
        return
    what = "tensor" if choice.kind is None else "%s %d" % (choice.kind, choice.index or 0)
    raise InputError(
        "%s: %s has no %s" % (where, op, what),
        hint="goldwatch inspect tells what a dump file holds",
    )


def _files_of(
    tree: DumpTree, op: str, graphs: ModelGraphs
) -> Tuple[StepFolder, List[List[DumpEntry]]]:
    """Return the one folder of dumps that has the op, and its newest files there: several for
    slices, and of ops of one origin each by itself.
    """
    matching: List[Tuple[StepFolder, List[List[DumpEntry]]]] = []
    for step_folder in tree.step_folders:
        graph = graphs.of(step_folder.place.model)
        whole_op = (lambda name: None) if graph is None else graph.whole_op
        names = _device_names(op, graph)
        ops = [
            files
            for files in newest_files(step_folder.files, whole_op)
            for name in [files[0].name.op_name]
            if sanitise_device(whole_op(name) or name) in names
        ]
        if ops:
            ops.sort(key=lambda files: (files[0].name.op_name, files[0].name.timestamp_us))
            matching.append((step_folder, ops))
    if len(matching) == 1:
        return matching[0]
    if matching:
        places = ", ".join(
            step_folder.rel or step_folder.folder for step_folder, _ in matching[:_SHOWN]
        )
        raise UsageError(
            "TARGET: %s: %d devices, models or steps have a dump of %s (%s)"
            % (tree.root, len(matching), op, places),
            hint="name one of these folders as TARGET",
        )
    raise InputError(
        "TARGET: %s: there is no dump of %s%s" % (tree.root, op, _near(tree, op, graphs))
    )


def _device_names(op: str, graph: Optional[ModelGraph]) -> List[str]:
    """Return the op names, as file names have them, that ``op`` means; the whole op for one of its
    slices.
    """
    if graph is None:
        return [sanitise_device(op)]
    op = graph.whole_op(op) or op
    if graph.ops_named(op):
        return [sanitise_device(op)]
    from_it = graph.ops_from(op)
    if not from_it:
        key = sanitise_golden(op)
        from_it = [
            node for node in graph.ops if key in (sanitise_golden(name) for name in node.originals)
        ]
    return [sanitise_device(node.name) for node in from_it] or [sanitise_device(op)]


def _near(tree: DumpTree, op: str, graphs: ModelGraphs) -> str:
    dumped = {
        entry.name.op_name for step_folder in tree.step_folders for entry in step_folder.files
    }
    ours = [
        node
        for graph in graphs.graphs
        for node in graph.ops
        if sanitise_device(node.name) in dumped
    ]
    known = dumped | {name for node in ours for name in node.originals}
    near = nearest_names(op, sorted(known), 3, 0.5)
    text = (
        "; the nearest names are %s" % ", ".join(near)
        if near
        else "; there are, for example, %s" % ", ".join(sorted(dumped)[:3])
    )
    return text + ("" if graphs else " (original names are known with the model's json)")


def pairs_in_files(
    target: str, golden: str, model: Optional[str] = None, choice: Optional[TensorChoice] = None
) -> OpPairs:
    """Return the tensors of two files, as :func:`goldwatch.run.tensors_of_two_files.pair_files`
    pairs them.
    """
    place = (
        (choice.kind, choice.index or 0) if choice is not None and choice.kind is not None else None
    )
    pairs = pair_files(target, golden, load_models(model) if model is not None else None, place)
    others = (
        tuple(files_beside(golden, target))
        if parse_golden_name(os.path.basename(golden)) is not None
        else ()
    )
    return OpPairs(pairs.op, pairs.tasks, pairs.rows, (), others)
