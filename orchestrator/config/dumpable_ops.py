"""What of a model can be dumped, op by op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Tuple

from ..model.absent_ops import run_condition
from ..model.never_dumped import no_dump_reason
from .layer_selection import Selection, choose, divided
from .models import Models


@dataclass(frozen=True)
class ListedOp:
    """One op (schemas/config_list.schema.json).

    Attributes
    ----------
    model, op, type
        The model's name, the op's name after compilation and its type.
    original_names
        Names before fusion; empty for an op that the compiler inserted.
    dumpable, reason
        Whether the device dumps it, and why not, or when only.
    """

    model: str
    op: str
    type: str
    original_names: Tuple[str, ...]
    dumpable: bool
    reason: Optional[str]


def list_ops(models: Models, selection: Selection) -> List[ListedOp]:
    """Return all ops in the order of the file, or those that are chosen in execution order."""
    listed = []
    for graph, part in divided(models, models.graphs, selection):
        for op in choose(models, graph, part).ops if part else graph.ops:
            reason = no_dump_reason(op)
            condition = run_condition(graph, op)
            why = "only if %s" % condition if condition is not None else reason
            names = (graph.name, op.name, op.type, op.originals)
            listed.append(ListedOp(*names, reason is None, why))
    return listed
