"""goldwatch compare-op on one tensor, beside plain numpy for the numbers and csv.writer for the
rows. Medians of paired runs.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np


def plain_numbers(folder):
    """What a user would write to look at an operator: errors, a histogram, shares by index, the
    largest twenty.
    """
    x, y = (
        np.load(os.path.join(folder, "target.npy")).astype(np.float64),
        np.load(os.path.join(folder, "golden.npy")).astype(np.float64),
    )
    error = np.abs(x - y)
    with np.errstate(all="ignore"):
        relative = error / np.abs(y)
    np.histogram(np.log10(error[error > 0]), 40)
    for axis in range(x.ndim):
        np.square(error).sum(axis=tuple(index for index in range(x.ndim) if index != axis))
    np.argsort(-error.reshape(-1))[:20]
    np.argsort(-relative.reshape(-1))[:20]


def plain_rows(folder):
    """The same rows by csv.writer."""
    x, y = np.load(os.path.join(folder, "target.npy")), np.load(os.path.join(folder, "golden.npy"))
    with open(os.path.join(folder, "plain.csv"), "w", newline="") as stream:
        writer = csv.writer(stream)
        for place, (left, right) in zip(
            np.ndindex(*x.shape), zip(x.reshape(-1).tolist(), y.reshape(-1).tolist())
        ):
            error = abs(left - right)
            writer.writerow([*place, left, right, error / abs(right) if right else "-", error])


def goldwatch(folder, rows):
    words = [
        sys.executable,
        "-m",
        "goldwatch",
        "compare-op",
        "target.npy",
        "golden.npy",
        "-q",
        "--rows",
        rows,
        "-o",
        "out",
    ]
    subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, check=False)


def timed(function, *arguments):
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


def peak_mb(folder):
    """Return the largest resident size of the command or any of its processes, in MB."""
    code = (
        "import resource, subprocess, sys\nsubprocess.run(sys.argv[1:], "
        "stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    words = [
        sys.executable,
        "-m",
        "goldwatch",
        "compare-op",
        "target.npy",
        "golden.npy",
        "-q",
        "-o",
        "out",
    ]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, stdout=subprocess.PIPE, check=True
    )
    return int(done.stdout) / 1024


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench compare_op", description=__doc__)
    parser.add_argument(
        "--elements", type=int, default=1 << 22, help="of the tensor (default 4 Mi)"
    )
    parser.add_argument("--repeat", type=int, default=3, help="pairs of runs (default 3)")
    options = parser.parse_args()
    side = max(1, int((options.elements // 64) ** 0.5))
    golden = np.random.RandomState(0).standard_normal((1, 64, side, side)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        np.save(os.path.join(folder, "golden.npy"), golden)
        np.save(os.path.join(folder, "target.npy"), (golden * 1.05).astype(np.float16))
        print("%d elements, medians of %d pairs, in seconds" % (golden.size, options.repeat))
        print("%-22s %10s %10s %10s" % ("", "goldwatch", "plain", "plain/gw"))
        for name, rows, plain in (
            ("without element files", "none", plain_numbers),
            ("with all element files", "all", plain_rows),
        ):
            pairs = [
                (timed(goldwatch, folder, rows), timed(plain, folder))
                for _ in range(options.repeat)
            ]
            ours, theirs = (statistics.median(side) for side in zip(*pairs))
            ratio = statistics.median(plain_s / gw_s for gw_s, plain_s in pairs)
            print("%-22s %10.2f %10.2f %10.2f" % (name, ours, theirs, ratio))
        print("largest process: %.0f MB" % peak_mb(folder))


if __name__ == "__main__":
    main()
