"""What scripts do besides a plain session.run: XLA, slim's training loop, unused feeds, npu_bridge,
other processes.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tensorflow

QUIET = "import numpy as np\nimport tensorflow as tf\ntf.logging.set_verbosity(tf.logging.ERROR)\n"

JIT = """
x = tf.placeholder(tf.float32, [4, 8], name="x")
with tf.contrib.compiler.jit.experimental_jit_scope():
    y = tf.tanh(tf.multiply(tf.add(x, 1.0, name="a"), 2.0, name="b"), name="y")
config = tf.ConfigProto()
config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
with tf.Session(config=config) as session:
    session.run(y, {x: np.ones((4, 8))})
"""


def test_xla_is_switched_off_while_golden_data_is_made(tf, golden, script):
    done = tf("dump", "-o", "g", "--", "python", script(QUIET + JIT))
    assert done.code == 0, done.err
    assert golden("g").ops == {"x", "a", "a/y", "b", "b/y", "y"} and "XLA" not in done.err


COMPILED = """
x = tf.placeholder(tf.float32, [4, 8], name="x")
y = tf.xla.experimental.compile(lambda x: tf.tanh(tf.add(x, 1.0, name="a"), name="y"), [x])[0]
with tf.Session() as session:
    session.run(y, {x: np.ones((4, 8))})
"""


def test_ops_that_xla_still_compiles_into_a_cluster_are_named(tf, golden, script):
    done = tf("dump", "-o", "g", "--", "python", script(QUIET + COMPILED))
    assert done.code == 0 and "XLA compiled ops into clusters (cluster)" in done.err
    assert any("XLA" in note for note in golden("g").manifest["notes"])


def test_golden_config_keeps_a_users_settings_but_switches_optimisers_off():
    import tensorflow.compat.v1 as v1
    from goldwatch.adapters.tensorflow import golden_config
    from goldwatch.adapters.tensorflow.recorder import GRAPPLER_OFF, GRAPPLER_ON, optimiser_state

    config = v1.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = v1.OptimizerOptions.ON_1
    assert (
        golden_config(config).graph_options.optimizer_options.global_jit_level
        == v1.OptimizerOptions.OFF
    )
    assert optimiser_state(golden_config(config)) == GRAPPLER_OFF
    jit = golden_config()
    jit.graph_options.optimizer_options.global_jit_level = v1.OptimizerOptions.ON_1
    assert optimiser_state(jit) == GRAPPLER_ON


SLIM = """
slim = tf.contrib.slim
x = tf.constant(np.ones((4, 3), np.float32), name="x")
loss = tf.losses.mean_squared_error(np.ones((4, 1)), slim.fully_connected(x, 1, scope="fc"))
train = slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.1))
slim.learning.train(train, "logs", number_of_steps=3, log_every_n_steps=1, save_summaries_secs=0, save_interval_secs=0)
"""  # noqa: E501


def test_only_training_steps_of_slim_count_as_runs(tf, golden, script):
    done = tf("dump", "-o", "g", "--steps", "0-2|3", "--", "python", script(QUIET + SLIM))
    assert done.code == 4 and "run 3 was never reached: the script made 3 runs (0 to 2)" in done.err
    for step in range(3):
        assert "fc/MatMul" in golden("g/%d" % step).ops and any(
            "Grad" in op for op in golden("g/%d" % step).ops
        )


FEEDS = """
x = tf.placeholder(tf.float32, [2], name="x")
unused = tf.placeholder(tf.int32, [3], name="scope/unused")
y = tf.multiply(x, 2.0, name="y")
with tf.Session() as session:
    session.run(y, {x: [1, 2], "scope/unused:0": [4, 5, 6]})
    session.make_callable(y, [x, unused])(np.ones(2), np.arange(3))
"""


def test_a_fed_tensor_that_nothing_consumes_is_saved(tf, golden, script):
    done = tf("dump", "-o", "g", "--steps", "0|1", "--", "python", script(QUIET + FEEDS))
    assert done.code == 0, done.err
    assert (
        golden("g/0").one("scope/unused").tolist() == [4, 5, 6]
        and golden("g/0").one("scope/unused").dtype.name == "int32"
    )
    assert golden("g/1").one("scope/unused").tolist() == [0, 1, 2]
    entry = [e for e in golden("g/0").tensors if e["original_name"] == "scope/unused"][0]
    assert entry["fed"] is True and entry["file"].startswith("scope_unused.0.")
    assert golden("g/0").manifest["dumps"] == len(golden("g/0").tensors) == 4


NPU = """
from npu_bridge.npu_init import *
from npu_bridge.estimator import npu_ops
from npu_bridge.estimator.npu.npu_config import DumpConfig, NPURunConfig
from npu_bridge.estimator.npu.npu_estimator import NPUEstimator
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
run_config = NPURunConfig(dump_config=DumpConfig(enable_dump=True, dump_path="/x"), model_dir="m", save_checkpoints_steps=5)
assert run_config.save_checkpoints_steps == 5 and issubclass(NPUEstimator, tf.estimator.Estimator)
config = tf.ConfigProto()
optimizer = config.graph_options.rewrite_options.custom_optimizers.add()
optimizer.name = "NpuOptimizer"
optimizer.parameter_map["use_off_line"].b = True
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
weight = tf.get_variable("w", initializer=tf.constant([3.0]))
wrapped = NPUDistributedOptimizer(npu_tf_optimizer(tf.train.GradientDescentOptimizer(0.5)))
train = wrapped.minimize(tf.reduce_sum(weight * weight, name="loss"))
assert npu_hooks_append(hooks_list=[1]) == [1]
with tf.Session(config=npu_config_proto(config_proto=config)) as session:
    session.run(tf.global_variables_initializer())
    session.run(train)
    print("W", session.run(weight))
"""  # noqa: E501


def test_a_script_for_the_npu_runs_with_without_npu(tf, golden, script):
    name = script(QUIET + NPU)
    done = tf("dump", "-o", "g", "--", "python", name)
    assert done.code == 5 and "--without-npu" in done.err
    done = tf("dump", "-o", "g", "--without-npu", "--", "python", name)
    assert done.code == 0 and "W [0.]" in done.out, done.err
    assert any(entry["type"] == "ApplyGradientDescent" for entry in golden("g").tensors)


def test_an_op_that_only_the_npu_has_is_refused(tf, script):
    text = QUIET + "from npu_bridge.estimator import npu_ops\nnpu_ops.dropout(tf.ones([2]), 0.5)\n"
    done = tf("dump", "-o", "g", "--without-npu", "--", "python", script(text))
    assert done.code == 5 and "NPU's own op dropout" in done.err


def test_runs_in_other_programs_and_partial_runs_are_reported(tf, script, tmp_path):
    script(QUIET + "tf.Session().run(tf.add(1.0, 2.0))\n", "train.py")
    text = "import subprocess, sys\nsubprocess.check_call([sys.executable, 'train.py'])\n"
    done = tf("dump", "-o", "g", "--", "python", script(text))
    assert done.code == 4 and "made no run" in done.err and "started other programs" in done.err
    done = tf("dump", "-o", "g", "--", "bash", "train.sh")
    assert done.code == 2 and "launcher" in done.err
    text = "x = tf.placeholder(tf.float32, name='x')\ny = tf.add(x, 1.0)\nsession = tf.Session()\n"
    text += (
        "handle = session.partial_run_setup([y], [x])\nprint(session.partial_run(handle, y, {x: "
        "1.0}))\n"
    )
    done = tf("dump", "-o", "g", "--", "python", script(QUIET + text))
    assert done.code == 4 and "1 calls of partial_run" in done.err


def test_without_npu_is_refused_for_a_graph_file(tf):
    done = tf("dump", "-o", "g", "--pb", "x.pb", "--without-npu")
    assert done.code == 2 and "belong to a script" in done.err


FUNCTION = """
import tensorflow as tf
@tf.function
def inner(x):
    return tf.nn.softmax(x, name="prob")
x = tf.placeholder(tf.float32, [2, 3], name="x")
y = tf.identity(inner(x), name="y")
with tf.Session() as session:
    tf.saved_model.simple_save(session, "saved", {"x": x}, {"y": y})
from tensorflow.core.protobuf import saved_model_pb2
import os, shutil
model = saved_model_pb2.SavedModel.FromString(open("saved/saved_model.pb", "rb").read())
model.meta_graphs[0].meta_info_def.tensorflow_version = "2.9.0"
model.meta_graphs[0].graph_def.node[0].attr["of_tomorrow"].i = 1
os.makedirs("newer/variables")
open("newer/saved_model.pb", "wb").write(model.SerializeToString())
import numpy as np
np.save("x.npy", np.ones((2, 3), np.float32))
"""


def test_a_model_of_tensorflow_2_functions_is_refused_with_the_recipe(tf, script, tmp_path):
    import subprocess
    import sys

    subprocess.run(
        [sys.executable, script(FUNCTION)], cwd=str(tmp_path), check=True, stderr=subprocess.DEVNULL
    )
    for model, text in (("saved", "inside functions"), ("newer", "written by TensorFlow 2.9.0")):
        done = tf("dump", "-o", "g", "--saved-model", model, "-i", "x=x.npy")
        assert done.code == 4 and text in done.err and "tf2_freeze.py" in done.err, done.err
        assert not (tmp_path / "g").exists()
