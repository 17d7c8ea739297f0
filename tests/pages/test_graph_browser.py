"""The graph page in a real browser: search, detail, start and end by pointer and keyboard, marks, the commands that really run."""

from __future__ import annotations

import json
import subprocess
import sys

import onnx_models
import onnx_networks
import pytest
from browser import SIDEWAYS, browser, console, resize, show
from in_process import run_here

from goldwatch.pages.graph_page import Commands, graph_page
from goldwatch.pages.graph_result import GraphResult
from goldwatch.pages.models import read_page_model

try:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:  # then conftest leaves all tests in a browser out, and says so
    ActionChains = Keys = WebDriverWait = None

pytestmark = pytest.mark.browser

HOSTILE = "a'b\"</script><script>alert(1)</script>\u202e$(touch x) `id` \\ [0]*?"
MARKS = "return [...document.querySelectorAll('#graph [data-mark]')].map((it) => [it.dataset.op, it.dataset.mark]).sort()"


def desc(*shape):
    attrs = [
        {"key": "origin_format", "value": {"s": "NCHW"}},
        {"key": "origin_shape", "value": {"list": {"i": [shape[0], 32, *shape[2:4]]}}},
    ]
    return {"dtype": "DT_FLOAT16", "layout": "NC1HWC0", "shape": {"dim": list(shape)}, "attr": attrs}


def op(number, name, op_type, inputs, originals=None, **params):
    attrs = [{"key": key, "value": {"i": value}} for key, value in params.items()]
    attrs.append({"key": "_datadump_original_op_names", "value": {"list": {"s": [name] if originals is None else originals}}})
    outputs = {"input_desc": [desc(1, 2, 8, 8, 16)] * len(inputs), "output_desc": [desc(1, 2, 8, 8, 16)]}
    return dict({"name": name, "type": op_type, "id": number, "input": [each + ":0" for each in inputs], "attr": attrs}, **outputs)


OPS = [
    op(0, "data", "Data", []),
    op(1, "conv1", "Conv2D", ["data"], ["conv1", "bn1", "relu1"], groups=7),
    op(2, "trans", "TransData", ["conv1"], []),
    op(3, HOSTILE, "Conv2D", ["trans"]),
    op(4, "side", "Sqrt", ["conv1"]),
    op(5, "add", "Add", [HOSTILE, "side"], ["add", "relu2"]),
    op(6, "conv10", "Conv2D", ["add"], stride=42),
]
NET = """name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "c1" type: "Convolution" bottom: "data" top: "c1" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "r1" type: "ReLU" bottom: "c1" top: "c1" }
layer { name: "p1" type: "Pooling" bottom: "c1" top: "p1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "q1" type: "Pooling" bottom: "c1" top: "q1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "e1" type: "Eltwise" bottom: "p1" bottom: "q1" top: "e1" }
"""
ORIGINAL = """name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "c" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "side" type: "Power" bottom: "c" top: "s" }
layer { name: "relu2" type: "ReLU" bottom: "s" top: "r" }
"""


@pytest.fixture(autouse=True)
def quiet(driver):
    resize(driver, 1280, 900)
    console(driver)
    yield
    assert console(driver) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("graph")
    (found / "om.json").write_text(json.dumps({"name": "net", "graph": [{"name": "net", "op": OPS}]}))
    (found / "net.prototxt").write_text(NET)
    for name in ("om.json", "net.prototxt"):
        done = run_here(["goldwatch", "graph", name, "-o", name + ".html"], found)
        assert done.returncode == 0, done.stderr
    return found


@pytest.fixture
def om(driver, folder):
    show(driver, folder / "om.json.html")
    return driver


def element(driver, selector):
    return driver.find_element("css selector", selector)


def find(driver, text):
    """Type into the search and press Enter."""
    search = element(driver, "#search")
    search.clear()
    search.send_keys(text, Keys.ENTER)


def shown(driver):
    return element(driver, "#detail").get_attribute("data-op")


def words_of(command):
    """Return the words that bash makes of a command."""
    done = subprocess.run(["bash", "-c", "printf '%s\\0' " + command], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode("utf-8").split("\0")[:-1]


def choose(driver, name, which):
    find(driver, name)
    element(driver, "button[data-choose=%s]" % which).click()


def test_enter_in_the_search_shows_the_best_match(om):
    find(om, "conv1")
    assert shown(om) == "conv1"
    assert "7" in element(om, "#detail").text and "groups" in element(om, "#detail").text
    find(om, "SQRT")
    assert shown(om) == "side"
    find(om, "relu2")
    assert shown(om) == "add"
    find(om, "stride: 42")
    assert shown(om) == "conv10"
    assert om.execute_script("return document.activeElement.id") == "search"


def test_the_search_lists_all_ops_and_arrows_walk_through_it(om):
    assert len(om.find_elements("css selector", "#results [role=option]")) == len(OPS)
    search = element(om, "#search")
    search.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ENTER)
    assert shown(om) == "conv1"
    search.send_keys("nothing like it")
    assert element(om, "#found").text == "0 of 7 ops"


def test_edges_tell_shape_and_layout_and_boxes_their_originals(om):
    labels = [each.text for each in om.find_elements("css selector", "#graph text.label")]
    assert labels == ["1,2,8,8,16 NC1HWC0"] * 7
    text = element(om, "#graph").text
    assert "from conv1 … relu1 (3)" in text and "made by the compiler" in text
    find(om, "conv1")
    assert "float16 1,2,8,8,16 NC1HWC0, originally 1,32,8,8 NCHW" in element(om, "#detail").text


def test_start_and_end_are_marked_with_what_lies_between_and_the_command_runs(om, folder):
    choose(om, "conv1", "start")
    choose(om, "add", "end")
    between = sorted([["add", "end"], ["conv1", "start"], ["side", "between"], ["trans", "between"], [HOSTILE, "between"]])
    assert om.execute_script(MARKS) == between
    command = element(om, "#command")
    assert command.get_attribute("data-nodes") == "5"
    words = words_of(command.text)
    assert words[:3] == ["goldwatch", "config", "new"] and words[words.index("--layers") + 1] == "conv1"
    done = run_here(words, folder)
    assert done.returncode == 0, done.stderr
    layers = json.loads(done.stdout)["dump"]["dump_list"][0]["layer"]
    assert set(layers) == {"conv1", "trans", HOSTILE, "side", "add"}


def test_choosing_again_moves_the_mark_and_an_end_above_the_start_cannot_be_chosen(om):
    choose(om, "conv1", "start")
    choose(om, "add", "end")
    choose(om, "conv10", "end")
    assert ["conv10", "end"] in om.execute_script(MARKS) and ["add", "between"] in om.execute_script(MARKS)
    find(om, "data")
    assert not element(om, "button[data-choose=end]").is_enabled()
    assert "it does not lie below the start" in element(om, "#detail").text
    choose(om, "side", "start")
    assert om.execute_script(MARKS) == [["add", "between"], ["conv10", "end"], ["side", "start"]]
    choose(om, "conv10", "start")
    assert element(om, "#command").get_attribute("data-nodes") == "1"
    find(om, "add")
    assert not element(om, "button[data-choose=end]").is_enabled()


def test_a_start_below_the_end_takes_the_end_away_and_says_so(om):
    choose(om, "conv1", "end")
    choose(om, "add", "start")
    assert om.execute_script(MARKS) == [["add", "start"]]
    assert "the end was conv1" in element(om, "#choosing").text


def test_all_of_it_works_by_keyboard_alone(om):
    graph = element(om, "#graph")
    om.execute_script("arguments[0].focus()", graph)
    graph.send_keys("n", "n", "s", "n", "n", "n", "e")
    assert shown(om) == "side"
    assert om.execute_script(MARKS) == [["conv1", "start"], ["side", "end"]]
    scale = float(graph.get_attribute("data-scale"))
    graph.send_keys("+", "+")
    assert float(graph.get_attribute("data-scale")) > scale
    graph.send_keys("0", "-")
    graph.send_keys(Keys.ESCAPE)
    assert om.execute_script("return document.querySelectorAll('#graph [data-selected]').length") == 0
    element(om, "body").send_keys("/")
    assert om.execute_script("return document.activeElement.id") == "search"


def test_a_click_on_an_op_shows_it_and_a_drag_moves_the_drawing(om):
    box = next(each for each in om.find_elements("css selector", "#graph [data-op]") if each.get_attribute("data-op") == "side")
    box.click()
    assert shown(om) == "side"
    graph = element(om, "#graph")
    for _ in range(6):
        element(om, "#tools button").click()
    before = om.execute_script("return [arguments[0].scrollLeft, arguments[0].scrollTop]", graph)

    ActionChains(om).move_to_element(graph).click_and_hold().move_by_offset(-60, -40).move_by_offset(-20, -10).release().perform()
    after = om.execute_script("return [arguments[0].scrollLeft, arguments[0].scrollTop]", graph)
    assert after[0] - before[0] > 40 and after[1] - before[1] > 20
    assert shown(om) == "side"


def test_a_hostile_name_is_only_a_name(om):
    find(om, "$(touch x)")
    assert shown(om) == HOSTILE
    assert "\\u202e" in element(om, "#detail h2").text and "\u202e" not in element(om, "body").text
    assert om.execute_script("return document.querySelectorAll('script').length") == 2
    choose(om, "$(touch x)", "start")
    choose(om, "$(touch x)", "end")
    assert "\\[0\\]" not in element(om, "#command").text


def test_a_caffe_net_shows_shapes_and_its_command_cuts(driver, folder, tmp_path):
    show(driver, folder / "net.prototxt.html")
    labels = [each.text for each in driver.find_elements("css selector", "#graph text.label")]
    assert sorted(labels) == ["1,3,8,8 NCHW", *["1,4,3,3 NCHW"] * 2, *["1,4,6,6 NCHW"] * 3]
    choose(driver, "p1", "start")
    choose(driver, "e1", "end")
    words = words_of(element(driver, "#command").text)
    assert words[3:] == ["--start", "p1", "--end", "e1", "--shape", "c1=1,4,6,6", "--shape", "q1=1,4,3,3", "-o", "cuts"]
    done = run_here(words, tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_onnx_cut_says_which_shapes_to_fill_in_and_then_runs(driver, tmp_path):
    onnx_models.save(tmp_path / "net.onnx", onnx_networks.cnn())
    assert run_here(["goldwatch", "graph", "net.onnx", "-o", "page.html"], tmp_path).returncode == 0
    show(driver, tmp_path / "page.html")
    choose(driver, "/relu/Relu", "start")
    choose(driver, "/Add", "end")
    words = words_of(element(driver, "#command").text)
    assert words[3:] == ["--start", "/relu/Relu", "--end", "/Add", "--shape", "n1=?,?,?,?", "-o", "cuts"]
    assert "the file does not tell the shape of n1." in element(driver, "#to-fill-in").text
    done = run_here([word.replace("?,?,?,?", "1,16,16,16") for word in words], tmp_path)
    assert done.returncode == 0, done.stderr
    choose(driver, "x", "start")
    assert "x=?,3,16,16" in words_of(element(driver, "#command").text), "a dim that the model leaves open"

    found = read_page_model(str(tmp_path / "net.onnx"))
    result = GraphResult({}, {}, {}, {("/bn/BatchNormalization", 0): (1, 16, 16, 16)}, {}, set(), set())
    (tmp_path / "told.html").write_text(graph_page(found, Commands([["goldwatch"], []], "", None, False), result))
    show(driver, tmp_path / "told.html")
    choose(driver, "/relu/Relu", "start")
    choose(driver, "/Add", "end")
    assert words_of(element(driver, "#command").text)[-1] == "n1=1,16,16,16", "a result's rows tell the shape"
    assert not driver.find_elements("css selector", "#to-fill-in")


def test_a_result_of_another_model_is_doubted(driver, folder, tmp_path):
    made = [sys.executable, "-m", "goldwatch.testing"]
    for words in (
        [*made, "make", ".", "--ops", "3", "--size", "4k"],
        [*made, "serve", ".", "dump"],
        ["goldwatch", "compare", "dump", "golden", "-f", "model.json", "-o", "out"],
    ):
        assert run_here(words, tmp_path).returncode == 0
    done = run_here(["goldwatch", "graph", folder / "om.json", "--result", "out", "-o", "page.html"], tmp_path)
    assert done.returncode == 0 and "4 of the result's 5 ops are not in this model (such as Node_Output)" in done.stderr
    show(driver, tmp_path / "page.html")
    assert element(driver, "#doubt").text.startswith("4 of the result's 5 ops are not in this model")
    own = run_here(["goldwatch", "graph", "model.json", "--result", "out", "-o", "page.html"], tmp_path)
    assert "warning" not in own.stderr and 'id="doubt"' not in (tmp_path / "page.html").read_text()


def test_no_line_runs_through_a_label_and_no_label_lies_under_a_mark(om):
    choose(om, "add", "start")
    choose(om, "conv10", "end")
    boxes = """return [...document.querySelectorAll(arguments[0])].map((it) => {
      const box = it.getBoundingClientRect();
      return [box.left, box.top, box.right, box.bottom];
    })"""
    labels, backs = (om.execute_script(boxes, "#graph ." + name) for name in ("label", "label-back"))
    assert len(labels) == len(backs) == 7
    assert all(back[0] <= label[0] and label[2] <= back[2] for label, back in zip(labels, backs))
    flags = om.execute_script(boxes, "#graph .flag")
    assert not [1 for a in flags for b in backs if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]]


def test_the_page_of_an_om_knows_the_original_beside_it(driver, folder, tmp_path):
    (tmp_path / "own.prototxt").write_text(ORIGINAL)
    command = ["goldwatch", "graph", "om.json", "--model", tmp_path / "own.prototxt", "-o", tmp_path / "both.html"]
    done = run_here(command, folder)
    assert done.returncode == 0, done.stderr
    show(driver, tmp_path / "both.html")
    choose(driver, "conv1", "start")
    choose(driver, "add", "end")
    words = words_of(element(driver, "#command").text)
    assert words[3:7] == ["--start", "conv1", "--end", "relu2"] and words[words.index("--om") + 1] == str(folder / "om.json")
    assert element(driver, "#config-command").text.startswith("goldwatch config new")
    choose(driver, "conv10", "end")
    assert "conv10 cannot be the end of a cut: conv10 is not one node of the original" in element(driver, "#no-command").text
    assert element(driver, "#command").text.startswith("goldwatch config new")
    choose(driver, "trans", "start")
    assert "trans cannot be the start of a cut: the compiler made this op" in element(driver, "#no-command").text


def test_an_original_beside_an_om_that_cannot_be_read_is_told_on_the_page(driver, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps({"name": "m", "graph": [{"name": "m", "op": OPS}]}))
    (tmp_path / "m.prototxt").write_text("layer {")
    done = run_here(["goldwatch", "graph", "m.json", "-o", "m.html"], tmp_path)
    assert done.returncode == 0, done.stderr
    show(driver, tmp_path / "m.html")
    choose(driver, "conv1", "start")
    choose(driver, "add", "end")
    assert "m.prototxt" in element(driver, "#no-command").text
    assert run_here(["goldwatch", "graph", "m.json", "--model", "m.prototxt", "-o", "n.html"], tmp_path).returncode == 4


@pytest.mark.parametrize(("width", "name"), [(1280, "side"), (1280, "data"), (390, "conv10")])
def test_one_op_is_start_and_end_and_its_label_fits(om, width, name):
    resize(om, width, 844)
    choose(om, name, "start")
    choose(om, name, "end")
    marked = om.find_elements("css selector", "#graph [data-mark]")
    assert [(it.get_attribute("data-op"), it.get_attribute("data-mark")) for it in marked] == [(name, "start")]
    assert om.execute_script("return arguments[0].hasAttribute('data-end')", marked[0])
    element(om, "#tools button[aria-label^=show]").click()
    flag = marked[0].find_element("css selector", ".flag")
    assert flag.get_attribute("textContent") == "START END"
    inside = """const [box, around] = [arguments[0], arguments[0].ownerSVGElement].map((it) => it.getBoundingClientRect());
    return box.left >= around.left && box.right <= around.right && box.top >= around.top && box.bottom <= around.bottom"""
    assert om.execute_script(inside, flag)
    choose(om, "conv1", "start")
    assert not om.execute_script("return document.querySelectorAll('#graph [data-end]').length")


def test_escape_closes_the_detail_and_gives_the_focus_back_to_where_it_was_opened(om):
    find(om, "conv1")
    button = element(om, "button[data-choose=start]")
    button.send_keys(Keys.ENTER)
    om.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert shown(om) is None
    assert om.execute_script("return document.activeElement.id") == "search"
    element(om, "#search").clear()
    om.execute_script("document.querySelector('#graph').focus()")
    element(om, "#graph").send_keys("n")
    element(om, "button[data-choose=start]").send_keys(Keys.ENTER)
    om.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert om.execute_script("return document.activeElement.id") == "graph"


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone_nothing_scrolls_sideways(driver, folder, dark):
    resize(driver, 390, 844, dark)
    show(driver, folder / "om.json.html")
    choose(driver, "conv1", "start")
    choose(driver, "add", "end")
    assert driver.execute_script(SIDEWAYS) <= 0
    paper = driver.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not dark


def test_without_scripts_the_ops_are_a_table(folder):
    with browser(scripts=False) as plain:
        show(plain, folder / "om.json.html", scripts=False)
        text = element(plain, "#plain").text
        assert "conv10 Conv2D" in text and "conv1, bn1, relu1" in text and "1,2,8,8,16 NC1HWC0" in text
        assert not element(plain, "#workbench").is_displayed()


def test_verdicts_of_a_result_are_shown_by_shape_too(driver, tmp_path):
    made = [sys.executable, "-m", "goldwatch.testing"]
    assert run_here([*made, "make", ".", "--ops", "4", "--size", "4k", "--broken", "2"], tmp_path).returncode == 0
    assert run_here([*made, "serve", ".", "dump"], tmp_path).returncode == 0
    assert run_here(["goldwatch", "compare", "dump", "golden", "-f", "model.json", "-o", "out"], tmp_path).returncode == 1
    assert run_here(["goldwatch", "graph", "model.json", "--result", "out", "-o", "page.html"], tmp_path).returncode == 0
    show(driver, tmp_path / "page.html")
    assert shown(driver) == "op_2", "the first bad op is shown"
    verdicts = {each.get_attribute("data-op"): each for each in driver.find_elements("css selector", "#graph [data-verdict]")}
    assert [verdicts["op_%d" % number].get_attribute("data-verdict") for number in range(4)] == ["pass", "pass", "fail", "fail"]
    corners = [verdicts[name].find_element("css selector", ".box").get_attribute("d").count("L") for name in ("op_1", "op_2")]
    assert corners == [0, 3]
    assert "RelativeEuclideanDistance" in element(driver, "#detail").text and "✕ " in verdicts["op_2"].text


def test_three_thousand_ops_are_searched_marked_and_moved(driver, tmp_path):
    ops = [op(number, "op%d" % number, "Add", ["op%d" % (number - 1)] if number else []) for number in range(3000)]
    (tmp_path / "m.json").write_text(json.dumps({"name": "m", "graph": [{"name": "m", "op": ops}]}))
    assert run_here(["goldwatch", "graph", "m.json", "-o", "m.html"], tmp_path).returncode == 0
    show(driver, tmp_path / "m.html")
    assert len(driver.find_elements("css selector", "#graph [data-op]")) == 3000
    choose(driver, "op5", "start")
    choose(driver, "op2999", "end")
    assert element(driver, "#command").get_attribute("data-nodes") == "2995"
    assert driver.execute_script("const graph = document.querySelector('#graph'); graph.scrollTop = 0; return graph.scrollHeight") > 100000
    element(driver, "#tools button[aria-label^=show]").click()
    assert driver.execute_script("return getComputedStyle(document.querySelector('#graph .box')).vectorEffect") == "non-scaling-stroke"


def test_on_a_phone_arrows_and_fingers_move_and_two_fingers_zoom(driver, tmp_path):
    ops = [op(number, "op%d" % number, "Add", ["op%d" % (number - 1)] if number else []) for number in range(60)]
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
        "const box = arguments[0].getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]", graph
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
