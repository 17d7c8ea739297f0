"""Every way in which the child process may end: complete files stay, no partial ones do, one
sentence reports it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import jsonschema
import numpy as np
import onnx_models as build
import pytest
from in_process import run_here
from onnx import helper

from goldwatch.base.manifest import read_manifest
from goldwatch.base.safe_reading import sha256_of_file
from goldwatch.schemas import load_schema

node = helper.make_node

# Stands before the real onnxruntime on the child's path, and does what the test wants at one moment
# of its run.
STANDIN = """
import os, signal, sys
here = sys.path.pop(sys.path.index({folder!r}))
del sys.modules["onnxruntime"]
import onnxruntime
real = onnxruntime.InferenceSession.run_with_ort_values
load = onnxruntime.InferenceSession.__init__
def loading(self, data, *more, **others):
    import onnx
    graph = onnx.load_from_string(data).graph
    self.computes = [name for node in graph.node for name in node.output]
    load(self, data, *more, **others)
onnxruntime.InferenceSession.__init__ = loading
runs = []
def run(self, names, feeds, options=None):
    when = os.environ["WHEN"]
    runs.append(names)
    if when.startswith("crash at ") and when[len("crash at "):] in self.computes:
        os.kill(os.getpid(), signal.SIGFPE)
    if when == "segfault" or (when == "second segfault" and len(runs) == 2):
        os.kill(os.getpid(), signal.SIGSEGV)
    if when == "interrupt":
        os.kill(os.getppid(), signal.SIGINT)
        while not options.terminate:
            pass
    if when == "killed while writing":
        from goldwatch.adapters import write_and_hash
        write = write_and_hash.HashingWriter.write
        done = []
        def writing(self, name, header, body):
            if len(done) == 2:
                write_and_hash._write_all = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            done.append(name)
            return write(self, name, header, body)
        write_and_hash.HashingWriter.write = writing
    return real(self, names, feeds, options)
onnxruntime.InferenceSession.run_with_ort_values = run
"""


@pytest.fixture
def command(tmp_path):
    """Run the command in a process of its own, its child with the stand-in."""
    folder = tmp_path / "path"
    (folder / "onnxruntime").mkdir(parents=True)
    (folder / "onnxruntime" / "__init__.py").write_text(STANDIN.format(folder=str(folder)))
    nodes = [node("Abs", ["x"], ["v0"])] + [
        node("Neg", ["v%d" % n], ["v%d" % (n + 1)]) for n in range(5)
    ]
    path = build.save(
        tmp_path / "m.onnx", build.model(nodes, [build.value("x")], [build.value("v5")])
    )

    def run(when, *more):
        environment = dict(os.environ, PYTHONPATH=str(folder), WHEN=when)
        words = [
            sys.executable,
            "-m",
            "goldwatch",
            "golden",
            "onnx",
            "dump",
            path,
            "--random",
            "1",
            "-o",
            str(tmp_path / "golden"),
            *more,
        ]
        done = subprocess.run(
            words,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr
        return done

    return run


def test_a_crashing_kernel_is_reported_and_leaves_no_golden_data(tmp_path, command):
    done = command("segfault")
    assert (
        done.returncode == 4
        and "onnxruntime ended (killed by SIGSEGV)" in done.stderr
        and "some float16 nodes" in done.stderr
    )
    assert not (tmp_path / "golden").exists()
    said = " ".join(done.stderr.split())
    assert (
        "said nothing; it was running all nodes at once (which of them it was at is not known)"
        in said
    )


@pytest.mark.parametrize(
    "value, named", [("v0", "Abs_0 (Abs)"), ("v3", "Neg_3 (Neg)"), ("v5", "Neg_5 (Neg)")]
)
def test_a_crash_names_the_node_that_was_running(tmp_path, command, value, named):
    done = command("crash at " + value)
    said = " ".join(done.stderr.split())
    assert done.returncode == 4
    assert "(killed by SIGFPE): it said nothing; it was running node %s hint:" % named in said
    assert said.endswith("or give its output: --feed %s=FILE" % named.split()[0])
    assert not (tmp_path / "golden").exists()


def test_an_error_of_the_reference_backend_names_its_node(tmp_path):
    nodes = [
        node("Abs", ["x"], ["a"], name="first"),
        node("Reshape", ["a", "shape"], ["y"], name="second"),
    ]
    shape = build.weight("shape", np.array([7]))
    path = build.save(
        tmp_path / "m.onnx",
        build.model(nodes, [build.value("x")], [build.value("y", None)], [shape]),
    )
    words = ["goldwatch", "golden", "onnx", "dump", path, "--random", "1", "-o", "golden"]
    done = run_here([*words, "--backend", "reference"], tmp_path)
    assert done.returncode == 4
    assert done.stderr.startswith("goldwatch: node second (Reshape): onnx's reference"), done.stderr


def test_a_kernel_that_crashes_in_a_later_part_names_that_parts_nodes(tmp_path, command):
    nodes = [
        node("Abs", ["x"], ["a"], name="first"),
        node("Neg", ["a"], ["b"], name="second"),
        node("Exp", ["b"], ["c"], name="third"),
    ]
    build.save(
        tmp_path / "m.onnx",
        build.model(nodes, [build.value("x", (300, 1000))], [build.value("c", (300, 1000))]),
    )
    done = command("second segfault", "--memory", "1")
    said = " ".join(done.stderr.split())
    assert (
        done.returncode == 4 and "it was running the nodes up to second:0, part 2 of 3" in said
    ), said


def test_a_child_killed_while_it_writes_leaves_only_whole_files(tmp_path, command):
    done = command("killed while writing")
    assert (
        done.returncode == 4
        and "2 golden files in %s are whole, the rest is missing" % (tmp_path / "golden")
        in done.stderr
    )
    names = sorted(os.listdir(str(tmp_path / "golden")))
    assert [name.split(".")[0] for name in names] == ["Abs_0", "inputs", "manifest", "x"]
    assert np.array_equal(
        np.load(str(tmp_path / "golden" / names[0])),
        np.abs(np.load(str(tmp_path / "golden" / names[3]))),
    )
    manifest = read_manifest(str(tmp_path / "golden"))
    jsonschema.validate(manifest, load_schema("manifest"))
    assert not manifest["complete"] and manifest["source"]["model"] == sha256_of_file(
        str(tmp_path / "m.onnx")
    )
    whole = command("")
    assert whole.returncode == 2 and "already holds golden files" in whole.stderr
    assert command("", "--force").returncode == 0
    expected = read_manifest(str(tmp_path / "golden"))
    drop = ("file", "timestamp")
    ours, theirs = (
        [{k: v for k, v in each.items() if k not in drop} for each in m["tensors"][:2]]
        for m in (manifest, expected)
    )
    assert ours == theirs and len(manifest["tensors"]) == 2 and expected["complete"]
    rest = [
        {k: v for k, v in m.items() if k not in ("tensors", "complete", "seconds")}
        for m in (manifest, expected)
    ]
    assert rest[0] == rest[1]


def test_a_killed_childs_random_values_are_still_marked_random(tmp_path, command):
    nodes = [
        node("RandomUniformLike", ["x"], ["v0"]),
        node("Abs", ["x"], ["v1"]),
        node("Add", ["v0", "v1"], ["v2"]),
    ]
    build.save(tmp_path / "m.onnx", build.model(nodes, [build.value("x")], [build.value("v2")]))
    assert command("killed while writing").returncode == 4
    found = {
        entry["op"]: entry.get("nondeterministic")
        for entry in read_manifest(str(tmp_path / "golden"))["tensors"]
    }
    assert found == {"x": None, "RandomUniformLike_0": True}


def test_ctrl_c_while_the_model_runs_saves_nothing(tmp_path, command):
    done = command("interrupt")
    assert done.returncode == 130 and "interrupted; nothing was saved" in done.stderr
    assert not (tmp_path / "golden").exists() and signal.SIGINT


def test_a_python_without_numpy_is_named_with_what_to_install(tmp_path, command):
    (tmp_path / "path" / "numpy.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')\n"
    )
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\nPYTHONPATH=$PYTHONPATH:%s exec %s "$@"\n' % (tmp_path / "path", sys.executable)
    )
    python.chmod(0o755)
    words = [
        "goldwatch",
        "golden",
        "onnx",
        "dump",
        tmp_path / "m.onnx",
        "--random",
        "1",
        "-o",
        "golden",
        "--python",
        python,
    ]
    done = run_here(words, tmp_path)
    assert (
        done.returncode != 0
        and "cannot import numpy\n  hint: install numpy" in done.stderr
        and "--python PATH" in done.stderr
    )
