"""Processes that compare batches of pairs: bounded in flight, and others in their place when they
die.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type

from ..base.errors import GoldwatchError
from ..base.fast_dataclasses import dataclass
from ..base.pool import ProcessDied, Processes
from ..base.safe_reading import prefetch
from ..dumps.file_source import START_BYTES, FileSource
from ..metrics.compare_pair import compare_pairs, parts_of, prepare_process, refuse
from ..metrics.compiled.choice import compiled_kernel
from ..metrics.pair_task import PairTask, Settings
from ..metrics.row import Row
from .split_pair import SplitPair

# A pair alone in its batch whose process died may be innocent: the kernel ends the process that has
# most memory, whoever asked for it. Chosen, no trial.
_MAX_CRASHES = 3
_LOST = (
    "the process that compared it died %d times (out of memory?); look at the kernel log"
    % _MAX_CRASHES
)
# So much is compared in this process rather than waiting for others to start.
_AT_ONCE_BYTES = 8 << 20
# So many batches are handed out for each process; fewer where this one compares those that wait:
# all are done at about the same time then.
_LINE, _SHORT_LINE = 4, 3
# So much of a file is asked for before its process comes to it; the system reads ahead by itself
# behind that.
_AHEAD_BYTES = 8 << 20


class Finished(NamedTuple):
    """A finished batch: its tasks, and the row of each, or what :attr:`Settings.prepare` made of
    them.
    """

    tasks: Sequence[PairTask]
    rows: Any


def _compared(tasks: Sequence[PairTask], settings: Settings, first: Optional[Row] = None) -> Any:
    return _prepared(compare_pairs(tasks, settings, first), settings)


def _prepared(rows: List[Row], settings: Settings) -> Any:
    return rows if settings.prepare is None else settings.prepare(rows)


def _read_ahead(tasks: Sequence[PairTask]) -> None:
    """Make the disk read the tensors of a batch while its process still compares the previous
    one.
    """
    for task in tasks:
        source = task.target.source
        if isinstance(source, FileSource) and source.nbytes > START_BYTES:
            prefetch([source.path], min(source.nbytes, _AHEAD_BYTES), source.offset)
            prefetch([task.golden.path], _AHEAD_BYTES)


@dataclass
class _Call:
    """One function call in a process: a batch of pairs, or a share of one huge pair with what waits
    for it.
    """

    tasks: Sequence[PairTask]
    function: Tuple[Any, ...]
    split: Optional[SplitPair] = None
    crashes: int = 0


class Workers:
    """Compare batches of pairs in ``jobs`` processes (in this process when ``jobs`` is 1).

    Until :meth:`start`, and until the processes are there, small batches are compared in this
    process; where it started fewer processes, its user may have it compare some of the others too.

    Parameters
    ----------
    jobs
        Number of processes.
    settings
        What to compute; the same for every pair.
    apart
        Compare nothing in this process, whatever it costs to start others.
    wake
        Is set, from any thread, whenever something can be collected.
    """

    def __init__(
        self,
        jobs: int,
        settings: Settings,
        apart: bool = False,
        wake: Optional[threading.Event] = None,
    ) -> None:
        # A requested kernel that is missing is reported at once, not in each row.
        compiled_kernel()
        self._wake = wake
        self.jobs = max(1, jobs)
        self.settings = settings
        self._apart = apart
        self._processes = Processes(self.jobs)
        self._made_by = os.getpid()
        self._running: Dict[Future[Any], _Call] = {}
        self._finished: List[Finished] = []

    def start(self, most: Optional[int] = None) -> None:
        """Start the processes, no more than ``most``, without waiting for them; a second call does
        nothing.
        """
        if self.jobs > 1 or self._apart:
            self._processes.start(prepare_process, most=most)

    def pids(self) -> List[int]:
        """Return the process ids."""
        return self._processes.pids()

    @property
    def forked(self) -> bool:
        """Whether this is a fork of the process that made them: it has a copy of the object, but no
        part of the processes and threads.
        """
        return os.getpid() != self._made_by

    @property
    def in_flight(self) -> int:
        """Batches handed out and not yet collected."""
        return len(self._running) + len(self._finished)

    @property
    def full(self) -> bool:
        """Whether nothing more should be submitted before something is collected, but for what is
        compared here.
        """
        if self._finished and self.settings.user_metrics:
            # Each may take seconds here: what is finished is collected, and the progress shown.
            return True
        return self.in_flight >= (_SHORT_LINE if self.helped else _LINE) * self._processes.jobs

    @property
    def helped(self) -> bool:
        """Whether this process may compare too: it is one of the ``jobs``."""
        return self._processes.jobs < self.jobs

    def submit(self, tasks: Sequence[PairTask], here: bool = False) -> None:
        """Hand out one batch; its rows come from :meth:`collect`. A batch that begins with a huge
        pair keeps all processes busy.

        Parameters
        ----------
        here
            Compare a small batch in this process.
        """
        here = here or self.jobs == 1 or not self._processes.there
        if (
            not self._apart
            and here
            and (self.jobs == 1 or sum(task.nbytes for task in tasks) <= _AT_ONCE_BYTES)
        ):
            self._finished.append(Finished(tasks, _compared(tasks, self.settings)))
        elif parts_of(tasks[0], self.settings) > 1:
            self._submit_split(tasks, SplitPair(tasks[0], self.settings))
        else:
            _read_ahead(tasks)
            self._submit(self._whole(tasks))

    def _whole(
        self, tasks: Sequence[PairTask], first: Optional[Row] = None, crashes: int = 0
    ) -> _Call:
        return _Call(tasks, (_compared, tasks, self.settings, first), crashes=crashes)

    def _submit_split(self, tasks: Sequence[PairTask], split: SplitPair) -> None:
        for function in split.calls():
            self._submit(_Call(tasks, function, split))

    def _submit(self, call: _Call) -> None:
        self.start()
        future = self._processes.submit(*call.function)
        self._running[future] = call
        wake = self._wake
        if wake is not None:
            future.add_done_callback(lambda _: wake.set())

    def collect(self, timeout_s: Optional[float] = None) -> List[Finished]:
        """Return what is finished, waiting up to ``timeout_s`` seconds for the first (None: for
        ever).
        """
        if self._running:
            done, _ = wait(
                list(self._running),
                timeout=0.0 if self._finished else timeout_s,
                return_when=FIRST_COMPLETED,
            )
            for future in done:
                self._take(self._running.pop(future), future)
        finished, self._finished = self._finished, []
        return finished

    def _take(self, call: _Call, future: Future[Any]) -> None:
        try:
            result = future.result()
        except ProcessDied:
            self._blame(call)
        except Exception as error:
            self._failed(call, error)
        else:
            if call.split is None:
                self._finished.append(Finished(call.tasks, result))
            else:
                self._take_share(call.tasks, call.split, result)

    def _finish(self, tasks: Sequence[PairTask], rows: List[Row]) -> None:
        self._finished.append(Finished(tasks, _prepared(rows, self.settings)))

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
        """A batch never raises but for what the process itself lacks; a share does when its pair
        cannot be compared.
        """
        if call.split is not None:
            self._give_up(call.tasks, call.split)
        else:
            text = "%s: %s" % (type(error).__name__, error)
            self._finish(call.tasks, [refuse(task.row, text, "crashed") for task in call.tasks])

    def _give_up(self, tasks: Sequence[PairTask], split: SplitPair) -> None:
        """Compare a pair in one piece after all: its row then says what is wrong."""
        if not split.abandoned:
            split.abandoned = True
            self._submit(self._whole(tasks))

    def _go_on(self, tasks: Sequence[PairTask], split: SplitPair) -> None:
        if split.row is None:
            self._submit_split(tasks, split)
        elif len(tasks) == 1:
            self._finish(tasks, [split.row])
        else:
            self._submit(self._whole(tasks, split.row))

    def _blame(self, call: _Call) -> None:
        """Try again what a process died of: the pairs of a batch one by one, so that only the
        culprit has a row that says so.
        """
        if call.split is not None:
            self._give_up(call.tasks, call.split)
        elif len(call.tasks) > 1:
            for task in call.tasks:
                self._submit(self._whole([task]))
        elif call.crashes + 1 < _MAX_CRASHES:
            self._submit(self._whole(call.tasks, crashes=call.crashes + 1))
        else:
            self._finish(call.tasks, [refuse(task.row, _LOST, "crashed") for task in call.tasks])

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *_: object) -> None:
        self.close(now=kind is not None)

    def close(self, now: bool = False) -> None:
        """End the processes, and no others; ``now`` drops what they are doing. In a fork nothing is
        done.
        """
        if self.forked:
            return
        self._processes.close(now)
        if self.settings.user_metrics or self.settings.conversions.scripts:
            from ..base.user_code import stop_user_code

            stop_user_code()
        self._running.clear()
