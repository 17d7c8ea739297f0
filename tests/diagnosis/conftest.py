"""Small networks, healthy or with a wrong op, written as a device and a framework write them, and
compared by the command.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest
from in_process import run_here

from goldwatch.dumps import write_dump

TIMESTAMP = 1767323045000000


class Scene:
    """Ops in execution order, each with its golden and its device's output.

    ``inputs`` of an op are names of ops, or arrays that the dump holds as the device's inputs.
    """

    def __init__(self, folder):
        self.folder = str(folder)
        self.target, self.golden_dir, self.out = (
            os.path.join(self.folder, name) for name in ("dump", "golden", "out")
        )
        os.makedirs(self.golden_dir)
        self.ops = []
        self.golden = {}
        self.made = {}
        self.files = 0

    def data(self, values, name="data", dumped=True):
        """An input of the network; ``dumped`` writes golden data of it."""
        self.ops.append(
            {"name": name, "type": "Data", "id": len(self.ops), "output_desc": [{"layout": "ND"}]}
        )
        self.golden[name] = values
        self.made[name] = values.astype(np.float16) if values.dtype.kind == "f" else values
        if dumped:
            self.npy(name, values)
        return values

    def op(
        self,
        name,
        op_type,
        inputs,
        golden,
        made=None,
        dtype=np.float16,
        place="",
        with_inputs=True,
        npy=True,
    ):
        """One op; ``made`` is the device's output (the golden's, rounded, where none is given)."""
        made = (golden if made is None else made).astype(
            golden.dtype if golden.dtype.kind in "iub" else dtype
        )
        if not any(op["name"] == name for op in self.ops):
            known = ["%s:0" % source for source in inputs]
            self.ops.append(
                {
                    "name": name,
                    "type": op_type,
                    "id": len(self.ops),
                    "input": known,
                    "output_desc": [{"layout": "ND"}],
                }
            )
        fed = [self.made[source] for source in inputs] if with_inputs else []
        self.write("dump", place, name, op_type, fed, [made])
        self.golden[name], self.made[name] = golden, made
        if npy:
            self.npy(name, golden)
        return golden, made

    def view(self, name, op_type, source, shape):
        """An op without a task, which has golden data and no dump."""
        self.ops.append(
            {
                "name": name,
                "type": op_type,
                "id": len(self.ops),
                "input": ["%s:0" % source],
                "attr": [{"key": "_no_task", "value": {"b": True}}],
            }
        )
        self.golden[name], self.made[name] = (
            side[source].reshape(shape) for side in (self.golden, self.made)
        )
        self.npy(name, self.golden[name])

    def write(self, side, place, name, op_type, inputs, outputs):
        """One dump file."""
        folder = os.path.join(self.folder, side, place)
        os.makedirs(folder, exist_ok=True)
        self.files += 1
        path = os.path.join(
            folder, "%s.%s.%d.0.%d" % (op_type, name, self.files, TIMESTAMP + self.files)
        )
        write_dump(path, inputs, outputs)
        return path

    def npy(self, name, values):
        values = values.astype(np.float32) if values.dtype.kind == "f" else values
        np.save(os.path.join(self.golden_dir, "%s.0.%d.npy" % (name, TIMESTAMP)), values)

    @property
    def model(self):
        path = os.path.join(self.folder, "net.json")
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as stream:
                json.dump({"graph": [{"name": "net", "op": self.ops}]}, stream)
        return path

    def compare(self, *options, model=True, golden=None):
        """Run the command; return (exit code, summary, stdout)."""
        command = [
            sys.executable,
            "-m",
            "goldwatch",
            "compare",
            self.target,
            golden or self.golden_dir,
            "-o",
            self.out,
            "-q",
            "--force",
        ]
        command += ["--jobs", "1", *(["-f", self.model] if model else []), *options]
        done = run_here(command)
        assert "Traceback" not in done.stderr, done.stderr
        with open(os.path.join(self.out, "result.json"), encoding="utf-8") as stream:
            return (
                done.returncode,
                json.load(stream)["summary"],
                " ".join((done.stdout + done.stderr).split()),
            )


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


@pytest.fixture
def random():
    return np.random.RandomState(17)
