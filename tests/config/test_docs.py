"""The code of docs/configuration.md works."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from pages import blocks_of


def test_the_code_of_the_configuration_page_runs(tmp_path):
    (tmp_path / "model.json").write_text(
        json.dumps({"name": "resnet50", "graph": [{"name": "g", "op": []}]})
    )
    os.mkdir(str(tmp_path / "dump"))
    ((_, _, lines),) = blocks_of("docs/configuration.md", "python")
    process = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=str(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.returncode == 0, process.stderr.decode()
    assert b"dump-path" in process.stdout or b"/dump/dump_path" in process.stdout
