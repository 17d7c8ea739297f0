"""What a store knows of its run as a whole: table ``run``."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from .connection import StoreConnection
from .identity import DamagedStore
from .rowsql import checksum


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
