"""Failing rows that rows still to come may change: they are provisional until the judge has all
rows of their place, or the watch has ended.
"""

from __future__ import annotations

import time
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from ..dumps.place import Place, name_order
from ..judging.row_judge import only_default_limits_missed
from ..metrics.row import FAIL, Row
from ..model.row_plan import INPUT
from ..recomputing.formulas_by_type import is_known_type
from ..recomputing.repeated_decisions import can_repeat
from ..store.row_sql import row_key
from .engine import Engine
from .passing_by_rounding import passing_by_rounding
from .recomputation import NONE
from .rejudging import changed_by_others
from .target_file import TargetFile
from .tensor_reader import RunReader

# Chosen, no trial.
_EVERY_S = 0.2
_SHARE = 20.0
"""Looking takes one part in so many of the time at most."""


class _Waiting(NamedTuple):
    """What is kept of a provisional row."""

    place: Place
    kind: str
    file: str


class Provisional:
    """Tells which failing rows of a watch are final.

    A row is final at once where a limit of the user's own is missed, or nothing can compute its
    operator. All others are judged as at the end of the run, by :mod:`goldwatch.run.rejudging` and
    :mod:`goldwatch.run.passing_by_rounding`, once their place is over: all of its model's ops have
    come, or a later step of the same model on the same device has begun. An output of which no
    model tells what feeds it is judged once its own file is compared. What the judge lets pass
    then stays provisional, and passes at the end.

    Parameters
    ----------
    engine
        The watch's.
    quiet
        Tells whether all files that are known to have come were looked at.
    """

    def __init__(self, engine: Engine, quiet: Callable[[], bool] = lambda: True) -> None:
        self._engine = engine
        self._quiet = quiet
        self._waiting: Dict[str, _Waiting] = {}
        self._changed = False
        self._looked_at = -1e9
        self._took_s = 0.0
        self._failures = 0
        self._last_counts = (0, 0)
        self._passing: Dict[Place, Set[str]] = {}
        self._diverged = False

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, row: Row) -> bool:
        return bool(self._waiting) and row_key(row) in self._waiting

    def holds(self, file: TargetFile) -> bool:
        """Tell whether rows of a file are provisional."""
        return any(waiting.file == file.rel for waiting in self._waiting.values())

    def see(self, row: Row) -> bool:
        """Consider a row that was stored; tell whether it is final already."""
        self._changed = True
        self._passing.pop(row.place, None)
        self._failures += row.verdict == FAIL
        if row.verdict == FAIL and self._may_pass(row):
            self._waiting[row_key(row)] = _Waiting(row.place, row.kind, row.target_file or "")
            return False
        if self._waiting:
            self._waiting.pop(row_key(row), None)
        return True

    def _may_pass(self, row: Row) -> bool:
        """Tell whether the judge may let a failing row pass once it has the others."""
        return row.kind == INPUT or (
            only_default_limits_missed(row.decided_by)
            and (
                can_repeat(row.op_type)
                or is_known_type(row.op_type)
                or (
                    self._engine.options.recompute != NONE
                    and self._engine.graphs.of(row.place.model) is not None
                )
            )
        )

    def news(self) -> Optional[List[str]]:
        """Return the keys of the rows that are provisional, where these or the failing rows are
        others than at the last call.
        """
        before, self._last_counts = self._last_counts, (len(self._waiting), self._failures)
        return list(self._waiting) if before != self._last_counts else None

    def settled(self, at_once: bool = False) -> bool:
        """Find out which rows have become final; tell whether there are any. Not more often than it
        is worth, but for ``at_once``.
        """
        now = time.monotonic()
        due = at_once or now - self._looked_at >= max(_EVERY_S, _SHARE * self._took_s)
        if not self._waiting or not self._changed or not due:
            return False
        # What is not looked at so far may be what a row waits for.
        self._changed = not self._quiet()
        over, before = self._places_over(), len(self._waiting)
        for key, waiting in list(self._waiting.items()):
            alone = waiting.kind != INPUT and self._engine.graphs.of(waiting.place.model) is None
            file = self._engine.catalogue.of_row(waiting.file)
            if file is not None and file.pending:
                continue
            if (waiting.place in over or alone) and key not in self._passing_at(waiting.place):
                del self._waiting[key]
        self._looked_at = time.monotonic()
        self._took_s = self._looked_at - now
        return len(self._waiting) < before

    def _passing_at(self, place: Place) -> Set[str]:
        """Return the keys of the failing rows of a place that the judge lets pass, by the rows that
        are there.
        """
        if place not in self._passing:
            rows = {row_key(row): row for row in self._engine.store.rows(place=place)}
            by_others = changed_by_others(self._engine, RunReader(self._engine), place)
            passing = {row_key(row) for row in by_others if row.verdict != FAIL}
            rows.update((row_key(row), row) for row in by_others)
            if not self._diverged:
                by_rounding = passing_by_rounding(self._engine, list(rows.values()))
                self._diverged = by_rounding is None
                passing |= by_rounding or set()
            self._passing[place] = passing
        return self._passing[place]

    def close(self) -> None:
        """The watch has ended: all rows are final."""
        self._waiting.clear()

    def _places_over(self) -> Set[Place]:
        """Return the places of provisional rows where nothing that counts comes any more."""
        if not self._quiet():
            return set()
        come = self._engine.come
        last: Dict[Place, Tuple[int, int, str]] = {}
        for place, names in come.items():
            if names:
                run = place._replace(step=None)
                last[run] = max(last.get(run, (-1, 0, "")), name_order(place.step))
        over = set()
        for place in {waiting.place for waiting in self._waiting.values()}:
            done, expected = self._engine.places.planner(place).dump_counts(come.get(place, ()))
            later = last.get(place._replace(step=None), (-1, 0, "")) > name_order(place.step)
            if later or (expected and done == expected):
                over.add(place)
        return over
