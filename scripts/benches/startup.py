"""How long `goldwatch compare` takes where there is next to nothing to compare, beside importing
numpy: until the first row, until the end.

Everything in it is starting: Python, numpy, goldwatch's own modules, the store, the result files.
The first row counts when another process can read it in the store, which is asked every
millisecond. Wall time of whole processes (and, in brackets, processor time), the fastest of some
runs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time

import workload
from network import compare_command, fastest


def has_row(store):
    """Tell whether a store, which its writer may be making just now, has a row."""
    if not os.path.exists(store):
        return False
    with contextlib.suppress(sqlite3.Error), contextlib.closing(
        sqlite3.connect("file:%s?mode=ro" % store, uri=True, timeout=0)
    ) as reader:
        return reader.execute("SELECT id FROM row LIMIT 1").fetchone() is not None
    return False


def first_row(command, out):
    """Return wall and processor seconds from a command's start to its first row."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    found = None
    while found is None and process.poll() is None:
        time.sleep(0.001)
        if has_row(os.path.join(out, "run.sqlite")):
            with open("/proc/%d/schedstat" % process.pid) as stream:
                found = time.perf_counter() - begin, int(stream.read().split()[0]) / 1e9
    process.wait()
    if found is None:
        raise SystemExit("no row was seen before the end of: %s" % " ".join(command))
    return found


def told(title, found, numpy):
    print("%-26s %7.2f (%.2f) %8.1f" % (title, found[0], found[1], found[0] / numpy[0]), flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench startup", description=__doc__)
    parser.add_argument(
        "--repeat", type=int, default=11, help="runs, of which the fastest counts (default 11)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, out = (
            workload.prepare(os.path.join(folder, "two"), workload.tiny, 2),
            os.path.join(folder, "out"),
        )
        print("%-26s %15s %8s" % ("", "seconds", "ratio"))
        numpy = fastest(lambda: [sys.executable, "-c", "import numpy"], options.repeat)
        told('python -c "import numpy"', numpy, numpy)
        told(
            "goldwatch --help",
            fastest(lambda: [sys.executable, "-m", "goldwatch", "--help"], options.repeat),
            numpy,
        )
        rows = [first_row(compare_command(root, out, 2), out) for _ in range(options.repeat)]
        told("compare 2 ops: first row", tuple(map(min, zip(*rows))), numpy)
        told(
            "compare 2 ops: the end",
            fastest(lambda: compare_command(root, out, 2), options.repeat),
            numpy,
        )


if __name__ == "__main__":
    main()
