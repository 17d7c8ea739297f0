"""Batches of units sent to the workers: a window of them at a time, again what was lost, apart what
ends workers.
"""

from __future__ import annotations

import asyncio
import queue
import time
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

from ..base.errors import EnvironmentProblem
from ..base.notes import note
from .checked_connection import GOES_ON
from .eligible_workers import EligibleWorkers
from .file_probes import NotSeen
from .order_and_findings import Findings, Order
from .requests_with_timeout import PATIENCE_S, ask, threads_of
from .work_units import Unit, Work
from .worker_comparison import compare_order

_EACH_THREAD = 4
"""Batches sent ahead to each thread: 100,000 tasks at once took Dask 35 s to submit, and its client
1.36 GB.
"""

_LOOK_S = 1.0
NOBODY_S = 300.0
"""So long a run waits where no worker is left that could do anything, in seconds."""
_LOST = "the worker that compared it died %d times (out of memory?); look at the workers' logs"


class Compared(NamedTuple):
    """What a worker found out about units."""

    units: Sequence[Unit]
    findings: Findings


class Lost(NamedTuple):
    """A unit that ends every worker that compares it, and a sentence that says so."""

    unit: Unit
    reason: str


class NoWorker(NamedTuple):
    """No worker is there that could compare; told about once a second."""


Event = Union[Compared, Lost, NoWorker]


class _SentBatch(NamedTuple):
    units: Sequence[Unit]
    workers: Optional[List[str]]
    apart: bool


class Dispatcher:
    """Has units compared by the workers of a cluster.

    Parameters
    ----------
    client
        ``distributed.Client``.
    name
        Of the run; the tasks are called after it.
    eligible
        Which workers may compare.
    order
        Makes an order of units; the second argument: compared apart.
    """

    def __init__(
        self,
        client: Any,
        name: str,
        eligible: EligibleWorkers,
        order: Callable[[Sequence[Unit], bool], Order],
    ) -> None:
        self._client, self._name = client, name
        self._eligible, self._order = eligible, order
        self._sent: Dict[Any, _SentBatch] = {}
        self._done: queue.Queue[Any] = queue.Queue()
        self._suspects: List[Unit] = []
        self._number = 0
        self._there: Dict[str, int] = {}
        self._asked_at = self._looked_at = -_LOOK_S
        self._alone_since: Optional[float] = None
        self._warned = False

    @property
    def in_flight(self) -> List[Any]:
        """The futures of what is at the workers."""
        return list(self._sent)

    def run(self, units: Sequence[Unit]) -> Iterator[Event]:
        """Yield the outcome of each unit as soon as it is known, until all are compared or lost.

        Raises
        ------
        ConnectionError
            The scheduler is gone.
        EnvironmentProblem
            No worker that could do it has come for :data:`NOBODY_S`, or one cannot work.
        """
        work = Work(units)
        while True:
            self._require_scheduler()
            threads = self._threads()
            if self._is_alone(threads):
                yield NoWorker()
            within = sum(_can(sent.workers, threads) for sent in self._sent.values())
            while len(work) and within < _EACH_THREAD * max(1, sum(threads.values())):
                within += _can(self._send(work.batch(), apart=False).workers, threads)
            if not self._sent:
                # One after the other: a worker that dies now was ended by this unit.
                if not self._suspects:
                    # Also warn of a worker that left in the last second.
                    self._asked_at = -_LOOK_S
                    self._threads()
                    return
                self._send([self._suspects.pop()], apart=True)
            event = self._next(work)
            if event is not None:
                yield event

    def _require_scheduler(self) -> None:
        if self._client.status != "running":
            raise ConnectionError("the connection to the Dask scheduler is lost")

    def _threads(self) -> Dict[str, int]:
        """Return the workers that are there, with their threads, as of a second ago at most; new
        ones have been asked what they see.
        """
        now = time.monotonic()
        if now - self._asked_at >= _LOOK_S:
            before, self._there = self._there, threads_of(self._client)
            self._asked_at = now
            self._eligible.warn_of_gone(sorted(before.keys() - self._there.keys()))
            if self._there.keys() - before.keys():
                try:
                    self._eligible.renew()
                except EnvironmentProblem as problem:
                    # It hangs: it is asked no more.
                    self._eligible.say(note("cluster-silent", problem))
                except (OSError, KeyError):
                    # It has gone meanwhile.
                    pass
        return self._there

    def _send(self, units: Sequence[Unit], apart: bool) -> _SentBatch:
        workers = self._eligible.addresses()
        if workers == []:
            raise EnvironmentProblem(
                "no worker is left that can compare: %s" % self._eligible.reasons, hint=GOES_ON
            )
        self._number += 1
        key = "goldwatch-%s-%d" % (self._name, self._number)
        future = self._client.submit(
            compare_order, self._order(units, apart), key=key, workers=workers, pure=False
        )
        self._sent[future] = _SentBatch(units, workers, apart)
        future.add_done_callback(self._done.put)
        return self._sent[future]

    def _next(self, work: Work) -> Optional[Event]:
        """Return what became of the next units that a worker is done with; None where that is
        nothing final, or none is done within a second.
        """
        try:
            future = self._done.get(timeout=_LOOK_S)
        except queue.Empty:
            return None
        sent = self._sent.pop(future, None)
        return None if sent is None else self._outcome(future, sent, work)

    def _outcome(self, future: Any, sent: _SentBatch, work: Work) -> Optional[Event]:
        findings = self._received(future) if future.status == "finished" else None
        if findings is not None:
            future.release()
            self._alone_since = None
            if not sent.apart:
                work.learn(sent.units, findings.seconds)
            return Compared(sent.units, findings)
        if future.status in ("finished", "pending", "lost"):
            # The worker that compared it hangs or has died since, with what it had found: as soon
            # as Dask gives it up, another does it again.
            self._sent[future] = sent
            future.add_done_callback(self._done.put)
            return None
        if future.status != "error":
            self._require_scheduler()
            raise EnvironmentProblem(
                "the Dask scheduler has dropped what it was given (%s)" % future.status,
                hint=GOES_ON,
            )
        error = future.exception()
        if isinstance(error, NotSeen):
            self._eligible.exclude(error.worker, error.message)
            if sent.apart:
                self._suspects += sent.units
            else:
                work.put_back(sent.units)
        elif sent.apart and type(error).__name__ == "KilledWorker":
            return Lost(sent.units[0], _LOST % _deaths(error))
        else:
            # Have each unit of what failed, whatever it was, compared by itself, which shows
            # whether it is its own fault; or end.
            problem = "a worker cannot compare: %s" % (error,)
            hint = getattr(error, "hint", None)
            if sent.apart:
                raise EnvironmentProblem(problem, hint=hint)
            self._suspects += sent.units
        return None

    def _received(self, future: Any) -> Optional[Findings]:
        """Return what a worker has found; None where it hangs or has gone since."""
        try:
            findings: Findings = future.result(PATIENCE_S)
            return findings
        except (asyncio.TimeoutError, TimeoutError):
            return None
        except Exception:
            if future.status != "error":
                raise
            return None

    def _is_alone(self, there: Mapping[str, int]) -> bool:
        """Send elsewhere, once a second, what waits for workers that are gone. Tell whether there
        are none; after some time of that raise EnvironmentProblem.
        """
        now = time.monotonic()
        if now - self._looked_at < _LOOK_S:
            return False
        self._looked_at = now
        for future, sent in list(self._sent.items()):
            if not _can(sent.workers, there) and _can(self._eligible.addresses(), there):
                del self._sent[future]
                ask(self._client, self._client.cancel, [future], force=True)
                self._send(sent.units, sent.apart)
        waiting = [sent for sent in self._sent.values() if not _can(sent.workers, there)]
        if not waiting or len(waiting) < len(self._sent):
            self._alone_since, self._warned = None, False
            return False
        if self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > NOBODY_S:
            raise EnvironmentProblem(
                "no worker that sees the files has been there for %d s" % NOBODY_S, hint=GOES_ON
            )
        elif not self._warned:
            # Not at the first look: a worker that is restarted at once is not reported.
            self._eligible.say(note("no-worker"))
            self._warned = True
        return True


def _can(workers: Optional[List[str]], there: Mapping[str, int]) -> bool:
    """Return whether one of some workers is there (any for None)."""
    return any(worker in there for worker in (there if workers is None else workers))


def _deaths(error: Any) -> int:
    allowed = getattr(error, "allowed_failures", 3)
    return int(allowed) + 1 if isinstance(allowed, int) else 1
