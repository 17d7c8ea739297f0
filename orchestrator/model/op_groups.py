"""Which ops of a model belong together because they came from the same original ops.

Source: the vendor's description of ``_datadump_original_op_names`` and what real files hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Set, Tuple
from weakref import WeakKeyDictionary

from .gears import gear_of
from .graph import ModelGraph
from .never_dumped import CONSTANT_TYPES
from .op_node import OpNode

FOLLOWING_TYPES = frozenset(["Cast", "TransData"])
"""Types whose output holds the values of what precedes them."""


@dataclass(frozen=True)
class Group:
    """Ops with the same list of original names, of one graph and one gear.

    Attributes
    ----------
    index
        The group's number in the order of the file, from 0.
    ops
        Its members, in the order of the file.
    names
        The members' names.
    """

    index: int
    ops: Tuple[OpNode, ...]
    names: Tuple[str, ...]


class Groups:
    """All groups of a model.

    An op without the attribute stands for the original of its own name. Inserted ops, ops whose
    original names are all empty and constants are groups of their own: a constant may carry the
    original name of the op it was made for.
    """

    def __init__(self, graph: ModelGraph) -> None:
        members: Dict[Tuple[object, ...], List[OpNode]] = {}
        carriers: Dict[str, Dict[Optional[str], int]] = {}
        for op in graph.ops:
            gear = gear_of(op, graph.graph_names[op.graph_index])
            constant = op.type in CONSTANT_TYPES
            alone = constant or not op.originals
            key = ("op", op.position) if alone else (op.graph_index, gear, op.originals)
            members.setdefault(key, []).append(op)
            if not constant and op.type not in FOLLOWING_TYPES:
                for name in op.originals:
                    counts = carriers.setdefault(name, {})
                    counts[gear] = counts.get(gear, 0) + 1
        self.groups = tuple(
            Group(index, tuple(ops), tuple(op.name for op in ops))
            for index, ops in enumerate(members.values())
        )
        self._of = {op.position: group for group in self.groups for op in group.ops}
        self._computing = {
            group.index: sum(op.type not in FOLLOWING_TYPES for op in group.ops)
            for group in self.groups
        }
        self._carriers = {name: _most_in_one_run(counts) for name, counts in carriers.items()}

    def of(self, op: OpNode) -> Group:
        """Return the op's group."""
        return self._of[op.position]

    def incomplete(self, positions: Set[int]) -> List[Group]:
        """Return the groups that have an op at none of these positions, in their order."""
        return [
            self.groups[index]
            for index in sorted(
                {self._of[position].index for position in self._of.keys() - positions}
            )
        ]

    def stands_alone(self, op: OpNode) -> bool:
        """Tell whether no other op came from the same list of originals; Cast and TransData beside
        an op that computes do not count.
        """
        group = self._of[op.position]
        if op.type in FOLLOWING_TYPES:
            return len(group.ops) == 1
        return self._computing[group.index] == 1

    def carriers(self, original: str) -> int:
        """Return how many ops that compute list this original name, those of one gear only."""
        return self._carriers.get(original, 0)


def _most_in_one_run(counts: Dict[Optional[str], int]) -> int:
    """Return how many of some ops, counted by their gears, run at most in one run."""
    of_gears = [count for gear, count in counts.items() if gear is not None]
    return counts.get(None, 0) + max(of_gears, default=0)


_groups_by_graph: WeakKeyDictionary[ModelGraph, Groups] = WeakKeyDictionary()


def groups_of(graph: ModelGraph) -> Groups:
    """Return all groups of a model; every device and step of a training shares them."""
    groups = _groups_by_graph.get(graph)
    if groups is None:
        groups = _groups_by_graph[graph] = Groups(graph)
    return groups


def ground_truth(op: OpNode, groups: Groups) -> str:
    """Return the GroundTruth cell: the op's original names joined by ``,``, or ``*`` when it has
    none of its own.
    """
    names = op.originals
    if op.type in CONSTANT_TYPES and op.original_names is not None:
        names = tuple(name for name in names if not groups.carriers(name))
    return ",".join(names) or "*"
