"""Selects the golden tensors that a model's rows are compared with: no others need to be made."""

from __future__ import annotations

from typing import Dict, Iterable, List, Set, Tuple

from ..base.naming import sanitise_golden
from .graph import ModelGraph
from .pairing import Pairing
from .row_plan import PAIR, DumpedOp

Key = Tuple[str, int]


def needed_goldens(graph: ModelGraph, available: Iterable[Key]) -> Set[Key]:
    """Return those (original op, output) of the available ones that a row of the model is compared
    with when everything is dumped.
    """
    table: Dict[Key, List[Key]] = {}
    for name, index in available:
        table.setdefault((sanitise_golden(name), index), []).append((name, index))
    pairing = Pairing(graph, lambda op, index: (sanitise_golden(op), index) in table)
    needed: Set[Key] = set()
    for op in graph.ops:
        dumped = DumpedOp(op.name, op.type, 0, len(op.inputs), len(op.output_descs))
        for plan in pairing.rows_for(dumped):
            if plan.status == PAIR and plan.golden_op is not None:
                index = plan.golden_index or 0
                alike = table.get((sanitise_golden(plan.golden_op), index), [])
                needed.update(
                    [(plan.golden_op, index)] if (plan.golden_op, index) in alike else alike
                )
    return needed
