"""What the store of a merge tells of its hosts besides its rows (schemas/hosts.sql): facts, and
table ``host_place``.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ..base.wording import plural
from ..dumps.place import Place
from ..metrics.row import FAIL, NOT_COMPARED
from .row_counts import rows_of
from .row_schema import from_sql_text
from .store import RunStore

HOSTS = "hosts"
"""The fact of table ``run`` that tells for each host how far its store has been read."""

JUDGED_BY = "judged_by"
"""The fact that tells what the hosts' own runs were asked for, as ``inputs`` does of a run."""

HOST_SUMMARIES = "told"
"""The fact that tells of each host what its own run says: state, verdict, warnings."""

COMPUTED = "computed"
"""The fact that tells what came out of computing again where the first divergence and the suspects
lie; of a merge at ``PLACE``.
"""

PLACE = "place"
"""The fact that tells of which device × step all rows are there."""


class PlaceLine(NamedTuple):
    """The rows of one device × step of one host."""

    place: Place
    passed: int
    failed: int
    not_compared: int
    expected_absent: int
    outputs: int

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.passed + self.failed + self.not_compared + self.expected_absent


def place_lines_of(store: RunStore) -> List[PlaceLine]:
    """Return the lines of table ``host_place``, in the order of hosts and places."""
    columns = (
        "time, device, model, model_id, step, host, passed, failed, not_compared, "
        "expected_absent, outputs"
    )
    places = [
        PlaceLine(Place(*map(from_sql_text, line[:6])), *line[6:])
        for line in store.query("SELECT %s FROM host_place" % columns)
    ]
    return sorted(places, key=lambda line: line.place.order())


def first_place(store: RunStore) -> Optional[Place]:
    """Return the device × step of which all rows are there, or None."""
    place = store.get(PLACE)
    return Place(*place) if place else None


def host_summaries(store: RunStore) -> Dict[str, Dict[str, Any]]:
    """Return for each host what its own run says."""
    by_host: Dict[str, Dict[str, Any]] = store.get(HOST_SUMMARIES) or {}
    return by_host


def left_out(store: RunStore) -> Dict[str, int]:
    """Return for each host how many of its rows that did not pass have no place in the store."""
    counts: Dict[str, int] = {}
    for place, missing in store.counted.unstored().items():
        rows = rows_of(missing, (FAIL, NOT_COMPARED))
        if rows:
            counts[place.host or ""] = counts.get(place.host or "", 0) + rows
    return counts


def host_sentence(host: Mapping[str, Any]) -> str:
    """Return what became of one host of a merge, in one line.

    Parameters
    ----------
    host
        An entry of ``hosts`` in the summary.
    """
    counts = ["%d pass" % host["passed"], "%d fail" % host["failed"]]
    if host["not_compared"]:
        counts.append("%d not compared" % host["not_compared"])
    state = "" if host["state"] == "finished" else " (%s)" % host["state"]
    rows = plural(host["rows"], "row")
    return "host %s%s: %s, %s: %s" % (
        host["host"], state, host["verdict"], rows, ", ".join(counts)
    )  # fmt: skip
