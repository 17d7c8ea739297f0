"""``GoldenWriter``: names, collisions, lengths, order, modes, manifest, and the files left by a
kill.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
import time

import jsonschema
import numpy as np
import pytest

from goldwatch.adapters.child_python import child_environment, resolve_python, runs
from goldwatch.adapters.golden_writer import GoldenWriter
from goldwatch.base.errors import EnvironmentProblem, InputError, UsageError
from goldwatch.base.manifest import read_manifest
from goldwatch.base.mounts import require_space
from goldwatch.base.naming import parse_golden_name, read_mapping
from goldwatch.schemas import load_schema

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def make(folder, names, **options):
    with GoldenWriter(str(folder), "test", "1.0", {"model": "0" * 64}, **options) as writer:
        writer.reserve(names)
        for entry in names:
            writer.write(entry[0], entry[1], X, identity=entry[2] if len(entry) > 2 else "")
    return writer, json.loads((folder / "manifest.json").read_text())


def test_golden_files_have_valid_names_modes_and_manifest(tmp_path):
    begun_us = int(time.time() * 1e6)
    out = tmp_path / "new" / "golden"
    _, manifest = make(out, [("conv/1", 0), ("conv/1", 1), ("top", 12)])
    jsonschema.validate(manifest, load_schema("manifest"))
    files = [entry["file"] for entry in manifest["tensors"]]
    assert sorted(files + ["manifest.json"]) == sorted(os.listdir(str(out)))
    stamps = []
    for entry in manifest["tensors"]:
        path = out / entry["file"]
        name = parse_golden_name(entry["file"])
        assert (name.op_name, name.output_index) == (entry["op"], entry["output_index"])
        assert len(entry["file"].split(".")[2]) == 16
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
        np.testing.assert_array_equal(np.load(str(path)), X)
        stamps.append(entry["timestamp"])
    assert [entry["op"] for entry in manifest["tensors"]] == ["conv_1", "conv_1", "top"]
    assert [entry["original_name"] for entry in manifest["tensors"]] == ["conv/1", "conv/1", "top"]
    assert stamps == sorted(set(stamps))
    assert stamps[0] >= begun_us
    assert stat.S_IMODE((out / "manifest.json").stat().st_mode) == 0o640
    assert manifest["complete"] is True


def test_names_that_share_a_file_are_parked_with_a_mapping(tmp_path):
    names = [
        ("a/b", 0),
        ("a.b", 0),
        ("a.b", 1),
        ("a_b", 0),
        ("c", 0),
        ("a_b-parked-1", 0),
        ("dup", 0, "3"),
        ("dup", 0, "7"),
    ]
    writer, manifest = make(tmp_path, names)
    assert writer.collisions == {"a_b": ["a.b", "a/b", "a_b"], "dup": ["dup", "dup"]}
    assert writer.counts == {"written": 8, "skipped": 0, "parked": 6, "hashed": 0}
    mapping = read_mapping(str(tmp_path / "mapping.csv"))
    listed = {}
    for entry in manifest["tensors"]:
        if entry["original_name"] in ("c", "a_b-parked-1"):
            assert parse_golden_name(entry["file"]).op_name == entry["original_name"]
            continue
        assert entry["file"].split(".")[0].isdigit()
        name = parse_golden_name(mapping[entry["file"]])
        listed[(name.op_name, name.output_index)] = entry["original_name"]
    assert listed == {
        ("a_b-parked-2", 0): "a.b",
        ("a_b-parked-2", 1): "a.b",
        ("a_b-parked-3", 0): "a/b",
        ("a_b-parked-4", 0): "a_b",
        ("dup-parked-1", 0): "dup",
        ("dup-parked-2", 0): "dup",
    }
    assert len(mapping) == 6


def test_names_beyond_255_bytes_are_hashed_with_a_mapping(tmp_path):
    fits, over = "n" * 232, "m" * 233
    writer, manifest = make(tmp_path, [(fits, 0), (over, 0), (fits, 10)])
    files = {
        (entry["original_name"], entry["output_index"]): entry["file"]
        for entry in manifest["tensors"]
    }
    assert len(files[(fits, 0)]) == 255
    assert files[(over, 0)].split(".")[0].isdigit()
    assert files[(fits, 10)].split(".")[0].isdigit()
    mapping = read_mapping(str(tmp_path / "mapping.csv"))
    assert parse_golden_name(mapping[files[(over, 0)]]).op_name == over
    assert set(writer.too_long) == {(over, 0), (fits, 10)}
    assert writer.counts["hashed"] == 2


def test_given_timestamps_keep_their_order(tmp_path):
    with GoldenWriter(str(tmp_path), "test", "1", {}) as writer:
        writer.reserve([("loop", 0)])
        for stamp in (1700000000000005, 1700000000000005, 1700000000000009, 1700000000000001):
            writer.write("loop", 0, X, timestamp=stamp)
        with pytest.raises(ValueError, match="16 digits"):
            writer.write("loop", 0, X, timestamp=10**16)
    assert [entry["timestamp"] - 1700000000000000 for entry in writer.tensors] == [5, 6, 9, 10]


@pytest.mark.parametrize(
    "array",
    [
        np.float32(3.5),
        np.zeros((2, 0, 3), np.int64),
        np.asfortranarray(np.arange(12, dtype=np.float64).reshape(3, 4)),
        np.arange(10, dtype=np.int16)[::2],
        np.array([True, False]),
        np.array([1 + 2j], np.complex64),
        np.arange(3, dtype=">f4"),
    ],
)
def test_arrays_keep_shape_type_and_values(array, tmp_path):
    _, manifest = make_one(tmp_path, array)
    entry = manifest["tensors"][0]
    got = np.load(str(tmp_path / entry["file"]))
    assert (got.shape, got.dtype) == (np.asarray(array).shape, np.asarray(array).dtype)
    np.testing.assert_array_equal(got, array)
    assert entry["shape"] == list(np.asarray(array).shape)


def make_one(folder, array):
    writer = GoldenWriter(str(folder), "test", "1", {})
    writer.reserve([("x", 0)])
    writer.write("x", 0, array)
    return writer, writer.close()


@pytest.mark.parametrize(
    "array", [np.array(["text"]), np.array([b"bytes"]), np.array([object()]), np.zeros(2, "V2")]
)
def test_arrays_without_numbers_are_refused(array, tmp_path):
    with GoldenWriter(str(tmp_path / "o"), "test", "1", {}) as writer:
        writer.reserve([("x", 0)])
        with pytest.raises(InputError, match="not numbers"):
            writer.write("x", 0, array)
        writer.skip("x:0", "no numbers")
    assert writer.counts["skipped"] == 1


def test_a_used_folder_wrong_names_and_unreserved_tensors_are_refused(tmp_path):
    make(tmp_path, [("a", 0)])
    with pytest.raises(UsageError, match="already holds golden files") as caught:
        GoldenWriter(str(tmp_path), "test", "1", {})
    assert caught.value.exit_code == 2
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="not a folder"):
        GoldenWriter(str(tmp_path / "file"), "test", "1", {})
    writer = GoldenWriter(str(tmp_path / "b"), "test", "1", {})
    with pytest.raises(UsageError, match="another run"):
        GoldenWriter(str(tmp_path / "b"), "test", "1", {}, force=True)
    with pytest.raises(InputError, match="appears twice"):
        writer.reserve([("x", 0), ("x", 0)])
    with pytest.raises(InputError, match="without a name"):
        writer.reserve([("", 0)])
    with pytest.raises(ValueError, match="not reserved"):
        writer.write("other", 0, X)
    writer.abandon()
    assert not (tmp_path / "b").exists()


def test_a_manifest_without_files_from_a_failed_program_is_replaced(tmp_path):
    writer = GoldenWriter(str(tmp_path), "test", "1", {})
    writer.close(complete=False)
    make(tmp_path, [("a", 0)])
    empty = tmp_path / "empty"
    GoldenWriter(str(empty), "test", "1", {}).close()
    with pytest.raises(UsageError, match="already holds"):
        make(empty, [("a", 0)])


def test_force_replaces_only_files_of_an_earlier_dump(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    make(tmp_path, [("a/b", 0), ("a_b", 0), ("m" * 240, 0), ("old", 0)])
    _, manifest = make(tmp_path, [("new", 0)], force=True)
    assert sorted(os.listdir(str(tmp_path))) == sorted(
        ["notes.txt", "manifest.json", manifest["tensors"][0]["file"]]
    )


def test_force_keeps_foreign_golden_files_and_writes_later_timestamps(tmp_path):
    foreign = "conv.0.9000000000000000.npy"
    np.save(str(tmp_path / foreign), X)
    _, manifest = make(tmp_path, [("conv", 0)], force=True)
    assert (tmp_path / foreign).exists()
    assert manifest["tensors"][0]["timestamp"] > 9000000000000000


KILLED = """
import os, sys, numpy as np
from goldwatch.adapters.golden_writer import GoldenWriter
w = GoldenWriter(sys.argv[1], "test", "1", {})
w.reserve([("a", 0), ("b/c", 0), ("b_c", 0)])
w.write("a", 0, np.zeros(3)); w.write("b/c", 0, np.zeros(3))
os.kill(os.getpid(), 9)
"""


def test_a_killed_run_leaves_no_half_file_and_is_replaced(tmp_path):
    out = tmp_path / "o"
    subprocess.run([sys.executable, "-c", KILLED, str(out)], check=False)
    whole = [name for name in os.listdir(str(out)) if name.endswith(".npy")]
    assert len(whole) == 2
    for name in whole:
        assert np.load(str(out / name)).shape == (3,)
    with pytest.raises(UsageError):
        GoldenWriter(str(out), "test", "1", {})
    _, manifest = make(out, [("x", 0)], force=True)
    assert sorted(os.listdir(str(out))) == sorted(["manifest.json", manifest["tensors"][0]["file"]])


def test_an_unfinished_run_without_files_needs_no_force(tmp_path):
    code = KILLED.replace("w.write", "0 and w.write")
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "o")], check=False)
    make(tmp_path / "o", [("x", 0)])
    assert len(os.listdir(str(tmp_path / "o"))) == 2


def test_a_file_that_cannot_be_written_leaves_the_others_usable(tmp_path):
    writer = GoldenWriter(str(tmp_path / "o"), "test", "1", {})
    writer.reserve([("a", 0), ("b", 0)])
    name = writer.write("a", 0, X)
    blocked = writer.names.file_name(("b", ""), 0, 1700000000000000, {}).file
    (tmp_path / "o" / blocked).write_text("in the way")
    with pytest.raises(FileExistsError), writer:
        writer.write("b", 0, X, timestamp=1700000000000000)
    manifest = json.loads((tmp_path / "o" / "manifest.json").read_text())
    assert [entry["file"] for entry in manifest["tensors"]] == [name]
    assert manifest["complete"] is False
    assert (tmp_path / "o" / blocked).read_text() == "in the way"


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(descriptor, buffers):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = GoldenWriter(str(tmp_path / "o"), "b", "1", {})
    writer.reserve([("a", 0)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(OSError) as caught:
            writer.write("a", 0, np.ones(3))
    assert caught.value.errno == errno.ENOSPC and "a.0." in caught.value.filename
    writer.abandon()
    assert not (tmp_path / "o").exists()


def test_an_output_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "o").write_text("keep me")
    assert read_manifest(str(tmp_path / "o")) is None
    with pytest.raises(UsageError, match="not a folder"):
        GoldenWriter(str(tmp_path / "o"), "b", "1", {})
    assert (tmp_path / "o").read_text() == "keep me"


def test_an_interrupted_run_is_usable_and_marked_incomplete(tmp_path):
    with pytest.raises(KeyboardInterrupt), GoldenWriter(str(tmp_path), "test", "1", {}) as writer:
        writer.reserve([("a", 0), ("b", 0)])
        writer.write("a", 0, X)
        raise KeyboardInterrupt
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert (manifest["complete"], len(manifest["tensors"])) == (False, 1)


@pytest.mark.parametrize("before", [[], ["a"]])
def test_ctrl_c_before_a_written_file_is_listed_leaves_a_consistent_folder(tmp_path, before):
    def interrupted(*words):
        write(*words)
        assert len(list(tmp_path.glob("out/b.0.*.npy"))) == 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), GoldenWriter(
        str(tmp_path / "out"), "test", "1", {}
    ) as writer:
        writer.reserve([("a", 0), ("b", 0)])
        for name in before:
            writer.write(name, 0, X)
        write, writer._files.write = writer._files.write, interrupted
        writer.write("b", 0, X)
    left = os.listdir(str(tmp_path / "out")) if before else os.listdir(str(tmp_path))
    listed = (
        [entry["file"] for entry in read_manifest(str(tmp_path / "out"))["tensors"]]
        if before
        else []
    )
    assert sorted(left) == sorted([*listed, "manifest.json"] if before else []) and len(
        listed
    ) == len(before)


def test_quant_files_are_dump_containers_listed_in_the_manifest(tmp_path):
    from goldwatch.dumps.dump_file import DumpFile

    _, manifest = make(tmp_path, [("conv/1", 0), ("m" * 240, 0)], suffix="quant")
    entry, long = manifest["tensors"]
    assert parse_golden_name(entry["file"]).suffix == "quant"
    dump = DumpFile.open(str(tmp_path / entry["file"]))
    np.testing.assert_array_equal(dump.tensor("output", 0).array(), X)
    assert dump.op_name == "conv_1"
    assert read_mapping(str(tmp_path / "mapping.csv"))[long["file"]].endswith(".quant")
    assert hashlib.sha256((tmp_path / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]


def test_too_little_free_space_is_refused_before_writing(tmp_path):
    require_space(str(tmp_path / "not" / "yet"), 1)
    with pytest.raises(EnvironmentProblem, match="are needed") as caught:
        require_space(str(tmp_path / "not" / "yet"), 1 << 62)
    assert caught.value.exit_code == 4


def test_the_child_imports_goldwatch_without_its_dependencies(tmp_path):
    code = (
        "import sys, goldwatch.adapters.golden_writer, goldwatch.adapters.caffe; assert not "
        "{'click', 'jsonschema'} & set(sys.modules)"
    )
    assert runs(sys.executable, code) is None
    (tmp_path / "own.py").write_text("")
    os.environ["PYTHONPATH"], before = str(tmp_path), os.environ.get("PYTHONPATH")
    try:
        with child_environment({"EXTRA": "1"}) as environment:
            assert environment["EXTRA"] == "1"
            first, second = environment["PYTHONPATH"].split(os.pathsep)
            assert second == str(tmp_path)
            assert os.listdir(first) == ["goldwatch"]
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
    assert not os.path.exists(first)


def test_a_python_option_that_is_no_python_3_7_is_refused(tmp_path):
    assert resolve_python(sys.executable) == sys.executable
    with pytest.raises(UsageError, match="no such program"):
        resolve_python(str(tmp_path / "python"))
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho hello\n")
    fake.chmod(0o755)
    with pytest.raises(EnvironmentProblem, match="does not run as a Python"):
        resolve_python(str(fake))
    fake.write_text("#!/bin/sh\necho goldwatch-python 3.6\n")
    with pytest.raises(EnvironmentProblem, match="3.7 or later"):
        resolve_python(str(fake))
