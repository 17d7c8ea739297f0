"""What the tests of small networks (conftest's ``Scene``) have in common."""

from __future__ import annotations

import numpy as np


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
