"""From a dump file to its pairs: which tensors of it are compared with what, which are not and
why.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import (
    Collection,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ..dumps.any_dump import AnyDump, is_overwritten, open_dump
from ..dumps.container import DumpFile, TensorInfo
from ..dumps.golden import GoldenEntry, GoldenSet
from ..dumps.header import COMPLETE, HEADERLESS, SHORT, size_error
from ..dumps.listing import DumpEntry
from ..dumps.manifest_remarks import original_name, unfit_golden
from ..dumps.place import Place
from ..dumps.slices import JoinedDump
from ..dumps.statistics import StatisticsDump
from ..errors import GoldwatchError, MissingPath, NotComparable, TruncatedFile
from ..metrics.dequantised import dequantised, is_integer, not_integers
from ..metrics.pair import overflow_of, refuse
from ..metrics.pair_task import PairTask
from ..metrics.planned_row import planned_row
from ..metrics.row import (
    CORRUPT,
    DUMP_MISSING,
    EXPECTED_ABSENT,
    GOLDEN_MISSING,
    NOT_COMPARED,
    Row,
)
from ..metrics.tensors_of_same_dump import beside_of
from ..model.coarsest_type import Precision
from ..model.counterpart import KnownCounterparts
from ..model.dump_request import EVERYTHING, DumpRequest
from ..model.graph import ModelGraph
from ..model.outputs_in_readers import Neighbours, OutputsInReaders
from ..model.pairing import Pairing
from ..model.row_plan import (
    INPUT,
    OMITTED,
    ONLY_INPUTS,
    OP,
    OUTPUT,
    OWN_INPUT,
    PAIR,
    DumpedOp,
    RowPlan,
    dumped_op,
)
from ..naming import sanitise_device, sanitise_golden, whole_name
from ..tensors.tensor import Tensor
from .file_plan import UNREADABLE, FilePlan

_NEEDS_MODEL = "where an input comes from is not known without the model's json"


class _Parts(NamedTuple):
    """The parts of a plan while it is made; as those of :class:`FilePlan`."""

    tasks: List[PairTask]
    rows: List[Row]
    waiting: List[Row]


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
    """

    def __init__(
        self,
        place: Place,
        golden: GoldenSet,
        graph: Optional[ModelGraph] = None,
        selection: Optional[FrozenSet[int]] = None,
        overflow: bool = False,
        by_model: bool = False,
        known: Optional[KnownCounterparts] = None,
        requested: DumpRequest = EVERYTHING,
        neighbours: Optional[Neighbours] = None,
    ) -> None:
        self.place = place
        self._neighbours = neighbours
        self.golden = golden
        self.graph = graph
        self.selection = selection
        self.overflow = overflow
        self._by_model = by_model
        self._known = known or KnownCounterparts()
        self._precision = Precision(graph) if graph is not None else None
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
        chosen = []
        for plan in self._row_plans(dumped):
            entry = None
            if plan.status == PAIR:
                entry = self._golden_of(plan, dumped)
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
        name, number = whole_name(op_name)
        if (
            number is None
            or self.graph is None
            or self.graph.ops_named(op_name)
            or not self.graph.ops_named(name)
        ):
            return None
        return name

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
        except GoldwatchError as error:
            expected = error.expected_bytes if isinstance(error, TruncatedFile) else 0
            state = (
                SHORT
                if isinstance(error, TruncatedFile)
                else UNREADABLE
                if isinstance(error, MissingPath)
                else HEADERLESS
            )
            return replace(
                self._unreadable(entry, error.message), state=state, expected_bytes=expected
            )
        except OSError as error:
            return replace(
                self._unreadable(entry, "%s: %s" % (entry.path, error.strerror or error)),
                state=UNREADABLE,
            )
        parts = _Parts([], [], [])
        tasks, rows, waiting = parts
        omitted: List[Tuple[str, str]] = []
        dumped = dumped_op(entry, dump)
        there = self._read_there(entry, dumped, dump)
        for plan in self._row_plans(dumped):
            if not self._selected(plan):
                continue
            if plan.status == OMITTED:
                omitted.append((plan.tensor, plan.reason))
                continue
            if plan.kind == OP:
                rows.append(self._row(plan, entry))
                continue
            infos = dump.inputs if plan.kind == INPUT else dump.outputs
            if not plan.dumped and plan.status == EXPECTED_ABSENT and there is not None:
                self._seen_there(plan, entry, dumped, dump, there, parts, iteration)
                continue
            if (plan.tensor_index or 0) >= len(infos):
                row = self._row(plan, entry)
                rows.append(row.but(cause=DUMP_MISSING) if row.verdict == NOT_COMPARED else row)
                continue
            info = infos[plan.tensor_index or 0]
            row = planned_row(plan, self.place, entry, info)
            if dump.state != COMPLETE:
                damage = size_error(dump.path, dump.state, dump.expected_bytes, dump.actual_bytes)
                rows.append(refuse(row.but(reason=""), damage.message, CORRUPT))
            elif plan.status == PAIR and not self.two_dumps and _is_gone(dump, info, there):
                # The dump was taken after the op had run: what came in is gone, and is judged by
                # its producer's row.
                reason = "an output lies in its memory, so the dump holds what the op wrote there"
                rows.append(
                    row.but(
                        verdict=EXPECTED_ABSENT,
                        reason="; ".join(filter(None, (row.reason, reason))),
                    )
                )
            elif plan.status != PAIR:
                missing = plan.status == NOT_COMPARED and plan.golden_op is not None
                row = self._scanned(self._unpaired(row, plan, missing), dump, info)
                (waiting if missing or plan.status == EXPECTED_ABSENT else rows).append(row)
            else:
                self._pair(row, plan, dumped, dump, info, parts, iteration)
        return FilePlan(
            tuple(tasks),
            tuple(rows),
            tuple(waiting),
            tuple(omitted),
            dump.state,
            dump.expected_bytes,
            dump.nulls_left_out,
            len(dump.inputs),
            len(dump.outputs),
        )

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

    def _seen_there(
        self,
        plan: RowPlan,
        entry: DumpEntry,
        dumped: DumpedOp,
        dump: AnyDump,
        there: OutputsInReaders,
        parts: _Parts,
        iteration: Optional[Tuple[int, int]],
    ) -> None:
        """Plan an output that the dump lacks from where it is read."""
        assert self._model is not None
        _, rows, waiting = parts
        index = plan.tensor_index or 0
        there_plan = self._model.missing_output_row(dumped, index)
        if there_plan is None or not there.is_read(index):
            rows.append(self._row(plan, entry))
            return
        seen_at = there.output(index)
        if seen_at is None and there.settled:
            text = "%s: no dump that is there shows it" % ONLY_INPUTS
            rows.append(self._row(plan, entry).but(reason=text))
            return
        if seen_at is None:
            # It waits for its readers, and is no row so far.
            waiting.append(self._row(plan, entry).but(verdict=NOT_COMPARED))
            return
        if self.two_dumps:
            # The other dump holds the output too, or what the same op read.
            golden, reader = self.golden.find(plan.op, index, OUTPUT, self.place), seen_at.reader
            holds_output = golden is not None and _holds_output(golden.path, index)
            name, number, kind = (
                (plan.op, index, OUTPUT)
                if holds_output
                else (reader.name, seen_at.info.index, INPUT)
            )
            there_plan = replace(
                plan,
                status=PAIR,
                reason="",
                golden_op=name,
                golden_index=number,
                golden_kind=kind,
                golden=dumped.op_name,
            )
            dumped = dumped if holds_output else replace(dumped, op_type=reader.type)
        where = "%s: seen at %s" % (ONLY_INPUTS, seen_at.tensor)
        reason = "; ".join(filter(None, (there_plan.reason, where)))
        row = planned_row(replace(there_plan, reason=reason), self.place, entry, seen_at.info)
        if there_plan.status != PAIR:
            missing = there_plan.golden_op is not None
            (waiting if missing else rows).append(self._unpaired(row, there_plan, missing))
            return
        beside = beside_of(dump, replace(seen_at.info, kind=OUTPUT), plan.op_type)
        self._pair(row, there_plan, dumped, seen_at.dump, seen_at.info, parts, iteration, beside)

    def _pair(
        self,
        row: Row,
        plan: RowPlan,
        dumped: DumpedOp,
        dump: AnyDump,
        info: TensorInfo,
        parts: _Parts,
        iteration: Optional[Tuple[int, int]],
        beside: Optional[Tuple[Tensor, ...]] = None,
    ) -> None:
        tasks, rows, waiting = parts
        if plan.quantisation is not None and not is_integer(info.dtype):
            rows.append(row.but(verdict=EXPECTED_ABSENT, reason=not_integers(info.dtype)))
            return
        if plan.golden_kind == OWN_INPUT:
            index, rel = plan.golden_index or 0, row.target_file or dump.path
            golden: Optional[GoldenEntry] = GoldenEntry(
                dump.path, rel, plan.op, index, dumped.timestamp_us, "npu", INPUT
            )
        else:
            golden = self._golden_of(plan, dumped, iteration)
        if golden is None:
            waiting.append(self._scanned(self._unpaired(row, plan, True), dump, info))
            return
        row = self._note_collision(row.but(golden_file=golden.rel), plan, golden)
        unfit = unfit_golden(golden.path) if golden.kind == "npy" else None
        if unfit is not None:
            rows.append(refuse(row, *unfit))
            return
        try:
            target = dump.tensor(info.kind, info.index)
        except NotComparable as error:
            rows.append(refuse(row, error.message, error.cause))
            return
        if plan.quantisation is not None and isinstance(dump, StatisticsDump):
            rows.append(refuse(row, "statistics of quantised values are not dequantised", "dtype"))
            return
        if plan.quantisation is not None:
            target = dequantised(target, plan.quantisation)
        if isinstance(dump, JoinedDump) and dump.slices > 1:
            row = replace(
                row,
                reason="; ".join(filter(None, (row.reason, "joined from %d slices" % dump.slices))),
            )
        if beside is None:
            beside = () if self.two_dumps else beside_of(dump, info, plan.op_type)
        origin = (plan.origin_format, plan.origin_shape)
        tasks.append(
            PairTask(
                row, target, golden, *origin, as_stored=self.two_dumps, beside=beside,
                reshaped=plan.reshaped,
                limited_as=self._limited_as(dumped, info),
            )
        )  # fmt: skip

    def _limited_as(self, dumped: DumpedOp, info: TensorInfo) -> str:
        """Return the coarsest type that a float has gone through, where that is coarser than its
        own; else nothing.
        """
        op = self._model.find(dumped) if self._model is not None and not self.two_dumps else None
        if op is None or self._precision is None:
            return ""
        return self._precision.coarser(op, info.kind, info.index, info.dtype.name)

    def _golden_of(
        self, plan: RowPlan, dumped: DumpedOp, iteration: Optional[Tuple[int, int]] = None
    ) -> Optional[GoldenEntry]:
        like = (dumped.op_type, dumped.slice)
        return self.golden.find(
            plan.golden_op or "",
            plan.golden_index or 0,
            plan.golden_kind,
            self.place,
            iteration,
            like,
        )

    def _note_collision(self, row: Row, plan: RowPlan, entry: GoldenEntry) -> Row:
        op_name = plan.golden_op or ""
        key = sanitise_golden(op_name)
        note = ""
        name = entry.original or entry.op_name
        if entry.kind != "npu" and name not in (op_name, key) and sanitise_device(name) != op_name:
            note = "golden file of %s taken for %s" % (name, op_name)
        elif entry.kind != "npu" and name == key and self.graph is not None:
            sharing = self.graph.sharing_golden_name(op_name)
            original = original_name(entry.path) if sharing else None
            if original is not None and original != op_name:
                note = "golden file of %s taken for %s" % (original, op_name)
            elif sharing and original is None:
                note = "the golden name %s stands for %s: the file may be of another than %s" % (
                    key,
                    ", ".join(sharing[:5]),
                    op_name,
                )
        return row.but(reason="; ".join(filter(None, (row.reason, note)))) if note else row

    def _scanned(self, row: Row, dump: AnyDump, info: TensorInfo) -> Row:
        """Return the row of a tensor that has no golden one, with the OverFlow column filled in
        where that is wanted.
        """
        if not self.overflow or info.problem is not None:
            return row
        return row.but(overflow=overflow_of(dump.tensor(info.kind, info.index)))

    def _unpaired(self, row: Row, plan: RowPlan, missing: bool) -> Row:
        if not missing:
            return row
        if self.two_dumps and _is_of_one_build(row):
            return row.but(
                verdict=EXPECTED_ABSENT, reason="the compiler put it into this build only"
            )
        reason = plan.reason or "no golden data for %s:%s:%d" % (
            plan.golden_op,
            plan.golden_kind,
            plan.golden_index or 0,
        )
        return row.but(verdict=NOT_COMPARED, reason=reason, cause=GOLDEN_MISSING)

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
        plan = replace(plans[0], kind=OP, tensor=plans[0].op + part, tensor_index=None, reason="")
        return FilePlan(rows=(refuse(self._row(plan, entry), message, CORRUPT),))

    def _row(self, plan: RowPlan, entry: Optional[DumpEntry]) -> Row:
        return planned_row(plan, self.place, entry)

    def lost(self, entry: DumpEntry, reason: str) -> FilePlan:
        """Return what a dump file comes to whose comparison ended every process that tried it."""
        plan = self._unreadable(entry, reason)
        return replace(plan, rows=tuple(row.but(cause="crashed") for row in plan.rows))

    def unnamed(self, rel: str) -> Row:
        """Return the row of a dump file whose hash name no mapping.csv explains."""
        plan = self._row_plans(DumpedOp(os.path.basename(rel), "", 0, 0, 0))[0]
        plan = replace(plan, kind=OP, tensor=plan.op, status=NOT_COMPARED, reason="")
        row = refuse(
            self._row(plan, None),
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
                    rows.append(row.but(cause=DUMP_MISSING) if row.verdict == NOT_COMPARED else row)
        return rows

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
        row = refuse(self._row(plan, None), "only GOLDEN has a dump of this op", DUMP_MISSING)
        if _is_of_one_build(row):
            row = row.but(
                verdict=EXPECTED_ABSENT,
                reason="the compiler put it into GOLDEN's build only",
                cause="",
            )
        return [
            row.but(
                golden=dump.name.op_name, golden_file=dump.rel, timestamp_us=dump.name.timestamp_us
            )
        ]


def _is_of_one_build(row: Row) -> bool:
    """Tell whether an op is a cast or a change of layout that GE put in and numbered: which there
    are differs between builds.
    """
    return row.op_type in ("Cast", "TransData") and row.op.startswith("trans_%s_" % row.op_type)


def _holds_output(path: str, index: int) -> bool:
    with contextlib.suppress(GoldwatchError, OSError):
        return index < len(DumpFile.open(path, partial=True).outputs)
    return False


def _is_gone(dump: AnyDump, info: TensorInfo, there: Optional[OutputsInReaders]) -> bool:
    """Tell whether an input's memory holds an output; ``there``: those that the dump lacks."""
    if there is not None:
        return info.kind == INPUT and there.overwrites(info)
    return is_overwritten(dump, info)


def _slice_text(part: Optional[Tuple[int, int]]) -> str:
    """Return what the TensorIndex of a slice's rows ends with."""
    return "" if part is None else ":context%d:thread%d" % part


def _without_model(plan: RowPlan) -> RowPlan:
    """Outputs pair by the op's own name; an input's producer cannot be known: that is no fault of
    the data.
    """
    if plan.kind == "input" and plan.status != PAIR:
        return replace(plan, status=EXPECTED_ABSENT, reason=_NEEDS_MODEL, golden_op=None)
    return plan
