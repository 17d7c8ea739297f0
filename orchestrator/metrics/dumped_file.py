"""What the planner asks of one opened dump file."""

from __future__ import annotations

import contextlib
from typing import Mapping, Optional, Tuple, Union

from ..dumps.container import DumpFile, TensorInfo
from ..dumps.listing import DumpEntry
from ..dumps.slices import JoinedDump
from ..dumps.statistics import StatisticsDump
from ..errors import NotComparable
from ..model.row_plan import INPUT, OUTPUT, DumpedOp
from ..tensors.tensor import Tensor
from .same_dump import keeps_values, may_cancel

AnyDump = Union[DumpFile, JoinedDump, StatisticsDump]


def open_dump(entry: DumpEntry, slices: Optional[Mapping[int, DumpEntry]]) -> AnyDump:
    """Open a dump file, or the files of an op's slices (by their numbers) as one; raises what
    :meth:`DumpFile.open` raises.
    """
    if entry.name.kind == "stats":
        return StatisticsDump(entry.path)
    if slices is None:
        return DumpFile.open(entry.path, partial=True)
    return JoinedDump(
        {number: DumpFile.open(part.path, partial=True) for number, part in slices.items()}
    )


def is_overwritten(dump: AnyDump, info: TensorInfo) -> bool:
    """Tell whether an input lies where an output of the same op lies, as of an op that works in
    place.
    """
    return (
        info.kind == INPUT
        and bool(info.address)
        and any(output.address == info.address for output in dump.outputs)
    )


def beside_of(dump: AnyDump, info: TensorInfo, op_type: str) -> Tuple[Tensor, ...]:
    """Return :attr:`PairTask.beside` of a tensor."""
    if info.kind == INPUT and not keeps_values(op_type):
        others = [other for other in dump.outputs if other.size_bytes == info.size_bytes]
    else:
        others = list(dump.inputs) if info.kind == OUTPUT and may_cancel(op_type) else []
    found = []
    for other in others:
        with contextlib.suppress(NotComparable):
            found.append(dump.tensor(other.kind, other.index))
    return tuple(found)


def dumped_op(entry: DumpEntry, dump: Optional[AnyDump]) -> DumpedOp:
    """Return what pairing knows of a dump file; one that cannot be opened has no tensors."""
    inputs, outputs = (len(dump.inputs), len(dump.outputs)) if dump is not None else (0, 0)
    return DumpedOp(
        entry.name.op_name,
        entry.name.op_type,
        entry.name.timestamp_us,
        inputs,
        outputs,
        entry.name.slice,
    )
