"""The store of one run: OUT/run.sqlite (schemas/store.sql). Tables, pages and result files are
views of it.
"""

from __future__ import annotations

import os
import time
from array import array
from functools import partial
from types import TracebackType
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

import numpy as np

from .. import __version__
from ..base.atomic_writing import remove_leftovers, require_own_file
from ..base.errors import FormatError
from ..base.notes import Note
from ..dumps.place import Place
from ..metrics.row import VERDICTS, Row
from .database import translated
from .facts_and_events import VOID, EventLog, FileRecord, read_fact, write_fact
from .integrity import DamagedStore, ForeignStore, OtherResults, has_hosts, may_discard
from .lock import OutLock
from .opening import (
    SIDE_FILES,
    STORE_FILE,
    Opened,
    discard_store,
    highest_id,
    make_folder,
    open_to_read,
    open_to_write,
    tables_of,
)
from .row_counts import RunCounts
from .row_schema import HOST, PLACE_COLUMNS, from_sql_text, to_sql_text
from .row_sql import RowReader, row_line
from .row_table import ORDER_AT_PLACE, PLACE_ORDER, RowsInOrder, RowTable, selection
from .store_connection import StoreConnection

_CODES = {verdict: code for code, verdict in enumerate(VERDICTS)}
_STARTED = "YYYYmmddHHMMSS"
_TABLE_ORDER = (
    "SELECT row_at_place.id, row_at_place.sum, verdict, number FROM row_at_place JOIN placed USING "
    "(place_id) LEFT JOIN tensor ON tensor.id = tensor_id ORDER BY number, %s, row_at_place.id"
    % ORDER_AT_PLACE
)
_AT_ONCE = 1024
"""Rows that are read at once."""
_PUT_FILE = (
    "INSERT OR REPLACE INTO file (path, size_bytes, mtime_ns, state, sum) VALUES (?, ?, ?, ?, ?)"
)


class TableOrder(NamedTuple):
    """All rows of a store in the order of the table.

    Attributes
    ----------
    ids, checksums, verdicts
        int64, uint64 and uint8, [n]; a verdict is its number in
        :data:`goldwatch.metrics.row.VERDICTS`.
    places, ends
        Those of the rows in their order, and where the rows of each end.
    """

    ids: np.ndarray
    checksums: np.ndarray
    verdicts: np.ndarray
    places: List[Place]
    ends: List[int]


class RunStore:
    """Rows, files and events of one run at rest.

    Make one with :meth:`begin` (to write) or :meth:`open` (to read); use it as a context manager or
    call :meth:`close`. Every method may be called from any thread of the process that made it, none
    from a forked child.

    Attributes
    ----------
    path
        The SQLite file.
    connection
        Transactions and queries.
    table
        Its rows by their keys, not decoded.
    events
        What happened.
    continued
        True when the store was there before and goes on.
    notes
        What the user must know: no WAL here, no lock, damage that was found.
    """

    def __init__(self, connection: StoreConnection, checked: bool) -> None:
        self.path = connection.path
        self.connection = connection
        self.continued = False
        self.notes: List[Note] = []
        self._reader = RowReader(self.path, has_hosts(connection.raw), checked)
        self.events = EventLog(connection)
        self.table = RowTable(connection, self.events, self._reader.hosts)
        self.transaction, self.frozen = connection.transaction, connection.frozen
        self.query, self.close = connection.query, connection.close

    @classmethod
    def begin(
        cls, out: str, inputs: Mapping[str, Any], force: bool = False, hosts: bool = False
    ) -> RunStore:
        """Make the store of ``out``, or go on with the one that is there.

        Rows that are not as they were stored are dropped, so that they are found again; ``notes``
        and an event say so.

        Parameters
        ----------
        out
            The folder; made when it is missing.
        inputs
            What the run depends on (paths, options, limits), as JSON values. A store of other
            inputs is not touched.
        force
            Discard a store of other inputs, or a damaged one, and start anew. A store of the same
            inputs goes on all the same; another program's database is never discarded.
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
                # Its tables go with the first that this run writes.
                last_given_id, tables = highest_id(path), tables_of(path)
                discard_store(path)
                opened = open_to_write(path, inputs, hosts)
                opened.facts.update({VOID: last_given_id, "result_files": tables})
            return cls._started_with(path, opened, inputs, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _started_with(
        cls, path: str, opened: Opened, inputs: Mapping[str, Any], lock: OutLock
    ) -> RunStore:
        # All checksums were compared when it was opened.
        store = cls(StoreConnection(path, opened.connection, lock), checked=False)
        try:
            store.continued = opened.continued
            store.notes = [*opened.notes, *lock.notes]
            with translated(path):
                if not opened.continued:
                    facts = {
                        "inputs": inputs,
                        "started": time.strftime("%Y%m%d%H%M%S"),
                        "version": __version__,
                    }
                    # Nobody who saw a row of a store that was here, whoever removed it, takes one
                    # of this for it.
                    before = max(opened.facts.get(VOID, 0), microseconds())
                    for key, value in dict(facts, **{**opened.facts, VOID: before}).items():
                        store.set(key, value)
                    opened.connection.execute(
                        "INSERT INTO sqlite_sequence (name, seq) VALUES ('row_at_place', ?)",
                        (before,),
                    )
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
            table = "row_at_place" if line.table == "row" else line.table
            opened.connection.execute("DELETE FROM %s WHERE rowid = ?" % table, (line.rowid,))
            self.events.add(
                "damaged",
                line.about,
                "a line of table %s was not as it was stored; it was dropped" % line.table,
            )
        self.events.add(
            "continued" if self.continued else "started",
            text="goldwatch %s, pid %d" % (__version__, os.getpid()),
        )
        for note in self.notes:
            self.events.add("note", text=note)

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
        store = cls(StoreConnection(path, open_to_read(path)), checked=True)
        store.continued = True
        return store

    @property
    def started(self) -> str:
        """Return the local time of the first start, ``YYYYmmddHHMMSS``; kept over restarts."""
        started = self.get("started", "")
        if not isinstance(started, str) or len(started) != len(_STARTED) or not started.isdigit():
            raise DamagedStore(
                "damaged: the time of its first start is %r, not %s" % (started, _STARTED),
                self.path,
            )
        return started

    @property
    def has_hosts(self) -> bool:
        """Whether the run is of several hosts (schemas/hosts.sql)."""
        return self._reader.hosts

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def put(self, row: Row) -> None:
        """Store a finished row under its :func:`row_key`; it is committed at once, unless inside
        :meth:`transaction`.

        A row that was there under the same key is replaced (the new one gets a new rowid), and an
        event says what it was.
        """
        self.put_all([row])

    def put_all(self, rows: Iterable[Row]) -> None:
        """Store rows in one transaction, each as :meth:`put` does."""
        self.table.put(map(row_line, rows))

    def get(self, key: str, default: Any = None) -> Any:
        """Return one fact of table ``run``; raises DamagedStore where it is not as it was
        stored.
        """
        with self.connection.alone():
            return read_fact(self.connection.raw, self.path, key, default)

    def set(self, key: str, value: Any) -> None:
        """Store one fact (a JSON value) in table ``run``."""
        write_fact(self.connection, key, value)

    def put_file(self, path: str, size_bytes: int, mtime_ns: int, state: str) -> None:
        """Note the state of a file that was looked at, in place of an older note."""
        self.connection.write_later(
            _PUT_FILE, (to_sql_text(path), size_bytes, mtime_ns, to_sql_text(state))
        )

    def files(self, paths: Optional[Sequence[str]] = None) -> Dict[str, FileRecord]:
        """Return what was noted about files, by path; of some paths only, a hundred at most."""
        where = "" if paths is None else " WHERE path IN (%s)" % ", ".join("?" * len(paths))
        lines = self.connection.checked(
            "path, size_bytes, mtime_ns, state", "file" + where, [*map(to_sql_text, paths or ())]
        )
        return {path: FileRecord(*values) for path, *values in lines}

    def rows(
        self,
        order: str = "index",
        place: Optional[Place] = None,
        verdict: Optional[str] = None,
        op: Optional[str] = None,
        indexes: Optional[Tuple[int, int]] = None,
        warning: Optional[str] = None,
    ) -> RowsInOrder:
        """Return the rows as an iterable that can be walked again and again, with bounded memory.

        Parameters
        ----------
        order
            ``index``: as the result table has them (place, Index, the op's place in its group,
            timestamp, inputs before outputs). ``arrival``: as they came.
        place, verdict, op, warning
            Only the rows of this one.
        indexes
            Only the rows with an Index from the first to the second.
        """
        return RowsInOrder(
            self.connection, self._reader, order, selection(place, verdict, op, indexes, warning)
        )

    def table_order(self) -> TableOrder:
        """Return numbers (ids), checksums and verdicts of all rows in the order of the table."""
        by_id = self._places_by_id()
        places = list(dict.fromkeys(by_id.values()))
        numbers_of = {place: number for number, place in enumerate(places)}
        with self.connection.alone():
            execute = self.connection.raw.execute
            # By one number instead of seven columns rows are sorted in half the time.
            execute("DROP TABLE IF EXISTS temp.placed")
            execute("CREATE TEMP TABLE placed (place_id INTEGER PRIMARY KEY, number INTEGER)")
            self.connection.raw.executemany(
                "INSERT INTO placed VALUES (?, ?)",
                [(number, numbers_of[place]) for number, place in by_id.items()],
            )
            ids, sums, verdicts = array("q"), array("Q"), array("B")
            counts = np.zeros(len(places), np.int64)
            rows = execute(_TABLE_ORDER)
            for some in iter(partial(rows.fetchmany, _AT_ONCE), []):
                numbers, checksums, codes, of_places = zip(*some)
                ids.extend(numbers)
                sums.extend(int(checksum, 16) for checksum in checksums)
                verdicts.extend(map(_CODES.__getitem__, codes))
                counts += np.bincount(of_places, minlength=len(places))
        # Not copied: of a million rows they are 17 MB.
        return TableOrder(
            _as_array(ids, np.int64),
            _as_array(sums, np.uint64),
            _as_array(verdicts, np.uint8),
            places,
            np.cumsum(counts).tolist(),
        )

    def numbered(self, numbers: Sequence[int]) -> Dict[int, Row]:
        """Return the rows with these numbers, some hundred at most."""
        sql = "SELECT %s, id FROM row WHERE id IN (%s)" % (
            self._reader.selected,
            ", ".join("?" * len(numbers)),
        )
        return {values[-1]: self._reader.row(values[:-1]) for values in self.query(sql, numbers)}

    def places(self) -> List[Place]:
        """Return the places that rows were stored for, in the order of the result table."""
        return list(dict.fromkeys(self._places_by_id().values()))

    def _places_by_id(self) -> Dict[int, Place]:
        """Return the place of each ``place_id`` that rows have, in the order of the result
        table.
        """
        names = PLACE_COLUMNS + ((HOST,) if self._reader.hosts else ())
        order = "host, " + PLACE_ORDER if self._reader.hosts else PLACE_ORDER
        sql = (
            "SELECT place_id, %s FROM (SELECT DISTINCT place_id FROM row_at_place) LEFT JOIN place "
            "ON place.id = place_id ORDER BY %s" % (", ".join(names), order)
        )
        return {number: Place(*map(from_sql_text, values)) for number, *values in self.query(sql)}

    @property
    def counted(self) -> RunCounts:
        """The counts of the run's rows."""
        return RunCounts(self.query, self._reader.hosts)

    def op_count(self) -> int:
        """Return the number of distinct ops that have rows."""
        return int(self.query("SELECT count(DISTINCT op) FROM row")[0][0])

    def has(self, column: str) -> bool:
        """Tell whether a row has a value in a column."""
        return bool(self.query('SELECT 1 FROM row WHERE "%s" IS NOT NULL LIMIT 1' % column))


def _as_array(column: Any, dtype: Any) -> np.ndarray:
    return np.frombuffer(column, dtype) if column else np.empty(0, dtype)


def microseconds() -> int:
    """Return those since 1970: below 2**53 until 2255, and no store gives ids as fast as that."""
    return int(time.time() * 1e6)
