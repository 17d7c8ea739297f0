"""The scripts in findings/: those that the documentation counts on are there, and each runs without
goldwatch.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

FINDINGS = Path(__file__).resolve().parents[2] / "findings"
SCRIPTS = sorted(FINDINGS.iterdir()) if FINDINGS.is_dir() else []


@pytest.mark.parametrize(
    "tool", ["onnx_version_converter", "onnxoptimizer", "onnxconverter_float16"]
)
def test_what_the_page_of_onnx_names_is_a_script(tool):
    page = (FINDINGS.parent / "docs" / "onnx.md").read_text(encoding="utf-8")
    assert tool.split("_", 1)[0] in page
    assert [script for script in SCRIPTS if script.name.startswith(tool)]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_finding_is_a_script_that_runs_without_goldwatch(script):
    text = script.read_text(encoding="utf-8")
    assert script.suffix == ".sh" and os.access(str(script), os.X_OK)
    assert subprocess.run(["sh", "-n", str(script)]).returncode == 0
    assert "goldwatch" not in text and "mktemp -d" in text
