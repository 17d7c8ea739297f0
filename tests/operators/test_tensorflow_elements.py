"""Operators of each element, moves, reductions and decisions against TensorFlow 1.15 itself."""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.operators import Arithmetic, Node, check, compute

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def raw():
    return pytest.importorskip("tensorflow").raw_ops


def tensor(seed, *shape):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def whole(*numbers):
    return np.array(numbers, np.int32)


def same(raw, kind, inputs, attributes=None, exact=False):
    """Compute one operator by both; ``inputs`` by their names in the operator's order, those of a
    list under one name.
    """
    import tensorflow

    v1, attributes = tensorflow.compat.v1, attributes or {}
    with v1.Graph().as_default(), v1.Session() as session:
        constants = {
            name: [v1.constant(one) for one in array]
            if isinstance(array, list)
            else v1.constant(array)
            for name, array in inputs.items()
        }
        result = getattr(raw, kind)(**constants, **attributes)
        right = session.run(list(result) if isinstance(result, (tuple, list)) else [result])
    flat = [
        one for array in inputs.values() for one in (array if isinstance(array, list) else [array])
    ]
    node = Node("tensorflow", kind, attributes, outputs=len(right))
    made = [value.array for value in compute(node, flat, Arithmetic(0.0, 0.0, 0.0))]
    for one, other in zip(made, right):
        assert one.shape == other.shape, (kind, attributes)
        finite = np.isfinite(other) if other.dtype.kind == "f" else np.ones(other.shape, bool)
        np.testing.assert_array_equal(one[~finite], other[~finite])
        room = (
            0.0
            if exact or not finite.any()
            else 3e-6 * max(1e-6, float(np.abs(other[finite]).max()))
        )
        assert np.all(np.abs(one[finite].astype(np.float64) - other[finite]) <= room), (
            kind,
            attributes,
        )
    return node, flat, right


def name_of(kind):
    return (
        "features"
        if kind in ("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign")
        else "x"
    )


@pytest.mark.parametrize(
    "kind",
    "Abs Neg Square Exp Expm1 Sin Cos Tan Atan Sinh Cosh Asinh Erf Erfc Sigmoid Tanh Relu "
    "Relu6 LeakyRelu Elu Selu Softplus Softsign "
    "Floor Ceil Round Rint Sign IsNan IsInf IsFinite Reciprocal Inv".split(),
)
def test_operators_of_one_input_equal_tensorflow(raw, kind):
    x = 2 * tensor(0, 3, 20)
    x[0, :3] = -1.5, 2.5, 0.5
    same(raw, kind, {name_of(kind): x})


@pytest.mark.parametrize(
    "kind", ["Log", "Log1p", "Sqrt", "Rsqrt", "Acosh", "Acos", "Asin", "Atanh"]
)
def test_operators_of_one_bounded_input_equal_tensorflow(raw, kind):
    x = np.abs(tensor(0, 3, 20)) + (1 if kind == "Acosh" else 0)
    same(raw, kind, {"x": np.tanh(x) if kind in ("Acos", "Asin", "Atanh") else x})


@pytest.mark.parametrize(
    "kind",
    "Add AddV2 Sub Mul Div RealDiv FloorDiv Mod FloorMod DivNoNan Maximum Minimum "
    "SquaredDifference Atan2 Greater GreaterEqual Less "
    "LessEqual Equal NotEqual Xlogy Xdivy MulNoNan".split(),
)
def test_operators_of_two_inputs_equal_tensorflow(raw, kind):
    a, b = tensor(0, 2, 3, 4), tensor(1, 3, 1)
    a[0, 0, 0] = 0
    if kind in ("DivNoNan", "MulNoNan"):
        b[1] = 0
    first, second = ("y", "x") if kind == "Atan2" else ("x", "y")
    b = np.abs(b) if kind == "Xlogy" else b
    same(raw, kind, {first: a, second: b})


@pytest.mark.parametrize(
    "kind",
    [
        "Div",
        "FloorDiv",
        "FloorMod",
        "TruncateDiv",
        "TruncateMod",
        "Mod",
        "Add",
        "Mul",
        "Pow",
        "BitwiseAnd",
        "BitwiseXor",
    ],
)
def test_arithmetic_of_integers_equals_tensorflow(raw, kind):
    a, b = whole(7, -7, 7, -7, 0), whole(2, 2, -2, -2, 3)
    same(raw, kind, {"x": a, "y": np.abs(b) if kind == "Pow" else b}, exact=True)


def test_operators_of_many_inputs_equal_tensorflow(raw):
    values = [tensor(seed, 2, 3) for seed in range(4)]
    same(raw, "AddN", {"inputs": values})
    same(raw, "Pack", {"values": values}, {"axis": -1}, exact=True)
    same(raw, "ConcatV2", {"values": values, "axis": whole(1)[0]}, exact=True)
    same(raw, "Concat", {"concat_dim": whole(1)[0], "values": values}, exact=True)


def test_biases_selections_and_clipping_equal_tensorflow(raw):
    x = tensor(0, 2, 3, 4, 5)
    same(raw, "BiasAdd", {"value": x, "bias": tensor(1, 5)})
    same(raw, "Select", {"condition": np.array([True, False]), "x": x, "y": -x}, exact=True)
    same(raw, "SelectV2", {"condition": x[:, :1] > 0, "t": x, "e": x[..., :1]}, exact=True)
    same(
        raw,
        "ClipByValue",
        {"t": x, "clip_value_min": np.float32(-1), "clip_value_max": np.float32(0.5)},
        exact=True,
    )
    for kind in ("LogicalAnd", "LogicalOr"):
        same(raw, kind, {"x": x > 0, "y": x[..., :1] > 0}, exact=True)


def test_moves_equal_tensorflow(raw):
    x = tensor(0, 4, 3, 2, 8)
    for kind, inputs, attributes in (
        ("Transpose", {"x": x, "perm": whole(2, 0, 3, 1)}, {}),
        ("Reshape", {"tensor": x, "shape": whole(6, -1)}, {}),
        ("Squeeze", {"input": x[:1, :, :1]}, {"axis": [0]}),
        ("Squeeze", {"input": x[:1, :, :1]}, {}),
        ("ExpandDims", {"input": x, "axis": whole(-2)[0]}, {}),
        ("BroadcastTo", {"input": x[:, :1], "shape": whole(4, 5, 2, 8)}, {}),
        ("ReverseV2", {"tensor": x, "axis": whole(0, -1)}, {}),
        (
            "ReverseSequence",
            {"input": x, "seq_lengths": whole(1, 3, 2, 0)},
            {"seq_dim": 1, "batch_dim": 0},
        ),
        ("Roll", {"input": x, "shift": whole(1, -2), "axis": whole(0, 3)}, {}),
        ("DepthToSpace", {"input": x}, {"block_size": 2}),
        ("SpaceToDepth", {"input": tensor(1, 2, 4, 6, 3)}, {"block_size": 2}),
        (
            "SpaceToBatchND",
            {"input": x, "block_shape": whole(2, 2), "paddings": whole(1, 0, 0, 2).reshape(2, 2)},
            {},
        ),
        (
            "BatchToSpaceND",
            {"input": x, "block_shape": whole(2, 2), "crops": whole(1, 0, 0, 2).reshape(2, 2)},
            {},
        ),
        ("Unpack", {"value": x}, {"num": 3, "axis": 1}),
        ("Split", {"axis": whole(3)[0], "value": x}, {"num_split": 4}),
        (
            "SplitV",
            {"value": x, "size_splits": whole(1, -1), "axis": whole(1)[0]},
            {"num_split": 2},
        ),
        ("Slice", {"input": x, "begin": whole(1, 0, 1, 2), "size": whole(2, -1, 1, 3)}, {}),
        ("Tile", {"input": x, "multiples": whole(1, 2, 1, 2)}, {}),
        ("Pad", {"input": x, "paddings": whole(1, 0, 0, 2, 0, 0, 1, 1).reshape(4, 2)}, {}),
        (
            "PadV2",
            {
                "input": x,
                "paddings": whole(1, 0, 0, 2, 0, 0, 1, 1).reshape(4, 2),
                "constant_values": np.float32(2),
            },
            {},
        ),
        (
            "MirrorPad",
            {"input": x, "paddings": whole(1, 0, 0, 2, 0, 0, 1, 1).reshape(4, 2)},
            {"mode": "REFLECT"},
        ),
        (
            "MirrorPad",
            {"input": x, "paddings": whole(1, 0, 0, 2, 0, 0, 1, 1).reshape(4, 2)},
            {"mode": "SYMMETRIC"},
        ),
        ("Gather", {"params": x, "indices": whole(3, 0)}, {}),
        ("GatherV2", {"params": x, "indices": whole(1, 0, 1), "axis": whole(2)[0]}, {}),
        (
            "GatherV2",
            {
                "params": x,
                "indices": whole(1, 0, 1, 1, 0, 0, 1, 0).reshape(4, 2),
                "axis": whole(2)[0],
            },
            {"batch_dims": 1},
        ),
        ("GatherNd", {"params": x, "indices": whole(1, 0, 3, 2).reshape(2, 2)}, {}),
        (
            "ScatterNd",
            {
                "indices": whole(1, 3).reshape(2, 1),
                "updates": tensor(1, 2, 3),
                "shape": whole(5, 3),
            },
            {},
        ),
        (
            "TensorScatterUpdate",
            {
                "tensor": tensor(1, 5, 3),
                "indices": whole(1, 3).reshape(2, 1),
                "updates": tensor(2, 2, 3),
            },
            {},
        ),
        (
            "OneHot",
            {
                "indices": whole(0, 2, -1, 7),
                "depth": whole(3)[0],
                "on_value": np.float32(2),
                "off_value": np.float32(-1),
            },
            {"axis": 0},
        ),
        ("MatrixBandPart", {"input": x, "num_lower": whole(1)[0], "num_upper": whole(-1)[0]}, {}),
        ("Shape", {"input": x}, {}),
        ("Size", {"input": x}, {}),
        ("Rank", {"input": x}, {}),
        ("Range", {"start": whole(1)[0], "limit": whole(8)[0], "delta": whole(3)[0]}, {}),
        ("Fill", {"dims": whole(2, 3), "value": np.float32(1.5)}, {}),
        ("ZerosLike", {"x": x}, {}),
        ("OnesLike", {"x": x}, {}),
        ("Where", {"condition": x > 1}, {}),
        ("Identity", {"input": x}, {}),
    ):
        same(raw, kind, inputs, attributes, exact=True)


def test_strided_slices_equal_tensorflow(raw):
    x = tensor(0, 4, 5, 6)
    random = np.random.RandomState(0)
    for _ in range(150):
        count = random.randint(1, 4)
        begin, end = random.randint(-7, 8, (2, count))
        strides = random.choice([1, 2, -1, -2], count)
        masks = {name: int(random.randint(0, 2**count)) for name in ("begin_mask", "end_mask")}
        new, ellipsis = random.randint(0, count, 2)
        masks["new_axis_mask"] = 1 << int(new) if random.rand() < 0.3 else 0
        masks["ellipsis_mask"] = (
            1 << int(ellipsis) if random.rand() < 0.3 and new != ellipsis else 0
        )
        inputs = {
            "input": x,
            **{
                name: np.array(one, np.int32)
                for name, one in (("begin", begin), ("end", end), ("strides", strides))
            },
        }
        same(raw, "StridedSlice", inputs, masks, exact=True)
        inside = {
            **inputs,
            "begin": np.array(random.randint(-4, 4, count), np.int32),
            "strides": np.ones(count, np.int32),
        }
        same(
            raw,
            "StridedSlice",
            inside,
            {**masks, "shrink_axis_mask": int(random.randint(0, 2**count))},
            exact=True,
        )


@pytest.mark.parametrize("keep", [False, True])
def test_reductions_equal_tensorflow(raw, keep):
    x = tensor(0, 3, 4, 5)
    for kind in ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"):
        for axes in (whole(0, -1), np.zeros(0, np.int32), whole(1)):
            same(raw, kind, {"input": x, "axis": axes}, {"keep_dims": keep})
    for kind in ("All", "Any"):
        same(raw, kind, {"input": x > 0, "axis": whole(1)}, {"keep_dims": keep})


def test_cumulative_sums_and_l2_loss_equal_tensorflow(raw):
    x = tensor(0, 3, 4, 5)
    same(raw, "L2Loss", {"t": x})
    for kind in ("Cumsum", "Cumprod"):
        for exclusive in (False, True):
            same(
                raw,
                kind,
                {"x": x, "axis": whole(1)[0]},
                {"exclusive": exclusive, "reverse": not exclusive},
            )


def test_arg_max_and_top_k_equal_tensorflow(raw):
    x = np.round(2 * tensor(0, 4, 9))
    for kind in ("ArgMax", "ArgMin"):
        same(raw, kind, {"input": x, "dimension": whole(1)[0]}, exact=True)
    for ordered in (True, False):
        node, inputs, right = same(
            raw, "TopKV2", {"input": x, "k": whole(4)[0]}, {"sorted": True}, exact=True
        )
        assert not any(
            one.any()
            for one in check(Node("tensorflow", "TopKV2", {"sorted": ordered}), inputs, right)
        )


@pytest.mark.parametrize(
    "target", ["float16", "float64", "int8", "int32", "int64", "bool", "uint8"]
)
def test_casts_equal_tensorflow(raw, target):
    import tensorflow

    x = np.abs(20 * tensor(0, 50)) if target == "uint8" else 20 * tensor(0, 50)
    v1 = tensorflow.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        right = session.run(raw.Cast(x=v1.constant(x), DstT=tensorflow.as_dtype(target)))
    made = compute(
        Node("tensorflow", "Cast", {"DstT": tensorflow.as_dtype(target).as_datatype_enum}), [x]
    )[0].array
    np.testing.assert_array_equal(made, right)


def test_fake_quantisation_equals_tensorflow(raw):
    x = 4 * tensor(0, 500)
    for bits, narrow in ((8, False), (8, True), (4, False)):
        attributes = {"num_bits": bits, "narrow_range": narrow}
        for kind, inputs, more in (
            ("FakeQuantWithMinMaxArgs", {"inputs": x}, {"min": -2.5, "max": 5.0}),
            (
                "FakeQuantWithMinMaxVars",
                {"inputs": x, "min": np.float32(-2.5), "max": np.float32(5)},
                {},
            ),
        ):
            node, given, right = same(raw, kind, inputs, {**attributes, **more})
            assert not check(node, given, right)[0].any()
