"""convert as a user calls it: dumps to arrays and back, layouts, trees, damage."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from in_process import run_here

from goldwatch.dumps.dump_file import DumpFile
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.tensors.dtypes import dtype_by_name
from goldwatch.tensors.layout_conversion import convert as lay_out

NAME = "Conv2D.conv1.3.7.1767323045000000"


def convert(*args):
    done = run_here(["goldwatch", "convert", *args])
    return done.returncode, done.stderr


def report(out):
    return json.loads((out / "convert.json").read_text())


def load(path):
    return np.load(str(path), allow_pickle=False)


def test_none_in_an_npy_file_is_not_told_to_be_a_wrong_name(tmp_path):
    np.save(str(tmp_path / "a.npy"), np.array(None), allow_pickle=True)
    code, err = convert(tmp_path / "a.npy", "-o", tmp_path / "out")
    assert code == 4 and "no tensor (None)" in err and "call it" not in err, err


@pytest.fixture
def feature_map():
    return np.random.default_rng(1).standard_normal((1, 35, 4, 5)).astype(np.float16)


@pytest.fixture
def dump(tmp_path, feature_map):
    stored = lay_out(feature_map, "NCHW", "NC1HWC0", feature_map.shape)
    image = TensorData(stored, format="NC1HWC0", original_shape=feature_map.shape)
    vector = np.arange(5, dtype=np.int64)
    folder = tmp_path / "dump" / "20260102030405" / "0"
    folder.mkdir(parents=True)
    write_dump(
        str(folder / NAME),
        inputs=[vector],
        outputs=[image],
        buffers=[b"\1\2"],
        spaces=[b"a log line\n\0\0"],
    )
    return folder / NAME


def test_a_tree_is_converted_to_arrays_in_the_same_folders(dump, tmp_path, feature_map):
    out = tmp_path / "out"
    assert convert(tmp_path / "dump", "-o", out)[0] == 0
    folder = out / "20260102030405" / "0"
    assert load(folder / (NAME + ".input.0.npy")).tolist() == [0, 1, 2, 3, 4]
    stored = load(folder / (NAME + ".output.0.npy"))
    assert np.array_equal(stored, lay_out(feature_map, "NCHW", "NC1HWC0", feature_map.shape))
    assert (folder / (NAME + ".space.0.txt")).read_bytes() == b"a log line\n"
    assert (folder / (NAME + ".buffer.0.bin")).read_bytes() == b"\1\2"
    (entry,) = [entry for entry in report(out)["files"] if entry["tensor"] == "output.0"]
    assert (
        entry["layout"] == "NC1HWC0"
        and entry["shape"] == [1, 3, 4, 5, 16]
        and entry["stored_dtype"] == "float16"
    )


def test_a_tensor_is_converted_to_its_original_layout_without_padding(dump, tmp_path, feature_map):
    out = tmp_path / "out"
    assert convert(dump, "-o", out, "--layout", "original", "--output", 0)[0] == 0
    assert np.array_equal(load(out / (NAME + ".output.0.1x35x4x5.npy")), feature_map)
    assert convert(dump, "-o", out, "--layout", "nhwc", "--output", 0, "--dtype", "float32")[0] == 0
    turned = load(out / (NAME + ".output.0.1x4x5x35.npy"))
    assert turned.dtype == np.float32 and np.array_equal(turned, feature_map.transpose(0, 2, 3, 1))


def test_one_input_is_written_as_raw_bytes_and_as_text(dump, tmp_path):
    out = tmp_path / "out"
    assert convert(dump, "-o", out, "--input", 0, "--to", "bin")[0] == 0
    assert sorted(os.listdir(str(out))) == [NAME + ".input.0.bin", "convert.json"]
    assert np.fromfile(str(out / (NAME + ".input.0.bin")), np.int64).tolist() == [0, 1, 2, 3, 4]
    assert convert(dump, "-o", out, "--input", 0, "--to", "txt")[0] == 0
    assert (out / (NAME + ".input.0.txt")).read_text() == "0\n1\n2\n3\n4\n"


@pytest.mark.parametrize(
    "name", ["float16", "float32", "float64", "int8", "uint16", "int64", "bool", "complex64"]
)
def test_npy_survives_conversion_to_a_container_and_back(name, tmp_path):
    array = np.random.default_rng(2).integers(0, 2, (2, 3, 4)).astype(name)
    np.save(str(tmp_path / "conv1.0.1767323045000000.npy"), array)
    assert (
        convert(tmp_path / "conv1.0.1767323045000000.npy", "-o", tmp_path / "pb", "--to", "pb")[0]
        == 0
    )
    dump = DumpFile.open(str(tmp_path / "pb" / "conv1.0.1767323045000000.pb"))
    assert (
        dump.header_version == "2.0"
        and dump.outputs[0].format == "RESERVED"
        and dump.outputs[0].dtype.name == name
    )
    assert convert(tmp_path / "pb", "-o", tmp_path / "back")[0] == 0
    assert np.array_equal(load(tmp_path / "back" / "conv1.0.1767323045000000.npy"), array)


def test_outputs_of_a_golden_container_become_golden_files_with_their_numbers(tmp_path):
    name, other = "split.0.1767323045000000.pb", "split.1.1767323045000000.pb"
    for file in (name, other):
        write_dump(
            str(tmp_path / file),
            inputs=[np.zeros(2, np.float32)],
            outputs=[np.ones(3, np.float32), np.full(4, 2, np.float32)],
        )
    assert convert(tmp_path / name, "-o", tmp_path / "all")[0] == 0
    assert load(tmp_path / "all" / "split.0.1767323045000000.npy").tolist() == [1, 1, 1]
    assert load(tmp_path / "all" / "split.1.1767323045000000.npy").tolist() == [2, 2, 2, 2]
    assert (tmp_path / "all" / (name + ".input.0.npy")).exists()
    # Neither one output alone nor an input takes the name of another; a name with another number
    # does not tell which is which.
    assert convert(tmp_path / name, "-o", tmp_path / "one", "--output", 1)[0] == 0
    assert convert(tmp_path / name, "-o", tmp_path / "one", "--input", 0)[0] == 0
    assert sorted(os.listdir(str(tmp_path / "one"))) == [
        "convert.json",
        name + ".input.0.npy",
        "split.1.1767323045000000.npy",
    ]
    assert convert(tmp_path / other, "-o", tmp_path / "told", "--output", 1)[0] == 0
    assert (tmp_path / "told" / (other + ".output.1.npy")).exists()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "hifloat8", "int4", "uint1"])
def test_types_that_numpy_lacks_survive_conversion(name, tmp_path):
    np.save(str(tmp_path / "a.npy"), np.array([[0, 1], [1, 0]], np.float32))
    to = ("--to", "dump", "--op-type", "Relu", "--op-name", "a/b", "--dtype", name)
    code, error = convert(tmp_path / "a.npy", "-o", tmp_path / "d", *to)
    assert code == 0, error
    (written,) = [file for file in os.listdir(str(tmp_path / "d")) if file.startswith("Relu.a_b.")]
    assert DumpFile.open(str(tmp_path / "d" / written)).outputs[0].dtype == dtype_by_name(name)
    assert convert(tmp_path / "d" / written, "-o", tmp_path / "back")[0] == 0
    assert load(tmp_path / "back" / (written + ".output.0.npy")).tolist() == [[0, 1], [1, 0]]
    (entry,) = report(tmp_path / "back")["files"]
    assert entry["stored_dtype"] == name and entry["dtype"] != name and entry["notes"]


def test_a_numpy_extended_with_bfloat16_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(
        np.sctypeDict, "bfloat16", np.float16
    )  # as ml_dtypes does in programs that load it
    test_types_that_numpy_lacks_survive_conversion("bfloat16", tmp_path)


def test_files_of_torch_save_become_arrays_without_pytorch(tmp_path):
    folder = os.path.join(os.path.dirname(__file__), os.pardir, "data", "torch_files")
    for name in ("float16.pt", "bfloat16.pt", "transposed.pt", "list.pt", "dict.pt"):
        (tmp_path / "in").mkdir(exist_ok=True)
        shutil.copy(os.path.join(folder, name), str(tmp_path / "in" / name))
    code, error = convert(tmp_path / "in", "-o", tmp_path / "out")
    assert (
        code == 3
        and "dict.pt: not read as tensors of torch.save (more than tensors: SETITEM" in error
    )
    assert sorted(path.name for path in (tmp_path / "out").glob("*.npy")) == [
        "bfloat16.npy", "float16.npy", "list.0.npy", "list.1.npy", "transposed.npy"
    ]  # fmt: skip
    # What make.py saved: 12 numbers from -2 by thirds.
    values = load(tmp_path / "out" / "float16.npy")
    assert values.dtype == np.float16 and values.shape == (3, 4)
    turned = load(tmp_path / "out" / "transposed.npy")
    assert np.allclose(turned.T.ravel(), np.arange(12) / 3 - 2)


@pytest.mark.parametrize("to", ["npy", "txt"])
def test_an_empty_tensor_with_dims_beyond_numpys_is_refused(to, tmp_path):
    write_dump(
        str(tmp_path / "Relu.a.1.2.3"), outputs=[TensorData(b"", "float32", shape=(0, 2**62))]
    )
    code, error = convert(tmp_path / "Relu.a.1.2.3", "-o", tmp_path / "o", "--to", to)
    assert (
        code == 4
        and "Relu.a.1.2.3: output.0: numpy has no array of shape [0, 4611686018427387904]" in error
    ), error


def test_an_array_is_converted_to_a_device_layout(tmp_path, feature_map):
    np.save(str(tmp_path / "a.npy"), feature_map)
    layouts = ("--from-layout", "NCHW", "--layout", "NC1HWC0")
    assert (
        convert(
            tmp_path / "a.npy",
            "-o",
            tmp_path / "d",
            "--to",
            "dump",
            "--op-type",
            "T",
            "--op-name",
            "n",
            *layouts,
        )[0]
        == 0
    )
    (written,) = [file for file in os.listdir(str(tmp_path / "d")) if file.startswith("T.n.")]
    (info,) = DumpFile.open(str(tmp_path / "d" / written)).outputs
    assert (
        info.format == "NC1HWC0"
        and info.shape == (1, 3, 4, 5, 16)
        and info.original_shape == feature_map.shape
    )
    assert (
        convert(tmp_path / "d" / written, "-o", tmp_path / "back", "--layout", "original")[0] == 0
    )
    assert np.array_equal(
        load(tmp_path / "back" / (written + ".output.0.1x35x4x5.npy")), feature_map
    )


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<c16", "V2"])
def test_a_fortran_ordered_npy_is_converted(tmp_path, dtype):
    array = np.asfortranarray(
        np.arange(12, dtype="u2").astype("<u2" if dtype == "V2" else dtype).reshape(3, 4)
    )
    np.save(str(tmp_path / "a.npy"), array.view(dtype, type=np.ndarray) if dtype == "V2" else array)
    assert convert(tmp_path / "a.npy", "-o", tmp_path / "bin", "--to", "bin")[0] == 0
    stored = array if dtype == "V2" else array.astype(array.dtype.newbyteorder("<"))
    assert (tmp_path / "bin" / "a.bin").read_bytes() == stored.tobytes("C")
    layouts = ("--from-layout", "ND", "--layout", "FRACTAL_NZ")
    if dtype == "<f2":
        assert convert(tmp_path / "a.npy", "-o", tmp_path / "nz", *layouts)[0] == 0
        (written,) = [name for name in os.listdir(str(tmp_path / "nz")) if name.endswith(".npy")]
        assert np.array_equal(
            load(tmp_path / "nz" / written), lay_out(array, "ND", "FRACTAL_NZ", (3, 4))
        )


def test_fractal_nz_to_plain_needs_the_shape(tmp_path):
    matrix = np.arange(35 * 20, dtype=np.float16).reshape(35, 20)
    np.save(str(tmp_path / "a.npy"), lay_out(matrix, "ND", "FRACTAL_NZ", matrix.shape))
    to = ("--from-layout", "FRACTAL_NZ", "--layout", "ND")
    code, error = convert(tmp_path / "a.npy", "-o", tmp_path / "out", *to)
    assert code == 4 and "give the target shape" in error
    assert convert(tmp_path / "a.npy", "-o", tmp_path / "out", *to, "--shape", "35,20")[0] == 0
    assert np.array_equal(load(tmp_path / "out" / "a.35x20.npy"), matrix)


def test_one_bad_file_does_not_stop_the_conversion_of_others(dump, tmp_path):
    bad = dump.parent / "Relu.bad.1.2.3"
    bad.write_bytes(dump.read_bytes()[:-3])
    code, error = convert(tmp_path / "dump", "-o", tmp_path / "out")
    assert code == 3 and "cut short" in error and "Traceback" not in error
    assert len(report(tmp_path / "out")["failed"]) == 1 and report(tmp_path / "out")["failed"][0][
        "source"
    ] == str(bad)
    assert convert(bad, "-o", tmp_path / "none")[0] == 4
    assert convert(tmp_path / "nothing", "-o", tmp_path / "none")[0] == 4
    assert convert(dump, "-o", tmp_path / "none", "--layout", "NC1HWCO")[0] == 2


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "original"])
def test_one_bad_tensor_does_not_stop_the_others_of_its_file(tmp_path, layout):
    """Scalars and vectors have no layout; what text becomes is not known."""
    outputs = [
        np.float32(3.5).reshape(()),
        np.arange(4),
        TensorData(b"abc", "string", shape=(1,)),
        np.arange(3.0),
    ]
    write_dump(str(tmp_path / NAME), outputs=outputs)
    code, error = convert(tmp_path / NAME, "-o", tmp_path / "out", "--layout", layout)
    assert code == 3 and error.count("output.") >= 1 and "ValueError" not in error
    made = report(tmp_path / "out")
    assert [entry["reason"].split(":")[0] for entry in made["failed"]] == ["output.2"]
    assert [(entry["file"][len(NAME) :], entry["layout"]) for entry in made["files"]] == [
        (".output.0.npy", "ND"), (".output.1.4.npy", "ND"), (".output.3.3.npy", "ND"),
    ]  # fmt: skip
    assert load(tmp_path / "out" / (NAME + ".output.0.npy")) == 3.5


def test_op_type_and_op_name_are_refused_unless_a_dump_is_written(tmp_path):
    np.save(str(tmp_path / "a.npy"), np.zeros(3))
    for words in (
        ("--op-type", "Add"),
        ("--op-name", "a"),
        ("--to", "dump"),
        ("--to", "dump", "--op-type", "Add"),
    ):
        assert convert(tmp_path / "a.npy", "-o", tmp_path / "out", *words)[0] == 2
    code, error = convert(tmp_path / "none.npy", "-o", tmp_path / "out")
    assert code == 4 and error.count("none.npy") == 1


def test_a_users_conversion_gets_shape_and_layout(dump, tmp_path, feature_map):
    """They are told the shape that the container tells, in their layout; None where it tells
    none.
    """
    scripts = tmp_path / "mine" / "format_convert"
    scripts.mkdir(parents=True)
    for layout, shape in (("NCHW", (1, 35, 4, 5)), ("NHWC", (1, 4, 5, 35))):
        script = scripts / ("convert_NC1HWC0_to_%s.py" % layout)
        script.write_text(
            "def convert(shape_from, shape_to, array):\n    return -array[:700].reshape(shape_to)\n"
        )
        to = (dump, "--output", 0, "--layout", layout, "--custom", tmp_path / "mine")
        assert convert(*to, "-o", tmp_path / "out")[0] == 0
        found = load(tmp_path / "out" / (NAME + ".output.0.%s.npy" % "x".join(map(str, shape))))
        stored = lay_out(feature_map, "NCHW", "NC1HWC0", feature_map.shape)
        assert found.shape == shape and np.array_equal(found.reshape(-1), -stored.reshape(-1)[:700])
    script = scripts / "convert_NC1HWC0_to_NCHW.py"
    to = (dump, "--output", 0, "--layout", "NCHW", "--custom", tmp_path / "mine")
    script.write_text(
        "def convert(shape_from, shape_to, array):\n    assert shape_to is None\n    return "
        "array[:6].reshape(1, 3, 2, 1)\n"
    )
    np.save(str(tmp_path / "stored.npy"), stored)
    assert (
        convert(
            tmp_path / "stored.npy", "--from-layout", "NC1HWC0", *to[3:], "-o", tmp_path / "out"
        )[0]
        == 0
    )
    assert (
        load(tmp_path / "out" / "stored.1x3x2x1.npy").tolist()
        == stored.reshape(-1)[:6].reshape(1, 3, 2, 1).tolist()
    )
    script.write_text(
        "def convert(shape_from, shape_to, array):\n    raise RuntimeError('not today')\n"
    )
    code, error = convert(*to, "-o", tmp_path / "out2")
    assert code == 4 and "not today" in error and "convert_NC1HWC0_to_NCHW.py" in error
    script.write_text("def convert(shape_from, shape_to, array):\n    return array[:3]\n")
    code, error = convert(*to, "-o", tmp_path / "out3", "--shape", "1,35,4,5")
    assert code == 4 and "3 elements" in error


@pytest.fixture
def two_dumps(dump, tmp_path):
    """Makes the command that converts two dumps, each in a process, with a conversion of the user's
    own.
    """
    scripts = tmp_path / "mine" / "format_convert"
    scripts.mkdir(parents=True)
    (dump.parent / "Relu.other.1.2.3").write_bytes(dump.read_bytes())

    def command(body):
        body = (
            "import os, signal, time\n\ndef convert(shape_from, shape_to, array):\n    %s\n" % body
        )
        (scripts / "convert_NC1HWC0_to_NCHW.py").write_text(body)
        words = [
            dump.parent.parent,
            "-o",
            tmp_path / "out",
            "--jobs",
            2,
            "--output",
            0,
            "--layout",
            "NCHW",
            "--custom",
            tmp_path / "mine",
        ]
        return [sys.executable, "-m", "goldwatch", "convert", *map(str, words)]

    return command


def files_below(folder):
    return [name for _, _, names in os.walk(str(folder)) for name in names]


def test_a_file_whose_process_dies_is_reported_and_leaves_nothing(two_dumps, tmp_path):
    aside = str(tmp_path / "out" / "0" / ".goldwatch-%d-half.tmp")
    # The process that converts is the parent of the one that guards the user's.
    parent = "int(open('/proc/%d/stat' % os.getppid()).read().rsplit(')')[-1].split()[1])"
    command = two_dumps(
        "pid = %s; open(%r %% pid, 'w').close(); os.kill(pid, signal.SIGKILL)" % (parent, aside)
    )
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
    )
    assert (
        done.returncode == 4
        and done.stderr.count("out of memory?") == 2
        and "Traceback" not in done.stderr
    )
    assert files_below(tmp_path / "out") == ["convert.json"]


@pytest.mark.parametrize("killed", [False, True])
def test_processes_end_quietly_at_ctrl_c_and_leave_nothing(two_dumps, tmp_path, until, killed):
    """At Ctrl-C, and when it is gone before it could tell them, as at a second one."""
    started, temporary = tmp_path / "started", tmp_path / "temporary"
    for folder in (started, temporary):
        folder.mkdir()
    command = two_dumps(
        "open(os.path.join(%r, str(os.getpid())), 'w').close(); time.sleep(3600)" % str(started)
    )
    environment = dict(os.environ, TMPDIR=str(temporary))
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=environment,
    )
    until(lambda: len(os.listdir(str(started))) == 2)
    if killed:
        running.kill()
    else:
        os.killpg(running.pid, signal.SIGINT)
    _, error = running.communicate(timeout=60)
    assert b"Traceback" not in error and (
        killed or (running.returncode == 130 and b"interrupted" in error)
    )
    until(lambda: not [pid for pid in os.listdir(str(started)) if os.path.exists("/proc/" + pid)])
    until(lambda: os.listdir(str(temporary)) == [])
    assert files_below(tmp_path / "out") == []


def test_file_names_that_are_too_long_are_hashed_with_a_mapping(tmp_path):
    folder = tmp_path / "dump"
    folder.mkdir()
    full = "Conv2D.%s.3.7.1767323045000000" % ("x" * 240)
    write_dump(str(folder / "123"), outputs=[np.zeros(3, np.float32)])
    (folder / "mapping.csv").write_text("123,%s\n" % full)
    assert convert(folder, "-o", tmp_path / "out")[0] == 0
    line = (tmp_path / "out" / "mapping.csv").read_text().strip().split(",")
    assert line[1] == full + ".output.0.npy" and load(tmp_path / "out" / line[0]).tolist() == [
        0,
        0,
        0,
    ]
    # What was written so is read again by the name that mapping.csv gives it.
    assert convert(tmp_path / "out", "-o", tmp_path / "golden", "--to", "pb")[0] == 0
    line = (tmp_path / "golden" / "mapping.csv").read_text().strip().split(",")
    assert (
        line[1].startswith("Conv2D_%s_3_7_" % ("x" * 240))
        and (tmp_path / "golden" / line[0]).exists()
    )


def test_files_with_hash_names_are_converted_by_their_mapping(tmp_path):
    folder, out = tmp_path / "dump", tmp_path / "out"
    folder.mkdir()
    for name in ("123", "999"):
        write_dump(str(folder / name), outputs=[np.zeros(3, np.float32)])
    (folder / "mapping.csv").write_text("123,%s\n" % NAME)
    assert convert(folder / "123", "-o", out)[0] == 0
    assert (out / (NAME + ".output.0.npy")).exists()
    out.joinpath("mapping.csv").write_text("7,of an earlier run")
    (folder / "mapping.csv").write_text("123,Conv2D.%s.3.7.1767323045000000\n" % ("x" * 240))
    assert convert(folder, "-o", out)[0] == 0
    assert (out / "999.output.0.npy").exists()
    assert (out / "mapping.csv").read_text().splitlines()[0] == "7,of an earlier run"


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", ">i4", ">u8", ">c8"])
def test_big_endian_npy_files_are_converted(dtype, tmp_path):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype) - np.ones((), dtype)
    np.save(str(tmp_path / "op.0.1767323045000000.npy"), values)
    for form in ("pb", "bin"):
        assert convert(tmp_path / "op.0.1767323045000000.npy", "-o", tmp_path, "--to", form)[0] == 0
    assert (
        DumpFile.open(str(tmp_path / "op.0.1767323045000000.pb"))
        .tensor("output", 0)
        .array()
        .tolist()
        == values.tolist()
    )
    raw = (tmp_path / "op.0.1767323045000000.bin").read_bytes()
    assert raw == values.astype(values.dtype.newbyteorder("<")).tobytes()


def test_no_result_replaces_another_or_its_source(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.save(str(tmp_path / folder / "x.npy"), np.ones(3))
    code, error = convert(
        tmp_path / "a" / "x.npy", tmp_path / "b" / "x.npy", "-o", tmp_path / "out", "--to", "txt"
    )
    assert code == 2 and "the same names" in error
    assert convert(tmp_path / "a", tmp_path / "a" / "x.npy", "-o", tmp_path / "out")[0] == 0
    code, error = convert(tmp_path / "a" / "x.npy", "-o", tmp_path / "a", "--dtype", "float16")
    assert (
        code == 4
        and "replace the file itself" in error
        and load(tmp_path / "a" / "x.npy").dtype == np.float64
    )


def test_padding_that_is_kept_is_reported(tmp_path, feature_map):
    np.save(str(tmp_path / "x.npy"), lay_out(feature_map, "NCHW", "NC1HWC0", feature_map.shape))
    code, error = convert(
        tmp_path / "x.npy", "-o", tmp_path / "out", "--from-layout", "NC1HWC0", "--layout", "NCHW"
    )
    assert code == 0 and "what fills the last blocks is kept" in error
    assert load(tmp_path / "out" / "x.1x48x4x5.npy").shape == (1, 48, 4, 5)


def test_a_users_conversion_of_an_unknown_layout_is_refused(dump, tmp_path):
    scripts = tmp_path / "mine" / "format_convert"
    scripts.mkdir(parents=True)
    (scripts / "helpers_to_use.py").write_text("")
    (scripts / "convert_NC1HWC0_to_NCHWW.py").write_text(
        "def convert(a, b, array):\n    return array\n"
    )
    code, error = convert(dump, "-o", tmp_path / "out", "--custom", tmp_path / "mine")
    assert code == 2 and "layout 'NCHWW' is not known" in error and "did you mean NCHW?" in error


def test_an_output_index_and_a_time_that_were_made_up_are_reported(tmp_path):
    np.save(str(tmp_path / "conv1.npy"), np.ones(3, np.float32))
    code, error = convert(tmp_path / "conv1.npy", "-o", tmp_path / "pb", "--to", "pb")
    assert code == 0 and "has no output index and time of its own" in error
    np.save(str(tmp_path / "conv1.0.1767323045000000.npy"), np.ones(3, np.float32))
    code, error = convert(
        tmp_path / "conv1.0.1767323045000000.npy", "-o", tmp_path / "named", "--to", "pb"
    )
    assert code == 0 and "of its own" not in error
