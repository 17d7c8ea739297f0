"""A frozen graph with the device's dumps: layouts, slices, fused ops, second outputs."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from wire_graph import const, node, typed

from goldwatch.base.protowire import field
from goldwatch.testing import DumpServer
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor

FLOAT = typed(1)
VALUES = np.random.RandomState(3).standard_normal((2, 3, 4, 20)).astype(np.float16)
PLACES = np.arange(8, dtype=np.int32).reshape(2, 4)


@pytest.fixture
def net(tmp_path):
    nodes = [
        node("x", "Placeholder", dtype=FLOAT, shape=field(7, b"")),
        const("w"),
        node("scope/conv", "Conv2D", "x", "w", T=FLOAT),
        node("scope/relu", "Relu", "scope/conv", T=FLOAT),
        node("top", "TopKV2", "scope/relu", "w", T=FLOAT),
        node("sig", "Sigmoid", "scope/relu", T=FLOAT),
        node("idx", "Cast", "top:1", SrcT=typed(3), DstT=FLOAT),
    ]
    (tmp_path / "net.pb").write_bytes(b"".join(nodes))
    model = DeviceModel("net")
    nhwc = {"origin_format": "NHWC", "format": "NC1HWC0"}
    model.add(DeviceOp("x", "Data", (), (DeviceTensor(VALUES, "NHWC", "NHWC", "x"),)))
    fused = ("scope/conv", "scope/relu")
    model.add(
        DeviceOp(
            "scope/convscope/relu",
            "Conv2D",
            (("x", 0),),
            (DeviceTensor(VALUES, origin_name="scope/relu", **nhwc),),
            fused,
        )
    )
    outputs = (
        DeviceTensor(VALUES[:, 0], origin_name="top"),
        DeviceTensor(PLACES, origin_name="top", origin_index=1),
    )
    model.add(DeviceOp("top", "TopKV2", (("scope/convscope/relu", 0),), outputs))
    doubled = DeviceTensor(VALUES * np.float16(2), origin_name="sig", **nhwc)
    model.add(DeviceOp("sig", "Sigmoid", (("scope/convscope/relu", 0),), (doubled,)))
    model.add(
        DeviceOp(
            "idx",
            "Cast",
            (("top", 1),),
            (DeviceTensor(PLACES.astype(np.float16), origin_name="idx"),),
        )
    )
    model.write_json(str(tmp_path / "om.json"))
    return model


@pytest.mark.parametrize("mode", ["all", "output", "input"])
def test_a_blocked_tensor_becomes_nhwc_again(net, exported, tmp_path, mode):
    DumpServer(str(tmp_path / "dump"), [dump.only(mode) for dump in net.dumps()]).run()
    folder, document = exported(
        "--start", "sig", "--end", "sig", "--om", "om.json", "--dump", "dump", model="net.pb"
    )
    (entry,) = document["inputs"]
    assert (entry["name"], entry["from"], entry["shape"], entry["dtype"]) == (
        "scope/relu",
        "target",
        [2, 3, 4, 20],
        "float32",
    )
    assert entry["npy"] == "input_data/scope_relu.npy"
    value = np.load(os.path.join(folder, entry["npy"]))
    assert value.dtype == np.float32 and np.array_equal(value, VALUES.astype(np.float32))
    assert {entry["role"] for entry in document["dumps"]} == {"op", "producer"}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_dump_in_slices_is_joined(net, exported, tmp_path, threads):
    DumpServer(str(tmp_path / "dump"), list(net.dumps(generation="ffts+", threads=threads))).run()
    folder, document = exported(
        "--start", "sig", "--end", "sig", "--om", "om.json", "--dump", "dump", model="net.pb"
    )
    assert np.array_equal(
        np.load(os.path.join(folder, document["inputs"][0]["npy"])), VALUES.astype(np.float32)
    )
    assert [entry["op"] for entry in document["dumps"]].count("sig") == threads


@pytest.mark.parametrize("addresses", [None, 1 << 20])
def test_an_input_that_its_op_overwrote_is_not_used(net, exported, tmp_path, addresses):
    net.ops[3] = replace(net.ops[3], in_place=0)
    DumpServer(str(tmp_path / "dump"), list(net.dumps(first_address=addresses))).run()
    folder, document = exported(
        "--start", "sig", "--end", "sig", "--om", "om.json", "--dump", "dump", model="net.pb"
    )
    assert "scope_convscope_relu" in document["inputs"][0]["source_file"]
    assert np.array_equal(
        np.load(os.path.join(folder, document["inputs"][0]["npy"])), VALUES.astype(np.float32)
    )


def test_another_output_is_recorded_with_its_own_type(net, exported, tmp_path):
    DumpServer(str(tmp_path / "dump"), list(net.dumps())).run()
    folder, document = exported(
        "--start", "idx", "--end", "idx", "--om", "om.json", "--dump", "dump", model="net.pb"
    )
    (entry,) = document["inputs"]
    assert (entry["name"], entry["tensor"], entry["dtype"], entry["bin_dtype"]) == (
        "top_1",
        "top:1",
        "int32",
        "int32",
    )
    assert np.array_equal(np.load(os.path.join(folder, entry["npy"])), PLACES)


def test_a_fused_op_that_spans_the_border_is_reported(net, exported, tmp_path):
    DumpServer(str(tmp_path / "dump"), list(net.dumps())).run()
    words = ["--start", "scope/relu", "--end", "sig", "--om", "om.json", "--dump", "dump"]
    _, document = exported(*words, "--shape", "scope/conv:0=2,3,4,20", model="net.pb", code=3)
    assert [(op["inside"], op["outside"], op["where"]) for op in document["spanning_ops"]] == [
        (["scope/relu"], ["scope/conv"], "start")
    ]
    _, document = exported(*words, "--whole-ops", model="net.pb")
    assert (document["start"], document["asked"]["start"], document["spanning_ops"]) == (
        ["scope/conv"],
        ["scope/relu"],
        [],
    )
    assert [layer["name"] for layer in document["layers"]] == [
        "w",
        "scope/conv",
        "scope/relu",
        "sig",
    ]
    assert [layer["ops"] for layer in document["layers"]][1:3] == [["scope/convscope/relu"]] * 2


@pytest.mark.parametrize("part", [("b", "c"), ("c", "c"), ("c", "z"), ("b", "q")])
def test_a_quantised_part_is_cut_as_a_whole(exported, tmp_path, part):
    chain = ["x", "b", "q", "c", "dq", "z"]
    types = ["Placeholder", "Relu", "AscendQuant", "Neg", "AscendDequant", "Relu"]
    nodes = [node("x", "Placeholder", dtype=FLOAT, shape=field(7, b""))]
    nodes += [
        node(name, kind, before, T=FLOAT) for name, kind, before in zip(chain[1:], types[1:], chain)
    ]
    (tmp_path / "net.pb").write_bytes(b"".join(nodes))
    model = DeviceModel("net")
    for place, (name, kind) in enumerate(zip(chain, types)):
        reads = ((chain[place - 1], 0),) if place else ()
        model.add(
            DeviceOp(
                name,
                "Data" if not place else kind,
                reads,
                (DeviceTensor(VALUES, origin_name=name),),
            )
        )
    model.write_json(str(tmp_path / "om.json"))
    words = ["--start", part[0], "--end", part[1], "--om", "om.json", "--whole-ops"]
    _, document = exported(*words, model="net.pb")
    first = "b" if part[0] == "b" else "q"
    last = "z" if part[1] == "z" else "dq"
    assert (document["start"], document["end"]) == ([first], [last])
