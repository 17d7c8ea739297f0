"""A dump file of any kind, opened: one file, the slices of an op joined, or statistics."""

from __future__ import annotations

from typing import Mapping, Optional, Union

from .container import DumpFile, TensorInfo
from .listing import DumpEntry
from .slices import JoinedDump
from .statistics import StatisticsDump

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
        info.kind == "input"
        and bool(info.address)
        and any(output.address == info.address for output in dump.outputs)
    )
