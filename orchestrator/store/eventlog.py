"""What happened to a run: table ``event`` of its store."""

from __future__ import annotations

import time
from typing import List, NamedTuple, Optional, Tuple

from .connection import StoreConnection
from .row_schema import to_sql_text


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
