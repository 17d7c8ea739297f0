"""Values and errors of any magnitude in float64 are judged, and spoil no other row."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

VALUES = (1e-320, 1e-200, 1e-100, 1e-30, 1.0, 1e30, 1e100, 1e154, 1e200, 1e300)
ERRORS = (0.0, 1.0, 1.0, 1.0, 1.001, 1.5, -1.0, 1e-170, 1e50, 1e160, 1e200, 1e300, np.inf, np.nan)
TYPES = (
    "Conv2D",
    "Relu",
    "MatMul",
    "Softmax",
    "Sign",
    "Floor",
    "ReduceSum",
    "Add",
    "BatchNorm",
    "Cast",
    "ReduceMax",
)


def chain(scene, seed, errors=ERRORS, ops=14):
    """Ops one behind the other, each with values and an error of its own."""
    chance = np.random.RandomState(seed)
    scene.data(chance.standard_normal((4, 16)))
    last = "data"
    for number in range(ops):
        with np.errstate(all="ignore"):
            golden = chance.standard_normal((4, 16)) * chance.choice(VALUES)
            made = (
                golden
                * chance.choice(errors)
                * (1 + chance.choice([0, 1e-4, 0.3]) * chance.standard_normal((4, 16)))
            )
        name = "op%d" % number
        scene.op(name, str(chance.choice(TYPES)), [last], golden, made, dtype=np.float64, npy=False)
        np.save(os.path.join(scene.golden_dir, "%s.0.1767323045000000.npy" % name), golden)
        last = name


@pytest.mark.parametrize("model", [True, False])
@pytest.mark.parametrize("seed", range(16))
def test_values_of_any_magnitude_are_judged_without_errors(scene, seed, model):
    chain(scene, seed)
    code, summary, text = scene.compare(model=model)
    assert code in (0, 1, 3) and "rror:" not in text
    with open(os.path.join(scene.out, "result.json"), encoding="utf-8") as stream:
        rows = json.load(stream)["rows"]
    assert len(rows) >= 14 and not {
        row["reason"]
        for row in rows
        if "Error:" in row["reason"] or "please report" in row["reason"]
    }


def test_an_immeasurable_error_is_the_only_suspect(scene):
    values = np.linspace(1, 2, 8)
    scene.data(values)
    scene.made["data"] = values
    for number in range(10):
        made = values * (1e200 if number == 3 else 1.0)
        scene.op("op%d" % number, "Relu", ["data"], values, made, dtype=np.float64, npy=False)
        np.save(os.path.join(scene.golden_dir, "op%d.0.1767323045000000.npy" % number), values)
    code, summary, _ = scene.compare()
    assert (
        code == 1
        and summary["failed"] == 1
        and [suspect["op"] for suspect in summary["suspects"]] == ["op3"]
    )
