"""``goldwatch locate`` from a model of TensorFlow, in the Python that has it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from locate_host import Place

pytestmark = pytest.mark.tensorflow

GRAPH = """
import numpy as np, tensorflow as tf
state = np.random.RandomState(0)
x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
conv = tf.nn.conv2d(x, tf.constant(state.standard_normal((3, 3, 3, 8)).astype("f") * 0.2), 1, "SAME", name="conv1")
flat = tf.reshape(tf.nn.relu(conv, name="relu"), [-1, 512], name="flat")
prob = tf.nn.softmax(tf.matmul(flat, tf.constant(state.standard_normal((512, 10)).astype("f") * 0.05), name="fc"), name="prob")
with open("net.pb", "wb") as stream:
    stream.write(tf.get_default_graph().as_graph_def().SerializeToString())
with tf.Session() as session:
    tf.saved_model.simple_save(session, "saved", {"image": x}, {"prob": prob})
"""  # noqa: E501


def test_a_frozen_graph_and_a_saved_model_are_searched(tmp_path) -> None:
    place = Place(tmp_path)
    place.host("op:fc=scale:1.05")
    subprocess.run(
        [sys.executable, "-c", GRAPH], cwd=str(tmp_path), check=True, stderr=subprocess.DEVNULL
    )
    place.atc("net.pb", "net.om", "--framework=3", "--input_shape=x:2,8,8,3")
    done = place.locate("net.pb", "net.om", "-o", "out")
    assert done.returncode == 1 and "suspect: fc\n" in done.stdout, done.stderr
    assert "golden   TensorFlow in %s" % sys.executable in done.stderr
    saved = place.locate("saved", "net.om", "-o", "saved_out")
    assert saved.returncode == 1 and "suspect: fc\n" in saved.stdout, saved.stderr
    assert "the om's input x is taken for the model's image, by its type and shape" in saved.stderr
