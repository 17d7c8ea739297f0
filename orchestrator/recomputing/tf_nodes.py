"""The nodes of a frozen TensorFlow graph as :mod:`goldwatch.operators` takes them."""

from __future__ import annotations

from typing import List

from ..netfiles.graphdef_arrays import attributes_of
from ..operators import TENSORFLOW, Node
from .original_nodes import Argument, Call, Nodes
from .recomputed_output import NotComputable
from .submodel.tf_control_flow import CONTROL_FLOW
from .submodel.tf_original import TfOriginal


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
            attributes = attributes_of(graph, file, graph_node)
        outputs = max(1, len(self._original.tensors[number]))
        node = Node(TENSORFLOW, graph_node.op, attributes, graph_node.name, 0, outputs)
        if graph_node.op == "Const":
            return Call(node, [], attributes["value"])
        arguments: List[Argument] = list(self._original.graph.sources[number])
        return Call(node, arguments)
