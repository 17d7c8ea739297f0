"""A model with every kind of tensor that the stand-in writes."""

from __future__ import annotations

import os
from typing import Any, Dict

import numpy as np
import pytest

from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor


def make_model(ops: int = 6, name: str = "net") -> DeviceModel:
    """data -> Cast -> op/0 -> op/1 ... in turns NC1HWC0, FRACTAL_NZ and ND."""
    random = np.random.RandomState(5)
    model = DeviceModel(name)
    data = random.standard_normal((2, 3, 6, 5)).astype(np.float32)
    model.add(DeviceOp("data", "Data", (), (DeviceTensor(data, "NCHW", "NCHW", "data"),)))
    model.add(
        DeviceOp(
            "trans_Cast_0",
            "Cast",
            (("data", 0),),
            (DeviceTensor(data.astype(np.float16), "NCHW", "NCHW", "data"),),
            (),
        )
    )
    source = ("trans_Cast_0", 0)
    for number in range(ops):
        shape, layout, origin = (
            ((2, 19, 6, 5), "NC1HWC0", "NCHW"),
            ((18, 35), "FRACTAL_NZ", "ND"),
            ((7, 11), "ND", "ND"),
        )[number % 3]
        values = random.standard_normal(shape).astype(np.float16)
        output = DeviceTensor(values, layout, origin, "op/%d" % number)
        model.add(DeviceOp("op/%d" % number, "Conv2D", (source,), (output,), ("op/%d" % number,)))
        source = ("op/%d" % number, 0)
    model.add(DeviceOp("Node_Output", "NetOutput", (source,), (), ()))
    return model


@pytest.fixture
def model() -> DeviceModel:
    return make_model()


@pytest.fixture
def read_tree() -> Any:
    def read(root: Any) -> Dict[str, bytes]:
        found = {}
        for folder, _, names in os.walk(str(root)):
            for name in names:
                with open(os.path.join(folder, name), "rb") as stream:
                    found[os.path.relpath(os.path.join(folder, name), str(root))] = stream.read()
        return found

    return read
