"""Rows put in and taken out as lines of the store's table: nothing is decoded on the way from one store into another."""

from __future__ import annotations

import pickle
import sqlite3
import zlib
from typing import Any, ContextManager, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

from ..dumps.place import Place
from .records import VOID
from .rowsql import COLUMNS, PLACE_COLUMNS, SqlValue, checksum, column_list, from_sql_text, insert_sql, to_sql_text

Line = Tuple[SqlValue, ...]
"""The values of :data:`goldwatch.results.rowsql.COLUMNS`, and their checksum."""

_PIECE_LINES = 1000
_KEYS_AT_ONCE = 500
_INSERT_NEW = insert_sql().replace("INSERT", "INSERT OR IGNORE", 1)
_UNNUMBERED = 'SELECT id, "index", op, %s FROM row WHERE id > ? AND op_sequence IS NULL ORDER BY id LIMIT ?' % ", ".join(PLACE_COLUMNS)
_INDEX = COLUMNS.index("index")
_VERDICT, _REASON = COLUMNS.index("verdict"), COLUMNS.index("reason")


class RowLines:
    """Lines given and taken; :class:`goldwatch.results.store.RunStore` has them."""

    _connection: sqlite3.Connection

    def _query(self, sql: str, values: Sequence[Any] = ()) -> List[Tuple[Any, ...]]:
        raise NotImplementedError

    def _take_out(self, key: SqlValue, kind: str, why: str) -> None:
        raise NotImplementedError

    def set(self, key: str, value: Any) -> None:
        """Store one fact."""
        raise NotImplementedError

    def transaction(self) -> ContextManager[None]:
        """Commit all that is written inside at once."""
        raise NotImplementedError

    def lines(self, after: int = 0) -> Iterator[List[Line]]:
        """Yield the rows in the order of arrival, some at a time, with bounded memory; ``after``: those with a higher id only."""
        while True:
            found = self._query("SELECT id, %s, sum FROM row WHERE id > ? ORDER BY id LIMIT ?" % column_list(), (after, _PIECE_LINES))
            if not found:
                return
            after = found[-1][0]
            yield [line[1:] for line in found]

    def lines_of_files(self, target_files: Sequence[str]) -> List[Line]:
        """Return the rows about some target files."""
        found: List[Line] = []
        for start in range(0, len(target_files), _KEYS_AT_ONCE):
            some = [to_sql_text(name) for name in target_files[start : start + _KEYS_AT_ONCE]]
            found += self._query("SELECT %s, sum FROM row WHERE target_file IN (%s)" % (column_list(), ", ".join("?" * len(some))), some)
        return found

    def put_lines(self, lines: Sequence[Line]) -> None:
        """Store lines of another store; one that is there under the same key with other values is replaced, with an event."""
        with self.transaction():
            before = self._connection.total_changes
            self._connection.executemany(_INSERT_NEW, lines)
            if self._connection.total_changes - before == len(lines):
                return
            for line in lines:
                if self._connection.execute("SELECT sum FROM row WHERE key = ?", line[:1]).fetchone() != line[-1:]:
                    verdict, reason = from_sql_text(line[_VERDICT]), from_sql_text(line[_REASON])
                    self._take_out(line[0], "replaced", "now %s%s" % (verdict, " (%s)" % reason if reason else ""))
                    self._connection.execute(insert_sql(), line)

    def remove(self, keys: Iterable[str], why: str) -> None:
        """Take rows out again, each with an event; unknown keys are passed over."""
        with self.transaction():
            for key in keys:
                self._take_out(to_sql_text(key), "removed", why)
            self._make_void()

    def _make_void(self) -> None:
        """Note that rows up to now are not what they were."""
        given = self._query("SELECT seq FROM sqlite_sequence WHERE name = 'row'")
        if given:
            self.set(VOID, given[0][0])

    def renumber(self, numbers: Mapping[Place, Mapping[str, int]]) -> int:
        """Give the rows of ops that the json does not know their final Index; return how many changed.

        Parameters
        ----------
        numbers
            Index by place and op name; only rows without OpSequence are looked at.
        """
        changed = after = 0
        with self.transaction():
            while True:
                found = self._query(_UNNUMBERED, (after, _PIECE_LINES))
                for rowid, index, op, *place in found:
                    number = numbers.get(Place(*map(from_sql_text, place)), {}).get(from_sql_text(op))
                    if number is not None and number != index:
                        (line,) = self._query("SELECT %s FROM row WHERE id = ?" % column_list(), (rowid,))
                        values = [*line[:_INDEX], number, *line[_INDEX + 1 :]]
                        self._connection.execute('UPDATE row SET "index" = ?, sum = ? WHERE id = ?', (number, checksum(values), rowid))
                        changed += 1
                if len(found) < _PIECE_LINES:
                    break
                after = found[-1][0]
            if changed:
                self._make_void()
        return changed

    def clear(self) -> None:
        """Take out all rows, files and events, without a trace: they are another store's now."""
        with self.transaction():
            for table in ("row", "file", "event"):
                self._connection.execute("DELETE FROM " + table)


def packed(lines: Sequence[Any]) -> bytes:
    """Return lines as bytes to be sent; :func:`unpacked` is the inverse."""
    return zlib.compress(pickle.dumps(lines, protocol=4), 1)


def unpacked(piece: bytes) -> List[Any]:
    """Return the lines of :func:`packed`, which must be goldwatch's own: they are unpickled."""
    found: List[Any] = pickle.loads(zlib.decompress(piece))
    return found


def changed_lines(store: RowLines, known: Iterable[Line], called: Sequence[Tuple[str, str]]) -> Tuple[Tuple[bytes, ...], List[str]]:
    """Return what became of a store's rows.

    Parameters
    ----------
    known
        What it was begun with.
    called
        Beginnings of paths in the rows' reasons, and what these are to be called there.

    Returns
    -------
    (pieces, keys)
        Packed, the lines that are not among the known ones as they are; and the keys of those that are gone.
    """
    sums: Dict[SqlValue, SqlValue] = {line[0]: line[-1] for line in known}
    pieces = []
    for lines in store.lines():
        fresh = [line for line in (_renamed(line, called) for line in lines) if sums.pop(line[0], None) != line[-1]]
        if fresh:
            pieces.append(packed(fresh))
    return tuple(pieces), [str(from_sql_text(key)) for key in sums]


def _renamed(line: Line, called: Sequence[Tuple[str, str]]) -> Line:
    reason = text = from_sql_text(line[_REASON])
    for path, name in called if text else ():
        text = text.replace(path, name)
    if text == reason:
        return line
    values = [*line[:_REASON], to_sql_text(text), *line[_REASON + 1 : -1]]
    return (*values, checksum(values))
