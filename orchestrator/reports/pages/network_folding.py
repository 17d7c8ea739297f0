"""A large network folded into groups: by the parts of its ops' names, by blocks that repeat, and
where neither helps by their order.

A group is drawn by itself (:func:`goldwatch.reports.pages.network_drawing.drawing`), its groups as
boxes; folding.js puts the drawings of those that are unfolded into one another. So the layout of no
more than a group is ever computed, and every op of the largest network can be looked at.
"""

from __future__ import annotations

from typing import (
    Any,
    Container,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import numpy as np

from ...base.naming import printable
from .network_drawing import Flow, NetworkOp, drawing, weight_words

FOLDED_FROM = 200
"""A network of more ops is folded: one of 200 is four screens high where its letters can be
read.
"""

_MOST_MEMBERS = 24
_LEAST_OPS = 3
_LEAST_FLOWS = 0.5
_NEARLY_ALL = 0.8
_LEAST_PERIOD = 3
_LEAST_GROUPS = 4
_LONGEST_PERIOD = 200
_UNFOLDABLE = 300
_PART = 100
_MOST_PORTS = 8

_CONSTANTS = frozenset(["Const", "Constant", "ConstPlaceHolder"])
_PASSING = frozenset(["Identity"])

Member = Union[int, "Group"]
Scope = Tuple[str, ...]


class Group(NamedTuple):
    """Ops that belong together.

    Attributes
    ----------
    label
        What it is called.
    prefix
        What all names in it begin with and need not be repeated.
    note
        More about it, such as ``12 alike``.
    members
        Numbers of ops, and groups, in the order of the network.
    """

    label: str
    prefix: str
    note: str
    members: List[Member]

    def ops(self) -> List[int]:
        """Return the numbers of all ops in it."""
        return [
            number
            for member in self.members
            for number in (member.ops() if isinstance(member, Group) else [member])
        ]


def constants_of(ops: Sequence[NetworkOp]) -> Dict[int, int]:
    """Return the constants of a network, each with the first op that reads it; those that nobody
    reads are left out.
    """
    constants = set()
    for number, op in enumerate(ops):
        passing = (
            op.type in _PASSING
            and op.inputs
            and all(flow.source in constants for flow in op.inputs)
        )
        if (op.type in _CONSTANTS and not op.inputs) or passing:
            constants.add(number)
    readers: Dict[int, int] = {}
    for number, op in enumerate(ops):
        for flow in op.inputs:
            if flow.source in constants:
                readers.setdefault(flow.source, number)
    for number in sorted(readers, reverse=True):
        # What only passes a constant on is one itself.
        readers[number] = readers.get(readers[number], readers[number])
    return {number: reader for number, reader in readers.items() if reader not in constants}


def fold(ops: Sequence[NetworkOp]) -> Group:
    """Return the groups of a network without its constants, as members of one that is the
    network.
    """
    types: Dict[Any, int] = {}
    scopes = _by_scopes(ops, constants_of(ops))
    return _folded(_simple(scopes, ops, len(scopes.ops())), ops, types)


def _by_scopes(ops: Sequence[NetworkOp], left_out: Container[int]) -> Group:
    """Return the groups that the names tell: ``a/b/c`` is ``c`` in ``b`` in ``a``."""
    mark = "/" if any("/" in op.name for op in ops) else "."
    scopes: List[Scope] = [
        tuple(part for part in op.name.strip(mark).split(mark)[:-1] if part) for op in ops
    ]
    readers: Dict[int, int] = {}
    for number, op in enumerate(ops):
        for flow in op.inputs:
            readers.setdefault(flow.source, number)
    for number, op in enumerate(ops):
        # What has no scope, such as what the compiler adds, belongs where both those before and
        # behind it do.
        if not scopes[number] and op.inputs and number in readers:
            first = scopes[op.inputs[0].source]
            second = scopes[readers[number]]
            length = 0
            while length < min(len(first), len(second)) and first[length] == second[length]:
                length += 1
            scopes[number] = first[:length]
    root = Group("", "", "", [])
    known: Dict[Scope, Group] = {(): root}
    for number, scope in enumerate(scopes):
        if number in left_out:
            continue
        for depth in range(1, len(scope) + 1):
            if scope[:depth] not in known:
                known[scope[:depth]] = group = Group(
                    mark.join(scope[:depth]), mark.join(scope[:depth]) + mark, "", []
                )
                known[scope[: depth - 1]].members.append(group)
        known[scope].members.append(number)
    return root


def _simple(group: Group, ops: Sequence[NetworkOp], count: int) -> Group:
    """Return a group in which none has only one member, few ops, nearly all ops or ops that do not
    feed one another.
    """
    members: List[Member] = []
    for member in group.members:
        if not isinstance(member, Group):
            members.append(member)
            continue
        numbers = member.ops()
        inner = _simple(member, ops, len(numbers))
        inside = set(numbers)
        flows = sum(flow.source in inside for number in numbers for flow in ops[number].inputs)
        # Some name ops by their types (Conv.1, Conv.2): those belong to no part of the network.
        apart = flows < _LEAST_FLOWS * (len(numbers) - 1)
        few = (
            len(numbers) < _LEAST_OPS
            or len(inner.members) == 1
            or len(numbers) > _NEARLY_ALL * count
        )
        members += inner.members if few or apart else [inner]
    return group._replace(members=sorted(members, key=_first))


def _first(member: Member) -> int:
    return min(member.ops()) if isinstance(member, Group) else member


def _folded(group: Group, ops: Sequence[NetworkOp], types: Dict[Any, int]) -> Group:
    """Return a group whose many members are folded into blocks that repeat, and groups of
    neighbours.
    """
    members = [
        _folded(member, ops, types) if isinstance(member, Group) else member
        for member in group.members
    ]
    while len(members) > _MOST_MEMBERS:
        repeated = _repeated(
            [_kind(member, ops, types) for member in members],
            [isinstance(member, Group) for member in members],
        )
        if repeated is None:
            break
        start, period, count = repeated
        start = _cut(members, ops, start, period, count)
        inner = members[start : start + period * count]
        if period == 1:
            alike = Group(_span(inner, ops, group.prefix), group.prefix, "%d alike" % count, inner)
            blocks: List[Member] = [_in_parts(alike, ops)]
        else:
            parts = [inner[at : at + period] for at in range(0, len(inner), period)]
            blocks = [
                _folded(
                    Group(
                        _span(part, ops, group.prefix),
                        group.prefix,
                        "block %d of %d" % (at, count),
                        part,
                    ),
                    ops,
                    types,
                )
                for at, part in enumerate(parts, 1)
            ]
        members = [*members[:start], *blocks, *members[start + len(inner) :]]
    return _in_parts(group._replace(members=members), ops)


def _in_parts(group: Group, ops: Sequence[NetworkOp]) -> Group:
    """Return a group whose members, where they are too many to be drawn at once, are in groups of
    neighbours.
    """
    members = group.members
    if len(members) <= _UNFOLDABLE:
        return group
    parts = [members[at : at + _PART] for at in range(0, len(members), _PART)]
    inner: List[Member] = [
        Group(_span(part, ops, group.prefix), group.prefix, "neighbours", part) for part in parts
    ]
    return _in_parts(group._replace(members=inner), ops)


def _kind(member: Member, ops: Sequence[NetworkOp], types: Dict[Any, int]) -> int:
    """Return a number that is the same for ops of a type, and for groups of the same kinds."""
    key: Any = (
        ops[member].type
        if not isinstance(member, Group)
        else tuple(_kind(one, ops, types) for one in member.members)
    )
    return types.setdefault(key, len(types))


def _repeated(kinds: Sequence[int], groups: Sequence[bool]) -> Optional[Tuple[int, int, int]]:
    """Return the blocks in a row that are alike and cover most: their first member, their length,
    how many; None where there are none.

    A block has at least three members, not all of a kind; of single groups there must be four in a
    row.
    """
    sequence = np.array(kinds)
    best: Optional[Tuple[int, int, int]] = None
    for period in range(1, min(len(kinds) // 2, _LONGEST_PERIOD) + 1):
        if period != 1 and period < _LEAST_PERIOD:
            continue
        same = np.concatenate([[False], sequence[:-period] == sequence[period:], [False]])
        if period == 1:
            same[1:-1] &= np.array(groups[1:])
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist()):
            count = (end - start) // period + 1
            if count < (_LEAST_GROUPS if period == 1 else 2):
                continue
            if period > 1 and len(set(kinds[start : start + period])) == 1:
                continue
            if best is None or count * period > best[1] * best[2]:
                best = start, period, count
    return best


def _cut(
    members: Sequence[Member], ops: Sequence[NetworkOp], start: int, period: int, count: int
) -> int:
    """Return where blocks begin so that the fewest tensors go from one into the next: as far behind
    ``start`` as they stay alike.
    """
    if period == 1:
        return start
    owner = {
        number: at
        for at, member in enumerate(members)
        for number in (member.ops() if isinstance(member, Group) else [member])
    }
    first, last = start, min(start + period - 1, len(members) - period * count)
    crossing: Dict[int, Set[int]] = {at: set() for at in range(first, last + 1)}
    for number, reader in owner.items():
        for flow in ops[number].inputs:
            source = owner.get(flow.source)
            if source is not None and source < last:
                for at in range(max(first, source + 1), min(last, reader) + 1):
                    crossing[at].add(source)
    kinds = [_plain(member, ops) for member in members]
    alike = [
        at
        for at in crossing
        if all(kinds[at + one] == kinds[at + one + period] for one in range(period * (count - 1)))
    ]
    return min(alike or [start], key=lambda at: (len(crossing[at]), at))


def _plain(member: Member, ops: Sequence[NetworkOp]) -> Any:
    return (
        ops[member].type
        if not isinstance(member, Group)
        else tuple(_plain(one, ops) for one in member.members)
    )


def _span(members: Sequence[Member], ops: Sequence[NetworkOp], prefix: str) -> str:
    """Return what to call neighbours: by the first and the last of them."""

    def name(member: Member) -> str:
        whole = member.label if isinstance(member, Group) else ops[member].name
        return (whole[len(prefix) :] if whole.startswith(prefix) else whole).split(" … ")[
            0 if member is members[0] else -1
        ]

    return "%s … %s" % (name(members[0]), name(members[-1]))


class _Inside(NamedTuple):
    """What is drawn of a group: for each member, then for each port, what enters it."""

    group: Group
    ports: Dict[int, int]
    flows: List[Dict[int, List[Optional[str]]]]


def folded_drawing(network: Sequence[NetworkOp], verdicts: Mapping[str, str]) -> Dict[str, Any]:
    """Return what folding.js draws, as JSON values: the groups of a network, itself first.

    Returns
    -------
    dict
        ``{"groups": [{"label", "note", "drawing"}], "constants": {number: number of the first op
        that reads it}}``: constants have no box, their shapes stand in that of their reader. A box
        of a drawing (:func:`goldwatch.reports.pages.network_drawing.drawing`) that stands for a
        group has its place in the list as ``group``; one that stands for an op outside has that
        op's number as ``port``, -1 for several.
    """
    ops, constants = list(network), constants_of(network)
    for number, op in enumerate(ops):
        # The shapes of the constants that an op reads.
        shapes = [flow.text for flow in op.inputs if flow.source in constants]
        if shapes:
            ops[number] = op._replace(weights=weight_words([*filter(None, [op.weights]), *shapes]))
    insides: List[_Inside] = []
    paths: List[List[Tuple[int, int]]] = [[] for _ in ops]
    numbers: Dict[Tuple[int, int], int] = {}
    _number(fold(ops), insides, paths, numbers, [])
    for number, op in enumerate(ops):
        entering = [(flow.source, flow.text) for flow in op.inputs]
        for source, text in [*entering, *((source, None) for source in op.controls)]:
            if number not in constants and source not in constants:
                _take(insides, paths[source], paths[number], source, text)
    groups = [_drawn(at, inside, ops, verdicts, numbers) for at, inside in enumerate(insides)]
    return {
        "groups": groups,
        "constants": {str(number): reader for number, reader in constants.items()},
    }


def _number(
    group: Group,
    insides: List[_Inside],
    paths: List[List[Tuple[int, int]]],
    numbers: Dict[Tuple[int, int], int],
    path: List[Tuple[int, int]],
) -> None:
    new_number = len(insides)
    insides.append(_Inside(group, {}, [{} for _ in group.members]))
    for at, member in enumerate(group.members):
        here = [*path, (new_number, at)]
        if isinstance(member, Group):
            numbers[new_number, at] = len(insides)
            _number(member, insides, paths, numbers, here)
        else:
            paths[member] = here


def _take(
    insides: List[_Inside],
    source: List[Tuple[int, int]],
    target: List[Tuple[int, int]],
    number: int,
    text: Optional[str],
) -> None:
    """Note a flow in the group that both ends are in, and as one from outside in those that only
    its target is in.
    """
    depth = 0
    while depth < min(len(source), len(target)) - 1 and source[depth] == target[depth]:
        depth += 1
    group, at = target[depth]
    insides[group].flows[at].setdefault(source[depth][1], []).append(text)
    for group, at in target[depth + 1 :]:
        inside = insides[group]
        known = number in inside.ports or len(inside.ports) < _MOST_PORTS
        port = inside.ports.setdefault(number if known else -1, len(inside.ports))
        inside.flows[at].setdefault(len(inside.group.members) + port, []).append(text)


def _drawn(
    group_index: int,
    inside: _Inside,
    ops: Sequence[NetworkOp],
    verdicts: Mapping[str, str],
    numbers: Mapping[Tuple[int, int], int],
) -> Dict[str, Any]:
    group = inside.group
    boxes = _boxes(inside, ops)
    # The first ports were numbered before -1 was: their order is that of the numbers given.
    for source in sorted(inside.ports, key=inside.ports.__getitem__):
        op_type = "from outside" if source < 0 else "from " + ops[source].type
        boxes.append(NetworkOp("several more" if source < 0 else ops[source].name, op_type, ()))
    drawn = drawing(boxes, {})
    ports = sorted(inside.ports, key=inside.ports.__getitem__)
    for at, box in enumerate(drawn["ops"]):
        if at >= len(group.members):
            box.update(port=ports[at - len(group.members)], number=-1)
            continue
        member = group.members[at]
        if isinstance(member, Group):
            box.update(
                group=numbers[group_index, at],
                number=-1,
                type="%d ops" % len(member.ops()),
                name=member.label,
            )
        else:
            box.update(number=member, name=ops[member].name, verdict=verdicts.get(ops[member].name))
    return {"label": printable(group.label), "note": group.note, "drawing": drawn}


def _boxes(inside: _Inside, ops: Sequence[NetworkOp]) -> List[NetworkOp]:
    group = inside.group
    boxes: List[NetworkOp] = []
    for at, member in enumerate(group.members):
        flows, controls = [], []
        single = not isinstance(member, Group)
        for source, texts in inside.flows[at].items():
            words = [text for text in texts if text is not None]
            both = single and not (
                source < len(group.members) and isinstance(group.members[source], Group)
            )
            if not words:
                controls.append(source)
            elif both:
                flows += [Flow(source, text) for text in words]
            else:
                flows.append(
                    Flow(source, words[0] if len(words) == 1 else "%d tensors" % len(words))
                )
        if isinstance(member, Group):
            label, count = _short(member.label, group.prefix), len(member.ops())
            boxes.append(
                NetworkOp(
                    label,
                    "%d ops, %d outside limits" % (count, count),
                    tuple(flows),
                    tuple(controls),
                    member.note,
                )
            )
        else:
            op = ops[member]
            boxes.append(
                op._replace(
                    name=_short(op.name, group.prefix),
                    inputs=tuple(flows),
                    controls=tuple(controls),
                )
            )
    return boxes


def _short(name: str, prefix: str) -> str:
    return (
        name[len(prefix) :]
        if prefix and name.startswith(prefix) and len(name) > len(prefix)
        else name
    )


def network_shown(ops: Sequence[NetworkOp], verdicts: Mapping[str, str]) -> Dict[str, Any]:
    """Return what showNetwork() of folding.js takes: ``{"drawing"}``, or the groups of a large
    network (:func:`folded_drawing`).
    """
    return (
        {"drawing": drawing(ops, verdicts)}
        if len(ops) <= FOLDED_FROM
        else folded_drawing(ops, verdicts)
    )
