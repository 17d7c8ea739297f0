"""The ops of a model that a dump plan asks for: ops that it leaves out are not missing from the
dump.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping, Optional, Sequence, Set

from ..base.naming import sanitise_device
from ..base.safe_reading import read_input
from ..model.graph import ModelGraph
from ..model.never_dumped import DumpRequest
from ..model.op_node import OpNode
from .bytes_per_step import skipped_positions
from .dump_plan import EXCEPTION_SCENES, DumpPlan, ModelDump
from .dump_plan_formats import read_plan
from .models import Models, file_names
from .ops_of_dump_list import DumpListOps

_MAX_BYTES = 10 * 1024 * 1024
_OTHERS = "not asked for: the dump configuration names other ops"
_LEFT_OUT = "not asked for: the dump configuration leaves it out"
_TAKEN = " (of model %s, which is taken for this one)"
_OVERFLOW = "not asked for: only ops that overflow are dumped (dump_debug)"
_EXCEPTION = "not asked for: only ops that fail are dumped (dump_scene %s)"


def read_requested_plan(path: str) -> DumpPlan:
    """Return the plan that a configuration holds: acl.json, npu settings, a script or a plan.

    Raises
    ------
    InputError, FormatError
        As :func:`goldwatch.config.dump_plan_formats.read_plan`; the file is missing.
    """
    # The same dump may lie anywhere by now.
    return replace(read_plan(read_input(path, _MAX_BYTES), path), dump_path=None)


def requested_ops_of(
    plan: DumpPlan, graph: ModelGraph, model_name: Optional[str] = None
) -> DumpRequest:
    """Return what a plan asks for of one model.

    Parameters
    ----------
    model_name
        What the model's folder in the dump is called: the om file may have another name than the
        json. A plan of one model only is taken for this one, whatever its name.
    """
    if plan.debug:
        return DumpRequest(frozenset(), _OVERFLOW)
    if plan.scene in EXCEPTION_SCENES:
        return DumpRequest(frozenset(), _EXCEPTION % plan.scene)
    entry = _entry(plan.models or (), graph, model_name)
    if entry is None:
        return DumpRequest()
    mode = plan.mode or "output"
    models = Models([graph])
    choice = DumpListOps(models, graph)
    layers = list(entry.watch_nodes or entry.layers)
    choice.add(
        {
            "layer": layers,
            "opname_range": [{"begin": begin, "end": end} for begin, end in entry.op_ranges],
        }
    )
    chosen = choice.ops()
    skipped = skipped_positions(
        (skip.name, skip.positions) for skip in (*entry.skip_types, *entry.skip_ops)
    )
    whole = {skip.name for skip in (*entry.skip_types, *entry.skip_ops) if not skip.positions}
    requested = [
        op for op in chosen if not {op.name, op.type} & whole and _leaves_any(op, mode, skipped)
    ]
    if choice.whole and len(requested) == len(chosen):
        return DumpRequest(mode=mode)
    reason = _LEFT_OUT if choice.whole else _OTHERS
    if entry.name and not _is_of(entry, graph, model_name):
        reason += _TAKEN % entry.name
    return DumpRequest(frozenset(op.position for op in requested), reason, mode)


def _entry(
    entries: Sequence[ModelDump], graph: ModelGraph, model_name: Optional[str]
) -> Optional[ModelDump]:
    """Return the entry that holds for a model: one without a name shadows the others, the last
    counts.
    """
    nameless = [entry for entry in entries if not entry.name]
    if nameless:
        return nameless[-1]
    named = [entry for entry in entries if _is_of(entry, graph, model_name)]
    if named:
        return named[-1]
    return entries[0] if len(entries) == 1 else None


def _is_of(entry: ModelDump, graph: ModelGraph, model_name: Optional[str]) -> bool:
    """Tell whether an entry names the model: as its folder in the dump, its graphs or its json are
    called.
    """
    names = (model_name or "", graph.name, *graph.graph_names, *file_names(graph))
    return sanitise_device(entry.name or "") in {sanitise_device(name) for name in names if name}


def _leaves_any(op: OpNode, mode: str, skipped: Mapping[str, Set[str]]) -> bool:
    """Tell whether any tensor of an op is dumped when these positions are left out."""
    left_out = skipped.get(op.name, set()) | skipped.get(op.type, set())
    if not left_out:
        return True
    kinds = (("input", op.input_descs), ("output", op.output_descs))
    every = {
        "%s%d" % (kind, number)
        for kind, descs in kinds
        if mode in (kind, "all")
        for number in range(len(descs))
    }
    return not every <= left_out
