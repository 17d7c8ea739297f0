"""The rows of a store as an iterable, a page at a time."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

from ..dumps.place import Place
from ..metrics.row import Row
from .row_schema import PLACE_COLUMNS, to_sql_text
from .row_sql import RowReader

PLACE_ORDER = "time, CAST(device AS INTEGER), device, model, model_id, CAST(step AS INTEGER), step"

ORDER_AT_PLACE = '"index", position, timestamp_us, target_file, kind, tensor_index, id'
_PAGE_ROWS = 256

Query = Callable[[str, Sequence[Any]], List[Tuple[Any, ...]]]


def order_of_table(hosts: bool) -> str:
    """Return the columns that rows are ordered by; only stores of several hosts have a host."""
    return "%s%s, %s" % ("host, " if hosts else "", PLACE_ORDER, ORDER_AT_PLACE)


class RowsInOrder:
    """The rows of a store in one order; each walk reads them anew, a page at a time, without
    holding up a writer.
    """

    def __init__(
        self, query: Query, reader: RowReader, order: str, chosen: Tuple[str, List[Any]]
    ) -> None:
        self._query = query
        self._reader = reader
        self._order = {"index": order_of_table(reader.hosts), "arrival": "id"}[order]
        self._where, self._values = chosen

    def __len__(self) -> int:
        return int(self._query("SELECT count(*) FROM row" + self._where, self._values)[0][0])

    def __iter__(self) -> Iterator[Row]:
        ids = [
            number
            for (number,) in self._query(
                "SELECT id FROM row%s ORDER BY %s" % (self._where, self._order), self._values
            )
        ]
        for start in range(0, len(ids), _PAGE_ROWS):
            page = ids[start : start + _PAGE_ROWS]
            sql = "SELECT %s, id FROM row WHERE id IN (%s)" % (
                self._reader.selected,
                ", ".join("?" * len(page)),
            )
            lines = {values[-1]: values[:-1] for values in self._query(sql, page)}
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
