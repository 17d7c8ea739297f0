"""Drawing a network: names in lines, originals, labels without overlap, neighbourhoods."""

from __future__ import annotations

import pytest

from goldwatch.base.errors import FormatError
from goldwatch.reports.pages.network_drawing import (
    Flow,
    NetworkOp,
    drawing,
    name_lines,
    near,
    network_ops,
    origin_words,
)
from goldwatch.reports.pages.read_page_model import read_page_model
from goldwatch.reports.pages.report_graph import report_graphs


def chain(count):
    return [
        NetworkOp("op%d" % number, "Relu", (Flow(number - 1, "1,2"),) if number else ())
        for number in range(count)
    ]


def test_a_folder_of_several_graphs_is_refused_with_their_names(tmp_path):
    for number in range(5):
        (tmp_path / ("ge_proto_%d.txt" % number)).write_text("")
    with pytest.raises(FormatError, match="is a folder") as refused:
        read_page_model(str(tmp_path))
    assert (
        refused.value.hint
        == "name one of the files in it: ge_proto_0.txt, ge_proto_1.txt, ge_proto_2.txt and 2 more"
    )


def test_names_are_broken_behind_slashes_with_characters_escaped():
    assert name_lines(["conv1", "resnet_v1_50/block1/unit_1/bottleneck_v1/conv1/Conv2D"]) == [
        ["conv1"],
        ["resnet_v1_50/block1/unit_1/", "bottleneck_v1/conv1/Conv2D"],
    ]
    prefix, suffix = "distributed_training/" * 10, "/batch_normalization" * 10
    blocks = name_lines(["%sblock_%d%s" % (prefix, number, suffix) for number in range(300)])
    assert all(
        "/block_%d..." % number in "".join(lines) and len(lines) <= 6
        for number, lines in enumerate(blocks)
    )
    assert name_lines(["a\u202e\n", ""]) == [["a\\u202e\\x0a"], [""]]


def test_original_names_are_shown_where_they_differ():
    assert origin_words("conv1", ["conv1"]) == origin_words("conv1", None) == ""
    assert origin_words("trans", []) == "made by the compiler"
    assert origin_words("x", ["conv1"]) == "from conv1"
    assert origin_words("x", ["conv1", "bn1"]) == "from conv1 + bn1 (2)"
    assert origin_words("x", ["conv1", "bn1", "relu1"]) == "from conv1 … relu1 (3)"
    assert (
        origin_words("x", ["a/very/long/name/of/an/op/conv1"] * 2)
        == "from …of/an/op/conv1 + …of/an/op/conv1 (2)"
    )


def test_edge_labels_of_one_op_do_not_overlap():
    ops = [NetworkOp("s%d" % number, "Data", ()) for number in range(5)]
    ops.append(
        NetworkOp(
            "sum", "AddN", tuple(Flow(number, "1,16,112,112,16 NC1HWC0") for number in range(5))
        )
    )
    labels = [(edge[3], edge[4], 5.8 * len(edge[2])) for edge in drawing(ops, {})["edges"]]
    assert len(labels) == 5
    for number, (x, y, width) in enumerate(labels):
        for other_x, other_y, other_width in labels[:number]:
            assert abs(y - other_y) >= 10 or abs(x - other_x) >= (width + other_width) / 2


def test_a_part_of_a_network_counts_the_edges_it_omits():
    ops = chain(10)
    assert near(ops, [5], 3) == [4, 5, 6]
    part = drawing(ops, {"op5": "fail"}, [4, 5, 6])
    assert [(op["name"], op["number"], op["verdict"], op["more"]) for op in part["ops"]] == [
        ("op4", 4, None, 1),
        ("op5", 5, "fail", 0),
        ("op6", 6, None, 1),
    ]
    assert [edge[:3] for edge in part["edges"]] == [[0, 1, "1,2"], [1, 2, "1,2"]]


def op(name, graph, *inputs):
    desc = {
        "dtype": "DT_FLOAT",
        "layout": "ND",
        "shape": [2, 3],
        "origin_layout": None,
        "origin_shape": None,
        "origin": None,
        "origin_index": None,
    }
    fields = {
        "name": name,
        "type": "Relu",
        "id": 0,
        "graph": graph,
        "originals": None,
        "controls": ["a"] if name == "c" else [],
    }
    return dict(
        fields,
        inputs=[None if each is None else [each, 0] for each in inputs],
        input_descs=[],
        output_descs=[desc],
    )


def test_inputs_are_resolved_in_their_own_graph_first():
    document = {
        "model": "m",
        "ops": [op("a", 0), op("a", 1), op("b", 1, "a", None, "gone"), op("c", 2, "a", "b")],
    }
    ops = network_ops(document)
    assert ops[2].inputs == (Flow(1, "2,3 ND"),)
    assert ops[3].inputs == (Flow(0, "2,3 ND"), Flow(2, "2,3 ND")) and ops[3].controls == (0,)


def test_a_report_draws_the_part_around_the_first_suspect_and_the_whole():
    document = {
        "model": "m",
        "ops": [
            op("op%d" % number, 0, *(["op%d" % (number - 1)] if number else []))
            for number in range(200)
        ],
    }
    other = {"model": "other", "ops": [op("x", 0)]}
    found = report_graphs([other, document], {"op150": "fail"}, ["op100"])
    assert [(graph["model"], graph["focus"], graph["count"]) for graph in found] == [
        ("m", "op100", 200),
        ("other", "x", 1),
    ]
    assert (
        len(found[0]["near"]["drawing"]["ops"]),
        len(found[0]["whole"]["drawing"]["ops"]),
        found[1]["whole"],
    ) == (60, 200, None)
    assert report_graphs([document], {"op150": "fail"}, [])[0]["focus"] == "op150"
    assert report_graphs([{"model": "m", "ops": []}], {}, []) == []
