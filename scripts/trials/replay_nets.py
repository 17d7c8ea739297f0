"""Small networks with random weights for scripts/replay_trial: a LeNet, two inception modules, and
the ResNet block of the tests.

They are Caffe nets; an ONNX model or a TensorFlow graph is made of each, with the same weights.
"""

import os
import sys

import numpy as np

from goldwatch.base.protowire import field, varint
from goldwatch.netfiles.caffemodel import read_weights
from goldwatch.testing import CaffeNetwork

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests")
sys.path.append(os.path.join(TESTS, "helpers"))

RESBLOCK = os.path.join(TESTS, "data", "caffe", "resblock")


class _Builder:
    """Writes the prototxt and the weights side by side."""

    def __init__(self, name, shape):
        self.name, self.shape = name, shape
        dims = " ".join("dim: %d" % dim for dim in shape)
        self.lines = [
            'name: "%s"' % name,
            'layer { name: "data" type: "Input" top: "data" input_param { shape { %s } } }' % dims,
        ]
        self.weights = b""
        self.random = np.random.RandomState(0)

    def layer(self, name, kind, bottoms, param="", top=None, arrays=()):
        reads = " ".join('bottom: "%s"' % bottom for bottom in bottoms)
        self.lines.append(
            'layer { name: "%s" type: "%s" %s top: "%s" %s }'
            % (name, kind, reads, top or name, param)
        )
        blobs = b"".join(
            field(
                7,
                field(7, field(1, b"".join(map(varint, a.shape))))
                + field(5, a.astype("<f4").tobytes()),
            )
            for a in arrays
        )
        if arrays:
            self.weights += field(100, field(1, name.encode()) + blobs)
        return name

    def conv(self, name, bottom, n_in, n_out, kernel, pad=0, norm=False):
        filters = self.random.standard_normal((n_out, n_in, kernel, kernel)) * np.sqrt(
            2.0 / (n_in * kernel * kernel)
        )
        param = "convolution_param { num_output: %d kernel_size: %d pad: %d }" % (
            n_out,
            kernel,
            pad,
        )
        self.layer(
            name,
            "Convolution",
            [bottom],
            param,
            arrays=[filters, self.random.standard_normal(n_out) * 0.3],
        )
        if norm:
            mean, variance = (
                self.random.standard_normal(n_out) * 0.2,
                self.random.uniform(0.5, 2.0, n_out),
            )
            arrays = [mean, variance, np.ones(1)]
            self.layer(
                name + "/bn",
                "BatchNorm",
                [name],
                "batch_norm_param { use_global_stats: true }",
                name,
                arrays,
            )
            arrays = [
                self.random.uniform(0.5, 1.5, n_out),
                self.random.standard_normal(n_out) * 0.2,
            ]
            self.layer(
                name + "/scale", "Scale", [name], "scale_param { bias_term: true }", name, arrays
            )
        return self.layer(name + "/relu", "ReLU", [name], top=name) and name

    def pool(self, name, bottom, kernel, stride, pad=0, kind="MAX"):
        param = "pooling_param { pool: %s kernel_size: %d stride: %d pad: %d }" % (
            kind,
            kernel,
            stride,
            pad,
        )
        return self.layer(name, "Pooling", [bottom], param)

    def dense(self, name, bottom, n_in, n_out, relu=False):
        arrays = [
            self.random.standard_normal((n_out, n_in)) / np.sqrt(n_in),
            self.random.standard_normal(n_out) * 0.3,
        ]
        self.layer(
            name,
            "InnerProduct",
            [bottom],
            "inner_product_param { num_output: %d }" % n_out,
            arrays=arrays,
        )
        return self.layer(name + "_relu", "ReLU", [name], top=name) and name if relu else name

    def write(self, folder):
        paths = [
            os.path.join(folder, self.name + ending) for ending in (".prototxt", ".caffemodel")
        ]
        for path, data in zip(paths, ("\n".join(self.lines).encode() + b"\n", self.weights)):
            with open(path, "wb") as stream:
                stream.write(data)
        return paths[0], paths[1], self.shape


def lenet(folder):
    net = _Builder("lenet", (2, 1, 28, 28))
    blob = net.pool("pool1", net.conv("conv1", "data", 1, 20, 5), 2, 2)
    blob = net.pool("pool2", net.conv("conv2", blob, 20, 50, 5), 2, 2)
    net.layer(
        "prob", "Softmax", [net.dense("ip2", net.dense("ip1", blob, 800, 120, relu=True), 120, 10)]
    )
    return net.write(folder)


def inception(folder):
    net = _Builder("inception", (1, 3, 32, 32))
    blob = net.pool("pool1", net.conv("conv1", "data", 3, 24, 3, 1, norm=True), 3, 2)
    blob, channels = (
        net.layer("norm1", "LRN", [blob], "lrn_param { local_size: 5 alpha: 0.0001 }"),
        24,
    )
    for name, wide in (("a", 16), ("b", 32)):
        parts = [
            net.conv(name + "/1x1", blob, channels, wide, 1),
            net.conv(
                name + "/3x3",
                net.conv(name + "/3x3r", blob, channels, wide, 1, norm=True),
                wide,
                wide,
                3,
                1,
                norm=True,
            ),
            net.conv(
                name + "/5x5", net.conv(name + "/5x5r", blob, channels, 16, 1), 16, wide, 5, 2
            ),
            net.conv(name + "/proj", net.pool(name + "/pool", blob, 3, 1, 1), channels, wide, 1),
        ]
        blob, channels = net.layer(name + "/out", "Concat", parts), 4 * wide
    blob = net.pool("pool5", blob, 16, 1, 0, "AVE")
    net.layer("prob", "Softmax", [net.dense("fc", blob, channels, 10)])
    return net.write(folder)


def resblock(folder):
    return (
        os.path.join(RESBLOCK, "resblock.prototxt"),
        os.path.join(RESBLOCK, "resblock.caffemodel"),
        (2, 3, 16, 16),
    )


NETS = {"lenet": lenet, "resblock": resblock, "inception": inception}


BACKENDS = {"caffe": "numpy", "onnx": "onnxruntime", "onnx16": "onnxruntime", "tf": "tf"}
"""The forms of a net, and what replays them; onnx16 has its weights in float16."""


class Net:
    """One of them: its files, and runs of it on the stand-in of a device."""

    def __init__(self, name, folder, form="caffe"):
        self.name = name
        self.prototxt, self.weights_file, self.shape = NETS[name](folder)
        self.weights = read_weights(self.weights_file)
        self.backend, self._converted, self.original = BACKENDS[form], None, self.prototxt
        if form != "caffe":
            self._convert(form, os.path.join(folder, name + (".pb" if form == "tf" else ".onnx")))
        self.halves = {
            layer: [blob.astype(np.float16).astype(np.float32) for blob in blobs]
            for layer, blobs in self.weights.items()
        }

    def device(self, seed, halves=False):
        """Return the network with a random input; with ``halves`` the device rounds its weights to
        float16 as well.
        """
        data = np.random.RandomState(seed).standard_normal(self.shape).astype(np.float32)
        return CaffeNetwork(
            self.prototxt, self.halves if halves else self.weights, {"data": data}, self.name
        )

    def _convert(self, form, path):
        shapes, self.original, self.weights_file = {"data": self.shape}, path, None
        # Of two frameworks mostly one is there.
        if form == "tf":
            from caffe_as_tf import AsTensorflow

            self._converted = AsTensorflow(self.prototxt, self.weights, shapes)
            data = self._converted.graph
        else:
            from caffe_as_onnx import AsOnnx

            self._converted = AsOnnx(
                self.prototxt, self.weights, shapes, np.float16 if form == "onnx16" else np.float32
            )
            data = self._converted.model.SerializeToString()
        with open(path, "wb") as stream:
            stream.write(data)

    def named(self, model):
        """Return a device's model as it is made of this form of the net."""
        return model if self._converted is None else self._converted.renamed(model)
