"""The commands of docs/migrating.md work."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "docs", "migrating.md")


def test_commands(tmp_path):
    run = [sys.executable, "-m", "goldwatch.testing"]
    subprocess.check_call(run + ["make", ".", "--ops", "3"], cwd=str(tmp_path))
    subprocess.check_call(run + ["serve", ".", "dump"], cwd=str(tmp_path))
    subprocess.check_call(run + ["train", "training", "--steps", "9,10"], cwd=str(tmp_path))
    for name in ("target", "golden"):
        np.save(str(tmp_path / (name + ".npy")), np.ones((2, 3), np.float32))
    shutil.copy(os.path.join(HERE, "..", "data", "caffe", "resblock", "resblock.prototxt"), str(tmp_path / "net.prototxt"))
    with open(DOCS, encoding="utf-8") as stream:
        commands = re.findall(r"^\$ goldwatch (.*)$", stream.read(), re.M)
    assert len(commands) == 13
    for command in commands:
        words = [sys.executable, "-m", "goldwatch", *shlex.split(command)]
        done = subprocess.run(words, cwd=str(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.returncode == 0, (command, done.stderr)
    assert len(os.listdir(str(tmp_path / "files"))) == 5
