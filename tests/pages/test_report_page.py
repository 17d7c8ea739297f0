"""The report as a file: size, what it has without scripts, escaped names, details of compare-op."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from report_pages import HOSTILE, make_row, network, write_page

from goldwatch.reports import page_rows
from goldwatch.reports.page_rows import RowColumns, metric_value
from goldwatch.reports.pages.html_file import data_block


class Parts(HTMLParser):
    """Finds elements with their attributes, and what stands in them."""

    def __init__(self, page) -> None:
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])

    def handle_data(self, data):
        if self.elements:
            self.elements[-1][2] += data

    def with_attribute(self, name, tag=None):
        return [
            (attrs, data)
            for kind, attrs, data in self.elements
            if name in attrs and tag in (None, kind)
        ]


def test_a_page_of_a_thousand_ops_is_below_a_megabyte(tmp_path):
    rows = [
        row.but(tensor=row.op + kind, kind=kind[1:-2])
        for row in network(1000, 400)
        for kind in (":input:0", ":input:1", ":output:0")
    ]
    assert len(write_page(tmp_path / "page.html", rows, [1202]).encode()) < 1e6


def test_a_page_of_ten_thousand_rows_is_below_two_megabytes(tmp_path):
    assert len(write_page(tmp_path / "page.html", network(10000, 4000), [4000]).encode()) < 2e6


def test_without_its_script_the_page_has_verdict_and_suspects(tmp_path):
    rows = network(1000, 400)
    parts = Parts(write_page(tmp_path / "page.html", rows, [700]))
    assert [attrs["data-op"] for attrs, _ in parts.with_attribute("data-op")] == [rows[700].op]
    assert "One operator is wrong." in "".join(data for _, _, data in parts.elements)
    (command,) = [
        data.strip() for _, attrs, data in parts.elements if attrs.get("class") == "command"
    ]
    assert command == "goldwatch compare-op dump golden '%s'" % rows[700].op


def test_names_in_the_page_are_escaped(tmp_path):
    row = make_row(
        1, 0.5, op=HOSTILE, op_type=HOSTILE, golden=HOSTILE, target_file=HOSTILE, reason=HOSTILE
    )
    page = write_page(
        tmp_path / "page.html", [make_row(), row], [1], sentence=HOSTILE, inputs={"target": HOSTILE}
    )
    parts = Parts(page)
    assert [kind for kind, *_ in parts.elements].count("script") == 3 and not [
        kind for kind, *_ in parts.elements if kind == "img"
    ]
    assert [attrs["data-op"] for attrs, _ in parts.with_attribute("data-op")] == [HOSTILE]
    # In attributes for scripts only, and there as a reference.
    assert "\u202e" not in page
    assert page.count("&#8238;") == len(re.findall('data-op="a&lt;/script', page)) == 1


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("CosineSimilarity", 1 - 2.0**-40, 9.094947e-13),
        ("CosineSimilarity", 1.0, 0),
        ("CosineSimilarity", float("nan"), "NaN"),
        ("MaxAbsoluteError", 0.12345678912, 0.1234568),
        ("MaxAbsoluteError", float("inf"), "Infinity"),
        ("DifferentElements", float("nan"), None),
        ("MaxAbsoluteError", None, None),
    ],
)
def test_numbers_keep_seven_digits_and_a_cosine_its_distance_from_one(name, value, kept):
    assert metric_value(name, value) == kept


@pytest.mark.parametrize("packed_rows", [4, 1024])
def test_row_columns_give_back_every_row(monkeypatch, packed_rows):
    monkeypatch.setattr(page_rows, "_PACKED_ROWS", packed_rows)
    rows = [make_row(number, 10.0**-number) for number in range(4)] + [
        make_row(9, metrics={"Own": 0.5}),
        make_row(10, metrics={}),
    ]
    columns = RowColumns()
    for row in rows:
        columns.add(row)
    block = data_block("data", columns.document())
    found = json.loads(block[block.index(">") + 1 : block.rindex("<")])
    for name in ("op", "tensor", "op_type", "target_file"):
        texts, at = found["texts"][name]
        assert [texts[number] for number in at] == [getattr(row, name) for row in rows]
    assert found["metrics"]["Own"] == [None, None, None, None, 0.5, None]
    assert found["metrics"]["MaxAbsoluteError"][4:] == [None, None]
    assert [found["verdicts"][number] for number in found["columns"]["verdict"]] == [
        row.verdict for row in rows
    ]
    assert "StandardDeviation" not in found["metrics"] and found["columns"]["deviation"][0] == [
        0.5,
        1.25,
        -0.5,
        1,
    ]
