"""QuantizeLinear to floats of 8 bits, beside ml_dtypes' casts."""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.operators import ONNX, Arithmetic, Node, check, compute
from goldwatch.operators.value_with_error import Value

ml_dtypes = pytest.importorskip("ml_dtypes")
TYPES = {"float8_e4m3fn": 17, "float8_e5m2": 19}
"""By the numbers of onnx.TensorProto."""


@pytest.mark.parametrize("name", sorted(TYPES))
@pytest.mark.parametrize("bit", [None, 1, 2])
def test_a_quantiser_to_floats_takes_the_nearest_number_of_its_type(name, bit):
    random = np.random.RandomState(0)
    x = (random.standard_normal(4096) * 10.0 ** random.uniform(-4, 6, 4096)).astype(np.float32)
    scale = np.float32(0.05)
    largest = float(ml_dtypes.finfo(name).max)
    expected = np.clip(x / scale, -largest, largest).astype(name)
    if bit is not None:
        expected = (expected.view(np.uint8) ^ np.uint8(bit)).view(name)
    node = Node(ONNX, "QuantizeLinear", {"output_dtype": TYPES[name]})
    inputs = [Value(x), Value(scale.reshape(()))]
    (made,) = compute(node, inputs, Arithmetic())
    (wrong,) = check(node, inputs, [expected.astype(np.float32)])
    if bit is None:
        assert np.array_equal(made.array, expected.astype(np.float32)) and not wrong.any()
    else:
        assert wrong.mean() > 0.95
