"""The cells of the result table and of the mapping table.

Source of the columns: the vendor's public documents on dump comparison. Settled here: `inf` and
`-inf` as C's printf writes them; `NaN` in every column without a value; the reason is empty where
there is none.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..base.fast_dataclasses import cached_by_object, dataclass
from ..base.naming import printable
from ..judging.metric_text import metric_number, number_text
from ..metrics.row import METRICS, Row
from ..store.row_schema import ROW_COLUMNS

NOTHING = "NaN"
MAPPING_HEADER = (
    "Index",
    "OpType",
    "NPUDump",
    "GroundTruth",
    "TensorIndex",
    "NPUDumpPath",
    "GroundTruthPath",
)

_FORMULA = ("=", "+", "-", "@")


Cell = Callable[[Row, str], str]
"""Returns the cell of a row in a column."""


@dataclass(frozen=True)
class Columns:
    """Which optional columns a result table has.

    Attributes
    ----------
    op_sequence
        OpSequence, the second column: a range or selection of ops was asked for.
    golden_address
        A second Address after the second DataType: the golden is in the dump container or a dump of
        the NPU.
    overflow
        OverFlow after Shape.
    metrics
        The metrics' columns, in this order; names of the user's own metrics too.
    """

    op_sequence: bool = False
    golden_address: bool = False
    overflow: bool = False
    metrics: Tuple[str, ...] = METRICS


# The order of the vendor's table.
_FIRST = (
    "index",
    "op_sequence",
    "op_type",
    "group",
    "target_dtype",
    "address",
    "golden",
    "golden_dtype",
    "golden_address",
    "tensor",
    "shape",
    "overflow",
)
_LAST = "reason"
_BEHIND_METRICS = (
    *(
        name
        for name, column in ROW_COLUMNS.items()
        if column.heading and name not in (*_FIRST, _LAST)
    ),
    _LAST,
)


def header(columns: Columns) -> List[str]:
    """Return the names of the columns."""
    before, behind = _chosen(columns)
    return [
        *(ROW_COLUMNS[name].heading for name, _ in before),
        *columns.metrics,
        *(ROW_COLUMNS[name].heading for name, _ in behind),
    ]


def cells(row: Row, columns: Columns) -> List[str]:
    """Return one row's cells."""
    before, behind = _chosen(columns)
    return [
        *[cell(row, name) for name, cell in before],
        *_metric_cells(row.metrics, columns.metrics),
        *[cell(row, name) for name, cell in behind],
    ]


@lru_cache(maxsize=16)
def _chosen(columns: Columns) -> Tuple[List[Tuple[str, Cell]], List[Tuple[str, Cell]]]:
    """Return the names of the columns before and behind the metrics, each with what makes its
    cells.
    """
    before, behind = (
        [(name, _cell_of(name)) for name in names if getattr(columns, name, True)]
        for names in (_FIRST, _BEHIND_METRICS)
    )
    return before, behind


def _cell_of(name: str) -> Cell:
    if name in _OF_ROW:
        return _OF_ROW[name]
    of_value = _OF_TYPE[ROW_COLUMNS[name].annotation]
    return lambda row, name: NOTHING if row.__dict__[name] is None else of_value(row.__dict__[name])


@cached_by_object
def _metric_cells(metrics: Mapping[str, Any], names: Sequence[str]) -> List[str]:
    return [metric_cell(metrics.get(name)) for name in names]


@lru_cache(maxsize=1024)
def text_cell(text: str) -> str:
    """Return text that no spreadsheet takes for a formula: control characters as ``\\xNN``, ``'``
    before ``=``, ``+``, ``-``, ``@``.
    """
    text = printable(text)
    return "'" + text if text.startswith(_FORMULA) else text


def tensor_cell(row: Row) -> str:
    """Return TensorIndex: ``NaN``, as in the vendor's table, for an op without a dump."""
    return NOTHING if row.kind == "op" and row.target_file is None else text_cell(row.tensor)


@lru_cache(maxsize=256)
def shape_cell(shape: Optional[Sequence[int]]) -> str:
    """Return ``[1,64,56,56]``; ``[]`` for a 0-d tensor, ``NaN`` when unknown."""
    return NOTHING if shape is None else "[%s]" % ",".join(str(dim) for dim in shape)


def metric_cell(value: Any) -> str:
    """Return one metric as text: ``%.6f``, ``%.6e`` where six decimals would hide it,
    StandardDeviation as ``(mean;std),(mean;std)``.
    """
    if type(value) is float:
        return number_text(value)
    if isinstance(value, dict):
        if "target" not in value or "golden" not in value:
            return NOTHING
        return "(%s),(%s)" % (_mean_std(value["target"]), _mean_std(value["golden"]))
    number = metric_number(value)
    if isinstance(value, str) and math.isnan(number):
        return text_cell(value)
    return number_text(number)


def _mean_std(entry: Mapping[str, Any]) -> str:
    numbers = (metric_number(entry.get("mean")), metric_number(entry.get("std")))
    return ";".join(NOTHING if math.isnan(number) else "%.3f" % number for number in numbers)


_OF_TYPE: Dict[str, Callable[[Any], str]] = {
    "str": text_cell,
    "int": str,
    "bool": {True: "YES", False: "NO"}.__getitem__,
    "Tuple[int, ...]": shape_cell,
}
_OF_ROW: Dict[str, Cell] = {
    "group": lambda row, name: text_cell(",".join(row.group) or row.op),
    "tensor": lambda row, name: tensor_cell(row),
}


def mapping_cells(row: Row, target: str, golden: str) -> List[str]:
    """Return one row's cells of the mapping table.

    Parameters
    ----------
    target, golden
        The folders that the row's files are named from; their paths become absolute.
    """
    names = [
        text_cell(row.op_type),
        text_cell(",".join(row.group) or row.op),
        text_cell(row.golden),
        tensor_cell(row),
    ]
    return (
        [str(row.index)] + names + [_path(target, row.target_file), _path(golden, row.golden_file)]
    )


def _path(folder: str, name: Optional[str]) -> str:
    return NOTHING if name is None else text_cell(os.path.abspath(os.path.join(folder, name)))
