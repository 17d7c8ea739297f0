"""The nodes of a model in order, for choosing start and end."""

from __future__ import annotations

from typing import List, Optional, Set, Tuple

from ...base.errors import GoldwatchError, UsageError
from ...base.fast_dataclasses import dataclass
from .cut_definition import Shape
from .export_plan import Sources, SubmodelOptions
from .node_names import chosen_nodes


@dataclass(frozen=True)
class ListedNode:
    """One node.

    Attributes
    ----------
    shape
        Of its first output by golden data, the om or the model; None if unknown.
    ops
        The device's ops that compute it; empty without the om json.
    dumped
        Whether the dumps have a file of one of them; None without dumps.
    mark
        ``start``, ``end``, ``inside`` the cut, or empty.
    """

    name: str
    type: str
    shape: Optional[Shape]
    ops: Tuple[str, ...]
    dumped: Optional[bool]
    mark: str


def list_nodes(options: SubmodelOptions, sources: Sources) -> List[ListedNode]:
    """Return all nodes in the file's order.

    Raises
    ------
    UsageError
        Of start and end only one is given.
    InputError
        As :func:`goldwatch.recomputing.submodel.node_names.chosen_nodes`.
    """
    original = sources.original
    starts: List[int] = []
    ends: List[int] = []
    inside: Set[int] = set()
    if bool(options.starts) != bool(options.ends):
        raise UsageError("start and end mark a cut together: give both, or none")
    if options.starts:
        starts, ends, inside = chosen_nodes(original, options.starts, options.ends)
    marks = {number: "inside" for number in inside}
    marks.update((number, "end") for number in ends)
    marks.update((number, "start") for number in starts)
    shapes = original.shapes()
    listed = []
    for number, name in enumerate(original.names):
        ops = () if sources.ops is None else tuple(op.name for op in sources.ops.of(number))
        dumped = None
        if sources.dumps is not None:
            dumped = any(
                sources.dumps.files(op) for op in (ops if sources.ops is not None else (name,))
            )
        shape = _golden_shape(sources, name) or _om_shape(sources, name) or shapes.get((number, 0))
        listed.append(
            ListedNode(name, original.types[number], shape, ops, dumped, marks.get(number, ""))
        )
    return listed


def _golden_shape(sources: Sources, name: str) -> Optional[Shape]:
    file = None if sources.golden is None else sources.golden.find(name, 0)
    if file is None or sources.golden is None:
        return None
    try:
        return sources.golden.tensor(file).shape
    except GoldwatchError:
        # A damaged file is reported when it is needed.
        return None


def _om_shape(sources: Sources, name: str) -> Optional[Shape]:
    if sources.ops is None:
        return None
    return next(
        (op.output_descs[index].origin_shape for op, index in sources.ops.makers((name, 0))), None
    )
