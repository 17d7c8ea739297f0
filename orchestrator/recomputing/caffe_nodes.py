"""The layers of a Caffe net as nodes of :mod:`goldwatch.operators` (parameters by caffe.proto's
names, weights after the bottoms), and the shapes of a net's values.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ..adapters.caffe.numpy_layer_types import own_parameters
from ..errors import InputError
from ..netfiles.caffemodel import read_weights
from ..operators import CAFFE, Node
from ..submodel.caffe_original import CaffeOriginal
from .original_cuts import NotComputable, Value
from .original_nodes import Argument, Call, Nodes


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


def caffe_shapes(original: CaffeOriginal) -> Dict[Value, Tuple[int, ...]]:
    """Return the shapes of all values as the prototxt tells them, as far as the rules of its layers
    are known.
    """
    from ..adapters.caffe.shapes import top_shapes

    net = original.net
    shapes = dict(original.shapes())
    shapes_by_name: Dict[Value, Tuple[int, ...]] = {
        (blob, 0): shapes[-1, number]
        for number, blob in enumerate(net.inputs)
        if (-1, number) in shapes
    }
    for number, layer in enumerate(net.layers):
        sources = original.graph.sources[number]
        if layer.type != "Input" and all(value in shapes for value in sources) and sources:
            try:
                shapes.update(
                    {
                        (number, index): shape
                        for index, shape in enumerate(
                            top_shapes(layer, [shapes[value] for value in sources])
                        )
                    }
                )
            except InputError:
                continue  # the framework will say what it thinks of this layer
    shapes_by_name.update(
        {
            (original.names[number], index): shape
            for (number, index), shape in shapes.items()
            if number >= 0
        }
    )
    return shapes_by_name
