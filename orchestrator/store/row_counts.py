"""How many rows a run has: what everyone asks who tells it. The store of several hosts holds some
of their rows, and counts of all.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ..dumps.place import Place
from ..metrics.row import VERDICTS
from .row_schema import PLACE_COLUMNS, from_sql_text

_NAMES = ", ".join(PLACE_COLUMNS)

Query = Callable[..., List[Tuple[Any, ...]]]
Counted = Dict[str, int]
"""Rows by verdict; one that no row has is not there."""


class RunCounts:
    """The counts of a run's rows.

    Parameters
    ----------
    query
        Returns all lines of a query about the store: SQL, then values.
    hosts
        The store is of several hosts (schemas/hosts.sql).
    """

    def __init__(self, query: Query, hosts: bool) -> None:
        self._query = query
        self._hosts = hosts

    def all(self) -> Counted:
        """Return the rows of the run by verdict."""
        if not self._hosts:
            return _counted(
                self._query("SELECT verdict, count(*) FROM row_at_place GROUP BY verdict")
            )
        sums = self._query(
            "SELECT sum(passed), sum(failed), sum(not_compared), sum(expected_absent) FROM "
            "host_place"
        )[0]
        return _counted(zip(VERDICTS, sums))

    def stored(self) -> int:
        """Return how many rows the store holds."""
        return int(self._query("SELECT count(*) FROM row_at_place")[0][0])

    def by_place(self) -> Dict[Place, Counted]:
        """Return the same of each device × model × step, in the order of hosts and places."""
        if not self._hosts:
            return self._stored()
        lines = self._query(
            "SELECT %s, host, passed, failed, not_compared, expected_absent FROM host_place"
            % _NAMES
        )
        counts = {
            Place(*map(from_sql_text, line[:6])): _counted(zip(VERDICTS, line[6:]))
            for line in lines
        }
        return dict(sorted(counts.items(), key=lambda entry: entry[0].order()))

    def unstored(self) -> Dict[Place, Counted]:
        """Return how many of them the store does not hold; only of places where there are some."""
        if not self._hosts:
            return {}
        stored = self._stored()
        left = {}
        for place, counts in self.by_place().items():
            known = stored.get(place, {})
            missing = _counted(
                (verdict, count - known.get(verdict, 0)) for verdict, count in counts.items()
            )
            if missing:
                left[place] = missing
        return left

    def names(self) -> Tuple[Set[Optional[str]], Set[Optional[str]], Set[Optional[str]]]:
        """Return the models, devices (with their hosts) and steps of all rows of several hosts."""
        lines_of = [
            self._query("SELECT DISTINCT %s FROM host_place" % name)
            for name in ("model", "device, host", "step")
        ]
        models, places, steps = (
            [tuple(map(from_sql_text, line)) for line in lines] for lines in lines_of
        )
        devices = {Place(device=device, host=host).device_name for device, host in places}
        return {model for (model,) in models}, devices, {step for (step,) in steps}

    def _stored(self) -> Dict[Place, Counted]:
        names = _NAMES + (", host" if self._hosts else "")
        counts: Dict[Place, Counted] = {}
        for *place, verdict, rows in self._query(
            "SELECT %s, verdict, sum(rows) FROM (SELECT place_id, verdict, count(*) AS rows FROM "
            "row_at_place GROUP BY place_id, verdict) LEFT JOIN place ON place.id = place_id "
            "GROUP BY %s, verdict" % (names, names)
        ):
            counts.setdefault(Place(*map(from_sql_text, place)), {})[str(verdict)] = int(rows)
        return counts


def _counted(counts: Any) -> Counted:
    return {str(verdict): int(count) for verdict, count in counts if count and count > 0}


def rows_of(counts: Mapping[str, int], verdicts: Sequence[str] = VERDICTS) -> int:
    """Return how many rows there are, of these verdicts."""
    return sum(counts.get(verdict, 0) for verdict in verdicts)
