"""Ops whose names TensorFlow's debugger cannot make a file name of: they are not watched, but
fetched with the run.

The debugger writes one folder per scope and ``{leaf}_{slot}_DebugIdentity_{µs}`` in the last; where
the file system refuses that name, the whole run fails.
"""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any, Iterable, List, Mapping, Optional, Set, Tuple

from ...base.fast_dataclasses import dataclass
from ...base.naming import MAX_NAME_BYTES
from .user_runs import fetched_ops, needed_ops

_PATH_BYTES = 3900
_SUFFIX_BYTES = len("_DebugIdentity_") + 16 + len("-999")
_DEVICE_BYTES = 120

UNFETCHABLE = (
    "a part of its name is too long for TensorFlow's debugger, and a tensor in a loop or a branch "
    "cannot be fetched instead"
)


@dataclass
class Unwatched:
    """What the debugger cannot write of one run.

    Attributes
    ----------
    tensors
        To be fetched with the run; ``values`` is filled with what came back.
    lost
        ``op:slot`` of those that cannot be fetched either.
    fed
        ``(tensor, value)`` of all feeds: the debugger does not see one that nothing consumes.
    """

    tensors: List[Any] = field(default_factory=list)
    lost: List[str] = field(default_factory=list)
    values: List[Any] = field(default_factory=list)
    fed: List[Tuple[Any, Any]] = field(default_factory=list)


def too_long(name: str, slot: int, root: str) -> bool:
    """Tell whether the debugger's file for this output could not be made below folder ``root``."""
    parts = [os.fsencode(part) for part in name.split("/")]
    if any(len(part) > MAX_NAME_BYTES for part in parts[:-1]):
        return True
    if len(parts[-1]) + len("_%d" % slot) + _SUFFIX_BYTES > MAX_NAME_BYTES:
        return True
    return (
        len(os.fsencode(root)) + _DEVICE_BYTES + len(os.fsencode(name)) + _SUFFIX_BYTES
        > _PATH_BYTES
    )


def long_tensors(graph: Any, root: str) -> List[Any]:
    """Return the outputs of the graph that cannot be watched."""
    return [
        tensor
        for op in graph.get_operations()
        for tensor in op.outputs
        if too_long(op.name, tensor.value_index, root)
    ]


def unwatched(
    graph: Any, fetches: Any, feed_dict: Optional[Mapping[Any, Any]], root: str
) -> Unwatched:
    """Return which outputs that a run computes must be fetched because they cannot be watched.

    Parameters
    ----------
    feed_dict
        As for ``session.run``.
    """
    tensors = Unwatched(fed=_fed_tensors(graph, feed_dict))
    candidates = long_tensors(graph, root)
    if not candidates:
        return tensors
    fed = {tensor.name for tensor, _ in tensors.fed}
    needed = needed_ops(fetched_ops(graph, fetches), fed)
    for tensor in candidates:
        if tensor.op.name not in needed or tensor.name in fed:
            continue
        plain = tensor.dtype.base_dtype.name not in ("resource", "variant")
        if (
            plain
            and graph.is_fetchable(tensor)
            and tensor.op._get_control_flow_context() is None
            and not _may_be_dead(tensor.op)
        ):
            tensors.tensors.append(tensor)
        else:
            tensors.lost.append(tensor.name)
    return tensors


def _fed_tensors(graph: Any, feed_dict: Optional[Mapping[Any, Any]]) -> List[Tuple[Any, Any]]:
    fed: List[Tuple[Any, Any]] = []
    for key, value in (feed_dict or {}).items():
        try:
            fed.append(
                (graph.as_graph_element(key, allow_tensor=True, allow_operation=False), value)
            )
        except (TypeError, ValueError, KeyError):
            # SparseTensor and the like, whose parts are fed; a wrong name is left to TensorFlow to
            # refuse.
            continue
    return fed


def _may_be_dead(op: Any) -> bool:
    """Tell whether a branch that is not taken may leave this op without a value: a Switch stands
    before it, and no Merge between.
    """
    seen: Set[str] = set()
    waiting = [op]
    while waiting:
        current = waiting.pop()
        if current.name in seen or current.type in ("Merge", "RefMerge"):
            continue
        seen.add(current.name)
        if current.type in ("Switch", "RefSwitch"):
            return True
        waiting.extend(tensor.op for tensor in current.inputs)
        waiting.extend(current.control_inputs)
    return False


def explicit_watches(
    graph: Any, root: str, feeds: Optional[Iterable[str]]
) -> List[Tuple[str, int]]:
    """Return ``(node, slot)`` of everything that can be watched, feeds included under the names
    that the runtime gives them.

    Parameters
    ----------
    feeds
        The names of the tensors that are fed; None: any placeholder may be.
    """
    ops = graph.get_operations()
    watches = [
        (str(op.name), slot)
        for op in ops
        for slot in range(len(op.outputs))
        if not too_long(op.name, slot, root)
    ]
    names = (
        list(feeds)
        if feeds is not None
        else [op.name + ":0" for op in ops if op.type.startswith("Placeholder")]
    )
    for name in names:
        op, _, slot = name.partition(":")
        fed = ["_arg_%s_%s_%d" % (op, slot or "0", number) for number in range(len(names))]
        watches.extend((node, 0) for node in fed if not too_long(node, 0, root))
    return watches
