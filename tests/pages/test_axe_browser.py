"""Accessibility of pages as axe-core sees it: contrast, names and roles."""

from __future__ import annotations

import pytest
from browser import accessibility_faults, element, resize, show
from graph_page import find
from report_pages import make_row, network, write_page

from goldwatch.reports.difference import difference_of
from goldwatch.reports.pages.diff_page import diff_page
from goldwatch.store.store import RunStore

pytestmark = [pytest.mark.browser, pytest.mark.axe]
SIZES = pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])


@SIZES
def test_a_report_and_its_rows_have_no_accessibility_faults(driver, page, width, dark):
    resize(driver, width, 900, dark)
    show(driver, page)
    assert accessibility_faults(driver) == []
    show(driver, page, "#row-121")
    assert accessibility_faults(driver) == []


@SIZES
def test_a_report_of_a_training_has_no_accessibility_faults(driver, tmp_path, width, dark):
    kept = {"time": "t", "model": "m", "model_id": "1"}
    places = [
        {**kept, "device": str(device), "step": str(step)} for device in range(2) for step in (1, 2)
    ]
    rows = [row.but(**place) for place in places for row in network(8, 4)]
    write_page(
        tmp_path / "page.html",
        [*rows, make_row(99, 1e-4, verdict="not_compared", reason="no golden data", metrics={})],
        [4],
    )
    resize(driver, width, 900, dark)
    show(driver, tmp_path / "page.html", "#row-5")
    assert accessibility_faults(driver) == []


@SIZES
def test_a_graph_has_no_accessibility_faults(driver, folder, width, dark):
    resize(driver, width, 900, dark)
    for name in ("om.json.html", "net.prototxt.html"):
        show(driver, folder / name)
        assert accessibility_faults(driver) == []
    show(driver, folder / "om.json.html", "#op-conv1")
    find(driver, "conv")
    element(driver, "button[data-choose=start]").click()
    assert accessibility_faults(driver) == []


@SIZES
def test_a_diff_has_no_accessibility_faults(driver, tmp_path, width, dark):
    for name, bad in (("before", 5), ("after", 30)):
        with RunStore.begin(str(tmp_path / name), {"target": "t", "golden": "g"}) as store:
            store.put_all([make_row(number, 0.5 if number < bad else 1e-4) for number in range(60)])
    (tmp_path / "diff.html").write_text(
        diff_page(difference_of(str(tmp_path / "before"), str(tmp_path / "after"))),
        encoding="utf-8",
    )
    resize(driver, width, 900, dark)
    show(driver, tmp_path / "diff.html")
    assert accessibility_faults(driver) == []
