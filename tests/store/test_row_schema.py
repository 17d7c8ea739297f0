"""What derives from the table of a row's columns is as that says."""

from __future__ import annotations

import os
import subprocess
import sys

from goldwatch.metrics.row import METRICS, Row, columns_of
from goldwatch.reports.csv_cells import Columns, header
from goldwatch.schemas import load_schema
from goldwatch.store.row_schema import TYPES

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_the_generated_schemas_are_up_to_date():
    script = os.path.join(ROOT, "scripts", "row_schema")
    assert subprocess.call([sys.executable, script, "--check"]) == 0, "run scripts/row_schema"


def test_every_column_has_a_type_and_a_meaning():
    for column in columns_of(Row):
        assert column.annotation in TYPES or column.name == "metrics"
        assert column.meaning


def test_every_field_of_result_json_is_described():
    fields = load_schema("result")["definitions"]["row"]["properties"]
    assert {name for name, field in fields.items() if field["description"]} == {
        column.name for column in columns_of(Row) if column.in_json
    }


def test_every_csv_heading_is_a_column_of_the_row():
    everything = header(Columns(True, True, True))
    headings = [column.heading for column in columns_of(Row) if column.heading]
    assert sorted(everything) == sorted([*headings, *METRICS])
