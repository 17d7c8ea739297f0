"""Two dumps of one model without golden data: what changed between two builds or two runs."""

from __future__ import annotations

import os

import numpy as np
from in_process import run_here
from locate_host import small
from onnx_device import on_device, write_model

from goldwatch.testing.device_dump import write_files


def dumped(folder, name, fault=None, without=()):
    """Write the dump of a run of the small network, without the files of some ops."""
    small(folder / "net.onnx")
    feeds = {"x": np.random.RandomState(5).standard_normal((2, 32)).astype(np.float32)}
    device = on_device(str(folder / "net.onnx"), feeds, fault=fault)
    write_model(device, str(folder / "net.json"), "")
    write_files(str(folder / name), device.dumps())
    for base, _, files in os.walk(str(folder / name)):
        for file in files:
            if any(".%s." % op in file for op in without):
                os.remove(os.path.join(base, file))


def last_sentence(folder, *words):
    done = run_here(["goldwatch", "compare", "new", "old", "-o", "out", *words], folder)
    return done.returncode, " ".join(done.stdout.split())


def test_a_difference_below_the_limits_is_named_with_its_op(tmp_path):
    dumped(tmp_path, "old")
    dumped(tmp_path, "new", ("relu", lambda array: array * np.float32(1.002)))
    for words in ([], ["-f", "net.json", "--force"]):
        code, text = last_sentence(tmp_path, *words)
        assert code == 0 and "The first difference of the two dumps is in relu (Relu)" in text
        assert "its inputs are equal, relu:output:0 differs (0.2" in text


def test_equal_dumps_are_called_equal(tmp_path):
    for name in ("old", "new"):
        dumped(tmp_path, name)
    code, text = last_sentence(tmp_path)
    assert code == 0 and "All tensors that both dumps have are equal." in text


def test_ops_that_one_of_the_dumps_has_alone_are_listed(tmp_path):
    dumped(tmp_path, "old", without=["first"])
    dumped(tmp_path, "new", without=["second"])
    _, text = last_sentence(tmp_path)
    assert "1 operator in TARGET alone: first." in text
    assert "1 operator in GOLDEN alone: second." in text


def test_other_inputs_of_the_two_runs_are_no_operators_fault(tmp_path):
    dumped(tmp_path, "old")
    dumped(tmp_path, "new", ("first", lambda array: array * 2), without=["first"])
    code, text = last_sentence(tmp_path)
    assert code != 0 and "The first tensor that differs is an input, relu:input:0" in text
