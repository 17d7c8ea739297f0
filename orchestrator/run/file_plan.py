"""What one dump file comes to: pairs, rows, and what waits for golden data."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from ..base.fast_dataclasses import changed, dataclass
from ..dumps.dump_file import DumpFile
from ..dumps.dump_header import COMPLETE
from ..dumps.folder_listing import DumpEntry
from ..dumps.place import Place
from ..metrics.overwriting_and_cancellation import beside_of
from ..metrics.pair_task import PairTask, TensorPlace
from ..metrics.row import MISSING_CAUSES, Row
from ..model.row_plan import OP

UNREADABLE = "unreadable"


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

    tasks: Tuple[PairTask, ...] = ()
    rows: Tuple[Row, ...] = ()
    waiting: Tuple[Row, ...] = ()
    omitted: Tuple[Tuple[str, str], ...] = ()
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
                    beside=beside_of(dump, info, planned.op_type),
                )
            )
        return changed(
            self,
            tasks=tuple(tasks),
            rows=tuple(_row_at(row, where, dump) for row in self.rows),
            waiting=tuple(_row_at(row, where, dump) for row in self.waiting),
            # Headers of one form differ in length: addresses and times are of few or many bytes.
            expected_bytes=dump.expected_bytes,
        )


def _row_at(row: Row, where: Dict[str, Any], dump: DumpFile) -> Row:
    infos = () if row.kind == OP else dump.outputs if row.kind == "output" else dump.inputs
    index = row.tensor_index or 0
    address = infos[index].address if index < len(infos) else None
    return changed(row, address=address, **where)
