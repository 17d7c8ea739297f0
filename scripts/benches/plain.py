"""What the benchmarks compare with: the same metrics in plain numpy, and the floor.

Plain: float32, one expression per metric, whole arrays, one process. Floor: read every byte once,
float16 to float32, one dot product. As a program (plain.py WORKLOAD plain|floor) it runs over the
files of a workload and prints the seconds it took.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np

EPS = 2.220446e-16


def plain_metrics(x, y):
    """Ten metrics of two arrays, float32."""
    x, y = x.reshape(-1).astype(np.float32), y.reshape(-1).astype(np.float32)
    return {
        "CosineSimilarity": np.dot(x, y) / (np.linalg.norm(x) * np.linalg.norm(y)),
        "MaxAbsoluteError": np.max(np.abs(x - y)),
        "AccumulatedRelativeError": np.sum(relative(x, y)),
        "RelativeEuclideanDistance": np.linalg.norm(x - y) / np.linalg.norm(y),
        "KullbackLeiblerDivergence": divergence(x, y),
        "StandardDeviation": (np.mean(x), np.std(x), np.mean(y), np.std(y)),
        "MeanAbsoluteError": np.mean(np.abs(x - y)),
        "RootMeanSquareError": np.sqrt(np.mean((x - y) ** 2)),
        "MaxRelativeError": np.max(relative(x, y)),
        "MeanRelativeError": np.mean(relative(x, y)),
    }


def relative(x, y):
    return np.abs(np.divide(x, y, out=np.ones_like(x), where=np.abs(y) > EPS) - 1)


def divergence(x, y):
    p = np.maximum((x - x.min()) / max(x.max() - x.min(), 1e-30), 1.1920929e-07)
    q = np.maximum((y - y.min()) / max(y.max() - y.min(), 1e-30), 1.1920929e-07)
    p, q = p / p.sum(), q / q.sum()
    return np.sum(p * np.log(p / q))


def floor(x, y):
    """The least anyone must do."""
    x, y = (
        x.reshape(-1).astype(np.float32, copy=False),
        y.reshape(-1).astype(np.float32, copy=False),
    )
    return np.dot(x, y)


def read_target(root, tensor):
    """One tensor of a dump file, in the golden's layout (NC1HWC0 becomes NCHW)."""
    raw = np.fromfile(
        os.path.join(root, tensor["file"]), "<f2", tensor["count"], offset=tensor["offset"]
    )
    array = raw.reshape(tensor["shape"])
    if tensor["format"] == "NC1HWC0":
        n, c1, h, w, c0 = tensor["shape"]
        array = array.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)[
            :, : tensor["golden_shape"][1]
        ]
    return array


def run_plain(root, tensors):
    for tensor in tensors:
        plain_metrics(read_target(root, tensor), np.load(os.path.join(root, tensor["golden"])))


def run_floor(root, tensors):
    goldens = {}
    for tensor in tensors:
        x = np.fromfile(
            os.path.join(root, tensor["file"]), "<f2", tensor["count"], offset=tensor["offset"]
        ).astype(np.float32)
        y = x
        if tensor["golden"] not in goldens:
            goldens[tensor["golden"]] = True
            with open(os.path.join(root, tensor["golden"]), "rb") as stream:
                data = np.frombuffer(stream.read(), np.uint8)
            start = 64 + (data.size - 64) % 4
            y = data[start:].view("<f4") if start % 4 == 0 else data[start:].copy().view("<f4")
        size = min(x.size, y.size)
        np.dot(x[:size], y[:size])


def main():
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    root, what = sys.argv[1:]
    with open(os.path.join(root, "tensors.json")) as stream:
        tensors = json.load(stream)
    begin = time.perf_counter()
    with np.errstate(all="ignore"):
        (run_plain if what == "plain" else run_floor)(root, tensors)
    print(json.dumps({"seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
