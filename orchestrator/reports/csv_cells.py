"""The cells of the result table and of the mapping table.

Source of the columns: the vendor's public documents on dump comparison. Settled here: `inf` and
`-inf` as C's printf writes them; `NaN` in every column without a value; the reason is empty where
there is none.
"""

from __future__ import annotations

import csv
import math
import os
from functools import lru_cache
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..base.fast_dataclasses import cached_by_object, dataclass
from ..base.naming import printable
from ..judging.metric_text import metric_number, number_text
from ..metrics.row import KEPT_FORMS, METRICS, SHARED, Row, shared_columns
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
    before, behind = (_headings(names) for names in _chosen(columns))
    return [*before, *columns.metrics, *behind]


def _headings(names: Sequence[str]) -> List[str]:
    return [ROW_COLUMNS[name].heading for name in names]


def table_line(row: Row, columns: Columns) -> str:
    """Return one row's line of the result table."""
    values = row.__dict__
    form, own = _line_form(shared_columns(values), row.target_file is None, columns)
    return form % tuple(
        [
            _metrics_text(row.metrics, columns.metrics)
            if name == "metrics"
            else NOTHING
            if values[name] is None
            else str(values[name])
            for name in own
        ]
    )


@lru_cache(maxsize=KEPT_FORMS)
def _line_form(
    shared: Tuple[Any, ...], lacks_file: bool, columns: Columns
) -> Tuple[str, Sequence[str]]:
    """Return the line of rows that share these columns, ``%s`` for each column of a row's own; and
    the names of these.
    """
    known = _shared_cells(shared, lacks_file)
    before, behind = _chosen(columns)
    names = [*before, *(["metrics"] if columns.metrics else []), *behind]
    form = csv_line([known[name].replace("%", "%%") if name in known else "%s" for name in names])
    return form, [name for name in names if name not in known]


class _Echo:
    """A file for csv's writer, which returns what its file's ``write`` returns."""

    def write(self, text: str) -> str:
        return text


_write_row = csv.writer(_Echo(), lineterminator="\n").writerow


def csv_line(cells: Sequence[str]) -> str:
    """Return cells as a line of a table."""
    text: Any = _write_row(cells)
    return str(text)


@lru_cache(maxsize=16)
def _chosen(columns: Columns) -> Tuple[List[str], List[str]]:
    """Return the names of the columns before and behind the metrics."""
    before, behind = (
        [name for name in names if getattr(columns, name, True)]
        for names in (_FIRST, _BEHIND_METRICS)
    )
    return before, behind


@lru_cache(maxsize=KEPT_FORMS)
def _shared_cells(shared: Tuple[Any, ...], lacks_file: bool) -> Dict[str, str]:
    """Return the cells of rows that share these columns, by the names of columns; addresses are a
    row's own.
    """
    values = dict(zip(SHARED, shared))
    made = {
        name: NOTHING
        if values[name] is None
        else _OF_TYPE[ROW_COLUMNS[name].annotation](values[name])
        for name in (*_FIRST, *_BEHIND_METRICS)
        if name in values and name != "group"
    }
    made["group"] = text_cell(",".join(values["group"]) or values["op"])
    if values["kind"] == "op" and lacks_file:
        # As in the vendor's table, for an op without a dump.
        made["tensor"] = NOTHING
    return made


@cached_by_object
def _metrics_text(metrics: Mapping[str, Any], names: Sequence[str]) -> str:
    cells = [
        number_text(value) if type(value) is float else metric_cell(value)
        for value in map(metrics.get, names)
    ]
    # An empty cell alone would be quoted.
    return csv_line(["", *cells])[1:-1]


@lru_cache(maxsize=KEPT_FORMS)
def text_cell(text: str) -> str:
    """Return text that no spreadsheet takes for a formula: control characters as ``\\xNN``, ``'``
    before ``=``, ``+``, ``-``, ``@``.
    """
    text = printable(text)
    return "'" + text if text.startswith(_FORMULA) else text


@lru_cache(maxsize=256)
def shape_cell(shape: Optional[Sequence[int]]) -> str:
    """Return ``[1,64,56,56]``; ``[]`` for a 0-d tensor, ``NaN`` when unknown."""
    return NOTHING if shape is None else "[%s]" % ",".join(str(dim) for dim in shape)


def metric_cell(value: Any) -> str:
    """Return one metric as text: ``%.6f``, ``%.6e`` where six decimals would hide it,
    StandardDeviation as ``(mean;std),(mean;std)``.
    """
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


def mapping_cells(row: Row, target: str, golden: str) -> List[str]:
    """Return one row's cells of the mapping table.

    Parameters
    ----------
    target, golden
        The folders that the row's files are named from; their paths become absolute.
    """
    shared = _shared_cells(shared_columns(row.__dict__), row.target_file is None)
    return [
        *[shared[name] for name in ("index", "op_type", "group", "golden", "tensor")],
        _path(target, row.target_file),
        _path(golden, row.golden_file),
    ]


def _path(folder: str, name: Optional[str]) -> str:
    return NOTHING if name is None else text_cell(os.path.abspath(os.path.join(folder, name)))
