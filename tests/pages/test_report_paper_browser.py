"""The report in print."""

from __future__ import annotations

import base64

import pytest
from browser import SIDEWAYS, resize, show
from report_pages import make_row, network, tensors, write_page

pytestmark = pytest.mark.browser


def test_up_to_a_thousand_rows_are_printed(driver, tmp_path, page):
    for count, printed in ((300, 300), (1300, 1000)):
        write_page(tmp_path / "page.html", network(count))
        show(driver, tmp_path / "page.html")
        driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
        assert len(tensors(driver)) == printed
        said = driver.execute_script("return document.querySelector('.paper').textContent")
        rows = (
            ""
            if count == printed
            else "Printed are 1000 of 1300 rows: those of the suspects, then the worst. "
        )
        assert said == rows + "4 of 9 metrics are printed; all are printed of a row that is open."
        driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
        assert len(tensors(driver)) == 60
    write_page(tmp_path / "page.html", network(20))
    show(driver, tmp_path / "page.html")
    assert base64.b64decode(driver.print_page()).startswith(b"%PDF")


def test_rows_of_suspects_and_failing_rows_are_printed_first(driver, tmp_path):
    rows = [
        make_row(number, 0.5 + number / 1e4 if number >= 1200 else 1e-4) for number in range(1300)
    ]
    write_page(tmp_path / "page.html", rows, [1210])
    show(driver, tmp_path / "page.html")
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    printed = tensors(driver)
    driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert (
        printed[:3] == ["op1210:output:0", "op1299:output:0", "op1298:output:0"]
        and len(printed) == 1000
    )
    assert set(printed[:100]) == {row.tensor for row in rows[1200:]}


def test_printing_uses_light_colours(driver, page):
    resize(driver, 1280, 900, dark=True)
    show(driver, page)
    paper = "return getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()"
    dark = driver.execute_script(paper)
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert driver.execute_script(paper) == "#ffffff" != dark
    driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert driver.execute_script(paper) == dark


def training_rows():
    places = [{"time": "t", "device": str(device), "model": "ge_default_20260102030405_11",
    "model_id": "1", "step": str(step)}
              for device in range(2) for step in (1, 2)]  # fmt: skip
    rows = [row.but(**place) for place in places for row in network(8, 4)]
    return [
        row.but(
            time="2026010203040%s" % row.device, model=row.model + row.step, model_id=row.device
        )
        for row in rows
    ]


# The cells whose content is wider than they are, and the longest count of lines of a number, a
# heading or a verdict.
CRAMPED = """
const cells = [...document.querySelectorAll('#rows :is(th, td)')];
return [cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent),
  Math.max(...[...document.querySelectorAll('#rows tbody tr[data-tensor]')].map((row) => row.clientHeight))];
"""  # noqa: E501


@pytest.mark.parametrize("width", [718, 1047])
def test_the_table_of_a_training_is_readable_on_paper(driver, tmp_path, width):
    write_page(tmp_path / "page.html", training_rows(), [4])
    show(driver, tmp_path / "page.html")
    resize(driver, width, 800)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    cut, highest = driver.execute_script(CRAMPED)
    assert driver.execute_script(SIDEWAYS) <= 0
    driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert cut == [] and highest < 60


def test_on_paper_metrics_are_named_and_the_network_fits_one_page(driver, tmp_path, page):
    show(driver, page)
    resize(driver, 718, 1000)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    cut, _ = driver.execute_script(CRAMPED)
    lines = driver.execute_script(
        "return [...document.querySelectorAll('#rows td.number')].map((cell) => "
        "cell.clientHeight < 30)"
    )
    head = driver.execute_script(
        "return getComputedStyle(document.querySelector('#rows th[data-column=tensor]'), "
        "'::before').content"
    )
    named = driver.find_element("css selector", "#plot-metrics").text
    high = driver.execute_script(
        "return document.querySelector('#graph svg').getBoundingClientRect().height"
    )
    driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    resize(driver, 1280, 900)
    assert cut == [] and all(lines) and head == '"tensor"', "a repeated head shows no button"
    assert named.split("\n") == ["1 − cosine", "relative distance"] and 0 < high < 21.1 / 2.54 * 96


SIGHT = """
const box = document.querySelector('#graph [data-op="block12/unit0/Conv2D"] .type').getBoundingClientRect();
return [box.height, document.querySelector('#graph svg').getAttribute('viewBox'), document.querySelector('#graph .network').scrollTop];
"""  # noqa: E501


def test_the_visible_part_of_a_long_network_is_printed(driver, page):
    """Its letters can be read."""
    show(driver, page)
    resize(driver, 718, 1000)
    before = driver.execute_script(SIGHT)
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    printed = driver.execute_script(SIGHT)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert (
        driver.execute_script(SIGHT) == before
        and printed[0] > 0.6 * before[0]
        and printed[1] != before[1]
    )
    resize(driver, 1280, 900)


def test_failing_rows_of_suspects_are_printed_first(driver, tmp_path):
    """Of an op that is a suspect on one device the others' rows are no better than any."""
    numbers = [(str(device), str(step)) for device in range(4) for step in range(80)]
    places = [
        {"time": "t", "device": device, "model": "net", "model_id": "1", "step": step}
        for device, step in numbers
    ]
    rows = [
        row.but(**place)
        for place in places
        for row in network(8, 4 if place["device"] == "1" else None)
    ]
    write_page(
        tmp_path / "page.html",
        rows,
        [next(number for number, row in enumerate(rows) if row.verdict == "fail")],
    )
    show(driver, tmp_path / "page.html")
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    cells = driver.execute_script(
        "return [...document.querySelectorAll('#rows tr[data-tensor]')].map((row) => "
        "row.dataset.verdict)"
    )
    driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert len(cells) == 1000 and cells[:320] == ["fail"] * 320 and "fail" not in cells[320:]


def test_an_open_row_is_printed_with_all_metrics_and_neighbours(driver, page):
    show(driver, page, "#row-121")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    text = driver.find_element("css selector", "#detail").text
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    for words in (
        "MeanRelativeError",
        "RootMeanSquareError",
        "Fed by",
        "block11/unit9/Conv2D",
        "Feeds",
        "block12/unit1/Conv2D",
    ):
        assert words in text
