"""Batches of units on their way: a window of them at the workers, again what was lost, apart what ends workers."""

from __future__ import annotations

import contextlib
import os
import queue
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from ..errors import EnvironmentProblem
from .asking import PATIENCE_S
from .connecting import GOES_ON
from .hanging import Watchdog
from .messages import Findings, Order
from .session import compare_order
from .sight import NotSeen
from .units import Unit, Work
from .workplaces import SharedDisk, Where

_EACH_THREAD = 4
_LOOK_S = 1.0
_PATIENCE_S = 60.0
_MOST_HANGS = 2
_HUNG = "the %d workers that compared it finished nothing for %d s: do its files, or a --custom script, take for ever to read?"
_LOST = "the worker that compared it died %d times (out of memory?); look at the workers' logs"


class _Sent(NamedTuple):
    units: Sequence[Unit]
    where: Where
    apart: bool


class Dispatcher:
    """Has units compared by the workers of a cluster.

    Parameters
    ----------
    client
        ``distributed.Client``.
    name
        Of the run; the tasks are called after it.
    places
        Which workers can compare what.
    order
        Makes an order of units for some workers; the third argument: compared apart.
    on_found
        Called with what became of units.
    on_lost
        Called with a unit that ends every worker that compares it, and a sentence.
    on_alone
        Called about once a second while nobody is there who could do anything.
    on_hung
        Called with a worker that finishes nothing any more, and for how long it has not, in seconds.
    """

    def __init__(
        self,
        client: Any,
        name: str,
        places: SharedDisk,
        order: Callable[[Sequence[Unit], Where, bool], Order],
        on_found: Callable[[Sequence[Unit], Findings], None],
        on_lost: Callable[[Unit, str], None],
        on_alone: Callable[[], None],
        on_hung: Callable[[str, float], None],
    ) -> None:
        self._client, self._name = client, name
        self._places, self._order = places, order
        self._on_found, self._on_lost, self._on_alone = on_found, on_lost, on_alone
        self._on_hung = on_hung
        self._watchdog = Watchdog()
        self._hangs: Dict[int, int] = {}
        self._sent: Dict[Any, _Sent] = {}
        self._done: queue.Queue[Any] = queue.Queue()
        self._suspects: List[Unit] = []
        self._number = 0
        self._there: Dict[str, int] = {}
        self._asked_at = self._watched_at = -_LOOK_S

    def run(self, units: Sequence[Unit]) -> None:
        """Return when all units are compared or lost.

        Raises
        ------
        ConnectionError
            The scheduler is gone.
        EnvironmentProblem
            No worker that could do it has come for a minute, or one cannot work.
        """
        work = Work(units)
        try:
            self._run(work)
        except BaseException:
            if self._client.status == "running":
                self._client.cancel(list(self._sent), force=True)
            raise

    def _run(self, work: Work) -> None:
        alone_since: Optional[float] = None
        while True:
            self._require_scheduler()
            self._free_the_hung(work)
            threads = self._threads()
            while len(work) and len(self._sent) < _EACH_THREAD * max(1, sum(threads.values())):
                batch = work.batch()
                for some, where in self._by_place(batch):
                    self._send(some, where, apart=False)
            if not self._sent:
                # One after the other: whoever dies now was ended by this one.
                if not self._suspects:
                    return
                unit = self._suspects.pop()
                where = self._places.where(unit.files)
                if where == [] and self._hangs.get(unit.number):
                    self._lose_hung(unit)
                    continue
                self._send([unit], where, apart=True)
            try:
                future = self._done.get(timeout=_LOOK_S)
            except queue.Empty:
                alone_since = self._look_after(work, alone_since)
                continue
            sent = self._sent.pop(future, None)
            if sent is not None:
                alone_since = None
                self._take(future, sent, work)

    def _require_scheduler(self) -> None:
        if self._client.status != "running":
            raise ConnectionError("the connection to the Dask scheduler is lost")

    def _free_the_hung(self, work: Work) -> None:
        """Give what lies with workers that hang to others; those that have a nanny are started anew."""
        now = time.monotonic()
        if now - self._watched_at < _LOOK_S:
            return
        self._watched_at = now
        ours = {future.key: future for future in self._sent}
        busy = {worker: [key for key in keys if key in ours] for worker, keys in self._client.processing().items()}
        for worker in self._watchdog.hanging(busy, now):
            self._on_hung(worker, self._watchdog.limit_s)
            self._places.shun(worker)
            futures = [ours[key] for key in busy[worker]]
            self._client.cancel(futures, force=True)
            for sent in [self._sent.pop(future) for future in futures]:
                for unit in sent.units:
                    hangs = self._hangs[unit.number] = self._hangs.get(unit.number, 0) + 1
                    if sent.apart:
                        self._lose_hung(unit)
                    elif hangs < _MOST_HANGS:
                        work.put_back([unit])
                    else:
                        self._suspects.append(unit)
            with contextlib.suppress(Exception):
                # Without a nanny, or with an old Dask, it stays as it is and gets no more work.
                self._client.restart_workers([worker], timeout=PATIENCE_S, raise_for_error=False)

    def _lose_hung(self, unit: Unit) -> None:
        self._on_lost(unit, _HUNG % (self._hangs[unit.number], self._watchdog.limit_s))

    def _threads(self) -> Dict[str, int]:
        """Return the workers that are there, with their threads, as of a second ago at most; new ones have been asked what they see."""
        now = time.monotonic()
        if now - self._asked_at >= _LOOK_S:
            before, self._there = self._there, self._client.nthreads()
            self._asked_at = now
            if self._there.keys() - before.keys():
                with contextlib.suppress(OSError, KeyError, EnvironmentProblem):
                    # One that goes meanwhile, or hangs, is asked no more.
                    self._places.renew()
        return self._there

    def _by_place(self, units: Sequence[Unit]) -> List[Any]:
        """Return the units of each set of workers."""
        found: Dict[Any, List[Unit]] = {}
        for unit in units:
            where = self._places.where(unit.files)
            found.setdefault(None if where is None else tuple(where), []).append(unit)
        return [(some, None if where is None else list(where)) for where, some in found.items()]

    def _send(self, units: Sequence[Unit], where: Where, apart: bool) -> None:
        if where == []:
            raise EnvironmentProblem("no worker is left that sees %s" % os.path.dirname(units[0].files[0].rel), hint=GOES_ON)
        self._number += 1
        key = "goldwatch-%s-%d" % (self._name, self._number)
        future = self._client.submit(compare_order, self._order(units, where, apart), key=key, workers=where, pure=False)
        self._sent[future] = _Sent(units, where, apart)
        future.add_done_callback(self._done.put)

    def _take(self, future: Any, sent: _Sent, work: Work) -> None:
        if future.status == "finished":
            findings: Findings = future.result()
            future.release()
            self._watchdog.hear(findings.worker, findings.seconds, time.monotonic())
            if not sent.apart:
                work.learn(sent.units, findings.seconds)
            self._on_found(sent.units, findings)
            return
        if future.status in ("pending", "lost"):
            # It was compared by a worker that has died since, with what it had found: another does it again.
            self._sent[future] = sent
            future.add_done_callback(self._done.put)
            return
        if future.status != "error":
            self._require_scheduler()
            raise EnvironmentProblem("the Dask scheduler has dropped what it was given (%s)" % future.status, hint=GOES_ON)
        error = future.exception()
        if isinstance(error, NotSeen):
            self._places.shun(error.worker)
            if sent.apart:
                self._suspects += sent.units
            else:
                work.put_back(sent.units)
        elif not sent.apart:
            # Whatever it was: each unit by itself shows whether it is its own fault.
            self._suspects += sent.units
        elif type(error).__name__ == "KilledWorker":
            self._on_lost(sent.units[0], _LOST % _deaths(error))
        else:
            raise EnvironmentProblem("a worker cannot compare: %s" % (error,), hint=getattr(error, "hint", None))

    def _look_after(self, work: Work, alone_since: Optional[float]) -> Optional[float]:
        """Send elsewhere what waits for workers that are gone; return since when nobody is there that could do anything."""
        there = self._threads()
        for future, sent in list(self._sent.items()):
            if sent.where is not None and not any(worker in there for worker in sent.where):
                where = self._by_place(sent.units)
                if all(any(worker in there for worker in some or there) for _, some in where):
                    del self._sent[future]
                    self._client.cancel([future], force=True)
                    for some, addresses in where:
                        self._send(some, addresses, sent.apart)
        waiting = all(sent.where is not None and not any(worker in there for worker in sent.where) for sent in self._sent.values())
        if there and not waiting:
            return None
        self._on_alone()
        now = time.monotonic()
        if alone_since is not None and now - alone_since > _PATIENCE_S:
            raise EnvironmentProblem(
                "no worker that sees the files has been there for %d s" % _PATIENCE_S, hint=GOES_ON
            )
        return alone_since or now


def _deaths(error: Any) -> int:
    allowed = getattr(error, "allowed_failures", 3)
    return int(allowed) + 1 if isinstance(allowed, int) else 1
