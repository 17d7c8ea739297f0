"""Replays of hand-made chains: custom and random layers, other forms of prototxt, quantised
parts.
"""

from __future__ import annotations

import numpy as np
import pytest
from replay_device import culprits, outputs, reasons

from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 dim: 6 dim: 6 } } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
layer { name: "mine" type: "%s" bottom: "relu" top: "mine" }
layer { name: "abs" type: "AbsVal" bottom: "mine" top: "abs" }
"""  # noqa: E501
V1 = """
input: "data" input_dim: 1 input_dim: 4 input_dim: 6 input_dim: 6
layers { name: "relu" type: RELU bottom: "data" top: "relu" }
layers { name: "mine" type: SIGMOID bottom: "relu" top: "mine" }
layers { name: "abs" type: ABSVAL bottom: "mine" top: "abs" }
"""
LISTED = """
state { stage: "deploy" }
layer: [ { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 dim: 6 dim: 6 } } },
  # a comment
  < name: "relu" type: "ReLU" bottom: "data" top: "relu" >, { name: "mine" type: "Sigmoid" bottom: "relu" top: "mine"
    include { stage: "deploy" } }, { name: "abs" type: "AbsVal" bottom: "mine" top: "abs" } ]
"""  # noqa: E501


def chain(device, kind, stretch=False, text=NET):
    """data → relu → mine → abs by hand, each its own op; with a quantised stretch around mine."""
    x = np.random.RandomState(2).standard_normal((1, 4, 6, 6)).astype(np.float16)
    model = DeviceModel("chain")
    model.add(DeviceOp("data", "Data", (), (DeviceTensor(x, origin_name="data"),)))
    model.add(
        DeviceOp(
            "relu",
            "Relu",
            (("data", 0),),
            (DeviceTensor(np.maximum(x, 0), "NC1HWC0", origin_name="relu"),),
            ("relu",),
        )
    )
    before = ("relu", 0)
    if stretch:
        held = (DeviceTensor(np.maximum(x, 0), origin_name="relu"),)
        model.add(DeviceOp("q", "AscendQuant", (before,), held, (), quantisation=(1.0, 0.0)))
        before = ("q", 0)
    model.add(
        DeviceOp(
            "mine",
            kind,
            (before,),
            (DeviceTensor(np.maximum(x, 0), "NC1HWC0", origin_name="mine"),),
            ("mine",),
        )
    )
    before = ("mine", 0)
    if stretch:
        model.add(
            DeviceOp(
                "dq",
                "AscendDequant",
                (before,),
                (DeviceTensor(np.maximum(x, 0), origin_name="mine"),),
                ("mine",),
            )
        )
        before = ("dq", 0)
    model.add(
        DeviceOp(
            "abs",
            "Abs",
            (before,),
            (DeviceTensor(np.maximum(x, 0), "NC1HWC0", origin_name="abs"),),
            ("abs",),
        )
    )
    path = device.path("chain.prototxt")
    with open(path, "w", encoding="ascii") as stream:
        stream.write(text % kind if "%s" in text else text)
    device.write(model=model)
    return device.replay(original=path, weights=None)


def test_a_custom_layer_leaves_only_its_op_unreplayed(device) -> None:
    result = chain(device, "MyOwnLayer")
    told = reasons(result)
    assert (
        list(told) == ["mine"]
        and told["mine"].startswith("not replayed: ")
        and "MyOwnLayer" in told["mine"]
    )
    assert (
        outputs(result) == {"relu": "pass", "mine": "not_compared", "abs": "pass"}
        and result.exit_code == 3
    )


def test_a_random_layer_is_not_replayed(device) -> None:
    assert reasons(chain(device, "DummyData")) == {
        "mine": "not replayed: mine (DummyData) gives other values each time"
    }


@pytest.mark.parametrize("text", [V1, LISTED])
def test_other_forms_of_prototxt_are_replayed(device, text) -> None:
    """The device's mine is a ReLU, the original's a Sigmoid: both forms say so."""
    result = chain(device, "Sigmoid", text=text)
    assert reasons(result) == {} and culprits(result) == ["mine"]


def test_ops_in_a_quantised_part_are_not_replayed_with_the_reason(device) -> None:
    told = reasons(chain(device, "Sigmoid", stretch=True))
    assert {told[op] for op in ("q", "mine", "dq")} == {
        "not replayed: in a quantised stretch, which the original model does not have"
    }
