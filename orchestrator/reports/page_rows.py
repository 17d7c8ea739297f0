"""The rows of a run as columns for a page: a fifth of the same rows as objects, and smaller still
when packed.

Metrics have seven significant digits, what a float32 is good for; those of result.json have all.
CosineSimilarity is kept as its distance to 1, taken before it is rounded, so that 0.9999999987 does
not become 1.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set

from ..dumps.place import Place
from ..metrics.row import DIFFERENT, METRICS, VERDICTS, WORST_SLICE, Row
from ..store.row_schema import ROW_COLUMNS

COSINE = "CosineSimilarity"
DEVIATION = "StandardDeviation"
FIRST = (COSINE, "RelativeEuclideanDistance", WORST_SLICE, "MaxAbsoluteError")
KINDS = ROW_COLUMNS["kind"].choices

LABELS = {
    "op": ROW_COLUMNS["op"].label,
    **{name: column.label for name, column in ROW_COLUMNS.items() if column.label},
}
"""The columns of a row that a page shows as text, and what it calls them."""

_DIGITS = "%.7g"
# So many rows are packed at once.
_PACKED_ROWS = 4096
# A limit of Row.decided_by, what it is restricted to left out.
_LIMIT = re.compile(r"(?:.*:)?([^:<>=]+)[<>]=?([-+.0-9a-z]+)\Z")


class PackedColumn(List[Any]):
    """A column of JSON values: here are the last ones, those before are packed text. A million rows
    take a gigabyte as objects, of which a page shows no one at a time.

    Attributes
    ----------
    used
        Whether any value that is packed is not None.
    """

    def __init__(self) -> None:
        super().__init__()
        self.used = False
        self._packed: List[bytes] = []

    def pack(self, count: int) -> None:
        """Pack the values that are here, with None as far as they are fewer than ``count``."""
        self += [None] * (count - len(self))
        self.used = self.used or any(value is not None for value in self)
        text = json.dumps(self, allow_nan=False, separators=(",", ":"))
        self._packed.append(zlib.compress(text[1:-1].encode("ascii"), 1))
        self.clear()

    def json(self) -> Iterator[str]:
        """Yield the JSON array of what is packed, in pieces."""
        yield "["
        for number, packed in enumerate(self._packed):
            yield ("," if number else "") + zlib.decompress(packed).decode("ascii")
        yield "]"


class RowColumns:
    """Collects rows; :meth:`document` is what ``new Rows(document)`` of rows.js takes.

    Parameters
    ----------
    metrics
        The metrics in the order of the table; those that tell most come first, others that a row
        has last.
    """

    def __init__(self, metrics: Sequence[str] = METRICS) -> None:
        self.count = 0
        names = dict.fromkeys(
            (*(name for name in FIRST if name in metrics or name == WORST_SLICE), *metrics)
        )
        self._metrics = {name: PackedColumn() for name in names if name != DEVIATION}
        self._texts: Dict[str, _Texts] = {name: _Texts() for name in LABELS}
        self._places: Dict[Place, int] = {}
        self._plain = {
            name: PackedColumn()
            for name in (
                "place",
                "verdict",
                "kind",
                "index",
                "op_sequence",
                "deviation",
                "slice",
                "nan",
                "inf",
                "overflow",
            )
        }

    def add(self, row: Row) -> None:
        """Take one more row."""
        for name, texts in self._texts.items():
            texts.add(_TEXT_OF[name](row) if name in _TEXT_OF else _plain(getattr(row, name)))
        plain = self._plain
        plain["place"].append(self._places.setdefault(row.place, len(self._places)))
        plain["verdict"].append(VERDICTS.index(row.verdict))
        plain["kind"].append(KINDS.index(row.kind))
        plain["index"].append(row.index)
        plain["op_sequence"].append(row.op_sequence)
        plain["deviation"].append(_deviation(row.metrics.get(DEVIATION)))
        plain["slice"].append(None if row.worst_slice is None else list(row.worst_slice))
        plain["nan"].append(_counts(row.nan))
        plain["inf"].append(_counts(row.inf))
        plain["overflow"].append(None if row.overflow is None else int(row.overflow))
        for name, value in row.metrics.items():
            if name == DEVIATION:
                continue
            column = self._metrics.get(name)
            if column is None:
                column = self._metrics[name] = PackedColumn()
                for _ in range(self.count // _PACKED_ROWS):
                    column.pack(_PACKED_ROWS)
            column += [None] * (self.count % _PACKED_ROWS - len(column))
            column.append(metric_value(name, value))
        self.count += 1
        if self.count % _PACKED_ROWS == 0:
            self._pack()

    def _pack(self) -> None:
        columns = [*self._plain.values(), *self._metrics.values()]
        count = len(self._plain["place"])
        for column in [*columns, *(texts.at for texts in self._texts.values())]:
            column.pack(count)

    def document(self) -> Dict[str, Any]:
        """Return the rows as JSON values, their columns packed; those that hold nothing are left
        out.
        """
        if self._plain["place"]:
            self._pack()
        columns = {name: values for name, values in self._plain.items() if values.used}
        metrics = {name: values for name, values in self._metrics.items() if values.used}
        return {
            "count": self.count,
            "verdicts": list(VERDICTS),
            "kinds": list(KINDS),
            "places": list(map(place_parts, self._places)),
            "texts": {name: texts.document() for name, texts in self._texts.items() if texts.used},
            "columns": columns,
            "metrics": metrics,
        }


def place_parts(place: Place) -> List[Optional[str]]:
    """Return a place as the page holds it: time, device, model, model_id, step, and the host where
    there is one.
    """
    return list(place if place.host is not None else place.parts)


class _Texts:
    """A column of texts, each kept once."""

    def __init__(self) -> None:
        self._numbers: Dict[Optional[str], int] = {}
        self.at = PackedColumn()

    def add(self, value: Optional[str]) -> None:
        self.at.append(self._numbers.setdefault(value, len(self._numbers)))

    @property
    def used(self) -> bool:
        return any(self._numbers)

    def document(self) -> List[Any]:
        return [list(self._numbers), self.at]


def _plain(value: Any) -> Optional[str]:
    return value if value is None or isinstance(value, str) else str(value)


_TEXT_OF = {
    "shape": lambda row: None if row.shape is None else " × ".join(map(str, row.shape)) or "scalar",
    "group": lambda row: ", ".join(row.group) if len(row.group) > 1 else None,
}


def metric_value(name: str, value: Any) -> Any:
    """Return a metric as the page holds it: a number of seven digits (of the cosine 1 less it), a
    text where it is not finite, or None.
    """
    if value is None or isinstance(value, dict):
        return None
    number = float(value)
    if math.isnan(number):
        # Where elements are not counted this metric is NaN, and says nothing.
        return None if name == DIFFERENT else "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return _short(1.0 - number if name == COSINE else number)


def _short(number: float) -> Any:
    rounded = float(_DIGITS % number)
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _deviation(value: Any) -> Optional[List[Any]]:
    if not isinstance(value, dict):
        return None
    return [
        metric_value(DEVIATION, value[side][what])
        for side in ("target", "golden")
        for what in ("mean", "std")
    ]


def _counts(value: Any) -> Optional[List[int]]:
    return None if value is None or not any(value.values()) else [value["target"], value["golden"]]


def drawn_limits(decided: Iterable[str]) -> Dict[str, float]:
    """Return the limits to draw, as distances: those that decided about rows and are the same for
    all.
    """
    by_metric: Dict[str, Set[float]] = {}
    for limit in sorted({limit for limits in decided for limit in limits.split("; ")}):
        match = _LIMIT.match(limit)
        if match is not None:
            metric, value = match.group(1), float(match.group(2))
            by_metric.setdefault(metric, set()).add(1.0 - value if metric == COSINE else value)
    return {
        metric: values.pop()
        for metric, values in by_metric.items()
        if len(values) == 1 and math.isfinite(min(values))
    }
