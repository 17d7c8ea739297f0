"""Each metric of each tensor in each step over all devices: how many, the worst, the mean. Exact in
whatever order the rows come.
"""

from __future__ import annotations

import json
import math
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

from ..judging.limits import LARGER, natural_comparison
from ..metrics.row import MEASURES
from ..store.json_numbers import NON_FINITE, plain_number
from ..store.row_schema import SqlValue, from_sql_text, to_sql_text
from ..store.row_sql import checksum

METRICS = tuple(name for name in MEASURES if name != "StandardDeviation")

Group = Tuple[SqlValue, SqlValue, SqlValue, SqlValue]
"""Step, op, tensor, model as the store has them; '' where there is none."""

Query = Callable[[str, Sequence[Any]], List[Tuple[Any, ...]]]
Insert = Callable[[str, Iterable[Sequence[SqlValue]]], None]

_COLUMNS = "step, op, tensor, metric, count, worst, mean, model, total, sum"
_INSERT = "INSERT OR REPLACE INTO step_op (%s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" % _COLUMNS


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
    """Return the line of a metric's values, one at least and none NaN, and those of an earlier
    line.
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
        new = {step for step in {group[0] for group in self._rows} if not _is_known(query, step)}
        insert(_INSERT, self._lines(query, new))
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


def _is_known(query: Query, step: SqlValue) -> bool:
    return bool(query("SELECT 1 FROM step_op WHERE step = ? LIMIT 1", (step,)))


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
