"""The layout of a network: no overlaps, data flows downwards, always the same drawing."""

from __future__ import annotations

import itertools
import random

import pytest

from goldwatch.reports.pages.graph_layout import GAP_X, crossings, lay_out, layered, ordered

NODES = 300
CHAIN = [(number, number + 1) for number in range(NODES - 1)]


def scattered(seed, span):
    draw = random.Random(seed)
    pairs = [(draw.randrange(NODES), draw.randrange(NODES)) for _ in range(2 * NODES)]
    return (
        [(first, min(NODES - 1, first + 1 + second % span)) for first, second in pairs]
        if span
        else pairs
    )


GRAPHS = {
    "chain": CHAIN,
    "skips": CHAIN + [(number, number + 5) for number in range(0, NODES - 5, 4)],
    "cycle": [(number, (number + 1) % NODES) for number in range(NODES)],
    "fan out": [(0, number) for number in range(1, NODES)],
    "fan in": [(number, NODES - 1) for number in range(NODES - 1)],
    "one feeds all": CHAIN[1:] + [(0, number) for number in range(1, NODES)],
    "alone": [],
    "itself": [(number, number) for number in range(NODES)],
    "twice": CHAIN[:50] * 3,
    "there and back": [*CHAIN[:80], *((second, first) for first, second in CHAIN[:80])],
    "everything with everything": list(itertools.product(range(25), range(25))),
    "random": scattered(1, 0),
    "random downwards": scattered(2, 30),
}


@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_no_two_nodes_overlap_and_all_lie_inside_the_drawing(edges):
    sizes = [(60.0 + 7 * (number % 11), 30.0 + number % 3) for number in range(NODES)]
    layout = lay_out(sizes, edges)
    boxes = sorted((y, x, width, height) for (x, y), (width, height) in zip(layout.centres, sizes))
    for y, x, width, height in boxes:
        assert x - width / 2 + 0.1 >= 0 and x + width / 2 <= layout.width + 0.1
        assert y - height / 2 >= 0 and y + height / 2 <= layout.height + 0.1
    for first, second in itertools.combinations(boxes, 2):
        apart_x = abs(first[1] - second[1]) - (first[2] + second[2]) / 2
        apart_y = abs(first[0] - second[0]) - (first[3] + second[3]) / 2
        assert apart_x >= GAP_X - 0.2 or apart_y >= 20


@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_each_edge_leads_from_its_source_to_its_target(edges):
    sizes = [(80.0, 40.0)] * NODES
    layout = lay_out(sizes, edges)
    points_of = {}
    for (source, _), line in zip(edges, layout.lines):
        points_of.setdefault(source, []).extend(line)
    for (source, target), line in zip(edges, layout.lines):
        x, y = layout.centres[target]
        assert abs(line[-1][0] - x) <= 40.1 and abs(line[-1][1] - y) <= 20.1
        x, y = layout.centres[source]
        begins = abs(line[0][0] - x) <= 40.1 and abs(line[0][1] - y) <= 20.1
        assert begins or any(
            abs(line[0][0] - other[0]) < 1 for other in points_of[source] if other is not line[0]
        )


def test_without_cycles_all_edges_lead_downwards():
    for name in ("chain", "skips", "fan out", "fan in", "one feeds all", "random downwards"):
        edges = [edge for edge in GRAPHS[name] if edge[0] != edge[1]]
        layout = lay_out([(80.0, 40.0)] * NODES, edges)
        assert all(
            layout.centres[source][1] + 40 < layout.centres[target][1] for source, target in edges
        ), name


def test_in_a_cycle_one_edge_leads_upwards():
    edges = GRAPHS["cycle"]
    layout = lay_out([(80.0, 40.0)] * NODES, edges)
    assert (
        sum(layout.centres[source][1] > layout.centres[target][1] for source, target in edges) == 1
    )


def test_the_same_network_is_always_drawn_the_same_way():
    edges = GRAPHS["random"]
    assert lay_out([(80.0, 40.0)] * NODES, edges) == lay_out([(80.0, 40.0)] * NODES, edges)


def test_crossings_equal_a_count_over_all_pairs():
    draw = random.Random(4)
    for _ in range(30):
        count = draw.randrange(2, 25)
        part = layered(
            count, [tuple(sorted(draw.sample(range(count), 2))) for _ in range(2 * count)]
        )
        layers = ordered(part)
        place = [0] * len(part.layer)
        for layer in layers:
            for index, node in enumerate(layer):
                place[node] = index
        joins = [
            (part.layer[node], place[node], place[other])
            for node in range(len(part.layer))
            for other in part.below[node]
        ]
        slow = sum(
            a[0] == b[0] and (a[1] - b[1]) * (a[2] - b[2]) < 0
            for a, b in itertools.combinations(joins, 2)
        )
        assert crossings(part, layers, place) == slow


def test_branches_that_can_be_drawn_without_a_crossing_are():
    edges = [(0, 1), (0, 2), (0, 3), (1, 6), (2, 5), (3, 4), (4, 7), (5, 7), (6, 7)]
    part = layered(8, edges)
    layers = ordered(part)
    place = [0] * len(part.layer)
    for layer in layers:
        for index, node in enumerate(layer):
            place[node] = index
    assert crossings(part, layers, place) == 0


def test_three_thousand_nodes_need_few_bends():
    """What takes long is many bends: they are bounded, whatever feeds what, and lines hold few
    points.
    """
    count = 3000
    edges = [
        (number, other)
        for number in range(0, count, 2)
        for other in (number + 1, number + 200, number + 1500)
        if other < count
    ]
    part = layered(count, edges)
    assert len(part.layer) <= count + 20000
    layout = lay_out(
        [(80.0, 40.0)] * count,
        [(number, number + 1) for number in range(1, count - 1)]
        + [(0, number) for number in range(1, count)],
    )
    assert sum(map(len, layout.lines)) < 8 * count


def test_an_empty_network_has_an_empty_layout():
    layout = lay_out([], [])
    assert (layout.width, layout.height, layout.centres, layout.lines) == (0.0, 0.0, [], [])
