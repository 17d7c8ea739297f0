"""Folders given as TARGET or GOLDEN that hold something else."""

from __future__ import annotations

import os

import numpy as np
import pytest
from in_process import run_here

from goldwatch.dumps.dump_index import DumpIndex
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.kinds import kind as kinds
from goldwatch.kinds.folders import kinds_in_folder
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.watch import Watch

STEP = os.path.join("20260102030405", "0", "net", "1", "0")
FOLDERS = {
    kinds.MSPROBE: [
        "step0/rank0/construct.json",
        "step0/rank0/dump_tensor_data/Module.conv.Conv2d.forward.0.output.0.pt",
    ],
    kinds.FX: ["net/0/mm-aten.mm.default.OUTPUT.0.20240125031118787351.npy"],
    kinds.ATB: [
        "tensors/0/1_LinearOperation/after/intensor0.bin",
        "tensors/0/1_LinearOperation/after/outtensor0.bin",
    ],
    kinds.MINDSPORE: [
        "rank_0/Net/0/0/Conv2D.Conv2D-op12.0.0.1623124369613540.output.0.DefaultFormat.float16.npy"
    ],
    kinds.CONVERTED: [
        "Relu.relu.3.3.1700000000000001.output.0.npy",
        "Relu.relu.3.3.1700000000000001.input.0.npy",
    ],
    kinds.TORCH: ["conv.pt", "relu.pt"],
    kinds.RAW: ["net.bin"],
}


def fill(folder, names):
    for name in names:
        path = os.path.join(str(folder), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(b"x")


@pytest.fixture
def dump(tmp_path):
    folder = tmp_path / "dump" / STEP
    folder.mkdir(parents=True)
    write_dump(
        str(folder / "Relu.relu.3.3.1700000000000001"),
        [],
        [TensorData(np.ones((2, 3), np.float16))],
    )
    return str(tmp_path / "dump")


@pytest.fixture
def golden(tmp_path):
    folder = tmp_path / "golden"
    folder.mkdir()
    np.save(str(folder / "relu.0.1700000000000000.npy"), np.ones((2, 3), np.float32))
    return str(folder)


def compare(tmp_path, *words):
    return run_here(["goldwatch", *words, "-o", str(tmp_path / "out")])


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_folders_that_are_no_dumps_or_golden_data_are_named(tmp_path, dump, golden, name):
    other = tmp_path / "other"
    fill(other, FOLDERS[name])
    assert kinds_in_folder(DumpIndex(str(other), "TARGET"))[0].name == name
    done = compare(tmp_path, "compare", str(other), golden)
    assert done.returncode == 4 and kinds.WORDS[name] in done.stderr and "hint: " in done.stderr
    done = compare(tmp_path, "compare", dump, str(other))
    assert done.returncode == 4 and kinds.WORDS[name] in done.stdout + done.stderr


def test_mindspore_files_are_recognised_by_type_and_shape_in_their_names(tmp_path, dump, golden):
    fill(
        tmp_path / "other",
        ["Default--conv1-Conv2d--Conv2D-op12_output_0_shape_1_6_28_28_Float16_NC1HWC0.bin"],
    )
    fill(tmp_path / "other", ["Default--loss-Mean-op8_input_0_shape__Float32_DefaultFormat.bin"])
    done = compare(tmp_path, "compare", str(tmp_path / "other"), golden)
    assert done.returncode == 4 and "it holds a dump of MindSpore (2 files" in done.stderr


@pytest.mark.parametrize(
    "command, words",
    [("compare", ()), ("compare-op", ("relu",)), ("watch", ("--until-idle", "0.1"))],
)
def test_exchanged_target_and_golden_are_reported(tmp_path, dump, golden, command, words):
    done = compare(tmp_path, command, golden, dump, *words)
    assert done.returncode == 4 and "the two are exchanged" in done.stderr
    assert "TARGET %s, GOLDEN %s" % (dump, golden) in done.stderr
    assert compare(tmp_path, command, dump, golden, *words).returncode == 0


def test_golden_names_that_lack_a_part_are_reported_and_can_be_repaired(tmp_path, dump, golden):
    os.rename(
        os.path.join(golden, "relu.0.1700000000000000.npy"), os.path.join(golden, "relu:0.npy")
    )
    done = compare(tmp_path, "compare", dump, golden)
    assert (
        done.returncode == 4
        and "such as relu:0.npy" in done.stderr
        and "goldwatch golden tf rename" in done.stderr
    )
    done = run_here(["goldwatch", "golden", "tf", "rename", golden, "--apply"])
    assert done.returncode == 0 and "no time in its name" in done.stdout
    done = compare(tmp_path, "compare", dump, golden)
    assert done.returncode == 0


@pytest.mark.parametrize("wrong", ["conv.1700000000000000.npy", "conv_3.0.npy", "conv1:0.npy"])
@pytest.mark.parametrize("command, words", [("compare", ()), ("watch", ("--until-idle", "0.1"))])
def test_one_golden_name_that_lacks_a_part_is_warned_of(
    tmp_path, dump, golden, wrong, command, words
):
    np.save(os.path.join(golden, wrong), np.ones(2))
    done = compare(tmp_path, command, dump, golden, *words)
    assert (
        "1 npy file lacks an output index or a time in the name (" in done.stderr
        and wrong + ")" in done.stderr
    )


@pytest.mark.parametrize("wrong", ["relu.npy", "relu:0.1700000000000000.npy"])
def test_a_misnamed_file_that_would_be_the_missing_golden_data_is_named(
    tmp_path, dump, golden, wrong
):
    os.rename(os.path.join(golden, "relu.0.1700000000000000.npy"), os.path.join(golden, wrong))
    np.save(os.path.join(golden, "conv.0.1700000000000000.npy"), np.ones(2))
    np.save(os.path.join(golden, "other.npy"), np.ones(2))
    done = compare(tmp_path, "compare", dump, golden)
    assert (
        done.returncode == 4 and "GOLDEN: %s: not named as golden data are" % wrong in done.stderr
    )
    assert "goldwatch golden tf rename repairs" in done.stderr and "other.npy" not in done.stderr
    assert run_here(["goldwatch", "golden", "tf", "rename", golden, "--apply"]).returncode == 0
    assert compare(tmp_path, "compare", dump, golden, "--force").returncode == 0


@pytest.mark.parametrize(
    "names, words",
    [
        (FOLDERS[kinds.CONVERTED], kinds.WORDS[kinds.CONVERTED]),
        (["relu.output.0.npy"], kinds.WORDS[kinds.MISNAMED]),
    ],
)
def test_a_watch_says_at_once_that_target_holds_something_else(
    tmp_path, dump, golden, names, words
):
    fill(tmp_path / "other", names)

    def said(target):
        texts = []
        with Watch(
            ComparisonOptions(target, golden, str(tmp_path / "out")), force=True, say=texts.append
        ):
            return [text for text in texts if "no dump file so far" in text]

    (text,) = said(str(tmp_path / "other"))
    assert text.startswith(
        "TARGET: %s: no dump file so far: it holds %s" % (tmp_path / "other", words)
    )
    assert said(dump) == []


@pytest.mark.parametrize("names", [["result.npy"], ["a.npy", "boxes_out.npy"]])
def test_outputs_under_names_of_their_own_are_told_to_be_given_by_name(tmp_path, golden, names):
    (tmp_path / "outputs").mkdir()
    for name in names:
        np.save(str(tmp_path / "outputs" / name), np.ones(2, np.float32))
    done = compare(tmp_path, "compare", str(tmp_path / "outputs"), golden)
    assert done.returncode == 4 and "outputs of the network that a program of" in done.stderr
    assert "docs/outputs.md" in done.stderr


def test_a_folder_of_numbers_as_text_is_recognised_and_other_text_is_not(tmp_path, golden):
    (tmp_path / "numbers").mkdir()
    (tmp_path / "numbers" / "relu.txt").write_text("1.0 2.0\n3.0 -4e-3\n")
    done = compare(tmp_path, "compare", str(tmp_path / "numbers"), golden)
    assert (
        done.returncode == 4
        and "it holds numbers as a text file (1 file, such as relu.txt)" in done.stderr
    )
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "log.txt").write_text("started\n")
    done = compare(tmp_path, "compare", str(tmp_path / "logs"), golden)
    assert done.returncode == 4 and "it holds" not in done.stderr


def test_a_folder_of_dumps_and_golden_data_is_both(tmp_path, dump, golden):
    assert [kind.name for kind in kinds_in_folder(DumpIndex(str(tmp_path), "TARGET"))] == [
        kinds.DUMPS,
        kinds.GOLDEN,
    ]
    (kind,) = kinds_in_folder(DumpIndex(dump, "TARGET"))
    assert kind.files == 1
    assert kind.example == os.path.join(STEP, "Relu.relu.3.3.1700000000000001")


def test_dump_files_with_an_added_ending_are_recognised(tmp_path, dump, golden):
    (folder,) = [base for base, _, files in os.walk(dump) if files]
    os.rename(
        os.path.join(folder, "Relu.relu.3.3.1700000000000001"),
        os.path.join(folder, "Relu.relu.3.3.1700000000000001.bin"),
    )
    done = compare(tmp_path, "compare", dump, golden)
    assert (
        done.returncode == 4
        and "dump files whose names are not as a device writes them" in done.stderr
    )
    assert "take the ending off" in done.stderr


def test_an_npz_file_given_as_golden_folder_is_refused_with_the_reason(tmp_path, dump):
    np.savez(str(tmp_path / "golden.npz"), relu=np.ones(3))
    done = compare(tmp_path, "compare", dump, str(tmp_path / "golden.npz"))
    assert (
        done.returncode == 4
        and kinds.WORDS[kinds.NPZ] in done.stderr
        and "one npy file a tensor" in done.stderr
    )
