"""Replays of other fusions: none at all, and a residual sum within the convolution before it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from replay_device import culprits, reasons

from goldwatch.testing import caffe_device


def layers_apart(device, monkeypatch, **op_faults):
    """Every layer is an op of its own, also those that work in place on their blob."""
    monkeypatch.setattr(caffe_device, "_ABSORBED", ())
    return device.network.with_op_faults(op_faults).model()


@pytest.mark.parametrize("mode", ["all", "output"])
@pytest.mark.parametrize(
    "op", ["bn_conv1", "scale2a_branch2a", "conv1_relu", "res2a", "drop", None]
)
def test_a_model_without_fusions_replays_layer_by_layer(device, monkeypatch, op, mode) -> None:
    faults = {} if op is None else {op: "scale:1.03"}
    model = layers_apart(device, monkeypatch, **faults)
    assert len([entry for entry in model.dumped_ops() if entry.originals]) == 24
    device.write(model=model, mode=mode)
    result = device.replay()
    assert reasons(result) == {} and culprits(result) == ([] if op is None else [op])


def fused_sum(device, **op_faults):
    """res2a_branch2b takes the sum and its ReLU in, so that it reads the other branch as well."""
    model = device.network.with_op_faults(op_faults).model()
    conv, total = (
        next(op for op in model.ops if op.name == name)
        for name in ("res2a_branch2b", "res2ares2a_relu")
    )
    other = [source for source in total.inputs if source[0] != conv.name]
    fused = replace(
        total,
        name="res2a_branch2bres2ares2a_relu",
        type="Conv2D",
        inputs=(conv.inputs[0], conv.inputs[1], *other),
        originals=conv.originals + total.originals,
    )
    renamed = {total.name: fused.name}
    ops = [fused if op is total else op for op in model.ops if op is not conv]
    model.ops = [
        replace(op, inputs=tuple((renamed.get(name, name), index) for name, index in op.inputs))
        for op in ops
    ]
    return model


@pytest.mark.parametrize("mode", ["all", "output"])
@pytest.mark.parametrize("wrong", ["res2a_branch2b", "res2ares2a_relu", None])
def test_a_sum_fused_into_the_convolution_before_it_is_replayed(device, wrong, mode) -> None:
    """The stand-in rounds the convolution before it adds, a real device need not: that is within
    the limits.
    """
    device.write(
        model=fused_sum(device, **({} if wrong is None else {wrong: "scale:1.05"})), mode=mode
    )
    result = device.replay()
    assert reasons(result) == {} and culprits(result) == (
        [] if wrong is None else ["res2a_branch2bres2ares2a_relu"]
    )


@pytest.mark.parametrize("mode", ["all", "output"])
def test_the_networks_input_replaces_what_the_compiler_puts_before_the_first_layer(
    device, mode
) -> None:
    """As AIPP, which makes the network's input from an image: no layer has its value but the input
    itself.
    """
    model = device.network.with_op_faults({"fc": "scale:1.1"}).model()
    data = next(op for op in model.ops if op.name == "trans_Cast_0")
    held = tuple(replace(output, origin_name=None) for output in data.outputs)
    model.ops = [replace(op, type="Aipp", outputs=held) if op is data else op for op in model.ops]
    device.write(model=model, mode=mode)
    result = device.replay()
    assert reasons(result) == {} and culprits(result) == ["fc"]


def test_inputs_in_another_order_are_matched_by_shape_and_value(device) -> None:
    model = device.network.model()
    model.ops = [
        replace(op, inputs=op.inputs[::-1]) if op.name in ("cat", "res2ares2a_relu") else op
        for op in model.ops
    ]
    device.write(model=model)
    result = device.replay()
    assert reasons(result) == {} and culprits(result) == []


def test_one_value_may_feed_an_op_twice_in_a_replay(device, tmp_path) -> None:
    with open(device.prototxt, encoding="ascii") as stream:
        text = stream.read().replace(
            'bottom: "res2a_branch1" bottom: "res2a_branch2b"', 'bottom: "pool1" bottom: "pool1"'
        )
    text = text.replace("slice_point: 6", "slice_point: 3").replace(
        'type: "InnerProduct"', 'type: "ReLU"'
    )
    path = tmp_path / "twice.prototxt"
    path.write_text(text.replace("inner_product_param { num_output: 10 }", ""))
    device.prototxt, device.network = str(path), replace(device.network, prototxt=str(path))
    device.write({"res2ares2a_relu": "scale:1.1"})
    result = device.replay(weights=device.weights_file)
    assert reasons(result) == {} and culprits(result) == ["res2ares2a_relu"]
