"""Golden data from within a script: tf_library.py OUT."""

import os
import sys

import numpy as np

import tensorflow as tf
from goldwatch.adapters.tensorflow import DumpHook, dump_session, golden_config

out = sys.argv[1]
x = tf.placeholder(tf.float32, [None, 4], name="input")
prob = tf.nn.softmax(tf.layers.dense(x, 3, name="fc"), name="prob")
image = np.linspace(0, 1, 4, dtype=np.float32).reshape(1, 4)

with tf.Session(config=golden_config()) as sess:
    sess.run(tf.global_variables_initializer())
    with dump_session(sess, os.path.join(out, "golden")):
        sess.run(prob, {x: image})

with tf.train.MonitoredSession(
    tf.train.ChiefSessionCreator(config=golden_config()),
    hooks=[DumpHook(os.path.join(out, "golden_monitored"))],
) as sess:
    sess.run(prob, {x: image})
