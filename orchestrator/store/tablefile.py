"""The result table as one file of a report, and result.json as another."""

from __future__ import annotations

import csv

from ..metrics.row import Row
from .csvfile import NOTHING, cells, header, text_cell
from .jsonfile import FIRST_ROW, NEXT_ROW, head_text, row_text, tail_text
from .report_context import ReportFile

PLACE_HEADER = ("Time", "Device", "Model", "ModelId", "Step")


class CsvFile(ReportFile):
    """The table that a comparison writes for a place; where a run has several, one table of all,
    the place before the other columns.
    """

    def begin(self) -> None:
        """Write the header."""
        self._writer = csv.writer(self.stream, lineterminator="\n")
        hosts = any(place.host is not None for place in self.told.places)
        self._several = hosts or len(self.told.places) > 1
        places = PLACE_HEADER if self._several else ()
        self._writer.writerow([*(("Host",) if hosts else ()), *places, *header(self.told.columns)])

    def add(self, row: Row) -> None:
        """Write a row."""
        place = (
            [NOTHING if part is None else text_cell(part) for part in row.place.document().values()]
            if self._several
            else []
        )
        self._writer.writerow(place + cells(row, self.told.columns))


class JsonFile(ReportFile):
    """What result.json holds."""

    def begin(self) -> None:
        """Write what stands before the rows."""
        self._separator = FIRST_ROW
        self.stream.write(
            head_text(dict(self.told.summary), self.told.limits, self.told.comparison)
        )

    def add(self, row: Row) -> None:
        """Write a row."""
        self.stream.write(self._separator + row_text(row, self.told.metrics))
        self._separator = NEXT_ROW

    def end(self) -> None:
        """Write what stands behind the rows."""
        for piece in tail_text(self.told.omitted):
            self.stream.write(piece)
