"""result.json: the whole run as one document, written a row at a time (schemas/result.schema.json)."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Iterator, Optional, Sequence, Tuple

from ..comparing.row import METRICS, Row
from ..filesystem import replacing
from ..verdict.limits import Limits
from ..verdict.summary import Summary
from .rowsql import plain_number, plain_tree

RESULT_FILE = "result.json"


def row_document(row: Row, metrics: Sequence[str] = METRICS) -> Dict[str, Any]:
    """Return one row of result.json.

    Parameters
    ----------
    metrics
        The metrics that are always shown, ``"NaN"`` (StandardDeviation: null) where there is no result; others that the row has follow.
    """
    return {
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
        "nan": plain_tree(row.nan) if row.nan is not None else None,
        "inf": plain_tree(row.inf) if row.inf is not None else None,
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
    names = list(always) + [name for name in row.metrics if name not in always]
    found: Dict[str, Any] = {}
    for name in names:
        value = row.metrics.get(name)
        if name == "StandardDeviation":
            found[name] = plain_tree(value) if isinstance(value, dict) else None
        else:
            found[name] = "NaN" if value is None else plain_number(value)
    return found


def result_chunks(
    summary: Summary,
    limits: Limits,
    rows: Iterable[Row],
    omitted: Iterable[Tuple[str, str]] = (),
    metrics: Sequence[str] = METRICS,
    extra: Optional[Dict[str, Any]] = None,
) -> Iterator[str]:
    """Yield the text of result.json piece by piece: pure ASCII, one row a line, no number that JSON does not know.

    Parameters
    ----------
    rows
        In the order of the table.
    omitted
        (tensor, reason) of what by the pairing rules has no row.
    extra
        Further members of ``summary``; they do not replace the documented ones.
    """
    head = dict(extra or {}, **plain_document(summary.document()))
    yield '{"summary": %s,\n"limits": %s,\n"rows": [' % (_dump(head), _dump(limits.document()))
    separator = "\n"
    for row in rows:
        yield separator + _dump(row_document(row, metrics))
        separator = ",\n"
    yield '\n],\n"omitted": ['
    separator = "\n"
    for tensor, reason in omitted:
        yield separator + _dump({"tensor": tensor, "reason": reason})
        separator = ",\n"
    yield "\n]}\n"


def plain_document(document: Dict[str, Any]) -> Dict[str, Any]:
    """Return a document of mappings, text and numbers with every number that is not finite as its text."""
    return {key: plain_document(value) if isinstance(value, dict) else plain_number_or_same(value) for key, value in document.items()}


def plain_number_or_same(value: Any) -> Any:
    """Return a float as :func:`plain_number` does, anything else as it is."""
    return plain_number(value) if isinstance(value, float) else value


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def write_result_json(path: str, chunks: Iterable[str]) -> None:
    """Write result.json from :func:`result_chunks`; it appears whole, by rename.

    Raises
    ------
    EnvironmentProblem
        It cannot be written; an older file stays.
    """
    with replacing(path) as stream:
        for chunk in chunks:
            stream.write(chunk)
