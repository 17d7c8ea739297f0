"""Resizing against onnxruntime and TensorFlow's loops, and its errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_references import (
    EXACT,
    arrays,
    assert_equals_onnxruntime,
    assert_error_matches_spread,
    assert_near,
    run_onnxruntime,
    with_error,
)

from goldwatch.operators import CannotCompute, Node, Value, compute


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


COORDINATES = [
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "half_pixel_symmetric",
]


@settings(max_examples=150)
@given(
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(COORDINATES),
    st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    st.lists(st.integers(1, 12), min_size=2, max_size=2),
    st.lists(st.sampled_from([0.5, 0.6, 0.75, 1.0, 1.5, 2.0, 3.0]), min_size=2, max_size=2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([-0.75, -0.5]),
)
def test_onnx_resize_equals_onnxruntime(
    mode, rule, nearest, sizes, scales, by_sizes, exclude, wider, coefficient
):
    x = tensor(0, 2, 3, 5, 7)
    entries = {"mode": mode, "coordinate_transformation_mode": rule}
    if mode == "nearest":
        entries["nearest_mode"] = nearest
    else:
        entries["antialias"] = int(wider)
    if mode == "cubic":
        entries.update(cubic_coeff_a=coefficient, exclude_outside=int(exclude))
    if by_sizes:
        inputs = [x, None, None, np.array([2, 3, *sizes], np.int64)]
    else:
        inputs = [x, None, np.array([1, 1, *scales], np.float32)]
    assert_equals_onnxruntime("Resize", inputs, entries, 19, constants=(2, 3))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_onnx_resize_of_every_opset_equals_onnxruntime(mode, opset):
    x = tensor(0, 1, 2, 4, 6)
    none = np.zeros(0, np.float32)
    scales = np.array([1, 1, 2, 1.5], np.float32)
    assert_equals_onnxruntime("Resize", [x, none, scales], {"mode": mode}, opset, constants=(1, 2))
    if opset == 11 and mode == "nearest":
        assert_equals_onnxruntime(
            "Resize",
            [x, none, scales],
            {"coordinate_transformation_mode": "tf_half_pixel_for_nn"},
            11,
            constants=(1, 2),
        )
    if opset == 18:
        inputs = [x, None, None, np.array([9, 9], np.int64)]
        for policy in ("stretch", "not_larger", "not_smaller"):
            entries = {"mode": mode, "axes": [2, 3], "keep_aspect_ratio_policy": policy}
            assert_equals_onnxruntime("Resize", inputs, entries, 18, constants=(3,))


def test_onnx_crop_and_resize_equals_onnxruntime():
    x = tensor(0, 1, 1, 6, 8)
    roi = np.array([0, 0, 0.2, -0.3, 1, 1, 0.7, 0.8], np.float32)
    entries = {
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "mode": "linear",
        "extrapolation_value": 7.0,
    }
    inputs = [x, roi, None, np.array([1, 1, 4, 5], np.int64)]
    assert_equals_onnxruntime("Resize", inputs, entries, 13, constants=(1, 3))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_of_a_region_that_a_device_holds_in_float16_only_its_border_is_open(mode):
    x = tensor(0, 1, 1, 6, 8)
    roi = np.array([0, 0, -0.2, 0.1, 1, 1, 1.1, 1.2], np.float32)
    entries = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": mode,
               "extrapolation_value": 70.0}  # fmt: skip
    scales = np.array([1, 1, 1.5, 1.5], np.float32)
    narrow = roi.astype(np.float16).astype(np.float32)
    (device,) = run_onnxruntime("Resize", [x, narrow, scales], entries, 13)
    held = Value(roi, np.abs(roi) * np.float32(2.0**-11 / np.sqrt(3)))
    (made,) = compute(Node("onnx", "Resize", entries, "", 13), [x, held, scales])
    off = np.abs(made.array - device)
    error = np.broadcast_to(made.error, off.shape)
    assert off.max() > 1 and np.all(off <= 4 * error + 1e-5)
    # All but the column at the end of the region.
    assert np.mean(error > 1) < 0.2


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample_and_resize_before_opset_11_equal_onnxruntime(mode):
    x = tensor(0, 1, 2, 4, 6)
    for factors in ([1, 1, 2, 3], [1, 1, 3, 1.5]):
        scales = np.array(factors, np.float32)
        assert_equals_onnxruntime("Upsample", [x, scales], {"mode": mode}, 9, constants=(1,))
        assert_equals_onnxruntime("Resize", [x, scales], {"mode": mode}, 10, constants=(1,))
        assert_equals_onnxruntime(
            "Upsample", [x], {"mode": mode, "scales": [float(factor) for factor in factors]}, 7
        )
    halves = np.array([1, 1, 0.5, 0.5], np.float32)
    assert_equals_onnxruntime("Resize", [x, halves], {"mode": mode}, 10, constants=(1,))
    if mode == "nearest":
        with pytest.raises(CannotCompute, match="neighbour"):
            compute(Node("onnx", "Resize", version=10), [x, np.array([1, 1, 0.75, 1], np.float32)])


def slow(x, sizes, linear, corners, centers):
    """Resize [N, H, W, C] as TensorFlow's kernels do, output by output."""
    out = np.zeros((x.shape[0], *sizes, x.shape[3]))
    for row in range(sizes[0]):
        for column in range(sizes[1]):
            ends = []
            for at, size, length in ((row, sizes[0], x.shape[1]), (column, sizes[1], x.shape[2])):
                scale = (length - 1) / (size - 1) if corners and size > 1 else length / size
                if linear:
                    place = (at + 0.5) * scale - 0.5 if centers else at * scale
                    low = math.floor(place)
                    ends.append(
                        ((max(low, 0), 1 - (place - low)), (min(low + 1, length - 1), place - low))
                    )
                else:
                    place = (at + 0.5) * scale if centers else at * scale
                    place = math.floor(place + 0.5) if corners else math.floor(place + 1e-6)
                    ends.append(((min(place, length - 1), 1.0),))
            for i, above in ends[0]:
                for j, beside in ends[1]:
                    out[:, row, column] += x[:, i, j] * above * beside
    return out


@pytest.mark.parametrize("sizes", [(8, 10), (3, 4), (4, 15), (1, 5), (12, 7)])
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("corners, centers", [(False, False), (True, False), (False, True)])
def test_tensorflow_and_ascend_resize_equal_plain_loops(sizes, linear, corners, centers):
    x = tensor(0, 2, 4, 5, 3)
    right = slow(x, sizes, linear, corners, centers)
    entries = {"align_corners": corners, "half_pixel_centers": centers}
    kind = "ResizeBilinear" if linear else "ResizeNearestNeighbor"
    size = np.array(sizes, np.int32)
    assert_near(arrays(Node("tensorflow", kind, entries), [x, size])[0], right)
    assert_near(
        arrays(Node("ascend", kind + "V2", entries, layouts=("NHWC", "ND")), [x, size])[0], right
    )
    first = np.moveaxis(x, -1, 1)
    made = arrays(Node("ascend", kind + "V2", entries, layouts=("NCHW", "ND")), [first, size])[0]
    assert_near(np.moveaxis(made, 1, -1), right)
    made = arrays(
        Node("ascend", kind + "V2D", {**entries, "size": list(sizes)}, layouts=("NHWC",)), [x]
    )[0]
    assert_near(made, right)
    with pytest.raises(CannotCompute, match="format"):
        compute(Node("ascend", kind + "V2", entries), [x, size])


def test_ascend_upsample_and_caffe_interp_equal_their_definitions():
    x = tensor(0, 1, 2, 4, 5)
    made = arrays(Node("ascend", "Upsample", {"stride_h": 2, "stride_w": 3, "scale": 0.5}), [x])[0]
    assert_near(made, 0.5 * np.repeat(np.repeat(x, 2, 2), 3, 3))
    right = np.moveaxis(slow(np.moveaxis(x, 1, -1), (7, 9), True, True, False), -1, 1)
    assert_near(arrays(Node("caffe", "Interp", {"zoom_factor": 2}), [x])[0], right)
    assert_near(arrays(Node("caffe", "Interp", {"height": 7, "width": 9}), [x])[0], right)
    like = Node("caffe", "Interp", {"use_blob_size": True, "zoom_factor": 5})
    assert_near(arrays(like, [x, np.zeros((1, 1, 7, 9), np.float32)])[0], right)
    cut = np.moveaxis(slow(np.moveaxis(x[:, :, 1:, 1:], 1, -1), (2, 2), True, True, False), -1, 1)
    assert_near(arrays(Node("caffe", "Interp", {"shrink_factor": 2, "pad_beg": -1}), [x])[0], cut)
    with pytest.raises(CannotCompute, match="height"):
        compute(Node("caffe", "Interp"), [x])


@pytest.mark.parametrize(
    "entries, says",
    [
        ({"mode": "area"}, "area"),
        ({"coordinate_transformation_mode": "other"}, "other"),
    ],
)
def test_resize_with_unknown_attributes_is_refused(entries, says):
    with pytest.raises(CannotCompute, match=says):
        compute(
            Node("onnx", "Resize", entries, version=19),
            [tensor(0, 1, 1, 4, 4), None, np.array([1, 1, 2, 2], np.float32)],
        )


def test_positions_on_a_border_may_be_read_from_either_side():
    x = tensor(0, 1, 1, 1, 7)
    entries = {"coordinate_transformation_mode": "half_pixel_symmetric"}
    made = compute(
        Node("onnx", "Resize", entries, version=19),
        [x, None, np.array([1, 1, 1, 0.6], np.float32)],
        EXACT,
    )[0]
    # The first output lies at 0.5 and the last at 5.5, up to the rounding of 0.6.
    assert (
        made.error[0, 0, 0, 0] == abs(x[0, 0, 0, 0] - x[0, 0, 0, 1])
        and not made.error[0, 0, 0, 1:3].any()
    )
    # By whole factors everything is exact.
    for scale, rule in ((2, "asymmetric"), (3, "asymmetric"), (0.5, "half_pixel")):
        entries = {"coordinate_transformation_mode": rule, "nearest_mode": "floor"}
        made = compute(
            Node("onnx", "Resize", entries, version=19),
            [x, None, np.array([1, 1, 1, scale], np.float32)],
            EXACT,
        )[0]
        assert made.error is None


def test_an_infinite_value_stays_in_its_neighbourhood():
    x = tensor(0, 1, 1, 4, 4)
    x[0, 0, 0, 0] = np.inf
    made = arrays(
        Node("onnx", "Upsample", {"mode": "linear", "scales": [1.0, 1.0, 2.0, 2.0]}), [x]
    )[0]
    assert np.isinf(made[0, 0, :2, :2]).all() and np.isfinite(made[0, 0, 2:, 2:]).all()


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_input_errors_reach_the_output_of_resize(mode):
    generator = np.random.default_rng(1)
    x = with_error(tensor(0, 1, 2, 5, 6))
    node = Node("onnx", "Resize", {"mode": mode}, version=13)
    assert_error_matches_spread(node, [x, None, np.array([1, 1, 1.6, 2], np.float32)], generator)
