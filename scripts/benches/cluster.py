"""goldwatch compare --cluster local:N beside --jobs N on many devices × steps of small ops, which
it writes itself.

    scripts/bench cluster [--devices N] [--steps N] [--ops N] [--jobs N] [--work FOLDER]
    scripts/bench cluster --devices 64 --steps 50 --ops 100         the proof: 320,000 rows, at most 1.3 times as long

Wall time, processor time with all children and peak memory (VmHWM) of whole commands and of the
largest of their processes, and the ratio of the wall times; the result files must be the same to
the last byte, else the exit code is 1. The dumps of an op are one file under many names, and an OUT
is removed as soon as its files are known, so that 320,000 rows take some 3 GB and 20,000 inodes;
all is gone at the end, also after Ctrl-C.
"""  # noqa: E501

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile

import numpy as np
from network import measure

from goldwatch.dumps.write import TensorData, write_dump

ELEMENTS = 64
FIRST_US = 1_700_000_001_000_000
BYTES_PER_ROW, BYTES_PER_PLACE = 8_000, 32_768


def write(root, devices, steps, ops):
    """Write golden data, a model, and the dumps of all devices and steps, each with a time of its
    own.
    """
    random = np.random.RandomState(0)
    os.makedirs(os.path.join(root, "golden"))
    os.makedirs(os.path.join(root, "written"))
    for number in range(ops):
        values = random.standard_normal(ELEMENTS).astype(np.float32)
        np.save(
            os.path.join(root, "golden", "op%d.0.1700000000%06d.npy" % (number, number)), values
        )
        made = (values * (1 + 1e-3 * random.standard_normal(ELEMENTS))).astype(np.float32)
        tensor = TensorData(made, format="ND", original_shape=(ELEMENTS,))
        write_dump(
            os.path.join(root, "written", str(number)), [], [tensor], op_name="op%d" % number
        )
    for device in range(devices):
        for step in range(steps):
            folder = os.path.join(
                root, "dump", "20260102030405", str(device), "net", "1", str(step)
            )
            os.makedirs(folder)
            for number in range(ops):
                name = "Relu.op%d.%d.0.%d" % (
                    number,
                    number,
                    FIRST_US + (step * devices + device) * ops + number,
                )
                os.link(os.path.join(root, "written", str(number)), os.path.join(folder, name))
    ops_of_model = [
        {
            "name": "op%d" % number,
            "type": "Relu",
            "id": number,
            "input": [],
            "output_desc": [{"layout": "ND"}],
            "attr": [],
        }
        for number in range(ops)
    ]
    with open(os.path.join(root, "net.json"), "w", encoding="utf-8") as stream:
        json.dump({"graph": [{"name": "net", "op": ops_of_model}]}, stream)


def results(folder):
    """Return a digest of each result file, by its name but for the run's time."""
    found = {}
    for name in os.listdir(folder):
        if name.endswith((".csv", ".json")):
            digest = hashlib.sha256()
            with open(os.path.join(folder, name), "rb") as stream:
                for data in iter(lambda stream=stream: stream.read(1 << 20), b""):
                    digest.update(data)
            found[re.sub(r"_20\d{12}", "", name)] = digest.hexdigest()
    return found


def bench(root, chosen):
    """Run the command both ways and print what each took; return whether the result files are the
    same.
    """
    paths = [
        os.path.join(root, "dump"),
        os.path.join(root, "golden"),
        "-f",
        os.path.join(root, "net.json"),
        "-q",
    ]
    out = os.path.join(root, "out")
    command = [sys.executable, "-m", "goldwatch", "compare", *paths, "-o", out]
    title = "%d rows" % (chosen.devices * chosen.steps * chosen.ops)
    print(
        "%-18s %8s %10s %10s %14s" % (title, "seconds", "processor", "peak MB", "of a worker"),
        flush=True,
    )
    seconds, files = [], []
    for name, options in (
        ("processes", ["--jobs", str(chosen.jobs)]),
        ("cluster", ["--cluster", "local:%d" % chosen.jobs]),
    ):
        took, processor, own, child, code = measure([*command, *options])
        seconds.append(took)
        files.append(results(out))
        shutil.rmtree(out)
        said = "" if code == 0 else "   exit code %d" % code
        print(
            "%-18s %8.1f %10.1f %10.0f %14.0f%s"
            % (name, took, processor, own / 1e6, child / 1e6, said),
            flush=True,
        )
    same = bool(files[0]) and files[0] == files[1]
    print(
        "cluster / processes: %.2f; %d result files %s"
        % (seconds[1] / seconds[0], len(files[0]), "the same" if same else "DIFFER")
    )
    return same


@contextlib.contextmanager
def room(chosen):
    """Yield a folder that is removed at the end, whatever ends it; refuse where there is no room
    for the files.
    """
    rows, places = chosen.devices * chosen.steps * chosen.ops, chosen.devices * chosen.steps
    where = chosen.work or tempfile.gettempdir()
    needed, inodes = rows * BYTES_PER_ROW + places * BYTES_PER_PLACE, 2 * places + 1000
    there = os.statvfs(where)
    free, names = there.f_bavail * there.f_frsize, there.f_favail
    if free < needed or there.f_files > 0 and names < inodes:
        text = (
            "%s: %.1f GB and %d inodes are free, %.1f GB and %d are needed: name another folder "
            "with --work"
        )
        raise SystemExit(text % (where, free / 1e9, names, needed / 1e9, inodes))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    root = tempfile.mkdtemp(prefix="goldwatch-bench-", dir=where)
    try:
        yield root
    finally:
        # A second Ctrl-C would leave half of it.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        shutil.rmtree(root)


def main():
    parser = argparse.ArgumentParser(
        "scripts/bench cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, default in (("devices", 8), ("steps", 10), ("ops", 100), ("jobs", 2)):
        parser.add_argument("--" + name, type=int, default=default, help="by default %d" % default)
    parser.add_argument(
        "--work",
        help="an existing folder for the files; by default the system's for temporary files",
    )
    chosen = parser.parse_args()
    with room(chosen) as root:
        write(root, chosen.devices, chosen.steps, chosen.ops)
        try:
            return 0 if bench(root, chosen) else 1
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
