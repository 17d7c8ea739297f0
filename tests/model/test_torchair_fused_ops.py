"""Fused names taken apart, and what a fused op's inputs and outputs are."""

from __future__ import annotations

import pytest
from torchair_runs import torchair_graph

from goldwatch.model.op_node import OpNode
from goldwatch.model.read_model import load_model
from goldwatch.model.torchair_fused_ops import members_of, with_fused_ops
from goldwatch.model.torchair_graph import fx_origin


def named(*names):
    return {name: OpNode(name, "Add", number, 0, number) for number, name in enumerate(names)}


@pytest.mark.parametrize(
    ("name", "names", "members"),
    [
        ("Add_1Mul_1", ["Add", "Add_1", "Mul_1"], ["Add_1", "Mul_1"]),
        ("Add_11", ["Add_1", "Add_11", "1"], ["Add_11"]),
        ("Add_12Relu", ["Add_1", "Add_12", "2Relu", "Relu"], ["Add_12", "Relu"]),
        # The longest first, but not where the rest is then no name.
        ("Add_12Relu", ["Add_1", "Add_12", "2Relu"], ["Add_1", "2Relu"]),
        ("aab", ["a", "aa", "ab"], ["a", "ab"]),
        ("Add_1Mul", ["Add_1"], None),
        ("trans_Cast_3", ["Cast_3"], None),
    ],
)
def test_a_fused_name_is_taken_apart_into_the_longest_fitting_names(name, names, members):
    found = members_of(name, named(*names))
    assert (found and [op.name for op in found]) == members


def test_a_fused_name_that_fits_no_parts_is_given_up_quickly():
    assert members_of("a" * 2000 + "b", named("a", "aa", "aaa")) is None


def test_inputs_and_outputs_of_a_fused_op_follow_from_its_dump(tmp_path):
    graph = load_model(torchair_graph().write_graph(str(tmp_path)))
    dumped = {
        "MatMul": ("MatMul", 1),
        "AddMul": ("AutomaticBufferFusionOp", 2),
        "Relu": ("Relu", 4),
    }

    def fused(counts):
        return with_fused_ops(graph, dumped, lambda name: counts, False).op("AddMul")

    # (of Add: MatMul and a model's input; of Mul: a constant)
    assert (
        fused(None).inputs == fused((3, 1)).inputs == (("MatMul", 0), ("arg2_1", 0), ("Const", 0))
    )
    assert fused((2, 1)).inputs == (("MatMul", 0), ("arg2_1", 0))
    assert [desc.origin_name for desc in fused((2, 1)).output_descs] == [
        "mul-aten.mul.Tensor.OUTPUT"
    ]
    found = with_fused_ops(graph, dumped, lambda name: None, False)
    assert found.op("Cast").inputs == (("AddMul", 0),) and found.op("Add") is None
    assert (
        [op.id for op in found.ops]
        == [op.position for op in found.ops]
        == list(range(len(found.ops)))
    )


def test_an_inserted_op_is_placed_where_it_ran(tmp_path):
    graph = load_model(torchair_graph().write_graph(str(tmp_path)))
    dumped = {
        "trans_Cast_9": ("Cast", 5),
        "MatMul": ("MatMul", 1),
        "Relu": ("Relu", 6),
        "Reshape": ("Reshape", 7),
        "Other": ("MemSet", 2),
    }
    names = [op.name for op in with_fused_ops(graph, dumped, lambda name: None, False).ops]
    assert names[names.index("trans_Cast_9") + 1] == "Relu" and "Other" not in names


def test_an_original_graph_tells_which_ops_are_fx_nodes(tmp_path):
    for form in ("txt", "pbtxt"):
        graph = load_model(torchair_graph().write_graph(str(tmp_path), form))
        assert graph.fx and graph.graph_names == ("graph_1",)
        assert (
            graph.op("Mul").originals == ("mul-aten.mul.Tensor.OUTPUT",)
            and graph.op("Const").originals == ()
        )
        assert graph.op("Add").inputs == (("MatMul", 0), ("arg2_1", 0)) and graph.op(
            "arg0_1"
        ).output_descs[0].shape == (8, 16)


def test_only_outputs_are_taken_as_fx_origins():
    assert fx_origin("add_1-aten.add.Tensor.OUTPUT.12") == ("add_1-aten.add.Tensor.OUTPUT", 12)
    assert (
        fx_origin("add_1-aten.add.Tensor.INPUT.0") is fx_origin("OUTPUT.x") is fx_origin("") is None
    )
