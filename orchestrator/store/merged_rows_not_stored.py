"""What the store of several hosts counts and does not hold: rows that passed, and those for which
there was no room.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set, Tuple

from ..base.notes import Note, note
from ..dumps.place import Place
from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS
from .row_counts import rows_of
from .row_schema import from_sql_text, to_sql_text
from .store import RunStore

_COMPARED = (PASS, FAIL, NOT_COMPARED)
_SQL = """SELECT step, model, op, tensor, sum(verdict = 'fail'), count(*) FROM row WHERE verdict IN ('fail', 'not_compared')
    GROUP BY step, model, op, tensor"""  # noqa: E501


class RowsNotStored:
    """The rows that a store lacks; none of a run of one host.

    Attributes
    ----------
    places
        By device × step how many there are by verdict.
    rows
        How many rows the run has, but for those that are absent as expected.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.places = store.counted.unstored()
        counts = store.counted.by_place() if store.has_hosts else {}
        self.rows = sum(rows_of(by_verdict, _COMPARED) for by_verdict in counts.values())
        self._alike: Dict[Tuple[Any, Any], int] = {}
        for place in counts:
            self._alike[place.step, place.model] = self._alike.get((place.step, place.model), 0) + 1
        self._bad: Optional[Dict[Tuple[Any, ...], Tuple[int, int]]] = None

    def passed(self, place: Optional[Place], op: str, tensor: str) -> bool:
        """Tell whether a tensor without a row at a place passed there: what did not is stored, and
        as many devices as can have a value.
        """
        if place is None or rows_of(self.places.get(place, {}), (FAIL, NOT_COMPARED)):
            return False
        if self._bad is None:
            self._bad = {
                tuple(map(from_sql_text, line[:4])): (line[4], line[5])
                for line in self._store.query(_SQL)
            }
        failed, bad = self._bad.get((place.step, place.model, op, tensor), (0, 0))
        names = [to_sql_text(name or "") for name in (place.step, op, tensor, place.model)]
        sql = (
            "SELECT coalesce(max(count), 0) FROM step_op WHERE step = ? AND op = ? AND tensor = ? "
            "AND model = ?"
        )
        return (
            int(self._store.query(sql, names)[0][0]) - failed
            == self._alike[place.step, place.model] - bad
        )

    def tensors(self) -> Set[str]:
        """Return the names of all tensors of which some device has a value."""
        if not self._store.has_hosts:
            return set()
        return {
            from_sql_text(tensor)
            for (tensor,) in self._store.query("SELECT DISTINCT tensor FROM step_op")
        }

    def notes(self, out: str, unknown: int) -> List[Note]:
        """Return what of the run in ``out`` is not compared, and ``unknown`` rows of the other run
        for that; or nothing.
        """
        counts = {
            verdict: sum(by_verdict.get(verdict, 0) for by_verdict in self.places.values())
            for verdict in (*_COMPARED, EXPECTED_ABSENT)
        }
        missing = [
            "%d rows that passed" % counts[PASS] if counts[PASS] else "",
            "%d that did not, for want of room" % rows_of(counts, (FAIL, NOT_COMPARED))
            if rows_of(counts, (FAIL, NOT_COMPARED))
            else "",
        ]
        if not any(missing):
            return []
        rest = "; nothing is said of %d rows of the other run" % unknown if unknown else ""
        return [note("rows-not-stored", out, " and ".join(filter(None, missing)), rest)]
