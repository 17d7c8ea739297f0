"""Groups the ops of a model that were made from the same original ops.

Source: the vendor's description of ``_datadump_original_op_names`` and what real files hold.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Set, Tuple
from weakref import WeakKeyDictionary

from ..base.fast_dataclasses import dataclass
from .graph import ModelGraph
from .never_dumped import CONSTANT_TYPES
from .op_node import OpNode, gear_of

FOLLOWING_TYPES = frozenset(["Cast", "TransData"])
"""Types whose output holds the values of their input."""


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

    An op without the attribute is the original of the same name. Inserted ops, ops whose original
    names are all empty and constants are groups of one: a constant may have the original name of
    the op it was made for.
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
        """Return the groups with at least one op that is not at one of these positions, in
        order."""
        return [
            self.groups[index]
            for index in sorted(
                {self._of[position].index for position in self._of.keys() - positions}
            )
        ]

    def stands_alone(self, op: OpNode) -> bool:
        """Return whether no other op was made from the same list of originals; Cast and TransData
        next to a computing op do not count.
        """
        group = self._of[op.position]
        if op.type in FOLLOWING_TYPES:
            return len(group.ops) == 1
        return self._computing[group.index] == 1

    def carriers(self, original: str) -> int:
        """Return how many computing ops of one run list this original name."""
        return self._carriers.get(original, 0)


def _most_in_one_run(counts: Dict[Optional[str], int]) -> int:
    """Return the most ops that run in one run: those without gear and those of the largest gear."""
    of_gears = [count for gear, count in counts.items() if gear is not None]
    return counts.get(None, 0) + max(of_gears, default=0)


_groups_by_graph: WeakKeyDictionary[ModelGraph, Groups] = WeakKeyDictionary()


def groups_of(graph: ModelGraph) -> Groups:
    """Return all groups of a model; cached, for all devices and steps share them."""
    groups = _groups_by_graph.get(graph)
    if groups is None:
        groups = _groups_by_graph[graph] = Groups(graph)
    return groups


def ground_truth(op: OpNode, groups: Groups) -> str:
    """Return the GroundTruth cell: the op's original names joined by ``,``, or ``*`` if it has
    none.
    """
    names = op.originals
    if op.type in CONSTANT_TYPES and op.original_names is not None:
        names = tuple(name for name in names if not groups.carriers(name))
    return ",".join(names) or "*"
