"""Outputs of a device model whose ops were replaced."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor


def test_outputs_are_those_of_the_models_present_ops():
    model = DeviceModel("net")
    model.add(
        DeviceOp("data", "Data", (), (DeviceTensor(np.zeros(3, np.float32), "ND", "ND", "data"),))
    )
    assert not model.output("data").array.any()
    model.ops = [
        replace(op, outputs=(replace(op.outputs[0], array=np.ones(3, np.float32)),))
        for op in model.ops
    ]
    assert model.output("data").array.all()
