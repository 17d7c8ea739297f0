"""Whose database a file is, and whether it is as goldwatch left it."""

from __future__ import annotations

import contextlib
import sqlite3
from functools import lru_cache
from typing import FrozenSet, Iterator, List, NamedTuple, Optional, Tuple

from ..base.errors import FormatError, GoldwatchError, UsageError
from ..base.safe_reading import open_input
from ..metrics.row import VERDICTS
from ..schemas import load_text
from .row_schema import COLUMNS, HOST, from_sql_text
from .row_sql import checksum, column_list, key_of_values

APPLICATION_ID = 0x476F6C64
LAYOUT_VERSION = 1
LAYOUT_DIGEST = "1:2160981279c62386"
"""The version with a digest of the tables that it stands for, by scripts/row_schema, which refuses
others of the same version.
"""

CHECKED = {
    "run": "key, value",
    "row": column_list(),
    "file": "path, size_bytes, mtime_ns, state",
    "event": "time_ns, kind, op, text",
}
"""What the checksum of each table's lines is taken of."""

CHECKED_OF_HOSTS = {
    **CHECKED,
    "row": column_list(hosts=True),
    "step_op": "step, op, tensor, metric, count, worst, mean, model, total",
    "host_place": "key, host, time, device, model, model_id, step, passed, failed, not_compared, "
    "expected_absent, outputs",
}
"""The same of a store of several hosts."""

_MAGIC = b"SQLite format 3\0"
_ID_AT = 68
_MARK = b"CREATE TABLE row_at_place (\n    id INTEGER PRIMARY KEY AUTOINCREMENT,\n    key"
_LOOK_BYTES = 1 << 20

Objects = FrozenSet[Tuple[str, str, str, Optional[str]]]


class DamagedStore(FormatError):
    """A store of ours, or what may have been one, is not as goldwatch left it (exit code 4)."""

    kind = "damaged_store"

    def __init__(self, message: str, path: str) -> None:
        super().__init__(
            message, path, hint="choose another folder for the results, or discard what is there"
        )


class OtherResults(UsageError):
    """OUT holds the results of another comparison (exit code 2)."""

    kind = "other_results"


class ForeignStore(FormatError):
    """The file is another program's, or another program added to it: it is never discarded (exit
    code 4).
    """

    kind = "foreign_store"

    def __init__(self, message: str, path: str) -> None:
        super().__init__(
            message, path, hint="choose another folder for the results, or move that file away"
        )


class EmptyStore(ForeignStore):
    """The file is empty: it is just being created, or its writer was killed (exit code 4)."""


def check_identity(connection: sqlite3.Connection, path: str) -> None:
    """Check that a store is goldwatch's, by its schema alone.

    Raises
    ------
    ForeignStore
        It is another program's database, or has triggers, views or tables that goldwatch does not
        make.
    DamagedStore
        Its tables are not those that goldwatch makes, or its layout is of another version.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    ours = application == APPLICATION_ID
    objects = _objects(connection)
    if not objects and not application:
        raise EmptyStore("an SQLite file without any table, not a goldwatch store", path)
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if (
        objects in (expected_objects(), expected_objects(hosts=True))
        and ours
        and version == LAYOUT_VERSION
    ):
        return
    names, known = {item[:3] for item in objects}, {item[:3] for item in expected_objects()}
    if not ours and not known <= names:
        raise ForeignStore("an SQLite file of another program, not a goldwatch store", path)
    if names > known:
        added = ", ".join(sorted("%s %s" % item[:2] for item in names - known)[:3])
        raise ForeignStore("it holds what goldwatch does not make (%s)" % added, path)
    if ours and names == known and version != LAYOUT_VERSION:
        raise DamagedStore(
            "store layout %d, this goldwatch knows %d: another version made it"
            % (version, LAYOUT_VERSION),
            path,
        )
    raise DamagedStore("damaged: its tables are not those that goldwatch makes", path)


def _objects(connection: sqlite3.Connection) -> Objects:
    return frozenset(
        connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    )


@lru_cache(maxsize=2)
def expected_objects(hosts: bool = False) -> Objects:
    """Return (type, name, table, SQL) of everything in a store that schemas/store.sql, and for
    several hosts schemas/hosts.sql, makes.
    """
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(schema_text(hosts))
        return _objects(connection)


def schema_text(hosts: bool = False) -> str:
    """Return the SQL that makes a store."""
    return load_text("store.sql") + (load_text("hosts.sql") if hosts else "")


def has_hosts(connection: sqlite3.Connection) -> bool:
    """Tell whether a store is of several hosts."""
    return any(
        name == HOST for _, name, *_ in connection.execute("PRAGMA table_info(row)").fetchall()
    )


def is_new(connection: sqlite3.Connection) -> bool:
    """Tell whether nothing has been stored in the database yet, by us or by anybody."""
    counts = ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
    return (
        not any(connection.execute(sql).fetchone()[0] for sql in counts)
        and connection.execute("PRAGMA page_count").fetchone()[0] <= 1
    )


def make_tables(connection: sqlite3.Connection, hosts: bool = False) -> None:
    """Make the tables of :func:`schema_text` in a transaction that stays open, so that a store is
    there whole or not at all.
    """
    connection.executescript("BEGIN IMMEDIATE;\n" + schema_text(hosts))
    connection.execute("PRAGMA application_id = %d" % APPLICATION_ID)
    connection.execute("PRAGMA user_version = %d" % LAYOUT_VERSION)


def may_discard(path: str) -> bool:
    """Tell whether a file that cannot be used is a store of ours, however damaged, or no database
    at all.
    """
    try:
        with open_input(path) as stream:
            head = stream.read(_LOOK_BYTES)
    except (GoldwatchError, OSError):
        return False
    if not head.startswith(_MAGIC):
        return True
    return head[_ID_AT : _ID_AT + 4] == APPLICATION_ID.to_bytes(4, "big") or _MARK in head


def check_structure(connection: sqlite3.Connection, path: str) -> None:
    """Raise DamagedStore unless SQLite finds its pages and indexes whole.

    Whoever opens a store does so, one that was closed properly too: a damaged index hides rows
    that are there, and no checksum of a row tells. Of 600 bits flipped in such a store 16 changed
    what was read without this check, 14 with ``quick_check``. It takes 4 ms for each MB.
    """
    answer = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    if answer != "ok":
        raise DamagedStore("damaged (%s)" % answer.replace("\n", " "), path)


class DamagedLine(NamedTuple):
    """A line that is not as it was stored: its table, rowid, and the op or name that it may have
    been about.
    """

    table: str
    rowid: int
    about: str


def damaged_lines(connection: sqlite3.Connection) -> Iterator[DamagedLine]:
    """Yield every line whose checksum does not fit, and every row whose key disagrees with its
    columns or whose verdict is unknown.
    """
    verdict, op = COLUMNS.index("verdict"), COLUMNS.index("op")
    for table, columns in (CHECKED_OF_HOSTS if has_hosts(connection) else CHECKED).items():
        for rowid, *values, stored_sum in connection.execute(
            "SELECT %s, %s, sum FROM %s" % ("id" if table == "row" else "rowid", columns, table)
        ):
            right = checksum(values) == stored_sum
            if right and table == "row":
                right = _agrees(values) and values[verdict] in VERDICTS
            if not right:
                yield DamagedLine(
                    table, rowid, str(from_sql_text(values[op if table == "row" else 0]))
                )


def _agrees(values: List[object]) -> bool:
    try:
        return bool(key_of_values(dict(zip((*COLUMNS, HOST), values))) == from_sql_text(values[0]))
    except (ValueError, TypeError):
        return False
