"""A row of result.json as one line of JSON.

Processes that compare render rows, so this module imports nothing of the verdict.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, Dict, Mapping, Sequence, Tuple

from ..base.fast_dataclasses import cached_by_object
from ..metrics.row import METRICS, Row
from ..store.json_numbers import plain_number
from ..store.row_schema import FIELDS, ROW_COLUMNS, part_encoders, quoted
from ..store.row_sql import spread_text, texts_in_json

FIRST_ROW, NEXT_ROW = "\n", ",\n"

# One encoder for all rows: json.dumps makes a new one for each call with other than its default
# options.
encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False).encode

_SHOWN = [name for name, column in ROW_COLUMNS.items() if column.in_json and not column.hosts_only]
_METRICS_AT = _SHOWN.index("metrics")


def _part_text(names: Sequence[str], values: Sequence[Any]) -> str:
    return ", ".join(
        [
            '"%s": %s' % (name, "null" if value is None else FIELDS[name].json_text(value))
            for name, value in zip(names, values)
        ]
    )


_BEFORE_PARTS, _BEHIND_PARTS = (
    part_encoders(names, _part_text) for names in (_SHOWN[:_METRICS_AT], _SHOWN[_METRICS_AT + 1 :])
)


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
    parts = [] if row.host is None else ['"host": ' + quoted(row.host)]
    parts += [text(values) for text in _BEFORE_PARTS]
    parts.append('"metrics": ' + _metrics_text(row.metrics, metrics))
    parts += [text(values) for text in _BEHIND_PARTS]
    return "{%s}" % ", ".join(parts)


@cached_by_object
def _metrics_text(metrics: Mapping[str, Any], always: Sequence[str]) -> str:
    names = (*always, *(name for name in metrics if name not in always))
    texts = texts_in_json(metrics)
    return _metrics_form(names) % tuple(
        [texts.get(name) or _metric_text(name, metrics.get(name)) for name in names]
    )


@lru_cache(maxsize=64)
def _metrics_form(names: Tuple[str, ...]) -> str:
    return "{%s}" % ", ".join([quoted(name).replace("%", "%%") + ": %s" for name in names])


def _metric_text(name: str, value: Any) -> str:
    if type(value) is float and math.isfinite(value):
        return repr(value)
    if name == "StandardDeviation":
        return spread_text(value) if isinstance(value, dict) else "null"
    return encode("NaN" if value is None else plain_number(value))


def row_document(row: Row, metrics: Sequence[str] = METRICS) -> Dict[str, Any]:
    """Return one row of result.json as a document."""
    document: Dict[str, Any] = json.loads(row_text(row, metrics))
    return document
