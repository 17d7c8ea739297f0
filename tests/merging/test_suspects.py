"""A merge says of a suspect what the run of its host says: what its error looks like, and what to
do; and where devices of other hosts have it right, that it is this device.
"""

from __future__ import annotations

import json
import os
import sys

import pytest
from in_process import run_here
from merged_hosts import merge_to_the_end

from goldwatch.merging.merge import Merge
from goldwatch.merging.options import MergeOptions
from goldwatch.testing.training import Training, Wrong

MODELS = ("ge_default_20260102030405_11",)


@pytest.fixture
def merged(tmp_path):
    """Compare a training on two hosts and merge; return the suspects of the second host and of the
    merge.
    """

    def merge(devices, wrong):
        folders = []
        for name in ("left", "right"):
            folder = str(tmp_path / name)
            made = (wrong,) if name == "right" else ()
            Training(MODELS, devices=devices, steps=(1, 2), wrong=made).write(folder)
            paths = [os.path.join(folder, part) for part in ("dump", "golden", "graphs", "out")]
            dump, golden, graphs, out = paths
            words = ["compare", dump, golden, "-f", graphs, "-o", out, "-q", "--jobs", "1"]
            assert run_here([sys.executable, "-m", "goldwatch", *words]).returncode in (0, 1)
            folders.append(out)
        with open(os.path.join(folders[1], "result.json"), encoding="utf-8") as stream:
            host = json.load(stream)["summary"]["suspects"]
        result = merge_to_the_end(Merge(MergeOptions(tuple(folders), str(tmp_path / "all"))))
        return host, [suspect.document() for suspect in result.summary.suspects]

    return merge


def test_a_suspect_is_explained_as_by_the_run_of_its_host(merged):
    (host,), (suspect,) = merged(2, Wrong("part0/Mul", 1, 2))
    assert suspect["explanations"] == host["explanations"] != []
    assert suspect["evidence"] == "on host right " + host["evidence"]


def test_a_host_with_one_device_is_told_that_those_of_other_hosts_have_it_right(merged):
    (host,), (suspect,) = merged(1, Wrong("part0/MatMul", 0, 2))
    assert "original model" in host["explanations"][0]["next"]
    explanation = suspect["explanations"][0]
    assert "only device right/0 is wrong: device left/0 gets it right" in explanation["sentence"]
    assert explanation["next"].startswith("run step 2 again with the work of device right/0")
