"""What the tests of small networks (conftest's ``Scene``) have in common."""

from __future__ import annotations

import numpy as np

from goldwatch.recomputing.by_golden import recomputed


def half(values):
    return values.astype(np.float16)


def dense(scene, random, name, source, wrong=None, **options):
    """A product of matrices with a bias, computed on the device from the device's own input."""
    size = scene.golden[source].shape[-1]
    weights, bias = (random.standard_normal(shape).astype(np.float32) * scale for shape, scale in (((size, 64), size**-0.5), ((64,), 0.1)))
    made = scene.made[source].astype(np.float32) @ half(weights).astype(np.float32) + half(bias)
    scene.op(name, "MatMulV2", [source], scene.golden[source] @ weights + bias, wrong(made) if wrong else made, **options)


def relu(scene, name, source, wrong=None, **options):
    made = np.maximum(scene.made[source].astype(np.float32), 0)
    scene.op(name, "Relu", [source], np.maximum(scene.golden[source], 0), wrong(made) if wrong else made, **options)


def kinds(suspect):
    return [entry["kind"] for entry in suspect["explanations"]]


def before_the_command(text):
    """What is said before the command that goes on."""
    return text.rpartition(" next: goldwatch ")[0]


def only(summary):
    (suspect,) = summary["suspects"]
    return suspect


def own_error(op_type, inputs, output):
    """The error that an operator adds by what golden data tell of it, by float32 inside; None where they do not tell it."""
    found = recomputed(op_type, inputs, output, None, None)
    return None if found is None else found.tight
