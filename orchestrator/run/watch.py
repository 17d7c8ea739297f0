"""A watch from its start to its verdict: one loop in the main thread feeds the engine with the
files that arrive.
"""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Type

from ..dumps.tree import ALL_TIMES, DumpTree, tree_of
from ..errors import InputError
from ..interrupts import uninterrupted
from ..kinds.advice import exchanged, without_dumps, without_dumps_so_far
from ..metrics.row import FAIL, Row
from ..processes.user_code import user_code_pids
from ..statistics_dumps.table import is_statistics_file
from ..store.records import PROVISIONAL
from ..store.row_schema import to_sql_text
from .addresses import note_regions
from .ahead import Ahead
from .arrivals import Arrivals
from .closing import finish_rows, settle
from .comparison import Run
from .ends import Process
from .engine import OnRow
from .folders import Folders
from .hook import DivergenceHook
from .keep import Keeper
from .listed import BY_STATISTICS
from .options import ComparisonOptions
from .progress import OnStage
from .provisional import Provisional
from .recomputation import NONE
from .result import RunResult
from .tables import TableKeeper
from .target_file import TargetFile
from .watch_options import KEEP_ALL, WatchOptions
from .watch_progress import Standings, WatchProgress

_SLICE = 256
_IDLE_WAIT_S = 0.1
_QUIET_S = 1.0
_REPLAN_SHARE = 0.2
_TIMES = "times"


class Watch:
    """An open watch: a context manager; :meth:`follow` returns when it has ended.

    Parameters
    ----------
    options, jobs, force
        As for :class:`goldwatch.run.comparison.Run`.
    watch
        How files are waited for, and when that ends.
    command
        ``watch`` or ``run``: an OUT of the one is not continued by the other.
    say
        Takes sentences for the user, as they come.
    on_row
        Called with each row that has just been stored.
    on_file
        Called with each file that is compared and the verdicts of its rows.
    on_standing
        Called several times a second.
    left_alone
        Folders below TARGET that are not looked at.
    on_divergence
        Called once per OUT with the first failing row that is final.
    """

    def __init__(
        self,
        options: ComparisonOptions,
        jobs: int = 1,
        force: bool = False,
        watch: Optional[WatchOptions] = None,
        command: str = "watch",
        say: Callable[[str], None] = lambda text: None,
        on_row: Optional[OnRow] = None,
        on_file: Optional[Callable[[TargetFile, List[str]], None]] = None,
        on_standing: Optional[Callable[[WatchProgress], None]] = None,
        left_alone: Sequence[str] = (),
        on_divergence: Optional[Callable[[Row], None]] = None,
    ) -> None:
        self.on_divergence = on_divergence
        self.options = options = options.of_statistics()
        self.watch = watch or WatchOptions()
        self.watch.check(options)
        self.say = say
        self.on_row = on_row
        self.on_file = on_file
        self.on_standing = on_standing
        self.left_alone = list(left_alone)
        self.command = command
        self.run = Run(
            options, jobs, force, self._row_stored, self.watch.identity(options, command)
        )
        self.run.tables_when_interrupted = False
        self._stop = ""
        self._wake = threading.Event()

    def __enter__(self) -> Watch:
        self.options.require_dumps(to_come=True)
        advice = exchanged(self.options.target, self.options.golden)
        if advice is not None:
            raise InputError(
                "TARGET: %s: %s" % (self.options.target, advice.words), hint=advice.hint
            )
        self._process = Process(self.watch.pid) if self.watch.pid is not None else None
        self.run.__enter__()
        try:
            self._set_up()
            self._tell_start()
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
            self.left_alone,
        )
        # A later start, when the link is there, finds its own run in OUT.
        self.folders.on_move = lambda: self.store.set(
            "inputs", self.watch.identity(self.options, self.command)
        )
        run.workers.on_done = self._wake.set
        run.workers.start()
        self.goldens.on_change = self._golden_changed
        self._leave_earlier_times()
        self.engine.continue_store(keep_gone=True)
        self.arrivals = Arrivals(
            self.engine, self.folders.look_again, self.folders.target_links.follow
        )
        self.arrivals.seen = len(self.catalogue.files)
        self.provisional = Provisional(self.engine)
        for row in self.store.rows("arrival", verdict=FAIL) if self.store.continued else ():
            self.provisional.see(row)
        self.provisional.settled(at_once=True)
        self.hook = DivergenceHook(
            self.watch.on_divergence, self.store, self.say, self.on_divergence
        )
        self._find_first_failing()
        self.standings = Standings(
            self.on_standing, self.engine, self.arrivals, self.folders, self.store, self.provisional
        )
        before = note_regions if run.options.check_addresses else lambda file: None
        computes = self.watch.keep != KEEP_ALL and run.options.recompute != NONE
        ahead = Ahead(self.engine, run.recomputation()) if computes else None
        self.keeper = Keeper(
            self.watch,
            self.catalogue,
            self.goldens,
            self.store,
            self.say,
            before,
            self.provisional.holds,
            ahead,
        )
        self.tables = TableKeeper(run.write_tables, self.say)
        self._golden_is_other = False
        self._replan_at = 0.0
        if self.hook.row is not None and self.watch.stop_on_divergence:
            self._stop = "divergence"

    def _tell_start(self) -> None:
        advice = without_dumps_so_far(self.options.target)
        if advice is not None:
            self.say(
                "warning: TARGET: %s: no dump file so far: %s; %s" % (self.options.target, *advice)
            )
        for note in self.run.notes:
            self.say(note if note.startswith("warning") else "note: " + note)
        if self._process is not None and self._process.ended():
            self.say(
                "warning: there is no process %d: what is there is compared and judged"
                % self._process.pid
            )

    def _leave_earlier_times(self) -> None:
        """Of the time folders that are there before the start only the newest counts, besides those
        that came in an earlier watch.
        """
        wanted = self.options.time
        if wanted not in (None, ALL_TIMES):
            self.catalogue.only_time = wanted
        if wanted == ALL_TIMES or not os.path.isdir(self.options.target):
            return
        tree = DumpTree(self.options.target, wanted)
        known = {tuple(key) for key in self.store.get(_TIMES, [])} if wanted is None else set()
        tree.left = [combo for combo in tree.left if combo.place.run not in known]
        self.catalogue.left = {combo.place.run for combo in tree.left}
        # Those that the caller leaves alone it has told.
        tree.left = [combo for combo in tree.left if not _is_within(combo.folder, self.left_alone)]
        self._tell_left_out(tree.left_notes)

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
            Called again and again after the end, until it returns True: stops that program if it
            still runs.

        Raises
        ------
        InputError
            Nothing came at all.
        EnvironmentProblem
            The store cannot be written.
        """
        for _ in self.turns(ended, start, stopping):
            pass

    def turns(
        self,
        ended: Optional[Callable[[], bool]] = None,
        start: Optional[Callable[[], None]] = None,
        stopping: Optional[Callable[[], bool]] = None,
    ) -> Iterator[None]:
        """Do as :meth:`follow`, and yield after every slice of work, so that the caller can take
        the rows that have come.
        """
        self._ended = ended
        self._over = False
        try:
            self.folders.monitor.start()
            self.folders.monitor.add(self.folders.golden_root)
            self._first_listing()
            self.folders.monitor.add(self.folders.target_root)
            self.folders.monitor.tick()
            self.say("watching %s; golden data in %s" % (self.options.target, self.options.golden))
            if start is not None and not self._stop:
                start()
            while True:
                yield from self._seek_end()
                if self._over and (stopping is None or stopping()):
                    break
                if not self._turn():
                    self._wait()
                yield
            yield from self._drain()
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
        while (self.folders.monitor.tick() or self.folders.goldens) and not self._stop:
            self._look_at_golden(4096)

    def _turn(self) -> bool:
        """Do one slice of everything; tell whether there is more to do at once."""
        self._wake.clear()
        more = self.folders.monitor.tick()
        self._look_at_golden(_SLICE)
        self._replan_if_due()
        if not self.engine.queue.full:
            paths = self.folders.targets.take(_SLICE)
            if paths or self.arrivals.next_due_s() == 0.0:
                with self.store.transaction():
                    self._look(paths)
                    self.arrivals.due()
        self.engine.dispatch()
        self.engine.collect(0.0)
        self._settle_done()
        self._tick_hook()
        if self.watch.stop_on_divergence and self.hook.row is not None:
            self.stop("divergence")
        self.keeper.tick()
        self.tables.tick(self.engine.changed_places)
        self.standings.tell()
        return (
            more
            or bool(self.folders.goldens)
            or (bool(self.folders.targets) and not self.engine.queue.full)
        )

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
        self.say("note: " + BY_STATISTICS)
        self.run.notes.append(BY_STATISTICS)
        if self.options.metrics != self.options.of_statistics(told=True).metrics:
            self.options = self.run.options = self.options.of_statistics(told=True)
            self.store.set("inputs", self.watch.identity(self.options, self.command))
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
            if self._golden_is_other:
                # Rows that were found with a file's earlier content must not be believed by a later
                # start: at once, in this transaction.
                self._golden_is_other = False
                self._replan()

    def _golden_changed(self) -> None:
        self._golden_is_other = True

    def _replan_if_due(self) -> None:
        now = time.monotonic()
        if self.engine.waits_for_replan and now >= self._replan_at:
            with self.store.transaction():
                self._replan()
            self._replan_at = time.monotonic() + max(0.2, (time.monotonic() - now) / _REPLAN_SHARE)

    def _replan(self) -> None:
        self.engine.replan(lambda file: self.arrivals.consider(file, settled=True))

    def _settle_done(self) -> None:
        for file in self.engine.take_done():
            self.keeper.offer(file)
            if self.on_file is not None:
                self.on_file(file, self.store.table.verdicts_of_file(file.rel))

    def is_final(self, row: Row) -> bool:
        """Tell whether nothing that comes later can change a stored row's verdict, but for other
        dumps of its op.
        """
        return row not in self.provisional

    def _tick_hook(self) -> None:
        if self.provisional.settled():
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
            upto = self.store.query("SELECT seq FROM sqlite_sequence WHERE name = 'row'")
            self.store.set(PROVISIONAL, {"upto": upto[0][0] if upto else 0, "ids": ids})

    def _find_first_failing(self) -> None:
        """Take the first failing row by arrival that is final, of those that are stored."""
        if self.hook.row is None:
            row = next(
                (row for row in self.store.rows("arrival", verdict=FAIL) if self.is_final(row)),
                None,
            )
            if row is not None:
                self.hook.see(row)

    def _row_stored(self, row: Row) -> None:
        final = self.provisional.see(row)
        self.standings.see(row)
        if final:
            self.hook.see(row)
        if self.on_row is not None:
            self.on_row(row)

    @property
    def _busy(self) -> bool:
        """Whether anything that is known of remains to be done."""
        return self.engine.busy or self.folders.waiting or self.engine.waits_for_replan

    def _seek_end(self) -> Iterator[None]:
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
            or (self._ended is not None and self._ended())
        )

    def _looks_complete(self) -> bool:
        quiet = time.monotonic() - max(self.arrivals.activity, self.goldens.changed_at)
        # A program may take its time before its first dump.
        counts = self.arrivals.seen > 0 or any(self.store.table.target_files())
        if self.watch.until_idle_s is not None and counts and quiet >= self.watch.until_idle_s:
            return True
        return self.watch.expect_all and quiet >= _QUIET_S and self.arrivals.all_come()

    def _look_around(self) -> Iterator[None]:
        """List everything and look at all of it, in slices."""
        while self.folders.monitor.tick() or self.folders.waiting:
            self._look_at_golden(_SLICE)
            paths = self.folders.targets.take(_SLICE)
            with self.store.transaction():
                self._look(paths)
            if paths:
                self.engine.dispatch()
                self.engine.collect(0.0)
                self.standings.tell()
                yield

    def _drain(self) -> Iterator[None]:
        """Compare what has come, and give everything else its rows."""
        self.folders.monitor.rescan()
        yield from self._look_around()
        yield from self._compare_queued()
        with self.store.transaction():
            self.goldens.close()
            self._replan()
        self._tell_left_out(self.catalogue.came_and_left())
        self._tell_left_out(settle(self.engine))
        yield from self._compare_queued()
        nothing = not self.arrivals.seen and not any(self.store.table.target_files())
        if not nothing or self._ended is not None:
            self._finish_rows()
        if nothing:
            raise self._nothing_came()
        self._settle_done()
        self.provisional.close()
        self._note_provisional()
        self._find_first_failing()
        self.hook.tick()
        self.standings.tell(last=True)
        self.keeper.tick(last=True)
        self._tell_left_out(self.run.unpaired())

    def _finish_rows(self) -> None:
        there = os.path.isdir(self.options.target)
        tree = (
            DumpTree(self.options.target, ALL_TIMES) if there else tree_of(self.options.target, [])
        )
        root = self.folders.target_root
        empty = [combo for combo in tree.empty if not self.catalogue.is_left(combo.place)]
        finish_rows(
            self.engine,
            [combo for combo in empty if not root.excludes(os.path.join(root.path, combo.rel))],
            [
                (rel, why)
                for rel, why in tree.unlisted
                if not root.excludes(os.path.join(root.path, rel))
            ],
        )
        self.run.judge_rows(by_names=True)

    def _tell_left_out(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.run.left_out.append(text)
            self.say("warning: " + text)

    def _compare_queued(self) -> Iterator[None]:
        while self.engine.busy:
            self.engine.dispatch()
            self.engine.collect(0.5)
            self._settle_done()
            self._tick_hook()
            self.tables.tick(self.engine.changed_places)
            self.standings.tell()
            yield

    def _nothing_came(self) -> InputError:
        root = self.folders.target_root
        how = "by listing it" if root.polled else "by inotify"
        there = "" if root.present else ", which never came to be"
        said = "no dump file came to %s%s (watched %s for %.1f s; GOLDEN %s: %d files)" % (
            self.options.target, there, how, time.monotonic() - self.standings.started,
            self.options.golden, self.goldens.seen
        )  # fmt: skip
        advice = without_dumps(self.options.target, self.options.golden)
        return InputError("; ".join(filter(None, [said, advice.words])), hint=advice.hint)

    def finish(
        self,
        program: Optional[Mapping[str, Any]] = None,
        on_stage: OnStage = lambda stage, done, total: None,
    ) -> RunResult:
        """Write all result files and judge the run; parameters as for
        :meth:`goldwatch.run.comparison.Run.finish`.
        """
        self.tables.close()
        return self.run.finish(program, on_stage)

    @property
    def stopped_by(self) -> str:
        """Return why the watch was stopped: the name of a signal, ``divergence``, or nothing."""
        return self._stop


def _is_within(folder: str, others: Sequence[str]) -> bool:
    """Tell whether a folder is one of others, or below one."""
    path = os.path.realpath(folder) + os.sep
    return any(path.startswith(os.path.realpath(other) + os.sep) for other in others)
