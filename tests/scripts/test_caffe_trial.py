"""``scripts/caffe_trial`` says its reference, finds nothing wrong, and would find what is."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STANDIN = os.path.join(ROOT, "tests", "adapters", "caffe", "standin")


def trial(*arguments, **environment):
    command = [sys.executable, os.path.join(ROOT, "scripts", "caffe_trial")] + list(arguments)
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env=dict(os.environ, **environment),
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_the_numpy_backend_computes_every_drawn_type():
    code, lines, error = trial("--cases", "8", "--seed", "11")
    assert (code, lines[-1]) == (0, "0 layers are wrong"), lines + [error]
    assert lines[0] == "reference: numpy, goldwatch.testing.caffe_layers; seed 11"
    counts = {line.split()[0]: [int(word) for word in line.split()[1:]] for line in lines[2:-1]}
    assert len(counts) == 27 and all(count[0] + count[2] == 8 for count in counts.values())


def test_layers_with_nan_are_compared_without_failures():
    for special, kinds in (("nan,inf", "LRN Pooling Eltwise"), ("nan", "Sigmoid TanH ReLU")):
        code, lines, error = trial(
            "--cases", "6", "--special=" + special, "--types", *kinds.split()
        )
        assert code == 0, lines + [error]


def test_a_real_caffe_is_the_reference_when_given():
    code, lines, error = trial(
        "--cases",
        "5",
        "--types",
        "Sigmoid",
        "Concat",
        "--python",
        sys.executable,
        PYTHONPATH=STANDIN,
    )
    assert lines[0] == "reference: Caffe in %s; seed 1" % sys.executable
    # The stand-in concatenates channels whatever the axis is: what differs from the reference is
    # told.
    assert lines[2].split() == ["Sigmoid", "5", "0", "0", "0"], error
    assert code == 1 and any("Concat on" in line and "the reference's" in line for line in lines)


PADDED = {"kernel_size": 1, "pad": 1, "bias_term": False}


@pytest.fixture
def layers(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "scripts"))
    import caffe_layers

    return caffe_layers


def test_corner_cases_of_the_reference_are_caffes(layers):
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)
    case = layers.Case("Pooling", {"kernel_size": 1, "stride": 2}, [x])
    # The third window of four columns at stride 2 is empty, and Caffe leaves -FLT_MAX there.
    lowest = -float(np.finfo(np.float32).max)
    np.testing.assert_array_equal(layers.compute(case)[0], [[[[0, 2, lowest], [lowest] * 3]]])
    case = layers.Case(
        "Deconvolution", dict(PADDED, num_output=1), [np.ones((1, 1, 3, 3))], [[[[[2]]]]]
    )
    np.testing.assert_array_equal(layers.compute(case)[0], [[[[2]]]])
    with pytest.raises(layers.Refused):
        layers.compute(layers.Case("MVN", {}, [np.ones((1, 1, 1, 1, 2))]))
