"""An Estimator that trains three steps, evaluates and predicts; it does not know goldwatch."""

import numpy as np

import tensorflow as tf


def model_fn(features, labels, mode):
    """Build a small convolutional net."""
    training = mode == tf.estimator.ModeKeys.TRAIN
    net = tf.reshape(features, [-1, 8, 8, 1], name="image")
    net = tf.layers.conv2d(net, 4, 3, padding="same", activation=tf.nn.relu, name="conv1")
    net = tf.layers.batch_normalization(net, training=training, fused=True, name="bn")
    logits = tf.layers.dense(tf.layers.flatten(net), 3, name="fc")
    prob = tf.nn.softmax(logits, name="prob")
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"prob": prob})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


IMAGES = np.random.RandomState(0).rand(16, 64).astype(np.float32)
LABELS = (np.arange(16) % 3).astype(np.int32)


def labelled():
    """Return images and labels in batches of 4."""
    return tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(4)


def unlabelled():
    """Return images in batches of 8."""
    return tf.data.Dataset.from_tensor_slices(IMAGES).batch(8)


estimator = tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(tf_random_seed=1))
estimator.train(labelled, steps=3)
print("loss", estimator.evaluate(labelled, steps=2)["loss"])
print("predictions", len(list(estimator.predict(unlabelled))))
