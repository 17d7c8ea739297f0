"""Rows as values of the store's table ``row`` and back (schemas/store.sql)."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..compare.row import MEASURES, Row
from ..dumps.place import Place

_BEFORE = (
    "time",
    "device",
    "model",
    "model_id",
    "step",
    "index",
    "op_sequence",
    "op_type",
    "op",
    "group",
    "golden",
    "tensor",
    "kind",
    "tensor_index",
    "shape",
    "target_dtype",
    "golden_dtype",
    "address",
    "golden_address",
)
_AFTER = (
    "worst_slice",
    "user_metrics",
    "nan",
    "inf",
    "overflow",
    "verdict",
    "reason",
    "decided_by",
    "warning",
    "cause",
    "target_file",
    "golden_file",
    "graph_index",
    "timestamp_us",
    "position",
)
COLUMNS = ("key",) + _BEFORE + MEASURES + _AFTER
SELECTED = COLUMNS[1:-1]
COLUMN_LIST = ", ".join('"%s"' % name for name in COLUMNS)
SELECTED_LIST = ", ".join('"%s"' % name for name in SELECTED)
SELECT_SAME = "SELECT %s FROM row WHERE key = ?" % COLUMN_LIST
INSERT = "INSERT INTO row (%s) VALUES (%s)" % (COLUMN_LIST, ", ".join("?" * len(COLUMNS)))

_KNOWN = frozenset(MEASURES)
_encode = json.JSONEncoder().encode
_encode_key = json.JSONEncoder(separators=(",", ":")).encode
_INT64 = 1 << 63
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

SqlValue = Union[None, int, float, str, bytes]


def to_sql_text(text: Optional[str]) -> SqlValue:
    """Return ``text`` as TEXT, or as a BLOB where it is not valid UTF-8 (undecodable file names, lone surrogates of a json)."""
    if text is None:
        return None
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


def plain_number(value: Any) -> Any:
    """Return a number as int or float, or as ``"NaN"``, ``"Infinity"``, ``"-Infinity"``; None and text stay."""
    if type(value) is not float:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, int):
            return int(value)
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _integer(value: Optional[int]) -> SqlValue:
    if value is None or -_INT64 <= value < _INT64:
        return value
    return str(value)


def _metric(name: str, value: Any) -> SqlValue:
    if isinstance(value, dict):
        return _encode(plain_tree(value))
    number = plain_number(value)
    return float(number) if isinstance(number, int) and not -_INT64 <= number < _INT64 else number


def plain_tree(value: Any) -> Any:
    """Return nested mappings with every number that is not finite as its text."""
    if isinstance(value, dict):
        return {str(key): plain_tree(entry) for key, entry in value.items()}
    return plain_number(value)


def row_key(row: Row) -> str:
    """Return what a row is about, the same in every run over the same files: place, target file, op, kind and tensor index."""
    parts = (row.time, row.device, row.model, row.model_id, row.step, row.target_file, row.op, row.kind, row.tensor_index)
    return _encode_key(parts)


def row_values(row: Row, key: str) -> List[SqlValue]:
    """Return the values of :data:`COLUMNS`."""
    text, metrics = to_sql_text, row.metrics
    values: List[SqlValue] = [text(key), text(row.time), text(row.device), text(row.model), text(row.model_id), text(row.step)]
    values += [_integer(row.index), _integer(row.op_sequence), text(row.op_type), text(row.op), _encode_tuple(row.group)]
    values += [text(row.golden), text(row.tensor), row.kind, _integer(row.tensor_index)]
    values += [None if row.shape is None else _encode_tuple(row.shape), text(row.target_dtype), text(row.golden_dtype)]
    values += [_integer(row.address), _integer(row.golden_address)]
    values += [_metric(name, metrics.get(name)) for name in MEASURES]
    others = {name: plain_number(value) for name, value in metrics.items() if name not in _KNOWN}
    values.append(None if row.worst_slice is None else '{"axis": %d, "index": %d}' % row.worst_slice)
    values += [json.dumps(others) if others else None, _counts(row.nan), _counts(row.inf)]
    values += [None if row.overflow is None else int(row.overflow), row.verdict, text(row.reason)]
    values += [text(row.decided_by), row.warning, row.cause]
    values += [text(row.target_file), text(row.golden_file), _integer(row.graph_index), _integer(row.timestamp_us)]
    values.append(row.group.index(row.op) if row.op in row.group else 0)
    return values


def _counts(counts: Optional[Mapping[str, int]]) -> Optional[str]:
    return None if counts is None else '{"target": %d, "golden": %d}' % (counts["target"], counts["golden"])


@lru_cache(maxsize=1024)
def _encode_tuple(values: Tuple[Any, ...]) -> str:
    return _encode(values)


@lru_cache(maxsize=1024)
def _decode_tuple(text: str) -> Tuple[Any, ...]:
    return tuple(json.loads(text))


@lru_cache(maxsize=256)
def _decode_counts(text: str) -> Tuple[int, int]:
    counts = json.loads(text)
    return counts["target"], counts["golden"]


def row_from_values(values: Sequence[Any]) -> Row:
    """Return the row whose :data:`SELECTED` columns these are."""
    fields: Dict[str, Any] = dict(zip(SELECTED, values))
    for name, value in fields.items():
        if type(value) is bytes:
            fields[name] = from_sql_text(value)
    metrics: Dict[str, Any] = {}
    for name in MEASURES:
        value = fields.pop(name)
        if value is not None:
            if name == "StandardDeviation":
                metrics[name] = _tree_from_json(value)
            else:
                metrics[name] = value if type(value) is float else _NON_FINITE.get(value, value)
    others = fields.pop("user_metrics")
    if others is not None:
        metrics.update({name: _NON_FINITE.get(value, value) for name, value in json.loads(others).items()})
    for name in ("index", "op_sequence", "tensor_index", "address", "golden_address", "graph_index", "timestamp_us"):
        if isinstance(fields[name], str):
            fields[name] = int(fields[name])
    for name in ("nan", "inf"):
        fields[name] = None if fields[name] is None else dict(zip(("target", "golden"), _decode_counts(fields[name])))
    worst = fields["worst_slice"]
    fields["worst_slice"] = None if worst is None else tuple(json.loads(worst)[name] for name in ("axis", "index"))
    fields["group"] = _decode_tuple(fields["group"])
    fields["shape"] = None if fields["shape"] is None else _decode_tuple(fields["shape"])
    fields["overflow"] = None if fields["overflow"] is None else bool(fields["overflow"])
    return Row(metrics=metrics, **fields)


def _tree_from_json(text: Any) -> Any:
    if text in _NON_FINITE:
        return _NON_FINITE[text]
    if not isinstance(text, str):
        return text
    tree = json.loads(text)
    return _finite_tree(tree) if "NaN" in text or "Infinity" in text else tree


def _finite_tree(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite_tree(entry) for key, entry in value.items()}
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value


PLACE_COLUMNS = Place._fields
