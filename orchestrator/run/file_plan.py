"""What one dump file comes to: pairs, rows, and what waits for golden data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

from ..dumps.dump_header import COMPLETE
from ..fast_dataclasses import fast_init
from ..metrics.pair_task import PairTask
from ..metrics.row import Row

UNREADABLE = "unreadable"


@fast_init
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
