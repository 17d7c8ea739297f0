from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "coexistence.py")


@pytest.mark.parametrize("implementation", ["default", "python"])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_other_tools_dump_messages_can_be_loaded_in_the_same_process(
    first: str, implementation: str
) -> None:
    environment = dict(os.environ)
    if implementation == "python":
        environment["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
    done = subprocess.run(
        [sys.executable, PROGRAM, first],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        env=environment,
    )
    assert done.returncode == 0, done.stdout
    assert "%s first: ok" % first in done.stdout
