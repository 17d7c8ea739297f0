"""Chooses layers from a model: by glob, by type, around an op, the first or the last; lists which
of them can be dumped.
"""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from ..base.errors import UsageError
from ..base.fast_dataclasses import dataclass
from ..model.absent_ops import run_condition
from ..model.graph import ModelGraph
from ..model.never_dumped import no_dump_reason
from ..model.op_node import OpNode, execution_key
from .dump_plan import PlanError
from .key_rules import nearest_word
from .models import Models, dumpable

_SHOWN = 5


@dataclass(frozen=True)
class Selection:
    """What the user asks for. ``layers``, ``types`` and ``around`` add up; ``first`` and ``last``
    count among those, else among all ops.

    Attributes
    ----------
    layers
        Globs over names and original names.
    types
        Op types.
    around
        Ops, each with all ops within ``radius`` edges up and down the data flow.
    first, last
        How many ops in execution order.
    """

    layers: Tuple[str, ...] = ()
    types: Tuple[str, ...] = ()
    around: Tuple[str, ...] = ()
    radius: int = 1
    first: Optional[int] = None
    last: Optional[int] = None

    def __bool__(self) -> bool:
        return bool(
            self.layers
            or self.types
            or self.around
            or self.first is not None
            or self.last is not None
        )


@dataclass(frozen=True)
class Chosen:
    """Ops that can be dumped, in execution order, and what is worth saying about the choice."""

    ops: Tuple[OpNode, ...]
    remarks: Tuple[str, ...] = ()

    @property
    def names(self) -> Tuple[str, ...]:
        """The ops' names, each once."""
        return tuple(dict.fromkeys(op.name for op in self.ops))


def choose(models: Models, graph: ModelGraph, selection: Selection) -> Chosen:
    """Return the ops of one model that ``selection`` asks for.

    Raises
    ------
    UsageError
        A glob, a type or an op matches nothing that can be dumped; the hint says what to choose
        instead.
    """
    by_position: Dict[int, OpNode] = {}
    remarks: List[str] = []
    for pattern in selection.layers:
        _add(by_position, remarks, _by_glob(models, graph, pattern), "layers %s" % pattern, models)
    for op_type in selection.types:
        _add(by_position, remarks, _by_type(graph, op_type), "type %s" % op_type, models)
    for name in selection.around:
        center = named_ops(models, graph, name)
        around = list(center)
        for op in center:
            around += graph.predecessors(op.name, selection.radius) + graph.successors(
                op.name, selection.radius
            )
        _add(by_position, remarks, around, "around %s" % name, models)
    narrowed = bool(selection.layers or selection.types or selection.around)
    ops = sorted(by_position.values() if narrowed else dumpable(graph.ops), key=execution_key)
    if selection.first is not None or selection.last is not None:
        head = ops[: selection.first] if selection.first is not None else []
        tail = ops[max(0, len(ops) - selection.last) :] if selection.last is not None else []
        ops = list({op.position: op for op in head + tail}.values())
    if not ops:
        raise PlanError("no op of %s is chosen" % graph.name, field="layers")
    return Chosen(tuple(ops), tuple(remarks))


def divided(
    models: Models, graphs: Sequence[ModelGraph], selection: Selection
) -> List[Tuple[ModelGraph, Selection]]:
    """Return every model with the part of the selection that it has; models without any part are
    left out.

    A part that no model has stays with one of them, so that :func:`choose` refuses it there.
    """
    if len(graphs) < 2 or not (selection.layers or selection.types or selection.around):
        return [(graph, selection) for graph in graphs]
    finders: Dict[str, Callable[[ModelGraph, str], List[OpNode]]] = {
        "layers": lambda graph, text: _matching(models, graph, text),
        "types": lambda graph, text: [op for op in graph.ops if op.type == text],
        "around": lambda graph, text: models.exact(text, [graph])
        or models.from_original(text, [graph]),
    }
    parts: List[Dict[str, Tuple[str, ...]]] = [{} for _ in graphs]
    for name, find in finders.items():
        for text in getattr(selection, name):
            selections = [find(graph, text) for graph in graphs]
            holders = [index for index, ops in enumerate(selections) if dumpable(ops)]
            for index in (
                holders or [index for index, ops in enumerate(selections) if ops][:1] or [0]
            ):
                parts[index][name] = parts[index].get(name, ()) + (text,)
    result = []
    for graph, part in zip(graphs, parts):
        if part:
            layers, types, around = (part.get(name, ()) for name in ("layers", "types", "around"))
            result.append((graph, replace(selection, layers=layers, types=types, around=around)))
    return result


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


def named_ops(models: Models, graph: ModelGraph, name: str) -> List[OpNode]:
    """Return the ops of this name, after or before fusion.

    Raises
    ------
    UsageError
        The model has no such op.
    """
    ops = models.exact(name, [graph]) or models.from_original(name, [graph])
    if not ops:
        near = models.nearest(name, [graph])
        raise PlanError(
            "%s has no op %r" % (graph.name, name),
            "did you mean %r?" % near if near else None,
            "layers",
        )
    return ops


def resolve_layers(models: Models, graph: ModelGraph, names: Iterable[str]) -> Chosen:
    """Return the ops that these names, after or before fusion, stand for, in the order of the
    names.

    Raises
    ------
    UsageError
        A name is unknown, or its op never dumps; the hint says what to choose instead.
    """
    by_position: Dict[int, OpNode] = {}
    remarks = []
    for name in names:
        ops = named_ops(models, graph, name)
        usable = dumpable(ops)
        if not usable:
            raise never_dumps_error(models, name, ops[0])
        if all(op.name != name for op in usable):
            remarks.append(
                "%s was fused; the model has %s" % (name, ", ".join(op.name for op in usable))
            )
        by_position.update((op.position, op) for op in usable)
    return Chosen(tuple(by_position.values()), tuple(remarks))


def never_dumps_error(models: Models, name: str, op: OpNode) -> UsageError:
    """Return the error that refuses an op that never dumps."""
    return UsageError(
        "%s (%s) never dumps: %s" % (name, op.type, no_dump_reason(op)), hint=models.instead(op)
    )


def _matching(models: Models, graph: ModelGraph, pattern: str) -> List[OpNode]:
    exact = models.exact(pattern, [graph]) or models.from_original(pattern, [graph])
    return exact or [
        op
        for op in graph.ops
        if any(fnmatch.fnmatchcase(name, pattern) for name in (op.name,) + op.originals)
    ]


def _by_glob(models: Models, graph: ModelGraph, pattern: str) -> List[OpNode]:
    ops = _matching(models, graph, pattern)
    if not ops:
        near = models.nearest(pattern, [graph])
        raise PlanError(
            "%r matches no op of %s" % (pattern, graph.name),
            "did you mean %r?" % near if near else None,
            "layers",
        )
    return ops


def _by_type(graph: ModelGraph, op_type: str) -> List[OpNode]:
    ops = [op for op in graph.ops if op.type == op_type]
    if not ops:
        types = sorted({op.type for op in graph.ops})
        near = nearest_word(op_type, types)
        hint = "did you mean %r?" % near if near else "its types are: %s" % ", ".join(types[:20])
        raise PlanError("%s has no op of type %r" % (graph.name, op_type), hint, "types")
    return ops


def _add(
    by_position: Dict[int, OpNode],
    remarks: List[str],
    ops: List[OpNode],
    option: str,
    models: Models,
) -> None:
    """Add what can be dumped; refuse when that is nothing, and say what is left out."""
    usable = dumpable(ops)
    if not usable:
        raise never_dumps_error(models, option + ": " + ops[0].name, ops[0])
    left_out = list(dict.fromkeys(op.name for op in ops if no_dump_reason(op) is not None))
    if left_out:
        shown = ", ".join(left_out[:_SHOWN]) + (" …" if len(left_out) > _SHOWN else "")
        what = (
            "1 op that never dumps is left out"
            if len(left_out) == 1
            else "%d ops that never dump are left out" % len(left_out)
        )
        remarks.append("%s: %s (%s)" % (option, what, shown))
    by_position.update((op.position, op) for op in usable)
