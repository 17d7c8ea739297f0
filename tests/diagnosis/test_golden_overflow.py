"""Golden data that overflowed or hold NaN are called wrong, and not the device."""

from __future__ import annotations

import numpy as np
import pytest
from scene_networks import explanation_kinds, half, only_suspect, text_before_next_command

LARGEST = 65504.0
GROWN = 2
"""The product whose values leave float16's range."""


def overflowing(scene, random, spoil=None, wrong=None, saturates=True, **options):
    """Products and ReLUs in float16, the golden run too; its values become Inf where the device
    saturates.
    """
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    source = "data"
    for number in range(6):
        factor = (
            60000.0
            if number == GROWN and spoil is None
            else 1.0 / 60000.0
            if number == GROWN + 1 and spoil is None
            else 1.0
        )
        weights = half(random.standard_normal((64, 64)).astype(np.float32) * factor / 8).astype(
            np.float32
        )
        name, behind = "fc%d" % number, "relu%d" % number
        with np.errstate(over="ignore", invalid="ignore"):
            golden = (scene.golden[source].astype(np.float32) @ weights).astype(np.float16)
        if number == GROWN and spoil is not None:
            golden[3, 5] = spoil
        made = scene.made[source].astype(np.float32) @ weights
        made = wrong[name](made) if wrong and name in wrong else made
        if saturates:
            made = np.clip(made, -LARGEST, LARGEST)
        scene.op(name, "MatMulV2", [source], golden, made, **options)
        scene.op(
            behind,
            "Relu",
            [name],
            np.maximum(golden, 0),
            np.maximum(scene.made[name].astype(np.float32), 0),
            **options,
        )
        source = behind


@pytest.mark.parametrize("with_inputs", [True, False])
@pytest.mark.parametrize("spoil", [None, np.nan, np.inf])
def test_golden_data_that_overflowed_are_blamed_and_not_the_device(
    scene, random, spoil, with_inputs
):
    # Where golden data are Inf the device is at its largest number.
    top = {
        "fc2": lambda made: np.where(
            np.arange(made.size).reshape(made.shape) == 3 * 64 + 5, LARGEST, made
        )
    }
    wrong = top if spoil == np.inf else None
    overflowing(scene, random, spoil, wrong, with_inputs=with_inputs)
    code, summary, text = scene.compare()
    suspect = only_suspect(summary)
    assert (code, suspect["op"], explanation_kinds(suspect)) == (1, "fc2", ["wrong-golden"])
    assert suspect["explanations"][0]["sentence"].startswith("its golden data hold ")
    assert suspect["evidence"].startswith(
        "its golden data have NaN or Inf where its output has numbers"
    )
    ends = (
        "the golden data are wrong, not the operator."
        if spoil is None or spoil == np.inf
        else "the golden run made them here, and these elements tell nothing of the operator."
    )
    assert text_before_next_command(text).endswith(ends)
    assert "the golden file alone holds them" in text and "error is its own" not in text
    assert any("the golden run made them: fc2, " in one["sentence"] for one in summary["warnings"])


def test_a_fault_before_overflowed_golden_data_is_still_the_suspect(scene, random):
    overflowing(scene, random, wrong={"fc1": lambda made: 1.2 * made})
    _, summary, text = scene.compare()
    assert (only_suspect(summary)["op"], explanation_kinds(only_suspect(summary))[0]) == (
        "fc1",
        "scale",
    )
    assert "fc1 (MatMulV2) is the first operator outside its limits" in text
    assert any("the golden run made them: fc2, " in one["sentence"] for one in summary["warnings"])


def test_wrong_values_beside_nan_in_golden_data_are_the_operators_error(scene, random):
    overflowing(scene, random, np.nan, {"fc2": lambda made: -made})
    _, summary, text = scene.compare()
    assert (only_suspect(summary)["op"], explanation_kinds(only_suspect(summary))[0]) == (
        "fc2",
        "scale",
    )
    assert "the golden data are wrong, not the operator" not in text


def test_infinity_in_golden_data_for_a_small_number_excuses_no_operator(scene, random):
    overflowing(scene, random, np.inf)
    _, summary, text = scene.compare()
    assert only_suspect(summary)["op"] == "fc2" and "wrong-golden" not in explanation_kinds(
        only_suspect(summary)
    )
    assert "the golden file alone holds them" in text


def test_infinity_on_both_sides_that_golden_data_spreads_is_the_golden_runs(scene, random):
    def nearly(made):
        overflown = np.argwhere(np.abs(made) > LARGEST + 16)
        made[tuple(overflown[0])] = LARGEST * np.sign(made[tuple(overflown[0])])
        return made

    overflowing(scene, random, wrong={"fc2": nearly}, saturates=False)
    _, summary, _ = scene.compare()
    first = summary["suspects"][0]
    assert (first["op"], explanation_kinds(first)) == ("fc2", ["wrong-golden"])
    assert "stand in the device's output too" in first["explanations"][0]["sentence"]


def test_infinity_on_the_device_alone_is_its_overflow(scene, random):
    def broken(made):
        made[3, 5] = np.inf
        return made

    overflowing(scene, random, 1.0, {"fc2": broken}, saturates=False)
    _, summary, text = scene.compare()
    assert (only_suspect(summary)["op"], explanation_kinds(only_suspect(summary))[0]) == (
        "fc2",
        "overflow",
    )
    assert (
        "so the error arises here" in text
        and "golden file alone" not in text
        and not summary["warnings"]
    )


def test_golden_input_data_with_nan_is_warned_of(scene, random):
    values = random.standard_normal((32, 64)).astype(np.float32)
    scene.data(values)
    scene.op("relu", "Relu", ["data"], np.maximum(values, 0))
    broken = values.copy()
    broken[3, 5] = np.nan
    scene.npy("data", broken)
    _, summary, text = scene.compare()
    assert (
        explanation_kinds(only_suspect(summary))[0] == "wrong-golden" and "other data" not in text
    )
    assert "the golden data of the network's input hold 1 NaN where the device has numbers" in text


def test_infinity_that_an_input_holds_on_both_sides_is_no_overflow_of_its_reader(scene, random):
    """A guarded division, of which the device takes the wrong branch."""
    ratio = random.standard_normal((64, 32)).astype(np.float32)
    ratio[:, ::5] = np.inf
    scene.data(random.standard_normal((64, 32)).astype(np.float32))
    scene.op("ratio", "Custom", ["data"], ratio)
    scene.op("guard", "Other", ["ratio"], np.where(np.isinf(ratio), 0, ratio), ratio)
    code, summary, text = scene.compare()
    (suspect,) = summary["suspects"]
    (explained,) = suspect["explanations"]
    assert (code, suspect["op"], explained["kind"]) == (1, "guard", "unexplained")
    assert "its inputs hold NaN or Inf on both sides" in explained["sentence"]
    assert "none of its inputs has" not in suspect["evidence"]
    assert "come out of it alone" not in text and "so the error arises here" in text
