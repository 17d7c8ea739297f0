"""Thread files of FFTS+: each slice is compared with its counterpart, and none is lost."""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys

import numpy as np
import pytest
from in_process import run_here

from goldwatch.dumps import DumpFile, GoldenSet, TensorData, write_dump


def sliced(network, threads=2):
    network.dump(generation="ffts+", threads=threads)
    other = os.path.join(network.folder, "other")
    shutil.copytree(network.target, other)
    return other


def test_a_folder_of_slices_compared_with_itself_passes(network) -> None:
    other = sliced(network)
    for model in (network.model_path, ""):
        done = network.compare("--force", golden=other, model=model)
        assert done.returncode == 0, done.stdout + done.stderr
        rows = network.rows()
        files = glob.glob(os.path.join(network.target, "**", "*.4.*"), recursive=True)
        dumps = [DumpFile.open(path) for path in files]
        tensors = [row for row in rows.values() if row["kind"] != "op"]
        assert len(tensors) == sum(len(dump.inputs) + len(dump.outputs) for dump in dumps)
        parts = [
            row["tensor"] for row in rows.values() if row["op"] == "fc" and row["kind"] == "output"
        ]
        assert sorted(parts) == ["fc:output:0:context5:thread0", "fc:output:0:context5:thread1"]
        for row in tensors:
            assert os.path.basename(row["target_file"]) == os.path.basename(row["golden_file"])


def test_only_the_wrong_slice_fails(network) -> None:
    other = sliced(network)
    (path,) = glob.glob(os.path.join(other, "**", "MatMul.fc.*.4.5.1.0"), recursive=True)
    dump = DumpFile.open(path)
    inputs = [TensorData(dump.tensor("input", 0).array(), format=dump.inputs[0].format)]
    outputs = [TensorData(-dump.tensor("output", 0).array(), format=dump.outputs[0].format)]
    write_dump(path, inputs, outputs)
    assert network.compare(golden=other).returncode == 1
    assert [row["tensor"] for row in network.rows().values() if row["verdict"] == "fail"] == [
        "fc:output:0:context5:thread1"
    ]


def test_a_slice_in_golden_alone_is_not_compared(network) -> None:
    other = sliced(network)
    (path,) = glob.glob(os.path.join(network.target, "**", "MatMul.fc.*.4.5.1.0"), recursive=True)
    os.unlink(path)
    assert network.compare(golden=other).returncode == 3
    row = network.rows()["fc:context5:thread1"]
    assert (row["verdict"], row["reason"]) == (
        "not_compared",
        "only the other dump (GOLDEN) has this op",
    )


@pytest.mark.parametrize("model", [True, False])
def test_slices_are_joined_to_compare_with_npy(network, model) -> None:
    network.dump()
    whole = network.compare("--force", model=network.model_path if model else "")
    expected = {
        name: (row["verdict"], row["metrics"], row["shape"]) for name, row in network.rows().items()
    }
    shutil.rmtree(network.target)
    network.dump(generation="ffts+", threads=2)
    done = network.compare("--force", model=network.model_path if model else "")
    assert done.returncode == whole.returncode, done.stdout + done.stderr
    rows = network.rows()
    assert {
        name: (row["verdict"], row["metrics"], row["shape"]) for name, row in rows.items()
    } == expected
    assert "joined from 2 slices" in rows["fc:output:0"]["reason"]


def test_a_single_ffts_file_is_the_whole_tensor(network) -> None:
    network.dump(generation="ffts+")
    assert network.compare().returncode == 0
    row = network.rows()["fc:output:0"]
    assert row["verdict"] == "pass" and "joined" not in row["reason"]


def test_an_error_in_one_slice_fails_the_joined_tensor(network) -> None:
    network.dump(generation="ffts+", threads=4)
    (path,) = glob.glob(os.path.join(network.target, "**", "MatMul.fc.*.4.5.3.0"), recursive=True)
    dump = DumpFile.open(path)
    inputs = [TensorData(dump.tensor("input", 0).array(), format=dump.inputs[0].format)]
    outputs = [TensorData(-dump.tensor("output", 0).array(), format=dump.outputs[0].format)]
    write_dump(path, inputs, outputs, attrs=dump.attrs)
    assert network.compare().returncode == 1
    assert [row["tensor"] for row in network.rows().values() if row["verdict"] == "fail"] == [
        "fc:output:0"
    ]


def test_a_missing_slice_is_reported(network) -> None:
    network.dump(generation="ffts+", threads=3)
    (path,) = glob.glob(os.path.join(network.target, "**", "MatMul.fc.*.4.5.1.0"), recursive=True)
    os.unlink(path)
    assert network.compare().returncode == 3
    row = network.rows()["fc:output:0"]
    assert row["verdict"] == "not_compared" and "of 3 slices, 1 is not there" in row["reason"]


def test_a_truncated_slice_is_reported(network) -> None:
    network.dump(generation="ffts+", threads=3)
    (path,) = glob.glob(os.path.join(network.target, "**", "MatMul.fc.*.4.5.2.0"), recursive=True)
    os.truncate(path, os.path.getsize(path) - 3)
    assert network.compare().returncode == 3
    row = network.rows()["fc:output:0"]
    assert row["verdict"] == "not_compared" and os.path.basename(path) in row["reason"]


def test_slices_by_name_are_joined(network) -> None:
    network.dump(generation="ffts+", threads=2)
    for path in glob.glob(os.path.join(network.target, "**", "MatMul.fc.*"), recursive=True):
        folder, name = os.path.split(path)
        fields = name.split(".")
        fields[1] += "_lxslice" + fields[-2]
        os.rename(path, os.path.join(folder, ".".join(fields[:5])))
    done = network.compare()
    assert done.returncode == 0, done.stdout + done.stderr
    rows = network.rows()
    assert "joined from 2 slices" in rows["fc:output:0"]["reason"]
    assert not any("lxslice" in name for name in rows)


@pytest.mark.parametrize("named", [False, True])
def test_compare_op_joins_slices(network, tmp_path, named) -> None:
    """The command that the summary gives to copy works on slices, by whatever of their names."""
    network.dump(generation="ffts+", threads=3)
    paths = glob.glob(os.path.join(network.target, "**", "MatMul.fc.*"), recursive=True)
    for path in paths if named else ():
        folder, name = os.path.split(path)
        fields = name.split(".")
        fields[1] += "_lxslice" + fields[-2]
        os.rename(path, os.path.join(folder, ".".join(fields[:5])))
    for op in ["fc", "fc_lxslice1"] if named else ["fc"]:
        out = str(tmp_path / "detail")
        words = [
            "compare-op",
            network.target,
            network.golden,
            op,
            "-f",
            network.model_path,
            "-o",
            out,
            "--output",
            "0",
        ]
        done = run_here([sys.executable, "-m", "goldwatch", *words])
        assert done.returncode == 0, done.stderr
        with open(os.path.join(out, "detail.json")) as stream:
            document = json.load(stream)
        (tensor,) = document["tensors"]
        assert (
            document["op"] == "fc"
            and tensor["verdict"] == "pass"
            and "joined from 3 slices" in tensor["reason"]
        )
        rows = np.loadtxt(
            os.path.join(out, "fc_output_0_0.csv"), delimiter=",", skiprows=1, usecols=-3
        )
        assert np.array_equal(
            rows.astype(np.float32).reshape(-1), network.values["fc"].reshape(-1).astype(np.float32)
        )
    if not named:
        os.unlink(paths[0])
        words[-1:] = ["0", "--rows", "none"]
        done = run_here([sys.executable, "-m", "goldwatch", *words])
        assert done.returncode == 3 and "of 3 slices" in done.stdout


def test_a_second_run_over_slices_has_the_same_rows(network) -> None:
    network.dump(generation="ffts+", threads=2)
    assert network.compare().returncode == 0
    first = network.rows()
    assert network.compare().returncode == 0
    assert {name: row["metrics"] for name, row in network.rows().items()} == {
        name: row["metrics"] for name, row in first.items()
    }


def test_the_golden_dump_like_the_target_is_chosen_among_several(tmp_path) -> None:
    names = ["Relu.a_b.1.2.1600000000000000", "Abs.a_b.2.2.1600000000000009"]
    names += ["Add.c.1.2.1600000000000001.4.5.0", "Add.c.1.2.1600000000000002.4.5.1"]
    for name in names:
        write_dump(str(tmp_path / name), [], [np.zeros(2, np.float16)])
    golden = GoldenSet(str(tmp_path))

    def found(op, like):
        entry = golden.find(op, 0, like=like)
        return entry and os.path.basename(entry.path)

    assert (
        found("a_b", ("Relu", None)) == names[0]
        and found("a_b", ("Abs", None)) == names[1]
        and found("a_b", ("X", None)) == names[1]
    )
    assert (
        found("c", ("Add", (5, 0))) == names[2]
        and found("c", ("Add", (5, 1))) == names[3]
        and found("c", ("Add", (5, 2))) is None
    )
    assert golden.dumps.slices("c") == {(5, 0), (5, 1)} and golden.dumps.slices("a_b") == {None}
