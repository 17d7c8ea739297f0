"""The options of a comparison, through what a store keeps of them."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from goldwatch.reports.csv_cells import Columns
from goldwatch.run.comparison_options import ComparisonOptions

ASKED_FOR = {"op_sequence": {"op_range": (1, 9, 2)}, "metrics": {"metrics": ("CosineSimilarity",)}}


@pytest.mark.parametrize(
    "name", [field.name for field in fields(Columns) if field.name != "golden_address"]
)
def test_a_column_that_was_asked_for_is_there_after_a_restart(name):
    without = ComparisonOptions("t", "g", "o", model="m.json")
    options = ComparisonOptions("t", "g", "o", model="m.json", **ASKED_FOR.get(name, {name: True}))
    again = ComparisonOptions.from_identity("o", json.loads(json.dumps(options.identity())))
    assert again.columns(golden_address=False) == options.columns(golden_address=False)
    assert getattr(again.columns(golden_address=False), name) != getattr(
        without.columns(golden_address=False), name
    )
