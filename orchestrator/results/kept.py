"""What finishing needs of each row, made when the row is: its texts in a file without a name, and what the verdict sees of it."""

from __future__ import annotations

import contextlib
import csv
import io
import mmap
import os
import tempfile
from dataclasses import dataclass
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..comparing.row import METRICS, Row
from ..verdict.seen import SeenRow, seen_row
from .csvfile import Columns, cells, mapping_cells
from .jsonfile import NEXT_ROW, row_text


class Rendered(NamedTuple):
    """A row as the result files have it, and as the verdict sees it.

    Attributes
    ----------
    document
        Its text in result.json, behind what stands between two rows.
    line, mapping
        Its lines in the result table and in the mapping table (empty where there is none).
    by
        What rendered it.
    """

    document: bytes
    line: bytes
    mapping: bytes
    seen: SeenRow
    by: Renderer


@dataclass(frozen=True)
class Renderer:
    """Renders rows, wherever they are made; picklable.

    Attributes
    ----------
    columns
        Of the result tables, as far as is known now.
    metrics
        Those that each row of result.json has.
    mapping
        The folders (absolute) that TARGET's and GOLDEN's files are named from, where mapping tables are written.
    """

    columns: Columns
    metrics: Tuple[str, ...] = METRICS
    mapping: Optional[Tuple[str, str]] = None

    def __call__(self, row: Row) -> Rendered:
        """Render a row."""
        document = NEXT_ROW + row_text(row, self.metrics)
        mapping = b"" if self.mapping is None else _line(mapping_cells(row, *self.mapping))
        return Rendered(document.encode("ascii"), _line(cells(row, self.columns)), mapping, seen_row(row), self)


def absolute(mapping: Tuple[str, str]) -> Tuple[str, str]:
    """Return the two folders of a mapping table, absolute: rows are rendered in other processes too."""
    return os.path.abspath(mapping[0]), os.path.abspath(mapping[1])


def _line(found: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(found)
    return text.getvalue().encode("utf-8", "backslashreplace")


class _Kept(NamedTuple):
    """A row that is kept: its checksum, where its texts begin, where the second and the third do, and where that ends."""

    sum: str
    start: int
    line: int
    mapping: int
    end: int
    by: Renderer
    seen: SeenRow


class KeptRows:
    """Rows of a run that are rendered already, by the number (id) under which the store has them.

    Nothing depends on it: a row that is not kept, or was changed since, is read from the store and rendered then. A disk that is full
    ends the keeping, not the run.

    Parameters
    ----------
    folder
        Where the file is made; it has no name there, and is gone with the process.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder or os.curdir
        self._kept: Dict[int, _Kept] = {}
        self._spool: Optional[io.BufferedRandom] = None
        self._size = 0
        self._by: Optional[Renderer] = None

    def keep(self, number: int, checksum: str, made: Rendered) -> None:
        """Keep a row; raises OSError where its texts cannot be written."""
        if self._spool is None:
            self._spool = tempfile.TemporaryFile("w+b", dir=self._folder)  # noqa: SIM115  open as long as rows are kept
        document, line, mapping, seen, by = made
        self._spool.write(document + line + mapping)
        start = self._size
        behind = start + len(document)
        self._size = behind + len(line) + len(mapping)
        if self._by is not by and self._by != by:
            self._by = by
        assert self._by is not None
        self._kept[number] = _Kept(checksum, start, behind, behind + len(line), self._size, self._by, seen)

    def lacking(self, rows: Sequence[Tuple[int, str]], by: Renderer) -> Dict[int, str]:
        """Return those of some rows (number and checksum) that are not kept as the store has them, or were rendered otherwise."""
        if self._by == by:
            by = self._by
        found = {}
        for number, checksum in rows:
            kept = self._kept.get(number)
            if kept is None or kept.sum != checksum or (kept.by is not by and kept.by != by):
                found[number] = checksum
        return found

    def seen(self, number: int) -> SeenRow:
        """Return what the verdict sees of a kept row."""
        return self._kept[number].seen

    def documents(self, numbers: Sequence[int]) -> List[bytes]:
        """Return the text of each of some kept rows for result.json, behind what stands between two rows."""
        return self._texts([(found.start, found.line) for found in map(self._kept.__getitem__, numbers)])

    def lines(self, numbers: Sequence[int]) -> List[bytes]:
        """Return the line of each of some kept rows in a result table."""
        return self._texts([(found.line, found.mapping) for found in map(self._kept.__getitem__, numbers)])

    def mapping_lines(self, numbers: Sequence[int]) -> List[bytes]:
        """Return the line of each of some kept rows in a mapping table."""
        return self._texts([(found.mapping, found.end) for found in map(self._kept.__getitem__, numbers)])

    def _texts(self, parts: List[Tuple[int, int]]) -> List[bytes]:
        if self._spool is None:
            return []
        self._spool.flush()
        file = self._spool.fileno()
        try:
            # A call for each row takes several times as long. The rows lie in the order in which they came.
            with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as view:
                return [view[start:end] for start, end in parts]
        except OSError:
            # Not every file system can map a file.
            return [os.pread(file, end - start, start) for start, end in parts]

    def close(self) -> None:
        """Forget all rows."""
        self._kept.clear()
        if self._spool is not None:
            # What a full disk did not take is tried again here.
            with contextlib.suppress(OSError):
                self._spool.close()
            self._spool = None
