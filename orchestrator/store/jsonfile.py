"""result.json: the whole run as one document, written a row at a time
(schemas/result.schema.json).
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, Dict, Iterable, Iterator, Mapping, Optional, Sequence, Tuple

from ..judging.limits import Limits
from ..metrics.row import METRICS, Row
from ..shared_records import remembering_last
from .rowsql import (
    PLACE_COLUMNS,
    counts_text,
    list_text,
    plain_number,
    plain_tree,
    slice_text,
    spread_text,
)

RESULT_FILE = "result.json"
FIRST_ROW, NEXT_ROW = "\n", ",\n"

# One encoder for all rows: json.dumps makes a new one for each call with other than its default
# options.
_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False).encode
_quoted = json.encoder.encode_basestring_ascii


_FIELDS = (
    *(
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
    ),
    *(
        "target_dtype",
        "golden_dtype",
        "address",
        "metrics",
        "worst_slice",
        "nan",
        "inf",
        "overflow",
        "verdict",
    ),
    *("reason", "decided_by", "warning", "cause", "target_file", "golden_file"),
)
_ROW = "{%s" + "".join(', "%s": %%s' % name for name in _FIELDS) + "}"


def row_text(row: Row, metrics: Sequence[str] = METRICS) -> str:
    """Return one row of result.json as one line of pure ASCII, without a number that JSON does not
    know.

    Parameters
    ----------
    metrics
        The metrics that are always shown, ``"NaN"`` (StandardDeviation: null) where there is no
        result; others that the row has follow.
    """
    return _ROW % (
        _place_text(row.host, row.time, row.device, row.model, row.model_id, row.step),
        row.index,
        "null" if row.op_sequence is None else row.op_sequence,
        _quoted(row.op_type),
        _quoted(row.op),
        list_text(row.group),
        _quoted(row.golden),
        _quoted(row.tensor),
        _quoted(row.kind),
        "null" if row.tensor_index is None else row.tensor_index,
        "null" if row.shape is None else list_text(row.shape),
        _text(row.target_dtype),
        _text(row.golden_dtype),
        "null" if row.address is None else row.address,
        _metrics_text(row.metrics, metrics),
        "null" if row.worst_slice is None else slice_text(row.worst_slice),
        "null" if row.nan is None else counts_text(row.nan),
        "null" if row.inf is None else counts_text(row.inf),
        _FLAGS[row.overflow],
        _quoted(row.verdict),
        _quoted(row.reason),
        _quoted(row.decided_by),
        _quoted(row.warning),
        _quoted(row.cause),
        _text(row.target_file),
        _text(row.golden_file),
    )


_FLAGS = {None: "null", True: "true", False: "false"}


def _text(value: Optional[str]) -> str:
    return "null" if value is None else _quoted(value)


@lru_cache(maxsize=1024)
def _place_text(host: Optional[str], *names: Optional[str]) -> str:
    own = [] if host is None else ['"host": ' + _quoted(host)]
    return ", ".join(
        own + ['"%s": %s' % (name, _text(value)) for name, value in zip(PLACE_COLUMNS, names)]
    )


@remembering_last
def _metrics_text(metrics: Mapping[str, Any], always: Sequence[str]) -> str:
    names = (*always, *(name for name in metrics if name not in always))
    return "{%s}" % ", ".join(
        ["%s: %s" % (_quoted(name), _metric_text(name, metrics.get(name))) for name in names]
    )


def _metric_text(name: str, value: Any) -> str:
    if type(value) is float and math.isfinite(value):
        return repr(value)
    if name == "StandardDeviation":
        return spread_text(value) if isinstance(value, dict) else "null"
    return _encode("NaN" if value is None else plain_number(value))


def row_document(row: Row, metrics: Sequence[str] = METRICS) -> Dict[str, Any]:
    """Return one row of result.json as what its text stands for."""
    found: Dict[str, Any] = json.loads(row_text(row, metrics))
    return found


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
    """Return what stands before the rows of result.json; ``summary`` must be plain
    (:func:`plain_tree`).
    """
    kind = '"comparison": %s,\n' % _encode(comparison) if comparison else ""
    return '{%s"summary": %s,\n"limits": %s,\n"rows": [' % (
        kind,
        _encode(summary),
        _encode(plain_tree(limits.document())),
    )


def tail_text(omitted: Iterable[Tuple[str, str]]) -> Iterator[str]:
    """Yield what stands behind the rows of result.json.

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
