"""`golden caffe dump` of a GoogLeNet-sized net (142 layers, 40 MB of outputs, random weights),
against a plain OpenCV script; deinplace.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

from goldwatch.adapters.caffe.deinplace import deinplace_text
from goldwatch.base.protowire import field, varint
from goldwatch.netfiles.prototxt_edits import Document

INCEPTIONS = [
    ("3a", (64, 96, 128, 16, 32, 32)),
    ("3b", (128, 128, 192, 32, 96, 64)),
    None,
    ("4a", (192, 96, 208, 16, 48, 64)),
    ("4b", (160, 112, 224, 24, 64, 64)),
    ("4c", (128, 128, 256, 24, 64, 64)),
    ("4d", (112, 144, 288, 32, 64, 64)),
    ("4e", (256, 160, 320, 32, 128, 128)),
    None,
    ("5a", (256, 160, 320, 32, 128, 128)),
    ("5b", (384, 192, 384, 48, 128, 128)),
]
PLAIN = """
import os, sys
import cv2, numpy as np
model, weights, out, data = sys.argv[1:]
net = cv2.dnn.readNetFromCaffe(model, weights)
net.enableFusion(False)
getattr(net, "enableWinograd", lambda on: None)(False)
net.setInput(np.load(data))
names = net.getLayerNames()
os.mkdir(out)
for name, values in zip(names, net.forwardAndRetrieve(list(names))):
    np.save(os.path.join(out, name.replace("/", "_") + ".npy"), values[0])
"""
LAYER = """layer { name: "c%d" type: "Convolution" bottom: "b%d" top: "b%d" param { lr_mult: 1 decay_mult: 1 }
  convolution_param { num_output: 64 weight_filler { type: "xavier" } } }
layer { name: "r%d" type: "ReLU" bottom: "b%d" top: "b%d" }
"""  # noqa: E501


class Builder:
    """Writes the prototxt and the weights side by side."""

    def __init__(self):
        self.lines = [
            'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: '
            "3 dim: 224 dim: 224 } } }"
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
            field(7, field(7, field(1, b"".join(map(varint, a.shape)))) + field(5, a.tobytes()))
            for a in arrays
        )
        if arrays:
            self.weights += field(100, field(1, name.encode()) + blobs)
        return name

    def conv(self, name, bottom, n_in, n_out, kernel, pad=0, stride=1):
        scale = np.sqrt(2.0 / (n_in * kernel * kernel))
        arrays = [
            (self.random.standard_normal((n_out, n_in, kernel, kernel)) * scale).astype("<f4"),
            np.zeros(n_out, "<f4"),
        ]
        param = "convolution_param { num_output: %d kernel_size: %d pad: %d stride: %d }" % (
            n_out,
            kernel,
            pad,
            stride,
        )
        self.layer(name, "Convolution", [bottom], param, arrays=arrays)
        self.layer(name + "/relu", "ReLU", [name], top=name)
        return name

    def pool(self, name, bottom, kernel, stride, pad=0, kind="MAX"):
        return self.layer(
            name,
            "Pooling",
            [bottom],
            "pooling_param { pool: %s kernel_size: %d stride: %d pad: %d }"
            % (kind, kernel, stride, pad),
        )


def build(folder):
    net = Builder()
    blob = net.pool("pool1", net.conv("conv1", "data", 3, 64, 7, 3, 2), 3, 2)
    blob = net.layer("norm1", "LRN", [blob], "lrn_param { local_size: 5 alpha: 0.0001 }")
    blob = net.conv("conv2", net.conv("conv2r", blob, 64, 64, 1), 64, 192, 3, 1)
    blob = net.pool(
        "pool2",
        net.layer("norm2", "LRN", [blob], "lrn_param { local_size: 5 alpha: 0.0001 }"),
        3,
        2,
    )
    channels = 192
    for number, entry in enumerate(INCEPTIONS):
        if entry is None:
            blob = net.pool("pool_%d" % number, blob, 3, 2)
            continue
        name, (one, three_r, three, five_r, five, proj) = entry
        parts = [
            net.conv(name + "/1x1", blob, channels, one, 1),
            net.conv(
                name + "/3x3",
                net.conv(name + "/3x3r", blob, channels, three_r, 1),
                three_r,
                three,
                3,
                1,
            ),
            net.conv(
                name + "/5x5",
                net.conv(name + "/5x5r", blob, channels, five_r, 1),
                five_r,
                five,
                5,
                2,
            ),
            net.conv(name + "/proj", net.pool(name + "/pool", blob, 3, 1, 1), channels, proj, 1),
        ]
        channels = one + three + five + proj
        blob = net.layer(name + "/out", "Concat", parts)
    blob = net.pool("pool5", blob, 7, 1, 0, "AVE")
    net.layer("drop", "Dropout", [blob], top=blob)
    arrays = [
        (net.random.standard_normal((1000, channels)) / 30).astype("<f4"),
        np.zeros(1000, "<f4"),
    ]
    net.layer(
        "fc", "InnerProduct", [blob], "inner_product_param { num_output: 1000 }", arrays=arrays
    )
    net.layer("prob", "Softmax", ["fc"])
    paths = os.path.join(folder, "net.prototxt"), os.path.join(folder, "net.caffemodel")
    with open(paths[0], "w", encoding="ascii") as stream:
        stream.write("\n".join(net.lines) + "\n")
    with open(paths[1], "wb") as stream:
        stream.write(net.weights)
    return paths


def timed(command):
    """Return wall and processor seconds of a command with all its children."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("%s: exit status %d" % (" ".join(command), status))
    return time.perf_counter() - begun, usage.ru_utime + usage.ru_stime


def deinplace_s(n_layers):
    """Seconds of the processor to remove every other layer's in-place blob from a prototxt of so
    many layers.
    """
    text = 'layer { name: "in" type: "Input" top: "b0" }\n'
    text += "".join(LAYER % (i, i, i + 1, i, i + 1, i + 1) for i in range(n_layers // 2))
    begun = time.process_time()
    done = deinplace_text(Document(text))
    assert len(done.renamed) == n_layers // 2
    return time.process_time() - begun


def main():
    parser = argparse.ArgumentParser(prog=sys.argv[0], description=__doc__)
    parser.add_argument(
        "--repeat", type=int, default=7, help="runs of each, in turns; the medians count"
    )
    parser.add_argument(
        "--layers",
        type=int,
        default=10000,
        help="layers of the prototxt whose in-place layers are removed",
    )
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="goldwatch-bench-")
    try:
        model, weights = build(folder)
        data = os.path.join(folder, "data.npy")
        np.save(data, np.random.RandomState(0).standard_normal((1, 3, 224, 224)).astype("f"))
        plain, own = [], []
        for number in range(options.repeat):
            out = os.path.join(folder, "%s%d")
            plain.append(
                timed([sys.executable, "-c", PLAIN, model, weights, out % ("plain", number), data])
            )
            command = [
                sys.executable,
                "-m",
                "goldwatch",
                "golden",
                "caffe",
                "dump",
                model,
                weights,
                "-i",
                "data=" + data,
            ]
            own.append(timed(command + ["-o", out % ("own", number), "--backend", "numpy", "-q"]))
        print("%54s %10s %10s" % ("", "wall", "processor"))
        titles = (
            "a plain script: load, forward, np.save of 142 layers",
            "golden caffe dump: the same, the whole command",
        )
        for title, found in zip(titles, (plain, own)):
            print("%-54s %7.0f ms %7.0f ms" % (title, *(np.median(found, axis=0) * 1000)))
        ratios = np.median(np.divide(own, plain), axis=0)
        print("%-54s %10.2f %10.2f" % ("goldwatch to the script, pair by pair", *ratios))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    few, many = (
        min(deinplace_s(count) for _ in range(3))
        for count in (options.layers // 10, options.layers)
    )
    print(
        "deinplace of %6d layers                            %7.0f ms"
        % (options.layers, many * 1000)
    )
    print("per layer, against a tenth of them                    %7.2f" % (many / few / 10))


if __name__ == "__main__":
    main()
