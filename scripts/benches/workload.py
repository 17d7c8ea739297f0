"""Workloads for the network benchmark: a dump tree, golden .npy files and the om json, written once
per folder.
"""

from __future__ import annotations

import json
import os

import numpy as np

from goldwatch.dumps.write import TensorData, write_dump

C0 = 16
TREE = os.path.join("dump", "20240102030405", "0", "model", "1", "0")
DONE = "tensors.json"


class Writer:
    """Writes ops one after another; tensors.json tells the plain programs where each tensor
    lies.
    """

    def __init__(self, root, seed=0):
        self.root = root
        self.ops = []
        self.tensors = []
        self.goldens = {}
        self.outputs = {}
        rng = np.random.RandomState(seed)
        self.pool = rng.standard_normal(1 << 22).astype(np.float32)
        self.noise = (1 + 1e-3 * rng.standard_normal(1 << 22)).astype(np.float32)
        os.makedirs(os.path.join(root, TREE), exist_ok=True)
        os.makedirs(os.path.join(root, "golden"), exist_ok=True)

    def add(self, name, kind, sources, shape, positive=True):
        """Write one op: its dump (the sources' outputs as inputs, its own output) and the golden of
        its output.
        """
        number = len(self.ops)
        golden = self._take(self.pool, number * 7919, shape)
        target = golden * self._take(self.noise, number * 104729, shape)
        if positive:
            golden, target = np.maximum(golden, 0), np.maximum(target, 0)
        self.goldens[name] = (
            os.path.join("golden", "%s.0.1700000000%06d.npy" % (name, number)),
            tuple(shape),
        )
        np.save(os.path.join(self.root, self.goldens[name][0]), golden)
        target = target.astype(np.float16)
        output = self._stored(target)
        inputs = [self.outputs[source] for source in sources]
        file = os.path.join(TREE, "%s.%s.%d.0.1700000001%06d" % (kind, name, number, number))
        size = write_dump(os.path.join(self.root, file), inputs, [output], op_name=name)
        self._list(file, size, inputs + [output], list(sources) + [name])
        self.outputs[name] = output
        self.ops.append(self._op(name, kind, sources, output, shape, number))

    @staticmethod
    def _take(pool, start, shape):
        count = int(np.prod(shape))
        start %= pool.size // 2
        return np.resize(pool[start : start + count], shape)

    @staticmethod
    def _stored(array):
        if array.ndim != 4:
            return TensorData(array, format="ND", original_shape=array.shape)
        n, c, h, w = array.shape
        c1 = -(-c // C0)
        padded = np.zeros((n, c1 * C0, h, w), np.float16)
        padded[:, :c] = array
        data = np.ascontiguousarray(padded.reshape(n, c1, C0, h, w).transpose(0, 1, 3, 4, 2))
        return TensorData(data, format="NC1HWC0", original_shape=array.shape)

    def _list(self, file, size, stored, names):
        offset = size - sum(tensor.data.nbytes for tensor in stored)
        for tensor, name in zip(stored, names):
            golden, shape = self.goldens[name]
            entry = {
                "file": file,
                "offset": offset,
                "count": tensor.data.size,
                "shape": tensor.data.shape,
                "format": tensor.format,
            }
            self.tensors.append(dict(entry, golden=golden, golden_shape=shape))
            offset += tensor.data.nbytes

    @staticmethod
    def _op(name, kind, sources, output, shape, number):
        attrs = [
            {"key": "_datadump_origin_name", "value": {"s": name}},
            {"key": "_datadump_origin_output_index", "value": {"i": 0}},
            {"key": "_datadump_origin_format", "value": {"s": "NCHW" if len(shape) == 4 else "ND"}},
            {"key": "origin_format", "value": {"s": "NCHW" if len(shape) == 4 else "ND"}},
            {
                "key": "origin_shape",
                "value": {"list": {"i": list(shape), "val_type": "VT_LIST_INT"}},
            },
        ]
        desc = {
            "dtype": "DT_FLOAT16",
            "layout": output.format,
            "shape": {"dim": list(output.data.shape)},
            "attr": attrs,
        }
        op = {"name": name, "type": kind, "id": number + 1, "output_desc": [desc]}
        op["attr"] = [
            {
                "key": "_datadump_original_op_names",
                "value": {"list": {"s": [name], "val_type": "VT_LIST_STRING"}},
            }
        ]
        if sources:
            op["input"] = ["%s:0" % source for source in sources]
            op["input_desc"] = [{"dtype": "DT_FLOAT16", "layout": output.format} for _ in sources]
        return op

    def forget(self, keep):
        """Let go of outputs that no later op reads."""
        for name in [name for name in self.outputs if name not in keep]:
            del self.outputs[name]

    def finish(self):
        with open(os.path.join(self.root, "model.json"), "w") as stream:
            json.dump({"name": "model", "graph": [{"name": "graph", "op": self.ops}]}, stream)
        with open(os.path.join(self.root, DONE), "w") as stream:
            json.dump(self.tensors, stream)


def resnet(root, batch):
    """69 ops with the shapes of ResNet-50 at 224 x 224; batch 4 makes about 500 MB."""
    writer = Writer(root)
    writer.add("data", "Aipp", [], (batch, 3, 224, 224), positive=False)
    writer.add("conv1", "Conv2D", ["data"], (batch, 64, 112, 112))
    writer.add("pool1", "MaxPool", ["conv1"], (batch, 64, 56, 56))
    last = "pool1"
    for stage, (blocks, width, size) in enumerate(
        ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7)), 2
    ):
        for block in range(blocks):
            last = bottleneck(
                writer,
                "res%d%s" % (stage, "abcdef"[block]),
                last,
                batch,
                width,
                size,
                first=block == 0,
                stage=stage,
            )
    writer.add("pool5", "AvgPool", [last], (batch, 2048, 1, 1))
    writer.add("fc1000", "MatMul", ["pool5"], (batch, 1000), positive=False)
    writer.finish()
    return writer


def bottleneck(writer, name, last, batch, width, size, first, stage):
    entry = size if stage == 2 or not first else size * 2
    writer.add(name + "_2a", "Conv2D", [last], (batch, width, entry, entry))
    writer.add(name + "_2b", "Conv2D", [name + "_2a"], (batch, width, size, size))
    if first:
        writer.add(name + "_1", "Conv2D", [last], (batch, 4 * width, size, size), positive=False)
        # The addition is fused into this convolution.
        writer.add(name, "Conv2D", [name + "_2b", name + "_1"], (batch, 4 * width, size, size))
    else:
        writer.add(
            name + "_2c", "Conv2D", [name + "_2b"], (batch, 4 * width, size, size), positive=False
        )
        writer.add(name, "Eltwise", [name + "_2c", last], (batch, 4 * width, size, size))
    writer.forget({name})
    return name


def huge(root, elements=51200000):
    """One op whose only tensor has 51.2 M elements in NC1HWC0."""
    writer = Writer(root)
    writer.add("huge", "Conv2D", [], (elements // (64 * 128 * 125), 64, 128, 125))
    writer.finish()


def tiny(root, count=4000):
    """Many ops of 16 elements each."""
    writer = Writer(root)
    previous = []
    for number in range(count):
        name = "op%d" % number
        writer.add(name, "Relu", previous, (1, 16))
        previous = [name]
    writer.finish()


def prepare(root, make, *arguments):
    """Write a workload unless the folder already holds it whole."""
    if not os.path.exists(os.path.join(root, DONE)):
        make(root, *arguments)
    return root


def total_bytes(root):
    """Bytes of all dumps and golden files."""
    return sum(
        os.path.getsize(os.path.join(base, name))
        for base, _, names in os.walk(root)
        for name in names
    )
