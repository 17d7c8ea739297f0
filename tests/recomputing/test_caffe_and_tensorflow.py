"""Recomputing a ResNet block of Caffe and of TensorFlow, with weights from the files that manifest
and graph name.
"""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from caffe_as_tf import AsTensorflow
from in_process import run_here
from replay_device import DATA
from scene_networks import explanation_kinds, only_suspect

from goldwatch.netfiles.caffemodel import read_weights
from goldwatch.testing import CaffeNetwork
from goldwatch.testing.device_dump import write_files


class Block:
    """The network in a folder of its own; ``renamed`` makes the device's model of another framework
    of it.
    """

    def __init__(self, folder):
        self.folder = str(folder)
        for name in ("resblock.prototxt", "resblock.caffemodel"):
            shutil.copy(os.path.join(DATA, name), self.folder)
        self.prototxt = os.path.join(self.folder, "resblock.prototxt")
        self.weights = read_weights(os.path.join(self.folder, "resblock.caffemodel"))
        self.data = np.load(os.path.join(DATA, "input_data.npy"))
        self.renamed = lambda model: model

    def dump(self, faults=None, mode="all", data=None):
        network = CaffeNetwork(
            self.prototxt, self.weights, {"data": self.data if data is None else data}, "resblock"
        )
        model = self.renamed(network.with_op_faults(faults or {}).model())
        model.write_json(os.path.join(self.folder, "net.json"))
        shutil.rmtree(os.path.join(self.folder, "dump"), ignore_errors=True)
        write_files(os.path.join(self.folder, "dump"), [dump.only(mode) for dump in model.dumps()])

    def run(self, *words):
        done = run_here(["goldwatch", *words], self.folder)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def compare(self, *options):
        done = self.run(
            "compare",
            "dump",
            "golden",
            "-f",
            "net.json",
            "-o",
            "out",
            "--force",
            "--jobs",
            "1",
            *options,
        )
        with open(os.path.join(self.folder, "out", "result.json"), encoding="utf-8") as stream:
            return (
                done.returncode,
                json.load(stream)["summary"],
                " ".join((done.stdout + done.stderr).split()),
            )


@pytest.fixture
def caffe(tmp_path):
    block = Block(tmp_path)
    np.save(str(tmp_path / "data.npy"), block.data)
    words = [
        "golden",
        "caffe",
        "dump",
        "resblock.prototxt",
        "resblock.caffemodel",
        "--backend",
        "numpy",
        "--input",
        "data=data.npy",
    ]
    done = block.run(*words, "-o", "golden")
    assert done.returncode == 0, done.stderr
    return block


@pytest.fixture
def frozen(caffe):
    """Golden data of the graph are those of the net, in NHWC and by the nodes' names, without a
    manifest.
    """
    graph = AsTensorflow(caffe.prototxt, caffe.weights, {"data": caffe.data.shape})
    with open(os.path.join(caffe.folder, "net.pb"), "wb") as stream:
        stream.write(graph.graph)
    with open(os.path.join(caffe.folder, "golden", "manifest.json"), encoding="utf-8") as stream:
        entries = json.load(stream)["tensors"]
    os.rename(os.path.join(caffe.folder, "golden"), os.path.join(caffe.folder, "as-caffe"))
    os.makedirs(os.path.join(caffe.folder, "golden"))
    for entry in entries:
        values = np.load(os.path.join(caffe.folder, "as-caffe", entry["file"]))
        values = np.ascontiguousarray(values.transpose(0, 2, 3, 1)) if values.ndim == 4 else values
        name = graph.nodes.get(entry["original_name"], (entry["original_name"],))[-1].replace(
            "/", "_"
        )
        np.save(
            os.path.join(
                caffe.folder, "golden", "%s.%d.1767323045000000.npy" % (name, entry["output_index"])
            ),
            values,
        )
    for name in ("resblock.prototxt", "resblock.caffemodel"):
        os.rename(os.path.join(caffe.folder, name), os.path.join(caffe.folder, "as-caffe", name))
    caffe.prototxt = os.path.join(caffe.folder, "as-caffe", "resblock.prototxt")
    caffe.renamed = graph.renamed
    return caffe


@pytest.fixture(params=["caffe", "frozen"])
def block(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("mode", ["all", "output"])
def test_a_healthy_caffe_or_tensorflow_run_has_no_wrong_operator(block, mode):
    block.dump(mode=mode)
    code, summary, _ = block.compare("--recompute", "all")
    found = summary["recomputed"]
    assert (code, found["wrong"], summary["suspects"]) == (0, 0, []), found
    assert found["right"] >= 10 and found["model"].endswith((".prototxt", ".pb"))
    assert found["not_computed"] == []


@pytest.mark.parametrize(
    "op, fault",
    [("res2a_branch1", "scale:1.01"), ("fc", "scale:1.01"), ("res2ares2a_relu", "scale:1.01")],
)
def test_an_operator_that_passes_but_is_wrong_is_the_suspect(block, op, fault):
    block.dump({op: fault})
    code, summary, _ = block.compare()
    suspect = only_suspect(summary)
    assert (code, suspect["op"], explanation_kinds(suspect)[0]) == (0, op, "scale")


@pytest.mark.parametrize("mode", ["all", "output"])
def test_other_input_data_accuses_no_operator(block, mode):
    block.dump(
        mode=mode,
        data=np.random.RandomState(2).standard_normal(block.data.shape).astype(np.float32),
    )
    code, summary, text = block.compare()
    assert (code, explanation_kinds(only_suspect(summary))) == (
        1,
        ["other-input"],
    ) and "no operator need be wrong" in text


def test_weights_are_read_from_the_file_that_the_manifest_names(caffe):
    caffe.dump()
    os.rename(
        os.path.join(caffe.folder, "resblock.caffemodel"),
        os.path.join(caffe.folder, "moved.caffemodel"),
    )
    code, summary, _ = caffe.compare("--recompute", "all")
    missing = {entry["op"]: entry["reason"] for entry in summary["recomputed"]["not_computed"]}
    assert code == 0 and any("weights of layer" in reason for reason in missing.values())
    os.rename(
        os.path.join(caffe.folder, "moved.caffemodel"),
        os.path.join(caffe.folder, "resblock.caffemodel"),
    )
    assert caffe.compare("--recompute", "all")[1]["recomputed"]["not_computed"] == []
