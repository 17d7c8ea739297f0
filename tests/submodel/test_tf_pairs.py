"""Every cut of a real graph, run by the real TensorFlow 1.15 on recorded values, against the whole
graph: bit for bit.
"""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.base.errors import InputError
from goldwatch.recomputing.submodel.tf_original import TfOriginal

pytestmark = pytest.mark.tensorflow

# Uninitialised memory at inference.
UNWRITTEN = tuple("bn:%d" % index for index in range(1, 6))


def build(v1, tf):
    """A net with branches, constants behind ops, several outputs, a loop with an outside invariant,
    a conditional, functions.
    """
    from tensorflow.python.framework import function

    random = np.random.RandomState(7)

    def weights(*shape):
        return tf.constant(random.randn(*shape).astype("f4") * 0.3)

    @function.Defun(tf.float32, func_name="square")
    def square(u):
        return u * u

    x = v1.placeholder(tf.float32, [2, 8, 8, 3], name="x")
    flag = v1.placeholder(tf.bool, [], name="flag")
    y = tf.nn.conv2d(
        x,
        tf.identity(weights(3, 3, 3, 8), name="w/read"),
        strides=[1, 1, 1, 1],
        padding="SAME",
        name="conv",
    )
    scale, variance = weights(8), tf.abs(weights(8)) + 1.0
    y, _, _ = v1.nn.fused_batch_norm(
        y, scale, weights(8), weights(8), variance, is_training=False, name="bn"
    )
    a, b = tf.split(tf.nn.relu(y, name="relu"), 2, axis=3, name="split")
    with tf.control_dependencies([a]):
        b = tf.sigmoid(b, name="sigmoid")
    joined = tf.concat([a, b], 3, name="joined")
    with v1.get_default_graph().colocate_with(joined.op):
        y = tf.tanh(joined, name="tanh")
    values, places = tf.nn.top_k(tf.reshape(y, [2, -1]), k=16, name="topk")
    mixed = tf.add(values, tf.cast(places, tf.float32) * 0.001, name="mixed")
    invariant = tf.reduce_mean(mixed, 1, keepdims=True, name="invariant")
    _, z = tf.while_loop(
        lambda k, z: k < 4,
        lambda k, z: (k + 1, z * 0.9 + invariant),
        [tf.constant(0), mixed],
        name="loop",
    )
    y = v1.cond(flag, lambda: z * 2.0 + 1.0, lambda: tf.nn.softmax(z) - invariant, name="cond")
    y = square(y, name="call")
    tf.identity(y / tf.cast(tf.shape(y)[0], tf.float32) + values, name="out")


def build_nested(v1, tf):
    """A loop in a conditional in a loop, and conditionals in conditionals."""
    x = v1.placeholder(tf.float32, [2, 8, 8, 3], name="x")
    flag = v1.placeholder(tf.bool, [], name="flag")
    a = tf.reduce_mean(x, [1, 2], name="a")
    invariant = tf.reduce_sum(a, name="invariant")

    def loop(steps, value, change, name):
        return tf.while_loop(
            lambda k, z: k < steps,
            lambda k, z: (k + 1, change(k, z)),
            [tf.constant(0), value],
            name=name,
        )[1]

    def inner(z):
        return loop(2, z, lambda k, y: y * 0.5 + invariant, "inner")

    def outer(k, z):
        return tf.sin(
            v1.cond(
                tf.equal(k % 2, 0), lambda: inner(z), lambda: z - invariant * 0.1, name="inside"
            )
        )

    z = loop(4, a, outer, "outer")
    other = lambda: v1.cond(invariant > 0, lambda: z * 2.0, lambda: z * 3.0, name="second")  # noqa: E731
    y = v1.cond(flag, lambda: loop(3, z, lambda k, y: y + a, "last"), other, name="first")
    tf.identity(tf.nn.relu(y, name="r") + a, name="out")


def config(v1):
    made = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    made.graph_options.rewrite_options.disable_meta_optimizer = True
    made.graph_options.optimizer_options.opt_level = -1
    return made


def outside_of_flow(model, names):
    return [
        name
        for name in names
        if not model.flow.inside(model.numbers(name.split(":")[0])[0]) and name not in UNWRITTEN
    ]


@pytest.mark.parametrize(("build", "least"), [(build, (600, 15000)), (build_nested, (60, 600))])
def test_all_cuts_compute_the_whole_graphs_values(tmp_path, build, least):
    import tensorflow as tf

    v1 = tf.compat.v1
    path = tmp_path / "net.pb"
    with v1.Graph().as_default() as graph:
        build(v1, tf)
        definition = graph.as_graph_def()
    path.write_bytes(definition.SerializeToString())
    with v1.Graph().as_default() as graph:
        # Only in a loaded graph can all tensors be fetched.
        v1.import_graph_def(definition, name="")
    model = TfOriginal.read(str(path))
    everything = outside_of_flow(model, [name for tensors in model.tensors for name in tensors])
    feeds = {"x:0": np.random.RandomState(3).randn(2, 8, 8, 3).astype("f4")}
    # What a graph's own functions give out is known too.
    types = {"call": ["float32"], "topk": ["float32", "int32"], "split": ["float32", "float32"]}
    assert all(
        model.dtypes[number] == found
        for name, found in types.items()
        for number in model.numbers(name)
    )
    truths = []
    for flag in (False, True):
        with v1.Session(graph=graph, config=config(v1)) as session:
            # One by one, so that every value is that of the original's own kernels.
            truths.append(
                {name: session.run(name, dict(feeds, **{"flag:0": flag})) for name in everything}
            )
    cuts = compared = refused = 0
    for start in range(len(model.names)):
        for end in sorted(model.graph.descendants([start])):
            try:
                cut = model.cut(model.graph.between([start], [end]), [start], [end])
            except InputError as error:
                assert "lies inside a" in error.message
                refused += 1
                continue
            cuts += 1
            compared += run(v1, model, cut, truths, tmp_path / "cut.pb")
    print("%d cuts, %d tensors compared, %d refused" % (cuts, compared, refused))
    assert cuts > least[0] and compared > least[1]


def run(v1, model, cut, truths, path):
    inputs = {entry.name: (entry.dtype, np.shape(truths[0][entry.tensor])) for entry in cut.inputs}
    with open(str(path), "wb") as stream:
        model.write(cut, inputs, stream)
    definition = v1.GraphDef()
    definition.ParseFromString(path.read_bytes())
    compared = 0
    with v1.Graph().as_default() as graph:
        v1.import_graph_def(definition, name="")
        fetches = outside_of_flow(
            model, [name for number in cut.layers for name in model.tensors[number]]
        )
        with v1.Session(graph=graph, config=config(v1)) as session:
            for truth in truths:
                values = session.run(
                    fetches, {entry.name + ":0": truth[entry.tensor] for entry in cut.inputs}
                )
                for name, value in zip(fetches, values):
                    assert np.array_equal(value, truth[name]), (
                        name,
                        [entry.tensor for entry in cut.inputs],
                    )
                    compared += 1
    return compared
