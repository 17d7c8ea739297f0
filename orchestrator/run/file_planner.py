"""From a dump file to what it comes to, pairs, rows, and what waits for golden data: which rows
it has; what becomes of each of its tensors is decided
by :mod:`.tensor_planner`. And the rows of ops without a dump file.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    Collection,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ..base.errors import GoldwatchError, MissingPath, TruncatedFile
from ..base.manifest import unfit_golden
from ..base.naming import sanitise_golden
from ..dumps.dump_file import DumpFile
from ..dumps.dump_header import COMPLETE, HEADERLESS, SHORT
from ..dumps.folder_listing import DumpEntry
from ..dumps.golden_set import GoldenSet
from ..dumps.place import Place
from ..dumps.slices import open_dump
from ..metrics.compare_pair import refuse
from ..metrics.pair_task import planned_row
from ..metrics.row import (
    CORRUPT,
    DUMP_MISSING,
    EXPECTED_ABSENT,
    FAIL,
    HANDED_ON,
    NOT_COMPARED,
    Row,
)
from ..model.counterpart import CounterpartCache
from ..model.graph import ModelGraph
from ..model.graph_walks import Precision, final_outputs
from ..model.never_dumped import EVERYTHING, DumpRequest
from ..model.outputs_in_readers import OtherDumps, OutputsInReaders
from ..model.pairing import Pairing
from ..model.row_plan import (
    INPUT,
    OMITTED,
    OP,
    OUTPUT,
    PAIR,
    DumpedOp,
    RowPlan,
    dumped_op,
)
from .handed_on import handed_on_otherwise, made_by_no_original
from .tensor_planner import FilePlan, OpenedDump, TensorPlanner, is_of_one_build

if TYPE_CHECKING:
    from ..dumps.slices import AnyDump

PlanKey = Tuple[Any, ...]
# More forms of header than ops of most networks; all are forgotten then, so that memory is bounded.
_MOST_PLANS = 8192

_NEEDS_MODEL = "where an input comes from is not known without the model's json"


UNREADABLE = "unreadable"


class Planner:
    """Plans the rows of one device × model × step.

    Parameters
    ----------
    place
        Where in the dump tree its files lie.
    golden
        The golden tensors; where they may have grown since, :meth:`refresh` must be called.
    graph
        The model, or None.
    selection
        The json's ids of the ops that are wanted; None: all.
    overflow
        Whether the OverFlow column is wanted: of tensors without golden data it is found here.
    by_model
        The graph's originals are the ops of GOLDEN's device dumps (an unfused build): these pair by
        it, not by their names.
    known
        What is known of the counterparts of models' tensors, for the planners of a run to share.
    requested
        What the device was asked to dump of the model.
    neighbours
        Knows the other dumps of the place, where outputs are seen of a dump that holds inputs only.
        None: they are not seen.
    plans
        Plans, and choices of golden files, that are the same at all places, for the planners of a
        run to share; they are made once for each op and form of its header. None: none are kept.
    """

    def __init__(
        self,
        place: Place,
        golden: GoldenSet,
        graph: Optional[ModelGraph] = None,
        selection: Optional[FrozenSet[int]] = None,
        overflow: bool = False,
        by_model: bool = False,
        known: Optional[CounterpartCache] = None,
        requested: DumpRequest = EVERYTHING,
        neighbours: Optional[OtherDumps] = None,
        plans: Optional[Dict[PlanKey, Any]] = None,
    ) -> None:
        self.place = place
        self._plans = plans
        self._neighbours = neighbours
        self.golden = golden
        self.graph = graph
        self.selection = selection
        self.overflow = overflow
        self._by_model = by_model
        self._known = known or CounterpartCache()
        self._precision = Precision(graph) if graph is not None else None
        self._final = final_outputs(graph) if graph is not None else frozenset()
        self._has_l1_groups = graph is not None and any(op.l1_group for op in graph.ops)
        self._left_out: List[DumpedOp] = []
        self.two_dumps = False
        self._revision = -1
        self._by_name = Pairing(None, self._has_output, no_match_reason=self._no_match_reason)
        self._model: Optional[Pairing] = None
        if graph is not None:
            known_there = self._known.of(graph, golden, place)
            self._model = Pairing(graph, self._has_output, None, known_there, request=requested)
        self.refresh(golden)

    def refresh(self, golden: GoldenSet) -> None:
        """Use golden data that have arrived since, or another set; does nothing when all is as
        before.
        """
        if golden is self.golden and golden.revision == self._revision:
            return
        self.golden, self._revision = golden, golden.revision
        if self.two_dumps != (golden.kind == "npu" and not self._by_model):
            self.two_dumps = not self.two_dumps
            self._by_name = Pairing(
                None,
                self._has_output,
                self._has_input if self.two_dumps else None,
                no_match_reason=self._no_match_reason,
            )
        if self._model is not None and self.graph is not None:
            self._model.use_counterparts(self._known.of(self.graph, golden, self.place))
        self._tensors = TensorPlanner(
            self.place,
            golden,
            self._model,
            self._precision,
            self._final,
            self.two_dumps,
            self.overflow,
        )

    def number_unknown_ops(self, op_names: Iterable[str]) -> None:
        """Give the ops that the json does not know their Index, in this order, whatever came
        first.
        """
        names = list(op_names)
        for pairing in (self._model, self._by_name):
            if pairing is not None:
                pairing.number_unknown_ops(names)

    def first_free_index(self) -> int:
        """Return the Index of the first op that the json does not know."""
        return len(self._model.groups) if self._model is not None else 0

    def knows(self, op_name: str) -> bool:
        """Tell whether the json knows the op (or the op that it is a slice of)."""
        return self._model is not None and self._model.knows(op_name)

    def dump_counts(self, op_names: Collection[str]) -> Tuple[int, int]:
        """Return how many ops of the model are among these names of dumps, and how many should have
        a dump and are wanted.
        """
        selection = self.selection
        if self._model is None:
            return 0, 0
        return self._model.dump_counts(op_names, lambda op: selection is None or op.id in selection)

    @property
    def only_inputs(self) -> bool:
        """Whether the device was asked for inputs only."""
        return self._model is not None and self._model.request.mode == INPUT

    def choice(self, dumped: DumpedOp) -> Tuple[Tuple[str, Optional[str]], ...]:
        """Return which golden file each tensor of a dump is compared with now; two equal answers
        mean equal plans.
        """
        key = None if self._plans is None else self._op_key(dumped)
        if self._plans is None or key is None:
            return self._chosen(dumped)
        key = (*key, dumped.n_inputs, dumped.n_outputs)
        if key not in self._plans:
            self._keep(key, self._chosen(dumped))
        choice: Tuple[Tuple[str, Optional[str]], ...] = self._plans[key]
        return choice

    def _chosen(self, dumped: DumpedOp) -> Tuple[Tuple[str, Optional[str]], ...]:
        chosen = []
        for plan in self._row_plans(dumped):
            entry = None
            if plan.status == PAIR:
                entry = self._tensors.golden_of(plan, dumped)
            chosen.append((plan.status, entry.path if entry is not None else None))
        return tuple(chosen)

    def waits_for_group(self, entry: DumpEntry) -> bool:
        """Tell whether this dump's op belongs to an L1 fusion group: which of the group have rows
        is known when all have come.
        """
        return self.l1_group(entry) is not None

    def l1_group(self, entry: DumpEntry) -> Optional[Tuple[int, str]]:
        """Return the L1 fusion group that a dump's op belongs to; None where there is none, or it
        does not matter.
        """
        if self.two_dumps or self._model is None or not self._has_l1_groups:
            return None
        return self._model.l1_group(dumped_op(entry, None))

    def _has_output(self, op: str, index: int) -> bool:
        return self.golden.find(op, index, "output", self.place) is not None

    def _has_input(self, op: str, index: int) -> bool:
        return self.golden.find(op, index, "input", self.place) is not None

    def _no_match_reason(self, op: str, index: int) -> str:
        return self.golden.no_match_reason(op, index)

    def has_iterations(self, dumped: DumpedOp, count: int) -> bool:
        """Tell whether the golden data of an op's outputs have as many runs as its dumps: each is
        then compared with its own.
        """
        plans = [
            plan for plan in self._row_plans(dumped) if plan.status == PAIR and plan.kind == OUTPUT
        ]
        return bool(plans) and all(
            self.golden.runs(plan.golden_op or "", plan.golden_index or 0) == count
            for plan in plans
        )

    def joins(self, entry: DumpEntry) -> bool:
        """Tell whether a file is a slice of its op, to be joined with the others; between two dumps
        each slice has its counterpart.
        """
        return not self.two_dumps and (
            entry.name.slice is not None or self.whole_op(entry.name.op_name) is not None
        )

    def whole_op(self, op_name: str) -> Optional[str]:
        """Return the model's op that ``{op}_lxslice{N}`` is a slice of; None where the model does
        not say so.
        """
        return None if self.graph is None else self.graph.whole_op(op_name)

    # One case for each state of a planned tensor.
    def plan(
        self,
        entry: DumpEntry,
        iteration: Optional[Tuple[int, int]] = None,
        slices: Optional[Mapping[int, DumpEntry]] = None,
    ) -> FilePlan:
        """Return what the tensors of one dump file, or of the slices of one op, come to.

        A file that is damaged has rows with the reason; no error is raised for it.

        Parameters
        ----------
        iteration
            (number from 0, how many): which of the op's dumps it is, where each is compared with
            golden data of its own.
        slices
            The files of all slices by their numbers, ``entry`` among them; None: the file is no
            slice, or is taken by itself.
        """
        try:
            dump: AnyDump = open_dump(entry, slices)
        except TruncatedFile as error:
            plan_of_file = self._unreadable(entry, error.message)
            return replace(plan_of_file, state=SHORT, expected_bytes=error.expected_bytes)
        except GoldwatchError as error:
            state = UNREADABLE if isinstance(error, MissingPath) else HEADERLESS
            return replace(self._unreadable(entry, error.message), state=state)
        except OSError as error:
            return replace(
                self._unreadable(entry, "%s: %s" % (entry.path, error.strerror or error)),
                state=UNREADABLE,
            )
        dumped = dumped_op(entry, dump)
        plans = self._plans if iteration is None and slices is None else None
        form = None if plans is None else self._form(dumped, dump)
        known: Optional[FilePlan] = None if plans is None or form is None else plans.get(form)
        if (
            known is not None
            and isinstance(dump, DumpFile)
            # While golden data come, a manifest may say so later.
            and not any(unfit_golden(task.golden.path) for task in known.tasks)
        ):
            return known.at(self.place, entry, dump)
        opened = OpenedDump(entry, dump, dumped, self._read_there(entry, dumped, dump), iteration)
        made = FilePlan(
            state=dump.state,
            expected_bytes=dump.expected_bytes,
            nulls_left_out=dump.nulls_left_out,
            n_inputs=len(dump.inputs),
            n_outputs=len(dump.outputs),
        )
        for plan in self._row_plans(dumped):
            if not self._selected(plan):
                continue
            if plan.status == OMITTED:
                made.omitted.append((plan.tensor, plan.reason))
            elif plan.kind == OP:
                made.rows.append(self._row(plan, entry))
            else:
                self._tensors.plan(plan, opened, made)
        if form is not None and isinstance(dump, DumpFile) and made.is_same_elsewhere(dump):
            self._keep(form, made)
        return made

    def _keep(self, key: PlanKey, value: Any) -> None:
        if self._plans is not None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = value

    def _op_key(self, dumped: DumpedOp) -> Optional[PlanKey]:
        """Return all that decides what an op's tensors are compared with, but for their form; None
        where the place does.
        """
        if (
            self.two_dumps
            or self.golden.kind not in ("npy", "container")
            or not self.knows(dumped.op_name)
        ):
            return None
        return (
            self.graph,
            self.place.model,
            self.golden,
            self.golden.revision,
            dumped.op_type,
            dumped.op_name,
            dumped.slice,
        )

    def _form(self, dumped: DumpedOp, dump: AnyDump) -> Optional[PlanKey]:
        """Return all that decides a dump's plan, whatever its place; None where more does."""
        if (
            not isinstance(dump, DumpFile)
            or dump.state != COMPLETE
            or not dump.outputs
            or self.overflow
        ):
            return None
        key = self._op_key(dumped)
        return None if key is None else (*key, dump.form)

    def _read_there(
        self, entry: DumpEntry, dumped: DumpedOp, dump: AnyDump
    ) -> Optional[OutputsInReaders]:
        """Return where the outputs of a dump are seen that holds inputs only; None for any other
        dump.
        """
        if self._model is None or self._neighbours is None:
            return None
        op = self._model.find(dumped) if dump.inputs and not dump.outputs else None
        if op is None or not op.output_descs:
            return None
        return OutputsInReaders(self._model, self._neighbours, entry.rel, op)

    def _row_plans(self, dumped: DumpedOp) -> List[RowPlan]:
        """Return the plans of a dump's rows; those of a slice that is not joined bear its context
        and thread.
        """
        if not self.two_dumps:
            whole = self.whole_op(dumped.op_name)
            return self._plans_of_op(dumped if whole is None else replace(dumped, op_name=whole))
        plans = self._plans_of_op(dumped)
        return (
            [replace(plan, tensor=plan.tensor + _slice_text(dumped.slice)) for plan in plans]
            if dumped.slice
            else plans
        )

    def _plans_of_op(self, dumped: DumpedOp) -> List[RowPlan]:
        if self._model is None:
            plans = self._by_name.rows_for(dumped)
            return plans if self.two_dumps else [_without_model(plan) for plan in plans]
        plans = self._model.rows_for(dumped)
        if not self.two_dumps:
            return plans
        # Two dumps of one model pair by name; the json gives the order.
        base = plans[0]
        without_tensor = [plan for plan in plans if not plan.dumped]
        by_name = [
            plan for plan in self._by_name.rows_for(dumped) if plan.kind != OP or not without_tensor
        ]
        return [
            replace(
                plan,
                index=base.index,
                op=base.op,
                op_type=base.op_type,
                op_sequence=base.op_sequence,
                graph_index=base.graph_index,
                group=base.group,
                tensor=base.op
                if plan.kind == OP
                else "%s:%s:%d" % (base.op, plan.kind, plan.tensor_index or 0),
            )
            for plan in by_name
        ] + without_tensor

    def _selected(self, plan: RowPlan) -> bool:
        return self.selection is None or plan.op_sequence in self.selection

    def _unreadable(self, entry: DumpEntry, message: str) -> FilePlan:
        plans = self._row_plans(dumped_op(entry, None))
        if not plans or not self._selected(plans[0]):
            return FilePlan()
        part = _slice_text(entry.name.slice) if self.two_dumps else ""
        plan = replace(plans[0], kind=OP, tensor=plans[0].op + part, tensor_index=None)
        row = self._row(plan, entry).but(reason="", reason_codes="")
        return FilePlan(rows=[refuse(row, message, CORRUPT)])

    def _row(self, plan: RowPlan, entry: Optional[DumpEntry]) -> Row:
        return planned_row(plan, self.place, entry)

    def lost(self, entry: DumpEntry, reason: str) -> FilePlan:
        """Return what a dump file comes to whose comparison ended every process that tried it."""
        plan = self._unreadable(entry, reason)
        return replace(plan, rows=[row.but(cause="crashed") for row in plan.rows])

    def unnamed(self, rel: str) -> Row:
        """Return the row of a dump file whose hash name no mapping.csv explains."""
        plan = self._row_plans(DumpedOp(os.path.basename(rel), "", 0, 0, 0))[0]
        plan = replace(plan, kind=OP, tensor=plan.op, status=NOT_COMPARED)
        row = refuse(
            self._row(plan, None).but(reason="", reason_codes=""),
            "the file has a hash name that no line of mapping.csv explains",
            CORRUPT,
        )
        return row.but(target_file=rel)

    def leave_out(self, every: Iterable[DumpedOp]) -> Set[int]:
        """Apply the rule of L1 fusion groups to all dump files of this place; return the numbers of
        those that have no rows.
        """
        if self._model is None or self.two_dumps or not self._has_l1_groups:
            return set()
        dumped = list(every)
        selected = {id(item) for item in self._model.l1_selected(dumped)}
        left_out = {number for number, item in enumerate(dumped) if id(item) not in selected}
        self._left_out = [dumped[number] for number in sorted(left_out)]
        return left_out

    def absent(self, dumped: Iterable[DumpedOp]) -> List[Row]:
        """Return the rows of ops that have no dump file, given all that there are; those that
        :meth:`leave_out` left out have one.
        """
        dumped_ops = [*dumped, *self._left_out]
        rows: List[Row] = []
        if self.two_dumps:
            rows += self._golden_only(dumped_ops)
        elif self._model is not None:
            for plan in self._model.absent_rows(dumped_ops):
                if self._selected(plan) and plan.status != OMITTED:
                    row = self._row(plan, None)
                    if row.verdict == NOT_COMPARED:
                        row = row.but(cause=DUMP_MISSING)
                    rows.append(self._handed_on(row))
        return rows

    def _handed_on(self, row: Row) -> Row:
        """Return the row of an op without a dump as one that fails, where the network hands out by
        it another tensor than the original model says, or is not compared where nobody knows.
        """
        graph = self.graph
        op = None if graph is None or row.verdict != EXPECTED_ABSENT else graph.op(row.op)
        if graph is None or op is None:
            return row
        if op.type == "NetOutput" and op.graph_index == 0:
            unknown = made_by_no_original(graph)
            return row.but(verdict=NOT_COMPARED, reason=unknown) if unknown else row
        if (op.position, 0) not in self._final:
            return row
        known = self._known.of(graph, self.golden, self.place)
        why = handed_on_otherwise(graph, known, self.golden, self.place, op)
        return row.but(verdict=FAIL, reason=why, reason_codes=HANDED_ON) if why else row

    def _golden_only(self, dumped_ops: Sequence[DumpedOp]) -> List[Row]:
        """Return a row for each op, and each slice of one, that only the golden dump has."""
        rows: List[Row] = []
        slices: Dict[str, Set[Optional[Tuple[int, int]]]] = {}
        for item in dumped_ops:
            slices.setdefault(sanitise_golden(item.op_name), set()).add(item.slice)
        for key in self.golden.op_names():
            there = self.golden.dumps.slices(key)
            if key in slices:
                there = there - slices[key] if len(there) > 1 else set()
            for part in sorted(there, key=_slice_text):
                dump = self.golden.dumps.find(key, self.place, ("", part))
                if dump is not None:
                    rows += self._only_there(dump)
        return rows

    def _only_there(self, dump: DumpEntry) -> List[Row]:
        plan = self._row_plans(dumped_op(dump, None))[0]
        plan = replace(
            plan,
            kind=OP,
            tensor=plan.op + _slice_text(dump.name.slice),
            tensor_index=None,
            reason="",
            status=NOT_COMPARED,
        )
        if not self._selected(plan):
            return []
        row = refuse(
            self._row(plan, None), "only the other dump (GOLDEN) has this op", DUMP_MISSING
        )
        if is_of_one_build(row):
            row = row.but(
                verdict=EXPECTED_ABSENT,
                reason="the compiler put it into the other build only",
                cause="",
            )
        return [
            row.but(
                golden=dump.name.op_name, golden_file=dump.rel, timestamp_us=dump.name.timestamp_us
            )
        ]


def _slice_text(part: Optional[Tuple[int, int]]) -> str:
    """Return the end of the TensorIndex in a slice's rows."""
    return "" if part is None else ":context%d:thread%d" % part


def _without_model(plan: RowPlan) -> RowPlan:
    """Outputs pair by the op's own name; an input's producer cannot be known: that is no fault of
    the data.
    """
    if plan.kind == "input" and plan.status != PAIR:
        return replace(plan, status=EXPECTED_ABSENT, reason=_NEEDS_MODEL, golden_op=None)
    return plan
