"""Tells whether the files of a large pair, which are read twice, changed while they were
compared.
"""

from __future__ import annotations

from typing import Dict, Iterable, Optional

from ..dumps.file_source import FileSource
from ..dumps.folder_listing import Signature, look_at
from ..dumps.slices import JoinedSource
from ..tensors.tensor import ByteSource
from .pair_task import PairTask
from .row import CHANGED, FAIL, NOT_COMPARED, PASS, Row

_TEXT = (
    "%s changed while it was compared, so its metrics may be those of two contents: compare again "
    "when nothing writes to it any more"
)

LEAST_BYTES = 64 << 10
"""What is smaller is read once: :func:`goldwatch.metrics.compare_blocks.compare_blocks` keeps its
numbers, at 16 bytes an element at most.
"""

FileStates = Dict[str, Optional[Signature]]


def file_states(task: PairTask) -> FileStates:
    """Return how the files of a pair look; nothing of a small one."""
    if task.nbytes < LEAST_BYTES:
        return {}
    return {path: look_at(path) for path in (*_paths(task.target.source), task.golden.path)}


def unless_changed(task: PairTask, before: FileStates, row: Row) -> Row:
    """Return a row that was compared, or the same as not compared where a file of the pair is
    another than before the first walk.
    """
    if row.verdict not in (PASS, FAIL):
        return row
    for path, state in before.items():
        now = look_at(path)
        # What was deleted is read to its end as it was.
        if now is not None and not now.is_file(state):
            types = {"target_dtype": row.target_dtype, "golden_dtype": row.golden_dtype}
            return task.row.noted(_TEXT % path, "", verdict=NOT_COMPARED, cause=CHANGED, **types)
    return row


def _paths(source: ByteSource) -> Iterable[str]:
    if isinstance(source, FileSource):
        return [source.path]
    return (
        [path for part in source.sources for path in _paths(part)]
        if isinstance(source, JoinedSource)
        else ()
    )
