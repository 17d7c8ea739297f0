"""Fixtures for pages in a browser."""

from __future__ import annotations

import json

import pytest
from browser import console, resize
from graph_page import NET, OPS
from in_process import run_here
from report_pages import chain, network, write_page


@pytest.fixture
def driver(driver):
    """The browser: every test begins on a large light screen, and ends without a word on the
    console.
    """
    resize(driver, 1280, 900)
    console(driver)
    yield driver
    assert console(driver) == []


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report of 300 rows that are wrong from the 120th on."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    rows = network(300, 120)
    write_page(path, rows, [120], graphs=(chain(rows),))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The graph pages of an om and of a Caffe net, and the models beside them."""
    found = tmp_path_factory.mktemp("graph")
    (found / "om.json").write_text(
        json.dumps({"name": "net", "graph": [{"name": "net", "op": OPS}]})
    )
    (found / "net.prototxt").write_text(NET)
    for name in ("om.json", "net.prototxt"):
        done = run_here(["goldwatch", "graph", name, "-o", name + ".html"], found)
        assert done.returncode == 0, done.stderr
    return found
