"""Replay of an ONNX model: the stand-in's network as exported, and what only ONNX has."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace as changed

import numpy as np
import onnx
import onnx_graphs
import onnx_models as build
import onnx_networks as networks
import pytest
from caffe_as_onnx import AsOnnx
from in_process import run_here
from onnx import TensorProto, helper
from onnx_device import on_device, write_model
from replay_device import culprits, reasons

from goldwatch.base.errors import EnvironmentProblem, UsageError
from goldwatch.base.naming import compose_golden_name
from goldwatch.cli.user_code_options import read_limit_texts
from goldwatch.run.replay.options import ReplayOptions
from goldwatch.run.replay.run import replay
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor
from goldwatch.testing.device_dump import write_files

FLOAT = TensorProto.FLOAT
FAULTS = {
    "conv1": "stale-filter", "res2a_branch1": "pad", "res2a_branch2b": "epsilon:0.3",
    "pool1": "pooling", "slice": "scale:1.03",
    "cat": "axis", "fc": "no-bias", "gap": "saturation", "prob": "scale:1.05",
    "res2ares2a_relu": "c0-slot",
}  # fmt: skip


def half(array):
    return np.asarray(array, np.float32).astype(np.float16)


def run(folder, net, model, mode="all", **options):
    """Replay a device's model; ``net`` is a ModelProto or where one lies."""
    path = net if isinstance(net, str) else build.save(folder / "net.onnx", net)
    write_files(str(folder / "dump"), [dump.only(mode) for dump in model.dumps()])
    om = model.write_json(str(folder / "model.json"))
    return replay(
        ReplayOptions(
            target=str(folder / "dump"),
            original=path,
            model=om,
            out=str(folder / "out"),
            **options,
        )
    )


def as_onnx(device, dtype=np.float32):
    shapes = {name: np.shape(values) for name, values in device.network.inputs.items()}
    return AsOnnx(device.prototxt, device.network.weights, shapes, dtype)


def wrong_op(device, start):
    return next(
        op.name
        for op in device.network.model().dumped_ops()
        if op.name.startswith(start) and op.type not in ("Cast", "TransData")
    )


@pytest.mark.parametrize("mode", ["all", "output"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_healthy_onnx_network_has_no_culprit(device, tmp_path, dtype, mode) -> None:
    made = as_onnx(device, np.dtype(dtype))
    assert [node.name for node in made.model.graph.node if node.op_type == "Relu"] == [""] * 3
    result = run(tmp_path, made.model, made.renamed(device.network.model()), mode)
    assert reasons(result) == {} and culprits(result) == [] and result.exit_code == 0
    assert len(list(result.rows("pass"))) == 13
    assert max(row.metrics["RelativeEuclideanDistance"] for row in result.rows("pass")) < 1e-3


@pytest.mark.parametrize("op", sorted(FAULTS))
def test_the_wrong_op_of_an_onnx_network_is_the_culprit(device, tmp_path, op) -> None:
    op, fault = wrong_op(device, op), FAULTS[op]
    made = as_onnx(device)
    result = run(
        tmp_path, made.model, made.renamed(device.network.with_op_faults({op: fault}).model())
    )
    assert culprits(result) == [op] and result.exit_code == 1 and reasons(result) == {}


def bfloat16(net):
    """The model with its weights, inputs and outputs in bfloat16."""
    kept = []
    for tensor in net.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype == np.float32:
            bits = (values.view(np.uint32) >> np.uint32(16)).astype("<u2")
            tensor = helper.make_tensor(
                tensor.name, TensorProto.BFLOAT16, tensor.dims, bits.tobytes(), raw=True
            )
        kept.append(tensor)
    del net.graph.initializer[:]
    net.graph.initializer.extend(kept)
    for value in [*net.graph.input, *net.graph.output]:
        value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    return net


@pytest.mark.parametrize("fault", [None, "scale:1.05"])
def test_a_bfloat16_model_is_replayed_in_float32(device, tmp_path, fault) -> None:
    """No kernel of the processor takes it: the parts compute in float32."""
    made = as_onnx(device)
    op = wrong_op(device, "res2a_branch2b")
    device_model = made.renamed(
        device.network.with_op_faults({} if fault is None else {op: fault}).model()
    )
    loose = read_limit_texts(["RelativeEuclideanDistance=0.02", "WorstSliceDistance=0.05"])
    result = run(tmp_path, bfloat16(made.model), device_model, limits=loose)
    assert reasons(result) == {} and culprits(result) == ([] if fault is None else [op])


class Ops:
    """A device's model, op by op."""

    def __init__(self):
        self.model = DeviceModel("net")

    def data(self, name, values):
        self.model.add(DeviceOp(name, "Data", (), (DeviceTensor(values, "ND", "ND", name),)))
        return np.asarray(values, np.float32)

    def op(self, name, kind, inputs, values, originals=None, origin=None, index=0):
        originals = (name,) if originals is None else originals
        stored = [value if np.asarray(value).dtype.kind == "i" else half(value) for value in values]
        made = tuple(
            DeviceTensor(value, "ND", "ND", origin or originals[-1], index + number)
            for number, value in enumerate(stored)
        )
        self.model.add(
            DeviceOp(name, kind, tuple((source, 0) for source in inputs), made, originals)
        )
        return [
            np.asarray(value.array, np.float32 if value.array.dtype.kind == "f" else None)
            for value in made
        ]


X = half(np.random.RandomState(3).standard_normal((2, 6, 8)))


def test_several_outputs_and_omitted_outputs_are_replayed(tmp_path) -> None:
    net = onnx_graphs.Builder()
    net.node("TopK", ["x", net.put("k", np.int64([3]))], ["v", "i"], "topk")
    net.node(
        "LSTM",
        ["x", net.weight("W", 1, 32, 8), net.weight("R", 1, 32, 8)],
        ["", "h", "c"],
        "lstm",
        hidden_size=8,
    )
    proto = net.model([("x", FLOAT, [2, 6, 8])], [("v", FLOAT, None), ("c", FLOAT, None)])
    truth = onnx_graphs.all_values(proto, {"x": X.astype(np.float32)})
    for wrong, found in (("", []), ("lstm", ["lstm"])):
        ops = Ops()
        ops.data("x", X)
        ops.op("topk", "TopKV2", ["x"], [truth["v"], truth["i"].astype(np.int32)])
        scale = np.float32(1.05 if wrong else 1)
        ops.op("lstm", "DynamicRNN", ["x"], [truth["h"] * scale, truth["c"]], index=1)
        folder = tmp_path / ("a" + wrong)
        folder.mkdir()
        result = run(folder, proto, ops.model)
        assert reasons(result) == {} and culprits(result) == found
        seen = {(row.op, row.golden_file.split(".")[1]) for row in result.rows() if row.golden_file}
        assert seen >= {("topk", "0"), ("topk", "1"), ("lstm", "1"), ("lstm", "2")}


def conv1d():
    """A 1-D convolution, of which the device makes one of two dims, and a Reshape whose shape the
    model computes.
    """
    net = onnx_graphs.Builder()
    net.node("Conv", ["x", net.weight("w", 4, 6, 3)], ["c"], "conv", pads=[1, 1])
    net.node("Relu", ["c"], ["r"])
    net.node("Shape", ["r"], ["s"], "shape")
    net.node("Gather", ["s", net.put("zero", np.int64(0))], ["n"], "gather")
    net.node("Unsqueeze", ["n", net.put("axis", np.int64([0]))], ["n1"], "unsqueeze")
    net.node("Concat", ["n1", net.put("rest", np.int64([-1]))], ["t"], "target", axis=0)
    net.node("Reshape", ["r", "t"], ["f"], "flat")
    net.node("MatMul", ["f", net.weight("m", 32, 5)], ["y"], "fc")
    return net.model([("x", FLOAT, ["batch", 6, 8])], [("y", FLOAT, ["batch", 5])])


def conv1d_device(truth, wrong=""):
    """As the om has it, weights are among the originals of a fused op, a name may be there
    twice.
    """
    ops = Ops()
    ops.data("x", X.reshape(2, 6, 1, 8))
    made = truth["r"].reshape(2, 4, 1, 8) * np.float32(1.05 if wrong == "conv" else 1)
    ops.op("convRelu_0", "Conv2D", ["x"], [made], ("conv", "conv", "w_4", "Relu_0"), "Relu_0")
    weights = np.array([[1.0]]) if wrong != "fc" else np.array([[1.1]])
    ops.op("fc", "MatMulV2", ["convRelu_0"], [truth["y"] * weights], ("fc",))
    return ops.model


@pytest.mark.parametrize("wrong", ["", "fc"])
@pytest.mark.parametrize("told", [True, False])
def test_axes_that_the_device_adds_and_folded_shapes_are_replayed(tmp_path, told, wrong) -> None:
    proto = conv1d()
    truth = onnx_graphs.all_values(proto, {"x": X.astype(np.float32)})
    model = conv1d_device(truth, wrong)
    result = run(tmp_path, onnx.shape_inference.infer_shapes(proto) if told else proto, model)
    assert reasons(result) == {} and culprits(result) == ([wrong] if wrong else [])
    assert [row.op for row in result.rows("pass")] + culprits(result) == ["convRelu_0", "fc"]


def test_a_node_that_became_several_ops_is_replayed_by_its_last_op(tmp_path) -> None:
    """The last one holds the node's value; what the first hands it is a value of nobody's, and not
    the node's input.
    """
    net = onnx_graphs.Builder()
    net.node("Relu", ["x"], ["r"], "relu")
    net.node("Softmax", ["r"], ["y"], "soft", axis=1)
    proto = net.model([("x", FLOAT, [2, 6, 8])], [("y", FLOAT, None)])
    truth = onnx_graphs.all_values(proto, {"x": X.astype(np.float32)})
    ops = Ops()
    ops.data("x", X)
    ops.op("relu", "Relu", ["x"], [truth["r"]])
    moved = DeviceTensor(half(truth["r"].transpose(0, 2, 1)), "ND", "ND")
    ops.model.add(
        DeviceOp(
            "PartitionedCall_soft_Transpose_1", "TransposeD", (("relu", 0),), (moved,), ("soft",)
        )
    )
    ops.op(
        "PartitionedCall_soft_Softmax_2",
        "SoftmaxV2",
        ["PartitionedCall_soft_Transpose_1"],
        [truth["y"]],
        ("soft",),
    )
    result = run(tmp_path, proto, ops.model)
    assert culprits(result) == [] and reasons(result) == {}
    assert [row.op for row in result.rows("pass")] == ["relu", "PartitionedCall_soft_Softmax_2"]


def odd():
    """A custom op, a random one, a Dropout that drops, an If, and a Relu behind each."""
    net = onnx_graphs.Builder()
    net.node("Odd", ["x"], ["o"], "odd", domain="mine")
    net.node("Relu", ["o"], ["r1"], "relu1")
    net.node("RandomNormalLike", ["r1"], ["n"], "noise")
    net.node("Dropout", ["r1", "", net.put("train", np.bool_(True))], ["d"], "drop")
    then, other = (
        helper.make_graph(
            [helper.make_node(op, ["r1"], [op], name="inner")], op, [], [build.value(op, None)]
        )
        for op in ("Neg", "Abs")
    )
    net.node(
        "If", [net.put("yes", np.bool_(True))], ["i"], "cond", then_branch=then, else_branch=other
    )
    net.node("Add", ["n", "i"], ["y"], "add")
    proto = net.model([("x", FLOAT, [2, 6, 8])], [("y", FLOAT, None), ("d", FLOAT, None)])
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    return proto


def test_a_node_that_cannot_be_replayed_leaves_only_its_op_out(tmp_path) -> None:
    ops = Ops()
    x = ops.data("x", X)
    (o,) = ops.op("odd", "Odd", ["x"], [x * 2])
    (r,) = ops.op("relu1", "Relu", ["odd"], [np.maximum(o, 0)])
    (n,) = ops.op("noise", "RandomStandardNormal", ["relu1"], [r * 3])
    ops.op("drop", "Dropout", ["relu1"], [r])
    (i,) = ops.op("cond_0_then_branch/inner", "Neg", ["relu1"], [-r])
    ops.op("add", "Add", ["noise", "cond_0_then_branch/inner"], [(n + i) * 1.1])
    result = run(tmp_path, odd(), ops.model)
    told = reasons(result)
    assert culprits(result) == ["add"] and [row.op for row in result.rows("pass")] == ["relu1"]
    assert (
        told["odd"].startswith("not replayed: node odd (Odd")
        and "does not know this op" in told["odd"]
    )
    assert told["noise"] == "not replayed: noise (RandomNormalLike) gives other values each time"
    assert told["drop"].startswith("not replayed: drop (Dropout) is in training mode")
    assert "The original model has drop in training mode" in result.sentence
    assert "stay suspect: odd, noise, cond_0_then_branch/inner." in result.sentence
    assert (
        told["cond_0_then_branch/inner"]
        == "not replayed: cond_0_then_branch/inner is in the body of cond, which is not cut"
    )
    assert len(told) == 4


def test_a_model_with_external_data_in_a_read_only_folder_is_replayed(device, tmp_path) -> None:
    made = as_onnx(device, np.dtype("float16"))
    (tmp_path / "model").mkdir()
    path = build.with_external(tmp_path / "model" / "net.onnx", made.model)
    os.chmod(str(tmp_path / "model"), 0o555)
    result = run(
        tmp_path, path, made.renamed(device.network.with_op_faults({"fc": "no-bias"}).model())
    )
    assert reasons(result) == {} and culprits(result) == ["fc"]


def test_an_om_of_another_model_or_a_backend_for_another_model_is_refused(device, tmp_path) -> None:
    made = as_onnx(device)
    model = made.renamed(device.network.model())
    with pytest.raises(UsageError, match="the backend numpy does not run an ONNX model"):
        run(tmp_path, made.model, model, backend="numpy")
    os.rename(str(tmp_path / "dump"), str(tmp_path / "dump1"))
    with pytest.raises(
        UsageError, match="weights belong to a prototxt; an ONNX model holds its own"
    ):
        run(tmp_path, made.model, model, weights="w")
    os.rename(str(tmp_path / "dump"), str(tmp_path / "dump2"))
    model.ops = [changed(op, originals=("other_" + op.name,)) for op in model.ops]
    with pytest.raises(Exception, match="names .* original layers, of which"):
        run(tmp_path, made.model, model)


@pytest.mark.parametrize(
    "fault", [None, "/attn/k/Transpose", "/attn/MatMul_1", "/norm2/LayerNormalization", "/ff/1/Erf"]
)
def test_a_transformer_block_is_replayed_and_its_culprit_named(tmp_path, fault) -> None:
    path = build.save(tmp_path / "net.onnx", networks.transformer())
    x = half(np.random.RandomState(4).standard_normal((1, 8, 32)))
    model = on_device(
        path,
        {"x": x},
        (),
        None if fault is None else (fault, lambda array: array * np.float32(1.03)),
    )
    result = run(tmp_path, path, model)
    assert reasons(result) == {} and culprits(result) == ([] if fault is None else [fault])
    assert len(list(result.rows("pass"))) == 27 - (fault is not None)


def test_a_replay_that_names_an_operator_asks_for_no_model(tmp_path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("Mul", ["a", "x"], ["y"], name="last"),
    ]
    shape = (1, 3, 4, 4)
    proto = build.model(nodes, [build.value("x", shape)], [build.value("y", shape)])
    path = build.save(tmp_path / "net.onnx", proto)
    x = half(np.random.RandomState(4).standard_normal(shape))
    model = on_device(path, {"x": x}, (), ("last", lambda array: array * 2))
    assert culprits(run(tmp_path, path, model)) == ["last"]
    words = ["goldwatch", "replay", "dump", path, "-f", "model.json", "-o", "again"]
    done = run_here(words, tmp_path)
    assert done.returncode == 1 and "last (Mul) has an error of its own" in done.stdout
    assert "--original" not in done.stdout


@pytest.mark.parametrize("fault", [None, "relu", "neg"])
def test_shapes_computed_at_run_time_are_not_taken_for_values_of_a_tensor(tmp_path, fault) -> None:
    path = build.save(tmp_path / "net.onnx", networks.flattened_at_run_time())
    x = half(np.random.RandomState(4).standard_normal((2, 3, 4, 5)))
    model = on_device(
        path, {"x": x}, (), None if fault is None else (fault, lambda array: array * 2)
    )
    result = run(tmp_path, path, model)
    assert reasons(result) == {} and culprits(result) == ([] if fault is None else [fault])


def test_a_model_too_new_for_onnxruntime_is_refused_once(device, tmp_path) -> None:
    made = as_onnx(device)
    made.model.opset_import[0].version = 99
    with pytest.raises(EnvironmentProblem, match="opset 99 of ai.onnx; onnxruntime .* knows up to"):
        run(tmp_path, made.model, made.renamed(device.network.model()))


def test_a_python_without_onnxruntime_is_refused(device, tmp_path) -> None:
    made = as_onnx(device)
    empty = tmp_path / "python"
    empty.write_text('#!/bin/sh\nexec %s -I -S "$@"\n' % sys.executable)
    os.chmod(str(empty), 0o755)
    with pytest.raises(
        EnvironmentProblem,
        match=r"onnxruntime cannot be imported \(.*python: ModuleNotFoundError: No module named",
    ):
        run(tmp_path, made.model, made.renamed(device.network.model()), python=str(empty))
    assert not os.path.exists(str(tmp_path / "out"))


def test_a_failing_onnx_comparison_prints_the_replay_command(device, tmp_path) -> None:
    made = as_onnx(device)
    (tmp_path / "golden").mkdir()
    for op in made.renamed(device.network.model()).dumped_ops():
        for output in op.outputs:
            name = compose_golden_name(output.origin_name, output.origin_index, 1767323045000000)
            np.save(str(tmp_path / "golden" / name), np.asarray(output.array, np.float32))
    model = made.renamed(
        device.network.with_op_faults({"cat": "scale:1.05", "fc": "no-bias"}).model()
    )
    build.save(tmp_path / "net.onnx", made.model)
    write_files(str(tmp_path / "dump"), list(model.dumps()))
    model.write_json(str(tmp_path / "model.json"))
    done = run_here(
        [
            "goldwatch",
            "compare",
            "dump",
            "golden",
            "-f",
            "model.json",
            "-o",
            "out",
            "--recompute",
            "none",
        ],
        tmp_path,
    )
    line = done.stdout.splitlines()[-1]
    assert " net.onnx " in line
    again = run_here(shlex.split(line[len("next: ") :]), tmp_path)
    last = again.stdout.splitlines()[-2]
    assert (
        last.startswith("2 operators have an error of their own") and "cat" in last and "fc" in last
    )


@pytest.mark.parametrize("kind", ["Mul", "Concat", "Relu", "Max"])
def test_an_op_that_gives_out_an_input_of_the_network_is_replayed(tmp_path, kind):
    """Equal bytes of input and output are no proof that it works in place."""
    x = half(np.abs(np.random.RandomState(0).standard_normal((2, 4))))
    more = {"Mul": np.float32(1), "Max": np.float32(-9), "Concat": np.zeros((2, 0), np.float32)}
    weights = [build.weight("k", more[kind])] if kind in more else []
    nodes = [
        helper.make_node(
            kind,
            ["x", "k"][: 1 + len(weights)],
            ["a"],
            "first",
            **{"axis": 1} if kind == "Concat" else {},
        ),
        helper.make_node("Sigmoid", ["a"], ["y"], "sig"),
    ]
    net = build.model(nodes, [build.value("x", (2, 4))], [build.value("y", (2, 4))], weights)
    made = {"x": x, "first": x, "sig": half(1 / (1 + np.exp(-x.astype(np.float32))))}
    model = DeviceModel("net")
    model.add(DeviceOp("x", "Data", outputs=(DeviceTensor(x, origin_name="x"),)))
    for name, op_type, source in (("first", kind, "x"), ("sig", "Sigmoid", "first")):
        tensor = DeviceTensor(made[name], "ND", origin_name=name)
        model.add(
            DeviceOp(name, op_type, inputs=((source, 0),), outputs=(tensor,), originals=(name,))
        )
    result = run(tmp_path, net, model)
    assert (reasons(result), culprits(result), result.exit_code) == ({}, [], 0)


def test_a_batch_normalisation_in_training_mode_is_not_replayed(tmp_path):
    """A framework computes the batch's statistics, an om the stored ones: nobody is wrong."""
    net = onnx_graphs.Builder()
    stored = (("scale", 1), ("bias", 0), ("mean", 3), ("variance", 2))
    weights = [net.put(name, np.full(6, value, np.float32)) for name, value in stored]
    net.node("Relu", ["x"], ["r"], "relu")
    net.node("BatchNormalization", ["r", *weights], ["y", "m", "v"], "bn", training_mode=1)
    proto = net.model([("x", FLOAT, [2, 6, 8])], [("y", FLOAT, None)])
    ops = Ops()
    x = ops.data("x", X)
    (r,) = ops.op("relu", "Relu", ["x"], [np.maximum(x, 0)])
    ops.op("bn", "BNInfer", ["relu"], [(r - 3) / np.sqrt(2 + 1e-5)])
    result = run(tmp_path, proto, ops.model)
    assert culprits(result) == [] and list(reasons(result)) == ["bn"]
    assert [row.reason_codes for row in result.rows("not_compared")] == ["in_training"]
    assert [row.op for row in result.rows("pass")] == ["relu"]
    assert result.sentence.startswith("No operator has an error of its own. ")
    assert "has bn in training mode" in result.sentence and "suspect" not in result.sentence


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_a_cast_between_floats_is_judged_as_compare_does(tmp_path, factor) -> None:
    """Nothing is replayed for it: it keeps the values of what precedes it."""
    nodes = [
        helper.make_node("Neg", ["x"], ["t"], name="first"),
        helper.make_node("Cast", ["t"], ["c"], name="cast", to=TensorProto.DOUBLE),
        helper.make_node("Cast", ["c"], ["d"], name="back", to=FLOAT),
        helper.make_node("Abs", ["d"], ["y"], name="last"),
    ]
    net = build.model(nodes, [build.value("x", (8, 16))], [build.value("y", (8, 16))])
    path = build.save(tmp_path / "net.onnx", net)
    feeds = {"x": np.random.RandomState(0).standard_normal((8, 16)).astype(np.float32)}
    made = on_device(path, feeds, fault=("back", lambda array: array * np.float32(factor)))
    result = run(tmp_path, path, made)
    assert culprits(result) == ([] if factor == 1.0 else ["back"])
    assert result.exit_code == (factor != 1.0)
    if factor != 1.0:
        (row,) = result.rows("fail")
        assert row.op == "back" and "differs by 1.0 % from what is computed" in row.reason


@pytest.mark.parametrize("file, other", [("other.onnx", True), ("net.onnx", False)])
def test_a_model_that_the_om_was_not_compiled_from_is_told_so(tmp_path, file, other) -> None:
    """Its weights are others: no operator computes what it says."""

    def made(name, seed):
        random = np.random.RandomState(seed)
        weights = [build.weight("w%d" % n, random.randn(4, 4).astype(np.float32)) for n in (1, 2)]
        nodes = [
            helper.make_node("MatMul", ["x", "w1"], ["h"], "fc1"),
            helper.make_node("Relu", ["h"], ["r"], "act"),
            helper.make_node("MatMul", ["r", "w2"], ["y"], "fc2"),
        ]
        values = [build.value("x", (2, 4))], [build.value("y", (2, 4))]
        return build.save(tmp_path / name, build.model(nodes, *values, weights))

    feeds = {"x": np.random.RandomState(0).randn(2, 4).astype(np.float32)}
    device = on_device(made("net.onnx", 1), feeds)
    write_files(str(tmp_path / "dump"), device.dumps())
    om = str(tmp_path / "om.json")
    write_model(device, om, "atc --model=/models/net.onnx --output=net")
    options = ReplayOptions(
        target=str(tmp_path / "dump"),
        original=made(file, 2),
        model=om,
        out=str(tmp_path / "out"),
    )
    result = replay(options)
    assert result.exit_code == 1 and sorted(culprits(result)) == ["fc1", "fc2"]
    assert ("was compiled from net: if these are two models" in result.sentence) == other
    assert any(one.code == "model-of-another-file" for one in result.summary.warnings) == other
