"""``scripts/attribute_trial``: two exchanges by the command line, and what counts as named or
false."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

SCRIPTS = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "scripts")
pytestmark = pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < 20, reason="the trial's networks need opset 20"
)


@pytest.fixture
def running(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    from trials.attributes import running

    return running


def test_two_exchanges_and_their_healthy_networks(tmp_path):
    words = ["--only", "^(split-one-for-both|tail-zero)$", "--dtype", "float16", "--form", "all"]
    words += ["--results", "found", "--keep", "kept", "--jobs", "1"]
    done = subprocess.run(
        [sys.executable, os.path.abspath(os.path.join(SCRIPTS, "attribute_trial")), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        cwd=str(tmp_path),
    )
    assert "| **all** | 2 | 2 (100.0 %) |" in done.stdout, done.stdout + done.stderr
    assert "healthy: 2 runs, 2 end with 0, 0 accuse an operator" in done.stdout
    with open(str(tmp_path / "found"), encoding="utf-8") as stream:
        found = [json.loads(line) for line in stream]
    assert [entry["run"] for entry in found] == [
        "tail-zero/float16/all",
        "tail-zero/float16/all/healthy",
        "split-one-for-both/float16/all",
        "split-one-for-both/float16/all/healthy",
    ]
    kept = tmp_path / "kept" / "split-one-for-both_float16_all"
    assert "goldwatch compare" in (kept / "cmd.sh").read_text(encoding="utf-8")


def test_exchanges_drawn_by_lot_and_what_nothing_explains(tmp_path, running):
    names = [running.exchange_of("%s/7/%d" % (kind, at)).name for kind in ("lot", "null")
             for at in range(3)]  # fmt: skip
    assert len(set(names)) == 6
    for more, said in (
        ([], "| **all** | 2 | 2 (100.0 %) |"),
        (["--null"], "something found: 0"),
        (["--unread"], "2 outputs, 0 called not written, 0 of them without"),
    ):
        done = subprocess.run(
            [sys.executable, os.path.abspath(os.path.join(SCRIPTS, "attribute_trial")),
             "--lot", "7", "2", "--jobs", "1", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            cwd=str(tmp_path),
        )  # fmt: skip
        assert said in done.stdout, done.stdout + done.stderr


def entry(name, *explanations, suspect="core", wrong=True):
    told = [list(one) for one in explanations]
    suspects = [[suspect, "", told]] if told else []
    return {"exchange": name, "suspects": suspects, "wrong": wrong, "excused": []}


def test_what_is_named(running):
    right = "the device computed Gather with axis 1; the model says 0"
    assert running.valued(entry("gather-axis", ("computed-otherwise", right)))
    other = entry("gather-axis", ("computed-otherwise", "computed Gather with axis 0"))
    assert running.named(other) and not running.valued(other)
    second = entry("gather-axis", ("scale", "x 2"), ("computed-otherwise", right))
    assert not running.named(second) and running.named(second, first=False)
    assert not running.named(entry("gather-axis"))


def test_what_is_false(running):
    assert running.false(entry("gather-axis", ("random", "nothing to do with what is computed")))
    assert running.false(entry("gather-axis", ("scale", "the target is what is computed x 2")))
    assert not running.false(entry("bn-epsilon", ("scale", "the target is what is computed x 2")))
    assert running.accused(entry("gather-axis", ("scale", "x 2"), suspect="relu"))
    assert running.accused(entry("gather-axis", ("scale", "x 2"), wrong=False))


def test_names_stand_once(running):
    names = [one.name for one in running.EXCHANGES]
    assert len(set(names)) == len(names) >= 130
