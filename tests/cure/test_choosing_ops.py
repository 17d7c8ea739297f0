from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from goldwatch.device.cure.choosing_ops import (
    MARGIN,
    UNBOUNDED,
    ErrorNetwork,
    TensorError,
    TensorRead,
)


def chain(*own, limit=0.03, gains=None):
    """Operators a, b, c …, each reads the one before; the last is the network's output."""
    gains = gains or [1.0] * len(own)
    names = "abcdefghij"[: len(own)]
    last = len(own) - 1
    return ErrorNetwork(
        [
            TensorError(
                name,
                off,
                min(off, 3e-4),
                gain,
                (TensorRead(at - 1),) if at else (),
                limit if at == last else None,
            )
            for at, (name, off, gain) in enumerate(zip(names, own, gains))
        ]
    )


def units(network):
    return {one.op: [one.op] for one in network.tensors if one.op}


def smallest(network):
    """The size of the smallest set that suffices, by trying all."""
    names = list(units(network))
    for size in range(len(names) + 1):
        for some in itertools.combinations(names, size):
            if float(network.errors(some).max(initial=0.0)) <= MARGIN:
                return size
    raise AssertionError("none suffices")


def test_squares_of_errors_add_up_and_gains_multiply():
    network = chain(0.003, 0.004, 0.0, gains=[1.0, 2.0, 3.0])
    expected = math.sqrt((0.003 * 2 * 3) ** 2 + (0.004 * 3) ** 2) / 0.03
    assert network.errors(())[0] == pytest.approx(expected)
    assert network.contribution("b") == pytest.approx(0.012 / 0.03)
    assert network.amplification("a") == pytest.approx(6.0)


def test_the_coarsest_operator_is_raised():
    choice = chain(2e-4, 0.2, 2e-4, 2e-4).choose(units(chain(0, 0, 0, 0)))
    assert choice.units == ("b",) and choice.cures and choice.before > 6 and choice.after < 0.1


def test_a_sum_that_cancels_is_raised_with_its_inputs():
    # b rounds a large number, c takes it off again: neither of them alone helps.
    network = ErrorNetwork(
        [
            TensorError("a", 3e-4, 3e-4),
            TensorError("b", 3e-4, 3e-4, 0.01, (TensorRead(0),)),
            TensorError("c", 1e-4, 3e-4, 300.0, (TensorRead(1),)),
            TensorError("d", 3e-4, 3e-4, 1.0, (TensorRead(2),), 0.03),
        ]
    )
    assert (
        network.errors(())[0] > 2 and network.errors(["b"])[0] > 2 and network.errors(["c"])[0] > 2
    )
    choice = network.choose(units(network))
    assert sorted(choice.units) == ["b", "c"] and choice.after < MARGIN


def test_values_beyond_the_type_stay_in_float32_until_they_are_small():
    network = ErrorNetwork(
        [
            TensorError("large", UNBOUNDED, UNBOUNDED),
            TensorError("kept", 0.0, UNBOUNDED, 1.0, (TensorRead(0),)),
            TensorError("small", 0.0, 3e-4, 1.0, (TensorRead(1),)),
            TensorError("last", 3e-4, 3e-4, 1.0, (TensorRead(2),), 0.03),
        ]
    )
    assert sorted(network.choose(units(network)).units) == ["kept", "large", "small"]


def test_a_budget_limits_the_operators_and_the_remaining_error_is_given():
    network = chain(0.03, 0.05, 0.025, 2e-4)
    whole, cut = network.choose(units(network)), network.choose(units(network), 1)
    assert whole.cures and len(whole.units) == 3
    assert (
        cut.units == ("b",)
        and not cut.cures
        and cut.after == pytest.approx(math.hypot(0.03, 0.025) / 0.03, rel=0.01)
    )


def test_a_network_that_no_raising_cures_is_called_so():
    network = chain(2e-4, 0.2, 2e-4)
    choice = network.choose({"a": ["a"], "c": ["c"]})
    assert choice.best > 6 and not choice.cures


def test_operators_in_float32_keep_their_own_error():
    network = ErrorNetwork(
        [TensorError("a", 0.2, 3e-4), TensorError("b", 0.0, 3e-4, 1.0, (TensorRead(0),), 0.03)],
        wide=["a"],
    )
    assert network.errors(["a"])[0] == pytest.approx(network.errors(())[0])
    assert network.errors(["b"])[0] == pytest.approx(0.2 / 0.03)


@pytest.mark.parametrize("seed", range(12))
def test_the_chosen_set_is_at_most_twice_the_smallest(seed):
    random = np.random.RandomState(seed)
    tensors = []
    for at in range(9):
        reads = (
            tuple(
                TensorRead(int(one))
                for one in sorted(random.choice(at, min(at, 1 + random.randint(2)), replace=False))
            )
            if at
            else ()
        )
        own = 10.0 ** random.uniform(-4, -1.5)
        tensors.append(
            TensorError(
                "op%d" % at,
                own,
                min(own, 3e-4),
                10.0 ** random.uniform(-0.5, 0.8),
                reads,
                0.03 if at == 8 else None,
            )
        )
    network = ErrorNetwork(tensors)
    choice = network.choose(units(network))
    assert choice.cures and len(choice.units) <= 2 * smallest(network)
