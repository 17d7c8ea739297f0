"""The command of docs/replay.md works, and its figures are those in force."""

from __future__ import annotations

import os
import shutil

from in_process import DOCS, run_page

from goldwatch.replay.limits import own_error_limits
from replaying import DATA


def test_the_command(device, tmp_path) -> None:
    for name in ("resblock.prototxt", "resblock.caffemodel"):
        shutil.copy(os.path.join(DATA, name), str(tmp_path / name))
    (tmp_path / "run").mkdir()
    device.folder = str(tmp_path / "run")
    device.write()
    (printed,) = run_page("replay.md", tmp_path, 1)
    assert printed.splitlines()[-2] == "No operator has an error of its own."


def test_the_limits_are_those_of_the_page() -> None:
    with open(os.path.join(DOCS, "replay.md"), encoding="utf-8") as stream:
        text = stream.read()
    assert "5 u = %.3g |" % own_error_limits([1], "float16")[0] in text
    assert "(5 + √n / 4) u, at most %g | 2.5 times that, at most %g |" % tuple(own_error_limits([10**9], "float16")) in text
    assert "at most %g and %g." % tuple(own_error_limits([10**9], "bfloat16")) in text
