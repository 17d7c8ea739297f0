"""What is remarkable in the statistics that a device wrote in place of tensors: NaN, Inf, the
largest number of a type, constants.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from ..naming import parse_dump_name
from ..statistics_dumps.statistics_csv import TensorRow
from ..statistics_dumps.tensor_statistics import ALL_ZERO, remarkable_values
from ..tensors.dtypes import dtype_by_name

Document = Dict[str, Any]


def remarkable_tensors(name: str, rows: Sequence[TensorRow]) -> List[Document]:
    """Return what is remarkable in the statistics of an op's tensors: op, tensor and a phrase of
    each (schemas/inspect.schema.json).
    """
    dump = parse_dump_name(name)
    op = (
        {"op": name, "op_type": ""}
        if dump is None
        else {"op": dump.op_name, "op_type": dump.op_type}
    )
    odd_rows = (
        (row, remarkable_values(row.statistics, _type_name(row.statistics.dtype))) for row in rows
    )
    return [
        {**op, "tensor": "%s:%d" % row[:2], "what": ", ".join(odd)} for row, odd in odd_rows if odd
    ]


def worst_first(documents: List[Document]) -> List[Document]:
    """Return remarkable tensors with NaN first, then Inf, then those at the end of their type's
    range, then constant ones.
    """
    signs = ("NaN", "Inf", "largest number", ALL_ZERO)
    return sorted(
        documents,
        key=lambda entry: next(
            (rank for rank, sign in enumerate(signs) if sign in entry["what"]), len(signs)
        ),
    )


def _type_name(name: str) -> str:
    dtype = dtype_by_name(name[3:] if name.upper().startswith("DT_") else name)
    return "" if dtype is None else dtype.name
