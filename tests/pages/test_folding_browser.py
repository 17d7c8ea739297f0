"""A large network on its page: folding, stepping through failing ops, the original model beside
it.
"""

from __future__ import annotations

import json

import pytest
from browser import SIDEWAYS, element, resize, show
from graph_page import find, shown_op
from in_process import run_here

from goldwatch.reports.pages.graph_page import Commands, graph_page
from goldwatch.reports.pages.graph_result import GraphResult
from goldwatch.reports.pages.network_drawing import Flow, NetworkOp
from goldwatch.reports.pages.read_page_model import OM, PageModel, detail, no_choice

pytestmark = pytest.mark.browser
LAYERS = 40
DRAWN = "return [...document.querySelectorAll('#graph [data-op]')].map((op) => op.dataset.op)"
GROUPS = (
    "return [...document.querySelectorAll('#graph [data-group]')].map((group) => group.textContent)"
)
BAD = ["net/layer_7/a/MatMul", "net/layer_7/b/Add", "net/layer_31/a/Softmax"]


def ops_of(layers):
    ops = [NetworkOp("net/in", "Data", ())]
    for layer in range(layers):
        for part, kinds in (
            ("a", ("MatMul", "Softmax", "Mul")),
            ("b", ("Add", "LayerNorm", "Gelu")),
        ):
            for kind in kinds:
                ops.append(
                    NetworkOp(
                        "net/layer_%d/%s/%s" % (layer, part, kind),
                        kind,
                        (Flow(len(ops) - 1, "1,128,768"),),
                    )
                )
    return ops


def model_of(ops, kind=OM, originals=None):
    details = []
    for number, op in enumerate(ops):
        found = detail(
            op.type,
            [[flow.source, flow.text] for flow in op.inputs],
            ["1,128,768"],
            [],
            no_choice("no"),
        )
        details.append(
            dict(
                found,
                originals=[op.name] if originals is None else originals[number],
                layer=op.name,
            )
        )
    return PageModel(kind, "net", "net.json", ops, details)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The page of a network of 241 ops, three of which are outside their limits."""
    path = tmp_path_factory.mktemp("large") / "net.html"
    ops = ops_of(LAYERS)
    verdicts = {op.name: "fail" if op.name in BAD else "pass" for op in ops}
    result = GraphResult(verdicts, {}, {}, {}, {}, {op.name for op in ops}, set())
    path.write_text(
        graph_page(model_of(ops), Commands(None, "none", None, True), result), encoding="utf-8"
    )
    return path


def test_only_the_path_to_the_first_failing_op_is_unfolded(driver, large):
    show(driver, large)
    drawn = driver.execute_script(DRAWN)
    assert (
        shown_op(driver) == BAD[0]
        and set(drawn) < {op.name for op in ops_of(LAYERS)}
        and len(drawn) < 10
    )
    groups = driver.execute_script(GROUPS)
    assert any("layer_31" in group and "6 ops, 1 outside limits" in group for group in groups)
    boxes = (
        "const [a, b] = ['#graph [data-selected]', '#graph'].map((each) => "
        "document.querySelector(each).getBoundingClientRect());"
    )
    assert driver.execute_script(
        boxes
        + "return a.top > b.top && a.bottom < b.bottom && a.left > b.left && a.right < b.right"
    )


def test_a_group_unfolds_and_folds_in_place(driver, large):
    show(driver, large)
    click = "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    find_group = (
        "return [...document.querySelectorAll('#graph [data-group]')].find((group) => "
        "group.textContent.includes('layer_8'))"
    )
    top = "return arguments[0].getBoundingClientRect().top"
    group = driver.execute_script(find_group)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", group)
    before, number = driver.execute_script(top, group), group.get_attribute("data-group")
    driver.execute_script(click, group)
    frame = element(driver, "#graph [data-fold='%s']" % number)
    assert "layer_8" in frame.text and abs(driver.execute_script(top, frame) - before) < 30
    assert len([name for name in driver.execute_script(GROUPS) if "layer_8" in name]) == 0
    driver.execute_script(click, frame.find_element("css selector", "text"))
    assert driver.execute_script(find_group) is not None


def test_boxes_of_unfolded_groups_do_not_overlap(driver, large):
    show(driver, large)
    element(driver, "#tools button[title='unfold all groups']").click()
    assert len(driver.execute_script(DRAWN)) == 1 + 6 * LAYERS
    overlapping = """
    const boxes = [...document.querySelectorAll('#graph [data-place] > .box')].map((box) => box.getBBox());
    const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
    return boxes.filter((a, at) => boxes.slice(0, at).some((b) => meet(a, b))).length"""  # noqa: E501
    assert driver.execute_script(overlapping) == 0
    # Every op lies within the frames of its groups.
    outside = """
    const all = (wanted) => [...document.querySelectorAll('#graph ' + wanted)], box = (element) => element.getBBox();
    const frames = all('.group-frame').map((one) => [one.querySelector('title').textContent + '/', box(one.querySelector('rect'))]);
    const holds = (a, b) => a.x <= b.x && a.y <= b.y && a.x + a.width >= b.x + b.width && a.y + a.height >= b.y + b.height;
    const lost = (op) => frames.some(([name, frame]) => op.dataset.op.startsWith(name) && !holds(frame, box(op.querySelector('.box'))));
    return all('[data-op]').filter(lost).length"""  # noqa: E501
    assert driver.execute_script(outside) == 0
    element(driver, "#tools button[title='fold all groups']").click()
    assert len(driver.execute_script(DRAWN)) == 1


def test_f_goes_from_one_failing_op_to_the_next_and_back(driver, large):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    show(driver, large)
    assert element(driver, "#tools [data-next=fail]").text == "next failing (3)"
    for name in (BAD[1], BAD[2], BAD[0]):
        ActionChains(driver).send_keys("f").perform()
        assert shown_op(driver) == name and name in driver.execute_script(DRAWN)
    ActionChains(driver).key_down(Keys.SHIFT).send_keys("f").key_up(Keys.SHIFT).perform()
    assert shown_op(driver) == BAD[2]


def test_failing_ops_are_marked_in_the_list_and_searchable_by_verdict(driver, large):
    show(driver, large)
    find(driver, "fail")
    names = [
        one.text for one in driver.find_elements("css selector", "#results [role=option] .name")
    ]
    assert names == BAD and element(driver, "#found").text == "3 of 241 ops"
    assert (
        len(
            driver.find_elements("css selector", "#results .verdict[data-is=fail][aria-label=fail]")
        )
        == 3
    )
    find(driver, "layer_31 fail")
    assert shown_op(driver) == BAD[2]


def test_the_minimap_shows_the_visible_part_and_moves_it(driver, large):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    show(driver, large)
    canvas = element(driver, ".network-frame .minimap")
    painted = WebDriverWait(driver, 60, 0.02)  # in the next frame of the browser
    painted.until(lambda _: canvas.is_displayed())
    reddish = """
    const c = document.querySelector('.minimap'), copy = document.createElement('canvas');
    [copy.width, copy.height] = [c.width, c.height];
    // Reading it again and again would be warned of in the console.
    const read = copy.getContext('2d', {willReadFrequently: true});
    read.drawImage(c, 0, 0);
    const d = read.getImageData(0, 0, c.width, c.height).data;
    return d.some((red, at) => at % 4 === 0 && red > 150 && d[at + 1] < 80 && d[at + 3] > 200)"""  # noqa: E501
    painted.until(lambda it: it.execute_script(reddish))
    top = "return document.querySelector('#graph').scrollTop"
    element(driver, "#graph").click()
    ActionChains(driver).move_to_element_with_offset(canvas, 0, 70).click().perform()
    low = driver.execute_script(top)
    ActionChains(driver).move_to_element_with_offset(canvas, 0, -70).click().perform()
    assert driver.execute_script(top) < low
    element(driver, "#tools button[title='fold all groups']").click()
    painted.until(lambda _: not canvas.is_displayed())


def test_the_original_model_is_shown_beside_with_fused_ops_linked(driver, tmp_path):
    original = ops_of(3)
    compiled, sources = [NetworkOp("net/in", "Data", ())], [["net/in"]]
    for layer in range(3):
        compiled.append(
            NetworkOp("fused_%d" % layer, "FlashAttention", (Flow(len(compiled) - 1, ""),))
        )
        sources.append(
            ["net/layer_%d/%s" % (layer, name) for name in ("a/MatMul", "a/Softmax", "a/Mul")]
        )
        compiled.append(NetworkOp("tail_%d" % layer, "Add", (Flow(len(compiled) - 1, ""),)))
        sources.append(["net/layer_%d/b/Add" % layer])
    page = graph_page(
        model_of(compiled, OM, sources),
        Commands(None, "none", None, True),
        None,
        model_of(original, "onnx"),
    )
    (tmp_path / "net.html").write_text(page, encoding="utf-8")
    show(driver, tmp_path / "net.html", "#op-fused_1")
    together = (
        "return [...document.querySelectorAll('#original [data-together]')].map((op) => "
        "op.dataset.op)"
    )
    assert (
        driver.execute_script(together) == sources[3]
        and element(driver, "#beside-head").text == "Original model: net"
    )
    click = "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    driver.execute_script(click, element(driver, "#original [data-op='net/layer_2/a/Softmax']"))
    assert element(driver, "#graph [data-selected]").get_attribute("data-op") == "fused_2"
    text = element(driver, "#detail").text
    assert (
        "an op of the original model, type Softmax" in text
        and "net/layer_2/a/MatMul" in text
        and "fused_2" in text
    )
    driver.execute_script(click, element(driver, "#original [data-op='net/layer_2/b/Gelu']"))
    assert "No compiled op names it" in element(driver, "#not-compiled").text
    heads = [one.text for one in driver.find_elements("css selector", "#fusions summary")]
    assert heads == [
        "3 compiled ops are several original ones",
        "6 original ops, constants aside, are in no compiled one",
    ]
    for width in (1920, 1280, 390):
        resize(driver, width, 844)
        show(driver, tmp_path / "net.html")
        assert (
            driver.execute_script(SIDEWAYS) <= 0 and element(driver, "#original svg").is_displayed()
        )


def test_sixteen_thousand_ops_can_be_searched_and_drawn(driver, tmp_path):
    ops = ops_of(2667)
    page = graph_page(model_of(ops), Commands(None, "none", None, True))
    assert len(ops) == 16003
    (tmp_path / "net.html").write_text(page, encoding="utf-8")
    show(driver, tmp_path / "net.html")
    find(driver, "net/layer_2000/b/Add")
    assert shown_op(
        driver
    ) == "net/layer_2000/b/Add" and "net/layer_2000/b/Add" in driver.execute_script(DRAWN)
    assert not element(
        driver, "#tools button[title='16003 ops are too many to be drawn at once']"
    ).is_enabled()


def test_names_of_groups_and_originals_are_escaped(driver, tmp_path):
    hostile = "a</script><script>document.title='ran'</script>/<b>\u202e/"
    names = [hostile + "op%d" % number for number in range(300)]
    steps = [
        {"name": name, "type": "Relu", "id": at, "input": [names[at - 1] + ":0"] if at else []}
        for at, name in enumerate(names)
    ]
    (tmp_path / "m.json").write_text(
        json.dumps({"name": "m", "graph": [{"name": "m", "op": steps}]})
    )
    assert run_here(["goldwatch", "graph", "m.json", "-o", "m.html"], tmp_path).returncode == 0
    show(driver, tmp_path / "m.html")
    assert driver.title != "ran" and "\u202e" not in element(driver, "body").text
