"""What a merge of several hosts says of each metric over all devices: table ``step_op``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..base.errors import FormatError
from ..judging.limits import LARGER, natural_comparison
from .row_schema import from_sql_text

_FIELDS = ("step", "model", "op", "tensor", "metric", "count", "worst", "mean")
_NAMES = ", ".join(_FIELDS)
_ORDER = "CAST(step AS INTEGER), step, model, op, tensor, metric"
_FEW = 500

_DISTANCE = "RelativeEuclideanDistance"
_MOST_DRAWN = 1000000
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")

Query = Callable[..., List[Tuple[Any, ...]]]


class DeviceMetrics(NamedTuple):
    """What one metric is at worst over all devices of all hosts.

    Attributes
    ----------
    metric
        Its name.
    worst
        For each model, op and step the value of its outputs that is farthest from golden data; a
        text where that is not finite.
    """

    metric: str
    worst: Sequence[Tuple[str, str, str, Any]]


def worst_step_ops(query: Query, metric: str, limit: int) -> List[Dict[str, Any]]:
    """Return the lines of one metric as documents, the worst first; numbers that are not finite are
    texts.

    Parameters
    ----------
    query
        Asks the store: SQL, then values.
    limit
        At most so many.
    """
    order = "ASC" if natural_comparison(metric) == LARGER else "DESC"
    sql = "SELECT %s FROM step_op WHERE metric = ? ORDER BY worst %s, %s LIMIT ?" % (
        _NAMES,
        order,
        _ORDER,
    )
    return [dict(zip(_FIELDS, map(from_sql_text, line))) for line in query(sql, (metric, limit))]


def metrics_of_step_ops(query: Query) -> List[str]:
    """Return the metrics that some device has a value of."""
    return sorted(
        from_sql_text(metric) for (metric,) in query("SELECT DISTINCT metric FROM step_op")
    )


def worst_outputs(query: Query, metrics: Sequence[str]) -> Optional[DeviceMetrics]:
    """Return what each op of each step has at worst; None where there is nothing, or more than a
    million of them, too many to draw.

    Parameters
    ----------
    metrics
        Those of the run, in the order of the table: of the relative distance, or else of the first
        that some device has.

    Raises
    ------
    FormatError
        It holds what is no number.
    """
    names = metrics_of_step_ops(query)
    known = [name for name in (_DISTANCE, *metrics, *names) if name in names]
    if not known:
        return None
    # A text, which is not finite, is more than any number for SQLite, too.
    worst = "min(worst)" if natural_comparison(known[0]) == LARGER else "max(worst)"
    outputs = "metric = ? AND tensor GLOB '*:output:[0-9]*'"
    sql = "SELECT model, op, step, %s FROM step_op WHERE %s GROUP BY model, op, step LIMIT ?" % (
        worst,
        outputs,
    )
    lines = query(sql, (known[0], _MOST_DRAWN + 1))
    if not lines or len(lines) > _MOST_DRAWN:
        return None
    if not all(isinstance(value, (int, float)) or value in _NOT_FINITE for *_, value in lines):
        raise FormatError("damaged: table step_op holds what is no number")
    name_of = lru_cache(maxsize=None)(from_sql_text)
    return DeviceMetrics(
        known[0],
        [(name_of(model), name_of(op), name_of(step), value) for model, op, step, value in lines],
    )


def step_op_lines(query: Query) -> Iterator[Tuple[Any, ...]]:
    """Yield the lines by steps, models and ops: step, model, op, tensor, metric, count, worst,
    mean.
    """
    numbers = [number for (number,) in query("SELECT rowid FROM step_op ORDER BY %s" % _ORDER)]
    for start in range(0, len(numbers), _FEW):
        page = numbers[start : start + _FEW]
        sql = "SELECT rowid, %s FROM step_op WHERE rowid IN (%s)" % (
            _NAMES,
            ", ".join("?" * len(page)),
        )
        lines = {line[0]: line[1:] for line in query(sql, page)}
        yield from (lines[number] for number in page)
