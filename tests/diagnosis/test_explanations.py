"""Explanations of a suspect's error, each kind from dumps and golden files, through the command."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest
from scene_networks import dense, half, relu

from goldwatch.dumps import TensorData
from goldwatch.judging.diagnosis.explanations import KINDS, explanation
from goldwatch.judging.diagnosis.pattern_explanations import Surroundings, _of_pattern
from goldwatch.metrics.patterns import AlignedPair, find_patterns
from goldwatch.schemas import load_schema


def one_op(scene, random, wrong, golden=None, op_type="Mul", dtype=np.float16):
    """A product by 1.5 (or what ``golden`` makes of it), then one operator whose output ``wrong``
    makes of the right one.
    """
    data = scene.data(
        (golden or (lambda shape: random.standard_normal(shape)))((32, 64)).astype(np.float32)
    )
    first = scene.made["data"].astype(np.float32) * 1.5
    scene.op("first", "Muls", ["data"], data * 1.5, first)
    right = scene.made["first"].astype(np.float32)
    scene.op("broken", op_type, ["first"], scene.golden["first"], wrong(right), dtype=dtype)


def explanations(scene, *options, **how):
    code, summary, text = scene.compare(*options, **how)
    (suspect,) = summary["suspects"]
    return suspect["explanations"], text


WRONG = {
    "saturation": lambda x: np.clip(x, -1.8, 1.8),
    "overflow": lambda x: np.where(x > 4.0, np.inf, x),
    "activation": lambda x: np.where(np.abs(x) < 0.2, 0, x),
    "layout": lambda x: x.reshape(64, 32).T,
    "shift": lambda x: np.roll(x, 1, 1),
    "scale": lambda x: x * 1.3,
    "bias": lambda x: x + np.linspace(-1, 1, 64),
    "unexplained": lambda x: np.random.RandomState(5).permutation(x.reshape(-1)).reshape(x.shape),
    "dequantisation": lambda x: np.round(x / 0.04),
    "one-slice": lambda x: np.where(np.arange(64) == 7, np.cos(9 * x), x),
    "nan": lambda x: np.where(np.arange(64) == 7, np.nan, x),
    "rounding": lambda x: np.round(x / 0.25) * 0.25,
}


@pytest.mark.parametrize("kind", sorted(WRONG))
def test_each_kind_of_fault_is_explained_by_its_kind(scene, random, kind):
    one_op(scene, random, WRONG[kind])
    found, text = explanations(scene)
    assert [entry["kind"] for entry in found][:1] == [kind]
    assert "%s (100 %% of its error)" % kind in text and "next: " + found[0]["next"] in text


@pytest.mark.parametrize("largest", [1.8, 65504.0])
def test_float32_is_advised_only_where_values_are_cut_off_at_the_types_limit(
    scene, random, largest
):
    factor = 1.0 if largest < 2 else 40000.0
    data = scene.data(random.standard_normal((32, 64)).astype(np.float32))
    golden = data.astype(np.float32) * factor
    scene.op("broken", "Muls", ["data"], golden, np.clip(golden, -largest, largest))
    found = explanations(scene)[0][0]
    assert found["kind"] == "saturation"
    assert ("keep the operator in float32" in found["next"]) == (largest > 2)
    assert ("float32 does not mend it" in found["next"]) == (largest < 2)


@pytest.mark.parametrize("cut", [65504.0, np.inf])
def test_where_values_are_too_large_is_no_matter_of_places(scene, random, cut):
    """Four columns of large values hold most of the error, for their values alone are cut off."""
    data = scene.data(random.standard_normal((32, 64)).astype(np.float32))
    golden = data.astype(np.float32) * np.where(np.arange(64) % 16 == 3, 40000.0, 4000.0)
    device = np.where(np.abs(golden) > 65504, np.sign(golden) * cut, golden)
    scene.op("broken", "Muls", ["data"], golden.astype(np.float32), device.astype(np.float32))
    found = explanations(scene)[0]
    assert found[0]["kind"] == ("saturation" if np.isfinite(cut) else "overflow"), found
    assert "one-slice" not in [entry["kind"] for entry in found], found


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_constant_output_is_explained_as_not_computed(scene, random, value):
    one_op(scene, random, lambda x: np.full_like(x, value))
    (found,) = explanations(scene)[0]
    assert found["kind"] == "not-written"
    said = "every element of the target is %g: the output was not computed, or not written" % value
    assert found["sentence"].startswith(said)


@pytest.mark.parametrize("scale", [3e-4, 1e-6])
def test_values_too_small_for_float16_are_explained_as_flush_to_zero(scene, random, scale):
    one_op(
        scene,
        random,
        lambda x: np.where(np.abs(x) < 2.0**-14, 0, x),
        lambda shape: random.standard_normal(shape) * scale,
    )
    scene.op("first", "Muls", ["data"], scene.golden["first"], scene.golden["first"])
    found = explanations(scene)[0]
    assert found[0]["kind"] == "flush-to-zero"


def test_a_shift_is_explained_as_a_shift_only(scene, random):
    one_op(scene, random, WRONG["shift"])
    assert [entry["kind"] for entry in explanations(scene)[0]] == ["shift"]


@pytest.mark.parametrize(("axis", "words"), [(1, "order of its channels"), (2, "padding, stride")])
def test_a_shift_of_channels_is_not_explained_by_padding(axis, words):
    golden = np.random.RandomState(3).standard_normal((1, 8, 6, 6))
    pair = AlignedPair(np.roll(golden, 1, axis), golden, "float32", ("N", "C", "H", "W"))
    found = find_patterns(pair)[0]
    explained = _of_pattern(found, pair, None, Surroundings(), None)
    assert explained.kind == "shift" and words in explained.next


def test_a_temperature_of_softmax_is_explained_as_a_factor_of_its_input(scene, random):
    data = scene.data((4 * random.standard_normal((8, 100))).astype(np.float32))

    def softmax(x):
        raised = np.exp(x - x.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True)

    scene.op(
        "sm",
        "SoftmaxV2",
        ["data"],
        softmax(data),
        softmax(1.1 * scene.made["data"].astype(np.float32)),
    )
    found = explanations(scene)[0]
    assert (
        "Softmax with its input 0 times 1.1; golden data follow with its input 0 unchanged"
        in (found[0]["sentence"])
    )
    assert "one-slice" not in [entry["kind"] for entry in found]


@pytest.mark.parametrize("correlation", [0.0, 0.45, 0.9])
def test_few_unrelated_values_are_called_random_and_correlated_ones_are_not(
    scene, random, correlation
):
    golden, other = random.standard_normal((2, 10))
    golden, other = golden - golden.mean(), other - other.mean()
    other -= golden * (other @ golden) / (golden @ golden)
    made = golden * correlation + other * np.linalg.norm(golden) / np.linalg.norm(other) * np.sqrt(
        1 - correlation**2
    )
    scene.data(random.standard_normal((1, 10)).astype(np.float32))
    scene.op(
        "fc", "MatMulV2", ["data"], golden.reshape(1, 10).astype(np.float32), made.reshape(1, 10)
    )
    found = explanations(scene)[0]
    assert [entry["kind"] for entry in found] == ["unexplained"]
    assert ("no pattern fits what differs" in str(found)) == (correlation > 0.8)
    assert ("as 10 unrelated ones may be" in str(found)) == (correlation < 0.8)


LIKE = {
    "unrelated": (lambda x, random: random.standard_normal(x.shape), "nothing to do with"),
    "a little": (
        lambda x, random: 0.2 * x + random.standard_normal(x.shape),
        "no pattern fits what differs",
    ),
    "in another order": (
        lambda x, random: random.permutation(x.reshape(-1)).reshape(x.shape),
        "the golden's values in another order",
    ),
    "in another order, and rounded": (
        lambda x, random: random.permutation((x * (1 + 1e-4)).reshape(-1)).reshape(x.shape),
        "the golden's values in another order",
    ),
    "one row alone": (
        lambda x, random: np.where(
            np.arange(len(x))[:, None] == 5, x, 3 * random.standard_normal(x.shape)
        ),
        "no pattern fits what differs",
    ),
    "columns by a factor and an offset": (
        lambda x, random: (
            x * random.choice([-1.0, 1.0], x.shape[1])
            + 5 * random.standard_normal(x.shape[1])
            + 0.3 * random.standard_normal(x.shape)
        ),
        "",
    ),
}


@pytest.mark.parametrize("kind", sorted(LIKE))
def test_values_are_called_unrelated_only_where_nothing_relates_them(scene, random, kind):
    make, told = LIKE[kind]
    one_op(scene, random, lambda x: make(x, random), op_type="Mystery")
    found = explanations(scene)[0]
    assert told in str(found)
    assert ("nothing to do with" in str(found)) == (kind == "unrelated")
    assert ("in another order" in str(found)) == kind.startswith("in another order")


def test_noise_of_many_times_the_rounding_is_not_called_rounding(scene, random):
    one_op(scene, random, lambda x: x + 0.04 * random.standard_normal(x.shape))
    assert [entry["kind"] for entry in explanations(scene)[0]] == ["unexplained"]


@pytest.mark.parametrize("zero", [0, 20])
def test_raw_int8_values_are_explained_as_missing_dequantisation(scene, random, zero):
    one_op(scene, random, lambda x: np.clip(np.round(x / 0.05) + zero, -128, 127), dtype=np.int8)
    assert explanations(scene)[0][0]["kind"] == "dequantisation"


def test_whole_numbers_that_are_no_factor_off_are_not_called_dequantisation(scene, random):
    def wrapped(x):
        return np.rint(x * 100).astype(np.int8).astype(np.float32)

    one_op(scene, random, lambda x: wrapped(x), lambda shape: random.standard_normal(shape) * 300)
    said = str(explanations(scene)[0])
    assert "dequantisation" not in said and "the golden x" not in said


def test_a_dump_older_than_the_model_file_is_explained_as_stale(scene, random):
    one_op(scene, random, lambda x: x + 0.5 * random.standard_normal(x.shape))
    for folder, _, names in os.walk(scene.target):
        for name in names:
            os.utime(os.path.join(folder, name), (1.6e9, 1.6e9))
    found, text = explanations(scene)
    assert [entry["kind"] for entry in found] == ["stale-dump"]
    assert (
        "is older than the model file" in text
        and "run the program again with the present model" in text
    )


def test_a_dump_of_a_later_time_folder_is_not_called_stale(scene, random):
    place = "20991231235959/0/net/1/0"
    data = scene.data(random.standard_normal((32, 64)).astype(np.float32))
    scene.op(
        "broken",
        "Abs",
        ["data"],
        np.abs(data),
        np.abs(data) + 0.5 * random.standard_normal(data.shape),
        place=place,
    )
    for folder, _, names in os.walk(scene.target):
        for name in names:
            os.utime(os.path.join(folder, name), (1.6e9, 1.6e9))
    assert "stale-dump" not in [entry["kind"] for entry in explanations(scene)[0]]


def one_stale_file(scene, random, name, **options):
    """A network of which one dump file is of a run with another input; everything else is of one
    run.
    """
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    for number, source in enumerate(["data", "fc0", "relu1", "fc2", "relu3", "fc4", "fc5"]):
        here = "relu%d" % number if number in (1, 3, 6) else "fc%d" % number
        other = (lambda made: made[::-1]) if here == name else None
        (relu if here.startswith("relu") else partial(dense, random=random))(
            scene=scene, name=here, source=source, wrong=other, **options
        )
        if here == name:
            scene.made[here] = scene.made[here][::-1]


@pytest.mark.parametrize(
    "name, with_inputs",
    [("fc0", True), ("relu1", True), ("fc2", True), ("fc0", False), ("fc2", False)],
)
def test_one_stale_dump_file_accuses_neither_the_operator_nor_golden_data(
    scene, random, name, with_inputs
):
    one_stale_file(scene, random, name, with_inputs=with_inputs)
    code, summary, text = scene.compare()
    (suspect,) = summary["suspects"]
    assert (code, suspect["op"], suspect["explanations"][0]["kind"]) == (1, name, "stale-dump")
    assert (
        "its golden data are right, and so is what the operators behind it make of its "
        "output: its dump is not what they read." in text
    )
    assert "error is its own" not in text and "inherited" not in text and "deinplace" not in text


@pytest.mark.parametrize("name", ["relu1", "relu3"])
def test_a_stale_dump_read_only_by_a_product_is_one_of_two_possibilities(scene, random, name):
    one_stale_file(scene, random, name, with_inputs=False)
    found, text = explanations(scene)
    assert (
        found[-1]["kind"] == "stale-dump"
        and found[-1]["share"] == 0
        and "wrong-golden" not in [entry["kind"] for entry in found]
    )
    assert (
        "its dump file may be of another run, or what differs does not count there"
        in found[-1]["sentence"]
    )
    assert "so the error is its own: its output is" in text


def test_wrong_golden_data_or_a_stale_dump_are_both_named_when_undecidable(scene, random):
    one_stale_file(scene, random, "fc4", with_inputs=False)
    found, text = explanations(scene)
    assert (
        found[0]["kind"] == "wrong-golden"
        and "either its golden data are wrong, or its dump file is of another run" in text
    )
    assert "look at the times" in found[0]["next"]


@pytest.mark.parametrize("with_inputs", [True, False])
def test_an_error_that_no_weight_reads_is_the_operators_own(scene, random, with_inputs):
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    dense(scene, random, "first", "data", with_inputs=with_inputs)
    unread = np.arange(64) >= 40
    weights = np.where(unread[:, None], 0, random.standard_normal((64, 64))).astype(np.float32) / 8
    made = np.maximum(scene.made["first"].astype(np.float32), 0)
    scene.op(
        "relu",
        "Relu",
        ["first"],
        np.maximum(scene.golden["first"], 0),
        np.where(unread, 5 * made + 1, made),
        with_inputs=with_inputs,
    )
    outputs = [
        scene.golden["relu"] @ weights,
        scene.made["relu"].astype(np.float32) @ half(weights).astype(np.float32),
    ]
    scene.op("fc", "MatMulV2", ["relu"], *outputs, with_inputs=with_inputs)
    dense(scene, random, "next", "fc", with_inputs=with_inputs)
    found, text = explanations(scene)
    assert not any(
        entry["share"] == 1 for entry in found if entry["kind"] in ("stale-dump", "wrong-golden")
    )
    assert (
        "relu (Relu) is the first operator outside its limits" in text
        and "error is its own" in text
    )


def test_an_error_partly_hidden_by_a_relu_is_blamed_on_the_operator(scene, random):
    data = scene.data(random.standard_normal((32, 64)).astype(np.float32))
    made = scene.made["data"].astype(np.float32)
    scene.op("twice", "Mul", ["data"], data * 2, made * 2)
    right = scene.made["twice"].astype(np.float32) + made
    scene.op(
        "sum",
        "Add",
        ["twice", "data"],
        scene.golden["twice"] + data,
        np.where(right < 0, 3 * right, right),
    )
    relu(scene, "relu", "sum")
    found, text = explanations(scene)
    assert (
        "stale-dump" not in [entry["kind"] for entry in found]
        and "so the error is its own." in text
    )


def test_garbage_in_the_padding_of_stored_tensors_is_explained(scene, random):
    stored = random.standard_normal((2, 2, 5, 5, 16)).astype(np.float16)
    stored[:, 1, :, :, 4:] = 0
    rubbish = stored.copy()
    rubbish[:, 1, :, :, 4:] = 7
    for side, values in (("dump", rubbish), ("other", stored)):
        scene.write(side, "", "conv", "Conv2D", [], [TensorData(values, format="NC1HWC0")])
    found, text = explanations(scene, model=False, golden=os.path.join(scene.folder, "other"))
    assert found[0]["kind"] == "padding" and "channels from 20 on hold the error" in text


def test_garbage_in_padding_does_not_make_golden_data_wrong(scene, random):
    stored = np.zeros((2, 2, 5, 5, 16), np.float16)
    stored[:, 0], stored[:, 1, :, :, :4] = (
        random.standard_normal((2, 5, 5, 16)),
        random.standard_normal((2, 5, 5, 4)),
    )
    rubbish = stored.copy()
    rubbish[:, 1, :, :, 4:] = 7
    described = [{"layout": "NC1HWC0", "shape": [2, 2, 5, 5, 16]}]
    scene.ops += [
        {"name": "first", "type": "Abs", "id": 0, "output_desc": described},
        {"name": "relu", "type": "Relu", "id": 1, "input": ["first:0"], "output_desc": described},
        {"name": "conv", "type": "Conv2D", "id": 2, "input": ["relu:0"], "output_desc": described},
    ]
    for side, made in (("dump", rubbish), ("other", stored)):
        kept, made = (TensorData(values, format="NC1HWC0") for values in (stored, made))
        scene.write(side, "", "first", "Abs", [], [kept])
        scene.write(side, "", "relu", "Relu", [kept], [made])
        scene.write(side, "", "conv", "Conv2D", [made], [kept])
    found, text = explanations(scene, golden=os.path.join(scene.folder, "other"))
    assert [entry["kind"] for entry in found] == ["padding"] and "golden data are wrong" not in text


def test_a_suspect_of_an_unfinished_run_is_explained_by_its_row(scene, random):
    from goldwatch.run.result import stored_result
    from goldwatch.store.json_numbers import plain_tree
    from goldwatch.store.store import RunStore

    one_op(scene, random, WRONG["nan"])
    _, told, _ = scene.compare()
    opened = stored_result(scene.out)
    assert (
        plain_tree(opened.summary.document()) == told
        and "on one side only" in told["suspects"][0]["explanations"][0]["sentence"]
    )
    # A second start takes the summary away until its end.
    RunStore.begin(scene.out, RunStore.open(scene.out).get("inputs")).close()
    (suspect,) = stored_result(scene.out).summary.suspects
    assert [(entry.kind, entry.sentence) for entry in suspect.explanations] == [
        ("nan", "32 elements of the target and 0 of the golden are NaN")
    ]


def test_the_schema_of_the_result_lists_every_kind():
    suspect = load_schema("result")["definitions"]["suspect"]["properties"]
    kind = suspect["explanations"]["items"]["properties"]["kind"]
    assert set(kind["enum"]) == set(KINDS)


@pytest.mark.parametrize("op_type", ["Conv2D", "ConcatD", "DynamicRNN"])
def test_advice_fits_the_type_of_the_operator(op_type):
    shifted = explanation("shift", 1.0, "shifted by +1 along axis 1")
    told = shifted.fitting(op_type)
    assert ("padding" in told.next) == (op_type == "Conv2D")
    of_golden = shifted.without_model().next
    assert "not why" in of_golden and "with the original model" in of_golden
