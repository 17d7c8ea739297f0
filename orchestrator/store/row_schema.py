"""The columns of :class:`goldwatch.metrics.row.Row` as SQL and as JSON: how the values of each are
written and read. schemas/ has the SQL and the JSON Schema, which ``scripts/row_schema`` writes.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import (
    Any,
    Callable,
    Dict,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Union,
)

from ..dumps.place import Place
from ..metrics.row import KEPT_FORMS, MEASURES, SHARED, Row, columns_of

SqlValue = Union[None, int, float, str, bytes]

PLACE_COLUMNS = Place._fields[:5]
HOST = "host"
"""The column that stores of several hosts have besides."""
LAST_GIVEN_ID = "SELECT seq FROM sqlite_sequence WHERE name = 'row_at_place'"
"""The highest id that was ever given to a row; no line before the first."""

quoted = json.encoder.encode_basestring_ascii
_INT64 = 1 << 63


class ColumnType(NamedTuple):
    """How the values of a Python type are written and read; NULL and null are None.

    Attributes
    ----------
    sql
        The type in SQL; empty: any, since integers outside 64 bits are text.
    encode, decode
        To and from a value of SQL.
    json_text
        Returns a value's text in result.json.
    json_schema
        The JSON Schema of that.
    """

    sql: str
    encode: Callable[[Any], SqlValue]
    decode: Callable[[Any], Any]
    json_text: Callable[[Any], str]
    json_schema: Mapping[str, Any]


def to_sql_text(text: Optional[str]) -> SqlValue:
    """Return ``text`` as TEXT, or as a BLOB where it is not valid UTF-8 (undecodable file names,
    lone surrogates of a json).
    """
    if text is None or text.isascii():
        return text
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return _undecodable(text)


def _undecodable(text: str) -> bytes:
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return data if from_sql_text(data) == text else text.encode("utf-8", "surrogatepass")


def from_sql_text(value: Any) -> Any:
    """Return the text that :func:`to_sql_text` stored."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return value.decode("utf-8", "surrogateescape")


def _to_integer(value: int) -> SqlValue:
    return value if -_INT64 <= value < _INT64 else str(value)


@lru_cache(maxsize=KEPT_FORMS)
def list_text(values: Tuple[Any, ...]) -> str:
    """Return names or numbers as JSON, without creating an encoder for each."""
    return "[%s]" % ", ".join(
        [quoted(value) if isinstance(value, str) else str(value) for value in values]
    )


@lru_cache(maxsize=KEPT_FORMS)
def _from_list(text: str) -> Tuple[Any, ...]:
    values = json.loads(text)
    if not isinstance(values, list) or not all(isinstance(value, (str, int)) for value in values):
        raise ValueError("%s is not a list of names or numbers" % text)
    return tuple(values)


def _counts_text(counts: Mapping[str, int]) -> str:
    return '{"target": %d, "golden": %d}' % (counts["target"], counts["golden"])


@lru_cache(maxsize=256)
def _from_counts(text: str) -> Tuple[int, int]:
    counts = json.loads(text)
    return int(counts["target"]), int(counts["golden"])


def _slice_text(worst: Tuple[int, int]) -> str:
    return '{"axis": %d, "index": %d}' % worst


@lru_cache(maxsize=1024)
def _from_slice(text: str) -> Tuple[int, int]:
    worst = json.loads(text)
    return int(worst["axis"]), int(worst["index"])


def _whole_numbers(*names: str) -> Dict[str, Any]:
    return {
        "type": "object",
        "required": list(names),
        "properties": {name: {"type": "integer", "minimum": 0} for name in names},
        "additionalProperties": False,
    }


TYPES: Dict[str, ColumnType] = {
    "str": ColumnType("TEXT", to_sql_text, from_sql_text, quoted, {"type": "string"}),
    "int": ColumnType("", _to_integer, int, str, {"type": "integer"}),
    "bool": ColumnType(
        "INTEGER", int, bool, {True: "true", False: "false"}.__getitem__, {"type": "boolean"}
    ),
    "Tuple[str, ...]": ColumnType(
        "TEXT", list_text, _from_list, list_text, {"type": "array", "items": {"type": "string"}}
    ),
    "Tuple[int, ...]": ColumnType(
        "TEXT",
        list_text,
        _from_list,
        list_text,
        {"type": "array", "items": {"type": "integer", "minimum": 0}},
    ),
    "Tuple[int, int]": ColumnType(
        "TEXT", _slice_text, _from_slice, _slice_text, _whole_numbers("axis", "index")
    ),
    "Dict[str, int]": ColumnType(
        "TEXT",
        _counts_text,
        lambda text: dict(zip(("target", "golden"), _from_counts(text))),
        _counts_text,
        _whole_numbers("target", "golden"),
    ),
}
"""By the annotation of a column. Metrics, of which each has a column of its own in SQL, are none of
these.
"""

ROW_COLUMNS = {column.name: column for column in columns_of(Row)}
FIELDS = {
    name: TYPES[column.annotation]
    for name, column in ROW_COLUMNS.items()
    if column.annotation in TYPES and not column.hosts_only
}
"""Every column but the metrics and the host, with its type."""

_NAMES = [name for name in ROW_COLUMNS if name != HOST]
_METRICS_AT = _NAMES.index("metrics")

COLUMNS = (
    *("key", *_NAMES[:_METRICS_AT], *MEASURES, "user_metrics"),
    *(*_NAMES[_METRICS_AT + 1 :], "position"),
)
"""The columns of view ``row`` that a row's checksum is taken of, in their order."""

_OF_ROW = ("verdict", "warning")
TENSOR_COLUMNS = tuple(
    name for name in COLUMNS if name in (*SHARED, "position") and name not in _OF_ROW
)
"""Those that are stored once for the rows of a tensor at all places (table ``tensor``). Rows are
looked for by their verdict and warning, so each has its own.
"""
OWN_COLUMNS = tuple(name for name in COLUMNS if name not in (*PLACE_COLUMNS, *TENSOR_COLUMNS))
"""Those that each row has of its own (table ``row_at_place``)."""


def decoder(name: str) -> Callable[[Any], Any]:
    """Return what reads a column: a text that it may not be raises ValueError."""
    column, decode = ROW_COLUMNS[name], FIELDS[name].decode
    if not column.choices:
        return decode

    def checked(value: Any) -> Any:
        if value not in column.choices:
            raise ValueError("%r is no %s" % (value, name))
        return value

    return checked
