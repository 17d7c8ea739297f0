"""A folder with a stand-in host and small models, where ``goldwatch locate`` is run as by a
user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
from in_process import run_here

from goldwatch.testing.host import make_host
from goldwatch.testing.host.host_config import HostConfig

FAULT = "op:second=scale:1.05"


def small(path, batch=2, scale=1.0):
    """Two products with a Relu between: ``first``, ``relu``, ``second``, of which the output is the
    network's.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    state = np.random.RandomState(0)

    def weights(name, *shape):
        return numpy_helper.from_array(
            (state.standard_normal(shape) * scale / np.sqrt(shape[0])).astype(np.float32), name
        )

    nodes = [
        helper.make_node("MatMul", ["x", "first_weights"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MatMul", ["b", "second_weights"], ["y"], name="second"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (batch, size))
        for name, size in (("x", 32), ("y", 16))
    )
    graph = helper.make_graph(
        nodes,
        "net",
        [x],
        [y],
        [weights("first_weights", 32, 64), weights("second_weights", 64, 16)],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
        str(path),
    )


def prepared(folder, template):
    """Return a folder with the template's model and om, on a host whose device computes ``second``
    wrong.
    """
    for name in ("model.onnx", "model.om"):
        shutil.copy(str(template / name), str(folder / name))
    place = Place(folder)
    place.host(FAULT)
    return place


class Place:
    """A folder with a host, a model and its om; calls goldwatch there as a user of that host
    does.
    """

    def __init__(self, folder) -> None:
        self.folder = folder
        self.environ = dict(os.environ, COLUMNS="200", OPENBLAS_NUM_THREADS="1")
        self.environ.pop("PYTHONPATH", None)

    def host(self, *faults, **more) -> None:
        """Make the host, or give it other faults."""
        host = make_host(str(self.folder / "npu"), HostConfig(faults=faults, **more))
        self.environ.update(
            ASCEND_TOOLKIT_HOME=host.folder,
            PATH=os.pathsep.join(
                [
                    os.path.join(host.folder, "bin"),
                    os.path.dirname(sys.executable),
                    "/usr/bin",
                    "/bin",
                ]
            ),
            PYTHONPATH=os.path.join(host.folder, "python"),
        )

    def atc(self, model, om, *more) -> None:
        words = [
            "atc",
            "--framework=5",
            "--model=" + model,
            "--output=" + om[:-3],
            "--soc_version=Ascend310P3",
            *more,
        ]
        done = subprocess.run(
            words, cwd=str(self.folder), env=self.environ, stdout=subprocess.PIPE, check=False
        )
        assert done.returncode == 0, done.stdout

    def start(self, *words, **more):
        command = [sys.executable, "-m", "goldwatch", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "universal_newlines": True}
        return subprocess.Popen(command, cwd=str(self.folder), env=self.environ, **pipes, **more)

    def locate(self, *words):
        """Run ``goldwatch locate`` in this process, which saves half of its time; what was written
        comes back as from subprocess.run.
        """
        return run_here(
            ["goldwatch", "locate", *words], self.folder, self.environ, with_programs=True
        )

    def locate_as_user(self, *words):
        """Run the same in a process, as a user's shell does."""
        process = self.start("locate", *words)
        out, err = process.communicate(timeout=300)
        assert "this is a fault of goldwatch" not in out + err, err
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def commands(self, done, of="$ "):
        """The commands that were done (``$ ``), or had been done before (``done: ``)."""
        return [
            line[len(of) :]
            for line in done.stderr.replace("\\\n", "").splitlines()
            if line.startswith(of)
        ]
