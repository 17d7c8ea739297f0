"""How long `goldwatch compare` takes from start to result files where there is next to nothing to compare, beside importing numpy.

Everything in it is starting: Python, numpy, goldwatch's own modules, the store, the result files; the first row is there before them.
Wall time of whole processes (and, in brackets, processor time), the fastest of some runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

import workload
from network import compare_command, fastest


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench startup", description=__doc__)
    parser.add_argument("--repeat", type=int, default=11, help="runs, of which the fastest counts (default 11)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = workload.prepare(os.path.join(folder, "two"), workload.tiny, 2)
        numpy = None
        print("%-26s %15s %8s" % ("", "seconds", "ratio"))
        for title, command in (
            ('python -c "import numpy"', lambda: [sys.executable, "-c", "import numpy"]),
            ("goldwatch --help", lambda: [sys.executable, "-m", "goldwatch", "--help"]),
            ("goldwatch compare, 2 ops", lambda: compare_command(root, os.path.join(folder, "out"), 2)),
        ):
            found = fastest(command, options.repeat)
            numpy = numpy or found
            print("%-26s %7.2f (%.2f) %8.1f" % (title, found[0], found[1], found[0] / numpy[0]), flush=True)


if __name__ == "__main__":
    main()
