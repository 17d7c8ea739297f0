"""``goldwatch golden caffe`` on the command line: exit codes and output."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from goldwatch.cli import goldwatch
from goldwatch.cli.error_handling import run_command

NET = """layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 12 dim: 2 dim: 2 } } }
layer { name: "r" type: "ReLU" bottom: "data" top: "data" }
layer { name: "many" type: "Slice" bottom: "data" %s }
""" % " ".join('top: "t%d"' % number for number in range(12))  # noqa: E501


@pytest.fixture
def run(capfd):
    def call(*argv):
        with pytest.raises(SystemExit) as caught:
            run_command(goldwatch, [str(word) for word in ("golden", "caffe") + argv])
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return caught.value.code, out, err

    return call


@pytest.fixture
def net(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "net.caffemodel").write_bytes(b"")
    return tmp_path


def test_deinplace_prints_and_reports_each_rename_and_changes_nothing_the_second_time(run, net):
    code, out, err = run("deinplace", "net.prototxt", "--report", "r.json")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "renamed  r: top data -> r",
        "new_net.prototxt: 1 tops renamed, 0 layers removed, 0 warnings",
    ]
    report = json.loads((net / "r.json").read_text())
    assert report == {
        "renamed": [{"layer": "r", "old": "data", "new": "r"}],
        "removed": [],
        "warnings": [],
        "changed_outputs": [],
    }
    code, out, _ = run("deinplace", "net.prototxt", "--force", "--format", "json")
    assert (code, json.loads(out)["output"]) == (0, "new_net.prototxt")
    assert run("deinplace", "net.prototxt")[0] == 2
    assert run("deinplace", "net.prototxt", "-o", "net.prototxt", "--force")[0] == 2
    assert run("deinplace", "missing.prototxt")[0] == 4
    (net / "empty").write_text("")
    assert run("deinplace", "empty")[0] == 4
    code, out, err = run("deinplace", "new_net.prototxt")
    assert (code, (net / "new_new_net.prototxt").read_text()) == (
        0,
        (net / "new_net.prototxt").read_text(),
    )
    assert "nothing to change" in err


def test_deinplace_exits_with_0_when_there_are_only_warnings(run, net):
    text = NET.replace(
        '"r" type: "ReLU" bottom: "data"', '"r" type: "Eltwise" bottom: "data" bottom: "data"'
    )
    (net / "net.prototxt").write_text(text)
    code, _, err = run("deinplace", "net.prototxt", "--report", "r.json")
    assert code == 0
    assert "warning: layer r reads blob data twice" in err
    assert [entry["layer"] for entry in json.loads((net / "r.json").read_text())["warnings"]] == [
        "r"
    ]


def test_dump_writes_layers_with_more_than_ten_tops_and_refuses_a_used_folder(run, net):
    np.save("in.npy", np.arange(48, dtype=np.float32).reshape(1, 12, 2, 2) - 20)
    code, out, err = run(
        "dump",
        "net.prototxt",
        "net.caffemodel",
        "-i",
        "data=in.npy",
        "-o",
        "out",
        "--backend",
        "numpy",
        "--format",
        "json",
    )
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["runs"][0]["counts"]["written"] == 14
    entries = {
        (e["op"], e["output_index"]): e["file"]
        for e in json.loads((net / "out" / "manifest.json").read_text())["tensors"]
    }
    assert np.load("out/" + entries["data", 0]).min() == -20
    assert np.load("out/" + entries["r", 0]).min() == 0
    for index in range(12):
        np.testing.assert_array_equal(
            np.load("out/" + entries["many", index]),
            np.maximum(np.load("in.npy"), 0)[:, index : index + 1],
        )
    assert entries["many", 11].startswith("many.11.")
    code, out, err = run(
        "dump",
        "net.prototxt",
        "net.caffemodel",
        "-i",
        "data=in.npy",
        "-o",
        "out",
        "--backend",
        "numpy",
    )
    assert (code, out) == (2, "")
    assert "already holds golden files" in err and "--force" in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["-o", "o"], 2),
        (["--random", "1"], 2),
        (["--random", "-1", "-o", "o"], 2),
        (["--random", "1", "-o", "o", "--mean", "1,2,3"], 2),
        (["--random", "1", "-o", "o", "--layers", "nope"], 2),
        (["--random", "1", "-o", "net.prototxt"], 2),
        (["--random", "1", "-o", "o", "--backend", "caffe", "--python", "/no/such/python"], 2),
        (["-i", "nope=x.npy", "-o", "o"], 2),
        (["-i", "data=missing.npy", "-o", "o"], 4),
    ],
)
def test_a_refused_dump_leaves_no_files(run, net, words, code):
    got, out, err = run("dump", "net.prototxt", "net.caffemodel", "--backend", "numpy", *words)
    assert (got, out) == (code, "")
    assert err
    assert sorted(os.listdir(str(net))) == ["net.caffemodel", "net.prototxt"]


def test_a_refused_layer_is_named_and_the_error_is_one_json_document(run, net):
    (net / "net.prototxt").write_text(
        NET + 'layer { name: "n1" type: "LRN" bottom: "t0" top: "n1" lrn_param { size: 2 } }'
    )
    code, out, _ = run(
        "dump",
        "net.prototxt",
        "net.caffemodel",
        "--random",
        "1",
        "-o",
        "o",
        "--backend",
        "numpy",
        "--format",
        "json",
    )
    assert code == 4
    error = json.loads(out)["error"]
    assert "layer n1 (LRN): parameter lrn_param.size" in error["message"]
    assert "--backend caffe" in error["hint"]
    code, _, err = run("dump", "net.prototxt", "--random", "1", "-o", "o", "--backend", "opencv")
    assert code == 2 and "'opencv' is not one of 'auto', 'caffe', 'numpy'" in err


def test_options_for_the_numpy_backend_are_named_as_on_the_command_line(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.prototxt").write_text(
        'input: "data" input_shape { dim: 1 dim: 3 dim: 4 dim: 4 } layer { name: "p" type: '
        '"Python" bottom: "data" top: "p" }'
    )
    model = str(tmp_path / "p.prototxt")
    (tmp_path / "b.prototxt").write_text(
        'input: "data" input_dim: 1 input_dim: 3 layer { name: "b" type: "Bias" bottom: '
        '"data" top: "b" }'
    )
    code, _, err = run("dump", str(tmp_path / "b.prototxt"), "--random", "1", "-o", "o")
    assert code == 2 and "no weights" in err and "--random-weights SEED" in err
    words = ("dump", model, "--random", "1", "--random-weights", "1", "-o", "o")
    code, _, err = run(*words)
    assert code == 4 and "layer p (Python)" in err and "--layer TYPE=FILE.py" in err
    code, _, err = run(*words, "--backend", "caffe")
    assert code == 2 and "--random-weights is for the numpy backend" in err
    (tmp_path / "own.py").write_text(
        "def forward(bottoms, blobs, parameters, name):\n    return bottoms[0] * 2\n"
    )
    code, out, err = run(*words, "--layer", "Python=%s" % (tmp_path / "own.py"))
    assert code == 0 and "2 golden files by numpy" in out
    # On a slow machine progress is told, too.
    told = [line for line in err.splitlines() if not line.startswith("tensors: ")]
    assert told == ["backend numpy: it alone makes up weights"]
