"""Thread files of FFTS+: each slice is compared with the same slice, and none is lost."""

from __future__ import annotations

import glob
import os
import shutil

import numpy as np

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
        parts = [row["tensor"] for row in rows.values() if row["op"] == "fc" and row["kind"] == "output"]
        assert sorted(parts) == ["fc:output:0:context5:thread0", "fc:output:0:context5:thread1"]
        for row in tensors:
            assert os.path.basename(row["target_file"]) == os.path.basename(row["golden_file"])


def test_a_wrong_slice_is_the_one_that_fails(network) -> None:
    other = sliced(network)
    (path,) = glob.glob(os.path.join(other, "**", "MatMul.fc.*.4.5.1.0"), recursive=True)
    dump = DumpFile.open(path)
    inputs = [TensorData(dump.tensor("input", 0).array(), format=dump.inputs[0].format)]
    outputs = [TensorData(-dump.tensor("output", 0).array(), format=dump.outputs[0].format)]
    write_dump(path, inputs, outputs)
    assert network.compare(golden=other).returncode == 1
    assert [row["tensor"] for row in network.rows().values() if row["verdict"] == "fail"] == ["fc:output:0:context5:thread1"]


def test_a_slice_that_only_golden_has_is_counted(network) -> None:
    other = sliced(network)
    (path,) = glob.glob(os.path.join(network.target, "**", "MatMul.fc.*.4.5.1.0"), recursive=True)
    os.unlink(path)
    assert network.compare(golden=other).returncode == 3
    row = network.rows()["fc:context5:thread1"]
    assert (row["verdict"], row["reason"]) == ("not_compared", "only GOLDEN has a dump of this op")


def test_slices_against_npy_have_a_row_each(network) -> None:
    sliced(network)
    assert network.compare().returncode == 3
    rows = network.rows()
    found = {name: row for name, row in rows.items() if name.startswith("fc:output:0")}
    assert sorted(found) == ["fc:output:0:context5:thread0", "fc:output:0:context5:thread1"]
    assert {row["verdict"] for row in found.values()} == {"not_compared"}


def test_of_golden_dumps_the_one_like_the_target_is_found(tmp_path) -> None:
    names = ["Relu.a_b.1.2.1600000000000000", "Abs.a_b.2.2.1600000000000009"]
    names += ["Add.c.1.2.1600000000000001.4.5.0", "Add.c.1.2.1600000000000002.4.5.1"]
    for name in names:
        write_dump(str(tmp_path / name), [], [np.zeros(2, np.float16)])
    golden = GoldenSet.open(str(tmp_path))

    def found(op, like):
        entry = golden.find(op, 0, like=like)
        return entry and os.path.basename(entry.path)

    assert found("a_b", ("Relu", None)) == names[0] and found("a_b", ("Abs", None)) == names[1] and found("a_b", ("X", None)) == names[1]
    assert found("c", ("Add", (5, 0))) == names[2] and found("c", ("Add", (5, 1))) == names[3] and found("c", ("Add", (5, 2))) is None
    assert golden.slices("c") == {(5, 0), (5, 1)} and golden.slices("a_b") == {None}
