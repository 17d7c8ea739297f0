"""The commands of docs/submodel.md work."""

from __future__ import annotations

import os
import shutil

from in_process import run_here, run_page

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock")


def test_commands(device, tmp_path):
    for suffix in (".prototxt", ".caffemodel"):
        shutil.copy(os.path.join(DATA, "resblock" + suffix), str(tmp_path / ("net" + suffix)))
    for name in ("dump", "golden"):
        shutil.copytree(str(device / name), str(tmp_path / name))
    shutil.copy(str(device / "model.json"), str(tmp_path / "model.json"))
    compared = ["goldwatch", "compare", "dump", "golden", "-f", "model.json", "-o", "out", "--limit", "RelativeEuclideanDistance<1e-9"]
    assert run_here(compared, tmp_path).returncode == 1
    printed = run_page("submodel.md", tmp_path, 5)
    assert len(printed[0].splitlines()) == 26 and len(os.listdir(str(tmp_path / "cuts"))) == 3
    assert len(printed[4].split()) == len(os.listdir(str(tmp_path / "ladder"))) > 1
