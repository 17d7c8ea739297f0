"""The diff page in a real browser."""

from __future__ import annotations

import pytest
from browser import SIDEWAYS, browser, resize, show
from report_pages import HOSTILE, make_row

from goldwatch.reports.difference import difference_of
from goldwatch.reports.pages.diff_page import diff_page
from goldwatch.store.store import RunStore

pytestmark = pytest.mark.browser

SHOWN = "return document.querySelectorAll('.changes:not([hidden]) tbody tr:not([hidden])').length"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diff")
    for name, bad in (("before", 5), ("after", 30)):
        with RunStore.begin(str(folder / name), {"target": "t", "golden": "g"}) as store:
            rows = [
                make_row(number, 0.5 if number < bad else 1e-4)
                for number in range(60 if name == "after" else 55)
            ]
            store.put_all([*rows, make_row(99, 0.5 if name == "after" else 1e-4, op=HOSTILE)])
    path = folder / "diff.html"
    path.write_text(
        diff_page(difference_of(str(folder / "before"), str(folder / "after"))), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_changes_are_listed_filtered_and_escaped(driver, page, width, dark):
    resize(driver, width, 844, dark)
    show(driver, page)
    assert driver.find_element("css selector", "#after").text == "FAIL so far"
    assert driver.execute_script(SHOWN) == 31
    assert [
        part.get_attribute("data-kind") for part in driver.find_elements("css selector", ".changes")
    ] == ["worse", "appeared"]
    driver.find_element("css selector", "#filter").send_keys("OP17:")
    assert driver.execute_script(SHOWN) == 1
    assert driver.find_element("css selector", "#shown").text == "1 of 31 rows"
    assert driver.execute_script(SIDEWAYS) <= 0
    assert driver.title == (
        "difference: FAIL so far; 26 worse than before so far, a run is not finished"
    )


def test_the_diff_page_is_complete_without_scripts(page):
    with browser(scripts=False) as plain:
        show(plain, page, scripts=False)
        assert "op17:output:0" in plain.find_element("css selector", "main").text
