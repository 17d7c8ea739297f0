"""One shared tail of each watched run: the store is read once for all who follow the run."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import time
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from starlette.concurrency import run_in_threadpool

from ..base.errors import GoldwatchError
from ..judging.diagnosis.first_divergence import earlier
from ..metrics.row import FAIL, METRICS, Row
from ..store.row_schema import to_sql_text
from ..store.row_sql import row_key
from ..store.store_reader import Finality, StoreReader, is_written, signature
from .run_fields import RunStates
from .run_routes import metrics_of, numbered_text
from .runs import Run

log = logging.getLogger("goldwatch.service")

PAGE_ROWS = 500
_POLL_S = 0.05
_COUNT_S = 0.25
_SHARE = 10
"""Counting and checking take at most about a tenth of the time."""

_TRIES = 20
_KEPT_BYTES = 4 << 20
_LONELY_S = 5.0

_SURE_S = 1.0
"""A store that seems not to have changed is looked at all the same so often: not every file system
tells at once.
"""


class Batch(NamedTuple):
    """Rows as they are sent: all with ids above ``after``, up to ``last``."""

    after: int
    last: int
    data: bytes


class Tail:
    """Follows one run as long as somebody watches it.

    Attributes
    ----------
    generation
        Increases when rows that were sent are void: the store was begun anew, rows were removed or
        renumbered.
    last_id
        All rows up to this id have been read.
    progress, divergence, provisional
        The newest events' data, or None.
    ended
        Whether the run has ended; nothing more will come.
    over
        Whether the tail has stopped: the run has ended, or the tail had to give up, and clients
        reconnect.
    stopping
        Set when the service ends: nothing more is read.
    """

    def __init__(self, run: Run, run_states: RunStates) -> None:
        self.run = run
        self.generation = 0
        self.last_id = 0
        self.last_given_id = 0
        self.void = 0
        self.progress: Optional[bytes] = None
        self.divergence: Optional[bytes] = None
        self.provisional: Optional[bytes] = None
        self.ended = False
        self.over = False
        self.stopping = False
        self.lookers = 0
        self._run_states = run_states
        self.version = 0
        self._changed = asyncio.Event()
        self._batches: Tuple[Batch, ...] = ()
        self._last_news: Any = None
        self._metrics: Any = METRICS
        self._first: Optional[Row] = None
        self._finality = Finality()
        self._ids, self._numbers = array("q"), array("q")
        self._began_ns = 0
        self._removals = 0
        self._signature: Any = None
        self._looked = self._counted = self._checked = -1e9
        self._counting_s = self._checking_s = 0.0
        self._dirty = True

    async def follow(self) -> None:
        """Read until the run has ended or nobody has watched it for a while."""
        try:
            await self._follow()
        finally:
            self.over = True
            self.wake()

    async def _follow(self) -> None:
        lonely_since: Optional[float] = None
        failed = 0
        while not self.ended:
            try:
                await run_in_threadpool(self._look)
                failed = 0
            except (GoldwatchError, OSError, ValueError) as error:
                # The writer is just starting or ending, and its last rows must still be read; a
                # store that is gone is reported as stopped.
                log.debug("%s: %s", self.run.id, error)
                self._signature = None
                failed += 1
                self.ended = failed > _TRIES and not await run_in_threadpool(
                    is_written, self.run.path
                )
                if self.ended:
                    self.progress = self.progress or self._progress_data()
            self._wake_on_news()
            lonely_since = None if self.lookers else lonely_since or time.monotonic()
            if lonely_since is not None and time.monotonic() - lonely_since > _LONELY_S:
                return
            await asyncio.sleep(_POLL_S)

    def knows(self, number: int, void: int) -> bool:
        """Tell whether a client that saw this row id last, and began when ``void`` had this value,
        can continue after it: every row it saw is still valid.
        """
        return number == 0 or (
            (number > self.void or void == self.void)
            and number <= max(self.last_given_id, self.last_id)
        )

    def _wake_on_news(self) -> None:
        news = (
            self.generation,
            self.last_id,
            self.progress,
            self.divergence,
            self.provisional,
            self.ended,
        )
        if news != self._last_news:
            self._last_news = news
            self.wake()

    def wake(self) -> None:
        """Wake all who wait for news."""
        self.version += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def news(self, version: int, patience_s: float) -> bool:
        """Return True when there are news since ``version``, or False after so many seconds."""
        try:
            if self.version == version:
                await asyncio.wait_for(self._changed.wait(), patience_s)
            return True
        except asyncio.TimeoutError:
            return False

    def behind(self, after: int) -> Optional[Batch]:
        """Return the batch that starts right after an id, if it is still kept."""
        return next((batch for batch in reversed(self._batches) if batch.after == after), None)

    async def page(self, after: int) -> Batch:
        """Return rows after an id that :meth:`behind` does not keep, from the store."""
        for _ in range(_TRIES):
            try:
                return await run_in_threadpool(self._page, after, self.last_id)
            except (GoldwatchError, OSError):
                # A writer that is just ending removes its journal.
                await asyncio.sleep(_POLL_S)
        return await run_in_threadpool(self._page, after, self.last_id)

    def _page(self, after: int, upto: int) -> Batch:
        with StoreReader(self.run.path) as store:
            finality = store.finality()
            rows, last = store.page(after, PAGE_ROWS, upto)
        data = b"".join(
            _event("row", numbered_text(row, self._metrics, finality), row.id) for row in rows
        )
        return Batch(after, last if last > after else upto, data)

    def _look(self) -> None:
        """Read what is new; called in a thread, never twice at once."""
        # In this order: what a run wrote before it ended is read before its end is reported.
        written = is_written(self.run.path)
        files, now = signature(self.run.path), time.monotonic()
        newest = max((part[2] for part in files if part), default=0) / 1e9
        if (
            files == self._signature
            and written
            and not self._dirty
            and now - self._looked < _SURE_S
            and time.time() - newest > _POLL_S
        ):
            return
        changed, self._signature, self._looked = files != self._signature, files, now
        with StoreReader(self.run.path) as store:
            # A merge counts rows that it does not store.
            self._dirty = self._dirty or (changed and store.has_hosts)
            self._check_identity(store)
            # Before the rows: nothing is known about those that arrive meanwhile.
            self._finality = store.finality() if written else Finality()
            grown = self._read(store)
            self._check_rows(store, grown, not written)
            final = self._first is None or self._finality.holds(_id_of(store, self._first), FAIL)
        self.provisional = _json({"upto": self._finality.upto, "ids": sorted(self._finality.ids)})
        self._count(not written, final)
        self.ended = not written and not self._dirty

    def _check_identity(self, store: StoreReader) -> None:
        # Not the inode: a new file may get that of the file it replaced.
        began_ns, last_given_id, void = store.began_ns(), store.last_given_id(), store.void()
        if (self._began_ns and began_ns != self._began_ns) or last_given_id < self.last_given_id:
            self._reset()
        if not self._began_ns:
            self._began_ns, self._metrics, self._removals = (
                began_ns,
                metrics_of(store),
                store.removals(),
            )
            self._dirty = True
        self.last_given_id, self.void = last_given_id, void

    def _reset(self) -> None:
        self.generation += 1
        self.last_id = self.last_given_id = 0
        self._began_ns = 0
        self._batches = ()
        self._first = None
        self._ids, self._numbers = array("q"), array("q")
        self._dirty = True

    def _read(self, store: StoreReader) -> bool:
        """Read the new rows; tell whether there were any."""
        grown = False
        if not self.last_id and not self._batches:
            # Existing rows are read by each client itself.
            for number, index in store.numbers():
                self._ids.append(number)
                self._numbers.append(index)
            self._first = store.first_failing()
            self.last_id = self._ids[-1] if self._ids else 0
            self._dirty = self._dirty or bool(self._ids)
            return bool(self._ids)
        while not self.stopping:
            rows, last = store.page(self.last_id, PAGE_ROWS)
            if last == self.last_id:
                break
            grown = self._dirty = True
            data = b"".join(
                _event("row", numbered_text(row, self._metrics, self._finality), row.id)
                for row in rows
            )
            self._keep(Batch(self.last_id, last, data))
            for row in rows:
                self._ids.append(row.id)
                self._numbers.append(row.row.index)
                self._first = earlier(self._first, row.row)
            self.last_id = last
        return grown

    def _keep(self, batch: Batch) -> None:
        batches = (*self._batches, batch)
        size_bytes = sum(len(one.data) for one in batches)
        while size_bytes > _KEPT_BYTES and len(batches) > 1:
            size_bytes -= len(batches[0].data)
            batches = batches[1:]
        # Clients read this in another thread, so it is replaced, never changed in place.
        self._batches = batches

    def _check_rows(self, store: StoreReader, grown: bool, ending: bool) -> None:
        """Begin anew where rows that were sent have been removed or renumbered."""
        removals = store.removals()
        began = time.monotonic()
        if (
            removals == self._removals
            and not ending
            and (grown or began - self._checked < _SHARE * self._checking_s)
        ):
            return
        gone, renumbered = self._compared(store)
        if renumbered or (gone and removals != self._removals):
            self._reset()
            self._check_identity(store)
            self._read(store)
        elif self._first is not None:
            # The failing one may have been replaced.
            self._first = store.first_failing()
        self._removals = removals
        self._checked = time.monotonic()
        self._checking_s = self._checked - began

    def _compared(self, store: StoreReader) -> Tuple[bool, bool]:
        """Tell whether rows that were sent have been removed, and whether some were renumbered."""
        at, count = 0, len(self._ids)
        gone = renumbered = False
        for number, index in store.numbers():
            while at < count and self._ids[at] < number:
                gone = True
                at += 1
            if at < count and self._ids[at] == number:
                renumbered = renumbered or self._numbers[at] != index
                at += 1
        return gone or at < count, renumbered

    def _count(self, ending: bool, final: bool) -> None:
        began, first = time.monotonic(), self._first
        named = (
            None
            if first is None
            else {"op": first.op, "tensor": first.tensor, **first.place.document(), "final": final}
        )
        self.divergence = None if named is None else _json(named)
        if not ending and began - self._counted < max(_COUNT_S, _SHARE * self._counting_s):
            self._dirty = True
            return
        self.progress = self._progress_data()
        self._dirty = False
        self._counted = time.monotonic()
        self._counting_s = self._counted - began

    def _progress_data(self) -> bytes:
        fields = self._run_states.state_of(self.run).fields
        names = ("rows", "passed", "failed", "not_compared", "state")
        data: Dict[str, Any] = {name: fields[name] for name in names}
        more = ["expected_absent", "provisional", "verdict", "progress", "ops"]
        more += ["files_done", "files_expected", "bytes_done", "bytes_expected"]
        return _json({**data, "last_id": self.last_id, **{name: fields.get(name) for name in more}})


def _id_of(store: StoreReader, row: Row) -> int:
    ids = store.query("SELECT id FROM row WHERE key = ?", (to_sql_text(row_key(row)),))
    return int(ids[0][0]) if ids else 0


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=True, allow_nan=False).encode("ascii")


def _event(kind: str, data: str, number: Optional[int] = None) -> bytes:
    """Return a server-sent event (HTML Living Standard, 9.2); the data are one line of ASCII."""
    head = "" if number is None else "id: %d\n" % number
    return ("%sevent: %s\ndata: %s\n\n" % (head, kind, data)).encode("ascii")


def event(kind: str, data: bytes = b"{}") -> bytes:
    """Return a server-sent event without an id."""
    return b"event: " + kind.encode("ascii") + b"\ndata: " + data + b"\n\n"


class Tails:
    """The tails of all runs that are being watched."""

    def __init__(self, run_states: RunStates) -> None:
        self.stopping = False
        self._run_states = run_states
        self._tails: Dict[str, Tuple[Tail, "asyncio.Task[None]"]] = {}

    @contextlib.asynccontextmanager
    async def looking(self, run: Run) -> Any:
        """Yield the tail of a run, after it has read the store once."""
        tail, task = self._tails.get(run.path, (None, None))
        if tail is None or task is None or task.done() or tail.ended:
            tail = Tail(run, self._run_states)
            task = asyncio.get_running_loop().create_task(tail.follow())
            self._tails[run.path] = (tail, task)
            task.add_done_callback(functools.partial(self._forget, run.path))
        tail.lookers += 1
        try:
            while tail.progress is None and not tail.ended and not self.stopping:
                await tail.news(tail.version, 1.0)
            yield tail
        finally:
            tail.lookers -= 1

    def _forget(self, path: str, task: "asyncio.Task[None]") -> None:
        """Drop the tail of a run that has ended or that nobody watches; streams that still read it
        keep it alive.
        """
        tail, known = self._tails.get(path, (None, None))
        if tail is not None and known is task:
            del self._tails[path]

    def stop(self) -> List["asyncio.Task[None]"]:
        """End all streams; return the tasks that are still running."""
        self.stopping = True
        tasks = []
        for tail, task in list(self._tails.values()):
            tail.stopping = True
            tail.wake()
            task.cancel()
            tasks.append(task)
        return tasks
