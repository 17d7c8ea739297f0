"""SQLite files as goldwatch opens them: journal mode, settings, and errors in words of the user's
world.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from ..base.errors import DiskFull, EnvironmentProblem, GoldwatchError
from ..base.mounts import NETWORK_FILE_SYSTEMS, file_system
from ..base.notes import Note, note
from .integrity import DamagedStore

BUSY_TIMEOUT_S = 30.0

_text = functools.partial(str, encoding="utf-8", errors="surrogateescape")
"""A TEXT that is not UTF-8 (damage) is told by its checksum instead of ending the query.

No Python function: a signal's handler would run in it, and sqlite3 of Python 3.7 calls on with the
exception set.
"""


def connect_writer(path: str) -> sqlite3.Connection:
    """Open ``path`` for writing; nothing is written yet.

    Raises
    ------
    EnvironmentProblem, DamagedStore
        The file cannot be opened, or it is no SQLite file.
    """
    with translated(path):
        return _tried(path, False)


def set_journal(connection: sqlite3.Connection, path: str) -> List[Note]:
    """Choose how the store at ``path`` is kept safe; return a note where WAL cannot
    be used.

    WAL needs memory that readers and the writer share, which a network file system has not; there
    the rollback journal is used.
    """
    folder = os.path.dirname(os.path.abspath(path))
    kind = file_system(folder)
    problem = (
        "%s is a network file system (%s)" % (folder, kind)
        if kind in NETWORK_FILE_SYSTEMS
        else _try_wal(connection)
    )
    if problem:
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
        connection.execute("PRAGMA synchronous=FULL")
    else:
        # A killed process loses nothing in WAL with NORMAL; only a power failure may take the last
        # rows, which are then compared again.
        connection.execute("PRAGMA synchronous=NORMAL")
        # Keys of a training's rows come place by place for each op: their pages are written again
        # and again. 64,000 rows take 7 % less processor time with these two, none with one alone.
        connection.execute("PRAGMA wal_autocheckpoint=4000")
        connection.execute("PRAGMA cache_size=-8000")
    return [note("no-wal", problem)] if problem else []


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
    EnvironmentProblem, DamagedStore
        The file cannot be read, or it is no SQLite file.
    """
    # Only where somebody reads: it costs as much as a hundred rows.
    from urllib.parse import quote

    uri = "file:" + quote(os.fsencode(os.path.abspath(path)))
    with translated(path):
        try:
            return _tried(uri + "?mode=ro", True)
        except sqlite3.OperationalError:
            if os.path.exists(path + "-wal"):
                raise
            return _tried(uri + "?mode=ro&immutable=1", True)


def lines_of(
    connection: sqlite3.Connection, sql: str, values: Sequence[Any] = ()
) -> List[Tuple[Any, ...]]:
    """Return all lines of a query."""
    # What is not UTF-8 is damage, which a checksum tells; SQLite's own decoder, twice as fast,
    # raises there.
    patient, connection.text_factory = connection.text_factory, str
    try:
        return connection.execute(sql, values).fetchall()
    except sqlite3.OperationalError:
        connection.text_factory = patient
        return connection.execute(sql, values).fetchall()
    finally:
        connection.text_factory = patient


def _tried(name: str, uri: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name, uri=uri, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        # What the file itself holds (functions in views and triggers, sizes of cells) is not
        # believed; older SQLite passes over the first.
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        connection.text_factory = _text
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn sqlite3's errors into goldwatch's."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except UnicodeDecodeError as error:
        # The text of SQLite's own error names something damaged.
        raise DamagedStore("damaged: a name in it is not UTF-8", path) from error


def translate(error: sqlite3.Error, path: str) -> GoldwatchError:
    """Return goldwatch's error for one of sqlite3's."""
    text = str(error)
    folder = os.path.dirname(path) or "."
    # Where SQLite finds no room for a journal, or no file, it says "disk I/O error" or "unable to
    # open database file".
    from ..base.mounts import is_full

    if "full" in text or (
        isinstance(error, sqlite3.OperationalError)
        and ("I/O" in text or "unable to open" in text)
        and is_full(folder)
    ):
        return DiskFull(
            "%s: the disk is full; the rows stored so far are safe" % path,
            hint="free space in %s, and the same again goes on where it was" % folder,
        )
    if not isinstance(error, sqlite3.OperationalError):
        return DamagedStore("damaged, or no SQLite file (%s)" % text, path)
    hint: Optional[str] = "check that %s can be written" % folder
    if "locked" in text:
        hint = "another program holds the store for writing; close it and try again"
    return EnvironmentProblem(text, hint, path)
