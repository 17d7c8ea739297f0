"""Every pairing rule on a hand-written model: the rows of one dump, by (kind, index)."""

from __future__ import annotations

import pytest

from goldwatch.model import DumpedOp, Pairing

PAIR, NOT, ABSENT, OMITTED = "pair", "not_compared", "expected_absent", "omitted"


@pytest.fixture
def pairing(load):
    def _pairing(ops, golden=(), more=()):
        known = {(name, 0) if isinstance(name, str) else name for name in golden}
        return Pairing(load(ops, *more), lambda name, index: (name, index) in known)

    return _pairing


def rows(pairing, op, n_inputs=None, n_outputs=None, op_type=None, stamp=1):
    node = pairing.graph.op(op)
    n_inputs = len(node.inputs) if n_inputs is None else n_inputs
    n_outputs = len(node.output_descs) if n_outputs is None else n_outputs
    return pairing.rows_for(DumpedOp(op.replace("/", "_"), op_type or node.type, stamp, n_inputs, n_outputs))


def brief(plans):
    """``{"input:0": (status, golden op, golden index)}``."""
    return {plan.tensor[len(plan.op) + 1 :] or "op": (plan.status, plan.golden_op, plan.golden_index) for plan in plans}


def test_one_to_one(pairing, write):
    ops = [write.op("data", "Data"), write.op("a/b", inputs=["data:0"]), write.op("c", inputs=["a/b:0"], originals=["orig/c"], id=4)]
    paired = pairing(ops, ["a/b", "orig/c"])
    plans = rows(paired, "c")
    assert brief(plans) == {"input:0": (PAIR, "a/b", 0), "output:0": (PAIR, "orig/c", 0)}
    last = plans[1]
    assert (last.index, last.op_sequence, last.op, last.op_type, last.group, last.golden) == (2, 4, "c", "Relu", ("c",), "orig/c")
    assert (last.kind, last.tensor_index, last.tensor, last.golden_kind, last.reason) == ("output", 0, "c:output:0", "output", "")


def test_every_output_of_a_single_original_keeps_its_number(pairing, write):
    paired = pairing([write.op("s", "Split", outputs=3)], [("s", 0), ("s", 2)])
    assert brief(rows(paired, "s")) == {"output:0": (PAIR, "s", 0), "output:1": (NOT, "s", 1), "output:2": (PAIR, "s", 2)}


def test_many_to_one_reads_only_the_origin_name(pairing, write):
    outputs = [write.desc("conv", 3, "NHWC", origin_shape=(1, 8)), write.desc("relu"), write.desc()]
    fused = write.op("fused", "Conv2D", outputs=outputs, originals=["conv", "bn", "conv", "relu"])
    plans = rows(pairing([fused], [("conv", 3), ("relu", 1), "bn"]), "fused")
    assert brief(plans) == {"output:0": (PAIR, "conv", 3), "output:1": (PAIR, "relu", 1), "output:2": (NOT, None, None)}
    assert plans[0].golden == "conv,bn,relu"
    assert (plans[0].origin_format, plans[0].origin_shape) == ("NHWC", (1, 8))
    assert plans[1].origin_format == "NCHW" and plans[1].origin_shape is None
    assert "does not say" in plans[2].reason


def test_one_to_many_shares_an_index_and_inner_ops_have_no_row(pairing, write):
    ops = [
        write.op("before"),
        write.op("x_1", inputs=["before:0"], originals=["x"], multi=True),
        write.op("between"),
        write.op("x_2", inputs=["x_1:0"], outputs=[write.desc("x", 0)], originals=["x"], multi=True),
        write.op("after", inputs=["x_1:0", "x_2:0"]),
    ]
    paired = pairing(ops, ["x", "before", "after"])
    inner = rows(paired, "x_1")
    assert brief(inner) == {"input:0": (OMITTED, None, None), "output:0": (OMITTED, None, None)}
    assert "inner op" in inner[0].reason
    plans = rows(paired, "x_2")
    assert brief(plans) == {"input:0": (ABSENT, None, None), "output:0": (PAIR, "x", 0)}
    assert (plans[1].index, plans[1].group, plans[1].golden) == (1, ("x_1", "x_2"), "x")
    assert brief(rows(paired, "after")) == {"input:0": (ABSENT, None, None), "input:1": (PAIR, "x", 0), "output:0": (PAIR, "after", 0)}
    assert [group.index for group in paired.groups] == [0, 1, 2, 3]
    assert rows(paired, "after")[0].index == 3


def test_members_of_a_group_that_are_no_inner_ops_get_a_reason(pairing, write):
    ops = [write.op("x_1", originals=["x"]), write.op("x_2", originals=["x"], outputs=[write.desc("x", 0)])]
    paired = pairing(ops, ["x"])
    assert brief(rows(paired, "x_1")) == {"output:0": (ABSENT, None, None)}
    assert "inner value of x" in rows(paired, "x_1")[0].reason
    assert brief(rows(paired, "x_2")) == {"output:0": (PAIR, "x", 0)}


def test_an_output_that_only_its_own_group_takes_is_an_inner_value(pairing, write):
    ops = [
        write.op("x_1", originals=["x"], outputs=2),
        write.op("x_2", inputs=["x_1:0"], originals=["x"]),
        write.op("y", inputs=["x_1:1", "x_2:0"]),
    ]
    paired = pairing(ops, ["x", "y"])
    assert brief(rows(paired, "x_1")) == {"output:0": (ABSENT, None, None), "output:1": (NOT, None, None)}
    # Which of the outputs that leave the group is the original's, the file does not say.
    assert brief(rows(paired, "x_2"))["output:0"] == (NOT, None, None)
    assert brief(rows(paired, "x_2"))["input:0"] == (ABSENT, None, None)


def test_outputs_that_the_dump_lacks_have_rows(pairing, write):
    split = write.op("split", "Split", inputs=["data:0"], outputs=[write.desc("split", 0), write.desc("split", 1), None])
    inner = write.op("inner", originals=["z"], outputs=2, multi=True)
    paired = pairing([write.op("data", "Data"), split, inner], ["split", ("split", 1)])
    plans = rows(paired, "split", 1, 1)
    assert brief(plans) == {"input:0": (ABSENT, None, None), "output:0": (PAIR, "split", 0), "output:1": (NOT, "split", 1)}
    assert [plan.dumped for plan in plans] == [True, True, False]
    assert plans[2].reason == "the dump lacks it: the model gives this op 3 outputs, the dump holds 1"
    only_inputs = rows(paired, "split", 1, 0)
    assert [(plan.tensor, plan.status, plan.dumped) for plan in only_inputs[1:]] == [
        ("split:output:0", NOT, False),
        ("split:output:1", NOT, False),
    ]
    assert [plan.tensor for plan in rows(paired, "split", 0, 0)] == ["split:output:0", "split:output:1"]
    assert {plan.status for plan in rows(paired, "inner", 0, 1)} == {OMITTED}


def test_members_of_a_group_whose_golden_nothing_else_covers_are_counted(pairing, write):
    names = ["m", "n"]
    ops = [
        write.op("p", originals=names, outputs=[write.desc("m", 0)], multi=True),
        write.op("t", "TransData", inputs=["p:0"], originals=names),
        write.op("q", originals=names, outputs=[write.desc("n", 0)], multi=True),
        write.op("r", originals=names, outputs=[write.desc("m", 0)], multi=True),
        write.op("s", originals=names, multi=True),
    ]
    paired = pairing(ops, names)
    assert [(plan.tensor, plan.status, plan.reason) for plan in paired.absent_rows(["p"])] == [("q", NOT, "no dump file")]
    assert [plan.tensor for plan in paired.absent_rows(["q"])] == ["p", "r"]
    assert paired.absent_rows(["p", "q"]) == []
    assert [plan.tensor for plan in paired.absent_rows([])] == ["p"]


def test_a_const_with_an_origin_name_of_its_own_is_compared(pairing, write):
    ops = [
        write.op("w", "Const", outputs=[write.desc("model/weights", 0)]),
        write.op("b", "Const", originals=["conv"], outputs=[write.desc("conv", 0)]),
        write.op("conv", inputs=["w:0", "b:0"]),
    ]
    paired = pairing(ops, ["model/weights", "conv"])
    # The second only bears the name of the op that it was made for.
    assert brief(rows(paired, "conv")) == {
        "input:0": (PAIR, "model/weights", 0),
        "input:1": (ABSENT, None, None),
        "output:0": (PAIR, "conv", 0),
    }


def test_ops_without_outputs_never_dump(pairing, write):
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
    empty = {op: [(plan.status, plan.kind) for plan in rows(paired, op, 0, 0)] for op in ("clean", "unheard_of", "taken")}
    assert empty == {"clean": [(ABSENT, "op")], "unheard_of": [(ABSENT, "op")], "taken": [(NOT, "op")]}
    silent = pairing([write.op("a", outputs=0), write.op("b", inputs=["a:0"], outputs=0)], ["a", "b"])
    assert {plan.status for plan in silent.absent_rows([])} == {NOT}


def test_many_to_many(pairing, write):
    names = ["m", "n"]
    ops = [
        write.op("p", originals=names, outputs=[write.desc("m", 0)], multi=True),
        write.op("q", originals=names, outputs=[write.desc("n", 1)], multi=True),
        write.op("other", originals=["n", "m"]),
    ]
    paired = pairing(ops, ["m", ("n", 1)])
    assert brief(rows(paired, "p")) == {"output:0": (PAIR, "m", 0)}
    assert brief(rows(paired, "q")) == {"output:0": (PAIR, "n", 1)}
    assert [(group.index, group.names) for group in paired.groups] == [(0, ("p", "q")), (1, ("other",))]
    assert rows(paired, "q")[0].golden == "m,n"


def test_inserted_ops(pairing, write):
    ops = [
        write.op("a"),
        write.op("pad", "PadD", ["a:0"], originals=[], outputs=[write.desc("a", 0)]),
        write.op("b", inputs=["pad:0"]),
        write.op("empty", inputs=["a:0"], originals=[""]),
        write.op("unnamed_out", inputs=["a:0"], outputs=[write.desc("")]),
    ]
    paired = pairing(ops, ["a", "b"])
    plans = rows(paired, "pad")
    assert brief(plans) == {"input:0": (ABSENT, None, None), "output:0": (ABSENT, None, None)}
    assert plans[0].golden == "*" and "inserted by the compiler" in plans[0].reason
    assert brief(rows(paired, "b")) == {"input:0": (ABSENT, None, None), "output:0": (PAIR, "b", 0)}
    assert {row[0] for row in brief(rows(paired, "empty")).values()} == {ABSENT}
    assert brief(rows(paired, "unnamed_out")) == {"input:0": (PAIR, "a", 0), "output:0": (ABSENT, None, None)}


def test_inputs_and_rows_of_cast_and_transdata_follow_what_precedes(pairing, write):
    ops = [
        write.op("conv", "Conv2D", outputs=[write.desc("conv/out", 2, "NHWC")], originals=["conv", "conv/out"]),
        # The origin name of this TransData names the op behind it.
        write.op("td", "TransData", ["conv:0"], [write.desc("pool", 0, "NCHW")], originals=[]),
        write.op("ct", "Cast", ["td:0"], [write.desc("pool", 0)], originals=[]),
        write.op("own", "Cast", ["ct:0"], originals=["to_int"]),
        write.op("pool", inputs=["ct:0", "own:0", "gone:0"]),
    ]
    paired = pairing(ops, [("conv/out", 2), "pool", "to_int"])
    want = (PAIR, "conv/out", 2)
    for name in ("td", "ct"):
        plans = rows(paired, name)
        assert brief(plans) == {"input:0": want, "output:0": want}
        assert plans[1].origin_format == "NHWC" and plans[1].golden == "*" and "conv/out:2" in plans[1].reason
    assert brief(rows(paired, "own")) == {"input:0": want, "output:0": (PAIR, "to_int", 0)}
    plans = rows(paired, "pool")
    assert brief(plans) == {"input:0": want, "input:1": (PAIR, "to_int", 0), "input:2": (NOT, None, None), "output:0": (PAIR, "pool", 0)}
    assert "gone is not in the model file" in plans[2].reason
    without = pairing(ops, [("conv/out", 2), "pool"])
    assert brief(rows(without, "own")) == {"input:0": want, "output:0": want}
    assert brief(rows(without, "pool"))["input:1"] == want


def test_a_cast_inside_a_group_is_not_taken_for_the_original(pairing, write):
    ops = [write.op("a"), write.op("c", "Cast", ["a:0"], originals=["x"]), write.op("m", "MatMul", ["c:0"], originals=["x"])]
    paired = pairing(ops, ["a", "x"])
    assert brief(rows(paired, "c")) == {"input:0": (PAIR, "a", 0), "output:0": (PAIR, "a", 0)}
    assert brief(rows(paired, "m")) == {"input:0": (PAIR, "a", 0), "output:0": (PAIR, "x", 0)}


def test_a_fused_cast_pairs_by_its_origin_name(pairing, write):
    ops = [write.op("a"), write.op("c", "Cast", ["a:0"], [write.desc("second", 1)], originals=["first", "second"])]
    assert brief(rows(pairing(ops, ["a", ("second", 1)]), "c"))["output:0"] == (PAIR, "second", 1)
    assert brief(rows(pairing(ops, ["a", "first"]), "c"))["output:0"] == (PAIR, "a", 0)


def test_cycles_among_casts_end(pairing, write):
    ops = [
        write.op("a", "Cast", ["b:0"], originals=[]),
        write.op("b", "TransData", ["a:0"], originals=[]),
        write.op("self", "Cast", ["self:0"], originals=[]),
        write.op("none", "Cast", originals=[]),
        write.op("gone", "Cast", ["lost:0"], originals=[]),
        write.op("user", inputs=["a:0"]),
    ]
    paired = pairing(ops, ["user"])
    for name, text in (("a", "cycle"), ("b", "cycle"), ("self", "cycle"), ("none", "nothing precedes"), ("gone", "lost, which precedes")):
        plan = rows(paired, name)[-1]
        assert (plan.status, plan.golden) == (NOT, "*") and text in plan.reason
    assert brief(rows(paired, "user")) == {"input:0": (NOT, None, None), "output:0": (PAIR, "user", 0)}


def test_a_long_chain_of_casts_is_walked_once(pairing, write):
    ops = [write.op("c0")] + [write.op("c%d" % n, "Cast", ["c%d:0" % (n - 1)], originals=[]) for n in range(1, 3000)]
    paired = pairing(ops, ["c0"])
    assert all(brief(rows(paired, "c%d" % n))["output:0"] == (PAIR, "c0", 0) for n in range(2999, 0, -1))


def test_a_constant_neither_counts_nor_pairs_as_the_op_it_was_made_for(pairing, write):
    ops = [
        write.op("const", "Const", originals=["gather"]),
        write.op("own_const", "Const", originals=["folded"]),
        write.op("PartitionedCall_gather_3", "GatherV2", ["const:0", "own_const:0", "data:0", "given:0"], originals=["gather"]),
        write.op("data", "Data"),
        write.op("given", "Data"),
    ]
    paired = pairing(ops, ["gather", "folded", "given"])
    plans = rows(paired, "PartitionedCall_gather_3")
    assert brief(plans) == {
        "input:0": (ABSENT, None, None),
        "input:1": (PAIR, "folded", 0),
        "input:2": (ABSENT, None, None),
        "input:3": (PAIR, "given", 0),
        "output:0": (PAIR, "gather", 0),
    }
    assert plans[0].index == 2 and plans[0].group == ("PartitionedCall_gather_3",)
    assert "const is a Const and has no golden data" in plans[0].reason
    assert [plan.golden for plan in paired.absent_rows([])][:2] == ["*", "folded"]


def test_names_that_the_parser_made(pairing, write):
    made = write.desc("PartitionedCall_gather_2", 0)
    alone = [write.op("g", outputs=[made], originals=["gather"])]
    plan = rows(pairing(alone, ["gather"]), "g")[0]
    assert (plan.status, plan.golden_op) == (PAIR, "gather") and "only original" in plan.reason
    plan = rows(pairing(alone, []), "g")[0]
    assert (plan.status, plan.golden_op) == (NOT, "PartitionedCall_gather_2") and "parser made" in plan.reason
    shared = alone + [write.op("h", originals=["gather", "add"])]
    assert rows(pairing(shared, ["gather"]), "g")[0].status == NOT
    named = [write.op("g", outputs=[write.desc("gather", 1)], originals=["gather"])]
    assert rows(pairing(named, ["gather"]), "g")[0].status == NOT


def test_quantised_stretches(pairing, write):
    ops = [
        write.op("a"),
        write.op("q", "AscendQuant", ["a:0"], originals=["q"]),
        write.op("conv", "Conv2D", ["q:0", "w:0"]),
        write.op("w", "Const"),
        write.op("td", "TransData", ["conv:0"], originals=[]),
        write.op("dq", "AscendDequant", ["td:0", "w:0"], originals=["conv_dq"]),
        write.op("fused", "Conv2D", ["q:0"], [write.desc("c2_dequant_layer", 0)], originals=["c2", "c2_dequant_layer"]),
        write.op("end", inputs=["dq:0"]),
    ]
    paired = pairing(ops, ["a", "q", "conv", "conv_dq", "c2_dequant_layer", "end"])
    assert brief(rows(paired, "q")) == {"input:0": (PAIR, "a", 0), "output:0": (ABSENT, None, None)}
    for name in ("conv", "td"):
        plans = rows(paired, name)
        assert {plan.status for plan in plans} == {ABSENT} and "AscendQuant" in plans[0].reason
    left_out = (ABSENT, None, None)
    assert brief(rows(paired, "dq")) == {"input:0": left_out, "input:1": left_out, "output:0": (PAIR, "conv_dq", 0)}
    assert brief(rows(paired, "fused")) == {"input:0": (ABSENT, None, None), "output:0": (PAIR, "c2_dequant_layer", 0)}
    assert brief(rows(paired, "end")) == {"input:0": (PAIR, "conv_dq", 0), "output:0": (PAIR, "end", 0)}


def test_inputs_by_number_with_and_without_unconnected_ones(pairing, write):
    ops = [write.op("a"), write.op("b"), write.op("op", inputs=["a:0", "", "b:0", "a:-1"])]
    paired = pairing(ops, ["a", "b", "op"])
    want_a, want_b = (PAIR, "a", 0), (PAIR, "b", 0)
    out = {"output:0": (PAIR, "op", 0)}
    assert brief(rows(paired, "op", 3, 1)) == {"input:0": want_a, "input:1": (ABSENT, None, None), "input:2": want_b, **out}
    assert brief(rows(paired, "op", 2, 1)) == {"input:0": want_a, "input:1": want_b, **out}
    assert {plan.status for plan in rows(paired, "op", 1, 0) + rows(paired, "op", 4, 0)} == {NOT}
    full = pairing([ops[0], ops[1], write.op("op", inputs=["a:0", "b:0"])], ["a", "b", "op"])
    assert brief(rows(full, "op", 3, 2)) == {
        "input:0": want_a,
        "input:1": want_b,
        "input:2": (NOT, None, None),
        "output:0": (PAIR, "op", 0),
        "output:1": (NOT, None, None),
    }


def test_dumps_that_the_model_does_not_know(pairing, write):
    ops = [write.op("a"), write.op("x/y", "Relu"), write.op("x.y", "Abs"), write.op("p/q"), write.op("p.q")]
    paired = pairing(ops, ["a", "x/y", "x.y"])
    first = paired.rows_for(DumpedOp("new", "Conv2D", 1, 1, 1))
    again = paired.rows_for(DumpedOp("newer", "Conv2D", 1, 0, 1)) + paired.rows_for(DumpedOp("new", "Conv2D", 2, 0, 1))
    assert [plan.index for plan in first + again] == [5, 5, 6, 5]
    assert {plan.status for plan in first + again} == {NOT} and first[0].reason == "the op is not in the model file"
    assert (first[0].golden, first[0].op_sequence, first[0].group, first[0].op_type) == ("*", None, ("new",), "Conv2D")
    by_type = paired.rows_for(DumpedOp("x_y", "Abs", 1, 0, 1))[0]
    assert (by_type.op, by_type.status) == ("x.y", PAIR)
    unclear = paired.rows_for(DumpedOp("p_q", "Relu", 1, 0, 1))[0]
    assert unclear.status == NOT and "stands for 2 ops" in unclear.reason and unclear.tensor == "p_q:output:0"
    piece = paired.rows_for(DumpedOp("a_lxslice2", "Relu", 1, 0, 1))[0]
    assert (piece.index, piece.tensor, piece.status) == (0, "a_lxslice2:output:0", NOT) and "slice 2 of a" in piece.reason
    nothing = paired.rows_for(DumpedOp("new", "Relu", 1, 0, 0))
    assert [(plan.kind, plan.tensor, plan.status) for plan in nothing] == [("op", "new", NOT)]


def test_ops_without_a_dump(pairing, write):
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


def test_l1_groups_keep_the_latest_and_an_earliest_of_other_originals(pairing, write):
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
    stamps = [("b", 20), ("a", 10), ("c", 30), ("d", 6), ("free", 1), ("d2", 5), ("empty", 2), ("sub", 3), ("new", 4)]
    dumped = [DumpedOp(name, "Relu", stamp, 0, 1) for name, stamp in stamps]
    assert [item.op_name for item in paired.l1_selected(dumped)] == ["a", "c", "d", "free", "empty", "sub", "new"]
    assert paired.l1_group(dumped[0]) == (0, "1") and paired.l1_group(dumped[4]) is None and paired.l1_group(dumped[8]) is None


def test_the_same_original_in_two_graphs_is_two_groups(pairing, write):
    paired = pairing([write.op("a", originals=["x"])], ["x"], more=[[write.op("b", originals=["x"])]])
    assert [group.names for group in paired.groups] == [("a",), ("b",)]
    assert rows(paired, "b")[0].graph_index == 1


def test_without_a_model_pairs_go_by_name_kind_and_index():
    paired = Pairing(None, lambda name, index: name == "a" and index == 0, lambda name, index: name == "a" and index < 2)
    plans = paired.rows_for(DumpedOp("a", "Relu", 1, 3, 2)) + paired.rows_for(DumpedOp("b", "Relu", 2, 0, 1))
    assert [(plan.tensor, plan.status, plan.golden_kind, plan.golden_index, plan.index) for plan in plans] == [
        ("a:input:0", PAIR, "input", 0, 0),
        ("a:input:1", PAIR, "input", 1, 0),
        ("a:input:2", NOT, "input", 2, 0),
        ("a:output:0", PAIR, "output", 0, 0),
        ("a:output:1", NOT, "output", 1, 0),
        ("b:output:0", NOT, "output", 0, 1),
    ]
    assert plans[0].golden == "a" and plans[0].op_sequence is None and paired.groups == () and paired.absent_rows([]) == []
    files = Pairing(None, lambda name, index: True)
    assert [plan.status for plan in files.rows_for(DumpedOp("a", "Relu", 1, 1, 1))] == [NOT, PAIR]
