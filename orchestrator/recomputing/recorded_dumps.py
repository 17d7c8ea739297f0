"""The dump files of one step by op, each opened once for its header."""

from __future__ import annotations

from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ..base.errors import GoldwatchError, InputError, NotComparable
from ..base.naming import whole_name
from ..dumps.dump_file import TensorInfo
from ..dumps.dump_header import COMPLETE, size_error
from ..dumps.dump_tree import StepFolder, newest_files
from ..dumps.folder_listing import DumpEntry
from ..dumps.slices import files_by_number, is_overwritten, open_dump
from ..metrics.overwriting_and_cancellation import keeps_values, same_bytes
from ..model.graph import ModelGraph
from ..model.never_dumped import INPUT_TYPES
from ..model.op_node import OpNode
from ..model.outputs_in_readers import ListedDumps, OutputsInReaders
from ..model.pairing import Pairing
from ..model.row_plan import DumpedOp, dumped_op
from ..tensors.tensor import Tensor

if TYPE_CHECKING:
    from ..dumps.slices import AnyDump


class OpDump(NamedTuple):
    """The dump of one op (for FFTS+ slices all files joined); ``problem`` says why ``dump`` is
    None."""

    entry: DumpEntry
    dump: Optional[AnyDump]
    dumped: DumpedOp
    problem: str = ""


class RecordedStep:
    """The dumps of one step; each is opened when it is asked for.

    Parameters
    ----------
    step_folder
        Its folder.
    graph
        The model that ran.
    pairing
        Tells the op of a file.
    """

    def __init__(self, step_folder: StepFolder, graph: ModelGraph, pairing: Pairing) -> None:
        self._pairing, self._graph = pairing, graph
        self._neighbours = ListedDumps(step_folder.files)
        # The newest file of each op, or those of its slices, by timestamp.
        self._entries = newest_files(step_folder.files, graph.whole_op)
        self._opened: Dict[int, OpDump] = {}
        self._of: Dict[int, int] = {}
        unknown = []
        for number, entries in enumerate(self._entries):
            dumped = _dumped_op(entries, None)
            op = pairing.find(dumped)
            if op is not None:
                self._of[op.position] = number
            else:
                unknown.append(dumped.op_name)
        if 2 * len(unknown) > len(self._entries):
            message = "%d of TARGET's %d ops are not in %s (%s is not)" % (
                len(unknown),
                len(self._entries),
                graph.path,
                unknown[0],
            )
            raise InputError(message, hint="give the json of the model that was dumped")

    @property
    def files(self) -> List[OpDump]:
        """The newest file of each op, by timestamp."""
        return [self._open(number) for number in range(len(self._entries))]

    def _open(self, number: int) -> OpDump:
        if number not in self._opened:
            self._opened[number] = _open_op_dump(self._entries[number])
        return self._opened[number]

    def of(self, op: OpNode) -> Optional[OpDump]:
        """Return the dump of an op, or None."""
        number = self._of.get(op.position)
        return None if number is None else self._open(number)

    def output(self, op: OpNode, index: int) -> Optional[Tensor]:
        """Return the recorded output of an op; None if it was not recorded."""
        holder = self.holder(op, index)
        return None if holder is None else _tensor(holder[0], holder[1].kind, holder[1].index)

    def holder(self, op: OpNode, index: int) -> Optional[Tuple[AnyDump, TensorInfo]]:
        """Return the dump that holds an output and the tensor's kind and index there, or None.

        It is the op's own, or, where that holds inputs only, one of an op that reads the output.
        """
        op_dump = self.of(op)
        if op_dump is None or op_dump.dump is None:
            return None
        elsewhere = self._elsewhere(op, op_dump)
        if elsewhere is not None:
            other_output = elsewhere.output(index)
            return None if other_output is None else (other_output.dump, other_output.info)
        return (
            (op_dump.dump, op_dump.dump.outputs[index])
            if index < len(op_dump.dump.outputs)
            else None
        )

    def _elsewhere(self, op: OpNode, op_dump: OpDump) -> Optional[OutputsInReaders]:
        if (
            op_dump.dump is None
            or op_dump.dump.outputs
            or not op_dump.dump.inputs
            or not op.output_descs
        ):
            return None
        return OutputsInReaders(self._pairing, self._neighbours, op_dump.entry.rel, op)

    def input(self, op: OpNode, index: int) -> Tuple[Optional[Tensor], bool]:
        """Return input ``index`` of an op as its own dump holds it, and whether it is what came in.

        An op that works in place leaves its output there: the tensor is then not what came in. An
        input of the network lies in the caller's memory, into which no op writes: its bytes equal
        an output's only where its values do. None where the dump does not hold it.
        """
        op_dump = self.of(op)
        if op_dump is None or op_dump.dump is None:
            return None, False
        dump, place = op_dump.dump, op.place_in_dump(index, len(op_dump.dump.inputs))
        if place is None:
            return None, False
        tensor = _tensor(dump, "input", place)
        if tensor is None:
            return None, False
        elsewhere = self._elsewhere(op, op_dump)
        info = dump.inputs[place]
        if is_overwritten(dump, info) or (elsewhere is not None and elsewhere.overwrites(info)):
            return tensor, False
        source = op.inputs[index]
        producer = self._graph.producer(op, source[0]) if source is not None else None
        if producer is not None and producer.type in INPUT_TYPES:
            return tensor, True
        return tensor, not self._equals_output(op, dump, info, tensor)

    def _equals_output(self, op: OpNode, dump: AnyDump, info: TensorInfo, tensor: Tensor) -> bool:
        if keeps_values(op.type):
            return False
        # Decided by addresses if present: the change of values may be too small to see.
        addresses_known = [bool(info.address and output.address) for output in dump.outputs]
        outputs = (
            _tensor(dump, "output", index)
            for index, has_address in enumerate(addresses_known)
            if not has_address
        )
        return any(
            output is not None and same_bytes(tensor.source, output.source) for output in outputs
        )


def _dumped_op(entries: Sequence[DumpEntry], dump: Optional[AnyDump]) -> DumpedOp:
    dumped = dumped_op(entries[0], dump)
    op_name, number = whole_name(dumped.op_name)
    return dumped if len(entries) == 1 or number is None else replace(dumped, op_name=op_name)


def _open_op_dump(entries: Sequence[DumpEntry]) -> OpDump:
    entry = entries[0]
    sliced = len(entries) > 1
    try:
        dump = open_dump(entry, files_by_number(entries) if sliced else None)
    except (GoldwatchError, OSError) as error:
        why = getattr(error, "message", str(error))
        return OpDump(entry, None, _dumped_op(entries, None), why)
    dumped = _dumped_op(entries, dump)
    problem = (
        ""
        if dump.state == COMPLETE
        else size_error(dump.path, dump.state, dump.expected_bytes, dump.actual_bytes).message
    )
    return OpDump(entry, None if problem else dump, dumped, problem)


def _tensor(dump: AnyDump, kind: str, index: int) -> Optional[Tensor]:
    try:
        return dump.tensor(kind, index)
    except NotComparable:
        return None
