"""Near ties: a healthy device may decide otherwise than golden data, and so may ops that read the
decision.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest
from in_process import run_here
from scene_networks import (
    detection,
    explanation_kinds,
    half,
    logits,
    near_ties,
    only_suspect,
    text_before_next_command,
    top_indices,
)

from goldwatch.dumps import write_dump
from goldwatch.judging.by_other_rows import (
    alike,
    as_first_judged,
    judged_like_output,
    lets_inputs_pass,
    passing_row,
)
from goldwatch.judging.diagnosis.recompute_without_model import follows
from goldwatch.judging.limits import Limits, Subject
from goldwatch.metrics.overwriting_and_cancellation import CANCELLED
from goldwatch.metrics.patterns import AlignedPair
from goldwatch.metrics.row import BEHIND, DECIDED_OTHERWISE, FOLLOWS, Row
from goldwatch.recomputing.repeated_decisions import LARGEST_ERROR, repeat_decisions

EXCUSED = ("it is inherited", "every decision follows")
FOLLOWING = "every decision follows from the device's own inputs, which are within their " "limits"


DECISIONS = {
    "ArgMaxV2": lambda x: x.argmax(1).astype(np.int32),
    "Greater": lambda x: x > 0.25,
    "Cast": lambda x: x.astype(np.int32),
    "Argsort": lambda x: np.argsort(-x.astype(np.float64), 1, kind="stable")[:, :9].astype(
        np.int32
    ),
}


def rows(scene):
    with open(os.path.join(scene.out, "result.json"), encoding="utf-8") as stream:
        return {row["tensor"]: row for row in json.load(stream)["rows"]}


@pytest.mark.parametrize("op_type", sorted(DECISIONS))
def test_decisions_near_a_tie_pass_with_a_warning(scene, random, op_type):
    golden, made = near_ties(scene, random)
    scene.op("decision", op_type, ["fc"], DECISIONS[op_type](golden), DECISIONS[op_type](made))
    code, summary, text = scene.compare()
    row = rows(scene)["decision:output:0"]
    assert (code, summary["suspects"], row["verdict"]) == (0, [], "pass")
    assert (
        row["metrics"]["RelativeEuclideanDistance"] > 0
        and FOLLOWING in row["reason"]
        and "elements differ" in row["reason"]
    )
    assert any(
        "decision:output:0" in one["sentence"]
        and "other decisions than golden data" in one["sentence"]
        for one in summary["warnings"]
    )
    assert "decision:output:0" in text


@pytest.mark.parametrize("op_type", sorted(DECISIONS))
def test_decisions_behind_inputs_outside_their_limits_fail(scene, random, op_type):
    golden, made = near_ties(scene, random)
    scene.op("fc", "MatMulV2", ["data"], golden, half(made * 1.1))
    scene.op(
        "decision",
        op_type,
        ["fc"],
        DECISIONS[op_type](golden),
        DECISIONS[op_type](scene.made["fc"]),
    )
    assert scene.compare()[0] == 1 and rows(scene)["decision:output:0"]["verdict"] == "fail"


def test_a_users_limit_decides_over_near_ties(scene, random):
    golden, made = near_ties(scene, random)
    scene.op(
        "decision", "ArgMaxV2", ["fc"], *(DECISIONS["ArgMaxV2"](side) for side in (golden, made))
    )
    code, _, text = scene.compare("--limit", "type=ArgMax*:DifferentElements<=0")
    assert code == 1 and "it decides between values" in text_before_next_command(text)
    assert scene.compare("--limit", "DifferentElements<=0")[0] == 0


def test_one_wrong_decision_among_near_ties_fails(scene, random):
    golden, made = near_ties(scene, random)
    label = made.argmax(1).astype(np.int32)
    label[77] = (label[77] + 7) % 64
    scene.op("label", "ArgMaxV2", ["fc"], golden.argmax(1).astype(np.int32), label)
    code, summary, _ = scene.compare()
    assert code == 1 and only_suspect(summary)["evidence"].startswith(
        "1 of its 256 values do not follow"
    )


@pytest.mark.parametrize("op_type", sorted(DECISIONS))
@pytest.mark.parametrize("with_inputs", [True, False])
def test_decisions_that_contradict_the_devices_input_are_the_operators_error(
    scene, random, op_type, with_inputs
):
    golden, made = logits(scene, random)
    right = DECISIONS[op_type](made)
    wrong = ~right if right.dtype == bool else right + 1 if op_type == "Cast" else (right + 1) % 64
    scene.op(
        "decision", op_type, ["fc"], DECISIONS[op_type](golden), wrong, with_inputs=with_inputs
    )
    code, summary, text = scene.compare()
    suspect = only_suspect(summary)
    assert (code, suspect["op"], explanation_kinds(suspect)) == (1, "decision", ["not-equal"])
    assert "do not follow from the device's own inputs" in suspect["evidence"]
    assert text_before_next_command(text).endswith("so the error is its own.")


def test_one_wrong_label_of_256_is_the_suspect(scene, random):
    golden, made = logits(scene, random)
    label = made.argmax(1).astype(np.int32)
    label[77] = (label[77] + 7) % 64
    scene.op("label", "ArgMaxV2", ["fc"], golden.argmax(1).astype(np.int32), label)
    assert only_suspect(scene.compare()[1])["evidence"].startswith(
        "1 of its 256 values do not follow"
    )


@pytest.mark.parametrize("op_type", sorted(DECISIONS))
def test_decisions_without_dumped_inputs_are_judged_by_their_producers(scene, random, op_type):
    golden, made = near_ties(scene, random)
    scene.op(
        "decision",
        op_type,
        ["fc"],
        DECISIONS[op_type](golden),
        DECISIONS[op_type](made),
        with_inputs=False,
    )
    # Without a model the name of its golden data proves nothing.
    assert scene.compare(model=False)[0] == 3
    code, summary, _ = scene.compare()
    assert (code, summary["failed"]) == (0, 0) and FOLLOWING in rows(scene)["decision:output:0"][
        "reason"
    ]
    assert scene.compare("--limit", "type=%s:DifferentElements<=0" % op_type)[0] == 1


def test_readers_of_near_ties_pass_without_dumped_inputs(scene, random):
    detection(
        scene,
        random,
        behind=[("out", "Sigmoid", lambda x: 1 / (1 + np.exp(-x.astype(np.float32))))],
        with_inputs=False,
    )
    code, summary, _ = scene.compare()
    assert (code, summary["failed"], summary["suspects"]) == (0, 0, [])
    otherwise = [
        tensor
        for tensor, row in rows(scene).items()
        if any(words in row["reason"] for words in EXCUSED)
    ]
    assert otherwise == ["top:output:0", "wide:output:0", "boxes:output:0", "out:output:0"]


def test_wrong_readers_of_near_ties_fail_without_dumped_inputs(scene, random):
    detection(scene, random, wrong_gather=True, with_inputs=False)
    code, summary, _ = scene.compare()
    assert (code, only_suspect(summary)["op"], summary["first_divergence"]["inputs"]) == (
        1,
        "boxes",
        "bad",
    )


def test_correct_readers_of_near_ties_pass(scene, random):
    golden, made = detection(
        scene,
        random,
        behind=[("out", "Sigmoid", lambda x: 1 / (1 + np.exp(-x.astype(np.float32))))],
    )
    assert (golden != made).any()
    code, summary, _ = scene.compare()
    found = rows(scene)
    otherwise = {
        tensor for tensor, row in found.items() if any(words in row["reason"] for words in EXCUSED)
    }
    assert (code, summary["failed"], summary["suspects"]) == (0, 0, [])
    assert otherwise == {
        *(
            "top:output:0",
            "wide:input:0",
            "wide:output:0",
            "boxes:input:1",
            "boxes:output:0",
            "out:input:0",
            "out:output:0",
        )
    }
    assert found["boxes:output:0"]["metrics"]["RelativeEuclideanDistance"] > 0.03


def repeated(scene, random, wrong=lambda at: at, repeat="TileD", attributes=()):
    """TopK's indices, reshaped by ops without a task, repeated for each coordinate of a box, and
    the coordinates that they choose; ``wrong``: changes the repeated ones on the device.
    """
    golden, made = near_ties(scene, random)
    at = [top_indices(side) for side in (golden, made)]
    scene.op("top", "TopKV2", ["fc"], *at)
    scene.view("flat", "Reshape", "top", (256 * 9,))
    scene.view("wide", "Unsqueeze", "flat", (256, 9, 1))
    each = [np.tile(scene.golden["wide"], 4), wrong(np.tile(scene.made["wide"], 4))]
    scene.op("each", repeat, ["wide"], *each)
    scene.ops[-1]["attr"] = list(attributes)
    corners = scene.data(random.standard_normal((256, 64, 4)).astype(np.float32), "corners")
    sides = (corners, half(corners))
    found = [np.take_along_axis(side, one.astype(np.int64), 1) for side, one in zip(sides, each)]
    scene.op("boxes", "GatherElements", ["corners", "each"], *found)


@pytest.mark.parametrize("repeat", ["TileD", "ExpandD", "BroadcastTo"])
def test_near_ties_reach_their_readers_by_way_of_ops_without_a_task(scene, random, repeat):
    repeated(scene, random, repeat=repeat)
    code, summary, _ = scene.compare()
    found = rows(scene)
    otherwise = [
        tensor for tensor, row in found.items() if any(words in row["reason"] for words in EXCUSED)
    ]
    assert (code, summary["failed"], summary["suspects"]) == (0, 0, [])
    assert otherwise == [
        "top:output:0", "each:input:0", "each:output:0", "boxes:input:1", "boxes:output:0",
    ]  # fmt: skip
    assert found["boxes:output:0"]["metrics"]["RelativeEuclideanDistance"] > 0.03


def test_other_values_behind_an_op_without_a_task_fail(scene, random):
    golden, made = near_ties(scene, random)
    at = [top_indices(side) for side in (golden, made)]
    scene.op("top", "TopKV2", ["fc"], *at)
    scene.view("wide", "Unsqueeze", "top", (256, 9, 1))
    scene.made["wide"] = scene.made["wide"][:, ::-1]
    sides = scene.golden["wide"], scene.made["wide"]
    scene.op("each", "TileD", ["wide"], *(np.tile(side, 4) for side in sides))
    code, summary, _ = scene.compare()
    assert (code, rows(scene)["each:input:0"]["verdict"]) == (1, "fail")


def test_an_operator_that_repeats_near_ties_wrongly_is_outside_its_limits(scene, random):
    repeated(scene, random, wrong=lambda at: np.roll(at, 1, 0))
    code, summary, _ = scene.compare()
    found = rows(scene)
    assert (code, summary["first_divergence"]["op"]) == (1, "each")
    assert [found["each:%s:0" % kind]["verdict"] for kind in ("input", "output")] == [
        "pass",
        "fail",
    ]


def test_what_is_right_by_its_attributes_passes_behind_a_near_tie(scene, random):
    """No formula of the type alone is known; what lies before is not all computed again."""

    def numbers(*values):
        return {"list": {"val_type": "VT_LIST_INT", "i": list(values)}}

    detection(scene, random, behind=[("first", "StridedSliceD", lambda x: x[:, 1:5])])
    values = {"begin": numbers(0, 1), "end": numbers(256, 5), "strides": numbers(1, 1)}
    scene.ops[-1]["attr"] = [{"key": key, "value": value} for key, value in values.items()]
    code, summary, _ = scene.compare()
    assert (code, summary["failed"]) == (0, 0)
    assert "it is inherited" in rows(scene)["first:output:0"]["reason"]


def test_a_wrong_reader_of_a_near_tie_is_the_suspect(scene, random):
    detection(scene, random, wrong_gather=True)
    code, summary, text = scene.compare()
    assert (code, summary["first_divergence"]["op"], summary["first_divergence"]["inputs"]) == (
        1,
        "boxes",
        "bad",
    )
    assert (
        only_suspect(summary)["op"] == "boxes"
        and "from what is computed of the device's own inputs" in only_suspect(summary)["evidence"]
    )
    assert (
        "computed again from the device's own inputs it comes out otherwise, so the error is "
        "its own: the device computed GatherElements with its indices rolled by +1" in text
    )


def test_a_reader_that_cannot_be_computed_again_is_called_undecidable(scene, random):
    weights = random.standard_normal((9, 16)).astype(np.float32)
    detection(scene, random, behind=[("out", "MatMulV2", lambda x: x.astype(np.float32) @ weights)])
    code, summary, text = scene.compare()
    assert (code, summary["first_divergence"]["op"], summary["suspects"]) == (1, "out", [])
    expected = (
        "out:input:0 was decided otherwise than in golden data, near a tie, and these do not fit "
        "what is computed from it"
    )
    assert expected in text and "whether the operator is right cannot be told." in text


def row(op, kind, number, verdict, file, golden, **changes):
    metrics = {"RelativeEuclideanDistance": 0.5, "CosineSimilarity": 0.8, "DifferentElements": 0.5}
    made = {"metrics": metrics, "decided_by": "CosineSimilarity>0.99", **changes}
    tensor = "%s:%s:%d" % (op, kind, number)
    return Row(
        index=0,
        op=op,
        op_type="Gather",
        tensor=tensor,
        kind=kind,
        verdict=verdict,
        tensor_index=number,
        target_file=file,
        golden_file=golden,
        **made,
    )


def test_a_row_that_passed_behind_a_near_tie_can_be_judged_as_at_first():
    top = row("top", "output", 0, "fail", "t", "top.npy", reason="2 of 9 elements differ (1 is 3)")
    take = row(
        "take", "input", 1, "fail", "g", "top.npy", reason="a note; 2 of 9 elements differ (1 is 3)"
    )
    out = row("take", "output", 0, "fail", "g", "take.npy")
    passed = passing_row(top, FOLLOWS)
    for before, after in (
        (top, passed),
        (take, judged_like_output(take, passed)),
        (out, passing_row(out, BEHIND)),
    ):
        assert (after.verdict, after.warning, after.decided_by) == (
            "pass",
            DECIDED_OTHERWISE,
            before.decided_by,
        )
        assert as_first_judged(after) == before and as_first_judged(before) is before
    cancelled = row(
        "sub",
        "output",
        0,
        "pass",
        "s",
        "sub.npy",
        reason="Sub" + CANCELLED[2:],
        reason_codes="cancels_inputs",
    )
    after = judged_like_output(row("next", "input", 0, "fail", "n", "sub.npy"), cancelled)
    assert lets_inputs_pass(cancelled) and (
        after.verdict,
        after.warning,
    ) == ("pass", "")


def test_inputs_of_one_golden_tensor_with_different_values_are_not_alike():
    made = row("top", "output", 0, "pass", "t", "top.npy", warning=DECIDED_OTHERWISE)
    unlike = row(
        "take", "input", 1, "fail", "g", "top.npy", metrics={"RelativeEuclideanDistance": 0.6}
    )
    unknown = row("take", "input", 1, "fail", "g", "top.npy", metrics={})
    assert not alike(unlike, made) and not alike(unknown, made)
    same = {"shape": (9,), "reason_codes": "elements_differ=1:0badcafe"}
    made = made.but(**same)
    elsewhere = unlike.but(metrics=made.metrics, **{**same, "reason_codes": "elements_differ=1:1"})
    assert not alike(elsewhere, made) and alike(elsewhere.but(**same), made)


def aligned(target, golden, dtype="float32"):
    return AlignedPair(np.asarray(target), np.asarray(golden), dtype, (), np.asarray(target).size)


def test_an_index_selected_twice_is_wrong():
    values = aligned([[3.0, 3.0, 1.0]], [[3.0, 2.9, 1.0]])
    assert repeat_decisions("TopKV2", [values], aligned([[1, 0]], [[0, 1]], "int32")).unequal == 0
    assert repeat_decisions("TopKV2", [values], aligned([[1, 1]], [[0, 1]], "int32")).unequal == 1


def label(x):
    return x.argmax(1).astype(np.int32)


def scored(scene, golden, made, op_type="ArgMaxV2", decide=label, wrong=None, dtype=np.float16):
    """Scores that nothing computes once more, and what decides between them (wrongly: ``wrong`` of
    the device's decisions).
    """
    scene.data(golden)
    scene.op("scores", "Custom", ["data"], golden, made, dtype=dtype)
    right = decide(scene.made["scores"].astype(np.float32))
    scene.op(
        "decision", op_type, ["scores"], decide(golden), right if wrong is None else wrong(right)
    )
    return scene.compare()


def test_a_row_off_by_more_than_rounding_is_not_a_near_tie(scene, random):
    golden = random.standard_normal((64, 16)).astype(np.float32)
    golden[::2] /= 1000
    code, _, _ = scored(scene, golden, np.where(np.arange(64)[:, None] % 2, golden, -golden))
    assert code == 1 and rows(scene)["scores:output:0"]["verdict"] == "pass"


def test_one_class_that_is_too_large_is_not_a_near_tie(scene, random):
    golden = (5 + 0.1 * random.standard_normal((256, 64))).astype(np.float32)
    code, _, _ = scored(scene, golden, np.where(np.arange(64) == 7, 1.1 * golden, golden))
    assert code == 1 and rows(scene)["scores:output:0"]["verdict"] == "pass"


def test_of_many_decisions_a_quarter_may_differ_by_near_ties(scene, random):
    golden = (20 * random.standard_normal((64, 64))).astype(np.float32)
    cast = {"op_type": "Cast", "decide": lambda x: x.astype(np.int32)}
    assert scored(scene, golden, golden * 0.995, **cast)[0] == 0
    assert scored(scene, golden, golden * 0.975, **cast)[0] == 1


@pytest.mark.parametrize("distance", [0.001, 0.012])
@pytest.mark.parametrize("op_type", [*sorted(DECISIONS), "Less"])
def test_errors_of_healthy_networks_make_near_ties(scene, random, op_type, distance):
    golden = random.standard_normal((256, 250)).astype(np.float32)
    made = golden + distance * random.standard_normal(golden.shape)
    decide = DECISIONS.get(op_type, lambda x: x < 0.3)
    assert scored(scene, golden, made, op_type, decide)[0] == 0
    assert (
        distance < 0.01 or (decide(golden) != decide(scene.made["scores"].astype(np.float32))).any()
    )


@pytest.mark.parametrize("with_inputs", [True, False])
@pytest.mark.parametrize("index", [-1, 64, 2])
@pytest.mark.parametrize("op_type, count", [("ArgMaxV2", 1), ("TopKV2", 5)])
def test_impossible_golden_indices_are_not_near_ties(
    scene, random, op_type, count, index, with_inputs
):
    golden = random.standard_normal((256, 64)).astype(np.float32)
    golden[:, 2] -= 9
    scene.data(golden)
    scene.op("scores", "Custom", ["data"], golden, golden + 1e-4, with_inputs=with_inputs)
    at = np.argsort(-golden, 1, kind="stable")[:, :count].astype(np.int32)
    wrong = at.copy()
    wrong[7, 0] = index
    shape = (256, 5) if count > 1 else (256,)
    made = np.argsort(-scene.made["scores"].astype(np.float64), 1, kind="stable")[:, :count].astype(
        np.int32
    )
    scene.op(
        "decision",
        op_type,
        ["scores"],
        wrong.reshape(shape),
        made.reshape(shape),
        with_inputs=with_inputs,
    )
    assert scene.compare()[0] == 1 and rows(scene)["decision:output:0"]["verdict"] == "fail"


def test_of_several_nearly_fitting_choices_the_best_is_judged(scene, random):
    golden = random.uniform(-0.45, 0.45, (64, 64)).astype(np.float32)
    golden.reshape(-1)[::137] = random.uniform(3.55, 3.95, golden.reshape(-1)[::137].shape)
    cast = {"op_type": "Cast", "decide": lambda x: x.astype(np.int32)}
    code, summary, _ = scored(
        scene, golden, golden + 1e-4, wrong=lambda right: np.where(right == 3, 4, right), **cast
    )
    assert code == 1 and only_suspect(summary)["op"] == "decision"


def test_the_axis_of_a_choice_is_the_one_that_fits_best(scene, random):
    golden = (random.standard_normal((128, 128)) + 30 * np.eye(128)).astype(np.float32)
    golden[5, 5], golden[5, 7] = 31.0, 30.9999
    made = golden.copy()
    made[5, 5] = 30.97
    scene.data(golden)
    scene.op("scores", "Custom", ["data"], golden, made)
    scene.op(
        "decision", "ArgMaxV2", ["scores"], label(golden), label(half(made).astype(np.float32))
    )
    assert (label(golden) != label(half(made).astype(np.float32))).sum() == 1
    assert scene.compare()[0] == 0
    golden[9, 5] = 40.0
    made[9, 5] = 40.0
    scene.op("scores", "Custom", ["data"], golden, made)
    scene.op(
        "decision",
        "ArgMaxV2",
        ["scores"],
        label(golden),
        half(made).astype(np.float32).argmax(0).astype(np.int32),
    )
    assert scene.compare()[0] == 1


def test_a_threshold_is_found_between_values_decided_either_way(scene, random):
    golden = (random.uniform(size=(64, 64)) > 0.5).astype(np.float32)
    made = np.where(golden, 1, 1e-4 * random.randint(1, 4, golden.shape))
    some = random.uniform(size=golden.shape) > 0.9
    assert (
        scored(scene, golden, made, "Greater", lambda x: x > 0.5, lambda right: right | some)[0]
        == 1
    )
    assert scored(scene, golden, made, "Greater", lambda x: x > 0.5)[0] == 0


@pytest.mark.parametrize("mask", [-np.inf, -1e4, -65504.0])
def test_masked_scores_do_not_widen_the_near_tie(scene, random, mask):
    golden = random.standard_normal((64, 64)).astype(np.float32)
    golden[:, 0] = mask
    golden[3, 4], golden[3, 5] = 4.0, 3.9
    made = golden.copy()
    made[3, 5] += 0.2
    code, _, _ = scored(scene, golden, made)
    assert code == 1 and rows(scene)["scores:output:0"]["verdict"] == "pass"


def test_rows_that_depended_on_a_vanished_dump_are_judged_without_it(scene, random):
    detection(scene, random)
    compare = [
        sys.executable,
        "-m",
        "goldwatch",
        "compare",
        scene.target,
        scene.golden_dir,
        "-f",
        scene.model,
        "-q",
        "--jobs",
        "1",
        "-o",
    ]
    out = os.path.join(scene.folder, "continued")
    assert run_here([*compare, out]).returncode == 0
    (name,) = [name for name in os.listdir(scene.target) if ".top." in name]
    os.remove(os.path.join(scene.target, name))
    found = []
    for folder in (out, os.path.join(scene.folder, "fresh")):
        assert run_here([*compare, folder]).returncode == 1
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as stream:
            found.append(
                {
                    row["tensor"]: (row["verdict"], row["warning"])
                    for row in json.load(stream)["rows"]
                }
            )
    assert found[0] == found[1]


@pytest.mark.parametrize("wrong", [lambda at: at * 0, lambda at: 63 - at])
def test_scores_with_an_offset_are_not_all_near_ties(scene, random, wrong):
    golden = (100 + 0.15 * random.uniform(size=(32, 64))).astype(np.float32)
    made = golden + (1e-5 * random.standard_normal(golden.shape)).astype(np.float32)
    assert scored(scene, golden, made, wrong=wrong, dtype=np.float32)[0] == 1


@pytest.mark.parametrize("with_inputs", [True, False])
def test_golden_labels_that_are_all_0_are_judged(scene, random, with_inputs):
    golden = np.tile(np.array([[1.0, 0.5]], np.float32), (8, 1))
    golden[3] = 1.0001, 1.0
    made = half(golden)
    made[3] = 1.0, 1.001
    scene.data(golden)
    scene.op("scores", "Custom", ["data"], golden, made, with_inputs=with_inputs)
    scene.op("label", "ArgMaxV2", ["scores"], label(golden), label(made), with_inputs=with_inputs)
    assert not label(golden).any() and scene.compare()[0] == 0


@pytest.mark.parametrize("op_type, right, other", [
    ("ArgMaxV2", lambda x: x.argmax(1).astype(np.int32),
    lambda x: (15 - x[:, ::-1].argmax(1)).astype(np.int32)),
    ("Greater", lambda x: x > 3, lambda x: x >= 3),
])  # fmt: skip
def test_equal_inputs_allow_no_other_decision(scene, random, op_type, right, other):
    golden = random.randint(0, 9, (32, 16)).astype(np.float32)
    scene.data(golden)
    scene.op("scores", "Custom", ["data"], golden)
    scene.op("decision", op_type, ["scores"], right(golden), other(golden))
    assert scene.compare()[0] == 1 and only_suspect(scene.compare()[1])["score"] == 99


def test_other_differing_elements_are_not_a_near_tie(scene, random):
    golden, made = near_ties(scene, random)
    decided = [side > 0.25 for side in (golden, made)]
    scene.op("mask", "Greater", ["fc"], *decided)
    count = int((decided[0] != decided[1]).sum())
    scene.made["mask"] = decided[0].copy()
    scene.made["mask"].reshape(-1)[-count:] ^= True
    scene.op("not", "LogicalNot", ["mask"], ~decided[0], ~scene.made["mask"])
    assert scene.compare()[0] == 1 and rows(scene)["not:input:0"]["verdict"] == "fail"


@pytest.mark.parametrize("with_inputs", [True, False])
@pytest.mark.parametrize("limit", [
    "op=wide:DifferentElements<=0", "type=Cast:DifferentElements<=0",
    "type=Gather*:RelativeEuclideanDistance<0.01",
    "op=boxes:CosineSimilarity>0.9999", "op=boxes:MaxAbsoluteError<0.01",
])  # fmt: skip
def test_a_users_limit_decides_over_readers_of_near_ties(scene, random, limit, with_inputs):
    detection(scene, random, with_inputs=with_inputs)
    assert scene.compare()[0] == 0 and scene.compare("--limit", limit)[0] == 1


@pytest.mark.parametrize("with_inputs", [True, False])
@pytest.mark.parametrize("name, op_type, function, own", [
    ("reshape", "Reshape", lambda x: x.reshape(9, 256), [9, 256]),
    ("transpose", "Transpose", lambda x: x.T, [1, 0]),
    ("max", "ReduceMax", lambda x: x.max(1), [1]),
])  # fmt: skip
def test_shapes_and_axes_computed_behind_a_near_tie_pass(
    scene, random, name, op_type, function, own, with_inputs
):
    golden, made = near_ties(scene, random)
    at = [top_indices(side) for side in (golden, made)]
    scene.op("top", "TopKV2", ["fc"], *at, with_inputs=with_inputs)
    scene.op("own", "Pack", ["data"], np.array(own, np.int32), with_inputs=with_inputs)
    scene.op(name, op_type, ["top", "own"], *map(function, at), with_inputs=with_inputs)
    assert scene.compare()[0] == 0


@pytest.mark.parametrize("with_inputs", [True, False])
def test_a_decision_behind_a_near_tie_is_judged(scene, random, with_inputs):
    golden, made = near_ties(scene, random)
    at = [side.argmax(1).astype(np.int32) for side in (golden, made)]
    scene.op("label", "ArgMaxV2", ["fc"], *at, with_inputs=with_inputs)
    scene.op(
        "other",
        "GreaterEqual",
        ["label", "label"],
        *(one >= one for one in at),
        with_inputs=with_inputs,
    )
    scene.op("few", "Less", ["label"], *(one < 30 for one in at), with_inputs=with_inputs)
    assert (at[0] < 30).any() and ((at[0] < 30) != (at[1] < 30)).any() and scene.compare()[0] == 0
    scene.op("few", "Less", ["label"], at[0] < 30, np.roll(at[1] < 30, 1), with_inputs=with_inputs)
    assert scene.compare()[0] == 1


@pytest.mark.parametrize("with_inputs", [True, False])
def test_shapes_that_do_not_fit_do_not_end_the_run(scene, random, with_inputs):
    wide = [random.standard_normal((1, 64)).astype(np.float32) for _ in range(2)]
    column = [random.standard_normal((40_000, 1)).astype(np.float32) for _ in range(2)]
    line = [side.reshape(-1) for side in column]
    scene.data(wide[0])
    for name, sides in (("wide", wide), ("column", column), ("line", line)):
        scene.op(
            name, "Custom", ["data"], sides[0], sides[0] + 1e-3 * sides[1], with_inputs=with_inputs
        )
    scene.op(
        "few", "Greater", ["wide", "wide"], wide[0][0] > 0, wide[1][0] > 0, with_inputs=with_inputs
    )
    scene.op(
        "many", "Greater", ["column", "line"], line[0] > 0, line[1] > 0, with_inputs=with_inputs
    )
    scene.op("sum", "Add", ["column", "line"], line[0], line[1], with_inputs=with_inputs)
    code, summary, _ = scene.compare()
    assert code == 1 and summary["not_compared"] == 0 and "internal" not in str(rows(scene))


def test_a_watch_judges_rows_again_when_a_later_dump_arrives(scene, random):
    at = detection(scene, random)
    out = os.path.join(scene.folder, "watched")
    watch = [
        "watch",
        scene.target,
        scene.golden_dir,
        "-f",
        scene.model,
        "-o",
        out,
        "--until-idle",
        "0.5",
        "-q",
    ]
    assert run_here([sys.executable, "-m", "goldwatch", *watch]).returncode == 0
    (name,) = [name for name in os.listdir(scene.target) if ".top." in name]
    write_dump(os.path.join(scene.target, name), [scene.made["fc"]], [np.roll(at[1], 1, 1)])
    done = run_here([sys.executable, "-m", "goldwatch", *watch])
    with open(os.path.join(out, "result.json"), encoding="utf-8") as stream:
        watched = {row["tensor"]: row["verdict"] for row in json.load(stream)["rows"]}
    assert done.returncode == scene.compare()[0] == 1
    assert watched == {tensor: row["verdict"] for tensor, row in rows(scene).items()}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_only_equal_values_may_be_chosen_either_way(dtype):
    golden = np.array([[3.0, 2.0, 1.0], [5.0, 1.0, 2.0]])
    source = aligned([[2.998, 2.0, 3.0], [5.0, 1.0, 2.0]], golden, dtype)
    label = aligned([0, 0], [0, 0], "int32")
    assert repeat_decisions("ArgMax", [source], label).unequal == 0
    assert repeat_decisions("ArgMax", [source], label, exactly=True).unequal == 1
    tied = aligned([[3.0, 2.0, 3.0], [5.0, 1.0, 2.0]], golden, dtype)
    assert [
        repeat_decisions("ArgMax", [tied], aligned([at, 0], [0, 0], "int32"), exactly=True).unequal
        for at in (0, 1, 2)
    ] == [0, 1, 0]


def test_a_cast_of_large_values_may_not_be_off_by_one(scene, random):
    ids = random.uniform(1000, 2000, (32, 64)).astype(np.float32)
    scene.data(ids)
    scene.made["data"] = ids
    right = (ids * 1.0001).astype(np.float32)
    scene.op("scaled", "Muls", ["data"], ids, right, dtype=np.float32)
    made = right.astype(np.int32)
    scene.op("cast", "Cast", ["scaled"], ids.astype(np.int32), made)
    assert scene.compare()[0] == 0
    assert "every decision follows" in rows(scene)["cast:output:0"]["reason"]
    scene.op(
        "cast",
        "Cast",
        ["scaled"],
        ids.astype(np.int32),
        np.where(np.arange(64) == 7, made + 1, made),
    )
    assert scene.compare()[0] == 1


GATHERS = {
    "Gather": ((5, 4, 3), (2, 6), lambda x, at: [[x[number] for number in line] for line in at], 5),
    "GatherV2": ((5, 4, 3), (6,), lambda x, at: [[line[number] for number in at] for line in x], 4),
    "GatherV2D": (
        (2, 4, 3),
        (3,),
        lambda x, at: [[[line[number] for number in at] for line in part] for part in x],
        3,
    ),
    "GatherElements": (
        (4, 6),
        (4, 3),
        lambda x, at: [[x[i][number] for number in line] for i, line in enumerate(at)],
        6,
    ),
    "GatherNd": ((5, 4, 3), (7, 2), lambda x, at: [x[i][j] for i, j in at], 4),
    "GatherD": (
        (6, 4),
        (3, 4),
        lambda x, at: [[x[number][j] for j, number in enumerate(line)] for line in at],
        6,
    ),
}


@pytest.mark.parametrize("op_type", sorted(GATHERS))
def test_gathers_are_computed_again_from_the_devices_inputs(random, op_type):
    shape, at_shape, gather, size = GATHERS[op_type]
    golden = random.standard_normal(shape).astype(np.float32)
    made = golden.astype(np.float16)
    at = [random.randint(0, size, at_shape) for _ in range(2)]
    outputs = [
        np.array(gather(x.tolist(), one.tolist()), x.dtype) for x, one in zip((made, golden), at)
    ]
    inputs = [aligned(made, golden, "float16"), aligned(*at, dtype="int32")]
    assert follows(op_type, inputs, aligned(*outputs, dtype="float16"))
    wrong = outputs[0].copy()
    wrong[(-1,) * wrong.ndim] += 1
    assert not follows(op_type, inputs, aligned(wrong, outputs[1], "float16"))
    outside = at[0].copy()
    outside.flat[-1] = 99
    assert not follows(
        op_type, [inputs[0], aligned(outside, at[1], "int32")], aligned(*outputs, dtype="float16")
    )


def test_concats_and_casts_are_computed_again_from_the_devices_inputs(random):
    first, second = random.standard_normal((2, 3, 4)).astype(np.float32)
    goldens, mades = (first, second), (half(first), half(second * 2))
    for axis in (0, 1):
        output = aligned(np.concatenate(mades, axis), np.concatenate(goldens, axis), "float16")
        inputs = [aligned(made, golden, "float16") for made, golden in zip(mades, goldens)]
        assert follows("ConcatD", inputs, output) and not follows("ConcatD", inputs[::-1], output)
    ids = random.randint(0, 9, (2, 7))
    assert follows(
        "Cast", [aligned(*ids, dtype="int64")], aligned(*ids.astype(np.int32), dtype="int32")
    )
    assert not follows("Cast", [aligned(*ids, dtype="int64")], aligned(ids[0] + 1, ids[1], "int32"))


@pytest.mark.parametrize("with_inputs", [True, False])
def test_watch_and_compare_judge_near_ties_alike(scene, random, with_inputs):
    detection(
        scene,
        random,
        behind=[("out", "Sigmoid", lambda x: 1 / (1 + np.exp(-x.astype(np.float32))))],
        with_inputs=with_inputs,
    )
    assert scene.compare()[0] == 0
    batch = rows(scene)
    out = os.path.join(scene.folder, "watched")
    watch = [
        "watch",
        scene.target,
        scene.golden_dir,
        "-f",
        scene.model,
        "-o",
        out,
        "--until-idle",
        "0.5",
        "-q",
    ]
    done = run_here([sys.executable, "-m", "goldwatch", *watch])
    with open(os.path.join(out, "result.json"), encoding="utf-8") as stream:
        document = json.load(stream)
    assert done.returncode == 0 and {row["tensor"]: row for row in document["rows"]} == batch


def test_the_rounding_of_near_ties_is_that_of_the_default_limits():
    for dtype in ("float16", "float32", "float64", *LARGEST_ERROR):
        limits = {
            limit.metric: limit.value for limit in Limits().for_subject(Subject(dtype, "", ""))
        }
        assert LARGEST_ERROR.get(dtype, 0.03) == limits["RelativeEuclideanDistance"]


@pytest.mark.parametrize(("steps", "count", "own"), [(1, 3, False), (2, 3, True), (1, 400, True)])
def test_few_whole_numbers_that_are_off_by_one_accuse_no_quantiser(
    scene, random, steps, count, own
):
    """Which of two a quotient near their middle is rounded to, the arithmetic decides; where the
    operator cannot be computed, nothing tells more.
    """
    # As float16 holds them: the inputs are equal to golden data.
    data = random.standard_normal((32, 64)).astype(np.float16).astype(np.float32)
    data = scene.data(data)
    golden = np.clip(np.rint(40 * data), -100, 100).astype(np.int8)
    made = golden.copy()
    made.reshape(-1)[random.choice(made.size, count, False)] += steps
    scene.op("quantised", "Mystery", ["data"], golden, made)
    scene.op("broken", "Dequantise", ["quantised"], golden / 40.0, 0.5 + made / 40.0)
    code, summary, text = scene.compare()
    suspects = [one["op"] for one in summary["suspects"]]
    assert code == 1 and summary["first_divergence"]["op"] == "quantised"
    assert ("quantised" in suspects) == own and ("broken" in suspects or own)
    said = "of its whole numbers are off by 1, as rounding may decide: no operator need be wrong"
    assert (said in " ".join(text.split())) == (not own)
