"""The rows of a store: put in and taken out; their lines as view ``row`` has them, which are not
decoded on their way into another store; rows in the order of tables.
"""

from __future__ import annotations

import sqlite3
from operator import itemgetter
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..dumps.place import Place
from ..metrics.row import FAIL, KEPT_FORMS, PASS, Row
from .facts_and_events import VOID, EventLog, write_fact
from .row_schema import (
    COLUMNS,
    HOST,
    LAST_GIVEN_ID,
    OWN_COLUMNS,
    PLACE_COLUMNS,
    TENSOR_COLUMNS,
    SqlValue,
    from_sql_text,
    to_sql_text,
)
from .row_sql import Line, RowReader, checksum, column_list
from .store_connection import StoreConnection

INDEX, REASON = COLUMNS.index("index"), COLUMNS.index("reason")

_VERDICT = COLUMNS.index("verdict")
_INSERT = "INSERT INTO row_at_place (place_id, tensor_id, %s, sum) VALUES (%s)" % (
    ", ".join('"%s"' % name for name in OWN_COLUMNS),
    ", ".join("?" * (len(OWN_COLUMNS) + 3)),
)
_PIECE_LINES = 1000
_KEYS_AT_ONCE = 500
_UNNUMBERED = (
    'SELECT id, "index", op, %s FROM row WHERE id > ? AND op_sequence IS NULL ORDER BY id LIMIT ?'
    % ", ".join(PLACE_COLUMNS)
)
# Not by the index of verdicts: of a million rows each thousand took 1.5 s so.
_COMPARED = "+verdict IN ('%s', '%s')" % (PASS, FAIL)
_ABOUT_NONE = "SELECT 1 FROM row_at_place WHERE target_file IS NULL LIMIT 1"
_OF_FILE = "SELECT 1 FROM row_at_place WHERE target_file = ? LIMIT 1"
_COMPARED_OF_FILE = (
    "SELECT key, golden_file FROM row_at_place LEFT JOIN tensor ON tensor.id = tensor_id WHERE "
    "target_file = ? AND " + _COMPARED
)
_NOTED = " AND EXISTS (SELECT 1 FROM file WHERE path = ? AND state IN (%s))"


_TENSOR, _OWN = (itemgetter(*map(COLUMNS.index, names)) for names in (TENSOR_COLUMNS, OWN_COLUMNS))
_PLACE = itemgetter(*map(COLUMNS.index, PLACE_COLUMNS))
_PLACE_OF_HOST = itemgetter(*map(COLUMNS.index, PLACE_COLUMNS), len(COLUMNS))


class SharedLines:
    """The lines of a table of what rows share, each stored once, by their values.

    Parameters
    ----------
    table, columns
        The table and its columns, without its id and checksum.
    """

    def __init__(self, connection: StoreConnection, table: str, columns: Sequence[str]) -> None:
        self._connection = connection
        quoted = ['"%s"' % name for name in (*columns, "sum")]
        # By its values, too: a damaged line may have kept its checksum.
        self._select = "SELECT id FROM %s WHERE %s" % (
            table,
            " AND ".join(name + " IS ?" for name in quoted[::-1]),
        )
        self._insert = "INSERT INTO %s (%s) VALUES (%s)" % (
            table,
            ", ".join(quoted),
            ", ".join("?" * len(quoted)),
        )
        self._ids: Dict[Tuple[SqlValue, ...], int] = {}
        self._rollbacks = 0

    def ids(self, lines: Iterable[Tuple[SqlValue, ...]]) -> List[int]:
        """Return the ids of lines; inside a transaction, which those that are new are stored in."""
        if self._rollbacks != self._connection.rollbacks:
            # Some were stored in a transaction that was taken back.
            self._rollbacks = self._connection.rollbacks
            self._ids.clear()
        elif len(self._ids) > KEPT_FORMS:
            self._ids.clear()
        known = self._ids
        return [known.get(values) or self._id(values) for values in lines]

    def _id(self, values: Tuple[SqlValue, ...]) -> int:
        execute, line = self._connection.raw.execute, (*values, checksum(values))
        found = execute(self._select, line[::-1]).fetchone()
        number = found[0] if found else execute(self._insert, line).lastrowid
        self._ids[values] = int(number or 0)
        return self._ids[values]


class RowTable:
    """The rows of a store by their keys.

    Parameters
    ----------
    hosts
        Whether each row has a host (schemas/hosts.sql).
    """

    def __init__(self, connection: StoreConnection, events: EventLog, hosts: bool) -> None:
        self._connection = connection
        self._events = events
        self._place = _PLACE_OF_HOST if hosts else _PLACE
        places = (*PLACE_COLUMNS, HOST) if hosts else PLACE_COLUMNS
        self._places = SharedLines(connection, "place", places)
        self._tensors = SharedLines(connection, "tensor", TENSOR_COLUMNS)

    def put(self, lines: Iterable[Line]) -> List[Optional[int]]:
        """Store rows in one transaction, each in place of the one of its key; return their numbers
        (ids), None for rows that were there as they are.
        """
        lines = list(lines)
        if not lines:
            return []
        with self._connection.transaction():
            raw = self._connection.raw
            stored = list(
                zip(
                    self._places.ids(map(self._place, lines)),
                    self._tensors.ids(map(_TENSOR, lines)),
                    lines,
                )
            )
            raw.execute("SAVEPOINT put")
            try:
                raw.executemany(
                    _INSERT,
                    ((place, tensor, *_OWN(line), line[-1]) for place, tensor, line in stored),
                )
            except sqlite3.IntegrityError:
                raw.execute("ROLLBACK TO put")
                return [self._put(*each) for each in stored]
            finally:
                # SQLite has already rolled back after some errors, such as a full disk.
                if raw.in_transaction:
                    raw.execute("RELEASE put")
            # Only this connection writes, and SQLite counts ids up (AUTOINCREMENT).
            last = raw.execute("SELECT last_insert_rowid()").fetchone()[0]
            return list(range(last - len(lines) + 1, last + 1))

    def _put(self, place: int, tensor: int, line: Line) -> Optional[int]:
        execute = self._connection.raw.execute
        values = (place, tensor, *_OWN(line), line[-1])
        try:
            return execute(_INSERT, values).lastrowid
        except sqlite3.IntegrityError:
            # Found again as it was, such as by a run that goes on: nothing happened.
            if execute("SELECT sum FROM row WHERE key = ?", line[:1]).fetchone() == line[-1:]:
                return None
            verdict, reason = from_sql_text(line[_VERDICT]), from_sql_text(line[REASON])
            self._take_out(
                line[0], "replaced", "now %s%s" % (verdict, " (%s)" % reason if reason else "")
            )
            return execute(_INSERT, values).lastrowid

    def _take_out(self, key: SqlValue, kind: str, why: str) -> None:
        lines = self._connection.query(
            "SELECT op, tensor, verdict, reason, target_file, CosineSimilarity FROM row WHERE "
            "key = ?",
            (key,),
        )
        if not lines:
            return
        op, tensor, verdict, reason, target_file, cosine = (
            from_sql_text(value) for value in lines[0]
        )
        self._connection.raw.execute("DELETE FROM row_at_place WHERE key = ?", (key,))
        before = "%s: was %s%s" % (tensor, verdict, " (%s)" % reason if reason else "")
        if cosine is not None:
            before += ", CosineSimilarity %s" % cosine
        self._events.add(kind, op, "%s, file %s; %s" % (before, target_file, why))

    def remove(self, keys: Iterable[str], why: str) -> None:
        """Take rows out again, each with an event; unknown keys are passed over."""
        with self._connection.transaction():
            for key in keys:
                self._take_out(to_sql_text(key), "removed", why)
            self._make_void()

    def _make_void(self) -> None:
        """Record that rows up to the newest id are no longer valid."""
        last_id = self._connection.query(LAST_GIVEN_ID)
        if last_id:
            write_fact(self._connection, VOID, last_id[0][0])

    def renumber(self, numbers: Mapping[Place, Mapping[str, int]]) -> int:
        """Give the rows of ops that the json does not know their final Index; return how many
        changed.

        Parameters
        ----------
        numbers
            Index by place and op name; only rows without OpSequence are looked at.
        """
        query, changed, after = self._connection.query, 0, 0
        if not any(numbers.values()):
            return 0
        with self._connection.transaction():
            while True:
                page = query(_UNNUMBERED, (after, _PIECE_LINES))
                for rowid, index, op, *place in page:
                    number = numbers.get(Place(*map(from_sql_text, place)), {}).get(
                        from_sql_text(op)
                    )
                    if number is not None and number != index:
                        (line,) = query("SELECT %s FROM row WHERE id = ?" % column_list(), (rowid,))
                        values = (*line[:INDEX], number, *line[INDEX + 1 :])
                        query(
                            "UPDATE row_at_place SET tensor_id = ?, sum = ? WHERE id = ?",
                            (*self._tensors.ids([_TENSOR(values)]), checksum(values), rowid),
                        )
                        changed += 1
                if len(page) < _PIECE_LINES:
                    break
                after = page[-1][0]
            if changed:
                self._make_void()
        return changed

    def clear(self) -> None:
        """Take out all rows, files and events, without a trace: they are another store's now."""
        with self._connection.transaction():
            for table in ("row_at_place", "file", "event"):
                self._connection.raw.execute("DELETE FROM " + table)

    def lines(self, after: int = 0) -> Iterator[List[Line]]:
        """Yield the rows in the order of arrival, some at a time, with bounded memory; ``after``:
        those with a higher id only.
        """
        sql = "SELECT id, %s, sum FROM row WHERE id > ? ORDER BY id LIMIT ?" % column_list()
        while True:
            page = self._connection.query(sql, (after, _PIECE_LINES))
            if not page:
                return
            after = page[-1][0]
            yield [line[1:] for line in page]

    def lines_of_files(self, target_files: Sequence[str]) -> List[Line]:
        """Return the rows about some target files."""
        lines: List[Line] = []
        for start in range(0, len(target_files), _KEYS_AT_ONCE):
            names = [to_sql_text(name) for name in target_files[start : start + _KEYS_AT_ONCE]]
            sql = "SELECT %s, sum FROM row WHERE target_file IN (%s)" % (
                column_list(),
                ", ".join("?" * len(names)),
            )
            lines += self._connection.query(sql, names)
        return lines

    def keys_of_file(self, target_file: Optional[str]) -> List[str]:
        """Return the keys of the rows about one target file (None: about none)."""
        keys = self._connection.query(
            "SELECT key FROM row WHERE target_file IS ?", (to_sql_text(target_file),)
        )
        return [from_sql_text(key) for (key,) in keys]

    def keys(self) -> List[str]:
        """Return the keys of all rows."""
        return [from_sql_text(key) for (key,) in self._connection.query("SELECT key FROM row")]

    def verdicts_of_file(self, target_file: str) -> List[str]:
        """Return the verdict of each row about one target file."""
        verdicts = self._connection.query(
            "SELECT verdict FROM row WHERE target_file = ?", (to_sql_text(target_file),)
        )
        return [str(verdict) for (verdict,) in verdicts]

    def target_files(self) -> Iterator[Optional[str]]:
        """Yield the distinct target files of all rows; None where there are rows about none."""
        yield from (None for _ in self._connection.query(_ABOUT_NONE))
        yield from self._distinct("target_file", "row_at_place", "target_file IS NOT NULL")

    def compared_files(self) -> Iterator[str]:
        """Yield the distinct target files of rows that were compared."""
        return self._distinct("target_file", "row_at_place", _COMPARED)

    def golden_files(self) -> Iterator[str]:
        """Yield the distinct golden files of tensors."""
        return self._distinct("golden_file", "tensor", "golden_file IS NOT NULL")

    def _distinct(self, column: str, table: str, where: str) -> Iterator[str]:
        """Yield the distinct values of a column, in order, some at a time: rows may be written
        meanwhile.
        """
        sql = "SELECT DISTINCT {0} FROM {1} WHERE {2} AND {0} %s ORDER BY {0} LIMIT ?".format(
            column, table, where
        )
        page = self._connection.query(sql % "IS NOT NULL", (_PIECE_LINES,))
        while page:
            yield from (from_sql_text(value) for (value,) in page)
            page = self._connection.query(sql % "> ?", (*page[-1], _PIECE_LINES))

    def has_file(self, target_file: str) -> bool:
        """Tell whether there are rows about a target file."""
        return bool(self._connection.query(_OF_FILE, (to_sql_text(target_file),)))

    def compared_of_file(
        self, target_file: str, path: str = "", states: Sequence[str] = ()
    ) -> Dict[str, Optional[str]]:
        """Return the golden file of each row about a target file that was compared, by its key;
        where states are given, only if the file at ``path`` was noted in one of them.
        """
        sql, values = _COMPARED_OF_FILE, (target_file, *((path, *states) if states else ()))
        if states:
            sql += _NOTED % ", ".join("?" * len(states))
        lines = self._connection.query(sql, [*map(to_sql_text, values)])
        return {from_sql_text(key): from_sql_text(golden) for key, golden in lines}


PLACE_ORDER = "time, CAST(device AS INTEGER), device, model, model_id, CAST(step AS INTEGER), step"

ORDER_AT_PLACE = '"index", position, timestamp_us, target_file, kind, tensor_index'
_PAGE_ROWS = 256


def order_of_table(hosts: bool) -> str:
    """Return the columns that rows are ordered by; only stores of several hosts have a host."""
    return "%s%s, %s, id" % ("host, " if hosts else "", PLACE_ORDER, ORDER_AT_PLACE)


class RowsInOrder:
    """The rows of a store in one order; each walk reads them anew, a page at a time, without
    holding up a writer.
    """

    def __init__(
        self,
        connection: StoreConnection,
        reader: RowReader,
        order: str,
        chosen: Tuple[str, List[Any]],
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._order = {"index": order_of_table(reader.hosts), "arrival": "id"}[order]
        self._where, self._values = chosen

    def __len__(self) -> int:
        return int(
            self._connection.query("SELECT count(*) FROM row" + self._where, self._values)[0][0]
        )

    def __iter__(self) -> Iterator[Row]:
        sql = "SELECT id FROM row%s ORDER BY %s" % (self._where, self._order)
        ids = self._connection.numbers(sql, self._values)
        for start in range(0, len(ids), _PAGE_ROWS):
            page = ids[start : start + _PAGE_ROWS]
            sql = "SELECT %s, id FROM row WHERE id IN (%s)" % (
                self._reader.selected,
                ", ".join("?" * len(page)),
            )
            lines = {values[-1]: values[:-1] for values in self._connection.query(sql, page)}
            for number in page:
                if number in lines:
                    yield self._reader.row(lines[number])


def selection(
    place: Optional[Place],
    verdict: Optional[str] = None,
    op: Optional[str] = None,
    indexes: Optional[Tuple[int, int]] = None,
    warning: Optional[str] = None,
) -> Tuple[str, List[Any]]:
    """Return the WHERE clause that chooses rows by place, verdict, op, first and last Index, and
    warning (None: any), and its values.
    """
    terms: List[str] = []
    values: List[Any] = []
    if place is not None:
        terms += ["%s IS ?" % name for name in PLACE_COLUMNS]
        values += [to_sql_text(part) for part in place.parts]
        if place.host is not None:
            terms.append("host = ?")
            values.append(to_sql_text(place.host))
    if verdict is not None:
        terms.append("verdict = ?")
        values.append(verdict)
    if warning is not None:
        terms.append("warning = ?")
        values.append(warning)
    if op is not None:
        terms.append("op = ?")
        values.append(to_sql_text(op))
    if indexes is not None:
        terms.append('"index" BETWEEN ? AND ?')
        values += indexes
    return (" WHERE " + " AND ".join(terms) if terms else ""), values
