"""The cells of a row's line in a result table."""

from __future__ import annotations

import csv

from goldwatch.reports.csv_cells import Columns, table_line

DEFAULT = Columns()


def cells_of(row, columns=DEFAULT):
    """Return the cells, as who reads the table finds them."""
    (cells,) = csv.reader([table_line(row, columns)])
    return cells
