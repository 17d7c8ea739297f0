"""A few wrong elements of a large tensor are located as by compare-op; nothing is said of unread
elements.
"""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from in_process import run_here
from scene_networks import explanation_kinds, only_suspect

from goldwatch.metrics import patterns
from goldwatch.metrics.patterns import AlignedPair, find_patterns
from goldwatch.metrics.patterns import full_walk as whole_module

SHAPE = (1, 32, 256, 256)
"""2 Mi elements: twice as many as are read at once."""


def put(made, at, value):
    made[at] = value


def flip(made):
    places = np.random.RandomState(1).choice(made.size, 60, replace=False)
    made.reshape(-1)[places] *= -1


def last(made):
    made.reshape(-1)[-1000:] = 0.0


def add(made, at):
    made[at] += 1.5


WRONG = {
    "row": (
        lambda made: put(made, np.s_[:, :, 100], -made[:, :, 100]),
        "one-slice",
        "index 100 of axis 2 (of 256) holds",
    ),
    "pixel": (
        lambda made: add(made, np.s_[:, :, 100, 50]),
        "one-slice",
        "index 50 of axis 3 (of 256) holds",
    ),
    "tail": (last, "one-slice", "indices 252 to 255 of axis 2 (of 256) hold 100 %"),
    "element": (
        lambda made: put(made, (0, 7, 33, 44), 9.0),
        "one-slice",
        "1 of 2097152 elements holds",
    ),
    "signs": (flip, "one-slice", "their signs are flipped"),
    "nan": (
        lambda made: put(made, (0, 7, 33, 44), np.nan),
        "nan",
        "1 of 2097152 elements are NaN on one side only (1 in the target)",
    ),
    "inf": (
        lambda made: put(made, (0, 7, 33, 44), np.inf),
        "overflow",
        "1 of 2097152 elements are Inf on one side only (1 in the target)",
    ),
}


def large(scene, random, wrong, golden=None):
    values = random.standard_normal(SHAPE).astype(np.float32)
    scene.data(values)
    made = values.astype(np.float16).astype(np.float32) * 0.7 + 0.1
    wrong(made)
    right = values * 0.7 + 0.1
    if golden is not None:
        golden(right)
    scene.op("a", "Axpy", ["data"], right, made)
    scene.op(
        "b", "Relu", ["a"], np.maximum(right, 0), np.maximum(scene.made["a"].astype(np.float32), 0)
    )


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_few_wrong_elements_of_a_large_tensor_are_located(scene, random, name):
    wrong, kind, said = WRONG[name]
    # What the golden run has there float16 cannot hold: that is no rounding.
    large(
        scene,
        random,
        wrong,
        (lambda right: put(right, (0, 7, 33, 44), 184154.0)) if name == "inf" else None,
    )
    _, summary, text = scene.compare()
    (first, *_) = only_suspect(summary)["explanations"]
    assert (only_suspect(summary)["op"], first["kind"]) == ("a", kind)
    assert said in first["sentence"] and "rounding (100 %" not in text
    if kind != "one-slice" or name == "element":
        assert "[0, 7, 33, 44]" in first["sentence"]
    done = run_here(["goldwatch", "compare-op", scene.target, scene.golden_dir, "a", "-f",
    scene.model, "-o", "detail", "--rows", "none"],
                    scene.folder)  # fmt: skip
    with open(os.path.join(scene.folder, "detail", "detail.json"), encoding="utf-8") as stream:
        tensors = {tensor["tensor"]: tensor for tensor in json.load(stream)["tensors"]}
    assert (
        done.returncode in (0, 1)
        and tensors["a:output:0"]["findings"][0]["sentence"] in first["sentence"]
    )


def test_explanations_of_a_sampled_tensor_are_about_the_sample_only(scene, random, monkeypatch):
    monkeypatch.setattr(whole_module, "MOST_WALKED", 1)
    large(scene, random, WRONG["row"][0])
    _, summary, text = scene.compare()
    assert (
        only_suspect(summary)["op"] == "a"
        and "rounding" not in explanation_kinds(only_suspect(summary))
        and "every element" not in text
    )


def test_a_scale_of_a_large_tensor_is_called_so_with_its_samples(scene, random):
    large(scene, random, lambda made: np.multiply(made, 1.1, out=made))
    _, summary, _ = scene.compare()
    assert explanation_kinds(only_suspect(summary))[0] == "scale"
    assert (
        only_suspect(summary)["explanations"][0]["sentence"]
        == "the target is the golden x 1.1 (in samples of its 2097152 elements)"
    )


def test_a_constant_is_called_so_only_if_all_elements_were_read(scene, random):
    large(scene, random, lambda made: put(made, np.s_[:], 0.5))
    _, summary, _ = scene.compare()
    assert only_suspect(summary)["explanations"][0]["sentence"].startswith(
        "every element of the target is 0.5: the output was not computed"
    )
    assert "sample" not in only_suspect(summary)["explanations"][0]["sentence"]


@pytest.mark.parametrize("value", [184154.0, 3.0])
def test_infinity_for_a_golden_number_is_not_called_rounding(value):
    golden = np.random.RandomState(3).standard_normal((1, 8, 6, 6)).astype(np.float32)
    target = golden.astype(np.float16)
    golden[0, 2, 3, 4], target[0, 2, 3, 4] = value, np.inf
    found = find_patterns(AlignedPair(target, golden, "float16", tuple("NCHW"), golden.size))
    assert [finding.kind for finding in found][:1] == ["inf"] and "[0, 2, 3, 4]" in found[
        0
    ].sentence
    assert patterns.within_rounding(target, golden, "float16").sum() == golden.size - 1


def test_a_pixel_of_a_small_tensor_is_located_by_both_axes(scene, random):
    values = random.standard_normal((1, 16, 40, 40)).astype(np.float32)
    scene.data(values)
    made = values.astype(np.float16).astype(np.float32)
    add(made, np.s_[:, :, 12, 20])
    scene.op("a", "Axpy", ["data"], values, made)
    _, summary, _ = scene.compare()
    first = only_suspect(summary)["explanations"][0]
    assert (
        first["kind"] == "one-slice"
        and "index 12 of axis H" in first["sentence"]
        and "index 20 of axis W" in first["sentence"]
    )
