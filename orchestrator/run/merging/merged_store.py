"""The merged store: rows of the hosts go in, each once, and what a host takes back goes out
again.
"""

from __future__ import annotations

import json
import math
from functools import partial
from operator import itemgetter
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ...base.errors import FormatError
from ...dumps.place import Place, name_order
from ...judging.diagnosis.first_divergence import earlier
from ...judging.diagnosis.row_digest import execution_key
from ...judging.limits import LARGER, natural_comparison
from ...metrics.row import FAIL, MEASURES, NOT_COMPARED, NOTHING_FINITE, PASS, VERDICTS, Row
from ...store.host_facts import HOSTS
from ...store.json_numbers import NON_FINITE, plain_number
from ...store.row_schema import COLUMNS, SqlValue, from_sql_text, to_sql_text
from ...store.row_sql import checksum, row_key
from ...store.store import RunStore
from .host_run_reader import NOT_PASSED, HostRun, HostRunReader, Ids, ReadPosition

METRICS = tuple(name for name in MEASURES if name != "StandardDeviation")

Group = Tuple[SqlValue, SqlValue, SqlValue, SqlValue]
"""Step, op, tensor, model as the store has them; '' where there is none."""

Query = Callable[[str, Sequence[Any]], List[Tuple[Any, ...]]]
Insert = Callable[[str, Iterable[Sequence[SqlValue]]], None]

_COLUMNS = "step, op, tensor, metric, count, worst, mean, model, total, sum"
_INSERT_METRICS = (
    "INSERT OR REPLACE INTO step_op (%s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" % _COLUMNS
)


class Line(NamedTuple):
    """One line of table ``step_op``, but for its names; ``parts`` are numbers whose exact sum is
    that of all values.
    """

    devices: int
    worst: float
    parts: Tuple[float, ...]

    @property
    def mean(self) -> float:
        """The sum, rounded once, by the count."""
        return total_of(self.parts) / self.devices


_NOTHING = Line(0, math.nan, ())


def line_of(metric: str, values: Sequence[float], before: Line = _NOTHING) -> Line:
    """Return the line of table ``step_op`` for a metric's values of several devices, one at least
    and none NaN, and those of an earlier line.
    """
    parts = exact_parts(values if not before.devices else [*values, *before.parts])
    known = values if not before.devices else [*values, before.worst]
    worst = min(known) if natural_comparison(metric) == LARGER else max(known)
    return Line(before.devices + len(values), worst, parts)


def exact_parts(values: Sequence[float]) -> Tuple[float, ...]:
    """Return few numbers with the same exact sum, the first one that sum rounded: what is left
    behind is summed again until nothing is.

    A sum that is not finite is one number: NaN, or infinite, as float64 adds them.
    """
    if len(values) == 1:
        return tuple(values)
    total = total_of(values)
    if not math.isfinite(total):
        return (total,)
    rest, parts = list(values), []
    while total:
        parts.append(total)
        rest.append(-total)
        total = math.fsum(rest)
    return tuple(parts)


def total_of(values: Sequence[float]) -> float:
    """Return the exact sum, rounded once; NaN and infinite values as float64 adds them, infinite
    where it is larger than any float64.
    """
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return float(sum(values))


class Gathered:
    """The values of rows, by group and metric, until they are written."""

    def __init__(self) -> None:
        self._rows: Dict[Group, List[Sequence[SqlValue]]] = {}
        self._user_metrics: Dict[Group, List[str]] = {}

    def add(self, group: Group, metrics: Sequence[SqlValue], user_metrics: Optional[str]) -> None:
        """Take a compared row's :data:`METRICS` and the user's own, as the store has them."""
        rows = self._rows.get(group)
        if rows is None:
            rows = self._rows[group] = []
        rows.append(metrics)
        if user_metrics is not None:
            self._user_metrics.setdefault(group, []).append(user_metrics)

    def write(self, query: Query, insert: Insert) -> None:
        """Add all to the table; inside a transaction."""
        new = {
            step
            for step in {group[0] for group in self._rows}
            if not query("SELECT 1 FROM step_op WHERE step = ? LIMIT 1", (step,))
        }
        insert(_INSERT_METRICS, self._lines(query, new))
        self._rows, self._user_metrics = {}, {}

    def _lines(self, query: Query, new: Set[SqlValue]) -> Iterator[Sequence[SqlValue]]:
        # About in the order of the table's key: SQLite then changes each of its pages once.
        for group in sorted(self._rows, key=ascii):
            before = {} if group[0] in new else _lines_of(query, group)
            for metric, values in self._values(group):
                line = line_of(metric, values, before.get(metric, _NOTHING))
                worst, mean, parts = (
                    line.worst,
                    line.mean,
                    "[%s]" % ", ".join(map(repr, line.parts)),
                )
                if not (math.isfinite(worst) and math.isfinite(mean)):
                    worst, mean, parts = (
                        plain_number(worst),
                        plain_number(mean),
                        json.dumps([plain_number(part) for part in line.parts]),
                    )
                stored = (
                    *group[:3],
                    to_sql_text(metric),
                    line.devices,
                    worst,
                    mean,
                    group[3],
                    parts,
                )
                yield (*stored, checksum(stored))

    def _values(self, group: Group) -> Iterator[Tuple[str, List[float]]]:
        """Yield each metric that has a value, with its values."""
        by_metric = dict(zip(METRICS, map(_numbers, zip(*self._rows[group]))))
        user_metrics: Dict[str, List[Any]] = {}
        for text in self._user_metrics.get(group, ()):
            for name, value in json.loads(text).items():
                user_metrics.setdefault(name, []).append(value)
        by_metric.update((name, _numbers(values)) for name, values in user_metrics.items())
        return ((name, values) for name, values in by_metric.items() if values)


def _numbers(values: Sequence[Any]) -> List[float]:
    """Return the values that are numbers, NaN excluded."""
    numbers = [value for value in values if type(value) is float]
    if len(numbers) < len(values):
        numbers = [number for number in map(number_of, values) if number is not None]
    return [number for number in numbers if number == number]


def _lines_of(query: Query, names: Group) -> Dict[str, Line]:
    sql = (
        "SELECT metric, count, worst, total FROM step_op WHERE step = ? AND op = ? AND tensor = ? "
        "AND model = ?"
    )
    lines = query(sql, names)
    return {
        from_sql_text(metric): Line(count, number_of(worst) or 0.0, parts_of(total))
        for metric, count, worst, total in lines
    }


def parts_of(text: str) -> Tuple[float, ...]:
    """Return the numbers of a line's ``total``."""
    return tuple(number_of(part) or 0.0 for part in json.loads(text))


def number_of(value: Any) -> Any:
    """Return a metric of a store as a float, or None where it is no number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return NON_FINITE.get(value) if isinstance(value, str) else None


_AT = {name: number for number, name in enumerate(COLUMNS)}
_PLACE = slice(_AT["time"], _AT["step"] + 1)
_METRICS = itemgetter(*(_AT[name] for name in METRICS))
_COUNT = {verdict: number for number, verdict in enumerate(VERDICTS)}
_VERDICT, _KIND, _WARNING, _OWN = (
    _AT[name] for name in ("verdict", "kind", "warning", "user_metrics")
)
_GROUP = itemgetter(*(_AT[name] for name in ("step", "op", "tensor", "model")))
PLAN = "batch"
"""The fact that tells how far a batch of several transactions is."""

_OPS = 50
_PAGE_ROWS = 3000

_INSERT = "INSERT OR REPLACE INTO host_place VALUES (%s)" % ", ".join("?" * 13)


class PlaceTable:
    """The counts of all places; kept in memory, changed lines are written by :meth:`write`.

    Attributes
    ----------
    counts
        By place: rows of each of :data:`VERDICTS`, then outputs that were compared.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._changed: Set[Place] = set()
        self.counts: Dict[Place, List[int]] = {}
        columns = (
            "time, device, model, model_id, step, host, passed, failed, not_compared, "
            "expected_absent, outputs"
        )
        for line in store.query("SELECT %s FROM host_place" % columns):
            self.counts[Place(*line[:6])] = list(line[6:])

    def change(self, place: Place) -> List[int]:
        """Return a place's counts, which are going to change."""
        self._changed.add(place)
        return self.counts.setdefault(place, [0] * 5)

    def replace(self, host: str, lines: Iterable[Tuple[Any, ...]]) -> None:
        """Take a host's counts, those of
        :meth:`goldwatch.run.merging.host_run_reader.HostRunReader.place_counts`.
        """
        self.forget(host)
        for *names, verdict, rows, outputs in lines:
            place = Place(*names)._replace(host=host)
            counts = self.change(place)
            counts[VERDICTS.index(verdict)] += rows
            counts[4] += outputs

    def forget(self, host: str) -> None:
        """Drop a host's counts."""
        self._store.connection.write_lines(
            "DELETE FROM host_place WHERE host = ?", [(to_sql_text(host),)]
        )
        for place in [place for place in self.counts if place.host == host]:
            del self.counts[place]
        self._changed = {place for place in self._changed if place.host != host}

    def write(self) -> None:
        """Write the lines that changed; inside a transaction."""
        lines = []
        for place in self._changed:
            names = [to_sql_text(part) for part in (place.host, *place.parts)]
            values = (json.dumps([place.host, *place.parts]), *names, *self.counts[place])
            lines.append((*values, checksum(values)))
        self._store.connection.write_lines(_INSERT, lines)
        self._changed.clear()


class MergedStore:
    """Rows of the hosts in one store.

    Parameters
    ----------
    store
        Of several hosts, open for writing.
    most
        Of the rows that did not pass at most so many are stored: those that came first, failing
        ones before others, and always the first in execution order.

    Attributes
    ----------
    reads
        How far each host's run has been read.
    first
        The first failing row of all hosts in execution order, or None.
    unreadable
        By host how many rows were not as their store had stored them.
    """

    def __init__(self, store: RunStore, most: int) -> None:
        self.store = store
        self.most = most
        self.unreadable: Dict[str, int] = {}
        self.reload()

    def reload(self) -> None:
        """Read from the store what is kept in memory, because a transaction was taken back."""
        self.places = PlaceTable(self.store)
        self.reads = {host: ReadPosition(*read) for host, read in self.store.get(HOSTS, {}).items()}
        self._gathered = Gathered()
        marks = ", ".join("?" * len(NOT_PASSED))
        self._stored = int(
            self.store.query(
                "SELECT count(*) FROM row_at_place WHERE verdict IN (%s)" % marks, NOT_PASSED
            )[0][0]
        )
        self.first = self._first_stored()
        self.newly: List[Row] = []

    def note_read(self, host: str, read: ReadPosition) -> None:
        """Note how far a host's run has been read; inside the transaction that stores what was
        read.
        """
        self.reads[host] = read
        self.store.set(HOSTS, self.reads)

    def take(self, host: str, reader: HostRunReader, lines: Iterable[Tuple[Any, ...]]) -> None:
        """Take rows of a host as they are stored there; inside a transaction, :meth:`write` before
        its end.
        """
        places: Dict[Tuple[Any, ...], List[int]] = {}
        for line in lines:
            verdict = line[_VERDICT]
            if checksum(line[:-1]) != line[-1] or verdict not in _COUNT:
                self.unreadable[host] = self.unreadable.get(host, 0) + 1
                continue
            counts = places.get(line[_PLACE])
            if counts is None:
                place = Place(*map(from_sql_text, line[_PLACE]))._replace(host=host)
                counts = places[line[_PLACE]] = self.places.change(place)
            counts[_COUNT[verdict]] += 1
            if line[_KIND] == "output" and (
                verdict == FAIL or (verdict == PASS and line[_WARNING] != NOTHING_FINITE)
            ):
                counts[-1] += 1
            self._gather(line)
            if verdict in NOT_PASSED:
                self._keep(reader, host, line)

    def _gather(self, line: Sequence[Any]) -> None:
        if line[_VERDICT] in (PASS, FAIL):
            step, op, tensor, model = _GROUP(line)
            self._gathered.add(
                (step or "", op, tensor or "", model or ""), _METRICS(line), line[_OWN]
            )

    def _keep(self, reader: HostRunReader, host: str, line: Tuple[Any, ...]) -> None:
        full = self._stored >= self.most
        if (
            full
            and (line[_VERDICT] != FAIL or self._is_later(line))
            and not (
                line[_VERDICT] == FAIL
                and self.store.query("SELECT 1 FROM row WHERE verdict = ? LIMIT 1", (NOT_COMPARED,))
            )
        ):
            return
        try:
            row = reader.row(line).but(host=host)
        except FormatError:
            self.unreadable[host] = self.unreadable.get(host, 0) + 1
            return
        self.keep(row)

    def _is_later(self, line: Sequence[Any]) -> bool:
        step = from_sql_text(line[_AT["step"]])
        return self.first is not None and name_order(step) > name_order(self.first.step)

    def keep(self, row: Row) -> None:
        """Store a row that did not pass, if there is room or it is worth another's."""
        key = row_key(row)
        first = earlier(self.first, row)
        is_first = first is not self.first
        is_known = bool(self.store.query("SELECT 1 FROM row WHERE key = ?", (to_sql_text(key),)))
        if self._stored >= self.most and not is_known and not self._make_room(row, is_first):
            return
        if not is_known:
            self._stored += 1
            self.newly.append(row)
        self.store.put(row)
        self.first = first

    def _make_room(self, row: Row, is_first: bool) -> bool:
        """Take out a row that says less than this one; tell whether there was one."""
        if row.verdict != FAIL:
            return False
        for verdict in (NOT_COMPARED, FAIL) if is_first else (NOT_COMPARED,):
            keys = self.store.query(
                "SELECT key FROM row WHERE verdict = ? ORDER BY id DESC LIMIT 1", (verdict,)
            )
            if keys:
                self._remove([from_sql_text(keys[0][0])], "others take the room that there is")
                return True
        return False

    def _remove(self, keys: Sequence[str], why: str) -> None:
        self.store.table.remove(keys, why)
        self._stored -= len(keys)

    def write(self) -> None:
        """Write what the rows that were taken come to; inside their transaction."""
        self._gathered.write(self.store.query, self.store.connection.write_lines)
        self.places.write()

    def start_over(self) -> None:
        """Gather all anew from the first row of every host; rows that are there stay where they are
        found again.
        """
        with self.store.transaction():
            self.store.connection.write_lines("DELETE FROM step_op", [()])
            self.store.connection.write_lines("DELETE FROM host_place", [()])
            self.store.set(HOSTS, {})
            self.store.set(PLAN, None)
        self.reload()

    def forget(self, host: str) -> None:
        """A host's run was begun anew: its rows go, and what all rows came to is gathered anew from
        the first row of every host.
        """
        with self.store.transaction():
            self._remove(list(self._keys_of(host)), "the run of host %s was begun anew" % host)
            self.start_over()

    def _keys_of(self, host: str) -> Dict[str, int]:
        """Return the Index by key of a host's stored rows that did not pass."""
        sql = 'SELECT key, "index" FROM row WHERE host = ? AND verdict IN (?, ?)'
        return {
            from_sql_text(key): index
            for key, index in self.store.query(sql, (to_sql_text(host), *NOT_PASSED))
        }

    def reconcile(self, source: HostRun) -> None:
        """Compare a host's rows that did not pass, and its counts, with those of its run: some may
        have gone or have other numbers.

        Raises
        ------
        Unreadable
            The run cannot be read now; nothing has changed.
        """
        host, upto = source.host, self.reads[source.host].last_id
        tail = ",%s]" % json.dumps(host)
        bad, counts, first_failing = source.ask(
            lambda reader: (
                reader.not_passed(upto),
                reader.place_counts(upto),
                reader.first_failing(),
            )
        )
        by_key = {key[:-1] + tail: about for key, about in bad.items()}
        stored = self._keys_of(host)
        gone = [key for key in stored if key not in by_key]
        changed = [
            number for key, (number, index) in by_key.items() if stored.get(key, index) != index
        ]
        missing = [number for key, (number, _) in by_key.items() if key not in stored]
        room = max(0, self.most - self._stored + len(gone))
        rows = source.ask(lambda reader: reader.rows_at(changed + missing[:room]))
        with self.store.transaction():
            if gone:
                self._remove(gone, "host %s took it back" % host)
            for row in rows:
                self.keep(row.but(host=host))
            self.places.replace(host, counts)
            self.places.write()
            if self.first is not None and self.first.host == host:
                self.first = self._first_stored()
                if first_failing is not None:
                    self.keep(first_failing.but(host=host))

    def _first_stored(self) -> Optional[Row]:
        steps = [
            from_sql_text(step)
            for (step,) in self.store.query(
                "SELECT DISTINCT step FROM row WHERE verdict = ?", (FAIL,)
            )
        ]
        if not steps:
            return None
        sql = (
            "SELECT DISTINCT time, device, model, model_id, step, host FROM row WHERE verdict = ? "
            "AND step IS ?"
        )
        lines = self.store.query(sql, (FAIL, to_sql_text(min(steps, key=name_order))))
        places = [Place(*map(from_sql_text, line)) for line in lines]
        return min(
            (row for place in places for row in self.store.rows("arrival", place, FAIL)),
            key=execution_key,
        )

    def recount(self, ops: Set[str], sources: Sequence[HostRun]) -> None:
        """Gather the metrics of some ops anew, because rows of them were taken out.

        Raises
        ------
        Unreadable
            A run cannot be read now: the same may be tried again.
        """
        ordered, self._gathered = sorted(ops), Gathered()
        for start in range(0, len(ordered), _OPS):
            page = ordered[start : start + _OPS]
            with self.store.transaction():
                self.store.connection.write_lines(
                    "DELETE FROM step_op WHERE op = ?", [(to_sql_text(op),) for op in page]
                )
                for source in sources:
                    read = self.reads.get(source.host)
                    if read is None or not read.last_id:
                        continue
                    ids = source.ask(partial(HostRunReader.ids_of_ops, ops=page, upto=read.last_id))
                    for at in range(0, len(ids), _PAGE_ROWS):
                        for line in source.ask(partial(_lines, ids=ids[at : at + _PAGE_ROWS])):
                            if checksum(line[:-1]) == line[-1]:
                                self._gather(line)
                    self._gathered.write(self.store.query, self.store.connection.write_lines)


def _lines(reader: HostRunReader, ids: Ids) -> List[Tuple[Any, ...]]:
    return list(reader.lines(ids))
