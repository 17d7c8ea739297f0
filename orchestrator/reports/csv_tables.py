"""The CSV tables of a run: which there are, how they are named, and keeping them current."""

from __future__ import annotations

import contextlib
import csv
import os
import re
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import lru_cache
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Collection, Dict, List, Optional, Sequence, Tuple, Type

from ..base.atomic_writing import append, atomic_text_writer, raise_write_error, remove_inside
from ..base.errors import EnvironmentProblem
from ..base.naming import printable, shortened_file_name
from ..dumps.place import NOWHERE, Place
from ..metrics.row import Row
from ..store.row_schema import from_sql_text
from ..store.store import RunStore
from .csv_cells import (
    MAPPING_HEADER,
    NOTHING,
    Columns,
    csv_line,
    header,
    mapping_cells,
    table_line,
    text_cell,
)
from .report_context import ReportFile

if TYPE_CHECKING:
    from ..store.merged_metrics import Query

STEP_OP_FILE = "step_op.csv"

COLUMNS = "columns"
"""The columns of a run's tables, as its store notes them."""

# So many tables are on their way to the disk at once: each waits for it.
_CLOSERS = 8

_TABLE = re.compile(r"([^/\0]*_)?(result|mapping)_[0-9]{14}\.csv\Z")


def result_names(places: Sequence[Place], timestamp: str, stem: str = "result") -> Dict[Place, str]:
    """Return the file name of each place's table.

    A single place, and rows outside a tree, get ``{stem}_{timestamp}.csv``; each of several device
    × model × step gets ``{device}_{model}_{step}_{stem}_{timestamp}.csv``, and where two would be
    the same ``{time}_{device}_{model}_{model_id}_{step}_{stem}_{timestamp}.csv``; of a run of
    several hosts the host stands first.

    Parameters
    ----------
    places
        Those with rows.
    timestamp
        ``YYYYmmddHHMMSS`` of the run's first start.
    stem
        ``result`` or ``mapping``.
    """
    tail = "%s_%s.csv" % (stem, timestamp)
    if len(places) == 1:
        return {places[0]: tail}
    short = {
        place: _join((place.host, place.device, place.model, place.step), tail) for place in places
    }
    shared = Counter(short.values())
    return {
        place: name if shared[name] == 1 else _join((place.host, *place.parts), tail)
        for place, name in short.items()
    }


def _join(parts: Sequence[Optional[str]], tail: str) -> str:
    head = "_".join(printable(part).replace("/", "_") for part in parts if part is not None)
    return shortened_file_name(head, "_" + tail) if head else tail


def is_table(name: str) -> bool:
    """Tell whether a file's name is that of a result table or mapping table."""
    return _TABLE.match(name) is not None


def noted_tables(store: RunStore) -> List[str]:
    """Return the names of this run's tables; what cannot be one (the store is input too) is passed
    over.
    """
    names = store.get("result_files")
    return (
        [name for name in names if isinstance(name, str) and is_table(name)]
        if isinstance(names, list)
        else []
    )


class TableFiles:
    """The result tables (and mapping tables) of a store, written as rows are added in the order of
    the table.

    Each appears whole when the rows of its place are done. Files of this run whose names changed,
    because another place came that would share them, are removed at the end. A store without rows
    gets a table with its header only.

    Parameters
    ----------
    store
        Open for writing.
    columns
        The columns of the result tables.
    mapping
        The folders that TARGET's and GOLDEN's files are named from, to write the mapping tables
        too; None: none are written.
    places
        Those of the store, where they are known.

    Attributes
    ----------
    written
        The paths of the files that are there.
    """

    def __init__(
        self,
        store: RunStore,
        columns: Columns,
        mapping: Optional[Tuple[str, str]] = None,
        places: Optional[Sequence[Place]] = None,
    ) -> None:
        self.written: List[str] = []
        self._store = store
        self._columns = columns
        self._mapping = mapping
        self._out = os.path.dirname(store.path)
        self._places = (store.places() if places is None else places) or [NOWHERE]
        self._names = result_names(self._places, store.started)
        self._mappings = result_names(self._places, store.started, "mapping") if mapping else {}
        self._place: Optional[Place] = None
        self._open = contextlib.ExitStack()
        self._table: Any = None
        self._map: Any = None
        self._closers: Optional[ThreadPoolExecutor] = None
        self._closing: List[Future[None]] = []

    def add(self, row: Row) -> None:
        """Write a row; raises EnvironmentProblem where a file cannot be written."""
        place = row.place
        if place != self._place:
            self._begin(place)
        try:
            self._table.write(table_line(row, self._columns))
            if self._mapping:
                self._map.write(csv_line(mapping_cells(row, *self._mapping)))
        except OSError as error:
            raise_write_error(self.written[-1], error)

    def add_lines(self, place: Place, lines: bytes, mapping_lines: bytes) -> None:
        """Write lines of a place's table, and of its mapping table, in UTF-8."""
        if place != self._place:
            self._begin(place)
        try:
            append(self._table, lines)
            if self._mapping:
                append(self._map, mapping_lines)
        except OSError as error:
            raise_write_error(self.written[-1], error)

    def _begin(self, place: Place) -> None:
        self._done()
        self._place = place
        self._table = self._stream(self._names[place], header(self._columns))
        if self._mapping:
            self._map = self._stream(self._mappings[place], MAPPING_HEADER)

    def _stream(self, name: str, names: Sequence[str]) -> IO[str]:
        self.written.append(os.path.join(self._out, name))
        stream = self._open.enter_context(atomic_text_writer(self.written[-1]))
        csv.writer(stream, lineterminator="\n").writerow(names)
        return stream

    def write(self, only: Optional[Collection[Place]] = None) -> List[str]:
        """Write the tables of these places (by default of all) and those that are not there yet;
        return their paths.
        """
        before = noted_tables(self._store)
        with self:
            for place in self._places:
                if only is None or place in only or self._names[place] not in before:
                    self._begin(place)
                    for row in self._store.rows("index", place):
                        self.add(row)
        return self.written

    def close(self) -> None:
        """Finish the last table, and remove those that are none of this run's any more."""
        if self._place is None and self._places == [NOWHERE]:
            self._begin(NOWHERE)
        self._done()
        self._finish()
        columns = {**asdict(self._columns), "metrics": list(self._columns.metrics)}
        if self._store.get(COLUMNS) != columns:
            self._store.set(COLUMNS, columns)
        before, now = noted_tables(self._store), [*self._names.values(), *self._mappings.values()]
        if before != now:
            self._store.set("result_files", now)
            for name in set(before) - set(now):
                remove_inside(self._out, name)

    def abort(self, error: BaseException) -> None:
        """Discard the new table; the older one stays."""
        try:
            self._open.__exit__(type(error), error, error.__traceback__)
        finally:
            with contextlib.suppress(EnvironmentProblem):
                self._finish()

    def _done(self) -> None:
        """Sync the open tables to the disk, all at the same time."""
        whole, self._open = self._open, contextlib.ExitStack()
        if self._place is None:
            return
        if self._closers is None:
            self._closers = ThreadPoolExecutor(_CLOSERS)
        self._closing.append(self._closers.submit(whole.close))

    def _finish(self) -> None:
        """Wait for the tables; raises EnvironmentProblem where one of them could not be written."""
        if self._closers is not None:
            self._closers.shutdown()
            self._closers = None
        closing, self._closing = self._closing, []
        for done in closing:
            done.result()

    def __enter__(self) -> TableFiles:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is not None:
            self.abort(error)
            return
        try:
            self.close()
        except BaseException as interrupt:
            # No thread stays that waits for work.
            self.abort(interrupt)
            raise


PLACE_HEADER = ("Time", "Device", "Model", "ModelId", "Step")


class CsvFile(ReportFile):
    """The table that a comparison writes for a place; where a run has several, one table of all,
    the place before the other columns.
    """

    def begin(self) -> None:
        """Write the header."""
        self._writer = csv.writer(self.stream, lineterminator="\n")
        hosts = any(place.host is not None for place in self.context.places)
        self._several = hosts or len(self.context.places) > 1
        places = PLACE_HEADER if self._several else ()
        self._writer.writerow(
            [*(("Host",) if hosts else ()), *places, *header(self.context.columns)]
        )

    def add(self, row: Row) -> None:
        """Write a row."""
        line = table_line(row, self.context.columns)
        self.stream.write(_place_cells(row.place) + line if self._several else line)


@lru_cache(maxsize=1)
def _place_cells(place: Place) -> str:
    cells = [NOTHING if part is None else text_cell(part) for part in place.document().values()]
    return csv_line([*cells, ""])[:-1]


def write_step_ops(query: Query, path: str) -> None:
    """Write table ``step_op`` by steps, models and ops; raises EnvironmentProblem."""
    try:
        with atomic_text_writer(path) as stream:
            table = csv.writer(stream, lineterminator="\n")
            table.writerow(
                ["Step", "Model", "OpName", "TensorIndex", "Metric", "Devices", "Worst", "Mean"]
            )
            cell = lru_cache(maxsize=None)(lambda name: text_cell(from_sql_text(name)))
            from ..store.merged_metrics import step_op_lines

            for *names, count, worst, mean in step_op_lines(query):
                table.writerow([*(cell(name) for name in names), count, worst, mean])
    except OSError as error:
        raise_write_error(path, error)
