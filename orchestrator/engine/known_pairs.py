"""Pairs that are all known before the first is compared: a source of a run hands them to the engine, file by file."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..comparing.file_plan import FilePlan
from ..comparing.pair_task import PairTask
from ..comparing.row import Row
from ..verdict.explaining import TensorReader
from .closing import finish_rows
from .comparers import WORTH_BYTES, drain
from .comparison import Run
from .progress import OnProgress
from .signature import Signature


def compare_known(
    run: Run,
    tasks: Sequence[PairTask],
    rows: Sequence[Row],
    looks: Mapping[str, Optional[Signature]],
    on_progress: OnProgress,
    omitted: Sequence[Tuple[str, str]] = (),
    models: Sequence[str] = (),
) -> None:
    """Compare pairs and store their rows, and those that are known without; no element is read again for explanations.

    Parameters
    ----------
    looks
        How each target file looked before it was read, by its name in the rows.
    omitted
        (tensor, reason) of tensors that have no row.
    models
        As for :meth:`goldwatch.engine.engine.Engine.continue_store`.
    """
    engine = run.engine
    # None of the files needs a dump's name: what would look into it is not asked.
    run.reader, run.overflow_files = TensorReader(), list
    engine.places.settled = True
    engine.continue_store(False, models)
    of_file: Dict[Optional[str], Tuple[List[PairTask], List[Row]]] = {}
    for task in tasks:
        of_file.setdefault(task.row.target_file, ([], []))[0].append(task)
    for row in rows:
        of_file.setdefault(row.target_file, ([], []))[1].append(row)
    _, absent = of_file.pop(None, ([], []))
    with run.store.transaction():
        for tensor, reason in omitted:
            run.store.events.omit(tensor, reason)
        for name, (pairs, known) in of_file.items():
            file = engine.take(name or "", [*known, *(task.row for task in pairs)][0].op)
            found = looks.get(file.rel)
            if found is not None:
                file.change(found)
            engine.accept(file, FilePlan(tuple(pairs), tuple(known)))
    worth = sum(task.nbytes for task in tasks) // WORTH_BYTES
    if worth > 1:
        run.workers.start(most=worth)
    else:
        run.workers.jobs = 1
    drain(engine, on_progress)
    finish_rows(engine, absent=absent)
