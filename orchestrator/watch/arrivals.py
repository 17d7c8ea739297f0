"""The session of a watch: files are planned when they are whole, and what they come to is stored only if they stayed as they were."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ..compare.file_planner import UNREADABLE as CANNOT_READ
from ..compare.file_planner import FilePlan
from ..compare.pair import PairTask
from ..compare.row import EXPECTED_ABSENT, FAIL, PASS, Row
from ..compare.workers import Workers
from ..dumps.golden import GoldenSet
from ..dumps.header import COMPLETE, HEADERLESS, LONG
from ..dumps.listing import DumpEntry
from ..dumps.place import NOWHERE, Place
from ..engine.options import ComparisonOptions
from ..engine.session import Group, OnRow, Session
from ..model.graph import ModelGraph
from ..model.never import no_dump_reason
from ..naming import MAPPING_FILE, sanitise_device
from ..results.rowsql import row_key
from ..results.store import RunStore
from .arriving_goldens import GoldenFiles
from .catalogue import Catalogue
from .restart import believe
from .state import (
    DELETED,
    DELETED_PREFIX,
    EARLIER,
    GONE,
    GROWING,
    HELD,
    NOTHING,
    OUTDATED,
    PLANNED,
    SETTLING,
    UNREADABLE,
    TargetFile,
    TensorKey,
    look_at,
    signature_text,
)

SETTLE_S = 1.0

OnFile = Callable[[TargetFile], None]


class LiveSession(Session):
    """Rows of files that come, grow, change and go.

    Parameters
    ----------
    catalogue, goldens
        What is known of TARGET and GOLDEN.
    later
        Takes the path of a file that is to be looked at again.
    on_row
        Called with each row that has been stored.
    on_file
        Called with each file all of whose pairs are compared, after its rows are committed.
    """

    def __init__(
        self,
        options: ComparisonOptions,
        graph: Optional[ModelGraph],
        store: RunStore,
        workers: Workers,
        catalogue: Catalogue,
        goldens: GoldenFiles,
        later: Callable[[str], None],
        on_row: Optional[OnRow] = None,
        on_file: Optional[OnFile] = None,
    ) -> None:
        self.catalogue = catalogue
        self.goldens = goldens
        self.later = later
        self.on_file = on_file
        self.activity = time.monotonic()
        self.seen = 0
        self.final = False
        self.changed_places: Set[Place] = set()
        self.come: Dict[Place, Set[str]] = {}
        self.bytes_seen = 0
        self._valid: Dict[str, Tuple[str, Dict[str, Optional[str]]]] = {}
        self._due: OrderedDict[str, float] = OrderedDict()
        self._with_rows: Set[str] = set()
        self._planned_for = 0
        self.own_places: Set[Place] = set()
        self._foreign: Dict[Place, List[TargetFile]] = {}
        self._done_files: List[TargetFile] = []
        super().__init__(options, goldens.of(NOWHERE), graph, store, workers, on_row)
        self._expected = None if graph is None else self._expected_ops(graph)

    def golden_of(self, identity: Place) -> GoldenSet:
        """Return the golden tensors of a place: those of its step, or of all."""
        return self.goldens.of(identity)

    def _expected_ops(self, graph: ModelGraph) -> Set[str]:
        wanted = [op for op in graph.ops if no_dump_reason(op) is None]
        return {sanitise_device(op.name) for op in wanted if self._selection is None or op.id in self._selection}

    def _still_valid(self) -> Dict[str, Optional[str]]:
        """Find the stored rows that hold still; the files of all others are marked, so that a later start does not believe their rows."""
        believed = believe(self.store, self.catalogue.root.path, self.goldens.folder)
        self._valid, self._with_rows = believed.valid, believed.with_rows
        with self.store.transaction():
            for path in believed.outdated:
                self.store.put_file(path, 0, 0, OUTDATED)
            for path, state in believed.gone:
                self._bring_back(path, state)
        return {}

    def _bring_back(self, path: str, state: str) -> None:
        """Know a file that was compared before this start and is no longer there."""
        file, _ = self._meet(path)
        if file is not None:
            file.has_rows = True
            if self.graph is not None and self.graph.ops_named(file.op_name):
                self.own_places.add(file.identity)
            file.state = DELETED if state.startswith(DELETED_PREFIX) else GONE
            self._note_come(file)

    def _meet(self, path: str) -> Tuple[Optional[TargetFile], Optional[TargetFile]]:
        known = path in self.catalogue.files
        file, earlier = self.catalogue.meet(path)
        if file is not None and not known:
            file.has_rows = file.rel in self._with_rows
            self.seen += 1
            self.place(file.identity)
            if file.state == EARLIER:
                self._supersede(file, self.catalogue.newer(file))
        return file, earlier

    def look(self, path: str) -> None:
        """Look at a file below TARGET that may have come, changed or gone. Must be called inside a transaction of the store."""
        if os.path.basename(path) == MAPPING_FILE:
            if self.catalogue.other_changed(path):
                self.activity = time.monotonic()
            for waiting in self.catalogue.waiting_for_mapping(os.path.dirname(path)):
                self.later(waiting)
            return
        before = path in self.catalogue.unresolved
        file, earlier = self._meet(path)
        if earlier is not None and file is not None:
            self._supersede(earlier, file)
        if file is None:
            self.seen += path in self.catalogue.unresolved and not before
            if self.catalogue.other_changed(path):
                self.activity = time.monotonic()
            return
        found = look_at(path)
        if found is None:
            self._gone(file)
        elif found != file.signature or file.state in (GONE, DELETED):
            self._changed(file, found)
        elif file.state == UNREADABLE:
            self._consider(file)

    def _gone(self, file: TargetFile) -> None:
        if file.state in (GONE, DELETED):
            return
        if file.signature is not None:
            self.activity = time.monotonic()
        was_current = file.state != EARLIER
        file.state = GONE
        self._due.pop(file.path, None)
        if was_current and not file.has_rows:
            best = self.catalogue.next_best(file)
            if best is not None:
                self.later(best.path)

    def _changed(self, file: TargetFile, found: Tuple[int, int, int]) -> None:
        before, file.signature = file.signature, found
        self.activity = file.changed_at = time.monotonic()
        self.bytes_seen += max(0, found[0] - (before[0] if before else 0))
        if file.state == EARLIER or (file is not self.catalogue.newer(file)):
            file.state = EARLIER
            return
        if before is None or found[2] != before[2] or found[0] < before[0]:
            file.expected_bytes = 0
        file.pending = NOTHING
        if found[0] < file.expected_bytes:
            file.state = GROWING
            self._settle_later(file)
        else:
            self._consider(file)

    def _settle_later(self, file: TargetFile) -> None:
        self._due.pop(file.path, None)
        self._due[file.path] = time.monotonic() + SETTLE_S

    def due(self) -> None:
        """Look again at files that had to stay unchanged for a while. Must be called inside a transaction of the store."""
        now = time.monotonic()
        while self._due:
            path, when = next(iter(self._due.items()))
            if when > now:
                return
            del self._due[path]
            file = self.catalogue.files.get(path)
            if file is None or file.state not in (GROWING, SETTLING, UNREADABLE):
                continue
            found = look_at(path)
            if found is None:
                self._gone(file)
            elif found != file.signature:
                self._changed(file, found)
            else:
                self._consider(file, settled=True)

    def next_due_s(self) -> Optional[float]:
        """Return the seconds until :meth:`due` has something to do; None when it has not."""
        if not self._due:
            return None
        return max(0.0, next(iter(self._due.values())) - time.monotonic())

    def _consider(self, file: TargetFile, settled: bool = False) -> None:
        """Plan a file, if it is whole."""
        planner = self.place(file.identity)
        planner.refresh()
        entry = file.entry()
        if not self.final and self._is_foreign(file, entry):
            file.state = HELD
            return
        if planner.waits_for_group(entry) and not self.final:
            file.state = HELD
            self._note_come(file)
            return
        plan = planner.plan(entry)
        if look_at(file.path) != file.signature:
            file.state = GROWING
            self.later(file.path)
            return
        file.expected_bytes = plan.expected_bytes
        if plan.state == CANNOT_READ:
            file.state = UNREADABLE
            if not settled:
                self._settle_later(file)
        elif plan.state == LONG or (plan.state == COMPLETE and plan.nulls_left_out):
            if settled:
                self.accept(file, plan)
            else:
                file.state = SETTLING
                self._settle_later(file)
        elif plan.state == COMPLETE:
            self.accept(file, plan)
        else:
            file.state = GROWING
            if plan.state == HEADERLESS:
                file.expected_bytes = 0
            elif not settled:
                self._settle_later(file)

    def _is_foreign(self, file: TargetFile, entry: DumpEntry) -> bool:
        """Tell whether the file's place may be another model's: no op of the json has come there so far."""
        if self.graph is None or file.identity in self.own_places:
            return False
        if not self.graph.ops_named(entry.name.op_name):
            self._foreign.setdefault(file.identity, []).append(file)
            return True
        self.own_places.add(file.identity)
        for held in self._foreign.pop(file.identity, ()):
            if held.state == HELD:
                held.state, held.signature = GROWING, None
                self.later(held.path)
        return False

    def accept(self, file: TargetFile, plan: FilePlan) -> None:
        """Store what is known of a planned file and queue its pairs."""
        held_back = [] if self.final else [row for row in plan.waiting if row.verdict != EXPECTED_ABSENT]
        rows = list(plan.rows) + [row for row in plan.waiting if row not in held_back]
        valid = self._take_valid(file)
        self.remove_rows(file, {row_key(row) for row in [*rows, *held_back, *(task.row for task in plan.tasks)]}, "the file has changed")
        self.put_rows(file, [row for row in rows if row_key(row) not in valid])
        for tensor, reason in plan.omitted:
            self.store.omit(tensor, reason)
        file.state, file.missing, file.tensors = PLANNED, len(held_back), (plan.n_inputs, plan.n_outputs)
        file.choice = self._choice(file)
        pending: Dict[TensorKey, PairTask] = {}
        for task in plan.tasks:
            key = row_key(task.row)
            if key in valid and valid[key] == task.row.golden_file:
                continue
            pending[_tensor(task.row)] = task
            self._queue(task)
        file.pending = pending or NOTHING
        if not file.pending:
            self._complete(file)
        elif file.has_rows and not valid:
            self._mark_outdated(file)

    def _take_valid(self, file: TargetFile) -> Dict[str, Optional[str]]:
        """Return key and golden file of the rows that an earlier start stored and that hold still; once."""
        text, rows = self._valid.pop(file.rel, ("", {}))
        return rows if file.signature is not None and signature_text(file.signature) == text else {}

    def _mark_outdated(self, file: TargetFile) -> None:
        """A later start must not believe the rows that are about to be replaced."""
        self.store.put_file(file.path, 0, 0, OUTDATED)

    def remove_rows(self, file: TargetFile, keep: Set[str], why: str) -> None:
        """Take the rows of a file out of the store, but for those whose keys are to be kept."""
        if not file.has_rows:
            return
        stale = [key for key in self.store.keys_of_file(file.rel) if key not in keep]
        if stale:
            self.store.remove(stale, why)
            self.changed_places.add(file.identity)

    def put_rows(self, file: Optional[TargetFile], rows: Sequence[Row]) -> None:
        """Store rows, of one file or of none."""
        if not rows:
            return
        self.store.put_all(rows)
        for row in rows:
            self.changed_places.add(row.place)
            self._tell(row)
        if file is not None:
            file.has_rows = True

    def _choice(self, file: TargetFile) -> int:
        """Return what stands for the golden files that the tensors are compared with, as they are now."""
        found = self.place(file.identity).choice(file.dumped())
        return hash(tuple((status, path, self.goldens.signature(path) if path is not None else None) for status, path in found))

    def _supersede(self, earlier: TargetFile, newer: TargetFile) -> None:
        """The rows of a newer dump take the place of an earlier one's."""
        earlier.state = EARLIER
        earlier.pending = NOTHING
        self._due.pop(earlier.path, None)
        self.remove_rows(earlier, set(), "%s is a later dump of the op" % newer.rel)
        earlier.has_rows = False
        self._valid.pop(earlier.rel, None)
        self.store.omit(earlier.op_name, "%s: an earlier dump of the op; the latest counts" % newer.rel)

    def _complete(self, file: TargetFile) -> None:
        """Note that all pairs of a file are compared."""
        if file.signature is not None:
            self.store.put_file(file.path, file.signature[0], file.signature[1], signature_text(file.signature))
        file.pending = NOTHING
        self._note_come(file)
        self._done_files.append(file)

    def _note_come(self, file: TargetFile) -> None:
        self.come.setdefault(file.identity, set()).add(file.op_name)

    def take_done(self) -> List[TargetFile]:
        """Return the files that were completed since the last call; their rows are committed."""
        done, self._done_files = self._done_files, []
        return done

    def identities(self) -> List[Place]:
        """Return the places seen."""
        return list(self._places)

    def all_come(self) -> bool:
        """Tell whether every op of the json that can dump has come, in every place seen."""
        if self._expected is None or not self.own_places:
            return False
        return all(self._expected <= self.come.get(identity, set()) for identity in self.own_places)

    def is_taken(self, identity: Place) -> bool:
        """Tell whether a place belongs to the run: it has ops of the json, or no place has."""
        return self.graph is None or not self.own_places or identity in self.own_places

    def replan(self) -> None:
        """Plan those files anew whose golden files are others than before. Must be called inside a transaction of the store."""
        if self._planned_for == self.goldens.revision:
            return
        self._planned_for = self.goldens.revision
        for identity in self._places:
            self.place(identity).refresh()
        for file in self.catalogue.in_state(PLANNED):
            if self._choice(file) != file.choice:
                if file.has_rows:
                    self._mark_outdated(file)
                file.pending = NOTHING
                self._consider(file, settled=True)

    @property
    def waits_for_replan(self) -> bool:
        """Whether golden data have come since the files were planned."""
        return self._planned_for != self.goldens.revision

    @property
    def queued(self) -> int:
        """Groups of pairs that are not handed out yet."""
        return len(self._groups)

    def _next_group(self) -> Group:
        """Take the next pairs off the queue, those of files that have changed since left out."""
        return [task for task in super()._next_group() if self._wanted(task)]

    def _file_of(self, row: Row) -> Optional[TargetFile]:
        return self.catalogue.files.get(os.path.join(self.catalogue.root.path, row.target_file or ""))

    def _wanted(self, task: PairTask) -> bool:
        file = self._file_of(task.row)
        return file is not None and file.pending.get(_tensor(task.row)) is task

    def _sign(self, batch: Sequence[PairTask]) -> None:
        """Nothing: the files' signatures are those of their planning."""

    def collect(self, timeout_s: Optional[float] = None) -> int:
        """Store the rows of what the workers have finished, of files that are as they were planned; return how many."""
        finished = self.workers.collect(timeout_s)
        if not finished:
            return 0
        count = 0
        with self.store.transaction():
            for tasks, rows in finished:
                for task, row in zip(tasks, rows):
                    self.progress.pairs_done += 1
                    count += self._take_result(task, row)
        return count

    def _take_result(self, task: PairTask, row: Row) -> bool:
        if not self._wanted(task):
            return False
        file = self._file_of(row)
        assert file is not None
        key = _tensor(row)
        found = look_at(file.path)
        if found is None and row.verdict not in (PASS, FAIL):
            del file.pending[key]
            file.missing += 1
            return False
        target_same = found is None or found == file.signature
        golden_same = look_at(task.golden.path) == self.goldens.signature(task.golden.path)
        if not self.final and not (target_same and golden_same):
            self._take_back(file, task, golden_same)
            return False
        del file.pending[key]
        self.progress.bytes_done += task.nbytes
        self.put_rows(file, [row])
        if not file.pending:
            self._complete(file)
        return True

    def _take_back(self, file: TargetFile, task: PairTask, golden_same: bool) -> None:
        """A file changed while it was compared: what was found does not count."""
        self.store.event("retried", task.row.op, "%s: the file changed while it was compared" % (task.row.tensor))
        file.pending = NOTHING
        file.state = SETTLING
        self._settle_later(file)
        self.later(file.path if golden_same else task.golden.path)

    def counts(self) -> Tuple[int, int]:
        """Return how many files wait to become whole, and how many wait for golden data."""
        files: Iterable[TargetFile] = self.catalogue.files.values()
        growing = missing = 0
        for file in list(files):
            growing += file.state in (GROWING, SETTLING, UNREADABLE)
            missing += file.missing > 0
        return growing + len(self.catalogue.unresolved), missing


def _tensor(row: Row) -> TensorKey:
    return (row.kind, row.tensor_index)
