"""Running the command line in the test's own interpreter, and reading golden folders back."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import jsonschema
import numpy as np
import pytest
from in_process import run_here

from goldwatch.schemas import load_schema


class Done:
    """How a command ended."""

    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout
        self.err = process.stderr

    def json(self):
        return json.loads(self.out)


class Golden:
    """A golden folder, read back by its manifest."""

    def __init__(self, folder):
        self.folder = str(folder)
        with open(os.path.join(self.folder, "manifest.json")) as stream:
            self.manifest = json.load(stream)
        jsonschema.validate(self.manifest, load_schema("manifest"))
        self.tensors = self.manifest["tensors"]

    def all(self, op, index=0):
        """Return every dump of one output, in order of time."""
        entries = [
            e for e in self.tensors if e["original_name"] == op and e["output_index"] == index
        ]
        return [
            np.load(os.path.join(self.folder, e["file"]))
            for e in sorted(entries, key=lambda e: e["timestamp"])
        ]

    def one(self, op, index=0):
        found = self.all(op, index)
        assert len(found) == 1, (op, len(found))
        return found[0]

    @property
    def ops(self):
        return {e["original_name"] for e in self.tensors}

    def reasons(self):
        return {e["tensor"]: e["reason"] for e in self.manifest["skipped"]}


def run_goldwatch(folder, *words, stdin=b"", env=None, timeout=120, python=sys.executable):
    """Run ``goldwatch golden tf …`` in ``folder``: in this process, where no script prints and
    nothing is read.
    """
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", **(env or {}))
    words = ["goldwatch", "golden", "tf", *map(str, words)]
    if python == sys.executable and not stdin and "--" not in words:
        return Done(run_here(words, folder, environment, with_programs=True))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(
        [python, "-m", *words],
        cwd=str(folder),
        input=stdin,
        env=environment,
        timeout=timeout,
        **pipes,
    )
    done.stdout, done.stderr = (
        text.decode("utf-8", "replace") for text in (done.stdout, done.stderr)
    )
    return Done(done)


@pytest.fixture(scope="session")
def run_tf():
    """The function that runs ``goldwatch golden tf …`` in a given folder."""
    return run_goldwatch


@pytest.fixture(scope="session")
def read_golden():
    """The class that reads a golden folder back."""
    return Golden


@pytest.fixture
def tf(tmp_path):
    """Run ``goldwatch golden tf …`` in the test's own folder."""

    def run(*words, folder=None, **options):
        return run_goldwatch(folder or tmp_path, *words, **options)

    return run


@pytest.fixture
def golden(tmp_path):
    """Read a golden folder of the test's own folder."""

    def read(name):
        return Golden(tmp_path / name)

    return read


@pytest.fixture
def script(tmp_path):
    """Write a script and return its name."""

    def write(text, name="script.py"):
        (tmp_path / name).write_text(text)
        return name

    return write
