"""Ops without a dump that did not run, never dump, or were not requested."""

from __future__ import annotations

import json

import pytest
from pairing_rows import ABSENT, NOT

from goldwatch.model import Pairing, load_model
from goldwatch.model.absent_ops import largest_of_one_run, run_condition
from goldwatch.model.never_dumped import DumpRequest, no_dump_reason


def flag(key, value):
    return {"key": key, "value": {"b": value}}


def text(key, value):
    return {"key": key, "value": {"s": value}}


@pytest.fixture
def model(write, tmp_path):
    """Load graphs by their names, from the json and from the text form: both say the same."""

    def _model(graphs):
        tree = {"name": "m", "graph": [{"name": name, "op": ops} for name, ops in graphs.items()]}
        (tmp_path / "m.json").write_text(json.dumps(tree))
        (tmp_path / "m.txt").write_text(write.text({"graph": tree["graph"]}))
        found = [load_model(str(tmp_path / name)) for name in ("m.json", "m.txt")]
        assert found[0].ops == found[1].ops
        return found[0]

    return _model


def absent(graph, *dumped, request=None):
    """Of each op without a dump that has a row: the row's status and reason."""
    more = {} if request is None else {"request": request}
    plans = Pairing(graph, lambda name, index: True, **more).absent_rows(dumped)
    return {plan.op: (plan.status, plan.reason) for plan in plans}


def gears(write, how):
    """Three gears of one op, told by a label, by the ops' names, by the graphs' names or by the op
    that runs them.
    """
    graphs = {
        "net": [
            write.op("x", "Data"),
            write.op("case", "Case", inputs=["x:0"]),
            write.op("last", inputs=["case:0"]),
        ]
    }
    for number in range(3):
        name = "fc_ascend_mbatch_batch_%d" % number if how == "op" else "fc%d" % number
        attrs = [text("_batch_label", "Batch_%d" % number)] if how == "label" else []
        ops = [write.op(name, "MatMulV2", originals=["fc"], attrs=attrs)]
        if how == "label":
            graphs["net"] += ops
        else:
            graphs["net_Batch_%d" % number if how in ("graph", "owner") else "sub%d" % number] = ops
    if how == "owner":
        graphs["net"][1]["subgraph_name"] = [name for name in graphs if name != "net"]
    return graphs


@pytest.mark.parametrize("how", ["label", "op", "graph", "owner"])
def test_ops_of_gears_that_did_not_run_are_absent_as_expected(model, write, how) -> None:
    graph = model(gears(write, how))
    names = [op.name for op in graph.ops if op.type == "MatMulV2"]
    found = absent(graph, "last", names[1])
    assert found[names[0]] == (ABSENT, "gear Batch_0 did not run: Batch_1 did")
    assert found[names[2]][0] == ABSENT and names[1] not in found
    # Two gears that ran both have rows; where none did, one is missing.
    assert names[0] not in absent(graph, "last", *names[:2])
    none = "no dump file: no gear ran (the model has Batch_0, Batch_1, Batch_2)"
    assert {absent(graph, "last")[name] for name in names} == {(NOT, none)}
    assert {absent(graph)[name] for name in names} == {(NOT, "no dump file")}


def test_a_missing_op_of_a_gear_that_ran_is_not_excused(model, write) -> None:
    graphs = gears(write, "graph")
    graphs["net_Batch_1"].append(write.op("relu1", inputs=["fc1:0"]))
    assert absent(model(graphs), "last", "fc1")["relu1"] == (NOT, "no dump file")


def conditional(write, kind="If", empty=False):
    then = [write.op("a", "Data"), write.op("b", inputs=["a:0"])]
    other = [write.op("c", "Data")] + ([] if empty else [write.op("d", inputs=["c:0"])])
    owner = write.op("if1", kind, inputs=["x:0"])
    owner["subgraph_name"] = ["then", "else"]
    return {
        "net": [write.op("x", "Data"), owner, write.op("y", inputs=["if1:0"])],
        "then": then,
        "else": other,
    }


@pytest.mark.parametrize("kind", ["If", "Case"])
def test_ops_of_a_branch_that_was_not_taken_are_absent_as_expected(model, write, kind) -> None:
    graph = model(conditional(write, kind))
    assert absent(graph, "y", "d")["b"] == (ABSENT, "this branch of if1 (%s) was not taken" % kind)
    assert absent(graph, "y", "b")["d"][0] == ABSENT
    assert absent(graph, "y")["b"] == absent(graph, "y")["d"] == (NOT, "no dump file")


def test_ops_of_a_branch_that_only_their_names_tell_are_absent_as_expected(model, write) -> None:
    """The names that GE's ONNX parser makes, in one graph."""
    inner = "m/If_2_0_then_branch/If_3"
    names = ["m/If_2_0_then_branch/a", inner + "_0_then_branch/b", inner + "_1_else_branch/c"]
    graph = model({"net": [write.op(name) for name in [*names, "m/If_2_1_else_branch/d", "y"]]})
    assert absent(graph, "y", names[0], names[2]) == {
        names[1]: (ABSENT, "this branch of %s (If) was not taken" % inner),
        "m/If_2_1_else_branch/d": (ABSENT, "this branch of m/If_2 (If) was not taken"),
    }
    not_taken = (ABSENT, "this branch of m/If_2 (If) was not taken")
    assert absent(graph, "y", "m/If_2_1_else_branch/d") == dict.fromkeys(names, not_taken)
    assert {status for status, _ in absent(graph, "y").values()} == {NOT}
    assert run_condition(graph, graph.op(names[0])) == (
        "the branch m/If_2_0_then_branch of m/If_2 (If) is taken"
    )


def test_a_branch_that_only_original_names_tell_holds_what_was_inserted(model, write) -> None:
    """The names that GE's TensorFlow parser makes, in one graph, and ops of the compiler there."""
    then, other = "cond0cond_true_120/", "cond1cond_false_131/"
    ops = [
        write.op("x"),
        write.op("trans_Cast_1", "Cast", inputs=["x:0"], originals=[]),
        write.op(then + "a", inputs=["trans_Cast_1:0"], originals=["cond/then_branch/a"]),
        write.op("trans_Cast_2", "Cast", inputs=[then + "a:0"], originals=[]),
        write.op(other + "b", inputs=["x:0"], originals=["cond/else_branch/b"]),
        write.op("trans_Cast_3", "Cast", inputs=["x:0"], originals=[]),
        write.op("y", inputs=["trans_Cast_3:0"]),
    ]
    graph = model({"net": ops})
    not_taken = (ABSENT, "this branch of cond (If) was not taken")
    assert absent(graph, "x", "y", "trans_Cast_3", other + "b") == dict.fromkeys(
        ["trans_Cast_1", then + "a", "trans_Cast_2"], not_taken
    )
    # Of a branch that was taken all are missed, and what lies outside is always missed.
    assert absent(graph, "x", "y", then + "a") == {
        "trans_Cast_1": (NOT, "no dump file"),
        "trans_Cast_2": (NOT, "no dump file"),
        "trans_Cast_3": (NOT, "no dump file"),
        other + "b": not_taken,
    }


def test_the_branch_of_a_case_that_original_names_tell_may_not_have_run(model, write) -> None:
    names = ["case%dbranch_f%d/a" % (number, number) for number in range(3)]
    ops = [
        write.op(name, originals=["case/branches%d/a" % number])
        for number, name in enumerate(names)
    ]
    graph = model({"net": [*ops, write.op("y")]})
    not_taken = (ABSENT, "this branch of case (Case) was not taken")
    assert absent(graph, "y", names[1]) == {names[0]: not_taken, names[2]: not_taken}


def switched(write, streams, passing=False):
    """A conditional of TensorFlow's older kind, as it is written or as GE runs it: a branch of two
    ops, and one of one op or of none, and a conditional within the first.
    """
    if streams:
        head = [write.op("s", "StreamSwitch", inputs=["p:0"]),
                write.op("t", "StreamActive", inputs=["s:-1"])]  # fmt: skip
        then, other, merge = ["x:0", "t:-1"], ["x:0", "s:-1"], "StreamMerge"
    else:
        head = [write.op("s", "Switch", inputs=["x:0", "p:0"])]
        then, other, merge = ["s:1"], ["s:0"], "Merge"
    ops = [write.op("x"), write.op("p"), *head, write.op("a", inputs=then)]
    if streams:
        ops += [write.op("s2", "StreamSwitch", inputs=["p:0", "a:-1"])]
        inner = [["a:0", "s2:-1"], ["a:0", "s2:-1"]]
    else:
        ops += [write.op("s2", "Switch", inputs=["a:0", "p:0"])]
        inner = [["s2:0"], ["s2:1"]]
    ops += [write.op("b", inputs=inner[0]), write.op("c", inputs=inner[1])]
    ops += [write.op("m2", merge, inputs=["b:0", "c:0"])]
    ops += [] if passing else [write.op("d", inputs=other)]
    last = "s:0" if passing else "d:0"
    ops += [write.op("m", merge, inputs=["m2:0", last]), write.op("y", inputs=["m:0"])]
    return {"net": ops}


@pytest.mark.parametrize("streams", [False, True])
def test_ops_between_a_switch_and_a_merge_that_was_fed_by_the_other_branch(
    model, write, streams
) -> None:
    graph = model(switched(write, streams))
    kind = "StreamMerge" if streams else "Merge"
    always = ("x", "p", "y") if streams else ("x", "p", "s", "m", "y")
    of_m, of_m2 = (
        (ABSENT, "this branch of %s (%s) was not taken" % (name, kind)) for name in ("m", "m2")
    )
    found = absent(graph, *always, "d")
    assert {name: found[name] for name in "abc"} == dict.fromkeys("abc", of_m)
    found = absent(graph, *always, "a", "c", *([] if streams else ["s2", "m2"]))
    assert (found["b"], found["d"]) == (of_m2, of_m)
    # What stands before is missed, and so is what the branch that was taken lacks.
    found = absent(graph, "p", *always[2:], "c")
    assert (found["x"], found["a"]) == ((NOT, "no dump file"),) * 2


def test_a_switch_whose_other_branch_hands_the_value_on(model, write) -> None:
    graph = model(switched(write, False, passing=True))
    found = absent(graph, "x", "p", "s", "m", "y")
    assert found["a"] == (ABSENT, "no branch of m (Merge) that dumps was taken")
    assert "a" not in absent(graph, "x", "p", "s", "s2", "a", "b", "m2", "m", "y")


def test_the_merge_of_a_loop_joins_no_branches(model, write) -> None:
    ops = [
        write.op("x"), write.op("e", "Enter", inputs=["x:0"]),
        write.op("m", "Merge", inputs=["e:0", "n:0"]), write.op("p", inputs=["m:0"]),
        write.op("s", "Switch", inputs=["m:0", "p:0"]), write.op("body", inputs=["s:1"]),
        write.op("n", "NextIteration", inputs=["body:0"]),
        write.op("q", "Exit", inputs=["s:0"]), write.op("y", inputs=["q:0"]),
    ]  # fmt: skip
    assert absent(model({"net": ops}), "x", "p", "y")["body"] == (NOT, "no dump file")


@pytest.mark.parametrize("kind", ["IteratorV2", "Iterator", "GetNext"])
def test_what_hands_out_training_data_need_not_be_dumped(model, write, kind) -> None:
    graph = model({"net": [write.op("next", kind), write.op("y", inputs=["next:0"])]})
    reason = "an op that hands out training data may run on the host, so it may have no dump"
    assert absent(graph, "y") == {"next": (ABSENT, reason)}
    assert absent(graph, "next", "y") == {}


def test_a_branch_that_dumps_nothing_may_have_been_taken(model, write) -> None:
    graph = model(conditional(write, empty=True))
    assert absent(graph, "y")["b"] == (ABSENT, "no branch of if1 (If) that dumps was taken")


def test_a_branch_within_a_branch_that_was_not_taken_is_absent_as_expected(model, write) -> None:
    graphs = conditional(write)
    inner = write.op("if2", "If", inputs=["a:0"])
    inner["subgraph_name"] = ["in", "out"]
    graphs["then"].append(inner)
    graphs.update({"in": [write.op("e")], "out": [write.op("f")]})
    graph = model(graphs)
    assert absent(graph, "y", "d")["e"] == (ABSENT, "this branch of if1 (If) was not taken")
    # One of them was taken where the branch around them was, which an op within tells too.
    assert absent(graph, "y", "b")["e"] == (NOT, "no dump file")
    assert absent(graph, "y", "e")["f"] == (ABSENT, "this branch of if2 (If) was not taken")
    assert absent(graph, "y", "e")["d"][0] == ABSENT and absent(graph, "y", "e")["b"][0] == NOT


def loop(write):
    owner = write.op("while1", "While", inputs=["x:0"])
    owner["subgraph_name"] = ["cond", "body"]
    graphs = {"net": [write.op("x", "Data"), owner, write.op("y", inputs=["while1:0"])]}
    return {**graphs, "cond": [write.op("less")], "body": [write.op("add")]}


def test_the_body_of_a_loop_that_ran_no_round_is_absent_as_expected(model, write) -> None:
    graph = model(loop(write))
    assert absent(graph, "y", "less")["add"] == (ABSENT, "the body of while1 (While) ran no round")
    # The condition is always asked.
    assert absent(graph, "y")["less"] == absent(graph, "y")["add"] == (NOT, "no dump file")
    assert absent(graph, "y", "add")["less"] == (NOT, "no dump file")


def test_graphs_that_run_each_other_are_read(model, write) -> None:
    graphs = loop(write)
    graphs["body"][0]["subgraph_name"] = ["cond", "body", "net", "nowhere"]
    graphs["cond"][0]["subgraph_name"] = ["body"]
    assert absent(model(graphs), "y")["less"][0] == NOT


@pytest.mark.parametrize(
    "kind",
    [
        "HcomAllReduce",
        "HcomAllToAllVC",
        "hcomBroadcast",
        "HorovodAllreduce",
        "HvdCallbackAllReduce",
    ],
)
def test_collective_ops_are_absent_as_expected(model, write, kind) -> None:
    graph = model({"net": [write.op("a"), write.op("all", kind, inputs=["a:0"])]})
    status, reason = absent(graph, "a")["all"]
    assert (status, reason) == (
        ABSENT,
        "a collective op is not run by a kernel of its own, so it has no dump",
    )


@pytest.mark.parametrize("kind", ["MatmulAllReduce", "AllGatherMatmul"])
def test_missing_ops_that_compute_and_communicate_are_not_excused(model, write, kind) -> None:
    graph = model({"net": [write.op("a"), write.op("all", kind, inputs=["a:0"])]})
    assert absent(graph, "a")["all"][0] == NOT


def test_the_engine_of_an_op_tells_whether_it_dumps(model, write) -> None:
    library = "_ge_attr_op_kernel_lib_name"
    ops = [
        write.op("core", attrs=[text(library, "AIcoreEngine")]),
        write.op("local", "Reshape", attrs=[text(library, "DNN_VM_GE_LOCAL_OP_STORE")]),
        write.op("host", "Shape", attrs=[text(library, "DNN_VM_HOST_CPU_OP_STORE")]),
        write.op("hccl", "SomethingNew", attrs=[text(library, "ops_kernel_info_hccl")]),
        write.op("iterator", "IteratorV2", outputs=[write.desc(dtype="DT_RESOURCE")]),
        write.op("next", "GetNext", inputs=["iterator:0"]),
    ]
    graph = model({"net": ops})
    assert [op.name for op in graph.ops if no_dump_reason(op) is None] == ["core", "next"]


def test_a_concat_whose_inputs_were_dumped_may_be_absent(model, write) -> None:
    ops = [
        write.op("a"),
        write.op("b"),
        write.op("flat", "Reshape", inputs=["b:0"]),
        write.op("cat", "ConcatD", inputs=["a:0", "flat:0"]),
        write.op("told", "ConcatD", inputs=["a:0"], attrs=[flag("_no_task", True)]),
        write.op("runs", "ConcatD", inputs=["a:0"], attrs=[flag("_no_task", False)]),
        write.op("relu", "Relu", inputs=["a:0"]),
    ]
    graph = model({"net": ops})
    conditions = {op.name: run_condition(graph, op) for op in graph.ops}
    away = "it is not optimised away"
    assert conditions["cat"] == conditions["flat"] == away
    assert conditions["told"] is conditions["runs"] is conditions["relu"] is None
    found = absent(graph, "a", "b")
    assert found["cat"][0] == found["flat"][0] == ABSENT and found["cat"][1].startswith(
        "optimised away"
    )
    assert found["told"] == (
        ABSENT,
        "the compiler gave this op no task on the device, so it has no dump",
    )
    assert found["runs"] == found["relu"] == (NOT, "no dump file")
    # One dump that is missing, not two.
    lost = "no dump file, nor has b, which it reads: it may be optimised away"
    assert absent(graph, "a")["cat"] == absent(graph, "a")["flat"] == (NOT, lost)
    assert absent(graph, "a")["runs"] == (NOT, "no dump file")
    assert absent(graph)["cat"] == (NOT, "no dump file")


def test_ops_that_were_not_requested_are_absent_as_expected(model, write) -> None:
    graph = model(
        {"net": [write.op("a"), write.op("b", inputs=["a:0"]), write.op("c", inputs=["b:0"])]}
    )
    request = DumpRequest(frozenset([1, 2]), "not asked for")
    assert absent(graph, "b", request=request) == {
        "a": (ABSENT, "not asked for"),
        "c": (NOT, "no dump file"),
    }


def test_a_run_is_complete_when_all_ops_that_run_were_dumped(model, write) -> None:
    def come(graph, *names, **more):
        done, expected = Pairing(graph, lambda name, index: True, **more).dump_counts(names)
        return done == expected

    graph = model(gears(write, "owner"))
    assert come(graph, "last", "fc2") and not come(graph, "last") and not come(graph, "fc2")
    graph = model(conditional(write))
    assert (
        come(graph, "y", "b")
        and come(graph, "y", "d")
        and not come(graph, "y")
        and not come(graph, "b")
    )
    graph = model(loop(write))
    assert (
        come(graph, "y", "less") and come(graph, "y", "less", "add") and not come(graph, "y", "add")
    )
    assert come(graph, "less", request=DumpRequest(frozenset([3]), "not asked for"))


def test_lists_and_sizes_count_only_ops_that_run(model, write) -> None:
    graph = model(gears(write, "owner"))
    assert {op.name: run_condition(graph, op) for op in graph.ops if run_condition(graph, op)} == {
        "fc%d" % number: "gear Batch_%d runs" % number for number in range(3)
    }
    sizes = {"fc0": 1, "fc1": 3, "fc2": 2}
    kept = largest_of_one_run(
        graph, graph.ops, lambda ops: sum(sizes.get(op.name, 0) for op in ops)
    )
    assert [op.name for op in kept] == ["x", "case", "last", "fc1"]
    graph = model(conditional(write))
    assert run_condition(graph, graph.op("b")) == "the branch then of if1 (If) is taken"
    assert (
        run_condition(graph, graph.op("a")) is None and run_condition(graph, graph.op("y")) is None
    )
    graph = model(loop(write))
    assert (
        run_condition(graph, graph.op("add")) == "while1 (While) runs a round"
        and run_condition(graph, graph.op("less")) is None
    )
    assert largest_of_one_run(graph, graph.ops, len) == list(graph.ops)
