"""What finishing needs of each row, made when the row is: its texts in a file without a name, and what the verdict sees of it."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import tempfile
from array import array
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..comparing.row import METRICS, Row
from ..verdict.seen import SeenRow, packed_row, seen_row, unpacked_row
from .csvfile import Columns, cells, mapping_cells
from .jsonfile import NEXT_ROW, row_text

_SLOTS = 4096


class Rendered(NamedTuple):
    """A row as the result files have it, and as the verdict sees it.

    Attributes
    ----------
    document
        Its text in result.json, behind what stands between two rows.
    line, mapping
        Its lines in the result table and in the mapping table (empty where there is none).
    seen
        What the verdict sees of it, packed (:func:`goldwatch.verdict.seen.packed_row`).
    by
        What rendered it.
    """

    document: bytes
    line: bytes
    mapping: bytes
    seen: bytes
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
        return Rendered(document.encode("ascii"), _line(cells(row, self.columns)), mapping, packed_row(seen_row(row)), self)


def absolute(mapping: Tuple[str, str]) -> Tuple[str, str]:
    """Return the two folders of a mapping table, absolute: rows are rendered in other processes too."""
    return os.path.abspath(mapping[0]), os.path.abspath(mapping[1])


def _line(found: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(found)
    return text.getvalue().encode("utf-8", "backslashreplace")


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
        self._spool: Optional[io.BufferedRandom] = None
        self._size = 0
        self._renderers: List[Renderer] = []
        # There may be a million rows: a few numbers of each, in the order in which they were kept.
        self._sums = array("Q")
        self._starts = array("q")
        self._ends = tuple(array("I") for _ in range(4))
        self._by = array("H")
        self._slots: Dict[int, array[int]] = {}
        self._shared: Dict[Any, Any] = {}

    def keep(self, number: int, checksum: str, made: Rendered) -> None:
        """Keep a row; raises OSError where its texts cannot be written."""
        if self._spool is None:
            self._spool = tempfile.TemporaryFile("w+b", dir=self._folder)  # noqa: SIM115  open as long as rows are kept
        parts = made[:4]
        self._spool.write(b"".join(parts))
        slots = self._slots.setdefault(number // _SLOTS, array("q"))
        if not slots:
            slots.extend([-1] * _SLOTS)
        slots[number % _SLOTS] = len(self._sums)
        self._sums.append(int(checksum, 16))
        self._starts.append(self._size)
        end = 0
        for part, ends in zip(parts, self._ends):
            end += len(part)
            ends.append(end)
        self._size += end
        if made.by not in self._renderers:
            self._renderers.append(made.by)
        self._by.append(self._renderers.index(made.by))

    def _slot(self, number: int) -> int:
        """Return which of the rows has a number, in the order in which they were kept; -1 where none has."""
        slots = self._slots.get(number // _SLOTS)
        return -1 if slots is None else slots[number % _SLOTS]

    def lacking(self, rows: Sequence[Tuple[int, int]], by: Renderer) -> Dict[int, str]:
        """Return those of some rows (number, and the checksum's value) that are not kept as the store has them, or rendered otherwise."""
        own = self._renderers.index(by) if by in self._renderers else -1
        found = {}
        for number, checksum in rows:
            slot = self._slot(number)
            if slot < 0 or self._sums[slot] != checksum or self._by[slot] != own:
                found[number] = "%016x" % checksum
        return found

    def read(self, numbers: Sequence[int]) -> Iterator[Tuple[bytes, bytes, SeenRow]]:
        """Yield of each of some kept rows its lines in result table and mapping table, and what the verdict sees of it."""
        slots, (documents, lines, mappings, _) = self._slots_of(numbers), self._ends
        for slot, data in zip(slots, self._parts(slots, 1, 3)):
            line = lines[slot] - documents[slot]
            mapping = mappings[slot] - lines[slot] + line
            yield data[:line], data[line:mapping], unpacked_row(data[mapping:], self._shared)

    def documents(self, numbers: Sequence[int]) -> bytes:
        """Return the texts of kept rows for result.json, each behind what stands between two rows."""
        return b"".join(self._parts(self._slots_of(numbers), 0, 0))

    def _slots_of(self, numbers: Sequence[int]) -> List[int]:
        return list(map(self._slot, numbers))

    def _parts(self, slots: Sequence[int], first: int, last: int) -> List[bytes]:
        """Return some parts of each of some rows, from the first to the last."""
        if self._spool is None:
            return []
        self._spool.flush()
        file, starts, ends = self._spool.fileno(), self._starts, self._ends[last]
        if not first:
            return [os.pread(file, ends[slot], starts[slot]) for slot in slots]
        begins = self._ends[first - 1]
        return [os.pread(file, ends[slot] - begins[slot], starts[slot] + begins[slot]) for slot in slots]

    def close(self) -> None:
        """Forget all rows."""
        self._slots.clear()
        self._shared.clear()
        if self._spool is not None:
            # What a full disk did not take is tried again here.
            with contextlib.suppress(OSError):
                self._spool.close()
            self._spool = None
