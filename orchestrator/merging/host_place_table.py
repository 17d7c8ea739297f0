"""How many rows of each device × step of each host came to what: table ``host_place``."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List, Set, Tuple

from ..dumps.place import Place
from ..metrics.row import VERDICTS
from ..store.row_schema import to_sql_text
from ..store.row_sql import checksum
from ..store.store import RunStore

_INSERT = "INSERT OR REPLACE INTO host_place VALUES (%s)" % ", ".join("?" * 13)


class PlaceTable:
    """The counts of all places; kept in memory, changed lines are written by :meth:`write`.

    Attributes
    ----------
    counts
        By place: rows of each of :data:`VERDICTS`, then outputs that were compared.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._changed: Set[Place] = set()
        self.counts: Dict[Place, List[int]] = {}
        columns = (
            "time, device, model, model_id, step, host, passed, failed, not_compared, "
            "expected_absent, outputs"
        )
        for line in store.query("SELECT %s FROM host_place" % columns):
            self.counts[Place(*line[:6])] = list(line[6:])

    def change(self, place: Place) -> List[int]:
        """Return a place's counts, which are going to change."""
        self._changed.add(place)
        return self.counts.setdefault(place, [0] * 5)

    def replace(self, host: str, lines: Iterable[Tuple[Any, ...]]) -> None:
        """Take a host's counts, those of
        :meth:`goldwatch.merging.host_run_reader.HostRunReader.place_counts`.
        """
        self.forget(host)
        for *names, verdict, rows, outputs in lines:
            place = Place(*names)._replace(host=host)
            counts = self.change(place)
            counts[VERDICTS.index(verdict)] += rows
            counts[4] += outputs

    def forget(self, host: str) -> None:
        """Drop a host's counts."""
        self._store.connection.write_lines(
            "DELETE FROM host_place WHERE host = ?", [(to_sql_text(host),)]
        )
        for place in [place for place in self.counts if place.host == host]:
            del self.counts[place]
        self._changed = {place for place in self._changed if place.host != host}

    def write(self) -> None:
        """Write the lines that changed; inside a transaction."""
        lines = []
        for place in self._changed:
            names = [to_sql_text(part) for part in (place.host, *place.parts)]
            values = (json.dumps([place.host, *place.parts]), *names, *self.counts[place])
            lines.append((*values, checksum(values)))
        self._store.connection.write_lines(_INSERT, lines)
        self._changed.clear()
