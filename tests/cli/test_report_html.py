"""``--html``: pages of finished and unfinished runs, and of ops with details from compare-op."""

from __future__ import annotations

import html
import json
import os
import re
import shlex

import numpy
import pytest
from in_process import run_here

from goldwatch.store.store import RunStore
from goldwatch.store.stored_networks import SUMMARY


@pytest.fixture
def compared(tmp_path, make_network):
    make_network(str(tmp_path / "n"))
    words = [
        "goldwatch",
        "compare",
        "n/dump",
        "n/golden",
        "-f",
        "n/net.json",
        "-o",
        "out",
        "--html",
        "out/page.html",
    ]
    assert run_here(words, tmp_path).returncode == 1
    return tmp_path


def data_of(path):
    with open(str(path), encoding="utf-8") as stream:
        return json.loads(re.findall(r'id="report">(.*?)</script>', stream.read())[0])


def test_compare_and_report_write_the_same_page(compared):
    os.rename(str(compared / "out"), str(compared / "moved"))
    assert (
        run_here(["goldwatch", "report", "moved", "--html", "again.html"], compared).returncode == 0
    )
    again, first = data_of(compared / "again.html"), data_of(compared / "moved" / "page.html")
    assert again["rows"] == first["rows"] and again["suspects"] == first["suspects"]


def test_the_page_of_an_unfinished_run_says_so(compared):
    with RunStore.begin(
        str(compared / "out"), RunStore.open(str(compared / "out")).get("inputs")
    ) as store:
        assert store.get(SUMMARY) is None
    assert run_here(["goldwatch", "report", "out", "--html", "page.html"], compared).returncode == 0
    page = (compared / "page.html").read_text(encoding="utf-8")
    verdict = page[page.index('id="verdict"') : page.index('id="suspects"')]
    assert (
        "fail so far, the run has not finished" in verdict and "goes on or was stopped" in verdict
    )


def test_the_page_shows_details_of_compare_op_and_names_damaged_ones(compared):
    failing = next(iter(RunStore.open(str(compared / "out")).rows("index", verdict="fail")))
    words = [
        "goldwatch",
        "compare-op",
        "n/dump",
        "n/golden",
        failing.op,
        "-f",
        "n/net.json",
        "-o",
        "out/detail",
    ]
    assert run_here(words, compared).returncode == 1
    os.mkdir(str(compared / "out" / "other"))
    (compared / "out" / "other" / "detail.json").write_text("{")
    assert run_here(["goldwatch", "report", "out", "--html", "page.html"], compared).returncode == 0
    data = data_of(compared / "page.html")
    texts, at = data["rows"]["texts"]["tensor"]
    found = {texts[at[int(row)]]: detail for row, detail in data["details"].items()}
    assert found[failing.tensor]["histogram"]["counts"] and found[failing.tensor]["where"]
    assert "other/detail.json is not used" in (compared / "page.html").read_text(encoding="utf-8")


def test_the_page_of_two_files_has_a_compare_op_command_that_runs(tmp_path):
    numpy.save(str(tmp_path / "a b.npy"), numpy.array([1.0, numpy.nan]))
    numpy.save(str(tmp_path / "b.npy"), numpy.array([1.0, 2.0]))
    assert (
        run_here(
            ["goldwatch", "compare", "a b.npy", "b.npy", "-o", "out", "--html", "page.html"],
            tmp_path,
        ).returncode
        == 1
    )
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    (command,) = re.findall('<pre class="command">(.*?)</pre>', page)
    words = shlex.split(html.unescape(re.sub("<[^>]*>", "", command)))
    assert words[:2] == ["goldwatch", "compare-op"] and run_here(words, tmp_path).returncode == 1
    assert run_here(["goldwatch", "report", "out", "--html", "page.html"], tmp_path).returncode == 0
    assert list(data_of(tmp_path / "page.html")["details"]) == ["0"]
