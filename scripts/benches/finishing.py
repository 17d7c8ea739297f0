"""What a run of many rows costs after its last comparison, as a share of the whole: the same run,
one clock.

    scripts/bench finishing --devices 8 --steps 10 --ops 200

The tree holds the same small network for each device and step, a file for each op: two rows each.
The peak of memory is that of the process that plans and writes.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time

from workload import TREE, Writer

from goldwatch.reports.csv_tables import CsvFile
from goldwatch.reports.junit import JunitFile
from goldwatch.reports.markdown import MarkdownFile
from goldwatch.reports.result_json import JsonFile
from goldwatch.run.compare_folders import compare_folders
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.write_report import write_report

KINDS = {
    "junit.xml": JunitFile,
    "comment.md": MarkdownFile,
    "rows.csv": CsvFile,
    "run.json": JsonFile,
}


def make(root, devices, steps, ops, side=2):
    """Write the tree, the golden data and the json."""
    writer = Writer(root)
    names = []
    for number in range(ops):
        names.append("conv%04d" % number)
        writer.add(names[-1], "Conv2D", names[-2:-1], (1, 16, side, side), positive=False)
    writer.finish()
    first = os.path.join(root, TREE)
    time_folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(first))))
    for device in range(devices):
        for step in range(steps):
            folder = os.path.join(time_folder, str(device), "model", "1", str(step))
            if folder != first:
                shutil.copytree(first, folder)


def measure(root, out, jobs):
    """Compare once; return seconds until the first pair was handed out, in all, after the last
    comparison, and the result.
    """
    started = time.monotonic()
    compared = [started]
    planned = []
    pairs = [0]

    def on_progress(progress):
        if not planned and progress.pairs:
            planned.append(time.monotonic())
        if progress.pairs_done > pairs[0]:
            pairs[0], compared[0] = progress.pairs_done, time.monotonic()

    options = ComparisonOptions(
        os.path.join(root, "dump"),
        os.path.join(root, "golden"),
        out,
        os.path.join(root, "model.json"),
    )
    result = compare_folders(options, jobs, on_progress=on_progress)
    ended = time.monotonic()
    return planned[0] - started, ended - started, ended - compared[0], result


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/bench finishing", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--ops", type=int, default=200)
    parser.add_argument(
        "--side",
        type=int,
        default=2,
        help="Height and width of each tensor of 16 channels.  [default: 2]",
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", help="Where to work.  [default: a temporary folder]")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.dir) as root:
        make(root, asked.devices, asked.steps, asked.ops, asked.side)
        print(
            "| rows | whole run | listing | after the last comparison | share | report's four "
            "files |"
        )
        print("|---|---|---|---|---|---|")
        for number in range(asked.rounds):
            out = os.path.join(root, "out%d" % number)
            first, whole, last, result = measure(root, out, asked.jobs)
            started = time.monotonic()
            write_report(out, {os.path.join(out, name): kind for name, kind in KINDS.items()})
            report = time.monotonic() - started
            print("| %d | %.2f s | %.2f s | %.2f s | %.1f %% | %.2f s |" % (
                result.summary.rows, whole, first, last, 100 * last / whole, report
            ))  # fmt: skip
        print("\npeak %d MB" % (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024))


if __name__ == "__main__":
    main()
