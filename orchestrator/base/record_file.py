"""Records of one type in a file without a name: of a million rows none is in memory but what is
read of them.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, Optional

import numpy as np

Array = Any

# Some hundred kilobytes: what is read at once stays in the processor's cache.
_AT_ONCE = 4096
# So many records are put in order at once: some megabytes.
_IN_ORDER = 1 << 16


class RecordFile:
    """Records, [n], each appended once; gone with the last object that reads them.

    Parameters
    ----------
    folder
        Where the file is made.
    dtype
        Of the records: a structured one.
    """

    def __init__(self, folder: str, dtype: np.dtype) -> None:
        self.dtype = dtype
        self._folder = folder
        self._descriptor: Optional[int] = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def append(self, records: Array) -> None:
        """Write records behind the others; raises OSError where they cannot be written, and none is
        there then.
        """
        if self._descriptor is None:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                self._descriptor = os.dup(file.fileno())
        data, begin = memoryview(records.tobytes()), self._count * self.dtype.itemsize
        while data:
            written = os.pwrite(self._descriptor, data, begin)
            data, begin = data[written:], begin + written
        self._count += len(records)

    def read(self, first: int, count: int) -> Array:
        """Return adjacent records, read-only, [count]."""
        size = self.dtype.itemsize
        if self._descriptor is None or not count:
            return np.empty(0, self.dtype)
        return np.frombuffer(os.pread(self._descriptor, count * size, first * size), self.dtype)

    def column(self, name: str, first: int = 0, end: Optional[int] = None) -> Array:
        """Return one field of all records, or of adjacent ones, [n]."""
        end = self._count if end is None else end
        column: Array = np.empty(end - first, self.dtype[name])
        for begin in range(first, end, _AT_ONCE):
            some = self.read(begin, min(_AT_ONCE, end - begin))
            column[begin - first : begin - first + len(some)] = some[name]
        return column

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.column(key)
        if isinstance(key, (int, np.integer)):
            return self.read(int(key), 1)[0]
        rows = np.arange(*key.indices(self._count)) if isinstance(key, slice) else key
        return SomeRecords(self, np.flatnonzero(rows) if rows.dtype == bool else rows)

    def in_order(self, rows: Array) -> RecordFile:
        """Return some records, by their numbers, as a file of their own, where what is read in
        their order is adjacent. Raises OSError where it cannot be written.
        """
        sorted_file = RecordFile(self._folder, self.dtype)
        for begin in range(0, len(rows), _IN_ORDER):
            some = rows[begin : begin + _IN_ORDER]
            order = np.argsort(some, kind="stable")
            numbers, records = some[order], np.empty(len(some), self.dtype)
            first = int(numbers[0])
            while first <= numbers[-1]:
                block = self.read(first, _AT_ONCE)
                low, high = np.searchsorted(numbers, (first, first + len(block)))
                records[order[low:high]] = block[numbers[low:high] - first]
                if high == len(numbers):
                    break
                first = int(numbers[high])
            sorted_file.append(records)
        return sorted_file


class SomeRecords:
    """Some records of a file, used as an array of them is: a field is read when it is asked for.

    Parameters
    ----------
    rows
        Their numbers, [n].
    """

    def __init__(self, file: RecordFile, rows: Array) -> None:
        self._file, self._rows = file, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            if isinstance(key, (int, np.integer)):
                return self._file.read(int(self._rows[key]), 1)[0]
            return SomeRecords(self._file, self._rows[key])
        if not len(self._rows):
            return np.empty(0, self._file.dtype[key])
        column = np.empty(len(self._rows), self._file.dtype[key])
        for begin in range(0, len(column), _IN_ORDER):
            self._read(key, self._rows[begin : begin + _IN_ORDER], column[begin:])
        return column

    def _read(self, key: str, rows: Array, column: Array) -> None:
        """Fill the begin of a column with a field of some records, a part of the file at a time:
        what is asked for together mostly lies together.
        """
        first, last = int(rows.min()), int(rows.max())
        if last - first < _IN_ORDER:
            column[: len(rows)] = self._file.column(key, first, last + 1)[rows - first]
            return
        order = np.argsort(rows, kind="stable")
        low = 0
        while low < len(rows):
            first = int(rows[order[low]])
            high = low + int(np.searchsorted(rows[order[low:]], first + _IN_ORDER))
            some = order[low:high]
            column[some] = self._file.column(key, first, int(rows[some[-1]]) + 1)[
                rows[some] - first
            ]
            low = high
