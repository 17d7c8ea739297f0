"""A dump that holds only statistics: same interface as a dump file, but its tensors have no
elements.
"""

from __future__ import annotations

import os
from typing import Dict, Optional, Tuple

from ..base.element_types import element_count
from ..base.errors import NotThere
from ..base.naming import is_hash_name
from ..base.safe_reading import open_input
from ..tensors.dtypes import DType, dtype_by_code, dtype_by_name
from ..tensors.storage_layouts import format_code, format_name
from ..tensors.tensor import Tensor
from .dump_file import TensorInfo
from .dump_header import COMPLETE
from .statistics_csv import SUFFIX, Statistics, TensorRow, rows_of
from .tensor_statistics import StatisticsSource

_BEGIN = b"Input/Output,"
_LACKING = "the statistics have no row of it"


def is_statistics(path: str) -> bool:
    """Return whether a dump's path is one of statistics: by its name, or its first bytes for a hash
    name.
    """
    if not is_hash_name(os.path.basename(path)):
        return path.endswith(SUFFIX)
    with open_input(path) as stream:
        return stream.read(len(_BEGIN)) == _BEGIN


class StatisticsDump:
    """The statistics of one op's inputs and outputs; attributes as those of
    :class:`goldwatch.dumps.dump_file.DumpFile`.

    Raises
    ------
    FormatError, MissingPath
        The file holds no such rows, or cannot be read.
    """

    state, expected_bytes, actual_bytes, nulls_left_out = COMPLETE, 0, 0, False

    def __init__(self, path: str) -> None:
        self.path = path
        rows = rows_of(path)
        self._rows = {(row.kind, row.number): row.statistics for row in rows}
        self.inputs = _infos("input", rows)
        self.outputs = _infos("output", rows)

    def info(self, kind: str, index: int) -> TensorInfo:
        """Return the description of one tensor; NotComparable if it has no row."""
        infos: Dict[str, Tuple[TensorInfo, ...]] = {"input": self.inputs, "output": self.outputs}
        if not 0 <= index < len(infos[kind]):
            raise NotThere(
                "%s has no %s %d (%d %ss)" % (self.path, kind, index, len(infos[kind]), kind)
            )
        return infos[kind][index]

    def tensor(self, kind: str, index: int) -> Tensor:
        """Return one tensor without elements; raises as :meth:`info`, and NotComparable for one
        without statistics.
        """
        info = self.info(kind, index)
        source = StatisticsSource(self.statistics(kind, index), self.path)
        return Tensor(info.dtype, info.shape, info.format, source)

    def statistics(self, kind: str, index: int) -> Statistics:
        """Return the statistics of one tensor; raises as :meth:`tensor`."""
        info = self.info(kind, index)
        if info.problem is not None:
            raise NotThere(info.problem, path="%s %d of %s" % (kind, index, self.path))
        return self._rows[kind, index]


def _infos(kind: str, rows: Tuple[TensorRow, ...]) -> Tuple[TensorInfo, ...]:
    by_number = {row.number: row.statistics for row in rows if row.kind == kind}
    return tuple(
        _info(kind, index, by_number.get(index)) for index in range(max(by_number, default=-1) + 1)
    )


def _info(kind: str, index: int, statistics: Optional[Statistics]) -> TensorInfo:
    if statistics is None:
        return TensorInfo(
            kind, index, dtype_by_code(0), "ND", (), None, 0, None, 0, 0, problem=_LACKING
        )
    dtype = _dtype(statistics.dtype)
    code = format_code(statistics.format)
    shape, problem = statistics.shape, None
    if shape is None:
        # Without dims only the number of elements is known.
        count = (
            statistics.elements
            if statistics.elements is not None
            else (statistics.size or 0) * 8 // dtype.bits
            if dtype.bits and statistics.size
            else None
        )
        shape = () if count is None else (count,)
    if statistics.empty:
        problem = "the device wrote no statistics of it (%s)" % (statistics.dtype or "no type")
    elif (
        statistics.elements is not None
        and statistics.shape is not None
        and element_count(statistics.shape) > statistics.elements
    ):
        problem = "its shape %s has more elements than were counted, %d" % (
            list(statistics.shape),
            statistics.elements,
        )
    layout = format_name(code) if code is not None else "ND"
    return TensorInfo(
        kind, index, dtype, layout, shape, None, 0, None, statistics.size or 0, 0, problem=problem
    )


def _dtype(name: str) -> DType:
    """Return the type by any of its names: ``DT_FLOAT16``, ``float16``, ``Float16``; an unknown one
    is not decodable.
    """
    bare = name[3:] if name.upper().startswith("DT_") else name
    return dtype_by_name(bare) or DType(-1, "unknown(%s)" % (name or "none"), 0, "", None)
