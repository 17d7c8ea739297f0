"""Runs ``compare-op``: from its pairs to its files."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, Tuple, cast

from ...base.atomic_writing import write_atomically
from ...base.errors import EXIT_BAD_INPUT, EXIT_FAIL, EXIT_INCOMPLETE, EXIT_PASS
from ...base.fast_dataclasses import dataclass
from ...base.pool import ProcessDied, Processes
from ...base.user_code import stop_user_code
from ...metrics.row import EXPECTED_ABSENT, FAIL, GOLDEN_MISSING, MISSING_CAUSES, NOT_COMPARED, PASS
from ...store.opening import make_folder
from .element_files import Written
from .tensor_detail import DetailSettings, TensorDetail, detail_of, not_compared
from .tensor_pairs import OpPairs

DETAIL_FILE = "detail.json"
_WORTH_PROCESSES = 2


@dataclass(frozen=True)
class OpDetail:
    """The result for one op.

    Attributes
    ----------
    op
        Its name.
    tensors
        Each of its tensors.
    exit_code
        As documented for every command.
    files
        What was written, relative to OUT, detail.json last.
    """

    op: str
    tensors: Tuple[TensorDetail, ...]
    exit_code: int
    files: Tuple[str, ...]

    def document(self) -> Dict[str, Any]:
        """Return detail.json."""
        return {"op": self.op, "tensors": [tensor.document for tensor in self.tensors]}


def compare_op(
    pairs: OpPairs,
    settings: DetailSettings,
    jobs: int = 1,
    allow_missing: bool = False,
    on_tensor: Callable[[int, int], None] = lambda done, total: None,
) -> OpDetail:
    """Compare every tensor of an op in detail and write the results.

    Parameters
    ----------
    jobs
        Processes that write the element files of a large tensor.
    allow_missing
        Tensors whose golden data or dumps are missing do not count as incomplete.
    on_tensor
        Called before each tensor with (number done, total).

    Raises
    ------
    OSError
        OUT cannot be written.
    """
    make_folder(settings.out)
    details: List[TensorDetail] = []
    try:
        for number, task in enumerate(pairs.tasks):
            on_tensor(number, len(pairs.tasks))
            details.append(
                detail_of(task, pairs.others, settings, lambda calls: _write_many(calls, jobs))
            )
    finally:
        stop_user_code()
    details += [not_compared(row) for row in pairs.rows]
    details.sort(
        key=lambda tensor: (
            tensor.row.op,
            tensor.row.kind,
            tensor.row.tensor_index or 0,
            tensor.row.tensor,
        )
    )
    files = [name for tensor in details for name in tensor.files]
    detail = OpDetail(
        pairs.op, tuple(details), _exit_code(details, allow_missing), (*files, DETAIL_FILE)
    )
    write_atomically(
        os.path.join(settings.out, DETAIL_FILE),
        (json.dumps(detail.document(), indent=1, allow_nan=False) + "\n").encode("ascii"),
    )
    return detail


def _exit_code(details: List[TensorDetail], allow_missing: bool) -> int:
    rows = [tensor.row for tensor in details]
    if any(row.verdict == FAIL for row in rows):
        return EXIT_FAIL
    incomplete = [
        row
        for row in rows
        if row.verdict == NOT_COMPARED and not (allow_missing and row.cause in MISSING_CAUSES)
    ]
    compared = any(row.verdict == PASS for row in rows)
    if not compared and any(row.verdict != EXPECTED_ABSENT for row in rows):
        # As compare: nothing has a counterpart at all.
        alone = all(row.cause == GOLDEN_MISSING for row in rows if row.verdict == NOT_COMPARED)
        return EXIT_BAD_INPUT if alone else EXIT_INCOMPLETE
    return EXIT_INCOMPLETE if incomplete else EXIT_PASS


def _write_many(calls: List[Tuple[Any, ...]], jobs: int) -> List[Written]:
    """Call each function with its arguments, in several processes where there are enough of them;
    return what they return, in order.
    """
    jobs = min(jobs, len(calls) // _WORTH_PROCESSES)
    if jobs < 2:
        return [function(*arguments) for function, *arguments in calls]
    processes = Processes(jobs)
    done = False
    try:
        processes.start(_ready)
        futures = [processes.submit(*call) for call in calls]
        written = [_result(future, call) for future, call in zip(futures, calls)]
        done = True
        return written
    finally:
        processes.close(now=not done)


def _ready() -> None:
    """Import everything that writing needs in a new worker process."""


def _result(future: Any, call: Tuple[Any, ...]) -> Written:
    """Return the result of a call; if its worker process died, it is computed here."""
    try:
        written: Written = future.result()
        return written
    except ProcessDied:
        function, *arguments = call
        return cast(Written, function(*arguments))
