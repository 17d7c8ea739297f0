"""``goldwatch repeat``: a program run several times, and existing runs."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
import numpy as np
import pytest
from in_process import run_here

from goldwatch.schemas import load_schema
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor, write_files
from goldwatch.testing.training import Training, Wrong

PROGRAM = """
import os, shutil, sys
number = len([name for name in os.listdir("out") if name.startswith("program")])
shutil.copytree("run1", "dump") if number == 1 else shutil.copytree(os.path.join("run2", "20260102030402"), "dump/20260102030402")
sys.exit(int(sys.argv[1]))
"""  # noqa: E501


def runs(folder, *flips):
    """Folders run1, run2, …: a -> b, where bits of outputs, and of inputs like those, are changed:
    {tensor: bits}.
    """
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    model = DeviceModel("net")
    source = ()
    for name in ("a", "b"):
        model.add(DeviceOp(name, "MatMul", source, (DeviceTensor(values, "ND", "ND", name),)))
        source = ((name, 0),)
    model.write_json(str(folder / "net.json"))
    for number, changes in enumerate(flips, 1):
        dumps = []
        for dump in model.dumps(time="2026010203040%d" % number):
            for tensor, bits in changes.items():
                op, _, place = tensor.partition(":")
                dump = dump.flipped(place, {9: bits}) if dump.op_name == op else dump
            dumps.append(dump)
        write_files(str(folder / ("run%d" % number)), dumps)
    return ["run%d" % number for number in range(1, len(flips) + 1)]


def throughout(bits):
    return {"a:output:0": bits, "b:input:0": bits, "b:output:0": bits}


def test_the_time_of_a_run_in_the_name_of_a_training_graph_is_left_open(tmp_path):
    for number in (1, 2):
        model = "ge_default_2026010203040%d_11" % number
        wrong = () if number == 1 else (Wrong("part0/MatMul"),)
        training = Training((model,), devices=1, steps=(1,), wrong=wrong)
        training.write_tree(str(tmp_path / ("run%d" % number)))
    done = run_here(["goldwatch", "repeat", "--folders", "run1", "run2", "-o", "out"], tmp_path)
    assert done.returncode == 1, done.stderr
    document = json.loads((tmp_path / "out" / "repeat.json").read_text())
    assert {op["model"] for op in document["ops"]} == {"ge_default_*_11"}


def test_existing_runs_are_compared_with_the_first(tmp_path):
    folders = runs(tmp_path, {}, throughout(1), {}, throughout(2), throughout(1))
    done = run_here(
        ["goldwatch", "repeat", "--folders", *folders, "-f", "net.json", "-o", "out"], tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert (
        "a (MatMul): differs in 3 of 4 runs, never of equal inputs; 3 different results"
        in done.stdout
    )
    assert (
        "Runs 2, 4, 5 differ from run 1; no operator is known to make other outputs of equal "
        "inputs." in done.stdout
    )
    document = json.loads((tmp_path / "out" / "repeat.json").read_text())
    jsonschema.validate(document, load_schema("repeat"))
    assert [run["verdict"] for run in document["runs"]] == [None, "fail", "pass", "fail", "fail"]
    assert [(op["op"], op["runs"], op["results"]) for op in document["ops"]] == [
        ("a", [2, 4, 5], 3),
        ("b", [2, 4, 5], 3),
    ]
    same = run_here(
        ["goldwatch", "repeat", "--folders", "run1", "run3", "-o", "same", "--format", "json"],
        tmp_path,
    )
    assert (same.returncode, json.loads(same.stdout)["verdict"]) == (0, "pass")


def test_a_run_that_cannot_be_compared_leaves_the_others_compared(tmp_path):
    folders = runs(tmp_path, {}, {"b:output:0": 1})
    (tmp_path / "empty").mkdir()
    done = run_here(
        [
            "goldwatch",
            "repeat",
            "--folders",
            "run1",
            "empty",
            *folders[1:],
            "-f",
            "net.json",
            "-o",
            "out",
        ],
        tmp_path,
    )
    assert (
        done.returncode == 1
        and "run 2 was not compared: TARGET: empty: no dump file" in done.stdout
    ), done.stdout
    assert (
        "b (MatMul): differs in 1 of 1 runs" in done.stdout
        and "Of run 2 not all could be compared." in " ".join(done.stdout.split())
    )
    document = json.loads((tmp_path / "out" / "repeat.json").read_text())
    jsonschema.validate(document, load_schema("repeat"))
    assert [(run["verdict"], "reason" in run) for run in document["runs"]] == [
        (None, False),
        ("incomplete", True),
        ("fail", False),
    ]
    done = run_here(
        ["goldwatch", "repeat", "--folders", "run1", "run1", "empty", "-o", "again"], tmp_path
    )
    assert done.returncode == 3 and "No byte of what was compared differs in 2 runs." in " ".join(
        done.stdout.split()
    )
    assert (
        run_here(
            ["goldwatch", "repeat", "--folders", "empty", *folders, "-o", "none"], tmp_path
        ).returncode
        == 4
    )


def test_a_program_is_repeated_and_its_first_differing_op_named(tmp_path):
    runs(tmp_path, {}, {"b:output:0": 1})
    (tmp_path / "infer.py").write_text(PROGRAM)
    words = ["--dumps", "dump", "-o", "out", "--", sys.executable, "infer.py"]

    def repeat(*options):
        command = [sys.executable, "-m", "goldwatch", "repeat", "2", *options, *words]
        return subprocess.run(
            command,
            cwd=str(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )

    words.append("0")
    done = repeat()
    assert done.returncode == 1, done.stderr
    assert (
        "b (MatMul): differs in 1 of 1 runs, in 1 of equal inputs; 2 different results"
        in done.stdout
    )
    assert (
        "b (MatMul) is the first operator that makes other outputs of equal inputs (step 0 "
        "device 0): in 1 run" in done.stdout
    )
    assert (tmp_path / "out" / "dumps_2" / "20260102030402").is_dir() and (
        tmp_path / "out" / "program_2.log"
    ).is_file()
    done = run_here(["goldwatch", "repeat", "2", *words], tmp_path)
    assert done.returncode == 2 and "holds the dumps of an earlier run" in done.stderr
    words[-1] = "3"
    done = repeat("--force")
    assert done.returncode == 5 and "the program failed with exit code" in done.stderr


@pytest.mark.parametrize(
    "words, code, said",
    [
        ("1 --dumps dump -o out -- true", 2, "expected how often"),
        ("2 -o out -- true", 2, "--dumps is missing"),
        ("2 --dumps dump -o out -- no_such_program", 4, "no_such_program"),
        ("--folders run1 -o out", 2, "two at least"),
        ("--folders run1 gone -o out", 4, "gone"),
        ("--folders run1 run1 --dumps dump -o out", 2, "--dumps is for a program"),
    ],
)
def test_repeat_refuses_what_it_cannot_do(tmp_path, words, code, said):
    runs(tmp_path, {})
    done = run_here(["goldwatch", "repeat", *words.split()], tmp_path)
    assert done.returncode == code and said in done.stderr, done.stderr
