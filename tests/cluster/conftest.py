"""Real clusters of two worker processes on this machine, and dumps for them."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest
from dask_clusters import TIME, running_cluster
from in_process import run_here

from goldwatch.cluster import work_units
from goldwatch.dumps.write import TensorData, write_dump


@pytest.fixture(scope="module")
def shared_client():
    """A cluster for tests that leave it as it was."""
    with running_cluster() as client:
        yield client


@pytest.fixture
def small_batches(monkeypatch):
    """Many units and batches, however small the work is."""
    monkeypatch.setattr(work_units, "BATCH_S", 1e-3)


@pytest.fixture
def disposable_client():
    """A cluster for tests that harm it."""
    with running_cluster() as client:
        yield client


class Training:
    """Devices × steps of some ops, one of which goes wrong on device 1 from step 1 on; with a
    model, golden data and a damaged file.
    """

    def __init__(self, folder, devices=3, steps=3, ops=6):
        self.folder = str(folder)
        self.ops = ["op%d" % number for number in range(ops)]
        random = np.random.RandomState(3)
        golden = {op: random.standard_normal(32).astype(np.float32) for op in self.ops}
        os.makedirs(self.path("golden"))
        for number, op in enumerate(self.ops):
            np.save(self.path("golden", "%s.0.17000000000000%02d.npy" % (op, number)), golden[op])
        for device in range(devices):
            for step in range(steps):
                place = self.path("dump", TIME, str(device), "net", "1", str(step))
                os.makedirs(place)
                for number, op in enumerate(self.ops):
                    wrong = device == 1 and step and number > 2
                    values = (
                        golden[op] * (1 + 1e-3 * random.standard_normal(32))
                        if not wrong
                        else random.standard_normal(32)
                    )
                    inputs = [self._tensor(golden[self.ops[number - 1]])] if number else []
                    path = os.path.join(
                        place, "Relu.%s.%d.0.17000000010000%02d" % (op, number, number)
                    )
                    write_dump(path, inputs, [self._tensor(values)], op_name=op)
        # An op that the model does not know, and a file that was cut.
        write_dump(
            os.path.join(place, "Foo.extra.9.0.1700000001000090"),
            [],
            [self._tensor(values)],
            op_name="extra",
        )
        with open(path, "r+b") as stream:
            stream.truncate(40)
        self.flat = place
        ops_of_model = [
            {"name": op, "type": "Relu", "id": number,
            "input": [self.ops[number - 1] + ":0"] if number else [],
             "output_desc": [{"layout": "ND"}], "attr": []}
            for number, op in enumerate([*self.ops, "never_dumped"])
        ]  # fmt: skip
        ops_of_model[-1]["input"] = []
        with open(self.path("net.json"), "w", encoding="utf-8") as stream:
            json.dump({"graph": [{"name": "net", "op": ops_of_model}]}, stream)

    @staticmethod
    def _tensor(values):
        return TensorData(values.astype(np.float32), format="ND", original_shape=values.shape)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def compare(self, out, *options, target="dump"):
        """Compare in this process, with relative paths."""
        return run_here(
            ["goldwatch", "compare", target, "golden", "-f", "net.json", "-o", out, *options],
            self.folder,
        )

    def results(self, out):
        """Return the result files by their names but for the run's time."""
        folder = self.path(out)
        found = {}
        for name in os.listdir(folder):
            if name.endswith((".csv", ".json")):
                with open(os.path.join(folder, name), "rb") as stream:
                    found[re.sub(r"_20\d{12}", "", name)] = stream.read()
        return found

    def rows(self, out):
        return json.loads(self.results(out)["result.json"].decode())["rows"]


@pytest.fixture
def training(tmp_path):
    return Training(tmp_path)
