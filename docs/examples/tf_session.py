"""A classifier with fixed weights, run once with session.run; it does not know goldwatch."""

import numpy as np

import tensorflow as tf

x = tf.placeholder(tf.float32, [None, 8, 8, 1], name="input")
with tf.variable_scope("conv1"):
    weights = tf.get_variable(
        "weights", [3, 3, 1, 4], initializer=tf.random_normal_initializer(seed=1)
    )
    net = tf.nn.relu(tf.nn.conv2d(x, weights, [1, 1, 1, 1], "SAME", name="conv"), name="relu")
net = tf.layers.flatten(net, name="flat")
logits = tf.layers.dense(net, 3, kernel_initializer=tf.random_normal_initializer(seed=2), name="fc")
prob = tf.nn.softmax(logits, name="prob")

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 8, 8, 1)
    print("prob", session.run(prob, {x: image}))
