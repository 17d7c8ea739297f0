"""Every pairing rule on a hand-written model: the rows of one dump, by (kind, index)."""

from __future__ import annotations

import json

from pairing_rows import ABSENT, NOT, OMITTED, PAIR, rows_of_dump, status_by_tensor

from goldwatch.model import DumpedOp, Pairing, load_model
from goldwatch.model.names_by_second_model import onto_unfused
from goldwatch.model.never_dumped import DumpRequest


def test_an_op_with_one_original_pairs_with_it(pairing, write):
    ops = [
        write.op("data", "Data"),
        write.op("a/b", inputs=["data:0"]),
        write.op("c", inputs=["a/b:0"], originals=["orig/c"], id=4),
    ]
    paired = pairing(ops, ["a/b", "orig/c"])
    plans = rows_of_dump(paired, "c")
    assert status_by_tensor(plans) == {"input:0": (PAIR, "a/b", 0), "output:0": (PAIR, "orig/c", 0)}
    last = plans[1]
    assert (last.index, last.op_sequence, last.op, last.op_type, last.group, last.golden) == (
        2,
        4,
        "c",
        "Relu",
        ("c",),
        "orig/c",
    )
    assert (last.kind, last.tensor_index, last.tensor, last.golden_kind, last.reason) == (
        "output",
        0,
        "c:output:0",
        "output",
        "",
    )


def test_outputs_of_a_single_original_keep_their_number(pairing, write):
    paired = pairing([write.op("s", "Split", outputs=3)], [("s", 0), ("s", 2)])
    assert status_by_tensor(rows_of_dump(paired, "s")) == {
        "output:0": (PAIR, "s", 0),
        "output:1": (NOT, "s", 1),
        "output:2": (PAIR, "s", 2),
    }


def test_a_fused_op_pairs_by_the_origin_name_of_its_output(pairing, write):
    outputs = [write.desc("conv", 3, "NHWC", origin_shape=(1, 8)), write.desc("relu"), write.desc()]
    fused = write.op("fused", "Conv2D", outputs=outputs, originals=["conv", "bn", "conv", "relu"])
    plans = rows_of_dump(pairing([fused], [("conv", 3), ("relu", 1), "bn"]), "fused")
    assert status_by_tensor(plans) == {
        "output:0": (PAIR, "conv", 3),
        "output:1": (PAIR, "relu", 1),
        "output:2": (NOT, None, None),
    }
    assert plans[0].golden == "conv,bn,relu"
    assert (plans[0].origin_format, plans[0].origin_shape) == ("NHWC", (1, 8))
    assert plans[1].origin_format == "NCHW" and plans[1].origin_shape is None
    assert "does not say" in plans[2].reason


def test_ops_of_one_original_share_an_index_and_inner_ops_have_no_row(pairing, write):
    ops = [
        write.op("before"),
        write.op("x_1", inputs=["before:0"], originals=["x"], multi=True),
        write.op("between"),
        write.op(
            "x_2", inputs=["x_1:0"], outputs=[write.desc("x", 0)], originals=["x"], multi=True
        ),
        write.op("after", inputs=["x_1:0", "x_2:0"]),
    ]
    paired = pairing(ops, ["x", "before", "after"])
    inner = rows_of_dump(paired, "x_1")
    assert status_by_tensor(inner) == {
        "input:0": (OMITTED, None, None),
        "output:0": (OMITTED, None, None),
    }
    assert "inner op" in inner[0].reason
    plans = rows_of_dump(paired, "x_2")
    assert status_by_tensor(plans) == {"input:0": (ABSENT, None, None), "output:0": (PAIR, "x", 0)}
    assert (plans[1].index, plans[1].group, plans[1].golden) == (1, ("x_1", "x_2"), "x")
    assert status_by_tensor(rows_of_dump(paired, "after")) == {
        "input:0": (ABSENT, None, None),
        "input:1": (PAIR, "x", 0),
        "output:0": (PAIR, "after", 0),
    }
    assert [group.index for group in paired.groups] == [0, 1, 2, 3]
    assert rows_of_dump(paired, "after")[0].index == 3


def test_ops_of_a_group_that_are_no_inner_ops_get_a_reason(pairing, write):
    ops = [
        write.op("x_1", originals=["x"]),
        write.op("x_2", originals=["x"], outputs=[write.desc("x", 0)]),
    ]
    paired = pairing(ops, ["x"])
    assert status_by_tensor(rows_of_dump(paired, "x_1")) == {"output:0": (ABSENT, None, None)}
    assert "inner value of x" in rows_of_dump(paired, "x_1")[0].reason
    assert status_by_tensor(rows_of_dump(paired, "x_2")) == {"output:0": (PAIR, "x", 0)}


def test_an_output_read_only_within_its_group_is_an_inner_value(pairing, write):
    ops = [
        write.op("x_1", originals=["x"], outputs=2),
        write.op("x_2", inputs=["x_1:0"], originals=["x"]),
        write.op("y", inputs=["x_1:1", "x_2:0"]),
    ]
    paired = pairing(ops, ["x", "y"])
    assert status_by_tensor(rows_of_dump(paired, "x_1")) == {
        "output:0": (ABSENT, None, None),
        "output:1": (NOT, None, None),
    }
    # Which of the outputs that leave the group is the original's, the file does not say.
    assert status_by_tensor(rows_of_dump(paired, "x_2"))["output:0"] == (NOT, None, None)
    assert status_by_tensor(rows_of_dump(paired, "x_2"))["input:0"] == (ABSENT, None, None)


def test_outputs_missing_in_the_dump_have_rows(pairing, write):
    split = write.op(
        "split",
        "Split",
        inputs=["data:0"],
        outputs=[write.desc("split", 0), write.desc("split", 1), None],
    )
    inner = write.op("inner", originals=["z"], outputs=2, multi=True)
    paired = pairing([write.op("data", "Data"), split, inner], ["split", ("split", 1)])
    plans = rows_of_dump(paired, "split", 1, 1)
    assert status_by_tensor(plans) == {
        "input:0": (ABSENT, None, None),
        "output:0": (PAIR, "split", 0),
        "output:1": (NOT, "split", 1),
    }
    assert [plan.dumped for plan in plans] == [True, True, False]
    assert (
        plans[2].reason == "the dump lacks it: the model gives this op 3 outputs, the dump holds 1"
    )
    only_inputs = rows_of_dump(paired, "split", 1, 0)
    assert [(plan.tensor, plan.status, plan.dumped) for plan in only_inputs[1:]] == [
        ("split:output:0", ABSENT, False),
        ("split:output:1", ABSENT, False),
    ]
    assert only_inputs[1].reason == "only inputs were dumped: nothing that is dumped reads it"
    requesting_all = Pairing(
        paired.graph, lambda name, index: name == "split", request=DumpRequest(mode="all")
    )
    assert {plan.status for plan in rows_of_dump(requesting_all, "split", 1, 0)[1:]} == {NOT}
    assert [plan.tensor for plan in rows_of_dump(paired, "split", 0, 0)] == [
        "split:output:0",
        "split:output:1",
    ]
    assert {plan.status for plan in rows_of_dump(paired, "inner", 0, 1)} == {OMITTED}


def test_ops_of_a_group_that_alone_cover_a_golden_tensor_are_counted(pairing, write):
    names = ["m", "n"]
    ops = [
        write.op("p", originals=names, outputs=[write.desc("m", 0)], multi=True),
        write.op("t", "TransData", inputs=["p:0"], originals=names),
        write.op("q", originals=names, outputs=[write.desc("n", 0)], multi=True),
        write.op("r", originals=names, outputs=[write.desc("m", 0)], multi=True),
        write.op("s", originals=names, multi=True),
    ]
    paired = pairing(ops, names)
    assert [(plan.tensor, plan.status, plan.reason) for plan in paired.absent_rows(["p"])] == [
        ("q", NOT, "no dump file")
    ]
    assert [plan.tensor for plan in paired.absent_rows(["q"])] == ["p", "r"]
    assert paired.absent_rows(["p", "q"]) == []
    assert [plan.tensor for plan in paired.absent_rows([])] == ["p"]


def test_a_const_with_an_origin_name_is_compared(pairing, write):
    ops = [
        write.op("w", "Const", outputs=[write.desc("model/weights", 0)]),
        write.op("b", "Const", originals=["conv"], outputs=[write.desc("conv", 0)]),
        write.op("conv", inputs=["w:0", "b:0"]),
    ]
    paired = pairing(ops, ["model/weights", "conv"])
    # The second only bears the name of the op that it was made for.
    assert status_by_tensor(rows_of_dump(paired, "conv")) == {
        "input:0": (PAIR, "model/weights", 0),
        "input:1": (ABSENT, None, None),
        "output:0": (PAIR, "conv", 0),
    }


def test_ops_without_outputs_are_not_expected_to_dump(pairing, write):
    ops = [
        write.op("a", inputs=["clean:-1"]),
        write.op("clean", "AtomicAddrClean", outputs=0),
        write.op("unheard_of", "SomethingNew", inputs=["a:0"], outputs=0),
        write.op("taken", "Old", outputs=0),
        write.op("b", inputs=["taken:0"]),
    ]
    paired = pairing(ops, ["a", "b", "taken"])
    found = {plan.op: (plan.status, plan.reason) for plan in paired.absent_rows(["a", "b"])}
    assert found == {
        "clean": (ABSENT, "an op that only clears memory for others has no dump"),
        "unheard_of": (ABSENT, "an op without any output has no dump"),
        "taken": (NOT, "no dump file"),
    }
    # A file without any tensor says no more than no file.
    empty = {
        op: [(plan.status, plan.kind) for plan in rows_of_dump(paired, op, 0, 0)]
        for op in ("clean", "unheard_of", "taken")
    }
    assert empty == {
        "clean": [(ABSENT, "op")],
        "unheard_of": [(ABSENT, "op")],
        "taken": [(NOT, "op")],
    }
    silent = pairing(
        [write.op("a", outputs=0), write.op("b", inputs=["a:0"], outputs=0)], ["a", "b"]
    )
    assert {plan.status for plan in silent.absent_rows([])} == {NOT}


def test_several_ops_of_several_originals_form_a_group(pairing, write):
    names = ["m", "n"]
    ops = [
        write.op("p", originals=names, outputs=[write.desc("m", 0)], multi=True),
        write.op("q", originals=names, outputs=[write.desc("n", 1)], multi=True),
        write.op("other", originals=["n", "m"]),
    ]
    paired = pairing(ops, ["m", ("n", 1)])
    assert status_by_tensor(rows_of_dump(paired, "p")) == {"output:0": (PAIR, "m", 0)}
    assert status_by_tensor(rows_of_dump(paired, "q")) == {"output:0": (PAIR, "n", 1)}
    assert [(group.index, group.names) for group in paired.groups] == [
        (0, ("p", "q")),
        (1, ("other",)),
    ]
    assert rows_of_dump(paired, "q")[0].golden == "m,n"


def test_inputs_pair_by_number_with_and_without_unconnected_ones(pairing, write):
    ops = [write.op("a"), write.op("b"), write.op("op", inputs=["a:0", "", "b:0", "a:-1"])]
    paired = pairing(ops, ["a", "b", "op"])
    want_a, want_b = (PAIR, "a", 0), (PAIR, "b", 0)
    out = {"output:0": (PAIR, "op", 0)}
    assert status_by_tensor(rows_of_dump(paired, "op", 3, 1)) == {
        "input:0": want_a,
        "input:1": (ABSENT, None, None),
        "input:2": want_b,
        **out,
    }
    assert status_by_tensor(rows_of_dump(paired, "op", 2, 1)) == {
        "input:0": want_a,
        "input:1": want_b,
        **out,
    }
    assert {
        plan.status for count in (1, 4) for plan in rows_of_dump(paired, "op", count, 1)[:-1]
    } == {NOT}
    full = pairing([ops[0], ops[1], write.op("op", inputs=["a:0", "b:0"])], ["a", "b", "op"])
    assert status_by_tensor(rows_of_dump(full, "op", 3, 2)) == {
        "input:0": want_a,
        "input:1": want_b,
        "input:2": (NOT, None, None),
        "output:0": (PAIR, "op", 0),
        "output:1": (NOT, None, None),
    }


def test_dumps_that_the_model_does_not_know_get_a_reason(pairing, write):
    ops = [
        write.op("a"),
        write.op("x/y", "Relu"),
        write.op("x.y", "Abs"),
        write.op("p/q"),
        write.op("p.q"),
    ]
    paired = pairing(ops, ["a", "x/y", "x.y"])
    first = paired.rows_for(DumpedOp("new", "Conv2D", 1, 1, 1))
    again = paired.rows_for(DumpedOp("newer", "Conv2D", 1, 0, 1)) + paired.rows_for(
        DumpedOp("new", "Conv2D", 2, 0, 1)
    )
    assert [plan.index for plan in first + again] == [5, 5, 6, 5]
    assert {plan.status for plan in first + again} == {NOT} and first[
        0
    ].reason == "the op is not in the model file"
    assert (first[0].golden, first[0].op_sequence, first[0].group, first[0].op_type) == (
        "*",
        None,
        ("new",),
        "Conv2D",
    )
    by_type = paired.rows_for(DumpedOp("x_y", "Abs", 1, 0, 1))[0]
    assert (by_type.op, by_type.status) == ("x.y", PAIR)
    unclear = paired.rows_for(DumpedOp("p_q", "Relu", 1, 0, 1))[0]
    assert (
        unclear.status == NOT
        and "stands for 2 ops" in unclear.reason
        and unclear.tensor == "p_q:output:0"
    )
    piece = paired.rows_for(DumpedOp("a_lxslice2", "Relu", 1, 0, 1))[0]
    assert (piece.index, piece.tensor, piece.status) == (
        0,
        "a_lxslice2:output:0",
        NOT,
    ) and "slice 2 of a" in piece.reason
    nothing = paired.rows_for(DumpedOp("new", "Relu", 1, 0, 0))
    assert [(plan.kind, plan.tensor, plan.status) for plan in nothing] == [("op", "new", NOT)]


def test_ops_without_a_dump_get_rows_with_a_reason(pairing, write):
    no_task = {"key": "_no_task", "value": {"b": True}}
    ops = [
        write.op("data", "Data"),
        write.op("const", "Const"),
        write.op("a/b", id=2),
        write.op("missing", id=3),
        write.op("x_1", originals=["x"]),
        write.op("x_2", originals=["x"]),
        write.op("y_1", originals=["y"], multi=True),
        write.op("y_2", originals=["y"], outputs=[write.desc("y")], multi=True),
        write.op("pad", "PadD", originals=[]),
        write.op("td", "TransData", originals=[]),
        write.op("quiet", attrs=[no_task]),
        write.op("inner", originals=["z"], multi=True),
        write.op("sliced"),
        write.op("out", "NetOutput"),
        write.op("sa", "StreamActive"),
    ]
    paired = pairing(ops)
    plans = paired.absent_rows(["a_b", "x_2", "sliced_lxslice0", "unknown"])
    assert [(plan.tensor, plan.status) for plan in plans] == [
        ("data", ABSENT),
        ("const", ABSENT),
        ("missing", NOT),
        ("y_2", NOT),
        ("pad", ABSENT),
        ("td", NOT),
        ("quiet", ABSENT),
        ("inner", OMITTED),
        ("out", ABSENT),
        ("sa", ABSENT),
    ]
    assert all(plan.kind == "op" and plan.tensor_index is None and plan.reason for plan in plans)
    assert plans[3].group == ("y_1", "y_2") and plans[2].op_sequence == 3
    assert [plan.index for plan in plans] == sorted(plan.index for plan in plans)


def test_l1_fusion_groups_are_led_by_their_latest_dump(pairing, write):
    ops = [
        write.op("a", originals=["a"], l1="1"),
        write.op("b", originals=["b"], l1="1"),
        write.op("c", originals=["c"], l1="1"),
        write.op("d", originals=["d"], l1="2"),
        write.op("d2", originals=["d"], l1="2"),
        write.op("free"),
        write.op("empty", l1=""),
    ]
    paired = pairing(ops, more=[[write.op("sub", l1="1")]])
    stamps = [
        ("b", 20),
        ("a", 10),
        ("c", 30),
        ("d", 6),
        ("free", 1),
        ("d2", 5),
        ("empty", 2),
        ("sub", 3),
        ("new", 4),
    ]
    dumped = [DumpedOp(name, "Relu", stamp, 0, 1) for name, stamp in stamps]
    assert [item.op_name for item in paired.l1_selected(dumped)] == [
        "a",
        "c",
        "d",
        "free",
        "empty",
        "sub",
        "new",
    ]
    assert (
        paired.l1_group(dumped[0]) == (0, "1")
        and paired.l1_group(dumped[4]) is None
        and paired.l1_group(dumped[8]) is None
    )


def test_one_original_in_two_graphs_makes_two_groups(pairing, write):
    paired = pairing(
        [write.op("a", originals=["x"])], ["x"], more=[[write.op("b", originals=["x"])]]
    )
    assert [group.names for group in paired.groups] == [("a",), ("b",)]
    assert rows_of_dump(paired, "b")[0].graph_index == 1


def test_without_a_model_pairs_go_by_name_kind_and_index():
    paired = Pairing(
        None,
        lambda name, index: name == "a" and index == 0,
        lambda name, index: name == "a" and index < 2,
    )
    plans = paired.rows_for(DumpedOp("a", "Relu", 1, 3, 2)) + paired.rows_for(
        DumpedOp("b", "Relu", 2, 0, 1)
    )
    assert [
        (plan.tensor, plan.status, plan.golden_kind, plan.golden_index, plan.index)
        for plan in plans
    ] == [
        ("a:input:0", PAIR, "input", 0, 0),
        ("a:input:1", PAIR, "input", 1, 0),
        ("a:input:2", NOT, "input", 2, 0),
        ("a:output:0", PAIR, "output", 0, 0),
        ("a:output:1", NOT, "output", 1, 0),
        ("b:output:0", NOT, "output", 0, 1),
    ]
    assert (
        plans[0].golden == "a"
        and plans[0].op_sequence is None
        and paired.groups == ()
        and paired.absent_rows([]) == []
    )
    files = Pairing(None, lambda name, index: True)
    assert [plan.status for plan in files.rows_for(DumpedOp("a", "Relu", 1, 1, 1))] == [NOT, PAIR]


def test_what_an_unfused_build_gives_no_task_has_no_dump_there_either(write, tmp_path):
    no_task = {"key": "_no_task", "value": {"b": True}}
    graphs = []
    for name, attrs in (("fused", []), ("unfused", [no_task])):
        path = tmp_path / (name + ".json")
        ops = [write.op("a"), write.op("flat", inputs=["a:0"], originals=["flat"], attrs=attrs)]
        path.write_text(json.dumps(write.tree(ops, name="model")))
        graphs.append(load_model(str(path)))
    paired = Pairing(onto_unfused(*graphs), lambda name, index: name == "a")
    rows = {plan.tensor: plan for plan in rows_of_dump(paired, "flat", 1, 1)}
    assert rows["flat:input:0"].status == PAIR
    assert rows["flat:output:0"].status == ABSENT
