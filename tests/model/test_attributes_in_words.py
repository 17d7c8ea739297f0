"""Attributes of a model's ops listed as text."""

from __future__ import annotations

import json

from goldwatch.model.read_model import load_model, load_with_parameters

ATTRS = [
    ("_inner", {"s": "last"}),
    ("number", {"i": 3}),
    ("real", {"f": 0.5}),
    ("yes", {"b": True}),
    ("text", {"s": "a"}),
    ("list", {"list": {"val_type": "VT_LIST_INT", "i": [1, 2]}}),
    ("empty", {"list": {"val_type": "VT_LIST_STRING"}}),
    ("nothing", None),
    ("unset", {}),
    ("deep", {"td": {"shape": {"dim": [1]}, "layout": "ND"}}),
    ("long", {"s": "x" * 400}),
    ("bad\udcff", {"s": "\udcff"}),
    ("_datadump_original_op_names", {"list": {"s": ["a", "b"]}}),
]


def test_attributes_of_every_form_are_listed(tmp_path):
    op = {
        "name": "op",
        "type": "T",
        "attr": [{"key": key, "value": value} for key, value in ATTRS] + [None, 5, {"key": 3}],
    }
    path = tmp_path / "m.json"
    path.write_text(
        json.dumps(
            {"name": "m", "graph": [{"op": [{"name": "first"}, op]}, {"op": [{"name": "last"}]}]}
        )
    )
    graph, parameters = load_with_parameters(path)
    assert [len(found) for found in parameters] == [0, len(ATTRS), 0]
    assert parameters[1] == [
        ("number", "3"),
        ("real", "0.5"),
        ("yes", "true"),
        ("text", "a"),
        ("list", "[1, 2]"),
        ("empty", "[]"),
        ("nothing", ""),
        ("unset", ""),
        ("deep", '{"shape": {"dim": [1]}, "layout": "ND"}'),
        ("long", "x" * 300 + " … (100 letters more)"),
        ("bad\\xff", "\\xff"),
        ("_inner", "last"),
        ("_datadump_original_op_names", "[a, b]"),
    ]
    assert graph.ops == load_model(path).ops


def test_attributes_of_a_graph_in_text_form_are_listed(tmp_path):
    path = tmp_path / "ge_proto_00001_Build.txt"
    path.write_text(
        'graph { name: "g" op { name: "a" type: "T" attr { key: "k" value { i: 7 } } attr { '
        'key: "l" value { list { i: 1 i: 2 } } } } }'
    )
    assert load_with_parameters(path)[1] == [[("k", "7"), ("l", "[1, 2]")]]
