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
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Type

from .. import __version__
from ..comparing.row import Row
from ..errors import FormatError
from ..filesystem import remove_leftovers, require_own_file
from .database import translated
from .identity import LAYOUT_VERSION, DamagedStore, ForeignStore, may_discard
from .lock import OutLock
from .opening import STORE_FILE, Opened, highest_id, open_to_read, open_to_write, read_fact
from .outfolder import SIDE_FILES, OtherResults, discard_store, make_folder
from .records import VOID, Event, FileRecord
from .rowlines import RowLines
from .rowqueries import RowQueries
from .rowsql import RowReader, SqlValue, checksum, from_sql_text, insert_sql, row_values, to_sql_text

_STARTED = "YYYYmmddHHMMSS"
OnStored = Callable[[Row, int, str], None]


class RunStore(RowLines, RowQueries):
    """Rows, files and events of one run at rest.

    Make one with :meth:`begin` (to write) or :meth:`open` (to read); use it as a context manager or call :meth:`close`. Every method may be
    called from any thread of the process that made it, none from a forked child.

    Attributes
    ----------
    path
        The SQLite file.
    continued
        True when the store was there before and goes on.
    notes
        What the user must know: no WAL here, no lock, damage that was found, a store of an earlier version.
    """

    def __init__(self, path: str, connection: sqlite3.Connection, version: int, lock: Optional[OutLock] = None) -> None:
        self.path = path
        self.continued = False
        self.notes: List[str] = []
        self._connection = connection
        self._summed = version == LAYOUT_VERSION
        self._out_lock = lock
        self._mutex = threading.RLock()
        self._noted: List[Tuple[SqlValue, ...]] = []
        self._depth = 0
        columns = [name for _, name, *_ in self._query("PRAGMA table_info(row)")]
        # A writer has compared all checksums when it opened the store.
        self._reader = RowReader(path, columns, checked=lock is None)
        self._insert = insert_sql(self._reader.hosts)
        _open_stores.add(self)

    @classmethod
    def begin(cls, out: str, inputs: Mapping[str, Any], force: bool = False, hosts: bool = False) -> RunStore:
        """Make the store of ``out``, or go on with the one that is there.

        Rows that are not as they were stored are dropped, so that they are found again; ``notes`` and an event say so. A store of an
        earlier version is kept under another name and a new one is begun.

        Parameters
        ----------
        out
            The folder; made when it is missing.
        inputs
            What the run depends on (paths, options, limits), as JSON values. A store of other inputs is not touched.
        force
            Discard a store of other inputs, or a damaged one, and start anew. A store of the same inputs goes on all the same; another
            program's database is never discarded.
        hosts
            The run is of several hosts (schemas/hosts.sql): each row has one.

        Raises
        ------
        OtherResults
            ``out`` holds a store of other inputs and ``force`` is False.
        MissingPath, EnvironmentProblem
            ``out`` is a file, cannot be written, or another process writes there.
        DamagedStore
            ``out`` holds a damaged run.sqlite and ``force`` is False.
        ForeignStore
            Its run.sqlite is another program's.
        """
        make_folder(out)
        lock = OutLock(out)
        try:
            path = os.path.join(out, STORE_FILE)
            for suffix in SIDE_FILES:
                require_own_file(path + suffix)
            remove_leftovers(out)
            try:
                opened = open_to_write(path, inputs, hosts)
            except (OtherResults, FormatError) as error:
                if not force or isinstance(error, ForeignStore) or not may_discard(path):
                    raise
                given = highest_id(path)
                discard_store(path)
                opened = open_to_write(path, inputs, hosts)
                opened.facts[VOID] = given
            return cls._started_with(path, opened, inputs, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _started_with(cls, path: str, opened: Opened, inputs: Mapping[str, Any], lock: OutLock) -> RunStore:
        store = cls(path, opened.connection, LAYOUT_VERSION, lock)
        try:
            store.continued = opened.continued
            store.notes = [note for note in (*opened.notes, opened.journal_note, lock.note) if note]
            with translated(path):
                if not opened.continued:
                    facts = {"inputs": inputs, "started": time.strftime("%Y%m%d%H%M%S"), "version": __version__}
                    # Nobody who saw a row of a store that was here, whoever removed it, takes one of this for it.
                    before = max(opened.facts.get(VOID, 0), microseconds())
                    for key, value in dict(facts, **{**opened.facts, VOID: before}).items():
                        store.set(key, value)
                    opened.connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('row', ?)", (before,))
                    opened.connection.execute("COMMIT")
                with store.transaction():
                    # Until it finishes again, an earlier end's summary is of other rows.
                    opened.connection.execute("DELETE FROM run WHERE key = 'summary'")
                    store._note_start(opened)
            # What is not UTF-8 is gone: from here on SQLite's own decoder, twice as fast.
            opened.connection.text_factory = str
            return store
        except BaseException:
            store.close()
            raise

    def _note_start(self, opened: Opened) -> None:
        for line in opened.damaged:
            self._connection.execute("DELETE FROM %s WHERE rowid = ?" % line.table, (line.rowid,))
            self.event("damaged", line.about, "a line of table %s was not as it was stored; it was dropped" % line.table)
        self.event("continued" if self.continued else "started", text="goldwatch %s, pid %d" % (__version__, os.getpid()))
        for note in self.notes:
            self.event("note", text=note)

    @classmethod
    def open(cls, out: str) -> RunStore:
        """Open the store of ``out`` to read it, also while another process writes it.

        Raises
        ------
        MissingPath
            There is no store.
        DamagedStore, ForeignStore, EnvironmentProblem
            It is damaged, foreign or cannot be read. Rows are checked as they are read.
        """
        path = os.path.join(out, STORE_FILE)
        connection, version, notes = open_to_read(path)
        store = cls(path, connection, version)
        store.continued = True
        store.notes = notes
        return store

    @property
    def journal_mode(self) -> str:
        """Return ``wal``, or the rollback journal's ``delete``."""
        return str(self._query("PRAGMA journal_mode")[0][0])

    @property
    def started(self) -> str:
        """Return the local time of the first start, ``YYYYmmddHHMMSS``; kept over restarts."""
        found = self.get("started", "")
        if not isinstance(found, str) or len(found) != len(_STARTED) or not found.isdigit():
            raise DamagedStore("damaged: the time of its first start is %r, not %s" % (found, _STARTED), self.path)
        return found

    @property
    def has_hosts(self) -> bool:
        """Whether the run is of several hosts (schemas/hosts.sql)."""
        return self._reader.hosts

    def close(self) -> None:
        """Close the store and give the lock back; a second call does nothing."""
        with self._mutex:
            if self._out_lock is not None:
                self._leave_one_file()
            self._connection.close()
            if self._out_lock is not None:
                self._out_lock.release()
            _open_stores.discard(self)

    def _leave_one_file(self) -> None:
        """Put the journal away where nobody else reads: a later reader would make SQLite's side files anew and could not remove them."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA journal_mode = DELETE").fetchone()

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
                    self._write_noted()
                    self._connection.execute("COMMIT")
            except BaseException:
                if outer:
                    self._noted.clear()
                # SQLite has already rolled back after some errors, such as a full disk.
                if outer and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def put(self, row: Row) -> None:
        """Store a finished row under its :func:`row_key`; it is committed at once, unless inside :meth:`transaction`.

        A row that was there under the same key is replaced (the new one gets a new rowid), and an event says what it was.
        """
        self.put_all([row])

    def put_all(self, rows: Iterable[Row], told: OnStored = lambda row, number, checksum: None) -> None:
        """Store rows in one transaction, each as :meth:`put` does.

        Parameters
        ----------
        told
            Called with each row, its number (id) and its checksum; not with rows that were there as they are.
        """
        with self.transaction():
            for row in rows:
                stored = self._put(row)
                if stored is not None:
                    told(row, *stored)

    def _put(self, row: Row) -> Optional[Tuple[int, str]]:
        values = row_values(row)
        found = checksum(values)
        try:
            number = self._connection.execute(self._insert, (*values, found)).lastrowid
        except sqlite3.IntegrityError:
            # Found again as it was, such as by a run that goes on: nothing happened.
            if self._connection.execute("SELECT sum FROM row WHERE key = ?", values[:1]).fetchone() == (found,):
                return None
            self._take_out(values[0], "replaced", "now %s%s" % (row.verdict, " (%s)" % row.reason if row.reason else ""))
            number = self._connection.execute(self._insert, (*values, found)).lastrowid
        return number or 0, found

    def _take_out(self, key: SqlValue, kind: str, why: str) -> None:
        found = self._connection.execute(
            "SELECT op, tensor, verdict, reason, target_file, CosineSimilarity FROM row WHERE key = ?", (key,)
        ).fetchone()
        if found is None:
            return
        op, tensor, verdict, reason, target_file, cosine = (from_sql_text(value) for value in found)
        self._connection.execute("DELETE FROM row WHERE key = ?", (key,))
        before = "%s: was %s%s" % (tensor, verdict, " (%s)" % reason if reason else "")
        if cosine is not None:
            before += ", CosineSimilarity %s" % cosine
        self.event(kind, op, "%s, file %s; %s" % (before, target_file, why))

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Read inside what the store holds now, whatever its writer adds; without WAL, where that would stop it, as ever."""
        with self._mutex, translated(self.path):
            freezes = self.journal_mode == "wal"
            if freezes:
                self._connection.execute("BEGIN")
            try:
                yield
            finally:
                if freezes:
                    self._connection.execute("ROLLBACK")

    def get(self, key: str, default: Any = None) -> Any:
        """Return one fact of table ``run``; raises DamagedStore where it is not as it was stored."""
        with self._mutex, translated(self.path):
            return read_fact(self._connection, self.path, key, default)

    def set(self, key: str, value: Any) -> None:
        """Store one fact (a JSON value) in table ``run``."""
        with self.transaction():
            self._write("INSERT OR REPLACE INTO run (key, value, sum) VALUES (?, ?, ?)", (key, json.dumps(value)))

    def put_file(self, path: str, size_bytes: int, mtime_ns: int, state: str) -> None:
        """Note the state of a file that was looked at, in place of an older note."""
        with self._mutex:
            self._noted.append((to_sql_text(path), size_bytes, mtime_ns, to_sql_text(state)))
            if not self._depth:
                with self.transaction():
                    pass

    def _write_noted(self) -> None:
        """Write what :meth:`put_file` noted in this transaction."""
        noted, self._noted = self._noted, []
        lines = ((*values, checksum(values)) for values in noted)
        self._connection.executemany("INSERT OR REPLACE INTO file (path, size_bytes, mtime_ns, state, sum) VALUES (?, ?, ?, ?, ?)", lines)

    def files(self, state: Optional[str] = None) -> Dict[str, FileRecord]:
        """Return what was noted about files, by path."""
        with self._mutex:
            if self._noted:
                self._write_noted()
        where = "" if state is None else " WHERE state = ?"
        found = self._lines("path, size_bytes, mtime_ns, state", "file" + where, () if state is None else (state,))
        return {path: FileRecord(*values) for path, *values in found}

    def event(self, kind: str, op: Optional[str] = None, text: str = "") -> None:
        """Write down what happened."""
        values = (int(time.time() * 1e9), kind, to_sql_text(op), to_sql_text(text))
        with self.transaction():
            self._write("INSERT INTO event (time_ns, kind, op, text, sum) VALUES (?, ?, ?, ?, ?)", values)

    def events(self, kind: Optional[str] = None) -> List[Event]:
        """Return the events in the order they happened."""
        where = "event ORDER BY id" if kind is None else "event WHERE kind = ? ORDER BY id"
        return [Event(*values) for values in self._lines("time_ns, kind, op, text", where, () if kind is None else (kind,))]

    def omit(self, tensor: str, reason: str) -> None:
        """Note a tensor that by the pairing rules has no row; twice the same is noted once."""
        values = (to_sql_text(tensor), to_sql_text(reason))
        with self.transaction():
            if not self._query("SELECT 1 FROM event WHERE kind = 'omitted' AND op = ? AND text = ?", values):
                self.event("omitted", tensor, reason)

    def omitted(self) -> List[Tuple[str, str]]:
        """Return the (tensor, reason) of what has no row, sorted: the same whoever found them in which order."""
        return sorted((event.op or "", event.text) for event in self.events("omitted"))

    def _query(self, sql: str, values: Sequence[Any] = ()) -> List[Tuple[Any, ...]]:
        with self._mutex, translated(self.path):
            return self._connection.execute(sql, values).fetchall()

    def query(self, sql: str, values: Sequence[Any] = ()) -> List[Tuple[Any, ...]]:
        """Return all lines of a query about tables of this store that are another module's."""
        return self._query(sql, values)

    def write_lines(self, sql: str, lines: Iterable[Sequence[SqlValue]]) -> None:
        """Do the same to such a table for each of several lines, in one transaction."""
        with self.transaction():
            self._connection.executemany(sql, lines)

    def _write(self, sql: str, values: Sequence[SqlValue]) -> None:
        self._connection.execute(sql, (*values, checksum(values)))

    def _lines(self, columns: str, source: str, values: Sequence[Any]) -> Iterator[List[Any]]:
        """Yield lines of a table, each compared with its checksum."""
        for line in self._query("SELECT %s%s FROM %s" % (columns, ", sum" if self._summed else "", source), values):
            if self._summed and checksum(line[:-1]) != line[-1]:
                raise DamagedStore("damaged: a line of table %s is not as it was stored" % source.split()[0], self.path)
            yield [from_sql_text(value) for value in (line[:-1] if self._summed else line)]


def microseconds() -> int:
    """Return those since 1970: below 2**53 until 2255, and no store gives ids as fast as that."""
    return int(time.time() * 1e6)


_open_stores: weakref.WeakSet[RunStore] = weakref.WeakSet()
_inherited: List[sqlite3.Connection] = []


def _leave_alone_in_child() -> None:
    # A forked child must neither use nor close the parent's connection; keeping a reference keeps it from being closed.
    _inherited.extend(store._connection for store in list(_open_stores))


os.register_at_fork(after_in_child=_leave_alone_in_child)
