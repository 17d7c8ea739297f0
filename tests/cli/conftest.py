"""Something for every command to do: a network of two ops (one of them wrong), a configuration, a
listing, a net.
"""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest

from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor

TIMESTAMP = 1767323045000000
LISTING = """4 dumped tensor(s):

t (ms)      Size (B) Op type     Tensor name
[0.000]     100      Placeholder input:0
[1.000]     100      Relu        a/relu:0
"""
NET = """name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "data" }
"""


def write_network(folder, wrong=True, op_name="second"):
    """Write ``dump``, ``golden`` and ``net.json`` into a folder."""
    os.makedirs(os.path.join(folder, "golden"))
    data = np.linspace(-1, 1, 24).astype(np.float32).reshape(1, 2, 3, 4)
    model, source = DeviceModel("net"), ("data", 0)
    model.add(DeviceOp("data", "Data", (), (DeviceTensor(data, "NCHW", "NCHW", "data"),)))
    for name, value in (("first", data * 2), (op_name, data[:, ::-1] if wrong else data)):
        model.add(
            DeviceOp(name, "Relu", (source,), (DeviceTensor(value, "NCHW", "NCHW", name),), (name,))
        )
        source = (name, 0)
    model.write_tree(os.path.join(folder, "dump"))
    model.write_json(os.path.join(folder, "net.json"))
    for name, value in (("data", data), ("first", data * 2), (op_name, data)):
        safe = re.sub("[^A-Za-z0-9_-]", "_", name)
        np.save(os.path.join(folder, "golden", "%s.0.%d.npy" % (safe, TIMESTAMP)), value)


@pytest.fixture
def make_network():
    return write_network


@pytest.fixture(scope="session")
def network(tmp_path_factory):
    """Return a folder with everything in it; its network fails."""
    folder = str(tmp_path_factory.mktemp("cli"))
    write_network(folder)
    dump_path = os.path.join(folder, "dumps")
    os.makedirs(dump_path)
    plan = {
        "dump": {
            "dump_list": [{"model_name": "net"}],
            "dump_path": dump_path,
            "dump_mode": "output",
            "dump_op_switch": "off",
        }
    }
    for name, text in (("acl.json", json.dumps(plan)), ("listing", LISTING), ("net.prototxt", NET)):
        with open(os.path.join(folder, name), "w") as stream:
            stream.write(text)
    return folder
