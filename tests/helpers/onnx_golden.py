"""ONNX golden data read back, and the values that onnxruntime computes."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime

VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])


class Golden:
    """A golden folder: its manifest, and its arrays by (original name, output index)."""

    def __init__(self, folder):
        self.manifest = json.loads((folder / "manifest.json").read_text())
        assert self.manifest["complete"] is True
        self.entries = {
            (entry["original_name"], entry["output_index"]): entry
            for entry in self.manifest["tensors"]
        }
        self.arrays = {
            key: np.load(str(folder / entry["file"])) for key, entry in self.entries.items()
        }
        for key, array in self.arrays.items():
            assert (str(array.dtype), list(array.shape)) == (
                self.entries[key]["dtype"],
                self.entries[key]["shape"],
            )
        self.skipped = {entry["tensor"]: entry["reason"] for entry in self.manifest["skipped"]}

    def __getitem__(self, key):
        return self.arrays[key if isinstance(key, tuple) else (key, 0)]

    @property
    def names(self):
        """``name:index`` of every file, in the manifest's order."""
        return ["%s:%d" % key for key in self.entries]


def run_unoptimised(proto, feeds, names=None):
    """What onnxruntime itself computes of a model, optimisation off, one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = names or [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))
