"""Overflow records beside the dumps: the ops that they name have overflowed."""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..base.errors import GoldwatchError
from ..base.naming import parse_dump_name
from ..base.notes import Note, note
from ..base.wording import listed
from ..dumps.dump_file import DumpFile
from ..dumps.place import place_of
from ..model.row_plan import OUTPUT
from .dump_catalogue import Catalogue
from .engine import Engine
from .target_file import TargetFile

_SHOWN = 5

# Stream and task of an op's dumps.
_Task = Tuple[Optional[int], Optional[int]]


class OverflowFile(NamedTuple):
    """What a file of overflow records says.

    Attributes
    ----------
    rel
        Its path, relative to TARGET.
    tasks
        The (stream_id, task_id) that its records name.
    problem
        What is wrong with it; None when nothing is.
    """

    rel: str
    tasks: Tuple[Tuple[int, int], ...]
    problem: Optional[str]


def note_overflows(engine: Engine, files: Iterable[OverflowFile]) -> List[Note]:
    """Set OverFlow in the output rows of the ops that records name, and return what is to be said.

    Must be called inside a transaction of the store.

    Parameters
    ----------
    files
        Those in the folders of the dumps and above them, up to TARGET, by their names; others are
        passed over.
    """
    notes: List[Note] = []
    folders, root = record_folders(engine.catalogue), engine.catalogue.root
    records = [
        record for record in files if os.path.dirname(os.path.join(root, record.rel)) in folders
    ]
    if not records:
        return notes
    tasks = _by_task(engine.catalogue)
    overflowing: Dict[str, TargetFile] = {}
    for record in records:
        if record.problem is not None:
            notes.append(note("overflow-record", record.rel, record.problem))
        place = place_of(os.path.dirname(os.path.join(root, record.rel)), set())
        for task in record.tasks:
            from ..dumps.overflow_records import op_tasks

            for key in op_tasks(*task):
                overflowing.update(
                    (file.rel, file) for file in tasks.get(key, ()) if place.holds(file.place)
                )
    marked = _mark(engine, set(overflowing))
    if overflowing:
        names = list(dict.fromkeys(file.op_name for file in overflowing.values()))
        notes.append(note("overflows", listed(names, _SHOWN)))
    engine.overflow_seen = engine.overflow_seen or bool(marked)
    return notes


def record_folders(catalogue: Catalogue) -> Set[str]:
    """Return the folders of the dumps and those above them, up to TARGET."""
    folders = set()
    for folder in catalogue.files.folders():
        while folder not in folders and (folder + os.sep).startswith(
            catalogue.root.rstrip(os.sep) + os.sep
        ):
            folders.add(folder)
            folder = os.path.dirname(folder)
    return folders


def overflow_files(catalogue: Catalogue) -> List[OverflowFile]:
    """Return the overflow files in :func:`record_folders`, as they are on this machine."""
    return [
        record
        for folder in sorted(record_folders(catalogue))
        for record in overflow_files_in(folder, catalogue.rel(folder))
    ]


def overflow_files_in(folder: str, rel: str) -> List[OverflowFile]:
    """Return the overflow files in a folder, by their names; none where it cannot be listed.

    Parameters
    ----------
    rel
        The folder's path relative to TARGET.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    records = []
    for name in names:
        # Most names are of dumps: only what may be a record is parsed.
        parsed = parse_dump_name(name) if name[:7].lower() == "opdebug" else None
        if parsed is not None and parsed.kind == "overflow":
            records.append(_read(os.path.join(folder, name), os.path.join(rel, name)))
    return records


def _read(path: str, rel: str) -> OverflowFile:
    from ..dumps.overflow_records import overflow_records, tasks_of

    try:
        records, problem = overflow_records(DumpFile.open(path))
    except (GoldwatchError, OSError) as error:
        records, problem = (
            [],
            (getattr(error, "message", None) or str(error)).replace(path + ": ", "", 1),
        )
    return OverflowFile(
        rel, tuple(task for record in records for task in tasks_of(record)), problem
    )


def _by_task(catalogue: Catalogue) -> Dict[_Task, List[TargetFile]]:
    tasks: Dict[_Task, List[TargetFile]] = {}
    for file in catalogue.files.each():
        name = file.entry().name
        tasks.setdefault((name.stream_id, name.task_id), []).append(file)
    return tasks


def _mark(engine: Engine, files: Set[str]) -> int:
    """Set OverFlow of the output rows of these files (relative to TARGET); return how many there
    are.
    """
    rows = (
        [
            row
            for row in engine.store.rows("arrival")
            if row.target_file in files and row.kind == OUTPUT
        ]
        if files
        else []
    )
    engine.store.put_all([row.but(overflow=True) for row in rows if not row.overflow])
    return len(rows)
