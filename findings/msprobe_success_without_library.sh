#!/bin/sh
# msprobe compare -m offline_data (mindstudio-probe) ends with exit code 0 and "completed
# successfully" where CANN's libascend_dump_parser.so is not found: no dump is read, all scores are
# NaN, and the reason is "There is no dump file". It also ends with 0 where the golden folder does
# not exist. Ends with 0 while that is so, with 1 once it has changed.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q mindstudio-probe==26.2.0
cd "$folder"
env/bin/python - <<'PYTHON'
import csv
import glob
import importlib.metadata
import json
import os
import struct
import subprocess
import sys

import numpy as np

print("mindstudio-probe", importlib.metadata.version("mindstudio-probe"))
values = np.arange(1, 5, dtype="<f4")
os.mkdir("dump")
os.mkdir("golden")
np.save("golden/relu.0.1767323045000000.npy", values)
# toolkit.dumpdata.DumpData: version "2.0", one output (float, ND, dims [4], 16 bytes), op_name.
output = b"\x08\x01\x10\x02" + b"\x1a\x03\x0a\x01\x04" + b"\x30\x10" + b"\x3a\x03\x0a\x01\x04"
header = b"\x0a\x032.0" + b"\x1a" + bytes([len(output)]) + output + b"\x32\x04relu"
with open("dump/Relu.relu.1.0.1767323045000000", "wb") as stream:
    stream.write(struct.pack("<Q", len(header)) + header + values.tobytes())
desc = {"dtype": "DT_FLOAT", "layout": "ND", "shape": {"dim": [4]}}
op = {"name": "relu", "type": "Relu", "output_desc": [desc]}
with open("model.json", "w") as stream:
    json.dump({"name": "net", "graph": [{"name": "net", "op": [op]}]}, stream)
environment = {**os.environ, "ASCEND_TOOLKIT_HOME": os.getcwd(), "LD_LIBRARY_PATH": ""}


def compare(golden, out):
    words = ["env/bin/msprobe", "compare", "-m", "offline_data", "-tp", "dump", "-gp", golden]
    done = subprocess.run(
        words + ["-fr", "model.json", "-o", out], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout.strip().split("\n")[-1]


code, last = compare("golden", "out")
with open(glob.glob("out/*.csv")[0]) as stream:
    (row,) = csv.DictReader(stream)
print("without the library: expected an exit code other than 0; seen", code, repr(last))
print("cosine", row["CosineSimilarity"], "reason", row["CompareFailReason"])
same = code == 0 and "completed successfully" in last and row["CosineSimilarity"] == "NaN"
code, last = compare("nowhere", "other")
print("without golden data: expected an exit code other than 0; seen", code, repr(last))
sys.exit(0 if same and code == 0 else 1)
PYTHON
