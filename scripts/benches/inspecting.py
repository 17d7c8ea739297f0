"""goldwatch inspect of a tree of many small files, beside a plain walk that reads the same headers.
Medians of paired runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time


def make(folder, files):
    from goldwatch.dumps.write import TensorData, write_dump
    from goldwatch.tensors.dtypes import dtype_by_name

    place = os.path.join(folder, "20260102030405", "0", "net", "1", "0")
    os.makedirs(place)
    first = os.path.join(place, "Add.op_0.0.1.%016d" % 0)
    write_dump(
        first, outputs=[TensorData(b"\0" * 32, dtype_by_name("float16"), "ND", (16,), (16,))]
    )
    with open(first, "rb") as stream:
        data = stream.read()
    for number in range(1, files):
        with open(
            os.path.join(place, "Add.op_%d.%d.1.%016d" % (number, number, number)), "wb"
        ) as stream:
            stream.write(data)


def plain(folder):
    """Walk, and read each file's header."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(base, name), "rb") as stream:
                (length,) = struct.unpack("<Q", stream.read(8))
                stream.read(length)
                total += os.fstat(stream.fileno()).st_size
    return total


def goldwatch(folder):
    subprocess.run(
        [sys.executable, "-m", "goldwatch", "inspect", folder, "-q"],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def timed(function, *arguments):
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench inspect", description=__doc__)
    parser.add_argument("--files", type=int, default=100000)
    parser.add_argument("--repeat", type=int, default=3, help="pairs of runs (default 3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(folder, options.files)
        pairs = [(timed(goldwatch, folder), timed(plain, folder)) for _ in range(options.repeat)]
        ours, theirs = (statistics.median(side) for side in zip(*pairs))
        print("%d files: goldwatch %.2f s, plain headers %.2f s" % (options.files, ours, theirs))


if __name__ == "__main__":
    main()
