"""Caffe's losses and Accuracy, which have one number as their output.

Sources: the layers of the same names of BVLC Caffe; smooth_L1_loss_layer.cpp of rbgirshick's Fast
R-CNN.
"""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

import numpy as np

from .detection import plain
from .registry import CannotCompute, Inputs, Node, axis_of, operator
from .value_with_error import Arithmetic, Value

Array = Any
# softmax_loss_layer.cpp takes no logarithm of less than FLT_MIN, the layers that extend
# loss_layer.hpp none of less than its kLOG_THRESHOLD.
_FLT_MIN = float(np.finfo(np.float32).tiny)
_LOG_THRESHOLD = 1e-20


def _normalizer(node: Node, default: str, outer: int, inner: int, valid: int) -> float:
    """Return what a sum is divided by. Source: loss_layer.cpp, LossLayer::GetNormalizer."""
    mode = str(node.get("normalization", default))
    if "normalization" not in node.attributes and "normalize" in node.attributes:
        mode = "VALID" if bool(node.get("normalize")) else "BATCH_SIZE"
    numbers = {"FULL": outer * inner, "VALID": valid, "BATCH_SIZE": outer, "NONE": 1}
    if mode not in numbers:
        raise CannotCompute("its normalization %s is not known" % mode)
    return float(max(1, numbers[mode]))


def _by_class(node: Node, x: Array, label: Array) -> Tuple[Array, Array, Array]:
    """Return x as [outer, classes, inner], labels [outer, inner], and which of them count."""
    axis = axis_of(int(node.get("axis", 1)), x.ndim)
    flat = np.asarray(x, np.float64).reshape(int(np.prod(x.shape[:axis])), x.shape[axis], -1)
    labels = np.trunc(label).astype(np.int64).reshape(flat.shape[0], flat.shape[2])
    counts = np.ones(labels.shape, bool)
    if "ignore_label" in node.attributes:
        counts = labels != int(node.get("ignore_label"))
    if ((labels < 0) | (labels >= flat.shape[1]))[counts].any():
        raise CannotCompute("a label is not among its %d classes" % flat.shape[1])
    return flat, np.where(counts, labels, 0), counts


def _softmax(flat: Array) -> Array:
    power = np.exp(flat - flat.max(1, keepdims=True))
    return power / power.sum(1, keepdims=True)


def _number(value: Any) -> Value:
    return Value(np.asarray(value, np.float32))


@operator(caffe=("SoftmaxWithLoss",), sums=True)
def softmax_with_loss(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """The mean of -log of the softmax at each label; the softmax is the second output."""
    x, label = plain(inputs, arithmetic)[:2]
    flat, labels, counts = _by_class(node, x, label)
    parts = _softmax(flat)
    label_shares = np.take_along_axis(parts, labels[:, None, :], 1)[:, 0]
    total = -np.log(np.maximum(label_shares, _FLT_MIN))[counts].sum()
    loss = total / _normalizer(node, "VALID", flat.shape[0], flat.shape[2], int(counts.sum()))
    return [_number(loss), Value(parts.reshape(x.shape).astype(np.float32))]


@operator(caffe=("Accuracy",), decides=True)
def accuracy(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """How many labels are among the ``top_k`` largest (what equals a label's value is ahead of it);
    of each class as second output.
    """
    x, label = plain(inputs, arithmetic)[:2]
    flat, labels, counts = _by_class(node, x, label)
    label_scores = np.take_along_axis(flat, labels[:, None, :], 1)
    ahead = (flat >= label_scores).sum(1) - 1
    right = (ahead < int(node.get("top_k", 1))) & counts
    each = [np.bincount(labels[which], minlength=flat.shape[1]) for which in (right, counts)]
    return [
        _number(right.sum() / max(1, counts.sum())),
        Value((each[0] / np.maximum(each[1], 1)).astype(np.float32)),
    ]


@operator(caffe=("InfogainLoss",), sums=True)
def infogain_loss(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """The softmax' logarithms, weighed by each label's row of a matrix, which is the third
    input.
    """
    if len(inputs) < 3:
        raise CannotCompute("its matrix is in a file; give it as a third bottom")
    x, label, matrix = plain(inputs, arithmetic)[:3]
    flat, labels, counts = _by_class(node, x, label)
    parts = _softmax(flat)
    rows = np.asarray(matrix, np.float64).reshape(flat.shape[1], flat.shape[1])[labels]
    total = (
        -(np.moveaxis(rows, 2, 1) * np.log(np.maximum(parts, _LOG_THRESHOLD))).sum(1)[counts].sum()
    )
    loss = total / _normalizer(node, "VALID", flat.shape[0], flat.shape[2], int(counts.sum()))
    return [_number(loss), Value(parts.reshape(x.shape).astype(np.float32))]


@operator(caffe=("SigmoidCrossEntropyLoss",), sums=True)
def sigmoid_cross_entropy_loss(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """The cross entropy of sigmoids with targets between 0 and 1."""
    x, target = (np.asarray(array, np.float64) for array in plain(inputs, arithmetic)[:2])
    target = target.reshape(x.shape)
    counts = np.ones(x.shape, bool)
    if "ignore_label" in node.attributes:
        counts = np.trunc(target) != int(node.get("ignore_label"))
    each = np.log1p(np.exp(-np.abs(x))) - x * (target - (x >= 0))
    inner = x.size // len(x)
    return [
        _number(
            each[counts].sum() / _normalizer(node, "BATCH_SIZE", len(x), inner, int(counts.sum()))
        )
    ]


def _of_rows(function: Callable[..., Array]) -> Callable[[Node, Inputs, Arithmetic], List[Value]]:
    def compute(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
        arrays = [np.asarray(array, np.float64) for array in plain(inputs, arithmetic)]
        return [_number(function(node, *arrays) / len(arrays[0]))]

    return compute


def _euclidean(node: Node, x: Array, y: Array) -> Array:
    return np.square(x - y.reshape(x.shape)).sum() / 2.0


def _hinge(node: Node, x: Array, label: Array) -> Array:
    flat = x.reshape(len(x), -1).copy()
    rows = np.arange(len(flat))
    flat[rows, np.trunc(label).astype(np.int64).reshape(-1)] *= -1
    over = np.maximum(0.0, 1.0 + flat)
    norm = str(node.get("norm", "L1"))
    if norm not in ("L1", "L2"):
        raise CannotCompute("its norm %s is not known" % norm)
    return over.sum() if norm == "L1" else np.square(over).sum()


def _multinomial(node: Node, x: Array, label: Array) -> Array:
    flat = x.reshape(len(x), -1)
    label_shares = flat[np.arange(len(flat)), np.trunc(label).astype(np.int64).reshape(-1)]
    return -np.log(np.maximum(label_shares, _LOG_THRESHOLD)).sum()


def _contrastive(node: Node, a: Array, b: Array, similar: Array) -> Array:
    squares = np.square(a - b).reshape(len(a), -1).sum(1)
    margin = float(node.get("margin", 1.0))
    if bool(node.get("legacy_version", False)):
        apart = np.maximum(margin - squares, 0.0)
    else:
        apart = np.square(np.maximum(margin - np.sqrt(squares), 0.0))
    return np.where(np.trunc(similar).reshape(-1) != 0, squares, apart).sum() / 2.0


def _smooth(node: Node, x: Array, y: Array, *weights: Array) -> Array:
    square = float(node.get("sigma", 1.0)) ** 2
    off = (x - y.reshape(x.shape)) * (weights[0].reshape(x.shape) if weights else 1.0)
    size = np.abs(off)
    each = np.where(size < 1.0 / square, 0.5 * square * off * off, size - 0.5 / square)
    return (each * (weights[1].reshape(x.shape) if len(weights) > 1 else 1.0)).sum()


for _name, _function in (
    ("EuclideanLoss", _euclidean),
    ("HingeLoss", _hinge),
    ("MultinomialLogisticLoss", _multinomial),
    ("ContrastiveLoss", _contrastive),
    ("SmoothL1Loss", _smooth),
):
    operator(caffe=(_name,), sums=True)(_of_rows(_function))
