"""What a row costs: goldwatch compare on trees of many small tensors, beside another build in the
same run.

    scripts/bench rows --against PYTHON

Five cases: a training (devices x steps x ops of 16 elements, one golden set), the same tree at a
larger scale where --large is given, 4,000 tiny ops of one network, 69 ops with the shapes of
ResNet-50 (551 MB) and one tensor of 51.2 M elements; and three files. Each round runs one build
after the other. Shown are the fastest runs: processor time of all processes, wall time, peak memory
of the process that plans, seconds after the last comparison, the longest time without a word of
progress, and modules of goldwatch that are loaded at the end; behind each the ratio of the other
build's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import numpy as np
import workload
from network import measure

_MODULES = """
import sys
from goldwatch.__main__ import main
sys.argv[0] = "goldwatch"
try:
    main()
except SystemExit:
    pass
print(sum(name.partition(".")[0] == "goldwatch" for name in sys.modules), file=sys.stderr)
"""
_PHASES = """
import sys, time
from goldwatch.run.compare_folders import compare_folders
from goldwatch.run.comparison_options import ComparisonOptions
root, out, jobs = sys.argv[1:]
longest, pairs = 0.0, 0
def on_progress(progress):
    global spoken, longest, compared, pairs
    now = time.monotonic()
    longest, spoken = max(longest, now - spoken), now
    if progress.pairs_done > pairs:
        compared, pairs = now, progress.pairs_done
began = spoken = compared = time.monotonic()
options = ComparisonOptions(root + "/dump", root + "/golden", out, root + "/model.json")
compare_folders(options, int(jobs), on_progress=on_progress)
ended = time.monotonic()
print(100 * (ended - compared) / (ended - began), max(longest, ended - spoken))
"""


def training(root, devices, steps, ops):
    """Write the same network of tiny ops for each device and step, with values of its own."""
    workload.tiny(root, ops)
    first = os.path.join(root, workload.TREE)
    time_folder = first
    for _ in range(4):
        time_folder = os.path.dirname(time_folder)
    for device in range(devices):
        for step in range(steps):
            folder = os.path.join(time_folder, str(device), "model", "1", str(step))
            if folder != first:
                random = np.random.RandomState(device * steps + step)
                # Less than a limit: all rows pass.
                _scaled(first, folder, 1 + 2e-2 * random.random_sample())


def _scaled(source, folder, factor):
    """Copy dumps of float16 tensors, all values scaled."""
    os.makedirs(folder)
    for name in os.listdir(source):
        with open(os.path.join(source, name), "rb") as file:
            data = file.read()
        begin = 8 + int.from_bytes(data[:8], "little")
        values = (np.frombuffer(data[begin:], np.float16) * factor).astype(np.float16)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data[:begin] + values.tobytes())


def compared(python, root, options):
    """Run one build; return processor and wall seconds, peak MB, and how many rows there are."""
    out = os.path.join(options.folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    words = ["compare", "-q", "--jobs", str(options.jobs), root + "/dump", root + "/golden"]
    words += ["-f", root + "/model.json", "-o", out, *options.more]
    wall, processor, peak, _, code = measure([python, "-m", "goldwatch", *words])
    if code not in (0, 1, 3):
        raise SystemExit("%s: exit code %d" % (python, code))
    connection = sqlite3.connect(os.path.join(out, "run.sqlite"))
    rows = connection.execute("SELECT count(*) FROM row").fetchone()[0]
    connection.close()
    return processor, wall, peak / 1e6, rows


def phases(python, root, options):
    """Return the share of the time after the last comparison, in percent, and the longest time
    without progress, in seconds.
    """
    out = os.path.join(options.folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    words = [python, "-c", _PHASES, root, out, str(options.jobs)]
    return tuple(map(float, subprocess.check_output(words).split()))


def modules(python, root, options):
    """Return how many modules of goldwatch a compare has loaded."""
    out = os.path.join(options.folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    words = ["compare", "-q", root + "/dump", root + "/golden", "-f", root + "/model.json"]
    done = subprocess.run(
        [python, "-c", _MODULES, *words, "-o", out],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    return (int(done.stderr.split()[-1]),)


def told(title, names, found):
    """Print a line: each number of this build, and beside the other's."""
    cells = []
    for number, name in enumerate(names):
        values = [min(run[number] for run in runs) for runs in found]
        text = "%s %.4g" % (name, values[0])
        if len(values) > 1:
            text += " (of %.4g: %.2f)" % (values[1], values[0] / max(values[1], 1e-9))
        cells.append(text)
    print("| %-22s | %s |" % (title, " | ".join(cells)), flush=True)


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/bench rows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--against", metavar="PYTHON", help="a Python with another build, run in turn with this"
    )
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--ops", type=int, default=500)
    parser.add_argument(
        "--large",
        nargs=3,
        type=int,
        metavar=("DEVICES", "STEPS", "OPS"),
        help="another training, such as 16 125 250 for 1,000,000 rows",
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--only", choices=("training", "large", "tiny", "network", "huge", "three", "phases")
    )
    parser.add_argument("--folder", help="where to write and keep; default: a temporary folder")
    parser.add_argument("more", nargs="*", help="more options of compare, behind --")
    options = parser.parse_args()
    pythons = [sys.executable, *([options.against] if options.against else [])]
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = options.folder or temporary
        sizes = (options.devices, options.steps, options.ops)
        cases = [
            ("training", training, sizes),
            ("large", training, options.large),
            ("tiny", workload.tiny, ()),
            ("network", workload.resnet, (4,)),
            ("huge", workload.huge, ()),
            ("three", workload.tiny, (3,)),
        ]
        for name, make, arguments in cases:
            wanted = options.only in (None, name)
            wanted = wanted or (options.only, name) == ("phases", "training")
            if not wanted or arguments is None:
                continue
            folder = os.path.join(options.folder, "-".join([name, *map(str, arguments)]))
            root = workload.prepare(folder, make, *arguments)
            if options.only != "phases":
                found = [[] for _ in pythons]
                for _ in range(options.rounds):
                    for runs, python in zip(found, pythons):
                        runs.append(compared(python, root, options))
                rows = found[0][0][-1]
                told("%s, %d rows" % (name, rows), ("processor s", "wall s", "peak MB"), found)
            if name == "training":
                found = [[phases(python, root, options)] for python in pythons]
                told("training, the end", ("% after the last", "longest silence s"), found)
            if name == "three":
                found = [[modules(python, root, options)] for python in pythons]
                told("three files", ("modules",), found)


if __name__ == "__main__":
    main()
