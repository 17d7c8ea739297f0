"""The commands of docs/compare-op.md work, and those of docs/migrating.md."""

from __future__ import annotations

import os
import re
import shutil

import numpy as np
import pytest
from in_process import DOCS, make_dumps, run_page

from goldwatch.comparing.patterns import KINDS
from goldwatch.testing import Training

PROTOTXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "caffe", "resblock", "resblock.prototxt")


@pytest.fixture
def folder(tmp_path):
    make_dumps(tmp_path)
    for name in ("target", "golden"):
        np.save(str(tmp_path / (name + ".npy")), np.ones((2, 3), np.float32))
    shutil.copy(PROTOTXT, str(tmp_path / "net.prototxt"))
    return tmp_path


def test_commands(folder):
    assert all(run_page("compare-op.md", folder, 3))
    assert (folder / "detail" / "op_1_output_0_0.csv").exists()


def test_commands_for_those_who_come_from_the_vendors_tools(folder):
    with open(os.path.join(DOCS, "metrics.md"), encoding="utf-8") as stream:
        metric = re.findall(r"```python\n(def compare.*?)```", stream.read(), re.S)
    (folder / "custom" / "algorithm").mkdir(parents=True)
    (folder / "custom" / "algorithm" / "alg_MeanError.py").write_text(metric[0])
    Training(devices=1, steps=(9, 10)).write(str(folder / "training"))
    run_page("migrating.md", folder, 15)
    assert len(os.listdir(str(folder / "files"))) == 5


def test_the_kinds_are_those_of_the_page():
    with open(os.path.join(DOCS, "compare-op.md"), encoding="utf-8") as stream:
        text = stream.read()
    assert all("`%s`" % kind in text for kind in KINDS)
