"""Two dumps of one model without golden data: what changed between two builds or two runs."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import onnx
import onnx_models as build
import pytest
from in_process import run_here
from locate_host import small
from onnx import helper
from onnx_device import on_device, write_model

from goldwatch.dumps import DumpFile, TensorData, write_dump
from goldwatch.run.same_operators import _ascending, _in_common
from goldwatch.tensors.dtypes import dtype_by_name
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor, as_statistics
from goldwatch.testing.device_dump import write_files
from goldwatch.testing.host.compiled_network import CompiledNetwork
from goldwatch.testing.host.original_network import read_network
from goldwatch.testing.host.precision_options import Build
from goldwatch.testing.op_faults import parse_op_faults


def dumped(folder, name, fault=None, without=()):
    """Write the dump of a run of the small network, without the files of some ops."""
    small(folder / "net.onnx")
    feeds = {"x": np.random.RandomState(5).standard_normal((2, 32)).astype(np.float32)}
    device = on_device(str(folder / "net.onnx"), feeds, fault=fault)
    write_model(device, str(folder / "net.json"), "")
    write_files(str(folder / name), device.dumps())
    for base, _, files in os.walk(str(folder / name)):
        for file in files:
            if any(".%s." % op in file for op in without):
                os.remove(os.path.join(base, file))


def last_sentence(folder, *words):
    done = run_here(["goldwatch", "compare", "new", "old", "-o", "out", *words], folder)
    return done.returncode, " ".join(done.stdout.split())


def words_of_next(text):
    """Return the words of the command that the last line proposes."""
    return text[text.rindex("next: ") + len("next: ") :].split()


def test_a_difference_below_the_limits_is_named_with_its_op(tmp_path):
    dumped(tmp_path, "old")
    dumped(tmp_path, "new", ("relu", lambda array: array * np.float32(1.002)))
    for words in ([], ["-f", "net.json", "--force"]):
        code, text = last_sentence(tmp_path, *words)
        assert code == 0 and "The first difference of the two dumps is in relu (Relu)" in text
        assert "its inputs are equal, relu:output:0 differs (0.2" in text


def test_an_op_that_is_called_golden_keeps_its_name(tmp_path):
    for name, fault in (("old", None), ("new", ("relu", lambda array: array * np.float32(1.5)))):
        dumped(tmp_path, name, fault)
        for base, _, files in os.walk(str(tmp_path / name)):
            for file in files:
                new = file.replace(".relu.", ".golden.")
                os.rename(os.path.join(base, file), os.path.join(base, new))
    code, text = last_sentence(tmp_path)
    assert code == 1 and "golden (Relu) is the first operator outside its limits" in text


def test_equal_dumps_are_called_equal(tmp_path):
    for name in ("old", "new"):
        dumped(tmp_path, name)
    code, text = last_sentence(tmp_path)
    assert code == 0 and re.search(r"All \d+ tensors that both dumps have are equal\.", text)


@pytest.mark.parametrize("words", [[], ["--exact"]])
def test_dumps_without_an_operator_in_common_are_not_called_equal(tmp_path, words):
    first, second = drawn(0), drawn(1)
    cast = ("trans_Cast_1", "Cast", [drawn(7)], drawn(7))
    tree(tmp_path / "new", [("a", "Sigmoid", [first], np.abs(first)), cast])
    tree(tmp_path / "old", [
        ("b", "Pow", [second, first], second), ("c", "Neg", [second], -second),
        ("trans_Cast_1", "Cast", [drawn(8)], drawn(8)),
    ])  # fmt: skip
    code, text = last_sentence(tmp_path, *words)
    assert code != 0 and "equal" not in text, text
    if not words:
        assert code == 3 and "No tensor of the two dumps was compared: no operator of" in text
        assert "1 operator in new alone: a. 2 operators in old alone: b, c." in text


def test_one_tensor_that_is_equal_is_counted(tmp_path):
    for name in ("new", "old"):
        tree(tmp_path / name, [("a", "Sigmoid", [], drawn(0))])
    assert "The one tensor that both dumps have is equal." in last_sentence(tmp_path)[1]


def test_ops_that_one_of_the_dumps_has_alone_are_listed(tmp_path):
    dumped(tmp_path, "old", without=["first"])
    dumped(tmp_path, "new", without=["second"])
    _, text = last_sentence(tmp_path)
    assert "1 operator in new alone: first." in text
    assert "1 operator in old alone: second." in text


def test_a_step_that_one_of_the_dumps_has_alone_is_told_and_its_ops_are_not(tmp_path):
    for name in ("old", "new"):
        dumped(tmp_path, name)
        (first,) = [base for base, _, files in os.walk(str(tmp_path / name)) if files]
        step = {"old": "3", "new": "7"}[name]
        shutil.copytree(first, os.path.join(os.path.dirname(first), step))
    _, text = last_sentence(tmp_path)
    assert re.search(r"In new alone: all of device 0, model net, model_id 1, step 7\.", text), text
    assert "operators in new alone" not in text


def test_other_inputs_of_the_two_runs_are_no_operators_fault(tmp_path):
    dumped(tmp_path, "old")
    dumped(tmp_path, "new", ("first", lambda array: array * 2), without=["first"])
    code, text = last_sentence(tmp_path)
    assert code != 0 and "The first tensor that differs is an input, relu:input:0" in text
    shutil.rmtree(str(tmp_path / "new"))
    shutil.rmtree(str(tmp_path / "old"))
    for name, x in (("old", drawn(0)), ("new", drawn(1))):
        tree(tmp_path / name, [("start", "Relu", [x], np.maximum(x, 0))])
    _, text = last_sentence(tmp_path, "--force")
    assert "start:input:0" in text and "makes it: the runs had other inputs. Which of" in text, text


def call_by_first_names(model, fused):
    names = {"".join(chain): chain[0] for chain in fused}
    model.ops = [
        replace(
            op,
            name=names.get(op.name, op.name),
            inputs=tuple((names.get(source, source), index) for source, index in op.inputs),
        )
        for op in model.ops
    ]


def convolution(folder, name, fused, headers, first_name=False, fault=None):
    """Write the dump of a convolution with BatchNormalization and ReLU, of which some are one op:
    by its name those of all, or that of the first; headers that name originals or do not.
    """
    random = np.random.RandomState(0)
    sizes = {"w": (8, 3, 3, 3), "s": (8,), "b": (8,), "m": (8,), "v": (8,), "w2": (4, 8, 1, 1)}
    weights = [
        build.weight(key, np.abs(random.standard_normal(size)).astype(np.float32) * np.float32(0.3))
        for key, size in sizes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["d"], "bn"),
        helper.make_node("Relu", ["d"], ["e"], "relu"),
        helper.make_node("Conv", ["e", "w2"], ["y"], "conv2"),
    ]
    values = [[build.value("x", (1, 3, 8, 8))], [build.value("y", (1, 4, 8, 8))]]
    build.save(folder / "net.onnx", build.model(nodes, *values, weights))
    feeds = {"x": random.standard_normal((1, 3, 8, 8)).astype(np.float16).astype(np.float32)}
    model = on_device(str(folder / "net.onnx"), feeds, fused, fault)
    if first_name:
        call_by_first_names(model, fused)
    write_files(str(folder / name), model.dumps())
    write_model(model, str(folder / (name + ".json")), "")
    last = {"".join(chain): chain[-1] for chain in fused}
    last.update({chain[0]: chain[-1] for chain in fused if first_name})
    for base, _, files in os.walk(str(folder / name)):
        for file in files if headers else ():
            path, op = os.path.join(base, file), file.split(".")[1]
            dump = DumpFile.open(path)
            tensors = [
                [
                    TensorData(
                        dump.array(kind, info.index),
                        info.dtype.name,
                        info.format,
                        info.shape,
                        info.original_shape,
                        original_name=last.get(op, op) if kind == "output" else None,
                    )
                    for info in infos
                ]
                for kind, infos in (("input", dump.inputs), ("output", dump.outputs))
            ]
            write_dump(path, *tensors)


def rows_of(folder):
    with open(str(folder / "out" / "result.json"), encoding="utf-8") as stream:
        return {row["tensor"]: row for row in json.load(stream)["rows"]}


@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("fused_is_new", [True, False])
def test_a_fused_op_that_bears_the_first_name_is_compared_with_the_last(
    tmp_path, headers, fused_is_new
):
    for name in ("new", "old"):
        fused = [("conv", "bn")] if (name == "new") == fused_is_new else []
        convolution(tmp_path, name, fused, headers, first_name=True)
    code, text = last_sentence(tmp_path)
    rows = rows_of(tmp_path)
    across, other = ("conv", "bn") if fused_is_new else ("bn", "conv")
    row = rows["%s:output:0" % across]
    by = (
        " by the original names in the headers" if headers else ": the builds fused other operators"
    )
    assert (code, row["verdict"]) == (0, "pass"), text
    assert "paired with %s:output:0 of the other dump%s" % (other, by) in row["reason"]
    assert row["reason_codes"] == "paired_across=%s:output:0" % other
    gone = rows.get(other) or rows["%s:output:0" % other]
    assert gone["verdict"] == "expected_absent" and "fused" in gone["reason"]
    assert "The first difference of the two dumps is in %s" % across in text
    code, text = last_sentence(tmp_path)  # goes on with the store
    assert (code, rows_of(tmp_path)) == (0, rows), text


@pytest.mark.parametrize("headers", [True, False])
def test_a_wrong_op_of_another_fusion_is_found_by_headers_or_by_what_reads_it(tmp_path, headers):
    convolution(tmp_path, "old", [("conv", "bn", "relu")], headers)
    convolution(tmp_path, "new", [], headers, fault=("relu", lambda array: array * 2))
    code, text = last_sentence(tmp_path)
    assert code == 1, text
    assert "relu (Relu) is the first operator outside its limits" in text
    assert rows_of(tmp_path)["relu:output:0"]["verdict"] == "fail"


@pytest.mark.parametrize("wrong_is_new", [True, False])
def test_behind_a_wrong_op_a_fused_one_is_still_compared_with_the_last(tmp_path, wrong_is_new):
    wrong, fused = ("new", "old") if wrong_is_new else ("old", "new")
    convolution(tmp_path, fused, [("conv", "bn")], False, first_name=True)
    fault = ("conv", lambda array: array * np.float32(1.5))
    convolution(tmp_path, wrong, [], False, fault=fault)
    code, text = last_sentence(tmp_path, "-f", "new.json", "--original", "net.onnx")
    assert code == 1, text
    row = rows_of(tmp_path)["bn:output:0" if wrong_is_new else "conv:output:0"]
    by = "the builds fused other operators" if wrong_is_new else "by the model's json the operator"
    assert "of the other dump: " + by in row["reason"], row
    if wrong_is_new:
        assert re.search(r"suspect 1: conv \(Conv\w*\).* nothing is compared with it", text), text
        assert "its output is what is computed times 1.5" in text
    else:
        # Its own dump is right throughout: what the other one differs by is no rounding.
        assert "3 ops: 3 right, 0 wrong" in text and "suspect 1" not in text, text
        assert "conv (BatchNormalization) is the first operator outside its limits" in text, text
        assert re.search(r"TARGET's conv is right: it is 0\.0\S+ % off .* other run \d\d %", text)
        assert "All operators of TARGET that were computed again are right: exchange" in text


@pytest.mark.parametrize("words", [["-f", "new.json"], []])
def test_a_wrong_fused_op_is_compared_with_the_last_original_though_a_later_op_is_nearer(
    tmp_path, words
):
    random = np.random.RandomState(3)
    x = random.standard_normal((1, 8, 8, 8)).astype(np.float16).astype(np.float32)
    weights = [build.weight("w", (random.standard_normal((8, 8, 3, 3)) / 9).astype(np.float32))]
    scales = {"s": -0.5, "b": 0.5, "m": 0.5, "v": 0.5}
    weights += [build.weight(key, np.full(8, value, np.float32)) for key, value in scales.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["d"], "bn"),
        helper.make_node("Add", ["d", "x"], ["e"], "add"),
        helper.make_node("Relu", ["e"], ["f"], "relu"),
        helper.make_node("GlobalAveragePool", ["f"], ["y"], "gap"),
    ]
    values = [[build.value("x", x.shape)], [build.value("y", (1, 8, 1, 1))]]
    build.save(tmp_path / "net.onnx", build.model(nodes, *values, weights))
    chains = [("conv", "bn"), ("add", "relu")]
    for name, fused in (("new", chains), ("old", [])):
        # Of 0.8 x, bn is off by all of it, and add by 0.2 x.
        fault = ("bn", lambda array: array + np.float32(0.8) * x) if fused else None
        model = on_device(str(tmp_path / "net.onnx"), {"x": x}, fused, fault)
        call_by_first_names(model, fused[:1])
        first = {"addrelu": "Add"}
        model.ops = [replace(op, type=first.get(op.name, op.type)) for op in model.ops]
        write_files(str(tmp_path / name), model.dumps())
        write_model(model, str(tmp_path / (name + ".json")), "")
    code, text = last_sentence(tmp_path, *words)
    rows = rows_of(tmp_path)
    assert code == 1 and rows["conv:output:0"]["verdict"] == "fail", text
    assert "paired with bn:output:0 of the other dump: " in rows["conv:output:0"]["reason"]
    assert ("by the model's json" in rows["conv:output:0"]["reason"]) == bool(words)
    assert "its output is compared with conv:output:0 of TARGET" in rows["bn"]["reason"], text
    assert "paired with relu:output:0" in rows["addrelu:output:0"]["reason"]
    assert "1 operator in old alone: add." in text


@pytest.mark.parametrize("wrong", [None, "conv2", "conv"])
@pytest.mark.parametrize("words", [(), ("-f", "new.json"), ("-f", "old.json")])
@pytest.mark.parametrize("fused_is_new", [True, False])
def test_an_operator_that_two_builds_fuse_with_either_neighbour_is_another_tensor_in_each(
    tmp_path, fused_is_new, words, wrong
):
    """Each build has a convolution of the name, with the normalisation in one of the two."""
    names = ("new", "old") if fused_is_new else ("old", "new")
    for name, fused in zip(names, (("conv", "bn"), ("bn", "relu"))):
        fault = (wrong, lambda array: array * np.float32(1.5)) if name == "new" and wrong else None
        convolution(tmp_path, name, [fused], False, first_name=True, fault=fault)
    code, text = last_sentence(tmp_path, *words)
    rows = rows_of(tmp_path)
    across = ("relu", "bn") if fused_is_new else ("bn", "relu")
    row = rows["%s:output:0" % across[0]]
    assert row["reason_codes"] == "paired_across=%s:output:0" % across[1], row
    is_right = wrong != "conv"
    for tensor in ("conv:output:0", "%s:input:0" % across[0]):
        assert rows[tensor]["verdict"] == ("expected_absent" if is_right else "fail"), text
    assert code == (wrong is not None), text
    first = re.search(r"(\w+) \(\w+\) is the first operator outside its limits", text)
    assert (first and first.group(1)) == wrong, text
    if wrong is None:
        assert "suspect" not in text and " 0 wrong" in text or not words, text
    assert last_sentence(tmp_path, *words)[0] == code  # goes on with the store
    assert rows_of(tmp_path) == rows


@pytest.mark.parametrize("first_name", [True, False])
@pytest.mark.parametrize("given", ["fused", "plain", "second"])
def test_two_right_builds_accuse_nobody_whichever_json_is_given(tmp_path, given, first_name):
    """The json of the other build, or a second one that is itself fused: an original in its place
    is not what the operator computes.
    """
    chains = [("conv", "bn", "relu")]
    convolution(tmp_path, "new", chains, False, first_name=first_name)
    convolution(tmp_path, "old", chains if given == "second" else [], False, first_name=first_name)
    for new, old in (("new", "old"), ("old", "new")):
        json_of = {"fused": "new", "plain": "old", "second": new}[given]
        words = ["-f", json_of + ".json"]
        words += ["--unfused-om", old + ".json"] if given == "second" else []
        words = ["goldwatch", "compare", new, old, *words, "-o", new + "_out"]
        text = " ".join(run_here(words, tmp_path).stdout.split())
        summary = json.loads((tmp_path / (new + "_out") / "result.json").read_text())["summary"]
        assert not summary["suspects"] and " 0 fail" in text, text
        assert not (summary["recomputed"] or {}).get("wrong"), text


@pytest.mark.parametrize("wrong", ["conv", "bn"])
def test_what_has_no_counterpart_before_a_wrong_output_is_named_too(tmp_path, wrong):
    convolution(tmp_path, "old", [("conv", "bn", "relu")], False)
    convolution(tmp_path, "new", [], False, fault=(wrong, lambda array: array + np.float32(3)))
    code, text = last_sentence(tmp_path)
    assert code == 1 and "relu (Relu) is the first operator outside its limits" in text, text
    said = "may also arise before relu, in conv (Conv), bn (BatchNormalization), which old has no"
    assert said in text, text
    (suspect,) = json.loads((tmp_path / "out" / "result.json").read_text())["summary"]["suspects"]
    assert suspect["group"] == ["conv", "bn", "relu"] and suspect["op"] == "relu"
    assert suspect["confidence"] == "low" and "; conv, bn before it, of" in suspect["evidence"]
    assert "suspect 1: one of conv, bn, relu, score" in text and "relu (Relu), score" not in text
    report = ["goldwatch", "report", "out", "--markdown", "r.md"]
    assert run_here(report, tmp_path).returncode == 0
    assert "1. one of `conv`, `bn`, `relu`, score" in (tmp_path / "r.md").read_text()
    words = ["-f", "new.json", "--original", "net.onnx", "--force"]
    code, text = last_sentence(tmp_path, *words)
    assert "one of conv" not in text
    named = {"conv": r"conv \(Conv", "bn": r"bn \(Batch"}[wrong]
    assert re.search("suspect 1: %s.* nothing is compared with it" % named, text), text
    assert "The error may also arise" not in text, text


@pytest.mark.parametrize("form", ["default", "chosen"])
@pytest.mark.parametrize("fused_is_new", [True, False])
def test_statistics_of_builds_that_fuse_otherwise_are_paired(tmp_path, fused_is_new, form):
    for name in ("new", "old"):
        fused = [("conv", "bn")] if (name == "new") == fused_is_new else []
        convolution(tmp_path, name + "_tensors", fused, False, first_name=True)
        as_statistics(str(tmp_path / (name + "_tensors")), str(tmp_path / name), form)
    code, text = last_sentence(tmp_path)
    assert code == 0 and "No operator is outside its limits." in text, text
    across, other = ("conv", "bn") if fused_is_new else ("bn", "conv")
    row = rows_of(tmp_path)["%s:output:0" % across]
    assert "paired with %s:output:0 of the other dump" % other in row["reason"], row
    assert row["verdict"] == "pass" and "equal" in text
    shutil.rmtree(str(tmp_path / "new"))
    fault = ("relu", lambda array: array * np.float32(1.5))
    convolution(tmp_path, "wrong", fused if fused_is_new else [], False, True, fault)
    as_statistics(str(tmp_path / "wrong"), str(tmp_path / "new"), form)
    code, text = last_sentence(tmp_path, "--force")
    assert code == 1 and "relu (Relu) is the first operator outside its limits" in text, text


def test_statistics_that_differ_within_limits_are_not_called_equal(tmp_path):
    for name, fault in (("old", None), ("new", ("relu", lambda array: array * np.float32(1.002)))):
        dumped(tmp_path, name + "_tensors", fault)
        as_statistics(str(tmp_path / (name + "_tensors")), str(tmp_path / name))
    code, text = last_sentence(tmp_path)
    assert code == 0 and "The first difference of the two dumps is in relu (Relu)" in text, text
    assert "the statistics of its inputs are equal, relu:output:0 differs (by 0.0" in text, text
    assert "Most arises" not in text, text
    code, text = last_sentence(tmp_path, "--force")
    shutil.rmtree(str(tmp_path / "new"))
    shutil.copytree(str(tmp_path / "old"), str(tmp_path / "new"))
    text = last_sentence(tmp_path, "--force")[1]
    assert re.search(r"The statistics of all \d+ tensors that both dumps have are equal\.", text)


def test_where_most_of_a_difference_within_limits_arises_is_told(tmp_path):
    """An operator of the other dump that is wrong within its limits, behind a rounding."""
    dumped(tmp_path, "new", ("first", lambda array: array * np.float32(1.001)))
    dumped(tmp_path, "old", ("relu", lambda array: array * np.float32(1.02)))
    code, text = last_sentence(tmp_path, "-f", "net.json", "--original", "net.onnx")
    assert code == 0 and "The first difference of the two dumps is in first (" in text, text
    assert "Most arises in relu (Relu) in step 0 on device 0: its inputs differ by 0.1" in text
    assert re.search(r"TARGET's relu is right: it is 0\S* % off .*, the other run [12]\.\d %", text)
    assert words_of_next(text)[:2] == ["goldwatch", "compare-op"] and "relu" in words_of_next(text)


def test_an_original_model_without_the_models_json_is_warned_of(tmp_path):
    for name in ("old", "new"):
        dumped(tmp_path, name)
    command = ["goldwatch", "compare", "new", "old", "-o", "out", "--original", "net.onnx"]
    assert "warning: --original net.onnx is not used" in run_here(command, tmp_path).stderr
    assert "is not used" not in run_here([*command, "-f", "net.json", "--force"], tmp_path).stderr


def test_bytes_beside_golden_data_are_told_not_to_be_comparable(tmp_path):
    tree(tmp_path / "new", [("a", "Sigmoid", [], drawn(0))])
    os.makedirs(str(tmp_path / "old"))
    np.save(str(tmp_path / "old" / "a.0.1767323045000000.npy"), drawn(0).astype(np.float32))
    done = run_here(["goldwatch", "compare", "new", "old", "-o", "out", "--exact"], tmp_path)
    assert done.returncode == 3, done.stdout
    assert "warning: --exact compares bytes, and golden data of a framework" in done.stderr
    assert "leave --exact out: values are compared" in done.stdout


def test_one_folder_named_twice_is_warned_of(tmp_path):
    dumped(tmp_path, "new")
    os.symlink("new", str(tmp_path / "old"))
    done = run_here(["goldwatch", "compare", "new", "old", "-o", "out"], tmp_path)
    assert "warning: TARGET and GOLDEN are one folder, new" in done.stderr, done.stderr


def test_of_two_dumps_as_wrong_neither_is_what_the_operator_computed(tmp_path):
    dumped(tmp_path, "old")
    for step in ("0", "1"):
        dumped(tmp_path, "new" + step, ("first", lambda array: array * np.float32(1.05)))
    shutil.move(str(tmp_path / "new0"), str(tmp_path / "new"))
    (place,) = [base for base, _, files in os.walk(str(tmp_path / "new")) if files]
    (other,) = [base for base, _, files in os.walk(str(tmp_path / "new1")) if files]
    assert os.path.basename(place) == "0"
    shutil.copytree(other, os.path.join(os.path.dirname(place), "1"))
    code, text = last_sentence(tmp_path, "-f", "net.json", "--original", "net.onnx")
    assert "suspect 1: first" in text and "times 1.05" in text, text
    assert "other-tensor" not in text, text


def tree(folder, ops, step="0"):
    """Write dumps of ops: name, type, inputs and output."""
    place = folder / "20260102030405" / "0" / "net" / "1" / step
    for number, (name, op_type, inputs, output) in enumerate(ops):
        path = place / ("%s.%s.%d.0.%d" % (op_type, name, number + 1, 1767323045000000 + number))
        os.makedirs(str(place), exist_ok=True)
        write_dump(str(path), list(inputs), [output])


def drawn(seed):
    return np.random.RandomState(seed).standard_normal((64, 32)).astype(np.float16)


def test_ops_that_the_compiler_numbers_are_not_the_same_by_their_names(tmp_path):
    x, y = np.abs(drawn(0)), np.abs(drawn(1))
    first, second = ("first", "Relu", [x], x), ("second", "Sigmoid", [x], y)
    last = ("last", "Relu", [y], y)
    casts = [("trans_Cast_1", "Cast", [x], x), ("trans_Cast_2", "Cast", [y], y)]
    tree(tmp_path / "new", [first, casts[0], second, casts[1], last])
    tree(tmp_path / "old", [first, second, ("trans_Cast_1", "Cast", [y], y), last])
    for words in (["new", "old"], ["old", "new", "--force"]):
        done = run_here(["goldwatch", "compare", *words, "-o", "out"], tmp_path)
        assert done.returncode == 0, done.stdout
        row = rows_of(tmp_path)["trans_Cast_1:output:0"]
        assert row["verdict"] == "expected_absent" and "the compiler numbers" in row["reason"]


@pytest.mark.parametrize(
    "new, old",
    [
        ("MatMulV3", "MatMul"),
        ("BatchMatMulV2", "MatMul"),
        ("ReduceMean", "ReduceMeanD"),
        ("Conv3D", "Conv2D"),
    ],
)
def test_a_wrong_op_of_another_name_in_another_version_of_its_type_is_named(tmp_path, new, old):
    x, y, z = drawn(0), drawn(1), drawn(2)
    first = np.maximum(x, 0)
    tree(tmp_path / "new", [("k_a", "Relu", [x], first), ("k_b", new, [first, y], z * 2)])
    tree(tmp_path / "old", [("a", "Relu", [x], first), ("b", old, [first, y], z)])
    code, text = last_sentence(tmp_path)
    named = "k_b (%s) is the first operator outside its limits" % new
    assert (named in text, code) == ((True, 1) if new != "Conv3D" else (False, 3)), text


@pytest.mark.parametrize("same_build", [True, False])
def test_a_wrong_op_that_the_compiler_numbers_fails(tmp_path, same_build):
    x, y = np.abs(drawn(0)), np.abs(drawn(1))
    first = ("first", "Relu", [x], x)
    more = [] if same_build else [("second", "Sigmoid", [x], y)]
    tree(tmp_path / "new", [first, ("trans_Cast_1", "Cast", [x], x * np.float16(1.5)), first])
    tree(tmp_path / "old", [first, ("trans_Cast_1", "Cast", [x], x), first, *more])
    code, text = last_sentence(tmp_path)
    assert code == 1 and "trans_Cast_1 (Cast) is the first operator outside its limits" in text


def test_constants_are_not_learnt_from_the_other_dump(tmp_path):
    x = drawn(0)
    for name, factor in (("new", 2.0), ("old", 2.1)):
        y = (x * np.float16(factor)).astype(np.float16)
        tree(tmp_path / name, [("first", "Relu", [x], x), ("scaled", "Mul", [x], y)])
    code, text = last_sentence(tmp_path)
    assert code == 1 and "scaled (Mul) is the first operator outside" in text
    assert "own inputs: no op;" in text and "the other one shows may be wrong" in text


def test_another_type_of_operator_of_the_same_name_is_told(tmp_path):
    x = drawn(0)
    y = (1 / (1 + np.exp(-x.astype(np.float32)))).astype(np.float16)
    tree(tmp_path / "new", [("act", "Sigmoid", [x], y)])
    tree(tmp_path / "old", [("act", "HardSigmoid", [x], np.clip(x / 6 + 0.5, 0, 1).astype("f2"))])
    code, text = last_sentence(tmp_path)
    assert code == 1 and "In the other dump it is a HardSigmoid." in text, text


def test_the_same_inputs_in_another_order_are_told_as_such(tmp_path):
    x, y = drawn(0), drawn(1)
    for name, inputs in (("new", [x, y]), ("old", [y, x])):
        made = [("a", "Relu", [x], x), ("b", "Relu", [y], y)]
        tree(tmp_path / name, [*made, ("sub", "Sub", inputs, inputs[0] - inputs[1])])
    code, text = last_sentence(tmp_path)
    assert code == 1, text
    assert "the operator reads the same tensors in both dumps, in another order" in text, text


def test_dumps_without_a_step_in_common_are_told_so(tmp_path):
    x = drawn(0)
    tree(tmp_path / "new", [("first", "Relu", [x], x)], step="3")
    for step in ("0", "1"):
        tree(tmp_path / "old", [("first", "Relu", [x], x)], step=step)
    code, text = last_sentence(tmp_path)
    assert code == 4, text
    assert "no step in common, and are compared by it: TARGET has 3, GOLDEN 0, 1" in text, text


def test_two_folders_with_a_dump_of_other_ops_each_are_two_files(tmp_path):
    dumped(tmp_path, "made")
    (path,) = [
        os.path.join(base, file)
        for base, _, files in os.walk(str(tmp_path / "made"))
        for file in files
        if ".relu." in file
    ]
    for name, file in (("new", os.path.basename(path)), ("old", "Relu.fused.1.0.1700000000000000")):
        (tmp_path / name).mkdir()
        shutil.copy(path, str(tmp_path / name / file))
    code, text = last_sentence(tmp_path)
    assert code == 0 and "pass" in text, text


def one_dump(folder, name, inputs, output):
    """Write a folder with one dump; return its path from ``folder``."""
    (folder / name.split("/")[0]).mkdir()
    write_dump(
        str(folder / name),
        *(
            [
                TensorData(
                    array.tobytes(), dtype_by_name("float16"), "ND", array.shape, array.shape
                )
                for array in arrays
            ]
            for arrays in (inputs, [output])
        ),
    )
    return name


def test_two_dumps_of_one_operator_in_two_versions_of_its_type_are_compared_with_inputs(tmp_path):
    feed, output = np.random.RandomState(3).standard_normal((2, 4, 16)).astype(np.float16)
    one_dump(tmp_path, "new/BatchMatMulV2.k.3.0.1700000000000000", [feed], output * 2)
    one_dump(tmp_path, "old/MatMul.m.5.0.1700000000000001", [feed], output)
    code, text = last_sentence(tmp_path)
    assert code == 1 and "its inputs are" in text and "different operators" not in text, text
    assert "In the other dump it is a MatMul." in text


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_of_two_dumps_of_different_operators_outputs_alone_are_compared(tmp_path, factor):
    feed, weights, output = np.random.RandomState(3).standard_normal((3, 4, 16)).astype(np.float16)
    output = np.maximum(output, 0)
    made = np.float16(output * np.float16(factor))
    new = one_dump(tmp_path, "new/Conv2D.convrelu.3.0.1700000000000000", [feed, weights], made)
    old = one_dump(tmp_path, "old/Relu.relu.5.0.1700000000000001", [feed - output], output)
    code, text = last_sentence(tmp_path)
    rows = rows_of(tmp_path)
    assert code == (factor > 1), text
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "convrelu:input:0": "expected_absent",
        "convrelu:input:1": "expected_absent",
        "convrelu:output:0": "fail" if factor > 1 else "pass",
    }
    said = "convrelu (Conv2D) and relu (Relu) are different operators: only outputs are compared"
    assert rows["convrelu:input:0"]["reason"] == said and said in text
    assert "network's input" not in text and "other data" not in text
    done = run_here(["goldwatch", "compare-op", new, old, "-o", "detail"], tmp_path)
    assert done.returncode == code and "convrelu:input:0: expected absent: " + said in done.stdout
    # Asked for, an input is compared.
    words = ["goldwatch", "compare-op", new, old, "--input", "0", "-o", "input"]
    assert "convrelu:input:0: fail" in run_here(words, tmp_path).stdout


@pytest.mark.parametrize("same", [True, False])
def test_dumps_of_two_names_that_read_other_data_may_be_two_operators(tmp_path, same):
    feed, other, output = np.random.RandomState(3).standard_normal((3, 4, 16)).astype(np.float16)
    one_dump(tmp_path, "new/Relu.act.3.0.1700000000000000", [feed], output)
    one_dump(tmp_path, "old/Relu.relu.5.0.1700000000000001", [feed if same else other], -output)
    code, text = last_sentence(tmp_path)
    assert code == 1 and "fed with other data" not in text
    assert ("they may be two different operators" in text) == (not same), text
    verdict = rows_of(tmp_path)["act:input:0"]["verdict"]
    assert verdict == ("pass" if same else "expected_absent")


def test_a_command_in_advice_on_two_dumps_stays_a_command(tmp_path):
    feed, output = np.random.RandomState(3).standard_normal((2, 4, 16)).astype(np.float16)
    one_dump(tmp_path, "new/Relu.relu.3.0.1700000000000000", [feed], output)
    one_dump(tmp_path, "old/Relu.relu.5.0.1700000000000001", [feed - output], output)
    code, text = last_sentence(tmp_path)
    assert code == 1 and "look at what the other build has there" in text, text
    assert "goldwatch the other" not in text and "Caffe" not in text


def test_diff_and_locate_of_two_folders_of_dumps_propose_to_compare_them(tmp_path):
    for name in ("new", "old"):
        dumped(tmp_path, name)
    for words in (["diff", "old", "new"], ["locate", "old", "new"]):
        done = run_here(["goldwatch", *words], tmp_path)
        assert done.returncode == 4
        advice = "the new build or run first, are compared by: goldwatch compare new old -o out"
        assert advice in " ".join(done.stderr.split())


@pytest.mark.parametrize("headers", [True, False])
def test_ops_of_one_build_alone_do_not_make_the_comparison_incomplete(tmp_path, headers):
    convolution(tmp_path, "old", [], headers)
    convolution(tmp_path, "new", [("conv", "bn")], headers)
    code, text = last_sentence(tmp_path)
    rows = rows_of(tmp_path)
    assert code == 0 and "1 operator in old alone: conv." in text, text
    assert "not_compared" not in {row["verdict"] for row in rows.values()}
    assert "conv:input:0" in rows["convbn:input:0"]["reason"]
    named = "convbn, bn in the original model (" if headers else "convbn ("
    assert "The first difference of the two dumps is in " + named in text
    assert "its inputs are equal" in text
    # What the other build calls otherwise is looked at by its two files.
    command = words_of_next(text)
    assert command[:2] == ["goldwatch", "compare-op"] and ".convbn." in command[2]
    assert ".bn." in command[3]
    done = run_here(command, tmp_path)
    assert done.returncode in (0, 3) and "convbn:output:0: pass" in done.stdout


@pytest.mark.parametrize("factor", [1.02, 1.5])
def test_a_wrong_op_that_one_build_alone_has_is_named_and_replayed(tmp_path, factor):
    convolution(tmp_path, "old", [("conv", "bn", "relu")], True)
    fault = ("conv", lambda array: array * np.float32(factor))
    convolution(tmp_path, "new", [], True, fault=fault)
    code, text = last_sentence(tmp_path, "-f", "new.json", "--original", "net.onnx")
    assert code == (factor == 1.5), text
    assert "4 ops: 3 right, 1 wrong" in text
    said = r"suspect 1: conv \(Conv\w*\), .* the device's own inputs; .*; nothing is compared with"
    assert re.search(said, text), text
    command = words_of_next(text)
    assert command[:2] == ["goldwatch", "replay"] and command[-4:-1] == ["--op", "conv", "-o"]
    done = run_here(command, tmp_path)
    assert done.returncode == 1 and "has an error of its own" in done.stdout


def test_an_op_that_one_build_alone_has_and_that_is_right_is_not_named(tmp_path):
    convolution(tmp_path, "old", [("conv", "bn", "relu")], True)
    convolution(tmp_path, "new", [], True)
    code, text = last_sentence(tmp_path, "-f", "new.json", "--original", "net.onnx")
    assert code == 0 and "4 ops: 4 right, 0 wrong" in text, text
    assert "is wrong" not in text and "Which of the two is right" not in text


@pytest.mark.parametrize("ended", ["new", "old"])
def test_a_run_that_ended_early_is_incomplete(tmp_path, ended):
    for name in ("new", "old"):
        dumped(tmp_path, name, without=["second"] * (name == ended))
    code, text = last_sentence(tmp_path)
    other = "old" if ended == "new" else "new"
    assert code == 3 and "1 operator in %s alone: second." % other in text, text


def test_an_op_of_the_model_whose_dump_is_lost_is_missed(tmp_path):
    dumped(tmp_path, "old")
    dumped(tmp_path, "new", without=["relu"])
    assert last_sentence(tmp_path)[0] == 0
    code, text = last_sentence(tmp_path, "-f", "net.json", "--force")
    assert code == 3 and "1 operator in old alone: relu." in text, text


@pytest.mark.parametrize("factor", [1.002, 1.5])
def test_neither_dump_is_called_golden_and_the_next_command_looks_at_the_op(tmp_path, factor):
    dumped(tmp_path, "old")
    dumped(tmp_path, "new", ("relu", lambda array: array * np.float32(factor)))
    code, text = last_sentence(tmp_path)
    assert code == (factor > 1.1), text
    assert "golden" not in text
    assert "Which of the two is right: -f MODEL.json (of TARGET's build) and --original" in text
    assert "next: goldwatch compare-op new/20260102030405/0/net/1/0 old relu -o out/detail" in text
    done = run_here(words_of_next(text), tmp_path)
    assert done.returncode == code and "golden" not in done.stdout, done.stdout
    code, text = last_sentence(
        tmp_path, "-f", "net.json", "--original", "net.onnx", "--force", "--table", "all"
    )
    assert "1 wrong" in text and "Which of the two" not in text
    # The other way round TARGET is right, and GOLDEN the wrong one.
    words = ["old", "new", "-f", "net.json", "--original", "net.onnx", "-o", "turned"]
    done = run_here(["goldwatch", "compare", *words], tmp_path)
    text = " ".join(done.stdout.split())
    assert "0 wrong" in text and "suspect" not in text, text
    if factor > 1.1:
        assert (
            "its inputs are equal in both dumps, and computed again from them it is right: the "
            "other dump's values are not what it makes of them. The om may lack an operator" in text
        )
    else:
        said = "Computed again from its own inputs, TARGET's relu is right: it is 0 % off what is "
        assert said + "computed, the other run 0.2" in text, text


def test_a_build_that_is_farther_from_what_is_computed_is_not_called_right(tmp_path):
    convolution(tmp_path, "old", [("conv", "bn", "relu")], True)
    fault = ("relu", lambda array: array * np.float32(1.0008))
    convolution(tmp_path, "new", [("conv", "bn", "relu")], True, fault=fault)
    code, text = last_sentence(tmp_path, "-f", "new.json", "--original", "net.onnx")
    assert code == 0 and "0 wrong" in text and "convbnrelu:output:0 differs (" in text, text
    assert "TARGET's convbnrelu is right" not in text
    found = re.search(
        r"convbnrelu is 0\.0(\d+) % off what is computed, the other run 0\.0(\d)", text
    )
    assert found and float("0." + found.group(1)) > float("0." + found.group(2)), text


def test_padding_of_the_device_makes_no_slice_and_no_elements(tmp_path):
    # Two values, one near 0 by cancellation, in a block of 256: a slice of it is one element.
    for name, small_value in (("old", 0.02), ("new", 0.026)):
        model = DeviceModel("net")
        values = (("a", [[0.5, 0.25]]), ("b", [[0.3, small_value]]))
        for op, array in values:
            tensor = DeviceTensor(np.float16(array), "FRACTAL_NZ", "ND", op)
            source = (("a", 0),) if op == "b" else ()
            model.add(DeviceOp(op, "MatMulV2", source, (tensor,), (op,)))
        model.write_tree(str(tmp_path / name))
    code, text = last_sentence(tmp_path, "--table", "none")
    assert code == 0 and "suspect" not in text, text
    row = rows_of(tmp_path)["b:output:0"]
    assert row["shape"] == [1, 2] and row["verdict"] == "pass" and not row["reason"]
    done = run_here(["goldwatch", "compare", "new", "old", "--exact", "-o", "exact"], tmp_path)
    with open(str(tmp_path / "exact" / "result.json"), encoding="utf-8") as stream:
        exact = json.load(stream)["rows"]
    assert done.returncode == 1
    assert next(row for row in exact if row["tensor"] == "b:output:0")["shape"] == [1, 1, 16, 16]


def parallel(folder, prefix, wrong=None, weights=True):
    """Write a network with two products of one input, one type and one form."""
    x = drawn(0)
    made = {name: drawn(number + 1) for number, name in enumerate(["first", "second"])}
    of_weights = {name: [drawn(number + 7)] if weights else [] for number, name in enumerate(made)}
    if wrong is not None:
        made[wrong] = np.roll(made[wrong], 1, 0)
    total = made["first"] + made["second"]
    ops = [(prefix + "start", "Relu", [drawn(20)], x)]
    ops += [
        (prefix + name, "MatMulV2", [x, *of_weights[name]], array) for name, array in made.items()
    ]
    ops += [
        (prefix + "total", "Add", list(made.values()), total),
        (prefix + "end", "Neg", [total], -total),
    ]
    tree(folder, ops)


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("wrong", [None, "first", "second", "total"])
def test_operators_of_other_names_are_the_same_by_what_they_read(tmp_path, wrong, weights):
    parallel(tmp_path / "old", "", None, weights)
    parallel(tmp_path / "new", "model_", None if wrong == "total" else wrong, weights)
    if wrong == "total":
        shutil.rmtree(str(tmp_path / "new"))
        x, first, second = drawn(0), drawn(1), drawn(2)
        more = [[drawn(7)], [drawn(8)]] if weights else [[], []]
        total = (first + second) * np.float16(1.25)
        tree(tmp_path / "new", [
            ("model_start", "Relu", [drawn(20)], x),
            ("model_first", "MatMulV2", [x, *more[0]], first),
            ("model_second", "MatMulV2", [x, *more[1]], second),
            ("model_total", "Add", [first, second], total),
            ("model_end", "Neg", [total], -total),
        ])  # fmt: skip
    code, text = last_sentence(tmp_path)
    rows = rows_of(tmp_path)
    for name in ("first", "second", "total", "end"):
        row = rows["model_%s:output:0" % name]
        assert row["reason_codes"] == "paired_across=%s:output:0" % name, row
        assert rows[name]["reason"] == "TARGET calls it model_" + name
    assert "alone" not in text
    if wrong is None:
        assert code == 0 and "tensors that both dumps have are equal." in text, text
    else:
        assert code == 1 and "model_%s (" % wrong in text[text.index(" suspect ") :], text
        assert "model_%s " % wrong in text[text.index("fail: ") :].split("is the first")[0], text
        assert "fused other operators" not in text
    assert "its tensors cannot be read" not in text
    assert (", 1 wrong" in text) == (wrong == "total"), text


@pytest.mark.parametrize("kind", ["same", "wrong", "exchanged", "another"])
def test_outputs_alone_of_other_names_are_paired_by_the_order_of_operators(tmp_path, kind):
    """Dumps without inputs tell nothing of what feeds an operator."""
    first, second, total = drawn(1), drawn(2), drawn(3)
    tree(tmp_path / "old", [
        ("first", "MatMulV2", [], first), ("second", "MatMulV2", [], second),
        ("total", "Add", [], total), ("end", "Neg", [], -total),
    ])  # fmt: skip
    made = [("m_first", first), ("m_second", np.roll(second, 1, 0) if kind == "wrong" else second)]
    made = made[::-1] if kind == "exchanged" else made
    changed = total * np.float16(1.5 if kind in ("wrong", "another") else 1)
    tree(tmp_path / "new", [
        *((name, "MatMulV2", [], array) for name, array in made),
        *([("m_more", "Relu", [], drawn(9))] if kind == "another" else []),
        ("m_total", "Add", [], changed), ("m_end", "Neg", [], -changed),
    ])  # fmt: skip
    code, text = last_sentence(tmp_path)
    rows = rows_of(tmp_path)
    paired = {name: row["reason_codes"] for name, row in rows.items() if name.startswith("m_")}
    if kind == "another":
        assert code == 3 and not paired["m_total:output:0"].startswith("paired"), text
        return
    assert paired == {
        "m_%s:output:0" % name: "paired_across=%s:output:0" % name
        for name in ("first", "second", "total", "end")
    }
    assert code == (kind == "wrong") and "alone" not in text
    assert ("m_second (MatMulV2) is the first operator outside" in text) == (kind == "wrong"), text
    if kind == "wrong":
        reason = rows["m_total:output:0"]["reason"]
        assert "the same types and shapes in the same order" in reason


def test_an_operator_that_one_build_fuses_is_not_the_same_as_without_what_is_fused(tmp_path):
    x, made = drawn(0), drawn(1)
    behind = np.maximum(made, 0)
    tree(tmp_path / "new", [
        ("conv", "Conv2D", [x], made), ("relu", "Relu", [made], behind),
        ("end", "Neg", [behind], -behind),
    ])  # fmt: skip
    wrong = behind * np.float16(1.5)
    tree(tmp_path / "old", [("convrelu", "Conv2D", [x], wrong), ("end", "Neg", [wrong], -wrong)])
    code, text = last_sentence(tmp_path)
    rows = rows_of(tmp_path)
    assert code == 1 and rows["conv:output:0"]["verdict"] == "expected_absent", text
    assert rows["relu:output:0"]["reason_codes"] == "paired_across=convrelu:output:0"


def test_weights_that_differ_are_no_other_input_of_the_run(tmp_path):
    """A model's json tells that they are a constant."""
    x, weights, made = drawn(0), drawn(1), drawn(2)
    for name, factor in (("old", 1), ("new", 1.01)):
        model = DeviceModel("net")
        model.add(DeviceOp("x", "Data", outputs=(DeviceTensor(x),)))
        model.add(DeviceOp("w", "Const", outputs=(DeviceTensor((weights * factor).astype("f2")),)))
        out = DeviceTensor((made * factor).astype(np.float16))
        model.add(DeviceOp("op", "MatMulV2", inputs=(("x", 0), ("w", 0)), outputs=(out,)))
        model.add(DeviceOp("end", "Neg", inputs=(("op", 0),), outputs=(DeviceTensor(-out.array),)))
        write_files(str(tmp_path / name), model.dumps())
        write_model(model, str(tmp_path / (name + ".json")), "")
    _, text = last_sentence(tmp_path)
    told = "The first tensor that differs is an input, op:input:1 ("
    assert told in text and "no dumped operator makes it: the runs had other inputs, or it" in text
    _, text = last_sentence(tmp_path, "-f", "new.json", "--force")
    assert told in text and "it is a constant of the model (weights), of which the bui" in text
    assert words_of_next(text)[:2] == ["goldwatch", "compare-op"]


def test_an_input_that_is_rounded_to_the_type_of_the_other_build_is_equal(tmp_path):
    x = np.random.RandomState(0).standard_normal((64, 32)).astype(np.float32)
    for name, dtype in (("old", np.float16), ("new", np.float32)):
        made = np.tanh(x.astype(dtype))
        tree(tmp_path / name, [("op", "Tanh", [x.astype(dtype)], made)])
    code, text = last_sentence(tmp_path)
    assert code == 0 and "other inputs" not in text, text
    assert "its inputs are equal but for their type (float32, in the other dump float16)" in text


@pytest.mark.parametrize(
    "dtype, factor, is_told",
    [(np.float16, 1.0003, True), (np.float16, 1.004, False), (np.float32, 1.0003, False)],
)
def test_a_difference_that_rounding_may_come_to_is_told_as_such(tmp_path, dtype, factor, is_told):
    x = np.random.RandomState(0).standard_normal((64, 32)).astype(dtype)
    for name, times in (("old", 1.0), ("new", factor)):
        made = (np.tanh(x.astype(np.float64)) * times).astype(dtype)
        tree(tmp_path / name, [("op", "Tanh", [x], made)])
    code, text = last_sentence(tmp_path)
    assert code == 0 and "its inputs are equal, op:output:0 differs (0." in text, text
    assert ("and rounding to float16 alone may come to as much." in text) == is_told, text


def test_models_without_an_original_in_common_are_no_fused_and_unfused_build(tmp_path):
    for name in ("old", "new"):
        dumped(tmp_path, name)
    os.rename(str(tmp_path / "net.json"), str(tmp_path / "new.json"))
    text = (tmp_path / "new.json").read_text()
    for op in ("first", "relu", "second"):
        text = text.replace('"%s' % op, '"other_%s' % op)
    (tmp_path / "old.json").write_text(text)
    words = ["new", "old", "-f", "new.json", "--unfused-om", "old.json", "-o", "out"]
    done = run_here(["goldwatch", "compare", *words], tmp_path)
    assert done.returncode == 4 and "old.json has no original operator of new.json" in done.stderr


def blocks(folder, name, fused, renamed, fault=None):
    """Write the dump of four equal blocks (convolution, BatchNormalization, ReLU) behind a pooling
    and before another one, with BatchNormalization and ReLU fused or not, and other names of ops or
    not; a fault is named by its op.
    """
    random, weights, nodes = np.random.RandomState(0), [], []
    called = {}

    def node(op_type, op, value, *more, **attributes):
        called[op] = "%s_%d" % (op_type, 3 * len(nodes)) if renamed else op
        made = helper.make_node(op_type, [value, *more], [op], called[op], **attributes)
        nodes.append(made)
        return op

    def weight(*shape):
        array = np.abs(random.standard_normal(shape)).astype(np.float32)
        if len(shape) > 1:
            array = (random.standard_normal(shape) / 6).astype(np.float32)
        weights.append(build.weight("w%d" % len(weights), array))
        return weights[-1].name

    value = node("MaxPool", "pool0", "x", kernel_shape=[2, 2])
    for number in range(4):
        value = node("Conv", "conv%d" % number, value, weight(16, 16, 3, 3), pads=[1] * 4)
        value = node("BatchNormalization", "bn%d" % number, value, *(weight(16) for _ in range(4)))
        value = node("Relu", "relu%d" % number, value)
    value = node("GlobalAveragePool", "gap", value)
    values = [[build.value("x", (1, 16, 9, 9))], [build.value(value, (1, 16, 1, 1))]]
    path = str(folder / (name + ".onnx"))
    onnx.save(build.model(nodes, *values, weights), path)
    faults = parse_op_faults({} if fault is None else {called[fault]: "scale:1.3"})
    network = CompiledNetwork(
        read_network(path, None, {}), Build(fold=fused, fuse=fused), "net", faults
    )
    feeds = {"x": np.random.RandomState(5).standard_normal((1, 16, 9, 9)).astype(np.float32)}
    model = network.run(feeds).model
    write_files(str(folder / name), model.dumps())
    write_model(model, str(folder / (name + ".json")), "")
    return called


@pytest.mark.parametrize("wrong", [None, "new", "old"])
@pytest.mark.parametrize("renamed", [True, False])
@pytest.mark.parametrize("fused_is_new", [True, False])
def test_builds_that_fuse_otherwise_are_paired_behind_a_wrong_operator(
    tmp_path, fused_is_new, renamed, wrong
):
    """Nothing but the order of operators and what they read tells which belong together."""
    faults = {wrong: "bn1"}
    called = blocks(tmp_path, "new", fused_is_new, renamed, faults.get("new"))
    blocks(tmp_path, "old", not fused_is_new, False, faults.get("old"))
    code, text = last_sentence(tmp_path)
    rows = rows_of(tmp_path)
    for number in range(4):
        op = called["relu%d" % number]
        op = called["conv%d" % number] + op if fused_is_new else op
        there = "relu%d" % number if fused_is_new else "conv%drelu%d" % (number, number)
        assert rows[op + ":output:0"]["reason_codes"] == "paired_across=%s:output:0" % there, op
    row = rows[called["gap"] + ":output:0"]
    assert row["golden"] == "gap" and row["verdict"] == ("fail" if wrong else "pass"), row
    assert code == (wrong is not None), text
    assert "--unfused-om" not in text
    op = called["conv1"] + called["relu1"] if fused_is_new else called["relu1"]
    assert ("%s (" % op in text and "is the first operator outside" in text) == bool(wrong), text
    if wrong:
        assert text.split(" is the first operator outside")[0].rsplit(" ", 2)[1] == op, text
    code, text = last_sentence(tmp_path, "--exact", "--force")
    assert code == 1 and "given other data" not in text, text
    exact = rows_of(tmp_path)
    for name, row in rows.items():
        if row["kind"] == "output":
            assert exact[name]["reason_codes"] == row["reason_codes"], name


def test_an_op_of_the_same_name_that_another_one_is_fused_into_is_another_tensor(tmp_path):
    convolution(tmp_path, "new", [], True, first_name=True)
    convolution(tmp_path, "old", [("conv", "bn")], True, first_name=True)
    words = ["-f", "new.json", "--unfused-om", "old.json"]
    code, text = last_sentence(tmp_path, *words)
    rows = rows_of(tmp_path)
    assert (code, rows["conv:output:0"]["verdict"]) == (0, "expected_absent"), text
    assert rows["bn:output:0"]["verdict"] == "pass"


def test_a_wrong_op_of_a_partial_dump_is_not_paired_with_a_later_one_of_its_type(tmp_path):
    """conv3 reads what conv2 makes, as if fused into it; by chance its output is nearer."""
    state = np.random.RandomState(4)
    held = [
        build.weight(name, state.standard_normal((8, 8, 1, 1)).astype(np.float32) * np.float32(0.4))
        for name in "uvw"
    ]
    values = ["x", "a", "b", "y"]
    nodes = [
        helper.make_node("Conv", [values[at], "uvw"[at]], [values[at + 1]], "conv%d" % (at + 1))
        for at in range(3)
    ]
    feeds = {"x": state.standard_normal((1, 8, 6, 6)).astype(np.float16).astype(np.float32)}
    made = build.model(
        nodes, [build.value("x", (1, 8, 6, 6))], [build.value("y", (1, 8, 6, 6))], held
    )
    build.save(tmp_path / "net.onnx", made)
    right = on_device(str(tmp_path / "net.onnx"), feeds)
    third = next(op for op in right.ops if op.name == "conv3").outputs[0].array

    def near(array):
        return (third + np.roll(third, 1, 1)).astype(array.dtype)

    for name, fault in (("old", None), ("new", ("conv2", near))):
        model = on_device(str(tmp_path / "net.onnx"), feeds, (), fault)
        if name == "new":
            model.ops = [op for op in model.ops if op.name != "conv3"]
        write_files(str(tmp_path / name), model.dumps())
    code, text = last_sentence(tmp_path)
    row = rows_of(tmp_path)["conv2:output:0"]
    assert (code, row["verdict"]) == (1, "fail"), text
    assert "paired" not in row["reason"] and "its inputs are equal in both dumps" in text


def test_what_originals_lead_to_is_not_paired_anew(tmp_path):
    blocks(tmp_path, "new", False, False, "relu3")
    blocks(tmp_path, "old", True, False)
    code, text = last_sentence(tmp_path, "-f", "new.json", "--unfused-om", "old.json")
    row = rows_of(tmp_path)["relu3:output:0"]
    assert code == 1 and "Conv2D.conv3relu3" in row["golden_file"], text
    assert not row["reason_codes"], row
    assert run_here(words_of_next(text), tmp_path).returncode == 1


def test_the_command_for_an_op_of_another_name_needs_no_model(tmp_path):
    """Neither does what was given beside the model."""
    x, made = drawn(0), drawn(1)
    for name, op in (("new", "a"), ("old", "b")):
        model = DeviceModel("net")
        model.add(DeviceOp("x", "Data", outputs=(DeviceTensor(x),)))
        for number, op_name in enumerate((op, "end")):
            array = made * np.float16(1.5 if name == "new" else 1)
            out = DeviceTensor(array if not number else -array)
            source = "end" if number == 2 else "x" if not number else op
            model.add(DeviceOp(op_name, "Neg", inputs=((source, 0),), outputs=(out,)))
        write_files(str(tmp_path / name), model.dumps())
        write_model(model, str(tmp_path / (name + ".json")), "")
    words = ["-f", "new.json", "--unfused-om", "old.json"]
    code, text = last_sentence(tmp_path, *words)
    assert code == 1 and rows_of(tmp_path)["a:output:0"]["reason_codes"], text
    assert run_here(words_of_next(text), tmp_path).returncode == 1


def test_where_the_order_fits_twice_nothing_is_paired_by_it():
    same = [("Conv2D", (1, 16)), ("Relu", (1, 16))]
    assert _in_common(same[:1], same[:1] * 2) == []
    assert _in_common(same[:1] * 2, [*same, *same]) == [(0, 0), (1, 2)]
    assert _in_common([*same, *same], [*same, same[0]]) == [(0, 0), (1, 1), (2, 2)]
    assert _ascending([(0, 5), (1, 0), (2, 1), (3, 9), (4, 3)]) == [(1, 0), (2, 1), (4, 3)]
