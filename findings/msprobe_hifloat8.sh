#!/bin/sh
# msprobe (mindstudio-probe) decodes 49 of the 256 codes of HiFloat8 wrongly: where the exponent has
# no bits, it takes five bits of mantissa in place of three (0x08 is 1.25, not 1), and -infinity is
# infinity. Ends with 0 while that is so, with 1 once it has changed.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q mindstudio-probe==26.2.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata
import importlib.util
import math
import os
import sys


def hifloat8(code):
    """HiFloat8 by its definition: a sign, a dot of two to four bits, exponent and mantissa."""
    sign, rest = -1.0 if code & 128 else 1.0, code & 127
    if rest < 8:  # denormal
        if rest == 0:
            return math.nan if code & 128 else 0.0
        return sign * 2.0 ** (rest - 23)
    if rest >> 5:
        bits, left = (rest >> 5) + 1, 5
    elif rest >> 4:
        bits, left = 1, 4
    else:
        bits, left = 0, 3
    width = left - bits
    exponent, mantissa = rest >> width & (1 << bits) - 1, rest & (1 << width) - 1
    if bits:  # a sign, and the bits behind a leading 1
        size = 1 << bits - 1 | exponent & (1 << bits - 1) - 1
        exponent = -size if exponent >> bits - 1 else size
    if exponent == 15 and mantissa:
        return sign * math.inf
    return sign * (1 + mantissa / (1 << width)) * 2.0**exponent


package = os.path.dirname(importlib.util.find_spec("msprobe").origin)
sys.path.insert(0, os.path.join(package, "msaccucmp"))
from conversion.dtype_conversion import hifloat8_to_float32

print("mindstudio-probe", importlib.metadata.version("mindstudio-probe"))
wrong = []
for code in range(256):
    right, seen = hifloat8(code), float(hifloat8_to_float32(code))
    if right != seen and not (math.isnan(right) and math.isnan(seen)):
        wrong.append("0x%02x expected %s, seen %s" % (code, right, seen))
print("codes that differ:", len(wrong), wrong[:3])
sys.exit(0 if len(wrong) == 49 else 1)
PYTHON
