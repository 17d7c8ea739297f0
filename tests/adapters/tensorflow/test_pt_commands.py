"""Listings of tfdbg are turned into commands that save each tensor."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import threading

import pytest

from goldwatch.adapters.tensorflow.pt_commands import FIRST, LAST, plan_commands
from goldwatch.adapters.tensorflow.tfdbg_listing import parse_listing
from goldwatch.base.errors import FormatError, InputError
from goldwatch.base.naming import read_mapping

LISTINGS = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "tensorflow"
)
T = 1700000000000000
HEAD = "3 dumped tensor(s):\n\nt (ms)    Size (B) Op type    Tensor name\n"


def listing(name):
    return os.path.join(LISTINGS, "lt_listing_%s.txt" % name)


def reference(text):
    """Return the expected ``(commands, mapping)`` of a whole listing, by the rules as the documents
    put them, the slow way.
    """
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and re.match(r"\[[0-9]+\.[0-9]+\]$", words[0]):
            rows.append((words[2], words[3]))
    garbage = {"VarHandleOp", "AsString", "StringJoin"}
    # Without a gradient it runs with is_training=False, and writes its first output alone.
    inferring = not any(op_type.startswith("FusedBatchNormGrad") for op_type, _ in rows)
    kept, counts = [], {}
    for op_type, tensor in rows:
        number = counts.get(tensor, 0)
        counts[tensor] = number + 1
        node, _, slot = tensor.rpartition(":")
        if (
            op_type in garbage
            or op_type.startswith("Stack")
            or (op_type == "FusedBatchNormV3" and slot == "5")
        ):
            continue
        if inferring and op_type == "FusedBatchNormV3" and slot in "1234":
            continue
        if op_type == "IteratorV2" or (
            op_type == "Enter" and re.match("gradients/loop/.*/Enter", node)
        ):
            # In these listings all that are called so in the gradient's loop carry stacks (pt
            # leaves pickled objects).
            continue
        if op_type == "_Arg":
            node, slot, _ = node[len("_arg_") :].rsplit("_", 2)
        kept.append((tensor, node, slot, number))
    plain = {}
    for _, node, _, _ in kept:
        plain.setdefault(re.sub("[^A-Za-z0-9_-]", "_", node), set()).add(node)
    commands, mapping = [], {}
    for tensor, node, slot, number in kept:
        op = re.sub("[^A-Za-z0-9_-]", "_", node)
        if len(plain[op]) > 1:
            op += "-parked-%d" % (sorted(plain[op]).index(node) + 1)
        name = "%s.%s.%d.npy" % (op, slot, T + number)
        if "-parked-" in name or len(name) > 255:
            digits = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
            mapping["%d.npy" % digits] = name
            name = "%d.npy" % digits
        commands.append("pt %s -n %d -w %s" % (tensor, number, name))
    return commands, mapping


@pytest.mark.parametrize("name, count", [("infer", 162), ("train", 406), ("estimator", 30)])
def test_listings_give_the_exact_commands(tf, tmp_path, name, count):
    done = tf("commands", listing(name), "--timestamp", T, "-o", "batch.txt")
    assert done.code == 0, done.err
    with open(listing(name)) as stream:
        commands, mapping = reference(stream.read())
    assert (tmp_path / "batch.txt").read_text().splitlines() == commands
    assert len(commands) == count
    if mapping:
        assert read_mapping(str(tmp_path / "mapping.csv")) == mapping
    else:
        assert not (tmp_path / "mapping.csv").exists()
    assert len(set(commands)) == len({line.rpartition(" ")[2] for line in commands}) == count


def test_the_infer_listing_gives_commands_written_by_hand(tf):
    done = tf("commands", listing("infer"), "--timestamp", T)
    lines = done.out.splitlines()
    assert "pt _arg_input_0_0:0 -n 0 -w input.0.1700000000000000.npy" in lines
    assert "pt bn.1/FusedBatchNorm:0 -n 0 -w bn_1_FusedBatchNorm.0.1700000000000000.npy" in lines
    assert "pt loop/step:0 -n 4 -w loop_step.0.1700000000000004.npy" in lines
    assert "pt topk:1 -n 0 -w topk.1.1700000000000000.npy" in lines
    assert "bn.1/gamma:0" in done.err and "label_text:0" in done.err and "mapping.csv" in done.err


def test_a_listing_from_stdin_can_be_limited_to_selected_ops_and_last_dumps(tf):
    with open(listing("infer"), "rb") as stream:
        data = stream.read()
    last = tf("commands", "-", "--timestamp", T, "--select", "loop/step", "--last", stdin=data)
    assert last.out == "pt loop/step:0 -n 4 -w loop_step.0.1700000000000004.npy\n"
    first = tf("commands", "-", "--timestamp", T, "--select", "loop/step:0", "--first", stdin=data)
    assert first.out == "pt loop/step:0 -n 0 -w loop_step.0.1700000000000000.npy\n"
    everything = tf(
        "commands",
        "-",
        "--timestamp",
        T,
        "--select",
        "loop/st*",
        "--select",
        "input",
        "--all-dumps",
        stdin=data,
    )
    assert len(everything.out.splitlines()) == 6
    assert tf("commands", "-", "--select", "nothing/*", stdin=data).code == 4


def test_json_lists_every_command_and_what_is_left_out(tf):
    document = tf("commands", listing("train"), "--format", "json").json()
    assert len(document["commands"]) + sum(entry["dumps"] for entry in document["left_out"]) == 504
    assert document["commands"][0]["timestamp"] > 10**15


def test_headers_filters_and_prompts_of_a_listing_are_skipped():
    text = 'Node name regex filter: "x"\nOp type regex filter: "y"\n' + HEAD
    text += (
        "tfdbg> lt\n| <-- --> |\r\n[0.000]   206      Const    a/b:0   \r\n[10.250] 1.2k  Add "
        "c:0\n[3.100] 1 Add d:12\n"
    )
    parsed = parse_listing(text, "x")
    assert [row.tensor for row in parsed.rows] == ["a/b:0", "d:12", "c:0"]
    assert parsed.notes == ()


def test_a_truncated_or_filtered_listing_is_reported():
    assert (
        "announces 3 dumps, 1 rows" in parse_listing(HEAD + "[0.000] 206 Const a:0\n", "x").notes[0]
    )
    filtered = '1 dumped tensor(s) passing filter "has_inf_or_nan":\n[0.000] 206 Const a:0\n'
    assert "filtered by value" in parse_listing(filtered, "x").notes[0]
    with pytest.raises(FormatError):
        parse_listing("nothing here\n", "x")


def test_dumps_are_numbered_by_time_in_any_order_of_the_listing():
    rows = ["[%d.000] 9 Mul loop/m:0" % k for k in (3, 1, 2)]
    plan = plan_commands(parse_listing("\n".join(rows), "x"), T)
    assert [command.number for command in plan.commands] == [0, 1, 2]
    assert [
        c.number for c in plan_commands(parse_listing("\n".join(rows), "x"), T, which=LAST).commands
    ] == [2]
    assert [
        c.number
        for c in plan_commands(parse_listing("\n".join(rows), "x"), T, which=FIRST).commands
    ] == [0]


def test_a_fed_output_replaces_the_computed_one():
    text = (
        "[0.000] 9 _Arg _arg_scope/sp_1_0:0\n[1.000] 9 Split scope/sp:0\n[1.100] 9 Split "
        "scope/sp:1\n"
    )
    plan = plan_commands(parse_listing(text, "x"), T)
    found = [(c.tensor, c.op, c.output_index) for c in plan.commands]
    assert found == [("_arg_scope/sp_1_0:0", "scope/sp", 1), ("scope/sp:0", "scope/sp", 0)]
    assert plan.left_out == (("scope/sp:1", "the value that was fed replaces the computed one", 1),)


def test_colliding_names_are_parked_though_only_one_is_selected():
    parsed = parse_listing("[0.000] 9 Mul a/b:0\n[1.000] 9 Mul a_b:0\n", "x")
    plan = plan_commands(parsed, T, select=["a/b"])
    assert (
        plan.commands[0].listed == "a_b-parked-1.0.%d.npy" % T
        and plan.commands[0].file != plan.commands[0].listed
    )
    with pytest.raises(InputError):
        plan_commands(parsed, T, select=["a"])


@pytest.mark.parametrize(
    "op_type, slot, out",
    [
        ("VarHandleOp", 0, True),
        ("StackV2", 0, True),
        ("StackPopV2", 0, True),
        ("IteratorV2", 0, True),
        ("IteratorGetNext", 0, False),
        ("OneShotIterator", 0, True),
        ("AsString", 0, True),
        ("StringJoin", 0, True),
        ("ReduceJoin", 0, True),
        ("StringSplit", 1, True),
        ("StringSplit", 0, False),
        ("StringToNumber", 0, False),
        ("TensorArrayV3", 0, True),
        ("TensorArrayV3", 1, False),
        ("TensorSliceDataset", 0, True),
        ("FusedBatchNormV3", 5, True),
        ("FusedBatchNormV3", 4, True),
        ("FusedBatchNormV3", 0, False),
        ("Enter", 0, False),
        ("_Recv", 0, True),
    ],
)
def test_types_without_values_are_left_out(op_type, slot, out):
    text = "[0.000] 9 %s x:%d\n[1.000] 9 Mul y:0\n" % (op_type, slot)
    plan = plan_commands(parse_listing(text, "x"), T)
    assert len(plan.commands) == 2 - out and len(plan.left_out) == out
    assert all(reason for _, reason, _ in plan.left_out)


def test_the_listing_is_never_overwritten(tf, tmp_path):
    (tmp_path / "l").write_text("[0.000] 9 Mul y:0\n")
    done = tf("commands", "l", "-o", "l")
    assert done.code == 2 and (tmp_path / "l").read_text().startswith("[0.000]")
    assert tf("commands", "missing").code == 4
    assert tf("commands", "l", "-o", "no/such/folder/x").code == 4
    assert tf("commands", "l", "--timestamp", "-1").code == 2


def test_a_timestamp_of_more_than_16_digits_is_refused(tf):
    done = tf("commands", listing("train"), "--timestamp", "9999999999999994")
    assert done.code == 0 and "-w loop_Merge.0.9999999999999999.npy" in done.out
    done = tf("commands", listing("train"), "--timestamp", "9999999999999995")
    assert done.code == 2 and not done.out and "more than 16 digits" in done.err


def test_an_existing_mapping_is_extended(tf, tmp_path):
    (tmp_path / "mapping.csv").write_text("5.npy,old.0.1.npy\n")
    (tmp_path / "l").write_text("[0.000] 9 Mul a/b:0\n[1.000] 9 Mul a_b:0\n")
    assert tf("commands", "l", "-o", "batch").code == 0
    with open(str(tmp_path / "mapping.csv"), newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["5.npy", "old.0.1.npy"] and len(rows) == 3


def test_an_error_is_one_json_document(tf):
    done = tf("commands", "missing", "--format", "json")
    assert done.code == 4 and set(json.loads(done.out)["error"]) == {"kind", "message", "hint"}


@pytest.mark.parametrize(
    "name, stack, handle",
    [
        ("while/loop/Enter_1", "", False),
        ("gradients/while/mul_grad/Mul_1/StackPopV2/Enter", "", True),
        ("gradients/while/mul_grad/Mul_1/Enter_1", "gradients/while/mul_grad/Mul_1/f_acc_1", True),
        ("gradients/while/mul_grad/Mul_1/Enter_1", "gradients/while/mul_grad/Mul_1/f_acc", False),
        ("rnn/while/TensorArrayReadV3/Enter", "", True),
        ("rnn/while/TensorArrayReadV3/Enter_1", "", False),
        ("rnn/while/TensorArrayWrite/TensorArrayWriteV3_2/Enter", "", True),
        ("rnn/while/cell/MatMul/ReadVariableOp/Enter", "", True),
        ("rnn/while/cell/MatMul/Enter", "", False),
    ],
)
def test_an_enter_op_that_carries_a_handle_has_no_command(name, stack, handle):
    text = "[0.000] 9 Enter %s:0\n[1.000] 9 Mul y:0\n" % name + (
        "[0.500] 9 StackV2 %s:0\n" % stack if stack else ""
    )
    plan = plan_commands(parse_listing(text, "x"), T)
    assert (name not in [command.op for command in plan.commands]) is handle
    assert (
        "%s:0" % name in [tensor for tensor, reason, _ in plan.left_out if "handle" in reason]
    ) is handle


def test_a_listing_is_read_from_a_pipe_but_not_from_a_folder(tf, tmp_path):
    os.mkfifo(str(tmp_path / "pipe"))
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("[0.000] 9 Mul y:0\n",))
    writer.start()
    done = tf("commands", "pipe", "--timestamp", T)
    writer.join()
    assert done.code == 0 and done.out == "pt y:0 -n 0 -w y.0.%d.npy\n" % T
    assert tf("commands", ".").code == 4
