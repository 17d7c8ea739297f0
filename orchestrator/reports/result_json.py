"""result.json: the whole run as one document, written a row at a time
(schemas/result.schema.json).
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from operator import itemgetter
from typing import Any, Dict, Iterable, Iterator, Mapping, Optional, Sequence, Tuple

from ..fast_dataclasses import cached_last
from ..judging.limits import Limits
from ..metrics.row import METRICS, Row
from ..store.row_schema import FIELDS, PLACE_COLUMNS, ROW_COLUMNS, quoted
from ..store.rowsql import plain_number, plain_tree, spread_text
from .report_context import ReportFile

RESULT_FILE = "result.json"
FIRST_ROW, NEXT_ROW = "\n", ",\n"

# One encoder for all rows: json.dumps makes a new one for each call with other than its default
# options.
_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False).encode

_SHOWN = [
    name
    for name, column in ROW_COLUMNS.items()
    if column.in_json and not column.hosts_only and name not in PLACE_COLUMNS
]
_ROW = "{%s" + "".join(', "%s": %%s' % name for name in _SHOWN) + "}"
_METRICS_AT = _SHOWN.index("metrics")
_VALUES = itemgetter(*(name for name in _SHOWN if name != "metrics"))
_TEXTS = [FIELDS[name].json_text for name in _SHOWN if name != "metrics"]


def row_text(row: Row, metrics: Sequence[str] = METRICS) -> str:
    """Return one row of result.json as one line of pure ASCII, without a number that JSON does not
    know.

    Parameters
    ----------
    metrics
        The metrics that are always shown, ``"NaN"`` (StandardDeviation: null) where there is no
        result; others that the row has follow.
    """
    parts = [
        "null" if value is None else text(value)
        for value, text in zip(_VALUES(row.__dict__), _TEXTS)
    ]
    parts.insert(_METRICS_AT, _metrics_text(row.metrics, metrics))
    place = _place_text(row.host, row.time, row.device, row.model, row.model_id, row.step)
    return _ROW % (place, *parts)


@lru_cache(maxsize=1024)
def _place_text(host: Optional[str], *names: Optional[str]) -> str:
    parts = [] if host is None else ['"host": ' + quoted(host)]
    return ", ".join(
        parts
        + [
            '"%s": %s' % (name, "null" if value is None else quoted(value))
            for name, value in zip(PLACE_COLUMNS, names)
        ]
    )


@cached_last
def _metrics_text(metrics: Mapping[str, Any], always: Sequence[str]) -> str:
    names = (*always, *(name for name in metrics if name not in always))
    return "{%s}" % ", ".join(
        ["%s: %s" % (quoted(name), _metric_text(name, metrics.get(name))) for name in names]
    )


def _metric_text(name: str, value: Any) -> str:
    if type(value) is float and math.isfinite(value):
        return repr(value)
    if name == "StandardDeviation":
        return spread_text(value) if isinstance(value, dict) else "null"
    return _encode("NaN" if value is None else plain_number(value))


def row_document(row: Row, metrics: Sequence[str] = METRICS) -> Dict[str, Any]:
    """Return one row of result.json as a document."""
    document: Dict[str, Any] = json.loads(row_text(row, metrics))
    return document


def result_chunks(
    summary: Dict[str, Any],
    limits: Limits,
    rows: Iterable[Row],
    omitted: Iterable[Tuple[str, str]] = (),
    metrics: Sequence[str] = METRICS,
    comparison: str = "",
) -> Iterator[str]:
    """Yield the text of result.json piece by piece: pure ASCII, one row a line, no number that JSON
    does not know.

    Parameters
    ----------
    summary
        Plain (:func:`plain_tree`).
    rows
        In the order of the table.
    omitted
        (tensor, reason) of what by the pairing rules has no row.
    comparison
        What was compared, where it was not a device's outputs with golden data: ``replay``;
        ``exact``, two runs bit for bit; ``outputs``, those of a whole network as a program wrote
        them.
    """
    yield head_text(summary, limits, comparison)
    separator = FIRST_ROW
    for row in rows:
        yield separator + row_text(row, metrics)
        separator = NEXT_ROW
    yield from tail_text(omitted)


def head_text(summary: Dict[str, Any], limits: Limits, comparison: str = "") -> str:
    """Return the text before the rows of result.json; ``summary`` must be plain
    (:func:`plain_tree`).
    """
    kind = '"comparison": %s,\n' % _encode(comparison) if comparison else ""
    return '{%s"summary": %s,\n"limits": %s,\n"rows": [' % (
        kind,
        _encode(summary),
        _encode(plain_tree(limits.document())),
    )


def tail_text(omitted: Iterable[Tuple[str, str]]) -> Iterator[str]:
    """Yield the text after the rows of result.json.

    Parameters
    ----------
    omitted
        (tensor, reason) of what by the pairing rules has no row.
    """
    yield '\n],\n"omitted": ['
    separator = "\n"
    for tensor, reason in omitted:
        yield separator + _encode({"tensor": tensor, "reason": reason})
        separator = ",\n"
    yield "\n]}\n"


class JsonFile(ReportFile):
    """What result.json holds."""

    def begin(self) -> None:
        """Write what stands before the rows."""
        self._separator = FIRST_ROW
        self.stream.write(
            head_text(dict(self.context.summary), self.context.limits, self.context.comparison)
        )

    def add(self, row: Row) -> None:
        """Write a row."""
        self.stream.write(self._separator + row_text(row, self.context.metrics))
        self._separator = NEXT_ROW

    def end(self) -> None:
        """Write what stands behind the rows."""
        for piece in tail_text(self.context.omitted):
            self.stream.write(piece)
