"""Adapts the original graph that TorchAir passes to GE to the dumped ops: fused ops replace their
members.

Source: the vendor's guide to comparing TorchAir's dumps: a fused op's name is its members' names
joined without a separator (longest match), its inputs are the first member's, its outputs the
last's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..base.errors import GoldwatchError
from ..base.naming import sanitise_device, sanitise_golden
from ..dumps.dump_file import DumpFile
from ..dumps.dump_tree import DumpTree
from ..dumps.folder_listing import DumpEntry
from ..dumps.golden_set import GoldenSet
from .graph import ModelGraph
from .graphs_of_run import ModelGraphs
from .op_groups import FOLLOWING_TYPES
from .op_node import OpNode, TensorDesc, desc_at

Counts = Callable[[str], Optional[Tuple[int, int]]]
"""Maps a dumped op's name to the (inputs, outputs) counts of its dump; None if unknown.
"""


def with_fused_ops(
    graph: ModelGraph, dumped: Mapping[str, Tuple[str, int]], dump_counts: Counts, unfused: bool
) -> ModelGraph:
    """Return the original graph with the dumped ops: fused ops replace their members, and casts
    that GE inserted stand where they ran.

    Parameters
    ----------
    dumped
        The names of the dumped ops, as the device writes them, each with its type and when it ran
        (microseconds since the epoch).
    dump_counts
        How many inputs and outputs a fused op's dump holds.
    unfused
        The golden data are a build without fusion: pairs by the members' own names, not by FX
        nodes.
    """
    by_device_name = {sanitise_device(op.name): op for op in graph.ops}
    fused: Dict[str, List[OpNode]] = {}
    taken: Dict[int, str] = {}
    for name in dumped:
        members = None if name in by_device_name else members_of(name, by_device_name)
        if members is not None and not any(op.position in taken for op in members):
            fused[name] = members
            taken.update((op.position, name) for op in members)
    ops = [_by_own_name(op) for op in graph.ops] if unfused else list(graph.ops)
    inserted = [
        name
        for name, (op_type, _) in dumped.items()
        if name not in by_device_name and name not in fused and op_type in FOLLOWING_TYPES
    ]
    if not fused and not inserted and not unfused:
        return graph
    made = {
        name: _fused_op(
            name, [ops[op.position] for op in members], dump_counts(name), unfused, graph
        )
        for name, members in fused.items()
    }
    moved: Dict[Tuple[str, int], Tuple[str, int]] = {}
    for op, outputs in made.values():
        moved.update((old, (op.name, number)) for number, old in enumerate(outputs))
    fused_ops = []
    for op in ops:
        into = taken.get(op.position)
        if into is not None and fused[into][-1].position != op.position:
            continue
        op = op if into is None else made[into][0]
        inputs = tuple(
            None if source is None else moved.get(source, source) for source in op.inputs
        )
        fused_ops.append(replace(op, inputs=inputs))
    fused_ops = _with_inserted(fused_ops, inserted, dumped)
    fused_ops = [replace(op, position=number, id=number) for number, op in enumerate(fused_ops)]
    return ModelGraph(
        graph.name,
        graph.graph_names,
        fused_ops,
        graph.notes,
        graph.path,
        graph.command,
        fx=True,
        unfused=unfused,
    )


def _with_inserted(
    ops: List[OpNode], inserted: Sequence[str], dumped: Mapping[str, Tuple[str, int]]
) -> List[OpNode]:
    """Return the ops with those that the compiler inserted, each before the first op that ran
    later; their inputs are unknown.
    """
    waiting = sorted(inserted, key=lambda name: dumped[name][1])
    merged: List[OpNode] = []
    for op in ops:
        ran = dumped.get(sanitise_device(op.name))
        while waiting and ran is not None and dumped[waiting[0]][1] < ran[1]:
            merged.append(_inserted_op(waiting.pop(0), dumped))
        merged.append(op)
    return merged + [_inserted_op(name, dumped) for name in waiting]


def _inserted_op(name: str, dumped: Mapping[str, Tuple[str, int]]) -> OpNode:
    # Its producer is unknown: no graph has an op of this name.
    source = ("what %s reads" % name, 0)
    return OpNode(
        name,
        dumped[name][0],
        0,
        0,
        0,
        inputs=(source,),
        output_descs=(TensorDesc(),),
        original_names=(),
        inserted=True,
    )


def members_of(name: str, by_device_name: Mapping[str, OpNode]) -> Optional[List[OpNode]]:
    """Return the ops whose sanitised names joined are a fused op's name; None if there are none.

    The longest matching name is tried first, then shorter ones (backtracking).
    """
    longest = max(map(len, by_device_name), default=0)
    dead = set()
    members: List[OpNode] = []
    # (where the next name begins, how long it may be at most)
    stack = [(0, longest)]
    while stack:
        begin, most = stack.pop()
        for length in range(min(most, len(name) - begin), 0, -1):
            op = by_device_name.get(name[begin : begin + length])
            if op is None or begin + length in dead:
                continue
            stack.append((begin, length - 1))
            members.append(op)
            if begin + length == len(name):
                return members
            stack.append((begin + length, longest))
            break
        else:
            dead.add(begin)
            if members:
                members.pop()
    return None


def _by_own_name(op: OpNode) -> OpNode:
    descs = tuple(replace(desc, origin_name=None, origin_index=None) for desc in op.output_descs)
    return replace(op, original_names=None, output_descs=descs)


def _fused_op(
    name: str,
    members: List[OpNode],
    dump_counts: Optional[Tuple[int, int]],
    unfused: bool,
    graph: ModelGraph,
) -> Tuple[OpNode, List[Tuple[str, int]]]:
    """Return the fused op, and for each of its outputs the member (name, output index) it is."""
    first, last = members[0], members[-1]
    names = {op.name for op in members}
    # Inputs from outside, member by member; if the dump holds another number, only those of the
    # first member are certain.
    outside = [(source, desc_at(op.input_descs, number)) for op in members for number,
    source in enumerate(op.inputs)
               if source is not None and source[0] not in names]  # fmt: skip
    first_inputs = [pair for pair in outside[: len(first.inputs)] if pair[0] in first.inputs]
    inputs = outside if dump_counts is None or dump_counts[0] == len(outside) else first_inputs
    outputs = [(last.name, number) for number in range(len(last.output_descs))]
    if dump_counts is not None and dump_counts[1] > len(outputs):
        leaving = [(op.name, number) for op in members for number in range(len(op.output_descs))
                   if op is last or any(reader.name not in names for reader in graph.consumers(op,
                   number))]  # fmt: skip
        outputs = leaving if len(leaving) == dump_counts[1] else outputs
    by_name = {op.name: op for op in members}
    descs = []
    for member, number in outputs:
        desc = by_name[member].output_descs[number]
        descs.append(replace(desc, origin_name=member, origin_index=number) if unfused else desc)
    originals = tuple(dict.fromkeys(original for op in members for original in op.originals))
    op = replace(
        last,
        name=name,
        type="AutomaticBufferFusionOp",
        inputs=tuple(source for source, _ in inputs),
        input_descs=tuple(desc for _, desc in inputs),
        controls=(),
        output_descs=tuple(descs),
        original_names=originals,
    )
    return op, outputs


def graphs_of_dumped_ops(graphs: ModelGraphs, tree: DumpTree, golden: GoldenSet) -> ModelGraphs:
    """Return the models, TorchAir's original graphs with the fused ops of a tree in their members'
    place.

    Dumps for golden data are of a build without fusion where they lack an op of the tree, else of
    the same build.
    """
    dumped: Dict[ModelGraph, Dict[str, DumpEntry]] = {}
    for step_folder in tree.step_folders:
        graph = graphs.of(step_folder.place.model)
        if graph is not None and graph.fx:
            dumped.setdefault(graph, {}).update(
                (entry.name.op_name, entry) for entry in step_folder.files
            )
    if not dumped:
        return graphs
    theirs = set(golden.dumps)
    unfused = golden.kind == "npu" and any(
        sanitise_golden(name) not in theirs for names in dumped.values() for name in names
    )

    def with_dumps(graph: ModelGraph) -> ModelGraph:
        entries = dumped.get(graph)
        if entries is None:
            return graph
        ran = {
            name: (entry.name.op_type, entry.name.timestamp_us) for name, entry in entries.items()
        }
        return with_fused_ops(graph, ran, lambda name: _held(entries[name]), unfused)

    return graphs.changed(with_dumps)


def _held(entry: DumpEntry) -> Optional[Tuple[int, int]]:
    """Return how many inputs and outputs a dump holds; None where its header cannot be read."""
    try:
        dump = DumpFile.open(entry.path)
    except (GoldwatchError, OSError):
        return None
    return len(dump.inputs), len(dump.outputs)
