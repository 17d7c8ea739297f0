"""What is remarkable in the statistics that a device wrote in place of tensors: NaN, Inf, the
largest number of a type, constants.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Sequence, Tuple

from ...base.naming import parse_dump_name
from ...dumps.statistics_csv import TensorRow
from ...dumps.tensor_statistics import remarkable_values
from ...tensors.dtypes import dtype_by_name

Document = Dict[str, Any]


def remarkable_tensors(name: str, rows: Sequence[TensorRow]) -> List[Tuple[int, Document]]:
    """Return what is remarkable in the statistics of an op's tensors: op, tensor and a phrase of
    each (schemas/inspect.schema.json), behind its rank: 0 is NaN, then Inf, the end of the type's
    range, constants.
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
        (min(odd), {**op, "tensor": "%s:%d" % row[:2], "what": ", ".join(odd.values())})
        for row, odd in odd_rows
        if odd
    ]


def worst_first(ranked: Iterable[Tuple[int, Document]]) -> List[Document]:
    """Return remarkable tensors by their rank."""
    return [document for _, document in sorted(ranked, key=lambda entry: entry[0])]


def _type_name(name: str) -> str:
    dtype = dtype_by_name(name[3:] if name.upper().startswith("DT_") else name)
    return "" if dtype is None else dtype.name
