"""Networks and expectations for the fixture ``scene``."""

from __future__ import annotations

import numpy as np

from goldwatch.recomputing.formulas_fitted_to_golden import recomputed_by_golden


def half(values):
    return values.astype(np.float16)


def dense(scene, random, name, source, wrong=None, **options):
    """A product of matrices with a bias, computed on the device from the device's own input."""
    size = scene.golden[source].shape[-1]
    weights, bias = (
        random.standard_normal(shape).astype(np.float32) * scale
        for shape, scale in (((size, 64), size**-0.5), ((64,), 0.1))
    )
    made = scene.made[source].astype(np.float32) @ half(weights).astype(np.float32) + half(bias)
    scene.op(
        name,
        "MatMulV2",
        [source],
        scene.golden[source] @ weights + bias,
        wrong(made) if wrong else made,
        **options,
    )


def relu(scene, name, source, wrong=None, **options):
    made = np.maximum(scene.made[source].astype(np.float32), 0)
    scene.op(
        name,
        "Relu",
        [source],
        np.maximum(scene.golden[source], 0),
        wrong(made) if wrong else made,
        **options,
    )


def explanation_kinds(suspect):
    return [entry["kind"] for entry in suspect["explanations"]]


def text_before_next_command(text):
    """What is said before the command that goes on."""
    before, found, _ = text.rpartition(" next: goldwatch ")
    return before if found else text


def only_suspect(summary):
    (suspect,) = summary["suspects"]
    return suspect


def own_error(op_type, inputs, output):
    """The error that an operator adds by what golden data tell of it, by float32 inside; None where
    they do not tell it.
    """
    found = recomputed_by_golden(op_type, inputs, output, None, None)
    return None if found is None else found.tight


def logits(scene, random):
    scene.data(random.standard_normal((256, 64)).astype(np.float32))
    dense(scene, random, "fc", "data")
    return scene.golden["fc"], scene.made["fc"]


def near_ties(scene, random):
    """Scores of which the largest nine of rows 0 to 2 lie so near to each other that rounding
    orders them.
    """
    golden, made = logits(scene, random)
    golden[0], golden[1] = 1.5 * (1 + 1e-5 * np.arange(64)), 1.0 - 1e-5
    golden[2] = np.where(np.arange(64) % 2, 0.25 - 1e-5, 0.25 + 1e-5)
    made[:3] = half(golden[:3])
    return scene.op("fc", "MatMulV2", ["data"], golden, made)


def top_indices(values):
    return np.argsort(-values.astype(np.float64), 1, kind="stable")[:, :9].astype(np.int32)


def values_at(values, at):
    return np.take_along_axis(values, at.astype(np.int64), 1)


def detection(scene, random, wrong_gather=False, behind=(), **options):
    """TopK's indices, a Cast of them, and the scores that they choose; ``behind``: ops that read
    these.
    """
    golden, made = near_ties(scene, random)
    at = [top_indices(side) for side in (golden, made)]
    scene.op("top", "TopKV2", ["fc"], *at, **options)
    scene.op("wide", "Cast", ["top"], *(one.astype(np.int64) for one in at), **options)
    dense(scene, random, "side", "data", **options)
    others = scene.golden["side"], scene.made["side"]
    found = [values_at(side, one) for side, one in zip(others, at)]
    if wrong_gather:
        found[1] = np.roll(found[1], 1, 1)
    scene.op("boxes", "GatherElements", ["side", "wide"], *found, **options)
    for name, op_type, function in behind:
        scene.op(
            name,
            op_type,
            ["boxes"],
            *(function(side["boxes"]) for side in (scene.golden, scene.made)),
            **options,
        )
    return at
