"""The median against numpy's, to the last bit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from goldwatch.metrics.worst_slice import median

SHAPES = some.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=9)


@pytest.mark.filterwarnings("ignore")
@given(some.arrays(st.sampled_from([np.float32, np.float64]), SHAPES))
def test_the_median_equals_numpys(values) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = float(np.median(values))
    assert (
        np.array([median(values)]).tobytes() == np.array([expected]).tobytes()
        or np.isnan([median(values), expected]).all()
    )


def test_computing_the_median_does_not_change_the_values() -> None:
    values = np.array([3.0, 1.0, 2.0, 5.0])
    assert median(values) == 2.5
    assert values.tolist() == [3.0, 1.0, 2.0, 5.0]
