"""The rows of a store as an iterable, a page at a time."""

from __future__ import annotations

import struct
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

from ..dumps.place import Place
from ..metrics.row import Row
from .row_schema import PLACE_COLUMNS, to_sql_text
from .rowsql import RowReader

PLACE_ORDER = "time, CAST(device AS INTEGER), device, model, model_id, CAST(step AS INTEGER), step"

ORDER_AT_PLACE = '"index", position, timestamp_us, target_file, kind, tensor_index, id'
_PAGE_ROWS = 256
_KEY_NUMBERS = struct.Struct(">qIq")
_KEY_TENSOR = struct.Struct(">q")
_LONGEST_NAME = 8192

Query = Callable[[str, Sequence[Any]], List[Tuple[Any, ...]]]


def order_of_table(hosts: bool) -> str:
    """Return the columns that rows are ordered by; only stores of several hosts have a host."""
    return "%s%s, %s" % ("host, " if hosts else "", PLACE_ORDER, ORDER_AT_PLACE)


def order_key(row: Row) -> bytes:
    """Return bytes that sort the rows of a place as :data:`ORDER_AT_PLACE` does, but for the id;
    none where numbers or a name are odd.
    """
    file = row.target_file
    position = row.group.index(row.op) if row.op in row.group else 0
    # NULL comes before all numbers and texts.
    tensor = 0 if row.tensor_index is None else row.tensor_index + 1
    if min(row.index, row.timestamp_us, tensor) < 0 or not (file is None or _is_plain(file)):
        return b""
    name = "" if file is None else "\1" + file
    try:
        numbers = _KEY_NUMBERS.pack(row.index, position, row.timestamp_us), _KEY_TENSOR.pack(tensor)
    except struct.error:
        return b""
    return b"%s%s\0%s\0%s" % (
        numbers[0],
        name.encode("utf-8"),
        row.kind.encode("ascii"),
        numbers[1],
    )


def _is_plain(name: str) -> bool:
    return "\0" not in name and len(name) <= _LONGEST_NAME and type(to_sql_text(name)) is str


class RowView:
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
            found = {values[-1]: values[:-1] for values in self._query(sql, page)}
            for number in page:
                if number in found:
                    yield self._reader.row(found[number])


def selection(
    place: Optional[Place],
    verdict: Optional[str] = None,
    op: Optional[str] = None,
    indexes: Optional[Tuple[int, int]] = None,
) -> Tuple[str, List[Any]]:
    """Return the WHERE clause that chooses rows by place, verdict, op, and first and last Index
    (None: any), and its values.
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
    if op is not None:
        terms.append("op = ?")
        values.append(to_sql_text(op))
    if indexes is not None:
        terms.append('"index" BETWEEN ? AND ?')
        values += indexes
    return (" WHERE " + " AND ".join(terms) if terms else ""), values
