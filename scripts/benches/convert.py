"""goldwatch convert of a dump tree beside plain numpy that knows where everything lies. Medians of
paired runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np


def make(folder, files, elements):
    """Write NC1HWC0 float16 dumps and return (path, offset, stored shape, channels) of each."""
    from goldwatch.dumps.dump_file import DumpFile
    from goldwatch.dumps.write import TensorData, write_dump
    from goldwatch.tensors.dtypes import dtype_by_name

    side = max(1, int((elements / 64) ** 0.5))
    shape, original = (1, 4, side, side, 16), (1, 60, side, side)
    array = np.random.RandomState(0).standard_normal(shape).astype(np.float16)
    found = []
    for number in range(files):
        path = os.path.join(folder, "Conv2D.op_%d.%d.1.%016d" % (number, number, number))
        write_dump(
            path,
            outputs=[
                TensorData(array.tobytes(), dtype_by_name("float16"), "NC1HWC0", shape, original)
            ],
        )
        found.append((path, DumpFile.open(path).outputs[0].file_offset, shape, original[1]))
    return found


def plain(tensors, out, original):
    os.makedirs(out, exist_ok=True)
    for path, offset, shape, channels in tensors:
        array = np.fromfile(path, "<f2", int(np.prod(shape)), offset=offset).reshape(shape)
        if original:
            n, c1, h, w, c0 = shape
            array = np.ascontiguousarray(
                array.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)[:, :channels]
            )
        np.save(os.path.join(out, os.path.basename(path) + ".npy"), array)


def goldwatch(folder, out, original):
    words = [sys.executable, "-m", "goldwatch", "convert", folder, "-q", "-o", out] + [
        "--layout",
        "original",
    ] * original
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)


def timed(function, *arguments):
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench convert", description=__doc__)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--elements", type=int, default=1 << 20, help="of each file (default 1 Mi)")
    parser.add_argument("--repeat", type=int, default=3, help="pairs of runs (default 3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dump = os.path.join(folder, "dump")
        os.makedirs(dump)
        tensors = make(dump, options.files, options.elements)
        print(
            "%d files of %d elements, medians of %d pairs, in seconds"
            % (options.files, options.elements, options.repeat)
        )
        print("%-22s %10s %10s %10s" % ("", "goldwatch", "plain", "plain/gw"))
        for name, original in (("as stored", False), ("original layout", True)):
            pairs = []
            for number in range(options.repeat):
                ours = timed(
                    goldwatch, dump, os.path.join(folder, "ours%d%d" % (original, number)), original
                )
                pairs.append(
                    (
                        ours,
                        timed(
                            plain,
                            tensors,
                            os.path.join(folder, "plain%d%d" % (original, number)),
                            original,
                        ),
                    )
                )
            columns = [statistics.median(side) for side in zip(*pairs)]
            print(
                "%-22s %10.2f %10.2f %10.2f"
                % (name, *columns, statistics.median(b / a for a, b in pairs))
            )


if __name__ == "__main__":
    main()
