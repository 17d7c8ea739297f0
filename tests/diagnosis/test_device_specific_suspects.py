"""A suspect that is wrong on some devices of a training only: the advice is about these devices,
not about the model or the golden data that the others share.
"""

from __future__ import annotations

import json
import os
import sys

import pytest
from in_process import run_here

from goldwatch.testing.training import Training, Wrong

MODELS = ("ge_default_20260102030405_11",)


@pytest.fixture
def suspect(tmp_path):
    """Compare a training of four devices; return its first suspect."""

    def compare(*wrong):
        folder = str(tmp_path)
        made = Training(MODELS, devices=4, steps=(1, 2), wrong=wrong)
        made.write(folder)
        paths = [os.path.join(folder, name) for name in ("dump", "golden", "graphs", "out")]
        dump, golden, graphs, out = paths
        words = ["compare", dump, golden, "-f", graphs, "-o", out, "-q", "--jobs", "1"]
        done = run_here([sys.executable, "-m", "goldwatch", *words])
        assert done.returncode == 1, done.stderr
        with open(os.path.join(out, "result.json"), encoding="utf-8") as stream:
            return json.load(stream)["summary"]["suspects"][0]

    return compare


@pytest.mark.parametrize("op", ["part0/MatMul", "part0/Relu"])
def test_one_device_that_differs_is_looked_at_instead_of_the_model_that_all_run(suspect, op):
    found = suspect(Wrong(op, 2, 2))
    first = found["explanations"][0]
    assert (found["op"], found["place"]["device"], found["place"]["step"]) == (op, "2", "2")
    assert "only device 2 is wrong: the other 3 devices get it right" in first["sentence"]
    assert "device 2 on another device" in first["next"] and "original" not in first["next"]


def test_training_data_that_one_device_alone_has_otherwise_are_compared_with_the_others(suspect):
    first = suspect(Wrong("part0/IteratorGetNext", 1))["explanations"][0]
    assert "only device 1 is wrong" in first["sentence"]
    assert first["next"].startswith("compare what device 1 was given")


def test_what_is_wrong_on_all_devices_is_looked_at_in_the_model(suspect):
    first = suspect(Wrong("part0/MatMul"))["explanations"][0]
    assert "device" not in first["sentence"] and "original model" in first["next"]


def test_most_devices_wrong_do_not_make_the_device_the_cause(suspect):
    wrong = [Wrong("part0/MatMul", device) for device in (0, 1, 3)]
    first = suspect(*wrong)["explanations"][0]
    assert "device" not in first["sentence"] and "original model" in first["next"]
