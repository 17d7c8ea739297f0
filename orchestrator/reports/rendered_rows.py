"""What finishing needs of each row, made when the row is: its texts in a file without a name, and
what the verdict sees of it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from itertools import accumulate, chain, tee
from typing import (
    IO,
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import numpy as np

from ..base.fast_dataclasses import dataclass
from ..base.record_file import RecordFile
from ..judging.diagnosis.row_digest import (
    NUMBERS,
    DigestColumns,
    NumberedFiles,
    RowDigests,
    row_digests,
)
from ..metrics.row import METRICS, Row
from ..store.row_sql import Line, row_line
from ..store.store import RunStore, TableOrder
from .csv_cells import Columns, csv_line, mapping_cells, table_line
from .row_json import NEXT_ROW, row_text

Array = Any
T = TypeVar("T")

_TEXTS = ("document", "line", "mapping")
_KEPT = np.dtype(
    [("number", "i8"), ("sum", "u8"), ("by", "u2"), *((name, "i8") for name in _TEXTS)]
)
"""Of a row that is kept: its number and checksum in the store, who rendered it, and where each of
its texts ends.
"""
# So many rows are gathered before their texts are written, and read at once that nobody rendered.
_GATHERED_ROWS, _READ_ROWS = 1024, 256


class RenderedRows(NamedTuple):
    """Rows as the result files have them, and as the verdict sees them; each column has an entry
    for each row.

    Attributes
    ----------
    documents
        Their texts in result.json, each behind what stands between two rows.
    lines, mappings
        Their lines in the result table and in the mapping table (empty where there is none).
    digests
        What the verdict sees of them.
    """

    documents: Sequence[bytes]
    lines: Sequence[bytes]
    mappings: Sequence[bytes]
    digests: RowDigests


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
        The folders (absolute) that TARGET's and GOLDEN's files are named from, where mapping tables
        are written.
    """

    columns: Columns
    metrics: Tuple[str, ...] = METRICS
    mapping: Optional[Tuple[str, str]] = None

    def __call__(self, rows: Sequence[Row]) -> RenderedRows:
        """Render rows."""
        columns, metrics, mapping = self.columns, self.metrics, self.mapping
        return RenderedRows(
            [(NEXT_ROW + row_text(row, metrics)).encode("ascii") for row in rows],
            [_encoded(table_line(row, columns)) for row in rows],
            [b""] * len(rows)
            if mapping is None
            else [_encoded(csv_line(mapping_cells(row, *mapping))) for row in rows],
            row_digests(rows),
        )


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace")


class PreparedRows(NamedTuple):
    """Rows as the store has them, and rendered for finishing; each column has an entry for each
    row.

    Attributes
    ----------
    rendered
        None: finishing reads them from the store.
    by
        What rendered them.
    verdicts
        The rows'.
    whole
        The rows themselves, where somebody wants them.
    """

    lines: List[Line]
    rendered: Optional[RenderedRows]
    by: Optional[Renderer]
    verdicts: List[str]
    whole: Sequence[Row]

    def only(self, numbers: Sequence[int]) -> PreparedRows:
        """Return some of them."""

        def chosen(column: Sequence[T]) -> List[T]:
            return [column[number] for number in numbers]

        rendered = self.rendered
        if rendered is not None:
            documents, lines, mappings = map(chosen, rendered[:-1])
            rendered = RenderedRows(documents, lines, mappings, rendered.digests.some(numbers))
        whole = self.whole and chosen(self.whole)
        return PreparedRows(chosen(self.lines), rendered, self.by, chosen(self.verdicts), whole)


@dataclass(frozen=True)
class Preparer:
    """Prepares rows, wherever they are made; picklable.

    Attributes
    ----------
    render
        Renders them; None: nobody does.
    whole
        Whether the rows themselves are wanted too.
    """

    render: Optional[Renderer]
    whole: bool = False

    def __call__(self, rows: Sequence[Row]) -> PreparedRows:
        """Prepare rows."""
        return PreparedRows(
            list(map(row_line, rows)),
            None if self.render is None else self.render(rows),
            self.render,
            [row.verdict for row in rows],
            rows if self.whole else (),
        )


def absolute(mapping: Tuple[str, str]) -> Tuple[str, str]:
    """Return the two folders of a mapping table, absolute: rows are rendered in other processes
    too.
    """
    return os.path.abspath(mapping[0]), os.path.abspath(mapping[1])


class RenderedRowCache:
    """Rows of a run that are rendered already, by the number (id) under which the store has them.

    Nothing depends on it: a row that is not in it, or was changed since, is read from the store and
    rendered then. It pays: that takes ten times as long as reading a rendered row. When its disk is
    full the run goes on without it.

    Parameters
    ----------
    folder
        Where files are made; they have no name there, and are gone with the process.
    files
        Numbers the files that rows are about; None: their names are kept here.
    """

    def __init__(self, folder: str, files: Optional[NumberedFiles] = None) -> None:
        self._folder, self._files = folder or os.curdir, files
        self._texts = tuple(_Texts(self._folder) for _ in _TEXTS)
        self._renderers: List[Renderer] = []
        self._forget()
        self._gathered: List[Tuple[Sequence[int], Sequence[str], RenderedRows]] = []
        self._gathered_by: Optional[Renderer] = None

    def _forget(self) -> None:
        # There may be a million rows: none is in memory, in the order in which they were written.
        self._digests = DigestColumns(RecordFile(self._folder, NUMBERS), self._files)
        self._kept = RecordFile(self._folder, _KEPT)

    def keep(
        self, numbers: Sequence[int], checksums: Sequence[str], rows: RenderedRows, by: Renderer
    ) -> None:
        """Add rows; ``by`` rendered them. Raises OSError where texts cannot be written."""
        if by != self._gathered_by:
            self._write_gathered()
            self._gathered_by = by
        self._gathered.append((numbers, checksums, rows))
        if sum(len(some) for some, _, _ in self._gathered) >= _GATHERED_ROWS:
            self._write_gathered()

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if self._gathered_by is None or not gathered:
            return
        columns = [
            list(chain.from_iterable(parts))
            for parts in zip(*[(numbers, sums, *rows[:-1]) for numbers, sums, rows in gathered])
        ]
        digests = np.concatenate([self._digests.add(rows.digests) for _, _, rows in gathered])
        # Rows come op by op, tables are read place by place: what is adjacent is read at once.
        order = np.argsort(digests["place"], kind="stable")
        numbers, sums, *texts = ([column[at] for at in order.tolist()] for column in columns)
        self._write(numbers, sums, texts, digests[order], self._gathered_by)

    def write(
        self, numbers: Sequence[int], checksums: Sequence[str], rows: RenderedRows, by: Renderer
    ) -> range:
        """Write rows behind those that were written; return their slots. Raises OSError where their
        texts cannot be written.

        Parameters
        ----------
        numbers, checksums
            Of each row, in the store.
        """
        return self._write(numbers, checksums, rows[:-1], self._digests.add(rows.digests), by)

    def _write(
        self,
        numbers: Sequence[int],
        checksums: Sequence[str],
        texts: Sequence[Sequence[bytes]],
        digests: Array,
        by: Renderer,
    ) -> range:
        first, kept = len(self._kept), np.empty(len(numbers), _KEPT)
        kept["number"], kept["by"] = numbers, self._number_of(by)
        kept["sum"] = [int(checksum, 16) for checksum in checksums]
        for name, column, column_texts in zip(_TEXTS, self._texts, texts):
            kept[name] = column.add(column_texts)
        self._digests.append(digests)
        self._kept.append(kept)
        return range(first, first + len(numbers))

    def _number_of(self, by: Renderer) -> int:
        if by not in self._renderers:
            self._renderers.append(by)
        return self._renderers.index(by)

    def slots(self, numbers: Array, checksums: Array, by: Renderer) -> Array:
        """Return the slot of each of some rows, int32, [n]; -1 where a row is not here as the store
        has it, or was rendered otherwise.

        Parameters
        ----------
        numbers, checksums
            int64 and uint64, [n].

        Raises
        ------
        OSError
            The last rows' texts cannot be written.
        """
        self._write_gathered()
        if by not in self._renderers:
            return np.full(len(numbers), -1, np.int32)
        known = self._kept.column("number")
        order = np.argsort(known, kind="stable")
        # Of a row that was added several times the last one.
        slots = order[np.searchsorted(known[order], numbers, "right") - 1]
        same = known[slots] == numbers
        same &= self._kept.column("sum")[slots] == checksums
        same &= self._kept.column("by")[slots] == self._renderers.index(by)
        return np.where(same, slots, -1).astype(np.int32)

    def slots_of_table(
        self,
        store: RunStore,
        order: TableOrder,
        by: Renderer,
        on_page: Callable[[], None] = lambda: None,
    ) -> Array:
        """Return the slots of all rows of a store in the order of its table; those that are not
        here are read and rendered. Raises OSError where their texts cannot be written.

        Parameters
        ----------
        on_page
            Called before some rows are read.
        """
        slots = self.slots(order.ids, order.checksums, by)
        missing = np.flatnonzero(slots < 0)
        for start in range(0, len(missing), _READ_ROWS):
            on_page()
            page = missing[start : start + _READ_ROWS]
            numbers = order.ids[page].tolist()
            stored = store.numbered(numbers)
            rows = by([stored[number] for number in numbers])
            checksums = ["%016x" % checksum for checksum in order.checksums[page]]
            slots[page] = self.write(numbers, checksums, rows, by)
        return slots

    def numbers(self, slots: Array) -> List[int]:
        """Return the numbers that the store has for some rows."""
        return [int(self._kept[slot]["number"]) for slot in slots.tolist()]

    def digests(self, slots: Array) -> RowDigests:
        """Return what the verdict sees of some rows."""
        return self._digests.digests(slots)

    def documents(self, pages: Iterable[Array]) -> Iterator[bytes]:
        """Yield, for the slots of some rows after those of others, their texts for result.json,
        each behind what stands between two rows.
        """
        return self._joined("document", pages)

    def lines(self, pages: Iterable[Array]) -> Iterator[Tuple[bytes, bytes]]:
        """Yield, for the slots of some rows after those of others, their lines in the result table,
        and in the mapping table.
        """
        return zip(*(self._joined(name, some) for name, some in zip(_TEXTS[1:], tee(pages))))

    def _joined(self, name: str, pages: Iterable[Array]) -> Iterator[bytes]:
        texts, ends = self._texts[_TEXTS.index(name)], self._kept.column(name)
        for slots in pages:
            yield b"".join(texts.pieces(slots, ends))

    def close(self) -> None:
        """Forget all rows."""
        del self._renderers[:], self._gathered[:]
        self._forget()
        for texts in self._texts:
            texts.close()


class _Texts:
    """Texts in a file without a name, one behind the other."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: Optional[IO[bytes]] = None
        self._size = 0

    def add(self, texts: Sequence[bytes]) -> List[int]:
        """Write texts behind the others; return where each ends."""
        data = b"".join(texts)
        if data:
            if self._file is None:
                self._file = tempfile.TemporaryFile("w+b", dir=self._folder)  # noqa: SIM115  open as long as texts are kept
            self._file.write(data)
            self._file.flush()
        before, self._size = self._size, self._size + len(data)
        return [before + end for end in accumulate(map(len, texts))]

    def pieces(self, slots: Array, ends: Array) -> Iterator[bytes]:
        """Yield some texts by their numbers, adjacent ones together.

        Parameters
        ----------
        ends
            Where each of all texts ends, [n].
        """
        if self._file is None or not len(slots):
            return
        breaks = np.flatnonzero(np.diff(slots) != 1)
        firsts, lasts = slots[[0, *(breaks + 1).tolist()]], slots[[*breaks.tolist(), -1]]
        begins = np.where(firsts > 0, ends[firsts - 1], 0)
        for begin, end in zip(begins.tolist(), ends[lasts].tolist()):
            if end > begin:
                yield os.pread(self._file.fileno(), end - begin, begin)

    def close(self) -> None:
        """Forget all texts."""
        self._size = 0
        if self._file is not None:
            # What a full disk did not take is tried again here.
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
