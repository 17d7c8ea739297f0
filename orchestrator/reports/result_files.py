"""All result files of a run: tables, then its verdict, then result.json."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
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

from ..base.atomic_writing import append, atomic_text_writer, raise_write_error
from ..dumps.place import Place
from ..judging.diagnosis.row_digest import RowDigests
from ..judging.limits import Limits
from ..metrics.row import EXPECTED_ABSENT, FAIL, METRICS, NOT_COMPARED, VERDICTS, Row
from ..store.integrity import DamagedStore
from ..store.json_numbers import plain_tree
from ..store.row_sql import row_key
from ..store.store import RunStore
from ..store.stored_networks import SUMMARY
from .counts_by_place import PlaceCounts, worst_first
from .csv_cells import Columns
from .csv_tables import TableFiles
from .rendered_rows import RenderedRowCache, Renderer, absolute
from .result_json import RESULT_FILE, write_head, write_tail
from .row_json import FIRST_ROW, NEXT_ROW
from .terminal_table import SHOWN_ROWS, most_urgent

if TYPE_CHECKING:
    from ..judging.diagnosis.summary import Summary

_PAGE_ROWS = 1024
_READ_ROWS = 256
_FAILS = VERDICTS.index(FAIL)
_SUSPECTS = 3
_AROUND = 6
_REACH = 10
Array = Any
_NONE = np.empty(0, np.int64)


class ResultFiles:
    """Writes the result tables, the mapping tables and result.json of a store.

    Use it as a context manager: :meth:`write_tables`, then judge :attr:`rows`, then :meth:`finish`.

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
    cache
        Rows that were rendered when they were stored; closed at the end. Others are rendered when
        the tables are written.

    Attributes
    ----------
    shown
        After :meth:`finish`: the blocks of rows that matter first.
    places
        After :meth:`write_tables`: the rows of each place counted, the worst place first.
    """

    def __init__(
        self,
        store: RunStore,
        columns: Columns,
        mapping: Optional[Tuple[str, str]] = None,
        metrics: Sequence[str] = METRICS,
        cache: Optional[RenderedRowCache] = None,
    ) -> None:
        self.store = store
        self.path = os.path.join(os.path.dirname(store.path), RESULT_FILE)
        self.shown: Tuple[Tuple[Row, ...], ...] = ()
        self.places: Tuple[PlaceCounts, ...] = ()
        self._columns = columns
        self._mapping = mapping
        self._render = Renderer(columns, tuple(metrics), mapping and absolute(mapping))
        self._cache = RenderedRowCache(os.path.dirname(self.path)) if cache is None else cache
        self._order = store.table_order()
        self._slots = np.empty(0, np.int32)
        self._open = contextlib.ExitStack()
        self._tables: List[str] = []

    def __enter__(self) -> ResultFiles:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            self._open.__exit__(kind, error, trace)
        finally:
            self._cache.close()

    def write_tables(
        self, on_stage: Callable[[str, int, int], None] = lambda stage, done, total: None
    ) -> None:
        """Write the result tables and the mapping tables; :meth:`finish` waits until they are on
        the disk.

        Parameters
        ----------
        on_stage
            Called several times a second with what is done, how many of its steps are, and of how
            many (0: not known).

        Raises
        ------
        EnvironmentProblem
            A file cannot be written; older ones stay.
        """
        order, begin, stage = self._order, 0, "writing the result files"
        with self._refusing():
            self._slots = self._cache.slots_of_table(
                self.store, order, self._render, lambda: on_stage(stage, 0, len(order.ids))
            )
        # Of a million rows 16 MB, not needed any more.
        self._order = order._replace(ids=_NONE, checksums=_NONE)
        pages: List[Tuple[Place, int, int]] = []
        for place, end in zip(order.places, order.ends):
            pages += [
                (place, start, min(start + _PAGE_ROWS, end))
                for start in range(begin, end, _PAGE_ROWS)
            ]
            begin = end
        texts = self._cache.lines(self._slots[start:end] for _, start, end in pages)
        tables = TableFiles(self.store, self._columns, self._mapping, order.places)
        self._open.enter_context(tables)
        for place, start, _ in pages:
            on_stage(stage, start, len(order.ids))
            with self._refusing():
                lines, mapping_lines = next(texts)
            tables.add_lines(place, lines, mapping_lines)
        self._tables = tables.written
        self.places = tuple(worst_first(self._counted()))
        on_stage("judging", 0, 0)

    def _counted(self) -> List[PlaceCounts]:
        """Return the rows of each place by verdict, and the first tensor that fails."""
        counted, begin, failing = [], 0, {}
        for place, end in zip(self._order.places, self._order.ends):
            verdicts = self._order.verdicts[begin:end]
            numbers = np.bincount(verdicts, minlength=len(VERDICTS)).tolist()
            counts = Counter({name: count for name, count in zip(VERDICTS, numbers) if count})
            counted.append(PlaceCounts(place, counts))
            if counts[FAIL]:
                first = self._numbers([begin + int(np.argmax(verdicts == _FAILS))])
                failing[first[0]] = counted[-1]
            begin = end
        ids = list(failing)
        for start in range(0, len(ids), _READ_ROWS):
            for number, row in self.store.numbered(ids[start : start + _READ_ROWS]).items():
                failing[number].first = row.tensor
        return counted

    @property
    def rows(self) -> RowDigests:
        """All rows in the order of the table, as the verdict sees them; once the tables are
        written.
        """
        return self._cache.digests(self._slots)

    def _numbers(self, rows: Sequence[int]) -> List[int]:
        """Return the numbers that the store has for some rows of the table."""
        return self._cache.numbers(self._slots[rows])

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise_write_error(self.path, error)

    def whole(self, row: int) -> Row:
        """Return the stored row that the verdict sees, by its number in the table."""
        (number,) = self._numbers([row])
        stored = self.store.numbered([number])
        if number not in stored:
            raise DamagedStore("a row is no longer there", self.store.path)
        return stored[number]

    def _shown(self, summary: Summary) -> Tuple[Tuple[Row, ...], ...]:
        """Return the rows that matter first, in blocks: of the first suspects and around them, then
        others that did not pass.

        Of several places that all pass the counts say enough, and of several steps those that
        diverge later.
        """
        centres = [(entry.op, entry.place) for entry in summary.suspects]
        centres = centres or [
            (entry["op"], self._order.places[0]) for entry in summary.culprits or ()
        ]
        if not centres and summary.first is not None:
            centres = [(summary.first.op, summary.first.place)]
        blocks: List[Tuple[Row, ...]] = []
        seen: Set[str] = set()
        for op, place in centres[:_SUSPECTS]:
            block = tuple(row for row in self._around(op, place) if row_key(row) not in seen)
            seen.update(row_key(row) for row in block)
            blocks.append(block)
        if len(self.places) > 1 and not (summary.failed or summary.not_compared):
            return tuple(blocks)
        at = self._urgent_of_first_step(summary)
        numbers = self._numbers(at)
        chosen = self.store.numbered(numbers)
        others = [chosen[number] for number in numbers]
        rest = [
            row
            for row in others
            if row_key(row) not in seen and (row.verdict in (FAIL, NOT_COMPARED) or not blocks)
        ]
        blocks.append(tuple(rest[: max(0, SHOWN_ROWS - sum(map(len, blocks)))]))
        return tuple(block for block in blocks if block)

    def _urgent_of_first_step(self, summary: Summary) -> Array:
        """Return where the rows stand that matter first, of several steps those of the one that
        diverges first.
        """
        verdicts, places = self._order.verdicts, self._order.places
        if summary.first is None or len({place.step for place in places}) < 2:
            return most_urgent(verdicts, SHOWN_ROWS)
        lengths = np.diff([0, *self._order.ends])
        at_step = np.repeat([place.step == summary.first.place.step for place in places], lengths)
        there = np.flatnonzero(at_step)
        return there[most_urgent(verdicts[there], SHOWN_ROWS)]

    def _around(self, op: str, place: Place) -> List[Row]:
        """Return the rows of an op and of those with a dump before and behind it, as the table has
        them; of many its own, outputs first.
        """
        centre = next(iter(self.store.rows("index", place, op=op)), None)
        if centre is None:
            return []
        near = self.store.rows(
            "index", place, indexes=(centre.index - _REACH, centre.index + _REACH)
        )
        rows = [(number, row) for number, row in enumerate(near) if row.verdict != EXPECTED_ABSENT]
        before = max(
            (row.index for _, row in rows if row.index < centre.index), default=centre.index
        )
        behind = min(
            (row.index for _, row in rows if row.index > centre.index), default=centre.index
        )
        rows = [(number, row) for number, row in rows if before <= row.index <= behind]
        nearest = sorted(
            rows,
            key=lambda entry: (
                entry[1].op != op,
                entry[1].index > centre.index,
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
            As for :func:`goldwatch.reports.result_json.write_head`.
        """
        document = plain_tree(summary.document())
        self._open.close()
        with atomic_text_writer(self.path) as stream:
            write_head(stream, document, limits, comparison)
            starts = range(0, len(self._slots), _PAGE_ROWS)
            pages = (self._slots[start : start + _PAGE_ROWS] for start in starts)
            for start, text in zip(starts, self._cache.documents(pages)):
                append(stream, text if start else FIRST_ROW.encode() + text[len(NEXT_ROW) :])
            write_tail(stream, self.store.events.omitted())
        self.store.set(SUMMARY, document)
        self.shown = self._shown(summary)
        return [*self._tables, self.path]
