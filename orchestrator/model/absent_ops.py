"""Why an op has no dump: it did not run, was not requested, or was optimised away. What ran is read
off the dumps.

Only one gear of a dynamic batch, image size or dims runs, only one branch of an If or Case, or of
TensorFlow's older Switch and Merge, is taken, and the body of a While may never run. An op that
only moves tensors in memory has no dump where the compiler places them there from the start.

Source: GE's public sources (``subgraph_name`` holds the graphs that an op runs; its local engine
runs Reshape and its like without a task; its ONNX parser names the nodes of branches; its pass from
Switch to StreamSwitch leaves control edges to what read a Switch).
"""

from __future__ import annotations

import re
from typing import (
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)
from weakref import WeakKeyDictionary

from ..base.naming import RESHAPING_TYPES
from ..base.wording import listed
from .graph import ModelGraph
from .never_dumped import EVERYTHING, DumpRequest, may_lack_dump_reason, no_dump_reason
from .op_node import OpNode, gear_named, gear_of

_BRANCHING = frozenset(["If", "_If", "StatelessIf", "Case", "StatelessCase"])
_LOOPING = frozenset(["While", "_While", "StatelessWhile"])
_LOOP_CONDITION, _LOOP_BODY = 0, 1

_PLACING = RESHAPING_TYPES | {"Concat", "ConcatD", "ConcatV2", "ConcatV2D", "ReFormat", "Bitcast"}
"""Types that the compiler may replace by a placement of their inputs and outputs in memory."""

_PLACED = (
    "optimised away: its inputs are all there, and the compiler can place them so that nothing is "
    "to do"
)

_BRANCH_NAME = re.compile(
    r"(.+)(?:_[01]_(?:then|else)_branch|/(?:then_branch|else_branch|branches\d+))\Z", re.DOTALL
)
"""How GE's parsers begin names in a branch, before a slash: that of ONNX the names of the nodes,
that of TensorFlow the original names (it names a node by its If, its function and a number).
"""

_MERGES = frozenset(["Merge", "RefMerge", "StreamMerge"])
_SWITCHES = frozenset(["Switch", "RefSwitch", "SwitchN"])
_STREAM_SWITCHES = frozenset(["StreamSwitch", "StreamSwitchN", "StreamActive"])
_OF_LOOPS = frozenset(["Enter", "RefEnter", "NextIteration", "RefNextIteration"])

_GEAR, _BRANCH, _BODY = "gear", "branch", "body"
_SHOWN = 3

NO_DUMP = "no dump file"
"""Start of the reason for an op that should have a dump and has none."""


class _Part(NamedTuple):
    """Ops that run together or not at all: a gear, a branch or the body of a loop.

    Attributes
    ----------
    kind
        ``gear``, ``branch`` or ``body``.
    family
        Groups the alternatives: gears or branches of which one runs, or a loop's condition and
        body.
    name
        Name of the gear or the graph.
    owner
        The op that runs it, as shown in messages; empty when the file does not say.
    """

    kind: str
    family: str
    name: str
    owner: str


class _Parts:
    """The parts of a model, and the parts that each op belongs to."""

    def __init__(self, graph: ModelGraph) -> None:
        # No reference to the graph: these parts are cached by weak reference to it.
        self._names = graph.graph_names
        self._owner: Dict[int, Tuple[OpNode, int]] = {}
        numbers: Dict[str, int] = {}
        for number, name in enumerate(graph.graph_names):
            numbers.setdefault(name, number)
        for op in graph.ops:
            for place, name in enumerate(op.subgraphs):
                if numbers.get(name, op.graph_index) != op.graph_index:
                    self._owner.setdefault(numbers[name], (op, place))
        self._above: Dict[int, Tuple[_Part, ...]] = {}
        self._of: Dict[int, Tuple[_Part, ...]] = {}
        self.members: Dict[_Part, List[OpNode]] = {}
        # Branches of a Merge that hand a value on, without an op of their own.
        self._empty: List[_Part] = []
        self.families: Dict[str, List[_Part]] = {}
        for op in graph.ops:
            parts = self._parts_of(op)
            if parts:
                self._of[op.position] = parts
        self._merged(graph)
        if any(part.owner for parts in self._of.values() for part in parts):
            self._inserted_into_branches(graph)
        for op in graph.ops:
            for part in self.of(op):
                self.members.setdefault(part, []).append(op)
        for part in (*self._empty, *self.members):
            self.families.setdefault(part.family, []).append(part)

    def __bool__(self) -> bool:
        return bool(self.members)

    def of(self, op: OpNode) -> Tuple[_Part, ...]:
        """Return the parts that an op belongs to, the outermost first."""
        return self._of.get(op.position, ())

    def _parts_of(self, op: OpNode) -> Tuple[_Part, ...]:
        above = self._above.get(op.graph_index)
        if above is None:
            above = self._above[op.graph_index] = self._around(op.graph_index, set())
        if any(part.kind == _GEAR for part in above):
            return above
        gear = gear_of(op, self._names[op.graph_index])
        if gear is not None:
            return (*above, _Part(_GEAR, _GEAR, gear, ""))
        if any(part.kind == _BRANCH for part in above):
            return above
        names = (op.name, *op.originals[:1])
        return (*above, *next(filter(None, map(_branches_in_name, names)), ()))

    def _merged(self, graph: ModelGraph) -> None:
        """Add the branches between a Switch and a Merge: the outermost first, which are merged
        last.
        """
        for merge in reversed(graph.ops):
            if merge.type not in _MERGES:
                continue
            arms = [_arm(graph, merge, source) for source in merge.inputs if source is not None]
            if len(arms) < 2 or any(arm is None for arm in arms):
                continue
            for number, arm in enumerate(arms):
                part = _Part(
                    _BRANCH, "%d" % merge.position, "input %d" % number,
                    "%s (%s)" % (merge.name, merge.type),
                )  # fmt: skip
                others = [other for other in arms if other is not arm]
                own = [at for at in arm or () if not any(at in (other or ()) for other in others)]
                for at in own:
                    self._of[at] = (*self._of.get(at, ()), part)
                if not own:
                    self._empty.append(part)

    def _inserted_into_branches(self, graph: ModelGraph) -> None:
        """Add the ops that the compiler inserted into branches that only names tell: they read an
        op of one branch, or only ops of one branch read them.
        """
        inserted = [op for op in graph.ops if op.original_names == () and not self.of(op)]
        for op in inserted:
            producers = [graph.producer(op, source[0]) for source in op.inputs if source]
            around = [self.of(producer) for producer in producers if producer is not None]
            inner = max(around, key=len, default=())
            if all(parts == inner[: len(parts)] for parts in around):
                self._of[op.position] = inner
        for op in reversed(inserted):
            around = [self.of(consumer) for consumer in graph.consumers(op)]
            outer = min(around, key=len, default=())
            if not self.of(op) and all(parts[: len(outer)] == outer for parts in around):
                self._of[op.position] = outer

    def _around(self, number: int, visited: Set[int]) -> Tuple[_Part, ...]:
        """Return the parts that all ops of a graph belong to."""
        owner_and_place = self._owner.get(number)
        if owner_and_place is None or number in visited:
            return ()
        owner, place = owner_and_place
        above = self._around(owner.graph_index, visited | {number})
        name, family = self._names[number], "%d" % owner.position
        gear = gear_named(name) if owner.type in _BRANCHING else None
        if gear is not None:
            return (*above, _Part(_GEAR, family, gear, owner.name))
        if owner.type in _BRANCHING:
            return (*above, _Part(_BRANCH, family, name, "%s (%s)" % (owner.name, owner.type)))
        if owner.type in _LOOPING and place in (_LOOP_CONDITION, _LOOP_BODY):
            kind = _BODY if place == _LOOP_BODY else ""
            return (*above, _Part(kind, family, name, "%s (%s)" % (owner.name, owner.type)))
        return above


def _arm(graph: ModelGraph, merge: OpNode, source: Tuple[str, int]) -> Optional[Set[int]]:
    """Return the positions of the ops between a Switch and an input of a Merge; None where that is
    a loop's, or no Switch leads to it.
    """
    first = graph.producer(merge, source[0])
    # How many branches within this one an op lies in.
    waiting = [] if first is None else [(first, 0)]
    seen: Set[Tuple[int, int]] = set()
    readers: Dict[int, Set[int]] = {}
    begins: List[int] = []
    while waiting:
        op, depth = waiting.pop()
        if op.type in _OF_LOOPS:
            return None
        if op.type in _SWITCHES and not depth:
            begins.append(op.position)
            continue
        if (op.position, depth) in seen:
            continue
        seen.add((op.position, depth))
        controls = [graph.producer(op, name) for name in op.controls]
        by_stream = any(one is not None and one.type in _STREAM_SWITCHES for one in controls)
        if by_stream and not depth:
            # What it reads is made before, whatever is taken.
            readers.setdefault(-1, set()).add(op.position)
            begins.append(-1)
            continue
        depth += (op.type in _MERGES) - (op.type in _SWITCHES or by_stream)
        before = [graph.producer(op, one[0]) for one in op.inputs if one is not None]
        before += [] if by_stream else controls
        for one in filter(None, before):
            readers.setdefault(one.position, set()).add(op.position)
            waiting.append((one, depth))
    if not begins:
        return None
    # A constant or a predicate from outside is made whatever is taken.
    arm: Set[int] = set()
    while begins:
        new = readers.get(begins.pop(), set()) - arm
        arm |= new
        begins += new
    return arm


def _branches_in_name(name: str) -> Tuple[_Part, ...]:
    """Return the branches that an op's name tells, the outermost first: of a graph that does not
    list them.
    """
    parts = []
    for end in (at for at, letter in enumerate(name) if letter == "/"):
        match = _BRANCH_NAME.match(name[:end])
        if match is not None:
            owner = match.group(1)
            kind = "Case" if name[:end].startswith(owner + "/branches") else "If"
            parts.append(_Part(_BRANCH, owner + "/", name[:end], "%s (%s)" % (owner, kind)))
    return tuple(parts)


_parts_by_graph: WeakKeyDictionary[ModelGraph, _Parts] = WeakKeyDictionary()


def _parts_of(graph: ModelGraph) -> _Parts:
    parts = _parts_by_graph.get(graph)
    if parts is None:
        parts = _parts_by_graph[graph] = _Parts(graph)
    return parts


class Absence:
    """Gives the reason why an op without a dump is absent as expected.

    Parameters
    ----------
    request
        What the device was asked to dump.
    dumped
        Positions of the ops that have a dump.
    """

    def __init__(
        self, graph: ModelGraph, request: DumpRequest = EVERYTHING, dumped: Iterable[int] = ()
    ) -> None:
        self._graph = graph
        self._request = request
        self._dumped = frozenset(dumped)
        self._parts = _parts_of(graph)
        self._ran: FrozenSet[_Part] = frozenset()
        if self._parts and self._dumped:
            self._ran = frozenset(
                part
                for op in graph.ops
                if op.position in self._dumped
                for part in self._parts.of(op)
            )

    def reason(self, op: OpNode) -> Optional[str]:
        """Return why an op has no dump; None when it should have one."""
        reason = self._fixed(op)
        if reason is None and self._parts:
            reason = self._of_parts(self._parts.of(op))
        return self._placed(op) if reason is None else reason

    def missing_reason(self, op: OpNode) -> str:
        """Return the reason for an op that should have a dump and has none."""
        gear = next((part for part in self._parts.of(op) if part.kind == _GEAR), None)
        if (
            gear is not None
            and self._dumped
            and not self._ran.intersection(self._parts.families[gear.family])
        ):
            names = [part.name for part in self._parts.families[gear.family]]
            return "%s: no gear ran (the model has %s)" % (NO_DUMP, listed(names, _SHOWN))
        if op.type in _PLACING and op.no_task is None and self._dumped:
            source = self._lost_source(op)
            if source is not None:
                return "%s, nor has %s, which it reads: it may be optimised away" % (
                    NO_DUMP,
                    source.name,
                )
        return NO_DUMP

    def _fixed(self, op: OpNode) -> Optional[str]:
        """Return the reason that does not depend on what ran, or None."""
        reason = may_lack_dump_reason(op)
        return self._request.reason if reason is None and self._request.excludes(op) else reason

    def _of_parts(self, parts: Sequence[_Part]) -> Optional[str]:
        part = next((part for part in parts if part not in self._ran), None)
        if part is None:
            return None
        others = [other for other in self._parts.families[part.family] if other != part]
        ran = [other for other in others if other in self._ran]
        if part.kind == _BODY:
            # The condition is evaluated before the first round, unless it never leaves a dump.
            missing = any(self._dumps(other) and other not in self._ran for other in others)
            return None if missing else "the body of %s ran no round" % part.owner
        if part.kind == _GEAR:
            return (
                "gear %s did not run: %s did" % (part.name, ", ".join(other.name for other in ran))
                if ran
                else None
            )
        if part.kind != _BRANCH:
            return None
        if ran:
            return "this branch of %s was not taken" % part.owner
        if others and not all(map(self._dumps, others)):
            return "no branch of %s that dumps was taken" % part.owner
        return None

    def _dumps(self, part: _Part) -> bool:
        """Return whether a part leaves dumps when it runs."""
        return any(
            self._fixed(op) is None and op.type not in _PLACING
            for op in self._parts.members.get(part, ())
        )

    def _placed(self, op: OpNode) -> Optional[str]:
        """Return why an op that only places tensors has no dump although its inputs have one."""
        if op.type not in _PLACING or op.no_task is False or not self._dumped:
            return None
        return _PLACED if self._lost_source(op) is None else None

    def _lost_source(self, op: OpNode) -> Optional[OpNode]:
        """Return the first producer without its dump, skipping ops that only place tensors."""
        waiting, visited = [op], {op.position}
        while waiting:
            at = waiting.pop()
            for source in at.inputs:
                producer = self._graph.producer(at, source[0]) if source is not None else None
                if (
                    producer is None
                    or producer.position in visited
                    or producer.position in self._dumped
                ):
                    continue
                visited.add(producer.position)
                if producer.type in _PLACING:
                    waiting.append(producer)
                elif self._fixed(producer) is None:
                    return producer
        return None


def run_condition(graph: ModelGraph, op: OpNode) -> Optional[str]:
    """Return the condition under which an op has a dump, such as ``gear Batch_0 runs``.

    None if it always has one, or never.
    """
    if no_dump_reason(op) is not None:
        return None
    texts = {
        _GEAR: "gear %(name)s runs",
        _BRANCH: "the branch %(name)s of %(owner)s is taken",
        _BODY: "%(owner)s runs a round",
    }
    known = _parts_of(graph)
    # A single gear is only a graph with such a name.
    parts = [
        part for part in known.of(op) if part.kind in texts and len(known.families[part.family]) > 1
    ]
    conditions = [texts[part.kind] % part._asdict() for part in parts]
    if op.type in _PLACING and op.no_task is None:
        conditions.append("it is not optimised away")
    return " and ".join(conditions) or None


def largest_of_one_run(
    graph: ModelGraph, ops: Iterable[OpNode], size_of: Callable[[Sequence[OpNode]], int]
) -> List[OpNode]:
    """Return the ops that can run in one run: of gears and branches those of the largest only.

    ``size_of`` gives the size that is compared."""
    chosen = list(ops)
    parts = _parts_of(graph)
    members: Dict[str, Dict[_Part, List[OpNode]]] = {}
    for op in chosen if parts else ():
        for part in parts.of(op):
            if part.kind in (_GEAR, _BRANCH):
                members.setdefault(part.family, {}).setdefault(part, []).append(op)
    left_out: Set[_Part] = set()
    for family in members.values():
        largest = _largest(family, size_of)
        left_out.update(part for part in family if part != largest)
    return [op for op in chosen if not left_out.intersection(parts.of(op))] if left_out else chosen


def _largest(
    family: Dict[_Part, List[OpNode]], size_of: Callable[[Sequence[OpNode]], int]
) -> _Part:
    return max(family, key=lambda part: size_of(family[part]))
