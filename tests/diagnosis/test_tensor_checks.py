"""Errors behind equally wrong inputs, found in the tensors; through the command and function by
function.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scene_networks import half, own_error

from goldwatch.judging.diagnosis.own_error import tensor_checks
from goldwatch.metrics.patterns import AlignedPair, distinct_values, lattice_step
from goldwatch.recomputing.formulas_by_type import is_known_type


def noisy(random, values, share):
    return (values * (1 + share * random.standard_normal(values.shape))).astype(np.float16)


def eight_bits(values):
    step = np.abs(values.astype(np.float32)).max() / 127
    return np.round(values.astype(np.float32) / step) * step


def deep(scene, random, wrong, share=0.02):
    """Twelve operators whose errors have grown to ``share``; ``wrong`` maps names to what spoils
    their outputs.
    """
    source, values = "data", random.standard_normal((64, 64)).astype(np.float32)
    scene.data(values)
    for number in range(12):
        kind = ("Mystery", "Relu", "Mystery", "Scale")[number % 4]
        name = "%s%d" % (kind.lower(), number)
        golden, made = (side[source].astype(np.float32) for side in (scene.golden, scene.made))
        golden, made = (
            (np.maximum(side, 0) if kind == "Relu" else side + np.float32(0.1) * number)
            for side in (golden, made)
        )
        made = noisy(random, made, share) if number == 0 else made
        scene.op(name, kind, [source], golden, wrong[name](made) if name in wrong else made)
        source = name
    return source


@pytest.mark.parametrize("name", ["mystery6", "scale7", "relu9"])
def test_rounding_to_8_bits_is_found_behind_equally_wrong_inputs(scene, random, name):
    deep(scene, random, {name: eight_bits})
    _, summary, _ = scene.compare()
    suspects = {suspect["op"]: suspect for suspect in summary["suspects"]}
    assert ("computed" if name == "relu9" else "only values of an 8-bit integer") in suspects[name][
        "evidence"
    ]
    assert suspects[name]["explanations"][0]["kind"] == "rounding"
    # What passes the few values on is not guilty of them.
    assert not any("8-bit" in suspect["evidence"] for op, suspect in suspects.items() if op != name)


def test_a_network_without_8_bit_rounding_is_not_accused_of_it(scene, random):
    deep(scene, random, {})
    _, summary, _ = scene.compare()
    assert not any("8-bit" in suspect["evidence"] for suspect in summary["suspects"])


def test_values_as_coarse_in_golden_data_are_not_called_8_bit(scene, random):
    values = np.round(random.standard_normal((64, 64)) * 20).astype(np.float32)
    scene.data(values)
    made, off = (
        values.astype(np.float16),
        0.01 * random.standard_normal((64, 64)).astype(np.float32),
    )
    made[0, :8] += 3
    scene.op("embedding", "Gather", ["data"], values, made)
    scene.op("dequant", "AscendDequant", ["embedding"], values * 0.1 + off, made * 0.1)
    _, summary, _ = scene.compare()
    assert not any("8-bit" in suspect["evidence"] for suspect in summary["suspects"])


def test_a_wrong_mean_that_occurs_once_is_the_suspect(scene, random):
    values = random.uniform(0.5, 1.5, (1, 32, 6, 6)).astype(np.float32)
    scene.data(values)
    for number, kind in enumerate(("Mystery", "Relu", "Scale", "Mystery")):
        source = ["data", "op0", "op1", "op2"][number]
        made = noisy(random, scene.made[source], 0.004) if not number else scene.made[source]
        scene.op("op%d" % number, kind, [source], values, made)
    golden = values.mean(axis=(2, 3))
    wrong = scene.made["op3"].astype(np.float32).mean(axis=(2, 3)) * 1.02
    scene.op("mean", "ReduceMean", ["op3"], golden, wrong)
    _, summary, _ = scene.compare()
    assert [suspect["op"] for suspect in summary["suspects"]][:1] == ["mean"]


def whole(target, golden=None):
    golden = target if golden is None else golden
    return AlignedPair(
        np.asarray(target), np.asarray(golden), "float16", total=int(np.asarray(target).size)
    )


def slow_softmax(x, axis):
    moved = np.moveaxis(x, axis, -1)
    made = np.empty_like(moved)
    for index in np.ndindex(moved.shape[:-1]):
        raised = [math.exp(value - max(moved[index])) for value in moved[index]]
        made[index] = [value / math.fsum(raised) for value in raised]
    return np.moveaxis(made, -1, axis)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_axis_of_a_softmax_is_found_by_golden_data(random, axis):
    golden, target = random.standard_normal((3, 5, 7)), random.standard_normal((3, 5, 7))
    made = slow_softmax(target, axis)
    found = own_error(
        "SoftmaxV2", [whole(target, golden)], whole(made * 1.03, slow_softmax(golden, axis))
    )
    assert found.distance == pytest.approx(0.03, rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "slow"),
    [
        ("Add", lambda a, b: a + b),
        ("Sub", lambda a, b: a - b),
        ("Mul", lambda a, b: a * b),
        ("Maximum", max),
        ("Minimum", min),
    ],
)
def test_operators_of_two_inputs_are_computed_again(random, kind, slow):
    goldens, targets = ([random.standard_normal((4, 6)) for _ in range(2)] for _ in range(2))
    made, right = (
        np.array([[slow(a, b) for a, b in zip(*rows)] for rows in zip(*sides)])
        for sides in (targets, goldens)
    )
    made[2, 3] += 1.0
    norm = math.sqrt(
        math.fsum(
            (v - (1.0 if (i, j) == (2, 3) else 0.0)) ** 2
            for i, row in enumerate(made)
            for j, v in enumerate(row)
        )
    )
    found = own_error(kind, [whole(t, g) for t, g in zip(targets, goldens)], whole(made, right))
    assert found.distance == pytest.approx(1.0 / norm, rel=1e-9)


@pytest.mark.parametrize("axes", [(2, 3), (1,), (0, 1, 2, 3), (3,)])
def test_the_axes_of_a_mean_are_found_by_golden_data(random, axes):
    golden, target = random.uniform(1, 2, (2, 3, 4, 5)), random.uniform(1, 2, (2, 3, 4, 5))
    found = own_error(
        "ReduceMean",
        [whole(target, golden)],
        whole(target.mean(axis=axes) * 0.9, golden.mean(axis=axes)),
    )
    assert found.distance == pytest.approx(0.1, rel=1e-9)


def test_an_output_that_golden_data_does_not_confirm_is_not_judged(random):
    x = random.standard_normal((8, 8))
    assert own_error("Relu", [whole(x)], whole(x, np.abs(x))) is None
    assert own_error("Add", [whole(x)], whole(x, x * x)) is None
    assert own_error("Add", [whole(x), whole(x[:3])], whole(x)) is None
    assert own_error("Conv2D", [whole(x)], whole(x)) is None and not is_known_type("Conv2D")
    sampled = AlignedPair(x, x, "float16", total=1000)
    assert own_error("Relu", [sampled], whole(x)) is None


@pytest.mark.parametrize("count", [40, 100, 5000])
def test_an_8_bit_grid_is_distinguished_from_float16_values(random, count):
    values = random.standard_normal(count)
    assert lattice_step(values.astype(np.float16).astype(np.float64)) is None
    step = np.abs(values).max() / 127
    rounded = (np.round(values / step) * step).astype(np.float16).astype(np.float64)
    assert lattice_step(rounded) == pytest.approx(step, rel=1e-2)


def test_few_repeated_values_are_not_called_an_8_bit_grid(random):
    values = np.sort(random.standard_normal(60))[random.randint(0, 60, 4000)]
    assert lattice_step(values) is None
    assert lattice_step(np.zeros(100)) is None and lattice_step(np.ones(0)) is None


def test_float16_steps_in_a_narrow_range_are_not_called_8_bit(scene, random):
    values = random.uniform(1.0, 1.1, (8, 8)).astype(np.float32)
    scene.data(values)
    scene.op("gain", "Mystery", ["data"], values, values * 1.012)
    scene.op("rs", "Strange", ["gain"], values, values * 1.0120)
    _, summary, _ = scene.compare()
    assert not any("8-bit" in suspect["evidence"] for suspect in summary["suspects"])


def test_infinity_behind_bad_inputs_accuses_no_other_operator(scene, random):
    values = random.standard_normal((16, 64)).astype(np.float32)
    scene.data(values)
    scene.op("norm", "BatchNorm", ["data"], values, values * 300)
    wrong = scene.made["norm"].astype(np.float32)
    with np.errstate(over="ignore"):
        scene.op("square", "Mystery", ["norm"], values**2, wrong**2 * 10)
    assert np.isinf(scene.made["square"]).any()
    _, summary, _ = scene.compare()
    assert [suspect["op"] for suspect in summary["suspects"]] == ["norm"]


@pytest.mark.parametrize("value", [1 / 48, 0.1, 3.3333])
def test_a_rounded_golden_value_accuses_no_operator(scene, random, value):
    source, values = "data", random.standard_normal((64, 64)).astype(np.float32)
    scene.data(values)
    for number in range(6):
        scene.op("op%d" % number, ("Mystery", "Scale")[number % 2], [source], values)
        source = "op%d" % number
    scene.op("loss", "Loss", [source], np.full((1,), value, np.float32))
    code, summary, _ = scene.compare("--strict")
    assert (code, summary["suspects"]) == (0, [])


@pytest.mark.parametrize("offset", [10.0, 20.0])
def test_a_residual_stream_around_a_large_mean_is_not_accused(scene, random, offset):
    source, values = "data", random.standard_normal((16, 64)).astype(np.float32) + offset
    scene.data(values)
    for layer in range(5):
        branch = "branch%d" % layer
        golden = random.standard_normal((16, 64)).astype(np.float32)
        scene.op(branch, "MatMulV2", [source], golden, noisy(random, golden, 0.004 * (layer + 1)))
        made = scene.made[source].astype(np.float32) + scene.made[branch].astype(np.float32)
        scene.op("res%d" % layer, "Add", [source, branch], scene.golden[source] + golden, made)
        source = "res%d" % layer
    _, summary, _ = scene.compare()
    assert not any(suspect["op"].startswith("res") for suspect in summary["suspects"])


def test_operators_that_only_move_values_are_cleared(scene, random):
    source, values = "data", random.standard_normal((4, 16, 12)).astype(np.float32)
    scene.data(values)
    for number in range(4):
        made = scene.made[source].astype(np.float32)
        if number == 1:
            # An error that the layout before gathers in a few slices, and the one after spreads.
            made[:, :, 3] *= 1.25
        name = ("head%d", "scale%d", "ctx%d", "fc%d")[number] % number
        kind = ("Transpose", "Mystery", "Transpose", "Mystery")[number]
        axes = (0, 2, 1)
        golden, made = (
            side.transpose(axes) if kind == "Transpose" else side
            for side in (scene.golden[source], made)
        )
        scene.op(name, kind, [source], np.ascontiguousarray(golden), np.ascontiguousarray(made))
        source = name
    _, summary, _ = scene.compare()
    assert [suspect["op"] for suspect in summary["suspects"]] == ["scale1"]


@pytest.mark.parametrize(
    "wrong",
    [lambda golden, other: other, lambda golden, other: golden * 1.3],
    ids=["other layer's", "scaled"],
)
def test_golden_data_contradicted_by_their_reader_are_called_wrong(scene, random, wrong):
    source = "data"
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    for number in range(6):
        weights = random.standard_normal((64, 64)).astype(np.float32) / 8
        golden = (
            np.maximum(scene.golden[source], 0) if number % 2 else scene.golden[source] @ weights
        )
        made = scene.made[source].astype(np.float32)
        made = (
            np.maximum(made, 0)
            if number % 2
            else made @ weights.astype(np.float16).astype(np.float32)
        )
        scene.op("op%d" % number, "Relu" if number % 2 else "MatMulV2", [source], golden, made)
        source = "op%d" % number
    scene.npy("op2", wrong(scene.golden["op2"], scene.golden["op0"]))
    _, summary, text = scene.compare()
    (suspect,) = summary["suspects"]
    assert (suspect["op"], suspect["explanations"][0]["kind"]) == ("op2", "wrong-golden")
    assert "so the error is its own" not in text


def read_by_a_product(scene, random, rows, share, wrong):
    """A ReLU and a product that reads it, of which ``share`` varies with what it reads; ``wrong``
    makes the ReLU's dumped output.
    """
    data = scene.data(random.standard_normal((rows, 64)).astype(np.float32))
    weights, bias = (
        random.standard_normal(shape).astype(np.float32) * size
        for shape, size in (((64, 64), share / 4), ((64,), 1.0))
    )
    right, made = (np.maximum(side.astype(np.float32), 0) for side in (data, scene.made["data"]))
    scene.op("relu", "Relu", ["data"], right, wrong(made))
    scene.op(
        "fc",
        "MatMulV2",
        ["relu"],
        right @ weights + bias,
        scene.made["relu"].astype(np.float32) @ weights + bias,
    )


def kinds_of(scene):
    code, summary, text = scene.compare()
    (suspect,) = summary["suspects"]
    assert (code, suspect["op"]) == (1, "relu")
    return [entry["kind"] for entry in suspect["explanations"]], text


@pytest.mark.parametrize("rows", [1, 32])
@pytest.mark.parametrize("kind", ["unexplained", "shift", "activation"])
def test_a_reader_dominated_by_its_bias_contradicts_no_golden_data(scene, random, rows, kind):
    wrong = {
        "unexplained": lambda x: random.permutation(x.reshape(-1)).reshape(x.shape),
        "shift": lambda x: np.roll(x, 1, 1),
        "activation": lambda x: np.where(x < 0.7, 0, x),
    }
    read_by_a_product(scene, random, rows, 1e-3, wrong[kind])
    found, text = kinds_of(scene)
    assert found[:1] == [kind] and "the golden data are wrong" not in text


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_golden_data_contradicted_by_a_product_are_called_wrong(scene, random, share):
    read_by_a_product(scene, random, 32, share, lambda x: x)
    scene.npy("relu", random.permutation(scene.golden["relu"]))
    assert kinds_of(scene)[0][:1] == ["wrong-golden"]


def test_a_first_divergence_that_computes_right_has_an_inherited_error(scene, random):
    data = scene.data((40 * random.standard_normal((32, 64))).astype(np.float32))
    scene.op("scores", "Mystery", ["data"], data, noisy(random, data, 0.01))

    def softmax(x):
        raised = np.exp(x - x.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True)

    scene.op(
        "sm",
        "SoftmaxV2",
        ["scores"],
        softmax(data),
        softmax(scene.made["scores"].astype(np.float32)),
    )
    _, summary, text = scene.compare()
    assert (summary["first_divergence"]["op"], summary["first_divergence"]["inputs"]) == (
        "sm",
        "good",
    )
    assert (
        "computed again from the device's own inputs it is right, so the error is inherited" in text
    )


def test_different_rounding_of_equal_inputs_is_not_called_inherited(scene, random):
    one, other = (
        scene.data(half(random.standard_normal((8, 16))).astype(np.float32), name)
        for name in ("one", "other")
    )
    made = (one * other).astype(np.float16)
    made[:, ::8] = np.nextafter(made[:, ::8], np.float16(0))
    scene.op("product", "Mul", ["one", "other"], one * other, made)
    _, summary, text = scene.compare("--limit", "type=Mul:MaxAbsoluteError=0")
    assert (summary["first_divergence"]["op"], summary["suspects"]) == ("product", [])
    assert "the limit is stricter than the rounding of float16" in text and "inherited" not in text


def test_tensors_too_large_to_be_computed_again_are_reported(scene, random):
    data = scene.data(half(random.standard_normal((1, 1 << 20))))
    for name, part in (("whole", data), ("larger", np.concatenate([data, data[:, :16]], axis=1))):
        source = scene.data(part, name + "_in")
        scene.op(name, "Relu", [name + "_in"], np.maximum(source, 0))
    _, summary, _ = scene.compare("--recompute", "all")
    found = summary["recomputed"]
    assert (found["right"], [entry["op"] for entry in found["not_computed"]]) == (1, ["larger"])
    assert "too large" in found["not_computed"][0]["reason"]


def test_four_operators_of_a_type_with_the_same_small_error_are_one_suspect(scene, random):
    source = "data"
    scene.data(random.standard_normal((32, 64)).astype(np.float32))
    for number in range(8):
        weights = random.standard_normal((64, 64)).astype(np.float32) / 8
        golden, made = (side[source].astype(np.float32) for side in (scene.golden, scene.made))
        if number % 2:
            golden, made = (
                0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
                for x in (golden, made)
            )
            scene.op("gelu%d" % number, "Gelu", [source], golden, made * 1.02)
        else:
            scene.op(
                "fc%d" % number,
                "MatMulV2",
                [source],
                golden @ weights,
                made @ weights.astype(np.float16).astype(np.float32),
            )
        source = scene.ops[-1]["name"]
    _, summary, _ = scene.compare()
    assert [suspect["op"] for suspect in summary["suspects"]] == ["gelu1"]
    assert "so do all 4 Gelu operators" in summary["suspects"][0]["evidence"]


@pytest.mark.parametrize("axes", [(0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 0, 2)])
def test_the_order_of_a_transpose_is_found_by_golden_data(random, axes):
    golden, target = random.standard_normal((3, 4, 5)), random.standard_normal((3, 4, 5))
    made = target.transpose(axes).copy()
    made[0, 0, 0] += 2.0
    found = own_error("Transpose", [whole(target, golden)], whole(made, golden.transpose(axes)))
    assert found.distance == pytest.approx(
        2.0 / math.sqrt(math.fsum(value**2 for value in target.reshape(-1))), rel=1e-9
    )
    assert own_error("Transpose", [whole(target, golden)], whole(target, golden)).distance == 0


def test_the_worst_slice_of_an_own_error_is_measured():
    x = np.ones((4, 8))
    made = x.copy()
    made[2] = 1.5
    found = own_error("Relu", [whole(x)], whole(made, x))
    unit = 2.0**-10 / math.sqrt(12)
    assert found.distance == pytest.approx(0.25) and found.ratio == pytest.approx(0.25 / unit)
    # A tenth of what the whole may be off is granted to each slice.
    assert found.slice_ratio == pytest.approx(0.5 / (unit * math.hypot(1.0, 0.1)))


@pytest.mark.parametrize("kind", ["tanh", "erf", "quick"])
def test_the_three_forms_of_gelu_are_recognised(random, kind):
    forms = {
        "tanh": lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
        "erf": lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))),
        "quick": lambda v: v / (1 + math.exp(-1.702 * v)),
    }
    slow = np.vectorize(forms[kind])
    golden, target = random.standard_normal((2, 9, 11)) * 2
    found = own_error("Gelu", [whole(target, golden)], whole(slow(target) * 1.05, slow(golden)))
    assert found.distance == pytest.approx(0.05, rel=1e-4 if kind == "erf" else 1e-9)


@pytest.mark.parametrize("values", [[], [2.0], [[3.0, 1.0], [3.0, -0.0]], [0.0, -0.0, 1.0, 1.0]])
def test_distinct_values_equal_numpys_unique(values) -> None:
    assert distinct_values(np.array(values)).tolist() == np.unique(np.array(values)).tolist()


@pytest.mark.parametrize("levels", [3, 100, 256, 257, 1000, 100000])
@pytest.mark.parametrize("masks", [0.0, 0.3, 0.99])
def test_the_grid_found_in_few_elements_holds_for_all(random, levels, masks):
    count = 40000
    golden = random.randint(0, levels, count) * 0.25 - 17.0
    target = golden.copy()
    masked = random.random_sample(count) < masks
    golden[masked], target[masked] = -65504.0, -65504.0 + random.random_sample(int(masked.sum()))
    target[random.random_sample(count) < 0.01] = np.nan
    pair = AlignedPair(target, golden, "float32", (), count)
    many = tensor_checks._has_many_values(pair)
    assert not many or lattice_step(tensor_checks._finite_sides(pair)[0]) is None
    assert many == (levels > 256 and masks < 0.9)


@pytest.mark.parametrize(
    "golden_mask, device_mask",
    [(-1e9, -np.inf), (-3.4e38, -np.inf), (-1e9, -65504.0), (-np.inf, -np.inf)],
)
def test_an_infinite_mask_that_was_not_added_is_noticed(random, golden_mask, device_mask):
    scores = random.standard_normal((4, 8, 8))
    masks = [np.where(np.tri(8) > 0, 0.0, value) for value in (golden_mask, device_mask)]
    inputs = [whole(scores), whole(masks[1], masks[0])]
    right, wrong = scores + masks[1], scores
    assert own_error("Add", inputs, whole(right, scores + masks[0])).not_finite == 0
    found = own_error("Add", inputs, whole(wrong, scores + masks[0]))
    assert found.not_finite == (112 if device_mask == -np.inf else 0) and (
        found.not_finite or found.distance > 0.9
    )
    # A device that stores the lowest number of its type for -inf has added it all the same.
    assert (
        own_error("Add", inputs, whole(np.maximum(right, -65504.0), scores + masks[0])).not_finite
        == 0
    )


def test_elements_that_cannot_be_computed_are_not_called_wrong(random):
    """A row of a softmax that is masked throughout is NaN here; a device may make anything of
    it.
    """
    golden, target = (
        np.vstack([random.standard_normal((3, 8)), np.full((1, 8), value)])
        for value in (-1e9, -np.inf)
    )
    made = np.vstack([slow_softmax(target[:3], 1), np.full((1, 8), 0.125)])
    assert (
        own_error(
            "SoftmaxV2", [whole(target, golden)], whole(made, slow_softmax(golden, 1))
        ).not_finite
        == 0
    )


def test_an_operator_that_omits_an_infinite_mask_is_the_suspect(scene, random):
    scores = random.standard_normal((4, 16, 16)).astype(np.float32)
    scene.data(scores, "scores")
    with np.errstate(over="ignore"):
        scene.data(
            np.where(np.tri(16) > 0, 0.0, -1e9).astype(np.float32)[None].repeat(4, 0), "mask"
        )
    scene.made["mask"] = np.where(scene.golden["mask"] < 0, -np.inf, 0.0).astype(np.float16)
    scene.op(
        "scale",
        "Muls",
        ["scores"],
        scores * 0.25,
        scene.made["scores"].astype(np.float32) * np.float32(0.25),
    )
    scene.op(
        "add",
        "Add",
        ["scale", "mask"],
        scene.golden["scale"] + scene.golden["mask"],
        scene.made["scale"].astype(np.float32),
    )
    code, summary, text = scene.compare()
    assert (
        code == 1
        and [suspect["op"] for suspect in summary["suspects"]] == ["add"]
        and "inherited" not in text
    )
    assert (
        "finite where what is computed of the device's own inputs is not"
        in summary["suspects"][0]["evidence"]
    )
    assert "shift" not in [entry["kind"] for entry in summary["suspects"][0]["explanations"]]
