"""What a store is asked about its rows."""

from __future__ import annotations

from array import array
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..comparing.row import Row
from ..dumps.place import Place
from .counts import RunCounts
from .rowsql import PLACE_COLUMNS, RowReader, from_sql_text, to_sql_text
from .rowview import PLACE_ORDER, RowView, order_of_table, selection


class RowQueries:
    """The questions; :class:`goldwatch.results.store.RunStore` answers them."""

    _reader: RowReader

    def _query(self, sql: str, values: Sequence[Any] = ()) -> List[Tuple[Any, ...]]:
        raise NotImplementedError

    def keys_of_file(self, target_file: Optional[str]) -> List[str]:
        """Return the keys of the rows about one target file (None: about none)."""
        return [from_sql_text(key) for (key,) in self._query("SELECT key FROM row WHERE target_file IS ?", (to_sql_text(target_file),))]

    def targets(self) -> List[Optional[str]]:
        """Return the distinct target files of all rows."""
        return [from_sql_text(target) for (target,) in self._query("SELECT DISTINCT target_file FROM row")]

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

    def rows(
        self,
        order: str = "index",
        place: Optional[Place] = None,
        verdict: Optional[str] = None,
        op: Optional[str] = None,
        indexes: Optional[Tuple[int, int]] = None,
    ) -> RowView:
        """Return the rows as an iterable that can be walked again and again, with bounded memory.

        Parameters
        ----------
        order
            ``index``: as the result table has them (place, Index, the op's place in its group, timestamp, inputs before outputs).
            ``arrival``: as they came.
        place, verdict, op
            Only the rows of this one.
        indexes
            Only the rows with an Index from the first to the second.
        """
        return RowView(self._query, self._reader, order, selection(place, verdict, op, indexes))

    def numbers(self) -> Tuple[array[int], array[int]]:
        """Return the number (id) and the checksum's value of each row, in the order of the table."""
        found = self._query("SELECT id, sum FROM row ORDER BY %s" % order_of_table(self._reader.hosts))
        return array("q", [number for number, _ in found]), array("Q", [int(checksum, 16) for _, checksum in found])

    def numbered(self, numbers: Sequence[int]) -> Dict[int, Row]:
        """Return the rows with these numbers, some hundred at most."""
        sql = "SELECT %s, id FROM row WHERE id IN (%s)" % (self._reader.selected, ", ".join("?" * len(numbers)))
        return {values[-1]: self._reader.row(values[:-1]) for values in self._query(sql, numbers)}

    def row(self, key: str) -> Optional[Row]:
        """Return the row with a :func:`goldwatch.results.rowsql.row_key`."""
        found = self._query("SELECT %s FROM row WHERE key = ?" % self._reader.selected, (to_sql_text(key),))
        return self._reader.row(found[0]) if found else None

    def places(self) -> List[Place]:
        """Return the places that rows were stored for, in the order of the result table."""
        names, order = ", ".join(PLACE_COLUMNS), PLACE_ORDER
        if self._reader.hosts:
            names, order = names + ", host", "host, " + order
        found = self._query("SELECT DISTINCT %s FROM row ORDER BY %s" % (names, order))
        return [Place(*(from_sql_text(value) for value in values)) for values in found]

    @property
    def counted(self) -> RunCounts:
        """The counts of the run's rows."""
        return RunCounts(self._query, self._reader.hosts)

    def op_count(self) -> int:
        """Return the number of distinct ops that have rows."""
        return int(self._query("SELECT count(DISTINCT op) FROM row")[0][0])

    def has(self, column: str) -> bool:
        """Tell whether a row has a value in a column."""
        return bool(self._query('SELECT 1 FROM row WHERE "%s" IS NOT NULL LIMIT 1' % column))
