"""What a comparison found about the ops of a network, for the page that draws it."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from ...base.naming import printable
from ...dumps.folder_listing import is_folder
from ...metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from ...store.json_numbers import plain_number
from ...store.store import RunStore
from .read_page_model import OM, PageModel

_WORST_FIRST = (FAIL, NOT_COMPARED, PASS, EXPECTED_ABSENT)
_SHOWN_ROWS = 12
_METRICS = ("CosineSimilarity", "RelativeEuclideanDistance")


class GraphResult(NamedTuple):
    """A run's rows by what they are about.

    Attributes
    ----------
    verdicts
        The worst verdict by the op's name, as the dump files and as the model's file write it, and
        by original names.
    rows
        By the same names the worst rows: ``{"tensor", "place", "verdict", "reason", "metrics":
        {name: number}}``.
    left_out
        How many rows of a name are not in ``rows``.
    shapes
        Of the outputs that were compared, by original name and output number, in the golden's
        layout.
    inputs
        TARGET, GOLDEN and the model's file of the run where they still exist.
    ops, originals
        The names of all ops that have rows, and of the original nodes that those came from of which
        something could be expected.
    """

    verdicts: Dict[str, str]
    rows: Dict[str, List[Dict[str, Any]]]
    left_out: Dict[str, int]
    shapes: Dict[Tuple[str, int], Tuple[int, ...]]
    inputs: Dict[str, str]
    ops: Set[str]
    originals: Set[str]


def read_result(out: str) -> GraphResult:
    """Read the rows of a run's store.

    Raises
    ------
    MissingPath, DamagedStore, ForeignStore, EnvironmentProblem
        As :meth:`goldwatch.store.store.RunStore.open`.
    """
    result = GraphResult({}, {}, {}, {}, {}, set(), set())
    with RunStore.open(out) as store:
        for row in store.rows():
            originals = row.golden.split(",") if row.golden != "*" else []
            result.ops.add(row.op)
            # Constants, and what the compiler adds, are no nodes of the original network.
            result.originals.update(originals if row.verdict != EXPECTED_ABSENT else ())
            for name in dict.fromkeys([row.op, *originals]):
                _take(result, name, row)
            if (
                originals
                and row.kind == "output"
                and row.shape is not None
                and row.tensor_index is not None
            ):
                result.shapes.setdefault((originals[-1], row.tensor_index), row.shape)
        inputs = store.get("inputs") or {}
    for key, is_there in (
        ("target", is_folder),
        ("golden", is_folder),
        ("model", os.path.isfile),
    ):
        path = inputs.get(key) if isinstance(inputs, dict) else None
        if isinstance(path, str) and is_there(path):
            result.inputs[key] = path
    return result


def doubt(model: PageModel, result: GraphResult) -> str:
    """Return a sentence where most of a result's ops are not in a model; else nothing."""
    op_names = {op.name for op in model.ops}
    names = result.ops if model.kind == OM else result.originals or result.ops
    missing = sorted(names - op_names)
    if 2 * len(missing) <= len(names):
        return ""
    count = "none of the result's %d ops is" % len(names) if len(missing) == len(names) else "%d of the result's %d ops are not" % (  # noqa: E501
        len(missing), len(names))  # fmt: skip
    return "%s in this model (such as %s): is it the result of another one?" % (
        count,
        printable(missing[0]),
    )


def _take(result: GraphResult, name: str, row: Row) -> None:
    rank = _WORST_FIRST.index(row.verdict)
    if (
        rank < _WORST_FIRST.index(result.verdicts.get(name, EXPECTED_ABSENT))
        or name not in result.verdicts
    ):
        result.verdicts[name] = row.verdict
    rows = result.rows.setdefault(name, [])
    rows.append(_row_data(row))
    rows.sort(key=lambda entry: _WORST_FIRST.index(entry["verdict"]))
    if len(rows) > _SHOWN_ROWS:
        rows.pop()
        result.left_out[name] = result.left_out.get(name, 0) + 1


def _row_data(row: Row) -> Dict[str, Any]:
    metrics = {
        name: plain_number(row.metrics[name])
        for name in _METRICS
        if row.metrics.get(name) is not None
    }
    cosine = metrics.pop("CosineSimilarity", None)
    if cosine is not None:
        # Of a cosine near 1 the distance from 1 is what can be read.
        metrics["1 - CosineSimilarity"] = cosine if isinstance(cosine, str) else 1 - cosine
    return {
        "tensor": row.tensor,
        "place": _place(row),
        "verdict": row.verdict,
        "reason": row.reason,
        "metrics": metrics,
    }


def _place(row: Row) -> Optional[str]:
    parts = (
        row.host and "host " + row.host,
        row.device and "device " + row.device,
        row.model,
        row.step and "step " + row.step,
    )
    return ", ".join(part for part in parts if part) or None
