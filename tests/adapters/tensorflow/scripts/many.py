"""A graph of 3,000 ops, run once."""

import numpy as np

import tensorflow as tf

tf.logging.set_verbosity(tf.logging.ERROR)
x = tf.placeholder(tf.float32, [4, 64], name="x")
net = x
for number in range(1500):
    net = tf.add(net, tf.constant(0.5, name="scope%d/c" % number), name="scope%d/add" % number)
with tf.Session() as session:
    session.run(net, {x: np.ones((4, 64), np.float32)})
