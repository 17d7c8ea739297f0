"""result.json: the whole run as one document, written a row at a time (schemas/result.schema.json)."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, Iterable, Iterator, Sequence, Tuple

from ..comparing.row import METRICS, Row
from ..verdict.limits import Limits
from .rowsql import plain_number, plain_tree

RESULT_FILE = "result.json"
FIRST_ROW, NEXT_ROW = "\n", ",\n"

# One encoder for all rows: json.dumps makes a new one for each call with other than its default options.
_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False).encode


def row_document(row: Row, metrics: Sequence[str] = METRICS) -> Dict[str, Any]:
    """Return one row of result.json.

    Parameters
    ----------
    metrics
        The metrics that are always shown, ``"NaN"`` (StandardDeviation: null) where there is no result; others that the row has follow.
    """
    return {
        **({} if row.host is None else {"host": row.host}),
        "time": row.time,
        "device": row.device,
        "model": row.model,
        "model_id": row.model_id,
        "step": row.step,
        "index": row.index,
        "op_sequence": row.op_sequence,
        "op_type": row.op_type,
        "op": row.op,
        "group": list(row.group),
        "golden": row.golden,
        "tensor": row.tensor,
        "kind": row.kind,
        "tensor_index": row.tensor_index,
        "shape": None if row.shape is None else [int(dim) for dim in row.shape],
        "target_dtype": row.target_dtype,
        "golden_dtype": row.golden_dtype,
        "address": row.address,
        "metrics": _metrics(row, metrics),
        "worst_slice": None if row.worst_slice is None else dict(zip(("axis", "index"), row.worst_slice)),
        "nan": row.nan,
        "inf": row.inf,
        "overflow": row.overflow,
        "verdict": row.verdict,
        "reason": row.reason,
        "decided_by": row.decided_by,
        "warning": row.warning,
        "cause": row.cause,
        "target_file": row.target_file,
        "golden_file": row.golden_file,
    }


def _metrics(row: Row, always: Sequence[str]) -> Dict[str, Any]:
    metrics = row.metrics
    found: Dict[str, Any] = {}
    for name in (*always, *(name for name in metrics if name not in always)):
        value = metrics.get(name)
        if type(value) is float and math.isfinite(value):
            found[name] = value
        elif name == "StandardDeviation":
            found[name] = plain_tree(value) if isinstance(value, dict) else None
        else:
            found[name] = "NaN" if value is None else plain_number(value)
    return found


def row_text(row: Row, metrics: Sequence[str] = METRICS) -> str:
    """Return one row of result.json as one line of pure ASCII, without a number that JSON does not know."""
    return _encode(row_document(row, metrics))


def result_chunks(
    summary: Dict[str, Any],
    limits: Limits,
    rows: Iterable[Row],
    omitted: Iterable[Tuple[str, str]] = (),
    metrics: Sequence[str] = METRICS,
    comparison: str = "",
) -> Iterator[str]:
    """Yield the text of result.json piece by piece: pure ASCII, one row a line, no number that JSON does not know.

    Parameters
    ----------
    summary
        Plain (:func:`plain_tree`).
    rows
        In the order of the table.
    omitted
        (tensor, reason) of what by the pairing rules has no row.
    comparison
        What was compared, where it was not a device's outputs with golden data: ``replay``.
    """
    yield head_text(summary, limits, comparison)
    separator = FIRST_ROW
    for row in rows:
        yield separator + row_text(row, metrics)
        separator = NEXT_ROW
    yield from tail_text(omitted)


def head_text(summary: Dict[str, Any], limits: Limits, comparison: str = "") -> str:
    """Return what stands before the rows of result.json; ``summary`` must be plain (:func:`plain_tree`)."""
    kind = '"comparison": %s,\n' % _encode(comparison) if comparison else ""
    return '{%s"summary": %s,\n"limits": %s,\n"rows": [' % (kind, _encode(summary), _encode(plain_tree(limits.document())))


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
