"""How far a watch is, for the live line and for those who read its store."""

from __future__ import annotations

import time
from functools import reduce
from typing import Dict, Optional, Tuple

from ..base.fast_dataclasses import dataclass
from ..judging.diagnosis.first_divergence import earlier
from ..metrics.row import FAIL, Row
from ..store.facts_and_events import OPS
from ..store.store import RunStore
from .arriving_files import Arrivals
from .engine import Engine
from .provisional import Provisional
from .watched_folders import Folders

# How often the line changes and the store notes progress, and of the time that counting takes, what
# passes before the next. Chosen, no trial.
_MEASURED_S = 0.2
_NOTED_S = 1.0
_SHARE = 20.0


@dataclass(frozen=True)
class WatchProgress:
    """How far a watch is; sizes in bytes.

    Attributes
    ----------
    rows, failed
        As many as the store holds.
    provisional
        Of those that failed so many may pass once others have come (:mod:`.provisional`).
    first
        Of the failing rows that are known so far the first in execution order.
    ops
        Of how many ops the dumps are compared, and of how many they will come; None where no model
        tells.
    """

    rows: int
    failed: int
    waiting: int
    queued: int
    bytes_done: int
    seconds: float
    first: Optional[Row]
    provisional: int = 0
    ops: Optional[Tuple[int, int]] = None


class ProgressMeter:
    """Measures how far a watch is, several times a second.

    Parameters
    ----------
    provisional
        Which of the failing rows are not final.
    """

    def __init__(
        self,
        engine: Engine,
        arrivals: Arrivals,
        folders: Folders,
        store: RunStore,
        provisional: Provisional,
    ) -> None:
        self._engine, self._arrivals, self._folders, self._store = engine, arrivals, folders, store
        self._provisional = provisional
        self._first: Optional[Row] = None
        self._first_is_stored = store.continued
        self._counts: Dict[str, int] = {}
        self._counted_at, self._counting_s = -1e9, 0.0
        self.started = time.monotonic()
        self._measured_at = 0.0
        self._ops: Optional[Tuple[int, int]] = None
        self._ops_at, self._ops_s = -1e9, 0.0

    def see(self, row: Row) -> None:
        """Take note of a row that was stored."""
        first = self._first
        if (
            first is not None
            and row.verdict != FAIL
            and (row.tensor, row.place) == (first.tensor, first.place)
        ):
            # It was compared anew and fails no more.
            self._first_is_stored = True
        self._first = earlier(self._first, row)

    def _count(self, now: float, last: bool) -> Dict[str, int]:
        """Return the rows of the store by verdict: rows are replaced, and go; counting takes a
        twentieth of the time at most.
        """
        if last or now - self._counted_at >= _SHARE * self._counting_s:
            self._counts = self._store.counted.all()
            self._counted_at, self._counting_s = now, time.monotonic() - now
        return self._counts

    def _note_ops(self, now: float, last: bool) -> None:
        """Count the ops that have come, and note them in the store for those who read it: in a
        twentieth of the time at most.
        """
        if not last and now - self._ops_at < max(_NOTED_S, _SHARE * self._ops_s):
            return
        ops = self._arrivals.ops_come()
        if ops != self._ops:
            self._ops = ops
            self._store.set(OPS, None if ops is None else {"come": ops[0], "expected": ops[1]})
        self._ops_at, self._ops_s = now, time.monotonic() - now

    def measure(self, last: bool = False) -> Optional[WatchProgress]:
        """Return how far the watch is; None where that was measured just now and this is not the
        last time.
        """
        now = time.monotonic()
        if now - self._measured_at < _MEASURED_S and not last:
            return None
        self._measured_at = now
        self._note_ops(now, last)
        if self._first_is_stored:
            self._first_is_stored = False
            self._first = reduce(earlier, self._store.rows("arrival", verdict=FAIL), None)
        progress = self._engine.progress
        queued = progress.pairs - progress.pairs_done + len(self._folders.targets)
        waiting = sum(self._arrivals.counts())
        counts = self._count(now, last)
        failed = counts.get(FAIL, 0)
        return WatchProgress(
            rows=sum(counts.values()),
            failed=failed,
            waiting=waiting,
            queued=queued,
            bytes_done=progress.bytes_done,
            seconds=now - self.started,
            first=self._first,
            provisional=min(failed, len(self._provisional)),
            ops=self._ops,
        )
