"""Operators that move values, bit for bit against onnxruntime and plain loops; errors move with
their values.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from operator_references import arrays, assert_equals_onnxruntime, run_onnxruntime

from goldwatch.operators import CannotCompute, Node, Value, compute, find
from goldwatch.operators.registry import spellings


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def single(number):
    return np.array(number, np.float32)


def whole(*numbers):
    return np.array(numbers, np.int64)


def equal(made, right):
    np.testing.assert_array_equal(made, right)
    assert made.dtype == right.dtype and made.shape == right.shape


def errors_follow(node, inputs):
    """Assert that an error which is the value's magnitude is moved as the value is."""
    values = [
        Value(one, np.abs(one)) if one is not None and one.dtype.kind == "f" else one
        for one in inputs
    ]
    for made in compute(node, values):
        np.testing.assert_array_equal(made.error, np.abs(made.array))


def as_onnxruntime(kind, inputs, attributes=None, opset=17, outputs=1):
    assert_equals_onnxruntime(kind, inputs, attributes, opset, outputs, tolerance=0)
    errors_follow(Node("onnx", kind, attributes or {}, version=opset, outputs=outputs), inputs)


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@settings(max_examples=40)
@given(st.data())
def test_transpose_equals_onnxruntime_in_every_dialect(data):
    shape = data.draw(shapes)
    order = data.draw(st.permutations(range(len(shape))))
    x = tensor(1, *shape)
    as_onnxruntime("Transpose", [x], {"perm": list(order)})
    for node, inputs in (
        (Node("tensorflow", "Transpose"), [x, whole(*order)]),
        (Node("ascend", "Transpose"), [x, whole(*order)]),
        (Node("ascend", "TransposeD", {"perm": list(order)}), [x]),
        (Node("caffe", "Permute", {"order": list(order)}), [x]),
    ):
        equal(arrays(node, inputs)[0], np.transpose(x, order))
    as_onnxruntime("Transpose", [x])


def test_caffe_permute_keeps_unnamed_axes_in_order():
    x = tensor(1, 2, 3, 4, 5)
    equal(arrays(Node("caffe", "Permute", {"order": [0, 2]}), [x])[0], x.transpose(0, 2, 1, 3))


@pytest.mark.parametrize("shape", [(0, -1), (2, 3, 4), (-1,), (4, 0, -1), (3, 0, 0, 2)])
def test_reshape_equals_onnxruntime_in_every_dialect(shape):
    x = tensor(1, 2, 3, 4) if shape != (3, 0, 0, 2) else tensor(1, 4, 3, 2, 1)
    if shape == (3, 0, 0, 2):
        shape = (2, 0, 0, 2)
    as_onnxruntime("Reshape", [x, whole(*shape)])
    right = x.reshape([x.shape[axis] if size == 0 else size for axis, size in enumerate(shape)])
    for attributes in ({"shape": {"dim": list(shape)}}, {"shape": list(shape)}):
        equal(arrays(Node("caffe", "Reshape", attributes), [x])[0], right)
    equal(arrays(Node("ascend", "Reshape"), [x, whole(*shape)])[0], right)
    equal(arrays(Node("onnx", "Reshape", {"shape": list(shape)}, version=1), [x])[0], right)
    if 0 not in shape:
        equal(arrays(Node("tensorflow", "Reshape"), [x, whole(*shape)])[0], right)


def test_reshape_changes_a_range_of_axes_only():
    x = tensor(1, 2, 3, 4, 5)
    equal(
        arrays(Node("caffe", "Reshape", {"shape": [12], "axis": 1, "num_axes": 2}), [x])[0],
        x.reshape(2, 12, 5),
    )
    equal(
        arrays(Node("caffe", "Reshape", {"shape": [2, 10], "axis": -3}), [x])[0],
        x.reshape(2, 3, 2, 10),
    )
    as_onnxruntime("Reshape", [np.zeros((0, 3), np.float32), whole(3, 0)], {"allowzero": 1})


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_flatten_equals_onnxruntime(axis):
    x = tensor(1, 2, 3, 4)
    as_onnxruntime("Flatten", [x], {"axis": axis})
    if axis != 3:
        shape = x.shape[: axis % 3]
        equal(arrays(Node("caffe", "Flatten", {"axis": axis}), [x])[0], x.reshape(*shape, -1))


def test_flatten_joins_a_range_of_axes_only():
    x = tensor(1, 2, 3, 4, 5)
    for node in (
        Node("caffe", "Flatten", {"axis": 1, "end_axis": 2}),
        Node("ascend", "FlattenV2", {"axis": 1, "end_axis": 2}),
    ):
        equal(arrays(node, [x])[0], x.reshape(2, 12, 5))


def test_squeeze_and_unsqueeze_equal_onnxruntime():
    x = tensor(1, 1, 3, 1, 2)
    as_onnxruntime("Squeeze", [x, whole(0, -2)])
    as_onnxruntime("Squeeze", [x])
    as_onnxruntime("Squeeze", [x], {"axes": [2]}, 11)
    as_onnxruntime("Unsqueeze", [tensor(1, 3, 2), whole(0, -1)])
    as_onnxruntime("Unsqueeze", [tensor(1, 3, 2)], {"axes": [1, 3]}, 11)
    equal(arrays(Node("tensorflow", "Squeeze", {"squeeze_dims": [0]}), [x])[0], x[0])
    equal(arrays(Node("tensorflow", "Squeeze", {"squeeze_dims": []}), [x])[0], x[0, :, 0])
    equal(arrays(Node("ascend", "Squeeze", {"axis": [2]}), [x])[0], x[:, :, 0])
    equal(arrays(Node("tensorflow", "ExpandDims"), [x, whole(-1)])[0], x[..., None])
    equal(arrays(Node("ascend", "Unsqueeze", {"axes": [0]}), [x])[0], x[None])
    with pytest.raises(CannotCompute, match="squeezes"):
        compute(Node("onnx", "Squeeze", version=13), [x, whole(1)])
    with pytest.raises(CannotCompute, match="axes"):
        compute(Node("ascend", "Unsqueeze"), [x])


def test_expand_equals_onnxruntime_in_every_dialect():
    x = tensor(1, 3, 1)
    for shape in ((2, 3, 4), (3, 1), (1, 4), (1,)):
        as_onnxruntime("Expand", [x, whole(*shape)])
    for node, inputs in (
        (Node("tensorflow", "BroadcastTo"), [x, whole(2, 3, 4)]),
        (Node("ascend", "BroadcastTo"), [x, whole(2, 3, 4)]),
        (Node("ascend", "BroadcastToD", {"shape": [2, 3, 4]}), [x]),
        (Node("ascend", "ExpandD", {"shape": [2, -1, 4]}), [x]),
    ):
        equal(arrays(node, inputs)[0], np.broadcast_to(x, (2, 3, 4)))
    with pytest.raises(CannotCompute):
        compute(Node("tensorflow", "BroadcastTo"), [x, whole(2, 1, 4)])


@settings(max_examples=30)
@given(st.data())
def test_concat_equals_onnxruntime_in_every_dialect(data):
    shape = data.draw(shapes)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for number in range(data.draw(st.integers(1, 3))):
        size = list(shape)
        size[axis] = data.draw(st.integers(1, 3))
        parts.append(tensor(number, *size))
    as_onnxruntime("Concat", parts, {"axis": axis})
    right = np.concatenate(parts, axis)
    for node, inputs in (
        (Node("caffe", "Concat", {"axis": axis}), parts),
        (Node("tensorflow", "ConcatV2"), [*parts, whole(axis)]),
        (Node("tensorflow", "Concat"), [whole(axis), *parts]),
        (Node("ascend", "Concat"), [whole(axis), *parts]),
        (Node("ascend", "ConcatV2"), [*parts, whole(axis)]),
        (Node("ascend", "ConcatD", {"concat_dim": axis, "N": len(parts)}), parts),
        (Node("ascend", "ConcatV2D", {"concat_dim": axis}), parts),
    ):
        equal(arrays(node, inputs)[0], right)


def test_concat_keeps_the_error_of_each_part():
    made = compute(
        Node("onnx", "Concat", {"axis": 0}, version=13),
        [np.zeros(2, np.float32), Value(np.ones(1, np.float32), np.full(1, 0.5))],
    )[0]
    assert made.error.tolist() == [0, 0, 0.5]


def test_caffe_concatenates_channels_by_default():
    x = tensor(1, 2, 3)
    equal(arrays(Node("caffe", "Concat"), [x, x])[0], np.concatenate([x, x], 1))
    equal(arrays(Node("caffe", "Concat", {"concat_dim": 0}), [x, x])[0], np.concatenate([x, x], 0))


def test_pack_and_unpack_stack_and_separate():
    x, y = tensor(1, 2, 3), tensor(2, 2, 3)
    for dialect in ("tensorflow", "ascend"):
        equal(arrays(Node(dialect, "Pack", {"axis": 1, "N": 2}), [x, y])[0], np.stack([x, y], 1))
        made = arrays(Node(dialect, "Unpack", {"axis": 1, "num": 3}), [x])
        for number in range(3):
            equal(made[number], x[:, number])
        errors_follow(Node(dialect, "Unpack", {"num": 2}), [x])


def test_split_equals_onnxruntime_in_every_dialect():
    x = tensor(1, 2, 7)
    as_onnxruntime("Split", [x, whole(3, 4)], {"axis": 1}, 13, 2)
    as_onnxruntime("Split", [x], {"axis": -1, "split": [1, 6]}, 11, 2)
    as_onnxruntime("Split", [x], {"axis": 0}, 11, 2)
    as_onnxruntime("Split", [x], {"axis": 1, "num_outputs": 3}, 18, 3)
    parts = np.split(x, [2], 1)
    for dialect in ("tensorflow", "ascend"):
        for number, made in enumerate(
            arrays(Node(dialect, "SplitV", {"num_split": 2}), [x, whole(2, -1), whole(1)])
        ):
            equal(made, parts[number])
        for number, made in enumerate(
            arrays(Node(dialect, "Split", {"num_split": 2}), [whole(0), x])
        ):
            equal(made, x[number : number + 1])
    for number, made in enumerate(
        arrays(
            Node("ascend", "SplitVD", {"size_splits": [2, 5], "split_dim": 1, "num_split": 2}), [x]
        )
    ):
        equal(made, parts[number])
    for number, made in enumerate(
        arrays(Node("ascend", "SplitD", {"split_dim": 0, "num_split": 2}), [x])
    ):
        equal(made, x[number : number + 1])
    with pytest.raises(CannotCompute, match="into 3 equal parts"):
        compute(Node("ascend", "SplitD", {"split_dim": 1, "num_split": 3}), [x])
    with pytest.raises(CannotCompute, match="splits 7"):
        compute(Node("ascend", "SplitVD", {"size_splits": [2, 4], "split_dim": 1}), [x])


def test_caffe_slice_and_split_give_their_parts():
    x = tensor(1, 2, 6, 3)
    for attributes, right in (
        ({"slice_point": [1, 3]}, np.split(x, [1, 3], 1)),
        ({}, np.split(x, 3, 1)),
        ({"axis": 2}, np.split(x, 3, 2)),
    ):
        made = arrays(Node("caffe", "Slice", attributes, outputs=3), [x])
        assert len(made) == 3
        for one, other in zip(made, right):
            equal(one, other)
    assert len(arrays(Node("caffe", "Split", outputs=3), [x])) == 3


@settings(max_examples=80)
@given(st.data())
def test_slice_equals_onnxruntime_in_every_dialect(data):
    shape = data.draw(shapes)
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    ends_at = st.integers(-6, 6) | st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1])
    starts, ends = ([data.draw(ends_at) for _ in axes] for _ in range(2))
    steps = [data.draw(st.sampled_from([1, 2, -1, -2])) for _ in axes]
    backwards = any(step < 0 and end > 6 for step, end in zip(steps, ends))
    x = tensor(1, *shape)
    inputs = [x, whole(*starts), whole(*ends), whole(*axes), whole(*steps)]
    if backwards:
        with pytest.raises(CannotCompute, match="backwards"):
            compute(Node("onnx", "Slice", version=13), inputs)
        return
    as_onnxruntime("Slice", inputs)
    as_onnxruntime("Slice", [x], {"starts": starts, "ends": ends, "axes": axes}, 9)


@pytest.mark.parametrize("dialect", ["tensorflow", "ascend"])
def test_slice_takes_offsets_and_sizes(dialect):
    x = tensor(1, 4, 5)
    equal(arrays(Node(dialect, "Slice"), [x, whole(1, 2), whole(-1, 2)])[0], x[1:, 2:4])
    if dialect == "ascend":
        equal(
            arrays(Node(dialect, "SliceD", {"offsets": [1, 2], "size": [3, 2]}), [x])[0],
            x[1:4, 2:4],
        )


def slow_strided_slice(x, begin, end, strides, begin_mask, end_mask, shrink_mask):
    """TensorFlow's rule for one axis after the other, without ellipsis and new axes."""
    kept, shape = [], []
    for axis, size in enumerate(x.shape):
        if axis >= len(begin):
            kept.append(list(range(size)))
            shape.append(size)
            continue
        stride = strides[axis]
        if shrink_mask >> axis & 1:
            kept.append([begin[axis] % size])
            continue
        low, high = (0, size) if stride > 0 else (-1, size - 1)

        def bounded(value, size=size, low=low, high=high):
            return min(max(value + size if value < 0 else value, low), high)

        first = (0 if stride > 0 else size - 1) if begin_mask >> axis & 1 else bounded(begin[axis])
        last = (size if stride > 0 else -1) if end_mask >> axis & 1 else bounded(end[axis])
        kept.append(list(range(first, last, stride)))
        shape.append(len(kept[-1]))
    return np.array([x[place] for place in itertools.product(*kept)], x.dtype).reshape(shape)


@settings(max_examples=80)
@given(st.data())
def test_strided_slice_equals_numpy(data):
    shape = data.draw(shapes)
    count = data.draw(st.integers(1, len(shape)))
    begin, end = ([data.draw(st.integers(-5, 5)) for _ in range(count)] for _ in range(2))
    strides = [data.draw(st.sampled_from([1, 2, -1])) for _ in range(count)]
    begin_mask, end_mask, shrink_mask = (data.draw(st.integers(0, 2**count - 1)) for _ in range(3))
    for axis in range(count):
        assume(
            not shrink_mask >> axis & 1
            or (-shape[axis] <= begin[axis] < shape[axis] and strides[axis] > 0)
        )
    x = tensor(1, *shape)
    right = slow_strided_slice(x, begin, end, strides, begin_mask, end_mask, shrink_mask)
    masks = {"begin_mask": begin_mask, "end_mask": end_mask, "shrink_axis_mask": shrink_mask}
    inputs = [x, whole(*begin), whole(*end), whole(*strides)]
    for dialect in ("tensorflow", "ascend"):
        equal(arrays(Node(dialect, "StridedSlice", masks), inputs)[0], right)
    listed = {"begin": begin, "end": end, "strides": strides}
    equal(arrays(Node("ascend", "StridedSliceD", {**masks, **listed}), [x])[0], right)


def test_strided_slice_adds_axes_and_fills_the_ellipsis():
    x = tensor(1, 2, 3, 4)
    inputs = [x, whole(0, 0, 1), whole(0, 0, 3), whole(1, 1, 1)]
    equal(
        arrays(
            Node("tensorflow", "StridedSlice", {"new_axis_mask": 1, "ellipsis_mask": 2}), inputs
        )[0],
        x[None, ..., 1:3],
    )


def test_ascend_strided_slice_v2_slices_named_axes():
    x = tensor(1, 4, 5)
    equal(
        arrays(Node("ascend", "StridedSliceV2"), [x, whole(1), whole(4), whole(1), whole(2)])[0],
        x[:, 1:4:2],
    )
    with pytest.raises(CannotCompute, match="masks"):
        compute(Node("ascend", "StridedSliceV2", {"begin_mask": 1}), [x, whole(1), whole(4)])


@settings(max_examples=40)
@given(st.data())
def test_pad_equals_numpy_and_onnxruntime(data):
    mode = data.draw(st.sampled_from(["constant", "reflect", "edge", "wrap"]))
    shape = data.draw(st.lists(st.integers(3, 4), min_size=1, max_size=3))
    pads = [
        data.draw(st.integers(0 if mode != "constant" else -1, 2)) for _ in range(2 * len(shape))
    ]
    x = tensor(1, *shape)
    as_onnxruntime("Pad", [x, whole(*pads)], {"mode": mode}, 19)
    pairs = list(zip(pads[: len(shape)], pads[len(shape) :]))
    if mode != "wrap" and min(pads) >= 0:
        right = np.pad(x, pairs, mode)
        flat = [size for pair in pairs for size in pair]
        equal(
            arrays(Node("ascend", "PadV3", {"mode": mode}), [x, whole(*flat), single(0)])[0], right
        )
        equal(
            arrays(
                Node("ascend", "PadV3", {"mode": mode, "paddings_contiguous": False}),
                [x, whole(*pads)],
            )[0],
            right,
        )
        equal(
            arrays(
                Node(
                    "ascend", "PadV3D", {"mode": mode, "paddings": [list(pair) for pair in pairs]}
                ),
                [x],
            )[0],
            right,
        )
    if mode in ("constant", "reflect", "edge"):
        assert_equals_onnxruntime("Pad", [x], {"mode": mode, "pads": pads}, 10, tolerance=0)


def test_pad_fills_with_the_given_value():
    x = tensor(1, 2, 3)
    right = np.pad(x, [(1, 0), (0, 2)], constant_values=single(7.5))
    assert_equals_onnxruntime("Pad", [x, whole(1, 0, 0, 2), single(7.5)], {}, 13, tolerance=0)
    assert_equals_onnxruntime("Pad", [x, whole(2, 1), single(7.5), whole(1)], {}, 18, tolerance=0)
    assert_equals_onnxruntime("Pad", [x], {"pads": [1, 0, 0, 2], "value": 7.5}, 10, tolerance=0)
    pads = whole(1, 0, 0, 2).reshape(2, 2)
    for dialect in ("tensorflow", "ascend"):
        equal(arrays(Node(dialect, "PadV2"), [x, pads, single(7.5)])[0], right)
        equal(arrays(Node(dialect, "Pad"), [x, pads])[0], np.pad(x, pads))
        for mode in ("REFLECT", "SYMMETRIC"):
            equal(
                arrays(Node(dialect, "MirrorPad", {"mode": mode}), [x, pads])[0],
                np.pad(x, pads, mode.lower()),
            )
    equal(arrays(Node("ascend", "PadD", {"paddings": pads.tolist()}), [x])[0], np.pad(x, pads))
    equal(
        arrays(Node("ascend", "PadV3D", {"paddings": pads.tolist(), "constant_values": 2}), [x])[0],
        np.pad(x, pads, constant_values=2),
    )
    value = Value(x, np.ones(x.shape))
    assert compute(Node("tensorflow", "PadV2"), [value, pads, single(7.5)])[0].error.sum() == 6
    with pytest.raises(CannotCompute, match="mode"):
        compute(Node("ascend", "PadV3D", {"paddings": pads.tolist(), "mode": "circular"}), [x])


def test_tile_repeats_in_every_dialect():
    x = tensor(1, 2, 3)
    as_onnxruntime("Tile", [x, whole(2, 3)])
    right = np.tile(x, (1, 3))
    for node, inputs in (
        (Node("tensorflow", "Tile"), [x, whole(1, 3)]),
        (Node("ascend", "Tile"), [x, whole(1, 3)]),
        (Node("ascend", "TileD", {"multiples": [1, 3]}), [x]),
        (Node("ascend", "TileWithAxis", {"tiles": 3}), [x]),
        (Node("caffe", "Tile", {"tiles": 3}), [x]),
        (Node("caffe", "Tile", {"tiles": 3, "axis": -1}), [x]),
        (Node("onnx", "Tile", version=1), [x, single(3), single(1)]),
    ):
        equal(arrays(node, inputs)[0], right)


@settings(max_examples=40)
@given(st.data())
def test_gather_equals_onnxruntime_in_every_dialect(data):
    shape = data.draw(shapes)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    indices = np.array(
        data.draw(st.lists(st.integers(-size, size - 1), min_size=4, max_size=4)), np.int64
    ).reshape(2, 2)
    x = tensor(1, *shape)
    as_onnxruntime("Gather", [x, indices], {"axis": axis})
    indices %= size
    right = np.take(x, indices, axis)
    for dialect in ("tensorflow", "ascend"):
        equal(arrays(Node(dialect, "GatherV2"), [x, indices, whole(axis)])[0], right)
        equal(arrays(Node(dialect, "Gather"), [x, indices % shape[0]])[0], x[indices % shape[0]])
    equal(arrays(Node("ascend", "GatherV2D", {"axis": axis}), [x, indices])[0], right)


def test_gather_takes_indices_for_each_batch():
    x, indices = tensor(1, 2, 5, 3), np.array([[0, 4], [2, 2]])
    right = np.stack([x[0][indices[0]], x[1][indices[1]]])
    equal(
        arrays(Node("tensorflow", "GatherV2", {"batch_dims": 1}), [x, indices, whole(1)])[0], right
    )
    equal(arrays(Node("ascend", "Gather", {"batch_dims": 1}), [x, indices])[0], right)


def test_a_gather_index_out_of_range_is_refused():
    with pytest.raises(CannotCompute, match="IndexError"):
        compute(Node("onnx", "Gather", version=13), [tensor(1, 3), whole(3)])


@settings(max_examples=40)
@given(st.data())
def test_gather_elements_and_scatter_elements_equal_onnxruntime(data):
    shape = data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    inner = [data.draw(st.integers(1, size)) for size in shape]
    generator = np.random.default_rng(data.draw(st.integers(0, 999)))
    x = tensor(1, *shape)
    indices = generator.integers(-shape[axis], shape[axis], inner)
    as_onnxruntime("GatherElements", [x, indices], {"axis": axis})
    equal(
        arrays(Node("ascend", "GatherElements", {"dim": axis}), [x, indices])[0],
        arrays(Node("onnx", "GatherElements", {"axis": axis}), [x, indices])[0],
    )
    # One place twice may take either update: each index is used once along the axis.
    once = np.argsort(generator.random(shape), axis)[tuple(slice(size) for size in inner)]
    updates = tensor(2, *inner)
    as_onnxruntime("ScatterElements", [x, once, updates], {"axis": axis})
    for reduction in ("add", "mul", "max", "min"):
        assert_equals_onnxruntime(
            "ScatterElements",
            [x, indices, updates],
            {"axis": axis, "reduction": reduction},
            18,
            tolerance=1e-6,
        )


def test_gather_nd_and_scatter_nd_equal_onnxruntime():
    x = tensor(1, 3, 4, 5)
    for indices in (
        whole(2, 3).reshape(1, 2),
        whole(0, 1, 2).reshape(3, 1),
        whole(2, 3, 4, 0, 0, 0).reshape(2, 3),
    ):
        as_onnxruntime("GatherND", [x, indices])
        for dialect in ("tensorflow", "ascend"):
            equal(
                arrays(Node(dialect, "GatherNd"), [x, indices])[0],
                arrays(Node("onnx", "GatherND"), [x, indices])[0],
            )
        updates = -x[tuple(np.moveaxis(indices, -1, 0))]
        as_onnxruntime("ScatterND", [x, indices, updates])
        equal(
            arrays(Node("ascend", "TensorScatterUpdate"), [x, indices, updates])[0],
            arrays(Node("onnx", "ScatterND"), [x, indices, updates])[0],
        )
    as_onnxruntime("GatherND", [x, whole(0, 1, 2).reshape(3, 1)], {"batch_dims": 1})
    assert_equals_onnxruntime(
        "ScatterND", [x, whole(1, 1).reshape(2, 1), x[:2]], {"reduction": "add"}, 18, tolerance=1e-6
    )
    made = arrays(
        Node("tensorflow", "ScatterNd"), [whole(1, 1).reshape(2, 1), np.float32([2, 3]), whole(4)]
    )[0]
    assert made.tolist() == [0, 5, 0, 0]
    changed = arrays(Node("tensorflow", "ScatterUpdate"), [x, whole(1), x[:1]])[0]
    np.testing.assert_array_equal(changed[1], x[0])
    np.testing.assert_array_equal(changed[::2], x[::2])


def test_errors_of_updates_to_one_place_add_as_squares():
    updates = Value(np.float32([2, 3]), np.array([3.0, 4.0]))
    made = compute(Node("tensorflow", "ScatterNd"), [whole(1, 1).reshape(2, 1), updates, whole(3)])[
        0
    ]
    assert made.error.tolist() == [0, 5, 0]


def test_one_hot_equals_onnxruntime_in_every_dialect():
    indices = np.array([[0, 2], [-1, 5]])
    for axis in (0, 1, -1):
        assert_equals_onnxruntime(
            "OneHot", [indices, whole(3), np.float32([0.5, 2])], {"axis": axis}, tolerance=0
        )
        right = np.moveaxis(np.where(indices[..., None] == np.arange(3), 2, 0.5), -1, axis)
        for dialect in ("tensorflow", "ascend"):
            made = arrays(
                Node(dialect, "OneHot", {"axis": axis}), [indices, whole(3), single(2), single(0.5)]
            )[0]
            np.testing.assert_array_equal(made, right)
        made = arrays(
            Node("ascend", "OneHotD", {"axis": axis, "depth": 3}), [indices, single(2), single(0.5)]
        )[0]
        np.testing.assert_array_equal(made, right)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_equals_onnxruntime_in_every_dialect(mode):
    x = tensor(1, 2, 8, 2, 3)
    as_onnxruntime("DepthToSpace", [x], {"blocksize": 2, "mode": mode})
    as_onnxruntime("SpaceToDepth", [tensor(1, 2, 3, 4, 6)], {"blocksize": 2})
    right = arrays(Node("onnx", "DepthToSpace", {"blocksize": 2, "mode": mode}), [x])[0]
    last = np.moveaxis(x, 1, -1)
    attributes = {"block_size": 2, "mode": mode, "data_format": "NHWC"}
    equal(arrays(Node("ascend", "DepthToSpace", attributes), [last])[0], np.moveaxis(right, 1, -1))
    equal(
        arrays(Node("ascend", "DepthToSpace", {**attributes, "data_format": "NCHW"}), [x])[0], right
    )
    if mode == "DCR":
        made = arrays(Node("tensorflow", "DepthToSpace", {"block_size": 2}), [last])[0]
        equal(made, np.moveaxis(right, 1, -1))
        equal(arrays(Node("tensorflow", "SpaceToDepth", {"block_size": 2}), [made])[0], last)


def test_depth_to_space_equals_tensorflows_documented_example():
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 2, 2, 4)
    right = [[1, 2, 5, 6], [3, 4, 7, 8], [9, 10, 13, 14], [11, 12, 15, 16]]
    assert (
        arrays(Node("tensorflow", "DepthToSpace", {"block_size": 2}), [x])[0][0, :, :, 0].tolist()
        == right
    )


def test_space_to_batch_and_back_equal_plain_loops():
    x = tensor(1, 2, 3, 4, 5)
    block, pads = whole(2, 2), whole(1, 0, 0, 2).reshape(2, 2)
    made = arrays(Node("tensorflow", "SpaceToBatchND"), [x, block, pads])[0]
    padded = np.pad(x, [(0, 0), (1, 0), (0, 2), (0, 0)])
    for i, j, batch in itertools.product(range(2), range(2), range(2)):
        np.testing.assert_array_equal(made[(i * 2 + j) * 2 + batch], padded[batch, i::2, j::2])
    equal(arrays(Node("ascend", "BatchToSpaceND"), [made, block, pads])[0], x)
    equal(
        arrays(
            Node("ascend", "SpaceToBatchNDD", {"block_shape": [2, 2], "paddings": pads.tolist()}),
            [x],
        )[0],
        made,
    )


@pytest.mark.parametrize("dialect", ["caffe", "ascend"])
def test_shuffle_channel_interleaves_groups(dialect):
    x = tensor(1, 2, 6, 2, 2)
    right = x[:, [0, 3, 1, 4, 2, 5]]
    equal(arrays(Node(dialect, "ShuffleChannel", {"group": 2}), [x])[0], right)
    if dialect == "ascend":
        node = Node(dialect, "ShuffleChannel", {"group": 2}, layouts=("NHWC",))
        equal(arrays(node, [np.moveaxis(x, 1, -1)])[0], np.moveaxis(right, 1, -1))


def test_reverse_and_roll_equal_onnxruntime_and_numpy():
    x = tensor(1, 4, 3, 2)
    assert_equals_onnxruntime(
        "ReverseSequence", [x, whole(1, 4, 2)], {"batch_axis": 1, "time_axis": 0}, tolerance=0
    )
    assert_equals_onnxruntime(
        "ReverseSequence", [x, whole(1, 3, 2, 3)], {"batch_axis": 0, "time_axis": 1}, tolerance=0
    )
    errors_follow(Node("onnx", "ReverseSequence"), [x, whole(1, 4, 2)])
    made = arrays(
        Node("tensorflow", "ReverseSequence", {"seq_dim": 0, "batch_dim": 1}), [x, whole(1, 4, 2)]
    )[0]
    equal(made, arrays(Node("onnx", "ReverseSequence"), [x, whole(1, 4, 2)])[0])
    for node, inputs in (
        (Node("tensorflow", "ReverseV2"), [x, whole(-1, 0)]),
        (Node("ascend", "ReverseV2"), [x, whole(-1, 0)]),
        (Node("ascend", "ReverseV2D", {"axis": [-1, 0]}), [x]),
    ):
        equal(arrays(node, inputs)[0], x[::-1, :, ::-1])
    equal(
        arrays(Node("tensorflow", "Roll"), [x, whole(1, -1), whole(0, 1)])[0],
        np.roll(x, (1, -1), (0, 1)),
    )
    equal(
        arrays(Node("ascend", "Roll", {"shifts": [1, -1], "dims": [0, 1]}), [x])[0],
        np.roll(x, (1, -1), (0, 1)),
    )


def test_triangles_and_bands_of_matrices_equal_numpy():
    x = tensor(1, 2, 4, 5)
    for upper, k in itertools.product((0, 1), (-2, 0, 1)):
        as_onnxruntime("Trilu", [x, np.array(k, np.int64)], {"upper": upper})
        equal(
            arrays(Node("ascend", "Triu" if upper else "Tril", {"diagonal": k}), [x])[0],
            np.triu(x, k) if upper else np.tril(x, k),
        )
    made = arrays(Node("tensorflow", "MatrixBandPart"), [x, whole(1), whole(-1)])[0]
    equal(made, np.triu(x, -1))


def test_crop_cuts_at_its_offset():
    x, like = tensor(1, 2, 3, 8, 9), tensor(2, 2, 3, 4, 5)
    for dialect, name in (("caffe", "offset"), ("ascend", "offsets")):
        equal(arrays(Node(dialect, "Crop", {name: [1, 2]}), [x, like])[0], x[:, :, 1:5, 2:7])
        equal(arrays(Node(dialect, "Crop", {name: [2]}), [x, like])[0], x[:, :, 2:6, 2:7])
        equal(
            arrays(Node(dialect, "Crop", {"axis": 3, name: [4]}), [x, tensor(2, 2, 3, 8, 5)])[0],
            x[..., 4:],
        )
        with pytest.raises(CannotCompute, match="crops 4 from 5 on of 8"):
            compute(Node(dialect, "Crop", {name: [5, 0]}), [x, like])


def test_identity_operators_pass_values_on_and_random_ones_are_refused():
    x = tensor(1, 2, 3)
    as_onnxruntime("Identity", [x])
    assert_equals_onnxruntime("Dropout", [x], {}, 13, 2, tolerance=0)
    equal(arrays(Node("caffe", "Dropout", {"dropout_ratio": 0.5}), [x])[0], x)
    equal(arrays(Node("ascend", "TransData"), [x])[0], x)
    for node, inputs in (
        (Node("onnx", "Dropout", version=13), [x, single(0.5), np.array(True)]),
        (Node("onnx", "Dropout", version=6), [x]),
    ):
        with pytest.raises(CannotCompute, match="random"):
            compute(node, inputs)


def test_shape_size_and_range_equal_onnxruntime():
    x = tensor(1, 2, 3, 4)
    assert_equals_onnxruntime("Shape", [x], tolerance=0)
    assert_equals_onnxruntime("Shape", [x], {"start": 1, "end": -1}, tolerance=0)
    assert_equals_onnxruntime("Size", [x], tolerance=0)
    assert_equals_onnxruntime("Range", [single(1), single(3), single(0.75)], tolerance=1e-6)
    assert_equals_onnxruntime("Range", [np.array(5), np.array(-2), np.array(-3)], tolerance=0)
    assert arrays(Node("onnx", "ConstantOfShape"), [whole(2, 3)])[0].tolist() == [[0] * 3] * 2
    assert arrays(Node("onnx", "ConstantOfShape", {"value": np.array([7])}), [whole(2)])[
        0
    ].tolist() == [7, 7]
    assert arrays(Node("onnx", "Constant", {"value_ints": [1, 2]}), [])[0].tolist() == [1, 2]
    assert arrays(Node("tensorflow", "Const", {"value": np.array([1.5])}), [])[0].tolist() == [1.5]
    for dialect in ("tensorflow", "ascend"):
        assert arrays(Node(dialect, "Shape"), [x])[0].tolist() == [2, 3, 4]
        assert int(arrays(Node(dialect, "Size"), [x])[0]) == 24
        assert int(arrays(Node(dialect, "Rank"), [x])[0]) == 3
        assert arrays(Node(dialect, "Fill"), [whole(2), single(1.5)])[0].tolist() == [1.5, 1.5]
        assert arrays(Node(dialect, "OnesLike"), [whole(3, 4)])[0].tolist() == [1, 1]
        assert arrays(Node(dialect, "ZerosLike"), [whole(3, 4)])[0].tolist() == [0, 0]
        assert arrays(Node(dialect, "Range"), [whole(1), whole(6), whole(2)])[0].tolist() == [
            1,
            3,
            5,
        ]
    assert arrays(Node("ascend", "Fills", {"value": 2.0}), [whole(3, 4)])[0].tolist() == [2, 2]
    assert arrays(Node("ascend", "FillD", {"dims": [2]}), [single(1.5)])[0].tolist() == [1.5, 1.5]


def test_float16_values_are_kept_exactly():
    x = np.array([1.0009765625, 65504], np.float16)
    for kind in ("Identity", "Flatten"):
        np.testing.assert_array_equal(
            arrays(Node("onnx", kind), [x])[0].ravel(), x.astype(np.float32)
        )


@pytest.mark.parametrize("dialect", ["onnx", "caffe", "tensorflow", "ascend"])
def test_operators_called_without_inputs_name_what_is_missing(dialect):
    for kind in spellings(dialect):
        if kind == "OptionalHasElement":  # That there is no input is what it tells.
            continue
        with pytest.raises(CannotCompute) as raised:
            compute(Node(dialect, kind), [])
        assert len(str(raised.value)) > 5, kind


def test_moving_operators_are_known_as_such():
    moving = [
        ("onnx", "Concat"),
        ("caffe", "Permute"),
        ("tensorflow", "StridedSlice"),
        ("ascend", "TransData"),
    ]
    assert all(find(*one).moves for one in moving)
    assert not find("onnx", "Add").moves and find("onnx", "Nothing") is None


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_unique_equals_onnxruntime(is_sorted, axis):
    x = np.random.default_rng(2).integers(0, 3, (5, 2)).astype(np.float32)
    attributes = {"sorted": is_sorted, **({} if axis is None else {"axis": axis})}
    right = run_onnxruntime("Unique", [x], attributes, 11, outputs=4)
    for made, expected in zip(arrays(Node("onnx", "Unique", attributes), [x]), right):
        np.testing.assert_array_equal(made, expected)


def test_which_values_are_equal_is_not_known_where_they_may_be_off():
    with pytest.raises(CannotCompute, match="which of its values are equal"):
        compute(Node("onnx", "Unique"), [Value(tensor(1, 4), np.full(4, 1e-3))])


@pytest.mark.parametrize("inputs, there", [([], False), ([None], False), ([single(2)], True)])
def test_has_element_tells_whether_there_is_an_input(inputs, there):
    assert arrays(Node("onnx", "OptionalHasElement"), inputs)[0].tolist() is there
    if there:
        assert arrays(Node("onnx", "OptionalGetElement"), inputs)[0] == 2
