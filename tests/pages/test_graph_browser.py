"""The graph page in a real browser: search, detail, choosing start and end, commands that run."""

from __future__ import annotations

import json
import sys

import pytest
from browser import SIDEWAYS, element, resize, show
from graph_page import HOSTILE, MARKS, OPS, find, mark_op, op, shell_words_of, shown_op
from in_process import run_here

try:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:  # then conftest leaves all tests in a browser out, and says so
    ActionChains = Keys = WebDriverWait = None
pytestmark = pytest.mark.browser


@pytest.fixture
def om(driver, folder):
    show(driver, folder / "om.json.html")
    return driver


def test_enter_in_the_search_shows_the_best_match(om):
    find(om, "conv1")
    assert shown_op(om) == "conv1"
    assert "7" in element(om, "#detail").text and "groups" in element(om, "#detail").text
    find(om, "SQRT")
    assert shown_op(om) == "side"
    find(om, "relu2")
    assert shown_op(om) == "add"
    find(om, "stride: 42")
    assert shown_op(om) == "conv10"
    assert om.execute_script("return document.activeElement.id") == "search"


def test_the_search_lists_all_ops_and_arrows_move_through_it(om):
    assert len(om.find_elements("css selector", "#results [role=option]")) == len(OPS)
    search = element(om, "#search")
    search.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ENTER)
    assert shown_op(om) == "conv1"
    search.send_keys("nothing like it")
    assert element(om, "#found").text == "0 of 7 ops"


def test_edges_show_shape_and_layout_and_boxes_their_originals(om):
    labels = [each.text for each in om.find_elements("css selector", "#graph text.label")]
    assert labels == ["1,2,8,8,16 NC1HWC0"] * 7
    text = element(om, "#graph").text
    assert "from conv1 … relu1 (3)" in text and "made by the compiler" in text
    find(om, "conv1")
    assert "float16 1,2,8,8,16 NC1HWC0, originally 1,32,8,8 NCHW" in element(om, "#detail").text


def test_start_and_end_are_marked_and_the_submodel_command_runs(om, folder):
    mark_op(om, "conv1", "start")
    mark_op(om, "add", "end")
    between = sorted(
        [
            ["add", "end"],
            ["conv1", "start"],
            ["side", "between"],
            ["trans", "between"],
            [HOSTILE, "between"],
        ]
    )
    assert om.execute_script(MARKS) == between
    command = element(om, "#command")
    assert command.get_attribute("data-nodes") == "5"
    words = shell_words_of(command.text)
    assert (
        words[:3] == ["goldwatch", "config", "new"]
        and words[words.index("--layers") + 1] == "conv1"
    )
    done = run_here(words, folder)
    assert done.returncode == 0, done.stderr
    layers = json.loads(done.stdout)["dump"]["dump_list"][0]["layer"]
    assert set(layers) == {"conv1", "trans", HOSTILE, "side", "add"}


def test_choosing_again_moves_the_mark_and_an_end_above_the_start_is_disabled(om):
    mark_op(om, "conv1", "start")
    mark_op(om, "add", "end")
    mark_op(om, "conv10", "end")
    assert ["conv10", "end"] in om.execute_script(MARKS) and [
        "add",
        "between",
    ] in om.execute_script(MARKS)
    find(om, "data")
    assert not element(om, "button[data-choose=end]").is_enabled()
    assert "it does not lie below the start" in element(om, "#detail").text
    mark_op(om, "side", "start")
    assert om.execute_script(MARKS) == [["add", "between"], ["conv10", "end"], ["side", "start"]]
    mark_op(om, "conv10", "start")
    assert element(om, "#command").get_attribute("data-nodes") == "1"
    find(om, "add")
    assert not element(om, "button[data-choose=end]").is_enabled()


def test_a_start_below_the_end_removes_the_end_with_a_note(om):
    mark_op(om, "conv1", "end")
    mark_op(om, "add", "start")
    assert om.execute_script(MARKS) == [["add", "start"]]
    assert "the end was conv1" in element(om, "#choosing").text


def test_the_graph_is_usable_by_keyboard_alone(om):
    graph = element(om, "#graph")
    om.execute_script("arguments[0].focus()", graph)
    graph.send_keys("n", "n", "s", "n", "n", "n", "e")
    assert shown_op(om) == "side"
    assert om.execute_script(MARKS) == [["conv1", "start"], ["side", "end"]]
    scale = float(graph.get_attribute("data-scale"))
    graph.send_keys("+", "+")
    assert float(graph.get_attribute("data-scale")) > scale
    graph.send_keys("0", "-")
    graph.send_keys(Keys.ESCAPE)
    assert (
        om.execute_script("return document.querySelectorAll('#graph [data-selected]').length") == 0
    )
    element(om, "body").send_keys("/")
    assert om.execute_script("return document.activeElement.id") == "search"


def test_a_click_on_an_op_shows_it_and_a_drag_moves_the_drawing(om):
    box = next(
        each
        for each in om.find_elements("css selector", "#graph [data-op]")
        if each.get_attribute("data-op") == "side"
    )
    box.click()
    assert shown_op(om) == "side"
    graph = element(om, "#graph")
    for _ in range(6):
        element(om, "#tools button").click()
    before = om.execute_script("return [arguments[0].scrollLeft, arguments[0].scrollTop]", graph)

    ActionChains(om).move_to_element(graph).click_and_hold().move_by_offset(
        -60, -40
    ).move_by_offset(-20, -10).release().perform()
    after = om.execute_script("return [arguments[0].scrollLeft, arguments[0].scrollTop]", graph)
    assert after[0] - before[0] > 40 and after[1] - before[1] > 20
    assert shown_op(om) == "side"


def test_names_in_the_graph_are_escaped(om):
    find(om, "$(touch x)")
    assert shown_op(om) == HOSTILE
    assert "\\u202e" in element(om, "#detail h2").text and "\u202e" not in element(om, "body").text
    assert om.execute_script("return document.querySelectorAll('script').length") == 2
    mark_op(om, "$(touch x)", "start")
    mark_op(om, "$(touch x)", "end")
    assert "\\[0\\]" not in element(om, "#command").text


def test_a_result_of_another_model_is_warned_of(driver, folder, tmp_path):
    made = [sys.executable, "-m", "goldwatch.testing"]
    for words in (
        [*made, "make", ".", "--ops", "3", "--size", "4k"],
        [*made, "serve", ".", "dump"],
        ["goldwatch", "compare", "dump", "golden", "-f", "model.json", "-o", "out"],
    ):
        assert run_here(words, tmp_path).returncode == 0
    done = run_here(
        ["goldwatch", "graph", folder / "om.json", "--result", "out", "-o", "page.html"], tmp_path
    )
    assert (
        done.returncode == 0
        and "4 of the result's 5 ops are not in this model (such as Node_Output)" in done.stderr
    )
    show(driver, tmp_path / "page.html")
    assert element(driver, "#doubt").text.startswith(
        "4 of the result's 5 ops are not in this model"
    )
    own = run_here(
        ["goldwatch", "graph", "model.json", "--result", "out", "-o", "page.html"], tmp_path
    )
    assert "warning" not in own.stderr and 'id="doubt"' not in (tmp_path / "page.html").read_text()


def test_edges_avoid_labels_and_labels_avoid_marks(om):
    mark_op(om, "add", "start")
    mark_op(om, "conv10", "end")
    boxes = """return [...document.querySelectorAll(arguments[0])].map((it) => {
      const box = it.getBoundingClientRect();
      return [box.left, box.top, box.right, box.bottom];
    })"""
    labels, backs = (
        om.execute_script(boxes, "#graph ." + name) for name in ("label", "label-back")
    )
    assert len(labels) == len(backs) == 7
    assert all(back[0] <= label[0] and label[2] <= back[2] for label, back in zip(labels, backs))
    flags = om.execute_script(boxes, "#graph .flag")
    assert not [
        1
        for a in flags
        for b in backs
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]


@pytest.mark.parametrize(("width", "name"), [(1280, "side"), (1280, "data"), (390, "conv10")])
def test_one_op_is_start_and_end_and_its_label_fits(om, width, name):
    resize(om, width, 844)
    mark_op(om, name, "start")
    mark_op(om, name, "end")
    marked = om.find_elements("css selector", "#graph [data-mark]")
    assert [(it.get_attribute("data-op"), it.get_attribute("data-mark")) for it in marked] == [
        (name, "start")
    ]
    assert om.execute_script("return arguments[0].hasAttribute('data-end')", marked[0])
    element(om, "#tools button[aria-label^=all]").click()
    flag = marked[0].find_element("css selector", ".flag")
    assert flag.get_attribute("textContent") == "START END"
    inside = """const [box, around] = [arguments[0], arguments[0].ownerSVGElement].map((it) => it.getBoundingClientRect());
    return box.left >= around.left && box.right <= around.right && box.top >= around.top && box.bottom <= around.bottom"""  # noqa: E501
    assert om.execute_script(inside, flag)
    mark_op(om, "conv1", "start")
    assert not om.execute_script("return document.querySelectorAll('#graph [data-end]').length")


def test_escape_closes_the_detail_and_returns_the_focus(om):
    find(om, "conv1")
    button = element(om, "button[data-choose=start]")
    button.send_keys(Keys.ENTER)
    om.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert shown_op(om) is None
    assert om.execute_script("return document.activeElement.id") == "search"
    element(om, "#search").clear()
    om.execute_script("document.querySelector('#graph').focus()")
    element(om, "#graph").send_keys("n")
    element(om, "button[data-choose=start]").send_keys(Keys.ENTER)
    om.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert om.execute_script("return document.activeElement.id") == "graph"


@pytest.mark.parametrize("dark", [False, True])
def test_the_graph_on_a_phone_does_not_scroll_sideways(driver, folder, dark):
    resize(driver, 390, 844, dark)
    show(driver, folder / "om.json.html")
    mark_op(driver, "conv1", "start")
    mark_op(driver, "add", "end")
    assert driver.execute_script(SIDEWAYS) <= 0
    paper = driver.execute_script(
        "return getComputedStyle(document.documentElement).backgroundColor"
    )
    assert (paper == "rgb(255, 255, 255)") is not dark


def test_verdicts_of_a_result_are_shown_by_shape_and_colour(driver, tmp_path):
    made = [sys.executable, "-m", "goldwatch.testing"]
    assert (
        run_here(
            [*made, "make", ".", "--ops", "4", "--size", "4k", "--broken", "2"], tmp_path
        ).returncode
        == 0
    )
    assert run_here([*made, "serve", ".", "dump"], tmp_path).returncode == 0
    assert (
        run_here(
            ["goldwatch", "compare", "dump", "golden", "-f", "model.json", "-o", "out"], tmp_path
        ).returncode
        == 1
    )
    assert (
        run_here(
            ["goldwatch", "graph", "model.json", "--result", "out", "-o", "page.html"], tmp_path
        ).returncode
        == 0
    )
    show(driver, tmp_path / "page.html")
    assert shown_op(driver) == "op_2", "the first bad op is shown"
    verdicts = {
        each.get_attribute("data-op"): each
        for each in driver.find_elements("css selector", "#graph [data-verdict]")
    }
    assert [verdicts["op_%d" % number].get_attribute("data-verdict") for number in range(4)] == [
        "pass",
        "pass",
        "fail",
        "fail",
    ]
    corners = [
        verdicts[name].find_element("css selector", ".box").get_attribute("d").count("L")
        for name in ("op_1", "op_2")
    ]
    assert corners == [0, 3]
    assert (
        "RelativeEuclideanDistance" in element(driver, "#detail").text
        and "✕ " in verdicts["op_2"].text
    )


def test_three_thousand_ops_can_be_searched_marked_and_moved(driver, tmp_path):
    ops = [
        op(number, "op%d" % number, "Add", ["op%d" % (number - 1)] if number else [])
        for number in range(3000)
    ]
    (tmp_path / "m.json").write_text(json.dumps({"name": "m", "graph": [{"name": "m", "op": ops}]}))
    assert run_here(["goldwatch", "graph", "m.json", "-o", "m.html"], tmp_path).returncode == 0
    show(driver, tmp_path / "m.html")
    assert len(driver.find_elements("css selector", "#graph [data-group]")) == 30
    element(driver, "#tools button[title='unfold all groups']").click()
    assert len(driver.find_elements("css selector", "#graph [data-op]")) == 3000
    mark_op(driver, "op5", "start")
    mark_op(driver, "op2999", "end")
    assert element(driver, "#command").get_attribute("data-nodes") == "2995"
    assert (
        driver.execute_script(
            "const graph = document.querySelector('#graph'); graph.scrollTop = 0; return "
            "graph.scrollHeight"
        )
        > 100000
    )
    element(driver, "#tools button[aria-label^=all]").click()
    assert (
        driver.execute_script(
            "return getComputedStyle(document.querySelector('#graph .box')).vectorEffect"
        )
        == "non-scaling-stroke"
    )


def test_on_a_phone_arrows_and_fingers_move_and_two_fingers_zoom(driver, tmp_path):
    ops = [
        op(number, "op%d" % number, "Add", ["op%d" % (number - 1)] if number else [])
        for number in range(60)
    ]
    (tmp_path / "m.json").write_text(json.dumps({"name": "m", "graph": [{"name": "m", "op": ops}]}))
    assert run_here(["goldwatch", "graph", "m.json", "-o", "m.html"], tmp_path).returncode == 0
    resize(driver, 390, 844)
    show(driver, tmp_path / "m.html")
    graph = element(driver, "#graph")
    driver.execute_script("arguments[0].scrollIntoView(); arguments[0].focus()", graph)
    top = "return document.querySelector('#graph').scrollTop"

    def moved(before):
        WebDriverWait(driver, 60, 0.02).until(lambda it: it.execute_script(top) > before)
        return driver.execute_script(top)

    graph.send_keys(Keys.ARROW_DOWN)
    at = moved(0)
    box = driver.execute_script(
        "const box = arguments[0].getBoundingClientRect(); return [box.left + box.width / 2, "
        "box.top + box.height / 2]",
        graph,
    )

    def touch(kind, *ys):
        points = [{"x": box[0], "y": box[1] + y, "id": number} for number, y in enumerate(ys)]
        driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", -40)
    touch("touchStart", -40, 40)
    for step in range(1, 6):
        touch("touchMove", -40 - 8 * step, 40 + 8 * step)
    touch("touchEnd")
    assert 1.5 < float(graph.get_attribute("data-scale")) < 2.5
    at = driver.execute_script(top)
    touch("touchStart", 0)
    for step in range(1, 12):
        touch("touchMove", -12 * step)
    touch("touchEnd")
    moved(at)


def test_the_list_of_ops_starts_at_the_op_that_is_shown(driver, tmp_path):
    made = [sys.executable, "-m", "goldwatch.testing"]
    assert (
        run_here(
            [*made, "make", ".", "--ops", "6", "--size", "4k", "--broken", "4"], tmp_path
        ).returncode
        == 0
    )
    assert run_here([*made, "serve", ".", "dump"], tmp_path).returncode == 0
    assert (
        run_here(
            ["goldwatch", "compare", "dump", "golden", "-f", "model.json", "-o", "out"], tmp_path
        ).returncode
        == 1
    )
    assert (
        run_here(
            ["goldwatch", "graph", "model.json", "--result", "out", "-o", "page.html"], tmp_path
        ).returncode
        == 0
    )
    show(driver, tmp_path / "page.html")
    assert (
        element(driver, "#results [aria-selected=true]").text.split()[0]
        == shown_op(driver)
        == "op_4"
    )


def test_each_op_has_an_address_and_back_leads_to_the_previous_one(driver, folder, until):
    show(driver, folder / "om.json.html", "#op-side")
    assert shown_op(driver) == "side" and not element(driver, "#address").is_displayed()
    find(driver, "conv1")
    assert driver.current_url.endswith("#op-conv1")
    find(driver, "add")
    for name in ("conv1", "side"):
        driver.back()
        until(lambda name=name: shown_op(driver) == name)
    show(driver, folder / "om.json.html", "#op-no%20such")
    assert (
        element(driver, "#address").text
        == "The address names the op no such, which is not in this network."
    )
