"""What is generated from the table of a row's columns is up to date."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from importlib.machinery import SourceFileLoader
from types import ModuleType

import pytest

from goldwatch.metrics.row import METRICS, Row, columns_of
from goldwatch.reports.csv_cells import Columns, header
from goldwatch.schemas import load_schema
from goldwatch.store.integrity import LAYOUT_VERSION
from goldwatch.store.row_schema import TYPES

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


SCRIPT = os.path.join(ROOT, "scripts", "row_schema")


def test_the_generated_schemas_are_up_to_date():
    assert subprocess.call([sys.executable, SCRIPT, "--check"]) == 0, "run scripts/row_schema"


def test_other_tables_of_a_store_need_a_higher_version(monkeypatch):
    script = ModuleType("row_schema")
    script.__file__ = SCRIPT
    SourceFileLoader("row_schema", SCRIPT).exec_module(script)
    sql = script.tables_sql()
    recorded = "%d:%s" % (LAYOUT_VERSION, script.digest_of(sql))
    assert script.recorded_layout(sql, recorded) == recorded
    changed = sql.replace("op_type TEXT", "op_type BLOB")
    with pytest.raises(SystemExit, match="LAYOUT_VERSION .* must be one higher"):
        script.recorded_layout(changed, recorded)
    monkeypatch.setattr(script, "LAYOUT_VERSION", LAYOUT_VERSION + 1)
    assert script.recorded_layout(changed, recorded).startswith("%d:" % (LAYOUT_VERSION + 1))


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
    optional = [field.name for field in fields(Columns) if field.name != "metrics"]
    everything = header(Columns(**dict.fromkeys(optional, True)))
    headings = [column.heading for column in columns_of(Row) if column.heading]
    assert sorted(everything) == sorted([*headings, *METRICS])
