"""A run in progress: files are planned, their pairs compared, and rows stored as they are known."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from typing import Callable, Deque, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ..compare.file_planner import FilePlan, Planner
from ..compare.pair import PairTask
from ..compare.row import FAIL, PASS, Row
from ..compare.workers import Workers
from ..dumps.golden import GoldenSet
from ..dumps.listing import DumpEntry
from ..dumps.place import Place
from ..model.graph import ModelGraph
from ..results.rowsql import row_key
from ..results.store import RunStore
from .options import ComparisonOptions

OnRow = Callable[[Row], None]

_BATCH_BYTES = 4 << 20
_BATCH_TASKS = 64
Group = List[PairTask]


@dataclass
class Progress:
    """How far a run is; sizes in bytes."""

    pairs: int = 0
    pairs_done: int = 0
    bytes_done: int = 0
    failed: int = 0


@dataclass
class _PlaceFiles:
    planner: Planner
    entries: Dict[str, DumpEntry] = field(default_factory=dict)


class Session:
    """The rows of one run, whatever order the files come in.

    Parameters
    ----------
    store
        Where rows go; open for writing.
    workers
        The processes that compare.
    on_row
        Called with each row that has just been stored.
    """

    def __init__(
        self,
        options: ComparisonOptions,
        golden: GoldenSet,
        graph: Optional[ModelGraph],
        store: RunStore,
        workers: Workers,
        on_row: Optional[OnRow] = None,
    ) -> None:
        self.options = options
        self.golden = golden
        self.graph = graph
        self.store = store
        self.workers = workers
        self.on_row = on_row
        self.progress = Progress()
        self.keys: Set[str] = set()
        self._selection = options.selection(graph)
        self._places: Dict[Place, _PlaceFiles] = {}
        self._groups: Deque[Group] = deque()
        self._by_golden: Dict[Tuple[str, str, int], Group] = {}
        self._signatures: Dict[str, str] = {}
        self._done = self._still_valid() if self._same_model() and store.continued else {}

    def _same_model(self) -> bool:
        """Tell whether the model file is the one that the stored rows were planned with; note the present one."""
        now = None if self.options.model is None else signature(self.options.model)
        before = self.store.get("model_file")
        if before != now:
            self.store.set("model_file", now)
        return bool(before == now)

    def _still_valid(self) -> Dict[str, Optional[str]]:
        """Return keys and golden files of stored rows that were compared from files which have not changed since."""
        noted = self.store.files()
        now: Dict[str, bool] = {}

        def unchanged(root: str, name: Optional[str]) -> bool:
            if name is None:
                return True
            path = os.path.join(root, name)
            if path not in now:
                record = noted.get(path)
                now[path] = record is not None and record.state == signature(path)
            return now[path]

        return {
            row_key(row): row.golden_file
            for row in self.store.rows("arrival")
            if row.verdict in (PASS, FAIL)
            and row.target_file is not None
            and unchanged(self.options.target, row.target_file)
            and unchanged(self.options.golden, row.golden_file)
        }

    def place(self, identity: Place) -> Planner:
        """Return the planner of one place."""
        if identity not in self._places:
            self._places[identity] = _PlaceFiles(Planner(identity, self.golden_of(identity), self.graph, self._selection))
        return self._places[identity].planner

    def golden_of(self, identity: Place) -> GoldenSet:
        """Return the golden tensors that a place is compared with."""
        return self.golden

    def add(self, identity: Place, entry: DumpEntry) -> FilePlan:
        """Plan one dump file: its known rows are stored, its pairs wait for :meth:`dispatch`."""
        planner = self.place(identity)
        self._places[identity].entries[entry.rel] = entry
        plan = planner.plan(entry)
        self.settle(plan.rows + plan.waiting)
        for tensor, reason in plan.omitted:
            self.store.omit(tensor, reason)
        for task in plan.tasks:
            key = row_key(task.row)
            self.keys.add(key)
            if not self._is_done(task):
                self._queue(task)
        return plan

    def _is_done(self, task: PairTask) -> bool:
        """Tell whether the store has this pair's row, found with the same golden file."""
        key = row_key(task.row)
        return key in self._done and self._done[key] == task.row.golden_file

    def _queue(self, task: PairTask) -> None:
        """Put tasks of one golden tensor together: what is equal is then compared once."""
        self.progress.pairs += 1
        key = (task.golden.path, task.golden.io, task.golden.index)
        group = self._by_golden.get(key)
        if group is None:
            group = self._by_golden[key] = []
            self._groups.append(group)
        group.append(task)

    def settle(self, rows: Sequence[Row]) -> None:
        """Store rows that are known."""
        fresh = [row for row in rows if row_key(row) not in self._done]
        self.keys.update(row_key(row) for row in rows)
        if fresh:
            self.store.put_all(fresh)
            for row in fresh:
                self._tell(row)

    def _tell(self, row: Row) -> None:
        self.progress.failed += row.verdict == FAIL
        if self.on_row is not None:
            self.on_row(row)

    def sort_pending(self) -> None:
        """Put the biggest work first."""
        self._groups = deque(sorted(self._groups, key=lambda group: -sum(task.nbytes for task in group)))

    @property
    def busy(self) -> bool:
        """Whether pairs wait or are being compared."""
        return bool(self._groups) or self.workers.in_flight > 0

    def dispatch(self) -> None:
        """Hand pairs to the workers until they are full; small ones go together."""
        while self._groups and not self.workers.full:
            batch: List[PairTask] = []
            size = 0
            while self._groups and (not batch or (size < _BATCH_BYTES and len(batch) < _BATCH_TASKS)):
                if batch and size + sum(task.nbytes for task in self._groups[0]) > _BATCH_BYTES:
                    break
                group = self._next_group()
                size += sum(task.nbytes for task in group)
                batch += group
            if batch:
                self._sign(batch)
                self.workers.submit(batch)

    def _next_group(self) -> Group:
        """Take the next pairs of one golden tensor off the queue."""
        group = self._groups.popleft()
        golden = group[0].golden
        self._by_golden.pop((golden.path, golden.io, golden.index), None)
        return group

    def _sign(self, batch: Sequence[PairTask]) -> None:
        """Remember how the files looked before they were read."""
        for task in batch:
            for path in (os.path.join(self.options.target, task.row.target_file or ""), task.golden.path):
                self._signatures[path] = signature(path)

    def collect(self, timeout_s: Optional[float] = None) -> int:
        """Store the rows of what the workers have finished; return how many."""
        count = 0
        for tasks, rows in self.workers.collect(timeout_s):
            with self.store.transaction():
                self.store.put_all(rows)
                targets = {os.path.join(self.options.target, row.target_file or "") for row in rows}
                for path in targets | {task.golden.path for task in tasks}:
                    found = self._signatures.get(path)
                    if found is not None:
                        size, mtime = (int(part) for part in found.split(":")[:2])
                        self.store.put_file(path, size, mtime, found)
            for task, row in zip(tasks, rows):
                count += 1
                self.progress.pairs_done += 1
                self.progress.bytes_done += task.nbytes
                self._tell(row)
        return count

    def drain(self, on_progress: Optional[Callable[[Progress], None]] = None) -> None:
        """Compare all that waits."""
        while self.busy:
            self.dispatch()
            self.collect(1.0)
            if on_progress is not None:
                on_progress(self.progress)

    def close_places(self) -> None:
        """Store the rows of ops without a dump, and drop stored rows that no longer belong to the run."""
        for place in self._places.values():
            self.settle(place.planner.absent(place.entries.values()))
        stale = self.store.done_keys() - self.keys
        if stale:
            self.store.remove(sorted(stale), "no longer part of the run")


def signature(path: str) -> str:
    """Return a file's size, modification time (ns) and inode as one text; ``-1:0:0`` when it cannot be looked at."""
    try:
        status = os.stat(path)
    except OSError:
        return "-1:0:0"
    return "%d:%d:%d" % (status.st_size, status.st_mtime_ns, status.st_ino)


def current_files(entries: Iterable[DumpEntry]) -> Tuple[List[DumpEntry], List[Tuple[str, str]]]:
    """Split one place's files into the latest of each op and (tensor, reason) of the earlier ones."""
    latest: Dict[Tuple[str, str, Tuple[Optional[int], ...]], DumpEntry] = {}
    earlier: List[Tuple[str, str]] = []
    for entry in sorted(entries, key=lambda item: (item.name.timestamp_us, item.rel)):
        name = entry.name
        key = (name.op_type, name.op_name, (name.task_type, name.context_id, name.thread_id, name.device_id))
        if key in latest:
            earlier.append((name.op_name, "%s: an earlier dump of the op; the latest counts" % latest[key].rel))
        latest[key] = entry
    return list(latest.values()), earlier
