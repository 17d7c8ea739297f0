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

    def column(self, name: str) -> Array:
        """Return one field of all records, [n]."""
        column: Array = np.empty(self._count, self.dtype[name])
        for begin in range(0, self._count, _AT_ONCE):
            end = min(begin + _AT_ONCE, self._count)
            column[begin:end] = self.read(begin, end - begin)[name]
        return column


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
        if isinstance(key, str):
            return self._file.column(key)[self._rows]
        if isinstance(key, (int, np.integer)):
            return self._file.read(int(self._rows[key]), 1)[0]
        return SomeRecords(self._file, self._rows[key])
