#!/bin/sh
# file_compare of msprobe (mindstudio-probe) gives perfect scores to tensors that are wrong: int64 is
# compared in float32 (off by 1,000 at 2^40: all errors 0), the relative Euclidean distance to golden
# data of zeros is 0, the cosine of one element of the other sign is 1, and so is that of values near
# 1e-20 of the other sign. Ends with 0 while that is so, with 1 once it has changed.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q mindstudio-probe==26.2.0
cd "$folder"
env/bin/python - <<'PYTHON'
import glob
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys

import numpy as np

package = os.path.dirname(importlib.util.find_spec("msprobe").origin)
tool = os.path.join(package, "msaccucmp", "msaccucmp.py")
print("mindstudio-probe", importlib.metadata.version("mindstudio-probe"))


null = subprocess.DEVNULL


def score(metric, target, golden):
    shutil.rmtree("out", ignore_errors=True)
    np.save("target.npy", target)
    np.save("golden.npy", golden)
    words = [sys.executable, tool, "file_compare", "-m", "target.npy", "-g", "golden.npy"]
    subprocess.run(words + ["-out", "out"], check=True, stdout=null, stderr=null)
    with open(glob.glob("out/*.txt")[0]) as stream:
        return float(dict(line.split(": ") for line in stream)[metric])


numbers, ones = np.arange(8, dtype=np.int64) + 2**40, np.arange(1, 9, dtype=np.float32)
cases = [
    ("int64, off by 1000", "MaxAbsoluteError", numbers + 1000, numbers, "1000", 0),
    ("zeros as golden data", "RelativeEuclideanDistance", ones, 0 * ones, "infinity", 0),
    ("5 and -7", "CosineSimilarity", np.float32([5]), np.float32([-7]), "-1", 1),
    ("x and -x near 1e-20", "CosineSimilarity", ones * 1e-20, -ones * 1e-20, "-1", 1),
]
changed = False
for what, metric, target, golden, right, known in cases:
    seen = score(metric, target.astype(golden.dtype), golden)
    print("%s: %s expected %s, seen %s" % (what, metric, right, seen))
    changed = changed or seen != known
sys.exit(1 if changed else 0)
PYTHON
