"""The benchmarks run, and their plain reference computes the same metrics."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from goldwatch.metrics.compare_blocks import compare_blocks
from goldwatch.metrics.row import METRICS

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")


@pytest.fixture
def benches(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(SCRIPTS, "benches"))


def bench(*arguments):
    command = [sys.executable, os.path.join(SCRIPTS, "bench")] + list(arguments)
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
    )


def test_kernel_prints_its_table():
    done = bench("kernel", "--elements", "65536", "--repeat", "1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("python ") and "the metrics" in lines[1] and "goldwatch" in lines[2]
    assert any(line.startswith("float16 / float32") and "half zero" in line for line in lines)


def test_startup_prints_its_table():
    done = bench("startup", "--repeat", "1")
    assert done.returncode == 0, done.stderr
    assert [line.rsplit(None, 3)[0] for line in done.stdout.splitlines()[1:]] == [
        'python -c "import numpy"',
        "goldwatch --help",
        "compare 2 ops: first row",
        "compare 2 ops: the end",
    ]


def test_merge_of_few_rows_prints_its_table():
    done = bench("merge", "--rows", "3000", "--steps", "3")
    assert done.returncode == 0, done.stderr
    names, numbers = (line.split() for line in done.stdout.splitlines()[-2:])
    found = dict(zip(names, map(float, numbers)))
    assert found["rows"] == 2976 and found["MB"] < 300


def test_an_unknown_name_lists_the_benchmarks():
    done = bench("nothing")
    assert done.returncode == 2 and "kernel" in done.stderr and "network" in done.stderr


def test_the_plain_numpy_reference_computes_the_same_metrics(benches):
    from plain import plain_metrics

    rng = np.random.RandomState(0)
    y = rng.standard_normal(5000).astype(np.float32)
    y[::2] = 0
    x = (y * (1 + 0.1 * rng.standard_normal(5000))).astype(np.float16)
    ours, plain = compare_blocks(lambda: [(x, y)]).values, plain_metrics(x, y)
    for name in METRICS:
        if name == "StandardDeviation":
            got = [
                ours[name][side][part] for side in ("target", "golden") for part in ("mean", "std")
            ]
        elif name in ("AccumulatedRelativeError", "MeanRelativeError"):
            # In float32 abs(x/y - 1) of nearly equal numbers keeps few digits.
            assert plain[name] == pytest.approx(ours[name], rel=1e-3)
            continue
        else:
            got = ours[name]
        assert np.asarray(plain[name], "f8") == pytest.approx(
            np.asarray(got), rel=1e-3, abs=1e-5
        ), name


def test_a_workload_holds_the_tensors_that_were_added(benches, tmp_path):
    import workload
    from plain import read_target

    root = str(tmp_path / "w")
    writer = workload.Writer(root)
    writer.add("a", "Conv2D", [], (2, 20, 5, 3))
    writer.add("b", "Eltwise", ["a", "a"], (2, 20, 5, 3), positive=False)
    writer.finish()
    with open(os.path.join(root, "tensors.json")) as stream:
        tensors = json.load(stream)
    assert [tensor["golden"].split(".")[0] for tensor in tensors] == [
        os.path.join("golden", name) for name in "aaab"
    ]
    for tensor in tensors:
        golden = np.load(os.path.join(root, tensor["golden"]))
        assert read_target(root, tensor) == pytest.approx(golden, rel=1e-2, abs=1e-6)
    for what in ("plain", "floor"):
        command = [sys.executable, os.path.join(SCRIPTS, "benches", "plain.py"), root, what]
        assert json.loads(subprocess.check_output(command).decode())["seconds"] > 0


@pytest.mark.parametrize("name, words, shown", [
    ("compare_op", ("--elements", "20000", "--repeat", "1"), "largest process"),
    ("convert", ("--files", "3", "--elements", "2000", "--repeat", "1"), "original layout"),
    ("inspect", ("--files", "20", "--repeat", "1"), "20 files"),
])  # fmt: skip
def test_benches_of_single_operators_and_files_run(name, words, shown):
    done = bench(name, *words)
    assert done.returncode == 0 and shown in done.stdout, done.stderr
