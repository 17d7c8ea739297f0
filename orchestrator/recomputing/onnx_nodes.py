"""The nodes of an ONNX model as :mod:`goldwatch.operators` takes them: attributes, and the source
of each input.
"""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from ..netfiles.onnx_arrays import attributes_of, tensor_array
from ..operators import ONNX, Node
from .original_nodes import Argument, Array, Call, Nodes
from .recomputed_output import NotComputable
from .submodel.onnx_original import OnnxOriginal


class OnnxNodes(Nodes):
    """The nodes of an ONNX model.

    Parameters
    ----------
    original
        The model.
    """

    def __init__(self, original: OnnxOriginal) -> None:
        self._original = original
        self._first = len(original.model.graph.data_inputs)
        self._values = {
            name: (n, k)
            for n, names in enumerate(original.tensors)
            for k, name in enumerate(names)
            if name
        }

    def call(self, number: int) -> Call:
        """Return a node; raises as :meth:`Nodes.call`."""
        model = self._original.model
        onnx_node = model.graph.nodes[number - self._first]
        own = onnx_node.domain in ("", "ai.onnx")
        kind = onnx_node.op_type if own else "%s.%s" % (onnx_node.domain, onnx_node.op_type)
        if onnx_node.graphs:
            raise NotComputable("%s has a body, which is not computed" % onnx_node.op_type)
        with model.open() as file:
            attributes = attributes_of(model, file, onnx_node)
        name = self._original.names[number]
        node = Node(
            ONNX,
            kind,
            attributes,
            name,
            model.opsets.get("", 0),
            len(onnx_node.outputs),
        )
        if onnx_node.op_type == "Constant":
            return Call(node, [], _constant(attributes))
        return Call(node, [self._argument(name) for name in onnx_node.inputs])

    def _argument(self, name: str) -> Argument:
        if not name:
            return None
        if name in self._values:
            return self._values[name]
        return self._array(name)

    def _array(self, name: str) -> Array:
        model = self._original.model
        tensor = model.graph.initializers.get(name)
        if tensor is None:
            raise NotComputable("the values of %s are not in the model" % name)
        with model.open() as file:
            return tensor_array(model.path, file, tensor)


def _constant(attributes: Dict[str, Any]) -> Array:
    kinds = {
        "value": None,
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for name, dtype in kinds.items():
        if name in attributes:
            return np.asarray(attributes[name], dtype)
    raise NotComputable("a constant without a value that is an array")
