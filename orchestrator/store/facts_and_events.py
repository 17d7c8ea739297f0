"""The store's small tables: facts of the run, events, and the files that were looked at."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any, List, NamedTuple, Optional, Tuple

from .integrity import DamagedStore
from .row_schema import to_sql_text
from .row_sql import checksum
from .store_connection import StoreConnection

EXPECTED = "expected"
"""The fact of table ``run`` that tells how much there is to compare, where that is known
beforehand: ``{"files", "bytes"}``.
"""

OPS = "ops"
"""The fact of table ``run`` that tells of how many ops a watch has compared the dumps, and of how
many they will come, in the places that it has seen: ``{"come", "expected"}``; null where no model
tells.
"""

PROVISIONAL = "provisional"
"""The fact of table ``run`` that tells which failing rows others may change while the run goes on:
``{"upto", "ids"}``.

Those with the ids, and all with ids above ``upto``, of which nothing has been found out.
"""

VOID = "void"
"""The fact of table ``run`` that tells the highest id given to a row when rows were last removed,
renumbered or discarded.
"""


class FileRecord(NamedTuple):
    """One line of table ``file``: size in bytes, modification time in nanoseconds, state."""

    size_bytes: int
    mtime_ns: int
    state: str


def write_fact(connection: StoreConnection, key: str, value: Any) -> None:
    """Store one fact (a JSON value)."""
    connection.write(
        "INSERT OR REPLACE INTO run (key, value, sum) VALUES (?, ?, ?)", (key, json.dumps(value))
    )


def read_fact(connection: sqlite3.Connection, path: str, key: str, default: Any = None) -> Any:
    """Return one fact of table ``run``.

    Raises
    ------
    DamagedStore
        It is not as it was stored.
    """
    line = connection.execute("SELECT key, value, sum FROM run WHERE key = ?", (key,)).fetchone()
    if line is None:
        return default
    try:
        if checksum(line[:2]) != line[2]:
            raise ValueError("its checksum is another")
        return json.loads(line[1])
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedStore(
            "damaged: what it says of the run (%s) is not as it was stored" % key, path
        ) from error


class Event(NamedTuple):
    """One line of table ``event``."""

    time_ns: int
    kind: str
    op: Optional[str]
    text: str


class EventLog:
    """The events of a store."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    def add(self, kind: str, op: Optional[str] = None, text: str = "") -> None:
        """Write down what happened."""
        values = (int(time.time() * 1e9), kind, to_sql_text(op), to_sql_text(text))
        self._connection.write(
            "INSERT INTO event (time_ns, kind, op, text, sum) VALUES (?, ?, ?, ?, ?)", values
        )

    def all(self, kind: Optional[str] = None) -> List[Event]:
        """Return the events, or those of one kind, in the order they happened."""
        where = "event ORDER BY id" if kind is None else "event WHERE kind = ? ORDER BY id"
        return [
            Event(*values)
            for values in self._connection.checked(
                "time_ns, kind, op, text", where, () if kind is None else (kind,)
            )
        ]

    def omit(self, tensor: str, reason: str) -> None:
        """Note a tensor that by the pairing rules has no row; twice the same is noted once."""
        values = (to_sql_text(tensor), to_sql_text(reason))
        with self._connection.transaction():
            if not self._connection.query(
                "SELECT 1 FROM event WHERE kind = 'omitted' AND op = ? AND text = ?", values
            ):
                self.add("omitted", tensor, reason)

    def omitted(self) -> List[Tuple[str, str]]:
        """Return the (tensor, reason) of what has no row, sorted: the same whoever found them in
        which order.
        """
        return sorted((event.op or "", event.text) for event in self.all("omitted"))
