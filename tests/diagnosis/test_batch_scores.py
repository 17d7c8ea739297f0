"""Outputs scored together get the scores that each gets separately."""

from __future__ import annotations

import math

import numpy as np
import pytest
from operator_chain import OPS, TYPES, chain, row

from goldwatch.judging.diagnosis.observed_ops import ObservedOps
from goldwatch.judging.diagnosis.op_input_states import Inputs
from goldwatch.judging.diagnosis.own_error.estimator import Estimator

MORE = (*TYPES, "Softmax", "Add", "ArgMax", "Reshape", "ReduceSum")
NUMBERS = ("distance", "inputs_distance", "expected", "inherited", "score")


def rows(random, device):
    """A chain with whatever there may be: wrong operators, NaN, no metric, types of any kind,
    values of any size.
    """
    found = [row(-1, 2e-4, device=device)]
    for number in range(OPS):
        distance = (
            float(10 ** random.uniform(-9, 1))
            if random.random() < 0.3
            else 1e-3 * (1 + random.random())
        )
        one = row(
            number,
            distance,
            1.0 + random.choice([0.0, 0.02]),
            MORE[number % len(MORE)],
            device=device,
        )
        metrics = dict(one.metrics)
        for name in list(metrics):
            if random.random() < 0.05:
                del metrics[name]
        if random.random() < 0.1:
            metrics["RelativeEuclideanDistance"] = float(random.choice([0.0, math.nan, math.inf]))
        dtype = str(random.choice(["float16", "float32", "int8", "bfloat16"]))
        shape = tuple(int(size) for size in random.integers(1, 9, 3))
        verdict = "not_compared" if random.random() < 0.1 else one.verdict
        found.append(one.but(metrics=metrics, target_dtype=dtype, shape=shape, verdict=verdict))
    return found


def estimated(seen, graph, each=False):
    estimator = Estimator(seen, Inputs(seen, graph), lambda op_type, _: op_type == "ArgMax")
    if each:
        plain = estimator._plain
        estimator._plain = lambda feeding, some: plain(feeding, some[:0])
    return estimator.run()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("devices", [1, 6])
@pytest.mark.parametrize("modelled", [True, False])
def test_scores_computed_together_equal_those_computed_one_by_one(seed, devices, modelled):
    random = np.random.default_rng(seed)
    seen = ObservedOps(one for device in range(devices) for one in rows(random, str(device)))
    graph = chain(type_of=lambda number: MORE[number % len(MORE)]) if modelled else None
    found, expected = estimated(seen, graph), estimated(seen, graph, each=True)
    assert len(found) == len(expected) > 10 * devices
    for one, other in zip(found, expected):
        assert [getattr(one, name) for name in NUMBERS] == pytest.approx(
            [getattr(other, name) for name in NUMBERS], rel=1e-12, nan_ok=True
        )
        assert one.shown[0] == other.shown[0] and one.shown[1:] == pytest.approx(
            other.shown[1:], rel=1e-12, nan_ok=True
        )
        assert one.op is other.op and one.suspect == other.suspect
        # NaN is equal to nothing.
        assert repr((one.output, one.inputs)) == repr((other.output, other.inputs))
        assert (one.whole_type, one.normal.gain, one.normal.rare) == (
            other.whole_type,
            other.normal.gain,
            other.normal.rare,
        )
    assert not all(one.suspect for one in found)


def test_a_small_factor_that_all_outputs_share_needs_no_estimate_of_each():
    found = [
        row(number, 1e-5, 1.02 if (device, number) == ("0", 0) else 1.001, device=device)
        for device in "012345"
        for number in range(-1, OPS)
    ]
    found = [one.but(metrics=row(-1, 1e-5).metrics) if one.op == "data" else one for one in found]
    estimates, expected = (estimated(ObservedOps(found), chain(), each) for each in (False, True))
    assert [one.score for one in estimates] == pytest.approx([one.score for one in expected])
    suspects = [one.op.name for one in estimates.suspects()]
    assert suspects == [one.op.name for one in expected.suspects()] and "op0" in suspects
    assert len(estimates.special) < 10 < len(expected.special)
