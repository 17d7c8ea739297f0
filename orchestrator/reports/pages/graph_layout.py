"""Where the nodes and edges of a network are drawn: layers from top to bottom, after Sugiyama.

Cycles are broken by a depth-first search, layers are longest paths of bounded width, edges over
several layers go through bends, the order inside a layer is by barycentres and swaps, and the
coordinates keep neighbours above one another (pool adjacent violators). Source of the steps:
Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures", 1981.
Nothing is random: the same network is always drawn the same way.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

_MANY = 4000
_ORDERING_SWEEPS = 12
_FEW_SWEEPS = 4
_WIDE = 400


def ordered(part: Layered) -> List[List[int]]:
    """Return the layers of a connected network, each in an order with few crossings: the best of
    some sweeps down and up.
    """
    layers = _first_order(part)
    place = [0] * len(part.layer)
    for layer in layers:
        _number(layer, place)
    best, fewest = [list(layer) for layer in layers], crossings(part, layers, place)
    for sweep in range(_ORDERING_SWEEPS if len(part.layer) <= _MANY else _FEW_SWEEPS):
        if not fewest:
            break
        downwards = sweep % 2 == 0
        beside = part.above if downwards else part.below
        for layer in layers if downwards else reversed(layers):
            wishes = {}
            for node in layer:
                near = beside[node]
                wishes[node] = (
                    sum(place[other] for other in near) / len(near) if near else float(place[node])
                )
            layer.sort(key=wishes.__getitem__)
            _number(layer, place)
        for layer in layers:
            if len(layer) <= _WIDE:
                _swap(part, layer, place)
        crossed = crossings(part, layers, place)
        if crossed < fewest:
            best, fewest = [list(layer) for layer in layers], crossed
    return best


def _first_order(part: Layered) -> List[List[int]]:
    """Return the layers in the order of a depth-first search, so that what belongs together begins
    together.
    """
    layers: List[List[int]] = [[] for _ in range(max(part.layer, default=-1) + 1)]
    seen = [False] * len(part.layer)
    for root in sorted(range(len(part.layer)), key=lambda node: part.layer[node]):
        stack = [root]
        while stack:
            node = stack.pop()
            if not seen[node]:
                seen[node] = True
                layers[part.layer[node]].append(node)
                stack.extend(reversed(part.below[node]))
    return layers


def _number(layer: Sequence[int], place: List[int]) -> None:
    for index, node in enumerate(layer):
        place[node] = index


def crossings(part: Layered, layers: Sequence[Sequence[int]], place: Sequence[int]) -> int:
    """Return how many pairs of edges between neighbouring layers cross."""
    total = 0
    for layer in layers[:-1]:
        ends: List[int] = []
        for node in layer:
            positions = sorted(place[other] for other in part.below[node])
            total += sum(len(ends) - bisect_right(ends, end) for end in positions)
            for end in positions:
                insort(ends, end)
    return total


def _swap(part: Layered, layer: List[int], place: List[int]) -> None:
    """Swap neighbours for which that leaves fewer crossings, until none is left to swap or some
    rounds are done.
    """
    ends = {
        node: (
            sorted(place[o] for o in part.above[node]),
            sorted(place[o] for o in part.below[node]),
        )
        for node in layer
    }
    for _ in range(3):
        swapped = False
        for index in range(len(layer) - 1):
            first, second = layer[index], layer[index + 1]
            now = sum(_inversions(mine, its) for mine, its in zip(ends[first], ends[second]))
            if (
                now
                and sum(_inversions(its, mine) for mine, its in zip(ends[first], ends[second]))
                < now
            ):
                layer[index], layer[index + 1] = second, first
                place[first], place[second] = index + 1, index
                swapped = True
        if not swapped:
            return


def _inversions(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many pairs cross where the node with the ends ``left`` stands before the one with
    ``right``; both are sorted.
    """
    if not left or not right or left[-1] <= right[0]:
        return 0
    return sum(len(left) - bisect_right(left, end) for end in right)


Point = Tuple[float, float]

GAP_X = 28.0
_BEND_WIDTH = 6.0
_ROOM = 40.0
PORTS = 0.8
"""The share of an op's width over which the lines that enter it are spread."""
_STRAIGHT = 1e6
_STRAIGHT_PX = 0.5
_SWEEPS = 6


class Layout(NamedTuple):
    """Where everything is, in pixels; y grows downwards.

    Attributes
    ----------
    width, height
        Of the whole drawing.
    centres
        Of each node.
    lines
        For each edge, in the order given, the points of its line to its target. It begins at its
        source, or, where another edge of that source draws the first stretch, where it leaves that
        one.
    """

    width: float
    height: float
    centres: List[Point]
    lines: List[List[Point]]


def lay_out(
    sizes: Sequence[Tuple[float, float]],
    edges: Sequence[Tuple[int, int]],
    room: Optional[Sequence[float]] = None,
) -> Layout:
    """Return where to draw a network.

    Parameters
    ----------
    sizes
        Width and height of each node, in pixels.
    edges
        (source, target) as numbers of nodes. Cycles, repeated edges and edges from a node to itself
        are allowed.
    room
        The free height that each node needs above itself, in pixels; 40 by default.
    """
    above = [_ROOM] * len(sizes) if room is None else list(room)
    centres: List[Point] = [(0.0, 0.0)] * len(sizes)
    bends: List[List[Point]] = [[] for _ in edges]
    begins = [True] * len(edges)
    parts = []
    for nodes, inner in _components(len(sizes), edges):
        number = {node: index for index, node in enumerate(nodes)}
        part = layered(
            len(nodes), [(number[edges[edge][0]], number[edges[edge][1]]) for edge in inner]
        )
        parts.append(
            (
                nodes,
                inner,
                part,
                _place(part, [sizes[node] for node in nodes], [above[node] for node in nodes]),
            )
        )
    area = sum((placed.width + GAP_X) * (placed.height + GAP_X) for *_, placed in parts)
    limit = max([placed.width for *_, placed in parts] + [math.sqrt(2.0 * area)])
    left = top = shelf = width = 0.0
    for nodes, inner, part, placed in parts:
        if left and left + placed.width > limit:
            left, top, shelf = 0.0, top + shelf + GAP_X, 0.0
        for index, node in enumerate(nodes):
            centres[node] = (left + placed.xs[index], top + placed.ys[index])
        for index, edge in enumerate(inner):
            bends[edge] = [
                (left + placed.xs[bend], top + placed.ys[bend]) for bend in part.paths[index]
            ]
            begins[edge] = part.begins[index]
        left += placed.width + GAP_X
        width, shelf = max(width, left - GAP_X), max(shelf, placed.height)
    lines = _lines(sizes, edges, centres, bends, begins)
    return Layout(
        _round(width), _round(top + shelf), [_rounded(centre) for centre in centres], lines
    )


def _lines(
    sizes: Sequence[Tuple[float, float]],
    edges: Sequence[Tuple[int, int]],
    centres: Sequence[Point],
    bends: Sequence[List[Point]],
    begins: Sequence[bool],
) -> List[List[Point]]:
    """Return the points of each edge's line: those that enter a node from above enter it side by
    side, in the order they come from.
    """
    entering: List[List[int]] = [[] for _ in sizes]
    for edge, (source, target) in enumerate(edges):
        if centres[source][1] < centres[target][1]:
            entering[target].append(edge)
    ends: List[Point] = [(0.0, 0.0)] * len(edges)
    for target, arriving in enumerate(entering):
        (x, y), (width, height) = centres[target], sizes[target]
        arriving.sort(
            key=lambda edge: (bends[edge][-1] if bends[edge] else centres[edges[edge][0]])[0]
        )
        for rank, edge in enumerate(arriving):
            ends[edge] = (x + width * ((rank + 0.5) / len(arriving) - 0.5) * PORTS, y - height / 2)
    lines = []
    for edge, (source, target) in enumerate(edges):
        (x, y), (width, height) = centres[source], sizes[source]
        (far_x, far_y), far_height = centres[target], sizes[target][1]
        if source == target:
            right = x + width / 2
            line = [(right, y - 8), (right + GAP_X / 2, y), (right, y + 8)]
        elif y < far_y:
            line = [(x, y + height / 2)] * begins[edge] + bends[edge] + [ends[edge]]
        else:
            line = [(x, y - height / 2), *bends[edge], (far_x, far_y + far_height / 2)]
        lines.append(
            [_rounded(point) for index, point in enumerate(line) if not _on_the_way(line, index)]
        )
    return lines


def _on_the_way(line: Sequence[Point], index: int) -> bool:
    """Tell whether a line goes straight down through one of its points."""
    return (
        0 < index < len(line) - 1
        and abs(line[index - 1][0] - line[index][0]) + abs(line[index][0] - line[index + 1][0])
        < _STRAIGHT_PX
    )


def _round(value: float) -> float:
    return round(value, 1)


def _rounded(point: Point) -> Point:
    return _round(point[0]), _round(point[1])


def _components(count: int, edges: Sequence[Tuple[int, int]]) -> List[Tuple[List[int], List[int]]]:
    """Return the nodes and the edges of each connected part, the parts by size, then by their first
    node.
    """
    root = list(range(count))

    def find(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for source, target in edges:
        first, second = sorted((find(source), find(target)))
        root[second] = first
    parts: Dict[int, Tuple[List[int], List[int]]] = {}
    for node in range(count):
        parts.setdefault(find(node), ([], []))[0].append(node)
    for number, (source, _) in enumerate(edges):
        parts[find(source)][1].append(number)
    return sorted(parts.values(), key=lambda part: -len(part[0]))


class _Placed(NamedTuple):
    """x and y of the nodes and bends of a connected part, and its size."""

    xs: List[float]
    ys: List[float]
    width: float
    height: float


def _place(part: Layered, sizes: Sequence[Tuple[float, float]], room: Sequence[float]) -> _Placed:
    layers = ordered(part)
    count = len(part.layer)
    widths = [width for width, _ in sizes] + [_BEND_WIDTH] * (count - len(sizes))
    xs = _columns(part, layers, widths, len(sizes))
    left = min(x - width / 2 for x, width in zip(xs, widths))
    right = max(x + width / 2 for x, width in zip(xs, widths))
    ys = [0.0] * count
    top = 0.0
    for layer in layers:
        inner = [node for node in layer if node < len(sizes)]
        top += max([room[node] for node in inner] + [_ROOM / 2])
        height = max([sizes[node][1] for node in inner] + [0.0])
        for node in layer:
            ys[node] = top + height / 2
        top += height
    return _Placed([x - left for x in xs], ys, right - left, top)


def _columns(
    part: Layered, layers: Sequence[Sequence[int]], widths: Sequence[float], nodes: int
) -> List[float]:
    xs = [0.0] * len(widths)
    offsets = []
    for layer in layers:
        offsets.append(_offsets(layer, widths, nodes))
        for node, offset in zip(layer, offsets[-1]):
            xs[node] = offset - offsets[-1][-1] / 2
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        beside = part.above if downwards else part.below
        for layer, layer_offsets in list(zip(layers, offsets))[:: 1 if downwards else -1]:
            wishes, weights = [], []
            for node in layer:
                trunk = [other for other in beside[node] if other >= nodes] if node >= nodes else []
                near = trunk or beside[node] or [node]
                wishes.append(sum(xs[other] for other in near) / len(near))
                weights.append(_STRAIGHT if trunk else 1.0 if beside[node] else 0.1)
            for node, x in zip(layer, _separated(wishes, weights, layer_offsets)):
                xs[node] = x
    return xs


def _offsets(layer: Sequence[int], widths: Sequence[float], nodes: int) -> List[float]:
    """Return how far right of the first of a layer each other one must at least be."""
    offsets = [0.0]
    for left, right in zip(layer, layer[1:]):
        gap = GAP_X if left < nodes and right < nodes else GAP_X / 2
        offsets.append(offsets[-1] + (widths[left] + widths[right]) / 2 + gap)
    return offsets


def _separated(
    wishes: Sequence[float], weights: Sequence[float], offsets: Sequence[float]
) -> List[float]:
    """Return the positions nearest to the wishes (weighted least squares) that keep the order and
    the distances of the offsets.
    """
    blocks: List[Tuple[float, float, int]] = []
    for wish, weight, offset in zip(wishes, weights, offsets):
        mean, total, size = wish - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            other, its, length = blocks.pop()
            mean, total, size = (
                (mean * total + other * its) / (total + its),
                total + its,
                size + length,
            )
        blocks.append((mean, total, size))
    shifts = [mean for mean, _, size in blocks for _ in range(size)]
    return [shift + offset for shift, offset in zip(shifts, offsets)]


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
