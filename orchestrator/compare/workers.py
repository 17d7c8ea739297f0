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

from ..errors import GoldwatchError
from .pair import PairTask, Settings, compare_pairs, parts_of, refuse
from .row import Row
from .split import SplitPair

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAX_CRASHES = 3
_LOST = "the process that compared it died %d times (out of memory?); look at the kernel log" % _MAX_CRASHES


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
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Let glibc keep a freed window for the next tensor: fresh memory costs a page fault for every 4 KiB, as much as the reading."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 * 1024 * 1024)
        mallopt(_M_TRIM_THRESHOLD, 64 * 1024 * 1024)


def _nothing() -> None:
    """Make the pool start its processes."""


@dataclass
class _Call:
    """One function call in a process: a batch of pairs, or a share of one huge pair with what waits for it."""

    tasks: Sequence[PairTask]
    function: Tuple[Any, ...]
    split: Optional[SplitPair] = None
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
        self._restarting = False
        self._pool: Optional[ProcessPoolExecutor] = None
        self._running: Dict[Future[Any], _Call] = {}
        self._finished: List[Tuple[Sequence[PairTask], List[Row]]] = []
        self._suspects: Deque[_Call] = deque()
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
        """Hand out one batch; its rows come from :meth:`collect`. A batch that begins with a huge pair keeps all processes busy."""
        if self._pool is None:
            self._finished.append((tasks, compare_pairs(tasks, self.settings)))
        elif parts_of(tasks[0]) > 1:
            self._submit_split(tasks, SplitPair(tasks[0], self.settings))
        else:
            self._submit(self._whole(tasks))

    def _whole(self, tasks: Sequence[PairTask], first: Optional[Row] = None) -> _Call:
        return _Call(tasks, (compare_pairs, tasks, self.settings, first))

    def _submit_split(self, tasks: Sequence[PairTask], split: SplitPair) -> None:
        for function in split.calls():
            self._submit(_Call(tasks, function, split))

    def _submit(self, call: _Call) -> None:
        assert self._pool is not None
        if self._restarting:
            self._suspects.append(call)
            return
        try:
            future = self._pool.submit(*call.function)
            self._running[future] = call
            if self.on_done is not None:
                future.add_done_callback(self._tell)
        except BrokenProcessPool:
            self._suspects.append(call)
            self._restart()

    def _tell(self, _: Any) -> None:
        if self.on_done is not None:
            self.on_done()

    def collect(self, timeout_s: Optional[float] = None) -> List[Tuple[Sequence[PairTask], List[Row]]]:
        """Return what is finished as ``(tasks, rows)``, waiting up to ``timeout_s`` seconds for the first (None: for ever)."""
        if self._running and not self._finished:
            done, _ = wait(list(self._running), timeout=timeout_s, return_when=FIRST_COMPLETED)
            # A submission among these may meet a dead process and take the others itself.
            died = [future for future in done if future in self._running and self._take(future)]
            if died:
                self._restart()
        if self._suspects and not self._running:
            # After a death, what was in flight runs one batch at a time, so that the next death has one culprit.
            self._suspects[0].alone = True
            self._submit(self._suspects.popleft())
        finished, self._finished = self._finished, []
        return finished

    def _take(self, future: Future[Any]) -> bool:
        """Move one finished future's call on; tell whether its process died."""
        call = self._running.pop(future)
        try:
            result = future.result()
        except BrokenProcessPool:
            self._blame(call)
            return True
        except Exception as error:
            self._failed(call, error)
            return False
        if call.split is None:
            self._finished.append((call.tasks, result))
        else:
            self._take_share(call.tasks, call.split, result)
        return False

    def _take_share(self, tasks: Sequence[PairTask], split: SplitPair, result: Any) -> None:
        if split.abandoned:
            return
        try:
            complete = split.take(result)
        except (GoldwatchError, OSError):
            self._give_up(tasks, split)
            return
        if complete:
            self._go_on(tasks, split)

    def _failed(self, call: _Call, error: Exception) -> None:
        """A batch never raises but for what the process itself lacks; a share does when its pair cannot be compared."""
        if call.split is not None:
            self._give_up(call.tasks, call.split)
        else:
            text = "%s: %s" % (type(error).__name__, error)
            self._finished.append((call.tasks, [refuse(task.row, text, "crashed") for task in call.tasks]))

    def _give_up(self, tasks: Sequence[PairTask], split: SplitPair) -> None:
        """Compare a pair in one piece after all: its row then says what is wrong."""
        if not split.abandoned:
            split.abandoned = True
            self._submit(self._whole(tasks))

    def _go_on(self, tasks: Sequence[PairTask], split: SplitPair) -> None:
        if split.row is None:
            self._submit_split(tasks, split)
        elif len(tasks) == 1:
            self._finished.append((tasks, [split.row]))
        else:
            self._submit(self._whole(tasks, split.row))

    def _blame(self, call: _Call) -> None:
        if not call.alone:
            self._suspects.append(call)
        elif call.split is None and len(call.tasks) > 1:
            self._suspects.extend(replace(self._whole([task]), alone=True) for task in call.tasks)
        elif call.crashes + 1 < _MAX_CRASHES:
            self._suspects.append(replace(call, crashes=call.crashes + 1))
        elif call.split is None or not call.split.abandoned:
            if call.split is not None:
                call.split.abandoned = True
            self._finished.append((call.tasks, [refuse(task.row, _LOST, "crashed") for task in call.tasks]))

    def _restart(self) -> None:
        """Start new processes after one died; a broken pool fails all that was in flight."""
        self.deaths += 1
        self._restarting = True
        wait(list(self._running))
        while self._running:
            self._take(next(iter(self._running)))
        self._restarting = False
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
