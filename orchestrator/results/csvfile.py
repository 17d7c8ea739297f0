"""The result table as CSV (and the older blank-separated text), and the mapping table.

Source of the columns: the vendor's public documents on dump comparison. Settled here: `inf` and `-inf` as C's printf writes them; `NaN` in
every column without a value; the reason is empty where there is none.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..comparing.row import METRICS, Row
from ..filesystem import replacing
from ..naming import printable
from ..verdict.judging import metric_number, number_text

NOTHING = "NaN"
MAPPING_HEADER = ("Index", "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath")

_FORMULA = ("=", "+", "-", "@")
_BLANKS = re.compile(r"\s")


@dataclass(frozen=True)
class Columns:
    """Which columns a result table has besides those it always has.

    Attributes
    ----------
    op_sequence
        OpSequence, the second column: a range or selection of ops was asked for.
    golden_address
        A second Address after the second DataType: the golden is in the dump container or a dump of the NPU.
    overflow
        OverFlow after Shape.
    metrics
        The metrics' columns, in this order; names of the user's own metrics too.
    """

    op_sequence: bool = False
    golden_address: bool = False
    overflow: bool = False
    metrics: Tuple[str, ...] = METRICS


def header(columns: Columns) -> List[str]:
    """Return the names of the columns."""
    names = ["Index"] + (["OpSequence"] if columns.op_sequence else [])
    names += ["OpType", "NPUDump", "DataType", "Address", "GroundTruth", "DataType"]
    names += (["Address"] if columns.golden_address else []) + ["TensorIndex", "Shape"] + (["OverFlow"] if columns.overflow else [])
    return names + list(columns.metrics) + ["CompareFailReason"]


def cells(row: Row, columns: Columns) -> List[str]:
    """Return one row's cells."""
    found = [str(row.index)] + ([_integer(row.op_sequence)] if columns.op_sequence else [])
    found += [text_cell(row.op_type), text_cell(",".join(row.group) or row.op), _name(row.target_dtype), _integer(row.address)]
    found += [text_cell(row.golden), _name(row.golden_dtype)] + ([_integer(row.golden_address)] if columns.golden_address else [])
    found += [text_cell(row.tensor), shape_cell(row.shape)] + ([_overflow(row.overflow)] if columns.overflow else [])
    found += [metric_cell(row.metrics.get(name)) for name in columns.metrics]
    return found + [text_cell(row.reason)]


def text_cell(text: str) -> str:
    """Return text that no spreadsheet takes for a formula: control characters as ``\\xNN``, ``'`` before ``=``, ``+``, ``-``, ``@``."""
    text = printable(text)
    return "'" + text if text.startswith(_FORMULA) else text


def shape_cell(shape: Optional[Sequence[int]]) -> str:
    """Return ``[1,64,56,56]``; ``[]`` for a 0-d tensor, ``NaN`` when unknown."""
    return NOTHING if shape is None else "[%s]" % ",".join(str(dim) for dim in shape)


def metric_cell(value: Any) -> str:
    """Return one metric as text: ``%.6f``, ``%.6e`` where six decimals would hide it, StandardDeviation as ``(mean;std),(mean;std)``."""
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


def _integer(value: Optional[int]) -> str:
    return NOTHING if value is None else "%d" % value


def _name(name: Optional[str]) -> str:
    return NOTHING if name is None else text_cell(name)


def _overflow(overflow: Optional[bool]) -> str:
    return NOTHING if overflow is None else "YES" if overflow else "NO"


def write_result_csv(path: str, rows: Iterable[Row], columns: Columns) -> int:
    """Write the result table to ``path`` (appears whole, by rename) and return its number of rows.

    Parameters
    ----------
    rows
        In the order of the table (a store's ``rows("index")``).

    Raises
    ------
    EnvironmentProblem
        It cannot be written; an older file stays.
    """
    return _write(path, header(columns), (cells(row, columns) for row in rows))


def write_mapping_csv(path: str, rows: Iterable[Row]) -> int:
    """Write the table of who is compared with whom; raises as :func:`write_result_csv`."""
    return _write(path, MAPPING_HEADER, (mapping_cells(row) for row in rows))


def mapping_cells(row: Row) -> List[str]:
    """Return one row's cells of the mapping table."""
    names = [text_cell(text) for text in (row.op_type, ",".join(row.group) or row.op, row.golden, row.tensor)]
    return [str(row.index)] + names + [_name(row.target_file), _name(row.golden_file)]


def _write(path: str, names: Sequence[str], table: Iterable[Sequence[str]]) -> int:
    count = 0
    with replacing(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        for line in table:
            writer.writerow(line)
            count += 1
    return count


def write_result_txt(path: str, rows: Iterable[Row], columns: Columns) -> int:
    """Write the older form of the result table: the same columns separated by blanks, white space inside a cell as ``\\xNN``."""
    count = 0
    with replacing(path) as stream:
        stream.write(" ".join(header(columns)) + "\n")
        for row in rows:
            line = cells(row, columns)
            stream.write(" ".join([_BLANKS.sub(_escape, cell) or NOTHING for cell in line[:-1]] + line[-1:]).rstrip() + "\n")
            count += 1
    return count


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return "\\x%02x" % code if code < 0x100 else "\\u%04x" % code
