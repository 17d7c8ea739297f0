"""What `golden caffe dump` adds to a plain forward of a GoogLeNet-sized net (142 layers, 40 MB of outputs, random weights) in OpenCV."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from goldwatch.adapters.caffe.dump import DumpOptions, dump
from goldwatch.protowire import field, varint

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
import sys, time
import cv2, numpy as np
net = cv2.dnn.readNetFromCaffe(sys.argv[1], sys.argv[2])
net.enableFusion(False)
getattr(net, "enableWinograd", lambda on: None)(False)
net.setInput(np.random.RandomState(0).standard_normal((1, 3, 224, 224)).astype("f"))
begun = time.perf_counter()
net.forward()
print(time.perf_counter() - begun)
"""


class Builder:
    """Writes the prototxt and the weights side by side."""

    def __init__(self):
        self.lines = ['layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 224 dim: 224 } } }']
        self.weights = b""
        self.random = np.random.RandomState(0)

    def layer(self, name, kind, bottoms, param="", top=None, arrays=()):
        reads = " ".join('bottom: "%s"' % bottom for bottom in bottoms)
        self.lines.append('layer { name: "%s" type: "%s" %s top: "%s" %s }' % (name, kind, reads, top or name, param))
        blobs = b"".join(field(7, field(7, field(1, b"".join(map(varint, a.shape)))) + field(5, a.tobytes())) for a in arrays)
        if arrays:
            self.weights += field(100, field(1, name.encode()) + blobs)
        return name

    def conv(self, name, bottom, n_in, n_out, kernel, pad=0, stride=1):
        scale = np.sqrt(2.0 / (n_in * kernel * kernel))
        arrays = [(self.random.standard_normal((n_out, n_in, kernel, kernel)) * scale).astype("<f4"), np.zeros(n_out, "<f4")]
        param = "convolution_param { num_output: %d kernel_size: %d pad: %d stride: %d }" % (n_out, kernel, pad, stride)
        self.layer(name, "Convolution", [bottom], param, arrays=arrays)
        self.layer(name + "/relu", "ReLU", [name], top=name)
        return name

    def pool(self, name, bottom, kernel, stride, pad=0, kind="MAX"):
        return self.layer(
            name, "Pooling", [bottom], "pooling_param { pool: %s kernel_size: %d stride: %d pad: %d }" % (kind, kernel, stride, pad)
        )


def build(folder):
    net = Builder()
    blob = net.pool("pool1", net.conv("conv1", "data", 3, 64, 7, 3, 2), 3, 2)
    blob = net.layer("norm1", "LRN", [blob], "lrn_param { local_size: 5 alpha: 0.0001 }")
    blob = net.conv("conv2", net.conv("conv2r", blob, 64, 64, 1), 64, 192, 3, 1)
    blob = net.pool("pool2", net.layer("norm2", "LRN", [blob], "lrn_param { local_size: 5 alpha: 0.0001 }"), 3, 2)
    channels = 192
    for number, entry in enumerate(INCEPTIONS):
        if entry is None:
            blob = net.pool("pool_%d" % number, blob, 3, 2)
            continue
        name, (one, three_r, three, five_r, five, proj) = entry
        parts = [
            net.conv(name + "/1x1", blob, channels, one, 1),
            net.conv(name + "/3x3", net.conv(name + "/3x3r", blob, channels, three_r, 1), three_r, three, 3, 1),
            net.conv(name + "/5x5", net.conv(name + "/5x5r", blob, channels, five_r, 1), five_r, five, 5, 2),
            net.conv(name + "/proj", net.pool(name + "/pool", blob, 3, 1, 1), channels, proj, 1),
        ]
        channels = one + three + five + proj
        blob = net.layer(name + "/out", "Concat", parts)
    blob = net.pool("pool5", blob, 7, 1, 0, "AVE")
    net.layer("drop", "Dropout", [blob], top=blob)
    arrays = [(net.random.standard_normal((1000, channels)) / 30).astype("<f4"), np.zeros(1000, "<f4")]
    net.layer("fc", "InnerProduct", [blob], "inner_product_param { num_output: 1000 }", arrays=arrays)
    net.layer("prob", "Softmax", ["fc"])
    paths = os.path.join(folder, "net.prototxt"), os.path.join(folder, "net.caffemodel")
    with open(paths[0], "w", encoding="ascii") as stream:
        stream.write("\n".join(net.lines) + "\n")
    with open(paths[1], "wb") as stream:
        stream.write(net.weights)
    return paths


def main():
    parser = argparse.ArgumentParser(prog=sys.argv[0], description=__doc__)
    parser.add_argument("--repeat", type=int, default=7, help="runs of each; the median counts")
    repeat = parser.parse_args().repeat
    folder = tempfile.mkdtemp(prefix="goldwatch-bench-")
    try:
        model, weights = build(folder)
        plain, forward, save = [], [], []
        for number in range(repeat):
            plain.append(float(subprocess.check_output([sys.executable, "-c", PLAIN, model, weights])))
            done = dump(DumpOptions(model, weights, os.path.join(folder, str(number)), seed=0, backend="opencv", python=sys.executable))
            seconds = done["runs"][0]["seconds"]
            forward.append(seconds["forward"])
            save.append(seconds["save"])
        print("plain forward of a fresh process   %7.1f ms" % (np.median(plain) * 1000))
        print("forward that keeps every layer     %7.1f ms" % (np.median(forward) * 1000))
        print("saving 143 files with their sums   %7.1f ms" % (np.median(save) * 1000))
        print("saving / forward                   %7.1f %%" % (100 * np.median(np.array(save) / np.array(forward))))
        added = (np.array(forward) + np.array(save)) / np.array(plain) - 1
        print("added to the plain forward         %7.1f %%" % (100 * np.median(added)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
