"""goldwatch compare --exact beside reading both trees plainly (os.read of every file, 1 MiB at a
time), on files it writes itself.

The workloads of scripts/bench network: 69 ops with the shapes of ResNet-50, one tensor of 51.2 M
elements, 4,000 tiny ops; each against a copy of itself, and against a copy with one other bit in
each file's last byte. Wall time of whole processes (and, in brackets, processor time with all
children), the fastest of some runs; with --cold no file is in the page cache when a run begins.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile

import workload
from network import fastest, forget

WORKLOADS = {
    "network": ("69 ops", workload.resnet, (4,)),
    "huge": ("51.2 M tensor", workload.huge, ()),
    "tiny": ("4000 tiny ops", workload.tiny, ()),
}

READ = """
import os, sys
buffer = bytearray(1 << 20)
for root in sys.argv[1:]:
    for base, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(base, name), "rb", buffering=0) as stream:
                while stream.readinto(buffer):
                    pass
"""


def flipped(source, copy):
    """Copy a tree, with one other bit in each file's last byte, which is an output's."""
    shutil.copytree(source, copy)
    for base, _, names in os.walk(copy):
        for name in names:
            with open(os.path.join(base, name), "r+b") as stream:
                stream.seek(-1, os.SEEK_END)
                last = stream.read(1)[0]
                stream.seek(-1, os.SEEK_END)
                stream.write(bytes([last ^ 1]))


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/bench exact",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", help="where the files are written (700 MB each way)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=sorted(WORKLOADS), help="one workload only")
    parser.add_argument("--cold", action="store_true", help="nothing is in the page cache")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="exact-", dir=options.folder) as folder:
        print("%-24s %6s %16s %16s %8s" % ("workload", "MB", "goldwatch", "reading alone", "ratio"))
        for name in [options.only] if options.only else WORKLOADS:
            title, make, arguments = WORKLOADS[name]
            root = workload.prepare(os.path.join(folder, name), make, *arguments)
            runs = [os.path.join(root, name) for name in ("dump", "equal", "flipped")]
            shutil.copytree(*runs[:2])
            flipped(runs[0], runs[2])
            for other in runs[1:]:
                bench(
                    "%s %s" % (title, os.path.basename(other)),
                    runs[0],
                    other,
                    os.path.join(folder, "out"),
                    options,
                )
            shutil.rmtree(root)


def bench(title, one, other, out, options):
    def command(words):
        if options.cold:
            forget(one), forget(other)
        shutil.rmtree(out, ignore_errors=True)
        return [sys.executable, *words]

    compare = [
        "-m",
        "goldwatch",
        "compare",
        "-q",
        "--jobs",
        str(options.jobs),
        "--exact",
        other,
        one,
        "-o",
        out,
    ]
    ours = fastest(lambda: command(compare), options.repeat)
    plain = fastest(lambda: command(["-c", READ, one, other]), options.repeat)
    size = (
        sum(
            os.path.getsize(os.path.join(base, name))
            for base, _, names in os.walk(one)
            for name in names
        )
        / 1e6
    )
    times = tuple("%.2f s (%.2f)" % times[:2] for times in (ours, plain))
    print("%-24s %6.0f %16s %16s %8.1f" % (title, 2 * size, *times, ours[0] / plain[0]), flush=True)


if __name__ == "__main__":
    main()
