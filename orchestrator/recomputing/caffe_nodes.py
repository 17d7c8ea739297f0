"""The layers of a Caffe net as nodes of :mod:`goldwatch.operators` (parameters by caffe.proto's
names, weights after the bottoms).
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..adapters.caffe.numpy_layer_types import own_parameters
from ..netfiles.caffemodel import read_weights
from ..operators import CAFFE, Node
from .original_nodes import Argument, Call, Nodes
from .recomputed_output import NotComputable
from .submodel.caffe_original import CaffeOriginal


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
