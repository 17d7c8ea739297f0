"""Writes a frozen graph, a SavedModel and an input for them: tf_freeze.py FOLDER."""

import os
import sys

import numpy as np

import tensorflow as tf

folder = sys.argv[1]
x = tf.placeholder(tf.float32, [None, 4], name="input")
weights = tf.get_variable("weights", [4, 3], initializer=tf.random_normal_initializer(seed=1))
prob = tf.nn.softmax(tf.matmul(x, weights, name="fc"), name="prob")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    tf.saved_model.simple_save(session, os.path.join(folder, "saved"), {"image": x}, {"prob": prob})
    frozen = tf.graph_util.convert_variables_to_constants(session, session.graph_def, ["prob"])
with open(os.path.join(folder, "frozen.pb"), "wb") as stream:
    stream.write(frozen.SerializeToString())
np.save(os.path.join(folder, "input.npy"), np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4))
