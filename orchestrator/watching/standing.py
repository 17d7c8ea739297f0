"""How far a watch is, for the live line."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import reduce
from typing import Callable, Optional

from ..comparing.row import FAIL, Row
from ..engine.engine import Engine
from ..results.store import RunStore
from ..verdict.first_divergence import earlier
from .arrivals import Arrivals
from .folders import Folders

_TOLD_S = 0.2


@dataclass(frozen=True)
class Standing:
    """How far a watch is; sizes in bytes. Of the failing rows that are known so far ``first`` is the first in execution order."""

    rows: int
    failed: int
    waiting: int
    queued: int
    bytes_done: int
    seconds: float
    first: Optional[Row]


class Standings:
    """Tells the standing several times a second.

    Parameters
    ----------
    take
        Is told; None for nobody.
    rows
        How many are stored already.
    """

    def __init__(
        self,
        take: Optional[Callable[[Standing], None]],
        engine: Engine,
        arrivals: Arrivals,
        folders: Folders,
        store: RunStore,
        rows: int,
    ) -> None:
        self._take = take
        self._engine, self._arrivals, self._folders, self._store = engine, arrivals, folders, store
        self.rows = rows
        self._first: Optional[Row] = None
        self._first_is_stored = bool(rows)
        self.started = time.monotonic()
        self._told = 0.0

    def see(self, row: Row) -> None:
        """Count a row that was stored."""
        self.rows += 1
        first = self._first
        if first is not None and row.verdict != FAIL and (row.tensor, row.place) == (first.tensor, first.place):
            # It was compared anew and fails no more.
            self._first_is_stored = True
        self._first = earlier(self._first, row)

    def tell(self) -> None:
        """Tell the standing, unless it was told just now."""
        now = time.monotonic()
        if self._take is None or now - self._told < _TOLD_S:
            return
        self._told = now
        if self._first_is_stored:
            self._first_is_stored = False
            self._first = reduce(earlier, self._store.rows("arrival", verdict=FAIL), None)
        progress = self._engine.progress
        queued = progress.pairs - progress.pairs_done + len(self._folders.targets)
        waiting = sum(self._arrivals.counts())
        self._take(Standing(self.rows, progress.failed, waiting, queued, progress.bytes_done, now - self.started, self._first))
