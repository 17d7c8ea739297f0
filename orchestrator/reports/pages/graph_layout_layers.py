"""The layers of a network, and the bends of the edges that go over several of them."""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Sequence, Tuple

_MIN_WIDTH = 16
_MAX_BENDS = 20000
_MAX_TURNED = 100


class Layered(NamedTuple):
    """A network in layers; numbers from the count of its nodes on are bends.

    Attributes
    ----------
    layer
        Of each node and bend, 0 at the top.
    above, below
        For each node and bend, what it is joined with in the layer above and below.
    paths
        For each edge the bends that it goes through, from its source on; none where it would need
        too many of them. Of a stretch that it shares with another edge of its source only the last
        bend, where it leaves it.
    begins
        For each edge whether its bends begin below its source, and not in the middle of another
        edge.
    """

    layer: List[int]
    above: List[List[int]]
    below: List[List[int]]
    paths: List[List[int]]
    begins: List[bool]


def layered(count: int, edges: Sequence[Tuple[int, int]]) -> Layered:
    """Return the layers of a network of ``count`` nodes; edges are (source, target) as numbers of
    nodes.
    """
    downwards = _without_cycles(count, edges)
    layer = _layers(count, sorted(set(downwards)))
    return _with_bends(layer, edges, downwards)


def _without_cycles(count: int, edges: Sequence[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Return the edges, those turned round that lead back into the path of a depth-first search; to
    a node itself none leads.
    """
    targets: List[List[int]] = [[] for _ in range(count)]
    entered = [False] * count
    for source, target in edges:
        targets[source].append(target)
        entered[target] = entered[target] or source != target
    state = [0] * count
    back = set()
    # Nodes that nothing enters come first, so that only true cycles are turned.
    for root in sorted(range(count), key=lambda node: entered[node]):
        if state[root]:
            continue
        stack = [(root, iter(targets[root]))]
        state[root] = 1
        while stack:
            node, following = stack[-1]
            for other in following:
                if state[other] == 1:
                    back.add((node, other))
                elif not state[other]:
                    state[other] = 1
                    stack.append((other, iter(targets[other])))
                    break
            else:
                state[node] = 2
                stack.pop()
    turned = [
        (target, source) if (source, target) in back else (source, target)
        for source, target in edges
    ]
    return [edge for edge in turned if edge[0] != edge[1]]


def _layers(count: int, edges: Sequence[Tuple[int, int]]) -> List[int]:
    """Return the layer of each node: the first below all that feed it that has room; what nothing
    feeds stands just above its readers.
    """
    widest = max(_MIN_WIDTH, int(math.sqrt(count)))
    below: List[List[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for source, target in edges:
        below[source].append(target)
        missing[target] += 1
    fed = [number > 0 for number in missing]
    layer = [0] * count
    taken: Dict[int, int] = {}
    waiting = [node for node in range(count) if not missing[node]]
    for node in waiting:
        if fed[node]:
            while taken.get(layer[node], 0) >= widest:
                layer[node] += 1
            taken[layer[node]] = taken.get(layer[node], 0) + 1
        for other in below[node]:
            layer[other] = max(layer[other], layer[node] + 1)
            missing[other] -= 1
            if not missing[other]:
                waiting.append(other)
    for node in range(count):
        if not fed[node] and below[node]:
            layer[node] = min(layer[other] for other in below[node]) - 1
            while taken.get(layer[node], 0) >= widest:
                layer[node] -= 1
            taken[layer[node]] = taken.get(layer[node], 0) + 1
    lowest = min(layer, default=0)
    return [number - lowest for number in layer]


def _with_bends(
    layer: List[int], edges: Sequence[Tuple[int, int]], downwards: Sequence[Tuple[int, int]]
) -> Layered:
    """Return the network with a bend in each layer that an edge crosses; the edges of one source
    share theirs.
    """
    count = len(layer)
    layer = list(layer)
    above: List[List[int]] = [[] for _ in layer]
    below: List[List[int]] = [[] for _ in layer]
    deepest: Dict[int, int] = {}
    for source, target in downwards:
        deepest[source] = max(deepest.get(source, 0), layer[target])
    chains: Dict[int, List[int]] = {}
    # The shortest first: a few very long ones must not take the bends of all others.
    for source in sorted(deepest, key=lambda node: (deepest[node] - layer[node], node)):
        length = deepest[source] - layer[source] - 1
        if len(layer) - count + length > _MAX_BENDS:
            break
        chain = list(range(len(layer), len(layer) + length))
        layer += range(layer[source] + 1, deepest[source])
        above += [[] for _ in chain]
        below += [[] for _ in chain]
        chains[source] = chain
    straight = set(downwards)
    joined = set()
    drawn: Dict[int, int] = {}
    paths: List[List[int]] = [[] for _ in edges]
    begins = [True] * len(edges)
    ends = [(edge if edge in straight else edge[::-1]) for edge in edges]
    for number in sorted(range(len(edges)), key=lambda number: (layer[ends[number][1]], number)):
        upper, lower = ends[number]
        chain = (
            chains.get(upper, [])[: max(0, layer[lower] - layer[upper] - 1)]
            if upper != lower
            else []
        )
        known = drawn.get(upper, 0) if edges[number] == ends[number] else 0
        steps = [upper, *chain, lower]
        for first, second in zip(steps[known:], steps[known + 1 :]):
            if layer[second] == layer[first] + 1 and (first, second) not in joined:
                joined.add((first, second))
                below[first].append(second)
                above[second].append(first)
        if edges[number] == ends[number]:
            # What an edge of the same source has drawn already is not drawn again.
            paths[number] = chain[max(0, known - 1) :]
            drawn[upper] = max(known, len(chain))
            begins[number] = not known
        else:
            paths[number] = chain[::-1] if len(chain) <= _MAX_TURNED else []
    return Layered(layer, above, below, paths, begins)
