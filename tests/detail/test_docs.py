"""The commands of docs/compare-op.md work."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import numpy as np

from goldwatch.comparing.patterns import KINDS

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "compare-op.md")


def test_commands(tmp_path):
    run = [sys.executable, "-m", "goldwatch.testing"]
    subprocess.check_call(run + ["make", ".", "--ops", "3"], cwd=str(tmp_path))
    subprocess.check_call(run + ["serve", ".", "dump"], cwd=str(tmp_path))
    for name in ("target", "golden"):
        np.save(str(tmp_path / (name + ".npy")), np.ones((2, 3), np.float32))
    with open(DOCS, encoding="utf-8") as stream:
        commands = re.findall(r"^\$ goldwatch (.*)$", stream.read(), re.M)
    assert len(commands) == 3
    for command in commands:
        done = subprocess.run([sys.executable, "-m", "goldwatch", *shlex.split(command)], cwd=str(tmp_path), stdout=subprocess.PIPE)
        assert done.returncode == 0 and done.stdout, command
    assert (tmp_path / "detail" / "op_1_output_0_0.csv").exists()


def test_the_kinds_are_those_of_the_page():
    with open(DOCS, encoding="utf-8") as stream:
        text = stream.read()
    assert all("`%s`" % kind in text for kind in KINDS)
