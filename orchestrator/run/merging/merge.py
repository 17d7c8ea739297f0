"""A merge from its start to its verdict: one loop looks at the hosts' runs and takes what is
new.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from functools import partial
from types import TracebackType
from typing import Callable, Dict, NamedTuple, Optional, Set, Tuple, Type

from ...base.errors import InputError, Interrupted
from ...base.interrupts import InterruptState, caused_by_interrupt, interrupt_state
from ...base.notes import note
from ...base.wording import listed, plural
from ...judging.diagnosis.summary import exit_code
from ...metrics.row import FAIL, Row
from ...model.row_plan import OUTPUT
from ...reports.counts_by_place import PlaceCounts, worst_first
from ...reports.csv_tables import STEP_OP_FILE, write_step_ops
from ...reports.result_files import ResultFiles
from ...store.row_sql import row_key
from ...store.store import RunStore
from ..divergence_hook import DivergenceHook
from ..progress import OnStage
from ..result import RunResult
from ..run_status import keep_judgement, stored_options
from ..verdict_over_hosts import judge_hosts
from .host_run_reader import (
    NO_ANSWER,
    RUNNING,
    SILENT,
    WAITING,
    HostRun,
    HostRunReader,
    ReadPosition,
    RunPosition,
    Unreadable,
)
from .host_summaries import note_graphs, note_what_hosts_say
from .merged_store import MergedStore
from .new_row_batches import Batches, RowRange
from .options import MergeOptions

_REPORT_S = 0.2
_SHARE = 10
"""What was taken out is counted anew in at most about a tenth of the time."""

_PATIENCE_S = 5.0
_QUIET_S = 60.0
_NAMED = 10


def _taken_out(reader: HostRunReader, after: int) -> Tuple[Tuple[Set[str], int], int]:
    return reader.taken_out(after), reader.void()


class MergeProgress(NamedTuple):
    """How far a merge is: rows of all hosts, those that fail, hosts by state, and the first failing
    row.
    """

    rows: int
    failed: int
    states: Dict[str, int]
    first: Optional[Row]


class Merge:
    """An open merge: a context manager; :meth:`follow` returns when it has ended.

    Parameters
    ----------
    options
        The runs, and when the merge ends.
    force
        Discard other results in OUT.
    say
        Takes sentences for the user, as they come.
    on_row
        Called with each row that did not pass and has just been stored.
    on_progress
        Called several times a second.
    on_divergence
        As for :class:`goldwatch.run.watch.Watch`; rows are final as at their hosts.
    """

    def __init__(
        self,
        options: MergeOptions,
        force: bool = False,
        say: Callable[[str], None] = lambda text: None,
        on_row: Callable[[Row], None] = lambda row: None,
        on_progress: Callable[[MergeProgress], None] = lambda standing: None,
        on_divergence: Optional[Callable[[Row], None]] = None,
    ) -> None:
        self.on_divergence = on_divergence
        self.options = options
        self.force = force
        self.say = say
        self.on_row = on_row
        self.on_progress = on_progress
        self.sources = [HostRun(host, folder) for host, folder in options.hosts.items()]
        self._by_host = {source.host: source for source in self.sources}
        self._stop = ""
        self._wake = threading.Event()
        self._fresh: Set[str] = {source.host for source in self.sources}
        self._states = {source.host: WAITING for source in self.sources}
        self._compared: Dict[str, Tuple[int, int]] = {}
        self._activity = self._reported_at = time.monotonic()
        self._take_back_at = 0.0
        self._all_ended_said = False
        self._failing = False
        self._shown_at = self._showing_s = 0.0
        self._troubles: Dict[str, str] = {}
        self._quiet: Set[str] = set()
        self._again_at: Dict[str, float] = {}

    def __enter__(self) -> Merge:
        self._entered = interrupt_state()
        for source in self.sources:
            # What cannot be merged is refused before OUT is touched.
            source.refuse_foreign()
            source.look()
        self.store = RunStore.begin(
            self.options.out, self.options.identity(), self.force, hosts=True
        )
        try:
            self.merged = MergedStore(self.store, self.options.max_rows)
            for known in self.store.notes:
                self.say(known)
            damaged = len(self.store.events.all("damaged"))
            if damaged > self.store.get("damaged_lines", 0):
                # What a lost line counted cannot be told: all is merged anew.
                self.merged.start_over()
                self.store.set("damaged_lines", damaged)
            self.hook = DivergenceHook(
                self.options.on_divergence, self.store, self.say, self.on_divergence
            )
            self._failing = self.store.continued
            self._show_failing()
            self._batches = Batches(self.merged, self.sources)
            if self.hook.row is not None and self.options.stop_on_divergence:
                self._stop = "divergence"
        except BaseException:
            self.store.close()
            raise
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # Kept no longer: an error holds all that was on the stack where it was raised.
        entered, self._entered = self._entered, InterruptState()
        try:
            self.hook.close()
            if caused_by_interrupt(error, entered):
                text = "interrupted: what was merged is stored in %s" % self.options.out
                raise Interrupted(text, hint="the same command goes on where this one stopped")
        finally:
            self.store.close()
            for source in self.sources:
                source.close()

    def stop(self, why: str) -> None:
        """End the merge as soon as what has come is taken; may be called from a signal handler."""
        self._stop = self._stop or why

    def follow(self) -> None:
        """Merge rows as they come, until the end.

        Raises
        ------
        InputError
            No host's run came at all.
        UsageError
            A run cannot be merged: it is itself a merge, or two of them are one.
        EnvironmentProblem
            The store cannot be written.
        """
        self.say("merging the runs of %s" % plural(len(self.sources), "host"))
        absent = [source.folder for source in self.sources if source.state == WAITING]
        if absent:
            self.say(
                note(
                    "no-host-run",
                    listed(absent, _NAMED),
                    "it" if len(absent) == 1 else "them",
                )
            )
        while not self._at_end():
            if not self._turn():
                self._wake.wait(self.options.poll_s)
        self._drain()

    def _at_end(self) -> bool:
        if self._stop:
            return True
        if any(source.state == RUNNING for source in self.sources):
            return False
        if self.options.until_idle_s is None:
            if not self._all_ended_said and all(source.ended for source in self.sources):
                self._all_ended_said = True
                self.say(
                    "all runs have ended; the merge waits for them to go on until it is ended "
                    "(Ctrl-C)"
                )
            return False
        return time.monotonic() - self._activity >= self.options.until_idle_s

    def _turn(self) -> bool:
        """Do one slice of everything; tell whether there is more to do at once."""
        for source in self.sources:
            if source.look():
                self._fresh.add(source.host)
            if source.state != self._states[source.host]:
                self._states[source.host] = source.state
                self._activity = time.monotonic()
                self._all_ended_said = False
                self._take_back_at = 0.0
                self._compared.pop(source.host, None)
                self._fresh.add(source.host)
                self.say(
                    "host %s: %s%s"
                    % (
                        source.host,
                        source.state,
                        " (%s)" % source.trouble if source.trouble else "",
                    )
                )
            # Say once of a watch that lives and writes nothing that it is waited for: it may be
            # frozen.
            if source.state != RUNNING or time.monotonic() - source.heard < _QUIET_S:
                self._quiet.discard(source.host)
            elif source.host not in self._quiet:
                self._quiet.add(source.host)
                self.say(
                    "host %s: nothing new for %.0f s; its watch lives and is waited for"
                    % (source.host, _QUIET_S)
                )
        more = self._take() or self._begin_batch()
        for row in self.merged.newly:
            self.on_row(row)
            self._failing = self._failing or row.verdict == FAIL
        self.merged.newly.clear()
        if not more or time.monotonic() - self._shown_at > _SHARE * self._showing_s:
            self._show_failing()
        self._tick_hook()
        self._report_progress()
        return more

    def _show_failing(self, last: bool = False) -> None:
        """Show the failing rows to the hook that are final at their hosts; an input's only where
        all failing rows of its host are.

        Parameters
        ----------
        last
            The merge ends: what a host cannot be asked about counts.
        """
        if not self._failing or self.hook.acted:
            return
        began = time.monotonic()
        final: Dict[str, Optional[Tuple[Set[str], bool]]] = {}
        for row in self.store.rows("arrival", verdict=FAIL):
            host = row.host or ""
            if host not in final:
                try:
                    final[host] = self._by_host[host].ask(HostRunReader.final_failing)
                except Unreadable:
                    final[host] = None
            known = final[host]
            if known is None:
                is_final = last
            else:
                keys, all_final = known
                is_final = row_key(row.but(host=None)) in keys and (row.kind == OUTPUT or all_final)
            if is_final:
                self.hook.see(row)
        self._shown_at = time.monotonic()
        self._showing_s = self._shown_at - began

    def _tick_hook(self) -> None:
        self.hook.tick()
        if self.options.stop_on_divergence and self.hook.row is not None:
            self.stop("divergence")

    def _take(self) -> bool:
        taken = self._batches.take(self._trouble_with)
        if taken:
            self._activity = time.monotonic()
        return taken

    def _trouble_with(self, error: Unreadable) -> None:
        """A writer that is just ending, or a disk that is away: the same is tried again."""
        self._fresh.add(error.host)
        self._again_at[error.host] = time.monotonic() + self.options.poll_s
        if self._troubles.get(error.host) != error.why:
            self._troubles[error.host] = error.why
            if error.why != NO_ANSWER:
                self.say(note("host-trouble", error))

    def _begin_batch(self) -> bool:
        parts: Dict[str, RowRange] = {}
        for host in sorted(self._fresh - self._batches.hosts):
            if time.monotonic() < self._again_at.get(host, 0.0):
                continue
            try:
                position = self._by_host[host].ask(HostRunReader.position)
            except Unreadable:
                # Not there yet, or a writer that is just beginning or ending: it is looked at
                # again.
                self._fresh.discard(host)
                continue
            if self._is_other(host, position):
                # What was found of other hosts is void with it.
                return True
            part = self._part(host, position)
            if part is None:
                self._fresh.discard(host)
                self._again_at.pop(host, None)
                self._troubles.pop(host, None)
            else:
                parts[host] = part
        if parts:
            self._batches.begin(parts)
            return True
        return not self._batches.hosts and self._take_back()

    def _is_other(self, host: str, now: RunPosition) -> bool:
        """Tell whether a run was begun anew since it was read; it is forgotten then."""
        read = self.merged.reads.get(host)
        if read is None or (read.began_ns == now.began_ns and now.last_given_id >= read.last_id):
            return False
        self.say("host %s: its run was begun anew" % host)
        self._activity = time.monotonic()
        self.merged.forget(host)
        self._batches.clear()
        self._compared.clear()
        self._fresh.update(self._by_host)
        return True

    def _part(self, host: str, now: RunPosition) -> Optional[RowRange]:
        """Return the new rows of a run."""
        if not now.began_ns:
            return None
        read = self.merged.reads.get(host)
        if read is None:
            read = ReadPosition(now.began_ns, 0, now.last_event)
            self.merged.note_read(host, read)
            note_graphs(self.merged, self._by_host[host])
        return (
            RowRange(now.began_ns, read.last_id, now.last_id)
            if now.last_id > read.last_id
            else None
        )

    def _take_back(self, at_once: bool = False) -> bool:
        """Take out what the hosts took out since it was merged; tell whether there was anything."""
        began = time.monotonic()
        if began < self._take_back_at and not at_once:
            return False
        ops: Set[str] = set()
        events: Dict[str, int] = {}
        for host, read in list(self.merged.reads.items()):
            source = self._by_host[host]
            try:
                (removed_ops, last), void = source.ask(partial(_taken_out, after=read.last_event))
                known = self._compared.get(host, (None, 0))
                if removed_ops or known[0] != void or (at_once and known[1] != read.last_id):
                    self.merged.reconcile(source)
            except Unreadable:
                continue
            events[host], self._compared[host] = last, (void, read.last_id)
            ops |= removed_ops
        if ops:
            try:
                self.merged.recount(ops, self.sources)
            except Unreadable as error:
                self.merged.reload()
                self._trouble_with(error)
                return False
            self._activity = time.monotonic()
        with self.store.transaction():
            for host, last in events.items():
                if last != self.merged.reads[host].last_event:
                    self.merged.note_read(host, self.merged.reads[host]._replace(last_event=last))
        now = time.monotonic()
        self._take_back_at = now + max(_REPORT_S, _SHARE * (now - began))
        return bool(ops)

    def _drain(self) -> None:
        """Take what has come, and compare all with what the hosts have now."""
        for source in self.sources:
            source.look_again()
        patience = time.monotonic() + _PATIENCE_S
        while self._turn() or (
            # A host that answers may still send something.
            any(
                self._by_host[host].state != SILENT
                for host in self._batches.hosts | set(self._again_at)
            )
            and time.monotonic() < patience
        ):
            pass
        if not self._batches.hosts:
            self._take_back(at_once=True)
        self._show_failing(last=True)
        self._tick_hook()
        if not self.merged.reads:
            names = listed(
                [
                    source.folder + (" (%s)" % source.trouble if source.trouble else "")
                    for source in self.sources
                ],
                _NAMED,
            )
            raise InputError(
                "no run came: there is no store in %s" % names,
                hint="start a watch on each host with its folder as OUT",
            )

    def _report_progress(self) -> None:
        now = time.monotonic()
        if now - self._reported_at < _REPORT_S:
            return
        self._reported_at = now
        states = Counter(source.state for source in self.sources)
        counts = self.merged.places.counts.values()
        rows = sum(sum(numbers[:4]) for numbers in counts)
        self.on_progress(
            MergeProgress(rows, sum(numbers[1] for numbers in counts), states, self.merged.first)
        )

    def finish(self, on_stage: OnStage = lambda stage, done, total: None) -> RunResult:
        """Write all result files and judge the runs of all hosts.

        Parameters
        ----------
        on_stage
            As for :meth:`goldwatch.run.whole_run.Run.finish`.
        """
        on_stage("reading what the hosts say", 0, 0)
        note_what_hosts_say(self.merged, self.sources)
        options = stored_options(self.options.out, True, self.store.get)
        columns = options.columns(self.store.has("golden_address"), self.store.has("overflow"))
        with ResultFiles(self.store, columns, None, options.metrics) as results:
            results.write_tables(on_stage)
            summary, sentence = judge_hosts(self.store, options)
            code = exit_code(summary, strict=self.options.strict)
            keep_judgement(
                self.store,
                {"strict": self.options.strict},
                summary,
                code,
                sentence,
                self.store.notes,
            )
            table = os.path.join(self.options.out, STEP_OP_FILE)
            write_step_ops(self.store.query, table)
            files = results.finish(summary, options.limits)
            files.insert(-1, table)
        counted = self.store.counted.by_place()
        places = (PlaceCounts(place, Counter(counts)) for place, counts in counted.items())
        return RunResult(
            options,
            summary,
            code,
            sentence,
            tuple(files),
            tuple(self.store.notes),
            (),
            results.shown,
            tuple(worst_first(places)),
        )

    @property
    def stopped_by(self) -> str:
        """Return why the merge was stopped: the name of a signal, ``divergence``, or nothing."""
        return self._stop
