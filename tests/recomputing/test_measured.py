"""How far an output is from what its operator makes of the device's inputs."""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.operators import Value
from goldwatch.recomputing.measured import own_error


@pytest.mark.parametrize(
    ("computed", "device", "odd"),
    [
        (-1e9, -np.inf, 0),  # a mask of attention scores
        (np.finfo(np.float32).min, -np.inf, 0),
        (-1e9, -65504.0, 0),
        (-1e9, 3.0, 0),  # finite on both sides: its distance tells
        (-70000.0, -np.inf, 1),  # overflow of a value
        (1e9, np.inf, 1),
        (-1e9, np.inf, 1),
        (-1e9, np.nan, 1),
    ],
)
def test_masks_that_float16_stores_as_infinite_are_no_overflow(computed, device, odd):
    rest = np.linspace(-2, 2, 7)
    expected = np.append(rest, computed).reshape(2, 4)
    actual = np.append(rest, device).astype(np.float16).reshape(2, 4)
    assert own_error(actual, Value(expected), "float16").odd == odd
