"""The names of an ONNX model's ops in an om: GE's rules for nodes without a name and for the bodies
of If.

Source: the vendor's published ONNX parser (AdaptAndFindAllOnnxGraph, PreChecker), agreed by om json
files of real models.
"""

from __future__ import annotations

from collections import deque
from typing import Deque, List, NamedTuple

from ..base.errors import InputError
from ..base.naming import printable
from .onnx_model import OnnxGraph, OnnxModel

BRANCHES = {"then_branch": 0, "else_branch": 1}
"""The bodies of If and their numbers in names; the parser converts no other op's bodies."""


class NamedGraph(NamedTuple):
    """A graph that GE's parser converts.

    Attributes
    ----------
    prefix
        Prefix of its nodes' names: empty for the main graph,
        ``{If node}_{0|1}_{then_branch|else_branch}/`` for a body.
    graph
        The graph.
    names
        Of each of its nodes, in order, the name in the om.
    """

    prefix: str
    graph: OnnxGraph
    names: List[str]


def name_nodes(model: OnnxModel) -> List[NamedGraph]:
    """Return the main graph and, breadth first, the bodies of its If nodes, with the names that
    their nodes have in an om.

    A node without a name is called ``{op_type}_{k}``; k counts the nodes without a name from 0
    through all these graphs.

    Raises
    ------
    InputError
        Two nodes, or a node and an input, have the same name (one that was made for a node counts
        too): no om can be made of such a model.
    """
    graphs: List[NamedGraph] = []
    unnamed = 0
    waiting: Deque[NamedGraph] = deque([NamedGraph("", model.graph, [])])
    while waiting:
        named = waiting.popleft()
        for node in named.graph.nodes:
            node_name = node.name
            if not node_name:
                node_name = "%s_%d" % (node.op_type, unnamed)
                unnamed += 1
            name = named.prefix + node_name
            named.names.append(name)
            for attr, body in node.graphs.items():
                if node.op_type == "If" and node.domain in ("", "ai.onnx") and attr in BRANCHES:
                    waiting.append(NamedGraph("%s_%d_%s/" % (name, BRANCHES[attr], attr), body, []))
        graphs.append(named)
    for named in graphs:
        _refuse_repeated(model.path, named)
    return graphs


def _refuse_repeated(path: str, named: NamedGraph) -> None:
    owners = (
        {}
        if named.prefix
        else {value.name: "input %s" % value.name for value in named.graph.data_inputs}
    )
    for number, (name, node) in enumerate(zip(named.names, named.graph.nodes)):
        title = "node %d (%s%s)" % (
            number,
            node.op_type,
            "" if node.name else ", without a name of its own",
        )
        other = owners.setdefault(name, title)
        if other is not title:
            message = (
                "%s and %s are both called %s; atc refuses such a model (E19009, a name is "
                "repeated)"
            )
            hint = (
                "give each node a name of its own, save the model, and give that one to atc and "
                "to goldwatch"
            )
            raise InputError(
                message % (printable(other), printable(title), printable(name)), hint, path
            )
