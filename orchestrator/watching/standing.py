"""How far a watch is, for the live line."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Optional

from ..comparing.row import Row
from ..engine.engine import Engine
from .arrivals import Arrivals
from .folders import Folders
from .hook import DivergenceHook

_TOLD_S = 0.2


@dataclass(frozen=True)
class Standing:
    """How far a watch is; sizes in bytes."""

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
        hook: DivergenceHook,
        rows: int,
    ) -> None:
        self._take = take
        self._engine, self._arrivals, self._folders, self._hook = engine, arrivals, folders, hook
        self.rows = rows
        self.started = time.monotonic()
        self._told = 0.0

    def tell(self) -> None:
        """Tell the standing, unless it was told just now."""
        now = time.monotonic()
        if self._take is None or now - self._told < _TOLD_S:
            return
        self._told = now
        progress = self._engine.progress
        queued = progress.pairs - progress.pairs_done + len(self._folders.targets)
        waiting = sum(self._arrivals.counts())
        self._take(Standing(self.rows, progress.failed, waiting, queued, progress.bytes_done, now - self.started, self._hook.row))
