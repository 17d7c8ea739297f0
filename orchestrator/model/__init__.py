"""What the model says: its graph, and which target tensor belongs to which golden tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.lazy_imports import imported_when_used

if TYPE_CHECKING:
    from .graph import ModelGraph, computational_graphs
    from .graphs_of_run import ModelGraphs, load_models
    from .never_dumped import never_dumps, no_dump_reason
    from .op_groups import Group
    from .op_node import OpNode, TensorDesc, execution_key
    from .pairing import Pairing
    from .read_model import load_model
    from .row_plan import DumpedOp, RowPlan

__all__ = [
    "DumpedOp",
    "Group",
    "ModelGraph",
    "ModelGraphs",
    "OpNode",
    "Pairing",
    "RowPlan",
    "TensorDesc",
    "computational_graphs",
    "execution_key",
    "load_model",
    "load_models",
    "never_dumps",
    "no_dump_reason",
]

if not TYPE_CHECKING:
    __getattr__ = imported_when_used(
        __name__,
        graph=("ModelGraph", "computational_graphs"),
        read_model=("load_model",),
        graphs_of_run=("ModelGraphs", "load_models"),
        op_groups=("Group",),
        never_dumped=("never_dumps", "no_dump_reason"),
        op_node=("OpNode", "TensorDesc", "execution_key"),
        pairing=("Pairing",),
        row_plan=("DumpedOp", "RowPlan"),
    )
