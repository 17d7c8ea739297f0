"""A small residual network with fused device dumps, its om json, and real Caffe's golden data."""

from __future__ import annotations

import json
import os
import sys

import jsonschema
import numpy as np
import pytest
from in_process import run_here

from goldwatch.base.naming import compose_golden_name
from goldwatch.schemas import load_schema

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock"
)
NET = os.path.join(DATA, "resblock.prototxt")
WEIGHTS = os.path.join(DATA, "resblock.caffemodel")


@pytest.fixture(scope="session")
def device(tmp_path_factory):
    """Return a folder with model.json, dump and golden of resblock."""
    folder = tmp_path_factory.mktemp("device")
    words = [
        "caffe",
        NET,
        WEIGHTS,
        str(folder),
        "-i",
        "data=" + os.path.join(DATA, "input_data.npy"),
    ]
    done = run_here([sys.executable, "-m", "goldwatch.testing", *words])
    assert done.returncode == 0, done.stderr
    (folder / "golden").mkdir()
    with np.load(os.path.join(DATA, "expected_layer_outputs.npz")) as values:
        for number, key in enumerate(name for name in values.files if "_split" not in name):
            name, index = key.rsplit(":", 1)
            np.save(
                str(
                    folder
                    / "golden"
                    / compose_golden_name(name, int(index), 1700000000000000 + number)
                ),
                values[key],
            )
    return folder


@pytest.fixture
def device_options(device):
    """Return the options of all that goes with resblock."""
    return ["--om", device / "model.json", "--dump", device / "dump", "--golden", device / "golden"]


@pytest.fixture
def cut(tmp_path):
    """Return a function that runs ``goldwatch submodel``; what it prints is checked against the
    schema where it is JSON.
    """

    def run(*words, model=NET, out=True, code=0):
        command = ["goldwatch", "submodel", model, *words] + (
            ["-o", tmp_path / "out"] if out else []
        )
        done = run_here(command, tmp_path)
        assert done.returncode == code, (done.returncode, done.stdout[-500:], done.stderr)
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.fixture
def exported(cut):
    """Return a function that exports and gives (folder, document)."""

    def run(*words, **more):
        folder = cut(*words, **more).stdout.strip()
        with open(os.path.join(folder, "submodel.json"), encoding="utf-8") as stream:
            document = json.load(stream)
        jsonschema.validate(document, load_schema("submodel"))
        return folder, document

    return run
