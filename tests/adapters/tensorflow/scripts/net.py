"""net.py FETCHES.npz [train]: all that makes a dump hard to convert; run 0 reads the variables, run
1 fetches all it can by itself.
"""

import sys

import numpy as np

import tensorflow as tf

tf.logging.set_verbosity(tf.logging.ERROR)
training = "train" in sys.argv[2:]
tf.set_random_seed(7)

x = tf.placeholder(tf.float32, [2, 8, 8, 3], name="data/input")
label = tf.placeholder(tf.int32, [2], name="label")
with tf.variable_scope("conv1"):
    weights = tf.get_variable("weights", [3, 3, 3, 8])
    bias = tf.get_variable("bias", [8], initializer=tf.constant_initializer(0.1))
    net = tf.nn.relu(
        tf.nn.bias_add(
            tf.nn.conv2d(x, weights, [1, 1, 1, 1], "SAME", name="Conv2D"), bias, name="BiasAdd"
        ),
        name="relu",
    )
with tf.variable_scope("bn.1", use_resource=True):
    gamma = tf.get_variable("gamma", [8], initializer=tf.ones_initializer())
    beta = tf.get_variable("beta", [8], initializer=tf.zeros_initializer())
    if training:
        net, _, _ = tf.nn.fused_batch_norm(
            net, gamma, beta, is_training=True, name="FusedBatchNorm"
        )
    else:
        mean, variance = tf.constant([0.1] * 8), tf.constant([0.9] * 8)
        net, _, _ = tf.nn.fused_batch_norm(
            net, gamma, beta, mean, variance, is_training=False, name="FusedBatchNorm"
        )
net = tf.concat(tf.split(net, 4, axis=3, name="split/parts"), 3, name="split/concat")
net = tf.nn.max_pool(net, [1, 2, 2, 1], [1, 2, 2, 1], "SAME", name="pool")
net = tf.nn.elu(net, name="a/b/c")
net = tf.nn.softplus(net, name="a/b_c")
net = tf.sin(net, name="a_b_c")
net = tf.cos(net, name="a.b.c")
net = tf.nn.relu6(
    net, name="/".join("a_very_long_scope_name_number_%02d" % k for k in range(9)) + "/leaf"
)


def body(step, value, history):
    value = tf.tanh(value * 1.5, name="step")
    return step + 1, value, history.write(step, value)


history = tf.TensorArray(tf.float32, 5, name="history")
_, net, history = tf.while_loop(lambda step, *_: step < 5, body, [0, net, history], name="loop")
iterations = history.stack("iterations")
positive = tf.reduce_mean(net) > -10.0
net = tf.cond(
    positive,
    lambda: tf.multiply(net, 2.0, name="yes"),
    lambda: tf.multiply(net, 3.0, name="no"),
    name="branch",
)
flat = tf.reshape(net, [2, -1], name="flat")
fc = tf.get_variable("fc/weights", [flat.shape[1].value, 10])
logits = tf.matmul(flat, fc, name="fc/logits")
prob = tf.nn.softmax(logits, name="prob")
values, indices = tf.nn.top_k(prob, 3, name="topk")
sink = [
    iterations,
    values,
    tf.as_string(indices, name="label_text"),
    tf.strings.join([tf.constant("a", name="text"), "b"], name="joined"),
    tf.cast(prob, tf.bfloat16, name="bf16"),
    tf.cast(prob, tf.half, name="half"),
    tf.complex(prob, prob, name="cplx"),
    tf.greater(prob, 0.1, name="mask_bool"),
    tf.boolean_mask(prob, prob > 2.0, name="empty_mask"),
    tf.quantize(prob, 0.0, 1.0, tf.quint8, name="quant")[0],
    tf.identity(tf.cast(prob * 100, tf.int64), name="int64"),
    tf.add(3.0, 4.0, name="scalar"),
]
if training:
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits), name="loss"
    )
    sink.append(tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, name="train_op"))

graph = tf.get_default_graph()


def in_loop(op):
    return op._get_control_flow_context() is not None or op.type in (
        "Enter",
        "Exit",
        "Merge",
        "Switch",
        "NextIteration",
        "LoopCond",
    )


def maybe_dead(op):
    if op.type == "Merge":
        return False
    return op.type == "Switch" or any(
        maybe_dead(t.op) for t in op.inputs if not in_loop(t.op) or t.op.type == "Switch"
    )


def wanted(tensor):
    op = tensor.op
    if maybe_dead(op) or any(
        control.type == "Switch" or maybe_dead(control) for control in op.control_inputs
    ):
        return False
    return (
        not in_loop(op)
        and graph.is_fetchable(tensor)
        and not tensor.dtype._is_ref_dtype
        and op.type not in ("Placeholder", "NoOp")
    )


def reachable(outputs):
    seen, waiting = set(), [getattr(output, "op", output) for output in outputs]
    while waiting:
        op = waiting.pop()
        if op.name not in seen:
            seen.add(op.name)
            waiting += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return seen


needed = reachable(sink)
tensors = [t for op in graph.get_operations() if op.name in needed for t in op.outputs if wanted(t)]
tensors = [t for t in tensors if t.dtype.base_dtype not in (tf.resource, tf.variant)]

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    before = session.run({v.op.name: v for v in tf.global_variables() if v.dtype._is_ref_dtype})
    feed = {x: np.random.RandomState(1).rand(2, 8, 8, 3), label: np.array([1, 2])}
    fetched = session.run([tensors, sink], feed)[0]
    session.run(prob, feed)

plain = {}
for tensor, value in zip(tensors, fetched):
    value = np.asarray(value)
    if value.dtype.names:
        value = value[value.dtype.names[0]]
    if value.dtype.kind == "V":
        value = value.astype(np.float32)
    if value.dtype.kind in "biufc":
        plain[tensor.name] = value
plain.update(("%s:0" % name, value) for name, value in before.items())
np.savez(sys.argv[1], **{name.replace("/", "|"): value for name, value in plain.items()})
