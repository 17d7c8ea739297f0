"""A row of result.json as one line of JSON.

Processes that compare render rows, so this module imports nothing of the verdict.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ..base.fast_dataclasses import cached_by_object
from ..metrics.row import KEPT_FORMS, METRICS, SHARED, Row, place_columns, shared_columns
from ..store.json_numbers import plain_number
from ..store.row_schema import FIELDS, PLACE_COLUMNS, ROW_COLUMNS, quoted
from ..store.row_sql import spread_text

FIRST_ROW, NEXT_ROW = "\n", ",\n"

# One encoder for all rows: json.dumps makes a new one for each call with other than its default
# options.
encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False).encode

_SHOWN = [name for name, column in ROW_COLUMNS.items() if column.in_json and not column.hosts_only]
_SHARED = [(SHARED.index(name), FIELDS[name].json_text) for name in _SHOWN if name in SHARED]
# No text of JSON holds this byte: it stands for what rows do not share.
_HOLE = "\0"
_SHARED_TEXT = "{%s}" % ", ".join(
    [
        _HOLE,
        *[
            '"%s": %s' % (name, "%s" if name in SHARED else _HOLE)
            for name in _SHOWN[len(PLACE_COLUMNS) :]
        ],
    ]
)
_OF_ROW = [name for name in _SHOWN if name not in (*PLACE_COLUMNS, *SHARED)]


def row_text(row: Row, metrics: Sequence[str] = METRICS) -> str:
    """Return one row of result.json as one line of pure ASCII, without a number that JSON does not
    know.

    Parameters
    ----------
    metrics
        The metrics that are always shown, ``"NaN"`` (StandardDeviation: null) where there is no
        result; others that the row has follow.
    """
    values = row.__dict__
    return _form(shared_columns(values)) % (
        _place_text((row.host, *place_columns(values))),
        *[
            _metrics_text(row.metrics, metrics) if name == "metrics" else _text(name, values[name])
            for name in _OF_ROW
        ],
    )


@lru_cache(maxsize=KEPT_FORMS)
def _form(shared: Tuple[Any, ...]) -> str:
    """Return the text of rows that share these columns; ``%s`` is for the place and the others."""
    text = _SHARED_TEXT % tuple(
        ["null" if shared[at] is None else encode(shared[at]) for at, encode in _SHARED]
    )
    return text.replace("%", "%%").replace(_HOLE, "%s")


@lru_cache(maxsize=512)
def _place_text(parts: Tuple[Optional[str], ...]) -> str:
    host, *place = parts
    texts = ['"%s": %s' % (name, _text(name, part)) for name, part in zip(_SHOWN, place)]
    return ", ".join(texts if host is None else ['"host": ' + quoted(host), *texts])


def _text(name: str, value: Any) -> str:
    return "null" if value is None else FIELDS[name].json_text(value)


@cached_by_object
def _metrics_text(metrics: Mapping[str, Any], always: Sequence[str]) -> str:
    names, form = _metrics_form((*always, *metrics))
    return form % tuple(
        [
            repr(value)
            if type(value) is float and -math.inf < value < math.inf
            else _metric_text(name, value)
            for name, value in zip(names, map(metrics.get, names))
        ]
    )


@lru_cache(maxsize=64)
def _metrics_form(names: Tuple[str, ...]) -> Tuple[Sequence[str], str]:
    names = tuple(dict.fromkeys(names))
    return names, "{%s}" % ", ".join([quoted(name).replace("%", "%%") + ": %s" for name in names])


def _metric_text(name: str, value: Any) -> str:
    if name == "StandardDeviation":
        return spread_text(value) if isinstance(value, dict) else "null"
    return encode("NaN" if value is None else plain_number(value))


def row_document(row: Row, metrics: Sequence[str] = METRICS) -> Dict[str, Any]:
    """Return one row of result.json as a document."""
    document: Dict[str, Any] = json.loads(row_text(row, metrics))
    return document
