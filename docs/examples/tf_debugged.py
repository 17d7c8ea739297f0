"""A script whose session is wrapped for tfdbg's command line."""

import numpy as np

import tensorflow as tf
from tensorflow.python import debug as tf_debug

x = tf.placeholder(tf.float32, [1, 4], name="input")
weights = tf.get_variable("weights", [4, 3], initializer=tf.random_normal_initializer(seed=1))
prob = tf.nn.softmax(tf.matmul(x, weights, name="fc"), name="prob")
session = tf_debug.LocalCLIDebugWrapperSession(tf.Session(), ui_type="readline")
session.run(tf.global_variables_initializer())
for step in range(3):
    session.run(prob, {x: np.full((1, 4), step, np.float32)})
