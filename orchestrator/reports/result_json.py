"""result.json: the whole run as one document, written a row at a time
(schemas/result.schema.json).
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, Sequence, Tuple

from ..judging.limits import Limits
from ..metrics.row import METRICS, Row
from ..store.json_numbers import plain_tree
from .report_context import ReportFile
from .row_json import FIRST_ROW, NEXT_ROW, encode, row_text

RESULT_FILE = "result.json"


def result_chunks(
    summary: Dict[str, Any],
    limits: Limits,
    rows: Iterable[Row],
    omitted: Iterable[Tuple[str, str]] = (),
    metrics: Sequence[str] = METRICS,
    comparison: str = "",
) -> Iterator[str]:
    """Yield the text of result.json piece by piece: pure ASCII, one row a line, no number that JSON
    does not know.

    Parameters
    ----------
    summary
        Plain (:func:`plain_tree`).
    rows
        In the order of the table.
    omitted
        (tensor, reason) of what by the pairing rules has no row.
    comparison
        What was compared, where it was not a device's outputs with golden data: ``replay``;
        ``exact``, two runs bit for bit; ``outputs``, those of a whole network as a program wrote
        them.
    """
    yield head_text(summary, limits, comparison)
    separator = FIRST_ROW
    for row in rows:
        yield separator + row_text(row, metrics)
        separator = NEXT_ROW
    yield from tail_text(omitted)


def head_text(summary: Dict[str, Any], limits: Limits, comparison: str = "") -> str:
    """Return the text before the rows of result.json; ``summary`` must be plain
    (:func:`plain_tree`).
    """
    kind = '"comparison": %s,\n' % encode(comparison) if comparison else ""
    return '{%s"summary": %s,\n"limits": %s,\n"rows": [' % (
        kind,
        encode(summary),
        encode(plain_tree(limits.document())),
    )


def tail_text(omitted: Iterable[Tuple[str, str]]) -> Iterator[str]:
    """Yield the text after the rows of result.json.

    Parameters
    ----------
    omitted
        (tensor, reason) of what by the pairing rules has no row.
    """
    yield '\n],\n"omitted": ['
    separator = "\n"
    for tensor, reason in omitted:
        yield separator + encode({"tensor": tensor, "reason": reason})
        separator = ",\n"
    yield "\n]}\n"


class JsonFile(ReportFile):
    """What result.json holds."""

    def begin(self) -> None:
        """Write what stands before the rows."""
        self._separator = FIRST_ROW
        self.stream.write(
            head_text(dict(self.context.summary), self.context.limits, self.context.comparison)
        )

    def add(self, row: Row) -> None:
        """Write a row."""
        self.stream.write(self._separator + row_text(row, self.context.metrics))
        self._separator = NEXT_ROW

    def end(self) -> None:
        """Write what stands behind the rows."""
        for piece in tail_text(self.context.omitted):
            self.stream.write(piece)
