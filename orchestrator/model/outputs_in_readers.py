"""Finds the outputs of an op whose dump holds inputs only (``dump_mode`` ``input``) among the
dumped inputs of the ops that read them.

A dump is written after its op has run: an input of an in-place op holds what that op wrote there.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ..base.errors import GoldwatchError
from ..base.naming import sanitise_device
from ..dumps.dump_file import TensorInfo
from ..dumps.dump_header import COMPLETE
from ..dumps.folder_listing import DumpEntry
from ..dumps.slices import open_dump
from .op_node import OpNode
from .pairing import Pairing

if TYPE_CHECKING:
    from ..dumps.slices import AnyDump

if TYPE_CHECKING or sys.version_info >= (3, 8):
    from typing import Protocol
else:
    Protocol = object


class OtherDumps(Protocol):
    """The dumps of one place."""

    @property
    def settled(self) -> bool:
        """Whether no more dumps will arrive."""

    def neighbour(self, target_file: str, op: OpNode) -> Optional[DumpEntry]:
        """Return the dump of another op at the place of ``target_file``; None if there is none
        yet."""


class ListedDumps:
    """The dumps of one place after all have arrived: the newest of each op.

    Parameters
    ----------
    entries
        The files.
    """

    settled = True

    def __init__(self, entries: Iterable[DumpEntry]) -> None:
        self._newest: Dict[Tuple[str, str], DumpEntry] = {}
        for entry in sorted(entries, key=lambda entry: entry.name.timestamp_us):
            if entry.name.slice is None:
                self._newest[entry.name.op_type, entry.name.op_name] = entry

    def neighbour(self, target_file: str, op: OpNode) -> Optional[DumpEntry]:
        """Return the dump of an op."""
        return self._newest.get((sanitise_device(op.type), sanitise_device(op.name)))


class OutputInReader(NamedTuple):
    """An output, held by a reader's dump: the reader, the tensor's name in rows, the dump and its
    input.
    """

    reader: OpNode
    tensor: str
    dump: AnyDump
    info: TensorInfo


class OutputsInReaders:
    """The outputs of one op, read from the dumps of the ops that read them.

    Parameters
    ----------
    pairing
        Of the model.
    neighbours
        The other dumps of the place.
    target_file
        The op's own dump, by its name in rows.
    op
        The op.
    """

    def __init__(
        self, pairing: Pairing, neighbours: OtherDumps, target_file: str, op: OpNode
    ) -> None:
        self._pairing = pairing
        self._neighbours = neighbours
        self._file = target_file
        self._op = op

    def output(self, index: int) -> Optional[OutputInReader]:
        """Return an output from the first reader that does not overwrite it; None if there is
        none."""
        for output, reader in self._held_by_readers(self._op, index):
            if not self._is_overwritten(reader, output.info):
                return output
        return None

    @property
    def settled(self) -> bool:
        """Whether no more dumps will arrive."""
        return self._neighbours.settled

    def is_read(self, index: int) -> bool:
        """Return whether an op that should have a dump reads the output."""
        return bool(self._pairing.readers(self._op, index))

    def overwrites(self, info: TensorInfo) -> bool:
        """Return whether the op wrote its output into the memory of this input."""
        return self._is_overwritten(self._op, info)

    def _is_overwritten(self, op: OpNode, info: TensorInfo) -> bool:
        if not info.address:
            return False
        outputs = [
            output
            for index in range(len(op.output_descs))
            for output, _ in self._held_by_readers(op, index)
        ]
        return any(output.info.address == info.address for output in outputs)

    def _held_by_readers(self, op: OpNode, index: int) -> List[Tuple[OutputInReader, OpNode]]:
        outputs = []
        for reader, number in self._pairing.readers(op, index):
            entry = self._neighbours.neighbour(self._file, reader)
            dump = None if entry is None else _complete_dump(entry)
            place = (
                None
                if dump is None
                else self._pairing.dumped_input(reader, number, len(dump.inputs))
            )
            if dump is not None and place is not None and place < len(dump.inputs):
                outputs.append(
                    (
                        OutputInReader(
                            reader, "%s:input:%d" % (reader.name, place), dump, dump.inputs[place]
                        ),
                        reader,
                    )
                )
        return outputs


def _complete_dump(entry: DumpEntry) -> Optional[AnyDump]:
    """Open a dump; None if it is incomplete or unreadable."""
    try:
        dump = open_dump(entry, None)
    except (GoldwatchError, OSError):
        return None
    return dump if dump.state == COMPLETE else None
