"""The files of TorchAir's modes without GE against an FX dump, and against another run."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pytest
from in_process import run_here

import goldwatch

TEMPLATE = os.path.join(os.path.dirname(__file__), os.pardir, "data", "torch_files", "float16.pt")
TIME = 20261128145314809412
NODES = {"mm": "aten.mm.default", "add_1": "aten.add.Tensor", "relu": "aten.relu.default"}


def save(path, array):
    """Write a [3, 4] float16 tensor as PyTorch does: its own file with other elements."""
    assert array.shape == (3, 4)
    with zipfile.ZipFile(TEMPLATE) as old, zipfile.ZipFile(str(path), "w") as new:
        for info in old.infolist():
            data = array.astype("<f2").tobytes() if info.filename.endswith("data/0") else None
            new.writestr(info.filename, old.read(info) if data is None else data)


def values(call):
    """The float32 values of the nodes in a call."""
    x = np.random.RandomState(call).standard_normal((3, 4)).astype(np.float32)
    return {"arg0_1": x, "mm": x * 2, "add_1": x * 2 + 1, "relu": np.maximum(x * 2 + 1, 0)}


def write_run(folder, calls=2, rank="worldsize1_global_rank0", device="_device_0", wrong=None):
    below = folder / rank
    below.mkdir(parents=True, exist_ok=True)
    for call in range(calls):
        for node, array in values(call).items():
            factor = 1.2 if (node, call) == wrong else 1
            save(below / ("%s%s_%d.pt" % (node, device, call)), array * factor)


def write_fx(folder, calls=2, rank="worldsize1_global_rank0", graph="graph_1"):
    for call in range(calls):
        below = folder / rank / graph / str(call)
        below.mkdir(parents=True)
        for number, (node, target) in enumerate(NODES.items()):
            name = "%s-%s.OUTPUT.0.%d.npy" % (node, target, TIME + number)
            np.save(str(below / name), values(call)[node])


def compared(tmp_path, *words):
    done = run_here(["goldwatch", "compare", *words, "-o", "out"], tmp_path)
    if not os.path.exists(str(tmp_path / "out" / "result.json")):
        return done, None
    with open(str(tmp_path / "out" / "result.json")) as stream:
        return done, json.load(stream)


def test_a_run_is_compared_with_the_fx_dump_call_by_call(tmp_path):
    write_run(tmp_path / "pt", wrong=("add_1", 1))
    write_fx(tmp_path / "fx")
    done, result = compared(tmp_path, "pt", "fx")
    assert done.returncode == 1, done.stderr
    rows = {(row["op"], row["step"]): row for row in result["rows"]}
    assert len(rows) == len(result["rows"]) == 8
    for (op, step), row in rows.items():
        expected = "expected_absent" if op == "arg0_1" else "pass"
        assert row["verdict"] == ("fail" if (op, step) == ("add_1", "1") else expected), row
        assert row["device"] == "0" and row["model"] == "rank0"
    row = rows["add_1", "0"]
    assert row["op_type"] == "aten.add.Tensor" and row["target_dtype"] == "float16"
    x = values(0)["add_1"]
    rounded = x.astype(np.float16).astype(np.float64)
    distance = np.sqrt(np.sum((rounded - x) ** 2) / np.sum(np.float64(x) ** 2))
    assert row["metrics"]["RelativeEuclideanDistance"] == pytest.approx(distance, rel=1e-6)
    assert result["summary"]["first_divergence"]["op"] == "add_1"
    assert "an input of the graph" in rows["arg0_1", "0"]["reason"]
    again = goldwatch.compare(str(tmp_path / "pt"), str(tmp_path / "fx"))
    assert again.exit_code == 1


def test_operators_have_the_order_of_the_fx_dump(tmp_path):
    write_run(tmp_path / "pt", 1, wrong=("relu", 0))
    write_fx(tmp_path / "fx", 1)
    save(tmp_path / "pt" / "worldsize1_global_rank0" / "add_1_device_0_0.pt", np.ones((3, 4)))
    _, result = compared(tmp_path, "pt", "fx")
    indices = {row["op"]: row["index"] for row in result["rows"]}
    assert indices == {"arg0_1": 0, "mm": 1, "add_1": 2, "relu": 3}
    assert result["summary"]["first_divergence"]["op"] == "add_1"


def test_nodes_of_one_time_have_the_order_of_what_they_read(tmp_path):
    write_run(tmp_path / "pt", 1, wrong=("mm", 0))
    save(
        tmp_path / "pt" / "worldsize1_global_rank0" / "add_1_device_0_0.pt",
        values(0)["mm"] * 1.2 + 1,
    )
    write_fx(tmp_path / "fx", 1)
    for path in list((tmp_path / "fx").glob("*/*/*/*.npy")):
        path.rename(path.with_name(path.name.replace(path.name.split(".")[-2], str(TIME))))
    below = tmp_path / "fx" / "worldsize1_global_rank0" / "graph_1" / "0"
    for node, read in (("mm", "arg0_1"), ("add_1", "mm"), ("relu", "add_1")):
        name = "%s-%s.INPUT.0.%d.npy" % (node, NODES[node], TIME)
        np.save(str(below / name), values(0)[read])
    done, result = compared(tmp_path, "pt", "fx")
    indices = {row["op"]: row["index"] for row in result["rows"]}
    assert indices == {"arg0_1": 0, "mm": 1, "add_1": 2, "relu": 3}
    assert result["summary"]["first_divergence"]["op"] == "mm"
    said = " ".join(done.stdout.split())
    assert "(what it read is in no dump, and no model tells it)" in said, said


def test_two_runs_are_compared_bit_for_bit(tmp_path):
    write_run(tmp_path / "one", device="")
    write_run(tmp_path / "two", device="", wrong=("relu", 0))
    done, result = compared(tmp_path, "one", "two", "--exact")
    assert done.returncode == 1 and result["summary"]["failed"] == 1
    assert result["summary"]["first_divergence"]["op"] == "relu"
    assert "compare-op" not in done.stdout
    files = [os.path.join(name, "worldsize1_global_rank0", "relu_0.pt") for name in ("one", "two")]
    done = run_here(["goldwatch", "compare-op", *files, "-o", "detail"], tmp_path)
    assert "relu_0:output:0" in done.stdout and "the golden x 0.833" in done.stdout


def test_each_rank_is_compared_with_its_own(tmp_path):
    for rank in ("worldsize2_global_rank0", "worldsize2_global_rank1"):
        wrong = ("mm", 0) if rank.endswith("1") else None
        write_run(tmp_path / "pt", 1, rank, wrong=wrong)
        write_fx(tmp_path / "fx", 1, rank)
    _, result = compared(tmp_path, "pt", "fx")
    failed = [(row["model"], row["op"]) for row in result["rows"] if row["verdict"] == "fail"]
    assert failed == [("rank1", "mm")]


def test_a_node_of_several_graphs_and_a_call_without_golden_data_are_not_compared(tmp_path):
    write_run(tmp_path / "pt", 2)
    write_fx(tmp_path / "fx", 1)
    write_fx(tmp_path / "fx", 1, graph="graph_2")
    for name in list((tmp_path / "fx").glob("*/graph_2/0/mm-*")):
        name.unlink()
    done, result = compared(tmp_path, "pt", "fx")
    assert done.returncode == 3
    reasons = {(row["op"], row["step"]): row["reason"] for row in result["rows"]}
    assert "several files of GOLDEN" in reasons["add_1", "0"] and reasons["mm", "0"] == ""
    assert reasons["mm", "1"] == "GOLDEN has this node, but not output 0 of call 1"


def test_a_damaged_file_is_told_in_its_row(tmp_path):
    write_run(tmp_path / "pt", 1)
    write_fx(tmp_path / "fx", 1)
    path = tmp_path / "pt" / "worldsize1_global_rank0" / "mm_device_0_0.pt"
    path.write_bytes(path.read_bytes()[:-100])
    done, result = compared(tmp_path, "pt", "fx")
    (row,) = [row for row in result["rows"] if row["op"] == "mm"]
    assert done.returncode == 3 and "the archive is cut short or damaged" in row["reason"]


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "the file is empty"),
        (b"PK\3\4" + b"x" * 90, "cut short or damaged: 94 bytes"),
        (b"\x80\x02\x8a\nl\xfc", "in its form before PyTorch 1.6"),
        (b"abcd" * 9, "not read as tensors of torch.save"),
    ],
)
def test_where_no_file_can_be_read_it_is_told_why(tmp_path, data, words):
    write_run(tmp_path / "pt", 1)
    write_fx(tmp_path / "fx", 1)
    paths = list((tmp_path / "pt").glob("*/*.pt"))
    for path in paths:
        path.write_bytes(data)
    done, _ = compared(tmp_path, "pt", "fx")
    text = " ".join(done.stderr.split())
    assert done.returncode == 4 and "files of torch.save (%d) can be read" % len(paths) in text
    assert words in text


def test_what_cannot_be_paired_is_refused(tmp_path):
    write_run(tmp_path / "pt", 1)
    (tmp_path / "empty").mkdir()
    done, result = compared(tmp_path, "pt", "empty")
    assert done.returncode == 4 and result is None and "neither an FX dump" in done.stderr
    other = tmp_path / "other" / "worldsize1_global_rank0" / "graph_1" / "0"
    other.mkdir(parents=True)
    np.save(str(other / ("mul-aten.mul.Tensor.OUTPUT.0.%d.npy" % TIME)), np.ones((3, 4)))
    done, result = compared(tmp_path, "pt", "other")
    assert done.returncode == 4 and "no value of a node of TARGET" in done.stderr
    done, _ = compared(tmp_path, "pt", "other", "-f", "x.json")
    assert done.returncode == 2 and "files of torch.save" in done.stderr


def test_what_other_files_of_torch_save_are_good_for_is_told(tmp_path):
    (tmp_path / "pt").mkdir()
    save(tmp_path / "pt" / "x.pt", values(0)["mm"])
    done, _ = compared(tmp_path, "pt", "pt")
    assert done.returncode == 4 and "compare takes two files of one tensor" in done.stderr
    for words in (
        ["compare", "pt/x.pt", "pt/x.pt", "-o", "pair"],
        ["convert", "pt", "-o", "npy"],
        ["compare", "npy/x.npy", "pt/x.pt", "-o", "npy_pair"],
    ):
        done = run_here(["goldwatch", *words], tmp_path)
        assert done.returncode == 0, done.stderr
