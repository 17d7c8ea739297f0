"""Whose error it is: from dumps and golden files to summary and last sentence, through the
command.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from scene_networks import (
    dense,
    explanation_kinds,
    half,
    only_suspect,
    relu,
    text_before_next_command,
)

from goldwatch.judging.diagnosis.summary import exit_code
from goldwatch.judging.diagnosis.suspects import Suspect


def chain(scene, random, ops, wrong=None, dumped=True, **options):
    """``ops`` dense layers and ReLUs in turn: fc0, relu1, fc2, relu3 …; ``wrong`` maps names to
    what makes their outputs wrong.
    """
    if "data" not in scene.golden:
        scene.data(random.standard_normal((32, 64)).astype(np.float32), dumped=dumped)
    source = "data"
    for number in range(ops):
        name = "relu%d" % number if number % 2 else "fc%d" % number
        change = (wrong or {}).get(name)
        if number % 2:
            relu(scene, name, source, change, **options)
        else:
            dense(scene, random, name, source, change, **options)
        source = name


@pytest.mark.parametrize("ops", [1, 2, 3, 6])
def test_small_healthy_networks_have_no_suspect(scene, random, ops):
    chain(scene, random, ops)
    code, summary, text = scene.compare("--strict")
    assert (code, summary["verdict"], summary["suspects"]) == (0, "pass", [])
    assert text_before_next_command(text).endswith("No operator is outside its limits.")


@pytest.mark.parametrize("ops", [1, 2, 3, 6])
def test_a_wrong_operator_in_a_small_network_is_the_suspect(scene, random, ops):
    name = "fc0" if ops == 1 else "relu1"
    chain(scene, random, ops, {name: lambda made: made * 1.33})
    code, summary, text = scene.compare()
    suspect = only_suspect(summary)
    assert (code, suspect["op"], explanation_kinds(suspect)[0]) == (1, name, "scale")
    assert re.search("so the error (is its own|arises here)", text) and "inherited" not in text


def test_strict_ends_with_1_for_a_suspect_within_its_limits(scene, random):
    chain(scene, random, 4, {"fc2": lambda made: made * 1.028})
    code, summary, text = scene.compare()
    assert (code, summary["verdict"], only_suspect(summary)["op"]) == (0, "pass", "fc2")
    assert (
        "1 suspect" in text
        and "No operator is outside its limits, but fc2 (MatMulV2) is suspect" in text
    )
    code, _, text = scene.compare("--strict")
    assert code == 1 and "fails (strict), 1 suspect; of the rows: pass: " in text


@pytest.mark.parametrize("confidence, code", [("low", 1), ("none", 0)])
def test_strict_counts_only_those_that_may_be_wrong(scene, random, confidence, code):
    chain(scene, random, 4, {"fc2": lambda made: made * 1.028})
    _, summary, _ = scene.compare()
    (entry,) = summary["suspects"]
    suspect = Suspect.of_document({**entry, "confidence": confidence})
    passing = SimpleNamespace(program=None, unpaired=False, verdict="pass", suspects=(suspect,))
    assert exit_code(passing, strict=True) == code


def test_a_skipped_operator_is_not_blamed_on_its_golden_data(scene, random):
    chain(scene, random, 6, {"relu3": lambda made: scene.made["fc2"].astype(np.float32)})
    _, summary, text = scene.compare()
    suspect = only_suspect(summary)
    assert suspect["op"] == "relu3" and "wrong-golden" not in explanation_kinds(suspect)
    assert (
        "the device computed no activation (Identity) for Relu; golden data follow with"
        in (suspect["explanations"][0]["sentence"])
    )
    assert (
        "relu3 (Relu) is the first operator outside its limits" in text
        and "so the error is its own: the device computed no activation (Identity) for Relu" in text
    )


def test_golden_data_saved_after_the_activation_are_called_wrong(scene, random):
    chain(scene, random, 6)
    scene.npy("fc2", np.maximum(scene.golden["fc2"], 0))
    code, summary, text = scene.compare()
    assert (code, only_suspect(summary)["op"], explanation_kinds(only_suspect(summary))[0]) == (
        1,
        "fc2",
        "wrong-golden",
    )
    assert text_before_next_command(text).endswith(
        "the operators behind it are right: its golden data are wrong, not the operator."
    )


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMaxD", "Mystery"])
@pytest.mark.parametrize("axes", [(2,), (1, 2)])
def test_a_reader_is_a_witness_only_if_it_shows_what_differs(scene, random, op_type, axes):
    """Max pooling hides negative values: it is right with golden data and with the device's."""
    scene.data(random.standard_normal((2, 8, 32)).astype(np.float32))
    golden, made = (side["data"].astype(np.float32) * 1.5 for side in (scene.golden, scene.made))
    positive = np.maximum(golden, 0)
    scene.op("conv", "Conv2D", ["data"], positive, made)
    scene.op("behind", op_type, ["conv"], positive.max(axis=axes), made.max(axis=axes))
    _, summary, text = scene.compare()
    suspect = only_suspect(summary)
    # Of an operator that is not known nobody knows what it hides.
    expected = "wrong-golden" if op_type == "Mystery" else "activation"
    assert (suspect["op"], explanation_kinds(suspect)[0]) == ("conv", expected)
    told = "its golden data are wrong, not the operator" in text
    assert told == (op_type == "Mystery")


@pytest.mark.parametrize("side", ["golden", "target"])
@pytest.mark.parametrize("op_type", ["Conv2D", "MatMulV2", "Mystery"])
def test_a_relu_on_one_side_alone_is_told_as_such(scene, random, op_type, side):
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    golden, made = (one["data"].astype(np.float32) * 1.5 for one in (scene.golden, scene.made))
    golden, made = (
        (np.maximum(golden, 0), made) if side == "golden" else (golden, np.maximum(made, 0))
    )
    scene.op("first", op_type, ["data"], golden, made)
    scene.op("next", "Strange", ["first"], golden + 0.5, made + 0.5)
    _, summary, text = scene.compare()
    (explanation, *_) = only_suspect(summary)["explanations"]
    assert explanation["kind"] == "activation" and "no pattern fits" not in text
    told = "the ReLU was lost" if side == "golden" else "a ReLU that the model does not have there"
    assert told in explanation["sentence"]
    assert explanation["sentence"].endswith("or golden data are of another tensor")


@pytest.mark.parametrize("two", [("fc0", "fc4"), ("fc2", "relu3")])
def test_exchanged_golden_files_accuse_no_operator(scene, random, two):
    chain(scene, random, 6)
    for name, other in (two, two[::-1]):
        scene.npy(name, scene.golden[other])
    _, summary, text = scene.compare()
    assert (
        summary["suspects"][0]["op"] in two
        and explanation_kinds(summary["suspects"][0])[0] == "wrong-golden"
    )
    assert (
        "the golden tensor of %s fits" % two[1]
        in text.rsplit("first operator outside its limits", 1)[1]
    )
    assert "error is its own" not in text and "inherited" not in text


def _nan_in_a_column(made):
    return np.where(np.arange(made.shape[1]) == 3, np.nan, made)


@pytest.mark.parametrize("first, second", [("fc2", "fc4"), ("fc0", "fc2")])
def test_of_two_suspects_sentence_and_next_command_name_the_same(scene, random, first, second):
    chain(scene, random, 6, {first: lambda made: 1.05 * made, second: _nan_in_a_column})
    _, summary, text = scene.compare()
    # NaN outweighs a scale, but the operator before it is wrong by itself too.
    assert [suspect["op"] for suspect in summary["suspects"]] == [second, first]
    last = text.rpartition("first operator outside its limits")[2]
    assert "that the original model has otherwise). Besides, %s (" % second in last
    assert text.rpartition("first operator outside")[0].endswith("%s (MatMulV2) is the " % first)
    assert " %s -f " % first in text.rpartition(" next: goldwatch ")[2]


def test_behind_wrong_golden_data_the_next_command_names_the_wrong_operator(scene, random):
    chain(scene, random, 8, {"fc6": lambda made: 1.05 * made})
    scene.npy("fc2", np.maximum(scene.golden["fc2"], 0))
    _, summary, text = scene.compare()
    assert {suspect["op"] for suspect in summary["suspects"]} == {"fc2", "fc6"}
    assert "not the operator. Besides, fc6 (MatMulV2) is suspect" in text
    assert " fc6 -f " in text.rpartition(" next: goldwatch ")[2]


def test_golden_data_of_nan_only_are_called_wrong(scene, random):
    chain(scene, random, 6)
    scene.npy("fc2", scene.golden["fc2"] * np.nan)
    _, summary, text = scene.compare()
    assert only_suspect(summary)["op"] == "fc2" and explanation_kinds(only_suspect(summary)) == [
        "wrong-golden",
        "nan",
    ]
    assert "inherited" not in text and text_before_next_command(text).endswith(
        "the golden data are wrong, not the operator."
    )


def test_nan_made_of_numbers_is_the_operators_error(scene, random):
    def broken(made):
        made[3, 5] = np.nan
        return made

    chain(scene, random, 4, {"fc2": broken})
    _, summary, text = scene.compare()
    assert (
        only_suspect(summary)["op"],
        explanation_kinds(only_suspect(summary)),
        only_suspect(summary)["score"],
    ) == (
        "fc2",
        ["nan"],
        99.0,
    )
    assert "so the error arises here: in the operator, or in how the om feeds it" in text


@pytest.mark.parametrize("fed_otherwise", [True, False])
def test_readers_of_an_undumped_input_are_accused_only_if_they_disagree(
    scene, random, fed_otherwise
):
    """Two slices and a sum read it: all are off where it is another input, one where that slice is
    wrong.
    """
    golden = random.standard_normal((32, 64)).astype(np.float32)
    scene.data(golden)
    made = half(golden[:, ::-1]) if fed_otherwise else half(golden)
    parts = [("left", slice(0, 32)), ("right", slice(32, 64))]
    for name, part in parts:
        wrong = fed_otherwise or name == "left"
        there = half(golden[:, ::-1])[:, part] if wrong else made[:, part]
        scene.op(name, "StridedSliceD", ["data"], golden[:, part], there, with_inputs=False)
    scene.op(
        "sum",
        "Add",
        ["left", "right"],
        sum(golden[:, part] for _, part in parts),
        scene.made["left"] + scene.made["right"],
    )
    _, summary, text = scene.compare()
    if fed_otherwise:
        assert {(one["op"], *explanation_kinds(one)) for one in summary["suspects"]} == {
            ("left", "other-input"),
            ("right", "other-input"),
        }
        assert (
            "all 2 operators that read the network's input" in text
            and "so no operator need be wrong." in text
        )
        assert "Besides" not in text
    else:
        assert [one["op"] for one in summary["suspects"]] == [
            "left"
        ] and "all 2 operators" not in text


@pytest.mark.parametrize("dumped, with_inputs", [(True, True), (False, True), (False, False)])
def test_other_input_data_is_recognised_with_or_without_its_golden_data(
    scene, random, dumped, with_inputs
):
    scene.data(random.standard_normal((32, 64)).astype(np.float32), dumped=dumped)
    scene.made["data"] = half(random.standard_normal((32, 64)))
    chain(scene, random, 4, with_inputs=with_inputs)
    _, summary, text = scene.compare()
    suspect = only_suspect(summary)
    assert (suspect["op"], explanation_kinds(suspect)[0]) == ("fc0", "other-input")
    # Without the input's own golden data this is not seen, but guessed.
    assert ("other data, so no operator need be wrong." in text) == dumped
    assert dumped or "or the device may have been fed with other data" in text


@pytest.mark.parametrize("exchanged", [False, True])
def test_an_input_that_is_only_rounded_is_no_other_input_where_a_users_metric_fails(
    scene, random, tmp_path, exchanged
):
    """One exchanged row of 2000 is within rounding over all elements, but not in its slice."""
    (tmp_path / "algorithm").mkdir()
    (tmp_path / "algorithm" / "alg_Strict.py").write_text(
        "def compare(my_output, ground_truth, args):\n"
        "    return float(abs(my_output - ground_truth).max()), ''\n"
    )
    values = random.standard_normal((2000, 8)).astype(np.float32)
    values[7] *= 1e-2
    scene.data(values)
    if exchanged:
        scene.made["data"][7] *= 1.1
    chain(scene, random, 4)
    code, summary, text = scene.compare("--custom", str(tmp_path), "--limit", "Strict<1e-6")
    assert (code, summary["verdict"]) == (1, "fail")
    if exchanged:
        assert explanation_kinds(only_suspect(summary)) == ["other-input"]
    else:
        assert summary["suspects"] == [] and "other data" not in text
        assert "has Strict" in text and "data" not in summary["first_divergence"]["op"]


def test_a_wrong_golden_file_of_the_input_is_called_so(scene, random):
    chain(scene, random, 4)
    scene.npy("data", scene.golden["data"] + random.standard_normal((32, 64)).astype(np.float32))
    _, summary, text = scene.compare()
    assert (
        explanation_kinds(only_suspect(summary))[0] == "wrong-golden"
        and "they are of another input." in text
    )


@pytest.mark.parametrize("ops", [1, 4])
def test_between_two_dumps_an_operator_with_equal_inputs_is_blamed(scene, random, ops):
    value, target = half(random.standard_normal((16, 32))), scene.folder + "/other"
    for number in range(ops):
        made = half(np.abs(value) * 1.5)
        scene.write(
            "dump",
            "",
            "op%d" % number,
            "Abs",
            [value],
            [half(made * 1.33) if number == ops - 1 else made],
        )
        scene.write("other", "", "op%d" % number, "Abs", [value], [made])
        value = made
    code, summary, text = scene.compare(model=False, golden=target)
    assert (code, only_suspect(summary)["op"], explanation_kinds(only_suspect(summary))[0]) == (
        1,
        "op%d" % (ops - 1),
        "scale",
    )
    assert "its inputs are equal in both dumps, so what differs arises here: in the" in (
        text_before_next_command(text)
    )


def test_large_indices_are_not_taken_for_a_large_error(scene, random):
    ids = random.randint(0, 30000, (1, 6)).astype(np.int32)
    table = random.standard_normal((30000, 64)).astype(np.float32)
    scene.data(ids, "ids")
    scene.op("emb", "GatherV2", ["ids"], table[ids])
    scene.op(
        "ln",
        "LayerNorm",
        ["emb"],
        *(_normalised(side["emb"]) for side in (scene.golden, scene.made)),
    )
    dense(scene, random, "fc", "ln", lambda made: np.where(np.arange(64) == 51, 0.5, made))
    scene.op(
        "tanh",
        "Tanh",
        ["fc"],
        *(np.tanh(side["fc"].astype(np.float32)) for side in (scene.golden, scene.made)),
    )
    _, summary, text = scene.compare()
    assert only_suspect(summary)["op"] == "fc" and "so the error arises here" in text


def _normalised(x):
    x = x.astype(np.float32)
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


@pytest.mark.parametrize("dumped", [True, False])
def test_golden_input_of_nan_only_is_not_called_other_input(scene, random, dumped):
    scene.data(np.full((32, 64), np.nan, np.float32), dumped=dumped)
    scene.made["data"] = half(random.standard_normal((32, 64)))
    chain(scene, random, 4)
    code, summary, text = scene.compare()
    assert (code, explanation_kinds(only_suspect(summary))[0]) == (1, "wrong-golden")
    assert text_before_next_command(text).endswith(
        "NaN or Inf throughout, none of the device's is: the golden data are wrong, not the "
        "operator."
    )
    assert "golden-nan" in [warning["code"] for warning in summary["warnings"]]
    assert "other data" not in text


@pytest.mark.parametrize("strict", [[], ["--strict"], ["--allow-missing"]])
def test_nan_everywhere_on_both_sides_is_incomplete(scene, random, strict):
    scene.data(np.full((32, 64), np.nan, np.float32))
    chain(scene, random, 3)
    code, summary, text = scene.compare(*strict)
    assert (code, summary["verdict"], summary["failed"]) == (3, "incomplete", 0)
    assert (
        "Incomplete: no output was compared. 6 tensors have no finite element on either side"
        in text
    )


def test_one_output_without_a_finite_element_is_warned_of(scene, random):
    chain(scene, random, 2)
    scene.op("inf", "Log", ["relu1"], np.full((4, 4), -np.inf, np.float32))
    code, summary, _ = scene.compare()
    assert (code, summary["verdict"]) == (
        0,
        "pass",
    ) and "1 tensor has no finite element on either side" in summary["warnings"][0]["sentence"]


def test_an_unknown_operator_that_did_nothing_is_explained_so(scene, random):
    chain(scene, random, 6)
    offset = (
        0.05
        * np.abs(scene.golden["relu5"]).mean()
        * random.standard_normal(scene.golden["relu5"].shape[1:])
    )
    scene.op(
        "plus",
        "AddOwn",
        ["relu5"],
        (scene.golden["relu5"] + offset).astype(np.float32),
        scene.made["relu5"].astype(np.float32),
    )
    suspect = only_suspect(scene.compare()[1])
    assert suspect["op"] == "plus" and explanation_kinds(suspect) == ["did-nothing"]


@pytest.mark.parametrize("wrong", [False, True])
def test_a_batch_normalisation_may_cancel_but_a_wrong_one_is_the_suspect(scene, random, wrong):
    """An offset takes most of a channel away, so that its error is 14 times larger; or another
    channel is 10 % too large.
    """
    chain(scene, random, 6)
    source = scene.ops[-1]["name"]
    sides = [side[source].astype(np.float32) for side in (scene.golden, scene.made)]
    for side in sides:
        side[:, 5] = 3 + 0.07 * side[:, 5]
    scene.op("wide", "Identity", [source], sides[0], half(sides[1]))
    outputs = [side["wide"].astype(np.float32) for side in (scene.golden, scene.made)]
    for side in outputs:
        side[:, 5] = (side[:, 5] - 3) / 0.07
    if wrong:
        outputs[1][:, 9] *= 1.1
    scene.op("bn", "BNInference", ["wide"], *outputs)
    # The slices of a network's last output are measured by their own size: those of its inputs
    # are not.
    scene.op("last", "Abs", ["bn"], *map(np.absolute, outputs))
    _, summary, _ = scene.compare(*(["--limit", "WorstSliceDistance=0.02"] if wrong else []))
    assert [one["op"] for one in summary["suspects"]] == (["bn"] if wrong else [])


@pytest.mark.parametrize(
    "other", [np.zeros((32, 0), np.float32), np.full((32, 64), -np.inf, np.float32)]
)
def test_an_input_without_elements_or_finite_values_explains_no_error(scene, random, other):
    chain(scene, random, 2)
    scene.data(other, "past")
    golden = np.tanh(scene.golden["relu1"])
    scene.op("attn", "FusedInferAttention", ["relu1", "past"], golden, golden * np.float32(1.05))
    relu(scene, "out", "attn")
    code, summary, text = scene.compare()
    assert (code, only_suspect(summary)["op"]) == (1, "attn")
    assert "so the error arises here" in text and "million" not in text


@pytest.mark.parametrize("first", ["factor", "noise"])
def test_one_factor_of_the_first_product_is_no_noise_of_its_type(scene, random, first):
    """All others of the type add as much, or inherit it: that excuses noise."""

    def noisy(made):
        return made * (1 + 0.005 * random.standard_normal(made.shape))

    scene.data(random.standard_normal((64, 64)).astype(np.float16).astype(np.float32))
    wrong = noisy if first == "noise" else lambda made: made * np.float32(1.01)
    dense(scene, random, "fc0", "data", wrong, dtype=np.float32)
    for number in range(1, 7):
        dense(scene, random, "fc%d" % number, "fc%d" % (number - 1), noisy, dtype=np.float32)
    _, summary, _ = scene.compare()
    if first == "noise":
        assert not summary["suspects"]
        return
    suspect = only_suspect(summary)
    (entry,) = suspect["explanations"]
    assert suspect["op"] == "fc0" and "common factor, about 1.0 %" in suspect["evidence"]
    assert entry["sentence"] == "the target is the golden x 1.01"
