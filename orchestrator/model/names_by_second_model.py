"""Maps a model's original names through a second model file: to the golden model before
quantisation, or to an unfused build.

Source: the vendor's description of the quantisation json and of comparing a fused with an unfused
build (docs/reference/pairing.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

from ..base.errors import InputError
from .graph import ModelGraph
from .never_dumped import CONSTANT_TYPES, INPUT_TYPES
from .op_groups import FOLLOWING_TYPES
from .op_node import OpNode, TensorDesc, desc_at

# Maps an original output (name, number) to the desc of the golden side, or None.
_OutputOf = Callable[[str, int], Optional[TensorDesc]]


def through_quantisation(graph: ModelGraph, quantisation: ModelGraph) -> ModelGraph:
    """Return the quantised model with the original names of the model before quantisation.

    An original name that is an op of the quantisation json is replaced by that op's originals, and
    an output's origin by the origin of that op's output; other names stay.

    Parameters
    ----------
    quantisation
        The quantisation json: the quantised net's ops, their originals being those of the net
        before it was quantised.
    """

    def originals(name: str) -> Sequence[str]:
        op = quantisation.op(name)
        return (name,) if op is None else op.originals

    def output(name: str, index: int) -> Optional[TensorDesc]:
        op = quantisation.op(name)
        if op is None:
            return TensorDesc(origin_name=name, origin_index=index)
        desc = desc_at(op.output_descs, index)
        if desc.origin_name is not None:
            return replace(
                desc, origin_index=desc.origin_index if desc.origin_index is not None else index
            )
        if len(op.originals) > 1:
            return None
        return replace(desc, origin_name="".join(op.originals), origin_index=index)

    return _with_originals(graph, originals, output)


def onto_unfused(graph: ModelGraph, unfused: ModelGraph) -> ModelGraph:
    """Return the fused model with the ops of an unfused build as originals: their outputs are its
    golden data.

    An original output belongs to the unfused op that names it as an output's origin, else to the
    only op whose last original it is and that names no origin; without exactly one such op it has
    no golden tensor. An op
    that both have may be compared by its own name.
    Raises InputError where the two have no original in common.
    """
    by_origin: Dict[Tuple[str, int], List[Tuple[OpNode, int]]] = {}
    by_last: Dict[str, List[OpNode]] = {}
    for op in unfused.ops:
        if op.type in FOLLOWING_TYPES or op.type in CONSTANT_TYPES or op.type in INPUT_TYPES:
            continue
        for number, desc in enumerate(op.output_descs):
            if desc.origin_name:
                index = number if desc.origin_index is None else desc.origin_index
                by_origin.setdefault((desc.origin_name, index), []).append((op, number))
        if op.originals and not any(desc.origin_name for desc in op.output_descs):
            by_last.setdefault(op.originals[-1], []).append(op)

    ours = {name for op in graph.ops if op.type not in INPUT_TYPES for name in op.originals}
    if ours and not ours & (by_last.keys() | {name for name, _ in by_origin}):
        raise InputError(
            "%s has no original operator of %s: the two builds are of models with other names"
            % (unfused.path or unfused.name, graph.path or graph.name),
            hint="leave the model of the unfused build out: operators of two dumps are paired by "
            "what they read, too",
        )

    def carriers(name: str, index: int) -> List[Tuple[OpNode, int]]:
        return by_origin.get((name, index)) or [(op, index) for op in by_last.get(name, ())]

    def originals(name: str) -> Sequence[str]:
        matches = carriers(name, 0)
        return (matches[0][0].name,) if len(matches) == 1 else (name,)

    def output(name: str, index: int) -> Optional[TensorDesc]:
        matches = carriers(name, index)
        if len(matches) != 1:
            # An op of that name there makes another output: others were fused into it.
            return TensorDesc(origin_name="") if unfused.op(name) is not None else None
        op, number = matches[0]
        desc = desc_at(op.output_descs, number)
        if op.no_task:
            # Nor has the unfused build a dump of it.
            return replace(desc, origin_name="", origin_index=None)
        return replace(desc, origin_name=op.name, origin_index=number)

    theirs = {(op.name, op.type, op.originals) for op in unfused.ops}
    in_both = [op.name for op in graph.ops if (op.name, op.type, op.originals) in theirs]
    return _with_originals(graph, originals, output, frozenset(in_both), graph)


def _with_originals(
    graph: ModelGraph,
    originals: Callable[[str], Sequence[str]],
    output: _OutputOf,
    in_both: FrozenSet[str] = frozenset(),
    as_built: Optional[ModelGraph] = None,
) -> ModelGraph:
    def desc_of(op: OpNode, number: int, desc: TensorDesc) -> TensorDesc:
        name = desc.origin_name
        if name is None and len(op.originals) == 1:
            name = op.originals[0]
        if not name:
            return desc
        origin = output(name, number if desc.origin_index is None else desc.origin_index)
        if origin is None:
            return desc
        return replace(
            desc,
            origin_name=origin.origin_name,
            origin_index=origin.origin_index,
            origin_format=origin.origin_format or desc.origin_format,
            origin_shape=origin.origin_shape
            if origin.origin_shape is not None
            else desc.origin_shape,
        )

    ops = []
    for op in graph.ops:
        names = tuple(
            dict.fromkeys(name for original in op.originals for name in originals(original))
        )
        unchanged = op.original_names is None and names == (op.name,)
        descs = tuple(desc_of(op, number, desc) for number, desc in enumerate(op.output_descs))
        ops.append(
            replace(
                op,
                original_names=None if unchanged else names,
                file_originals=op.originals,
                output_descs=descs,
            )
        )
    return ModelGraph(
        graph.name,
        graph.graph_names,
        ops,
        graph.notes,
        graph.path,
        in_both=in_both,
        as_built=as_built,
    )
