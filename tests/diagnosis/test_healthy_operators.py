"""Healthy operators whose errors stand out are not accused, and a fault in their place is found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from operator_chain import normals_of

from goldwatch.judging.diagnosis.own_error.normal_error import independent_values, scatter


def stored(values, dtype=np.float16):
    return values.astype(dtype).astype(np.float32)


def shortened(values):
    """float32 numbers with 10 bits of mantissa, as a cube unit multiplies them."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def of_8_bits(values):
    step = np.abs(values).max() / 127
    return (np.round(values / step) * step).astype(np.float32)


def unchanged(values):
    return values.astype(np.float32)


def exact_data(scene, random, *shape):
    """An input of the network that the device holds exactly."""
    scene.data(stored(random.standard_normal(shape)))


def product(
    scene,
    random,
    name,
    source,
    width=64,
    fed=stored,
    dtype=np.float16,
    gain=1.4,
    wrong=None,
    positive=False,
):
    """A product of matrices whose device rounds both factors by ``fed`` and its output to
    ``dtype``.
    """
    golden, made = scene.golden[source], scene.made[source].astype(np.float32)
    weights = random.standard_normal((golden.shape[-1], width)) * gain / math.sqrt(golden.shape[-1])
    right, found = golden @ weights, fed(made) @ fed(weights.astype(np.float32))
    right, found = (np.maximum(right, 0), np.maximum(found, 0)) if positive else (right, found)
    scene.op(
        name,
        "MatMulV2",
        [source],
        right.astype(np.float32),
        wrong(found) if wrong else found,
        dtype,
    )


def relu(scene, name, source, dtype):
    made = np.maximum(scene.made[source].astype(np.float32), 0)
    scene.op(name, "Relu", [source], np.maximum(scene.golden[source], 0), made, dtype)


def alternating(scene, random, fed, dtype, wrong=None):
    """Eight layers, the first of which has exact inputs."""
    exact_data(scene, random, 32, 64)
    source = "data"
    for number in range(8):
        product(
            scene,
            random,
            "fc%d" % number,
            source,
            64,
            fed,
            dtype,
            wrong=wrong if number == 0 else None,
        )
        relu(scene, "relu%d" % number, "fc%d" % number, dtype)
        source = "relu%d" % number


ARITHMETICS = {
    "float32": (unchanged, np.float32), "float32 shortened": (shortened, np.float32),
    "8-bit inputs": (of_8_bits, np.float16),
}  # fmt: skip


@pytest.mark.parametrize("device", sorted(ARITHMETICS))
def test_an_error_common_to_all_operators_does_not_accuse_the_first(scene, random, device):
    alternating(scene, random, *ARITHMETICS[device])
    assert scene.compare()[1]["suspects"] == []


@pytest.mark.parametrize("device", sorted(ARITHMETICS))
def test_a_wrong_first_operator_is_not_excused_by_the_others_errors(scene, random, device):
    factor = 1.05 if device == "8-bit inputs" else 1.01
    alternating(scene, random, *ARITHMETICS[device], wrong=lambda made: made * factor)
    suspects = scene.compare()[1]["suspects"]
    assert suspects[0]["op"] == "fc0" and suspects[0]["explanations"][0]["kind"] == "scale"


@pytest.mark.parametrize("width", [1, 2, 8])
def test_few_values_near_0_by_chance_accuse_no_operator(scene, random, width):
    exact_data(scene, random, 1, 64)
    for block in range(24):
        source = "fc%d" % (block - 1) if block else "data"
        product(scene, random, "fc%d" % block, source, gain=1.0)
        product(scene, random, "squeeze%d" % block, "fc%d" % block, width, positive=width > 2)
    assert scene.compare()[1]["suspects"] == []


def test_a_wrong_squeezing_operator_is_the_suspect(scene, random):
    exact_data(scene, random, 1, 64)
    for block in range(12):
        source = "fc%d" % (block - 1) if block else "data"
        product(scene, random, "fc%d" % block, source, gain=1.0)
        product(
            scene,
            random,
            "squeeze%d" % block,
            "fc%d" % block,
            8,
            wrong=(lambda made: made * 1.04) if block == 5 else None,
        )
    assert [entry["op"] for entry in scene.compare()[1]["suspects"]] == ["squeeze5"]


def moved(scene, random, kind, shape, moves, wrong=None):
    """Six arrays, each moved by ``moves``; the error of one of them sits in one element."""
    for block in range(6):
        golden = random.standard_normal(shape).astype(np.float32)
        off = 5e-4 * random.standard_normal(shape)
        if block == 3:
            off = np.where(golden == golden.max(), 5e-4 * math.sqrt(golden.size), 0)
        scene.op("made%d" % block, "BatchMatMul", ["data"], golden, golden + off)
        made = scene.made["made%d" % block]
        scene.op(
            "moved%d" % block,
            kind,
            ["made%d" % block],
            moves(golden),
            (wrong if block == 3 and wrong else moves)(made),
        )


def test_operators_that_only_move_values_inherit_their_error(scene, random):
    exact_data(scene, random, 1, 4)
    moved(scene, random, "Reshape", (8, 16, 16, 16), lambda values: values.reshape(16, -1))
    assert not any(entry["op_type"] == "Reshape" for entry in scene.compare()[1]["suspects"])


def test_a_move_to_wrong_places_is_the_suspect(scene, random):
    exact_data(scene, random, 1, 4)

    def turned(values):
        return values.transpose(0, 2, 1, 3)

    moved(
        scene,
        random,
        "TransposeD",
        (1, 4, 4, 8),
        turned,
        lambda values: np.roll(turned(values), 1, axis=3),
    )
    assert "moved3" in [entry["op"] for entry in scene.compare()[1]["suspects"]]


def test_an_added_mask_does_not_accuse_the_scores(scene, random):
    exact_data(scene, random, 16, 64)
    mask = np.triu(np.full((16, 16), -1e4, np.float32), 1)
    for block in range(6):
        source = "fc%d" % (block - 1) if block else "data"
        product(scene, random, "fc%d" % block, source, gain=1.0)
        wrong = (lambda made: made * 1.04) if block == 2 else None
        product(scene, random, "scores%d" % block, "fc%d" % block, 16, wrong=wrong)
        made = scene.made["scores%d" % block].astype(np.float32) + mask
        scene.op(
            "mask%d" % block,
            "Add",
            ["scores%d" % block],
            scene.golden["scores%d" % block] + mask,
            made,
        )
    assert [entry["op"] for entry in scene.compare()[1]["suspects"]] == ["scores2"]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 40])
def test_the_scatter_of_few_values_equals_a_simulation(count):
    random = np.random.RandomState(1)
    errors, values = random.standard_normal((2, 100000, count))
    ratios = np.log(np.linalg.norm(errors, axis=1) / np.linalg.norm(values, axis=1))
    assert scatter(count) == pytest.approx(ratios.std(), rel=0.02)


def test_gain_and_noise_both_count_where_they_cannot_be_separated():
    alike = [
        ("op%d" % number, "MatMul", 1.2e-3 + number * 1e-7, 1e-3, 1e-8, 0.0) for number in range(12)
    ]
    normal = normals_of(alike).of("first", "MatMul")
    assert normal.most(1e-3, 1e-8) == pytest.approx(1.2e-3, rel=0.1)
    assert 5e-4 < normal.most(0.0, 1e-8) < 8e-4


def test_inputs_of_many_sizes_separate_gain_and_noise():
    fed = np.exp(np.linspace(math.log(1e-6), math.log(1e-2), 24))
    normal = normals_of(
        [("op%d" % at, "MatMul", 1.2 * size, size, 1e-8, 0.0) for at, size in enumerate(fed)]
    ).of("first", "MatMul")
    assert normal.most(0.0, 1e-8) < 1e-6


def test_repeated_rows_and_values_near_0_do_not_count_as_independent():
    random = np.random.RandomState(3)
    row = random.standard_normal((1, 60))
    assert 40 <= independent_values(row) <= 90
    assert independent_values(np.repeat(row, 32, axis=0)) < 60
    assert independent_values(random.standard_normal((32, 1))) < 8
    assert independent_values(np.where(np.arange(8) == 3, 1.0, 0.01)[None]) <= 3
    assert independent_values(np.zeros((1, 8))) == 1


def test_a_squeeze_of_repeated_rows_is_not_accused(scene, random):
    exact_data(scene, random, 1, 64)
    scene.ops.clear()
    scene.data(stored(np.repeat(scene.golden["data"], 16, axis=0)))
    for block in range(16):
        source = "fc%d" % (block - 1) if block else "data"
        product(scene, random, "fc%d" % block, source, gain=1.0)
        product(scene, random, "squeeze%d" % block, "fc%d" % block, 3, positive=True)
    assert scene.compare()[1]["suspects"] == []


@pytest.mark.parametrize("with_inputs", [True, False])
@pytest.mark.parametrize("wrong", [("a",), ("b",), ("a", "b"), ("a", "b", "c")])
def test_each_input_of_the_network_that_was_fed_otherwise_accuses_no_operator(
    scene, random, wrong, with_inputs
):
    """Also where only the output of the Cast that reads it was dumped."""
    for name in "abc":
        golden = random.standard_normal((16, 32)).astype(np.float32)
        scene.data(golden, name)
        fed = random.standard_normal((16, 32)).astype(np.float32) if name in wrong else golden
        scene.made[name] = fed
        scene.op("cast_" + name, "Cast", [name], golden, fed, with_inputs=with_inputs, npy=False)
    made = scene.made
    for name, one, other in (("first", "cast_a", "cast_b"), ("last", "first", "cast_c")):
        right = [side[one].astype(np.float32) + side[other] for side in (scene.golden, made)]
        scene.op(name, "Add", [one, other], *right, with_inputs=with_inputs)
    code, summary, text = scene.compare()
    assert code == 1 and "no operator need be wrong" in text
    assert {one["confidence"] for one in summary["suspects"]} == {"none"}, text
    assert {one["explanations"][0]["kind"] for one in summary["suspects"]} == {"other-input"}
    for name in wrong:
        assert "no suspect, though cast_%s (Cast) differs" % name in text
    assert "suspect 1" not in text and "suspect 2" not in text
