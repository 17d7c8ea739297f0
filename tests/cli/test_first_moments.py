"""Ctrl-C while a command's modules are imported."""

from __future__ import annotations

import subprocess
import sys

SWALLOWS = """
import os, signal
from goldwatch.cli.common import leaving_at_once
with leaving_at_once():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        pass
print("goes on")
"""


def test_an_interrupt_that_python_would_drop_ends_the_process():
    """As in a callback of the import system, where Python prints what is raised and goes on."""
    done = subprocess.run([sys.executable, "-c", SWALLOWS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 130 and done.stdout == b"" and done.stderr == b"goldwatch: interrupted\n"


def test_afterwards_ctrl_c_is_as_before():
    code = SWALLOWS.replace("    try:", "    pass\nif True:\n    try:")
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0 and done.stdout == b"goes on\n"
