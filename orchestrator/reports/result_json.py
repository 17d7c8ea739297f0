"""result.json: the whole run as one document, written a row at a time
(schemas/result.schema.json).
"""

from __future__ import annotations

from typing import IO, Any, Iterable, Mapping, Tuple

from ..judging.limits import Limits
from ..metrics.row import Row
from ..store.json_numbers import plain_tree
from .report_context import ReportFile
from .row_json import FIRST_ROW, NEXT_ROW, encode, row_text

RESULT_FILE = "result.json"


def write_head(
    stream: IO[str], summary: Mapping[str, Any], limits: Limits, comparison: str = ""
) -> None:
    """Write what stands before the rows of result.json: pure ASCII, no number that JSON does not
    know.

    Parameters
    ----------
    summary
        Plain (:func:`plain_tree`).
    comparison
        What was compared, where it was not a device's outputs with golden data: ``replay``;
        ``exact``, two runs bit for bit; ``outputs``, those of a whole network as a program wrote
        them.
    """
    kind = '"comparison": %s,\n' % encode(comparison) if comparison else ""
    texts = kind, encode(summary), encode(plain_tree(limits.document()))
    stream.write('{%s"summary": %s,\n"limits": %s,\n"rows": [' % texts)


def write_tail(stream: IO[str], omitted: Iterable[Tuple[str, str]]) -> None:
    """Write what stands behind the rows of result.json.

    Parameters
    ----------
    omitted
        (tensor, reason) of what by the pairing rules has no row.
    """
    stream.write('\n],\n"omitted": [')
    separator = "\n"
    for tensor, reason in omitted:
        stream.write(separator + encode({"tensor": tensor, "reason": reason}))
        separator = ",\n"
    stream.write("\n]}\n")


class JsonFile(ReportFile):
    """The whole run as result.json, one row a line."""

    def begin(self) -> None:
        """Write what stands before the rows."""
        self._separator = FIRST_ROW
        context = self.context
        write_head(self.stream, dict(context.summary), context.limits, context.comparison)

    def add(self, row: Row) -> None:
        """Write a row."""
        self.stream.write(self._separator + row_text(row, self.context.metrics))
        self._separator = NEXT_ROW

    def end(self) -> None:
        """Write what stands behind the rows."""
        write_tail(self.stream, self.context.omitted)
