"""Long names that differ in the middle, and invisible characters, on pages in a real browser."""

from __future__ import annotations

import pytest
from browser import resize, show
from report_pages import make_row, write_page

from goldwatch.base.naming import printable
from goldwatch.reports.pages.html_file import asset

pytestmark = pytest.mark.browser

KINDS = ("attention/self/query/MatMul", "output/LayerNorm/batchnorm/add_1")
BERT = ["bert/encoder/layer_%d/%s" % (layer, kind) for layer in range(12) for kind in KINDS]
MIDDLES = ["p" * 400 + letter + "q" * 400 for letter in "ABCDEF"]


def shown(driver, names, most):
    script = (
        "const found = shortenedAll(arguments[0], arguments[1]); return arguments[0].map((name) "
        "=> found.get(name))"
    )
    return driver.execute_script(asset("common.js") + script, names, most)


@pytest.fixture
def blank(driver, tmp_path):
    write_page(tmp_path / "page.html", [make_row()])
    show(driver, tmp_path / "page.html")
    return driver


@pytest.mark.parametrize("most", [18, 24, 35, 400])
def test_different_names_stay_different_when_shortened(blank, most):
    both = [
        *BERT,
        *MIDDLES,
        "a" * 1000,
        "a" * 1001,
        "x" * 5000 + "/one",
        "x" * 5000 + "/two",
        "layer/" * 90 + "1",
        "layer/" * 90 + "2",
    ]
    found = shown(blank, both, most)
    assert len(set(found)) == len(both) and max(map(len, found)) <= most
    if most > 18:
        assert all(
            "/layer_%s" % name.split("_")[1].split("/")[0] in short
            for name, short in zip(BERT, found)
        )


def test_invisible_characters_are_shown_as_python_shows_them(blank):
    names = [
        "relu",
        "relu\u200b",
        "relu\u00ad",
        "relu\u2060",
        "\u200b",
        "a\ufe0fb",
        "a\U000e0041",
        "a\u3164",
        "\u0600",
        "e\u0301",
    ]
    assert blank.execute_script(
        asset("common.js") + "return arguments[0].map(printable)", names
    ) == list(map(printable, names))


@pytest.mark.parametrize("width", [390, 1280])
def test_rows_and_verdict_with_long_names_are_readable(driver, tmp_path, width):
    rows = [make_row(number, 0.5, op=name) for number, name in enumerate(MIDDLES)]
    sentence = (
        "{0} (Relu) is the first operator outside its limits: {0}:output:0 has RMSE 5".format(
            MIDDLES[0]
        )
    )
    write_page(tmp_path / "page.html", rows, [0], sentence=sentence)
    resize(driver, width, 900)
    show(driver, tmp_path / "page.html")
    found = [line.text for line in driver.find_elements("css selector", "#rows tbody td.name")]
    assert len(set(found)) == len(MIDDLES) and all(
        "pp%s" % letter in text for letter, text in zip("ABCDEF", found)
    )
    parts = "return [...document.querySelectorAll('#verdict p, .card h3, .card p')]"
    assert driver.execute_script(
        parts + ".every((part) => part.scrollHeight <= part.clientHeight + 1)"
    )
    assert "has RMSE 5" in driver.find_element("css selector", "#verdict").text
    assert driver.find_element("css selector", "#suspects pre.command").text.count(MIDDLES[0]) == 1


def test_layers_of_a_training_can_be_told_apart_on_a_phone(driver, tmp_path):
    rows = [
        make_row(number, 0.3, op=name, device="0", model="m", step=step)
        for step in "123"
        for number, name in enumerate(BERT)
    ]
    write_page(tmp_path / "page.html", rows)
    resize(driver, 390, 844)
    show(driver, tmp_path / "page.html")
    # The labels as they are painted, and how strong a cell is where all are alike.
    driver.execute_script(
        "const context = CanvasRenderingContext2D.prototype, text = context.fillText, fill = "
        "context.fillRect;"
        "window.painted = []; window.strengths = [];"
        "context.fillText = function (words, ...to) { painted.push(words); text.call(this, "
        "words, ...to); };"
        "context.fillRect = function (...to) { strengths.push(this.globalAlpha); "
        "fill.apply(this, to); };"
        "document.querySelectorAll('#overview canvas').forEach((one) => one.dispatchEvent(new "
        "PointerEvent('pointerleave')));"
    )
    painted = driver.execute_script("return painted")
    labels = [text for text in painted if "MatMul" in text or "add_1" in text]
    assert len(labels) == len(set(labels)) == len(BERT)
    assert (
        min(driver.execute_script("return strengths")) > 0.99
    ), "all fail alike: none of them is pale"
    heads = [
        head.get_attribute("data-column")
        for head in driver.find_elements("css selector", "#rows th")
    ]
    assert heads[:3] == ["tensor", "verdict", "CosineSimilarity"] and heads[-3:] == [
        "order",
        "op_type",
        "step",
    ]


def test_a_place_equal_in_all_rows_has_no_column(driver, tmp_path):
    rows = [
        make_row(
            number, 0.3, device=str(number % 2), model="m" + str(number % 2), model_id="1", step="3"
        )
        for number in range(4)
    ]
    write_page(tmp_path / "page.html", rows)
    show(driver, tmp_path / "page.html")
    heads = [
        head.get_attribute("data-column")
        for head in driver.find_elements("css selector", "#rows th")
    ]
    assert "device" in heads and not {"model", "model id", "step"} & set(heads)
