"""Recomputing operators of ONNX networks: right ones are not accused, wrong ones are suspects
though they pass.
"""

from __future__ import annotations

import glob
import json
import os
import shlex
import shutil
from pathlib import Path

import numpy as np
import onnx_models as build
import onnx_networks as networks
import pytest
from in_process import run_here
from onnx import helper
from onnx_run import float16_values
from scene_networks import explanation_kinds, only_suspect

import goldwatch
from goldwatch.run import recomputation
from goldwatch.store.store import RunStore

node = helper.make_node
FUSED = [("Conv_0", "/bn/BatchNormalization", "/relu/Relu")]
FIRST = "Conv_0/bn/BatchNormalization/relu/Relu"


def cnn(net, **options):
    return net.prepare(networks.cnn(), {"x": float16_values((2, 3, 16, 16))}, FUSED, **options)


def transformer(net, **options):
    return net.prepare(networks.transformer(), {"x": float16_values((1, 8, 32))}, **options)


@pytest.mark.parametrize("mode", ["all", "output"])
@pytest.mark.parametrize("network", [cnn, transformer])
def test_a_healthy_onnx_run_has_no_wrong_operator(net, network, mode):
    network(net, mode=mode)
    code, result, text = net.compare("--recompute", "all")
    found = result["summary"]["recomputed"]
    assert (code, found["wrong"], result["summary"]["suspects"]) == (0, 0, [])
    assert found["ops"] == found["right"] >= 6 and found["model"].endswith("m.onnx")
    assert (
        "computed again from the device's own inputs: %d ops: %d right, 0 wrong"
        % (found["ops"], found["ops"])
        in text
    )


@pytest.mark.parametrize(
    "op, factor, said, kind",
    [("/conv2/Conv", 1.01, "1.0 %", "scale"), ("/fc/Gemm", 0.99, "1.00 %", "attribute")],
)
def test_an_operator_one_percent_off_passes_and_is_a_suspect(net, op, factor, said, kind):
    cnn(net, fault=(op, lambda array: array * np.float32(factor)))
    code, result, text = net.compare()
    suspect = only_suspect(result["summary"])
    assert (code, result["summary"]["failed"]) == (0, 0)
    assert (suspect["op"], explanation_kinds(suspect)[0]) == (
        op,
        kind,
    ) and "differs by %s from what is computed" % said in suspect["evidence"]
    assert net.compare("--strict")[0] == 1


def test_an_unfinished_run_says_that_nothing_was_computed_again(net):
    cnn(net, fault=("/conv2/Conv", lambda array: array * np.float32(1.5)))
    assert only_suspect(net.compare()[1]["summary"])["confidence"] == "high"
    with RunStore.begin(net.path("out"), RunStore.open(net.path("out")).get("inputs")):
        pass  # A second start takes the summary away until its end.
    found = goldwatch.open_result(net.path("out"))
    assert (
        not found.finished
        and "no operator was computed again, which may clear those that it names. /conv2/Conv"
        in found.sentence
    )
    suspect = only_suspect(found.summary.document())
    assert (suspect["op"], suspect["confidence"]) == (
        "/conv2/Conv",
        "low",
    ) and "told by statistics alone" in suspect["evidence"]
    done = run_here(
        [
            "goldwatch",
            "watch",
            "--merge",
            "out",
            "-o",
            "merged",
            "--until-idle",
            "0.1",
            "-q",
            "--table",
            "none",
        ],
        net.folder,
    )
    said = " ".join(done.stdout.split())
    assert "confidence low" in said and "operators are computed again only when it ends" in said


def test_a_merge_takes_over_what_its_hosts_computed(net):
    cnn(net, fault=("/conv2/Conv", lambda array: array * np.float32(1.01)))
    alone = only_suspect(net.compare()[1]["summary"])
    words = [
        "goldwatch",
        "watch",
        "--merge",
        "out",
        "-o",
        "merged",
        "--until-idle",
        "0.1",
        "-q",
        "--table",
        "none",
    ]
    assert run_here(words, net.folder).returncode == 0
    with open(net.path("merged", "result.json"), encoding="utf-8") as stream:
        merged = only_suspect(json.load(stream)["summary"])
    assert (merged["op"], merged["score"]) == (alone["op"], alone["score"])
    assert merged["evidence"] == "on host out " + alone["evidence"]


@pytest.mark.parametrize(
    "mode, says",
    [
        ("output", "may be its own, or that of other data given to the device"),
        ("all", "is its own: the device computed Conv with its BatchNormalization other than"),
    ],
)
def test_nothing_certain_is_said_of_an_op_whose_input_was_not_dumped(net, mode, says):
    cnn(net, mode=mode, fault=("Conv_0", lambda array: array * np.float32(1.25)))
    code, result, text = net.compare()
    suspect = only_suspect(result["summary"])
    assert (code, suspect["op"]) == (1, FIRST) and "so the error " + says in text
    assert (
        ("was not dumped" in suspect["evidence"])
        == ("device's own inputs" not in suspect["evidence"])
        == (mode == "output")
    )


def squeezed_within_an_op():
    """A squeezed value of which a later op reads the shape, while the device hands out only what is
    made of it.
    """
    nodes = [
        node("Slice", ["x", "from", "to", "axis"], ["part"], name="slice"),
        node("Squeeze", ["part", "axis"], ["flat"], name="squeeze"),
        node("Mul", ["flat", "two"], ["twice"], name="mul"),
        node("Shape", ["flat"], ["wanted"], name="shape"),
        node("Reshape", ["twice", "wanted"], ["again"], name="reshape"),
        node("MatMul", ["again", "w"], ["y"], name="fc"),
    ]
    numbers = {
        "w": float16_values((8, 8)),
        "from": np.array([0]),
        "to": np.array([1]),
        "axis": np.array([0]),
        "two": np.float32(2.0),
    }
    initializers = [build.weight(name, array) for name, array in numbers.items()]
    return build.model(
        nodes, [build.value("x", (3, 4, 8))], [build.value("y", (4, 8))], initializers
    )


def test_golden_data_tells_the_shape_of_a_value_within_another_op(net):
    net.prepare(
        squeezed_within_an_op(),
        {"x": float16_values((3, 4, 8))},
        [("slice", "squeeze", "mul"), ("shape", "reshape", "fc")],
    )
    code, result, _ = net.compare("--recompute", "all")
    found = result["summary"]["recomputed"]
    assert (code, found["ops"], found["right"], found["not_computed"]) == (0, 2, 2, [])


def test_channels_further_on_are_told_as_the_order_of_the_weights(net):
    cnn(net, fault=("/conv2/Conv", lambda array: np.roll(array, 1, axis=1)))
    suspect = only_suspect(net.compare()[1]["summary"])
    assert suspect["explanations"][0]["sentence"].startswith(
        "the device computed Conv with the weights rolled by +1 along axis 0"
    )


def test_an_operator_that_did_nothing_is_explained_so(net):
    before = cnn(net)
    pooled = before.output("MaxPool_1").array.astype(np.float32)
    net.dump({"x": float16_values((2, 3, 16, 16))}, FUSED, ("/conv2/Conv", lambda array: pooled))
    code, result, _ = net.compare()
    suspect = only_suspect(result["summary"])
    assert (code, suspect["op"], explanation_kinds(suspect)) == (1, "/conv2/Conv", ["did-nothing"])


@pytest.mark.parametrize(
    "curve, said",
    [
        ("HardSwish", "computed no activation (Identity) for HardSwish"),
        ("Relu", "the bias missing"),
    ],
)
def test_an_error_partly_hidden_by_an_activation_is_explained(net, curve, said):
    nodes = [
        node("Conv", ["x", "w", "b"], ["t"], name="conv"),
        node(curve, ["t"], ["y"], name="act"),
    ]
    weights = {"w": float16_values((4, 3, 1, 1)), "b": np.full(4, -0.25, np.float32)}
    feeds, fused = {"x": float16_values((1, 3, 12, 12))}, [("conv", "act")]
    initializers = [build.weight(name, array) for name, array in weights.items()]
    net.prepare(
        build.model(
            nodes,
            [build.value("x", (1, 3, 12, 12))],
            [build.value("y", (1, 4, 12, 12))],
            initializers,
        ),
        feeds,
        fused,
    )
    sums = np.einsum("oi,nihw->nohw", weights["w"][:, :, 0, 0], feeds["x"])
    wrong = {"HardSwish": sums - np.float32(0.25), "Relu": np.maximum(sums, 0)}[curve]
    net.dump(feeds, fused, ("act", lambda array: wrong))
    explanation = only_suspect(net.compare()[1]["summary"])["explanations"][0]
    assert explanation["kind"] == "attribute" and said in explanation["sentence"]


def not_finite(array):
    array = array.copy()
    array.reshape(-1)[5] = np.nan
    return array


@pytest.mark.parametrize("op", ["/attn/q/MatMul", "/norm1/LayerNormalization"])
def test_operators_that_pass_nan_on_are_not_accused(net, op):
    transformer(net, fault=(op, not_finite))
    code, result, _ = net.compare("--recompute", "all")
    assert (
        code,
        only_suspect(result["summary"])["op"],
        result["summary"]["recomputed"]["wrong"],
    ) == (
        1,
        op,
        1,
    )


def exchange(net, *names):
    files = [only_file(net, "golden", name + ".0.*.npy") for name in names]
    arrays = [np.load(path) for path in files]
    for path, array in zip(files, reversed(arrays)):
        np.save(path, array)


def only_file(net, folder, name):
    (path,) = glob.glob(net.path(folder, name))
    return path


def test_exchanged_golden_files_are_reported_and_no_operator_accused(net):
    transformer(net)
    exchange(net, "_attn_q_MatMul", "_attn_k_MatMul")
    code, result, text = net.compare()
    suspects = {
        suspect["op"]: explanation_kinds(suspect)[0] for suspect in result["summary"]["suspects"]
    }
    assert code == 1 and suspects == {
        "/attn/q/MatMul": "wrong-golden",
        "/attn/k/MatMul": "wrong-golden",
    }
    assert result["summary"]["recomputed"]["wrong"] == 0 and "error is its own" not in text


def test_simple_operators_are_computed_without_the_original_model(net):
    transformer(net, fault=("/attn/Softmax", lambda array: array * np.float32(1.02)))
    for name in ("m.onnx", os.path.join("golden", "manifest.json")):
        os.remove(net.path(name))
    code, result, _ = net.compare("--recompute", "all")
    found, suspect = result["summary"]["recomputed"], only_suspect(result["summary"])
    assert (code, suspect["op"], found["wrong"], found["model"]) == (0, "/attn/Softmax", 1, None)
    assert found["right"] >= 4


STRICT = [
    ("RelativeEuclideanDistance<=1e-6", "keep to the default, RelativeEuclideanDistance<0.03"),
    ("MaxAbsoluteError<=1e-9", "keep to the default limits"),
    ("type=Conv*:CosineSimilarity>=1", "keep to the default, CosineSimilarity>0.99"),
]


@pytest.mark.parametrize("limit, usual", STRICT)
def test_limits_stricter_than_rounding_are_called_so_and_blame_no_operator(net, limit, usual):
    cnn(net)
    code, result, text = net.compare(
        "--recompute", "all", "--limit", limit, "--limit", "AccumulatedRelativeError<9999"
    )
    assert (
        code == 1
        and result["summary"]["recomputed"]["wrong"] == 0
        and result["summary"]["suspects"] == []
    )
    assert (
        "every operator up to it was computed again" in text
        and "stricter than the rounding of float16" in text
    )
    explained = float(text.split("rounding in this one explains ")[1].split(" %")[0])
    assert 0.01 < explained < 0.05 and "no operator need be wrong" in text and usual in text
    command = text.split("next: ")[1].split(" note: ")[0].replace("\\ ", "")
    assert (
        command
        == "goldwatch compare dump golden -f net.json --limit 'AccumulatedRelativeError<9999' "
        "--recompute all -o out/default"
    )
    assert run_here(shlex.split(command), net.folder).returncode == 0


def test_a_too_strict_limit_is_reported_without_computing_again(net):
    cnn(net)
    code, _, text = net.compare("--recompute", "none", "--limit", "RelativeEuclideanDistance<=1e-6")
    assert code == 1 and "rounding to float16 alone may make 0.049 %: the limit is stricter" in text
    # The largest error tells of one element: that it is rounding is not known without computing
    # again.
    _, _, text = net.compare("--recompute", "none", "--limit", "MaxAbsoluteError<=1e-9")
    assert "stricter" not in text


@pytest.mark.parametrize(
    "op, named", [(FIRST, False), ("/conv2/Conv", True)], ids=["first", "second"]
)
def test_strict_limits_do_not_hide_an_operator_that_is_wrong(net, op, named):
    cnn(net, fault=(op.replace(FIRST, "/relu/Relu"), lambda array: array * np.float32(1.02)))
    _, result, text = net.compare(
        "--recompute", "all", "--limit", "RelativeEuclideanDistance<=1e-6"
    )
    assert only_suspect(result["summary"])["op"] == op and "no operator need be wrong" not in text
    assert ("stricter than the rounding of float16" in text) is named
    assert "next: goldwatch compare-op" in text


def test_a_difference_by_an_assumed_input_is_not_counted_as_wrong(net):
    feeds = {"x": float16_values((2, 3, 16, 16))}
    cnn(net)
    net.dump({"x": feeds["x"][:, ::-1].copy()}, FUSED, mode="output")
    _, result, text = net.compare("--recompute", "all")
    found = result["summary"]["recomputed"]
    assert explanation_kinds(only_suspect(result["summary"]))[0] == "other-input"
    assert (found["wrong"], found["assumed"], found["right"] + found["assumed"]) == (
        0,
        1,
        found["ops"],
    )
    assert "0 wrong; 1 otherwise of golden data's input" in text


def test_recompute_none_computes_nothing(net):
    cnn(net, fault=("/conv2/Conv", lambda array: array * np.float32(1.01)))
    code, result, text = net.compare("--recompute", "none")
    assert code == 0 and "recomputed" not in result["summary"] and "computed again" not in text


def test_recompute_auto_computes_urgent_operators_first_within_its_time(net, monkeypatch):
    cnn(net)
    monkeypatch.setattr(recomputation, "SHARE", 0.0)
    monkeypatch.setattr(recomputation, "LEAST_COST_S", 3.5e-3)
    some = net.compare()[1]["summary"]["recomputed"]
    code, result, text = net.compare()
    assert 0 < some["ops"] < 6 and result["summary"]["recomputed"] == some
    assert (
        some["ops"] + some["left_out"] >= 6
        and "%d left out for the time they take" % some["left_out"] in text
    )
    monkeypatch.setattr(recomputation, "LEAST_COST_S", 0.0)
    assert "recomputed" not in net.compare()[1]["summary"]
    assert net.compare("--recompute", "all")[1]["summary"]["recomputed"]["ops"] == 6
    net.dump(
        {"x": float16_values((2, 3, 16, 16))},
        FUSED,
        ("/fc/Gemm", lambda array: array * np.float32(1.5)),
    )
    assert net.compare()[1]["summary"]["recomputed"]["wrong"] == 1


def test_an_operator_whose_rows_are_the_same_everywhere_is_computed_at_one_place(net, monkeypatch):
    cnn(net)
    monkeypatch.setattr(recomputation, "SHARE", 1.0)
    monkeypatch.setattr(recomputation, "LEAST_COST_S", 0.0)
    (step,) = glob.glob(net.path("dump", "*", "*", "*", "*", "0"))
    for number in "12":
        shutil.copytree(step, os.path.join(os.path.dirname(step), number))
    _, result, text = net.compare()
    found = result["summary"]["recomputed"]
    assert (found["ops"], found["right"]) == (6, 6)
    assert found["left_out"] == 12 and "%d left out" % found["left_out"] in text
    assert net.compare("--recompute", "all")[1]["summary"]["recomputed"]["ops"] == 18
    kept = net.path("kept")
    shutil.move(net.path("dump"), kept)
    net.dump(
        {"x": float16_values((2, 3, 16, 16))},
        FUSED,
        ("/fc/Gemm", lambda array: array * np.float32(1.004)),
    )
    (other,) = glob.glob(net.path("dump", "*", "*", "*", "*", "0"))
    shutil.rmtree(os.path.join(kept, os.path.relpath(step, net.path("dump")), "..", "2"))
    shutil.move(
        other, os.path.join(kept, os.path.relpath(os.path.dirname(step), net.path("dump")), "2")
    )
    shutil.rmtree(net.path("dump"))
    shutil.move(kept, net.path("dump"))
    _, result, _ = net.compare()
    assert result["summary"]["recomputed"]["wrong"] == 1
    assert only_suspect(result["summary"])["op"] == "/fc/Gemm"


def test_an_original_model_that_moved_is_reported_and_can_be_given(net):
    cnn(net)
    os.makedirs(net.path("elsewhere"))
    os.rename(net.path("m.onnx"), net.path("elsewhere", "it.onnx"))
    code, result, text = net.compare("--recompute", "all")
    assert (
        code == 0
        and result["summary"]["recomputed"]["model"] is None
        and "m.onnx is gone since golden data were made of it" in text
    )
    code, result, text = net.compare("--recompute", "all", "--original", "elsewhere/it.onnx")
    assert (
        result["summary"]["recomputed"]["model"] == "elsewhere/it.onnx"
        and result["summary"]["recomputed"]["right"] == 6
    )


def test_an_original_of_another_model_is_warned_of_and_not_used(net):
    cnn(net)
    nodes = [helper.make_node("Neg", ["x"], ["y"], name="other")]
    values = [build.value("x", (2, 3)), build.value("y", (2, 3))]
    build.save(Path(net.path("other.onnx")), build.model(nodes, values[:1], values[1:], []))
    _, result, text = net.compare("--recompute", "all", "--original", "other.onnx")
    assert "warning: --original other.onnx is of another model: none of the " in text
    assert result["summary"]["recomputed"]["model"] is None
    assert "is no output of a node of the model" not in text
    assert "of another model" not in net.compare("--original", "m.onnx")[2]


def test_a_missing_original_model_is_an_error(net):
    cnn(net)
    assert net.compare("--original", "no.onnx")[0] in (2, 4)


@pytest.mark.parametrize("mode", ["all", "output"])
def test_other_input_is_the_only_explanation(net, mode):
    cnn(net, device_feeds={"x": float16_values((2, 3, 16, 16), 5)}, mode=mode)
    code, result, text = net.compare()
    suspect = only_suspect(result["summary"])
    assert (
        code == 1
        and suspect["op"].startswith("Conv_0")
        and explanation_kinds(suspect) == ["other-input"]
    )
    # Where the input was not dumped this is not seen, but guessed.
    assert (
        ("no operator need be wrong" in text) == (mode == "all")
        and "fed with other data" in text
        and ("next: goldwatch compare-op" in text) == (mode != "all")
        and "next: goldwatch replay" not in text
    )
    # Such an input accuses nobody, in no report.
    assert ("1 suspect" in text) == ("suspect 1: " in text) == (mode != "all")
    assert (suspect["confidence"] == "none") == (mode == "all")
    words = ["report", "out", "--markdown", "r.md", "--junit", "r.xml", "--html", "r.html"]
    assert run_here(["goldwatch", *words], net.folder).returncode == 0
    told = {"r.md": "### No suspect", "r.xml": "no suspect: ", "r.html": "no suspect: no operator"}
    for name, said in told.items():
        found = Path(net.path(name)).read_text(encoding="utf-8")
        assert (said in found) == (mode == "all"), name


def cancelling(net, **options):
    """What MatMul makes of a sum is next to nothing beside it, so that rounding shows; and counts
    little in the output.
    """
    state = np.random.RandomState(3)
    weights = state.standard_normal((64, 32)).astype(np.float16).astype(np.float32)
    weights[1::2] = -weights[::2]
    arrays = {"offset": np.float32(1000.0), "w": weights, "small": np.float32(2.0**-10)}
    nodes = [
        node("Add", ["x", "offset"], ["a"], name="raise"),
        node("MatMul", ["a", "w"], ["b"], name="cancel"),
        node("Mul", ["b", "small"], ["c"], name="shrink"),
        node("Add", ["c", "z"], ["y"], name="out"),
    ]
    inputs = [build.value("x", (32, 64)), build.value("z", (32, 32))]
    proto = build.model(
        nodes,
        inputs,
        [build.value("y", (32, 32))],
        [build.weight(name, array) for name, array in arrays.items()],
    )
    return net.prepare(
        proto, {"x": float16_values((32, 64)), "z": float16_values((32, 32), 6)}, **options
    )


def verdicts(result):
    return {row["tensor"]: row["verdict"] for row in result["rows"]}


def test_an_input_overwritten_before_it_was_dumped_is_not_excused_as_rounding(net):
    cancelling(net, mode="all")
    file = Path(only_file(net, "dump", "*/*/*/*/*/Mul.shrink.*"))
    data = bytearray(file.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    data[begin : begin + 2] = np.float16(3.0).tobytes()
    file.write_bytes(bytes(data))
    code, result, _ = net.compare()
    assert (code, verdicts(result)["cancel:output:0"], verdicts(result)["shrink:input:0"]) == (
        1,
        "pass",
        "fail",
    )


def ranking(net, **options):
    """The rows of a table that ArgMax chooses of pairs of scores that are equal but for rounding,
    and a product of these.
    """
    state = np.random.RandomState(4)
    scores = np.repeat(np.abs(state.standard_normal((8, 32))), 2, 1).astype(np.float32)
    scores[:, 1::2] *= np.float32(1.00001)
    arrays = {"w": scores, "table": state.standard_normal((64, 16)).astype(np.float32)}
    arrays["v"] = state.standard_normal((16, 8)).astype(np.float32)
    nodes = [
        node("MatMul", ["x", "w"], ["s"], name="score"),
        node("ArgMax", ["s"], ["at"], name="top", axis=1, keepdims=0),
        node("Gather", ["table", "at"], ["rows"], name="choose", axis=0),
        node("MatMul", ["rows", "v"], ["y"], name="out"),
    ]
    weights = [build.weight(name, array) for name, array in arrays.items()]
    proto = build.model(nodes, [build.value("x", (8, 8))], [build.value("y", (8, 8))], weights)
    return net.prepare(proto, {"x": np.abs(float16_values((8, 8)))}, **options)


@pytest.mark.parametrize("mode", ["all", "output"])
def test_right_values_behind_a_decision_near_a_tie_pass(net, mode):
    ranking(net, mode=mode)
    code, result, text = net.compare("--recompute", "none")
    assert (code, verdicts(result)["top:output:0"], verdicts(result)["out:output:0"]) == (
        1,
        "pass",
        "fail",
    )
    for _ in range(2):  # the second goes on with the store of the first
        code, result, text = net.compare()
        row = next(row for row in result["rows"] if row["tensor"] == "out:output:0")
        assert (code, row["verdict"], result["summary"]["suspects"]) == (0, "pass", []), text
        assert "it is inherited" in row["reason"] and "CosineSimilarity" in row["reason"]


@pytest.mark.parametrize("op", ["score", "choose", "out"])
def test_a_wrong_operator_behind_a_decision_near_a_tie_is_named(net, op):
    ranking(
        net,
        fault=(
            op,
            lambda array: array * (1 + np.float32(0.05) * (np.arange(array.shape[-1]) % 4 == 0)),
        ),
    )
    code, result, _ = net.compare()
    assert (code, only_suspect(result["summary"])["op"], verdicts(result)["out:output:0"]) == (
        1,
        op,
        "fail",
    )


def quantised(net, known=True, fault=None):
    """Values that float16 rounds are quantised, multiplied as whole numbers, and dequantised; the
    quantised product is of an operator that goldwatch can compute, or of one of onnxruntime's own.
    """
    state = np.random.RandomState(6)
    weights = {
        "s": np.array(15 / 512, np.float32),  # float16 holds it
        "z": np.array(128, np.uint8),
        "w": state.randint(0, 255, (32, 32)).astype(np.uint8),
        "t": np.array(7 / 64, np.float32),
    }
    product = ("QLinearMatMul", ["q", "s", "z", "w", "s", "z", "t", "z"], "", "mul")
    if not known:
        product = ("QLinearAdd", ["q", "s", "z", "w", "s", "z", "t", "z"], "com.microsoft", "mul")
    kind, inputs, domain, name = product
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quantise"),
        node(kind, inputs, ["p"], name=name, domain=domain),
        node("MatMulInteger", ["q", "w", "z", "z"], ["i"], name="whole"),
        node("DequantizeLinear", ["p", "t", "z"], ["y"], name="back"),
    ]
    outputs = [build.value("y", (32, 32)), helper.make_tensor_value_info("i", 6, (32, 32))]
    proto = build.model(
        nodes,
        [build.value("x", (32, 32))],
        outputs,
        [build.weight(name, array) for name, array in weights.items()],
    )
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    feeds = {"x": state.standard_normal((32, 32)).astype(np.float32)}
    return net.prepare(proto, feeds, fault=fault)


@pytest.mark.parametrize("known", [True, False])
def test_a_healthy_quantiser_and_what_is_behind_it_passes(net, known):
    quantised(net, known)
    assert verdicts(net.compare("--recompute", "none")[1])["quantise:output:0"] == "fail"
    for force in (True, False):  # the second goes on with the store of the first
        code, result, text = net.compare(force=force)
        assert (code, set(verdicts(result).values())) == (0, {"pass", "expected_absent"}), text
        assert result["summary"]["recomputed"]["wrong"] == 0


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("op", ["quantise", "mul", "whole"])
def test_a_wrong_operator_among_whole_numbers_fails(net, known, op):
    quantised(
        net, known, (op, lambda array: array + np.ones_like(array) * (9 if op == "mul" else 1))
    )
    code, result, text = net.compare()
    assert (code, verdicts(result)[op + ":output:0"]) == (1, "fail"), text
    assert result["summary"]["first_divergence"]["op"] == op
    if known or op != "mul":
        assert only_suspect(result["summary"])["op"] == op


NARROW = np.random.RandomState(2).standard_normal((32, 32)).astype(np.float32)


@pytest.mark.parametrize(
    "made, culprits",
    [
        (lambda array: array, []),
        (lambda array: (NARROW.astype(np.float16) * np.float16(1.5)).astype(np.float32), []),
        (lambda array: array * np.float32(1.02), ["to_bf16"]),
    ],
    ids=["rounded", "as it is", "wrong"],
)
def test_a_cast_to_bfloat16_that_the_device_holds_as_float16(net, made, culprits):
    nodes = [
        node("Mul", ["x", "k"], ["m"], name="mul"),
        node("Cast", ["m"], ["c"], name="to_bf16", to=16),
        node("Cast", ["c"], ["d"], name="back", to=1),
        node("Relu", ["d"], ["y"], name="relu"),
    ]
    weights = [build.weight("k", np.array(1.5, np.float32))]
    proto = build.model(nodes, [build.value("x", (32, 32))], [build.value("y", (32, 32))], weights)
    net.prepare(proto, {"x": NARROW}, fault=("to_bf16", made))
    _, result, text = net.compare()
    assert [suspect["op"] for suspect in result["summary"]["suspects"]] == culprits, text


@pytest.mark.parametrize("wrong, culprits", [(False, []), (True, ["like"])])
def test_a_castlike_is_computed_as_the_cast_to_the_type_of_its_second_input(net, wrong, culprits):
    nodes = [
        node("Mul", ["x", "k"], ["m"], name="mul"),
        node("Relu", ["n"], ["whole"], name="relu"),
        node("CastLike", ["m", "whole"], ["y"], name="like"),
    ]
    weights = [
        build.weight("k", np.array(10, np.float32)),
        build.weight("n", np.array([1, 2], np.int32)),
    ]
    values = build.value("x", (32, 32)), helper.make_tensor_value_info("y", 6, [32, 32])
    proto = build.model(nodes, [values[0]], [values[1]], weights)
    fault = ("like", lambda array: np.where(array < -3, array - 1, array)) if wrong else None
    net.prepare(proto, {"x": NARROW}, fault=fault)
    _, result, text = net.compare("--recompute", "all")
    assert [suspect["op"] for suspect in result["summary"]["suspects"]] == culprits, text
    computed = result["summary"]["recomputed"]
    assert "like" not in [one["op"] for one in computed["not_computed"]]


def test_rows_excused_by_rounding_fail_again_behind_a_wrong_dump(net):
    cancelling(net)
    assert verdicts(net.compare("--recompute", "none")[1])["cancel:output:0"] == "fail"
    code, result, text = net.compare()
    assert (code, verdicts(result)["cancel:output:0"], result["summary"]["suspects"]) == (
        0,
        "pass",
        [],
    )
    assert any(
        one["code"] == "by-rounding" and "cancel:output:0" in one["sentence"]
        for one in result["summary"]["warnings"]
    )
    stale = only_file(net, "dump", "*/*/*/*/*/Add.raise.*")
    net.dump(
        {"x": float16_values((32, 64)), "z": float16_values((32, 32), 6)},
        fault=("raise", lambda array: array + np.float32(2.0)),
    )
    assert os.path.exists(stale)
    code, result, text = net.compare(force=False)
    assert (code, verdicts(result)["cancel:output:0"]) == (1, "fail")
    assert "raise" in [suspect["op"] for suspect in result["summary"]["suspects"]]


@pytest.mark.parametrize("mode", ["all", "output"])
def test_a_watch_computes_operators_before_it_deletes_their_files(net, mode):
    cnn(net, fault=("/conv2/Conv", lambda array: array * np.float32(1.01)), mode=mode)
    _, whole, _ = net.compare("--recompute", "all")
    command = [
        "goldwatch",
        "watch",
        "dump",
        "golden",
        "-f",
        "net.json",
        "-o",
        "out",
        "--force",
        "--until-idle",
        "0.1",
        "--jobs",
        "1",
    ]
    done = run_here([*command, "--keep", "failed"], net.folder)
    with open(net.path("out", "result.json"), encoding="utf-8") as stream:
        summary = json.load(stream)["summary"]
    counts = [
        {name: one["recomputed"][name] for name in ("ops", "right", "wrong")}
        for one in (summary, whole["summary"])
    ]
    assert counts[0] == counts[1] and counts[0]["wrong"] == 1, done.stderr
    assert only_suspect(summary)["op"] == only_suspect(whole["summary"])["op"]
    # What is wrong stays, though its rows pass, with what it was made of.
    left = " ".join(sorted(name for _, _, names in os.walk(net.path("dump")) for name in names))
    assert (
        "_conv2_Conv" in left
        and ("MaxPool_1" in left) == (mode == "output")
        and "_fc_Gemm" not in left
    )


@pytest.mark.parametrize("fed_otherwise", [True, False])
def test_slices_of_an_exchanged_input_are_not_called_wrong(net, fed_otherwise):
    """Two slices put the pixels of other columns side by side; red and blue are exchanged, or one
    of the slices takes the wrong columns.
    """
    steps = [("two", [2]), ("last", [3]), ("end", [16]), ("even", [0]), ("odd", [1])]
    constants = [build.weight(name, np.array(numbers, np.int64)) for name, numbers in steps]
    weights = np.random.RandomState(3).standard_normal((4, 6, 1, 1)).astype(np.float32)
    nodes = [
        node(
            "Slice", ["x", begin, "end", "last", "two"], [begin + "_columns"], name=begin + "_slice"
        )
        for begin in ("even", "odd")
    ]
    nodes += [
        node("Concat", ["even_columns", "odd_columns"], ["c"], name="concat", axis=1),
        node("Conv", ["c", "w"], ["y"], name="conv"),
    ]
    values = [build.value("x", (1, 3, 16, 16))], [build.value("y", (1, 4, 16, 8))]
    feed = float16_values((1, 3, 16, 16)) * np.array([1, 2, 4], np.float32)[None, :, None, None]
    options = (
        {"device_feeds": {"x": feed[:, ::-1].copy()}}
        if fed_otherwise
        else {"fault": ("odd_slice", lambda array: array[:, ::-1])}
    )
    net.prepare(
        build.model(nodes, *values, [*constants, build.weight("w", weights)]),
        {"x": feed},
        mode="output",
        **options,
    )
    code, result, text = net.compare()
    suspects = {one["op"]: explanation_kinds(one) for one in result["summary"]["suspects"]}
    assert code == 1
    if fed_otherwise:
        assert (
            suspects == {"even_slice": ["other-input"], "odd_slice": ["other-input"]}
            and "no operator need be wrong" in text
        )
    else:
        assert list(suspects) == ["odd_slice"] and suspects["odd_slice"] != ["other-input"]


def test_golden_data_of_another_reading_are_said_to_be_so(net):
    """ONNX's reference takes lengths of align_corners as they are, onnxruntime rounds them."""
    x = float16_values((1, 4, 8, 8))
    held = [build.weight("scales", np.array([1, 1, 0.6, 0.6], np.float32))]
    held += [build.weight("roi", np.zeros(0, np.float32))]
    more = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    nodes = [
        node("Neg", ["x"], ["n"], name="first"),
        node("Resize", ["n", "roi", "scales"], ["u"], name="op", **more),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    ends = [build.value("x", x.shape)], [build.value("y", (1, 4, 4, 4))]
    net.prepare(build.model(nodes, *ends, held), {"x": x})
    shutil.rmtree(net.path("golden"))
    words = [
        "goldwatch",
        "golden",
        "onnx",
        "dump",
        "m.onnx",
        "--input",
        "x=x.npy",
        "-f",
        "net.json",
    ]
    done = run_here([*words, "--all", "--backend", "reference", "-o", "golden"], net.folder)
    assert done.returncode == 0, done.stderr
    code, result, said = net.compare()
    (suspect,) = result["summary"]["suspects"]
    sentence = suspect["explanations"][0]["sentence"]
    assert code == 1 and suspect["op"] == "op" and "golden data are wrong" not in said
    assert sentence.startswith(
        "golden data were made with Resize with its lengths scale times length; the model says "
        "rounded to whole numbers"
    )


@pytest.mark.parametrize("how", ["auto", "none"])
def test_a_batch_normalisation_of_training_mode_is_no_culprit(net, how):
    """The device takes the stored statistics, as an om does; golden data those of the batch."""
    x = float16_values((2, 4, 8, 8)) + np.float32(3)
    means, variances = np.float32([3, 3, 3, 3.5]), np.float32([1, 2, 3, 1])
    weights = [np.ones(4, np.float32), np.zeros(4, np.float32), means, variances]
    nodes = [
        node("Neg", ["x"], ["n"], name="first"),
        node("BatchNormalization", [*"ngbmv"], ["u", "m2", "v2"], name="op", training_mode=1),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    inputs, outputs = [build.value("x", x.shape)], [build.value("y", x.shape)]
    proto = build.model(nodes, inputs, outputs, map(build.weight, "gbmv", weights))
    stored = (-x - means.reshape(1, 4, 1, 1)) / np.sqrt(variances.reshape(1, 4, 1, 1) + 1e-5)
    net.prepare(proto, {"x": x}, (), ("op", lambda _: stored))
    _, result, said = net.compare("--recompute", how)
    assert result["summary"]["suspects"] == []
    assert "op (BatchNormalization) is the first operator outside its limits" in said
    if how == "auto":
        (left,) = result["summary"]["recomputed"]["not_computed"]
        assert (left["op"], left["code"]) == ("op", "in_training")
    assert "in training mode" in said and "Export the model with model.eval()" in said
    assert "next: export the original model with model.eval()" in " ".join(said.split())


def test_rows_that_a_mask_excludes_throughout_accuse_nobody_and_propose_no_replay(net):
    """Their Softmax is NaN in golden data; the device writes 0."""
    x = float16_values((1, 4, 8))
    mask = np.zeros((1, 4, 8), np.float32)
    mask[0, :2] = -np.inf
    nodes = [
        node("Add", ["x", "m"], ["a"], name="masked"),
        node("Softmax", ["a"], ["s"], name="softmax", axis=-1),
        node("Abs", ["s"], ["y"], name="last"),
    ]
    inputs = [build.value("x", x.shape), build.value("m", mask.shape)]
    proto = build.model(nodes, inputs, [build.value("y", x.shape)], ())
    net.prepare(proto, {"x": x, "m": mask}, (), ("softmax", np.nan_to_num))
    _, result, said = net.compare()
    said = " ".join(said.split())
    assert result["summary"]["suspects"] == []
    assert "softmax (Softmax" in said and "golden 16 NaN" in said
    assert (
        "golden data are undefined (2 rows of softmax:input:0 along axis 2, [0, 0], [0, 1], are "
        "-Inf throughout by the mask masked:input:1), and no operator need be wrong" in said
    )
    assert "no row masked throughout" in said
    assert "next: make golden data, and dump, with an input for which the original" in said
    assert "goldwatch replay" not in said
    words = ["goldwatch", "replay", "dump", "m.onnx", "-f", "net.json", "-o", "alone"]
    done = run_here([*words, "--result", "out"], net.folder)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "makes NaN of the device's own inputs in softmax, where the device has numbers" in said
    assert "golden data are undefined there." in said and "producers" not in said


def two_inputs(net, device_feeds=None):
    """A network of two inputs of one shape, each with a product of its own."""
    feeds = {name: float16_values((4, 16), seed) for seed, name in enumerate(("a", "b"))}
    nodes = [
        node("MatMul", ["a", "wa"], ["ha"], name="fc_a"),
        node("MatMul", ["b", "wb"], ["hb"], name="fc_b"),
        node("Tanh", ["ha"], ["ta"], name="act"),
        node("Sub", ["ta", "hb"], ["y"], name="sub"),
    ]
    held = [build.weight(name, float16_values((16, 16), 7)) for name in ("wa", "wb")]
    inputs = [build.value(name, (4, 16)) for name in feeds]
    proto = build.model(nodes, inputs, [build.value("y", (4, 16))], held)
    given = None if device_feeds is None else device_feeds(feeds)
    net.prepare(proto, feeds, device_feeds=given)


@pytest.mark.parametrize("side", ["device", "golden", "one"])
def test_inputs_that_hold_the_golden_data_of_each_other_are_told_as_exchanged(net, side):
    given = {
        "device": lambda feeds: {"a": feeds["b"], "b": feeds["a"]},
        "one": lambda feeds: {"a": feeds["b"], "b": feeds["b"]},
        "golden": None,
    }[side]
    two_inputs(net, given)
    if side == "golden":
        first, second = (glob.glob(net.path("golden", name + ".*npy"))[0] for name in "ab")
        os.rename(first, first + ".kept")
        os.rename(second, first)
        os.rename(first + ".kept", second)
    code, result, text = net.compare()
    assert code == 1
    told = {one["explanations"][0]["kind"] for one in result["summary"]["suspects"]}
    sentence = "the network's inputs a and b are exchanged: each holds the golden data of the other"
    assert (sentence in text) == (side != "one")
    assert told == ({"wrong-golden"} if side == "golden" else {"other-input"}), text
    assert ("so golden data have them exchanged" in text) == (side == "golden")
    assert ("in the order of the om's inputs" in text) == (side == "device")
