"""Inputs read in another shape than they were written in, after the compiler removed a Reshape or
Flatten.
"""

from __future__ import annotations

import json
import os

import numpy as np
import pytest


def described(shape):
    return {
        "layout": "ND",
        "attr": [
            {
                "key": "origin_shape",
                "value": {"list": {"i": list(shape), "val_type": "VT_LIST_INT"}},
            }
        ],
    }


def reshaping(scene, random, made, read, spoil=lambda values: values):
    """A relu makes ``made``, and a MatMul (behind a TransData) reads it as ``read``; ``spoil``
    changes what it reads.
    """
    values = random.standard_normal(made).astype(np.float32)
    scene.data(values)
    scene.op("relu", "Relu", ["data"], np.maximum(values, 0))
    scene.ops[-1]["output_desc"] = [described(made)]
    golden = scene.golden["relu"]
    scene.made["relu"] = spoil(scene.made["relu"].reshape(read))
    scene.op("trans", "TransData", ["relu"], golden.reshape(read), scene.made["relu"], npy=False)
    scene.ops[-1].update(input_desc=[described(read)], output_desc=[described(read)])
    weights = random.standard_normal((read[-1], 8)).astype(np.float32)
    scene.op(
        "fc",
        "MatMul",
        ["trans"],
        golden.reshape(read) @ weights,
        scene.made["trans"].astype(np.float32) @ weights,
    )
    scene.ops[-1]["input_desc"] = [described(read)]


def rows(scene):
    with open(os.path.join(scene.out, "result.json"), encoding="utf-8") as stream:
        return {row["tensor"]: row for row in json.load(stream)["rows"]}


@pytest.mark.parametrize(
    "made, read",
    [
        ((1, 16, 3, 3), (1, 144)),
        ((2, 24, 3, 16), (2, 24, 48)),
        ((2, 24, 48), (48, 48)),
        ((6, 4), (3, 8)),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_reshaped_inputs_are_compared_in_the_shape_that_their_reader_uses(
    scene, random, made, read, order
):
    reshaping(scene, random, made, read)
    scene.npy("relu", np.asarray(scene.golden["relu"], order=order))
    code, summary, _ = scene.compare()
    assert (code, summary["not_compared"], summary["suspects"]) == (0, 0, [])
    found = rows(scene)
    for tensor in ("trans:input:0", "trans:output:0", "fc:input:0"):
        assert (
            found[tensor]["shape"] == list(read)
            and found[tensor]["metrics"]["MaxAbsoluteError"] < 2e-3
        )
        assert (
            "reshaped from %s to %s on the way, as the model says" % (list(made), list(read))
            in found[tensor]["reason"]
        )


def test_reshaped_values_in_another_order_fail(scene, random):
    reshaping(scene, random, (1, 16, 3, 3), (1, 144), lambda values: np.roll(values, 9))
    code, _, text = scene.compare()
    found = rows(scene)
    assert (
        code == 1
        and found["relu:output:0"]["verdict"] == "pass"
        and found["trans:input:0"]["verdict"] == "fail"
    )
    # The relu wrote what it should; what was read is something else.
    assert "relu:output:0, which" in text and "what was written is not what was read" in text


def test_exchanged_sizes_may_be_a_transpose_and_are_not_compared(scene, random):
    reshaping(scene, random, (6, 4), (4, 6))
    code, summary, _ = scene.compare()
    assert code == 3 and rows(scene)["fc:input:0"]["verdict"] == "not_compared"


def test_without_descriptions_in_the_model_nothing_is_reshaped(scene, random):
    reshaping(scene, random, (1, 16, 3, 3), (1, 144))
    for op in scene.ops:
        op.pop("input_desc", None)
        op["output_desc"] = [{"layout": "ND"}]
    code, summary, _ = scene.compare()
    assert (
        code == 3
        and "same number of elements in another shape" in rows(scene)["fc:input:0"]["reason"]
    )
