"""The branches of If nodes that a run takes: which they are, and what stands behind the graph to
compute them.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Set, Tuple

import numpy as np

from ...netfiles.onnx_model import OnnxModel, OnnxNode
from ...netfiles.onnx_names import BRANCHES, NamedGraph
from .model_additions import inlined, node_of
from .randomness import Randomness
from .values_to_save import Plan, ValueToSave, is_branch, skipped_branch, skipped_within, targets_of

_PREFIX = "goldwatch/"
_If = Tuple[str, OnnxNode, str, Mapping[str, str]]


def with_branches(
    model: OnnxModel, plan: Plan, backend: Any, randomness: Randomness, tainted: Set[str]
) -> Tuple[bytes, List[ValueToSave], List[Tuple[str, str]]]:
    """Return what stands behind the graph to compute the branches that are taken, all targets, and
    what is skipped.

    An If's condition is computed first; the nodes of the branch that it takes then stand behind the
    main graph, where their values can be had: the same kernels compute them from the same inputs.

    Parameters
    ----------
    plan
        What is saved of the model.
    backend
        Computes the conditions.
    randomness, tainted
        What the model's nodes draw, and the values that come out of random numbers: those of the
        branches are added.
    """
    additions, targets, skipped = b"", list(plan.targets), list(plan.skipped)
    bodies = {named.prefix: named for named in plan.graphs[1:]}
    waiting = _ifs(plan.main, {})
    with model.open() as file:
        while waiting:
            conditions = [_PREFIX + "condition/%d" % number for number in range(len(waiting))]
            identities = b"".join(
                node_of("Identity", [value], [name])
                for (_, _, value, _), name in zip(waiting, conditions)
            )
            taken = backend.fetch(additions + identities, conditions)
            inner: List[_If] = []
            for (name, node, _, around), condition in zip(waiting, taken):
                chosen = (
                    "then_branch" if bool(np.asarray(condition).reshape(-1)[0]) else "else_branch"
                )
                for attr in node.graphs:
                    if not is_branch(node, attr):
                        continue
                    body = bodies["%s_%d_%s/" % (name, BRANCHES[attr], attr)]
                    if attr != chosen:
                        skipped += _skipped_whole(body, name, bodies)
                        continue
                    data, renamed = inlined(file, body.graph, _PREFIX + body.prefix, around)
                    additions += data
                    _mark(randomness, body, renamed, tainted)
                    targets += targets_of(body.names, body.graph.nodes, renamed, tainted)
                    skipped += skipped_within(body)
                    inner += _ifs(body, renamed)
            waiting = inner
    return additions, targets, skipped


def _ifs(named: NamedGraph, renamed: Mapping[str, str]) -> List[_If]:
    """Return name, node and condition of the If nodes of a graph, and the new names of the values
    that their bodies can read.
    """
    return [
        (name, node, renamed.get(node.inputs[0], node.inputs[0]), renamed)
        for name, node in zip(named.names, named.graph.nodes)
        if node.inputs and any(is_branch(node, attr) for attr in node.graphs)
    ]


def _mark(
    randomness: Randomness, body: NamedGraph, renamed: Mapping[str, str], tainted: Set[str]
) -> None:
    """Mark the values of a branch that come out of random numbers, under their new names."""
    inside = {name for name in tainted if name not in renamed} | {
        name for name, new in renamed.items() if new in tainted
    }
    randomness.mark(body.graph.nodes, inside)
    tainted.update(renamed.get(name, name) for name in inside)


def _skipped_whole(
    body: NamedGraph, if_name: str, bodies: Mapping[str, NamedGraph]
) -> List[Tuple[str, str]]:
    skipped = skipped_branch(body, if_name)
    for name, node in zip(body.names, body.graph.nodes):
        for attr in node.graphs:
            if is_branch(node, attr):
                skipped += _skipped_whole(
                    bodies["%s_%d_%s/" % (name, BRANCHES[attr], attr)], if_name, bodies
                )
    return skipped
