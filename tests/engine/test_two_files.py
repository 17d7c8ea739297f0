"""Two single files compared: one table with their tensors."""

from __future__ import annotations

import csv
import json

import numpy as np
from in_process import run_here

from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.tensors.dtypes import dtype_by_name


def goldwatch(folder, *words):
    return run_here(["goldwatch", *words], folder)


def tensor(array, layout="NCHW"):
    return TensorData(array.tobytes(), dtype_by_name(array.dtype.name), layout, array.shape, array.shape)


def test_two_npy(tmp_path):
    golden = np.random.RandomState(0).standard_normal((1, 8, 6, 5)).astype(np.float32)
    np.save(str(tmp_path / "golden.npy"), golden)
    np.save(str(tmp_path / "good.npy"), golden.astype(np.float16))
    np.save(str(tmp_path / "bad.npy"), (golden * 2).astype(np.float16))
    np.save(str(tmp_path / "flat.npy"), golden.reshape(-1))
    for name, code in (("good", 0), ("bad", 1), ("flat", 3)):
        done = goldwatch(tmp_path, "compare", name + ".npy", "golden.npy", "-o", name, "--format", "json")
        assert done.returncode == code, done.stderr
        document = json.loads(done.stdout)
        assert [row["tensor"] for row in document["rows"]] == [name + ":output:0"]
        (table,) = (tmp_path / name).glob("result_*.csv")
        with open(str(table), newline="") as stream:
            assert len(list(csv.reader(stream))) == 2
        assert document["rows"][0]["target_file"] == str(tmp_path / (name + ".npy"))


def test_a_file_of_no_known_type_is_named_without_one(tmp_path):
    np.save(str(tmp_path / "golden.npy"), np.arange(1, 50, dtype=np.float32))
    np.save(str(tmp_path / "bad.npy"), np.arange(1, 50, dtype=np.float32) * 2)
    done = goldwatch(tmp_path, "compare", "bad.npy", "golden.npy", "-o", "out")
    assert done.returncode == 1 and "suspect 1: bad, score" in done.stdout and "()" not in done.stdout


def test_two_dumps_pair_by_kind_and_index(tmp_path):
    random = np.random.RandomState(0)
    arrays = [random.standard_normal((1, 4, 3, 3)).astype(np.float16) for _ in range(3)]
    write_dump(str(tmp_path / "Add.add.1.2.1234567890123456"), inputs=[tensor(arrays[0]), tensor(arrays[1])], outputs=[tensor(arrays[2])])
    write_dump(str(tmp_path / "Add.add.1.2.1234567890123457"), inputs=[tensor(arrays[0])], outputs=[tensor(arrays[2] + 1)])
    names = ["Add.add.1.2.1234567890123456", "Add.add.1.2.1234567890123457"]
    done = goldwatch(tmp_path, "compare", *names, "-o", "out", "--format", "json")
    rows = {row["tensor"]: row["verdict"] for row in json.loads(done.stdout)["rows"]}
    assert rows == {"add:input:0": "pass", "add:input:1": "not_compared", "add:output:0": "fail"} and done.returncode == 1


def test_a_dump_and_its_golden_file(tmp_path):
    array = np.random.RandomState(0).standard_normal((1, 4, 3, 3)).astype(np.float16)
    write_dump(str(tmp_path / "Add.add.1.2.1234567890123456"), inputs=[tensor(array + 1)], outputs=[tensor(array)])
    np.save(str(tmp_path / "add.0.1234567890123456.npy"), array.astype(np.float32))
    done = goldwatch(tmp_path, "compare", "Add.add.1.2.1234567890123456", "add.0.1234567890123456.npy", "-o", "out")
    assert done.returncode == 0 and "add:output:0" in done.stdout, done.stderr


def test_what_is_for_folders_is_refused(tmp_path):
    np.save(str(tmp_path / "a.npy"), np.ones(3))
    done = goldwatch(tmp_path, "compare", "a.npy", "a.npy", "-o", "out", "--time", "all")
    assert done.returncode == 2 and "folders" in done.stderr
    done = goldwatch(tmp_path, "compare", "a.npy", str(tmp_path), "-o", "out")
    assert done.returncode == 4 and "folder" in done.stderr
