"""Pairs every target tensor of a model run with its golden tensor, or gives the reason why it has
none.

The rules and where they come from: docs/reference/pairing.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple, Union

from ..base.fast_dataclasses import changed
from ..base.naming import sanitise_device, whole_name
from ..base.wording import listed
from .absent_ops import Absence
from .counterpart import Counterparts, HasGolden, NoMatchReason, with_reading_shape
from .graph import ModelGraph
from .graph_walks import is_dequant, is_quant
from .never_dumped import AIPP, EVERYTHING, DumpRequest, never_dumps, no_dump_reason
from .op_groups import FOLLOWING_TYPES, Group, ground_truth, groups_of
from .op_node import OpNode, TensorDesc, desc_at, execution_key
from .row_plan import (
    DEQUANTISED,
    EXPECTED_ABSENT,
    INPUT,
    MISSING_OUTPUT,
    NOT_COMPARED,
    OMITTED,
    ONLY_INPUTS,
    OP,
    OUTPUT,
    OWN_INPUT,
    PAIR,
    Counterpart,
    DumpedOp,
    RowPlan,
)

_MAYBE_FUSED = (
    "no dump of this name: the compiler may have fused the op or taken it out, which the original "
    "graph does not tell"
)


class Pairing:
    """Finds the golden tensor that each dumped tensor is compared with.

    Parameters
    ----------
    graph
        The model; None if both sides are device dumps of one model, which are paired by op name,
        kind and index.
    has_golden
        Whether golden data exist for (op's raw name, output index). Called once per tensor: the
        golden data must be complete before.
    has_golden_input
        The same for inputs, if the golden side is a device dump; used without a model only.
    counterparts
        Shared cache of the model's counterparts; None: a new one.
    no_match_reason
        Without a model: why candidate golden files of an output are not used; empty if there are
        none.
    request
        What the device was asked to dump of the model.
    """

    def __init__(
        self,
        graph: Optional[ModelGraph],
        has_golden: HasGolden,
        has_golden_input: Optional[HasGolden] = None,
        counterparts: Optional[Counterparts] = None,
        no_match_reason: NoMatchReason = lambda name, index: "",
        request: DumpRequest = EVERYTHING,
    ) -> None:
        self.graph = graph
        self.request = request
        self._has_golden = has_golden
        self._has_golden_input = has_golden_input
        self._no_match_reason = no_match_reason
        self._groups = groups_of(graph) if graph is not None else None
        self._counterparts = counterparts
        if counterparts is None and graph is not None and self._groups is not None:
            self._counterparts = Counterparts(graph, self._groups, has_golden)
        self._unknown: Dict[str, int] = {}

    def use_counterparts(self, counterparts: Counterparts) -> None:
        """Use a cache of counterparts that is shared with other pairings of the same model."""
        self._counterparts = counterparts

    def number_unknown_ops(self, op_names: Iterable[str]) -> None:
        """Assign the Index of ops that are not in the model, in this order."""
        self._unknown.clear()
        for name in op_names:
            self._unknown.setdefault(name, len(self.groups) + len(self._unknown))

    def knows(self, op_name: str) -> bool:
        """Return whether the model has this op, or the op that it is a slice of."""
        return self.graph is not None and bool(
            self.graph.ops_named(op_name) or self._sliced_ops(op_name)[0]
        )

    @property
    def groups(self) -> Tuple[Group, ...]:
        """The groups in the order of their Index; empty without a model."""
        return self._groups.groups if self._groups is not None else ()

    def find(self, dumped: DumpedOp) -> Optional[OpNode]:
        """Return the op that a dump belongs to; None if it is unknown or ambiguous."""
        ops = self._candidates(dumped.op_name, dumped.op_type)
        return ops[0] if ops and all(op.name == ops[0].name for op in ops) else None

    def rows_for(self, dumped: DumpedOp) -> List[RowPlan]:
        """Return the rows of one dump file: inputs, then outputs; never empty.

        Takes time in proportion to the number of tensors; reads no folder.
        """
        if self.graph is None:
            return self._rows_by_name(dumped)
        op = self.find(dumped)
        if op is None:
            return self._rows_of_unknown(dumped)
        base = self._op_row(op)
        if op.inserted:
            return _tensor_rows(
                dumped, base, lambda kind, index: _of_own_input(dumped, kind, index)
            )
        missing = self._missing_outputs(op, dumped, base)
        if missing and not dumped.n_inputs and not dumped.n_outputs:
            return missing
        shared = self._op_counterpart(op)
        if shared is not None:
            return (
                _tensor_rows(dumped, base, lambda kind, index: shared, no_dump_reason(op)) + missing
            )
        return (
            _tensor_rows(
                dumped,
                base,
                lambda kind, index: self._counterpart(op, dumped, kind, index),
                no_dump_reason(op),
            )
            + missing
        )

    def _missing_outputs(self, op: OpNode, dumped: DumpedOp, base: RowPlan) -> List[RowPlan]:
        """Return a row for each output that the model declares and the dump lacks."""
        rows = []
        only_inputs = bool(dumped.n_inputs) and not dumped.n_outputs
        only_inputs = only_inputs and self.request.mode in (None, INPUT)
        for index in range(dumped.n_outputs, len(op.output_descs)):
            if op.output_descs[index] == TensorDesc():
                continue  # listed, but not connected
            counterpart = self._op_counterpart(op) or self._of_output(op, index)
            expected = only_inputs and counterpart.status in (PAIR, NOT_COMPARED)
            if expected:
                counterpart = replace(
                    counterpart, status=EXPECTED_ABSENT, reason=self._reason_only_inputs(op, index)
                )
            elif counterpart.status in (PAIR, NOT_COMPARED):
                reason = MISSING_OUTPUT % (len(op.output_descs), dumped.n_outputs)
                counterpart = replace(counterpart, status=NOT_COMPARED, reason=reason)
            row = _row_with(base, OUTPUT, index, counterpart)
            rows.append(replace(row, dumped=False, only_inputs=expected))
        return rows

    def _reason_only_inputs(self, op: OpNode, index: int) -> str:
        """Return why an output is not compared if the dump holds only the op's inputs."""
        readers = [
            "%s:input:%d" % (reader.name, number) for reader, number in self.readers(op, index)
        ]
        where = "it is seen where it is read, at %s" % listed(readers, 3)
        return "%s: %s" % (ONLY_INPUTS, where if readers else "nothing that is dumped reads it")

    def readers(self, op: OpNode, index: int) -> List[Tuple[OpNode, int]]:
        """Return (op, input number) of the readers of an output that should have a dump, in
        execution order.
        """
        if self.graph is None:
            return []
        readers = []
        for reader in sorted(self.graph.consumers(op, index), key=execution_key):
            if no_dump_reason(reader) is not None or self.request.excludes(reader):
                continue
            for number, source in enumerate(reader.inputs):
                if source is None or source[1] != index:
                    continue
                if self.graph.producer(reader, source[0]) is op:
                    readers.append((reader, number))
        return readers

    def dumped_input(self, op: OpNode, number: int, n_inputs: int) -> Optional[int]:
        """Return the index in a dump of the op's input ``number``; None if unknown."""
        sources = self._dumped_inputs(op, n_inputs)
        if isinstance(sources, str):
            return None
        return next(
            (place for place, (input_number, _) in enumerate(sources) if input_number == number),
            None,
        )

    def missing_output_row(self, dumped: DumpedOp, index: int) -> Optional[RowPlan]:
        """Return the row that an output which the dump lacks would have; None for an unknown op."""
        op = self.find(dumped)
        if op is None:
            return None
        return _row_with(
            self._op_row(op), OUTPUT, index, self._op_counterpart(op) or self._of_output(op, index)
        )

    def l1_group(self, dumped: DumpedOp) -> Optional[Tuple[int, str]]:
        """Return the L1 fusion group (graph number, group's number) of a dump's op, or None."""
        op = self.find(dumped)
        return (op.graph_index, op.l1_group) if op is not None and op.l1_group is not None else None

    def l1_selected(self, dumped: Sequence[DumpedOp]) -> List[DumpedOp]:
        """Return the dumps that get rows, in the given order.

        Of an L1 fusion group only the latest by timestamp does, and the earliest if its original
        names differ from the latest's.
        """
        members: Dict[Tuple[int, str], List[Tuple[int, int]]] = {}
        for number, item in enumerate(dumped):
            group = self.l1_group(item)
            if group is not None:
                members.setdefault(group, []).append((item.timestamp_us, number))
        left_out: Set[int] = set()
        for stamps in members.values():
            selected = {max(stamps)[1]}
            first = min(stamps)[1]
            if self._originals(dumped[first]) != self._originals(dumped[max(stamps)[1]]):
                selected.add(first)
            left_out.update(number for _, number in stamps if number not in selected)
        return [item for number, item in enumerate(dumped) if number not in left_out]

    def absent_rows(self, dumped_ops: Iterable[Union[str, DumpedOp]]) -> List[RowPlan]:
        """Return the rows of the ops that have no dump file, in the order of Index.

        Parameters
        ----------
        dumped_ops
            The ops that have one: their names, raw or sanitised, or the dumps, whose type
            distinguishes ops of the same sanitised name.

        Notes ----- A group has one such row if none of its members was dumped. Otherwise each other
        member has a row if it computes an original's output that no dumped member computes.
        """
        if self.graph is None or self._groups is None or self._counterparts is None:
            return []
        dumped = self._positions(dumped_ops)
        rows: List[RowPlan] = []
        absence = Absence(self.graph, self.request, dumped)
        for group in self._groups.incomplete(dumped):
            if any(op.position in dumped for op in group.ops):
                rows += self._missing_members(group, dumped, absence)
            else:
                rows.append(self._absent_row(group, absence))
        if self.graph.fx:
            rows = [
                replace(row, status=EXPECTED_ABSENT, reason=_MAYBE_FUSED)
                if row.status == NOT_COMPARED
                else row
                for row in rows
            ]
        return rows

    def dump_counts(
        self, dumped_ops: Iterable[str], is_relevant: Callable[[OpNode], bool] = lambda op: True
    ) -> Tuple[int, int]:
        """Return how many ops have a dump, and how many should have one and satisfy
        ``is_relevant``.

        ``dumped_ops``: names as the device writes them.
        """
        if self.graph is None:
            return 0, 0
        dumped = self._positions(dumped_ops)
        absence = Absence(self.graph, self.request, dumped)
        expected = [
            op.position
            for op in self.graph.ops
            if is_relevant(op) and (op.position in dumped or absence.reason(op) is None)
        ]
        return sum(position in dumped for position in expected), len(expected)

    def _positions(self, dumped_ops: Iterable[Union[str, DumpedOp]]) -> Set[int]:
        assert self.graph is not None
        positions: Set[int] = set()
        for item in dumped_ops:
            name = item if isinstance(item, str) else item.op_name
            ops = (
                self.graph.ops_dumped_as(name)
                if isinstance(item, str)
                else self._candidates(name, item.op_type)
            )
            positions.update(op.position for op in ops or self._sliced_ops(name)[0])
        return positions

    def _missing_members(self, group: Group, dumped: Set[int], absence: Absence) -> List[RowPlan]:
        """Return a row for each member without a dump whose golden data no dumped member is
        compared with.
        """
        covered = {
            golden for op in group.ops if op.position in dumped for golden in self._goldens_of(op)
        }
        rows = []
        for op in group.ops:
            if (
                op.position in dumped
                or op.type in FOLLOWING_TYPES
                or absence.reason(op) is not None
            ):
                continue
            if self._goldens_of(op) - covered:
                rows.append(
                    _row_with(
                        self._op_row(op),
                        OP,
                        None,
                        Counterpart(NOT_COMPARED, absence.missing_reason(op)),
                    )
                )
        return rows

    def _goldens_of(self, op: OpNode) -> Set[Tuple[str, int]]:
        """Return the golden tensors that the op's outputs are compared with."""
        assert self._counterparts is not None
        counterparts = [
            self._counterparts.of_output(op, index) for index in range(len(op.output_descs))
        ]
        return {
            (each.golden_op, each.golden_index or 0)
            for each in counterparts
            if each.status == PAIR and each.golden_op is not None
        }

    def _candidates(self, name: str, op_type: str) -> List[OpNode]:
        if self.graph is None:
            return []
        ops = self.graph.ops_dumped_as(name)
        if len(ops) > 1:
            of_type = [op for op in ops if sanitise_device(op.type) == sanitise_device(op_type)]
            ops = of_type or ops
        return ops

    def _originals(self, dumped: DumpedOp) -> Optional[Tuple[str, ...]]:
        op = self.find(dumped)
        return op.originals if op is not None else None

    def _op_row(self, op: OpNode) -> RowPlan:
        """Return the fields that all rows of an op share."""
        assert self._groups is not None
        group = self._groups.of(op)
        return RowPlan(
            NOT_COMPARED,
            index=group.index,
            op=op.name,
            op_type=op.type,
            tensor=op.name,
            op_sequence=op.id,
            graph_index=op.graph_index,
            group=group.names,
            golden=ground_truth(op, self._groups),
        )

    def _op_counterpart(self, op: OpNode) -> Optional[Counterpart]:
        """Return the counterpart that all tensors of an op share; None if each has its own."""
        assert self._counterparts is not None
        inner = self._counterparts.without_rows(op)
        if inner is not None:
            return Counterpart(OMITTED, inner)
        reason = self._counterparts.expected_absent(op)
        return Counterpart(EXPECTED_ABSENT, reason) if reason is not None else None

    def _counterpart(self, op: OpNode, dumped: DumpedOp, kind: str, index: int) -> Counterpart:
        if kind == OUTPUT:
            return self._of_output(op, index)
        if op.type == AIPP:
            return Counterpart(
                EXPECTED_ABSENT, "the image before AIPP: golden data are of what AIPP makes of it"
            )
        if is_dequant(op):
            return Counterpart(
                EXPECTED_ABSENT,
                "the input of a dequantising op is quantised: it has no counterpart in the "
                "golden model",
            )
        return self._of_input(op, index, dumped.n_inputs)

    def _of_output(self, op: OpNode, index: int) -> Counterpart:
        assert self._counterparts is not None
        if is_quant(op):
            return self._of_quantised(op)
        if op.output_descs and index >= len(op.output_descs):
            return Counterpart(
                NOT_COMPARED,
                "the model file gives this op %d outputs, the dump holds more"
                % len(op.output_descs),
            )
        counterpart = self._counterparts.of_output(op, index)
        if (
            counterpart.status == PAIR
            and op.type in FOLLOWING_TYPES
            and counterpart.golden_op not in op.originals
        ):
            note = "%s keeps the values of what precedes it: compared with %s:%s" % (
                op.type,
                counterpart.golden_op,
                counterpart.golden_index,
            )
            return with_reading_shape(counterpart, desc_at(op.output_descs, index)).noted(note)
        if counterpart.status == PAIR and op.type == AIPP:
            note = "what AIPP makes of an image: compared with the network's golden input %s:%s"
            return counterpart.noted(note % (counterpart.golden_op, counterpart.golden_index))
        return counterpart

    def _of_quantised(self, op: OpNode) -> Counterpart:
        """Return the counterpart of AscendQuant's output: that of its input, if scale and offset
        are known.
        """
        assert self._counterparts is not None
        text = "the output of AscendQuant is quantised: it has no counterpart in the golden model"
        number, source = next(
            ((number, source) for number, source in enumerate(op.inputs) if source is not None),
            (0, None),
        )
        if op.quantisation is None or source is None:
            return Counterpart(
                EXPECTED_ABSENT,
                text
                + (", and the model does not give scale and offset" if source is not None else ""),
            )
        counterpart = self._counterparts.of_input(op, number, source)
        if counterpart.status != PAIR:
            return Counterpart(EXPECTED_ABSENT, text)
        return replace(
            counterpart.noted(DEQUANTISED % op.quantisation), quantisation=op.quantisation
        )

    def _of_input(self, op: OpNode, index: int, n_inputs: int) -> Counterpart:
        """Return the counterpart of input ``index`` of a dump that holds ``n_inputs``."""
        assert self._counterparts is not None
        sources = self._dumped_inputs(op, n_inputs)
        if isinstance(sources, str):
            return Counterpart(NOT_COMPARED, sources)
        if index >= len(sources):
            return Counterpart(
                NOT_COMPARED,
                "the model file gives this op %d inputs, the dump holds %d"
                % (len(sources), n_inputs),
            )
        return self._counterparts.of_input(op, *sources[index])

    def _dumped_inputs(
        self, op: OpNode, n_inputs: int
    ) -> Union[str, Sequence[Tuple[int, Optional[Tuple[str, int]]]]]:
        """Return (number, source) of each input of a dump with ``n_inputs`` inputs, or why it is
        unknown.

        A dump lists either all inputs of the json or only the connected ones.
        """
        sources: Sequence[Tuple[int, Optional[Tuple[str, int]]]] = list(enumerate(op.inputs))
        connected = [(number, source) for number, source in sources if source is not None]
        if n_inputs != len(sources) and len(connected) != len(sources):
            if n_inputs != len(connected):
                text = (
                    "the dump holds %d inputs, the model file lists %d, of which %d are "
                    "connected: which is which cannot be told"
                )
                return text % (n_inputs, len(sources), len(connected))
            return connected
        return sources

    def _absent_row(self, group: Group, absence: Absence) -> RowPlan:
        """Return the row of a group without any dump: of its first member that should have one,
        else of its first member.
        """
        assert self._counterparts is not None
        first: Optional[Tuple[OpNode, str, str]] = None
        for op in group.ops:
            reason = absence.reason(op)
            uncomparable = self._counterparts.expected_absent(op)
            inner = self._counterparts.without_rows(op)
            if reason is not None:
                row = (op, EXPECTED_ABSENT, reason)
            elif uncomparable is not None:
                row = (op, EXPECTED_ABSENT, "no dump file; " + uncomparable)
            elif inner is not None:
                row = (op, OMITTED, "no dump file; " + inner)
            else:
                first = (op, NOT_COMPARED, absence.missing_reason(op))
                break
            first = first or row
        assert first is not None
        op, status, reason = first
        return _row_with(self._op_row(op), OP, None, Counterpart(status, reason))

    def _unknown_row(self, dumped: DumpedOp) -> RowPlan:
        index = self._unknown.setdefault(dumped.op_name, len(self.groups) + len(self._unknown))
        return RowPlan(
            NOT_COMPARED,
            index=index,
            op=dumped.op_name,
            op_type=dumped.op_type,
            tensor=dumped.op_name,
            group=(dumped.op_name,),
            golden="*" if self.graph is not None else dumped.op_name,
        )

    def _rows_of_unknown(self, dumped: DumpedOp) -> List[RowPlan]:
        """Return the rows of a dump whose op is not in the model; numbered after the json's ops in
        order of arrival.
        """
        several = self._candidates(dumped.op_name, dumped.op_type)
        whole, number = self._sliced_ops(dumped.op_name)
        if several:
            names = ", ".join(op.name for op in several[:3])
            text = "the name %s stands for %d ops of the model file (%s): which one cannot be told"
            reason = text % (dumped.op_name, len(several), names)
        elif whole:
            reason = "slice %s of %s: the parts of a sliced op are not put together" % (
                number,
                whole[0].name,
            )
        else:
            reason = "the op is not in the model file"
        known = several or whole
        base = (
            replace(self._op_row(known[0]), op=dumped.op_name, tensor=dumped.op_name)
            if known
            else self._unknown_row(dumped)
        )
        return _tensor_rows(dumped, base, lambda kind, index: Counterpart(NOT_COMPARED, reason))

    def _sliced_ops(self, name: str) -> Tuple[List[OpNode], Optional[int]]:
        """Return the ops whose slice has this name (FFTS+: ``{op}_lxslice{N}``), and N; ([], None)
        if it is no slice.
        """
        op, number = whole_name(name)
        if number is None or self.graph is None:
            return [], None
        return self.graph.ops_dumped_as(op), number

    def _rows_by_name(self, dumped: DumpedOp) -> List[RowPlan]:
        base = self._unknown_row(dumped)
        return _tensor_rows(
            dumped,
            base,
            lambda kind, index: self._by_name(dumped.op_name, kind, index),
            never_dumps(dumped.op_type),
        )

    def _by_name(self, name: str, kind: str, index: int) -> Counterpart:
        has = self._has_golden if kind == OUTPUT else self._has_golden_input
        if has is None:
            return Counterpart(
                NOT_COMPARED, "where an input comes from is not known without the model's json"
            )
        if has(name, index):
            return Counterpart(PAIR, "", name, index, golden_kind=kind)
        why = self._no_match_reason(name, index) if kind == OUTPUT else ""
        # Golden inputs are asked for where GOLDEN is another dump.
        lacks = "the other dump has no" if self._has_golden_input else "no golden data for"
        reason = "%s %s:%s:%d" % (lacks, name, kind, index) + (": " + why if why else "")
        return Counterpart(NOT_COMPARED, reason, name, index, golden_kind=kind)


def _of_own_input(dumped: DumpedOp, kind: str, index: int) -> Counterpart:
    """Return the counterpart of a tensor of a Cast or TransData that the compiler inserted: the
    input of the same index in the same dump.
    """
    if kind == INPUT:
        note = (
            "%s was put in by the compiler: what it reads stands for golden data, and is "
            "judged where it is made" % dumped.op_type
        )
        return Counterpart(PAIR, note, dumped.op_name, index, golden_kind=OWN_INPUT)
    if index >= dumped.n_inputs:
        return Counterpart(
            EXPECTED_ABSENT,
            "%s was put in by the compiler, and the dump does not hold what it reads"
            % dumped.op_type,
        )
    note = "%s was put in by the compiler: compared with what it reads" % dumped.op_type
    return Counterpart(PAIR, note, dumped.op_name, index, golden_kind=OWN_INPUT)


def _tensor_rows(
    dumped: DumpedOp,
    base: RowPlan,
    find: Callable[[str, int], Counterpart],
    silent: Optional[str] = None,
) -> List[RowPlan]:
    """Return one plan per tensor of a dump, or one about the op if the dump holds none (``silent``:
    why that is expected).
    """
    rows = [_row_with(base, INPUT, index, find(INPUT, index)) for index in range(dumped.n_inputs)]
    rows += [
        _row_with(base, OUTPUT, index, find(OUTPUT, index)) for index in range(dumped.n_outputs)
    ]
    if rows:
        return rows
    status, reason = (
        (NOT_COMPARED, "the dump file holds no tensor")
        if silent is None
        else (EXPECTED_ABSENT, silent)
    )
    return [_row_with(base, OP, None, Counterpart(status, reason))]


def _row_with(base: RowPlan, kind: str, index: Optional[int], counterpart: Counterpart) -> RowPlan:
    return changed(
        base,
        kind=kind,
        tensor=base.tensor if index is None else "%s:%s:%d" % (base.tensor, kind, index),
        tensor_index=index,
        **vars(counterpart),
    )
