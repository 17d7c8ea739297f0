"""Rules about the size of the dump that a configuration asks for: estimated, and held against the
free space.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..base.mounts import free_bytes
from ..base.wording import plural, size_text
from ..model.op_node import OpNode
from .acl_rules import items_of, model_entries, strings_of
from .bytes_per_step import Estimate, estimate, skipped_positions, step_count
from .dump_steps import step_problems
from .finding import WARNING, Findings, Path
from .models import Models
from .ops_of_dump_list import DumpListOps


def check_size(
    findings: Findings,
    size: Optional[Estimate],
    step: Any,
    folder: Optional[str],
    path: Path,
    devices: int = 1,
) -> None:
    """Add the estimate of a dump's size, of one device and step and in all, held against the free
    space of its folder.
    """
    if size is None or not size.ops:
        return
    free = free_bytes(folder) if folder else None
    valid = isinstance(step, str) and not any(
        rule != "step-equal" for rule, _, _ in step_problems(step)
    )
    steps = step_count(step) if valid else None
    runs = (steps or 1) * devices
    counts = [plural(devices, "device")] if devices > 1 else []
    if steps:
        counts.append(plural(steps, "step"))
    elif devices > 1:
        counts.append("each step")
    text = size.text("device and step")
    if runs > 1 and size.unknown < size.tensors:
        text += "; %s: %s" % (", ".join(counts), size_text(size.size_bytes * runs))
    text += "; free: %s" % size_text(free) if free is not None else ""
    consumer = "chunks that do not fit are dropped with a log line; files get holes"
    if free is not None and size.size_bytes * runs > free:
        fix = "dump fewer layers or steps, or statistics first (dump_data stats)"
        findings.environment(
            WARNING, "disk-space", path, "the dump does not fit: " + text, consumer, fix
        )
    else:
        fix = "dump fewer layers or steps if that is too much"
        findings.note("dump-size", path, "the dump takes " + text, "written without asking", fix)


def acl_size(document: Any, models: Models) -> Estimate:
    """Return what one step of a valid acl.json takes, over all models that were named."""
    dump = document["dump"]
    choices: Dict[int, DumpListOps] = {}
    skips = []
    for entry in model_entries(document):
        name = entry.get("model_name")
        graphs = models.named(name) if isinstance(name, str) and name else models.graphs
        for graph in graphs:
            choices.setdefault(id(graph), DumpListOps(models, graph)).add(entry)
        for field in ("optype_blacklist", "opname_blacklist"):
            for item in items_of(entry.get(field)):
                if isinstance(item, dict) and isinstance(item.get("name"), str):
                    skips.append(
                        (item["name"], [text for text in strings_of(item.get("pos")) if text])
                    )
    mode, data = dump.get("dump_mode", "output"), dump.get("dump_data", "tensor")
    skipped = skipped_positions(skips)

    def of(ops: Sequence[OpNode]) -> Estimate:
        return estimate(ops, str(mode), str(data), skipped)

    return of([op for choice in choices.values() for op in choice.largest_of_one_run(of)])


def npu_size(values: Mapping[str, Any], models: Models) -> Estimate:
    """Return what one step of npu settings takes."""
    layers = values.get("dump_layer")
    entry = {"layer": layers.split()} if isinstance(layers, str) and layers.strip() else {}
    mode, data = str(values.get("dump_mode") or "output"), str(values.get("dump_data") or "tensor")

    def of(ops: Sequence[OpNode]) -> Estimate:
        return estimate(ops, mode, data)

    chosen: List[OpNode] = []
    for graph in models.graphs:
        choice = DumpListOps(models, graph)
        choice.add(entry)
        chosen += choice.largest_of_one_run(of)
    return of(chosen)
