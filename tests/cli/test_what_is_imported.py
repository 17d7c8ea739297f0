"""``compare`` of a small passing network loads what it needs."""

from __future__ import annotations

import os
import subprocess
import sys

from in_process import run_here

LOADED = """
import sys
sys.argv = ["goldwatch", "compare", "dump", "net/golden", "-f", "net/model.json", "-o", "out", "-q"]
from goldwatch.__main__ import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(*[name for name in sys.modules if name.startswith("goldwatch")])
"""
# Entry points of what only failing comparisons and other commands need.
UNWANTED = (
    "goldwatch.adapters.tensorflow",
    "goldwatch.config",
    "goldwatch.judging.diagnosis.explain_suspects",
    "goldwatch.judging.diagnosis.pattern_explanations",
    "goldwatch.kinds",
    "goldwatch.metrics.bitwise",
    "goldwatch.metrics.patterns.full_walk",
    "goldwatch.netfiles",
    "goldwatch.operators.resizing",
    "goldwatch.recomputing.original_cuts",
    "goldwatch.recomputing.variant_search",
    "goldwatch.recomputing.submodel",
)


def test_a_passing_comparison_loads_what_it_needs(tmp_path) -> None:
    testing = [sys.executable, "-m", "goldwatch.testing"]
    assert run_here([*testing, "make", "net", "--ops", 3, "--size", "4K"], tmp_path).returncode == 0
    assert run_here([*testing, "serve", "net", "dump"], tmp_path).returncode == 0
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=str(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.splitlines()[-1].split()
    assert "goldwatch.metrics.compare_pair" in loaded
    assert not [name for name in loaded if name.startswith(UNWANTED)]
    assert len(loaded) <= 200
