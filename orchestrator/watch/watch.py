"""A watch from its start to its verdict: one loop in the main thread."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import Callable, List, Optional, Set

from ..compare.row import Row
from ..compare.workers import Workers
from ..dumps.place import Place
from ..engine.comparison import Run
from ..errors import InputError, require_file, require_folder
from ..model.graph import ModelGraph, load_model
from ..results.files import write_tables
from ..results.store import RunStore
from .arrivals import LiveSession
from .arriving_goldens import GoldenFiles
from .catalogue import Catalogue
from .drain import finish_rows, settle_files
from .ends import Process
from .hook import DivergenceHook
from .keep import Keeper
from .monitor import Mailbox, Monitor, Root
from .options import WatchOptions
from .state import TargetFile
from .tables import TableKeeper

_SLICE = 256
_MOST_QUEUED = 512
_IDLE_WAIT_S = 0.1
_QUIET_S = 1.0
_REPLAN_SHARE = 0.2
_TARGET_PLACE = "target_place"


@dataclass(frozen=True)
class Standing:
    """How far a watch is, for the live line; sizes in bytes."""

    rows: int
    failed: int
    waiting: int
    queued: int
    bytes_done: int
    seconds: float
    first: Optional[Row]


@dataclass
class Watch(Run):
    """An open watch: a context manager; :meth:`follow` returns when it has ended.

    Attributes
    ----------
    watch
        How files are waited for, and when that ends.
    command
        ``watch`` or ``run``: an OUT of the one is not continued by the other.
    say
        Takes sentences for the user, as they come.
    on_file
        Called with each file that is compared and the verdicts of its rows.
    on_standing
        Called several times a second.
    left_alone
        Folders below TARGET that are not looked at.
    """

    watch: WatchOptions = field(default_factory=WatchOptions)
    command: str = "watch"
    say: Callable[[str], None] = lambda text: None
    on_file: Optional[Callable[[TargetFile, List[str]], None]] = None
    on_standing: Optional[Callable[[Standing], None]] = None
    left_alone: List[str] = field(default_factory=list)
    tables_when_interrupted = False

    def __post_init__(self) -> None:
        self._stop = ""
        self._wake = threading.Event()

    def __enter__(self) -> Watch:
        self.watch.check(self.options)
        require_folder(self.options.golden, "GOLDEN")
        if os.path.lexists(self.options.target) and not os.path.isdir(self.options.target):
            require_folder(self.options.target, "TARGET")
        if self.options.model is not None:
            require_file(self.options.model, "-f")
        self._process = Process(self.watch.pid) if self.watch.pid is not None else None
        # The processes are forked before anything large is loaded and before any thread is started.
        self.workers = Workers(self.jobs, self.options.settings())
        try:
            self._open()
        except BaseException:
            self.workers.close(now=True)
            raise
        return self

    def _open(self) -> None:
        self.graph: Optional[ModelGraph] = load_model(self.options.model) if self.options.model is not None else None
        if self.graph is not None:
            self.notes += ["%s: %s" % (self.options.model, note) for note in self.graph.notes]
        self.options.selection(self.graph)
        self.store = RunStore.begin(self.options.out, self.watch.identity(self.options, self.command), self.force)
        try:
            self._set_up()
        except BaseException:
            self.store.close()
            raise
        self.notes += [note for note in (self.store.journal_note, self.store.lock_note) if note]
        for note in self.notes:
            self.say("note: " + note)

    def _set_up(self) -> None:
        self.started = time.monotonic()
        self._row_count = sum(self.store.counts().values()) if self.store.continued else 0
        target, golden, out = (os.path.realpath(path) for path in (self.options.target, self.options.golden, self.options.out))
        self.targets, self.golden_paths = Mailbox(), Mailbox()
        self.targets.filled = self.golden_paths.filled = self._wake
        self.target_root = Root("TARGET", target, self.targets, _below(target, (golden, out)) + self.left_alone)
        self.golden_root = Root("GOLDEN", golden, self.golden_paths, _below(golden, (target, out)))
        self.catalogue = Catalogue(self.target_root, self.options.target)
        self.goldens = GoldenFiles(self.options.golden, self.watch.golden_steps, self.store, golden != target, self._golden_changed)
        self.monitor = Monitor(self.watch.poll_s, self.say, self._folder_listed)
        self.monitor.wake = self.workers.on_done = self._wake.set
        self.hook = DivergenceHook(self.watch.on_divergence, self.store, self.say)
        self.session = self.live = LiveSession(
            self.options, self.graph, self.store, self.workers, self.catalogue, self.goldens, self._later, self._row_stored
        )
        self.golden = self.live.golden
        self.keeper = Keeper(self.watch, self.catalogue, self.goldens, self.store, self.say)
        self.tables = TableKeeper(self._write_some_tables, self.say)
        self._golden_is_other = False
        self._folder_activity = time.monotonic()
        self._replan_at = 0.0
        self._shown_at = 0.0
        if self.hook.row is not None and self.watch.stop_on_divergence:
            self._stop = "divergence"

    def stop(self, why: str) -> None:
        """End the watch as soon as what has come is compared; may be called from a signal handler."""
        # Nothing is woken: a handler that runs while this thread holds the event's lock would wait for itself. The loop looks often.
        self._stop = self._stop or why

    def follow(
        self,
        ended: Optional[Callable[[], bool]] = None,
        start: Optional[Callable[[], None]] = None,
        stopping: Optional[Callable[[], bool]] = None,
    ) -> None:
        """Compare files as they come, until the end.

        Parameters
        ----------
        ended
            Asked now and then: whether the program that makes the dumps has ended.
        start
            Called once TARGET is watched: starts that program.
        stopping
            Called again and again after the end, until it returns True: stops that program if it still runs.

        Raises
        ------
        InputError
            Nothing came at all.
        EnvironmentProblem
            The store cannot be written.
        """
        self._ended = ended
        self._over = False
        self.monitor.start()
        try:
            self.monitor.add(self.golden_root)
            self._first_listing()
            self.monitor.add(self.target_root)
            self.monitor.tick()
            self.say("watching %s; golden data in %s" % (self.options.target, self.options.golden))
            if start is not None and not self._stop:
                start()
            while not self._at_end() or (stopping is not None and not stopping()):
                if not self._turn():
                    self._wait()
            self._drain()
        finally:
            self.monitor.stop()
            self.tables.close()
            self.hook.close()

    def _first_listing(self) -> None:
        """Take the golden data that are there already before any dump is planned."""
        while (self.monitor.tick() or len(self.golden_paths)) and not self._stop:
            self._look_at_golden(4096)

    def _turn(self) -> bool:
        """Do one slice of everything; tell whether there is more to do at once."""
        self._wake.clear()
        more = self.monitor.tick()
        self._look_at_golden(_SLICE)
        self._replan_if_due()
        if self.live.queued < _MOST_QUEUED:
            paths = self.targets.take(_SLICE)
            if paths or self.live.next_due_s() == 0.0:
                with self.store.transaction():
                    for path in paths:
                        self.live.look(path)
                    self.live.due()
        self.live.dispatch()
        self.live.collect(0.0)
        self._settle_done()
        self.hook.tick()
        if self.watch.stop_on_divergence and self.hook.row is not None:
            self.stop("divergence")
        self.keeper.tick()
        self.tables.tick(self.live.changed_places)
        self._show()
        return more or len(self.golden_paths) > 0 or (len(self.targets) > 0 and self.live.queued < _MOST_QUEUED)

    def _wait(self) -> None:
        due = self.live.next_due_s()
        self._wake.wait(_IDLE_WAIT_S if due is None else min(_IDLE_WAIT_S, due))

    def _look_at_golden(self, most: int) -> None:
        paths = self.golden_paths.take(most) + self.goldens.due(time.monotonic())
        if not paths:
            return
        with self.store.transaction():
            for path in paths:
                self.goldens.look(path)
            if self._golden_is_other:
                # Rows that were found with a file's earlier content must not be believed by a later start: at once, in this transaction.
                self._golden_is_other = False
                self.live.replan()

    def _golden_changed(self) -> None:
        self._golden_is_other = True

    def _replan_if_due(self) -> None:
        now = time.monotonic()
        if self.live.waits_for_replan and now >= self._replan_at:
            with self.store.transaction():
                self.live.replan()
            self._replan_at = time.monotonic() + max(0.2, (time.monotonic() - now) / _REPLAN_SHARE)

    def _settle_done(self) -> None:
        for file in self.live.take_done():
            self.keeper.offer(file)
            if self.on_file is not None:
                self.on_file(file, [verdict for verdict, _ in self.store.verdicts_of_file(file.rel)])

    def _later(self, path: str) -> None:
        """Look again at a file below TARGET, or at a golden file that is known."""
        if self.goldens.signature(path) is not None:
            self.golden_paths.put(path)
        if path.startswith(self.target_root.path + os.sep) and not self.target_root.excludes(path):
            self.targets.put(path)

    def _folder_listed(self, folder: str) -> None:
        self.targets.put_all(self.catalogue.known_below(folder))
        self.golden_paths.put_all(self.goldens.known_below(folder))

    def _row_stored(self, row: Row) -> None:
        self._row_count += 1
        self.hook.see(row)
        if row.target_file is not None and os.sep not in row.target_file and self.store.get(_TARGET_PLACE) is None:
            self.store.set(_TARGET_PLACE, row.place)
        if self.on_row is not None:
            self.on_row(row)

    @property
    def _busy(self) -> bool:
        """Whether anything that is known of remains to be done."""
        return self.live.busy or len(self.targets) > 0 or len(self.golden_paths) > 0 or self.live.waits_for_replan

    def _at_end(self) -> bool:
        """Tell whether the watch has ended; before the last word everything is listed once more."""
        self._over = self._over or self._finds_end()
        return self._over

    def _finds_end(self) -> bool:
        if self._stop:
            return True
        if self._process is not None and self._process.ended():
            return True
        if self._ended is not None and self._ended():
            return True
        if self._busy or not self._looks_complete():
            return False
        # Something may have escaped the kernel's events.
        self.monitor.rescan()
        self._look_around()
        return not self._busy and self._looks_complete()

    def _looks_complete(self) -> bool:
        quiet = time.monotonic() - max(self.live.activity, self.goldens.changed_at)
        if self.watch.until_idle_s is not None and quiet >= self.watch.until_idle_s:
            return True
        return self.watch.expect_all and quiet >= _QUIET_S and self.live.all_come()

    def _look_around(self) -> None:
        """List everything and look at all of it."""
        while self.monitor.tick() or len(self.golden_paths) or len(self.targets):
            self._look_at_golden(_SLICE)
            paths = self.targets.take(_SLICE)
            with self.store.transaction():
                for path in paths:
                    self.live.look(path)
            if paths:
                self.live.dispatch()
                self.live.collect(0.0)
                self._show()

    def _drain(self) -> None:
        """Compare what has come, and give everything else its rows."""
        self.monitor.rescan()
        self._look_around()
        while self.live.busy:
            self._turn_of_drain()
        settle_files(self.live)
        while self.live.busy:
            self._turn_of_drain()
        nothing = not self.live.seen and not any(target for target, _ in self.store.target_files())
        if not nothing or self._ended is not None:
            finish_rows(self.live)
        if nothing:
            raise InputError(self._nothing_came(), hint="dump files are named {op_type}.{op_name}.{task_id}.{stream_id}.{timestamp}")
        self._settle_done()
        self.hook.tick()
        self.keeper.tick(last=True)
        self._note_nearest()

    def _turn_of_drain(self) -> None:
        self.live.dispatch()
        self.live.collect(0.5)
        self._settle_done()
        self.hook.tick()
        self.tables.tick(self.live.changed_places)
        self._show()

    def _nothing_came(self) -> str:
        how = "by listing it" if self.target_root.polled else "by inotify"
        there = "" if self.target_root.present else ", which never came to be"
        return "no dump file came to %s%s (watched %s for %.1f s; GOLDEN %s: %d files)" % (
            self.options.target, there, how, time.monotonic() - self.started, self.options.golden, self.goldens.seen
        )  # fmt: skip

    def _show(self) -> None:
        now = time.monotonic()
        if self.on_standing is None or now - self._shown_at < 0.2:
            return
        self._shown_at = now
        growing, missing = self.live.counts()
        progress = self.live.progress
        self.on_standing(
            Standing(
                rows=self._row_count,
                failed=progress.failed,
                waiting=growing + missing,
                queued=progress.pairs - progress.pairs_done + len(self.targets),
                bytes_done=progress.bytes_done,
                seconds=now - self.started,
                first=self.hook.row,
            )
        )

    def _write_some_tables(self, only: Optional[Set[Place]]) -> List[str]:
        columns = self.options.columns(any(found.kind in ("container", "npu", "mixed") for found in self.goldens.sets()))
        place = self.store.get(_TARGET_PLACE)
        root = None if place is None else Place(*place)
        return write_tables(self.store, columns, True, self.options.mapping, only, root)

    def write_tables(self) -> List[str]:
        """Write the result tables of what is stored."""
        self.tables.close()
        return self._write_some_tables(None)

    @property
    def stopped_by(self) -> str:
        """Return why the watch was stopped: the name of a signal, ``divergence``, or nothing."""
        return self._stop


def _below(folder: str, others: object) -> List[str]:
    """Return those of ``others`` that lie below ``folder``."""
    assert isinstance(others, tuple)
    return [other for other in others if other.startswith(folder.rstrip(os.sep) + os.sep)]
