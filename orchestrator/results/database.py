"""SQLite files as goldwatch opens them: journal mode, identity, and errors in words of the user's world."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Iterator, List, Optional, Tuple
from urllib.parse import quote

from ..errors import EnvironmentProblem, FormatError, GoldwatchError
from ..filesystem import NETWORK_FILE_SYSTEMS, file_system
from ..schemas import load_text

APPLICATION_ID = 0x476F6C64
LAYOUT_VERSION = 1
BUSY_TIMEOUT_S = 30.0

_TABLES = {"run", "row", "file", "event"}


def connect_writer(path: str) -> Tuple[sqlite3.Connection, str]:
    """Open ``path`` for writing; return the connection and why WAL cannot be used (empty when it is).

    WAL needs memory that readers and the writer share, which a network file system has not; there the rollback journal is used.

    Raises
    ------
    EnvironmentProblem, FormatError
        The file cannot be opened or written, or it is no SQLite file.
    """
    with translated(path):
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return connection, _set_journal(connection, os.path.dirname(os.path.abspath(path)))
        except BaseException:
            connection.close()
            raise


def _set_journal(connection: sqlite3.Connection, folder: str) -> str:
    kind = file_system(folder)
    problem = "%s is a network file system (%s)" % (folder, kind) if kind in NETWORK_FILE_SYSTEMS else _try_wal(connection)
    if problem:
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
        connection.execute("PRAGMA synchronous=FULL")
    else:
        # A killed process loses nothing in WAL with NORMAL; only a power failure may take the last rows, which are then compared again.
        connection.execute("PRAGMA synchronous=NORMAL")
    return problem


def _try_wal(connection: sqlite3.Connection) -> str:
    try:
        mode = str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        if mode != "wal":
            return "SQLite keeps journal mode %s here" % mode
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        return "WAL was tried and failed (%s)" % error
    return ""


def connect_reader(path: str) -> sqlite3.Connection:
    """Open ``path`` read-only, also where its folder cannot be written and the writer is gone.

    Raises
    ------
    EnvironmentProblem, FormatError
        The file cannot be read, or it is no SQLite file.
    """
    uri = "file:" + quote(os.fsencode(os.path.abspath(path)))
    with translated(path):
        try:
            return _tried(uri + "?mode=ro")
        except sqlite3.OperationalError:
            if os.path.exists(path + "-wal"):
                raise
            return _tried(uri + "?mode=ro&immutable=1")


def _tried(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def table_names(connection: sqlite3.Connection) -> List[str]:
    """Return the names of the file's own tables."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    return [str(name) for (name,) in found]


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of schemas/store.sql in a transaction that stays open, so that a store is there whole or not at all."""
    connection.executescript("BEGIN IMMEDIATE;\n" + load_text("store.sql"))
    connection.execute("PRAGMA application_id = %d" % APPLICATION_ID)
    connection.execute("PRAGMA user_version = %d" % LAYOUT_VERSION)


def check_identity(connection: sqlite3.Connection, path: str) -> None:
    """Raise FormatError unless this is a store whose layout this version knows."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID or not _TABLES.issubset(table_names(connection)):
        raise FormatError("an SQLite file of another program, not a goldwatch store", path, hint="choose another folder with -o")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != LAYOUT_VERSION:
        raise FormatError(
            "store layout %d, this goldwatch knows %d" % (version, LAYOUT_VERSION), path, hint="use the goldwatch that made it"
        )


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn sqlite3's errors into goldwatch's."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise translate(error, path) from error


def translate(error: sqlite3.Error, path: str) -> GoldwatchError:
    """Return goldwatch's error for one of sqlite3's."""
    text = str(error)
    folder = os.path.dirname(path) or "."
    if "full" in text:
        return EnvironmentProblem(
            "%s: the disk is full; the rows stored so far are safe" % path,
            hint="free space in %s and run the same command again: it goes on where it was" % folder,
        )
    if "malformed" in text or "not a database" in text or "encrypted" in text:
        return FormatError("damaged, or no SQLite file (%s)" % text, path, hint="choose another folder with -o, or discard it with --force")
    hint: Optional[str] = "check that %s can be written" % folder
    if "locked" in text:
        hint = "another program holds the store for writing; close it and run the same command again"
    return EnvironmentProblem("%s: %s" % (path, text), hint=hint)
