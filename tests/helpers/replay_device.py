"""The ResNet block on the stand-in device, healthy or with faults, and its replay."""

from __future__ import annotations

import os

from goldwatch.netfiles.caffemodel import read_weights
from goldwatch.run.replay.options import ReplayOptions
from goldwatch.run.replay.run import replay
from goldwatch.testing import CaffeNetwork
from goldwatch.testing.device_dump import write_files

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock"
)


class Device:
    """A network, and where its dumps and results go."""

    def __init__(self, folder, prototxt, weights, inputs, name="resblock"):
        self.folder, self.prototxt = str(folder), prototxt
        self.weights_file = weights
        self.network = CaffeNetwork(prototxt, read_weights(weights), inputs, name)

    def write(self, op_faults=None, mode="all", model=None, where="dump"):
        """Run it and write its dumps and json; return the dumps' folder."""
        made = model or self.network.with_op_faults(op_faults or {}).model()
        made.write_json(self.path("model.json"))
        write_files(self.path(where), [dump.only(mode) for dump in made.dumps()])
        return self.path(where)

    def replay(self, **options):
        """Replay what was written."""
        chosen = {
            "target": self.path("dump"),
            "original": self.prototxt,
            "model": self.path("model.json"),
            "out": self.path("out"),
        }
        chosen.update({"backend": "numpy", **options})
        chosen.setdefault(
            "weights", self.weights_file if chosen["original"] == self.prototxt else None
        )
        return replay(ReplayOptions(**chosen))

    def path(self, name):
        return os.path.join(self.folder, name)


def culprits(result):
    return [entry["op"] for entry in result.summary.culprits]


def reasons(result):
    """Of each op that was not replayed the reason."""
    return {row.op: row.reason for row in result.rows("not_compared")}


def outputs(result):
    return {row.op: row.verdict for row in result.rows() if row.verdict != "expected_absent"}
