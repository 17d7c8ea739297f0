"""What is left out is reported, also with -q; and the proposed command for a suspect."""

from __future__ import annotations

import os
import shlex

import numpy as np
import pytest
from in_process import run_here

from goldwatch.cli.next_commands import closer_words
from goldwatch.dumps.place import Place
from goldwatch.run.comparison_options import ComparisonOptions


def body(scene, random, dumps, goldens):
    """An op that ran several times, as in a loop's body, with so many golden runs; the first dump
    is wrong.
    """
    values = random.standard_normal((8, 8)).astype(np.float32)
    scene.data(values)
    for number in range(dumps):
        scene.op(
            "body",
            "Relu",
            ["data"],
            np.maximum(values, 0),
            np.maximum(values, 0) * (1.5 if not number else 1.0),
            npy=False,
        )
    for number in range(goldens):
        np.save(
            os.path.join(scene.golden_dir, "body.0.%d.npy" % (1767323045000100 + number)),
            np.maximum(values, 0),
        )


@pytest.mark.parametrize("goldens", [1, 2])
def test_earlier_dumps_that_are_left_out_are_reported(scene, random, goldens):
    body(scene, random, 3, goldens)
    code, _, text = scene.compare()
    assert code == 0
    assert (
        "left out 2 earlier dumps of body: golden data hold another number of runs, and the "
        "last dump counts" in text
    )


def test_with_as_many_golden_runs_no_dump_is_left_out(scene, random):
    body(scene, random, 3, 3)
    code, _, text = scene.compare()
    assert code == 1 and "left out" not in text


@pytest.mark.parametrize("steps", [["0"], ["0", "1"], ["0", "1", "2"]])
def test_golden_steps_without_dumps_are_reported(scene, random, steps):
    values = random.standard_normal((8, 8)).astype(np.float32)
    scene.data(values, dumped=False)
    for step in steps:
        scene.op(
            "relu",
            "Relu",
            ["data"],
            np.maximum(values, 0),
            place="20260102030405/0/net/1/" + step,
            npy=False,
        )
    for step in "012":
        os.makedirs(os.path.join(scene.golden_dir, step))
        np.save(
            os.path.join(scene.golden_dir, step, "relu.0.1767323045000100.npy"),
            np.maximum(values, 0),
        )
    _, summary, text = scene.compare()
    said = {1: "steps 1, 2", 2: "step 2", 3: None}[len(steps)]
    assert ("GOLDEN has data of" in text) == (said is not None)
    if said:
        assert "GOLDEN has data of %s, of which TARGET holds no dump" % said in text
        assert any(said in one["sentence"] for one in summary["warnings"])


def test_the_folder_of_one_step_reports_no_other_steps(scene, random):
    values = random.standard_normal((8, 8)).astype(np.float32)
    scene.data(values, dumped=False)
    scene.op(
        "relu", "Relu", ["data"], np.maximum(values, 0), place="20260102030405/0/net/1/0", npy=False
    )
    for step in "01":
        os.makedirs(os.path.join(scene.golden_dir, step))
        np.save(
            os.path.join(scene.golden_dir, step, "relu.0.1767323045000100.npy"),
            np.maximum(values, 0),
        )
    scene.target = os.path.join(scene.target, "20260102030405/0/net/1/0")
    assert "GOLDEN has data of" not in scene.compare()[2]


def test_a_run_without_limits_reports_that_nothing_was_judged(scene, random, tmp_path):
    values = random.standard_normal((8, 8)).astype(np.float32)
    scene.data(values)
    scene.op("relu", "Relu", ["data"], np.maximum(values, 0))
    (tmp_path / "none.json").write_text('{"base": "none"}')
    assert (
        "no limit is in force: nothing was judged"
        in scene.compare("--limits", str(tmp_path / "none.json"))[2]
    )
    assert "no limit is in force" not in scene.compare()[2]


@pytest.mark.parametrize("place", ["", "20260102030405/0/net/1/0"])
def test_the_proposed_compare_op_command_runs(scene, random, place):
    values = random.standard_normal((16, 16)).astype(np.float32)
    scene.data(values, dumped=False)
    scene.op(
        "relu", "Relu", ["data"], np.maximum(values, 0), np.maximum(values, 0) * 3, place=place
    )
    text = scene.compare()[2]
    words = shlex.split(text.split("look closer: ")[1])
    command = words[: words.index("-o") + 2]
    assert command[:2] == ["goldwatch", "compare-op"] and "relu" in command
    assert run_here(command).returncode == 1
    assert os.path.exists(os.path.join(scene.out, "detail", "detail.json"))


def test_links_that_are_left_out_are_reported(scene, random):
    values = random.standard_normal((8, 8)).astype(np.float32)
    scene.data(values)
    scene.op("relu", "Relu", ["data"], np.maximum(values, 0), place="20260102030405/0/net/1/0")
    steps = os.path.join(scene.target, "20260102030405/0/net/1")
    os.symlink("0", os.path.join(steps, "1"))
    os.symlink("nothing", os.path.join(steps, "0", "Relu.gone.1.2.3"))
    code, summary, text = scene.compare()
    assert (code, summary["verdict"]) == (0, "pass")
    assert (
        "left out: 20260102030405/0/net/1/1 is the same folder as one that was already listed"
        in text
    )
    assert "Relu.gone.1.2.3 is not a regular file (or a link to nothing)" in text


@pytest.mark.parametrize("before", [True, False])
def test_a_row_not_compared_before_the_named_operator_is_reported(scene, random, before):
    values = np.abs(random.standard_normal((8, 8))).astype(np.float32)
    scene.data(values)
    scene.op("first", "Relu", ["data"], values)
    scene.op("wrong", "Sqrt", ["first"], np.sqrt(values), np.sqrt(values) * 1.5, with_inputs=before)
    scene.op("named", "Square", ["wrong"], values, values * 2.25)
    for name in ["wrong"] if before else ["first", "wrong"]:
        (path,) = [entry for entry in os.listdir(scene.target) if ".%s." % name in entry]
        os.remove(os.path.join(scene.target, path))
    code, summary, text = scene.compare()
    assert (code, summary["first_divergence"]["op"], summary["first_divergence"]["inputs"]) == (
        1,
        "named",
        "bad",
    )
    whose = (
        " and whose inputs are within their limits: dump and compare it, too."
        if before
        else ": dump and compare it, too."
    )
    assert (
        "named:input:0 was already outside its limits, and computed again from the device's own "
        "inputs the operator is right, so its error is inherited; it comes from wrong, which was "
        "not compared" + whose in text
    )


def test_the_proposed_command_names_the_place_when_dumps_have_moved(tmp_path):
    """A report is made where the store is; below TARGET, whichever part of the way to a place that
    is.
    """
    place = Place("20260102030405", "3", "net", "1", "8")
    parts = [part for part in place if part is not None]
    for count in range(len(parts) + 1):
        target = str(tmp_path.joinpath("gone", "dump", *parts[:count]))
        options = ComparisonOptions(
            target, str(tmp_path / "gone" / "golden"), str(tmp_path / "out"), model="graphs"
        )
        assert closer_words(options, "part0/MatMul", place)[2] == str(
            tmp_path.joinpath("gone", "dump", *parts)
        )


def test_a_dump_that_cannot_be_compared_is_not_to_be_dumped_again(scene, random):
    """Its golden tensor has other axes; what reads it has these."""
    values = np.abs(random.standard_normal((8, 8))).astype(np.float32)
    scene.data(values)
    scene.op("other", "Sqrt", ["data"], np.sqrt(values), np.sqrt(values) * 1.5)
    scene.npy("other", np.sqrt(values).reshape(4, 16))
    scene.made["other"] = scene.made["other"].reshape(4, 16)
    scene.op("named", "Square", ["other"], values.reshape(4, 16), values.reshape(4, 16) * 2.25)
    code, summary, text = scene.compare()
    assert (code, summary["first_divergence"]["op"]) == (1, "named")
    assert "it comes from other, which was not compared" in text
    assert "dump and compare it" not in text and "result.json says why not" in text
