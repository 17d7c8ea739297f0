"""Freezes a SavedModel of TensorFlow 2 into one graph without functions.

Usage: tf2_freeze.py SAVED_MODEL FROZEN.pb [SIGNATURE]; needs TensorFlow 2.
"""

import sys

import tensorflow as tf
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

if not tf.__version__.startswith("2"):
    sys.exit(
        "this needs TensorFlow 2, not %s; a SavedModel of TensorFlow 1 needs no freezing"
        % tf.__version__
    )
signature = sys.argv[3] if len(sys.argv) > 3 else "serving_default"
model = tf.saved_model.load(sys.argv[1])
function = convert_variables_to_constants_v2(
    model.signatures[signature], lower_control_flow=False, aggressive_inlining=True
)
graph = function.graph.as_graph_def()
for node in graph.node:
    # TensorFlow 1.15 does not know newer attributes (their defaults mean nothing) and the notes
    # that TensorFlow 2 writes.
    defaults = {
        attr.name: attr.default_value
        for attr in op_def_registry.get(node.op).attr
        if attr.HasField("default_value")
    }
    for name in list(node.attr):
        if name.startswith("_") or node.attr[name] == defaults.get(name):
            del node.attr[name]
with open(sys.argv[2], "wb") as stream:
    stream.write(graph.SerializeToString())
print("inputs:", ", ".join(tensor.name for tensor in function.inputs))
print("outputs:", ", ".join(tensor.name for tensor in function.outputs))
