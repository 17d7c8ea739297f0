"""A short run of the fuzzer; scripts/fuzz_service does the long ones."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "fuzz_service"
)


def test_nonsensical_requests_crash_no_route():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--requests", "400", "--seed", "3"],
        stdout=subprocess.PIPE,
        universal_newlines=True,
    )
    assert done.returncode == 0, done.stdout
    assert "400 requests" in done.stdout and "× 404" in done.stdout
