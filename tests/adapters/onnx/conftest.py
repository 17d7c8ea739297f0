"""What the tests of ONNX golden data share: the command, run here."""

from __future__ import annotations

import pytest
from in_process import run_here
from onnx_golden import Golden


@pytest.fixture
def golden(tmp_path):
    """Make golden data of a model: the folder as :class:`Golden`."""

    def make(path, *words, out="golden"):
        done = run_here(
            ["goldwatch", "golden", "onnx", "dump", path, "-o", tmp_path / out, *words], tmp_path
        )
        assert done.returncode == 0, done.stderr
        return Golden(tmp_path / out)

    return make


@pytest.fixture
def refused(tmp_path):
    """Run the command on something that it refuses, and return what it says; no file is left."""

    def run(path, *words, code=4):
        done = run_here(
            ["goldwatch", "golden", "onnx", "dump", path, "-o", tmp_path / "golden", *words],
            tmp_path,
        )
        assert done.returncode == code, done.stderr
        assert done.stdout == "" and "Traceback" not in done.stderr
        assert not (tmp_path / "golden").exists()
        message = done.stderr.strip().split("\n  hint: ")
        assert "\n" not in message[0] and len(message) <= 2, done.stderr
        return done.stderr

    return run


@pytest.fixture
def run(tmp_path):
    """Run the command in the test's folder, and return how it ended."""
    return lambda path, *words: run_here(
        ["goldwatch", "golden", "onnx", "dump", path, *words], tmp_path
    )
