"""Scripts that are wrapped for tfdbg's prompt run under ``dump`` without a person typing."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tensorflow

QUIET = """
import numpy as np
import tensorflow as tf
from tensorflow.python import debug as tf_debug
tf.logging.set_verbosity(tf.logging.ERROR)
"""
WRAPPED = (
    QUIET
    + """
tf.set_random_seed(1)
x = tf.placeholder(tf.float32, [2, 4], name="in/x")
v = tf.get_variable("v", [4, 2])
h = tf.get_variable("h", [2], use_resource=True)
y = tf.nn.relu(tf.matmul(x, v) + h, name="y.1")
bf16 = tf.cast(y, tf.bfloat16, name="bf16")
collide = [tf.sin(y, name="a/b"), tf.cos(y, name="a_b")]
text = tf.constant("hello", name="text")
_, z = tf.while_loop(lambda i, z: i < 4, lambda i, z: (i + 1, tf.tanh(z * 2.0, name="step")), [0, y], name="loop")
session = tf_debug.LocalCLIDebugWrapperSession(tf.Session(), ui_type="readline")
session.run(tf.global_variables_initializer())
for k in range(4):
    feed = {x: np.full((2, 4), k + 1, np.float32)}
    values = session.run([y, tf.cast(bf16, tf.float32), z, collide, text], feed)
    np.savez("own%d.npz" % k, y=values[0], bf16=values[1], z=values[2], sin=values[3][0])
print("END")
"""  # noqa: E501
)


def test_dump_ignores_the_wrapper_of_a_script(tf, golden, script):
    """Nobody is asked anything, and nothing is fused."""
    done = tf("dump", "-o", "g", "--run-index", "2", "--", "python", script(WRAPPED))
    assert done.code == 0, done.err
    assert done.out.startswith("END\n") and "tfdbg>" not in done.out
    assert golden("g").one("in/x").tolist() == [[3.0] * 4] * 2
    assert {"MatMul", "add", "y.1"} <= golden("g").ops


HOOKED = (
    QUIET
    + """
def model_fn(features, labels, mode):
    return tf.estimator.EstimatorSpec(mode, predictions=tf.layers.dense(features, 2, name="fc"))
def train_fn(features, labels, mode):
    step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    tf.layers.dense(features, 2, name="fc")
    return tf.estimator.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=step)
data = np.arange(18, dtype=np.float32).reshape(6, 3)
pair = lambda: tf.data.Dataset.from_tensors((data, np.ones(6)))
tf.estimator.Estimator(train_fn, "model").train(pair, steps=1)
hook = tf_debug.LocalCLIDebugHook(ui_type="readline")
batches = lambda: tf.data.Dataset.from_tensor_slices(data).batch(2)
print("COUNT", len(list(tf.estimator.Estimator(model_fn, "model").predict(batches, hooks=[hook]))))
"""
)


def test_dump_ignores_the_hook_of_an_estimator(tf, golden, script):
    done = tf("dump", "-o", "g", "--run-index", "1", "--", "python", script(HOOKED))
    assert done.code == 0, done.err
    assert "COUNT 6" in done.out and "tfdbg>" not in done.out
    assert golden("g").one("fc/BiasAdd").shape == (2, 2)


RESTORED = (
    QUIET
    + """
x = tf.placeholder(tf.float32, [2], name="x")
v = tf.get_variable("v", initializer=tf.ones([2]))
y = tf.add(x, v, name="y")
saver = tf.train.Saver()
with tf.Session() as first:
    first.run(tf.global_variables_initializer())
    saver.save(first, "./saved")
wrapped = tf_debug.LocalCLIDebugWrapperSession(tf.Session(), ui_type="readline")
saver.restore(wrapped, "./saved")
for k in range(2):
    wrapped.run(y, {x: [k, k]})
tf.keras.backend.set_session(wrapped)
model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(4,), name="d")])
model.get_weights()
print("SHAPE", model.predict(np.ones((4, 4)), batch_size=2).shape)
y.eval({x: [9, 9]}, session=wrapped)
"""
)


def test_runs_of_a_wrapped_session_count_as_others(tf, golden, script):
    """Neither the saver's nor Keras' own runs; Keras' batches do, also through the wrapper's
    callables.
    """
    dumped = tf("dump", "-o", "g", "--steps", "0,1,2,3,4,5", "--", "python", script(RESTORED))
    assert "run 5 was never reached: the script made 5 runs (0 to 4)" in dumped.err, dumped.err
    assert "SHAPE (4, 3)" in dumped.out
    for number, op in enumerate(["y", "y", "d/BiasAdd", "d/BiasAdd", "y"]):
        assert op in golden("g/%d" % number).ops
    assert golden("g/1").one("x").tolist() == [1, 1] and golden("g/4").one("y").tolist() == [10, 10]
