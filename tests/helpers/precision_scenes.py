"""A network on a device that computes in float16, compared with its golden data."""

from __future__ import annotations

import os

import numpy as np
import onnx_models as build
from in_process import run_here
from onnx import helper
from onnx_device import on_device, write_model

from goldwatch.device.cure.run import cure
from goldwatch.testing.device_dump import write_files

node = helper.make_node
ATC = "atc --framework=5 --model=net.onnx --output=net --soc_version=Ascend310P3"


def network(inner):
    """Two layers and between them what a test wants: a function of the first layer's name that
    returns nodes, weights and its output.
    """
    random = np.random.RandomState(3)
    weights = {
        "w1": random.standard_normal((32, 48)) / 6,
        "w2": random.standard_normal((48, 24)) / 7,
    }
    nodes, more, last = inner("r1")
    weights.update(more)
    before = [
        node("MatMul", ["x", "w1"], ["m1"], name="fc1"),
        node("Relu", ["m1"], ["r1"], name="relu1"),
    ]
    behind = [
        node("MatMul", [last, "w2"], ["m2"], name="fc2"),
        node("Sigmoid", ["m2"], ["y"], name="prob"),
    ]
    initializers = [
        build.weight(name, np.asarray(array, np.float32)) for name, array in weights.items()
    ]
    return build.model(
        [*before, *nodes, *behind],
        [build.value("x", (8, 32))],
        [build.value("y", (8, 24))],
        initializers,
    )


def overflow(value):
    """A factor, and its inverse two operators later."""
    nodes = [
        node("Mul", [value, "factor"], ["large"], name="large"),
        node("Neg", ["large"], ["turned"], name="turned"),
        node("Mul", ["turned", "inverse"], ["small"], name="small"),
    ]
    return nodes, {"factor": 3e4, "inverse": -1 / 3e4}, "small"


def cancelling(value):
    """A number added and taken off again."""
    nodes = [
        node("Add", [value, "number"], ["added"], name="added"),
        node("Sub", ["added", "number"], ["less"], name="less"),
    ]
    return nodes, {"number": 512.0}, "less"


def vanishing(value):
    """The root of squares below the least step of float16."""
    nodes = [
        node("Mul", [value, "small"], ["tiny"], name="tiny"),
        node("Mul", ["tiny", "tiny"], ["square"], name="square"),
        node("Sqrt", ["square"], ["root"], name="root"),
        node("Mul", ["root", "large"], ["back"], name="back"),
    ]
    return nodes, {"small": 5e-5, "large": 2e4}, "back"


def masked(value):
    """Scores of which a row is masked throughout by the lowest float32."""
    mask = np.zeros((8, 48), np.float32)
    mask[2], mask[5, 7:] = np.finfo(np.float32).min, np.finfo(np.float32).min
    nodes = [
        node("Add", [value, "mask"], ["scores"], name="add"),
        node("Softmax", ["scores"], ["shares"], name="softmax", axis=-1),
    ]
    return nodes, {"mask": mask}, "shares"


def plain(value):
    return [node("Tanh", [value], ["t"], name="curve")], {}, "t"


class Scene:
    """A network in a folder."""

    def __init__(self, folder, inner, fault=None):
        self.folder, self.fault = folder, fault
        self.model = build.save(folder / "net.onnx", network(inner))
        self.feeds = {"x": np.random.RandomState(1).standard_normal((8, 32)).astype(np.float32)}
        np.save(str(folder / "x.npy"), self.feeds["x"])
        done = run_here(
            ["goldwatch", "golden", "onnx", "dump", "net.onnx", "-i", "x=x.npy", "-o", "golden"],
            folder,
        )
        assert done.returncode == 0, done.stderr

    def compare(self, out, kept=(), command=ATC, shortened=(), options=()):
        """Dump a run with some nodes in float32, and compare it into the folder ``out``; return the
        om's json.
        """
        made = on_device(self.model, self.feeds, fault=self.fault, kept=kept, shortened=shortened)
        write_files(str(self.folder / (out + "_dump")), made.dumps())
        om = str(self.folder / (out + ".json"))
        write_model(made, om, command)
        done = run_here(
            ["goldwatch", "compare", out + "_dump", "golden", "-f", om, "-o", out, *options],
            self.folder,
        )
        assert done.returncode in (0, 1), done.stderr
        return om

    def path(self, *names):
        return os.path.join(str(self.folder), *names)

    def cure(self, out="before", into="cure", **options):
        return cure(self.path(out), self.path(out + ".json"), self.path(into), **options)
