"""What computes the nodes of the stand-in: not the judge's formulas, where others are there."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from goldwatch.operators import CAFFE, ONNX, TENSORFLOW, CannotCompute, Node
from goldwatch.testing import node_arithmetic
from goldwatch.testing.node_arithmetic import NodeArithmetic

X = np.arange(12, dtype=np.float32).reshape(1, 3, 4) - 5


@pytest.fixture
def judge_away(monkeypatch):
    """The judge's formulas cannot be called."""

    def refuse(*given):
        raise AssertionError("computed by the judge's formulas")

    monkeypatch.setattr(node_arithmetic, "compute", refuse)


@pytest.mark.parametrize(
    "kind, attributes, inputs, right",
    [
        ("LeakyRelu", {"alpha": 0.5}, [X], np.where(X < 0, X / 2, X)),
        ("Transpose", {"perm": [2, 0, 1]}, [X], X.transpose(2, 0, 1)),
        ("Softsign", {}, [X.astype(np.float16)], X / (1 + np.abs(X))),
        ("DepthToSpace", {"blocksize": 1, "mode": "DCR"}, [X[None]], X[None]),
        ("Einsum", {"equation": "abc->acb"}, [X], X.swapaxes(1, 2)),
        ("Gather", {"axis": -1}, [X, np.array([3, 0])], X[..., [3, 0]]),
        ("ConstantOfShape", {"value": np.array([7], np.int32)}, [np.array([2, 1])], [[7], [7]]),
        ("Clip", {}, [X, None, np.float32(2)], np.minimum(X, 2)),
        ("ReduceSum", {"keepdims": 0}, [X], X.sum()),
        (
            "MatMulInteger",
            {},
            [np.full((1, 2), 255, np.uint8), np.full((2, 1), 127, np.int8)],
            [[2 * 255 * 127]],
        ),
    ],
)
def test_a_node_of_onnx_is_computed_by_onnxruntime(judge_away, kind, attributes, inputs, right):
    pytest.importorskip("onnxruntime")
    arithmetic = NodeArithmetic()
    (made,) = arithmetic.compute(Node(ONNX, kind, attributes, "one", 13), inputs)
    np.testing.assert_allclose(made, right, rtol=1e-6)
    (line,) = arithmetic.told()
    assert line.startswith("1 nodes are computed by onnxruntime ")


def test_lists_of_texts_and_of_floats_reach_onnxruntime(judge_away):
    pytest.importorskip("onnxruntime")
    given = {"hidden_size": 2, "activations": ["HardSigmoid"], "activation_alpha": [0.25]}
    given["activation_beta"] = [0.5]
    inputs = [np.ones((1, 1, 1)), np.array([[[1.0], [9.0]]]), np.zeros((1, 2, 2))]
    made = NodeArithmetic().compute(Node(ONNX, "RNN", given, "r", 14, 2), inputs)
    np.testing.assert_allclose(made[1], [[[0.75, 1.0]]])


def test_without_onnxruntime_the_judge_computes_and_this_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    arithmetic = NodeArithmetic()
    arithmetic.compute(Node(ONNX, "Relu", {}, "act", 13), [X])
    arithmetic.compute(Node(TENSORFLOW, "Relu", {}, "other"), [X])
    (line,) = arithmetic.told()
    assert line == (
        "2 nodes are computed by goldwatch.operators (Relu), by which compare computes them again:"
        " that it calls them right proves nothing"
    )


def test_an_operator_that_onnxruntime_lacks_is_left_to_the_judge():
    arithmetic = NodeArithmetic()
    with pytest.raises(CannotCompute):
        arithmetic.compute(Node(ONNX, "NoSuchOperator", {}, "n", 13), [X])
    assert arithmetic.told() == []


def test_layers_of_caffe_are_computed_by_formulas_of_the_stand_in(judge_away):
    arithmetic = NodeArithmetic()
    node = Node(CAFFE, "InnerProduct", {"num_output": 2}, "fc")
    (made,) = arithmetic.compute(node, [X, np.ones((2, 12)), np.array([1.0, 2.0])])
    np.testing.assert_allclose(made, [[X.sum() + 1, X.sum() + 2]])
    assert made.dtype == np.float32
    assert arithmetic.told() == ["1 nodes are computed by formulas of the stand-in's own"]
    with pytest.raises(CannotCompute, match="axis 7"):
        arithmetic.compute(Node(CAFFE, "Softmax", {"axis": 7}, "s"), [X])
