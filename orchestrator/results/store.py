"""The store of one run: OUT/run.sqlite (schemas/store.sql). Tables, pages and result files are views of it."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
import weakref
from types import TracebackType
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Type

from .. import __version__
from ..compare.row import Row
from ..dumps.place import Place
from ..errors import FormatError, MissingPath, UsageError
from ..filesystem import remove_leftovers, require_own_file
from .database import check_identity, connect_reader, connect_writer, make_tables, table_names, translated
from .lock import OutLock
from .outfolder import SIDE_FILES, canonical, check_inputs, discard_store, make_folder
from .rowsql import INSERT, PLACE_COLUMNS, SELECT_SAME, from_sql_text, row_key, row_values, to_sql_text
from .rowview import PLACE_ORDER, RowView, selection

STORE_FILE = "run.sqlite"



class FileRecord(NamedTuple):
    """One line of table ``file``: size in bytes, modification time in nanoseconds, state."""

    size_bytes: int
    mtime_ns: int
    state: str


class Event(NamedTuple):
    """One line of table ``event``."""

    time_ns: int
    kind: str
    op: Optional[str]
    text: str


class RunStore:
    """Rows, files and events of one run at rest.

    Make one with :meth:`begin` (to write) or :meth:`open` (to read); use it as a context manager or call :meth:`close`. Every method may be
    called from any thread of the process that made it, none from a forked child.

    Attributes
    ----------
    path
        The SQLite file.
    continued
        True when the store was there before and goes on.
    journal_note
        Why WAL is not used here; empty when it is.
    lock_note
        Why OUT is not locked; empty when it is.
    """

    def __init__(self, path: str, connection: sqlite3.Connection, lock: Optional[OutLock] = None, journal_note: str = "") -> None:
        self.path = path
        self.continued = False
        self.journal_note = journal_note
        self.lock_note = lock.note if lock else ""
        self._connection = connection
        self._out_lock = lock
        self._mutex = threading.RLock()
        self._depth = 0
        _open_stores.add(self)

    @classmethod
    def begin(cls, out: str, inputs: Mapping[str, Any], force: bool = False) -> RunStore:
        """Make the store of ``out``, or go on with the one that is there.

        Parameters
        ----------
        out
            The folder; made when it is missing.
        inputs
            What the run depends on (paths, options, limits), as JSON values. A store of other inputs is not touched.
        force
            Discard a store of other inputs, or a damaged one, and start anew. A store of the same inputs goes on all the same.

        Raises
        ------
        UsageError
            ``out`` holds a store of other inputs and ``force`` is False.
        MissingPath, EnvironmentProblem
            ``out`` is a file, cannot be written, or another process writes there.
        FormatError
            ``out`` holds a damaged or foreign run.sqlite and ``force`` is False.
        """
        make_folder(out)
        lock = OutLock(out)
        try:
            path = os.path.join(out, STORE_FILE)
            for suffix in SIDE_FILES:
                require_own_file(path + suffix)
            remove_leftovers(out)
            try:
                store = cls._go_on(path, lock, inputs)
            except (UsageError, FormatError):
                if not force:
                    raise
                discard_store(path)
                store = cls._go_on(path, lock, inputs)
            store._note_start()
        except BaseException:
            lock.release()
            raise
        return store

    def _note_start(self) -> None:
        try:
            with self.transaction():
                self.event("continued" if self.continued else "started", text="goldwatch %s, pid %d" % (__version__, os.getpid()))
                for note in (self.journal_note, self.lock_note):
                    if note:
                        self.event("note", text=note)
        except BaseException:
            self.close()
            raise

    @classmethod
    def _go_on(cls, path: str, lock: OutLock, inputs: Mapping[str, Any]) -> RunStore:
        connection, journal_note = connect_writer(path)
        try:
            with translated(path):
                store = cls(path, connection, lock, journal_note)
                if table_names(connection):
                    check_identity(connection, path)
                    store.continued = True
                    check_inputs(os.path.dirname(path), store.get("inputs"), inputs)
                else:
                    make_tables(connection)
                    store.set("inputs", inputs)
                    store.set("started", time.strftime("%Y%m%d%H%M%S"))
                    store.set("version", __version__)
                    connection.execute("COMMIT")
                return store
        except BaseException:
            connection.close()
            raise

    @classmethod
    def open(cls, out: str) -> RunStore:
        """Open the store of ``out`` to read it, also while another process writes it.

        Raises
        ------
        MissingPath
            There is no store.
        FormatError, EnvironmentProblem
            It is damaged, foreign or cannot be read.
        """
        path = os.path.join(out, STORE_FILE)
        if not os.path.isfile(path):
            raise MissingPath("%s: there is no %s" % (out, STORE_FILE), hint="name the folder that compare, watch or run was given with -o")
        connection = connect_reader(path)
        try:
            with translated(path):
                check_identity(connection, path)
        except BaseException:
            connection.close()
            raise
        store = cls(path, connection)
        store.continued = True
        return store

    @property
    def journal_mode(self) -> str:
        """Return ``wal``, or the rollback journal's ``delete``."""
        return str(self._query("PRAGMA journal_mode")[0][0])

    @property
    def started(self) -> str:
        """Return the local time of the first start, ``YYYYmmddHHMMSS``; kept over restarts."""
        return str(self.get("started", ""))

    def close(self) -> None:
        """Close the store and give the lock back; a second call does nothing."""
        with self._mutex:
            self._connection.close()
            if self._out_lock is not None:
                self._out_lock.release()
            _open_stores.discard(self)

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all that is written inside at once, or nothing when it raises; may be nested, the outermost commits.

        Raises
        ------
        EnvironmentProblem
            The disk is full or the file cannot be written. What was committed before is safe and the store can be used again.
        """
        with self._mutex, translated(self.path):
            outer = not self._depth and not self._connection.in_transaction
            if outer:
                self._connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
                if outer:
                    self._connection.execute("COMMIT")
            except BaseException:
                # SQLite has already rolled back after some errors, such as a full disk.
                if outer and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def put(self, row: Row, key: Optional[str] = None) -> None:
        """Store a finished row; it is committed at once, unless inside :meth:`transaction`.

        A row that was there under the same key is replaced (the new one gets a new rowid), and an event says what it was.

        Parameters
        ----------
        key
            What the row is about; :func:`row_key` of the row by default.
        """
        with self.transaction():
            self._put(row, row_key(row) if key is None else key)

    def put_all(self, rows: Iterable[Row]) -> None:
        """Store rows in one transaction, each under its :func:`row_key`."""
        with self.transaction():
            for row in rows:
                self._put(row, row_key(row))

    def _put(self, row: Row, key: str) -> None:
        values = row_values(row, key)
        try:
            self._connection.execute(INSERT, values)
        except sqlite3.IntegrityError:
            # Found again as it was, such as by a run that goes on: nothing happened.
            if self._connection.execute(SELECT_SAME, (values[0],)).fetchone() == tuple(values):
                return
            self._take_out(key, "replaced", "now %s%s" % (row.verdict, " (%s)" % row.reason if row.reason else ""))
            self._connection.execute(INSERT, values)

    def remove(self, keys: Iterable[str], why: str) -> None:
        """Take rows out again, each with an event; unknown keys are passed over."""
        with self.transaction():
            for key in keys:
                self._take_out(key, "removed", why)

    def _take_out(self, key: str, kind: str, why: str) -> None:
        found = self._connection.execute(
            "SELECT op, tensor, verdict, reason, target_file, CosineSimilarity FROM row WHERE key = ?", (to_sql_text(key),)
        ).fetchone()
        if found is None:
            return
        op, tensor, verdict, reason, target_file, cosine = (from_sql_text(value) for value in found)
        self._connection.execute("DELETE FROM row WHERE key = ?", (to_sql_text(key),))
        before = "%s: was %s%s" % (tensor, verdict, " (%s)" % reason if reason else "")
        if cosine is not None:
            before += ", CosineSimilarity %s" % cosine
        self.event(kind, op, "%s, file %s; %s" % (before, target_file, why))

    def done_keys(self) -> Set[str]:
        """Return the keys of all rows."""
        return {from_sql_text(key) for (key,) in self._query("SELECT key FROM row")}

    def keys_of_file(self, target_file: str) -> List[str]:
        """Return the keys of the rows about one target file."""
        return [from_sql_text(key) for (key,) in self._query("SELECT key FROM row WHERE target_file = ?", (to_sql_text(target_file),))]

    def keys_by_file(self) -> List[Tuple[str, Optional[str]]]:
        """Return (key, target_file) of all rows."""
        return [(from_sql_text(key), from_sql_text(target)) for key, target in self._query("SELECT key, target_file FROM row")]

    def verdicts_of_file(self, target_file: str) -> List[Tuple[str, str]]:
        """Return (verdict, cause) of each row about one target file."""
        found = self._query("SELECT verdict, cause FROM row WHERE target_file = ?", (to_sql_text(target_file),))
        return [(str(verdict), str(cause)) for verdict, cause in found]

    def target_files(self) -> List[Tuple[Optional[str], Optional[str]]]:
        """Return the distinct (target_file, golden_file) of all rows."""
        found = self._query("SELECT DISTINCT target_file, golden_file FROM row")
        return [(from_sql_text(target), from_sql_text(golden)) for target, golden in found]

    def renumber(self, place: Place, numbers: Mapping[str, int]) -> int:
        """Give the rows of ops that the json does not know their final Index; return how many changed.

        Parameters
        ----------
        numbers
            Index by op name; only rows without OpSequence are looked at.
        """
        where, values = selection(place, None)
        changed = 0
        with self.transaction():
            for op, number in numbers.items():
                sql = 'UPDATE row SET "index" = ?%s AND op = ? AND op_sequence IS NULL AND "index" <> ?' % where
                changed += self._connection.execute(sql, (number, *values, to_sql_text(op), number)).rowcount
        return changed

    def rows(self, order: str = "index", place: Optional[Place] = None, verdict: Optional[str] = None) -> RowView:
        """Return the rows as an iterable that can be walked again and again, with bounded memory.

        Parameters
        ----------
        order
            ``index``: as the result table has them (place, Index, the op's place in its group, timestamp, inputs before outputs).
            ``arrival``: as they came.
        place
            Only the rows of this place.
        verdict
            Only the rows of this verdict.
        """
        return RowView(self._query, order, place, verdict)

    def places(self) -> List[Place]:
        """Return the places that rows were stored for, in the order of the result table."""
        names = ", ".join(PLACE_COLUMNS)
        found = self._query("SELECT DISTINCT %s FROM row ORDER BY %s" % (names, PLACE_ORDER))
        return [Place(*(from_sql_text(value) for value in values)) for values in found]

    def counts(self, place: Optional[Place] = None) -> Dict[str, int]:
        """Return the number of rows by verdict."""
        where, values = selection(place, None)
        return dict(self._query("SELECT verdict, count(*) FROM row%s GROUP BY verdict" % where, values))

    def op_count(self) -> int:
        """Return the number of distinct ops that have rows."""
        return int(self._query("SELECT count(DISTINCT op) FROM row")[0][0])

    def get(self, key: str, default: Any = None) -> Any:
        """Return one fact of table ``run``."""
        found = self._query("SELECT value FROM run WHERE key = ?", (key,))
        return json.loads(found[0][0]) if found else default

    def set(self, key: str, value: Any) -> None:
        """Store one fact (a JSON value) in table ``run``."""
        with self.transaction():
            self._connection.execute("INSERT OR REPLACE INTO run (key, value) VALUES (?, ?)", (key, canonical(value)))

    def put_file(self, path: str, size_bytes: int, mtime_ns: int, state: str) -> None:
        """Note the state of a file that was looked at, in place of an older note."""
        with self.transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO file (path, size_bytes, mtime_ns, state) VALUES (?, ?, ?, ?)",
                (to_sql_text(path), size_bytes, mtime_ns, state),
            )

    def files(self, state: Optional[str] = None) -> Dict[str, FileRecord]:
        """Return what was noted about files, by path."""
        sql = "SELECT path, size_bytes, mtime_ns, state FROM file"
        found = self._query(sql) if state is None else self._query(sql + " WHERE state = ?", (state,))
        return {from_sql_text(path): FileRecord(*values) for path, *values in found}

    def event(self, kind: str, op: Optional[str] = None, text: str = "") -> None:
        """Write down what happened."""
        with self.transaction():
            self._connection.execute(
                "INSERT INTO event (time_ns, kind, op, text) VALUES (?, ?, ?, ?)",
                (int(time.time() * 1e9), kind, to_sql_text(op), to_sql_text(text)),
            )

    def events(self, kind: Optional[str] = None) -> List[Event]:
        """Return the events in the order they happened."""
        sql = "SELECT time_ns, kind, op, text FROM event"
        found = self._query(sql + " ORDER BY id") if kind is None else self._query(sql + " WHERE kind = ? ORDER BY id", (kind,))
        return [Event(*(from_sql_text(value) for value in values)) for values in found]

    def omit(self, tensor: str, reason: str) -> None:
        """Note a tensor that by the pairing rules has no row; twice the same is noted once."""
        values = (to_sql_text(tensor), to_sql_text(reason))
        with self.transaction():
            if not self._query("SELECT 1 FROM event WHERE kind = 'omitted' AND op = ? AND text = ?", values):
                self.event("omitted", tensor, reason)

    def omitted(self) -> List[Tuple[str, str]]:
        """Return the (tensor, reason) of what has no row."""
        return [(event.op or "", event.text) for event in self.events("omitted")]

    def _query(self, sql: str, values: Sequence[Any] = ()) -> List[Tuple[Any, ...]]:
        with self._mutex, translated(self.path):
            return self._connection.execute(sql, values).fetchall()


_open_stores: weakref.WeakSet[RunStore] = weakref.WeakSet()
_inherited: List[sqlite3.Connection] = []


def _leave_alone_in_child() -> None:
    # A forked child must neither use nor close the parent's connection; keeping a reference keeps it from being closed.
    _inherited.extend(store._connection for store in list(_open_stores))


os.register_at_fork(after_in_child=_leave_alone_in_child)
