"""``scripts/fuzz`` finds wrong passes, tracebacks, hangs, filled memory and dead processes; its
cases are repeatable.
"""

from __future__ import annotations

import faulthandler
import os
import pathlib
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest

from goldwatch.dumps.write import TensorData, write_dump

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")


@pytest.fixture
def fuzzing(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    import fuzzing.cases
    import fuzzing.judge
    import fuzzing.loop
    import fuzzing.seeds

    return fuzzing


def test_cases_of_every_kind_pass(tmp_path):
    command = [
        sys.executable,
        os.path.join(SCRIPTS, "fuzz"),
        "--cases",
        "26",
        "--seed",
        "5",
        "--jobs",
        "1",
        "--work",
        str(tmp_path),
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True
    )
    assert done.returncode == 0 and "26 cases, seed 5" in done.stdout, done.stdout


def test_a_seed_gives_the_same_case_again(fuzzing, tmp_path):
    def made(folder):
        found = {}
        for kind in fuzzing.cases.KINDS:
            seen = []
            place = str(tmp_path / folder / kind)
            os.makedirs(place)
            before = os.getcwd()
            os.chdir(place)
            os.mkdir("out")
            with open("out/run.sqlite", "wb") as stream:
                stream.write(bytes(range(256)))
            try:
                fuzzing.cases.KINDS[kind](
                    random.Random("%s-3" % kind),
                    lambda words, seen=seen: (seen.append(words), (1, ""))[1],
                )
            finally:
                os.chdir(before)
            found[kind] = (
                seen,
                {
                    path[len(place) :]: pathlib.Path(path).read_bytes()
                    for path in fuzzing.seeds.files(place)
                },
            )
        return found

    assert made("a") == made("b")


def test_a_case_changes_nothing_for_the_next(fuzzing):
    from fuzzing.mutate import changed

    def made():
        return [
            changed(random.Random(seed), {"a": [[], {}], "b": {"c": [1]}}, most=12)
            for seed in range(500)
        ]

    assert made() == made()


def bad(name):
    def case(rng, command):
        if name == "raises":
            raise ValueError("planted")
        if name == "dies":
            faulthandler.disable()
            os.abort()
        if name == "fills":
            return str(len(np.zeros(8 << 30, dtype=np.uint8)))
        if name == "hangs":
            while True:
                pass
        return "planted words" if name == "wrong" else None

    return case


@pytest.mark.parametrize(
    "name, words",
    [
        ("raises", "ValueError: planted"),
        ("dies", "signal 6"),
        ("fills", "Unable to allocate"),
        ("hangs", "hangs: more than"),
        ("wrong", "planted words"),
    ],
)
def test_a_failing_case_is_reported_and_the_others_go_on(
    fuzzing, tmp_path, monkeypatch, capfd, name, words
):
    monkeypatch.setattr(fuzzing.loop, "CASE_CPU_S", 1)
    third = random.Random("planted-3").random()

    def case(rng, command):
        with open("input", "w") as stream:
            stream.write("kept")
        return bad(name)(rng, command) if rng.random() == third else None

    monkeypatch.setitem(fuzzing.cases.KINDS, "planted", case)
    loop = fuzzing.loop.Loop(["planted"], 0, str(tmp_path), 1)
    loop.run(cases=10)
    assert loop.done == 10 and [(kind, seed) for kind, seed, _ in loop.failures] == [("planted", 3)]
    assert words in loop.failures[0][2] and "--only planted --case 3" in capfd.readouterr().out
    assert (tmp_path / "failures" / "planted-3" / "input").read_text() == "kept"


@pytest.mark.parametrize(
    "target, golden, wrong",
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], None),
        ([1.0, 2.0, 3.0], [1.01, 2.02, 2.97], None),
        ([1.0, 2.0, 3.0], [-1.0, 2.0, -3.0], "relative distance"),
        ([1.0, 2.0, np.nan], [1.0, 2.0, 3.0], "NaN on one side"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], "2 of 3 elements"),
        ([1e300, 2e300], [2e300, -1e300], "relative distance"),
        ([0.0, 0.0], [0.0, 0.0], None),
    ],
)
def test_the_judge_recognises_wrong_distances(fuzzing, target, golden, wrong):
    found = fuzzing.judge.distance_problem(np.array(target), np.array(golden))
    assert (found is None) if wrong is None else wrong in found


def test_the_judge_reads_both_files_independently(fuzzing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The first seed that draws floating-point numbers: an integer that is off by a little is not
    # the judge's business.
    for seed in range(100):
        shutil.rmtree("dump", ignore_errors=True)
        shutil.rmtree("golden", ignore_errors=True)
        fuzzing.seeds.network(random.Random(seed), broken=1)
        if np.load(fuzzing.seeds.files("golden")[0]).dtype.kind == "f":
            break
    judged = []
    for dump, golden in zip(fuzzing.seeds.files("dump"), fuzzing.seeds.files("golden")):
        judged.append(fuzzing.judge.contradiction(dump, "output", 0, golden))
        assert "cannot be read" in fuzzing.judge.contradiction(dump, "output", 7, golden)
        assert "cannot be read" in fuzzing.judge.contradiction(golden, "output", 0, golden)
    assert judged[0] is None and judged[2] is None and judged[1] is not None


def test_the_judge_reads_dumps_without_sizes(fuzzing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = np.arange(6, dtype="<f4")
    np.save("op.npy", array)
    write_dump("Add.op.1.2.3", [TensorData(array, size_bytes=0)], [TensorData(array * 2)])
    assert fuzzing.judge.contradiction("Add.op.1.2.3", "input", 0, "op.npy") is None
    np.testing.assert_array_equal(fuzzing.judge.dump_tensor("Add.op.1.2.3", "output", 0), array * 2)
