"""The order of nodes and bends inside each layer, with few crossings."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import List, Sequence

from .graph_layout_layers import Layered

_MANY = 4000
_SWEEPS = 12
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
    for sweep in range(_SWEEPS if len(part.layer) <= _MANY else _FEW_SWEEPS):
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
