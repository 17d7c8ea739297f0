"""Each metric of each tensor in each step over all devices: how many, the worst, the mean. Exact in whatever order the rows come."""

from __future__ import annotations

import json
import math
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from ..comparing.row import MEASURES
from ..results.rowsql import SqlValue, checksum, from_sql_text, plain_number, to_sql_text
from ..verdict.limits import LARGER, natural_comparison

METRICS = tuple(name for name in MEASURES if name != "StandardDeviation")
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

Group = Tuple[str, str, str, str]
"""Step, op, tensor, model; '' where there is none."""

Query = Callable[[str, Sequence[Any]], List[Tuple[Any, ...]]]
Insert = Callable[[str, Iterable[Sequence[SqlValue]]], None]

_COLUMNS = "step, op, tensor, metric, count, worst, mean, model, total, sum"
_INSERT = "INSERT OR REPLACE INTO step_op (%s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" % _COLUMNS


class Line(NamedTuple):
    """One line of table ``step_op``, but for its names; ``parts`` are numbers whose exact sum is that of all values."""

    devices: int
    worst: float
    parts: Tuple[float, ...]

    @property
    def mean(self) -> float:
        """The sum, rounded once, by the count."""
        return total_of(self.parts) / self.devices


_NOTHING = Line(0, math.nan, ())


def line_of(metric: str, values: Sequence[float], before: Line = _NOTHING) -> Line:
    """Return the line of a metric's values, one at least and none NaN, and those of an earlier line."""
    parts = exact_parts(values if not before.devices else [*values, *before.parts])
    known = values if not before.devices else [*values, before.worst]
    worst = min(known) if natural_comparison(metric) == LARGER else max(known)
    return Line(before.devices + len(values), worst, parts)


def exact_parts(values: Sequence[float]) -> Tuple[float, ...]:
    """Return few numbers with the same exact sum, the first one that sum rounded: what is left behind is summed again until nothing is.

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
    """Return the exact sum, rounded once; NaN and infinite values as float64 adds them, infinite where it is larger than any float64."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return float(sum(values))


class Gathered:
    """The values of rows, by group and metric, until they are written."""

    def __init__(self) -> None:
        self.groups: Dict[Group, Dict[str, List[float]]] = {}

    def add(self, group: Group, metrics: Mapping[str, Any]) -> None:
        """Take a compared row's metrics: numbers, texts for those that are not finite, or None; NaN is no value."""
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = {}
        for name, value in metrics.items():
            if type(value) is not float:
                number = number_of(value)
                if number is None:
                    continue
                value = number
            if value != value:
                continue
            if name in found:
                found[name].append(value)
            else:
                found[name] = [value]

    def write(self, query: Query, insert: Insert) -> None:
        """Add all to the table; inside a transaction."""
        new = {step for step in {group[0] for group in self.groups} if not _is_known(query, step)}
        insert(_INSERT, self._lines(query, new))
        self.groups = {}

    def _lines(self, query: Query, new: Iterable[str]) -> Iterable[Sequence[SqlValue]]:
        for group, metrics in self.groups.items():
            names = tuple(to_sql_text(name) for name in group)
            before = {} if group[0] in new else _lines_of(query, names)
            for metric, values in metrics.items():
                line = line_of(metric, values, before.get(metric, _NOTHING))
                worst, mean, parts = line.worst, line.mean, "[%s]" % ", ".join(map(repr, line.parts))
                if not (math.isfinite(worst) and math.isfinite(mean)):
                    worst, mean, parts = plain_number(worst), plain_number(mean), json.dumps([plain_number(part) for part in line.parts])
                found = (*names[:3], to_sql_text(metric), line.devices, worst, mean, names[3], parts)
                yield (*found, checksum(found))


def _is_known(query: Query, step: str) -> bool:
    return bool(query("SELECT 1 FROM step_op WHERE step = ? LIMIT 1", (to_sql_text(step),)))


def _lines_of(query: Query, names: Sequence[SqlValue]) -> Dict[str, Line]:
    sql = "SELECT metric, count, worst, total FROM step_op WHERE step = ? AND op = ? AND tensor = ? AND model = ?"
    found = query(sql, names)
    return {from_sql_text(metric): Line(count, number_of(worst) or 0.0, parts_of(total)) for metric, count, worst, total in found}


def parts_of(text: str) -> Tuple[float, ...]:
    """Return the numbers of a line's ``total``."""
    return tuple(number_of(part) or 0.0 for part in json.loads(text))


def number_of(value: Any) -> Any:
    """Return a metric of a store as a float, or None where it is no number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return _NON_FINITE.get(value) if isinstance(value, str) else None
