"""Operators computed in parts give what they give as a whole, within bounded memory."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.model.op_node import TensorDesc
from goldwatch.operators import ASCEND, CAFFE, ONNX, TENSORFLOW, Arithmetic, CannotCompute, Node
from goldwatch.recomputing.input_feeds import Feed
from goldwatch.recomputing.original_cuts import NotComputable
from goldwatch.recomputing.original_nodes import Call
from goldwatch.recomputing.partwise_comparison import Output, PartwiseComparison
from goldwatch.recomputing.piece import EXACT, Piece
from goldwatch.recomputing.recorded_tensor import RecordedTensor
from goldwatch.tensors.layout_conversion import convert
from goldwatch.tensors.tensor import Tensor

LARGE = 1 << 40


def onnx(kind, version=17, **attributes):
    return Node(ONNX, kind, attributes, kind, version)


FLIPPED = {"transB": 1, "beta": 0.5}
# (nodes, shapes of what comes in, shapes of constants); a node reads what comes in, or the node
# before it and the rest, then constants.
CASES = {
    "add": ([onnx("Add")], [(3, 4, 5, 6), (4, 1, 6)], []),
    "add-of-one-picture": ([onnx("Add")], [(1, 6, 5, 7), (1, 6, 5, 7)], []),
    "relu": ([onnx("Relu")], [(5, 30)], []),
    "clip-of-matrix": ([onnx("Sigmoid")], [(1, 1, 90)], []),
    "conv": ([onnx("Conv", pads=[1, 1, 1, 1])], [(4, 3, 6, 5)], [(5, 3, 3, 3), (5,)]),
    "conv-of-one-picture": ([onnx("Conv")], [(1, 3, 6, 5)], [(8, 3, 1, 1), (8,)]),
    "conv-in-groups": ([onnx("Conv", group=2)], [(4, 4, 6, 5)], [(6, 2, 3, 3)]),
    "conv-transposed": ([onnx("ConvTranspose", strides=[2, 2])], [(3, 3, 4, 5)], [(3, 2, 3, 3)]),
    "conv-relu-add": (
        [onnx("Conv", pads=[1, 1, 1, 1]), onnx("Relu"), onnx("Add")],
        [(3, 4, 5, 6), None, (3, 4, 5, 6)],
        [(4, 4, 3, 3)],
    ),
    "conv-of-steps": (
        [onnx("Conv", pads=[2, 0, 1, 1], strides=[2, 3], dilations=[1, 2])],
        [(1, 3, 15, 17)],
        [(4, 3, 4, 3)],
    ),
    "conv-of-few-rows": ([onnx("Conv", strides=[4, 4])], [(1, 3, 23, 18)], [(4, 3, 2, 2)]),
    "conv-of-same-size": (
        [onnx("Conv", auto_pad="SAME_LOWER", strides=[2, 3])],
        [(1, 3, 15, 16)],
        [(4, 3, 3, 4)],
    ),
    "conv-after-conv": (
        [onnx("Conv", pads=[1, 1, 1, 1]), onnx("Relu")],
        [(1, 3, 9, 8)],
        [(4, 3, 3, 3)],
    ),
    "conv-and-pool": (
        [
            onnx("Conv", pads=[1, 1, 1, 1]),
            onnx("Relu"),
            onnx("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        ],
        [(1, 3, 13, 12)],
        [(4, 3, 3, 3)],
    ),
    "conv-of-caffe": (
        [
            Node(
                CAFFE,
                "Convolution",
                {"num_output": 4, "kernel_size": [3], "stride": [2], "pad": [1]},
            )
        ],
        [(1, 3, 14, 15)],
        [(4, 3, 3, 3), (4,)],
    ),
    "conv-of-tensorflow": (
        [
            Node(
                TENSORFLOW,
                "Conv2D",
                {"strides": [1, 2, 2, 1], "padding": "SAME", "data_format": "NHWC"},
            )
        ],
        [(1, 15, 16, 3)],
        [(4, 3, 3, 5)],
    ),
    "depthwise-of-tensorflow": (
        [Node(TENSORFLOW, "DepthwiseConv2dNative", {"strides": [1, 2, 2, 1], "padding": "VALID"})],
        [(1, 15, 16, 3)],
        [(2, 3, 3, 2)],
    ),
    "depthwise": ([onnx("Conv", group=4)], [(3, 4, 5, 6)], [(4, 1, 3, 3)]),
    "max-pool": ([onnx("MaxPool", kernel_shape=[2, 2])], [(2, 5, 6, 6)], []),
    "max-pool-of-ceiling": (
        [onnx("MaxPool", kernel_shape=[3, 2], strides=[2, 3], pads=[1, 1, 0, 0], ceil_mode=1)],
        [(1, 2, 14, 17)],
        [],
    ),
    "average-pool-of-ceiling": (
        [
            onnx(
                "AveragePool",
                19,
                kernel_shape=[3, 3],
                strides=[2, 2],
                pads=[1, 0, 1, 1],
                ceil_mode=1,
                dilations=[1, 2],
            )
        ],
        [(1, 2, 14, 17)],
        [],
    ),
    "average-pool-with-pads": (
        [
            onnx(
                "AveragePool",
                kernel_shape=[4, 3],
                strides=[3, 2],
                pads=[2, 1, 2, 1],
                count_include_pad=1,
            )
        ],
        [(1, 2, 14, 17)],
        [],
    ),
    "pool-of-caffe": (
        [Node(CAFFE, "Pooling", {"pool": "AVE", "kernel_size": [3], "stride": [2], "pad": [1]})],
        [(1, 2, 14, 17)],
        [],
    ),
    "max-pool-of-caffe": (
        [Node(CAFFE, "Pooling", {"pool": "MAX", "kernel_size": [3], "stride": [2]})],
        [(1, 2, 14, 17)],
        [],
    ),
    "pool-of-tensorflow": (
        [
            Node(
                TENSORFLOW,
                "AvgPool",
                {"ksize": [1, 3, 2, 1], "strides": [1, 2, 3, 1], "padding": "SAME"},
            )
        ],
        [(1, 14, 16, 3)],
        [],
    ),
    "average-pool": (
        [onnx("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
        [(1, 9, 6, 6)],
        [],
    ),
    "global-pool": ([onnx("GlobalAveragePool")], [(2, 9, 6, 6)], []),
    "batch-norm": ([onnx("BatchNormalization")], [(3, 4, 6, 5)], [(4,), (4,), (4,), (4,)]),
    "scale": ([Node(CAFFE, "Scale", {"bias_term": True})], [(3, 4, 6, 5)], [(4,), (4,)]),
    "prelu": ([Node(CAFFE, "PReLU", {})], [(1, 4, 6, 5)], [(4,)]),
    "matmul": ([onnx("MatMul")], [(2, 6, 5), (2, 5, 7)], []),
    "matmul-of-weights": ([onnx("MatMul")], [(1, 6, 5)], [(5, 40)]),
    "gemm": ([onnx("Gemm", **FLIPPED)], [(9, 5)], [(8, 5), (8,)]),
    "matmul-of-ascend": (
        [Node(ASCEND, "BatchMatMulV2", {"adj_x1": True})],
        [(3, 5, 6), (1, 5, 8)],
        [],
    ),
    "inner-product": (
        [Node(CAFFE, "InnerProduct", {"num_output": 6})],
        [(6, 3, 4)],
        [(6, 12), (6,)],
    ),
    "softmax": ([onnx("Softmax", axis=1)], [(2, 4, 6, 3)], []),
    "softmax-before-13": ([onnx("Softmax", 11, axis=2)], [(2, 5, 4, 3)], []),
    "layer-norm": ([onnx("LayerNormalization")], [(1, 9, 8)], [(8,), (8,)]),
    "instance-norm": ([onnx("InstanceNormalization")], [(4, 3, 5, 5)], [(3,), (3,)]),
    "mean": ([onnx("ReduceMean", axes=[1, 3], keepdims=0)], [(3, 4, 6, 5)], []),
    "mean-of-axes-told": ([onnx("ReduceMean", 18, keepdims=1)], [(3, 4, 6, 5)], [np.array([1, 3])]),
    "transpose": ([onnx("Transpose", perm=[0, 2, 3, 1])], [(2, 4, 6, 5)], []),
    "transpose-of-tensorflow": (
        [Node(TENSORFLOW, "Transpose", {})],
        [(2, 4, 6, 5)],
        [np.array([3, 0, 2, 1])],
    ),
    "permute": ([Node(CAFFE, "Permute", {"order": [0, 2]})], [(2, 4, 6, 5)], []),
    "concat": ([onnx("Concat", axis=-3)], [(2, 4, 6, 5), (2, 3, 6, 5)], []),
    "concat-of-tensorflow": (
        [Node(TENSORFLOW, "ConcatV2", {})],
        [(2, 4, 6, 5), (2, 4, 6, 2)],
        [np.array(3)],
    ),
    "argmax": ([onnx("ArgMax", axis=1, keepdims=1)], [(2, 4, 6, 5)], []),
    "argmax-of-tensorflow": ([Node(TENSORFLOW, "ArgMax", {})], [(2, 4, 6, 5)], [np.array(3)]),
    "resize": (
        [onnx("Resize", mode="linear")],
        [(2, 4, 6, 5)],
        [np.zeros(0, np.float32), np.array([1, 1, 2, 1.5], np.float32)],
    ),
    "resize-to-sizes": (
        [onnx("Resize", 18, mode="nearest", axes=[2, 3])],
        [(2, 4, 6, 5)],
        [np.zeros(0, np.float32), np.zeros(0, np.float32), np.array([12, 9])],
    ),
    "upsample": (
        [onnx("Upsample", 9, mode="nearest")],
        [(2, 4, 6, 5)],
        [np.array([1, 1, 2, 2], np.float32)],
    ),
    "resize-of-tensorflow": (
        [Node(TENSORFLOW, "ResizeBilinear", {})],
        [(2, 6, 5, 4)],
        [np.array([9, 12])],
    ),
    "interp": ([Node(CAFFE, "Interp", {"height": 11, "width": 9})], [(2, 4, 6, 5)], []),
    "response": ([onnx("LRN", size=5)], [(2, 8, 6, 5)], []),
    "response-of-caffe": (
        [Node(CAFFE, "LRN", {"local_size": 3, "norm_region": "WITHIN_CHANNEL"})],
        [(2, 8, 6, 5)],
        [],
    ),
    "greater": ([onnx("Greater")], [(4, 5, 6), (4, 5, 6)], []),
    "softplus-after-add": ([onnx("Add"), onnx("Softplus")], [(1, 40, 3), (40, 3)], []),
}


class Nodes:
    def __init__(self, nodes, shapes, constants):
        inputs = [(0, place) for place, shape in enumerate(shapes) if shape is not None]
        self.calls = {}
        for number, node in enumerate(nodes, 1):
            last = (
                number == len(nodes) > 1
                and shapes[-1] is not None
                and len(inputs) > 1
                and node.type == "Add"
            )
            before = [(number - 1, 0)] if number > 1 else inputs[:1] if None in shapes else inputs
            self.calls[number] = Call(
                node, [*before, *(inputs[-1:] if last else []), *(constants if number == 1 else [])]
            )

    def call(self, number):
        return self.calls[number]


def job(name, seed, most_bytes=LARGE):
    """Return a case with an output that is right but for rounding to float16 and a wrong
    element.
    """
    nodes, shapes, constants = CASES[name]
    random = np.random.RandomState(seed)
    weights = [
        shape
        if isinstance(shape, np.ndarray)
        else np.abs(random.standard_normal(shape)).astype(np.float32) + 0.1
        for shape in constants
    ]
    fed = {
        (0, place): random.standard_normal(shape).astype(np.float16)
        for place, shape in enumerate(shapes)
        if shape is not None
    }
    cut = SimpleNamespace(layers=tuple(range(1, len(nodes) + 1)), pulled=(), inputs=[])
    piece = Piece(cut, Nodes(nodes, shapes, weights), list(cut.layers), "float16")
    made = piece.values({value: array.astype(np.float32) for value, array in fed.items()}, EXACT)[
        len(nodes), 0
    ].array
    if made.dtype.kind == "f":
        made = made.astype(np.float16)
        made[tuple(random.randint(size) for size in made.shape)] += np.float16(0.25)
    else:
        wrong = random.uniform(size=made.shape) < 0.1
        made = made ^ wrong if made.dtype.kind == "b" else made + wrong
    held = [
        RecordedTensor(Feed(Tensor.from_array(array), TensorDesc()))
        for array in (*fed.values(), made)
    ]
    return PartwiseComparison(
        piece, dict(zip(fed, held)), [Output((len(nodes), 0), held[-1])], most_bytes
    )


def ways(parts):
    shapes = {value: held.shape for value, held in parts._inputs.items()}
    return parts._piece.cuts(parts._outputs[0].value, shapes)


@given(
    name=st.sampled_from(sorted(CASES)),
    seed=st.integers(0, 99),
    step=st.integers(1, 4),
    exact=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_operators_computed_in_parts_give_the_same_errors(name, seed, step, exact):
    arithmetic = EXACT if exact else Arithmetic()
    parts = job(name, seed)
    (whole,) = parts.measure(arithmetic)
    for axis, cuts in ways(parts).items():
        made = [
            cuts.part(first, min(first + step, cuts.length))
            for first in range(0, cuts.length, step)
        ]
        parts._axis, parts._parts = axis, list(made)
        (found,) = parts.measure(arithmetic)
        assert parts._parts == made and found.decided == whole.decided
        for field, one, other in zip(found.error._fields, found.error, whole.error):
            # What is added up in another order differs by its rounding.
            near = 2e-3 if field in ("distance", "ratio", "slice_ratio", "worst") else 1e-5
            assert one == pytest.approx(other, rel=near, nan_ok=True), (axis, field)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_windows_of_any_size_computed_in_parts_give_the_same_errors(data):
    draw = data.draw
    kernel, strides, dilations = (
        [draw(st.integers(1, most)) for _ in range(2)] for most in (4, 4, 3)
    )
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations)]
    pads = [draw(st.integers(0, size - 1)) for size in kernel * 2]
    sizes = [draw(st.integers(size, size + 20)) for size in reach]
    attributes = {"strides": strides, "dilations": dilations, "pads": pads}
    kind = draw(st.sampled_from(["Conv", "MaxPool", "AveragePool"]))
    if kind == "Conv":
        mode = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
        attributes = (
            attributes
            if mode == "NOTSET"
            else {"strides": strides, "dilations": dilations, "auto_pad": mode}
        )
    else:
        attributes.update(kernel_shape=kernel, ceil_mode=draw(st.integers(0, 1)))
        attributes.update(count_include_pad=draw(st.integers(0, 1)))
    constants = [(2, 3, *kernel)] if kind == "Conv" else []
    CASES["drawn"] = ([onnx(kind, 19, **attributes)], [(1, 3, *sizes)], constants)
    try:
        parts = job("drawn", draw(st.integers(0, 9)))
    except CannotCompute:
        return
    finally:
        case = CASES.pop("drawn")
    (whole,) = parts.measure(Arithmetic())
    fed = {value: held.wide() for value, held in parts._inputs.items()}
    made = parts._piece.values(fed, Arithmetic())[1, 0]
    found = ways(parts)
    # One window that is the whole picture has nothing to be cut.
    assert {2, 3} <= set(found) or kernel == sizes, case
    for axis in sorted({2, 3} & set(found)):
        step = draw(st.integers(1, 5))
        for first in range(0, found[axis].length, step):
            part = found[axis].part(first, min(first + step, found[axis].length))
            cut = {
                value: array[(slice(None),) * axis + (slice(*part.ranges[value]),)]
                for value, array in fed.items()
            }
            value = parts._piece.values(cut, Arithmetic(), part)[1, 0]
            at = (slice(None),) * axis + (slice(part.first, part.last),)
            # Sums of products as large as the largest value may nearly cancel (1.3e-6 beside 93).
            off = 1e-6 * max(1.0, float(np.abs(made.array).max()))
            assert value.array == pytest.approx(made.array[at], rel=1e-5, abs=off), (
                axis,
                part.first,
            )
            if made.error is not None:
                assert value.error == pytest.approx(
                    np.broadcast_to(made.error, made.array.shape)[at], rel=1e-5, abs=1e-9
                )


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("add", [0, 1, 2, 3]),
        ("conv", [0, 1, 2, 3]),
        ("conv-in-groups", [0, 2, 3]),
        ("conv-relu-add", [0, 1, 2, 3]),
        ("max-pool-of-ceiling", [0, 1, 2, 3]),
        ("pool-of-tensorflow", [0, 1, 2]),
        ("conv-of-tensorflow", [0, 1, 2]),
        ("global-pool", [0, 1]),
        ("scale", [0, 2]),
        ("matmul", [0, 1, 2]),
        ("gemm", [0, 1]),
        ("softmax", [0, 2, 3]),
        ("layer-norm", [0, 1]),
        ("mean", [0, 1]),
        ("mean-of-axes-told", [0, 2]),
        ("transpose", [0, 1, 2, 3]),
        ("concat", [0, 2, 3]),
        ("concat-of-tensorflow", [0, 1, 2]),
        ("argmax", [0, 2, 3]),
        ("argmax-of-tensorflow", [0, 1, 2]),
        ("resize", [0, 1]),
        ("resize-to-sizes", [0, 1]),
        ("resize-of-tensorflow", [0, 3]),
        ("instance-norm", [0, 1]),
        ("response", [0, 2, 3]),
        ("response-of-caffe", [0, 1]),
    ],
)
def test_the_axes_along_which_operators_are_split_are_known(name, axes):
    assert sorted(ways(job(name, 1))) == axes


@pytest.mark.parametrize(
    ("name", "most", "number"),
    [("add-of-one-picture", 64 * 300, 3), ("relu", 64 * 100, 5), ("mean", LARGE, 1)],
)
def test_a_tensor_beyond_the_memory_limit_is_computed_in_parts(name, most, number):
    assert len(job(name, 1, most)._parts) == number


def test_an_operator_that_cannot_be_split_and_does_not_fit_is_refused():
    with pytest.raises(
        NotComputable,
        match="its tensors have 240 elements, more than can be computed at once in 0 MiB",
    ):
        job("softmax-before-13", 1, 64 * 2).measure(Arithmetic())


@pytest.mark.parametrize(
    ("shape", "format", "axis", "block"),
    [
        ((4, 20, 3, 2), "NC1HWC0", 0, 1),
        ((1, 40, 3, 2), "NC1HWC0", 1, 16),
        ((1, 7, 3, 2), "NCHW", 1, 1),
        ((3, 5), "ND", 0, 1),
    ],
)
def test_a_stored_tensor_is_read_in_parts(shape, format, axis, block):
    values = np.random.RandomState(3).standard_normal(shape).astype(np.float16)
    stored = values if format in ("ND", "NCHW") else convert(values, "NCHW", format, shape)
    desc = TensorDesc(origin_format="NCHW" if len(shape) == 4 else "ND", origin_shape=shape)
    held = RecordedTensor(Feed(Tensor.from_array(stored, format), desc))
    assert (held.shape, held.axis, held.block) == (shape, axis, block)
    for first in range(0, shape[axis], block):
        last = min(first + block, shape[axis])
        assert np.array_equal(
            held.part(axis, first, last), np.take(values, range(first, last), axis)
        )
    assert held._whole is None and np.array_equal(
        held.part(2 % len(shape), 0, 1), np.take(values, [0], 2 % len(shape))
    )
