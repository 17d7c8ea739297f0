"""A run's store in short reads that hold up no writer: no open cursor, no open file between two of
them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from types import TracebackType
from typing import (
    Any,
    FrozenSet,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
    TypeVar,
)

from ..base.errors import FormatError, GoldwatchError
from ..metrics.row import FAIL, Row
from .database import connect_reader, lines_of, translated
from .facts_and_events import PROVISIONAL, VOID, read_fact
from .integrity import check_identity, has_hosts
from .lock import LOCK_FILE
from .opening import STORE_FILE
from .row_counts import RunCounts
from .row_schema import LAST_GIVEN_ID, from_sql_text
from .row_sql import RowReader
from .row_table import PLACE_ORDER

log = logging.getLogger("goldwatch.store")

_BUSY_MS = 2000
_NUMBERS = 10_000
_LOCK_BYTES = 4096


R = TypeVar("R", bound="StoreReader")


class NumberedRow(NamedTuple):
    """A row with its id in the store."""

    id: int
    row: Row


class Finality(NamedTuple):
    """Which rows are final: nothing that comes later changes their verdicts, but for other dumps of
    their ops.

    Attributes
    ----------
    upto, ids
        Of the failing rows those with the ids are not, nor any with an id above ``upto``; None: all
        rows are final.
    """

    upto: Optional[int] = None
    ids: FrozenSet[int] = frozenset()

    def holds(self, number: int, verdict: str) -> bool:
        """Tell whether the row with an id is final."""
        return (
            verdict != FAIL or self.upto is None or (number <= self.upto and number not in self.ids)
        )


class StoreReader:
    """The store of a folder, open for a moment; a context manager.

    Raises
    ------
    MissingPath, FormatError, EnvironmentProblem
        There is none, it is damaged or foreign, or it cannot be read now.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, STORE_FILE)
        self._connection = connect_reader(self.path)
        try:
            with translated(self.path):
                self._connection.execute("PRAGMA busy_timeout = %d" % _BUSY_MS)
                check_identity(self._connection, self.path)
                hosts = has_hosts(self._connection)
        except BaseException:
            self._connection.close()
            raise
        self._rows = RowReader(self.path, hosts, checked=True)

    def __enter__(self: R) -> R:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        self._connection.close()

    @property
    def selected(self) -> str:
        """What :meth:`row` takes, for a query."""
        return self._rows.selected

    @property
    def has_hosts(self) -> bool:
        """Whether the store is of several hosts."""
        return self._rows.hosts

    def row(self, values: Sequence[Any]) -> Row:
        """Return the row of the values of :attr:`selected`; raises FormatError where they are not
        as they were stored.
        """
        return self._rows.row(values)

    def query(self, sql: str, values: Sequence[Any] = ()) -> List[Tuple[Any, ...]]:
        """Return all lines of a query; raises as the constructor does."""
        with translated(self.path):
            return lines_of(self._connection, sql, values)

    def fact(self, key: str, default: Any = None) -> Any:
        """Return one fact of table ``run``; raises DamagedStore where it is not as it was
        stored.
        """
        with translated(self.path):
            return read_fact(self._connection, self.path, key, default)

    def finality(self) -> Finality:
        """Return which rows are final; all are where no run goes on, or does not tell."""
        provisional = self.fact(PROVISIONAL) if is_written(os.path.dirname(self.path)) else None
        return (
            Finality(int(provisional["upto"]), frozenset(provisional["ids"]))
            if isinstance(provisional, dict)
            else Finality()
        )

    def provisional(self) -> int:
        """Return how many failing rows are not final."""
        finality = self.finality()
        if finality.upto is None:
            return 0
        return len(finality.ids) + int(
            self.query(
                "SELECT count(*) FROM row_at_place WHERE verdict = ? AND id > ?",
                (FAIL, finality.upto),
            )[0][0]
        )

    def size_of(self, key: str) -> int:
        """Return how many characters a fact has as it is stored, 0 without."""
        lines = self.query("SELECT length(value) FROM run WHERE key = ?", (key,))
        return int(lines[0][0]) if lines else 0

    @property
    def counted(self) -> RunCounts:
        """The counts of the run's rows."""
        return RunCounts(self.query, self.has_hosts)

    def last_id(self) -> int:
        """Return the highest id of a row, 0 without rows."""
        return int(self.query("SELECT coalesce(max(id), 0) FROM row_at_place")[0][0])

    def last_given_id(self) -> int:
        """Return the highest id that was ever given to a row."""
        lines = self.query(LAST_GIVEN_ID)
        return int(lines[0][0]) if lines else 0

    def void(self) -> int:
        """Return the id up to which rows may have been told otherwise before (fact ``void`` of
        schemas/store.sql), 0 without.
        """
        try:
            return int(self.fact(VOID, 0))
        except (GoldwatchError, ValueError, TypeError):
            return self.last_given_id()

    def began_ns(self) -> int:
        """Return when the store was made, in nanoseconds since 1970; 0 where it does not say it."""
        lines = self.query("SELECT time_ns FROM event ORDER BY id LIMIT 1")
        return int(lines[0][0]) if lines else 0

    def removals(self) -> int:
        """Return the id of the last event that tells of rows that were taken out for good, 0
        without.
        """
        return int(
            self.query("SELECT coalesce(max(id), 0) FROM event WHERE kind = 'removed'")[0][0]
        )

    def page(
        self, after: int, limit: int, upto: Optional[int] = None
    ) -> Tuple[List[NumberedRow], int]:
        """Return the rows behind an id, in the order of their arrival, and the last id that was
        looked at.

        A row that is not as it was stored is left out: a run that goes on finds it anew.
        """
        sql = "SELECT %s, id FROM row WHERE id > ?%s ORDER BY id LIMIT ?" % (
            self._rows.selected,
            "" if upto is None else " AND id <= ?",
        )
        lines = self.query(sql, (after, limit) if upto is None else (after, upto, limit))
        return self._decoded(lines), int(lines[-1][-1]) if lines else after

    def events(self, limit: int) -> List[Tuple[int, str, Optional[str], str]]:
        """Return (nanoseconds since 1970, kind, op, text) of the last events, newest first."""
        lines = self.query(
            "SELECT time_ns, kind, op, text FROM event ORDER BY id DESC LIMIT ?", (limit,)
        )
        return [
            (int(time_ns), str(kind), from_sql_text(op), str(from_sql_text(text)))
            for time_ns, kind, op, text in lines
        ]

    def first_failing(self) -> Optional[Row]:
        """Return the failing row that comes first in the order of steps, devices and execution, or
        None.
        """
        host = "host, " if self._rows.hosts else ""
        order = (
            "CAST(step AS INTEGER), step, CAST(device AS INTEGER), device, %s%s, graph_index, "
            % (host, PLACE_ORDER)
        )
        order += (
            'op_sequence, CASE WHEN op_sequence IS NULL THEN timestamp_us END, "index", position, '
            "timestamp_us, "
        )
        order += "target_file, kind DESC, tensor_index"
        sql = "SELECT %s, id FROM row WHERE verdict = ? ORDER BY %s LIMIT 1" % (
            self._rows.selected,
            order,
        )
        rows = self._decoded(self.query(sql, (FAIL,)))
        return rows[0].row if rows else None

    def numbers(self) -> Iterator[Tuple[int, int]]:
        """Yield (id, Index) of all rows by id, read in pieces."""
        last = 0
        while True:
            lines = self.query(
                'SELECT id, "index" FROM row WHERE id > ? ORDER BY id LIMIT ?', (last, _NUMBERS)
            )
            if not lines:
                return
            for number, index in lines:
                yield int(number), int(index)
            last = int(lines[-1][0])

    def places(
        self, after: int
    ) -> Tuple[Set[Optional[str]], Set[Optional[str]], Set[Optional[str]], int]:
        """Return the models, devices and steps of the rows behind an id, and the last id."""
        last = self.last_id()
        lines = self.query(
            "SELECT DISTINCT model, device, step FROM row WHERE id > ? AND id <= ?", (after, last)
        )
        names = [tuple(from_sql_text(name) for name in line) for line in lines]
        models, devices, steps = ({line[at] for line in names} for at in range(3))
        return models, devices, steps, last

    def files_done(self, target: str) -> Tuple[int, int]:
        """Return how many files below TARGET are compared, and their bytes."""
        inside = (target.rstrip("/") + "/", target.rstrip("/") + "0")
        sql = (
            "SELECT count(*), coalesce(sum(size_bytes), 0) FROM file WHERE path >= ? AND path < ? "
            "AND mtime_ns > 0"
        )
        (count, size_bytes), *_ = self.query(sql, inside)
        return int(count), int(size_bytes)

    def _decoded(self, lines: Sequence[Tuple[Any, ...]]) -> List[NumberedRow]:
        rows = []
        for *values, number in lines:
            try:
                rows.append(NumberedRow(int(number), self._rows.row(values)))
            except FormatError as error:
                log.warning("%s", error.message)
        return rows


def is_written(folder: str) -> bool:
    """Tell whether a process holds the lock of a run's folder, which it does as long as it works
    there.
    """
    try:
        fd = os.open(
            os.path.join(folder, LOCK_FILE),
            os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
        )
    except OSError:
        return False
    try:
        # A writer that wants the lock in this very moment tries again.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def host_of(folder: str) -> Optional[str]:
    """Return the host of a run's last writer, as its lock file names it."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        fd = os.open(
            os.path.join(folder, LOCK_FILE),
            os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
        )
        try:
            return str(json.loads(os.pread(fd, _LOCK_BYTES, 0).decode("utf-8", "replace"))["host"])[
                :255
            ]
        finally:
            os.close(fd)
    return None


def signature(folder: str) -> Tuple[Tuple[int, ...], ...]:
    """Return what changes when a run's store is written: inode, size in bytes and modification time
    of its files.
    """
    parts: List[Tuple[int, ...]] = []
    for suffix in ("", "-wal"):
        try:
            status = os.lstat(os.path.join(folder, STORE_FILE + suffix))
            parts.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except OSError:
            parts.append(())
    return tuple(parts)
