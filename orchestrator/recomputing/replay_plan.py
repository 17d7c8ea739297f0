"""Plans a replay: which ops of a step are run again, from which recorded inputs, and why the others
are not.
"""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple

from ..base.errors import UsageError
from ..base.fast_dataclasses import dataclass
from ..base.naming import nearest_names
from ..dumps.dump_file import TensorInfo
from ..dumps.dump_tree import StepFolder
from ..dumps.folder_listing import DumpEntry
from ..metrics.compare_pair import refuse
from ..metrics.pair_task import planned_row
from ..metrics.row import CORRUPT, DUMP_MISSING, EXPECTED_ABSENT, NOT_COMPARED, Row
from ..model.counterpart import Counterparts
from ..model.graph import ModelGraph
from ..model.graph_walks import is_dequant, is_quant, quantised_stretch
from ..model.never_dumped import AIPP, CONSTANT_TYPES, EVERYTHING, DumpRequest
from ..model.op_groups import FOLLOWING_TYPES, groups_of
from ..model.op_node import OpNode, desc_at
from ..model.pairing import Pairing
from ..model.row_plan import INPUT, OMITTED, OP, PAIR, RowPlan
from ..operators.registry import CannotCompute
from .input_feeds import Feed, Feeder, NetworkInput
from .original_cuts import Original
from .recomputed_output import NotComputable
from .recorded_dumps import OpDump, RecordedStep
from .submodel.cut_definition import Cut

if TYPE_CHECKING:
    from ..dumps.slices import AnyDump

_KEEPS = "%s keeps the values of what precedes it: it is not replayed"
_PREPROCESSES = "AIPP makes the network's input, which no layer computes: it is not replayed"
_QUANTISED = "in a quantised stretch, which the original model does not have"
_FLOATS = frozenset(["DT_FLOAT16", "DT_BF16", "DT_FLOAT", "DT_DOUBLE"])
_SHOWN = 5


@dataclass(frozen=True)
class PlannedOp:
    """An op that is run again.

    Attributes
    ----------
    op, file
        The op and its dump.
    cut, feeds
        The original layers, and the recorded tensor of each of the cut's inputs.
    rows
        For each output the pairing's plan, and the row without metrics.
    outputs
        For each of the rows the dump that holds the output, and as which of its tensors.
    """

    op: OpNode
    file: OpDump
    cut: Cut
    feeds: Tuple[Feed, ...]
    rows: Tuple[Tuple[RowPlan, Row], ...]
    outputs: Tuple[Tuple[AnyDump, TensorInfo], ...]

    def refused(self, why: object) -> List[Row]:
        """Return its rows as not compared, for that reason."""
        return [not_replayed(row, why) for _, row in self.rows]


class ReplayPlan:
    """The replay of one step.

    Parameters
    ----------
    selected
        Names or globs of ops; empty: all.
    network_input
        As of :class:`goldwatch.recomputing.input_feeds.Feeder`.
    request
        What the device was asked to dump.
    by_edges
        As of :class:`goldwatch.recomputing.input_feeds.Feeder`.

    Attributes
    ----------
    ops
        Those that are run again, in the order of the execution.
    rows
        The rows that are known without that.
    refused
        Why ops are not run again, by their names.
    recorded, feeder
        What the device recorded, and how the inputs of its ops are found there.

    Raises
    ------
    InputError
        None of the dumps is of an op of the model.
    UsageError
        A name in ``wanted`` matches no op.
    """

    def __init__(
        self,
        step_folder: StepFolder,
        graph: ModelGraph,
        original: Original,
        selected: Sequence[str] = (),
        network_input: NetworkInput = lambda name, index: None,
        request: DumpRequest = EVERYTHING,
        by_edges: bool = False,
    ) -> None:
        self.ops: List[PlannedOp] = []
        self.rows: List[Row] = []
        self.refused: Dict[str, CannotCompute] = {}
        self._step_folder, self._original, self._selected = step_folder, original, tuple(selected)
        _require_matches(graph, self._selected)
        self._pairing = Pairing(graph, original.has, request=request)
        self._stretch = quantised_stretch(graph)
        self.recorded = recorded = RecordedStep(step_folder, graph, self._pairing)
        computing = [op for op in graph.ops if op.type not in CONSTANT_TYPES]
        alone = {op.originals[0]: op for op in computing if len(op.originals) == 1}
        self._claimed = {name for op in graph.ops for name in op.originals or ()}
        original.fold(
            (name for op in computing for name in op.originals),
            lambda name: name in alone and recorded.output(alone[name], 0) is not None,
        )
        counterparts = Counterparts(graph, groups_of(graph), original.has)
        self.feeder = feeder = Feeder(
            graph,
            counterparts,
            recorded,
            original.joins,
            network_input,
            original.uses_shape_of,
            original.unshaped,
            by_edges,
        )
        for file in recorded.files:
            self._plan(file, feeder, recorded)
        for plan in self._pairing.absent_rows([file.dumped for file in recorded.files]):
            if plan.status != OMITTED and self._is_selected(plan.op):
                row = self._row(plan, None)
                if plan.op_type in FOLLOWING_TYPES:
                    row = row.but(verdict=EXPECTED_ABSENT, reason=_KEEPS % plan.op_type)
                self.rows.append(
                    row.but(cause=DUMP_MISSING) if row.verdict == NOT_COMPARED else row
                )

    def _plan(self, file: OpDump, feeder: Feeder, recorded: RecordedStep) -> None:
        plans = [
            plan
            for plan in self._pairing.rows_for(file.dumped)
            if plan.kind != INPUT and plan.status != OMITTED
        ]
        plans = [plan for plan in plans if self._is_selected(plan.op)]
        op = self._pairing.find(file.dumped)
        if file.problem:
            self.rows += [
                refuse(self._row(plan, file.entry).but(reason=""), file.problem, CORRUPT)
                for plan in plans[:1]
            ]
            return
        pairs: List[Tuple[RowPlan, Row]] = []
        outputs: List[Tuple[AnyDump, TensorInfo]] = []
        for plan in plans:
            holder = None
            if op is not None and plan.kind != OP:
                holder = recorded.holder(op, plan.tensor_index or 0)
            if holder is not None and not plan.dumped:
                plan = self._pairing.missing_output_row(file.dumped, plan.tensor_index or 0) or plan
            row = self._row(plan, file.entry)
            if holder is not None:
                info = holder[1]
                row = row.but(target_dtype=info.dtype.name, address=info.address, shape=info.shape)
            reason = None if op is None else self._not_replayable_reason(op, plan)
            if op is not None and op.type in (*FOLLOWING_TYPES, AIPP) and not self._converts(op):
                why = _PREPROCESSES if op.type == AIPP else _KEEPS % op.type
                self.rows.append(row.but(verdict=EXPECTED_ABSENT, reason=why, cause=""))
            elif reason is not None:
                self.rows.append(self._refuse(row, NotComputable(reason)))
            elif plan.status == PAIR and op is not None and holder is not None:
                pairs.append((plan, row))
                outputs.append(holder)
            else:
                self.rows.append(row)
        if pairs and op is not None:
            self._plan_op(op, file, feeder, pairs, outputs)

    def _converts(self, op: OpNode) -> bool:
        """Tell whether a Cast is one of the original model that makes other numbers, from or to
        whole numbers or bool: between floats a device may keep its own type.
        """
        model = self._original.model
        types = {model.types[number] for name in op.originals for number in model.numbers(name)}
        descs = [desc_at(descs, 0).dtype for descs in (op.input_descs, op.output_descs)]
        return types == {op.type} == {"Cast"} and not _FLOATS.issuperset(filter(None, descs))

    def _not_replayable_reason(self, op: OpNode, plan: RowPlan) -> Optional[str]:
        if op.position in self._stretch or is_quant(op) or is_dequant(op):
            return _QUANTISED
        within = next((name for name in op.originals if name in self._original.model.inner), None)
        if within is not None:
            return "%s is in the body of %s, which is not cut" % (
                within,
                self._original.model.inner[within],
            )
        if (
            plan.status == NOT_COMPARED
            and plan.golden_op is not None
            and plan.dumped
            and plan.kind != OP
        ):
            return "%s:%d is no output of a %s of the model" % (
                plan.golden_op,
                plan.golden_index or 0,
                self._original.node,
            )
        if plan.status == PAIR and self._original.undefined(
            plan.golden_op or "", plan.golden_index or 0
        ):
            return "%s:%d is not defined when a network infers" % (
                plan.golden_op,
                plan.golden_index or 0,
            )
        return None

    def _plan_op(
        self,
        op: OpNode,
        file: OpDump,
        feeder: Feeder,
        pairs: List[Tuple[RowPlan, Row]],
        outputs: List[Tuple[AnyDump, TensorInfo]],
    ) -> None:
        values = [(plan.golden_op or "", plan.golden_index or 0) for plan, _ in pairs]
        try:
            lost = self._original.between(op.originals, self._claimed)
            cut = self._original.cut([*op.originals, *lost], values)
            feeds = feeder.feeds(op, cut.inputs)
        except CannotCompute as error:
            self.rows += [self._refuse(row, error) for _, row in pairs]
            return
        self.ops.append(PlannedOp(op, file, cut, tuple(feeds), tuple(pairs), tuple(outputs)))

    def _refuse(self, row: Row, why: CannotCompute) -> Row:
        self.refused.setdefault(row.op, why)
        return not_replayed(row, why)

    def _is_selected(self, op: str) -> bool:
        return not self._selected or any(
            op == glob or fnmatch.fnmatchcase(op, glob) for glob in self._selected
        )

    def _row(self, plan: RowPlan, entry: Optional[DumpEntry]) -> Row:
        return planned_row(plan, self._step_folder.place, entry)


def not_replayed(row: Row, why: object) -> Row:
    """Return the row as not compared: its op could not be run again."""
    reason = "not replayed: %s" % getattr(why, "message", why)
    code = getattr(why, "code", "")
    return replace(row, verdict=NOT_COMPARED, reason=reason, reason_codes=code, cause="")


def _require_matches(graph: ModelGraph, selected: Sequence[str]) -> None:
    names = [op.name for op in graph.ops]
    for glob in selected:
        if not any(name == glob or fnmatch.fnmatchcase(name, glob) for name in names):
            near = nearest_names(glob, names, _SHOWN)
            raise UsageError(
                "no op of the model matches %s" % glob,
                hint="near it: %s" % ", ".join(near)
                if near
                else "there are, for example, %s" % ", ".join(names[:_SHOWN]),
            )
