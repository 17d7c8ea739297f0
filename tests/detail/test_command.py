"""``goldwatch compare-op`` from the command line: which tensors, exit codes, bad input."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from in_process import run_here
from terminals import run_on_terminal

from goldwatch.base.errors import GoldwatchError
from goldwatch.cli import goldwatch
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.schemas import load_text
from goldwatch.tensors.dtypes import dtype_by_name

STAMP = "1234567890123456"
SHAPE = (1, 4, 3, 5)


def run(*words):
    """Return exit code and what was printed on stdout."""
    done = CliRunner().invoke(
        goldwatch, ["compare-op", *map(str, words), "-q"], standalone_mode=False
    )
    if isinstance(done.exception, GoldwatchError):
        return done.exception.exit_code, done.exception.message
    assert done.exception is None, done.exception
    return done.return_value, done.output


def tensor(array, layout="NCHW"):
    return TensorData(
        array.tobytes(), dtype_by_name(array.dtype.name), layout, array.shape, array.shape
    )


@pytest.fixture
def tree(tmp_path):
    """A model of one op that was made from conv/a, its dump in two steps' folders, and golden
    data.
    """
    golden = np.random.RandomState(0).standard_normal(SHAPE).astype(np.float32)
    op = {
        "name": "conv_device",
        "type": "Conv2D",
        "id": 1,
        "input": [],
        "output_desc": [{"attr": []}],
    }
    op["attr"] = [{"key": "_datadump_original_op_names", "value": {"list": {"s": ["conv/a"]}}}]
    desc = [
        {"key": "_datadump_origin_name", "value": {"s": "conv/a"}},
        {"key": "_datadump_origin_output_index", "value": {"i": 0}},
    ]
    op["output_desc"][0]["attr"] = desc
    (tmp_path / "model.json").write_text(
        json.dumps({"name": "net", "graph": [{"name": "g", "op": [op]}]})
    )
    (tmp_path / "golden").mkdir()
    np.save(str(tmp_path / "golden" / ("conv_a.0.%s.npy" % STAMP)), golden)
    np.save(str(tmp_path / "golden" / ("twice.0.%s.npy" % STAMP)), golden * 2 + 1)
    for step in "01":
        folder = tmp_path / "dump" / "20260102030405" / "0" / "net" / "1" / step
        folder.mkdir(parents=True)
        write_dump(
            str(folder / ("Conv2D.conv_device.1.2.%s" % STAMP)),
            outputs=[tensor((golden * 2 + 1).astype(np.float16))],
        )
    return tmp_path


def test_a_tensor_without_elements_is_not_measured(tree):
    """Its other dims may be larger than the memory."""
    folder = tree / "dump" / "20260102030405" / "0" / "net" / "1" / "0"
    write_dump(
        str(folder / ("Relu.empty.1.2.%s" % STAMP)),
        outputs=[TensorData(b"", "float32", shape=(0, 2**62))],
    )
    code, printed = run(folder, folder, "empty", "-o", tree / "out", "--format", "json")
    (found,) = json.loads(printed)["tensors"]
    assert (code, found["verdict"], found["findings"]) == (0, "pass", [])


def test_an_op_is_found_by_its_device_name_and_its_original_name(tree):
    step = tree / "dump" / "20260102030405" / "0" / "net" / "1" / "1"
    for number, name in enumerate(("conv_device", "conv/a", "conv_a")):
        out = tree / ("out%d" % number)
        code, printed = run(
            step, tree / "golden", name, "-f", tree / "model.json", "-o", out, "--format", "json"
        )
        document = json.loads(printed)
        assert code == 1 and document == json.loads((out / "detail.json").read_text())
        jsonschema.validate(document, json.loads(load_text("detail.schema.json")))
        (entry,) = document["tensors"]
        assert document["op"] == "conv_device" and entry["tensor"] == "conv_device:output:0"
        # Another golden tensor explains it.
        assert (
            entry["findings"][0]["kind"] == "other-tensor"
            and entry["findings"][0]["detail"]["tensor"] == "twice:output:0"
        )
        names = ["_summary.txt", "_0.csv", "_absolute_error_topn.csv", "_relative_error_topn.csv"]
        assert sorted(os.listdir(str(out))) == sorted(
            ["detail.json"] + ["conv_device_output_0" + name for name in names]
        )


def test_ops_with_chinese_names_keep_their_files_apart_in_one_folder(tree):
    step = tree / "dump" / "20260102030405" / "0" / "net" / "1" / "1"
    array = np.ones(SHAPE, np.float16)
    for number, name in enumerate(("左支", "右支"), 5):
        path = step / ("Relu.%s.%d.2.%s" % (name, number, STAMP))
        write_dump(str(path), outputs=[tensor(array * number)])
        assert run(step, step, name, "-o", tree / "out", "--rows", "none")[0] == 0
    for number, name in enumerate(("左支", "右支"), 5):
        lines = (tree / "out" / (name + "_output_0_absolute_error_topn.csv")).read_text("utf-8")
        assert lines.splitlines()[1].split(",")[4] == str(number)


def test_several_steps_need_a_selection(tree):
    code, message = run(
        tree / "dump", tree / "golden", "conv/a", "-f", tree / "model.json", "-o", tree / "out"
    )
    assert code == 2 and "2 devices, models or steps" in message and not (tree / "out").exists()


def test_exit_codes_tell_pass_fail_and_missing_data(tree):
    step = tree / "dump" / "20260102030405" / "0" / "net" / "1" / "1"
    model = ("-f", tree / "model.json", "--rows", "none")
    assert run(step, tree / "golden", "other", *model, "-o", tree / "a")[0] == 4
    assert run(step, tree / "golden", "conv/a", "--input", 3, *model, "-o", tree / "a")[0] == 4
    assert run(step, tree / "golden", "conv/a", "--limit", "CosineSimilarity=-1", "--limit",
    "RelativeEuclideanDistance=9", "--limit",
               "WorstSliceDistance=99", *model, "-o", tree / "b")[0] == 0  # fmt: skip
    (path,) = (tree / "golden").glob("conv_a*")
    path.write_bytes(path.read_bytes()[:150])
    code, printed = run(step, tree / "golden", "conv/a", *model, "-o", tree / "c")
    assert code == 3 and "cut short" in printed
    path.unlink()
    code, printed = run(step, tree / "golden", "conv/a", *model, "-o", tree / "d")
    assert code == 4 and "no golden" in printed
    shutil.rmtree(str(tree / "golden"))
    assert run(step, tree / "golden", "conv/a", *model, "-o", tree / "e")[0] == 4


def test_two_dump_files_and_one_of_their_tensors_are_compared(tmp_path):
    random = np.random.RandomState(0)
    arrays = [random.standard_normal(SHAPE).astype(np.float16) for _ in range(2)]
    names = [str(tmp_path / ("Add.add.1.2.123456789012345%d" % number)) for number in range(2)]
    for name, shift in zip(names, (0, 1)):
        write_dump(
            name, inputs=[tensor(arrays[0])], outputs=[tensor(arrays[1] + np.float16(shift))]
        )
    code, printed = run(*names, "-o", tmp_path / "all", "--format", "json")
    assert code == 1 and [entry["tensor"] for entry in json.loads(printed)["tensors"]] == [
        "add:input:0",
        "add:output:0",
    ]
    code, printed = run(*names, "--input", 0, "-o", tmp_path / "one", "--format", "json")
    assert code == 0 and [entry["tensor"] for entry in json.loads(printed)["tensors"]] == [
        "add:input:0"
    ]
    assert (tmp_path / "one" / "add_input_0_0.csv").read_text().startswith("N,C,H,W,Left,Right,")
    np.save(str(tmp_path / "x.npy"), arrays[1])
    code, printed = run(names[0], tmp_path / "x.npy", "-o", tmp_path / "npy", "--format", "json")
    assert code == 0 and [entry["tensor"] for entry in json.loads(printed)["tensors"]] == [
        "add:output:0"
    ]


@pytest.mark.parametrize("over_it", [False, True])
def test_an_input_that_is_off_already_is_told_where_the_output_is(tmp_path, over_it):
    """But for an input that the output was written over: the dump holds the output there."""
    golden = np.random.RandomState(0).standard_normal(SHAPE).astype(np.float16)
    addresses = {"inputs": 4096, "outputs": 4096 if over_it else 8192}
    names = [str(tmp_path / ("Relu.relu.1.2.123456789012345%d" % number)) for number in range(2)]
    for name, factor in zip(names, (2, 1)):
        arrays = tensor(golden * np.float16(factor))
        sides = {side: [replace(arrays, address=at)] for side, at in addresses.items()}
        write_dump(name, **sides)
    code, printed = run(*names, "-o", tmp_path / "out")
    assert code == 1 and printed.count("the target is the other dump's values x 2") == 2
    told = "relu:input:0 is outside its limits already: this error may have come in; goldwatch"
    assert (told in " ".join(printed.split())) == (not over_it)
    assert printed.count("outside its limits already") == (not over_it)


def test_unusable_files_are_refused(tmp_path):
    np.save(str(tmp_path / "a.npy"), np.ones(3))
    np.save(str(tmp_path / "b.npy"), np.ones(4))
    assert run(tmp_path / "a.npy", tmp_path / "nothing.npy", "-o", tmp_path / "o")[0] == 4
    assert run(tmp_path / "a.npy", tmp_path, "-o", tmp_path / "o")[0] == 4
    assert run(tmp_path / "a.npy", tmp_path / "a.npy", "op", "-o", tmp_path / "o")[0] == 2
    assert run(tmp_path, tmp_path, "-o", tmp_path / "o")[0] == 2
    code, printed = run(tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "o")
    assert code == 3 and "differs in shape" in printed
    code, printed = run(tmp_path / "a.npy", tmp_path / "a.npy", "-o", tmp_path / "o", "--output", 3)
    assert code == 4 and "has no output 3" in printed
    assert run(tmp_path / "a.npy", tmp_path / "a.npy", "-o", tmp_path / "o", "--output", 0)[0] == 0


@pytest.mark.parametrize(
    "command", [("compare-op", "a.npy", "b.npy", "-o", "out"), ("inspect", ".")]
)
def test_output_lines_fit_an_80_column_terminal(command, tmp_path):
    np.save(str(tmp_path / "a.npy"), np.arange(24).reshape(2, 3, 4) > 11)
    np.save(str(tmp_path / "b.npy"), np.arange(24).reshape(2, 3, 4) < 12)
    (tmp_path / ("Add.%s.1.2.1600000000000000" % ("x" * 100))).write_bytes(b"junk")
    words = [sys.executable, "-m", "goldwatch", *command]
    printed = run_on_terminal(words, cwd=str(tmp_path), env=dict(os.environ, COLUMNS="80"))[
        0
    ].decode()
    assert len(printed.splitlines()) > 3 and max(map(len, printed.splitlines())) <= 80, printed


def test_exchanged_outputs_and_values_that_a_float_cannot_tell_apart_are_noted(tmp_path):
    """Of an op with several outputs each other's golden tensor may fit; its own never counts as
    another one.
    """
    random = np.random.RandomState(0)
    first, second = (random.standard_normal((3, 40)).astype(np.float32) for _ in "ab")
    whole = np.arange(5, dtype=np.int64) + 2**60
    wrong = whole.copy()
    wrong[3] += 1
    (tmp_path / "dump").mkdir()
    (tmp_path / "golden").mkdir()
    outputs = [
        tensor(second.astype(np.float16), "ND"),
        tensor(first.astype(np.float16), "ND"),
        tensor(wrong, "ND"),
    ]
    write_dump(str(tmp_path / "dump" / ("Split.split.1.2.%s" % STAMP)), outputs=outputs)
    for index, array in enumerate((first, second, whole)):
        np.save(str(tmp_path / "golden" / ("split.%d.%s.npy" % (index, STAMP))), array)
    assert run(tmp_path / "dump", tmp_path / "golden", "split", "-o", tmp_path / "out")[0] == 1
    tensors = json.loads((tmp_path / "out" / "detail.json").read_text())["tensors"]
    found = [
        [each["detail"]["file"] for each in entry["findings"] if each["kind"] == "other-tensor"]
        for entry in tensors
    ]
    assert found == [["split.1.%s.npy" % STAMP], ["split.0.%s.npy" % STAMP], []]


def test_a_skipped_earlier_time_is_reported_even_when_quiet(tree):
    model = os.path.join("0", "net", "1")
    newer, older = tree / "dump" / "20260102030405", tree / "dump" / "20250102030405"
    shutil.rmtree(str(newer / model / "1"))
    shutil.copytree(str(newer), str(older))
    words = [
        tree / "dump",
        tree / "golden",
        "conv_device",
        "-f",
        tree / "model.json",
        "-o",
        tree / "out",
        "--rows",
        "none",
        "-q",
    ]
    done = run_here(["goldwatch", "compare-op", *words])
    assert (
        done.returncode == 1
        and "left out" in done.stderr
        and "20250102030405" in done.stderr
        and "took" not in done.stderr
    )


def test_a_users_metric_is_computed_with_its_arguments(tree):
    (tree / "mine" / "algorithm").mkdir(parents=True)
    (tree / "mine" / "algorithm" / "alg_Mean.py").write_text(
        "def compare(my_output, ground_truth, args):\n    return float((my_output - "
        "ground_truth).mean()) * float(args.times), 'said'\n"
    )
    step = tree / "dump" / "20260102030405" / "0" / "net" / "1" / "1"
    words = (
        step,
        tree / "golden",
        "conv_device",
        "-f",
        tree / "model.json",
        "-o",
        tree / "out",
        "--custom",
        tree / "mine",
    )
    code, printed = run(
        *words, "--metric-args", "Mean:times=10", "--limit", "Mean<1e9", "--format", "json"
    )
    (found,) = json.loads(printed)["tensors"]
    golden = np.random.RandomState(0).standard_normal(SHAPE).astype(np.float32)
    target = (golden * 2 + 1).astype(np.float16).astype(np.float64)
    assert code == 1 and found["metrics"]["Mean"] == pytest.approx(
        10 * (target - golden).mean(), rel=1e-5
    )
    jsonschema.validate(
        {"op": "op", "tensors": [found]}, json.loads(load_text("detail.schema.json"))
    )
    code, printed = run(*words, "--metric-args", "Mean:times=10")
    assert "  Mean %.9g" % found["metrics"]["Mean"] in printed
    assert run(*words, "--metric-args", "Other:times=10")[0] == 2
    assert run(*words[:-2], "--metric-args", "Mean:times=10")[0] == 2


def test_elements_follow_the_users_conversion(tmp_path):
    golden = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.save(str(tmp_path / "golden.npy"), golden)
    stored = TensorData(
        golden[:, :, ::-1].tobytes(),
        dtype_by_name("float32"),
        "NC1HWC0_C04",
        golden.shape,
        golden.shape,
    )
    write_dump(str(tmp_path / ("Relu.relu.1.2.%s" % STAMP)), outputs=[stored])
    (tmp_path / "mine" / "format_convert").mkdir(parents=True)
    (tmp_path / "mine" / "format_convert" / "convert_NC1HWC0_C04_to_ND.py").write_text(
        "def convert(shape_from, shape_to, array):\n    return array.reshape(shape_to)[..., "
        "::-1].copy()\n"
    )
    words = (
        tmp_path / ("Relu.relu.1.2.%s" % STAMP),
        tmp_path / "golden.npy",
        "-o",
        tmp_path / "out",
        "--output",
        "0",
        "--format",
        "json",
    )
    code, printed = run(*words, "--custom", tmp_path / "mine")
    (found,) = json.loads(printed)["tensors"]
    assert (code, found["bad"], found["findings"][0]["kind"]) == (0, 0, "healthy"), found["reason"]
    with open(
        str(tmp_path / "out" / [name for name in found["files"] if name.endswith("_0.csv")][0])
    ) as lines:
        assert all(line.split(",")[-4] == line.split(",")[-3] for line in list(lines)[1:])
