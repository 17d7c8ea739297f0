"""The service's pages in a real browser: list, live run, reconnecting, dark scheme, phone,
keyboard.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sqlite3

import pytest
from browser import READY, SIDEWAYS, accessibility_faults, console, resize
from merged_hosts import Host, follow_until_quiet
from merged_hosts import make_row as make_host_row
from service_client import COMPARE, TOKEN, WATCH, post_job

from goldwatch.run.merging.merge import Merge
from goldwatch.run.merging.options import MergeOptions

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def clean(driver):
    resize(driver, 1280, 900)
    console(driver)
    yield
    driver.get("about:blank")


class Page:
    def __init__(self, driver, until):
        self.driver, self.until = driver, until

    def open(self, server, path):
        self.driver.get(server.url + path)
        self.until(lambda: self.driver.execute_script(READY))

    def log_in(self, server, token=TOKEN):
        self.element("#token").send_keys(token + "\n")

    def element(self, selector):
        return self.until(
            lambda: next(iter(self.driver.find_elements("css selector", selector)), None)
        )

    def texts(self, selector):
        script = (
            "return [...document.querySelectorAll(arguments[0])].map((found) => found.textContent)"
        )
        return self.driver.execute_script(script, selector)

    def text(self, selector):
        """Return an element's text; the page may put another in its place at any moment."""
        return "".join(self.texts(selector)[:1])

    def rows(self):
        return self.driver.execute_script(
            "return Number(document.documentElement.dataset.rows || 0)"
        )


@pytest.fixture
def page(driver, until):
    return Page(driver, until)


@pytest.fixture
def watched(serving, live, row, tmp_path, page):
    """(server, store, id) of a run that goes on; the browser is logged in."""
    store = live("out")
    store.put_all([row(number) for number in range(5)])
    server = serving(tmp_path / "lab")
    page.open(server, "/")
    page.log_in(server)
    page.element("#runs tbody tr")
    # The 401 that made the page ask for the token.
    console(page.driver)
    return server, store, server.runs()[0]["id"]


def test_a_page_asks_for_the_token(serving, live, row, tmp_path, page):
    live("out").put(row(1))
    server = serving(tmp_path / "lab")
    page.open(server, "/")
    page.log_in(server, "wrong")
    page.until(lambda: "not the token" in page.text("#login-problem"))
    page.element("#token").clear()
    page.log_in(server)
    page.element("#runs tbody tr")


def test_the_list_shows_filters_and_adds_runs(watched, live, row, page):
    server, store, run = watched
    assert page.texts("#runs tbody a[data-run]") == ["lab/out"]
    live("another").put(row(1, verdict="fail"))
    page.until(lambda: len(page.texts("#runs tbody tr")) == 2)
    page.element("#filter").send_keys("another")
    page.until(lambda: page.texts("#runs tbody a[data-run]") == ["lab/another"])
    assert page.texts("#runs .verdict") == ["fail"] and page.texts(
        "#runs tbody a[href*='#op-']"
    ) == ["op1"]
    # By the keyboard alone: from the filter over the verdict to the run.
    from selenium.webdriver.common.keys import Keys

    for _ in range(20):
        if page.driver.execute_script("return document.activeElement.dataset.run || ''"):
            break
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert page.driver.switch_to.active_element.text == "lab/another"
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda: "/runs/" in page.driver.current_url)
    assert console(page.driver) == []


def test_the_list_sorts_keeps_its_selection_and_opens_a_diff(watched, live, row, page):
    server, store, run = watched
    names = lambda: page.texts("#runs tbody a[data-run]")  # noqa: E731
    other = live("another")
    other.put_all([row(number, verdict="fail") for number in range(1, 4)])
    page.until(lambda: len(names()) == 2)
    page.element("th[data-sort=fail] button").click()
    page.until(lambda: names() == ["lab/another", "lab/out"])
    page.element("th[data-sort=fail] button").click()
    page.until(
        lambda: names() == ["lab/out", "lab/another"] and "sort=fail" in page.driver.current_url
    )
    assert page.element("th[data-sort=fail]").get_attribute("aria-sort") == "ascending"
    # The other line comes anew, this one stays, and what is selected in it.
    page.driver.execute_script(
        "getSelection().selectAllChildren(document.querySelector('#runs a[data-run]'))"
    )
    other.put(row(9, verdict="fail"))
    page.until(lambda: server.json("/api/v1/runs?q=another")["runs"][0]["failed"] == 4)
    page.until(lambda: page.driver.execute_script("return String(getSelection())") == "lab/out")
    page.driver.execute_script("getSelection().removeAllRanges()")
    page.until(lambda: "4" in page.texts("#runs tbody tr:last-child td.number"))
    for box in page.driver.find_elements("css selector", "#runs input[data-pick]"):
        box.click()
    link = page.element("#difference a")
    assert "lab/out" in link.text and "lab/another" in link.text
    link.click()
    page.until(lambda: page.driver.execute_script(READY))
    assert "FAIL so far" in page.text("#after") and "another" in page.text("#verdict dl")
    assert console(page.driver) == []


def test_a_diff_link_from_another_site_asks_for_the_token_and_opens(
    serving, live, row, page, tmp_path
):
    for name in ("out", "another"):
        live(name).put(row(1, verdict="fail"))
    server = serving(tmp_path / "lab")
    link = "/diff/%s/%s" % tuple(run["id"] for run in server.runs())
    page.open(server, link)
    page.log_in(server)
    page.until(lambda: "FAIL so far" in page.text("#after"))
    page.driver.get("data:text/html,<a href='%s'>difference</a>" % (server.url + link))
    page.element("a").click()
    page.until(lambda: "FAIL so far" in page.text("#after"))
    assert page.driver.current_url == server.url + link


def test_more_runs_than_fit_are_shown_on_demand(watched, page, tmp_path):
    server, store, run = watched
    for number in range(204):
        shutil.copytree(
            str(tmp_path / "lab" / "out"), str(tmp_path / "lab" / ("copy%03d" % number))
        )
    page.until(lambda: page.text("#runs-status") == "the newest 200 of 205 runs")
    page.element("#more").click()
    page.until(
        lambda: page.text("#runs-status") == "205 runs" and len(page.texts("#runs tbody tr")) == 205
    )
    assert not page.element("#more").is_displayed()


def test_unreadable_rows_are_counted_on_the_page(watched, page):
    """Nobody takes a page for whole that lacks rows."""
    server, store, run = watched
    store.close()
    with contextlib.closing(sqlite3.connect(str(store.path))) as connection:
        connection.execute("UPDATE tensor SET reason = 'x' WHERE id IN (2, 5)")
        connection.commit()
    page.open(server, "/runs/" + run)
    page.until(lambda: page.text("#connection").startswith("3 of 5 rows could be read"))
    with contextlib.closing(sqlite3.connect(str(store.path))) as connection:
        connection.execute("UPDATE tensor SET reason = 'x'")
        connection.commit()
    page.open(server, "/runs/" + run)
    page.until(lambda: page.text("#connection").startswith("0 of 5 rows could be read"))


def test_rows_plot_and_divergence_are_updated_live(watched, row, page):
    server, store, run = watched
    page.open(server, "/runs/" + run)
    page.until(lambda: page.rows() == 5)
    page.until(lambda: page.text("#title") == "lab/out (net)")
    page.until(lambda: page.driver.title == "running: lab/out (net)")
    assert page.text("#verdict .verdict").startswith("running")
    store.put_all([row(number) for number in range(5, 40)])
    page.until(lambda: page.rows() == 40)
    page.until(lambda: page.element("#plot canvas"))
    store.put(row(20, op="wrong", verdict="fail", target_file="Conv2D.wrong.1.2.3"))
    page.until(lambda: page.texts("#divergence a") == ["wrong"])
    page.until(lambda: page.text("#verdict .verdict").startswith("fail"))
    # A row that is found again takes its place.
    store.put(row(3, verdict="not_compared", reason="changed"))
    page.until(lambda: "1 not compared" in page.text("#verdict .counts"))
    assert page.rows() == 41
    page.driver.execute_script("location.hash = 'op-wrong'")
    page.until(
        lambda: page.element("#detail").get_attribute("data-tensor") == "op20:output:0"
        or "wrong" in page.text("#detail")
    )
    assert page.element("#detail a").get_attribute("href").endswith("#op-wrong")
    store.close()
    page.until(lambda: "stopped" in page.text("#verdict .verdict"))
    assert console(page.driver) == []


def test_a_link_to_an_op_opens_its_row(watched, row, page):
    server, store, run = watched
    page.open(server, "/runs/%s#op-op3" % run)
    page.until(lambda: "op3:output:0" in page.text("#detail"))
    assert {"result.json", "report.html"} >= set(page.texts("#files a")) - {
        "junit.xml",
        "report.md",
    }
    page.open(server, "/")
    page.open(server, "/runs/%s#op-nothing" % run)
    page.until(
        lambda: page.text("#address")
        == "The address names the op nothing, which has no row so far."
    )
    store.close()
    page.until(
        lambda: page.text("#address") == "The address names the op nothing, which has no row here."
    )
    # Its number in the table names a row as well.
    page.open(server, "/")
    page.open(server, "/runs/%s#row-3" % run)
    page.until(lambda: "op2:output:0" in page.text("#detail"))


def test_a_page_reconnects_when_the_server_comes_back(serving, watched, row, page, tmp_path):
    server, store, run = watched
    page.open(server, "/runs/" + run)
    page.until(lambda: page.rows() == 5)
    server.end(signal.SIGKILL)
    page.until(lambda: "does not answer" in page.text("#connection"))
    store.put_all([row(number) for number in range(5, 25)])
    again = serving(tmp_path / "lab", port=server.port)
    page.until(lambda: page.rows() == 25)
    store.put(row(25))
    page.until(lambda: page.rows() == 26)
    assert again.port == server.port and page.text("#connection") == ""


@pytest.mark.parametrize("dark", [False, True])
def test_service_pages_on_a_phone_do_not_scroll_sideways(watched, page, dark):
    server, store, run = watched
    resize(page.driver, 390, 800, dark)
    for path in ("/", "/runs/" + run):
        page.open(server, path)
        if path != "/":
            page.until(lambda: page.rows() == 5)
        assert page.driver.execute_script(SIDEWAYS) <= 0
        paper = page.driver.execute_script(
            "return getComputedStyle(document.documentElement).backgroundColor"
        )
        assert (paper == "rgb(255, 255, 255)") != dark


def test_names_in_service_pages_are_escaped(serving, live, row, tmp_path, page):
    name = "<img src=x onerror=\"document.title='ran'\"></script>"
    store = live("out")
    store.put(row(1, op=name, tensor=name + ":output:0", verdict="fail", reason=name, model=name))
    server = serving(tmp_path / "lab")
    page.open(server, "/")
    page.log_in(server)
    page.element("#runs tbody tr")
    page.open(server, "/runs/" + server.runs()[0]["id"])
    page.until(lambda: page.texts("#divergence a") == [name])
    # The title holds the name too, as text.
    assert page.driver.title != "ran"
    assert page.driver.find_elements("css selector", "main img") == []


def test_the_content_policy_of_pages_is_strict(watched):
    server, _, run = watched
    for path in ("/", "/runs/" + run, "/runs/nothing"):
        status, headers, body = server.ask(
            path, token=False, headers={"Sec-Fetch-Site": "cross-site"}
        )
        policy = headers["Content-Security-Policy"]
        assert (
            status == 200
            and "default-src 'none'" in policy
            and "unsafe" not in policy
            and "script-src 'self'" in policy
        )
        assert b"<script>" not in body and b"<style" not in body
    assert server.ask("/static/../../secret", token=False)[0] == 404
    assert server.ask("/static/run.js", token=False)[1]["Content-Type"].startswith(
        "text/javascript"
    )


def network_of(count):
    """Return the stored network of a chain of ops."""
    desc = {"dtype": "float16", "layout": "ND", "shape": [1, 8]}
    ops = [
        {"name": "op%d" % number, "type": "Conv2D", "id": number, "graph": 0, "originals": None,
        "controls": [],
         "inputs": [["op%d" % (number - 1), 0]] if number else [], "input_descs": [desc],
         "output_descs": [desc]}
        for number in range(count)
    ]  # fmt: skip
    return {"model": "net", "graphs": ["net"], "ops": ops}


def test_the_network_is_drawn_around_the_first_wrong_op(watched, row, page):
    server, store, run = watched
    store.set("graphs", [network_of(200)])
    page.open(server, "/runs/" + run)
    verdict = (
        'return (document.querySelector("#graph [data-op=%s]") || {dataset: {}}).dataset.verdict '
        '|| ""'
    )
    page.until(lambda: page.driver.execute_script(verdict % "op3") == "pass")
    assert page.driver.execute_script(verdict % "op150") == ""
    store.put(row(150, verdict="fail"))
    page.until(lambda: page.driver.execute_script(verdict % "op150") == "fail")
    store.put(row(151, verdict="not_compared"))
    page.until(lambda: page.driver.execute_script(verdict % "op151") == "not_compared")
    # A click opens the op's row; its address leads others there.
    click = (
        "document.querySelector('#graph [data-op=op150] .box').dispatchEvent(new "
        "MouseEvent('click', {bubbles: true}))"
    )
    page.driver.execute_script(click)
    page.until(
        lambda: "op150:output:0" in page.text("#detail")
        and page.driver.current_url.endswith("#op-op150")
    )
    assert console(page.driver) == []


def test_each_part_of_the_page_appears_when_rows_have_its_data(watched, live, row, page):
    server, _, _ = watched
    store = live("later")
    store.put(row(0, verdict="not_compared", metrics={}, reason="the golden file is missing"))
    run = page.until(
        lambda: next(
            (found["id"] for found in server.runs() if found["path"].endswith("later")), None
        )
    )
    shown = (
        "return [...document.querySelectorAll('#network, #overview')].map((part) => !part.hidden)"
    )
    page.open(server, "/runs/" + run)
    page.until(lambda: "1 row" in page.text("#rows-status"))
    assert page.driver.execute_script(shown) == [False, False]
    store.put(row(1))
    page.until(lambda: page.driver.execute_script(shown) == [True, False])
    store.put(row(1, step="1"))
    page.until(lambda: page.driver.execute_script(shown) == [True, True])
    assert page.rows() == 3 and console(page.driver) == []


def test_a_link_opens_one_of_several_rows_of_an_op(watched, row, page):
    server, store, run = watched
    store.put_all([row(3, step=str(step)) for step in range(1, 4)])
    page.open(server, "/runs/" + run)
    page.until(lambda: page.rows() == 8)
    page.driver.execute_script("document.querySelector('#rows tr[data-row=\"6\"]').click()")
    page.until(lambda: "step 2" in page.text("#detail"))
    link = page.driver.current_url
    assert "#op-op3&" in link
    page.driver.get("about:blank")
    page.driver.get(link)
    page.until(lambda: "step 2" in page.text("#detail"))


def test_a_run_continued_after_its_end_is_followed(watched, live, row, page):
    server, store, run = watched
    page.open(server, "/runs/" + run)
    page.until(lambda: page.rows() == 5)
    store.close()
    page.until(lambda: "stopped" in page.text("#verdict .verdict"))
    # It is over again before the page asks.
    again = live("out")
    again.put_all([row(number) for number in range(5, 9)])
    again.close()
    page.until(lambda: page.rows() == 9)
    assert console(page.driver) == []


def test_jobs_are_listed_with_logs_and_can_be_cancelled(serving, tmp_path, page):
    for name in ("dump", "golden"):
        (tmp_path / "lab" / name).mkdir(parents=True)
    server = serving(tmp_path / "lab")
    watch = {"command": "watch", "args": ["dump", "golden"], "options": {"out": "out"}}
    job = server.json("/api/v1/runs", 202, method="POST", body=watch)
    compare = {"command": "compare", "args": ["nothing", "golden"], "options": {"out": "x"}}
    wrong = server.json("/api/v1/runs", 202, method="POST", body=compare)
    page.open(server, "/jobs")
    page.log_in(server)
    page.until(lambda: page.texts("#jobs [data-job='%s'] .verdict" % job["id"]) == ["running"])
    assert "watch dump golden --out=out" in page.text("#jobs [data-job='%s']" % job["id"])
    page.driver.execute_script(
        "document.querySelector('[data-key=\"cancel-%s\"]').click()" % job["id"]
    )
    page.until(lambda: page.texts("#jobs [data-job='%s'] .verdict" % job["id"]) == ["cancelled"])
    page.until(lambda: page.texts("#jobs [data-job='%s'] .verdict" % wrong["id"]) == ["failed"])
    page.driver.execute_script(
        "document.querySelector('[data-key=\"log-%s\"]').click()" % wrong["id"]
    )
    page.until(lambda: "nothing" in page.text("#log"))
    resize(page.driver, 390, 800)
    assert page.driver.execute_script(SIDEWAYS) <= 0


def test_the_page_of_a_waiting_run_shows_it_when_it_starts(serving, lab, page):
    """The page says that it waits, and shows the run by itself; a run that never comes is named
    so.
    """
    server = serving(lab)
    watched, compared = post_job(server, WATCH), post_job(server, COMPARE)
    lost = post_job(server, {**COMPARE, "options": {**COMPARE["options"], "out": "lost"}})
    page.open(server, "/")
    page.log_in(server)
    page.element("#runs")
    console(page.driver)
    page.open(server, "/runs/" + lost["run"])
    assert (
        page.text("#job")
        == "Job %s is queued: its run is shown here as soon as it has begun." % lost["id"]
    )
    server.json("/api/v1/jobs/%s/cancel" % lost["id"], 202, method="POST")
    page.until(lambda: page.text(".problem") == "Job %s is cancelled and left no run." % lost["id"])
    page.open(server, "/runs/" + "0" * 16)
    assert page.text(".problem") == "There is no such run."
    page.open(server, "/runs/" + compared["run"])
    assert page.text("#job").startswith("Job %s is queued" % compared["id"])
    server.json("/api/v1/jobs/%s/cancel" % watched["id"], 202, method="POST")
    page.until(lambda: page.rows() > 0 and page.text("#verdict .verdict") == "pass")
    # Those of runs that were not there, and nothing of what came then.
    assert all("404" in line for line in console(page.driver))


def test_a_merge_shows_its_hosts_and_the_worst_over_all_devices(serving, page, tmp_path):
    (tmp_path / "lab").mkdir()
    hosts = [Host(str(tmp_path / "hosts" / name)) for name in ("left", "right")]
    for host in hosts:
        host.begin().put(
            *(
                make_host_row(op, device, step)
                for op in range(4)
                for device in range(2)
                for step in (3, 4)
            )
        )
    hosts[1].put(make_host_row(2, 1, 4, verdict="fail", distance=0.75))
    server = serving(tmp_path / "lab")
    page.open(server, "/")
    page.log_in(server)
    with Merge(
        MergeOptions(tuple(host.folder for host in hosts), str(tmp_path / "lab" / "all"))
    ) as merge:
        follow_until_quiet(merge)
        page.element("#runs tbody tr")
        console(page.driver)
        (run,) = server.runs()
        page.open(server, "/runs/" + run["id"])
        page.until(lambda: page.texts("#steps tbody tr"))
        assert page.texts("#steps tbody tr:first-child td") == [
            "4",
            "op2:output:0",
            "4",
            "0.75",
            "0.1883",
        ]
        page.until(lambda: page.rows() == 1)
        assert "32 rows" in page.text("#verdict .counts")
        page.until(lambda: page.text("#rows-status").startswith("1 row of 32, of which"))
        page.until(
            lambda: page.texts("#overview .heat-head b")[1:] == ["Ops × steps: relative distance"]
        )
        chosen = "return document.getElementById('plot-place').value"
        page.until(
            lambda: page.text("#plot-status") == "1 tensor" and page.driver.execute_script(chosen)
        )
        for host in hosts:
            host.finish()
        merge.stop("test")
        merge.follow()
        merge.finish()
    page.until(lambda: len(page.texts("#verdict .hosts li")) == 2)
    assert page.texts("#verdict .hosts li") == [
        "host left: pass, 16 rows: 16 pass, 0 fail",
        "host right: fail, 16 rows: 15 pass, 1 fail",
    ]
    page.until(lambda: page.rows() == 4)
    page.until(lambda: page.text("#rows-status").startswith("4 rows of 32, of which"))
    assert "right" in page.text("#rows tbody tr") and page.text("#connection") == ""
    assert console(page.driver) == []


@pytest.mark.axe
@pytest.mark.parametrize("dark", [False, True])
def test_service_pages_have_no_accessibility_faults(watched, page, dark):
    server, store, run = watched
    resize(page.driver, 1280, 900, dark)
    for path in ("/", "/jobs", "/runs/" + run):
        page.open(server, path)
        assert accessibility_faults(page.driver) == [], path
