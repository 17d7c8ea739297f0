"""What one tensor of a dump file comes to: a pair to compare, or a row that says why not."""

from __future__ import annotations

import contextlib
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from ..base.errors import GoldwatchError, NotComparable
from ..base.fast_dataclasses import changed, dataclass
from ..base.manifest import original_name, unfit_golden
from ..base.naming import sanitise_device, sanitise_golden
from ..dumps.dump_file import DumpFile, TensorInfo
from ..dumps.dump_header import COMPLETE, size_error
from ..dumps.folder_listing import DumpEntry
from ..dumps.golden_set import GoldenEntry, GoldenSet
from ..dumps.place import Place
from ..dumps.slices import JoinedDump, is_overwritten
from ..metrics.compare_pair import overflow_of, refuse
from ..metrics.overwriting_and_cancellation import beside_of
from ..metrics.pair_task import PairTask, TensorPlace, planned_row
from ..metrics.row import (
    CORRUPT,
    DUMP_MISSING,
    EXPECTED_ABSENT,
    GOLDEN_MISSING,
    MISSING_CAUSES,
    NOT_COMPARED,
    Row,
)
from ..model.graph_walks import Precision
from ..model.op_node import OpNode
from ..model.outputs_in_readers import OutputInReader, OutputsInReaders
from ..model.pairing import Pairing
from ..model.row_plan import INPUT, ONLY_INPUTS, OP, OUTPUT, OWN_INPUT, PAIR, DumpedOp, RowPlan
from ..tensors.geometry import is_stored_alike
from ..tensors.tensor import Tensor

if TYPE_CHECKING:
    from ..dumps.slices import AnyDump


@dataclass(frozen=True)
class FilePlan:
    """What one dump file comes to.

    Attributes
    ----------
    tasks
        The pairs to compare.
    rows
        The rows that are known without comparing.
    waiting
        Rows whose golden tensor is not there: final once no more golden data can come.
    omitted
        (tensor, reason) of tensors that by the pairing rules have no row.
    state
        The file's: ``complete``, ``short``, ``long``, ``headerless``, or ``unreadable`` (gone, or
        no permission).
    expected_bytes
        The size by the header; 0 when that could not be read.
    nulls_left_out
        As :attr:`goldwatch.dumps.DumpFile.nulls_left_out`: the file may still grow.
    n_inputs, n_outputs
        How many tensors the header lists.
    """

    tasks: List[PairTask] = field(default_factory=list)
    rows: List[Row] = field(default_factory=list)
    waiting: List[Row] = field(default_factory=list)
    omitted: List[Tuple[str, str]] = field(default_factory=list)
    state: str = COMPLETE
    expected_bytes: int = 0
    nulls_left_out: bool = False
    n_inputs: int = 0
    n_outputs: int = 0

    def is_same_elsewhere(self, dump: DumpFile) -> bool:
        """Tell whether the plan, made of a dump, is that of every file of the same op and form:
        nothing in it was found in this file alone.
        """
        return all(
            task.golden.path != dump.path
            and task.target is dump.tensor(task.row.kind, task.row.tensor_index or 0)
            for task in self.tasks
        ) and all(
            not row.cause or row.cause in MISSING_CAUSES for row in (*self.rows, *self.waiting)
        )

    def at(self, place: Place, entry: DumpEntry, dump: DumpFile) -> FilePlan:
        """Return the plan of another file of the same op and form."""
        where = {
            **place._asdict(),
            "target_file": entry.rel,
            "timestamp_us": entry.name.timestamp_us,
        }
        tasks = []
        for task in self.tasks:
            planned = task.planned
            info = dump.info(planned.kind, planned.tensor_index or 0)
            tasks.append(
                changed(
                    task,
                    at=TensorPlace(place, entry.rel, entry.name.timestamp_us, info.address),
                    target=dump.tensor(info.kind, info.index),
                    # Tensors of one form lie beside each other everywhere or nowhere.
                    beside=beside_of(dump, info, planned.op_type) if task.beside else (),
                )
            )
        return changed(
            self,
            tasks=tasks,
            rows=[_row_at(row, where, dump) for row in self.rows],
            waiting=[_row_at(row, where, dump) for row in self.waiting],
            # Headers of one form differ in length: addresses and times are of few or many bytes.
            expected_bytes=dump.expected_bytes,
        )


def _row_at(row: Row, where: Dict[str, Any], dump: DumpFile) -> Row:
    infos = () if row.kind == OP else dump.outputs if row.kind == "output" else dump.inputs
    index = row.tensor_index or 0
    address = infos[index].address if index < len(infos) else None
    return changed(row, address=address, **where)


class OpenedDump(NamedTuple):
    """A dump that is planned.

    Attributes
    ----------
    entry, dump
        Its file, opened.
    dumped
        Its op, as the model is asked for it.
    in_readers
        Where its outputs are seen, of a dump that holds inputs only; None of any other.
    iteration
        (number from 0, how many): which of the op's dumps it is, where each is compared with golden
        data of its own.
    """

    entry: DumpEntry
    dump: AnyDump
    dumped: DumpedOp
    in_readers: Optional[OutputsInReaders]
    iteration: Optional[Tuple[int, int]]


class TensorPlanner:
    """Plans the tensors of one device × model × step.

    Parameters
    ----------
    place
        Where in the dump tree their files lie.
    golden
        The golden tensors.
    model
        Pairs by the model; None without one.
    precision
        Tells through which types a tensor has gone; None without a model.
    final
        The outputs of the network (:func:`goldwatch.model.graph_walks.final_outputs`).
    two_dumps
        GOLDEN is a dump of the same model, too.
    overflow
        Whether the OverFlow column is wanted: of tensors without golden data it is found here.
    """

    def __init__(
        self,
        place: Place,
        golden: GoldenSet,
        model: Optional[Pairing],
        precision: Optional[Precision],
        final: FrozenSet[Tuple[int, int]],
        two_dumps: bool,
        overflow: bool,
    ) -> None:
        self._place, self._golden = place, golden
        self._model, self._precision, self._final = model, precision, final
        self._two_dumps, self._overflow = two_dumps, overflow

    def plan(self, plan: RowPlan, opened: OpenedDump, made: FilePlan) -> None:
        """Add what a tensor comes to."""
        dump = opened.dump
        infos = dump.inputs if plan.kind == INPUT else dump.outputs
        index = plan.tensor_index or 0
        if not plan.dumped and plan.status == EXPECTED_ABSENT and opened.in_readers is not None:
            self._plan_in_reader(plan, opened, opened.in_readers, made)
        elif index < len(infos):
            self._plan_dumped(plan, opened, infos[index], made)
        else:
            row = self._row(plan, opened.entry)
            made.rows.append(row.but(cause=DUMP_MISSING) if row.verdict == NOT_COMPARED else row)

    def _plan_dumped(
        self, plan: RowPlan, opened: OpenedDump, info: TensorInfo, made: FilePlan
    ) -> None:
        plan = self._by_own_name(plan, opened, info) or plan
        dump, row = opened.dump, planned_row(plan, self._place, opened.entry, info)
        if dump.state != COMPLETE:
            damage = size_error(dump.path, dump.state, dump.expected_bytes, dump.actual_bytes)
            made.rows.append(refuse(row.but(reason="", reason_codes=""), damage.message, CORRUPT))
        elif (
            plan.status == PAIR and not self._two_dumps and _is_gone(dump, info, opened.in_readers)
        ):
            # The dump was taken after the op had run: what came in is gone, and is judged by its
            # producer's row.
            reason = "an output lies in its memory, so the dump holds what the op wrote there"
            made.rows.append(row.but(verdict=EXPECTED_ABSENT, reason=_joined(row.reason, reason)))
        elif plan.status != PAIR:
            missing = plan.status == NOT_COMPARED and plan.golden_op is not None
            row = self._scanned(self._unpaired(row, plan, missing), dump, info)
            waits = missing or plan.status == EXPECTED_ABSENT
            (made.waiting if waits else made.rows).append(row)
        else:
            self._pair(row, plan, opened, info, made)

    def _by_own_name(
        self, plan: RowPlan, opened: OpenedDump, info: TensorInfo
    ) -> Optional[RowPlan]:
        """Return the plan of a tensor that originals lead to nothing in the other build (a network
        input, a constant, what the compiler put in) as that of the op of its name there, or as the
        output of the op that feeds it; None where that has none such.
        """
        graph = None if self._model is None else self._model.graph
        if graph is None or not graph.in_both or info.problem is not None:
            return None
        if plan.status == PAIR and self.golden_of(plan, opened.dumped) is not None:
            return None
        name, op_type, kind, index = plan.op, plan.op_type, info.kind, info.index
        if name not in graph.in_both:
            op = graph.op(name)
            source = op.inputs[index] if op is not None and index < len(op.inputs) else None
            made = graph.producer(op, source[0]) if op is not None and source is not None else None
            if kind != INPUT or source is None or made is None or made.name not in graph.in_both:
                return None
            name, op_type, kind, index = made.name, made.type, OUTPUT, source[1]
        own = replace(
            plan,
            status=PAIR,
            reason="",
            golden_op=name,
            golden_index=index,
            golden_kind=kind,
            golden=name,
        )
        golden = self.golden_of(own, replace(opened.dumped, op_type=op_type))
        try:
            alike = golden is not None and is_stored_alike(
                opened.dump.tensor(info.kind, info.index), self._golden.tensor(golden)
            )
        except (GoldwatchError, OSError):
            return None
        return own if alike else None

    def _plan_in_reader(
        self, plan: RowPlan, opened: OpenedDump, in_readers: OutputsInReaders, made: FilePlan
    ) -> None:
        """Plan an output that the dump lacks from where it is read."""
        assert self._model is not None
        index = plan.tensor_index or 0
        reader_plan = self._model.missing_output_row(opened.dumped, index)
        if reader_plan is None or not in_readers.is_read(index):
            made.rows.append(self._row(plan, opened.entry))
            return
        seen_at = in_readers.output(index)
        if seen_at is None and in_readers.settled:
            text = "%s: no dump that is there shows it" % ONLY_INPUTS
            made.rows.append(self._row(plan, opened.entry).but(reason=text))
            return
        if seen_at is None:
            # It waits for its readers, and is no row so far.
            made.waiting.append(self._row(plan, opened.entry).but(verdict=NOT_COMPARED))
            return
        dumped = opened.dumped
        if self._two_dumps:
            reader_plan, dumped = self._in_other_dump(plan, dumped, seen_at)
        where = "%s: seen at %s" % (ONLY_INPUTS, seen_at.tensor)
        reason = _joined(reader_plan.reason, where)
        row = planned_row(
            replace(reader_plan, reason=reason), self._place, opened.entry, seen_at.info
        )
        if reader_plan.status != PAIR:
            missing = reader_plan.golden_op is not None
            (made.waiting if missing else made.rows).append(
                self._unpaired(row, reader_plan, missing)
            )
            return
        beside = beside_of(opened.dump, replace(seen_at.info, kind=OUTPUT), plan.op_type)
        reader = opened._replace(dump=seen_at.dump, dumped=dumped)
        self._pair(row, reader_plan, reader, seen_at.info, made, beside)

    def _in_other_dump(
        self, plan: RowPlan, dumped: DumpedOp, seen_at: OutputInReader
    ) -> Tuple[RowPlan, DumpedOp]:
        """Return what an output is paired with in the other dump, which holds it too, or what the
        same op read; and the op whose dump that is.
        """
        index, reader = plan.tensor_index or 0, seen_at.reader
        golden = self._golden.find(plan.op, index, OUTPUT, self._place)
        holds_output = golden is not None and _holds_output(golden.path, index)
        name, number, kind = (
            (plan.op, index, OUTPUT) if holds_output else (reader.name, seen_at.info.index, INPUT)
        )
        reader_plan = replace(
            plan,
            status=PAIR,
            reason="",
            golden_op=name,
            golden_index=number,
            golden_kind=kind,
            golden=dumped.op_name,
        )
        return reader_plan, dumped if holds_output else replace(dumped, op_type=reader.type)

    def _pair(
        self,
        row: Row,
        plan: RowPlan,
        opened: OpenedDump,
        info: TensorInfo,
        made: FilePlan,
        beside: Optional[Tuple[Tensor, ...]] = None,
    ) -> None:
        dump, dumped = opened.dump, opened.dumped
        if plan.quantisation is not None:
            from ..dumps.statistics_dump import StatisticsDump
            from ..metrics.dequantised import dequantised, is_integer, not_integers

            if not is_integer(info.dtype):
                made.rows.append(row.but(verdict=EXPECTED_ABSENT, reason=not_integers(info.dtype)))
                return
        if plan.golden_kind == OWN_INPUT:
            index, rel = plan.golden_index or 0, row.target_file or dump.path
            golden: Optional[GoldenEntry] = GoldenEntry(
                dump.path, rel, plan.op, index, dumped.timestamp_us, "npu", INPUT
            )
        else:
            golden = self.golden_of(plan, dumped, opened.iteration)
        if golden is None:
            made.waiting.append(self._scanned(self._unpaired(row, plan, True), dump, info))
            return
        row = self._note_collision(row.but(golden_file=golden.rel), plan, golden)
        unfit = unfit_golden(golden.path) if golden.kind == "npy" else None
        if unfit is not None:
            made.rows.append(refuse(row, *unfit))
            return
        try:
            target = dump.tensor(info.kind, info.index)
        except NotComparable as error:
            made.rows.append(refuse(row, error.message, error.cause))
            return
        if plan.quantisation is not None:
            if isinstance(dump, StatisticsDump):
                text = "statistics of quantised values are not dequantised"
                made.rows.append(refuse(row, text, "dtype"))
                return
            target = dequantised(target, plan.quantisation)
        if isinstance(dump, JoinedDump) and dump.slices > 1:
            row = row.but(reason=_joined(row.reason, "joined from %d slices" % dump.slices))
        if beside is None:
            beside = () if self._two_dumps else beside_of(dump, info, plan.op_type)
        origin = (plan.origin_format, plan.origin_shape)
        op = self._model.find(dumped) if self._model is not None and not self._two_dumps else None
        limited_as = ""
        if op is not None and self._precision is not None:
            # The coarsest type that a float has gone through.
            limited_as = self._precision.coarser(op, info.kind, info.index, info.dtype.name)
        made.tasks.append(
            PairTask(
                row, target, golden, *origin, as_stored=self._two_dumps, beside=beside,
                reshaped=plan.reshaped,
                limited_as=limited_as,
                final=op is not None and self._is_final(op, info),
            )
        )  # fmt: skip

    def _is_final(self, op: OpNode, info: TensorInfo) -> bool:
        """Tell whether a tensor is an output of the network, where it is made or where it is
        read.
        """
        if info.kind == OUTPUT:
            return (op.position, info.index) in self._final
        assert self._model is not None and self._model.graph is not None
        source = op.inputs[info.index] if info.index < len(op.inputs) else None
        producer = self._model.graph.producer(op, source[0]) if source is not None else None
        return (
            producer is not None
            and source is not None
            and (producer.position, source[1]) in self._final
        )

    def golden_of(
        self, plan: RowPlan, dumped: DumpedOp, iteration: Optional[Tuple[int, int]] = None
    ) -> Optional[GoldenEntry]:
        """Return the golden tensor of a row; None where there is none."""
        like = (dumped.op_type, dumped.slice)
        return self._golden.find(
            plan.golden_op or "",
            plan.golden_index or 0,
            plan.golden_kind,
            self._place,
            iteration,
            like,
        )

    def _note_collision(self, row: Row, plan: RowPlan, entry: GoldenEntry) -> Row:
        op_name = plan.golden_op or ""
        key = sanitise_golden(op_name)
        note = ""
        name = entry.original or entry.op_name
        graph = None if self._model is None else self._model.graph
        if entry.kind != "npu" and name not in (op_name, key) and sanitise_device(name) != op_name:
            note = "golden file of %s taken for %s" % (name, op_name)
        elif entry.kind != "npu" and name == key and graph is not None:
            sharing = graph.sharing_golden_name(op_name)
            original = original_name(entry.path) if sharing else None
            if original is not None and original != op_name:
                note = "golden file of %s taken for %s" % (original, op_name)
            elif sharing and original is None:
                note = "the golden name %s stands for %s: the file may be of another than %s" % (
                    key,
                    ", ".join(sharing[:5]),
                    op_name,
                )
        return row.but(reason=_joined(row.reason, note)) if note else row

    def _scanned(self, row: Row, dump: AnyDump, info: TensorInfo) -> Row:
        """Return the row of a tensor that has no golden one, with the OverFlow column filled in
        where that is wanted.
        """
        if not self._overflow or info.problem is not None:
            return row
        return row.but(overflow=overflow_of(dump.tensor(info.kind, info.index)))

    def _unpaired(self, row: Row, plan: RowPlan, missing: bool) -> Row:
        if not missing:
            return row
        if self._two_dumps and is_of_one_build(row):
            return row.but(
                verdict=EXPECTED_ABSENT, reason="the compiler put it into this build only"
            )
        lacks = (
            "the other dump has no %s:%s:%d" if self._two_dumps else "no golden data for %s:%s:%d"
        )
        reason = plan.reason or lacks % (plan.golden_op, plan.golden_kind, plan.golden_index or 0)
        return row.but(verdict=NOT_COMPARED, reason=reason, cause=GOLDEN_MISSING)

    def _row(self, plan: RowPlan, entry: DumpEntry) -> Row:
        return planned_row(plan, self._place, entry)


def is_of_one_build(row: Row) -> bool:
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


def _joined(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))
