"""``scripts/frozen_results``: the same goldwatch gives the frozen results; differences are
named.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
from in_process import run_here

SCRIPT = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "scripts", "frozen_results")
COMPARE = "goldwatch compare dump golden -f model.json -o out --jobs 1".split()
WATCH = "goldwatch watch dump golden -f model.json -o out --jobs 1".split()


def frozen(command, folder):
    words = [sys.executable, SCRIPT, command, str(folder), "--python", sys.executable, "-j", "1"]
    return subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
    )


def make(folder):
    inputs = folder / "inputs" / "net"
    inputs.mkdir(parents=True)
    for words in (["make", ".", "--ops", "3"], ["serve", ".", "dump"], ["serve", ".", "there"]):
        made = run_here([sys.executable, "-m", "goldwatch.testing", *words], inputs)
        assert made.returncode == 0, made.stderr
    watch = {"run": WATCH, "files": "inputs/net", "arrive": "there", "into": "live", "seed": 1}
    watch["run"] = ["live" if word == "dump" else word for word in WATCH]
    cases = [
        {"name": "compared", "steps": [{"run": COMPARE, "files": "inputs/net"}, {"run": COMPARE}]},
        {"name": "watched/killed", "steps": [dict(watch, kill=True)]},
    ]
    (folder / "cases.json").write_text(json.dumps(cases))
    return inputs


def test_a_changed_number_is_named_with_case_file_and_lines(tmp_path):
    inputs = make(tmp_path)
    done = frozen("freeze", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    done = frozen("check", tmp_path)
    assert done.stdout.endswith("0 cases differ\n") and done.returncode == 0, done.stdout
    (name,) = [path for path in os.listdir(str(inputs / "golden")) if path.startswith("op_1.")]
    golden = str(inputs / "golden" / name)
    np.save(golden, np.load(golden) * np.float32(1.5))
    done = frozen("check", tmp_path)
    assert done.returncode == 1 and "2 cases differ" in done.stdout
    assert "== compared" in done.stdout and "== watched/killed" in done.stdout
    assert "00/files/out/result.json:" in done.stdout
    assert "\n   -0\n   +1\n" in done.stdout


def test_folders_whose_commands_are_recorded_exist():
    loader = importlib.machinery.SourceFileLoader("frozen_results", SCRIPT)
    spec = importlib.util.spec_from_loader("frozen_results", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    folders = [name for names in module.RECORDED for name in names]
    tests = os.path.join(module.CHECKOUT, "tests")
    assert [name for name in folders if not os.path.isdir(os.path.join(tests, name))] == []
