"""The commands and the code of docs/configuration.md work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from in_process import DOCS, run_page


def test_commands_and_code(tmp_path):
    desc = {"dtype": "DT_FLOAT", "shape": {"dim": [4]}}
    names = ("conv1", "conv2", "pool1")
    ops = []
    for i, name in enumerate(names):
        kind = "Conv2D" if "conv" in name else "Pooling"
        ops.append({"name": name, "type": kind, "id": i, "input": [names[i - 1] + ":0"] if i else [], "output_desc": [desc]})
    (tmp_path / "model.json").write_text(json.dumps({"name": "resnet50", "graph": [{"name": "g", "op": ops}]}))
    (tmp_path / "dump").mkdir()
    run_page("configuration.md", tmp_path, 17)
    with open(os.path.join(DOCS, "configuration.md"), encoding="utf-8") as stream:
        (code,) = re.findall(r"```python\n(.*?)```", stream.read(), re.S)
    process = subprocess.run([sys.executable, "-c", code], cwd=str(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.returncode == 0, process.stderr.decode()
    assert b"dump-path" in process.stdout or b"/dump/dump_path" in process.stdout
