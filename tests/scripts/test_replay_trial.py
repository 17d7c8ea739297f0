"""``scripts/replay_trial``, short: planted faults are named, healthy networks have no culprit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "scripts", "replay_trial")


# A fault is the device's, whatever the framework; tests/replay/test_tensorflow.py names it in each
# op.
FORMS = [("caffe", 11), ("onnx", 11), pytest.param("tf", 0, marks=pytest.mark.tensorflow)]


@pytest.mark.parametrize(("form", "faults"), FORMS)
def test_replay_names_faults_and_no_culprit_in_healthy_runs(form, faults):
    words = [
        "--faults",
        "1" if faults else "0",
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
    named = (faults, faults, 100.0 if faults else 0.0, faults)
    assert "| **all** | **%d** | **%d (%.1f %%)** | **%d** | 0 |" % named in result.stdout
