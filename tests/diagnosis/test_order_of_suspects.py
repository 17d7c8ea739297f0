"""Suspects of equal score come in the order of time, so that the first one is where a training went
wrong first.
"""

from __future__ import annotations

import json
import os
import sys

import pytest
from in_process import run_here

from goldwatch.testing.training import Training, Wrong


@pytest.fixture
def named(tmp_path):
    """Compare a training; return the suspects as result.json and as Markdown have them."""

    def compare(*wrong):
        folder = str(tmp_path)
        Training(devices=3, steps=(1, 2, 10), wrong=wrong).write(folder)
        names = ("dump", "golden", "graphs", "out", "page.md")
        dump, golden, graphs, out, markdown = (os.path.join(folder, name) for name in names)
        words = ["compare", dump, golden, "-f", graphs, "-o", out, "--jobs", "1"]
        done = run_here([sys.executable, "-m", "goldwatch", *words, "--markdown", markdown])
        assert done.returncode == 1, done.stderr
        with open(os.path.join(out, "result.json"), encoding="utf-8") as stream:
            suspects = json.load(stream)["summary"]["suspects"]
        assert len({suspect["score"] for suspect in suspects}) == 1, "the scores are equal"
        ops = [suspect["op"] for suspect in suspects]
        with open(markdown, encoding="utf-8") as stream:
            text = stream.read().partition("suspects\n")[2]
        assert sorted(ops, key=text.index) == ops
        printed = [line.split()[2] for line in done.stdout.splitlines() if line[:7] == "suspect"]
        assert printed == ops
        return [(suspect["op"], suspect["place"]["step"]) for suspect in suspects]

    return compare


def test_the_step_decides_before_the_model(named):
    suspects = named(Wrong("part0/Relu", 0, 10), Wrong("part1/Relu", 1, 2))
    assert suspects == [("part1/Relu", "2"), ("part0/Relu", "10")]


def test_the_place_in_the_model_decides_before_the_device(named):
    suspects = named(Wrong("part0/Relu", 0), Wrong("part0/Mul", 2))
    assert suspects == [("part0/Mul", "1"), ("part0/Relu", "1")]


def test_an_earlier_step_comes_first_also_within_one_model(named):
    suspects = named(Wrong("part0/Mul", 1, 10), Wrong("part0/Relu", 0, 2))
    assert suspects == [("part0/Relu", "2"), ("part0/Mul", "10")]
