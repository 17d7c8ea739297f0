"""All result files of a run from one walk over its rows."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from types import TracebackType
from typing import IO, Iterator, List, Optional, Sequence, Tuple, Type

from ..comparing.row import METRICS, Row
from ..filesystem import refuse_writing, replacing
from ..verdict.limits import Limits
from ..verdict.summary import Summary
from .csvfile import Columns
from .files import TableFiles
from .jsonfile import FIRST_ROW, NEXT_ROW, RESULT_FILE, head_text, row_text, tail_text
from .network import SUMMARY
from .rowsql import plain_tree
from .store import RunStore
from .table import SHOWN_ROWS, Chosen

_COPY_BYTES = 1 << 20


class ResultFiles:
    """Writes the result tables, the mapping tables and result.json of a store while somebody walks its rows.

    Use it as a context manager: walk :attr:`rows` once (judging them), then call :meth:`finish`. Memory does not grow with the rows; those
    of result.json wait in a file without a name in OUT, because what stands before them is known after them.

    Parameters
    ----------
    store
        Open for writing.
    columns
        The columns of the result tables.
    mapping
        The folders that TARGET's and GOLDEN's files are named from, to write the mapping tables too; None: none are written.
    metrics
        The metrics that each row of result.json has.

    Raises
    ------
    EnvironmentProblem
        A file cannot be written; older ones stay.
    """

    def __init__(
        self, store: RunStore, columns: Columns, mapping: Optional[Tuple[str, str]] = None, metrics: Sequence[str] = METRICS
    ) -> None:
        self.store = store
        self.path = os.path.join(os.path.dirname(store.path), RESULT_FILE)
        self.chosen = Chosen(SHOWN_ROWS)
        self._tables = TableFiles(store, columns, mapping)
        self._metrics = tuple(metrics)
        self._walked = False

    def __enter__(self) -> ResultFiles:
        with self._refusing():
            self._spool: IO[str] = tempfile.TemporaryFile("w+", encoding="ascii", newline="", dir=os.path.dirname(self.path) or os.curdir)
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        with self._refusing():
            self._spool.close()
        if error is not None:
            self._tables.abort(error)

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            refuse_writing(self.path, error)

    @property
    def rows(self) -> _Rows:
        """All rows in the order of the table, as often as wanted; the first walk feeds the files."""
        return _Rows(self)

    def walk(self) -> Iterator[Row]:
        """Yield each row after it went to all files; from the second walk on only yield it."""
        rows = self.store.rows("index")
        if self._walked:
            yield from rows
            return
        self._walked = True
        separator = FIRST_ROW
        for row in rows:
            with self._refusing():
                self._spool.write(separator + row_text(row, self._metrics))
            self._tables.add(row)
            self.chosen.add(row)
            separator = NEXT_ROW
            yield row
        self._tables.close()

    def finish(self, summary: Summary, limits: Limits, comparison: str = "") -> List[str]:
        """Write result.json, keep the summary in the store, and return the paths of all files, result.json last.

        Parameters
        ----------
        comparison
            As for :func:`goldwatch.results.jsonfile.result_chunks`.
        """
        if not self._walked:
            for _ in self.walk():
                pass
        document = plain_tree(summary.document())
        with replacing(self.path) as stream:
            stream.write(head_text(document, limits, comparison))
            self._spool.seek(0)
            shutil.copyfileobj(self._spool, stream, _COPY_BYTES)
            for piece in tail_text(self.store.omitted()):
                stream.write(piece)
        self.store.set(SUMMARY, document)
        return [*self._tables.written, self.path]


class _Rows:
    """The rows of :class:`ResultFiles` as an iterable that can be walked again."""

    def __init__(self, files: ResultFiles) -> None:
        self._files = files

    def __iter__(self) -> Iterator[Row]:
        return self._files.walk()

    def __len__(self) -> int:
        return len(self._files.store.rows())
