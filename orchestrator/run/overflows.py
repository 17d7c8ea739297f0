"""Overflow records beside the dumps: the ops that they name have overflowed."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from ..base.errors import GoldwatchError
from ..base.notes import Note, note
from ..base.wording import listed
from ..dumps.dump_file import DumpFile
from ..dumps.folder_listing import DumpEntry
from ..dumps.place import place_of
from ..model.row_plan import OUTPUT
from .dump_catalogue import Catalogue
from .engine import Engine
from .target_file import TargetFile

_SHOWN = 5

# Stream and task of an op's dumps.
_Task = Tuple[Optional[int], Optional[int]]


def note_overflows(engine: Engine, files: Iterable[DumpEntry]) -> List[Note]:
    """Set OverFlow in the output rows of the ops that records below TARGET name, and return what is
    to be said.

    Must be called inside a transaction of the store.

    Parameters
    ----------
    files
        Those in the folders of the dumps and above them, up to TARGET, count.
    """
    notes: List[Note] = []
    paths = {os.path.join(engine.catalogue.root, entry.rel): entry for entry in files}
    folders = _record_folders(engine.catalogue) if paths else set()
    tasks: Dict[_Task, List[TargetFile]] = {}
    overflowing: Dict[str, TargetFile] = {}
    for path in sorted(paths, key=os.path.split):
        if os.path.dirname(path) not in folders:
            continue
        records, problem = _records(paths[path])
        if problem is not None:
            notes.append(note("overflow-record", paths[path].rel, problem))
        place, tasks = place_of(os.path.dirname(path), set()), tasks or _by_task(engine.catalogue)
        for record in records:
            from ..dumps.overflow_records import op_tasks, tasks_of

            for key in (key for task in tasks_of(record) for key in op_tasks(*task)):
                overflowing.update(
                    (file.rel, file) for file in tasks.get(key, ()) if place.holds(file.place)
                )
    marked = _mark(engine, set(overflowing))
    if overflowing:
        names = list(dict.fromkeys(file.op_name for file in overflowing.values()))
        notes.append(note("overflows", listed(names, _SHOWN)))
    engine.overflow_seen = engine.overflow_seen or bool(marked)
    return notes


def _record_folders(catalogue: Catalogue) -> Set[str]:
    """Return the folders of the dumps and those above them, up to TARGET."""
    folders = set()
    for folder in catalogue.files.folders():
        while folder not in folders and (folder + os.sep).startswith(
            catalogue.root.rstrip(os.sep) + os.sep
        ):
            folders.add(folder)
            folder = os.path.dirname(folder)
    return folders


def _records(entry: DumpEntry) -> Tuple[List[Dict[str, Any]], Optional[str]]:
    from ..dumps.overflow_records import overflow_records

    try:
        return overflow_records(DumpFile.open(entry.path))
    except (GoldwatchError, OSError) as error:
        message = getattr(error, "message", None) or str(error)
        return [], message.replace(entry.path + ": ", "", 1)


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
