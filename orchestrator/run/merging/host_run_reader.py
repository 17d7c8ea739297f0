"""One host's run, read in short looks while its own watcher writes it."""

from __future__ import annotations

import os
import queue
import threading
import time
from array import array
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    MutableSequence,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
)

from ...base.errors import FormatError, GoldwatchError, InputError, MissingPath, UsageError
from ...metrics.row import FAIL, NOT_COMPARED, Row
from ...store.integrity import EmptyStore
from ...store.lock import LOCK_FILE
from ...store.opening import STORE_FILE
from ...store.row_schema import from_sql_text, to_sql_text
from ...store.store_reader import StoreReader, is_written, signature
from ...store.stored_networks import SUMMARY

WAITING, RUNNING, FINISHED, STOPPED, SILENT = "waiting", "running", "finished", "stopped", "silent"
T = TypeVar("T")
Ids = MutableSequence[int]
NOT_PASSED = (FAIL, NOT_COMPARED)

_SURE_S = 1.0
"""A store that seems not to have changed is looked at all the same so often: not every file system
tells at once.
"""

NO_ANSWER = "its disk does not answer"
_FEW = 400
_NAME_OUT = "name the OUT folder of each host's watch, not its dumps"

PATIENCE_S = 30.0
"""A disk that does not answer, such as that of an NFS server that is down, holds up who asks for so
long at first, and nobody for ever: it is asked in a thread of its own.
"""


class NoAnswer(Exception):
    """The disk does not answer; it may later."""


class DiskReader:
    """Asks one disk, one question at a time. An answer that comes too late is forgotten, and the
    next question is given twice the time.
    """

    def __init__(self) -> None:
        self._patience_s = PATIENCE_S
        self._questions: queue.Queue[Optional[Tuple[Callable[[], Any], _Answer]]] = queue.Queue()
        self._thread: Optional[threading.Thread] = None
        self._late: Optional[_Answer] = None

    @property
    def waits(self) -> bool:
        """Whether a question has not been answered yet."""
        if self._late is not None and self._late.came.is_set():
            self._late = None
            self._patience_s *= 2
        return self._late is not None

    def ask(self, question: Callable[[], T]) -> T:
        """Return the answer, or raise what the question raises.

        Raises
        ------
        NoAnswer
            There was none in time, or there is none yet to an earlier question.
        """
        if self.waits:
            raise NoAnswer
        if self._thread is None:
            self._thread = threading.Thread(
                target=_answer_all, args=(self._questions,), daemon=True
            )
            self._thread.start()
        answer = _Answer()
        self._questions.put((question, answer))
        if not answer.came.wait(self._patience_s):
            self._late = answer
            raise NoAnswer
        if answer.error is not None:
            raise answer.error
        value: T = answer.values[0]
        return value

    def close(self) -> None:
        """Let the thread end once it has answered."""
        self._questions.put(None)


class _Answer:
    def __init__(self) -> None:
        self.came = threading.Event()
        self.values: List[Any] = []
        self.error: Optional[BaseException] = None


def _answer_all(questions: queue.Queue[Optional[Tuple[Callable[[], Any], _Answer]]]) -> None:
    while True:
        item = questions.get()
        if item is None:
            return
        question, answer = item
        try:
            answer.values.append(question())
        except BaseException as error:  # noqa: BLE001  who asked is told
            answer.error = error
        answer.came.set()


class Unreadable(Exception):
    """A host's run cannot be read now; it may be soon."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__("host %s: %s" % (host, why))
        self.host = host
        self.why = why


class ReadPosition(NamedTuple):
    """How far a run has been read: when its store was made, in nanoseconds since 1970, and the last
    row and event that were taken.
    """

    began_ns: int = 0
    last_id: int = 0
    last_event: int = 0


class RunPosition(NamedTuple):
    """How far a run is now: when its store was made, the last event, the highest id given to a row,
    the last row.
    """

    began_ns: int
    last_event: int
    last_given_id: int
    last_id: int


class HostRun:
    """A host's run.

    Attributes
    ----------
    state
        ``waiting``: there is none yet; ``running``; ``finished``; ``stopped``: nobody writes it,
        and it has not finished; ``silent``: its disk does not answer.
    trouble
        Why it cannot be read, or nothing.
    heard
        The seconds of the monotonic clock when its store was last seen to have changed.
    """

    def __init__(self, host: str, folder: str) -> None:
        self.host = host
        self.folder = folder
        self.state = WAITING
        self.trouble = ""
        self._asker = DiskReader()
        self._last_look: Any = None
        self._looked = -1e9
        self._written: Any = None
        self.heard = time.monotonic()

    @property
    def ended(self) -> bool:
        """Whether no process writes it any more."""
        return self.state in (FINISHED, STOPPED)

    def look(self) -> bool:
        """Tell whether there may be something new to read; its state is current then."""
        try:
            return self._asker.ask(self._looks)
        except NoAnswer:
            self.state, self.trouble, self._last_look = SILENT, NO_ANSWER, None
            return False

    def _looks(self) -> bool:
        # In this order: what a run wrote before it ended is read before its end is reported.
        written = is_written(self.folder)
        look, now = (written, signature(self.folder)), time.monotonic()
        if look[1] != self._written:
            self._written, self.heard = look[1], now
        if look == self._last_look and not self.trouble and now - self._looked < _SURE_S:
            return False
        self._last_look, self._looked = look, now
        return self._look(written)

    def refuse_foreign(self) -> None:
        """Raise InputError for a folder that is no run's and will not become one: other things lie
        there.
        """
        try:
            names = set(self._asker.ask(lambda: os.listdir(self.folder)))
        except NotADirectoryError:
            raise InputError("%s is no folder" % self.folder, hint=_NAME_OUT) from None
        except (OSError, NoAnswer):
            return
        if names and not names & {STORE_FILE, LOCK_FILE}:
            raise InputError(
                "%s holds other files, and no run of a watch: there is no %s"
                % (self.folder, STORE_FILE),
                hint=_NAME_OUT,
            )

    def look_again(self) -> None:
        """Make the next look a certain one."""
        self._last_look = None

    def _look(self, written: bool) -> bool:
        self.trouble = ""
        if not os.path.exists(os.path.join(self.folder, STORE_FILE)):
            self.state = RUNNING if written else WAITING
            return False
        try:
            with HostRunReader(self.folder) as reader:
                finished = not written and reader.fact(SUMMARY) is not None
        except EmptyStore:
            # It is just being created, or its writer was killed: there is no run yet.
            self.state = RUNNING if written else WAITING
            return False
        except (GoldwatchError, OSError) as error:
            if isinstance(error, UsageError):
                raise
            # A writer that is just beginning or ending is readable soon.
            self.trouble = error.message if isinstance(error, GoldwatchError) else str(error)
            self.state = RUNNING if written else STOPPED
            return False
        self.state = RUNNING if written else FINISHED if finished else STOPPED
        return True

    def ask(self, question: Callable[[HostRunReader], T]) -> T:
        """Open its store for a moment; return what a question, which only reads, finds there.

        Raises
        ------
        Unreadable
            For all that goes wrong.
        """
        try:
            return self._asker.ask(lambda: self._read(question))
        except NoAnswer:
            raise Unreadable(self.host, NO_ANSWER) from None
        except (GoldwatchError, OSError) as error:
            raise Unreadable(
                self.host, error.message if isinstance(error, GoldwatchError) else str(error)
            ) from error

    def _read(self, question: Callable[[HostRunReader], T]) -> T:
        with HostRunReader(self.folder) as reader:
            return question(reader)

    def close(self) -> None:
        """Ask no more."""
        self._asker.close()


class HostRunReader(StoreReader):
    """A host's store, open for a moment.

    Raises
    ------
    MissingPath, FormatError, EnvironmentProblem
        There is none, it is damaged or foreign, or it cannot be read now.
    UsageError
        It is itself of several hosts.
    """

    def __init__(self, folder: str) -> None:
        if not os.path.exists(os.path.join(folder, STORE_FILE)):
            raise MissingPath("%s: there is no %s" % (folder, STORE_FILE))
        if not os.path.isfile(os.path.join(folder, STORE_FILE)):
            raise FormatError("%s is not a regular file" % os.path.join(folder, STORE_FILE))
        super().__init__(folder)
        try:
            if self.has_hosts:
                raise UsageError(
                    "%s is itself a merge of several hosts" % folder,
                    hint="name the hosts' own folders",
                )
        except BaseException:
            self.close()
            raise

    def position(self) -> RunPosition:
        """Return how far the run is."""
        # In this order: later events list what is removed from now on.
        return RunPosition(self.began_ns(), self.last_event(), self.last_given_id(), self.last_id())

    def taken_out(self, after: int) -> Tuple[Set[str], int]:
        """Return the ops of which rows were taken out or replaced since an event, and the last
        event.
        """
        last = self.last_event()
        sql = (
            "SELECT DISTINCT op FROM event WHERE id > ? AND id <= ? AND kind IN ('replaced', "
            "'removed', 'damaged') AND op IS NOT NULL"
        )
        return {from_sql_text(op) for (op,) in self.query(sql, (after, last))}, last

    def last_event(self) -> int:
        """Return the id of the last event, 0 without."""
        return int(self.query("SELECT coalesce(max(id), 0) FROM event")[0][0])

    def steps(self, after: int, upto: int) -> Dict[str, Ids]:
        """Return the ids of the rows behind an id, up to another, by step ('' where there is
        none).
        """
        by_step: Dict[str, Ids] = {}
        while after < upto:
            sql = "SELECT id, step FROM row WHERE id > ? AND id <= ? ORDER BY id LIMIT 50000"
            lines = self.query(sql, (after, upto))
            if not lines:
                break
            for number, step in lines:
                by_step.setdefault(from_sql_text(step) or "", array("q")).append(number)
            after = lines[-1][0]
        return by_step

    def count(self, after: int, upto: int) -> int:
        """Return how many rows there are behind an id, up to another."""
        sql = "SELECT count(*) FROM row_at_place WHERE id > ? AND id <= ?"
        return int(self.query(sql, (after, upto))[0][0])

    def lines(self, ids: Sequence[int]) -> Iterator[Tuple[Any, ...]]:
        """Yield what is stored of the rows with these ids, each once, 400 by 400 in their order:
        the values of ``selected``.
        """
        for start in range(0, len(ids), _FEW):
            page: Tuple[int, ...] = tuple(ids[start : start + _FEW])
            first, last = min(page), max(page)
            if last - first < len(page):
                page, which = (first, last), "BETWEEN ? AND ?"
            else:
                which = "IN (%s)" % ", ".join("?" * len(page))
            sql = "SELECT %s FROM row WHERE id %s ORDER BY id" % (self.selected, which)
            yield from self.query(sql, page)

    def ids_of_ops(self, ops: Sequence[str], upto: int) -> Ids:
        """Return the ids of all rows of these ops, up to an id."""
        sql = "SELECT id FROM row WHERE id <= ? AND op IN (%s) ORDER BY id" % ", ".join(
            "?" * len(ops)
        )
        return array("q", [number for (number,) in self.query(sql, (upto, *map(to_sql_text, ops)))])

    def not_passed(self, upto: int) -> Dict[str, Tuple[int, int]]:
        """Return (id, Index) of each row that did not pass, up to an id, by key."""
        sql = 'SELECT key, id, "index" FROM row WHERE verdict IN (?, ?) AND id <= ? ORDER BY id'
        return {
            from_sql_text(key): (number, index)
            for key, number, index in self.query(sql, (*NOT_PASSED, upto))
        }

    def final_failing(self) -> Tuple[Set[str], bool]:
        """Return the keys of the failing rows that are final, and whether all are."""
        finality = self.finality()
        lines = self.query("SELECT id, key FROM row WHERE verdict = ?", (FAIL,))
        final = {
            from_sql_text(key)
            for number, key in lines
            if finality.upto is None or (number <= finality.upto and number not in finality.ids)
        }
        return final, len(final) == len(lines)

    def rows_at(self, ids: Sequence[int]) -> List[Row]:
        """Return rows by id; one that is not as it was stored is left out."""
        rows = []
        for line in self.lines(ids):
            try:
                rows.append(self.row(line))
            except FormatError:
                continue
        return rows

    def place_ids(self, where: Sequence[Optional[str]]) -> List[int]:
        """Return the ids of the rows of a place: time, device, model, model_id, step."""
        terms = " AND ".join(
            "%s IS ?" % name for name in ("time", "device", "model", "model_id", "step")
        )
        return [
            number
            for (number,) in self.query(
                "SELECT id FROM row WHERE %s ORDER BY id" % terms, tuple(map(to_sql_text, where))
            )
        ]

    def place_counts(self, upto: int) -> List[Tuple[Any, ...]]:
        """Return (time, device, model, model_id, step, verdict, rows, outputs that were compared)
        of the rows up to an id.
        """
        compared = (
            "sum(kind = 'output' AND (verdict = 'fail' OR (verdict = 'pass' AND warning <> "
            "'nothing_finite')))"
        )
        names = "time, device, model, model_id, step, verdict"
        sql = "SELECT %s, count(*), %s FROM row WHERE id <= ? GROUP BY %s" % (
            names,
            compared,
            names,
        )
        return [(*map(from_sql_text, line[:6]), *line[6:]) for line in self.query(sql, (upto,))]
