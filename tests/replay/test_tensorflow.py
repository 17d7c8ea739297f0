"""Replay of a frozen TensorFlow graph: a small network whose device is computed here with numpy, in
NHWC.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from replay_device import culprits, reasons

from goldwatch.run.replay.options import ReplayOptions
from goldwatch.run.replay.run import replay
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor
from goldwatch.testing.caffe_layers import Layer, run_layer
from goldwatch.testing.device_dump import write_files

pytestmark = pytest.mark.tensorflow

OPS = ["conv", "pool", "norm", "split", "add", "fc", "prob", "label"]


def half(array):
    return np.asarray(array, np.float32).astype(np.float16)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """The graph's file and its weights."""
    import tensorflow as tf

    v1 = tf.compat.v1
    random = np.random.RandomState(0)
    weights = {
        "filter": random.standard_normal((3, 3, 3, 8)) / 5, "bias": random.standard_normal(8) / 3,
        "gamma": random.uniform(0.5, 2, 8),
        "beta": random.standard_normal(8), "mean": random.standard_normal(8) / 5,
        "variance": random.uniform(0.5, 2, 8),
        "matrix": random.standard_normal((128, 10)) / 11, "offset": random.standard_normal(10),
    }  # fmt: skip
    weights = {name: values.astype(np.float32) for name, values in weights.items()}
    with v1.Graph().as_default() as graph:
        held = {name: v1.constant(values, name=name) for name, values in weights.items()}
        x = v1.placeholder(tf.float32, [None, 8, 8, 3], name="x")
        y = v1.nn.conv2d(x, held["filter"], [1, 1, 1, 1], "SAME", name="conv")
        y = tf.nn.relu(tf.nn.bias_add(y, held["bias"], name="biased"), name="act")
        y = v1.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID", name="pool")
        known = [held[name] for name in ("gamma", "beta", "mean", "variance")]
        y = v1.nn.fused_batch_norm(y, *known, epsilon=1e-3, is_training=False, name="norm")[0]
        one, two = tf.split(y, 2, axis=3, name="split")
        y = tf.concat([tf.add(one, two, name="add"), one], 3, name="joined")
        y = tf.nn.bias_add(
            tf.matmul(tf.reshape(y, [-1, 128], name="flat"), held["matrix"], name="fc"),
            held["offset"],
            name="logits",
        )
        y = tf.nn.softmax(y, name="prob")
        v1.argmax(y, 1, name="label", output_type=tf.int32)
        path = str(tmp_path_factory.mktemp("frozen") / "net.pb")
        with open(path, "wb") as stream:
            stream.write(graph.as_graph_def().SerializeToString())
    return path, weights


def device(weights, wrong="", factor=1.05):
    """The network on a device: float16, fused, the op ``wrong`` off by a factor, NC1HWC0 between
    the ops.
    """
    model = DeviceModel("net")
    x = half(np.random.RandomState(3).standard_normal((2, 8, 8, 3)))

    def put(name, kind, inputs, values, originals, origin=None, layout="NC1HWC0", index=0):
        scaled = [half(value * np.float32(factor if name == wrong else 1)) for value in values]
        made = tuple(
            DeviceTensor(
                value,
                layout if value.ndim == 4 else "ND",
                "NHWC" if value.ndim == 4 else "ND",
                origin or originals[-1],
                number,
            )
            for number, value in enumerate(scaled)
        )
        model.add(DeviceOp(name, kind, inputs, made, originals))
        return [np.asarray(value.array, np.float32) for value in made]

    model.add(DeviceOp("x", "Data", (), (DeviceTensor(x, "NHWC", "NHWC", "x"),)))
    (moved,) = put("trans_0", "TransData", (("x", 0),), [x], (), "x")
    blobs = [weights["filter"].transpose(3, 2, 0, 1), weights["bias"]]
    layer = Layer("Convolution", {"stride": [1], "pad": [1]}, [moved.transpose(0, 3, 1, 2)], blobs)
    (planes,) = run_layer(layer)
    model.add(
        DeviceOp("filter", "Const", (), (DeviceTensor(half(weights["filter"]), "ND", "HWCN"),))
    )
    (y,) = put(
        "conv",
        "Conv2D",
        (("trans_0", 0), ("filter", 0)),
        [np.maximum(planes, 0).transpose(0, 2, 3, 1)],
        ("conv", "biased", "act"),
    )
    (y,) = put(
        "pool", "MaxPool", (("conv", 0),), [y.reshape(2, 4, 2, 4, 2, 8).max(axis=(2, 4))], ("pool",)
    )
    y = (y - weights["mean"]) / np.sqrt(weights["variance"] + 1e-3) * weights["gamma"] + weights[
        "beta"
    ]
    (y,) = put("norm", "BNInference", (("pool", 0),), [y], ("norm",))
    one, two = put("split", "SplitD", (("norm", 0),), [y[..., :4], y[..., 4:]], ("split",))
    (added,) = put("add", "Add", (("split", 0), ("split", 1)), [one + two], ("add",))
    joined = half(np.concatenate([added, one], axis=3)).astype(np.float32)
    made = (DeviceTensor(half(joined), "NC1HWC0", "NHWC", "joined"),)
    model.add(DeviceOp("joined", "ConcatD", (("add", 0), ("split", 0)), made, ("joined",)))
    logits = joined.reshape(2, 128) @ weights["matrix"] + weights["offset"]
    (y,) = put("fc", "MatMul", (("joined", 0),), [logits], ("flat", "fc", "logits"), layout="ND")
    (y,) = put(
        "prob",
        "SoftmaxV2",
        (("fc", 0),),
        run_layer(Layer("Softmax", {}, [y])),
        ("prob",),
        layout="ND",
    )
    label = y.argmax(axis=1).astype(np.int32)
    label = DeviceTensor((label + 1) % 10 if wrong == "label" else label, "ND", "ND", "label")
    model.add(DeviceOp("label", "ArgMaxD", (("prob", 0),), (label,), ("label",)))
    return model


def run(folder, path, model, mode="all", **options):
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


@pytest.mark.parametrize("mode", ["all", "output"])
def test_a_healthy_tensorflow_graph_has_no_culprit(frozen, tmp_path, mode) -> None:
    path, weights = frozen
    result = run(tmp_path, path, device(weights), mode, backend="tf")
    assert reasons(result) == {} and culprits(result) == [] and result.exit_code == 0
    assert {row.op for row in result.rows("pass")} == {*OPS, "joined"}
    assert (
        max(
            row.metrics["RelativeEuclideanDistance"]
            for row in result.rows("pass")
            if row.op != "label"
        )
        < 1e-3
    )


@pytest.mark.parametrize("op", OPS)
def test_the_wrong_op_of_a_tensorflow_graph_is_the_culprit(frozen, tmp_path, op) -> None:
    path, weights = frozen
    model = device(weights, op, 1.02)
    result = run(tmp_path, path, model)
    assert culprits(result) == [op] and result.exit_code == 1


def test_a_missing_original_node_leaves_only_its_op_unreplayed(frozen, tmp_path) -> None:
    path, weights = frozen
    model = device(weights)
    model.ops = [
        DeviceOp(op.name, op.type, op.inputs, op.outputs, ("made_up",)) if op.name == "pool" else op
        for op in model.ops
    ]
    told = reasons(run(tmp_path, path, model))
    assert told == {"pool": "not replayed: its original made_up is not one node of net.pb"}


def test_control_inputs_are_not_run_in_a_replay(tmp_path) -> None:
    """Of z, which is wrong, a check of x must come first: the recorded values feed z, and nothing
    feeds x.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        y = tf.nn.relu(x, name="y")
        with tf.control_dependencies(
            [v1.Assert(tf.less(tf.reduce_mean(x), 100.0), [x], name="check")]
        ):
            z = tf.tanh(y, name="z")
        tf.nn.relu(z, name="w")
        (tmp_path / "net.pb").write_bytes(graph.as_graph_def().SerializeToString())
    given = half(np.random.RandomState(1).standard_normal((2, 4)))
    wrong = half(np.tanh(np.maximum(given, 0)) * 1.1)
    model = DeviceModel("net")
    model.add(DeviceOp("x", "Data", (), (DeviceTensor(given, "ND", "ND", "x"),)))
    for name, kind, source, values in (
        ("y", "Relu", "x", np.maximum(given, 0)),
        ("z", "Tanh", "y", wrong),
        ("w", "Relu", "z", wrong),
    ):
        model.add(
            DeviceOp(name, kind, ((source, 0),), (DeviceTensor(values, "ND", "ND", name),), (name,))
        )
    result = run(tmp_path, str(tmp_path / "net.pb"), model)
    assert reasons(result) == {} and culprits(result) == ["z"]


def test_a_conditional_without_a_device_op_leaves_the_op_behind_it_unreplayed(tmp_path) -> None:
    """The json has o read y itself: the conditional in between is nobody's, and o is not accused of
    it.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        flag = v1.placeholder(tf.bool, [], name="flag")
        y = tf.nn.relu(x, name="y")
        tf.nn.relu(v1.cond(flag, lambda: y * 2.0, lambda: y + 1.0, name="choice"), name="o")
        (tmp_path / "net.pb").write_bytes(graph.as_graph_def().SerializeToString())
    given = half(np.random.RandomState(1).standard_normal((2, 4)))
    values = np.maximum(given, 0)
    model = DeviceModel("net")
    model.add(DeviceOp("x", "Data", (), (DeviceTensor(given, "ND", "ND", "x"),)))
    for name, source, made in (("y", "x", values), ("o", "y", values * 2)):
        model.add(
            DeviceOp(name, "Relu", ((source, 0),), (DeviceTensor(made, "ND", "ND", name),), (name,))
        )
    result = run(tmp_path, str(tmp_path / "net.pb"), model)
    assert culprits(result) == [] and result.exit_code == 3
    assert reasons(result) == {
        "o": "not replayed: its input choice/Merge:0 is a value inside another op, or was not "
        "dumped"
    }


def test_a_python_without_tensorflow_is_refused(frozen, tmp_path) -> None:
    from goldwatch.base.errors import EnvironmentProblem, UsageError

    path, weights = frozen
    with pytest.raises(EnvironmentProblem):
        run(tmp_path, path, device(weights), python="/bin/false")
    with pytest.raises(
        UsageError, match="the backend numpy does not run a frozen TensorFlow graph"
    ):
        run(tmp_path / "b", path, device(weights), backend="numpy")
    assert not os.path.exists(str(tmp_path / "out"))
