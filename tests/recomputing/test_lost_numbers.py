"""A number of the model that the device's type cannot hold is named where NaN or Inf come of it."""

from __future__ import annotations

import numpy as np
import onnx_models as build
import pytest
from onnx.helper import make_node as node
from onnx_run import OnnxRun, float16_values

from goldwatch.recomputing.lost_numbers import lost_constant
from goldwatch.recomputing.recomputer import Recomputer


@pytest.fixture
def net(tmp_path):
    return OnnxRun(tmp_path)


def normalised(array):
    """By an epsilon of 0, which float16 makes of 1e-12."""
    centered = array - array.mean(-1, keepdims=True)
    with np.errstate(all="ignore"):
        return centered / np.sqrt(np.square(centered).mean(-1, keepdims=True))


def test_an_epsilon_that_is_0_in_float16_is_named(net):
    x = float16_values((8, 32))
    x[3] = 0.5
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("LayerNormalization", ["t", "g"], ["y"], name="op", axis=-1, epsilon=1e-12),
    ]
    held = [build.weight("g", np.ones(32, np.float32))]
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", x.shape)], held)
    net.prepare(model, {"x": x}, fault=("op", lambda array: normalised(-x)))
    code, _, said = net.compare()
    assert code == 1
    assert (
        "the epsilon 1e-12 of op is 0 in float16, or was lost, and NaN or Inf come of that" in said
    )
    assert "look at its weights" not in said


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("constant", [1e-8, 1e-3])
def test_a_constant_that_is_0_in_float16_is_named_where_its_quotient_is_nan(
    net, constant, kept, monkeypatch
):
    """Also where the dump that shows it was deleted, because all in it passed."""
    x = float16_values((8, 32))
    x[3] = 0
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("ReduceMax", ["t"], ["m"], name="largest", axes=[1]),
        node("Add", ["m", "e"], ["s"], name="add_eps"),
        node("Div", ["t", "s"], ["y"], name="op"),
    ]
    held = [build.weight("e", np.array(constant, np.float32))]
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", x.shape)], held)
    net.prepare(model, {"x": x})
    if not kept:
        known_of = Recomputer.lost_number

        def of_deleted(self, name, index):
            self.step.planned.pop("add_eps", None)
            return known_of(self, name, index)

        monkeypatch.setattr(Recomputer, "lost_number", of_deleted)
    code, _, said = net.compare()
    known = "and NaN or Inf come of that" if kept else "which may be why (its dump is not there)"
    words = "the constant 1e-08 of add_eps is 0 in float16, %s. Export the model" % known
    assert (code, words in said) == ((1, True) if constant == 1e-8 else (0, False))


def test_of_many_numbers_one_that_is_lost_says_nothing_by_itself():
    """Weights near 0 are in any network."""
    told = [
        lost_constant([np.array(one, np.float32)], "float16")
        for one in (1e-9, 1e6, 0, 1, [0, 1e-9])
    ]
    assert [one and (one.number, one.fate) for one in told] == [
        ("the constant 1e-09", "is 0 in float16"),
        ("the constant 1e+06", "is Inf in float16"),
        None,
        None,
        None,
    ]
    assert lost_constant([np.array(1e-9, np.float32)], "float32") is None
