"""The connection of an open store: transactions, queries, and lines that carry a checksum."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from array import array
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from .database import lines_of, translated
from .integrity import DamagedStore
from .lock import OutLock
from .row_schema import SqlValue, from_sql_text
from .row_sql import checksum


class StoreConnection:
    """What the parts of a store do their SQL with; sqlite3's errors are told in words of the user's
    world.

    Parameters
    ----------
    raw
        The connection, in autocommit mode. Outside of :meth:`transaction` nobody writes.
    lock
        Given back when the connection is closed; None for a reader.
    """

    def __init__(self, path: str, raw: sqlite3.Connection, lock: Optional[OutLock] = None) -> None:
        self.path = path
        self.raw = raw
        self._lock = lock
        # Re-entrant: write_later begins a transaction.
        self._mutex = threading.RLock()
        self._depth = 0
        self.rollbacks = 0
        self._later: Dict[str, List[Tuple[SqlValue, ...]]] = {}
        _open.add(self)

    def close(self) -> None:
        """Close it and give the lock back; a second call does nothing."""
        with self._mutex:
            # The lock last: whoever waits for it opens the store, and SQLite would refuse to
            # change its journal under another connection.
            if self._lock is not None:
                self._leave_one_file()
            self.raw.close()
            if self._lock is not None:
                self._lock.release()
            _open.discard(self)

    def _leave_one_file(self) -> None:
        """Remove the journal where no other process reads: a later reader would create SQLite's
        side files again and could not remove them.
        """
        with contextlib.suppress(sqlite3.Error):
            self.raw.execute("PRAGMA busy_timeout = 0")
            self.raw.execute("PRAGMA journal_mode = DELETE").fetchone()

    @property
    def journal_mode(self) -> str:
        """Return ``wal``, or the rollback journal's ``delete``."""
        return str(self.query("PRAGMA journal_mode")[0][0])

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all that is written inside at once, or nothing when it raises; may be nested, the
        outermost commits.

        Raises
        ------
        EnvironmentProblem
            The disk is full or the file cannot be written. What was committed before is safe and
            the store can be used again.
        """
        with self.alone():
            outer = not self._depth and not self.raw.in_transaction
            if outer:
                self.raw.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
                if outer:
                    self._write_later()
                    self.raw.execute("COMMIT")
            except BaseException:
                if outer:
                    self._later.clear()
                    self.rollbacks += 1
                # SQLite has already rolled back after some errors, such as a full disk.
                if outer and self.raw.in_transaction:
                    self.raw.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Read inside what the store holds now, whatever its writer adds; without WAL, where that
        would stop it, as ever.
        """
        with self.alone():
            freezes = self.journal_mode == "wal"
            if freezes:
                self.raw.execute("BEGIN")
            try:
                yield
            finally:
                if freezes:
                    self.raw.execute("ROLLBACK")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the connection against other threads, and translate its errors."""
        with self._mutex, translated(self.path):
            yield

    def query(self, sql: str, values: Sequence[Any] = ()) -> List[Tuple[Any, ...]]:
        """Return all lines of a query."""
        # At once: an open cursor keeps SQLite from emptying its WAL (100,000 rows written beside
        # one gave 869 MB for a store of 33 KB).
        with self.alone():
            return lines_of(self.raw, sql, values)

    def numbers(self, sql: str, values: Sequence[Any] = ()) -> array[int]:
        """Return the one whole number of each line of a query."""
        with self.alone():
            return array("q", (number for (number,) in self.raw.execute(sql, values)))

    def checked(self, columns: str, source: str, values: Sequence[Any] = ()) -> Iterator[List[Any]]:
        """Yield lines of a small table, each compared with its checksum; ``source`` is the table
        and what follows it.
        """
        if self._later:
            with self.transaction():
                self._write_later()
        for line in self.query("SELECT %s, sum FROM %s" % (columns, source), values):
            if checksum(line[:-1]) != line[-1]:
                raise DamagedStore(
                    "damaged: a line of table %s is not as it was stored" % source.split()[0],
                    self.path,
                )
            yield [from_sql_text(value) for value in line[:-1]]

    def write(self, sql: str, values: Sequence[SqlValue]) -> None:
        """Write a line and its checksum."""
        with self.transaction():
            self.raw.execute(sql, (*values, checksum(values)))

    def write_later(self, sql: str, values: Tuple[SqlValue, ...]) -> None:
        """Write a line and its checksum at the end of the transaction: there are many of one
        kind.
        """
        with self._mutex:
            self._later.setdefault(sql, []).append(values)
            if not self._depth:
                with self.transaction():
                    pass

    def _write_later(self) -> None:
        later, self._later = self._later, {}
        for sql, lines in later.items():
            self.raw.executemany(sql, ((*values, checksum(values)) for values in lines))

    def write_lines(self, sql: str, lines: Iterable[Sequence[SqlValue]]) -> None:
        """Do the same for each of several lines, as they are, in one transaction."""
        with self.transaction():
            self.raw.executemany(sql, lines)


_open: weakref.WeakSet[StoreConnection] = weakref.WeakSet()
_inherited: List[sqlite3.Connection] = []


def _leave_alone_in_child() -> None:
    # A forked child must neither use nor close the parent's connection; keeping a reference keeps
    # it from being closed.
    _inherited.extend(connection.raw for connection in list(_open))


os.register_at_fork(after_in_child=_leave_alone_in_child)
