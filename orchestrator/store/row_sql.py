"""Rows as lines of the store's view ``row`` and back."""

from __future__ import annotations

import hashlib
import json
import math
from functools import lru_cache
from operator import itemgetter
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..base.errors import FormatError
from ..base.fast_dataclasses import cached_by_object
from ..metrics.row import KEPT_FORMS, MEASURES, OWN, SHARED, Row, place_columns, shared_columns
from .json_numbers import NON_FINITE, finite_tree, plain_number, plain_tree
from .row_schema import (
    COLUMNS,
    FIELDS,
    HOST,
    OWN_COLUMNS,
    PLACE_COLUMNS,
    TENSOR_COLUMNS,
    SqlValue,
    decoder,
    from_sql_text,
    quoted,
    to_sql_text,
)

Line = Tuple[SqlValue, ...]
"""The values of :data:`COLUMNS` (and the host's, where there is one), and their checksum."""

_KEY_FIELDS = (*PLACE_COLUMNS, "target_file", "op", "kind", "tensor_index")
_KNOWN = frozenset(MEASURES)
_encode = json.JSONEncoder().encode
_INT64 = 1 << 63


def checksum(values: Sequence[SqlValue]) -> str:
    """Return 64 bits of BLAKE2b of SQL values as 16 hexadecimal digits; the same in every version
    of Python.
    """
    return _sum_of(ascii(list(values)))


def _sum_of(text: str) -> str:
    return hashlib.blake2b(text.encode("ascii"), digest_size=8).hexdigest()


def column_list(hosts: bool = False) -> str:
    """Return the columns of a row as SQL has them, those that its checksum is taken of."""
    return ", ".join('"%s"' % name for name in (*COLUMNS, *([HOST] if hosts else ())))


_AT = {name: at for at, name in enumerate(COLUMNS)}
_PLACE_AT = slice(_AT[PLACE_COLUMNS[0]], _AT[PLACE_COLUMNS[-1]] + 1)
_METRICS_AT = slice(_AT[MEASURES[0]], _AT["user_metrics"] + 1)
_SHARED = [(_AT[name], FIELDS[name].encode) for name in SHARED]
_OWN = [(_AT[name], name, FIELDS[name].encode) for name in OWN]
_HOLE = "\0"
"""Stands in a text for what it does not share; escaped texts hold none."""
_LINE_TEXT = ", ".join(
    [
        "%s" if name in (*SHARED, "position") else _HOLE
        for name in COLUMNS
        if name not in (*PLACE_COLUMNS[1:], *MEASURES[1:], "user_metrics")
    ]
)
_DECODERS = {name: decoder(name) for name in FIELDS}
_DECODERS[HOST] = from_sql_text
_PLACE = (*PLACE_COLUMNS, HOST)
_TENSOR = tuple(name for name in TENSOR_COLUMNS if name in FIELDS)
_VALUES_OF_TENSOR = itemgetter(*[_AT[name] for name in _TENSOR])
_OWN_DECODERS = [(_AT[name], name, _DECODERS[name]) for name in FIELDS if name in OWN_COLUMNS]


def row_key(row: Row) -> str:
    """Return what a row is about, the same in every run over the same files: place, target file,
    op, kind and tensor index, host.
    """
    host = () if row.host is None else (row.host,)
    texts = _shared_texts(row.place.parts), _texts((row.target_file,))
    return "[%s,%s,%s]" % (*texts, _shared_texts((row.op, row.kind, row.tensor_index, *host)))


def key_of_values(values: Mapping[str, Any]) -> str:
    """Return the :func:`row_key` of the row with these columns."""
    parts = [from_sql_text(values[name]) for name in _KEY_FIELDS]
    parts[-1] = None if parts[-1] is None else int(parts[-1])
    host = from_sql_text(values.get(HOST))
    return "[%s]" % _texts((*parts, *(() if host is None else (host,))))


def _texts(parts: Sequence[Union[None, str, int]]) -> str:
    """Return the parts as in a JSON list without spaces; an encoder would be made anew for each."""
    return ",".join(
        [
            "null" if part is None else quoted(part) if isinstance(part, str) else str(part)
            for part in parts
        ]
    )


_shared_texts = lru_cache(maxsize=KEPT_FORMS)(_texts)


def row_line(row: Row) -> Line:
    """Return a row as the store has it; with the host only where there is one."""
    values = row.__dict__
    shared, text, about = _shared_line(shared_columns(values))
    line, host, file = shared.copy(), row.host, values["target_file"]
    line[_PLACE_AT], place_text, place_key = _place_values(place_columns(values))
    # As :func:`row_key` has it.
    line[0] = "[%s,%s,%s%s]" % (
        place_key,
        "null" if file is None else quoted(file),
        about,
        "" if host is None else "," + quoted(host),
    )
    line[_METRICS_AT], metrics_text = _metric_values(row.metrics)
    own = [None if values[name] is None else encode(values[name]) for _, name, encode in _OWN]
    for (at, _, _), value in zip(_OWN, own):
        line[at] = value
    address, golden_address, *others = map(ascii, own)
    text %= (ascii(line[0]), place_text, address, golden_address, metrics_text, *others)
    if host is not None:
        line.append(to_sql_text(host))
        text += ", " + ascii(line[-1])
    # As :func:`checksum` has it, with what rows share as text already.
    line.append(_sum_of("[%s]" % text))
    return tuple(line)


@lru_cache(maxsize=KEPT_FORMS)
def _shared_line(shared: Tuple[Any, ...]) -> Tuple[List[SqlValue], str, str]:
    """Return the line of rows that share these columns, None in all others; its text in a
    checksum, ``%s`` for the key, the place, the metrics and each column of a row's own; and their
    part of a key.
    """
    op, group = shared[SHARED.index("op")], shared[SHARED.index("group")]
    encoded = [
        None if value is None else encode(value) for value, (_, encode) in zip(shared, _SHARED)
    ]
    encoded.append(group.index(op) if op in group else 0)
    line: List[SqlValue] = [None] * len(COLUMNS)
    for (at, _), value in zip(_SHARED, encoded):
        line[at] = value
    line[-1] = encoded[-1]
    text = _LINE_TEXT % tuple(map(ascii, encoded))
    about = _texts([shared[SHARED.index(name)] for name in _KEY_FIELDS[-3:]])
    return line, text.replace("%", "%%").replace(_HOLE, "%s"), about


@lru_cache(maxsize=512)
def _place_values(parts: Tuple[Optional[str], ...]) -> Tuple[List[SqlValue], str, str]:
    """Return the values of a place's columns, their text in a checksum, and in a key."""
    values = [to_sql_text(part) for part in parts]
    return values, ascii(values)[1:-1], _texts(parts)


@cached_by_object
def _metric_values(metrics: Mapping[str, Any]) -> Tuple[List[SqlValue], str]:
    """Return the values of the metrics' columns, and their text in a checksum."""
    values: List[SqlValue] = [
        value if type(value) is float and -math.inf < value < math.inf else _to_metric(value)
        for value in map(metrics.get, MEASURES)
    ]
    others = None
    if not _KNOWN.issuperset(metrics):
        others = _encode(
            {name: plain_tree(value) for name, value in metrics.items() if name not in _KNOWN}
        )
    values.append(others)
    return values, ascii(values)[1:-1]


def _to_metric(value: Any) -> SqlValue:
    if value is None:
        return None
    if isinstance(value, dict):
        return spread_text(value)
    number = plain_number(value)
    return float(number) if isinstance(number, int) and not -_INT64 <= number < _INT64 else number


@cached_by_object
def spread_text(sides: Mapping[str, Any]) -> str:
    """Return a StandardDeviation as JSON, numbers that are not finite as :func:`plain_tree` writes
    them.
    """
    return _finite_spread_text(sides) or _encode(plain_tree(sides))


def _finite_spread_text(sides: Mapping[str, Any]) -> Optional[str]:
    if tuple(sides) != ("target", "golden"):
        return None
    numbers: List[Any] = []
    for side in sides.values():
        if not isinstance(side, dict) or tuple(side) != ("mean", "std"):
            return None
        numbers += side.values()
    for number in numbers:
        if type(number) is not float or not -math.inf < number < math.inf:
            return None
    return '{"target": {"mean": %r, "std": %r}, "golden": {"mean": %r, "std": %r}}' % tuple(numbers)


def _from_metric(name: str, value: Any) -> Any:
    if value in NON_FINITE:
        return NON_FINITE[value]
    if name != "StandardDeviation" or not isinstance(value, str):
        return value
    tree = json.loads(value)
    if "N" in value or "I" in value:
        tree = finite_tree(tree)
    for side in tree.values():
        if not all(isinstance(number, (int, float)) for number in side.values()):
            raise ValueError("StandardDeviation is not made of numbers")
    return tree


def _decoded(names: Sequence[str], values: Sequence[SqlValue]) -> Dict[str, Any]:
    """Return columns as a row has them, by name."""
    return {
        name: None if value is None else _DECODERS[name](value)
        for name, value in zip(names, values)
    }


@lru_cache(maxsize=512)
def _fields_of_place(values: Tuple[SqlValue, ...]) -> Dict[str, Any]:
    """Return what the rows of a place share; the last value, where there are six, is the host."""
    return {HOST: None, **_decoded(_PLACE, values)}


@lru_cache(maxsize=KEPT_FORMS)
def _fields_of_tensor(values: Tuple[SqlValue, ...]) -> Dict[str, Any]:
    """Return what the rows of a tensor share at all places."""
    return _decoded(_TENSOR, values)


class RowReader:
    """Makes rows of what the store's view ``row`` shows.

    Parameters
    ----------
    path
        The store, for messages.
    hosts
        Whether it is the store of several hosts.
    checked
        Whether each row's checksum is compared, as it must be unless that was done when the store
        was opened.
    """

    def __init__(self, path: str, hosts: bool, checked: bool) -> None:
        self.path = path
        self.checked = checked
        self.hosts = hosts
        names = [*COLUMNS, *([HOST] if hosts else ())]
        self._place = itemgetter(*[at for at, name in enumerate(names) if name in _PLACE])
        self._others = names.index("user_metrics")
        self.selected = ", ".join('"%s"' % name for name in names) + (
            ", sum" if self.checked else ""
        )

    def row(self, values: Sequence[Any]) -> Row:
        """Return the row of these values, in the order of :attr:`selected`.

        Raises
        ------
        FormatError
            They are not what goldwatch stored.
        """
        if self.checked and checksum(values[:-1]) != values[-1]:
            raise damaged_row(self.path, "its checksum is another")
        try:
            fields = {
                **_fields_of_place(self._place(values)),
                **_fields_of_tensor(_VALUES_OF_TENSOR(values)),
            }
            for place, name, decode in _OWN_DECODERS:
                value = values[place]
                fields[name] = None if value is None else decode(value)
            metrics = {
                name: value if type(value) is float else _from_metric(name, value)
                for value, name in zip(values[_METRICS_AT], MEASURES)
                if value is not None
            }
            if values[self._others] is not None:
                metrics.update(finite_tree(json.loads(values[self._others])))
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            RecursionError,
            OverflowError,
        ) as error:
            raise damaged_row(self.path, str(error)) from error
        # A frozen dataclass sets each field through a function; filling a new object at once is
        # several times as fast.
        fields["metrics"] = metrics
        row = object.__new__(Row)
        row.__dict__.update(fields)
        return row


def damaged_row(path: str, why: str) -> FormatError:
    """Return the error for a row that is not as goldwatch stored it."""
    return FormatError(
        "damaged: a row is not as it was stored (%s)" % why,
        path,
        hint="run the comparison again: it finds the row anew",
    )
