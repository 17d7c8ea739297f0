"""Processes that compare batches of pairs: bounded in flight, and alive again after one of them dies."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from .pair import PairTask, Settings, compare_pairs
from .row import NOT_COMPARED, Row

_PR_SET_PDEATHSIG = 1
_MAX_CRASHES = 3


def default_jobs() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) or 1


def _start_worker(parent: int) -> None:
    """Leave Ctrl-C to the parent, and die with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _nothing() -> None:
    """Make the pool start its processes."""


@dataclass
class _Batch:
    tasks: Sequence[PairTask]
    alone: bool = False
    crashes: int = 0


class Workers:
    """Compare batches of pairs in ``jobs`` processes (in this process when ``jobs`` is 1).

    Make it before anything large is loaded: the processes are forked, and what the parent holds then counts in their memory.

    Parameters
    ----------
    jobs
        Number of processes.
    settings
        What to compute; the same for every pair.
    max_in_flight
        Batches handed out at most before :attr:`full` is true.

    Attributes
    ----------
    on_done
        Called (from any thread) whenever something can be collected; None for nobody.
    """

    def __init__(self, jobs: int, settings: Settings, max_in_flight: Optional[int] = None) -> None:
        self.on_done: Optional[Callable[[], None]] = None
        self.jobs = max(1, jobs)
        self.settings = settings
        self.max_in_flight = max_in_flight or 4 * self.jobs
        self.deaths = 0
        self._pool: Optional[ProcessPoolExecutor] = None
        self._running: Dict[Future[List[Row]], _Batch] = {}
        self._finished: List[Tuple[Sequence[PairTask], List[Row]]] = []
        self._suspects: Deque[_Batch] = deque()
        if self.jobs > 1:
            self._start()

    def _start(self) -> None:
        self._pool = ProcessPoolExecutor(
            max_workers=self.jobs,
            mp_context=multiprocessing.get_context("fork"),
            initializer=_start_worker,
            initargs=(os.getpid(),),
        )
        for future in [self._pool.submit(_nothing) for _ in range(self.jobs)]:
            future.result()

    @property
    def in_flight(self) -> int:
        """Batches handed out and not yet collected."""
        return len(self._running) + len(self._finished) + len(self._suspects)

    @property
    def full(self) -> bool:
        """Whether nothing more should be submitted before something is collected."""
        return bool(self._suspects) or self.in_flight >= self.max_in_flight

    def submit(self, tasks: Sequence[PairTask]) -> None:
        """Hand out one batch; its rows come from :meth:`collect`."""
        if self._pool is None:
            self._finished.append((tasks, compare_pairs(tasks, self.settings)))
        else:
            self._submit(_Batch(tasks))

    def _submit(self, batch: _Batch) -> None:
        assert self._pool is not None
        try:
            future = self._pool.submit(compare_pairs, batch.tasks, self.settings)
            self._running[future] = batch
            if self.on_done is not None:
                future.add_done_callback(self._tell)
        except BrokenProcessPool:
            self._suspects.append(batch)
            self._restart()

    def _tell(self, _: Any) -> None:
        if self.on_done is not None:
            self.on_done()

    def collect(self, timeout_s: Optional[float] = None) -> List[Tuple[Sequence[PairTask], List[Row]]]:
        """Return what is finished as ``(tasks, rows)``, waiting up to ``timeout_s`` seconds for the first (None: for ever)."""
        if self._running and not self._finished:
            done, _ = wait(list(self._running), timeout=timeout_s, return_when=FIRST_COMPLETED)
            died = [future for future in done if self._take(future)]
            if died:
                self._restart()
        if self._suspects and not self._running:
            # After a death, what was in flight runs one batch at a time, so that the next death has one culprit.
            self._suspects[0].alone = True
            self._submit(self._suspects.popleft())
        finished, self._finished = self._finished, []
        return finished

    def _take(self, future: Future[List[Row]]) -> bool:
        """Move one finished future's batch on; tell whether its process died."""
        batch = self._running.pop(future)
        try:
            self._finished.append((batch.tasks, future.result()))
            return False
        except BrokenProcessPool:
            self._blame(batch)
            return True

    def _blame(self, batch: _Batch) -> None:
        if not batch.alone:
            self._suspects.append(batch)
        elif len(batch.tasks) > 1:
            self._suspects.extend(_Batch([task], alone=True) for task in batch.tasks)
        elif batch.crashes + 1 < _MAX_CRASHES:
            self._suspects.append(replace(batch, crashes=batch.crashes + 1))
        else:
            self._finished.append((batch.tasks, [_lost(task.row) for task in batch.tasks]))

    def _restart(self) -> None:
        """Start new processes after one died; a broken pool fails all that was in flight."""
        self.deaths += 1
        wait(list(self._running))
        for future in list(self._running):
            self._take(future)
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self._start()

    def close(self, now: bool = False) -> None:
        """End the processes; ``now`` drops what they are doing."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if now:
            for process in multiprocessing.active_children():
                process.terminate()
        pool.shutdown(wait=True)
        self._running.clear()


def _lost(row: Row) -> Row:
    reason = "the process that compared it died %d times (out of memory?); look at the kernel log" % _MAX_CRASHES
    return replace(row, verdict=NOT_COMPARED, cause="crashed", reason=reason)
