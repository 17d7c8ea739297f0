"""The commands and the code of docs/configuration.md work."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "configuration.md")


def test_commands_and_code(tmp_path):
    with open(DOCS, encoding="utf-8") as stream:
        text = stream.read()
    desc = {"dtype": "DT_FLOAT", "shape": {"dim": [4]}}
    names = ("conv1", "conv2", "pool1")
    ops = []
    for i, name in enumerate(names):
        kind = "Conv2D" if "conv" in name else "Pooling"
        ops.append({"name": name, "type": kind, "id": i, "input": [names[i - 1] + ":0"] if i else [], "output_desc": [desc]})
    (tmp_path / "model.json").write_text(json.dumps({"name": "resnet50", "graph": [{"name": "g", "op": ops}]}))
    commands = re.findall(r"^\$ (.*)$", text, re.M)
    assert len(commands) > 15
    for command in commands:
        words = shlex.split(command)
        if words[0] == "goldwatch":
            words = [sys.executable, "-m"] + words
        process = subprocess.run(words, cwd=str(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.returncode == 0, (command, process.stderr.decode())
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    process = subprocess.run([sys.executable, "-c", code], cwd=str(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.returncode == 0, process.stderr.decode()
    assert b"dump-path" in process.stdout or b"/dump/dump_path" in process.stdout
