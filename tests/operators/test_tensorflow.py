"""TensorFlow's operators against TensorFlow 1.15 itself."""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.operators import Arithmetic, Node, compute

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def raw():
    return pytest.importorskip("tensorflow").raw_ops


def tensor(seed, *shape):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def same_as_tensorflow(raw, kind, inputs, attributes, outputs=None):
    """Compute one operator by both; ``inputs`` by their names, in the operator's order."""
    import tensorflow

    v1 = tensorflow.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        result = getattr(raw, kind)(
            **{name: v1.constant(array) for name, array in inputs.items()}, **attributes
        )
        right = session.run((list(result) if isinstance(result, tuple) else [result])[:outputs])
    made = compute(
        Node("tensorflow", kind, attributes), list(inputs.values()), Arithmetic(0.0, 0.0, 0.0)
    )
    for one, other in zip(made, right):
        assert one.array.shape == other.shape, (kind, attributes)
        # The error is that of neighbours on the border between which roundings choose.
        room = 1e-4 * max(float(np.abs(other).max()), 1e-6) + (
            0.0 if one.error is None else one.error
        )
        assert np.all(np.abs(one.array - other) <= room), (kind, attributes)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 2)])
def test_convolutions_and_pooling_equal_tensorflow(raw, padding, strides):
    x = tensor(0, 2, 9, 8, 4)
    common = {"strides": [1, *strides, 1], "padding": padding}
    same_as_tensorflow(raw, "Conv2D", {"input": x, "filter": tensor(1, 3, 2, 4, 6)}, common)
    if strides[0] == strides[1]:
        same_as_tensorflow(
            raw, "DepthwiseConv2dNative", {"input": x, "filter": tensor(1, 3, 2, 4, 2)}, common
        )
    same_as_tensorflow(raw, "MaxPool", {"input": x}, {**common, "ksize": [1, 3, 2, 1]})
    same_as_tensorflow(raw, "AvgPool", {"value": x}, {**common, "ksize": [1, 3, 2, 1]})
    sizes = [
        -(-(n - (0 if padding == "SAME" else k - 1)) // s)
        for n, k, s in zip((9, 8), (3, 2), strides)
    ]
    back = {
        "input_sizes": np.array(x.shape, np.int32),
        "filter": tensor(1, 3, 2, 4, 6),
        "out_backprop": tensor(2, 2, *sizes, 6),
    }
    same_as_tensorflow(raw, "Conv2DBackpropInput", back, common)
    volume, common = (
        tensor(0, 1, 5, 6, 4, 3),
        {"strides": [1, 2, 1, strides[1], 1], "padding": padding},
    )
    same_as_tensorflow(raw, "Conv3D", {"input": volume, "filter": tensor(1, 2, 3, 2, 3, 4)}, common)
    for kind in ("MaxPool3D", "AvgPool3D"):
        same_as_tensorflow(raw, kind, {"input": volume}, {**common, "ksize": [1, 2, 3, 2, 1]})


def test_dilated_and_explicitly_padded_convolutions_equal_tensorflow(raw):
    inputs = {"input": tensor(0, 2, 9, 8, 4), "filter": tensor(1, 3, 2, 4, 6)}
    same_as_tensorflow(
        raw, "Conv2D", inputs, {"strides": [1] * 4, "padding": "SAME", "dilations": [1, 2, 3, 1]}
    )
    pads = [0, 0, 1, 2, 0, 1, 0, 0]
    same_as_tensorflow(
        raw,
        "Conv2D",
        inputs,
        {"strides": [1, 2, 2, 1], "padding": "EXPLICIT", "explicit_paddings": pads},
    )


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_matrix_products_equal_tensorflow(raw, first, second):
    a, b = tensor(0, *((5, 4) if first else (4, 5))), tensor(1, *((6, 5) if second else (5, 6)))
    same_as_tensorflow(
        raw, "MatMul", {"a": a, "b": b}, {"transpose_a": first, "transpose_b": second}
    )
    batched = {"x": np.stack([a, 2 * a]), "y": b[None]}
    same_as_tensorflow(raw, "BatchMatMulV2", batched, {"adj_x": first, "adj_y": second})


@pytest.mark.parametrize("corners, centers", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(13, 9), (3, 4), (10, 16), (1, 1), (49, 7), (98, 21)])
def test_resizing_equals_tensorflow(raw, corners, centers, size):
    inputs = {"images": tensor(0, 1, 5, 8, 2), "size": np.array(size, np.int32)}
    for kind in ("ResizeBilinear", "ResizeNearestNeighbor"):
        same_as_tensorflow(
            raw, kind, inputs, {"align_corners": corners, "half_pixel_centers": centers}
        )


def test_normalisations_equal_tensorflow(raw):
    for kind in ("Softmax", "LogSoftmax"):
        same_as_tensorflow(raw, kind, {"logits": 5 * tensor(0, 3, 7)}, {})
    for attributes in ({}, {"depth_radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.6}):
        same_as_tensorflow(raw, "LRN", {"input": tensor(0, 1, 3, 3, 12)}, attributes)
    inputs = {
        "x": tensor(0, 2, 3, 4, 5),
        "scale": tensor(1, 5),
        "offset": tensor(2, 5),
        "mean": tensor(3, 5),
    }
    inputs["variance"] = np.square(tensor(4, 5)) + np.float32(0.1)
    for kind in ("FusedBatchNorm", "FusedBatchNormV3"):
        same_as_tensorflow(raw, kind, inputs, {"is_training": False, "epsilon": 1e-3}, outputs=1)


@pytest.mark.parametrize("clip", [3.0, 0.5, -1.0])
def test_recurrent_cells_equal_tensorflow(raw, clip):
    inputs = {
        "x": tensor(0, 3, 4),
        "cs_prev": 2 * tensor(1, 3, 6),
        "h_prev": tensor(2, 3, 6),
        "w": tensor(3, 10, 24),
    }
    inputs.update(
        {name: np.zeros(6, np.float32) for name in ("wci", "wcf", "wco")}, b=tensor(4, 24)
    )
    same_as_tensorflow(raw, "LSTMBlockCell", inputs, {"forget_bias": 0.7, "cell_clip": clip})
    inputs = {
        "x": tensor(0, 3, 4),
        "h_prev": tensor(1, 3, 6),
        "w_ru": tensor(2, 10, 12),
        "w_c": tensor(3, 10, 6),
    }
    same_as_tensorflow(
        raw, "GRUBlockCell", {**inputs, "b_ru": tensor(4, 12), "b_c": tensor(5, 6)}, {}
    )
