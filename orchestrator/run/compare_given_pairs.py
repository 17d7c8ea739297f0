"""Compares pairs that the caller has planned, all before the first is compared, and stores them
with its other rows.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..dumps.folder_listing import Signature
from ..dumps.golden_set import GoldenSet
from ..dumps.place import Place
from ..metrics.pair_task import PairTask
from ..metrics.row import Row
from .compare_folders import WORTH_BYTES, Session
from .engine import Engine
from .progress import OnProgress
from .rows_at_the_end import finish_rows
from .tensor_planner import FilePlan
from .tensor_reader import RunReader
from .whole_run import Run


def begin_given_pairs(run: Run, golden: GoldenSet, tasks: Sequence[PairTask]) -> None:
    """Set golden data and known pairs of a run, which are read again for explanations."""
    run.reader = _GivenPairReader(run.engine, tasks)
    run.goldens.take(golden)
    run.prepare_rows()


class _GivenPairReader(RunReader):
    """Reads pairs again without planning their files; these are no dumps of a model whose file
    could be younger.
    """

    def __init__(self, engine: Engine, tasks: Sequence[PairTask]) -> None:
        super().__init__(engine)
        self._tasks = {(task.row.target_file, task.row.tensor): task for task in tasks}

    def task(self, target_file: str, tensor: str) -> Optional[PairTask]:
        """Return a pair by its file's name in the rows."""
        return self._tasks.get((target_file, tensor))

    def age(self, target_file: str, place: Place) -> str:
        """Return nothing."""
        return ""


def compare_given_pairs(
    engine: Engine,
    tasks: Sequence[PairTask],
    rows: Sequence[Row],
    on_progress: OnProgress,
    looks: Mapping[str, Optional[Signature]],
    omitted: Sequence[Tuple[str, str]] = (),
    models: Sequence[str] = (),
) -> None:
    """Compare pairs and store their rows, and those that are known without; all other rows are
    taken out of the store.

    Parameters
    ----------
    looks
        How each target file looked before it was read, by its name in the rows: the rows of others
        do not hold at a later start.
    omitted
        (tensor, reason) of tensors that have no row.
    models
        As for :meth:`goldwatch.run.engine.Engine.continue_store`.
    """
    engine.places.settled = True
    engine.continue_store(False, models)
    of_file: Dict[str, Tuple[List[PairTask], List[Row]]] = {}
    for task in tasks:
        of_file.setdefault(task.row.target_file or "", ([], []))[0].append(task)
    for row in rows:
        of_file.setdefault(row.target_file or "", ([], []))[1].append(row)
    _, absent = of_file.pop("", ([], []))
    with engine.store.transaction():
        for tensor, reason in omitted:
            engine.store.events.omit(tensor, reason)
        for pairs, known in of_file.values():
            file = engine.take(known[0] if known else pairs[0].row)
            signature = looks.get(file.rel)
            if signature is not None:
                file.change(signature)
            engine.accept(file, FilePlan(pairs, known))
    worth = sum(task.nbytes for task in tasks) // WORTH_BYTES
    if worth > 1:
        engine.workers.start(most=worth)
    else:
        engine.workers.jobs = 1
    Session(engine, on_progress).compare_queued()
    finish_rows(engine, absent=absent)
