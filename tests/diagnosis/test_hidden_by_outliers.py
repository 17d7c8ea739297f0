"""Errors hidden by channels a thousand times larger than others are found, and blamed on their
producer.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scene_networks import own_error

from goldwatch.judging.diagnosis.own_error.tensor_checks import without_largest
from goldwatch.metrics.patterns import AlignedPair

LARGE = [5, 17, 40]
REST = [channel for channel in range(64) if channel not in LARGE]


def rms_norm(x, gain):
    x = x.astype(np.float32)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain


def network(scene, random, wrong):
    """An embedding with large channels, a normalisation that takes them down, as trained models do,
    and what reads it.
    """
    table = random.standard_normal((300, 64)).astype(np.float32)
    table[:, LARGE] *= 1000
    gain = np.where(np.isin(np.arange(64), LARGE), 0.25, 250.0).astype(np.float32)
    ids = random.randint(0, 300, (1, 16)).astype(np.int32)
    scene.data(ids, "ids")
    made = table[ids].astype(np.float16).astype(np.float32)
    wrong(made)
    scene.op("emb", "GatherV2", ["ids"], table[ids], made)
    scene.op(
        "norm",
        "RmsNorm",
        ["emb"],
        *(rms_norm(side["emb"], gain) for side in (scene.golden, scene.made)),
    )
    weights = random.standard_normal((64, 64)).astype(np.float32) / 8
    scene.op(
        "fc",
        "MatMul",
        ["norm"],
        *(side["norm"].astype(np.float32) @ weights for side in (scene.golden, scene.made)),
    )


def zero(made):
    made[..., REST] = 0


def larger(made):
    made[..., REST] *= 1.3


def one_token(made):
    made[:, 7, REST] = made[:, 8, REST]


@pytest.mark.parametrize("wrong", [zero, larger, one_token])
def test_an_error_hidden_by_large_channels_is_blamed_on_its_producer(scene, random, wrong):
    network(scene, random, wrong)
    _, summary, text = scene.compare()
    assert [suspect["op"] for suspect in summary["suspects"]] == ["emb"]
    assert "when a few large values are left out that hide it" in summary["suspects"][0]["evidence"]
    assert (
        summary["first_divergence"]["op"] == "norm"
        and summary["first_divergence"]["inputs"] == "good"
    )
    assert (
        "own inputs it is right, so the error is inherited, and grew on the way. Besides, emb "
        "(GatherV2) is susp" in text
    )


def test_healthy_networks_with_large_channels_have_no_suspect(scene, random):
    network(scene, random, lambda made: None)
    code, summary, _ = scene.compare()
    assert (code, summary["suspects"]) == (0, [])


def test_the_distance_without_outliers_equals_plain_numpy(random):
    y = random.standard_normal((40, 64))
    y[:, LARGE] *= 1000
    y[3, :7] = 0
    x = y * np.where(np.isin(np.arange(64), LARGE), 1.0, 1.3)
    x[0, 0] = np.nan
    places = sorted(
        (abs(value), place)
        for place, value in enumerate(y.ravel())
        if value and np.isfinite(x.ravel()[place])
    )
    kept = [place for _, place in places[: int(0.9 * len(places)) + 1]]
    size, off = (math.fsum(values.ravel()[place] ** 2 for place in kept) for values in (y, x - y))
    found = without_largest(AlignedPair(x, y, "float32", (), y.size))
    assert found.hidden and found.distance == pytest.approx(math.sqrt(off / size))
    assert found.rms == pytest.approx(math.sqrt(size / len(kept)))
    plain = random.standard_normal((40, 64))
    assert not without_largest(AlignedPair(plain, plain, "float32", (), plain.size)).hidden


@pytest.mark.parametrize("op_type", ["LayerNorm", "RmsNorm"])
@pytest.mark.parametrize("wrong", [0.0, 0.02])
def test_a_normalisation_is_computed_again_with_golden_scale_and_shift(random, op_type, wrong):
    x = 3.0 + random.standard_normal((2, 8, 32))
    gain, shift = random.standard_normal((2, 32))
    device = x * (1 + 0.05 * random.standard_normal(x.shape))

    def computed(values, epsilon):
        made = np.empty_like(values)
        for place in np.ndindex(values.shape[:2]):
            row = [float(value) for value in values[place]]
            middle = math.fsum(row) / 32 if op_type == "LayerNorm" else 0.0
            root = math.sqrt(math.fsum((value - middle) ** 2 for value in row) / 32 + epsilon)
            made[place] = [
                (value - middle) / root * g + (b if op_type == "LayerNorm" else 0.0)
                for value, g, b in zip(row, gain, shift)
            ]
        return made

    golden, made, right = computed(x, 1e-5), computed(device, 1e-5 + wrong), computed(device, 1e-5)
    pairs = [
        AlignedPair(target, y, "float32", (), y.size) for target, y in ((device, x), (made, golden))
    ]
    own = own_error(op_type, pairs[:1], pairs[1])
    expected = np.linalg.norm(made - right) / np.linalg.norm(right)
    assert own.distance == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert np.linalg.norm(made - golden) > 0.02 * np.linalg.norm(golden)


@pytest.mark.parametrize("shape", [(2, 8), (3, 8), (8,)])
def test_scale_and_shift_are_not_fitted_to_few_rows(random, shape):
    x = random.standard_normal(shape)
    assert (
        own_error(
            "LayerNorm",
            [AlignedPair(x, x, "float32", (), x.size)],
            AlignedPair(x, x * 2, "float32", (), x.size),
        )
        is None
    )


@pytest.mark.parametrize("wrong", [0, 1, 2, None])
def test_a_normalisation_with_another_epsilon_is_the_suspect(scene, random, wrong):
    def normalised(x, epsilon):
        x = x.astype(np.float32) - x.astype(np.float32).mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)

    scene.data(random.standard_normal((2, 16, 48)).astype(np.float32))
    source = "data"
    for number in range(3):
        name = "ln%d" % number
        epsilon = 8e-3 if number == wrong else 1e-6
        scene.op(
            name,
            "LayerNorm",
            [source],
            normalised(scene.golden[source], 1e-6),
            normalised(scene.made[source], epsilon),
        )
        weights = (random.standard_normal((48, 48)) / 7).astype(np.float16).astype(np.float32)
        source = "fc%d" % number
        scene.op(
            source,
            "MatMul",
            [name],
            *(side[name].astype(np.float32) @ weights for side in (scene.golden, scene.made)),
        )
    code, summary, _ = scene.compare()
    assert code == 0 and [suspect["op"] for suspect in summary["suspects"]] == (
        [] if wrong is None else ["ln%d" % wrong]
    )
    if wrong is not None:
        said = summary["suspects"][0]["explanations"][0]["sentence"]
        assert (
            "LayerNormalization with epsilon 0.008; golden data follow with 1e-05 or one as" in said
        )


def test_what_is_lost_in_one_step_did_not_grow_on_the_way(scene, random):
    """Squares below the least step of float16 are 0, and pass: nothing of them can be nearer."""
    values = scene.data(random.uniform(5e-5, 1e-4, (64, 32)).astype(np.float32))
    scene.op("square", "Square", ["data"], values * values)
    scene.op("root", "Sqrt", ["square"], values, np.zeros_like(values))
    code, summary, text = scene.compare()
    assert (code, summary["suspects"], summary["first_divergence"]["op"]) == (1, [], "root")
    assert "the error is inherited: square underflows: its values (root mean square " in text
    assert "grew on the way" not in text
