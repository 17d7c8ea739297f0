"""goldwatch compare --cluster local:N beside --jobs N on many devices × steps of small ops, which it writes itself.

Wall time, processor time with all children and peak memory (VmHWM) of whole commands, and the ratio of the wall times; the result files
must be the same to the last byte.
The long form is --devices 64 --steps 50 --ops 100 (320,000 rows).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile

import numpy as np
from network import measure

from goldwatch.dumps.write import TensorData, write_dump

ELEMENTS = 64


def write(root, devices, steps, ops):
    random = np.random.RandomState(0)
    os.makedirs(os.path.join(root, "golden"))
    dumps = []
    for number in range(ops):
        values = random.standard_normal(ELEMENTS).astype(np.float32)
        np.save(os.path.join(root, "golden", "op%d.0.1700000000%06d.npy" % (number, number)), values)
        name = "Relu.op%d.%d.0.1700000001%06d" % (number, number, number)
        path = os.path.join(root, name)
        made = (values * (1 + 1e-3 * random.standard_normal(ELEMENTS))).astype(np.float32)
        write_dump(path, [], [TensorData(made, format="ND", original_shape=(ELEMENTS,))], op_name="op%d" % number)
        with open(path, "rb") as stream:
            dumps.append((name, stream.read()))
        os.remove(path)
    for device in range(devices):
        for step in range(steps):
            folder = os.path.join(root, "dump", "20260102030405", str(device), "net", "1", str(step))
            os.makedirs(folder)
            for name, data in dumps:
                with open(os.path.join(folder, name), "wb") as stream:
                    stream.write(data)
    ops_of_model = [
        {"name": "op%d" % number, "type": "Relu", "id": number, "input": [], "output_desc": [{"layout": "ND"}], "attr": []}
        for number in range(ops)
    ]
    with open(os.path.join(root, "net.json"), "w", encoding="utf-8") as stream:
        json.dump({"graph": [{"name": "net", "op": ops_of_model}]}, stream)


def results(folder):
    found = {}
    for name in os.listdir(folder):
        if name.endswith((".csv", ".json")):
            with open(os.path.join(folder, name), "rb") as stream:
                found[re.sub(r"_20\d{12}", "", name)] = stream.read()
    return found


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench cluster", description=__doc__.split("\n")[0])
    for name, default in (("devices", 8), ("steps", 10), ("ops", 100), ("jobs", 2)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--work", help="folder for the files; made and removed when it is not named")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.work) as root:
        write(root, chosen.devices, chosen.steps, chosen.ops)
        paths = [os.path.join(root, "dump"), os.path.join(root, "golden"), "-f", os.path.join(root, "net.json"), "-q"]
        command = [sys.executable, "-m", "goldwatch", "compare", *paths, "-o"]
        print("%-18s %8s %10s %10s" % ("%d rows" % (chosen.devices * chosen.steps * chosen.ops), "seconds", "processor", "peak MB"))
        seconds = {}
        for name, options in (("processes", ["--jobs", str(chosen.jobs)]), ("cluster", ["--cluster", "local:%d" % chosen.jobs])):
            took, processor, own, _, code = measure([*command, os.path.join(root, name), *options])
            seconds[name] = took
            print("%-18s %8.1f %10.1f %10.0f%s" % (name, took, processor, own / 1e6, "" if code == 0 else "   exit code %d" % code))
        same = results(os.path.join(root, "processes")) == results(os.path.join(root, "cluster"))
        print("cluster / processes: %.2f; result files %s" % (seconds["cluster"] / seconds["processes"], "the same" if same else "DIFFER"))
        return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
