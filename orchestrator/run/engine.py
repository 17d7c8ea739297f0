"""The one engine: files are planned, their pairs compared, and rows stored as they are known,
whatever the source of the files.
"""

from __future__ import annotations

import os
from array import array
from dataclasses import replace
from functools import lru_cache
from typing import (
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ..base.notes import Note
from ..dumps.folder_listing import Signature, look_at
from ..dumps.place import Place
from ..judging.diagnosis.row_digest import RowDigests, digests_of_all
from ..metrics.pair_task import PairTask
from ..metrics.row import EXPECTED_ABSENT, FAIL, PASS, Row
from ..model.graphs_of_run import ModelGraphs
from ..reports.rendered_rows import PreparedRows, Preparer, RenderedRowCache, Renderer
from ..store.row_sql import row_key
from ..store.store import RunStore
from .comparison_options import ComparisonOptions
from .dump_catalogue import Catalogue, RowFiles, SomeFiles
from .golden_files import Goldens
from .pair_queue import PairQueue
from .places import Places, Slices
from .progress import Progress
from .reusable_rows import ReusableRows, same_model
from .target_file import (
    DELETED,
    EARLIER,
    HELD,
    NOTHING,
    OUTDATED,
    PLANNED,
    TargetFile,
    TensorKey,
    tensor_key,
)
from .tensor_planner import FilePlan
from .workers import Workers


class LookAgain(NamedTuple):
    """A file that the loop is to look at again.

    Attributes
    ----------
    path
        What to look at: the file itself, or the golden file that one of its pairs is with.
    changed
        One of the two changed while they were compared: what is there now counts only once it has
        stayed as it is for a while.
    """

    file: TargetFile
    path: str
    changed: bool


class Engine:
    """The rows of one run, whatever order the files come in.

    The loop of a run tells it of files (:meth:`meet`, :meth:`plan`, :meth:`accept`), calls
    :meth:`dispatch` and :meth:`collect` over and over, and takes what has happened
    (:meth:`take_look_again`, :meth:`take_completed`, :meth:`take_stored`). The engine calls nobody
    back.

    Parameters
    ----------
    graphs
        The model of each place.
    store
        Where rows go; open for writing.
    workers
        The processes that compare.
    goldens
        What is known of GOLDEN.
    list_stored
        List the rows that are stored, for :meth:`take_stored`.

    Attributes
    ----------
    catalogue
        What is known of TARGET.
    places
        Those seen, and whether anything still comes to them.
    slices
        Files that hold slices of one op.
    closing
        Whatever was held for the end is planned now.
    rendered_rows
        The stored rows as finishing needs them, as far as they are rendered.
    overflow_seen
        Overflow records beside the dumps name ops that have rows.
    misfit
        Why what fails by its name alone does not count, where no model is given.
    across
        Of two dumps the rows of outputs that are paired with others than their names say, by dump
        file and tensor.
    """

    def __init__(
        self,
        options: ComparisonOptions,
        graphs: ModelGraphs,
        store: RunStore,
        workers: Workers,
        goldens: Goldens,
        list_stored: bool = False,
    ) -> None:
        self.options = options
        self.graphs = graphs
        self.store = store
        self.workers = workers
        self.catalogue = catalogue = Catalogue(options.target)
        self.goldens = goldens
        self.progress = Progress()
        self.closing = False
        self.overflow_seen = False
        self.misfit: List[Note] = []
        self.across: Dict[Tuple[str, str], Row] = {}
        self.changed_places: Set[Place] = set()
        self.come: Dict[Place, Set[str]] = {}
        self.places = Places(options, graphs, goldens, catalogue)
        self.slices = Slices(catalogue, self.places)
        self.queue = PairQueue(are_slow=bool(workers.settings.user_metrics))
        self._foreign: Dict[Place, List[TargetFile]] = {}
        self._completed = array("I")
        # Of the pairs that wait or are being compared, by the id of each.
        self._file_of: Dict[int, TargetFile] = {}
        self._look_again: List[LookAgain] = []
        self._list_stored = list_stored
        self._stored_rows: List[Row] = []
        self._planned_for = 0
        self._reusable: Optional[ReusableRows] = None
        self.rendered_rows = RenderedRowCache(os.path.dirname(store.path), RowFiles(catalogue))
        self.prepare_rows(None)

    def continue_store(self, keep_gone: bool, models: Sequence[str] = ()) -> None:
        """Reuse the stored rows whose files have not changed. All other files are marked as
        outdated, so that a later start does not reuse their rows.

        Parameters
        ----------
        keep_gone
            Files that were compared and are no longer there belong to the run.
        models
            Files that rows depend on, beside those of the graphs.
        """
        same = same_model(
            self.store,
            [
                *self.graphs.files,
                *models,
                *self.options.models[1:],
                *self.options.user_code.scripts,
            ],
        )
        if self.store.continued:
            self.reuse_rows(same, keep_gone)

    def reuse_rows(self, same: bool = True, keep_gone: bool = False) -> None:
        """Reuse the rows in the store whose files have not changed; ``same``: they were planned
        with the present models.
        """
        self._reusable = ReusableRows(self.store, self.catalogue.root, self.goldens.folder)
        with self.store.transaction():
            for path, state in self._reusable.changed_files(same):
                if state == OUTDATED:
                    self.store.put_file(path, 0, 0, OUTDATED)
                elif keep_gone:
                    file, _ = self.meet(path)
                    if file is not None and file.state != EARLIER:
                        file.remember(deleted=state == DELETED)
                        self.places.note(file)
                        self._note_come(file)

    def meet(self, path: str) -> Tuple[Optional[TargetFile], bool]:
        """Return the file at a path below TARGET, if it is an op's dump, and whether it is new; the
        newest dump of an op counts.
        """
        revision = self.catalogue.files.revision
        file, earlier = self.catalogue.meet(path)
        if file is None or revision == self.catalogue.files.revision:
            return file, False
        self._note_rows(file)
        self.places.planner(file.place)
        if earlier is not None:
            self._supersede(earlier, file)
        if file.state == EARLIER:
            self._supersede(file, self.catalogue.newer(file))
        return file, True

    def take(self, row: Row) -> TargetFile:
        """Return a file as :meth:`Catalogue.take` does; it is accepted, but never planned here."""
        file = self.catalogue.take(row)
        self._note_rows(file)
        return file

    def _note_rows(self, file: TargetFile) -> None:
        if self._reusable is not None:
            file.has_rows = file.from_before = self.store.table.has_file(file.rel)

    def _take_reusable(self, file: TargetFile) -> Mapping[str, Optional[str]]:
        """Return key and golden file of the rows of an earlier start that hold still; once."""
        asked, file.from_before = file.from_before, False
        return self._reusable.rows(file) if asked and self._reusable is not None else {}

    def _supersede(self, earlier: TargetFile, newer: TargetFile) -> None:
        """Replace the rows of an earlier dump by those of a newer one."""
        earlier.supersede()
        earlier.from_before = False
        self.remove_rows(earlier, set(), "%s is a later dump of the op" % newer.rel)
        self.store.events.omit(
            earlier.op_name, "%s: an earlier dump of the op; the latest counts" % newer.rel
        )

    def plan(self, file: TargetFile) -> Optional[FilePlan]:
        """Return what a file's tensors come to; None where that is known at the end only."""
        place, entry = file.place, file.entry()
        planner = self.places.planner(place)
        if not self.places.is_wanted(place):
            file.hold()
            return None
        if not self.closing:
            if not self.places.note(file):
                file.hold()
                self._foreign.setdefault(place, []).append(file)
                return None
            self._release_all(self._foreign.pop(place, ()))
            if planner.waits_for_group(entry):
                file.hold()
                self._note_come(file)
                return None
        return (
            self._plan_slices(file)
            if self.slices.joins(file)
            else planner.plan(entry, file.iteration)
        )

    def _release_all(self, files: Sequence[TargetFile]) -> None:
        for held in files:
            if held.state == HELD:
                held.release()
                self._look_again.append(LookAgain(held, held.path, changed=False))

    def _plan_slices(self, file: TargetFile) -> Optional[FilePlan]:
        """Plan an op's slices once all are there; the first stands for them, the others are
        held.
        """
        lead = self.slices.lead(file)
        if file == lead and (self.closing or self.slices.all_there(file)):
            # Which files a row was joined from is not stored: they are joined again.
            file.from_before = False
            return self.slices.plan(file)
        if not self.closing:
            file.hold()
            self._note_come(file)
            if lead.state == HELD and file != lead:
                self._release_all([lead])
            elif lead.state == PLANNED:
                lead.doubt()
                self._look_again.append(LookAgain(lead, lead.path, changed=True))
        return None

    def _take_slices(self, lead: TargetFile) -> None:
        """Plan the slices together with the file that stands for them."""
        lead.slices = self.slices.others(lead)
        for part in lead.slices:
            if part.state == HELD:
                part.plan(FilePlan(), 0, NOTHING)
                part.choice = self._choice(part)

    def accept(self, file: TargetFile, plan: FilePlan) -> None:
        """Store what is known of a planned file and queue its pairs. Must be called inside a
        transaction of the store.
        """
        held_back = (
            []
            if self.places.settled
            else [row for row in plan.waiting if row.verdict != EXPECTED_ABSENT]
        )
        rows = list(plan.rows) + [row for row in plan.waiting if row not in held_back]
        valid = self._take_reusable(file)
        if file.has_rows:
            planned = [*rows, *held_back, *(task.row for task in plan.tasks)]
            self.remove_rows(file, {row_key(row) for row in planned}, "the file has changed")
        self.put_rows([row for row in rows if not valid or row_key(row) not in valid], file)
        for tensor, reason in plan.omitted:
            self.store.events.omit(tensor, reason)
        pending: Dict[TensorKey, PairTask] = {}
        for task in plan.tasks:
            if not valid or valid.get(row_key(task.row), "") != task.row.golden_file:
                pending[tensor_key(task.planned)] = task
        file.plan(plan, len(held_back), pending)
        file.choice = self._choice(file)
        self._take_slices(file)
        for task in pending.values():
            self._file_of[id(task)] = file
            self._queue(task)
        if not pending:
            self._complete(file)
        elif file.has_rows and not valid:
            self._mark_outdated(file)

    def _queue(self, task: PairTask) -> None:
        if self.goldens.signature(task.golden.path) is None:
            self.goldens.note(task.golden.path)
        self.progress.pairs += 1
        self.queue.put(task)

    def _mark_outdated(self, file: TargetFile) -> None:
        """Prevent a later start from reusing the rows that are about to be replaced."""
        self.store.put_file(file.path, 0, 0, OUTDATED)

    def remove_rows(self, file: TargetFile, keep: Set[str], why: str) -> None:
        """Take the rows of a file out of the store, but for those whose keys are to be kept."""
        if not file.has_rows:
            return
        stale = [key for key in self.store.table.keys_of_file(file.rel) if key not in keep]
        file.has_rows = bool(keep)
        if stale:
            self.store.table.remove(stale, why)
            self.changed_places.add(file.place)

    def put_rows(self, rows: Sequence[Row], file: Optional[TargetFile] = None) -> None:
        """Store rows, of one file or of none."""
        if not rows:
            return
        self._put(self._prepare(rows))
        self.changed_places.update(row.place for row in rows)
        if file is not None:
            file.has_rows = True

    def _put(self, rows: PreparedRows) -> None:
        """Store rows as those that compared them prepared them."""
        self._keep_rendered(rows, self.store.table.put(rows.lines))
        if self._list_stored:
            self._stored_rows += rows.whole

    def prepare_rows(self, render: Optional[Renderer]) -> None:
        """Prepare rows for the store, and render them if it is known how, in the processes that
        compare.
        """
        self._prepare = Preparer(render, self._list_stored)
        self.workers.settings = replace(self.workers.settings, prepare=self._prepare)

    def _keep_rendered(self, rows: PreparedRows, numbers: Sequence[Optional[int]]) -> None:
        """Keep stored rows in the form that finishing needs."""
        if self._prepare.render is None:
            return
        fresh = [number for number in numbers if number is not None]
        if len(fresh) < len(numbers):
            rows = rows.only([at for at, number in enumerate(numbers) if number is not None])
        if not fresh or rows.rendered is None or rows.by is None:
            return
        sums = [str(line[-1]) for line in rows.lines]
        try:
            self.rendered_rows.keep(fresh, sums, rows.rendered, rows.by)
        except OSError:
            self._forget_rendered()

    def digests(self) -> RowDigests:
        """Return the stored rows as the verdict sees them, in the order of the table: as they were
        rendered, where they were.
        """
        render = self._prepare.render
        if render is not None:
            rendered, order = self.rendered_rows, self.store.table_order()
            try:
                return rendered.digests(rendered.slots_of_table(self.store, order, render))
            except OSError:
                self._forget_rendered()
        return digests_of_all(self.store.rows())

    def _forget_rendered(self) -> None:
        """Render no more, such as on a full disk: finishing reads the store then."""
        self.rendered_rows.close()
        self.prepare_rows(None)

    def _choice(self, file: TargetFile) -> int:
        """Return a key of the golden files that the tensors are compared with at present."""
        if self.places.settled:
            return 0
        choice = self.places.planner(file.place).choice(file.dumped())
        return hash(
            tuple(
                (status, path, self.goldens.signature(path) if path is not None else None)
                for status, path in choice
            )
        )

    def _complete(self, file: TargetFile) -> None:
        """Note that all pairs of a file are compared."""
        signature = file.signature
        if signature is not None:
            self.store.put_file(file.path, signature.size_bytes, signature.mtime_ns, signature.text)
        file.pending = NOTHING
        self._note_come(file)
        self._completed.append(file.number)

    def _note_come(self, file: TargetFile) -> None:
        if not self.places.settled:
            self.come.setdefault(file.place, set()).add(file.op_name)

    def take_completed(self) -> SomeFiles:
        """Return the files that were completed since the last call; their rows are committed."""
        completed, self._completed = self._completed, array("I")
        return SomeFiles(self.catalogue.files.columns, completed)

    def take_look_again(self) -> List[LookAgain]:
        """Return the files that have to be looked at again, of those since the last call."""
        look_again, self._look_again = self._look_again, []
        return look_again

    def take_stored(self) -> List[Row]:
        """Return the rows that were stored since the last call, where they are listed."""
        rows, self._stored_rows = self._stored_rows, []
        return rows

    def files_to_replan(self) -> Iterator[TargetFile]:
        """Yield the files whose golden files are others than before; each is to be planned again
        before the next is asked for. Must be called inside a transaction of the store.
        """
        if not self.waits_for_replan:
            return
        self._planned_for = self.goldens.revision
        for file in self.catalogue.in_state(PLANNED):
            if self._choice(file) != file.choice:
                if file.has_rows:
                    self._mark_outdated(file)
                file.pending = NOTHING
                yield file

    @property
    def waits_for_replan(self) -> bool:
        """Whether golden data have come since the files were planned."""
        return self._planned_for != self.goldens.revision

    @property
    def busy(self) -> bool:
        """Whether pairs wait or are being compared."""
        return len(self.queue) > 0 or self.workers.in_flight > 0

    def dispatch(self, keep: int = 0) -> None:
        """Submit pairs to the workers until they are full; ``keep``: as for
        :meth:`PairQueue.ripen`.
        """
        if self.workers.full:
            return
        self.queue.ripen(keep)
        while self.queue.ripe and not self.workers.full:
            self._submit_batch()

    def help(self) -> None:
        """Compare the next pairs in this process, where the workers are full and it would only wait
        for them.
        """
        if self.workers.helped and self.workers.full and self.queue.ripe:
            self._submit_batch(here=True)

    def _submit_batch(self, here: bool = False) -> None:
        """Submit the next pairs, but for those whose files were planned anew meanwhile."""
        batch = [task for task in self.queue.batch() if self._file_pending(task) is not None]
        if batch:
            self.workers.submit(batch, here)

    def _file_pending(self, task: PairTask) -> Optional[TargetFile]:
        """Return the file that waits for a pair; None where it was planned anew meanwhile."""
        file = self._file_of.get(id(task))
        current = file is not None and file.pending.get(tensor_key(task.planned)) is task
        return file if current else None

    def collect(self, timeout_s: Optional[float] = None) -> None:
        """Store the rows of what the workers have finished, of files that are as they were
        planned.
        """
        finished = self.workers.collect(timeout_s)
        if not finished:
            return
        with self.store.transaction():
            complete: List[TargetFile] = []
            # All of these are compared: one look tells whether a golden file stayed as it was.
            look_at_golden = lru_cache(maxsize=None)(look_at)
            for tasks, rows in finished:
                self.progress.pairs_done += len(tasks)
                taken = []
                for number, (task, verdict) in enumerate(zip(tasks, rows.verdicts)):
                    file = self._take_result(task, verdict, look_at_golden)
                    if file is not None:
                        taken.append(number)
                        self.changed_places.add(file.place)
                        file.has_rows = True
                        if not file.pending:
                            complete.append(file)
                self._put(rows if len(taken) == len(tasks) else rows.only(taken))
            for file in complete:
                self._complete(file)

    def _take_result(
        self,
        task: PairTask,
        verdict: str,
        look_at_golden: Callable[[str], Optional[Signature]],
    ) -> Optional[TargetFile]:
        """Return the file of a result, which is no longer pending; None where the result does not
        count.
        """
        file = self._file_pending(task)
        self._file_of.pop(id(task), None)
        if file is None:
            return None
        if not self.places.settled:
            signature = look_at(file.path)
            if signature is None and verdict not in (PASS, FAIL):
                del file.pending[tensor_key(task.planned)]
                file.missing += 1
                return None
            path = task.golden.path
            golden_same = look_at_golden(path) == self.goldens.signature(path)
            if not golden_same or (signature is not None and signature != file.signature):
                planned = task.planned
                text = "%s: the file changed while it was compared" % planned.tensor
                self.store.events.add("retried", planned.op, text)
                file.doubt()
                path = file.path if golden_same else path
                self._look_again.append(LookAgain(file, path, changed=True))
                return None
        del file.pending[tensor_key(task.planned)]
        self.progress.bytes_done += task.nbytes
        return file
