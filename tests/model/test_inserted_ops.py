"""Pairing of ops that the compiler inserted or quantised: casts, data transfers, constants."""

from __future__ import annotations

from pairing_rows import ABSENT, NOT, PAIR, rows_of_dump, status_by_tensor


def test_inserted_ops_pair_with_what_precedes_them(pairing, write):
    ops = [
        write.op("a"),
        write.op("pad", "PadD", ["a:0"], originals=[], outputs=[write.desc("a", 0)]),
        write.op("b", inputs=["pad:0"]),
        write.op("empty", inputs=["a:0"], originals=[""]),
        write.op("unnamed_out", inputs=["a:0"], outputs=[write.desc("")]),
    ]
    paired = pairing(ops, ["a", "b"])
    plans = rows_of_dump(paired, "pad")
    assert status_by_tensor(plans) == {
        "input:0": (ABSENT, None, None),
        "output:0": (ABSENT, None, None),
    }
    assert plans[0].golden == "*" and "inserted by the compiler" in plans[0].reason
    assert status_by_tensor(rows_of_dump(paired, "b")) == {
        "input:0": (ABSENT, None, None),
        "output:0": (PAIR, "b", 0),
    }
    assert {row[0] for row in status_by_tensor(rows_of_dump(paired, "empty")).values()} == {ABSENT}
    assert status_by_tensor(rows_of_dump(paired, "unnamed_out")) == {
        "input:0": (PAIR, "a", 0),
        "output:0": (ABSENT, None, None),
    }


def test_cast_and_transdata_pair_with_what_precedes_them(pairing, write):
    ops = [
        write.op(
            "conv",
            "Conv2D",
            outputs=[write.desc("conv/out", 2, "NHWC")],
            originals=["conv", "conv/out"],
        ),
        # The origin name of this TransData names the op behind it.
        write.op("td", "TransData", ["conv:0"], [write.desc("pool", 0, "NCHW")], originals=[]),
        write.op("ct", "Cast", ["td:0"], [write.desc("pool", 0)], originals=[]),
        write.op("own", "Cast", ["ct:0"], originals=["to_int"]),
        write.op("pool", inputs=["ct:0", "own:0", "gone:0"]),
    ]
    paired = pairing(ops, [("conv/out", 2), "pool", "to_int"])
    want = (PAIR, "conv/out", 2)
    for name in ("td", "ct"):
        plans = rows_of_dump(paired, name)
        assert status_by_tensor(plans) == {"input:0": want, "output:0": want}
        assert (
            plans[1].origin_format == "NHWC"
            and plans[1].golden == "*"
            and "conv/out:2" in plans[1].reason
        )
    assert status_by_tensor(rows_of_dump(paired, "own")) == {
        "input:0": want,
        "output:0": (PAIR, "to_int", 0),
    }
    plans = rows_of_dump(paired, "pool")
    assert status_by_tensor(plans) == {
        "input:0": want,
        "input:1": (PAIR, "to_int", 0),
        "input:2": (NOT, None, None),
        "output:0": (PAIR, "pool", 0),
    }
    assert "gone is not in the model file" in plans[2].reason
    without = pairing(ops, [("conv/out", 2), "pool"])
    assert status_by_tensor(rows_of_dump(without, "own")) == {"input:0": want, "output:0": want}
    assert status_by_tensor(rows_of_dump(without, "pool"))["input:1"] == want


def test_a_cast_inside_a_group_is_not_taken_for_the_original(pairing, write):
    ops = [
        write.op("a"),
        write.op("c", "Cast", ["a:0"], originals=["x"]),
        write.op("m", "MatMul", ["c:0"], originals=["x"]),
    ]
    paired = pairing(ops, ["a", "x"])
    assert status_by_tensor(rows_of_dump(paired, "c")) == {
        "input:0": (PAIR, "a", 0),
        "output:0": (PAIR, "a", 0),
    }
    assert status_by_tensor(rows_of_dump(paired, "m")) == {
        "input:0": (PAIR, "a", 0),
        "output:0": (PAIR, "x", 0),
    }


def test_a_fused_cast_pairs_by_its_origin_name(pairing, write):
    ops = [
        write.op("a"),
        write.op("c", "Cast", ["a:0"], [write.desc("second", 1)], originals=["first", "second"]),
    ]
    assert status_by_tensor(rows_of_dump(pairing(ops, ["a", ("second", 1)]), "c"))["output:0"] == (
        PAIR,
        "second",
        1,
    )
    assert status_by_tensor(rows_of_dump(pairing(ops, ["a", "first"]), "c"))["output:0"] == (
        PAIR,
        "a",
        0,
    )


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
    for name, text in (
        ("a", "cycle"),
        ("b", "cycle"),
        ("self", "cycle"),
        ("none", "nothing precedes"),
        ("gone", "lost, which precedes"),
    ):
        plan = rows_of_dump(paired, name)[-1]
        assert (plan.status, plan.golden) == (NOT, "*") and text in plan.reason
    assert status_by_tensor(rows_of_dump(paired, "user")) == {
        "input:0": (NOT, None, None),
        "output:0": (PAIR, "user", 0),
    }


def test_a_long_chain_of_casts_is_followed_once(pairing, write):
    ops = [write.op("c0")] + [
        write.op("c%d" % n, "Cast", ["c%d:0" % (n - 1)], originals=[]) for n in range(1, 3000)
    ]
    paired = pairing(ops, ["c0"])
    assert all(
        status_by_tensor(rows_of_dump(paired, "c%d" % n))["output:0"] == (PAIR, "c0", 0)
        for n in range(2999, 0, -1)
    )


def test_a_constant_never_pairs_as_the_op_it_was_made_for(pairing, write):
    ops = [
        write.op("const", "Const", originals=["gather"]),
        write.op("own_const", "Const", originals=["folded"]),
        write.op(
            "PartitionedCall_gather_3",
            "GatherV2",
            ["const:0", "own_const:0", "data:0", "given:0"],
            originals=["gather"],
        ),
        write.op("data", "Data"),
        write.op("given", "Data"),
    ]
    paired = pairing(ops, ["gather", "folded", "given"])
    plans = rows_of_dump(paired, "PartitionedCall_gather_3")
    assert status_by_tensor(plans) == {
        "input:0": (ABSENT, None, None),
        "input:1": (PAIR, "folded", 0),
        "input:2": (ABSENT, None, None),
        "input:3": (PAIR, "given", 0),
        "output:0": (PAIR, "gather", 0),
    }
    assert plans[0].index == 2 and plans[0].group == ("PartitionedCall_gather_3",)
    assert "const is a Const and has no golden data" in plans[0].reason
    assert [plan.golden for plan in paired.absent_rows([])][:2] == ["*", "folded"]


def test_outputs_named_by_the_parser_pair_with_their_only_original(pairing, write):
    made = write.desc("PartitionedCall_gather_2", 0)
    alone = [write.op("g", outputs=[made], originals=["gather"])]
    plan = rows_of_dump(pairing(alone, ["gather"]), "g")[0]
    assert (plan.status, plan.golden_op) == (PAIR, "gather") and "only original" in plan.reason
    plan = rows_of_dump(pairing(alone, []), "g")[0]
    assert (plan.status, plan.golden_op) == (
        NOT,
        "PartitionedCall_gather_2",
    ) and "parser made" in plan.reason
    shared = alone + [write.op("h", originals=["gather", "add"])]
    assert rows_of_dump(pairing(shared, ["gather"]), "g")[0].status == NOT
    named = [write.op("g", outputs=[write.desc("gather", 1)], originals=["gather"])]
    assert rows_of_dump(pairing(named, ["gather"]), "g")[0].status == NOT


def test_ops_of_a_quantised_part_pair_at_its_ends(pairing, write):
    ops = [
        write.op("a"),
        write.op("q", "AscendQuant", ["a:0"], originals=["q"]),
        write.op("conv", "Conv2D", ["q:0", "w:0"]),
        write.op("w", "Const"),
        write.op("td", "TransData", ["conv:0"], originals=[]),
        write.op("dq", "AscendDequant", ["td:0", "w:0"], originals=["conv_dq"]),
        write.op(
            "fused",
            "Conv2D",
            ["q:0"],
            [write.desc("c2_dequant_layer", 0)],
            originals=["c2", "c2_dequant_layer"],
        ),
        write.op("end", inputs=["dq:0"]),
    ]
    paired = pairing(ops, ["a", "q", "conv", "conv_dq", "c2_dequant_layer", "end"])
    assert status_by_tensor(rows_of_dump(paired, "q")) == {
        "input:0": (PAIR, "a", 0),
        "output:0": (ABSENT, None, None),
    }
    for name in ("conv", "td"):
        plans = rows_of_dump(paired, name)
        assert {plan.status for plan in plans} == {ABSENT} and "AscendQuant" in plans[0].reason
    left_out = (ABSENT, None, None)
    assert status_by_tensor(rows_of_dump(paired, "dq")) == {
        "input:0": left_out,
        "input:1": left_out,
        "output:0": (PAIR, "conv_dq", 0),
    }
    assert status_by_tensor(rows_of_dump(paired, "fused")) == {
        "input:0": (ABSENT, None, None),
        "output:0": (PAIR, "c2_dequant_layer", 0),
    }
    assert status_by_tensor(rows_of_dump(paired, "end")) == {
        "input:0": (PAIR, "conv_dq", 0),
        "output:0": (PAIR, "end", 0),
    }
