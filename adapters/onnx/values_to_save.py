"""Which values of a model are saved, under which names, and why the others are not."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ...base.errors import InputError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import nearest_names, printable
from ...netfiles.onnx_model import OnnxGraph, OnnxModel, OnnxNode
from ...netfiles.onnx_names import BRANCHES, NamedGraph, name_nodes
from .randomness import reads

CONSTANT = "a Constant, which the device never dumps"
INITIALIZER = "an initializer (weights), which the device never dumps"
NOT_TAKEN = "of the branch of %s that was not taken"
BODY = "in the body of %s (%s), which atc cannot convert"
NOT_NEEDED = "no row of the model compares it"
Key = Tuple[str, int]


@dataclass(frozen=True)
class ValueToSave:
    """One output of one node, or a graph input.

    Attributes
    ----------
    value
        The value's name in the model that runs.
    name, index
        What it is saved as: the node's name in an om (an input's own) and the number of the output.
    type
        The op type; ``Input`` for an input.
    nondeterministic
        Whether it comes out of random numbers.
    given
        Whether the user gave its values.
    """

    value: str
    name: str
    index: int
    type: str
    nondeterministic: bool = False
    given: bool = False

    @property
    def title(self) -> str:
        """``name:index``."""
        return "%s:%d" % (self.name, self.index)

    @property
    def fields(self) -> Dict[str, object]:
        """Its further fields in the manifest."""
        fields: Dict[str, object] = {"value": self.value, "type": self.type}
        fields.update({name: True for name in ("nondeterministic", "given") if getattr(self, name)})
        return fields


@dataclass(frozen=True)
class Feed:
    """An output of a node whose values the user gives: the node, its name in an om, and the number
    of the output.
    """

    node: OnnxNode
    name: str
    index: int

    @property
    def value(self) -> str:
        """The value's name."""
        return self.node.outputs[self.index]


@dataclass
class Plan:
    """What is saved of a model.

    Attributes
    ----------
    graphs
        The main graph first, then the bodies of its If nodes, with their nodes' names.
    targets
        Of the main graph: inputs, then outputs of nodes.
    skipped
        ``(tensor, reason)`` of what is known before the run not to be saved.
    """

    model: OnnxModel
    graphs: List[NamedGraph]
    targets: List[ValueToSave] = field(default_factory=list)
    skipped: List[Tuple[str, str]] = field(default_factory=list)

    @property
    def main(self) -> NamedGraph:
        """The main graph."""
        return self.graphs[0]

    def possible_keys(self) -> Set[Key]:
        """Return (name, index) of everything that a run may save, whichever branches it takes."""
        keys = {(target.name, target.index) for target in self.targets}
        for named in self.graphs[1:]:
            keys.update(
                (target.name, target.index) for target in targets_of(named.names, named.graph.nodes)
            )
        return keys


def targets_of(
    names: Sequence[str],
    nodes: Sequence[OnnxNode],
    renamed: Optional[Mapping[str, str]] = None,
    tainted: Iterable[str] = (),
) -> List[ValueToSave]:
    """Return the outputs of a graph's nodes but for Constants and those that are left out."""
    new = renamed or {}
    drawn = set(tainted)
    return [
        ValueToSave(
            new.get(value, value), name, index, node.op_type, new.get(value, value) in drawn
        )
        for name, node in zip(names, nodes)
        if not is_constant(node)
        for index, value in enumerate(node.outputs)
        if value
    ]


def is_constant(node: OnnxNode) -> bool:
    """Tell whether a node is a Constant of ONNX's own."""
    return node.op_type == "Constant" and node.domain in ("", "ai.onnx")


def make_plan(
    model: OnnxModel,
    tainted: Iterable[str],
    feeds: Sequence[Feed] = (),
    graphs: Optional[List[NamedGraph]] = None,
) -> Plan:
    """Return the plan of the main graph.

    Parameters
    ----------
    tainted
        The values that come out of random numbers.
    feeds
        Outputs of nodes whose values are given.

    Raises
    ------
    InputError
        As :func:`goldwatch.netfiles.onnx_names.name_nodes`.
    """
    plan = Plan(model, graphs or name_nodes(model))
    graph = model.graph
    plan.targets += [ValueToSave(value.name, value.name, 0, "Input") for value in graph.data_inputs]
    fed = {feed.value for feed in feeds}
    fed_nodes = {id(feed.node) for feed in feeds}
    nodes = dict(zip(plan.main.names, graph.nodes))
    for target in targets_of(plan.main.names, graph.nodes, None, tainted):
        node = nodes[target.name]
        if id(node) not in fed_nodes:
            plan.targets.append(target)
        elif target.value in fed:
            plan.targets.append(replace(target, given=True, nondeterministic=False))
        else:
            plan.skipped.append(
                (target.title, "the node is left out: values of its other outputs were given")
            )
    plan.skipped += [(name, INITIALIZER) for name in graph.initializers]
    for name, node in zip(plan.main.names, graph.nodes):
        plan.skipped += _skipped_of(name, node)
    return plan


def _skipped_of(name: str, node: OnnxNode) -> List[Tuple[str, str]]:
    """Return the outputs of a node that are never saved: those of a Constant, and of nodes in
    bodies that no om has.
    """
    if is_constant(node):
        return [(name, CONSTANT)]
    skipped = []
    for attr, body in node.graphs.items():
        if not is_branch(node, attr):
            skipped += _all_of("%s/%s/" % (name, attr), body, BODY % (name, node.op_type))
    return skipped


def is_branch(node: OnnxNode, attr: str) -> bool:
    """Tell whether an attribute is a body of an If, which an om has."""
    return node.op_type == "If" and node.domain in ("", "ai.onnx") and attr in BRANCHES


def _all_of(prefix: str, body: OnnxGraph, reason: str) -> List[Tuple[str, str]]:
    skipped = []
    for number, node in enumerate(body.nodes):
        name = prefix + (node.name or "%s_%d" % (node.op_type, number))
        skipped += [
            ("%s:%d" % (name, index), reason)
            for index, value in enumerate(node.outputs)
            if value and not is_constant(node)
        ]
        for attr, inner in node.graphs.items():
            skipped += _all_of("%s/%s/" % (name, attr), inner, reason)
    return skipped


def skipped_branch(named: NamedGraph, if_name: str) -> List[Tuple[str, str]]:
    """Return everything of a branch that was not taken."""
    return [
        (target.title, NOT_TAKEN % if_name) for target in targets_of(named.names, named.graph.nodes)
    ]


def skipped_within(named: NamedGraph) -> List[Tuple[str, str]]:
    """Return the values of a branch that was taken that are never saved."""
    return [
        entry
        for name, node in zip(named.names, named.graph.nodes)
        for entry in _skipped_of(name, node)
    ]


def find_feed(model: OnnxModel, main: NamedGraph, what: str) -> Feed:
    """Return the output that ``NODE`` or ``NODE:i`` names.

    Raises
    ------
    UsageError
        There is no such node in the main graph, or no such output.
    """
    nodes = dict(zip(main.names, main.graph.nodes))
    name, index = what, 0
    if name not in nodes:
        before, colon, number = what.rpartition(":")
        if colon and number.isdigit() and before in nodes:
            name, index = before, int(number)
        else:
            near = nearest_names(what, nodes, 3)
            hint = (
                "nearest: %s" % ", ".join(printable(text) for text in near)
                if near
                else "name a node of the main graph, or NODE:1"
            )
            raise UsageError(
                "`feeds` names %s, which is no node of %s"
                % (printable(what), printable(model.path)),
                hint=hint,
            )
    node = nodes[name]
    if index >= len(node.outputs) or not node.outputs[index]:
        raise UsageError("`feeds`: node %s has no output %d" % (printable(name), index))
    return Feed(node, name, index)


def check_feeds(model: OnnxModel, feeds: Sequence[Feed]) -> None:
    """Raise InputError where a node whose output is given has another one that is still read."""
    fed_values = {feed.value for feed in feeds}
    left_out = {id(feed.node) for feed in feeds}
    read = {name for node in model.graph.nodes if id(node) not in left_out for name in reads(node)}
    read.update(value.name for value in model.graph.outputs)
    for feed in feeds:
        for index, value in enumerate(feed.node.outputs):
            if value and value in read and value not in fed_values:
                message = "output %d of node %s is read, too, and has no values" % (
                    index,
                    printable(feed.name),
                )
                raise InputError(
                    message, hint="add `feeds=%s:%d=FILE`" % (printable(feed.name), index)
                )
