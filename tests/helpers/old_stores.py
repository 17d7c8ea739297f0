"""Stores as earlier versions made them."""

from __future__ import annotations

import re
import sqlite3

from goldwatch.schemas import load_text


def as_the_first_layout(path):
    """Turn a store into what goldwatch made before rows had checksums."""
    connection = sqlite3.connect(path, isolation_level=None)
    for table in ("run", "row", "file", "event"):
        columns = [line[1] for line in connection.execute("PRAGMA table_info(%s)" % table) if line[1] != "sum"]
        names = ", ".join('"%s"' % name for name in columns)
        sql = re.search(r"CREATE TABLE %s \(.*?\n\);" % table, load_text("store.sql"), re.S).group()
        sql = re.sub(r",([^\n,]*)\n    sum +TEXT NOT NULL\n", r"\1\n", sql)
        indexes = re.findall(r"CREATE INDEX \w+ ON %s .*;" % table, load_text("store.sql"))
        steps = "ALTER TABLE {0} RENAME TO old; {1} INSERT INTO {0} SELECT {2} FROM old; DROP TABLE old; {3}"
        connection.executescript(steps.format(table, sql, names, " ".join(indexes)))
    connection.execute("PRAGMA user_version = 1")
    connection.close()
