"""What the store and the result files need of a row, made in the process that compared it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Optional

from ..metrics.row import Row
from .rendered_rows import RenderedRow, Renderer
from .rowsql import Line, row_line


class PreparedRow(NamedTuple):
    """A row as the store has it, and rendered for finishing (None: finishing reads it from the
    store).
    """

    line: Line
    rendered: Optional[RenderedRow]


@dataclass(frozen=True)
class Preparer:
    """Prepares rows, wherever they are made; picklable."""

    render: Optional[Renderer]

    def __call__(self, row: Row) -> PreparedRow:
        """Prepare a row."""
        return PreparedRow(row_line(row), None if self.render is None else self.render(row))
