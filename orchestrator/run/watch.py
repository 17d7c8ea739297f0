"""A watch from its start to its verdict: one loop in the main thread.

Events come from the watched folders (paths), from the processes that compare (results) and from
the engine (rows that were stored, files that are compared, files to look at again). Whatever other
threads notice they put into a mailbox; the loop takes all of it in turns, and calls what has to be
done. Each turn is yielded to the caller.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generator,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
)

from ..base.errors import InputError
from ..base.interrupts import uninterrupted
from ..base.notes import Note, note
from ..base.system import Process
from ..base.user_code import user_code_pids
from ..dumps.dump_index import DumpIndex, indexes_of
from ..dumps.dump_tree import ALL_TIMES, DumpTree
from ..dumps.folder_listing import is_folder
from ..dumps.statistics_csv import is_statistics_file
from ..kinds.wrong_kind_advice import exchanged, watched_without_dumps, without_dumps
from ..metrics.row import FAIL, Row
from ..model.row_plan import OUTPUT
from ..store.facts_and_events import PROVISIONAL
from ..store.row_schema import LAST_GIVEN_ID, to_sql_text
from .arriving_files import Arrivals
from .comparison_options import ComparisonOptions
from .divergence_hook import DivergenceHook
from .dump_deletion import DumpDeleter
from .progress import OnStage
from .provisional import Provisional
from .recomputation import NONE
from .recompute_before_delete import EarlyRecomputation
from .result import RunResult
from .rows_at_the_end import finish_rows, settle
from .watch_options import KEEP_ALL, WatchOptions
from .watch_progress import ProgressMeter, WatchProgress
from .watched_folders import Folders
from .whole_run import Run
from .write_report import TableUpdater

if TYPE_CHECKING or sys.version_info >= (3, 8):
    from typing import Protocol
else:
    Protocol = object

# Paths that are looked at before finished pairs are stored and signals seen; then how long the loop
# sleeps at most, how long nothing may come before all has, and what planning again may take of the
# time. Chosen, no trial.
_SLICE = 256
_IDLE_WAIT_S = 0.1
_QUIET_S = 1.0
_REPLAN_SHARE = 0.2
_TIMES = "times"


class Turn(NamedTuple):
    """What has come of one turn of the loop.

    Attributes
    ----------
    rows
        That were stored, in this order, and of each whether nothing that comes later can change its
        verdict.
    progress
        How far the watch is; None where that was told just before.
    """

    rows: Sequence[Tuple[Row, bool]] = ()
    progress: Optional[WatchProgress] = None


class WatchedProgram(Protocol):
    """The program that makes the dumps, where the watch starts and stops it."""

    def start(self) -> None:
        """Start it; called once TARGET is watched."""

    def ended(self) -> bool:
        """Tell whether it has ended."""

    def stopping(self, leave: bool) -> bool:
        """Stop it if it still runs; called again and again until it returns True: it has ended.

        Parameters
        ----------
        leave
            Nobody has asked for the end: it may take its time.
        """


class Watch:
    """An open watch: a context manager; :meth:`turns` ends when it has ended.

    Parameters
    ----------
    options, jobs, force
        As for :class:`goldwatch.run.whole_run.Run`.
    watch
        How files are waited for, and when that ends.
    say
        Takes sentences for the user as soon as they are known, from any thread.
    on_divergence
        Called once per OUT with the first failing row that is final; None: nobody is told.
    """

    def __init__(
        self,
        options: ComparisonOptions,
        watch: Optional[WatchOptions] = None,
        jobs: int = 1,
        force: bool = False,
        say: Callable[[str], None] = lambda text: None,
        on_divergence: Optional[Callable[[Row], None]] = None,
    ) -> None:
        self.options = options = options.of_statistics()
        self._on_divergence = on_divergence
        self.watch = watch or WatchOptions()
        self.watch.check(options)
        self.say = say
        self._wake = threading.Event()
        self.run = Run(
            options, jobs, force, self.watch.identity(options), list_stored=True, wake=self._wake
        )
        self.run.tables_when_interrupted = False
        self._program: Optional[WatchedProgram] = None
        self._stop = ""
        self._over = False
        self._unseen = False
        self._rows: List[Tuple[Row, bool]] = []

    def __enter__(self) -> Watch:
        self.options.require_dumps(to_come=True)
        # Of what is there now: files come.
        advice = exchanged(*indexes_of(self.options.target, self.options.golden))
        if advice is not None:
            raise InputError(
                "TARGET: %s: %s" % (self.options.target, advice.words), hint=advice.hint
            )
        self._process = Process(self.watch.pid) if self.watch.pid is not None else None
        self.run.__enter__()
        try:
            self.run.open(self.run.graphs)
            self._set_up()
            self._report_start()
        except BaseException as error:
            self.run.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.run.__exit__(kind, error, trace)

    def _set_up(self) -> None:
        run = self.run
        self.store, self.engine, self.catalogue, self.goldens = (
            run.store,
            run.engine,
            run.catalogue,
            run.goldens,
        )
        self.folders = Folders(
            self.options,
            self.watch.poll_s,
            self.say,
            self._wake,
            self.catalogue,
            self.goldens,
            self.watch.left_alone,
        )
        run.workers.start()
        self._leave_earlier_times()
        self.engine.continue_store(keep_gone=True)
        self.arrivals = Arrivals(self.engine, self.folders)
        self.provisional = Provisional(
            self.engine, lambda: not self.folders.waiting and not self.folders.monitor.listing
        )
        for row in self.store.rows("arrival", verdict=FAIL) if self.store.continued else ():
            self.provisional.see(row)
        self.provisional.settled(at_once=True)
        self.hook = DivergenceHook(
            self.watch.on_divergence, self.store, self.say, self._on_divergence
        )
        self._find_first_failing()
        self.meter = ProgressMeter(
            self.engine, self.arrivals, self.folders, self.store, self.provisional
        )
        computes = self.watch.keep != KEEP_ALL and run.options.recompute != NONE
        ahead = EarlyRecomputation(self.engine, run.recomputation()) if computes else None
        self.keeper = DumpDeleter(self.watch, self.engine, self.say, self.provisional, ahead)
        self.tables = TableUpdater(run, self.say)
        self._replan_at = 0.0
        if self.hook.row is not None and self.watch.stop_on_divergence:
            self._stop = "divergence"

    def _report_start(self) -> None:
        target = self.options.target
        # Statistics in place of dumps are compared.
        index = DumpIndex(target, "TARGET")
        advice = None if index.holds_statistics else watched_without_dumps(index)
        if advice is not None:
            self.say(note("no-dumps-yet", target, *advice))
        for known in self.run.notes:
            self.say(known)
        if self._process is not None and self._process.ended():
            self.say(note("no-process", self._process.pid))

    def _leave_earlier_times(self) -> None:
        """Of the time folders that are there before the start only the newest counts, besides those
        that came in an earlier watch.
        """
        chosen = self.options.time
        if chosen not in (None, ALL_TIMES):
            self.catalogue.only_time = chosen
        if chosen == ALL_TIMES or not is_folder(self.options.target):
            return
        tree = DumpTree(self.options.target, chosen)
        known = {tuple(key) for key in self.store.get(_TIMES, [])} if chosen is None else set()
        tree.left = [step_folder for step_folder in tree.left if step_folder.place.run not in known]
        self.catalogue.left = {step_folder.place.run for step_folder in tree.left}
        # Those that the caller leaves alone it has told.
        tree.left = [
            step_folder
            for step_folder in tree.left
            if not _is_within(step_folder.folder, self.watch.left_alone)
        ]
        self._note_left_out(tree.left_notes)

    def own_pids(self) -> List[int]:
        """Return the processes that the watch itself has started."""
        return self.run.workers.pids() + user_code_pids() + self.hook.pids()

    def stop(self, why: str) -> None:
        """End the watch as soon as what has come is compared; may be called from a signal
        handler.
        """
        # Nothing is woken: a handler that runs while this thread holds the event's lock would wait
        # for itself. The loop looks often.
        self._stop = self._stop or why

    def follow(self) -> None:
        """Do as :meth:`turns`, and return at the end."""
        for _ in self.turns():
            pass

    def turns(self, program: Optional[WatchedProgram] = None) -> Generator[Turn, None, None]:
        """Compare files as they come, until the end; yield after each slice of work what has come
        of it. Must be closed where it is left early.

        Parameters
        ----------
        program
            Makes the dumps; the watch ends with it. None: somebody else does.

        Raises
        ------
        InputError
            Nothing came at all.
        EnvironmentProblem
            The store cannot be written.
        """
        self._program = program
        try:
            self.folders.monitor.start()
            self.folders.monitor.add(self.folders.golden_root)
            self._first_listing()
            self.folders.monitor.add(self.folders.target_root)
            self._tick_folders()
            self.say("watching %s; golden data in %s" % (self.options.target, self.options.golden))
            if program is not None and not self._stop:
                program.start()
            while True:
                yield from self._seek_end()
                if self._over and (program is None or program.stopping(leave=not self._stop)):
                    break
                if not self._turn():
                    self._wait()
                yield self._take_turn()
            yield from self._finish_comparing()
        finally:
            if not self.run.workers.forked:
                self._end_threads()

    def _end_threads(self) -> None:
        try:
            self.hook.close()
        finally:
            with uninterrupted():
                self.folders.monitor.stop()
                self.tables.close()

    def _first_listing(self) -> None:
        """Take the golden data that are there already before any dump is planned."""
        while (self._tick_folders() or self.folders.goldens) and not self._stop:
            self._look_at_golden(4096)

    def _tick_folders(self) -> bool:
        """List for a moment what is to be listed; tell whether more is to be listed."""
        more = self.folders.tick()
        if self.folders.take_moved():
            # A later start, when the link is there, has to find its own run in OUT.
            self.store.set("inputs", self.watch.identity(self.options))
        return more

    def _turn(self) -> bool:
        """Do one slice of everything; tell whether there is more to do at once."""
        self._wake.clear()
        more = self._tick_folders()
        self._look_at_golden(_SLICE)
        self._replan_if_due()
        if not self.engine.queue.full:
            paths = self.folders.targets.take(_SLICE)
            if paths or self.arrivals.next_due_s() == 0.0:
                with self.store.transaction():
                    self._look(paths)
                    self.arrivals.due()
        self._compare(0.0)
        self._tick_hook()
        if self.watch.stop_on_divergence and self.hook.row is not None:
            self.stop("divergence")
        self.keeper.tick()
        self.tables.tick(self.engine.changed_places)
        return (
            more
            or bool(self.folders.goldens)
            or (bool(self.folders.targets) and not self.engine.queue.full)
        )

    def _compare(self, timeout_s: float) -> None:
        """Hand out pairs, store what is compared, and take what the engine says of it."""
        self.engine.dispatch()
        self.engine.collect(timeout_s)
        self._note_stored()
        for file in self.engine.take_completed():
            self.keeper.offer(file)
        self._take_look_again()

    def _take_look_again(self) -> None:
        for again in self.engine.take_look_again():
            self.arrivals.look_again(again)

    def _note_stored(self) -> None:
        for row in self.engine.take_stored():
            final = self.provisional.see(row)
            self.meter.see(row)
            if final and row.kind == OUTPUT:
                self.hook.see(row)
            elif final and row.verdict == FAIL:
                # Of an op's input nothing is said before the op's outputs are known.
                self._unseen = True
            self._rows.append((row, final))

    def _take_turn(self, last: bool = False) -> Turn:
        """Return what has happened since the last turn."""
        turn = Turn(self._rows, self.meter.measure(last))
        self._rows = []
        return turn

    def _look(self, paths: Sequence[str]) -> None:
        places = len(self.engine.places)
        for path in paths:
            if self.catalogue.statistics is None and is_statistics_file(path):
                self._take_statistics()
            self.arrivals.look(path)
        if len(self.engine.places) != places:
            self.store.set(
                _TIMES,
                sorted(
                    {place.run for place in self.engine.places if place.time is not None}, key=str
                ),
            )

    def _take_statistics(self) -> None:
        """The first file tells that statistics come in place of dumps: these have columns of their
        own.
        """
        said = note("statistics")
        self.say(said)
        self.run.notes.append(said)
        if self.options.metrics != self.options.of_statistics(known=True).metrics:
            self.options = self.run.options = self.options.of_statistics(known=True)
            self.store.set("inputs", self.watch.identity(self.options))
            self.run.prepare_rows()

    def _wait(self) -> None:
        due = self.arrivals.next_due_s()
        self._wake.wait(_IDLE_WAIT_S if due is None else min(_IDLE_WAIT_S, due))

    def _look_at_golden(self, most: int) -> None:
        paths = self.folders.goldens.take(most) + self.goldens.due(time.monotonic())
        if not paths:
            return
        with self.store.transaction():
            for path in paths:
                if not self.goldens.look(path) and os.path.islink(path) and os.path.isdir(path):
                    self.folders.golden_links.follow(path)
            if self.goldens.changed:
                # A later start must not reuse rows that come of a file's earlier content: they are
                # marked at once, in this transaction.
                self._replan()

    def _replan_if_due(self) -> None:
        now = time.monotonic()
        if self.engine.waits_for_replan and now >= self._replan_at:
            with self.store.transaction():
                self._replan()
            self._replan_at = time.monotonic() + max(0.2, (time.monotonic() - now) / _REPLAN_SHARE)

    def _replan(self) -> None:
        self.goldens.changed = False
        for file in self.engine.files_to_replan():
            self.arrivals.consider(file, settled=True)

    def _tick_hook(self) -> None:
        if self.provisional.settled() or self._unseen:
            self._find_first_failing()
        self._note_provisional()
        self.hook.tick()

    def _note_provisional(self) -> None:
        """Note in the store which failing rows are provisional, for those who read it."""
        keys = self.provisional.news()
        if keys is not None:
            ids = [
                number
                for key in keys
                for (number,) in self.store.query(
                    "SELECT id FROM row WHERE key = ?", (to_sql_text(key),)
                )
            ]
            upto = self.store.query(LAST_GIVEN_ID)
            self.store.set(PROVISIONAL, {"upto": upto[0][0] if upto else 0, "ids": ids})

    def _find_first_failing(self) -> None:
        """Show the failing rows that are final to the hook, of those that are stored; an input's
        only where all rows of its file are final.
        """
        self._unseen = False
        if self.hook.acted:
            return
        for row in self.store.rows("arrival", verdict=FAIL):
            if row in self.provisional:
                continue
            file = None if row.kind == OUTPUT else self.catalogue.of_row(row.target_file)
            if file is not None and (file.pending or self.provisional.holds(file)):
                self._unseen = True
            else:
                self.hook.see(row)

    @property
    def _busy(self) -> bool:
        return self.engine.busy or self.folders.waiting or self.engine.waits_for_replan

    def _seek_end(self) -> Iterator[Turn]:
        """Find out whether the watch has ended; before the last word everything is listed once
        more.
        """
        if self._over or self._is_ended():
            self._over = True
        elif not self._busy and self._looks_complete():
            # Something may have escaped the kernel's events.
            self.folders.monitor.rescan()
            yield from self._look_around()
            self._over = not self._busy and self._looks_complete()

    def _is_ended(self) -> bool:
        """Tell whether the watch was stopped, or the program that makes the dumps has ended."""
        return (
            bool(self._stop)
            or (self._process is not None and self._process.ended())
            or (self._program is not None and self._program.ended())
        )

    def _looks_complete(self) -> bool:
        quiet = time.monotonic() - max(self.arrivals.activity, self.goldens.changed_at)
        # A program may take its time before its first dump.
        counts = self.arrivals.file_count > 0 or any(self.store.table.target_files())
        if self.watch.until_idle_s is not None and counts and quiet >= self.watch.until_idle_s:
            return True
        return self.watch.expect_all and quiet >= _QUIET_S and self.arrivals.all_come()

    def _look_around(self) -> Iterator[Turn]:
        """List everything and look at all of it, in time slices."""
        while self._tick_folders() or self.folders.waiting:
            self._look_at_golden(_SLICE)
            paths = self.folders.targets.take(_SLICE)
            with self.store.transaction():
                self._look(paths)
            self._take_look_again()
            if paths:
                self._compare(0.0)
                yield self._take_turn()

    def _finish_comparing(self) -> Iterator[Turn]:
        """Compare what has arrived, and add the rows of everything else."""
        self.folders.monitor.rescan()
        yield from self._look_around()
        yield from self._compare_queued()
        with self.store.transaction():
            self.goldens.close()
            self._replan()
        self._note_left_out(self.catalogue.came_and_left())
        self._note_left_out(settle(self.engine))
        yield from self._compare_queued()
        nothing = not self.arrivals.file_count and not any(self.store.table.target_files())
        if not nothing or self._program is not None:
            self._finish_rows()
        if nothing:
            raise self._nothing_came()
        self._compare(0.0)
        self.provisional.close()
        self._note_provisional()
        self._find_first_failing()
        self.hook.tick()
        yield self._take_turn(last=True)
        self.keeper.tick(last=True)
        self._note_left_out(self.run.unpaired())

    def _finish_rows(self) -> None:
        there = is_folder(self.options.target)
        tree = DumpTree(self.options.target, ALL_TIMES, None if there else [])
        self.run.overflow = tree.overflow
        root = self.folders.target_root
        empty = [
            step_folder
            for step_folder in tree.empty
            if not self.catalogue.is_left(step_folder.place)
        ]
        finish_rows(
            self.engine,
            [
                step_folder
                for step_folder in empty
                if not root.excludes(os.path.join(root.path, step_folder.rel))
            ],
            [
                (rel, why)
                for rel, why in tree.unlisted
                if not root.excludes(os.path.join(root.path, rel))
            ],
        )
        self.run.judge_rows(by_names=True)

    def _note_left_out(self, notes: Sequence[Note]) -> None:
        for left in notes:
            self.run.left_out.append(left)
            self.say(left)

    def _compare_queued(self) -> Iterator[Turn]:
        while self.engine.busy:
            self._compare(0.5)
            self._tick_hook()
            self.tables.tick(self.engine.changed_places)
            yield self._take_turn()

    def _nothing_came(self) -> InputError:
        root = self.folders.target_root
        how = "by listing it" if root.polled else "by inotify"
        there = "" if root.present else ", which never came to be"
        message = "no dump file came to %s%s (watched %s for %.1f s; GOLDEN %s: %d files)" % (
            self.options.target, there, how, time.monotonic() - self.meter.started,
            self.options.golden, self.goldens.file_count
        )  # fmt: skip
        advice = without_dumps(*indexes_of(self.options.target, self.options.golden))
        hint = "%s; whether the program dumps: goldwatch config check acl.json (or its script)"
        return InputError("; ".join(filter(None, [message, advice.words])), hint=hint % advice.hint)

    def finish(
        self,
        program: Optional[Mapping[str, Any]] = None,
        on_stage: OnStage = lambda stage, done, total: None,
    ) -> RunResult:
        """Write all result files and judge the run; parameters as for
        :meth:`goldwatch.run.whole_run.Run.finish`.
        """
        self.tables.close()
        return self.run.finish(program, on_stage)

    @property
    def stopped_by(self) -> str:
        """Return why the watch was stopped: the name of a signal, ``divergence``, or nothing."""
        return self._stop


def _is_within(folder: str, others: Sequence[str]) -> bool:
    path = os.path.realpath(folder) + os.sep
    return any(path.startswith(os.path.realpath(other) + os.sep) for other in others)
