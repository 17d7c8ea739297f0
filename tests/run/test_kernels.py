"""numpy and the compiled kernel give the same rows."""

from __future__ import annotations

import json
import math
import os

import pytest
from in_process import make_dumps, run_here
from kernels import KERNELS, using


def numbers(value):
    """All numbers in a metric's value, which are texts where they are not finite, and nothing where
    there is no result.
    """
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers(part)]
    return [math.nan if value is None else float(value)]


def test_all_kernels_give_the_same_rows(tmp_path):
    make_dumps(str(tmp_path))
    found = []
    for name in KERNELS:
        with using(name):
            done = run_here(
                [
                    "goldwatch",
                    "compare",
                    "dump",
                    "golden",
                    "-f",
                    "model.json",
                    "-o",
                    name,
                    "--jobs",
                    "1",
                ],
                str(tmp_path),
            )
        assert done.returncode in (0, 1), done.stderr
        with open(os.path.join(str(tmp_path), name, "result.json")) as stream:
            found.append(json.load(stream)["rows"])
    assert found[0]
    for rows in found[1:]:
        assert len(rows) == len(found[0])
        for row, want in zip(rows, found[0]):
            metrics, wanted = row.pop("metrics"), want.get("metrics")
            assert row == {key: value for key, value in want.items() if key != "metrics"}
            for metric in wanted:
                assert numbers(metrics[metric]) == pytest.approx(
                    numbers(wanted[metric]), rel=1e-12, abs=1e-12, nan_ok=True
                )
