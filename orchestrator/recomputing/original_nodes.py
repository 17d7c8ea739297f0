"""The nodes of original models as :mod:`goldwatch.operators` takes them: a node, and the source of
each of its inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from ..adapters.caffe.numpy_layer_types import own_parameters
from ..netfiles.caffemodel import read_weights
from ..netfiles.graphdef_arrays import attributes_of as graphdef_attributes
from ..netfiles.onnx_arrays import attributes_of, tensor_array
from ..netfiles.onnx_types import BY_NAME, type_name
from ..operators import CAFFE, ONNX, TENSORFLOW, Node
from .recomputed_output import NotComputable
from .submodel.caffe_original import CaffeOriginal
from .submodel.onnx_original import OnnxOriginal
from .submodel.tf_control_flow import CONTROL_FLOW
from .submodel.tf_original import TfOriginal

Array = Any
Argument = Union[Tuple[int, int], Array, None]
"""Source of a node's input: (number of its producer, output), an array of the model, or None.
"""


class Call(NamedTuple):
    """A node and its inputs; for a constant its value."""

    node: Node
    arguments: List[Argument]
    constant: Optional[Array] = None


class Nodes(ABC):
    """The nodes of an original model by number."""

    @abstractmethod
    def call(self, number: int) -> Call:
        """Return a node by its number in the original.

        Raises
        ------
        NotComputable
            It has a body, is of another domain, or needs more than arrays.
        FormatError, InputError, MissingPath
            The model's data cannot be read.
        """


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
        if onnx_node.op_type == "QuantizeLinear" and len(onnx_node.inputs) > 2:
            # Decoded, a zero point of a float type does not tell which.
            zero = model.graph.initializers.get(onnx_node.inputs[2])
            if zero is not None and type_name(zero.dtype).startswith("float8"):
                attributes.setdefault("output_dtype", zero.dtype)
        arguments = [self._argument(name) for name in onnx_node.inputs]
        if kind == "CastLike":
            return self._as_cast(node, number, arguments[0])
        return Call(node, arguments)

    def _as_cast(self, node: Node, number: int, argument: Argument) -> Call:
        """Return a CastLike as the Cast that it is: of its second input the type alone counts, and
        arrays here do not tell it (float16 is held as float32).
        """
        (name,) = self._original.dtypes[number]
        if name not in BY_NAME:
            raise NotComputable("the model does not tell the element type of its second input")
        attributes = {**node.attributes, "to": BY_NAME[name].code}
        return Call(replace(node, type="Cast", attributes=attributes), [argument])

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


class TfNodes(Nodes):
    """The nodes of a frozen graph.

    Parameters
    ----------
    original
        The graph.
    """

    def __init__(self, original: TfOriginal) -> None:
        self._original = original

    def call(self, number: int) -> Call:
        """Return a node; raises as :meth:`Nodes.call`."""
        graph = self._original.file
        graph_node = graph.nodes[number]
        if graph_node.op in CONTROL_FLOW:
            raise NotComputable("%s belongs to a loop or a conditional" % graph_node.op)
        with graph.open() as file:
            attributes = graphdef_attributes(graph, file, graph_node)
        outputs = max(1, len(self._original.tensors[number]))
        node = Node(TENSORFLOW, graph_node.op, attributes, graph_node.name, 0, outputs)
        if graph_node.op == "Const":
            return Call(node, [], attributes["value"])
        arguments: List[Argument] = list(self._original.graph.sources[number])
        return Call(node, arguments)


class CaffeNodes(Nodes):
    """The layers of a net.

    Parameters
    ----------
    original
        The net.
    weights
        Path of the .caffemodel; None where there is none.
    """

    def __init__(self, original: CaffeOriginal, weights: Optional[str]) -> None:
        self._original = original
        self._path = weights
        self._weights: Optional[Dict[str, List[Any]]] = None

    def call(self, number: int) -> Call:
        """Return a layer; raises as :meth:`Nodes.call`."""
        layer = self._original.net.layers[number]
        if layer.type == "Python":
            raise NotComputable("a layer of type Python has code of its own")
        node = Node(CAFFE, layer.type, own_parameters(layer), layer.name, 0, len(layer.tops))
        arguments: List[Argument] = list(self._original.graph.sources[number])
        if self._original.weighted(number):
            blobs = self._blobs().get(layer.name)
            if blobs is None:
                raise NotComputable("the weights of layer %s are not known" % layer.title)
            arguments += blobs
        return Call(node, arguments)

    def _blobs(self) -> Dict[str, List[Any]]:
        if self._weights is None:
            self._weights = {} if self._path is None else read_weights(self._path)
        return self._weights
