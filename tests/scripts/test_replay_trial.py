"""``scripts/replay_trial``, short: planted faults are named, healthy networks have no culprit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "scripts", "replay_trial")


FORMS = ["caffe", "onnx", pytest.param("tf", marks=pytest.mark.tensorflow)]


@pytest.mark.parametrize("form", FORMS)
def test_replay_names_faults_and_no_culprit_in_healthy_runs(form):
    words = [
        "--faults",
        "1",
        "--healthy",
        "2",
        "--nets",
        "inception",
        "--seed",
        "5",
        "--misses",
        "--form",
        form,
    ]
    result = subprocess.run(
        [sys.executable, SCRIPT, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "healthy runs with a culprit: 0 of 2" in result.stdout
    assert "| **all** | **11** | **11 (100.0 %)** | **11** | 0 |" in result.stdout
