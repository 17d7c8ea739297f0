"""GridSample, RoiAlign, DeformConv, AffineGrid, Col2Im, MaxUnpool against onnxruntime; windows and
what is written into a cache against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from operator_references import assert_equals_onnxruntime, assert_near

from goldwatch.operators import Node, Value, compute


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_equals_onnxruntime(mode, padding, corners):
    grid = np.random.default_rng(3).uniform(-1.4, 1.4, (2, 4, 6, 2)).astype(np.float32)
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    assert_equals_onnxruntime("GridSample", [tensor(1, 2, 3, 7, 5), grid], attributes, 16)


def test_places_that_err_move_what_is_read():
    grid = np.random.default_rng(3).uniform(-0.9, 0.9, (1, 4, 6, 2)).astype(np.float32)
    node = Node("onnx", "GridSample", {}, version=16)
    exact, erring = (
        compute(node, [tensor(1, 1, 3, 7, 5), Value(grid, error)])[0].error
        for error in (None, np.full(grid.shape, 0.01))
    )
    assert np.median(erring) > 100 * np.median(exact)


@pytest.mark.parametrize("half", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 1, 2])
def test_roi_align_equals_onnxruntime(mode, ratio, half):
    corner = np.random.default_rng(3).uniform(-2, 4, (5, 2))
    far = corner + np.random.default_rng(4).uniform(0, 7, corner.shape)
    rois = np.concatenate([corner, far], 1).astype(np.float32)
    inputs = [tensor(1, 2, 3, 7, 5), rois, np.array([0, 1, 1, 0, 1], np.int64)]
    attributes = {"mode": mode, "sampling_ratio": ratio, "coordinate_transformation_mode": half}
    attributes.update(output_height=3, output_width=2, spatial_scale=0.75)
    assert_equals_onnxruntime("RoiAlign", inputs, attributes, 16)


@pytest.mark.parametrize("groups, parts", [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_deformable_convolution_equals_onnxruntime(groups, parts):
    attributes = {"group": groups, "offset_group": parts, "pads": [1, 0, 0, 1]}
    attributes.update(strides=[2, 1], dilations=[1, 2])
    filters, offset = tensor(2, 6, 4 // groups, 3, 2), tensor(3, 2, 12 * parts, 3, 4)
    mask = np.abs(tensor(4, 2, 6 * parts, 3, 4))
    inputs = [tensor(1, 2, 4, 7, 5), filters, offset, tensor(5, 6), mask]
    assert_equals_onnxruntime("DeformConv", inputs, attributes, 19)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 2, 4, 5)])
def test_affine_grid_equals_onnxruntime(size, corners):
    count = len(size) - 2
    inputs = [tensor(1, 2, count, count + 1), np.array(size, np.int64)]
    attributes = {"align_corners": corners}
    assert_equals_onnxruntime("AffineGrid", inputs, attributes, 20, constants=(1,))


@pytest.mark.parametrize("attributes, length", [
    ({}, 20), ({"strides": [2, 2]}, 4), ({"pads": [1, 1, 1, 1]}, 42), ({"dilations": [2, 2]}, 6),
])  # fmt: skip
def test_col2im_equals_onnxruntime(attributes, length):
    shape, window = np.array([6, 5], np.int64), np.array([2, 2], np.int64)
    if attributes.get("dilations"):
        length = 4 * 3
    elif not attributes:
        length = 5 * 4
    elif attributes.get("strides"):
        length = 3 * 2
    else:
        length = 7 * 6
    inputs = [tensor(1, 2, 3 * 4, length), shape, window]
    assert_equals_onnxruntime("Col2Im", inputs, attributes, 18)


def test_max_unpool_equals_onnxruntime():
    x = tensor(1, 1, 2, 3, 3)
    indices = np.random.default_rng(2).permutation(72)[:18].reshape(x.shape).astype(np.int64)
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    assert_equals_onnxruntime("MaxUnpool", [x, indices], attributes, 11, tolerance=0)


@pytest.mark.parametrize("size", [[4, 9], [7, 3], [5, 6]])
def test_center_crop_pad_equals_onnxruntime(size):
    inputs = [tensor(1, 5, 6), np.array(size, np.int64)]
    assert_equals_onnxruntime("CenterCropPad", inputs, {}, 18, tolerance=0)


@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("kind", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_equal_onnxruntime(kind, periodic):
    attributes = {"periodic": periodic}
    assert_equals_onnxruntime(kind, [np.array(10, np.int64)], attributes, 17, tolerance=1e-5)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_what_is_written_into_a_cache_equals_plain_loops(mode):
    cache, update = tensor(1, 2, 3, 6, 4), tensor(2, 2, 3, 2, 4)
    starts = np.array([1, 4 if mode == "linear" else 5], np.int64)
    right = cache.copy()
    for sample in range(2):
        for at in range(2):
            right[sample, :, (starts[sample] + at) % 6] = update[sample, :, at]
    node = Node("onnx", "TensorScatter", {"mode": mode}, version=24)
    made = compute(node, [Value(cache, np.abs(cache)), Value(update, np.abs(update)), starts])[0]
    np.testing.assert_array_equal(made.array, right)
    np.testing.assert_array_equal(made.error, np.abs(right))


def test_swiglu_is_a_gate_times_the_other_input():
    gate, other = tensor(1, 4, 5), tensor(2, 4, 5)
    made = compute(Node("onnx", "SwiGLU", {"alpha": 1.5}, version=26), [gate, other])[0].array
    assert_near(made, gate / (1 + np.exp(-1.5 * gate.astype(np.float64))) * other, 1e-6)
