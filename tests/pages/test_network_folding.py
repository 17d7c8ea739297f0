"""A large network in groups: each op is in one, by scopes, repeated blocks and order; edges end at
their ops.
"""

from __future__ import annotations

import random

import pytest

from goldwatch.reports.pages.network_drawing import Flow, NetworkOp
from goldwatch.reports.pages.network_folding import (
    FOLDED_FROM,
    Group,
    constants_of,
    fold,
    folded_drawing,
    network_shown,
)


def op(name, op_type, *sources, text="1,2"):
    return NetworkOp(name, op_type, tuple(Flow(source, text) for source in sources))


def transformer(layers):
    ops = [op("net/embeddings/add", "Add")]
    for layer in range(layers):
        first = len(ops)
        for at, kind in enumerate(("MatMul", "Softmax", "MatMul", "Add", "LayerNorm", "Gelu")):
            ops.append(
                op(
                    "net/layer_%d/part_%d/%s" % (layer, at // 3, kind),
                    kind,
                    len(ops) - 1,
                    *([first - 1] if kind == "Add" else []),
                )
            )
    return ops


def resnet(blocks):
    ops = [op("data", "Data"), op("c0", "Conv2D", 0), op("p0", "MaxPool", 1)]
    for block in range(blocks):
        entry = len(ops) - 1
        for at, kind in enumerate(("Conv2D", "BN", "Relu", "Conv2D", "BN")):
            ops.append(op("n%d_%d" % (block, at), kind, len(ops) - 1))
        ops.append(op("n%d_sum" % block, "Add", len(ops) - 1, entry))
        ops.append(op("n%d_relu" % block, "Relu", len(ops) - 1))
    return [*ops, op("fc", "MatMul", len(ops) - 1)]


def groups_of(group):
    found = [member for member in group.members if isinstance(member, Group)]
    return found + [inner for member in found for inner in groups_of(member)]


def test_scopes_become_groups_and_equal_neighbours_one_group():
    ops = transformer(40)
    root = fold(ops)
    assert sorted(root.ops()) == list(range(len(ops)))
    labels = [group.label for group in groups_of(root)]
    assert "net/layer_7" in labels and "net/layer_39/part_1" in labels
    (alike,) = [group for group in groups_of(root) if group.note == "40 alike"]
    assert [member.label for member in alike.members] == [
        "net/layer_%d" % number for number in range(40)
    ]
    assert len(root.members) <= 3


def test_repeated_blocks_become_groups_that_begin_where_one_tensor_enters():
    ops = resnet(30)
    root = fold(ops)
    assert sorted(root.ops()) == list(range(len(ops)))
    blocks = [group for group in groups_of(root) if group.note.startswith("block ")]
    assert [group.note for group in blocks] == [
        "block %d of 30" % number for number in range(1, 31)
    ]
    for group in blocks:
        inside = set(group.ops())
        assert [ops[number].type for number in group.ops()] == [
            "Conv2D",
            "BN",
            "Relu",
            "Conv2D",
            "BN",
            "Add",
            "Relu",
        ]
        assert len({flow.source for number in inside for flow in ops[number].inputs} - inside) == 1


def test_names_made_of_types_are_not_taken_for_scopes():
    ops = [
        op("p2o.%s.%d" % (one.type, number), one.type, *(flow.source for flow in one.inputs))
        for number, one in enumerate(resnet(30))
    ]
    assert not any(
        group.label.startswith("p2o.Conv2D") and "…" not in group.label
        for group in groups_of(fold(ops))
    )


def test_ops_without_a_scope_join_the_group_around_them():
    ops = transformer(40)
    inner = next(
        number for number, one in enumerate(ops) if one.name == "net/layer_3/part_0/Softmax"
    )
    ops[inner] = ops[inner]._replace(name="trans_TransData_1")
    (layer,) = [group for group in groups_of(fold(ops)) if group.label == "net/layer_3/part_0"]
    assert inner in layer.ops()


@pytest.mark.parametrize("seed", range(5))
def test_every_op_is_drawn_once_and_edges_end_at_their_readers(seed):
    chance = random.Random(seed)
    ops = []
    for number in range(700):
        name = (
            "/".join("s%d" % chance.randrange(3) for _ in range(chance.randrange(4)))
            + "/op%d" % number
        )
        sources = sorted(
            {max(0, number - chance.randrange(1, 40)) for _ in range(chance.randrange(3))}
            - {number}
        )
        ops.append(op(name, chance.choice("abcde"), *sources))
    shown = folded_drawing(ops, {"x": "fail", ops[5].name: "fail"})
    places = {}
    for at, group in enumerate(shown["groups"]):
        for place, box in enumerate(group["drawing"]["ops"]):
            if box["number"] >= 0:
                assert box["number"] not in places and box["name"] == ops[box["number"]].name
                places[box["number"]] = (at, place)
    assert sorted(places) == list(range(len(ops)))
    holders = {
        box["group"]
        for group in shown["groups"]
        for box in group["drawing"]["ops"]
        if "group" in box
    }
    assert holders == set(range(1, len(shown["groups"])))
    assert [
        box["verdict"]
        for group in shown["groups"]
        for box in group["drawing"]["ops"]
        if box["number"] == 5
    ] == ["fail"]
    for number, one in enumerate(ops):
        at, place = places[number]
        entering = [edge for edge in shown["groups"][at]["drawing"]["edges"] if edge[1] == place]
        assert bool(entering) == bool(one.inputs)
        for flow in one.inputs:
            boxes = [shown["groups"][at]["drawing"]["ops"][edge[0]] for edge in entering]
            known = {box["number"] for box in boxes} | {box.get("port") for box in boxes}
            inside = [box["group"] for box in boxes if "group" in box]
            assert (
                flow.source in known
                or -1 in known
                or any(places[flow.source][0] >= group for group in inside)
            )


def test_constants_are_drawn_in_the_box_of_their_reader():
    ops = [
        op("w", "Const"),
        op("w/read", "Identity", 0),
        op("x", "Data"),
        op("conv", "Conv2D", 2, 1),
        op("lonely", "Const"),
    ]
    assert constants_of(ops) == {0: 3, 1: 3}
    many = ops + [op("op%d" % number, "Relu", number - 1) for number in range(5, 400)]
    many[5] = op("op5", "Relu", 3)
    shown = network_shown(many, {})
    assert shown["constants"] == {"0": 3, "1": 3}
    boxes = {box["number"]: box for group in shown["groups"] for box in group["drawing"]["ops"]}
    assert boxes[3]["weights"] == "1,2" and 0 not in boxes and 4 in boxes


def test_a_small_network_is_drawn_flat():
    ops = resnet(4)
    assert len(ops) < FOLDED_FROM and len(network_shown(ops, {})["drawing"]["ops"]) == len(ops)


def test_thousands_of_ops_without_structure_become_groups_of_neighbours():
    chance = random.Random(1)
    ops = [op("op0", "Data")]
    ops += [
        op("op%d" % number, chance.choice("abcdefghijklm") * chance.randrange(1, 9), number - 1)
        for number in range(1, 3000)
    ]
    shown = folded_drawing(ops, {})
    assert max(len(group["drawing"]["ops"]) for group in shown["groups"]) <= 310
    # Nor are a thousand blocks that are alike drawn at once.
    ops = [
        op(
            "op%d" % number,
            ("Conv2D", "MatMul", "Relu")[number % 3],
            *([number - 1] if number else []),
        )
        for number in range(3000)
    ]
    shown = folded_drawing(ops, {})
    assert max(len(group["drawing"]["ops"]) for group in shown["groups"]) <= 110
    assert len([group for group in shown["groups"] if group["note"].startswith("block ")]) == 1000
