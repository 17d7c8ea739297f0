"""What a device recorded in one step: the dump file of each op, opened once for its header."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

from ..comparing.dumped_file import dumped_op, is_overwritten
from ..comparing.same_dump import keeps_values, same_bytes
from ..dumps.container import DumpFile
from ..dumps.header import COMPLETE, size_error
from ..dumps.listing import DumpEntry
from ..dumps.tree import Combo, op_key
from ..errors import GoldwatchError, InputError, NotComparable
from ..model.graph import ModelGraph
from ..model.nodes import OpNode
from ..model.pairing import Pairing
from ..model.row_plan import DumpedOp
from ..tensors.tensor import Tensor


class OpDump(NamedTuple):
    """The dump of one op that counts; ``dump`` is None where it cannot be read, and ``problem`` says why."""

    entry: DumpEntry
    dump: Optional[DumpFile]
    dumped: DumpedOp
    problem: str = ""


class Recorded:
    """The dumps of one step.

    Parameters
    ----------
    combo
        Its folder.
    graph
        The model that ran.
    pairing
        Tells the op of a file.

    Attributes
    ----------
    files
        The files that count, in the order of their timestamps; the newest of each op.
    """

    def __init__(self, combo: Combo, graph: ModelGraph, pairing: Pairing) -> None:
        newest = {op_key(entry.name): entry for entry in sorted(combo.files, key=lambda entry: (entry.name.timestamp_us, entry.rel))}
        self.files: List[OpDump] = []
        self._of: Dict[int, OpDump] = {}
        for entry in sorted(newest.values(), key=lambda entry: (entry.name.timestamp_us, entry.rel)):
            found = _opened(entry)
            self.files.append(found)
            op = pairing.find(found.dumped)
            if op is not None:
                self._of[op.position] = found
        if not self._of:
            shown = ", ".join(file.dumped.op_name for file in self.files[:3])
            raise InputError(
                "none of TARGET's ops (%s …) is in %s" % (shown, graph.path), hint="give the json of the model that was dumped"
            )

    def of(self, op: OpNode) -> Optional[OpDump]:
        """Return the dump of an op, or None."""
        return self._of.get(op.position)

    def output(self, op: OpNode, index: int) -> Optional[Tensor]:
        """Return an output of an op as it was recorded; None where it was not."""
        found = self.of(op)
        if found is None or found.dump is None or index >= len(found.dump.outputs):
            return None
        return _tensor(found.dump, "output", index)

    def input(self, op: OpNode, index: int) -> Tuple[Optional[Tensor], bool]:
        """Return input ``index`` of an op as its own dump holds it, and whether it is what came in.

        An op that works in place leaves its output there: the tensor is then not what came in. None where the dump does not hold it.
        """
        found = self.of(op)
        if found is None or found.dump is None:
            return None, False
        dump, place = found.dump, index
        connected = [number for number, source in enumerate(op.inputs) if source is not None]
        if len(dump.inputs) != len(op.inputs):
            if len(dump.inputs) != len(connected) or index not in connected:
                return None, False
            place = connected.index(index)
        tensor = _tensor(dump, "input", place)
        if tensor is None:
            return None, False
        return tensor, not is_overwritten(dump, dump.inputs[place]) and not self._equals_output(op, dump, tensor)

    def _equals_output(self, op: OpNode, dump: DumpFile, tensor: Tensor) -> bool:
        if keeps_values(op.type):
            return False
        outputs = (_tensor(dump, "output", index) for index in range(len(dump.outputs)))
        return any(output is not None and same_bytes(tensor.source, output.source) for output in outputs)


def _opened(entry: DumpEntry) -> OpDump:
    try:
        dump = DumpFile.open(entry.path, partial=True)
    except (GoldwatchError, OSError) as error:
        return OpDump(entry, None, dumped_op(entry, None), getattr(error, "message", str(error)))
    problem = "" if dump.state == COMPLETE else size_error(dump.path, dump.state, dump.expected_bytes, dump.actual_bytes).message
    return OpDump(entry, None if problem else dump, dumped_op(entry, dump), problem)


def _tensor(dump: DumpFile, kind: str, index: int) -> Optional[Tensor]:
    try:
        return dump.tensor(kind, index)
    except NotComparable:
        return None
