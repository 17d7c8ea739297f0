"""All result files of a run from one walk over its rows."""

from __future__ import annotations

import contextlib
import os
from itertools import groupby
from operator import attrgetter
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterator,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
)

import numpy as np

from ..diagnosis.row_digest import RowDigest
from ..dumps.place import Place
from ..filesystem.outputs import append, refuse_writing, replacing
from ..judging.limits import Limits
from ..metrics.row import EXPECTED_ABSENT, FAIL, METRICS, NOT_COMPARED, Row
from .byplace import ByPlace, PlaceCounts
from .csvfile import Columns
from .files import TableFiles
from .identity import DamagedStore
from .jsonfile import FIRST_ROW, NEXT_ROW, RESULT_FILE, head_text, tail_text
from .network import SUMMARY
from .rendered_rows import RenderedRowCache, Renderer, absolute
from .rowsql import key_of, plain_tree, row_key
from .store import RunStore
from .table import SHOWN_ROWS, Chosen

if TYPE_CHECKING:
    from ..diagnosis.summary import Summary

_PAGE_ROWS = 1024
_READ_ROWS = 256
_SUSPECTS = 3
_AROUND = 6
_REACH = 10
Array = Any


class ResultFiles:
    """Writes the result tables, the mapping tables and result.json of a store while somebody walks
    its rows.

    Use it as a context manager: walk :attr:`rows` once (judging them), then call :meth:`finish`.

    Parameters
    ----------
    store
        Open for writing.
    columns
        The columns of the result tables.
    mapping
        The folders that TARGET's and GOLDEN's files are named from, to write the mapping tables
        too; None: none are written.
    metrics
        The metrics that each row of result.json has.
    kept
        Rows that were rendered when they were stored, with these metrics; others are rendered now.
    places
        Those of the store, where they are known.
    on_stage
        Called several times a second with what is done, how many of its steps are, and of how many
        (0: not known).

    Attributes
    ----------
    chosen, by_place
        What the walk keeps of the rows.
    told
        After :meth:`finish`: the blocks of rows that matter first, and the rows of each place
        counted, the worst place first.

    Raises
    ------
    EnvironmentProblem
        A file cannot be written; older ones stay.
    """

    def __init__(
        self,
        store: RunStore,
        columns: Columns,
        mapping: Optional[Tuple[str, str]] = None,
        metrics: Sequence[str] = METRICS,
        kept: Optional[RenderedRowCache] = None,
        places: Optional[Sequence[Place]] = None,
        on_stage: Callable[[str, int, int], None] = lambda stage, done, total: None,
    ) -> None:
        self.store = store
        self._on_stage = on_stage
        self.path = os.path.join(os.path.dirname(store.path), RESULT_FILE)
        self.chosen = Chosen(SHOWN_ROWS)
        self.by_place = ByPlace()
        places = store.places() if places is None else places
        self._tables = TableFiles(store, columns, mapping, places)
        self.told: Tuple[Tuple[Tuple[Row, ...], ...], Tuple[PlaceCounts, ...]] = ((), ())
        self._render = Renderer(columns, tuple(metrics), mapping and absolute(mapping))
        self._kept = RenderedRowCache(os.path.dirname(self.path)) if kept is None else kept
        with self._refusing():
            ordered = (
                self._kept.in_order(places, self._render) if holds_all(self._kept, store) else None
            )
            if ordered is None:
                self._ids, self._sums = store.numbers(places)
                self._slots = self._kept.slots(self._ids, self._sums, self._render)
            else:
                self._slots, self._ids, self._sums = ordered
        self._walked = False

    def __enter__(self) -> ResultFiles:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._kept.close()
        if error is not None:
            self._tables.abort(error)

    @property
    def rows(self) -> Rows:
        """All rows in the order of the table, as the verdict sees them; the walk feeds the
        files.
        """
        return Rows(self)

    def walk(self) -> Iterator[RowDigest]:
        """Yield what the verdict sees of each row, and write the tables."""
        write = not self._walked
        self._walked = True
        for start in range(0, len(self._ids), _PAGE_ROWS):
            page = slice(start, start + _PAGE_ROWS)
            if write:
                self._on_stage("writing the result files", start, len(self._ids))
            self._render_lacking(page)
            with self._refusing():
                rows = self._kept.seen(self._slots[page])
            if write:
                self._write(page, rows)
            yield from rows
        if write:
            self._tables.close()
            self._on_stage("judging", 0, 0)

    def _render_lacking(self, page: slice) -> None:
        """Render rows that are not kept."""
        lacking = np.flatnonzero(self._slots[page] < 0) + page.start
        for start in range(0, len(lacking), _READ_ROWS):
            some = lacking[start : start + _READ_ROWS]
            numbers = self._ids[some].tolist()
            with self._refusing():
                found = self.store.numbered(numbers)
                made = [
                    (number, "%016x" % self._sums[at], self._render(found[number]))
                    for number, at in zip(numbers, some)
                ]
                self._slots[some] = self._kept.write(made)

    def _write(self, page: slice, seen: List[RowDigest]) -> None:
        """Write the tables' lines of some rows, and take note of those that matter first."""
        self.chosen.add_all([row.verdict for row in seen], self._ids[page].tolist())
        start = page.start
        for place, run in groupby(seen, attrgetter("place")):
            rows = list(run)
            with self._refusing():
                lines, mapping_lines = self._kept.lines(self._slots[start : start + len(rows)])
            start += len(rows)
            self.by_place.add_all(place, rows)
            self._tables.add_lines(place, lines, mapping_lines)

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            refuse_writing(self.path, error)

    def whole(self, row: RowDigest) -> Row:
        """Return the stored row that the verdict sees."""
        number = row.observation.number if row.observation.number >= 0 else None
        found = self.store.row(
            key_of(row.place, row.file or None, row.op, row.observation.kind, number)
        )
        if found is None:
            raise DamagedStore("a row is no longer there", self.store.path)
        return found

    def _shown(self, summary: Summary) -> Tuple[Tuple[Row, ...], ...]:
        """Return the rows that matter first, in blocks: of the first suspects and around them, then
        others that did not pass.

        Of several places that all pass the counts say enough.
        """
        wanted = [(entry.op, entry.place) for entry in summary.suspects]
        wanted = wanted or [
            (entry["op"], self.store.places()[0]) for entry in summary.culprits or ()
        ]
        if not wanted and summary.first is not None:
            wanted = [(summary.first.op, summary.first.place)]
        blocks: List[Tuple[Row, ...]] = []
        seen: Set[str] = set()
        for op, place in wanted[:_SUSPECTS]:
            block = tuple(row for row in self._around(op, place) if row_key(row) not in seen)
            seen.update(row_key(row) for row in block)
            blocks.append(block)
        if len(self.by_place.worst_first) > 1 and not (summary.failed or summary.not_compared):
            return tuple(blocks)
        chosen = self.store.numbered(self.chosen.numbers)
        others = [chosen[number] for number in self.chosen.numbers]
        rest = [
            row
            for row in others
            if row_key(row) not in seen and (row.verdict in (FAIL, NOT_COMPARED) or not blocks)
        ]
        blocks.append(tuple(rest[: max(0, SHOWN_ROWS - sum(map(len, blocks)))]))
        return tuple(block for block in blocks if block)

    def _around(self, op: str, place: Place) -> List[Row]:
        """Return the rows of an op and of those with a dump before and behind it, as the table has
        them; of many its own, outputs first.
        """
        own = next(iter(self.store.rows("index", place, op=op)), None)
        if own is None:
            return []
        near = self.store.rows("index", place, indexes=(own.index - _REACH, own.index + _REACH))
        rows = [(number, row) for number, row in enumerate(near) if row.verdict != EXPECTED_ABSENT]
        before = max((row.index for _, row in rows if row.index < own.index), default=own.index)
        behind = min((row.index for _, row in rows if row.index > own.index), default=own.index)
        rows = [(number, row) for number, row in rows if before <= row.index <= behind]
        nearest = sorted(
            rows,
            key=lambda entry: (
                entry[1].op != op,
                entry[1].index > own.index,
                entry[1].kind != "output",
            ),
        )
        return [row for _, row in sorted(nearest[:_AROUND], key=lambda entry: entry[0])]

    def finish(self, summary: Summary, limits: Limits, comparison: str = "") -> List[str]:
        """Write result.json, keep the summary in the store, and return the paths of all files,
        result.json last.

        Parameters
        ----------
        comparison
            As for :func:`goldwatch.store.jsonfile.result_chunks`.
        """
        if not self._walked:
            for _ in self.walk():
                pass
        document = plain_tree(summary.document())
        with replacing(self.path) as stream:
            stream.write(head_text(document, limits, comparison))
            for start in range(0, len(self._ids), _PAGE_ROWS):
                text = self._kept.documents(self._slots[start : start + _PAGE_ROWS])
                append(stream, text if start else FIRST_ROW.encode() + text[len(NEXT_ROW) :])
            for piece in tail_text(self.store.events.omitted()):
                stream.write(piece)
        self.store.set(SUMMARY, document)
        self.told = (self._shown(summary), tuple(self.by_place.worst_first))
        return [*self._tables.written, self.path]


def holds_all(kept: RenderedRowCache, store: RunStore) -> bool:
    """Tell whether the rows that are kept are those of a store, as it has them: then it need not be
    asked which it has.
    """
    return not store.table.disturbed and len(kept) == store.counted.stored()


class Rows:
    """The rows of :class:`ResultFiles` as the verdict sees them, an iterable that can be walked
    again.
    """

    def __init__(self, files: ResultFiles) -> None:
        self._files = files

    def __iter__(self) -> Iterator[RowDigest]:
        return self._files.walk()

    def __len__(self) -> int:
        return len(self._files._ids)
