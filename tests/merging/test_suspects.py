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

from goldwatch.run.merging.merge import Merge
from goldwatch.run.merging.options import MergeOptions
from goldwatch.testing.training import Training, Wrong

MODELS = ("ge_default_20260102030405_11",)
_ALIKE = " with the same model and golden data in step 2"


@pytest.fixture
def merged(tmp_path):
    """Compare a training on two hosts and merge; return the suspects of the second host and of the
    merge.
    """

    def merge(devices, wrong, left=()):
        folders = []
        for name in ("left", "right"):
            folder = str(tmp_path / name)
            made = (wrong,) if name == "right" else left
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
    (there,), (here,) = host["explanations"], suspect["explanations"]
    assert there["sentence"].endswith("device 0 gets it right%s" % _ALIKE)
    assert here["sentence"] == there["sentence"].replace(
        "device 1 is wrong: device 0 gets",
        "device 1 of host right is wrong: the other 3 devices get",
    )
    assert here["kind"] == there["kind"]
    assert suspect["evidence"] == "on host right " + host["evidence"]


def test_each_host_is_told_its_own_fault(merged):
    (host,), suspects = merged(4, Wrong("part0/MatMul", 2, 2), (Wrong("part0/Relu", 3, 1),))
    relu, matmul = suspects
    assert (relu["op"], relu["place"]["host"], relu["place"]["device"]) == (
        "part0/Relu",
        "left",
        "3",
    )
    assert {**matmul, "place": None, "evidence": "", "explanations": []} == {
        **host,
        "place": None,
        "evidence": "",
        "explanations": [],
    }
    assert matmul["place"] == {"host": "right", **host["place"]}
    first = matmul["explanations"][0]["sentence"]
    assert "only device 2 of host right is wrong: the other 7 devices get it right" in first


@pytest.mark.parametrize("devices", [1, 2])
def test_a_fault_of_all_devices_of_all_hosts_is_said_to_be(merged, devices):
    wrong = Wrong("part0/MatMul", None, 2)
    (host,), (suspect,) = merged(devices, wrong, (wrong,))
    assert ("; on all 2 devices from step 2 on" in host["evidence"]) == (devices == 2)
    assert suspect["evidence"].endswith("; in step 2 on all %d devices of 2 hosts" % (2 * devices))
    assert "only device" not in suspect["explanations"][0]["sentence"]


def test_a_host_with_one_device_is_told_that_those_of_other_hosts_have_it_right(merged):
    (host,), (suspect,) = merged(1, Wrong("part0/MatMul", 0, 2))
    assert "original model" in host["explanations"][0]["next"]
    explanation = suspect["explanations"][0]
    only = "only device 0 of host right is wrong: device 0 of host left gets it right"
    assert only in explanation["sentence"]
    assert explanation["next"].startswith(
        "run step 2 again with the work of device 0 of host right"
    )
