"""Reads CSV files of statistics by their headers: columns and their order differ between writers
and versions.

Two forms: one file for each dump (CANN: the dump's own name and ``.csv``), and one for a whole
folder, whose rows name their ops (``statistic.csv`` of MindSpore and msprobe): there each op has a
path of its own, the file's, and below it the name that the dump would have, as if the file were a
folder.

Sources: CANN's public device code (AI CPU and adump), the public code and documents of MindSpore
and of msprobe.
"""

from __future__ import annotations

import csv
import io
import os
import stat
import zlib
from functools import lru_cache
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..base.errors import FormatError, GoldwatchError
from ..base.naming import MAPPING_FILE, DumpName, compose_dump_name, parse_dump_name
from ..base.safe_reading import open_input, read_input

SUFFIX = ".csv"
LARGEST_BYTES = 256 << 20

_NAMES: Dict[str, Tuple[str, ...]] = {
    "kind": ("input/output", "io"),
    "index": ("index", "slot"),
    "op_type": ("op type",),
    "op_name": ("op name",),
    "task": ("task id",),
    "stream": ("stream id",),
    "time": ("timestamp",),
    "size": ("data size",),
    "dtype": ("data type",),
    "format": ("format",),
    "shape": ("shape",),
    "max": ("max value", "max"),
    "min": ("min value", "min"),
    "mean": ("avg value", "mean value", "avg", "mean"),
    "norm": ("l2norm", "l2norm value", "l2 norm", "l2 norm value"),
    "count": ("count",),
    "nan": ("nan count",),
    "negative_inf": ("negative inf count",),
    "positive_inf": ("positive inf count",),
}
_MEANING = {name: meaning for meaning, names in _NAMES.items() for name in names}
_NUMBERS = ("max", "min", "mean", "norm")
_COUNTS = ("size", "count", "nan", "negative_inf", "positive_inf")
_TRUTH = {"true": 1.0, "false": 0.0}


class Statistics(NamedTuple):
    """The statistics of one tensor; None where the table has none.

    Attributes
    ----------
    dtype, format
        As the table writes them.
    shape
        As stored on the device.
    size
        Bytes.
    elements
        Number of elements, padding included.
    max, min
        Over all elements; some writers give NaN if the first element is NaN.
    mean, norm
        Mean and l2 norm; some writers include values that are not finite.
    nan, negative_inf, positive_inf
        Number of such elements.
    """

    dtype: str = ""
    format: str = ""
    shape: Optional[Tuple[int, ...]] = None
    size: Optional[int] = None
    elements: Optional[int] = None
    max: Optional[float] = None
    min: Optional[float] = None
    mean: Optional[float] = None
    norm: Optional[float] = None
    nan: Optional[int] = None
    negative_inf: Optional[int] = None
    positive_inf: Optional[int] = None

    @property
    def empty(self) -> bool:
        """Whether there are no statistics: the writer had no data, or does not know the type."""
        return self.max is None and self.min is None and self.mean is None and self.norm is None

    @property
    def infinite(self) -> Optional[int]:
        """Number of infinite elements; None if neither count is given."""
        counts = [count for count in (self.negative_inf, self.positive_inf) if count is not None]
        return sum(counts) if counts else None


class TensorRow(NamedTuple):
    """One row: ``kind`` is ``input`` or ``output``, ``number`` its index."""

    kind: str
    number: int
    statistics: Statistics


class Table(NamedTuple):
    """The contents of a file.

    Attributes
    ----------
    rows
        By the name of the dump that they replace; an empty name in a file of one dump.
    marks
        By the same names (bytes, checksum) of the lines, to detect changes of an op's rows.
    problem
        What could not be read, as a phrase; empty if everything was.
    """

    rows: Dict[str, Tuple[TensorRow, ...]]
    marks: Dict[str, Tuple[int, int]]
    problem: str = ""


def names_ops(line: str) -> bool:
    """Return whether a file's first line names the columns of a table whose rows name their ops."""
    meanings = set(_meanings(line.split(",")))
    return {"kind", "index", "op_name"} <= meanings and bool(meanings & set(_NUMBERS))


def read_table(path: str) -> Table:
    """Read a file of statistics; a last line with fewer cells than columns is still being written
    and is ignored.

    Raises
    ------
    FormatError
        The file is not a table of statistics.
    MissingPath, OSError
        The file cannot be read.
    """
    look = os.stat(path)
    if not stat.S_ISREG(look.st_mode):
        raise FormatError("expected a file of statistics", path)
    return _read(path, (look.st_size, look.st_mtime_ns, look.st_ino))


@lru_cache(maxsize=32)
def _read(path: str, look: Tuple[int, int, int]) -> Table:
    return parse_table(
        read_input(path, LARGEST_BYTES).decode("utf-8", "replace").replace("\0", ""), path
    )


def parse_table(text: str, path: str) -> Table:
    """Parse the text of a table; raises FormatError if it is not one."""
    whole = text.endswith("\n")
    last = text.count("\n") + 1
    header: List[str] = []
    lines: Dict[str, List[str]] = {}
    rows: Dict[str, List[TensorRow]] = {}
    runs: Dict[Tuple[str, ...], str] = {}
    problem = ""
    for number, cells in enumerate(_cells(text, path), 1):
        cells = [cell.strip().strip("\ufeff") for cell in cells]
        if not any(cells):
            continue
        meanings = _meanings(cells)
        if "kind" in meanings and "index" in meanings:
            # Some writers repeat the header in the middle of a file.
            header = meanings
            continue
        if not header:
            raise FormatError(
                "its first line names no columns of statistics (Input/Output, Index, Max Value, …)",
                path,
            )
        if number == last and not whole and len(cells) < len(header):
            continue
        fields = _fields(header, cells)
        kind, index = fields.get("kind", "").lower(), fields.get("index", "")
        if kind not in ("input", "output") or not index.isdecimal() or len(index) > 6:
            problem = problem or "line %d is no row of statistics" % number
            continue
        row = TensorRow(kind, int(index), _statistics(fields))
        name = _dump_name(fields, row, rows, runs) if "op_name" in header else ""
        rows.setdefault(name, []).append(row)
        lines.setdefault(name, []).append(",".join(cells))
    if not header:
        raise FormatError(
            "it holds no whole line"
            if not text
            else "its first line names no columns of statistics",
            path,
        )
    marks = {name: "\n".join(texts).encode("utf-8", "replace") for name, texts in lines.items()}
    return Table(
        {name: tuple(fields) for name, fields in rows.items()},
        {name: (len(data), zlib.crc32(data)) for name, data in marks.items()},
        problem,
    )


def _cells(text: str, path: str) -> Iterator[List[str]]:
    try:
        yield from csv.reader(io.StringIO(text))
    except csv.Error as error:
        raise FormatError("it is no table: %s" % error, path) from error


def _meanings(cells: Sequence[str]) -> List[str]:
    return [_MEANING.get(cell.strip().strip('"').strip("\ufeff").lower(), "") for cell in cells]


def _fields(header: Sequence[str], cells: List[str]) -> Dict[str, str]:
    if len(cells) > len(header) and "shape" in header:
        # An unquoted shape with commas.
        at = header.index("shape")
        end = next(
            (place for place in range(at, len(cells)) if cells[place].endswith((")", "]"))), at
        )
        if cells[at : at + 1] and cells[at].startswith(("(", "[")):
            cells = [*cells[:at], ",".join(cells[at : end + 1]), *cells[end + 1 :]]
    names = list(header)
    if len(cells) == len(names) - 1 and "count" in names:
        # adump omits the count if statistics were selected, but keeps its column in the header.
        names.remove("count")
    return {name: cell for name, cell in zip(names, cells) if name}


def _statistics(fields: Dict[str, str]) -> Statistics:
    numbers = {name: _number(fields.get(name, "")) for name in _NUMBERS}
    counts = {name: _count(fields.get(name, "")) for name in _COUNTS}
    return Statistics(
        fields.get("dtype", ""), fields.get("format", ""), _shape(fields.get("shape", "")),
        counts["size"], counts["count"],
        numbers["max"], numbers["min"], numbers["mean"], numbers["norm"], counts["nan"],
        counts["negative_inf"], counts["positive_inf"],
    )  # fmt: skip


def _number(text: str) -> Optional[float]:
    try:
        return _TRUTH[text.lower()] if text.lower() in _TRUTH else float(text)
    except ValueError:
        return None


def _count(text: str) -> Optional[int]:
    return int(text) if text.isdecimal() and len(text) <= 18 else None


def _shape(text: str) -> Optional[Tuple[int, ...]]:
    """Return the dims of ``2x3x4``, ``(2, 3, 4)`` or ``[2,3,4]``; ``()`` is a scalar, ``-`` and
    nothing are unknown.
    """
    bare = text.strip("()[]\"' ")
    if not bare:
        return () if text[:1] in ("(", "[") else None
    dims = [
        dim.strip() for dim in bare.replace("x", ",").replace(";", ",").split(",") if dim.strip()
    ]
    return (
        tuple(map(int, dims)) if all(dim.isdecimal() and len(dim) <= 18 for dim in dims) else None
    )


def _dump_name(
    fields: Dict[str, str],
    row: TensorRow,
    rows: Dict[str, List[TensorRow]],
    runs: Dict[Tuple[str, ...], str],
) -> str:
    """Return the name of the dump that a row of a table of ops belongs to: a repeated tensor begins
    the op's next run.
    """
    number = {
        name: int(fields[name])
        for name in ("task", "stream", "time")
        if fields.get(name, "").isdecimal()
    }
    key = tuple(fields.get(name, "") for name in ("op_type", "op_name", "task", "stream"))
    name = runs.get(key)
    if name is not None and all(other[:2] != row[:2] for other in rows[name]):
        return name
    stamp = number.get(
        "time",
        len(runs)
        if name is None
        else (parse_dump_name(name) or DumpName("", "", 0, 0)).timestamp_us + 1,
    )
    parts = (fields.get("op_type") or "Unknown", fields.get("op_name") or "unnamed")
    made = compose_dump_name(
        DumpName(*parts, number.get("task", 0), stamp, number.get("stream", 0), kind="stats")
    )
    runs[key] = made
    return made


_HEAD_BYTES = 4096


def is_table_of_ops(path: str) -> bool:
    """Return whether a file is a table of statistics whose rows name their ops, by its first
    line."""
    if not path.endswith(SUFFIX) or os.path.basename(path) == MAPPING_FILE:
        return False
    try:
        with open_input(path) as stream:
            line = stream.read(_HEAD_BYTES).split(b"\n", 1)[0]
    except (OSError, GoldwatchError):
        return False
    return names_ops(line.decode("utf-8", "replace"))


def is_statistics_file(path: str) -> bool:
    """Return whether a file holds statistics: by its name, or as :func:`is_table_of_ops`."""
    dump = parse_dump_name(os.path.basename(path))
    return is_table_of_ops(path) if dump is None else dump.kind == "stats"


def table_paths(path: str) -> List[str]:
    """Return the path of each op of a table of ops in order of first occurrence; none if it cannot
    be read.
    """
    try:
        return [os.path.join(path, name) for name in read_table(path).rows]
    except (FormatError, OSError):
        return []


def table_of(path: str) -> Optional[str]:
    """Return the table of ops that a path points into; None for an ordinary file."""
    folder = os.path.dirname(path)
    return (
        folder
        if folder.endswith(SUFFIX) and path.endswith(SUFFIX) and os.path.isfile(folder)
        else None
    )


def rows_signature(path: str) -> Optional[Tuple[int, int, int]]:
    """Return (bytes, checksum, inode) of an op's rows in a table of ops, or None."""
    table = table_of(path)
    if table is None:
        return None
    try:
        mark = read_table(table).marks.get(os.path.basename(path))
        return None if mark is None else (*mark, os.stat(table).st_ino)
    except (FormatError, OSError):
        return None


def rows_of(path: str) -> Tuple[TensorRow, ...]:
    """Return the rows of a file of one dump, or of an op of a table of ops.

    Raises
    ------
    FormatError
        The file is not a table of statistics, or the op is not in it.
    MissingPath, OSError
        The file cannot be read.
    """
    table = table_of(path)
    table_read = read_table(table or path)
    name = "" if table is None else os.path.basename(path)
    if name not in table_read.rows:
        raise FormatError(table_read.problem or "no row of statistics", path)
    return table_read.rows[name]
