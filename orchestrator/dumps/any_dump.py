"""Opens a dump of any kind: one file, the joined slices of an op, or statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Optional, Union

from .dump_file import DumpFile, TensorInfo
from .folder_listing import DumpEntry
from .slices import JoinedDump

if TYPE_CHECKING:
    from .statistics_dump import StatisticsDump

    AnyDump = Union[DumpFile, JoinedDump, StatisticsDump]


def open_dump(entry: DumpEntry, slices: Optional[Mapping[int, DumpEntry]]) -> AnyDump:
    """Open a dump file, or the files of an op's slices (by slice number) as one; raises as
    :meth:`DumpFile.open`.
    """
    if entry.name.kind == "stats":
        from .statistics_dump import StatisticsDump

        return StatisticsDump(entry.path)
    if slices is None:
        return DumpFile.open(entry.path, partial=True)
    return JoinedDump(
        {number: DumpFile.open(part.path, partial=True) for number, part in slices.items()}
    )


def is_overwritten(dump: AnyDump, info: TensorInfo) -> bool:
    """Return whether an input has the address of an output of the same op (an in-place op)."""
    return (
        info.kind == "input"
        and bool(info.address)
        and any(output.address == info.address for output in dump.outputs)
    )
