"""Operators computed in parts beside the same computed at once, and what computing them may take."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.model.nodes import TensorDesc
from goldwatch.operators import ASCEND, CAFFE, ONNX, Arithmetic, Node
from goldwatch.recomputing.by_parts import ByParts, Output
from goldwatch.recomputing.evaluating import EXACT, Part, Piece
from goldwatch.recomputing.feeding import Feed
from goldwatch.recomputing.held import Held
from goldwatch.recomputing.nodes import Call
from goldwatch.recomputing.original import NotComputable
from goldwatch.tensors.layouts import convert
from goldwatch.tensors.tensor import Tensor

LARGE = 1 << 40


def onnx(kind, version=17, **attributes):
    return Node(ONNX, kind, attributes, kind, version)


FLIPPED = {"transB": 1, "beta": 0.5}
# (nodes, shapes of what comes in, shapes of constants); a node reads what comes in, or the node before it and the rest, then constants.
CASES = {
    "add": ([onnx("Add")], [(3, 4, 5, 6), (4, 1, 6)], []),
    "add-of-one-picture": ([onnx("Add")], [(1, 6, 5, 7), (1, 6, 5, 7)], []),
    "relu": ([onnx("Relu")], [(5, 30)], []),
    "clip-of-matrix": ([onnx("Sigmoid")], [(1, 1, 90)], []),
    "conv": ([onnx("Conv", pads=[1, 1, 1, 1])], [(4, 3, 6, 5)], [(5, 3, 3, 3), (5,)]),
    "conv-of-one-picture": ([onnx("Conv")], [(1, 3, 6, 5)], [(8, 3, 1, 1), (8,)]),
    "conv-in-groups": ([onnx("Conv", group=2)], [(4, 4, 6, 5)], [(6, 2, 3, 3)]),
    "conv-transposed": ([onnx("ConvTranspose", strides=[2, 2])], [(3, 3, 4, 5)], [(3, 2, 3, 3)]),
    "conv-relu-add": ([onnx("Conv", pads=[1, 1, 1, 1]), onnx("Relu"), onnx("Add")], [(3, 4, 5, 6), None, (3, 4, 5, 6)], [(4, 4, 3, 3)]),
    "depthwise": ([onnx("Conv", group=4)], [(3, 4, 5, 6)], [(4, 1, 3, 3)]),
    "max-pool": ([onnx("MaxPool", kernel_shape=[2, 2])], [(2, 5, 6, 6)], []),
    "average-pool": ([onnx("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])], [(1, 9, 6, 6)], []),
    "global-pool": ([onnx("GlobalAveragePool")], [(2, 9, 6, 6)], []),
    "batch-norm": ([onnx("BatchNormalization")], [(3, 4, 6, 5)], [(4,), (4,), (4,), (4,)]),
    "scale": ([Node(CAFFE, "Scale", {"bias_term": True})], [(3, 4, 6, 5)], [(4,), (4,)]),
    "prelu": ([Node(CAFFE, "PReLU", {})], [(1, 4, 6, 5)], [(4,)]),
    "matmul": ([onnx("MatMul")], [(2, 6, 5), (2, 5, 7)], []),
    "matmul-of-weights": ([onnx("MatMul")], [(1, 6, 5)], [(5, 40)]),
    "gemm": ([onnx("Gemm", **FLIPPED)], [(9, 5)], [(8, 5), (8,)]),
    "matmul-of-ascend": ([Node(ASCEND, "BatchMatMulV2", {"adj_x1": True})], [(3, 5, 6), (1, 5, 8)], []),
    "inner-product": ([Node(CAFFE, "InnerProduct", {"num_output": 6})], [(6, 3, 4)], [(6, 12), (6,)]),
    "softmax": ([onnx("Softmax", axis=1)], [(2, 4, 6, 3)], []),
    "softmax-before-13": ([onnx("Softmax", 11, axis=2)], [(2, 5, 4, 3)], []),
    "layer-norm": ([onnx("LayerNormalization")], [(1, 9, 8)], [(8,), (8,)]),
    "instance-norm": ([onnx("InstanceNormalization")], [(4, 3, 5, 5)], [(3,), (3,)]),
    "mean": ([onnx("ReduceMean", axes=[1, 3], keepdims=0)], [(3, 4, 6, 5)], []),
    "greater": ([onnx("Greater")], [(4, 5, 6), (4, 5, 6)], []),
    "softplus-after-add": ([onnx("Add"), onnx("Softplus")], [(1, 40, 3), (40, 3)], []),
}


class Nodes:
    def __init__(self, nodes, shapes, constants):
        inputs = [(0, place) for place, shape in enumerate(shapes) if shape is not None]
        self.calls = {}
        for number, node in enumerate(nodes, 1):
            last = number == len(nodes) > 1 and shapes[-1] is not None and len(inputs) > 1 and node.type == "Add"
            before = [(number - 1, 0)] if number > 1 else inputs[:1] if None in shapes else inputs
            self.calls[number] = Call(node, [*before, *(inputs[-1:] if last else []), *(constants if number == 1 else [])])

    def call(self, number):
        return self.calls[number]


def job(name, seed, most_bytes=LARGE):
    """Return a case with an output that is right but for rounding to float16 and a wrong element."""
    nodes, shapes, constants = CASES[name]
    random = np.random.RandomState(seed)
    weights = [np.abs(random.standard_normal(shape)).astype(np.float32) + 0.1 for shape in constants]
    fed = {(0, place): random.standard_normal(shape).astype(np.float16) for place, shape in enumerate(shapes) if shape is not None}
    cut = SimpleNamespace(layers=tuple(range(1, len(nodes) + 1)), pulled=(), inputs=[])
    piece = Piece(cut, Nodes(nodes, shapes, weights), list(cut.layers), "float16")
    made = piece.values({value: array.astype(np.float32) for value, array in fed.items()}, EXACT)[len(nodes), 0].array
    if made.dtype.kind == "f":
        made = made.astype(np.float16)
        made[tuple(random.randint(size) for size in made.shape)] += np.float16(0.25)
    else:
        made = made ^ (random.uniform(size=made.shape) < 0.1)
    held = [Held(Feed(Tensor.from_array(array), TensorDesc())) for array in (*fed.values(), made)]
    return ByParts(piece, dict(zip(fed, held)), [Output((len(nodes), 0), held[-1])], most_bytes)


def ways(parts):
    shapes = {value: held.shape for value, held in parts._inputs.items()}
    return parts._piece.cuts(parts._outputs[0].value, shapes)


@given(name=st.sampled_from(sorted(CASES)), seed=st.integers(0, 99), step=st.integers(1, 4), exact=st.booleans())
@settings(max_examples=60, deadline=None)
def test_what_is_computed_in_parts_is_what_is_computed_at_once(name, seed, step, exact):
    arithmetic = EXACT if exact else Arithmetic()
    parts = job(name, seed)
    (whole,) = parts.measure(arithmetic)
    for axis, cuts in ways(parts).items():
        made = [Part(cuts, first, min(first + step, cuts.length)) for first in range(0, cuts.length, step)]
        parts._axis, parts._parts = axis, list(made)
        (found,) = parts.measure(arithmetic)
        assert parts._parts == made and found.decided == whole.decided
        for field, one, other in zip(found.own._fields, found.own, whole.own):
            # What is added up in another order differs by its rounding.
            near = 2e-3 if field in ("distance", "ratio", "slice_ratio", "worst") else 1e-5
            assert one == pytest.approx(other, rel=near, nan_ok=True), (axis, field)


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("add", [0, 1, 2, 3]),
        ("conv", [0, 1]),
        ("conv-in-groups", [0]),
        ("conv-relu-add", [0, 1]),
        ("scale", [0, 2]),
        ("matmul", [0, 1, 2]),
        ("gemm", [0, 1]),
        ("softmax", [0, 2, 3]),
        ("layer-norm", [0, 1]),
        ("mean", [0, 1]),
    ],
)
def test_along_which_axes_operators_are_computed_in_parts(name, axes):
    assert sorted(ways(job(name, 1))) == axes


@pytest.mark.parametrize(("name", "most", "number"), [("add-of-one-picture", 64 * 300, 3), ("relu", 64 * 100, 5), ("mean", LARGE, 1)])
def test_what_does_not_fit_into_memory_is_computed_in_parts(name, most, number):
    assert len(job(name, 1, most)._parts) == number


def test_what_cannot_be_computed_in_parts_and_does_not_fit_is_said_so():
    with pytest.raises(NotComputable, match="its tensors have 240 elements, more than can be computed at once in 0 MiB"):
        job("softmax-before-13", 1, 64 * 2).measure(Arithmetic())


@pytest.mark.parametrize(
    ("shape", "format", "axis", "block"),
    [((4, 20, 3, 2), "NC1HWC0", 0, 1), ((1, 40, 3, 2), "NC1HWC0", 1, 16), ((1, 7, 3, 2), "NCHW", 1, 1), ((3, 5), "ND", 0, 1)],
)
def test_a_tensor_is_read_in_parts(shape, format, axis, block):
    values = np.random.RandomState(3).standard_normal(shape).astype(np.float16)
    stored = values if format in ("ND", "NCHW") else convert(values, "NCHW", format, shape)
    desc = TensorDesc(origin_format="NCHW" if len(shape) == 4 else "ND", origin_shape=shape)
    held = Held(Feed(Tensor.from_array(stored, format), desc))
    assert (held.shape, held.axis, held.block) == (shape, axis, block)
    for first in range(0, shape[axis], block):
        last = min(first + block, shape[axis])
        assert np.array_equal(held.part(axis, first, last), np.take(values, range(first, last), axis))
    assert held._whole is None and np.array_equal(held.part(2 % len(shape), 0, 1), np.take(values, [0], 2 % len(shape)))
