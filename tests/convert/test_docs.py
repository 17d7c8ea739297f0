"""The commands of docs/convert.md work."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "convert.md")


def test_commands(tmp_path):
    run = [sys.executable, "-m", "goldwatch.testing"]
    subprocess.check_call(run + ["make", ".", "--ops", "3"], cwd=str(tmp_path))
    subprocess.check_call(run + ["serve", ".", "dump"], cwd=str(tmp_path))
    with open(DOCS, encoding="utf-8") as stream:
        commands = re.findall(r"^\$ goldwatch (.*)$", stream.read(), re.M)
    assert len(commands) == 5
    for command in commands:
        done = subprocess.run([sys.executable, "-m", "goldwatch", *shlex.split(command)], cwd=str(tmp_path))
        assert done.returncode == 0, command
