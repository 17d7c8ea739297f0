"""Overflow records beside the dumps: the ops that they name have overflowed."""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Optional, Set, Tuple

from ..dumps.container import DumpFile
from ..dumps.overflow import op_tasks, overflow_records, tasks_of
from ..dumps.place import place_of
from ..errors import GoldwatchError
from ..model.row_plan import OUTPUT
from ..naming import parse_dump_name
from ..wording import listed
from .catalogue import Catalogue
from .engine import Engine
from .target_file import TargetFile

_SHOWN = 5

# Stream and task of an op's dumps.
_Task = Tuple[Optional[int], Optional[int]]


def note_overflows(engine: Engine) -> List[str]:
    """Set OverFlow in the output rows of the ops that the records below TARGET name, and return what is to be said.

    Must be called inside a transaction of the store.
    """
    said: List[str] = []
    paths = list(_records(engine.catalogue))
    if not paths:
        return said
    tasks = _by_task(engine.catalogue)
    found: Dict[str, TargetFile] = {}
    for path in paths:
        try:
            records, problem = overflow_records(DumpFile.open(path))
        except (GoldwatchError, OSError) as error:
            records, problem = [], (getattr(error, "message", None) or str(error)).replace(path + ": ", "", 1)
        if problem is not None:
            said.append("overflow record %s: %s" % (engine.catalogue.rel(path), problem))
        place = place_of(os.path.dirname(path), set())
        for task in (task for record in records for task in tasks_of(record)):
            for key in op_tasks(*task):
                found.update((file.rel, file) for file in tasks.get(key, ()) if place.holds(file.place))
    marked = _mark(engine, set(found))
    if found:
        names = list(dict.fromkeys(file.op_name for file in found.values()))
        said.append("overflow records name %s" % listed(names, _SHOWN))
    engine.overflow_seen = engine.overflow_seen or bool(marked)
    return said


def _records(catalogue: Catalogue) -> Iterator[str]:
    """Yield the records in the folders of the dumps and above them, up to TARGET."""
    folders = set()
    for folder in catalogue.files.folders():
        while folder not in folders and (folder + os.sep).startswith(catalogue.root.rstrip(os.sep) + os.sep):
            folders.add(folder)
            folder = os.path.dirname(folder)
    for folder in sorted(folders):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            # Most names are of dumps: only what may be a record is parsed.
            if name[:7].lower() == "opdebug":
                parsed = parse_dump_name(name)
                if parsed is not None and parsed.kind == "overflow":
                    yield os.path.join(folder, name)


def _by_task(catalogue: Catalogue) -> Dict[_Task, List[TargetFile]]:
    tasks: Dict[_Task, List[TargetFile]] = {}
    for file in catalogue.files.each():
        name = file.entry().name
        tasks.setdefault((name.stream_id, name.task_id), []).append(file)
    return tasks


def _mark(engine: Engine, files: Set[str]) -> int:
    """Set OverFlow of the output rows of these files (relative to TARGET); return how many there are."""
    rows = [row for row in engine.store.rows("arrival") if row.target_file in files and row.kind == OUTPUT] if files else []
    engine.store.put_all([row.but(overflow=True) for row in rows if not row.overflow])
    return len(rows)
