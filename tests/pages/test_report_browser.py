"""The report in a real browser: pointer, keyboard, phone, dark scheme, without scripts."""

from __future__ import annotations

import re

import numpy
import pytest
from browser import SIDEWAYS, browser, element, resize, show
from in_process import run_here
from merged_hosts import Host
from merged_hosts import make_row as make_host_row
from report_pages import HOSTILE, make_row, network, tensors, write_page

from goldwatch.dumps.place import Place
from goldwatch.reports.pages.html_file import asset
from goldwatch.run.merging.merge import Merge
from goldwatch.run.merging.options import MergeOptions

pytestmark = pytest.mark.browser
SHOWN = "return Number(document.querySelector('#rows').dataset.shown)"


def press(driver, selector, *keys):
    found = element(driver, selector)
    driver.execute_script("arguments[0].focus()", found)
    for key in keys:
        found.send_keys(key)


def span(driver):
    found = element(driver, "#plot")
    return int(found.get_attribute("data-from")), int(found.get_attribute("data-to"))


def test_all_parts_of_the_report_are_drawn(driver, page):
    show(driver, page)
    for selector in (
        "#verdict",
        "#suspects [data-op] pre.command",
        "#plot canvas",
        "#rows tbody tr",
        "#scatter canvas",
    ):
        assert element(driver, selector).is_displayed(), selector
    assert (
        not element(driver, "#detail").is_displayed()
        and not element(driver, "#overview").is_displayed()
    )
    assert span(driver) == (0, 299) and len(tensors(driver)) == 60
    canvas = (
        "const c = document.querySelector('#plot canvas'); const all = "
        "c.getContext('2d').getImageData(0, 0, c.width, c.height);"
    )
    assert driver.execute_script(canvas + "return all.data.some((value) => value)")


def test_the_filter_finds_plain_text_in_any_case(driver, page):
    show(driver, page)
    one = (
        ("UNIT3/", 30),
        ("matmul", 100),
        ("FAIL", 180),
        ("not", 0),
        ("block1/unit1", 1),
        ("[", 0),
        ("", 300),
    )
    for typed, shown in (*one, ("fail matmul UNIT3/", 6), ("matmul nowhere", 0)):
        typing = (
            "const f = document.querySelector('#filter'); f.value = arguments[0]; "
            "f.dispatchEvent(new Event('input'))"
        )
        driver.execute_script(typing, typed)
        assert driver.execute_script(SHOWN) == shown, typed
        assert len(tensors(driver)) == min(shown, 60)


def test_a_heading_sorts_rows_by_the_worst_and_then_reversed(driver, page):
    show(driver, page)
    rows = sorted(network(300, 120), key=lambda row: -row.metrics["RelativeEuclideanDistance"])
    for metric, ways in (
        ("RelativeEuclideanDistance", ("descending", "ascending")),
        ("CosineSimilarity", ("ascending", "descending")),
    ):
        head = element(driver, "th[data-metric=%s]" % metric)
        for way, row in zip(ways, (rows[0], rows[-1])):
            head.find_element("css selector", "button").click()
            assert head.get_attribute("aria-sort") == way and tensors(driver)[0] == row.tensor
    assert (
        len(
            driver.find_elements(
                "css selector", "th[aria-sort=ascending], th[aria-sort=descending]"
            )
        )
        == 1
    )


def test_scrolling_shows_every_row_once(driver, page):
    show(driver, page)
    seen = []
    for _ in range(40):
        seen += [name for name in tensors(driver) if name not in seen]
        driver.execute_script("const v = document.querySelector('#rows-view'); v.scrollTop += 600")
        driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )
    names = [row.tensor for row in network(300)]
    # What fails comes first.
    assert seen == names[120:] + names[:120]


def test_keys_zoom_and_move_the_plot(driver, page):
    show(driver, page)
    press(driver, "#plot", "+", "+")
    inner = span(driver)
    assert inner[0] > 0 and inner[1] < 299
    press(driver, "#plot", "\ue012")
    left = span(driver)
    assert left[0] < inner[0] and left[1] - left[0] == inner[1] - inner[0]
    press(driver, "#plot", "\ue014", "-")
    assert span(driver)[1] - span(driver)[0] > inner[1] - inner[0]
    press(driver, "#plot", "0")
    assert span(driver) == (0, 299)


def test_the_plot_shows_values_zooms_on_dragging_and_opens_a_row_on_click(driver, page):
    from selenium.webdriver.common.action_chains import ActionChains

    show(driver, page)
    canvas = element(driver, "#plot canvas")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    ActionChains(driver).move_to_element(canvas).perform()
    tip = element(driver, "#plot [role=tooltip]")
    assert (
        tip.is_displayed()
        and re.match(r"block14/unit\d/Conv2D|block15/", tip.text)
        and "relative distance" in tip.text
    )
    ActionChains(driver).move_to_element_with_offset(
        canvas, -200, 0
    ).click_and_hold().move_by_offset(300, 0).release().perform()
    first, last = span(driver)
    assert 60 < first < last < 240
    ActionChains(driver).move_to_element_with_offset(canvas, 50, 30).click().perform()
    assert element(driver, "#detail").is_displayed() and "#row-" in driver.current_url
    marked = element(driver, "#rows tr[aria-selected=true]").get_attribute("data-tensor")
    assert marked == element(driver, "#detail").get_attribute("data-tensor")


def test_the_wheel_zooms_with_a_key_held_and_otherwise_scrolls(driver, page, until):
    from selenium.webdriver.common.action_chains import ActionChains, ScrollOrigin
    from selenium.webdriver.common.keys import Keys

    show(driver, page)
    canvas = element(driver, "#plot canvas")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    above = driver.execute_script("return scrollY")
    there = ScrollOrigin.from_element(canvas)
    ActionChains(driver).scroll_from_origin(there, 0, -200).perform()
    until(lambda: driver.execute_script("return scrollY") < above)
    assert span(driver) == (0, 299)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    until(lambda: driver.execute_script("return scrollY") == above)
    ActionChains(driver).key_down(Keys.CONTROL).scroll_from_origin(there, 0, -200).key_up(
        Keys.CONTROL
    ).perform()
    until(lambda: span(driver)[1] - span(driver)[0] < 299)


def test_a_row_opens_by_keyboard_with_a_link_and_closes_with_escape(driver, page):
    show(driver, page)
    element(driver, "th[data-column=order] button").click()
    press(driver, "#rows tbody tr[tabindex='0']", "\ue015")
    active = driver.switch_to.active_element
    assert active.get_attribute("data-tensor") == "block0/unit1/Conv2D:output:0"
    active.send_keys("\ue007")
    detail = element(driver, "#detail")
    assert element(driver, "#rows tr[aria-selected=true] td").text == "2"
    assert (
        detail.is_displayed()
        and "block0/unit1/Conv2D:output:0" in detail.text
        and "MatMul" in detail.text
    )
    assert driver.current_url.endswith("#row-2")
    driver.switch_to.active_element.send_keys("\ue00c")
    assert not detail.is_displayed() and "#row" not in driver.current_url
    assert (
        driver.switch_to.active_element.get_attribute("data-tensor")
        == "block0/unit1/Conv2D:output:0"
    )
    show(driver, page, "#row-121")
    detail = element(driver, "#detail")
    assert (
        detail.is_displayed()
        and detail.get_attribute("data-tensor") == "block12/unit0/Conv2D:output:0"
    )
    assert (
        "RelativeEuclideanDistance" in detail.text
        and "Conv2D.block12/unit0/Conv2D.1.2.3" in detail.text
    )


def test_the_button_shows_failing_rows_only(driver, page, tmp_path):
    show(driver, page)
    only = element(driver, "#only-failing")
    assert only.text == "only failing (180)"
    only.click()
    assert driver.execute_script(SHOWN) == 180 and only.get_attribute("aria-pressed") == "true"
    element(driver, "#filter").send_keys("unit3/")
    assert driver.execute_script(SHOWN) == 18
    only.click()
    assert driver.execute_script(SHOWN) == 30
    write_page(tmp_path / "page.html", network(20))
    show(driver, tmp_path / "page.html")
    assert not element(driver, "#only-failing").is_displayed()


def test_an_address_opens_a_row_by_op_or_number_and_unknown_ones_are_reported(driver, page, until):
    opened = (
        "return document.querySelector('#detail').hidden ? null : "
        "document.querySelector('#detail').dataset.tensor"
    )
    for fragment, tensor in (
        ("#op-block3%2Funit4%2FConv2D", "block3/unit4/Conv2D:output:0"),
        ("#row-8", "block0/unit7/Conv2D:output:0"),
    ):
        show(driver, page, fragment)
        assert (
            driver.execute_script(opened) == tensor
            and not element(driver, "#address").is_displayed()
        )
    unknown = {
        "#op-no%2Fsuch": "the op no/such, which has no row here",
        "#row-301": "row 301, which has no row here",
        "#op-%zz": "%zz",
    }
    for fragment, said in unknown.items():
        show(driver, page, fragment)
        assert said in element(driver, "#address").text and driver.execute_script(opened) is None
    driver.execute_script("location.hash = '#row-8'")
    until(lambda: driver.execute_script(opened))
    assert not element(driver, "#address").is_displayed()


def test_back_leads_to_the_previously_open_row(driver, page, until):
    from selenium.webdriver.common.keys import Keys

    opened = (
        "return document.querySelector('#detail').hidden ? null : "
        "document.querySelector('#detail').dataset.tensor"
    )
    show(driver, page)
    for at in (2, 4):
        driver.find_elements("css selector", "#rows tbody tr")[at].click()
        driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    ways = ["block12/unit4/Conv2D:output:0", None, "block12/unit2/Conv2D:output:0", None]
    assert driver.execute_script(opened) is None
    for tensor in ways:
        driver.back()
        until(lambda tensor=tensor: driver.execute_script(opened) == tensor)
    for tensor in reversed(ways[:3]):
        driver.forward()
        until(lambda tensor=tensor: driver.execute_script(opened) == tensor)


def test_the_network_around_the_suspect_and_as_a_whole_leads_to_rows(driver, page):
    show(driver, page)
    drawn = driver.find_elements("css selector", "#graph [data-op]")
    assert (
        len(drawn) == 60
        and element(driver, "#graph [data-selected]").get_attribute("data-op")
        == "block12/unit0/Conv2D"
    )
    assert {"pass", "fail"} == {op.get_attribute("data-verdict") for op in drawn}
    element(driver, "#graph [data-extent]").click()
    # Of a large network the group around the suspect is unfolded, and others that lead there.
    drawn = [
        op.get_attribute("data-op")
        for op in driver.find_elements("css selector", "#graph [data-op]")
    ]
    assert set(drawn) == {"block12/unit%d/Conv2D" % number for number in range(10)}
    group = element(driver, "#graph [data-group][data-verdict=fail]")
    assert "10 ops, 10 outside limits" in group.text
    element(driver, "#graph button[title='unfold all groups']").click()
    assert len(driver.find_elements("css selector", "#graph [data-op]")) == 300
    click = "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    driver.execute_script(click, element(driver, "#graph [data-op='block20/unit3/Conv2D']"))
    assert (
        element(driver, "#detail").get_attribute("data-tensor") == "block20/unit3/Conv2D:output:0"
    )


def test_f_moves_to_the_next_failing_op_while_a_row_is_open(driver, page):
    from selenium.webdriver.common.action_chains import ActionChains

    show(driver, page)
    driver.execute_script("document.querySelector('#graph .network').focus()")
    opened = []
    for _ in range(3):
        ActionChains(driver).send_keys("f").perform()
        opened.append(element(driver, "#detail").get_attribute("data-tensor"))
    assert len(set(opened)) == 3
    ActionChains(driver).send_keys("\ue00c").perform()
    assert (
        driver.switch_to.active_element.get_attribute("class") == "network"
        and not element(driver, "#detail").is_displayed()
    )


def test_the_commands_can_be_copied(driver, page, until):
    show(driver, page)
    element(driver, "#suspects button.copy").click()
    until(lambda: element(driver, "#suspects button.copy").text in ("copied", "select it"))
    assert (
        element(driver, "#suspects pre").text
        == "goldwatch compare-op dump golden 'block12/unit0/Conv2D'"
    )


def test_the_report_on_a_phone_does_not_scroll_sideways(driver, page, tmp_path):
    resize(driver, 390, 844)
    show(driver, page)
    assert driver.execute_script(SIDEWAYS) <= 0
    show(driver, page, "#row-121")
    assert driver.execute_script(SIDEWAYS) <= 0
    long = [
        make_row(number, 0.5, op="x" * 5000 + str(number), op_type="T" * 200) for number in range(3)
    ]
    write_page(tmp_path / "long.html", long, [0])
    show(driver, tmp_path / "long.html", "#row-2")
    assert driver.execute_script(SIDEWAYS) <= 0
    steps = [
        make_row(
            0,
            0.5,
            time="t",
            device=str(step),
            model="ge_default_%d" % (step + 10**40),
            step=str(step),
        )
        for step in range(3)
    ]
    write_page(tmp_path / "steps.html", steps, [0])
    show(driver, tmp_path / "steps.html")
    assert driver.execute_script(SIDEWAYS) <= 0


def test_the_dark_scheme_is_dark(driver, page):
    for dark, least, most in ((False, 600, 765), (True, 0, 150)):
        resize(driver, 1280, 900, dark)
        show(driver, page)
        colour = driver.execute_script(
            "return getComputedStyle(document.documentElement).backgroundColor"
        )
        assert least <= sum(map(int, re.findall(r"\d+", colour)[:3])) <= most


def test_names_in_the_report_are_escaped(driver, tmp_path):
    rows = [
        make_row(),
        make_row(
            1, 0.5, op=HOSTILE, op_type=HOSTILE, reason=HOSTILE, golden=HOSTILE, target_file=HOSTILE
        ),
    ]
    write_page(tmp_path / "page.html", rows, [1], sentence=HOSTILE)
    show(driver, tmp_path / "page.html", "#row-2")
    assert driver.title != "ran" and tensors(driver) == [row.tensor for row in reversed(rows)]
    assert (
        "\u202e" not in element(driver, "body").text
        and "\\u202egnp" in element(driver, "#detail h2").text
    )


def test_control_characters_in_names_are_kept_in_attributes(driver, tmp_path):
    row = make_row(1, 0.5, op="a\x1b[31m\x7f\u202eb")
    write_page(tmp_path / "page.html", [make_row(), row])
    show(driver, tmp_path / "page.html")
    assert row.tensor in tensors(driver)


def test_names_are_never_shortened_to_look_like_another(driver, tmp_path):
    rows = [make_row(number, 0.5, op="scope/" * 40 + "MatMul_%d" % number) for number in range(3)]
    write_page(tmp_path / "page.html", rows)
    show(driver, tmp_path / "page.html")
    for row, line in zip(rows, driver.find_elements("css selector", "#rows tbody td.name")):
        assert line.text == row.tensor
        assert driver.execute_script(
            "return arguments[0].scrollWidth <= arguments[0].clientWidth", line
        )


def test_rows_added_to_a_live_page_keep_the_readers_position(driver, page):
    """A live page appends; the scripts are one closed function, so it is built anew with a door."""
    from selenium.webdriver.support.ui import WebDriverWait

    from goldwatch.reports.pages.html_file import script
    from goldwatch.reports.pages.report import SCRIPTS

    show(driver, page)
    driver.execute_script("document.querySelector('#report').id = 'held'")
    live = script(SCRIPTS).replace(
        "if (document.getElementById('report'))",
        "window.live = {Rows, showReport, readData};\nif (0)",
    )
    driver.execute_async_script(
        live
        + """
        const done = arguments[0];
        live.readData('held').then((found) => {
          window.rows = new live.Rows(found.rows);
          live.showReport(rows, {...found, graphs: []});
          window.more = found.rows;
          done();
        });
        """
    )
    driver.execute_script(
        "document.querySelector('#rows-view').scrollTop = 3000; rows.append(more)"
    )
    WebDriverWait(driver, 60, 0.02).until(lambda it: it.execute_script(SHOWN) == 600)
    assert (
        span(driver) == (0, 599)
        and driver.execute_script("return document.querySelector('#rows-view').scrollTop") == 3000
    )


def test_details_of_compare_op_are_drawn(driver, tmp_path):
    golden = numpy.linspace(1.0, 2.0, 24).reshape(2, 3, 4)
    target = golden.copy()
    target[:, 1] *= 1.5
    numpy.save(str(tmp_path / "target.npy"), target)
    numpy.save(str(tmp_path / "golden.npy"), golden)
    for words in (
        ["compare", "-o", "out"],
        ["compare-op", "-o", "out/detail"],
        ["compare", "-o", "out", "--html", "page.html"],
    ):
        assert run_here(["goldwatch", *words, "target.npy", "golden.npy"], tmp_path).returncode == 1
    show(driver, tmp_path / "page.html", "#row-1")
    detail = element(driver, "#detail")
    assert (
        detail.find_element("css selector", "svg.bars").is_displayed()
        and "logarithm of its count" in detail.text
    )
    assert "axis 1 (3): most at index 1, 100 %" in detail.text
    strips = detail.find_elements("css selector", "svg.strip")
    opacity = (
        "return [...arguments[0].querySelectorAll('rect')].map((cell) => "
        "Number(cell.getAttribute('fill-opacity')))"
    )
    assert [driver.execute_script(opacity, strip) for strip in strips][1] == pytest.approx(
        [0.08, 1.0, 0.08]
    )


def test_a_merge_shows_all_places_it_counts_including_those_without_rows(driver, tmp_path):
    rows = [
        make_row(number, 0.5, host="h1", device="1", step="2", model="net", model_id="1", time="t")
        for number in range(3)
    ]
    empty = [
        Place("t", device, "net", "1", step, host)
        for host in ("h1", "h2")
        for device in "01"
        for step in "12"
    ]
    counts = {place: {"pass": 5} for place in empty}
    write_page(tmp_path / "page.html", rows, [0], unstored=counts, places=tuple(empty))
    show(driver, tmp_path / "page.html")
    press(driver, "#overview .frame", "\ue015", "\ue015")
    tip = element(driver, "#overview .tip").text
    assert "device h1/1, step 1" in tip and "0 of 5 tensors are outside their limits" in tip
    press(driver, "#overview .frame", "\ue014")
    assert "3 of 8 tensors are outside their limits" in element(driver, "#overview .tip").text
    assert (
        element(driver, "#rows-status").text == "3 rows of 43, of which the merge stores no others"
    )
    heads = driver.execute_script(
        "return [...document.querySelectorAll('#rows th')].map((head) => head.dataset.column)"
    )
    assert {"host", "step", "device"} <= set(heads)
    assert (
        driver.execute_script("return document.querySelectorAll('#plot-place option').length") == 1
    )


def test_a_merge_shows_every_op_and_step_over_all_devices(driver, tmp_path):
    hosts = [Host(str(tmp_path / name)) for name in ("left", "right")]
    worst = {}
    for number, host in enumerate(hosts):
        rows = [
            make_host_row(op, device, step,
            distance=1e-4 * (1 + op * 7 % 5 + device * 3 % 5 + step + number), time=str(number))
            for op in range(4) for device in range(2) for step in (1, 2)
        ]  # fmt: skip
        if number:
            for at in (5, 14):
                rows[at] = rows[at].but(verdict="fail", metrics={"RelativeEuclideanDistance": 0.5})
        for row in rows:
            worst[row.op, row.step] = max(
                row.metrics["RelativeEuclideanDistance"], worst.get((row.op, row.step), 0)
            )
        host.begin().put(*rows).finish()
    with Merge(MergeOptions(tuple(host.folder for host in hosts), str(tmp_path / "all"))) as merge:
        merge.stop("test")
        merge.follow()
        merge.finish()
    assert run_here(["goldwatch", "report", "all", "--html", "page.html"], tmp_path).returncode == 0
    show(driver, tmp_path / "page.html")
    frame = "#overview .frame:last-child"
    head = "return document.querySelectorAll('#overview .heat-head b')[1].textContent"
    assert driver.execute_script(head) == "Ops × steps: relative distance"
    press(driver, frame, "\ue015", "\ue012", "\ue012")
    told = {}
    for op in range(4):
        for step in (1, 2):
            lines = element(driver, frame + " .tip").text.split("\n")
            told["op%d" % op, str(step)] = lines
            press(driver, frame, "\ue014" if step == 1 else "\ue015")
        press(driver, frame, "\ue012")
    assert all(lines[0] == op for (op, _), lines in told.items())
    for key, value in worst.items():
        assert float(told[key][-1].split()[2].rstrip(",")) == pytest.approx(value, rel=1e-3), (
            key,
            told[key],
        )
    failing = [key for key, lines in told.items() if lines[-1].endswith("fail")]
    assert failing == [("op1", "2"), ("op3", "1")] and told["op3", "2"][-1].endswith(
        "at worst; no row of that is stored"
    )
    # Without room for all failing rows it is said that marks lack.
    words = [
        "goldwatch",
        "watch",
        "--merge",
        "left",
        "right",
        "-o",
        "few",
        "--until-idle",
        "0.1",
        "--max-rows",
        "1",
    ]
    assert run_here(words, tmp_path).returncode == 1
    assert run_here(["goldwatch", "report", "few", "--html", "few.html"], tmp_path).returncode == 0
    show(driver, tmp_path / "few.html")
    assert (
        driver.execute_script(head)
        == "Ops × steps: relative distance, marked where the failing row is stored"
    )
    # Of one device there is what is stored.
    show(driver, tmp_path / "page.html")
    choose = (
        "const [, device] = document.querySelectorAll('#overview select'); device.value = 0; "
        "device.dispatchEvent(new Event('change'))"
    )
    driver.execute_script(choose)
    assert (
        driver.execute_script(head)
        == "Ops × steps: relative distance, of the rows that the merge stores"
    )


def test_the_tensor_column_stays_visible_while_scrolling(driver, tmp_path):
    write_page(tmp_path / "page.html", network(30))
    show(driver, tmp_path / "page.html")
    resize(driver, 390, 800)
    moved = (
        "const view = document.querySelector('#rows-view'); view.scrollLeft = 1e4; return "
        "[view.scrollLeft > 50"
    )
    edges = (
        ", ...['#rows td.name', '#rows th[data-column=tensor]'].map((name) => "
        "document.querySelector(name).getBoundingClientRect().left"
    )
    scrolled, *left = driver.execute_script(
        moved + edges + " - view.getBoundingClientRect().left)]"
    )
    element(driver, "#rows tbody tr").click()
    colours = (
        "[...document.querySelectorAll('#rows tr[aria-selected] td')].map((cell) => "
        "getComputedStyle(cell).backgroundColor)"
    )
    marked = driver.execute_script("return [...new Set(%s)]" % colours)
    resize(driver, 1280, 900)
    assert (
        scrolled and all(0 <= edge < 3 for edge in left) and len(marked) == 1
    ), "an open row is marked as a whole"


def test_blanks_around_the_filter_are_ignored(driver, tmp_path):
    write_page(tmp_path / "page.html", network(30, 12), [12])
    show(driver, tmp_path / "page.html")
    element(driver, "#filter").send_keys("  fail ")
    assert driver.execute_script("return Number(document.querySelector('#rows').dataset.shown)") > 0


def test_a_training_has_an_overview_that_selects_rows(driver, tmp_path):
    rows = [
        row.but(time="t", device=str(device), model="m", model_id="1", step=str(step),
        metrics=dict(row.metrics))
        for device in range(2) for step in (1, 2, 10) for row in network(8,
        4 if device and step == 10 else None)
    ]  # fmt: skip
    write_page(tmp_path / "page.html", rows, [44])
    show(driver, tmp_path / "page.html")
    assert element(driver, "#overview").is_displayed() and span(driver) == (0, 7)
    frame = element(driver, "#overview .frame")
    press(driver, "#overview .frame", "\ue015", "\ue014", "\ue014", "\ue015")
    assert (
        frame.find_element("css selector", "[role=tooltip]").text
        == "device 1, step 10\n4 of 8 tensors are outside their limits"
    )
    press(driver, "#overview .frame", "\ue015", "\ue014", "\ue014", "\ue015", "\ue007")
    assert driver.execute_script(SHOWN) == 8
    element(driver, "#unrestrict").click()
    assert driver.execute_script(SHOWN) == 48


def test_only_the_metric_outside_its_limit_is_marked(driver, tmp_path):
    limits = "CosineSimilarity>0.99; RelativeEuclideanDistance<0.03; MaxAbsoluteError<=0"
    metrics = {
        "CosineSimilarity": 1 - 1e-8,
        "RelativeEuclideanDistance": 0.5,
        "MaxAbsoluteError": 0.0,
    }
    rows = [
        make_row(0, verdict="fail", decided_by=limits, metrics=metrics),
        make_row(1, verdict="fail", metrics=metrics),
        make_row(2),
    ]
    write_page(tmp_path / "page.html", rows)
    show(driver, tmp_path / "page.html")
    outside = (
        asset("common.js")
        + asset("rows.js")
        + """
      const rows = new Rows(JSON.parse(document.querySelector('#report').textContent).rows);
      return [0, 1, 2].map((row) => arguments[0].map((name) => rows.isOutside(name, row)));"""
    )
    assert driver.execute_script(outside, list(metrics)) == [
        [False, True, False],
        [True, True, True],
        [False, False, False],
    ]


@pytest.mark.parametrize(("width", "last"), [(390, "verdict"), (1920, "MeanRelativeError")])
def test_no_visible_column_is_cut_off(driver, page, width, last):
    resize(driver, width, 1000)
    show(driver, page)
    edges = (
        "return arguments[0].map((each) => "
        "document.querySelector(each).getBoundingClientRect().right)"
    )
    column, view = driver.execute_script(edges, ["#rows th[data-column=%s]" % last, "#rows-view"])
    assert column <= view
    resize(driver, 1280, 900)


def test_metrics_of_a_row_stay_whole_on_a_phone(driver, page):
    resize(driver, 390, 844)
    show(driver, page, "#row-5")
    lines = """const lines = (cell) => {
        const range = document.createRange();
        range.selectNode(cell.firstChild);
        return range.getClientRects().length;
      };
      return [...document.querySelectorAll('#detail tr')].map((row) => [row.textContent, lines(row.cells[0]), lines(row.cells[1])]);"""  # noqa: E501
    found = driver.execute_script(lines)
    resize(driver, 1280, 900)
    assert len(found) > 8 and [each for each in found if each[1:] != [1, 1]] == []


def test_the_first_metric_of_a_training_is_visible_on_a_phone(driver, tmp_path):
    rows = [
        row.but(time="t", device=str(device), model="m", model_id="1", step=str(step),
        metrics=dict(row.metrics))
        for device in range(2) for step in (1, 10) for row in network(8, 4 if device else None)
    ]  # fmt: skip
    write_page(tmp_path / "page.html", rows)
    resize(driver, 390, 844)
    show(driver, tmp_path / "page.html")
    edges = (
        "return arguments[0].map((each) => "
        "document.querySelector(each).getBoundingClientRect().right)"
    )
    column, view = driver.execute_script(
        edges, ["#rows th[data-column=CosineSimilarity]", "#rows-view"]
    )
    lines = [
        cell.text.split("\n")[-1] for cell in driver.find_elements("css selector", "#rows td.name")
    ]
    says = driver.execute_script(
        "return document.querySelector('#rows tbody .verdict').textContent"
    )
    resize(driver, 1280, 900)
    show(driver, tmp_path / "page.html")
    assert column <= view and says == "fail"
    assert list(dict.fromkeys(lines)) == [
        "step %d · device %d" % (step, device) for device in (1, 0) for step in (1, 10)
    ]
    assert driver.find_elements("css selector", "#rows .where") == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_last_number_of_the_plot_lies_within_its_frame(driver, tmp_path, width):
    write_page(tmp_path / "page.html", network(2000))
    resize(driver, width, 844)
    show(driver, tmp_path / "page.html")
    ends = driver.execute_script(
        "const context = CanvasRenderingContext2D.prototype, text = context.fillText, ends = [];"
        "context.fillText = function (words, x, y) {"
        "  if (this.textAlign === 'center') ends.push([words, x + "
        "this.measureText(words).width / 2]);"
        "  text.call(this, words, x, y); };"
        "document.querySelector('#plot').dispatchEvent(new Event('blur'));"
        "return [ends[ends.length - 1], document.querySelector('#plot').clientWidth];"
    )
    resize(driver, 1280, 900)
    (number, end), frame = ends
    assert number == "2000" and end <= frame - 10


@pytest.mark.parametrize("far", [0.0, 2.0])
def test_the_limit_is_drawn_however_far_the_values_are_from_it(driver, tmp_path, far):
    metrics = {"CosineSimilarity": 1 - far, "RelativeEuclideanDistance": far}
    rows = [
        make_row(
            number,
            decided_by="CosineSimilarity>0.99; RelativeEuclideanDistance<0.03",
            metrics=metrics,
        )
        for number in range(3)
    ]
    write_page(tmp_path / "page.html", rows)
    show(driver, tmp_path / "page.html")
    driver.execute_script("""window.said = []; const own = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { said.push(text); own.call(this, text, ...rest); };""")  # noqa: E501
    driver.find_element("css selector", "#plot").send_keys("0")
    assert {"limit 0.01", "limit 0.03"} <= set(driver.execute_script("return said"))


def test_a_page_without_rows_is_drawn(driver, tmp_path):
    write_page(tmp_path / "page.html", [])
    show(driver, tmp_path / "page.html")
    assert driver.execute_script(SHOWN) == 0


def test_packed_rows_of_a_large_report_are_drawn(driver, tmp_path):
    write_page(tmp_path / "page.html", network(5000, 400), [400])
    show(driver, tmp_path / "page.html")
    assert driver.execute_script(SHOWN) == 5000 and span(driver) == (0, 4999)


def test_verdict_and_suspects_are_readable_without_scripts(tmp_path, page):
    with browser(scripts=False) as blocked:
        show(blocked, page, scripts=False)
        assert blocked.find_element("css selector", "html").get_attribute("data-ready") is None
        assert blocked.find_element("css selector", "#verdict").is_displayed()
        assert "script" in blocked.find_element("css selector", "#rows-note").text
        assert "compare-op" in blocked.find_element("css selector", "#suspects").text
        resize(blocked, 390, 844)
        width = blocked.find_element("css selector", "html").get_property("scrollWidth")
        assert width <= 390


def training(tmp_path, devices=3, steps=4):
    """The report of some devices and steps: device 1 is wrong from op 2 and step 3 on."""
    rows = [
        row.but(time="t", device=str(device), model="m", model_id="1", step=str(step),
        metrics=dict(row.metrics))
        for device in range(devices) for step in range(1, steps + 1) for row in network(6,
        2 if device == 1 and step > 2 else None)
    ]  # fmt: skip
    write_page(
        tmp_path / "page.html",
        rows,
        [next(number for number, row in enumerate(rows) if row.verdict == "fail")],
    )
    return rows


def test_other_devices_and_steps_are_drawn_beside_the_chosen_place(driver, tmp_path):
    from selenium.webdriver.support.ui import Select

    training(tmp_path)
    show(driver, tmp_path / "page.html")
    choice = Select(element(driver, "#plot-beside"))
    assert not element(driver, "#network .legend").is_displayed()
    for value, lines in (
        ("devices", ["device 1", "device 0", "device 2"]),
        ("steps", ["step 3", "step 1", "step 2", "step 4"]),
    ):
        choice.select_by_value(value)
        legend = element(driver, "#network .legend").text
        assert [legend.count("●")] + [line in legend for line in lines] == [len(lines)] + [
            True
        ] * len(lines)
    press(driver, "#plot", "\ue015", "\ue015", "\ue015")
    tip = element(driver, "#plot [role=tooltip]").text.split("\n")
    assert tip[0] == "block0/unit2/Conv2D:output:0" and len(tip) == 6
    values = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in tip[2:]}
    assert (
        values["step 3, device 1"] > 0.1
        and values["step 4, device 1"] > 0.1
        and values["step 1, device 1"] < 0.01
    )
    # One metric at a time, and again several where nothing is beside.
    assert len(driver.find_elements("css selector", "#plot-metrics [aria-pressed=true]")) == 1
    choice.select_by_value("")
    assert len(driver.find_elements("css selector", "#plot-metrics [aria-pressed=true]")) == 2


def test_an_op_over_the_steps_is_drawn_as_a_curve_per_device(driver, tmp_path):
    training(tmp_path)
    show(driver, tmp_path / "page.html", "#op-block0%2Funit2%2FConv2D")
    frame = element(driver, "#over-steps")
    assert (frame.get_attribute("data-from"), frame.get_attribute("data-to")) == ("0", "3")
    legend = element(driver, "#detail .legend").text
    assert legend.count("●") == 3 and legend.index("device 1") < legend.index(
        "device 0"
    ) < legend.index("device 2")
    press(driver, "#over-steps", "\ue015", "\ue007")
    assert "step 1, device 1" in element(driver, "#detail dl").text
    show(driver, tmp_path / "page.html", "#op-block0%2Funit1%2FConv2D")
    assert len(driver.find_elements("css selector", "#over-steps canvas")) == 1


def test_a_row_names_and_links_its_neighbours(driver, page, until):
    show(driver, page, "#op-block12%2Funit0%2FConv2D")
    links = driver.find_elements("css selector", "#detail .neighbours a")
    assert [link.text for link in links] == ["block11/unit9/Conv2D", "block12/unit1/Conv2D"]
    links[0].click()
    until(
        lambda: element(driver, "#detail").get_attribute("data-tensor")
        == "block11/unit9/Conv2D:output:0"
    )
